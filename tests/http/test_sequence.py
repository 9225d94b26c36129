# SPDX-License-Identifier: MIT
"""Numbered runs are executed exactly once."""

import json
import os
import random
import re
import socket
import tempfile
import threading
import time
import unittest

from fixture import JSON, SAFETENSORS, SLOW_STEPS, Server, ServerTest, counter, head
from training_jobs import J, wait

P = "/api/v1/programs"


class Sequence(ServerTest):
    def put(self, name, **members):
        self.assertIn(self.call("PUT", f"{P}/{name}", counter(**members)).status, (200, 201))

    def run_once(self, name, seq, **members):
        return self.call("POST", f"{P}/{name}/run", {"inputs": {}, "seq": seq, **members})

    def count(self, name):
        return self.call("GET", f"{P}/{name}/state").json["state"]["n"]["data"][0]

    def test_t24_once(self):
        self.put("a")
        for status, seq, count in ((409, 0, 0), (409, 2, 0), (200, 1, 3), (200, 1, 3), (409, 3, 3), (200, 2, 6), (409, 1, 6), (200, 2, 6), (200, 3, 9)):
            answer = self.run_once("a", seq, steps=3)
            with self.subTest(seq=seq, count=count):
                self.assertEqual(status, answer.status, answer.body)
                self.assertEqual(count, self.count("a"))
        self.ok(self.call("POST", f"{P}/a/run", {"inputs": {}}))  # a run without a number is not counted
        self.assertEqual(9, self.run_once("a", 3).json["outputs"]["m"]["data"][0])
        self.assertEqual(10, self.count("a"))
        self.put("a")
        self.refused(409, self.run_once("a", 4))
        self.ok(self.run_once("a", 1))

    def test_the_same_bytes(self):
        self.put("b")
        first = self.run_once("b", 1, steps=4, collect={"every": 2, "outputs": ["m"]})
        self.assertEqual(self.ok(first).body, self.ok(self.run_once("b", 1)).body)
        body = json.dumps({"inputs": {}, "seq": 2})
        file = self.call("POST", f"{P}/b/run", body, {**JSON, "accept": SAFETENSORS})
        again = self.call("POST", f"{P}/b/run", body, {**JSON, "accept": SAFETENSORS})
        self.assertEqual((SAFETENSORS, self.ok(file).body), (again.type, again.body))

    def test_t24_at_the_same_time(self):
        """Of many requests with one number, one runs, and all get the same answer."""
        self.put("c")
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.run_once("c", 1, steps=20000))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({200}, {answer.status for answer in answers})
        self.assertEqual(1, len({answer.body for answer in answers}))
        self.assertEqual(20000, self.count("c"))

    def test_t24_failures(self):
        self.put("d")
        self.refused((400, 422), self.run_once("d", 1, steps=0))
        self.refused((400, 422), self.run_once("d", -1))
        self.ok(self.run_once("d", 1))  # the failed run did not use up the number
        late = self.refused(504, self.run_once("d", 2, steps=10**9, timeout_ms=300))
        self.assertGreater(late["step"], 0)
        self.assertEqual(late, self.refused(504, self.run_once("d", 2)))
        self.assertEqual(1 + late["step"], self.count("d"))
        self.ok(self.run_once("d", 3))

    def test_t27_the_client_goes_away(self):
        self.put("e")
        body = json.dumps({"inputs": {}, "seq": 1, "steps": 100000}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(head("POST", f"{P}/e/run", "content-type: application/json", f"content-length: {len(body)}") + body)
            end = time.monotonic() + 10
            while self.call("GET", f"{P}/e").json["steps"] == 0:
                self.assertLess(time.monotonic(), end)
        self.assertEqual([100000], self.ok(self.run_once("e", 1)).json["outputs"]["m"]["data"])
        self.assertEqual(100000, self.count("e"))


class Durable(unittest.TestCase):
    """For a durable program, the last number and its answer are as old as the stored state, whenever the server is killed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.start()

    def start(self, save="3600", *options):
        self.server = Server("--backends", "interp", "--state", self.folder, "--save-seconds", save, *options)
        self.addCleanup(self.server.stop)

    def again(self, save="3600"):
        self.server.process.kill()
        self.server.process.wait()
        self.start(save)

    def put(self, name):
        self.assertIn(self.server.call("PUT", f"{P}/{name}?durable=true", counter()).status, (200, 201))

    def run_once(self, name, seq, steps=3, status=200):
        answer = self.server.call("POST", f"{P}/{name}/run", {"inputs": {}, "seq": seq, "steps": steps})
        self.assertEqual(status, answer.status, answer.body)
        return answer.body

    def count(self, name):
        return self.server.call("GET", f"{P}/{name}/state").json["state"]["n"]["data"][0]

    def files(self):
        return os.listdir(os.path.join(self.folder, "programs"))

    def last(self, name):
        found = re.search(rb"it must be (\d+)(, which repeats)?", self.run_once(name, 10**9, status=409))
        return int(found[1]) - (found[2] is None)  # the number of the first run, if there was none

    def test_t24_kept_or_run_again(self):
        self.put("a")
        first = self.run_once("a", 1)
        self.assertEqual(0, self.server.stop())  # the shutdown stores the state
        self.start()
        self.assertEqual((first, 3), (self.run_once("a", 1), self.count("a")))
        self.run_once("a", 2)
        self.assertEqual(6, self.count("a"))
        self.again()  # before that was stored
        self.assertEqual((first, 3), (self.run_once("a", 1), self.count("a")))
        self.run_once("a", 3, status=409)
        self.run_once("a", 2)
        self.assertEqual(6, self.count("a"))
        self.put("a")
        self.again()
        self.assertEqual((0, 0), (self.last("a"), self.count("a")))  # the program starts anew

    def test_t24_the_server_ends_between_two_slices(self):
        """Of several runs in slices, all but one wait when the server ends: their finished steps and their numbers are
        stored."""
        self.server.stop()
        self.start("3600", "--grace", "0.3")
        names, answers = ("x", "y", "z"), {}
        for name in names:
            self.put(name)

        def ask(name):
            answers[name] = self.server.call("POST", f"{P}/{name}/run", {"inputs": {}, "seq": 1, "steps": SLOW_STEPS})
        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        while 0 in (self.server.call("GET", f"{P}/{name}").json["steps"] for name in names):
            self.assertLess(time.monotonic(), end)
        self.assertEqual(0, self.server.stop())
        for thread in threads:
            thread.join()
        self.start()
        for name in names:
            done = self.count(name)
            self.assertGreater(done, 0)
            self.assertEqual((503, done), (answers[name].status, answers[name].json["step"]))
            self.assertEqual((answers[name].body, done), (self.run_once(name, 1, status=503), self.count(name)))
            self.run_once(name, 2)
            self.assertEqual(done + 3, self.count(name))

    def test_t24_beside_jobs(self):
        """Runs whose effect is in the state of a job's checkpoint are not repeated, whether the job has ended or continues."""
        for name, steps in (("ended", 10), ("goes-on", SLOW_STEPS)):
            self.put(name)
            answer = self.run_once(name, 1)
            job = self.server.call("POST", J, {"program": name, "inputs": {}, "steps": steps, "checkpoint": {"every": 1000, "keep": 2}}).json["job"]
            if steps == SLOW_STEPS:
                end = time.monotonic() + 60
                while self.server.call("GET", f"{J}/{job}").json["step"] < 2000:
                    self.assertLess(time.monotonic(), end)
            else:
                wait(self.server, job)
                self.assertEqual(13, self.count(name))
            self.again()
            self.assertEqual(answer, self.run_once(name, 1))
            self.run_once(name, 3, status=409)
            if steps == SLOW_STEPS:
                wait(self.server, job, ("running",))
                self.assertEqual(answer, self.run_once(name, 1))
                self.run_once(name, 2, status=409)
                self.server.call("DELETE", f"{J}/{job}")
                done = wait(self.server, job)["step"]
                self.assertEqual(3 + done, self.count(name))
            else:
                self.assertEqual(13, self.count(name))
            before = self.count(name)
            self.run_once(name, 2)
            self.assertEqual(before + 3, self.count(name))

    def test_t24_killed_while_it_is_asked(self):
        """A client repeats each request without an answer: the number of steps equals the number of requests."""
        self.put("r")
        for seed in range(4):
            self.again("1")
            stop, last = threading.Event(), self.last("r")

            def ask(seq=last):
                while not stop.is_set():
                    try:
                        seq += 1
                        self.run_once("r", seq)
                    except OSError:
                        return
            asker = threading.Thread(target=ask)
            asker.start()
            before, end = self.files(), time.monotonic() + 60
            while seed % 2 and self.files() == before:  # in every second round the state is stored at least once
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
            time.sleep(random.Random(seed).uniform(0, 0.5))  # a kill at a random time
            self.server.process.kill()
            self.server.process.wait()
            stop.set()
            asker.join()
            self.start()
            self.assertGreaterEqual(self.last("r"), last)
            self.assertEqual(3 * self.last("r"), self.count("r"))
        self.assertGreater(self.last("r"), 0, "nothing was ever written down")


class End(unittest.TestCase):
    def test_the_server_ends(self):
        """The shutdown does not wait for an uninterruptible run."""
        server = Server("--backends", "interp", "--grace", "0.2")
        server.call("PUT", f"{P}/x", counter())
        thread = threading.Thread(target=lambda: server.call("POST", f"{P}/x/run", {"inputs": {}, "seq": 1, "steps": 10**9}))
        thread.start()
        while server.call("GET", f"{P}/x").json["steps"] == 0:
            time.sleep(0.01)
        begin = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - begin, 5)
        thread.join()


if __name__ == "__main__":
    unittest.main()
