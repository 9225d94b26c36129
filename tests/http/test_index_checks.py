# SPDX-License-Identifier: MIT
"""check_indices: an index out of range is 422 with op, index and bound, and the state does not change; without check_indices the results do not change."""

import json
import pathlib
import tempfile
import unittest

from fixture import ROOT, Server, ServerTest
from test_residents import has_vulkan
from training_jobs import J, wait

P = "/api/v1/programs"
KIND = "urn:beamline:error:eindex"
ROWS = {"dtype": "float32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}
VALUES = {"x": ROWS, "p": [[[1, 2]]], "codes": {"dtype": "int32", "shape": [1, 1, 4, 16], "data": list(range(64))},
          "scale": {"dtype": "float16", "shape": [1, 1, 16], "data": [1, 2] * 8}}
NO_INDEX = {"left_shift", "right_shift"}  # integer ops without indices; random keys are recognised by name


def ints(*data, shape=None, dtype="int32"):
    return {"dtype": dtype, "shape": [len(data)] if shape is None else shape, "data": list(data)}


def node(id, op, *sources, **attrs):
    return {"id": id, "op": op, "in": list(sources), **({"attrs": attrs} if attrs else {})}


# op, its sources and attributes, valid indices by input, invalid indices, and parts of the message
OPS = (
    ("take", ("x", "i"), {"axis": 1}, {"i": ints(0, -3, 2)}, {"i": ints(0, 3, 5)}, "take: index 3 at [1] is out of range: axis 1 of x has size 3; it must be from -3 to 2"),
    ("block_take", ("i", "codes", "scale"), {"format": "q4_0", "rows": 2}, {"i": ints(0, -2, 1)}, {"i": ints(0, 2)},
     "block_take: index 2 at [1] is out of range: axis 0 of x has size 2; it must be from -2 to 1"),
    ("gather", ("x", "i"), {"axis": 0}, {"i": ints(-2, 1, 0, shape=[1, 3])}, {"i": ints(0, 1, -3, shape=[1, 3])},
     "gather: index -3 at [0, 2] is out of range: axis 0 of x has size 2; it must be from -2 to 1"),
    ("index", ("x", "i", "j"), {}, {"i": ints(1, -1), "j": ints(2, -3, shape=[2])}, {"i": ints(1, 0), "j": ints(2, 3)},
     "index: index 3 at [1] is out of range: axis 1 of x has size 3; it must be from -3 to 2"),
    ("index_put", ("x", 9, "i", "j"), {}, {"i": ints(0, 1), "j": ints(-1, 1)}, {"i": ints(2, 0), "j": ints(0, 0)},
     "index_put: index 2 at [0] is out of range: axis 0 of x has size 2; it must be from -2 to 1"),
    ("scatter", ("x", "i", "x"), {"axis": 1}, {"i": ints(2, 0, 1, -3, shape=[2, 2])}, {"i": ints(2, 0, 1, -4, shape=[2, 2])},
     "scatter: index -4 at [1, 1] is out of range: axis 1 of x has size 3; it must be from -3 to 2"),
    ("scatter_reduce", ("x", "i", "x"), {"axis": 1, "reduce": "sum"}, {"i": ints(2, 0, shape=[2, 1])}, {"i": ints(0, 9, shape=[2, 1])},
     "scatter_reduce: index 9 at [1, 0] is out of range: axis 1 of x has size 3; it must be from -3 to 2"),
    ("one_hot", ("i",), {"num_classes": 3}, {"i": ints(0, 2)}, {"i": ints(0, -1)}, "one_hot: class -1 at [1] is out of range: num_classes is 3; it must be from 0 to 2"),
    ("max_unpool", ("p", "i"), {"kernel_size": 2, "dims": 1}, {"i": ints(1, 2, shape=[1, 1, 2])}, {"i": ints(1, 4, shape=[1, 1, 2])},
     "max_unpool: index 4 at [0, 0, 1] is out of range: the plane has size 4; it must be from 0 to 3"),
    ("cross_entropy", ("x", "i"), {}, {"i": ints(0, 2)}, {"i": ints(0, -100)}, "cross_entropy: target -100 at [1] is out of range: x has 3 classes; it must be from 0 to 2"),
    ("nll_loss", ("x", "i"), {"ignore_index": -100}, {"i": ints(-100, 2)}, {"i": ints(-100, 3)},
     "nll_loss: target 3 at [1] is out of range: x has 3 classes; it must be from 0 to 2, or ignore_index -100"),
    ("sparse_categorical_crossentropy", ("x", "i"), {}, {"i": ints(-1, 2)}, {"i": ints(-2, 2)},
     "sparse_categorical_crossentropy: target -2 at [0] is out of range: x has 3 classes; it must be from 0 to 2, or ignore_index -1"),
)


def run(nodes, inputs, outputs=("y",), **members):
    return {"inputs": inputs, "nodes": nodes, "outputs": list(outputs), **members}


def walk(**members):
    """Reads x[n] in step n, and writes it to position n of w."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [3]}}, "state": {"n": {"dtype": "int32", "shape": [1], "data": [0]}, "w": {"dtype": "float32", "shape": [8]}},
            "nodes": [node("t", "take", "x", "n"), node("n1", "add", "n", 1), node("places", "arange", stop=8, dtype="int32"), node("here", "equal", "places", "n"),
                      node("w1", "where", "here", "t", "w")],
            "updates": {"n": "n1", "w": "w1"}, "outputs": ["t"], **members}


class Checks(ServerTest):
    ARGS = ("--log-level", "error")

    def out_of_range(self, answer, detail, id="y"):
        problem = self.refused(422, answer)
        self.assertEqual((KIND, id, f'{detail} (node "{id}")'), (problem["type"], problem["node"], problem["detail"]))
        return problem

    def numbers(self, document):
        return {name: value["data"] for name, value in self.ok(self.call("POST", "/api/v1/run", document)).json["outputs"].items()}

    def test_every_op_is_here(self):
        known = json.loads((pathlib.Path(ROOT) / "proto" / "ops.json").read_text())["ops"]
        takes = {op["name"] for op in known for each in op["inputs"] if each["type"] == "Int" and each["name"] != "key"}
        self.assertEqual(takes - NO_INDEX | {"cross_entropy"}, {row[0] for row in OPS})

    def test_every_op(self):
        for op, sources, attrs, good, bad, detail in OPS:
            inputs = {name: value for name, value in VALUES.items() if name in sources}
            nodes = [node("y", op, *sources, **attrs)]
            with self.subTest(op):
                plain = self.numbers(run(nodes, {**inputs, **good}))
                self.assertEqual(plain, self.numbers(run(nodes, {**inputs, **good}, check_indices=True)))
                self.numbers(run(nodes, {**inputs, **bad}, check_indices=False))
                self.out_of_range(self.call("POST", "/api/v1/run", run(nodes, {**inputs, **bad}, check_indices=True)), detail)

    def test_numbers_at_the_ends(self):
        for dtype, value, said in (("int8", -128, "-128"), ("uint8", 255, "255"), ("int64", 1 << 40, "2147483647 or more"), ("int64", -1 << 63, "-2147483648 or less"),
                                   ("uint64", (1 << 64) - 1, "2147483647 or more"), ("uint32", (1 << 32) - 1, "2147483647 or more"), ("int32", 6, "6")):
            with self.subTest(dtype=dtype, value=value):
                document = run([node("y", "take", "x", "i")], {"x": [1, 2, 3], "i": ints(0, value, dtype=dtype)}, check_indices=True)
                self.out_of_range(self.call("POST", "/api/v1/run", document), f"take: index {said} at [1] is out of range: axis 0 of x has size 3; it must be from -3 to 2")
        for inputs, detail in (({"x": [1, 2, 3], "i": ints(7, shape=[])}, "index 7 is out of range: axis 0 of x has size 3; it must be from -3 to 2"),
                               ({"x": [], "i": ints(0)}, "index 0 at [0] is out of range: axis 0 of x has size 0, so no index fits")):
            self.out_of_range(self.call("POST", "/api/v1/run", run([node("y", "take", "x", "i")], inputs, check_indices=True)), "take: " + detail)
        self.assertEqual({"y": []}, self.numbers(run([node("y", "take", "x", "i")], {"x": [1, 2, 3], "i": ints()}, check_indices=True)))

    def test_the_first_of_many(self):
        places = [k % 50 for k in range(5000)]
        for bad in ((4999,), (4321, 1234, 2222)):
            data = [50 + k if k in bad else place for k, place in enumerate(places)]
            first = min(bad)
            document = run([node("y", "take", "x", "i")], {"x": list(range(50)), "i": ints(*data, shape=[100, 50])}, check_indices=True)
            self.out_of_range(self.call("POST", "/api/v1/run", document),
                              f"take: index {50 + first} at [{first // 50}, {first % 50}] is out of range: axis 0 of x has size 50; it must be from -50 to 49")

    def test_named_dimensions(self):
        for size, place in ((4, [1, 1]), (7, [0, 3])):
            data = [0] * (2 * size)
            data[place[0] * size + place[1]] = 5
            document = run([node("y", "take", "x", "i")], {"x": [1, 2, 3], "i": ints(*data, shape=[2, size])}, shapes={"x": ["n"], "i": [2, "m"]},
                           dims={"m": [1, 16], "n": [1, 16]}, check_indices=True)
            self.out_of_range(self.call("POST", "/api/v1/run", document),
                              f"take: index 5 at {place} is out of range: axis 0 of x has size 3; it must be from -3 to 2")


    def test_more_places_than_32_bits_count(self):
        """Positions that need more than 32 bits, with dimensions whose sizes come from inputs."""
        document = run([node("y", "take", "x", "i"), node("s", "sum", "y")], {"x": ints(1, 2, 3, dtype="int8"), "i": ints(*[0] * 599, -4, shape=[2, 300], dtype="int8")},
                       ["s"], shapes={"i": ["m", "n"]}, dims={"m": [1, 60000], "n": [1, 60000]}, check_indices=True)
        if "vulkan" in self.ARGS:
            self.skipTest("lavapipe lets a kernel see less of a tensor")
        self.out_of_range(self.call("POST", "/api/v1/run", document), "take: index -4 at [1, 299] is out of range: axis 0 of x has size 3; it must be from -3 to 2")

    def test_bodies(self):
        body = {"inputs": ["h", "i", "x"], "nodes": [node("t", "take", "x", "i"), node("h1", "add", "h", "t")], "outputs": ["h1", "t"]}
        scan = [{"id": ["h", "ys"], "op": "scan", "in": ["z", "i", "x"], "attrs": {"carries": 1, "sequences": 1, "body": body}}]
        outer = [{"id": ["h", "ys"], "op": "scan", "in": ["z", "i", "x"], "attrs": {"carries": 1, "sequences": 1, "body": {
            "inputs": ["h", "i", "x"], "nodes": [{"id": ["h1", "t"], "op": "scan", "in": ["h", "i", "x"], "attrs": {"carries": 1, "sequences": 1, "body": body}}],
            "outputs": ["h1", "t"]}}}]
        inputs = {"x": [1, 2, 3], "z": {"dtype": "float32", "shape": [], "data": 0}}
        rule = "is out of range: axis 0 of x has size 3; it must be from -3 to 2"
        for nodes, good, bad, detail in ((scan, ints(0, 2, 1), ints(0, 2, 3), f"take: index 3 in step 2 of the scan {rule}"),
                                         (outer, ints(0, 2, 1, 2, 2, 2, shape=[2, 3]), ints(0, 2, 1, 2, -4, 3, shape=[2, 3]),
                                          f"take: index -4 in step 1 of the scan in step 1 of the scan around it {rule}")):
            plain = self.numbers(run(nodes, {**inputs, "i": good}, ["h", "ys"]))
            self.assertEqual(plain, self.numbers(run(nodes, {**inputs, "i": good}, ["h", "ys"], check_indices=True)))
            self.out_of_range(self.call("POST", "/api/v1/run", run(nodes, {**inputs, "i": bad}, ["h", "ys"], check_indices=True)), detail, "t")
            names = ["m", "n"][:len(bad["shape"])]
            named = {"shapes": {"i": names}, "dims": {name: [1, 9] for name in names}, "check_indices": True}
            self.assertEqual(plain, self.numbers(run(nodes, {**inputs, "i": good}, ["h", "ys"], **named)))
            self.out_of_range(self.call("POST", "/api/v1/run", run(nodes, {**inputs, "i": bad}, ["h", "ys"], **named)), detail, "t")
        slope = [*scan, {"id": ["dx"], "op": "grad", "in": ["h", "x"]}]
        self.assertEqual({"dx": [1, 1, 1]}, self.numbers(run(slope, {**inputs, "i": ints(0, 2, 1)}, ["dx"], check_indices=True)))
        self.out_of_range(self.call("POST", "/api/v1/run", run(slope, {**inputs, "i": ints(5, 2, 1)}, ["dx"], check_indices=True)),
                          f"take: index 5 in step 0 of the scan {rule}", "t")

    def test_the_branch_that_is_not_taken(self):
        nodes = [node("b", "less", "p", 0), {"id": ["y"], "op": "cond", "in": ["b", "x", "i"], "attrs": {
            "then": {"inputs": ["x", "i"], "nodes": [node("t", "take", "x", "i")], "outputs": ["t"]},
            "otherwise": {"inputs": ["x", "i"], "nodes": [node("u", "mul", "x", 2)], "outputs": ["u"]}}}]
        inputs = {"x": [1, 2], "i": ints(1, 5)}
        self.assertEqual({"y": [2, 4]}, self.numbers(run(nodes, {**inputs, "p": [1]}, check_indices=True)))
        self.out_of_range(self.call("POST", "/api/v1/run", run(nodes, {**inputs, "p": [-1]}, check_indices=True)),
                          "take: index 5 at [1] is out of range: axis 0 of x has size 2; it must be from -2 to 1", "t")

    def test_gradients_and_training(self):
        """A trained embedding: the same numbers with and without checks."""
        document = {"inputs": {"i": {"dtype": "int32", "shape": [4]}, "t": {"dtype": "int32", "shape": [4]}},
                    "state": {"e": {"op": "normal", "attrs": {"shape": [10, 6], "seed": 1}}, "w": {"op": "normal", "attrs": {"shape": [6, 10], "seed": 2}}},
                    "nodes": [node("h", "take", "e", "i"), node("z", "matmul", "h", "w"), node("loss", "cross_entropy", "z", "t"),
                              node(["e1", "w1"], "adam", "loss", "e", "w", lr=0.1)], "updates": {"e": "e1", "w": "w1"}, "outputs": ["loss"]}
        ask = {"inputs": {"i": ints(1, 2, 3, 9), "t": ints(0, 4, 9, 9)}, "steps": 5}
        states = []
        for check in (False, True):
            self.ok(self.call("PUT", f"{P}/net{check}", {**document, "check_indices": check}), 201)
            self.ok(self.call("POST", f"{P}/net{check}/run", ask))
            states.append(self.ok(self.call("GET", f"{P}/net{check}/state")).json)
        self.assertEqual(*states)
        for bad, detail in (({"i": ints(1, 10, 3, 4)}, "take: index 10 at [1] is out of range: axis 0 of x has size 10; it must be from -10 to 9"),
                            ({"t": ints(1, 2, 3, -1)}, "cross_entropy: target -1 at [3] is out of range: x has 10 classes; it must be from 0 to 9")):
            problem = self.out_of_range(self.call("POST", f"{P}/netTrue/run", {**ask, "inputs": {**ask["inputs"], **bad}}), detail, "h" if "i" in bad else "loss")
            self.assertEqual(0, problem["step"])
        self.assertEqual(states[1], self.ok(self.call("GET", f"{P}/netTrue/state")).json)

    def test_the_state_of_the_step_before(self):
        detail = "take: index 3 at [0] is out of range: axis 0 of x has size 3; it must be from -3 to 2"
        self.ok(self.call("PUT", f"{P}/walk", walk(check_indices=True)), 201)
        problem = self.out_of_range(self.call("POST", f"{P}/walk/run", {"inputs": {"x": [5, 6, 7]}, "steps": 100, "collect": {"every": 1, "outputs": ["t"]}}), detail, "t")
        self.assertEqual(3, problem["step"])
        for _ in range(2):
            state = self.ok(self.call("GET", f"{P}/walk/state")).json["state"]
            self.assertEqual(([3], [5, 6, 7, 0, 0, 0, 0, 0]), (state["n"]["data"], state["w"]["data"]))
            problem = self.out_of_range(self.call("POST", f"{P}/walk/run", {"inputs": {"x": [5, 6, 7]}}), detail, "t")
            self.assertEqual(0, problem["step"])
        self.assertEqual(3, self.ok(self.call("GET", f"{P}/walk")).json["steps"])
        self.ok(self.call("PUT", f"{P}/free", walk()), 201)
        self.assertEqual([True, None], [self.ok(self.call("GET", f"{P}/{name}")).json.get("check_indices") for name in ("walk", "free")])
        self.ok(self.call("POST", f"{P}/free/run", {"inputs": {"x": [5, 6, 7]}, "steps": 5}))
        self.assertEqual([5, 6, 7, 0, 0, 0, 0, 0], self.ok(self.call("GET", f"{P}/free/state")).json["state"]["w"]["data"])

    def test_a_job(self):
        self.ok(self.call("PUT", f"{P}/worked", walk(check_indices=True)), 201)
        job = self.ok(self.call("POST", J, {"program": "worked", "inputs": {"x": [5, 6, 7]}, "steps": 100, "collect": {"every": 1, "outputs": ["t"]}}), 202).json["job"]
        done = wait(self.server, job)
        self.assertEqual(("failed", 3), (done["state"], done["step"]))
        self.assertIn("take: index 3 at [0] is out of range: axis 0 of x has size 3; it must be from -3 to 2", json.dumps(done))
        history = self.ok(self.call("GET", f"{J}/{job}/history")).json
        self.assertEqual([[1, 5], [2, 6], [3, 7]], [[row[0], row[2]] for row in history["rows"]])
        self.assertEqual([3], self.ok(self.call("GET", f"{P}/worked/state")).json["state"]["n"]["data"])

    def test_each_client_reads_its_own_names(self):
        body = {"inputs": ["h", "i", "x"], "nodes": [node("t", "take", "x", "i")], "outputs": ["t", "t"]}
        for name in ("theirs", "mine"):
            self.out_of_range(self.call("POST", "/api/v1/run", run([node(name, "take", "x", "i")], {"x": [1], "i": ints(1)}, [name], check_indices=True)),
                              "take: index 1 at [0] is out of range: axis 0 of x has size 1; it must be from -1 to 0", name)
            text = json.dumps([{"id": ["h", "ys"], "op": "scan", "in": ["z", "i", "x"], "attrs": {"carries": 1, "sequences": 1, "body": body}}]).replace('"t"', f'"{name}"')
            inputs = {"x": [1], "i": ints(1), "z": {"dtype": "float32", "shape": [], "data": 0}}
            self.out_of_range(self.call("POST", "/api/v1/run", run(json.loads(text), inputs, ["h"], check_indices=True)),
                              "take: index 1 in step 0 of the scan is out of range: axis 0 of x has size 1; it must be from -1 to 0", name)

    def test_nothing_is_kept(self):
        document = run([node("y", "take", "x", "i"), node("z", "mul", "x", 2)], {"x": [1, 2], "i": ints(2)}, (), keep={"kept": "z"}, check_indices=True)
        self.refused(422, self.call("POST", "/api/v1/run", document))
        self.assertEqual(404, self.call("GET", "/api/v1/tensors/kept").status)

    def test_nothing_changes_without_it(self):
        """A graph without indices has the same kernels with and without checks."""
        inputs, nodes = {"x": ROWS, "i": ints(0, 1)}, [node("a", "take", "x", "i"), node("y", "softmax", "a")]
        before = self.ok(self.call("POST", "/api/v1/run", run(nodes, inputs, debug=4))).json["stats"]
        after = self.ok(self.call("POST", "/api/v1/run", run(nodes, inputs, debug=4, check_indices=False))).json["stats"]
        self.assertEqual("cached", after["plan"])
        plain, checked = (self.ok(self.call("POST", "/api/v1/run", run([node("y", "softmax", "x")], {"x": ROWS}, debug=4, check_indices=on))).json["stats"] for on in (False, True))
        lines = [[line for line in stats["debug"].splitlines() if " ms" not in line and " us" not in line] for stats in (plain, checked)]
        self.assertEqual(*lines)
        self.assertEqual(before["kernels"], after["kernels"])

    def test_bad_members(self):
        self.refused(400, self.call("POST", "/api/v1/run", run([node("y", "neg", "x")], {"x": [1]}, check_indices=1)))
        self.refused(400, self.call("PUT", f"{P}/bad", walk(check_indices="yes")))
        self.ok(self.call("PUT", f"{P}/good", walk()), 201)
        self.refused(400, self.call("POST", f"{P}/good/run", {"inputs": {"x": [5, 6, 7]}, "check_indices": True}))


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class ChecksOnVulkan(Checks):
    ARGS = ("--backends", "vulkan", "--log-level", "error")


class Durable(unittest.TestCase):
    def test_the_program_comes_back_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            for first in (True, False):
                server = Server("--backends", "interp", "--state", folder)
                self.addCleanup(server.stop)
                if first:
                    self.assertEqual(201, server.call("PUT", f"{P}/walk?durable=true", walk(check_indices=True)).status)
                answer = server.call("POST", f"{P}/walk/run", {"inputs": {"x": [5, 6, 7]}, "steps": 4})
                self.assertEqual((422, KIND, 3 if first else 0), (answer.status, answer.json["type"], answer.json["step"]))
                self.assertEqual(0, server.stop())


if __name__ == "__main__":
    unittest.main()
