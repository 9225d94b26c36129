// SPDX-License-Identifier: MIT
// Who looks at the page, how it talks to the server, and what it says where that fails.
import {Client} from "../../clients/js/client.js";
import {button, h} from "./dom.js";

const KEY = "beamline key";
const INTERVAL = 2; // seconds between two looks at what changes
const LONGEST = 10; // and while the server does not answer

/** The key lives as long as the tab. */
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

/** Ask the server who this is. BeamlineError of status 401 where it wants a key. */
export async function identify() {
  makeClient();
  session.me = await session.client.me();
  return session.me;
}

/** Whether the key is good for any of these. */
export function may(...scopes) {
  return session.me === undefined || scopes.some((scope) => session.me.scopes.includes(scope));
}

// ---- what went wrong, in a line above the page

const notices = h("div", {class: "notices", role: "alert"});
let standing;

export function noticeArea() {
  return notices;
}

/** Say something until clear() is called or the person has seen it. */
export function notice(text, kind = "warning") {
  if (standing === text && notices.firstChild) return;
  standing = text;
  notices.replaceChildren(h("div", {class: `notice ${kind}`}, h("span", {}, text), button("Dismiss", clearNotice, {class: "plain"})));
}

export function clearNotice() {
  standing = undefined;
  notices.replaceChildren();
}

/** What an error means, in a sentence. */
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

/** Show an error; where the key is not good any more, ask for another one. */
export function fail(error, signal) {
  if (signal?.aborted) return;
  if (error?.status === 401) session.onsignout();
  else notice(explain(error), error?.name === "ConnectionError" ? "offline" : "warning");
}

// ---- the time for which a page is shown

/** The life of what is shown at one address: `signal` is aborted when another is shown. */
export class Life {
  constructor() {
    this.controller = new AbortController();
    this.signal = this.controller.signal;
  }

  end() {
    this.controller.abort(new DOMException("another page is shown", "AbortError"));
  }

  /** Do something, and show what goes wrong. Gives undefined then. */
  async attempt(action) {
    try {
      return await action({signal: this.signal});
    } catch (error) {
      fail(error, this.signal);
      return undefined;
    }
  }

  /** Call `look` now and every two seconds while the tab is seen; less often while the server does not answer. */
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

/** What a route answers, or `other` where this server does not have the route. */
export async function optional(promise, other = undefined) {
  try {
    return await promise;
  } catch (error) {
    if (error?.status === 404 || error?.status === 403) return other;
    throw error;
  }
}
