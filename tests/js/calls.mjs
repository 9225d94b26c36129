// SPDX-License-Identifier: MIT
// The calls of a Client, each beside the server of $BEAMLINE_URL.
import assert from "node:assert/strict";
import {test} from "node:test";
import {BeamlineError, Client, ConnectionError, JobFailed, Tensor} from "../../clients/js/beamline.js";

const LINE = {
  inputs: {x: {dtype: "float32", shape: [4]}, t: {dtype: "float32", shape: [4]}},
  state: {w: [0], b: [0]},
  nodes: [
    {id: "wx", op: "mul", in: ["x", "w"]},
    {id: "p", op: "add", in: ["wx", "b"]},
    {id: "e", op: "sub", in: ["p", "t"]},
    {id: "e2", op: "mul", in: ["e", "e"]},
    {id: "loss", op: "mean", in: ["e2"]},
    {id: ["w1", "b1"], op: "sgd", in: ["loss", "w", "b"], attrs: {lr: 0.1}},
  ],
  updates: {w: "w1", b: "b1"},
  outputs: ["loss"],
};
const DATA = {x: [0, 1, 2, 3], t: Float32Array.of(1, 3, 5, 7)};
const ADD_ONE = {nodes: [{id: "y", op: "add", in: ["x", 1]}], outputs: ["y"]};

const client = new Client();

test("run: tensors as bytes and in JSON, 64-bit integers exact", async () => {
  for (const binary of [true, false]) {
    const {outputs, stats} = await new Client({binary}).run(ADD_ONE, {x: BigInt64Array.of(2n ** 60n, -(2n ** 63n))});
    assert.deepEqual(outputs.y, new Tensor("int64", [2], BigInt64Array.of(2n ** 60n + 1n, 1n - 2n ** 63n)));
    assert.ok(["compiled", "cached"].includes(stats.plan));
  }
  const {outputs} = await client.run(ADD_ONE, {x: [NaN, Infinity, -0.5]});
  assert.deepEqual(outputs.y.toArray(), [NaN, Infinity, 0.5]);
  assert.ok((await client.run(ADD_ONE, {x: [1]}, {dry_run: true})).dry_run);
});

test("the plan of a run and of a program", async () => {
  const {plan_detail: detail, outputs} = await client.run(ADD_ONE, {x: [1, 2]}, {explain: true});
  assert.deepEqual(outputs.y.toArray(), [2, 3]);
  assert.ok(detail.nodes.some(({id}) => id === "y") && detail.kernels.length === 1, JSON.stringify(detail));
  await client.programs.put("planned", LINE);
  await client.programs.run("planned", DATA);
  const plan = await client.programs.plan("planned", {entry: "main"});
  assert.equal(plan.entry, "main");
  assert.ok(plan.kernels.length > 0);
  await client.programs.delete("planned");
});

test("run: a graph that cannot be names its node", async () => {
  const graph = {nodes: [{id: "y", op: "matmul", in: ["x", "x"]}], outputs: ["y"]};
  await assert.rejects(
    client.run(graph, {x: [[1, 2, 3]]}),
    (error) => error instanceof BeamlineError && error.status === 422 && error.node === "y",
  );
});

test("tensors: every dtype there and back", async () => {
  const dtypes = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3",
    "float8_e5m2",
  ];
  for (const dtype of dtypes) {
    const value = Tensor.from(
      [
        [0, 1],
        [1, 0],
      ],
      {dtype},
    );
    await client.tensors.put(`t.${dtype}`, value);
    assert.deepEqual(await client.tensors.get(`t.${dtype}`), value);
  }
  assert.equal((await client.tensors.list()).length, dtypes.length);
  const {kept} = await client.run(ADD_ONE, {x: {tensor: "t.float32"}}, {keep: {sum: "y"}});
  assert.deepEqual(Object.keys(kept), ["sum"]);
  assert.deepEqual((await client.tensors.get("sum")).toArray(), [
    [1, 2],
    [2, 1],
  ]);
  await client.tensors.delete("sum");
  await client.tensors.delete(dtypes.map((dtype) => `t.${dtype}`));
  assert.deepEqual(await client.tensors.list(), []);
  await assert.rejects(client.tensors.get("sum"), {status: 404});
});

test("leases: names of their own, freed at the end of the lease", async () => {
  const lease = await client.lease(30);
  await lease.tensors.put("mine", [1]);
  assert.equal((await lease.tensors.list()).length, 1);
  assert.deepEqual(await client.tensors.list(), []);
  assert.deepEqual((await lease.run(ADD_ONE, {x: {tensor: "mine"}})).outputs.y.toArray(), [2]);
  await lease.renew(20);
  await lease.end();
  await lease.end();
  await assert.rejects(lease.renew(), {status: 404});
});

test("programs: put, run, state, once and no more", async () => {
  await client.programs.put("line", LINE, {ifAbsent: true});
  await assert.rejects(client.programs.put("line", LINE, {ifAbsent: true}), {status: 412});
  const {collected} = await client.programs.run("line", DATA, {
    steps: 500,
    seq: 1,
    collect: {every: 100, outputs: ["loss"]},
  });
  assert.equal(collected.loss.size, 5);
  await client.programs.run("line", DATA, {steps: 500, seq: 1, collect: {every: 100, outputs: ["loss"]}});
  await assert.rejects(client.programs.run("line", DATA, {seq: 5}), {status: 409});
  assert.equal((await client.programs.get("line")).steps, 500);
  const state = await client.programs.state("line");
  assert.ok(Math.abs(state.w.item() - 2) < 1e-3 && Math.abs(state.b.item() - 1) < 1e-3);
  await client.programs.setState("line", {...state, w: [5]});
  assert.equal((await client.programs.state("line")).w.item(), 5);
  assert.deepEqual(
    (await client.programs.list()).map(({name}) => name),
    ["line"],
  );
});

test("jobs: events until the end, history, checkpoints", async () => {
  await client.programs.put("line", LINE);
  const {job} = await client.jobs.submit({
    program: "line",
    inputs: DATA,
    steps: 3000,
    collect: {every: 1000, outputs: ["loss"]},
  });
  const steps = [];
  let last;
  for await (const {type, data} of client.jobs.events(job)) {
    if (type === "report") steps.push(data.step);
    else last = data;
  }
  assert.deepEqual([steps, last.state], [[1000, 2000, 3000], "done"]);
  const late = [];
  for await (const report of client.jobs.reports(job, {after: 1000}))
    late.push([report.step, typeof report.metrics.loss]);
  assert.deepEqual(late, [
    [2000, "number"],
    [3000, "number"],
  ]);
  assert.equal((await client.jobs.wait(job)).step, 3000);
  assert.deepEqual((await client.jobs.history(job, {from: 2000})).rows.length, 2);
  assert.ok((await client.jobs.history(job, {points: 2})).rows.length <= 3);
  assert.equal((await client.jobs.document(job)).steps, 3000);
  assert.ok(Math.abs((await client.jobs.checkpoint(job)).w.item() - 2) < 1e-3);
  await client.jobs.remove(job);
  await assert.rejects(client.jobs.get(job), {status: 404});
});

test("jobs: a cancelled job, and a signal", async () => {
  await client.programs.put("line", LINE);
  const {job} = await client.jobs.submit({
    program: "line",
    inputs: DATA,
    steps: 1e9,
    collect: {every: 1e6, outputs: ["loss"]},
  });
  const abort = new AbortController();
  const followed = (async () => {
    for await (const {type} of client.jobs.events(job, {signal: abort.signal}))
      if (type === "state") abort.abort(new Error("enough"));
  })();
  await assert.rejects(followed, /enough/);
  await client.jobs.cancel(job);
  await assert.rejects(client.jobs.wait(job), (error) => error instanceof JobFailed && error.job.state === "cancelled");
});

test("hosted models: asked by binary tensors, by JSON and by lists", async () => {
  await client.programs.put("line", LINE);
  assert.equal((await client.programs.promote("line", {model: "asked", version: 1})).version, "1");
  const sequence = {sequence_id: 7, sequence_start: true, sequence_end: true};
  for (const asking of [client, new Client({binary: false})]) {
    const {outputs, stats} = await asking.models.infer("asked", DATA, {outputs: ["loss"], parameters: sequence});
    assert.equal(outputs.loss.item(), 21);
    assert.equal(stats.model_version, "1");
  }
  assert.deepEqual(
    (await client.models.metadata("asked")).inputs.map(({name}) => name),
    ["x", "t"],
  );
  assert.equal((await client.models.statistics("asked"))[0].name, "asked");
  assert.equal((await client.models.index())[0].state, "READY");
  await assert.rejects(
    client.models.infer("asked", {x: [1]}),
    (error) => error.status === 400 && error.detail.length > 0,
  );
  await client.models.unload("asked");
  await assert.rejects(client.models.metadata("asked"), {status: 404});
});

test("blobs: by digest; a blob that the server has is not sent again", async () => {
  const bytes = new Uint8Array(40 << 20).map((_, i) => i);
  const seen = [];
  const digest = await client.blobs.upload(bytes, {progress: (done) => seen.push(done)});
  assert.deepEqual(seen, [0, 16 << 20, 32 << 20, 40 << 20]);
  await client.blobs.upload(new Blob([bytes]), {progress: () => assert.fail("sent again")});
  assert.equal(Buffer.compare(await client.blobs.get(digest), bytes), 0);
  await client.blobs.upload("");
  await client.tensors.put("part", {blob: digest, format: "raw", dtype: "uint8", shape: [3], offset: 256});
  assert.deepEqual((await client.tensors.get("part")).toArray(), [0, 1, 2]);
  await client.blobs.delete(digest);
  assert.equal(await client.blobs.exists(digest), false);
});

test("the server: devices, usage, readiness; a language model that is not there", async () => {
  assert.equal((await client.devices())[0].id, "interp:0");
  assert.ok(Array.isArray(await client.usage({days: 1})));
  assert.equal((await client.server()).name, "beamline");
  const me = await client.me();
  assert.deepEqual([me.name, me.keys, Array.isArray(me.scopes)], [null, false, true]);
  assert.equal((await client.now()).devices[0].id, "interp:0");
  assert.equal((await client.nowHistory(60)).devices[0].busy.length > 0, true);
  assert.ok(Array.isArray((await client.trace(1)).traceEvents));
  await assert.rejects(client.kernel("none"), {status: 404});
  assert.equal(await client.ready(), true);
  const text = client.chat({model: "none", messages: [{role: "user", content: "Hello"}]});
  await assert.rejects(text.next(), (error) => error.status === 404 && /none/.test(error.detail));
});

test("no server, and a signal that is aborted already", async () => {
  const away = new Client({url: "http://127.0.0.1:9", retries: 0});
  await assert.rejects(
    away.devices(),
    (error) => error instanceof ConnectionError && error.message.includes("http://127.0.0.1:9"),
  );
  assert.equal(await away.ready(), false);
  await assert.rejects(client.devices({signal: AbortSignal.abort(new Error("not now"))}), /not now/);
});
