# SPDX-License-Identifier: MIT
"""Cases of indexing and sorting ops: running folds, sorting, gather and scatter, einsum, Fourier transforms."""

import numpy as np
import torch

from cases import ANY, EXACT, F32, INF, INTS, NAN, NUMBERS, case, distinct, fixed, given, whole, x


def add_running():
    shapes = (((5,), 0), ((3, 70), 1), ((2, 130, 3), 1), ((0, 3), 0), ((3, 0), 1), ((1,), 0))
    for shape, axis in shapes:
        for op in ("cumsum", "cumprod", "logcumsumexp"):
            if op == "logcumsumexp" and 0 in shape:
                continue
            value = x(*shape) if op != "cumprod" else given(1 + 0.3 * np.sin(np.arange(int(np.prod(shape)))).reshape(shape))
            case(op, [value], lambda a, op=op, axis=axis: getattr(torch, op)(a, axis), {"axis": axis},
                 dtypes=EXACT if op != "cumsum" else ("float16", "float32", "float64"), loose=60)
    case("cumsum", [x(4, 9)], lambda a: a.cumsum(1), {"axis": 1}, dtypes=INTS)
    case("cumsum", [x(4, 9)], lambda a: a.cumsum(1), {"axis": 1}, dtypes=("bool",))
    case("cumsum", [x(9)], lambda a: a.cumsum(0, dtype=torch.float64), {"dtype": "float64"}, dtypes=F32, note="dtype")
    case("cumprod", [x(4, 5)], lambda a: a.cumprod(1), {"axis": 1}, dtypes=("int8", "int32", "int64"))
    case("cumprod", [given([[2.0, 0, 3, 4], [1, 2, 0, 0]])], lambda a: a.cumprod(1), {"axis": 1}, note="zeros")
    case("logcumsumexp", [given([-INF, 0.0, 1000, -1000, INF])], lambda a: torch.logcumsumexp(a, 0), grad=False, dtypes=EXACT, note="special")
    for op in ("cummax", "cummin"):
        fn = getattr(torch, op)
        for which in (0, 1):
            for shape, axis in (((5,), 0), ((3, 70), 1), ((2, 7, 3), 1)):
                case(op, [distinct(*shape)], lambda a, fn=fn, axis=axis, which=which: fn(a, axis)[which], {"axis": axis}, pick=(which, 2),
                     dtypes=NUMBERS if which == 0 and shape == (5,) else EXACT)
            case(op, [given([1.0, 3, 3, NAN, 2, 5])], lambda a, fn=fn, which=which: fn(a, 0)[which], grad=False, pick=(which, 2),
                 note=f"special {which}")


def add_order():
    for which in (0, 1):
        for shape, axis in (((5,), 0), ((3, 70), 1), ((2, 64, 3), 1), ((3, 0), 1), ((1,), 0)):
            for down in (False, True):
                case("sort", [x(*shape)], lambda a, axis=axis, down=down, which=which: torch.sort(a, dim=axis, descending=down, stable=True)[which]
                     .clone(), {"axis": axis, "descending": down}, dtypes=NUMBERS if shape == (3, 70) else ("float32",), pick=(which, 2))
        case("sort", [given([1.0, NAN, -INF, 3, NAN, INF, -0.0, 0.0])], lambda a, which=which: torch.sort(a, dim=-1, stable=True)[which], grad=False,
             pick=(which, 2), note=f"special {which}")
        case("sort", [whole((700,), -50, 50)], lambda a, which=which: torch.sort(a, dim=-1, stable=True)[which], dtypes=F32, pick=(which, 2),
             note=f"two runs {which}")
        case("topk", [distinct(4, 50)], lambda a, which=which: torch.topk(a, 5)[which], {"k": 5}, pick=(which, 2))
        case("topk", [distinct(200)], lambda a, which=which: torch.topk(a, 6)[which], {"k": 6}, pick=(which, 2), note=f"few {which}")
        case("topk", [distinct(6, 4)], lambda a, which=which: torch.topk(a, 2, 0, largest=False)[which], {"k": 2, "axis": 0, "largest": False},
             pick=(which, 2))
    case("sort", [x(4, 5)], lambda a: torch.sort(a.to(torch.uint8), dim=-1, stable=True)[0].bool(), dtypes=("bool",), pick=(0, 2))
    case("argsort", [distinct(4, 9)], lambda a: torch.argsort(a, 0), {"axis": 0})
    case("argsort", [distinct(4, 9)], lambda a: torch.argsort(a, -1, descending=True), {"descending": True})


def within(src, index):
    """The part of src that index uses: torch 1.13 has no gradients of a larger src."""
    return src[tuple(slice(n) for n in index.shape)]


def add_scatter():
    for shape, index, axis in (((5,), (7,), 0), ((3, 7), (2, 4), 1), ((4, 3, 5), (4, 2, 3), 0), ((3, 4), (3, 0), 1)):
        src = tuple(n + (i == axis) for i, n in enumerate(index))
        where = whole(index, 0, shape[axis])
        for how in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False):
                case("scatter_reduce", [x(*shape), where, x(*src)],
                     lambda a, i, s, axis=axis, how=how, include=include: a.scatter_reduce(axis, i, within(s, i), how, include_self=include),
                     {"axis": axis, "reduce": how, "include_self": include}, dtypes=EXACT, grad=how in ("sum", "mean"), loose=8)
        case("scatter", [x(*shape), where, x(*src)], lambda a, i, s, axis=axis: a.scatter(axis, i, within(s, i), reduce="add"),
             {"axis": axis, "reduce": "add"}, dtypes=NUMBERS, grad=False, loose=4)
        case("scatter", [x(*shape), where, x(*src)], lambda a, i, s, axis=axis: a.scatter(axis, i, within(s, i), reduce="multiply"),
             {"axis": axis, "reduce": "multiply"}, dtypes=EXACT, grad=False, loose=4)
    once = fixed([[3, 0, 2], [1, 2, 0]], "int64")
    case("scatter", [x(2, 4), once, x(2, 3)], lambda a, i, s: a.scatter(1, i, s), {"axis": 1}, dtypes=ANY)
    case("scatter", [x(2, 4), once, 7], lambda a, i, s: a.scatter(1, i, s), {"axis": 1}, dtypes=NUMBERS)
    for shape, index, axis in (((130, 5), (210, 5), 0), ((3, 90), (3, 333), 1)):  # more positions than the compiler searches through
        where = whole(index, 0, shape[axis])
        for how in ("sum", "mean", "amax"):
            case("scatter_reduce", [x(*shape), where, x(*index)], lambda a, i, s, axis=axis, how=how: a.scatter_reduce(axis, i, s, how),
                 {"axis": axis, "reduce": how}, dtypes=EXACT, grad=how != "amax", loose=16, note=f"of many places {shape} {how}")
        case("scatter", [x(*shape), where, x(*index)], lambda a, i, s, axis=axis: a.scatter(axis, i, s, reduce="add"),
             {"axis": axis, "reduce": "add"}, dtypes=NUMBERS, grad=False, loose=16, note=f"of many places {shape}")
    case("scatter", [x(100), whole((70000,), 0, 100), whole((70000,), -3, 4, "int32")], lambda a, i, s: a.scatter_add(0, i, s), {"reduce": "add"},
         dtypes=("int32",), grad=False, note="of more turns than some devices take")
    case("scatter", [x(4), fixed([9, -5, 2], "int32"), x(3)], lambda a, i, s: a.scatter(0, torch.tensor([2]), s[2:]), note="out of range")


def add_index():
    rows, columns = whole((3, 1), -4, 4), whole((1, 2), -5, 5)
    case("index", [x(4, 5, 6), rows, columns], lambda a, i, j: a[i, j], dtypes=ANY)
    case("index", [x(6, 4, 5), rows, columns], lambda a, i, j: a[:, i, j], {"axis": 1})
    case("index", [x(4, 3), whole((2, 2), 0, 4)], lambda a, i: a[i], dtypes=NUMBERS)
    case("index", [x(4, 3), fixed([5, -9, 1], "int32")], lambda a, i: torch.stack([a[0] * 0, a[0] * 0, a[1]]), note="out of range")
    put = [fixed([[0], [1], [2]], "int64"), fixed([[0, 3]], "int64")]
    for add in (False, True):
        case("index_put", [x(4, 5, 6), x(3, 2, 6), *put], lambda a, v, i, j, add=add: a.index_put((i, j), v, add), {"accumulate": add}, loose=4)
        case("index_put", [x(4, 5), x(5), fixed([2, 0], "int64")], lambda a, v, i, add=add: a.index_put((i,), v, add), {"accumulate": add})
    case("index_put", [x(4, 5), x(3, 5), fixed([1, 1, 3], "int64")], lambda a, v, i: a.index_put((i,), v, True), {"accumulate": True}, loose=4)
    case("index_put", [x(120, 24), x(180, 24), whole((180,), -120, 120)], lambda a, v, i: a.index_put((i,), v, True), {"accumulate": True}, loose=16,
         note="of many rows")
    case("take", [x(150, 20), whole((9, 16), 0, 150)], lambda a, i: a[i], loose=16, note="of many rows")
    case("gather", [x(70, 6), whole((250, 6), 0, 70)], lambda a, i: torch.gather(a, 0, i), {"axis": 0}, loose=16, note="of many rows")
    case("index_put", [x(4, 5), 7, fixed([1, 8], "int64")], lambda a, v, i: torch.cat([a[:1], 0 * a[:1] + 7, a[2:]]), dtypes=INTS,
         note="out of range")
    mask = [[True, False, True], [False, False, True]]

    def select(a, m, size, fill):
        chosen = torch.masked_select(a, m)
        return torch.cat([chosen, torch.full((size,), fill).to(a.dtype)])[:size]

    case("masked_select", [x(2, 3), fixed(mask, "bool")], lambda a, m: select(a, m, 5, 0), {"size": 5}, dtypes=ANY, pick=(0, 2))
    case("masked_select", [x(2, 3), fixed(mask, "bool")], lambda a, m: select(a, m, 2, -1), {"size": 2, "fill": -1}, pick=(0, 2))
    case("masked_select", [x(2, 3), fixed(mask[0], "bool")], lambda a, m: m.sum() * 2, {"size": 2}, pick=(1, 2))
    case("masked_select", [x(300), whole((300,), 0, 2)], lambda a, m: select(a, m.bool(), 200, 0), {"size": 200}, pick=(0, 2), note="blocks")
    for which in (0, 1):
        case("nonzero", [fixed([[0, 1, 0], [2, 0, 3]], "int32")], lambda a, which=which: (torch.tensor([[0, 1], [1, 0], [1, 2], [9, 9]]), torch.tensor(3))[which],
             {"size": 4, "fill": 9}, dtypes=F32, pick=(which, 2))


def add_products():
    table = (("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ii->i", (4, 4)), ("ii", (4, 4)),
             ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("i,j->ij", (3,), (4,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
             ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 2)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("iij->j", (3, 3, 4)),
             ("...i->...", (2, 3)), ("ba,c", (2, 3), (4,)), (" i j , j -> i ", (3, 4), (4,)), ("ij,jk->ik", (0, 3), (3, 4)))
    for equation, *shapes in table:
        case("einsum", [x(*shape) for shape in shapes], lambda *a, equation=equation: torch.einsum(equation, *a), {"equation": equation}, loose=20)
    case("einsum", [x(3, 4), x(4, 5)], lambda a, b: torch.einsum("ij,jk->ik", a, b), {"equation": "ij,jk->ik"}, dtypes=("int32", "int64"))

    def schulz(a):
        y = a / (torch.sqrt((a * a).sum((-2, -1), keepdim=True)) + 1e-7)
        tall = y.shape[-2] > y.shape[-1]
        y = y.mT if tall else y
        for _ in range(5):
            s = y @ y.mT
            y = 3.4445 * y + (-4.775 * s + 2.0315 * s @ s) @ y
        return y.mT if tall else y

    for shape in ((3, 4), (5, 2), (2, 3, 3)):
        case("newton_schulz", [x(*shape)], schulz, dtypes=EXACT, loose=400)


def add_fourier():
    for shape, axis in (((8,), -1), ((1,), 0), ((3, 12), 1), ((60, 2), 0), ((100,), 0), ((97,), 0), ((2, 7, 5), 1)):
        for which, part in enumerate(("real", "imag")):
            for op in ("fft", "ifft"):
                fn = getattr(torch.fft, op)
                case(op, [x(*shape), x(*shape)], lambda a, b, fn=fn, axis=axis, part=part: getattr(fn(torch.complex(a, b), dim=axis), part) + 0,
                     {"axis": axis}, dtypes=EXACT, loose=60, pick=(which, 2))
            case("fft", [x(*shape)], lambda a, axis=axis, part=part: getattr(torch.fft.fft(a, dim=axis), part) + 0, {"axis": axis}, dtypes=EXACT,
                 loose=60, pick=(which, 2))
            case("rfft", [x(*shape)], lambda a, axis=axis, part=part: getattr(torch.fft.rfft(a, dim=axis), part) + 0, {"axis": axis}, dtypes=EXACT,
                 loose=60, pick=(which, 2))
        half = tuple(n // 2 + 1 if i == axis % len(shape) else n for i, n in enumerate(shape))
        case("irfft", [x(*half), x(*half)], lambda a, b, axis=axis, n=shape[axis]: torch.fft.irfft(torch.complex(a, b), n, dim=axis),
             {"axis": axis, "n": shape[axis]}, dtypes=EXACT, loose=60)
    case("irfft", [x(5), x(5)], lambda a, b: torch.fft.irfft(torch.complex(a, b)), dtypes=EXACT, loose=60)



for add in (add_running, add_order, add_scatter, add_index, add_products, add_fourier):
    add()
