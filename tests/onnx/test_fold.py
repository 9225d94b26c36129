# SPDX-License-Identifier: MIT
"""Constant folding at import: constants through any operator, and arithmetic on named dimensions as exporters write it.

Each model is compared with the onnx package's own evaluator at several sizes.
"""
import unittest

import hosting
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import served

F, L = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def tensor(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


class Graph:
    """A model of one input x that grows node by node; constants are made where they are used."""

    def __init__(self, shape, opset=18):
        self.nodes, self.constants, self.shape, self.opset = [], [], shape, opset

    def __call__(self, op, *operands, outputs=1, **attributes):
        names = []
        for operand in operands:
            if not isinstance(operand, str):
                operand = np.asarray(operand)
                operand = operand.astype(np.int64) if operand.dtype.kind == "i" else operand
                operand = operand.astype(np.float32) if operand.dtype == np.float64 else operand
                self.constants.append(numpy_helper.from_array(operand, f"c{len(self.constants)}"))
                operand = self.constants[-1].name
            names.append(operand)
        results = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(op, names, results, **attributes))
        return results[0] if outputs == 1 else results

    def model(self, *results):
        graph = helper.make_graph(self.nodes, "graph", [tensor("x", self.shape)], [helper.make_empty_tensor_value_info(each) for each in results],
                                  self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset)])


def torch_pad(mode="constant"):
    """F.pad as torch exports it: the pads are filled with zeros, reversed in pairs and transposed."""
    g = Graph(["n", 3, 8, 8])
    pads = np.array([1, 2, 3, 1])
    zeros = g("ConstantOfShape", g("Sub", g("Mul", [4], [2]), [len(pads)]), value=helper.make_tensor("z", L, [1], [0]))
    pairs = g("Reshape", g("Concat", pads, zeros, axis=0), [-1, 2])
    turned = g("Transpose", g("Slice", pairs, [-1], [np.iinfo(np.int64).min], [0], [-1]), perm=[1, 0])
    flat = g("Cast", g("Reshape", turned, [-1]), to=L)
    return g.model(g("Pad", "x", flat, mode=mode)), [(1, 3, 8, 8), (5, 3, 8, 8)]


def computed_constants():
    """The shape of a Reshape, computed by operators of every kind from constants alone."""
    g = Graph(["n", 4, 6])
    powers = g("Cast", g("Pow", [16.0, 1369.0], [0.5, 0.5]), to=L)  # 4, 37
    sums = g("CumSum", [1, 1, 1, 1, 1, 1], 0)  # 1 to 6
    top, _ = g("TopK", sums, [2], outputs=2)  # 6, 5
    picked = g("GatherElements", g("Flatten", top, axis=0), [[0, 0]], axis=1)  # 6, 6
    scattered = g("ScatterND", g("Reshape", picked, [-1]), [[0]], [2])  # 2, 6
    placed = g("ScatterElements", scattered, [1], g("Clip", [9], 1, 2))  # 2, 2
    tiled = g("Slice", g("Tile", powers, [2]), [0, ], [1, ], [0, ])  # 4
    shape = g("Concat", [-1], placed, g("Div", g("Mul", tiled, [6]), [4]), axis=0)  # -1, 2, 2, 6
    return g.model(g("Reshape", "x", shape)), [(1, 4, 6), (3, 4, 6)]


def interpolation(mode="nearest"):
    """Upsampling by two with floats: floor(size * 2.0), as exporters write interpolate with a scale."""
    g = Graph(["n", 2, "h", "w"])
    size = g("Shape", "x")
    sides = [g("Floor", g("Mul", g("Cast", g("Gather", size, axis), to=F), 2.0)) for axis in (2, 3)]
    sizes = g("Concat", g("Slice", size, [0], [2], [0]), *[g("Unsqueeze", g("Cast", side, to=L), [0]) for side in sides], axis=0)
    return g.model(g("Resize", "x", "", "", sizes, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")), [
        (1, 2, 3, 4), (2, 2, 5, 5), (1, 2, 8, 1)]


def resized(mode, place, nearest="round_prefer_floor", scale=None, **more):
    """Height and width are exchanged, or each is scaled."""
    g = Graph(["n", 2, "h", "w"])
    size = g("Shape", "x")
    wanted = ["", "", g("Gather", size, [0, 1, 3, 2])] if scale is None else ["", np.array([1, 1, scale, scale], np.float32)]
    return g.model(g("Resize", "x", *wanted, mode=mode, coordinate_transformation_mode=place, nearest_mode=nearest, **more)), [
        (1, 2, 3, 4), (2, 2, 5, 5), (1, 2, 8, 1), (1, 2, 2, 9)]


def resizes():
    for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        for mode in ("linear", "cubic"):
            yield f"{mode} {place}", resized(mode, place)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            yield f"{nearest} {place}", resized("nearest", place, nearest)
    for mode in ("nearest", "linear", "cubic"):
        for scale in (1.5, 3):
            yield f"{mode} times {scale}", resized(mode, "half_pixel", scale=scale)
    yield "excluded", resized("cubic", "half_pixel", exclude_outside=1)
    yield "smoothed", resized("linear", "half_pixel", scale=2, antialias=1)


def scales_of_sizes():
    """Scales that are quotients of sizes, and therefore constant."""
    g = Graph(["n", 2, "h", 4])
    size = g("Cast", g("Shape", "x"), to=F)
    scales = g("Div", g("Mul", size, [1.0, 1.0, 3.0, 2.0]), size)
    return g.model(g("Resize", "x", "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")), [
        (1, 2, 3, 4), (2, 2, 7, 4)]


def rounded_up():
    """Windows of 4 by ceil((length - 4) / 2) + 1: a slice to a multiple, and a shape derived from it."""
    g = Graph([2, "length"])
    length = g("Cast", g("Gather", g("Shape", "x"), 1), to=F)
    half = g("Cast", g("Ceil", g("Div", g("Sub", length, 1.0), 2.0)), to=L)
    even = g("Unsqueeze", g("Mul", half, 2), [0])
    cut = g("Slice", g("Concat", "x", "x", axis=1), [0], even, [1])
    return g.model(g("Reshape", cut, g("Concat", [2], g("Unsqueeze", half, [0]), [2], axis=0))), [(2, 3), (2, 4), (2, 9)]


def chosen_shape():
    """A shape with -1 chosen by a comparison, a maximum of two sizes, an Expand by ConstantOfShape and Where."""
    g = Graph(["n", "m", 4])
    size = g("Shape", "x")
    rows = g("Mul", g("Gather", size, [0]), g("Gather", size, [1]))
    want = g("Concat", rows, [-1], axis=0)
    ones = g("ConstantOfShape", g("Shape", want), value=helper.make_tensor("one", L, [1], [1]))
    grown = g("Where", g("Equal", want, g("Mul", ones, [-1])), [4], want)
    added = g("Expand", [1.0, 2.0, 3.0, 4.0], g("Concat", g("Max", g("Gather", size, [0]), [0]), g("Gather", size, [1]), [4], axis=0))
    return g.model(g("Reshape", g("Add", "x", added), grown)), [(1, 2, 4), (3, 3, 4)]


def moved_sizes():
    """Sizes through Slice of two axes, Transpose, Tile, Split and Gather."""
    g = Graph(["n", "m", 6])
    size = g("Shape", "x")
    table = g("Reshape", g("Tile", size, [2]), [2, 3])
    corner = g("Slice", table, [0, 1], [2, 3], [0, 1])  # m, 6; m, 6
    column = g("Gather", g("Transpose", corner, perm=[1, 0]), 0)  # m, m
    first, last = g("Split", g("Concat", column, g("Slice", size, [2], [0], [0], [-1]), axis=0), [2, 2], outputs=2)  # m, m; 6, m
    total = g("ReduceProd", g("Concat", g("Slice", last, [0], [1], [0]), g("Slice", size, [0], [1], [0]), axis=0), keepdims=1)  # 6 n
    return g.model(g("Reshape", "x", g("Concat", total, g("Slice", first, [0], [1], [0]), axis=0))), [(1, 2, 6), (3, 5, 6)]


def grid_of_a_detector():
    """Centres of the cells of a feature map, by a range of floats: width / 2 centres, each in the middle of a cell."""
    g = Graph(["n", "width"])
    width = g("Div", g("Cast", g("Gather", g("Shape", "x"), 1), to=F), np.float32(2))
    centres = g("Add", g("Range", np.float32(0), width, np.float32(1)), np.float32(0.5))
    return g.model(g("Add", g("ReduceSum", "x", [1], keepdims=1), g("Unsqueeze", centres, [0]))), [(1, 4), (3, 7), (2, 8)]


def windows(op, **attributes):
    """A pool or a convolution whose padding depends on a named size."""
    g = Graph(["n", 2, "h", 7])
    weight = [np.random.default_rng(2).standard_normal((3, 2, *attributes["kernel_shape"])).astype(np.float32)] if op == "Conv" else []
    return g.model(g(op, "x", *weight, **attributes)), [(1, 2, 5, 7), (2, 2, 6, 7), (1, 2, 7, 7), (1, 2, 16, 7)]


def all_windows():
    for op, pad in (("MaxPool", "SAME_UPPER"), ("AveragePool", "SAME_UPPER"), ("Conv", "SAME_UPPER"), ("Conv", "SAME_LOWER")):
        yield f"{op} {pad}", windows(op, kernel_shape=[3, 3], strides=[2, 2], auto_pad=pad)
    for op in ("MaxPool", "AveragePool"):
        yield f"{op} rounded up", windows(op, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        yield f"{op} rounded up with pads", windows(op, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)


def padded_frames():
    """Cut to whole frames by a remainder: the import proves that x - (x + 1) % 4 is a multiple of 4 less 1."""
    g = Graph([2, "length"])
    length = g("Gather", g("Shape", "x"), [1])
    cut = g("Add", g("Sub", length, g("Mod", g("Add", length, [1]), [4])), [1])
    whole = g("Slice", g("Concat", "x", "x", axis=1), [0], cut, [1])
    return g.model(g("Reshape", whole, [2, -1, 4])), [(2, 4), (2, 7), (2, 10)]


MODELS = {
    **dict(all_windows()), "frames": padded_frames(),
    "detector": grid_of_a_detector(),
    "pad": torch_pad(), "reflect": torch_pad("reflect"), "constants": computed_constants(),
    **{f"interpolation of {mode}": interpolation(mode) for mode in ("nearest", "linear", "cubic")},
    **dict(resizes()), "scales": scales_of_sizes(), "rounded_up": rounded_up(), "chosen": chosen_shape(), "moved": moved_sizes(),
}


class Folded(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.host = hosting.Host(cls.server.port)

    def test_models(self):
        for name, (model, shapes) in MODELS.items():
            with self.subTest(name):
                program = self.host.put(model)
                for shape in shapes:
                    x = np.random.default_rng(1).standard_normal(shape, np.float32)
                    wanted = ReferenceEvaluator(model).run(None, {"x": x})
                    for one, other in zip(self.host.run(program, [x]), wanted, strict=True):
                        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)

    def test_what_a_large_input_decides_is_refused(self):
        g = Graph([3000])
        bad = g.model(g("Reshape", "x", g("Cast", "x", to=L)))
        with self.assertRaisesRegex(hosting.Refused, r"input 1 must be known when the model is imported.*the elements of the model's input \"x\""):
            self.host.put(bad)

    def test_random_numbers_are_not_constants(self):
        """Random numbers are not constants, even with known operands, with one element or as many as the generator's state."""
        for like in (np.zeros(1, np.float32), np.zeros(2, np.float32), np.zeros(4, np.float32)):
            g = Graph([1])
            program = self.host.put(g.model(g("Add", "x", g("RandomUniformLike", like))))
            runs = [tuple(self.host.run(program, [np.zeros(1, np.float32)])[0]) for _ in range(2)]
            self.assertNotEqual(*runs)


if __name__ == "__main__":
    unittest.main()
