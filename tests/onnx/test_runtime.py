# SPDX-License-Identifier: MIT
"""Random nodes on the server and in onnxruntime: operators of com.microsoft, which have no official cases, and those of many modes."""
import os
import unittest

import hosting
import numpy as np
import onnx
import onnxruntime
import random_nodes
from onnx import helper, numpy_helper

import served

MORE = int(os.environ.get("BEAMLINE_ONNX_DRAWS", "1"))  # times as many nodes
ONE_STEP = 0.02  # of the elements of a quantised result may be one step off, where a half is rounded

onnxruntime.set_default_logger_severity(4)


def build(node):
    """The model, and {name: array} of the inputs that stay inputs."""
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
    """What onnxruntime makes of it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with more, each part of a batch is quantised by a range of its own
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


def differs(node, got, wanted):
    """What is wrong with an output, or None."""
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
        """What is wrong with one node, or None."""
        node = random_nodes.make(name, seed)
        model, arrays = build(node)
        wanted = expect(model, arrays)
        got = host.run(host.put(model), list(arrays.values()))
        return next(filter(None, (differs(node, *pair) for pair in zip(got, wanted, strict=True))), None)

    def test_like_onnxruntime(self):
        host = hosting.Host(self.server.port)
        self.addCleanup(host.close)
        for name, (count, _, _) in random_nodes.DRAWS.items():
            for seed in range(count * MORE):
                with self.subTest(name, seed=seed):
                    self.assertIsNone(self.compare(host, name, seed))


if __name__ == "__main__":
    unittest.main()
