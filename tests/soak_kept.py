# SPDX-License-Identifier: MIT
"""The clients of tests/soak.py for durable objects: jobs, blobs, durable tensors and programs, models, keys and shares.

Each function is a request of a client, as in soak.py; |fill| writes the models folder for `model`, `reload` and `changed`.
"""

import base64
import hashlib
import json
import os
import pathlib
import signal
import struct
import time
import zlib

P, J, M, T, K = "/api/v1/programs", "/api/v1/jobs", "/v2/models", "/api/v1/tensors", "/api/v1/keys"
OCTETS = {"content-type": "application/octet-stream"}
FACTORS = (2, 3, 5)
LONG = 1_000_000  # steps of a job that will be cancelled
PATIENCE = 120  # seconds to wait for requests that other clients may delay
ENDED = ("done", "failed", "cancelled")
KEPT_FOLDERS = ("jobs", "blobs", "models", "tensors", "programs")  # subfolders of --state whose files the clients delete again


def row(name, op, ins, **attrs):
    return {"id": name, "op": op, "in": ins, **({"attrs": attrs} if attrs else {})}


def until(c, what, look):
    """Returns the result of |look| once it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            c.same(f"{what} within {PATIENCE} s", found, what)
        time.sleep(0.02)
    return found


# ---- jobs

def line():
    """A line through points, fitted by Adam, and its loss alone."""
    inputs = {name: {"dtype": "float32", "shape": [4]} for name in "xt"}
    loss = [row("wx", "mul", ["x", "w"]), row("p", "add", ["wx", "b"]), row("e", "sub", ["p", "t"]), row("q", "mul", ["e", "e"]), row("loss", "mean", ["q"])]
    step = row(["w1", "b1"], "adam", ["loss", "w", "b"], lr=0.01)
    return {"state": {"w": [0], "b": [0]},
            "entries": {"train": {"inputs": inputs, "nodes": [*loss, step], "updates": {"w": "w1", "b": "b1"}, "outputs": ["loss"]},
                        "test": {"inputs": inputs, "nodes": loss, "outputs": ["loss", "p"]}}}


POINTS = {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}
OPTIONS = ({"evaluate": {"entry": "test", "inputs": POINTS, "every": 7, "outputs": ["loss"]}}, {"accumulate": 2}, {"compute": "bfloat16"},
           {"loss_scale": "dynamic", "compute": "float16"}, {"checkpoint": {"every": 5, "keep": 2}}, {"priority": 3},
           {"early_stop": {"metric": "loss", "patience": 20, "mode": "min"}})


def job(c):
    """A job: submitted, optionally followed or cancelled; checks its reports and its last checkpoint; then removed."""
    path, other, steps = f"{P}/{c.own('j')}", f"{P}/{c.own('e')}", c.random.randrange(1, 200)
    c.call("PUT", path, line(), expect=(201,))
    body = {"program": c.own("j"), "entry": "train", "inputs": POINTS, "steps": steps, "collect": {"every": 1, "outputs": ["loss"]}}
    for option in c.random.sample(OPTIONS, c.random.randrange(3)):
        body.update(option)
    watched = "evaluate" in body and c.random.randrange(2) == 0
    if watched:
        c.call("PUT", other, line(), expect=(201,))
        body["evaluate"] = {**body["evaluate"], "program": c.own("e")}
    kind = c.random.randrange(4)
    at = f"{J}/{c.call('POST', J, {**body, 'steps': LONG if kind == 0 and 'early_stop' not in body else steps}, expect=(202,))['job']}"
    if watched:
        c.call("DELETE", other, expect=(204,))
    if kind == 0:
        time.sleep(c.random.choice([0, 0.01, 0.1]))
        c.call("DELETE", at, expect=(200, 202))
    elif kind == 1:
        events = c.call("GET", at + "/events", expect=(200, 204))
        c.same(True, not events or b"event: state" in events, "events of a job")
    elif kind == 2:
        c.leave("GET", at + "/events")
    ended = until(c, f"the end of {at}", lambda: (shown := c.call("GET", at))["state"] in ENDED and shown)
    c.same(True, ended["state"] == ("cancelled" if kind == 0 and ended["steps"] == LONG else "done") or kind == 0, f"{ended}")
    rows = c.call("GET", at + "/history")["rows"]
    c.same(list(range(1, len(rows) + 1)), [r[0] for r in rows], "steps of the history")
    if "accumulate" not in body:
        c.same(len(rows), ended["step"], "reports")
    c.same(len(rows) + 1, len(c.call("GET", at + "/history?format=csv").splitlines()), "lines of CSV")
    c.call("GET", at + "/checkpoints/last", expect=(200, 404))
    c.call("DELETE", at + "?remove=true", expect=(200, 204))
    c.call("GET", at, expect=(404,))
    c.call("DELETE", path, expect=(204,))


def sequence(c):
    """Numbered runs: executed once each, however often they are sent."""
    path = f"{P}/{c.own('q')}"
    c.call("PUT", path + "?durable=true", {"inputs": {}, "state": {"n": [0]}, "nodes": [row("m", "add", ["n", 1])], "updates": {"n": "m"}, "outputs": ["m"]},
           expect=(201,))
    for number in range(1, c.random.randrange(2, 6)):
        for _ in range(c.random.randrange(1, 3)):
            c.same([number], c.call("POST", path + "/run", {"seq": number})["outputs"]["m"]["data"], "count")
        c.call("POST", path + "/run", {"seq": number + 2}, expect=(409,))
    c.call("POST", path + "/run", {"dry_run": True})
    c.call("DELETE", path, expect=(204,))


# ---- objects on the disk

def blob(c):
    """A blob: uploaded in pieces, interrupted in a piece, resumed, read, deleted."""
    data = c.random.randbytes(c.random.randrange(2, 400_000))
    path, total = "/api/v1/blobs/sha256:" + hashlib.sha256(data).hexdigest(), len(data)
    c.call("HEAD", path, expect=(404,))
    if c.random.randrange(3) == 0:
        with c.socket() as sock:
            sock.sendall(c.head("PUT", path, *(f"{k}: {v}" for k, v in OCTETS.items()), f"Content-Length: {total}") + data[:total // 2])
            asks = {"content-range": f"bytes */{total}"}
            until(c, "the upload that is left", lambda: (lambda a: a.get("received") or a.get("status") == 409)(c.call("PUT", path, b"", asks, expect=(202, 409))))
    at, end = 0, time.monotonic() + PATIENCE
    while True:
        answer = c.call("PUT", path, b"", {"content-range": f"bytes */{total}"}, expect=(201, 202, 409))
        at = answer.get("received", 0)
        if at >= total:
            break
        last = min(at + c.random.randrange(1, total + 1), total) - 1
        c.call("PUT", path, data[at:last + 1], {**OCTETS, "content-range": f"bytes {at}-{last}/{total}"}, expect=(201, 202, 409))
        if "received" not in answer:  # the server has not yet detected the end of the other connection
            time.sleep(0.02)
        if time.monotonic() > end:
            c.same(f"a whole blob within {PATIENCE} s", answer, "upload")
    c.call("HEAD", path)
    c.same(data, c.call("GET", path), "blob")
    wrong = bytes(total)
    c.call("PUT", "/api/v1/blobs/sha256:" + c.random.randbytes(32).hex(), wrong, OCTETS, expect=(400, 409, 422))
    c.call("DELETE", path, expect=(204,))
    c.call("GET", path, expect=(404,))


def durable(c):
    n, path = c.random.randrange(1, 20_000), f"{T}/{c.own('d')}"
    data = c.random.randbytes(n)
    c.call("PUT", f"{path}?dtype=uint8&shape={n}&durable=true", data, OCTETS, expect=(201,))
    c.same(data, c.call("GET", path, headers={"accept": "application/octet-stream"}), "durable tensor")
    c.call("DELETE", path, expect=(204,))


# ---- models

def multiplies(factor):
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "dims": {"batch": [1, 8]}, "nodes": [row("y", "mul", ["x", factor])], "outputs": ["y"]}


def put_model(models, name, factor, **config):
    """Writes a version of a model and renames it into place, as users should."""
    folder = pathlib.Path(models, name, "1")
    folder.mkdir(parents=True, exist_ok=True)
    if config:
        (folder.parent / "config.json").write_text(json.dumps(config))
    (folder / ".new").write_text(json.dumps(multiplies(factor)))
    os.replace(folder / ".new", folder / "model.json")


def message(*fields):
    """Encodes a protobuf message of (number, value): values are numbers, texts, or messages."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)
    out = b""
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        out += varint(number << 3) + varint(data) if isinstance(data, int) else varint(number << 3 | 2) + varint(len(data)) + data
    return out


def brightest():
    """An ONNX model: the largest byte of an encoded picture."""
    stream = message((1, "data"), (2, message((1, message((1, 2), (2, message((1, b""))))))))
    graph = message((1, message((1, "data"), (2, "p"), (4, "ImageDecoder"))),
                    (1, message((1, "p"), (2, "y"), (4, "ReduceMax"), (5, message((1, "keepdims"), (3, 0), (20, 2))))),
                    (2, "brightest"), (11, stream), (12, message((1, "y"))))
    return message((1, 9), (8, message((2, 20))), (7, graph))


def png(width, height, data):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + data[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def put_alphabet(models):
    """A text model: each letter is followed by the next, and z by a."""
    folder = pathlib.Path(models, "alphabet", "1")
    folder.mkdir(parents=True)
    nodes = [row("next", "add", ["tokens", 1]), row("wrapped", "mod", ["next", 26]), row("hot", "one_hot", ["wrapped"], num_classes=26), row("logits", "cast", ["hot"], dtype="float32")]
    (folder / "model.json").write_text(json.dumps({"inputs": {"tokens": {"dtype": "int32", "shape": ["n"]}}, "dims": {"n": [1, 64]}, "nodes": nodes, "outputs": ["logits"]}))
    (folder / "tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}, "decoder": {"type": "ByteLevel"},
                                                       "model": {"type": "BPE", "vocab": {letter: number for number, letter in enumerate(LETTERS)}, "merges": []}}))


def fill(models, clients):
    put_alphabet(models)
    put_model(models, "steady", 2, dynamic_batching={"max_queue_delay_microseconds": 2000})
    put_model(models, "cached", 3, response_cache={"enable": True})
    put_model(models, "reloaded", 2)
    pathlib.Path(models, "brightest", "1").mkdir(parents=True)
    pathlib.Path(models, "brightest", "1", "model.onnx").write_bytes(brightest())
    for number in range(clients):
        put_model(models, f"mine{number}", 2)


def asked(c, name, expect=(200,)):
    """Returns (request, answer) of one inference, in JSON or binary form."""
    x = [c.random.randrange(50) for _ in range(4)]
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32"}
    if c.random.randrange(2):
        answer = c.call("POST", f"{M}/{name}/infer", {"inputs": [{**tensor, "data": x}]}, expect=expect)
        return x, answer["outputs"][0]["data"] if "outputs" in answer else None
    envelope = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 16}}], "parameters": {"binary_data_output": True}}).encode()
    answer = c.call("POST", f"{M}/{name}/infer", envelope + struct.pack("<4f", *x), {**OCTETS, "inference-header-content-length": str(len(envelope))},
                    expect=expect)
    return x, list(struct.unpack("<4f", answer[-16:])) if isinstance(answer, bytes) else None


def model(c):
    for _ in range(c.random.randrange(1, 8)):
        name, factor = c.random.choice((("steady", 2), ("cached", 3)))
        x, y = asked(c, name)
        c.same([factor * v for v in x], y, name)
    x, y = asked(c, "reloaded", (200, 400, 404, 503))
    if y is not None:
        c.same(True, y in [[f * v for v in x] for f in FACTORS], "an answer of a model that is being loaded")
    c.call("POST", f"{M}/steady/infer", {"inputs": []}, expect=(400,))
    c.call("GET", c.random.choice([f"{M}/steady", f"{M}/steady/config", f"{M}/cached/stats", f"{M}/stats"]))


def text(c):
    """Text continuations in several forms, streamed or not; and invalid requests."""
    starts, count = [c.random.choice(LETTERS) for _ in range(c.random.randrange(1, 4))], c.random.randrange(1, 30)
    want = ["".join(LETTERS[(LETTERS.index(start) + 1 + i) % 26] for i in range(count)) for start in starts]
    asked = {"model": "alphabet", "prompt": starts, "max_tokens": count, "temperature": 0}
    kind = c.random.randrange(5)
    if kind == 0:
        answer = c.call("POST", "/v1/completions", {**asked, "logprobs": c.random.randrange(5), "echo": True})
        c.same([a + b for a, b in zip(starts, want)], [choice["text"] for choice in answer["choices"]], "texts that begin with their prompts")
    elif kind == 1:
        events = c.call("POST", "/v1/completions", {**asked, "stream": True}).split(b"\n\n")
        found = [""] * len(starts)
        for event in events[:-2]:
            for choice in json.loads(event.removeprefix(b"data: "))["choices"]:
                found[choice["index"]] += choice["text"]
        c.same((want, b"data: [DONE]"), (found, events[-2]), "streamed texts")
    elif kind == 2:
        c.same(want, [one["content"] for one in c.call("POST", "/completion", asked)], "texts")
    elif kind == 3:
        answer = c.call("POST", "/v1/chat/completions", {"model": "alphabet", "messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "n": 2, "temperature": 1.5})
        c.same(2, len(answer["choices"]), "texts of one prompt")
    else:
        c.call("POST", "/v1/completions", {**asked, c.random.choice(("grammar", "temprature", "n")): "x"}, expect=(400,))
        c.call("POST", "/v1/completions", {**asked, "prompt": "a" * 100}, expect=(400,))


def picture(c):
    """Pictures of any size, some of them invalid."""
    width, height = c.random.randrange(1, 60), c.random.randrange(1, 60)
    pixels = bytes(c.random.randrange(c.random.randrange(1, 256)) for _ in range(3)) * (width * height)
    file, broken = png(width, height, pixels), c.random.randrange(3) == 0
    if broken:
        file = file[:c.random.randrange(len(file) // 2)]
    parameters = {"inputs": [{"name": "data", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(file) + 4}}]}
    envelope = json.dumps(parameters).encode()
    answer = c.call("POST", M + "/brightest/infer", envelope + struct.pack("<I", len(file)) + file, {**OCTETS, "inference-header-content-length": str(len(envelope))},
                    expect=(400,) if broken else (200,))
    if not broken:
        c.same([max(pixels)], answer["outputs"][0]["data"], "the brightest byte")


def reload(c):
    """Loads with and without another file, unloads, and failing loads, of a model that other clients use and load too.  Models
    of the folder may only be changed by an administrator."""
    at, kind, root = "/v2/repository/models/reloaded", c.random.randrange(5), {"authorization": "Bearer " + c.root}
    if kind == 0:
        c.call("POST", at + "/unload", {}, root)
    elif kind == 1:
        c.call("POST", at + "/load", {"parameters": {"config": "{"}}, root, expect=(400,))
    elif kind == 4:
        c.call("POST", at + "/load", {}, expect=(403,))
        c.call("POST", at + "/unload", {}, expect=(200, 403))
    elif kind == 2:
        text = base64.b64encode(json.dumps(multiplies(c.random.choice(FACTORS))).encode()).decode()
        c.call("POST", at + "/load", {"parameters": {"config": "{}", "file:1/model.json": text}}, expect=(200, 400))  # 400: another client unloaded the model
    else:
        c.call("POST", at + "/load", {}, root, expect=(200, 400))
    c.call("POST", "/v2/repository/index", {})


def changed(c):
    """A file of a model changes: the model is reloaded by polling, or by a signal."""
    name, factor = c.own("mine"), c.random.choice(FACTORS)
    put_model(c.models, name, factor)
    if c.random.randrange(2):
        os.kill(c.pid, signal.SIGHUP)
    until(c, f"the new {name}", lambda: (lambda x, y: y == [factor * v for v in x] and any(x))(*asked(c, name)))


def promoted(c):
    path, name = f"{P}/{c.own('live')}", c.own("promoted")
    grows = {"state": {"n": [0]}, "entries": {"up": {"inputs": {}, "nodes": [row("m", "add", ["n", 1])], "updates": {"n": "m"}, "outputs": ["m"]},
                                              "test": {"inputs": {"x": {"dtype": "float32", "shape": [1]}}, "nodes": [row("y", "mul", ["n", "x"])], "outputs": ["y"]}}}
    c.call("PUT", path, grows, expect=(201,))
    for steps in range(1, c.random.randrange(2, 5)):
        c.call("POST", path + "/run", {"entry": "up"})
        c.call("POST", path + "/promote", {"model": name, "version": 1, "entry": "test"})
        got = c.call("POST", f"{M}/{name}/infer", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [2]}]})
        c.same([2 * steps], got["outputs"][0]["data"], "promoted")
    c.call("DELETE", path, expect=(204,))
    c.call("POST", f"/v2/repository/models/{name}/unload", {})


# ---- keys

def key(c):
    """A key: created, or rotated if it exists, used, and revoked with all its objects."""
    name, root = c.own("key"), {"authorization": "Bearer " + c.root}
    made = c.call("POST", K, {"name": name, "scopes": ["run"], "quotas": {"rate": 1000}}, root, expect=(201, 409))
    secret = (made if "key" in made else c.call("POST", f"{K}/{name}/rotate", None, root))["key"]
    mine = {"authorization": "Bearer " + secret}
    c.call("PUT", f"{T}/k?dtype=uint8&shape=100&durable=true", bytes(100), {**OCTETS, **mine}, expect=(201,))
    c.call("GET", M + "/steady", headers=mine, expect=(403,))
    fresh = {"authorization": "Bearer " + c.call("POST", f"{K}/{name}/rotate", None, root)["key"]}
    c.call("GET", T, headers=mine, expect=(401,))
    c.same(["k"], [t["name"] for t in c.call("GET", T, headers=fresh)["tensors"]], "tensors of a key")
    c.call("DELETE", f"{K}/{name}?purge=true", None, root, expect=(204,))
    c.call("GET", T, headers=fresh, expect=(401,))
    c.call("GET", c.random.choice([K, "/api/v1/usage", "/api/v1/me", "/api/v1/now", "/api/v1/now/history?seconds=9"]), headers=root)


def share(c):
    """A tensor shared with another key, and unshared."""
    name, data = c.own("s"), c.random.randbytes(64)
    c.call("PUT", f"{T}/{name}?dtype=uint8&shape=64", data, OCTETS, expect=(201,))
    there, theirs = f"{T}/{c.key}:{name}", {"authorization": "Bearer " + c.other_secret, "accept": "application/octet-stream"}
    c.call("GET", there, headers=theirs, expect=(404,))
    c.call("POST", "/api/v1/shares", {"tensor": name, "to": c.other_key}, expect=(201,))
    c.same(data, c.call("GET", there, headers=theirs), "shared tensor")
    c.call("DELETE", f"/api/v1/shares?tensor={name}&to={c.other_key}", expect=(204,))
    c.call("GET", there, headers=theirs, expect=(404,))
    c.call("DELETE", f"{T}/{name}", expect=(204,))


MIX = [(job, 3), (sequence, 2), (blob, 3), (durable, 3), (model, 12), (text, 4), (picture, 4), (reload, 3), (changed, 1), (promoted, 1), (key, 2), (share, 3)]


def kept_files(state):
    """Returns the files under |state| that belong to objects of clients."""
    return [str(path) for folder in KEPT_FOLDERS for path in pathlib.Path(state, folder).rglob("*") if path.is_file()]
