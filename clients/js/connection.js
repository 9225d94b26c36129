// SPDX-License-Identifier: MIT
// HTTP to one server: requests that are repeated where that is safe, and streams of events.
import {ConnectionError, eventError, makeError} from "./errors.js";
import {readEvents} from "./events.js";
import {parse} from "./json.js";

const LONGEST_PAUSE = 10; // seconds between two tries

/** A server by its address, with the key for it. */
export class Connection {
  constructor({url, key, fetch, retries = 5} = {}) {
    this.url = (url ?? defaultUrl()).replace(/\/+$/, "");
    this.key = key ?? environment("BEAMLINE_KEY");
    this.retries = retries;
    this.fetch = fetch ?? ((...request) => globalThis.fetch(...request));
  }

  /**
   * One exchange: {status, headers, bytes}. BeamlineError where the server refuses, ConnectionError where there is no whole answer.
   * The request is sent again where the server is full and says when to come back; and, if `repeat` (of a GET by default), where the
   * connection breaks.
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
   * The events of an answer as they come: {name, id, data}, of which data is a document, and null of the "[DONE]" that ends a stream of
   * OpenAI's API. Not repeated: the caller knows where to go on. BeamlineError where an event reports a failure.
   */
  async *events(method, path, {body, headers, signal} = {}) {
    const response = await this.open(method, path, {body, headers: {...headers, Accept: "text/event-stream"}, signal});
    for await (const {name, id, data} of this.readBody(response.body, signal)) {
      signal?.throwIfAborted(); // of events that have come already
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

  /** The answer of which the head has come; BeamlineError where it is a failure. */
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

/** How many seconds to wait before a request that failed is sent again; undefined where it must not be. */
function pauseBefore(error, attempt, repeat) {
  if (error instanceof ConnectionError) return repeat ? pause(attempt) : undefined;
  const full = error.status === 429 || error.status === 503;
  return full && error.retryAfter !== undefined && !error.step ? Math.min(error.retryAfter, LONGEST_PAUSE) : undefined;
}

/** Seconds before the next try after so many failures. */
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
