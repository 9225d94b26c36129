# SPDX-License-Identifier: MIT
"""Recurrent networks, Loop and Scan over named lengths: one program for runs of several lengths, against numpy."""
import unittest

import hosting
import numpy as np
from onnx import TensorProto
from test_import import L, body, constant, model, node, tensor

import served

IN, HIDDEN = 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
random = np.random.default_rng(5)


def drawn(*shape):
    return random.standard_normal(shape).astype(np.float32) * np.float32(0.5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(kind, x, h, c, w, r, bias, linear_before_reset):
    """Returns the next h and c by the formulas of the standard."""
    wb, rb = np.split(bias, 2)
    if kind == "RNN":
        return np.tanh(w @ x + r @ h + wb + rb), c
    if kind == "LSTM":
        i, o, f, g = np.split(w @ x + r @ h + wb + rb, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (wz, wr, wh), (rz, rr, rh), (wbz, wbr, wbh), (rbz, rbr, rbh) = (np.split(each, 3) for each in (w, r, wb, rb))
    z, reset = sigmoid(wz @ x + rz @ h + wbz + rbz), sigmoid(wr @ x + rr @ h + wbr + rbr)
    new = np.tanh(wh @ x + wbh + (reset * (rh @ h + rbh) if linear_before_reset else rh @ (reset * h) + rbh))
    return (1 - z) * new + z * h, c


def recurrence(kind, x, weights, lengths, backward, linear_before_reset):
    """Returns Y, Y_h and Y_c for x [time, batch, in], with a row of weights for each direction."""
    time, batch, _ = x.shape
    directions = len(backward)
    y, last = np.zeros((time, directions, batch, HIDDEN), np.float32), np.zeros((2, directions, batch, HIDDEN), np.float32)
    for d, back in enumerate(backward):
        for row in range(batch):
            h = c = np.zeros(HIDDEN)
            steps = range(lengths[row])
            for t in reversed(steps) if back else steps:
                h, c = step(kind, x[t, row], h, c, *(each[d] for each in weights), linear_before_reset)
                y[t, d, row] = h
            last[:, d, row] = h, c
    return y, *last


def network(kind, direction, weights, has_lengths, layout, **attributes):
    names = ["x", "w", "r", "b"] + (["lengths"] if has_lengths else [])
    inputs = [tensor("x", ["batch", "time", IN] if layout else ["time", "batch", IN])]
    inputs += [tensor("lengths", ["batch"], TensorProto.INT32)] if has_lengths else []
    outputs = ["y", "h", "c"][:3 if kind == "LSTM" else 2]
    made = node(kind, names, outputs, hidden_size=HIDDEN, direction=direction, **({"layout": 1} if layout else {}), **attributes)
    return model([made], inputs, [tensor(name, None) for name in outputs], [constant(name, each) for name, each in zip("wrb", weights, strict=True)])


def positions():
    """In step i, for each row of x: h * 0.5 + x[i], and i."""
    steps = body([node("Gather", ["x", "i"], ["row"]), node("Mul", ["h", "half"], ["m"]), node("Add", ["m", "row"], ["n"]), node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
                  node("Identity", ["go"], ["still"])],
                 [tensor("i", [], L), tensor("go", [], TensorProto.BOOL), tensor("h", [2])],
                 [tensor("still", [], TensorProto.BOOL), tensor("n", [2]), tensor("n", [2]), tensor("f", [])])
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["rows"]), node("Loop", ["rows", "", "start"], ["last", "all", "at"], body=steps)]
    return model(nodes, [tensor("x", ["rows", 2])], [tensor("last", [2]), tensor("all", None), tensor("at", None)],
                 [constant("zero", 0, np.int64), constant("half", 0.5), constant("start", [1, -1])])


def stopping():
    """Doubles until the value exceeds 50, at most once per element of x."""
    steps = body([node("Add", ["h", "h"], ["n"]), node("Less", ["n", "bound"], ["still"])], [tensor("i", [], L), tensor("go", [], TensorProto.BOOL), tensor("h", [])],
                 [tensor("still", [], TensorProto.BOOL), tensor("n", [])])
    nodes = [node("Size", ["x"], ["most"]), node("ReduceMax", ["x"], ["first"], keepdims=0), node("Loop", ["most", "true", "first"], ["y"], body=steps)]
    return model(nodes, [tensor("x", ["n"])], [tensor("y", [])], [constant("true", True, bool), constant("bound", 50)])


def while_loop(stride, conditions):
    """A loop over a sequence as other frameworks export it: no trip count, a condition on a counting carry, and invariant
    values as carries."""
    steps = body([node("Gather", ["x", "i"], ["row"]), node("Mul", ["h", "scale"], ["m"]), node("Add", ["m", "row"], ["h2"]), node("Add", ["i", "stride"], ["i2"]),
                  node("Cast", ["i2"], ["fi"], to=TensorProto.FLOAT), node("Cast", ["limit"], ["fl"], to=TensorProto.FLOAT), node("Less", ["fi", "fl"], ["first"]),
                  node("Add", ["k", "one"], ["k1"]), node("GreaterOrEqual", ["k1", "limit"], ["over"]), node("Not", ["over"], ["second"]),
                  node("And", ["first", "second"], ["both"]), node("Identity", ["limit"], ["limit2"])],
                 [tensor("k", [], L), tensor("go", [], TensorProto.BOOL), tensor("i", [], L), tensor("h", [2]), tensor("limit", [], L), tensor("scale", [2])],
                 [tensor(conditions, [], TensorProto.BOOL), tensor("i2", [], L), tensor("h2", [2]), tensor("limit2", [], L), tensor("scale", [2]), tensor("h2", [2])])
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Less", ["zero", "n"], ["some"]),
             node("Loop", ["", "some", "zero", "start", "n", "half"], ["", "last", "same", "half2", "all"], body=steps), node("Mul", ["last", "half2"], ["y"])]
    return model(nodes, [tensor("x", ["n", 2])], [tensor("y", [2]), tensor("all", None), tensor("same", [], L)],
                 [constant("zero", 0, np.int64), constant("one", 1, np.int64), constant("stride", stride, np.int64), constant("half", [0.5, 0.25]), constant("start", [1, -1])])


def counting():
    """An If on the step's number, after the use of an outer constant."""
    yes, no = body([node("Add", ["m", "two"], ["a"])], [], [tensor("a", [])]), body([node("Neg", ["m"], ["b"])], [], [tensor("b", [])])
    steps = body([node("Mul", ["h", "two"], ["m"]), node("Less", ["i", "three"], ["early"]), node("If", ["early"], ["n"], then_branch=yes, else_branch=no)],
                 [tensor("i", [], L), tensor("go", [], TensorProto.BOOL), tensor("h", [])], [tensor("go", [], TensorProto.BOOL), tensor("n", [])])
    return model([node("Loop", ["trips", "", "x"], ["y"], body=steps)], [tensor("x", [])], [tensor("y", [])],
                 [constant("trips", 5, np.int64), constant("two", 2), constant("three", 3, np.int64)])


def sums():
    """Running sums along axis 1, scanned and stacked backward."""
    steps = body([node("Add", ["a", "b"], ["c"]), node("Identity", ["c"], ["d"])], [tensor("a", ["rows"]), tensor("b", ["rows"])], [tensor("c", ["rows"]), tensor("d", ["rows"])])
    nodes = [node("ReduceSum", ["x", "one"], ["zero"], keepdims=0), node("Sub", ["zero", "zero"], ["start"]),
             node("Scan", ["start", "x"], ["last", "all"], body=steps, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1], scan_input_directions=[1],
                  scan_output_directions=[1])]
    return model(nodes, [tensor("x", ["rows", "n"])], [tensor("last", None), tensor("all", None)], [constant("one", [1], np.int64)])


class Lengths(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def close(self, got, wanted):
        for each, other in zip(got, wanted, strict=True):
            self.assertEqual(np.shape(other), each.shape)
            np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)

    def test_recurrent_networks(self):
        for kind, gates in GATES.items():
            for direction, backward in (("forward", [False]), ("reverse", [True]), ("bidirectional", [False, True])):
                for has_lengths, layout in ((False, 0), (True, 0), (True, 1)):
                    after = {"linear_before_reset": 1} if kind == "GRU" and has_lengths else {}
                    shapes = ((gates * HIDDEN, IN), (gates * HIDDEN, HIDDEN), (2 * gates * HIDDEN,))
                    weights = [drawn(len(backward), *shape) for shape in shapes]
                    program = self.host.put(network(kind, direction, weights, has_lengths, layout, **after), "?dims=time:1-9,batch:1-4")
                    for time, batch in ((9, 2), (1, 1), (4, 3), (5, 2)):
                        with self.subTest(kind, direction=direction, lengths=has_lengths, layout=layout, time=time):
                            x, lengths = drawn(time, batch, IN), np.minimum(time, np.arange(batch) * 2 + 1 if has_lengths else time) * np.ones(batch, int)
                            y, h, c = recurrence(kind, x, weights, lengths, backward, bool(after))
                            arrays = [x.transpose(1, 0, 2) if layout else x] + ([lengths.astype(np.int32)] if has_lengths else [])
                            wanted = [y.transpose(2, 0, 1, 3), h.transpose(1, 0, 2), c.transpose(1, 0, 2)] if layout else [y, h, c]
                            self.close(self.host.run(program, arrays), wanted[:3 if kind == "LSTM" else 2])

    def test_loop(self):
        program = self.host.put(positions(), "?dims=rows:1-12")
        for rows in (12, 1, 6, 7):
            x, h, every = drawn(rows, 2), np.array([1, -1], np.float32), []
            for row in x:
                h = h * np.float32(0.5) + row
                every.append(h)
            self.close(self.host.run(program, [x]), [h, np.stack(every), np.arange(rows, dtype=np.float32)])

    def test_loop_of_a_condition(self):
        for stride, condition in ((1, "first"), (1, "second"), (1, "both"), (3, "first")):
            program = self.host.put(while_loop(stride, condition), "?dims=n:1-12")
            for n in (12, 1, 6, 7):
                with self.subTest(stride=stride, condition=condition, n=n):
                    x, h, every = drawn(n, 2), np.array([1, -1], np.float32), []
                    for row in x[::stride]:
                        h = h * np.array([0.5, 0.25], np.float32) + row
                        every.append(h)
                    self.close(self.host.run(program, [x]), [h * np.array([0.5, 0.25], np.float32), np.stack(every), n])
            self.assertEqual({"half", "start"}, {name.split(".")[0] for name in program["state"]} - {"rng"})

    def test_loop_that_counts(self):
        value = 1.5
        for step in range(5):
            value = value * 2 + 2 if step < 3 else -value * 2
        self.close(self.host.run(self.host.put(counting()), [np.float32(1.5)]), [np.float32(value)])

    def test_loop_that_stops(self):
        program = self.host.put(stopping(), "?dims=n:1-8")
        for n, first in ((8, 1), (3, 1), (1, 60), (7, 30)):
            value, steps = np.float32(first), 0
            while steps < n and (steps == 0 or value < 50):
                value, steps = value + value, steps + 1
            self.close(self.host.run(program, [np.full(n, first, np.float32)]), [value])

    def test_scan(self):
        program = self.host.put(sums(), "?dims=rows:1-3,n:1-20")
        for rows, n in ((2, 20), (3, 1), (1, 7)):
            x = drawn(rows, n)
            every = np.cumsum(x[:, ::-1], axis=1)
            self.close(self.host.run(program, [x]), [every[:, -1], every[:, ::-1]])

    def test_unknown(self):
        """A data-dependent condition without a trip count."""
        loop = while_loop(1, "data")
        graph = next(each for each in loop.graph.node if each.op_type == "Loop").attribute[0].g
        graph.node.extend([node("ReduceMax", ["h2"], ["top"], keepdims=0), node("Cast", ["top"], ["data"], to=TensorProto.BOOL)])
        with self.assertRaises(hosting.Refused) as caught:
            self.host.put(loop)
        self.assertIn("input 0, its trip count, is left out, and the number of steps that its condition allows is not known", str(caught.exception))

    def test_too_long(self):
        """A length with too many launches for a plan is refused with this reason."""
        with self.assertRaises(hosting.Refused) as caught:
            self.host.put(positions(), "?dims=rows:1-100000")
        self.assertIn("it has up to 100000 steps of about", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
