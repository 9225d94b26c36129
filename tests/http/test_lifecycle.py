# SPDX-License-Identifier: MIT
"""Start, end and failures of a server: clients that disconnect, signals, full queues, failing devices and memory."""

import contextlib
import http.client
import json
import mmap
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fixture import JSON, SLOW_STEPS, Server, ServerTest, counter, graph, head
from test_search_ends import product
from training_jobs import J, wait

HERE = pathlib.Path(__file__).resolve().parent
P = "/api/v1/programs"
STOPS = int(os.environ.get("BEAMLINE_TEST_STOPS", "12"))


def ask(path, document, method="POST"):
    body = json.dumps(document).encode()
    return head(method, path, "Content-Type: application/json", f"Content-Length: {len(body)}") + body


class Leaving(ServerTest):
    """T27: the work of a client that disconnects is cancelled."""

    def begin(self, path, document, method="POST"):
        sock = socket.create_connection(("127.0.0.1", self.server.port))
        self.addCleanup(sock.close)
        sock.sendall(ask(path, document, method))
        return sock

    def idle_again(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.call("GET", "/metrics").body.decode()
            if 'requests_active 1\n' in text and all(line.endswith(" 0") for line in text.splitlines() if line.startswith("beamline_queue_length")):
                return True
            time.sleep(0.01)
        return False


class GoingAway(Leaving):
    def setUp(self):
        self.assertIn(self.call("PUT", P + "/long", counter()).status, (200, 201))
        self.cancelled = self.server.metric("cancelled_total")

    def test_t27_while_running(self):
        sock = self.begin(P + "/long/run", {"steps": SLOW_STEPS})
        time.sleep(0.3)
        sock.close()
        self.assertTrue(self.idle_again(1.0))
        self.assertEqual(self.cancelled + 1, self.server.settled("cancelled_total", self.cancelled + 1))

    def test_t27_half_closed(self):
        sock = self.begin(P + "/long/run", {"steps": SLOW_STEPS})
        time.sleep(0.2)
        sock.shutdown(socket.SHUT_WR)
        self.assertTrue(self.idle_again(1.0))
        got = sock.recv(1000)
        self.assertTrue(got == b"" or b" 503 " in got, got)  # libmicrohttpd may detect the end first and send nothing
        sock.close()

    def test_t27_while_queued(self):
        first = self.begin(P + "/long/run", {"steps": SLOW_STEPS})
        time.sleep(0.2)
        waiting = [self.begin(P + "/long/run", {"steps": 5}) for _ in range(20)]
        time.sleep(0.2)
        for sock in waiting:
            sock.close()
        self.assertEqual(2, self.server.settled("requests_active", 2, 1.0))  # the long request, and the query itself
        first.close()
        self.assertTrue(self.idle_again(1.0))
        steps = self.call("GET", P + "/long").json["steps"]
        self.assertEqual(steps, self.call("GET", P + "/long/state").json["state"]["n"]["data"][0])

    def test_t27_hole10_an_end_that_comes_with_data_is_noticed(self):
        for data in (head("POST", "/api/v1/run", "Content-Type: application/json", "Content-Length: 1000") + b'{"inputs"', b"GET / HT"):
            for _ in range(20):
                sock = socket.create_connection(("127.0.0.1", self.server.port))
                sock.sendall(data)
                sock.close()
        self.assertEqual(1, self.server.settled("connections", 1, 3))
        self.assertTrue(self.idle_again(1))

    def test_t27_while_uploading_and_reading(self):
        half = socket.create_connection(("127.0.0.1", self.server.port))
        half.sendall(head("POST", "/api/v1/run", "Content-Type: application/json", "Content-Length: 1000") + b'{"inputs"')
        self.assertEqual(2, self.server.settled("requests_active", 2))
        half.close()
        self.assertTrue(self.idle_again(10))
        reader = self.begin("/api/v1/run", {"inputs": {"x": [1]}, "nodes": [{"id": "y", "op": "expand", "in": ["x"], "attrs": {"shape": [1000000]}}],
                                            "outputs": ["y"]})
        self.assertIn(b" 200 ", reader.recv(100))
        reader.close()
        self.assertTrue(self.idle_again(10))

    def test_other_half_close_setting(self):
        server = Server("--half-close-cancels=off")
        try:
            self.assertEqual(201, server.call("PUT", P + "/c", counter()).status)
            with socket.create_connection(("127.0.0.1", server.port)) as sock:
                sock.sendall(ask(P + "/c/run", {"steps": SLOW_STEPS, "timeout_ms": 500}))
                time.sleep(0.1)
                sock.shutdown(socket.SHUT_WR)
                self.assertIn(b" 504 ", sock.recv(1000))
        finally:
            self.assertEqual(0, server.stop())


def sorts(nth, x=1.5, many=40, **members):
    """Returns a graph of sorts of different lengths, with separate kernels that take a second or more to compile; |nth|
    makes them unique."""
    rows, outputs = [], [f"s{i}" for i in range(many)]
    for i, output in enumerate(outputs):
        rows += [{"id": f"a{i}", "op": "arange", "attrs": {"stop": 3000 + 7 * i, "dtype": "float32"}}, {"id": f"m{i}", "op": "mul", "in": [f"a{i}", "x"]},
                 {"id": [f"v{i}", f"p{i}"], "op": "sort", "in": [f"m{i}"]}, {"id": f"t{i}", "op": "sum", "in": [f"v{i}"]},
                 {"id": output, "op": "add", "in": [f"t{i}", nth]}]
    return {"inputs": {"x": x}, "nodes": rows, "outputs": outputs, **members}


def trained_sorts(many):
    """Returns a program with |many| sorts per step in separate kernels, which trains through them."""
    rows, names = [], [f"w{i}" for i in range(many)]
    for i, name in enumerate(names):
        rows += [{"id": f"a{i}", "op": "arange", "attrs": {"stop": 300 + 7 * i, "dtype": "float32"}}, {"id": f"m{i}", "op": "mul", "in": [f"a{i}", name]},
                 {"id": [f"v{i}", f"p{i}"], "op": "sort", "in": [f"m{i}"]}, {"id": f"t{i}", "op": "sum", "in": [f"v{i}"]},
                 {"id": f"l{i}", "op": "add", "in": [f"t{i}", f"l{i - 1}" if i > 0 else 0]}]
    rows.append({"id": ["new_" + name for name in names], "op": "sgd", "in": [f"l{many - 1}", *names], "attrs": {"lr": 1e-9}})
    return {"state": {name: 1 for name in names}, "inputs": {}, "nodes": rows, "updates": {name: "new_" + name for name in names}, "outputs": [f"l{many - 1}"]}


class Compiling(Leaving):
    LESS = 3  # a cancelled compilation must end this many times sooner

    def whole(self, document):
        begin = time.monotonic()
        self.ok(self.call("POST", "/api/v1/run", document))
        return time.monotonic() - begin

    def plan_of(self, nth):
        """Returns "compiled" or "cached" for the plan of a graph, by a dry run."""
        return self.ok(self.call("POST", "/api/v1/run", sorts(nth, dry_run=True))).json["plan"]

    def works_for(self, seconds):
        """Waits until the server has computed for the given time."""
        def used():
            with open(f"/proc/{self.server.process.pid}/stat") as file:
                return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        until, end = used() + seconds, time.monotonic() + 60
        while used() < until:
            self.assertLess(time.monotonic(), end, "it does not work")
            time.sleep(0.01)

    def leave(self, sockets):
        """Disconnects.  Returns the seconds until no work of these requests remains."""
        begin = time.monotonic()
        for sock in sockets:
            sock.close()
        self.assertTrue(self.idle_again(60))
        return time.monotonic() - begin


class LeavingTheCompiler(Compiling):
    """A compilation without a waiting client ends, and queued compilations are not started."""

    ARGS = ("--backends", "interp", "--compile-threads", "1", "--beam-seconds", "4", "--tune=off", "--kernel-db", "none")

    def test_t27_while_compiling(self):
        """With a search, which prolongs the compilation."""
        whole, gone = self.whole(product(96, beam=16)), self.server.metric("cancelled_total")
        self.assertGreater(whole, 2, "it is worth leaving")
        sock = self.begin("/api/v1/run", product(97, beam=16))
        self.assertEqual(2, self.server.settled("requests_active", 2))
        self.assertLess(self.leave([sock]), whole / self.LESS)
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))

    def test_t27_while_others_compile(self):
        def long(nth):
            """Returns a chain of sums with numbers that no earlier graph had."""
            rows = [{"id": "a0", "op": "mul", "in": ["x", nth + 0.25]}]
            for k in range(250):
                rows += [{"id": f"r{k}", "op": "sum", "in": [f"a{k}"], "attrs": {"axis": 0, "keepdim": True}}, {"id": f"a{k + 1}", "op": "sub", "in": [f"a{k}", f"r{k}"]}]
            return {"inputs": {"x": [1, 2]}, "nodes": rows, "outputs": ["a250"]}

        many = 30
        self.whole(long(0))
        whole, gone = self.whole(long(1)), self.server.metric("cancelled_total")
        waiting, end = [self.begin("/api/v1/run", long(2 + nth)) for nth in range(many)], time.monotonic() + 10
        while self.server.metric("requests_active") <= many / 3 and time.monotonic() < end:  # requests of which the server has read nothing do not count
            time.sleep(0.01)
        self.assertLess(self.leave(waiting), many * whole / self.LESS)
        self.assertGreater(self.server.metric("cancelled_total"), gone + many / 6)

    def test_t27_while_compiling_without_a_search(self):
        whole, gone = self.whole(sorts(0, dry_run=True)), self.server.metric("cancelled_total")
        self.assertGreater(whole, 0.3, "it is worth leaving")
        sock = self.begin("/api/v1/run", sorts(1))
        self.works_for(0.1)
        self.assertLess(self.leave([sock]), whole / self.LESS)
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))
        self.assertEqual("compiled", self.plan_of(1))

    def test_its_deadline_ends_a_compilation(self):
        whole, late = self.whole(sorts(2, dry_run=True)), self.server.metric("timeouts_total")
        begin = time.monotonic()
        self.assertEqual("urn:beamline:error:etimeout", self.refused(504, self.call("POST", "/api/v1/run", sorts(3, timeout_ms=100)))["type"])
        self.assertTrue(self.idle_again(60))
        self.assertLess(time.monotonic() - begin, 0.1 + whole / self.LESS)
        self.assertEqual(late + 1, self.server.settled("timeouts_total", late + 1))

    def test_t27_while_a_program_is_compiled(self):
        whole = self.whole(sorts(4, dry_run=True))
        sock = self.begin(P + "/long", sorts(5, {"dtype": "float32", "shape": []}), "PUT")
        self.works_for(0.1)
        self.assertLess(self.leave([sock]), whole / self.LESS)
        self.refused(404, self.call("GET", P + "/long"))


    def test_t27_while_a_job_is_compiled(self):
        """The steps of the job are other than those of its program."""
        job, gone = {"program": "sorts", "steps": 1, "inputs": {}, "accumulate": 2}, self.server.metric("cancelled_total")
        self.ok(self.call("PUT", P + "/sorts", trained_sorts(60)), 201)
        begin = time.monotonic()
        first = self.ok(self.call("POST", J, job), 202).json["job"]
        whole = time.monotonic() - begin
        self.assertEqual("done", wait(self.server, first)["state"])
        sock = self.begin(J, job)
        self.works_for(0.1)
        self.assertLess(self.leave([sock]), whole / self.LESS)
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))
        self.assertEqual([first], [row["job"] for row in self.ok(self.call("GET", J)).json["jobs"]])


class LeavingOthersBehind(Compiling):
    """Two clients request one graph, which is compiled once for both."""

    ARGS = ("--backends", "interp", "--compile-threads", "2", "--tune=off", "--kernel-db", "none")

    def ask_both(self, nth, first=None, path="/api/v1/run", method="POST", **members):
        """The first request, with these additional members, starts the compilation; the second request waits for it."""
        sockets = []
        for waiting in range(2):
            sockets.append(self.begin(path if waiting else first or path, sorts(nth, **members), method))
            members.pop("timeout_ms", None)
            self.assertEqual(waiting, self.server.settled("plans_waiting", waiting))
            self.works_for(0.05)
        return sockets

    def test_t27_while_another_waits(self):
        gone, cached = self.server.metric("cancelled_total"), self.server.metric("runs_cached_total")
        first, second = self.ask_both(0)
        first.close()
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))
        self.assertEqual(2, self.server.settled("requests_active", 2))  # this query, and the second request
        self.assertEqual(1, self.server.metric("plans_waiting"))
        self.is_answered(second, 200)
        self.assertEqual(cached + 1, self.server.settled("runs_cached_total", cached + 1))  # the graph was not compiled again

    def is_answered(self, sock, status):
        sock.settimeout(300)
        self.assertIn(b" %d " % status, sock.recv(1000))
        sock.close()

    def test_its_deadline_while_another_waits(self):
        """The first request is answered at its deadline, before the compilation ends; the second request gets the compiled
        graph."""
        many = 50
        whole = self.whole(sorts(3, many=many, dry_run=True))
        cached, late = self.server.metric("runs_cached_total"), self.server.metric("timeouts_total")
        first, second = self.ask_both(4, many=many, timeout_ms=round(whole * 400))
        self.is_answered(first, 504)
        self.assertEqual(1, self.server.metric("plans_waiting"), "it is still being compiled")
        self.assertEqual(late + 1, self.server.settled("timeouts_total", late + 1))
        self.is_answered(second, 200)
        self.assertEqual(cached + 1, self.server.settled("runs_cached_total", cached + 1))
        self.assertTrue(self.idle_again(60))

    def test_t27_while_another_program_waits(self):
        """The program does not exist then, although its plan is in the cache."""
        first, second = self.ask_both(5, P + "/gone", P + "/there", "PUT", x={"dtype": "float32", "shape": []}, many=50)
        first.close()
        self.assertEqual(2, self.server.settled("requests_active", 2))
        self.assertEqual(1, self.server.metric("plans_waiting"))
        self.is_answered(second, 201)
        self.assertTrue(self.idle_again(60))
        self.refused(404, self.call("GET", P + "/gone"))

    def test_t27_both(self):
        whole = self.whole(sorts(1, dry_run=True))
        self.assertLess(self.leave(self.ask_both(2)), whole / self.LESS)
        self.assertEqual("compiled", self.plan_of(2))


class Full(ServerTest):
    ARGS = ("--max-queue", "4")

    def test_t23_full_queue_is_503_with_retry_after(self):
        self.ok(self.call("PUT", P + "/long", counter()), 201)
        self.ok(self.call("POST", "/api/v1/run", graph()))  # compiled: the queue is full for two seconds only
        socks = []
        for _ in range(12):
            sock = socket.create_connection(("127.0.0.1", self.server.port))
            sock.sendall(ask(P + "/long/run", {"steps": SLOW_STEPS, "timeout_ms": 2000}))
            socks.append(sock)
        time.sleep(0.3)
        answer = self.call("POST", "/api/v1/run", graph(), timeout=10)
        while answer.status == 200:  # the device may have been between two runs
            answer = self.call("POST", "/api/v1/run", graph(), timeout=10)
        self.refused(503, answer)
        self.assertEqual("1", answer.headers["retry-after"])
        self.assertGreater(self.server.metric("queue_full_total"), 0)
        statuses = []
        for sock in socks:
            sock.settimeout(20)
            statuses.append(sock.recv(1000).split()[1])
            sock.close()
        self.assertEqual({b"503", b"504"}, set(statuses))
        self.ok(self.call("POST", "/api/v1/run", graph()))

    def test_timeout_while_waiting(self):
        self.ok(self.call("PUT", P + "/hold", counter()), 201)
        first = socket.create_connection(("127.0.0.1", self.server.port))
        first.sendall(ask(P + "/hold/run", {"steps": SLOW_STEPS, "timeout_ms": 1500}))
        time.sleep(0.2)
        begin = time.monotonic()
        problem = self.refused(504, self.call("POST", P + "/hold/run", {"timeout_ms": 200}))
        self.assertNotIn("step", problem)
        self.assertLess(time.monotonic() - begin, 1.0)
        first.close()


class Folders(unittest.TestCase):
    def test_one_that_is_not_there_is_told(self):
        """The server starts without a missing device, since the device may appear later."""
        for flag, folder, why in (("--models", "/nonexistent", "No such file or directory"), ("--data-folder", __file__, "Not a directory")):
            server = Server("--backends", "interp", flag, folder)
            self.assertEqual(200, server.call("GET", "/v2/health/live").status)
            self.assertEqual(0, server.stop())
            self.assertIn(f'the folder of {flag}, "{folder}", cannot be read: {why}', server.log_text())


class Signals(unittest.TestCase):
    """T25."""

    def test_t25_sigterm_answers_what_was_accepted(self):
        server = Server()
        self.assertEqual(201, server.call("PUT", P + "/c", counter()).status)
        results, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                try:
                    connection.connect()
                except OSError:
                    return  # the server no longer listens, so the connection was never accepted
                try:
                    connection.request("POST", P + "/c/run", json.dumps({"steps": 200}), JSON)
                    reply = connection.getresponse()
                    results.append((reply.status, len(reply.read())))
                except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    results.append(("dropped", 0))
                finally:
                    connection.close()

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 20)
        stop.set()
        for thread in threads:
            thread.join()
        done = [status for status, _ in results]
        self.assertGreater(done.count(200), 8)
        self.assertLessEqual(set(done), {200, 503, "dropped"})
        self.assertLessEqual(done.count("dropped"), 8)  # connected, but in the backlog when the listener closed, so never accepted

    def test_t25_whoever_connected_is_answered(self):
        """Clients connect, send a request and disconnect as fast as possible while the server stops: each accepted connection
        gets its answer.  libmicrohttpd's own closing of the port lost one connection per stop, and crashed in one of some
        hundred stops."""
        body = json.dumps(graph()).encode()
        asked = head("POST", "/api/v1/run", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
        for i in range(STOPS):
            server = Server("--backends", "interp", "--threads", str(2 + i % 7))
            answers = []

            def client():
                while True:
                    try:
                        sock = socket.create_connection(("127.0.0.1", server.port))
                    except OSError:
                        return  # refused: the port is closed
                    with sock:
                        try:
                            sock.settimeout(20)
                            sock.sendall(asked)
                            answers.append(sock.recv(1000)[9:12])
                        except OSError as failure:
                            answers.append(failure)

            threads = [threading.Thread(target=client) for _ in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.03 + 0.01 * (i % 5))
            self.assertEqual(0, server.stop(), server.log_text()[-2000:])
            for thread in threads:
                thread.join()
            self.assertGreater(answers.count(b"200"), 0)
            self.assertEqual([], [answer for answer in answers if answer not in (b"200", b"503")])

    def test_connections_over_the_limit_wait(self):
        server = Server("--backends", "interp", "--connections", "4")
        live = head("GET", "/v2/health/live")
        try:
            socks = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(7)]
            for sock in socks:
                sock.settimeout(0.3)
                sock.sendall(live)
            for sock in socks[:4]:
                self.assertIn(b" 200 ", sock.recv(1000))
            for sock in socks[4:]:
                with self.assertRaises(socket.timeout):
                    sock.recv(1000)
            for sock in socks[:3]:
                sock.close()
            for sock in socks[4:]:
                sock.settimeout(10)
                self.assertIn(b" 200 ", sock.recv(1000))
                sock.sendall(live)
                self.assertIn(b" 200 ", sock.recv(1000))
            for sock in socks[3:]:
                sock.close()
        finally:
            self.assertEqual(0, server.stop())

    def test_t25_running_work_is_finished_first(self):
        server = Server("--grace", "30")
        server.call("PUT", P + "/c", counter())
        answers = []
        run = threading.Thread(target=lambda: answers.append(server.call("POST", P + "/c/run", {"steps": SLOW_STEPS, "timeout_ms": 1500})))
        run.start()
        time.sleep(0.4)
        keep = http.client.HTTPConnection("127.0.0.1", server.port)
        keep.request("GET", "/v2/health/ready")
        reply = keep.getresponse()
        self.assertEqual((200, b'{"ready":true}'), (reply.status, reply.read()))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        keep.request("GET", "/v2/health/ready")
        reply = keep.getresponse()
        self.assertEqual((503, "close"), (reply.status, reply.getheader("connection").lower()))
        self.assertEqual(0, server.process.wait(20))
        server.stop()
        run.join()
        self.assertEqual(504, answers[0].status)

    def test_t25_grace_then_cancel(self):
        server = Server("--grace", "0.5")
        server.call("PUT", P + "/c", counter())
        answers = []
        run = threading.Thread(target=lambda: answers.append(server.call("POST", P + "/c/run", {"steps": SLOW_STEPS})))
        run.start()
        time.sleep(0.3)
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 5)
        run.join()
        self.assertEqual(503, answers[0].status)

    def test_t25_second_signal_ends_at_once(self):
        server = Server("--grace", "60")
        server.call("PUT", P + "/c", counter())
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(ask(P + "/c/run", {"steps": SLOW_STEPS}))
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            begin = time.monotonic()
            self.assertEqual(130, server.stop())
            self.assertLess(time.monotonic() - begin, 2)

    def test_t25_sigpipe_and_sigint(self):
        server = Server()
        server.process.send_signal(signal.SIGPIPE)
        self.assertEqual(200, server.call("GET", "/v2").status)
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(0, server.process.wait(20))
        server.stop()

    def test_t25_a_thread_that_is_slow_to_leave_libmicrohttpd(self):
        """The thread resumed a connection, which is answered and closed before the thread returns: at the end the daemon waits
        for the thread."""
        armed, written = 1, 3  # states of late_resume.c
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            library, shared = folder + "/late.so", folder + "/shared"
            pathlib.Path(shared).write_bytes(bytes(4))
            subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HERE / "late_resume.c"], check=True)
            with open(shared, "r+b") as file:
                state = stack.enter_context(mmap.mmap(file.fileno(), 4))
            server = Server("--backends", "interp", "--threads", "1", env={"LD_PRELOAD": library, "LATE_RESUME": shared})
            try:
                self.assertEqual(201, server.call("PUT", P + "/long", counter()).status)
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                other = stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)))
                for timeout in (500, 2000, 8000, 32000):  # until libmicrohttpd checks the connection in time
                    if not self.slow_answer(sock, other, state, armed, timeout):
                        break
                sock.close()
                other.close()
            finally:
                self.assertEqual(0, server.stop())
            self.assertEqual(written, int.from_bytes(state[:], sys.byteorder))

    def slow_answer(self, sock, other, state, armed, timeout):
        """A run of |timeout| ms is answered.  Returns whether the slow thread did not see its end."""
        def ask_other(path):
            other.request("GET", path)
            return other.getresponse().read().decode()

        sock.settimeout(0.02)
        sock.sendall(ask(P + "/long/run", {"steps": SLOW_STEPS, "timeout_ms": timeout}))
        end, got = time.monotonic() + 60, b""
        while "requests_active 2\n" not in ask_other("/metrics"):
            self.assertLess(time.monotonic(), end)
        state[:] = armed.to_bytes(4, sys.byteorder)
        while b"\r\n\r\n" not in got:
            self.assertLess(time.monotonic(), end)
            ask_other("/v2/health/live")  # makes libmicrohttpd check all its connections
            with contextlib.suppress(TimeoutError):
                got += sock.recv(65536)
        self.assertIn(b" 504 ", got)
        return int.from_bytes(state[:], sys.byteorder) == armed

    def test_port_taken(self):
        server = Server()
        with self.assertRaisesRegex(RuntimeError, "cannot listen"):
            Server(port=server.port)
        self.assertEqual(0, server.stop())


class Faults(unittest.TestCase):
    def survive(self, server, asks):
        """Sends the requests until all succeed.  Returns the statuses of the failures."""
        failed = []
        for method, path, body in asks:
            for _ in range(6):
                answer = server.call(method, path, body)
                if answer.status < 300:
                    break
                self.assertEqual("application/problem+json", answer.type)
                failed.append(answer.status)
            self.assertLess(answer.status, 300, (method, path, answer.body))
        return failed

    ASKS = [("PUT", "/api/v1/tensors/w", {"dtype": "float32", "shape": [2], "data": [1, 2]}),
            ("POST", "/api/v1/run", graph()), ("POST", "/api/v1/run", graph(keep={"k": "y"})),
            ("PUT", P + "/c", counter()), ("POST", P + "/c/run", {"steps": 3}), ("GET", P + "/c/state", None)]

    def test_t26_every_allocation_may_fail_once(self):
        strikes = 0
        for nth in list(range(1, 40)) + list(range(40, 400, 13)):
            try:
                server = Server("--backends", "interp", env={"BEAMLINE_FAULT": f"alloc:{nth}"})
            except RuntimeError as failure:
                strikes += 1
                self.assertIn("beamline: ", str(failure))
                continue
            try:
                failed = self.survive(server, self.ASKS)
                self.assertLessEqual(set(failed), {503, 507, 500})
                strikes += len(failed) > 0
            finally:
                self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        self.assertGreater(strikes, 10)

    def test_t14_every_device_call_may_fail_once(self):
        strikes = 0
        for nth in range(1, 25):
            try:
                server = Server("--backends", "interp", env={"BEAMLINE_FAULT": f"device:{nth}"})
            except RuntimeError as failure:
                self.assertIn("beamline: ", str(failure))
                continue
            try:
                self.lost_state_is_told(server)
                strikes += server.metric("device_lost_total") > 0 or "failed" in server.log_text()
            finally:
                self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        self.assertGreater(strikes, 0)

    def test_t14_a_device_lost_by_a_brief_run_is_opened_again(self):
        """The device's own thread opens it again for the next request, whichever run was active at the loss."""
        at_once = 0
        for nth in range(60, 90, 3):
            server = Server("--backends", "interp", env={"BEAMLINE_FAULT": f"device:{nth}"})
            try:
                codes = [server.call("POST", "/api/v1/run", graph()).status for _ in range(120)]
                failed = [at for at, code in enumerate(codes) if code != 200]
                at_once += server.metric("runs_at_once_total") > 0
                self.assertLessEqual(len(failed), 2, codes)
            finally:
                self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        self.assertGreater(at_once, 0)

    def lost_state_is_told(self, server):
        """After a failure either everything works, or the lost state is reported and can be replaced."""
        def well(method, path, body=None):
            answer = server.call(method, path, body)
            if answer.status >= 300:
                self.assertIn(answer.status, (404, 409, 500, 503, 507), answer.body)
                self.assertEqual("application/problem+json", answer.type)
            return answer.status < 300

        program = P + "/c"
        for _ in range(6):
            if all([well("PUT", program, counter()), well("POST", program + "/run", {"steps": 3}), well("GET", program + "/state")]):
                break
        else:
            self.fail("the program never came back:\n" + server.log_text()[-2000:])
        self.assertTrue(any(well("POST", "/api/v1/run", graph()) for _ in range(3)))

    def test_t26_few_file_descriptors(self):
        server = Server("--backends", "interp", limits=((resource.RLIMIT_NOFILE, 64),))
        socks = []
        try:
            for _ in range(100):
                sock = socket.create_connection(("127.0.0.1", server.port))
                sock.settimeout(1)
                socks.append(sock)
            time.sleep(0.3)
        finally:
            for sock in socks:
                sock.close()
        time.sleep(0.3)
        self.assertEqual(200, server.call("POST", "/api/v1/run", graph()).status)
        self.assertEqual(0, server.stop())

    def test_t14_memory_comes_back(self):
        server = Server("--backends", "interp", "--pool", "0")
        try:
            def used():
                return server.call("GET", "/api/v1/devices").json["devices"][0]["memory_used"]
            base = used()
            for i in range(200):
                server.call("POST", "/api/v1/run", graph())
                server.call("POST", "/api/v1/run", graph(nodes=[{"id": "y", "op": "none", "in": ["x"]}]))
                server.call("PUT", P + "/c", counter(state={"n": {"dtype": "float32", "shape": [5]}}))
                server.call("PUT", P + f"/bad{i}", counter(nodes=[{"id": "m", "op": "matmul", "in": ["n", "n"]}]))
            server.call("DELETE", P + "/c")
            end = time.monotonic() + 10
            while used() != base and time.monotonic() < end:  # memory is released after the answer
                time.sleep(0.02)
            self.assertEqual(base, used())
            self.assertEqual(0, server.settled("held_bytes", 0))
        finally:
            self.assertEqual(0, server.stop())


class Load(ServerTest):
    def test_t28_mixed_clients_and_flat_memory(self):
        rows = [("POST", "/api/v1/run", graph()), ("POST", "/api/v1/run", graph(nodes=[])), ("GET", "/api/v1/tensors", None),
                ("PUT", "/api/v1/tensors/m", [1, 2, 3]), ("GET", "/api/v1/tensors/m", None), ("DELETE", "/api/v1/tensors/m", None),
                ("PUT", P + "/m", counter()), ("POST", P + "/m/run", {"steps": 2}), ("DELETE", P + "/m", None), ("POST", "/api/v1/run", [])]

        def client(n):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            for i in range(n):
                method, path, body = rows[i % len(rows)]
                connection.request(method, path, None if body is None else json.dumps(body), JSON if body is not None else {})
                reply = connection.getresponse()
                told = reply.read()
                if reply.status >= 500:
                    wrong.append((method, path, reply.status, told))
            connection.close()

        def round_of(n):
            threads = [threading.Thread(target=client, args=(n,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        wrong = []
        round_of(150)
        before, files = self.server.rss(), len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        round_of(300)
        self.assertEqual([], wrong)
        self.assertLess(self.server.rss() - before, 12 << 20)
        self.assertLessEqual(len(os.listdir(f"/proc/{self.server.process.pid}/fd")), files + 2)


if __name__ == "__main__":
    unittest.main()
