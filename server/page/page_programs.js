// SPDX-License-Identifier: MIT
// Page "Programs": the states of the programs, the plans of their entries, and the time and the limit of each kernel.
import {button, facts, h, heading, morph, numbers, seriesClass, swatch, table} from "./dom.js";
import {bytes, count, microseconds, percent, shape, short} from "./format.js";
import {optional, session} from "./session.js";
import {drawGraph} from "./graph.js";

export function showPrograms(root, rest, life) {
  if (rest[0]) return showProgram(root, rest[0], rest[1], life);
  const list = h("div", {class: "panel"});
  root.append(heading("Programs"), h("p", {class: "lead"}, "Graphs with a name and a state. A program shows how each of its entries is computed."), list);
  return life.poll(async (options) => {
    const programs = await session.client.programs.list(options);
    morph(list, table(["Program", "Device", {text: "State", number: true}, {text: "Steps", number: true}], programs.map((each) => ({key: each.name, cells: [h("a", {href: `#/programs/${encodeURIComponent(each.name)}`}, each.name), each.device, bytes(each.bytes), short(each.steps)]})),
      {label: "Programs", empty: "There is no program. PUT /api/v1/programs/NAME defines one."}));
  }, 4);
}

async function showProgram(root, name, wanted, life) {
  const program = await life.attempt((options) => session.client.programs.get(name, options));
  if (!program) return;
  const entries = Object.keys(program.entries), entry = entries.includes(wanted) ? wanted : entries[0];
  const about = program.entries[entry];
  root.append(h("p", {}, h("a", {href: "#/programs"}, "All programs")), heading(name, entries.length > 1 && h("nav", {class: "tabs", "aria-label": "Entries"}, entries.map((each) =>
    h("a", {href: `#/programs/${encodeURIComponent(name)}/${encodeURIComponent(each)}`, "aria-current": each === entry ? "true" : undefined}, each)))));
  const word = h("p", {class: "lead"}), kernels = h("section", {class: "panel"}), detail = h("section", {class: "panel", "aria-live": "polite"}), graph = h("div");
  root.append(word, facts([["Kernels", about.kernels], ["Memory in between", bytes(about.peak_bytes)], ["Compiled in", about.compile_ms ? `${short(Number(about.compile_ms.toPrecision(3)))} ms` : undefined], ["Steps", short(program.steps)], ["Device", program.device]]),
    kernels, detail, h("section", {class: "panel"}, h("h2", {}, "Graph, coloured by kernel"), graph), drawValues(program, about));
  detail.hidden = true;
  const plan = await life.attempt((options) => optional(session.client.programs.plan(name, {entry, ...options})));
  if (!plan) {
    graph.replaceChildren(h("p", {class: "quiet"}, "This server does not tell which node went into which kernel."));
    drawKernels({kernels, word}, fromProfile(about), () => {});
    return;
  }
  let mark = () => {};
  const view = {kernels, word, detail};
  const choose = (index) => {
    mark(index);
    drawDetail(detail, plan.kernels.find((each) => each.index === index));
  };
  const rank = drawKernels(view, plan.kernels.map((each) => ({...each, whole: (each.us ?? 0) * (each.launches || 1)})), choose);
  mark = await life.attempt(() => drawGraph(graph, plan, rank, choose, life.signal)) ?? mark;
}

/** The kernels of a server that does not report plans. */
function fromProfile({profile = []}) {
  return profile.map((each, index) => ({index, ...each, whole: each.us * each.launches, flops: each.gflop_s * each.us * 1e3, bytes: each.gbyte_s * each.us * 1e3, moves: [each.moves].filter(Boolean)}));
}

const REASONS = {memory: "memory traffic limits it", compute: "arithmetic limits it", launch: "it is so short that its launch limits it"};

/**
 * Draw the table of kernels and the sentence above it. Returns a map from kernel to series, ordered from the slowest kernel.
 */
function drawKernels({kernels, word}, all, choose) {
  const sorted = [...all].sort((a, b) => b.whole - a.whole), sum = sorted.reduce((total, each) => total + each.whole, 0);
  const rank = new Map(sorted.map((each, i) => [each.index, i])), slowest = sorted[0];
  if (slowest && sum > 0) {
    morph(word, `A step takes ${microseconds(sum)} in kernels. `, h("strong", {}, slowest.name), ` takes ${percent(slowest.whole / sum)} of it`,
      slowest.bound ? `: ${REASONS[slowest.bound] ?? slowest.bound}, at ${percent(slowest.share_of_peak)} of what the device could do.` : ".");
  } else morph(word, "No step was timed yet: run the program, and the times appear.");
  morph(kernels, h("h2", {}, "Kernels"), table(["Kernel", {text: "Time", number: true}, {text: "Share", number: true}, "", {text: "Of peak", number: true}, "Limit", {text: "GFLOP/s", number: true}, {text: "GB/s", number: true}],
    sorted.map((each) => ({key: each.index, cells: [
      h("span", {class: "nowrap"}, swatch(rank.get(each.index)), " ", each.nest !== undefined || each.nodes ? button(each.name, () => choose(each.index), {class: "plain link"}) : each.name, each.helper && h("span", {class: "quiet"}, " helper")),
      each.us ? [microseconds(each.us), each.launches > 1 && h("div", {class: "quiet"}, `${each.launches} times`)] : "", sum > 0 ? percent(each.whole / sum) : "",
      sum > 0 && h("div", {class: "share", "aria-hidden": "true"}, h("div", {class: seriesClass(rank.get(each.index)), style: {width: `${each.whole / sum * 100}%`}})),
      percent(each.share_of_peak), each.bound ?? "", each.us ? short(Number((each.flops / each.us / 1e3).toPrecision(3))) : "", each.us ? short(Number((each.bytes / each.us / 1e3).toPrecision(3))) : ""]})),
    {label: "Kernels", empty: "There is no kernel."}));
  return rank;
}

function drawDetail(place, kernel) {
  place.hidden = false;
  morph(place, h("div", {class: "row between"}, h("h2", {}, kernel.name), button("Close", () => { place.hidden = true; })),
    facts([["Time", kernel.us ? microseconds(kernel.us) : "not measured"], ["Limit", kernel.bound ? REASONS[kernel.bound] ?? kernel.bound : undefined], ["Of peak", percent(kernel.share_of_peak)], ["Operations", short(kernel.flops)], ["Traffic", bytes(kernel.bytes)], ["Nodes", kernel.nodes.length], ["Key", kernel.key]]),
    h("h3", {}, "Moves"), kernel.moves.length > 0 ? h("p", {}, kernel.moves.map((each) => [h("span", {class: "tag mono"}, each), " "])) : h("p", {class: "quiet"}, "None: the nest is computed as it is."),
    h("h3", {}, "Nodes"), h("p", {class: "mono"}, kernel.nodes.slice(0, 60).join(", "), kernel.nodes.length > 60 && ` and ${kernel.nodes.length - 60} more`),
    h("div", {class: "side-by-side even"}, drawText("Nest", kernel.nest), drawText("Source", kernel.source)));
  place.scrollIntoView({block: "nearest"});
}

function drawText(title, text) {
  return h("div", {}, h("h3", {}, title), text === null ? h("p", {class: "quiet"}, "This key does not see it (--key-debug).") : text ? h("pre", {tabindex: "0", "aria-label": title}, highlight(text)) : h("p", {class: "quiet"}, "There is none."));
}

const TOKEN = /(\/\*[\s\S]*?\*\/|\/\/.*|;.*$)|\b(for|if|else|return|void|const|__kernel|__global|__local|restrict|layout|shared|uniform|int|uint|long|float\d*|half|char|bool|barrier)\b|\b(\d[\w.]*)/gm;

/** Highlight the comments, keywords and numbers of a text. */
function highlight(text) {
  const parts = [];
  let at = 0;
  for (const match of text.slice(0, 60000).matchAll(TOKEN)) {
    parts.push(text.slice(at, match.index), h("span", {class: match[1] ? "comment" : match[2] ? "word" : "digits"}, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at)];
}

function drawValues(program, about) {
  const rows = Object.entries(about.inputs ?? {}).map(([name, {dtype, shape: dims}]) => [name, "input", dtype, shape(dims), ""]);
  const state = Object.entries(program.state ?? {}).map(([name, {dtype, shape: dims, bytes: size}]) => [name, about.updates?.includes(name) ? "state, updated" : "state", dtype, shape(dims), size === undefined ? "" : bytes(size)]);
  return h("section", {class: "panel"}, h("h2", {}, "Inputs and state"), table(["Name", "What", "Type", "Shape", {text: "Size", number: true}], [...rows, ...state], {label: "Inputs and state", empty: "It takes nothing."}),
    h("p", {class: "quiet"}, `Gives ${(about.outputs ?? []).join(", ") || "nothing"}.`));
}
