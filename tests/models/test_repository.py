# SPDX-License-Identifier: MIT
"""The models folder: loading, unloading, versions, and failed loads."""

import base64
import json
import re
import time
import unittest

from repository import ModelsTest, document, elementwise, linear, numbers, weights

ROW = document(numbers("x", [1, 4], [1, 2, 3, 4]))


def coded(value):
    return base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


def field(number, value):
    """Encodes a protobuf field: a text, a message, or a small number."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value


def onnx_node(operator, name):
    """Returns an ONNX model with one node from x to y, of four numbers each."""
    values = [field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 4))))) for name in ("x", "y")]
    graph = field(1, field(1, "x") + field(2, "y") + field(3, name) + field(4, operator)) + field(2, "g") + field(11, values[0]) + field(12, values[1])
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


class Repositories(ModelsTest):
    @classmethod
    def fill(cls, repository):
        for version in (1, 2, 10):
            repository.put("times", version, elementwise("mul", version))
            repository.put("all", version, elementwise("mul", version), version_policy={"all": {}})
            repository.put("some", version, elementwise("mul", version), version_policy={"specific": {"versions": ["1", 10]}})
            repository.put("two", version, elementwise("mul", version), version_policy={"latest": {"num_versions": 2}})
        (repository.path / "times" / "3").mkdir()
        (repository.path / "times" / "05").mkdir()
        (repository.path / "empty").mkdir()
        repository.put("broken", 1, elementwise("no_such_op", 2))
        repository.put("line", 1, linear(), weights(1, 2, 3, 4, 5, 6))

    def answer(self, model):
        return self.ok(self.infer(model, ROW)).json["outputs"][0]["data"][0]

    def versions(self, name):
        return self.ok(self.call("GET", "/v2/models/" + name)).json["versions"]

    def test_versions(self):
        self.assertEqual(["10"], self.versions("times"))
        self.assertEqual(["1", "2", "10"], self.versions("all"))
        self.assertEqual(["1", "10"], self.versions("some"))
        self.assertEqual(["2", "10"], self.versions("two"))
        self.assertEqual((10, 2), (self.answer("all"), self.answer("all/versions/2")))
        self.refused(404, self.infer("some/versions/2", ROW), "version 2")
        answer = self.ok(self.call("GET", "/v2/models/all/versions/2/config")).json
        self.assertEqual(({"all": {}}, 64, "TYPE_FP32", [4]), (answer["version_policy"], answer["max_batch_size"],
                                                               answer["input"][0]["data_type"], answer["input"][0]["dims"]))

    def test_no_end_of_versions(self):
        program = {"inputs": {"x": {"dtype": "float32", "shape": [1]}}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]}

        def promote(version):
            return self.call("POST", "/api/v1/programs/many/promote", {"model": "many", "version": version})
        self.ok(self.call("PUT", "/api/v1/programs/many", program), 201)
        for version in range(1, 1001):
            self.assertLess(promote(version).status, 300)
        answer = promote(1001)
        self.assertEqual((422, True), (answer.status, "at most 1000 versions" in answer.json["detail"]), answer.body)
        self.ok(self.call("POST", "/v2/repository/models/many/unload", {}))
        self.refused(404, self.call("GET", "/v2/models/many"))
        self.assertLess(promote(2**63 - 1).status, 300)  # replaces a version that is gone
        self.ok(self.call("GET", f"/v2/models/many/versions/{2**63 - 1}"))

    def test_t3_index(self):
        index = self.index()
        self.assertEqual(("READY", ""), index["all", "10"])
        self.assertEqual("UNAVAILABLE", index["broken", "1"][0])
        self.assertIn("no_such_op", index["broken", "1"][1])
        self.assertNotIn(("two", "1"), index)
        self.assertTrue(all(state == "READY" for state, _ in self.index(ready=True).values()))
        self.refused(400, self.call("POST", "/v2/repository/index", {"ready": 1}), "ready")
        self.refused(400, self.call("POST", "/v2/repository/index", b"[" * 250000))

    def test_a_node_is_named_once(self):
        """The answer and the index name the node exactly once, whether or not the error text names it."""
        product = {**linear(), "inputs": {"x": {"dtype": "float32", "shape": [4]}}}
        for name, file, data, says in (("apart", "model.json", json.dumps(product).encode(), r'^matmul: inner dimensions differ.* \(node "y"\)$'),
                                       ("inside", "model.onnx", onnx_node("FooBar", "seventh"), r'^node "seventh" \(FooBar\): .*"FooBar"')):
            with self.subTest(name):
                self.repository.put(name, 1, elementwise("mul", 2), weights(1, 2, 3, 4, 5, 6))
                (self.repository.path / name / "1" / "model.json").unlink()
                (self.repository.path / name / "1" / file).write_bytes(data)
                answer = self.load(name)
                self.refused(400, answer, "version 1: ")
                reason = self.index()[name, "1"][1]
                self.assertRegex(reason, says)
                self.assertEqual(1, len(re.findall(r'node "', reason)), reason)
                self.assertEqual("version 1: " + reason, answer.json["error"])

    def test_unload_and_load(self):
        self.ok(self.unload("two"))
        self.assertEqual(("UNAVAILABLE", "unloaded"), self.index()["two", "10"])
        self.refused(404, self.infer("two", ROW), "no version that is ready")
        self.refused(404, self.call("GET", "/v2/models/two/ready"))
        self.ok(self.call("POST", "/v2/repository/local/models/two/load", {}))
        self.assertEqual(10, self.answer("two"))
        self.assertEqual(b"", self.load("two").body)
        self.refused(404, self.load("nobody"), 'no model "nobody"')
        self.refused(404, self.unload("nobody"), 'no model "nobody"')
        self.assertNotIn("nobody", str(self.index()))

    def test_a_failed_load_leaves_what_was_there(self):
        self.repository.put("change", 1, elementwise("mul", 3))
        self.ok(self.load("change"))
        for bad, status, word in ((elementwise("no_such_op", 2), 400, "no_such_op"), ("{", 400, "JSON"), ({"inputs": {}}, 400, "")):
            self.repository.put("change", 1, bad)
            self.refused(status, self.load("change"), "version 1: ")
            self.assertEqual(3, self.answer("change"))
            self.assertEqual("READY", self.index()["change", "1"][0])
            self.assertIn(word, self.index()["change", "1"][1])
        self.repository.put("change", 2, elementwise("mul", 5), weights(1, 2, 3, 4, 5, 6)[:-1])
        self.refused(400, self.load("change"), "version 2: ")
        self.assertEqual(3, self.answer("change"))
        self.repository.put("change", 2, elementwise("mul", 5))
        (self.repository.path / "change" / "2" / "model.safetensors").unlink()
        self.ok(self.load("change"))
        self.assertEqual((5, ["2"]), (self.answer("change"), self.versions("change")))

    def test_t16_names(self):
        for name in ("..%2fx", "%2fetc", "a%2f..%2fb", ".", "..", ".hidden", "-x", "%20", "a%20b", "a" * 129, "caf%c3%a9", "a%3ab"):
            with self.subTest(name):
                self.refused(400, self.load(name), "is not a valid name of a model")
        self.refused(400, self.load("a%00b"))
        self.refused(400, self.call("POST", "/v2/repository/models/x/load", {"parameters": {"file:1/../../x": coded({}), "config": "{}"}}), "file:VERSION/")
        for file in ("file:", "file:/model.json", "file:0/model.json", "file:-1/model.json", "file:1/config.json", "file:1/model.json/", "file:1//model.json",
                     "file:1111111111111111111/model.json"):
            self.refused(400, self.load("x", **{file: coded({}), "config": "{}"}), "file:VERSION/")
        self.assertNotIn("x", {name for name, _ in self.index()})

    def test_files_of_a_request(self):
        files = {"file:1/model.json": coded(linear()), "file:1/model.safetensors": coded(weights(1, 1, 1, 1, 1, 1)), "config": "{}"}
        self.ok(self.load("sent", **files))
        ask = document(numbers("x", [3], [1, 2, 3]))
        self.assertEqual([6, 6], self.ok(self.infer("sent", ask)).json["outputs"][0]["data"])
        files["file:1/model.safetensors"] = coded(weights(2, 2, 2, 2, 2, 2))
        self.ok(self.load("sent", **files))
        self.assertEqual([12, 12], self.ok(self.infer("sent", ask)).json["outputs"][0]["data"])
        del files["file:1/model.safetensors"]
        self.refused(400, self.load("sent", **files), "version 1: ")
        self.assertEqual([12, 12], self.ok(self.infer("sent", ask)).json["outputs"][0]["data"])
        del files["config"]
        self.refused(400, self.load("sent", **files), "config")
        self.refused(400, self.load("sent", **{"file:1/model.json": "a", "config": "{}"}), "base64")
        self.refused(400, self.load("sent", other="1"), "other")

    def test_configuration_of_a_request(self):
        config = self.ok(self.call("GET", "/v2/models/line/config")).json
        self.ok(self.load("line", config=json.dumps(config)))  # the server accepts its own configuration
        config["input"][0]["dims"] = [7]
        self.refused(400, self.load("line", config=json.dumps(config)), 'gives the dims [7]')
        self.ok(self.load("times", config='{"version_policy": {"specific": {"versions": [2]}}}'))
        self.assertEqual(["2"], self.versions("times"))
        self.ok(self.load("times"))
        self.assertEqual(["10"], self.versions("times"))
        for config, word in (("{", "JSON"), ("[]", "object"), ('{"rate_limiter": {}}', 'unknown member "rate_limiter"'), ('{"platform": "tensorrt_plan"}', "model.onnx"), ('{"unknown": 1}', "unknown"), ('{"max_batch_size": -1}', "max_batch_size"),
                             ('{"max_batch_size": 65}', "at most 64"), ('{"name": "other"}', "times"), ('{"instance_group": [{"device": "none:0"}]}', "none:0"),
                             ('{"input": [{"name": "z", "data_type": "TYPE_FP32"}]}', '"z"'), ('{"version_policy": {"specific": {"versions": [99]}}}', "policy"),
                             ('{"input": [{"name": "x", "data_type": "TYPE_INT8"}]}', "INT8"), ('{"input": [{"name": "x", "data_type": "FP32"}]}', "data type"),
                             ('{"parameters": {"entry": {"string_value": "test"}}}', '"test"'), ('{"model_transaction_policy": {"decoupled": true}}', "decoupled"),
                             ('{"input": [{"name": "x", "data_type": "TYPE_STRING"}]}', "uint8")):
            with self.subTest(config):
                answer = self.load("times", config=config)
                self.refused(501 if word in ("decoupled", "model.onnx") else 400, answer, word)
                self.assertEqual(["10"], self.versions("times"))

    def test_folders_that_are_no_versions(self):
        """With no valid version folder, the error is about the folders, not about the version policy."""
        for folder in "scripts", "latest", "01", "0", "7":
            with self.subTest(folder):
                self.repository.put("odd-" + folder, folder, elementwise("mul", 2))
                if folder == "7":
                    (self.repository.path / "odd-7" / "7" / "model.json").rename(self.repository.path / "odd-7" / "7" / "other.json")
                answer = self.load("odd-" + folder)
                self.refused(400, answer, "a folder named by a number from 1 on with a model.json or model.onnx")
                self.assertNotIn("policy", answer.json["error"])
                self.assertEqual(("UNAVAILABLE", answer.json["error"]), self.index()["odd-" + folder, None])
        self.assertIn("a folder named by a number", self.index()["empty", None][1])

    def test_members_that_triton_has(self):
        """An unsupported member of Triton's configuration gives an error in any object, with the supported alternative."""
        x, y = ({"name": name, "data_type": "TYPE_FP32", "dims": [4]} for name in "xy")
        warm = {"name": "w", "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "input_data_file": "raw"}}}
        for path, config, word in (
                ("optimization", {"optimization": {}}, "measurement"), ("ensemble_scheduling", {"ensemble_scheduling": {}}, "all steps"),
                ("runtime", {"runtime": ""}, "the file of a model"), ("model_operations", {"model_operations": {}}, "ops"), ("model_metrics", {"model_metrics": {}}, "all models"),
                ("reshape", {"input": [{**x, "reshape": {"shape": [2, 2]}}]}, "the program"), ("reshape", {"output": [{**y, "reshape": {"shape": [2, 2]}}]}, "the program"),
                ("allow_ragged_batch", {"input": [{**x, "allow_ragged_batch": True}]}, "are not batched"),
                ("priority_queue_policy", {"dynamic_batching": {"priority_queue_policy": {"1": {}}}}, "default_queue_policy"),
                ("control_input", {"sequence_batching": {"control_input": []}}, "sequence_start"), ("state", {"sequence_batching": {"state": []}}, "updates"),
                ("iterative_sequence", {"sequence_batching": {"iterative_sequence": True}}, "loop"), ("oldest", {"sequence_batching": {"oldest": {}}}, "order"),
                ("rate_limiter", {"instance_group": [{"rate_limiter": {}}]}, "measured time"), ("host_policy", {"instance_group": [{"host_policy": "a"}]}, "device"),
                ("secondary_devices", {"instance_group": [{"secondary_devices": []}]}, "device"), ("input_data_file", {"model_warmup": [warm]}, "zero_data")):
            with self.subTest(path, config=config):
                answer = self.load("times", config=json.dumps(config))
                self.refused(501, answer, word)
                self.assertIn("this field is not supported: ", answer.json["error"])
                self.assertIn(path, answer.json["error"])
        self.refused(400, self.load("times", config='{"instance_group": [{"optimization": {}}]}'), 'unknown member "optimization"')

    def test_t14_leaving_returns_its_memory(self):
        """After unloads the device memory is as before, and failed loads leak nothing."""
        big = {"file:1/model.json": coded({**linear(), "inputs": {"x": {"dtype": "float32", "shape": [1000]}}}),
               "file:1/model.safetensors": coded(weights(*[1.0] * 1000000, shape=(1000, 1000))), "config": "{}"}
        before = self.server.metric("held_bytes")
        used = self.device_bytes()
        self.ok(self.load("big", **big))
        self.assertEqual(before + 4e6, self.server.settled("held_bytes", before + 4e6))
        self.assertGreaterEqual(self.device_bytes(), used + 4e6)
        self.ok(self.unload("big"))
        self.assertEqual(before, self.server.settled("held_bytes", before))
        self.assertLess(self.device_bytes(), used + 1e6)
        bad = {**big, "config": '{"parameters": {"entry": {"string_value": "none"}}}'}
        resident = None
        for i in range(25):
            self.refused(400, self.load("big", **bad), '"none"')
            if i == 4:
                resident = self.server.rss()
        self.assertEqual(before, self.server.settled("held_bytes", before))
        self.assertLess(self.device_bytes(), used + 1e6)
        self.assertLess(self.server.rss() - resident, 8e6)  # 20 leaks would be 80 MB

    def device_bytes(self):
        text = self.call("GET", "/metrics").body.decode()
        return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith("beamline_device_bytes{"))


if __name__ == "__main__":
    unittest.main()
