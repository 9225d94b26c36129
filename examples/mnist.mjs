#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// Train a network of two layers, 784-128-10, on handwritten digits, as a job whose loss is drawn while it runs; then host it and ask it.
//
//     examples/mnist.mjs [STEPS]
//
// MNIST is looked for in $BEAMLINE_DATA and in the user's cache, where examples/mnist_data.py puts it.
import {existsSync, readFileSync} from "node:fs";
import {homedir} from "node:os";
import {join} from "node:path";
import {gunzipSync} from "node:zlib";
import {Client, Program} from "../clients/js/beamline.js";

const BATCH = 128;

function findFile(name) {
  const {BEAMLINE_DATA: data, XDG_CACHE_HOME: cache} = process.env;
  const folders = [
    ...(data ? [join(data, "mnist"), data] : []),
    join(cache || join(homedir(), ".cache"), "beamline", "data", "mnist"),
  ];
  const path = folders
    .flatMap((folder) => [join(folder, `${name}.gz`), join(folder, name)])
    .find((file) => existsSync(file));
  if (path === undefined) {
    console.error(`skipped: there is no ${name}; examples/mnist_data.py downloads it`);
    process.exit(1);
  }
  return path;
}

/** The bytes of an IDX file behind its header. */
function readIdx(name, header) {
  const bytes = readFileSync(findFile(name));
  return (bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).subarray(header);
}

/** What a network of two layers makes of pictures, bytes [rows, 784]. */
function classify(g, pictures) {
  const x = pictures.cast("float32").div(255);
  const hidden = x.linear(g.state("w1"), {bias: g.state("b1")}).relu();
  return hidden.linear(g.state("w2"), {bias: g.state("b2")});
}

function start(shape, fanIn, seed) {
  return {op: "scaled_uniform", attrs: {shape, fan_in: fanIn, seed}};
}

/** `train` and `test` over digits that the server holds, and `guess` for pictures that are sent. */
function buildProgram(counts) {
  const held = ["train.pictures", "train.labels", "test.pictures", "test.labels"];
  const program = new Program({
    w1: start([128, 784], 784, 1),
    b1: start([128], 784, 2),
    w2: start([10, 128], 128, 3),
    b2: start([10], 128, 4),
    ...Object.fromEntries(held.map((name) => [name, {tensor: name, share: true}])),
  });

  const train = program.entry("train");
  const rows = train.batchIndex(counts.train, BATCH);
  const logits = classify(train, train.state("train.pictures").take(rows));
  const loss = logits.crossEntropy(train.state("train.labels").take(rows));
  const names = ["w1", "b1", "w2", "b2"];
  const updated = loss.sgd(
    names.map((name) => train.state(name)),
    0.1,
    {momentum: 0.9, name: names.map((name) => `sgd.${name}`)},
  );
  train.update(Object.fromEntries(names.map((name, i) => [name, updated[i]]))).output({loss});

  const test = program.entry("test");
  const right = classify(test, test.state("test.pictures")).argmax({axis: 1}).equal(test.state("test.labels"));
  test.output({accuracy: right.cast("float32").mean()});

  const guess = program.entry("guess");
  guess.dim("rows", 1, 64);
  guess.output({probabilities: classify(guess, guess.input("picture", ["rows", 784], "uint8")).softmax()});
  return program;
}

async function sendDigits(client) {
  const counts = {};
  for (const [part, prefix] of [
    ["train", "train"],
    ["test", "t10k"],
  ]) {
    const labels = readIdx(`${prefix}-labels-idx1-ubyte`, 8);
    counts[part] = labels.length;
    await client.tensors.put(`${part}.labels`, Int32Array.from(labels));
    await client.tensors.put(`${part}.pictures`, readIdx(`${prefix}-images-idx3-ubyte`, 16), {
      shape: [labels.length, 784],
    });
  }
  return counts;
}

async function train(client, steps) {
  const every = Math.max(1, Math.floor(steps / 20));
  const {job} = await client.jobs.submit({
    program: "mnist.js",
    entry: "train",
    steps,
    collect: {every, outputs: ["loss"]},
    evaluate: {entry: "test", every: steps, outputs: ["accuracy"]},
  });
  for await (const {step, metrics, evaluation} of client.jobs.reports(job)) {
    if (metrics) {
      console.log(
        `step ${String(step).padStart(6)}  loss ${metrics.loss.toFixed(4)}  ${"#".repeat(Math.min(60, Math.round(metrics.loss * 25)))}`,
      );
    }
    if (evaluation) console.log(`test accuracy ${(evaluation.accuracy * 100).toFixed(2)} %`);
  }
  await client.jobs.wait(job);
}

async function ask(client) {
  const labels = readIdx("t10k-labels-idx1-ubyte", 8).subarray(0, 10);
  const pictures = readIdx("t10k-images-idx3-ubyte", 16).subarray(0, 7840);
  await client.programs.promote("mnist.js", {model: "mnist.js", version: 1, entry: "guess"});
  const {outputs} = await client.models.infer("mnist.js", {picture: pictures}, {classes: {probabilities: 1}});
  console.log("written:", [...labels].join(" "));
  console.log(
    "guessed:",
    outputs.probabilities
      .flat()
      .map((text) => text.split(":")[1])
      .join(" "),
  );
}

const client = new Client();
await client.programs.put("mnist.js", buildProgram(await sendDigits(client)));
await train(client, Number(process.argv[2] ?? 2000));
await ask(client);
