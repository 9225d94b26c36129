#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small network, put it into a folder of models, and ask it as a client of Triton does, with nothing but HTTP.

    build/beamline serve --models models &
    examples/host_model.py models              # the server is at $BEAMLINE_URL, or on this machine's port 8470
"""
import json
import pathlib
import struct
import urllib.request

import local

NETWORK = [{"id": "xw", "op": "matmul", "in": ["x", "w1"]}, {"id": "h1", "op": "add", "in": ["xw", "b1"]}, {"id": "h", "op": "tanh", "in": ["h1"]},
           {"id": "hw", "op": "matmul", "in": ["h", "w2"]}, {"id": "y", "op": "add", "in": ["hw", "b2"]}]
TRAINING = {
    "inputs": {"x": {"dtype": "float32", "shape": [4, 2]}, "t": {"dtype": "float32", "shape": [4, 1]}},
    "state": {"w1": {"op": "normal", "attrs": {"shape": [2, 8], "seed": 1}}, "b1": {"dtype": "float32", "shape": [8]},
              "w2": {"op": "normal", "attrs": {"shape": [8, 1], "seed": 2}}, "b2": {"dtype": "float32", "shape": [1]}},
    "nodes": [*NETWORK, {"id": "loss", "op": "mse_loss", "in": ["y", "t"]},
              {"id": ["nw1", "nb1", "nw2", "nb2"], "op": "adam", "in": ["loss", "w1", "b1", "w2", "b2"], "attrs": {"lr": 0.05}}],
    "updates": {"w1": "nw1", "b1": "nb1", "w2": "nw2", "b2": "nb2"}, "outputs": ["loss"]}
WEIGHTS = ("w1", "b1", "w2", "b2")
XOR = [[0, 0], [0, 1], [1, 0], [1, 1]]


def call(method, path, body=None, **headers):
    """(bytes, headers) of an answer; a document becomes JSON."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    if isinstance(body, dict):
        headers["content-type"] = "application/json"
    request = urllib.request.Request(local.url() + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read(), answer.headers


def train():
    """The trained weights as a safetensors file: what the program remembers, less what only its training needs."""
    call("PUT", "/api/v1/programs/xor", TRAINING)
    answer, _ = call("POST", "/api/v1/programs/xor/run", {"inputs": {"x": XOR, "t": [[0], [1], [1], [0]]}, "steps": 500})
    print("loss after 500 steps:", json.loads(answer)["outputs"]["loss"]["data"][0])
    state = json.loads(call("GET", "/api/v1/programs/xor/state")[0])["state"]
    header, data = {}, b""
    for name in WEIGHTS:
        raw = struct.pack(f"<{len(state[name]['data'])}f", *state[name]["data"])
        header[name] = {"dtype": "F32", "shape": state[name]["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def main():
    options = local.options(__doc__, ("folder", {"nargs": "?", "default": "models", "help": "of models (default: models)"}))
    folder = pathlib.Path(options.folder) / "xor" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(train())
    (folder / "model.json").write_text(json.dumps({
        "inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, 64]}, "nodes": NETWORK, "outputs": ["y"]}))
    call("POST", "/v2/repository/models/xor/load", {})
    print(json.loads(call("GET", "/v2/models/xor")[0]))

    # once as JSON, once as bytes behind an envelope
    x = {"name": "x", "shape": [4, 2], "datatype": "FP32"}
    answer, _ = call("POST", "/v2/models/xor/infer", {"inputs": [{**x, "data": XOR}]})
    print([round(value, 2) for value in json.loads(answer)["outputs"][0]["data"]])
    envelope = json.dumps({"inputs": [{**x, "parameters": {"binary_data_size": 32}}], "parameters": {"binary_data_output": True}}).encode()
    body, headers = call("POST", "/v2/models/xor/infer", envelope + struct.pack("<8f", *(v for row in XOR for v in row)),
                         **{"content-type": "application/octet-stream", "inference-header-content-length": str(len(envelope))})
    print([round(value, 2) for value in struct.unpack("<4f", body[int(headers["inference-header-content-length"]):])])


if __name__ == "__main__":
    main()
