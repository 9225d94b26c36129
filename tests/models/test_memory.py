# SPDX-License-Identifier: MIT
"""State of models: sequences, cached responses; and classifications instead of tensors."""

import json
import subprocess
import tempfile
import time
import unittest

from repository import PROGRAM, ModelsTest, Server, document, elementwise, envelope, floats, numbers, split


def adder(**config):
    """Returns the sum of a sequence's inputs so far, and their number."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [2]}},
            "state": {"total": {"dtype": "float32", "shape": [2]}, "n": {"dtype": "int32", "shape": []}, "w": [10]},
            "nodes": [{"id": "xw", "op": "mul", "in": ["x", "w"]}, {"id": "t", "op": "add", "in": ["total", "xw"]}, {"id": "m", "op": "add", "in": ["n", 1]}],
            "updates": {"total": "t", "n": "m"}, "outputs": ["t", "m"]}


class Memory(ModelsTest):
    @classmethod
    def fill(cls, repository):
        repository.put("adder", 1, adder(), sequence_batching={"max_sequence_idle_microseconds": 60000000})
        repository.put("brief", 1, adder(), sequence_batching={"max_sequence_idle_microseconds": 200000})
        repository.put("double", 1, elementwise("mul", 2), response_cache={"enable": True})
        repository.put("plain", 1, elementwise("mul", 2))
        repository.put("scores", 1, elementwise("mul", 1), output=[{"name": "y", "data_type": "TYPE_FP32", "dims": [4], "label_filename": "labels.txt"}])
        (repository.path / "scores" / "labels.txt").write_text("cat\ndog\nbird\n")
        repository.put("flat", 1, {"inputs": {"x": {"dtype": "int32", "shape": [5]}}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]})

    def step(self, sequence, x, model="adder", **flags):
        flags = {"sequence_" + name: value for name, value in flags.items()}
        answer = self.infer(model, document(numbers("x", [2], x), parameters={"sequence_id": sequence, **flags}))
        return {out["name"]: out["data"] for out in self.ok(answer).json["outputs"]}

    def fails(self, word, model="adder", **parameters):
        self.refused(400, self.infer(model, document(numbers("x", [2], [1, 1]), parameters=parameters)), word)

    def test_sequences(self):
        self.assertEqual({"t": [10, 20], "m": [1]}, self.step(1, [1, 2], start=True))
        self.assertEqual({"t": [50, 60], "m": [1]}, self.step("one", [5, 6], start=True))
        self.assertEqual({"t": [40, 60], "m": [2]}, self.step(1, [3, 4]))
        self.assertEqual({"t": [60, 70], "m": [2]}, self.step("one", [1, 1], end=True))
        self.fails("sequence_start", sequence_id="one")
        self.assertEqual({"t": [50, 70], "m": [3]}, self.step(1, [1, 1]))
        self.assertEqual({"t": [10, 10], "m": [1]}, self.step(1, [1, 1], start=True))
        self.assertEqual({"t": [10, 10], "m": [1]}, self.step(2**64 - 1, [1, 1], start=True, end=True))
        self.fails("sequence_id")
        self.fails("sequence_id", sequence_id=0)
        self.fails("sequence_id", sequence_id="")
        self.fails("sequence_start", sequence_id=77)
        self.fails("128 bytes", sequence_id="x" * 129)
        self.fails("sequence_id", sequence_id=-1)
        self.refused(400, self.infer("plain", document(numbers("x", [1, 4], [1, 2, 3, 4]), parameters={"sequence_id": 5, "sequence_start": True})), "takes no sequence_id")
        self.assertIn("sequence_batching", self.ok(self.call("GET", "/v2/models/adder/config")).json)

    def test_sequences_by_generate(self):
        def ask(x, **more):
            answer = self.ok(self.call("POST", "/v2/models/adder/generate", {"x": x, **more})).json
            return answer["t"], answer["m"]
        self.assertEqual(([10, 20], 1), ask([1, 2], sequence_id="by", sequence_start=True))
        self.assertEqual(([40, 60], 2), ask([3, 4], parameters={"sequence_id": "by"}))
        self.assertEqual(([50, 70], 3), ask([1, 1], sequence_id="by", sequence_end=True))
        self.refused(400, self.call("POST", "/v2/models/adder/generate", {"x": [1, 1], "sequence_id": "by"}), "sequence_start")

    def test_a_step_that_fails_leaves_the_state(self):
        self.step(9, [1, 1], start=True)
        self.refused(400, self.infer("adder", document(numbers("x", [3], [1, 1, 1]), parameters={"sequence_id": 9})))
        self.assertEqual({"t": [20, 20], "m": [2]}, self.step(9, [1, 1]))

    def test_t23_idle_sequences_are_forgotten(self):
        before = self.server.metric("held_bytes")
        self.step(1, [1, 1], "brief", start=True)
        self.assertGreater(self.server.metric("held_bytes"), before)
        self.assertEqual(before, self.server.settled("held_bytes", before, 15))
        self.fails("sequence_start", "brief", sequence_id=1)

    def test_answers_are_kept(self):
        def stats():
            row = self.ok(self.call("GET", "/v2/models/double/stats")).json["model_stats"][0]
            return [row["execution_count"], row["inference_stats"]["cache_hit"]["count"], row["inference_stats"]["cache_miss"]["count"], row["inference_stats"]["success"]["count"]]

        def ask(*x, binary=False):
            if binary:
                one = {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}
                return split(self.ok(self.infer("double", *envelope(document(one, parameters={"binary_data_output": True}), floats(*x)))))[1]["y"]
            return self.ok(self.infer("double", document(numbers("x", [1, 4], list(x)), id=str(x[0])))).json
        def computed():
            phases = self.ok(self.call("GET", "/v2/models/double/stats")).json["model_stats"][0]["inference_stats"]
            return [phases["compute_" + name]["count"] for name in ("input", "infer", "output")]
        before, ran = stats(), computed()
        first = ask(1, 2, 3, 4)
        self.assertEqual(([2, 4, 6, 8], "1"), (first["outputs"][0]["data"], first["id"]))
        self.assertEqual(first, ask(1, 2, 3, 4))
        self.assertEqual(floats(2, 4, 6, 8), ask(1, 2, 3, 4, binary=True))  # the same numbers in binary form
        self.assertEqual([10, 4, 6, 8], ask(5, 2, 3, 4)["outputs"][0]["data"])
        self.assertEqual([2, 2, 2, 4], [now - then for now, then in zip(stats(), before)])
        self.assertEqual([2, 2, 2], [now - then for now, then in zip(computed(), ran)])  # cache hits do not count as computed
        self.assertEqual([0, 0], [self.ok(self.call("GET", "/v2/models/plain/stats")).json["model_stats"][0]["inference_stats"][name]["count"] for name in ("cache_hit", "cache_miss")])
        self.ok(self.load("double"))
        self.repository.put("double", 1, elementwise("mul", 3))
        self.ok(self.load("double"))
        self.assertEqual([3, 6, 9, 12], ask(1, 2, 3, 4)["outputs"][0]["data"])  # another version had the cached answers
        self.repository.put("odd", 1, adder(), response_cache={"enable": True})
        self.refused(400, self.load("odd"), "response_cache")
        self.repository.put("odd", 1, elementwise("mul", 2), sequence_batching={})
        self.refused(400, self.load("odd"), "sequence_batching")

    def test_answers_are_the_keys_own(self):
        """Cached answers are private to a key, and only an administrator may load and unload shared models."""
        with tempfile.TemporaryDirectory() as state:
            def make(name, scopes):
                done = subprocess.run([PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", state], capture_output=True, text=True, check=True)
                return {"authorization": "Bearer " + done.stdout.strip()}
            root, one, other = make("root", "admin,infer"), make("one", "infer,train"), make("other", "infer,train")
            server = Server("--backends", "interp", "--state", state, "--models", str(self.repository.path), "--load-models", "double")
            self.addCleanup(server.stop)
            self.wait_ready(server)

            def hits(key):
                body = json.dumps(document(numbers("x", [1, 4], [4, 4, 4, 4]))).encode()
                self.ok(server.call("POST", "/v2/models/double/infer", body, {"content-type": "application/json", **key}))
                return server.call("GET", "/v2/models/double/stats", headers=key).json["model_stats"][0]["inference_stats"]["cache_hit"]["count"]
            self.assertEqual([0, 0, 1, 2], [hits(one), hits(other), hits(one), hits(other)])
            for what in ("load", "unload"):
                path = f"/v2/repository/models/double/{what}"
                answer = server.call("POST", path, {}, one)
                self.assertEqual((403, True), (answer.status, "scope admin" in answer.json["error"]), answer.body)
                self.assertEqual(200, server.call("POST", path, {}, root).status)

    def test_t8_t16_classes(self):
        def ask(model, x, count, **members):
            asked = document(x, outputs=[{"name": "y", "parameters": {"classification": count, **members}}])
            return self.infer(model, asked)
        x = numbers("x", [2, 4], [0.1, 0.7, 0.2, 0.7, 9, 1, 2, 3])
        out = self.ok(ask("scores", x, 2)).json["outputs"][0]
        self.assertEqual(("BYTES", [2, 2]), (out["datatype"], out["shape"]))
        self.assertEqual(["0.700000:1:dog", "0.700000:3", "9.000000:0:cat", "3.000000:3"], out["data"])
        self.assertEqual([2, 4], self.ok(ask("scores", x, 10**15)).json["outputs"][0]["shape"])
        out = self.ok(ask("flat", numbers("x", [5], [3, -1, 4, -1, 5], "INT32"), 3)).json["outputs"][0]
        self.assertEqual(([3], ["1:1", "1:3", "-3:0"]), (out["shape"], out["data"]))
        answer = self.ok(ask("flat", numbers("x", [5], [3, -1, 4, -1, 5], "INT32"), 1, binary_data=True))
        self.assertEqual(b"\3\0\0\0001:1", split(answer)[1]["y"])
        self.refused(400, ask("flat", numbers("x", [5], [3, -1, 4, -1, 5], "INT32"), -1), "classification")
        self.refused(400, ask("flat", numbers("x", [5], [3, -1, 4, -1, 5], "INT32"), 1.5), "classification")
        for name in ("../labels.txt", "/etc/passwd", "missing.txt"):
            self.repository.put("scores", 1, elementwise("mul", 1), output=[{"name": "y", "data_type": "TYPE_FP32", "label_filename": name}])
            answer = self.load("scores")
            self.assertIn(answer.status, (400, 404))
            self.refused(answer.status, answer, name)


if __name__ == "__main__":
    unittest.main()
