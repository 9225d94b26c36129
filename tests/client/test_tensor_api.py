# SPDX-License-Identifier: MIT
"""Tensor's public names and defaults, and refusals at graph construction, without a server."""
import inspect
import unittest

import beamline
import surface
from beamline import Tensor, Variable, dtypes

class SurfaceTest(unittest.TestCase):
    def test_names_parameters_and_defaults(self):
        self.assertEqual(surface.differences(Tensor), [])
        self.assertGreater(len(surface.names()), 230)

    def test_differences_are_found(self):
        class Less:
            """A Tensor class with missing and wrong methods."""
            T = property(lambda self: self)

            def add(self, x, backwards=False):
                pass
        found = surface.differences(Less)
        self.assertEqual(len(found), len(surface.names()) - 1)
        self.assertIn("add(x, reverse=False): there is add(x, backwards=False)", found)
        self.assertIn("abs(): there is nothing", found)

    def test_every_method_says_what_it_does(self):
        for name in surface.names():
            self.assertTrue(getattr(inspect.getattr_static(Tensor, name), "__doc__", None) or name == "grad", name)

    def test_the_package(self):
        for name in ("Tensor", "TinyJit", "Variable", "nn", "dtypes", "Device", "GlobalCounters", "Context", "getenv", "train"):
            self.assertTrue(hasattr(beamline, name), name)
        for name in ("Linear", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "BatchNorm", "LayerNorm", "LayerNorm2d",
                     "RMSNorm",
                     "GroupNorm", "InstanceNorm", "Embedding", "LSTMCell"):
            self.assertTrue(hasattr(beamline.nn, name), name)
        for name in ("SGD", "Adam", "AdamW", "LARS", "LAMB", "Muon", "OptimizerGroup"):
            self.assertTrue(hasattr(beamline.nn.optim, name), name)


class DtypeTest(unittest.TestCase):
    def test_promotion(self):
        for a, b, expected in (("int8", "uint8", "int16"), ("int32", "float16", "float16"), ("int64", "uint64", "float8_e4m3"),
                               ("float16", "bfloat16", "float32"), ("bool", "int8", "int8"), ("uint32", "int32", "int64")):
            x, y = Tensor([1]).cast(a), Tensor([1]).cast(b)
            self.assertEqual((x + y).dtype.name, expected, (a, b))
            self.assertEqual((y + x).dtype.name, expected, (a, b))

    def test_results(self):
        i, f, h, b = Tensor([1, 2]), Tensor([1.0, 2]), Tensor([1.0]).half(), Tensor([True])
        for result, expected in (((i + 1), "int32"), ((i + 1.5), "float32"), ((h + 1.5), "float16"), ((b + 1), "int32"),
                                 ((b + 0.5), "float32"),
                                 ((i / 2), "float32"), ((i // 2), "int32"), ((i == 1), "bool"), (i.sum(), "int32"),
                                 (b.sum(), "int32"),
                                 (i.cast("uint8").sum(), "uint32"), (i.long().sum(), "int64"), (h.sum(), "float16"),
                                 (i.mean(), "float32"),
                                 (f.argmax(), "int32"), (i.exp(), "float32"), (h.exp(), "float16"), (i.softmax(), "float32"),
                                 (Tensor.arange(3), "int32"), (Tensor.arange(3.0), "float32"), (i.one_hot(3), "int32"),
                                 (b & True, "bool"),
                                 (Tensor(3), "int32"), (Tensor(3.5), "float32"), (Tensor(True), "bool"),
                                 (Tensor.full((2,), 1), "int32"),
                                 (Tensor.eye(2), "float32"), (b.where(1, 0), "int32"), (b.where(f, 0), "float32"),
                                 (f @ f, "float32")):
            self.assertEqual(result.dtype.name, expected, result)

    def test_names(self):
        self.assertIs(dtypes.float, dtypes.float32)
        self.assertEqual(repr(dtypes.float32), "dtypes.float")
        self.assertEqual((dtypes.min(dtypes.int8), dtypes.max(dtypes.uint16)), (-128, 65535))


class RefusalTest(unittest.TestCase):
    def test_errors_do_not_wait_for_the_server(self):
        x, v = Tensor([[1.0, 2, 3], [4, 5, 6]]), Tensor([1.0, 2])
        i = Tensor([1, 2])
        cases = [
            (ValueError, lambda: x.reshape(4)), (ValueError, lambda: x.reshape(-1, 4)), (RuntimeError, lambda: x.reshape(-1, -1)),
            (ValueError, lambda: x.expand(2, 4)), (RuntimeError, lambda: x.permute(0, 0)), (IndexError, lambda: x.permute(0, 2)),
            (ValueError, lambda: x + v), (RuntimeError, lambda: x @ v), (RuntimeError, lambda: x.dot(Tensor(1.0))),
            (IndexError, lambda: x.sum(2)),
            (IndexError, lambda: x[2]), (IndexError, lambda: x[0, 0, 0]), (IndexError, lambda: x[..., ...]),
            (IndexError, lambda: x[v]),
            (ValueError, lambda: x[::0]), (TypeError, lambda: x["a":]), (TypeError, lambda: bool(x)),
            (TypeError, lambda: len(Tensor(1))),
            (ValueError, lambda: x.cat(v.reshape(1, 2))), (ValueError, lambda: x.pad((1,))),
            (ValueError, lambda: x.shrink(((0, 3), None))),
            (RuntimeError, lambda: v & 1), (RuntimeError, lambda: ~v), (RuntimeError, lambda: v.clamp()),
            (RuntimeError, lambda: v.one_hot(3)),
            (RuntimeError, lambda: x.conv2d(x)), (RuntimeError, lambda: x.reshape(1, 1, 2, 3).conv2d(Tensor.ones(1, 2, 1, 1))),
            (ValueError, lambda: x.avg_pool2d((3, 3))), (RuntimeError, lambda: x.backward()),
            (RuntimeError, lambda: i.sum().backward()),
            (RuntimeError, lambda: x.sum().gradient(v)), (RuntimeError, lambda: x.assign(v)),
            (RuntimeError, lambda: x.assign(Tensor([[1, 2, 3]] * 2))),
            (ValueError, lambda: x.chunk(0)), (ValueError, lambda: x.split([1, 3])), (ValueError, lambda: x.topk(4)),
            (ValueError, lambda: v.dropout(1.5)),
            (RuntimeError, lambda: x.gather(0, i)), (TypeError, lambda: x.scatter(0, i.reshape(1, 2), x, "max")),
            (RuntimeError, lambda: Tensor(object())),
            (ValueError, lambda: Tensor([[1, 2], [3]])), (ValueError, lambda: v.cast("complex64")),
            (NotImplementedError, lambda: x.shard(("opencl:0", "opencl:1"))),
            (ValueError, lambda: x.cross_entropy(i, reduction="max")), (RuntimeError, lambda: x.cross_entropy(v.reshape(2, 1))),
            (TypeError, lambda: x + object()), (RuntimeError, lambda: x.unfold(1, 4, 1)),
            (RuntimeError, lambda: x.rearrange("a b -> a c")),
            (ValueError, lambda: Tensor.einsum("ij,jk", x)), (ValueError, lambda: Variable("n", 1, 3).bind(4)),
            (ValueError, lambda: Tensor.zeros(-1)),
            (RuntimeError, lambda: i ** -1), (TypeError, lambda: Tensor.randint(2, low=0.5)), (ValueError, lambda: x.repeat(2)),
            (ValueError, lambda: x.interpolate((2,), mode="cubic")),
            (RuntimeError, lambda: i.masked_select(i)),
            (RuntimeError, lambda: beamline.nn.optim.SGD([Tensor([1.0])]).step()),
            *((IndexError, lambda call=call: call(Tensor(1.0))) for call in (
                lambda s: s.sum(1), lambda s: s.max(-2), lambda s: s.softmax(1), lambda s: s.log_softmax(-3), lambda s: s.cumsum(2), lambda s: s.sort(1),
                lambda s: s.argmax(1), lambda s: s.squeeze(1), lambda s: s.unsqueeze(2), lambda s: s.flatten(1), lambda s: s.flip(1), lambda s: s[0],
                lambda s: s.logsumexp(4), lambda s: s.mean((0, 3)), lambda s: s.cummax(1), lambda s: s.all(1), lambda s: s.std(1))),
            *((IndexError, lambda call=call: call()) for call in (
                lambda: x.cat(x, dim=2), lambda: x.stack(x, dim=4), lambda: x.split(1, 2), lambda: x.chunk(2, -3), lambda: x.transpose(0, 2),
                lambda: x.permute(0, 2), lambda: x.gather(2, x.int()), lambda: x.scatter(-3, x.int(), x), lambda: x.unflatten(2, (1, 2)), lambda: x.roll(1, 2),
                lambda: x.repeat_interleave(2, 2), lambda: x.unfold(2, 1, 1), lambda: x.diagonal(0, 0, 2), lambda: x.topk(1, 2), lambda: x.size(2),
                lambda: x.normalize(dim=2), lambda: x.layernorm(2), lambda: Tensor([]).argmax(), lambda: Tensor.ones(0, 3).argmin(0))),
            (RuntimeError, lambda: x.sum((0, 0))), (RuntimeError, lambda: x.mean((1, -1))),
            (ValueError, lambda: Tensor.stack([])), (ValueError, lambda: x.stack(v)),
            (ValueError, lambda: Tensor.arange(129, dtype=dtypes.int8)), (ValueError, lambda: Tensor.arange(-1, 3, dtype=dtypes.uint8)),
            (ValueError, lambda: Tensor.arange(0, -200, -1, dtype="int8")), (ValueError, lambda: Tensor.arange(3, 0, 0)),
            (RuntimeError, lambda: x.scatter(0, x.int(), x.int())), (RuntimeError, lambda: x.scatter(0, x, x)),
            (RuntimeError, lambda: x.scatter_reduce(0, x.int(), x.int(), "sum")), (RuntimeError, lambda: x.gather(0, x)),
            (NotImplementedError, lambda: beamline.function(len, grad_fxn=len)),
        ]
        for number, (kind, call) in enumerate(cases):
            with self.subTest(number):
                self.assertRaises(kind, call)

    def test_shapes_that_do_not_go_together(self):
        """A mismatch of shapes raises both tinygrad's ValueError and PyTorch's RuntimeError, since scripts catch either."""
        x, v, s = Tensor.ones(3, 4), Tensor.ones(5), Tensor(1.0)
        image, kernel = Tensor.ones(1, 2, 3, 3), Tensor.ones(1, 2, 2, 2)
        calls = [
            lambda: x + v, lambda: x @ v, lambda: x.reshape(5, 2), lambda: x.reshape(-1, 5), lambda: x.reshape(-3, -4), lambda: x.expand(3, 5),
            lambda: x.expand(4), lambda: x.expand(-1, 3, 4), lambda: x.repeat(2), lambda: x.repeat(2, -1), lambda: x.unflatten(0, (2, 2)),
            lambda: x.flatten(1, 0), lambda: x.split([1, 3]), lambda: x.split(0), lambda: x.chunk(0), lambda: x.cat(v), lambda: s.cat(s), lambda: x.stack(v),
            lambda: Tensor.stack([]), lambda: s.unfold(0, 1, 1), lambda: s.diag(), lambda: x.pad((1,)), lambda: x.pad((1,) * 6), lambda: x.pad((-5, 0)),
            lambda: x.pad((5, 0), mode="reflect"), lambda: v.tril(), lambda: s.triu(1), lambda: x.topk(5), lambda: x.shrink(((0, 4), None)),
            lambda: x.masked_fill(v > 0, 1), lambda: x.masked_select(v > 0), lambda: (x > 0).where(x, v),
            lambda: Tensor.einsum("ij,jk->ik", x, x), lambda: Tensor.einsum("ij,jk", x), lambda: Tensor.einsum("ijk->ik", x), lambda: Tensor.einsum("ij->iz", x),
            lambda: Tensor.einsum("ij->ii", x), lambda: image.max_pool2d((5, 5)), lambda: image.max_pool2d(stride=0), lambda: image.avg_pool2d((2, 2), dilation=0),
            lambda: image.max_pool2d((2, 2, 2, 2, 2)), lambda: image.conv2d(Tensor.ones(1, 3, 2, 2)), lambda: image.conv2d(Tensor.ones(1, 2, 4, 4)),
            lambda: image.conv2d(kernel, v), lambda: image.conv2d(kernel, stride=0), lambda: image.conv2d(kernel, dilation=0), lambda: image.conv2d(kernel, groups=0),
            lambda: x.conv2d(kernel), lambda: image.conv_transpose2d(Tensor.ones(3, 1, 2, 2)), lambda: image.conv_transpose2d(Tensor.ones(2, 1, 2, 2), stride=0),
            lambda: image.conv_transpose2d(Tensor.ones(2, 1, 2, 2), output_padding=3), lambda: image.interpolate((0, 3)),
            lambda: x.cross_entropy(Tensor([0, 1])), lambda: x.nll_loss(Tensor([0, 1])), lambda: x.nll_loss(Tensor([0, 1, 2]), Tensor.ones(3)),
            lambda: x.binary_crossentropy_logits(v), lambda: Tensor.zeros(-1), lambda: Tensor.eye(-1), lambda: Tensor.linspace(0, 1, -1),
            lambda: Tensor.randint(2, low=5, high=5), lambda: Tensor.randperm(-1), lambda: v.multinomial(9)]
        for number, call in enumerate(calls):
            for kind in (ValueError, RuntimeError, beamline.ShapeError):
                with self.subTest(number, kind=kind):
                    self.assertRaises(kind, call)

    def test_shapes_without_a_server(self):
        x = Tensor.empty(2, 3, 8, 8)
        for result, expected in ((x.conv2d(Tensor.empty(4, 3, 3, 3), padding=1), (2, 4, 8, 8)), (x.max_pool2d(), (2, 3, 4, 4)),
                                 (x[:, None, 0, ::-2], (2, 1, 4, 8)), (x[[0, 1, 1]], (3, 3, 8, 8)),
                                 (x.rearrange("b c (h k) w -> b (c k) h w", k=2), (2, 6, 4, 8)),
                                 (x.unfold(2, 3, 2), (2, 3, 3, 8, 3)), (x.flatten(1), (2, 192)),
                                 (x.mean((2, 3), keepdim=True), (2, 3, 1, 1)),
                                 (x.interpolate((4, 5)), (2, 3, 4, 5)), (x.avg_pool2d((3, 3), ceil_mode=True), (2, 3, 3, 3)),
                                 (x.diagonal(), (8, 8, 2)),
                                 (Tensor.einsum("bchw,cd->bd", x, Tensor.empty(3, 7)), (2, 7)), (x.topk(3)[1], (2, 3, 8, 3)),
                                 (x.sum(), ())):
            self.assertEqual(result.shape, expected)


if __name__ == "__main__":
    unittest.main()
