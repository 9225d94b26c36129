# SPDX-License-Identifier: MIT
"""Common mistakes and their error messages: the place, the value and the rule; a refused request changes nothing."""

import base64
import json
import struct
import unittest

from fixture import JSON, OCTETS, SAFETENSORS, ServerTest

RUN, TENSOR, JOBS = "/api/v1/run", "/api/v1/tensors/t", "/api/v1/jobs"
PROGRAM = "/api/v1/programs/line"
X = [1, 2, 3, 4]
LINE = {"inputs": {"x": {"dtype": "float32", "shape": [4]}}, "state": {"w": [0]}, "updates": {"w": "w1"}, "outputs": ["loss"],
        "nodes": [{"id": "p", "op": "mul", "in": ["x", "w"]}, {"id": "loss", "op": "mean", "in": ["p"]},
                  {"id": ["w1"], "op": "sgd", "in": ["loss", "w"], "attrs": {"lr": 0.1}}]}


def node(op, *operands, **attrs):
    return {"id": "y", "op": op, "in": list(operands), **({"attrs": attrs} if attrs else {})}


def graph(*nodes, x=((1, 2, 3), (4, 5, 6)), **members):
    return {"inputs": {"x": x}, "nodes": list(nodes), "outputs": ["y"], **members}


def of(value):
    """Returns a graph with an input written as given."""
    return graph(node("neg", "x"), x=value)


def file(head, data=b""):
    """Returns a safetensors file with the header as given."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(code="F32", shape=(1,), offsets=(0, 4), request=None):
    meta = {"__metadata__": {"request": json.dumps(request or {"nodes": [node("neg", "x")], "outputs": ["y"]})}}
    return {**meta, "x": {"dtype": code, "shape": shape, "data_offsets": offsets}}


# body of /run, status, node, part of the answer
GRAPHS = [
    (graph(node("matmull", "x", "x")), 422, "y", 'there is no op "matmull"; did you mean "matmul"?'),
    (graph({"id": "y", "in": ["x"]}), 400, "y", 'nodes[0]: the member "op" is missing'),
    (graph({"op": "neg", "in": ["x"]}), 400, None, 'nodes[0]: the member "id" is missing'),
    (graph({"id": "y", "op": "neg", "in": ["z"]}, {"id": "z", "op": "neg", "in": ["y"]}), 422, "y", "the graph has a cycle"),
    (graph(node("neg", "zz")), 422, "y", 'nodes[0].in[0]: nothing is named "zz"'),
    (graph(node("neg", "x"), outputs=["q"]), 422, None, 'outputs[0]: nothing is named "q"'),
    (graph(node("neg", "x"), outputs=[]), 422, None, "the graph asks for nothing: no outputs"),
    (graph(node("neg", "x"), outputs=["y", "y"]), 422, None, 'outputs: "y" is given twice'),
    (graph(node("neg", "x"), node("abs", "x")), 422, "y", 'the name "y" is used twice, by a node and by another one'),
    (graph({"id": "x", "op": "neg", "in": ["x"]}, outputs=["x"]), 422, "x", 'the name "x" is used twice, by an input and by a node'),
    (graph(node("add", "x")), 422, "y", "add: takes 2 inputs, got 1"),
    (graph(node("matmul", "x", "x")), 422, "y", "matmul: inner dimensions differ: [2, 3] @ [2, 3]"),
    (graph(node("sum", "x", axis=5)), 422, "y", "sum: axis 5 is out of range for a tensor of 2 dimensions"),
    (graph(node("sum", "x", axis=1.5)), 422, "y", 'sum: attribute "axis" must be a whole number of 64 bits, not 1.5'),
    (graph(node("sum", "x", axes=1)), 422, "y", 'sum: unknown attribute "axes"; the op takes axis, keepdim, dtype; did you mean "axis"?'),
    (graph(node("neg", "x", axis=1)), 422, "y", 'neg: unknown attribute "axis"; the op takes none'),
    (graph(node("reshape", "x", shape=[4, 2])), 422, "y", "reshape: [2, 3] and [4, 2] have different numbers of elements"),
    (graph(node("cast", "x", dtype="float31")), 422, "y", 'cast: attribute "dtype": no dtype is named "float31"; did you mean "float32"?'),
    (graph(node("gelu", "x", approximate="fast")), 422, "y", 'must be one of none|tanh, not "fast"'),
    (graph(node("take", "x", "x")), 422, "y", "take: index must be integers, not float32"),
    (graph({"id": ["y"], "op": "grad", "in": ["x", "x"]}), 422, "y", "must have one element, not shape [2, 3]"),
    (graph(node("zeros", shape=[-2])), 422, "y", "a size may not be negative: [-2]"),
    (graph(node("neg", "x"), nodez=1), 400, None, 'unknown member "nodez"; did you mean "nodes"?'),
    (graph(node("neg", "x"), seed="1"), 400, None, "seed: expected an integer, got a string"),
    (graph(node("neg", "x"), timeout_ms=0), 422, None, "timeout_ms: 0 is not between 1 and"),
    (graph(node("neg", "x"), priority=1000), 422, None, "priority: 1000 is not between -100 and 100"),
    (graph(node("neg", "x"), device="cuda:0"), 422, None, 'there is no device "cuda:0"; GET /api/v1/devices lists them'),
    (graph(node("neg", "x"), keep={"h": "nope"}), 422, None, 'keep.h: nothing is named "nope"'),
    (graph(node("neg", "x"), shapes={"x": ["n", 3]}, dims={"n": [5, 9]}), 422, None, 'inputs.x: the dimension "n" is 2, outside its range 5 to 9'),
    (of([[1, 2], [3]]), 422, None, "inputs.x: the list is ragged: at line 1, column"),
    (of([1, "two"]), 400, None, 'inputs.x[1]: expected a number, true, false, "NaN", "Infinity" or "-Infinity", got "two"'),
    (of([[1, 2], [3, None]]), 400, None, 'inputs.x[1][1]: expected a number, got null; write "NaN"'),
    (of([{"a": 1}]), 400, None, "inputs.x[0]: expected a number, got an object"),
    (of([1, True]), 422, None, 'inputs.x: the list mixes booleans and numbers; add its "dtype"'),
    (of({"dtype": "f32", "data": [1]}), 422, None, 'inputs.x.dtype: no dtype is named "f32"'),
    (of({"dtype": "int32", "shape": [2, 2], "data": [1, 2, 3]}), 422, None, "inputs.x.data: 3 elements, but the shape has 4"),
    (of({"dtype": "int8", "data": [1, 200]}), 422, None, "inputs.x: element 1, 200, does not fit: the dtype is int8"),
    (of({"dtype": "int32", "data": [1.5]}), 422, None, "inputs.x: element 0, 1.5, has a fraction: the dtype is int32"),
    (of({"dtype": "int32", "data": ["NaN"]}), 422, None, 'inputs.x: element 0, "NaN", is not finite: the dtype is int32'),
    (of({"dtype": "float16", "data": [70000]}), 422, None, "inputs.x: element 0, 70000, does not fit: the dtype is float16"),
    (of({"dtype": "int32", "shape": [1], "base64": "AAAA"}), 422, None, "inputs.x.base64: 3 bytes, but shape and dtype take 4"),
    (of({"tensor": "nope"}), 404, None, 'there is no tensor "nope"'),
    (of({"dtype": "int32", "dat": [1]}), 400, None, 'inputs.x: unknown member "dat"; did you mean "data"?'),
]
# texts that are no JSON documents
TEXTS = [
    ("", "JSON, line 1, column 1 (byte 0): the document ends where a value is expected"),
    ('{"nodes":[],}', "expected the name of a member, in quotes"),
    ('{"inputs":{"x":[1,NaN]}}', '(byte 18): JSON has no such number; write "NaN", "Infinity" or "-Infinity" in quotes'),
    ('{"inputs":{"x":-Infinity}}', '(byte 15): JSON has no such number'),
    ('{"inputs":{"x":[1],"x":[2]},"nodes":[],"outputs":["x"]}', 'inputs: the member "x" is given twice'),
    ("[1]", "expected an object, got an array"),
    (b'{"nodes":[{"id":"\xff","op":"neg"}]}', "is not valid UTF-8"),
    ("[" * 3000, "nested deeper than 64"),
]
# safetensors files
FILES = [
    (b"abc", 400, "the file has 3 bytes, the length of its header takes 8"),
    (struct.pack("<Q", 1 << 60) + b"{}", 400, "the header has 1152921504606846976 bytes"),
    (file({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)), 400, '__metadata__ must have the JSON document as "request"'),
    (file(tensor("F33"), bytes(4)), 422, 'x.dtype: unknown dtype "F33"'),
    (file(tensor(shape=(2,)), bytes(4)), 400, "x.data_offsets: the range has 4 bytes, but shape and dtype take 8"),
    (file(tensor(shape=(2,), offsets=(0, 8)), bytes(4)), 400, "the range 0 to 8 is not within the 4 bytes of data"),
    (file(tensor(request=of([1])), bytes(4)), 422, 'inputs: "x" is given twice, in the document and beside it'),
]
# method, path, body, headers, status, part of the answer
OTHERS = [
    ("POST", RUN, "{}", {"content-type": "text/plain"}, 415, 'the content type must be application/json or application/x-safetensors, not "text/plain"'),
    ("POST", RUN, "x", {**JSON, "content-encoding": "br"}, 415, 'content-encoding must be gzip or deflate, not "br"'),
    ("POST", RUN, "x", {**JSON, "content-encoding": "gzip"}, 400, "the compressed body is incomplete"),
    ("POST", RUN + "?x=1", "{}", JSON, 400, 'unknown query parameter "x"'),
    ("GET", RUN, None, {}, 405, "this address allows only POST"),
    ("GET", "/run", None, {}, 404, 'there is nothing at "/run"; GET /openapi.json lists the addresses'),
    ("GET", "/api/v1/devices/?x=1", None, {}, 404, 'there is nothing at "/api/v1/devices/"'),
    ("GET", "/" + "a/" * 20, None, {}, 404, 'there is nothing at "/a/a/'),
    ("GET", "/api/v1/devices", None, {"host": "evil.example"}, 421, 'the Host "evil.example" is not a name of this server'),
    ("POST", RUN, "{}", {**JSON, "origin": "http://evil.example"}, 403, 'pages of another origin, "http://evil.example", may not'),
    ("PUT", TENSOR, bytes(4), OCTETS, 400, "raw bytes need dtype and shape in the address"),
    ("PUT", TENSOR + "?dtype=float32&shape=2", bytes(4), OCTETS, 400, "the shape needs 8 bytes, the body has 4"),
    ("PUT", TENSOR + "?dtype=float32&shape=x", bytes(4), OCTETS, 400, 'shape: expected whole numbers with commas between, got "x"'),
    ("PUT", TENSOR + "?durable=yes", "[1]", JSON, 400, 'durable must be true or false, not "yes"'),
    ("PUT", "/api/v1/tensors/1t", "[1]", JSON, 400, '"1t" is not a valid name'),
    ("GET", TENSOR, None, {}, 404, 'there is no tensor "t"'),
    ("PUT", "/api/v1/blobs/sha256:" + "0" * 64, b"abc", OCTETS, 422, "nothing was stored"),
    ("PUT", "/api/v1/blobs/sha256:" + "0" * 64, b"abc", {}, 415, "the content type must be application/octet-stream, but the request has none"),
    ("PUT", "/api/v1/blobs/md5:12", b"abc", OCTETS, 400, 'not "md5:12"'),
]


def program(**members):
    return {name: value for name, value in {**LINE, **members}.items() if value is not None}


# method, path, document, status, part of the answer; the program "line" exists
PROGRAMS = [
    ("PUT", PROGRAM, program(updates={"q": "w1"}), 422, 'updates: no state is named "q"'),
    ("PUT", PROGRAM, program(updates={"w": "x"}), 422, 'update of "w": the state is float32[1], its new value float32[4]'),
    ("PUT", PROGRAM, program(state={"w": {"op": "nope"}}), 422, 'there is no op "nope" (node "w")'),
    ("PUT", PROGRAM, program(state={"x": [0]}), 422, 'the name "x" is used twice, by an input and by a state'),
    ("PUT", PROGRAM, program(inputs={"x": {"dtype": "float32", "shape": ["n"]}}), 422, 'the dimension "n" has no range: add "dims": {"n": [1, LARGEST]}'),
    ("PUT", PROGRAM, program(entries={"a": {"nodes": []}}), 400, '"inputs" is given beside "entries"; move it into an entry'),
    ("POST", PROGRAM + "/run", {}, 422, 'inputs: "x" is missing'),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X, "z": 1}}, 422, 'inputs: the entry has nothing named "z"'),
    ("POST", PROGRAM + "/run", {"inputs": {"x": [1, 2]}}, 422, "inputs.x: declared float32[4], got float32[2]"),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "entry": "train"}, 422, 'the program has no entry "train"; its entries are: main'),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "steps": 1.5}, 400, "steps: expected an integer, got 1.5"),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "steps": 10**12}, 422, "steps is 1000000000000; the limit is 1000000000"),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "seq": 5}, 409, "seq is 5; it must be 1, as the program has no numbered run yet"),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "device": "interp:7"}, 422, 'device: the program is on interp:0, not on "interp:7"'),
    ("POST", PROGRAM + "/run", {"inputs": {"x": X}, "collect": {"every": 1, "outputs": ["q"]}}, 422, 'collect.outputs[0]: the entry has no output "q"'),
    ("PUT", PROGRAM + "/state", {"state": {}}, 422, 'state: "w" is missing'),
    ("PUT", PROGRAM + "/state", {"state": {"w": [0, 1]}}, 422, "state.w: declared float32[1], got float32[2]"),
    ("POST", PROGRAM + "/promote", {"model": "a b", "version": 1}, 422, '"a b" is not a valid name of a model'),
    ("POST", PROGRAM + "/promote", {"model": "m", "version": 0}, 422, "version: 0 is not between 1 and"),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}}, 400, 'the member "steps" is missing'),
    ("POST", JOBS, {"program": "q", "steps": 1}, 404, 'there is no program "q"'),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 10**12}, 422, "steps is 1000000000000; the limit is 1000000000"),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 5, "epochs": 3}, 400, 'unknown member "epochs"'),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 5, "compute": "int8"}, 422, 'compute: must be "float16", "bfloat16" or "float32", not "int8"'),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 5, "early_stop": {"metric": "q", "patience": 2}}, 422, 'early_stop.metric: "q" is not reported'),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 5, "evaluate": {"every": 1, "outputs": ["loss"]}}, 422, 'evaluate: inputs: "x" is missing'),
    ("POST", JOBS, {"program": "line", "inputs": {"x": X}, "steps": 5, "checkpoint": {"keep": 0}}, 422, "checkpoint.keep: 0 is not between 1 and 1000"),
    ("POST", "/api/v1/shares", {"tensor": "t", "job": "j", "to": "b"}, 422, "a share must name one item, a tensor or a job, not both"),
]


class MessagesTest(ServerTest):
    ARGS = ("--backends", "interp")

    def everything(self):
        """Returns everything that an invalid request could have changed."""
        lists = [self.ok(self.call("GET", "/api/v1/" + path)).json for path in ("tensors", "programs", "jobs", "blobs", "programs/line", "programs/line/state")]
        return [*lists, self.ok(self.call("POST", "/v2/repository/index", {})).json]

    def told(self, status, says, answer, node=None):
        problem = self.refused(status, answer)
        self.assertIn(says, problem["detail"])
        self.assertEqual(node, problem.get("node"))

    def test_every_one(self):
        self.ok(self.call("PUT", PROGRAM, LINE), 201)
        before = self.everything()
        for body, status, blamed, says in GRAPHS:
            with self.subTest(body=body):
                self.told(status, says, self.call("POST", RUN, body), blamed)
        for text, says in TEXTS:
            with self.subTest(text=text[:60]):
                self.told(400, says, self.call("POST", RUN, text, JSON))
        for data, status, says in FILES:
            with self.subTest(file=data[:80]):
                self.told(status, says, self.call("POST", RUN, data, {"content-type": SAFETENSORS}))
        for method, path, body, headers, status, says in OTHERS:
            with self.subTest(path=path, headers=headers):
                self.told(status, says, self.call(method, path, body, headers))
        for method, path, body, status, says in PROGRAMS:
            with self.subTest(path=path, body=body):
                blamed = "w" if '(node "w")' in says else None
                self.told(status, says, self.call(method, path, body), blamed)
        self.assertEqual(before, self.everything())

    def test_what_is_repeated_is_text(self):
        """Bytes of a head that are not UTF-8 are valid UTF-8 in the answer."""
        for headers in ({"host": b"\xff\xfe"}, {"content-type": b"a\xff"}, {**JSON, "origin": b"http://\xff"}, {**JSON, "content-encoding": b"\xff\"}"}):
            with self.subTest(headers=headers):
                self.refused((403, 415, 421), self.call("POST", RUN, "{}", headers))
        self.assertIn("%ff%22", self.refused(404, self.call("GET", "/%ff%22/x"))["detail"])

    def test_a_node_of_a_hosted_model(self):
        """/v2 has a single error text, which includes the node."""
        document = base64.b64encode(json.dumps({**program(updates=None, state={"w": [1]}), "nodes": [{"id": "loss", "op": "mull", "in": ["x", "w"]}]}).encode()).decode()
        answer = self.call("POST", "/v2/repository/models/m/load", {"parameters": {"config": "{}", "file:1/model.json": document}})
        self.assertEqual((400, 'version 1: there is no op "mull"; did you mean "mul"? (node "loss")'), (answer.status, answer.json["error"]))


if __name__ == "__main__":
    unittest.main()
