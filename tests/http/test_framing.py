# SPDX-License-Identifier: MIT
"""HTTP framing over raw sockets: input that libmicrohttpd 0.9.75 accepts and the server closes, and the remaining holes
(docs/http.md)."""

import http.client
import json
import socket
import time
import unittest

from fixture import JSON, Server, ServerTest, graph, head
from test_keys import KeyedCase

TYPE = "Content-Type: application/json"
BODY = json.dumps(graph()).encode()
DRAINED = 64 << 20  # limit of a refused body that the server reads and drops


class Framing(ServerTest):
    ARGS = ("--idle-timeout", "2", "--max-body", "1M")

    def answer(self, data, status, closes=True, problem=True):
        got, closed = self.server.raw(data, timeout=1.0 if closes else 0.3)
        self.assertTrue(got.startswith(b"HTTP/1.1 %d " % status), got[:200])
        if problem:
            self.assertEqual(1, got.count(b"HTTP/1.1 "), got)
            self.assertIn(b"content-type: application/problem+json", got)
            self.assertEqual(status, json.loads(got.split(b"\r\n\r\n", 1)[1])["status"])
        self.assertEqual(closes, closed, got)
        return got

    def test_t5_hole1_length_and_chunked(self):
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400)

    def test_t5_hole2_two_lengths(self):
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length: 4", "Content-Length: 5") + b"abcde", 400)
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length: 5", "Content-Length: 5") + b"abcde", 400)

    def test_t5_hole3_unknown_coding(self):
        self.answer(head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: foo") + b"abcd", 501)
        self.answer(head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: foo", "Content-Length: 4") + b"abcd", 400)
        self.answer(head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: chunked, foo") + b"abcd", 501)

    def test_t5_hole4_pinned_malformed_length_gives_two_status_lines(self):
        for length, status in (("+5", 400), ("5x", 400), ("-1", 400), (2**64 + 5, 413)):
            with self.subTest(length):
                got = self.answer(head("POST", "/api/v1/run", TYPE, f"Content-Length: {length}") + b"abcde", status, problem=False)
                self.assertEqual(2, got.count(b"HTTP/1.1 %d" % status))

    def test_t5_heads_that_are_too_long_have_one_status_line(self):
        for data, status in ((head("GET", "/", "X-A: " + "a" * 200000), 431), (head("GET", "/", *[f"X-{i}: a" for i in range(5000)]), 431),
                             (head("GET", "/" + "a" * 200000), 414)):
            self.assertEqual(1, self.answer(data, status, problem=False).count(b"HTTP/1.1 "))

    def test_t5_hole5_host_and_spaces(self):
        self.answer(b"GET /openapi.json HTTP/1.1\r\n\r\n", 400)
        self.answer(b"GET /openapi.json HTTP/1.0\r\n\r\n", 400)
        self.answer(b"GET /openapi.json HTTP/1.1\r\nHost : localhost\r\n\r\n", 400)
        self.answer(head("GET", "/openapi.json", "Host: localhost"), 400)
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length : 5") + b"abcde", 400)

    def test_t5_hole6_nul_in_address(self):
        self.answer(head("GET", "/openapi.json%00"), 400, closes=False)
        self.answer(head("GET", "/openapi%2ejson%0a"), 400, closes=False)
        self.answer(head("GET", "/openapi.js%7fon"), 400, closes=False)
        self.answer(head("GET", "/openapi.json%0"), 400, closes=False)

    def test_t5_hole6_pinned_raw_nul_cuts(self):
        self.answer(b"GET /v2/health/live\0x HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, closes=False, problem=False)
        self.answer(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nX-A: a\0b\r\n\r\n", 200, closes=False, problem=False)

    def test_t5_hole6_pinned_bare_lf_and_fold(self):
        self.answer(b"GET /v2/health/live HTTP/1.1\nHost: localhost\n\n", 200, closes=False, problem=False)
        self.answer(head("GET", "/v2/health/live", "X-A: a\r\n b"), 200, closes=False, problem=False)

    def test_t5_hole7_pinned_html_bodies(self):
        self.assertIn(b"<html>", self.answer(b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, problem=False))
        self.assertIn(b"<html>", self.answer(head("GET", "/", "X-A: " + "a" * 200000), 431, problem=False))
        self.assertIn(b"<html>", self.answer(head("GET", "/?" + "a" * 200000), 414, problem=False))
        bad = head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: chunked") + b"zz\r\nabc\r\n0\r\n\r\n"
        self.assertIn(b"<html>", self.answer(bad, 400, problem=False))

    def test_t5_hole10_pinned_silent_client_is_closed_after_the_timeout(self):
        begin = time.monotonic()
        got, closed = self.server.raw(b"GET /v2/health/live HTT", timeout=6)
        self.assertEqual((b"", True), (got, closed))
        self.assertLess(time.monotonic() - begin, 5)

    def test_hole11_pipelined_requests_are_answered_in_order(self):
        one = head("POST", "/api/v1/run", TYPE, f"Content-Length: {len(BODY)}") + BODY
        got, _ = self.server.raw(one * 20, timeout=1.0)
        self.assertEqual(20, got.count(b"HTTP/1.1 200 OK"))
        self.assertEqual(20, got.count(b'"data":[2,4]'), got[:500])

    def test_hole12_http_1_0_works(self):
        got, closed = self.server.raw(b"GET /v2/health/live HTTP/1.0\r\nHost: localhost\r\n\r\n")
        self.assertTrue(got.endswith(b'{"live":true}') and closed, got)

    def test_t5_length_lies(self):
        got, _ = self.server.raw(head("POST", "/api/v1/run", TYPE, "Content-Length: 100") + b"{}", timeout=5)
        self.assertNotIn(b" 200 ", got)  # the rest never arrives: the timeout closes the connection, and nothing runs
        more = head("POST", "/api/v1/run", TYPE, "Content-Length: 2") + b"{}{}{}"
        got, _ = self.server.raw(more, timeout=1)
        self.assertTrue(got.startswith(b"HTTP/1.1 400"), got)

    def test_t5_too_long_is_told_before_the_body(self):
        self.answer(head("POST", "/api/v1/run", TYPE, f"Content-Length: {DRAINED + 1}"), 413)
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length: 9223372036854775807"), 413)
        self.answer(head("POST", "/api/v1/run", TYPE, "Content-Length: 1048577", "Expect: 100-continue"), 413)

    def test_t5_expect_continue(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.settimeout(5)
            sock.sendall(head("POST", "/api/v1/run", TYPE, f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
            self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 100 "))
            sock.sendall(BODY)
            self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 200 "))

    def test_t5_chunked_past_the_limit(self):
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        data = head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: chunked") + chunk * 20 + b"0\r\n\r\n"
        self.answer(data, 413, closes=False)

    def test_t5_slow_headers_and_body_delay_nobody(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(50)]
        for i, sock in enumerate(slow):
            sock.sendall(b"GET / HT" if i % 2 else head("POST", "/api/v1/run", TYPE, "Content-Length: 1000") + b"{")
        begin = time.monotonic()
        self.ok(self.call("POST", "/api/v1/run", graph()))
        self.assertLess(time.monotonic() - begin, 2)
        for sock in slow:
            sock.close()

    def test_t5_many_headers_and_parameters(self):
        self.answer(head("GET", "/", *[f"X-{i}: a" for i in range(5000)]), 431, problem=False)
        got, closed = self.server.raw(head("GET", "/?" + "a=1&" * 1000000))
        self.assertTrue(closed and (got == b"" or got.startswith(b"HTTP/1.1 414 ")), got)  # the client may lose the answer, since it still sends
        self.assertIn(b" 400 ", self.server.raw(head("GET", "/v2?" + "a=1&" * 200), timeout=0.3)[0])

    def test_t5_pinned_thousands_of_parameters_get_no_answer(self):
        before = self.server.rss()
        for _ in range(3):
            got, closed = self.server.raw(head("GET", "/?" + "a=1&" * 10000), timeout=6)
            self.assertEqual((b"", True), (got, closed))
        self.assertLess(self.server.rss() - before, 8 << 20)

    def test_t5_dots_are_no_way_up(self):
        for path in ("/api/v1/../../v2/health/live", "/api/%2e%2e/v2/health/live", "/./v2/health/live", "//v2/health/live"):
            self.refused(404, self.call("GET", path))
        self.refused(400, self.call("GET", "/api/v1/tensors/..%2f..%2fetc%2fpasswd"))
        self.answer(b"GET http://localhost/v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, closes=False)

    def test_t1_many_small_chunks(self):
        data = head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: chunked") + b"1\r\n[\r\n" * 65537 + b"0\r\n\r\n"
        self.answer(data, 400, closes=False)

        def grown(repeats):
            before = self.server.rss()
            for _ in range(repeats):
                got, _ = self.server.raw(data, timeout=20, until=b"}")
                self.assertTrue(got.startswith(b"HTTP/1.1 400 "), got[:200])
            return self.server.rss() - before
        grown(50)  # warm-up of the threads' heaps
        self.assertLess(grown(100), 1 << 20)

    def test_body_of_a_refused_request_is_read_so_that_the_connection_goes_on(self):
        bad = head("POST", "/api/v1/nothing", TYPE, "Content-Length: 5") + b"abcde"
        got, _ = self.server.raw(bad + head("GET", "/v2/health/live"), timeout=0.5)
        self.assertEqual(2, got.count(b"HTTP/1.1 "), got)
        self.assertIn(b'{"live":true}', got)

    def test_keep_alive_and_head(self):
        got, _ = self.server.raw(head("HEAD", "/v2/health/live") + head("GET", "/v2/health/live"), timeout=0.5)
        self.assertEqual(2, got.count(b"Content-Length: 13"))
        self.assertEqual(1, got.count(b'{"live":true}'))

    def test_unread_headers_of_one_request_do_not_reach_the_next(self):
        first = head("GET", "/api/v1/devices", "Accept: application/x-safetensors", "X-Request-Id: one")
        got, _ = self.server.raw(first + head("GET", "/api/v1/devices"), timeout=0.5)
        self.assertEqual(1, got.count(b"x-request-id: one"))


class Refused(KeyedCase):
    """A client that sends its whole body before it reads, as most clients do, receives the refusal."""

    KEYS = {"alice": ("run",)}
    ARGS = ("--backends", "interp", "--max-body", "16M")

    def test_t5_a_refused_body_is_read_and_answered(self):
        wrong, pieces = {**JSON, "x-api-key": "bl_" + 43 * "A"}, 40
        cases = ((413, {**JSON, "x-api-key": self.key["alice"]}, bytes(pieces << 20)), (401, wrong, bytes(12 << 20)), (401, JSON, bytes(pieces << 20)),
                 (413, {**JSON, "x-api-key": self.key["alice"]}, (bytes(1 << 20) for _ in range(pieces))), (401, wrong, (bytes(1 << 20) for _ in range(pieces))))
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        for status, headers, body in cases:
            with self.subTest(status, chunked=not isinstance(body, bytes)):
                connection.request("POST", "/api/v1/run", body, headers)
                reply = connection.getresponse()
                self.assertEqual((status, status), (reply.status, json.load(reply)["status"]))
                self.assertNotEqual("close", reply.headers["connection"])
        connection.request("GET", "/v2/health/live")  # on the same connection
        self.assertEqual(200, connection.getresponse().status)
        connection.close()

    def test_t5_a_body_without_an_end_is_cut(self):
        piece = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        for headers in ((), ("x-api-key: " + self.key["alice"],)):
            with socket.create_connection((self.server.host, self.server.port)) as sock:
                sock.settimeout(120)
                sock.sendall(head("POST", "/api/v1/run", TYPE, "Transfer-Encoding: chunked", *headers))
                with self.assertRaises(ConnectionError):
                    for _ in range(1024):
                        sock.sendall(piece)


class RequestId(ServerTest):
    def test_echo_and_generated(self):
        self.assertEqual("abc-1.2", self.call("GET", "/v2", headers={"x-request-id": "abc-1.2"}).headers["x-request-id"])
        for bad in ("a b", "x" * 200, "ä", "<script>"):
            got = self.call("GET", "/v2", headers={"x-request-id": bad.encode("utf-8")}).headers["x-request-id"]
            self.assertRegex(got, "^[0-9a-f]{16}$")
        ids = {self.call("GET", "/v2").headers["x-request-id"] for _ in range(10)}
        self.assertEqual(10, len(ids))
        numbers = sorted(int(one, 16) for one in ids)  # request ids reveal nothing about requests of others
        self.assertGreater(min(b - a for a, b in zip(numbers, numbers[1:])), 1 << 32)

    def test_t15_no_name_forges_a_log_line(self):
        self.call("GET", "/api/v1/tensors/a%0aforged", headers=JSON)
        self.call("GET", "/api/v1/tensors/forged%1b%5b31m")
        self.server.raw(b"GET /\x1b[31mforged HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=0.3)
        self.assertNotRegex(self.server.log_text(), r"(?m)^forged|\x1b")


if __name__ == "__main__":
    unittest.main()
