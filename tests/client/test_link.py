# SPDX-License-Identifier: MIT
"""The HTTP of the client (beamline.link) beside a server that answers with given bytes: what it sends, and which answers it takes."""
import array
import json
import os
import resource
import socket
import threading
import unittest

import beamline
from beamline.connection import Connection
from beamline.link import LIMIT


class Scripted:
    """A server that answers request after request with the given bytes, and closes a connection after bytes that end in CLOSE."""

    CLOSE = b"<close>"

    def __init__(self, *answers):
        self.answers, self.requests, self.connections = list(answers), [], 0
        self.hold = None  # an event for which an answer waits
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while self.answers:
            link, _ = self.socket.accept()
            self.connections += 1
            with link, link.makefile("rb") as got:
                while self.answers and self.read(got):
                    answer = self.answers.pop(0)
                    self.hold and self.hold.wait(10)
                    link.sendall(answer.removesuffix(self.CLOSE))
                    if answer.endswith(self.CLOSE):
                        break
        self.socket.close()

    def read(self, got):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = got.readline()
            if not line:
                return False
            head += line
        lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        self.requests.append((head, got.read(lengths[0]) if lengths else b""))
        return True


def answer(body, *headers, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body


class LinkTest(unittest.TestCase):
    def open(self, *answers):
        server = Scripted(*answers)
        connection = Connection(server.url, 10, "secret")
        self.addCleanup(server.thread.join, 10)
        self.addCleanup(connection.close)
        return server, connection

    def test_a_request_is_one_head_and_one_body(self):
        server, connection = self.open(answer(b"one", "X-Name: Value"), answer(b"", status="404 Not Found"))
        status, headers, body = connection.exchange("POST", "/a?b=c", b"text", {"Content-Type": "text/plain"})
        self.assertEqual((status, body), (200, b"one"))
        self.assertEqual([headers.get("x-name"), headers["X-NAME"], headers.get("none", "-"), "X-Name" in headers], ["Value", "Value", "-", True])
        self.assertEqual(connection.exchange("GET", "/", None, {})[0], 404)
        lines = server.requests[0][0].decode().split("\r\n")
        self.assertEqual(lines[0], "POST /a?b=c HTTP/1.1")
        self.assertEqual(sorted(lines[1:-2]), ["Authorization: Bearer secret", "Content-Length: 4", "Content-Type: text/plain", "Host: " + server.url[7:]])
        self.assertEqual(server.requests[0][1], b"text")
        self.assertNotIn(b"Content-Length", server.requests[1][0])
        self.assertEqual(server.connections, 1)

    def test_bodies(self):
        numbers = array.array("d", range(LIMIT))
        square = memoryview(bytes(range(12))).cast("B", (3, 4))
        bodies = (None, b"", bytearray(b"x"), memoryview(numbers), memoryview(array.array("d")), square, b"y" * LIMIT)
        server, connection = self.open(*[answer(b"") for _ in bodies])
        for body in bodies:
            connection.exchange("PUT", "/", body, {})
        self.assertEqual([got for _, got in server.requests], [b"", b"", b"x", numbers.tobytes(), b"", bytes(range(12)), b"y" * LIMIT])
        self.assertIn(b"Content-Length: 0", server.requests[0][0])

    def test_answers_without_a_length(self):
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;name=x\r\nabcd\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: t\r\n\r\n"
        server, connection = self.open(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"after"), chunked, b"HTTP/1.1 204 No Content\r\n\r\n",
                                       b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", answer(b"last"))
        self.assertEqual([connection.exchange(method, "/", None, {})[2] for method in ("GET", "GET", "GET", "HEAD", "GET")],
                         [b"after", b"abcd0123456789abcdef", b"", b"", b"last"])
        self.assertEqual(server.connections, 1)

    def test_a_connection_that_ends(self):
        server, connection = self.open(answer(b"1", "Connection: close") + Scripted.CLOSE, answer(b"2") + Scripted.CLOSE, answer(b"3"))
        self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"1")
        self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"2")
        connection.local.link.sock.recv(1, socket.MSG_PEEK)  # until the end has arrived
        self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"3")
        self.assertEqual(server.connections, 3)

    def test_broken_answers(self):
        for sent, words in ((b"", "broke off"), (b"HTTP/1.1 200 OK\r\nContent-Le", "broke off"), (b"HTTP/1.1 200 OK\r\n\r\nabc", "broke off"),
                            (answer(b"0123456789")[:-7], "broke off after 3 of 10 bytes"), (b"220 mail.example.com\r\n\r\n", "not that of an HTTP server"),
                            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabc", "broke off after 3 of 8 bytes"),
                            (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "not that of an HTTP server"),
                            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc", "not that of an HTTP server"),
                            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\nabc", "not that of an HTTP server"),
                            (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "headers"), (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2 * LIMIT, "too long")):
            server, connection = self.open(sent + Scripted.CLOSE, answer(b"good"))
            with self.assertRaises(OSError) as caught:
                connection.exchange("GET", "/", None, {})
            self.assertIn(words, str(caught.exception))
            self.assertIn(server.url, str(caught.exception))
            self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"good")

    def test_what_would_be_another_request_is_not_sent(self):
        server, connection = self.open(answer(b"good"))
        for path, headers in (("/a b", {}), ("/a\r\nX: y", {}), ("/\u00e9\n", {}), ("/", {"X": "y\r\nZ: 1"}), ("/", {"X\n": "y"})):
            with self.assertRaises(ValueError) as caught:
                connection.exchange("GET", path, None, headers)
            self.assertNotIn("secret", str(caught.exception))
        self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"good")
        self.assertEqual(len(server.requests), 1)

    def test_a_slow_answer_is_told(self):
        server, connection = self.open(answer(b"1"), answer(b"2"))
        told = []
        connection.waits = lambda: told.append("early")
        connection.exchange("GET", "/", None, {})
        self.assertEqual(told, [])
        server.hold = threading.Event()
        connection.waits = lambda: (told.append("waits"), server.hold.set())
        self.assertEqual(connection.exchange("GET", "/", None, {})[2], b"2")
        self.assertEqual(told, ["waits"])

    def test_more_files_than_select_takes(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most[1] != resource.RLIM_INFINITY and most[1] < 2048:
            self.skipTest("this process may not have 2,048 open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(most[0], 2048), most[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        _, connection = self.open(answer(b"1"), answer(b"2"))
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        try:
            connection.waits = lambda: None
            self.assertEqual([connection.exchange("GET", "/", None, {})[2] for _ in range(2)], [b"1", b"2"])
            self.assertGreater(connection.local.link.sock.fileno(), 1024)
        finally:
            for file in files:
                os.close(file)

    def test_failures_are_told_as_the_server_tells_them(self):
        problem = json.dumps({"title": "Not Found", "detail": "there is no tensor \"x\""}).encode()
        server, connection = self.open(answer(problem, "content-type: application/problem+json", status="404 Not Found"))
        client = beamline.Client(server.url)
        client.connection = connection
        with self.assertRaises(beamline.NotFound) as caught:
            client.get("x")
        self.assertIn("there is no tensor", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
