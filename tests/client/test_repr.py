# SPDX-License-Identifier: MIT
"""The repr of Tensors and models, and errors for unknown names."""
import unittest

import beamline
from beamline import Context, Device, Graph, Tensor, TinyJit, Variable, dtypes, nn
from tensors import TensorCase

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None


class Net(nn.Layer):
    def __init__(self):
        self.layers = [nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm(4), Tensor.relu, nn.Linear(8, 2)]
        self.heads = {"a": nn.Embedding(5, 6), "b": (nn.LSTMCell(2, 3), nn.RMSNorm(4))}
        self.scale, self.size, self.itself = Tensor.ones(2, 3).half(), 7, self


class TensorTextTest(TensorCase):
    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_numbers_are_as_torch_shows_them(self):
        random = numpy.random.default_rng(0)
        for case in range(240):
            rank = int(random.integers(0, 4))
            shape = tuple(int(size) for size in random.integers(1, (3, 8, 30)[case % 3] if rank < 3 else 14, rank))
            scale = 10.0 ** random.integers(-6, 9)
            numbers = {0: lambda s: random.normal(size=s) * scale, 1: lambda s: numpy.round(random.normal(size=s) * scale),
                       2: lambda s: numpy.where(random.random(s) < 0.3, numpy.inf, random.normal(size=s)),
                       3: lambda s: numpy.where(random.random(s) < 0.3, numpy.nan, random.normal(size=s)),
                       4: lambda s: random.normal(size=s) * 0, 5: lambda s: random.normal(size=s) * 10.0 ** random.integers(-4, 4, size=s),
                       6: lambda s: random.integers(-1000, 1000, s), 7: lambda s: random.random(s) < 0.5}[case % 8](shape)
            numbers = numpy.asarray(numbers, {6: "int64", 7: "bool"}.get(case % 8, "float32"))
            theirs, ours = repr(torch.tensor(numbers)), repr(Tensor(numbers))
            with self.subTest(case):
                self.assertEqual(ours.partition("shape=")[0].rstrip(", \n")[len("Tensor("):],
                                 theirs[len("tensor("):-1].partition(", dtype=")[0])

    def test_whole(self):
        device = Device.DEFAULT
        self.assertEqual(repr(Tensor([[1.0, 2], [3, 4]])), f"Tensor([[1., 2.],\n        [3., 4.]], shape=(2, 2), dtype=dtypes.float, device='{device}')")
        self.assertTrue(all(len(line) <= 80 for line in repr(Tensor.rand(9, 50, requires_grad=True)).splitlines()))
        self.assertEqual(repr(Tensor(2.5).half()), f"Tensor(2.5000, shape=(), dtype=dtypes.half, device='{device}')")
        self.assertEqual(repr(Tensor.ones(2, 0, dtype=dtypes.int)), f"Tensor([], shape=(2, 0), dtype=dtypes.int, device='{device}')")
        self.assertEqual(str(Tensor([-0.0], requires_grad=True)), f"Tensor([-0.], shape=(1,), dtype=dtypes.float, device='{device}',\n       requires_grad=True)")
        self.assertIn("Tensor([0, 1, 2], shape=(i [i=3],)", repr(Tensor.arange(9)[:Variable("i", 1, 5).bind(3)]))
        self.assertIn("Tensor([1.5000], shape=(1,), dtype=dtypes.bfloat16", repr(Tensor([1.5]).bfloat16()))

    def test_of_a_large_one_the_ends_are_fetched(self):
        x, fetched = Tensor.arange(1 << 20).reshape(1024, 1024), []
        post = Device.session.post

        def record(*arguments):
            reply = post(*arguments)
            fetched.extend(each.nbytes for each in reply[1].values())
            return reply
        Device.session.post = record
        try:
            text = repr(x)
        finally:
            del Device.session.post
        self.assertEqual(text.splitlines()[0], "Tensor([[      0,       1,       2,  ...,    1021,    1022,    1023],")
        self.assertEqual(text.splitlines()[6], "        [1047552, 1047553, 1047554,  ..., 1048573, 1048574, 1048575]],")
        self.assertLess(sum(fetched), 1000)

    def test_it_can_be_differentiated_still(self):
        w = Tensor([3.0], requires_grad=True)
        y = (w * w).sum()
        self.assertIn("9.", repr(y))
        y.backward()
        self.assertEqual(w.grad.tolist(), [6])

    def test_it_computes_nothing_while_a_function_is_captured(self):
        texts = []

        @TinyJit
        def f(x):
            y = x * 2
            texts.append(repr(y))
            return y
        for i in range(3):
            self.assertEqual(f(Tensor([1.0 * i])).tolist(), [2 * i])
        self.assertEqual([text.partition(", shape")[0] for text in texts], ["Tensor([0.]", "Tensor(<captured>"])

    def test_it_never_fails(self):
        self.assertRegex(repr(Tensor.ones(Variable("i", 1, 5))), "Tensor\\(<Variable 'i' is not bound>,\n? +shape=\\(Variable")
        lost = (Tensor([1.0] * 300) + 1).realize()
        Device.connect(self.server.url)
        self.assertRegex(repr(lost), "make the Tensor again")
        Device.connect("http://127.0.0.1:1")
        try:
            self.assertRegex(repr(Tensor([1.0]) + 1), "no server answers at http://127.0.0.1:1 ")
            self.assertRegex(repr(Tensor([1.0])), r"^Tensor\(\[1\.\], shape=\(1,\), dtype=dtypes\.float\)$")
        finally:
            Device.connect(self.server.url)


class ModelTextTest(TensorCase):
    TEXT = """Net(
  (layers): list(
    (0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    (1): BatchNorm(4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    (2): Tensor.relu
    (3): Linear(in_features=8, out_features=2, bias=True)
  )
  (heads): dict(
    (a): Embedding(5, 6)
    (b): tuple(
      (0): LSTMCell(2, 3)
      (1): RMSNorm(4, eps=1e-06, elementwise_affine=True)
    )
  )
  (scale): Tensor(2, 3) dtypes.half
)"""

    def test_tree(self):
        net = Net()
        self.assertEqual((str(net), nn.describe(net)), (self.TEXT, self.TEXT))
        self.assertEqual(nn.describe([nn.Linear(2, 3, bias=False)]), "list(\n  (0): Linear(in_features=2, out_features=3, bias=False)\n)")

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_layers_are_as_torch_shows_them(self):
        for ours, theirs in ((nn.Linear(3, 4), torch.nn.Linear(3, 4)), (nn.Conv2d(4, 6, (3, 2), 2, 1, 2, 2), torch.nn.Conv2d(4, 6, (3, 2), 2, 1, 2, 2)),
                             (nn.Embedding(3, 4), torch.nn.Embedding(3, 4)), (nn.LayerNorm((3, 4)), torch.nn.LayerNorm((3, 4))),
                             (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4)), (nn.LSTMCell(2, 3), torch.nn.LSTMCell(2, 3)),
                             (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), torch.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1))):
            self.assertEqual(repr(ours), repr(theirs))


class UnknownNameTest(TensorCase):
    def test_suggestions(self):
        graph = Graph()
        for call, name in ((lambda: Tensor([1.0]).sofmax(), "softmax"), (lambda: Tensor.zeross(3), "zeros"), (lambda: nn.Linaer, "Linear"),
                           (lambda: nn.linear, "Linear"), (lambda: dtypes.flaot32, "float32"), (lambda: beamline.Tenosr, "Tensor"),
                           (lambda: graph.sofmax, "softmax"), (lambda: graph.input("x", [2]).sofmax, "softmax")):
            self.assertRaisesRegex(AttributeError, f"; did you mean '{name}'\\?$", call)
        for call, name in ((lambda: Tensor([1], dtype="flaot32"), "float32"), (lambda: beamline.array([1], "flaot16"), "float16")):
            self.assertRaisesRegex(ValueError, f"the dtypes are .*float64.*; did you mean '{name}'\\?$", call)
        self.assertRaisesRegex(KeyError, "did you mean 'DEBUG'", Context, DEBGU=1)
        self.assertRaisesRegex(AttributeError, "^Tensor has no attribute 'qqqqqqqq'$", getattr, Tensor([1.0]), "qqqqqqqq")
        self.assertFalse(hasattr(Tensor([1.0]), "__array_struct__"))


if __name__ == "__main__":
    unittest.main()
