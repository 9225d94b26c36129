// SPDX-License-Identifier: MIT
// The frame of the page: navigation, sign-in, and the light or dark theme.
import {announce, button, field, h, heading, morph} from "./dom.js";
import {explain, fail, hasKey, identify, Life, may, notice, noticeArea, clearNotice, session, useKey} from "./session.js";
import {showApi} from "./page_api.js";
import {showData} from "./page_data.js";
import {showJobs} from "./page_jobs.js";
import {showModels} from "./page_models.js";
import {showNow} from "./page_now.js";
import {showPrograms} from "./page_programs.js";
import {showTimeline} from "./page_timeline.js";
import {showUsage} from "./page_usage.js";

// name in the address, text of the link, scopes (the key needs any of them), function that shows the page
const PAGES = [
  ["now", "Now", [], showNow],
  ["jobs", "Jobs", ["train"], showJobs],
  ["models", "Models", ["infer"], showModels],
  ["programs", "Programs", ["run", "train"], showPrograms],
  ["timeline", "Timeline", [], showTimeline],
  ["data", "Data", ["run", "train"], showData],
  ["usage", "Keys & usage", [], showUsage],
  ["api", "API", [], showApi],
];
const THEMES = ["auto", "light", "dark"];

let life = new Life();
const main = h("main", {id: "content", tabindex: "-1"});
const nav = h("nav", {"aria-label": "Pages"});
const person = h("span", {class: "person"});

function place() {
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodePart);
  return {page: page || "now", rest};
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function drawFrame() {
  const {page} = place();
  morph(nav, PAGES.filter(([, , scopes]) => scopes.length === 0 || may(...scopes)).map(([name, words]) =>
    h("a", {href: `#/${name}`, key: name, "aria-current": name === page ? "page" : undefined}, words)));
  nav.querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"});
  morph(person, session.me?.keys ? [h("span", {class: "who"}, session.me.name ?? "?"), button("Sign out", signOut, {class: "plain"})] : []);
}

function signOut() {
  useKey("");
  session.me = undefined;
  start();
}

/** Show a form that asks for the key. `reason` states why. */
function askForKey(reason) {
  life.end();
  life = new Life();
  const entry = h("input", {type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false", "aria-describedby": "key-hint"});
  main.replaceChildren(heading("A key, please"), h("form", {class: "panel narrow", onsubmit: (event) => {
    event.preventDefault();
    useKey(entry.value.trim());
    start();
  }}, h("p", {id: "key-hint"}, reason, " It is kept in this tab and nowhere else."), field("Key", entry), h("div", {class: "row"}, h("button", {type: "submit", class: "main"}, "Go on"))));
  session.me = {name: null, keys: false, scopes: []};
  drawFrame();
  entry.focus();
}

session.onsignout = () => {
  const had = hasKey();
  useKey("");
  askForKey(had ? "The server does not know this key, or not any more." : "This server asks for a key.");
};

async function show() {
  const {page, rest} = place();
  const [name, words, scopes, view] = PAGES.find(([each]) => each === page) ?? PAGES[0];
  life.end();
  life = new Life();
  const mine = life;
  document.title = `${words} · beamline`;
  drawFrame();
  clearNotice();
  if (scopes.length > 0 && !may(...scopes)) {
    main.replaceChildren(heading(words), h("p", {}, `The key of this tab is not good for this page: it needs the scope ${scopes.join(" or ")}.`));
    return;
  }
  try {
    main.replaceChildren();
    await view(main, rest, mine);
    if (!mine.signal.aborted && show.before !== undefined && show.before !== name) main.querySelector("h1")?.focus({preventScroll: true});
    show.before = name;
  } catch (error) {
    fail(error, mine.signal);
  }
}

async function start() {
  for (let attempt = 1; ; attempt++) {
    try {
      await identify();
      clearNotice();
      break;
    } catch (error) {
      if (error.status === 401) return session.onsignout();
      if (error.status === 404) break; // an older server: the page shows everything, and the server refuses requests by scope
      notice(explain(error), "offline");
      await new Promise((resolve) => setTimeout(resolve, Math.min(10, 2 * attempt) * 1000));
    }
  }
  return show();
}

// ---- light and dark

function theme() {
  return localStorage.getItem("theme") ?? "auto";
}

function applyTheme() {
  document.documentElement.dataset.theme = theme();
  document.dispatchEvent(new Event("themechange"));
}

function drawTheme() {
  return h("label", {class: "theme"}, h("span", {class: "unseen"}, "Colours"),
    h("select", {onchange: (event) => {
      localStorage.setItem("theme", event.target.value);
      applyTheme();
      announce(`Colours: ${event.target.value}`);
    }}, THEMES.map((each) => h("option", {value: each, selected: each === theme()}, each))));
}

applyTheme();
document.body.append(
  h("a", {class: "skip", href: "#content", onclick: (event) => { event.preventDefault(); main.focus(); }}, "Skip to the content"),
  h("header", {class: "top"},
    h("a", {class: "brand", href: "#/now", "aria-label": "beamline, Now"},
      h("svg", {width: 18, height: 18, viewBox: "0 0 16 16", "aria-hidden": "true"}, h("path", {d: "M2 13 14 3"})), "beamline"),
    nav, h("div", {class: "side"}, person, drawTheme())),
  noticeArea(), main);
addEventListener("hashchange", show);
start();
