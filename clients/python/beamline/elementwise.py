# SPDX-License-Identifier: MIT
"""Element by element: arithmetic, comparison, functions and activations."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable

from .base import Base, broadcast_shape
from .dtype import DType, dtypes, least_upper_dtype, least_upper_float, to_dtype
from .expr import Expr

if TYPE_CHECKING:
    from .tensor import Tensor

SELU_ALPHA, SELU_GAMMA = 1.67326, 1.0507


def function(name: str, doc: str, is_float: bool) -> Callable[[Any], Tensor]:
    """A method that is an op of the same name."""
    def method(self) -> Tensor:
        return self._op(name, dtype=least_upper_float(self.expr.dtype) if is_float else None)
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", doc
    return method


def to_float(name: str, doc: str) -> Callable[[Any], Tensor]:
    """A function whose result is a float; integers become one."""
    return function(name, doc, True)


def same_dtype(name: str, doc: str) -> Callable[[Any], Tensor]:
    """A function that keeps the dtype."""
    return function(name, doc, False)


def operator(name: str, *options) -> tuple[Callable[[Any, Any], Tensor], Callable[[Any, Any], Tensor], Callable[[Any, Any], Tensor]]:
    """x + y, y + x and x += y of a method that takes (y, reverse, *options)."""
    def forward(self, other) -> Tensor:
        return getattr(self, name)(other, False, *options)

    def backward(self, other) -> Tensor:
        return getattr(self, name)(other, True, *options)

    def in_place(self, other) -> Tensor:
        return self.assign(getattr(self, name)(other, False, *options))
    return forward, backward, in_place


def comparison(op: str) -> Callable[[Any, Any], Any]:
    """A comparison; of what has any type, since object's is of bool."""
    def method(self, other) -> Tensor:
        return self._compare(op, other)
    return method


class ElementwiseMixin(Base):
    """Methods that work element by element.  Operands broadcast as in NumPy, and become one dtype; numbers may stand for them."""

    __slots__ = ()

    # ---- functions of one number

    sqrt = to_float("sqrt", "Square root.")
    rsqrt = to_float("rsqrt", "1 / square root.")
    reciprocal = to_float("reciprocal", "1 / x.")
    exp = to_float("exp", "e to the x.")
    exp2 = to_float("exp2", "2 to the x.")
    log = to_float("log", "Natural logarithm.")
    log2 = to_float("log2", "Logarithm to the base 2.")
    log10 = to_float("log10", "Logarithm to the base 10.")
    sin = to_float("sin", "Sine of radians.")
    cos = to_float("cos", "Cosine of radians.")
    tan = to_float("tan", "Tangent of radians.")
    asin = to_float("asin", "Inverse sine.")
    acos = to_float("acos", "Inverse cosine.")
    atan = to_float("atan", "Inverse tangent.")
    sinh = to_float("sinh", "Hyperbolic sine.")
    cosh = to_float("cosh", "Hyperbolic cosine.")
    asinh = to_float("asinh", "Inverse hyperbolic sine.")
    acosh = to_float("acosh", "Inverse hyperbolic cosine.")
    atanh = to_float("atanh", "Inverse hyperbolic tangent.")
    erf = to_float("erf", "Error function.")
    sigmoid = to_float("sigmoid", "1 / (1 + exp(-x)).")
    tanh = to_float("tanh", "Hyperbolic tangent.")
    silu = to_float("silu", "x * sigmoid(x).")
    abs = same_dtype("abs", "Absolute value.")
    sign = same_dtype("sign", "-1, 0 or 1.")
    square = same_dtype("square", "x * x.")
    relu = same_dtype("relu", "max(x, 0).")
    floor = same_dtype("floor", "The next whole number below.")
    ceil = same_dtype("ceil", "The next whole number above.")
    trunc = same_dtype("trunc", "Towards zero.")
    round = same_dtype("round", "The nearest whole number, the even one of two.")
    swish = silu

    # ---- operators

    __add__, __radd__, __iadd__ = operator("add")
    __sub__, __rsub__, __isub__ = operator("sub")
    __mul__, __rmul__, __imul__ = operator("mul")
    __truediv__, __rtruediv__, __itruediv__ = operator("div")
    __floordiv__, __rfloordiv__, __ifloordiv__ = operator("div", "floor")
    __mod__, __rmod__, __imod__ = operator("mod")
    __pow__, __rpow__, __ipow__ = operator("pow")
    __and__, __rand__, __iand__ = operator("bitwise_and")
    __or__, __ror__, __ior__ = operator("bitwise_or")
    __xor__, __rxor__, __ixor__ = operator("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = operator("lshift")
    __rshift__, __rrshift__, __irshift__ = operator("rshift")
    __matmul__, __rmatmul__, __imatmul__ = operator("matmul")
    __eq__, __ne__ = comparison("equal"), comparison("not_equal")
    __lt__, __le__ = comparison("less"), comparison("less_equal")
    __gt__, __ge__ = comparison("greater"), comparison("greater_equal")
    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy calls __radd__ of the Tensor, so array + tensor is a Tensor

    def __neg__(self) -> Tensor:
        return self.neg()

    def __abs__(self) -> Tensor:
        return self.abs()

    def __invert__(self) -> Tensor:
        return self.bitwise_not()

    # ---- dtypes

    def cast(self, dtype) -> Tensor:
        """The same values as another dtype.  A float becomes an integer by dropping its fraction."""
        dtype = to_dtype(dtype)
        return self if dtype is self.dtype else self._convert("cast", dtype)

    def _convert(self, op: str, dtype: DType, shape: tuple | None = None) -> Tensor:
        mine = self.expr
        return self._wrap(Expr(op, (mine,), (("dtype", dtype.name),), mine.shape if shape is None else shape, dtype, mine.device))

    def bitcast(self, dtype) -> Tensor:
        """The same bits as another dtype: of shape (..., n), where the sizes differ (..., n * itemsize / other itemsize)."""
        dtype = to_dtype(dtype)
        if dtype is self.dtype:
            return self
        old, new = self.dtype.itemsize, dtype.itemsize
        if old == new:
            return self._convert("bitcast", dtype)._shows(self)
        if self.ndim == 0 or self.shape[-1] * old % new != 0:
            raise RuntimeError(f"unsupported size in bitcast: {self.shape} of {self.dtype} to {dtype}")
        return self._convert("bitcast", dtype, (*self.shape[:-1], self.shape[-1] * old // new))._shows(self)

    def float(self) -> Tensor:
        """As float32."""
        return self.cast(dtypes.float32)

    def half(self) -> Tensor:
        """As float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """As bfloat16."""
        return self.cast(dtypes.bfloat16)

    def double(self) -> Tensor:
        """As float64."""
        return self.cast(dtypes.float64)

    def int(self) -> Tensor:
        """As int32."""
        return self.cast(dtypes.int32)

    def long(self) -> Tensor:
        """As int64."""
        return self.cast(dtypes.int64)

    def short(self) -> Tensor:
        """As int16."""
        return self.cast(dtypes.int16)

    def bool(self) -> Tensor:
        """As bool: whether it is not zero."""
        return self.cast(dtypes.bool)

    # ---- arithmetic

    def neg(self) -> Tensor:
        """-x; of bool its opposite."""
        return self.logical_not() if self.dtype is dtypes.bool else self._op("neg")

    def add(self, x, reverse=False) -> Tensor:
        """self + x"""
        return self._binary("add", x, reverse)

    def sub(self, x, reverse=False) -> Tensor:
        """self - x"""
        return self._binary("sub", x, reverse)

    def mul(self, x, reverse=False) -> Tensor:
        """self * x"""
        return self._binary("mul", x, reverse)

    def div(self, x, reverse=False, rounding_mode=None) -> Tensor:
        """self / x; integers give floats.  rounding_mode: None, "trunc" or "floor", with which integers stay."""
        if rounding_mode not in (None, "trunc", "floor"):
            raise RuntimeError(f"rounding_mode={rounding_mode!r} is not supported")
        whole = rounding_mode is None and isinstance(x, int) and dtypes.is_int(self.dtype)
        a, b, shape, dtype = self._pair(float(x) if whole else x, reverse)
        if rounding_mode == "floor":
            return self._binary("floor_div", x, reverse)
        if rounding_mode == "trunc":
            if dtypes.is_float(dtype):
                return self.div(x, reverse).trunc()
            floor, rest = self._binary("floor_div", x, reverse), self._binary("mod", x, reverse)
            negative = (a < 0) ^ (b < 0) if isinstance(a, Base) and isinstance(b, Base) else \
                (a < 0) ^ bool(b < 0) if isinstance(a, Base) else (b < 0) ^ bool(a < 0)
            return floor + ((rest != 0) & negative).cast(floor.dtype)
        to = least_upper_float(dtype)
        a, b = (each.cast(to) if isinstance(each, Base) else each for each in (a, b))
        if isinstance(a, Base):
            return a._op("div", b, shape=shape)
        return self._wrap(Expr("div", (a, b.expr), (), shape, to, b.expr.device))

    def mod(self, x, reverse=False) -> Tensor:
        """self - x * floor(self / x), with the sign of x."""
        return self._binary("mod", x, reverse)

    def fmod(self, x, reverse=False) -> Tensor:
        """self - x * trunc(self / x), with the sign of self."""
        return self._binary("fmod", x, reverse)

    def pow(self, x, reverse=False) -> Tensor:
        """self to the x."""
        if not isinstance(x, Base) and not reverse:
            if isinstance(x, int) and x < 0 and not dtypes.is_float(self.dtype):
                raise RuntimeError("an integer cannot be raised to a negative power")
        return self._binary("pow", x, reverse)

    def maximum(self, x) -> Tensor:
        """The larger of each; NaN if either is."""
        return self._binary("maximum", x, False)

    def minimum(self, x) -> Tensor:
        """The smaller of each; NaN if either is."""
        return self._binary("minimum", x, False)

    def copysign(self, other) -> Tensor:
        """The magnitude of self with the sign of other, which zeros have too."""
        return self._binary_float("copysign", other)

    def logaddexp(self, other) -> Tensor:
        """log(exp(self) + exp(other))"""
        return self._binary_float("logaddexp", other)

    def lerp(self, end, weight) -> Tensor:
        """self + (end - self) * weight.  Integers are computed as floats; uint8 with a Tensor as weight gives uint8, rounded."""
        x = self if dtypes.is_float(self.dtype) else self.cast(dtypes.default_float)
        y = x + (end - x) * weight
        return y.round().cast(dtypes.uint8) if self.dtype is dtypes.uint8 and isinstance(weight, Base) else y

    def clamp(self, min_=None, max_=None) -> Tensor:
        """Not below min_ nor above max_: numbers or Tensors."""
        if min_ is None and max_ is None:
            raise RuntimeError("at least one of 'min_' or 'max_' must not be None")
        if dtypes.is_int(self.dtype):  # drop bounds that every number of the dtype meets
            min_ = None if isinstance(min_, int) and min_ <= dtypes.min(self.dtype) else min_
            max_ = None if isinstance(max_, int) and max_ >= dtypes.max(self.dtype) else max_
            if min_ is None and max_ is None:
                return self._copy()
        bounds = [each for each in (min_, max_) if each is not None]
        if all(isinstance(each, (int, float)) for each in bounds) and (
                dtypes.is_float(self.dtype) or dtypes.is_int(self.dtype) and all(isinstance(each, int) for each in bounds)):
            return self._op("clamp", **{key: each for key, each in (("min", min_), ("max", max_)) if each is not None})
        low = self if min_ is None else self.maximum(min_)
        return low if max_ is None else low.minimum(max_)

    clip = clamp

    def where(self, x, y) -> Tensor:
        """x where self is not zero, else y.  The three broadcast together."""
        if isinstance(x, Base):
            x, y, _, dtype = x._pair(y)
        elif isinstance(y, Base):
            y, x, _, dtype = y._pair(x)
        else:
            dtype = least_upper_dtype(dtypes.from_py(x), dtypes.from_py(y))
            x = type(self).full((), x, dtype=dtype, device=self.expr.device)
            y = dtypes.as_const(y, dtype)
            y = int(y) if isinstance(y, bool) else y
        shape = broadcast_shape(self.shape, *(each.shape for each in (x, y) if isinstance(each, Base)))
        return self.cast(dtypes.bool)._op("where", x, y, shape=shape, dtype=dtype)

    def masked_fill(self, mask: Tensor, value) -> Tensor:
        """value where the mask is not zero, else self."""
        return mask.where(value, self)

    # ---- comparison and logic

    def _compare(self, op: str, other) -> Tensor:
        if dtypes.is_int(self.dtype) and isinstance(other, int) and not isinstance(other, bool):
            for beyond, holds in ((other > dtypes.max(self.dtype), ("less", "less_equal", "not_equal")),
                                  (other < dtypes.min(self.dtype), ("greater", "greater_equal", "not_equal"))):
                if beyond:
                    return self.full_like(op in holds, dtype=dtypes.bool)
        return self._binary(op, other, dtype=dtypes.bool)

    def eq(self, other) -> Tensor:
        """self == other"""
        return self._compare("equal", other)

    def ne(self, other) -> Tensor:
        """self != other"""
        return self._compare("not_equal", other)

    def isnan(self) -> Tensor:
        """Whether it is NaN."""
        return self._op("isnan", dtype=dtypes.bool)

    def isinf(self, detect_positive=True, detect_negative=True) -> Tensor:
        """Whether it is infinite."""
        positive, negative = self == math.inf, self == -math.inf
        return (positive & bool(detect_positive)) | (negative & bool(detect_negative))

    def isfinite(self) -> Tensor:
        """Whether it is neither infinite nor NaN."""
        return (self.isinf() | self.isnan()).logical_not()

    def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> Tensor:
        """Whether |self - other| <= atol + rtol * |other|."""
        other = self.ufix(other)
        if not dtypes.is_float(least_upper_dtype(self.dtype, other.dtype)):  # the difference of two integers may be beyond their dtype
            return self.long()._is_near(other.long(), rtol, atol)
        near = self.isfinite() & other.isfinite() & self._is_near(other, rtol, atol)
        same = (self.isinf() | other.isinf()) & (self == other)
        return near | same | (self.isnan() & other.isnan() & bool(equal_nan))

    def _is_near(self, other: Tensor, rtol: float, atol: float) -> Tensor:
        return (self - other).abs() <= atol + rtol * other.abs()

    def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> bool:
        """Whether all are close, as a Python bool."""
        return bool(self.isclose(other, rtol=rtol, atol=atol, equal_nan=equal_nan).all().item())

    def logical_not(self) -> Tensor:
        """Whether it is zero."""
        return self._op("logical_not", dtype=dtypes.bool)

    def _bits(self, op: str, other, reverse=False) -> Tensor:
        if dtypes.is_float(self.dtype) or isinstance(other, Base) and dtypes.is_float(other.dtype) or isinstance(other, float):
            raise RuntimeError(f"{op} is not supported for {self.dtype}")
        return self._binary(op, other, reverse)

    def bitwise_and(self, x, reverse=False) -> Tensor:
        """Bits that both have."""
        return self._bits("bitwise_and", x, reverse)

    def bitwise_or(self, x, reverse=False) -> Tensor:
        """Bits that one or both have."""
        return self._bits("bitwise_or", x, reverse)

    def bitwise_xor(self, x, reverse=False) -> Tensor:
        """Bits that one of them has."""
        return self._bits("bitwise_xor", x, reverse)

    def bitwise_not(self) -> Tensor:
        """Every bit turned; of bool its opposite."""
        if dtypes.is_float(self.dtype):
            raise RuntimeError(f"bitwise_not is not supported for {self.dtype}")
        return self.logical_not() if self.dtype is dtypes.bool else self._op("bitwise_not")

    def lshift(self, x, reverse=False) -> Tensor:
        """self * 2 ** x, modulo the width."""
        return self._bits("left_shift", x, reverse)

    def rshift(self, x, reverse=False) -> Tensor:
        """The floor of self / 2 ** x."""
        return self._bits("right_shift", x, reverse)

    # ---- activations

    def relu6(self) -> Tensor:
        """Between 0 and 6."""
        return self._op("relu6") if dtypes.is_float(self.dtype) else self.clamp(0, 6)

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
        """alpha * x + beta, between 0 and 1."""
        return self._op("hardsigmoid", dtype=least_upper_float(self.dtype), alpha=alpha, beta=beta)

    def hardswish(self) -> Tensor:
        """x * relu6(x + 3) / 6"""
        return self._op("hardswish", dtype=least_upper_float(self.dtype))

    def hardtanh(self, min_val=-1, max_val=1) -> Tensor:
        """Between min_val and max_val."""
        return self._op("hardtanh", min=min_val, max=max_val) if dtypes.is_float(self.dtype) else self.clamp(min_val, max_val)

    def leaky_relu(self, neg_slope=0.01) -> Tensor:
        """x where positive, else neg_slope * x."""
        return self._op("leaky_relu", dtype=least_upper_float(self.dtype), negative_slope=neg_slope)

    def elu(self, alpha=1.0) -> Tensor:
        """x where positive, else alpha * (exp(x) - 1)."""
        return self._op("elu", dtype=least_upper_float(self.dtype), alpha=alpha)

    def celu(self, alpha=1.0) -> Tensor:
        """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
        return self._op("celu", dtype=least_upper_float(self.dtype), alpha=alpha)

    def selu(self, alpha=SELU_ALPHA, gamma=SELU_GAMMA) -> Tensor:
        """gamma * (x where not negative, else alpha * (exp(x) - 1))"""
        return self._op("selu", dtype=least_upper_float(self.dtype), alpha=alpha, gamma=gamma)

    def gelu(self, approximate: str = "tanh") -> Tensor:
        """x times the normal distribution function of x; approximate: "tanh" or "none"."""
        if approximate not in ("tanh", "none"):
            raise RuntimeError(f"approximate={approximate!r} is not supported")
        return self._op("gelu", dtype=least_upper_float(self.dtype), approximate=approximate)

    def quick_gelu(self) -> Tensor:
        """x * sigmoid(1.702 * x)"""
        return self * (self * 1.702).sigmoid()

    def mish(self) -> Tensor:
        """x * tanh(softplus(x))"""
        return self._op("mish", dtype=least_upper_float(self.dtype))

    def softplus(self, beta=1.0) -> Tensor:
        """log(1 + exp(beta * x)) / beta"""
        return self._op("softplus", dtype=least_upper_float(self.dtype), beta=beta)

    def softsign(self) -> Tensor:
        """x / (1 + |x|)"""
        return self._op("softsign", dtype=least_upper_float(self.dtype))

    def logsigmoid(self) -> Tensor:
        """log(sigmoid(x))"""
        return self._op("logsigmoid", dtype=least_upper_float(self.dtype))

    # ---- what does not compute

    def contiguous(self) -> Tensor:
        """The same value, computed into memory of its own; a copy if self is a view."""
        return self if self.expr.is_leaf and not (self._view and self._view.links) else self._op("contiguous")

    def contiguous_backward(self) -> Tensor:
        """Itself; the server decides where gradients are stored."""
        return self

    def detach(self) -> Tensor:
        """Itself, through which no gradient flows."""
        return self._op("detach")._shows(self)

    def sequential(self, ll: list) -> Tensor:
        """The functions of a list applied, one after the other."""
        value = self
        for function in ll:
            value = function(value)
        return value

