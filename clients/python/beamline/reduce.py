# SPDX-License-Identifier: MIT
"""Reductions, running results, sorting and losses."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .base import Base, ShapeError
from .dtype import dtypes, least_upper_float, sum_acc_dtype, to_dtype

if TYPE_CHECKING:
    from .tensor import Tensor

REDUCTIONS = ("mean", "sum", "none")


class ReduceMixin(Base):
    """Methods that make one of many.  axis: one or several, counted from the end where negative; None for all."""

    __slots__ = ()

    def _reduced(self, axes: tuple, keepdim: bool) -> tuple:
        return tuple(1 if i in axes else size for i, size in enumerate(self.shape) if keepdim or i not in axes)

    def _reduce(self, op: str, axis, keepdim: bool, dtype=None, **attrs) -> Tensor:
        axes = self._axes(axis)
        return self._op(op, shape=self._reduced(axes, keepdim), dtype=dtype, axis=axes, keepdim=bool(keepdim), **attrs)

    def sum(self, axis=None, keepdim=False, dtype=None) -> Tensor:
        """Sum.  Integers are added as at least 32 bits, halves as float32."""
        if dtype is not None:
            dtype = to_dtype(dtype)
            return self.cast(dtype)._reduce("sum", axis, keepdim, wide(dtype)).cast(dtype)
        if dtypes.is_float(self.dtype):
            return self._reduce("sum", axis, keepdim)
        return self._reduce("sum", axis, keepdim, wide(self.dtype)).cast(sum_acc_dtype(self.dtype))

    def prod(self, axis=None, keepdim=False, dtype=None) -> Tensor:
        """Product."""
        x = self if dtype is None else self.cast(dtype)
        if dtypes.is_float(x.dtype):
            return x._reduce("prod", axis, keepdim)
        return x._reduce("prod", axis, keepdim, wide(x.dtype)).cast(x.dtype)

    def max(self, axis=None, keepdim=False) -> Tensor:
        """The largest element; without elements the least number of the dtype.  Equal elements share the gradient."""
        return self._extreme("max", axis, keepdim)

    def min(self, axis=None, keepdim=False) -> Tensor:
        """The smallest element; without elements the greatest number of the dtype.  Equal elements share the gradient."""
        return self._extreme("min", axis, keepdim)

    def _extreme(self, op: str, axis, keepdim: bool) -> Tensor:
        axes = self._axes(axis)
        if any(self.shape[i] == 0 for i in axes):
            value = self.dtype.min if op == "max" else self.dtype.max
            return type(self).full(self._reduced(axes, keepdim), value, dtype=self.dtype, device=self.expr.device)
        return self._reduce(op, axis, keepdim)

    def mean(self, axis=None, keepdim=False) -> Tensor:
        """Arithmetic mean; of integers as float32."""
        return self._reduce("mean", axis, keepdim, least_upper_float(self.dtype))

    def any(self, axis=None, keepdim=False) -> Tensor:
        """Whether some is not zero."""
        return self.cast(dtypes.bool)._reduce("any", axis, keepdim)

    def all(self, axis=None, keepdim=False) -> Tensor:
        """Whether none is zero."""
        return self.cast(dtypes.bool)._reduce("all", axis, keepdim)

    def var(self, axis=None, keepdim=False, correction=1) -> Tensor:
        """Variance, divided by the count less the correction."""
        return self._reduce("var", axis, keepdim, least_upper_float(self.dtype), correction=correction)

    def var_mean(self, axis=None, keepdim=False, correction=1) -> tuple:
        """(variance, mean)"""
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std(self, axis=None, keepdim=False, correction=1) -> Tensor:
        """Square root of the variance."""
        return self._reduce("std", axis, keepdim, least_upper_float(self.dtype), correction=correction)

    def std_mean(self, axis=None, keepdim=False, correction=1) -> tuple:
        """(standard deviation, mean)"""
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def argmax(self, axis=None, keepdim=False) -> Tensor:
        """Where the largest is, the first of equals; without axis in the flattened tensor.  int32."""
        return self._arg("argmax", axis, keepdim)

    def argmin(self, axis=None, keepdim=False) -> Tensor:
        """Where the smallest is, the first of equals; without axis in the flattened tensor.  int32."""
        return self._arg("argmin", axis, keepdim)

    def _arg(self, op: str, axis, keepdim: bool) -> Tensor:
        if axis is None:
            return self.flatten()._arg(op, 0, False).reshape((1,) * self.ndim if keepdim else ())
        axis = self._resolve_dim(axis)
        if self.ndim and self.shape[axis] == 0:
            raise IndexError(f"{op} of {self.shape}: axis {axis} has size 0; it must have at least one element")
        return self._op(op, shape=self._reduced((axis,), keepdim), dtype=dtypes.int64, axis=axis,
                        keepdim=bool(keepdim)).cast(dtypes.int32)

    def logsumexp(self, axis=None, keepdim=False) -> Tensor:
        """log(sum(exp(x))); -inf without elements"""
        if any(self.shape[i] == 0 for i in self._axes(axis)):
            return self.cast(least_upper_float(self.dtype)).max(axis, keepdim)
        return self._reduce("logsumexp", axis, keepdim, least_upper_float(self.dtype))

    def softmax(self, axis=-1, dtype=None) -> Tensor:
        """exp(x) divided by its sum along an axis."""
        return self._soften("softmax", axis, dtype)

    def log_softmax(self, axis=-1, dtype=None) -> Tensor:
        """The logarithm of softmax."""
        return self._soften("log_softmax", axis, dtype)

    def _soften(self, op: str, axis, dtype) -> Tensor:
        x = self if dtype is None else self.cast(dtype)
        x._resolve_dim(axis)
        if not x.ndim:
            return x * 0 + (1 if op == "softmax" else 0)
        return x._op(op, dtype=least_upper_float(x.dtype), axis=x._resolve_dim(axis))

    def softmin(self, axis=-1, dtype=None) -> Tensor:
        """softmax of -x."""
        return (-self).softmax(axis, dtype)

    def normalize(self, p: float = 2, dim: int = 1, eps: float = 1e-12) -> Tensor:
        """x divided by its p-norm along an axis, which is at least eps."""
        if p == 0:
            norm = (self != 0).sum(dim, keepdim=True).cast(least_upper_float(self.dtype))
        elif p == 1:
            norm = self.abs().sum(dim, keepdim=True)
        elif p == math.inf:
            norm = self.abs().max(dim, keepdim=True)
        else:
            norm = (self.square().sum(dim, keepdim=True).sqrt() if p == 2
                    else (self.abs() ** p).sum(dim, keepdim=True) ** (1 / p))
        return self / norm.maximum(eps)

    # ---- running results

    def _running(self, op: str, axis: int, dtype=None) -> Tensor:
        axis = self._resolve_dim(axis)
        return self if not self.ndim else self._op(op, dtype=dtype, axis=axis)

    def cumsum(self, axis: int = 0) -> Tensor:
        """Running sum."""
        dtype = sum_acc_dtype(self.dtype)
        return self.cast(dtype)._running("cumsum", axis, wide(dtype)).cast(dtype)

    def cumprod(self, axis: int) -> Tensor:
        """Running product."""
        return self._running("cumprod", axis, wide(self.dtype)).cast(self.dtype)

    def cummax(self, axis: int = 0) -> tuple:
        """(running maximum, where it is)"""
        return self._with_places("cummax", self.shape, axis=self._resolve_dim(axis))

    def cummin(self, axis: int = 0) -> tuple:
        """(running minimum, where it is)"""
        return self._with_places("cummin", self.shape, axis=self._resolve_dim(axis))

    def logcumsumexp(self, axis: int = 0) -> Tensor:
        """Running log(sum(exp(x)))."""
        return self._running("logcumsumexp", axis, least_upper_float(self.dtype))

    def _with_places(self, op: str, shape: tuple, **attrs) -> tuple:
        if not self.ndim:
            return self, self.zeros_like(dtype=dtypes.int32)
        values, places = self._several(op, results=[(shape, self.dtype), (shape, dtypes.int64)], **attrs)
        return values, places.cast(dtypes.int32)

    # ---- order

    def sort(self, dim: int = -1, descending: bool = False) -> tuple:
        """(values in order, where they were)"""
        return self._with_places("sort", self.shape, axis=self._resolve_dim(dim), descending=bool(descending))

    def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
        """Where the values in order were."""
        return self.sort(dim, descending)[1]

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple:
        """(the k largest or smallest, where they were)"""
        if not sorted_:
            raise NotImplementedError("topk with sorted_=False is not supported")
        dim = self._resolve_dim(dim)
        if k > self.shape[dim]:
            raise ShapeError(f"selected index k={k} is out of range")
        shape = self.shape[:dim] + (k,) + self.shape[dim + 1:]
        return self._with_places("topk", shape, k=k, axis=dim, largest=bool(largest))

    # ---- losses

    def _do_reduction(self, reduction: str = "mean") -> Tensor:
        if reduction not in REDUCTIONS:
            raise ValueError(f"{reduction=} must be one of {REDUCTIONS}")
        return self if reduction == "none" else getattr(self, reduction)()

    def binary_crossentropy(self, Y: Tensor, reduction: str = "mean") -> Tensor:
        """Of probabilities and targets of one shape."""
        return (-Y * self.log() - (1 - Y) * (1 - self).log())._do_reduction(reduction)

    def binary_crossentropy_logits(self, Y: Tensor, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
        """Of logits and targets of one shape; pos_weight: weight of the positive class."""
        log_p, log_1_minus_p = self.logsigmoid(), (-self).logsigmoid()
        return (-((1 if pos_weight is None else pos_weight) * Y * log_p + (1 - Y) * log_1_minus_p))._do_reduction(reduction)

    def sparse_categorical_crossentropy(self, Y: Tensor, ignore_index: int = -1, label_smoothing=0.0,
                                        reduction: str = "mean") -> Tensor:
        """Of logits (..., classes) and classes (...); those that are ignore_index do not count."""
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing must be in [0.0, 1.0], got {label_smoothing=}")
        if reduction not in REDUCTIONS:
            raise ValueError(f"{reduction=} must be one of {REDUCTIONS}")
        if self.shape[:-1] != Y.shape:
            raise ShapeError(f"logits {self.shape} and classes {Y.shape} do not go together")
        if not label_smoothing and self.ndim == 2 and dtypes.is_int(Y.dtype):
            own = "none" if ignore_index == -1 else reduction  # the loss of class -1 is 0, and the mean counts it, as in tinygrad
            loss = self._op("cross_entropy", Y, shape=() if own != "none" else Y.shape, dtype=least_upper_float(self.dtype),
                            reduction=own, ignore_index=ignore_index)
            return loss if own == reduction else loss._do_reduction(reduction)
        log_probs = self.log_softmax()
        counted = Y != ignore_index
        mask = counted if ignore_index != -1 else Y.ones_like(dtype=dtypes.bool)
        y = counted.where(Y, 0).one_hot(self.shape[-1]).bool() & counted.unsqueeze(-1)
        smoothing = label_smoothing * (log_probs.mean(-1) * mask)
        unreduced = (1 - label_smoothing) * y.where(log_probs, 0).sum(-1) + smoothing
        return -(unreduced.sum() / mask.sum() if reduction == "mean" else unreduced.sum() if reduction == "sum" else unreduced)

    def cross_entropy(self, Y: Tensor, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
        """Of logits (N, C, ...) and classes (N, ...) or probabilities (N, C, ...)."""
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing must be in [0.0, 1.0], got {label_smoothing=}")
        classes = 0 if self.ndim == 1 else 1
        if reduction not in REDUCTIONS:
            raise ValueError(f"{reduction=} must be one of {REDUCTIONS}")
        if Y.shape != self.shape:
            if Y.shape != self.shape[:classes] + self.shape[classes + 1:] or not dtypes.is_int(Y.dtype):
                raise ShapeError(f"logits {self.shape} and targets {Y.shape} of {Y.dtype} do not go together")
            if not label_smoothing:
                return self._op("cross_entropy", Y, shape=Y.shape if reduction == "none" else (),
                                dtype=least_upper_float(self.dtype),
                                reduction=reduction)
            order = list(range(classes)) + [self.ndim - 1] + list(range(classes, self.ndim - 1))
            Y = Y.one_hot(self.shape[classes]).permute(order)
        Y = (1 - label_smoothing) * Y + label_smoothing / self.shape[classes]
        result = -(self.log_softmax(axis=classes) * Y).sum(axis=classes)
        return result.sum() / (result.numel() or 1) if reduction == "mean" else result._do_reduction(reduction)

    def nll_loss(self, Y: Tensor, weight: Tensor | None = None, ignore_index: int | None = None,
                 reduction: str = "mean") -> Tensor:
        """Of log-probabilities (N, C, ...) and classes (N, ...); weight (C,)."""
        if reduction not in REDUCTIONS:
            raise ValueError(f"{reduction=} must be one of {REDUCTIONS}")
        if self.ndim < 2 or Y.shape != self.shape[:1] + self.shape[2:] or weight is not None and weight.shape != self.shape[1:2]:
            raise ShapeError(f"log-probabilities {self.shape}, classes {Y.shape}" + (f" and weight {weight.shape}" if weight is not None else "")
                             + " do not go together")
        operands = (Y,) if weight is None else (Y, weight)
        ignore = {} if ignore_index is None else {"ignore_index": ignore_index}
        return self._op("nll_loss", *operands, shape=Y.shape if reduction == "none" else (), dtype=least_upper_float(self.dtype),
                        reduction=reduction, **ignore)


def wide(dtype) -> DType:
    """What the server adds and multiplies integers as."""
    if dtypes.is_float(dtype):
        return dtype
    return dtypes.uint64 if dtypes.is_unsigned(dtype) else dtypes.int64
