# SPDX-License-Identifier: MIT
"""GGUF files: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.  Quantised tensors are expanded by expressions."""
from __future__ import annotations

import io
import math
import struct

from ..dtype import dtypes
from ..tensor import Tensor

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
PLAIN = {0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32, 27: dtypes.int64,
         28: dtypes.float64, 30: dtypes.bfloat16}
ALIGNMENT = 32
HALF_STEPS = [0, 1, 2, 3, 4, 6, 8, 12]  # twice the values of a 4-bit float of two bits of exponent and one of fraction


def halves(blocks: Tensor, at: int) -> Tensor:
    """The float16 at a byte of each block, as float32 (blocks, 1)."""
    return blocks[:, at:at + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def nibbles(bits: Tensor) -> Tensor:
    """(blocks, n) bytes as (blocks, 2 n): the low halves, then the high ones."""
    return (bits & 15).cat(bits >> 4, dim=-1)


def fifth(blocks: Tensor, at: int) -> Tensor:
    """32 bits of each block as (blocks, 32) of 0 or 16."""
    shifts = Tensor.arange(8, dtype=dtypes.uint8)
    bits = (blocks[:, at:at + 4].unsqueeze(-1) >> shifts) & 1
    return bits.reshape(-1, 32) * 16


def k_scales(blocks: Tensor) -> tuple:
    """(scales, minima), (blocks, 8) each, of 6 bits each in 12 bytes from the fourth on."""
    q = blocks[:, 4:16]
    low, high, top = q[:, 0:4], q[:, 4:8], q[:, 8:12]
    scales = (low & 63).cat((top & 15) | ((low >> 6) << 4), dim=-1)
    return scales, (high & 63).cat((top >> 4) | ((high >> 6) << 4), dim=-1)


def k_values(blocks: Tensor, q: Tensor) -> Tensor:
    scales, minima = k_scales(blocks)
    d, dmin = halves(blocks, 0), halves(blocks, 2)
    return (d * scales).unsqueeze(-1) * q.reshape(-1, 8, 32) - (dmin * minima).unsqueeze(-1)


def q4_k(b: Tensor) -> Tensor:
    q = b[:, 16:144].reshape(-1, 4, 1, 32)
    return k_values(b, (q & 15).cat(q >> 4, dim=2))


def q5_k(b: Tensor) -> Tensor:
    q = b[:, 48:176].reshape(-1, 4, 1, 32)
    bits = (b[:, 16:48].unsqueeze(1) >> Tensor.arange(8, dtype=dtypes.uint8).reshape(1, 8, 1)) & 1
    return k_values(b, (q & 15).cat(q >> 4, dim=2).reshape(-1, 8, 32) + bits * 16)


def q6_k(b: Tensor) -> Tensor:
    low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
    lower = (low & 15).cat(low >> 4, dim=2)  # (blocks, 2, 4, 32)
    upper = (high >> (Tensor.arange(4, dtype=dtypes.uint8) * 2).reshape(1, 1, 4, 1)) & 3
    q = (lower + upper * 16).cast(dtypes.float32) - 32
    scales = b[:, 192:208].bitcast(dtypes.int8).reshape(-1, 16, 1).cast(dtypes.float32)
    return halves(b, 208).unsqueeze(-1) * scales * q.reshape(-1, 16, 16)


def mxfp4(b: Tensor) -> Tensor:
    """4-bit floats times a power of two: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf."""
    power = (b[:, 0:1].cast(dtypes.uint32) << 23).bitcast(dtypes.float32) * 0.5
    table = Tensor(HALF_STEPS + [-each for each in HALF_STEPS], dtype=dtypes.float32)
    return power * table[nibbles(b[:, 1:17]).cast(dtypes.int32)]


# kind -> (elements of a block, its bytes, how blocks (n, bytes) become numbers)
QUANTISED = {
    2: (32, 18, lambda b: halves(b, 0) * (nibbles(b[:, 2:18]).cast(dtypes.float32) - 8)),
    3: (32, 20, lambda b: halves(b, 0) * nibbles(b[:, 4:20]) + halves(b, 2)),
    6: (32, 22, lambda b: halves(b, 0) * ((nibbles(b[:, 6:22]) + fifth(b, 2)).cast(dtypes.float32) - 16)),
    7: (32, 24, lambda b: halves(b, 0) * (nibbles(b[:, 8:24]) + fifth(b, 4)) + halves(b, 2)),
    8: (32, 34, lambda b: halves(b, 0) * b[:, 2:34].bitcast(dtypes.int8)),
    12: (256, 144, q4_k),
    13: (256, 176, q5_k),
    14: (256, 210, q6_k),
    39: (32, 17, mxfp4),
}


class Reader:
    """Numbers and strings of a stream."""

    def __init__(self, data) -> None:
        self.stream = io.BytesIO(data)

    def number(self, letter: str):
        """One number of a format of the struct module."""
        return struct.unpack("<" + letter, self.bytes(struct.calcsize("<" + letter)))[0]

    def bytes(self, count: int) -> bytes:
        """So many bytes; ValueError where the file ends before."""
        data = self.stream.read(min(count, len(self.stream.getbuffer())))
        if len(data) != count:
            raise ValueError("GGUF: the file ends in its head")
        return data

    def text(self) -> str:
        """A string behind its length."""
        return self.bytes(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int):
        """A value of a kind: a number, a string or a list."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        raise ValueError(f"GGUF: no kind of value {kind}")


def expand(name: str, data, kind: int, shape: tuple) -> Tensor:
    """The numbers of a tensor, of which |data| has the bytes and perhaps more; ValueError where there are less."""
    if kind not in PLAIN and kind not in QUANTISED:
        raise ValueError(f"GGUF: {name!r} is of kind {kind}, which is none of {', '.join(map(str, sorted({*PLAIN, *QUANTISED})))}")
    per, size = (1, PLAIN[kind].itemsize) if kind in PLAIN else QUANTISED[kind][:2]
    count = math.prod(shape)
    if count % per:
        raise ValueError(f"GGUF: {name!r} has {count} elements, but its kind {kind} has blocks of {per}")
    if len(data) < count // per * size:
        raise ValueError(f"GGUF: the file ends in {name!r}")
    raw = Tensor(data[:count // per * size])
    if kind in PLAIN:
        return raw.bitcast(PLAIN[kind]).reshape(shape)
    return QUANTISED[kind][2](raw.reshape(-1, size)).reshape(shape)


def gguf_load(tensor) -> tuple:
    """(metadata, Tensors by name) of a GGUF file, given as a path or as a Tensor of its bytes."""
    from .state import read_bytes
    data = read_bytes(tensor)
    reader = Reader(data)
    if reader.stream.read(4) != b"GGUF" or reader.number("I") not in (2, 3):
        raise ValueError("Invalid GGUF format!")
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(keys):
        name = reader.text()
        metadata[name] = reader.value(reader.number("I"))
    entries = []
    for _ in range(tensors):
        name = reader.text()
        shape = tuple(reader.number("Q") for _ in range(reader.number("I")))[::-1]
        entries.append((name, shape, reader.number("I"), reader.number("Q")))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    start = -(-reader.stream.tell() // alignment) * alignment
    return metadata, {name: expand(name, data[start + offset:], kind, shape) for name, shape, kind, offset in entries}
