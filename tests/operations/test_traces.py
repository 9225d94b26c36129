# SPDX-License-Identifier: MIT
"""OpenTelemetry traces: the spans that a collector receives; no request waits for the collector."""

import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import ROOT, SLOW_STEPS, Server, counter, graph

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """Accepts POST /v1/traces.  Answers one of |statuses| per request first, then 200; answers nothing while |mute|."""

    def __init__(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append((self.path, self.headers["content-type"], json.loads(body)))
                while collector.mute and not collector.ends:
                    time.sleep(0.05)
                if collector.ends:
                    return
                self.send_response(collector.statuses.pop(0) if collector.statuses else 200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.requests, self.statuses, self.mute, self.ends = [], [], False, False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        return [span for _, _, body in self.requests for part in body["resourceSpans"] for scope in part["scopeSpans"] for span in scope["spans"]]

    def wait(self, found, seconds=10):
        """Waits until |found| is true for the spans.  Returns the spans."""
        end = time.monotonic() + seconds
        while not found(self.spans()):
            assert time.monotonic() < end, self.spans()
            time.sleep(0.02)
        return self.spans()

    def close(self):
        self.ends = True
        self.server.shutdown()
        self.server.server_close()


def attributes(part):
    return {item["key"]: next(iter(item["value"].values())) for item in part["attributes"]}


def tree(spans):
    """Returns the request's span, and its phases by name."""
    roots = [span for span in spans if span["kind"] == 2]
    assert len(roots) == 1, spans
    return roots[0], {span["name"]: span for span in spans if span["kind"] == 1}


class Traces(unittest.TestCase):
    def start(self, *args, collector=None):
        self.collector = collector or Collector()
        self.addCleanup(self.collector.close)
        self.server = Server("--backends", "interp", "--otlp", self.collector.url, *args)
        self.addCleanup(self.server.stop)

    def traceparent(self, flags="01"):
        return {"traceparent": f"00-{TRACE}-{SPAN}-{flags}"}

    def test_a_run_with_a_parent(self):
        self.start("--service-name", "tensors")
        before = time.time_ns()
        run = graph(nodes=[{"id": "y", "op": "mul", "in": ["x", 77]}])
        answer = self.server.call("POST", "/api/v1/run?", run, {**self.traceparent(), "tracestate": "a=1,b=2", "x-request-id": "one"})
        after, stats = time.time_ns(), answer.json["stats"]
        root, phases = tree(self.collector.wait(lambda spans: spans))
        path, kind, body = self.collector.requests[0]
        self.assertEqual(("/v1/traces", "application/json"), (path, kind))
        resource = attributes(body["resourceSpans"][0]["resource"])
        self.assertEqual("tensors", resource["service.name"])
        self.assertRegex(resource["service.instance.id"], "^[0-9a-f]{32}$")

        self.assertEqual((TRACE, SPAN, "POST /api/v1/run", "a=1,b=2"), (root["traceId"], root["parentSpanId"], root["name"], root["traceState"]))
        told = attributes(root)
        self.assertEqual(("POST", "/api/v1/run", "/api/v1/run", "200", "one", str(len(json.dumps(run))), str(len(answer.body))),
                         tuple(told[name] for name in ("http.request.method", "http.route", "url.path", "http.response.status_code", "beamline.request_id",
                                                       "http.request.body.size", "http.response.body.size")))
        self.assertNotIn("status", root)
        begin, end = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
        self.assertLess(before - 5_000_000, begin)
        self.assertLess(end, after + 1_000_000_000)

        self.assertEqual({"receive", "decode", "queue", "compile", "compute", "copy", "encode", "send"}, set(phases))
        for name, span in phases.items():
            self.assertEqual((TRACE, root["spanId"]), (span["traceId"], span["parentSpanId"]), name)
            self.assertLessEqual((begin, int(span["startTimeUnixNano"])), (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])), name)
            self.assertLessEqual(int(span["endTimeUnixNano"]), end, name)
        order = ["receive", "decode", "compile", "compute", "encode", "send"]
        self.assertEqual(order, sorted(order, key=lambda name: int(phases[name]["startTimeUnixNano"])))
        compiled = phases["compile"]
        self.assertAlmostEqual(stats["compile_ms"], (int(compiled["endTimeUnixNano"]) - int(compiled["startTimeUnixNano"])) * 1e-6, places=2)

        ids = [span["spanId"] for span in self.collector.spans()]
        self.assertEqual(len(ids), len(set(ids)))
        for one in ids:
            self.assertRegex(one, "^[0-9a-f]{16}$")
            self.assertNotEqual("0" * 16, one)

    def test_who_is_traced(self):
        self.start("--trace-share", "1")
        for path, headers, traced in (("/v2/health/live", {}, False), ("/metrics", {}, False), ("/v2/health/live", self.traceparent(), True),
                                      ("/api/v1/devices", {}, True), ("/api/v1/tensors", self.traceparent("00"), False),
                                      ("/api/v1/tensors/none", self.traceparent("ff"), True), ("/nothing", {}, False), ("/nothing", self.traceparent(), True)):
            with self.subTest(path=path, headers=headers):
                del self.collector.requests[:]
                self.server.call("GET", path, headers=headers)
                self.server.call("POST", "/api/v1/leases", {"ttl": 1}, {"x-request-id": "last"})
                spans = self.collector.wait(lambda spans: any(attributes(span).get("beamline.request_id") == "last" for span in spans if span["kind"] == 2))
                roots = [span for span in spans if span["kind"] == 2 and attributes(span)["beamline.request_id"] != "last"]
                self.assertEqual([path] if traced else [], [attributes(span)["url.path"] for span in roots])
                if traced and headers:
                    self.assertEqual((TRACE, SPAN), (roots[0]["traceId"], roots[0]["parentSpanId"]))
                elif traced:
                    self.assertNotIn("parentSpanId", roots[0])
                    self.assertRegex(roots[0]["traceId"], "^[0-9a-f]{32}$")

    def test_a_share(self):
        self.start("--trace-share", "0.25")
        for _ in range(400):
            self.server.call("GET", "/api/v1/tensors")
        time.sleep(1.5)
        roots = [span for span in self.collector.spans() if span["kind"] == 2]
        self.assertTrue(60 <= len(roots) <= 145, len(roots))  # 100 with a standard deviation of 9: one run in a million is outside
        self.assertEqual(len(roots), len({span["traceId"] for span in roots}))

    def test_errors_and_long_runs(self):
        self.start("--slice", "0.001")
        self.assertEqual(201, self.server.call("PUT", "/api/v1/programs/c", counter()).status)
        self.collector.wait(lambda spans: any(span["kind"] == 2 for span in spans))
        del self.collector.requests[:]
        self.assertEqual(504, self.server.call("POST", "/api/v1/programs/c/run", {"steps": SLOW_STEPS, "timeout_ms": 500}).status)
        spans = self.collector.wait(lambda spans: spans)
        root, _ = tree(spans)
        self.assertEqual({"code": 2}, root["status"])
        self.assertEqual(25, len(spans))
        told = attributes(root)
        self.assertGreater(told["beamline.compute_ms"], 200)
        self.assertEqual("504", told["http.response.status_code"])

    def test_a_collector_that_is_not_there(self):
        """With an unreachable collector no request waits, memory is bounded, and lost spans are counted."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Server("--backends", "interp", "--otlp", f"http://127.0.0.1:{port}")
        self.addCleanup(server.stop)
        begin = time.monotonic()
        for _ in range(1500):
            self.assertEqual(200, server.call("GET", "/api/v1/tensors").status)
        self.assertLess(time.monotonic() - begin, 60)
        dropped = server.metric("trace_spans_dropped_total")
        self.assertGreaterEqual(dropped, 400 * 3)  # 1,024 spans wait; each request has 3: the request, its handling and its sending
        self.assertEqual(0, server.metric("trace_spans_total"))
        self.assertEqual(1, len(re.findall("traces cannot be sent", server.log_text())))
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 5)

    def test_a_collector_that_is_busy_then_refuses_then_takes(self):
        collector = Collector()
        collector.statuses = [503, 429]
        self.start(collector=collector)
        self.server.call("GET", "/api/v1/tensors", headers={"x-request-id": "kept"})
        self.collector.wait(lambda spans: len(spans) >= 9, 15)  # the same three spans, three times
        self.assertEqual(3, self.server.settled("trace_spans_total", 3))
        self.assertEqual(0, self.server.metric("trace_spans_dropped_total"))
        self.assertIn("again", self.server.log_text())
        collector.statuses = [400]
        self.server.call("GET", "/api/v1/tensors")
        self.assertEqual(3, self.server.settled("trace_spans_dropped_total", 3))
        self.server.call("GET", "/api/v1/tensors")
        self.assertEqual(6, self.server.settled("trace_spans_total", 6))

    def test_a_collector_that_never_answers_holds_nobody(self):
        collector = Collector()
        collector.mute = True
        self.start(collector=collector)
        self.server.call("GET", "/api/v1/tensors")
        self.collector.wait(lambda spans: spans)
        begin = time.monotonic()
        for _ in range(50):
            self.assertEqual(200, self.server.call("POST", "/api/v1/run", graph()).status)
        self.assertLess(time.monotonic() - begin, 5)
        begin = time.monotonic()
        self.assertEqual(0, self.server.stop())
        self.assertLess(time.monotonic() - begin, 6)

    def test_what_waits_is_sent_at_the_end(self):
        self.start()
        for _ in range(10):
            self.server.call("GET", "/api/v1/tensors")
        self.assertEqual(0, self.server.stop())
        self.assertEqual(10, sum(span["kind"] == 2 for span in self.collector.spans()))

    def test_bad_addresses(self):
        for url in ("127.0.0.1:4318", "ftp://127.0.0.1", "file:///etc/passwd", "http://", "x"):
            with self.subTest(url), self.assertRaisesRegex(RuntimeError, "--otlp .* is not an address"):
                Server("--backends", "interp", "--otlp", url)

    def test_addresses_with_a_path(self):
        for end in ("/", "/v1/traces", "/v1/traces/", "/a"):
            with self.subTest(end):
                collector = Collector()
                self.addCleanup(collector.close)
                server = Server("--backends", "interp", "--otlp", collector.url + end)
                server.call("GET", "/api/v1/tensors")
                self.assertEqual(0, server.stop())
                self.assertEqual("/a/v1/traces" if end == "/a" else "/v1/traces", collector.requests[0][0])

    def test_the_example_draws_them(self):
        example = subprocess.Popen([sys.executable, f"{ROOT}/examples/traces.py", "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            url = re.fullmatch(r"collecting on (\S+)\n", example.stdout.readline())[1]
            server = Server("--backends", "interp", "--otlp", url)
            self.assertEqual(200, server.call("POST", "/api/v1/run", graph(), self.traceparent()).status)
            self.assertEqual(0, server.stop())
            lines = [example.stdout.readline().rstrip("\n") for _ in range(8)]
        finally:
            example.kill()
            example.wait()
            example.stdout.close()
        self.assertRegex(lines[0], rf"^POST /api/v1/run 200  [\d.]+ ms  trace {TRACE}$")
        self.assertEqual(["receive", "decode", "queue"], [line.split()[0] for line in lines[1:4]])
        for line in lines[1:]:
            self.assertRegex(line, r"^  [a-z]+ +\d+\.\d{3} \| *#+ *\|$")
            self.assertEqual(40, len(line.split("|")[1]))

    def test_no_socket_is_left_to_a_child(self):
        """Child processes inherit no sockets, not even those of libcurl, which exec does not close."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.start()
        server = Server("--backends", "opencl", "--interpret-first=off", "--otlp", self.collector.url, env={"BEAMLINE_CACHE": folder.name})
        self.addCleanup(server.stop)
        server.call("GET", "/api/v1/tensors")
        self.collector.wait(lambda spans: spans)
        self.assertEqual(200, server.call("POST", "/api/v1/run", graph()).status)
        tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
        children = " ".join(path.read_text() for path in tasks.glob("*/children")).split()
        self.assertGreater(len(children), 0)
        for child in children:
            files = [os.readlink(path) for path in pathlib.Path(f"/proc/{child}/fd").iterdir()]
            self.assertEqual([], [name for name in files if name.startswith("socket:")])


if __name__ == "__main__":
    unittest.main()
