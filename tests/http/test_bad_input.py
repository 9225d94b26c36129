# SPDX-License-Identifier: MIT
"""Invalid requests: each gets a problem document with the reason, and the server survives."""

import http.client
import json
import pathlib
import re
import tempfile
import time
import unittest

from fixture import JSON, OCTETS, SAFETENSORS, SLOW_STEPS, ServerTest, counter, graph
from test_keys import SCOPES, Keys, routes

RUN = "/api/v1/run"


def nodes(*rows):
    """Converts (id, op, in, attrs) rows to nodes."""
    return [{"id": r[0], "op": r[1], "in": r[2], **({"attrs": r[3]} if len(r) > 3 else {})} for r in rows]


class BadInput(ServerTest):
    def bad(self, body, status=(400, 422), **expect):
        answer = self.call("POST", RUN, body if isinstance(body, (dict, list)) else body, None if isinstance(body, dict) else JSON)
        problem = self.refused(status, answer)
        for member, value in expect.items():
            self.assertEqual(value, problem.get(member), problem)
        return problem

    def test_t2_declared_shapes(self):
        for shape in ([16, 2**60 + 2], [2**63], [-5], [1.5], [1] * 17, ["n"]):
            entry = {"inputs": {"x": {"dtype": "float32", "shape": shape}}, "nodes": [], "outputs": ["x"]}
            self.refused((400, 422), self.call("PUT", "/api/v1/programs/p", entry))
        for shape in ([2**40, 2**40], [2**31, 2**31, 4], [1] * 40, [-1, -1]):
            self.bad(graph(nodes=nodes(("y", "zeros", [], {"shape": shape}))))
            self.bad(graph(nodes=nodes(("y", "reshape", ["x"], {"shape": shape}))))

    def test_t2_broadcasts_do_not_explode(self):
        big = nodes(("a", "expand", ["x"], {"shape": [2**20, 2**20, 2]}), ("b", "mul", ["a", 2]))
        self.bad(graph(nodes=big, outputs=["b"]), 422)

    def test_t3_depth_in_every_endpoint(self):
        for depth in (65, 250000):
            for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
                for verb, path in (("POST", RUN), ("POST", "/api/v1/leases"), ("POST", "/api/v1/tensors/delete"),
                                   ("PUT", "/api/v1/tensors/x"), ("PUT", "/api/v1/programs/x")):
                    self.refused((400, 422), self.call(verb, path, deep, JSON))
                inside = json.dumps(graph()).replace("[1, 2]", deep)
                self.bad(inside)
                self.bad(json.dumps(graph(nodes=nodes(("y", "sum", ["x"], {"axis": 7})))).replace("7", deep))
        for n in (20000,):
            self.bad('{"nodes":' + "[" * n, 400)

    def test_t4_lengths_of_another_protocol_change_nothing(self):
        for value in ("99999999999", "-1", "x", "0"):
            answer = self.call("POST", RUN, json.dumps(graph()), {**JSON, "Inference-Header-Content-Length": value})
            self.assertEqual([2, 4], self.ok(answer).json["outputs"]["y"]["data"])

    def test_t8_counts_and_names(self):
        self.bad(graph(outputs=["y"] * 100000), 422)
        self.bad(graph(outputs=["y", "y"]), 422)
        self.bad(graph(outputs=[""]))
        self.bad(graph(outputs=["none"]), 422)
        self.bad(graph(outputs="y"), 400)
        self.bad(graph(nodes=nodes(("x", "neg", ["x"]))), 422)
        self.bad(graph(nodes=nodes(("y", "neg", ["x"]), ("y", "neg", ["x"]))), 422)
        self.bad(graph(nodes=nodes(("a b", "neg", ["x"]))))
        self.bad(graph(nodes=nodes(("", "neg", ["x"]))))
        self.bad(graph(timeout_ms=-1))
        self.bad(graph(debug=8))
        self.bad(graph(debug="1"))
        self.bad(graph(seed=-1))
        self.bad(graph(float32_matmul_precision="medium"), 400)
        self.bad(graph(float32_matmul_precision=1), 400)
        self.bad(graph(device="cuda:0"), 422)
        self.bad(graph(nonsense=1), 400)
        for body in ("null", "[]", "1", '"x"', "true"):
            self.bad(body, 400)

    def test_t8_counts_that_multiply(self):
        """Every field with a count, with huge and with negative numbers."""
        self.ok(self.call("PUT", "/api/v1/programs/counted", counter()), 201)
        for many in (10**15 + 1, 2**63, 2**64, -1, 1e30, 1.5):
            run = {"steps": 2, "collect": {"every": 1, "outputs": ["m"]}}
            for body in ({**run, "steps": many, "timeout_ms": 50}, {**run, "collect": {"every": many, "outputs": ["m"]}}, {**run, "seq": many}, {**run, "timeout_ms": many}):
                with self.subTest(body=body):
                    answer = self.call("POST", "/api/v1/programs/counted/run", body)
                    self.assertIn(answer.status, (200, 400, 409, 422, 504), answer.body[:300])
                    self.assertTrue(answer.status != 200 or many > 0, answer.body[:300])
            for body in (graph(beam=many), graph(debug=many), graph(priority=many), graph(nodes=nodes(("y", "full", [], {"shape": [many], "value": 1}))),
                         graph(nodes=nodes(("y", "topk", ["x"], {"k": many}))), graph(nodes=nodes(("y", "repeat", ["x"], {"repeats": [many]}))),
                         graph(nodes=nodes(("y", "arange", [], {"stop": many}))), graph(nodes=nodes(("y", "pad", ["x"], {"padding": [[many, many]]})))):
                with self.subTest(body=body):
                    answer = self.call("POST", "/api/v1/run", body)
                    self.assertTrue(answer.status in (400, 422, 507) or (answer.status == 200 and many in (-1, 1.5)), answer.body[:300])
        self.ok(self.call("DELETE", "/api/v1/programs/counted"), 204)

    def test_t8_many_nodes(self):
        rows = nodes(*[(f"n{i}", "neg", ["x"]) for i in range(10001)])
        self.bad(graph(nodes=rows, outputs=["n0"]), 422)
        body = '{"inputs":{"x":[1]},"nodes":[' + ",".join(['{"id":"a","op":"neg","in":["x"]}'] * 1000000) + '],"outputs":["a"]}'
        self.bad(body)

    def test_t10_graphs_that_cannot_be(self):
        self.bad(graph(nodes=nodes(("y", "add", ["x", "z"]), ("z", "neg", ["y"]))), 422)
        self.bad(graph(nodes=nodes(("y", "neg", ["y"]))), 422)
        self.bad(graph(nodes=nodes(("y", "neg", ["none"]))), 422)
        self.bad(graph(nodes=nodes(("y", "neg", []))), 422, node="y")
        self.bad(graph(nodes=nodes(("y", "neg", ["x", "x"]))), 422, node="y")
        self.bad(graph(nodes=nodes(("y", "no_such_op", ["x"]))), (400, 422))
        self.bad(graph(nodes=nodes(("y", "neg", ["x"], {"nonsense": 1}))), (400, 422))
        self.bad(graph(nodes=nodes(("y", "stack", ["x"] * 1000000)), outputs=["y"]), 422)
        forward = nodes(("y", "neg", ["z"]), ("z", "neg", ["x"]))
        self.assertEqual([1, 2], self.ok(self.call("POST", RUN, graph(nodes=forward))).json["outputs"]["y"]["data"])

    def test_t10_shapes_and_axes(self):
        inputs = {"a": [[1, 2, 3], [4, 5, 6]], "b": [[1, 2, 3, 4, 5]] * 4, "i": {"dtype": "int64", "shape": [2], "data": [0, 9]}}
        rows = [("matmul", ["a", "b"], {}), ("add", ["a", "b"], {}), ("sum", ["a"], {"axis": 2}), ("sum", ["a"], {"axis": -3}),
                ("reshape", ["a"], {"shape": [4]}), ("reshape", ["a"], {"shape": [-1, -1]}), ("permute", ["a"], {"axes": [0, 0]}),
                ("permute", ["a"], {"axes": [0, 5]}), ("expand", ["a"], {"shape": [3, 3]}), ("flip", ["a"], {"axis": 9}),
                ("softmax", ["a"], {"axis": 2**62}), ("sum", ["a"], {"axis": [0, 0]}), ("cat", ["a", "b"], {"axis": 0}),
                ("gather", ["a", "a"], {"axis": 0}), ("bitcast", ["a"], {"dtype": "float64"}), ("shrink", ["a"], {"ranges": [[0, 9], [0, 1]]}),
                ("shrink", ["a"], {"ranges": [[2, 1], [0, 1]]}), ("pad", ["a"], {"padding": [[2**62, 2**62], [0, 0]]}), ("pad", ["a"], {"padding": [[-9, 0], [0, 0]]}),
                ("slice", ["a"], {"start": [0], "stop": [1], "step": [0]}), ("scatter", ["a", "a", "a"], {"axis": 0}), ("scatter", ["a", "i", "b"], {"axis": 0})]
        for op, ins, attrs in rows:
            with self.subTest(op=op, attrs=attrs):
                self.bad({"inputs": inputs, "nodes": nodes(("y", op, ins, attrs)), "outputs": ["y"]}, (400, 422))
        problem = self.bad({"inputs": inputs, "nodes": nodes(("y", "matmul", ["a", "b"])), "outputs": ["y"]}, 422, node="y")
        self.assertIn("[2, 3]", problem["detail"])
        self.assertIn("[4, 5]", problem["detail"])

    def test_t10_indices_out_of_range_read_no_memory(self):
        inputs = {"a": [1, 2, 3], "i": {"dtype": "int64", "shape": [5], "data": [0, -9, 3, 2**62, -(2**63)]}}
        answer = self.call("POST", RUN, {"inputs": inputs, "nodes": nodes(("y", "gather", ["a", "i"], {"axis": 0})), "outputs": ["y"]})
        if answer.status == 200:
            self.assertEqual([1, 0, 0, 0, 0], answer.json["outputs"]["y"]["data"])
        else:
            self.refused(422, answer)

    def test_t11_dtypes_and_division(self):
        for dtype in ("float33", "", "int64 ", "index", 7, None, "complex64"):
            self.bad(graph(inputs={"x": {"dtype": dtype, "shape": [1], "data": [1]}}))
            self.bad(graph(nodes=nodes(("y", "cast", ["x"], {"dtype": dtype}))))
        whole = {"x": {"dtype": "int32", "shape": [2], "data": [7, -7]}, "z": {"dtype": "int32", "shape": [2], "data": [0, 0]}}
        for op in ("floor_div", "mod", "div"):
            answer = self.call("POST", RUN, {"inputs": whole, "nodes": nodes(("y", op, ["x", "z"])), "outputs": ["y"]})
            self.assertIn(answer.status, (200, 400, 422), op)
        empty = {"x": {"dtype": "float32", "shape": [0, 3], "data": []}}
        for op in ("max", "argmax", "sum", "mean"):
            answer = self.call("POST", RUN, {"inputs": empty, "nodes": nodes(("y", op, ["x"], {"axis": 0})), "outputs": ["y"]})
            self.assertIn(answer.status, (200, 422), op)

    def test_t11_named_dimensions(self):
        entry = {"inputs": {"x": {"dtype": "float32", "shape": ["n"]}}, "nodes": nodes(("y", "sum", ["x"])), "outputs": ["y"]}
        for dims in ({}, {"n": [1, 2**62]}, {"n": [0, -1]}, {"n": [4, 1]}, {"n": [1]}, {"n": "5"}, {"n": -5}, {"n": [1, 8, 0]}, {"n": [9, 15, 8]}, {"n": [1, 8, 2, 2]}, {"m": [1, 2]}, {"n": [1, 2], "m": [1, 2]}):
            self.refused((400, 422), self.call("PUT", "/api/v1/programs/d", {**entry, "dims": dims}))
        self.ok(self.call("PUT", "/api/v1/programs/d", {**entry, "dims": {"n": [2, 4]}}), 201)
        for size, status in ((1, 422), (2, 200), (3, 200), (4, 200), (5, 422)):
            answer = self.call("POST", "/api/v1/programs/d/run", {"inputs": {"x": [1] * size}})
            self.assertEqual(status, answer.status, answer.body)
            if status == 200:
                self.assertEqual([size], answer.json["outputs"]["y"]["data"])

    def test_t11_timeout_ends_a_long_run_and_the_next_is_fine(self):
        self.ok(self.call("PUT", "/api/v1/programs/long", counter()), 201)
        begin = time.monotonic()
        answer = self.call("POST", "/api/v1/programs/long/run", {"steps": SLOW_STEPS, "timeout_ms": 300})
        problem = self.refused(504, answer)
        self.assertLess(time.monotonic() - begin, 3)
        state = self.call("GET", "/api/v1/programs/long/state").json["state"]["n"]["data"]
        self.assertEqual([problem["step"]], state)  # exactly the number of reported steps
        self.assertEqual([problem["step"] + 1], self.ok(self.call("POST", "/api/v1/programs/long/run", {})).json["outputs"]["m"]["data"])
        self.ok(self.call("DELETE", "/api/v1/programs/long"), 204)

    def test_t12_other_names(self):
        for name in ("none", "%00", "a%2f..%2fb", str(2**64 - 1), "0x10"):
            self.refused((400, 404), self.call("GET", f"/api/v1/programs/{name}"))
            self.refused((400, 404), self.call("POST", f"/api/v1/programs/{name}/run", {}))
            self.refused((400, 404), self.call("GET", f"/api/v1/programs/{name}/state"))
            self.refused((400, 404), self.call("DELETE", f"/api/v1/programs/{name}"))

    def test_t15_names_never_reach_source(self):
        evil = "_x:y.z/w-" + "A" * 100
        answer = self.ok(self.call("POST", RUN, {"inputs": {evil: [1, 2]}, "nodes": nodes(("while", "neg", [evil]), ("kernel", "exp", ["while"])),
                                                 "outputs": ["kernel"], "debug": 4}))
        self.assertNotIn(evil, answer.json["stats"]["debug"])
        for name in ('a"b', "a b", "a;b", "a\nb", "a*/b", "é", "a" * 129):
            self.bad({"inputs": {name: [1]}, "nodes": [], "outputs": [name]})


class LittleTime(ServerTest):
    """A graph with a too long compilation is refused, and the next graph is compiled."""

    ARGS = ("--backends", "interp", "--max-compile-seconds", "0.001")

    def test_t11_a_compilation_has_an_end(self):
        rows = [("y0", "mul", ["x", 2])] + [(f"y{i}", "add", [f"y{i - 1}", i]) for i in range(1, 3000)]
        problem = self.refused(422, self.call("POST", RUN, graph(nodes=nodes(*rows), outputs=["y2999"])))
        self.assertIn("--max-compile-seconds", problem["detail"])
        self.ok(self.call("POST", RUN, graph()))


class Depth(unittest.TestCase):
    """T3 for all routes: everything that a route names exists, so that the refusal is about the body."""

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.root = {"x-api-key": self.keys.make("there", ",".join(SCOPES))}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        version = pathlib.Path(folder.name, "there", "1")
        version.mkdir(parents=True)
        (version / "model.json").write_text(json.dumps({"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}))
        self.server = self.keys.server("--backends", "interp", "--models", folder.name)
        self.addCleanup(self.server.stop)

    def call(self, method, path, body=None):
        return self.server.call(method, path, body, {**JSON, **self.root})

    def names(self):
        """Values for each {word} of a route; all of them exist."""
        end = time.monotonic() + 30
        while self.call("GET", "/v2/health/ready").status != 200 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(200, self.call("GET", "/v2/models/there/versions/1").status)
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/there", counter()).status)
        self.assertEqual(201, self.call("PUT", "/api/v1/tensors/there", [1, 2]).status)
        lease = self.call("POST", "/api/v1/leases", {"ttl": 3600}).json["lease"]
        return {"name": "there", "version": "1", "repository": "there", "id": lease}

    def test_t3_depth_on_every_route(self):
        names, asked = self.names(), 0
        for method, pattern, media, _ in routes():
            if "JSON" not in media:
                continue
            path = re.sub(r"\{(\w+)\}", lambda word: names[word[1]], pattern)
            for depth in (101, 250000):
                for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
                    answer = self.call(method, path, deep)
                    self.assertIn(answer.status, (400, 413, 422), (method, pattern, depth, answer.body[:200]))
                    self.assertRegex(answer.body, rb"nest|deep|depth", (method, pattern, depth))
                    asked += 1
        self.assertGreater(asked, 60)
        self.assertEqual(0, self.server.stop())


class LittleMemory(ServerTest):
    """The memory of all requests together is limited: requests over the limit are refused, and the memory is released."""

    ARGS = ("--backends", "interp", "--max-memory", "64M", "--pool", "0", "--max-list", "1000")

    def host_bytes(self):
        return int(re.search(rb"^beamline_host_bytes (\d+)$", self.call("GET", "/metrics").body, re.M)[1])

    def comes_back(self, before):
        """Waits for the release of memory, since a request releases its memory after its answer."""
        end = time.monotonic() + 10
        while self.host_bytes() - before >= 1 << 20 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertLess(self.host_bytes() - before, 1 << 20)

    def test_t1_buffers(self):
        before = self.host_bytes()
        many = graph(nodes=nodes(("y", "full", [], {"shape": [5 << 20], "value": 1})))  # 20 MiB, in a buffer of 24 MiB
        kept = []
        for i in range(8):
            answer = self.call("POST", RUN, {**many, "outputs": [], "keep": {f"t{i}": "y"}})
            if answer.status != 200:
                break
            kept.append(f"t{i}")
        problem = self.refused(507, answer)
        self.assertIn("--max-memory", problem["detail"])
        self.assertIn(len(kept), (1, 2))
        self.ok(self.call("POST", "/api/v1/tensors/delete", {"names": kept}))
        self.ok(self.call("POST", RUN, {**many, "outputs": [], "keep": {"t": "y"}}))
        self.call("DELETE", "/api/v1/tensors/t")
        self.comes_back(before)

    def test_t1_bodies(self):
        before = self.host_bytes()
        self.refused(503, self.call("POST", RUN, b" " * (80 << 20), JSON))
        self.comes_back(before)
        self.ok(self.call("POST", RUN, graph()))

    def test_t1_buffers_for_the_next_requests(self):
        """A buffer larger than 256 KiB is kept for the next requests, but all that are kept have at most 1/128 of the memory."""
        before = self.host_bytes()
        for padding, kept in ((300 << 10, True), (600 << 10, False)):
            self.ok(self.call("POST", RUN, json.dumps(graph()).encode() + b" " * padding, JSON))
            end = time.monotonic() + 10
            while (self.host_bytes() - before > 256 << 10) != kept and time.monotonic() < end:
                time.sleep(0.02)
            self.assertEqual(kept, self.host_bytes() - before > 256 << 10)

    def test_t7_text_that_grows_when_it_is_read(self):
        """Two bytes of text become eight bytes of int64: the limit covers the decoded size, not only the body."""
        before = self.host_bytes()
        n = 10 << 20
        body = b'{"dtype":"int64","shape":[%d],"data":[%s]}' % (n, b",".join([b"1"] * n))
        answer = self.call("PUT", "/api/v1/tensors/grown", body, JSON)
        self.refused((503, 507), answer)
        end = time.monotonic() + 5
        while self.host_bytes() - before >= 1 << 20:  # the answer precedes the release of the request's memory
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.ok(self.call("PUT", "/api/v1/tensors/grown", [1, 2]), 201)

    def test_t2_a_short_request_for_a_long_answer(self):
        long = graph(nodes=nodes(("y", "full", [], {"shape": [1001], "value": 1})))
        problem = self.bad_list(self.call("POST", RUN, long))
        self.assertIn("1001", problem["detail"])
        self.ok(self.call("POST", RUN, long, {**JSON, "accept": SAFETENSORS}))
        self.ok(self.call("POST", RUN, {**long, "outputs": [], "keep": {"long": "y"}}))
        self.bad_list(self.call("GET", "/api/v1/tensors/long"))
        self.ok(self.call("GET", "/api/v1/tensors/long", headers={"accept": SAFETENSORS}))

    def test_t2_a_program_with_a_long_answer(self):
        program = {"state": {"s": {"dtype": "float32", "shape": [600]}},
                   "nodes": nodes(("t", "add", ["s", 1])), "updates": {"s": "t"}, "outputs": ["t"]}
        self.ok(self.call("PUT", "/api/v1/programs/long", program), 201)
        run = "/api/v1/programs/long/run"
        self.ok(self.call("POST", run, {"steps": 3}))
        self.bad_list(self.call("POST", run, {"steps": 3, "collect": {"every": 1, "outputs": ["t"]}}))
        self.ok(self.call("GET", "/api/v1/programs/long/state"))

    def bad_list(self, answer):
        problem = self.refused(422, answer)
        self.assertIn("--max-list", problem["detail"])
        return problem


class FullMemory(ServerTest):
    """While long-lived data fill the host memory, requests are still answered."""

    ARGS = ("--backends", "interp", "--max-memory", "32M", "--pool", "0")
    SPARE = 2 << 20

    def fill(self):
        """Adds tensors with long names, so that their list is longer than the memory of one more tensor."""
        names, status = [], 201
        while status == 201:
            names.append(f"t{len(names):0>127}")
            answer = self.call("PUT", f"/api/v1/tensors/{names[-1]}?dtype=uint8&shape=65536", b"7" * 65536, OCTETS)
            status = answer.status
        problem = self.refused(507, answer)
        self.assertIn(f"{self.SPARE} bytes are reserved for small requests", problem["detail"])
        names.pop()
        self.assertGreater(len(names), 400)
        return names

    def used(self):
        return self.server.metric("host_bytes")

    def test_t1_others_are_answered(self):
        names = self.fill()
        self.assertEqual(names, sorted(tensor["name"] for tensor in self.ok(self.call("GET", "/api/v1/tensors")).json["tensors"]))
        for path in ("/api/v1/jobs", "/api/v1/programs", "/api/v1/devices", "/metrics"):
            self.ok(self.call("GET", path))
        self.ok(self.call("GET", f"/api/v1/tensors/{names[0]}"))
        self.assertIn(self.call("POST", RUN, graph()).status, (200, 507))
        large = graph(nodes=nodes(("y", "full", [], {"shape": [1 << 18], "value": 1})))
        self.assertIn("--max-memory", self.refused(507, self.call("POST", RUN, large))["detail"])
        before = self.used()
        self.several(8, 200000)
        end = time.monotonic() + 10
        while self.used() > before + 300000:  # borrowed memory is returned
            self.assertLess(time.monotonic(), end, (before, self.used()))
            time.sleep(0.02)
        self.refused(503, self.call("POST", RUN, b" " * self.SPARE, JSON))  # large bodies may not borrow memory
        self.assertEqual(204, self.call("DELETE", f"/api/v1/tensors/{names[0]}").status)
        self.ok(self.call("POST", "/api/v1/tensors/delete", {"names": names[1:]}))
        self.ok(self.call("POST", RUN, graph()))

    def several(self, count, size):
        """Sends |count| requests at the same time, each with a body of the given size."""
        body = json.dumps(graph()).encode().ljust(size)
        before, clients = self.used(), []
        for _ in range(count):
            clients.append(http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60))
            clients[-1].putrequest("POST", RUN)
            clients[-1].putheader("content-type", "application/json")
            clients[-1].putheader("content-length", str(size))
            clients[-1].endheaders(body[:-1])
        end = time.monotonic() + 60
        while self.used() < before + (count - 1) * size:
            self.assertLess(time.monotonic(), end, (before, self.used()))
            time.sleep(0.02)
        for client in clients:
            client.send(body[-1:])
        for client in clients:
            answer = client.getresponse()
            self.assertIn(answer.status, (200, 507), answer.read())
            client.close()


if __name__ == "__main__":
    unittest.main()
