# SPDX-License-Identifier: MIT
"""TinyJit: capture, replay and refusals."""
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import beamline
from beamline import Context, Device, GlobalCounters, JitError, Tensor, TinyJit, Variable, nn
from served import ROOT
from tensors import TensorCase


def doubled(x):
    return x * 2


class Sent:
    """Records the requests that a session posts."""

    def __enter__(self):
        self.texts, self.post = [], Device.session.post

        def record(path, text, files, binary):
            self.texts.append((path, text))
            return self.post(path, text, files, binary)
        Device.session.post = record
        return self.texts

    def __exit__(self, *_):
        del Device.session.post


class JitTest(TensorCase):
    options = (*TensorCase.options, "--kernel-db", "none")

    def test_replays_without_a_graph(self):
        add = TinyJit(lambda a, b: (a + b).relu())
        for i in range(5):
            a, b = Tensor([1.0 * i, 2]).realize(), Tensor([3.0, -5]).realize()
            with Sent() as texts:
                self.assertEqual(add(a, b).tolist(), [3 + i, 0])
            if i >= 2:
                (path, text), = texts
                self.assertIn("/programs/jit-", path)
                self.assertNotIn("nodes", text)
        self.assertEqual(add.cnt, 5)

    def test_the_first_call_has_the_graph_of_the_second(self):
        layer, norm = nn.Linear(4, 8), nn.BatchNorm(8)
        opt = nn.optim.Adam([*nn.state.get_parameters(layer), norm.weight, norm.bias], lr=0.01)
        x = Tensor([[1.0 * i - j for j in range(4)] for i in range(6)]).realize()

        @TinyJit
        def step():
            with Tensor.train():
                opt.zero_grad()
                loss = (norm(layer(x)) ** 2).mean().backward()
                opt.step()
                return loss.realize()
        calls = []
        for _ in range(2):
            with mock.patch.object(Device.session, "count", wraps=Device.session.count) as runs:
                step()
            calls.append([(call.args[0]["kernels"], call.args[0]["ops"]) for call in runs.call_args_list])
        self.assertLessEqual(len(calls[0]), 2)  # first the uncomputed values, then the graph
        self.assertEqual(calls[0][-1], calls[1][-1])

    def test_indices_are_checked_where_that_is_asked(self):
        table = Tensor([1.0, 2, 3]).realize()
        for asked in (False, True):
            pick = TinyJit(lambda i: table[i] * 2, check_indices=asked)
            with self.assertRaises(IndexError):  # the first call is eager
                pick(Tensor([5]))
            for i in range(3):
                self.assertEqual(pick(Tensor([i])).tolist(), [2 * i + 2])
            if asked:
                with self.assertRaisesRegex(IndexError, "take: index 5 at .0. is out of range: axis 0 of x has size 3; it must be from -3 to 2"):
                    pick(Tensor([5]))
            else:
                self.assertEqual(pick(Tensor([5])).tolist(), [0])
            self.assertEqual(pick(Tensor([-1])).tolist(), [6])

    def test_numbers_of_this_process_go_with_the_request(self):
        double = TinyJit(lambda a: a * 2)
        for i in range(4):
            x = Tensor([float(i)] * 500)
            with Sent() as texts:
                self.assertEqual(double(x).tolist()[:1], [2 * i])
            self.assertEqual(len(texts), 1)

    def test_kernels_are_searched_where_that_is_asked(self):
        def known():
            return {kernel["name"] for kernel in beamline.Client(self.server.url).call("GET", "/api/v1/kernels")["kernels"]}
        add, a = TinyJit(lambda a, b: (a @ b).relu()), Tensor.rand(11, 19).realize()
        for beam, sizes, name in ((0, 17, None), (1, 21, "r_11_21_19")):
            b = Tensor.rand(19, sizes).realize()
            with Context(BEAM=beam):
                (a @ b).relu().realize()
            self.assertEqual(known(), {name} - {None})
        for _ in range(3):
            b = Tensor.rand(19, 13).realize()
            with Context(BEAM=1):
                add(a, b)
        self.assertEqual(known(), {"r_11_21_19", "r_11_13_19"})

    def test_wrong_use(self):
        f = TinyJit(lambda a, b: a + b)
        for _ in range(2):
            f(Tensor([1.0, 2]), Tensor([1.0, 2]))
        for a, b in (([1.0], [1.0]), ([1, 2], [1, 2])):
            self.assertRaises(JitError, f, Tensor(a), Tensor(b))
        self.assertRaises(JitError, f, Tensor([1.0, 2]))
        self.assertEqual(f(Tensor([1.0, 2]), Tensor([1.0, 2])).tolist(), [2, 4])
        g = TinyJit(lambda a: a * 2 if a.sum().item() > 0 else a)
        g(Tensor([1.0]))
        self.assertRaises(JitError, g, Tensor([1.0]))
        self.assertRaises(JitError, g, Tensor([1.0]))
        x, h = Tensor([1.0]), TinyJit(lambda a, b: a + b)
        h(x, x)
        self.assertRaises(JitError, h, x, x)
        nothing = TinyJit(lambda a: None)
        nothing(x)
        self.assertRaises(JitError, nothing, x)

    def test_a_failed_capture_leaves_things_as_they_were(self):
        w, x = Tensor([1.0]).realize(), Tensor([5.0])

        def broken(a):
            w.assign(w + a)
            return w.item()
        f = TinyJit(broken)
        f(x)
        self.assertRaises(JitError, f, x)
        self.assertEqual((w.tolist(), x.tolist()), ([6], [5]))

    def test_results_are_not_used_again(self):
        f = TinyJit(lambda a: a + 1)
        results = [f(Tensor([float(i)])) for i in range(5)]
        self.assertEqual([each.item() for each in results], [1, 2, 3, 4, 5])

    def test_other_arguments_choose_a_program(self):
        f = TinyJit(lambda a, power, flag=False: (a ** power if flag else a * power))
        x = Tensor([3.0])
        for _ in range(2):
            self.assertEqual([f(x, 2).item(), f(x, 3).item(), f(x, 2, flag=True).item()], [6, 9, 9])

    def test_a_variable_is_its_value(self):
        f = TinyJit(lambda x, n: x[:n].sum())
        x, n = Tensor.arange(10).realize(), Variable("n", 1, 9)
        self.assertEqual([f(x, n.bind(i)).item() for i in (2, 3, 4, 3, 2)], [1, 3, 6, 3, 1])

    def test_assigned_tensors(self):
        w, calls = Tensor([0.0]).realize(), []

        @TinyJit
        def step(x):
            calls.append(1)
            w.assign(w + x)
            return w * 2
        for i in range(5):
            self.assertEqual((step(Tensor([1.0])).item(), w.item()), (2 * i + 2, i + 1))
        w.assign(Tensor([100.0]))
        self.assertEqual(step(Tensor([1.0])).item(), 202)
        self.assertEqual(len(calls), 2)

    def test_arguments_can_be_assigned(self):
        def bump(x):
            x += 1
            return x
        f = TinyJit(bump)
        x = Tensor([0.0]).realize()
        for i in range(4):
            self.assertEqual((f(x).item(), x.item()), (i + 1, i + 1))

    def test_what_was_lazy_before_is_no_constant(self):
        scale = Tensor([1.0]) * 2
        f = TinyJit(lambda x: x * scale)
        self.assertEqual([f(Tensor([3.0])).item() for _ in range(3)], [6, 6, 6])
        scale.assign(Tensor([10.0]))
        self.assertEqual(f(Tensor([3.0])).item(), 30)

    def test_gradients_through_what_was_lazy_before(self):
        w = Tensor([1.0, 2], requires_grad=True)
        double = w * 2
        f = TinyJit(lambda x: (double * x).sum().gradient(w)[0])
        for i in range(4):
            self.assertEqual(f(Tensor([float(i), 1])).tolist(), [2 * i, 2])

    def test_draws_anew(self):
        f = TinyJit(lambda x: x + Tensor.rand(4))
        drawn = {tuple(f(Tensor([0.0])).tolist()) for _ in range(6)}
        self.assertEqual(len(drawn), 6)

    def test_what_was_there_before_is_returned_itself(self):
        w, box = Tensor([1.0]).realize(), []

        @TinyJit
        def step(x):
            box.append(x * 3)
            w.assign(w + x)
            return w, box[-1]
        for i in range(4):
            same, triple = step(Tensor([1.0]))
            self.assertIs(same, w)
            self.assertEqual((w.item(), triple.item()), (i + 2, 3))
            for each in box:
                each.expr = w.expr

    def test_many_values_of_an_argument(self):
        f = TinyJit(lambda x, n: x + n)
        for i in range(70):
            self.assertEqual(f(Tensor([1.0]), i).item(), i + 1)
        self.assertLessEqual(len(f.captures), 64)

    def test_what_is_realized_and_left_somewhere(self):
        w, box = Tensor([2.0], requires_grad=True), {}

        @TinyJit
        def step(x):
            w.grad = None
            y = (w * x).sum()
            y.backward()
            box["twice"] = (x * 2).realize()
            return y.realize(w.grad)
        for i in range(5):
            step(Tensor([float(i)]))
            self.assertEqual((w.grad.tolist(), box["twice"].tolist()), ([i], [2 * i]))
            if i > 2:
                w.grad = None

    def test_a_grad_that_is_not_realized_says_so(self):
        w = Tensor([2.0], requires_grad=True)

        @TinyJit
        def step(x, last):
            y = (w * x).sum()
            y.backward()
            if last:
                w.grad = None
            return y
        for i in range(4):
            w.grad = None
            step(Tensor([float(i)]), False)
            if i:
                self.assertRaisesRegex(RuntimeError, "return the Tensor from the function, or realize it in the function", w.grad.tolist)
        w.grad = None
        for _ in range(3):
            step(Tensor([1.0]), True)
            self.assertIsNone(w.grad)

    def test_a_failed_capture_keeps_grads(self):
        w = Tensor([2.0], requires_grad=True)
        (w * 3).sum().backward()

        def broken(x):
            w.grad = None
            (w * x).sum().backward()
            return w.grad.item()
        f = TinyJit(broken)
        f(Tensor([4.0]))
        self.assertRaises(JitError, f, Tensor([5.0]))
        self.assertEqual(w.grad.tolist(), [4])

    def test_nothing_to_compute(self):
        x = Tensor([0.0]).realize()

        @TinyJit
        def keep(a):
            x.assign(a)
        same = TinyJit(lambda a: (a, x))
        for i in range(4):
            a = Tensor([float(i)])
            keep(a)
            self.assertEqual((x.tolist(), same(a)[0].tolist(), same(a)[1] is x), ([i], [i], True))

    def test_pickles(self):
        w = Tensor([3.0])
        f = TinyJit(lambda x, flag: {"y": x * w + Tensor([0.5]), "flag": flag, "w": w})
        self.assertRaises(JitError, pickle.dumps, f)
        for _ in range(3):
            f(Tensor([1.0]), True)
        for data in (pickle.dumps(f), pickle.dumps(pickle.loads(pickle.dumps(f)))):
            again = pickle.loads(data)
            for _ in range(2):
                made = again(Tensor([2.0]), True)
                self.assertEqual((made["y"].item(), made["flag"], made["w"].item()), (6.5, True, 3))
            self.assertIsNot(made["w"], w)
            made["w"].assign(Tensor([10.0]))
            self.assertEqual((again(Tensor([2.0]), True)["y"].item(), f(Tensor([2.0]), True)["y"].item()), (20.5, 6.5))
            self.assertRaisesRegex(JitError, "without its function", again, Tensor([2.0]), False)
        g = pickle.loads(pickle.dumps(TinyJit(doubled)))
        self.assertEqual([g(Tensor([float(i)])).item() for i in range(4)], [0, 2, 4, 6])

    def test_a_pickle_in_another_process(self):
        state = Tensor([1.0]).realize()

        @TinyJit
        def step(x):
            state.assign(state + x)
            return state * 10
        for _ in range(3):
            step(Tensor([1.0]))
        code = ("import pickle, sys; from beamline import *; Device.connect(%r); step = pickle.load(sys.stdin.buffer); "
                "print([step(Tensor([1.0])).item() for _ in range(3)])" % self.server.url)
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python")}, input=pickle.dumps(step),
                              capture_output=True, check=True)
        self.assertEqual((done.stdout.decode().strip(), state.item()), ("[50.0, 60.0, 70.0]", 4))

    def test_structures(self):
        f = TinyJit(lambda pair, names: {"sum": pair[0] + pair[1], "rest": [names["x"], 7]})
        for i in range(4):
            made = f((Tensor([1.0]), Tensor([float(i)])), {"x": Tensor([5.0])})
            self.assertEqual((made["sum"].item(), made["rest"][0].item(), made["rest"][1]), (1 + i, 5, 7))

    def test_methods_and_nesting(self):
        class Model:
            def __init__(self):
                self.w = Tensor([2.0]).realize()

            @TinyJit
            def __call__(self, x):
                return inner(x) * self.w
        inner = TinyJit(lambda x: x + 1)
        one, two = Model(), Model()
        two.w.assign(Tensor([3.0]))
        for _ in range(3):
            self.assertEqual((one(Tensor([1.0])).item(), two(Tensor([1.0])).item()), (4, 6))

    def test_training(self):
        x, t = Tensor([[0.0], [1], [2], [3]]), Tensor([[1.0], [3], [5], [7]])
        net = nn.Linear(1, 1)
        opt = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)

        @TinyJit
        @Tensor.train()
        def step(x, t):
            opt.zero_grad()
            loss = (net(x) - t).square().mean()
            loss.backward()
            return loss.realize(*opt.schedule_step())
        for _ in range(200):
            loss = step(x, t)
        self.assertLess(loss.item(), 1e-3)
        self.assertAlmostEqual(net.weight.item(), 2, 1)
        before = GlobalCounters.requests
        step(x, t)
        self.assertEqual(GlobalCounters.requests - before, 1)
        opt.lr.assign(Tensor([0.0]).reshape(()))
        weight = net.weight.item()
        step(x, t)
        self.assertEqual(net.weight.item(), weight)

    def test_programs_are_deleted(self):
        f = TinyJit(lambda x: x + 1)
        for _ in range(3):
            f(Tensor([1.0]))
        name = f.captured.name
        self.assertIn(name, [each["name"] for each in self.client.programs()])
        f.reset()
        Device.synchronize()
        self.assertNotIn(name, [each["name"] for each in self.client.programs()])

    def test_programs_end_with_the_process(self):
        code = ("from beamline import *; Device.connect(%r); f = TinyJit(lambda x: x + 1)\n"
                "for _ in range(3): f(Tensor([1.0]))\nprint(f.captured.name)") % self.server.url
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "clients" / "python")},
                              capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, "^jit-")
        self.assertNotIn(done.stdout.strip(), [each["name"] for each in self.client.programs()])

    def test_off(self):
        f = TinyJit(lambda x: x.sum().item())
        with beamline.Context(JIT=0):
            self.assertEqual([f(Tensor([1.0])) for _ in range(3)], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
