# SPDX-License-Identifier: MIT
"""Settings of tracing and logging, and a collector that counts traces."""

import http.server
import json
import threading
import time
import unittest

from repository import ModelsTest, document, elementwise, numbers

TRACE, LOG = "/v2/trace/setting", "/v2/logging"


class Collector(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        for resource in body["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                Collector.seen += [span for span in scope["spans"] if "/infer" in json.dumps(span)]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


class Settings(ModelsTest):
    @classmethod
    def fill(cls, repository):
        repository.put("double", 1, elementwise("mul", 2))

    def test_without_a_collector(self):
        self.assertEqual({"trace_file": "", "trace_level": ["OFF"], "trace_rate": "1", "trace_count": "-1", "log_frequency": "0", "trace_mode": "opentelemetry"},
                         self.ok(self.call("GET", TRACE)).json)
        self.refused(400, self.call("POST", TRACE, {"trace_level": ["TIMESTAMPS"]}), "--otlp")
        self.assertEqual("500", self.ok(self.call("POST", "/v2/models/double/trace/setting", {"trace_rate": "500"})).json["trace_rate"])
        self.assertEqual("1", self.ok(self.call("GET", TRACE)).json["trace_rate"])
        self.assertEqual("1", self.ok(self.call("POST", "/v2/models/double/trace/setting", {"trace_rate": None})).json["trace_rate"])
        self.refused(404, self.call("GET", "/v2/models/nobody/trace/setting"), "nobody")
        for bad, status in (({"trace_rate": "0"}, 400), ({"trace_rate": "x"}, 400), ({"trace_rate": -1}, 400), ({"trace_count": "-2"}, 400), ({"other": 1}, 400),
                            ({"trace_level": "OFF"}, 400), ({"trace_level": ["SOME"]}, 400), ({"trace_level": ["TENSORS"]}, 501),
                            ({"trace_file": "/tmp/x"}, 501), ({"log_frequency": "5"}, 501), ({"trace_mode": "triton"}, 501)):
            with self.subTest(str(bad)):
                self.assertEqual(status, self.call("POST", TRACE, bad).status)
        self.refused(400, self.call("POST", TRACE, b"[" * 250000))

    def test_log(self):
        self.assertEqual({"log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "ISO8601"},
                         self.ok(self.call("GET", LOG)).json)
        self.assertFalse(self.ok(self.call("POST", LOG, {"log_info": False})).json["log_info"])
        self.call("GET", "/v2/models/quiet-one")
        self.assertTrue(self.ok(self.call("POST", LOG, {"log_info": True})).json["log_info"])
        self.call("GET", "/v2/models/loud-one")
        time.sleep(0.1)
        self.assertNotIn("quiet-one", self.server.log_text())
        self.assertIn("loud-one", self.server.log_text())
        self.assertEqual(1, self.ok(self.call("POST", LOG, {"log_verbose_level": 3})).json["log_verbose_level"])
        self.assertEqual(0, self.ok(self.call("POST", LOG, {"log_verbose_level": 0})).json["log_verbose_level"])
        for bad, status in (({"log_error": False}, 501), ({"log_warning": False}, 501), ({"log_file": "/tmp/x"}, 501), ({"log_info": 1}, 400), ({"color": 1}, 400),
                            ({"log_format": "default"}, 501)):
            self.assertEqual(status, self.call("POST", LOG, bad).status, bad)


class Traced(ModelsTest):
    @classmethod
    def setUpClass(cls):
        cls.collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=cls.collector.serve_forever, daemon=True).start()
        cls.ARGS = ("--otlp", f"http://127.0.0.1:{cls.collector.server_address[1]}")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.collector.shutdown()
        cls.collector.server_close()

    @classmethod
    def fill(cls, repository):
        repository.put("double", 1, elementwise("mul", 2))
        repository.put("other", 1, elementwise("mul", 3))

    def traces(self, model, count):
        """Returns the number of traces of the given number of inferences."""
        time.sleep(0.2)
        Collector.seen.clear()
        for i in range(count):
            self.ok(self.infer(model, document(numbers("x", [1, 4], [i, 2, 3, 4]))))
        most, end = 0, time.monotonic() + 8
        while time.monotonic() < end:
            time.sleep(0.1)
            now = len({span["traceId"] for span in list(Collector.seen)})
            if now == most and time.monotonic() > end - 5:
                break
            most = now
        return most

    def test_which_are_traced(self):
        self.assertEqual((["TIMESTAMPS"], "1"), tuple(self.ok(self.call("GET", TRACE)).json[name] for name in ("trace_level", "trace_rate")))
        self.assertEqual(6, self.traces("double", 6))
        self.ok(self.call("POST", "/v2/models/double/trace/setting", {"trace_rate": "3"}))
        self.assertEqual(2, self.traces("double", 6))
        self.assertEqual(6, self.traces("other", 6))
        self.ok(self.call("POST", "/v2/models/double/trace/setting", {"trace_rate": None, "trace_count": "4"}))
        self.assertEqual(4, self.traces("double", 6))
        self.ok(self.call("POST", TRACE, {"trace_level": ["OFF"]}))
        self.assertEqual(0, self.traces("other", 3))


if __name__ == "__main__":
    unittest.main()
