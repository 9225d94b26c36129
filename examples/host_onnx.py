#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Host an ONNX model whose dimensions have no sizes, see which sizes it takes, ask it at some, and give it other ranges, with nothing but HTTP.

    build/beamline serve --models models &
    examples/host_onnx.py                      # the server is at $BEAMLINE_URL, or on this machine's port 8470

The model adds a picture to a copy of itself that is half as large and then doubled: both sides must be even, which nothing in its file says.
"""
import base64
import json
import struct
import urllib.error
import urllib.request

import local
from onnx_run import field


def halves():
    """y = x + twice(half(x)) of x [n, 1, height, width], as the onnx package would write it."""
    def attribute(name, values=None, text=None):
        return field(5, field(1, name) + (field(4, text) + field(20, 3) if text else b"".join(field(8, v) for v in values) + field(20, 7)))

    def node(op, inputs, output, *attributes):
        return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op) + b"".join(attributes))

    def value(name, *shape):
        dims = b"".join(field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    two = field(1, 4) + field(2, 1) + field(8, "scales") + field(9, struct.pack("<4f", 1, 1, 2, 2))
    graph = (node("AveragePool", ["x"], "half", attribute("kernel_shape", [2, 2]), attribute("strides", [2, 2]))
             + node("Resize", ["half", "", "scales"], "twice", attribute("mode", text="nearest"), attribute("nearest_mode", text="floor"),
                    attribute("coordinate_transformation_mode", text="asymmetric"))
             + node("Add", ["x", "twice"], "y") + field(2, "halves") + field(5, two)
             + field(11, value("x", "n", 1, "height", "width")) + field(12, value("y", "n", 1, "height", "width")))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def call(path, body=None):
    """The answer's document; that of a refusal has an "error"."""
    request = urllib.request.Request(local.url() + path, None if body is None else json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as refusal:
        return json.loads(refusal.read())


def load(**config):
    file = base64.b64encode(halves()).decode()
    call("/v2/repository/models/halves/load", {"parameters": {"config": json.dumps(config), "file:1/model.onnx": file}})
    print("sizes:", json.dumps(call("/v2/models/halves")["dims"]))


def ask(height, width):
    x = {"name": "x", "shape": [1, 1, height, width], "datatype": "FP32", "data": [i / 4 for i in range(height * width)]}
    answer = call("/v2/models/halves/infer", {"inputs": [x]})
    print(f"{height} x {width}:", answer.get("error") or answer["outputs"][0]["data"])


def main():
    local.options(__doc__)
    load()  # ranges that the model can have
    for height, width in ((2, 2), (4, 2), (3, 2)):
        ask(height, width)
    load(dims={"n": 1, "height": [2, 640, 2], "width": 2})  # those that are wanted
    ask(2, 4)


if __name__ == "__main__":
    main()
