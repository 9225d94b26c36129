# SPDX-License-Identifier: MIT
"""`beamline pull` with a hub on loopback."""
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from served import SERVER

GGUF = b"GGUF" + bytes(range(256)) * 4000


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves GET /api/models/ORG/NAME/tree/REV and /ORG/NAME/resolve/REV/PATH of ``server.files``: {path: bytes}."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        hub = self.server
        address = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(address.path)
        hub.asked.append((path, self.headers.get("Authorization"), self.headers.get("Range")))
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.reply(401, b"{}")
        elif path.startswith("/api/models/org/model/tree/"):
            self.list(address)
        elif path.startswith("/org/model/resolve/main/"):
            self.send_file(path[len("/org/model/resolve/main/"):])
        else:
            self.reply(404, b"{}")

    def list(self, address):
        """Lists two files per page."""
        hub = self.server
        at = int(urllib.parse.parse_qs(address.query).get("cursor", ["0"])[0])
        entries = []
        for path, data in list(hub.files.items())[at:at + 2]:
            entry = {"type": "file", "path": path, "size": hub.sizes.get(path, len(data)), "oid": git_hash(data)}
            if path.endswith((".gguf", ".safetensors")):
                entry["lfs"] = {"oid": hub.hashes.get(path, hashlib.sha256(data).hexdigest()), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        more = {"Link": f'<{hub.url}{address.path}?recursive=true&cursor={at + 2}>; rel="next"'} if at + 2 < len(hub.files) else {}
        self.reply(200, json.dumps(entries + [{"type": "directory", "path": "x", "size": 0, "oid": "0" * 40}]).encode(), **more)

    def send_file(self, path):
        hub = self.server
        data = hub.files[path]
        if path in hub.moved:
            self.reply(302, b"", Location=hub.moved[path])
            return
        start = 0
        if self.headers.get("Range") and not hub.no_ranges:
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
        body = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if hub.cuts > 0:
            hub.cuts -= 1
            self.wfile.write(body[:len(body) // 3])
            self.close_connection = True
        else:
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that disconnects is no error."""


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = self.start()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.models = pathlib.Path(self.folder.name)

    def start(self):
        hub = Server(("127.0.0.1", 0), Hub)
        hub.files, hub.hashes, hub.sizes, hub.moved, hub.asked = {}, {}, {}, {}, []
        hub.token, hub.cuts, hub.no_ranges, hub.url = None, 0, False, f"http://127.0.0.1:{hub.server_address[1]}"
        thread = threading.Thread(target=hub.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(hub.server_close)
        self.addCleanup(hub.shutdown)
        return hub

    def pull(self, what="hf:org/model", *more, status=0, **env):
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and name != "HF_TOKEN"}
        done = subprocess.run([SERVER, "pull", what, "--to", self.models, *more], capture_output=True, text=True, timeout=60, env={**clean, "HF_ENDPOINT": self.hub.url, **env}, check=False)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def there(self):
        return sorted(str(path.relative_to(self.models)) for path in self.models.rglob("*") if path.is_file())

    def test_a_quantisation(self):
        self.hub.files = {"README.md": b"x", "model.Q4_K_M.gguf": GGUF, "model.Q8_0.gguf": GGUF + b"8", "mmproj-model.gguf": b"m", "model.Q4_K.gguf": b"k"}
        self.assertIn(str(self.models / "model"), self.pull())
        self.assertEqual(["model/model.Q4_K_M.gguf"], self.there())
        self.assertEqual(GGUF, (self.models / "model" / "model.Q4_K_M.gguf").read_bytes())
        self.pull("hf:org/model:q8_0", "--as", "eight", HF_ENDPOINT=self.hub.url + "/")
        self.pull("hf:org/model@main:model.Q4_K.gguf", "--as", "four")
        self.assertEqual(["eight/model.Q8_0.gguf", "four/model.Q4_K.gguf", "model/model.Q4_K_M.gguf"], self.there())
        self.assertIn("exists already", self.pull(status=1))
        self.assertIn("it has: model.Q4_K_M.gguf model.Q8_0.gguf", self.pull("hf:org/model:Q2_K", "--as", "two", status=1))

    def test_a_split_is_fetched_whole(self):
        parts = {f"Q8_0/model-Q8_0-{i:05}-of-00003.gguf": GGUF + bytes([i]) for i in (1, 2, 3)}
        self.hub.files = {**parts, "Q8_0/other-Q8_1-00001-of-00003.gguf": b"o"}
        self.pull("hf:org/model:Q8_0")
        self.assertEqual([f"model/model-Q8_0-{i:05}-of-00003.gguf" for i in (1, 2, 3)], self.there())

    def test_a_folder(self):
        kept = {"config.json": b"{}", "model.safetensors": b"tensors", "tokenizer.json": b'{"a": 1}', "tokenizer_config.json": b"{}", "modules.json": b"[]",
                "1_Pooling/config.json": b"{}"}
        self.hub.files = {**kept, "2_Dense/config.json": b"{}", "pytorch_model.bin": b"pickle", "onnx/model.safetensors": b"no", "run.py": b"import os"}
        self.pull()
        self.assertEqual(sorted(f"model/{name}" for name in kept), self.there())

    def test_resumes(self):
        self.hub.files = {"model.gguf": GGUF}
        self.hub.cuts = 2
        self.pull()
        self.assertEqual(GGUF, (self.models / "model" / "model.gguf").read_bytes())
        ranges = [given for path, _, given in self.hub.asked if path.endswith(".gguf")]
        self.assertEqual([None, True, True], [given and given.startswith("bytes=") for given in ranges])

    def test_takes_up_an_earlier_pull(self):
        self.hub.files = {"model.gguf": GGUF}
        staging = self.models / ".model.part"
        staging.mkdir()
        (staging / "model.gguf.part").write_bytes(GGUF[:1000])
        self.pull()
        self.assertEqual(["bytes=1000-"], [given for path, _, given in self.hub.asked if path.endswith(".gguf")])
        self.assertEqual(["model/model.gguf"], self.there())

    def test_a_hub_without_ranges(self):
        self.hub.files, self.hub.no_ranges = {"model.gguf": GGUF}, True
        (self.models / ".model.part").mkdir()
        (self.models / ".model.part" / "model.gguf.part").write_bytes(b"other bytes")
        self.pull()
        self.assertEqual(GGUF, (self.models / "model" / "model.gguf").read_bytes())

    def test_another_content_is_refused(self):
        self.hub.files = {"model.gguf": GGUF}
        self.hub.hashes = {"model.gguf": hashlib.sha256(b"other").hexdigest()}
        self.assertIn("sha256", self.pull(status=1))
        self.assertEqual([], self.there())
        self.hub.files = {"config.json": b"{}", "model.safetensors": b"x"}
        self.hub.sizes = {"config.json": 3}
        self.pull(status=1)
        self.assertFalse((self.models / "model").exists())

    def test_hostile_names(self):
        for name in ("..\\evil.gguf", "a b.gguf", ".hidden.gguf", "x;rm.gguf", "-rf.gguf", "a\nb.gguf"):
            self.hub.files = {name: GGUF}
            self.assertIn("its name must be", self.pull(status=1), name)
        self.hub.files = {"../../escape.gguf": GGUF}
        self.hub.files["x/" * 3 + "escape.gguf"] = GGUF
        self.pull("hf:org/model:../../escape.gguf", status=2)
        self.assertEqual([], self.there())
        for what in ("org/model", "hf:org", "hf:../model", "hf:org/../x", "hf:org/mo del", "hf:org/model@../x", "hf:org/model@", "hf:org/model:"):
            self.assertIn("hf:ORG/NAME", self.pull(what, status=2), what)
        self.hub.files = {"model.gguf": GGUF}
        for name in ("../x", ".x", "a/b", ""):
            self.pull("hf:org/model", "--as", name, status=1)
        self.assertEqual([], self.there())

    def test_a_token_stays_with_the_hub(self):
        other = self.start()
        other.files = {"model.gguf": GGUF}
        self.hub.files, self.hub.token = {"model.gguf": GGUF}, "secret"
        self.hub.moved = {"model.gguf": f"http://localhost:{other.server_address[1]}/org/model/resolve/main/model.gguf"}
        self.assertIn("HF_TOKEN", self.pull(status=1))
        self.pull(HF_TOKEN="secret")
        self.assertEqual([None], [given for _, given, _ in other.asked])
        self.assertEqual(["model/model.gguf"], self.there())

    def test_a_proxy(self):
        """The hub acts as a proxy: it receives requests for addresses of a host that does not exist."""
        self.hub.files = {"model.gguf": GGUF}
        proxy, self.hub.url = self.hub.url, "http://hub.invalid"
        self.assertIn("no answer from the hub", self.pull(status=1, HF_ENDPOINT="http://hub.invalid"))
        self.assertEqual([], self.hub.asked)
        self.pull(HF_ENDPOINT="http://hub.invalid", http_proxy=proxy)
        self.assertEqual(["model/model.gguf"], self.there())

    def test_no_room(self):
        self.hub.files, self.hub.sizes = {"model.gguf": GGUF}, {"model.gguf": 1 << 50}
        self.assertIn("the disk", self.pull(status=1))
        self.assertFalse(any(path.endswith(".gguf") for path, _, _ in self.hub.asked))

    def test_there_is_no_such_model(self):
        self.assertIn("the hub has no org/other", self.pull("hf:org/other", status=1))
        self.hub.files = {"README.md": b"x"}
        self.assertIn("no .gguf", self.pull(status=1))


if __name__ == "__main__":
    unittest.main()
