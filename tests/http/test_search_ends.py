# SPDX-License-Identifier: MIT
"""Searches without a waiting client: after the deadline of the request, or after a disconnect; other waiting clients, and the
stored results."""

import json
import os
import socket
import tempfile
import threading
import time
import unittest

from fixture import Server, graph, head

LATE = 0.1  # allowed delay of an answer after its deadline on a busy machine, in seconds
SPARE = 0.6
LONG = {"interp": 96, "opencl": 512}  # rows of a product whose search with a beam of 16 takes at least half a minute


def product(rows, **members):
    matrix = [[(i * 7 + j * 3) % 11 - 5 for j in range(rows)] for i in range(rows)]
    return {"inputs": {"a": matrix, "b": matrix}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}, {"id": "s", "op": "sum", "in": ["y"]}],
            "outputs": ["s"], **members}


def children(parent):
    """Returns the child processes of a process, with the processor time of each."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found[int(name)] = int(words[11]) + int(words[12])
    return found


class SearchEnds:
    """Tests for one back end."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--backends", cls.BACKEND, "--beam-seconds", "120", "--tune=off", "--interpret-first=off", env={"BEAMLINE_CACHE": cls.folder.name})
        devices = cls.server.call("GET", "/api/v1/devices").json["devices"]
        if not devices[0]["id"].startswith(cls.BACKEND):
            cls.server.stop()
            raise unittest.SkipTest(f"no device of {cls.BACKEND}")

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        cls.folder.cleanup()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.server.log_text()[-3000:])

    def setUp(self):
        self.rows = LONG[self.BACKEND] + self.SIZES.index(self._testMethodName)  # a separate product for each test

    SIZES = ("test_at_its_deadline", "test_t27_the_client_leaves", "test_who_waits_has_a_plan", "test_who_waits_has_a_deadline", "test_behind_another_search",
             "test_the_server_ends")

    def run_it(self, timeout=120, **members):
        begin = time.monotonic()
        answer = self.server.call("POST", "/api/v1/run", product(self.rows, **members), timeout=timeout)
        return answer, time.monotonic() - begin

    def in_background(self, **members):
        """Requests a search and leaves the socket open."""
        body = json.dumps(product(self.rows, **members)).encode()
        sock = socket.create_connection(("127.0.0.1", self.server.port))
        sock.sendall(head("POST", "/api/v1/run", "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        self.addCleanup(sock.close)
        time.sleep(1)  # the search runs
        return sock

    def nothing_is_left(self):
        """Checks that no kernel counts as searched, and that no child works."""
        self.assertEqual([], self.server.call("GET", "/api/v1/kernels").json["kernels"])
        before = children(self.server.process.pid)
        time.sleep(0.3)
        after = children(self.server.process.pid)
        self.assertLess(sum(after[child] - before.get(child, 0) for child in after), 10, "a child works for nobody")

    def is_late(self, answer, took, limit):
        self.assertEqual(504, answer.status, answer.body[:300])
        self.assertEqual("urn:beamline:error:etimeout", answer.json["type"])
        self.assertGreaterEqual(took, limit)
        self.assertLess(took, limit + LATE + SPARE)

    def test_at_its_deadline(self):
        late = self.server.metric("timeouts_total")
        answer, took = self.run_it(beam=16, timeout_ms=1500)
        self.is_late(answer, took, 1.5)
        self.assertEqual(late + 1, self.server.settled("timeouts_total", late + 1))
        self.nothing_is_left()
        answer, _ = self.run_it()  # fast without a search
        self.assertEqual((200, "compiled"), (answer.status, answer.json["stats"]["plan"]))
        answer, took = self.run_it(beam=16, timeout_ms=1500)  # a repeated request searches again
        self.is_late(answer, took, 1.5)
        answer, _ = self.run_it()
        self.assertEqual((200, "cached"), (answer.status, answer.json["stats"]["plan"]))
        self.nothing_is_left()

    def test_t27_the_client_leaves(self):
        gone = self.server.metric("cancelled_total")
        self.in_background(beam=16).close()
        self.assertEqual(1, self.server.settled("requests_active", 1, 1))
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))
        self.nothing_is_left()

    def test_who_waits_has_a_plan(self):
        sock = self.in_background(beam=16)
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(self.run_it()[0]))
        waiting.start()
        time.sleep(0.5)
        self.assertEqual([], answers)  # one structure compiles once
        sock.close()
        waiting.join(20)
        self.assertEqual([200], [answer.status for answer in answers])
        self.nothing_is_left()

    def test_who_waits_has_a_deadline(self):
        sock = self.in_background(beam=16)
        answer, took = self.run_it(timeout_ms=700)
        self.is_late(answer, took, 0.7)
        self.assertEqual(2, self.server.settled("requests_active", 2, 1))  # the search continues for the waiting client
        sock.close()
        self.assertEqual(1, self.server.settled("requests_active", 1, 1))

    def test_behind_another_search(self):
        sock = self.in_background(beam=16)
        begin = time.monotonic()
        answer = self.server.call("POST", "/api/v1/run", graph(beam=2, timeout_ms=500))
        self.is_late(answer, time.monotonic() - begin, 0.5)
        sock.close()
        self.assertEqual(1, self.server.settled("requests_active", 1, 1))

    def test_the_server_ends(self):
        server = Server("--backends", self.BACKEND, "--beam-seconds", "120", "--grace", "0.3", env={"BEAMLINE_CACHE": self.folder.name})
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.call("POST", "/api/v1/run", product(self.rows, beam=16)).status))
        thread.start()
        time.sleep(1)
        mine = children(server.process.pid)
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 4)
        thread.join()
        self.assertEqual([503], answers)
        self.assertEqual([], [child for child in mine if os.path.exists(f"/proc/{child}")])


class OnInterpreter(SearchEnds, unittest.TestCase):
    BACKEND = "interp"


class InChildren(SearchEnds, unittest.TestCase):
    BACKEND = "opencl"


if __name__ == "__main__":
    unittest.main()
