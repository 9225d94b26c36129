#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A llama from a GGUF file tells a story, token by token, as one writes it for tinygrad: only the imports differ.

    TOKENS=200 TEMPERATURE=0.8 examples/stories.py [FILE.gguf]

The place of a token is a Variable, so that one captured program with a cache serves them all.  Without a file,
stories260K/stories260K-f32.gguf is looked for in $BEAMLINE_DATA and in the user's cache, ~/.cache/beamline/data.
"""
import pathlib
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, TinyJit, Variable, dtypes
from beamline.helpers import getenv
from beamline.nn.datasets import find_file
from beamline.nn.state import gguf_load



def find(file: str | None) -> pathlib.Path:
    """The file; ends the program where there is none."""
    if file:
        return pathlib.Path(file)
    try:
        return find_file("stories260K/stories260K-f32.gguf", "https://huggingface.co/karpathy/tinyllamas/tree/main/stories260K, as GGUF of float32, "
                                                             "or name another llama's file")
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")


class Llama:
    def __init__(self, path: pathlib.Path, most: int):
        about, self.weights = gguf_load(path)
        self.words, self.first = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.bos_token_id"]
        self.layers, self.heads = about["llama.block_count"], about["llama.attention.head_count"]
        self.groups, self.eps = about["llama.attention.head_count_kv"], about["llama.attention.layer_norm_rms_epsilon"]
        self.size, self.most = about["llama.embedding_length"] // self.heads, min(most, about["llama.context_length"])
        Tensor.realize(*self.weights.values())
        self.cache = [Tensor.zeros(2, self.most, self.groups, self.size).contiguous().realize() for _ in range(self.layers)]
        angles = Tensor.arange(self.most).reshape(-1, 1) * 10000.0 ** -(Tensor.arange(0, self.size, 2) / self.size)
        self.cos, self.sin = angles.cos().realize(), angles.sin().realize()

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weights[f"{name}_norm.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weights[f"{name}.weight"].T

    def turn(self, x: Tensor, place: Variable) -> Tensor:
        """Heads (heads, size) turned by their place, pair by pair."""
        a, b = x.reshape(-1, self.size // 2, 2).permute(2, 0, 1).chunk(2)
        cos, sin = self.cos[place], self.sin[place]
        return (a * cos - b * sin).stack(a * sin + b * cos, dim=-1).reshape(-1, self.size)

    def attention(self, x: Tensor, place: Variable, layer: int) -> Tensor:
        q, k, v = (self.linear(x, f"blk.{layer}.attn_{each}").reshape(-1, self.size) for each in "qkv")
        self.cache[layer][:, place:place + 1] = self.turn(k, place).stack(v).unsqueeze(1)
        keys, values = self.cache[layer][:, :place + 1].repeat_interleave(self.heads // self.groups, dim=2).transpose(1, 2).chunk(2)
        q = self.turn(q, place).reshape(self.heads, 1, self.size)
        return self.linear(q.scaled_dot_product_attention(keys[0], values[0]).flatten(), f"blk.{layer}.attn_output")

    def __call__(self, token: Tensor, place: Variable) -> Tensor:
        """Logits of the token behind the one at a place."""
        x = self.weights["token_embd.weight"][token].flatten()
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{layer}.attn"), place, layer)
            y, block = self.norm(x, f"blk.{layer}.ffn"), f"blk.{layer}.ffn"
            x = (x + self.linear(self.linear(y, f"{block}_gate").silu() * self.linear(y, f"{block}_up"), f"{block}_down")).contiguous()
        return self.linear(self.norm(x, "output"), "output" if "output.weight" in self.weights else "token_embd")


def main():
    options = local.options(__doc__, ("file", {"nargs": "?", "metavar": "FILE.gguf"}))
    count, temperature = getenv("TOKENS", 200), getenv("TEMPERATURE", 0.0)
    model = Llama(find(options.file), count)

    @TinyJit
    def step(token: Tensor, place: Variable) -> Tensor:
        logits = model(token, place)
        if temperature > 0:
            logits = logits / temperature - Tensor.rand(*logits.shape).clamp(1e-9, 1).log().neg().log()
        return logits.argmax().reshape(1)

    token, seen = Tensor([model.first], dtype=dtypes.int32), [model.first]
    for i in range(model.most - 1):
        token = step(token, Variable("place", 0, model.most - 1).bind(i))
        seen.append(token.item())
        if seen[-1] == model.first:
            break
        word = model.words[seen[-1]]
        print(chr(int(word[3:-1], 16)) if word.startswith("<0x") else word.replace("\u2581", " "), end="", flush=True)
    print()
    if getenv("SHOW_TOKENS"):
        print(seen)
    print(f"{len(seen) - 1} tokens, {len(step.captures)} program", file=sys.stderr)


if __name__ == "__main__":
    main()
