// SPDX-License-Identifier: MIT
// HTTP to one server: requests, repeated where a repetition is safe, and streams of events.
import {ConnectionError, eventError, makeError} from "./errors.js";
import {readEvents} from "./events.js";
import {parse} from "./json.js";

const LONGEST_PAUSE = 10; // seconds between two tries

/** The address of a server, and the key for it. */
export class Connection {
  constructor({url, key, fetch, retries = 5} = {}) {
    this.url = (url ?? defaultUrl()).replace(/\/+$/, "");
    this.key = key ?? environment("BEAMLINE_KEY");
    this.retries = retries;
    this.fetch = fetch ?? ((...request) => globalThis.fetch(...request));
  }

  /**
   * One exchange: {status, headers, bytes}. Throws BeamlineError if the server refuses, ConnectionError if there is no complete answer.
   * The request is repeated if the server is full and sends Retry-After; and, with `repeat` (the default of GET), if the connection
   * breaks.
   */
  async request(method, path, {body, headers, signal, repeat = method === "GET" || method === "HEAD"} = {}) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.exchange(method, path, {body, headers, signal});
      } catch (error) {
        const seconds = attempt > this.retries ? undefined : pauseBefore(error, attempt, repeat);
        if (seconds === undefined) throw error;
        await sleep(seconds, signal);
      }
    }
  }

  async exchange(method, path, options) {
    const response = await this.open(method, path, options);
    return {
      status: response.status,
      headers: response.headers,
      bytes: new Uint8Array(await this.receive(response, "arrayBuffer", options.signal)),
    };
  }

  /**
   * Yields the events of an answer: {name, id, data}; data is a document, or null for the "[DONE]" at the end of a stream of OpenAI's
   * API. The request is not repeated: the caller knows where to resume. Throws BeamlineError if an event reports a failure.
   */
  async *events(method, path, {body, headers, signal} = {}) {
    const response = await this.open(method, path, {body, headers: {...headers, Accept: "text/event-stream"}, signal});
    for await (const {name, id, data} of this.readBody(response.body, signal)) {
      signal?.throwIfAborted(); // also between events that arrived together
      const document = data === "[DONE]" ? null : parse(data);
      const error = eventError(name, document);
      if (error !== undefined) throw error;
      yield {name, id, data: document};
    }
  }

  async *readBody(body, signal) {
    if (body === null) return;
    try {
      yield* readEvents(body);
    } catch (error) {
      throw signal?.aborted ? signal.reason : this.broken(error);
    }
  }

  /** The answer as soon as its head is read. Throws BeamlineError if its status is 400 or more. */
  async open(method, path, {body, headers, signal}) {
    const response = await this.send(method, path, {body, headers, signal});
    if (response.ok) return response;
    throw makeError(response.status, response.headers, await this.receive(response, "text", signal));
  }

  async send(method, path, {body, headers, signal}) {
    const signed = this.key ? {...headers, Authorization: `Bearer ${this.key}`} : {...headers};
    try {
      return await this.fetch(this.url + path, {method, body, headers: signed, signal});
    } catch (error) {
      throw signal?.aborted
        ? signal.reason
        : new ConnectionError(`no server answers at ${this.url} (${reason(error)})`, error);
    }
  }

  async receive(response, form, signal) {
    try {
      return await response[form]();
    } catch (error) {
      throw signal?.aborted ? signal.reason : this.broken(error);
    }
  }

  broken(error) {
    return new ConnectionError(`the connection to the server at ${this.url} broke (${reason(error)})`, error);
  }
}

/** The seconds to wait before a failed request is repeated; undefined if the request must not be repeated. */
function pauseBefore(error, attempt, repeat) {
  if (error instanceof ConnectionError) return repeat ? pause(attempt) : undefined;
  const full = error.status === 429 || error.status === 503;
  return full && error.retryAfter !== undefined && !error.step ? Math.min(error.retryAfter, LONGEST_PAUSE) : undefined;
}

/** The seconds before the next try, after a number of failures in a row. */
export function pause(failures) {
  return Math.min(LONGEST_PAUSE, 0.05 * 2 ** failures);
}

/** Wait; rejects with the signal's reason as soon as the signal is aborted. */
export function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, seconds * 1000);
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal?.addEventListener("abort", end, {once: true});
  });
}

function reason(error) {
  return error.cause?.message || error.cause?.code || error.message;
}

function environment(name) {
  return globalThis.process?.env?.[name];
}

function defaultUrl() {
  const origin = globalThis.location?.origin ?? "";
  return environment("BEAMLINE_URL") ?? (origin.startsWith("http") ? origin : "http://127.0.0.1:8470");
}
