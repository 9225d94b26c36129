# SPDX-License-Identifier: MIT
"""Views: a write to a Tensor changes all Tensors that share its elements, and no expression made before the write."""
import copy
import pickle
import random

from beamline import JitError, Tensor, TinyJit, Variable, dtypes, nn
from beamline.values import numpy
from tensors import TensorCase, unittest


class ViewTest(TensorCase):
    def test_kinds(self):
        """Each kind of view of [[0, 1, 2], [3, 4, 5]], the value written to it, and the base after the write."""
        cases = [("row", lambda x: x[1], [7, 8, 9], [[0, 1, 2], [7, 8, 9]]), ("element", lambda x: x[1][0], 7, [[0, 1, 2], [7, 4, 5]]),
                 ("column", lambda x: x[:, 1], [7, 8], [[0, 7, 2], [3, 8, 5]]), ("every second", lambda x: x[:, ::2], [[6, 7], [8, 9]], [[6, 1, 7], [8, 4, 9]]),
                 ("backwards", lambda x: x[0, ::-1], [7, 8, 9], [[9, 8, 7], [3, 4, 5]]), ("None", lambda x: x[:, None, 2], [[7], [8]], [[0, 1, 7], [3, 4, 8]]),
                 ("shrink", lambda x: x.shrink(((1, 2), (0, 2))), [[7, 8]], [[0, 1, 2], [7, 8, 5]]),
                 ("reshape", lambda x: x.reshape(3, 2), [[9, 8], [7, 6], [5, 4]], [[9, 8, 7], [6, 5, 4]]),
                 ("flatten", lambda x: x.flatten()[2:4], [8, 9], [[0, 1, 8], [9, 4, 5]]), ("T", lambda x: x.T[0], [8, 9], [[8, 1, 2], [9, 4, 5]]),
                 ("permute", lambda x: x.permute(1, 0)[1:, 1], [8, 9], [[0, 1, 2], [3, 8, 9]]), ("flip", lambda x: x.flip(0, 1)[0], [7, 8, 9], [[0, 1, 2], [9, 8, 7]]),
                 ("detach", lambda x: x.detach()[0], [7, 8, 9], [[7, 8, 9], [3, 4, 5]]), ("split", lambda x: x.split([1, 2], dim=1)[0], [[7], [8]], [[7, 1, 2], [8, 4, 5]]),
                 ("chunk", lambda x: x.chunk(2)[1], [[7, 8, 9]], [[0, 1, 2], [7, 8, 9]]), ("unsqueeze", lambda x: x.unsqueeze(0)[0, 0], [7, 8, 9], [[7, 8, 9], [3, 4, 5]]),
                 ("rearrange", lambda x: x.rearrange("a b -> (b a)")[:2], [8, 9], [[8, 1, 2], [9, 4, 5]]), ("diagonal", lambda x: x.diagonal(1), [8, 9], [[0, 8, 2], [3, 4, 9]]),
                 ("iteration", lambda x: list(x)[1], [7, 8, 9], [[0, 1, 2], [7, 8, 9]]), ("nothing", lambda x: x[2:], [[]], [[0, 1, 2], [3, 4, 5]])]
        for name, view, value, expected in cases:
            for realized in (False, True):
                with self.subTest(name, realized=realized):
                    x = Tensor.arange(6).reshape(2, 3).contiguous()
                    v = view(x.realize() if realized else x)
                    computed, other = x * 1, x.reshape(6)
                    v.assign(Tensor(value, dtype="int32").reshape(v.shape))
                    self.assertEqual(x.tolist(), expected)
                    self.assertEqual((v.tolist(), other.tolist()), (view(Tensor(expected)).tolist(), Tensor(expected).flatten().tolist()))
                    self.assertEqual(computed.tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_in_place_operators(self):
        x = Tensor.arange(6).reshape(2, 3).contiguous()
        v, row = x[:, 1:], x[0]
        v += 10
        x[1] *= 2
        x[0][2] -= 1
        row += Tensor([100, 0, 0])
        self.assertEqual(x.tolist(), [[100, 11, 11], [6, 28, 30]])
        for each in x:
            each += 1
        self.assertEqual((x.tolist(), v.tolist()), ([[101, 12, 12], [7, 29, 31]], [[12, 12], [29, 31]]))

    def test_a_write_in_place_is_done_once(self):
        x, y = Tensor.arange(4).realize(), Tensor.arange(4).realize()
        x[1:3] += 1
        v = y[1:3]
        v += 1
        self.assertEqual(len(list(nodes(x))), len(list(nodes(y))))
        n = Variable("n", 0, 3)
        x[n.bind(1)] = x[n.bind(1)]
        self.assertEqual(x.tolist(), [0, 2, 3, 3])

    def test_a_write_to_the_base(self):
        x = Tensor.arange(4).realize()
        v, deep = x[1:3], x.reshape(2, 2).T[0]
        x += 1
        self.assertEqual((v.tolist(), deep.tolist()), ([2, 3], [1, 3]))
        v.realize()
        x.assign(Tensor([5, 6, 7, 8]))
        self.assertEqual((v.tolist(), deep.tolist()), ([6, 7], [5, 7]))

    def test_the_base_may_be_gone(self):
        x = Tensor.arange(6).reshape(2, 3)
        a, b = x[0], x[:, 1]
        del x
        a += 10
        self.assertEqual((a.tolist(), b.tolist()), ([10, 11, 12], [11, 4]))
        b.assign(Tensor([0, 0]))
        self.assertEqual((a.tolist(), b.tolist()), ([10, 0, 12], [0, 0]))

    def test_bits(self):
        x = Tensor([1.0, -2.0, 0.5])
        x.bitcast(dtypes.uint32)[1:] &= 0x7fffffff
        self.assertEqual(x.tolist(), [1, 2, 0.5])
        x.bitcast(dtypes.uint8)[3:12:4] ^= 0x80  # writes one byte of each element
        self.assertEqual(x.tolist(), [-1, -2, -0.5])
        b = Tensor([0, 0, 128, 63], dtype="uint8")
        b.bitcast(dtypes.float32).assign(Tensor([2.0]))
        self.assertEqual(b.tolist(), [0, 0, 0, 64])

    def test_what_cannot_be_written(self):
        x = Tensor([[1.0], [2.0]])
        wide = x.expand(2, 3)
        for work in (lambda: wide.assign(Tensor.zeros(2, 3)), lambda: wide.__setitem__(0, 1), lambda: wide.__iadd__(1), lambda: wide[1].assign(Tensor.zeros(3)),
                     lambda: Tensor.ones(1).expand(4).__setitem__(1, 2.0)):
            self.assertRaisesRegex(RuntimeError, "clone", work)
        self.assertEqual((x.tolist(), wide.tolist()), ([[1], [2]], [[1, 1, 1], [2, 2, 2]]))
        own = wide.clone()
        own[0] = 5
        self.assertEqual((own.tolist(), x.tolist()), ([[5, 5, 5], [2, 2, 2]], [[1], [2]]))
        x.expand(1, 2, 1)[0, 0] = 3  # axes of size 1 have no repeated elements
        self.assertEqual(x.tolist(), [[3], [2]])
        w = Tensor([1.0, 2], requires_grad=True)
        self.assertRaises(NotImplementedError, w.reshape(2, 1).__setitem__, 0, 1)
        w.detach()[0] = 9
        self.assertEqual(w.tolist(), [9, 2])

    def test_copies(self):
        """The results of operations that copy in PyTorch, or that compute, are not views."""
        x = Tensor.arange(4).contiguous().realize()
        copies = [x.repeat(2), x.repeat(1), x.repeat_interleave(2), x.repeat_interleave(1), x.roll(1), x.roll(0), x.pad((0, 0)), x.pad((0, 1)), x.clone(), x * 1,
                  x[Tensor([0, 1, 2, 3])], x[1:].contiguous(), x[1:].realize().contiguous(), x.reshape(4, 1).expand(4, 2).reshape(8), x.cat(), Tensor(x), x.cast("int64")]
        for each in copies:
            each += 1
            self.assertEqual(x.tolist(), [0, 1, 2, 3])
        self.assertIs(x.contiguous(), x)
        x += 1
        self.assertEqual([each.tolist() for each in copies[:2]], [[1, 2, 3, 4, 1, 2, 3, 4], [1, 2, 3, 4]])

    def test_variables_and_numbers_in_shapes(self):
        n = Variable("n", 1, 8).bind(4)
        x, y = Tensor.arange(8).contiguous(), Tensor.arange(4).contiguous()
        numbers, names = x[:n].reshape(2, 2), y.reshape(n)
        numbers += 10
        names *= 2
        self.assertEqual((x.tolist(), y.tolist()), ([10, 11, 12, 13, 4, 5, 6, 7], [0, 2, 4, 6]))
        x += 1
        y[0] = 5
        self.assertEqual((numbers.tolist(), names.tolist()), ([[11, 12], [13, 14]], [5, 2, 4, 6]))

    def test_replace_leaves(self):
        x = Tensor.arange(4).contiguous()
        v = x[1:3]
        v.replace(Tensor([7, 8]))
        self.assertEqual((x.tolist(), v.tolist()), ([0, 1, 2, 3], [7, 8]))
        v, y = x[1:3], x.reshape(2, 2)
        x.replace(Tensor([5, 6, 7, 8]))
        y += 1
        self.assertEqual((x.tolist(), v.tolist(), y.tolist()), ([5, 6, 7, 8], [2, 3], [[1, 2], [3, 4]]))

    def test_gradients(self):
        w, x = Tensor([1.0, 2, 3]), Tensor([5.0, 6], requires_grad=True)
        y = w * 2
        v = y[1:]
        v.assign(x * x)
        (y * Tensor([1.0, 10, 100])).sum().backward()
        self.assertEqual(x.grad.tolist(), [100, 1200])
        y.detach()[0:2].assign(x)
        g, = (y * y).sum().gradient(x)
        self.assertEqual(g.tolist(), [0, 4 * 6 ** 3])  # the last element is still x * x
        a = Tensor([1.0, 2])
        b = Tensor.zeros(2).contiguous()
        b[:].assign(a)
        for i in (1, 2):
            (b * 3).sum().backward()
            self.assertEqual((a.grad.tolist(), b.grad.tolist()), ([3 * i] * 2, [3 * i] * 2))

    def test_many_writes_stay_one_step_deep(self):
        """A read of a view computes the pending writes, so the next write starts from computed elements."""
        x = Tensor.zeros(4).contiguous().realize()
        v = x[1:3]
        for i in range(5):
            v += 1
            self.assertEqual(v.tolist(), [i + 1] * 2)
            self.assertEqual(len(list(nodes(x))), 1)
        for _ in range(5):
            x[3:].assign(v[:1]).realize()
            self.assertEqual(len(list(nodes(x))), 1)
        self.assertEqual(x.tolist(), [0, 5, 5, 5])

    def test_copies_of_several(self):
        """Copies of Tensors that share elements also share their elements."""
        x = Tensor.arange(4).contiguous()
        for base in (x, None):
            many = [x[1:3], x.reshape(2, 2).T, *([] if base is None else [base])]
            for make in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
                twins = make(many)
                twins[0] += 10
                self.assertEqual([each.tolist() for each in twins], [[11, 12], [[0, 12], [11, 3]], [0, 11, 12, 3]][:len(twins)])
                self.assertEqual(x.tolist(), [0, 1, 2, 3])
        alone = copy.copy(many[0])
        alone += 1
        self.assertEqual((alone.tolist(), x.tolist()), ([2, 3], [0, 1, 2, 3]))

    def test_parameters(self):
        flat = Tensor.zeros(6).contiguous()
        layer = nn.Linear(2, 2)
        layer.weight, layer.bias = flat[:4].reshape(2, 2), flat[4:]
        turned = layer.weight.T
        nn.state.load_state_dict(layer, {"weight": Tensor([[1.0, 2], [3, 4]]), "bias": Tensor([5.0, 6])}, verbose=False)
        self.assertEqual((flat.tolist(), turned.tolist()), ([1, 2, 3, 4, 5, 6], [[1, 3], [2, 4]]))
        with Tensor.train():
            opt = nn.optim.SGD([layer.weight], lr=1.0)
            (layer.weight * layer.weight).sum().backward()
            opt.step()
        self.assertEqual((flat.tolist(), turned.tolist()), ([-1, -2, -3, -4, 5, 6], [[-1, -3], [-2, -4]]))

    def test_a_failed_step_changes_nothing(self):
        flat = Tensor.arange(8).float().contiguous()
        table = nn.Embedding(3, 2)
        table.weight, turned = flat[:6].reshape(3, 2), flat.reshape(2, 4).T
        table.weight.requires_grad = True
        with Tensor.train():
            opt = nn.optim.SGD([table.weight], lr=1.0)
            for rows, expected in (([0, 3], list(range(8))), ([0, 2], [-1, 0, 2, 3, 3, 4, 6, 7])):
                opt.zero_grad()
                table(Tensor(rows)).sum().backward()
                if 3 in rows:
                    self.assertRaises(IndexError, opt.step)
                else:
                    opt.step()
                self.assertEqual((flat.tolist(), turned.T.reshape(8).tolist(), table.weight.flatten().tolist()), (expected, expected, expected[:6]))


def nodes(x):
    from beamline.expr import linearize
    return linearize([x.expr])


class SetitemTest(TensorCase):
    def test_dtypes(self):
        x = Tensor([1, 2, 3, 4])
        for value in (Tensor([1.5, 2.5]), Tensor([1, 2], dtype="int64")):
            for work in (lambda: x.__setitem__(slice(2, 4), value), lambda: x.__setitem__(Tensor([0, 1]), value)):  # pylint: disable=cell-var-from-loop
                self.assertRaisesRegex(RuntimeError, "dtype mismatch: .* cast the value first", work)
        x[2:4] = Tensor([True, False])
        x[0] = 7.9  # a plain number is cast, as in PyTorch and tinygrad
        x[1] = Tensor([5], dtype="int8")
        self.assertEqual(x.tolist(), [7, 5, 1, 0])
        y = Tensor([1.0, 2], dtype="float16")
        y[0], y[1] = Tensor(3), Tensor(0.1)
        self.assertEqual((y.dtype, y.tolist()), (dtypes.float16, [3, 0.0999755859375]))
        if numpy is not None:
            x[:2] = numpy.array([8, 9], "int16")
            self.assertRaises(RuntimeError, x.__setitem__, 0, numpy.array([0.5]))
            self.assertRaises(RuntimeError, x.__setitem__, 0, numpy.float32(0.5))
            self.assertEqual(x.tolist(), [8, 9, 1, 0])

    def test_scatter(self):
        x, i = Tensor([1, 2, 3]), Tensor([0])
        for src in (Tensor([1.5]), Tensor([1], dtype="int64")):
            self.assertRaisesRegex(RuntimeError, "scatter: the dtype of src is .* and that of self is ", x.scatter, 0, i, src)
            self.assertRaisesRegex(RuntimeError, "scatter: the dtype of src is .* and that of self is ", x.scatter_reduce, 0, i, src, "sum")
        self.assertEqual((x.scatter(0, i, Tensor([9])).tolist(), x.scatter(0, i, 9).tolist()), ([9, 2, 3],) * 2)

    def test_shapes(self):
        x = Tensor.zeros(2, 3).contiguous()
        x[0] = Tensor([[[1.0, 2, 3]]])
        x[:, :1] = Tensor([[7.0], [8]])
        self.assertEqual(x.tolist(), [[7, 2, 3], [8, 0, 0]])
        for value in (Tensor([1.0, 2]), Tensor.zeros(2, 3)):
            self.assertRaises(ValueError, x.__setitem__, 0, value)


class CaptureTest(TensorCase):
    def test_a_cache_written_as_in_tinygrads_gpt2(self):
        """One program for all values of start_pos; its writes change a view of the cache that was made outside."""
        cache, calls = Tensor.zeros(2, 1, 8, 2, 3).contiguous().realize(), []
        seen = cache[0, 0, :, 0, 0]

        @TinyJit
        def step(xk, xv, start_pos):
            calls.append(1)
            n = xk.shape[1]
            cache.shrink((None, None, (start_pos, start_pos + n), None, None)).assign(Tensor.stack(xk, xv)).realize()
            keys = cache[0].shrink((None, (0, start_pos + n), None, None))
            values = cache[1].shrink((None, (0, start_pos + n), None, None))
            return (keys * values).sum((0, 1))
        expected, total = [0.0] * 8, 0.0
        for i in range(8):
            x = Tensor.full((1, 1, 2, 3), float(i + 1))
            total += (i + 1) * (i + 2)
            expected[i] = i + 1.0
            self.assertEqual(step(x, x + 1, Variable("start_pos", 0, 7).bind(i)).tolist(), [[total] * 3] * 2)
            self.assertEqual(seen.tolist(), expected)
        self.assertEqual((len(calls), len(step.captures)), (2, 1))
        self.assertEqual(cache[1, 0, :, 1, 2].tolist(), [i + 2.0 for i in range(8)])

    def test_a_view_that_was_there(self):
        x = Tensor.zeros(2, 3).contiguous().realize()
        row, lazy = x[1].realize(), x.T

        @TinyJit
        def step(a):
            row.assign(row + a)
            return lazy.sum(1) + row.sum()
        for i in range(1, 6):
            self.assertEqual(step(Tensor([1.0, 2, 3])).tolist(), [7 * i, 8 * i, 9 * i])
            self.assertEqual((x.tolist(), row.tolist(), lazy.tolist()), ([[0, 0, 0], [i, 2 * i, 3 * i]], [i, 2 * i, 3 * i], [[0, i], [0, 2 * i], [0, 3 * i]]))
            if i == 3:
                x.assign(x * 1)

    def test_only_a_view_is_left(self):
        def views():
            x = Tensor.arange(4).contiguous()
            return x[:2], x[1:]
        a, b = views()

        @TinyJit
        def step(n):
            a.assign(a + n)
        for i in range(1, 5):
            step(Tensor([1]))
            self.assertEqual((a.tolist(), b.tolist()), ([i, 1 + i], [1 + i, 2, 3]))

    def test_an_argument_that_is_a_view(self):
        x, y = Tensor.zeros(2, 3).contiguous().realize(), Tensor.zeros(2, 3).contiguous().realize()

        @TinyJit
        def step(row, n):
            row += n
            row[0] = 9
            return row.sum()
        for i in range(1, 5):
            for base, k in ((x, 0), (y, 1)):
                self.assertEqual(step(base[k], Tensor([1.0])).item(), 9 + 2 * i)
                self.assertEqual(base[k].tolist(), [9, i, i])
        self.assertEqual((x.tolist(), y.tolist()), ([[9, 4, 4], [0, 0, 0]], [[0, 0, 0], [9, 4, 4]]))

    def test_arguments_that_share(self):
        x = Tensor.zeros(4).contiguous().realize()
        both, used, read = TinyJit(lambda a, b: a.assign(b + 1)), TinyJit(lambda a: a.assign(x[:2] + 1)), TinyJit(lambda a, b: a + b + x[:2])
        both(x[:2], x[2:])
        used(x[2:])
        self.assertRaisesRegex(JitError, "clone", both, x[:2], x[2:])
        self.assertRaisesRegex(JitError, "clone", used, x[2:])
        x.assign(Tensor([1.0, 2, 3, 4]))
        for _ in range(4):
            self.assertEqual(read(x[:2], x[2:]).tolist(), [5, 8])

        @TinyJit
        def closed(a):
            x.assign(x + 1)
            return a * 1
        closed(x[:2])
        self.assertRaisesRegex(JitError, "clone", closed, x[:2])
        self.assertEqual(x.tolist(), [2, 3, 4, 5])
        self.assertEqual(closed(x[:2].clone()).tolist(), [2, 3])
        self.assertEqual(x.tolist(), [3, 4, 5, 6])

    def test_nothing_changes_where_it_fails(self):
        x = Tensor.arange(4).contiguous().realize()
        v = x[1:3]

        def broken(a):
            v.assign(v + a)
            x[0] = 9
            return v.tolist()
        f = TinyJit(broken)
        self.assertEqual(f(Tensor([1])), [2, 3])
        self.assertRaises(JitError, f, Tensor([1]))
        self.assertEqual((x.tolist(), v.tolist()), ([9, 2, 3, 3], [2, 3]))
        v += 1
        self.assertEqual(x.tolist(), [9, 3, 4, 3])

    def test_graphs_from_before_a_capture(self):
        w = Tensor([1.0, 2], requires_grad=True).realize()
        loss = (w.reshape(2, 1) * 3).sum()
        f = TinyJit(lambda a: a * w)
        for _ in range(3):
            f(Tensor([1.0, 1]))
        loss.backward()
        self.assertEqual(w.grad.tolist(), [3, 3])


@unittest.skipIf(numpy is None, "needs NumPy")
class RandomTest(TensorCase):
    """Random views of views, read and written in any order, compared with NumPy arrays of element indices."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)

    def view(self, x, at):
        """Returns a view of x, and the indices of its elements in the base."""
        draw, rank = self.random, at.ndim
        kind = draw.choice(("slice", "slice", "index", "reshape", "permute", "flip", "shrink", "unsqueeze", "detach", "chain"))
        if kind == "index" and rank:
            key = draw.randrange(-at.shape[0], at.shape[0]) if at.shape[0] else slice(None)
            return x[key], at[key]
        if kind == "slice" and rank:
            key = tuple(slice(*(draw.choice((None, *range(-n - 1, n + 2))) for _ in range(2)), draw.choice((None, 1, 2, 3, -1, -2))) for n in at.shape)
            return x[key], at[key]
        if kind == "shrink" and rank:
            ranges = [sorted(draw.randrange(n + 1) for _ in range(2)) for n in at.shape]
            return x.shrink(tuple(map(tuple, ranges))), at[tuple(slice(*each) for each in ranges)]
        if kind == "permute":
            order = draw.sample(range(rank), rank)
            return x.permute(order), at.transpose(order)
        if kind == "flip" and rank:
            axes = draw.sample(range(rank), draw.randrange(1, rank + 1))
            return x.flip(axes), numpy.flip(at, axes)
        if kind == "reshape":
            n = at.size
            first = draw.choice([k for k in range(1, n + 1) if n % k == 0]) if n else 0
            shape = draw.choice(((n,), (first, n // first) if n else (0, 2), (1, n)))
            return x.reshape(shape), at.reshape(shape)
        if kind == "unsqueeze" and rank < 4:
            place = draw.randrange(rank + 1)
            return x.unsqueeze(place), numpy.expand_dims(at, place)
        return x.detach(), at

    def write(self, x, at, base, n):
        """Writes to a view or a part of it, and to the same elements of |base|."""
        draw, kind = self.random, self.random.choice(("assign", "add", "number", "part", "picked"))
        values = numpy.arange(n, n + at.size, dtype="int32").reshape(at.shape)
        if kind == "assign":
            x.assign(Tensor(values))
            base[at] = values
        elif kind == "add":
            x += n
            base[at] += n
        elif kind == "number" or not at.ndim or not at.shape[0]:
            x[...] = n
            base[at] = n
        elif kind == "part":
            key = (slice(draw.randrange(at.shape[0]), None, draw.choice((1, 2))), Ellipsis)
            x[key] = Tensor(values[key])
            base[at[key]] = values[key]
        else:
            rows = draw.sample(range(at.shape[0]), draw.randrange(1, at.shape[0] + 1))
            x[Tensor(rows)] = Tensor(values[rows])
            base[at[rows]] = values[rows]

    def test_random_views(self):
        draw = self.random
        for round in range(25):
            size = draw.choice((6, 12, 24))
            base = numpy.arange(size, dtype="int32")
            first = Tensor(base.copy())
            live, past = [(first, numpy.arange(size))], []
            for step in range(14):
                x, at = draw.choice(live)
                action = draw.random()
                if action < 0.4:
                    live.append(self.view(x, at))
                elif action < 0.7:
                    self.write(x, at, base, 100 * step)
                elif action < 0.8:
                    past.append((x + 1, base[at] + 1))
                elif action < 0.9:
                    x.realize()
                elif len(live) > 1:
                    live.pop(draw.randrange(len(live)))
                if draw.random() < 0.4:
                    x, at = draw.choice(live)
                    self.assertEqual(x.tolist(), base[at].tolist(), (round, step))
            for x, at in live:
                self.assertEqual(x.tolist(), base[at].tolist(), round)
            for x, value in past:
                self.assertEqual(x.tolist(), value.tolist(), round)

    def test_random_views_captured(self):
        """A captured function writes to views from before the capture, and to its own views."""
        for seed in range(20):
            draw = self.random = random.Random(seed)
            base = numpy.arange(draw.choice((6, 12, 24)), dtype="int32")
            live = [(Tensor(base.copy()), numpy.arange(base.size))]
            for _ in range(draw.randrange(5)):
                live.append(self.view(*draw.choice(live)))
                if draw.random() < 0.4:
                    draw.choice(live)[0].realize()
            if draw.random() < 0.3 and len(live) > 1:
                live.pop(0)

            def work(n, base, live=live, seed=seed):
                """Writes to the Tensors and to |base|, with the same writes in each call."""
                self.random, mine = random.Random(seed + 100), list(live)
                for step in range(6):
                    x, at = self.random.choice(mine)
                    if self.random.random() < 0.4 and step < 5:
                        mine.append(self.view(x, at))
                    else:
                        self.write(x, at, base, 10 * step)
                        x += n
                        base[at] += 0 if isinstance(n, Tensor) else n
                return [each + 1 for each, _ in live]
            jit = TinyJit(lambda n, work=work, size=base.size: work(n, numpy.zeros(size, "int32")))
            for n in range(1, 5):
                results = jit(Tensor(n, dtype="int32").contiguous())
                twins = [(Tensor(base[at]), at) for _, at in live]
                work(numpy.int32(n), base, twins)
                for (x, at), result in zip(live, results):
                    self.assertEqual((x.tolist(), result.tolist()), (base[at].tolist(), (base[at] + 1).tolist()), (seed, n))
                self.random = draw
                self.write(*draw.choice(live), base, 1000 * n)


if __name__ == "__main__":
    unittest.main()
