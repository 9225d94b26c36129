# SPDX-License-Identifier: MIT
"""GET /api/v1/me, /now and /now/history: the client's identity, and the use of the devices by keys."""

import os
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from fixture import PROGRAM, ServerTest, graph
from test_keys import KeyedCase

SLOW = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": [1000]}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}],
        "updates": {"n": "m"}, "outputs": ["m"]}
NEVER = 1000000000  # steps that never end during the test


def until(get, want, seconds=60):
    """Waits for the first result of get() for which |want| is true."""
    end = time.monotonic() + seconds
    while not want(got := get()) and time.monotonic() < end:
        time.sleep(0.05)
    return got


class NowCase(KeyedCase):
    ARGS = ("--backends", "interp")

    def now(self, who):
        (device,) = self.ok(self.call(who, "GET", "/api/v1/now")).json["devices"]
        return device

    def keys_of(self, who):
        return {key["name"]: key for key in self.now(who)["keys"]}

    def program(self, who):
        self.ok(self.call(who, "PUT", "/api/v1/programs/p", SLOW), 201)

    def slow_run(self, pool, who, ms):
        return pool.submit(self.call, who, "POST", "/api/v1/programs/p/run", {"steps": NEVER, "timeout_ms": ms})

    def top(self, who):
        return subprocess.run([PROGRAM, "top", f"http://127.0.0.1:{self.server.port}", "--interval", "0.2", "--times", "2"], capture_output=True,
                              text=True, env={**os.environ, "BEAMLINE_KEY": self.key.get(who, who)})


class Me(KeyedCase):
    KEYS = {"root": ("admin",), "alice": ("run,train", "--device-seconds", "100", "--memory", "1M", "--rate", "50"), "brief": ("infer", "--ttl", "3600"),
            "meter": ("metrics",)}

    def test_each_key_knows_itself(self):
        for name, scopes in (("root", ["admin"]), ("alice", ["run", "train"]), ("brief", ["infer"]), ("meter", ["metrics"])):
            me = self.ok(self.call(name, "GET", "/api/v1/me")).json
            self.assertEqual((name, True, scopes), (me["name"], me["keys"], me["scopes"]))
        self.assertIsNone(me["expires"])
        self.assertAlmostEqual(time.time() + 3600, self.call("brief", "GET", "/api/v1/me").json["expires"], delta=60)
        self.assertEqual({"device_seconds": 100, "memory": 1 << 20, "rate": 50}, self.call("alice", "GET", "/api/v1/me").json["quotas"])

    def test_what_was_used(self):
        before = self.call("alice", "GET", "/api/v1/me").json["used"]
        self.ok(self.call("alice", "PUT", "/api/v1/tensors/t?dtype=uint8&shape=1000", b"x" * 1000, {"content-type": "application/octet-stream"}), 201)
        self.ok(self.call("alice", "PUT", "/api/v1/tensors/d?dtype=uint8&shape=500&durable=true", b"x" * 500, {"content-type": "application/octet-stream"}), 201)
        self.ok(self.call("alice", "POST", "/api/v1/run", graph()))
        after = until(lambda: self.call("alice", "GET", "/api/v1/me").json["used"], lambda used: used["device_seconds"] > before["device_seconds"])
        self.assertEqual(before["memory"] + 1500, after["memory"])
        self.assertGreaterEqual(after["disk"], before["disk"] + 500)
        self.assertGreater(after["device_seconds"], before["device_seconds"])
        self.assertEqual(0, self.call("meter", "GET", "/api/v1/me").json["used"]["memory"])
        self.assertGreater(until(lambda: self.call("alice", "GET", "/api/v1/me").json["used"]["rate"], lambda rate: rate > 0), 0)

    def test_without_a_key(self):
        self.refused(401, self.server.call("GET", "/api/v1/me"))
        self.refused(401, self.server.call("GET", "/api/v1/now"))
        self.refused(401, self.server.call("GET", "/api/v1/now/history"))


class WithoutKeys(ServerTest):
    def test_nobody_in_particular(self):
        me = self.ok(self.call("GET", "/api/v1/me")).json
        self.assertEqual((None, False, ["infer", "run", "train", "admin", "metrics"], None, {}), tuple(me[name] for name in ("name", "keys", "scopes", "expires", "quotas")))

    def test_own_work_has_no_name(self):
        self.ok(self.call("POST", "/api/v1/run", graph()))
        rows = [key for device in self.ok(self.call("GET", "/api/v1/now")).json["devices"] for key in device["keys"]]
        self.assertIn((None, True), [(row["name"], row["mine"]) for row in rows])


class Now(NowCase):
    KEYS = {"root": ("admin",), "alice": ("run,train",), "bob": ("run",), "carol": ("run",), "meter": ("metrics",)}

    def test_who_uses_what(self):
        """A long run uses its device all the time; every key sees the owner of each run, and only an administrator sees the
        durations."""
        self.program("alice")
        self.assertEqual(0, until(lambda: self.now("bob")["free_in"], lambda seconds: seconds == 0))
        with ThreadPoolExecutor(1) as pool:
            slow = self.slow_run(pool, "alice", 6000)
            seen = until(lambda: self.now("bob"), lambda device: any(key["name"] == "alice" and key["busy"] > 0.9 for key in device["keys"]))
            own = self.keys_of("alice")["alice"]
            again = self.keys_of("root")["alice"]
            shown = self.top("bob")
            curve = until(lambda: self.call("meter", "GET", "/api/v1/now/history?seconds=2").json["devices"][0], lambda d: len(d["busy"]) == 2 and min(d["busy"]) > 0.9 and len(d["keys"]) == 1)
            self.assertEqual(504, slow.result().status)
        self.assertGreater(seen["busy"], 0.9)
        self.assertIsNone(seen["free_in"])
        (row,) = (key for key in seen["keys"] if key["name"] == "alice")
        self.assertEqual((False, 1, ["run of p"]), (row["mine"], row["queue"], row["what"]))
        self.assertGreater(row["busy"], 0.9)
        self.assertGreaterEqual(row["memory_used"], 4000)
        self.assertNotIn("device_seconds", row)
        self.assertTrue(own["mine"])
        self.assertGreater(again["device_seconds"], own["device_seconds"] - 0.2)
        self.assertNotIn("meter", [key["name"] for key in seen["keys"]])
        self.assertEqual(0, shown.returncode, shown.stderr)
        self.assertRegex(shown.stdout, r"alice +\d+\.\d% +- +1 .*\n    run of p\n")
        self.assertEqual(["alice"], [key["name"] for key in curve["keys"]])
        self.assertGreater(min(curve["keys"][0]["busy"]), 0.9)
        self.assertEqual([1, 1], curve["queue"])
        done = until(lambda: self.now("bob"), lambda device: device["busy"] < 0.1)
        self.assertLess(done["busy"], 0.1)
        self.assertEqual(0, done["free_in"])

    def test_two_share(self):
        """Two keys have equal shares, which add up to the whole device."""
        for who in ("bob", "carol"):
            self.program(who)
        with ThreadPoolExecutor(2) as pool:
            runs = [self.slow_run(pool, who, 5000) for who in ("bob", "carol")]
            time.sleep(2.5)
            busy = {name: key["busy"] for name, key in self.keys_of("root").items()}
            whole = self.now("root")["busy"]
            self.assertEqual([504] * 2, [run.result().status for run in runs])
        self.assertTrue(0.3 < busy["bob"] < 0.7 and 0.3 < busy["carol"] < 0.7, busy)
        self.assertGreater(whole, 0.9)

    def test_what_for(self):
        """A job with its program, and runs that wait behind it, each listed once; each key sees only its own details."""
        for who in ("alice", "carol"):
            self.ok(self.call(who, "PUT", "/api/v1/programs/line", SLOW), 201)
        job = self.ok(self.call("alice", "POST", "/api/v1/jobs", {"program": "line", "steps": NEVER}), 202).json["job"]
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(self.call, "carol", "POST", "/api/v1/programs/line/run", {"steps": NEVER, "timeout_ms": 6000}) for _ in range(3)]
            want = {"alice": [f"job {job} of line"], "carol": ["run of line (3)"]}
            work = lambda: {name: key["what"] for name, key in self.keys_of("bob").items() if key["what"]}
            self.assertEqual(want, until(work, lambda got: got == want))
            left = until(lambda: self.now("bob")["free_in"], lambda seconds: seconds is not None)
            shown = self.top("root")
            self.assertEqual([504] * 3, [run.result().status for run in runs])
        self.assertGreater(left, 1)
        self.assertIn("\n    run of line (3)\n", shown.stdout)
        self.assertIn(f"\n    job {job} of line\n", shown.stdout)
        self.assertEqual(1, self.call("bob", "GET", "/api/v1/now").json["jobs"])
        self.ok(self.call("alice", "DELETE", f"/api/v1/jobs/{job}"), 202)
        self.assertEqual({}, until(work, lambda got: got == {}))
        self.assertEqual(0, until(lambda: self.now("bob")["free_in"], lambda seconds: seconds == 0))

    def test_history(self):
        end = until(lambda: self.call("bob", "GET", "/api/v1/now/history").json, lambda h: len(h["devices"][0]["busy"]) > 2)
        self.assertEqual(1, end["interval"])
        self.assertAlmostEqual(time.time(), end["until"], delta=5)
        (device,) = end["devices"]
        self.assertEqual({len(device[name]) for name in ("busy", "queue", "memory_used")}, {len(device["busy"])})
        self.assertTrue(all(len(key["busy"]) == len(device["busy"]) for key in device["keys"]))
        self.assertEqual(2, len(self.call("bob", "GET", "/api/v1/now/history?seconds=2").json["devices"][0]["busy"]))
        self.assertEqual(60, self.call("bob", "GET", "/api/v1/now/history?seconds=601").json["interval"])
        for seconds in ("0", "-1", "1e9", "86401", "x", "", "%20"):
            self.refused(400, self.call("bob", "GET", "/api/v1/now/history?seconds=" + seconds))

    def test_top_without_a_good_key(self):
        denied = self.top("bl_no")
        self.assertEqual(1, denied.returncode)
        self.assertIn("401", denied.stderr)


class Hidden(NowCase):
    ARGS = (*NowCase.ARGS, "--show-names=off")
    KEYS = {"root": ("admin",), "alice": ("run",), "bob": ("run",)}

    def test_others_have_no_name(self):
        self.program("alice")
        with ThreadPoolExecutor(1) as pool:
            slow = self.slow_run(pool, "alice", 4000)
            seen = until(lambda: self.now("bob"), lambda device: device["busy"] > 0.9)
            mine, all_of = self.keys_of("alice"), self.keys_of("root")
            answers = [self.call("bob", "GET", "/api/v1/now" + rest).body for rest in ("", "/history")]
            curve = self.call("bob", "GET", "/api/v1/now/history").json["devices"][0]
            self.assertEqual(504, slow.result().status)
        (row,) = seen["keys"]
        self.assertEqual(("others", False, 1, []), (row["name"], row["mine"], row["queue"], row["what"]))
        self.assertGreater(row["busy"], 0.9)
        self.assertEqual(["others"], [key["name"] for key in curve["keys"]])
        self.assertFalse(any(b"alice" in body for body in answers))
        self.assertEqual(["run of p"], mine["alice"]["what"])
        self.assertEqual(["run of p"], all_of["alice"]["what"])


if __name__ == "__main__":
    unittest.main()
