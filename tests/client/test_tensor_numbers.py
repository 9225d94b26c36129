# SPDX-License-Identifier: MIT
"""Results with possible silent errors in values or shapes, NumPy operands, seeds, and gradients between devices."""
import contextlib
import os
import subprocess
import sys
import unittest.mock

import beamline
from beamline import Device, Tensor, Variable, dtypes, nn
from beamline.values import numpy
from served import ROOT, Server
from tensors import TensorCase, unittest


class ShapeTest(TensorCase):
    def test_rearrange(self):
        """The patterns of einops' own tests: both patterns of a pair give the same result."""
        x = Tensor.arange(120).reshape(1, 2, 3, 4, 5)
        for left, right in (("a b c d e -> (a b) c d e", "a b ... -> (a b) ..."), ("a b c d e -> a b (c d) e", "... c d e -> ... (c d) e"),
                            ("a b c d e -> a b c d e", "... -> ..."), ("a b c d e -> (a b c d e)", "... -> (...)"),
                            ("a b c d e -> b (c d e) a", "a b ... -> b (...) a"), ("a b c d e -> b (a c d) e", "a b ... e -> b (a ...) e"),
                            ("a b c d e -> c d e a b", "a b ... -> ... a b"), ("a b c d e -> a (b c d) e", "a ... e -> a (...) e"),
                            ("1 b c d e -> b 1 c d e 1", "() b ... -> b () ... 1"), ("a b c d e -> e d c b a", "a b c d e ... -> e ... d c b a")):
            with self.subTest(right):
                one, other = x.rearrange(left), x.rearrange(right)
                self.assertEqual((one.shape, one.tolist()), (other.shape, other.tolist()))
        y = Tensor.arange(8).reshape(8, 1)
        self.assertEqual(y.rearrange("(a b c) d -> d c b a", a=2, b=2).tolist(), [[[[0, 4], [2, 6]], [[1, 5], [3, 7]]]])
        self.assertEqual(Tensor.ones(2, 3, 4).rearrange("... -> (...)").shape, (24,))
        self.assertEqual(Tensor(5).rearrange("... -> ... 1").tolist(), [5])

    def test_rearrange_refuses(self):
        x, y = Tensor.zeros(1, 1, 1, 1, 1), Tensor.zeros(8, 1)
        for formula in ("a b c d (...) -> a b c ... d", "a b (c d ... -> a b c ... d", "a b* c d ... -> a b c ... d", "a b c d -> a b c d -> a b c d",
                        "a ... c ... -> ... a ... c", "a b c d e -> f b c d e", "(...) -> (...)", "a b c d e -> a b c d e)", "((a b) c) d e f -> a b c d e f",
                        "a a c d e -> a c d e", "a b c d e -> a b c d ...", "a b c d e", "a b c d e -> a a b c d e"):
            self.assertRaises(RuntimeError, x.rearrange, formula)
        self.assertRaises(ValueError, x.rearrange, "a b c d -> a b c d")
        for kind, sizes in ((RuntimeError, {"a": 2}), (ValueError, {"a": 3, "b": 2}), (RuntimeError, {"a": 2, "b": 2, "d": 2}), (RuntimeError, {"a": 2, "b": 2, "x": 1})):
            self.assertRaises(kind, y.rearrange, "(a b c) d -> d c b a", **sizes)

    def test_lists_of_nothing(self):
        for shape, expected in (((2, 3, 0), [[[]] * 3] * 2), ((2, 0, 3), [[], []]), ((0, 2), []), ((1, 2, 0, 1), [[[], []]])):
            self.assertEqual(Tensor.zeros(*shape).tolist(), expected)

    def test_circular_padding_wraps_what_is_left(self):
        x = Tensor([[1, 2, 3, 4]])
        for padding, expected in (((-1, 2), [2, 3, 4, 2, 3]), ((2, -1), [2, 3, 1, 2, 3]), ((-1, -1), [2, 3]), ((-2, 2), [3, 4, 3, 4]), ((4, 4), [1, 2, 3, 4] * 3)):
            self.assertEqual(x.pad(padding, mode="circular").tolist(), [expected])
        for padding in ((5, 0), (-3, 2), (4, -2)):
            self.assertRaises(ValueError, x.pad, padding, "circular")


class IntegerTest(TensorCase):
    def test_ranges_beyond_a_dtype(self):
        self.assertEqual(Tensor.arange(128, dtype="int8").tolist()[-1], 127)
        self.assertEqual(Tensor.arange(128, -129, -256, dtype="int16").tolist(), [128, -128])
        self.assertEqual(Tensor.arange(2**32 - 1, 2**32, dtype="uint32").tolist(), [2**32 - 1])
        n = Variable("n", 1, 200).bind(3)
        self.assertEqual(Tensor.arange(n, dtype="uint8").tolist(), [0, 1, 2])
        for work in (lambda: Tensor.arange(129, dtype="int8"), lambda: Tensor.arange(-1, 2, dtype="uint8"), lambda: Tensor.arange(0, 200.5, 100, dtype="int8"),
                     lambda: Tensor.arange(2**31 - 1, 2**31 + 1, dtype="int32"), lambda: Tensor.arange(n, dtype="int8"), lambda: Tensor.linspace(0, 256, 3, dtype="uint8"),
                     lambda: Tensor.randint(3, low=0, high=257, dtype="uint8"), lambda: Tensor.randint(3, low=-1, high=7, dtype="uint8")):
            self.assertRaises(ValueError, work)

    def test_numbers_beyond_a_dtype(self):
        """Numbers out of a dtype's range: comparisons are exact; sums wrap; other operations are errors."""
        x = Tensor([0, 44, 255], dtype="uint8")
        for result, expected in ((x < 300, True), (x <= 300, True), (x == 300, False), (x != 300, True), (x > 300, False), (300 > x, True), (x > -1, True),
                                 (x >= -1, True), (x < -1, False), (x == -1, False), (-1 != x, True)):
            self.assertEqual(result.tolist(), [expected] * 3)
        self.assertEqual(((x + 257).tolist(), (x * 257).tolist(), (x & 0x1ff).tolist()), ([1, 45, 0], [0, 44, 255], [0, 44, 255]))
        self.assertEqual((x / 1000).tolist(), (x.float() / 1000).tolist())
        self.assertEqual((x.clamp(-5, 300).tolist(), x.clamp(-5, 50).tolist(), x.clamp(1, 300).tolist()), ([0, 44, 255], [0, 44, 50], [1, 44, 255]))
        for work in (lambda: x.maximum(300), lambda: x // 300, lambda: x % 300, lambda: x.masked_fill(x > 1, -1), lambda: (x > 1).where(x, 256)):
            self.assertRaises(OverflowError, work)

    def test_interpolation_rounds(self):
        def linear(values, size):  # as PyTorch interpolates floats
            places = [min(max((i + 0.5) * len(values) / size - 0.5, 0), len(values) - 1) for i in range(size)]
            return [values[int(p)] + (values[min(int(p) + 1, len(values) - 1)] - values[int(p)]) * (p - int(p)) for p in places]
        for values, dtype in (([250, 100, 200, 255], "uint8"), ([-100, 120, 127, -128], "int8"), ([60000, 1, 7, 65535], "uint16"), ([-7, 100000, 3, 4], "int32")):
            for size in (3, 4, 8):
                got = Tensor(values, dtype=dtype).interpolate((size,))
                self.assertEqual((got.dtype.name, got.tolist()), (dtype, [round(each) for each in linear(values, size)]))
        x, y = Tensor([250, 100, 0], dtype="uint8"), Tensor([20, 200, 255], dtype="uint8")
        self.assertEqual((x.lerp(y, 0.5).tolist(), x.lerp(y, Tensor([0.5, 0.25, 0.1])).tolist()), ([135, 150, 127.5], [135, 125, 26]))


@unittest.skipIf(numpy is None, "needs NumPy")
class ArrayOperandTest(TensorCase):
    def test_operators(self):
        a, b = numpy.array([[1, 2], [3, 4]], "float32"), numpy.array([5, 7], "float32")
        t = Tensor(b)
        for name, work in (("+", lambda x, y: x + y), ("-", lambda x, y: x - y), ("*", lambda x, y: x * y), ("/", lambda x, y: x / y), ("//", lambda x, y: x // y),
                           ("%", lambda x, y: x % y), ("**", lambda x, y: x ** y), ("@", lambda x, y: x @ y), ("==", lambda x, y: x == y), ("<", lambda x, y: x < y),
                           (">=", lambda x, y: x >= y), ("!=", lambda x, y: x != y)):
            with self.subTest(name):
                for left, right, expected in ((a, t, work(a, b)), (t, a.T, work(b, a.T))):
                    got = work(left, right)
                    self.assertIsInstance(got, Tensor)
                    numpy.testing.assert_allclose(got.numpy(), expected, rtol=1e-5)
        for scalar in (numpy.float32(2), numpy.float64(2), numpy.int64(2), numpy.bool_(True)):
            for got, expected in ((scalar * t, [5 * int(scalar), 7 * int(scalar)]), (t - scalar, [5 - int(scalar), 7 - int(scalar)])):
                self.assertIsInstance(got, Tensor)
                self.assertEqual((got.dtype, got.tolist()), (dtypes.float32, expected))

    def test_bits(self):
        a, t = numpy.array([6, 3], "int32"), Tensor([5, 9])
        for got, expected in ((a & t, [4, 1]), (a | t, [7, 11]), (a ^ t, [3, 10]), (a << t, [192, 1536]), (a >> t, [0, 0])):
            self.assertEqual(got.tolist(), expected)

    def test_as_an_array(self):
        t = Tensor([[1, 2], [3, 4]])
        self.assertEqual((numpy.asarray(t).dtype, numpy.array(t, "float64").tolist()), (numpy.int32, [[1, 2], [3, 4]]))
        self.assertEqual(numpy.concatenate([t, t]).shape, (4, 2))
        x = numpy.zeros(2, "float32")
        x[:] = Tensor([1.0, 2])
        self.assertEqual(x.tolist(), [1, 2])
        self.assertRaises(TypeError, numpy.sqrt, t)


class SeedTest(TensorCase):
    def drawn(self, first="", **settings):
        code = ("from beamline import *; Device.connect(%r); Tensor.training = True; %s\n"
                "from beamline.train import DataLoader\n"
                "@TinyJit\ndef f(x): return x + Tensor.rand(2)\n"
                "for _ in range(2): last = f(Tensor([0.0]))\n"
                "print([each.tolist() for each in (Tensor.rand(3), Tensor.randn(3), Tensor.randint(9, high=1000), Tensor.randperm(50), nn.Linear(2, 2).weight,\n"
                "Tensor.ones(64).dropout(), Tensor.ones(50).multinomial(9), last)])") % (self.server.url, first)
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python"), **settings}, capture_output=True, text=True, check=True)
        return eval(done.stdout)  # pylint: disable=eval-used

    def test_processes_differ_without_a_seed(self):
        for one, other in zip(self.drawn(), self.drawn()):
            self.assertNotEqual(one, other)

    def test_a_seed_is_the_same_everywhere(self):
        seeded = self.drawn("Tensor.manual_seed(5)")
        self.assertEqual(seeded, self.drawn("Tensor.manual_seed(5)", BEAMLINE_SEED="6"))
        self.assertEqual(seeded, self.drawn(BEAMLINE_SEED="5"))
        self.assertNotEqual(seeded, self.drawn("Tensor.manual_seed(6)"))
        Tensor.manual_seed(5)
        self.assertEqual([round(each, 6) for each in Tensor.rand(3).tolist()], FIRST_OF_SEED_5)


FIRST_OF_SEED_5 = [0.164066, 0.314492, 0.905059]


class DeviceGradientTest(unittest.TestCase):
    """Gradients between two interpreter devices of one server."""

    @classmethod
    def setUpClass(cls):
        with unittest.mock.patch.dict(os.environ, {"BEAMLINE_INTERP_DEVICES": "2"}):
            cls.server = Server("--backends", "interp", "--log-level", "error")
        with contextlib.closing(beamline.Client(cls.server.url)) as client:
            client.wait_ready()
        Device.connect(cls.server.url)

    @classmethod
    def tearDownClass(cls):
        Device.connect(cls.server.url)
        cls.server.stop()

    def check(self, tensors, grads):
        for tensor, grad in zip(tensors, grads):
            self.assertEqual(tensor.grad.device, tensor.device)
            self.assertEqual(tensor.grad.tolist(), grad)
            self.assertEqual((tensor - tensor.grad).device, tensor.device)

    def test_a_leaf_on_another_device(self):
        for realized in (False, True):
            for device in ("interp:0", None):
                w = Tensor([1.0, 2], device=device, requires_grad=True)
                w = w.realize() if realized else w
                y = (w * w).to("interp:1")
                (y * 3).sum().backward()
                self.check([w], [[6, 12]])
                w.to("interp:1").sum().backward()
                self.check([w], [[7, 13]])

    def test_there_and_back(self):
        w, b = Tensor([1.0, 2], device="interp:0"), Tensor([10.0, 20], device="interp:1")
        v = w.to("interp:1")
        u = (v * v + b).to("interp:0") * w          # (w^2 + b) w
        total = (u.to("interp:1") * b).sum() + v.sum()
        total.backward()
        self.check([w, b], [[10 * 13 + 1, 20 * 32 + 1], [11 + 10, 2 * (24 + 20)]])
        self.assertEqual((v.grad.device, v.grad.tolist()), ("interp:1", [10 * 2 + 1, 20 * 8 + 1]))

    def test_second_derivatives(self):
        x = Tensor([2.0], device="interp:0")
        first, = (x ** 3).to("interp:1").square().sum().gradient(x)      # 6 x^5
        second, = first.sum().gradient(x)
        self.assertEqual((first.device, first.tolist(), second.device, second.tolist()), ("interp:0", [192], "interp:0", [480]))

    def test_given_and_missing(self):
        x, z = Tensor([1.0, 2], device="interp:0"), Tensor([5.0], device="interp:0")
        y = x.to("interp:1")
        g, zero = (y * y).gradient(x, z, gradient=Tensor([1.0, 10], device="interp:1"), materialize_grads=True)
        self.assertEqual((g.device, g.tolist(), zero.device, zero.tolist()), ("interp:0", [2, 40], "interp:0", [0]))
        whole, = y.gradient(x, gradient=Tensor([3.0, 4], device="interp:1"))
        self.assertEqual((whole.device, whole.tolist()), ("interp:0", [3, 4]))
        self.assertRaises(RuntimeError, (y.detach() * 1).sum().gradient, x)

    def test_a_model_over_two_devices(self):
        Tensor.manual_seed(3)
        first, last = nn.Linear(3, 4), nn.Linear(4, 1)
        for each in nn.state.get_parameters(last):
            each.to_("interp:1")
        x, t = Tensor.rand(8, 3).realize(), Tensor.rand(8, 1).realize().to("interp:1")
        losses = []
        with Tensor.train():
            opt = nn.optim.OptimizerGroup(nn.optim.SGD(nn.state.get_parameters(first), lr=0.1), nn.optim.SGD(nn.state.get_parameters(last), lr=0.1))
            for _ in range(5):
                opt.zero_grad()
                loss = (last(first(x).relu().to("interp:1")) - t).square().mean()
                loss.backward()
                for one in opt.optimizers:
                    one.step()
                losses.append(loss.item())
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertEqual([each.device for each in (first.weight, last.weight)], ["interp:0", "interp:1"])


if __name__ == "__main__":
    unittest.main()
