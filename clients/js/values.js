// SPDX-License-Identifier: MIT
// Tensor values in the documents of requests and answers.
import {Tensor, countElements} from "./tensor.js";

/**
 * The values of a document by name. Those that travel as bytes go into `tensors` under `prefix` and their name instead.
 *
 * values: numbers, nested lists, typed arrays, Tensors; objects are values as the wire has them: {tensor: "w"}, {dtype, shape}, {op, attrs}
 * declared: {dtype, shape} by name, as a graph declares its inputs: the dtype of numbers, and the shape of typed arrays
 * tensors: an object; undefined: everything stands in the document
 */
export function encodeValues(values, tensors, {declared = {}, prefix = ""} = {}) {
  const encoded = [];
  for (const [name, value] of Object.entries(values)) {
    const made = toTensor(value, Object.hasOwn(declared, name) ? declared[name] : {});
    if (made instanceof Tensor && tensors !== undefined) setOwn(tensors, prefix + name, made);
    else encoded.push([name, made]);
  }
  return Object.fromEntries(encoded);
}

/** A Tensor of what has a dtype of its own or a declared one; other values as they are. */
function toTensor(value, {dtype, shape}) {
  if (ArrayBuffer.isView(value)) return Tensor.from(value, {dtype, shape: completeShape(value.length, shape)});
  if (value instanceof Tensor || dtype === undefined) return value;
  const isPlain = Array.isArray(value) || typeof value !== "object";
  return isPlain && dtype !== "float32" ? Tensor.from(value, {dtype}) : value; // the server takes numbers for float32
}

/** A declared shape for so many elements, of which one size may be open: a name or -1; undefined where the shape does not say it. */
export function completeShape(length, shape) {
  if (shape === undefined || shape === null) return undefined;
  const isOpen = (size) => typeof size === "string" || size < 0;
  const known = countElements(shape.filter((size) => !isOpen(size)));
  const open = shape.filter(isOpen).length;
  if (open > 1 || (open === 1 && length % known !== 0)) return undefined;
  return shape.map((size) => (isOpen(size) ? length / known : size));
}

/** Tensors by name, of the entries of an answer; `tensors`: those that came as bytes, or undefined where the entries have numbers. */
export function decodeValues(entries = {}, tensors = undefined, form = (name) => name) {
  const decode = (name, entry) => (tensors === undefined ? Tensor.from(entry.data, entry) : tensors[form(name)]);
  return Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, decode(name, entry)]));
}

/** Define a member, also one of the name "__proto__", which an assignment would not. */
function setOwn(object, name, value) {
  Object.defineProperty(object, name, {value, enumerable: true, configurable: true, writable: true});
}

/** The bytes of a typed array, of an ArrayBuffer, or of a text in UTF-8. */
export function toBytes(data) {
  if (typeof data === "string") return new TextEncoder().encode(data);
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

/** Whether a value is an object as {...} makes it. */
export function isPlainObject(value) {
  return value !== null && typeof value === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}
