# SPDX-License-Identifier: MIT
"""The server of these tests, torch's values on the wire as safetensors, which keep every bit, and comparison within dtype
bounds.

$BEAMLINE_TEST_ALL=1 runs every case in every dtype on every device; otherwise the drivers run a fixed sample.
"""

import json
import os
import pathlib
import sys
import unittest
import urllib.error
import urllib.request

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
import fixture  # noqa: E402

ALL = os.environ.get("BEAMLINE_TEST_ALL", "") not in ("", "0")
DEVICES = ("interp:0", "opencl:0", "vulkan:0")
SECONDS = 240  # limit of one request, which may compile a hundred kernels

# name -> (code in safetensors, NumPy's type of the bits, torch's dtype; None if torch lacks the dtype and NumPy arrays replace
# it)
DTYPES = {
    "bool": ("BOOL", np.bool_, torch.bool),
    "int8": ("I8", np.int8, torch.int8), "int16": ("I16", np.int16, torch.int16),
    "int32": ("I32", np.int32, torch.int32), "int64": ("I64", np.int64, torch.int64),
    "uint8": ("U8", np.uint8, torch.uint8), "uint16": ("U16", np.uint16, None),
    "uint32": ("U32", np.uint32, None), "uint64": ("U64", np.uint64, None),
    "float16": ("F16", np.float16, torch.float16), "bfloat16": ("BF16", np.int16, torch.bfloat16),
    "float32": ("F32", np.float32, torch.float32), "float64": ("F64", np.float64, torch.float64),
}
BY_CODE = {code: name for name, (code, _, _) in DTYPES.items()}
FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")

# dtype -> (relative, absolute) bound of one op's result; gradients have ten times the bound
BOUNDS = {"float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 8e-3), "float32": (3e-6, 2e-6), "float64": (1e-12, 1e-12)}


def dtype_of(value):
    """Returns the wire name of a value's dtype."""
    name = str(value.dtype).replace("torch.", "")
    assert name in DTYPES, name
    return name


def encode(value):
    """Converts a torch tensor or NumPy array for fixture.safetensors."""
    name = dtype_of(value)
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        value = (value.view(torch.int16) if name == "bfloat16" else value).numpy()
    return DTYPES[name][0], list(value.shape), value.tobytes()


def decode(code, shape, raw):
    _, bits, kind = DTYPES[BY_CODE[code]]
    array = np.frombuffer(raw, bits).reshape(shape).copy()
    if kind is None:
        return array
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if kind is torch.bfloat16 else tensor


class Refused(Exception):
    """The server answered with a problem document."""

    def __init__(self, status, body):
        self.status = status
        try:
            self.problem = json.loads(body)
        except ValueError:
            self.problem = {}
        super().__init__(f"{status}: {self.problem.get('detail', body[:300])}")


class Service:
    """A server, with requests that carry torch's tensors."""

    def __init__(self, *args, env=None):
        self.server = fixture.Server("--log-level", "warn", *args, env=env)
        self.url = f"http://127.0.0.1:{self.server.port}/api/v1/"
        listed = json.loads(self.send("GET", "devices")[1])["devices"]
        self.devices = {device["id"] for device in listed}

    def stop(self):
        return self.server.stop()

    def send(self, method, path, body=None, kind="application/json", accept="application/json"):
        headers = {"accept": accept, **({"content-type": kind} if body is not None else {})}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read()) from None

    def exchange(self, method, path, document, tensors=None):
        """Sends a document and its tensors as one file.  Returns (tensors, document) of the answer."""
        body = fixture.safetensors({name: encode(value) for name, value in (tensors or {}).items()}, {"request": json.dumps(document)})
        _, answer = self.send(method, path, body, fixture.SAFETENSORS, fixture.SAFETENSORS)
        found, metadata = fixture.read_safetensors(answer)
        return {name: decode(*parts) for name, parts in found.items()}, json.loads(metadata.get("response", "{}"))

    def run(self, nodes, outputs, tensors=None, device=None, **members):
        document = {"nodes": nodes, "outputs": list(outputs), **members}
        if device is not None:
            document["device"] = device
        return self.exchange("POST", "run", document, tensors)[0]

    def put_program(self, name, document, state):
        """Puts a program with the values of its state in the file."""
        body = fixture.safetensors({key: encode(value) for key, value in state.items()}, {"request": json.dumps(document)})
        self.send("PUT", f"programs/{name}", body, fixture.SAFETENSORS)

    def step(self, name, tensors, **members):
        return self.exchange("POST", f"programs/{name}/run", members, tensors)[0]

    def state(self, name):
        _, answer = self.send("GET", f"programs/{name}/state", accept=fixture.SAFETENSORS)
        return {key: decode(*parts) for key, parts in fixture.read_safetensors(answer)[0].items()}


class ServiceTest(unittest.TestCase):
    """The tests of a class share a server, started with |args|."""

    args = ()

    @classmethod
    def setUpClass(cls):
        cls.service = Service(*cls.args)

    @classmethod
    def tearDownClass(cls):
        status = cls.service.stop()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.service.server.log_text()[-3000:])

    def close(self, name, got, want, relative=1e-5, absolute=1e-6):
        text = difference(got, want, relative, absolute)
        if text:
            self.fail(f"{name}: {text}")


class DeviceTest(ServiceTest):
    """Tests on one device, skipped with a message if the machine lacks the device."""

    device = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.device not in cls.service.devices:
            cls.service.stop()
            raise unittest.SkipTest(f"this machine has no {cls.device}")

    def run_graph(self, nodes, outputs, tensors=None, **members):
        return self.service.run(nodes, outputs, tensors, self.device, **members)


def on_each_device(base):
    """Decorator of a DeviceTest: replaces it in its module by one class per device."""
    namespace = vars(sys.modules[base.__module__])
    for device in DEVICES:
        name = base.__name__ + device.split(":")[0].capitalize()
        namespace[name] = type(name, (base,), {"device": device, "__module__": base.__module__, "__doc__": base.__doc__})


def as_array(value):
    """Converts values for comparison: floats to float64, others unchanged."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = (value.double() if value.is_floating_point() else value).numpy()
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def difference(got, want, relative, absolute):
    """Describes the difference; an empty string if there is none."""
    if dtype_of(got) != dtype_of(want):
        return f"dtype {dtype_of(got)}, torch has {dtype_of(want)}"
    if tuple(got.shape) != tuple(want.shape):
        return f"shape {list(got.shape)}, torch has {list(want.shape)}"
    mine, theirs = as_array(got), as_array(want)
    if mine.dtype.kind != "f":
        bad = mine != theirs
    else:
        with np.errstate(invalid="ignore"):
            near = np.abs(mine - theirs) <= absolute + relative * np.abs(theirs)
        bad = ~(near | (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"{int(bad.sum())} of {bad.size} elements differ, the first at {list(at)}: {mine[at]!r}, torch has {theirs[at]!r}"
            f" (allowed: {relative:g} relative, {absolute:g} absolute)")
