# SPDX-License-Identifier: MIT
"""Variables: named sizes, positions and values, which may vary without a new capture or plan."""
import copy
import pickle
import unittest

from beamline import Device, JitError, Tensor, TinyJit, Variable, VariableError, dtypes
from beamline.symbolic import Symbolic, is_known, now
from tensors import TensorCase


class FormulaTest(unittest.TestCase):
    """Arithmetic of Variables, without a server."""

    def test_values(self):
        n, m = Variable("n", 1, 10), Variable("m", 0, 4)
        formulas = [lambda n, m: n + 1, lambda n, m: 2 * n - m, lambda n, m: (n + 1) * (m + 2) - n * m, lambda n, m: 7 - n,
                    lambda n, m: (2 * n + 4) // 2, lambda n, m: (n + 3) // 2 + (n + 3) % 2, lambda n, m: (6 * n * (m + 1)) // (2 * n),
                    lambda n, m: (5 * m + n) // (m + 1), lambda n, m: (n - 6) // 4, lambda n, m: (n - 6) % 4,
                    lambda n, m: n * 3 % 3, lambda n, m: -n + 2 * n, lambda n, m: (n + m) * (n - m)]
        for number, formula in enumerate(formulas):
            general = formula(n, m)
            for i in (1, 3, 10):
                for k in (0, 2, 4):
                    with self.subTest(number, n=i, m=k):
                        bound = formula(n.bind(i), m.bind(k))
                        self.assertEqual(now(bound), formula(i, k))
                        if isinstance(general, Symbolic):
                            self.assertEqual(bound, general)
                            self.assertTrue(general.vmin <= formula(i, k) <= general.vmax)

    def test_equal_by_formula(self):
        n = Variable("n", 1, 10)
        self.assertEqual(n + 1, 1 + n.bind(3))
        self.assertEqual(hash((n + 2) * 2), hash(2 * n + 4))
        self.assertNotEqual(n, Variable("n", 1, 9))
        self.assertNotEqual(n.bind(3), 3)
        self.assertEqual((n - n, (n + 3) - n), (0, 3))

    def test_comparison(self):
        n = Variable("n", 1, 10)
        self.assertTrue(n <= 10 and n > 0 and not n < 1 and n + 1 > n and bool(n))
        self.assertTrue(is_known(n, 10) and not is_known(n, 9))
        self.assertRaises(VariableError, lambda: n < 5)
        self.assertTrue(n.bind(3) < 5 < n.bind(6))
        self.assertEqual((int(n.bind(3)), list(range(n.bind(2))), n.bind(4).unbind(), n.bind(4).val), (3, [0, 1], (n, 4), 4))

    def test_refusals(self):
        n = Variable("n", 1, 10)
        for call in (lambda: n.bind(11), lambda: n.bind(0), lambda: n.bind(2).bind(2), lambda: n.val, n.unbind,
                     lambda: n.bind(2) + n.bind(3), lambda: n + Variable("n", 0, 3), lambda: Variable("a b", 0, 1),
                     lambda: Variable("n", 2, 1), lambda: int(n)):
            self.assertRaises(AssertionError, call)  # as in tinygrad
            self.assertRaises(ValueError, call)


class VariableTest(TensorCase):
    def plans(self, work):
        """Returns whether each request of |work| had a plan that was "compiled" or "cached"."""
        seen, count = [], Device.session.count

        def record(stats):
            seen.append(stats["plan"])
            return count(stats)
        Device.session.count = record
        try:
            work()
        finally:
            del Device.session.count
        return seen

    def test_what_takes_one(self):
        x = Tensor.arange(10).realize()
        v = Variable("v", 0, 9)
        cases = [("index", lambda v: x[v], lambda i, a: a[i]), ("from", lambda v: x[v:], lambda i, a: a[i:]),
                 ("to", lambda v: x[:v], lambda i, a: a[:i]), ("part", lambda v: x[v:v + 1], lambda i, a: a[i:i + 1]),
                 ("from the end", lambda v: x[:-1][v:], lambda i, a: a[:-1][i:]),
                 ("shrink", lambda v: x.shrink(((v, 10),)), lambda i, a: a[i:]), ("value", lambda v: x + v, lambda i, a: [e + i for e in a]),
                 ("before", lambda v: v - x, lambda i, a: [i - e for e in a]), ("scalar", Tensor, lambda i, a: i),
                 ("factor", lambda v: x.float() * v, lambda i, a: [e * i for e in a]), ("below", lambda v: x < v, lambda i, a: [e < i for e in a]),
                 ("range", Tensor.arange, lambda i, a: a[:i]), ("range from", lambda v: Tensor.arange(v, v + 3), lambda i, a: [i, i + 1, i + 2]),
                 ("range by 2", lambda v: Tensor.arange(0, 2 * v, 2), lambda i, a: list(range(0, 2 * i, 2))),
                 ("full", lambda v: Tensor.full((2, v), 7), lambda i, a: [[7] * i] * 2),
                 ("full value", lambda v: Tensor.full((2,), 2 * v + 1), lambda i, a: [2 * i + 1] * 2),
                 ("pad", lambda v: Tensor([5]).pad(((v, 9 - v),)), lambda i, a: [0] * i + [5] + [0] * (9 - i)),
                 ("expand", lambda v: Tensor([[1], [2]]).expand(2, v + 1), lambda i, a: [[1] * (i + 1), [2] * (i + 1)]),
                 ("reshape", lambda v: Tensor.ones(2, v).reshape(v, 2).sum(0), lambda i, a: [i, i]),
                 ("inferred", lambda v: Tensor.ones(2, v).reshape(-1, 2).sum(0), lambda i, a: [i, i]),
                 ("cat", lambda v: x[:v].cat(x[v:]), lambda i, a: a), ("mean", lambda v: x[:v + 1].mean(), lambda i, a: sum(a[:i + 1]) / (i + 1)),
                 ("matmul", lambda v: Tensor.ones(2, v + 1) @ x[:v + 1].float().reshape(-1, 1), lambda i, a: [[sum(a[:i + 1])]] * 2),
                 ("negative", lambda v: Tensor([1.5]) * Variable("w", -9, 0).bind(-int(v)), lambda i, a: [-1.5 * i]),
                 ("several", lambda v: x[:v + 1].reshape(1, v + 1).sum(1) + x[v], lambda i, a: [sum(a[:i + 1]) + a[i]])]
        for name, ours, expected in cases:
            results = []

            def run(i):
                results.append(ours(v.bind(i)).tolist())  # pylint: disable=cell-var-from-loop
            with self.subTest(name):
                self.plans(lambda: run(4))
                plans = self.plans(lambda: (run(0), run(9), run(3)))
                self.assertEqual(results, [expected(i, list(range(10))) for i in (4, 0, 9, 3)])
                self.assertEqual(set(plans), {"cached"})

    def test_setitem(self):
        x, v = Tensor.zeros(2, 6).contiguous().realize(), Variable("v", 0, 4)
        for i in (0, 4, 2):
            x[:, v.bind(i):v.bind(i) + 2] = Tensor([[1.0 + i], [2.0 + i]])
            x.realize()
        self.assertEqual(x.tolist(), [[1, 1, 3, 3, 5, 5], [2, 2, 4, 4, 6, 6]])

    def test_one_program_for_all_values(self):
        calls, v = [], Variable("v", 1, 10)

        @TinyJit
        def f(a, n):
            calls.append(1)
            return (a[:n] * 2).sum(), a[n - 1] + n
        a = Tensor.arange(10).realize()
        for i in (1, 5):
            f(a, v.bind(i))
        before = self.client.metrics()
        for i in (3, 10, 1, 7):
            total, last = f(a, v.bind(i))
            self.assertEqual((total.item(), last.item()), (i * (i - 1), 2 * i - 1))
        after = self.client.metrics()
        compiled = [key for key in before if "compile" in key and key.endswith(("_count", "_total"))]
        self.assertTrue(compiled)
        self.assertEqual([before[key] for key in compiled], [after[key] for key in compiled])
        self.assertEqual((len(calls), len(f.captures)), (2, 1))

    def test_shapes_of_arguments(self):
        f = TinyJit(lambda a, b: (a @ b.transpose(0, 1)).softmax())
        x = Tensor.rand(3, 10).realize()
        for i in range(1, 6):
            part = x[:, :Variable("i", 1, 10).bind(i)]
            got = f(part, x[:, :Variable("i", 1, 10).bind(i)])
            expected = (x[:, :i] @ x[:, :i].transpose(0, 1)).softmax().tolist()
            for row, wanted in zip(got.tolist(), expected):
                for a, b in zip(row, wanted):
                    self.assertAlmostEqual(a, b, 5)
        self.assertEqual(len(f.captures), 1)
        self.assertRaises(JitError, f, x[:, :4], x[:, :4])
        self.assertRaises(JitError, f, *(x[:, :Variable("other", 1, 10).bind(4)] for _ in range(2)))

    def test_results_by_name(self):
        """A result with a named size can be cut or reshaped by numbers, as in programs for tinygrad."""
        f = TinyJit(lambda a: a + 1)
        x = Tensor.arange(30).reshape(3, 10).realize()
        for i in range(1, 6):
            v = Variable("i", 1, 10).bind(i)
            got = f(x[:, :v])
            expected = [[10 * row + k + 1 for k in range(i)] for row in range(3)]
            self.assertEqual(got.shape, (3, v))
            self.assertEqual((got.tolist(), got[:3, :i].tolist(), got.reshape(3, i).tolist(), got[:, i - 1].tolist()),
                             (expected, expected, expected, [row[-1] for row in expected]))
            self.assertEqual(x[:, :i].contiguous().reshape(3, v).sum(1).tolist(), [sum(row) - i for row in expected])
        self.assertEqual(len(f.captures), 1)

    def test_gradients(self):
        w, v = Tensor.arange(10).float().realize(), Variable("v", 1, 9)
        w.requires_grad = True
        for i in (3, 9):
            w.grad, half = None, w[:v.bind(i) + 1] * 0.5
            total = (half * half * v.bind(i)).sum()
            half.realize()  # realising a Tensor whose shape is a formula keeps it in the gradient graph
            total.backward()
            self.assertEqual(w.grad.tolist(), [i * each / 2 if each <= i else 0 for each in range(10)])
            self.assertEqual(half.shape, (i + 1,))
            self.assertEqual(half.tolist(), [each / 2 for each in range(i + 1)])

    def test_a_cache_of_attention(self):
        cache, calls, length = Tensor.zeros(2, 16, 4).contiguous().realize(), [], 16

        @TinyJit
        def step(x, pos):
            calls.append(1)
            cache[:, pos:pos + 1] = x
            seen = cache[:, :pos + 1]
            return x.scaled_dot_product_attention(seen, seen) + pos
        seen = []
        for i in range(8):
            x = Tensor.rand(2, 1, 4).realize()
            seen.append(x)
            got = step(x, Variable("pos", 0, length - 1).bind(i))
            every = seen[0].cat(*seen[1:], dim=1)
            expected = x.scaled_dot_product_attention(every, every) + i
            self.assertTrue(got.allclose(expected, atol=1e-5))
        self.assertEqual((len(calls), len(step.captures)), (2, 1))

    def test_plain_numbers_choose_a_program(self):
        """A function that uses the plain number of a Variable has a separate program for each number."""
        calls = []

        @TinyJit
        def f(x, n):
            calls.append(1)
            for _ in range(n):
                x = x * 2
            return x if n < 3 else -x
        v, x = Variable("n", 0, 5), Tensor([1.0])
        for _ in range(2):
            self.assertEqual([f(x, v.bind(i)).item() for i in (1, 2, 3, 2, 3)], [2, 4, -8, 4, -8])
        self.assertEqual((len(calls), len(f.captures)), (4, 3))

    def test_bounds_of_what_is_bound(self):
        """If the range of a Variable could lead out of bounds, the bound value decides."""
        x, v = Tensor.arange(22).reshape(2, 11).realize(), Variable("v", 0, 20)
        cases = [lambda v: x[:, v:v + 2], lambda v: x[1:, v:], lambda v: x[:, :v], lambda v: x[1, v], lambda v: x[:, v + 1],
                 lambda v: x[:, -v - 1], lambda v: x.shrink(((0, 1), (v, v + 3))), lambda v: Tensor.arange(v, 9), lambda v: Tensor.arange(9, v - 2, -1),
                 lambda v: Tensor.ones(v - 1), lambda v: Tensor.zeros(2, 8 - v), lambda v: x.pad(((0, 0), (0, 5 - v)))]
        for number, case in enumerate(cases):
            for i in (1, 3, 5, 8):
                with self.subTest(number, i=i):
                    self.assertEqual(case(v.bind(i)).tolist(), case(i).tolist())
            self.assertRaises(ValueError, lambda: case(v).tolist())  # pylint: disable=cell-var-from-loop
        f = TinyJit(lambda x, n: x[:, n:n + 2] * 2)
        for i in (1, 3, 1, 3, 5):
            self.assertEqual(f(x, v.bind(i)).tolist(), (x[:, i:i + 2] * 2).tolist())
        self.assertEqual(len(f.captures), 3)

    def test_dtype(self):
        n = Variable("n", 1, 10, dtype=dtypes.int64).bind(3)
        self.assertEqual((Tensor(n).dtype, Tensor(n).item(), n.unbind()[0].dtype), (dtypes.int64, 3, dtypes.int64))
        self.assertRaises(VariableError, Variable, "n", 1, 10, dtype=dtypes.float32)

    def test_pickles(self):
        n = Variable("n", 1, 10)
        for made in (n, n.bind(3), 2 * n.bind(3) + 1, (n.bind(7) + 3) // 2 % 4, Variable("m", -3, 5, dtype=dtypes.int64)):
            for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
                self.assertEqual((again, again.values, type(again), repr(again)), (made, made.values, type(made), repr(made)))
                if made.values:
                    self.assertEqual(now(again), now(made))

    def test_wrong_use(self):
        x, v = Tensor.arange(10), Variable("v", 0, 9)
        for kind, call in ((AssertionError, lambda: Tensor.ones(v).tolist()), (AssertionError, lambda: x[:v].realize()),
                           (IndexError, lambda: x[v.bind(9) + 1]), (ValueError, lambda: x.shrink(((v.bind(9), v.bind(9) + 2),))),
                           (AssertionError, lambda: x[v + 1]), (AssertionError, lambda: x[v + 2:]),
                           (ValueError, lambda: x.reshape(v.bind(2) + 1, 2)), (ValueError, lambda: x[:v.bind(3)] + x),
                           (ValueError, lambda: Tensor.ones(v.bind(1) - 2)), (AssertionError, lambda: Tensor.arange(v, 4)),
                           (TypeError, lambda: Tensor.arange(v.bind(3), 4.5))):
            self.assertRaises(kind, call)
        f = TinyJit(lambda a, n: a[:n].sum())
        for i in range(3):
            f(x, v.bind(i))
        self.assertRaises(AssertionError, f, x, v)


if __name__ == "__main__":
    unittest.main()
