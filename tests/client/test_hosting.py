# SPDX-License-Identifier: MIT
"""Hosted models with the Python client: promotion, loading and inference."""
import json
import math
import pathlib
import tempfile
import unittest

import beamline
from served import ServedCase
from test_server import INTERPRETER, POINTS, line


def scaled():
    """The program y = x * w with a batch dimension."""
    p = beamline.Program(w=[2.0])
    g = p.entry()
    g.output(y=g.input("x", [g.dim("batch", 1, 8), 2]) * g.state("w"))
    return p


SHOUT = {"inputs": {"text": {"dtype": "uint8", "shape": [8]}}, "nodes": [
    {"id": "low", "op": "greater_equal", "in": ["text", 97]}, {"id": "up", "op": "sub", "in": ["text", 32]}, {"id": "loud", "op": "where", "in": ["low", "up", "text"]}],
    "outputs": ["loud"]}
TEXTS = {"input": [{"name": "text", "data_type": "TYPE_STRING", "dims": [1]}], "output": [{"name": "loud", "data_type": "TYPE_STRING", "dims": [1]}]}


# A text model: the logits of a letter choose the next letter of the alphabet, up to the end token.
WORDS = [*"abcdefghijklmnopqrstuvwxyz", "<|endoftext|>"]
TOKENIZER = {"added_tokens": [{"id": 26, "content": WORDS[26], "special": True}], "decoder": {"type": "ByteLevel"},
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
             "model": {"type": "BPE", "vocab": {word: number for number, word in enumerate(WORDS)}, "merges": []}}
ALPHABET = {"inputs": {"tokens": {"dtype": "int32", "shape": ["n"]}}, "dims": {"n": [1, 64]}, "outputs": ["logits"], "nodes": [
    {"id": "next", "op": "add", "in": ["tokens", 1]}, {"id": "hot", "op": "one_hot", "in": ["next"], "attrs": {"num_classes": 27}},
    {"id": "logits", "op": "cast", "in": ["hot"], "attrs": {"dtype": "float32"}}]}
NOWHERE = {**ALPHABET, "nodes": [{"id": "logits", "op": "full", "attrs": {"shape": [27], "value": "NaN"}}]}


class ModelTest(ServedCase):
    options = INTERPRETER

    def test_promoted_and_asked(self):
        program = self.client.put_program("scaled", scaled())
        model = program.promote("scaled", 2)
        self.addCleanup(model.unload)
        self.assertEqual(("2", "scaled", True), (model.version, model.name, model.ready()))
        self.assertEqual(([-1, 2], ["2"]), (model.metadata()["inputs"][0]["shape"], model.metadata()["versions"]))
        self.assertEqual(8, model.config()["max_batch_size"])
        for self.client.binary in (False, True):
            for given in ([[1, 2]], beamline.array([[1, 2]], "float32")):
                result = model.infer({"x": given})
                self.assertEqual(([[2, 4]], "2"), (result["y"].tolist(), result.stats["model_version"]))
            odd = model.infer({"x": [[math.inf, -1]]}, ["y"])["y"].tolist()
            self.assertEqual([[math.inf, -2]], odd)
            self.assertEqual([["8.000000:1", "6.000000:0"]], model.infer({"x": [[3, 4]]}, classes={"y": 2})["y"])
        self.assertEqual(8, model.statistics()[0]["inference_count"])
        self.assertIn(("scaled", "2"), [(each["name"], each["version"]) for each in self.client.statistics()])
        for ready in (False, True):
            self.assertIn(("scaled", "READY"), [(each["name"], each["state"]) for each in self.client.models(ready)])
        with self.assertRaisesRegex(beamline.Malformed, "x"):
            model.infer({})
        with self.assertRaisesRegex(beamline.Malformed, "no input"):
            model.infer({"x": [[1, 2]], "z": [1]})

    def test_training_goes_on_beside_it(self):
        g = (p := line()).entry("guess")
        g.output(y=g.input("x", [1]) * g.state("w") + g.state("b"))
        program = self.client.put_program("line", p)
        program.run(POINTS, entry="main", steps=3)
        model = program.promote("line", 1, "guess")
        before = model.infer({"x": [10]})["y"].item()
        program.run(POINTS, entry="main", steps=200)
        self.assertEqual(before, model.infer({"x": [10]})["y"].item())
        program.promote("line", 1, "guess")
        self.assertAlmostEqual(21, model.infer({"x": [10]})["y"].item(), 0)
        with self.assertRaisesRegex(beamline.InvalidGraph, "nothing"):
            program.promote("line", 1, "nothing")
        model.unload()
        self.assertFalse(model.ready())
        self.assertRaises(beamline.NotFound, model.infer, {"x": beamline.array([10], "float32")})

    def test_every_dtype(self):
        for dtype in beamline.models.DATATYPES:
            model = self.client.model("same." + dtype)
            model.load(files={"1/model.json": {"inputs": {"x": {"dtype": dtype, "shape": [2]}}, "nodes": [{"id": "y", "op": "flip", "in": ["x"]}], "outputs": ["y"]}})
            for self.client.binary in (False, True):
                self.assertEqual([1, 0], model.infer({"x": [0, 1]})["y"].tolist(), dtype)
            model.unload()

    def test_loaded_with_its_files(self):
        model = self.client.model("weights")
        document = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, 4]},
                    "nodes": [{"id": "y", "op": "mul", "in": ["x", "w"]}], "outputs": ["y"]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.safetensors")
            path.write_bytes(beamline.write_safetensors({"w": beamline.array([3, 4], "float32")}))
            model.load({"max_batch_size": 2}, {"1/model.json": document, "1/model.safetensors": path})
        self.assertEqual([[3, 8]], model.infer({"x": [[1, 2]]})["y"].tolist())
        self.assertEqual(2, model.config()["max_batch_size"])
        model.load(model.config(), {"5/model.json": json.dumps({**document, "state": {"w": [7, 7]}}).encode()})
        self.assertEqual(([[7, 14]], "5"), ((r := model.infer({"x": [[1, 2]]}))["y"].tolist(), r.stats["model_version"]))
        with self.assertRaisesRegex(beamline.BeamlineError, "nodes"):
            model.load(files={"1/model.json": {}})
        self.assertTrue(model.ready())
        model.unload()

    def test_texts(self):
        model = self.client.model("shout")
        model.load(TEXTS, {"1/model.json": SHOUT})
        for self.client.binary in (False, True):
            for given, want in (("hi you", ["HI YOU"]), (b"hi", ["HI"]), (["hi"], ["HI"])):
                self.assertEqual(want, model.infer({"text": given})["loud"])
        self.assertEqual(["\udcdf"], model.infer({"text": b"\xff"})["loud"])  # not UTF-8; the program subtracts 32
        self.assertEqual("HELLO", model.generate("hello")["text_output"])
        self.assertEqual(["HELLO"], [event["text_output"] for event in model.stream("hello")])
        with self.assertRaisesRegex(beamline.Malformed, "max_tokens"):
            list(model.stream("hello", max_tokens=3))
        model.unload()

    def test_texts_that_are_written(self):
        model = self.client.model("alphabet")
        model.load({}, {"1/model.json": ALPHABET, "1/tokenizer.json": TOKENIZER})
        answer = model.generate("ab", max_tokens=3)
        self.assertEqual(("abcde", "length", 2, 3), tuple(answer[name] for name in ("text_output", "finish_reason", "num_input_tokens", "num_output_tokens")))
        events = list(model.stream("x", max_tokens=9))
        self.assertEqual(("yz", "stop"), ("".join(event["text_output"] for event in events), events[-1]["finish_reason"]))
        self.assertGreaterEqual(len(events), 2)
        model.load({}, {"1/model.json": NOWHERE, "1/tokenizer.json": TOKENIZER})
        with self.assertRaises(beamline.BeamlineError) as caught:
            list(model.stream("a", max_tokens=2))
        self.assertEqual('all logits of model "alphabet" are NaN', caught.exception.detail)
        model.unload()

    def test_sequences(self):
        p = beamline.Program(total=[0.0])
        g = p.entry()
        total = g.state("total") + g.input("x", [1])
        g.update({"total": total}).output(sum=total)
        model = self.client.put_program("sums", p).promote("sums", 1)
        got = [model.infer({"x": [n]}, sequence_id=7, sequence_start=n == 1, sequence_end=n == 3)["sum"].item() for n in (1, 2, 3)]
        self.assertEqual([1, 3, 6], got)
        model.unload()

    def test_settings(self):
        self.assertEqual(["OFF"], self.client.trace()["trace_level"])
        self.assertEqual("3", self.client.trace(trace_rate=3)["trace_rate"])
        self.assertEqual("1", self.client.trace(trace_rate=None)["trace_rate"])
        model = self.client.put_program("traced", scaled()).promote("traced", 1)
        self.assertEqual(("5", "1"), (model.trace(trace_rate=5)["trace_rate"], self.client.trace()["trace_rate"]))
        model.unload()
        self.assertFalse(self.client.logging()["log_warning"])
        self.assertTrue(self.client.logging(log_warning=True)["log_warning"])
        self.assertFalse(self.client.logging(log_warning=False)["log_warning"])

    def test_of_the_server(self):
        self.assertEqual("beamline", self.client.server()["name"])
        self.assertIn("/api/v1/run", self.client.description()["paths"])
        self.assertTrue(self.client.live())


class Joined(ServedCase):
    options = INTERPRETER

    def test_batching(self):
        """A program's settings of dynamic batching; the server rejects invalid settings."""
        p = scaled()
        self.assertEqual("batch", self.client.put_program("scaled", p).info["entries"]["main"]["batch"])
        p.batching = False
        self.assertNotIn("batch", self.client.put_program("scaled", p).info["entries"]["main"])
        p.batching = {"max_rows": 0}
        with self.assertRaisesRegex(beamline.BeamlineError, "max_rows"):
            self.client.put_program("scaled", p)


if __name__ == "__main__":
    unittest.main()
