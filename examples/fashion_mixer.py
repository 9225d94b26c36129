#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An MLP-Mixer (Tolstikhin et al., arXiv:2105.01601) that tells clothes apart, as one writes it for tinygrad: only the imports differ.

    STEPS=400 examples/fashion_mixer.py
"""
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, TinyJit, nn
from beamline.helpers import getenv, trange
from beamline.nn.datasets import mnist

PATCH, PATCHES, WIDTH, LAYERS = 7, 16, getenv("WIDTH", 64), getenv("LAYERS", 2)
BATCH, STEPS = getenv("BS", 128), getenv("STEPS", 400)


class MLP:
    def __init__(self, size: int, hidden: int):
        self.up, self.down = nn.Linear(size, hidden), nn.Linear(hidden, size)

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).gelu())


class Block:
    """Mixes what stands at each place of all patches, then what stands in each patch."""

    def __init__(self):
        self.norm1, self.patches = nn.LayerNorm(WIDTH), MLP(PATCHES, 2 * PATCHES)
        self.norm2, self.channels = nn.LayerNorm(WIDTH), MLP(WIDTH, 2 * WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        x = (x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)).contiguous()
        return (x + self.channels(self.norm2(x))).contiguous()


class Mixer:
    def __init__(self):
        self.embed, self.blocks = nn.Linear(PATCH * PATCH, WIDTH), [Block() for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = (x.float() / 255).rearrange("b 1 (h p) (w q) -> b (h w) (p q)", p=PATCH, q=PATCH)
        return self.head(self.norm(self.embed(x).contiguous().sequential(self.blocks)).mean(1))


def main():
    local.options(__doc__)
    try:
        X_train, Y_train, X_test, Y_test = mnist(fashion=True)
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    X_test, Y_test = X_test[:getenv("TEST", 2000)], Y_test[:getenv("TEST", 2000)]
    model = Mixer()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=2e-3, weight_decay=0.01)

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        samples = Tensor.randint(BATCH, high=X_train.shape[0])
        loss = model(X_train[samples]).sparse_categorical_crossentropy(Y_train[samples], label_smoothing=0.1).backward()
        return loss.realize(*opt.schedule_step())

    @TinyJit
    def get_test_acc() -> Tensor:
        return (model(X_test).argmax(axis=1) == Y_test).mean() * 100

    for i in (bar := trange(STEPS)):
        loss = train_step()
        if i % 10 == 0 or i == STEPS - 1:
            bar.set_description(f"loss: {loss.item():.3f}")
    print(f"test accuracy {get_test_acc().item():.2f}%")


if __name__ == "__main__":
    main()
