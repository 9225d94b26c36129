# SPDX-License-Identifier: MIT
"""The import of shapes, names, control flow and functions, and its refusals, against the onnx package's own evaluator."""
import http.client
import os
import tempfile
import unittest
import unittest.mock

import hosting
import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import served

F, L, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def tensor(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.array(value, dtype=dtype), name)


def model(nodes, inputs, outputs, constants=(), opset=18, functions=(), domains=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    return helper.make_model(graph, functions=list(functions), ir_version=10,
                             opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)])


node = helper.make_node


def body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", inputs, outputs)


def floor_of_shape():
    """[batch, 4, 6] -> [batch, 24] and then [batch * 2, 12], by shape arithmetic as exporters write it."""
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["batch"]), node("Unsqueeze", ["batch", "zeros"], ["batch1"]),
             node("Concat", ["batch1", "minus"], ["flat"], axis=0), node("Reshape", ["x", "flat"], ["y"]),
             node("Mul", ["batch", "two"], ["twice"]), node("Unsqueeze", ["twice", "zeros"], ["twice1"]),
             node("Concat", ["twice1", "twelve"], ["shape"], axis=0), node("Reshape", ["y", "shape"], ["z"])]
    constants = [constant("zero", 0, np.int64), constant("zeros", [0], np.int64), constant("minus", [-1], np.int64), constant("two", 2, np.int64),
                 constant("twelve", [12], np.int64)]
    return model(nodes, [tensor("x", ["batch", 4, 6])], [tensor("z", [None, 12])], constants)


def masked_positions():
    """Range and Expand over a named dimension, a comparison with the dimension, and a slice that ends at it."""
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Range", ["zero", "n", "one"], ["r"]),
             node("Cast", ["r"], ["f"], to=F), node("Expand", ["f", "s"], ["e"]), node("Add", ["x", "e"], ["y"]),
             node("Unsqueeze", ["n", "zeros"], ["end"]), node("Slice", ["table", "zeros", "end"], ["t"]), node("Mul", ["y", "t"], ["z"])]
    constants = [constant("zero", 0, np.int64), constant("one", 1, np.int64), constant("zeros", [0], np.int64), constant("table", np.arange(64) / 8)]
    return model(nodes, [tensor("x", [2, "length"])], [tensor("z", [2, None])], constants)


def padded(mode):
    """Pads with named dimensions: n // 2 before the rows, and padding after the columns to an even number."""
    nodes = [node("Shape", ["x"], ["s"]), node("Split", ["s"], ["n", "m"], num_outputs=2), node("Div", ["n", "two"], ["half"]), node("Mod", ["m", "two"], ["odd"]),
             node("Concat", ["half", "none", "none", "odd"], ["pads"], axis=0), node("Pad", ["x", "pads"], ["y"], mode=mode)]
    return model(nodes, [tensor("x", ["n", "m"])], [tensor("y", None)], [constant("two", [2], np.int64), constant("none", [0], np.int64)])


def pyramid():
    """Three levels down, then upsampling by linear interpolation to the size of each level."""
    names, nodes = ["x", "p0", "p1", "p2"], []
    for up, down in zip(names, names[1:]):
        nodes += [node("AveragePool", [up], [down], kernel_shape=[2, 2], strides=[2, 2]), node("Shape", [up], [f"size of {up}"])]
    for i, (up, small) in enumerate(zip(names[2::-1], ["p2", "r0", "r1"])):
        nodes.append(node("Resize", [small, "", "", f"size of {up}"], [f"r{i}"], mode="linear"))
    return model(nodes, [tensor("x", ["n", 1, "height", "width"])], [tensor("r2", None)])


def grid(corners):
    """A grid of the picture's size."""
    nodes = [node("Shape", ["x"], ["s"]), node("AffineGrid", ["theta", "s"], ["y"], align_corners=corners)]
    return model(nodes, [tensor("x", ["n", 1, "height", "width"]), tensor("theta", ["n", 2, 3])], [tensor("y", None)], opset=20)


def unsorted():
    """Each node precedes the producers of its inputs, also of inputs that only a body uses."""
    then, other = body([node("Add", ["t", "w"], ["a"])], [], [tensor("a", [3])]), body([], [], [tensor("t", [3])])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other), node("Mul", ["n", "w"], ["t"]), node("Neg", ["x"], ["n"])]
    return model(nodes, [tensor("x", [3]), tensor("c", [], B)], [tensor("y", [3])], [constant("w", [1, 2, 3])])


def condition(known):
    """If by a value of the input or of an initialiser; the branches use outer names."""
    then = body([node("Add", ["x", "w"], ["t"])], [], [tensor("t", [3])])
    other = body([node("Neg", ["x"], ["m"]), node("Mul", ["m", "v"], ["o"])], [], [tensor("o", [3])])
    inputs = [tensor("x", [3])] + ([] if known else [tensor("c", [], B)])
    constants = [constant("w", [1, 2, 3]), constant("v", [3, 4, 5])] + ([constant("c", False, bool)] if known else [])
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], inputs, [tensor("y", [3])], constants)


def counted_loop():
    """Five steps of a recurrence whose results are stacked; a weight is an outer value."""
    steps = body([node("MatMul", ["h", "w"], ["p"]), node("Tanh", ["p"], ["n"]), node("Cast", ["i"], ["f"], to=F), node("Add", ["n", "f"], ["s"]),
                  node("Identity", ["go"], ["still"])],
                 [tensor("i", [], L), tensor("go", [], B), tensor("h", [1, 3])], [tensor("still", [], B), tensor("n", [1, 3]), tensor("s", [1, 3])])
    return model([node("Loop", ["trips", "", "x"], ["y", "all"], body=steps)], [tensor("x", [1, 3])], [tensor("y", [1, 3]), tensor("all", [5, 1, 3])],
                 [constant("trips", 5, np.int64), constant("w", np.linspace(-1, 1, 9).reshape(3, 3))])


def stopping_loop():
    """Doubles until the value exceeds 50, at most 20 times."""
    steps = body([node("Add", ["h", "h"], ["n"]), node("Less", ["n", "bound"], ["still"])], [tensor("i", [], L), tensor("go", [], B), tensor("h", [])],
                 [tensor("still", [], B), tensor("n", [])])
    return model([node("Loop", ["trips", "true", "x"], ["y"], body=steps)], [tensor("x", [])], [tensor("y", [])],
                 [constant("trips", 20, np.int64), constant("true", True, bool), constant("bound", 50)])


def scanned():
    """A running sum along axis 1, scanned backwards."""
    steps = body([node("Add", ["a", "b"], ["c"]), node("Identity", ["c"], ["d"])], [tensor("a", [2]), tensor("b", [2])],
                 [tensor("c", [2]), tensor("d", [2])])
    scan = node("Scan", ["zero", "x"], ["last", "all"], body=steps, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
                scan_input_directions=[1], scan_output_directions=[1])
    return model([scan], [tensor("x", [2, 4])], [tensor("last", [2]), tensor("all", [2, 4])], [constant("zero", [0, 0])])


def function():
    """A function of the model with an attribute, called twice."""
    scale = node("LeakyRelu", ["a"], ["r"])
    scale.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    own = helper.make_function("mine", "Bent", ["a", "b"], ["r2"], [scale, node("Add", ["r", "b"], ["r2"])],
                               [helper.make_opsetid("", 18)], ["slope"])
    return model([node("Bent", ["x", "x"], ["y"], domain="mine", slope=0.5), node("Bent", ["y", "x"], ["z"], domain="mine", slope=0.25)],
                 [tensor("x", [4])], [tensor("z", [4])], functions=[own], domains=["mine"])


def odd_names():
    """Names with illegal characters, two of which become equal."""
    return model([node("Add", ["1 a", "1/a"], ["out put"]), node("Neg", ["out put"], ["out-put"])], [tensor("1 a", [2]), tensor("1/a", [2])],
                 [tensor("out put", [2]), tensor("out-put", [2])])


def found_rows():
    """NonZero, and a Gather at its result, as torch exports x[mask]; with a named length."""
    return model([node("NonZero", ["m"], ["z"]), node("Transpose", ["z"], ["t"], perm=[1, 0]), node("GatherND", ["x", "t"], ["y"]),
                  node("Mul", ["y", "two"], ["d"]), node("Unsqueeze", ["d", "zeros"], ["u"])],
                 [tensor("m", ["n", 3], B), tensor("x", ["n", 3, 2])], [tensor("z", [2, None], L), tensor("d", [None, 2]), tensor("u", [1, None, 2])],
                 [constant("two", 2), constant("zeros", [0], np.int64)])


def kept_boxes():
    """NonMaxSuppression, and the selected boxes and scores, as at the end of detectors."""
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["s"]), node("Slice", ["s", "two", "three", "one"], ["at"]),
             node("Squeeze", ["at", "one"], ["i"]), node("Squeeze", ["boxes", "zero"], ["flat"]), node("Gather", ["flat", "i"], ["kept"], axis=0),
             node("Concat", ["kept", "kept"], ["twice"], axis=1), node("ReduceMax", ["kept"], ["side"], axes=[1], keepdims=0)]
    constants = [constant("most", [3], np.int64), constant("iou", [0.5]), constant("least", [0.1]), constant("zero", [0], np.int64), constant("one", [1], np.int64),
                 constant("two", [2], np.int64), constant("three", [3], np.int64)]
    return model(nodes, [tensor("boxes", [1, 6, 4]), tensor("scores", [1, 2, 6])],
                 [tensor("s", [None, 3], L), tensor("kept", [None, 4]), tensor("twice", [None, 8]), tensor("side", [None])], constants)


def boxes_of_any_number():
    """NonMaxSuppression without constants for the numbers of boxes and of selected boxes."""
    return model([node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["y"])],
                 [tensor("boxes", ["n", "k", 4]), tensor("scores", ["n", 2, "k"]), tensor("most", [1], L)], [tensor("y", [None, 3], L)],
                 [constant("iou", [0.5]), constant("least", [0.2])])


def counted_words():
    """N-grams of rows that may be shorter than an n-gram."""
    return model([node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1, max_gram_length=3, max_skip_count=1, pool_int64s=[1, 2, 1, 2, 2, 1, 1, 1, 1],
                       ngram_counts=[0, 2, 6], ngram_indexes=[0, 1, 2, 3, 4])], [tensor("x", ["n", "t"], L)], [tensor("y", ["n", 5])])


def looped(h):
    """The expected result of the loop, which the evaluator stacks with another shape."""
    weight, stacked = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3), []
    for step in range(5):
        h = np.tanh(h @ weight)
        stacked.append(h + np.float32(step))
    return [h, np.stack(stacked)]


def summed(x):
    """The expected result of the scan, since the evaluator does not support backward scans."""
    sums = np.cumsum(x[:, ::-1], axis=1)
    return [sums[:, -1], sums[:, ::-1]]


def detected(boxes, scores):
    """Runs the evaluator, whose ReduceMax does not support the attribute."""
    wanted = ReferenceEvaluator(model([node("NonMaxSuppression", ["b", "s", "most", "iou", "least"], ["y"])], [tensor("b", [1, 6, 4]), tensor("s", [1, 2, 6])],
                                      [tensor("y", [None, 3], L)], [constant("most", [3], np.int64), constant("iou", [0.5]), constant("least", [0.1])]))
    rows, = wanted.run(None, {"b": boxes, "s": scores})
    kept = boxes[0][rows[:, 2]]
    return [rows, kept, np.concatenate([kept, kept], axis=1), kept.max(axis=1)]


def numbers(*shape):
    return np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


BOXES = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.1, 1, 3], [4, 4, 5, 5], [4, 4.6, 5, 5.5]]])
CASES = {
    "arithmetic on shapes": (floor_of_shape(), [[numbers(1, 4, 6)], [numbers(5, 4, 6)]]),
    "positions": (masked_positions(), [[numbers(2, 3)], [numbers(2, 17)]]),
    "padding": (padded("constant"), [[numbers(1, 3)], [numbers(5, 4)]]),
    "padding with the edge": (padded("edge"), [[numbers(1, 3)], [numbers(5, 4)]]),
    "a pyramid": (pyramid(), [[numbers(1, 1, 16, 24)], [numbers(2, 1, 9, 8)]]),
    "a grid": (grid(0), [[numbers(2, 1, 3, 4), numbers(2, 2, 3)], [numbers(1, 1, 1, 5), numbers(1, 2, 3)]]),
    "a grid from corner to corner": (grid(1), [[numbers(2, 1, 3, 4), numbers(2, 2, 3)], [numbers(1, 1, 6, 5), numbers(1, 2, 3)]]),
    "nodes in another order": (unsorted(), [[numbers(3), np.array(True)], [numbers(3), np.array(False)]],
                               lambda x, c: [-x * np.array([1, 2, 3], np.float32) + (np.array([1, 2, 3], np.float32) if c else 0)]),
    "a known condition": (condition(True), [[numbers(3)]]),
    "a condition": (condition(False), [[numbers(3), np.array(True)], [numbers(3), np.array(False)]]),
    "a loop": (counted_loop(), [[numbers(1, 3)]], looped),
    "a loop that stops": (stopping_loop(), [[np.float32(3)], [np.float32(49)], [np.float32(0.0001)]]),
    "a scan": (scanned(), [[numbers(2, 4)]], summed),
    "rows that are found": (found_rows(), [[np.eye(4, 3) > 0, numbers(4, 3, 2)], [np.zeros((2, 3), bool), numbers(2, 3, 2)], [np.ones((5, 3), bool), numbers(5, 3, 2)]]),
    "boxes that are kept": (kept_boxes(), [[BOXES, np.float32([[[0.9, 0.8, 0.7, 0.05, 0.6, 0.5], [0.2, 0.3, 0.01, 0.02, 0.6, 0.4]]])],
                                           [BOXES, np.zeros((1, 2, 6), np.float32)]], detected),
    "boxes of any number": (boxes_of_any_number(), [[BOXES[:, :k].repeat(n, 0), np.sin(np.arange(n * 2 * k, dtype=np.float32)).reshape(n, 2, k) + 1, np.array([most])]
                                                    for n, k, most in ((1, 1, 1), (2, 6, 2), (1, 4, 9))]),
    "n-grams": (counted_words(), [[np.array([[1]])], [np.array([[1, 2, 1], [0, 1, 1]])], [np.arange(60).reshape(3, 20) % 7 % 3]]),
    "a function": (function(), [[numbers(4)]]),
    "odd names": (odd_names(), [[numbers(2), numbers(2)]]),
    "an input as output": (model([node("Neg", ["x"], ["y"])], [tensor("x", [2])], [tensor("x", [2]), tensor("y", [2])]), [[numbers(2)]]),
    "a constant as output": (model([node("Shape", ["x"], ["s"]), node("Shape", ["x"], ["t"])], [tensor("x", ["n", 3])],
                                   [tensor("s", [2], L), tensor("t", [2], L)]), [[numbers(4, 3)]]),
    "weights that are used twice": (model([node("Identity", ["w"], ["v"]), node("MatMul", ["x", "w"], ["y"]), node("MatMul", ["y", "v"], ["z"])],
                                          [tensor("x", [2, 3])], [tensor("z", [2, 3])], [constant("w", np.arange(9).reshape(3, 3))]),
                                    [[numbers(2, 3)]]),
    "int4 weights": (model([node("DequantizeLinear", ["w", "s"], ["d"], axis=0), node("MatMul", ["x", "d"], ["y"])], [tensor("x", [2, 3])],
                           [tensor("y", [2, 3])], [helper.make_tensor("w", TensorProto.INT4, [3, 3], [-8, 7, 1, 0, -1, 3, 5, -5, 2]),
                                                   constant("s", [0.5, 1, 2])], opset=21), [[numbers(2, 3)]]),
}

# description -> (model, parts of the error)
REFUSED = {
    "an operator that is not here": (model([node("Oracle", ["x"], ["y"], name="last", domain="delphi")], [tensor("x", [2])], [tensor("y", [2])],
                                           domains=["delphi"]), 'node "last" (Oracle): the operator "Oracle" of domain delphi is not supported'),
    "a file for one processor": (model([node("Conv", ["x", "x"], ["y"], domain="com.microsoft.nchwc")], [tensor("x", [1, 8, 4, 4])], [tensor("y", None)],
                                       domains=["com.microsoft.nchwc"]), "optimise it with ORT_ENABLE_EXTENDED instead"),
    "a name that nobody gives": (model([node("Neg", ["z"], ["y"])], [tensor("x", [2])], [tensor("y", [2])]),
                                 'node "y" (Neg): no input, initialiser or earlier node gives "z"'),
    "a shape that is data": (model([node("Reshape", ["x", "s"], ["y"])], [tensor("x", [4]), tensor("s", [2000], L)], [tensor("y", [2, 2])]),
                             'node "y" (Reshape): input 1 must be known when the model is imported'),
    "shapes that do not fit": (model([node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, 3])], [tensor("y", [2, 3])], [constant("w", numbers(2, 2))]),
                               'node "y" (MatMul): matmul: inner dimensions differ: [2, 3] @ [2, 2]'),
    "a loop of unknown length": (model([node("ArgMax", ["w"], ["m"], keepdims=0), node("Loop", ["m", "", "x"], ["y"], body=body([node("Identity", ["g"], ["h"]), node("Neg", ["a"], ["b"])], [
        tensor("i", [], L), tensor("g", [], B), tensor("a", [2])], [tensor("h", [], B), tensor("b", [2])]))], [tensor("x", [2]), tensor("w", [2000])],
        [tensor("y", [2])]), 'node "y" (Loop): input 0, its trip count, must be known'),
    "rows that are counted, summed": (model([node("NonZero", ["x"], ["z"]), node("ReduceSum", ["z"], ["y"])], [tensor("x", [4])], [tensor("y", None, L)]),
                                      'node "y" (ReduceSum): the length of axis 1 of input 0 depends on the data (at most [4])'),
    "the shape of what is counted": (model([node("NonZero", ["x"], ["z"]), node("Shape", ["z"], ["y"])], [tensor("x", [4])], [tensor("y", None, L)]),
                                     'node "y" (Shape): the length of axis 1 of input 0 depends on the data'),
    "strings": (model([node("Identity", ["x"], ["y"])], [tensor("x", [2], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)]),
                'input "x" is of strings, which a program cannot have'),
    "no outputs": (model([node("Neg", ["x"], ["y"])], [tensor("x", [2])], []), "has no outputs"),
    "a name given twice": (model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])]),
                           'the name "y" is given twice'),
}


class Import(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def test_like_the_evaluator(self):
        for name, (case, runs, *known) in CASES.items():
            program = self.host.put(case)
            for arrays in runs:
                with self.subTest(name, shape=[each.shape for each in arrays]):
                    feeds = dict(zip((each.name for each in case.graph.input), arrays, strict=True))
                    expected = known[0](*arrays) if known else ReferenceEvaluator(onnx.inliner.inline_local_functions(case)).run(None, feeds)
                    for got, wanted in zip(self.host.run(program, arrays), expected, strict=True):
                        wanted = np.asarray(wanted)
                        self.assertEqual((wanted.shape, wanted.dtype), (got.shape, got.dtype))
                        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)

    def test_windows_over_named_sizes(self):
        """Windows over named sizes give the results of numeric sizes, which the official cases cover."""
        weight = constant("w", np.linspace(-1, 1, 2 * 9).reshape(2, 1, 3, 3))
        for op, attributes in (("Conv", {"auto_pad": "SAME_UPPER"}), ("Conv", {"auto_pad": "SAME_LOWER"}), ("MaxPool", {"auto_pad": "SAME_UPPER"}),
                               ("MaxPool", {"ceil_mode": 1}), ("MaxPool", {"ceil_mode": 1, "pads": [0, 1, 1, 0]}), ("AveragePool", {"auto_pad": "SAME_LOWER"}),
                               ("AveragePool", {"ceil_mode": 1}), ("AveragePool", {"ceil_mode": 1, "pads": [1, 1, 0, 0], "count_include_pad": 1})):
            made = node(op, ["x", "w"] if op == "Conv" else ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], **attributes)
            weights = [weight] if op == "Conv" else []
            named = self.host.put(model([made], [tensor("x", [1, 1, "h", "w2"])], [tensor("y", None)], weights), "?dims=h:4-12,w2:4-12")
            for h, w in ((4, 5), (7, 8), (6, 12)):
                with self.subTest(op, h=h, w=w, **attributes):
                    got = self.host.run(named, [numbers(1, 1, h, w)])
                    other = hosting.Host(self.server.port, "fixed")
                    self.addCleanup(other.close)
                    fixed = other.put(model([made], [tensor("x", [1, 1, h, w])], [tensor("y", None)], weights))
                    np.testing.assert_allclose(got[0], other.run(fixed, [numbers(1, 1, h, w)])[0], rtol=1e-5, atol=1e-6)

    def test_names_and_ranges(self):
        entry = self.host.put(floor_of_shape(), "?dims=batch:2-9")["entries"]["main"]
        self.assertEqual(({"batch": [2, 9]}, [[ "batch", 4, 6]]), (entry["dims"], [each["shape"] for each in entry["inputs"].values()]))
        entry = self.host.put(odd_names())["entries"]["main"]
        self.assertEqual((["_1_a", "_1/a"], ["out_put", "out-put"]), (list(entry["inputs"]), entry["outputs"]))

    def test_outputs_keep_their_names_on_the_disk(self):
        case = model([node("Relu", ["x"], ["y"], name="first"), node("Split", ["y"], ["a", "b"], name="second", num_outputs=2)], [tensor("x", [4])],
                     [tensor("b", [2]), tensor("y", [4]), tensor("a", [2])])
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, BEAMLINE_STATE=folder):
            for start in range(2):
                server = served.Server(*self.options)
                try:
                    served.beamline.Client(server.url).wait_ready()
                    host = hosting.Host(server.port)
                    program = host.put(case, "?durable=true") if start == 0 else host.call("GET", "/api/v1/programs/model", None, "application/json")
                    self.assertEqual(["b", "y", "a"], program["entries"]["main"]["outputs"])
                    self.assertEqual([[3, 4], [0, 2, 3, 4], [0, 2]], [each.tolist() for each in host.run(program, [np.float32([-1, 2, 3, 4])])])
                    host.close()
                finally:
                    server.stop()

    def test_refused(self):
        for what, (case, words) in REFUSED.items():
            with self.subTest(what), self.assertRaises(hosting.Refused) as caught:
                self.host.put(case)
            self.assertIn(words, str(caught.exception))
            self.assertEqual(422, caught.exception.problem["status"])

    def test_bad_queries(self):
        for query, words in (("?dims=batch", "NAME:LEAST-MOST"), ("?dims=batch:9-2", "no size in its range"), ("?dims=batch:1-9:0", "NAME:LEAST-MOST"),
                             ("?dims=batch:33-63:32", "no size in its range"), ("?dims=%3F:48-48", "named dimensions are \"batch\""), ("?device=gpu:7", "gpu:7")):
            with self.subTest(query), self.assertRaises(hosting.Refused) as caught:
                self.host.put(floor_of_shape(), query)
            self.assertIn(words, str(caught.exception))

    def test_every_beginning_of_a_file(self):
        """A truncated file, or a file with a changed byte, gives an answer and does not crash the server."""
        data = bytearray(counted_loop().SerializeToString())
        statuses = set()
        for at in range(0, len(data), 3):
            for broken in (data[:at], data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1:]):
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
                connection.request("PUT", "/api/v1/programs/broken", bytes(broken), {"content-type": "application/x-onnx"})
                statuses.add(connection.getresponse().status)
                connection.close()
        self.assertLessEqual(statuses, {200, 201, 400, 422})
        self.assertIn(400, statuses)

    def test_nesting(self):
        flat = inner = body([node("Neg", ["x"], ["y"])], [], [tensor("y", [2])])
        for depth in range(22):
            inner = body([node("If", ["c"], [f"y{depth}"], then_branch=inner, else_branch=inner if depth < 3 else flat)], [], [tensor(f"y{depth}", [2])])
        deep = model([node("If", ["c"], ["y"], then_branch=inner, else_branch=flat)], [tensor("x", [2]), tensor("c", [], B)], [tensor("y", [2])])
        with self.assertRaises(hosting.Refused) as caught:
            self.host.put(deep)
        self.assertIn("nested more than", str(caught.exception))

    def test_a_file_without_its_external_data(self):
        case = model([node("Add", ["x", "w"], ["y"])], [tensor("x", [2])], [tensor("y", [2])], [constant("w", [1, 2])])
        weight = case.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="weights.bin")
        with self.assertRaises(hosting.Refused) as caught:
            self.host.put(case)
        self.assertIn('external data in "weights.bin": a model that is sent by itself cannot have external files', str(caught.exception))


if __name__ == "__main__":
    unittest.main()
