// SPDX-License-Identifier: MIT
// Formats of numbers and times for readers.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  if (count === undefined || count === null) return "";
  let value = Number(count), unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toPrecision(3).replace(/\.?0+$/, "")} ${UNITS[unit]}`;
}

export function percent(part) {
  return part === undefined || part === null ? "" : `${part > 0 && part < 0.01 ? "< 1" : Math.round(part * 100)}\u00a0%`;
}

/** Format a number with about four digits. */
export function short(value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "bigint") return value.toString();
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return size >= 1e4 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(4)).toLocaleString("en", {maximumFractionDigits: 6});
}

export function count(value, one, many = `${one}s`) {
  return `${short(value)} ${value === 1 ? one : many}`;
}

/** Format seconds in the two largest units. */
export function duration(seconds) {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const s = Math.round(seconds);
  if (s < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 && s < 600 ? ` ${s % 60} s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function microseconds(us) {
  if (us === undefined || us === null) return "";
  return us < 1000 ? `${short(Number(us.toPrecision(3)))} µs` : us < 1e6 ? `${short(Number((us / 1000).toPrecision(3)))} ms` : `${short(us / 1e6)} s`;
}

/** Format a time of day. The date is included if it is not today. */
export function clock(unix) {
  if (!unix) return "";
  const date = new Date(unix * 1000);
  const time = date.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", hour12: false});
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString([], {day: "numeric", month: "short"})} ${time}`;
}

export function shape(dims) {
  return `[${(dims ?? []).join(", ")}]`;
}

/** Join words as in a sentence: "a, b and c". */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** Shorten the id of a job in the purpose of a request: "job 4f2a19b0 of net". */
export function shorter(what) {
  return what.replace(/^(job [0-9a-f]{8})[0-9a-f]+/, "$1");
}
