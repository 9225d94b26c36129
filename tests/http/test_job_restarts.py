# SPDX-License-Identifier: MIT
"""Jobs outlive their server: killed or told to end, it takes them up again, and nothing of the outcome is different."""

import hashlib
import os
import pathlib
import sys
import tempfile
import time
import unittest

from fixture import SAFETENSORS, SLOW_STEPS, Server, counter
from training import J, POINTS, events, line, noisy, noisy_inputs, wait

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import kills  # noqa: E402

P = "/api/v1/programs"


class Served(unittest.TestCase):
    backend = "interp"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.server = self.start()

    def tearDown(self):
        if self.server.process.poll() is None:
            self.assertEqual(0, self.server.stop(), self.server.last[-3000:])
        self.folder.cleanup()

    def start(self, *args):
        return Server("--backends", self.backend, *args, env={"BEAMLINE_STATE": self.folder.name})

    def kill(self, *args):
        self.server.process.kill()
        self.server.stop()
        self.server = self.start(*args)

    def submit(self, name, program, **members):
        self.assertIn(self.server.call("PUT", f"{P}/{name}", program).status, (200, 201))
        answer = self.server.call("POST", J, {"program": name, **members})
        self.assertEqual(202, answer.status, answer.body)
        return answer.json["job"]

    def state(self, name):
        """A digest of all of it."""
        answer = self.server.call("GET", f"{P}/{name}/state", headers={"accept": SAFETENSORS})
        self.assertEqual(200, answer.status, answer.body[:500])
        return hashlib.sha256(answer.body).hexdigest()

    def step_past(self, job, step, seconds=60):
        end = time.monotonic() + seconds
        while self.server.call("GET", f"{J}/{job}").json["step"] <= step:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


class Restarts(Served):
    def test_t24_killed_at_random(self):
        """A sample of tests/kills.py."""
        killed, jobs, restarts = kills.run(4, time.time_ns() % 1000, "interp", 2000, lambda *_, **__: None)
        self.assertEqual(4, killed)
        self.assertGreater(jobs, 0)
        self.assertGreater(restarts, 0)

    def test_told_to_end(self):
        job = self.submit("c", counter(), inputs={}, steps=SLOW_STEPS, collect={"every": 1000, "outputs": ["m"]})
        self.step_past(job, 5000)
        self.assertEqual(0, self.server.stop())
        self.server = self.start()
        again = wait(self.server, job, ("running",))
        self.assertGreater(again["step"], 5000)  # it was written down at the end
        self.assertEqual(1, again["restarts"])
        self.server.call("DELETE", f"{J}/{job}")
        ended = wait(self.server, job)
        self.assertEqual(ended["step"], self.server.call("GET", f"{P}/c/state").json["state"]["n"]["data"][0])
        self.kill()
        self.assertEqual(ended, self.server.call("GET", f"{J}/{job}").json)
        rows = self.server.call("GET", f"{J}/{job}/history").json["rows"]
        self.assertEqual([[n, n] for n in range(1000, ended["step"] + 1, 1000)][:100], [[row[0], row[2]] for row in rows][:100])

    def test_events_go_on(self):
        job = self.submit("e", line(), inputs=POINTS, steps=20000, collect={"every": 10, "outputs": ["loss"]}, checkpoint={"every": 500})
        self.step_past(job, 2000)
        self.kill()
        wait(self.server, job)
        told = events(self.server.call("GET", f"{J}/{job}/events", headers={"last-event-id": "19000"}).body)
        self.assertEqual([str(n) for n in range(19010, 20001, 10)], [number for name, number, _ in told if name == "message"])
        rows = self.server.call("GET", f"{J}/{job}/history").json["rows"]
        self.assertEqual(list(range(10, 20001, 10)), [row[0] for row in rows])

    def test_an_early_stop_remembers(self):
        job = self.submit("s", counter(), inputs={}, steps=50000000, collect={"every": 100, "outputs": ["m"]}, checkpoint={"every": 100},
                          early_stop={"metric": "m", "patience": 200, "mode": "min"})
        self.step_past(job, 3000)
        self.kill()
        self.assertEqual(("done", 20100), tuple(wait(self.server, job)[k] for k in ("state", "step")))

    def test_those_that_wait_go_on_too(self):
        first = self.submit("one", counter(), inputs={}, steps=SLOW_STEPS)
        second = self.submit("two", counter(), inputs={}, steps=500)
        self.kill()
        wait(self.server, first, ("running",))
        for method, path, body in (("PUT", f"{P}/two", counter()), ("DELETE", f"{P}/two", None)):
            self.assertEqual(409, self.server.call(method, path, body).status)
        self.server.call("DELETE", f"{J}/{first}")
        self.assertEqual("done", wait(self.server, second)["state"])
        self.assertEqual([500], self.server.call("GET", f"{P}/two/state").json["state"]["n"]["data"])

    def test_in_the_midst_of_a_step(self):
        """Sums of gradients and the scale of the loss are taken up as well."""
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 3000, "accumulate": 5, "compute": "float16", "checkpoint": {"every": 7}}
        wait(self.server, self.submit("whole", noisy(), **members))
        wanted = self.state("whole")
        job = self.submit("cut", noisy(), **members)
        for step in (300, 1100):
            self.step_past(job, step)
            self.kill()
        done = wait(self.server, job)
        self.assertEqual(("done", 2), (done["state"], done["restarts"]), done)
        self.assertEqual(wanted, self.state("cut"))
        self.assertEqual(2 * len(done["checkpoints"]) + 1, len(os.listdir(pathlib.Path(self.folder.name, "jobs", job))))

    def checkpoints(self, job):
        return sorted((path for path in pathlib.Path(self.folder.name, "jobs", job).iterdir() if path.stem.isdigit()), key=lambda path: int(path.stem))

    def test_t24_a_torn_checkpoint_is_passed_over(self):
        job = self.submit("t", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 1000, "keep": 3})
        self.step_past(job, 8000)
        self.server.process.kill()
        self.server.stop()
        last = self.checkpoints(job)[-1]
        last.write_bytes(last.read_bytes()[:-2])
        self.server = self.start()
        wait(self.server, job, ("running",))
        self.server.call("DELETE", f"{J}/{job}")
        ended = wait(self.server, job)
        self.assertEqual("cancelled", ended["state"])
        self.assertEqual([ended["step"]], self.server.call("GET", f"{P}/t/state").json["state"]["n"]["data"])
        self.assertEqual(3, len(self.checkpoints(job)))

    def test_t24_what_cannot_be_taken_up_fails(self):
        job = self.submit("f", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 1000})
        self.step_past(job, 3000)
        self.server.process.kill()
        self.server.stop()
        for path in self.checkpoints(job):
            path.write_bytes(b"")
        self.server = self.start()
        failed = wait(self.server, job)
        self.assertEqual("failed", failed["state"])
        self.assertTrue(failed["reason"])
        self.assertEqual(200, self.server.call("PUT", f"{P}/f", counter()).status)  # it is nobody's again

    def test_t24_files_are_swept(self):
        job = self.submit("w", counter(), inputs={}, steps=100)
        wait(self.server, job)
        folder = pathlib.Path(self.folder.name, "jobs")
        (folder / job / "77.safetensors").write_bytes(b"x")
        (folder / job / "100.safetensors.new").write_bytes(b"x")
        (folder / ("0" * 32)).mkdir()
        (folder / ("0" * 32) / "request.safetensors").write_bytes(b"x")
        self.kill()
        self.assertEqual({"0.safetensors", "100.safetensors", "request.safetensors"}, set(os.listdir(folder / job)))
        self.assertEqual([job], os.listdir(folder))
        self.assertEqual(204, self.server.call("DELETE", f"{J}/{job}?remove=true").status)
        self.assertEqual([], os.listdir(folder))

    def test_t26_a_full_disk(self):
        """A checkpoint that cannot be written is told of, and the next one is tried."""
        job = self.submit("d", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 2000})
        folder = pathlib.Path(self.folder.name, "jobs", job)
        moved = folder.with_name("elsewhere")
        folder.rename(moved)  # root may write anywhere, so taking rights away would not do
        end = time.monotonic() + 30
        while "warning" not in self.server.call("GET", f"{J}/{job}").json and time.monotonic() < end:
            time.sleep(0.005)
        self.assertIn("could not be written", self.server.call("GET", f"{J}/{job}").json["warning"])
        moved.rename(folder)
        before = self.server.call("GET", f"{J}/{job}").json["step"]
        while self.server.call("GET", f"{J}/{job}").json["checkpoints"][-1]["step"] < before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertNotIn("warning", self.server.call("GET", f"{J}/{job}").json)
        self.server.call("DELETE", f"{J}/{job}")
        self.assertEqual("cancelled", wait(self.server, job)["state"])


class Kernels(Served):
    """Where moves change the order of sums."""

    backend = "opencl"

    def test_other_settings_change_nothing(self):
        """The kernels that a job began with are those that it ends with, though the server would choose others now."""
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 3000, "collect": {"every": 50, "outputs": ["loss"]}, "checkpoint": {"every": 100}}
        wait(self.server, self.submit("whole", noisy(), **members))
        wanted = self.state("whole")
        job = self.submit("cut", noisy(), **members)
        self.step_past(job, 500)
        self.kill("--noopt")
        done = wait(self.server, job)
        self.assertEqual(("done", 1), (done["state"], done["restarts"]), done)
        self.assertEqual(wanted, self.state("cut"))
        # and without the kernels of the job there is a difference to be seen
        self.assertIn(self.server.call("PUT", f"{P}/plain", noisy()).status, (200, 201))
        self.server.call("POST", f"{P}/plain/run", {"entry": "train", "inputs": inputs, "steps": 3000})
        self.assertNotEqual(wanted, self.state("plain"))


if __name__ == "__main__":
    unittest.main()
