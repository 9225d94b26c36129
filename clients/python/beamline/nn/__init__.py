# SPDX-License-Identifier: MIT
"""Layers: objects with Tensors as attributes, which are called.  Parameters start as in PyTorch."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..base import make_tuple
from ..dtype import dtypes
from ..names import module_attributes
from ..tensor import Tensor
from . import datasets, optim, state  # noqa: F401  # as attributes of the package
from .tree import Layer, describe

__all__ = ["BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "Embedding",
           "GroupNorm",
           "InstanceNorm", "LSTMCell", "Layer", "LayerNorm", "LayerNorm2d", "Linear", "RMSNorm", "datasets", "describe", "optim", "state"]


class Linear(Layer):
    """x (..., in_features) @ weight^T + bias; weight (out_features, in_features), bias (out_features,)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        bound = 1 / math.sqrt(in_features)
        self.weight = Tensor.uniform(out_features, in_features, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_features, low=-bound, high=bound) if bias else None

    def about(self) -> str:
        return f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, bias={self.bias is not None}"

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class Conv2d(Layer):
    """conv2d with weight (out_channels, in_channels / groups, *kernel_size); padding: numbers, or "same"."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
                 bias: bool = True):
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, make_tuple(kernel_size, 2)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        if isinstance(padding, str):
            if padding.lower() != "same":
                raise ValueError(f"Invalid padding string {padding!r}, only 'same' is supported")
            if stride != 1:
                raise ValueError("padding='same' is not supported for strided convolutions")
            around = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for d, k in
                      zip(make_tuple(dilation, len(self.kernel_size)), self.kernel_size[::-1])]
            padding = tuple(each for pair in around for each in pair)
        self.padding = padding
        bound = 1 / math.sqrt(in_channels // groups * math.prod(self.kernel_size))
        self.weight = Tensor.uniform(out_channels, in_channels // groups, *self.kernel_size, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_channels, low=-bound, high=bound) if bias else None

    def about(self) -> str:
        count, settings = len(self.kernel_size), {"kernel_size": self.kernel_size}
        for name, usual in (("stride", None), ("padding", 0), ("output_padding", 0), ("dilation", 1)):
            value = make_tuple(getattr(self, name, usual), count)
            settings.update({name: value} if value != (usual,) * count else {})
        settings.update({"groups": self.groups} if self.groups != 1 else {}, **({"bias": False} if self.bias is None else {}))
        return f"{self.in_channels}, {self.out_channels}, " + ", ".join(f"{name}={value}" for name, value in settings.items())

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


def Conv1d(in_channels: int, out_channels: int, kernel_size: int, stride=1, padding=0, dilation=1, groups: int = 1,
           bias: bool = True) -> Conv2d:
    """Convolution of (N, C, L)."""
    return Conv2d(in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias)


class ConvTranspose2d(Conv2d):
    """conv_transpose2d with weight (in_channels, out_channels / groups, *kernel_size)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups: int = 1,
                 bias: bool = True):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        bound = 1 / math.sqrt(in_channels // groups * math.prod(self.kernel_size))
        self.weight = Tensor.uniform(in_channels, out_channels // groups, *self.kernel_size, low=-bound, high=bound)
        self.output_padding = output_padding

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding,
                                  self.output_padding)


def ConvTranspose1d(in_channels: int, out_channels: int, kernel_size: int, stride=1, padding=0, output_padding=0, dilation=1,
                    groups: int = 1, bias: bool = True) -> ConvTranspose2d:
    """Transposed convolution of (N, C, L)."""
    return ConvTranspose2d(in_channels, out_channels, (kernel_size,), stride, padding, output_padding, dilation, groups, bias)


class BatchNorm(Layer):
    """Batch norm over all axes but the second; the statistics of the batch while training, else running ones."""

    def __init__(self, sz: int, eps=1e-5, affine=True, track_running_stats=True, momentum=0.1):
        self.num_features, self.eps, self.track_running_stats, self.momentum = sz, eps, track_running_stats, momentum
        self.weight = Tensor.ones(sz) if affine else None
        self.bias = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int64, requires_grad=False)
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz, requires_grad=False)
            self.running_var = Tensor.ones(sz, requires_grad=False)

    def about(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}, "
                f"track_running_stats={self.track_running_stats}")

    def calc_stats(self, x: Tensor) -> tuple:
        """(mean, variance) of (channels,)"""
        if self.track_running_stats and not Tensor.training:
            return self.running_mean, self.running_var
        shape = [1, -1, *([1] * (x.ndim - 2))]
        axes = tuple(i for i in range(x.ndim) if i != 1)
        mean = x.mean(axis=axes)
        centred = x - mean.reshape(shape)
        return mean, (centred * centred).mean(axis=axes)

    def __call__(self, x: Tensor) -> Tensor:
        mean, var = self.calc_stats(x)
        if self.track_running_stats and Tensor.training:
            count = x.numel() // x.shape[1]
            self.running_mean.assign((1 - self.momentum) * self.running_mean + self.momentum * mean.detach())
            unbiased = count / max(1, count - 1) * var.detach()
            self.running_var.assign((1 - self.momentum) * self.running_var + self.momentum * unbiased)
            self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


class GroupNorm(Layer):
    """Norm over groups of channels of (N, C, ...)."""

    def __init__(self, num_groups: int, num_channels: int, eps=1e-5, affine=True):
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def about(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}"

    def __call__(self, x: Tensor) -> Tensor:
        y = x.reshape(x.shape[0], self.num_groups, -1).layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None:
            return y
        shape = (1, -1, *([1] * (x.ndim - 2)))
        return y * self.weight.reshape(shape) + self.bias.reshape(shape)


class InstanceNorm(Layer):
    """Norm over each channel of (N, C, ...)."""

    def __init__(self, num_features: int, eps=1e-5, affine=True):
        self.num_features, self.eps = num_features, eps
        self.weight = Tensor.ones(num_features) if affine else None
        self.bias = Tensor.zeros(num_features) if affine else None

    def about(self) -> str:
        return f"{self.num_features}, eps={self.eps}, affine={self.weight is not None}"

    def __call__(self, x: Tensor) -> Tensor:
        y = x.reshape(x.shape[0], self.num_features, -1).layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None:
            return y
        shape = (1, -1, *([1] * (x.ndim - 2)))
        return y * self.weight.reshape(shape) + self.bias.reshape(shape)


class LayerNorm(Layer):
    """Norm over the last axes, which are of |normalized_shape|."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True) -> None:
        self.normalized_shape = make_tuple(normalized_shape, 1)
        self.axis, self.eps = tuple(-1 - i for i in range(len(self.normalized_shape)))[::-1], eps
        self.elementwise_affine = elementwise_affine
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None

    def about(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.normalized_shape):] != self.normalized_shape:
            raise RuntimeError(f"last dimensions of {x.shape} must match {self.normalized_shape}")
        y = x.layernorm(eps=self.eps, axis=self.axis)
        return y * self.weight + self.bias if self.elementwise_affine else y


class LayerNorm2d(LayerNorm):
    """Norm over the channels of (N, C, H, W)."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Layer):
    """x / sqrt(mean(x^2) + eps) over the last axis, times weight (dim,)."""

    def __init__(self, dim: int, eps=1e-6, elementwise_affine=True):
        self.dim, self.eps = dim, eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def about(self) -> str:
        return f"{self.dim}, eps={self.eps}, elementwise_affine={self.weight is not None}"

    def __call__(self, x: Tensor) -> Tensor:
        wide = x.float()
        y = (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return y if self.weight is None else y * self.weight


class Embedding(Layer):
    """Rows of weight (vocab_size, embed_size) by integers of any shape."""

    def __init__(self, vocab_size: int, embed_size: int):
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def about(self) -> str:
        return f"{self.vocab_sz}, {self.embed_sz}"

    def __call__(self, idx: Tensor) -> Tensor:
        if not dtypes.is_int(idx.dtype):
            raise TypeError(f"Expected integer dtype for index in embedding, got {idx.dtype}")
        return self.weight[idx]


class LSTMCell(Layer):
    """One step: (x (batch, input), (h, c) (batch, hidden) or None) to (h, c)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        bound = 1 / math.sqrt(hidden_size)
        self.weight_ih = Tensor.uniform(hidden_size * 4, input_size, low=-bound, high=bound)
        self.weight_hh = Tensor.uniform(hidden_size * 4, hidden_size, low=-bound, high=bound)
        self.bias_ih = Tensor.zeros(hidden_size * 4) if bias else None
        self.bias_hh = Tensor.zeros(hidden_size * 4) if bias else None

    def about(self) -> str:
        return f"{self.weight_ih.shape[1]}, {self.weight_hh.shape[1]}" + (", bias=False" if self.bias_ih is None else "")

    def __call__(self, x: Tensor, hc: tuple | None = None) -> tuple:
        if hc is None:
            hc = (Tensor.zeros(x.shape[0], self.weight_hh.shape[1], dtype=x.dtype, device=x.expr.device),) * 2
        gates = x.linear(self.weight_ih.T, self.bias_ih) + hc[0].linear(self.weight_hh.T, self.bias_hh)
        i, f, g, o = gates.chunk(4, dim=1)
        new_c = f.sigmoid() * hc[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * new_c.tanh(), new_c


if not TYPE_CHECKING:
    __getattr__ = module_attributes(__name__, globals())
