#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a network of two layers, 784-128-10, on handwritten digits.

    examples/mnist_mlp.py [--url http://127.0.0.1:8470] [--device vulkan:0] [--curve curve.svg]
"""
import training
from training import beamline

BATCH = 128


def start(shape, fan_in, seed):
    """How PyTorch starts the weight or bias of Linear."""
    return beamline.Init("scaled_uniform", shape=shape, fan_in=fan_in, seed=seed)


PARAMETERS = {
    "fc1.weight": start([128, 784], 784, 1),
    "fc1.bias": start([128], 784, 2),
    "fc2.weight": start([10, 128], 128, 3),
    "fc2.bias": start([10], 128, 4),
}


def model(g, x, training):
    x = x.flatten(1).linear(g.state("fc1.weight"), g.state("fc1.bias")).relu()
    return x.linear(g.state("fc2.weight"), g.state("fc2.bias"))


def optimise(g, loss, parameters):
    return loss.sgd(parameters, lr=0.1, momentum=0.9, name="sgd")


if __name__ == "__main__":
    training.main("MNIST MLP", model, PARAMETERS, optimise, steps=2000, batch=BATCH)
