#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A convolutional classifier of handwritten digits, as one writes it for tinygrad: only the imports differ.

    STEPS=70 BS=512 examples/beautiful_mnist.py
"""
import sys
from typing import Callable, List

import local  # before beamline: it finds the client
from beamline import GlobalCounters, Tensor, TinyJit, nn
from beamline.helpers import getenv, trange
from beamline.nn.datasets import mnist


class Model:
    def __init__(self):
        self.layers: List[Callable[[Tensor], Tensor]] = [
            nn.Conv2d(1, 32, 5), Tensor.relu,
            nn.Conv2d(32, 32, 5), Tensor.relu,
            nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu,
            nn.Conv2d(64, 64, 3), Tensor.relu,
            nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10)]

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.layers)


def main():
    local.options(__doc__)
    try:
        X_train, Y_train, X_test, Y_test = mnist(fashion=bool(getenv("FASHION")))
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    X_test, Y_test = X_test[:getenv("TEST", 10000)], Y_test[:getenv("TEST", 10000)]

    model = Model()
    opt = (nn.optim.Muon if getenv("MUON") else nn.optim.SGD if getenv("SGD") else nn.optim.Adam)(nn.state.get_parameters(model))

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        samples = Tensor.randint(getenv("BS", 512), high=X_train.shape[0])
        loss = model(X_train[samples]).sparse_categorical_crossentropy(Y_train[samples]).backward()
        return loss.realize(*opt.schedule_step())

    @TinyJit
    def get_test_acc() -> Tensor:
        return (model(X_test).argmax(axis=1) == Y_test).mean() * 100

    test_acc = float("nan")
    for i in (t := trange(getenv("STEPS", 70))):
        GlobalCounters.reset()
        loss = train_step()
        if i % 10 == 9 or i == getenv("STEPS", 70) - 1:
            test_acc = get_test_acc().item()
        t.set_description(f"loss: {loss.item():6.2f} test_accuracy: {test_acc:5.2f}%")
    print(f"test accuracy {test_acc:.2f}%")


if __name__ == "__main__":
    main()
