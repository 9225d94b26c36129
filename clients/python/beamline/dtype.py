# SPDX-License-Identifier: MIT
"""dtypes of a Tensor: their names, sizes, and how two become one.

``dtypes.float32.name`` is the wire's name; ``dtypes.float``, ``.half``, ``.int`` and so on are other names of the same objects.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .context import DEFAULT_FLOAT, DEFAULT_INT
from .names import missing, suggest
from .symbolic import Symbolic


class DType:
    """One dtype.  There is one object for each, so that ``is`` and ``==`` say the same.

    name: as the wire has it     itemsize: bytes     priority: who wins where two meet
    fmt: the letter that the struct module has for it, or None
    """

    __slots__ = ("name", "itemsize", "priority", "fmt", "label")

    def __init__(self, name: str, itemsize: int, priority: int, fmt: str | None, label: str):
        self.name, self.itemsize, self.priority, self.fmt, self.label = name, itemsize, priority, fmt, label

    def __repr__(self) -> str:
        return f"dtypes.{self.label}"

    def __reduce__(self) -> tuple:
        return to_dtype, (self.name,)

    def __lt__(self, other: DType) -> bool:
        return (self.priority, self.name) < (other.priority, other.name)

    @property
    def bitsize(self) -> int:
        """Bits of one element."""
        return 1 if self.name == "bool" else 8 * self.itemsize

    @property
    def min(self) -> Any:
        """The least value."""
        return dtypes.min(self)

    @property
    def max(self) -> Any:
        """The greatest value."""
        return dtypes.max(self)


class Dtypes:
    """The table; its one object is ``dtypes``."""

    bool = DType("bool", 1, 0, "?", "bool")
    int8 = DType("int8", 1, 1, "b", "char")
    uint8 = DType("uint8", 1, 2, "B", "uchar")
    int16 = DType("int16", 2, 3, "h", "short")
    uint16 = DType("uint16", 2, 4, "H", "ushort")
    int32 = DType("int32", 4, 5, "i", "int")
    uint32 = DType("uint32", 4, 6, "I", "uint")
    int64 = DType("int64", 8, 7, "q", "long")
    uint64 = DType("uint64", 8, 8, "Q", "ulong")
    fp8e4m3 = DType("float8_e4m3", 1, 9, None, "fp8e4m3")
    fp8e5m2 = DType("float8_e5m2", 1, 10, None, "fp8e5m2")
    float16 = DType("float16", 2, 11, "e", "half")
    bfloat16 = DType("bfloat16", 2, 12, None, "bfloat16")
    float32 = DType("float32", 4, 13, "f", "float")
    float64 = DType("float64", 8, 14, "d", "double")
    half, float, double = float16, float32, float64
    char, uchar, short, ushort, int, uint, long, ulong = int8, uint8, int16, uint16, int32, uint32, int64, uint64

    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    ints = uints + sints
    fp8s = (fp8e4m3, fp8e5m2)
    floats = fp8s + (float16, bfloat16, float32, float64)
    all = (bool,) + ints + floats

    @property
    def default_float(self) -> DType:
        """The dtype of Tensors of fractions that are made without a dtype: $DEFAULT_FLOAT, ``Context(DEFAULT_FLOAT=...)``, or the value set here."""
        return BY_NAME.get(DEFAULT_FLOAT.value) or to_dtype(DEFAULT_FLOAT.value)

    @default_float.setter
    def default_float(self, dtype) -> None:
        DEFAULT_FLOAT.value = to_dtype(dtype).name

    @property
    def default_int(self) -> DType:
        """The dtype of Tensors of whole numbers that are made without a dtype: $DEFAULT_INT, ``Context(DEFAULT_INT=...)``, or the value set here."""
        return BY_NAME.get(DEFAULT_INT.value) or to_dtype(DEFAULT_INT.value)

    @default_int.setter
    def default_int(self, dtype) -> None:
        DEFAULT_INT.value = to_dtype(dtype).name

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            raise missing("dtypes", name, BY_NAME)

    def is_float(self, dtype: DType) -> bool:
        """Whether it has fractions."""
        return dtype.priority >= 9

    def is_int(self, dtype: DType) -> bool:
        """Whether it is an integer, which bool is not."""
        return 1 <= dtype.priority <= 8

    def is_unsigned(self, dtype: DType) -> bool:
        """Whether it is an integer without a sign."""
        return dtype in self.uints

    def is_bool(self, dtype: DType) -> bool:
        """Whether it is bool."""
        return dtype is self.bool

    def from_py(self, value) -> DType:
        """The dtype of a Python number, or of the first in a list of them."""
        if isinstance(value, bool):
            return self.bool
        if isinstance(value, Symbolic):
            return getattr(value, "dtype", None) or self.default_int
        if isinstance(value, int):
            return self.default_int
        if isinstance(value, float):
            return self.default_float
        if isinstance(value, (list, tuple)):
            return max((self.from_py(item) for item in value), default=self.default_float)
        raise RuntimeError(f"Could not infer dtype of {value} with type {type(value)}")

    def min(self, dtype: DType):
        """The least value."""
        if self.is_int(dtype):
            return 0 if dtype in self.uints else -2 ** (8 * dtype.itemsize - 1)
        return -math.inf if self.is_float(dtype) else False

    def max(self, dtype: DType):
        """The greatest value."""
        if self.is_int(dtype):
            return 2 ** (8 * dtype.itemsize) - 1 + self.min(dtype)
        return math.inf if self.is_float(dtype) else True

    def as_const(self, value, dtype: DType):
        """A number as a Python number of that kind."""
        return float(value) if self.is_float(dtype) else int(value) if self.is_int(dtype) else bool(value)

    def finfo(self, dtype: DType) -> tuple[int, int]:
        """(bits of the exponent, bits of the mantissa) of a float."""
        return {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52), "float8_e5m2": (5, 2),
                "float8_e4m3": (4, 3)}[dtype.name]


# Inside the class body the names bool, int and float are dtypes; its methods see Python's.
dtypes = Dtypes()
BY_NAME = {**{name: value for name, value in vars(Dtypes).items() if isinstance(value, DType)},
           **{each.name: each for each in dtypes.all}}

def to_dtype(value) -> DType:
    """The dtype of a name, of NumPy's dtype, or itself."""
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    name = name.lower().replace("dtypes.", "") if name else name
    if name not in BY_NAME:
        raise ValueError(f"{value!r} is not a dtype; the dtypes are {', '.join(each.name for each in dtypes.all)}{suggest(str(name), BY_NAME)}")
    return BY_NAME[name]


# What each dtype may become next, as in JAX: https://docs.jax.dev/en/latest/jep/9407-type-promotion.html
LATTICE = {
    "bool": ("int8", "uint8"), "int8": ("int16",), "uint8": ("int16", "uint16"), "int16": ("int32",),
    "uint16": ("int32", "uint32"), "int32": ("int64",), "uint32": ("int64", "uint64"), "int64": ("float8_e4m3", "float8_e5m2"),
    "uint64": ("float8_e4m3", "float8_e5m2"), "float8_e4m3": ("float16", "bfloat16"), "float8_e5m2": ("float16", "bfloat16"),
    "float16": ("float32",), "bfloat16": ("float32",), "float32": ("float64",), "float64": (),
}


def closure(name: str) -> frozenset:
    return frozenset({name}.union(*(closure(up) for up in LATTICE[name])))


REACHABLE = {each.name: closure(each.name) for each in dtypes.all}
UPPER: dict = {}


def least_upper_dtype(*operands: DType) -> DType:
    """The least dtype that all of these become."""
    found = UPPER.get(operands)
    if found is None:
        common = frozenset.intersection(*(REACHABLE[each.name] for each in operands))
        found = UPPER[operands] = min(BY_NAME[name] for name in common)
    return found


def least_upper_float(dtype: DType) -> DType:
    """Itself where it is a float, else the default one."""
    return dtype if dtypes.is_float(dtype) else least_upper_dtype(dtype, dtypes.default_float)


def sum_acc_dtype(dtype: DType) -> DType:
    """What a sum is of: integers of at least 32 bits."""
    if dtypes.is_unsigned(dtype):
        return least_upper_dtype(dtype, dtypes.uint32)
    if not dtypes.is_float(dtype):
        return least_upper_dtype(dtype, dtypes.int32)
    return dtype
