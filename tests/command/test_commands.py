# SPDX-License-Identifier: MIT
"""The client commands of `beamline` with a running server: output, files, exit statuses, and errors for invalid input."""
import base64
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

try:
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest("python3-numpy is not installed") from missing

from served import ROOT, SERVER, ServedCase, Server
from screen import Screen

GRAPH = {"inputs": {"x": [[1, 2, 3], [4, 5, 6]]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}, {"id": "s", "op": "sum", "in": ["y"], "attrs": {"axis": 1}}], "outputs": ["s"]}
LINE = {"inputs": {"x": {"dtype": "float32", "shape": [4]}, "t": {"dtype": "float32", "shape": [4]}}, "state": {"w": [0], "b": [0]},
        "nodes": [{"id": "wx", "op": "mul", "in": ["x", "w"]}, {"id": "p", "op": "add", "in": ["wx", "b"]}, {"id": "e", "op": "sub", "in": ["p", "t"]},
                  {"id": "e2", "op": "mul", "in": ["e", "e"]}, {"id": "loss", "op": "mean", "in": ["e2"]},
                  {"id": ["w1", "b1"], "op": "sgd", "in": ["loss", "w", "b"], "attrs": {"lr": 0.01}}],
        "updates": {"w": "w1", "b": "b1"}, "outputs": ["loss"]}
DATA = ("--data", "x=[0,1,2,3]", "--data", "t=[1,3,5,7]")
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAYAAAAECAIAAAAiZtkUAAAAEUlEQVR42mP4VSGHhhjIFQIApjclgUXsnzIAAAAASUVORK5CYII="


class CommandCase(ServedCase):
    """|self.folder| has input files; ``beamline`` runs a command in the folder."""

    MODELS = {"double": ({"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "dims": {"batch": [1, 64]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}, None),
              "colours": ({"inputs": {"pixels": {"dtype": "uint8", "shape": ["batch", 8, 8, 3]}}, "dims": {"batch": [1, 32]},
                           "nodes": [{"id": "f", "op": "cast", "in": ["pixels"], "attrs": {"dtype": "float32"}}, {"id": "strength", "op": "mean", "in": ["f"], "attrs": {"axis": [1, 2]}}],
                           "outputs": ["strength"]},
                          {"parameters": {"picture": {"string_value": "pixels"}}, "output": [{"name": "strength", "data_type": "TYPE_FP32", "label_filename": "names.txt"}]})}

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        for name, (program, config) in cls.MODELS.items():
            (cls.folder / "models" / name / "1").mkdir(parents=True)
            (cls.folder / "models" / name / "1" / "model.json").write_text(json.dumps(program))
            if config:
                (cls.folder / "models" / name / "config.json").write_text(json.dumps(config))
                (cls.folder / "models" / name / "names.txt").write_text("red\ngreen\nblue\n")
        cls.write("graph.json", GRAPH)
        cls.write("line.json", LINE)
        (cls.folder / "orange.png").write_bytes(base64.b64decode(PICTURE))
        cls.options = ("--backends", "interp", "--models", str(cls.folder / "models"), "--state", str(cls.folder / "state"),
                       "--kernel-db", str(cls.folder / "kernels.db"), *cls.more_options())
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.place.cleanup()

    @classmethod
    def more_options(cls):
        return ()

    @classmethod
    def write(cls, name, document):
        (cls.folder / name).write_text(document if isinstance(document, str) else json.dumps(document))

    def beamline(self, *words, status=0, text="", **env):
        done = subprocess.run([SERVER, *[str(word) for word in words]], capture_output=True, text=True, timeout=120, check=False, input=text, cwd=self.folder,
                              env={**os.environ, "BEAMLINE_URL": self.server.url, **env})
        self.assertEqual(status, done.returncode, f"{words}\n{done.stdout}{done.stderr}")
        if status:
            self.assertRegex(done.stderr, r"^beamline: .+\n(  node: .+\n)?$")
        return done.stderr if status else done.stdout

    def document(self, *words):
        return json.loads(self.beamline(*words, "--json"))


class Run(CommandCase):
    def test_prints(self):
        self.assertEqual("s  float32 [2]  [12,30]\n", self.beamline("run", "graph.json"))
        self.assertEqual("s  float32 [2]  [12,30]\n", self.beamline("run", "-", text=json.dumps(GRAPH)))
        self.assertEqual("s  float32 [1]  [4]\n", self.beamline("run", "graph.json", "--in", "x=[[1,1]]", "--device", "interp:0"))
        answer = self.document("run", "graph.json")
        self.assertEqual({"dtype": "float32", "shape": [2], "data": [12, 30]}, answer["outputs"]["s"])
        self.assertEqual("cached", self.document("run", "graph.json")["stats"]["plan"])
        self.write("nested.json", {**GRAPH, "outputs": ["y"]})
        self.assertEqual("y  float32 [2,3]  [[2,4,6],[8,10,12]]\n", self.beamline("run", "nested.json"))
        self.write("scalar.json", {"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "sum", "in": ["x"]}], "outputs": ["y"]})
        self.assertEqual("y  float32 []  3\n", self.beamline("run", "scalar.json"))
        shown = self.beamline("run", "scalar.json", "--in", "x=[" + ",".join("1" * 1) + "]", "--dry-run")
        self.assertRegex(shown, r"^interp:0: .* estimated, \d+ kernels?")
        self.assertTrue(self.document("run", "graph.json", "--dry-run")["dry_run"])
        long = {"inputs": {}, "nodes": [{"id": "y", "op": "arange", "attrs": {"stop": 5000, "dtype": "int32"}}], "outputs": ["y"]}
        shown = self.beamline("run", "-", text=json.dumps(long))
        self.assertIn(",999]  the first 1000 of 5,000 numbers; --out FILE writes all\n", shown)

    def test_numbers_stay_exact(self):
        """Commands edit the document as text, so numbers that JSON parsers round to doubles stay as written."""
        graph = '{"inputs": {"x": {"dtype": "int64", "shape": [2], "data": [9223372036854775807, 9007199254740993]}, "z": [1]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 1]}], "outputs": ["y"]}'
        self.assertEqual("y  int64 [2]  [9223372036854775807,9007199254740993]\n", self.beamline("run", "-", "--in", 'z=[2.5]', text=graph))
        for inner in ('{"z": [1], "x": [1]}', '{"x": [1], "z": [1]}', '{ "x" : [ 1 ] }', "{}", '{"w": {"x": [1]}}'):
            graph = '{"inputs": %s, "nodes": [{"id": "y", "op": "mul", "in": ["x", 3]}], "outputs": ["y"]}' % inner.replace('{"w": {"x": [1]}}', "{}")
            self.assertEqual("y  float32 [2]  [6,9]\n", self.beamline("run", "-", "--in", "x=[2,3]", text=graph))
            np.save(self.folder / "two.npy", np.array([2, 3], "f4"))
            self.assertEqual("y  float32 [2]  [6,9]\n", self.beamline("run", "-", "--in", "x=two.npy", text=graph))

    def test_files_in_and_out(self):
        values = np.arange(6).reshape(2, 3)
        for dtype in ("<f4", ">f4", "<f8", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "?"):
            for order in "CF":
                np.save(self.folder / "x.npy", np.asarray(values, dtype, order=order))
                self.write("same.json", {"inputs": {"x": []}, "nodes": [{"id": "y", "op": "reshape", "in": ["x"], "attrs": {"shape": [2, 3]}}], "outputs": ["y"]})
                self.assertEqual("", self.beamline("run", "same.json", "--in", "x=x.npy", "--out", "y.npy"))
                back = np.load(self.folder / "y.npy")
                np.testing.assert_array_equal(values.astype(dtype), back)
                self.assertEqual(np.dtype(dtype).newbyteorder("="), back.dtype)
        np.save(self.folder / "x.npy", values.astype("f4"))
        self.write("both.json", {**GRAPH, "outputs": ["y", "s"]})
        self.assertEqual("", self.beamline("run", "both.json", "--in", "x=x.npy", "--out", "s=s.npy", "--out", "all.safetensors"))
        np.testing.assert_array_equal([6, 24], np.load(self.folder / "s.npy"))
        head = int.from_bytes((self.folder / "all.safetensors").read_bytes()[:8], "little")
        self.assertLessEqual({"y", "s"}, set(json.loads((self.folder / "all.safetensors").read_bytes()[8:8 + head])))
        self.write("twice.json", {"inputs": {}, "nodes": [{"id": "z", "op": "add", "in": ["y", "y"]}], "outputs": ["z"]})
        self.assertIn("z  float32 [2,3]  [[0,4,8],[12,16,20]]", self.beamline("run", "twice.json", "--in", "y=all.safetensors"))
        (self.folder / "x.npy.gz").write_bytes(gzip.compress((self.folder / "x.npy").read_bytes()))
        self.assertEqual("s  float32 [2]  [6,24]\n", self.beamline("run", "graph.json", "--in", "x=x.npy.gz"))
        self.write("x.csv", "a,b\n1,2\n3,4\n")
        self.assertEqual("s  float32 [2]  [6,14]\n", self.beamline("run", "graph.json", "--in", "x=x.csv"))
        with open(self.folder / "x.npy", "wb") as file:
            np.lib.format.write_array(file, values.astype("f4"), version=(2, 0))
        self.assertEqual("s  float32 [2]  [6,24]\n", self.beamline("run", "graph.json", "--in", "x=x.npy"))
        self.write("half.json", {"inputs": {"x": [1]}, "nodes": [{"id": "y", "op": "cast", "in": ["x"], "attrs": {"dtype": "bfloat16"}}], "outputs": ["y"]})
        self.assertIn("bfloat16", self.beamline("run", "half.json", "--out", "y.npy", status=1))
        self.assertEqual("", self.beamline("run", "half.json", "--out", "y.safetensors"))

    def test_bad_input(self):
        self.write("broken.json", '{"inputs": {"x": [1,}')
        self.write("list.json", "[1]")
        (self.folder / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr'")
        np.save(self.folder / "complex.npy", np.zeros(2, "c8"))
        for words, says in ((("nothing.json",), "cannot be opened"), (("broken.json",), "line 1, column 21"), (("list.json",), "must hold a JSON object"), ((".",), "cannot be"),
                            (("graph.json", "--in", "x=nothing.npy"), "cannot be opened"), (("graph.json", "--in", "x=cut.npy"), "cut.npy: npy"),
                            (("graph.json", "--in", "x=complex.npy"), "complex.npy: npy"), (("graph.json", "--in", "x=graph.json"), "neither JSON nor"),
                            (("graph.json", "--in", "x"), "NAME=FILE"), (("graph.json", "--in", "=3"), "NAME=FILE"), (("graph.json", "--in", "x=[1,2"), "neither JSON nor"),
                            (("graph.json", "--in", "x=two.npy", "--in", "x=two.npy"), "given twice"), (("graph.json", "--in", "x=[1,2]"), "422"),
                            (("graph.json", "--out", "y=y.npy"), "one of these names: s"), (("graph.json", "--out", "y.txt"), "must end with"), (("graph.json", "--out", "/nonexistent/y.npy"), "cannot be written"),
                            (("graph.json", "--device", "opencl:99"), "opencl:99"), (("graph.json", "--url", "ftp://127.0.0.1"), "no answer")):
            np.save(self.folder / "two.npy", np.array([2, 3], "f4"))
            self.assertIn(says, self.beamline("run", *words, status=3 if "--url" in words else 1), words)
        self.assertIn('(node "s")', self.beamline("run", "graph.json", "--in", "x=[1,2]", status=1))
        self.beamline("run", "graph.json", "--out", "y.npy", "--json", status=2)
        self.beamline("run", "graph.json", "--out", "y.npy", "--dry-run", status=2)
        self.beamline("run", status=2)
        self.assertIn("no answer from http://127.0.0.1:1", self.beamline("run", "graph.json", status=3, BEAMLINE_URL="127.0.0.1:1"))

    def test_the_readme(self):
        """The three requests of README, as commands."""
        self.assertEqual("s  float32 [2]  [12,30]\n", self.beamline("run", ROOT / "examples/sum.json"))
        self.assertEqual("c  float32 [3]  [5,12,21]\nda  float32 [3]  [5,6,7]\ndb  float32 [3]  [1,2,3]\n", self.beamline("run", ROOT / "examples/gradient.json"))
        self.beamline("train", ROOT / "examples/line.json", *DATA, "--steps", 500, "--watch")
        state = self.client.call("GET", "/api/v1/programs/line/state")["state"]
        self.assertAlmostEqual(2, state["w"]["data"][0], 3)


class Train(CommandCase):
    def test_a_job(self):
        job = self.beamline("train", "line.json", *DATA, "--steps", 500).strip()
        self.assertRegex(job, "^[0-9a-f]{32}$")
        shown = self.beamline("watch", job)
        self.assertIn(f"job {job} of line: done, step 500 of 500", shown)
        steps = [(int(step), float(loss)) for step, loss in re.findall(r"^step (\d+)  loss (\S+)$", shown, re.M)]
        self.assertEqual(list(range(1, 501)), [step for step, _ in steps])
        self.assertLess(steps[-1][1], steps[0][1] / 1000)
        events = [json.loads(line) for line in self.beamline("watch", job, "--json").splitlines()]
        self.assertEqual(("done", 500), (events[-1]["state"], events[-2]["step"]))
        rows = self.beamline("jobs").splitlines()
        self.assertRegex(rows[0], "^job +program +state +step +of +steps/s +left +metric$")
        self.assertRegex(next(row for row in rows if row.startswith(job[:8])), rf"^{job[:8]} +line +done +500 +500 .* loss \S+$")
        self.assertIn(job, self.beamline("jobs", "-q").split())
        self.assertIn(job, [one["job"] for one in self.document("jobs")["jobs"]])
        self.assertEqual(f"{job} done at step 500\n", self.beamline("cancel", job[:8]))
        self.assertIn(f"job {job} of line: done", self.beamline("watch", job[:12]))
        screen = Screen(SERVER, "jobs", BEAMLINE_URL=self.server.url)
        self.addCleanup(screen.close)
        self.assertEqual(0, screen.end())
        self.assertLessEqual(max(len(line) for line in screen.lines()), 80)
        many = [self.beamline("train", "line.json", *DATA, "-n", "1", "--name", f"n{i}") for i in range(17)]
        self.assertEqual(17, len(many))
        digit = next(d for d in "0123456789abcdef" if sum(one.startswith(d) for one in self.beamline("jobs", "-q").split()) > 1)
        self.assertIn(f"begin with {digit}", self.beamline("watch", digit, status=1))
        self.assertEqual(f"{job} is removed\n", self.beamline("cancel", job, "--remove"))
        self.assertNotIn(job, self.beamline("jobs", "-q"))

    def test_choices(self):
        self.write("job.json", {"steps": 40, "inputs": {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}, "collect": {"every": 10, "outputs": ["loss"]}})
        shown = self.beamline("train", "line.json", "--job", "job.json", "--name", "other", "--watch", "--out", "state.safetensors")
        self.assertEqual(["10", "20", "30", "40"], re.findall(r"^step (\d+) ", shown, re.M))
        self.assertIn("of other: done", shown)
        head = int.from_bytes((self.folder / "state.safetensors").read_bytes()[:8], "little")
        self.assertIn("w", json.loads((self.folder / "state.safetensors").read_bytes()[8:8 + head]))
        shown = self.beamline("train", "other", "--job", "job.json", "-n", "20", "--every", "5", "-w")
        self.assertEqual(["5", "10", "15", "20"], re.findall(r"^step (\d+) ", shown, re.M))
        np.save(self.folder / "x.npy", np.arange(4, dtype="f4"))
        np.save(self.folder / "t.npy", np.arange(4, dtype="f4") * 2 + 1)
        self.beamline("train", "line.json", "--data", "x=x.npy", "--data", "t=t.npy", "-n", "10", "-w")
        two = json.loads(json.dumps(LINE))
        two["outputs"] = ["loss", "e2"]
        self.write("my-2nd net.json", two)
        job = self.document("train", "my-2nd net.json", *DATA, "-n", "3", "--outputs", "loss,e2")
        self.assertEqual("my_2nd_net", job["program"])
        self.assertRegex(self.beamline("watch", job["job"]), r"loss \S+  e2 \.\.\.")

    def test_failures(self):
        self.assertIn("--steps N is missing", self.beamline("train", "line.json", *DATA, status=2))
        self.assertIn("no program of that name", self.beamline("train", "nothing", "-n", "1", status=1))
        self.assertIn("422", self.beamline("train", "line.json", "-n", "1", status=1))
        self.assertIn("--out needs --watch", self.beamline("train", "line.json", *DATA, "-n", "1", "--out", "x.safetensors", status=2))
        self.assertIn("404", self.beamline("watch", "nothing", status=1))
        self.assertIn("404", self.beamline("cancel", "nothing", status=1))
        self.assertIn("422", self.beamline("train", "line.json", *DATA, "-n", "2", "--outputs", "nothing", status=1))
        job = self.beamline("train", "line.json", *DATA, "-n", "1000000000", "--every", "100000").strip()
        self.assertRegex(self.beamline("cancel", job), rf"^{job} (running|cancelled) at step \d+\n$")
        self.assertIn("cancelled", self.beamline("watch", job, status=1))
        for words in (("train", "line.json", "-n", "1"), ("jobs",), ("watch", "x"), ("cancel", "x"), ("models",), ("load", "x"), ("unload", "x"), ("infer", "x", "--in", "x=1"), ("bench", "x"),
                      ("push", "line.json"), ("me",), ("status",), ("top",), ("chat", "x")):
            self.assertIn("no answer", self.beamline(*words, status=3, text="x", BEAMLINE_URL="http://127.0.0.1:1"), words)

    def test_a_curve_in_a_terminal(self):
        for rows, columns, locale in ((24, 80, "C.UTF-8"), (12, 40, "C"), (50, 132, "C.UTF-8")):
            screen = Screen(SERVER, "train", self.folder / "line.json", *DATA, "-n", "200000", "--every", "1000", "--watch", rows=rows, columns=columns, BEAMLINE_URL=self.server.url, LC_ALL=locale)
            self.addCleanup(screen.close)
            self.assertEqual(0, screen.end(60))
            lines = screen.lines()
            self.assertRegex(lines[0], "^job [0-9a-f]{32} of line$")  # once, so that a user can copy the id
            self.assertLessEqual(max(len(line) for line in lines[1:]), columns)
            self.assertLess(len(lines), rows)
            self.assertEqual(1, sum(line.startswith("done, step 200,000 of 200,000") for line in lines))  # progress was drawn in place
            self.assertRegex(lines[-2], r"^loss [\d.e-]+$")
            self.assertIn("200000", lines[-3])
            self.assertTrue(any(c in "".join(lines) for c in ("⣀⠉⠒⠤⡇⢸" if locale != "C" else "*")), lines)

    def test_ctrl_c_detaches(self):
        screen = Screen(SERVER, "train", self.folder / "line.json", *DATA, "-n", "1000000000", "--every", "1000", "--watch", BEAMLINE_URL=self.server.url)
        self.addCleanup(screen.close)
        screen.until(lambda s: "running" in "".join(s.lines()) and "loss" in s.lines()[-2])
        screen.type(b"\x03")
        self.assertEqual(0, screen.end())
        said = next(line for line in screen.lines() if line.startswith("detached"))
        job = re.search(r"beamline watch ([0-9a-f]+)", said)[1]
        self.assertEqual("running", self.client.call("GET", f"/api/v1/jobs/{job}")["state"])
        again = Screen(SERVER, "watch", job, BEAMLINE_URL=self.server.url)
        self.addCleanup(again.close)
        again.until(lambda s: "running" in "".join(s.lines()) and "loss" in s.lines()[-2])
        self.beamline("cancel", job)
        self.assertEqual(1, again.end())
        self.assertIn("cancelled", "".join(again.lines()))


class Restarted(CommandCase):
    def test_a_watch_goes_on_when_the_server_is_back(self):
        port = self.server.port
        job = self.beamline("train", "line.json", *DATA, "-n", "400000", "--every", "4000").strip()
        with subprocess.Popen([SERVER, "watch", job, "--url", self.server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            for line in watching.stdout:
                if line.startswith("step"):
                    break
            self.assertEqual(0, self.server.stop())
            type(self).server = Server(*[option for option in self.options], "--port", str(port))
            out, told = watching.communicate(timeout=120)
        self.assertEqual(0, watching.returncode, told)
        steps = [int(step) for step in re.findall(r"^step (\d+) ", line + out, re.M)]
        self.assertEqual(sorted(set(steps)), steps)
        self.assertEqual(400000, steps[-1])
        self.assertIn("done", out)


class Models(CommandCase):
    def test_models(self):
        self.assertRegex(self.beamline("models"), r"^model +version +state +reason\n(colours|double) +1 +READY")
        self.assertEqual({"colours", "double"}, set(self.beamline("models", "-q").split()))
        self.assertEqual("double is unloaded\n", self.beamline("unload", "double"))
        self.assertIn("UNAVAILABLE", self.beamline("models"))
        self.assertEqual("double is loaded\n", self.beamline("load", "double"))
        self.assertEqual({"READY"}, {row["state"] for row in self.document("models")})
        for verb in ("load", "unload"):
            self.assertIn("no model", self.beamline(verb, "nothing", status=1))

    def test_infer(self):
        self.assertEqual("y  FP32 [1,4]  [2,4,6,8]\n", self.beamline("infer", "double", "--in", "x=[[1,2,3,4]]"))
        self.assertEqual([2, 4, 6, 8], self.document("infer", "double", "--version", "1", "--in", "x=[[1,2,3,4]]")["outputs"][0]["data"])
        np.save(self.folder / "x.npy", np.arange(8, dtype="f4").reshape(2, 4))
        self.assertEqual("y  FP32 [2,4]  [0,2,4,6,8,10,12,14]\n", self.beamline("infer", "double", "--in", "x=x.npy"))
        self.beamline("infer", "double", "--in", "x=x.npy", "--out", "y.npy")
        np.testing.assert_array_equal(np.arange(8).reshape(2, 4) * 2, np.load(self.folder / "y.npy"))
        self.assertEqual("strength\n      250  red\n      120  green\n       30  blue\n", self.beamline("infer", "colours", "--image", "orange.png"))
        self.assertEqual(["red"], [one["label"] for one in self.document("infer", "colours", "--image", "orange.png", "--classes", "1")["outputs"][0]["classes"]])

    def test_bad_questions(self):
        np.save(self.folder / "ints.npy", np.arange(4).reshape(1, 4))
        for words, says in ((("nothing", "--in", "x=[1]"), "no model"), (("double", "--in", "z=[1]"), 'no input "z"'), (("double", "--in", "x=[[1,2],[3]]"), "equal lengths"),
                            (("double", "--in", "x={}"), "lists of numbers"), (("double", "--in", "x=ints.npy"), "400"), (("double", "--in", "x=[1,2]"), "400"),
                            (("double", "--text", "hello"), "takes no text"), (("double", "--image", "graph.json"), "neither a JPEG"), (("double", "--image", "nothing.png"), "cannot be opened"),
                            (("double", "--image", "orange.png"), "400"), (("double", "--version", "7", "--in", "x=[1]"), "7")):
            self.assertIn(says, self.beamline("infer", *words, status=1), words)
        for words in (("double",), ("double", "--image", "orange.png", "--in", "x=[1]"), ("double", "--in", "x=[1]", "--out", "y.npy", "--json"), ("double", "--image", "orange.png", "--classes", "0")):
            self.beamline("infer", *words, status=2)

    def test_bench(self):
        shown = self.beamline("bench", "double", "-c", "3", "--seconds", "0.3")
        self.assertRegex(shown, r"^requests +[\d.e+]+/s +\(\d+ in [\d.]+ s by 3 clients\)\nlatency +p50 [\d.]+ [mu]?s   p95 [\d.]+ [mu]?s   p99 [\d.]+ [mu]?s\n$")
        figures = self.document("bench", "double", "--seconds", "0.3", "--in", "x=[[1,2,3,4],[1,2,3,4]]")
        self.assertEqual((1, True), (figures["clients"], figures["requests"] > 5))
        self.assertAlmostEqual(figures["requests"] / figures["seconds"], figures["requests_per_second"], delta=1)
        self.assertLessEqual(figures["latency_ms"]["p50"], figures["latency_ms"]["p99"])
        self.assertIn("no model", self.beamline("bench", "nothing", status=1))
        self.assertIn("400", self.beamline("bench", "double", "--in", "x=[1]", "--seconds", "0.3", status=1))
        self.beamline("bench", "double", "-c", "0", status=2)


class Push(CommandCase):
    def test_blobs(self):
        content = os.urandom(3_000_000)
        (self.folder / "big.bin").write_bytes(content)
        (self.folder / "empty").write_bytes(b"")
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        self.client.answer("PUT", f"/api/v1/blobs/{digest}", content[:2_000_000], {"Content-Type": "application/octet-stream", "Content-Range": "bytes 0-1999999/3000000"})
        before = self.sent()
        self.assertEqual(f"{digest}  big.bin\n", self.beamline("push", "big.bin"))
        self.assertTrue(1_000_000 <= self.sent() - before < 1_100_000)  # resumes at the break
        before = self.sent()
        self.assertEqual(f"{digest}  big.bin\nsha256:{hashlib.sha256(b'').hexdigest()}  empty\n", self.beamline("push", "big.bin", "empty"))
        self.assertLess(self.sent() - before, 10_000)  # the server already had the blob
        self.assertEqual(len(content), self.document("push", "big.bin")["bytes"])
        self.assertIn("cannot be opened", self.beamline("push", "nothing", status=1))
        self.assertIn("is not a file", self.beamline("push", ".", status=1))
        self.beamline("push", "big.bin", "empty", "--tensor", "w", status=2)

    def sent(self):
        with urllib.request.urlopen(self.server.url + "/metrics") as answer:
            return int(float(re.search(r"^beamline_received_bytes_total (\S+)$", answer.read().decode(), re.M)[1]))

    def test_a_tensor(self):
        np.save(self.folder / "w.npy", np.arange(3, dtype="f4"))
        self.beamline("push", "w.npy", "--tensor", "w")
        self.assertEqual([0, 1, 2], self.client.call("GET", "/api/v1/tensors/w")["data"])
        self.assertIn("must end with", self.beamline("push", "graph.json", "--tensor", "w", status=1))
        shown = Screen(SERVER, "push", self.folder / "w.npy", BEAMLINE_URL=self.server.url)
        self.addCleanup(shown.close)
        self.assertEqual(0, shown.end())


class Standing(CommandCase):
    def test_without_keys(self):
        self.assertRegex(self.beamline("status"), rf"^{self.server.url}: beamline \d+\.\d+\.\d+, ready\nup .*, 2 models, \d+ jobs\ninterp:0: [\d.]+% busy, \d+ in the queue, .* of .*, free\n$")
        self.assertEqual("interp:0", self.document("status")["devices"][0]["id"])
        self.assertRegex(self.beamline("me"), r"^key +none: this server has no keys\nscopes +infer, run, train, admin, metrics\n")
        self.assertEqual(None, self.document("me")["name"])
        self.assertIn("interp:0", self.beamline("devices", "--url", self.server.url))
        self.assertEqual("interp:0", self.document("devices")["devices"][0]["id"])
        self.assertIn("kernels", self.document("kernels", "list"))
        self.assertRegex(self.beamline("kernels", "list", "--url", self.server.url), "^key +kernel +before us +after us +moves\n")
        self.assertIn("16 hexadecimal digits", self.beamline("kernels", "show", "nothing", "--url", self.server.url, status=1))
        self.client.call("POST", "/api/v1/run", {"inputs": {"a": [[1] * 20] * 12, "b": [[1] * 18] * 20}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"], "beam": 1})
        key = self.document("kernels", "list")["kernels"][0]["key"]
        self.assertRegex(self.beamline("kernels", "show", key, "--url", self.server.url), rf"^{key} r_12_18_20\non .*\n\d+ candidates, beam 1: .*\nmoves: .*\n(.*\n)+")
        self.assertEqual(key, self.document("kernels", "show", key)["kernels"][0]["key"])
        self.assertIn("interp:0: ", self.beamline("top", "--times", "1"))
        self.assertIn("interp:0", json.dumps(self.document("top")))
        self.beamline("run", "graph.json")
        self.assertRegex(self.beamline("usage", "--url", self.server.url), r"^day +key +requests +device s +received bytes +sent bytes\n")
        self.assertEqual({"usage"}, set(self.document("usage", "7")))

    def test_top_in_a_terminal(self):
        screen = Screen(SERVER, "top", "--interval", "0.2", rows=24, columns=60, BEAMLINE_URL=self.server.url)
        self.addCleanup(screen.close)
        screen.until(lambda s: s.written.count(b"\x1b[2J") >= 3 and "interp:0" in "".join(s.lines()))
        self.assertLessEqual(max(len(line) for line in screen.lines()), 60)
        screen.type(b"\x03")
        self.assertEqual(0, screen.end())


class Keyed(CommandCase):
    @classmethod
    def more_options(cls):
        state = str(cls.folder / "state")
        cls.key = {name: subprocess.run([SERVER, "keys", "create", name, "--scopes", scopes, "--state", state, *more], check=True, capture_output=True, text=True).stdout.strip()
                   for name, scopes, *more in (("alice", "run,train,infer", "--memory", "1G"), ("reader", "infer"), ("root", "admin"))}
        return ()

    def test_keys(self):
        for words in (("run", "graph.json"), ("jobs",), ("models",), ("me",), ("status",), ("top",), ("push", "graph.json"), ("usage", "--json"), ("infer", "double", "--in", "x=[1]"), ("bench", "double")):
            self.assertIn("401", self.beamline(*words, status=1), words)
        for words in (("run", "graph.json"), ("jobs",), ("push", "graph.json"), ("kernels", "list", "--json"), ("load", "double"), ("devices", "drain", "interp:0"), ("train", "line.json", "-n", "1")):
            self.assertIn("403", self.beamline(*words, status=1, BEAMLINE_KEY=self.key["reader"]), words)
        self.write("key", self.key["alice"] + "\n")
        self.assertEqual("s  float32 [2]  [12,30]\n", self.beamline("run", "graph.json", "--key-file", "key", BEAMLINE_KEY="bl_other"))
        self.assertRegex(self.beamline("me", "--key-file", "key"), r"^key +alice\nscopes +infer, run, train\n(.*\n)*memory +\S+ B of 1\.1 GB\n")
        self.assertIn("free", self.beamline("status", BEAMLINE_KEY=self.key["reader"]))
        self.beamline("train", "line.json", *DATA, "-n", "10", "--watch", BEAMLINE_KEY=self.key["alice"])
        self.assertIn("alice", self.beamline("top", "--times", "1", BEAMLINE_KEY=self.key["reader"]))
        self.assertRegex(self.beamline("usage", "--url", self.server.url, BEAMLINE_KEY=self.key["root"]), r"20\d\d-\d\d-\d\d +alice +\d+ +[\d.]+ +\d+ +\d+\n")
        for name in ("alice", "reader", "root"):  # no command prints a secret
            self.assertNotIn(self.key[name][3:], self.server.text())


if __name__ == "__main__":
    unittest.main()
