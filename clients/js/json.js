// SPDX-License-Identifier: MIT
// JSON without loss: 64-bit integers are exact; NaN and the infinities are the wire's strings.

// A string or a number of a JSON text.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;

/** The text of a value. BigInts are written as digits, typed arrays as lists; `toJSON` of an object is honoured. */
export function stringify(value) {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return stringifyNumber(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (typeof value.toJSON === "function") return stringify(value.toJSON());
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return `[${Array.from(value, (item) => stringify(item)).join(",")}]`;
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${stringify(member)}`).join(",")}}`;
}

function stringifyNumber(value) {
  if (!Number.isFinite(value)) return `"${value}"`;
  return Object.is(value, -0) ? "-0" : String(value);
}

/** The value of a text. An integer beyond 2^53 becomes a BigInt; all other numbers become numbers. */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const mark = `integer ${Math.random()} `; // drawn anew, so that no string of the text begins with it
  const marked = text.replace(TOKEN, (token) => (isUnsafe(token) ? `"${mark}${token}"` : token));
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

function isUnsafe(token) {
  return INTEGER.test(token) && !Number.isSafeInteger(Number(token));
}
