# SPDX-License-Identifier: MIT
"""Access control: which clients may send which requests, and the required forms."""

import base64
import errno
import hashlib
import json
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from fixture import JSON, OCTETS, PROGRAM, ROOT, Server, ServerTest, counter, graph
from test_disk import build
from test_keys import Keys

MODEL = {"inputs": {"x": {"dtype": "float32", "shape": [3]}}, "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"]}
GOOD = {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}


class Site(ServerTest):
    ARGS = ("--allow-host", "box.lab, gpu7")

    def test_t22_binds_loopback_only(self):
        self.assertEqual("127.0.0.1", self.server.host)
        out = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True).stdout if _has("ss") else ""
        self.assertNotRegex(out, rf"(0\.0\.0\.0|\*|\[::\]):{self.server.port}\b")

    def test_t22_refuses_public_address_without_keys(self):
        run = subprocess.run([PROGRAM, "serve", "--port", "0", "--host", "0.0.0.0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(1, run.returncode)
        self.assertIn("--insecure", run.stderr)

    def test_t22_no_cors_headers(self):
        for headers in ({}, {"origin": f"http://127.0.0.1:{self.server.port}"}, {"origin": "http://evil.example"}):
            answer = self.call("OPTIONS", "/api/v1/run", headers=headers)
            self.assertFalse([h for h in answer.headers if h.startswith("access-control")])

    def test_t22_host(self):
        good = ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9", "127.9.9.9", "[::1]:8470", "box.lab", "gpu7:80")
        for host in good:
            self.assertEqual(200, self.call("GET", "/v2", headers={"host": host}).status, host)
        bad = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost:x", "[::1", "10.0.0.1", "box", "box.lab.")
        for host in bad:
            self.refused((400, 421), self.call("GET", "/api/v1/devices", headers={"host": host}))

    def test_t22_origin(self):
        own = f"http://127.0.0.1:{self.server.port}"
        self.ok(self.call("GET", "/api/v1/devices", headers={"origin": own}))
        for origin in ("http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "file://", "", own + ".evil.example"):
            self.refused(403, self.call("POST", "/api/v1/run", graph(), {**JSON, "origin": origin}))

    def test_content_type(self):
        body = json.dumps(graph())
        self.ok(self.call("POST", "/api/v1/run", body, {"content-type": "Application/JSON; charset=utf-8"}))
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "", "application/octet-stream"):
            self.refused(415, self.call("POST", "/api/v1/run", body, {"content-type": kind}))
        self.refused(415, self.call("POST", "/api/v1/run", body.encode()))
        self.refused(415, self.call("GET", "/api/v1/devices", "x", JSON))

    def test_methods(self):
        answer = self.call("DELETE", "/api/v1/run")
        self.refused(405, answer)
        self.assertEqual("POST", answer.headers["allow"])
        answer = self.call("POST", "/api/v1/tensors/x", "{}", JSON)
        self.refused(405, answer)
        self.assertEqual({"PUT", "GET", "HEAD", "DELETE"}, set(answer.headers["allow"].split(", ")))
        self.assertEqual(405, self.call("BREW", "/v2").status)

    def test_not_found_and_query(self):
        for path in ("/nothing", "/api/v1", "/api/v1/nothing", "/api/v1/run/", "/api/v1/programs/a/b", "/api/v1/tensors/"):
            self.refused(404, self.call("GET", path))
        for path in ("/api/v1/tensors?x=1", "/api/v1/tensors?lease", "/api/v1/devices?lease=1", "/api/v1/tensors?lease=a&lease=b"):
            self.refused((400, 404), self.call("GET", path))

    def test_v1_tells_errors_as_openai_does(self):
        answer = self.call("GET", "/v1/nothing")
        self.assertEqual((404, "application/json"), (answer.status, answer.type))
        self.assertEqual({"message", "type", "param", "code"}, set(answer.json["error"]))
        self.assertEqual(("invalid_request_error", None), (answer.json["error"]["type"], answer.json["error"]["code"]))

    def test_v2_tells_errors_as_triton_does(self):
        answer = self.call("POST", "/v2/health/live", "", JSON)
        self.assertEqual(405, answer.status)
        answer = self.call("GET", "/v2?x=1")
        self.assertEqual((400, ["error"]), (answer.status, list(answer.json)))

    def test_health_and_metadata(self):
        self.assertEqual({"ready": True}, self.ok(self.call("GET", "/v2/health/ready")).json)
        for path in ("/v2", "/v2/"):
            self.assertEqual("beamline", self.ok(self.call("GET", path)).json["name"])
        self.assertIn("text/html", self.ok(self.call("GET", "/")).type)
        devices = self.ok(self.call("GET", "/api/v1/devices")).json["devices"]
        self.assertTrue(any(d["default"] for d in devices))
        self.assertTrue(all(re.fullmatch(r"[a-z]+:\d+", d["id"]) for d in devices))

    def test_metrics(self):
        self.ok(self.call("POST", "/api/v1/run", graph()))
        text = self.ok(self.call("GET", "/metrics")).body.decode()  # operations/test_metrics.py checks the contents
        self.assertRegex(text, r'(?m)^beamline_requests_total\{method="POST",route="/api/v1/run",code="200"\} [1-9]')


class Hidden(ServerTest):
    def test_t21_errors_tell_nothing_of_the_inside(self):
        asks = [("GET", "/api/v1/tensors/none", None, None), ("GET", "/api/v1/leases/0", None, None),
                ("POST", "/api/v1/run", "{", JSON), ("POST", "/api/v1/run", '{"nodes": 1}', JSON),
                ("POST", "/api/v1/run", json.dumps(graph(device="opencl:99")), JSON),
                ("PUT", "/api/v1/tensors/x?dtype=float33&shape=1", b"abcd", OCTETS),
                ("PUT", "/api/v1/programs/p", '{"state": {"w": {"op": "/etc/passwd"}}}', JSON)]
        for ask in asks:
            with self.subTest(ask[1]):
                answer = self.call(*ask)
                self.refused(tuple(range(400, 500)), answer)
                self.assertNotIn(ROOT.encode(), answer.body)

    def test_t12_leases_cannot_be_guessed(self):
        ids = [self.ok(self.call("POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"] for _ in range(20)]
        self.assertEqual(20, len(set(ids)))
        for one in ids:
            self.assertRegex(one, "^[0-9a-f]{32}$")
        near = f"{int(ids[-1], 16) + 1:032x}"
        for bad in (near, "0" * 32, str(2**64 - 1), "x"):
            self.refused(404, self.call("GET", f"/api/v1/tensors?lease={bad}"))
            self.refused(404, self.call("PUT", f"/api/v1/leases/{bad}", {"ttl": 5}))
            self.refused(404, self.call("DELETE", f"/api/v1/leases/{bad}"))
            self.refused(404, self.call("POST", "/api/v1/run", graph(lease=bad, keep={"k": "y"})))
        for one in ids:
            self.ok(self.call("DELETE", f"/api/v1/leases/{one}"), 204)
            self.refused(404, self.call("DELETE", f"/api/v1/leases/{one}"))


class Inside(unittest.TestCase):
    """T21: answers while parts of the server fail: models, data files, the disk, the device.  The folders have unique names, so
    that a leak is detected."""

    def setUp(self):
        self.keys, self.heard = Keys(), []
        self.addCleanup(self.keys.folder.cleanup)
        self.secret = self.keys.make("root", "admin,run,train,infer,metrics")
        self.models, self.data, spare = (pathlib.Path(self.folder()) for _ in range(3))
        self.shared = spare / "shared"
        self.shared.write_bytes(bytes(32))
        self.env = {"LD_PRELOAD": build(str(spare)), "FAILING_DISK": str(self.shared)}
        for name, text, weights in (("broken", "{", None), ("short", json.dumps(MODEL), b"\x10" + bytes(9)), ("none", None, None), ("good", json.dumps(GOOD), None)):
            version = self.models / name / "1"
            version.mkdir(parents=True)
            if text is not None:
                (version / "model.json").write_text(text)
            if weights is not None:
                (version / "model.safetensors").write_bytes(weights)
        (self.models / "folder" / "1" / "model.json").mkdir(parents=True)
        (self.models / "config").mkdir()
        (self.models / "config" / "config.json").write_text("[")
        (self.data / "broken.npy").write_bytes(b"\x93NUMPY\x01\0\xff")
        (self.data / "short.npy").write_bytes(b"")
        (self.data / "link.npy").symlink_to(self.models / "good" / "1" / "model.json")
        (self.data / "under").mkdir()

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def serve(self, **env):
        server = Server("--backends", "interp", "--state", self.keys.folder.name, "--models", str(self.models), "--data-folder", str(self.data), "--load-models", "none",
                        "--tune=off", env=env)
        self.addCleanup(server.stop)
        return server

    def ask(self, server, *asks):
        """Sends all requests, records the answers, and returns the number of refusals."""
        refused = 0
        for method, path, body in asks:
            answer = server.call(method, path, body, {"x-api-key": self.secret, **(OCTETS if isinstance(body, bytes) else {})})
            self.heard.append((method, path, answer))
            refused += answer.status >= 400
        return refused

    def nothing_was_told(self):
        inside = [ROOT, self.keys.folder.name, str(self.models), str(self.data), tempfile.gettempdir() + "/", self.secret]
        for method, path, answer in self.heard:
            told = answer.body.decode(errors="replace") + json.dumps(answer.headers)
            for word in inside:
                self.assertNotIn(word, told, (method, path))
            self.assertNotRegex(told, r"0x[0-9a-f]{8,}|\.c:\d", (method, path))

    KEPT = [("PUT", "/api/v1/blobs/sha256:" + hashlib.sha256(b"kept").hexdigest(), b"kept"), ("PUT", "/api/v1/tensors/t?durable=true", [1, 2]),
            ("PUT", "/api/v1/programs/p?durable=true", counter()), ("POST", "/api/v1/keys", {"name": "new", "scopes": ["run"]}),
            ("POST", "/api/v1/jobs", {"program": "there", "inputs": {}, "steps": 4}), ("POST", "/api/v1/shares", {"tensor": "there", "to": "*"}),
            ("POST", "/v2/repository/models/sent/load", {"parameters": {"config": "{}", "file:1/model.json": base64.b64encode(json.dumps(GOOD).encode()).decode()}})]
    LOADS = [("POST", f"/v2/repository/models/{name}/load", {}) for name in ("broken", "short", "none", "folder", "config", "nowhere")]

    def test_t21_models_and_data_that_are_broken(self):
        server = self.serve()
        self.assertEqual(len(self.LOADS), self.ask(server, *self.LOADS))
        files = ("missing.npy", "broken.npy", "short.npy", "link.npy", "under", "under/missing.npy", f"../{self.data.name}/short.npy", str(self.data / "broken.npy"))
        for name in files:  # the last is a path that the client knows, so the answer may contain it
            answer = server.call("PUT", "/api/v1/tensors/f", {"file": name}, {"x-api-key": self.secret})
            self.assertGreaterEqual(answer.status, 400, name)
            if not name.startswith("/"):
                self.heard.append(("PUT", name, answer))
        self.ask(server, ("POST", "/v2/repository/index", {}), ("GET", "/v2/models/broken", None), ("GET", "/v2/models/stats", None))
        self.nothing_was_told()

    def test_t21_a_disk_that_refuses(self):
        server = self.serve(**self.env)
        self.assertEqual(0, self.ask(server, ("PUT", "/api/v1/programs/there", counter()), ("PUT", "/api/v1/tensors/there", [1])))
        for error in (errno.ENOSPC, errno.EIO, errno.EACCES):
            self.shared_words(1, 1, error)
            self.assertGreaterEqual(self.ask(server, *self.KEPT), len(self.KEPT) - 1)
            self.shared_words(0, 0, 0)
        self.ask(server, ("GET", "/api/v1/jobs", None), ("POST", "/v2/repository/index", {}))
        self.nothing_was_told()

    def shared_words(self, *words):
        """The parameters of the preloaded library: number of successful calls, whether all later calls fail, and the kind of
        failure."""
        with open(self.shared, "r+b") as file:
            file.write(struct.pack("<3q", 0, *words[1:]))
            file.seek(0)
            file.write(struct.pack("<q", words[0]))

    def test_t21_a_state_that_is_gone(self):
        server = self.serve()
        self.assertEqual(0, self.ask(server, ("PUT", "/api/v1/programs/there", counter()), ("PUT", "/api/v1/tensors/there", [1]), self.KEPT[0]))
        for path in pathlib.Path(self.keys.folder.name).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
                path.write_text("a file where a folder was")
        self.assertGreater(self.ask(server, *self.KEPT, ("GET", self.KEPT[0][1], None)), 2)
        self.nothing_was_told()

    def test_t21_a_device_that_fails(self):
        refused = 0
        for nth in range(1, 12):
            server = self.serve(BEAMLINE_FAULT=f"device:{nth}+2")
            refused += self.ask(server, ("PUT", "/api/v1/programs/there", counter()), ("POST", "/api/v1/programs/there/run", {"steps": 2}), ("POST", "/api/v1/run", graph()),
                                ("PUT", "/api/v1/tensors/there", [1]), ("POST", "/v2/repository/models/good/load", {}), ("POST", "/v2/repository/index", {}))
            server.stop()
        self.assertGreater(refused, 20)
        self.nothing_was_told()


class CommandLine(unittest.TestCase):
    def run_it(self, *args, env=None):
        import os
        return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})

    def test_help_version_and_man(self):
        self.assertIn("--max-body BYTES", self.run_it("--help").stdout)
        self.assertRegex(self.run_it("version").stdout, r"^beamline \d+\.\d+\.\d+\n$")
        with open(ROOT + "/docs/beamline.1") as file:
            manual = file.read()
        self.assertEqual(manual, self.run_it("man").stdout, "run `beamline man > docs/beamline.1`")
        for flag in re.findall(r"^  --([\w-]+)", self.run_it("keys", "--help").stdout, re.M):
            self.assertIn(r"\-\-" + flag.replace("-", r"\-"), manual)

    def test_each_command_has_help(self):
        listed = re.findall(r"^  beamline (\w+)", self.run_it("--help").stdout, re.M)
        self.assertLessEqual({"serve", "devices", "tune", "kernels", "keys", "usage", "top", "run", "train", "chat", "pull", "man", "help"}, set(listed))
        for name in listed:
            run = self.run_it(name, "--help")
            self.assertEqual((0, ""), (run.returncode, run.stderr), name)
            self.assertTrue(run.stdout.startswith(f"beamline {name}"), run.stdout[:100])
            self.assertEqual(name in ("serve", "tune"), "--max-body BYTES" in run.stdout, name)

    def test_bad_arguments_are_told(self):
        for args in (["serve", "--port", "x"], ["serve", "--port", "70000"], ["serve", "--max-body", "1Q"], ["serve", "--log-level", "loud"],
                     ["serve", "--float32-matmul-precision", "low"], ["serve", "--backends", "x"], ["serve", "--config", "/nonexistent"],
                     ["serve", "--device", "opencl:77", "--port", "0"]):
            run = self.run_it(*args)
            self.assertEqual(1, run.returncode, args)
            self.assertRegex(run.stderr, "beamline: .", args)
        for args in (["serve", "--nothing"], ["serve", "--port"], ["serve", "x"], ["nothing"]):
            run = self.run_it(*args)
            self.assertEqual(2, run.returncode, args)
            self.assertRegex(run.stderr, "beamline: .", args)

    def test_environment_file_and_flag(self):
        import tempfile
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("# limits\nmax-body = 2k   # small\nmax-nodes=3\n\nlog-json = on\n")
            file.flush()
            server = Server("--config", file.name, "--max-nodes", "1", env={"BEAMLINE_MAX_BODY": "4k"})
            try:
                self.assertEqual(413, server.call("POST", "/api/v1/run", " " * 4097, JSON).status)
                self.assertEqual(400, server.call("POST", "/api/v1/run", " " * 4095, JSON).status)
                two = graph(nodes=[{"id": "y", "op": "neg", "in": ["x"]}, {"id": "z", "op": "neg", "in": ["y"]}])
                self.assertEqual(422, server.call("POST", "/api/v1/run", two).status)
            finally:
                self.assertEqual(0, server.stop())
            for line in server.log_text().splitlines():
                json.loads(line)


def _has(program):
    import shutil
    return shutil.which(program) is not None


if __name__ == "__main__":
    unittest.main()
