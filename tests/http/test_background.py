# SPDX-License-Identifier: MIT
"""Background search: the kernel of a hot plan is searched, the found kernel replaces it, and is replaced back if slower."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from fixture import PROGRAM, Server

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = {"inputs": {"a": {"dtype": "float32", "shape": [48, 64]}}, "state": {"b": {"op": "uniform", "attrs": {"shape": [64, 48], "seed": 1}}},
            "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"]}
SAMPLES = 7  # timed steps of a plan before a comparison
INPUTS = {"a": [[(7 * i + 3 * j) % 16 / 16 for j in range(64)] for i in range(48)]}


class Background(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def command(self, *words):
        done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240,
                              env={**os.environ, "BEAMLINE_CACHE": self.folder.name})
        self.assertEqual(0, done.returncode, done.stderr)

    def know_little(self):
        """Writes a kernel database in which a narrow search found that no moves are best."""
        with open(self.path("program.json"), "w") as file:
            json.dump(DOCUMENT, file)
        self.command("tune", self.path("program.json"), "--beam", "1", "--backends", "interp", "--beam-seconds", "5")
        self.command("kernels", "export", self.path("rows"))
        with open(self.path("rows")) as file:
            rows = [json.loads(line) for line in file]
        with open(self.path("rows"), "w") as file:
            for row in rows:
                file.write(json.dumps({**row, "moves": "", "best_ns": 1}) + "\n")
        self.command("kernels", "import", self.path("rows"))

    def start(self, *args, **env):
        server = Server("--backends", "interp", "--tune-after", "0.001", "--beam-seconds", "5", *args, env={"BEAMLINE_CACHE": self.folder.name, "BEAMLINE_KERNEL_DB": self.path("kernels.db"), **env})
        self.addCleanup(server.stop)
        self.assertEqual(201, server.call("PUT", "/api/v1/programs/p", DOCUMENT).status)
        return server

    def step(self, server, steps=2):
        answer = server.call("POST", "/api/v1/programs/p/run", {"inputs": INPUTS, "steps": steps})
        self.assertEqual(200, answer.status, answer.body[:500])
        return answer.json["outputs"]["y"]["data"]

    def until(self, server, what, seconds=60):
        """Sends requests until an event of the history has the kind |what|, or one of these kinds.  Returns the answer."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step(server)
            time.sleep(0.5)
            told = server.call("GET", "/api/v1/kernels").json
            if any(event["what"] in what for event in told["history"]):
                return told
        self.fail(f"none of {what} within {seconds} s: {told['history']}")

    def test_a_better_kernel_takes_its_place(self):
        self.know_little()
        server = self.start()
        before = self.step(server)
        told = self.until(server, ["kept"])
        self.assertEqual(["swapped", "kept"], [event["what"] for event in told["history"]])
        event = told["history"][-1]
        self.assertLess(event["after_us"], event["before_us"])
        after = self.step(server)
        self.assertTrue(all(abs(x - y) < 1e-4 for x, y in zip(before, after)))
        kernel, = [row for row in told["kernels"] if row["key"] == event["key"]]
        self.assertNotEqual("", kernel["moves"])
        plan, = [plan for plan in told["service"] if plan["programs"] == ["p/main"]]
        self.assertEqual([kernel["moves"]], [use["moves"] for use in plan["kernels"] if use["key"] == event["key"] and use["name"] == kernel["name"]])
        self.assertGreater(plan["kernels"][0]["device_seconds"], 0)

    def test_a_slower_one_is_taken_back(self):
        self.know_little()
        library, trigger = self.path("slow.so"), self.path("slow")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HERE / "slow_clock.c"], check=True)
        server = self.start(LD_PRELOAD=library, SLOW_CLOCK=trigger)
        before, served, end = self.step(server, 1), 0, time.monotonic() + 60
        while not server.call("GET", "/api/v1/kernels").json["history"]:
            if served < SAMPLES:  # samples of the old kernel only; the new kernel may have none before the clock slows
                time.sleep(1.05)  # the server times one step per second
                self.step(server, 1)
                served += 1
            self.assertLess(time.monotonic(), end, "nothing is swapped")
            time.sleep(0.01)
        self.assertEqual(SAMPLES, served, "it was known how long a step took before")
        pathlib.Path(trigger).touch()
        told = self.until(server, ["rolled back", "kept"])
        event = told["history"][-1]
        self.assertEqual("rolled back", event["what"], event)
        self.assertEqual(before, self.step(server))  # bit-identical, so the old kernel is back
        kernel, = [row for row in told["kernels"] if row["key"] == event["key"]]
        self.assertEqual(("", kernel["heuristic_ns"]), (kernel["moves"], kernel["best_ns"]))

    def test_off(self):
        server = self.start("--tune=off")
        for _ in range(4):
            self.step(server)
            time.sleep(0.4)
        told = server.call("GET", "/api/v1/kernels").json
        self.assertEqual([], told["history"])
        self.assertEqual(["p/main"], told["service"][0]["programs"])


if __name__ == "__main__":
    unittest.main()
