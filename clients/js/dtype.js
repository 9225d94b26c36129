// SPDX-License-Identifier: MIT
// The dtypes of tensors; JavaScript has no arrays of 16-bit and 8-bit floats, so this file converts these.

// Small floats: bits of the fraction, bias of the exponent, code of the largest value, of infinity and of NaN.
// float8: Micikevicius et al., arXiv:2209.05433; float8_e4m3 has no infinity, so NaN takes its place.
const FORMATS = {
  float16: {bits: 16, fraction: 10, bias: 15, largest: 0x7bff, infinity: 0x7c00, nan: 0x7e00},
  bfloat16: {bits: 16, fraction: 7, bias: 127, largest: 0x7f7f, infinity: 0x7f80, nan: 0x7fc0},
  float8_e4m3: {bits: 8, fraction: 3, bias: 7, largest: 0x7e, infinity: 0x7f, nan: 0x7f},
  float8_e5m2: {bits: 8, fraction: 2, bias: 15, largest: 0x7b, infinity: 0x7c, nan: 0x7f},
};

// name -> the typed array of its elements, its code in safetensors, its name in the Open Inference Protocol (where it has one).
// Arrays of small floats hold their codes. Elements are little-endian, as all engines have them.
export const DTYPES = {
  bool: {array: Uint8Array, code: "BOOL", datatype: "BOOL"},
  int8: {array: Int8Array, code: "I8", datatype: "INT8"},
  int16: {array: Int16Array, code: "I16", datatype: "INT16"},
  int32: {array: Int32Array, code: "I32", datatype: "INT32"},
  int64: {array: BigInt64Array, code: "I64", datatype: "INT64"},
  uint8: {array: Uint8Array, code: "U8", datatype: "UINT8"},
  uint16: {array: Uint16Array, code: "U16", datatype: "UINT16"},
  uint32: {array: Uint32Array, code: "U32", datatype: "UINT32"},
  uint64: {array: BigUint64Array, code: "U64", datatype: "UINT64"},
  float16: {array: Uint16Array, code: "F16", datatype: "FP16"},
  bfloat16: {array: Uint16Array, code: "BF16", datatype: "BF16"},
  float32: {array: Float32Array, code: "F32", datatype: "FP32"},
  float64: {array: Float64Array, code: "F64", datatype: "FP64"},
  float8_e4m3: {array: Uint8Array, code: "F8_E4M3"},
  float8_e5m2: {array: Uint8Array, code: "F8_E5M2"},
};

/** The row of a dtype. Throws TypeError if there is no dtype of this name. */
export function dtypeInfo(name) {
  if (!Object.hasOwn(DTYPES, name)) {
    throw new TypeError(`${JSON.stringify(name)} is not a dtype; the dtypes are ${Object.keys(DTYPES).join(", ")}`);
  }
  return DTYPES[name];
}

/** The dtype of a typed array's elements. The dtype of a Uint16Array is uint16, not a 16-bit float. */
export function dtypeOf(array) {
  const name = array[Symbol.toStringTag] ?? array.constructor.name; // "Uint8Array" of a Buffer too
  if (name === "Uint8ClampedArray") return "uint8"; // the pixels of a canvas
  const plain = name.replace("Big", "").replace("Array", "").toLowerCase();
  if (!Object.hasOwn(DTYPES, plain)) throw new TypeError(`the elements of a ${name} are of no dtype`);
  return plain;
}

/** Whether the elements of a dtype are codes of small floats. */
export function isSmallFloat(dtype) {
  return Object.hasOwn(FORMATS, dtype);
}

/** The code of the nearest small float, ties to even. Throws RangeError past the largest value. */
export function encodeFloat(dtype, value) {
  const format = FORMATS[dtype];
  const sign = value < 0 || Object.is(value, -0) ? 1 << (format.bits - 1) : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return format.nan;
  if (size === Infinity) return sign | format.infinity;
  const exponent = Math.max(binaryExponent(size), 1 - format.bias);
  const code =
    (exponent + format.bias - 1) * 2 ** format.fraction + roundEven(size / 2 ** (exponent - format.fraction));
  if (code > format.largest) throw new RangeError(`${value} does not fit ${dtype}`);
  return sign | code;
}

/** The number that a code of a small float stands for. */
export function decodeFloat(dtype, code) {
  const format = FORMATS[dtype];
  const sign = code >> (format.bits - 1) ? -1 : 1;
  const size = code & (2 ** (format.bits - 1) - 1);
  if (size > format.largest) return size === format.infinity && format.infinity !== format.nan ? sign * Infinity : NaN;
  const exponent = size >> format.fraction;
  const fraction = size & (2 ** format.fraction - 1);
  if (exponent === 0) return sign * fraction * 2 ** (1 - format.bias - format.fraction);
  return sign * (2 ** format.fraction + fraction) * 2 ** (exponent - format.bias - format.fraction);
}

const scratch = new DataView(new ArrayBuffer(8));

/** The exponent of the leading bit of a finite number; a very small one for zero and for subnormals of float64. */
function binaryExponent(value) {
  scratch.setFloat64(0, value);
  return ((scratch.getUint16(0) >> 4) & 0x7ff) - 1023;
}

function roundEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}
