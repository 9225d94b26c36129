# SPDX-License-Identifier: MIT
"""The part of PyTorch that bench/torch_worker.py needs for small softmax and transpose shapes, in plain Python.

With BEAMLINE_STAND_IN=wrong, softmax returns a wrong first element; with fails, it raises RuntimeError.
"""
import array
import contextlib
import itertools
import math
import os
import types

__version__ = "2.9.0+stand.in"
HOW = os.environ.get("BEAMLINE_STAND_IN")
float32, int64 = "f", "q"


class Tensor:
    """Numbers in row-major order."""

    def __init__(self, data, shape):
        self.data, self.shape = data, shape

    def map(self, function, other=None):
        others = other.data if isinstance(other, Tensor) else [other] * len(self.data)
        return Tensor([function(a, b) for a, b in zip(self.data, others)], self.shape)

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], (list, tuple)) else shape
        return Tensor(self.data, [len(self.data)] if list(shape) == [-1] else list(shape))

    def permute(self, axes):
        strides = [math.prod(self.shape[axis + 1:]) for axis in range(len(self.shape))]
        shape = [self.shape[axis] for axis in axes]
        return Tensor([self.data[sum(place * strides[axis] for place, axis in zip(index, axes))] for index in itertools.product(*map(range, shape))], shape)

    def contiguous(self):
        return self

    def numel(self):
        return len(self.data)

    def abs(self):
        return self.map(lambda a, _: abs(a))

    def mean(self):
        return sum(self.data) / len(self.data)

    def sum(self):
        return sum(self.data)

    def max(self):
        return max(self.data)

    def __add__(self, other):
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other):
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, other):
        return self.map(lambda a, b: a * b, other)

    def __truediv__(self, other):
        return self.map(lambda a, b: a / b, other)

    def __le__(self, other):
        return self.map(lambda a, b: a <= b, other)

    __rmul__ = __mul__


def frombuffer(buffer, dtype):
    values = array.array(dtype, bytes(buffer))
    return Tensor(list(values), [len(values)])


def softmax(x, axis):
    if HOW == "fails":
        raise RuntimeError("softmax fails")
    inner, size, data = math.prod(x.shape[axis + 1:]), x.shape[axis], [0.0] * len(x.data)
    for start in range(len(data)):
        if start // inner % size == 0:
            places = [start + i * inner for i in range(size)]
            total = sum(math.exp(x.data[place]) for place in places)
            for place in places:
                data[place] = math.exp(x.data[place]) / total
    data[0] += HOW == "wrong"
    return Tensor(data, x.shape)


def log_softmax(x, axis):
    return softmax(x, axis).map(lambda a, _: math.log(a))


def manual_seed(_):
    pass


def get_num_threads():
    return 1


def compile(function, dynamic):
    return function


@contextlib.contextmanager
def no_grad():
    yield


def set_grad_enabled(_):
    return no_grad()


compiler = types.SimpleNamespace(reset=lambda: None)
nn = types.SimpleNamespace(Module=object, functional=None)
