# SPDX-License-Identifier: MIT
"""Every example of the op table through the JavaScript client's methods: the same documents as the Python client, results and
plans."""
import base64
import json
import math
import sys
import unittest

import beamline
from beamline.values import as_array
from node import NodeCase
from served import ROOT

sys.path.append(str(ROOT / "tests" / "page"))
from browser import BrowserCase  # noqa: E402

TABLE = (ROOT / "proto" / "ops.json").read_text()
OPS = {op["name"]: op for op in json.loads(TABLE)["ops"]}


def by_name(op, operands):
    """Returns the values of an op's inputs by name; a variadic input takes the values that the later inputs leave."""
    rest, values = list(operands), {}
    for place, param in enumerate(op["inputs"]):
        if param.get("many"):
            taken = len(rest) - (len(op["inputs"]) - 1 - place)
            values[param["name"]], rest = rest[:taken], rest[taken:]
        elif rest:
            values[param["name"]] = rest.pop(0)
    return values


def build(graph, node, nodes):
    """Makes a node by the graph's method of its op."""
    values = [nodes[operand] if isinstance(operand, str) else operand for operand in node.get("in", [])]
    attrs = node.get("attrs", {})
    if node["op"] == "grad":
        *xs, last = values[1:]
        return graph.grad(values[0], xs, last) if attrs.get("cotangent") else graph.grad(values[0], values[1:])
    if node["op"] == "scan":
        return build_scan(graph, values, **attrs)
    if node["op"] == "cond":
        return graph.cond(values[0], replay(attrs["then"]), replay(attrs["otherwise"]), values[1:])
    if node["op"] in ("split", "chunk"):
        attrs = {**attrs, "results": node["results"]}
    return getattr(graph, node["op"])(**by_name(OPS[node["op"]], values), **attrs)


def build_scan(graph, values, body, carries=1, sequences=0, length=None, reverse=False):
    def step(*params):
        results = replay(body)(*params)
        return results[:carries], results[carries:]
    carried, outputs = graph.scan(step, values[:carries], values[carries:carries + sequences], values[carries + sequences:], length, reverse)
    return carried + outputs


def listed(made):
    return made if isinstance(made, list) else [made]


def replay(body):
    """Returns a function that makes the nodes of a body's document from its arguments."""
    def make(*params):
        nodes = dict(zip(body["inputs"], params))
        for node in body["nodes"]:
            ids = node["id"] if isinstance(node["id"], list) else [node["id"]]
            nodes.update(zip(ids, listed(build(params[0].graph, node, nodes))))
        return [nodes[output] for output in body["outputs"]]
    return make


def build_example(example):
    graph = beamline.Graph()
    nodes = {name: graph.input(name) for name in example["inputs"]}
    return graph.output(*listed(build(graph, example, nodes)))


def examples():
    """Returns {op, in, attrs, inputs, number of results} of each example, and its expected results."""
    made = []
    for op in OPS.values():
        for example in op.get("examples", []):
            wanted = example["results"].split("; ")
            made.append(({**example["node"], "inputs": example["inputs"], "results": len(wanted)}, wanted))
    return made


def canonical(value):
    """Returns a document as canonical text: members sorted by name, and integers in one form."""
    def plain(value):
        if isinstance(value, dict):
            return {name: plain(member) for name, member in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


def is_told(array, text):
    """Whether the numbers match a text such as "float32[2] 4 3", within the digits of the dtype."""
    head, _, numbers = text.partition("]")
    if f"{array.dtype}{list(array.shape)}" != head + "]":
        return False
    wanted = [float({"true": 1, "false": 0}.get(number, number)) for number in numbers.split()]
    near = 2 ** -10 if array.dtype in ("float16", "bfloat16") else 2e-6
    return len(wanted) == len(array.flat()) and all(
        math.isclose(float(a), b, rel_tol=near, abs_tol=1e-7) or (math.isnan(a) and math.isnan(b)) for a, b in zip(array.flat(), wanted))


class Examples:
    """The examples; the Python client runs them first."""

    def __init__(self, client):
        self.every = examples()
        self.graphs = [build_example(example) for example, _ in self.every]
        self.results = [self.run(client, example, graph) for (example, _), graph in zip(self.every, self.graphs)]
        self.text = json.dumps([example for example, _ in self.every])

    @staticmethod
    def run(client, example, graph):
        """Returns the outputs in order.  An op with state runs as a program, here and in the other clients."""
        try:
            result = client.run(graph, example["inputs"])
        except beamline.InvalidGraph as error:
            if "keeps state; only a program has state" not in error.detail:
                raise
            example["remembers"] = True
            result = client.put_program("example", {**graph.document(), "state": example["inputs"]}).run()
        return [as_array(result[output.id]) for output in graph.outputs]

    def check(self, case, answers):
        """Checks that another client sent the same documents and got the same results, that they match the table, and that
        their plans were cached."""
        case.assertGreater(len(self.every), 300)
        case.assertEqual(len(self.every), len(answers))
        for (example, wanted), graph, mine, theirs in zip(self.every, self.graphs, self.results, answers):
            with case.subTest(json.dumps(example)):
                case.assertEqual(canonical({**graph.document(), "inputs": example["inputs"]}), canonical(json.loads(theirs["document"])))
                case.assertNotIn("error", theirs)
                arrays = [beamline.Array(each["dtype"], each["shape"], base64.b64decode(each["base64"])) for each in theirs["results"]]
                case.assertEqual([(each.dtype, each.shape, bytes(each.data)) for each in mine], [(each.dtype, each.shape, each.data) for each in arrays])
                for array, text in zip(arrays, wanted):
                    case.assertTrue(is_told(array, text), f"{array.dtype}{list(array.shape)} {array.flat()} is not {text}")
                case.assertEqual("cached", theirs["plan"])


class NodeTest(NodeCase):
    def test_examples(self):
        every = Examples(self.client)
        every.check(self, json.loads(self.run_script("conformance.mjs", text=every.text)))


class BrowserTest(BrowserCase):
    """The same in a browser, on a page of the server's origin that the test adds."""

    def test_examples(self):
        server = self.serve("--log-level", "error")
        with beamline.Client(server.url) as client:
            every = Examples(client)
        context = self.browser.new_context()
        self.addCleanup(context.close)
        page = context.new_page()
        page.route("**/*.html", lambda route: route.fulfill(body="<!doctype html><title>examples</title>", content_type="text/html"))
        page.route("**/*js", lambda route: route.fulfill(body=(ROOT / route.request.url.removeprefix(server.url + "/")).read_text(), content_type="text/javascript"))
        page.goto(server.url + "/examples.html")
        answers = page.evaluate("""async ([table, examples]) => {
            const {answerAll} = await import("/tests/js/examples.mjs");
            return answerAll(table, examples);
        }""", [TABLE, every.text])
        every.check(self, answers)


if __name__ == "__main__":
    unittest.main()
