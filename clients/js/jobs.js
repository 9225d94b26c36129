// SPDX-License-Identifier: MIT
// Jobs: training that runs in the server without a client.
import {address} from "./address.js";
import {pause, sleep} from "./connection.js";
import {BeamlineError, ConnectionError} from "./errors.js";
import {encodeValues} from "./values.js";

const EVALUATE = "evaluate."; // before the names of what an evaluation takes and gives
const FINAL = new Set(["done", "failed", "cancelled"]);

/** Thrown by `wait`: the job failed or was cancelled. `job` is its description. */
export class JobFailed extends Error {
  constructor(job) {
    super(job.reason ? `the job is ${job.state}: ${job.reason}` : `the job is ${job.state}`);
    this.name = "JobFailed";
    this.job = job;
  }
}

/** The jobs of a client: `client.jobs`. */
export class Jobs {
  constructor(client) {
    this.client = client;
  }

  /** The jobs: a list of their descriptions. */
  async list(options) {
    return (await this.client.call("GET", address("jobs"), undefined, options)).jobs;
  }

  /** The state of a job: {job, state, reason, step, steps, rate, seconds_left, checkpoints, ...}. */
  get(id, options) {
    return this.client.call("GET", address("jobs", id), undefined, options);
  }

  /**
   * Begins a job. Returns its description; `job` in it is the id.
   *
   * request: {program, steps, inputs, entry, collect, evaluate, early_stop, checkpoint, accumulate, compute, loss_scale, priority}, as in
   *     docs/jobs.md. Inputs, and those of `evaluate`, may be typed arrays and Tensors
   */
  async submit(request, {signal} = {}) {
    const tensors = this.client.makeTensors();
    const document = {...request, inputs: encodeValues(request.inputs ?? {}, tensors)};
    if (request.evaluate !== undefined) document.evaluate = encodeEvaluation(request.evaluate, tensors);
    const headers = {Accept: "application/json"};
    return (
      await this.client.send("POST", address("jobs"), this.client.withLease(document), tensors, {headers, signal})
    ).document;
  }

  /** The document of the request that began a job, without the numbers of its tensors. */
  document(id, options) {
    return this.client.call("GET", address("jobs", id, "/document"), undefined, options);
  }

  /**
   * Follows a job until it ends. Yields {type: "report", data} for each report after step `after`, and {type: "state", data} first, at each
   * change, and when the job has ended.
   *
   * If the connection breaks, it is opened again after the last report. The server keeps the last 1,024 reports for this purpose;
   * `history` has all reports.
   */
  async *events(id, {after = 0, signal} = {}) {
    let step = after;
    let last;
    for (let failures = 0; ; ) {
      try {
        for await (last of this.connect(id, step, signal)) {
          failures = 0;
          if (last.type === "report") step = last.data.step;
          yield last;
        }
      } catch (error) {
        if (!isPassing(error) || ++failures > this.client.connection.retries) throw error;
        await sleep(pause(failures), signal);
      }
      const job = await this.get(id, {signal});
      if (!FINAL.has(job.state)) continue;
      yield* this.rest(id, step, signal);
      if (last?.type !== "state" || !FINAL.has(last.data.state)) yield {type: "state", data: job};
      return;
    }
  }

  /** As `events`, but yields the reports only: {step, time, metrics, evaluation, rate}; a report may lack some members. */
  async *reports(id, options) {
    for await (const {type, data} of this.events(id, options)) {
      if (type === "report") yield data;
    }
  }

  async *connect(id, step, signal) {
    const headers = step > 0 ? {"Last-Event-ID": String(step)} : {};
    for await (const {name, data} of this.client.connection.events("GET", address("jobs", id, "/events"), {
      headers,
      signal,
    })) {
      yield {type: name === "" ? "report" : name, data};
    }
  }

  /** Reports of a job that has ended, from its history. */
  async *rest(id, step, signal) {
    const {columns, rows} = await this.history(id, {from: step + 1, signal});
    for (const row of rows) yield {type: "report", data: makeReport(columns, row)};
  }

  /**
   * {columns, rows} of the reports; a value is null if it was not measured after the step of its row.
   *
   * from: the first step     limit: the most rows     points: thins the reports: the number of stretches of steps,
   *     of each of which the rows with the least and the greatest value of each metric remain
   */
  history(id, {from, limit, points, ...options} = {}) {
    return this.client.call("GET", address("jobs", id, "/history", {from, limit, points}), undefined, options);
  }

  /** Waits until a job is done; returns its description. Throws JobFailed if the job fails or is cancelled. */
  async wait(id, {signal} = {}) {
    for await (const {type, data} of this.events(id, {signal})) {
      if (type !== "state" || !FINAL.has(data.state)) continue;
      if (data.state === "done") return data;
      throw new JobFailed(data);
    }
    throw new Error("unreachable: events() ends with the last state");
  }

  /** Stops a job at its next step; returns its description. A job that has ended does not change. */
  cancel(id, options) {
    return this.client.call("DELETE", address("jobs", id), undefined, options);
  }

  /** Removes a job that has ended, with its history and checkpoints. */
  remove(id, options) {
    return this.client.call("DELETE", address("jobs", id, "", {remove: true}), undefined, options);
  }

  /** The state of the program in a checkpoint: Tensors by name. step: a number, or "last" */
  checkpoint(id, step = "last", options = {}) {
    return this.client.fetchTensors(address("jobs", id, `/checkpoints/${step}`), options);
  }
}

function encodeEvaluation(evaluate, tensors) {
  return {...evaluate, inputs: encodeValues(evaluate.inputs ?? {}, tensors, {prefix: EVALUATE})};
}

function isPassing(error) {
  return (
    error instanceof ConnectionError ||
    (error instanceof BeamlineError && (error.status === 429 || error.status === 503))
  );
}

function makeReport(columns, row) {
  const report = {step: row[0], time: row[1]};
  columns.forEach((name, i) => {
    if (i < 2 || row[i] === null) return;
    const part = name.startsWith(EVALUATE) ? "evaluation" : "metrics";
    report[part] = {...report[part], [name.startsWith(EVALUATE) ? name.slice(EVALUATE.length) : name]: row[i]};
  });
  return report;
}
