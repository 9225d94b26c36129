// SPDX-License-Identifier: MIT
// Errors of the server and of the connection.

/**
 * A refusal or a failure that the server reports.
 *
 * status: the HTTP status        title: the kind of failure        detail: the reason, in words
 * node: the id of the node at fault, if the graph has one     step: the number of steps of a program that were applied, if any
 * type: the URN of the kind, or the `type` of an OpenAI error      retryAfter: seconds until the next try, if the server says so
 */
export class BeamlineError extends Error {
  constructor(status, {title, detail, node, step, type, code} = {}, retryAfter = undefined) {
    super(title ? `${status} ${title}: ${detail}` : `${status}: ${detail}`);
    this.name = "BeamlineError";
    Object.assign(this, {status, title, detail, node, step, type, code, retryAfter});
  }
}

/** The server cannot be reached, or the connection broke before the answer was complete. `cause` is the error of `fetch`. */
export class ConnectionError extends Error {
  constructor(message, cause) {
    super(message, {cause});
    this.name = "ConnectionError";
  }
}

/** The error for an answer of status 400 or more; `text` is its body. */
export function makeError(status, headers, text) {
  const retry = headers.get("retry-after") ?? "";
  const document = (headers.get("content-type") ?? "").includes("json") ? parseObject(text) : {};
  return new BeamlineError(
    status,
    {detail: text.slice(0, 200), ...readFailure(document)},
    /^\d+$/.test(retry) ? Number(retry) : undefined,
  );
}

/** The error that an event of a stream reports; undefined if the event reports none. */
export function eventError(name, document) {
  if (name !== "error" && !document?.error) return undefined;
  const failure = readFailure(document);
  return new BeamlineError(failure.status ?? 500, failure);
}

/** The members of a problem document, of Triton's {"error": text} or of OpenAI's {"error": {"message", "type", "code"}}. */
function readFailure(document) {
  const {error} = document;
  if (typeof error === "string") return {...document, detail: error};
  if (error === null || typeof error !== "object") return document;
  return {
    status: Number.isInteger(error.code) ? error.code : undefined,
    detail: error.message,
    type: error.type,
    code: error.code,
  };
}

function parseObject(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
