# SPDX-License-Identifier: MIT
"""Isolation of keys: names, leases and memory are private, and shared objects are read-only."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from fixture import JSON, OCTETS, PROGRAM, SAFETENSORS, SLOW_STEPS, Server, counter, graph
from test_keys import KeyedCase, routes
from training_jobs import J

T, P = "/api/v1/tensors", "/api/v1/programs"


def reader(name):
    """Returns a run that doubles a retained tensor."""
    return {"inputs": {"x": {"tensor": name}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}


def two_entries():
    """Returns a program whose entry `peek` changes nothing, `step` adds one, and `draw` advances the random state."""
    return {"state": {"n": [7.0]}, "entries": {
        "peek": {"inputs": {}, "nodes": [{"id": "p", "op": "mul", "in": ["n", 10]}], "outputs": ["p"]},
        "step": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
        "draw": {"inputs": {}, "nodes": [{"id": "r", "op": "normal", "in": [], "attrs": {"shape": [1]}}, {"id": "d", "op": "add", "in": ["n", "r"]}],
                 "outputs": ["d"]}}}


class Namespaces(KeyedCase):
    KEYS = {"alice": ("infer,run,train",), "bob": ("infer,run,train",), "root": ("admin,run",), "jane": ("admin,infer,train",)}

    def test_the_same_name_is_two_tensors(self):
        for name, value in (("alice", 1), ("bob", 2)):
            self.ok(self.call(name, "PUT", T + "/w", [value]), 201)
            self.ok(self.call(name, "PUT", P + "/p", counter(state={"n": [float(10 * value)]})), 201)
        for name, value in (("alice", 1), ("bob", 2)):
            self.assertEqual([value], self.ok(self.call(name, "GET", T + "/w")).json["data"])
            self.assertEqual([2 * value], self.ok(self.call(name, "POST", "/api/v1/run", reader("w"))).json["outputs"]["y"]["data"])
            self.assertEqual([10 * value + 1], self.ok(self.call(name, "POST", P + "/p/run", {})).json["outputs"]["m"]["data"])
        self.ok(self.call("bob", "DELETE", T + "/w"), 204)
        self.ok(self.call("bob", "DELETE", P + "/p"), 204)
        self.assertEqual([1], self.ok(self.call("alice", "GET", T + "/w")).json["data"])
        self.assertEqual([11], self.ok(self.call("alice", "GET", P + "/p/state")).json["state"]["n"]["data"])

    def test_t12_anothers_is_not_there(self):
        """A name of another key gives 404 with the text of an unknown name, for every way to name an object, also for an
        administrator."""
        self.ok(self.call("alice", "PUT", T + "/secret", [42]), 201)
        self.ok(self.call("alice", "PUT", P + "/hidden", counter()), 201)
        lease = self.ok(self.call("alice", "POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"]
        self.ok(self.call("alice", "PUT", f"{T}/leased?lease={lease}", [43]), 201)
        asks = [("GET", T + "/{}", None), ("DELETE", T + "/{}", None), ("POST", "/api/v1/run", "reader"), ("GET", P + "/{}", None), ("DELETE", P + "/{}", None),
                ("POST", P + "/{}/run", {}), ("GET", P + "/{}/state", None), ("PUT", P + "/{}/state", {"state": {"n": 1}}),
                ("PUT", P + "/mine", "state"), ("POST", "/api/v1/shares", "share")]
        for who in ("bob", "root"):
            for method, path, body in asks:
                for name in ("secret", "hidden", "alice:secret", "alice:hidden"):
                    answers = []
                    for one in (name, name.replace("secret", "absent").replace("hidden", "absent")):
                        sent = {"reader": reader(one), "state": {**counter(), "state": {"n": {"tensor": one}}}, "share": {"tensor": one, "to": "bob"}}.get(body, body) \
                            if isinstance(body, str) else body
                        answer = self.call(who, method, path.format(one), sent)
                        answers.append(answer.body.replace(one.encode(), b"NAME"))
                        self.assertEqual(404, answer.status, (who, method, path, one, answer.body))
                    self.assertEqual(answers[1], answers[0])
            for method, path, body in (("GET", f"{T}?lease={lease}", None), ("PUT", f"/api/v1/leases/{lease}", {"ttl": 5}), ("DELETE", f"/api/v1/leases/{lease}", None),
                                       ("GET", f"{T}/leased?lease={lease}", None), ("PUT", f"{T}/x?lease={lease}", [1]), ("POST", "/api/v1/run", graph(lease=lease)),
                                       ("POST", T + "/delete", {"names": ["leased"], "lease": lease})):
                self.refused(404, self.call(who, method, path, body), "no such lease")
            self.assertNotIn("secret", self.call(who, "GET", T).body.decode())
            self.assertNotIn("hidden", self.call(who, "GET", P).body.decode())
        self.assertEqual(0, self.ok(self.call("bob", "POST", T + "/delete", {"names": ["secret", "leased"]})).json["deleted"])
        self.assertEqual([42], self.ok(self.call("alice", "GET", T + "/secret")).json["data"])
        self.ok(self.call("alice", "DELETE", "/api/v1/leases/" + lease), 204)

    def test_t12_anothers_jobs_are_not_there(self):
        self.ok(self.call("alice", "PUT", P + "/trained", counter()), 201)
        job = self.ok(self.call("alice", "POST", "/api/v1/jobs", {"program": "trained", "inputs": {}, "steps": 10}), 202).json["job"]
        self.assertRegex(job, "^[0-9a-f]{32}$")
        for who in ("bob", "jane"):
            for method, path in (("GET", "/{}"), ("DELETE", "/{}"), ("DELETE", "/{}?remove=true"), ("GET", "/{}/events"), ("GET", "/{}/history"),
                                 ("GET", "/{}/checkpoints/last"), ("GET", "/{}/checkpoints/10")):
                answers = [self.call(who, method, "/api/v1/jobs" + path.format(one)) for one in (job, "0" * 32)]
                self.assertEqual([404, 404], [answer.status for answer in answers], path)
                self.assertEqual(answers[1].body.replace(b"0" * 32, b"JOB"), answers[0].body.replace(job.encode(), b"JOB"))
            self.assertNotIn(job, [one["job"] for one in self.ok(self.call(who, "GET", "/api/v1/jobs")).json["jobs"]])
        self.ok(self.call("alice", "GET", "/api/v1/jobs/" + job))

    def test_t12_a_job_evaluates_by_what_is_shared(self):
        """Another key's program cannot evaluate a job until it is shared; a running job continues after the end of the
        share."""
        look = {**counter(outputs=["v"]), "state": {"n": 0, "by": 3}, "nodes": [{"id": "v", "op": "mul", "in": ["n", "by"]}]}
        del look["updates"]
        self.ok(self.call("alice", "PUT", P + "/look", look), 201)
        self.ok(self.call("bob", "PUT", P + "/seen", counter()), 201)

        def submit(name):
            return self.call("bob", "POST", J, {"program": "seen", "inputs": {}, "steps": SLOW_STEPS, "evaluate": {"program": name, "every": 1000, "outputs": ["v"]}})
        for name in ("look", "alice:look"):
            answers = [submit(one) for one in (name, name.replace("look", "none"))]
            self.assertEqual([404, 404], [answer.status for answer in answers])
            self.assertEqual(answers[1].body, answers[0].body.replace(b"look", b"none"))
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"program": "look", "to": "bob"}), 201)
        job = f"{J}/" + self.ok(submit("alice:look"), 202).json["job"]
        self.ok(self.call("alice", "DELETE", "/api/v1/shares?program=look&to=bob"), 204)
        self.ok(self.call("alice", "DELETE", P + "/look"), 204)
        step, end = self.call("bob", "GET", job).json["step"], time.monotonic() + 60
        while self.call("bob", "GET", job).json["step"] < step + 3000:
            self.assertLess(time.monotonic(), end)
        self.ok(self.call("bob", "DELETE", job), 202)
        while self.call("bob", "GET", job).json["state"] != "cancelled":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual([[step, 3 * step] for step in range(1000, 3001, 1000)], [[row[0], row[2]] for row in self.call("bob", "GET", job + "/history?limit=3").json["rows"]])
        self.refused(404, submit("alice:look"))

    def test_t20_kernels_and_their_users_are_the_admins(self):
        self.ok(self.call("alice", "PUT", P + "/mine", counter()), 201)
        self.refused(403, self.call("bob", "GET", "/api/v1/kernels"))
        self.ok(self.call("root", "GET", "/api/v1/kernels"))

    def test_sharing_a_model(self):
        """A shared model, including later versions, can be queried but not changed."""
        model = "/v2/models/alice:times"
        self.ok(self.call("alice", "PUT", P + "/times", {"inputs": {"x": {"dtype": "float32", "shape": [1]}}, "state": {"n": [5.0]},
                                                         "nodes": [{"id": "y", "op": "mul", "in": ["x", "n"]}], "outputs": ["y"]}), 201)
        self.refused(404, self.call("alice", "POST", "/api/v1/shares", {"model": "times", "to": "bob"}))
        self.ok(self.call("alice", "POST", P + "/times/promote", {"model": "times", "version": 1}))
        absent = self.call("bob", "GET", "/v2/models/alice:nothing")
        self.assertEqual((404, absent.body.replace(b"nothing", b"times")), (self.call("bob", "GET", model).status, self.call("bob", "GET", model).body))
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"model": "times", "to": "bob"}), 201)
        self.assertIn({"model": "alice:times"}, self.ok(self.call("bob", "GET", "/api/v1/shares")).json["taken"])
        self.assertEqual(["1"], self.ok(self.call("bob", "GET", model)).json["versions"])
        ask = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [3]}]}
        for who, path in (("alice", "/v2/models/times"), ("bob", model)):
            self.assertEqual([15], self.ok(self.call(who, "POST", path + "/infer", ask)).json["outputs"][0]["data"])
        self.ok(self.call("alice", "POST", P + "/times/promote", {"model": "times", "version": 2}))
        self.ok(self.call("bob", "GET", model + "/versions/2/ready"))
        self.assertIn(self.call("bob", "POST", "/v2/repository/models/alice:times/unload", {}).status, (403, 404))
        self.assertEqual(404, self.call("jane", "GET", model).status)
        self.ok(self.call("alice", "DELETE", "/api/v1/shares?model=times&to=bob"), 204)
        self.assertEqual(404, self.call("bob", "POST", model + "/infer", ask).status)
        self.ok(self.call("alice", "GET", "/v2/models/times"))

    def test_sharing_a_job(self):
        """A shared job can be watched but not cancelled."""
        self.ok(self.call("alice", "PUT", P + "/watched", counter()), 201)
        job = self.ok(self.call("alice", "POST", J, {"program": "watched", "inputs": {}, "steps": 10}), 202).json["job"]
        self.refused(404, self.call("alice", "POST", "/api/v1/shares", {"job": "0" * 32, "to": "bob"}))
        self.refused(404, self.call("bob", "POST", "/api/v1/shares", {"job": job, "to": "jane"}))
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"job": job, "to": "bob"}), 201)
        path, end = f"{J}/alice:{job}", time.monotonic() + 60
        while self.ok(self.call("bob", "GET", path)).json["state"] != "done":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual(self.ok(self.call("alice", "GET", f"{J}/{job}/history")).json, self.ok(self.call("bob", "GET", path + "/history")).json)
        self.assertEqual(200, self.call("bob", "GET", path + "/events").status)
        self.refused(404, self.call("bob", "DELETE", path + "?remove=true"))
        self.refused(404, self.call("bob", "GET", f"{J}/{job}"))
        self.refused(404, self.call("jane", "GET", path))
        self.ok(self.call("alice", "DELETE", f"{J}/{job}?remove=true"), 204)
        self.refused(404, self.call("bob", "GET", path))
        self.assertNotIn({"job": "alice:" + job}, self.ok(self.call("bob", "GET", "/api/v1/shares")).json["taken"])

    def test_sharing_a_tensor(self):
        self.ok(self.call("alice", "PUT", T + "/open", [1, 2]), 201)
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"tensor": "open", "to": "bob"}), 201)
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"tensor": "open", "to": "bob"}), 201)
        self.assertEqual([{"tensor": "open", "to": "bob"}], self.ok(self.call("alice", "GET", "/api/v1/shares")).json["given"])
        self.assertEqual([{"tensor": "alice:open"}], self.ok(self.call("bob", "GET", "/api/v1/shares")).json["taken"])
        self.assertEqual([1, 2], self.ok(self.call("bob", "GET", T + "/alice:open")).json["data"])
        self.assertEqual([2, 4], self.ok(self.call("bob", "POST", "/api/v1/run", reader("alice:open"))).json["outputs"]["y"]["data"])
        self.refused(404, self.call("root", "GET", T + "/alice:open"))
        self.refused(404, self.call("bob", "GET", T + "/open"))
        self.refused(404, self.call("bob", "DELETE", T + "/alice:open"))
        # a state by reference is copied, so that the copy survives alice's deletion and is charged to bob
        program = {**counter(entries=None), "state": {"n": {"tensor": "alice:open", "share": True}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "outputs": ["m"]}
        program.pop("updates"), program.pop("entries")
        before = [row["bytes"] for row in self.call("bob", "GET", P).json["programs"] if row["name"] == "ref"]
        self.assertEqual([], before)
        self.ok(self.call("bob", "PUT", P + "/ref", program), 201)
        self.assertEqual([8], [row["bytes"] for row in self.call("bob", "GET", P).json["programs"] if row["name"] == "ref"])
        # bob cannot store an object that would hide the shared object
        lease = self.ok(self.call("bob", "POST", "/api/v1/leases", {"ttl": 60}), 201).json["lease"]
        keep = {"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": [], "keep": {"alice:open": "y"}}
        for answer in (self.call("bob", "PUT", T + "/alice:open", [9]), self.call("bob", "PUT", T + "/alice:open?dtype=uint8&shape=1", b"9", OCTETS),
                       self.call("bob", "PUT", f"{T}/alice:open?lease={lease}", [9]), self.call("bob", "POST", "/api/v1/run", keep),
                       self.call("bob", "POST", "/api/v1/run", {**keep, "lease": lease}), self.call("bob", "POST", P + "/ref/run", {"keep": {"alice:open": "m"}})):
            self.refused(409, answer, "another key shares")
        self.assertEqual([[1, 2]] * 2, [self.call(who, "GET", f"{T}/{name}").json["data"] for who, name in (("bob", "alice:open"), ("alice", "open"))])
        self.refused(404, self.call("bob", "DELETE", T + "/alice:open"))
        # but bob's own object of this name, if older than the share, keeps the name
        self.ok(self.call("bob", "PUT", T + "/alice:later", [5]), 201)
        self.ok(self.call("alice", "PUT", T + "/later", [6]), 201)
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"tensor": "later", "to": "bob"}), 201)
        self.ok(self.call("bob", "PUT", T + "/alice:later", [7]), 201)
        self.assertEqual([7], self.call("bob", "GET", T + "/alice:later").json["data"])
        self.ok(self.call("bob", "DELETE", T + "/alice:later"), 204)
        self.assertEqual([6], self.call("bob", "GET", T + "/alice:later").json["data"])
        # a replaced object stays shared; after a deletion the share ends, also for a new object of the name
        self.ok(self.call("alice", "PUT", T + "/open", [3]), 201)
        self.assertEqual([3], self.ok(self.call("bob", "GET", T + "/alice:open")).json["data"])
        self.ok(self.call("alice", "DELETE", T + "/open"), 204)
        self.ok(self.call("alice", "PUT", T + "/open", [4]), 201)
        self.refused(404, self.call("bob", "GET", T + "/alice:open"))
        self.assertEqual([2, 3], self.ok(self.call("bob", "POST", P + "/ref/run", {})).json["outputs"]["m"]["data"])
        # shared with all keys, then unshared
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"tensor": "open", "to": "*"}), 201)
        for who in ("bob", "root"):
            self.assertEqual([4], self.ok(self.call(who, "GET", T + "/alice:open")).json["data"])
        self.ok(self.call("alice", "DELETE", "/api/v1/shares?tensor=open&to=*"), 204)
        self.refused(404, self.call("alice", "DELETE", "/api/v1/shares?tensor=open&to=*"))
        self.refused(404, self.call("bob", "GET", T + "/alice:open"))

    def test_sharing_a_program(self):
        self.ok(self.call("alice", "PUT", P + "/two", two_entries()), 201)
        self.ok(self.call("alice", "POST", "/api/v1/shares", {"program": "two", "to": "bob"}), 201)
        name = P + "/alice:two"
        self.assertEqual({"peek", "step", "draw"}, set(self.ok(self.call("bob", "GET", name)).json["entries"]))
        self.assertEqual([7], self.ok(self.call("bob", "GET", name + "/state")).json["state"]["n"]["data"])
        self.assertEqual([70], self.ok(self.call("bob", "POST", name + "/run", {"entry": "peek"})).json["outputs"]["p"]["data"])
        self.refused(403, self.call("bob", "POST", name + "/run", {"entry": "step"}), "step")
        self.refused(403, self.call("bob", "POST", name + "/run", {"entry": "draw"}), "rng")
        self.refused(404, self.call("bob", "PUT", name + "/state", {"state": {"n": [1], "rng": {"dtype": "uint32", "shape": [2], "data": [0, 0]}}}))
        self.refused(404, self.call("bob", "DELETE", name))
        self.refused(409, self.call("bob", "PUT", name, counter()), "another key shares")
        self.assertEqual({"peek", "step", "draw"}, set(self.ok(self.call("bob", "GET", name)).json["entries"]))
        self.refused(404, self.call("root", "GET", name))
        self.assertEqual([8], self.ok(self.call("alice", "POST", P + "/two/run", {"entry": "step"})).json["outputs"]["m"]["data"])
        self.assertEqual([80], self.ok(self.call("bob", "POST", name + "/run", {"entry": "peek", "keep": {"mine": "p"}})).json and
                         self.ok(self.call("bob", "GET", T + "/mine")).json["data"])
        self.ok(self.call("alice", "DELETE", P + "/two"), 204)
        self.refused(404, self.call("bob", "GET", name))

    def test_t12_a_share_tells_no_names_of_keys(self):
        """Sharing with an existing key and with an unknown key gives the same answers; a later key of the name gets the
        share."""
        shares = "/api/v1/shares"
        self.ok(self.call("alice", "PUT", T + "/early", [3]), 201)

        def same(method, path, body=None):
            answers = [self.call("alice", method, path.format(one), body and {**body, "to": one}) for one in ("jane", "late")]
            self.assertEqual((answers[0].status, answers[0].body.replace(b"jane", b"late")), (answers[1].status, answers[1].body))
            return answers[0]
        self.ok(same("POST", shares, {"tensor": "early"}), 201)
        self.ok(same("POST", shares, {"tensor": "early"}), 201)
        self.refused(404, same("POST", shares, {"tensor": "absent"}))
        given = [row["to"] for row in self.ok(self.call("alice", "GET", shares)).json["given"] if row["tensor"] == "early"]
        self.assertEqual(["jane", "late"], sorted(given))
        late = self.ok(self.call("root", "POST", "/api/v1/keys", {"name": "late", "scopes": ["train"]}), 201).json["key"]
        self.assertEqual([3], self.ok(self.server.call("GET", T + "/alice:early", None, {"x-api-key": late})).json["data"])
        self.assertEqual({"given": [], "taken": [{"tensor": "alice:early"}]}, self.server.call("GET", shares, None, {"x-api-key": late}).json)
        self.ok(same("DELETE", shares + "?tensor=early&to={}"), 204)
        self.refused(404, same("DELETE", shares + "?tensor=early&to={}"), "is not shared with this key")
        self.refused(404, self.server.call("GET", T + "/alice:early", None, {"x-api-key": late}))
        self.ok(self.call("alice", "POST", shares, {"tensor": "early", "to": "late"}), 201)
        self.ok(self.call("root", "DELETE", "/api/v1/keys/late?purge=true"), 204)
        late = self.ok(self.call("root", "POST", "/api/v1/keys/late/rotate")).json["key"]
        self.refused(404, self.server.call("GET", T + "/alice:early", None, {"x-api-key": late}))

    def test_t12_no_route_tells_names_of_keys(self):
        """OWNER:NAME with an existing and with an unknown owner: each route with a name in its path gives the same answer."""
        self.ok(self.call("alice", "PUT", T + "/quiet", [3]), 201)
        asked = 0
        for method, pattern, takes, _ in routes():
            if "{" not in pattern or pattern.startswith(("/api/v1/keys", "/api/v1/devices")):
                continue
            path = re.sub(r"\{(version|step)\}", "1", pattern)
            body = {} if "JSON" in takes else None
            for who in ("bob", "jane"):
                answers = [self.call(who, method, re.sub(r"\{\w+\}", one + ":quiet", path), body) for one in ("alice", "nokey")]
                self.assertEqual((answers[1].status, answers[1].body.replace(b"nokey", b"alice")), (answers[0].status, answers[0].body), (who, method, pattern))
                asked += 1
        self.assertGreater(asked, 50)

    def test_words_of_shares(self):
        self.ok(self.call("alice", "PUT", T + "/t", [1]), 201)
        for body, status in (({"tensor": "t"}, 422), ({"to": "bob"}, 422), ({"tensor": "t", "program": "t", "to": "bob"}, 422), ({"tensor": "t", "to": "no one"}, 400), ({"tensor": "t", "to": "n" * 64}, 400),
                             ({"tensor": "none", "to": "bob"}, 404), ({"program": "t", "to": "bob"}, 404), ({"tensor": 1, "to": "bob"}, 400),
                             ({"tensor": "t", "to": "bob", "write": True}, 400)):
            self.refused(status, self.call("alice", "POST", "/api/v1/shares", body))


class Memory(KeyedCase):
    KEYS = {"alice": ("run",), "bob": ("run",), "small": ("run", "--memory", "4096"), "gone": ("run",), "watch": ("admin,metrics",)}
    MARK = struct.pack("<f", 1234.5678)

    def test_t13_freed_memory_tells_nothing(self):
        """alice fills buffers of many sizes with a mark and frees them; no result of bob contains the mark."""
        sizes = (1, 100, 1023, 1500, 10000, 262144)
        for device in [d["id"] for d in self.ok(self.call("bob", "GET", "/api/v1/devices")).json["devices"]]:
            for n in sizes:
                self.ok(self.call("alice", "PUT", f"{T}/m{n}?dtype=float32&shape={n}&device={device}", self.MARK * n, OCTETS), 201)
                self.ok(self.call("alice", "POST", "/api/v1/run", {**reader(f"m{n}"), "device": device}))
                self.ok(self.call("alice", "DELETE", f"{T}/m{n}"), 204)
            for n in sizes:
                for answer in self.everything_of(n, device):
                    self.ok(answer)
                    self.assertNotIn(self.MARK, answer.body, (device, n))
                    self.assertNotIn(b"1234.56", answer.body, (device, n))

    def everything_of(self, n, device):
        """Returns answers whose numbers may lie in reused memory."""
        files = {"accept": SAFETENSORS}
        nodes = [[{"id": "y", "op": "full", "in": [], "attrs": {"shape": [n], "value": 0}}], [{"id": "y", "op": "pad", "in": ["x"], "attrs": {"padding": [[n, n]]}}],
                 [{"id": "i", "op": "arange", "in": [], "attrs": {"stop": n, "dtype": "int64"}}, {"id": "y", "op": "gather", "in": ["x", "i"], "attrs": {"axis": 0}}],
                 [{"id": "y", "op": "cumsum", "in": ["x"], "attrs": {"axis": 0}}], [{"id": ["y", "z"], "op": "sort", "in": ["x"], "attrs": {"axis": 0}}]]
        for some in nodes:
            body = {"inputs": {"x": [1.0, 2.0, 3.0]}, "nodes": some, "outputs": ["y"], "device": device}
            yield self.call("bob", "POST", "/api/v1/run", body, files)
        short = self.call("bob", "PUT", f"{T}/s?dtype=float32&shape={n}&device={device}", b"abc", OCTETS)
        self.assertEqual(400, short.status)
        self.refused(404, self.call("bob", "GET", T + "/s"))
        program = {"device": device, "inputs": {}, "state": {"n": {"dtype": "float32", "shape": [n]}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}],
                   "updates": {"n": "m"}, "outputs": ["m"]}
        self.assertIn(self.call("bob", "PUT", P + "/z", program).status, (200, 201))
        yield self.call("bob", "GET", P + "/z/state", None, files)
        yield self.call("bob", "POST", P + "/z/run", {}, files)

    def test_t13_what_a_revoked_key_held_can_go(self):
        before = self.server.call("GET", "/metrics", None, {"x-api-key": self.key["watch"]}).body.decode()
        self.ok(self.call("gone", "PUT", T + "/a", [1.0] * 1000), 201)
        self.ok(self.call("gone", "PUT", P + "/p", counter()), 201)
        lease = self.ok(self.call("gone", "POST", "/api/v1/leases", {"ttl": 600}), 201).json["lease"]
        self.ok(self.call("gone", "PUT", f"{T}/b?lease={lease}", [1.0] * 1000), 201)
        self.refused(400, self.call("watch", "DELETE", "/api/v1/keys/gone?purge=yes"))
        self.ok(self.call("watch", "DELETE", "/api/v1/keys/gone?purge=true"), 204)
        self.refused(401, self.call("gone", "GET", T))
        after = self.server.call("GET", "/metrics", None, {"x-api-key": self.key["watch"]}).body.decode()
        for name in ("held_bytes", "tensors", "leases", "programs"):
            values = [[line for line in text.splitlines() if line.startswith(f"beamline_{name} ")] for text in (before, after)]
            self.assertEqual(values[0], values[1])

    def test_t23_quota_of_memory(self):
        self.ok(self.call("small", "PUT", f"{T}/a?dtype=float32&shape=768", bytes(3072), OCTETS), 201)
        answer = self.refused(429, self.call("small", "PUT", f"{T}/b?dtype=float32&shape=512", bytes(2048), OCTETS), "hold 4096 bytes and holds 3072: 2048 more")
        self.assertIn("retry-after", answer.headers)
        self.refused(429, self.call("small", "PUT", f"{T}/a?dtype=float32&shape=512", bytes(2048), OCTETS), "2048 more")  # the old and the new tensor count together
        self.refused(429, self.call("small", "POST", "/api/v1/run", {"nodes": [{"id": "y", "op": "full", "in": [], "attrs": {"shape": [512], "value": 0}}], "inputs": {},
                                                                     "outputs": [], "keep": {"b": "y"}}))
        self.refused(429, self.call("small", "PUT", P + "/p", counter(state={"n": {"dtype": "float32", "shape": [512]}})))
        self.ok(self.call("alice", "PUT", f"{T}/b?dtype=float32&shape=512", bytes(2048), OCTETS), 201)
        self.ok(self.call("small", "DELETE", T + "/a"), 204)
        self.ok(self.call("small", "PUT", f"{T}/b?dtype=float32&shape=1024", bytes(4096), OCTETS), 201)


class Purged(unittest.TestCase):
    def test_t13_nothing_comes_back(self):
        """The purge of a key removes its data on disk; after a restart a new key of the name finds nothing."""
        data = b"blob" * 1000
        blob = "/api/v1/blobs/sha256:" + hashlib.sha256(data).hexdigest()
        with tempfile.TemporaryDirectory() as folder:
            def key(name, scopes):
                words = [PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", folder]
                return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
            admin, keys = key("root", "admin"), {name: key(name, "run,train") for name in ("gone", "other")}
            server = Server("--backends", "interp", "--state", folder)

            def call(who, method, path, body=None, headers=None):
                return server.call(method, path, body, {**(headers or {}), "x-api-key": keys.get(who, admin)})
            try:
                for who in keys:
                    self.assertEqual(201, call(who, "PUT", T + "/a?durable=true", [1.0] * 1000).status)
                    self.assertEqual(201, call(who, "PUT", P + "/p?durable=true", counter()).status)
                    self.assertEqual(201, call(who, "PUT", blob, data, OCTETS).status)
                self.assertEqual(202, call("gone", "PUT", blob[:-1] + ("0" if blob[-1] != "0" else "1"), b"half", {**OCTETS, "content-range": "bytes 0-3/8"}).status)
                self.assertEqual(204, call("root", "DELETE", "/api/v1/keys/gone?purge=true").status)
                keys["gone"] = call("root", "POST", "/api/v1/keys/gone/rotate").json["key"]
                self.assertEqual([1, 1, 1], [len(os.listdir(os.path.join(folder, part))) for part in ("tensors", "programs", "blobs")])
                self.assertEqual(0, server.stop())
                server = Server("--backends", "interp", "--state", folder)
                for who, status in (("gone", 404), ("other", 200)):
                    self.assertEqual([status] * 3, [call(who, "GET", path).status for path in (T + "/a", P + "/p", blob)], who)
            finally:
                server.stop()


class UnderWay(unittest.TestCase):
    """Requests that began before the purge of their key and end after it leave nothing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.keys = folder.name, {}
        for name, scopes in (("root", "admin,metrics"), ("gone", "run,train")):
            words = [PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", folder.name]
            self.keys[name] = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
        self.server = Server("--backends", "interp", "--tune=off", "--state", folder.name)
        self.addCleanup(self.server.stop)

    def call(self, who, method, path, body=None):
        return self.server.call(method, path, body, {"x-api-key": self.keys[who]}, timeout=300)

    def until(self, holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def active(self):
        text = self.call("root", "GET", "/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("beamline_requests_active "))

    def begin(self, *request):
        """Starts the request in a thread and waits until the server has it.  Returns a future of the answer."""
        before, answers = self.active(), []
        thread = threading.Thread(target=lambda: answers.append(self.call("gone", *request)))
        thread.start()
        self.until(lambda: answers or self.active() > before)
        return thread, answers

    def purge(self):
        self.assertEqual(204, self.call("root", "DELETE", "/api/v1/keys/gone?purge=true").status)
        self.keys["gone"] = self.call("root", "POST", "/api/v1/keys/gone/rotate").json["key"]

    def refused(self, thread, answers):
        thread.join()
        self.assertEqual(409, answers[0].status, answers[0].body[:500])
        self.assertIn("purged", answers[0].json["detail"])

    def nothing_is_left(self):
        """Checks that nothing is left; started jobs end by themselves."""
        self.until(lambda: not self.call("gone", "GET", J).json["jobs"])
        self.assertEqual([[], [], []], [self.call("gone", "GET", path).json[what] for path, what in ((T, "tensors"), (P, "programs"), (J, "jobs"))])
        self.assertEqual([], [path for path in pathlib.Path(self.folder).glob("*/*") if path.is_file() or path.parent.name == "jobs"])

    def remove_jobs(self):
        """Removes the jobs that the purge found, which ended as cancelled."""
        self.until(lambda: all(job["state"] == "cancelled" for job in self.call("gone", "GET", J).json["jobs"]))
        for job in self.call("gone", "GET", J).json["jobs"]:
            self.assertIn(self.call("gone", "DELETE", f"{J}/{job['job']}?remove=true").status, (200, 204))

    def large(self, nodes):
        """Returns a slow graph: each of its matrices is a product of the previous matrix."""
        side = [48, 48]
        return {"inputs": {}, "nodes": [{"id": "n0", "op": "full", "in": [], "attrs": {"shape": side, "value": 0.01}},
                                        *({"id": f"n{i}", "op": "matmul", "in": [f"n{i - 1}", "n0"]} for i in range(1, nodes))], "outputs": [f"n{nodes - 1}"]}

    def test_t13_what_is_being_made(self):
        """A tensor that a run keeps, and programs, durable or not."""
        def state(nodes):
            return {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}}, "updates": {"n": "m"},
                    "nodes": [*self.large(nodes)["nodes"], {"id": "s", "op": "sum", "in": [f"n{nodes - 1}"]}, {"id": "m", "op": "add", "in": ["n", "s"]}], "outputs": ["m"]}
        for what in (lambda nodes: ("POST", "/api/v1/run", {**self.large(nodes), "outputs": [], "keep": {"t": f"n{nodes - 1}"}}),
                     lambda nodes: ("PUT", P + "/p", state(nodes)), lambda nodes: ("PUT", P + "/q?durable=true", state(nodes + 1))):
            for nodes in (200, 800, 3000, 9000):  # until one takes longer than the purge
                thread, answers = self.begin(*what(nodes))
                self.purge()
                if thread.is_alive():
                    break
            self.refused(thread, answers)
            self.nothing_is_left()

    def test_t13_a_job_that_begins(self):
        """The job waits for a run of its program."""
        for timeout_ms in (2000, 8000, 30000):  # until it outlives the purge
            self.assertEqual(201, self.call("gone", "PUT", P + "/p", counter()).status)
            run, ran = self.begin("POST", P + "/p/run", {"inputs": {}, "steps": SLOW_STEPS, "timeout_ms": timeout_ms})
            self.until(lambda: ran or self.call("gone", "GET", P + "/p").json["steps"] > 0)
            job, answers = self.begin("POST", J, {"program": "p", "inputs": {}, "steps": SLOW_STEPS})
            self.purge()
            waited = job.is_alive()
            run.join()
            self.assertEqual(504, ran[0].status, ran[0].body)
            if waited:
                break
            job.join()
            self.remove_jobs()
        self.assertTrue(waited, "the job had begun before the purge")
        self.refused(job, answers)
        self.nothing_is_left()


class Jobs(unittest.TestCase):
    """The jobs of a key that is purged, revoked or expires."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.keys = folder.name, {}
        for name, scopes in (("root", "admin,metrics"), ("alice", "run,train")):
            words = [PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", folder.name]
            self.keys[name] = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
        self.start()

    def start(self):
        self.server = Server("--backends", "interp", "--state", self.folder)
        self.addCleanup(self.server.stop)

    def call(self, who, method, path, body=None, status=200):
        answer = self.server.call(method, path, body, {"x-api-key": self.keys[who]})
        self.assertEqual(status, answer.status, (who, method, path, answer.body))
        return answer.json if answer.body else None

    def rotate(self):
        self.keys["alice"] = self.call("root", "POST", "/api/v1/keys/alice/rotate")["key"]

    def submit(self, name):
        self.call("alice", "PUT", f"{P}/{name}", counter(), 201)
        return self.call("alice", "POST", J, {"program": name, "inputs": {}, "steps": SLOW_STEPS}, 202)["job"]

    def job(self, job, found, seconds=60):
        """Waits until |found| is true for the job."""
        end = time.monotonic() + seconds
        while not found(now := self.call("alice", "GET", f"{J}/{job}")):
            self.assertLess(time.monotonic(), end, now)
            time.sleep(0.02)
        return now

    def test_t24_purged(self):
        """The first job runs, the second waits; a server that is killed before they end does not resume them."""
        for killed in (False, True):
            jobs = [self.submit(name) for name in "ab"]
            self.job(jobs[0], lambda job: job["step"] > 0)
            self.call("root", "DELETE", "/api/v1/keys/alice?purge=true", status=204)
            for again in (killed, True):
                if again:
                    self.server.process.kill()
                    self.server.process.wait()
                    self.start()
                self.rotate()
                for job in jobs:
                    ended = self.job(job, lambda job: job["state"] not in ("queued", "running"))
                    self.assertEqual("cancelled", ended["state"])
                    self.assertIn("its key was purged", ended["reason"])
                self.assertEqual([], self.call("alice", "GET", P)["programs"])

    def test_revoked_and_expired(self):
        """The jobs stop where they are, and continue when the key is valid again."""
        job = self.submit("p")
        self.job(job, lambda now: now["step"] > 0)
        for stop, begin, words in ((lambda: self.call("root", "DELETE", "/api/v1/keys/alice", status=204), self.rotate, b"the key was revoked"),
                                   (lambda: self.call("root", "PUT", "/api/v1/keys/alice", {"ttl": 1}), lambda: self.call("root", "PUT", "/api/v1/keys/alice", {"ttl": None}),
                                    b"the key has expired")):
            link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            self.addCleanup(link.close)
            link.request("GET", f"{J}/{job}/events", headers={"x-api-key": self.keys["alice"]})  # the stream ends with the reason
            reply = link.getresponse()
            self.assertEqual(200, reply.status)
            stop()
            line = b""
            while words not in line:
                line = reply.readline()
                self.assertTrue(line, "the stream has ended")
            self.assertEqual({"urn:beamline:error:eauth", 401}, {json.loads(line.split(b": ", 1)[1])[name] for name in ("type", "status")})
            self.assertEqual(b"\n", reply.read())
            begin()
            step = self.call("alice", "GET", f"{J}/{job}")["step"]
            self.assertGreater(self.job(job, lambda now, step=step: now["state"] == "running" and now["step"] > step)["step"], step)
        self.call("alice", "DELETE", f"{J}/{job}", status=202)


class Restarts(unittest.TestCase):
    """Shares and their objects are restored after a kill of the server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.keys, self.server = folder.name, {}, None
        for name, scopes in (("root", "admin"), ("alice", "run,train"), ("bob", "run,train"), ("carol", "run,train")):
            words = [PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", folder.name]
            self.keys[name] = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
        self.start()

    def start(self):
        self.server = Server("--backends", "interp", "--state", self.folder)
        self.addCleanup(self.server.stop)

    def again(self):
        self.server.process.kill()
        self.server.process.wait()
        self.start()

    def call(self, who, method, path, body=None, status=200):
        answer = self.server.call(method, path, body, {"x-api-key": self.keys[who]})
        self.assertEqual(status, answer.status, (who, method, path, answer.body))
        return answer.json if answer.body else None

    def share(self, to, status=201, **what):
        self.call("alice", "POST", "/api/v1/shares", {**what, "to": to}, status)

    def shares(self, who):
        listed = self.call(who, "GET", "/api/v1/shares")
        return sorted(str(sorted(one.items())) for one in listed["given"]), sorted(str(sorted(one.items())) for one in listed["taken"])

    def test_they_outlive_a_kill(self):
        for name in ("kept", "gone", "again", "taken"):
            self.call("alice", "PUT", f"{T}/{name}?durable=true", [1, 2], 201)
        self.call("alice", "PUT", T + "/passing", [1], 201)
        self.call("alice", "PUT", P + "/two?durable=true", two_entries(), 201)
        for name in ("kept", "gone", "again", "taken", "passing"):
            self.share("bob", tensor=name)
        self.share("*", tensor="kept")
        self.share("bob", program="two")
        self.call("alice", "DELETE", T + "/gone", status=204)
        self.call("alice", "PUT", T + "/gone?durable=true", [9], 201)  # another object of that name
        self.call("alice", "PUT", T + "/again?durable=true", [5], 201)  # replaced, and still shared
        self.call("alice", "DELETE", "/api/v1/shares?tensor=taken&to=bob", status=204)
        before = {who: self.shares(who) for who in ("alice", "bob", "carol")}
        self.again()
        for who, (given, taken) in before.items():
            without = tuple([one for one in some if "passing" not in one] for some in (given, taken))
            self.assertEqual(without, self.shares(who), who)
        self.assertEqual([1, 2], self.call("carol", "GET", T + "/alice:kept")["data"])
        self.assertEqual([5], self.call("bob", "GET", T + "/alice:again")["data"])
        self.assertEqual([70], self.call("bob", "POST", P + "/alice:two/run", {"entry": "peek"})["outputs"]["p"]["data"])
        self.call("bob", "POST", P + "/alice:two/run", {"entry": "step"}, 403)
        for name in ("gone", "taken", "passing"):
            self.call("bob", "GET", f"{T}/alice:{name}", status=404)
        self.call("alice", "PUT", T + "/passing?durable=true", [1], 201)  # an object that was not restored is no longer shared
        self.call("bob", "GET", T + "/alice:passing", status=404)
        self.call("alice", "DELETE", T + "/kept", status=204)
        self.call("alice", "DELETE", P + "/two", status=204)
        self.call("alice", "PUT", P + "/two?durable=true", two_entries(), 201)
        self.again()
        self.call("bob", "GET", P + "/alice:two", status=404)
        self.assertEqual(1, len(self.shares("alice")[0]))

    def test_t13_they_go_with_either_key(self):
        self.call("alice", "PUT", T + "/w?durable=true", [1, 2], 201)
        self.call("bob", "PUT", T + "/w?durable=true", [3], 201)
        for to in ("bob", "carol"):
            self.share(to, tensor="w")
        self.call("bob", "POST", "/api/v1/shares", {"tensor": "w", "to": "alice"}, 201)
        self.call("root", "DELETE", "/api/v1/keys/carol", status=204)  # the key is revoked; its objects return with the key
        self.call("root", "DELETE", "/api/v1/keys/bob?purge=true", status=204)
        for _ in range(2):
            for name in ("bob", "carol"):
                self.keys[name] = self.call("root", "POST", f"/api/v1/keys/{name}/rotate")["key"]
            self.call("bob", "GET", T + "/alice:w", status=404)
            self.assertEqual([1, 2], self.call("carol", "GET", T + "/alice:w")["data"])
            self.assertEqual(([], []), self.shares("bob"))
            self.assertEqual([], self.shares("alice")[1])
            self.call("bob", "PUT", T + "/w?durable=true", [3], 201)  # bob's object is private
            self.call("alice", "GET", T + "/bob:w", status=404)
            self.call("bob", "DELETE", T + "/w", status=204)
            self.again()


if __name__ == "__main__":
    unittest.main()
