# SPDX-License-Identifier: MIT
"""Programs: entries, state, steps, and concurrent changes."""

import json
import struct
import threading
import time
import unittest

from fixture import JSON, SAFETENSORS, SLOW_STEPS, ServerTest, counter, read_safetensors, safetensors

P = "/api/v1/programs"


class Programs(ServerTest):
    def put(self, name, document, status=(200, 201), **headers):
        answer = self.call("PUT", f"{P}/{name}", json.dumps(document), {**JSON, **headers})
        self.assertIn(answer.status, status, answer.body)
        return answer

    def steps(self, name, n, **members):
        return self.ok(self.call("POST", f"{P}/{name}/run", {"steps": n, **members})).json

    def state(self, name):
        return {k: v["data"] for k, v in self.ok(self.call("GET", f"{P}/{name}/state")).json["state"].items()}

    def test_steps_and_state(self):
        self.put("c", counter())
        self.assertEqual([7], self.steps("c", 7)["outputs"]["m"]["data"])
        self.assertEqual([8], self.steps("c", 1)["outputs"]["m"]["data"])
        self.assertEqual({"n": [8]}, self.state("c"))
        self.assertEqual(8, self.call("GET", f"{P}/c").json["steps"])
        self.put("c", counter())
        self.assertEqual({"n": [0]}, self.state("c"))

    def test_collect(self):
        self.put("s", counter())
        answer = self.steps("s", 100, collect={"every": 10, "outputs": ["m"]})
        self.assertEqual([10 * i for i in range(1, 11)], answer["collected"]["m"]["data"])
        self.assertEqual([10], answer["collected"]["m"]["shape"])
        answer = self.steps("s", 25, collect={"every": 10, "outputs": ["m"]})
        self.assertEqual([110, 120], answer["collected"]["m"]["data"])
        answer = self.steps("s", 3, collect={"every": 10, "outputs": ["m"]})
        self.assertEqual([0], answer["collected"]["m"]["shape"])
        file = self.call("POST", f"{P}/s/run", {"steps": 2, "collect": {"every": 1, "outputs": ["m"]}}, {"accept": SAFETENSORS})
        tensors, metadata = read_safetensors(self.ok(file).body)
        self.assertEqual(("F32", [2], struct.pack("<2f", 129, 130)), tensors["collected[m]"])
        self.assertIn("stats", json.loads(metadata["response"]))
        for every in (0, -1, 1.5, "1"):
            self.refused((400, 422), self.call("POST", f"{P}/s/run", {"steps": 2, "collect": {"every": every, "outputs": ["m"]}}))
        for steps in (0, -1, 1.5, 2**63, "1"):
            self.refused((400, 422), self.call("POST", f"{P}/s/run", {"steps": steps}))

    def test_entries_share_state(self):
        entries = {"up": {"inputs": {"by": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "m", "op": "add", "in": ["n", "by"]}],
                          "updates": {"n": "m"}, "outputs": ["m"]},
                   "look": {"inputs": {}, "nodes": [{"id": "v", "op": "mul", "in": ["n", 10]}], "outputs": ["v"]}}
        self.put("e", {"state": {"n": 1}, "entries": entries})
        self.assertEqual([4], self.steps("e", 1, entry="up", inputs={"by": 3})["outputs"]["m"]["data"])
        self.assertEqual([40], self.steps("e", 1, entry="look")["outputs"]["v"]["data"])
        self.assertEqual([4], self.state("e")["n"])
        self.refused((404, 422), self.call("POST", f"{P}/e/run", {"entry": "none"}))

    def test_state_there_and_back(self):
        self.put("b", counter(state={"n": {"dtype": "float32", "shape": [], "data": [5]}}))
        file = self.ok(self.call("GET", f"{P}/b/state", headers={"accept": SAFETENSORS})).body
        self.assertEqual({"n": ("F32", [], struct.pack("<f", 5))}, read_safetensors(file)[0])
        self.steps("b", 3)
        self.ok(self.call("PUT", f"{P}/b/state", file, {"content-type": SAFETENSORS}), 204)
        self.assertEqual([6], self.steps("b", 1)["outputs"]["m"]["data"])
        self.ok(self.call("PUT", f"{P}/b/state", {"state": {"n": 40}}), 204)
        self.assertEqual([41], self.steps("b", 1)["outputs"]["m"]["data"])
        for bad in ({}, {"state": {}}, {"state": {"n": [1, 2]}}, {"state": {"n": 1, "x": 1}}, {"state": {"n": "x"}}, {"x": 1}):
            self.refused((400, 422), self.call("PUT", f"{P}/b/state", bad))
        self.assertEqual([41], self.state("b")["n"])

    def test_state_from_a_file_and_from_held_tensors(self):
        document = json.dumps({k: v for k, v in counter().items() if k != "state"})
        file = safetensors({"n": ("F32", [], struct.pack("<f", 9))}, {"request": document})
        self.ok(self.call("PUT", f"{P}/f", file, {"content-type": SAFETENSORS}), 201)
        self.assertEqual([10], self.steps("f", 1)["outputs"]["m"]["data"])
        self.ok(self.call("PUT", "/api/v1/tensors/seven", {"dtype": "float32", "shape": [], "data": [7]}), 201)
        self.put("h", counter(state={"n": {"tensor": "seven"}}))
        self.assertEqual([8], self.steps("h", 1)["outputs"]["m"]["data"])
        self.assertEqual([7], self.call("GET", "/api/v1/tensors/seven").json["data"])
        look = {"inputs": {}, "state": {"n": {"tensor": "seven", "share": True}}, "nodes": [{"id": "v", "op": "neg", "in": ["n"]}], "outputs": ["v"]}
        self.put("r", look)
        self.ok(self.call("DELETE", "/api/v1/tensors/seven"), 204)
        self.assertEqual([-7], self.steps("r", 1)["outputs"]["v"]["data"])
        self.refused((404, 422), self.call("PUT", f"{P}/x", counter(state={"n": {"tensor": "seven"}})))

    def test_shared_state_is_read_only(self):
        self.ok(self.call("PUT", "/api/v1/tensors/one", {"dtype": "float32", "shape": [], "data": [1]}), 201)
        self.refused(422, self.call("PUT", f"{P}/x", counter(state={"n": {"tensor": "one", "share": True}})))

    def test_initialisers(self):
        shape = {"shape": [4, 8], "seed": 1}
        self.put("i", {"inputs": {}, "state": {"a": {"op": "kaiming_uniform", "attrs": shape}, "b": {"op": "kaiming_uniform", "attrs": shape},
                                               "c": {"op": "kaiming_uniform", "attrs": {"shape": [4, 8], "seed": 2}},
                                               "o": {"op": "ones", "attrs": {"shape": [3]}}},
                       "nodes": [{"id": "s", "op": "sum", "in": ["a"]}], "outputs": ["s"]})
        state = self.state("i")
        self.assertEqual(state["a"], state["b"])
        self.assertNotEqual(state["a"], state["c"])
        self.assertEqual([1, 1, 1], state["o"])
        self.assertEqual(32, len(set(state["a"])))
        self.refused((400, 422), self.call("PUT", f"{P}/x", {"inputs": {}, "state": {"a": {"op": "matmul", "attrs": {}}}, "nodes": [], "outputs": []}))

    def test_an_optimiser_remembers(self):
        document = {"inputs": {}, "state": {"w": [1, 2]},
                    "entries": {"train": {"inputs": {}, "nodes": [{"id": "q", "op": "mul", "in": ["w", "w"]}, {"id": "l", "op": "sum", "in": ["q"]},
                                                                  {"id": ["v"], "op": "adam", "in": ["l", "w"], "attrs": {"lr": 0.1}}],
                                          "updates": {"w": "v"}, "outputs": ["l"]}}}
        del document["inputs"]
        self.put("o", document)
        names = set(self.state("o"))
        self.assertEqual({"w", "v.m.w", "v.v.w", "v.step"}, names - {"rng"})
        first = self.steps("o", 1, entry="train")["outputs"]["l"]["data"][0]
        self.assertLess(self.steps("o", 200, entry="train")["outputs"]["l"]["data"][0], first / 10)

    def test_random_state_is_saved(self):
        document = {"inputs": {}, "state": {"w": [0, 0]}, "nodes": [{"id": "r", "op": "uniform", "in": [], "attrs": {"shape": [2]}}],
                    "updates": {"w": "r"}, "outputs": ["r"], "seed": 3}
        self.put("r1", document)
        saved = self.call("GET", f"{P}/r1/state").json
        first = [self.steps("r1", 1)["outputs"]["r"]["data"] for _ in range(3)]
        self.assertEqual(3, len({tuple(v) for v in first}))
        self.ok(self.call("PUT", f"{P}/r1/state", saved), 204)
        self.assertEqual(first, [self.steps("r1", 1)["outputs"]["r"]["data"] for _ in range(3)])

    def test_if_none_match(self):
        self.ok(self.call("PUT", f"{P}/n", json.dumps(counter()), {**JSON, "if-none-match": "*"}), 201)
        self.refused(412, self.call("PUT", f"{P}/n", json.dumps(counter()), {**JSON, "if-none-match": "*"}))
        self.put("n", counter(), (200,))

    def test_errors_come_when_it_is_put(self):
        bad = counter(nodes=[{"id": "m", "op": "add", "in": ["n", "z"]}, {"id": "z", "op": "matmul", "in": ["n", "n"]}])
        problem = self.refused(422, self.call("PUT", f"{P}/bad", bad))
        self.assertEqual("z", problem["node"])
        self.refused(404, self.call("GET", f"{P}/bad"))
        self.refused(422, self.call("PUT", f"{P}/bad", counter(updates={"none": "m"})))
        wrong = counter(nodes=[{"id": "m", "op": "expand", "in": ["n"], "attrs": {"shape": [2]}}])
        self.refused(422, self.call("PUT", f"{P}/bad", wrong))

    def test_runs_of_one_program_take_turns(self):
        self.put("t", counter())
        seen, threads = [], []
        for _ in range(16):
            threads.append(threading.Thread(target=lambda: seen.append(self.steps("t", 50, collect={"every": 1, "outputs": ["m"]}))))
            threads[-1].start()
        for thread in threads:
            thread.join()
        series = sorted(s["collected"]["m"]["data"] for s in seen)
        for i, one in enumerate(series):  # no run saw the steps of another run between its own
            self.assertEqual(list(range(50 * i + 1, 50 * i + 51)), [int(v) for v in one])

    def test_long_runs_let_others_in(self):
        self.put("long", counter())
        self.put("short", counter())
        long = threading.Thread(target=lambda: self.call("POST", f"{P}/long/run", {"steps": SLOW_STEPS, "timeout_ms": 3000}))
        long.start()
        time.sleep(0.3)
        begin = time.monotonic()
        self.steps("short", 1)
        self.assertLess(time.monotonic() - begin, 1.5)
        long.join()

    def test_replaced_and_deleted_while_running(self):
        self.put("gone", counter())
        answers = []
        run = threading.Thread(target=lambda: answers.append(self.call("POST", f"{P}/gone/run", {"steps": SLOW_STEPS, "timeout_ms": 1000})))
        run.start()
        time.sleep(0.2)
        self.put("gone", counter(), (200,))
        self.assertEqual({"n": [0]}, self.state("gone"))
        self.ok(self.call("DELETE", f"{P}/gone"), 204)
        run.join()
        self.assertEqual(504, answers[0].status)
        self.assertGreater(answers[0].json["step"], 0)
        self.refused(404, self.call("GET", f"{P}/gone"))
        self.assertIsNotNone(self.server.metric("held_bytes"))

    def lease(self, ttl=60):
        return self.ok(self.call("POST", "/api/v1/leases", {"ttl": ttl}), 201).json["lease"]

    def test_a_lease_takes_its_programs_along(self):
        mine, other = self.lease(), self.lease()
        before = self.server.metric("programs")
        for name, lease in (("m1", mine), ("m2", mine), ("o1", other)):
            self.put(name, counter(lease=lease))
        self.put("nobody", counter())
        self.put("taken", counter(lease=mine))
        self.put("taken", counter(), (200,))  # no longer belongs to a lease
        self.assertEqual([1], self.steps("m1", 1, lease=mine)["outputs"]["m"]["data"])
        self.ok(self.call("DELETE", f"/api/v1/leases/{mine}"), 204)
        for name, there in (("m1", False), ("m2", False), ("o1", True), ("nobody", True), ("taken", True)):
            self.assertEqual(200 if there else 404, self.call("GET", f"{P}/{name}").status, name)
        self.assertEqual(before + 3, self.server.metric("programs"))
        self.refused(404, self.call("PUT", f"{P}/late", counter(lease=mine)))
        self.refused(404, self.call("GET", f"{P}/late"))

    def test_t23_programs_of_a_client_that_died_go_too(self):
        lease = self.lease(0.4)
        held = self.server.metric("held_bytes")
        self.put("orphan", counter(lease=lease))
        self.assertGreater(self.server.metric("held_bytes"), held)
        until = time.monotonic() + 10
        while self.call("GET", f"{P}/orphan").status == 200 and time.monotonic() < until:
            time.sleep(0.1)
        self.refused(404, self.call("GET", f"{P}/orphan"))
        self.assertEqual(held, self.server.settled("held_bytes", held))

    def test_a_run_outlives_the_lease_of_its_program(self):
        lease = self.lease()
        self.put("busy", counter(lease=lease))
        answers = []
        run = threading.Thread(target=lambda: answers.append(self.call("POST", f"{P}/busy/run", {"steps": SLOW_STEPS, "timeout_ms": 1000})))
        run.start()
        time.sleep(0.2)
        self.ok(self.call("DELETE", f"/api/v1/leases/{lease}"), 204)
        run.join()
        self.assertEqual((504, True), (answers[0].status, answers[0].json["step"] > 0))

    def test_profile(self):
        # a graph that no other test uses, since plans and their times are shared
        self.put("prof", {"state": {"w": [0] * 37}, "nodes": [{"id": "w1", "op": "add", "in": ["w", 1]}], "updates": {"w": "w1"}, "outputs": ["w1"]})
        profile = lambda: self.call("GET", f"{P}/prof").json["entries"]["main"]["profile"]  # noqa: E731
        self.assertEqual([], profile())
        for _ in range(2):  # the first run of a plan is never timed
            self.steps("prof", 2)
        rows = profile()
        self.assertGreater(rows[0]["us"], 0)
        self.assertEqual(1, rows[0]["launches"])
        self.assertFalse(rows[0]["helper"])
        self.assertGreater(rows[0]["gbyte_s"], 0)

    def test_sizes(self):
        """A dimension that no shape names: one plan serves the whole range."""
        nodes = [{"id": "part", "op": "shrink", "in": ["x"], "attrs": {"ranges": [["i", "i + 2"]]}},
                 {"id": "first", "op": "shrink", "in": ["x"], "attrs": {"ranges": [[0, "2 * i + 1"]]}},
                 {"id": "sum", "op": "sum", "in": ["first"]},
                 {"id": "i3", "op": "full", "in": [], "attrs": {"shape": [], "value": "(i + 3) * 2 // 3 - i % 2", "dtype": "int64"}},
                 {"id": "made", "op": "arange", "in": [], "attrs": {"start": "i", "stop": "i + 2", "dtype": "int32"}}]
        document = {"inputs": {"x": {"dtype": "float32", "shape": [9]}}, "dims": {"i": [0, 4]}, "nodes": nodes,
                    "outputs": ["part", "sum", "i3", "made", "first"]}
        self.put("sized", document)
        x = list(range(10, 19))
        for i in range(5):
            answer = self.steps("sized", 1, inputs={"x": x}, sizes={"i": i})
            got = {name: value["data"] for name, value in answer["outputs"].items()}
            self.assertEqual({"part": x[i:i + 2], "sum": [sum(x[:2 * i + 1])], "i3": [(i + 3) * 2 // 3 - i % 2], "made": [i, i + 1],
                              "first": x[:2 * i + 1]}, got)
            self.assertEqual("cached", answer["stats"]["plan"])
            run = {**document, "inputs": {"x": x}, "sizes": {"i": i}}
            self.assertEqual(got, {name: value["data"] for name, value in self.ok(self.call("POST", "/api/v1/run", run)).json["outputs"].items()})
        for sizes in ({}, {"i": 5}, {"i": -1}, {"i": 1.5}, {"i": "1"}, {"j": 1}, {"i": 1, "j": 1}, [1], {"i": 2**62}):
            self.refused((400, 422), self.call("POST", f"{P}/sized/run", {"inputs": {"x": x}, "sizes": sizes}))
        for bad in ("i +", "* i", "(i", "i)", "i 2", "j", "i // 0", "i // (i)", "(" * 50 + "i" + ")" * 50, "9" * 30, "", "i+1", "--1", "1e3",
                    " * ".join(["9" * 18] * 9)):
            wrong = [{"id": "y", "op": "reshape", "in": ["x"], "attrs": {"shape": [bad, -1]}}]
            problem = self.refused(422, self.call("PUT", f"{P}/x", {**document, "dims": {}, "nodes": wrong, "outputs": ["y"]}))
            self.assertEqual("y", problem["node"], problem)
        far = {**document, "dims": {"i": [0, 8]}}
        self.assertIn("not inside", self.refused(422, self.call("PUT", f"{P}/x", far))["detail"])

    def test_steps_need_no_recompile(self):
        self.put("k", counter())
        self.assertEqual("cached", self.steps("k", 3)["stats"]["plan"])


if __name__ == "__main__":
    unittest.main()
