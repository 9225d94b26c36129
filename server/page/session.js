// SPDX-License-Identifier: MIT
// The session of the page: its key, its connection to the server, and its error messages.
import {Client} from "../../clients/js/client.js";
import {button, h} from "./dom.js";

const KEY = "beamline key";
const INTERVAL = 2; // seconds between two polls
const LONGEST = 10; // longest interval in seconds, while the server does not answer

/** The session of the tab. The key is kept until the tab is closed. */
export const session = {client: undefined, me: undefined, onsignout: () => {}};

function makeClient() {
  session.client = new Client({url: location.origin, key: sessionStorage.getItem(KEY) ?? "", retries: 2});
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

export function useKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  makeClient();
}

/** Ask the server for the identity of the key. Throws a BeamlineError of status 401 if the server requires a key. */
export async function identify() {
  makeClient();
  session.me = await session.client.me();
  return session.me;
}

/** Does the key have any of these scopes? */
export function may(...scopes) {
  return session.me === undefined || scopes.some((scope) => session.me.scopes.includes(scope));
}

// ---- error messages in a line above the page

const notices = h("div", {class: "notices", role: "alert"});
let standing;

export function noticeArea() {
  return notices;
}

/** Show a message until clearNotice() is called or the user dismisses it. */
export function notice(text, kind = "warning") {
  if (standing === text && notices.firstChild) return;
  standing = text;
  notices.replaceChildren(h("div", {class: `notice ${kind}`}, h("span", {}, text), button("Dismiss", clearNotice, {class: "plain"})));
}

export function clearNotice() {
  standing = undefined;
  notices.replaceChildren();
}

/** Explain an error in a sentence. */
export function explain(error) {
  if (error?.status === undefined) {
    if (error?.name === "ConnectionError") return "The server does not answer. The page tries again by itself.";
    if (error instanceof TypeError && /import|module/i.test(error.message)) return "A part of the page is missing. Reload the page: the server may have changed.";
    return error?.message ?? String(error);
  }
  const again = error.retryAfter ? ` It takes more in ${error.retryAfter} s.` : "";
  if (error.status === 429) return `The server takes no more from this key now: ${error.detail}.${again}`;
  if (error.status === 503) return `The server is busy: ${error.detail}.${again}`;
  if (error.status === 403) return `The key is not good for this: ${error.detail}.`;
  return `${error.title ?? `Error ${error.status}`}: ${error.detail}.`;
}

/** Show an error. If the key is no longer valid, ask for another key. */
export function fail(error, signal) {
  if (signal?.aborted) return;
  if (error?.status === 401) session.onsignout();
  else notice(explain(error), error?.name === "ConnectionError" ? "offline" : "warning");
}

// ---- the lifetime of a page

/** The lifetime of the page at one address. `signal` is aborted when another page is shown. */
export class Life {
  constructor() {
    this.controller = new AbortController();
    this.signal = this.controller.signal;
  }

  end() {
    this.controller.abort(new DOMException("another page is shown", "AbortError"));
  }

  /** Run `action` and return its result. After a failure show the error and return undefined. */
  async attempt(action) {
    try {
      return await action({signal: this.signal});
    } catch (error) {
      fail(error, this.signal);
      return undefined;
    }
  }

  /** Call `look` now and every `seconds` while the tab is visible, and less often while the server does not answer. */
  poll(look, seconds = INTERVAL) {
    let timer, failures = 0, busy = false;
    const turn = async () => {
      if (busy || document.hidden || this.signal.aborted) return;
      busy = true;
      clearTimeout(timer);
      let pause = seconds;
      try {
        await look({signal: this.signal});
        if (failures > 0) clearNotice();
        failures = 0;
      } catch (error) {
        fail(error, this.signal);
        failures++;
        pause = Math.max(error?.retryAfter ?? 0, Math.min(LONGEST, seconds * failures));
        if (error?.status === 404 || error?.status === 403) pause = LONGEST;
      }
      busy = false;
      if (!this.signal.aborted) timer = setTimeout(turn, pause * 1000);
    };
    document.addEventListener("visibilitychange", turn, {signal: this.signal});
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    turn();
    return turn;
  }
}

/** The answer of a route, or `other` if the server lacks the route or refuses it (404 or 403). */
export async function optional(promise, other = undefined) {
  try {
    return await promise;
  } catch (error) {
    if (error?.status === 404 || error?.status === 403) return other;
    throw error;
  }
}
