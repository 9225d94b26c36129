# SPDX-License-Identifier: MIT
"""Malformed safetensors files wherever one may be sent: in a request, as a blob, as a data file, and as the state of a
program."""

import hashlib
import json
import pathlib
import struct
import tempfile
import unittest

from fixture import OCTETS, SAFETENSORS, Server, ServerTest, counter, graph, safetensors

REQUEST = {"request": json.dumps({key: value for key, value in graph().items() if key != "inputs"})}
DATA = struct.pack("<2f", 1, 2)


def row(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def file(header, data=DATA, size=None):
    """Returns a file with this header, a dict or bytes, and with |size| as the declared length."""
    text = header if isinstance(header, bytes) else json.dumps({"__metadata__": REQUEST, **header}).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


META = b'{"__metadata__":' + json.dumps(REQUEST).encode() + b","
ROW = json.dumps(row()).encode()
BAD = {
    "nothing": b"",
    "no header": struct.pack("<Q", 8),
    "a header of 100 MB": file({"x": row()}, size=100 << 20),
    "a header of 2^63": file({"x": row()}, size=2**63),
    "a header of 2^64 - 1": file({"x": row()}, size=2**64 - 1),
    "a header that ends too early": file({"x": row()}, size=20),
    "a header that goes into the data": file(json.dumps({"__metadata__": REQUEST, "x": row()}).encode(), size=len(json.dumps({"__metadata__": REQUEST, "x": row()})) + 8),
    "overlaps": file({"x": row(), "y": row(begin=4, end=12)}, DATA + b"1234"),
    "the same bytes twice": file({"x": row(), "y": row()}),
    "a gap": file({"x": row(), "y": row("U8", (4,), 12, 16)}, DATA * 2),
    "a gap at the begin": file({"x": row(begin=8, end=16)}, DATA * 2),
    "bytes after the end": file({"x": row()}, DATA + b"x"),
    "beyond the end": file({"x": row(shape=(3,), end=12)}),
    "far beyond the end": file({"x": row(shape=(2**40,), end=2**42)}),
    "2^64 - 1": file({"x": row(end=2**64 - 1)}),
    "backwards": file({"x": row(begin=8, end=0)}),
    "negative": file({"x": row(begin=-8, end=0)}),
    "fractions": file({"x": row(end=8.5)}),
    "a name twice": file(META + b'"x":' + ROW + b',"x":' + json.dumps(row(begin=8, end=16)).encode() + b"}", DATA * 2),
    "range and shape differ": file({"x": row(shape=(3,))}),
    "range and dtype differ": file({"x": row("F64")}),
    "a shape that overflows to fit": file({"x": row(shape=(2**62 + 2, 4))}),
    "a shape that overflows behind a zero": file({"x": row(shape=(0, 2**62, 4), end=0)}, b""),
    "a negative shape": file({"x": row(shape=(-1, -2))}),
    "many dimensions": file({"x": row(shape=(1,) * 1000 + (2,))}),
    "no dtype": file({"x": row("F31")}),
    "not UTF-8": file(META + b'"x":' + ROW + b',"\xff\xfe":' + json.dumps(row(begin=8, end=16)).encode() + b"}", DATA * 2),
    "a NUL in a name": file(META + b'"x\\u0000":' + ROW + b"}"),
    "no JSON": file(b"not JSON"),
    "a list": file(b"[]"),
    "deep": file(b'{"x":' * 5000 + b"1" + b"}" * 5000, b""),
    "a member more": file({"x": {**row(), "more": 1}}),
    "no offsets": file({"x": {"dtype": "F32", "shape": [2]}}),
    "metadata of numbers": file({"__metadata__": {"request": 1}, "x": row()}),
}


class Files(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--backends", "interp", "--data-folder", cls.folder.name, "--max-body", "4M")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def blob(self, data):
        """Returns the digest."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.ok(self.call("PUT", "/api/v1/blobs/" + digest, data, OCTETS), 201)
        return digest

    def each_way(self, data):
        """Sends the file in all ways, each of which uses the tensor "x".  Returns the answers."""
        kind = {"content-type": SAFETENSORS}
        yield "run", self.call("POST", "/api/v1/run", data, kind)
        yield "state", self.call("PUT", "/api/v1/programs/p/state", data, kind)
        yield "blob", self.call("PUT", "/api/v1/tensors/t", {"blob": self.blob(data), "format": "safetensors", "name": "x"})
        pathlib.Path(self.folder.name, "f.safetensors").write_bytes(data)
        yield "file", self.call("PUT", "/api/v1/tensors/t", {"file": "f.safetensors", "name": "x"})

    def setUp(self):
        state = {"x": {"dtype": "float32", "shape": [2]}}
        nodes = [{"id": "m", "op": "add", "in": ["x", 1]}]
        self.assertIn(self.call("PUT", "/api/v1/programs/p", counter(state=state, nodes=nodes, updates={"x": "m"})).status, (200, 201))

    def test_t17_files_that_lie(self):
        good = file({"x": row()})
        statuses = {way: answer.status for way, answer in self.each_way(good)}
        self.assertEqual({"run": 200, "blob": 201, "file": 201}, {way: status for way, status in statuses.items() if way != "state"})
        self.ok(self.call("PUT", "/api/v1/programs/p/state", safetensors({"x": ("F32", [2], DATA)}), {"content-type": SAFETENSORS}), 204)
        before = self.call("GET", "/api/v1/tensors/t").body
        resident = self.server.rss()
        for what, data in BAD.items():
            for way, answer in self.each_way(data):
                with self.subTest(what=what, way=way):
                    self.refused((400, 404, 413, 422), answer)
        self.assertEqual(before, self.call("GET", "/api/v1/tensors/t").body)
        self.assertEqual([1, 2], self.call("GET", "/api/v1/programs/p/state").json["state"]["x"]["data"])
        self.assertLess(self.server.rss() - resident, 16 << 20)


if __name__ == "__main__":
    unittest.main()
