# SPDX-License-Identifier: MIT
"""What the parts of Tensor share: how a Tensor is made of an expression, and the arithmetic of shapes."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .dtype import DType, dtypes, least_upper_dtype, least_upper_float
from .expr import LIVE, Expr
from .names import missing
from .symbolic import Symbolic, find, is_size
from .views import Link, Storage, View, apply, changed, nothing

if TYPE_CHECKING:
    from .tensor import Tensor

MODULAR = frozenset(("add", "sub", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"))  # the lowest bits of the result depend only on the lowest bits of the operands


class ShapeError(ValueError, RuntimeError):
    """Shapes or sizes that do not match.  The error is a ValueError, as in tinygrad, and a RuntimeError, as in PyTorch."""


def check_positive(what: str, *sizes) -> None:
    """Raise ShapeError if a step or a size is below 1."""
    if any(each < 1 for each in sizes):
        raise ShapeError(f"{what} is {sizes if len(sizes) > 1 else sizes[0]}; it must be at least 1")


def argfix(*values) -> tuple:
    """f(1, 2) and f((1, 2)) as (1, 2)."""
    if values and isinstance(values[0], (tuple, list)):
        if len(values) != 1:
            raise ValueError(f"bad arg {values}")
        return tuple(values[0])
    return values


def make_tuple(value, count: int) -> tuple:
    """A number as |count| of it."""
    return (value,) * count if is_size(value) else tuple(value)


def ceildiv(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def broadcast_shape(*shapes: tuple) -> tuple:
    """The shape that all of these become; ValueError where they cannot."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max(len(shape) for shape in shapes)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*aligned):
        size = next((each for each in sizes if each != 1), 1)
        if any(each not in (1, size) for each in sizes):
            raise ShapeError(f"cannot broadcast {' and '.join(str(tuple(shape)) for shape in shapes)}")
        result.append(size)
    return tuple(result)


def one_device(*exprs: Expr) -> str | None:
    """The device that these are on; RuntimeError where they are on several.  None: the default one."""
    found = None
    for each in exprs:
        if each.device is not None and each.device != found:
            if found is not None:
                raise RuntimeError(f"all tensors must be on the same device: {found}, {each.device}")
            found = each.device
    return found


class Base:
    """The expression of a Tensor, the construction of new Tensors from it, and its view of shared elements (views.py).

    _expr: the expression of the value     _view: the View of a storage; None if the Tensor shares elements with no Tensor
    """

    __slots__ = ("_expr", "_view", "grad", "requires_grad", "__weakref__")

    _expr: Expr
    _view: View | None
    grad: Tensor | None
    requires_grad: bool | None

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            raise missing("Tensor", name, dir(type(self)))

    def __del__(self, live=LIVE) -> None:
        live.pop(id(self), None)
        view = getattr(self, "_view", None)
        if view is not None:
            view.storage.tensors.pop(id(self), None)

    @classmethod
    def _wrap(cls, expr: Expr) -> Tensor:
        tensor = cls.__new__(cls)
        tensor._expr, tensor._view, tensor.grad, tensor.requires_grad = expr, None, None, None
        LIVE[id(tensor)] = weakref.ref(tensor)
        return tensor

    # ---- the value, and the Tensors that share its elements

    @property
    def expr(self) -> Expr:
        """The expression of the value."""
        view = self._view
        if view is not None and view.version != view.storage.version:
            version, value = view.storage.version, view.storage.value
            for link in view.links:
                value = apply(link, self._wrap(value))
            self._expr, view.version = value, version
        return self._expr

    @expr.setter
    def expr(self, value: Expr) -> None:
        """Write a value.  Tensors that share elements with self change too."""
        view = self._view
        if view is None:
            self._expr = value
            return
        if self._repeats:
            raise RuntimeError(f"write to an expanded tensor of shape {self.shape}: several elements share one place in memory; "
                               "clone() the tensor first")
        storage = view.storage
        if len(storage.tensors) == 1:  # no other Tensor shares the elements
            self._expr, self._view = value, None
        elif not view.links:
            storage.write(value)
        else:
            storage.write(changed(self._wrap(storage.value), view.links, self._wrap(value)).expr)
            if not any(link.op == "detach" for link in view.links):
                self._expr, view.version = value, storage.version

    def _share(self) -> View:
        """The View of self; made, with a new storage, if there is none."""
        view = self._view
        if view is None:
            view = View(Storage(self._expr), ())
            self._join(view)
        return view

    def _join(self, view: View) -> None:
        """Share the elements of a storage from now on, as |view| says."""
        self._view = view
        view.storage.tensors[id(self)] = None
        if not view.links:
            view.storage.base = weakref.ref(self)

    def _shows(self, other: Tensor, op: str | None = None) -> Tensor:
        """Make self a view of |other|.  The expression of self is one operation on the expression of |other|."""
        view, mine = other._share(), self._expr
        self._join(View(view.storage, (*view.links, Link(op or mine.op, mine.attrs, mine.shape, mine.dtype))))
        return self  # type: ignore[return-value]

    def _leave(self) -> None:
        """Stop sharing elements with other Tensors.  The value stays."""
        self._expr, view, self._view = self.expr, self._view, None
        if view is not None:
            view.storage.tensors.pop(id(self), None)
            if view.storage.base() is self:
                view.storage.base = nothing

    def _copy(self) -> Tensor:
        """A Tensor of the same value that shares elements with no Tensor."""
        return self._wrap(self.expr)

    def _owner(self) -> Tensor:
        """A Tensor of all elements of the storage; self if self is not a view."""
        view = self._view
        if view is None or not view.links:
            return self  # type: ignore[return-value]
        storage = view.storage
        base = storage.base()
        if base is None:
            base = self._wrap(storage.value)
            base._join(View(storage, ()))
        return base

    def _settle(self) -> None:
        """Drop the operands of the expression; the value was computed."""
        self._expr, view = self.expr.settled(), self._view
        if view is None:
            return
        if len(view.storage.tensors) == 1:
            self._view = None
        elif not view.links:
            view.storage.value, view.storage.pending = self._expr, False

    def _is_same_view(self, other: Tensor) -> bool:
        """Whether both are the same view of one storage, and so always have equal values."""
        mine, its = self._view, other._view
        if self is other or mine is None or its is None:
            return self is other
        bound = [[each.values for each in find(view.links)] for view in (mine, its)]
        return mine.storage is its.storage and mine.links == its.links and bound[0] == bound[1]

    @property
    def _repeats(self) -> bool:
        """Whether several elements of self share one place in memory."""
        return self._view is not None and any(link.op == "expand" for link in self._view.links)

    def _op(self, op: str, *operands, shape: tuple | None = None, dtype: DType | None = None, **attrs) -> Tensor:
        """A node over this Tensor and others; its shape is this one's and its dtype too, unless given."""
        mine = self.expr
        src = (mine, *(each.expr if isinstance(each, Base) else each for each in operands))
        device = one_device(*(each for each in src if each.__class__ is Expr)) if operands else mine.device
        return self._wrap(Expr(op, src, tuple(attrs.items()), mine.shape if shape is None else shape,
                               mine.dtype if dtype is None else dtype, device))

    def _several(self, op: str, *operands, results: list, **attrs) -> tuple:
        """A node with several results, given as (shape, dtype) each."""
        src = (self.expr, *(each.expr if isinstance(each, Base) else each for each in operands))
        whole = Expr(op, src, tuple(attrs.items()), None, None, one_device(*(each for each in src if each.__class__ is Expr)))
        return tuple(self._wrap(Expr("item", (whole,), (("index", i),), shape, dtype, whole.device)) for i, (shape, dtype) in
                     enumerate(results))

    # ---- what it is

    @property
    def shape(self) -> tuple:
        """The sizes of its axes."""
        return self.expr.shape

    @property
    def dtype(self) -> DType:
        """The dtype of its elements."""
        return self.expr.dtype

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.expr.shape)

    max_shape = shape

    def numel(self) -> int:
        """The number of its elements."""
        total = 1
        for size in self.expr.shape:
            total *= size
        return total

    max_numel = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def size(self, dim: int | None = None):
        """The size of one axis, or all sizes."""
        return self.shape if dim is None else self.shape[self._resolve_dim(dim)]

    def is_floating_point(self) -> bool:
        """Whether its dtype has fractions."""
        return dtypes.is_float(self.dtype)

    def _resolve_dim(self, dim: int, *, extra: bool = False) -> int:
        """An axis counted from the start; IndexError where there is none."""
        total = self.ndim + extra
        if not -max(1, total) <= dim <= max(1, total) - 1:
            raise IndexError(f"dim={dim} is out of range for {self.ndim} axes: it must be from {-max(1, total)} to {max(1, total) - 1}")
        return dim + total if dim < 0 else dim

    def _axes(self, axis=None) -> tuple:
        """Axes counted from the start; all where None."""
        if axis is None:
            return tuple(range(self.ndim))
        axes = tuple(self._resolve_dim(each) for each in make_tuple(axis, 1))
        if len(axes) != len(set(axes)):
            raise RuntimeError(f"axis={axis} names an axis more than once")
        return axes if self.ndim else ()

    # ---- bringing operands together

    def ufix(self, other) -> Tensor:
        """A number as a Tensor of a dtype that goes with this one."""
        if isinstance(other, Base):
            return other
        dtype = self.dtype if isinstance(other, bool) or dtypes.is_float(self.dtype) or (
            is_size(other) and dtypes.is_int(self.dtype)) else dtypes.from_py(other)
        if isinstance(other, bool):
            dtype = self.dtype
        return type(self).full((), other, dtype=dtype, device=self.expr.device)

    def _pair(self, other, reverse: bool = False, wraps: bool = False) -> tuple:
        """(x, y, shape, dtype): operands of one dtype; a Python number stays a number.

        wraps: a whole number may be beyond an integer dtype, because the result depends only on the lowest bits of the number
        """
        if isinstance(other, Base):
            x, y = self, other
            if x.dtype is not y.dtype:
                dtype = least_upper_dtype(x.dtype, y.dtype)
                x, y = x.cast(dtype), y.cast(dtype)
            shape = x.shape if x.shape == y.shape else broadcast_shape(x.shape, y.shape)
            return (y, x, shape, x.dtype) if reverse else (x, y, shape, x.dtype)
        x, number = self, as_number(other)
        if isinstance(number, Symbolic):
            dtype = dtypes.default_int if x.dtype is dtypes.bool else x.dtype
            return self._pair(type(self).full((), number, dtype=dtype, device=self.expr.device), reverse)
        if number is None:
            y = type(self)(other, device=self.expr.device)
            return self._pair(y, reverse)
        if isinstance(number, float) and not dtypes.is_float(x.dtype):
            x = x.cast(least_upper_dtype(x.dtype, dtypes.default_float))
        elif x.dtype is dtypes.bool and not isinstance(number, bool):
            x = x.cast(dtypes.default_int)
        if dtypes.is_int(x.dtype):
            whole = int(number)
            number = wrap_number(whole, x.dtype)
            if number != whole and not wraps:
                raise OverflowError(f"{whole} is beyond {x.dtype}; it must be from {dtypes.min(x.dtype)} to {dtypes.max(x.dtype)}: cast "
                                    "the tensor first")
        number = int(number) if isinstance(number, bool) else number
        return (number, x, x.shape, x.dtype) if reverse else (x, number, x.shape, x.dtype)

    def _binary(self, op: str, other, reverse: bool = False, dtype: DType | None = None) -> Tensor:
        x, y, shape, common = self._pair(other, reverse, op in MODULAR)
        if isinstance(x, Base):
            return x._op(op, y, shape=shape, dtype=dtype or common)
        return self._wrap(Expr(op, (x, y.expr), (), shape, dtype or common, y.expr.device))

    def _binary_float(self, op: str, other) -> Tensor:
        """An op on floats.  Integers are cast to the default float first."""
        x = self.cast(least_upper_float(self.dtype))
        return x._binary(op, other.cast(least_upper_float(other.dtype)) if isinstance(other, Base) else other)


def as_number(value) -> Any:
    """A Python number or a formula, of NumPy's scalars too; None where it is none.  TypeError for what no Tensor is made of."""
    if isinstance(value, (bool, int, float, Symbolic)):
        return value
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return value.item()
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return None
    if hasattr(value, "__index__"):
        return value.__index__()
    raise TypeError(f"{type(value).__name__} is no operand of a Tensor")


def wrap_number(number: int, dtype: DType) -> int:
    """A whole number modulo the width of an integer dtype."""
    low = dtypes.min(dtype)
    return (number - low) % (1 << 8 * dtype.itemsize) + low
