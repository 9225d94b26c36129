# SPDX-License-Identifier: MIT
"""Decisions about models by requests persist after a restart, also after a kill."""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

from repository import PROGRAM, Repository, document, elementwise, linear, numbers, weights  # imported first, since it adds the folder of the next module to the path
from fixture import SLOW_STEPS, Server

ROW = document(numbers("x", [1, 4], [1, 2, 3, 4]))
P = "/api/v1/programs"


def coded(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.b64encode(data).decode()


def sent(factor, version=1, **config):
    """Returns the parameters of a load: a model that multiplies."""
    return {"config": json.dumps(config), f"file:{version}/model.json": coded(elementwise("mul", factor))}


def slow(count):
    """Returns the same with a long warm-up."""
    n = 96
    graph = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "state": {"w": {"op": "normal", "attrs": {"shape": [n, n], "seed": 1}}},
             "dims": {"batch": [1, 8]},
             "nodes": [{"id": "sx", "op": "sum", "in": ["x"]}, {"id": "wx", "op": "add", "in": ["w", "sx"]}, {"id": "w2", "op": "matmul", "in": ["wx", "w"]},
                       {"id": "s", "op": "sum", "in": ["w2"]}, {"id": "y", "op": "mul", "in": ["x", "s"]}], "outputs": ["y"]}
    warmup = {"name": "w", "batch_size": 1, "count": count, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "zero_data": True}}}
    return {"config": json.dumps({"model_warmup": [warmup]}), "file:1/model.json": coded(graph)}


def grows():
    return {"state": {"n": [0, 0]}, "entries": {
        "up": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
        "test": {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["n", "x"]}], "outputs": ["y"]}}}


class Restarted(unittest.TestCase):
    """A server with a models folder and a --state folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state, self.args, self.key = folder.name, [], None
        self.repository = Repository()
        self.addCleanup(self.repository.remove)

    def start(self, *args):
        self.server = Server("--backends", "interp", "--models", str(self.repository.path), "--model-poll", "0.1", "--state", self.state, *self.args, *args)
        self.addCleanup(self.server.stop)
        self.until(lambda: self.server.call("GET", "/v2/health/ready").status == 200)

    def again(self, *args, kill=True):
        if kill:
            self.server.process.kill()
            self.server.process.wait()
        else:
            self.assertEqual(0, self.server.stop(), self.server.last[-3000:])
        self.start(*args)

    def until(self, holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, self.server.log_text()[-3000:])
            time.sleep(0.02)

    def call(self, method, path, body=None, status=200):
        answer = self.server.call(method, path, body, {"x-api-key": self.key} if self.key else None, timeout=120)
        self.assertEqual(status, answer.status, (method, path, answer.body))
        return answer.json if answer.body else None

    def load(self, model, status=200, **parameters):
        return self.call("POST", f"/v2/repository/models/{model}/load", {"parameters": parameters}, status)

    def unload(self, model, status=200):
        return self.call("POST", f"/v2/repository/models/{model}/unload", {}, status)

    def factor(self, model):
        """Returns the factor of the model, or 404 if the model does not exist."""
        answer = self.server.call("POST", f"/v2/models/{model}/infer", ROW, {"x-api-key": self.key} if self.key else None)
        if answer.status != 200:
            return answer.status
        data = answer.json["outputs"][0]["data"]
        self.assertEqual([data[0] * x for x in (1, 2, 3, 4)], data)
        return data[0]

    def index(self):
        return {(row["name"], row.get("version")): (row["state"], row["reason"]) for row in self.call("POST", "/v2/repository/index", {})}

    def files(self, part="models"):
        folder = os.path.join(self.state, part)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


class OfTheFolder(Restarted):
    def test_t24_decisions(self):
        self.repository.put("a", 1, elementwise("mul", 2))
        self.repository.put("b", 1, elementwise("mul", 3))
        self.repository.put("b", 2, elementwise("mul", 4))
        self.repository.put("c", 1, elementwise("mul", 5))
        self.start()
        self.unload("a")
        self.load("b", config='{"version_policy": {"specific": {"versions": [1]}}}')
        for args in ((), ("--load-models", "none"), ("--load-models", "a,c")):
            self.again(*args, kill=args != ())
            self.assertEqual((404, 3), (self.factor("a"), self.factor("b")))
            self.assertEqual(("UNAVAILABLE", "unloaded"), self.index()["a", None])
            self.assertEqual(5 if "none" not in args else 404, self.factor("c"))  # no request has decided about c
            self.call("GET", "/v2/models/b/versions/2", status=404)
        self.repository.put("b", 1, elementwise("mul", 7))  # the files of b are polled, with the decided configuration; those of a are not
        self.repository.put("a", 1, elementwise("mul", 8))
        self.until(lambda: self.factor("b") == 7)
        self.assertEqual(404, self.factor("a"))
        self.load("a")
        self.load("b")
        self.again("--load-models", "none")
        self.assertEqual((8, 4, 404), (self.factor("a"), self.factor("b"), self.factor("c")))

    def test_what_fails_decides_nothing(self):
        self.repository.put("a", 1, elementwise("mul", 2))
        self.start()
        self.load("a", 400, config='{"version_policy": {"specific": {"versions": [9]}}}')
        self.load("none", 404)
        self.unload("none", 404)
        self.again()
        self.assertEqual(2, self.factor("a"))
        self.assertEqual([("a", "1")], list(self.index()))

    def test_its_folder_is_gone(self):
        """If the folder of a decided model is missing, the start continues with a message; once the folder is back, the model
        is loaded as decided."""
        self.repository.put("a", 1, elementwise("mul", 2))
        self.repository.put("b", 1, elementwise("mul", 3))
        self.repository.put("b", 2, elementwise("mul", 4))
        self.start()
        self.load("b", config='{"version_policy": {"specific": {"versions": [1]}}}')
        self.server.process.kill()
        aside = self.repository.path.parent / (self.repository.path.name + "-b")
        (self.repository.path / "b").rename(aside)
        self.again()
        self.assertEqual((2, 404), (self.factor("a"), self.factor("b")))
        self.assertEqual("UNAVAILABLE", self.index()["b", None][0])
        self.assertIn('model b: there is no model "b" in the folder', self.server.log_text())
        aside.rename(self.repository.path / "b")
        self.until(lambda: self.factor("b") == 3)


class Sent(Restarted):
    def test_t24_files_of_a_request(self):
        self.start()
        ask = document(numbers("x", [3], [1, 2, 3]))
        files = {"file:1/model.json": coded(linear()), "file:1/model.safetensors": coded(weights(1, 1, 1, 1, 1, 1)), "config": '{"version_policy": {"all": {}}}',
                 "file:2/model.json": coded(linear()), "file:2/model.safetensors": coded(weights(2, 2, 2, 2, 2, 2))}

        def given():
            return [self.call("POST", f"/v2/models/sent/versions/{v}/infer", ask)["outputs"][0]["data"] for v in (1, 2)]
        self.load("sent", **files)
        config = self.call("GET", "/v2/models/sent/config")
        held = self.server.metric("held_bytes")
        for kill in (True, False):
            self.again(kill=kill)
            self.assertEqual([[6, 6], [12, 12]], given())
            self.assertEqual((config, held, 1), (self.call("GET", "/v2/models/sent/config"), self.server.metric("held_bytes"), len(self.files())))
        files["file:1/model.safetensors"] = coded(weights(3, 3, 3, 3, 3, 3))
        self.load("sent", **files)
        self.load("sent", 400, **{**files, "file:1/model.safetensors": coded(weights(1, 1, shape=(1, 2)))})
        self.again()
        self.assertEqual(([[18, 18], [12, 12]], 1), (given(), len(self.files())))
        self.unload("sent")
        self.assertEqual([], self.files())
        self.again()
        self.call("GET", "/v2/models/sent", status=404)
        self.assertEqual({}, self.index())

    def test_over_one_of_the_folder(self):
        self.repository.put("a", 1, elementwise("mul", 2))
        self.repository.put("a", 2, elementwise("mul", 3))
        self.start()
        self.load("a", **sent(5))
        for _ in range(2):
            self.again()
            self.assertEqual(5, self.factor("a"))
            self.call("GET", "/v2/models/a/versions/2", status=404)
        self.unload("a")
        self.again()
        self.assertEqual((404, []), (self.factor("a"), self.files()))
        self.load("a")
        self.again()
        self.assertEqual(3, self.factor("a"))
        self.load("a", **sent(5))
        self.load("a")
        self.assertEqual([], self.files())
        self.again()
        self.assertEqual(3, self.factor("a"))

    def test_beside_what_was_promoted(self):
        self.start()
        self.load("m", **sent(5))
        self.call("PUT", P + "/p", grows(), 201)
        for version in (1, 2):
            self.call("POST", P + "/p/promote", {"model": "m", "version": version, "entry": "test"})
        self.again()
        self.assertEqual([[2], [2]], [self.call("GET", f"/v2/models/m/versions/{v}")["inputs"][0]["shape"] for v in (1, 2)])
        self.unload("m")
        self.assertEqual(([], []), (self.files(), self.files("versions")))

    def test_t24_a_damaged_one_is_left_there(self):
        """A damaged stored model is reported and does not affect others; an unload or a new load removes it."""
        self.start()
        for name, factor in (("good", 2), ("torn", 3), ("lost", 4), ("odd", 5)):
            before = self.files()
            self.load(name, **sent(factor))
            file, = set(self.files()) - set(before)
            path = os.path.join(self.state, "models", file)
            if name == "torn":
                os.truncate(path, os.path.getsize(path) - 1)
            if name == "lost":
                os.unlink(path)
            if name == "odd":
                with open(path, "r+b") as odd:
                    odd.write(b"\xff" * 16)
        stray = os.path.join(self.state, "models", "0" * 32)
        with open(stray, "wb"):
            pass  # a kill between the file and its row
        for _ in range(2):
            self.again()
            self.assertEqual([2, 404, 404, 404], [self.factor(name) for name in ("good", "torn", "lost", "odd")])
            index, log = self.index(), self.server.log_text()
            for name in ("torn", "lost", "odd"):
                self.assertEqual("UNAVAILABLE", index[name, None][0])
                self.assertRegex(index[name, None][1], "damaged|cannot be opened")
                self.assertRegex(log, f"model {name}: .*(damaged|cannot be opened)")
            self.assertEqual((3, False), (len(self.files()), os.path.exists(stray)))
        self.unload("torn")
        self.unload("lost")
        self.load("odd", **sent(6))
        self.again()
        self.assertEqual([2, 404, 404, 6], [self.factor(name) for name in ("good", "torn", "lost", "odd")])
        self.assertEqual(({("good", "1"), ("odd", "1")}, 2), (set(self.index()), len(self.files())))

    def test_a_promoted_one_that_is_damaged(self):
        """A damaged promoted version does not return after an unload, whatever happens to its file."""
        self.start()
        self.call("PUT", P + "/p", grows(), 201)
        self.call("POST", P + "/p/promote", {"model": "m", "version": 1, "entry": "test"})
        file, = self.files("versions")
        path = os.path.join(self.state, "versions", file)
        with open(path, "rb") as whole:
            data = whole.read()
        os.truncate(path, 100)
        self.again()
        self.assertEqual("UNAVAILABLE", self.index()["m", "1"][0])
        self.assertEqual([file], self.files("versions"))
        with open(path, "wb") as whole:
            whole.write(data)
        self.unload("m")
        self.assertEqual([], self.files("versions"))
        self.again()
        self.assertEqual({}, self.index())

    def test_where_the_disk_refuses(self):
        """A load whose files cannot be stored is refused, and the earlier version stays."""
        self.args = ["--max-blobs", "4096"]
        self.start()
        self.load("m", **sent(2))
        big = {"file:1/model.json": coded(linear()), "file:1/model.safetensors": coded(weights(*[1.0] * 2000, shape=(1000, 2))), "config": "{}"}
        self.assertIn("--max-blobs", self.load("m", 503, **big)["error"])
        self.assertIn("--max-blobs", self.load("n", 503, **big)["error"])
        data = bytes(4000)
        blob = "/api/v1/blobs/sha256:" + hashlib.sha256(data).hexdigest()
        self.again()  # counts the existing objects
        self.assertEqual((2, 1), (self.factor("m"), len(self.files())))
        octets = {"content-type": "application/octet-stream"}
        while self.server.call("PUT", blob, data, octets).status == 507:
            self.assertTrue(self.files())
            self.unload("m")
        self.load("m", 503, **big)
        self.server.call("DELETE", blob)
        os.rmdir(os.path.join(self.state, "models"))
        with open(os.path.join(self.state, "models"), "w"):
            pass  # a file at the path of the folder
        self.load("m", 503, **sent(2))
        self.assertEqual(404, self.factor("m"))


class Keyed(Restarted):
    def keys(self, **scopes):
        self.secret = {name: self.command("keys", "create", name, "--scopes", words).split()[-1] for name, words in scopes.items()}

    def command(self, *words):
        return subprocess.run([PROGRAM, *words, "--state", self.state], check=True, capture_output=True, text=True).stdout

    def purge(self, name):
        before, self.key = self.key, self.secret["root"]
        self.call("DELETE", f"/api/v1/keys/{name}?purge=true", status=204)
        self.key = before

    def rotate(self, name):
        self.key = self.secret["root"]
        self.secret[name] = self.call("POST", f"/api/v1/keys/{name}/rotate")["key"]
        self.key = self.secret[name]


class Purged(Keyed):
    def setUp(self):
        super().setUp()
        self.keys(root="admin,metrics", alice="run,train,infer", bob="run,train,infer")
        self.start()

    def test_each_key_has_its_own(self):
        for name, factor in (("alice", 2), ("bob", 3)):
            self.key = self.secret[name]
            self.load("m", **sent(factor))
        self.again()
        for name, factor in (("alice", 2), ("bob", 3)):
            self.key = self.secret[name]
            self.assertEqual(factor, self.factor("m"))
        self.purge("alice")
        for _ in range(2):
            self.rotate("alice")
            self.assertEqual(({}, 404, 1), (self.index(), self.factor("m"), len(self.files())))
            self.again()

    def nothing_is_left(self):
        for _ in range(2):
            self.rotate("alice")
            self.assertEqual(({}, [], []), (self.index(), self.files(), self.files("versions")))
            self.assertEqual(0, self.server.settled("held_bytes", 0))
            self.key = self.secret["root"]
            self.again()

    def test_a_load_under_way(self):
        """A load in progress ends after the purge, and leaves nothing."""
        self.key, answers = self.secret["alice"], []
        headers, parameters = {"x-api-key": self.key}, {"parameters": slow(400)}
        loader = threading.Thread(target=lambda: answers.append(self.server.call("POST", "/v2/repository/models/m/load", parameters, headers, timeout=300)))
        loader.start()
        self.until(lambda: self.index().get(("m", "1"), ("",))[0] == "LOADING")
        self.purge("alice")
        self.assertTrue(loader.is_alive(), "the load was over before the purge")
        loader.join()
        self.assertEqual(400, answers[0].status, answers[0].body)
        self.assertIn("purged", answers[0].json["error"])
        self.nothing_is_left()

    def test_a_promotion_under_way(self):
        """A promotion in progress, which waits for a run of its program, likewise leaves nothing."""
        self.key, answers = self.secret["alice"], {}
        headers = {"x-api-key": self.key}
        self.call("PUT", P + "/p", grows(), 201)

        def post(what, body):
            answers[what] = self.server.call("POST", f"{P}/p/{what}", body, headers, timeout=300)
        run = threading.Thread(target=post, args=("run", {"entry": "up", "steps": SLOW_STEPS, "timeout_ms": 4000}))
        promotion = threading.Thread(target=post, args=("promote", {"model": "m", "version": 1, "entry": "test"}))
        run.start()
        self.until(lambda: self.call("GET", P + "/p")["steps"] > 0)
        promotion.start()
        self.until(lambda: self.metric("requests_active") == 3)  # the run, the promotion, and this query
        self.purge("alice")
        self.assertTrue(promotion.is_alive(), "the promotion was over before the purge")
        run.join()
        promotion.join()
        self.assertEqual((504, 409), (answers["run"].status, answers["promote"].status), answers["promote"].body)
        self.assertIn("purged", answers["promote"].json["detail"])
        self.nothing_is_left()

    def metric(self, name):
        text = self.server.call("GET", "/metrics", headers={"x-api-key": self.secret["root"]}).body.decode()
        return next((float(line.split()[1]) for line in text.splitlines() if line.startswith(f"beamline_{name} ")), 0.0)


class Counted(Keyed):
    def test_so_many_of_a_key(self):
        """A key has a limited number of models; unloads and failed loads release their places, and models of the folder do not
        count."""
        self.keys(root="admin", alice="run,train,infer", bob="run,train,infer")
        for name in "abc":
            self.repository.put(name, 1, elementwise("mul", 2))
        self.args = ["--max-models", "2"]
        self.start()
        self.key = self.secret["alice"]
        self.call("PUT", P + "/p", grows(), 201)
        bad = {"config": "{}", "file:1/model.json": coded(elementwise("no_such_op", 2))}
        for i in range(3):
            self.load(f"bad{i}", 400, **bad)
        self.load("one", **sent(2))
        self.call("POST", P + "/p/promote", {"model": "two", "version": 1, "entry": "test"})
        for _ in range(2):
            self.assertIn("2 models, the limit", self.load("three", 503, **sent(3))["error"])
            self.call("POST", P + "/p/promote", {"model": "three", "version": 1, "entry": "test"}, 507)
            self.assertEqual((404, 1, 1), (self.factor("three"), len(self.files()), len(self.files("versions"))))
            self.load("one", **sent(4))  # existing models may be replaced
            self.call("POST", P + "/p/promote", {"model": "two", "version": 2, "entry": "test"})
            self.unload("two")
            self.load("three", **sent(3))
            self.unload("three")
            self.call("POST", P + "/p/promote", {"model": "two", "version": 1, "entry": "test"})
            self.again()  # models of the folder belong to no key
            self.call("PUT", P + "/p", grows(), 201)
        self.assertLessEqual({name for name, version in self.index() if version and name not in "abc"}, {"one", "two", "three"})
        self.key = self.secret["bob"]
        self.load("one", **sent(3))
        self.assertEqual((3, 2), (self.factor("one"), self.factor("c")))


class Adopted(Keyed):
    def test_by_a_key(self):
        """After the creation of the first key, models from earlier requests belong to this key; decisions about the folder stay
        shared."""
        self.repository.put("a", 1, elementwise("mul", 2))
        self.start()
        self.load("m", **sent(3))
        self.unload("a")
        self.server.stop()
        self.keys(root="admin,infer", alice="infer,train", bob="infer")
        self.command("keys", "adopt", "alice")
        self.start()
        for name, found in (("alice", (3, 404)), ("bob", (404, 404))):
            self.key = self.secret[name]
            self.assertEqual(found, (self.factor("m"), self.factor("a")))


if __name__ == "__main__":
    unittest.main()
