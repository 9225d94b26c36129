// SPDX-License-Identifier: MIT
// Page of a job: its curves, updated as reports arrive, its progress, and its actions.
import {announce, button, chip, confirmed, download, facts, field, h, heading, morph, numbers, table} from "./dom.js";
import {bytes, clock, count, duration, percent, short} from "./format.js";
import {clearNotice, notice, optional, session} from "./session.js";
import {Chart, loadPlot, smooth} from "./chart.js";

const POINTS = 500;     // number of points that the page asks for in a curve
const MOST_ROWS = 2000; // after this many rows the page asks again for the curve, reduced to POINTS
const MOST_ELEMENTS = 8; // limit of curves of a metric that is a list
const FRAME = 250;      // milliseconds between two drawings
const ENDED = new Set(["done", "failed", "cancelled"]);

/** The reports of a job: one row for each report, and the names of the columns. */
class Curves {
  constructor(id) {
    this.id = id;
    this.columns = ["step", "time"];
    this.rows = [];
  }

  async load(options) {
    const {columns, rows} = await session.client.jobs.history(this.id, {points: POINTS, ...options});
    Object.assign(this, {columns: columns.slice(0, 2), rows: []});
    for (const [step, time, ...values] of rows) {
      const row = [step, time];
      this.rows.push(row);
      values.forEach((value, i) => this.put(row, columns[i + 2], value));
    }
  }

  /** Put a value into its column. Each element of a list gets its own column. */
  put(row, name, value) {
    if (value === null) return;
    if (Array.isArray(value)) {
      value.flat(Infinity).slice(0, MOST_ELEMENTS).forEach((each, i) => this.put(row, `${name}[${i}]`, each));
      return;
    }
    let at = this.columns.indexOf(name);
    if (at < 0) at = this.columns.push(name) - 1;
    row[at] = value;
  }

  get lastStep() {
    return Number(this.rows.at(-1)?.[0] ?? 0);
  }

  add({step, time, metrics = {}, evaluation = {}}) {
    if (step <= this.lastStep) return;
    const row = [step, time];
    Object.entries(metrics).forEach(([name, value]) => this.put(row, name, value));
    Object.entries(evaluation).forEach(([name, value]) => this.put(row, `evaluate.${name}`, value));
    this.rows.push(row);
  }

  /** The {x, y} of the rows in which the column has a finite number. */
  curve(name, time) {
    const at = this.columns.indexOf(name), x = [], y = [], start = this.rows[0]?.[1] ?? 0;
    for (const row of this.rows) {
      if (at < 0 || typeof row[at] !== "number" || !Number.isFinite(row[at])) continue;
      x.push(time ? row[1] - start : Number(row[0]));
      y.push(row[at]);
    }
    return {x, y};
  }

  /** The step of the first report in which the column is not a finite number, or undefined. */
  brokenAt(name) {
    const at = this.columns.indexOf(name);
    return this.rows.find((row) => row[at] !== null && row[at] !== undefined && !Number.isFinite(row[at]))?.[0];
  }

  /** The charts: groups of a metric and its evaluation. */
  get groups() {
    const names = this.columns.slice(2), plain = names.filter((name) => !name.startsWith("evaluate."));
    const left = names.filter((name) => name.startsWith("evaluate.") && !plain.includes(name.slice(9)));
    return [...plain.map((name) => [name, ...names.filter((each) => each === `evaluate.${name}`)]), ...left.map((name) => [name])];
  }
}

export async function showJob(root, id, life) {
  const top = h("div"), word = h("p", {class: "lead"}), charts = h("div", {class: "stack"}), below = h("div");
  root.append(h("p", {}, h("a", {href: "#/jobs"}, "All jobs")), top, word, charts, below);
  const job = await life.attempt(async (options) => (await Promise.all([session.client.jobs.get(id, options), loadPlot()]))[0]);
  if (!job) return;
  const view = {id, life, job, curves: new Curves(id), others: new Map(), charts: new Map(), options: {smoothing: 0.6, log: false, time: false}, places: {top, word, charts, below}};
  view.controls = drawControls(view);
  charts.before(view.controls);
  drawJob(view);
  await life.attempt((options) => view.curves.load(options));
  drawCurves(view);
  drawBelow(view);
  follow(view);
}

/** Receive the reports of the server until the job ends. The tab has only this event stream. */
async function follow(view) {
  let drawn = 0, timer, failed = false;
  const draw = () => {
    clearTimeout(timer);
    const wait = drawn + FRAME - performance.now();
    if (wait > 0) {
      timer = setTimeout(draw, wait);
      return;
    }
    drawn = performance.now();
    if (!view.life.signal.aborted && !document.hidden) drawCurves(view);
  };
  document.addEventListener("visibilitychange", draw, {signal: view.life.signal});
  while (!ENDED.has(view.job.state) && !view.life.signal.aborted) {
    failed = !(await view.life.attempt(async (options) => {
      for await (const {type, data} of session.client.jobs.events(view.id, {after: view.curves.lastStep, ...options})) {
        if (failed) clearNotice();
        failed = false;
        if (type === "state") changeState(view, data);
        else {
          view.curves.add(data);
          Object.assign(view.job, {step: data.step, rate: data.rate ?? view.job.rate, metrics: data.metrics ?? view.job.metrics});
          if (view.job.rate > 0) view.job.seconds_left = (view.job.steps - view.job.step) / view.job.rate;
          if (view.curves.rows.length > MOST_ROWS) await view.curves.load(options);
        }
        draw();
      }
      return true;
    }));
    if (!ENDED.has(view.job.state)) await new Promise((resolve) => setTimeout(resolve, 2000));
  }
  draw();
}

function changeState(view, job) {
  if (job.state !== view.job.state) announce(`The job is ${job.state}${job.reason ? `: ${job.reason}` : ""}`);
  view.job = job;
  drawBelow(view);
}

// ---- state and progress

function drawJob({job, life, places, ...view}) {
  const ended = ENDED.has(job.state);
  morph(places.top,
    heading(h("span", {}, job.program, h("span", {class: "quiet"}, ` ${job.entry}`)), chip(job.state),
      !ended && button("Cancel", () => cancel(view.id, life), {class: "danger"}),
      button("Promote…", () => promote(job, life)),
      ended && button("Remove", () => remove(view.id, life), {class: "danger"})),
    (job.reason || job.warning) && h("p", {}, job.reason, job.warning && ` ${job.warning}`),
    h("progress", {value: job.step, max: Math.max(1, job.steps), class: "wide", "aria-label": "Progress"}),
    facts([
      ["Step", `${short(job.step)} of ${short(job.steps)}`], ["Done", percent(job.step / Math.max(1, job.steps))],
      ["Rate", job.rate && !ended ? `${short(job.rate)} steps/s` : undefined],
      ["Left", !ended && job.seconds_left !== undefined ? `${duration(job.seconds_left)}, until ~ ${clock(Date.now() / 1000 + job.seconds_left)}` : undefined],
      ["Took", job.ended && job.started ? duration(job.ended - job.started) : undefined], ["Begun", clock(job.created)], ["Device", job.device],
      ["Restarts", job.restarts || undefined], ["Priority", job.priority || undefined],
      ["Reports kept", job.thinned ? `each ${short(job.thinned.metrics)} steps` : undefined],
    ]));
}

async function cancel(id, life) {
  if (!(await confirmed("Cancel this job? Its program keeps the state of its last step.", {action: "Cancel the job"}))) return;
  await life.attempt((options) => session.client.jobs.cancel(id, options));
}

async function remove(id, life) {
  if (!(await confirmed("Remove this job, its history and its checkpoints?", {word: id.slice(0, 8), action: "Remove"}))) return;
  if (await life.attempt(async (options) => [await session.client.jobs.remove(id, options)])) location.hash = "#/jobs";
}

/** Ask the user for name and version, then promote the state of the program to a version of a model. */
async function promote(job, life) {
  const program = await life.attempt((options) => session.client.programs.get(job.program, options));
  if (!program) return;
  const entries = Object.entries(program.entries).sort((a, b) => (a[1].updates?.length ?? 0) - (b[1].updates?.length ?? 0));
  const model = h("input", {value: job.program.replace(/^.*:/, ""), required: true}), version = h("input", {type: "number", min: 1, value: 1, required: true});
  const entry = h("select", {}, entries.map(([name, {updates = []}]) => h("option", {value: name}, updates.length > 0 ? `${name} (changes state)` : name)));
  const dialog = h("dialog", {"aria-label": "Promote", onclose: () => dialog.remove()}, h("form", {method: "dialog", onsubmit: async (event) => {
    event.preventDefault();
    const done = await life.attempt((options) => session.client.programs.promote(job.program, {model: model.value, version: Number(version.value), entry: entry.value}, options));
    dialog.close();
    if (done) {
      notice(`Version ${done.version} of the model ${done.model} answers now.`, "good");
      announce("Promoted");
    }
  }}, h("p", {}, "The state as it is between two steps becomes a version of a hosted model."), field("Model", model), field("Version", version),
    entries.length > 1 && field("Entry", entry, "What the model computes"), h("div", {class: "row"}, h("button", {type: "submit", class: "main"}, "Promote"), button("Close", () => dialog.close()))));
  document.body.append(dialog);
  dialog.showModal();
}

// ---- curves

function drawControls(view) {
  const {options} = view;
  const change = (name, value) => {
    options[name] = value;
    drawCurves(view);
  };
  const slider = h("input", {type: "range", min: 0, max: 0.98, step: 0.02, value: options.smoothing, oninput: (event) => change("smoothing", Number(event.target.value))});
  return h("div", {class: "row controls"},
    h("label", {class: "check"}, "Smoothing", slider),
    h("label", {class: "check"}, h("input", {type: "checkbox", onchange: (event) => change("log", event.target.checked)}), "Log scale"),
    h("label", {class: "check"}, h("input", {type: "checkbox", onchange: (event) => change("time", event.target.checked)}), "Over time"),
    drawCompare(view));
}

/** Create the menu of other jobs to compare with this job. */
function drawCompare(view) {
  const list = h("div", {class: "compare"});
  return h("details", {class: "menu", ontoggle: async (event) => {
    if (!event.target.open) return;
    const jobs = await view.life.attempt((options) => session.client.jobs.list(options));
    const rows = (jobs ?? []).filter((job) => job.job !== view.id).sort((a, b) => Number(b.program === view.job.program) - Number(a.program === view.job.program) || b.created - a.created).slice(0, 30);
    morph(list, rows.length === 0 ? h("p", {class: "quiet"}, "There is no other job.") : rows.map((job) => h("label", {class: "check", key: job.job},
      h("input", {type: "checkbox", checked: view.others.has(job.job), onchange: async (event) => {
        if (event.target.checked) {
          const curves = new Curves(job.job);
          await view.life.attempt((options) => curves.load(options));
          view.others.set(job.job, {job, curves});
        } else view.others.delete(job.job);
        drawCurves(view);
      }}), h("span", {}, job.program, h("span", {class: "quiet"}, ` ${job.job.slice(0, 8)}, ${job.state}, ${clock(job.created)}`)))));
  }}, h("summary", {}, "Compare"), list);
}

function drawCurves(view) {
  drawJob(view);
  const {curves, places} = view;
  const groups = curves.groups;
  morph(places.word, describeTrend(curves, groups[0]?.[0]));
  if (groups.length === 0) {
    morph(places.charts, h("p", {class: "quiet", key: "none"}, ENDED.has(view.job.state) ? "The job reported nothing: it was submitted without \"collect\"." : "There is no report yet."));
    return;
  }
  for (const group of groups) {
    if (!view.charts.has(group[0])) {
      const place = h("div", {class: "chart"});
      view.charts.set(group[0], {place, chart: new Chart(place, view.life.signal)});
    }
  }
  morph(places.charts, groups.map((group) => h("section", {class: "panel", key: group[0], "aria-label": group[0]}, h("h2", {}, group[0]),
    h("div", {keep: true, key: "chart", class: "holder"}), drawNumbers(view, group))));
  for (const [i, group] of groups.entries()) {
    const {place, chart} = view.charts.get(group[0]);
    const holder = places.charts.children[i].querySelector(".holder");
    if (place.parentNode !== holder) holder.append(place);
    chart.set(collect(view, group), view.options);
  }
}

/**
 * Collect the curves of a chart: this job, its evaluation, and the other jobs. A faint curve of the raw values lies below a
 * smoothed curve.
 */
function collect(view, group) {
  const {smoothing, time} = view.options, all = [];
  const push = (label, series, {x, y}, points) => {
    if (x.length === 0) return;
    const smoothed = smoothing > 0 && !points && x.length > 8;
    if (smoothed) all.push({label: `${label}, each`, series, x, y, faint: true});
    all.push({label, series, x, y: smoothed ? smooth(y, smoothing) : y, points});
  };
  group.forEach((name, i) => push(name, i, view.curves.curve(name, time), name.startsWith("evaluate.")));
  [...view.others.values()].forEach(({job, curves}, i) => push(`${job.program} ${job.job.slice(0, 4)}`, group.length + i, curves.curve(group[0], time), group[0].startsWith("evaluate.")));
  return all;
}

function drawNumbers(view, group) {
  const {columns, rows} = view.curves, places = group.map((name) => columns.indexOf(name));
  const told = rows.filter((row) => places.some((at) => row[at] !== null && row[at] !== undefined));
  const step = Math.max(1, Math.ceil(told.length / 50));
  return numbers([{text: "Step", number: true}, {text: "At", number: true}, ...group.map((text) => ({text, number: true}))],
    told.filter((_, i) => (told.length - 1 - i) % step === 0).reverse().map((row) => [short(row[0]), clock(row[1]), ...places.map((at) => short(row[at]))]), group[0]);
}

/** Describe the trend of a curve: "loss goes down: 0.031 on average over the last 100 steps, 0.052 at step 800." */
function describeTrend(curves, name) {
  if (name === undefined) return [];
  const broken = curves.brokenAt(name);
  if (broken !== undefined) return h("strong", {}, `${name} is not a finite number at step ${short(Number(broken))}.`);
  const {x, y} = curves.curve(name, false);
  if (y.length < 10) return y.length > 0 ? `${name} is ${short(y.at(-1))} after ${count(x.at(-1), "step")}.` : [];
  const part = Math.max(2, Math.floor(y.length / 10)), mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const lately = y.slice(-part), before = y.slice(-3 * part, -2 * part), late = mean(lately), early = mean(before), change = late - early;
  const error = (values, middle) => mean(values.map((each) => (each - middle) ** 2)) / values.length; // squared standard error of the mean
  const best = y.reduce((at, value, i) => (value < y[at] ? i : at), 0);
  const way = Math.abs(change) <= Math.max(0.005 * Math.abs(early), 2 * Math.sqrt(error(lately, late) + error(before, early))) ? "stays where it is" : change < 0 ? "goes down" : "goes up";
  return [h("strong", {}, `${name} ${way}`), `: ${short(late)} on average over the last ${short(x.at(-1) - x.at(-part))} steps, ${short(early)} at step ${short(x.at(-2 * part - 1))}. The least was ${short(y[best])} at step ${short(x[best])}.`];
}

// ---- checkpoints and the document

function drawBelow(view) {
  const {job, places, life} = view;
  const ended = ENDED.has(job.state);
  const [checkpoints, document] = places.below.children.length > 0 ? places.below.children : [h("section", {class: "panel"}), drawDocument(view)];
  if (places.below.children.length === 0) places.below.append(checkpoints, document);
  morph(checkpoints, h("h2", {}, "Checkpoints"), table([{text: "Step", number: true}, {text: "Size", number: true}, "Written", ""],
    [...(job.checkpoints ?? [])].reverse().map(({step, bytes: size, time}) => ({key: step, cells: [short(step), bytes(size), clock(time), h("div", {class: "row"},
      button("Download", () => life.attempt(async (options) => download(`${job.program}-${step}.safetensors`, [(await checkpoint(job, step, options)).bytes])), {"aria-label": `Download the checkpoint of step ${step}`}),
      ended && button("Put back", () => putBack(job, step, life), {"aria-label": `Put back the checkpoint of step ${step}`}))]})),
    {label: "Checkpoints", empty: "None is written yet. A server with --state none writes none."}));
}

function checkpoint(job, step, options) {
  return session.client.connection.request("GET", `/api/v1/jobs/${job.job}/checkpoints/${step}`, options);
}

async function putBack(job, step, life) {
  if (!(await confirmed(`Replace the state of the program ${job.program} by that of step ${short(step)}?`, {action: "Put back"}))) return;
  const done = await life.attempt(async (options) => {
    const {bytes: body} = await checkpoint(job, step, options);
    await session.client.connection.request("PUT", `/api/v1/programs/${encodeURIComponent(job.program)}/state`, {body, headers: {"Content-Type": "application/x-safetensors"}, ...options});
    return true;
  });
  if (done) notice(`The program ${job.program} has the state of step ${short(step)} again.`, "good");
}

/** Create the panel of the job document. The page loads the document when the user opens the panel. */
function drawDocument(view) {
  const text = h("pre", {tabindex: "0", "aria-label": "Document of the job"}, "…");
  return h("details", {class: "panel", ontoggle: async (event) => {
    if (!event.target.open) return;
    const document = await view.life.attempt((options) => optional(session.client.jobs.document(view.id, options), {note: "This server does not tell it."}));
    if (document) text.textContent = JSON.stringify(document, (_, value) => (typeof value === "bigint" ? Number(value) : value), 2);
  }}, h("summary", {}, "The document that it was submitted with"), text);
}
