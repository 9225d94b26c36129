# SPDX-License-Identifier: MIT
"""Requests of the fuzzer: a graph and the values of its inputs."""
import base64
import json
import math

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
ORDER = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # bits of a significand


class Named(int):
    """A size with the name of a dimension."""

    def __new__(cls, size, name):
        self = super().__new__(cls, size)
        self.name = name
        return self


def wire(size):
    return size.name if isinstance(size, Named) else int(size)


def count(shape):
    return math.prod(shape)


def bits_of(array):
    """Rounds float32 to bfloat16, to nearest even, and returns the 16 bits."""
    flat = np.array(array, np.float32).reshape(-1)
    word = flat.view(np.uint32).astype(np.uint64)
    rounded = ((word + 0x7fff + (word >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(flat), np.uint16(0x7fc0), rounded).astype(np.uint16).reshape(np.shape(array))


def floats_of(bits):
    return (bits.reshape(-1).astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


class Tensor:
    """An input: its values as float64, int64 (uint64) or bool, and their encoding on the wire."""

    def __init__(self, dtype, array, shape=None):
        self.dtype = dtype
        self.shape = list(array.shape) if shape is None else shape  # may contain named dimensions
        if dtype == "bfloat16":
            self.array = floats_of(bits_of(np.asarray(array)))
        else:
            self.array = np.asarray(array).astype(np.bool_ if dtype == "bool" else dtype)

    def encoded(self):
        raw = (bits_of(self.array) if self.dtype == "bfloat16" else self.array).tobytes()
        return {"dtype": self.dtype, "shape": list(self.array.shape), "base64": base64.b64encode(raw).decode()}

    def readable(self):
        def word(x):
            if self.dtype in FLOATS:
                x = float(x)
                return x if math.isfinite(x) else "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"
            return bool(x) if self.dtype == "bool" else int(x)
        return {"dtype": self.dtype, "shape": list(self.array.shape), "data": [word(x) for x in self.array.reshape(-1)]}


class Document:
    """A request, with its inputs as tensors."""

    def __init__(self, inputs, nodes, outputs, dims=None):
        self.inputs, self.nodes, self.outputs, self.dims = inputs, nodes, outputs, dims or {}
        self.expected = {}  # output -> (dtype, shape) as far as known

    def members(self, encode):
        named = {name: [wire(n) for n in t.shape] for name, t in self.inputs.items() if any(isinstance(n, Named) for n in t.shape)}
        found = {"inputs": {name: encode(t) for name, t in self.inputs.items()}, "nodes": self.nodes, "outputs": self.outputs}
        if named:
            found.update(shapes=named, dims={name: limits for name, limits in self.dims.items()})
        return found

    def request(self):
        return self.members(Tensor.encoded)

    def text(self):
        """The readable form in which a document is stored."""
        members = self.members(Tensor.readable)
        lines = [f' "{name}": {json.dumps(value)}' for name, value in members.items() if name not in ("inputs", "nodes")]
        inputs = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in members["inputs"].items())
        nodes = ",\n".join(f"  {json.dumps(node)}" for node in self.nodes)
        return "{\n" + ",\n".join([f' "inputs": {{\n{inputs}}}', f' "nodes": [\n{nodes}]', *lines]) + "\n}\n"

    @classmethod
    def read(cls, text):
        """Parses the result of text()."""
        members, inputs = json.loads(text), {}
        for name, value in members["inputs"].items():
            data = [float(x) if value["dtype"] in FLOATS else x for x in value["data"]]
            kind = {"bfloat16": np.float32, "bool": np.bool_}.get(value["dtype"], value["dtype"])
            array = np.array(data, kind).reshape(value["shape"])
            names = members.get("shapes", {}).get(name, value["shape"])
            inputs[name] = Tensor(value["dtype"], array, [Named(n, name) if isinstance(name, str) else n for n, name in zip(value["shape"], names)])
        return cls(inputs, members["nodes"], members["outputs"], members.get("dims"))


def ids_of(node):
    return [node["id"]] if isinstance(node["id"], str) else list(node["id"])


def concrete(document, sizes=None):
    """The document with the names of dimensions replaced by their sizes."""
    sizes = sizes or {n.name: int(n) for t in document.inputs.values() for n in t.shape if isinstance(n, Named)}

    def without(x):
        if isinstance(x, list):
            return [without(y) for y in x]
        return sizes.get(x, x) if isinstance(x, str) else x
    nodes = [{**node, "attrs": {k: without(v) for k, v in node["attrs"].items()}} if "attrs" in node else node for node in document.nodes]
    inputs = {name: Tensor(t.dtype, t.array) for name, t in document.inputs.items()}
    return Document(inputs, nodes, document.outputs)
