# SPDX-License-Identifier: MIT
"""Retained tensors, leases, and tensor values in both directions."""

import base64
import gzip
import json
import struct
import time
import unittest
import zlib

from fixture import JSON, OCTETS, SAFETENSORS, ServerTest, graph, head, read_safetensors, safetensors

RAW = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
INTS = [-(2**63), 2**63 - 1, 9007199254740993, -9007199254740993, 0]


class Tensors(ServerTest):
    ARGS = ("--max-body", "4M", "--max-tensor", "16M", "--max-held", "64M")

    def put(self, name, query, body, headers=None):
        return self.call("PUT", f"/api/v1/tensors/{name}?{query}", body, {**OCTETS, **(headers or {})})

    def test_raw_there_and_back(self):
        entry = self.ok(self.put("a", "dtype=float32&shape=2,3", RAW), 201).json
        self.assertEqual(("a", "float32", [2, 3], 24), (entry["name"], entry["dtype"], entry["shape"], entry["bytes"]))
        self.assertEqual(RAW, self.ok(self.call("GET", "/api/v1/tensors/a", headers={"accept": "application/octet-stream"})).body)
        self.assertEqual({"dtype": "float32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}, self.call("GET", "/api/v1/tensors/a").json)
        tensors, _ = read_safetensors(self.call("GET", "/api/v1/tensors/a", headers={"accept": SAFETENSORS}).body)
        self.assertEqual({"a": ("F32", [2, 3], RAW)}, tensors)
        self.assertEqual(b"", self.call("HEAD", "/api/v1/tensors/a").body)

    def test_scalar_and_empty(self):
        self.ok(self.put("s", "dtype=int64&shape=", struct.pack("<q", -5)), 201)
        self.assertEqual({"dtype": "int64", "shape": [], "data": [-5]}, self.call("GET", "/api/v1/tensors/s").json)
        self.ok(self.put("z", "dtype=float32&shape=0,3", b""), 201)
        self.assertEqual([], self.call("GET", "/api/v1/tensors/z").json["data"])

    def test_coded_and_chunked_uploads(self):
        for coding, body in (("gzip", gzip.compress(RAW)), ("deflate", zlib.compress(RAW))):
            self.ok(self.put("c", "dtype=float32&shape=6", body, {"content-encoding": coding}), 201)
            self.assertEqual([1, 2, 3, 4, 5, 6], self.call("GET", "/api/v1/tensors/c").json["data"])
        chunks = head("PUT", "/api/v1/tensors/k?dtype=float32&shape=6", "Content-Type: application/octet-stream", "Transfer-Encoding: chunked")
        got, _ = self.server.raw(chunks + b"a\r\n" + RAW[:10] + b"\r\ne\r\n" + RAW[10:] + b"\r\n0\r\n\r\n", timeout=0.5)
        self.assertIn(b" 201 ", got)
        self.assertEqual([1, 2, 3, 4, 5, 6], self.call("GET", "/api/v1/tensors/k").json["data"])

    def test_large_upload(self):
        data = bytes(range(256)) * (4 << 12)
        self.ok(self.put("l", "dtype=uint8&shape=4194304", data), 201)
        self.assertEqual(data, self.call("GET", "/api/v1/tensors/l", headers={"accept": "application/octet-stream"}).body)
        self.ok(self.put("l", "dtype=uint8&shape=4194304", gzip.compress(data), {"content-encoding": "gzip"}), 201)
        self.assertEqual(data, self.call("GET", "/api/v1/tensors/l", headers={"accept": "application/octet-stream"}).body)

    def test_t2_shapes(self):
        for shape in ("16,1152921504606846978", "4,1152921504606846978", "9223372036854775808", "1099511627776", "18446744073709551617",
                      ",".join(["1"] * 13), ",".join(["1"] * 10000), "0,1099511627777"):
            self.refused(422, self.put("b", f"dtype=float32&shape={shape}", b"abcd"))
        for shape in ("-5", "1e3", "1.5", "x", "1,,2", ",", "1,", "0x10", " 1"):
            self.refused(400, self.put("b", f"dtype=float32&shape={shape.replace(' ', '%20')}", b"abcd"))
        self.refused(404, self.call("GET", "/api/v1/tensors/b"))

    def test_t2_shapes_in_json(self):
        for shape in ([16, 2**60 + 2], [4, 2**60 + 2], [2**63], [1] * 13, [0, 2**41]):
            self.refused((400, 422), self.call("PUT", "/api/v1/tensors/b", {"dtype": "float32", "shape": shape, "data": [1]}))
        for shape in ("[-5]", "[1.5]", "[1e3]", "[[1]]", "1", "null", "[true]"):
            self.refused((400, 422), self.call("PUT", "/api/v1/tensors/b", '{"dtype":"float32","shape":%s,"data":[1]}' % shape, JSON))

    def test_t6_bombs_and_broken_coding(self):
        bomb = gzip.compress(bytes(32 << 20))
        self.assertLess(len(bomb), 40000)
        before = self.server.rss()
        for _ in range(20):
            self.refused(413, self.call("POST", "/api/v1/run", bomb, {**JSON, "content-encoding": "gzip"}))
            self.refused(400, self.put("b", "dtype=uint8&shape=100", bomb, {"content-encoding": "gzip"}))
        self.assertLess(self.server.rss() - before, 16 << 20)
        good = gzip.compress(json.dumps(graph()).encode())
        gz = {**JSON, "content-encoding": "gzip"}
        self.ok(self.call("POST", "/api/v1/run", good, gz))
        for body in (good[:-1], good[:10], good + b"x", b"\x1f\x8b", b"not gzip", good[:20] + b"\0\0\0\0" + good[24:]):
            self.refused(400, self.call("POST", "/api/v1/run", body, gz))
        self.refused(400, self.call("POST", "/api/v1/run", good, {**JSON, "content-encoding": "deflate"}))
        for coding in ("br", "zstd", "gzip, gzip", ""):
            self.refused(415, self.call("POST", "/api/v1/run", good, {**JSON, "content-encoding": coding}))

    def test_t7_sizes_that_do_not_fit(self):
        for body in (RAW[:-1], RAW + b"x", b"x"):
            self.refused((400, 422), self.put("b", "dtype=float32&shape=2,3", body))
            self.refused((400, 422), self.put("b", "dtype=float32&shape=2,3", gzip.compress(body), {"content-encoding": "gzip"}))
        self.refused((400, 422), self.put("b", "dtype=float32&shape=2,3", b""))
        for value in ({"dtype": "float32", "shape": [2], "data": [1]}, {"dtype": "float32", "shape": [2], "data": [1, 2, 3]},
                      {"dtype": "float32", "shape": [2], "base64": "AAAA"}, {"dtype": "int8", "shape": [1], "base64": "A==="},
                      {"dtype": "int8", "shape": [2], "base64": "A A="}, [[1, 2], [3]], [[1], 2]):
            self.refused((400, 422), self.call("PUT", "/api/v1/tensors/b", value))
        self.refused(404, self.call("GET", "/api/v1/tensors/b"))

    def test_t7_broken_files(self):
        good = safetensors({"x": ("F32", [2], RAW[:8])}, {"request": json.dumps({k: v for k, v in graph().items() if k != "inputs"})})
        kind = {"content-type": SAFETENSORS}
        self.ok(self.call("POST", "/api/v1/run", good, kind))
        size = int.from_bytes(good[:8], "little")
        bad = [good[:-1], good + b"x", good[:8], good[:20], b"", (2**63).to_bytes(8, "little") + good[8:], (size + 1).to_bytes(8, "little") + good[8:],
               good.replace(b"[0, 8]", b"[0, 9]"), good.replace(b"[0, 8]", b"[8, 0]"), good.replace(b"[0, 8]", b"[-8,0]"),
               good.replace(b'"F32"', b'"F99"'), good.replace(b'"shape": [2]', b'"shape": [3]'), good.replace(b"request", b"requesT")]
        for i, body in enumerate(bad):
            with self.subTest(i):
                self.refused((400, 422), self.call("POST", "/api/v1/run", body, kind))
        twice = safetensors({"x": ("F32", [2], RAW[:8])}, {"request": json.dumps(graph())})
        self.refused(422, self.call("POST", "/api/v1/run", twice, kind))

    def test_t9_numbers(self):
        for dtype, data in (("int64", INTS), ("uint64", [2**64 - 1, 0, 9007199254740993])):
            self.ok(self.call("PUT", "/api/v1/tensors/n", {"dtype": dtype, "shape": [len(data)], "data": data}), 201)
            self.assertEqual(data, self.call("GET", "/api/v1/tensors/n").json["data"])
        self.ok(self.call("PUT", "/api/v1/tensors/n", {"dtype": "float64", "shape": [5], "data": [-0.0, "NaN", "Infinity", "-Infinity", 0.1]}), 201)
        body = self.call("GET", "/api/v1/tensors/n").body
        self.assertIn(b'[-0.0,"NaN","Infinity","-Infinity",0.1]', body)
        raw = self.call("GET", "/api/v1/tensors/n", headers={"accept": "application/octet-stream"}).body
        self.assertEqual(struct.pack("<d", -0.0), raw[:8])
        for dtype, value in (("int64", "9223372036854775808"), ("uint64", "18446744073709551616"), ("int8", "128"), ("uint8", "-1"),
                             ("int32", "1.5"), ("bool", "2"), ("float64", "1e400")):
            self.refused(422, self.call("PUT", "/api/v1/tensors/n", '{"dtype":"%s","shape":[1],"data":[%s]}' % (dtype, value), JSON))
        for text in ("[NaN]", "[Infinity]", "[01]", "[1.]", "[+1]", "[.5]", "[1e]", "[0x1]", "[1,]", "[1] x", "\ufeff[1]", "[1", "['1']", ""):
            self.refused(400, self.call("PUT", "/api/v1/tensors/n", text.encode(), JSON))

    def test_t9_text(self):
        for body in (b'{"dtype":"float32","shape":[1],"data":[1],"dtype":"float32"}', b'{"dtyp\xff":1}', b'{"\\ud800":1}', b'{"a\\u0000":1}',
                     b'{"dtype":"float32","shape":[1],"data":[1],"x":1}'):
            self.refused((400, 422), self.call("PUT", "/api/v1/tensors/n", body, JSON))

    def test_t12_names(self):
        for name in ("1a", "%20", "a%20b", "-", "a" * 129, "%c3%a9", "NaN", "..", "a%22b"):
            self.assertIn(self.put(name, "dtype=uint8&shape=1", b"x").status, (400, 404), name)
        for name in ("a", "_", "w1.m.w", "a:b", "a-b", "A" * 128, "layer%2fweight"):
            self.ok(self.put(name, "dtype=uint8&shape=1", b"x"), 201)
            self.ok(self.call("DELETE", f"/api/v1/tensors/{name}"), 204)
            self.refused(404, self.call("GET", f"/api/v1/tensors/{name}"))

    def test_t13_nothing_of_others_is_ever_seen(self):
        secret = b"\xa5" * 65536
        for _ in range(4):
            self.ok(self.put("secret", "dtype=uint8&shape=65536", secret), 201)
            self.ok(self.call("DELETE", "/api/v1/tensors/secret"), 204)
            short = head("PUT", "/api/v1/tensors/part?dtype=uint8&shape=65536", "Content-Type: application/octet-stream", "Content-Length: 65536")
            self.server.raw(short + b"x" * 10, timeout=0.05)
            self.refused(404, self.call("GET", "/api/v1/tensors/part"))
        program = {"inputs": {}, "state": {"z": {"dtype": "uint8", "shape": [65536]}}, "nodes": [], "outputs": ["z"]}
        self.call("PUT", "/api/v1/programs/z", program)
        state = self.ok(self.call("GET", "/api/v1/programs/z/state", headers={"accept": SAFETENSORS}))
        self.assertEqual(bytes(65536), read_safetensors(state.body)[0]["z"][2])
        self.ok(self.call("DELETE", "/api/v1/programs/z"), 204)

    def test_t14_held_memory_is_bounded(self):
        data = bytes(4 << 20)
        statuses = [self.put(f"h{i}", "dtype=uint8&shape=4194304", data).status for i in range(20)]
        self.assertEqual(201, statuses[0])
        self.assertEqual(507, statuses[-1])
        deleted = self.ok(self.call("POST", "/api/v1/tensors/delete", {"names": [f"h{i}" for i in range(20)]})).json["deleted"]
        self.assertEqual(statuses.count(201), deleted)
        self.ok(self.put("h0", "dtype=uint8&shape=4194304", data), 201)

    def test_keep_and_use(self):
        kept = self.ok(self.call("POST", "/api/v1/run", graph(outputs=[], keep={"twice": "y"}))).json
        self.assertEqual({"twice": {"dtype": "float32", "shape": [2]}}, kept["kept"])
        self.assertEqual([2, 4], self.call("GET", "/api/v1/tensors/twice").json["data"])
        again = self.ok(self.call("POST", "/api/v1/run", graph(inputs={"x": {"tensor": "twice"}}, keep={"twice": "y"}))).json
        self.assertEqual([4, 8], again["outputs"]["y"]["data"])
        self.assertEqual([4, 8], self.call("GET", "/api/v1/tensors/twice").json["data"])
        self.refused(404, self.call("POST", "/api/v1/run", graph(inputs={"x": {"tensor": "nothing"}})))

    def test_t12_leases_are_apart(self):
        one, two = (self.call("POST", "/api/v1/leases", {"ttl": 60}).json["lease"] for _ in range(2))
        for lease, value in ((one, 1), (two, 2)):
            self.ok(self.call("POST", "/api/v1/run", graph(inputs={"x": [value, value]}, lease=lease, keep={"h": "y"})))
        self.refused(404, self.call("GET", "/api/v1/tensors/h"))
        self.assertEqual([2, 2], self.call("GET", f"/api/v1/tensors/h?lease={one}").json["data"])
        self.assertEqual([4, 4], self.call("GET", f"/api/v1/tensors/h?lease={two}").json["data"])
        self.assertEqual(["h"], [t["name"] for t in self.call("GET", f"/api/v1/tensors?lease={one}").json["tensors"]])
        self.ok(self.put("shared", "dtype=float32&shape=2", RAW[:8]), 201)
        used = self.ok(self.call("POST", "/api/v1/run", graph(inputs={"x": {"tensor": "shared"}}, lease=one))).json
        self.assertEqual([2, 4], used["outputs"]["y"]["data"])
        self.ok(self.call("DELETE", f"/api/v1/leases/{one}"), 204)
        self.refused(404, self.call("GET", f"/api/v1/tensors/h?lease={one}"))
        self.assertEqual([4, 4], self.call("GET", f"/api/v1/tensors/h?lease={two}").json["data"])
        self.ok(self.call("DELETE", f"/api/v1/leases/{two}"), 204)

    def test_t23_lease_expires_and_frees(self):
        before = self.server.metric("held_bytes")
        lease = self.call("POST", "/api/v1/leases", {"ttl": 0.4}).json["lease"]
        self.ok(self.put("t", f"dtype=float32&shape=2,3&lease={lease}", RAW), 201)
        for _ in range(3):  # any use renews the lease
            time.sleep(0.25)
            self.ok(self.call("GET", f"/api/v1/tensors/t?lease={lease}"))
        self.assertEqual(before + 24, self.server.settled("held_bytes", before + 24))
        self.assertEqual(before, self.server.settled("held_bytes", before, 3))
        self.refused(404, self.call("GET", f"/api/v1/tensors/t?lease={lease}"))
        for ttl in (0, -1, "x", None, "NaN"):
            self.refused((400, 422), self.call("POST", "/api/v1/leases", {"ttl": ttl}))

    def test_int64_through_a_graph(self):
        ask = {"inputs": {"x": {"dtype": "int64", "shape": [5], "data": INTS}}, "nodes": [], "outputs": ["x"]}
        answer = self.call("POST", "/api/v1/run", ask)
        self.assertEqual(INTS, self.ok(answer).json["outputs"]["x"]["data"])
        ask["nodes"], ask["outputs"] = [{"id": "y", "op": "add", "in": ["x", 1]}], ["y"]
        wrapped = [(v + 1 + 2**63) % 2**64 - 2**63 for v in INTS]
        self.assertEqual(wrapped, self.ok(self.call("POST", "/api/v1/run", ask)).json["outputs"]["y"]["data"])

    def test_base64_and_files(self):
        value = {"dtype": "float32", "shape": [2], "base64": base64.b64encode(RAW[:8]).decode()}
        self.assertEqual([2, 4], self.ok(self.call("POST", "/api/v1/run", graph(inputs={"x": value}))).json["outputs"]["y"]["data"])
        document = graph()
        del document["inputs"]
        file = safetensors({"x": ("F32", [2], RAW[:8])}, {"request": json.dumps(document)})
        answer = self.ok(self.call("POST", "/api/v1/run", file, {"content-type": SAFETENSORS, "accept": SAFETENSORS}))
        tensors, metadata = read_safetensors(answer.body)
        self.assertEqual({"y": ("F32", [2], struct.pack("<2f", 2, 4))}, tensors)
        self.assertEqual({"y": {"dtype": "float32", "shape": [2]}}, json.loads(metadata["response"])["outputs"])



class HowMany(ServerTest):
    """An error over a limit of retained tensors names the limit."""

    ARGS = ("--max-tensors", "1", "--max-held", "100", "--max-programs", "1", "--max-leases", "1", "--backends", "interp")

    def test_each_names_its_flag(self):
        program = {"state": {"w": [0]}, "nodes": [{"id": "y", "op": "neg", "in": ["w"]}], "outputs": ["y"]}
        for method, path, document, flag in (("PUT", "/api/v1/tensors/{}", [1], "tensors"), ("PUT", "/api/v1/programs/{}", program, "programs"),
                                             ("POST", "/api/v1/leases", {}, "leases"), ("PUT", "/api/v1/tensors/a", [0] * 30, "held")):
            with self.subTest(flag=flag):
                if flag != "held":
                    self.assertEqual(201, self.call(method, path.format("a"), document).status)
                answer = self.call(method, path.format("b"), document)
                self.assertEqual((507, "no space left"), (answer.status, answer.json["title"]), answer.body)
                self.assertIn(f"(--max-{flag})", answer.json["detail"])

if __name__ == "__main__":
    unittest.main()
