// SPDX-License-Identifier: MIT
// Tensor values in the documents of requests and answers.
import {Tensor, countElements} from "./tensor.js";

/**
 * Encodes values for a document, by name. Values that travel as bytes go into `tensors`, under `prefix` and their name, and not into the
 * result.
 *
 * values: numbers, nested lists, typed arrays, Tensors; plain objects are passed on: {tensor: "w"}, {dtype, shape}, {op, attrs}
 * declared: {dtype, shape} of the inputs, by name: the dtype of numbers and typed arrays, and the shape of typed arrays
 * tensors: an object; if undefined, all values stand in the document
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

/** A Tensor, if the value has a dtype or its input declares one; else the value. */
function toTensor(value, {dtype, shape}) {
  if (ArrayBuffer.isView(value)) return Tensor.from(value, {dtype, shape: completeShape(value.length, shape)});
  if (value instanceof Tensor || dtype === undefined) return value;
  const isPlain = Array.isArray(value) || typeof value !== "object";
  return isPlain && dtype !== "float32" ? Tensor.from(value, {dtype}) : value; // the server takes numbers for float32
}

/** A declared shape with its one open size (a name or -1) computed from the number of elements; undefined if that is not possible. */
export function completeShape(length, shape) {
  if (shape === undefined || shape === null) return undefined;
  const isOpen = (size) => typeof size === "string" || size < 0;
  const known = countElements(shape.filter((size) => !isOpen(size)));
  const open = shape.filter(isOpen).length;
  if (open > 1 || (open === 1 && length % known !== 0)) return undefined;
  return shape.map((size) => (isOpen(size) ? length / known : size));
}

/** The tensors of an answer, by name. `tensors`: those that came as bytes; undefined if the entries have the numbers. */
export function decodeValues(entries = {}, tensors = undefined, form = (name) => name) {
  const decode = (name, entry) => (tensors === undefined ? Tensor.from(entry.data, entry) : tensors[form(name)]);
  return Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, decode(name, entry)]));
}

/** Defines a member. An assignment would not define one with the name "__proto__". */
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

/** Whether a value is a plain object, as an object literal makes it. */
export function isPlainObject(value) {
  return value !== null && typeof value === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}
