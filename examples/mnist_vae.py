#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A variational autoencoder of handwritten digits, as one writes it for tinygrad: only the imports differ.

    STEPS=1500 examples/mnist_vae.py

Learns to write digits from 16 numbers each, and prints some that nobody wrote.
"""
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, TinyJit, nn
from beamline.helpers import getenv, trange
from beamline.nn.datasets import mnist

HIDDEN, LATENT, BATCH, STEPS = getenv("HIDDEN", 256), 16, getenv("BS", 128), getenv("STEPS", 1500)
INK = " .:-=+*#%@"


class VAE:
    def __init__(self):
        self.encode1, self.encode2 = nn.Linear(784, HIDDEN), nn.Linear(HIDDEN, 2 * LATENT)
        self.decode1, self.decode2 = nn.Linear(LATENT, HIDDEN), nn.Linear(HIDDEN, 784)

    def encode(self, x: Tensor) -> tuple:
        """(mean, logarithm of the variance) of what stands for each image"""
        return self.encode2(self.encode1(x).relu()).chunk(2, dim=-1)

    def decode(self, z: Tensor) -> Tensor:
        """Logits of the pixels."""
        return self.decode2(self.decode1(z).relu())

    def loss(self, x: Tensor) -> Tensor:
        """What is to be told of an image, in nats: how it differs from what is decoded, and the code itself."""
        mean, log_variance = self.encode(x)
        pixels = self.decode(mean + (log_variance * 0.5).exp() * Tensor.randn(*mean.shape))
        difference = pixels.binary_crossentropy_logits(x, reduction="none").sum(-1)
        code = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return (difference + code).mean()


def draw(images: list) -> str:
    """Images (n, 28, 28) between 0 and 1 side by side, every second row."""
    return "\n".join(" ".join("".join(INK[min(int(pixel * len(INK)), len(INK) - 1)] for pixel in image[row]) for image in images)
                     for row in range(0, 28, 2))


def main():
    local.options(__doc__)
    try:
        X_train, _, X_test, _ = mnist()
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    model = VAE()
    opt = nn.optim.Adam(nn.state.get_parameters(model), lr=1e-3)

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        samples = Tensor.randint(BATCH, high=X_train.shape[0])
        loss = model.loss(X_train[samples].flatten(1) / 255).backward()
        return loss.realize(*opt.schedule_step())

    @TinyJit
    def write() -> Tensor:
        return model.decode(Tensor.randn(5, LATENT)).sigmoid().reshape(5, 28, 28)

    for i in (bar := trange(STEPS)):
        loss = train_step()
        if i % 20 == 0 or i == STEPS - 1:
            bar.set_description(f"loss: {loss.item():.1f}")
    print(draw(write().tolist()))
    print(f"test loss {model.loss(X_test[:2000].flatten(1) / 255).item():.1f} nats")


if __name__ == "__main__":
    main()
