# SPDX-License-Identifier: MIT
"""The Open Inference Protocol over HTTP: envelopes, tensors and errors."""

import gzip
import json
import struct
import unittest
import zlib

from repository import ModelsTest, document, elementwise, envelope, floats, linear, numbers, split, weights

HEADER = "inference-header-content-length"
TYPES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "float64": "FP64", "int8": "INT8", "int16": "INT16", "int32": "INT32",
         "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL"}
ONES = floats(1, 1, 1, 1)


def texts(*words):
    return b"".join(len(word).to_bytes(4, "little") + word for word in words)


class Infer(ModelsTest):
    @classmethod
    def fill(cls, repository):
        repository.put("double", 1, elementwise("mul", 2))
        repository.put("line", 1, linear(), weights(1, 2, 3, 4, 5, 6))
        for dtype in TYPES:
            repository.put("same_" + dtype, 1, {"inputs": {"x": {"dtype": dtype, "shape": ["n"]}}, "dims": {"n": [0, 100000]},
                                                "nodes": [{"id": "y", "op": "detach", "in": ["x"]}], "outputs": ["y"]}, max_batch_size=0)
        repository.put("pair", 1, {"inputs": {"a": {"dtype": "int64", "shape": ["n"]}, "b": {"dtype": "int64", "shape": ["n"]}}, "dims": {"n": [1, 9]},
                                   "nodes": [{"id": "s", "op": "add", "in": ["a", "b"]}, {"id": "d", "op": "sub", "in": ["a", "b"]}],
                                   "outputs": ["s", "d"]})
        repository.put("upper", 1, {"inputs": {"text": {"dtype": "uint8", "shape": ["batch", 16]}}, "dims": {"batch": [1, 8]},
                                    "nodes": [{"id": "low", "op": "greater_equal", "in": ["text", 97]}, {"id": "up", "op": "sub", "in": ["text", 32]},
                                              {"id": "shout", "op": "where", "in": ["low", "up", "text"]}], "outputs": ["shout"]},
                       input=[{"name": "text", "data_type": "TYPE_STRING", "dims": [1]}],
                       output=[{"name": "shout", "data_type": "TYPE_STRING", "dims": [1]}])

    def outputs(self, answer):
        return {out["name"]: out["data"] for out in self.ok(answer).json["outputs"]}

    def test_json(self):
        answer = self.ok(self.infer("double", document(numbers("x", [2, 4], [[1, 2, 3, 4], [5, 6, 7, 8.5]]), id="seven")))
        self.assertEqual({"model_name": "double", "model_version": "1", "id": "seven",
                          "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 4], "data": [2, 4, 6, 8, 10, 12, 14, 17]}]}, answer.json)
        flat = self.infer("double/versions/1", document(numbers("x", [1, 4], [1, 2, 3, 4])))
        self.assertEqual({"y": [2, 4, 6, 8]}, self.outputs(flat))
        self.assertEqual({"y": [9, 12]}, self.outputs(self.infer("line", document(numbers("x", [3], [1, 1, 1])))))

    def test_no_type_is_needed(self):
        """curl -d declares a form, and Python clients declare no type; the server accepts both."""
        for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
            answer = self.infer("line", json.dumps(document(numbers("x", [3], [1, 1, 1]))), headers)
            self.assertEqual({"y": [9, 12]}, self.outputs(answer))

    def test_binary_both_ways(self):
        x = {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}
        for members, binary in (({"outputs": [{"name": "y", "parameters": {"binary_data": True}}]}, True),
                                ({"parameters": {"binary_data_output": True}}, True),
                                ({"parameters": {"binary_data_output": True}, "outputs": [{"name": "y", "parameters": {"binary_data": False}}]}, False),
                                ({}, False)):
            answer = self.ok(self.infer("double", *envelope(document(x, **members), floats(1, 2, 3, 4))))
            head, parts = split(answer)
            self.assertEqual({"y": floats(2, 4, 6, 8)} if binary else {}, parts)
            self.assertEqual("application/octet-stream" if binary else "application/json", answer.type)
            self.assertEqual(binary, HEADER in answer.headers)
            self.assertEqual(not binary, "data" in head["outputs"][0])

    def test_every_datatype(self):
        for dtype, name in TYPES.items():
            with self.subTest(dtype):
                data = [True, False, True] if dtype == "bool" else [1, 0, 5]
                answer = self.ok(self.infer("same_" + dtype, document(numbers("x", [3], data, name)))).json["outputs"][0]
                self.assertEqual((name, data), (answer["datatype"], answer["data"]))
                asked = document(numbers("x", [3], data, name), parameters={"binary_data_output": True})
                raw = split(self.ok(self.infer("same_" + dtype, asked)))[1]["y"]
                again = document({"name": "x", "shape": [3], "datatype": name, "parameters": {"binary_data_size": len(raw)}})
                self.assertEqual(data, self.ok(self.infer("same_" + dtype, *envelope(again, raw))).json["outputs"][0]["data"])

    def test_t9_integers_are_exact(self):
        for data in ([2**63 - 1, -2**63, 9007199254740993], ):
            self.assertEqual({"y": data}, self.outputs(self.infer("same_int64", document(numbers("x", [len(data)], data, "INT64")))))
        self.assertEqual({"y": [2**64 - 1]}, self.outputs(self.infer("same_uint64", document(numbers("x", [1], [2**64 - 1], "UINT64")))))
        for bad in ("18446744073709551615", "1e400", "1.5", "-9223372036854775809"):
            body = '{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[%s]}]}' % bad
            self.refused(400, self.infer("same_int64", body), "x: element 0")
        self.refused(400, self.infer("same_float32", '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1e400]}]}'), "does not fit")

    def test_t9_what_is_not_finite(self):
        raw = floats(float("nan"), float("inf"), float("-inf"), -0.0)
        x = {"name": "x", "shape": [4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}
        for how, want in ((None, '["NaN","Infinity","-Infinity",-0.0]'), ("string", '["NaN","Infinity","-Infinity",-0.0]'),
                          ("null", "[null,null,null,-0.0]"), ("bare", "[NaN,Infinity,-Infinity,-0.0]")):
            answer = self.ok(self.infer("same_float32", *envelope(document(x, **({"parameters": {"nonfinite": how}} if how else {})), raw)))
            self.assertIn('"data":' + want, answer.body.decode())
        self.refused(400, self.infer("same_float32", document(numbers("x", [1], [1]), parameters={"nonfinite": "some"})), "nonfinite")
        self.refused(400, self.infer("same_float32", b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[NaN]}]}'))
        self.assertEqual({"y": ["NaN"]}, self.outputs(self.infer("same_float32", document(numbers("x", [1], ["NaN"])))))

    def test_raw(self):
        answer = self.ok(self.infer("double", floats(1, 2, 3, 4), {HEADER: "0"}))
        self.assertEqual(floats(2, 4, 6, 8), split(answer)[1]["y"])
        answer = self.ok(self.infer("same_float32", floats(1, 2, 3), {HEADER: "0"}))
        self.assertEqual([3], split(answer)[0]["outputs"][0]["shape"])
        self.refused(400, self.infer("double", floats(1, 2, 3), {HEADER: "0"}), "no shape of input")
        self.refused(400, self.infer("same_float32", b"12345", {HEADER: "0"}), "no shape of input")
        self.refused(400, self.infer("pair", b"12345678", {HEADER: "0"}), "a model of one input")
        answer = self.ok(self.infer("upper", b"quiet", {HEADER: "0"}))
        self.assertEqual(texts(b"QUIET"), split(answer)[1]["shout"])

    def test_t7_texts(self):
        answer = self.ok(self.infer("upper", document(numbers("text", [2, 1], ["hello", "w\u00f6rld"], "BYTES")))).json["outputs"][0]
        self.assertEqual(("BYTES", [2, 1]), (answer["datatype"], answer["shape"]))
        words = texts(b"a", b"", b"sixteen bytes ab")
        x = {"name": "text", "shape": [3, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(words)}}
        answer = self.ok(self.infer("upper", *envelope(document(x, parameters={"binary_data_output": True}), words)))
        self.assertEqual(texts(b"A", b"", b"SIXTEEN BYTES AB"), split(answer)[1]["shout"])
        self.refused(400, self.infer("upper", document(numbers("text", [1, 1], ["x" * 17], "BYTES"))), "17 bytes")
        for tail, rule in ((b"", "do not fit"), (texts(b"ab")[:-1], "has 2 bytes, but 1 are left"), (texts(b"a", b"b"), "are not 1 elements"),
                           (b"\xff\xff\xff\xff", "has 4294967295 bytes"), (texts(b"a") + b"\0", "are not 1 elements")):
            x = {"name": "text", "shape": [1, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(tail)}}
            self.refused(400, self.infer("upper", *envelope(document(x), tail)), rule)
        x = {"name": "text", "shape": [2**40, 1], "datatype": "BYTES", "parameters": {"binary_data_size": 4}}
        self.refused(400, self.infer("upper", *envelope(document(x), b"\0\0\0\0")))

    def test_generate(self):
        answer = self.ok(self.call("POST", "/v2/models/upper/generate", {"text_input": "hello", "id": "a"}))
        self.assertEqual({"id": "a", "model_name": "upper", "model_version": "1", "text_output": "HELLO"}, answer.json)
        answer = self.ok(self.call("POST", "/v2/models/upper/versions/1/generate_stream", {"text_input": "hello"}))
        self.assertEqual("text/event-stream; charset=utf-8", answer.type)
        self.assertEqual(b'data: {"model_name":"upper","model_version":"1","text_output":"HELLO"}\n\n', answer.body)
        answer = self.ok(self.call("POST", "/v2/models/double/generate", {"parameters": {"x": [1, 2, 3, 4]}}))
        self.assertEqual([2, 4, 6, 8], answer.json["y"])
        answer = self.ok(self.call("POST", "/v2/models/pair/generate", {"a": 5, "parameters": {"b": 3}}))
        self.assertEqual((8, 2), (answer.json["s"], answer.json["d"]))
        for model, body, word in (("upper", {"text_input": 5}, "string"), ("upper", {}, "missing"), ("upper", {"text_input": "a", "other": 1}, 'no input "other"'),
                                  ("pair", {"a": 5, "b": "x"}, "number"), ("pair", {"a": 5, "parameters": {"a": 3}}, "twice"), ("pair", {"a": 5, "b": 1.5}, "fraction"),
                                  ("double", {"x": [1, 2, 3]}, "shape"), ("double", {"x": [[1, 2], [3]]}, "length"), ("double", {"x": 1}, "shape"), ("upper", [], "object"),
                                  ("upper", {"text_input": "x" * 17}, "17 bytes"), ("pair", {"a": 5, "b": 3, "parameters": {"a": 3}}, "twice")):
            with self.subTest(str(body)):
                self.refused(400, self.call("POST", f"/v2/models/{model}/generate", body), word)
        self.refused(404, self.call("POST", "/v2/models/nobody/generate_stream", {}), "nobody")

    def test_generate_takes_parameters(self):
        for extra in ({"parameters": {"timeout": 60000000, "mine": "a", "more": 1.5, "yes": True}}, {"timeout": 60000000}, {"priority": 0}):
            self.assertEqual([2, 4, 6, 8], self.ok(self.call("POST", "/v2/models/double/generate", {"x": [1, 2, 3, 4], **extra})).json["y"])
        self.refused(503, self.call("POST", "/v2/models/double/generate", {"x": [1, 2, 3, 4], "parameters": {"timeout": 1}}), "timeout")
        for extra, word in (({"parameters": {"timeout": -1}}, "timeout"), ({"timeout": 2**63}, "timeout"), ({"sequence_start": 1}, "sequence_start"), ({"mine": "a"}, 'no input "mine"'),
                            ({"sequence_id": 4, "sequence_start": True}, "takes no sequence_id"), ({"parameters": {"mine": [1]}}, 'no input "mine"'), ({"parameters": {"triton_a": 1}}, "reserved")):
            with self.subTest(str(extra)):
                self.refused(400, self.call("POST", "/v2/models/double/generate", {"x": [1, 2, 3, 4], **extra}), word)

    def test_t4_length_of_the_envelope(self):
        body = json.dumps(document(numbers("x", [3], [1, 1, 1]))).encode()
        for value in ("99999999999", "-1", "x", "", "1.5", " 5 5", str(len(body) + 1), "9" * 40):
            with self.subTest(value):
                self.refused(400, self.infer("line", body, {HEADER: value}), "Inference-Header-Content-Length")
        self.refused(400, self.infer("line", body, {HEADER: str(len(body) - 1)}), "JSON")
        raw = (f"POST /v2/models/line/infer HTTP/1.1\r\nhost: localhost\r\n{HEADER}: {len(body)}\r\n{HEADER}: {len(body)}\r\n"
               f"content-length: {len(body)}\r\nconnection: close\r\n\r\n").encode() + body
        got, _ = self.server.raw(raw)
        self.assertRegex(got, rb"^HTTP/1.1 400")
        self.assertIn(b"is given twice", got)

    def test_t7_sizes_of_the_tail(self):
        def ask(size, tail, shape=(1, 4), datatype="FP32"):
            x = {"name": "x", "shape": list(shape), "datatype": datatype, "parameters": {"binary_data_size": size}}
            return self.infer("double", *envelope(document(x), tail))
        self.ok(ask(16, ONES))
        self.refused(400, ask(16, ONES + b"\0"), "1 bytes of the body belong to no input")
        self.refused(400, ask(16, ONES[:-1]), "15 bytes of the body are left")
        self.refused(400, ask(12, ONES[:-4]), "binary_data_size is 12")
        for size in (-1, 2**31, 2**63, 2**64 - 1, 1.5, "16", None):
            self.refused(400, ask(size, ONES))
        self.refused(400, ask(0, b""), "binary_data_size is 0")
        x = {"name": "x", "shape": [0], "datatype": "FP32", "parameters": {"binary_data_size": 0}}
        self.assertEqual({"y": []}, self.outputs(self.infer("same_float32", *envelope(document(x)))))
        both = {**numbers("x", [1, 4], [1, 1, 1, 1]), "parameters": {"binary_data_size": 16}}
        self.refused(400, self.infer("double", *envelope(document(both), ONES)), "exclude each other")

    def test_t2_shapes(self):
        for shape in ([2**4, 2**60 + 2], [2**63], [-5], [1.5], [1e3], ["4"], [1] * 10000, [4], [1, 5], [65, 4], [0, 4], [1, 4, 1], [2**62, 2**62]):
            with self.subTest(str(shape)[:40]):
                self.refused(400, self.infer("double", document(numbers("x", shape, [1, 2, 3, 4]))))
        self.refused(400, self.infer("pair", document(numbers("a", [2], [1, 2], "INT64"), numbers("b", [3], [1, 2, 3], "INT64"))), "another input")
        self.refused(400, self.infer("double", document(numbers("x", [1, 4], [1, 2, 3]))), "3 elements, but the shape has 4")
        self.refused(400, self.infer("double", document(numbers("x", [2, 2], [[1, 2], [3]]))))
        self.refused(400, self.infer("double", document(numbers("x", [1, 4], "abc"))), "expected an array")

    def test_t8_names(self):
        x, a, b = numbers("x", [1, 4], [1, 2, 3, 4]), numbers("a", [1], [5], "INT64"), numbers("b", [1], [3], "INT64")
        self.assertEqual({"s": [8], "d": [2]}, self.outputs(self.infer("pair", document(b, a))))
        self.assertEqual(["d", "s"], list(self.outputs(self.infer("pair", document(a, b, outputs=[{"name": "d"}, {"name": "s"}])))))
        for body, word in ((document(a), '"b" of model "pair" is missing'), (document(a, b, a), "twice"),
                           (document(a, b, numbers("c", [1], [3], "INT64")), 'no input "c"'), (document(a, {**b, "name": ""}), "empty"),
                           (document(a, b, outputs=[{"name": "s"}, {"name": "s"}]), "asked for twice"),
                           (document(a, b, outputs=[{"name": ""}]), "empty"), (document(a, b, outputs=[{"name": "q"}]), 'no output "q"'),
                           (document(a, b, outputs=[{"name": "s"}] * 100000), "100000 outputs; the limit is"), (document(a, {**b, "datatype": "FP32"}), "INT64, not FP32"),
                           (document(a, {**b, "datatype": "FP8"}), "FP8"), (document(*[a] * 50000), "50000 inputs; the limit is"), ({}, "inputs"), ([], "object"),
                           (document(a, b, other=1), "unknown member"),
                           (document(a, b, id=5), "id"), (document({**a, "parameters": {"shared_memory_region": "r"}}, b), "shared memory")):
            with self.subTest(word):
                self.refused(501 if word == "shared memory" else 400, self.infer("pair", body), word)
        self.ok(self.infer("double", document(x)))

    def test_parameters_of_ones_own(self):
        """Unknown parameters are accepted without effect, as if meant for another back end; reserved names are refused."""
        a, b = numbers("a", [1], [5], "INT64"), numbers("b", [1], [3], "INT64")
        own = {"color": "blue", "depth": 3, "ratio": 0.5, "big": 2**64 - 1, "flag": True, "headers": "x", "": ""}
        for body in (document(a, b, parameters=own), document({**a, "parameters": own}, b), document(a, b, outputs=[{"name": "s", "parameters": own}])):
            self.assertEqual([8], self.outputs(self.infer("pair", body))["s"])
        self.assertEqual([8], self.outputs(self.infer("pair", document(a, b, parameters={**own, "priority": 0, "timeout": 10_000_000})))["s"])
        for name, value, word, status in (("triton_enable_empty_final_response", True, "reserved", 400), ("triton_", 1, "reserved", 400), ("color", None, "a string", 400),
                                          ("color", [1], "a string", 400), ("color", {}, "a string", 400), ("shared_memory_region", "r", "shared memory", 501),
                                          ("shared_memory_offset", 0, "shared memory", 501)):
            bad = {name: value}
            for body in (document(a, b, parameters=bad), document({**a, "parameters": bad}, b), document(a, b, outputs=[{"name": "s", "parameters": bad}])):
                with self.subTest(bad):
                    self.refused(status, self.infer("pair", body), word)
                    self.refused(status, self.infer("pair", body), name)
        for bad in (5, [], "x", None):
            self.refused(400, self.infer("pair", document(a, b, parameters=bad)), "object")
        self.refused(400, self.infer("pair", document(a, b, parameters={"timeout": "soon"})), "timeout")

    def test_t3_t9_malformed(self):
        good = json.dumps(document(numbers("x", [1, 4], [1, 2, 3, 4])))
        for body in ("", "{", good + "x", "\ufeff" + good, good.replace('"x"', '"\\ud800"'), '{"inputs":[],"inputs":[]}', "[" * 101, "[" * 250000,
                     '{"inputs":' + "[" * 250000, good.replace("[1, 2, 3, 4]", "[01,2,3,4]"), good.replace("[1, 2, 3, 4]", "[1,2,3,4,]")):
            with self.subTest(body[:30]):
                self.refused(400, self.infer("double", body.encode()))
        self.refused(400, self.infer("double", b"\xff" + good.encode()))

    def test_coded(self):
        body, headers = envelope(document({"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}), ONES)
        for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            self.assertEqual({"y": [2, 2, 2, 2]}, self.outputs(self.infer("double", pack(body), {**headers, "content-encoding": coding})))
        n = 5000
        asked = document(numbers("x", [n], [1] * n))
        for coding, unpack in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
            plain = self.ok(self.infer("same_float32", asked))
            answer = self.ok(self.infer("same_float32", asked, {"accept-encoding": coding}))
            self.assertEqual(coding, answer.headers["content-encoding"])
            self.assertLess(len(answer.body), 1000)
            self.assertEqual(plain.body, unpack(answer.body))
            binary = document(numbers("x", [n], [1] * n), parameters={"binary_data_output": True})
            answer = self.ok(self.infer("same_float32", binary, {"accept-encoding": coding}))
            size, whole = int(answer.headers[HEADER]), unpack(answer.body)
            self.assertEqual(struct.pack("<f", 1) * n, whole[size:])
        for accepted, coding in (("br, gzip;q=0", None), ("deflate;q=1, gzip;q=0.5", "deflate"), ("deflate;q=0.2, gzip;q=0.5", "gzip"), ("deflate, gzip", "gzip"),
                                 ("gzip;q=0, deflate;q=0.1", "deflate"), ("identity, gzip;q=0.5", None), ("identity;q=0.5, gzip", "gzip")):
            answer = self.ok(self.infer("same_float32", asked, {"accept-encoding": accepted}))
            self.assertEqual(coding, answer.headers.get("content-encoding"), accepted)

    def test_unknown(self):
        self.refused(404, self.infer("nobody", document()), "nobody")
        self.refused(404, self.infer("double/versions/7", document()), "version 7")
        self.refused(400, self.infer("double/versions/0", document()), "not a version")
        self.refused(400, self.infer("double/versions/one", document()), "not a version")
        self.refused(404, self.call("GET", "/v2/models/double/nothing"))
        answer = self.call("GET", "/v2/models/double/infer")
        self.refused(405, answer)
        self.assertEqual("POST", answer.headers["allow"])

    def test_statistics(self):
        def get():
            return self.ok(self.call("GET", "/v2/models/line/stats")).json["model_stats"][0]
        before = get()
        for _ in range(3):
            self.ok(self.infer("line", document(numbers("x", [3], [1, 1, 1]))))
        self.infer("line", document(numbers("x", [4], [1, 1, 1, 1])))
        after = get()
        self.assertEqual((3, 3), (after["inference_count"] - before["inference_count"], after["execution_count"] - before["execution_count"]))
        for name, count in (("success", 3), ("fail", 1), ("queue", 3), ("compute_input", 3), ("compute_infer", 3), ("compute_output", 3)):
            self.assertEqual(count, after["inference_stats"][name]["count"] - before["inference_stats"][name]["count"], name)
        self.assertEqual(24, after["memory_usage"][0]["byte_size"])
        names = [row["name"] for row in self.ok(self.call("GET", "/v2/models/stats")).json["model_stats"]]
        self.assertEqual(sorted(names), sorted(set(names)))
        self.assertIn("double", names)


if __name__ == "__main__":
    unittest.main()
