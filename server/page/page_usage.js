// SPDX-License-Identifier: MIT
// Page "Keys & usage": the permissions and the usage of the keys.
import {announce, button, confirmed, facts, field, h, heading, morph, numbers, seriesClass, swatch, table} from "./dom.js";
import {bytes, clock, duration, percent, short} from "./format.js";
import {may, session} from "./session.js";

const SCOPES = ["infer", "run", "train", "admin", "metrics"];
const DAYS = 7;
const BYTES = new Set(["memory", "disk"]);

export function showUsage(root, _, life) {
  const admin = may("admin");
  const self = h("section", {class: "panel"}), usage = h("section", {class: "panel"}), keys = h("section", {class: "panel"}), secret = h("div", {"aria-live": "polite"});
  root.append(heading(admin ? "Keys & usage" : "Usage"), self, usage);
  if (admin) root.append(secret, keys);
  life.poll(async (options) => {
    session.me = await session.client.me(options);
    drawSelf(self, session.me);
    drawUsage(usage, await session.client.usage({days: DAYS, ...options}));
  }, 5);
  if (!admin) return;
  const again = life.poll(async (options) => drawKeys(keys, {secret, life, again: () => again()}, await session.client.keys.list(options)), 5);
}

function amount(quota, value) {
  return BYTES.has(quota) ? bytes(value) : quota === "device_seconds" ? duration(value) : short(value);
}

function drawSelf(place, me) {
  const limits = Object.entries(me.quotas ?? {}).filter(([, most]) => most !== null && most !== undefined);
  morph(place, h("h2", {}, me.keys ? me.name : "No keys"), h("p", {}, me.keys ? "This is the key of this tab." : "This server has no keys: whoever reaches it may do everything. Make one, and it asks everybody for a key."),
    facts([["Good for", me.scopes.join(", ")], ["Expires", me.expires ? clock(me.expires) : undefined],
      ...Object.entries(me.used ?? {}).filter(([quota]) => !limits.some(([each]) => each === quota)).map(([quota, value]) => [word(quota), amount(quota, value)])]),
    limits.length > 0 && table(["Quota", {text: "Used", number: true}, {text: "Of", number: true}, ""], limits.map(([quota, most]) => [word(quota), amount(quota, me.used?.[quota] ?? 0), amount(quota, most),
      h("meter", {class: "bar", min: 0, max: 1, value: Math.min(1, (me.used?.[quota] ?? 0) / most), "aria-label": percent((me.used?.[quota] ?? 0) / most)})]), {label: "Quotas"}));
}

function word(quota) {
  return {device_seconds: "Device time today", memory: "Memory", disk: "Disk", queue: "Waiting requests", rate: "Requests a second"}[quota] ?? quota.replaceAll("_", " ");
}

// ---- usage of the last week, one bar per day

function drawUsage(place, rows) {
  const names = [...new Set(rows.map((row) => row.key))];
  const sums = names.map((key) => ({key, ...Object.fromEntries(["device_seconds", "requests", "received_bytes", "sent_bytes"].map((part) => [part, rows.filter((row) => row.key === key).reduce((sum, row) => sum + Number(row[part]), 0)]))}))
    .sort((a, b) => b.device_seconds - a.device_seconds);
  const all = sums.reduce((sum, each) => sum + each.device_seconds, 0);
  const days = Array.from({length: DAYS}, (_, i) => new Date(Date.now() - (DAYS - 1 - i) * 86400000).toISOString().slice(0, 10));
  morph(place, h("h2", {}, `The last ${DAYS} days`),
    sums.length > 0 && all > 0 && h("p", {class: "lead"}, `${sums[0].key || "Someone"} used the most: ${duration(sums[0].device_seconds)} of device time, ${percent(sums[0].device_seconds / all)} of all.`),
    sums.length > 0 && drawDays(days, sums, rows),
    table(["Key", {text: "Device time", number: true}, {text: "Share", number: true}, {text: "Requests", number: true}, {text: "Received", number: true}, {text: "Sent", number: true}],
      sums.map((each, i) => ({key: each.key, cells: [[swatch(i), " ", each.key || "no key"], duration(each.device_seconds), percent(all ? each.device_seconds / all : 0), short(each.requests), bytes(each.received_bytes), bytes(each.sent_bytes)]})),
      {label: "Usage by key", empty: "Nothing was used yet. Usage is written down once a minute."}),
    sums.length > 0 && numbers(["Day", "Key", {text: "Device time", number: true}, {text: "Requests", number: true}], rows.map((row) => [row.day, row.key || "no key", duration(row.device_seconds), short(row.requests)]), "Usage by day"));
}

function drawDays(days, sums, rows) {
  const of = (day, key) => Number(rows.find((row) => row.day === day && row.key === key)?.device_seconds ?? 0);
  const most = Math.max(...days.map((day) => sums.reduce((sum, {key}) => sum + of(day, key), 0)), 1e-9);
  return h("div", {class: "days", role: "img", "aria-label": "Device time by day and key; the numbers are below"}, days.map((day) => h("div", {class: "day"},
    h("div", {class: "pile"}, sums.map(({key}, i) => h("div", {class: `block ${seriesClass(i)}`, style: {height: `${of(day, key) / most * 100}%`}}))),
    h("span", {class: "quiet"}, new Date(`${day}T12:00`).toLocaleDateString([], {weekday: "short"})))));
}

// ---- keys

function drawKeys(place, {secret, life, again}, keys) {
  const act = async (action) => {
    const done = await life.attempt(action);
    again();
    return done;
  };
  morph(place, h("div", {class: "row between"}, h("h2", {}, "Keys"), button("New key…", () => editKey(undefined, secret, act), {class: "main"})), table(
    ["Name", "Secret", "Good for", "Quotas", "Expires", ""],
    keys.map((key) => ({key: key.name, cells: [[h("strong", {}, key.name), key.revoked && h("div", {class: "quiet"}, "revoked")], h("code", {}, `${key.hint}…`), key.scopes.join(", "),
      Object.entries(key.quotas ?? {}).map(([quota, value]) => h("div", {class: "nowrap"}, `${quota} ${amount(quota, value)}`)), key.expires ?? "",
      h("div", {class: "row"}, button("Edit", () => editKey(key, secret, act), {"aria-label": `Edit ${key.name}`}),
        button("Rotate", async () => {
          if (await confirmed(`Give ${key.name} a new secret? The old one is good for nothing then.`, {word: key.name, action: "Rotate"})) showSecret(secret, key.name, await act((options) => session.client.keys.rotate(key.name, options)));
        }, {"aria-label": `Rotate ${key.name}`}),
        !key.revoked && button("Revoke", async () => {
          if (await confirmed(`Revoke the key ${key.name}?`, {word: key.name, action: "Revoke"})) await act((options) => session.client.keys.revoke(key.name, options));
        }, {"aria-label": `Revoke ${key.name}`, class: "danger"}))]})),
    {label: "Keys", empty: "There is no key: whoever reaches this server may do everything."}));
}

/** Show the secret of a key. The server reveals the secret only once. */
function showSecret(place, name, secret) {
  if (!secret) return;
  morph(place, h("section", {class: "panel"}, h("h2", {}, `The secret of ${name}`), h("p", {}, "It is shown this once."), h("pre", {tabindex: "0", "aria-label": "Secret"}, secret),
    h("div", {class: "row"}, button("Copy", async () => {
      await navigator.clipboard?.writeText(secret);
      announce("Copied");
    }), button("Done", () => morph(place)))));
}

/** Show a form for an existing key or for a new key. */
function editKey(key, secret, act) {
  const name = h("input", {required: true, value: key?.name ?? "", disabled: Boolean(key)}), days = h("input", {type: "number", min: 1, placeholder: "never"});
  const boxes = SCOPES.map((scope) => h("input", {type: "checkbox", value: scope, checked: key ? key.scopes.includes(scope) : scope === "run" || scope === "infer"}));
  const quotas = h("textarea", {rows: 3, spellcheck: "false", value: JSON.stringify(key?.quotas ?? {})});
  const dialog = h("dialog", {"aria-label": key ? `Key ${key.name}` : "New key", onclose: () => dialog.remove()}, h("form", {method: "dialog", onsubmit: async (event) => {
    event.preventDefault();
    const done = await act((options) => {
      const asked = {scopes: boxes.filter((box) => box.checked).map((box) => box.value), quotas: JSON.parse(quotas.value || "{}"), ...(days.value ? {ttl: Number(days.value) * 86400} : {})};
      return key ? session.client.keys.change(key.name, asked, options) : session.client.keys.create({name: name.value, ...asked}, options);
    });
    dialog.close();
    if (!key) showSecret(secret, name.value, done);
    if (done && !key && !session.me.keys) announce("The server asks for keys from now on");
  }}, field("Name", name), h("fieldset", {}, h("legend", {}, "Good for"), boxes.map((box) => h("label", {class: "check"}, box, box.value))),
    field("Days until it expires", days), field("Quotas", quotas, "As JSON, for example {\"memory\": 1073741824, \"device_seconds\": 3600}"),
    h("div", {class: "row"}, h("button", {type: "submit", class: "main"}, key ? "Change" : "Make"), button("Close", () => dialog.close()))));
  document.body.append(dialog);
  dialog.showModal();
}
