# SPDX-License-Identifier: MIT
"""Matrix products, convolutions, pooling, norms, attention."""
from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from .base import Base, ShapeError, argfix, broadcast_shape, ceildiv, check_positive, make_tuple, one_device
from .dtype import dtypes, least_upper_dtype, least_upper_float, sum_acc_dtype, to_dtype
from .expr import Expr

if TYPE_CHECKING:
    from .tensor import Tensor


class LinalgMixin(Base):
    """Methods that work on matrices and windows."""

    __slots__ = ()

    # ---- products

    def dot(self, w: Tensor, dtype=None) -> Tensor:
        """Matrix product over the last axis of self and the second to last of w (its only one, of a vector); others broadcast."""
        if not isinstance(w, Base):
            w = type(self)(w, device=self.expr.device)
        if not self.ndim or not w.ndim:
            raise RuntimeError(f"both tensors need to be at least 1D, got {self.ndim}D and {w.ndim}D")
        if self.shape[-1] != w.shape[-min(w.ndim, 2)]:
            raise ShapeError(f"cannot dot {self.shape} and {w.shape}")
        common = to_dtype(dtype) if dtype is not None else least_upper_dtype(self.dtype, w.dtype)
        rows, columns = self.shape[-2:-1], w.shape[-1:] if w.ndim > 1 else ()
        shape = broadcast_shape(self.shape[:-2], w.shape[:-2]) + rows + columns
        return self.cast(common)._op("matmul", w.cast(common), shape=shape)

    def matmul(self, x: Tensor, reverse=False, dtype=None) -> Tensor:
        """self @ x, or x @ self if reverse."""
        if reverse and not isinstance(x, Base):
            x = type(self)(x, device=self.expr.device)
        return x.dot(self, dtype=dtype) if reverse else self.dot(x, dtype=dtype)

    def linear(self, weight: Tensor, bias: Tensor | None = None, dtype=None) -> Tensor:
        """self @ weight + bias: self (..., in), weight (in, out) or (in,), bias (out,)."""
        if dtype is not None:
            return self.cast(dtype).linear(weight.cast(dtype), bias.cast(dtype) if bias is not None else None)
        x = self * weight if weight.ndim == 1 else self.dot(weight)
        return x + bias if bias is not None else x

    @classmethod
    def einsum(cls, formula: str, *operands: Tensor, dtype=None) -> Tensor:
        """Products summed over the letters that the right side lacks, as in ``Tensor.einsum("ij,jk->ik", a, b)``.  Integers are added in the dtype of ``sum``."""
        xs = list(argfix(*operands))
        left, arrow, right = formula.replace(" ", "").partition("->")
        groups = left.split(",")
        if len(groups) != len(xs):
            raise ShapeError(f"number of operands doesn't match, expected {len(groups)}, got {len(xs)}")
        sizes: dict = {}
        spread: tuple = ()
        for group, x in zip(groups, xs):
            letters = group.replace("...", ".")
            extra = x.ndim - len(letters.replace(".", ""))
            if extra < 0 or extra and "." not in letters:
                raise ShapeError(f"{group!r} does not fit {x.shape}")
            at = 0
            for letter in letters:
                if letter == ".":
                    spread = broadcast_shape(spread, x.shape[at:at + extra])
                    at += extra
                    continue
                if sizes.setdefault(letter, x.shape[at]) not in (x.shape[at], 1) and x.shape[at] != 1:
                    raise ShapeError(f"axis {letter} of {formula!r} is {sizes[letter]} and {x.shape[at]}")
                at += 1
        if not arrow:
            counted = left.replace(",", "").replace(".", "")
            right = ("..." if "..." in left else "") + "".join(sorted(each for each in set(counted) if counted.count(each) == 1))
        twice = next((letter for letter in right if letter != "." and right.count(letter) > 1), None)
        if twice is not None:
            raise ShapeError(f"{formula!r} has {twice} more than once on its right side; each letter may be there once")
        if any(letter not in sizes for letter in right.replace(".", "")):
            raise ShapeError(f"{formula!r} has letters on its right that the left lacks")
        shape = tuple(size for letter in right.replace("...", ".") for size in (spread if letter == "." else (sizes[letter],)))
        common = to_dtype(dtype) if dtype is not None else sum_acc_dtype(least_upper_dtype(*(x.dtype for x in xs)))
        exprs = tuple(x.cast(common).expr for x in xs)
        return cls._wrap(Expr("einsum", exprs, (("equation", f"{left}->{right}"),), shape, common, one_device(*exprs)))

    def qr(self) -> tuple:
        """(Q, R) of (..., m, n): Q (..., m, m), R (..., m, n)."""
        if self.ndim < 2:
            raise RuntimeError(f"expected two or more dimensions, got {self.ndim}")
        rows, columns = self.shape[-2:]
        short, dtype = min(rows, columns), least_upper_float(self.dtype)
        return self._several("qr", results=[(self.shape[:-1] + (short,), dtype), (self.shape[:-2] + (short, columns), dtype)])

    def svd(self, full_matrices: bool = True) -> tuple:
        """(U, S, V transposed) of (..., m, n)."""
        if self.ndim < 2:
            raise RuntimeError(f"expected two or more dimensions, got {self.ndim}")
        rows, columns = self.shape[-2:]
        short, lead, dtype = min(rows, columns), self.shape[:-2], least_upper_float(self.dtype)
        left, right = (rows, columns) if full_matrices else (short, short)
        return self._several("svd", results=[(lead + (rows, left), dtype), (lead + (short,), dtype),
                                             (lead + (right, columns), dtype)],
                             full_matrices=bool(full_matrices))

    def newton_schulz(self, steps: int, params: tuple, eps: float = 1.0e-7) -> Tensor:
        """Near the orthogonal matrix of self, by steps of the odd polynomial of |params|."""
        if self.ndim < 2:
            raise RuntimeError(f"ndim must be >= 2, got {self.ndim}")
        g = self / (self.square().sum(axis=(-2, -1), keepdim=True).sqrt() + eps)
        turned = self.shape[-2] > self.shape[-1]
        g = g.transpose(-2, -1) if turned else g
        for _ in range(steps):
            square, power, total = g @ g.transpose(-2, -1), g, params[0] * g
            for p in params[1:]:
                power = square @ power
                total = total + p * power
            g = total
        return g.transpose(-2, -1) if turned else g

    def scaled_dot_product_attention(self, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                     is_causal: bool = False, enable_gqa: bool = False) -> Tensor:
        """softmax(self @ key^T / sqrt(depth) + mask) @ value, of (..., length, depth); a bool mask says what may be seen."""
        if enable_gqa:
            times = self.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(times, dim=-3), value.repeat_interleave(times, dim=-3)
        scores = self.matmul(key.transpose(-2, -1), dtype=least_upper_dtype(self.dtype, key.dtype, dtypes.float32)) / \
            math.sqrt(self.shape[-1])
        if is_causal:
            if attn_mask is not None:
                raise RuntimeError("cannot set attn_mask when is_causal=True")
            attn_mask = type(self).full(scores.shape[-2:], True, dtype=dtypes.bool, device=self.expr.device).tril()
        if attn_mask is not None:
            if attn_mask.dtype is dtypes.bool:
                attn_mask = attn_mask.where(0, -math.inf)
            scores = scores + attn_mask
        return scores.cast(self.dtype).softmax(-1).dropout(dropout_p) @ value

    # ---- convolution

    def _pairs(self, padding, count: int) -> list:
        """Padding of |count| axes as (before, after) from the first; given as a number, a number each, or flat from the last."""
        if isinstance(padding, int):
            return [(padding, padding)] * count
        padding = tuple(padding)
        if len(padding) == 2 * count:
            return [(padding[2 * i], padding[2 * i + 1]) for i in range(count)][::-1]
        if len(padding) != count:
            raise ShapeError(f"Padding must be an int or a sequence of length {count} or {2 * count}, but got {padding=} with "
                             f"{self.shape=}.")
        return [(each, each) for each in padding]

    def conv2d(self, weight: Tensor, bias: Tensor | None = None, groups=1, stride=1, dilation=1, padding=0, dtype=None) -> Tensor:
        """Convolution over any number of axes: self (N, C, ...), weight (O, C / groups, ...), bias (O,)."""
        if dtype is not None:
            return self.cast(dtype).conv2d(weight.cast(dtype), None if bias is None else bias.cast(dtype), groups, stride, dilation, padding)
        count = weight.ndim - 2
        if self.ndim != weight.ndim or count < 1:
            raise ShapeError(f"input has {self.ndim} axes and weight has {weight.ndim}; they must have equally many, at least 3")
        check_positive("groups", groups)
        check_positive("stride", *make_tuple(stride, count))
        check_positive("dilation", *make_tuple(dilation, count))
        if groups * weight.shape[1] != self.shape[1] or weight.shape[0] % groups:
            raise ShapeError(f"Input Tensor shape {self.shape} does not match the shape of the weights {weight.shape}. "
                               f"({groups * weight.shape[1]} vs. {self.shape[1]})")
        if bias is not None and bias.shape != (weight.shape[0],):
            raise ShapeError(f"bias {bias.shape} is not ({weight.shape[0]},)")
        pairs, stride, dilation = self._pairs(padding, count), make_tuple(stride, count), make_tuple(dilation, count)
        if len(stride) != count or len(dilation) != count:
            raise ShapeError(f"stride/dilation mismatch kernel:{weight.shape[2:]} stride:{stride} dilation:{dilation}")
        x = self
        if any(before != after for before, after in pairs):
            x, pairs = self.pad((None, None, *pairs)), [(0, 0)] * count
        pads = tuple(before for before, _ in pairs)
        sizes = tuple((size + 2 * pad - step * (kernel - 1) - 1) // hop + 1 for size, pad, kernel, step, hop in
                      zip(x.shape[2:], pads, weight.shape[2:], dilation, stride))
        if any(size < 1 for size in sizes):
            raise ShapeError(f"kernel {weight.shape[2:]} is larger than the input {x.shape[2:]} with padding {pads}")
        shape = (x.shape[0], weight.shape[0], *sizes)
        common = least_upper_float(least_upper_dtype(x.dtype, weight.dtype, *([bias.dtype] if bias is not None else [])))
        operands = [each.cast(common) for each in (weight, bias) if each is not None]
        x = x.cast(common)
        if count == 1:  # of height 1
            operands[0] = operands[0].unsqueeze(2)
            x = x.unsqueeze(2)._op("conv2d", *operands, shape=(*shape[:2], 1, *shape[2:]), stride=(1, *stride),
                                   padding=(0, *pads),
                                   dilation=(1, *dilation), groups=groups)
            return x.squeeze(2)
        return x._op("conv2d" if count == 2 else "conv", *operands, shape=shape, stride=stride, padding=pads, dilation=dilation,
                     groups=groups)

    def conv_transpose2d(self, weight: Tensor, bias: Tensor | None = None, groups=1, stride=1, dilation=1, padding=0,
                         output_padding=0) -> Tensor:
        """Transposed convolution over any number of axes: self (N, C, ...), weight (C, O / groups, ...), bias (O,)."""
        count = weight.ndim - 2
        if self.shape[1] != weight.shape[0] or weight.shape[0] % groups:
            raise ShapeError(f"input {self.shape} and weight {weight.shape} with {groups=} do not go together")
        kernel = weight.shape[2:]
        pairs, stride, dilation = self._pairs(padding, count), make_tuple(stride, count), make_tuple(dilation, count)
        more = make_tuple(output_padding, count)
        check_positive("stride", *stride)
        check_positive("dilation", *dilation)
        if any(extra >= max(hop, d) for extra, hop, d in zip(more, stride, dilation)):
            raise ShapeError(f"output_padding {more} must be below stride {stride} or dilation {dilation}")
        w = weight.unflatten(0, (groups, -1)).transpose(1, 2).flip(tuple(range(3, weight.ndim + 1))).flatten(0, 1)
        x = self
        if any(hop > 1 for hop in stride):  # zeros between the elements
            sizes = x.shape[2:]
            x = x.reshape(x.shape[:2] + tuple(each for size in sizes for each in (size, 1)))
            x = x.pad((None, None) + tuple(each for hop in stride for each in (None, (0, hop - 1))))
            x = x.reshape(x.shape[:2] + tuple(size * hop for size, hop in zip(sizes, stride)))
            x = x.shrink((None, None) + tuple((0, size - (hop - 1)) for size, hop in zip(x.shape[2:], stride)))
        around = [((k - 1) * d - before, (k - 1) * d - after + extra) for k, d, (before, after), extra in
                  zip(kernel, dilation, pairs, more)]
        return x.pad((None, None, *around)).conv2d(w, groups=groups, bias=bias, dilation=dilation)

    # ---- pooling

    def _pool_shape(self, kernel: tuple, stride: tuple, dilation: tuple, pairs: list, ceil_mode: bool) -> tuple:
        """(sizes of the result, (before, after) with what ceil_mode adds)"""
        sizes, padded = [], []
        for size, k, hop, d, (before, after) in zip(self.shape[-len(kernel):], kernel, stride, dilation, pairs):
            room = size + before + after - d * (k - 1) - 1
            if room < 0:
                raise ShapeError(f"kernel {kernel} is larger than the input {self.shape}")
            out = ceildiv(room, hop) + 1 if ceil_mode else room // hop + 1
            if ceil_mode and (out - 1) * hop >= size + before:  # the last window would begin in the padding
                out -= 1
            sizes.append(out)
            padded.append((before, max(after, (out - 1) * hop + d * (k - 1) + 1 - size - before)))
        return tuple(sizes), padded

    def _windows(self, kernel: tuple, stride: tuple, dilation: tuple, sizes: tuple) -> list:
        """Self, padded, at each place of the kernel: a list of Tensors (..., *sizes)."""
        lead = [(0, size, 1) for size in self.shape[:-len(kernel)]]
        axes = list(zip(dilation, sizes, stride))
        return [self._slice(lead + [(at * d, at * d + (out - 1) * hop + 1, hop) for at, (d, out, hop) in zip(place, axes)])
                for place in itertools.product(*(range(k) for k in kernel))]

    def _pool_arguments(self, kernel_size, stride, dilation, padding, ceil_mode) -> tuple:
        kernel = make_tuple(kernel_size, 2)
        count = len(kernel)
        stride = kernel if stride is None else make_tuple(stride, count)
        check_positive("kernel_size", *kernel)
        check_positive("stride", *stride)
        check_positive("dilation", *make_tuple(dilation, count))
        dilation, pairs = make_tuple(dilation, count), self._pairs(padding, count)
        if len(stride) != count or len(dilation) != count or self.ndim < count:
            raise ShapeError(f"stride/dilation mismatch {kernel=} {stride=} {dilation=} for {self.shape}")
        return (kernel, stride, dilation, pairs, *self._pool_shape(kernel, stride, dilation, pairs, ceil_mode))

    def avg_pool2d(self, kernel_size=(2, 2), stride=None, dilation=1, padding=0, ceil_mode=False,
                   count_include_pad=True) -> Tensor:
        """Mean of each window over the last axes, as many as the kernel has; stride is the kernel's size unless given."""
        kernel, stride, dilation, pairs, sizes, padded = self._pool_arguments(kernel_size, stride, dilation, padding, ceil_mode)
        lead, dtype = self.shape[:-len(kernel)], least_upper_float(self.dtype)
        if plain_pool(kernel, dilation, pairs, sizes, stride, self.shape):
            return self._op("avg_pool2d", shape=lead + sizes, dtype=dtype, kernel_size=kernel, stride=stride,
                            padding=tuple(before for before, _ in pairs), count_include_pad=bool(count_include_pad))
        around = ((0, 0),) * len(lead)
        total = sum_list(self.cast(dtype).pad(around + tuple(padded))._windows(kernel, stride, dilation, sizes))
        ones = type(self).ones(*self.shape[-len(kernel):], dtype=dtype, device=self.expr.device)
        if count_include_pad:
            ones = ones.pad(tuple(pairs), value=1.0)
            padded = [(0, after - given) for (_, after), (_, given) in zip(padded, pairs)]
        return total / sum_list(ones.pad(tuple(padded))._windows(kernel, stride, dilation, sizes))

    def max_pool2d(self, kernel_size=(2, 2), stride=None, dilation=1, padding=0, ceil_mode=False, return_indices=False) -> Any:
        """Largest of each window over the last axes; return_indices: (values, places in the flattened last axes) instead."""
        kernel, stride, dilation, pairs, sizes, padded = self._pool_arguments(kernel_size, stride, dilation, padding, ceil_mode)
        lead = self.shape[:-len(kernel)]
        if not return_indices and plain_pool(kernel, (1, 1), pairs, sizes, stride, self.shape, dilation):
            return self._op("max_pool2d", shape=lead + sizes, kernel_size=kernel, stride=stride,
                            padding=tuple(before for before, _ in pairs), dilation=dilation)
        around = ((0, 0),) * len(lead)
        least = dtypes.min(self.dtype)
        windows = self.pad(around + tuple(padded), value=int(least) if not dtypes.is_float(self.dtype) else least)._windows(
            kernel, stride, dilation, sizes)
        every = windows[0].stack(*windows[1:], dim=-1)
        if not return_indices:
            return every.max(-1)
        space = self.shape[-len(kernel):]
        places = type(self).arange(math.prod(space), device=self.expr.device).reshape(space).pad(tuple(padded))
        places = places._windows(kernel, stride, dilation, sizes)
        places = places[0].stack(*places[1:], dim=-1).expand(every.shape)
        return every.max(-1), places.gather(-1, every.argmax(-1, keepdim=True)).squeeze(-1)

    def max_unpool2d(self, indices: Tensor, kernel_size=(2, 2), stride=None, dilation=1, padding=0, output_size=None) -> Tensor:
        """Values back at the places that max_pool2d gave; zeros elsewhere."""
        kernel = make_tuple(kernel_size, 2)
        count = len(kernel)
        stride, dilation, pairs = kernel if stride is None else make_tuple(stride, count), make_tuple(dilation, count), \
            self._pairs(padding, count)
        rows = zip(self.shape[-count:], stride, pairs, dilation, kernel)
        space = tuple((size - 1) * hop - sum(pad) + d * (k - 1) + 1 for size, hop, pad, d, k in rows)
        space = space if output_size is None else tuple(output_size)[-count:]
        lead = self.shape[:-count]
        plane = type(self).zeros(lead + (math.prod(space),), dtype=self.dtype, device=self.expr.device)
        return plane.scatter(-1, indices.reshape(lead + (-1,)), self.reshape(lead + (-1,)), reduce="add").reshape(lead + space)

    def interpolate(self, size: tuple, mode: str = "linear", align_corners: bool = False) -> Tensor:
        """The last axes resampled to |size|; mode: "linear", which rounds integers, "nearest" or "nearest-exact"."""
        whole = isinstance(size, (tuple, list)) and all(isinstance(each, int) for each in size)
        if not whole or not 0 < len(size) <= self.ndim:
            raise RuntimeError(f"size={size!r} must be a tuple of whole numbers, at most {self.ndim}")
        check_positive("size", *size)
        if mode not in ("linear", "nearest", "nearest-exact"):
            raise ValueError("only supports linear, nearest or nearest-exact interpolate")
        if align_corners and mode != "linear":
            raise ValueError("align_corners option can only be set with the interpolating mode linear")
        x = self.float() if mode == "linear" and not dtypes.is_float(self.dtype) else self
        for axis, (old, new) in enumerate(zip(self.shape[-len(size):], size), self.ndim - len(size)):
            ramp = type(self).arange(new, dtype=dtypes.float32, device=self.expr.device)
            if mode != "linear":
                shift = 0.5 if mode == "nearest-exact" else 0
                index = ((ramp + shift) * (old / new)).floor().cast(dtypes.int32).clamp(0, old - 1)
                x = x._take(index, axis)
                continue
            place = ramp * ((old - 1) / (new - 1) if new > 1 else 0) if align_corners else (ramp + 0.5) * (old / new) - 0.5
            place = place.clamp(0, old - 1)
            low = place.floor()
            part = (place - low).reshape((new,) + (1,) * (x.ndim - axis - 1))
            first, last = (x._take(each.cast(dtypes.int32), axis) for each in (low, place.ceil()))
            x = first.lerp(last, part)
        return x if x.dtype is self.dtype else x.round().cast(self.dtype)

    # ---- norms

    def layernorm(self, axis=-1, eps: float = 1e-5) -> Tensor:
        """(x - mean) / sqrt(variance + eps) over the axes."""
        axes = self._axes(axis)
        if axes == tuple(range(self.ndim - len(axes), self.ndim)):
            return self._op("layer_norm", dtype=least_upper_float(self.dtype), axis=axes, eps=eps)
        y = self - self.mean(axis, keepdim=True)
        return y * (y.square().mean(axis, keepdim=True) + eps).rsqrt()

    def batchnorm(self, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, axis=1) -> Tensor:
        """(x - mean) * weight * invstd + bias, each along an axis (or several)."""
        axes = tuple(self._resolve_dim(each) for each in make_tuple(axis, 1))
        shape = tuple(size if i in axes else 1 for i, size in enumerate(self.shape))
        x = self - mean.reshape(shape)
        if weight is not None:
            x = x * weight.reshape(shape)
        x = x * (invstd.reshape(shape) if len(invstd.shape) == len(axes) else invstd)
        return x + bias.reshape(shape) if bias is not None else x


def sum_list(tensors: list) -> Tensor:
    total = tensors[0]
    for each in tensors[1:]:
        total = total + each
    return total


def plain_pool(kernel, ones, pairs, sizes, stride, shape, dilation=(1, 1)) -> bool:
    """Whether the server's own pooling of two axes does it: even padding of at most half a window, nothing from ceil_mode."""
    if len(kernel) != 2 or any(each != 1 for each in ones):
        return False
    if any(before != after or 2 * before > k for (before, after), k in zip(pairs, kernel)):
        return False
    return all(out == (size + 2 * before - d * (k - 1) - 1) // hop + 1 for out, size, (before, _), k, hop, d in
               zip(sizes, shape[-2:], pairs, kernel, stride, dilation))
