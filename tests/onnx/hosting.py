# SPDX-License-Identifier: MIT
"""ONNX models through a server: upload as a program, run, and outputs as arrays."""
import base64
import http.client
import json

import packages

packages.install()

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

NARROW = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
NAMES = {np.dtype(dtype): name for name, dtype in NARROW.items()}
# The numpy dtype that stores each element type without a wire dtype; see docs/onnx.md.
WIDER = {"int2": np.int8, "uint2": np.uint8, "int4": np.int8, "uint4": np.uint8, "float4_e2m1fn": np.float16, "float8_e4m3fnuz": np.float16,
         "float8_e5m2fnuz": np.float16, "float8_e8m0fnu": np.float32}


class Refused(Exception):
    """The server answered with a problem document."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", str(problem)))
        self.problem = problem


class Host:
    """A connection to a server."""

    def __init__(self, port, name="model"):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.name = name

    def close(self):
        self.connection.close()

    def call(self, method, path, body, kind):
        self.connection.request(method, path, body, {"content-type": kind})
        reply = self.connection.getresponse()
        document = json.loads(reply.read() or b"{}")
        if reply.status >= 300:
            raise Refused(document)
        return document

    def put(self, model, query=""):
        """Returns the program's description; ``model`` is a ModelProto or bytes."""
        data = model if isinstance(model, bytes) else model.SerializeToString()
        return self.call("PUT", f"/api/v1/programs/{self.name}{query}", data, "application/x-onnx")

    def run(self, program, arrays):
        """Runs the program with inputs in its order.  Returns the outputs in its order."""
        entry = program["entries"]["main"]
        inputs = {name: as_value(array) for name, array in zip(entry["inputs"], arrays, strict=True)}
        reply = self.call("POST", f"/api/v1/programs/{self.name}/run", json.dumps({"inputs": inputs}).encode(), "application/json")
        return [as_array(reply["outputs"][name]) for name in entry["outputs"]]

    def ask(self, model, arrays, **config):
        """Returns the outputs of a hosted model, for models with strings, which programs do not support."""
        graph = model.graph
        parameters = {"config": json.dumps(config), "file:1/model.onnx": base64.b64encode(model.SerializeToString()).decode()}
        self.call("POST", f"/v2/repository/models/{self.name}/load", json.dumps({"parameters": parameters}), "application/json")
        inputs = [as_infer_input(each.name, array) for each, array in zip(graph.input, arrays, strict=True)]
        reply = self.call("POST", f"/v2/models/{self.name}/infer", json.dumps({"inputs": inputs}), "application/json")
        self.call("POST", f"/v2/repository/models/{self.name}/unload", "{}", "application/json")
        named = {each["name"]: from_infer_output(each) for each in reply["outputs"]}
        return [named[each.name] for each in graph.output]


def has_strings(model):
    return any(each.type.tensor_type.elem_type == onnx.TensorProto.STRING for each in [*model.graph.input, *model.graph.output])


INFER = {"float16": "FP16", "float32": "FP32", "float64": "FP64", "bool": "BOOL", **{f"{u}int{bits}": f"{u.upper()}INT{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}}


def as_infer_input(name, array):
    data = ["NaN" if value != value else value for value in array.ravel().tolist()]
    return {"name": name, "shape": list(array.shape), "datatype": INFER.get(array.dtype.name, "BYTES"), "data": data}


def from_infer_output(output):
    dtype = next((name for name, datatype in INFER.items() if datatype == output["datatype"]), object)
    data = [float(value) for value in output["data"]] if output["datatype"].startswith("FP") else output["data"]
    return np.array(data, dtype).reshape(output["shape"])


def to_numpy(value):
    """Converts to an array; some cases have a TensorProto instead of an array."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def as_value(array):
    array = array.astype(WIDER.get(array.dtype.name, array.dtype))
    name = NAMES.get(array.dtype, array.dtype.name)
    return {"dtype": name, "shape": list(array.shape), "base64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def as_array(value):
    dtype = np.dtype(NARROW.get(value["dtype"], value["dtype"]))
    data = value["data"]
    if any(isinstance(one, str) for one in data):
        data = [float(one) for one in data]
    return np.array(data, dtype=dtype).reshape(value["shape"])


def put_and_run(host, model, arrays):
    """Puts and runs a model.  Returns its outputs."""
    arrays = [to_numpy(array) for array in arrays]
    return host.ask(model, arrays) if has_strings(model) else host.run(host.put(model), arrays)
