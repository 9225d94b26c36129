#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small transformer that learns to write like Shakespeare, letter by letter, as one writes it for tinygrad.

    STEPS=500 examples/shakespeare.py

tinyshakespeare.txt is looked for in $BEAMLINE_DATA/text and in the user's cache, ~/.cache/beamline/data/text.
"""
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, TinyJit, dtypes, nn
from beamline.helpers import getenv, trange
from beamline.nn.datasets import find_file

BLOCK, WIDTH, HEADS, LAYERS = getenv("BLOCK", 64), getenv("WIDTH", 64), 4, getenv("LAYERS", 2)
BATCH, STEPS = getenv("BS", 16), getenv("STEPS", 500)


def load() -> bytes:
    """The text; ends the program where there is none."""
    try:
        return find_file("text/tinyshakespeare.txt", "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt").read_bytes()
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")


class Attention:
    def __init__(self):
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        q, k, v = (each.reshape(x.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        return self.out(q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(x.shape))


class Block:
    def __init__(self):
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer:
    def __init__(self, letters: int):
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks, self.norm, self.head = [Block() for _ in range(LAYERS)], nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.letters(x) + self.places(Tensor.arange(x.shape[1]))
        return self.head(self.norm(x.sequential(self.blocks)))


def main():
    local.options(__doc__)
    text = load()
    alphabet = sorted(set(text))
    data = Tensor([alphabet.index(byte) for byte in text], dtype=dtypes.uint8).realize()
    model = Transformer(len(alphabet))
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=1e-3)

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        starts = Tensor.randint(BATCH, 1, high=len(text) - BLOCK - 1)
        part = data[starts + Tensor.arange(BLOCK + 1)]
        x, y = part[:, :-1].cast(dtypes.int32), part[:, 1:].cast(dtypes.int32)
        loss = model(x).flatten(0, 1).sparse_categorical_crossentropy(y.flatten()).backward()
        return loss.realize(*opt.schedule_step())

    @TinyJit
    def next_letter(seen: Tensor) -> Tensor:
        return (model(seen)[0, -1] - Tensor.rand(len(alphabet)).clamp(1e-9, 1).log().neg().log()).argmax()

    for _ in (bar := trange(STEPS)):
        bar.set_description(f"loss: {train_step().item():.3f}")
    written = [alphabet.index(10)] * BLOCK
    for _ in range(getenv("LETTERS", 200)):
        written.append(next_letter(Tensor([written[-BLOCK:]], dtype=dtypes.int32)).item())
    print(bytes(alphabet[each] for each in written[BLOCK:]).decode())


if __name__ == "__main__":
    main()
