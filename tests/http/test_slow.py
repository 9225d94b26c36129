# SPDX-License-Identifier: MIT
"""Slow clients: with a head, a body, or reading; and enough of them to occupy all connections."""

import http.client
import json
import socket
import subprocess
import tempfile
import time
import unittest

from fixture import JSON, PROGRAM, Server, counter, graph, head

BEGUN = b"POST /api/v1/run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
PLACES = 64  # 4 of them are reserved


def drip(sock, parts, seconds):
    """Sends one of |parts| every |seconds|.  Returns the seconds until the server closes the connection."""
    sock.settimeout(seconds)
    begin = time.monotonic()
    for part in parts:
        try:
            sock.sendall(part)
            if sock.recv(1000) == b"":
                return time.monotonic() - begin
        except socket.timeout:
            continue
        except OSError:
            return time.monotonic() - begin
    return None


class Slow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backends", "interp", "--head-timeout", "1", "--rate-window", "1", "--least-rate", "1000")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def connect(self, server=None):
        sock = socket.create_connection(("127.0.0.1", (server or self.server).port))
        self.addCleanup(sock.close)
        return sock

    def test_t5_a_head_has_a_deadline(self):
        before = self.server.metric("connections_too_slow_total")
        sock = self.connect()
        sock.sendall(BEGUN)
        took = drip(sock, [b"x-%d: 1\r\n" % i for i in range(100)], 0.1)
        self.assertTrue(took is not None and 0.9 <= took < 5, took)
        self.assertEqual(before + 1, self.server.settled("connections_too_slow_total", before + 1))

    def test_t5_the_next_head_has_one_too(self):
        server = Server("--backends", "interp", "--head-timeout", "1", "--idle-timeout", "1")
        self.addCleanup(server.stop)
        sock = self.connect(server)
        sock.sendall(head("GET", "/v2/health/live"))
        self.assertIn(b" 200 ", sock.recv(1000))
        took = drip(sock, [b"G", b"E", b"T", b" ", b"/"] + [b"v"] * 100, 0.2)
        self.assertTrue(took is not None and took < 8, took)

    def test_t5_a_body_has_a_least_rate(self):
        sock = self.connect()
        sock.sendall(BEGUN + b"content-length: 100000\r\n\r\n")
        took = drip(sock, [b" "] * 100, 0.1)
        self.assertTrue(took is not None and 0.9 <= took < 5, took)

    def test_t5_a_body_that_keeps_up_is_read(self):
        sock = self.connect()
        body = json.dumps(graph()).encode()
        body += b" " * (12000 - len(body))
        sock.sendall(BEGUN + b"content-length: 12000\r\n\r\n")
        for at in range(0, 12000, 500):  # 5,000 bytes per second, for longer than the window
            sock.sendall(body[at:at + 500])
            time.sleep(0.1)
        sock.settimeout(10)
        self.assertIn(b" 200 ", sock.recv(1000))

    def test_t5_an_answer_has_a_least_rate(self):
        big = graph(inputs={}, keep={"big": "big"}, outputs=[], nodes=[{"id": "big", "op": "full", "attrs": {"shape": [8_000_000], "value": 0.5}}])
        self.assertEqual(200, self.server.call("POST", "/api/v1/run", big).status)
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", self.server.port))
        sock.sendall(head("GET", "/api/v1/tensors/big", "accept: application/octet-stream"))
        begin, before = time.monotonic(), self.server.metric("connections_too_slow_total")
        while self.server.metric("connections_too_slow_total") == before and time.monotonic() - begin < 15:
            time.sleep(0.2)
            sock.recv(1)
        self.assertLess(time.monotonic() - begin, 15)
        quick = self.server.call("GET", "/api/v1/tensors/big", headers={"accept": "application/octet-stream"})
        self.assertEqual(32_000_000, len(quick.body))

    def test_t5_who_waits_for_the_server_is_not_slow(self):
        self.assertIn(self.server.call("PUT", "/api/v1/programs/quiet", counter()).status, (200, 201))
        answer = self.server.call("POST", "/api/v1/programs/quiet/run", {"steps": 1000000000, "timeout_ms": 3500}, timeout=30)
        self.assertEqual(504, answer.status, answer.body)


class Full(unittest.TestCase):
    """Incomplete requests on every connection."""

    def start(self, *args, **more):
        server = Server("--backends", "interp", "--connections", str(PLACES), *args, **more)
        self.addCleanup(server.stop)
        return server

    def crowd(self, server, data):
        socks = []
        for _ in range(PLACES + 20):
            sock = socket.create_connection(("127.0.0.1", server.port))
            sock.sendall(data)
            socks.append(sock)
            self.addCleanup(sock.close)
        return socks

    def test_t5_half_heads_shut_nobody_out(self):
        server = self.start()
        self.crowd(server, BEGUN)
        time.sleep(0.3)  # a head has a quarter of a second
        for _ in range(3):
            self.assertEqual(200, server.call("GET", "/v2/health/live", timeout=5).status)
            answer = server.call("POST", "/api/v1/run", graph(), timeout=5)
            self.assertEqual(200, answer.status, answer.body)
        self.assertGreater(server.metric("connections_evicted_total"), 0)

    def test_t5_half_bodies_shut_nobody_out(self):
        server = self.start()
        self.crowd(server, BEGUN + b"content-length: 1000\r\n\r\n{")
        self.assertEqual(200, server.call("GET", "/v2/health/live", timeout=5).status)
        end = time.monotonic() + 10  # connections with bodies that stalled for two seconds are closed
        while (status := server.call("POST", "/api/v1/run", graph(), timeout=5).status) == 503 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(200, status)

    def test_t5_who_has_a_key_has_a_place(self):
        with tempfile.TemporaryDirectory() as state:
            made = subprocess.run([PROGRAM, "keys", "create", "one", "--scopes", "run", "--state", state], capture_output=True, text=True, check=True)
            key = {"authorization": "Bearer " + made.stdout.split()[-1]}
            server = self.start("--state", state, env={"BEAMLINE_STATE": state})
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            kept.request("POST", "/api/v1/run", json.dumps(graph()), {**JSON, **key})
            self.assertIn(b"outputs", kept.getresponse().read())
            self.crowd(server, BEGUN + b"content-length: 100000\r\n\r\n{")
            for _ in range(3):
                self.assertEqual(200, server.call("GET", "/v2/health/ready", timeout=5).status)
                self.assertEqual(200, server.call("POST", "/api/v1/run", graph(), key, timeout=5).status)
            kept.request("POST", "/api/v1/run", json.dumps(graph()), {**JSON, **key})
            self.assertEqual(200, kept.getresponse().status)  # the connection from before the slow clients
            kept.close()

    def test_t5_places_are_kept_for_probes(self):
        """While all other connections are busy, a probe is answered, and a further request learns that the server is full."""
        server = self.start()
        server.call("PUT", "/api/v1/programs/long", counter())
        body = json.dumps({"steps": 1000000000, "timeout_ms": 8000}).encode()
        request = head("POST", "/api/v1/programs/long/run", "content-type: application/json", f"content-length: {len(body)}") + body
        self.assertEqual(1, server.settled("connections", 1))  # the query itself
        for _ in range(PLACES - 4):
            sock = socket.create_connection(("127.0.0.1", server.port))
            self.addCleanup(sock.close)
            sock.sendall(request)
        time.sleep(0.5)
        refused = server.call("POST", "/api/v1/run", graph(), timeout=5)
        self.assertEqual((503, "1"), (refused.status, refused.headers.get("retry-after")))
        self.assertEqual(200, server.call("GET", "/v2/health/live", timeout=5).status)
