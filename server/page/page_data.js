// SPDX-License-Identifier: MIT
// Page "Data": retained tensors, blobs, and shares.
import {button, confirmed, h, heading, morph, numbers, table} from "./dom.js";
import {bytes, clock, count, shape, short} from "./format.js";
import {session} from "./session.js";

const MOST_ELEMENTS = 1 << 26; // limit of elements of a tensor for a histogram
const BINS = 32;

export function showData(root, _, life) {
  const places = [h("section", {class: "panel"}), h("section", {class: "panel"}), h("section", {class: "panel"})], picture = h("div");
  root.append(heading("Data"), h("p", {class: "lead"}, "Tensors that stay on the server between requests, and the bytes that they were made of."), picture, ...places);
  const again = life.poll(async (options) => {
    const {client} = session;
    const [tensors, blobs, shares] = [await client.tensors.list(options), await client.blobs.list(options), await client.shares.list(options)];
    const whole = tensors.reduce((sum, each) => sum + Number(each.bytes), 0);
    morph(places[0], h("h2", {}, "Tensors", tensors.length > 0 && h("span", {class: "quiet"}, ` ${count(tensors.length, "tensor")}, ${bytes(whole)}`)), table(
      ["Name", "Type", "Shape", {text: "Size", number: true}, "Device", "Notes", ""],
      tensors.map((each) => ({key: each.name, cells: [h("code", {}, each.name), each.dtype, shape(each.shape), bytes(each.bytes), each.device ?? "",
        [each.durable && h("span", {class: "tag"}, "durable"), each.moved && h("span", {class: "tag"}, "on the host"), each.lease && h("span", {class: "tag"}, "leased"), each.owner && h("span", {class: "tag"}, `of ${each.owner}`)],
        h("div", {class: "row"}, button("Histogram", () => showHistogram(picture, each, life), {"aria-label": `Histogram of ${each.name}`}),
          button("Free", () => free(each.name, life).then(() => again()), {"aria-label": `Free ${each.name}`}))]})),
      {label: "Tensors", empty: "No tensor is held. PUT /api/v1/tensors/NAME holds one."}));
    morph(places[1], h("h2", {}, "Blobs"), table(["Digest", {text: "Size", number: true}, {text: "Sent", number: true}],
      blobs.map((each) => ({key: each.digest, cells: [h("code", {}, each.digest.slice(0, 26), "…"), bytes(each.bytes), clock(each.created)]})), {label: "Blobs", empty: "There is no blob."}));
    morph(places[2], h("h2", {}, "Shared"), table(["What", "Name", "From", "To"],
      [...(shares.given ?? []).map((each) => [...thing(each), "you", each.to ?? ""]), ...(shares.taken ?? []).map((each) => [...thing(each), each.from ?? each.owner ?? "", "you"])], {label: "Shares", empty: "Nothing is shared."}));
  }, 4);
}

function thing(share) {
  const kind = ["tensor", "program", "model", "job"].find((each) => share[each] !== undefined) ?? share.kind ?? "";
  return [kind, share[kind] ?? share.name ?? ""];
}

async function free(name, life) {
  if (await confirmed(`Free the tensor ${name}?`, {action: "Free it"})) await life.attempt(async (options) => [await session.client.tensors.delete(name, options)]);
}

/**
 * Show a histogram in two runs on the server: minimum, maximum and mean, then the number of elements in each bin. No elements
 * are sent.
 */
async function showHistogram(place, {name, shape: dims}, life) {
  const size = dims.reduce((product, each) => product * each, 1);
  if (size === 0 || size > MOST_ELEMENTS) {
    morph(place, h("p", {class: "quiet"}, `${name} has ${count(size, "element")}; a histogram takes 1 to ${short(MOST_ELEMENTS)}.`));
    return;
  }
  const floats = [{id: "x", op: "cast", in: ["t"], attrs: {dtype: "float32"}}], inputs = {t: {tensor: name}};
  const found = await life.attempt(async (options) => {
    const spread = await session.client.run({nodes: [...floats, {id: "low", op: "min", in: ["x"]}, {id: "high", op: "max", in: ["x"]}, {id: "mean", op: "mean", in: ["x"]}], outputs: ["low", "high", "mean"]}, inputs, options);
    const [low, high, mean] = ["low", "high", "mean"].map((each) => Number(spread.outputs[each].values()[0]));
    if (!Number.isFinite(low) || !Number.isFinite(high)) throw new Error(`${name} has elements that are not finite: from ${low} to ${high}`);
    const step = (high - low) / BINS || 1;
    const nodes = [...floats, {id: "flat", op: "reshape", in: ["x"], attrs: {shape: [size]}}], outputs = [];
    for (let i = 0; i < BINS; i++) {
      nodes.push({id: `a${i}`, op: "less", in: ["flat", i === BINS - 1 ? high + Math.abs(step) : low + (i + 1) * step]}, {id: `b${i}`, op: "cast", in: [`a${i}`], attrs: {dtype: "int32"}}, {id: `c${i}`, op: "sum", in: [`b${i}`]});
      outputs.push(`c${i}`);
    }
    const {outputs: below} = await session.client.run({nodes, outputs}, inputs, options);
    const sums = outputs.map((each) => Number(below[each].values()[0]));
    return {low, high, mean, step, counts: sums.map((each, i) => each - (sums[i - 1] ?? 0))};
  });
  if (!found) return;
  const most = Math.max(...found.counts, 1);
  morph(place, h("section", {class: "panel", "aria-label": `Histogram of ${name}`}, h("div", {class: "row between"}, h("h2", {}, name), button("Close", () => morph(place))),
    h("p", {class: "quiet"}, `from ${short(found.low)} to ${short(found.high)}, mean ${short(found.mean)}, ${count(size, "element")}`),
    h("svg", {class: "histogram", viewBox: `0 0 ${BINS * 20} 120`, preserveAspectRatio: "none", role: "img", "aria-label": "Histogram"},
      found.counts.map((each, i) => h("rect", {x: i * 20 + 1, width: 18, y: 120 - each / most * 118, height: each / most * 118}))),
    h("div", {class: "row between axis"}, h("span", {}, short(found.low)), h("span", {}, short(found.high))),
    numbers([{text: "From", number: true}, {text: "Elements", number: true}], found.counts.map((each, i) => [short(found.low + i * found.step), short(each)]), `Histogram of ${name}`)));
}
