# SPDX-License-Identifier: MIT
"""Hostile or broken servers: names with terminal escapes, truncated answers, broken streams of text models."""
import http.server
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest

from served import SERVER
from screen import Screen

EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\x7f\u202eevil"
JOB = {"job": EVIL, "program": EVIL, "state": "done", "reason": EVIL, "step": 5, "steps": 5, "metrics": {EVIL: 1.5}, "device": EVIL}
DEVICE = {"id": EVIL, "name": EVIL, "driver": EVIL, "state": EVIL, "memory": 1e9, "memory_used": 5, "memory_moved": 7, "busy": 0.5, "queue": 1, "free_in": 3,
          "keys": [{"name": EVIL, "busy": 0.5, "queue": 1, "memory_used": 3, "device_seconds": 1, "what": [EVIL]}]}
ANSWERS = {
    "/api/v1/jobs": {"jobs": [JOB]}, "/api/v1/jobs/x": JOB, "/api/v1/jobs/x/history": {"columns": ["step", "time", EVIL], "rows": [[1, 0, 2.5], [5, 0, 1.5]]},
    "/api/v1/now": {"uptime": 5, "models": 1, "jobs": 1, "devices": [DEVICE]}, "/api/v1/devices": {"devices": [DEVICE]},
    "/api/v1/me": {"keys": True, "name": EVIL, "scopes": [EVIL], "expires": 2e9, "used": {EVIL: 1, "memory": 3}, "quotas": {"memory": 5}},
    "/api/v1/usage": {"usage": [{"day": EVIL, "key": EVIL, "requests": 1, "device_seconds": 1, "received_bytes": 1, "sent_bytes": 1}]},
    "/api/v1/kernels": {"kernels": [{"key": EVIL, "name": EVIL, "moves": EVIL, "heuristic_ns": 1, "best_ns": 1}]},
    "/api/v1/kernels/k": {"kernels": [{"key": EVIL, "name": EVIL, "device": EVIL, "driver": EVIL, "moves": EVIL, "nest": EVIL}]},
    "/v2": {"name": EVIL, "version": EVIL}, "/v2/health/ready": {}, "/v2/repository/index": [{"name": EVIL, "version": EVIL, "state": EVIL, "reason": EVIL}],
    "/v2/models/m": {"name": "m", "inputs": [{"name": "t", "datatype": "BYTES", "shape": [-1, 1]}], "outputs": []},
    "/v2/models/m/infer": {"outputs": [{"name": EVIL, "datatype": EVIL, "shape": [1], "data": [EVIL]}, {"name": "c", "classes": [{"label": EVIL, "score": 1, "index": 0}]}]},
    "/v2/models/w": {"name": "w", "inputs": [], "outputs": []}, "/v1/models/w": {"id": "w"}, "/v2/models/w/generate": {"text_output": EVIL},
    "/api/v1/run": {"device": EVIL, "seconds": 1, "launched": [{"kernel": EVIL, "moves": EVIL}]},
}
EVENTS = [("state", JOB), (None, {"step": 5, "metrics": {EVIL: "NaN" + EVIL}}), ("state", JOB)]
PROBLEM = {"title": EVIL, "detail": EVIL, "node": EVIL + "node", "status": 422}


class Evil(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def give(self, status, body, length=None, media="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).replace("\x7f", "\x7f").encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, mode = self.path.split("?")[0], self.server.mode
        if "Content-Length" in self.headers:
            self.server.asked = self.rfile.read(int(self.headers["Content-Length"]))
        if mode == "problem":
            self.give(422, PROBLEM)
        elif mode == "cut":
            self.give(200, b'{"jobs": [', length=100)
            self.close_connection = True
        elif mode == "words":
            self.give(502, ("<h1>" + EVIL).encode(), media="text/html")
        elif mode == "nonsense":
            self.give(200, b"no JSON")
        elif mode == "nonsense job":
            self.give(202, {"job": EVIL, "outputs": []})
        elif path == "/v1/completions":
            self.stream()
        elif path.endswith("/events"):
            self.give(200, "".join((f"event: {name}\n" if name else "id: 5\n") + f"data: {json.dumps(data)}\n\n" for name, data in EVENTS).encode(), media="text/event-stream")
        elif path in ANSWERS:
            self.give(200, ANSWERS[path])
        else:
            self.give(404, PROBLEM)

    do_POST = do_PUT = do_DELETE = do_GET

    def stream(self):
        """Sends three chunks, the first after 50 ms, with 12 tokens in all."""
        time.sleep(0.05)
        chunks = [{"choices": [{"text": "one two"}]}, {"choices": [{"text": " three"}]}, {"choices": [], "usage": {"completion_tokens": 12}}]
        if self.server.mode == "broken":
            chunks[1] = {"error": {"message": "the device failed"}}
        self.give(200, b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n", media="text/event-stream")


class HostileCase(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        self.server.mode, self.server.asked = "", None
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.graph = os.path.join(self.place.name, "graph.json")
        with open(self.graph, "w", encoding="utf-8") as file:
            file.write("{}")

    def beamline(self, *words, status=0):
        done = subprocess.run([SERVER, *words], capture_output=True, timeout=60, check=False, env={**os.environ, "BEAMLINE_URL": self.url, "LC_ALL": "C.UTF-8"})
        self.assertEqual(status, done.returncode, (words, done.stdout, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def harmless(self, text, words, let="\n"):
        found = re.search(f"[^{let}\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ufefe\uff00-\ufffd]", text)
        self.assertIsNone(found, (words, text))


COMMANDS = (("jobs",), ("watch", "x"), ("top", "--times", "1"), ("devices", "--url", "URL"), ("me",), ("usage", "--url", "URL"), ("kernels", "list", "--url", "URL"), ("kernels", "show", "k", "--url", "URL"), ("status",), ("models",),
            ("infer", "m", "--text", "x"), ("infer", "w", "--text", "x"), ("run", "GRAPH", "--dry-run"), ("cancel", "x"))


class Hostile(HostileCase):
    def words(self, words):
        return [self.url if word == "URL" else self.graph if word == "GRAPH" else word for word in words]

    def test_names(self):
        for words in COMMANDS:
            out, told = self.beamline(*self.words(words))
            self.harmless(out + told, words)
            if words[0] != "cancel":  # cancel prints the name that the user gave
                self.assertIn("\\u001b", out, words)
                self.assertIn("evil", out, words)

    def test_a_job_that_is_none(self):
        self.server.mode = "nonsense job"
        self.assertIn("does not name a job", self.beamline("train", "graph", "-n", "1", status=1)[1])

    def test_names_in_a_terminal(self):
        for words in (*COMMANDS, ("jobs", "--json"), ("watch", "x", "--json"), ("jobs", "-q"), ("models", "-q")):
            screen = Screen(SERVER, *self.words(words), BEAMLINE_URL=self.url)
            self.addCleanup(screen.close)
            self.assertEqual(0, screen.end(), words)
            shown = screen.written.decode().replace("\r\n", "\n")
            self.harmless(re.sub(r"\x1b\[\d+A\r\x1b\[J", "", shown), words)
            if "--json" not in words and "-q" not in words:
                self.assertLessEqual(max(len(line) for line in screen.lines()[words[0] == "watch":]), 10_000 if words[0] in ("infer", "status", "me", "run", "cancel", "top", "kernels") else 80, words)

    def test_problems(self):
        self.server.mode = "problem"
        for words in (*COMMANDS, ("load", "x"), ("unload", "x"), ("push", "GRAPH"), ("bench", "m"), ("train", "GRAPH", "-n", "1"), ("devices", "drain", "x")):
            out, told = self.beamline(*self.words(words), status=1)
            self.harmless(told, words)
            self.assertTrue(told.startswith("beamline: the server answers with status 422, "), told)
            self.assertIn("\n  node: \\u001b", told, words)
            self.assertEqual("", out)

    def test_answers_that_are_none(self):
        for mode, status, says in (("cut", 3, "no answer"), ("words", 1, "502"), ("nonsense", 1, "no JSON")):
            self.server.mode = mode
            for words in (("jobs",), ("models",), ("top", "--times", "1"), ("me",), ("status",), ("infer", "m", "--text", "x"), ("devices", "--url", "URL")):
                _, told = self.beamline(*self.words(words), status=status)
                self.assertIn(says, told)
                self.harmless(told, words)


class TextModels(HostileCase):
    def test_bench(self):
        out, _ = self.beamline("bench", "w", "-c", "2", "--seconds", "0.4", "--max-tokens", "12", "--prompt", 'say "hi"')
        self.assertRegex(out, r"tokens +[\d.]+/s  \(\d+\)\nfirst token +p50 \d+(\.\d+)? ms")
        self.assertEqual({"model": "w", "prompt": 'say "hi"', "max_tokens": 12, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}, json.loads(self.server.asked))
        figures = json.loads(self.beamline("bench", "w", "--seconds", "0.4", "--json")[0])
        self.assertEqual(12 * figures["requests"], figures["tokens"])
        self.assertGreaterEqual(figures["first_token_ms"]["p50"], 50)
        self.assertLessEqual(figures["first_token_ms"]["p50"], figures["latency_ms"]["p50"])
        self.server.mode = "broken"
        self.assertIn("the device failed", self.beamline("bench", "w", "--seconds", "0.4", status=1)[1])

    def test_texts(self):
        self.beamline("infer", "m", "--text", 'a "b"', "--text", "c")
        self.assertEqual({"inputs": [{"name": "t", "datatype": "BYTES", "shape": [2, 1], "data": ['a "b"', "c"]}]}, json.loads(self.server.asked))
        self.beamline("infer", "w", "--text", "go on", "--max-tokens", "3")
        self.assertEqual({"text_input": "go on", "max_tokens": 3}, json.loads(self.server.asked))


if __name__ == "__main__":
    unittest.main()
