# SPDX-License-Identifier: MIT
"""Cases of windows and movement: convolutions, pools, resampling, padding, reordering."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

from cases import ANY, EXACT, F32, FLOATS, INF, INTS, NAN, NUMBERS, case, distinct, fixed, given, whole, x

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
SIZES = {1: (11,), 2: (7, 6), 3: (5, 4, 6)}  # sizes of the axes over which windows move
KERNEL = {1: (3,), 2: (3, 2), 3: (2, 3, 1)}


def both_ends(pairs):
    """The argument of F.pad: the last axis first."""
    return [n for pair in reversed(list(zip(pairs[::2], pairs[1::2]))) for n in pair]


# ---- convolutions

def add_convolutions():
    for n, (stride, padding, dilation, groups) in itertools.product((1, 2, 3), ((1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (3, 1, 1, 4))):
        attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        case("conv", [x(2, 4, *[s + 1 for s in SIZES[n]]), x(8, 4 // groups, *KERNEL[n]), x(8)],
             lambda a, w, b, n=n, attrs=attrs: CONV[n](a, w, b, **attrs), attrs, loose=30, dtypes=FLOATS if stride == 2 else EXACT)
    case("conv", [x(1, 3, 9), x(2, 3, 4)], lambda a, w: F.conv1d(F.pad(a, (2, 1)), w), {"padding": [2, 1]}, loose=20, note="[before, after]")
    pairs = [1, 0, 2, 3]
    case("conv", [x(1, 2, 5, 4), x(3, 2, 3, 3)], lambda a, w: F.conv2d(F.pad(a, both_ends(pairs)), w), {"padding": pairs}, loose=20,
         note="pairs")
    case("conv", [x(1, 2, 5, 4), x(3, 2, 3, 2)], lambda a, w: F.conv2d(a, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
         {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2]}, loose=20, note="for each axis")
    strided = ((1, 20, 5, 4, 2, 3), (1, 12, 4, 4, 0, 1), (2, 12, 3, 2, 1, 1), (2, 8, 4, 4, 0, 1), (2, 9, 3, 3, 1, 1), (2, 10, 2, 5, 0, 1),
               (2, 12, 4, 2, 1, 1), (2, 12, 5, 3, 4, 2), (2, 15, 3, 5, 2, 3), (3, 8, 3, 2, 1, 1), (3, 4, 2, 2, 0, 1))
    for n, size, kernel, stride, padding, dilation in strided:
        attrs = {"stride": stride, "padding": padding, "dilation": dilation}
        case("conv", [x(2, 3, *[size] * n), x(4, 3, *[kernel] * n)], lambda a, w, n=n, attrs=attrs: CONV[n](a, w, **attrs), attrs, loose=30,
             note=f"{kernel} of {size} by {stride}")
    case("conv", [x(0, 2, 5), x(3, 2, 3)], F.conv1d, note="nothing")
    case("conv", [x(1, 1, 1), x(1, 1, 1), x(1)], F.conv1d, note="one")
    case("conv2d", [x(1, 2, 5, 4), x(3, 2, 3, 3)], lambda a, w: F.conv2d(F.pad(a, both_ends(pairs)), w), {"padding": pairs}, loose=20,
         note="pairs")
    rows = ((1, 0, 0, 1, 1), (2, 1, 1, 1, 2), (3, 0, 2, 1, 1), (2, 2, 0, 2, 1), (1, 3, 0, 2, 4), (3, 1, 1, 2, 2))
    for n, (stride, padding, extra, dilation, groups) in itertools.product((1, 2, 3), rows):
        if n == 3 and stride == 3:
            continue  # many elements without additional coverage
        kernel = [k + 2 for k in KERNEL[n]] if padding > 1 else KERNEL[n]
        attrs = {"stride": stride, "padding": padding, "output_padding": extra, "dilation": dilation, "groups": groups}
        # torch's own op has a wrong shape in bfloat16
        case("conv_transpose", [x(2, 4, *[s - 1 for s in SIZES[n]]), x(4, 4 // groups, *kernel), x(4)],
             lambda a, w, b, n=n, attrs=attrs: TRANSPOSE[n](a, w, b, **attrs), attrs, loose=30, dtypes=("float16", *EXACT))
    case("conv_transpose", [x(1, 2, 3, 4), x(2, 3, 2, 3)],
         lambda a, w: F.conv_transpose2d(a, w, stride=(2, 3), padding=(1, 0), output_padding=(0, 1), dilation=(1, 2)),
         {"stride": [2, 3], "padding": [1, 0], "output_padding": [0, 1], "dilation": [1, 2]}, loose=20, note="for each axis")
    case("conv_transpose", [x(1, 2, 3), x(2, 3, 4)], lambda a, w: F.conv_transpose1d(a, w, stride=2)[..., 1:-2],
         {"stride": 2, "padding": [1, 2]}, loose=20, note="[before, after]")
    case("conv_transpose", [x(1, 2, 3), x(2, 3, 1)], lambda a, w: F.conv_transpose1d(a, w, stride=3)[..., 2:-1],
         {"stride": 3, "padding": [2, 1]}, loose=20, note="cropped within the stride")
    case("conv_transpose", [x(0, 2, 3), x(2, 3, 4)], F.conv_transpose1d, note="nothing")
    case("conv_transpose", [x(1, 1, 1), x(1, 1, 1)], F.conv_transpose1d, note="one")


# ---- pools

POOLS = ((2, None, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2), (3, 3, 0, 1), (2, 3, 1, 1), (1, 2, 0, 1))  # size, stride, padding, dilation


def add_pools():
    for n, (size, stride, padding, dilation), ceil in itertools.product((1, 2, 3), POOLS, (False, True)):
        shape = (2, *SIZES[n]) if n == 3 else (1, 2, *SIZES[n])
        if n == 3 and stride == 1:
            continue
        attrs = {"kernel_size": size, "padding": padding, "ceil_mode": ceil, "dims": n, **({} if stride is None else {"stride": stride})}
        given_max = (size, stride, padding, dilation, ceil)
        case("max_pool", [distinct(*shape)], lambda a, n=n, p=given_max: MAX[n](a, *p), {**attrs, "dilation": dilation}, loose=4)
        for which in range(2):
            case("max_pool_indices", [distinct(*shape)], lambda a, n=n, p=given_max, which=which: MAX[n](a, *p, return_indices=True)[which],
                 {**attrs, "dilation": dilation}, loose=4, pick=(which, 2))
        for include in (True, False):
            if dilation == 1:
                case("avg_pool", [x(*shape)], lambda a, n=n, p=(size, stride, padding, ceil, include): AVG[n](a, *p),
                     {**attrs, "count_include_pad": include}, loose=8)
    case("max_pool", [distinct(2, 5, 7)], lambda a: F.max_pool2d(a, (2, 3), (1, 2), (0, 1)), {"kernel_size": [2, 3], "stride": [1, 2], "padding": [0, 1]})
    case("max_pool", [distinct(3, 7)], lambda a: F.max_pool1d(a, 2), {"kernel_size": [2]}, dtypes=FLOATS, note="a list says how many axes")
    case("max_pool", [x(0, 4, 4)], lambda a: F.max_pool2d(a.reshape(0, 1, 4, 4), 2).reshape(0, 2, 2), {"kernel_size": 2}, note="nothing")
    case("max_pool", [distinct(7)], lambda a: F.max_pool1d(F.pad(a, (1, 0), value=-INF)[None], 3, 2)[0],
         {"kernel_size": 3, "stride": 2, "padding": [1, 0], "dims": 1}, note="[before, after]")
    case("max_pool", [given(np.arange(32).reshape(2, 4, 4) % 11)], lambda a: F.max_pool2d(a.float(), 2, 1, 1).to(a.dtype),
         {"kernel_size": 2, "stride": 1, "padding": 1}, dtypes=INTS)
    special = [[-INF, -INF, NAN, 1.0, 2], [-INF, -INF, 0, 3, 3]]
    case("max_pool", [given([special])], lambda a: F.max_pool2d(a, 2, 1), {"kernel_size": 2, "stride": 1}, grad=False, note="special")
    for which in range(2):
        case("max_pool_indices", [given([[[1, 3, 3, 0], [3, 2, 0, 0]]])], lambda a, w=which: F.max_pool2d(a.float(), 2, return_indices=True)[w].to((a.dtype, torch.int64)[w]),
             {"kernel_size": 2}, dtypes=NUMBERS, grad=False, pick=(which, 2), note=f"ties {which}")
        case("max_pool_indices", [given([[[-INF, -INF, -INF]] * 3])], lambda a, w=which: F.max_pool2d(a, 2, 2, 1, return_indices=True)[w],
             {"kernel_size": 2, "padding": 1}, grad=False, pick=(which, 2), note=f"nothing larger than the padding {which}")
    for op, fn in {"max_pool2d": F.max_pool2d, "avg_pool2d": F.avg_pool2d}.items():
        case(op, [distinct(1, 2, 7, 8)], lambda a, fn=fn: fn(a, 3, 2, 1, ceil_mode=True), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
             loose=8, note="ceil_mode")
        case(op, [distinct(1, 5, 7)], lambda a, fn=fn: fn(a, 2, ceil_mode=True), {"kernel_size": 2, "ceil_mode": True}, loose=8, note="ceil_mode of tiles")
    case("avg_pool", [x(2, 5)], lambda a: F.avg_pool1d(a, 3, 2), {"kernel_size": [3], "stride": 2}, loose=4)
    case("avg_pool", [fixed([[1, 2, 4, 8]], "int32")], lambda a: F.avg_pool1d(a.float(), 2), {"kernel_size": 2, "dims": 1}, dtypes=F32, grad=False,
         note="int32 makes float32")


def unpooled(n, shape, size, stride=None, padding=0, output=None):
    """Indices from a pool of random numbers, and torch's max_unpool of values with the pooled shape."""
    pooled, indices = MAX[n](torch.randperm(int(np.prod(shape)), generator=torch.Generator().manual_seed(n)).float().reshape(shape), size, stride,
                             padding, return_indices=True)
    return tuple(pooled.shape), fixed(indices.numpy(), "int64"), lambda a, i: UNPOOL[n](a, i, size, stride, padding, output)


def add_unpools():
    for n, (size, stride, padding) in itertools.product((1, 2, 3), ((2, None, 0), (3, None, 1), (2, 3, 0))):
        shape, indices, fn = unpooled(n, (1, 2, *[s // 2 * 2 + 1 for s in SIZES[n]]), size, stride, padding)
        output = [s // 2 * 2 + 1 for s in SIZES[n]]
        fn = unpooled(n, (1, 2, *output), size, stride, padding, output)[2]
        case("max_unpool", [x(*shape), indices], fn, {"kernel_size": size, "padding": padding, "output_size": output, "dims": n,
                                                      **({} if stride is None else {"stride": stride})}, loose=2)
    shape, indices, fn = unpooled(2, (2, 6, 4), 2)
    case("max_unpool", [x(*shape), indices], fn, {"kernel_size": 2}, note="the size of the pool's input")
    shape, indices, fn = unpooled(1, (1, 3, 8), 2)
    case("max_unpool", [x(*shape), indices], lambda a, i, fn=fn: fn(a.double(), i).to(a.dtype), {"kernel_size": [2]}, dtypes=NUMBERS, grad=False, note="dtypes")
    case("max_unpool", [given([1.0, 2, 3, 4]), fixed([1, 1, -1, 9], "int32")], lambda a, i: torch.stack([0 * a[0], a[1], 0 * a[0], 0 * a[0], 0 * a[0]]),
         {"kernel_size": 2, "dims": 1, "output_size": 5}, note="the last of two, nothing outside")
    case("max_unpool", [x(0, 3), fixed(np.zeros((0, 3)), "int64")], lambda a, i: a.reshape(0, 3).repeat_interleave(2, 1), {"kernel_size": [2]}, note="nothing")


# ---- padding and movement

def np_pad(pairs, mode):
    """numpy.pad, which supports every axis, with gradients by torch's indexing."""
    words = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}

    def pad(a):
        where = np.pad(np.arange(a.numel()).reshape(tuple(a.shape)), list(zip(pairs[::2], pairs[1::2])), words[mode])
        return a.reshape(-1)[torch.from_numpy(where)]
    return pad


def add_padding():
    for mode in ("reflect", "replicate", "circular"):
        for shape, pairs in (((5,), [2, 3]), ((3, 4), [0, 0, 1, 2]), ((3, 4), [2, 1, 0, 3]), ((2, 3, 4), [1, 1, 2, 0, 0, 3]), ((0, 4), [0, 0, 1, 2])):
            case("pad", [x(*shape)], np_pad(pairs, mode), {"padding": pairs, "mode": mode}, dtypes=ANY)
        for pairs in ([2, -1], [-1, 2], [-1, -2], [-2, 3] if mode != "circular" else [-2, 2]):
            case("pad", [x(1, 1, 4)], lambda a, p=pairs, m=mode: F.pad(a, p, mode=m), {"padding": [0, 0, 0, 0, *pairs], "mode": mode}, note=f"{mode} {pairs}")
        case("pad", [x(2, 2, 4, 5)], lambda a, m=mode: F.pad(a, (2, 1, -1, 2), mode=m), {"padding": [0, 0, 0, 0, -1, 2, 2, 1], "mode": mode},
             note=f"{mode} and cropped")
    case("pad", [x(6)], np_pad([6, 6], "circular"), {"padding": [6, 6], "mode": "circular"}, note="circular, as far as it goes")
    for pairs in ([-1, 2, 1, -2], [-1, -1, -2, 0], [-3, 1, 0, 0], [1, -3, 2, 2]):
        case("pad", [x(3, 4)], lambda a, p=pairs: F.pad(a, both_ends(p)), {"padding": pairs}, dtypes=ANY, note=f"cropped {pairs}")
        case("pad", [x(3, 4)], lambda a, p=pairs: F.pad(a, both_ends(p), value=2.5), {"padding": pairs, "value": 2.5}, note=f"cropped {pairs} 2.5")


def move(op, shape, fn, attrs=None, **more):
    case(op, [x(*shape)], fn, attrs, dtypes=ANY, **more)


def sliced(a, *slices):
    """NumPy's slices, including negative steps."""
    where = np.arange(a.numel()).reshape(tuple(a.shape))[slices]
    return a.reshape(-1)[torch.from_numpy(where.copy())]


def add_movement():
    for shape, shift, axis in (((7,), 2, 0), ((7,), -9, 0), ((3, 4), [1, -1], [0, 1]), ((3, 4), [1, 1], [1, 1]), ((0, 3), [2, 1], [0, 1]), ((3, 4), 12, 1),
                               ((17, 33), [-5, 40], [0, -1])):
        move("roll", shape, lambda a, s=shift, d=axis: a.roll(s, d), {"shift": shift, "axis": axis})
    for shape, shift in (((3, 4), 5), ((2, 3), -1), ((), 1), ((0, 3), 1), ((5,), 0)):
        move("roll", shape, lambda a, s=shift: a.roll(s), {"shift": shift}, note=f"flat {list(shape)}")
    for shape, repeats in (((3,), [2]), ((2, 3), [2, 3]), ((2, 3), [4, 1, 2]), ((), [3]), ((3,), [0]), ((0, 2), [2, 2]), ((1, 5), [3, 1]), ((2,), [2, 2, 3])):
        move("repeat", shape, lambda a, r=repeats: a.repeat(*r), {"repeats": repeats})
    for shape, repeats, axis in (((3, 4), 2, 1), ((3, 4), 3, 0), ((3, 4), 0, 0), ((0, 4), 2, -1), ((3, 1), 5, 1)):
        move("repeat_interleave", shape, lambda a, r=repeats, d=axis: a.repeat_interleave(r, d), {"repeats": repeats, "axis": axis})
    move("repeat_interleave", (2, 3), lambda a: a.repeat_interleave(2), {"repeats": 2}, note="flat")
    for shape, axis, size, step in (((9,), 0, 3, 2), ((9,), 0, 2, 1), ((3, 7), 1, 3, 3), ((3, 7), 0, 2, 5), ((0, 4), 1, 2, 1), ((5,), 0, 5, 9)):
        move("unfold", shape, lambda a, p=(axis, size, step): a.unfold(*p), {"axis": axis, "size": size, "step": step})
    for shape, offset, axis0, axis1 in (((4, 4), 0, 0, 1), ((3, 5), 1, 0, 1), ((5, 3), -1, 0, 1), ((3, 5), 3, 1, 0), ((2, 3, 4), 0, 1, 2), ((2, 3, 4), -1, 0, -1),
                                        ((2, 3, 4), 1, 2, 0), ((0, 3), 0, 0, 1), ((3, 3), 3, 0, 1), ((3, 3), -9, 0, 1), ((1, 1), 0, 0, 1), ((17, 33), -7, 0, 1)):
        move("diagonal", shape, lambda a, p=(offset, axis0, axis1): a.diagonal(*p), {"offset": offset, "axis0": axis0, "axis1": axis1})
    for shape, offset in (((3,), 0), ((3,), 2), ((3,), -1), ((0,), 0), ((0,), 2), ((1,), 0), ((3, 4), 0), ((4, 3), -2), ((3, 4), 9)):
        move("diag", shape, lambda a, k=offset: a.diagonal(k) if a.dim() == 2 else torch.diag_embed(a, k), {"offset": offset})
    case("diag", [given([INF, NAN, -0.0])], torch.diag, grad=False, note="special")
    for shape, start, stop, step in (((7,), None, None, -1), ((7,), None, None, -3), ((7,), 5, 1, -2), ((7,), -2, -6, -1), ((7,), 99, -99, -2), ((7,), 1, 5, -1),
                                     ((7,), 0, -8, -1), ((0,), None, None, -1), ((1,), None, None, -5), ((7,), None, 2, -1), ((7,), 3, None, -1)):
        attrs = {k: v for k, v in (("start", start), ("stop", stop), ("step", step)) if v is not None}
        move("slice", shape, lambda a, s=slice(start, stop, step): sliced(a, s), attrs, note=f"{shape[0]} backwards {attrs}")
    move("slice", (4, 5), lambda a: sliced(a, slice(None, None, -1), slice(None, None, 2)), {"step": [-1, 2]})
    move("slice", (4, 5), lambda a: sliced(a, slice(None), slice(3, 0, -2)), {"start": 3, "stop": 0, "step": -2, "axis": -1})


def rearranged(split, order, to):
    """reshape, permute, reshape."""
    return lambda a: a.reshape(split).permute(order).reshape(to)


def add_rearrange():
    rows = (("a b -> b a", (3, 4), (3, 4), (1, 0), (4, 3)),
            ("b (h=3 w) c -> b c h w", (2, 6, 4), (2, 3, 2, 4), (0, 3, 1, 2), (2, 4, 3, 2)),
            ("b c (h p=2) (w q=2) -> b (h w) (p q c)", (2, 3, 4, 6), (2, 3, 2, 2, 3, 2), (0, 2, 4, 3, 5, 1), (2, 6, 12)),
            ("... a b->... b a", (2, 3, 4, 5), (2, 3, 4, 5), (0, 1, 3, 2), (2, 3, 5, 4)), ("a b -> (a b)", (3, 4), (3, 4), (0, 1), (12,)),
            ("a b ... -> ... (b a)", (2, 3, 4), (2, 3, 4), (2, 1, 0), (4, 6)), ("a 1 b -> b 1 a 1", (2, 1, 3), (2, 3), (1, 0), (3, 1, 2, 1)),
            ("(a b c) -> c (b=3 a=2) ()", (12,), (2, 3, 2), (2, 1, 0), (2, 6, 1)),
            ("a b -> b a", (0, 4), (0, 4), (1, 0), (4, 0)), (" -> 1", (), (), (), (1,)), ("a ... -> a ...", (3,), (3,), (0,), (3,)),
            ("x_1 (y2 z=33) -> z x_1 y2", (17, 33), (17, 1, 33), (2, 0, 1), (33, 17, 1)))
    for formula, shape, split, order, to in rows:
        move("rearrange", shape, rearranged(split, order, to), {"formula": formula}, note=f"{formula} of {list(shape)}")


# ---- resampling

def resampled(a, size, mode, corners=None):
    """F.interpolate with any leading axes."""
    b = a.reshape(1, -1, *a.shape[a.dim() - len(size):])
    kind = {"linear": ["linear", "bilinear", "trilinear"][len(size) - 1]}.get(mode, mode)
    return F.interpolate(b, size=size, mode=kind, align_corners=corners).reshape(*a.shape[:a.dim() - len(size)], *size)


def add_interpolation():
    rows = (((2, 3, 4), (8,)), ((2, 3, 6), (4,)), ((2, 3, 5), (7,)), ((3, 8), (2,)), ((3, 9), (3,)), ((2, 7), (5,)), ((2, 5), (1,)), ((2, 1), (4,)),
            ((1, 3, 4), (6, 8)), ((1, 5, 4), (3, 7)), ((2, 4, 6), (4, 9)), ((1, 2, 3, 4), (3, 2, 8)), ((0, 4), (8,)), ((17, 33), (12,)), ((3, 4), (4,)))
    for shape, size in rows:
        for mode in ("nearest", "nearest-exact"):
            case("interpolate", [x(*shape)], lambda a, s=size, m=mode: resampled(a, s, m) if a.numel() else a.new_zeros(a.shape[0], *s) + a.sum(),
                 {"size": list(size), "mode": mode})
        for corners in (False, True):
            word = "linear" if corners else ["linear", "bilinear", "trilinear"][len(size) - 1]
            case("interpolate", [x(*shape)], lambda a, s=size, c=corners: resampled(a, s, "linear", c) if a.numel() else a.new_zeros(a.shape[0], *s) + a.sum(),
                 {"size": list(size), "mode": word, "align_corners": corners}, loose=16)
    case("interpolate", [fixed([[1, 2, 4]], "int32")], lambda a: resampled(a.float(), (6,), "linear", False), {"size": 6, "mode": "linear"}, dtypes=F32,
         grad=False, note="int32 makes float32")


def add_parts():
    """Further methods of tinygrad's Tensor: parts, grids, fills, and pairs of statistics."""
    for axis, shape, sizes in ((0, (7, 2), 3), (1, (2, 6), 3), (-1, (2, 5), [1, 0, 4]), (0, (4,), 9), (0, (0, 2), 3)):
        count = len(torch.zeros(*shape).split(sizes, axis))
        for which in range(count):
            case("split", [x(*shape)], lambda a, p=(sizes, axis), w=which: a.split(*p)[w].clone(), {"sizes": sizes, "axis": axis}, dtypes=ANY, pick=(which, count))
    for axis, shape, chunks in ((0, (7, 2), 3), (1, (2, 6), 4), (0, (3,), 5), (0, (5,), 1)):
        count = len(torch.zeros(*shape).chunk(chunks, axis))
        for which in range(count):
            case("chunk", [x(*shape)], lambda a, p=(chunks, axis), w=which: a.chunk(*p)[w].clone(), {"chunks": chunks, "axis": axis}, dtypes=FLOATS,
                 pick=(which, count))
    for word in ("ij", "xy"):
        for sizes in ((2, 3, 4), (3,), (2, 0)):
            for which in range(len(sizes)):
                case("meshgrid", [x(n) for n in sizes], lambda *a, word=word, w=which: torch.meshgrid(*a, indexing=word)[w].clone(), {"indexing": word},
                     dtypes=FLOATS, pick=(which, len(sizes)))
    case("pad_to", [x(2, 3)], lambda a: F.pad(a, (0, 2, 0, 1)), {"shape": [3, 5]}, dtypes=ANY)
    case("pad_to", [x(2, 3)], lambda a: F.pad(a, (0, 1), value=-1.5), {"shape": [-1, 4], "value": -1.5})
    case("pad_to", [x(0, 3)], lambda a: F.pad(a, (0, 0, 0, 2), value=2), {"shape": [2, 3], "value": 2}, note="nothing")
    case("shrink_to", [x(4, 3)], lambda a: a[:2], {"shape": [2, -1]}, dtypes=ANY)
    case("shrink_to", [x(4, 3)], lambda a: a[:0, :2], {"shape": [0, 2]}, note="nothing")
    case("full_like", [x(2, 3)], lambda a: torch.full_like(a, 1), {"value": 1}, dtypes=ANY, grad=False)
    case("full_like", [x(2, 3)], lambda a: torch.full_like(a, 2.5, dtype=torch.float32), {"value": 2.5, "dtype": "float32"}, dtypes=F32, grad=False)
    case("masked_fill", [x(3, 4), whole((4,), 0, 2), x()], lambda a, m, v: torch.where(m.bool(), v, a), dtypes=NUMBERS)
    case("masked_fill", [x(3, 4), whole((3, 4), 0, 2), 2], lambda a, m, v: a.masked_fill(m.bool(), v), dtypes=NUMBERS, note="a number")
    case("contiguous_backward", [x(3, 4)], lambda a: a * 1, dtypes=FLOATS)
    for which in (0, 1):
        for attrs in ({}, {"axis": [1]}, {"axis": [0, 2], "keepdim": True, "correction": 0}):
            options = {"dim": tuple(attrs.get("axis", (0, 1, 2))), "keepdim": attrs.get("keepdim", False), "correction": attrs.get("correction", 1)}
            case("var_mean", [x(2, 3, 4)], lambda a, o=options, w=which: torch.var_mean(a, **o)[w], attrs, loose=12, pick=(which, 2))
            case("std_mean", [x(2, 3, 4)], lambda a, o=options, w=which: torch.std_mean(a, **o)[w], attrs, loose=12, pick=(which, 2))
    for a, b, attrs in (([1.0, 2], [1.000001, 2], {}), ([1.0, 2], [1.1, 2], {}), ([1.0, NAN], [1.0, NAN], {}), ([1.0, NAN], [1.0, NAN], {"equal_nan": True}),
                        ([INF, 1], [INF, 1], {}), ([], [], {})):
        case("allclose", [given(a), given(b)], lambda a, b, o=attrs: torch.tensor(torch.allclose(a, b, **o)), attrs, dtypes=EXACT, grad=False)
    case("allclose", [given([1.0, 2]), given([1.2, 2])], lambda a, b: torch.tensor(torch.allclose(a, b, atol=0.3)), {"atol": 0.3}, dtypes=EXACT, grad=False)
    op = "sparse_categorical_crossentropy"
    for word in ("mean", "sum", "none"):
        def loss(a, t, word=word, ignore=-1, smooth=0.0):
            y = F.cross_entropy(a.flatten(0, -2), t.flatten(), reduction=word, ignore_index=ignore, label_smoothing=smooth)
            return y.reshape(t.shape) if word == "none" else y
        case(op, [x(2, 3, 5), fixed([[0, 4, -1], [2, 2, -1]], "int64")], loss, {"reduction": word}, loose=20)
        case(op, [x(6, 5), fixed([0, 4, 1, 2, 2, 3], "int64")], lambda a, t, f=loss: f(a, t, ignore=2, smooth=0.1),
             {"reduction": word, "ignore_index": 2, "label_smoothing": 0.1}, loose=20)


def add_linspace():
    rows = ((0, 1, 5), (-3, 7.5, 11), (2, 2, 3), (5, -5, 4), (1, 9, 1), (1, 9, 0), (0, 1, 2), (0.1, 0.7, 33))
    for start, stop, steps in rows:
        case("linspace", [], lambda p=(start, stop, steps): torch.linspace(*p), {"start": start, "stop": stop, "steps": steps}, dtypes=F32)
    case("linspace", [], lambda: torch.linspace(0, 3, 7, dtype=torch.float64), {"start": 0, "stop": 3, "steps": 7, "dtype": "float64"}, dtypes=("float64",))
    case("linspace", [], lambda: torch.linspace(0, 3, 7).half(), {"start": 0, "stop": 3, "steps": 7, "dtype": "float16"}, dtypes=F32, note="float16")


for add in (add_convolutions, add_pools, add_unpools, add_padding, add_movement, add_rearrange, add_interpolation, add_linspace, add_parts):
    add()
