# SPDX-License-Identifier: MIT
"""A process that waits for the server's compiler prints a message once per request, if stderr is a terminal."""
import contextlib
import http.server
import io
import json
import os
import threading
import time
import unittest
from unittest import mock

from beamline.device import Session

LINE = "beamline: waiting for the server's compiler, which has 2 graphs to compile\n"


class Slow(http.server.BaseHTTPRequestHandler):
    """A server whose runs take over a second."""

    protocol_version = "HTTP/1.1"
    compiling = 2

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(f'beamline_queue_length{{device="compiler"}} {self.compiling}\n'.encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/run"):
            time.sleep(1.3)
        self.answer(json.dumps({"lease": "l"}).encode())

    do_DELETE = do_PUT = do_POST

    def log_message(self, *_):
        pass


class Progress(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (Slow,), {}))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def said(self, progress):
        """Returns the output of a session with one slow run."""
        with mock.patch.dict(os.environ, {"BEAMLINE_PROGRESS": progress} if progress else {}), contextlib.redirect_stderr(io.StringIO()) as text:
            session = Session(f"http://127.0.0.1:{self.server.server_port}")
            self.assertEqual({"lease": "l"}, session.call("POST", "/api/v1/run", {}))
            session.end()
        return text.getvalue()

    def test_one_line(self):
        self.assertEqual(LINE, self.said("1"))

    def test_quiet_where_nobody_reads(self):
        self.assertEqual("", self.said("0"))
        self.assertEqual("", self.said(""))  # stderr is no terminal

    def test_quiet_where_nothing_is_compiled(self):
        self.server.RequestHandlerClass.compiling = 0
        self.assertEqual("", self.said("1"))


if __name__ == "__main__":
    unittest.main()
