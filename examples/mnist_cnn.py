#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small convolutional network on handwritten digits: 98% of the test images within 1,000 steps.

    examples/mnist_cnn.py [--url http://127.0.0.1:8470] [--device vulkan:0] [--curve curve.svg]
"""
import training
from training import beamline

BATCH = 64


def start(shape, fan_in, seed):
    """How PyTorch starts the weight or bias of Linear and Conv2d."""
    return beamline.Init("scaled_uniform", shape=shape, fan_in=fan_in, seed=seed)


PARAMETERS = {
    "conv1.weight": start([32, 1, 3, 3], 9, 1),
    "conv1.bias": start([32], 9, 2),
    "conv2.weight": start([64, 32, 3, 3], 288, 3),
    "conv2.bias": start([64], 288, 4),
    "fc.weight": start([10, 1600], 1600, 5),
    "fc.bias": start([10], 1600, 6),
}


def model(g, x, training):
    for name in ("conv1", "conv2"):
        x = x.conv2d(g.state(f"{name}.weight"), g.state(f"{name}.bias")).relu().max_pool2d(2)
    x = x.flatten(1)
    if training:
        x = x.dropout(0.5)
    return x.linear(g.state("fc.weight"), g.state("fc.bias"))


def optimise(g, loss, parameters):
    return loss.adam(parameters, lr=0.002, name="adam")


if __name__ == "__main__":
    training.main("MNIST CNN", model, PARAMETERS, optimise, steps=1000, batch=BATCH)
