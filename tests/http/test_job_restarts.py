# SPDX-License-Identifier: MIT
"""Jobs survive restarts of their server: after a kill or a shutdown the server resumes them, with the same results."""

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time
import unittest

from fixture import OCTETS, SAFETENSORS, SLOW_STEPS, Server, counter
from test_residents import VULKAN, has_vulkan
from training_jobs import J, POINTS, events, judge, line, noisy, noisy_inputs, places, wait

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
        """Returns a digest of the whole state."""
        answer = self.server.call("GET", f"{P}/{name}/state", headers={"accept": SAFETENSORS})
        self.assertEqual(200, answer.status, answer.body[:500])
        return hashlib.sha256(answer.body).hexdigest()

    def step_past(self, job, step, seconds=60):
        end = time.monotonic() + seconds
        while self.server.call("GET", f"{J}/{job}").json["step"] <= step:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


class Short(Served):
    """A queue of as many jobs as memory allows, behind a job that does not end."""

    ARGS = ("--max-memory", "48M", "--pool", "0", "--tune=off")
    X = 65536

    def start(self, *args):
        return super().start(*(args or self.ARGS))

    def fill(self):
        """Starts the first job and the others."""
        program = {"state": {"w": {"op": "full", "attrs": {"shape": [16384], "value": 0}}}, "inputs": {"x": {"dtype": "float32", "shape": [self.X]}},
                   "nodes": [{"id": "s", "op": "sum", "in": ["x"]}, {"id": "w1", "op": "add", "in": ["w", "s"]}], "updates": {"w": "w1"}, "outputs": ["s"]}
        jobs, inputs = [], {"x": [1] + [0] * (self.X - 1)}
        for i in range(1000):
            name = f"p{i}"
            if self.server.call("PUT", f"{P}/{name}", program).status != 201:
                break
            answer = self.server.call("POST", J, {"program": name, "inputs": inputs, "steps": 3 if jobs else SLOW_STEPS})
            if answer.status != 202:
                self.assertIn(answer.status, (503, 507), answer.body)
                break
            jobs.append(answer.json["job"])
        self.assertGreater(len(jobs), 20)
        return jobs[0], jobs[1:]

    def listed(self):
        return {job["job"]: job for job in self.server.call("GET", J).json["jobs"]}

    def until(self, holds, seconds=240):
        end = time.monotonic() + seconds
        while not holds(found := self.listed()):
            self.assertLess(time.monotonic(), end, [(job["state"], job["reason"]) for job in found.values()])
            time.sleep(0.1)
        return found

    def none_failed(self, found):
        self.assertEqual([], [job["reason"] for job in found.values() if job["state"] == "failed"])

    def test_t24_as_many_as_there_is_memory_for(self):
        first, others = self.fill()
        self.step_past(first, 0)
        self.kill()
        self.step_past(first, 0)
        self.server.call("DELETE", f"{J}/{first}")
        found = self.until(lambda jobs: all(job["state"] in ("done", "failed") for job in jobs.values() if job["job"] != first))
        self.none_failed(found)
        self.assertEqual({"done"}, {found[job]["state"] for job in others})
        self.assertEqual({3}, {found[job]["step"] for job in others})

    def test_t24_with_less_of_it(self):
        """After a restart with less memory, jobs wait until other jobs have ended; a waiting job can be cancelled, and a
        restart with more memory resumes the rest."""
        first, others = self.fill()
        self.kill("--max-memory", "12M", "--pool", "0", "--tune=off")
        found = self.until(lambda jobs: any("memory" in job["reason"] for job in jobs.values()))
        self.none_failed(found)
        late = next(job["job"] for job in found.values() if "memory" in job["reason"] and job["job"] != first)
        self.assertEqual("queued", found[late]["state"])
        self.server.call("DELETE", f"{J}/{late}")
        self.assertEqual("cancelled", wait(self.server, late)["state"])
        self.none_failed(self.listed())
        self.kill()
        self.server.call("DELETE", f"{J}/{first}")
        self.until(lambda jobs: all(jobs[job]["state"] == "done" for job in others if job != late))
        self.assertEqual("cancelled", self.listed()[late]["state"])


class FirstStep(Served):
    """An admitted job for whose first step the memory is short."""

    ARGS = ("--max-memory", "48M", "--pool", "0", "--tune=off")

    def start(self, *args):
        return super().start(*self.ARGS, *args)

    def wide(self, name, mib):
        """Returns a job whose step needs much memory for its output."""
        program = {"inputs": {}, "state": {"n": 0}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}, {"id": "y", "op": "expand", "in": ["m"], "attrs": {"shape": [mib << 18]}}],
                   "updates": {"n": "m"}, "outputs": ["y"]}
        return self.submit(name, program, inputs={}, steps=3)

    def fill(self):
        """Adds tensors until the memory is full."""
        names = []
        for mib in (16, 4, 1):
            status = 201
            while status == 201:
                names.append(f"t{len(names)}")
                answer = self.server.call("PUT", f"/api/v1/tensors/{names[-1]}?dtype=float32&shape={mib << 18}", b"\0" * (mib << 20), OCTETS)
                status = answer.status
            self.assertEqual(507, status, answer.body)
            self.assertIn("--max-memory", answer.json["detail"])
            names.pop()
        return names

    def refused(self, job):
        """Returns the job once it waits for memory."""
        end = time.monotonic() + 60
        while "memory" not in (now := self.server.call("GET", f"{J}/{job}").json)["reason"]:
            self.assertLess(time.monotonic(), end, now)
            time.sleep(0.02)
        self.assertEqual("queued", now["state"], now)
        self.assertEqual(0, now["step"])
        return now

    def behind(self):
        """Returns a job that was admitted behind another job while memory was free, and the tensors that now fill the
        memory."""
        slow = self.submit("slow", counter(), inputs={}, steps=SLOW_STEPS)
        job, names = self.wide("wide", 8), self.fill()
        self.server.call("DELETE", f"{J}/{slow}")
        self.assertEqual("cancelled", wait(self.server, slow)["state"])
        self.refused(job)
        return job, names

    def test_t24_waits_until_others_let_go(self):
        job, names = self.behind()
        self.assertEqual(200, self.server.call("POST", "/api/v1/tensors/delete", {"names": names}).status)
        done = wait(self.server, job)
        self.assertEqual(("done", 3), (done["state"], done["step"]), done)
        self.assertEqual([3], self.server.call("GET", f"{P}/wide/state").json["state"]["n"]["data"])

    def test_t24_cancelled_meanwhile(self):
        job, _ = self.behind()
        self.server.call("DELETE", f"{J}/{job}")
        self.assertEqual(("cancelled", 0), tuple(wait(self.server, job)[k] for k in ("state", "step")))

    def test_t24_one_that_never_fits(self):
        """A job that cannot fit, with no other job that could free memory, fails after a few tries."""
        job = self.wide("wide", 60)
        self.refused(job)
        failed = wait(self.server, job, seconds=120)
        self.assertEqual(("failed", 0), (failed["state"], failed["step"]), failed)
        self.assertIn("after step 0", failed["reason"])
        self.assertIn("--max-memory", failed["reason"])


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
        self.assertGreater(again["step"], 5000)  # the server stored a checkpoint at its end
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
        jobs = {name: self.submit(name, counter(), inputs={}, steps=SLOW_STEPS) for name in ("one", "two")}
        last = self.submit("three", counter(), inputs={}, steps=500)
        self.kill()
        for method, name, body in (("PUT", "one", counter()), ("DELETE", "one", None), ("PUT", "two", counter()), ("DELETE", "two", None)):
            self.assertEqual(409, self.server.call(method, f"{P}/{name}", body).status)
        for job in jobs.values():
            self.server.call("DELETE", f"{J}/{job}")
        self.assertEqual("done", wait(self.server, last)["state"])
        self.assertEqual([500], self.server.call("GET", f"{P}/three/state").json["state"]["n"]["data"])

    def test_in_the_midst_of_a_step(self):
        """The sums of accumulated gradients and the loss scale are restored as well."""
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

    def judged(self, name, members, scale=3):
        self.assertIn(self.server.call("PUT", f"{P}/judge", judge(scale=scale)).status, (200, 201))
        return self.submit(name, noisy(), **members)

    def rows(self, job):
        return [[row[0], *row[2:]] for row in self.server.call("GET", f"{J}/{job}/history").json["rows"]]

    def test_t24_another_program_evaluates(self):
        """The evaluating program may be deleted; its copy keeps its state, and its random numbers follow the trained
        program."""
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 3000, "collect": {"every": 50, "outputs": ["loss"]}, "checkpoint": {"every": 70},
                   "evaluate": {"program": "judge", "entry": "drop", "inputs": inputs, "every": 100, "outputs": ["loss", "scaled", "runs"]}}
        whole = self.judged("whole", members)
        wait(self.server, whole)
        wanted = self.rows(whole), self.state("whole")
        self.assertEqual({1}, {row[4] for row in wanted[0] if row[0] % 100 == 0})
        self.assertEqual(30, len({row[2] for row in wanted[0]} - {None}))
        for replaced in (False, True):
            job = self.judged("cut", members)
            if replaced:
                self.server.call("PUT", f"{P}/judge?durable=true", judge(scale=5))
            for step in (300, 1100):
                self.step_past(job, step)
                self.kill()
                self.assertEqual(200 if replaced else 404, self.server.call("GET", f"{P}/judge").status)
            done = wait(self.server, job)
            self.assertEqual(("done", 2), (done["state"], done["restarts"]), done)
            self.assertEqual(wanted, (self.rows(job), self.state("cut")))
            self.assertIn("evaluation.safetensors", os.listdir(pathlib.Path(self.folder.name, "jobs", job)))
        self.assertEqual([5], self.server.call("GET", f"{P}/judge/state").json["state"]["scale"]["data"])

    def test_t14_a_lost_device_and_another_program(self):
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 400, "checkpoint": {"every": 50},
                   "evaluate": {"program": "judge", "entry": "test", "inputs": inputs, "every": 10, "outputs": ["scaled"]}}
        whole = self.judged("whole", members)
        wait(self.server, whole)
        wanted, losses = (self.rows(whole), self.state("whole")), 0
        for fault in ("device:300", "device:401"):
            self.losing(fault)
            job = self.judged("cut", members)
            done = wait(self.server, job)
            self.assertEqual("done", done["state"], done)
            losses += done["restarts"]
            self.assertEqual(wanted, (self.rows(job), self.state("cut")))
        self.assertGreaterEqual(losses, 2)

    def test_t24_without_the_program_that_evaluates(self):
        job = self.judged("f", {"entry": "train", "inputs": noisy_inputs(), "steps": SLOW_STEPS,
                                "evaluate": {"program": "judge", "entry": "test", "inputs": noisy_inputs(), "every": 1000, "outputs": ["loss"]}})
        self.step_past(job, 30)
        self.server.process.kill()
        self.server.stop()
        pathlib.Path(self.folder.name, "jobs", job, "evaluation.safetensors").write_bytes(b"torn")
        self.server = self.start()
        failed = wait(self.server, job)
        self.assertEqual("failed", failed["state"])
        self.assertTrue(failed["reason"])
        self.assertEqual(200, self.server.call("PUT", f"{P}/f", noisy()).status)

    def checkpoints(self, job):
        return sorted((path for path in pathlib.Path(self.folder.name, "jobs", job).iterdir() if path.stem.isdigit()), key=lambda path: int(path.stem))

    def test_t24_a_torn_checkpoint_is_passed_over(self):
        job = self.submit("t", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 30000, "keep": 3})
        self.step_past(job, 100000)
        self.server.process.kill()
        self.server.stop()
        last = self.checkpoints(job)[-1]
        whole = last.read_bytes()
        last.write_bytes(whole[:-2])
        self.server = self.start()
        wait(self.server, job, ("running",))
        self.assertNotIn(whole[:-2], [path.read_bytes() for path in self.checkpoints(job)])  # otherwise no one would remove the file
        self.server.call("DELETE", f"{J}/{job}")
        ended = wait(self.server, job)
        self.assertEqual("cancelled", ended["state"])
        self.assertEqual([ended["step"]], self.server.call("GET", f"{P}/t/state").json["state"]["n"]["data"])
        self.assertEqual(3, len(self.checkpoints(job)))

    def test_t14_a_device_that_fails_at_the_start(self):
        """Whichever device call fails during the restore, the job continues from its last checkpoint."""
        job = self.submit("t", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 30000, "keep": 3})
        self.step_past(job, 100000)
        self.assertEqual(0, self.server.stop())
        last = int(self.checkpoints(job)[-1].stem)
        for nth in range(1, 9):
            with self.subTest(nth=nth), tempfile.TemporaryDirectory() as copy:
                shutil.copytree(self.folder.name, copy, dirs_exist_ok=True)
                server = Server("--backends", self.backend, env={"BEAMLINE_STATE": copy, "BEAMLINE_FAULT": f"device:{nth}"})
                try:
                    running = wait(server, job, ("running", "failed"))
                    self.assertEqual("running", running["state"], running)
                    self.assertGreaterEqual(running["step"], last)
                    self.assertNotIn("the checkpoint of step", server.log_text())
                finally:
                    self.assertEqual(0, server.stop(), server.last[-3000:])

    def test_t24_a_torn_checkpoint_is_forgotten(self):
        """Each listed checkpoint exists, also after the next start."""
        job = self.submit("t", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"seconds": 0.1, "keep": 1000})
        self.step_past(job, 100000)
        self.assertEqual(0, self.server.stop())
        torn = self.checkpoints(job)[-1]
        torn.write_bytes(b"torn")
        self.server = self.start()
        wait(self.server, job, ("running",))
        self.server.call("DELETE", f"{J}/{job}")
        wait(self.server, job)
        self.kill()
        steps = [mark["step"] for mark in self.server.call("GET", f"{J}/{job}").json["checkpoints"]]
        self.assertNotIn(int(torn.stem), steps)
        self.assertEqual([200] * len(steps), [self.server.call("GET", f"{J}/{job}/checkpoints/{step}").status for step in steps])

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
        self.assertEqual(200, self.server.call("PUT", f"{P}/f", counter()).status)  # the program no longer belongs to the job

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

    def losing(self, fault):
        """Starts another server on the same state; |fault| selects the failing device call."""
        self.assertEqual(0, self.server.stop())
        self.server = Server("--backends", self.backend, env={"BEAMLINE_STATE": self.folder.name, "BEAMLINE_FAULT": fault})

    def test_t14_a_lost_device(self):
        """The job continues from its last checkpoint, or its start, and ends with the same result."""
        members = {"entry": "train", "inputs": noisy_inputs(), "steps": 400, "accumulate": 5, "collect": {"every": 10, "outputs": ["loss"]}, "checkpoint": {"every": 50}}
        wait(self.server, self.submit("whole", noisy(), **members))
        wanted, losses = self.state("whole"), 0
        rows = None
        for fault in ("device:200", "device:301", "device:402+300"):
            self.losing(fault)
            done = wait(self.server, self.submit("cut", noisy(), **members))
            self.assertEqual("done", done["state"], done)
            self.assertLessEqual(self.server.metric("device_lost_total"), done["restarts"])  # a call may fail without the loss of the device
            losses += done["restarts"]
            self.assertEqual(wanted, self.state("cut"))
            rows = [[row[0], *row[2:]] for row in self.server.call("GET", f"{J}/{done['job']}/history").json["rows"]]
            self.assertEqual(list(range(10, 401, 10)), [row[0] for row in rows])
        self.assertGreaterEqual(losses, 3)

    def test_t14_nobody_interferes_meanwhile(self):
        """While the program is restored and the job not yet resumed, other requests occupy the jobs' writer; every run gets
        409."""
        told = self.submit("told", counter(), inputs={}, steps=30000, collect={"every": 1, "outputs": ["m"]})
        wait(self.server, told)
        self.losing("device:300")
        job = self.submit("cut", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 100})
        over, statuses = threading.Event(), []

        def ask(method, path, body=None):
            while not over.is_set():
                statuses.append((method, self.server.call(method, path, body).status))
        asked = [("GET", f"{J}/{told}/history")] * 3 + [("POST", f"{P}/cut/run", {"inputs": {}})]
        threads = [threading.Thread(target=ask, args=what) for what in asked]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        while (now := self.server.call("GET", f"{J}/{job}").json)["restarts"] == 0 or now["state"] == "queued":
            self.assertLess(time.monotonic(), end)
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual("running", now["state"], now)
        self.assertEqual({409}, {status for method, status in statuses if method == "POST"})
        self.server.call("DELETE", f"{J}/{job}")
        ended = wait(self.server, job)
        self.assertEqual([ended["step"]], self.server.call("GET", f"{P}/cut/state").json["state"]["n"]["data"])

    def test_t14_any_call_of_the_device(self):
        """Some failed calls do not lose the device; the job continues in either case."""
        members = {"entry": "train", "inputs": noisy_inputs(), "steps": 400, "accumulate": 5, "collect": {"every": 10, "outputs": ["loss"]}, "checkpoint": {"every": 50}}
        wait(self.server, self.submit("whole", noisy(), **members))
        wanted = self.state("whole")
        for nth in range(150, 174, 2):
            with self.subTest(nth=nth):
                self.losing(f"device:{nth}")
                done = wait(self.server, self.submit("cut", noisy(), **members))
                self.assertEqual("done", done["state"], done)
                self.assertEqual(wanted, self.state("cut"))

    def refuse_launches(self, backend, faults):
        members = {"inputs": {}, "steps": 60, "collect": {"every": 5, "outputs": ["y"]}, "checkpoint": {"every": 10}}
        self.backend = backend
        self.losing("launch:0")
        if self.server.call("GET", "/api/v1/devices").json["devices"][0]["id"] != f"{backend}:0":
            self.skipTest(f"there is no {backend} device")
        wait(self.server, self.submit("whole", places(), **members))
        wanted = self.state("whole")
        for fault in faults:
            with self.subTest(backend=backend, fault=fault):
                self.losing(fault)
                self.assertIn(self.server.call("PUT", f"{P}/other", counter()).status, (200, 201))
                self.assertEqual(200, self.server.call("POST", f"{P}/other/run", {"steps": 3}).status)
                done = wait(self.server, self.submit("cut", places(), **members))
                self.assertEqual("done", done["state"], done)
                self.assertGreaterEqual(done["restarts"], 1)
                self.assertEqual(wanted, self.state("cut"))
                rows = self.server.call("GET", f"{J}/{done['job']}/history").json["rows"]
                self.assertEqual(list(range(5, 61, 5)), [row[0] for row in rows])
                self.assertEqual([3], self.server.call("GET", f"{P}/other/state").json["state"]["n"]["data"])
                self.assertEqual(0, self.server.metric("device_lost_total"))

    def test_t14_refused_launches_of_a_job(self):
        """A launch without memory, anywhere in a step, sets the job back to its last checkpoint and affects nothing else."""
        self.refuse_launches("interp", ("launch:100", "launch:101", "launch:102+60", "launch:12"))

    def test_t14_refused_launches_on_opencl(self):
        self.refuse_launches("opencl", ("launch:100", "launch:101", "launch:102"))

    def test_t14_refused_launches_on_vulkan(self):
        self.refuse_launches("vulkan", ("launch:30", "launch:55"))

    def test_t14_a_device_that_is_lost_again_and_again(self):
        """The job itself may cause the loss: after several losses the job fails, and its program is released."""
        self.losing("device:300+60")
        job = self.submit("bad", counter(), inputs={}, steps=SLOW_STEPS)
        failed = wait(self.server, job)
        self.assertEqual(("failed", True), (failed["state"], "(injected fault)" in failed["reason"]), failed)
        self.assertGreaterEqual(failed["restarts"], 1)
        self.assertGreaterEqual(self.server.metric("device_lost_total"), 5)
        self.assertEqual(0, self.server.settled("jobs", 0))

    def test_t26_a_full_disk(self):
        """A failed checkpoint is reported, and the next checkpoint is tried."""
        job = self.submit("d", counter(), inputs={}, steps=SLOW_STEPS, checkpoint={"every": 2000})
        folder = pathlib.Path(self.folder.name, "jobs", job)
        moved = folder.with_name("elsewhere")
        folder.rename(moved)  # root ignores permissions, so the test moves the folder
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


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Unseen(Served):
    """A device whose memory the host cannot access."""

    def start(self, *args):
        return Server("--backends", "vulkan", "--tune=off", *args, env={"BEAMLINE_STATE": self.folder.name, **VULKAN})

    def test_another_program_evaluates(self):
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 400, "collect": {"every": 20, "outputs": ["loss"]}, "checkpoint": {"every": 30},
                   "evaluate": {"program": "judge", "entry": "drop", "inputs": inputs, "every": 40, "outputs": ["scaled", "runs"]}}
        told = []
        for steps in ((), (100, 250)):
            self.assertIn(self.server.call("PUT", f"{P}/judge", judge(scale=3)).status, (200, 201))
            job = self.submit("p", noisy(), **members)
            for step in steps:
                self.step_past(job, step)
                self.kill()
            done = wait(self.server, job)
            self.assertEqual("done", done["state"], done)
            told.append((self.state("p"), [[row[0], *row[2:]] for row in self.server.call("GET", f"{J}/{job}/history").json["rows"]]))
        self.assertEqual(told[0], told[1])
        self.assertEqual(10, len([row for row in told[0][1] if row[3] == 1]))


class Left(Served):
    """After the end of a job, its program has the state of the last checkpoint, also after a restart."""

    def start(self, *args):
        return super().start("--save-seconds", "3600", *args)

    def shown(self, name):
        answer = self.server.call("GET", f"{P}/{name}")
        self.assertEqual(200, answer.status, answer.body)
        document = answer.json
        for entry in document["entries"].values():
            for measured in ("compile_ms", "engine_ms", "profile"):
                entry.pop(measured)
        return document

    def status(self, name):
        return self.server.call("GET", f"{P}/{name}").status

    def run_steps(self, name, steps):
        answer = self.server.call("POST", f"{P}/{name}/run", {"entry": "train", "inputs": noisy_inputs(), "steps": steps})
        self.assertEqual(200, answer.status, answer.body)

    def done(self, name, steps=25, program=None, query="", before=0, ends="done"):
        self.assertIn(self.server.call("PUT", f"{P}/{name}{query}", program or noisy()).status, (200, 201))
        if before:
            self.run_steps(name, before)
        answer = self.server.call("POST", J, {"program": name, "entry": "train", "inputs": noisy_inputs(), "steps": steps})
        self.assertEqual(202, answer.status, answer.body)
        job = answer.json["job"]
        if ends == "cancelled":
            self.step_past(job, 3)
            self.server.call("DELETE", f"{J}/{job}")
        self.assertEqual(ends, wait(self.server, job)["state"])
        return job

    def test_t24_its_program_is_there_again(self):
        self.done("p", before=5)
        self.done("c", SLOW_STEPS, ends="cancelled")
        self.server.call("POST", "/api/v1/shares", {"program": "p", "to": "*"})
        before = {name: (self.shown(name), self.state(name)) for name in "pc"}
        self.assertEqual(30, before["p"][0]["steps"])
        for _ in range(2):
            self.kill()
            for name in "pc":
                self.assertEqual(before[name], (self.shown(name), self.state(name)), name)
            self.assertEqual([{"program": "p", "to": "*"}], self.server.call("GET", "/api/v1/shares").json["given"])
        self.run_steps("p", 3)  # not stored, since the program is not durable
        self.assertNotEqual(before["p"][1], self.state("p"))
        self.kill()
        self.assertEqual(before["p"], (self.shown("p"), self.state("p")))

    def test_what_took_its_place_or_its_leave(self):
        removed = self.done("removed")
        for name in ("deleted", "replaced", "durable", "twice"):
            self.done(name)
        self.assertEqual(204, self.server.call("DELETE", f"{J}/{removed}?remove=true").status)
        self.assertEqual(204, self.server.call("DELETE", f"{P}/deleted").status)
        self.assertEqual(200, self.server.call("PUT", f"{P}/replaced", counter()).status)
        self.assertEqual(200, self.server.call("PUT", f"{P}/durable?durable=true", counter()).status)
        answer = self.server.call("POST", J, {"program": "twice", "entry": "train", "inputs": noisy_inputs(), "steps": 5})
        wait(self.server, answer.json["job"])
        before = self.shown("twice"), self.state("twice")
        for _ in range(2):
            self.kill()
            self.assertEqual([404] * 3, [self.status(name) for name in ("removed", "deleted", "replaced")])
            self.assertEqual(["m"], self.shown("durable")["entries"]["main"]["outputs"])
            self.assertEqual(before, (self.shown("twice"), self.state("twice")))  # the state after the second job

    def test_a_durable_one_is_the_newer_of_both(self):
        self.done("d", query="?durable=true")
        left = self.shown("d"), self.state("d")
        self.kill()  # before the next save: the file is older than the job
        self.assertEqual(left, (self.shown("d"), self.state("d")))
        self.run_steps("d", 4)
        later = self.shown("d"), self.state("d")
        self.assertEqual(0, self.server.stop())  # the shutdown saves it
        self.server = self.start()
        self.assertEqual(later, (self.shown("d"), self.state("d")))
        self.kill()
        self.assertEqual(later, (self.shown("d"), self.state("d")))

    def test_a_checkpoint_that_is_damaged(self):
        job = self.done("p")
        self.server.process.kill()
        self.server.stop()
        folder = pathlib.Path(self.folder.name, "jobs", job)
        folder.joinpath("25.safetensors").write_bytes(b"torn")
        self.server = self.start()
        self.assertEqual((404, "done"), (self.status("p"), self.server.call("GET", f"{J}/{job}").json["state"]))
        self.assertIn("cannot be restored", self.server.log_text())
        self.assertEqual(201, self.server.call("PUT", f"{P}/p", counter()).status)
        self.kill()
        self.assertEqual(404, self.status("p"))


class Kernels(Served):
    """Kernels in which moves change the order of sums."""

    backend = "opencl"

    def test_other_settings_change_nothing(self):
        """A resumed job uses the kernels of its start, even if the server would now choose others."""
        inputs = noisy_inputs()
        members = {"entry": "train", "inputs": inputs, "steps": 3000, "collect": {"every": 50, "outputs": ["loss"]}, "checkpoint": {"every": 100},
                   "evaluate": {"program": "judge", "entry": "test", "inputs": inputs, "every": 100, "outputs": ["loss"]}}
        self.assertEqual(201, self.server.call("PUT", f"{P}/judge", judge()).status)
        whole = self.submit("whole", noisy(), **members)
        wait(self.server, whole)
        wanted = self.state("whole")
        job = self.submit("cut", noisy(), **members)
        self.step_past(job, 500)
        self.kill("--noopt")
        done = wait(self.server, job)
        self.assertEqual(("done", 1), (done["state"], done["restarts"]), done)
        self.assertEqual(wanted, self.state("cut"))
        rows = [[row[2:] for row in self.server.call("GET", f"{J}/{one}/history").json["rows"]] for one in (whole, job)]
        self.assertEqual(rows[0], rows[1])
        # without the job's kernels the results differ visibly
        self.assertIn(self.server.call("PUT", f"{P}/plain", noisy()).status, (200, 201))
        self.server.call("POST", f"{P}/plain/run", {"entry": "train", "inputs": inputs, "steps": 3000})
        self.assertNotEqual(wanted, self.state("plain"))


if __name__ == "__main__":
    unittest.main()
