# SPDX-License-Identifier: MIT
"""Reads and writes by index, from tinygrad's tests of indexing, setitem and assign, compared with PyTorch."""
import itertools
import unittest

from beamline import Tensor, TinyJit, Variable, dtypes
from tensors import TensorCase

try:
    import numpy
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs NumPy and PyTorch: {error}") from None


class Ours:
    """The operations of a case for beamline."""
    zeros, arange = staticmethod(lambda *shape: Tensor.zeros(*shape).contiguous()), staticmethod(lambda *shape: made(shape).contiguous())
    make = staticmethod(lambda value, dtype=None: Tensor(value, dtype=dtype))
    flip = staticmethod(lambda x, *axes: x.flip(*axes))
    crop = staticmethod(lambda x, *ranges: x.shrink(ranges))
    put = staticmethod(lambda x, value: x.assign(value))
    bits = staticmethod(lambda x, dtype: x.bitcast(dtype))


class Theirs:
    """The operations of a case for PyTorch."""
    zeros, arange = staticmethod(torch.zeros), staticmethod(lambda *shape: torch.arange(numpy.prod(shape), dtype=torch.float32).reshape(shape))
    make = staticmethod(lambda value, dtype=None: torch.tensor(value, dtype=dtype and getattr(torch, dtype)))
    flip = staticmethod(lambda x, *axes: x.flip(axes))
    crop = staticmethod(lambda x, *ranges: x[tuple(slice(*each) for each in ranges)])
    put = staticmethod(lambda x, value: x.copy_(value))
    bits = staticmethod(lambda x, dtype: x.view(getattr(torch, dtype)))


def made(shape):
    return Tensor.arange(int(numpy.prod(shape))).float().reshape(shape)


SLICES = [slice(None), slice(1, 2), slice(1, None), slice(None, -1), slice(-2, None), slice(None, None, 2), slice(1, 5, 2), slice(2, 2), slice(5, 1), slice(-100, 100), 0, -1, 1]
BACKWARDS = [slice(None, None, -1), slice(None, None, -2), slice(-1, 0, -2), slice(3, None, -1), slice(1, 3, -1), slice(-2, -5, -3)]
SCALARS = [[0], [2, 1], [-1, 0, -2], [[0, 1], [2, 2]], [[[1]]], []]


class GetitemTest(TensorCase):
    """test_ops.py: test_slice_*, and the five sets of indices of test_slice_fancy_indexing_*."""

    def same(self, ours, theirs, note=""):
        self.assertEqual(ours.shape, tuple(theirs.shape), note)
        self.assertEqual(ours.tolist(), theirs.tolist(), note)

    def test_slices(self):
        x, y = Ours.arange(5, 4, 3), Theirs.arange(5, 4, 3)
        for key in [(a,) for a in SLICES] + list(itertools.product(SLICES, SLICES[::3])) + [(a, ..., b) for a in SLICES[::4] for b in SLICES[::4]]:
            self.same(x[key], y[key], key)
        for key in (None, (None, 1), (1, None), (..., None), (slice(1, 3), None, ..., 0), (None, None, slice(None, None, 2)), ..., (), (0, 1, 2), (..., 2)):
            self.same(x[key], y[key], key)
        reversed_y = y.numpy()  # PyTorch supports no negative steps
        for key in [(a,) for a in BACKWARDS] + list(itertools.product(BACKWARDS, SLICES[::3])) + [(..., a) for a in BACKWARDS] + [(a, None, b) for a in BACKWARDS for b in BACKWARDS]:
            self.same(x[key], reversed_y[key], key)

    def test_slices_of_nothing(self):
        x, y = Ours.zeros(0, 3), Theirs.zeros(0, 3)
        for key in (slice(None), (slice(None), 1), (slice(0, 0), slice(1, 2)), (..., None)):
            self.same(x[key], y[key], key)
        x, y = Ours.arange(4), Theirs.arange(4)
        for key in (slice(2, 2), slice(3, 1), slice(10, 20), slice(-1, -3)):
            self.same(x[key], y[key], key)

    def test_what_is_refused(self):
        x = Ours.arange(3, 4)
        for key in (3, -4, (0, 4), (0, 0, 0), (..., ...), (slice(None),) * 3, 1.5, "a", Tensor([0.5]), (Tensor([0]),) * 3):
            self.assertRaises((IndexError, TypeError), x.__getitem__, key)
        self.assertRaises(ValueError, x.__getitem__, slice(None, None, 0))
        self.assertRaises(IndexError, Tensor(1.0).__getitem__, 0)

    def keys(self):
        """Indices with one, two and more lists, adjacent and separated, with slices, numbers, None and dots."""
        a, b, c = [[1, 0], [2, 1]], [0, 1], [[0], [1]]
        yield from ((x,) for x in SCALARS)
        yield from ((slice(None), x) for x in SCALARS)
        yield from ((..., x) for x in SCALARS)
        yield from ((a, b), (a, c), (a, b, c), (a, slice(1, 3), b), (slice(None), a, b), (slice(None), a, slice(None), b), (a, slice(None), slice(None), b), (1, a), (a, 1), (a, 1, b),
                    (1, a, slice(1, 3)), (a, slice(None), 1), (slice(None), 1, a), (slice(1, 3), a, 0), (None, a), (a, None), (a, None, b), (slice(None), a, None, b), (a, ..., b),
                    (..., a, b), (..., a, None), (None, a, slice(1, 2), 0), (slice(None, None, 2), a, b), (0, slice(None), a, b), (a, 0, slice(None), b), (b, b, b, b), (a, b, 1, 0),
                    ([-1, -2], [0, -1]), (slice(0, 0), a), ([], slice(None)), (slice(None), [], 0))

    def test_fancy_indices(self):
        x, y = Ours.arange(4, 3, 5, 3), Theirs.arange(4, 3, 5, 3)

        def convert(key, lib):
            return tuple(lib.make(each, "int64") if isinstance(each, list) else each for each in key)
        for key in self.keys():
            self.same(x[convert(key, Ours)], y[convert(key, Theirs)], key)
            plain = tuple(each for each in key)
            if all(each != [] for each in key if isinstance(each, list)):
                self.same(x[plain], y[convert(key, Theirs)], key)
        for dtype in ("uint8", "int8", "int16", "int32", "int64"):
            self.same(x[Tensor([3, 0], dtype=dtype), Tensor([2, 1], dtype="int32")], y[[3, 0], [2, 1]], dtype)

    def test_fancy_gradients(self):
        x, y = Tensor(numpy.random.rand(4, 3, 5).astype("float32"), requires_grad=True), None
        y = torch.tensor(x.numpy(), requires_grad=True)
        for key in (([0, 0, 1],), (slice(None), [2, 2]), ([1, 1], slice(1, 4), [0, 0]), ([[0, 1], [1, 1]], [2, 2]), (..., [4, 4, 4])):
            ours = tuple(Tensor(each) if isinstance(each, list) else each for each in key)
            x.grad = y.grad = None
            (x[ours] * x[ours]).sum().backward()
            (y[key] * y[key]).sum().backward()
            numpy.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)

    def test_gather_and_scatter(self):
        x, y, rows = Ours.arange(4, 5, 6), Theirs.arange(4, 5, 6), numpy.random.RandomState(1)
        for dim in (0, 1, 2, -1, -3):
            at = rows.randint(0, x.shape[dim], (3, 4, 5))
            value = rows.randint(0, 9, (4, 5, 6)).astype("float32")
            self.same(x.gather(dim, Tensor(at)), y.gather(dim, torch.tensor(at)))
            one = numpy.argsort(rows.rand(*x.shape), axis=dim)  # each index occurs once, since the order of duplicate writes is unspecified
            self.same(x.scatter(dim, Tensor(one), Tensor(value)), y.scatter(dim, torch.tensor(one), torch.tensor(value)))
            self.same(x.scatter(dim, Tensor(at), 7.5), y.scatter(dim, torch.tensor(at), 7.5))
            self.same(x.scatter(dim, Tensor(at), Tensor(value), reduce="add"), y.scatter(dim, torch.tensor(at), torch.tensor(value), reduce="add"))
            small = torch.tensor(at % 2) if x.shape[dim] > 1 else torch.tensor(at)
            self.same(x.scatter(dim, Tensor(small.numpy()), 2.0, reduce="multiply"), y.scatter(dim, small, 2.0, reduce="multiply"))
            for reduce, theirs in (("sum", "sum"), ("prod", "prod"), ("amax", "amax"), ("amin", "amin"), ("mean", "mean")):
                for whole in (True, False):
                    mine = x.scatter_reduce(dim, Tensor(at), Tensor(value), reduce, include_self=whole)
                    numpy.testing.assert_allclose(mine.numpy(), y.scatter_reduce(dim, torch.tensor(at), torch.tensor(value), theirs, include_self=whole).numpy(), rtol=1e-4)


# name -> an operation that returns a view of x, 4 x 6 numbers from 0; the test writes to the view and compares x
WRITES = {
    "number": lambda x, lib: x.__setitem__(1, 5), "row": lambda x, lib: x.__setitem__(2, lib.arange(6)), "element": lambda x, lib: x.__setitem__((1, 2), 7.5),
    "column": lambda x, lib: x.__setitem__((slice(None), 1), lib.arange(4)), "block": lambda x, lib: x.__setitem__((slice(1, 3), slice(2, 5)), lib.arange(2, 3)),
    "broadcast": lambda x, lib: x.__setitem__(slice(None), lib.arange(6)), "broadcast row": lambda x, lib: x.__setitem__((slice(1, 3),), lib.arange(1, 6)),
    "broadcast column": lambda x, lib: x.__setitem__((slice(None), slice(0, 3)), lib.arange(4, 1)), "negative": lambda x, lib: x.__setitem__((-1, -2), 9),
    "steps": lambda x, lib: x.__setitem__((slice(None, None, 2), slice(1, None, 3)), lib.arange(2, 2)), "dots": lambda x, lib: x.__setitem__((..., 0), 3), "None": lambda x, lib: x.__setitem__((None, 1), 4),
    "nothing": lambda x, lib: x.__setitem__(slice(2, 2), 1), "all": lambda x, lib: x.__setitem__(..., 2), "of itself": lambda x, lib: x.__setitem__(slice(1, 3), lib.make(x[0:2].tolist())),
    "list": lambda x, lib: x.__setitem__(lib.make([0, 2]), lib.arange(2, 6)), "list of columns": lambda x, lib: x.__setitem__((slice(None), lib.make([5, 0])), lib.arange(4, 2)),
    "two lists": lambda x, lib: x.__setitem__((lib.make([0, 3]), lib.make([1, 2])), lib.arange(2)), "list and slice": lambda x, lib: x.__setitem__((lib.make([3, 1]), slice(1, 4)), lib.arange(2, 3)),
    "list in two axes": lambda x, lib: x.__setitem__(lib.make([[0, 1], [3, 2]]), lib.arange(2, 2, 6)), "list and number": lambda x, lib: x.__setitem__((lib.make([0, 2]), 3), 8),
    "list of a list": lambda x, lib: x.__setitem__((lib.make([[0], [2]]), lib.make([1, 4])), lib.arange(2, 2)), "lists and one value": lambda x, lib: x.__setitem__((lib.make([0, 0]), lib.make([1, 2])), -1),
    "+=": lambda x, lib: x.__setitem__(1, x[1].__iadd__(1)), "-= of a view": lambda x, lib: x[1:3].__isub__(lib.arange(6)), "*= of a column": lambda x, lib: x[:, 2].__imul__(3),
    "/= of rows": lambda x, lib: x[::2].__itruediv__(4), "+= of a list": lambda x, lib: x.__setitem__(lib.make([1, 3]), x[lib.make([1, 3])] + 10),
    "view of a view": lambda x, lib: x[1:][1:3][:, 2:].__setitem__((0, 1), 99), "[i][j]": lambda x, lib: x[2].__setitem__(3, 42), "[i][j] +=": lambda x, lib: x[2].__setitem__(3, x[2][3].__iadd__(1)),
    "reshape": lambda x, lib: lib.put(x.reshape(8, 3)[2:4], lib.arange(2, 3)), "flat": lambda x, lib: lib.put(x.reshape(24)[5:9], lib.arange(4)), "transpose": lambda x, lib: lib.put(x.transpose(0, 1)[1], lib.arange(4)),
    "permute": lambda x, lib: lib.put(x.reshape(2, 2, 6).permute((2, 0, 1))[1:3, 1], lib.arange(2, 2)), "unsqueeze": lambda x, lib: lib.put(x.unsqueeze(1)[2], lib.arange(1, 6)),
    "squeeze": lambda x, lib: lib.put(x.reshape(4, 1, 6).squeeze(1)[0], lib.arange(6)), "crop": lambda x, lib: lib.put(lib.crop(x, (1, 3), (0, 2)), lib.arange(2, 2)), "T": lambda x, lib: lib.put(x.T[2:4, 1:3], lib.arange(2, 2)),
    "flatten": lambda x, lib: lib.put(x.flatten()[::5], lib.arange(5)), "unflatten": lambda x, lib: lib.put(x.unflatten(1, (2, 3))[:, 1, 0], lib.arange(4)),
    "split": lambda x, lib: lib.put(x.split(2)[1][0], lib.arange(6)), "chunk": lambda x, lib: lib.put(x.chunk(3, dim=1)[2], lib.arange(4, 2)), "diagonal": lambda x, lib: lib.put(x.diagonal(), lib.arange(4)),
    "diagonal beside": lambda x, lib: x.diagonal(-1).__iadd__(5), "detach": lambda x, lib: lib.put(x.detach()[1], lib.arange(6)), "bits": lambda x, lib: lib.put(lib.bits(x, "int32")[1], lib.make([1065353216] * 6, "int32")),
    "iteration": lambda x, lib: [row.__iadd__(i) for i, row in enumerate(x)], "whole": lambda x, lib: lib.put(x, lib.arange(4, 6) * 2), "whole by reshape": lambda x, lib: lib.put(x.reshape(24), lib.arange(24) + 1),
    "two writes": lambda x, lib: (x.__setitem__(0, 1), x.__setitem__((slice(None), 0), 2)), "write and read": lambda x, lib: (x.__setitem__(0, 1), x.__setitem__(1, x[0] + x[2])),
    "overlap": lambda x, lib: (lib.put(x[0:2], lib.arange(2, 6) * 0), lib.put(x[1:3], lib.arange(2, 6))), "swap": lambda x, lib: (lambda a, b: (lib.put(x[0], b), lib.put(x[1], a)))(x[0] * 1, x[1] * 1),
    "loop": lambda x, lib: [x.__setitem__((i, j), i * j) for i in range(4) for j in range(6)], "many views": lambda x, lib: [lib.put(x.reshape(2, 12)[i % 2, i:i + 2], lib.arange(2) + i) for i in range(8)],
    "bool": lambda x, lib: x.__setitem__(0, True), "int Tensor": lambda x, lib: x.__setitem__(0, lib.make([1, 2, 3, 4, 5, 6])), "0-d": lambda x, lib: x.__setitem__((slice(None), 3), lib.make(5.5)),
}


class SetitemTest(TensorCase):
    """test_setitem.py and test_assign.py: each write once to a lazy Tensor, and once to a computed Tensor."""

    def check(self, name):
        for realized in (False, True):
            x, y = Ours.arange(4, 6), Theirs.arange(4, 6)
            other, before = x.T, x + 0
            if realized:
                x.realize()
            WRITES[name](x, Ours)
            WRITES[name](y, Theirs)
            self.assertEqual((x.dtype, x.tolist()), (dtypes.float32, y.tolist()))
            self.assertEqual((other.tolist(), before.tolist()), (y.T.tolist(), Theirs.arange(4, 6).tolist()))

    def test_dtypes(self):
        """test_setitem_dtype: a plain number takes the dtype of the Tensor."""
        for dtype in ("int32", "float32", "bool", "uint8", "int64", "float16"):
            for value in (5.0, 5, True):
                x, y = Tensor.ones(6, 6, dtype=dtype).contiguous(), torch.ones(6, 6, dtype=getattr(torch, dtype))
                x[1], y[1] = value, value
                self.assertEqual((x.dtype.name, x.tolist()), (dtype, y.tolist()))

    def test_into_what_is_no_buffer(self):
        """Writes to Tensors without a buffer; tinygrad refuses or loses these writes."""
        for make in (lambda: Tensor.ones(4), lambda: Tensor.full((4,), 3.0), lambda: Tensor.arange(4).float(), lambda: Tensor([1.0, 2, 3, 4]) * 2, lambda: Tensor.rand(4), lambda: Tensor.zeros(4) + Tensor.ones(4)):
            x = make()
            y = torch.tensor((x * 1).tolist())
            x[1:3] = 5
            y[1:3] = 5
            self.assertEqual(x.tolist(), y.tolist())

    def test_shapes_that_do_not_fit(self):
        x = Ours.arange(4, 6)
        for key, value in ((0, Ours.arange(5)), (slice(0, 2), Ours.arange(3, 6)), ((0, 0), Ours.arange(2)), (slice(None), Ours.arange(4, 5)), (Tensor([0, 1]), Ours.arange(3, 6))):
            self.assertRaises((ValueError, RuntimeError), x.__setitem__, key, value)
        for key in (4, (0, 6), (0, 0, 0)):
            self.assertRaises(IndexError, x.__setitem__, key, 1)
        self.assertEqual(x.tolist(), Theirs.arange(4, 6).tolist())

    def test_captured(self):
        """test_jitted_setitem, test_setitem_with_jit_variable: a KV cache, with positions that are known at the call."""
        cache, theirs = Ours.zeros(3, 8, 2), Theirs.zeros(3, 8, 2)
        cache.realize()

        @TinyJit
        def step(x, at, i):
            cache[:, at:at + 1] = x
            cache[0, at, 1] += 1
            cache[1][at].assign(x[1, 0] * 2)
            cache[2, :, 0].detach()[at] = 9
            return (cache[:, :at + 1].sum(1) + i).realize()
        for i in range(8):
            value = numpy.random.RandomState(i).randint(0, 9, (3, 1, 2)).astype("float32")
            theirs[:, i:i + 1] = torch.tensor(value)
            theirs[0, i, 1] += 1
            theirs[1, i] = torch.tensor(value)[1, 0] * 2
            theirs[2, i, 0] = 9
            got = step(Tensor(value), Variable("at", 0, 7).bind(i), Tensor([float(i)]))
            self.assertEqual((got.tolist(), cache.tolist()), ((theirs[:, :i + 1].sum(1) + i).tolist(), theirs.tolist()))
        self.assertEqual(len(step.captures), 1)

    def test_running_sums(self):
        """test_assign.py: counters, double buffers, and an assignment of a value that depends on the old value."""
        a, b = Ours.arange(4), Ours.zeros(4)
        for _ in range(3):
            a.assign(a + 1)
            b += a
            a, b = b, a
        x, y = Theirs.arange(4), Theirs.zeros(4)
        for _ in range(3):
            x += 1
            y = y + x
            x, y = y, x
        self.assertEqual((a.tolist(), b.tolist()), (x.tolist(), y.tolist()))
        m = Ours.arange(3, 3)
        m.assign(m.T)
        self.assertEqual(m.tolist(), Theirs.arange(3, 3).T.tolist())
        m[0].assign(m[:, 0] + m[2])
        m.assign(m @ m)
        self.assertEqual(m.tolist(), square())
        self.assertRaises(RuntimeError, m.assign, Ours.arange(4))
        self.assertRaises(RuntimeError, m.assign, Tensor.arange(9).reshape(3, 3))


def square():
    m = Theirs.arange(3, 3).T.clone()
    m[0] = m[:, 0] + m[2]
    return (m @ m).tolist()


def add_case(name):
    setattr(SetitemTest, f"test_{name}", lambda self: self.check(name))


for _name in WRITES:
    add_case(_name)


if __name__ == "__main__":
    unittest.main()
