// SPDX-License-Identifier: MIT
// Page "Timeline": the turns of each device, of the compiler and of the search, and the waiting times of the requests of this
// key.
import {announce, button, download, h, heading, morph, numbers, seriesClass, swatch, toolbar} from "./dom.js";
import {duration, listed, microseconds, percent, short, shorter} from "./format.js";
import {session} from "./session.js";

const WINDOWS = [10, 60, 600, 3600]; // seconds
const AXIS = 22, LABEL = 20, LANE = 22, GAP = 8; // heights in pixels
const LETTER = 6.4, TICK = 110; // widths in pixels: a letter, the space of a tick
const SHORTEST = 5; // shortest time in view, in microseconds
const NEAR = 4; // largest distance in pixels between the pointer and the event that it selects
const MOST_ROWS = 300; // limit of rows in the table
const OTHER = new Set(["queue", "compiler", "search"]); // categories that are not devices

export function showTimeline(root, _, life) {
  const word = h("p", {class: "lead"}), place = h("div", {class: "panel"});
  let seconds = WINDOWS[0], text;
  const save = button("Download", () => download("trace.json", [text], "application/json"), {disabled: true});
  const look = async () => {
    const trace = await life.attempt((options) => session.client.trace(seconds, options));
    if (!trace) return;
    text = JSON.stringify(trace);
    save.disabled = false;
    const all = readTrace(trace, seconds);
    morph(word, summarize(all));
    place.hidden = all.spans.length === 0;
    place.replaceChildren(...drawTimeline(all, life.signal));
  };
  const choice = h("select", {"aria-label": "How far back", onchange: () => {
    seconds = Number(choice.value);
    look();
  }}, WINDOWS.map((each) => h("option", {value: each}, `The last ${duration(each)}`)));
  root.append(heading("Timeline", h("div", {class: "row"}, choice, button("Refresh", look), save)), word, place,
    h("p", {class: "quiet"}, "The download has the form of Chrome's trace events: ui.perfetto.dev and chrome://tracing open it."));
  return look();
}

/** Convert a trace to {tracks: [{name, lanes: [spans]}], spans, keys, start, end}. */
function readTrace({traceEvents, otherData}, seconds) {
  const {from_us: start, now_us: end} = otherData;
  const spans = traceEvents.filter((each) => each.ph === "X" && each.ts + each.dur > start).map((each) => ({...each, name: shorter(each.name)})).sort((a, b) => a.ts - b.ts);
  const tracks = new Map(), names = traceEvents.filter((each) => each.name === "thread_name").sort((a, b) => a.tid - b.tid);
  for (const {tid, args: {name}} of names) {
    const track = tracks.get(name) ?? {name, lanes: []};
    tracks.set(name, track);
    const lane = spans.filter((each) => each.tid === tid);
    if (lane.length > 0 || track.lanes.length === 0) track.lanes.push(lane);
  }
  return {tracks: [...tracks.values()], spans, keys: [...new Set(spans.map((each) => each.args.key))], start, end, seconds};
}

function summarize({spans, start, end, seconds}) {
  if (spans.length === 0) return `Nothing ran in the last ${duration(seconds)}.`;
  const busy = new Map();
  for (const {cat, ts, dur} of spans) if (!OTHER.has(cat)) busy.set(cat, (busy.get(cat) ?? 0) + ts + dur - Math.max(ts, start));
  const [longest] = spans.filter(({cat}) => cat !== "queue").sort((a, b) => b.dur - a.dur);
  const length = (end - start) / 1e6;
  return [length < seconds * 0.99 ? `The server still has the last ${duration(length)}: ` : `In the last ${duration(seconds)} `,
    listed([...busy].map(([name, time]) => `${name} worked ${percent(Math.min(1, time / (end - start)))} of the time`)) || "no device worked", ". ",
    longest && `The longest turn took ${microseconds(longest.dur)}: ${longest.name}${longest.args.key ? `, for ${longest.args.key}` : ""}.`];
}

function at(time, start) {
  return `${(Math.max(0, time - start) / 1e6).toFixed(6)} s`;
}

function describe({name, args, cat, ts, dur}, start) {
  return [name, cat === "queue" ? "waits" : cat, args.key || "the server", `at ${at(ts, start)}`, `takes ${microseconds(dur)}`].join(" · ");
}

/** Create the elements of a movable and scalable drawing, and its table. */
function drawTimeline(all, signal) {
  const {tracks, spans, keys, start, end} = all;
  const rows = tracks.flatMap(({name, lanes}) => lanes.map((lane, i) => ({lane, label: i === 0 && name})));
  let height = AXIS;
  for (const row of rows) {
    row.y = height += row.label ? LABEL + GAP : 0;
    height += LANE;
  }
  let from = start, to = end, width = 800, marked, drag, frame;
  const x = (time) => (time - from) / (to - from) * width;
  const svg = h("svg", {class: "timeline", height, "aria-hidden": "true"});
  const readout = h("p", {class: "readout"});
  const draw = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren(...drawAxis({from, to, start, width, height, x, seconds: end - start >= 1e6}), ...rows.flatMap((row) => drawRow(row, {width, x, keys})), ...drawMark(rows, marked, x));
      readout.textContent = marked ? describe(marked, start) : "Point at an event, or go to it with the arrow keys. Drag to move; Ctrl and the wheel scale.";
    });
  };
  const view = (begin, length) => {
    const span = Math.min(end - start, Math.max(SHORTEST, length));
    from = Math.min(end - span, Math.max(start, begin));
    to = from + span;
    draw();
  };
  const inView = () => marked && marked.ts < to && marked.ts + marked.dur > from;
  const scale = (factor, at = inView() ? x(marked.ts + marked.dur / 2) / width : 0.5) => view(from + (to - from) * (1 - factor) * at, (to - from) * factor);
  const move = (part) => view(from + (to - from) * part, to - from);
  const step = (by) => {
    marked = spans[Math.min(spans.length - 1, Math.max(0, (marked ? spans.indexOf(marked) : by > 0 ? -1 : spans.length) + by))];
    if (!inView()) view(marked.ts + marked.dur / 2 - (to - from) / 2, to - from);
    announce(describe(marked, start));
    draw();
  };
  const actions = {ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => scale(1 / 1.6), "=": () => scale(1 / 1.6), "-": () => scale(1.6), 0: () => view(start, end - start), ArrowDown: () => step(1), ArrowUp: () => step(-1)};
  svg.onwheel = (event) => {
    if (event.ctrlKey || event.metaKey) scale(event.deltaY > 0 ? 1.2 : 1 / 1.2, event.offsetX / width);
    else if (event.deltaX !== 0) move(event.deltaX / width);
    else return;
    event.preventDefault();
  };
  svg.onpointerdown = (event) => {
    drag = {x: event.offsetX, from};
    svg.onpointermove(event);
  };
  svg.onpointermove = (event) => {
    if (drag && event.buttons) return view(drag.from - (event.offsetX - drag.x) / width * (to - from), to - from);
    const row = rows.find(({y}) => event.offsetY >= y && event.offsetY < y + LANE), near = ({ts, dur}) => Math.max(x(ts) - event.offsetX, event.offsetX - x(ts + dur));
    marked = row?.lane.filter((each) => near(each) < NEAR).sort((a, b) => near(a) - near(b))[0];
    return draw();
  };
  const canvas = h("div", {class: "canvas", tabindex: "0", role: "group", "aria-label": "Timeline. Arrow keys left and right move it, plus and minus scale it, zero shows all of it, up and down go through its events.", onkeydown: (event) => {
    const action = event.target === canvas && !event.ctrlKey && !event.metaKey && !event.altKey && actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }}, svg);
  const observer = new ResizeObserver(() => {
    width = Math.max(200, svg.clientWidth);
    draw();
  });
  observer.observe(svg);
  signal.addEventListener("abort", () => observer.disconnect());
  return [h("div", {class: "row between"}, h("div", {class: "row"}, keys.map((key, i) => h("span", {class: "nowrap"}, swatch(i), " ", key || "the server"))),
    toolbar("View of the timeline", [["+", "Closer", actions["+"]], ["−", "Farther", actions["-"]], ["←", "Earlier", actions.ArrowLeft], ["→", "Later", actions.ArrowRight], ["All", "The whole timeline", actions[0]]])),
  canvas, readout,
  numbers([{text: "At", number: true}, {text: "Takes", number: true}, "What", "Where", "Key"], spans.slice(-MOST_ROWS).reverse().map((each) => [at(each.ts, start), microseconds(each.dur), each.name, each.cat, each.args.key]),
    `Events${spans.length > MOST_ROWS ? `, the last ${MOST_ROWS} of ${short(spans.length)}` : ""}`)];
}

/** Draw lines at round times. Their labels have enough digits to differ. */
function drawAxis({from, to, start, width, height, x, seconds}) {
  const least = (to - from) * TICK / width, power = 10 ** Math.floor(Math.log10(least)), step = power * [1, 2, 5, 10].find((each) => each * power >= least);
  const [unit, name] = seconds ? [1e6, "s"] : [1e3, "ms"], digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const ticks = [];
  for (let time = start + Math.ceil((from - start) / step) * step; time <= to; time += step) {
    ticks.push(h("line", {class: "grid", x1: x(time), x2: x(time), y1: AXIS - 4, y2: height}),
      x(time) < width - 50 && h("text", {class: "second", x: x(time) + 3, y: 12}, `${((time - start) / unit).toFixed(digits)} ${name}`));
  }
  return ticks.flat().filter(Boolean);
}

/** Draw a lane. Events that are too close to be distinguished become one mark. */
function drawRow({lane, label, y}, {width, x, keys}) {
  const bars = [];
  for (const span of lane) {
    const left = Math.max(0, x(span.ts)), right = Math.min(width, x(span.ts + span.dur)), last = bars.at(-1), series = keys.indexOf(span.args.key);
    if (right < 0 || left > width) continue;
    if (last?.series === series && left - last.right < 0.5 && right - left < 2 && last.span.cat === span.cat) last.right = Math.max(last.right, right);
    else bars.push({left, right, series, span});
  }
  return [label && h("text", {class: "second", x: 0, y: y - 6}, label), h("rect", {class: "lane", x: 0, y, width, height: LANE - 2}), ...bars.flatMap(({left, right, series, span}) => {
    const size = Math.max(1, right - left), letters = Math.floor((size - 8) / LETTER);
    return [h("rect", {class: `turn ${span.cat !== "queue" ? "" : size > 6 ? "wait " : "wait thin "}${seriesClass(series)}`, x: left.toFixed(2), y, width: size.toFixed(2), height: LANE - 2, rx: size > 6 ? 2 : 0}),
      letters > 3 && h("text", {x: left + 4, y: y + 14}, span.name.length > letters ? `${span.name.slice(0, letters - 1)}…` : span.name)];
  })].filter(Boolean);
}

function drawMark(rows, marked, x) {
  const row = marked && rows.find(({lane}) => lane.includes(marked));
  return row ? [h("rect", {class: "mark", x: x(marked.ts) - 1, y: row.y - 1, width: Math.max(3, x(marked.ts + marked.dur) - x(marked.ts) + 2), height: LANE})] : [];
}
