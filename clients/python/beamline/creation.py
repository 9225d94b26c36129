# SPDX-License-Identifier: MIT
"""Tensors out of nothing, and random ones."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .base import Base, ShapeError, argfix, as_number, ceildiv
from .device import Device
from .dtype import dtypes, to_dtype
from .expr import Expr, Seeds
from .symbolic import Symbolic, is_known

if TYPE_CHECKING:
    from .tensor import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


class CreationMixin(Base):
    """Class methods that make Tensors.  Keywords that all of them take: device, dtype and requires_grad."""

    __slots__ = ()

    @classmethod
    def _make(cls, op: str, shape: tuple, dtype=None, device=None, requires_grad=None, attrs: tuple = ()) -> Tensor:
        dtype = to_dtype(dtype) if dtype is not None else dtypes.default_float
        tensor = cls._wrap(Expr(op, (), (*attrs, ("dtype", dtype.name)), shape, dtype, Device.canonicalize(device)))
        tensor.requires_grad = requires_grad
        return tensor

    @classmethod
    def full(cls, shape, fill_value, dtype=None, device=None, requires_grad=None, buffer=True) -> Tensor:
        """Every element |fill_value|."""
        shape = _sizes(argfix(shape))
        number = as_number(fill_value)
        if number is None:
            raise TypeError(f"fill_value is a number, not {type(fill_value).__name__}")
        dtype = to_dtype(dtype) if dtype is not None else dtypes.from_py(number)
        if isinstance(number, Symbolic):
            wide = dtypes.default_int if dtype is dtypes.bool else dtype
            return cls._make("full", shape, wide, device, requires_grad, (("shape", shape), ("value", number))).cast(dtype)
        if not dtypes.is_float(dtype):
            if dtype is not dtypes.bool and isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"{number} as {dtype}")
            number = int(bool(number)) if dtype is dtypes.bool else int(number)
        else:
            number = float(number)
        return cls._make("full", shape, dtype, device, requires_grad, (("shape", shape), ("value", number)))

    @classmethod
    def const(cls, value, dtype=None) -> Tensor:
        """A number as a Tensor of shape ()."""
        return cls.full((), value, dtype=dtype)

    @classmethod
    def zeros(cls, *shape, **kwargs) -> Tensor:
        """Zeros."""
        return cls.full(argfix(*shape), 0.0, **{"dtype": dtypes.default_float, **kwargs})

    @classmethod
    def ones(cls, *shape, **kwargs) -> Tensor:
        """Ones."""
        return cls.full(argfix(*shape), 1.0, **{"dtype": dtypes.default_float, **kwargs})

    @classmethod
    def empty(cls, *shape, device=None, dtype=None, requires_grad=None) -> Tensor:
        """Whatever is there; here, zeros."""
        return cls.zeros(*shape, dtype=dtype or dtypes.default_float, device=device, requires_grad=requires_grad)

    @classmethod
    def arange(cls, start, stop=None, step=1, **kwargs) -> Tensor:
        """start, start + step, ... below stop; of one number, from 0 below it."""
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise ValueError("arange step cannot be 0")
        dtype = kwargs.pop("dtype", None)
        if any(isinstance(x, Symbolic) for x in (start, stop, step)):
            return cls._named_range(start, stop, step, to_dtype(dtype) if dtype is not None else dtypes.default_int, kwargs)
        fractions = any(isinstance(x, float) for x in (start, stop, step))
        if dtype is None:
            whole = dtypes.default_int if max(abs(start), abs(stop)) < 1 << 31 else dtypes.int64
            dtype = dtypes.default_float if fractions else whole
        dtype = to_dtype(dtype)
        count = max(0, math.ceil((stop - start) / step) if fractions else ceildiv(stop - start, step))
        if not count:
            return cls.zeros(0, dtype=dtype, **kwargs)
        last = start + (count - 1) * step
        if not dtypes.is_float(dtype) and not dtype.min <= min(start, last) <= max(start, last) <= dtype.max:
            raise ValueError(f"arange from {start} to {last} is beyond {dtype}; its numbers must be from {dtype.min} to {dtype.max}: name a wider dtype")
        if all(isinstance(x, int) for x in (start, step)):
            attrs = (("start", start), ("stop", start + count * step), ("step", step))
            return cls._make("arange", (count,), dtype, attrs=attrs, **kwargs)
        ramp = cls._make("arange", (count,), dtypes.default_float, attrs=(("stop", count),), **kwargs)
        return (ramp * float(step) + float(start)).cast(dtype)

    @classmethod
    def _named_range(cls, start, stop, step, dtype, kwargs: dict) -> Tensor:
        """arange where Variables are in the ends; there is something of it, or nothing, whatever they are bound to."""
        if not isinstance(step, int) or any(isinstance(x, float) for x in (start, stop)):
            raise TypeError(f"arange from {start!r} to {stop!r} by {step!r} takes whole numbers")
        if not is_known(start, stop) if step > 0 else not is_known(stop, start):
            return cls.arange(int(start), int(stop), step, dtype=dtype, **kwargs)  # with the values that the Variables are bound to
        count = ceildiv(stop - start, step)
        if dtypes.is_int(dtype) and not all(is_known(dtypes.min(dtype), each) and is_known(each, dtypes.max(dtype)) for each in (start, start + (count - 1) * step)):
            raise ValueError(f"arange from {start!r} to {stop!r} by {step} is beyond {dtype} for some values of its Variables: name a wider dtype")
        return cls._make("arange", (count,), dtype, attrs=(("start", start), ("stop", start + count * step), ("step", step)),
                         **kwargs)

    @classmethod
    def linspace(cls, start, stop, steps: int, **kwargs) -> Tensor:
        """|steps| numbers from start to stop, both included."""
        if steps < 0:
            raise ShapeError("number of steps must be non-negative")
        dtype = to_dtype(kwargs.pop("dtype", None) or dtypes.default_float)
        if dtype is dtypes.bool:
            raise ValueError("linspace with bool dtype is not supported")
        if steps == 1:
            return cls.full((1,), start, dtype=dtype, **kwargs)
        if dtypes.is_int(dtype) and not all(dtypes.min(dtype) <= each <= dtypes.max(dtype) for each in (start, stop)):
            raise ValueError(f"linspace from {start} to {stop} is beyond {dtype}; its ends must be from {dtypes.min(dtype)} to {dtypes.max(dtype)}")
        ramp = cls.arange(steps, dtype=dtypes.default_float, **kwargs)
        return (ramp * ((stop - start) / (steps - 1)) + start).cast(dtype)

    @classmethod
    def eye(cls, n: int, m: int | None = None, dtype=None, device=None, requires_grad=None) -> Tensor:
        """(n, m) with ones on the diagonal; m is n unless given."""
        m = n if m is None else m
        if n < 0 or m < 0:
            raise ShapeError(f"cannot have negative {n=}, {m=}")
        return cls._make("eye", (n, m), dtype, device, requires_grad, (("n", n), ("m", m)))

    def _like(self, kwargs: dict) -> dict:
        return {"dtype": kwargs.pop("dtype", None) or self.dtype, "device": kwargs.pop("device", None) or self.expr.device,
                **kwargs}

    def full_like(self, fill_value, dtype=None, **kwargs) -> Tensor:
        """Every element |fill_value|, in the shape, dtype and place of self."""
        return type(self).full(self.shape, fill_value, **self._like({"dtype": dtype, **kwargs}))

    def const_like(self, b) -> Tensor:
        """A number in the shape and dtype of self."""
        return self.full_like(b)

    def zeros_like(self, **kwargs) -> Tensor:
        """Zeros in the shape of self."""
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs) -> Tensor:
        """Ones in the shape of self."""
        return self.full_like(1, **kwargs)

    def empty_like(self, **kwargs) -> Tensor:
        """Whatever is there, in the shape of self."""
        return self.full_like(0, **kwargs)

    # ---- random

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Restart the random numbers of this process from a seed.  Without a call the seed is $BEAMLINE_SEED, or a random number of the system.

        They depend on the seed, on how many requests drew since, and on the place of the draw in its request; they are not
        tinygrad's nor PyTorch's.
        """
        Seeds.seed, Seeds.count = int(seed), 0

    @classmethod
    def _draw(cls, op: str, shape, dtype=None, device=None, requires_grad=None, contiguous=True, **attrs) -> Tensor:
        shape = _sizes(argfix(*shape) if shape else ())
        return cls._make(op, shape, dtype, device, requires_grad, (("shape", shape), *attrs.items()))

    @classmethod
    def rand(cls, *shape, device=None, dtype=None, contiguous=True, requires_grad=None) -> Tensor:
        """Uniform between 0 and 1."""
        dtype = to_dtype(dtype or dtypes.default_float)
        if not dtypes.is_float(dtype):
            raise ValueError(f"rand only supports float dtypes, got {dtype}")
        return cls._draw("uniform", shape, dtype, device, requires_grad)

    @classmethod
    def randn(cls, *shape, dtype=None, requires_grad=None, **kwargs) -> Tensor:
        """Normal distribution of mean 0 and deviation 1."""
        return cls._draw("normal", shape, dtype, requires_grad=requires_grad, **kwargs)

    @classmethod
    def randint(cls, *shape, low=0, high=10, dtype=None, **kwargs) -> Tensor:
        """Whole numbers from low to high - 1."""
        if not isinstance(low, int) or not isinstance(high, int):
            raise TypeError(f"{low=} and {high=} must be integers")
        dtype = to_dtype(dtype or dtypes.default_int)
        if not dtypes.is_int(dtype):
            raise TypeError(f"{dtype=} must be int")
        if low >= high:
            raise ShapeError(f"{low=} must be below {high=}")
        if low < dtypes.min(dtype) or high - 1 > dtypes.max(dtype):
            raise ValueError(f"{low=} and {high=} are beyond {dtype}; the drawn numbers must be from {dtypes.min(dtype)} to {dtypes.max(dtype)}")
        return cls._draw("randint", shape, dtype, low=low, high=high, **kwargs)

    @classmethod
    def normal(cls, *shape, mean=0.0, std=1.0, requires_grad=None, **kwargs) -> Tensor:
        """Normal distribution."""
        return cls._draw("normal", shape, kwargs.pop("dtype", None), requires_grad=requires_grad, mean=mean, std=std, **kwargs)

    @classmethod
    def uniform(cls, *shape, low=0.0, high=1.0, dtype=None, requires_grad=None, **kwargs) -> Tensor:
        """Uniform between low and high."""
        dtype = to_dtype(dtype or dtypes.default_float)
        drawn = cls._draw("uniform", shape, dtypes.default_float if not dtypes.is_float(dtype) else dtype, low=low, high=high,
                          **kwargs)
        drawn = drawn.cast(dtype)
        drawn.requires_grad = requires_grad
        return drawn

    @classmethod
    def scaled_uniform(cls, *shape, **kwargs) -> Tensor:
        """Uniform within 1 / sqrt(number of elements)."""
        bound = math.prod(argfix(*shape)) ** -0.5
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def glorot_uniform(cls, *shape, **kwargs) -> Tensor:
        """Uniform within sqrt(6 / (shape[0] + the product of the rest))."""
        sizes = argfix(*shape)
        bound = (6 / (sizes[0] + math.prod(sizes[1:]))) ** 0.5
        return cls.uniform(*sizes, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_uniform(cls, *shape, a: float = 0.01, **kwargs) -> Tensor:
        """Uniform within sqrt(6 / ((1 + a^2) * the product of shape[1:]))."""
        bound = math.sqrt(3.0) * math.sqrt(2.0 / (1 + a ** 2)) / math.sqrt(math.prod(argfix(*shape)[1:]))
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape, a: float = 0.01, **kwargs) -> Tensor:
        """Normal with deviation sqrt(2 / ((1 + a^2) * the product of shape[1:]))."""
        std = math.sqrt(2.0 / (1 + a ** 2)) / math.sqrt(math.prod(argfix(*shape)[1:]))
        return cls.normal(*shape, mean=0.0, std=std, **kwargs)

    @classmethod
    def randperm(cls, n: int, device=None, dtype=dtypes.int32, **kwargs) -> Tensor:
        """The numbers from 0 to n - 1 in random order."""
        if n < 0:
            raise ShapeError(f"randperm: n is {n}; it must be at least 0")
        return cls._make("randperm", (n,), dtype, device, kwargs.get("requires_grad"), (("n", n),))

    def rand_like(self, **kwargs) -> Tensor:
        """Uniform between 0 and 1 in the shape of self."""
        return type(self).rand(*self.shape, **self._like(kwargs))

    def randn_like(self, dtype=None, requires_grad=None, **kwargs) -> Tensor:
        """Normal distribution in the shape of self."""
        return type(self).randn(*self.shape, **self._like({"dtype": dtype, "requires_grad": requires_grad, **kwargs}))

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Tensor:
        """Places drawn by weight: self (n,) or (rows, n) of weights, the result (num_samples,) or (rows, num_samples)."""
        if not 1 <= self.ndim <= 2 or num_samples <= 0:
            raise ShapeError(f"{self.ndim=} must be 1 or 2 dim, {num_samples=} must be positive")
        if not replacement and num_samples > self.shape[-1]:
            raise ShapeError(f"no {num_samples} of {self.shape[-1]} without replacement")
        weight = self.unsqueeze(0) if self.ndim == 1 else self
        if not replacement:  # the largest of u ** (1 / w): Efraimidis and Spirakis
            drawn = (weight.rand_like(dtype=dtypes.float32).log() / weight).topk(num_samples)[1]
        else:
            sums = weight.cumsum(1)
            u = type(self).rand(weight.shape[0], num_samples, 1, device=self.expr.device) * sums[:, -1:].unsqueeze(1)
            drawn = (u >= sums.unsqueeze(1)).sum(2).clamp(0, weight.shape[1] - 1)
        return (drawn.squeeze(0) if self.ndim == 1 else drawn).cast(dtypes.int32)

    def dropout(self, p=0.5) -> Tensor:
        """0 with probability p, else x / (1 - p), while training; else itself."""
        if not 0 <= p <= 1:
            raise ValueError(f"{p=} is out of range [0, 1]")
        if not type(self).training or p == 0:
            return self
        if p == 1:
            return self.zeros_like()
        return (self.rand_like(dtype=dtypes.default_float).detach() >= p).where(self, 0) / (1.0 - p)

    def threefry(self, seed: Tensor) -> Tensor:
        """Threefry-2x32 with 20 rounds: self and seed of uint64, as counter and key."""
        low, high = (self & 0xffffffff).cast(dtypes.uint32), (self >> 32).cast(dtypes.uint32)
        keys = [(seed & 0xffffffff).cast(dtypes.uint32), (seed >> 32).cast(dtypes.uint32)]
        x0, x1 = threefry2x32(keys, low, high)
        return (x1.cast(dtypes.uint64) << 32) | x0.cast(dtypes.uint64)

    @classmethod
    def random_bits(cls, key: Tensor, counter: Tensor, num: int) -> Tensor:
        """|num| random uint32 of a key (2,) of uint32 and a counter (1,)."""
        half = ceildiv(num, 2)
        low = cls.arange(half, dtype=dtypes.uint32, device=key.expr.device) + counter.reshape(1).cast(dtypes.uint32)
        x0, x1 = threefry2x32([key[0], key[1]], low, low + half)
        return x0.cat(x1).shrink(((0, num),))


def threefry2x32(keys: list, x0: Tensor, x1: Tensor) -> tuple:
    """20 rounds over a pair of uint32 counters: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011."""
    schedule = [keys[0], keys[1], keys[0] ^ keys[1] ^ PARITY]
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << turn) | (x1 >> (32 - turn)))
        x0, x1 = x0 + schedule[(i + 1) % 3], x1 + schedule[(i + 2) % 3] + (i + 1)
    return x0, x1


def _sizes(shape: tuple) -> tuple:
    shape = tuple(size if isinstance(size, Symbolic) else size.__index__() for size in shape)
    shape = tuple(size if is_known(0, size) else int(size) for size in shape)
    if not all(is_known(0, size) for size in shape):
        raise ShapeError(f"a shape has no negative sizes: {shape}")
    return shape
