// SPDX-License-Identifier: MIT
// Texts of a language model as they are written. In: {files} of a model that writes the alphabet.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";
import {Client} from "../../clients/js/beamline.js";

const {files} = JSON.parse(readFileSync(0));
const client = new Client();
const CHAT = {model: "letters", messages: [{role: "user", content: "hello"}], temperature: 0}; // as ChatML it ends with "assistant", and u follows t

async function collect(stream) {
  const found = [];
  for await (const each of stream) found.push(each);
  return found;
}

async function streams() {
  const {bytes} = await client.connection.request("GET", "/metrics");
  return Number(/^beamline_streams (\d+)$/m.exec(new TextDecoder().decode(bytes))[1]);
}

test("a model from files of the client", async () => {
  await client.models.load("letters", {files});
  assert.deepEqual(
    (await client.call("GET", "/v1/models")).data.map(({id}) => id),
    ["letters"],
  );
});

test("generate and stream", async () => {
  const answer = await client.models.generate("letters", {text_input: "ab", max_tokens: 3});
  assert.deepEqual([answer.text_output, answer.finish_reason], ["abcde", "length"]);
  const events = await collect(client.models.stream("letters", {text_input: "x", max_tokens: 50}));
  assert.deepEqual(
    events.map(({text_output: text}) => text),
    ["y", "z", "é", " ", ""],
  );
  assert.equal(events.at(-1).finish_reason, "stop");
});

test("chat and completions", async () => {
  const chunks = await collect(client.chat({...CHAT, max_tokens: 4, stream_options: {include_usage: true}}));
  assert.equal(chunks.map(({choices}) => choices[0]?.delta.content ?? "").join(""), "uvwx");
  assert.equal(chunks.at(-1).usage.completion_tokens, 4);
  const written = await collect(client.completions({model: "letters", prompt: "abc", max_tokens: 3, temperature: 0}));
  assert.equal(written.map(({choices}) => choices[0].text).join(""), "def");
  const whole = await client.call("POST", "/v1/chat/completions", {...CHAT, max_tokens: 2});
  assert.equal(whole.choices[0].message.content, "uv");
});

test("a refusal of OpenAI's API", async () => {
  const long = client.completions({model: "letters", prompt: "a".repeat(64)});
  await assert.rejects(
    long.next(),
    (error) => error.status === 400 && error.type === "exceed_context_size_error" && /context size/.test(error.detail),
  );
});

test("leaving the loop or aborting ends the text", async () => {
  const long = {...CHAT, messages: [{role: "user", content: ""}], ignore_eos: true, max_tokens: 40};
  for await (const chunk of client.chat(long)) {
    assert.ok(chunk.choices);
    break;
  }
  const abort = new AbortController();
  await assert.rejects(async () => {
    for await (const chunk of client.chat(long, {signal: abort.signal}))
      abort.abort(new Error(`enough of ${chunk.model}`));
  }, /enough of letters/);
  for (let tries = 0; (await streams()) > 0; tries++) {
    assert.ok(tries < 200, "the streams do not end");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
