# SPDX-License-Identifier: MIT
"""Shapes: everything that moves elements and changes none."""
from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from .base import Base, ShapeError, argfix, broadcast_shape, ceildiv, make_tuple, one_device
from .dtype import dtypes, least_upper_dtype
from .expr import Expr, held, is_plain, numel
from .symbolic import Pins, Symbolic, VariableError, find, fixed, is_known, is_size, now
from .views import RENAMED

if TYPE_CHECKING:
    from .tensor import Tensor


class MovementMixin(Base):
    """Methods that give the same elements in another arrangement."""

    __slots__ = ()

    # ---- the primitives

    def reshape(self, shape, *args) -> Tensor:
        """The same elements as |shape|; one size may be -1, and None keeps that of its axis."""
        given = argfix(shape, *args)
        sizes = tuple(self.shape[i] if size is None else size if isinstance(size, Symbolic) else int(size)
                      for i, size in enumerate(given))
        if sizes.count(-1) > 1:
            raise RuntimeError(f"only one dimension can be inferred using -1, getting {given}")
        if -1 in sizes:
            rest = -math.prod(sizes)
            if rest == 0 or self.numel() % rest:
                raise ShapeError(f"size mismatch, can't reshape ({self.shape}) -> ({sizes})")
            sizes = tuple(self.numel() // rest if size == -1 else size for size in sizes)
        if numel(sizes) != self.numel() and (_named(sizes) or _named(self.shape)) and now(numel(sizes)) == now(self.numel()):
            return self._renamed(sizes)
        if numel(sizes) != self.numel() or not all(is_known(0, size) for size in sizes):
            raise ShapeError(f"size mismatch, can't reshape ({self.shape}) -> ({sizes})")
        if sizes == self.shape:
            return self
        made = self._op("reshape", shape=sizes)._attrs(shape=sizes)
        if self._repeats and [size for size in sizes if size != 1] != [size for size in self.shape if size != 1]:
            return made  # a copy, as in PyTorch: strides over the elements in memory cannot express the result
        return made._shows(self)

    def _renamed(self, sizes: tuple) -> Tensor:
        """The same elements, with Variables in the place of the numbers that they are bound to, or the other way."""
        if Pins.names is not None:
            raise VariableError(f"{self.shape} is {sizes} only for what its Variables are bound to now, which a captured function "
                                "cannot rely on")
        if not is_plain(sizes):
            raise ValueError(f"{self.shape} as {sizes}: only Variables themselves may stand for numbers")
        self.realize()
        fixed = held(self.expr.handle, now(self.shape), self.dtype, self.expr.device)
        if not _named(sizes):
            return self._wrap(self._wrap(fixed).reshape(sizes).expr)._shows(self, RENAMED)
        made = self._wrap(fixed).reshape(now(sizes)).contiguous().realize()
        return self._wrap(held(made.expr.handle, sizes, self.dtype, self.expr.device))._shows(self, RENAMED)

    def _attrs(self, **attrs) -> Tensor:
        self.expr.attrs = tuple(attrs.items())
        return self

    view = reshape

    def permute(self, order, *args) -> Tensor:
        """Axis i of the result is axis order[i]."""
        axes = tuple(self._resolve_dim(each) for each in argfix(order, *args))
        if sorted(axes) != list(range(self.ndim)):
            raise RuntimeError(f"order is not a valid permutation, getting {axes}")
        if axes == tuple(range(self.ndim)):
            return self
        return self._op("permute", shape=tuple(self.shape[i] for i in axes))._attrs(axes=axes)._shows(self)

    def expand(self, shape, *args) -> Tensor:
        """Axes of size 1 repeated, new ones in front; -1 and None keep a size."""
        given = argfix(shape, *args)
        old = (1,) * (len(given) - self.ndim) + self.shape
        sizes = tuple(mine if size in (-1, None) else size for mine, size in zip(old, given))
        if len(given) < self.ndim or any(size in (-1, None) for size in given[:len(given) - self.ndim]) or any(mine not in (1, size) for mine, size in zip(old, sizes)):
            raise ShapeError(f"cannot expand {self.shape} to {given}")
        return self.reshape(sizes) if sizes == old else self._op("expand", shape=sizes)._attrs(shape=sizes)._shows(self)

    def shrink(self, arg) -> Tensor:
        """The part between (start, stop) of each axis; None keeps one whole."""
        if len(arg) != self.ndim:
            raise ShapeError(f"shrink of {self.ndim} axes with {len(arg)} ranges")
        ranges = tuple((0, size) if each is None else tuple(each) for each, size in zip(arg, self.shape))
        if not all(is_known(0, start) and is_known(start, stop) and is_known(stop, size)
                   for (start, stop), size in zip(ranges, self.shape)):
            if any(True for _ in find(ranges)):
                return self.shrink(fixed(ranges))  # with the values that the Variables are bound to
            raise ShapeError(f"invalid shrink {arg} for {self.shape}")
        if all(each == (0, size) for each, size in zip(ranges, self.shape)):
            return self
        return self._op("shrink", shape=tuple(stop - start for start, stop in ranges))._attrs(ranges=ranges)._shows(self)

    def flip(self, axis, *args) -> Tensor:
        """The order along the axes reversed."""
        axes = tuple(self._resolve_dim(each) for each in argfix(axis, *args))
        if len(axes) != len(set(axes)):
            raise RuntimeError(f"dim can appear at most once, getting {axes}")
        return self._op("flip", axis=axes)._shows(self) if axes and self.ndim else self

    def pad(self, padding, mode: str = "constant", value: float = 0.0) -> Tensor:
        """More elements around it; negative numbers take some away.

        padding: flat as in PyTorch, (before, after) from the last axis; or ((before, after) or None, ...) from the first
        mode: "constant" (of |value|), "reflect", "replicate" or "circular"
        """
        if mode not in ("constant", "reflect", "replicate", "circular"):
            raise NotImplementedError(f"mode={mode!r} is not supported")
        pairs = self._padding(padding)
        if mode != "constant":
            return self._pad_mode(pairs, mode)
        part = self.shrink(tuple((_above(-a), size - _above(-b)) for (a, b), size in zip(pairs, self.shape)))
        pairs = tuple((_above(a), _above(b)) for a, b in pairs)
        if all(each.__class__ is int and each == 0 for pair in pairs for each in pair):
            return part._copy()
        shape = tuple(a + size + b for (a, b), size in zip(pairs, part.shape))
        if isinstance(value, float) and not dtypes.is_float(self.dtype):
            if not value.is_integer():
                return part._wrap(part.expr).cast(dtypes.default_float).pad(pairs, value=value)
            value = int(value)
        attrs = {"padding": pairs, **({"value": value} if value or str(value) == "-0.0" else {})}
        return part._op("pad", shape=shape)._attrs(**attrs)

    def _padding(self, padding) -> tuple:
        if all(is_size(each) for each in padding):
            if len(padding) % 2:
                raise ShapeError("Flat padding must have even number of pads")
            flat = tuple(padding)
            pairs = tuple((flat[i], flat[i + 1]) for i in range(0, len(flat), 2))[::-1]
            pairs = ((0, 0),) * (self.ndim - len(pairs)) + pairs
        else:
            pairs = tuple((0, 0) if each is None else tuple(each) for each in padding)
        if len(pairs) != self.ndim:
            raise ShapeError(f"padding length is improper, {padding=} {self.ndim=}")
        return pairs

    def _pad_mode(self, pairs: tuple, mode: str) -> Tensor:
        x = self
        if mode == "circular":  # negative numbers cut first; the rest wraps
            x = self.shrink(tuple((max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(pairs, self.shape)))
            pairs = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
        for axis, (before, after) in enumerate(pairs):
            size = x.shape[axis]
            if mode == "circular" and (before > size or after > size):
                raise ShapeError("Padding value causes wrapping around more than once.")
            if mode == "reflect" and (before >= size or after >= size):
                raise ShapeError(f"Padding ({before}, {after}) should be less than the input size={size} for dim={axis}.")

            def part(start, stop):
                ranges = tuple((start, stop) if i == axis else None for i in range(x.ndim))  # pylint: disable=cell-var-from-loop
                return x.shrink(ranges)  # pylint: disable=cell-var-from-loop

            def edge(at, count):
                one = part(at, at + 1)
                return one.expand(tuple(count if i == axis else n for i, n in enumerate(one.shape)))
            pieces = [x]
            if before > 0:
                pieces.insert(0, part(size - before, size) if mode == "circular" else edge(0, before) if mode == "replicate" else
                              part(1, before + 1).flip(axis))
            if after > 0:
                pieces.append(part(0, after) if mode == "circular" else edge(size - 1, after) if mode == "replicate" else
                              part(size - 1 - after, size - 1).flip(axis))
            x = pieces[0].cat(*pieces[1:], dim=axis) if len(pieces) > 1 else x
            start, total = max(-before, 0), x.shape[axis]
            x = x.shrink(tuple((start, total - max(-after, 0)) if i == axis else None for i in range(x.ndim)))
        return x._copy()

    def _slice(self, ranges: list) -> Tensor:
        """(start, stop, positive step) of each axis."""
        if all(step == 1 for _, _, step in ranges):
            return self.shrink(tuple((start, stop if is_known(start, stop) else max(start, stop)) for start, stop, _ in ranges))
        shape = tuple(max(0, ceildiv(stop - start, step)) for start, stop, step in ranges)
        starts, stops, steps = zip(*ranges)
        stops = tuple(max(start, stop) for start, stop in zip(starts, stops))
        return self._op("slice", shape=shape)._attrs(start=starts, stop=stops, step=steps)._shows(self)

    # ---- made of them

    def squeeze(self, dim=None) -> Tensor:
        """Without the axes of size 1, or without those of |dim| that have it."""
        axes = self._axes(dim)
        return self.reshape(tuple(size for i, size in enumerate(self.shape) if size != 1 or i not in axes))

    def unsqueeze(self, dim: int) -> Tensor:
        """A new axis of size 1."""
        dim = self._resolve_dim(dim, extra=True)
        return self.reshape(self.shape[:dim] + (1,) + self.shape[dim:])

    def transpose(self, dim0=1, dim1=0) -> Tensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        dim0, dim1 = self._resolve_dim(dim0), self._resolve_dim(dim1)
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return self.permute(order)

    @property
    def T(self) -> Tensor:
        """Transposed."""
        return self.transpose()

    def flatten(self, start_dim=0, end_dim=-1) -> Tensor:
        """The axes from start to end made one."""
        start, end = self._resolve_dim(start_dim), self._resolve_dim(end_dim)
        if start > max(end, 0):
            raise ShapeError(f"flatten from axis {start_dim} to {end_dim} of {self.shape}: the first axis must not come after the last axis")
        return self.reshape(self.shape[:start] + (math.prod(self.shape[start:end + 1]),) + self.shape[end + 1:])

    def unflatten(self, dim: int, sizes: tuple) -> Tensor:
        """One axis made several."""
        dim = self._resolve_dim(dim)
        return self.reshape(self.shape[:dim] + tuple(sizes) + self.shape[dim + 1:])

    def rearrange(self, formula: str, **sizes: int) -> Tensor:
        """Axes named and put together anew, as in ``x.rearrange("b (h w) c -> b c h w", h=4)``."""
        left, right = parse_formula(formula, self.ndim)
        known, flat = {**sizes, "1": 1}, []
        if len(left) != self.ndim:
            raise ShapeError(f"{formula!r} has {len(left)} axes on its left, the tensor {self.ndim}")
        if unused := set(sizes) - {name for group in left for name in group}:
            raise RuntimeError(f"{formula!r} has no axis {min(unused)!r}, whose size is given")
        for group, size in zip(left, self.shape):
            unknown = [name for name in group if name not in known]
            if len(unknown) > 1:
                raise RuntimeError(f"sizes of {unknown} are not known")
            rest = math.prod(known[name] for name in group if name in known)
            if unknown:
                known[unknown[0]] = size // max(rest, 1)
            if math.prod(known[name] for name in group) != size:
                kind = RuntimeError if len(group) == 1 else ValueError
                raise kind(f"({' '.join(group)}) of {formula!r} does not make {size}")
            flat += [name for name in group if name != "1"]
        order = [flat.index(name) for group in right for name in group if name != "1"]
        x = self.reshape(tuple(known[name] for name in flat)).permute(order)
        return x.reshape(tuple(math.prod(known[name] for name in group) for group in right))

    def cat(self, *args: Tensor, dim: int = 0) -> Tensor:
        """One after the other along an axis."""
        parts = [self, *args]
        dim = self._resolve_dim(dim)
        if not self.ndim:
            raise ShapeError("cat: the first tensor has no axis; it must have at least one: stack() joins tensors without axes")
        for each in args:
            if each.ndim != self.ndim or any(a != b for i, (a, b) in enumerate(zip(self.shape, each.shape)) if i != dim):
                raise ShapeError(f"cat: shapes differ outside of dim {dim}: {self.shape} and {each.shape}")
        dtype = least_upper_dtype(*(each.dtype for each in parts))
        exprs = tuple(each.cast(dtype).expr for each in parts)
        shape = tuple(sum(each.shape[dim] for each in parts) if i == dim else size for i, size in enumerate(self.shape))
        return self._wrap(Expr("cat", exprs, (("axis", dim),), shape, dtype, one_device(*exprs)))

    def stack(self, *args: Tensor, dim: int = 0) -> Tensor:
        """Side by side along a new axis."""
        tensors = [self, *args] if isinstance(self, Base) else [*self, *args]
        if not tensors:
            raise ShapeError("stack: there is no Tensor; it needs at least one")
        odd = next((each for each in tensors if each.shape != tensors[0].shape), None)
        if odd is not None:
            raise ShapeError(f"stack: shapes {tensors[0].shape} and {odd.shape} differ; they must be equal: cat joins along an existing axis")
        return tensors[0].unsqueeze(dim).cat(*(each.unsqueeze(dim) for each in tensors[1:]), dim=dim)

    def split(self, sizes, dim: int = 0) -> tuple:
        """Parts along an axis: of one size, or of the sizes in a list."""
        dim = self._resolve_dim(dim)
        total = self.shape[dim]
        if isinstance(sizes, int):
            sizes = [min(sizes, total - i) for i in range(0, max(1, total), max(1, sizes))]
        if sum(sizes) != total:
            raise ShapeError(f"expect sizes to sum exactly to {total}, but got {sum(sizes)}")
        ends = list(itertools.accumulate(sizes))
        ranges = [(end - size, end) for size, end in zip(sizes, ends)]
        return tuple(self.shrink(tuple(each if i == dim else None for i in range(self.ndim))) for each in ranges)

    def chunk(self, chunks: int, dim: int = 0) -> list:
        """At most |chunks| parts of one size, but for the last."""
        if not isinstance(chunks, int):
            raise TypeError(f"expect chunks to be an int, got {chunks!r}")
        if chunks <= 0:
            raise ShapeError(f"expect chunks to be greater than 0, got {chunks}")
        dim = self._resolve_dim(dim)
        size = self.shape[dim]
        return list(self.split(ceildiv(size, chunks) if size else [0] * chunks, dim=dim))

    def repeat(self, repeats, *args) -> Tensor:
        """The whole, as often along each axis."""
        counts = argfix(repeats, *args)
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        if len(counts) < self.ndim:
            raise ShapeError(f"repeat of {self.ndim} axes with {len(counts)} numbers")
        spread = self.reshape(tuple(each for size in shape for each in (1, size)))
        spread = spread.expand(tuple(each for count, size in zip(counts, shape) for each in (count, size)))
        return spread.reshape(tuple(count * size for count, size in zip(counts, shape)))._copy()

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Tensor:
        """Each element |repeats| times along an axis; without one, of the flattened tensor."""
        x, dim = (self.flatten(), 0) if dim is None else (self, self._resolve_dim(dim))
        shape = x.shape
        x = x.reshape(shape[:dim + 1] + (1,) + shape[dim + 1:]).expand(shape[:dim + 1] + (repeats,) + shape[dim + 1:])
        return x.reshape(shape[:dim] + (shape[dim] * repeats,) + shape[dim + 1:])._copy()

    def roll(self, shifts, dims=None) -> Tensor:
        """Elements shifted along axes; those that leave come back at the other end."""
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        dims, shifts, x = make_tuple(dims, 1), make_tuple(shifts, 1), self
        if len(dims) != len(shifts):
            raise RuntimeError(f"len(dims)={len(dims)} != len(shifts)={len(shifts)}")
        for dim, shift in zip(dims, shifts):
            dim = x._resolve_dim(dim)
            size = x.shape[dim]
            shift = shift % size if size else 0
            if shift:
                head, tail = x.split([size - shift, shift], dim=dim)
                x = tail.cat(head, dim=dim)
        return x._copy()

    def diag(self) -> Tensor:
        """(n,) as the diagonal of (n, n)."""
        if self.ndim != 1:
            raise ShapeError(f"expect input to be 1-D, getting {self.ndim}-D")
        n = self.shape[0]
        return self.unsqueeze(-1).pad((None, (0, n))).flatten().shrink(((0, n * n),)).reshape(n, n)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal over two axes, as a last axis."""
        dim1, dim2 = self._resolve_dim(dim1), self._resolve_dim(dim2)
        if dim1 == dim2:
            raise RuntimeError("dim1 and dim2 cannot be the same dimension")
        x = self.permute([i for i in range(self.ndim) if i not in (dim1, dim2)] + [dim1, dim2])
        rows, columns = x.shape[-2:]
        up, right = max(-offset, 0), max(offset, 0)
        count = max(0, min(rows - up, columns - right))
        up, right = min(up, rows), min(right, columns)
        x = x.shrink((None,) * (x.ndim - 2) + ((up, up + count), (right, right + count)))
        lead = [(0, size, 1) for size in x.shape[:-2]]
        return x.reshape(x.shape[:-2] + (count * count,))._slice([*lead, (0, count * count, count + 1)])

    def unfold(self, dim: int, size: int, step: int) -> Tensor:
        """Windows of |size| along an axis, |step| apart, as a last axis."""
        if size < 0:
            raise RuntimeError(f"size must be >= 0 but got {size=}")
        if step <= 0:
            raise RuntimeError(f"step must be > 0 but got {step=}")
        dim = self._resolve_dim(dim)
        if not self.ndim:
            raise ShapeError("unfold: the tensor has no axis; it must have at least one: reshape it to (1,)")
        if size > self.shape[dim]:
            raise RuntimeError(f"maximum size for tensor at dimension {dim} is {self.shape[dim]} but size is {size}")
        count = (self.shape[dim] - size) // step + 1
        first, place = (type(self).arange(each, device=self.expr.device) for each in (count, size))
        index = first.reshape(count, 1) * step + place
        x = self._take(index, dim)
        return x.permute([i for i in range(x.ndim) if i != dim + 1] + [dim + 1])

    def shrink_to(self, shape, *args) -> Tensor:
        """The first elements of each axis; None keeps one whole."""
        sizes = argfix(shape, *args)
        return self.shrink(tuple(None if size is None else (0, size) for size in sizes))

    def pad_to(self, shape, *args, value: float = 0.0) -> Tensor:
        """More elements at the end of each axis; None keeps one as it is."""
        sizes = argfix(shape, *args)
        if len(sizes) != self.ndim:
            raise ShapeError(f"dim mismatch: pad_to of {self.shape} with {sizes}")
        return self.pad(tuple(None if size is None else (0, size - mine) for size, mine in zip(sizes, self.shape)), value=value)

    def meshgrid(self, *args: Tensor, indexing: str = "ij") -> tuple:
        """Grids of coordinates from vectors; indexing: "ij" or "xy"."""
        if indexing not in ("ij", "xy"):
            raise RuntimeError(f'indexing must be in ("ij", "xy"), got {indexing}')
        if len(tensors := (self, *args)) == 1:
            return tensors
        axes = tuple(range(len(tensors))) if indexing == "ij" else (1, 0) + tuple(range(2, len(tensors)))
        rows = [each.reshape((-1,) + (1,) * (len(args) - axis)) for axis, each in zip(axes, tensors)]
        shape = broadcast_shape(*(each.shape for each in rows))
        return tuple(each.expand(shape) for each in rows)

    def _broadcast_to(self, shape: tuple) -> Tensor:
        if self.shape == shape:
            return self
        if self.ndim > len(shape):
            raise ShapeError(f"cannot broadcast {self.shape} to {shape}")
        return self.expand(shape)

    def tril(self, diagonal: int = 0) -> Tensor:
        """Zero above the diagonal of the last two axes."""
        return self._triangle("tril", diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """Zero below the diagonal of the last two axes."""
        return self._triangle("triu", diagonal)

    def _triangle(self, op: str, diagonal: int) -> Tensor:
        if self.ndim < 2:
            raise ShapeError(f"{op}: the shape is {self.shape}; it must have at least two axes")
        return self._op(op, diagonal=diagonal)


def _named(shape: tuple) -> bool:
    """Whether Variables are in a shape."""
    return any(isinstance(size, Symbolic) for size in shape)


def _above(size) -> Any:
    """A size, or 0 where it is negative."""
    return size if is_known(0, size) else 0 if is_known(size, 0) else max(int(size), 0)


def parse_formula(formula: str, ndim: int) -> tuple:
    """(left, right) of "b (h w) ... -> ...", each as [["b"], ["h", "w"], ...].  Each axis of "..." gets a name of its own."""
    sides = [parse_side(side, formula) for side in formula.split("->")]
    if len(sides) != 2:
        raise RuntimeError(f"{formula!r} must have one '->'")
    extra = [f"...{i}" for i in range(ndim + 1 - len(sides[0]))]
    left, right = ([group for each in side for group in ([[name] for name in extra] if each == "..." else
                                                         [[n for name in each for n in (extra if name == "..." else [name])]])]
                   for side in sides)
    if any("..." in each and each != "..." for each in sides[0]):
        raise RuntimeError(f"{formula!r} has '...' within parentheses on its left")
    names = [[name for each in side for name in ([each] if each == "..." else each) if name != "1"] for side in sides]
    if sorted(names[0]) != sorted(names[1]) or any(len(set(each)) != len(each) for each in names):
        raise RuntimeError(f"the names on both sides of {formula!r} must be the same, each once on a side")
    return left, right


def parse_side(side: str, formula: str) -> list:
    """"b (h ...) ..." as [["b"], ["h", "..."], "..."]: names within parentheses become one axis."""
    groups: list = []
    inside = None
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", " ... ").split():
        if word == "(" and inside is None:
            inside = []
        elif word == ")" and inside is not None:
            groups.append(inside)
            inside = None
        elif not (word in ("...", "1") or word.isidentifier()):
            raise RuntimeError(f"{word!r} in {formula!r} is not the name of an axis, or its parenthesis has no counterpart")
        elif inside is not None:
            inside.append(word)
        else:
            groups.append(word if word == "..." else [word])
    if inside is not None:
        raise RuntimeError(f"{formula!r} lacks a ')'")
    return groups
