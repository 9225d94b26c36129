# SPDX-License-Identifier: MIT
"""The access log: one line per request, with its properties, which a client cannot forge."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import PROGRAM, Server, ServerTest, graph, head

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIELDS = ["method", "path", "route", "status", "in", "out", "ms", "peer", "id"]


class Log(ServerTest):
    ARGS = ("--backends", "interp", "--log-json")

    def line_of(self, name, count=1):
        """Returns the line of the request with this id."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            lines = [json.loads(line) for line in self.server.log_text().splitlines()]
            found = [line for line in lines if line["message"] == "request" and line["id"] == name]
            if len(found) >= count:
                self.assertEqual(count, len(found))
                return found[-1]
            time.sleep(0.02)
        self.fail(f"there is no line of {name}")

    def test_what_a_line_says(self):
        answer = self.ok(self.call("POST", "/api/v1/run", graph(), {"x-request-id": "run-1"}))
        line = self.line_of("run-1")
        self.assertEqual(["time", "level", "message"] + FIELDS, list(line))
        self.assertEqual(("POST", "/api/v1/run", "/api/v1/run", 200), tuple(line[name] for name in FIELDS[:4]))
        self.assertEqual((len(json.dumps(graph())), len(answer.body)), (line["in"], line["out"]))
        self.assertGreater(line["ms"], answer.json["stats"]["compute_ms"])
        self.assertRegex(line["peer"], r"^127\.0\.0\.1:\d+$")
        self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_whose_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([PROGRAM, "keys", "create", "alice", "--scopes", "run", "--state", folder], capture_output=True, text=True, check=True)
            secret = re.search(r"bl_\S+", made.stdout)[0]
            server = Server("--backends", "interp", "--log-json", "--state", folder)
            self.assertEqual(200, server.call("GET", "/api/v1/tensors", headers={"authorization": "Bearer " + secret}).status)
            self.assertEqual(401, server.call("GET", "/api/v1/tensors").status)
            self.assertEqual(0, server.stop())
        lines = [json.loads(line) for line in server.log_text().splitlines()]
        self.assertEqual([(200, "alice"), (401, None)], sorted((line["status"], line.get("key")) for line in lines if line["message"] == "request"))  # two connections, so the order may vary
        self.assertNotIn(secret, server.log_text())

    def test_a_probe_is_logged_at_debug(self):
        for path in ("/v2/health/live", "/v2/health/ready"):
            self.call("GET", path, headers={"x-request-id": "probe-1"})
        self.call("GET", "/v2", headers={"x-request-id": "after-1"})
        self.line_of("after-1")
        self.assertNotIn("probe-1", self.server.log_text())

    def test_what_has_no_route(self):
        self.assertEqual(404, self.call("GET", "/api/v1/tensors/none?lease=0", headers={"x-request-id": "none-1"}).status)
        line = self.line_of("none-1")
        self.assertEqual(("/api/v1/tensors/none", "/api/v1/tensors/{name}", 404), (line["path"], line["route"], line["status"]))
        self.assertEqual(404, self.call("GET", "/nothing", headers={"x-request-id": "none-2"}).status)
        self.assertEqual(("/nothing", ""), (self.line_of("none-2")["path"], self.line_of("none-2")["route"]))
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:  # a client that disconnects before the answer
            sock.sendall(head("POST", "/api/v1/run", "Content-Type: application/json", "Content-Length: 100", "X-Request-Id: gone-1") + b"{")
            time.sleep(0.1)
        self.assertEqual((0, 0), (self.line_of("gone-1")["status"], self.line_of("gone-1")["out"]))

    def test_trace_context(self):
        for number, (parent, kept) in enumerate([
                (PARENT, True), (PARENT[:-2] + "00", True), ("cc" + PARENT[2:] + "-more", True), ("cc" + PARENT[2:], True),
                (PARENT + "-more", False), ("ff" + PARENT[2:], False), (PARENT.upper(), False), (PARENT[:-1], False), (PARENT[:-1] + "g", False),
                ("0-" + PARENT[2:] + "0", False), (PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), False),
                (PARENT.replace("b7ad6b7169203331", "0" * 16), False), ("00-" + "x" * 32 + PARENT[35:], False), ("", False)]):
            with self.subTest(parent):
                self.call("GET", "/v2", headers={"x-request-id": f"trace-{number}", "traceparent": parent})
                line = self.line_of(f"trace-{number}")
                self.assertEqual("00" + PARENT[2:53] + parent[53:55] if kept else None, line.get("traceparent"))
        got, _ = self.server.raw(head("GET", "/v2", "X-Request-Id: twice", f"Traceparent: {PARENT}", f"Traceparent: {PARENT}"), timeout=0.3)
        self.assertIn(b" 200 ", got)
        self.assertNotIn("traceparent", self.line_of("twice"))

    def test_t15_nothing_forges_a_line(self):
        before = len(self.server.log_text().splitlines())
        asks = ["/api/v1/tensors/a%0aforged", "/api/v1/tensors/a%22,%22status%22:1", "/nothing?x=%0d%0aforged", "/nothing\"},{\"forged\":1"]
        for ask in asks:
            self.server.raw(head("GET", ask), timeout=0.2, until=b"}")
        self.server.raw(b"GET /\x1b[31mforged\xc2\x9b HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=0.2, until=b"}")
        self.server.raw(head("GET", "/v2", "X-Request-Id: a\" forged=1"), timeout=0.2, until=b"}")
        lines = [json.loads(line) for line in self.server.wait_log(lambda lines: len(lines) >= before + len(asks) + 2)[before:]]
        self.assertEqual(len(asks) + 2, len(lines))
        for line in lines:
            self.assertEqual(["time", "level", "message"] + FIELDS, list(line))
            self.assertNotRegex(line["path"], r"[^!-~]")
        self.assertTrue(any("%1B[31mforged" in line["path"] for line in lines), lines)

    def test_t21_secrets_stay_out(self):
        lease = self.ok(self.call("POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"]
        self.ok(self.call("PUT", f"/api/v1/leases/{lease}", {"ttl": 60}))
        self.ok(self.call("GET", f"/api/v1/tensors?lease={lease}"))
        self.ok(self.call("DELETE", f"/api/v1/leases/{lease}", headers={"x-request-id": "lease-end"}), 204)
        self.assertEqual("/api/v1/leases/{id}", self.line_of("lease-end")["path"])
        self.assertNotIn(lease, self.server.log_text())


class Plain(ServerTest):
    ARGS = ("--backends", "interp")

    def test_a_line_in_words(self):
        self.call("GET", "/v2", headers={"x-request-id": "plain-1", "traceparent": PARENT})
        found = [line for line in self.server.wait_log(lambda lines: any("id=plain-1" in line for line in lines)) if "id=plain-1" in line]
        self.assertEqual(1, len(found))
        self.assertRegex(found[0], r"Z info  request method=GET path=/v2 route=/v2 status=200 in=0 out=\d+ ms=[\d.]+ peer=127\.0\.0\.1:\d+ "
                                   r"id=plain-1 traceparent=" + PARENT + "$")


if __name__ == "__main__":
    unittest.main()
