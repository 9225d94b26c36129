# SPDX-License-Identifier: MIT
"""API keys: authentication, scopes and quotas."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from fixture import JSON, OCTETS, PROGRAM, ROOT, SAFETENSORS, Server, counter, graph

SCOPES = ("infer", "run", "train", "admin", "metrics")
OPEN = {"/", "/ui/{name}", "/openapi.json", "/health", "/v2", "/v2/", "/v2/health/live", "/v2/health/ready"}  # the allow-list of routes without a key
NAMES = {"INFER": {"infer"}, "RUN": {"run"}, "TRAIN": {"train"}, "ADMIN": {"admin"}, "METRICS": {"metrics"}, "WORK": {"run", "train"},
         "ANY": set(SCOPES), "NONE": set()}


def routes():
    """Returns (method, pattern, media words, sufficient scopes) of every row of the table."""
    with open(ROOT + "/server/http/routes.def") as file:
        rows = re.findall(r'^BL_ROUTE\("(\w+)", "([^"]+)", \w+, ([^"]+), "[^"]*", ([^,]+),', file.read(), re.M)
    return [(method, pattern, media, set().union(*(NAMES[w] for w in re.findall(r"BL_SCOPE_(\w+)", scope))))
            for method, pattern, media, scope in rows]


class Keys:
    """A --state folder and the key commands."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()

    def run(self, *words, fails=False):
        done = subprocess.run([PROGRAM, *words, "--state", self.folder.name], capture_output=True, text=True, timeout=60)
        if (done.returncode != 0) != fails:
            raise AssertionError(f"{words}: status {done.returncode}: {done.stderr}")
        return (done.stderr if fails else done.stdout).strip()

    def make(self, name, scopes="run", *options):
        return self.run("keys", "create", name, "--scopes", scopes, *options)

    def server(self, *options):
        return Server("--state", self.folder.name, *options)


class KeyedCase(unittest.TestCase):
    """A server with keys for all tests of a class."""

    KEYS = {}
    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.keys = Keys()
        cls.key = {name: cls.keys.make(name, *words) for name, words in cls.KEYS.items()}
        cls.server = cls.keys.server(*cls.ARGS)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.server.log_text()[-3000:])
        cls.keys.folder.cleanup()

    def call(self, name, method, path, body=None, headers=None):
        headers = {**(headers or {}), **({"authorization": "Bearer " + self.key[name]} if name else {})}
        return self.server.call(method, path, body, headers)

    def ok(self, answer, status=200):
        self.assertEqual(status, answer.status, answer.body[:1000])
        return answer

    def refused(self, status, answer, words=""):
        self.assertEqual(status, answer.status, answer.body[:500])
        self.assertIn(words, answer.body.decode())
        return answer


class Matrix(KeyedCase):
    """T19: every route of the table with every kind of key."""

    KEYS = {name: (name,) for name in SCOPES}

    def ask(self, method, pattern, media, headers):
        path = re.sub(r"\{\w+\}", "nothing", pattern)
        headers = dict(headers)
        if media != "0":
            headers.update(JSON if "JSON" in media else OCTETS if "OCTETS" in media else {"content-type": SAFETENSORS})
        return self.server.call(method, path, b"{" if media != "0" else None, headers)

    def test_t19_every_route_with_every_key(self):
        table = routes()
        self.assertGreater(len(table), 25)
        self.assertEqual(OPEN, {pattern for _, pattern, _, scopes in table if not scopes}, "what asks for no key is on the list here")
        for method, pattern, media, scopes in table:
            with self.subTest(f"{method} {pattern}"):
                answer = self.ask(method, pattern, media, {})
                if not scopes:
                    self.assertNotIn(answer.status, (401, 403))
                    continue
                self.assertEqual(401, answer.status, answer.body)
                self.assertIn("Bearer", answer.headers["www-authenticate"])
                self.assertEqual(401, self.ask(method, pattern, media, {"authorization": "Bearer bl_" + 43 * "A"}).status)
                for name in SCOPES:
                    status = self.ask(method, pattern, media, {"x-api-key": self.key[name]}).status
                    if name in scopes:
                        self.assertNotIn(status, (401, 403), name)
                    else:
                        self.assertEqual(403, status, name)

    def test_t19_unknown_addresses_tell_nothing_without_a_key(self):
        for method, path in (("GET", "/nothing"), ("GET", "/api/v1/nothing"), ("BREW", "/api/v1/run"), ("PUT", "/api/v1/run"), ("GET", "/v1/nothing/x")):
            answer = self.server.call(method, path)
            self.assertEqual(401, answer.status, path)
            self.assertNotIn("allow", answer.headers)
        self.assertEqual(404, self.call("run", "GET", "/nothing").status)
        self.assertEqual(405, self.call("run", "PUT", "/api/v1/run", b"").status)

    def test_t20_how_a_key_may_be_given(self):
        key = self.key["run"]
        good = ({"authorization": "Bearer " + key}, {"authorization": "bearer  " + key}, {"x-api-key": key}, {"X-API-KEY": key})
        bad = ({}, {"authorization": key}, {"authorization": "Basic " + key}, {"authorization": "Bearer " + key + "x"}, {"x-api-key": key[:-1]},
               {"x-api-key": ""}, {"authorization": "Bearer"}, {"authorization": "Bearer " + key.upper()}, {"x-api-key": "Bearer " + key},
               {"authorization": "Bearer " + key, "x-api-key": key})
        for headers in good:
            self.ok(self.server.call("GET", "/api/v1/tensors", None, headers))
        for headers in bad:
            answer = self.refused(401, self.server.call("GET", "/api/v1/tensors", None, headers))
            self.assertNotIn(key, answer.body.decode())

    def test_v2_has_triton_errors(self):
        got = [pattern for _, pattern, _, scopes in routes() if pattern.startswith("/v2") and scopes]
        for pattern in got:
            answer = self.server.call("GET", re.sub(r"\{\w+\}", "nothing", pattern))
            if answer.status == 401:
                self.assertEqual(["error"], list(answer.json))


class Life(unittest.TestCase):
    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)

    def start(self, *options):
        server = self.keys.server(*options)
        self.addCleanup(server.stop)
        return server

    def status(self, server, key, path="/api/v1/tensors"):
        return server.call("GET", path, None, {"x-api-key": key} if key else {}).status

    def until(self, server, key, status, seconds=5):
        end = time.monotonic() + seconds
        while self.status(server, key) != status and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(status, self.status(server, key))

    def test_what_nobody_had_is_adopted(self):
        server = self.start()
        self.assertEqual(201, server.call("PUT", "/api/v1/tensors/t?durable=true", [1, 2]).status)
        self.assertEqual(201, server.call("PUT", "/api/v1/programs/p?durable=true", counter()).status)
        job = server.call("POST", "/api/v1/jobs", {"program": "p", "inputs": {}, "steps": 3}).json["job"]
        key = {"x-api-key": self.keys.make("alice", "run,train")}
        self.until(server, None, 401)
        self.assertIn("another server", self.keys.run("keys", "adopt", "alice", fails=True))
        server.stop()
        self.assertIn("no key", self.keys.run("keys", "adopt", "bob", fails=True))
        self.assertIn("now belong to alice", self.keys.run("keys", "adopt", "alice"))
        server = self.start()
        self.assertEqual([1, 2], server.call("GET", "/api/v1/tensors/t", None, key).json["data"])
        self.assertEqual(200, server.call("GET", f"/api/v1/jobs/{job}", None, key).status)
        self.assertEqual(["p"], [one["name"] for one in server.call("GET", "/api/v1/programs", None, key).json["programs"]])

    def test_nobody_then_keys_then_nobody_no_more(self):
        server = self.start()
        self.assertEqual(200, self.status(server, None))
        self.assertEqual(409, server.call("POST", "/api/v1/keys", {"name": "a", "scopes": ["run"]}).status)  # otherwise no key could create the next
        made = server.call("POST", "/api/v1/keys", {"name": "root", "scopes": ["admin", "run"]})
        self.assertEqual(201, made.status, made.body)
        key = made.json["key"]
        self.assertRegex(key, r"^bl_[A-Za-z0-9_-]{43}$")
        self.assertEqual((401, 200), (self.status(server, None), self.status(server, key)))
        self.assertEqual(204, server.call("DELETE", "/api/v1/keys/root", None, {"x-api-key": key}).status)
        self.assertEqual((401, 401), (self.status(server, None), self.status(server, key)))  # all keys are revoked, so no client is accepted
        server.stop()
        again = self.start()
        self.assertEqual(401, self.status(again, None))
        self.until(again, self.keys.run("keys", "rotate", "root"), 200)

    def test_t20_commands_reach_a_running_server(self):
        first = self.keys.make("first")
        server = self.start()
        second = self.keys.make("second")
        server.process.send_signal(signal.SIGHUP)
        self.until(server, second, 200, 0.8)
        self.keys.run("keys", "revoke", "first")
        self.until(server, first, 401)  # without SIGHUP
        self.assertEqual(200, self.status(server, second))
        fresh = self.keys.run("keys", "rotate", "second")
        self.until(server, fresh, 200)
        self.assertEqual(401, self.status(server, second))
        self.keys.run("keys", "set", "second", "--scopes", "metrics")
        self.until(server, fresh, 403)

    def test_t20_expiry(self):
        key = self.keys.make("brief", "run", "--ttl", "2s")
        server = self.start()
        self.assertEqual(200, self.status(server, key))
        self.until(server, key, 401)
        answer = server.call("GET", "/api/v1/tensors", None, {"x-api-key": key})
        self.assertIn("expired", answer.json["detail"])
        self.keys.run("keys", "set", "brief", "--ttl", "1h")
        self.until(server, key, 200)

    def test_t20_no_secret_is_kept_or_told(self):
        keys = [self.keys.make(f"k{i}", "run,admin") for i in range(3)]
        server = self.start("--log-level", "debug")
        for key in keys:
            server.call("GET", "/api/v1/keys", None, {"authorization": "Bearer " + key})
            server.call("GET", "/api/v1/tensors/" + key, None, {"x-api-key": key})
        answer = server.call("GET", "/api/v1/keys", None, {"x-api-key": keys[0]})
        self.assertEqual(["k0", "k1", "k2"], [row["name"] for row in answer.json["keys"]])
        server.stop()
        texts = [server.log_text().replace("/api/v1/tensors/", "").encode(), answer.body]
        for folder, _, names in os.walk(self.keys.folder.name):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    texts.append(file.read())
        for key in keys:
            for text in texts[1:]:
                self.assertNotIn(key[3:].encode(), text)
            self.assertNotIn(b"Bearer " + key.encode(), texts[0])
        self.assertEqual(0o700, os.stat(self.keys.folder.name).st_mode & 0o777)

    def test_t22_another_address_needs_keys_or_force(self):
        refused = subprocess.run([PROGRAM, "serve", "--port", "0", "--host", "0.0.0.0", "--state", self.keys.folder.name], capture_output=True,
                                 text=True, timeout=60)
        self.assertEqual(1, refused.returncode)
        self.assertIn("beamline keys create", refused.stderr)
        key = self.keys.make("a")
        server = self.start("--host", "0.0.0.0")
        self.assertEqual((401, 200), (self.status(server, None), self.status(server, key)))

    def test_words_that_are_none(self):
        self.keys.make("a", "run,train", "--rate", "2.5", "--memory", "1G", "--ttl", "30d")
        for words, says in ((("create", "a", "--scopes", "run"), "already"), (("create", "b"), "scope"), (("create", "b", "--scopes", "walk"), "walk"),
                            (("create", "../b", "--scopes", "run"), "not a valid name"), (("create", "b:c", "--scopes", "run"), "not a valid name"),
                            (("create", "n" * 64, "--scopes", "run"), "not a valid name"), (("revoke", "none"), "no key"), (("rotate", "none"), "no key"),
                            (("set", "none", "--rate", "1"), "no key"), (("set", "a", "--rate", "-1"), "rate"), (("set", "a", "--rate", "x"), "rate"),
                            (("set", "a", "--queue", "1.5"), "queue"), (("set", "a", "--ttl", "soon"), "ttl"), (("set", "a", "--nothing", "1"), "nothing"),
                            (("set", "a", "--rate"), "")):
            self.assertIn(says, self.keys.run("keys", *words, fails=True), words)
        listed = self.keys.run("keys", "list")
        for word in ("a ", "run,train", "rate=2.5", "memory=1073741824"):
            self.assertIn(word, listed)

    def test_the_api_of_keys(self):
        root = {"x-api-key": self.keys.make("root", "admin")}
        server = self.start()
        made = server.call("POST", "/api/v1/keys", {"name": "bob", "scopes": ["run", "infer"], "ttl": 3600, "quotas": {"rate": 3, "memory": 1000}}, root)
        self.assertEqual(201, made.status, made.body)
        row = server.call("GET", "/api/v1/keys", None, root).json["keys"][1]
        self.assertEqual(("bob", ["infer", "run"], {"rate": 3, "memory": 1000}), (row["name"], row["scopes"], row["quotas"]))
        self.assertTrue(row["expires"] > row["created"])
        changed = server.call("PUT", "/api/v1/keys/bob", {"scopes": ["train"], "ttl": None, "quotas": {"rate": None, "queue": 2}}, root).json
        self.assertEqual((["train"], {"memory": 1000, "queue": 2}), (changed["scopes"], changed["quotas"]))
        self.assertNotIn("expires", changed)
        rotated = server.call("POST", "/api/v1/keys/bob/rotate", None, root).json["key"]
        self.assertEqual((401, 200), (self.status(server, made.json["key"]), self.status(server, rotated)))
        for body, status in (({"name": "bob", "scopes": ["run"]}, 409), ({"name": "x"}, 400), ({"name": "x", "scopes": []}, 400), ({"scopes": ["run"]}, 400),
                             ({"name": "x", "scopes": ["walk"]}, 400), ({"name": "x", "scopes": "run"}, 400), ({"name": "x y", "scopes": ["run"]}, 400),
                             ({"name": "x", "scopes": ["run"], "ttl": -1}, 400), ({"name": "x", "scopes": ["run"], "quotas": {"speed": 1}}, 400),
                             ({"name": "x", "scopes": ["run"], "quotas": {"rate": "fast"}}, 400), ({"name": "x", "scopes": ["run"], "more": 1}, 400)):
            self.assertEqual(status, server.call("POST", "/api/v1/keys", body, root).status, body)
        for method, path in (("PUT", "/api/v1/keys/none"), ("POST", "/api/v1/keys/none/rotate"), ("DELETE", "/api/v1/keys/none")):
            self.assertEqual(404, server.call(method, path, {} if method == "PUT" else None, root).status)
        self.assertEqual(2, len(server.call("GET", "/api/v1/keys", None, root).json["keys"]))


class Quotas(KeyedCase):
    KEYS = {"root": ("admin",), "slow": ("run", "--rate", "5"), "spent": ("run", "--device-seconds", "0"), "free": ("run,train",), "two": ("run", "--queue", "2"),
            "brief": ("run,train", "--device-seconds", "0.3")}

    def test_t23_rate(self):
        statuses, begin = [], time.monotonic()
        while time.monotonic() - begin < 2:
            answer = self.call("slow", "GET", "/api/v1/tensors")
            statuses.append(answer.status)
            if answer.status == 429:
                self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
                self.assertIn("5 requests a second", answer.json["detail"])
                self.assertEqual("urn:beamline:error:equota", answer.json["type"])
            time.sleep(0.01)
        self.assertIn(statuses.count(200), range(10, 18))  # a burst of five, then five per second
        self.assertEqual({200}, {self.call("free", "GET", "/api/v1/tensors").status for _ in range(50)})

    def test_t23_device_seconds(self):
        answer = self.refused(429, self.call("spent", "POST", "/api/v1/run", graph()), "quota of 0 s of device time a day")
        self.assertLessEqual(int(answer.headers["retry-after"]), 86400)
        self.ok(self.call("spent", "PUT", "/api/v1/tensors/t", [1]), 201)
        self.call("root", "PUT", "/api/v1/keys/spent", {"quotas": {"device_seconds": 100}})
        self.ok(self.call("spent", "POST", "/api/v1/run", graph()))
        self.call("root", "PUT", "/api/v1/keys/spent", {"quotas": {"device_seconds": 0}})
        self.refused(429, self.call("spent", "POST", "/api/v1/run", graph()))

    def test_t23_a_job_waits_for_tomorrow(self):
        """A job over its daily quota waits, and other jobs run; with a larger quota it continues from its position."""
        long = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": [200000]}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}, {"id": "s", "op": "mean", "in": ["m"]}],
                "updates": {"n": "m"}, "outputs": ["s"]}
        at = {}
        for who in ("brief", "free"):
            self.ok(self.call(who, "PUT", "/api/v1/programs/long", long), 201)
            at[who] = self.ok(self.call(who, "POST", "/api/v1/jobs", {"program": "long", "inputs": {}, "steps": 1000000000, "priority": 5 if who == "brief" else 0}), 202).headers["location"]
        end, job = time.monotonic() + 20, {}
        while job.get("state") != "queued" and time.monotonic() < end:
            time.sleep(0.2)
            job = self.call("brief", "GET", at["brief"]).json
        self.assertEqual(("queued", "the key has had its device time of today"), (job["state"], job["reason"]))
        steps = self.call("free", "GET", at["free"]).json["step"]
        time.sleep(0.5)
        self.assertGreater(self.call("free", "GET", at["free"]).json["step"], steps)
        self.call("root", "PUT", "/api/v1/keys/brief", {"quotas": {"device_seconds": None}})
        end = time.monotonic() + 20
        while self.call("brief", "GET", at["brief"]).json["step"] <= job["step"] and time.monotonic() < end:
            time.sleep(0.2)
        self.assertGreater(self.call("brief", "GET", at["brief"]).json["step"], job["step"])
        for who in at:
            self.refused(404, self.call("brief" if who == "free" else "free", "GET", at[who]))
            self.ok(self.call(who, "DELETE", at[who]), 202)

    def test_t23_queue(self):
        long = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}],
                "updates": {"n": "m"}, "outputs": ["m"]}
        self.ok(self.call("two", "PUT", "/api/v1/programs/p", long), 201)
        with ThreadPoolExecutor(6) as pool:
            slow = [pool.submit(self.call, "two", "POST", "/api/v1/programs/p/run", {"steps": 1000000000, "timeout_ms": 1500}) for _ in range(6)]
            time.sleep(0.5)
            answer = self.refused(429, self.call("two", "POST", "/api/v1/run", graph()), "2 requests in the queue")
            self.assertEqual("1", answer.headers["retry-after"])
            self.ok(self.call("free", "POST", "/api/v1/run", graph()))
            self.assertEqual([429] * 4 + [504] * 2, sorted(one.result().status for one in slow))

    def test_usage(self):
        for _ in range(5):
            self.ok(self.call("free", "POST", "/api/v1/run", graph()))
        for _ in range(100):  # a request is counted at its end, which may follow its answer
            own = self.ok(self.call("free", "GET", "/api/v1/usage")).json["usage"]
            if own and own[0]["requests"] >= 5:
                break
        self.assertEqual(["free"], [row["key"] for row in own])
        self.assertGreaterEqual(own[0]["requests"], 5)
        self.assertGreater(own[0]["device_seconds"], 0)
        self.assertGreater(own[0]["received_bytes"], 5 * 50)
        self.assertGreater(own[0]["sent_bytes"], 5 * 50)
        everyone = self.call("root", "GET", "/api/v1/usage?days=7").json["usage"]
        self.assertLessEqual({"free", "root"}, {row["key"] for row in everyone})
        time.sleep(1.2)  # the command reads the stored numbers
        self.assertRegex(self.keys.run("usage"), r"free +\d+ +\d+\.\d+ +\d+ +\d+")
        for days in ("0", "x", "1000", "%2B1", "%201", "-1", "1x"):
            self.refused(400, self.call("free", "GET", "/api/v1/usage?days=" + days))


if __name__ == "__main__":
    unittest.main()
