# SPDX-License-Identifier: MIT
"""Random nodes on the server and in onnxruntime: com.microsoft's operators, which have no official cases, and operators with
many modes."""
import os
import unittest

import hosting
import numpy as np
import onnx
import onnxruntime
import random_nodes
from onnx import helper, numpy_helper

import served

MORE = int(os.environ.get("BEAMLINE_ONNX_DRAWS", "1"))  # factor of the number of nodes
ONE_STEP = 0.02  # share of a quantised result that may be off by one step, due to the rounding of halves

onnxruntime.set_default_logger_severity(4)


def build(node):
    """Returns the model, and {name: array} of the inputs that are not initialisers."""
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(node.inputs)]
    outputs = node.outputs if isinstance(node.outputs, tuple) else (True,) * node.outputs
    results = [f"o{place}" if wanted else "" for place, wanted in enumerate(outputs)]
    arrays = {name: np.asarray(array) for name, array in zip(names, node.inputs, strict=True) if name}
    made = helper.make_node(node.operator, names, results, domain=node.domain, **node.attributes)
    kept = {name: array for place, name in enumerate(names) if name and place not in node.known for array in [arrays[name]]}
    graph = helper.make_graph([made], "drawn",
                              [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in kept.items()],
                              [onnx.ValueInfoProto(name=name) for name in results if name],
                              [numpy_helper.from_array(arrays[names[place]], names[place]) for place in node.known if names[place]])
    opsets = [helper.make_opsetid("", node.opset)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), kept


def expect(model, arrays):
    """Returns onnxruntime's results."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with more threads, each part of a batch is quantised by its own range
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


def differs(node, got, wanted):
    """Returns the error of an output, or None."""
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind == "f":
        most = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-6)
        off = np.abs(got - wanted) > node.tolerance * most
        off &= ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))
        return f"{got[off][:4]}, not {wanted[off][:4]}" if off.any() else None
    apart = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
    steps = 0 if node.exact else 1
    if apart.max(initial=0) > steps or np.count_nonzero(apart) > max(1, ONE_STEP * apart.size) * steps:
        return f"{got[apart > 0][:6]}, not {wanted[apart > 0][:6]}"
    return None


class Runtime(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def compare(self, host, name, seed):
        """Returns the error of a node, or None."""
        node = random_nodes.make(name, seed)
        model, arrays = build(node)
        wanted = expect(model, arrays)
        got = host.run(host.put(model), list(arrays.values()))
        return next(filter(None, (differs(node, *pair) for pair in zip(got, wanted, strict=True))), None)

    def test_a_step_of_generation(self):
        """The past grows by new keys; key counts come from a mask of a named length, as exporters of language models write
        it."""
        node, size = helper.make_node, 16
        nodes = [node("ReduceSum", ["mask", "one"], ["sum"], keepdims=0), node("Sub", ["sum", "unit"], ["last"]), node("Cast", ["last"], ["seqlens"], to=onnx.TensorProto.INT32),
                 node("Shape", ["mask"], ["shape"]), node("Gather", ["shape", "unit"], ["length"]), node("Cast", ["length"], ["total"], to=onnx.TensorProto.INT32),
                 node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "seqlens", "total", "cos", "sin"], ["y", "present_k", "present_v"], domain=random_nodes.MS,
                      num_heads=4, kv_num_heads=2, do_rotary=1)]
        angle = np.linspace(0, 3, 64 * size // 2, dtype=np.float32).reshape(64, size // 2)
        inputs = {"mask": ["b", "total"], "q": ["b", "s", 4 * size], "k": ["b", "s", 2 * size], "v": ["b", "s", 2 * size], "past_k": ["b", 2, "past", size], "past_v": ["b", 2, "past", size]}
        graph = helper.make_graph(nodes, "step", [helper.make_tensor_value_info(name, onnx.TensorProto.INT64 if name == "mask" else onnx.TensorProto.FLOAT, shape)
                                                  for name, shape in inputs.items()], [onnx.ValueInfoProto(name=name) for name in ("y", "present_k", "present_v")],
                                  [numpy_helper.from_array(np.array(value), name) for name, value in (("one", [1]), ("unit", 1))]
                                  + [numpy_helper.from_array(array, name) for name, array in (("cos", np.cos(angle)), ("sin", np.sin(angle)))])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(random_nodes.MS, 1)], ir_version=10)
        host, r = hosting.Host(self.server.port), random_nodes.Random("step", 0)
        self.addCleanup(host.close)
        program = host.put(model, "?dims=past:0-64,s:1-16,total:1-64,b:1-4")
        for batch, rows, past in ((1, 7, 0), (2, 1, 7), (1, 3, 4)):
            with self.subTest(batch=batch, rows=rows, past=past):
                arrays = {"mask": np.ones((batch, rows + past), np.int64), "q": r.floats(batch, rows, 4 * size), "k": r.floats(batch, rows, 2 * size),
                          "v": r.floats(batch, rows, 2 * size), "past_k": r.floats(batch, 2, past, size), "past_v": r.floats(batch, 2, past, size)}
                for got, wanted in zip(host.run(program, [arrays[name] for name in program["entries"]["main"]["inputs"]]), expect(model, arrays), strict=True):
                    self.assertIsNone(differs(random_nodes.Drawn([]), got, wanted))

    def test_like_onnxruntime(self):
        host = hosting.Host(self.server.port)
        self.addCleanup(host.close)
        for name, (count, _, _) in random_nodes.DRAWS.items():
            for seed in range(count * MORE):
                with self.subTest(name, seed=seed):
                    self.assertIsNone(self.compare(host, name, seed))


if __name__ == "__main__":
    unittest.main()
