// SPDX-License-Identifier: MIT
// Safetensors files: the length of a JSON header, the header, and the bytes of the tensors.
import {parse, stringify} from "./json.js";
import {DTYPES, dtypeInfo} from "./dtype.js";
import {Tensor, countElements} from "./tensor.js";

export const SAFETENSORS = "application/x-safetensors";
const DTYPE_OF_CODE = new Map(Object.entries(DTYPES).map(([name, {code}]) => [code, name]));

/** The bytes of a file with these tensors (by name) and metadata (an object of strings). */
export function writeSafetensors(tensors, metadata) {
  // The widest first, so that every tensor begins at a multiple of the size of its elements.
  const entries = Object.entries(tensors).sort(([, a], [, b]) => b.data.BYTES_PER_ELEMENT - a.data.BYTES_PER_ELEMENT);
  const header = metadata ? [["__metadata__", metadata]] : [];
  let end = 0;
  for (const [name, {dtype, shape, bytes}] of entries) {
    header.push([name, {dtype: dtypeInfo(dtype).code, shape, data_offsets: [end, end + bytes.length]}]);
    end += bytes.length;
  }
  return joinFile(
    stringify(Object.fromEntries(header)),
    entries.map(([, tensor]) => tensor.bytes),
    end,
  );
}

function joinFile(header, chunks, size) {
  const text = new TextEncoder().encode(header);
  const padded = Math.ceil(text.length / 8) * 8;
  const file = new Uint8Array(8 + padded + size);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  file.fill(0x20, 8, 8 + padded);
  file.set(text, 8);
  let at = 8 + padded;
  for (const chunk of chunks) {
    file.set(chunk, at);
    at += chunk.length;
  }
  return file;
}

/** {tensors, metadata} of a file's bytes. Throws RangeError if the bytes are no such file. */
export function readSafetensors(bytes) {
  if (bytes.length < 8) throw new RangeError("no safetensors file: shorter than its length");
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  if (size > bytes.length - 8) throw new RangeError("no safetensors file: the header is longer than the file");
  const header = parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const body = bytes.subarray(8 + size);
  const entries = Object.entries(header).filter(([name]) => name !== "__metadata__");
  return {
    tensors: Object.fromEntries(entries.map(([name, entry]) => [name, readTensor(name, entry, body)])),
    metadata: header.__metadata__ ?? {},
  };
}

function readTensor(name, {dtype: code, shape, data_offsets: [begin, end]}, body) {
  const dtype = DTYPE_OF_CODE.get(code);
  if (dtype === undefined || !(begin >= 0 && begin <= end && end <= body.length)) {
    throw new RangeError(`no safetensors file: bad entry of "${name}"`);
  }
  if (end - begin !== countElements(shape) * dtypeInfo(dtype).array.BYTES_PER_ELEMENT) {
    throw new RangeError(`no safetensors file: the size of "${name}" is wrong`);
  }
  return Tensor.fromBytes(dtype, shape, body.subarray(begin, end));
}
