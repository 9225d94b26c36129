# SPDX-License-Identifier: MIT
"""The stored reports of a job: at most --max-reports bytes, thinned out to half the density over the limit; equal after a
restart."""

import pathlib
import tempfile
import time
import unittest

from fixture import Server, counter
from training_jobs import J, noisy, noisy_inputs, wait

MOST = 65536
STEPS = 20_000


class Bounded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.server = None
        self.start()
        self.addCleanup(lambda: self.server.stop())

    def start(self):
        if self.server is not None:
            self.server.process.kill()
            self.server.stop()
        self.server = Server("--backends", "interp", "--state", self.folder.name, "--tune=off", "--max-reports", str(MOST), "--slice", "0.02")

    def call(self, *request):
        return self.server.call(*request)

    def submit(self, program, document, **members):
        self.assertEqual(201, self.call("PUT", f"/api/v1/programs/{program}", document).status)
        answer = self.call("POST", J, {"program": program, **members})
        self.assertEqual(202, answer.status, answer.body)
        return answer.json["job"]

    def history(self, job, column):
        document = self.call("GET", f"{J}/{job}/history").json
        at = document["columns"].index(column)
        return [(row[0], row[at]) for row in document["rows"] if row[at] is not None]

    def run_job(self, name, kills=0):
        job = self.submit(name, counter(), inputs={}, steps=STEPS, collect={"every": 1, "outputs": ["m"]}, checkpoint={"every": 500, "keep": 2})
        for _ in range(kills):
            step = self.call("GET", f"{J}/{job}").json["step"]
            end = time.monotonic() + 60
            while self.call("GET", f"{J}/{job}").json["step"] < min(step + 2000, STEPS) and time.monotonic() < end:
                time.sleep(0.02)
            self.start()
        ended = wait(self, job)
        self.assertEqual("done", ended["state"], ended)
        return job, ended

    def test_the_density_halves(self):
        job, ended = self.run_job("c")
        rows = self.history(job, "m")
        every = ended["thinned"]["metrics"]
        self.assertEqual({"metrics": every}, ended["thinned"])
        self.assertEqual(0, every & every - 1, "twice as many, again and again")
        self.assertTrue(MOST // 80 // 2 * 0.8 < len(rows) <= MOST // 64, len(rows))
        self.assertEqual([step for step in range(every, STEPS + 1, every)], [step for step, _ in rows if step % every == 0])
        self.assertEqual(STEPS, rows[-1][0])
        self.assertEqual({float(step) for step, _ in rows}, {value for _, value in rows})
        again, _ = self.run_job("d", kills=3)
        self.assertEqual(rows, self.history(again, "m"), "a job that was killed keeps the same ones")

    def test_what_thousands_leave_on_the_disk(self):
        """A list of numbers in each report: 60 MB in all, more than is stored."""
        wide = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": [400]}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]}
        job = self.submit("w", wide, inputs={}, steps=STEPS, collect={"every": 1, "outputs": ["m"]}, checkpoint={"every": STEPS, "keep": 1})
        self.assertEqual("done", wait(self, job)["state"])
        files = [path.stat().st_size for path in pathlib.Path(self.folder.name).glob("beamline.db*")]
        self.assertLess(sum(files), 8 << 20)  # 4 MiB of it are SQLite's log
        self.assertGreater(len(self.history(job, "m")), 10)

    def test_evaluations_are_thinned_last(self):
        inputs = noisy_inputs()
        job = self.submit("n", noisy(), inputs=inputs, entry="train", steps=6000, collect={"every": 1, "outputs": ["loss"]},
                          evaluate={"entry": "test", "inputs": inputs, "every": 50, "outputs": ["loss"]})
        ended = wait(self, job)
        self.assertEqual("done", ended["state"], ended)
        self.assertEqual(50, ended["thinned"]["evaluation"])
        self.assertEqual(list(range(50, 6001, 50)), [step for step, _ in self.history(job, "evaluate.loss")])
        self.assertGreater(ended["thinned"]["metrics"], 1)

    def test_few_are_all_kept(self):
        job = self.submit("f", counter(), inputs={}, steps=700, collect={"every": 1, "outputs": ["m"]})
        self.assertNotIn("thinned", wait(self, job))
        self.assertEqual(list(range(1, 701)), [step for step, _ in self.history(job, "m")])


if __name__ == "__main__":
    unittest.main()
