#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An LSTM that learns to make up first names, letter by letter, as one writes it for tinygrad: only the imports differ.

    STEPS=1500 examples/names_lstm.py

names.txt, a name a line, is looked for in $BEAMLINE_DATA/text and in the user's cache, ~/.cache/beamline/data/text.
"""
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, TinyJit, dtypes, nn
from beamline.helpers import getenv, trange
from beamline.nn.datasets import find_file

LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # the first one ends a name, and comes before it
LENGTH, WIDTH, HIDDEN, BATCH, STEPS = getenv("LENGTH", 12), getenv("WIDTH", 24), getenv("HIDDEN", 96), getenv("BS", 64), getenv("STEPS", 1500)


def load() -> list:
    """The names that are not too long, as lists of places in the alphabet; ends the program where there are none."""
    try:
        words = find_file("text/names.txt", "https://raw.githubusercontent.com/karpathy/makemore/master/names.txt").read_text().lower().split()
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    return [[LETTERS.index(letter) for letter in word] for word in words if len(word) < LENGTH and set(word) <= set(LETTERS)]


class Model:
    """One LSTM layer.  Gates and states have memory of their own, so that all steps are made of the same few kernels."""

    def __init__(self):
        self.letters, self.head = nn.Embedding(len(LETTERS), WIDTH), nn.Linear(HIDDEN, len(LETTERS))
        self.inside, self.before = nn.Linear(WIDTH, 4 * HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)

    def start(self, batch: int) -> tuple:
        return Tensor.zeros(batch, HIDDEN).contiguous(), Tensor.zeros(batch, HIDDEN).contiguous()

    def step(self, inside: Tensor, h: Tensor, c: Tensor) -> tuple:
        i, f, g, o = (inside + self.before(h)).contiguous().chunk(4, dim=1)
        c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()
        return (o.sigmoid() * c.tanh()).contiguous(), c

    def loss(self, x: Tensor) -> Tensor:
        """Of names (batch, 1 + length), each letter from those before it; those behind the end do not count."""
        inside, (h, c), seen = self.inside(self.letters(x[:, :-1])).contiguous(), self.start(x.shape[0]), []
        for i in range(x.shape[1] - 1):
            h, c = self.step(inside[:, i], h, c)
            seen.append(h)
        logits = self.head(Tensor.stack(*seen, dim=1)).transpose(1, 2)
        y, counted = x[:, 1:], (x[:, 1:] != 0) | (x[:, :-1] != 0)
        return (counted * logits.cross_entropy(y, reduction="none")).sum() / counted.sum()


def main():
    local.options(__doc__)
    names = load()
    data = Tensor([[0] + name + [0] * (LENGTH - len(name)) for name in names], dtype=dtypes.int32).realize()
    model = Model()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=3e-3)

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        loss = model.loss(data[Tensor.randint(BATCH, high=len(names))]).backward()
        return loss.realize(*opt.schedule_step())

    @TinyJit
    def next_letters(letters: Tensor, h: Tensor, c: Tensor) -> tuple:
        h, c = model.step(model.inside(model.letters(letters)), h, c)
        logits = model.head(h)
        return (logits - Tensor.rand(*logits.shape).clamp(1e-9, 1).log().neg().log()).argmax(1), h, c

    for i in (bar := trange(STEPS)):
        loss = train_step()
        if i % 20 == 0 or i == STEPS - 1:
            bar.set_description(f"loss: {loss.item():.3f}")
    letters, (h, c) = Tensor([0] * 10, dtype=dtypes.int32), model.start(10)
    made = [""] * 10
    for _ in range(LENGTH):
        letters, h, c = next_letters(letters, h, c)
        made = [name + LETTERS[place] for name, place in zip(made, letters.tolist())]
    print(" ".join(name.partition(".")[0].capitalize() for name in made))


if __name__ == "__main__":
    main()
