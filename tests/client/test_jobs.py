# SPDX-License-Identifier: MIT
"""Jobs with the Python client."""
import tempfile
import unittest

import beamline
from cutting import Cutter
from served import ServedCase
from test_server import INTERPRETER, POINTS, line


class JobTest(ServedCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.options = (*INTERPRETER, "--state", folder.name)
        super().setUpClass()

    def test_to_its_end(self):
        for binary in (True, False):
            with self.subTest(binary=binary):
                client = beamline.Client(self.server.url, binary=binary)
                program = client.put_program("line", line())
                x, t = (beamline.array(POINTS[name], "float32") for name in "xt")
                job = program.train({"x": x, "t": t}, steps=400, collect=["loss"], every=50)
                reports = list(job.events())
                self.assertEqual([50 * i for i in range(1, 9)], [report["step"] for report in reports])
                self.assertLess(reports[-1]["metrics"]["loss"], reports[0]["metrics"]["loss"])
                info = job.wait(60)
                self.assertEqual(("done", 400), (info["state"], info["step"]))
                columns, rows = job.history()
                self.assertEqual((8, "step"), (len(rows), columns[0]))
                self.assertEqual((columns, rows[2:4]), job.history(150, 2))
                self.assertEqual([columns[0], "150", "200"], [row.split(",")[0] for row in job.csv(150, 2).splitlines()])
                self.assertEqual(program.state()["w"].tolist(), job.checkpoint()["w"].tolist())
                self.assertEqual([info["job"]], [other["job"] for other in client.jobs() if other["job"] == job.id])
                self.assertEqual([400], [report["step"] for report in client.job(job.id).events(after=350)])
                job.remove()
                with self.assertRaises(beamline.NotFound):
                    job.info()
                with self.assertRaises(beamline.NotFound):
                    list(job.events())
                client.close()

    def test_options(self):
        g = (p := line()).entry("test")
        g.output(y=(g.input("x", [4]) * g.state("w") + g.state("b")).sum())
        names = list(p.document().get("entries", {}))
        program = self.client.put_program("options", p)
        job = program.train(POINTS, steps=2000, entry=names[0], collect=["loss"], every=10, early_stop={"metric": "loss", "patience": 3, "min_delta": 1e9},
                            evaluate={"entry": "test", "inputs": {"x": beamline.array([1, 1, 1, 1], "float32")}, "every": 20, "outputs": ["y"]},
                            checkpoint={"every": 20}, accumulate=2, priority=-5)
        reports = list(job.events())
        self.assertIn("y", reports[1]["evaluation"])
        info = job.wait(60)
        self.assertEqual((40, -5), (info["step"], info["priority"]))

    def test_mixed_precision(self):
        """Computes in float16 with dynamic loss scaling; the parameters stay float32."""
        program = self.client.put_program("mixed", line())
        job = program.train(POINTS, steps=300, collect=["loss"], every=100, compute="float16", loss_scale="dynamic", checkpoint={"seconds": 60, "keep": 2})
        self.assertEqual("done", job.wait(60)["state"])
        state = program.state()
        self.assertEqual("float32", str(state["w"].dtype))
        self.assertAlmostEqual(2, state["w"].tolist()[0], 0)
        with self.assertRaisesRegex(beamline.InvalidGraph, "loss_scale"):
            program.train(POINTS, steps=3, loss_scale=-1)
        with self.assertRaises(beamline.BeamlineError):
            program.train(POINTS, steps=3, compute="int8")

    def test_events_of_a_wire_that_breaks(self):
        wire = Cutter(self.server.port, (None, 700), (None, 0), (None, 900), (None, 700))
        self.addCleanup(wire.close)
        program = self.client.put_program("broken", line())
        job = program.train(POINTS, steps=60, collect=["loss"])
        with beamline.Client(wire.url) as client:
            self.assertEqual(list(range(1, 61)), [report["step"] for report in client.job(job.id).events()])
        self.assertGreater(wire.opened, 3)

    def test_another_program_evaluates(self):
        g = (p := beamline.Program(w=[0.0], b=[0.0], unit=[100.0])).entry()
        g.output(y=(g.input("x", [2]) * g.state("w") + g.state("b")) * g.state("unit"))
        far, program = self.client.put_program("far", p), self.client.put_program("near", line())
        for binary in (True, False):
            for given in (far, "far"):
                self.client.binary = binary
                job = program.train(POINTS, steps=40, evaluate={"program": given, "inputs": {"x": beamline.array([5, 6], "float32")}, "every": 20, "outputs": ["y"]})
                job.wait(60)
                state = program.state()
                wanted = [100 * (x * float(state["w"][0]) + float(state["b"][0])) for x in (5, 6)]
                for got, want in zip(job.history()[1][-1][-1], wanted):
                    self.assertAlmostEqual(got, want, delta=1e-3 * abs(want))

    def test_cancelled(self):
        program = self.client.put_program("long", line())
        job = program.train(POINTS, steps=10**9)
        with self.assertRaises(TimeoutError):
            job.wait(0.1)
        with self.assertRaises(beamline.Conflict):
            program.train(POINTS, steps=1)
        job.cancel()
        with self.assertRaises(beamline.JobFailed) as caught:
            job.wait(60)
        self.assertEqual("cancelled", caught.exception.state)
        with self.assertRaises(beamline.InvalidGraph):
            program.train(POINTS, steps=1, collect=["nothing"])


if __name__ == "__main__":
    unittest.main()
