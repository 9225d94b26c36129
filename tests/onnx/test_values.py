# SPDX-License-Identifier: MIT
"""Models in which elements of an input decide shapes: the server compiles a program per value, for programs and for hosted
models."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import hosting
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import served

F, L, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, tensor = helper.make_node, helper.make_tensor_value_info
KEPT = 16  # BL_MOST_VARIANTS


def model(nodes, inputs, outputs, constants=(), opset=18):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def reshaped():
    """Reshapes x of [batch, 6] to the shape in an input, times a weight of 768 KiB."""
    return model([node("MatMul", ["x", "w"], ["y"]), node("Reshape", ["y", "shape"], ["z"])],
                 [tensor("x", F, ["batch", 6]), tensor("shape", L, ["rank"])], [tensor("z", F, None)], [("w", WEIGHT)])


def sliced_after():
    """Two inputs decide shapes; the need for the second is known only after the first."""
    return model([node("Reshape", ["x", "shape"], ["y"]), node("Slice", ["y", "starts", "ends"], ["z"]), node("Mul", ["z", "by"], ["o"])],
                 [tensor("x", F, [12]), tensor("shape", L, [2]), tensor("starts", L, [2]), tensor("ends", L, [2]), tensor("by", F, [1])],
                 [tensor("o", F, [None, None])])


def branches():
    """Only one branch is valid for this shape."""
    then = helper.make_graph([node("Reshape", ["x", "flat"], ["t"])], "then", [], [tensor("t", F, None)], [numpy_helper.from_array(np.array([6]), "flat")])
    other = helper.make_graph([node("Reshape", ["x", "odd"], ["o"])], "other", [], [tensor("o", F, None)], [numpy_helper.from_array(np.array([5]), "odd")])
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], [tensor("x", F, [2, 3]), tensor("c", B, [])], [tensor("y", F, [6])])


WEIGHT = np.arange(6 * 32768, dtype=np.float32).reshape(6, 32768) % 7 - 3
X = np.arange(12, dtype=np.float32).reshape(2, 6) / 4
WANTED = X @ WEIGHT


class Served(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port, "byvalue")
        self.addCleanup(self.host.close)

    def run_it(self, inputs, **more):
        document = {"inputs": {name: hosting.as_value(np.asarray(value)) if not isinstance(value, dict) else value for name, value in inputs.items()}, **more}
        return self.host.call("POST", "/api/v1/programs/byvalue/run", json.dumps(document).encode(), "application/json")

    def get(self, path="/api/v1/programs/byvalue"):
        return self.host.call("GET", path, None, "application/json")

    def refused(self, status, pattern, function, *args, **named):
        with self.assertRaisesRegex(hosting.Refused, pattern) as caught:
            function(*args, **named)
        self.assertEqual(status, caught.exception.problem["status"])


class Programs(Served):
    def test_each_value_is_compiled_once(self):
        entry = self.host.put(reshaped())["entries"]["main"]
        self.assertEqual((["shape"], ["x", "shape"], 0), (entry["by_value"], list(entry["inputs"]), entry["variants"]))
        self.assertEqual({"batch": [1, 64], "rank": [1, 64]}, entry["dims"])
        for shape, cached in (([2, 32768], False), ([4, 16384], False), ([2, 32768], True), ([-1], False), ([4, 16384], True)):
            reply = self.run_it({"x": X, "shape": np.array(shape)})
            np.testing.assert_allclose(hosting.as_array(reply["outputs"]["z"]), WANTED.reshape(shape), rtol=1e-6)
            self.assertEqual("cached" if cached else "compiled", reply["stats"]["plan"], shape)
        self.assertEqual((3, 5), (self.get()["entries"]["main"]["variants"], self.get()["steps"]))

    def test_other_inputs_keep_their_named_dimensions(self):
        self.host.put(reshaped(), "?dims=batch:1-8")
        for rows in (1, 2, 8):
            x = np.resize(X, (rows, 6))
            reply = self.run_it({"x": x, "shape": np.array([-1, 16384])})
            self.assertEqual([2 * rows, 16384], reply["outputs"]["z"]["shape"])
            self.assertEqual("cached" if rows > 1 else "compiled", reply["stats"]["plan"])
        self.refused(422, "batch.*9.*range 1 to 8", self.run_it, {"x": np.resize(X, (9, 6)), "shape": np.array([-1])})

    def test_a_value_may_fit_one_size_of_a_named_dimension_alone(self):
        self.host.put(reshaped())
        for rows, shape, plan in ((2, [4, 16384], "compiled"), (4, [8, 16384], "compiled"), (2, [4, 16384], "cached")):
            reply = self.run_it({"x": np.resize(X, (rows, 6)), "shape": np.array(shape)})
            self.assertEqual((shape, plan), (reply["outputs"]["z"]["shape"], reply["stats"]["plan"]))
        self.refused(422, r"\[4, 32768\] and \[4, 16384\] have different numbers of elements", self.run_it, {"x": np.resize(X, (4, 6)), "shape": np.array([4, 16384])})

    def test_a_value_that_is_wanted_later_is_found_by_a_run(self):
        described = self.host.put(sliced_after())["entries"]["main"]
        self.assertEqual(["shape"], described["by_value"])
        x = np.arange(12, dtype=np.float32)
        for shape, starts, ends, by in (([3, 4], [0, 1], [2, 3], 2), ([4, 3], [1, 0], [4, 2], 2), ([3, 4], [0, 1], [2, 3], 5)):
            reply = self.run_it({"x": x, "shape": np.array(shape), "starts": np.array(starts), "ends": np.array(ends), "by": np.array([by], np.float32)})
            wanted = by * x.reshape(shape)[starts[0]:ends[0], starts[1]:ends[1]]
            np.testing.assert_array_equal(hosting.as_array(reply["outputs"]["o"]), wanted)
        self.assertEqual("cached", reply["stats"]["plan"])
        entry = self.get()["entries"]["main"]
        self.assertEqual((["shape", "starts", "ends"], 2), (entry["by_value"], entry["variants"]))

    def test_a_branch_that_cannot_be_is_left_out_where_the_condition_says_so(self):
        self.assertEqual(["c"], self.host.put(branches())["entries"]["main"]["by_value"])
        reply = self.run_it({"x": X[:, :3], "c": np.array(True)})
        np.testing.assert_array_equal(hosting.as_array(reply["outputs"]["y"]), X[:, :3].reshape(6))
        self.refused(422, r'node "o" \(Reshape\)', self.run_it, {"x": X[:, :3], "c": np.array(False)})

    def test_the_last_variants_are_kept(self):
        self.host.put(model([node("Expand", ["x", "shape"], ["y"])], [tensor("x", F, [1]), tensor("shape", L, [1])], [tensor("y", F, [None])]))

        def cached(size):
            reply = self.run_it({"x": np.ones(1, np.float32), "shape": np.array([size])})
            self.assertEqual([size], reply["outputs"]["y"]["shape"])
            return reply["stats"]["plan"] == "cached"

        self.assertEqual([False] * KEPT, [cached(size) for size in range(1, KEPT + 1)])
        self.assertTrue(cached(1))         # so that 2 is the least recently used
        self.assertFalse(cached(KEPT + 1))
        self.assertEqual(KEPT, self.get()["entries"]["main"]["variants"])
        self.assertTrue(cached(1))
        self.assertFalse(cached(2))

    def test_weights_are_held_once(self):
        def held():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("beamline_held_bytes "))

        self.host.put(model([node("Neg", ["x"], ["y"])], [tensor("x", F, [1])], [tensor("y", F, [1])]))  # replaces the model of another test
        before = held()
        self.assertEqual({"w": {"dtype": "float32", "shape": [6, 32768]}}, {k: v for k, v in self.host.put(reshaped())["state"].items()})
        after = held()
        self.assertLess(WEIGHT.nbytes, after - before)
        self.assertGreater(1.1 * WEIGHT.nbytes + 4096, after - before)
        for shape in ([2, 32768], [4, 16384], [8, 8192], [-1]):
            self.run_it({"x": X, "shape": np.array(shape)})
        self.assertGreater(4096, held() - after)
        state = self.get("/api/v1/programs/byvalue/state")
        np.testing.assert_array_equal(hosting.as_array(state["state"]["w"]), WEIGHT)
        self.host.put(model([node("Neg", ["x"], ["y"])], [tensor("x", F, [1])], [tensor("y", F, [1])]))
        self.assertEqual(before, held())

    def test_values_that_cannot_be_are_told(self):
        self.host.put(reshaped())
        self.refused(422, r'node "z" \(Reshape\).*-7', self.run_it, {"x": X, "shape": np.array([-7, 3])})
        self.refused(422, r'node "z" \(Reshape\)', self.run_it, {"x": X, "shape": np.array([5])})
        self.refused(422, r'node "z" \(Reshape\)', self.run_it, {"x": X, "shape": np.array([2**62, 2**62])})
        self.refused(422, r'node "z" \(Reshape\)', self.run_it, {"x": X, "shape": np.array([1] * 40)})
        self.refused(422, "shape.*int64", self.run_it, {"x": X, "shape": np.array([2.0, 32768.0])})
        self.refused(422, "shape.*rank", self.run_it, {"x": X, "shape": np.array([[2, 32768]])})
        self.assertEqual(0, self.get()["entries"]["main"]["variants"])
        self.host.put(model([node("Tile", ["x", "n"], ["y"]), node("Range", ["a", "b", "c"], ["z"])],
                            [tensor("x", F, [1]), tensor("n", L, [1]), *(tensor(name, L, []) for name in "abc")], [tensor("y", F, [None]), tensor("z", L, [None])]))
        good = {"x": np.ones(1, np.float32), "n": np.array([3]), "a": np.array(1), "b": np.array(9), "c": np.array(2)}
        self.assertEqual([1, 3, 5, 7], self.run_it(good)["outputs"]["z"]["data"])
        for name, value in (("n", [2**60]), ("n", [-1]), ("b", 2**62), ("c", 0)):
            with self.assertRaises(hosting.Refused) as caught:
                self.run_it({**good, name: np.array(value)})
            self.assertIn(caught.exception.problem["status"], (413, 422), caught.exception)
        self.assertEqual([3], self.run_it(good)["outputs"]["y"]["shape"])

    def test_large_values_are_refused(self):
        taken = model([node("Reshape", ["x", "shape"], ["y"])], [tensor("x", F, [1]), tensor("shape", L, [2000])], [tensor("y", F, None)])
        self.refused(422, r'node "y" \(Reshape\): input 1 must be known.*depends on the elements of the model\'s input "shape"', self.host.put, taken)
        taken = model([node("Reshape", ["x", "shape"], ["y"])], [tensor("x", F, [1]), tensor("shape", L, ["n"])], [tensor("y", F, None)])
        self.host.put(taken, "?dims=n:1-4000")
        self.assertEqual([1, 1], self.run_it({"x": np.ones(1, np.float32), "shape": np.array([1, 1])})["outputs"]["y"]["shape"])
        self.refused(422, 'input "shape" has 2000 elements.*at most 1024', self.run_it, {"x": np.ones(1, np.float32), "shape": np.ones(2000, np.int64)})

    def test_an_operator_that_is_missing_is_told_at_once(self):
        nodes = [node("Reshape", ["x", "shape"], ["y"]), node("Strange", ["y"], ["z"])]
        broken = model(nodes, [tensor("x", F, [6]), tensor("shape", L, [2])], [tensor("z", F, None)])
        self.refused(422, 'node "z".*the operator "Strange"', self.host.put, broken)

    def test_what_needs_one_graph_is_refused(self):
        self.host.put(reshaped())
        why = 'compiled for each value of its input "shape"'
        inputs = {"x": X, "shape": np.array([-1])}
        self.refused(422, why, self.run_it, inputs, seq=1)
        self.refused(422, why, self.host.call, "POST", "/api/v1/jobs", json.dumps({"program": "byvalue", "steps": 1, "inputs": {}}), "application/json")
        self.refused(422, why, self.host.call, "POST", "/api/v1/programs/byvalue/promote", json.dumps({"model": "m", "version": 1}), "application/json")
        self.refused(422, why, self.host.call, "PUT", "/api/v1/programs/byvalue/state", json.dumps({"state": {}}), "application/json")

    def test_values_that_are_held_here(self):
        self.host.put(reshaped())
        self.host.call("PUT", "/api/v1/tensors/wide", json.dumps({"dtype": "int64", "shape": [2], "data": [4, 16384]}), "application/json")
        reply = self.run_it({"x": X, "shape": {"tensor": "wide"}})
        np.testing.assert_allclose(hosting.as_array(reply["outputs"]["z"]), WANTED.reshape(4, 16384), rtol=1e-6)
        self.assertEqual("cached", self.run_it({"x": X, "shape": np.array([4, 16384])})["stats"]["plan"])

    def test_many_at_once(self):
        self.host.put(reshaped())

        def one(number):
            host = hosting.Host(self.server.port, "byvalue")
            shape = [[2, 32768], [4, 16384], [8, 8192]][number % 3]
            document = {"inputs": {"x": hosting.as_value(X), "shape": hosting.as_value(np.array(shape))}}
            reply = host.call("POST", "/api/v1/programs/byvalue/run", json.dumps(document).encode(), "application/json")
            host.close()
            np.testing.assert_allclose(hosting.as_array(reply["outputs"]["z"]), WANTED.reshape(shape), rtol=1e-6)

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(one, range(36)))
        self.assertEqual(3, self.get()["entries"]["main"]["variants"])

    def test_a_dry_run_and_many_steps(self):
        self.host.put(reshaped())
        inputs = {"x": X, "shape": np.array([4, 16384])}
        self.assertEqual(4 * 16384 * 4, self.run_it(inputs, dry_run=True)["output_bytes"])
        reply = self.run_it(inputs, steps=3)
        np.testing.assert_allclose(hosting.as_array(reply["outputs"]["z"]), WANTED.reshape(4, 16384), rtol=1e-6)
        self.assertEqual(3, self.get()["steps"])


class OnTheDefaultDevice(Programs):
    options = ("--log-level", "error")


STAGING = {"BEAMLINE_VULKAN_STAGING": "1"}


def has_vulkan():
    if not served.SERVER.exists():
        return False
    done = subprocess.run([served.SERVER, "devices", "--backends", "vulkan"], capture_output=True, text=True, env={**os.environ, **STAGING, "BEAMLINE_STATE": "none"})
    return "vulkan:0" in done.stdout


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class WhereTheHostDoesNotSeeMemory(Programs):
    """A device with little memory that the host cannot access, so that weights are also evicted to the host."""
    options = ("--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off", "--log-level", "error")

    @classmethod
    def setUpClass(cls):
        with unittest.mock.patch.dict(os.environ, STAGING):
            super().setUpClass()

    def test_weights_that_wait_on_the_host(self):
        hosts = [hosting.Host(self.server.port, f"large{i}") for i in range(5)]
        weight = np.ones((6, 1 << 18), np.float32)  # 6 MiB
        for i, host in enumerate(hosts):
            self.addCleanup(host.close)
            host.put(model([node("MatMul", ["x", "w"], ["y"]), node("Slice", ["y", "from", "to"], ["z"])],
                           [tensor("x", F, [1, 6]), tensor("from", L, [2]), tensor("to", L, [2])], [tensor("z", F, None)], [("w", weight * i)]))
        for turn in range(2):
            for i, host in enumerate(hosts):
                inputs = {"x": X[:1], "from": np.array([0, turn]), "to": np.array([1, turn + 2])}
                document = {"inputs": {name: hosting.as_value(value) for name, value in inputs.items()}}
                reply = host.call("POST", f"/api/v1/programs/large{i}/run", json.dumps(document).encode(), "application/json")
                np.testing.assert_allclose(hosting.as_array(reply["outputs"]["z"]), [[X[0].sum() * i] * 2])
        for host in hosts:
            host.connection.request("DELETE", f"/api/v1/programs/{host.name}")
            self.assertEqual(204, host.connection.getresponse().status)


class Hosted(served.ServedCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, file in (("byvalue", reshaped()), ("later", sliced_after())):
            at = pathlib.Path(cls.folder.name) / name / "1"
            at.mkdir(parents=True)
            (at / "model.onnx").write_bytes(file.SerializeToString())
        cls.options = ("--models", cls.folder.name, "--log-level", "error")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def call(self, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        self.addCleanup(connection.close)
        connection.request(method, path, json.dumps(document) if document is not None else None)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())

    def infer(self, name, **inputs):
        kinds = {"float32": "FP32", "int64": "INT64"}
        given = [{"name": key, "shape": list(value.shape), "datatype": kinds[value.dtype.name], "data": value.ravel().tolist()} for key, value in inputs.items()]
        return self.call("POST", f"/v2/models/{name}/infer", {"inputs": given})

    def test_it_says_what_it_takes(self):
        _, metadata = self.call("GET", "/v2/models/byvalue")
        self.assertEqual([("x", "FP32", [-1, 6]), ("shape", "INT64", [-1])], [(one["name"], one["datatype"], one["shape"]) for one in metadata["inputs"]])
        self.assertEqual([("z", "FP32", [-1])], [(one["name"], one["datatype"], one["shape"]) for one in metadata["outputs"]])
        _, config = self.call("GET", "/v2/models/byvalue/config")
        self.assertEqual([("x", False), ("shape", True)], [(one["name"], one["is_shape_tensor"]) for one in config["input"]])

    def test_each_value_is_served(self):
        for shape in ([2, 32768], [4, 16384], [2, 32768], [-1]):
            status, answer = self.infer("byvalue", x=X, shape=np.array(shape))
            self.assertEqual(200, status, answer)
            output = answer["outputs"][0]
            np.testing.assert_allclose(np.array(output["data"], np.float32).reshape(output["shape"]), WANTED.reshape(shape), rtol=1e-6)
        status, answer = self.infer("later", x=np.arange(12, dtype=np.float32), shape=np.array([3, 4]), starts=np.array([0, 1]), ends=np.array([2, 3]),
                                    by=np.array([2], np.float32))
        self.assertEqual((200, [2, 2], [2, 4, 10, 12]), (status, answer["outputs"][0]["shape"], answer["outputs"][0]["data"]))

    def test_a_value_that_cannot_be_is_told(self):
        status, answer = self.infer("byvalue", x=X, shape=np.array([5]))
        self.assertEqual(400, status)
        self.assertRegex(answer["error"], r'node "z" \(Reshape\)')
        status, _ = self.infer("byvalue", x=X, shape=np.array([-1]))
        self.assertEqual(200, status)


if __name__ == "__main__":
    unittest.main()
