# SPDX-License-Identifier: MIT
"""GET /api/v1/programs/NAME/plan, "explain" of a run, and GET /api/v1/kernels/KEY: the mapping between nodes and kernels."""

import os
import tempfile
import unittest

from fixture import Server, ServerTest, graph
from test_keys import KeyedCase

P = "/api/v1/programs"
TWO = {"inputs": {"x": {"dtype": "float32", "shape": [40, 30]}, "t": {"dtype": "float32", "shape": [40, 20]}},
       "state": {"w": {"op": "normal", "attrs": {"shape": [30, 20], "seed": 1}}},
       "entries": {"train": {"inputs": {"x": {"dtype": "float32", "shape": [40, 30]}, "t": {"dtype": "float32", "shape": [40, 20]}},
                             "nodes": [{"id": "h", "op": "matmul", "in": ["x", "w"]}, {"id": "r", "op": "relu", "in": ["h"]}, {"id": "e", "op": "sub", "in": ["r", "t"]},
                                       {"id": "q", "op": "mul", "in": ["e", "e"]}, {"id": "loss", "op": "mean", "in": ["q"]},
                                       {"id": ["w1"], "op": "sgd", "in": ["loss", "w"], "attrs": {"lr": 0.1}}],
                             "updates": {"w": "w1"}, "outputs": ["loss"]},
                   "guess": {"inputs": {"x": {"dtype": "float32", "shape": [40, 30]}},
                             "nodes": [{"id": "h", "op": "matmul", "in": ["x", "w"]}, {"id": "r", "op": "relu", "in": ["h"]}, {"id": "flat", "op": "reshape", "in": ["r"], "attrs": {"shape": [800]}},
                                       {"id": "s", "op": "sum", "in": ["flat"]}, {"id": "unused", "op": "exp", "in": ["s"]}],
                             "outputs": ["s"]}}}
del TWO["inputs"]


def deep(count, **members):
    """Returns repeated squares of a matrix: each needs the complete previous matrix, so no two fit into one kernel."""
    nodes = []
    for i in range(count):
        nodes += [{"id": f"s{i}", "op": "matmul", "in": [f"e{i - 1}" if i else "x"] * 2}, {"id": f"e{i}", "op": "tanh", "in": [f"s{i}"]}]
    return {"inputs": {"x": {"dtype": "float32", "shape": [64, 64], "data": [0.001] * 4096}}, "nodes": nodes, "outputs": [f"e{count - 1}"], **members}


class Plans(ServerTest):
    def kernels_of(self, plan):
        return {node["id"] if isinstance(node["id"], str) else node["id"][0]: node["kernels"] for node in plan["nodes"]}

    def is_whole(self, plan):
        """Checks that nodes and kernels refer to each other consistently, and that kernels are numbered in their order."""
        by_node = self.kernels_of(plan)
        self.assertEqual(list(range(len(plan["kernels"]))), [kernel["index"] for kernel in plan["kernels"]])
        for kernel in plan["kernels"]:
            self.assertEqual(kernel["nodes"], [name for name, kernels in by_node.items() if kernel["index"] in kernels])
            self.assertTrue(kernel["nodes"], "a kernel computes something")
            self.assertTrue(kernel["nest"] and kernel["source"] is not None and kernel["launches"] >= 1)
        self.assertFalse(plan["truncated"])

    def test_an_entry(self):
        self.assertIn(self.call("PUT", P + "/two", TWO).status, (200, 201))
        plan = self.ok(self.call("GET", P + "/two/plan?entry=guess")).json
        self.is_whole(plan)
        by_node = self.kernels_of(plan)
        self.assertTrue(by_node["h"] and by_node["s"])
        self.assertEqual([], by_node["unused"], "nobody asks for it")
        self.assertNotEqual(by_node["h"], by_node["s"])
        self.assertEqual(by_node["h"], by_node["r"], "a kernel does both")
        shapes = {node["id"]: (node["op"], node["dtype"], node["shape"], node["in"]) for node in plan["nodes"]}
        self.assertEqual(("matmul", "float32", [40, 20], ["x", "w"]), shapes["h"])
        self.assertEqual(("reshape", "float32", [800], ["r"]), shapes["flat"])
        profile = self.ok(self.call("GET", P + "/two")).json["entries"]["guess"]
        self.assertEqual(profile["kernels"] + profile["helpers"], len(plan["kernels"]))

    def test_a_step_that_trains(self):
        self.assertIn(self.call("PUT", P + "/two", TWO).status, (200, 201))
        run = {"entry": "train", "inputs": {"x": [[0.1] * 30] * 40, "t": [[1] * 20] * 40}, "steps": 50}
        for _ in range(2):
            self.ok(self.call("POST", P + "/two/run", run))
        plan = self.ok(self.call("GET", P + "/two/plan?entry=train")).json
        self.is_whole(plan)
        by_node = self.kernels_of(plan)
        self.assertTrue(by_node["loss"] and by_node["w1"])
        self.assertTrue(set(by_node["w1"]) - set(by_node["loss"]), "the gradient has kernels of its own")

    def test_many_kernels_in_their_order(self):
        plan = self.ok(self.call("POST", "/api/v1/run", deep(8, explain=True, dry_run=True))).json["plan_detail"]
        self.is_whole(plan)
        by_node = self.kernels_of(plan)
        firsts = [min(by_node[f"s{i}"]) for i in range(8)]
        self.assertEqual(sorted(set(firsts)), firsts)
        self.assertEqual([min(by_node[f"e{i}"]) for i in range(8)], firsts)
        self.assertTrue(plan["buffers"])
        for buffer in plan["buffers"]:
            self.assertTrue(0 <= buffer["first"] <= buffer["last"] < len(plan["kernels"]) and buffer["bytes"] > 0)

    def test_explain(self):
        plain = self.ok(self.call("POST", "/api/v1/run", graph())).json
        self.assertNotIn("plan_detail", plain)
        for more in ({}, {"dry_run": True}):
            answer = self.ok(self.call("POST", "/api/v1/run", graph(explain=True, **more))).json
            self.is_whole(answer["plan_detail"])
            self.assertEqual("main", answer["plan_detail"]["entry"])
            if not more:
                self.assertEqual((plain["outputs"], "cached"), (answer["outputs"], answer["stats"]["plan"]))
        self.refused(400, self.call("POST", "/api/v1/run", graph(explain=1)))

    def test_names_are_of_who_asks(self):
        """Graphs of one structure share a plan, but each answer has the names of its own nodes."""
        first = {"inputs": {"secret": [1, 2]}, "nodes": [{"id": "hidden", "op": "exp", "in": ["secret"]}], "outputs": ["hidden"]}
        self.ok(self.call("POST", "/api/v1/run", first))
        answer = self.ok(self.call("POST", "/api/v1/run", {"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "exp", "in": ["x"]}], "outputs": ["y"], "explain": True}))
        self.assertEqual("cached", answer.json["stats"]["plan"])
        self.assertEqual([("y", ["x"])], [(node["id"], node["in"]) for node in answer.json["plan_detail"]["nodes"]])
        self.assertNotIn(b"hidden", answer.body)

    def test_loops_and_named_dimensions(self):
        body = {"inputs": ["h", "x"], "nodes": [{"id": "n", "op": "add", "in": ["h", "x"]}], "outputs": ["n"]}
        document = {"inputs": {"x": [1, 2, 3]}, "nodes": [{"id": "y", "op": "scan", "in": [0, "x"], "attrs": {"sequences": 1, "body": body}}, {"id": "z", "op": "exp", "in": ["y"]}],
                    "outputs": ["z"], "explain": True}
        plan = self.ok(self.call("POST", "/api/v1/run", document)).json["plan_detail"]
        self.is_whole(plan)
        self.assertTrue(all(self.kernels_of(plan).values()))
        named = {"inputs": {"x": {"dtype": "float32", "shape": ["n", 4]}}, "dims": {"n": [1, 64]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}
        self.ok(self.call("PUT", P + "/named", named), 201)
        self.assertEqual(["n", 4], self.ok(self.call("GET", P + "/named/plan")).json["nodes"][0]["shape"])

    def test_hostile(self):
        self.assertIn(self.call("PUT", P + "/two", TWO).status, (200, 201))
        self.assertIn("no entry", self.refused(404, self.call("GET", P + "/two/plan?entry=none"))["detail"])
        self.refused(404, self.call("GET", P + "/none/plan"))
        self.assertIn("several entries", self.refused(400, self.call("GET", P + "/two/plan"))["detail"])
        self.refused(400, self.call("GET", P + "/two/plan?entri=guess"))


class Owners(KeyedCase):
    ARGS = ("--backends", "interp", "--key-debug", "3")
    KEYS = {"root": ("admin,run",), "alice": ("run",), "bob": ("run",)}

    def test_of_others_and_levels(self):
        for who in ("root", "alice"):
            self.ok(self.call(who, "PUT", P + "/two", TWO), 201)
        plan = self.ok(self.call("alice", "GET", P + "/two/plan?entry=guess")).json
        self.assertEqual({(None, None)}, {(kernel["nest"], kernel["source"]) for kernel in plan["kernels"]}, "over --key-debug")
        self.assertTrue(all(kernel["nest"] for kernel in self.ok(self.call("root", "GET", P + "/two/plan?entry=guess")).json["kernels"]))
        self.refused(404, self.call("bob", "GET", P + "/two/plan?entry=guess"))
        self.refused(403, self.call("alice", "GET", "/api/v1/kernels/" + "0" * 16))


class OneKernel(unittest.TestCase):
    def test_a_record_with_its_nest(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server("--backends", "interp", "--beam-seconds", "5", "--kernel-db", os.path.join(folder, "kernels.db"), env={"BEAMLINE_CACHE": folder})
            self.addCleanup(server.stop)
            answer = server.call("POST", "/api/v1/run", deep(1, beam=1, explain=True), timeout=120)
            self.assertEqual(200, answer.status, answer.body[:300])
            rows = server.call("GET", "/api/v1/kernels").json["kernels"]
            self.assertTrue(rows)
            keys = {kernel["key"] for kernel in answer.json["plan_detail"]["kernels"]}
            for row in rows:
                whole = server.call("GET", "/api/v1/kernels/" + row["key"]).json["kernels"]
                self.assertIn(row, [{name: value for name, value in one.items() if name != "nest"} for one in whole])
                self.assertTrue(all(one["nest"] for one in whole))
                self.assertIn(row["key"], keys)
            for key in ("0" * 16, "0", "x" * 16, "%00", "' OR 1=1 --"):
                self.assertIn(server.call("GET", "/api/v1/kernels/" + key.replace(" ", "%20").replace("'", "%27")).status, (400, 404))


if __name__ == "__main__":
    unittest.main()
