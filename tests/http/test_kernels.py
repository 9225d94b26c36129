# SPDX-License-Identifier: MIT
"""Searched kernels: who may request a search, which requests use the result, and how other servers and restarts use it."""

import json
import os
import re
import subprocess
import tempfile
import threading
import unittest

from fixture import PROGRAM, ROOT, Server, graph

INTERP = ("--backends", "interp", "--beam-seconds", "20")


def product(rows=12, **members):
    """Returns a product whose kernel has several possible moves."""
    return {"inputs": {"a": [[i + j for j in range(20)] for i in range(rows)], "b": [[i * j % 7 for j in range(18)] for i in range(20)]},
            "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"], "debug": 1, **members}


class Kernels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "kernels.db")

    def start(self, *args):
        server = Server(*INTERP, "--kernel-db", self.file, *args, env={"BEAMLINE_CACHE": self.folder.name})
        self.addCleanup(server.stop)
        return server

    def run_product(self, server, **members):
        answer = server.call("POST", "/api/v1/run", product(**members), timeout=120)
        self.assertEqual(200, answer.status, answer.body[:500])
        return answer.json

    def kernels(self, server):
        answer = server.call("GET", "/api/v1/kernels")
        self.assertEqual(200, answer.status)
        return answer.json["kernels"]

    def test_searched_once_for_all(self):
        server = self.start()
        plain = self.run_product(server)
        self.assertEqual(("compiled", []), (plain["stats"]["plan"], self.kernels(server)))
        searched = self.run_product(server, beam=1)
        self.assertEqual("compiled", searched["stats"]["plan"])
        self.assertIn("searched r_12_18_20: ", searched["stats"]["debug"])
        self.assertEqual(plain["outputs"], searched["outputs"])
        for beam in (0, 1, None):
            again = self.run_product(server, **({} if beam is None else {"beam": beam}))
            self.assertEqual("cached", again["stats"]["plan"])
            self.assertIn("searched r_12_18_20: ", again["stats"]["debug"])
        kernel, = self.kernels(server)
        self.assertEqual("r_12_18_20", kernel["name"])
        self.assertEqual(1, kernel["beam"])
        self.assertGreater(kernel["candidates"], 4)
        self.assertLessEqual(kernel["best_ns"], kernel["heuristic_ns"])
        self.assertRegex(kernel["key"], "^[0-9a-f]{16}$")

    def test_t30_known_at_the_next_start_and_beside(self):
        first = self.start()
        self.run_product(first, beam=1)
        found = self.kernels(first)
        beside = self.start()  # while the first server runs
        self.assertIn("known r_12_18_20: ", self.run_product(beside)["stats"]["debug"])
        self.assertEqual(0, first.stop())
        again = self.start("--beam", "1")
        answer = self.run_product(again)
        self.assertEqual(found, self.kernels(again))
        self.assertIn("known r_12_18_20: ", answer["stats"]["debug"])
        self.assertNotIn("searched", answer["stats"]["debug"])

    def test_known_to_who_asked_before_it_was_found(self):
        """A running server that has compiled the kernel uses the result of another server's later search."""
        asked, searching = self.start("--tune=off"), self.start("--tune=off")
        self.assertNotIn("known", self.run_product(asked)["stats"].get("debug", ""))
        self.run_product(searching, beam=1)
        other = product()
        other["nodes"].append({"id": "z", "op": "exp", "in": ["a"]})
        other["outputs"].append("z")
        answer = asked.call("POST", "/api/v1/run", other, timeout=120)
        self.assertEqual(200, answer.status, answer.body[:500])
        self.assertIn("known r_12_18_20: ", answer.json["stats"]["debug"])

    def test_a_program_is_searched_where_its_document_says_so(self):
        server = self.start()
        document = {"inputs": {"a": {"dtype": "float32", "shape": [12, 20]}}, "state": {"b": {"dtype": "float32", "shape": [20, 18]}},
                    "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"]}
        self.assertEqual(201, server.call("PUT", "/api/v1/programs/p", document).status)
        self.assertEqual([], self.kernels(server))
        self.assertEqual(200, server.call("PUT", "/api/v1/programs/p", {**document, "beam": 1}, timeout=120).status)
        self.assertEqual(["r_12_18_20"], [kernel["name"] for kernel in self.kernels(server)])

    def test_a_program_is_searched_where_a_run_says_so(self):
        """A run may request a search of its program, once, between two steps; later runs use the result."""
        server = self.start()
        document = {"inputs": {"a": {"dtype": "float32", "shape": [12, 20]}}, "state": {"b": {"dtype": "float32", "shape": [20, 18]}, "n": [0]},
                    "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}, {"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["y", "m"]}
        self.assertEqual(201, server.call("PUT", "/api/v1/programs/p", document).status)

        def run(**members):
            answer = server.call("POST", "/api/v1/programs/p/run", {"inputs": {"a": [[1] * 20] * 12}, **members}, timeout=120)
            self.assertEqual(200, answer.status, answer.body[:500])
            return answer.json["stats"]["plan"], answer.json["outputs"]["m"]["data"]
        self.assertEqual(("cached", [1]), run())
        self.assertEqual(("cached", [2]), run(beam=0))
        self.assertEqual([], self.kernels(server))
        self.assertEqual(("compiled", [3]), run(beam=1))
        kernel, = (kernel for kernel in self.kernels(server) if kernel["name"] == "r_12_18_20")
        self.assertEqual(1, kernel["beam"])
        for beam, step in ((1, 4), (0, 5), (None, 6)):
            self.assertEqual(("cached", [step]), run(**({} if beam is None else {"beam": beam})))
        self.assertEqual(422, server.call("POST", "/api/v1/programs/p/run", {"inputs": {"a": [[1] * 20] * 12}, "beam": 1025}).status)
        self.assertEqual(("compiled", [7]), run(beam=2))  # a wider search than before
        self.assertIn(2, [kernel["beam"] for kernel in self.kernels(server)])

    def test_t30_a_damaged_database_is_moved_aside(self):
        with open(self.file, "wb") as file:
            file.write(b"no database" * 1000)
        server = self.start()
        self.run_product(server, beam=1)
        self.assertEqual(1, len(self.kernels(server)))
        self.assertTrue(os.path.exists(self.file + ".damaged"))

    def test_nothing_on_disk(self):
        server = Server(*INTERP, "--kernel-db", "none", env={"BEAMLINE_CACHE": self.folder.name})
        self.addCleanup(server.stop)
        self.run_product(server, beam=1)
        self.assertEqual(1, len(self.kernels(server)))
        self.assertEqual([], [name for name in os.listdir(self.folder.name) if "kernels" in name])

    def test_others_need_not_wait(self):
        server = self.start()  # searches have a separate queue, so that other graphs are compiled meanwhile
        thread = threading.Thread(target=lambda: self.run_product(server, rows=40, beam=4))
        thread.start()
        try:
            for size in range(3, 8):
                answer = server.call("POST", "/api/v1/run", graph(inputs={"x": [1] * size}), timeout=10)
                self.assertEqual(200, answer.status)
        finally:
            thread.join()


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def command(self, *words, status=0):
        done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240,
                              env={**os.environ, "BEAMLINE_CACHE": self.folder.name})
        self.assertEqual(status, done.returncode, done.stderr)
        return done.stdout.decode() + done.stderr.decode()

    def tune(self):
        document = {"inputs": {"a": {"dtype": "float32", "shape": [12, 20]}},
                    "state": {"b": {"op": "uniform", "attrs": {"shape": [20, 18], "seed": 1}}},
                    "entries": {"one": {"inputs": {"a": {"dtype": "float32", "shape": [12, 20]}},
                                        "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}], "outputs": ["y"]}}}
        del document["inputs"]
        with open(self.path("program.json"), "w") as file:
            json.dump(document, file)
        return self.command("tune", self.path("program.json"), "--beam", "1", *INTERP)

    def test_tune_list_show_export_import(self):
        first = self.tune()
        self.assertRegex(first, r"(?m)^r_12_18_20 +\d+ candidates ")
        self.assertRegex(first, r"(?m)^kernel +before us +after us +gain +moves$")
        again = self.tune()  # known results are returned without a search
        self.assertEqual(1, again.count("candidates"))
        key = self.command("kernels", "list").split()[0]
        self.assertRegex(key, "^[0-9a-f]{16}$")
        shown = self.command("kernels", "show", key)
        self.assertIn("r_12_18_20", shown)
        self.assertIn("reduce float32", shown)
        self.assertIn("unknown kernel", self.command("kernels", "show", "0", status=1))
        self.command("kernels", "export", self.path("out.jsonl"))
        self.assertIn("1 of 1", self.command("kernels", "import", self.path("out.jsonl"), "--kernel-db", self.path("other.db")))
        self.assertEqual(self.command("kernels", "list"), self.command("kernels", "list", "--kernel-db", self.path("other.db")))

    def test_t30_lines_that_cannot_be(self):
        with open(os.path.join(ROOT, "engine/opt/move.h")) as file:
            version = int(re.search(r"BL_MOVES_VERSION = (\d+)", file.read())[1])
        with open(self.path("in.jsonl"), "w") as file:
            file.write('{"key": 1}\nnot json\n\n' + json.dumps({
                "key": "0123456789abcdef", "name": "r", "device": "d", "driver": "1", "moves": "fly 1 2", "nest": "", "version": version,
                "heuristic_ns": 1, "best_ns": 1, "candidates": 1, "beam": 1, "searched": 1}) + "\n")
        told = self.command("kernels", "import", self.path("in.jsonl"), status=1)
        self.assertEqual(3, told.count("beamline: line "))
        self.assertEqual("", self.command("kernels", "list"))

    def test_words_that_are_none(self):
        self.assertIn("list | show", self.command("kernels", "fly", status=2))
        self.assertIn("list | show", self.command("kernels", status=2))
        self.assertIn("tune PROGRAM.json", self.command("tune", status=2))
        self.assertIn("none cannot be opened", self.command("tune", self.path("none"), status=1))
        self.assertIn("cannot be opened", self.command("kernels", "import", self.path("none"), status=1))


if __name__ == "__main__":
    unittest.main()
