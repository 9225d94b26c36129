# SPDX-License-Identifier: MIT
"""Files that onnxruntime's optimisers and quantiser write for small networks, loaded unchanged and run at several sizes."""
import logging
import pathlib
import tempfile
import unittest

import hosting
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import served

onnxruntime.set_default_logger_severity(4)
logging.disable(logging.WARNING)
LEVEL = onnxruntime.GraphOptimizationLevel
node = helper.make_node
rng = np.random.default_rng(3)


class Network:
    """A graph that grows along one value."""

    def __init__(self, **shapes):
        self.inputs, self.nodes, self.weights, self.at = shapes, [], [], next(iter(shapes))

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32), name))
        return name

    def given(self, value, dtype=np.int64):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def add(self, operator, *inputs, **attributes):
        """Applies the operator to the current value, or to other values."""
        self.at = f"v{len(self.nodes)}"
        self.nodes.append(node(operator, list(inputs), [self.at], **attributes))
        return self.at

    def model(self):
        graph = helper.make_graph(self.nodes, "network", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()],
                                  [helper.make_tensor_value_info(self.at, TensorProto.FLOAT, None)], self.weights)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def pictures():
    n = Network(x=["n", 3, 16, 16])
    y = n.add("Relu", n.add("Conv", "x", n.weight(8, 3, 3, 3), n.weight(8), strides=[2, 2], pads=[1, 1, 1, 1]))
    z = n.add("LeakyRelu", n.add("Conv", y, n.weight(8, 1, 3, 3), n.weight(8), group=8, pads=[1, 1, 1, 1]), alpha=0.1)
    z = n.add("Add", z, y)
    z = n.add("Mul", z, n.add("Sigmoid", n.add("Conv", z, n.weight(8, 8, 1, 1), n.weight(8))))
    z = n.add("AveragePool", n.add("Concat", z, y, axis=1), kernel_shape=[2, 2], strides=[2, 2])
    z = n.add("Flatten", n.add("GlobalAveragePool", n.add("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2])))
    n.add("Softmax", n.add("Gemm", z, n.weight(10, 16), n.weight(10), transB=1), axis=-1)
    return n.model()


def words(heads=2, width=16):
    """Attention and a gelu layer, each with a residual connection and a normalisation."""
    n = Network(x=["n", "s", width])

    def normalised(x, y):
        return n.add("LayerNormalization", n.add("Add", x, y), n.weight(width), n.weight(width), epsilon=1e-5)

    def projected(x, out=width):
        return n.add("Add", n.add("MatMul", x, n.weight(width, out)), n.weight(out))

    def split(x, perm):
        return n.add("Transpose", n.add("Reshape", x, n.given([0, 0, heads, width // heads])), perm=perm)

    q, k, v = split(projected("x"), [0, 2, 1, 3]), split(projected("x"), [0, 2, 3, 1]), split(projected("x"), [0, 2, 1, 3])
    scores = n.add("Softmax", n.add("Div", n.add("MatMul", q, k), n.given(np.sqrt(width / heads), np.float32)), axis=-1)
    y = n.add("Reshape", n.add("Transpose", n.add("MatMul", scores, v), perm=[0, 2, 1, 3]), n.given([0, 0, width]))
    y = normalised(projected(y), "x")
    wide = projected(y, 32)
    half = n.add("Mul", wide, n.add("Add", n.add("Erf", n.add("Div", wide, n.given(np.sqrt(2), np.float32))), n.given(1, np.float32)))
    gelu = n.add("Mul", half, n.given(0.5, np.float32))
    normalised(n.add("Add", n.add("MatMul", gelu, n.weight(32, width)), n.weight(width)), y)
    return n.model()


def speech(size=6, width=5):
    n = Network(x=["s", "n", width])
    y = n.add("LSTM", "x", n.weight(2, 4 * size, width), n.weight(2, 4 * size, size), n.weight(2, 8 * size), hidden_size=size, direction="bidirectional")
    y = n.add("Reshape", n.add("Transpose", y, perm=[0, 2, 1, 3]), n.given([0, 0, 2 * size]))
    n.add("MatMul", y, n.weight(2 * size, 4))
    return n.model()


NETWORKS = {"pictures": pictures, "words": words, "speech": speech}
SIZES = ({"n": 1, "s": 4}, {"n": 2, "s": 7}, {"n": 3, "s": 13})
STEP = 1 / 256
# operators of com.microsoft that must occur in some file, since otherwise the test covers less than intended
WRITTEN = {"QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool", "QGemm", "QLinearSoftmax",
           "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "FusedConv", "SkipLayerNormalization", "BiasGelu"}


def drawn(model, sizes):
    return {each.name: rng.standard_normal([dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]).astype(np.float32) for each in model.graph.input}


class Samples(CalibrationDataReader):
    def __init__(self, model):
        self.rest = iter([drawn(model, SIZES[0]) for _ in range(3)])

    def get_next(self):
        return next(self.rest, None)


def session(model, level, path=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if path:
        options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def write(folder, name, model):
    """Writes the files of a network."""
    plain = folder / f"{name}.onnx"
    onnx.save(model, plain)
    quantize_dynamic(plain, folder / f"{name}-int8.onnx", weight_type=QuantType.QInt8, reduce_range=True)
    quantize_dynamic(plain, folder / f"{name}-uint8.onnx", weight_type=QuantType.QUInt8, reduce_range=True)
    for form in (QuantFormat.QOperator, QuantFormat.QDQ):
        if name != "speech":
            quantize_static(plain, folder / f"{name}-{form.name}.onnx", Samples(model), quant_format=form, per_channel=form == QuantFormat.QDQ, reduce_range=True,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8 if form == QuantFormat.QOperator else QuantType.QInt8)
    for file in sorted(folder.glob(f"{name}*.onnx")):
        session(file, LEVEL.ORT_ENABLE_EXTENDED, file.with_suffix(".extended.onnx"))


class Written(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def compare(self, host, file):
        model = onnx.load(file)
        program = host.put(model)
        reference = session(file, LEVEL.ORT_DISABLE_ALL)
        for sizes in SIZES:
            with self.subTest(file.name, **sizes):
                arrays = drawn(model, sizes)
                wanted, = reference.run(None, arrays)
                got, = host.run(program, [arrays[name] for name in program["entries"]["main"]["inputs"]])
                self.assertEqual(wanted.shape, got.shape)
                off = np.abs(got - wanted) / np.abs(wanted).max()
                if "QDQ" in file.name or "QOperator" in file.name:  # a half that is rounded differently changes an 8-bit result by one step, and later results too
                    self.assertLess(off.mean(), STEP)
                    self.assertLess(off.max(), 8 * STEP)
                else:
                    self.assertLess(off.max(), 1e-4)

    def test_every_file(self):
        host = hosting.Host(self.server.port)
        self.addCleanup(host.close)
        with tempfile.TemporaryDirectory() as folder:
            for name, make in NETWORKS.items():
                write(pathlib.Path(folder), name, make())
            files = sorted(pathlib.Path(folder).glob("*.onnx"))
            found = {each.op_type for file in files for each in onnx.load(file).graph.node if each.domain == "com.microsoft"}
            self.assertEqual(set(), WRITTEN - found)
            for file in files:
                self.compare(host, file)


if __name__ == "__main__":
    unittest.main()
