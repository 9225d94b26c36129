# SPDX-License-Identifier: MIT
"""Tensor's methods against PyTorch over shapes (scalar, empty, broadcast) and dtypes: values, gradients, result dtypes."""
import functools
import unittest

from beamline import Tensor, dtypes
from tensors import TensorCase

try:
    import numpy
    import torch
    from op_cases import AXES, BINARY, CASES, DTYPES, EMPTY_AXES, MIXED, PAIRS, REDUCTIONS, SHAPES, UNARY
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None


class OpTest(TensorCase):
    BOOLS = (("square", dtypes.bool), ("prod", dtypes.bool))  # bool results stay bool, as in tinygrad

    def beside(self, shapes, ours, theirs, low=-2.0, high=2.0, grad=True, tolerance=2e-5):
        """Compares values and gradients of both functions on the same numbers."""
        random = numpy.random.default_rng(sum(map(len, shapes)))
        inputs = [random.uniform(low, high, shape).astype("float32") for shape in shapes]
        mine, other = [Tensor(each, requires_grad=True) for each in inputs], [torch.tensor(each, requires_grad=True) for each in inputs]
        result, expected = ours(*mine), theirs(*other)
        self.assertEqual(result.shape, tuple(expected.shape))
        with_grads = grad and expected.requires_grad and result.is_floating_point()
        grads = (result + 1).square().mean().gradient(*mine, materialize_grads=True) if with_grads else []
        result.realize(*grads)
        self.same(result, expected, tolerance)
        if with_grads:
            expected.add(1).square().mean().backward()
            for each, wanted in zip(grads, other):
                wanted = torch.zeros_like(wanted) if wanted.grad is None else wanted.grad
                self.same(each, wanted, 10 * tolerance)

    def same(self, result, expected, tolerance=2e-5):
        self.assertEqual(result.dtype.name, {torch.int64: result.dtype.name}.get(expected.dtype, str(expected.dtype)[len("torch."):]))
        numpy.testing.assert_allclose(result.numpy().astype("float64"), expected.detach().numpy().astype("float64"), rtol=tolerance, atol=tolerance)

    def test_unary(self):
        for name, (ours, theirs, options) in UNARY.items():
            for shape in SHAPES:
                if "axis" in name and not shape:
                    continue
                with self.subTest(name, shape=shape):
                    self.beside([shape], ours, theirs or ours, **options)

    def test_binary(self):
        for name, (ours, theirs, options) in BINARY.items():
            for pair in PAIRS:
                with self.subTest(name, shapes=pair):
                    self.beside(pair, ours, theirs or ours, **options)

    def test_reductions(self):
        for name, (theirs, of_nothing) in REDUCTIONS.items():
            for shape, axis in AXES + (EMPTY_AXES if of_nothing else []):
                for keepdim in (False, True):
                    options = {"correction": 0} if name in ("var", "std") else {}
                    with self.subTest(name, shape=shape, axis=axis, keepdim=keepdim):
                        ours = functools.partial(lambda x, name, *args, **kw: getattr(x, name)(*args, **kw), name=name, axis=axis, keepdim=keepdim, **options)
                        self.beside([shape], ours, functools.partial(theirs, axis=axis, keepdim=keepdim))

    def test_cases(self):
        for name, shapes, ours, theirs, options in CASES:
            with self.subTest(name):
                self.beside(shapes, ours, theirs or ours, **options)

    def test_dtypes_of_one(self):
        """Unary functions of integers and narrow floats have PyTorch's dtype and values."""
        for name in ("neg", "abs", "sign", "square", "exp", "sqrt", "sin", "sigmoid", "relu", "isnan", "logical_not", "sum", "prod", "mean", "max",
          "min", "cumsum", "floor"):
            for dtype in DTYPES:
                numbers = numpy.array([[0, 1, 1], [1, 0, 1]] if dtype is dtypes.bool else [[1, 2, 3], [4, 0, 3]]).astype(dtype.name)
                method = (lambda x, n=name: getattr(x, n)(0)) if name == "cumsum" else lambda x, n=name: getattr(x, n)()
                try:
                    expected = method(torch.tensor(numbers))
                except RuntimeError:
                    continue
                with self.subTest(name, dtype=dtype):
                    result = method(Tensor(numbers))
                    numpy.testing.assert_allclose(result.numpy().astype("float64"), expected.numpy().astype("float64"),
                      rtol=2e-3 if dtype is dtypes.half else 1e-5)
                    if not dtypes.is_int(result.dtype) and (name, dtype) not in self.BOOLS:  # integer sums have at least 32 bits, as in tinygrad
                        self.assertEqual(result.dtype.name, str(expected.dtype)[len("torch."):])

    def test_mixed_dtypes(self):
        for a in DTYPES:
            for b in DTYPES:
                x, y = numpy.array([0, 1, 1]).astype(a.name), numpy.array([1, 1, 0]).astype(b.name)
                for name, method in MIXED.items():
                    with self.subTest(name, a=a, b=b):
                        result, expected = method(Tensor(x), Tensor(y)), method(torch.tensor(x).double(), torch.tensor(y).double())
                        kind = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
                        self.assertEqual(result.numpy().astype("float64").tolist(),
                          (expected if name != "add" or kind is not torch.bool else expected.clamp(max=1)).double().tolist())
                        if name not in ("less", "equal"):
                            self.assertEqual(result.dtype.name, str(kind)[len("torch."):])

    def test_whole_numbers(self):
        """Results that would overflow in the narrow integer dtype of the operands."""
        small, bools, bytes_ = Tensor([100, 100, -128], dtype=dtypes.int8), Tensor([True, True, False]), Tensor([2, 4, 0], dtype=dtypes.uint8)
        for result, expected in ((Tensor.einsum("i->", small), 72), (Tensor.einsum("i,i->", bools, bools), 2), (Tensor.einsum("i,j->ij", bytes_,
          bytes_ * 60)[1, 1], 960),
                                 (bytes_.isclose(bytes_ + 1, 0, 1), [True] * 3), (bytes_.isclose(4, 0, 2), [True, True, False]),
                                   (bools.isclose(True), [True, True, False]),
                                 (small.isclose(127, 0, 30), [True, True, False]), (bytes_.allclose(bytes_), True)):
            self.assertEqual(result.tolist() if isinstance(result, Tensor) else result, expected)

    def test_numbers_keep_the_dtype(self):
        for dtype in DTYPES:
            x, other = Tensor([1, 0, 1], dtype=dtype), torch.tensor([1, 0, 1], dtype=getattr(torch, dtype.name))
            for name, method in {"2": lambda x: x + 2, "2.5": lambda x: x * 2.5, "True": lambda x: x + True, "3 -": lambda x: 3 - x,
              "/": lambda x: x / 2, "//": lambda x: x // 2}.items():
                try:
                    expected = method(other)
                except RuntimeError:
                    continue
                with self.subTest(name, dtype=dtype):
                    result = method(x)
                    self.assertEqual(result.dtype.name, {"int64": result.dtype.name}.get(str(expected.dtype)[6:], str(expected.dtype)[6:]))
                    self.assertEqual(result.tolist(), expected.tolist())


if __name__ == "__main__":
    unittest.main()
