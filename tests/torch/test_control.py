# SPDX-License-Identifier: MIT
"""scan and cond against torch's loops and branches: values, gradients, second gradients, and refusals."""

import time
import unittest

import torch

from service import DeviceTest, Refused, ServiceTest, on_each_device

SIZES = 5, 3, 4  # steps, rows, columns


def body(inputs, nodes, outputs):
    return {"inputs": inputs.split(), "nodes": nodes, "outputs": outputs.split()}


def node(name, op, *sources, **attrs):
    """Makes a node; "a b" names two results."""
    return {"id": name.split() if " " in name else name, "op": op, "in": list(sources), "attrs": attrs}


def drawn(*shape, seed=0, dtype=torch.float32, scale=0.5):
    generator = torch.Generator().manual_seed(seed + 31 * len(shape) + sum(shape))
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


# h, x, w -> tanh(x + h @ w), and its square as an output
RNN = body("h x w", [node("m", "matmul", "h", "w"), node("s", "add", "x", "m"), node("n", "tanh", "s"), node("y", "mul", "n", "n")],
           "n y")


def rnn(h, xs, w, reverse=False):
    ys = [None] * len(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        h = torch.tanh(xs[t] + h @ w)
        ys[t] = h * h
    return h, torch.stack(ys)


@on_each_device
class Scan(DeviceTest):
    def tensors(self, steps=SIZES[0]):
        _, rows, columns = SIZES
        return {"h": drawn(rows, columns), "xs": drawn(steps, rows, columns), "w": drawn(columns, columns)}

    def test_values(self):
        for steps, reverse in ((1, False), (2, True), (3, False), (6, True), (70, False)):
            with self.subTest(steps=steps, reverse=reverse):
                given = self.tensors(steps)
                got = self.run_graph([node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1, reverse=reverse)],
                                     ["last", "ys"], given)
                last, ys = rnn(**given, reverse=reverse)
                self.close("last", got["last"], last)
                self.close("ys", got["ys"], ys)

    def test_one_result_is_enough(self):
        given = self.tensors()
        last, ys = rnn(**given)
        nodes = [node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1), node("more", "add", "ys", 1)]
        self.close("last", self.run_graph(nodes, ["last"], given)["last"], last)
        self.close("more", self.run_graph(nodes, ["more"], given)["more"], ys + 1)

    def test_gradients(self):
        for reverse in (False, True):
            with self.subTest(reverse=reverse):
                given = self.tensors()
                leaves = {name: value.clone().requires_grad_() for name, value in given.items()}
                last, ys = rnn(**leaves, reverse=reverse)
                ((ys * ys.cos()).sum() + last.exp().sum()).backward()
                got = self.run_graph(
                    [node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1, reverse=reverse),
                     node("c", "cos", "ys"), node("yc", "mul", "ys", "c"), node("a", "sum", "yc"),
                     node("e", "exp", "last"), node("b", "sum", "e"), node("loss", "add", "a", "b"),
                     node("dh dx dw", "grad", "loss", "h", "xs", "w")], ["dh", "dx", "dw"], given)
                for name, leaf in (("dh", "h"), ("dx", "xs"), ("dw", "w")):
                    self.close(name, got[name], leaves[leaf].grad, 1e-4, 1e-5)

    def test_a_carry_that_does_not_matter(self):
        """The cotangent of an unused carry is absent, not zero: NaN in the carry has no effect."""
        step = body("h x", [node("s", "add", "h", "x"), node("n", "tanh", "s"), node("y", "mul", "x", "x")], "n y")
        x = drawn(4, 3)
        got = self.run_graph([node("last ys", "scan", "h", "xs", body=step, sequences=1), node("t", "sum", "ys"), node("dx dh", "grad", "t", "xs", "h")],
                             ["dx", "dh"], {"xs": x, "h": torch.full((3,), float("nan"))})
        self.close("dx", got["dx"], 2 * x)
        self.close("dh", got["dh"], torch.zeros(3))

    def test_second_gradients(self):
        given = self.tensors(3)
        leaves = {name: value.clone().requires_grad_() for name, value in given.items()}
        last, ys = rnn(**leaves)
        first = torch.autograd.grad((ys * last).sum(), leaves["w"], create_graph=True)[0]
        first.sin().sum().backward()
        got = self.run_graph(
            [node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1), node("p", "mul", "ys", "last"), node("loss", "sum", "p"),
             node("dw", "grad", "loss", "w"), node("s", "sin", "dw"), node("t", "sum", "s"),
             node("ddh ddx ddw", "grad", "t", "h", "xs", "w")], ["ddh", "ddx", "ddw"], given)
        for name, leaf in (("ddh", "h"), ("ddx", "xs"), ("ddw", "w")):
            self.close(name, got[name], leaves[leaf].grad, 1e-4, 1e-5)

    def test_lstm_trains_as_torch_does(self):
        steps, rows, width, size = 6, 3, 5, 4
        cell = torch.nn.LSTMCell(width, size)
        x, want = drawn(steps, rows, width, scale=1), drawn(rows, size)
        weights = {"wi": cell.weight_ih, "wh": cell.weight_hh, "bi": cell.bias_ih, "bh": cell.bias_hh}
        state = {name: value.detach().clone() for name, value in weights.items()}
        step = body("h c x wi wh bi bh", [node("h1 c1", "lstm_cell", "x", "h", "c", "wi", "wh", "bi", "bh")], "h1 c1")
        nodes = [node("z", "zeros", shape=[rows, size]),
                 node("h c", "scan", "z", "z", "x", "wi", "wh", "bi", "bh", body=step, carries=2, sequences=1),
                 node("d", "sub", "h", "want"), node("dd", "mul", "d", "d"), node("loss", "mean", "dd"),
                 node("wi1 wh1 bi1 bh1", "adam", "loss", "wi", "wh", "bi", "bh", lr=0.05)]
        inputs = {"x": {"dtype": "float32", "shape": list(x.shape)}, "want": {"dtype": "float32", "shape": list(want.shape)}}
        self.service.put_program("lstm", {"device": self.device, "entries": {"step": {"inputs": inputs,
            "nodes": nodes, "outputs": ["loss"], "updates": {name: name + "1" for name in weights}}}}, state)
        optimiser = torch.optim.Adam(cell.parameters(), 0.05)
        for _ in range(6):
            h = c = torch.zeros(rows, size)
            for t in range(steps):
                h, c = cell(x[t], (h, c))
            loss = ((h - want) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            got = self.service.step("lstm", {"x": x, "want": want}, entry="step")
            self.close("loss", got["loss"], loss, 1e-4, 1e-5)
        for name, value in self.service.state("lstm").items():
            if name in weights:
                self.close(name, value, weights[name], 2e-3, 2e-4)

    def test_carries_change_places(self):
        swap = body("a b n", [node("one", "add", "n", 1)], "b a one")
        given = {"a": drawn(4), "b": drawn(4, seed=1), "n": torch.tensor([7], dtype=torch.int32)}
        for steps in (1, 4, 5):
            got = self.run_graph([node("a1 b1 n1", "scan", "a", "b", "n", body=swap, carries=3, length=steps)], ["a1", "b1", "n1"], given)
            a, b = (given["a"], given["b"]) if steps % 2 == 0 else (given["b"], given["a"])
            self.close("a", got["a1"], a, 0, 0)
            self.close("b", got["b1"], b, 0, 0)
            self.assertEqual(got["n1"].tolist(), [7 + steps])

    def test_no_step_and_no_carry(self):
        got = self.run_graph([node("last ys", "scan", "h", "w", body=body("h w", [node("s", "add", "h", "w")], "s s"), length=0)],
                             ["last", "ys"], {"h": drawn(2, 3), "w": drawn(2, 3)})
        self.close("last", got["last"], drawn(2, 3), 0, 0)
        self.assertEqual(list(got["ys"].shape), [0, 2, 3])
        xs = drawn(9, 2)
        got = self.run_graph([node("ys", "scan", "xs", body=body("x", [node("s", "sum", "x")], "s"), carries=0, sequences=1)],
                             ["ys"], {"xs": xs})
        self.close("ys", got["ys"], xs.sum(1))

    def test_one_node_as_several_outputs(self):
        xs = drawn(4, 3)
        got = self.run_graph([node("last a b c", "scan", 0.0, "xs", body=body("h x", [node("s", "sum", "x"), node("n", "add", "h", "s")],
                                                                             "n n x h"), sequences=1)],
                             ["last", "a", "b", "c"], {"xs": xs})
        sums = xs.sum(1).cumsum(0)
        self.close("last", got["last"], sums[-1], 1e-5, 1e-6)
        self.close("a", got["a"], sums, 1e-5, 1e-6)
        self.close("b", got["b"], xs, 0, 0)
        self.close("c", got["c"], torch.cat([torch.zeros(1), sums[:-1]]), 1e-5, 1e-6)

    def test_scan_in_a_scan(self):
        """Horner's rule for each row, with a fold of the rows' results."""
        inner = body("acc c x", [node("m", "mul", "acc", "x"), node("n", "add", "m", "c")], "n")
        outer = body("total row x", [node("p", "scan", 0.0, "row", "x", body=inner, sequences=1),
                                     node("h", "mul", "total", 0.5), node("n", "add", "h", "p")], "n p")
        rows, x = drawn(4, 3), torch.tensor(0.7, requires_grad=True)
        leaf = rows.clone().requires_grad_()
        total, values = torch.zeros(()), []
        for row in leaf:
            value = torch.zeros(())
            for coefficient in row:
                value = value * x + coefficient
            values.append(value)
            total = total * 0.5 + value
        (total * torch.stack(values).sum()).backward()
        got = self.run_graph([node("total ps", "scan", 0.0, "rows", "x", body=outer, sequences=1), node("s", "sum", "ps"),
                              node("loss", "mul", "total", "s"), node("dr dx", "grad", "loss", "rows", "x")],
                             ["total", "ps", "dr", "dx"], {"rows": rows, "x": x.detach()})
        for name, want in (("total", total), ("ps", torch.stack(values)), ("dr", leaf.grad), ("dx", x.grad)):
            self.close(name, got[name], want, 1e-5, 1e-5)

    def test_a_gradient_in_a_body(self):
        """Three steps of gradient descent as a scan, and the gradient of the final point to the rate."""
        step = body("x rate", [node("s", "sin", "x"), node("f", "sum", "s"), node("g", "grad", "f", "x"), node("d", "mul", "g", "rate"),
                               node("n", "sub", "x", "d")], "n")
        x, rate = drawn(4), torch.tensor(0.3, requires_grad=True)
        at = x
        for _ in range(3):
            at = at - at.cos() * rate
        at.sum().backward()
        got = self.run_graph([node("last", "scan", "x", "rate", body=step, length=3), node("t", "sum", "last"),
                              node("g", "grad", "t", "rate")], ["last", "g"], {"x": x, "rate": rate.detach()})
        self.close("last", got["last"], at)
        self.close("g", got["g"], rate.grad)

    def test_dtypes(self):
        step = body("h x", [node("n", "add", "h", "x")], "n n")
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int64, torch.uint8):
            with self.subTest(dtype=dtype):
                xs = (drawn(4, 3, scale=4) + 8).to(dtype)
                want = [xs[0]]
                for x in xs[1:]:
                    want.append(want[-1] + x)
                got = self.run_graph([node("last ys", "scan", "h", "xs", body=step, sequences=1)], ["ys"],
                                     {"xs": xs, "h": torch.zeros(3, dtype=dtype)})
                self.close("ys", got["ys"], torch.stack(want), 0, 0)

    def test_float8(self):
        xs = drawn(4, 3)
        step = body("h x", [node("n", "add", "h", "x")], "n n")
        nodes = [node("x8", "cast", "xs", dtype="float8_e4m3"), node("h8", "cast", "h", dtype="float8_e4m3"),
                 node("last ys", "scan", "h8", "x8", body=step, sequences=1), node("y", "cast", "ys", dtype="float32")]
        loop = [node("x8", "cast", "xs", dtype="float8_e4m3"), node("h0", "cast", "h", dtype="float8_e4m3")]
        for t in range(4):
            loop += [node(f"x{t}", "take", "x8", t), node(f"h{t + 1}", "add", f"h{t}", f"x{t}"),
                     node(f"y{t}", "cast", f"h{t + 1}", dtype="float32")]
        loop.append(node("y", "stack", *[f"y{t}" for t in range(4)]))
        given = {"xs": xs, "h": torch.zeros(3)}
        self.close("y", self.run_graph(nodes, ["y"], given)["y"], self.run_graph(loop, ["y"], given)["y"], 0, 0)

    def test_long(self):
        xs = drawn(2000, 3)
        step = body("h x", [node("m", "mul", "h", 0.9), node("n", "add", "m", "x")], "n")
        leaf, h = xs.clone().requires_grad_(), torch.zeros(3)
        for x in leaf:
            h = h * 0.9 + x
        h.sum().backward()
        got = self.run_graph([node("last", "scan", "h", "xs", body=step, sequences=1), node("s", "sum", "last"),
                              node("g", "grad", "s", "xs")], ["last", "g"], {"xs": xs, "h": torch.zeros(3)})
        self.close("last", got["last"], h, 1e-4, 1e-5)
        self.close("g", got["g"], leaf.grad, 1e-4, 1e-6)

    def test_named_dimension(self):
        given = self.tensors()
        for rows in (1, 3):
            part = {"h": given["h"][:rows], "xs": given["xs"][:, :rows], "w": given["w"]}
            inputs = {"h": {"dtype": "float32", "shape": ["rows", 4]}, "xs": {"dtype": "float32", "shape": [5, "rows", 4]},
                      "w": {"dtype": "float32", "shape": [4, 4]}}
            self.service.put_program("named", {"device": self.device, "dims": {"rows": [1, 4]}, "entries": {"go": {"inputs": inputs,
                    "nodes": [node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1)], "outputs": ["last", "ys"]}}}, {})
            got = self.service.step("named", part, entry="go")
            last, ys = rnn(**part)
            self.close("last", got["last"], last)
            self.close("ys", got["ys"], ys)

    def named(self, nodes, outputs, dims, inputs):
        """Runs of a program with named dimensions."""
        self.service.put_program("named", {"device": self.device, "dims": dims, "entries": {"go": {
            "inputs": {name: {"dtype": "float32", "shape": shape} for name, shape in inputs.items()}, "nodes": nodes, "outputs": outputs}}}, {})
        return lambda given: self.service.step("named", given, entry="go")

    def test_named_length(self):
        """Values and gradients at several lengths of one plan, forward and backward: a short run after a long run is not
        affected by the long run."""
        for reverse in (False, True):
            nodes = [node("last ys", "scan", "h", "xs", "w", body=RNN, sequences=1, reverse=reverse),
                     node("c", "cos", "ys"), node("yc", "mul", "ys", "c"), node("a", "sum", "yc"), node("e", "exp", "last"),
                     node("b", "sum", "e"), node("loss", "add", "a", "b"), node("dh dx dw", "grad", "loss", "h", "xs", "w")]
            run = self.named(nodes, ["last", "ys", "dh", "dx", "dw"], {"n": [1, 9]}, {"h": [3, 4], "xs": ["n", 3, 4], "w": [4, 4]})
            for steps in (9, 1, 2, 6, 5):
                with self.subTest(steps=steps, reverse=reverse):
                    given = self.tensors(steps)
                    leaves = {name: value.clone().requires_grad_() for name, value in given.items()}
                    last, ys = rnn(**leaves, reverse=reverse)
                    ((ys * ys.cos()).sum() + last.exp().sum()).backward()
                    got = run(given)
                    self.close("last", got["last"], last)
                    self.close("ys", got["ys"], ys)
                    for name, leaf in (("dh", "h"), ("dx", "xs"), ("dw", "w")):
                        self.close(name, got[name], leaves[leaf].grad, 1e-4, 1e-5)

    def test_named_lengths_in_each_other(self):
        """A loop of m steps in each step of a backward loop of n steps."""
        inner = body("h x", [node("m", "mul", "h", 0.5), node("n", "add", "m", "x")], "n n")
        outer = body("h xs", [node("last ys", "scan", "h", "xs", body=inner, sequences=1)], "last ys")
        run = self.named([node("last ys", "scan", "h", "xs", body=outer, sequences=1, reverse=True)], ["last", "ys"], {"n": [1, 4], "m": [2, 5]},
                         {"h": [], "xs": ["n", "m"]})
        for n, m in ((4, 5), (1, 2), (3, 2), (2, 5), (4, 3)):
            with self.subTest(n=n, m=m):
                xs = drawn(n, m)
                h, ys = 0.25, torch.zeros(n, m)
                for i in reversed(range(n)):
                    for k in range(m):
                        h = h * 0.5 + xs[i, k]
                        ys[i, k] = h
                got = run({"h": torch.tensor(0.25), "xs": xs})
                self.close("last", got["last"], h)
                self.close("ys", got["ys"], ys)

    def test_a_length_that_may_be_0(self):
        step = body("h w", [node("n", "mul", "h", "w")], "n")
        run = self.named([node("last", "scan", "h", "w", body=step, length="n // 2")], ["last"], {"n": [1, 7]}, {"h": ["n"], "w": []})
        for n in (7, 1, 2, 5):
            with self.subTest(n=n):
                got = run({"h": torch.ones(n), "w": torch.tensor(3.0)})
                self.close("last", got["last"], torch.full((n,), 3.0 ** (n // 2)))


@on_each_device
class Cond(DeviceTest):
    def graph(self, *outputs):
        """log(x) * k if x's sum is positive, else x * x."""
        yes = body("x k", [node("l", "log", "x"), node("y", "mul", "l", "k")], "y")
        no = body("x k", [node("y", "mul", "x", "x")], "y")
        return [node("s", "sum", "x"), node("p", "greater", "s", 0), node("y", "cond", "p", "x", "k", then=yes, otherwise=no),
                node("t", "sum", "y"), node("dx dk", "grad", "t", "x", "k")]

    def test_values_and_gradients(self):
        for sign in (1.0, -1.0):
            with self.subTest(sign=sign):
                x = (drawn(5).abs() + 0.1) * sign
                x[2] = 0.0 if sign < 0 else x[2]  # a pole of the branch not taken
                leaf, k = x.clone().requires_grad_(), torch.tensor(2.0, requires_grad=True)
                y = leaf.log() * k if x.sum() > 0 else leaf * leaf
                y.sum().backward()
                got = self.run_graph(self.graph(), ["y", "dx", "dk"], {"x": x, "k": k.detach()})
                self.close("y", got["y"], y)
                self.close("dx", got["dx"], leaf.grad)
                self.close("dk", got["dk"], k.grad if k.grad is not None else torch.zeros(()))

    def test_in_a_scan(self):
        """The Collatz sequence, one step at a time."""
        step = body("n", [node("r", "mod", "n", 2), node("p", "equal", "r", 1),
                          node("m", "cond", "p", "n", then=body("n", [node("a", "mul", "n", 3), node("b", "add", "a", 1)], "b"),
                               otherwise=body("n", [node("a", "floor_div", "n", 2)], "a"))], "m m")
        got = self.run_graph([node("last ns", "scan", "n", body=step, length=9)], ["ns"], {"n": torch.tensor(7)})
        self.assertEqual(got["ns"].tolist(), [22, 11, 34, 17, 52, 26, 13, 40, 20])


class Refusals(ServiceTest):
    """Refusals, each with the node and the rule in its message."""

    def refused(self, nodes, *words, status=422, tensors=None):
        with self.assertRaises(Refused) as caught:
            self.service.run(nodes, ["last"], tensors or {"h": torch.zeros(3), "xs": torch.zeros(4, 3)})
        self.assertEqual(caught.exception.status, status, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception.problem))

    def test_bodies(self):
        add = body("h x", [node("n", "add", "h", "x")], "n")
        scan = lambda made, *sources, **attrs: [node("last", "scan", *(sources or ("h", "xs")), body=made, **{"sequences": 1, **attrs})]  # noqa: E731
        self.refused(scan(body("h", [], "h")), "the body has 1 input", "the node passes 2", "last")
        self.refused(scan(body("h x", [node("n", "add", "h", "xs")], "n")), "nothing is named", "xs")
        self.refused(scan(body("h x", [node("n", "add", "h", "x")], "n n")), "2 outputs", "1 id")
        self.refused(scan(body("h x", [node("n", "sum", "x")], "n")), "carry 0 starts as float32[3]", "the body returns float32")
        self.refused(scan(body("h x", [node("n", "cast", "x", dtype="int32")], "n")), "the body returns int32[3]")
        self.refused(scan(body("h x", [node("n", "nope", "x")], "n")), "no op", "nope", "n")
        self.refused(scan(body("h x", [node("n", "rand_like", "x")], "n")), "random numbers", "outside")
        self.refused(scan(add, sequences=2), "1 carries and 2 sequences")
        self.refused(scan(add, "xs", "h", sequences=0), "length")
        self.refused(scan(add, length=3), "input 1 has shape [4, 3], but the number of steps is 3")
        self.refused(scan(add, length=-1), "length is -1; it must be 0 or more for every size")
        self.refused(scan(add, length="n"), "no dimension is named", "n")
        self.refused(scan(add, "h", 1.0), "a sequence")
        self.refused(scan(add, "h", "h", sequences=0, length=1 << 40), "steps")
        self.refused(scan(7), "attribute \"body\" must be a graph", status=400)
        self.refused(scan({"nodes": [], "outputs": []}), "inputs", status=400)
        self.refused(scan({"inputs": ["h", "h"], "nodes": [], "outputs": ["h"]}), "used twice")
        self.refused(scan({"inputs": ["h", "x"], "nodes": [node("a", "neg", "b"), node("b", "neg", "a")], "outputs": ["a"]}), "cycle")
        self.refused([{"id": "last", "op": "neg", "in": ["h"], "attrs": {"x": add}}], "x")
        deep = add
        for _ in range(60):
            deep = body("h x", [node("n", "scan", "h", "x", body=deep, length=2)], "n")
        self.refused(scan(deep), "deep", status=400)

    def test_a_long_loop_ends_in_time(self):
        """A deadline ends the run between two launches of the loop."""
        step = body("h w", [node("m", "matmul", "h", "w"), node("n", "tanh", "m")], "n")
        began = time.monotonic()
        with self.assertRaises(Refused) as caught:
            self.service.run([node("w", "ones", shape=[160, 160]), node("last", "scan", "w", "w", body=step, length=2000)], ["last"],
                             device="interp:0", timeout_ms=500)
        self.assertEqual(caught.exception.status, 504)
        self.assertLess(time.monotonic() - began, 20)

    def test_work(self):
        """Nested loops with too many launches are refused before the run."""
        made = body("h", [node("n", "sin", "h")], "n")
        for _ in range(4):
            made = body("h", [node("n", "scan", "h", body=made, length=1000)], "n")
        self.refused([node("last", "scan", "h", body=made, length=1000)], "launch more than")


if __name__ == "__main__":
    unittest.main()
