#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Put an ONNX model on a server and run it, with nothing but HTTP.

    examples/onnx_run.py [MODEL.onnx [NAME=FILE ...]]    # the server is at $BEAMLINE_URL, or on this machine's port 8470

NAME=FILE: the input's raw bytes, little-endian; an input that is not given is a ramp from 0 to 1.  $DIMS gives ranges of named dimensions
("batch:1-8,length:1-512") whose smallest sizes are used.  Without a model a small one is made here: y = relu(x w + 1).
"""
import base64
import json
import os
import pathlib
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request

import local

FORMATS = {"float32": "f", "float64": "d", "float16": "e", "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
           "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"}


def field(number, value):
    """A field of a protobuf message: a number, or bytes, text or a message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def small_model():
    """relu(x w + b) of x [rows, 2], as the onnx package would write it."""
    def tensor(name, shape, values):
        return b"".join(field(1, size) for size in shape) + field(2, 1) + field(8, name) + field(9, struct.pack(f"<{len(values)}f", *values))

    def value(name, *shape):
        dims = b"".join(field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    def node(op, inputs, output):
        return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)

    graph = (field(1, node("MatMul", ["x", "w"], "xw")) + field(1, node("Add", ["xw", "b"], "s")) + field(1, node("Relu", ["s"], "y"))
             + field(2, "small") + field(5, tensor("w", [2, 3], [1, -2, 3, 4, 5, -6])) + field(5, tensor("b", [3], [1, 1, 1]))
             + field(11, value("x", "rows", 2)) + field(12, value("y", "rows", 3)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def call(method, path, body, kind):
    try:
        with urllib.request.urlopen(urllib.request.Request(local.url() + path, body, {"content-type": kind}, method=method)) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as problem:
        sys.exit(json.loads(problem.read()).get("detail", str(problem)))


def ramp(dtype, shape):
    count = 1
    for size in shape:
        count *= size
    code = FORMATS.get(dtype) or sys.exit(f"an input of {dtype} must be given as a file")
    values = [i / max(count - 1, 1) for i in range(count)]
    return struct.pack(f"<{count}{code}", *(values if code in "fde" else [int(value + 0.5) for value in values]))


def main():
    options = local.options(__doc__, ("model", {"nargs": "?", "metavar": "MODEL.onnx"}), ("inputs", {"nargs": "*", "metavar": "NAME=FILE"}))
    data = pathlib.Path(options.model).read_bytes() if options.model else small_model()
    given = dict(argument.split("=", 1) for argument in options.inputs)
    dims = os.environ.get("DIMS")
    program = call("PUT", "/api/v1/programs/onnx" + (f"?dims={urllib.parse.quote(dims)}" if dims else ""), data, "application/x-onnx")
    entry = program["entries"]["main"]
    inputs = {}
    for name, of in entry["inputs"].items():
        shape = [entry["dims"][size][0] if isinstance(size, str) else size for size in of["shape"]]
        raw = pathlib.Path(given[name]).read_bytes() if name in given else ramp(of["dtype"], shape)
        inputs[name] = {"dtype": of["dtype"], "shape": shape, "base64": base64.b64encode(raw).decode()}
        print(f"{name}: {of['dtype']} {of['shape']}, run with {shape}")
    result = call("POST", "/api/v1/programs/onnx/run", json.dumps({"inputs": inputs}).encode(), "application/json")
    for name, value in result["outputs"].items():
        best = sorted(range(len(value["data"])), key=lambda i: -float(value["data"][i]))[:5]
        print(f"{name}: {value['dtype']} {value['shape']}, largest:", ", ".join(f"[{i}] {float(value['data'][i]):.6g}" for i in best))
    print(f"{result['stats']['kernels']} kernels, {result['stats']['compute_ms']:.3g} ms on {result['stats']['device']}")


if __name__ == "__main__":
    main()
