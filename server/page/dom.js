// SPDX-License-Identifier: MIT
// Constructors of the elements of the document. Text always becomes text nodes and never markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "g", "rect", "circle", "line", "text", "title", "pattern", "defs", "polyline", "marker"]);

/**
 * Create an element. `attributes`: a name that begins with `on` sets a listener; the value true gives an attribute without a
 * value; false and undefined give no attribute. `key` identifies the element among its siblings for morph(). `keep` makes
 * morph() leave the content of the element unchanged. `children` are elements, texts, and lists of both.
 */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) && tag !== "title" || attributes?.svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) setAttribute(element, name, value);
  element.append(...flatten(children));
  return element;
}

function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false || name === "svg") return;
  if (name.startsWith("on")) {
    element[name] = value;
    (element.listeners ??= new Set()).add(name);
  } else if (name === "value" || name === "checked" || name === "disabled" || name === "selected" || name === "indeterminate") element[name] = value;
  else if (name === "key") element.morphKey = value;
  else if (name === "keep") element.morphKeep = value;
  else if (name === "style") Object.entries(value).forEach(([property, each]) => element.style.setProperty(property, each));
  else element.setAttribute(name, value === true ? "" : value);
}

function flatten(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== true)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/**
 * Replace the content of `element` by `children`. Existing elements that match are reused, so that focus and selection stay.
 */
export function morph(element, ...children) {
  morphChildren(element, flatten(children));
}

function morphChildren(element, wanted) {
  const keyed = new Map();
  for (const child of element.childNodes) if (child.morphKey !== undefined) keyed.set(child.morphKey, child);
  let at = element.firstChild;
  for (const next of wanted) {
    const match = next.morphKey !== undefined ? keyed.get(next.morphKey) : at?.morphKey === undefined ? at : null;
    if (match && match.nodeName === next.nodeName) {
      if (match === at) at = at.nextSibling;
      else element.insertBefore(match, at);
      if (match !== next) morphNode(match, next);
    } else element.insertBefore(next, at);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function morphNode(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const {name} of [...old.attributes]) if (!next.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open") && name !== "style") old.removeAttribute(name);
  for (const {name, value} of next.attributes) if (old.getAttribute(name) !== value && name !== "style") old.setAttribute(name, value);
  if (old.style && old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const name of old.listeners ?? []) old[name] = null;
  for (const name of next.listeners ?? []) old[name] = next[name];
  old.listeners = next.listeners;
  if (old.nodeName === "BUTTON" || old.nodeName === "INPUT" || old.nodeName === "SELECT") old.disabled = next.disabled;
  if (next.morphKeep || old.nodeName === "TEXTAREA" || old.nodeName === "SELECT") return;
  morphChildren(old, [...next.childNodes]);
}

/** Create a table. `head` contains texts or {text, number}. A row is a list of cells, and a cell is a text or an element. */
export function table(head, rows, {caption, empty = "There are none.", label} = {}) {
  if (rows.length === 0) return h("p", {class: "quiet"}, empty);
  const number = head.map((each) => each.number && "number");
  return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label ?? caption ?? "Table"},
    h("table", {}, caption && h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((each, i) => h("th", {scope: "col", class: number[i]}, (each.text ?? each) || h("span", {class: "unseen"}, "More"))))),
      h("tbody", {}, rows.map((row) => h("tr", {key: row.key, class: row.class}, (row.cells ?? row).map((cell, i) => h("td", {class: number[i]}, cell)))))));
}

/** Create a table of the numbers of a chart. The table is closed at first. */
export function numbers(head, rows, label) {
  return h("details", {class: "numbers", key: `numbers ${label}`}, h("summary", {}, "Numbers"), table(head, rows, {label}));
}

/** Create a button. */
export function button(text, onclick, attributes = {}) {
  return h("button", {type: "button", onclick, ...attributes}, text);
}

/** Create the buttons of a drawing. A row contains the text of a button, the accessible description, and the action. */
export function toolbar(label, rows) {
  return h("div", {class: "row tools", role: "group", "aria-label": label}, rows.map(([text, words, action]) => button(text, action, {"aria-label": words, title: words})));
}

/** Create a label for a state: a word, and a mark whose shape also shows the state. */
export function chip(state, kind = state) {
  return h("span", {class: `chip ${kind}`}, state);
}

/** Create a labelled control. */
export function field(label, control, hint) {
  return h("label", {class: "field"}, h("span", {}, label), control, hint && h("small", {}, hint));
}

/** Create the title of a page, followed by the elements `beside` it. */
export function heading(text, ...beside) {
  return h("div", {class: "heading"}, h("h1", {tabindex: "-1"}, text), beside);
}

/** Create a definition list of pairs of a term and a value. Pairs without a value are omitted. */
export function facts(pairs) {
  return h("dl", {class: "facts"}, pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/**
 * The number of series. Their colours are those of Okabe and Ito, reordered. Each series also has a dash pattern and a hatch,
 * for colour blindness.
 */
const SERIES = 7;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4]];

export function seriesClass(index) {
  return `series-${index % SERIES}`;
}

export function seriesDash(index) {
  return DASHES[index % SERIES];
}

export function seriesColour(index) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--series-${index % SERIES}`).trim();
}

/** Create a swatch of a series: a line with the colour and the dashes of the series. */
export function swatch(index) {
  return h("svg", {class: `swatch ${seriesClass(index)}`, width: 22, height: 10, "aria-hidden": "true"},
    h("line", {x1: 1, y1: 5, x2: 21, y2: 5, "stroke-dasharray": seriesDash(index).join(" ") || undefined}));
}

let announced;

/** Announce a change to screen readers, politely: they finish the current announcement first. */
export function announce(text) {
  announced ??= document.body.appendChild(h("div", {role: "status", "aria-live": "polite", class: "unseen"}));
  announced.textContent = text;
}

/**
 * Ask for confirmation of an irreversible action. With `word`, the user must type the word. Resolves to true if the user
 * confirms.
 */
export function confirmed(question, {word, action = "Do it"} = {}) {
  return new Promise((resolve) => {
    const entry = word && h("input", {required: true, pattern: undefined, autocomplete: "off", oninput: () => { done.disabled = entry.value !== word; }});
    const done = h("button", {type: "submit", class: "danger", disabled: Boolean(word)}, action);
    const dialog = h("dialog", {"aria-labelledby": "question", onclose: () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    }}, h("form", {method: "dialog", onsubmit: (event) => { event.preventDefault(); dialog.close("yes"); }},
      h("p", {id: "question"}, question), word && field(["Type ", h("code", {}, word), " to go on"], entry),
      h("div", {class: "row"}, done, button("Cancel", () => dialog.close("no")))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Offer bytes to the user as a file to download. */
export function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
