#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first step of eager training: three residual blocks, 8 pictures of 32 x 32, SGD, on the server at $BEAMLINE_URL.

Prints the seconds from the pictures to the loss, and the loss.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients" / "python"))
from beamline import Tensor, nn  # noqa: E402


class Block:
    def __init__(self, channels, out, stride):
        self.first, self.first_norm = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(out)
        self.second, self.second_norm = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = [] if stride == 1 else [nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)]

    def __call__(self, x):
        y = self.second_norm(self.second(self.first_norm(self.first(x)).relu()))
        return (y + x.sequential(self.shortcut)).relu()


class Net:
    def __init__(self):
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.blocks = [Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
        self.head = nn.Linear(64, 10)

    def __call__(self, x):
        return self.head(self.norm(self.stem(x)).relu().sequential(self.blocks).mean((2, 3)))


def main():
    Tensor.manual_seed(1)
    x, y = Tensor.randn(8, 3, 32, 32).realize(), Tensor.randint(8, high=10).realize()
    begin = time.perf_counter()
    net = Net()
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1, momentum=0.9)
    with Tensor.train():
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        optimizer.step()
    print(loss.item(), time.perf_counter() - begin)


if __name__ == "__main__":
    main()
