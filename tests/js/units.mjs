// SPDX-License-Identifier: MIT
// The parts of the JavaScript client that need no server.
import assert from "node:assert/strict";
import {createHash, randomBytes} from "node:crypto";
import {test} from "node:test";
import {decodeFloat, encodeFloat} from "../../clients/js/dtype.js";
import {BeamlineError, eventError, makeError} from "../../clients/js/errors.js";
import {readEvents} from "../../clients/js/events.js";
import {parse, stringify} from "../../clients/js/json.js";
import {readSafetensors, writeSafetensors} from "../../clients/js/safetensors.js";
import {Sha256} from "../../clients/js/sha256.js";
import {Tensor} from "../../clients/js/tensor.js";
import {encodeValues} from "../../clients/js/values.js";

test("JSON is written without loss", () => {
  assert.equal(
    stringify({
      a: [1n, 2n ** 64n - 1n, NaN, -Infinity, -0, 0.1],
      b: undefined,
      c: null,
      "d\n": "é",
      e: new Int8Array([1, -1]),
    }),
    '{"a":[1,18446744073709551615,"NaN","-Infinity",-0,0.1],"c":null,"d\\n":"é","e":[1,-1]}',
  );
  assert.equal(stringify(Tensor.from([[true], [false]])), '{"dtype":"bool","shape":[2,1],"data":[true,false]}');
});

test("JSON is read without loss", () => {
  const text =
    '{"a":[9007199254740991,9007199254740992,-9223372036854775808,0.12345678901234567890,1e300],"b":"9007199254740993 \\" 9007199254740993"}';
  assert.deepEqual(parse(text), {
    a: [9007199254740991, 9007199254740992n, -9223372036854775808n, 0.1234567890123456789, 1e300],
    b: '9007199254740993 " 9007199254740993',
  });
  assert.deepEqual(parse('{"n":12345678}'), {n: 12345678});
  const long = `["${"x".repeat(20e6)}\\"",12345678901234567890]`;
  assert.equal(parse(long)[1], 12345678901234567890n);
});

test("small floats: every code comes back, and numbers are rounded to the nearest", () => {
  for (const [dtype, count] of [
    ["float16", 1 << 16],
    ["bfloat16", 1 << 16],
    ["float8_e4m3", 256],
    ["float8_e5m2", 256],
  ]) {
    for (let code = 0; code < count; code++) {
      const value = decodeFloat(dtype, code);
      if (!Number.isNaN(value)) assert.equal(encodeFloat(dtype, value), code, `${dtype} ${code}`);
      else assert.ok(Number.isNaN(decodeFloat(dtype, encodeFloat(dtype, value))));
    }
  }
  const tie = [decodeFloat("float16", 0x3c00), decodeFloat("float16", 0x3c01), decodeFloat("float16", 0x3c02)];
  assert.equal(encodeFloat("float16", (tie[0] + tie[1]) / 2), 0x3c00);
  assert.equal(encodeFloat("float16", (tie[1] + tie[2]) / 2), 0x3c02);
  assert.equal(encodeFloat("float16", 1e-300), 0);
  assert.equal(encodeFloat("float8_e4m3", 448), 0x7e);
  assert.throws(() => encodeFloat("float8_e4m3", 480), RangeError);
  assert.throws(() => encodeFloat("float16", 65520), /65520 does not fit float16/);
});

test("tensors of lists and of typed arrays", () => {
  assert.deepEqual(
    Tensor.from([
      [1, 2],
      [3, 4],
    ]),
    new Tensor("float32", [2, 2], Float32Array.of(1, 2, 3, 4)),
  );
  assert.equal(Tensor.from(7).shape.length, 0);
  assert.equal(Tensor.from([true, false]).dtype, "bool");
  assert.deepEqual(Tensor.from([1, 2n, -1], {dtype: "int64"}).data, BigInt64Array.of(1n, 2n, -1n));
  assert.equal(Tensor.from([2n ** 63n], {dtype: "uint64"}).item(), 2n ** 63n);
  assert.equal(Tensor.from(Buffer.from([1, 2])).dtype, "uint8");
  assert.equal(Tensor.from(new Uint8ClampedArray(4), {shape: [2, 2]}).dtype, "uint8");
  assert.deepEqual(Tensor.from([1.5, "NaN", -Infinity], {dtype: "bfloat16"}).toArray(), [1.5, NaN, -Infinity]);
  assert.deepEqual(
    Tensor.from([
      [[1], [2]],
      [[3], [4]],
    ]).toArray(),
    [
      [[1], [2]],
      [[3], [4]],
    ],
  );
  assert.deepEqual(Tensor.from([[], []]).toArray(), [[], []]);
  const rows = Tensor.from([Float32Array.of(1, 2), Float32Array.of(3, 4)]);
  assert.deepEqual(
    [rows.shape, Tensor.from(rows, {shape: [4]}).toArray()],
    [
      [2, 2],
      [1, 2, 3, 4],
    ],
  );
  assert.deepEqual(Tensor.from(rows, {dtype: "int64"}).toArray(), [
    [1n, 2n],
    [3n, 4n],
  ]);
  assert.equal(Tensor.from(rows), rows);
});

test("numbers that do not fit are refused", () => {
  for (const [value, dtype] of [
    [256, "uint8"],
    [-1, "uint32"],
    [1.5, "int32"],
    [NaN, "int8"],
    [2n ** 63n, "int64"],
    [0.5, "int64"],
    [-1n, "uint64"],
    [1e39, "float32"],
  ]) {
    assert.throws(() => Tensor.from([value], {dtype}), RangeError, `${value} ${dtype}`);
  }
  assert.throws(() => Tensor.from(["one"]), /"one" is no number/);
  assert.throws(() => Tensor.from([[1], [1, 2]]), /not of one length/);
  assert.throws(() => Tensor.from([1], {dtype: "float23"}), /"float23" is not a dtype; the dtypes are bool, int8/);
  assert.throws(() => new Tensor("int64", [2], BigInt64Array.of(1n)), /shape \[2\] has 2 elements, not 1/);
});

test("safetensors there and back, at any alignment", () => {
  const tensors = Object.fromEntries([
    ["a", Tensor.from([true])],
    ["b", Tensor.from([1.5, 2], {dtype: "float64"})],
    ["c", Tensor.from(2n)],
    ["__proto__", Tensor.from([3], {dtype: "int16"})],
  ]);
  const file = writeSafetensors(tensors, {request: '{"x":1}'});
  for (const shift of [0, 1, 4]) {
    const moved = new Uint8Array(file.length + shift);
    moved.set(file, shift);
    const back = readSafetensors(moved.subarray(shift));
    assert.deepEqual(Object.entries(back.tensors).sort(), Object.entries(tensors).sort());
    assert.equal(back.metadata.request, '{"x":1}');
  }
  for (let size = 0; size < file.length; size++) {
    assert.throws(() => readSafetensors(file.subarray(0, size)), `${size} bytes`);
  }
});

test("values of a document: tensors and typed arrays travel as bytes", () => {
  const tensors = {};
  const declared = {x: {dtype: "float32", shape: ["batch", 2]}, i: {dtype: "int64", shape: null}};
  const document = encodeValues({x: new Float32Array(6), i: [1, 2], n: [[1, 2]], w: {tensor: "w"}}, tensors, {
    declared,
  });
  assert.deepEqual(document, {n: [[1, 2]], w: {tensor: "w"}});
  assert.deepEqual([tensors.x.shape, tensors.i.dtype], [[3, 2], "int64"]);
  assert.deepEqual(encodeValues({i: Tensor.from([1n])}, undefined).i.shape, [1]);
});

test("events of a stream, however it is cut into pieces", async () => {
  const bytes = new TextEncoder().encode(
    ': hello\n\nid: 7\ndata: {"a":"é",\r\ndata:"b":2}\n\nevent: state\ndata: x\n\ndata: cut',
  );
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.subarray(at, at + size));
        controller.close();
      },
    });
    const events = [];
    for await (const event of readEvents(pieces)) events.push(event);
    assert.deepEqual(events, [
      {name: "", id: "7", data: '{"a":"é",\n"b":2}'},
      {name: "state", id: "", data: "x"},
    ]);
  }
});

test("errors of the three APIs", () => {
  const headers = new Headers({"content-type": "application/problem+json", "retry-after": "3"});
  const problem = makeError(
    429,
    headers,
    '{"type":"urn:x","title":"over","status":429,"detail":"too many","node":"y","step":2}',
  );
  assert.ok(problem instanceof BeamlineError);
  assert.deepEqual(
    {...problem},
    {
      name: "BeamlineError",
      status: 429,
      title: "over",
      detail: "too many",
      node: "y",
      step: 2,
      type: "urn:x",
      code: undefined,
      retryAfter: 3,
    },
  );
  assert.equal(problem.message, "429 over: too many");
  const json = new Headers({"content-type": "application/json"});
  assert.equal(makeError(400, json, '{"error":"no such input"}').detail, "no such input");
  const openai = makeError(
    404,
    json,
    '{"error":{"message":"no such model","type":"not_found_error","param":null,"code":404}}',
  );
  assert.deepEqual([openai.status, openai.detail, openai.type], [404, "no such model", "not_found_error"]);
  assert.equal(makeError(502, new Headers({"content-type": "text/html"}), "<html>").detail, "<html>");
  assert.equal(makeError(500, json, "{").detail, "{");
  assert.equal(makeError(500, json, "null").status, 500);
  assert.equal(eventError("error", {status: 403, detail: "revoked"}).status, 403);
  assert.equal(eventError("", {error: "broke"}).detail, "broke");
  assert.equal(eventError("", null), undefined);
});

test("SHA-256 of pieces of any size", () => {
  const bytes = randomBytes(1000);
  for (const size of [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000]) {
    const wanted = createHash("sha256").update(bytes.subarray(0, size)).digest("hex");
    for (const step of [1, 7, 64, 100, 1000]) {
      const hash = new Sha256();
      for (let at = 0; at < size; at += step) hash.update(bytes.subarray(at, Math.min(at + step, size)));
      assert.equal(hash.hex(), wanted, `${size} bytes by ${step}`);
    }
  }
});
