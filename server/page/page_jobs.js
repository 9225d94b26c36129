// SPDX-License-Identifier: MIT
// Page "Jobs": a table of all jobs.
import {chip, h, heading, morph, table} from "./dom.js";
import {clock, duration, percent, short} from "./format.js";
import {session} from "./session.js";
import {sparkline} from "./chart.js";
import {showJob} from "./page_job.js";

const SPARKS = 24;        // number of jobs with a sparkline in the table
const SPARK_POINTS = 60;
const SPARK_SECONDS = 10; // interval between two requests for the history of a running job

export function showJobs(root, rest, life) {
  if (rest.length > 0 && rest[0]) return showJob(root, rest[0], life);
  const content = h("div", {class: "panel"});
  root.append(heading("Jobs"), h("p", {class: "lead"}, "Training that goes on in the server. A job that has ended keeps its curve and its last checkpoints."), content);
  const sparks = new Map();
  return life.poll(async (options) => {
    const jobs = (await session.client.jobs.list(options)).sort((a, b) => rank(a) - rank(b) || b.created - a.created);
    const draw = () => morph(content, table(
      ["Job", "State", {text: "Steps", number: true}, {text: "Left", number: true}, "Metric", "Curve", {text: "Begun", number: true}],
      jobs.map((job) => ({key: job.job, cells: [
        [h("a", {href: `#/jobs/${job.job}`}, job.program), h("div", {class: "quiet mono"}, `${job.job.slice(0, 8)}${job.entry ? ` · ${job.entry}` : ""}`)],
        [chip(job.state), job.reason && h("div", {class: "quiet"}, job.reason)],
        [h("progress", {value: job.step, max: Math.max(1, job.steps), "aria-label": "Progress"}), h("div", {class: "quiet"}, `${short(job.step)} of ${short(job.steps)}, ${percent(job.step / Math.max(1, job.steps))}`)],
        duration(job.seconds_left),
        Object.entries(job.metrics ?? {}).slice(0, 2).map(([name, value]) => h("div", {class: "nowrap"}, h("span", {class: "quiet"}, `${name} `), short(first(value)))),
        sparks.get(job.job)?.drawn && h("a", {href: `#/jobs/${job.job}`, "aria-label": `Curve of ${job.program}`}, sparks.get(job.job).drawn.cloneNode(true)),
        clock(job.created),
      ]})), {label: "Jobs", empty: "There is no job. POST /api/v1/jobs begins one."}));
    draw();
    for (const job of jobs.slice(0, SPARKS)) {
      if (!(await refreshSpark(sparks, job, options))) continue;
      draw();
    }
  });
}

/** The sort rank of a job: running jobs come first. */
function rank(job) {
  return {running: 0, queued: 1}[job.state] ?? 2;
}

export function first(value) {
  return Array.isArray(value) ? first(value.flat(Infinity)[0]) : value;
}

async function refreshSpark(sparks, job, options) {
  const known = sparks.get(job.job);
  if (known?.step === job.step || Date.now() - (known?.time ?? 0) < SPARK_SECONDS * 1000 || !job.metrics) return false;
  const {columns, rows} = await session.client.jobs.history(job.job, {points: SPARK_POINTS, ...options});
  const at = columns.findIndex((name, i) => i > 1 && !name.startsWith("evaluate."));
  const values = rows.map((row) => first(row[at])).filter((value) => typeof value === "number");
  sparks.set(job.job, {step: job.step, time: Date.now(), drawn: sparkline(values, `${columns[at]} from ${short(values[0])} to ${short(values.at(-1))}`)});
  return true;
}
