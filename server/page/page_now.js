// SPDX-License-Identifier: MIT
// Page "Now": whether each device is free, which keys use it, and until when.
import {chip, facts, h, heading, morph, numbers, seriesClass, swatch} from "./dom.js";
import {bytes, clock, count, duration, listed, percent, shorter} from "./format.js";
import {optional, session} from "./session.js";

const SECONDS = 600;    // length of the shown history
const FREE_BELOW = 0.05; // a device with a smaller busy share counts as free

export function showNow(root, _, life) {
  const headline = h("h1", {tabindex: "-1", class: "headline"}, "Looking…");
  const under = h("p", {class: "lead"});
  const devices = h("div", {class: "stack"});
  root.append(headline, under, devices);
  let history;
  life.poll(async (options) => { history = await optional(session.client.nowHistory(SECONDS, options)); }, 5);
  return life.poll(async (options) => {
    const now = await optional(session.client.now(options)) ?? await withoutNow(options);
    const [main, ...others] = [...now.devices].sort((a, b) => Number(b.default ?? false) - Number(a.default ?? false));
    morph(headline, main ? sentence(main) : "There is no device.");
    morph(under, describeRest(now, others));
    morph(devices, [main, ...others].filter(Boolean).map((device) => drawDevice(device, history?.devices?.find((each) => each.id === device.id), history)));
  });
}

/** The devices alone, for a server without the route /api/v1/now. */
async function withoutNow(options) {
  const devices = await session.client.devices(options);
  return {devices: devices.map((device) => ({...device, keys: []})), time: Date.now() / 1000};
}

function isFree(device) {
  return !(device.busy >= FREE_BELOW) && !device.queue;
}

/** Describe a device: "opencl:0 is 73 % busy: alice trains net and bob asks mood." */
function sentence(device) {
  if (device.state && device.state !== "ready") return `${device.id} is ${device.state}.`;
  const active = (device.keys ?? []).filter((key) => key.busy >= 0.01 || key.queue > 0);
  if (device.busy === undefined) return `${device.id} is here.`;
  if (isFree(device)) return `${device.id} is free.`;
  if (active.length > 0 && active.every((key) => !key.what?.length)) {
    return `${device.id} is ${percent(device.busy)} busy: ${listed(active.map(nameOf))} ${active.length > 1 ? "use" : "uses"} it.`;
  }
  const who = active.map((key) => `${nameOf(key)} ${key.what?.length ? listed([...new Set(key.what.map(verb))].slice(0, 2)) : "uses it"}`.trim());
  return `${device.id} is ${percent(device.busy)} busy${who.length ? `: ${listed(who)}` : ""}.`;
}

/** Turn a purpose into a verb phrase: "job 4f2a of net" gives "trains net". */
function verb(what) {
  const [, job, model, program] = /^(?:job \S+ of (.+?)|model (.+?)|run of (.+?))(?: \(\d+\))?$/.exec(what) ?? [];
  return job ? `trains ${job}` : model ? `asks ${model}` : program ? `runs ${program}` : what;
}

function nameOf(key) {
  return key.name ?? (key.mine ? "someone" : "the server");
}

function describeRest(now, others) {
  const words = [];
  const free = others.filter(isFree).map((device) => device.id);
  if (free.length > 0) words.push(`${listed(free)} ${free.length === 1 ? "is" : "are"} free too. `);
  if (now.jobs > 0) words.push(h("a", {href: "#/jobs"}, count(now.jobs, "job")), now.jobs === 1 ? " runs. " : " run. ");
  if (now.models > 0) words.push(h("a", {href: "#/models"}, count(now.models, "model")), now.models === 1 ? " answers. " : " answer. ");
  if (now.uptime) words.push(`The server has been up for ${duration(now.uptime)}.`);
  return words;
}

function drawDevice(device, past, history) {
  const keys = order(device, past);
  const until = device.free_in === undefined || device.free_in === null ? undefined : device.free_in <= 0 ? "now" : `~ ${clock(Date.now() / 1000 + device.free_in)}, in ${duration(device.free_in)}`;
  return h("section", {class: "panel", key: device.id, "aria-label": device.id},
    h("div", {class: "row between"},
      h("h2", {}, device.id, h("span", {class: "quiet"}, ` ${device.name ?? ""}`)),
      chip(device.state && device.state !== "ready" ? device.state : isFree(device) ? "free" : "busy")),
    facts([
      ["Busy", device.busy === undefined ? undefined : percent(device.busy)],
      ["Waiting", device.queue === undefined ? undefined : count(device.queue, "request")],
      ["Memory", device.memory_used === undefined ? undefined : `${bytes(device.memory_used)} of ${bytes(device.memory)}`],
      ["Moved to host", device.memory_moved ? bytes(device.memory_moved) : undefined],
      ["Free", device.busy >= FREE_BELOW ? until : undefined],
    ]),
    past && drawPast(device, past, history, keys),
    (device.keys ?? []).length > 0 && drawKeys(device, keys));
}

/** The names of the keys in the order of their colours: first the keys of the history, then the current keys. */
function order(device, past) {
  return [...new Set([...(past?.keys ?? []).map((key) => key.name), ...(device.keys ?? []).map((key) => key.name)])];
}

function drawKeys(device, keys) {
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": `Who uses ${device.id}`},
    h("table", {}, h("thead", {}, h("tr", {}, ["Who", "For", "Busy", "Waiting", "Memory"].map((text, i) => h("th", {scope: "col", class: i > 1 && "number"}, text)))),
      h("tbody", {}, device.keys.map((key) => h("tr", {key: key.name ?? ""},
        h("td", {class: "nowrap"}, swatch(keys.indexOf(key.name)), " ", key.mine && key.name ? h("strong", {}, `${key.name} (you)`) : nameOf(key)),
        h("td", {}, (key.what ?? []).map((what) => [describeWhat(what, key.mine), " "])),
        h("td", {class: "number"}, percent(key.busy)), h("td", {class: "number"}, key.queue || ""), h("td", {class: "number"}, bytes(key.memory_used)))))));
}

/** Show a purpose such as "job 4f2a of net". Jobs and models of the own key are links. */
function describeWhat(what, mine) {
  const [, kind, name] = /^(job|model) (\S+)/.exec(what) ?? [];
  return h("span", {class: "tag"}, mine && kind ? h("a", {href: `#/${kind}s/${encodeURIComponent(name)}`}, shorter(what)) : shorter(what));
}

// ---- the last ten minutes

const WIDTH = 640, HEIGHT = 96; // units of the drawing, which is stretched to its place

function drawPast(device, past, history, keys) {
  const samples = past.busy?.length ?? 0;
  if (samples < 2) return h("p", {class: "quiet"}, "The curve begins now.");
  const span = samples * history.interval;
  const used = (past.memory_used ?? []).map((each) => each / (device.memory || 1));
  return h("div", {class: "two"},
    figure(`Busy, last ${duration(span)}, by key`, drawBusy(past, keys), span),
    used.length > 1 && figure(`Memory, last ${duration(span)}`, drawing("Memory in use", [area(used.map(() => 0), used, 6)]), span),
    numbers([{text: "Ago"}, {text: "Busy", number: true}, ...past.keys.map((key) => ({text: key.name ?? "the server", number: true})), {text: "Memory", number: true}],
      minutes(past, history), `Busy share of ${device.id}`));
}

function figure(title, chart, span) {
  return h("figure", {}, h("figcaption", {}, title), h("div", {class: "plot"}, h("span", {class: "top-label"}, "100 %"), chart),
    h("div", {class: "row between axis"}, h("span", {}, `${duration(span)} ago`), h("span", {}, "now")));
}

function drawing(label, paths) {
  return h("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "area"},
    h("line", {x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "grid"}), paths);
}

/** Draw the busy shares of the keys as stacked areas. The busy share without a key is a grey area on top of them. */
function drawBusy(past, keys) {
  const paths = [];
  let base = past.busy.map(() => 0);
  for (const key of past.keys ?? []) {
    const top = base.map((each, i) => Math.min(1, each + (key.busy[i] ?? 0)));
    paths.push(area(base, top, keys.indexOf(key.name)));
    base = top;
  }
  const whole = past.busy.map((each, i) => Math.max(each ?? 0, base[i]));
  return drawing("Busy share over time", [area(base, whole, undefined), ...paths]);
}

function area(base, top, series) {
  const x = (i) => (i * WIDTH / Math.max(1, top.length - 1)).toFixed(1), y = (value) => (HEIGHT - value * (HEIGHT - 2)).toFixed(1);
  const up = top.map((value, i) => `${x(i)} ${y(value)}`), down = base.map((value, i) => `${x(i)} ${y(value)}`).reverse();
  return h("path", {d: `M${up.join("L")}L${down.join("L")}Z`, class: series === undefined ? "area-rest" : `area-fill ${seriesClass(series)}`});
}

/** The means of whole minutes, latest first. */
function minutes(past, {interval}) {
  const step = Math.max(1, Math.round(60 / interval)), rows = [];
  const mean = (values, from) => values.slice(from, from + step).reduce((sum, each) => sum + (each ?? 0), 0) / Math.min(step, values.length - from);
  for (let from = past.busy.length - step; from > -step; from -= step) {
    const at = Math.max(0, from);
    rows.push([duration((past.busy.length - at) * interval), percent(mean(past.busy, at)), ...past.keys.map((key) => percent(mean(key.busy, at))), bytes(mean(past.memory_used ?? [], at))]);
  }
  return rows;
}
