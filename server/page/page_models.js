// SPDX-License-Identifier: MIT
// Page "Models": the models, their states, and a form to try a model.
import {announce, button, chip, confirmed, facts, field, h, heading, morph, numbers, table} from "./dom.js";
import {bytes, count, duration, microseconds, percent, shape, short} from "./format.js";
import {may, optional, session} from "./session.js";
import {showChat} from "./chat.js";

const MOST_SHOWN = 64; // limit of output elements in a table; a larger output shows its largest elements
const LARGEST = 10;
const FLOATS = new Set(["FP16", "BF16", "FP32", "FP64"]);

export function showModels(root, rest, life) {
  if (rest[0]) return showModel(root, rest[0], life);
  const list = h("div", {class: "panel"});
  root.append(heading("Models"), h("p", {class: "lead"}, "What answers at /v2, and texts at /v1."), list);
  const again = life.poll(async (options) => {
    const index = await session.client.models.index(options);
    morph(list, table(["Model", "Version", "State", ""], index.map((model) => ({key: `${model.name}/${model.version}`, cells: [
      h("a", {href: `#/models/${encodeURIComponent(model.name)}`}, model.name), model.version ?? "", [chip(model.state), model.reason && h("div", {class: "quiet"}, model.reason)],
      may("admin", "train") && loadButtons(model, life, () => again())]})), {label: "Models", empty: "There is no model. Put one into the folder of --models, or promote a program."}));
  });
}

function loadButtons({name, state}, life, again) {
  const act = (action) => life.attempt(action).then(again);
  if (state === "READY") return button("Unload", async () => {
    if (await confirmed(`Unload the model ${name}, all versions?`, {word: name, action: "Unload"})) await act((options) => session.client.models.unload(name, options));
  }, {"aria-label": `Unload ${name}`});
  return button("Load", () => act((options) => session.client.models.load(name, options)), {"aria-label": `Load ${name}`});
}

async function showModel(root, name, life) {
  const top = h("div"), trial = h("section", {class: "panel"}), below = h("div");
  root.append(h("p", {}, h("a", {href: "#/models"}, "All models")), top, trial, below);
  const found = await life.attempt(async (options) => {
    const rows = (await session.client.models.index(options)).filter((each) => each.name === name);
    if (!rows.some((row) => row.state === "READY")) return {rows};
    const [metadata, config, texts] = await Promise.all([session.client.models.metadata(name, options), session.client.models.config(name, options), session.client.call("GET", "/v1/models", undefined, options)]);
    return {rows, metadata, config, text: texts.data.find((each) => each.id === name)};
  });
  if (!found) return;
  const {rows, metadata, config, text} = found;
  morph(top, heading(name, rows.map((row) => chip(row.state))), rows.map((row) => row.reason && h("p", {}, `Version ${row.version || "?"}: ${row.reason}`)));
  if (!metadata) {
    morph(trial, h("p", {}, "It does not answer now."));
    return;
  }
  if (text) showChat(trial, name, text, life);
  else drawTrial(trial, name, metadata, config, life);
  life.poll(async (options) => drawState(below, metadata, config, await session.client.models.statistics(name, options)), 5);
}

function drawState(place, metadata, config, versions) {
  morph(place, versions.map((each) => {
    const {success, queue, compute_infer: work, fail} = each.inference_stats;
    const mean = (part) => (part.count > 0 ? microseconds(part.ns / part.count / 1000) : "");
    return h("section", {class: "panel", key: each.version}, h("h2", {}, `Version ${each.version}`), facts([
      ["Answers", short(success.count)], ["Failures", fail.count ? short(fail.count) : undefined], ["Whole request, mean", mean(success)], ["of it waiting", mean(queue)], ["of it computing", mean(work)],
      ["Rows a run, mean", each.execution_count ? short(each.inference_count / each.execution_count) : undefined],
      ["Memory", (each.memory_usage ?? []).map((use) => `${bytes(use.byte_size)} on ${use.id}`).join(", ")], ["Batch", config.max_batch_size ? `up to ${config.max_batch_size}` : undefined]]),
    table(["Instance", "Device", "State", {text: "Runs", number: true}], (each.instance_stats ?? []).map((one) => [one.name, one.device, chip(one.state), short(one.execution_count)]), {label: "Instances"}),
    each.batch_stats?.length > 0 && numbers([{text: "Batch", number: true}, {text: "Runs", number: true}], each.batch_stats.map((batch) => [batch.batch_size, short(batch.compute_infer?.count)]), "Batch sizes"));
  }), h("section", {class: "panel", key: "takes"}, h("h2", {}, "Takes and gives"), table(["Name", "Type", "Shape"],
    [...metadata.inputs.map((each) => [`→ ${each.name}`, each.datatype, shape(each.shape)]), ...metadata.outputs.map((each) => [`← ${each.name}`, each.datatype, shape(each.shape)])], {label: "Takes and gives"})));
}

// ---- the form to try a model

function drawTrial(place, name, metadata, config, life) {
  const picture = config.parameters?.picture?.string_value;
  const answer = h("div", {"aria-live": "polite"});
  const entries = metadata.inputs.filter((input) => input.name !== picture).map((input) => [input, makeEntry(input)]);
  const file = h("input", {type: "file", accept: "image/png,image/jpeg"}), preview = h("img", {class: "preview", alt: "", hidden: true});
  file.onchange = () => {
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.hidden = !file.files[0];
    if (file.files[0]) preview.src = URL.createObjectURL(file.files[0]);
  };
  const ask = async (event) => {
    event.preventDefault();
    const began = performance.now();
    const result = await life.attempt(async (options) => (picture && file.files[0] ? {document: await askPicture(name, file.files[0], options)}
      : session.client.models.infer(name, Object.fromEntries(entries.map(([input, entry]) => [input.name, readEntry(input, entry.value)])), options)));
    if (!result) return;
    morph(answer, h("p", {class: "quiet"}, `Answered in ${duration((performance.now() - began) / 1000)}.`), result.document ? drawClasses(result.document) : Object.entries(result.outputs).map(drawOutput));
    announce("The model answered");
  };
  place.append(h("h2", {}, "Try it"), h("form", {onsubmit: ask, ondragover: (event) => event.preventDefault(), ondrop: (event) => {
    event.preventDefault();
    if (!picture || event.dataTransfer.files.length === 0) return;
    file.files = event.dataTransfer.files;
    file.onchange();
  }}, picture && field("Picture", file, "Choose one, or drop it here."), preview,
    entries.map(([input, entry]) => field(`${input.name}, ${input.datatype} ${shape(input.shape)}`, entry, input.datatype === "BYTES" ? "A text a line." : "Numbers as JSON; one number fills the shape; “random” draws it.")),
    h("div", {class: "row"}, h("button", {type: "submit", class: "main"}, "Ask"))), answer);
}

function sizes(input) {
  return input.shape.map((size) => (size < 0 ? 1 : size));
}

function makeEntry(input) {
  const size = sizes(input).reduce((product, each) => product * each, 1);
  const value = input.datatype === "BYTES" ? "" : size <= 16 ? JSON.stringify(fill(sizes(input), () => 0)) : FLOATS.has(input.datatype) ? "random" : "0";
  return h("textarea", {rows: input.datatype === "BYTES" ? 2 : 3, spellcheck: "false", value});
}

function fill(dims, draw) {
  return dims.length === 0 ? draw() : Array.from({length: dims[0]}, () => fill(dims.slice(1), draw));
}

function readEntry(input, text) {
  if (input.datatype === "BYTES") {
    const lines = text.split("\n").filter((line, i) => line || i === 0);
    return input.shape.length > 1 ? lines.map((line) => [line]) : lines;
  }
  if (text.trim() === "random") return fill(sizes(input), () => (FLOATS.has(input.datatype) ? Number((Math.random() * 2 - 1).toFixed(4)) : Math.floor(Math.random() * 10)));
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${input.name}: this is no JSON (${error.message})`);
  }
  return Array.isArray(value) ? value : fill(sizes(input), () => value);
}

async function askPicture(name, file, options) {
  const {bytes: body} = await session.client.connection.request("POST", `/v2/models/${encodeURIComponent(name)}/infer?classes=5`, {body: file, headers: {"Content-Type": file.type}, ...options});
  return JSON.parse(new TextDecoder().decode(body));
}

function bar(part) {
  return h("meter", {class: "bar", min: 0, max: 1, value: Math.max(0, Math.min(1, part)), "aria-label": percent(part)});
}

function drawClasses(document) {
  return document.outputs.map((output) => table(["Class", {text: "Score", number: true}, ""], (output.classes ?? []).map((each) => [each.label ?? each.index, short(each.score), bar(each.score)]), {label: output.name, caption: output.name}));
}

/** Show an output: all elements of a small output, or the largest elements of a larger output. */
function drawOutput([name, value]) {
  const flat = value.data ? Array.from(value.values(), Number) : [value].flat(Infinity);
  const title = `${name}${value.shape ? ` ${shape(value.shape)}` : ""}`;
  if (!value.data) return h("div", {}, h("h3", {}, title), flat.map((text) => h("pre", {tabindex: "0"}, text)));
  const rows = flat.map((each, i) => [i, each]);
  const shown = rows.length > MOST_SHOWN ? rows.sort((a, b) => b[1] - a[1]).slice(0, LARGEST) : rows;
  const most = Math.max(...shown.map(([, each]) => Math.abs(each)), 1e-30);
  return table([{text: "Index", number: true}, {text: "Value", number: true}, ""], shown.map(([i, each]) => [short(i), short(each), bar(Math.abs(each) / most)]),
    {label: title, caption: rows.length > MOST_SHOWN ? `${title}, the ${LARGEST} largest of ${count(rows.length, "element")}` : title});
}
