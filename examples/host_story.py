#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Put a small llama with its tokenizer into a folder of models, and have the server write a story with it.

    build/beamline serve --models models &
    examples/host_story.py models             # the server is at $BEAMLINE_URL, or on this machine's port 8470
    curl -sN localhost:8470/v2/models/story/generate_stream -d '{"text_input": "Once upon a time", "max_tokens": 200}'

Then it writes three more at once, which share their runs: beamline_generated_tokens_total by beamline_text_runs_total says how many.

The weights and the vocabulary are those of stories260K, as llama2.c has them: model.safetensors with the names of Meta's
checkpoints, and tok512.bin.  They are looked for in the folder stories260K of $BEAMLINE_DATA and of the user's cache, ~/.cache/beamline/data.
"""
import concurrent.futures
import json
import math
import pathlib
import re
import struct
import sys
import urllib.request

import local  # noqa: F401  # the client beside us, where it is not installed
from beamline.graph import Graph, Node
from beamline.nn.datasets import find_file

HEADS, GROUPS, CONTEXT, CHUNK, ROWS, EPS = 8, 4, 512, 64, 32, 1e-5
PAGE, PAGES = 32, 256  # tokens of a page, as the server has them; pages for all texts
BLANK = "\u2581"  # how SentencePiece writes a blank


def find() -> pathlib.Path:
    """The folder; ends the program where there is none."""
    try:
        return find_file("stories260K/tok512.bin", "https://huggingface.co/karpathy/tinyllamas/tree/main/stories260K, "
                                                   "and the tensors of stories260K.pt beside it as stories260K.safetensors").parent
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")


def shapes(weights: bytes) -> dict:
    """The tensors of a safetensors file and their sizes."""
    header = json.loads(weights[8:8 + int.from_bytes(weights[:8], "little")])
    return {name: row["shape"] for name, row in header.items() if name != "__metadata__"}


# ---- the tokenizer: scores become merges, the best first, as Hugging Face converts a model of SentencePiece

def read_vocabulary(data: bytes) -> tuple[list[str], list[float]]:
    """Pieces and their scores; llama2.c writes a blank as itself, and a line's end around its marks."""
    pieces, scores, at = [], [], 4
    while at < len(data):
        score, size = struct.unpack_from("<fi", data, at)
        pieces.append(data[at + 8:at + 8 + size].decode().replace(" ", BLANK))
        scores.append(score)
        at += 8 + size
    return ["<unk>", "<s>", "</s>", *pieces[3:]], scores


def tokenizer(data: bytes) -> dict:
    pieces, scores = read_vocabulary(data)
    ids = {piece: number for number, piece in enumerate(pieces)}
    joins = [(-scores[number], ids[piece[:cut]], ids[piece[cut:]], piece[:cut], piece[cut:]) for piece, number in ids.items()
             for cut in range(1, len(piece)) if piece[:cut] in ids and piece[cut:] in ids and number > 258]
    marks = [{"id": number, "content": pieces[number], "special": True, "normalized": False} for number in range(3)]
    return {
        "version": "1.0", "added_tokens": marks,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": BLANK},
                                                           {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"},
                                                     {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": ids,
                  "merges": [[left, right] for *_, left, right in sorted(joins)]}}


# ---- the program: of each text tokens and the position of the first go in, logits of the last token come out.  Keys and values are
# state in pages of 32 tokens; the server says which page and place each token has, and which pages a text has (docs/models.md)

class Llama:
    def __init__(self, sizes: dict):
        self.graph = Graph()
        self.layers = sum(name.endswith("attention_norm.weight") for name in sizes)
        self.width = sizes["norm.weight"][0]
        self.size = self.width // HEADS

    def weight(self, name):
        """A tensor of the file, which is a state without being declared."""
        return Node(self.graph, name)

    def linear(self, x, name):
        return x @ self.weight(f"{name}.weight").transpose()

    def norm(self, x, name):
        return x.rms_norm(self.weight(f"{name}.weight"), eps=EPS)

    def turn(self, x, heads):
        """[rows, tokens, heads * size] as [rows, heads, tokens, size], turned by their places, pair by pair."""
        pairs = x.reshape(["rows", "n", heads, self.size // 2, 2])
        a, b = pairs[..., 0], pairs[..., 1]
        turned = self.graph.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], axis=-1)
        return turned.reshape(["rows", "n", heads, self.size]).permute([0, 2, 1, 3])

    def store(self, name, new, order):
        """The state |name| with |new| [rows, n, GROUPS, size] at the places of the tokens; |order| has its axes of pages and of
        tokens in a page first."""
        moved = Node(self.graph, name).permute(order)
        flat = moved.reshape([PAGES * PAGE, GROUPS, self.size])
        put = self.graph.index_put(flat, new.reshape([-1, GROUPS, self.size]), [self.slots])
        state = put.reshape([PAGES, PAGE, GROUPS, self.size]).permute([order.index(axis) for axis in range(4)])
        self.updates[name] = state
        return state

    def attention(self, x, layer):
        """A softmax over the places of the text's pages.  Those behind a token, where anything may be, are not looked at."""
        g, name = self.graph, f"layers.{layer}.attention"
        q = self.turn(self.linear(x, f"{name}.wq"), HEADS).reshape(["rows", GROUPS, -1, "n", self.size, 1, 1]) * self.size ** -0.5
        k = self.turn(self.linear(x, f"{name}.wk"), GROUPS).permute([0, 2, 1, 3])
        v = self.linear(x, f"{name}.wv").reshape(["rows", "n", GROUPS, self.size])
        keys = self.store(f"keys.{layer}", k, [0, 3, 1, 2]).take(self.table)      # [rows, pages, groups, size, 32]
        values = self.store(f"values.{layer}", v, [0, 2, 1, 3]).take(self.table)  # [rows, pages, groups, 32, size]
        keys = keys.permute([0, 2, 3, 1, 4]).reshape(["rows", GROUPS, 1, 1, self.size, "pages", PAGE])
        values = g.where(self.is_there, values.permute([0, 2, 1, 3, 4]).reshape(["rows", GROUPS, 1, 1, "pages", PAGE, self.size]), 0)
        scores = g.where(self.is_behind, (q * keys).sum(axis=4), -1e30)
        weights = (scores - scores.max(axis=[4, 5], keepdim=True)).exp()
        weights = weights / weights.sum(axis=[4, 5], keepdim=True)
        y = (weights.reshape(["rows", GROUPS, -1, "n", "pages", PAGE, 1]) * values).sum(axis=[4, 5])
        return self.linear(y.permute([0, 3, 1, 2, 4]).reshape(["rows", "n", self.width]), f"{name}.wo")

    def feed_forward(self, x, layer):
        name = f"layers.{layer}.feed_forward"
        return self.linear(self.linear(x, f"{name}.w1").silu() * self.linear(x, f"{name}.w3"), f"{name}.w2")

    def build(self, rows) -> dict:
        g, self.updates = self.graph, {}
        g.dim("rows", 1, rows)
        g.dim("n", 1, CHUNK)
        g.dim("pages", 1, CONTEXT // PAGE)
        tokens, position = g.input("tokens", ["rows", "n"], "int32"), g.input("position", ["rows"], "int32")
        self.slots, self.table = g.input("slots", ["rows", "n"], "int32").reshape([-1]), g.input("table", ["rows", "pages"], "int32")
        place = g.arange(stop="n", dtype="int32") + position.reshape(["rows", 1])
        turns = (g.arange(stop=self.size // 2, dtype="float32") * (-math.log(10000) * 2 / self.size)).exp()
        angles = place.reshape(["rows", "n", 1, 1]).cast("float32") * turns
        self.cos, self.sin = angles.cos().contiguous(), angles.sin().contiguous()  # once for all layers
        places = g.arange(stop="pages", dtype="int32").reshape(["pages", 1]) * PAGE + g.arange(stop=PAGE, dtype="int32")
        last = place.slice(start=[0, "n - 1"])
        self.is_there = places.reshape(["pages", PAGE, 1]) <= last.reshape(["rows", 1, 1, 1, 1, 1, 1])
        self.is_behind = places <= place.reshape(["rows", 1, 1, "n", 1, 1])
        x = self.weight("tok_embeddings.weight").take(tokens)
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"layers.{layer}.attention_norm"), layer)
            x = x + self.feed_forward(self.norm(x, f"layers.{layer}.ffn_norm"), layer)
        x = self.norm(x, "norm").slice(start=[0, "n - 1"]).reshape(["rows", self.width])
        g.output(logits=x @ self.weight("tok_embeddings.weight").transpose())
        g.update(self.updates)
        shape = {"keys": [PAGES, GROUPS, self.size, PAGE], "values": [PAGES, GROUPS, PAGE, self.size]}
        state = {name: {"dtype": "float32", "shape": shape[name.split(".")[0]]} for name in self.updates}
        return {"dims": g.dims, "state": state, **g.entry()}


def write(models: pathlib.Path, data: pathlib.Path, name="story", rows=ROWS):
    """The model as it is hosted; |rows| texts at the most share a run."""
    weights = (data / "stories260K.safetensors").read_bytes()
    folder = models / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "model.json").write_text(json.dumps(Llama(shapes(weights)).build(rows)))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer((data / "tok512.bin").read_bytes())))
    (folder.parent / "config.json").write_text(json.dumps({"parameters": {"context": {"string_value": str(CONTEXT)}}}))


def call(path, document):
    request = urllib.request.Request(local.url() + path, json.dumps(document).encode(), {"content-type": "application/json"}, method="POST")
    return urllib.request.urlopen(request)


def tell(begin, tokens) -> str:
    with call("/v2/models/story/generate", {"text_input": begin, "max_tokens": tokens, "ignore_eos": True}) as answer:
        return json.load(answer)["text_output"]


def measured() -> list[float]:
    """Tokens that the server wrote, and runs that it took."""
    with urllib.request.urlopen(local.url() + "/metrics") as answer:
        text = answer.read().decode()
    return [float(re.search(rf"^beamline_{name} (\S+)$", text, re.M)[1]) for name in ("generated_tokens_total", "text_runs_total")]


def main():
    options = local.options(__doc__, ("folder", {"nargs": "?", "default": "models", "help": "of models (default: models)"}))
    write(pathlib.Path(options.folder), find())
    call("/v2/repository/models/story/load", {}).close()
    with call("/v2/models/story/generate_stream", {"text_input": "", "max_tokens": 200}) as events:
        for line in events:
            if line.startswith(b"data: "):
                print(json.loads(line[6:])["text_output"], end="", flush=True)
    print()
    begins = ("Lily", "The dog", "One day")
    before = measured()
    with concurrent.futures.ThreadPoolExecutor(len(begins)) as pool:
        for text in pool.map(lambda begin: tell(begin, 60), begins):
            print("*", text.replace("\n", " "))
    tokens, runs = (now - then for now, then in zip(measured(), before))
    print(f"{tokens:.0f} tokens in {runs:.0f} runs")


if __name__ == "__main__":
    main()
