// SPDX-License-Identifier: MIT
// What the types of the JavaScript client allow, and what they do not. Compiled, never run.
import {BeamlineError, Client, Graph, JobFailed, Lease, Node, Program, Tensor} from "../../../clients/js/beamline.js";
import {Client as PageClient} from "../../../clients/js/client.js";

const client = new Client({url: "http://127.0.0.1:8470", key: "bl_secret", fetch, retries: 3});
new PageClient();

const g = new Graph();
g.dim("batch", 1, 64);
const x: Node = g.input("x", ["batch", 784]);
const w = g.input("w", [784, 10], "bfloat16");
const bias = g.input("b");
const y = x
  .matmul(w)
  .add(1)
  .add(2n ** 60n)
  .relu({name: "hidden"});
const [values, places]: Node[] = y.topk(2, {axis: 0});
const [first] = y.split([1, 2], {results: 2, axis: 1});
const [dw] = g.grad(y.sum(), [w], {name: ["dw"]});
const [[total], [sums]] = g.scan((h, slice) => [[h.add(slice)], [h]], [0], {xs: [x]});
const [chosen] = g.cond(
  total.greater(0),
  (a) => [a.sqrt()],
  (a) => [a.neg()],
  [x],
);
g.output(values, places, {first, dw, sums, chosen, part: x.at(0, [1, 3], null)});
x.conv2d(w, {bias, stride: 2, padding: [1, 1], form: "winograd"});
x.interpolate([2, 2], {mode: "bilinear"});
x.linear(w, {bias: null});
loss(x);

function loss(node: Node): Node[] {
  return node.sgd([node], 0.1, {momentum: 0.9});
}

async function calls(signal: AbortSignal): Promise<void> {
  const {outputs, stats} = await client.run(
    g,
    {x: new Float32Array(784), w: [[1, "NaN"]], i: Tensor.from([1n]), held: {tensor: "w"}},
    {keep: {kept: y}, signal, device: "opencl:0"},
  );
  const tensor: Tensor = outputs.first;
  const seconds: number = (await client.run(g, {}, {dry_run: true})).seconds;
  const program = new Program({w: [0], b: {op: "zeros", attrs: {shape: [1]}}}, {batching: false});
  await client.programs.put("line", program, {durable: true, seed: 1});
  const {collected} = await client.programs.run(
    "line",
    {x: [1]},
    {steps: 3, seq: 1, collect: {every: 1, outputs: ["loss"]}},
  );
  const {job} = await client.jobs.submit({program: "line", steps: 10, inputs: {x: new Float32Array(4)}});
  for await (const event of client.jobs.events(job, {signal, after: 3})) {
    if (event.type === "report") console.log(event.data.metrics?.loss.toFixed(3));
  }
  for await (const chunk of client.chat({model: "m", messages: []}, {signal}))
    console.log(chunk.choices[0].delta.content);
  const digest: string = await client.blobs.upload(new Blob([]), {progress: (done, all) => console.log(done / all)});
  const lease = await client.lease(60);
  await lease.tensors.put("x", new BigInt64Array(2), {shape: [2, 1], durable: true});
  await client.shares.add({tensor: "w"}, "*");
  const answer = await client.models.infer("m", {text: ["a"], x: [[1]]}, {version: 2, classes: {y: 3}});
  try {
    await client.jobs.wait(job);
  } catch (error) {
    if (error instanceof BeamlineError) console.log(error.status, error.node, error.retryAfter);
    if (error instanceof JobFailed) console.log(error.job.reason);
  }
  console.log(tensor.toArray(), seconds, collected.loss.item(), digest, stats.plan, answer.outputs.y);
}
void calls;

// ---- each of these is a mistake

// @ts-expect-error an axis is a member of the options
x.sum(1);
// @ts-expect-error there is no such op
x.frobnicate();
// @ts-expect-error there is no such attribute
x.softmax({axes: 1});
// @ts-expect-error the number of results must be said
x.split([1, 2]);
// @ts-expect-error a form is one of three words
x.conv2d(w, {form: "fast"});
// @ts-expect-error a list is no operand
x.add([1, 2]);
// @ts-expect-error the class of one_hot must be given
x.oneHot();
// @ts-expect-error a dtype that there is none of
g.input("z", [1], "float23");
// @ts-expect-error a text is no value of a tensor
client.run(g, {x: "one"});
// @ts-expect-error a job has steps
client.jobs.submit({program: "line"});
// @ts-expect-error a lease is made by client.lease()
new Lease();
