# SPDX-License-Identifier: MIT
"""Quotas of keys whose requests share a run."""

import threading
import time
import unittest

from repository import Repository  # imported first, since it adds the folder of the next module to the path
from fixture import SLOW_STEPS, counter
from test_keys import KeyedCase

P = "/api/v1/programs"


class Together(KeyedCase):
    """Requests of two keys for one model share a run, in either order."""

    KEYS = {"root": ("admin",), "full": ("run,infer", "--queue", "1"), "free": ("run,infer",)}

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        n = 96
        cls.repository.put("slow", 1, {
            "inputs": {"x": {"dtype": "float32", "shape": ["batch", 1]}}, "state": {"w": {"op": "normal", "attrs": {"shape": [n, n], "seed": 1}}}, "dims": {"batch": [1, 8]},
            "nodes": [{"id": "sx", "op": "sum", "in": ["x"]}, {"id": "zx", "op": "mul", "in": ["sx", 0]}, {"id": "wx", "op": "add", "in": ["w", "zx"]},
                      {"id": "w2", "op": "matmul", "in": ["wx", "w"]}, {"id": "s", "op": "sum", "in": ["w2"]}, {"id": "z", "op": "mul", "in": ["s", 0]},
                      {"id": "d", "op": "mul", "in": ["x", 2]}, {"id": "y", "op": "add", "in": ["d", "z"]}], "outputs": ["y"]})
        cls.ARGS = ("--backends", "interp", "--tune=off", "--models", str(cls.repository.path))
        super().setUpClass()
        while cls.server.call("GET", "/v2/health/ready").status != 200:
            time.sleep(0.05)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.repository.remove()

    def ask(self, name, value):
        answer = self.call(name, "POST", "/v2/models/slow/infer", {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [value]}]})
        if answer.status == 200:
            self.assertEqual([2 * value], answer.json["outputs"][0]["data"])
        return answer.status

    def test_t23_nobody_gets_anothers_refusal(self):
        self.ok(self.call("full", "PUT", f"{P}/long", counter()), 201)
        self.assertEqual(200, self.ask("free", 1))
        long = threading.Thread(target=self.call, args=("full", "POST", f"{P}/long/run", {"inputs": {}, "steps": SLOW_STEPS, "timeout_ms": 6000}))
        long.start()
        while self.call("full", "GET", f"{P}/long").json["steps"] == 0:
            time.sleep(0.01)
        stop, statuses = threading.Event(), {"full": [], "free": []}

        def load(name, number):
            while not stop.is_set():
                statuses[name].append(self.ask(name, number))
        threads = [threading.Thread(target=load, args=(name, i)) for i in range(3) for name in statuses]
        for thread in threads:
            thread.start()
        long.join()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual({200}, set(statuses["free"]))
        self.assertLessEqual(set(statuses["full"]), {200, 429})
        self.assertIn(200, statuses["full"])  # in runs shared with the other key


if __name__ == "__main__":
    unittest.main()
