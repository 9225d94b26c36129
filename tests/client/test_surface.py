# SPDX-License-Identifier: MIT
"""Calls every name of Tensor's public surface at least once and compares with NumPy, except the names that test_tensor_torch.py
calls."""
import hashlib
import math
import types
import unittest

import surface
from beamline import Device, Tensor, dtypes
from tensors import TensorCase

try:
    import numpy
    import test_tensor_torch
except ImportError:
    raise unittest.SkipTest("NumPy and PyTorch are not installed") from None

A = numpy.random.default_rng(5).uniform(-3, 3, (3, 4)).astype("float32")
B = numpy.random.default_rng(6).uniform(-3, 3, (3, 4)).astype("float32")
I, J = numpy.arange(-5, 7, dtype="int32").reshape(3, 4), numpy.array([3, 1, 2, 4], dtype="int32")
ODD = numpy.array([1.0, math.nan, math.inf, -math.inf, 0.0], dtype="float32")
BITS = numpy.array([0b1100, 0b1010, 7, 1], dtype="int32")


def t(x, **options):
    return Tensor(x, **options)


def made_in_place(x, work):
    """Returns x after |work|, which changes x."""
    work(x)
    return x


def orthogonal(q):
    return q.transpose(-2, -1) @ q


def uniform(tensor, low, high):
    """Whether the numbers look uniformly distributed between two bounds."""
    x = tensor.numpy().ravel().astype("float64")
    assert x.size > 1000 and len(set(x[:100].tolist())) > 20
    middle, width = (low + high) / 2, high - low
    return bool(x.min() >= low and x.max() <= high and abs(x.mean() - middle) < 0.05 * width and
                abs(x.std() - width / math.sqrt(12)) < 0.05 * width)


def normal(tensor, mean, std):
    x = tensor.numpy().ravel().astype("float64")
    return bool(x.size > 1000 and abs(x.mean() - mean) < 0.1 * std and abs(x.std() - std) < 0.1 * std)


def threefry(key, counter):
    """Threefry-2x32 of one pair with 20 rounds, in Python's integers."""
    mask, keys = 0xffffffff, [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = counter[0] + keys[0] & mask, counter[1] + keys[1] & mask
    for i in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x = x + y & mask
            y = (y << turn | y >> 32 - turn) & mask ^ x
        x, y = x + keys[(i + 1) % 3] & mask, y + keys[(i + 2) % 3] + i + 1 & mask
    return x, y


# name -> (Tensor's result, expected result): Tensors, arrays, numbers or structures of them
CASES = {
    "T": lambda: (t(A).T, A.T), "abs": lambda: (t(A).abs(), abs(A)), "add": lambda: (t(A).add(J), A + J),
    "sub": lambda: (t(A).sub(2, reverse=True), 2 - A), "mul": lambda: (t(I).mul(t(J)), I * J), "neg": lambda: (t(I).neg(), -I),
    "dot": lambda: (t(A).dot(t(B.T)), A @ B.T), "matmul": lambda: (t(A).matmul(t(B.T.copy()), reverse=True), B.T @ A),
    "mod": lambda: (t(I).mod(3), I % 3), "pow": lambda: (t(I).pow(3), I ** 3),
    "all": lambda: (t(I).all(axis=1), (I != 0).all(1)), "any": lambda: (t(I > 5).any(), (I > 5).any()),
    "allclose": lambda: ((t(A).allclose(t(A) + 1e-9), t(A).allclose(t(B))), (True, False)),
    "isclose": lambda: (t(ODD).isclose(t(ODD), equal_nan=True), numpy.isclose(ODD, ODD, equal_nan=True)),
    "arange": lambda: ((Tensor.arange(2, 11, 3), Tensor.arange(0.5, 2, 0.5)), (numpy.arange(2, 11, 3), numpy.arange(0.5, 2, 0.5))),
    "linspace": lambda: (Tensor.linspace(-1, 2, 7), numpy.linspace(-1, 2, 7)), "eye": lambda: (Tensor.eye(3, 2), numpy.eye(3, 2)),
    "full": lambda: (Tensor.full((2, 3), 7), numpy.full((2, 3), 7)), "full_like": lambda: (t(I).full_like(9), numpy.full_like(I, 9)),
    "zeros": lambda: (Tensor.zeros(2, 3), numpy.zeros((2, 3))), "ones": lambda: (Tensor.ones((2, 3)), numpy.ones((2, 3))),
    "zeros_like": lambda: (t(I).zeros_like(), I * 0), "ones_like": lambda: (t(I).ones_like(), I * 0 + 1),
    "empty": lambda: (Tensor.empty(2, 3).shape, (2, 3)), "empty_like": lambda: ((t(I).empty_like().shape, t(I).empty_like().dtype), ((3, 4), dtypes.int)),
    "const": lambda: (Tensor.const(2.5), 2.5), "const_like": lambda: (t(I).const_like(3), I * 0 + 3),
    "argmax": lambda: (t(A).argmax(axis=1), A.argmax(1)), "argmin": lambda: (t(A).argmin(), A.argmin()),
    "argsort": lambda: (t(A).argsort(0, descending=True), (-A).argsort(0)),
    "assign": lambda: (made_in_place(t(A), lambda x: x.assign(t(B))), B), "replace": lambda: (made_in_place(t(A), lambda x: x.replace(t(I))), I),
    "backward": lambda: (made_in_place(t(A, requires_grad=True), lambda x: (x * x).sum().backward()).grad, 2 * A),
    "grad": lambda: (made_in_place(t(A, requires_grad=True), lambda x: x.backward(gradient=t(B))).grad, B),
    "gradient": lambda: ((x := t(A)).exp().gradient(x, gradient=t(B))[0], B * numpy.exp(A)),
    "bfloat16": lambda: ((t([1.00390625, 3.0]).bfloat16(), t(1.0).bfloat16().dtype), ([1.0, 3.0], dtypes.bfloat16)),
    "half": lambda: (t(A).half(), A.astype("float16")), "float": lambda: (t(I).float(), I.astype("float32")),
    "double": lambda: (t(I).double(), I.astype("float64")), "int": lambda: (t(A).int(), A.astype("int32")),
    "long": lambda: (t(A).long(), A.astype("int64")), "short": lambda: (t(A).short(), A.astype("int16")),
    "bool": lambda: (t(I).bool(), I != 0), "cast": lambda: (t(I).cast("uint8"), I.astype("uint8")),
    "bitcast": lambda: (t(A).bitcast(dtypes.int32), A.view("int32")), "dtype": lambda: (t(A).dtype, dtypes.float32),
    "bitwise_and": lambda: (t(BITS).bitwise_and(6), BITS & 6), "bitwise_or": lambda: (t(BITS).bitwise_or(t(J)), BITS | J),
    "bitwise_xor": lambda: (t(BITS).bitwise_xor(t(J)), BITS ^ J), "bitwise_not": lambda: (t(BITS).bitwise_not(), ~BITS),
    "lshift": lambda: (t(BITS).lshift(t(J)), BITS << J), "rshift": lambda: (t(I).rshift(1), I >> 1),
    "is_param": lambda: (t(A).is_param, None), "is_param_": lambda: ((t(A).is_param_().is_param, t(A).is_param_(False).requires_grad), (True, False)),
    "chunk": lambda: (t(A).chunk(3, dim=1), numpy.array_split(A, [2], axis=1)), "clone": lambda: (t(A).clone(), A),
    "contiguous": lambda: (t(A).T.contiguous(), A.T), "contiguous_backward": lambda: (t(A).contiguous_backward(), A),
    "data": lambda: (t(I).data().tolist(), I.tolist()), "tolist": lambda: (t(A).tolist(), A.tolist()), "item": lambda: (t([2.5]).item(), 2.5),
    "numpy": lambda: (t(A).T.numpy(), A.T), "realize": lambda: (t(A).realize(t(B)), A),
    "device": lambda: (t(A).device, Device.DEFAULT), "to": lambda: (t(A).to(Device.DEFAULT), A), "to_": lambda: (made_in_place(t(A), lambda x: x.to_(None)), A),
    "shard": lambda: (t(A).shard((Device.DEFAULT,), axis=0), A), "shard_": lambda: (made_in_place(t(A), lambda x: x.shard_((Device.DEFAULT,))), A),
    "shard_like": lambda: (t(A).shard_like(t(B)), A), "dropout": lambda: (t(A).dropout(0.9), A),
    "element_size": lambda: (t(A).half().element_size(), 2), "nbytes": lambda: (t(A).nbytes(), A.nbytes), "numel": lambda: (t(A).numel(), A.size),
    "ndim": lambda: (t(A).ndim, A.ndim), "shape": lambda: (t(A).shape, A.shape), "size": lambda: ((t(A).size(), t(A).size(-1)), (A.shape, 4)),
    "max_numel": lambda: (t(A).max_numel(), A.size), "max_shape": lambda: (t(A).max_shape, A.shape),
    "is_floating_point": lambda: ((t(A).is_floating_point(), t(I).is_floating_point()), (True, False)),
    "eq": lambda: (t(ODD).eq(t(ODD)), ODD == ODD), "ne": lambda: (t(ODD).ne(1), ODD != 1),  # pylint: disable=comparison-with-itself
    "isnan": lambda: (t(ODD).isnan(), numpy.isnan(ODD)), "isfinite": lambda: (t(ODD).isfinite(), numpy.isfinite(ODD)),
    "isinf": lambda: ((t(ODD).isinf(), t(ODD).isinf(detect_negative=False)), (numpy.isinf(ODD), numpy.isposinf(ODD))),
    "logical_not": lambda: (t(I).logical_not(), I == 0), "hash": lambda: (t(b"abc").hash(), t(b"abc").hash().numpy()),
    "keccak": lambda: (bytes(t(b"abc").keccak("sha3_224").tolist()), hashlib.sha3_224(b"abc").digest()),
    "masked_select": lambda: (t(A).masked_select(t(A > 0)), A[A > 0]), "nonzero": lambda: (t(I > 0).nonzero(), numpy.argwhere(I > 0)),
    "max_unpool2d": lambda: (t([[[[5.0]]]]).max_unpool2d(t([[[[3]]]])), [[[[0, 0], [0, 5]]]]),
    "meshgrid": lambda: (Tensor.meshgrid(t(J), t(BITS), indexing="xy"), numpy.meshgrid(J, BITS)),
    "newton_schulz": lambda: (orthogonal(t(A.T.copy()).newton_schulz(20, (1.5, -0.5))), numpy.eye(3)),
    "qr": lambda: ((lambda q, r: (q @ r, orthogonal(q)))(*t(A.T.copy()).qr()), (A.T, numpy.eye(3))),
    "svd": lambda: ((lambda u, s, v: (u @ s.diag() @ v, s))(*t(A).svd(full_matrices=False)), (A, numpy.linalg.svd(A)[1])),
    "one_hot": lambda: (t(J).one_hot(6), numpy.eye(6, dtype="int32")[J]), "pad_to": lambda: (t(A).pad_to(None, 6), numpy.pad(A, ((0, 0), (0, 2)))),
    "shrink": lambda: (t(A).shrink(((1, 3), None)), A[1:3]), "shrink_to": lambda: (t(A).shrink_to(2, None), A[:2]),
    "view": lambda: (t(A).view(2, -1), A.reshape(2, -1)), "rearrange": lambda: (t(A).rearrange("a (b c) -> c b a", b=2), A.reshape(3, 2, 2).transpose(2, 1, 0)),
    "sequential": lambda: (t(A).sequential([Tensor.relu, lambda x: x + 1]), A.clip(0) + 1),
    "std_mean": lambda: (t(A).std_mean(0), (A.std(0, ddof=1), A.mean(0))), "var_mean": lambda: (t(A).var_mean(1, correction=0), (A.var(1), A.mean(1))),
    "manual_seed": lambda: ((Tensor.manual_seed(9), Tensor.rand(4).tolist())[1], (Tensor.manual_seed(9), Tensor.rand(4).tolist())[1]),
    "rand": lambda: (uniform(Tensor.rand(40, 50), 0, 1), True), "rand_like": lambda: (uniform(Tensor.zeros(40, 50).rand_like(), 0, 1), True),
    "uniform": lambda: (uniform(Tensor.uniform(2000, low=-2, high=6), -2, 6), True),
    "scaled_uniform": lambda: (uniform(Tensor.scaled_uniform(40, 50), -2000 ** -.5, 2000 ** -.5), True),
    "glorot_uniform": lambda: (uniform(Tensor.glorot_uniform(40, 50), -(6 / 90) ** .5, (6 / 90) ** .5), True),
    "kaiming_uniform": lambda: (uniform(Tensor.kaiming_uniform(40, 50, a=0), -(6 / 50) ** .5, (6 / 50) ** .5), True),
    "kaiming_normal": lambda: (normal(Tensor.kaiming_normal(40, 50, a=0), 0, (2 / 50) ** .5), True),
    "randn": lambda: (normal(Tensor.randn(2000), 0, 1), True), "randn_like": lambda: (normal(Tensor.zeros(2000).randn_like(), 0, 1), True),
    "normal": lambda: (normal(Tensor.normal(2000, mean=3, std=0.5), 3, 0.5), True),
    "randint": lambda: (sorted(set(Tensor.randint(300, low=-2, high=3).tolist())), [-2, -1, 0, 1, 2]),
    "randperm": lambda: (Tensor.randperm(20).sort()[0], numpy.arange(20)),
    "multinomial": lambda: (t([[0.0, 1, 0], [0, 0, 2]]).multinomial(5, replacement=True), [[1] * 5, [2] * 5]),
    "threefry": lambda: (t([5 + (6 << 32)], dtype="uint64").threefry(t([7 + (8 << 32)], dtype="uint64")),
                         [(lambda x, y: x | y << 32)(*threefry((7, 8), (5, 6)))]),
    "random_bits": lambda: (Tensor.random_bits(t([7, 8], dtype="uint32"), t([3], dtype="uint32"), 4),
                            [threefry((7, 8), (3 + i, 5 + i))[k] for k in range(2) for i in range(2)]),
}


def called(code) -> set:
    """Returns the names that a function uses."""
    return set(code.co_names).union(*(called(each) for each in code.co_consts if isinstance(each, types.CodeType)))


class SurfaceTest(TensorCase):
    def same(self, got, expected):
        if isinstance(expected, (tuple, list)) and not isinstance(got, Tensor):
            self.assertEqual(len(got), len(expected))
            for one, other in zip(got, expected):
                self.same(one, other)
        elif isinstance(got, Tensor):
            self.need(got)
            numpy.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=2e-5)
            self.assertEqual(got.shape, numpy.shape(expected))
        elif isinstance(expected, numpy.ndarray):
            numpy.testing.assert_allclose(got, expected)
        else:
            self.assertEqual(got, expected)

    def test_every_name_is_called_somewhere(self):
        beside_torch = set().union(*(called(case[1].__code__) for case in test_tensor_torch.CASES.values() if hasattr(case[1], "__code__")))
        self.assertEqual([name for name in surface.names() if name not in CASES and name not in beside_torch], [])
        self.assertEqual([name for name in CASES if name not in surface.names()], [])
        self.assertEqual([name for name, case in CASES.items() if name not in called(case.__code__)], [])


def add_case(name):
    setattr(SurfaceTest, f"test_{name}", lambda self: self.same(*CASES[name]()))


for _name in CASES:
    add_case(_name)


if __name__ == "__main__":
    unittest.main()
