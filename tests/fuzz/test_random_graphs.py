# SPDX-License-Identifier: MIT
"""The fuzzer itself, the documents that it once found, and a sample of 200 random graphs; ./check --long runs thousands."""
import copy
import pathlib
import sys
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import levels as L  # noqa: E402
from fuzz import Fuzzer, Totals  # noqa: E402
from documents import Document, Tensor, bits_of, floats_of, ids_of  # noqa: E402
from drawing import OPS  # noqa: E402
from draws import DRAWS  # noqa: E402
from graphs import draw  # noqa: E402
from shrink import shrink  # noqa: E402

SAMPLE, ON_DRIVERS = 200, 12
REFUSED = 0.02  # largest share of refused graphs: more would mean that the generator does not know the ops


class GeneratorTest(unittest.TestCase):
    def test_a_seed_is_a_document(self):
        for seed in range(40):
            self.assertEqual(draw(seed).text(), draw(seed).text())
        self.assertNotEqual(draw(1).text(), draw(2).text())

    def test_text_can_be_read(self):
        for seed in range(40):
            document = draw(seed)
            again = Document.read(document.text())
            self.assertEqual(document.request(), again.request(), seed)

    def test_most_ops_are_drawn(self):
        drawn = {node["op"] for seed in range(600) for node in draw(seed).nodes}
        self.assertGreater(len(drawn), 0.75 * len(OPS), sorted(set(OPS) - drawn))
        self.assertGreater(len(DRAWS), 25)

    def test_sizes_of_graphs(self):
        sizes = [len(draw(seed).nodes) for seed in range(200)]
        self.assertLessEqual(max(sizes), 60)
        self.assertGreater(sum(5 <= size <= 50 for size in sizes), 190)

    def test_bfloat16(self):
        for given, want in ((1.0, 1.0), (1.00390625, 1.0), (1.01171875, 1.015625), (3.3895e38, 3.3895313892515355e38), (np.inf, np.inf)):
            self.assertEqual(want, float(floats_of(bits_of(np.array(given)))))
        self.assertTrue(np.isnan(floats_of(bits_of(np.array(np.nan)))))


class ShrinkTest(unittest.TestCase):
    def test_what_does_not_matter_goes(self):
        inputs = {"a": Tensor("float32", np.arange(12.0).reshape(3, 4)), "b": Tensor("float32", np.ones((3, 4)))}
        nodes = [{"id": "s", "op": "sin", "in": ["a"]}, {"id": "t", "op": "tanh", "in": ["s"]}, {"id": "m", "op": "mul", "in": ["t", "b"]},
                 {"id": "u", "op": "abs", "in": ["m"]}]
        document, found = shrink(Document(inputs, nodes, ["u", "m"]), lambda d: "tanh" if any(node["op"] == "tanh" for node in d.nodes) else None)
        self.assertEqual("tanh", found)
        self.assertEqual(["tanh"], [node["op"] for node in document.nodes])
        self.assertEqual(1, sum(t.array.size for t in document.inputs.values()))


class LevelTest(unittest.TestCase):
    """Tests that share the servers."""

    @classmethod
    def setUpClass(cls):
        cls.said = []
        cls.fuzzer = Fuzzer(["interp", "opencl", "vulkan"], out=cls.said.append)

    @classmethod
    def tearDownClass(cls):
        ended = cls.fuzzer.stop()
        if ended:
            raise AssertionError(f"a server ended with {ended}")

    def test_t29_graphs_that_were_found(self):
        for path in sorted((HERE / "found").glob("*.json")):
            with self.subTest(path.stem):
                verdict = self.fuzzer.judge(Document.read(path.read_text()), self.fuzzer.levels.names)
                self.assertEqual([], [str(problem) for problem in verdict.differences])
                self.assertEqual("", verdict.refused)

    def sample(self, seeds, names):
        totals = self.fuzzer.run(seeds, names, Totals())
        self.assertEqual([], [problem["text"] for problem in totals.differences], "\n".join(self.said))
        self.assertEqual([], totals.unexpected)
        self.assertLessEqual(totals.refused, REFUSED * totals.graphs + 1, totals.refusals)

    def test_t29_sample(self):
        self.sample(range(SAMPLE), ["noopt", "interp"])

    def test_t29_sample_on_drivers(self):
        names = [name for name in self.fuzzer.levels.names if L.LEVELS[name][1] != "interp:0"]
        if not names:
            self.skipTest("this machine has no driver")
        self.sample(range(SAMPLE, SAMPLE + ON_DRIVERS), names)

    def test_noise_excuses_rounding_only(self):
        """A result that is off by a rounding of its operands is no difference; a larger error is a difference."""
        document = Document({"x": Tensor("float32", np.linspace(1, 2, 7)), "y": Tensor("float32", np.linspace(1, 2, 7) + 1e-3)}, [
            {"id": "a", "op": "exp", "in": ["x"]}, {"id": "b", "op": "exp", "in": ["y"]}, {"id": "c", "op": "sub", "in": ["a", "b"]},
            {"id": "f", "op": "floor", "in": ["x"]}], ["c", "f"])
        levels, want = self.fuzzer.levels, self.fuzzer.levels.run(L.REFERENCE, document)

        def judged(name, change):
            got = copy.deepcopy(want)
            dtype, array = got.outputs[name]
            got.outputs[name] = dtype, (array + change).astype(array.dtype)
            return L.compare("interp", got, want) and L.excused(levels, "interp", document, got, want)
        # a and b are about 5, with a last bit of 5e-7; c is about 0.005.
        self.assertIsNotNone(L.compare("interp", L.Result({**want.outputs, "c": ("float32", want.outputs["c"][1] + np.float32(5e-7))}), want))
        self.assertIsNone(judged("c", 5e-7))
        self.assertIsNotNone(judged("c", 1e-4))
        self.assertIsNotNone(judged("f", 1))

    def test_what_changes_a_graph_is_seen(self):
        """Replaces one op of a graph by another on one side: every graph whose output then changes much is reported."""
        other = {"add": "sub", "maximum": "minimum", "sum": "max", "sin": "cos", "less": "greater", "cumsum": "cummax", "tril": "triu"}
        seen = tried = 0
        for seed in range(1000, 1060):
            document = draw(seed)
            swapped = copy.copy(document)
            swapped.nodes = [{**node, "op": other.get(node["op"], node["op"])} if len(ids_of(node)) == 1 else node for node in document.nodes]
            want, got = self.fuzzer.levels.run(L.REFERENCE, document), self.fuzzer.levels.run("interp", swapped)
            if swapped.nodes == document.nodes or 200 not in (want.status, got.status) or want.status != got.status:
                continue
            problem = L.compare("interp", got, want)
            if problem is None or problem.kind != "value":
                continue
            tried += 1
            seen += L.excused(self.fuzzer.levels, "interp", document, got, want) is not None
        self.assertGreater(tried, 10)
        self.assertGreater(seen, 0.9 * tried)


if __name__ == "__main__":
    unittest.main()
