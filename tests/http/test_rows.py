# SPDX-License-Identifier: MIT
""""rows": outputs that are cut off at a count that another output holds."""
import json
import struct
import tempfile
import unittest

from fixture import JSON, SAFETENSORS, Server, ServerTest, read_safetensors

RUN, P = "/api/v1/run", "/api/v1/programs"
CHOSEN = [{"id": ["v", "n"], "op": "masked_select", "in": ["x", "m"], "attrs": {"size": 4}}, {"id": "w", "op": "stack", "in": ["v", "v"]},
          {"id": "h", "op": "cast", "in": ["n"], "attrs": {"dtype": "int32"}}]
ROWS = {"v": {"count": "n"}, "w": {"count": "n", "axis": 1}}


def run(mask, **more):
    return {"inputs": {"x": [1, 2, 3, 4], "m": mask}, "nodes": CHOSEN, "outputs": ["v", "w"], "rows": ROWS, **more}


def program(**more):
    types = {"x": {"dtype": "float32", "shape": [4]}, "m": {"dtype": "bool", "shape": [4]}}
    return {"inputs": types, "nodes": CHOSEN, "outputs": ["v", "w"], "rows": ROWS, **more}


def told(outputs):
    return {name: (value["shape"], value["data"]) for name, value in outputs.items()}


class Rows(ServerTest):
    def test_a_run(self):
        for mask, kept in (([True, False, True, False], [1, 3]), ([True] * 4, [1, 2, 3, 4]), ([False] * 4, [])):
            with self.subTest(mask):
                answer = self.ok(self.call("POST", RUN, run(mask)))
                self.assertEqual({"v": ([len(kept)], kept), "w": ([2, len(kept)], kept + kept)}, told(answer.json["outputs"]))

    def test_the_count_may_be_asked_for(self):
        answer = self.ok(self.call("POST", RUN, run([True, False, True, False], outputs=["n", "v", "w"])))
        self.assertEqual({"n": ([], [2]), "v": ([2], [1, 3]), "w": ([2, 2], [1, 3, 1, 3])}, told(answer.json["outputs"]))

    def test_a_count_beyond_the_axis(self):
        for least, kept in (("9", [1, 3, 0, 0]), ("-5", [])):
            nodes = [*CHOSEN, {"id": "c", "op": "full", "in": [], "attrs": {"shape": [], "value": int(least), "dtype": "int64"}}]
            answer = self.ok(self.call("POST", RUN, run([True, False, True, False], nodes=nodes, outputs=["v"], rows={"v": {"count": "c"}})))
            self.assertEqual({"v": ([len(kept)], kept)}, told(answer.json["outputs"]))

    def test_a_file(self):
        answer = self.ok(self.call("POST", RUN, json.dumps(run([False, True, True, True])), {**JSON, "accept": SAFETENSORS}))
        tensors, _ = read_safetensors(answer.body)
        self.assertEqual({"v": [3], "w": [2, 3]}, {name: shape for name, (_, shape, _) in tensors.items()})
        self.assertEqual((2, 3, 4, 2, 3, 4), struct.unpack("<6f", tensors["w"][2]))

    def test_a_program(self):
        described = self.ok(self.call("PUT", f"{P}/chosen", program()), 201).json
        self.assertEqual(["v", "w"], described["entries"]["main"]["outputs"])
        inputs = {"x": [1, 2, 3, 4], "m": [False, False, True, True]}
        answer = self.ok(self.call("POST", f"{P}/chosen/run", {"inputs": inputs}))
        self.assertEqual({"v": ([2], [3, 4]), "w": ([2, 2], [3, 4, 3, 4])}, told(answer.json["outputs"]))
        answer = self.ok(self.call("POST", f"{P}/chosen/run", {"inputs": inputs, "steps": 2, "collect": {"every": 1, "outputs": ["v"]}}))
        self.assertEqual([2, 4], answer.json["collected"]["v"]["shape"])  # uncut, since steps may differ
        answer = self.call("POST", f"{P}/chosen/run", {"inputs": inputs, "keep": {"t": "v"}})
        self.assertIn("can be sent, but not kept", self.refused(422, answer)["detail"])

    def test_refused(self):
        for more, words in (({"rows": {"z": {"count": "n"}}}, 'no output is named "z"'), ({"rows": {"v": {"count": "z"}}}, 'nothing is named "z"'),
                            ({"rows": {"v": {"count": "h"}}}, "must be an int64 without dimensions"), ({"rows": {"v": {"count": "v"}}}, "must be an int64 without dimensions"),
                            ({"rows": {"v": {"count": "n", "axis": 1}}}, "axis is 1, but the tensor has 1 dimensions")):
            with self.subTest(words):
                self.assertIn(words, self.refused(422, self.call("POST", RUN, run([True] * 4, **more)))["detail"])
        self.refused(422, self.call("POST", RUN, run([True] * 4, rows={"v": {"count": "n", "axis": -1}})))
        for rows in ({"v": {}}, {"v": {"count": 1}}, {"v": "n"}, [], {"v": {"count": "n", "axes": 0}}):
            with self.subTest(rows):
                self.refused(400, self.call("POST", RUN, run([True] * 4, rows=rows)))


class RowsThatComeBack(unittest.TestCase):
    def test_a_durable_program(self):
        with tempfile.TemporaryDirectory() as folder:
            for first in (True, False):
                server = Server("--backends", "interp", "--state", folder)
                try:
                    if first:
                        self.assertEqual(201, server.call("PUT", f"{P}/chosen?durable=true", program()).status)
                    answer = server.call("POST", f"{P}/chosen/run", {"inputs": {"x": [1, 2, 3, 4], "m": [True, False, False, True]}})
                    self.assertEqual({"v": ([2], [1, 4]), "w": ([2, 2], [1, 4, 1, 4])}, told(answer.json["outputs"]))
                finally:
                    server.stop()


if __name__ == "__main__":
    unittest.main()
