// SPDX-License-Identifier: MIT
// The graph builder beside the server of $BEAMLINE_URL.
import assert from "node:assert/strict";
import {test} from "node:test";
import {Client, Graph, Program} from "../../clients/js/beamline.js";

const client = new Client();

async function run(build, inputs = {}) {
  const graph = new Graph();
  build(graph);
  const {outputs} = await client.run(graph, inputs);
  return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.toArray()]));
}

test("gradients", async () => {
  const results = await run(
    (g) => {
      const [a, b] = [g.input("a"), g.input("b")];
      const c = a.mul(b).add(a);
      const [da, db] = g.grad(c.sum(), [a, b]);
      g.output({c, da, db});
    },
    {a: [1, 2, 3], b: [4, 5, 6]},
  );
  assert.deepEqual(results, {c: [5, 12, 21], da: [5, 6, 7], db: [1, 2, 3]});
});

test("named dimensions: a typed array takes the declared shape", async () => {
  const build = (g) => {
    g.dim("batch", 1, 64);
    const x = g.input("x", ["batch", 2]);
    g.output({y: x.sum({axis: 1}), n: x.reshape(["2 * batch"])});
  };
  assert.deepEqual(await run(build, {x: Float32Array.of(1, 2, 3, 4)}), {y: [3, 7], n: [1, 2, 3, 4]});
  assert.deepEqual(
    await run(build, {
      x: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
    }),
    {y: [3, 7, 11], n: [1, 2, 3, 4, 5, 6]},
  );
});

test("optional inputs, several results, lists of inputs", async () => {
  const results = await run(
    (g) => {
      const x = g.input("x");
      const [values, places] = x.topk(2);
      const [first, second] = g.stack([x, x.neg()]).split([1, 1], {results: 2});
      g.output({values, places, first, second, linear: x.linear(g.eye(3), {bias: g.full([3], 10)})});
    },
    {x: [3, 1, 2]},
  );
  assert.deepEqual(results, {
    values: [3, 2],
    places: [0n, 2n],
    first: [[3, 1, 2]],
    second: [[-3, -1, -2]],
    linear: [13, 11, 12],
  });
});

test("loops and choices", async () => {
  const results = await run(
    (g) => {
      const x = g.input("x");
      const [[total], [sums]] = g.scan((h, slice) => [[h.add(slice)], [h.add(slice)]], [0], {xs: [x]});
      const [root] = g.cond(
        total.greater(0),
        (y) => [y.sqrt()],
        (y) => [y.neg()],
        [x],
      );
      g.output({total, sums, root});
    },
    {x: [1, 4, 9]},
  );
  assert.deepEqual(results, {total: 14, sums: [1, 5, 14], root: [1, 2, 3]});
});

test("parts", async () => {
  const results = await run(
    (g) => {
      const x = g.input("x");
      g.output({a: x.at(0), b: x.at(-1, [1, 3]), c: x.at(null, [null, null, 2]), d: x.at([1])});
      assert.equal(x.at(null), x);
    },
    {
      x: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    },
  );
  assert.deepEqual(results, {
    a: [1, 2, 3],
    b: [5, 6],
    c: [
      [1, 3],
      [4, 6],
    ],
    d: [[4, 5, 6]],
  });
});

test("64-bit literals and inputs of a dtype", async () => {
  const results = await run((g) => g.output({y: g.input("x", [2], "int64").add(2n ** 60n)}), {x: [1, 2]});
  assert.deepEqual(results, {y: [2n ** 60n + 1n, 2n ** 60n + 2n]});
  const plain = (g) => g.output({y: g.input("x").add(1)});
  assert.deepEqual(await run(plain, {x: BigInt64Array.of(2n ** 60n)}), {y: [2n ** 60n + 1n]});
  const half = (g) => g.output({y: g.input("x", [2], "bfloat16").add(0)});
  assert.deepEqual(await run(half, {x: Float32Array.of(1.001, -3)}), {y: [1, -3]});
});

test("a program: state, updates, an optimiser", async () => {
  const program = new Program({w: [0], b: {op: "zeros", attrs: {shape: [1]}}});
  const g = program.entry();
  const [x, t] = [g.input("x", [4]), g.input("t", [4])];
  const loss = x.mul(g.state("w")).add(g.state("b")).sub(t).square().mean();
  const [w, b] = loss.sgd([g.state("w"), g.state("b")], 0.1);
  g.update({w, b}).output({loss});
  await client.programs.put("built", program);
  await client.programs.run("built", {x: [0, 1, 2, 3], t: [1, 3, 5, 7]}, {steps: 500});
  const state = await client.programs.state("built");
  assert.ok(Math.abs(state.w.item() - 2) < 1e-3 && Math.abs(state.b.item() - 1) < 1e-3);
});

test("an output whose name is taken is a copy", () => {
  const g = new Graph();
  const x = g.input("x");
  const y = x.add(1);
  g.output({a: y, b: y, c: x});
  assert.deepEqual(g.document().outputs, ["a", "b", "c"]);
  assert.deepEqual(
    g.document().nodes.map(({op}) => op),
    ["add", "contiguous", "contiguous"],
  );
});

test("mistakes throw at the call", () => {
  const g = new Graph();
  const x = g.input("x");
  assert.throws(() => x.sum(1), /sum: options go into one object, as in \{name: "y"\}, and not 1/);
  assert.throws(() => x.conv2d(x, x), /conv2d: options go into one object, .* not the Node "x"/);
  assert.throws(() => x.add([1, 2]), /add: an operand is a Node of the graph or a number, not \[1,2\]/);
  assert.throws(() => x.add(), /add: an operand is a Node/);
  assert.throws(() => x.add(new Graph().input("y")), /"y" belongs to another graph/);
  assert.throws(() => g.input("x"), /"x" is there twice/);
  assert.throws(() => x.split([1, 1]), /split: say how many results there are, as in \{results: 2\}/);
  assert.throws(() => x.relu({results: 2}), /relu has one result/);
  assert.throws(() => x.topk(2, {name: ["a"]}), /topk has 2 results, but 1 names were given/);
  assert.throws(
    () => x.layerNorm({bias: x}),
    /layer_norm: an operand is a Node of the graph or a number, not undefined/,
  );
  assert.throws(() => g.scan((h) => [h], [0]), /a body gives lists of Nodes/);
  assert.throws(() => new Program().entry().state("w"), /the program has no state "w"/);
});

test("the server refuses an unknown attribute by name", async () => {
  const g = new Graph();
  g.output(g.input("x").softmax({axes: 0}));
  await assert.rejects(
    client.run(g, {x: [1]}),
    (error) => [400, 422].includes(error.status) && error.detail.includes("axes"),
  );
});
