// SPDX-License-Identifier: MIT
// The client beside servers that break: answers cut at every byte, wrong lengths, 503 and 429.
import assert from "node:assert/strict";
import {createServer} from "node:net";
import {after, test} from "node:test";
import {BeamlineError, Client, ConnectionError, Tensor, writeSafetensors} from "../../clients/js/beamline.js";

const OPEN = [];
after(() => OPEN.forEach((server) => server.close()));

/** A server on a free port. `answer(request, n)` gives the bytes of the answer to the n-th request, after which the connection closes. */
async function serve(answer) {
  const requests = [];
  const server = createServer((socket) => {
    let text = "";
    socket.on("error", () => {});
    socket.on("data", (data) => {
      text += data.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (end < 0 || text.length < end + 4 + length) return;
      const [method, path] = text.split(" ");
      requests.push({method, path, head: text.slice(0, end), body: text.slice(end + 4)});
      text = "";
      socket.end(answer(requests.at(-1), requests.length));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  OPEN.push(server);
  return {requests, url: `http://127.0.0.1:${server.address().port}`};
}

function reply(status, headers, body) {
  const bytes = Buffer.from(body);
  const lines = [
    `HTTP/1.1 ${status} Word`,
    `Content-Length: ${bytes.length}`,
    "Connection: close",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), bytes]);
}

function chunked(body) {
  const head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  const pieces = body.match(/[^]{1,40}/g).map((piece) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`);
  return Buffer.from(`${head}${pieces.join("")}0\r\n\r\n`);
}

const json = (status, document, headers = {}) =>
  reply(status, {"Content-Type": "application/json", ...headers}, JSON.stringify(document));
const problem = (status, members, headers) =>
  json(status, {type: "urn:x", title: "no", status, detail: "not now", ...members}, headers);
const DEVICES = json(200, {devices: [{id: "interp:0"}]});
const RUN = reply(
  200,
  {"Content-Type": "application/x-safetensors"},
  writeSafetensors(
    {y: Tensor.from([1, 2, 3])},
    {response: '{"outputs":{"y":{"dtype":"float32","shape":[3]}},"stats":{"plan":"cached"}}'},
  ),
);

async function atEveryByte(whole, check) {
  const cuts = Array.from({length: whole.length}, (_, i) => i);
  for (let at = 0; at < cuts.length; at += 64) await Promise.all(cuts.slice(at, at + 64).map(check));
}

test("a GET whose answer is cut at any byte is repeated", async () => {
  await atEveryByte(DEVICES, async (cut) => {
    const {url, requests} = await serve((_, n) => (n === 1 ? DEVICES.subarray(0, cut) : DEVICES));
    assert.deepEqual(await new Client({url}).devices(), [{id: "interp:0"}], `cut at ${cut}`);
    assert.equal(requests.length, 2);
  });
});

test("a run whose answer is cut at any byte is an error, and is not repeated", async () => {
  await atEveryByte(RUN, async (cut) => {
    const {url, requests} = await serve(() => RUN.subarray(0, cut));
    await assert.rejects(new Client({url}).run({nodes: [], outputs: []}), ConnectionError, `cut at ${cut}`);
    assert.equal(requests.length, 1);
  });
  const {url} = await serve(() => RUN);
  assert.deepEqual((await new Client({url}).run({nodes: [], outputs: []})).outputs.y.toArray(), [1, 2, 3]);
});

test("a numbered run whose answer is cut is repeated, with the same body", async () => {
  const {url, requests} = await serve((_, n) => (n === 1 ? RUN.subarray(0, RUN.length - 5) : RUN));
  await new Client({url}).programs.run("p", {x: [1]}, {seq: 4});
  assert.equal(requests.length, 2);
  assert.equal(requests[0].body, requests[1].body);
});

test("a cut problem document is a ConnectionError", async () => {
  const refusal = problem(422, {node: "y"});
  await atEveryByte(refusal, async (cut) => {
    const {url} = await serve(() => refusal.subarray(0, cut));
    await assert.rejects(new Client({url, retries: 0}).run({nodes: [], outputs: []}), ConnectionError, `cut at ${cut}`);
  });
});

test("a wrong Content-Length is an error", async () => {
  for (const [whole, ask] of [
    [DEVICES, (client) => client.devices()],
    [RUN, (client) => client.run({nodes: [], outputs: []})],
  ]) {
    const length = /Content-Length: (\d+)/.exec(whole.toString("latin1"))[1];
    for (const wrong of [
      Number(length) - 1,
      Number(length) - 5,
      Number(length) + 1,
      Number(length) + 1000,
      "x",
      "-1",
    ]) {
      const {url} = await serve(() =>
        Buffer.from(
          whole.toString("latin1").replace(`Content-Length: ${length}`, `Content-Length: ${wrong}`),
          "latin1",
        ),
      );
      await assert.rejects(ask(new Client({url, retries: 0})), ConnectionError, `${wrong} in place of ${length}`);
    }
  }
});

test("503 and 429 are repeated after Retry-After, and only then", async () => {
  for (const status of [503, 429]) {
    const {url, requests} = await serve((_, n) => (n === 1 ? problem(status, {}, {"Retry-After": "1"}) : RUN));
    const start = performance.now();
    await new Client({url}).run({nodes: [], outputs: []}, {x: Float32Array.of(1)});
    assert.ok(performance.now() - start >= 990);
    assert.equal(requests.length, 2);
    assert.equal(requests[0].body, requests[1].body);
  }
  for (const answer of [
    problem(503, {}),
    problem(503, {step: 3}, {"Retry-After": "1"}),
    problem(500, {}, {"Retry-After": "1"}),
  ]) {
    const {url, requests} = await serve(() => answer);
    await assert.rejects(new Client({url}).run({nodes: [], outputs: []}), BeamlineError);
    assert.equal(requests.length, 1);
  }
  const {url, requests} = await serve(() => problem(429, {}, {"Retry-After": "0"}));
  await assert.rejects(new Client({url, retries: 3}).devices(), {status: 429, retryAfter: 0});
  assert.equal(requests.length, 4);
});

test("a signal ends a wait, a request and a stream", async () => {
  const {url} = await serve(() => problem(503, {}, {"Retry-After": "5"}));
  await assert.rejects(new Client({url}).devices({signal: AbortSignal.timeout(50)}), {name: "TimeoutError"});
  const silent = createServer(() => {});
  await new Promise((resolve) => silent.listen(0, "127.0.0.1", resolve));
  OPEN.push(silent);
  await assert.rejects(
    new Client({url: `http://127.0.0.1:${silent.address().port}`}).devices({signal: AbortSignal.timeout(50)}),
    {name: "TimeoutError"},
  );
});

// ---- streams

const REPORTS = [10, 20, 30].map((step) => ({step, time: step / 10, metrics: {loss: 1 / step}}));
const state = (word) => `event: state\ndata: ${JSON.stringify({job: "j", state: word, step: 30})}\n\n`;

/** A server with a job that has three reports; its first stream of events is cut. */
function serveJob(cut) {
  let streams = 0;
  return serve(({path, head}) => {
    if (path === "/api/v1/jobs/j") return json(200, {job: "j", state: streams < 2 ? "running" : "done", step: 30});
    if (path.startsWith("/api/v1/jobs/j/history")) {
      const from = Number(new URL(path, "http://x").searchParams.get("from"));
      return json(200, {
        columns: ["step", "time", "loss"],
        rows: REPORTS.filter(({step}) => step >= from).map(({step, time, metrics}) => [step, time, metrics.loss]),
      });
    }
    const behind = Number(/last-event-id: (\d+)/i.exec(head)?.[1] ?? 0);
    const reports = REPORTS.filter(({step}) => step > behind).map(
      (report) => `id: ${report.step}\ndata: ${JSON.stringify(report)}\n\n`,
    );
    const whole = chunked(`${state("running")}${reports.join("")}: é\n\n${state("done")}`);
    return ++streams === 1 ? whole.subarray(0, cut) : whole;
  });
}

test("the events of a job resume after the last report, wherever the connection breaks", async () => {
  const whole = chunked(
    `${state("running")}${REPORTS.map((report) => `id: ${report.step}\ndata: ${JSON.stringify(report)}\n\n`).join("")}: é\n\n${state("done")}`,
  );
  await atEveryByte(whole, async (cut) => {
    const {url} = await serveJob(cut);
    const events = [];
    for await (const event of new Client({url}).jobs.events("j")) events.push(event);
    assert.deepEqual(
      events.filter(({type}) => type === "report").map(({data}) => data),
      REPORTS,
      `cut at ${cut}`,
    );
    assert.equal(events.at(-1).data.state, "done");
  });
});

test("a chat stream that is cut at any byte ends with an error", async () => {
  const chunks = ["Hel", "lo é", "!"].map((content) => ({choices: [{index: 0, delta: {content}}]}));
  const whole = chunked(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`);
  const ask = async (url) => {
    const got = [];
    try {
      for await (const chunk of new Client({url}).chat({model: "m", messages: []})) got.push(chunk);
      return {got, end: "done"};
    } catch (error) {
      return {got, end: error.name};
    }
  };
  const done = whole.indexOf("[DONE]") + "[DONE]".length;
  await atEveryByte(whole, async (cut) => {
    const {url} = await serve(() => whole.subarray(0, cut));
    const {got, end} = await ask(url);
    assert.deepEqual(got, chunks.slice(0, got.length));
    if (end === "done") assert.ok(cut > done, `cut at ${cut}`);
    else assert.equal(end, "ConnectionError");
  });
  assert.deepEqual(await ask((await serve(() => whole)).url), {got: chunks, end: "done"});
});

test("an error event in a stream", async () => {
  const {url} = await serve(() =>
    chunked('data: {"choices":[]}\n\ndata: {"error":{"message":"out of memory","type":"server_error","code":507}}\n\n'),
  );
  const stream = new Client({url}).completions({model: "m", prompt: "a"});
  assert.deepEqual((await stream.next()).value, {choices: []});
  await assert.rejects(stream.next(), {status: 507, detail: "out of memory", type: "server_error"});
});
