# SPDX-License-Identifier: MIT
"""Tensor values on their way to the server and back: dtypes, a plain array, and safetensors.  NumPy is used where it is installed."""
from __future__ import annotations

import array as packed
import bisect
import json
import math
import struct
import sys
from typing import Any

from .names import suggest

try:
    import numpy
except ImportError:
    numpy = None

# name -> (bytes, code in safetensors, code of the array module or None)
DTYPES = {
    "bool": (1, "BOOL", "B"),
    "int8": (1, "I8", "b"),
    "int16": (2, "I16", "h"),
    "int32": (4, "I32", "i"),
    "int64": (8, "I64", "q"),
    "uint8": (1, "U8", "B"),
    "uint16": (2, "U16", "H"),
    "uint32": (4, "U32", "I"),
    "uint64": (8, "U64", "Q"),
    "float16": (2, "F16", None),
    "float8_e4m3": (1, "F8_E4M3", None),
    "float8_e5m2": (1, "F8_E5M2", None),
    "bfloat16": (2, "BF16", None),
    "float32": (4, "F32", "f"),
    "float64": (8, "F64", "d"),
}
CODES = {code: name for name, (_, code, _) in DTYPES.items()}
NUMPY_DTYPES = set(DTYPES) - {"bfloat16", "float8_e4m3", "float8_e5m2"}


def float8_values(fraction, bias, finite, beyond) -> list:
    """The value of each code of an 8-bit float (Micikevicius et al., arXiv:2209.05433): those over ``finite`` are ``beyond``, then NaN."""
    values = []
    for code in range(128):
        exponent, rest = code >> fraction, code & (1 << fraction) - 1
        value = rest * 2.0 ** (1 - bias - fraction) if exponent == 0 else (1 + rest / 2 ** fraction) * 2.0 ** (exponent - bias)
        values.append(value if code <= finite else beyond if code == finite + 1 else math.nan)
    return values + [-value for value in values]


FLOAT8 = {"float8_e4m3": float8_values(3, 7, 0x7e, math.nan), "float8_e5m2": float8_values(2, 15, 0x7b, math.inf)}
FINITE8 = {name: [value for value in codes[:128] if math.isfinite(value)] for name, codes in FLOAT8.items()}


def dtype_name(dtype) -> str:
    """The wire's name of a dtype given by name or as one of NumPy's."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if numpy is not None and name not in DTYPES:
        try:
            name = numpy.dtype(dtype).name
        except TypeError:
            pass
    if name not in DTYPES:
        raise ValueError(f"{dtype!r} is not a dtype; the dtypes are {', '.join(DTYPES)}{suggest(str(name), DTYPES)}")
    return name


def count(shape) -> int:
    """How many elements a shape has."""
    total = 1
    for size in shape:
        total *= size
    return total


class Array:
    """A tensor in this process without NumPy: ``dtype`` (its name), ``shape`` (a tuple), ``data`` (little-endian bytes, row-major)."""

    __slots__ = ("dtype", "shape", "data")

    def __init__(self, dtype, shape, data) -> None:
        self.dtype = dtype_name(dtype)
        self.shape = tuple(shape)
        self.data = data
        needed = count(self.shape) * DTYPES[self.dtype][0]
        if memoryview(data).nbytes != needed:
            raise ValueError(f"{self.dtype} of shape {list(self.shape)} takes {needed} bytes, not {memoryview(data).nbytes}")

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {list(self.shape)})"

    @property
    def nbytes(self) -> int:
        """The size of its elements in bytes, as NumPy's arrays have it."""
        return memoryview(self.data).nbytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __array__(self, dtype=None) -> Any:
        values = numpy.frombuffer(self.data, self.dtype) if self.dtype in NUMPY_DTYPES else numpy.array(self.flat(), "float32")
        values = values.reshape(self.shape)
        return values if dtype is None else values.astype(dtype)

    def flat(self) -> list:
        """Its numbers in one list."""
        data = bytes(self.data)
        if self.dtype == "bool":
            return [byte != 0 for byte in data]
        if self.dtype == "float16":
            return list(struct.unpack(f"<{len(data) // 2}e", data))
        if self.dtype == "bfloat16":  # the upper half of a float32
            words = struct.unpack(f"<{len(data) // 2}H", data)
            return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words))))
        if self.dtype in FLOAT8:
            return [FLOAT8[self.dtype][code] for code in data]
        values = packed.array(DTYPES[self.dtype][2], data)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tolist()

    def tolist(self) -> Any:
        """Its numbers as nested lists; of a scalar the number."""
        return nest(self.flat(), self.shape)

    def item(self) -> Any:
        """The number of a tensor with one element."""
        values = self.flat()
        if len(values) != 1:
            raise ValueError(f"item() of shape {list(self.shape)}")
        return values[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())


def nest(values: list, shape) -> Any:
    """A flat list as nested lists of a shape; for the shape () its one element."""
    for axis in range(len(shape) - 1, 0, -1):
        size = shape[axis]
        values = [values[i * size:(i + 1) * size] for i in range(count(shape[:axis]))]
    return values if shape else values[0]


def shape_of(values) -> tuple:
    """The shape of nested lists; ValueError where they are ragged."""
    if not isinstance(values, (list, tuple)):
        return ()
    shapes = {shape_of(value) for value in values}
    if len(shapes) > 1:
        raise ValueError("the lists are not of one length")
    return (len(values), *(shapes.pop() if shapes else ()))


def flatten(values, into) -> list:
    if isinstance(values, (list, tuple)):
        for value in values:
            flatten(value, into)
    else:
        into.append(values)
    return into


def array(values, dtype="float32") -> Array:
    """An Array from a number or nested lists.  OverflowError or TypeError where one does not fit the dtype."""
    dtype = dtype_name(dtype)
    shape, numbers = shape_of(values), flatten(values, [])
    if dtype == "bool":
        return Array(dtype, shape, bytes(bool(number) for number in numbers))
    if dtype == "float16":
        return Array(dtype, shape, struct.pack(f"<{len(numbers)}e", *numbers))
    if dtype == "bfloat16":
        words = struct.unpack(f"<{len(numbers)}I", struct.pack(f"<{len(numbers)}f", *numbers))
        return Array(dtype, shape, struct.pack(f"<{len(words)}H", *(round_word(word) for word in words)))
    if dtype in FLOAT8:
        return Array(dtype, shape, bytes(round_float8(dtype, number) for number in numbers))
    data = packed.array(DTYPES[dtype][2], numbers)
    if sys.byteorder == "big":
        data.byteswap()
    return Array(dtype, shape, data.tobytes())


def round_word(word) -> int:
    """The upper half of a float32's bits, rounded to nearest even; NaN stays NaN."""
    if word & 0x7fffffff > 0x7f800000:
        return word >> 16 | 0x40
    return word + 0x7fff + (word >> 16 & 1) >> 16


def round_float8(dtype, number) -> int:
    """The code of the nearest value, of two as near of the even one; OverflowError past the largest, as for the other floats."""
    size, sign, finite = abs(number), 0x80 if math.copysign(1, number) < 0 else 0, FINITE8[dtype]
    if math.isnan(number):
        return sign | 0x7f
    if math.isinf(number):
        return sign | len(finite)  # infinity, or NaN where there is none
    low = bisect.bisect_right(finite, size) - 1
    step = finite[low + 1] - finite[low] if low + 1 < len(finite) else finite[low] - finite[low - 1]
    above = (size - finite[low]) * 2
    code = low + (above > step or (above == step and low % 2 == 1))
    if code == len(finite):
        raise OverflowError(f"{number!r} is too large for {dtype}")
    return sign | code


def is_numpy(value) -> bool:
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def as_array(value) -> Array:
    """An Array over the same numbers as a NumPy array (or an Array itself)."""
    if isinstance(value, Array):
        return value
    little = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    return Array(value.dtype.name, value.shape, little.reshape(-1).view(numpy.uint8).data if little.size else b"")


def as_result(dtype, shape, data, use_numpy) -> Any:
    """What a caller gets: a NumPy array where there is one of that dtype, else an Array."""
    if use_numpy and dtype in NUMPY_DTYPES:
        return numpy.frombuffer(data, numpy.dtype(dtype).newbyteorder("<")).reshape(shape)
    return Array(dtype, shape, data)


def exact(value) -> Any:
    """Nested lists and numbers as JSON can carry them: NaN and infinities as strings."""
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    if isinstance(value, float) and not value - value == 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def restore(value) -> Any:
    """The numbers of a JSON answer: the strings of exact() as floats again."""
    if isinstance(value, list):
        return [restore(item) for item in value]
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else value


def write_safetensors(tensors, metadata=None) -> bytes:
    """One safetensors file as bytes, of a dict of Arrays or NumPy arrays, and a dict of strings."""
    header, chunks, at = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    # Widest first, so that every tensor begins at a multiple of its element's size.
    arrays = sorted(((name, as_array(value)) for name, value in tensors.items()), key=lambda pair: -DTYPES[pair[1].dtype][0])
    for name, value in arrays:
        size = memoryview(value.data).nbytes
        header[name] = {"dtype": DTYPES[value.dtype][1], "shape": list(value.shape), "data_offsets": [at, at + size]}
        chunks.append(value.data)
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *chunks])


def read_safetensors(data, use_numpy=None) -> tuple:
    """(tensors by name, metadata) of a safetensors file.  ValueError where it is none."""
    use_numpy = numpy is not None if use_numpy is None else use_numpy
    data = memoryview(data)
    if len(data) < 8:
        raise ValueError("no safetensors: shorter than its length")
    size = struct.unpack("<Q", data[:8])[0]
    if size > len(data) - 8:
        raise ValueError("no safetensors: the header is longer than the file")
    header = json.loads(bytes(data[8:8 + size]))
    metadata = header.pop("__metadata__", {})
    body = data[8 + size:]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] not in CODES or not 0 <= begin <= end <= len(body):
            raise ValueError(f"no safetensors: bad entry of {name!r}")
        dtype = CODES[entry["dtype"]]
        if end - begin != count(entry["shape"]) * DTYPES[dtype][0]:
            raise ValueError(f"no safetensors: the size of {name!r} is wrong")
        tensors[name] = as_result(dtype, tuple(entry["shape"]), body[begin:end], use_numpy)
    return tensors, metadata
