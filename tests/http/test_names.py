# SPDX-License-Identifier: MIT
"""Names with path components, files with false contents, and addresses as names: the server reads, writes and fetches nothing
outside."""

import base64
import hashlib
import json
import os
import pathlib
import socket
import struct
import tempfile
import unittest

from fixture import JSON, OCTETS, SAFETENSORS, Server, ServerTest, counter, graph, safetensors
from training_jobs import J, wait

NAMES = ("..%2fx", "..", ".", "%2e%2e", "%2fetc%2fpasswd", "a%5c..%5cx", "%20", "%09", "a%20b", "a" * 256, "a%00b", "caf%c3%a9",
         "%e2%80%ae", "%f0%9f%92%a9", "%ff", "-", "a%0d%0ab")
P, T, B = "/api/v1/programs/", "/api/v1/tensors/", "/api/v1/blobs/"


def tree(folder):
    """Returns the files of a folder with their sizes."""
    return {str(path.relative_to(folder)): path.stat().st_size if path.is_file() else -1 for path in pathlib.Path(folder).rglob("*")}


class Kept(ServerTest):
    """A server that stores what it receives, so that a name could reach the disk."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.outer = pathlib.Path(cls.temporary.name)
        for name in ("state", "models", "data"):
            (cls.outer / name).mkdir()
        (cls.outer / "secret").write_bytes(b"secret")
        cls.server = Server("--backends", "interp", "--state", str(cls.outer / "state"), "--models", str(cls.outer / "models"),
                            "--data-folder", str(cls.outer / "data"), "--tune=off")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.temporary.cleanup()

    def outside(self):
        """Returns all files except those that the server itself writes."""
        return {name: size for name, size in tree(self.outer).items() if not name.startswith("state/")}

    def not_there(self, answer, name):
        self.assertIn(answer.status, (400, 404), (name, answer.body[:300]))
        self.assertNotIn(b"secret", answer.body)
        self.assertNotIn(self.temporary.name.encode(), answer.body)

    def test_t16_names_of_tensors_and_programs(self):
        before = self.outside()
        for name in NAMES:
            with self.subTest(name):
                self.not_there(self.call("PUT", f"{T}{name}?dtype=uint8&shape=1&durable=true", b"x", OCTETS), name)
                self.not_there(self.call("PUT", P + name, counter()), name)
                for path in (T + name, P + name, P + name + "/state"):
                    self.not_there(self.call("GET", path), name)
                self.not_there(self.call("POST", P + name + "/run", {}), name)
        for name in ("../x", "/etc/passwd", "", " ", "a" * 256, "a\0b", "caf\u00e9", "\ud800"):
            with self.subTest(name):
                for body in (graph(inputs={"x": {"tensor": name}}), graph(keep={name: "y"}), graph(lease=name)):
                    self.refused((400, 404, 422), self.call("POST", "/api/v1/run", body))
                self.refused((400, 404, 422), self.call("POST", J, {"program": name, "inputs": {}, "steps": 1}))
        # a tensor's name may have slashes but is never a path: the server chooses the name of its file
        self.ok(self.call("PUT", T + "a%2f..%2f..%2fx?dtype=uint8&shape=1&durable=true", b"x", OCTETS), 201)
        self.assertRegex(" ".join(os.listdir(self.outer / "state" / "tensors")), "^[0-9a-f]{32}$")
        self.ok(self.call("DELETE", T + "a%2f..%2f..%2fx"), 204)
        self.assertEqual(before, self.outside())

    def test_t16_names_of_blobs(self):
        digest = hashlib.sha256(b"secret").hexdigest()
        before = self.outside()
        for name in (*NAMES, "sha256:..", "sha256:" + "..%2f" * 12 + "x", "sha256:" + "a" * 63, "sha256:" + "a" * 65, "sha256:" + "A" * 64, "sha256:" + "g" * 64,
                     "sha256:%2e%2e%2f" + "a" * 58, digest, "sha512:" + digest, "sha256:" + digest[:-2] + "%00%00", "sha256:" + digest):
            with self.subTest(name):
                for method, body in (("GET", None), ("DELETE", None)):
                    self.not_there(self.call(method, B + name, body), name)
                if name != "sha256:" + digest:
                    self.not_there(self.call("PUT", B + name, b"secret", OCTETS), name)
        self.assertEqual(before, self.outside())
        self.assertEqual([], self.call("GET", "/api/v1/blobs").json["blobs"])

    def test_t16_names_of_jobs_and_checkpoints(self):
        self.ok(self.call("PUT", P + "c", counter()), 201)
        job = self.ok(self.call("POST", J, {"program": "c", "inputs": {}, "steps": 20, "checkpoint": {"every": 10}}), 202).json["job"]
        wait(self.server, job)
        self.ok(self.call("GET", f"{J}/{job}/checkpoints/last"))
        self.ok(self.call("GET", f"{J}/{job}/checkpoints/20"))
        beside = self.outer / "state" / "jobs" / "7.safetensors"
        beside.write_bytes(b"secret")
        for step in (*NAMES, "..%2f7", "%2e%2e%2f7.safetensors", "request", "request.safetensors", "020", "+20", "20.safetensors", "20%00", "-1", "1e1", "7", str(2**64 + 20),
                     "20%2f..%2f20", "0x14"):
            with self.subTest(step):
                self.not_there(self.call("GET", f"{J}/{job}/checkpoints/{step}"), step)
                self.not_there(self.call("GET", f"{J}/{step}"), step)
                self.not_there(self.call("GET", f"{J}/{step}/checkpoints/20"), step)
                self.not_there(self.call("DELETE", f"{J}/{step}?remove=true"), step)
        self.ok(self.call("GET", f"{J}/{job}/checkpoints/20"))
        self.assertTrue(beside.exists())
        beside.unlink()

    def test_t16_links_in_the_folder_of_models(self):
        """The owner of the models folder may make links, as Kubernetes mounts do.  The targets are revealed to no client, and
        no request makes a link or writes there."""
        models, whole = self.outer / "models", self.outer / "whole"
        (whole / "1").mkdir(parents=True)
        document = json.dumps({"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]})
        (whole / "1" / "model.json").write_text(document)
        (models / "linked").symlink_to(whole)
        (models / "other" / "1").mkdir(parents=True)
        (models / "other" / "1" / "model.json").symlink_to(self.outer / "secret")
        before = self.outside()
        self.ok(self.call("POST", "/v2/repository/models/linked/load", {}))
        answer = self.call("POST", "/v2/repository/models/other/load", {})
        self.not_there(answer, "other")
        sent = {"config": "{}", "file:1/model.json": base64.b64encode(document.encode()).decode()}
        for name in ("linked", "other", "fresh"):
            self.ok(self.call("POST", f"/v2/repository/models/{name}/load", {"parameters": sent}))
        self.assertEqual(before, self.outside())

    def test_t18_nothing_is_fetched(self):
        """A socket listens for the connection that must not come, whatever field contains its address."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(0.5)
            at = f"127.0.0.1:{silent.getsockname()[1]}"
            for url in (f"http://{at}/x.npy", f"https://{at}/x.npy", f"file://{at}/etc/passwd", f"ftp://{at}/x", f"//{at}/x", f"\\\\{at}\\x", f"s3://{at}/x.npy",
                        f"gs://{at}/x", f"data:,{at}", f"http:%2f%2f{at}", at):
                quoted = url.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c").replace(":", "%3a")
                asks = [("PUT", T + "t", {"file": url, "format": "npy"}, {}), ("PUT", T + "t", {"blob": url, "format": "npy"}, {}), ("PUT", T + "t", {"file": url}, {}),
                        ("PUT", P + "p", {**counter(), "state": {"n": {"file": url, "format": "npy"}}}, {}), ("PUT", P + "p", counter(state={"n": {"tensor": url}}), {}),
                        ("POST", "/api/v1/run", graph(inputs={"x": {"url": url}}), {}), ("POST", "/api/v1/run", graph(inputs={"x": url}), {}),
                        ("POST", "/api/v1/run", graph(device=url), {}), ("POST", J, {"program": url, "inputs": {}, "steps": 1}, {}), ("GET", B + quoted, None, {}),
                        ("PUT", B + quoted, b"x", OCTETS), ("GET", T + quoted, None, {}), ("POST", f"/v2/repository/models/{quoted}/load", {}, {}),
                        ("POST", "/v2/repository/models/m/load", {"parameters": {"config": json.dumps({"default_model_filename": url})}}, {}),
                        ("POST", "/v2/repository/models/m/load", {"parameters": {"config": "{}", f"file:1/{url}": "e30="}}, {}),
                        ("POST", "/v2/repository/models/m/load", {"parameters": {"config": "{}", "file:1/model.json": url}}, {}),
                        ("POST", "/api/v1/run", safetensors({"x": ("F32", [2], struct.pack("<2f", 1, 2))}, {"request": url}), {"content-type": SAFETENSORS}),
                        ("GET", "http://" + at + "/v2", None, {}), ("GET", "/v2", None, {"host": at}), ("GET", "/api/v1/devices", None, {"origin": "http://" + at}),
                        ("POST", "/api/v1/run", "{}", {**JSON, "referer": url, "x-forwarded-host": at, "traceparent": url})]
                for method, path, body, headers in asks:
                    answer = self.call(method, path, body, headers)
                    self.assertTrue(400 <= answer.status < 500 or path == "/v2", (method, path, url, answer.status, answer.body[:200]))
            with self.assertRaises(TimeoutError):
                silent.accept()

    def test_t18_what_looks_like_code_is_text(self):
        """Templates, pickles and formulas are refused, or are names like any other."""
        mark = pathlib.Path("ran-by-a-request")
        pickled = b"cos\nsystem\n(S'touch %s'\ntR." % str(mark).encode()
        (self.outer / "data" / "x.npy").write_bytes(pickled)
        (self.outer / "data" / "y.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 64) + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(63) + b"\n" + pickled)
        for file in ("x.npy", "y.npy"):
            self.refused(422, self.call("PUT", T + "t", {"file": file}))
        self.refused(422, self.call("PUT", T + "t", {"file": "x.npy", "format": "pickle"}))
        self.refused((400, 415, 422), self.call("POST", "/api/v1/run", pickled, {"content-type": SAFETENSORS}))
        for text in ("{{7*7}}", "${7*7}", "$(touch %s)" % mark, "`touch %s`" % mark, "__import__('os').system('touch %s')" % mark, "%n%n%n%s%s"):
            for body in (graph(device=text), graph(outputs=[text]), graph(nodes=[{"id": "y", "op": text, "in": ["x"]}]), graph(inputs={text: [1, 2]}),
                         graph(nodes=[{"id": "y", "op": "sum", "in": ["x"], "attrs": {"axis": text}}]),
                         graph(nodes=[{"id": "y", "op": "cast", "in": ["x"], "attrs": {"dtype": text}}])):
                answer = self.call("POST", "/api/v1/run", body)
                self.refused((400, 422), answer)
                self.assertNotIn(b"49", answer.body)
        self.assertFalse(mark.exists())


if __name__ == "__main__":
    unittest.main()
