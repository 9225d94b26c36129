# SPDX-License-Identifier: MIT
"""Metrics of models: equal to their statistics, present as long as the model, and visible by scope."""

import pathlib
import subprocess
import sys
import time
import unittest

from repository import V2, ModelsTest, Repository, document, numbers  # imported first, since it adds the folder of the next module to the path
from fixture import counter
from test_keys import KeyedCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "operations"))
from test_metrics import PROMTOOL, parse

DOUBLE = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, 8]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}
X = numbers("x", [3, 2], [1, 2, 3, 4, 5, 6])
PHASES = {"request": "success", "queue": "queue", "input": "compute_input", "compute": "compute_infer", "output": "compute_output"}


def of(samples, name, model):
    """Returns {other labels: value} of one metric of a model."""
    return {tuple(sorted((k, v) for k, v in labels if k not in ("model", "version"))): value for (found, labels), value in samples.items()
            if found == name and dict(labels).get("model") == model}


class ModelMetrics(ModelsTest):
    ARGS = ("--backends", "interp", "--metrics-models", "4")

    @classmethod
    def fill(cls, repository):
        repository.put("double", 1, DOUBLE)
        repository.put("double", 2, DOUBLE, version_policy={"all": {}})
        repository.put("cached", 1, DOUBLE, response_cache={"enable": True})

    def samples(self):
        self.assertEqual(1, self.server.settled("requests_active", 1))
        answer = self.ok(self.call("GET", "/metrics"))
        return parse(answer.body.decode())

    def test_what_the_statistics_say(self):
        for _ in range(5):
            self.ok(self.infer("double/versions/1", document(X)))
        self.refused(400, self.infer("double/versions/1", document(numbers("x", [1, 1], [1]))))
        samples = self.samples()
        said = self.ok(self.call("GET", f"{V2}double/versions/1/stats")).json["model_stats"][0]
        self.assertEqual((15, 5, 5, 1), (said["inference_count"], said["execution_count"], said["inference_stats"]["success"]["count"], said["inference_stats"]["fail"]["count"]))
        first = (("model", "double"), ("version", "1"))
        for name, value in (("inferences_total", 15), ("executions_total", 5), ("bytes", said["memory_usage"][0]["byte_size"])):
            self.assertEqual(value, samples["beamline_model_" + name, first], name)
        for result, value in (("success", 5), ("failure", 1)):
            self.assertEqual(value, samples["beamline_model_requests_total", first + (("result", result),)])
        for phase, name in PHASES.items():
            row = said["inference_stats"][name]
            self.assertEqual((5, row["count"]), (samples[f"beamline_model_{phase}_seconds_count", first], row["count"]), phase)
            self.assertAlmostEqual(row["ns"] * 1e-9, samples[f"beamline_model_{phase}_seconds_sum", first], places=8)
            bounds = [value for (found, labels), value in samples.items() if found == f"beamline_model_{phase}_seconds_bucket" and labels[:2] == first]
            self.assertEqual((25, sorted(bounds), 5), (len(bounds), bounds, bounds[-1]))
        self.assertEqual(0, samples["beamline_model_inferences_total", (("model", "double"), ("version", "2"))])

    def test_answers_that_were_kept(self):
        for _ in range(3):
            self.ok(self.infer("cached", document(X)))
        samples = self.samples()
        self.assertEqual({(("result", "hit"),): 2, (("result", "miss"),): 1}, of(samples, "beamline_model_cache_total", "cached"))
        self.assertEqual({(): 3}, of(samples, "beamline_model_inferences_total", "cached"))

    def test_they_go_with_the_model(self):
        self.repository.put("brief", 1, DOUBLE)
        self.ok(self.load("brief"))
        self.ok(self.infer("brief", document(X)))
        self.assertEqual({(): 3}, of(self.samples(), "beamline_model_inferences_total", "brief"))
        self.repository.put("brief", 1, {**DOUBLE, "nodes": [{"id": "y", "op": "mul", "in": ["x", 3]}]})
        self.ok(self.load("brief"))  # another model of this name starts at zero
        self.assertEqual({(): 0}, of(self.samples(), "beamline_model_inferences_total", "brief"))
        self.ok(self.unload("brief"))
        self.assertEqual([], [key for key in self.samples() if dict(key[1]).get("model") == "brief"])

    def test_so_many_have_series(self):
        before = self.samples()
        self.assertEqual((3, 0), (before["beamline_models", ()], before["beamline_models_left_out", ()]))
        for i in range(4):
            self.repository.put(f"more{i}", 1, DOUBLE)
            self.ok(self.load(f"more{i}"))
            self.ok(self.infer(f"more{i}", document(X)))
        after = self.samples()
        self.assertEqual((7, 3), (after["beamline_models", ()], after["beamline_models_left_out", ()]))
        self.assertEqual(4, len({key[1][:2] for key in after if dict(key[1]).get("model")}))
        for i in range(4):
            self.ok(self.unload(f"more{i}"))

    @unittest.skipUnless(PROMTOOL, "promtool is not here: ./check unpacks it where there is a network")
    def test_promtool_finds_nothing(self):
        self.ok(self.infer("cached", document(X)))
        text = self.ok(self.call("GET", "/metrics")).body
        self.assertIn(b'beamline_model_compute_seconds_bucket{model="cached",version="1",le="', text)
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
        self.assertEqual((0, ""), (done.returncode, (done.stdout + done.stderr).decode()))


class OfKeys(KeyedCase):
    """Names of a key's own models are visible to the scope "metrics" only."""

    KEYS = {"alice": ("run,train,infer",), "bob": ("run,train,infer",), "root": ("admin",), "scraper": ("metrics",)}

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        cls.repository.put("public", 1, DOUBLE)
        cls.ARGS = ("--backends", "interp", "--models", str(cls.repository.path))
        super().setUpClass()
        while cls.server.call("GET", "/v2/health/ready").status != 200:
            time.sleep(0.05)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.repository.remove()

    def models(self):
        samples = parse(self.ok(self.call("scraper", "GET", "/metrics")).body.decode())
        return {labels for name, labels in samples if name == "beamline_model_executions_total"}

    def test_whose_they_are(self):
        for key in ("alice", "bob"):  # two models of one name
            self.assertIn(self.call(key, "PUT", "/api/v1/programs/p", counter()).status, (200, 201))
            self.ok(self.call(key, "POST", "/api/v1/programs/p/promote", {"model": "secret", "version": 1}))
        public, alices, bobs = ((("model", model), ("version", "1")) + owner
                                for model, owner in (("public", ()), ("secret", (("owner", "alice"),)), ("secret", (("owner", "bob"),))))
        self.assertEqual({public, alices, bobs}, self.models())
        for key, status in (("alice", 403), ("bob", 403), ("root", 403)):
            self.assertNotIn("secret", self.refused(status, self.call(key, "GET", "/metrics")).body.decode())
        self.refused(401, self.call(None, "GET", "/metrics"))
        self.ok(self.call("alice", "POST", "/v2/repository/models/secret/unload", {}))
        self.assertEqual({public, bobs}, self.models())


if __name__ == "__main__":
    unittest.main()
