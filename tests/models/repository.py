# SPDX-License-Identifier: MIT
"""A models folder for tests, and a server that hosts it."""

import json
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HTTP = pathlib.Path(__file__).resolve().parent.parent / "http"
sys.path.insert(0, str(HTTP))
from fixture import PROGRAM, Server, ServerTest, safetensors, sanitizers  # noqa: E402, F401

V2 = "/v2/models/"


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def elementwise(op, operand, dtype="float32", most=64, width=4):
    """Returns a model that combines a batch of rows with |operand|."""
    return {"inputs": {"x": {"dtype": dtype, "shape": ["batch", width]}}, "dims": {"batch": [1, most]},
            "nodes": [{"id": "y", "op": op, "in": ["x", operand]}], "outputs": ["y"]}


def linear():
    """Returns a model that multiplies three numbers by a matrix in the file."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [3]}}, "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"]}


def weights(*values, shape=(3, 2)):
    return safetensors({"w": ("F32", list(shape), floats(*values))})


class Repository:
    """The models folder; put(name, version, document, weights) writes a version."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.temporary.name)

    def put(self, name, version, document, tensors=None, **config):
        folder = self.path / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        if config:
            (self.path / name / "config.json").write_text(json.dumps(config))
        if tensors is not None:
            (folder / "model.safetensors").write_bytes(tensors)
        (folder / "model.json").write_text(document if isinstance(document, str) else json.dumps(document))

    def remove(self):
        self.temporary.cleanup()


def numbers(name, shape, data, datatype="FP32", **parameters):
    return {"name": name, "shape": shape, "datatype": datatype, "data": data, **({"parameters": parameters} if parameters else {})}


def document(*inputs, **members):
    return {"inputs": list(inputs), **members}


def envelope(document, tail=b""):
    """Returns (body, headers) of a request with the tensors after the envelope."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return text + tail, {"inference-header-content-length": str(len(text)), "content-type": "application/octet-stream"}


def split(answer):
    """Returns (envelope, {name: bytes}) of an answer."""
    size = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    head, tail, parts = json.loads(answer.body[:size]), answer.body[size:], {}
    for output in head["outputs"]:
        if "parameters" in output:
            n = output["parameters"]["binary_data_size"]
            parts[output["name"]], tail = tail[:n], tail[n:]
    assert not tail, tail
    return head, parts


class ModelsTest(ServerTest):
    """One server with a models folder that |fill| writes."""

    OPTIONS = ("--backends", "opencl,interp")

    @classmethod
    def fill(cls, repository):
        pass

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        cls.fill(cls.repository)
        cls.server = cls.start()
        cls.wait_ready()

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), *cls.OPTIONS, *cls.ARGS)

    @classmethod
    def wait_ready(cls, server=None):
        for _ in range(600):
            if (server or cls.server).call("GET", "/v2/health/ready").status == 200:
                return
            time.sleep(0.05)
        raise AssertionError("the models were not loaded in half a minute")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.repository.remove()

    def infer(self, model, body, headers=None):
        return self.call("POST", f"{V2}{model}/infer", body, headers)

    def refused(self, status, answer, word=""):
        """Checks the status and {"error": text}, with |word| in the text and without internal details."""
        self.assertEqual(status, answer.status, answer.body[:500])
        self.assertEqual("application/json", answer.type)
        self.assertEqual(["error"], list(answer.json))
        self.assertIn(word, answer.json["error"])
        self.assertNotRegex(answer.body, rb"0x[0-9a-f]{6,}|/usr/|/home/|/tmp/|\.c:\d")

    def load(self, name, **parameters):
        return self.call("POST", f"/v2/repository/models/{name}/load", {"parameters": parameters})

    def unload(self, name):
        return self.call("POST", f"/v2/repository/models/{name}/unload", {})

    def index(self, **body):
        return {(row["name"], row.get("version")): (row["state"], row["reason"]) for row in self.ok(self.call("POST", "/v2/repository/index", body)).json}


class AllocationsFail:
    """A mixin before ModelsTest: a server with the interpreter in which a test can make one allocation fail."""

    @classmethod
    def setUpClass(cls):
        if sanitizers():
            raise unittest.SkipTest("a sanitizer has an allocator of its own")
        super().setUpClass()

    @classmethod
    def start(cls):
        shared = cls.repository.path.parent / (cls.repository.path.name + ".shared")
        library = shared.with_suffix(".so")
        shared.write_bytes(bytes(16))
        cls.addClassCleanup(lambda: (shared.unlink(), library.unlink()))
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HTTP / "failing_malloc.c"], check=True)
        with open(shared, "r+b") as file:
            cls.shared = mmap.mmap(file.fileno(), 16)
        return Server("--models", str(cls.repository.path), "--backends", "interp", "--log-level", "error",
                      env={"LD_PRELOAD": str(library), "FAILING_MALLOC": str(shared)})

    def arm(self, nth):
        """Makes the n-th allocation from now fail.  Returns the number of failures so far."""
        self.shared[0:8] = nth.to_bytes(8, "little")
        return int.from_bytes(self.shared[8:16], "little")
