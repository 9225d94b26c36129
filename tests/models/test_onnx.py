# SPDX-License-Identifier: MIT
"""ONNX models in the models folder: names, dimensions, and recorded outputs."""

import json
import os
import pathlib
import shutil
import struct
import unittest

from repository import ModelsTest, document, envelope, split

DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))
MODELS = {"squeeze": ("squeezenet/squeezenet_v1.0.onnx", "squeezenet"), "cntk": ("onnx/mnist-cntk/model.onnx", "onnx/mnist-cntk")}


def fields(data):
    """Yields (number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7) if key & 7 != 0 else 0
        value = varint() if key & 7 == 0 else None
        if key & 7:
            size = varint() if key & 7 == 2 else size
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def tensor(path):
    """Returns (shape, float32 bytes) of a TensorProto file."""
    shape, raw = [], b""
    for number, value in fields(path.read_bytes()):
        if number == 1:
            shape += [value] if isinstance(value, int) else [v for v in value]
        elif number in (4, 9):
            raw += value
    return shape, raw


@unittest.skipUnless((DATA / MODELS["cntk"][0]).is_file(), "the ONNX models are not on this machine: $BEAMLINE_DATA says where")
class Onnx(ModelsTest):
    @classmethod
    def fill(cls, repository):
        for name, (file, _) in MODELS.items():
            (repository.path / name / "1").mkdir(parents=True)
            shutil.copy(DATA / file, repository.path / name / "1" / "model.onnx")
        (repository.path / "squeeze" / "config.json").write_text(json.dumps({"max_batch_size": 4}))
        (repository.path / "single" / "1").mkdir(parents=True)
        shutil.copy(DATA / MODELS["squeeze"][0], repository.path / "single" / "1" / "model.onnx")
        (repository.path / "single" / "config.json").write_text(json.dumps({"max_batch_size": 1}))
        (repository.path / "bad" / "1").mkdir(parents=True)
        (repository.path / "bad" / "1" / "model.onnx").write_bytes(b"no model")

    def test_names_and_shapes(self):
        about = self.ok(self.call("GET", "/v2/models/cntk")).json
        self.assertEqual("onnx", about["platform"])
        self.assertEqual([{"name": "Input3", "datatype": "FP32", "shape": [1, 1, 28, 28]}], about["inputs"])
        self.assertEqual([{"name": "Plus214_Output_0", "datatype": "FP32", "shape": [1, 10]}], about["outputs"])
        about = self.ok(self.call("GET", "/v2/models/squeeze")).json
        self.assertEqual([-1, 3, 227, 227], about["inputs"][0]["shape"])
        self.assertEqual(4, self.ok(self.call("GET", "/v2/models/squeeze/config")).json["max_batch_size"])
        self.assertEqual("UNAVAILABLE", self.index()["bad", "1"][0])

    def test_a_batch_of_one(self):
        self.assertEqual(1, self.ok(self.call("GET", "/v2/models/single/config")).json["max_batch_size"])
        for rows, status in ((1, 200), (2, 400)):
            data = bytes(4 * rows * 3 * 227 * 227)
            x = {"name": "data", "shape": [rows, 3, 227, 227], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
            answer = self.infer("single", *envelope(document(x), data))
            self.assertEqual(status, answer.status, answer.body[:200])

    def test_recorded_outputs(self):
        for name, (_, folder) in MODELS.items():
            meta = self.ok(self.call("GET", "/v2/models/" + name)).json
            for i in range(3):
                shape, raw = tensor(DATA / folder / f"test_data_set_{i}" / "input_0.pb")
                _, want = tensor(DATA / folder / f"test_data_set_{i}" / "output_0.pb")
                x = {"name": meta["inputs"][0]["name"], "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}
                answer = self.ok(self.infer(name, *envelope(document(x, parameters={"binary_data_output": True}), raw)))
                got = split(answer)[1][meta["outputs"][0]["name"]]
                got, want = (struct.unpack(f"<{len(data) // 4}f", data) for data in (got, want))
                scale = max(abs(value) for value in want)
                self.assertEqual(len(want), len(got))
                self.assertLess(max(abs(a - b) for a, b in zip(got, want)), 1e-4 * scale, f"{name}, {i}")


if __name__ == "__main__":
    unittest.main()
