# SPDX-License-Identifier: MIT
"""A server for tests, and raw requests that client libraries do not allow.

$BEAMLINE is the program (default build/beamline); $BEAMLINE_TEST_ARGS has further arguments.
"""

import http.client
import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))
import watched_threads  # noqa: E402, F401

PROGRAM = os.environ.get("BEAMLINE", os.path.join(ROOT, "build", "beamline"))
JSON = {"content-type": "application/json"}
OCTETS = {"content-type": "application/octet-stream"}
SAFETENSORS = "application/x-safetensors"
SLOW_STEPS = 1000000000  # a run that ends only by cancellation or timeout


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def type(self):
        return self.headers.get("content-type", "")


def sanitizers():
    """The sanitizer runtimes of the program.  Preloaded libraries must come after them: otherwise the runtimes do not start, or
    do not see the functions that a library replaces.  For example, waits that release a mutex, as libfaketime replaces them,
    would look like two threads that hold one lock."""
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout
    return re.findall(r"\S+/lib[at]san\.so\S*", linked)


class Server:
    """A running server on a free port."""

    def __init__(self, *args, env=None, port=0, limits=()):
        def limit():
            for what, value in limits:
                resource.setrlimit(what, (value, value))

        self.log, self.last = tempfile.TemporaryFile("a+b"), ""
        env = dict(env or {})
        if "LD_PRELOAD" in env:
            env["LD_PRELOAD"] = " ".join([*sanitizers(), env["LD_PRELOAD"]])
        extra = shlex.split(os.environ.get("BEAMLINE_TEST_ARGS", ""))
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", str(port), *extra, *args], stdout=subprocess.PIPE, stderr=self.log,
            env={"ASAN_OPTIONS": "quarantine_size_mb=4", "BEAMLINE_STATE": "none", "BEAMLINE_KERNEL_DB": "none", **os.environ, **env}, preexec_fn=limit)
        line = self.process.stdout.readline().decode()
        match = re.fullmatch(r"listening on (.*):(\d+)\n", line)
        if match is None:
            self.stop()
            raise RuntimeError("the server did not start: " + self.log_text())
        self.host, self.port = match[1], int(match[2])

    def log_text(self):
        if not self.log.closed:
            self.log.seek(0)
            self.last = self.log.read().decode(errors="replace")
        return self.last

    def rss(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) * 1024

    def stop(self, wait=60):
        """Sends SIGTERM.  Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.log_text()
        self.log.close()
        return status

    def call(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = dict(headers or {})
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
                headers.setdefault("content-type", "application/json")
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def raw(self, data, timeout=2.0, until=None):
        """Sends bytes.  Returns everything received until the server closes the connection, |until| arrives, or a timeout."""
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.settimeout(timeout)
            got = b""
            try:
                sock.sendall(data)
                while until is None or until not in got:
                    part = sock.recv(65536)
                    if not part:
                        return got, True
                    got += part
            except socket.timeout:
                pass
            except (ConnectionResetError, BrokenPipeError):
                return got, True
            return got, False

    def metric(self, name):
        text = self.call("GET", "/metrics").body.decode()
        match = re.search(r"^beamline_" + re.escape(name) + r" (\S+)$", text, re.M)
        return float(match[1]) if match else 0.0

    def settled(self, name, value, seconds=10):
        """Waits until the metric is |value|, since a request releases its resources after its answer.  Returns the value, after
        |seconds| the current value."""
        end = time.monotonic() + seconds
        while (now := self.metric(name)) != value and time.monotonic() < end:
            time.sleep(0.02)
        return now

    def wait_log(self, found, seconds=10):
        """Waits until |found| is true for the log's lines, since a request is logged after its answer.  Returns the lines,
        after |seconds| the current lines."""
        end = time.monotonic() + seconds
        while not found(lines := self.log_text().splitlines()) and time.monotonic() < end:
            time.sleep(0.02)
        return lines


def head(method, path, *lines):
    """Returns a request head as bytes, with a valid Host."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def graph(**members):
    """Returns a run that doubles x."""
    return {"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"], **members}


def counter(**members):
    """Returns a program that counts its steps."""
    return {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}],
            "updates": {"n": "m"}, "outputs": ["m"], **members}


def safetensors(tensors, metadata=None):
    """Returns a file with the tensors {name: (code, shape, bytes)}."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (code, shape, raw) in tensors.items():
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def read_safetensors(body):
    size = int.from_bytes(body[:8], "little")
    header = json.loads(body[8:8 + size])
    metadata = header.pop("__metadata__", {})
    data = body[8 + size:]
    return {n: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]]) for n, t in header.items()}, metadata


class ServerTest(unittest.TestCase):
    """One server for the tests of a class.  After each test the server must be alive, and no answer may have contained internal
    details."""

    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGS)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.server.log_text()[-3000:])

    def tearDown(self):
        self.assertEqual(200, self.server.call("GET", "/v2/health/live").status)

    def call(self, *args, **kwargs):
        return self.server.call(*args, **kwargs)

    def refused(self, status, answer):
        """Checks that the answer is a problem document with the status, or one of the statuses, and without internal
        details."""
        allowed = status if isinstance(status, tuple) else (status,)
        self.assertIn(answer.status, allowed, answer.body[:500])
        self.assertEqual("application/problem+json", answer.type)
        problem = answer.json
        self.assertEqual(answer.status, problem["status"])
        for member in ("type", "title", "detail"):
            self.assertTrue(problem[member], problem)
        self.assertNotRegex(answer.body, rb"0x[0-9a-f]{6,}|/usr/|/home/|/tmp/|\.c:\d")
        return problem

    def ok(self, answer, status=200):
        self.assertEqual(status, answer.status, answer.body[:1000])
        return answer
