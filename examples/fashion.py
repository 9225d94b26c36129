#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clothes by a network of two layers, with a Learner: every epoch is drawn and computed on the server.

    EPOCHS=5 examples/fashion.py
"""
import sys

import local  # before beamline: it finds the client
from beamline import Tensor, nn
from beamline.helpers import getenv
from beamline.nn.datasets import mnist
from beamline.train import DataLoader, Learner


class Model:
    def __init__(self):
        self.l1, self.l2 = nn.Linear(784, 128), nn.Linear(128, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.l2(self.l1(x.flatten(1)).relu())


def scale(x: Tensor, y: Tensor):
    return x.float() / 255, y


def main():
    local.options(__doc__)
    try:
        X_train, Y_train, X_test, Y_test = mnist(fashion=True)
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    train = DataLoader(X_train, Y_train, batch_size=128, transform=scale)
    test = DataLoader(X_test, Y_test, batch_size=1000, transform=scale)
    learner = Learner(Model(), train, test, metrics=["accuracy"])
    last = learner.fit(getenv("EPOCHS", 5))[-1]
    print(f"test accuracy {100 * last['accuracy']:.2f}%")


if __name__ == "__main__":
    main()
