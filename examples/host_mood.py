#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small classifier of texts, put it with its tokenizer into a folder of models, and ask it with texts: the server makes tokens of them.

    build/beamline serve --models models &
    examples/host_mood.py models               # the server is at $BEAMLINE_URL, or on this machine's port 8470
"""
import json
import pathlib
import re
import struct
import urllib.request

import local

GOOD = ("a wonderful film", "I loved it, truly", "great actors and a great story", "funny, warm and wonderful", "not bad, I loved the story", "what a great evening!")
BAD = ("a terrible film", "I hated it, truly", "dull actors and a dull story", "loud, cold and terrible", "not great, I hated the story", "what a dull evening!")
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WIDTH, LENGTH = 8, 16


def words(text):
    """As BERT's pre-tokenizer: words, and punctuation by itself."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


VOCABULARY = MARKS + sorted({word for text in GOOD + BAD for word in words(text)})
TOKENIZER = {
    "added_tokens": [{"id": i, "content": mark, "special": True} for i, mark in enumerate(MARKS)],
    "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}, "decoder": {"type": "WordPiece"},
    "truncation": {"max_length": LENGTH}, "padding": {"pad_id": 0, "pad_to_multiple_of": 4},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {word: i for i, word in enumerate(VOCABULARY)}}}
# The mean of what is learnt of each word, and from that a score for each mood.
NETWORK = [{"id": "x", "op": "take", "in": ["words", "input_ids"], "attrs": {"axis": 0}}, {"id": "there", "op": "cast", "in": ["attention_mask"], "attrs": {"dtype": "float32"}},
           {"id": "column", "op": "unsqueeze", "in": ["there"], "attrs": {"axis": -1}}, {"id": "kept", "op": "mul", "in": ["x", "column"]},
           {"id": "sum", "op": "sum", "in": ["kept"], "attrs": {"axis": 1}}, {"id": "many", "op": "sum", "in": ["column"], "attrs": {"axis": 1}},
           {"id": "mean", "op": "div", "in": ["sum", "many"]}, {"id": "scores", "op": "matmul", "in": ["mean", "w"]}, {"id": "mood", "op": "softmax", "in": ["scores"]}]
WEIGHTS = ("words", "w")


def call(method, path, body=None):
    request = urllib.request.Request(local.url() + path, json.dumps(body).encode() if body is not None else None, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


def train():
    """The trained weights as a safetensors file."""
    rows = [[2, *map(VOCABULARY.index, words(text)), 3] for text in GOOD + BAD]
    ids = [row + [0] * (LENGTH - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (LENGTH - len(row)) for row in rows]
    kind = {"dtype": "int32", "shape": [len(rows), LENGTH]}
    call("PUT", "/api/v1/programs/mood", {
        "inputs": {"input_ids": kind, "attention_mask": kind, "label": {"dtype": "int32", "shape": [len(rows)]}},
        "state": {"words": {"op": "normal", "attrs": {"shape": [len(VOCABULARY), WIDTH], "seed": 1}}, "w": {"op": "normal", "attrs": {"shape": [WIDTH, 2], "seed": 2}}},
        "nodes": [*NETWORK, {"id": "loss", "op": "cross_entropy", "in": ["scores", "label"]}, {"id": ["nwords", "nw"], "op": "adam", "in": ["loss", *WEIGHTS], "attrs": {"lr": 0.05}}],
        "updates": {"words": "nwords", "w": "nw"}, "outputs": ["loss"]})
    answer = call("POST", "/api/v1/programs/mood/run", {"inputs": {"input_ids": ids, "attention_mask": mask, "label": [0] * len(GOOD) + [1] * len(BAD)}, "steps": 100})
    print("loss after 100 steps:", answer["outputs"]["loss"]["data"][0])
    state, header, data = call("GET", "/api/v1/programs/mood/state")["state"], {}, b""
    for name in WEIGHTS:
        raw = struct.pack(f"<{len(state[name]['data'])}f", *state[name]["data"])
        header[name] = {"dtype": "F32", "shape": state[name]["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def main():
    options = local.options(__doc__, ("folder", {"nargs": "?", "default": "models", "help": "of models (default: models)"}))
    folder = pathlib.Path(options.folder) / "mood"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.safetensors").write_bytes(train())
    (folder / "1" / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    kind = {"dtype": "int32", "shape": ["batch", "n"]}
    (folder / "1" / "model.json").write_text(json.dumps({"inputs": {"input_ids": kind, "attention_mask": kind}, "dims": {"batch": [1, 64], "n": [1, LENGTH]},
                                                         "nodes": NETWORK, "outputs": ["mood"]}))
    (folder / "moods.txt").write_text("good\nbad\n")
    (folder / "config.json").write_text(json.dumps({"parameters": {"text": {"string_value": "text"}},
                                                    "output": [{"name": "mood", "data_type": "TYPE_FP32", "dims": [2], "label_filename": "moods.txt"}]}))
    call("POST", "/v2/repository/models/mood/load", {})
    print(call("GET", "/v2/models/mood")["inputs"])
    texts = ["Wonderful actors!", "What a terrible, loud story", "great"]
    answer = call("POST", "/v2/models/mood/infer", {"inputs": [{"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": texts}],
                                                    "outputs": [{"name": "mood", "parameters": {"classification": 1}}]})
    for text, best in zip(texts, answer["outputs"][0]["data"]):
        print(f"{text}: {best.split(':')[2]}")


if __name__ == "__main__":
    main()
