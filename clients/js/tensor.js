// SPDX-License-Identifier: MIT
// Tensors in this process.
import {decodeFloat, dtypeInfo, dtypeOf, encodeFloat, isSmallFloat} from "./dtype.js";

const NUMBER_WORDS = ["NaN", "Infinity", "-Infinity"]; // as the wire writes them

/**
 * A tensor: `dtype`, `shape` (a list of sizes) and `data`, a typed array of its elements in row-major order.
 *
 * 64-bit integers are BigInts. Of float16, bfloat16 and the float8 types `data` has the codes; `values()` and `toArray()` give numbers.
 */
export class Tensor {
  constructor(dtype, shape, data) {
    const {array} = dtypeInfo(dtype);
    if (!(data instanceof array)) throw new TypeError(`the data of a tensor of ${dtype} is a ${array.name}`);
    const size = countElements(shape);
    if (data.length !== size) {
      throw new RangeError(`a tensor of shape [${shape}] has ${size} elements, not ${data.length}`);
    }
    this.dtype = dtype;
    this.shape = [...shape];
    this.data = data;
  }

  /**
   * A tensor of a number, of nested lists, of a typed array, or of another tensor.
   *
   * dtype: by default that of the typed array or tensor; else bool of booleans, int64 of BigInts and float32 of numbers
   * shape: by default that of the lists or the tensor, and [length] of a typed array
   * Throws RangeError if a number does not fit the dtype.
   */
  static from(values, {dtype, shape} = {}) {
    if (values instanceof Tensor && (dtype ?? values.dtype) === values.dtype) {
      return shape === undefined ? values : new Tensor(values.dtype, shape, values.data);
    }
    const found = elementsOf(values);
    const type = dtype ?? found.dtype;
    return new Tensor(type, shape ?? found.shape, fill(type, found.data));
  }

  /** A tensor of the bytes of its elements, little-endian. The bytes are shared where their alignment allows. */
  static fromBytes(dtype, shape, bytes) {
    const {array} = dtypeInfo(dtype);
    const width = array.BYTES_PER_ELEMENT;
    const aligned = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
    return new Tensor(
      dtype,
      shape,
      new array(aligned.buffer, aligned.byteOffset, Math.floor(aligned.byteLength / width)),
    );
  }

  /** How many elements there are. */
  get size() {
    return this.data.length;
  }

  /** The bytes of the elements, shared with `data`. */
  get bytes() {
    return new Uint8Array(this.data.buffer, this.data.byteOffset, this.data.byteLength);
  }

  /** The elements in one list: booleans of bool, a Float32Array of small floats, else `data`. */
  values() {
    if (isSmallFloat(this.dtype)) return Float32Array.from(this.data, (code) => decodeFloat(this.dtype, code));
    return this.dtype === "bool" ? Array.from(this.data, Boolean) : this.data;
  }

  /** The elements as nested lists; of a scalar its element. */
  toArray() {
    return nest(Array.from(this.values()), this.shape);
  }

  /** The element of a tensor of one element. */
  item() {
    if (this.size !== 1) throw new RangeError(`item() of a tensor of shape [${this.shape}]; it must have one element`);
    return this.values()[0];
  }

  /** The tensor as a value of a JSON document. */
  toJSON() {
    return {dtype: this.dtype, shape: this.shape, data: Array.from(this.values())};
  }
}

/** How many elements a shape has. */
export function countElements(shape) {
  return shape.reduce((total, size) => total * size, 1);
}

/** A flat list as nested lists of a shape; for the shape [] its one element. */
export function nest(flat, shape) {
  let values = flat;
  for (let axis = shape.length - 1; axis > 0; axis--) {
    values = chunk(values, shape[axis], countElements(shape.slice(0, axis)));
  }
  return shape.length > 0 ? values : values[0];
}

function chunk(values, size, count) {
  return Array.from({length: count}, (_, i) => values.slice(i * size, (i + 1) * size));
}

/** The shape of nested lists; the inner ones may be typed arrays. Throws RangeError if lists at one depth differ in length. */
export function shapeOf(values) {
  if (ArrayBuffer.isView(values)) return [values.length];
  if (!Array.isArray(values)) return [];
  const shapes = values.map(shapeOf);
  if (shapes.some((shape) => String(shape) !== String(shapes[0]))) {
    throw new RangeError("the lists are not of one length");
  }
  return [values.length, ...(shapes[0] ?? [])];
}

/** Appends the elements of nested lists to a list. */
export function flatten(values, into) {
  if (Array.isArray(values) || ArrayBuffer.isView(values)) for (const value of values) flatten(value, into);
  else into.push(values);
  return into;
}

/** {dtype, shape, data} of the argument of Tensor.from; data is a list or a typed array. */
function elementsOf(values) {
  if (values instanceof Tensor) return {dtype: values.dtype, shape: values.shape, data: values.values()};
  if (ArrayBuffer.isView(values)) return {dtype: dtypeOf(values), shape: [values.length], data: values};
  const data = flatten(values, []);
  return {dtype: {boolean: "bool", bigint: "int64"}[typeof data[0]] ?? "float32", shape: shapeOf(values), data};
}

/** A typed array with these elements. Throws RangeError if one does not fit the dtype. */
function fill(dtype, values) {
  const {array} = dtypeInfo(dtype);
  if (values instanceof array && !isSmallFloat(dtype) && dtype !== "bool") return values;
  const convert = converter(dtype, array);
  const data = new array(values.length);
  for (let i = 0; i < data.length; i++) data[i] = convert(values[i]);
  return data;
}

function converter(dtype, array) {
  if (dtype === "bool") return (value) => (value ? 1 : 0);
  if (isSmallFloat(dtype)) return (value) => encodeFloat(dtype, toNumber(value));
  if (array === BigInt64Array) return (value) => checkFit(BigInt.asIntN(64, toBigInt(value, dtype)), value, dtype);
  if (array === BigUint64Array) return (value) => checkFit(BigInt.asUintN(64, toBigInt(value, dtype)), value, dtype);
  if (array === Float64Array) return toNumber;
  if (array === Float32Array) return toFloat32;
  const probe = new array(1);
  return (value) => {
    probe[0] = toNumber(value);
    return checkFit(probe[0], value, dtype);
  };
}

/** Returns `stored`, which must equal `value`. The comparison is ==, because the one may be a BigInt and the other a number or a boolean. */
function checkFit(stored, value, dtype) {
  if (stored != value) throw new RangeError(`${value} does not fit ${dtype}`);
  return stored;
}

function toNumber(value) {
  if (
    typeof value === "string" ? !NUMBER_WORDS.includes(value) : !["number", "bigint", "boolean"].includes(typeof value)
  ) {
    throw new TypeError(`${JSON.stringify(value)} is no number`);
  }
  return Number(value);
}

function toBigInt(value, dtype) {
  if (typeof value === "bigint") return value;
  const number = toNumber(value);
  if (!Number.isInteger(number)) throw new RangeError(`${value} does not fit ${dtype}`);
  return BigInt(number);
}

function toFloat32(value) {
  const number = toNumber(value);
  if (Number.isFinite(number) && !Number.isFinite(Math.fround(number))) {
    throw new RangeError(`${value} does not fit float32`);
  }
  return number;
}
