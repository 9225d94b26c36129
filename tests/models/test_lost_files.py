# SPDX-License-Identifier: MIT
"""Files that are truncated during a read: the load fails with this reason, and the server continues."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from repository import Repository, document, elementwise, linear, numbers, weights  # imported first, since it adds the folder of the next module to the path
from fixture import Server
from test_restarts import coded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "llm"))
import gguf_files  # noqa: E402
from test_import import folder as hub_folder  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SHORTER = "{}: the file became shorter while it was read"
ROW = document(numbers("x", [1, 4], [1, 2, 3, 4]))
N = 2048  # elements of a tensor, two pages


def field(number, value):
    """Encodes a protobuf field: a text, a message, or a number below 16,384."""
    if isinstance(value, int):
        return bytes([number << 3, value & 127 | 128, value >> 7])
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value) & 127 | 128, len(value) >> 7]) + value


def onnx_with_a_file():
    """Returns y = x + w with w in the file weights.bin."""
    kind = field(1, field(1, 1) + field(2, field(1, field(1, N))))
    w = field(1, N) + field(2, 1) + field(8, "w") + field(13, field(1, "location") + field(2, "weights.bin")) + field(14, 1)
    graph = (field(1, field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add")) + field(2, "g") + field(5, w) +
             field(11, field(1, "x") + field(2, kind)) + field(12, field(1, "y") + field(2, kind)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


class LostFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.build.cleanup)
        cls.library = os.path.join(cls.build.name, "shrinking_file.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", cls.library, HERE / "shrinking_file.c"], check=True)

    def setUp(self):
        self.orders, self.state = (pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) for _ in range(2))
        self.repository = Repository()
        self.addCleanup(self.repository.remove)
        self.repository.put("double", 1, elementwise("mul", 2))

    def start(self, *args):
        self.server = Server("--backends", "interp", "--models", str(self.repository.path), "--state", str(self.state), *args,
                             env={"LD_PRELOAD": self.library, "SHRINKING_FILES": str(self.orders)})
        self.addCleanup(self.server.stop)
        for _ in range(600):
            if self.call("GET", "/v2/health/ready", status=None).status == 200:
                return
            time.sleep(0.05)

    def call(self, method, path, body=None, status=200):
        answer = self.server.call(method, path, body)
        if status is not None:
            self.assertEqual(status, answer.status, answer.body[:500])
        return answer

    def shrink(self, name, size):
        (self.orders / name).write_text(str(size))

    def write(self, files):
        for name, data in files.items():
            path = self.repository.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").rename(path)

    def rows(self):
        return {row["name"]: row for row in self.call("POST", "/v2/repository/index", {}).json}

    def serves(self):
        self.assertEqual([2, 4, 6, 8], self.call("POST", "/v2/models/double/infer", ROW).json["outputs"][0]["data"])

    def end(self):
        self.assertFalse(list(self.orders.iterdir()), "nothing was cut")
        self.assertEqual(0, self.server.stop(), self.server.last[-3000:])

    def test_t26_language_models_that_become_shorter(self):
        tensors, keys = gguf_files.llama_tensors(), gguf_files.llama_keys()
        whole = gguf_files.gguf(keys, tensors)
        hub = hub_folder("hub", tensors)
        part = "model-00002-of-00002.safetensors"
        self.write({"start.gguf": whole})
        self.shrink("start.gguf", len(whole) // 2)
        self.start("--model-poll", "0")
        self.assertIn(SHORTER.format("start.gguf"), self.rows()["start"]["reason"])
        self.assertEqual("UNAVAILABLE", self.rows()["start"]["state"])
        for name, files, file, sizes in (("later", {"later.gguf": whole}, "later.gguf", (0, 100, 5000, len(whole) - 5000, len(whole) - 1)),
                                         ("hub", hub, part, (0, 100, 5000))):
            for size in sizes:
                with self.subTest(name, size=size):
                    self.write(files)
                    self.shrink(file, size)
                    answer = self.call("POST", f"/v2/repository/models/{name}/load", {}, status=503)
                    self.assertIn(SHORTER.format(file), answer.json.get("detail", answer.json.get("error")))
                    self.assertIn(SHORTER.format(file), self.rows()[name]["reason"])
                    self.serves()
            self.write(files)
            self.call("POST", f"/v2/repository/models/{name}/load", {})
            self.assertEqual("READY", self.rows()[name]["state"])
        self.write({"later.gguf": whole + bytes(32)})  # the current version stays while the next cannot be read
        self.shrink("later.gguf", 5000)
        self.call("POST", "/v2/repository/models/later/load", {}, status=503)
        answer = self.call("POST", "/v2/models/later/generate", {"text_input": "abc", "max_tokens": 4, "ignore_eos": True}).json
        self.assertEqual(4, answer["num_output_tokens"])
        self.end()

    def test_t26_external_data_that_becomes_shorter(self):
        data = struct.pack("<f", 0.5) * N
        self.write({"sum/1/model.onnx": onnx_with_a_file(), "sum/1/weights.bin": data})
        self.shrink("weights.bin", 4)
        self.start("--model-poll", "0")
        self.assertIn(SHORTER.format("weights.bin"), self.rows()["sum"]["reason"])
        self.write({"sum/1/weights.bin": data})
        self.call("POST", "/v2/repository/models/sum/load", {})
        answer = self.call("POST", "/v2/models/sum/infer", document(numbers("x", [N], [1] * N)))
        self.assertEqual([1.5] * N, answer.json["outputs"][0]["data"])
        self.end()

    def test_t26_sent_files_that_become_shorter(self):
        self.start()
        files = {"config": "{}", "file:1/model.json": coded(linear()), "file:1/model.safetensors": coded(weights(*range(6)))}
        self.call("POST", "/v2/repository/models/sent/load", {"parameters": files})
        self.server.stop()
        kept, = (self.state / "models").iterdir()
        self.shrink(kept.name, 8)
        self.start()
        self.assertIn("the file became shorter while it was read", self.rows()["sent"]["reason"])
        self.serves()
        self.end()


if __name__ == "__main__":
    unittest.main()
