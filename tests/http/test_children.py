# SPDX-License-Identifier: MIT
"""Compilation by child processes: cold, warm, after the death of a child, and at every kind of server end."""

import concurrent.futures
import glob
import json
import os
import signal
import socket
import tempfile
import threading
import time
import unittest

from fixture import Server, graph, head

RUN = "/api/v1/run"


def children(pid):
    """Returns the child processes of a process."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as file:
            found += [int(word) for word in file.read().split()]
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until(done, seconds=10):
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return done()


def several(n):
    """Returns a graph of n unrelated kernels, and its results for ones."""
    nodes, outputs = [], []
    for i in range(n):
        shape = [2, i + 2]
        nodes += [{"id": f"e{i}", "op": "expand", "in": ["x"], "attrs": {"shape": shape}}, {"id": f"y{i}", "op": "sum", "in": [f"e{i}"], "attrs": {"axis": 1}}]
        outputs.append(f"y{i}")
    return {"inputs": {"x": [[1], [1]]}, "nodes": nodes, "outputs": outputs}


class Children(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.env = {"BEAMLINE_CACHE": self.folder.name, "POCL_CACHE_DIR": os.path.join(self.folder.name, "pocl")}
        os.mkdir(self.env["POCL_CACHE_DIR"])

    def serve(self, *args, **env):
        server = Server("--backends", "opencl,interp", "--tune=off", "--interpret-first=off", *args, env={**self.env, **env})
        self.addCleanup(server.stop)
        if not any(device["id"] == "opencl:0" for device in server.call("GET", "/api/v1/devices").json["devices"]):
            self.skipTest("no OpenCL device")
        return server

    def run_well(self, server, n=5):
        answer = server.call("POST", RUN, several(n), timeout=120)
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([[float(i + 2)] * 2 for i in range(n)], [answer.json["outputs"][f"y{i}"]["data"] for i in range(n)])

    def stop(self, server):
        """The server stops with status 0 and ends its children."""
        mine = children(server.process.pid)
        self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        self.assertFalse([pid for pid in mine if is_alive(pid)])
        return mine

    def test_cold_and_warm(self):
        server = self.serve()
        self.assertEqual([], children(server.process.pid))
        self.run_well(server)
        begun = children(server.process.pid)
        self.assertIn(len(begun), (1, 2))
        self.run_well(server, 6)
        self.assertTrue(set(begun) <= set(children(server.process.pid)))  # the children are kept
        self.stop(server)
        server = self.serve()
        self.run_well(server)
        self.assertEqual([], self.stop(server))

    def test_two_servers_compile_at_once(self):
        """Two servers with one empty cache and one PoCL folder compile the same kernels at the same time: neither reads an
        unfinished file and aborts."""
        servers = [self.serve(), self.serve()]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(self.run_well, server, n) for n in (40, 41, 42, 1) for server in servers]:
                done.result()
        self.assertEqual(2, len(os.listdir(self.env["POCL_CACHE_DIR"])))  # a folder for each server
        for server in servers:
            self.stop(server)
        self.assertEqual([], os.listdir(self.env["POCL_CACHE_DIR"]))

    def test_a_killed_servers_folder_goes(self):
        """The next server removes the PoCL folder of a killed server."""
        server = self.serve()
        self.run_well(server)
        server.process.kill()
        server.process.wait()
        self.assertEqual(1, len(os.listdir(self.env["POCL_CACHE_DIR"])))
        left = os.listdir(self.env["POCL_CACHE_DIR"])
        server = self.serve()
        self.assertFalse(set(left) & set(os.listdir(self.env["POCL_CACHE_DIR"])))
        self.run_well(server)
        self.stop(server)

    def test_what_kernels_bring_along_is_compiled_once(self):
        """Kernels that need the same functions are compiled as one program."""
        inputs, nodes, outputs = {"x": [0.5] * 2048}, [], []
        for i in (96, 160):  # large enough for separate launches
            inputs[f"y{i}"], inputs[f"n{i}"] = [[float(k)] for k in range(i)], {"dtype": "int32", "shape": [i, 1], "data": [7] * i}
            nodes += [{"id": f"a{i}", "op": "add", "in": ["x", f"y{i}"]}, {"id": f"s{i}", "op": "sin", "in": [f"a{i}"]},
                      {"id": f"h{i}", "op": "cast", "in": [f"s{i}"], "attrs": {"dtype": "float16"}}, {"id": f"m{i}", "op": "max", "in": [f"h{i}"], "attrs": {"axis": 1}},
                      {"id": f"d{i}", "op": "floor_div", "in": [f"n{i}", f"n{i}"]}]
            outputs += [f"m{i}", f"d{i}"]
        server = self.serve("--compile-processes", "1")
        folder = os.path.join(self.folder.name, "opencl")
        before = len(os.listdir(folder)) if os.path.isdir(folder) else 0  # probes of device features
        answer = server.call("POST", RUN, {"inputs": inputs, "nodes": nodes, "outputs": outputs}, timeout=120)
        self.assertEqual(200, answer.status, answer.body)
        kernels = answer.json["stats"]["kernels"] + answer.json["stats"]["helpers"]
        self.assertGreater(kernels, 1)
        self.assertEqual(kernels + 1, len(os.listdir(folder)) - before)
        self.stop(server)

    def test_initialisers_are_compiled_with_the_entry(self):
        """Eight kernels of initialisers and the kernel that uses the states are compiled as one program."""
        states = {f"w{i}": {"op": "uniform", "attrs": {"shape": [3, i + 5]}} for i in range(8)}
        nodes = [{"id": f"s{i}", "op": "sum", "in": [f"w{i}"]} for i in range(8)]
        server = self.serve("--compile-processes", "1")
        folder = os.path.join(self.folder.name, "opencl")
        before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        answer = server.call("PUT", "/api/v1/programs/sums", {"inputs": {}, "state": states, "nodes": nodes, "outputs": [f"s{i}" for i in range(8)]}, timeout=120)
        self.assertEqual(201, answer.status, answer.body)
        magic = []
        for name in set(os.listdir(folder)) - before:
            with open(os.path.join(folder, name), "rb") as file:
                magic.append(file.read(8))
        self.assertEqual(1, magic.count(b"blclbin1"))
        self.assertGreater(magic.count(b"blclmem1"), 8)
        self.stop(server)

    def test_a_search_times_its_candidates(self):
        """No child that runs candidates of a search dies."""
        server = self.serve()
        matrix = {"dtype": "float32", "shape": [48, 48], "data": [0.5] * 48 * 48}
        answer = server.call("POST", RUN, {"inputs": {"a": matrix, "b": matrix}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"],
                                           "beam": 1, "timeout_ms": 120000}, timeout=120)
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual([1], [kernel["beam"] for kernel in server.call("GET", "/api/v1/kernels").json["kernels"]])
        self.assertNotIn("a child process", server.log_text())
        self.stop(server)

    def test_without(self):
        server = self.serve("--compile-processes", "0")
        self.run_well(server)
        self.assertEqual([], self.stop(server))

    def test_t14_one_that_dies_is_no_failure(self):
        for nth in (1, 2):
            server = self.serve("--compile-processes", "1", BEAMLINE_FAULT=f"child:{nth}")
            self.run_well(server, 5 + nth)
            self.run_well(server, 15 + nth)
            self.stop(server)
            self.assertIn("a child process died", server.log_text())

    def test_t14_one_that_is_killed_is_no_failure(self):
        server = self.serve()
        self.run_well(server)
        for pid in children(server.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.run_well(server, 7)
        self.assertTrue(wait_until(lambda: all(is_alive(pid) for pid in children(server.process.pid))))  # no zombie remains
        self.stop(server)

    def compile_long(self, server):
        """Starts a request whose kernels take seconds to compile.  Returns it and the children that compile."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.call("POST", RUN, several(60), timeout=120)))
        thread.start()
        self.addCleanup(thread.join)
        self.assertTrue(wait_until(lambda: children(server.process.pid)))
        return thread, answers

    def test_t25_sigterm_while_compiling(self):
        server = self.serve("--grace", "0.2")
        thread, answers = self.compile_long(server)
        begin = time.monotonic()
        self.stop(server)
        self.assertLess(time.monotonic() - begin, 3)
        thread.join()
        self.assertEqual(503, answers[0].status, answers[0].body)

    def kept(self):
        folder = os.path.join(self.folder.name, "opencl")
        return len(os.listdir(folder)) if os.path.isdir(folder) else 0

    def test_t27_who_leaves_ends_their_work(self):
        server = self.serve()
        body = json.dumps(several(60)).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(head("POST", RUN, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
            self.assertTrue(wait_until(lambda: children(server.process.pid)))
        self.assertEqual(1, server.settled("cancelled_total", 1))
        self.assertEqual(0, server.settled('queue_length{device="compiler"}', 0, 60))
        before = self.kept()
        self.run_well(server, 60)
        self.assertGreater(self.kept(), before)  # the kernel was not compiled before
        self.stop(server)

    def test_a_server_that_is_killed_leaves_none(self):
        server = self.serve()
        thread = threading.Thread(target=lambda: self.assertRaises(OSError, server.call, "POST", RUN, several(60), timeout=120))
        thread.start()
        self.assertTrue(wait_until(lambda: children(server.process.pid)))
        mine = children(server.process.pid)
        server.process.kill()
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in mine), 3))
        thread.join()

    def test_a_graph_that_needs_none_goes_on_beside(self):
        server = self.serve()
        self.run_well(server, 1)
        _, answers = self.compile_long(server)
        begin = time.monotonic()
        for _ in range(5):
            self.run_well(server, 1)
            self.assertEqual(200, server.call("POST", RUN, graph(device="interp:0")).status)
        self.assertLess(time.monotonic() - begin, 5)
        server.stop()
        self.assertEqual(200, answers[0].status, answers[0].body[:500])


if __name__ == "__main__":
    unittest.main()
