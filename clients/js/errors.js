// SPDX-License-Identifier: MIT
// Errors: what the server refuses or fails at, and connections that break.

/**
 * A refusal or a failure that the server reports.
 *
 * status: the HTTP status        title: the kind of failure        detail: the failure, as a person would describe it
 * node: the id of the node of the graph at fault, or undefined     step: how many steps of a program were applied, or undefined
 * type: the URN of the kind, or the `type` of an OpenAI error      retryAfter: seconds after which to ask again, or undefined
 */
export class BeamlineError extends Error {
  constructor(status, {title, detail, node, step, type, code} = {}, retryAfter = undefined) {
    super(title ? `${status} ${title}: ${detail}` : `${status}: ${detail}`);
    this.name = "BeamlineError";
    Object.assign(this, {status, title, detail, node, step, type, code, retryAfter});
  }
}

/** A server that cannot be reached, or a connection that broke before the answer was whole. `cause` is the error of `fetch`. */
export class ConnectionError extends Error {
  constructor(message, cause) {
    super(message, {cause});
    this.name = "ConnectionError";
  }
}

/** The error for an answer with a failure, of which `text` is the body. */
export function makeError(status, headers, text) {
  const retry = headers.get("retry-after") ?? "";
  const document = (headers.get("content-type") ?? "").includes("json") ? parseObject(text) : {};
  return new BeamlineError(
    status,
    {detail: text.slice(0, 200), ...readFailure(document)},
    /^\d+$/.test(retry) ? Number(retry) : undefined,
  );
}

/** The error that an event of a stream reports; undefined where it reports none. */
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
