# SPDX-License-Identifier: MIT
"""Views: Tensors that share elements with another Tensor, so that a write to the one changes the other.

reshape, permute, expand, shrink, flip, slices, detach and bitcast give a view.  The Tensors that share elements have one
Storage, which holds the value of all elements.  A view has the Links from this value to the value of the view: a read applies
each Link, a write applies their inverses in the opposite order.  Expressions never change: a result that was computed from a Tensor
before a write keeps its value.
"""
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple

from .dtype import DType, dtypes
from .expr import Expr

if TYPE_CHECKING:
    from .tensor import Tensor

VERSIONS = itertools.count(1)
STALE = 0  # a version that no storage has
RENAMED = "renamed"  # a Link without an op on the wire: Variables replace the numbers that they are bound to, or numbers replace Variables


class Link(NamedTuple):
    """One operation on the way from the value of a storage to the value of a view: an Expr without its operand."""

    op: str
    attrs: tuple
    shape: tuple
    dtype: DType


def nothing() -> None:
    """None: the base of a storage without a base."""


class Storage:
    """The elements that several Tensors share.

    value: all elements               version: a new number after each write
    tensors: id() of each Tensor that shares the elements, to None
    base: a weak reference to a Tensor of all elements, or a function that gives None
    pending: the value is the result of a write that is not computed yet
    """

    __slots__ = ("value", "version", "tensors", "base", "pending")

    def __init__(self, value: Expr) -> None:
        self.value, self.version, self.pending = value, next(VERSIONS), False
        self.tensors: dict = {}
        self.base: Any = nothing

    def write(self, value: Expr) -> None:
        """Give all elements a new value."""
        self.value, self.version, self.pending = value, next(VERSIONS), not value.is_leaf


class View:
    """The elements of a storage that a Tensor has.  version: the version of the storage when the expression of the Tensor was made."""

    __slots__ = ("storage", "links", "version")

    def __init__(self, storage: Storage, links: tuple) -> None:
        self.storage, self.links, self.version = storage, links, storage.version


class Snapshot:
    """The values of Tensors and of their storages, so that restore() can bring them back."""

    def __init__(self, tensors: Iterable) -> None:
        self.tensors = [(each, each._expr, each._view, each._view.version if each._view else STALE) for each in tensors]
        storages = {id(view.storage): view.storage for _, _, view, _ in self.tensors if view is not None}
        self.storages = [(each, each.value, each.version, each.pending) for each in storages.values()]

    def restore(self) -> None:
        """Give the Tensors and their storages the saved values."""
        for storage, value, version, pending in self.storages:
            storage.value, storage.version, storage.pending = value, version, pending
        for tensor, expr, view, version in self.tensors:
            tensor._leave()
            tensor._expr = expr
            if view is not None:
                view.version = version
                tensor._join(view)


def apply(link: Link, value: Tensor) -> Expr:
    """The value of a view of |value|."""
    if link.op == RENAMED:
        return value.reshape(link.shape).expr
    return Expr(link.op, (value.expr,), link.attrs, link.shape, link.dtype, value.expr.device)


REARRANGED = {  # the inverse of an operation that keeps every element
    "reshape": lambda x, attrs, shape: x.reshape(shape),
    RENAMED: lambda x, attrs, shape: x.reshape(shape),
    "permute": lambda x, attrs, shape: x.permute([attrs["axes"].index(i) for i in range(len(shape))]),
    "flip": lambda x, attrs, shape: x.flip(attrs["axis"]),
}


def changed(whole: Tensor, links: tuple, value: Tensor) -> Tensor:
    """|whole| after a write of |value| to the view that |links| lead to."""
    levels = [whole]  # the operand of each link, and last the view
    for link in links:
        levels.append(whole._wrap(apply(link, levels[-1])))
    mask: Tensor | None = None  # true for the elements that change; None: all change
    for link, outer, inner in zip(reversed(links), reversed(levels[:-1]), reversed(levels)):
        attrs = dict(link.attrs)
        if link.op in REARRANGED:
            value = REARRANGED[link.op](value, attrs, outer.shape)
            mask = mask if mask is None else REARRANGED[link.op](mask, attrs, outer.shape)
        elif link.op == "detach":
            value = value.detach()
        elif link.op == "bitcast":
            if mask is not None and inner.dtype.itemsize != outer.dtype.itemsize:
                value, mask = mask.where(value, inner), None
            value = value.bitcast(outer.dtype)
        else:
            mask = type(whole).full(value.shape, True, dtype=dtypes.bool, device=value.expr.device) if mask is None else mask
            ranges = attrs["ranges"] if link.op == "shrink" else tuple(zip(attrs["start"], attrs["stop"], attrs["step"]))
            value, mask = spread(value, ranges, outer.shape), spread(mask, ranges, outer.shape)
    return value if mask is None else mask.where(value, whole)


def spread(x: Tensor, ranges: tuple, shape: tuple) -> Tensor:
    """The elements of x at (start, stop) or (start, stop, step) of each axis of |shape|, between zeros."""
    for axis, (start, stop, *rest) in enumerate(ranges):
        step = rest[0] if rest else 1
        if step > 1 and x.shape[axis]:
            sizes = x.shape
            x = x.unsqueeze(axis + 1).pad((None,) * (axis + 1) + ((0, step - 1),) + (None,) * (x.ndim - axis - 1))
            x = x.reshape(sizes[:axis] + (sizes[axis] * step,) + sizes[axis + 1:])
            x = x.shrink(tuple((0, min(stop - start, x.shape[i])) if i == axis else None for i in range(x.ndim)))
    return x.pad(tuple((each[0], total - each[0] - size) for each, total, size in zip(ranges, shape, x.shape)))
