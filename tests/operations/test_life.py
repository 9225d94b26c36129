# SPDX-License-Identifier: MIT
"""The life of a server process: notifications of systemd, reload by SIGHUP, and shutdown."""

import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import JSON, PROGRAM, SLOW_STEPS, Server, counter, graph

P = "/api/v1/programs"


class Notices:
    """The notification socket of systemd."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = self.folder.name + "/notify"
        self.socket.bind(self.path)

    def next(self, seconds=10):
        """Returns the next notification as a dictionary, without those of the watchdog."""
        end = time.monotonic() + seconds
        while True:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            notice = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())
            if "WATCHDOG" not in notice:
                return notice

    def count(self, seconds, name):
        """Returns the number of notifications of that name within the time."""
        found, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                found += self.socket.recv(4096).decode().startswith(name + "=")
            except socket.timeout:
                pass
        return found

    def close(self):
        self.socket.close()
        self.folder.cleanup()


class Notify(unittest.TestCase):
    def test_ready_reloading_stopping(self):
        notices = Notices()
        self.addCleanup(notices.close)
        server = Server("--backends", "interp", "--grace", "7", "--drain-delay", "0.1", env={"NOTIFY_SOCKET": notices.path})
        try:
            ready = notices.next()
            self.assertEqual(("1", f"serving on 127.0.0.1:{server.port}"), (ready["READY"], ready["STATUS"]))
            before = time.monotonic_ns() // 1000
            server.process.send_signal(signal.SIGHUP)
            reloading = notices.next()
            self.assertEqual("1", reloading["RELOADING"])
            self.assertLessEqual(before, int(reloading["MONOTONIC_USEC"]))
            self.assertEqual("1", notices.next()["READY"])
        finally:
            self.assertEqual(0, server.stop())
        stopping = notices.next()
        self.assertEqual(("1", str(17_100_000)), (stopping["STOPPING"], stopping["EXTEND_TIMEOUT_USEC"]))  # 7, 0.1, and 10 to cancel

    def test_watchdog_is_fed_as_often_as_it_asks(self):
        notices = Notices()
        self.addCleanup(notices.close)
        server = Server("--backends", "interp", env={"NOTIFY_SOCKET": notices.path, "WATCHDOG_USEC": "400000"})
        try:
            self.assertGreaterEqual(notices.count(2, "WATCHDOG"), 5)  # one every 0.2 s, fewer on a busy machine
        finally:
            self.assertEqual(0, server.stop())

    def test_nobody_asks(self):
        server = Server("--backends", "interp", env={"NOTIFY_SOCKET": "/nonexistent/notify"})
        self.assertEqual(0, server.stop())


class Reload(unittest.TestCase):
    """SIGHUP."""

    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self.addCleanup(self.file.close)
        self.write("log-level = error\n")
        self.server = Server("--backends", "interp", "--config", self.file.name, "--max-nodes", "9")
        self.addCleanup(self.server.stop)

    def write(self, text):
        self.file.seek(0)
        self.file.truncate()
        self.file.write(text)
        self.file.flush()

    def hup(self, metric="reloads_total"):
        before = self.server.metric(metric)
        self.server.process.send_signal(signal.SIGHUP)
        self.assertEqual(before + 1, self.server.settled(metric, before + 1))

    def test_the_log_changes(self):
        self.server.call("GET", "/v2")
        self.assertEqual("", self.server.log_text())
        self.write("log-level = info\nlog-json = on\n")
        self.hup()
        self.server.call("GET", "/v2/models/none")
        lines = [json.loads(line) for line in self.server.wait_log(lambda lines: any("/v2/models/none" in line for line in lines))]
        self.assertIn("reloaded", [line["message"] for line in lines])
        self.assertTrue(any("/v2/models/none" in json.dumps(line) for line in lines))

    def test_what_takes_a_restart_is_told_and_stays(self):
        self.write("log-level = warn\nmax-depth = 5\nmax-nodes = 1\n")  # the flag overrides the last setting
        self.hup()
        self.assertRegex(self.server.log_text(), "max-depth has changed; restart the server")
        self.assertNotIn("max-nodes", self.server.log_text())
        deep = graph(inputs={"x": [[[[[[1]]]]]]})
        self.assertEqual(200, self.server.call("POST", "/api/v1/run", deep).status)

    def test_t25_a_bad_file_changes_nothing(self):
        for text, told in (("log-level = debug\nno-such = 1\n", 'line 2: no such setting: "no-such"'),
                           ("max-node = 1\n", 'line 1: no such setting: "max-node"; did you mean "max-nodes"?'), ("log-level = loud\n", 'not "loud"'),
                           ("grace = soon\n", '"soon" is not a number')):
            self.write(text)
            self.hup("reloads_failed_total")
            self.assertIn(told, self.server.log_text())
        self.server.call("GET", "/v2/health/live")
        self.assertNotIn("/v2/health/live", self.server.log_text())  # the level is still error

    def test_an_option_that_there_is_not(self):
        done = subprocess.run([PROGRAM, "serve", "--prot", "0"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (2, 'beamline: serve: unknown option "--prot"; beamline serve --help lists the options; did you mean "port"?\n'))

    def test_t25_under_load_nothing_fails(self):
        statuses, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                statuses.append(self.server.call("POST", "/api/v1/run", graph()).status)

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for i in range(20):
                self.write(f"log-level = {('error', 'warn')[i % 2]}\ngrace = {i}\n")
                answered, end = len(statuses), time.monotonic() + 60
                self.hup()
                while len(statuses) < answered + len(threads) and time.monotonic() < end:  # some of them after the reload
                    time.sleep(0.01)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual({200}, set(statuses))
        self.assertGreaterEqual(len(statuses), 20 * len(threads))


class Check(unittest.TestCase):
    """serve --check: valid configurations, and the errors of invalid ones."""

    GOOD = {"inputs": {"x": {"dtype": "float32", "shape": [4]}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}

    def check(self, folder, *more):
        return subprocess.run([PROGRAM, "serve", "--check", "--backends", "interp", "--models", folder, "--state", "none", *more], capture_output=True, text=True, timeout=120, check=False)

    def test_models(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "double", "1")
            path.mkdir(parents=True)
            (path / "model.json").write_text(json.dumps(self.GOOD))
            done = self.check(folder)
            self.assertEqual((0, "1 devices, 1 versions of models loaded, 0 not\n"), (done.returncode, done.stdout), done.stderr)
            (path / "model.json").write_text(json.dumps(self.GOOD).replace("mul", "mull"))
            done = self.check(folder)
            self.assertEqual((1, "1 devices, 0 versions of models loaded, 1 not\n"), (done.returncode, done.stdout))
            self.assertIn('model double, version 1: there is no op "mull"', done.stderr)

    def test_a_folder_that_is_not_there(self):
        done = self.check("/nowhere/models")
        self.assertEqual(1, done.returncode)
        self.assertIn('the folder of --models, "/nowhere/models", cannot be read', done.stderr)

    def test_a_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(1, self.check(folder, "--port", "70000").returncode)


class Drain(unittest.TestCase):
    """T25: ready changes to 503 first, accepted requests are answered, then the process ends."""

    def ask(self, server, path="/v2/health/ready"):
        """Returns the status on a new connection; None if the port is closed."""
        try:
            return server.call("GET", path).status
        except OSError:
            return None

    def begin(self, server, **members):
        """Starts an endless run; the status of its answer is appended to the returned list."""
        self.assertIn(server.call("PUT", P + "/c", counter()).status, (200, 201))
        statuses = []
        thread = threading.Thread(target=lambda: statuses.append(server.call("POST", P + "/c/run", {"steps": SLOW_STEPS, **members}).status))
        thread.start()
        time.sleep(0.3)
        return statuses, thread

    def test_t25_new_connections_are_told_503_while_work_ends(self):
        server = Server("--backends", "interp")
        statuses, thread = self.begin(server, timeout_ms=2000)
        self.assertEqual(200, self.ask(server))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.assertEqual((503, 200, 200), (self.ask(server), self.ask(server, "/v2/health/live"), self.ask(server, "/metrics")))
        refused = server.call("POST", "/api/v1/run", graph())
        self.assertEqual((503, "1"), (refused.status, refused.headers["retry-after"]))
        thread.join()
        self.assertEqual([504], statuses)  # by its own timeout, not by the shutdown
        self.assertEqual(0, server.process.wait(10))
        server.stop()

    def test_a_balancer_has_time_to_turn_away(self):
        server = Server("--backends", "interp", "--drain-delay", "1.5")
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        while time.monotonic() - begin < 1.2:
            self.assertEqual(503, self.ask(server))
            self.assertEqual(200, server.call("POST", "/api/v1/run", graph()).status)
        self.assertEqual(0, server.process.wait(10))
        self.assertIsNone(self.ask(server))
        self.assertLess(time.monotonic() - begin, 5)
        server.stop()

    def test_t25_under_load_no_accepted_request_fails(self):
        """Clients with kept connections send requests continuously: each accepted request is answered, with 200, or with 503
        during the shutdown."""
        server = Server("--drain-delay", "0.3", "--grace", "20")
        self.assertEqual(200, server.call("POST", "/api/v1/run", graph()).status)
        body, statuses, dropped = json.dumps(graph()), [], []

        def client():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            while True:
                try:
                    connection.request("POST", "/api/v1/run", body, JSON)
                    reply = connection.getresponse()
                    reply.read()
                    statuses.append(reply.status)
                    if reply.status != 200:
                        return
                except ConnectionRefusedError:
                    return
                except (OSError, http.client.HTTPException) as failure:
                    dropped.append(failure)
                    return

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        begin, before = time.monotonic(), len(statuses)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, server.process.wait(30))
        took = time.monotonic() - begin
        for thread in threads:
            thread.join()
        server.stop()
        self.assertEqual([], dropped)
        self.assertGreater(statuses.count(200), before, "work went on while ready said 503")
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertLess(took, 10)

    def test_t25_grace_bounds_the_end_and_a_second_signal_cuts_it(self):
        server = Server("--backends", "interp", "--grace", "0.5")
        statuses, thread = self.begin(server)
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 5)
        thread.join()
        self.assertEqual([503], statuses)
        for args in (("--drain-delay", "60"), ("--grace", "60")):
            server = Server("--backends", "interp", *args)
            with socket.create_connection(("127.0.0.1", server.port)) as sock:
                self.assertEqual(201, server.call("PUT", P + "/c", counter()).status)
                body = json.dumps({"steps": SLOW_STEPS}).encode()
                sock.sendall(f"POST {P}/c/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                time.sleep(0.3)
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
                server.process.send_signal(signal.SIGHUP)  # has no effect during the shutdown
                begin = time.monotonic()
                self.assertEqual(130, server.stop())
                self.assertLess(time.monotonic() - begin, 2)


if __name__ == "__main__":
    unittest.main()
