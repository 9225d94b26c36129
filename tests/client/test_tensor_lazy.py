# SPDX-License-Identifier: MIT
"""When Tensors are computed, which values stay on the server, and behaviour without a counterpart in PyTorch."""
import copy
import gc
import hashlib
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time

import beamline
from beamline import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from beamline.values import numpy
from served import ROOT
from tensors import TensorCase, unittest


class LazyTest(TensorCase):
    def posts(self, work):
        before = GlobalCounters.requests
        work()
        return GlobalCounters.requests - before

    def test_one_request_a_realize(self):
        a, b = Tensor([1.0, 2]), Tensor([3.0, 4])
        c, d = a + b, a * b
        self.assertEqual(self.posts(lambda: None), 0)
        self.assertEqual(self.posts(lambda: c.realize(d, (c - d).sum())), 1)
        self.assertEqual(self.posts(c.realize), 0)
        self.assertEqual(self.posts(lambda: self.assertEqual((c + d).tolist(), [7, 14])), 1)
        self.assertEqual(self.posts(c.tolist), 0)

    def test_a_training_step_is_one_request(self):
        net = beamline.nn.Linear(4, 2)
        opt = beamline.nn.optim.Adam(beamline.nn.state.get_parameters(net))
        with Tensor.train():
            for expected in (1, 1):
                opt.zero_grad()
                net(Tensor.ones(3, 4)).square().mean().backward()
                self.assertEqual(self.posts(opt.step), expected)

    def test_handles_are_freed(self):
        def names():
            Device.synchronize()
            return {each["name"] for each in Device.session.call("GET",
                                                                 f"/api/v1/tensors?lease={Device.session.lease}")["tensors"]}
        gc.collect()
        before = names()
        x = (Tensor([1.0, 2]) * 2).realize()
        self.assertEqual(len(names() - before), 1)
        y = x + 1
        del x
        self.assertEqual(y.tolist(), [3, 5])
        del y
        gc.collect()
        self.assertEqual(names() - before, set())

    def test_many_results_use_few_names(self):
        a = Tensor([1.0]).realize()
        (a + 1).realize()
        counter = Device.session.counter
        for _ in range(20):
            (a + 1).realize()
        self.assertLessEqual(Device.session.counter - counter, 1)

    def test_assignment_does_not_change_the_past(self):
        x = Tensor([1.0, 2]).realize()
        double = x * 2
        x.assign(Tensor([10.0, 20]))
        x += 1
        self.assertEqual((double.tolist(), x.tolist()), ([2, 4], [11, 21]))
        x[0] = 5
        x[1:] = Tensor([6.0])
        self.assertEqual(x.tolist(), [5, 6])

    def test_large_numbers_are_sent_once(self):
        x = Tensor([float(i) for i in range(1000)])
        for _ in range(3):
            self.assertEqual((x + 1).sum().item(), 500500)
        self.assertIsNotNone(x.expr.handle)

    def test_counters(self):
        """Counters of graphs with a known number of kernels, operations and bytes; without moves, as on the interpreter, no
        work is repeated."""
        a, b = Tensor.rand(16, 16).realize(), Tensor.rand(16, 16).realize()
        i = Tensor.randint(100, high=9).realize()
        size, f = 16 * 16 * 4, TinyJit(lambda x, y: x @ y)
        v = Variable("v", 1, 100)
        cases = [("a + b", lambda: a + b, 1, 256, 3 * size), ("two of one", lambda: (a * b + a) * 2, 1, 3 * 256, 3 * size),
                 ("integers", lambda: i + 1, 1, 100, 800), ("no arithmetic", lambda: a.T.contiguous(), 1, 0, 2 * size),
                 ("product", lambda: a @ b, 1, 2 * 16 ** 3, 3 * size), ("sum", a.sum, 1, 256, size + 4), ("rows", lambda: a.sum(1), 1, 256, size + 64),
                 ("a part", lambda: a[:2] + 1, 1, 32, 256), ("made", lambda: Tensor.full((8,), 2.0), 1, 0, 32),
                 ("two results", lambda: (a + 1).realize((b * 2).sum()), 2, 3 * 256, 3 * size + 4), ("captured", lambda: f(a, b), 1, 2 * 16 ** 3, 3 * size),
                 ("at its largest", lambda: i[:v.bind(7)].sum(), 1, 100, 404), ("nothing", lambda: a, 0, 0, 0)]
        for name, work, kernels, ops, mem in cases:
            for _ in range(3):
                work().realize()
            GlobalCounters.reset()
            begin = time.perf_counter()
            for _ in range(3):
                work().realize()
            wall = time.perf_counter() - begin
            got = (GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem)
            self.assertEqual(got, (3 * kernels, 3 * ops, 3 * mem), name)
            self.assertTrue(0 < GlobalCounters.time_sum_s < wall if kernels else GlobalCounters.time_sum_s == 0, name)
            self.assertEqual(GlobalCounters.requests, 3 if kernels else 0)

    def test_memory_in_use(self):
        before = GlobalCounters.mem_used
        x = Tensor.zeros(1000).contiguous().realize()
        self.assertEqual(GlobalCounters.mem_used - before, 4000)
        GlobalCounters.reset()
        self.assertEqual(GlobalCounters.mem_used - before, 4000)
        del x
        self.assertEqual(GlobalCounters.mem_used, before)

    def test_training(self):
        x, seen = Tensor.ones(1000), []

        @Tensor.train()
        def while_training(fail=False):
            seen.append((Tensor.training, x.dropout(0.5).mean().item() != 1))
            with Tensor.test():
                seen.append((Tensor.training, x.dropout(0.5).mean().item() != 1))
            if fail:
                raise KeyError
            return Tensor.training
        self.assertTrue(while_training())
        self.assertRaises(KeyError, while_training, True)
        self.assertEqual(seen, [(True, True), (False, False)] * 2)
        self.assertFalse(Tensor.training)
        with Context(TRAINING=1):
            self.assertTrue(Tensor.training and x.training)
            with Context(TRAINING=0):
                self.assertFalse(Tensor.training)
            self.assertTrue(Tensor.training)
        with Tensor.train(False):
            self.assertFalse(Tensor.training)
        Tensor.training = True
        self.assertNotEqual(x.dropout(0.5).mean().item(), 1)
        Tensor.training = False
        self.assertRaises(KeyError, Context, NOSUCH=1)

    def test_a_wrong_graph_leaves_things_as_they_were(self):
        x = Tensor([1.0]).realize()
        bad = x._op("nonsense")
        self.assertRaises(beamline.BeamlineError, bad.realize)
        self.assertEqual((x + 1).tolist(), [2])

    def test_deep_graphs(self):
        x = Tensor([0.0])
        for _ in range(3000):
            x = x + 1
        self.assertEqual(x.item(), 3000)
        del x

    def test_pickles_and_copies(self):
        for x in (Tensor([[1.0, 2]]), (Tensor([3, 4]) * 2).realize(), Tensor([1.5]).half() + 1, Tensor(2.5).bfloat16(), Tensor([]), Tensor.rand(3) * 2):
            x.requires_grad = False
            for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
                self.assertEqual((again.tolist(), again.dtype, again.shape, again.requires_grad), (x.tolist(), x.dtype, x.shape, False))
        w = Tensor([1.0], requires_grad=True)
        (w * 3).sum().backward()
        for pair in (pickle.loads(pickle.dumps([w, w])), copy.deepcopy([w, w])):
            self.assertIs(pair[0], pair[1])
            self.assertEqual((pair[0].grad.tolist(), pair[0].requires_grad), ([3], True))
            pair[0].assign(Tensor([8.0]))
            self.assertEqual(w.tolist(), [1])

    def test_debug_prints_the_servers_lines(self):
        code = "from beamline import *; Device.connect(%r); (Tensor([1.0]) + 1).realize()" % self.server.url
        path = str(ROOT / "clients" / "python")
        done = subprocess.run([sys.executable, "-c", code], env={"DEBUG": "2", "PYTHONPATH": path}, capture_output=True,
                              text=True, check=True)
        self.assertIn("scheduled", done.stdout)
        self.assertRegex(done.stdout, r"interp:0 +0 +e .*us.*GFLOP/s.*GB/s")
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "")

    def test_a_server_is_started(self):
        from served import SERVER
        code = ("from beamline import *; import beamline.device as d; d.ADDRESS = 'http://127.0.0.1:1'; "
                "print((Tensor([1.0]) + 1).item())")
        done = subprocess.run([sys.executable, "-c", code], env={"BEAMLINE": str(SERVER), "BEAMLINE_BACKENDS": "interp",
                                                                 "PYTHONPATH": str(ROOT / "clients" / "python")},
                              capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr.count("beamline: started")), ("2.0\n", 1))


class GradientTest(TensorCase):
    def test_both_rules(self):
        a, b = Tensor([1.0, 2], requires_grad=True), Tensor([3.0, 4])
        (a * b).sum().backward()
        self.assertEqual((a.grad.tolist(), b.grad), ([3, 4], None))
        a, b, c = Tensor([1.0, 2]), Tensor([3.0, 4]), Tensor([1.0, 1], requires_grad=False)
        (a * b * c).sum().backward()
        self.assertEqual((a.grad.tolist(), b.grad.tolist(), c.grad), ([3, 4], [1, 2], None))

    def test_accumulates(self):
        a = Tensor([1.0], requires_grad=True)
        for _ in range(3):
            (a * 2).sum().backward()
        self.assertEqual(a.grad.tolist(), [6])

    def test_after_results_were_read(self):
        w = Tensor([1.0, 2, 3], requires_grad=True)
        h = w * 2
        y = (h * h).sum()
        y.backward()
        h.realize()
        self.assertEqual((y.item(), w.grad.tolist()), (56, [8, 16, 24]))
        w, h = Tensor([1.0]), None
        h = w * 3
        y = h.square().sum()
        h.realize()
        y.backward()
        self.assertEqual((h.grad.tolist(), w.grad.tolist()), ([6], [18]))
        self.assertRaises(RuntimeError, Tensor([1.0]).sum().realize().backward)

    def test_second_derivatives(self):
        x = Tensor([2.0])
        first, = (x ** 3).sum().gradient(x)
        second, = first.sum().gradient(x)
        self.assertEqual((first.tolist(), second.tolist()), ([12], [12]))

    def test_of_any_shape(self):
        x = Tensor([1.0, 2])
        self.assertEqual((x * x).gradient(x, gradient=Tensor([1.0, 10]))[0].tolist(), [2, 40])
        self.assertEqual(x.detach().sum().gradient(x, materialize_grads=True)[0].tolist(), [0, 0])
        self.assertRaises(RuntimeError, x.detach().sum().gradient, x)


class ValueTest(TensorCase):
    def test_constructors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bytes")
            path.write_bytes(b"\1\2\3")
            self.assertEqual(Tensor(path).tolist(), [1, 2, 3])
        self.assertEqual(Tensor(b"\1\2\xff").tolist(), [1, 2, 255])
        self.assertEqual(Tensor([300, -1], dtype=dtypes.uint8).tolist(), [44, 255])
        self.assertEqual(Tensor(None).shape, (0,))
        self.assertEqual(Tensor([[True, False]]).tolist(), [[True, False]])
        self.assertEqual(Tensor(2**40, dtype=dtypes.int64).item(), 2**40)
        if numpy is not None:
            array = numpy.arange(6, dtype="int16").reshape(2, 3)
            x = Tensor(array)
            array[:] = 0
            self.assertEqual((x.dtype, x.tolist()), (dtypes.int16, [[0, 1, 2], [3, 4, 5]]))
            self.assertEqual(Tensor(numpy.float64(2.5)).dtype, dtypes.float64)
            self.assertEqual(x.numpy().dtype, numpy.int16)
        self.assertEqual(Tensor([[1, 2], [3, 4]]).data().tolist(), [[1, 2], [3, 4]])

    def test_creation(self):
        for tensor, expected in ((Tensor.arange(2, 10, 3), [2, 5, 8]), (Tensor.arange(5, 0, -2), [5, 3, 1]),
                                 (Tensor.arange(0, 1, 0.25), [0, .25, .5, .75]),
                                 (Tensor.linspace(0, 1, 5), [0, .25, .5, .75, 1]), (Tensor.eye(2, 3), [[1, 0, 0], [0, 1, 0]]),
                                 (Tensor.zeros(2), [0, 0]),
                                 (Tensor.full((2,), True), [True, True]), (Tensor([1, 2]).ones_like(), [1, 1]),
                                 (Tensor.arange(3, 3), []),
                                 (Tensor([2, 0]).one_hot(3), [[0, 0, 1], [1, 0, 0]]),
                                 (Tensor.meshgrid(Tensor([1, 2]), Tensor([3, 4]))[1], [[3, 4], [3, 4]])):
            self.assertEqual(tensor.tolist(), expected)

    def test_integers(self):
        x = Tensor([-7, 7])
        self.assertEqual(((x // 2).tolist(), (x % 3).tolist(), x.div(2, rounding_mode="trunc").tolist(), x.fmod(3).tolist()),
                         ([-4, 3], [2, 1], [-3, 3], [-1, 1]))
        self.assertEqual(((x << 1).tolist(), (x >> 1).tolist(), (~x).tolist(), (x ^ 3).tolist()),
                         ([-14, 14], [-4, 3], [6, -8], [-6, 4]))
        self.assertEqual((5 - x).tolist(), [12, -2])
        self.assertEqual((Tensor([250], dtype="uint8") + 10).tolist(), [4])

    def test_logic(self):
        x = Tensor([float("inf"), -float("inf"), float("nan"), 1.0])
        self.assertEqual(x.isinf().tolist(), [True, True, False, False])
        self.assertEqual(x.isinf(True, False).tolist(), [True, False, False, False])
        self.assertEqual(x.isfinite().tolist(), [False, False, False, True])
        self.assertEqual(x.isclose(x, equal_nan=True).tolist(), [True] * 4)
        self.assertTrue(Tensor([1.0]).allclose(Tensor([1.0 + 1e-7])))
        self.assertEqual(Tensor([1.0, -0.0]).copysign(Tensor([-0.0, 1.0])).tolist(), [-1, 0])

    def test_setitem(self):
        x = Tensor.zeros(3, 4).contiguous()
        x[1] = 1
        x[:, ::2] = Tensor([7.0, 8])
        x[2, ::-1] = Tensor([1.0, 2, 3, 4])
        self.assertEqual(x.tolist(), [[7, 0, 8, 0], [7, 1, 8, 1], [4, 3, 2, 1]])

    def test_setitem_by_tensors(self):
        x = Tensor.zeros(3, 4).contiguous()
        x[Tensor([2, 0]), 1:3] = Tensor([[1.0, 2], [3, 4]])
        self.need(x)
        self.assertEqual(x.tolist(), [[0, 3, 4, 0], [0, 0, 0, 0], [0, 1, 2, 0]])

    def test_unchecked_indices_out_of_range_read_zero(self):
        x = Tensor([[1, 2], [3, 4]])
        with Context(CHECK_INDICES=0):
            self.assertEqual(x[Tensor([0, 5, -1])].tolist(), [[1, 2], [0, 0], [3, 4]])
            self.assertEqual(x[Tensor([0, 5]), Tensor([1, 0])].tolist(), [2, 0])

    def test_indices_out_of_range_raise(self):
        x, table = Tensor([[1.0, 2, 3], [4, 5, 6]]), beamline.nn.Embedding(10, 4)
        labels, high = Tensor([0, 3]), "it must be from 0 to 2"

        def put():
            y = Tensor.zeros(2, 3).contiguous()
            y[Tensor([0, 2])] = 1
            return y
        for work, op, says in (
                (lambda: x[Tensor([0, 5])], "take", "index 5 at [1] is out of range: axis 0 of x has size 2; it must be from -2 to 1"),
                (lambda: x[:, Tensor([[0, -4]])], "take", "index -4 at [0, 1] is out of range: axis 1 of x has size 3"),
                (lambda: x[Tensor([0, 1]), Tensor([2, 3])], "index", "index 3 at [1] is out of range: axis 1 of x has size 3; it must be from -3 to 2"),
                (lambda: x[[0, 2]], "take", "index 2 at [1]"),
                (lambda: x.gather(1, Tensor([[0], [3]])), "gather", "index 3 at [1, 0]"),
                (lambda: x.scatter(0, Tensor([[0, 2, 1]]), 7.0), "scatter", "index 2 at [0, 1]"),
                (lambda: x.scatter_reduce(0, Tensor([[2, 0, 1]]), x, "sum"), "scatter_reduce", "index 2 at [0, 0]"),
                (put, "index_put", "index 2 at [1]"),
                (lambda: labels.one_hot(3), "one_hot", "class 3 at [1] is out of range: num_classes is 3; " + high),
                (lambda: table(Tensor([[1, 10]])), "take", "index 10 at [0, 1] is out of range: axis 0 of x has size 10"),
                (lambda: x.cross_entropy(labels), "cross_entropy", "target 3 at [1] is out of range: x has 3 classes; " + high),
                (lambda: x.cross_entropy(labels, label_smoothing=0.1), "one_hot", high),
                (lambda: x.sparse_categorical_crossentropy(labels), "cross_entropy", high + ", or ignore_index -1"),
                (lambda: x.sparse_categorical_crossentropy(Tensor([0, -1]), ignore_index=1), "cross_entropy", "target -1 at [1]"),
                (lambda: x.sparse_categorical_crossentropy(labels, label_smoothing=0.1), "one_hot", high),
                (lambda: x.log_softmax().nll_loss(labels), "nll_loss", high),
                (lambda: x[:1].reshape(1, 1, 1, 3).max_unpool2d(Tensor([[[[0, 4, 9]]]]), (1, 2)), "scatter", "index 9 at [0, 0, 2]")):
            result = work()  # the lazy call does not raise yet
            with self.subTest(op=op, says=says):
                for _ in range(2):  # a failed result raises again
                    with self.assertRaises(IndexError) as caught:
                        result.realize()
                    self.assertIsInstance(caught.exception, beamline.IndexOutOfRange)
                    self.assertTrue(caught.exception.detail.startswith(f"{op}: "), caught.exception.detail)
                    self.assertIn(says, caught.exception.detail)
                with Context(CHECK_INDICES=0):
                    result.realize()

    def test_what_is_ignored_is_no_index(self):
        x = Tensor([[1.0, 2, 3], [4, 5, 6]])
        one = float(x[:1].cross_entropy(Tensor([2])).item())
        for ignore, labels in ((-100, [2, -100]), (7, [2, 7])):
            for loss in (x.sparse_categorical_crossentropy(Tensor(labels), ignore_index=ignore), x.log_softmax().nll_loss(Tensor(labels), ignore_index=ignore),
                         x.reshape(1, 2, 3).sparse_categorical_crossentropy(Tensor([labels]), ignore_index=ignore)):
                self.assertAlmostEqual(loss.item(), one, 5)
        for x in (x, x.reshape(1, 2, 3)):  # label -1 counts in the mean with a loss of 0, as in tinygrad
            labels = Tensor([2, -1]).reshape(x.shape[:-1])
            self.assertAlmostEqual(x.sparse_categorical_crossentropy(labels).item(), one / 2, 5)
            self.assertAlmostEqual(x.sparse_categorical_crossentropy(labels, reduction="sum").item(), one, 5)
        self.assertEqual(Tensor([[1, 2], [3, 4]])[Tensor([-1, 0, -2])].tolist(), [[3, 4], [1, 2], [1, 2]])

    def test_a_failed_step_changes_nothing(self):
        table, optim = beamline.nn.Embedding(4, 2), beamline.nn.optim
        for optimizer in (optim.Adam([table.weight], lr=0.1), optim.OptimizerGroup(optim.SGD([table.weight], lr=0.1, momentum=0.9))):
            with Tensor.train():
                for rows, error in (([1, 2], None), ([1, 4], IndexError), ([1, 3], None)):
                    before = {name: each.tolist() for name, each in beamline.nn.state.get_state_dict(optimizer).items()}
                    optimizer.zero_grad()
                    table(Tensor(rows)).sum().backward()
                    if error is None:
                        optimizer.step()
                        continue
                    with self.assertRaises(error):
                        optimizer.step()
                    self.assertEqual({name: each.tolist() for name, each in beamline.nn.state.get_state_dict(optimizer).items()}, before)

    def test_where_things_are(self):
        x = Tensor([[3, 0, 1], [0, 5, 2]])
        values, places = x.sort(1, descending=True)
        top = x.flatten().topk(2)
        for tensor, expected in ((values, [[3, 1, 0], [5, 2, 0]]), (places, [[0, 2, 1], [1, 2, 0]]), (top[0], [5, 3]), (top[1], [4, 0]),
                                 (x.argsort(0), [[1, 0, 0], [0, 1, 1]]), (x.cummax(1)[1], [[0, 0, 0], [0, 1, 1]]),
                                 (x.argmax(1), [0, 1]), (x.argmin().reshape(1), [1])):
            self.need(tensor)
            self.assertEqual((tensor.tolist(), tensor.dtype), (expected, x.dtype))
        self.assertEqual(x.cumsum(1).tolist(), [[3, 3, 4], [0, 5, 7]])
        self.assertEqual(x.masked_select(x > 1).tolist(), [3, 5, 2])
        self.assertEqual(x.masked_select(x > 1, size=5, fill_value=-1).tolist(), [3, 5, 2, -1, -1])
        self.assertEqual(x.nonzero().tolist(), [[0, 0], [0, 2], [1, 1], [1, 2]])

    def test_multinomial(self):
        weights = Tensor([0.0, 1.0, 3.0])
        drawn = weights.multinomial(1000, replacement=True)
        self.need(drawn)
        counts = [drawn.tolist().count(i) for i in range(3)]
        self.assertEqual(counts[0], 0)
        self.assertLess(abs(counts[1] - 250), 60)
        self.assertEqual(sorted(Tensor([1.0, 1, 1]).multinomial(3).tolist()), [0, 1, 2])

    def test_bitcast(self):
        x = Tensor([1.0, -2.5])
        parts = x.bitcast(dtypes.uint8)
        self.assertEqual((parts.shape, parts.tolist()), ((8,), [0, 0, 128, 63, 0, 0, 32, 192]))
        self.assertEqual(parts.bitcast(dtypes.float32).tolist(), [1, -2.5])

    def test_pools_and_back(self):
        x = Tensor.arange(16).reshape(1, 1, 4, 4).float()
        values, places = x.max_pool2d(return_indices=True)
        self.assertEqual((values.flatten().tolist(), places.flatten().tolist()), ([5, 7, 13, 15], [5, 7, 13, 15]))
        self.assertEqual(values.max_unpool2d(places).sum().item(), 40)

    def test_hashes(self):
        data = Tensor(b"abc")
        self.assertEqual(bytes(data.keccak().tolist()), hashlib.sha3_256(b"abc").digest())
        self.assertEqual(bytes(data.reshape(1, 3).keccak("shake_128")[0].tolist()), hashlib.shake_128(b"abc").digest(16))
        self.assertEqual(data.hash().shape, (16,))

    def test_random(self):
        Tensor.manual_seed(7)
        first = Tensor.rand(100).tolist()
        again = Tensor.rand(100).tolist()
        Tensor.manual_seed(7)
        x = Tensor.rand(100)
        self.assertEqual(x.sum().item() > 0 and x.tolist(), first)
        self.assertNotEqual(first, again)
        self.assertEqual(sorted(Tensor.randperm(10).tolist()), list(range(10)))
        self.assertTrue(all(3 <= each < 6 for each in Tensor.randint(50, low=3, high=6).tolist()))
        self.assertLess(abs(Tensor.randn(10000).mean().item()), 0.05)
        x = Tensor.ones(1000)
        self.assertEqual(x.dropout().tolist(), [1] * 1000)
        with Context(TRAINING=1):
            dropped = x.dropout(0.25).tolist()
        self.assertLess(abs(dropped.count(0.0) - 250), 60)

    def test_threefry(self):
        """The first known answer of Random123."""
        bits = Tensor.random_bits(Tensor([0, 0], dtype="uint32"), Tensor([0], dtype="uint32"), 2)
        x = Tensor([0], dtype="uint64").threefry(Tensor([0], dtype="uint64"))
        self.assertEqual(x.item(), 0x99ba4efe6b200159)
        self.assertEqual(bits.shape, (2,))

    def test_devices(self):
        x = Tensor([1.0, 2], device="interp:0")
        self.assertEqual((x.device, (x + 1).to(None).device, Device.DEFAULT), ("interp:0", "interp:0", "interp:0"))
        self.assertEqual((x.shard(("interp:0",)) + 1).tolist(), [2, 3])
        self.assertRaises(ValueError, Tensor, [1.0], "nowhere")

    def test_the_device_of_the_environment(self):
        code = ("from beamline import *; from beamline.expr import choose_device; Device.connect(%r); "
                "x = (Tensor([1.0]) + 1).realize(); print(choose_device([]), Device.DEFAULT, x.device)") % self.server.url
        for name in ("interp:0", "CPU"):
            done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python"), "BEAMLINE_DEVICE": name},
                                  capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout, "interp:0 interp:0 interp:0\n")
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python"), "BEAMLINE_DEVICE": "nowhere"},
                              capture_output=True, text=True, check=False)
        self.assertIn("no device 'nowhere'", done.stderr)

    def test_without_numpy(self):
        code = ("import sys; sys.modules['numpy'] = None\nfrom beamline import *\nDevice.connect(%r)\n"
                "print((Tensor([[1.0, 2], [3, 4]]) @ Tensor([1.0, 1])).tolist(), list(Tensor([1, 2]).data()))" % self.server.url)
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python")},
                              capture_output=True, text=True,
                              check=True)
        self.assertEqual(done.stdout, "[3.0, 7.0] [1, 2]\n")


if __name__ == "__main__":
    unittest.main()
