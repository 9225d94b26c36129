# SPDX-License-Identifier: MIT
"""Jobs: submission, observation and cancellation; reports as events and as a history."""

import http.client
import json
import select
import socket
import struct
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from fixture import SAFETENSORS, SLOW_STEPS, Server, ServerTest, counter, head, read_safetensors, safetensors
from test_residents import VULKAN, has_vulkan
from training_jobs import J, POINTS, events, judge, line, noisy, noisy_inputs, wait

P = "/api/v1/programs"


class Jobs(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(env={"BEAMLINE_STATE": cls.folder.name})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def put(self, name, document):
        self.assertIn(self.call("PUT", f"{P}/{name}", document).status, (200, 201))

    def submit(self, program, **members):
        answer = self.ok(self.call("POST", J, {"program": program, **members}), 202)
        self.assertEqual(f"{J}/{answer.json['job']}", answer.headers["location"])
        self.addCleanup(self.cancel, answer.json["job"])  # a running job would delay the jobs of other tests
        return answer.json["job"]

    def cancel(self, job):
        answer = self.call("DELETE", f"{J}/{job}")
        self.assertIn(answer.status, (200, 202, 404))  # 404: the job was removed
        return wait(self.server, job) if answer.status != 404 else None

    def test_the_contract(self):
        self.put("line", line())
        job = self.submit("line", inputs=POINTS, steps=3000, collect={"every": 100, "outputs": ["loss"]})
        done = wait(self.server, job)
        self.assertEqual(("done", 3000, 3000, ""), tuple(done[k] for k in ("state", "step", "steps", "reason")))
        self.assertGreaterEqual(done["ended"], done["started"])
        state = self.call("GET", f"{P}/line/state").json["state"]
        self.assertAlmostEqual(2, state["w"]["data"][0], 2)
        self.assertEqual([3000], state["w1.step"]["data"])
        self.assertIn(job, [j["job"] for j in self.call("GET", J).json["jobs"]])
        # a run of the same steps gives the same results
        self.put("again", line())
        run = self.ok(self.call("POST", f"{P}/again/run", {"inputs": POINTS, "steps": 3000, "collect": {"every": 100, "outputs": ["loss"]}}))
        self.assertEqual(state, self.call("GET", f"{P}/again/state").json["state"])
        history = self.ok(self.call("GET", f"{J}/{job}/history")).json
        self.assertEqual(["step", "time", "loss"], history["columns"])
        self.assertEqual(run.json["collected"]["loss"]["data"], [row[2] for row in history["rows"]])
        self.assertEqual(list(range(100, 3001, 100)), [row[0] for row in history["rows"]])

    def test_history_as_csv(self):
        self.put("csv", counter(nodes=[{"id": "m", "op": "add", "in": ["n", 1]}, {"id": "bad", "op": "div", "in": ["m", 0.0]},
                                       {"id": "two", "op": "stack", "in": ["m", "bad"]}], outputs=["m", "bad", "two"]))
        job = self.submit("csv", inputs={}, steps=5, collect={"every": 2, "outputs": ["m", "bad", "two"]})
        wait(self.server, job)
        for answer in (self.call("GET", f"{J}/{job}/history?format=csv"), self.call("GET", f"{J}/{job}/history", headers={"accept": "text/csv"})):
            self.assertEqual("text/csv", self.ok(answer).type)
            lines = answer.body.decode().split("\r\n")
            self.assertEqual("step,time,m,bad,two", lines[0])
            self.assertRegex(lines[1], r"^2,\d+\.\d{3},2,Infinity,\"\[2,'Infinity'\]\"$")
            self.assertEqual(4, len(lines))
        rows = self.call("GET", f"{J}/{job}/history?from=3").json["rows"]
        self.assertEqual([[4, 4, "Infinity", [4, "Infinity"]]], [[row[0], *row[2:]] for row in rows])
        self.assertEqual(1, len(self.call("GET", f"{J}/{job}/history?limit=1").json["rows"]))
        for query in ("from=x", "from=-1", "limit=1.5", "format=xml", "other=1"):
            self.refused(400, self.call("GET", f"{J}/{job}/history?{query}"))

    def test_events(self):
        self.put("told", counter())
        job = self.submit("told", inputs={}, steps=400, collect={"every": 100, "outputs": ["m"]})
        answer = self.ok(self.call("GET", f"{J}/{job}/events"))
        self.assertEqual("text/event-stream", answer.type)
        told = events(answer.body)
        reports = [(number, document["step"], document["metrics"]) for name, number, document in told if name == "message"]
        self.assertEqual([(str(n), n, {"m": n}) for n in (100, 200, 300, 400)], reports)
        self.assertEqual("state", told[0][0])
        self.assertEqual(("state", "done"), (told[-1][0], told[-1][2]["state"]))
        resumed = events(self.call("GET", f"{J}/{job}/events", headers={"last-event-id": "200"}).body)
        self.assertEqual(["300", "400"], [number for name, number, _ in resumed if name == "message"])
        self.assertEqual(204, self.call("GET", f"{J}/{job}/events", headers={"last-event-id": "400"}).status)
        self.refused(400, self.call("GET", f"{J}/{job}/events", headers={"last-event-id": "x"}))

    def test_t27_a_client_that_vanishes(self):
        self.put("watched", counter())
        job = self.submit("watched", inputs={}, steps=SLOW_STEPS, collect={"every": 1000, "outputs": ["m"]})
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
                sock.sendall(head("GET", f"{J}/{job}/events"))
                sock.settimeout(30)
                told = b""
                while b"event: state" not in told:
                    told += sock.recv(65536)
                self.assertEqual(1, self.server.settled("streams", 1))
            self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual("running", self.call("GET", f"{J}/{job}").json["state"])
        self.cancel(job)

    def test_t27_connections_of_streams_end(self):
        """The streams end even if their HTTP threads are otherwise idle, and on older connections."""
        self.put("followed", counter())
        job = self.submit("followed", inputs={}, steps=SLOW_STEPS)
        wait(self.server, job, ("running",))
        idle = [http.client.HTTPConnection("127.0.0.1", self.server.port) for _ in range(2)]
        for connection in idle:
            connection.request("GET", f"{J}/{job}")
            connection.getresponse().read()
        for reset in (False, True):
            with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
                sock.sendall(head("GET", f"{J}/{job}/events"))
                sock.recv(65536)
                self.assertEqual(1, self.server.settled("streams", 1))
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.assertEqual(0, self.server.settled("streams", 0))
            self.assertEqual(3, self.server.settled("connections", 3))
        for connection in idle:
            connection.close()
        self.cancel(job)

    def test_t27_a_slow_reader_holds_up_nobody(self):
        self.put("fast", counter())
        job = self.submit("fast", inputs={}, steps=200000, collect={"every": 1, "outputs": ["m"]})
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", self.server.port))
            sock.sendall(head("GET", f"{J}/{job}/events"))
            self.assertEqual("done", wait(self.server, job, seconds=120)["state"])
        rows = self.call("GET", f"{J}/{job}/history?from=199999").json["rows"]
        self.assertEqual([199999, 200000], [row[2] for row in rows])
        self.assertEqual(200000, len(self.call("GET", f"{J}/{job}/history", timeout=60).json["rows"]))

    def test_cancel(self):
        self.put("long", counter())
        job = self.submit("long", inputs={}, steps=SLOW_STEPS)
        wait(self.server, job, ("running",))
        time.sleep(0.2)
        ended = self.cancel(job)
        self.assertEqual("cancelled", ended["state"])
        self.assertLess(ended["step"], SLOW_STEPS)
        self.assertEqual([ended["step"]], self.call("GET", f"{P}/long/state").json["state"]["n"]["data"])
        self.ok(self.call("DELETE", f"{J}/{job}"), 200)
        self.refused(400, self.call("DELETE", f"{J}/{job}?remove=perhaps"))
        self.ok(self.call("DELETE", f"{J}/{job}?remove=true"), 204)
        self.refused(404, self.call("GET", f"{J}/{job}"))
        self.refused(404, self.call("GET", f"{J}/{job}/events"))

    def test_checkpoints(self):
        self.put("kept", counter())
        job = self.submit("kept", inputs={}, steps=100, checkpoint={"every": 10, "keep": 2})
        done = wait(self.server, job)
        self.assertEqual([90, 100], [mark["step"] for mark in done["checkpoints"]])
        for name, value in (("90", 90), ("100", 100), ("last", 100)):
            file = self.ok(self.call("GET", f"{J}/{job}/checkpoints/{name}"))
            self.assertEqual(SAFETENSORS, file.type)
            self.assertEqual(done["checkpoints"][0]["bytes"], len(file.body))
            self.assertEqual(struct.pack("<f", value), read_safetensors(file.body)[0]["n"][2])
        self.ok(self.call("PUT", f"{P}/kept/state", self.call("GET", f"{J}/{job}/checkpoints/90").body, {"content-type": SAFETENSORS}), 204)
        self.assertEqual([90], self.call("GET", f"{P}/kept/state").json["state"]["n"]["data"])
        for name in ("80", "0", "x", "090", "%2e%2e"):
            self.refused(404, self.call("GET", f"{J}/{job}/checkpoints/{name}"))
        aged = self.submit("kept", inputs={}, steps=SLOW_STEPS, checkpoint={"seconds": 0.1, "keep": 1000, "max_age": 0.35})
        time.sleep(1.2)
        done = self.cancel(aged)
        self.assertGreater(done["checkpoints"][0]["step"], 0)  # the first checkpoint was removed as too old

    def test_nobody_interferes(self):
        """While a job trains a program, others may read the program but not change it."""
        self.put("mine", {"state": {"n": 0}, "entries": {
            "up": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
            "look": {"inputs": {}, "nodes": [{"id": "v", "op": "mul", "in": ["n", 1]}], "outputs": ["v"]}}})
        job = self.submit("mine", entry="up", inputs={}, steps=SLOW_STEPS)
        wait(self.server, job, ("running",))
        seen, give_up = [], time.monotonic() + 60
        while len(seen) < 5 or (seen[-1] == seen[0] and time.monotonic() < give_up):
            seen.append(self.ok(self.call("POST", f"{P}/mine/run", {"entry": "look", "inputs": {}})).json["outputs"]["v"]["data"][0])
        self.assertEqual(sorted(seen), seen)
        self.assertGreater(seen[-1], seen[0])
        self.ok(self.call("GET", f"{P}/mine/state"))
        self.refused(409, self.call("POST", f"{P}/mine/run", {"entry": "up", "inputs": {}}))
        self.refused(409, self.call("PUT", f"{P}/mine/state", {"state": {"n": 0}}))
        self.refused(409, self.call("PUT", f"{P}/mine", counter()))
        self.refused(409, self.call("DELETE", f"{P}/mine"))
        self.refused(409, self.call("POST", J, {"program": "mine", "entry": "up", "inputs": {}, "steps": 1}))
        self.refused(409, self.call("DELETE", f"{J}/{job}?remove=true"))
        self.cancel(job)
        self.ok(self.call("POST", f"{P}/mine/run", {"entry": "up", "inputs": {}}))
        self.ok(self.call("DELETE", f"{P}/mine"), 204)

    def test_runs_get_their_turn(self):
        self.put("busy", counter())
        job = self.submit("busy", inputs={}, steps=SLOW_STEPS)
        wait(self.server, job, ("running",))
        begin = time.monotonic()
        for _ in range(20):
            self.ok(self.call("POST", "/api/v1/run", {"inputs": {"x": [1]}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]}))
        self.assertLess(time.monotonic() - begin, 10)
        self.cancel(job)

    def test_one_that_waits_is_cancelled_there(self):
        for name in ("first", "low"):
            self.put(name, counter())
        first = self.submit("first", inputs={}, steps=SLOW_STEPS)
        wait(self.server, first, ("running",))
        low = self.submit("low", inputs={}, steps=10)
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(self.call, "GET", f"{J}/{low}/events", timeout=60)
            self.assertEqual(1, self.server.settled("streams", 1))
            ended = self.cancel(low)
            states = [document["state"] for name, _, document in events(told.result().body) if name == "state"]
        self.assertEqual(("cancelled", 0, "cancelled after step 0", None), tuple(ended.get(k) for k in ("state", "step", "reason", "started")))
        self.assertEqual([0], [one["step"] for one in ended["checkpoints"]])
        self.assertEqual(["queued", "cancelled"], states)
        self.assertEqual([0], self.call("GET", f"{P}/low/state").json["state"]["n"]["data"])
        self.assertEqual("running", self.call("GET", f"{J}/{first}").json["state"])
        ended = self.cancel(first)
        marks = [one["step"] for one in ended["checkpoints"]]
        self.assertEqual((sorted(set(marks)), ended["step"]), (marks, marks[-1]))

    def test_priorities(self):
        for name in ("first", "low", "high"):
            self.put(name, counter())
        first = self.submit("first", inputs={}, steps=SLOW_STEPS)
        low = self.submit("low", inputs={}, steps=10)
        self.assertEqual("queued", wait(self.server, low, ("queued", "done"))["state"])
        high = self.submit("high", inputs={}, steps=10, priority=-5)
        self.assertEqual("done", wait(self.server, high)["state"])
        self.assertEqual("queued", self.call("GET", f"{J}/{low}").json["state"])
        self.cancel(first)
        self.assertEqual("done", wait(self.server, low)["state"])

    def test_evaluation(self):
        self.put("both", noisy())
        inputs = noisy_inputs()
        job = self.submit("both", entry="train", inputs=inputs, steps=40, collect={"every": 5, "outputs": ["loss"]},
                          evaluate={"entry": "test", "inputs": inputs, "every": 10, "outputs": ["loss"]})
        wait(self.server, job)
        history = self.call("GET", f"{J}/{job}/history").json
        self.assertEqual(["step", "time", "loss", "evaluate.loss"], history["columns"])
        self.assertEqual([(n, n % 10 == 0) for n in range(5, 41, 5)], [(row[0], row[3] is not None) for row in history["rows"]])
        now = self.ok(self.call("POST", f"{P}/both/run", {"entry": "test", "inputs": inputs})).json["outputs"]["loss"]["data"][0]
        self.assertEqual(now, history["rows"][-1][3])
        # the evaluation does not use the random numbers of the training
        self.put("alone", noisy())
        self.ok(self.call("POST", f"{P}/alone/run", {"entry": "train", "inputs": inputs, "steps": 40}))
        self.assertEqual(self.call("GET", f"{P}/alone/state").json, self.call("GET", f"{P}/both/state").json)

    def rows(self, job):
        return self.ok(self.call("GET", f"{J}/{job}/history")).json["rows"]

    def test_another_program_evaluates(self):
        """An evaluating program gives the same results as an entry of the trained program; both programs stay independent."""
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 40, "collect": {"every": 5, "outputs": ["loss"]}}
        self.put("itself", noisy())
        job = self.submit("itself", **members, evaluate={"entry": "test", "inputs": inputs, "every": 10, "outputs": ["loss"]})
        wait(self.server, job)
        wanted = [[row[0], *row[2:]] for row in self.rows(job)]
        trained = self.call("GET", f"{P}/itself/state").json
        self.put("judge", judge(scale=3))
        before = self.call("GET", f"{P}/judge/state").json
        for entry in ("test", "drop"):
            self.put("judged", noisy())
            job = self.submit("judged", **members, evaluate={"program": "judge", "entry": entry, "inputs": inputs, "every": 10,
                                                             "outputs": ["loss", "scaled", "runs"]})
            self.assertEqual("done", wait(self.server, job)["state"])
            history = self.call("GET", f"{J}/{job}/history").json
            self.assertEqual(["step", "time", "loss", "evaluate.loss", "evaluate.scaled", "evaluate.runs"], history["columns"])
            found = [[row[0], *row[2:]] for row in history["rows"]]
            self.assertEqual([row[:2] for row in wanted], [row[:2] for row in found])
            for was, now in zip(wanted, found):
                if was[0] % 10 != 0:
                    self.assertEqual([None] * 3, now[2:])
                    continue
                self.assertAlmostEqual(3 * now[2], now[3], 5)
                self.assertEqual(1, now[4])  # the evaluation's state changes are dropped
                if entry == "test":
                    self.assertAlmostEqual(was[2], now[2], 6)
                else:
                    self.assertNotEqual(was[2], now[2])
            self.assertEqual(trained, self.call("GET", f"{P}/judged/state").json)
            self.assertEqual(before, self.call("GET", f"{P}/judge/state").json)

    def watch(self, **members):
        """Returns a program that reads the state of a counter and multiplies it by its own factor."""
        look = {"inputs": {}, "nodes": [{"id": "v", "op": "mul", "in": ["n", "by"]}], "outputs": ["v"]}
        more = {"inputs": {}, "nodes": [{"id": "b", "op": "add", "in": ["by", 1]}], "updates": {"by": "b"}, "outputs": ["b"]}
        draw = {"inputs": {}, "nodes": [{"id": "u", "op": "uniform", "attrs": {"shape": []}}, {"id": "z", "op": "mul", "in": ["n", 0]},
                                        {"id": "v", "op": "add", "in": ["u", "z"]}], "outputs": ["v"]}
        return {"state": {"by": 10.0, "n": {"dtype": "float32", "shape": []}}, "entries": {"look": look, "more": more, "draw": draw}, **members}

    def test_that_program_stays_what_it_was(self):
        """The job's evaluation does not change after a run of the evaluating program, a change of its state, its replacement,
        or its deletion."""
        held = self.server.metric("held_bytes")
        self.put("counted", counter())
        self.put("watch", self.watch())
        job = self.submit("counted", inputs={}, steps=SLOW_STEPS, collect={"every": 1000, "outputs": ["m"]},
                          evaluate={"program": "watch", "entry": "look", "every": 1000, "outputs": ["v"]})
        changes = (lambda: self.ok(self.call("POST", f"{P}/watch/run", {"entry": "more", "steps": 100})),
                   lambda: self.ok(self.call("PUT", f"{P}/watch/state", {"state": {**self.call("GET", f"{P}/watch/state").json["state"], "by": 7}}), 204),
                   lambda: self.put("watch", counter()), lambda: self.ok(self.call("DELETE", f"{P}/watch"), 204))
        for change in changes:
            change()
            step, end = self.call("GET", f"{J}/{job}").json["step"], time.monotonic() + 60
            while self.call("GET", f"{J}/{job}").json["step"] < step + 5000:
                self.assertLess(time.monotonic(), end)
        self.assertEqual("cancelled", self.cancel(job)["state"])
        rows = self.rows(job)
        self.assertGreaterEqual(len(rows), 20)
        self.assertEqual([], [row for row in rows if abs(row[3] - 10 * row[2]) > 1e-6 * row[3]])
        self.ok(self.call("DELETE", f"{P}/counted"), 204)
        self.assertLessEqual(self.server.settled("held_bytes", held), held)

    def test_its_own_random_numbers(self):
        """If the trained program draws none, each evaluation draws the next numbers of the evaluating program."""
        self.put("tells", counter())
        self.put("draws", self.watch())
        job = self.submit("tells", inputs={}, steps=50, evaluate={"program": "draws", "entry": "draw", "every": 10, "outputs": ["v"]})
        wait(self.server, job)
        drawn = self.ok(self.call("POST", f"{P}/draws/run", {"entry": "draw"})).json["outputs"]["v"]["data"][0]
        self.assertEqual([drawn] * 5, [row[2] for row in self.rows(job)])

    def test_early_stop_on_another_program(self):
        self.put("stopped", counter())
        self.put("stops", self.watch())
        for mode, last in (("min", 40), ("max", 100)):
            self.put("stopped", counter())
            job = self.submit("stopped", inputs={}, steps=100, early_stop={"metric": "evaluate.v", "patience": 3, "mode": mode},
                              evaluate={"program": "stops", "entry": "look", "every": 10, "outputs": ["v"]})
            done = wait(self.server, job)
            self.assertEqual(("done", last), (done["state"], done["step"]))
            self.assertEqual([10 * step for step in range(10, last + 1, 10)], [row[2] for row in self.rows(job)])

    def test_the_trained_program_by_its_name(self):
        self.put("same", noisy())
        inputs = noisy_inputs()
        job = self.submit("same", entry="train", inputs=inputs, steps=10, evaluate={"program": "same", "entry": "test", "inputs": inputs, "every": 5, "outputs": ["loss"]})
        wait(self.server, job)
        now = self.ok(self.call("POST", f"{P}/same/run", {"entry": "test", "inputs": inputs})).json["outputs"]["loss"]["data"][0]
        self.assertEqual(now, self.rows(job)[-1][2])

    def test_what_cannot_evaluate(self):
        """Each invalid evaluation is refused with the state and the rule, and the trained program is released."""
        lease = self.ok(self.call("POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"]
        self.put("free", counter())
        wide = {"n": {"dtype": "float32", "shape": [2]}}
        for status, words, document, members in (
                (422, ('state "n" is float32[2] in "bad" and float32[] in "free"', "the same dtype and shape"), self.watch(state={"by": 1.0, **wide}), {}),
                (422, ('state "n" is int32[] in', "the same dtype and shape"), self.watch(state={"by": {"dtype": "int32", "shape": []}, "n": {"dtype": "int32", "shape": []}}), {}),
                (422, ("no state of the same name",), counter(state={"k": 0}, nodes=[{"id": "v", "op": "add", "in": ["k", 1]}], updates={}, outputs=["v"]), {"entry": "main"}),
                (422, ("belongs to a lease",), self.watch(lease=lease), {}), (422, ("none",), self.watch(), {"entry": "none"}),
                (422, ("nothing",), self.watch(), {"outputs": ["nothing"]}), (400, ("program",), self.watch(), {"program": 5}),
                (404, ('there is no program "absent"',), self.watch(), {"program": "absent"})):
            with self.subTest(words=words):
                self.put("bad", document)
                evaluate = {"program": "bad", "entry": "look", "every": 1, "outputs": ["v"], **members}
                problem = self.refused(status, self.call("POST", J, {"program": "free", "inputs": {}, "steps": 5, "evaluate": evaluate}))
                for word in words:
                    self.assertIn(word, problem["detail"])
        self.ok(self.call("POST", f"{P}/free/run", {"inputs": {}}))

    def test_one_on_another_device_cannot_evaluate(self):
        devices = [device["id"] for device in self.ok(self.call("GET", "/api/v1/devices")).json["devices"]]
        if len(devices) < 2:
            self.skipTest("needs two devices")
        self.put("here", counter(device=devices[0]))
        self.put("there", self.watch(device=devices[1]))
        evaluate = {"program": "there", "entry": "look", "every": 1, "outputs": ["v"]}
        problem = self.refused(422, self.call("POST", J, {"program": "here", "inputs": {}, "steps": 5, "evaluate": evaluate}))
        self.assertIn(f'"there" is on {devices[1]}', problem["detail"])
        self.assertIn(f"trains on {devices[0]}", problem["detail"])

    def test_early_stop(self):
        """A counter's metric that always worsens, or improves."""
        rows = (("min", 0, 40), ("max", 0, 100), ("max", 10, 100), ("max", 35, 40))
        for i, (mode, delta, last) in enumerate(rows):
            self.put(f"stop{i}", counter())
            job = self.submit(f"stop{i}", inputs={}, steps=100, collect={"every": 10, "outputs": ["m"]},
                              early_stop={"metric": "m", "patience": 3, "mode": mode, "min_delta": delta - 0.5 if delta == 10 else delta})
            done = wait(self.server, job)
            self.assertEqual(("done", last), (done["state"], done["step"]), (mode, delta))
            self.assertEqual(last == 40, "not better" in done["reason"])

    def followed(self):
        """Returns a line fitted by Adam, with a running mean of its parameter."""
        program = line()
        program["state"]["slow"] = [0]
        program["nodes"] += [{"id": "old", "op": "mul", "in": ["slow", 0.5]}, {"id": "new", "op": "mul", "in": ["w1", 0.5]},
                             {"id": "slow1", "op": "add", "in": ["old", "new"]}]
        program["updates"]["slow"] = "slow1"
        return program

    def test_accumulate(self):
        """Four passes over the same points equal one step, since their mean is exact.  States that depend on the parameters
        also update once per step."""
        self.put("steps", self.followed())
        self.ok(self.call("POST", f"{P}/steps/run", {"inputs": POINTS, "steps": 30}))
        self.put("passes", self.followed())
        job = self.submit("passes", inputs=POINTS, steps=122, accumulate=4, collect={"every": 3, "outputs": ["loss"]})
        self.assertEqual("done", wait(self.server, job)["state"])
        self.assertEqual(self.call("GET", f"{P}/steps/state").json, self.call("GET", f"{P}/passes/state").json)
        rows = self.call("GET", f"{J}/{job}/history").json["rows"]
        self.assertEqual(list(range(3, 121, 3)), [row[0] for row in rows])
        self.assertEqual(rows[2][2], rows[3][2])  # passes 9 and 12 belong to one step
        self.assertNotEqual(rows[3][2], rows[4][2])

    def test_accumulated_batches(self):
        """Passes over different batches: the step uses the mean of their gradients."""
        program = {"inputs": {}, "state": {"w": [0.0]}, "nodes": [
            {"id": "r", "op": "uniform", "attrs": {"shape": [1]}}, {"id": "p", "op": "mul", "in": ["w", "r"]}, {"id": "loss", "op": "sum", "in": ["p"]},
            {"id": ["w1"], "op": "sgd", "in": ["loss", "w"], "attrs": {"lr": 1.0}}], "updates": {"w": "w1"}, "outputs": ["r"]}
        self.put("draws", program)
        job = self.submit("draws", inputs={}, steps=8, accumulate=8, collect={"every": 1, "outputs": ["r"]})
        wait(self.server, job)
        drawn = [row[2] for row in self.call("GET", f"{J}/{job}/history").json["rows"]]
        self.assertEqual(8, len(set(drawn)))
        self.assertAlmostEqual(-sum(drawn) / 8, self.call("GET", f"{P}/draws/state").json["state"]["w"]["data"][0], 5)

    def test_mixed_precision(self):
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 600, "collect": {"every": 100, "outputs": ["loss"]},
                   "evaluate": {"entry": "test", "inputs": inputs, "every": 600, "outputs": ["loss"]}}
        last, states = {}, {}
        for name, more in (("float32", {}), ("float16", {"compute": "float16"}), ("bfloat16", {"compute": "bfloat16"}),
                           ("scaled", {"loss_scale": 1024})):
            self.put("mixed", noisy())
            job = self.submit("mixed", **members, **more)
            self.assertEqual("done", wait(self.server, job)["state"], name)
            last[name] = self.call("GET", f"{J}/{job}/history").json["rows"][-1][3]
            states[name] = self.call("GET", f"{P}/mixed/state").json["state"]
            self.assertEqual({"float32", "uint32"}, {state["dtype"] for state in states[name].values()})
        for name in ("float16", "bfloat16"):
            self.assertNotEqual(states["float32"], states[name])
            self.assertLess(last[name], max(5 * last["float32"], 0.05), last)
        for name in states["float32"]:  # scaling by a power of two is exact
            self.assertEqual(states["float32"][name], states["scaled"][name], name)

    def test_a_loss_that_is_scaled_too_far(self):
        """The first gradients overflow in float16: these steps are skipped, and the scale is halved until the gradients are
        finite."""
        self.put("huge", {"inputs": {"x": {"dtype": "float32", "shape": [1, 2]}}, "state": {"w": [[0.5], [0.5]]}, "nodes": [
            {"id": "y", "op": "matmul", "in": ["x", "w"]}, {"id": "q", "op": "mul", "in": ["y", "y"]}, {"id": "loss", "op": "mean", "in": ["q"]},
            {"id": ["w1"], "op": "adam", "in": ["loss", "w"], "attrs": {"lr": 0.001}}], "updates": {"w": "w1"}, "outputs": ["loss"]})
        job = self.submit("huge", inputs={"x": [[100, 100]]}, steps=100, compute="float16", collect={"every": 1, "outputs": ["loss"]})
        wait(self.server, job)
        state = self.call("GET", f"{P}/huge/state").json["state"]
        self.assertGreater(state["w1.step"]["data"][0], 50)
        self.assertLess(state["w1.step"]["data"][0], 100)
        losses = [row[2] for row in self.call("GET", f"{J}/{job}/history").json["rows"]]
        self.assertEqual(losses[0], losses[1])
        self.assertLess(losses[-1], losses[0])

    def test_inputs_beside_the_document(self):
        self.put("file", {"state": {"n": 0}, "entries": {
            "up": {"inputs": {"by": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "m", "op": "add", "in": ["n", "by"]}],
                   "updates": {"n": "m"}, "outputs": ["m"]},
            "look": {"inputs": {"k": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "v", "op": "mul", "in": ["n", "k"]}], "outputs": ["v"]}}})
        document = {"program": "file", "entry": "up", "steps": 4, "evaluate": {"entry": "look", "every": 2, "outputs": ["v"]}}
        body = safetensors({"by": ("F32", [], struct.pack("<f", 2)), "evaluate.k": ("F32", [], struct.pack("<f", 10))},
                           {"request": json.dumps(document)})
        job = self.ok(self.call("POST", J, body, {"content-type": SAFETENSORS}), 202).json["job"]
        wait(self.server, job)
        self.assertEqual([[2, 40], [4, 80]], [[row[0], row[2]] for row in self.call("GET", f"{J}/{job}/history").json["rows"]])

    def test_held_inputs_stay(self):
        self.put("holds", {"inputs": {"by": {"dtype": "float32", "shape": []}}, "state": {"n": 0},
                           "nodes": [{"id": "m", "op": "add", "in": ["n", "by"]}], "updates": {"n": "m"}, "outputs": ["m"]})
        self.ok(self.call("PUT", "/api/v1/tensors/by", {"dtype": "float32", "shape": [], "data": [2]}), 201)
        job = self.submit("holds", inputs={"by": {"tensor": "by"}}, steps=1000)
        self.ok(self.call("DELETE", "/api/v1/tensors/by"), 204)
        self.assertEqual("done", wait(self.server, job)["state"])
        self.assertEqual([2000], self.call("GET", f"{P}/holds/state").json["state"]["n"]["data"])

    def test_t8_what_is_refused(self):
        self.put("ok", counter())
        lease = self.ok(self.call("POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"]
        self.put("leased", counter(lease=lease))
        good = {"program": "ok", "inputs": {}, "steps": 5, "collect": {"every": 1, "outputs": ["m"]}}
        rows = [(400, {"program": None}), (404, {"program": "none"}), (400, {"steps": "x"}), (422, {"steps": 0}), (422, {"entry": "none"}),
                (400, {"unknown": 1}), (422, {"inputs": {"x": 1}}), (422, {"priority": 1000}), (422, {"program": "leased"}),
                (422, {"collect": {"every": 1, "outputs": ["q"]}}), (422, {"collect": {"every": 0, "outputs": ["m"]}}),
                (422, {"checkpoint": {"every": 0}}), (400, {"checkpoint": {"each": 1}}), (422, {"checkpoint": {"keep": 0}}),
                (422, {"checkpoint": {"seconds": -1}}), (422, {"evaluate": {"entry": "x", "every": 1, "outputs": ["m"]}}),
                (400, {"evaluate": {"outputs": ["m"]}}), (422, {"early_stop": {"metric": "none", "patience": 1}}),
                (400, {"early_stop": {"metric": "m"}}), (400, {"early_stop": {"metric": "m", "patience": 1, "mode": "up"}}),
                (422, {"early_stop": {"metric": "m", "patience": 1, "min_delta": -1}}), (422, {"early_stop": {"metric": "m", "patience": 0}}), (422, {"accumulate": 0}), (400, {"accumulate": "2"}),
                (422, {"compute": "int8"}), (422, {"loss_scale": 0}), (400, {"loss_scale": "much"})]
        for status, change in rows:
            with self.subTest(change=change):
                self.refused(status, self.call("POST", J, {**good, **change}))
        del good["steps"]
        self.refused(400, self.call("POST", J, good))
        self.refused(404, self.call("GET", f"{J}/{'0' * 32}"))
        self.refused(404, self.call("DELETE", f"{J}/x"))
        self.ok(self.call("POST", f"{P}/ok/run", {"inputs": {}}))  # no refused job holds the program

    def test_a_report_is_bounded(self):
        self.put("wide", counter(state={"n": {"dtype": "float32", "shape": [5000]}}))
        self.refused(422, self.call("POST", J, {"program": "wide", "inputs": {}, "steps": 5, "collect": {"every": 1, "outputs": ["m"]}}))


DEVICE_BYTES = 'device_bytes{device="interp:0"}'


class Claims(unittest.TestCase):
    """A PUT or DELETE that began before the job was accepted does not take the job's program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server("--backends", "interp", "--tune=off", "--beam-seconds", "120", "--compile-threads", "1", "--state", folder.name, "--save-seconds", "1")
        self.addCleanup(lambda: self.assertEqual(0, self.server.stop()))

    def begin(self, method, path, body=None, waiting=None):
        """Sends a request and leaves its socket open, once |waiting| requests are active."""
        data = json.dumps(body).encode() if body is not None else b""
        sock = socket.create_connection(("127.0.0.1", self.server.port))
        sock.settimeout(60)
        sock.sendall(head(method, path, "content-type: application/json", f"content-length: {len(data)}", "connection: close") + data)
        self.addCleanup(sock.close)
        if waiting is not None:
            self.assertEqual(waiting + 1, self.server.settled("requests_active", waiting + 1))  # the query itself counts as one more
        return sock

    def answers(self, sock, seconds):
        return select.select([sock], [], [], seconds)[0] != []

    def status(self, sock):
        got = b""
        while part := sock.recv(65536):
            got += part
        return int(got.split()[1])

    def train(self, name):
        return self.server.call("POST", J, {"program": name, "inputs": {}, "steps": SLOW_STEPS})

    def trains(self, name, job):
        """Checks that the job trains the program of this name."""
        wait(self.server, job, ("running",))
        self.assertEqual(409, self.server.call("POST", f"{P}/{name}/run", {"inputs": {}}).status)
        self.server.call("DELETE", f"{J}/{job}")
        self.assertEqual([wait(self.server, job)["step"]], self.server.call("GET", f"{P}/{name}/state").json["state"]["n"]["data"])

    def test_put(self):
        self.assertEqual(201, self.server.call("PUT", f"{P}/p", counter()).status)
        matrix = [[1.0] * 197] * 197  # a search of two minutes, which ends with its client
        held, end = self.server.metric(DEVICE_BYTES), time.monotonic() + 10
        search = self.begin("POST", "/api/v1/run", {"inputs": {"a": matrix}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "a"]}], "outputs": ["y"], "beam": 16}, 1)
        while self.server.metric(DEVICE_BYTES) == held and time.monotonic() < end:  # until the search has its inputs; then it compiles
            time.sleep(0.02)
        put = self.begin("PUT", f"{P}/p", counter(beam=2), 2)  # waits for the only compiler thread
        job = self.train("p")
        self.assertEqual(202, job.status, job.body)
        search.close()
        self.assertEqual(409, self.status(put))
        self.trains("p", job.json["job"])

    def test_delete(self):
        for name in ("p", "busy"):
            self.assertEqual(201, self.server.call("PUT", f"{P}/{name}?durable=true", counter()).status)
        run = self.begin("POST", f"{P}/busy/run", {"inputs": {}, "steps": SLOW_STEPS}, 1)
        blocked = self.begin("PUT", f"{P}/other?durable=true", counter())
        while self.answers(blocked, 0.5):  # until the save waits for the end of the run
            blocked.close()
            blocked = self.begin("PUT", f"{P}/other?durable=true", counter())
        gone = self.begin("DELETE", f"{P}/p", waiting=3)
        job = self.begin("POST", J, {"program": "p", "inputs": {}, "steps": SLOW_STEPS}, 4)
        run.close()
        self.assertIn(self.status(blocked), (200, 201))
        self.assertEqual((409, 202), (self.status(gone), self.status(job)))
        self.trains("p", self.server.call("GET", J).json["jobs"][0]["job"])


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Unseen(ServerTest):
    """Inputs on a device without host access are copied for the job's file, within --max-memory and only temporarily."""

    SIZE = 12 * 2**20  # elements, 48 MiB

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--backends", "vulkan", "--tune=off", "--max-memory", "64M", env={**VULKAN, "BEAMLINE_STATE": cls.folder.name})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def job(self, name, size, count, steps):
        """Starts a job that trains a program with one tensor as several inputs."""
        self.ok(self.call("POST", "/api/v1/run", {"inputs": {}, "nodes": [{"id": "x", "op": "full", "attrs": {"shape": [size], "value": 1}}], "keep": {"x": "x"}}))
        nodes, last = [], "n"
        for i in range(count):
            nodes += [{"id": f"a{i}", "op": "slice", "in": [f"x{i}"], "attrs": {"start": [0], "stop": [1]}}, {"id": f"m{i}", "op": "add", "in": [last, f"a{i}"]}]
            last = f"m{i}"
        self.assertEqual(201, self.call("PUT", f"{P}/{name}", {"inputs": {f"x{i}": {"dtype": "float32", "shape": [size]} for i in range(count)}, "state": {"n": [0]}, "nodes": nodes,
                                                               "updates": {"n": last}, "outputs": [last]}).status)
        return self.call("POST", J, {"program": name, "inputs": {f"x{i}": {"tensor": "x"} for i in range(count)}, "steps": steps})

    def test_copies_go(self):
        wait(self.server, self.ok(self.job("small", self.SIZE, 1, 5), 202).json["job"])
        self.refused(503, self.job("large", self.SIZE, 2, 5))
        before, jobs = self.server.rss(), []
        for name in ("one", "two"):
            jobs.append(self.ok(self.job(name, self.SIZE, 1, SLOW_STEPS), 202).json["job"])
        held = self.server.rss() - before - 4 * self.SIZE  # the second tensor is device memory, which this device has in the server's memory
        for job in jobs:
            self.call("DELETE", f"{J}/{job}")
            self.assertEqual("cancelled", wait(self.server, job)["state"])
        self.assertLess(held, 4 * self.SIZE)


class Limits(unittest.TestCase):
    def test_the_oldest_go_first(self):
        server = Server("--max-jobs", "2", "--backends", "interp")
        try:
            jobs = []
            for i in range(4):
                server.call("PUT", f"{P}/p{i}", counter())
                jobs.append(server.call("POST", J, {"program": f"p{i}", "inputs": {}, "steps": 3}).json["job"])
                wait(server, jobs[-1])
            self.assertEqual(jobs[2:], [j["job"] for j in server.call("GET", J).json["jobs"]])
            for i in range(3):
                last = server.call("POST", J, {"program": f"p{i}", "inputs": {}, "steps": SLOW_STEPS})
            self.assertEqual(507, last.status, last.body)
        finally:
            self.assertEqual(0, server.stop())


if __name__ == "__main__":
    unittest.main()
