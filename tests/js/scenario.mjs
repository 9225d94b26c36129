// SPDX-License-Identifier: MIT
// What two people do on a server with keys: prints a line for each thing that they see. $BEAMLINE_URL is a server behind a wire that breaks,
// $DIRECT_URL the same without, $ADMIN_KEY its administrator's key. The transcript is scenario.txt, for clients of any language.
import {BeamlineError, Client, Graph, Program} from "../../clients/js/beamline.js";

const say = (...words) => console.log(words.join(" "));
const admin = new Client({url: process.env.DIRECT_URL, key: process.env.ADMIN_KEY});

async function makeKey(name, quotas) {
  return admin.keys.create({name, scopes: ["infer", "run", "train"], quotas});
}

/** What the server refuses: status and node or retryAfter. */
async function refusal(promise) {
  try {
    await promise;
    return "not refused";
  } catch (error) {
    if (!(error instanceof BeamlineError)) throw error;
    return [
      error.status,
      error.node && `node ${error.node}`,
      error.retryAfter !== undefined && "says when to come back",
    ]
      .filter(Boolean)
      .join(", ");
  }
}

function buildLine() {
  const program = new Program({w: [0], b: [0]});
  for (const entry of ["train", "guess"]) {
    const g = program.entry(entry);
    const x = g.input("x", [4]);
    const p = x.mul(g.state("w")).add(g.state("b"));
    if (entry === "guess") {
      g.output({p});
      continue;
    }
    const loss = p
      .sub(g.input("t", [4]))
      .square()
      .mean();
    const [w, b] = loss.sgd([g.state("w"), g.state("b")], 0.1);
    g.update({w, b}).output({loss});
  }
  return program;
}

const alice = new Client({key: await makeKey("alice", {}), retries: 20});
const direct = new Client({url: process.env.DIRECT_URL, key: alice.connection.key});
await direct.programs.put("line", buildLine());
const {job} = await direct.jobs.submit({
  program: "line",
  entry: "train",
  steps: 5000,
  inputs: {x: [0, 1, 2, 3], t: [1, 3, 5, 7]},
  collect: {every: 100, outputs: ["loss"]},
});

// The wire breaks in the midst of it: a report is neither lost nor told twice.
const steps = [];
for await (const {step} of alice.jobs.reports(job)) steps.push(step);
say(
  "reports",
  steps.length,
  "from",
  steps[0],
  "to",
  steps.at(-1),
  steps.every((step, i) => step === 100 * (i + 1)) ? "in order" : "out of order",
);

const {version} = await alice.programs.promote("line", {model: "line", version: 1, entry: "guess"});
const {outputs} = await alice.models.infer("line", {x: Float32Array.of(0, 1, 2, 10)});
say(
  "promoted version",
  version,
  "answers",
  outputs.p
    .toArray()
    .map((value) => value.toFixed(2))
    .join(" "),
);

const bob = new Client({key: await makeKey("bob", {memory: 4096}), retries: 0, url: process.env.DIRECT_URL});
say("a stranger's model:", await refusal(bob.models.infer("alice:line", {x: [0, 1, 2, 3]})));
await alice.shares.add({model: "line"}, "bob");
say(
  "a shared model answers",
  (await bob.models.infer("alice:line", {x: [0, 1, 2, 3]})).outputs.p.toArray().map(Math.round).join(" "),
);
await alice.tensors.put("w", [
  [1, 2],
  [3, 4],
]);
await alice.shares.add({tensor: "w"}, "bob");
say("a shared tensor", JSON.stringify((await bob.tensors.get("alice:w")).toArray()));
await alice.shares.remove({tensor: "w"}, "bob");
say("a tensor that is shared no more:", await refusal(bob.tensors.get("alice:w")));

await bob.tensors.put("small", new Float32Array(512));
say("over quota:", await refusal(bob.tensors.put("large", new Float32Array(1024))));

await admin.keys.change("bob", {quotas: {memory: null}});
await bob.tensors.put("large", new Float32Array(1024));
say("without a quota:", (await bob.tensors.list()).length, "tensors");
const renewed = new Client({key: await admin.keys.rotate("bob"), url: process.env.DIRECT_URL});
say("with an old secret:", await refusal(bob.me()), "- with the new one:", (await renewed.me()).name);

const g = new Graph();
g.output({y: g.input("x").matmul(g.input("z"))});
say("a graph that cannot be:", await refusal(renewed.run(g, {x: [[1, 2]], z: [[1, 2]]})));

const digest = await alice.blobs.upload(new Uint8Array(200000).fill(7));
say("uploaded", (await alice.blobs.get(digest)).length, "bytes");

await admin.keys.revoke("bob", {purge: true});
say("a key that was revoked:", await refusal(renewed.me()));
