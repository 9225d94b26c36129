# SPDX-License-Identifier: MIT
"""Named dimensions of ONNX models: default ranges, configured ranges, and results at several sizes.

The reference is the onnx package's own evaluator.
"""
import base64
import json
import unittest

import hosting
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import served

node = helper.make_node
rng = np.random.default_rng(19)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name, *shape):
    return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype("f4"), name)


def ints(name, value):
    return numpy_helper.from_array(np.array(value, "i8"), name)


def model(nodes, inputs, initialisers, output="y"):
    graph = helper.make_graph(nodes, "dims", inputs, [helper.make_empty_tensor_value_info(output)], initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pyramid(*shape):
    """Two halvings, then upsampling by copies: the levels have equal sizes if both sides are multiples of four."""
    nodes = [node("Conv", ["x", "a"], ["p"], strides=[2, 2], pads=[1, 1, 1, 1]), node("Conv", ["p", "b"], ["q"], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("Resize", ["q", "", "scales"], ["r"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
             node("Concat", ["p", "r"], ["y"], axis=1)]
    return model(nodes, [tensor("x", shape)], [weights("a", 2, 3, 3, 3), weights("b", 2, 2, 3, 3), numpy_helper.from_array(np.array([1, 1, 2, 2], "f4"), "scales")])


def windows():
    nodes = [node("Conv", ["x", "a"], ["p"]), node("MaxPool", ["p"], ["q"], kernel_shape=[2, 2], strides=[2, 2]), node("Conv", ["q", "b"], ["y"])]
    return model(nodes, [tensor("x", ["n", 1, "h", "w"])], [weights("a", 2, 1, 5, 5), weights("b", 2, 2, 5, 5)])


def rows_of_text():
    """The height must leave exactly one row, which the model's file does not say."""
    nodes = [node("Conv", ["x", "a"], ["p"], strides=[4, 2], pads=[1, 1, 1, 1]), node("MaxPool", ["p"], ["q"], kernel_shape=[12, 1], strides=[12, 1]),
             node("Squeeze", ["q", "two"], ["y"])]
    return model(nodes, [tensor("x", ["?", 3, "?", "?"])], [weights("a", 2, 3, 3, 3), ints("two", [2])])


def signal():
    nodes = [node("Unsqueeze", ["x", "one"], ["u"]), node("Pad", ["u", "pads"], ["p"], mode="reflect"), node("Conv", ["p", "a"], ["y"], strides=[160])]
    return model(nodes, [tensor("x", ["batch", "samples"])], [ints("one", [1]), ints("pads", [0, 0, 200, 0, 0, 200]), weights("a", 2, 1, 400)])


def heads():
    """Rows of a convolution of a named length, split into heads: a quotient in which two named sizes cancel."""
    nodes = [node("Unsqueeze", ["x", "one"], ["u"]), node("Conv", ["u", "a"], ["p"], strides=[320]), node("Transpose", ["p"], ["q"], perm=[0, 2, 1]),
             node("Reshape", ["q", "heads"], ["y"])]
    return model(nodes, [tensor("x", ["b", "t"])], [ints("one", [1]), weights("a", 8, 1, 400), ints("heads", [0, 0, -1, 2])])


def embedding(ids, mask, positions=512):
    nodes = [node("Gather", ["words", "ids"], ["e"]), node("Shape", ["ids"], ["s"]), node("Slice", ["s", "one", "two"], ["length"]),
             node("Slice", ["positions", "zero", "length"], ["p"]), node("Add", ["e", "p"], ["x"]), node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
             node("Unsqueeze", ["m", "two"], ["u"]), node("Mul", ["x", "u"], ["y"])]
    return model(nodes, [tensor("ids", ids, TensorProto.INT64), tensor("mask", mask, TensorProto.INT64)],
                 [weights("words", 50, 4), weights("positions", positions, 4), ints("zero", [0]), ints("one", [1]), ints("two", [2])])


def pixels(*shapes):
    return [{"x": rng.normal(size=shape).astype("f4")} for shape in shapes]


def texts(*shapes):
    return [{"ids": rng.integers(0, 50, shape), "mask": rng.integers(0, 2, shape)} for shape in shapes]


STEPS = {"n": [1, 64], "h": [4, 1280, 4], "w": [4, 1280, 4]}
# Results of the search without a configuration: the model, its ranges, its inputs, and refused sizes with parts of the error.
FOUND = {
    "a feature pyramid": (pyramid("n", 3, "h", "w"), STEPS, pixels((1, 3, 4, 4), (2, 3, 8, 20), (1, 3, 64, 40)),
                          [((1, 3, 6, 8), "h is 6; model \"m\" takes 4 to 1280 in steps of 4; \"dims\" in its config.json"),
                           ((65, 3, 4, 4), "n is 65; model \"m\" takes 1 to 64; \"max_batch_size\" in its config.json")]),
    "sides without names": (pyramid("?", 3, "?", "?"), {"x.0": [1, 64], "x.2": [4, 1280, 4], "x.3": [4, 1280, 4]}, pixels((1, 3, 4, 8), (2, 3, 12, 4), (1, 3, 24, 28)), []),
    "nothing but a rank": (pyramid(None, None, None, None), {"x.0": [1, 64], "x.1": [3, 3], "x.2": [4, 1280, 4], "x.3": [4, 1280, 4]}, pixels((1, 3, 4, 8)), []),
    "larger than the windows": (windows(), {"n": [1, 64], "h": [14, 1280], "w": [14, 1280]}, pixels((1, 1, 14, 14), (2, 1, 21, 15), (1, 1, 50, 37)),
                                [((1, 1, 13, 20), "h is 13; model \"m\" takes 14 to 1280")]),
    "a height that is found": (rows_of_text(), {"x.0": [1, 64], "x.2": [45, 92], "x.3": [1, 1280]}, pixels((1, 3, 48, 1), (2, 3, 45, 33), (1, 3, 92, 100)), []),
    "a signal": (signal(), {"batch": [1, 64], "samples": [201, 480000]}, pixels((1, 201), (2, 1000), (1, 16000)), [((1, 200), "takes 201 to 480000")]),
    "heads over a signal": (heads(), {"b": [1, 64], "t": [400, 480000]}, pixels((1, 400), (2, 1000), (3, 2000)), []),
    "a text": (embedding(["b", "s"], ["b", "s"]), {"b": [1, 64], "s": [1, 512]}, texts((1, 1), (2, 77), (1, 512)), []),
    "two inputs of unnamed sizes": (embedding(["?", "?"], ["?", "?"]), {"ids.0": [1, 64], "ids.1": [1, 512]}, texts((1, 1), (2, 77), (1, 512)), []),
    "as many positions as there are": (embedding(["b", "s"], ["b", "s"], 77), {"b": [1, 64], "s": [1, 77]}, texts((1, 1), (2, 40), (1, 77)), []),
}
# The model, its "dims" in the configuration, and the resulting ranges, or parts of the error.
SAID = {
    "ranges": (pyramid("n", 3, "h", "w"), {"h": [32, 64, 32], "w": [1, 100, 8], "n": 2}, {"n": [2, 2], "h": [32, 64, 32], "w": [8, 96, 8]}),
    "a name without letters": (pyramid("?", 3, "?", "?"), {"?": 48}, "\"x.0\", \"x.2\", \"x.3\""),
    "a name that is not there": (windows(), {"height": [1, 9]}, "\"height\" is not a dimension of this model; its named dimensions are \"n\", \"h\", \"w\""),
    "no named dimension": (windows() and pyramid(1, 3, 8, 8), {"h": 8}, "all inputs have fixed sizes"),
    "another one": (embedding(["?", "?"], ["?", "?"]), {"mask.0": "ids.0", "mask.1": "ids.1", "ids.1": [1, 9]}, {"ids.0": [1, 64], "ids.1": [1, 9]}),
    "too small": (windows(), {"h": [1, 64]}, "\"dims\" says \"h\" 1 to 64, which may be too wide"),
    "no size": (windows(), {"h": [1, 20, 32]}, "the range 1 to 20 contains no multiple of 32"),
}


class Dims(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def call(self, method, path, body=None):
        self.host.connection.request(method, path, body, {})
        reply = self.host.connection.getresponse()
        return reply.status, json.loads(reply.read() or b"{}")

    def load(self, case, **config):
        parameters = {"config": json.dumps(config), "file:1/model.onnx": base64.b64encode(case.SerializeToString()).decode()}
        return self.call("POST", "/v2/repository/models/m/load", json.dumps({"parameters": parameters}))

    def infer(self, feeds):
        kinds = {"float32": "FP32", "int64": "INT64"}
        inputs = [{"name": name, "shape": list(each.shape), "datatype": kinds[str(each.dtype)], "data": each.ravel().tolist()} for name, each in feeds.items()]
        return self.call("POST", "/v2/models/m/infer", json.dumps({"inputs": inputs}))

    def check(self, case, feeds):
        status, document = self.infer(feeds)
        self.assertEqual(200, status, document)
        wanted, = ReferenceEvaluator(case).run(None, feeds)
        got, = document["outputs"]
        self.assertEqual(list(wanted.shape), got["shape"])
        np.testing.assert_allclose(np.array(got["data"], "f4").reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)

    def test_found(self):
        for what, (case, ranges, asked, refused) in FOUND.items():
            with self.subTest(what):
                self.assertEqual((200, {}), self.load(case))
                for path in ("/v2/models/m", "/v2/models/m/config"):
                    self.assertEqual(ranges, self.call("GET", path)[1]["dims"])
                for feeds in asked:
                    self.check(case, feeds)
                for shape, words in refused:
                    status, document = self.infer(pixels(shape)[0])
                    self.assertEqual(400, status)
                    self.assertIn(words, document["error"])

    def test_first_axes_that_are_no_batch(self):
        """First axes whose names show that they are no batch: the time of a recurrent network, and nodes and edges of
        graphs."""
        for name, kind, most in (("seq_len", TensorProto.FLOAT, 4096), ("Time", TensorProto.INT64, 512), ("num_edges", TensorProto.FLOAT, 4096), ("n", TensorProto.FLOAT, 64)):
            with self.subTest(name):
                case = model([node("Abs", ["x"], ["y"])], [tensor("x", [name, 4], kind)], [])
                self.assertEqual((200, {}), self.load(case))
                self.assertEqual({name: [1, most]}, self.call("GET", "/v2/models/m/config")[1]["dims"])

    def test_said(self):
        for what, (case, dims, wanted) in SAID.items():
            with self.subTest(what):
                status, document = self.load(case, dims=dims)
                if isinstance(wanted, str):
                    self.assertNotEqual(200, status)
                    self.assertIn(wanted, document["error"])
                else:
                    self.assertEqual((200, {}), (status, document))
                    self.assertEqual(wanted, self.call("GET", "/v2/models/m/config")[1]["dims"])

    def test_names_in_the_metadata(self):
        self.load(pyramid("n", 3, "h", "w"))
        self.assertEqual(["n", 3, "h", "w"], self.call("GET", "/v2/models/m")[1]["inputs"][0]["dims"])

    def test_a_program(self):
        case = pyramid("n", 3, "h", "w")
        program = self.host.put(case, "?dims=h:8-64:8,w:12")
        self.assertEqual({"n": [1, 64], "h": [8, 64, 8], "w": [12, 12]}, program["entries"]["main"]["dims"])
        for shape in ((1, 3, 8, 12), (2, 3, 24, 12)):
            feeds, = pixels(shape)
            got, = self.host.run(program, list(feeds.values()))
            np.testing.assert_allclose(got, ReferenceEvaluator(case).run(None, feeds)[0], rtol=1e-4, atol=1e-5)
        with self.assertRaises(hosting.Refused) as caught:
            self.host.run(program, list(pixels((1, 3, 12, 12))[0].values()))
        self.assertIn("8 to 64 in steps of 8", str(caught.exception))


class Narrowed(Dims):
    """A device that does not support the largest sizes: lavapipe ends loops after 65,535 iterations."""
    options = ("--backends", "vulkan", "--device", "vulkan:0", "--log-level", "error")

    def test_a_device_with_less(self):
        case = windows()
        self.assertEqual((200, {}), self.load(case))
        self.assertEqual([14, 14], [self.call("GET", "/v2/models/m")[1]["dims"][name][0] for name in ("h", "w")])
        for feeds in pixels((1, 1, 14, 20), (1, 1, 60, 41)):
            self.check(case, feeds)

    test_found = test_said = test_names_in_the_metadata = test_a_program = None


if __name__ == "__main__":
    unittest.main()
