# SPDX-License-Identifier: MIT
"""x[...] read and written, gather and scatter."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Base, broadcast_shape
from .dtype import dtypes, least_upper_dtype
from .expr import Expr
from .symbolic import Pins, Symbolic, find, fixed, is_known, now

if TYPE_CHECKING:
    from .tensor import Tensor


class UndecidedError(IndexError):
    """An index that is inside for some values of a Variable and outside for others."""


class Part:
    """What an index takes of one axis: a range of it, perhaps backwards, perhaps without the axis, perhaps picked by a Tensor."""

    __slots__ = ("start", "stop", "step", "backwards", "gone", "pick")

    def __init__(self, start: int, stop: int, step: int = 1, backwards: bool = False, gone: bool = False, pick=None):
        self.start, self.stop, self.step, self.backwards, self.gone, self.pick = start, stop, step, backwards, gone, pick

    @property
    def size(self) -> Any:
        if self.step == 1 and is_known(self.start, self.stop):
            return self.stop - self.start
        return max(0, -(-(self.stop - self.start) // self.step))


def symbolic_part(key: slice, size) -> Part:
    """A slice where a Variable is in an end or in the size: both ends must be inside whatever it is bound to."""
    if key.step is not None and key.step != 1:
        return slice_part(slice(*(each if each is None else int(each) for each in (key.start, key.stop, key.step))), int(size))

    def place(at, otherwise):
        at = otherwise if at is None else at
        if is_known(0, at):
            return size if is_known(size, at) else at
        return size + at if is_known(at, -1) else None
    start, stop = place(key.start, 0), place(key.stop, size)
    if start is None or stop is None or not is_known(stop, size):
        raise UndecidedError(f"{key} does not stay inside of {size!r} whatever its Variables are bound to")
    if not is_known(0, start) or not is_known(start, stop):
        raise UndecidedError(f"{key} of {size!r} may be less than nothing")
    return Part(start, stop)


def slice_part(key: slice, size) -> Part:
    if any(isinstance(each, Symbolic) for each in (key.start, key.stop, key.step, size)):
        return symbolic_part(key, size)
    if any(each is not None and not hasattr(each, "__index__") for each in (key.start, key.stop, key.step)):
        raise TypeError(f"slice {key} of {size} is not supported: its numbers must be whole")
    if key.step is not None and key.step.__index__() == 0:
        raise ValueError("slice step cannot be 0")
    places = range(size)[key]
    if len(places) == 0:
        return Part(0, 0)
    if places.step > 0:
        return Part(places.start, min(size, places[-1] + 1), places.step)
    return Part(places[-1], places.start + 1, -places.step, True)


class IndexingMixin(Base):
    """Indexing: whole numbers, slices with any step, ``...``, None, and lists or Tensors of integers, as in NumPy.

    Negative indices count from the end.  An index out of range is an IndexError: a number raises it at once, a Tensor of indices
    when the result is computed.  With CHECK_INDICES=0 an index out of range in a Tensor reads 0 and writes nothing.
    """

    __slots__ = ()

    def _parts(self, key) -> tuple:
        """(Part of each axis, where new axes come: places among the remaining axes)"""
        keys = list(key) if isinstance(key, tuple) else [key]
        keys = [type(self)(list(each) if isinstance(each, tuple) else each, device=self.expr.device)
                if isinstance(each, (list, tuple)) or hasattr(each, "__array__") and not isinstance(each, Base) and
                getattr(each, "shape", ()) != () else each for each in keys]
        if sum(each is Ellipsis for each in keys) > 1:
            raise IndexError("indices can only have a single ellipsis")
        used = sum(each is not None and each is not Ellipsis for each in keys)
        if used > self.ndim:
            raise IndexError(f"too many {used} for tensor of {self.ndim} dimensions")
        at = next((i for i, each in enumerate(keys) if each is Ellipsis), len(keys))
        keys[at:at + 1] = [slice(None)] * (self.ndim - used)
        parts, fresh, axis = [], [], 0
        for each in keys:
            if each is None:
                fresh.append(sum(not part.gone for part in parts) + len(fresh))
                continue
            size = self.shape[axis]
            if isinstance(each, slice):
                part = slice_part(each, size)
            elif isinstance(each, Base):
                if not dtypes.is_int(each.dtype):
                    raise IndexError(f"index dtype {each.dtype} is not supported")
                part = Part(0, size, pick=each)
            elif isinstance(each, Symbolic) or isinstance(size, Symbolic) and isinstance(each, int) and not isinstance(each, bool):
                number = size + each if is_known(each, -1) else each
                if not is_known(0, number) or not is_known(number, size - 1):
                    raise UndecidedError(f"index {each!r} may be out of bounds with size {size!r}")
                part = Part(number, number + 1, gone=True)
            elif hasattr(each, "__index__") and not isinstance(each, bool):
                number = each.__index__()
                if not -size <= number < size:
                    raise IndexError(f"index {number} is out of bounds with size {size}")
                number %= max(size, 1)
                part = Part(number, number + 1, gone=True)
            else:
                raise IndexError(f"{type(each).__name__} indexing is not supported")
            parts.append(part)
            axis += 1
        return parts, fresh

    def __getitem__(self, indices) -> Tensor:
        try:
            parts, fresh = self._parts(indices)
        except UndecidedError:
            if any(True for _ in find(indices)):
                return self[fixed(indices)]  # with the values that the Variables are bound to
            if Pins.names is not None:
                raise
            return self._renamed(now(self.shape))[indices]  # by plain numbers, of what it is now
        x = self._region(parts)._shaped(parts, fresh)
        picks: list = [part.pick for part in parts if not part.gone]
        for place in fresh:
            picks.insert(place, None)
        return x._pick(picks) if any(each is not None for each in picks) else x

    def _take(self, index: Tensor, dim: int) -> Tensor:
        return self._op("take", index, shape=self.shape[:dim] + index.shape + self.shape[dim + 1:], axis=dim)

    def _pick(self, picks: list) -> Tensor:
        axes = [i for i, each in enumerate(picks) if each is not None]
        if len(axes) == 1:
            return self._take(picks[axes[0]], axes[0])
        rest = [i for i in range(self.ndim) if i not in axes]
        shape = broadcast_shape(*(picks[i].shape for i in axes))
        result = self.permute(axes + rest)._op("index", *(picks[i] for i in axes), shape=shape + tuple(self.shape[i] for i in rest))
        if axes != list(range(axes[0], axes[-1] + 1)):
            return result
        before, count = axes[0], len(shape)
        order = list(range(count, count + before)) + list(range(count)) + list(range(count + before, result.ndim))
        return result.permute(order)

    def __setitem__(self, indices, value) -> None:
        try:
            parts, fresh = self._parts(indices)
        except UndecidedError:
            if all(False for _ in find(indices)):
                raise
            self[fixed(indices)] = value  # with the values that the Variables are bound to
            return
        self._check_no_gradient()
        if not isinstance(value, Base):
            kind = self.dtype if isinstance(value, (bool, int, float, list, tuple, Symbolic)) or not hasattr(value, "dtype") else None
            value = type(self)(value, dtype=kind, device=self.expr.device)
        value = self._as_mine(value, "setitem")
        region = self._region(parts)
        if any(part.pick is not None for part in parts):
            region.assign(region._put(parts, fresh, value))
            return
        region = region._shaped(parts, fresh)
        if not value._is_same_view(region):  # not after x[1:3] += 1, whose += has written the value
            while value.ndim > region.ndim and value.shape[0] == 1:
                value = value.reshape(value.shape[1:])
            region.assign(value._broadcast_to(region.shape))

    def _check_no_gradient(self) -> None:
        view = self._view
        base = None if view is None or any(link.op == "detach" for link in view.links) else view.storage.base()
        if self.requires_grad or base is not None and base.requires_grad:
            raise NotImplementedError("setitem of a Tensor with requires_grad is not supported: write to its detach()")

    def _as_mine(self, value: Tensor, what: str) -> Tensor:
        """|value| in the dtype of self; RuntimeError if the conversion could change numbers by more than rounding."""
        mine, its = self.dtype, value.dtype
        if least_upper_dtype(mine, its) is not mine and not (dtypes.is_float(mine) and dtypes.is_float(its)):
            raise RuntimeError(f"{what} dtype mismatch: {its} cannot become {mine} without a loss; cast the value first")
        return value.cast(mine)

    def _region(self, parts: list) -> Tensor:
        """The part of self that the ranges choose, with all axes."""
        x = self._slice([(part.start, part.stop, part.step) for part in parts])
        back = [i for i, part in enumerate(parts) if part.backwards]
        return x.flip(back) if back else x

    def _shaped(self, parts: list, fresh: list) -> Tensor:
        """Self, a region, without the axes that whole numbers choose, and with new axes for None."""
        shape = [size for size, part in zip(self.shape, parts) if not part.gone]
        for place in fresh:
            shape.insert(place, 1)
        return self.reshape(tuple(shape))

    def _put(self, parts: list, fresh: list, value: Tensor) -> Tensor:
        """Self, a region, with |value| at the indices in Tensors."""
        if fresh:
            raise NotImplementedError("writing with None and Tensors in one index is not supported")
        axes = [i for i, part in enumerate(parts) if part.pick is not None]
        rest = [i for i in range(self.ndim) if i not in axes]
        order = axes + rest
        picks = [parts[i].pick for i in axes]
        together = broadcast_shape(*(each.shape for each in picks))
        # The shape of the value is that of the same index read, where axes of whole numbers are gone.
        front = axes != list(range(axes[0], axes[-1] + 1))
        kept = [i for i in rest if not parts[i].gone]
        before = 0 if front else sum(i < axes[0] for i in kept)
        shape = tuple(self.shape[i] for i in kept)
        value = value._broadcast_to(shape[:before] + together + shape[before:])
        count = len(together)
        value = value.permute(list(range(before, before + count)) + list(range(before)) + list(range(before + count, value.ndim)))
        value = value.reshape(together + tuple(self.shape[i] for i in rest))
        moved = self.permute(order)
        picks = [each._broadcast_to(together).expr for each in picks]
        done = self._wrap(Expr("index_put", (moved.expr, value.expr, *picks), (), moved.shape, self.dtype, moved.expr.device))
        return done.permute([order.index(i) for i in range(self.ndim)])

    # ---- by index

    def gather(self, dim: int, index: Tensor) -> Tensor:
        """torch.gather: along one axis, each element of the result where |index|, which has its shape, says."""
        _check_index("gather", index)
        if index.ndim != self.ndim:
            raise RuntimeError(f"self.ndim must equal index.ndim, {self.ndim=}, {index.ndim=}")
        dim = self._resolve_dim(dim)
        if any(mine < size for i, (mine, size) in enumerate(zip(self.shape, index.shape)) if i != dim):
            raise RuntimeError(f"requires self.shape[d] >= index.shape[d] for all d != dim, {self.shape=}, {index.shape=}")
        x = self.shrink(tuple(None if i == dim else (0, size) for i, size in enumerate(index.shape)))
        return x._op("gather", index, shape=index.shape, axis=dim)

    def _scatter_operands(self, dim: int, index: Tensor, src) -> tuple:
        dim = self._resolve_dim(dim)
        if not isinstance(src, Base):
            src = type(self).full(index.shape, src, dtype=self.dtype, device=self.expr.device)
        if src.dtype is not self.dtype:
            raise RuntimeError(f"scatter: the dtype of src is {src.dtype} and that of self is {self.dtype}; they must be equal: cast src or self")
        _check_index("scatter", index)
        if not self.ndim == index.ndim == src.ndim:
            raise RuntimeError(f"self.ndim, index.ndim and src.ndim must all equal: {self.ndim}, {index.ndim}, {src.ndim}")
        if any(i != dim and mine < size or given < size
               for i, (mine, size, given) in enumerate(zip(self.shape, index.shape, src.shape))):
            raise RuntimeError(f"All dimensions of index.shape={index.shape} should be <= those of src.shape={src.shape} and, "
                               f"but for {dim=}, of self.shape={self.shape}")
        return dim, src.shrink(tuple((0, size) for size in index.shape))

    def scatter(self, dim: int, index: Tensor, src, reduce: str | None = None) -> Tensor:
        """self, with the elements of |src| (a Tensor or number) where |index| says along an axis; reduce: "add" or "multiply"."""
        if reduce not in (None, "add", "multiply"):
            raise TypeError(f"reduce={reduce!r} must be one of None, 'multiply', or 'add'")
        dim, src = self._scatter_operands(dim, index, src)
        return self._op("scatter", index, src, axis=dim, **({"reduce": reduce} if reduce else {}))

    def scatter_reduce(self, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
        """self and the elements of |src| that |index| brings to one place, reduced: "sum", "prod", "mean", "amax" or "amin"."""
        if reduce not in ("sum", "prod", "mean", "amax", "amin"):
            raise RuntimeError(f"reduce={reduce!r} must be one of 'sum', 'prod', 'mean', 'amax', 'amin'")
        dim, src = self._scatter_operands(dim, index, src)
        return self._op("scatter_reduce", index, src, axis=dim, reduce=reduce, include_self=include_self)

    def masked_select(self, mask, size: int | None = None, fill_value=0) -> Tensor:
        """The elements where the mask holds, as a vector.  Without |size| their count is computed first."""
        if not dtypes.is_bool(mask.dtype):
            raise RuntimeError(f"masked_select expects bool mask tensor, got {mask.dtype}")
        shape = broadcast_shape(self.shape, mask.shape)
        x, mask = self._broadcast_to(shape), mask._broadcast_to(shape)
        size = int(mask.sum().item()) if size is None else size
        return x._several("masked_select", mask, results=[((size,), self.dtype), ((), dtypes.int64)], size=size,
                          fill=fill_value)[0]

    def nonzero(self, size: int | None = None, fill_value=0) -> Tensor:
        """Where it is not zero: (count, ndim).  Without |size| the count is computed first."""
        size = int((self != 0).sum().item()) if size is None else size
        results = [((size, self.ndim), dtypes.int64), ((), dtypes.int64)]
        return self._several("nonzero", results=results, size=size, fill=fill_value)[0].cast(dtypes.int32)

    def one_hot(self, num_classes: int = -1) -> Tensor:
        """1 where the class is x, else 0, along a new last axis.  Without num_classes the largest is computed first."""
        if not dtypes.is_int(self.dtype):
            raise RuntimeError(f"expect integer dtype, getting {self.dtype}")
        if num_classes == -1:
            num_classes = int((self.max() + 1).item())
        return self._op("one_hot", shape=self.shape + (num_classes,), dtype=dtypes.default_int)._attrs(
            num_classes=num_classes, dtype=dtypes.default_int.name)


def _check_index(op: str, index: Tensor) -> None:
    """Raise RuntimeError if |index| has no integer dtype."""
    if not dtypes.is_int(index.dtype):
        raise RuntimeError(f"{op}: the dtype of index is {index.dtype}; it must be an integer dtype")
