// SPDX-License-Identifier: MIT
// Made by tools/clients/javascript.py from proto/ops.json; change those.
import type {Body, DType, Integer, NameOption, NamesOption, Node, Operand, Size} from "./beamline.js";

export const DEFAULTS: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
export const LISTED: ReadonlySet<string>;

/** Ops as methods of a graph. */
export class GraphOps {
  /**
   * x + y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  add(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x - y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  sub(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x * y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  mul(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x / y; integers give float32
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  div(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * floor of x / y; an integer by zero gives 0
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  floorDiv(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x / y towards zero; an integer by zero gives 0
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  truncDiv(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x - y * floor(x / y), with the sign of y; an integer by zero gives 0
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  mod(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x - y * trunc(x / y), with the sign of x; an integer by zero gives x
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  fmod(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * -x
   * @param x tensor of any dtype
   * @returns a tensor
   */
  neg(x: Operand, options?: NameOption): Node;

  /**
   * |x|
   * @param x tensor of any dtype
   * @returns a tensor
   */
  abs(x: Operand, options?: NameOption): Node;

  /**
   * -1, 0 or 1
   * @param x tensor of any dtype
   * @returns a tensor
   */
  sign(x: Operand, options?: NameOption): Node;

  /**
   * x * x
   * @param x tensor of any dtype
   * @returns a tensor
   */
  square(x: Operand, options?: NameOption): Node;

  /**
   * square root
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  sqrt(x: Operand, options?: NameOption): Node;

  /**
   * 1 / square root
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  rsqrt(x: Operand, options?: NameOption): Node;

  /**
   * 1 / x
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  reciprocal(x: Operand, options?: NameOption): Node;

  /**
   * e to the x
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  exp(x: Operand, options?: NameOption): Node;

  /**
   * 2 to the x
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  exp2(x: Operand, options?: NameOption): Node;

  /**
   * exp(x) - 1, also where that is small
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  expm1(x: Operand, options?: NameOption): Node;

  /**
   * natural logarithm
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  log(x: Operand, options?: NameOption): Node;

  /**
   * logarithm to base 2
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  log2(x: Operand, options?: NameOption): Node;

  /**
   * logarithm to base 10
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  log10(x: Operand, options?: NameOption): Node;

  /**
   * log(1 + x), also where x is small
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  log1p(x: Operand, options?: NameOption): Node;

  /**
   * sine of radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  sin(x: Operand, options?: NameOption): Node;

  /**
   * cosine of radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  cos(x: Operand, options?: NameOption): Node;

  /**
   * tangent of radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  tan(x: Operand, options?: NameOption): Node;

  /**
   * inverse sine, in radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  asin(x: Operand, options?: NameOption): Node;

  /**
   * inverse cosine, in radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  acos(x: Operand, options?: NameOption): Node;

  /**
   * inverse tangent, in radians
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  atan(x: Operand, options?: NameOption): Node;

  /**
   * the angle of the point (x, y), in radians
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @returns a tensor of floats
   */
  atan2(y: Operand, x: Operand, options?: NameOption): Node;

  /**
   * hyperbolic sine
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  sinh(x: Operand, options?: NameOption): Node;

  /**
   * hyperbolic cosine
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  cosh(x: Operand, options?: NameOption): Node;

  /**
   * inverse hyperbolic sine
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  asinh(x: Operand, options?: NameOption): Node;

  /**
   * inverse hyperbolic cosine
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  acosh(x: Operand, options?: NameOption): Node;

  /**
   * inverse hyperbolic tangent
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  atanh(x: Operand, options?: NameOption): Node;

  /**
   * the next whole number below
   * @param x tensor of any dtype
   * @returns a tensor
   */
  floor(x: Operand, options?: NameOption): Node;

  /**
   * the next whole number above
   * @param x tensor of any dtype
   * @returns a tensor
   */
  ceil(x: Operand, options?: NameOption): Node;

  /**
   * towards zero
   * @param x tensor of any dtype
   * @returns a tensor
   */
  trunc(x: Operand, options?: NameOption): Node;

  /**
   * the nearest whole number; a half goes to the even one
   * @param x tensor of any dtype
   * @returns a tensor
   */
  round(x: Operand, options?: NameOption): Node;

  /**
   * the larger; NaN if either is
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  maximum(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * the smaller; NaN if either is
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  minimum(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x to the y; an integer to a negative power gives 0, but 1 and -1 stay
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  pow(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * |x| with the sign of y, also where that is a zero or NaN
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  copysign(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * log(exp(x) + exp(y))
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  logaddexp(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x + (y - x) * weight
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y, weight
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, y
   * @returns a tensor of floats
   */
  lerp(x: Operand, y: Operand, weight: Operand, options?: NameOption): Node;

  /**
   * x, but not below min nor above max
   * @param x tensor of any dtype
   * @param [options.min] number
   * @param [options.max] number
   * @returns a tensor
   */
  clamp(x: Operand, options?: {min?: number | bigint | null; max?: number | bigint | null} & NameOption): Node;

  /**
   * max(x, 0)
   * @param x tensor of any dtype
   * @returns a tensor
   */
  relu(x: Operand, options?: NameOption): Node;

  /**
   * x held between 0 and 6
   * @param x tensor of any dtype
   * @returns a tensor
   */
  relu6(x: Operand, options?: NameOption): Node;

  /**
   * x held between min and max; no gradient there
   * @param x tensor of any dtype
   * @param [options.min=-1] number
   * @param [options.max=1] number
   * @returns a tensor
   */
  hardtanh(x: Operand, options?: {min?: number | bigint | null; max?: number | bigint | null} & NameOption): Node;

  /**
   * alpha * x + beta held between 0 and 1
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.alpha=0.16666666666666666] number
   * @param [options.beta=0.5] number
   * @returns a tensor of floats
   */
  hardsigmoid(x: Operand, options?: {alpha?: number | null; beta?: number | null} & NameOption): Node;

  /**
   * x * hardsigmoid(x)
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  hardswish(x: Operand, options?: NameOption): Node;

  /**
   * x where positive, else negative_slope * x
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.negative_slope=0.01] number
   * @returns a tensor of floats
   */
  leakyRelu(x: Operand, options?: {negative_slope?: number | null} & NameOption): Node;

  /**
   * x where positive, else alpha * (exp(x) - 1)
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.alpha=1] number
   * @returns a tensor of floats
   */
  elu(x: Operand, options?: {alpha?: number | null} & NameOption): Node;

  /**
   * x where positive, else alpha * (exp(x / alpha) - 1)
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.alpha=1] number
   * @returns a tensor of floats
   */
  celu(x: Operand, options?: {alpha?: number | null} & NameOption): Node;

  /**
   * gamma * elu(x), which keeps mean and variance
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.alpha=1.6732632423543772] number
   * @param [options.gamma=1.0507009873554805] number
   * @returns a tensor of floats
   */
  selu(x: Operand, options?: {alpha?: number | null; gamma?: number | null} & NameOption): Node;

  /**
   * 1 / (1 + exp(-x))
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  sigmoid(x: Operand, options?: NameOption): Node;

  /**
   * hyperbolic tangent
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  tanh(x: Operand, options?: NameOption): Node;

  /**
   * error function
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  erf(x: Operand, options?: NameOption): Node;

  /**
   * x times the normal distribution function of x
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.approximate="none"] "none" or "tanh"
   * @returns a tensor of floats
   */
  gelu(x: Operand, options?: {approximate?: "none" | "tanh" | null} & NameOption): Node;

  /**
   * x * sigmoid(1.702 * x)
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  quickGelu(x: Operand, options?: NameOption): Node;

  /**
   * x * sigmoid(x)
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  silu(x: Operand, options?: NameOption): Node;

  /**
   * x * tanh(softplus(x))
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  mish(x: Operand, options?: NameOption): Node;

  /**
   * x / (1 + |x|)
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  softsign(x: Operand, options?: NameOption): Node;

  /**
   * log(sigmoid(x)), also where that is far below 0
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  logsigmoid(x: Operand, options?: NameOption): Node;

  /**
   * log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.beta=1] number
   * @param [options.threshold=20] number
   * @returns a tensor of floats
   */
  softplus(x: Operand, options?: {beta?: number | null; threshold?: number | null} & NameOption): Node;

  /**
   * x == y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  equal(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x != y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  notEqual(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x < y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  less(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x <= y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  lessEqual(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x > y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  greater(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x >= y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  greaterEqual(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * is it NaN
   * @param x tensor of any dtype
   * @returns a tensor of bool
   */
  isnan(x: Operand, options?: NameOption): Node;

  /**
   * is it neither NaN nor infinite
   * @param x tensor of any dtype
   * @returns a tensor of bool
   */
  isfinite(x: Operand, options?: NameOption): Node;

  /**
   * is it infinite
   * @param x tensor of any dtype
   * @param [options.detect_positive=true] true or false
   * @param [options.detect_negative=true] true or false
   * @returns a tensor of bool
   */
  isinf(x: Operand, options?: {detect_positive?: boolean | null; detect_negative?: boolean | null} & NameOption): Node;

  /**
   * |x - y| <= atol + rtol * |y|
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.rtol=1e-05] number
   * @param [options.atol=1e-08] number
   * @param [options.equal_nan=false] true or false
   * @returns a tensor of bool
   */
  isclose(x: Operand, y: Operand, options?: {rtol?: number | null; atol?: number | null; equal_nan?: boolean | null} & NameOption): Node;

  /**
   * are all |x - y| <= atol + rtol * |y|
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.rtol=1e-05] number
   * @param [options.atol=1e-08] number
   * @param [options.equal_nan=false] true or false
   * @returns a tensor of bool
   */
  allclose(x: Operand, y: Operand, options?: {rtol?: number | null; atol?: number | null; equal_nan?: boolean | null} & NameOption): Node;

  /**
   * both are not zero
   * @param x tensor of bool (numbers become "not zero")
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalAnd(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * one or both are not zero
   * @param x tensor of bool (numbers become "not zero")
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalOr(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * one of them is not zero
   * @param x tensor of bool (numbers become "not zero")
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalXor(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * is it zero
   * @param x tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalNot(x: Operand, options?: NameOption): Node;

  /**
   * bits that both have
   * @param x tensor of integers or bool, brought to one dtype with y
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseAnd(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * bits that one or both have
   * @param x tensor of integers or bool, brought to one dtype with y
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseOr(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * bits that one of them has
   * @param x tensor of integers or bool, brought to one dtype with y
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseXor(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * every bit turned
   * @param x tensor of integers or bool
   * @returns a tensor of integers or bool
   */
  bitwiseNot(x: Operand, options?: NameOption): Node;

  /**
   * x * 2^y modulo the width; 0 from the width on
   * @param x tensor of integers, brought to one dtype with y
   * @param y tensor of integers, brought to one dtype with x
   * @returns a tensor of integers
   */
  leftShift(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * floor of x / 2^y
   * @param x tensor of integers, brought to one dtype with y
   * @param y tensor of integers, brought to one dtype with x
   * @returns a tensor of integers
   */
  rightShift(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * x where the condition holds, else y
   * @param condition tensor of bool (numbers become "not zero")
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  where(condition: Operand, x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * the value where the mask holds, else x
   * @param x tensor of any dtype, brought to one dtype with value
   * @param mask tensor of bool (numbers become "not zero")
   * @param value tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  maskedFill(x: Operand, mask: Operand, value: Operand, options?: NameOption): Node;

  /**
   * conversion by value; float to integer truncates and saturates
   * @param x tensor of any dtype
   * @param dtype dtype
   * @returns a tensor
   */
  cast(x: Operand, dtype: DType, options?: NameOption): Node;

  /**
   * the same bits as another dtype; one of another size makes the last axis longer or shorter, the lowest bits first
   * @param x tensor of any dtype
   * @param dtype dtype
   * @returns a tensor
   */
  bitcast(x: Operand, dtype: DType, options?: NameOption): Node;

  /**
   * x, through which no gradient flows
   * @param x tensor of any dtype
   * @returns a tensor
   */
  detach(x: Operand, options?: NameOption): Node;

  /**
   * x, written to a buffer of its own
   * @param x tensor of any dtype
   * @returns a tensor
   */
  contiguous(x: Operand, options?: NameOption): Node;

  /**
   * x, whose gradient is written to a buffer of its own
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  contiguousBackward(x: Operand, options?: NameOption): Node;

  /**
   * sum, in the dtype; without, bool and integers give 64 bits
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  sum(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null; dtype?: DType | null} & NameOption): Node;

  /**
   * product, in the dtype; without, bool and integers give 64 bits
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  prod(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null; dtype?: DType | null} & NameOption): Node;

  /**
   * arithmetic mean
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  mean(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the largest; its gradient is shared between equals
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor
   */
  max(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the smallest; its gradient is shared between equals
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor
   */
  min(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * where the largest is, the first of equals; without axis in the flattened tensor
   * @param x tensor of any dtype
   * @param [options.axis] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  argmax(x: Operand, options?: {axis?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * where the smallest is, the first of equals; without axis in the flattened tensor
   * @param x tensor of any dtype
   * @param [options.axis] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  argmin(x: Operand, options?: {axis?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * none is zero
   * @param x tensor of bool (numbers become "not zero")
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of bool
   */
  all(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * some is not zero
   * @param x tensor of bool (numbers become "not zero")
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of bool
   */
  any(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * how many are not zero
   * @param x tensor of bool (numbers become "not zero")
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  countNonzero(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * variance, divided by the count less the correction
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  var(x: Operand, options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * square root of var; the gradient is 0 where var is 0
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  std(x: Operand, options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * var and mean
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a list of a tensor of floats, a tensor of floats
   */
  varMean(x: Operand, options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NamesOption): Node[];

  /**
   * std and mean
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a list of a tensor of floats, a tensor of floats
   */
  stdMean(x: Operand, options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NamesOption): Node[];

  /**
   * exp(x) divided by its sum
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  softmax(x: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * logarithm of softmax
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  logSoftmax(x: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * softmax of -x
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  softmin(x: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x divided by its p-norm over the axes, which counts as eps at least
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.p=2] number
   * @param [options.axis=1] whole number or list of them
   * @param [options.eps=1e-12] number
   * @returns a tensor of floats
   */
  normalize(x: Operand, options?: {p?: number | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * log(sum(exp(x)))
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  logsumexp(x: Operand, options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the sum of each element and all before it; bool and integers give 64 bits
   * @param x tensor of any dtype
   * @param [options.axis=0] whole number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  cumsum(x: Operand, options?: {axis?: Integer | null; dtype?: DType | null} & NameOption): Node;

  /**
   * the product of each element and all before it; bool and integers give 64 bits
   * @param x tensor of any dtype
   * @param [options.axis=0] whole number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  cumprod(x: Operand, options?: {axis?: Integer | null; dtype?: DType | null} & NameOption): Node;

  /**
   * log(cumsum(exp(x)))
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis=0] whole number
   * @returns a tensor of floats
   */
  logcumsumexp(x: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * the largest of each element and all before it, and where the latest such one is
   * @param x tensor of any dtype
   * @param [options.axis=0] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  cummax(x: Operand, options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * the smallest of each element and all before it, and where the latest such one is
   * @param x tensor of any dtype
   * @param [options.axis=0] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  cummin(x: Operand, options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * in order along the axis, and where each element was; equals keep their order, NaN is the largest
   * @param x tensor of any dtype
   * @param [options.axis=-1] whole number
   * @param [options.descending=false] true or false
   * @returns a list of a tensor, a tensor of int64
   */
  sort(x: Operand, options?: {axis?: Integer | null; descending?: boolean | null} & NamesOption): Node[];

  /**
   * where the elements of the sorted axis are
   * @param x tensor of any dtype
   * @param [options.axis=-1] whole number
   * @param [options.descending=false] true or false
   * @returns a tensor of int64
   */
  argsort(x: Operand, options?: {axis?: Integer | null; descending?: boolean | null} & NameOption): Node;

  /**
   * the k largest (or smallest) along the axis, in order, and where they are
   * @param x tensor of any dtype
   * @param k size
   * @param [options.axis=-1] whole number
   * @param [options.largest=true] true or false
   * @returns a list of a tensor, a tensor of int64
   */
  topk(x: Operand, k: Size, options?: {axis?: Integer | null; largest?: boolean | null} & NamesOption): Node[];

  /**
   * of logits [N, C, ...] (or [C]) and class indices [N, ...], or probabilities in the shape of x; weight [C] weighs
   *     the classes; an index that is no class counts as 0, or, unless it is ignore_index, is an error with
   *     check_indices
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param target tensor of any dtype
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index] whole number
   * @param [options.label_smoothing=0] number
   * @returns a tensor of floats
   */
  crossEntropy(x: Operand, target: Operand, options?: {weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null; label_smoothing?: number | null} & NameOption): Node;

  /**
   * of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]; weight [C] weighs the classes
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param target tensor of integers
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index] whole number
   * @returns a tensor of floats
   */
  nllLoss(x: Operand, target: Operand, options?: {weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null} & NameOption): Node;

  /**
   * cross_entropy of logits [..., C] and class indices [...]
   * @param x tensor of floats (integers and bool become float32)
   * @param target tensor of integers
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index=-1] whole number
   * @param [options.label_smoothing=0] number
   * @returns a tensor of floats
   */
  sparseCategoricalCrossentropy(x: Operand, target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null; label_smoothing?: number | null} & NameOption): Node;

  /**
   * squared difference
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  mseLoss(x: Operand, target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * |x - target|
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  l1Loss(x: Operand, target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * squared difference / (2 * beta) below beta, |difference| - beta / 2 above
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.beta=1] number
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  smoothL1Loss(x: Operand, target: Operand, options?: {beta?: number | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * squared difference / 2 below delta, a straight line above
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.delta=1] number
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  huberLoss(x: Operand, target: Operand, options?: {delta?: number | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of probabilities; a logarithm counts as -100 at least
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  binaryCrossEntropy(x: Operand, target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of logits; pos_weight weighs the positive class
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target, pos_weight
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x, pos_weight
   * @param [options.pos_weight] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     target
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  binaryCrossEntropyWithLogits(x: Operand, target: Operand, options?: {pos_weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of log-probabilities x and probabilities (or their logarithms) target
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.log_target=false] true or false
   * @returns a tensor of floats
   */
  klDiv(x: Operand, target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null; log_target?: boolean | null} & NameOption): Node;

  /**
   * (x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.axis=-1] whole number or list of them
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  layerNorm(x: Operand, options?: {weight?: Operand | null; bias?: Operand | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * x / sqrt(mean(x^2) + eps) over the axes, times weight
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.axis=-1] whole number or list of them
   * @param [options.eps=1e-06] number
   * @returns a tensor of floats
   */
  rmsNorm(x: Operand, options?: {weight?: Operand | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * (x - mean) / sqrt(var + eps) * weight + bias, with statistics and weights along one axis
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with mean, var, weight, bias
   * @param mean tensor of floats (integers and bool become float32), brought to one dtype with x, var, weight, bias
   * @param var_ tensor of floats (integers and bool become float32), brought to one dtype with x, mean, weight, bias
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, mean,
   *     var, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, mean,
   *     var, weight
   * @param [options.axis=1] whole number
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  batchNorm(x: Operand, mean: Operand, var_: Operand, options?: {weight?: Operand | null; bias?: Operand | null; axis?: Integer | null; eps?: number | null} & NameOption): Node;

  /**
   * normalised over each group of channels of [N, C, ...], times weight [C], plus bias [C]
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param groups whole number
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  groupNorm(x: Operand, groups: Integer, options?: {weight?: Operand | null; bias?: Operand | null; eps?: number | null} & NameOption): Node;

  /**
   * normalised over each channel of [N, C, ...], times weight [C], plus bias [C]
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  instanceNorm(x: Operand, options?: {weight?: Operand | null; bias?: Operand | null; eps?: number | null} & NameOption): Node;

  /**
   * 0 with probability p, else x / (1 - p); drops always
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.p=0.5] number
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  dropout(x: Operand, options?: {key?: Operand | null; p?: number | null; seed?: Integer | null} & NameOption): Node;

  /**
   * matrix product over the last two axes, the others broadcast; vectors as in PyTorch
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  matmul(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * sums of products by the letters of their axes, as in "bij,bjk->bik", with "..." for axes that broadcast
   * @param xs list, each a tensor of any dtype
   * @param equation string
   * @returns a tensor
   */
  einsum(xs: readonly Operand[], equation: string, options?: NameOption): Node;

  /**
   * x @ weight^T + bias, weight [out, in]
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @returns a tensor of floats
   */
  linear(x: Operand, weight: Operand, options?: {bias?: Operand | null} & NameOption): Node;

  /**
   * x @ weight^T with a block-quantised weight [.., out, in], given as the planes of its format: see [quantised
   *     weights](quantised.md); rows: the rows of the matrix, if the last group of 16 is filled up; activations: int8
   *     rounds x to integers times a scale, in chunks of 32 columns
   * @param x tensor of floats (integers and bool become float32)
   * @param planes list, each a tensor of any dtype
   * @param format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"
   *     or "mxfp4"
   * @param [options.rows] whole number
   * @param [options.activations="float32"] "float32" or "int8"
   * @returns a tensor of floats
   */
  blockLinear(x: Operand, planes: readonly Operand[], format: "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" | "iq4_xs" | "mxfp4", options?: {rows?: Integer | null; activations?: "float32" | "int8" | null} & NameOption): Node;

  /**
   * softmax(q @ k^T * scale + mask) @ v over [..., length, size]; scale is 1 / sqrt(size) unless given; a bool mask
   *     says where to look; causal: not ahead; grouped: k and v have fewer heads (axis -3)
   * @param q tensor of floats (integers and bool become float32), brought to one dtype with k, v
   * @param k tensor of floats (integers and bool become float32), brought to one dtype with q, v
   * @param v tensor of floats (integers and bool become float32), brought to one dtype with q, k
   * @param [options.mask] tensor of any dtype
   * @param [options.causal=false] true or false
   * @param [options.scale] number
   * @param [options.grouped=false] true or false
   * @returns a tensor of floats
   */
  attention(q: Operand, k: Operand, v: Operand, options?: {mask?: Operand | null; causal?: boolean | null; scale?: number | null; grouped?: boolean | null} & NameOption): Node;

  /**
   * torch.nn.LSTMCell: the new h and c; weights [4 * n, ...] for input, forget, cell and output gates
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with h, c, w_ih, w_hh, b_ih,
   *     b_hh
   * @param h tensor of floats (integers and bool become float32), brought to one dtype with x, c, w_ih, w_hh, b_ih,
   *     b_hh
   * @param c tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih,
   *     b_hh
   * @param wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_hh, b_ih,
   *     b_hh
   * @param wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, b_ih,
   *     b_hh
   * @param [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_ih, w_hh, b_hh
   * @param [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_ih, w_hh, b_ih
   * @returns a list of a tensor of floats, a tensor of floats
   */
  lstmCell(x: Operand, h: Operand, c: Operand, wIh: Operand, wHh: Operand, options?: {b_ih?: Operand | null; b_hh?: Operand | null} & NamesOption): Node[];

  /**
   * torch.nn.GRUCell: the new h; weights [3 * n, ...] for reset, update and new gates
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with h, w_ih, w_hh, b_ih, b_hh
   * @param h tensor of floats (integers and bool become float32), brought to one dtype with x, w_ih, w_hh, b_ih, b_hh
   * @param wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_hh, b_ih, b_hh
   * @param wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, b_ih, b_hh
   * @param [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     w_hh, b_hh
   * @param [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     w_hh, b_ih
   * @returns a tensor of floats
   */
  gruCell(x: Operand, h: Operand, wIh: Operand, wHh: Operand, options?: {b_ih?: Operand | null; b_hh?: Operand | null} & NameOption): Node;

  /**
   * x [N, C, ...], weight [O, C / groups, ...], bias [O]; padding is one number, one for each axis, or [before,
   *     after] for each, flat; form: see conv2d
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @param [options.form="auto"] "auto", "direct" or "winograd"
   * @returns a tensor of floats
   */
  conv(x: Operand, weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null; form?: "auto" | "direct" | "winograd" | null} & NameOption): Node;

  /**
   * x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]; form: how float32 by 3 x 3 at stride 1 is computed, as
   *     a sum of products or by Winograd's transforms, which round otherwise; auto takes what should be the faster
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @param [options.form="auto"] "auto", "direct" or "winograd"
   * @returns a tensor of floats
   */
  conv2d(x: Operand, weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null; form?: "auto" | "direct" | "winograd" | null} & NameOption): Node;

  /**
   * x [N, C, ...], weight [C, O / groups, ...], bias [O]: what conv's gradient does to x; padding as of conv
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.output_padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @returns a tensor of floats
   */
  convTranspose(x: Operand, weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; output_padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null} & NameOption): Node;

  /**
   * largest of each window of the last axes: as many as kernel_size lists, dims where it is one number; stride is
   *     kernel_size unless given; ceil_mode: a window may hang over the end; the gradient is shared between equals
   * @param x tensor of any dtype
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.dims=2] whole number
   * @returns a tensor
   */
  maxPool(x: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null; dims?: Integer | null} & NameOption): Node;

  /**
   * mean of each window of the last axes, see max_pool
   * @param x tensor of floats (integers and bool become float32)
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.count_include_pad=true] true or false
   * @param [options.dims=2] whole number
   * @returns a tensor of floats
   */
  avgPool(x: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; ceil_mode?: boolean | null; count_include_pad?: boolean | null; dims?: Integer | null} & NameOption): Node;

  /**
   * largest of each window of [..., H, W]; stride is kernel_size unless given
   * @param x tensor of any dtype
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @returns a tensor
   */
  maxPool2d(x: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null} & NameOption): Node;

  /**
   * mean of each window of [..., H, W]; stride is kernel_size unless given
   * @param x tensor of floats (integers and bool become float32)
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.count_include_pad=true] true or false
   * @param [options.ceil_mode=false] true or false
   * @returns a tensor of floats
   */
  avgPool2d(x: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; count_include_pad?: boolean | null; ceil_mode?: boolean | null} & NameOption): Node;

  /**
   * max_pool, and where each largest is in its plane, flat; the first of equals
   * @param x tensor of any dtype
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.dims=2] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  maxPoolIndices(x: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null; dims?: Integer | null} & NamesOption): Node[];

  /**
   * zeros, but x where the indices of max_pool_indices say; the last of several that say the same, nothing for one
   *     out of range; output_size: of the plane
   * @param x tensor of any dtype
   * @param indices tensor of integers
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.output_size] size or list of sizes
   * @param [options.dims=2] whole number
   * @returns a tensor
   */
  maxUnpool(x: Operand, indices: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; output_size?: Size | readonly Size[] | null; dims?: Integer | null} & NameOption): Node;

  /**
   * the last axes in other sizes: the nearest element, or between neighbours along each axis (linear: any number of
   *     axes); align_corners: the first and last elements stay where they are
   * @param x tensor of floats (integers and bool become float32)
   * @param size size or list of sizes
   * @param [options.mode="nearest"] "nearest", "nearest-exact", "linear", "bilinear" or "trilinear"
   * @param [options.align_corners=false] true or false
   * @returns a tensor of floats
   */
  interpolate(x: Operand, size: Size | readonly Size[], options?: {mode?: "nearest" | "nearest-exact" | "linear" | "bilinear" | "trilinear" | null; align_corners?: boolean | null} & NameOption): Node;

  /**
   * torch.linalg.qr, reduced: Q with orthogonal columns and R upper triangular, x = Q R; a diagonal element of R may
   *     have another sign than LAPACK's
   * @param x tensor of floats (integers and bool become float32)
   * @returns a list of a tensor of floats, a tensor of floats
   */
  qr(x: Operand, options?: NamesOption): Node[];

  /**
   * L lower triangular with x = L L^T, of which the lower triangle is read; NaN where x is not positive definite
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  cholesky(x: Operand, options?: NameOption): Node;

  /**
   * x of a x = b, where only the lower (upper) triangle of a is read; b [..., n, k] or [n]
   * @param a tensor of floats (integers and bool become float32), brought to one dtype with b
   * @param b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @param [options.upper=false] true or false
   * @returns a tensor of floats
   */
  triangularSolve(a: Operand, b: Operand, options?: {upper?: boolean | null} & NameOption): Node;

  /**
   * x of a x = b, b [..., n, k] or [n]
   * @param a tensor of floats (integers and bool become float32), brought to one dtype with b
   * @param b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @returns a tensor of floats
   */
  solve(a: Operand, b: Operand, options?: NameOption): Node;

  /**
   * the inverse; infinite or NaN where there is none
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  inverse(x: Operand, options?: NameOption): Node;

  /**
   * the determinant
   * @param x tensor of floats (integers and bool become float32)
   * @returns a tensor of floats
   */
  det(x: Operand, options?: NameOption): Node;

  /**
   * torch.linalg.svd: U, the singular values from the largest, and V^T, x = U S V^T, with all columns of U and rows
   *     of V^T or as many as there are values; the gradient is that of distinct values over 0
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.full_matrices=true] true or false
   * @returns a list of a tensor of floats, a tensor of floats, a tensor of floats
   */
  svd(x: Operand, options?: {full_matrices?: boolean | null} & NamesOption): Node[];

  /**
   * discrete Fourier transform along the axis
   * @param re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  fft(re: Operand, options?: {im?: Operand | null; axis?: Integer | null} & NamesOption): Node[];

  /**
   * its inverse
   * @param re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  ifft(re: Operand, options?: {im?: Operand | null; axis?: Integer | null} & NamesOption): Node[];

  /**
   * the first n / 2 + 1 parts of the transform of real numbers; the others are their conjugates
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  rfft(x: Operand, options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * the real numbers of which rfft gives that; n is even unless given
   * @param re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param im tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @param [options.n] whole number
   * @returns a tensor of floats
   */
  irfft(re: Operand, im: Operand, options?: {axis?: Integer | null; n?: Integer | null} & NameOption): Node;

  /**
   * the hash of the bytes along the last axis: so many bytes of the sponge of this rate, after the domain's suffix;
   *     SHA3-256 unless given
   * @param x tensor of any dtype
   * @param [options.rate=136] whole number
   * @param [options.suffix=6] whole number
   * @param [options.size=32] whole number
   * @returns a tensor
   */
  keccak(x: Operand, options?: {rate?: Integer | null; suffix?: Integer | null; size?: Integer | null} & NameOption): Node;

  /**
   * SHA3-224 of the bytes along the last axis
   * @param x tensor of any dtype
   * @returns a tensor
   */
  sha3224(x: Operand, options?: NameOption): Node;

  /**
   * SHA3-256 of the bytes along the last axis
   * @param x tensor of any dtype
   * @returns a tensor
   */
  sha3256(x: Operand, options?: NameOption): Node;

  /**
   * so many bytes of SHAKE128 of the bytes along the last axis
   * @param x tensor of any dtype
   * @param [options.size=16] whole number
   * @returns a tensor
   */
  shake128(x: Operand, options?: {size?: Integer | null} & NameOption): Node;

  /**
   * 16 bytes that tell a tensor from others: SHAKE128 of those of blocks of 4 KiB of each MiB of its bytes, the last
   *     one filled up with zeros, again until one is left
   * @param x tensor of any dtype
   * @returns a tensor
   */
  hash(x: Operand, options?: NameOption): Node;

  /**
   * torch.gather: along the axis, index in the shape of the result; a negative index counts from the end; an index
   *     out of range reads 0, or is an error with check_indices
   * @param x tensor of any dtype
   * @param index tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  gather(x: Operand, index: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x[index] along the axis, index of any shape; a negative index counts from the end; an index out of range reads 0,
   *     or is an error with check_indices
   * @param x tensor of any dtype
   * @param index tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  take(x: Operand, index: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * rows of a block-quantised matrix [rows, columns], given as the planes of its format (see [quantised
   *     weights](quantised.md)), as float32; rows: the rows of the matrix, if the last group of 16 is filled up
   * @param index tensor of integers
   * @param planes list, each a tensor of any dtype
   * @param format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"
   *     or "mxfp4"
   * @param [options.rows] whole number
   * @returns a tensor of floats
   */
  blockTake(index: Operand, planes: readonly Operand[], format: "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" | "iq4_xs" | "mxfp4", options?: {rows?: Integer | null} & NameOption): Node;

  /**
   * x[i, j, ...] by index tensors for neighbouring axes, broadcast together; an index out of range reads 0, or is an
   *     error with check_indices
   * @param x tensor of any dtype
   * @param indices list, each a tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  index(x: Operand, indices: readonly Operand[], options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x with x[i, j, ...] = value, or += value; of several writes to one place the last stays; an index out of range
   *     writes nothing, or is an error with check_indices
   * @param x tensor of any dtype, brought to one dtype with value
   * @param value tensor of any dtype, brought to one dtype with x
   * @param indices list, each a tensor of integers
   * @param [options.axis=0] whole number
   * @param [options.accumulate=false] true or false
   * @returns a tensor
   */
  indexPut(x: Operand, value: Operand, indices: readonly Operand[], options?: {axis?: Integer | null; accumulate?: boolean | null} & NameOption): Node;

  /**
   * torch.scatter: x with src written where index says along the axis; of several writes to one place the last stays;
   *     an index out of range writes nothing, or is an error with check_indices
   * @param x tensor of any dtype, brought to one dtype with src
   * @param index tensor of integers
   * @param src tensor of any dtype, brought to one dtype with x
   * @param [options.axis=0] whole number
   * @param [options.reduce="none"] "none", "add" or "multiply"
   * @returns a tensor
   */
  scatter(x: Operand, index: Operand, src: Operand, options?: {axis?: Integer | null; reduce?: "none" | "add" | "multiply" | null} & NameOption): Node;

  /**
   * torch.scatter_reduce: what is sent to one place folded, with x itself unless include_self is false
   * @param x tensor of any dtype, brought to one dtype with src
   * @param index tensor of integers
   * @param src tensor of any dtype, brought to one dtype with x
   * @param reduce "sum", "prod", "mean", "amax" or "amin"
   * @param [options.axis=0] whole number
   * @param [options.include_self=true] true or false
   * @returns a tensor
   */
  scatterReduce(x: Operand, index: Operand, src: Operand, reduce: "sum" | "prod" | "mean" | "amax" | "amin", options?: {axis?: Integer | null; include_self?: boolean | null} & NameOption): Node;

  /**
   * the first size elements where the mask holds, in order, then fill; and how many there are in all
   * @param x tensor of any dtype
   * @param mask tensor of bool (numbers become "not zero")
   * @param size size
   * @param [options.fill=0] number
   * @returns a list of a tensor, a tensor of int64
   */
  maskedSelect(x: Operand, mask: Operand, size: Size, options?: {fill?: number | bigint | null} & NamesOption): Node[];

  /**
   * [size, ndim]: where the first size elements that are not zero are, then fill; and how many there are in all
   * @param x tensor of bool (numbers become "not zero")
   * @param size size
   * @param [options.fill=0] whole number
   * @returns a list of a tensor of int64, a tensor of int64
   */
  nonzero(x: Operand, size: Size, options?: {fill?: Integer | null} & NamesOption): Node[];

  /**
   * 1 where the class is x, else 0, along a new last axis; a class out of range is an error with check_indices
   * @param x tensor of integers
   * @param numClasses size
   * @param [options.dtype="int64"] dtype
   * @returns a tensor
   */
  oneHot(x: Operand, numClasses: Size, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * zero above the diagonal
   * @param x tensor of any dtype
   * @param [options.diagonal=0] whole number
   * @returns a tensor
   */
  tril(x: Operand, options?: {diagonal?: Integer | null} & NameOption): Node;

  /**
   * zero below the diagonal
   * @param x tensor of any dtype
   * @param [options.diagonal=0] whole number
   * @returns a tensor
   */
  triu(x: Operand, options?: {diagonal?: Integer | null} & NameOption): Node;

  /**
   * the same elements in another shape; one size may be -1
   * @param x tensor of any dtype
   * @param shape size or list of sizes
   * @returns a tensor
   */
  reshape(x: Operand, shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * axis i of the result is axis axes[i] of x
   * @param x tensor of any dtype
   * @param axes whole number or list of them
   * @returns a tensor
   */
  permute(x: Operand, axes: number | readonly number[], options?: NameOption): Node;

  /**
   * two axes exchanged
   * @param x tensor of any dtype
   * @param [options.axis0=-2] whole number
   * @param [options.axis1=-1] whole number
   * @returns a tensor
   */
  transpose(x: Operand, options?: {axis0?: Integer | null; axis1?: Integer | null} & NameOption): Node;

  /**
   * axes of size 1 repeated, new ones in front; -1 keeps a size
   * @param x tensor of any dtype
   * @param shape size or list of sizes
   * @returns a tensor
   */
  expand(x: Operand, shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * [before, after] for each axis from the first, also as a flat list; negative ones crop; modes: the value, x
   *     mirrored at its ends (which are not repeated), its ends, or x from its other end
   * @param x tensor of any dtype
   * @param padding list of pairs
   * @param [options.value=0] number
   * @param [options.mode="constant"] "constant", "reflect", "replicate" or "circular"
   * @returns a tensor
   */
  pad(x: Operand, padding: readonly (readonly [Size, Size])[], options?: {value?: number | bigint | null; mode?: "constant" | "reflect" | "replicate" | "circular" | null} & NameOption): Node;

  /**
   * [start, stop] for each axis from the first
   * @param x tensor of any dtype
   * @param ranges list of pairs
   * @returns a tensor
   */
  shrink(x: Operand, ranges: readonly (readonly [Size, Size])[], options?: NameOption): Node;

  /**
   * x[start:stop:step] on the axes (the first ones, unless given); a negative step goes backwards, to the first
   *     element where stop is left out or below -size
   * @param x tensor of any dtype
   * @param [options.start] size or list of sizes
   * @param [options.stop] size or list of sizes
   * @param [options.step] whole number or list of them
   * @param [options.axis] whole number or list of them
   * @returns a tensor
   */
  slice(x: Operand, options?: {start?: Size | readonly Size[] | null; stop?: Size | readonly Size[] | null; step?: number | readonly number[] | null; axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * the order along the axes reversed
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  flip(x: Operand, options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * each axis moved on by its shift, what leaves at the end comes in at the start; without axis as if flat
   * @param x tensor of any dtype
   * @param shift whole number or list of them
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  roll(x: Operand, shift: number | readonly number[], options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * torch.Tensor.repeat: each axis as a whole so many times; further numbers make new axes in front
   * @param x tensor of any dtype
   * @param repeats size or list of sizes
   * @returns a tensor
   */
  repeat(x: Operand, repeats: Size | readonly Size[], options?: NameOption): Node;

  /**
   * each element of the axis so many times; without axis flat
   * @param x tensor of any dtype
   * @param repeats size
   * @param [options.axis] whole number
   * @returns a tensor
   */
  repeatInterleave(x: Operand, repeats: Size, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * torch.Tensor.unfold: windows of the axis, every step elements one, along a new last axis
   * @param x tensor of any dtype
   * @param axis whole number
   * @param size whole number
   * @param step whole number
   * @returns a tensor
   */
  unfold(x: Operand, axis: Integer, size: Integer, step: Integer, options?: NameOption): Node;

  /**
   * the diagonal of two axes, along a new last axis; offset: so many above it
   * @param x tensor of any dtype
   * @param [options.offset=0] whole number
   * @param [options.axis0=0] whole number
   * @param [options.axis1=1] whole number
   * @returns a tensor
   */
  diagonal(x: Operand, options?: {offset?: Integer | null; axis0?: Integer | null; axis1?: Integer | null} & NameOption): Node;

  /**
   * the diagonal of a matrix, or the matrix of a diagonal, with zeros elsewhere
   * @param x tensor of any dtype
   * @param [options.offset=0] whole number
   * @returns a tensor
   */
  diag(x: Operand, options?: {offset?: Integer | null} & NameOption): Node;

  /**
   * without the axes of size 1 (among those given)
   * @param x tensor of any dtype
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  squeeze(x: Operand, options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * a new axis of size 1
   * @param x tensor of any dtype
   * @param axis whole number
   * @returns a tensor
   */
  unsqueeze(x: Operand, axis: Integer, options?: NameOption): Node;

  /**
   * the axes from start to end made one
   * @param x tensor of any dtype
   * @param [options.start_axis=0] whole number
   * @param [options.end_axis=-1] whole number
   * @returns a tensor
   */
  flatten(x: Operand, options?: {start_axis?: Integer | null; end_axis?: Integer | null} & NameOption): Node;

  /**
   * one axis split into several; one size may be -1
   * @param x tensor of any dtype
   * @param axis whole number
   * @param sizes size or list of sizes
   * @returns a tensor
   */
  unflatten(x: Operand, axis: Integer, sizes: Size | readonly Size[], options?: NameOption): Node;

  /**
   * axes named as in einops: 'b (h w) c -> b c h w'; a name in parentheses is a part of an axis, and all parts of one
   *     but one need a size: '(h=3 w)'; 1 is an axis of size 1, ... stands for all others
   * @param x tensor of any dtype
   * @param formula string
   * @returns a tensor
   */
  rearrange(x: Operand, formula: string, options?: NameOption): Node;

  /**
   * one after the other along the axis
   * @param xs list, each a tensor of any dtype
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  cat(xs: readonly Operand[], options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * side by side along a new axis
   * @param xs list, each a tensor of any dtype
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  stack(xs: readonly Operand[], options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * parts of the axis of these sizes, or as many of one size as there are, of which the last may be shorter
   * @param x tensor of any dtype
   * @param sizes whole number or list of them
   * @param [options.axis=0] whole number
   * @param options.results how many there are, which the server checks
   * @returns a list, each a tensor
   */
  split(x: Operand, sizes: number | readonly number[], options: {axis?: Integer | null; results: number} & NamesOption): Node[];

  /**
   * the axis in so many parts of one size, of which the last may be shorter, or in fewer where that takes it all
   * @param x tensor of any dtype
   * @param chunks whole number
   * @param [options.axis=0] whole number
   * @param options.results how many there are, which the server checks
   * @returns a list, each a tensor
   */
  chunk(x: Operand, chunks: Integer, options: {axis?: Integer | null; results: number} & NamesOption): Node[];

  /**
   * each vector along an axis of its own, in the shape of all; xy: the first two axes exchanged
   * @param xs list, each a tensor of any dtype
   * @param [options.indexing="ij"] "ij" or "xy"
   * @returns a list, each a tensor
   */
  meshgrid(xs: readonly Operand[], options?: {indexing?: "ij" | "xy" | null} & NamesOption): Node[];

  /**
   * the value after the ends of the axes, up to this shape; -1 keeps a size
   * @param x tensor of any dtype
   * @param shape size or list of sizes
   * @param [options.value=0] number
   * @returns a tensor
   */
  padTo(x: Operand, shape: Size | readonly Size[], options?: {value?: number | bigint | null} & NameOption): Node;

  /**
   * the first elements of each axis, down to this shape; -1 keeps a size
   * @param x tensor of any dtype
   * @param shape size or list of sizes
   * @returns a tensor
   */
  shrinkTo(x: Operand, shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * start, start + step, ... below stop; int64, or float32 if one of them has a fraction
   * @param stop number or size
   * @param [options.start=0] number or size
   * @param [options.step=1] number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  arange(stop: Size, options?: {start?: Size | null; step?: number | bigint | null; dtype?: DType | null} & NameOption): Node;

  /**
   * steps numbers from start to stop, evenly apart
   * @param start number
   * @param stop number
   * @param steps size
   * @param [options.dtype="float32"] dtype
   * @returns a tensor of floats
   */
  linspace(start: number, stop: number, steps: Size, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * every element the value
   * @param shape size or list of sizes
   * @param value number or size
   * @param [options.dtype="float32"] dtype
   * @returns a tensor
   */
  full(shape: Size | readonly Size[], value: Size, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * zeros
   * @param shape size or list of sizes
   * @param [options.dtype="float32"] dtype
   * @returns a tensor
   */
  zeros(shape: Size | readonly Size[], options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * ones
   * @param shape size or list of sizes
   * @param [options.dtype="float32"] dtype
   * @returns a tensor
   */
  ones(shape: Size | readonly Size[], options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * zeros in the shape of x
   * @param x tensor of any dtype
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  zerosLike(x: Operand, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * ones in the shape of x
   * @param x tensor of any dtype
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  onesLike(x: Operand, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * every element the value, in the shape of x
   * @param x tensor of any dtype
   * @param value number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  fullLike(x: Operand, value: number | bigint, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * the n by m matrix with ones on the diagonal; m is n unless given
   * @param n size
   * @param [options.m] size
   * @param [options.dtype="float32"] dtype
   * @returns a tensor
   */
  eye(n: Size, options?: {m?: Size | null; dtype?: DType | null} & NameOption): Node;

  /**
   * uniform between low and high
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.low=0] number
   * @param [options.high=1] number
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  uniform(shape: Size | readonly Size[], options?: {key?: Operand | null; low?: number | null; high?: number | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * normal distribution
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.mean=0] number
   * @param [options.std=1] number
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  normal(shape: Size | readonly Size[], options?: {key?: Operand | null; mean?: number | null; std?: number | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * whole numbers from low to high - 1
   * @param shape size or list of sizes
   * @param high number or size
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.low=0] whole number
   * @param [options.dtype="int64"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of integers
   */
  randint(shape: Size | readonly Size[], high: Size, options?: {key?: Operand | null; low?: Integer | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * the numbers from 0 to n - 1 in random order
   * @param n size
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype="int64"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of integers
   */
  randperm(n: Size, options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * how many steps of the program came before this one, since its rng says 0; in a run 0
   * @param [options.dtype="int64"] dtype
   * @returns a tensor of integers
   */
  step(options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * [batch]: which of n samples this step of the program takes (with take along axis 0): each at most once in an
   *     epoch of n / batch steps, in an order that is drawn anew for each; a rest of fewer than batch is left out
   * @param n whole number
   * @param batch whole number
   * @param [options.shuffle=true] true or false
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of int64
   */
  batchIndex(n: Integer, batch: Integer, options?: {shuffle?: boolean | null; seed?: Integer | null} & NameOption): Node;

  /**
   * uniform between 0 and 1 in the shape of x
   * @param x tensor of any dtype
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  randLike(x: Operand, options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * normal distribution in the shape of x
   * @param x tensor of any dtype
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  randnLike(x: Operand, options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * uniform within sqrt(6 / ((1 + a^2) * fan))
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.a=0] number
   * @param [options.mode="fan_in"] "fan_in" or "fan_out"
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  kaimingUniform(shape: Size | readonly Size[], options?: {key?: Operand | null; a?: number | null; mode?: "fan_in" | "fan_out" | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * normal with deviation sqrt(2 / ((1 + a^2) * fan))
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.a=0] number
   * @param [options.mode="fan_in"] "fan_in" or "fan_out"
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  kaimingNormal(shape: Size | readonly Size[], options?: {key?: Operand | null; a?: number | null; mode?: "fan_in" | "fan_out" | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * uniform within sqrt(6 / (fan_in + fan_out))
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  glorotUniform(shape: Size | readonly Size[], options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * uniform within 1 / sqrt(fan_in): how PyTorch starts Linear and Conv2d (a bias: give fan_in)
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.fan_in] whole number
   * @param [options.dtype="float32"] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  scaledUniform(shape: Size | readonly Size[], options?: {key?: Operand | null; fan_in?: Integer | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * 1 with probability p, else 0
   * @param p tensor of floats (integers and bool become float32)
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  bernoulli(p: Operand, options?: {key?: Operand | null; seed?: Integer | null} & NameOption): Node;

  /**
   * [..., num_samples]: indices drawn by weight along the last axis; without replacement each at most once
   * @param weights tensor of floats (integers and bool become float32)
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.num_samples=1] size
   * @param [options.replacement=false] true or false
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of int64
   */
  multinomial(weights: Operand, options?: {key?: Operand | null; num_samples?: Size | null; replacement?: boolean | null; seed?: Integer | null} & NameOption): Node;

  /**
   * random uint32
   * @param shape size or list of sizes
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor
   */
  randomBits(shape: Size | readonly Size[], options?: {key?: Operand | null; seed?: Integer | null} & NameOption): Node;

  /**
   * Threefry-2x32 of uint64: the low half is the first word
   * @param x tensor of integers or bool, brought to one dtype with key
   * @param key integer scalar that fixes what this place of the graph draws; by default every step draws anew
   * @returns a tensor
   */
  threefry(x: Operand, key: Operand, options?: NameOption): Node;

  /**
   * torch.optim.SGD: the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param lr number, or float32 scalar tensor
   * @param [options.momentum=0] number
   * @param [options.dampening=0] number
   * @param [options.weight_decay=0] number
   * @param [options.nesterov=false] true or false
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  sgd(loss: Operand, params: readonly Node[], lr: number | Node, options?: {momentum?: number | null; dampening?: number | null; weight_decay?: number | null; nesterov?: boolean | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.Adam: the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.betas=[0.9, 0.999]] list of numbers
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adam(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; betas?: readonly number[] | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.AdamW: the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.betas=[0.9, 0.999]] list of numbers
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0.01] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adamw(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; betas?: readonly number[] | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.Adagrad: the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.01] number, or float32 scalar tensor
   * @param [options.lr_decay=0] number
   * @param [options.weight_decay=0] number
   * @param [options.eps=1e-10] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adagrad(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; lr_decay?: number | null; weight_decay?: number | null; eps?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.RMSprop: the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.01] number, or float32 scalar tensor
   * @param [options.alpha=0.99] number
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0] number
   * @param [options.momentum=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  rmsprop(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; alpha?: number | null; eps?: number | null; weight_decay?: number | null; momentum?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * LAMB (You et al., arXiv:1904.00962): the new parameters
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.b1=0.9] number
   * @param [options.b2=0.999] number
   * @param [options.eps=1e-06] number
   * @param [options.weight_decay=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  lamb(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; b1?: number | null; b2?: number | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * LARS (You et al., arXiv:1708.03888): the new parameters; classic: the rate goes into the momentum
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.momentum=0.9] number
   * @param [options.weight_decay=0.0001] number
   * @param [options.nesterov=false] true or false
   * @param [options.classic=true] true or false
   * @param [options.tcoef=0.001] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  lars(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; momentum?: number | null; weight_decay?: number | null; nesterov?: boolean | null; classic?: boolean | null; tcoef?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * Muon (Jordan et al., 2024): momentum made orthogonal by Newton-Schulz steps, for parameters [n, ...] seen as
   *     matrices
   * @param loss tensor of any dtype
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.02] number, or float32 scalar tensor
   * @param [options.momentum=0.95] number
   * @param [options.weight_decay=0.1] number
   * @param [options.steps=5] whole number
   * @param [options.nesterov=true] true or false
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  muon(loss: Operand, params: readonly Node[], options?: {lr?: number | Node | null; momentum?: number | null; weight_decay?: number | null; steps?: Integer | null; nesterov?: boolean | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * the nearest orthogonal matrix, roughly: x = a x + b (x x^T) x + c (x x^T)^2 x so many times, from x of norm 1
   * @param x tensor of floats (integers and bool become float32)
   * @param [options.steps=5] whole number
   * @param [options.params=[3.4445, -4.775, 2.0315]] list of numbers
   * @param [options.eps=1e-07] number
   * @returns a tensor of floats
   */
  newtonSchulz(x: Operand, options?: {steps?: Integer | null; params?: readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * torch.nn.utils.clip_grad_norm_: all scaled so that their joint norm is at most max_norm
   * @param grads list, each a tensor of floats (integers and bool become float32)
   * @param maxNorm number
   * @returns a list, each a tensor
   */
  clipGradNorm(grads: readonly Operand[], maxNorm: number, options?: NamesOption): Node[];

  /**
   * lr times gamma every step_size steps
   * @param step tensor of floats (integers and bool become float32)
   * @param lr number
   * @param stepSize whole number
   * @param [options.gamma=0.1] number
   * @returns a tensor of floats
   */
  stepLr(step: Operand, lr: number, stepSize: Integer, options?: {gamma?: number | null} & NameOption): Node;

  /**
   * from lr to end in total steps
   * @param step tensor of floats (integers and bool become float32)
   * @param lr number
   * @param total whole number
   * @param [options.power=1] number
   * @param [options.end=0] number
   * @returns a tensor of floats
   */
  polynomialLr(step: Operand, lr: number, total: Integer, options?: {power?: number | null; end?: number | null} & NameOption): Node;

  /**
   * from lr to end in total steps, along half a cosine
   * @param step tensor of floats (integers and bool become float32)
   * @param lr number
   * @param total whole number
   * @param [options.end=0] number
   * @returns a tensor of floats
   */
  cosineLr(step: Operand, lr: number, total: Integer, options?: {end?: number | null} & NameOption): Node;

  /**
   * up to lr in warmup steps
   * @param step tensor of floats (integers and bool become float32)
   * @param lr number
   * @param warmup whole number
   * @returns a tensor of floats
   */
  warmupLr(step: Operand, lr: number, warmup: Integer, options?: NameOption): Node;

  /**
   * torch's OneCycleLR: from lr / div up to lr in pct_start of the steps, then down to lr / div / final_div
   * @param step tensor of floats (integers and bool become float32)
   * @param lr number
   * @param total whole number
   * @param [options.pct_start=0.3] number
   * @param [options.div=25] number
   * @param [options.final_div=10000] number
   * @returns a tensor of floats
   */
  oneCycleLr(step: Operand, lr: number, total: Integer, options?: {pct_start?: number | null; div?: number | null; final_div?: number | null} & NameOption): Node;
}

/** Ops as methods of their first operand. */
export class NodeOps {
  /**
   * x + y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  add(y: Operand, options?: NameOption): Node;

  /**
   * x - y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  sub(y: Operand, options?: NameOption): Node;

  /**
   * x * y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  mul(y: Operand, options?: NameOption): Node;

  /**
   * x / y; integers give float32
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  div(y: Operand, options?: NameOption): Node;

  /**
   * floor of x / y; an integer by zero gives 0
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  floorDiv(y: Operand, options?: NameOption): Node;

  /**
   * x / y towards zero; an integer by zero gives 0
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  truncDiv(y: Operand, options?: NameOption): Node;

  /**
   * x - y * floor(x / y), with the sign of y; an integer by zero gives 0
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  mod(y: Operand, options?: NameOption): Node;

  /**
   * x - y * trunc(x / y), with the sign of x; an integer by zero gives x
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  fmod(y: Operand, options?: NameOption): Node;

  /**
   * -x
   * @returns a tensor
   */
  neg(options?: NameOption): Node;

  /**
   * |x|
   * @returns a tensor
   */
  abs(options?: NameOption): Node;

  /**
   * -1, 0 or 1
   * @returns a tensor
   */
  sign(options?: NameOption): Node;

  /**
   * x * x
   * @returns a tensor
   */
  square(options?: NameOption): Node;

  /**
   * square root
   * @returns a tensor of floats
   */
  sqrt(options?: NameOption): Node;

  /**
   * 1 / square root
   * @returns a tensor of floats
   */
  rsqrt(options?: NameOption): Node;

  /**
   * 1 / x
   * @returns a tensor of floats
   */
  reciprocal(options?: NameOption): Node;

  /**
   * e to the x
   * @returns a tensor of floats
   */
  exp(options?: NameOption): Node;

  /**
   * 2 to the x
   * @returns a tensor of floats
   */
  exp2(options?: NameOption): Node;

  /**
   * exp(x) - 1, also where that is small
   * @returns a tensor of floats
   */
  expm1(options?: NameOption): Node;

  /**
   * natural logarithm
   * @returns a tensor of floats
   */
  log(options?: NameOption): Node;

  /**
   * logarithm to base 2
   * @returns a tensor of floats
   */
  log2(options?: NameOption): Node;

  /**
   * logarithm to base 10
   * @returns a tensor of floats
   */
  log10(options?: NameOption): Node;

  /**
   * log(1 + x), also where x is small
   * @returns a tensor of floats
   */
  log1p(options?: NameOption): Node;

  /**
   * sine of radians
   * @returns a tensor of floats
   */
  sin(options?: NameOption): Node;

  /**
   * cosine of radians
   * @returns a tensor of floats
   */
  cos(options?: NameOption): Node;

  /**
   * tangent of radians
   * @returns a tensor of floats
   */
  tan(options?: NameOption): Node;

  /**
   * inverse sine, in radians
   * @returns a tensor of floats
   */
  asin(options?: NameOption): Node;

  /**
   * inverse cosine, in radians
   * @returns a tensor of floats
   */
  acos(options?: NameOption): Node;

  /**
   * inverse tangent, in radians
   * @returns a tensor of floats
   */
  atan(options?: NameOption): Node;

  /**
   * the angle of the point (x, y), in radians
   * @param x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @returns a tensor of floats
   */
  atan2(x: Operand, options?: NameOption): Node;

  /**
   * hyperbolic sine
   * @returns a tensor of floats
   */
  sinh(options?: NameOption): Node;

  /**
   * hyperbolic cosine
   * @returns a tensor of floats
   */
  cosh(options?: NameOption): Node;

  /**
   * inverse hyperbolic sine
   * @returns a tensor of floats
   */
  asinh(options?: NameOption): Node;

  /**
   * inverse hyperbolic cosine
   * @returns a tensor of floats
   */
  acosh(options?: NameOption): Node;

  /**
   * inverse hyperbolic tangent
   * @returns a tensor of floats
   */
  atanh(options?: NameOption): Node;

  /**
   * the next whole number below
   * @returns a tensor
   */
  floor(options?: NameOption): Node;

  /**
   * the next whole number above
   * @returns a tensor
   */
  ceil(options?: NameOption): Node;

  /**
   * towards zero
   * @returns a tensor
   */
  trunc(options?: NameOption): Node;

  /**
   * the nearest whole number; a half goes to the even one
   * @returns a tensor
   */
  round(options?: NameOption): Node;

  /**
   * the larger; NaN if either is
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  maximum(y: Operand, options?: NameOption): Node;

  /**
   * the smaller; NaN if either is
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  minimum(y: Operand, options?: NameOption): Node;

  /**
   * x to the y; an integer to a negative power gives 0, but 1 and -1 stay
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  pow(y: Operand, options?: NameOption): Node;

  /**
   * |x| with the sign of y, also where that is a zero or NaN
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  copysign(y: Operand, options?: NameOption): Node;

  /**
   * log(exp(x) + exp(y))
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns a tensor of floats
   */
  logaddexp(y: Operand, options?: NameOption): Node;

  /**
   * x + (y - x) * weight
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, y
   * @returns a tensor of floats
   */
  lerp(y: Operand, weight: Operand, options?: NameOption): Node;

  /**
   * x, but not below min nor above max
   * @param [options.min] number
   * @param [options.max] number
   * @returns a tensor
   */
  clamp(options?: {min?: number | bigint | null; max?: number | bigint | null} & NameOption): Node;

  /**
   * max(x, 0)
   * @returns a tensor
   */
  relu(options?: NameOption): Node;

  /**
   * x held between 0 and 6
   * @returns a tensor
   */
  relu6(options?: NameOption): Node;

  /**
   * x held between min and max; no gradient there
   * @param [options.min=-1] number
   * @param [options.max=1] number
   * @returns a tensor
   */
  hardtanh(options?: {min?: number | bigint | null; max?: number | bigint | null} & NameOption): Node;

  /**
   * alpha * x + beta held between 0 and 1
   * @param [options.alpha=0.16666666666666666] number
   * @param [options.beta=0.5] number
   * @returns a tensor of floats
   */
  hardsigmoid(options?: {alpha?: number | null; beta?: number | null} & NameOption): Node;

  /**
   * x * hardsigmoid(x)
   * @returns a tensor of floats
   */
  hardswish(options?: NameOption): Node;

  /**
   * x where positive, else negative_slope * x
   * @param [options.negative_slope=0.01] number
   * @returns a tensor of floats
   */
  leakyRelu(options?: {negative_slope?: number | null} & NameOption): Node;

  /**
   * x where positive, else alpha * (exp(x) - 1)
   * @param [options.alpha=1] number
   * @returns a tensor of floats
   */
  elu(options?: {alpha?: number | null} & NameOption): Node;

  /**
   * x where positive, else alpha * (exp(x / alpha) - 1)
   * @param [options.alpha=1] number
   * @returns a tensor of floats
   */
  celu(options?: {alpha?: number | null} & NameOption): Node;

  /**
   * gamma * elu(x), which keeps mean and variance
   * @param [options.alpha=1.6732632423543772] number
   * @param [options.gamma=1.0507009873554805] number
   * @returns a tensor of floats
   */
  selu(options?: {alpha?: number | null; gamma?: number | null} & NameOption): Node;

  /**
   * 1 / (1 + exp(-x))
   * @returns a tensor of floats
   */
  sigmoid(options?: NameOption): Node;

  /**
   * hyperbolic tangent
   * @returns a tensor of floats
   */
  tanh(options?: NameOption): Node;

  /**
   * error function
   * @returns a tensor of floats
   */
  erf(options?: NameOption): Node;

  /**
   * x times the normal distribution function of x
   * @param [options.approximate="none"] "none" or "tanh"
   * @returns a tensor of floats
   */
  gelu(options?: {approximate?: "none" | "tanh" | null} & NameOption): Node;

  /**
   * x * sigmoid(1.702 * x)
   * @returns a tensor of floats
   */
  quickGelu(options?: NameOption): Node;

  /**
   * x * sigmoid(x)
   * @returns a tensor of floats
   */
  silu(options?: NameOption): Node;

  /**
   * x * tanh(softplus(x))
   * @returns a tensor of floats
   */
  mish(options?: NameOption): Node;

  /**
   * x / (1 + |x|)
   * @returns a tensor of floats
   */
  softsign(options?: NameOption): Node;

  /**
   * log(sigmoid(x)), also where that is far below 0
   * @returns a tensor of floats
   */
  logsigmoid(options?: NameOption): Node;

  /**
   * log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold
   * @param [options.beta=1] number
   * @param [options.threshold=20] number
   * @returns a tensor of floats
   */
  softplus(options?: {beta?: number | null; threshold?: number | null} & NameOption): Node;

  /**
   * x == y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  equal(y: Operand, options?: NameOption): Node;

  /**
   * x != y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  notEqual(y: Operand, options?: NameOption): Node;

  /**
   * x < y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  less(y: Operand, options?: NameOption): Node;

  /**
   * x <= y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  lessEqual(y: Operand, options?: NameOption): Node;

  /**
   * x > y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  greater(y: Operand, options?: NameOption): Node;

  /**
   * x >= y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor of bool
   */
  greaterEqual(y: Operand, options?: NameOption): Node;

  /**
   * is it NaN
   * @returns a tensor of bool
   */
  isnan(options?: NameOption): Node;

  /**
   * is it neither NaN nor infinite
   * @returns a tensor of bool
   */
  isfinite(options?: NameOption): Node;

  /**
   * is it infinite
   * @param [options.detect_positive=true] true or false
   * @param [options.detect_negative=true] true or false
   * @returns a tensor of bool
   */
  isinf(options?: {detect_positive?: boolean | null; detect_negative?: boolean | null} & NameOption): Node;

  /**
   * |x - y| <= atol + rtol * |y|
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.rtol=1e-05] number
   * @param [options.atol=1e-08] number
   * @param [options.equal_nan=false] true or false
   * @returns a tensor of bool
   */
  isclose(y: Operand, options?: {rtol?: number | null; atol?: number | null; equal_nan?: boolean | null} & NameOption): Node;

  /**
   * are all |x - y| <= atol + rtol * |y|
   * @param y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.rtol=1e-05] number
   * @param [options.atol=1e-08] number
   * @param [options.equal_nan=false] true or false
   * @returns a tensor of bool
   */
  allclose(y: Operand, options?: {rtol?: number | null; atol?: number | null; equal_nan?: boolean | null} & NameOption): Node;

  /**
   * both are not zero
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalAnd(y: Operand, options?: NameOption): Node;

  /**
   * one or both are not zero
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalOr(y: Operand, options?: NameOption): Node;

  /**
   * one of them is not zero
   * @param y tensor of bool (numbers become "not zero")
   * @returns a tensor of bool
   */
  logicalXor(y: Operand, options?: NameOption): Node;

  /**
   * is it zero
   * @returns a tensor of bool
   */
  logicalNot(options?: NameOption): Node;

  /**
   * bits that both have
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseAnd(y: Operand, options?: NameOption): Node;

  /**
   * bits that one or both have
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseOr(y: Operand, options?: NameOption): Node;

  /**
   * bits that one of them has
   * @param y tensor of integers or bool, brought to one dtype with x
   * @returns a tensor of integers or bool
   */
  bitwiseXor(y: Operand, options?: NameOption): Node;

  /**
   * every bit turned
   * @returns a tensor of integers or bool
   */
  bitwiseNot(options?: NameOption): Node;

  /**
   * x * 2^y modulo the width; 0 from the width on
   * @param y tensor of integers, brought to one dtype with x
   * @returns a tensor of integers
   */
  leftShift(y: Operand, options?: NameOption): Node;

  /**
   * floor of x / 2^y
   * @param y tensor of integers, brought to one dtype with x
   * @returns a tensor of integers
   */
  rightShift(y: Operand, options?: NameOption): Node;

  /**
   * x where the condition holds, else y
   * @param x tensor of any dtype, brought to one dtype with y
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  where(x: Operand, y: Operand, options?: NameOption): Node;

  /**
   * the value where the mask holds, else x
   * @param mask tensor of bool (numbers become "not zero")
   * @param value tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  maskedFill(mask: Operand, value: Operand, options?: NameOption): Node;

  /**
   * conversion by value; float to integer truncates and saturates
   * @param dtype dtype
   * @returns a tensor
   */
  cast(dtype: DType, options?: NameOption): Node;

  /**
   * the same bits as another dtype; one of another size makes the last axis longer or shorter, the lowest bits first
   * @param dtype dtype
   * @returns a tensor
   */
  bitcast(dtype: DType, options?: NameOption): Node;

  /**
   * x, through which no gradient flows
   * @returns a tensor
   */
  detach(options?: NameOption): Node;

  /**
   * x, written to a buffer of its own
   * @returns a tensor
   */
  contiguous(options?: NameOption): Node;

  /**
   * x, whose gradient is written to a buffer of its own
   * @returns a tensor of floats
   */
  contiguousBackward(options?: NameOption): Node;

  /**
   * sum, in the dtype; without, bool and integers give 64 bits
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  sum(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null; dtype?: DType | null} & NameOption): Node;

  /**
   * product, in the dtype; without, bool and integers give 64 bits
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  prod(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null; dtype?: DType | null} & NameOption): Node;

  /**
   * arithmetic mean
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  mean(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the largest; its gradient is shared between equals
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor
   */
  max(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the smallest; its gradient is shared between equals
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor
   */
  min(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * where the largest is, the first of equals; without axis in the flattened tensor
   * @param [options.axis] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  argmax(options?: {axis?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * where the smallest is, the first of equals; without axis in the flattened tensor
   * @param [options.axis] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  argmin(options?: {axis?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * none is zero
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of bool
   */
  all(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * some is not zero
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of bool
   */
  any(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * how many are not zero
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of int64
   */
  countNonzero(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * variance, divided by the count less the correction
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  var(options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * square root of var; the gradient is 0 where var is 0
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  std(options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * var and mean
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a list of a tensor of floats, a tensor of floats
   */
  varMean(options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NamesOption): Node[];

  /**
   * std and mean
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.correction=1] whole number
   * @param [options.keepdim=false] true or false
   * @returns a list of a tensor of floats, a tensor of floats
   */
  stdMean(options?: {axis?: number | readonly number[] | null; correction?: Integer | null; keepdim?: boolean | null} & NamesOption): Node[];

  /**
   * exp(x) divided by its sum
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  softmax(options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * logarithm of softmax
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  logSoftmax(options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * softmax of -x
   * @param [options.axis=-1] whole number
   * @returns a tensor of floats
   */
  softmin(options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x divided by its p-norm over the axes, which counts as eps at least
   * @param [options.p=2] number
   * @param [options.axis=1] whole number or list of them
   * @param [options.eps=1e-12] number
   * @returns a tensor of floats
   */
  normalize(options?: {p?: number | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * log(sum(exp(x)))
   * @param [options.axis] whole number or list of them; null for all
   * @param [options.keepdim=false] true or false
   * @returns a tensor of floats
   */
  logsumexp(options?: {axis?: number | readonly number[] | null; keepdim?: boolean | null} & NameOption): Node;

  /**
   * the sum of each element and all before it; bool and integers give 64 bits
   * @param [options.axis=0] whole number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  cumsum(options?: {axis?: Integer | null; dtype?: DType | null} & NameOption): Node;

  /**
   * the product of each element and all before it; bool and integers give 64 bits
   * @param [options.axis=0] whole number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  cumprod(options?: {axis?: Integer | null; dtype?: DType | null} & NameOption): Node;

  /**
   * log(cumsum(exp(x)))
   * @param [options.axis=0] whole number
   * @returns a tensor of floats
   */
  logcumsumexp(options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * the largest of each element and all before it, and where the latest such one is
   * @param [options.axis=0] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  cummax(options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * the smallest of each element and all before it, and where the latest such one is
   * @param [options.axis=0] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  cummin(options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * in order along the axis, and where each element was; equals keep their order, NaN is the largest
   * @param [options.axis=-1] whole number
   * @param [options.descending=false] true or false
   * @returns a list of a tensor, a tensor of int64
   */
  sort(options?: {axis?: Integer | null; descending?: boolean | null} & NamesOption): Node[];

  /**
   * where the elements of the sorted axis are
   * @param [options.axis=-1] whole number
   * @param [options.descending=false] true or false
   * @returns a tensor of int64
   */
  argsort(options?: {axis?: Integer | null; descending?: boolean | null} & NameOption): Node;

  /**
   * the k largest (or smallest) along the axis, in order, and where they are
   * @param k size
   * @param [options.axis=-1] whole number
   * @param [options.largest=true] true or false
   * @returns a list of a tensor, a tensor of int64
   */
  topk(k: Size, options?: {axis?: Integer | null; largest?: boolean | null} & NamesOption): Node[];

  /**
   * of logits [N, C, ...] (or [C]) and class indices [N, ...], or probabilities in the shape of x; weight [C] weighs
   *     the classes; an index that is no class counts as 0, or, unless it is ignore_index, is an error with
   *     check_indices
   * @param target tensor of any dtype
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index] whole number
   * @param [options.label_smoothing=0] number
   * @returns a tensor of floats
   */
  crossEntropy(target: Operand, options?: {weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null; label_smoothing?: number | null} & NameOption): Node;

  /**
   * of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]; weight [C] weighs the classes
   * @param target tensor of integers
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index] whole number
   * @returns a tensor of floats
   */
  nllLoss(target: Operand, options?: {weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null} & NameOption): Node;

  /**
   * cross_entropy of logits [..., C] and class indices [...]
   * @param target tensor of integers
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.ignore_index=-1] whole number
   * @param [options.label_smoothing=0] number
   * @returns a tensor of floats
   */
  sparseCategoricalCrossentropy(target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null; ignore_index?: Integer | null; label_smoothing?: number | null} & NameOption): Node;

  /**
   * squared difference
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  mseLoss(target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * |x - target|
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  l1Loss(target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * squared difference / (2 * beta) below beta, |difference| - beta / 2 above
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.beta=1] number
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  smoothL1Loss(target: Operand, options?: {beta?: number | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * squared difference / 2 below delta, a straight line above
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.delta=1] number
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  huberLoss(target: Operand, options?: {delta?: number | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of probabilities; a logarithm counts as -100 at least
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  binaryCrossEntropy(target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of logits; pos_weight weighs the positive class
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x, pos_weight
   * @param [options.pos_weight] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     target
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @returns a tensor of floats
   */
  binaryCrossEntropyWithLogits(target: Operand, options?: {pos_weight?: Operand | null; reduction?: "mean" | "sum" | "none" | null} & NameOption): Node;

  /**
   * of log-probabilities x and probabilities (or their logarithms) target
   * @param target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.reduction="mean"] "mean", "sum" or "none"
   * @param [options.log_target=false] true or false
   * @returns a tensor of floats
   */
  klDiv(target: Operand, options?: {reduction?: "mean" | "sum" | "none" | null; log_target?: boolean | null} & NameOption): Node;

  /**
   * (x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.axis=-1] whole number or list of them
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  layerNorm(options?: {weight?: Operand | null; bias?: Operand | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * x / sqrt(mean(x^2) + eps) over the axes, times weight
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param [options.axis=-1] whole number or list of them
   * @param [options.eps=1e-06] number
   * @returns a tensor of floats
   */
  rmsNorm(options?: {weight?: Operand | null; axis?: number | readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * (x - mean) / sqrt(var + eps) * weight + bias, with statistics and weights along one axis
   * @param mean tensor of floats (integers and bool become float32), brought to one dtype with x, var, weight, bias
   * @param var_ tensor of floats (integers and bool become float32), brought to one dtype with x, mean, weight, bias
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, mean,
   *     var, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, mean,
   *     var, weight
   * @param [options.axis=1] whole number
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  batchNorm(mean: Operand, var_: Operand, options?: {weight?: Operand | null; bias?: Operand | null; axis?: Integer | null; eps?: number | null} & NameOption): Node;

  /**
   * normalised over each group of channels of [N, C, ...], times weight [C], plus bias [C]
   * @param groups whole number
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  groupNorm(groups: Integer, options?: {weight?: Operand | null; bias?: Operand | null; eps?: number | null} & NameOption): Node;

  /**
   * normalised over each channel of [N, C, ...], times weight [C], plus bias [C]
   * @param [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.eps=1e-05] number
   * @returns a tensor of floats
   */
  instanceNorm(options?: {weight?: Operand | null; bias?: Operand | null; eps?: number | null} & NameOption): Node;

  /**
   * 0 with probability p, else x / (1 - p); drops always
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.p=0.5] number
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  dropout(options?: {key?: Operand | null; p?: number | null; seed?: Integer | null} & NameOption): Node;

  /**
   * matrix product over the last two axes, the others broadcast; vectors as in PyTorch
   * @param y tensor of any dtype, brought to one dtype with x
   * @returns a tensor
   */
  matmul(y: Operand, options?: NameOption): Node;

  /**
   * x @ weight^T + bias, weight [out, in]
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @returns a tensor of floats
   */
  linear(weight: Operand, options?: {bias?: Operand | null} & NameOption): Node;

  /**
   * x @ weight^T with a block-quantised weight [.., out, in], given as the planes of its format: see [quantised
   *     weights](quantised.md); rows: the rows of the matrix, if the last group of 16 is filled up; activations: int8
   *     rounds x to integers times a scale, in chunks of 32 columns
   * @param planes list, each a tensor of any dtype
   * @param format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"
   *     or "mxfp4"
   * @param [options.rows] whole number
   * @param [options.activations="float32"] "float32" or "int8"
   * @returns a tensor of floats
   */
  blockLinear(planes: readonly Operand[], format: "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" | "iq4_xs" | "mxfp4", options?: {rows?: Integer | null; activations?: "float32" | "int8" | null} & NameOption): Node;

  /**
   * softmax(q @ k^T * scale + mask) @ v over [..., length, size]; scale is 1 / sqrt(size) unless given; a bool mask
   *     says where to look; causal: not ahead; grouped: k and v have fewer heads (axis -3)
   * @param k tensor of floats (integers and bool become float32), brought to one dtype with q, v
   * @param v tensor of floats (integers and bool become float32), brought to one dtype with q, k
   * @param [options.mask] tensor of any dtype
   * @param [options.causal=false] true or false
   * @param [options.scale] number
   * @param [options.grouped=false] true or false
   * @returns a tensor of floats
   */
  attention(k: Operand, v: Operand, options?: {mask?: Operand | null; causal?: boolean | null; scale?: number | null; grouped?: boolean | null} & NameOption): Node;

  /**
   * torch.nn.LSTMCell: the new h and c; weights [4 * n, ...] for input, forget, cell and output gates
   * @param h tensor of floats (integers and bool become float32), brought to one dtype with x, c, w_ih, w_hh, b_ih,
   *     b_hh
   * @param c tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih,
   *     b_hh
   * @param wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_hh, b_ih,
   *     b_hh
   * @param wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, b_ih,
   *     b_hh
   * @param [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_ih, w_hh, b_hh
   * @param [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_ih, w_hh, b_ih
   * @returns a list of a tensor of floats, a tensor of floats
   */
  lstmCell(h: Operand, c: Operand, wIh: Operand, wHh: Operand, options?: {b_ih?: Operand | null; b_hh?: Operand | null} & NamesOption): Node[];

  /**
   * torch.nn.GRUCell: the new h; weights [3 * n, ...] for reset, update and new gates
   * @param h tensor of floats (integers and bool become float32), brought to one dtype with x, w_ih, w_hh, b_ih, b_hh
   * @param wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_hh, b_ih, b_hh
   * @param wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, b_ih, b_hh
   * @param [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     w_hh, b_hh
   * @param [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     w_hh, b_ih
   * @returns a tensor of floats
   */
  gruCell(h: Operand, wIh: Operand, wHh: Operand, options?: {b_ih?: Operand | null; b_hh?: Operand | null} & NameOption): Node;

  /**
   * x [N, C, ...], weight [O, C / groups, ...], bias [O]; padding is one number, one for each axis, or [before,
   *     after] for each, flat; form: see conv2d
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @param [options.form="auto"] "auto", "direct" or "winograd"
   * @returns a tensor of floats
   */
  conv(weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null; form?: "auto" | "direct" | "winograd" | null} & NameOption): Node;

  /**
   * x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]; form: how float32 by 3 x 3 at stride 1 is computed, as
   *     a sum of products or by Winograd's transforms, which round otherwise; auto takes what should be the faster
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @param [options.form="auto"] "auto", "direct" or "winograd"
   * @returns a tensor of floats
   */
  conv2d(weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null; form?: "auto" | "direct" | "winograd" | null} & NameOption): Node;

  /**
   * x [N, C, ...], weight [C, O / groups, ...], bias [O]: what conv's gradient does to x; padding as of conv
   * @param weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param [options.stride=1] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.output_padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.groups=1] whole number
   * @returns a tensor of floats
   */
  convTranspose(weight: Operand, options?: {bias?: Operand | null; stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; output_padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; groups?: Integer | null} & NameOption): Node;

  /**
   * largest of each window of the last axes: as many as kernel_size lists, dims where it is one number; stride is
   *     kernel_size unless given; ceil_mode: a window may hang over the end; the gradient is shared between equals
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.dims=2] whole number
   * @returns a tensor
   */
  maxPool(kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null; dims?: Integer | null} & NameOption): Node;

  /**
   * mean of each window of the last axes, see max_pool
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.count_include_pad=true] true or false
   * @param [options.dims=2] whole number
   * @returns a tensor of floats
   */
  avgPool(kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; ceil_mode?: boolean | null; count_include_pad?: boolean | null; dims?: Integer | null} & NameOption): Node;

  /**
   * largest of each window of [..., H, W]; stride is kernel_size unless given
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @returns a tensor
   */
  maxPool2d(kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null} & NameOption): Node;

  /**
   * mean of each window of [..., H, W]; stride is kernel_size unless given
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.count_include_pad=true] true or false
   * @param [options.ceil_mode=false] true or false
   * @returns a tensor of floats
   */
  avgPool2d(kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; count_include_pad?: boolean | null; ceil_mode?: boolean | null} & NameOption): Node;

  /**
   * max_pool, and where each largest is in its plane, flat; the first of equals
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.dilation=1] whole number or list of them
   * @param [options.ceil_mode=false] true or false
   * @param [options.dims=2] whole number
   * @returns a list of a tensor, a tensor of int64
   */
  maxPoolIndices(kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; dilation?: number | readonly number[] | null; ceil_mode?: boolean | null; dims?: Integer | null} & NamesOption): Node[];

  /**
   * zeros, but x where the indices of max_pool_indices say; the last of several that say the same, nothing for one
   *     out of range; output_size: of the plane
   * @param indices tensor of integers
   * @param kernelSize whole number or list of them
   * @param [options.stride] whole number or list of them
   * @param [options.padding=0] whole number or list of them
   * @param [options.output_size] size or list of sizes
   * @param [options.dims=2] whole number
   * @returns a tensor
   */
  maxUnpool(indices: Operand, kernelSize: number | readonly number[], options?: {stride?: number | readonly number[] | null; padding?: number | readonly number[] | null; output_size?: Size | readonly Size[] | null; dims?: Integer | null} & NameOption): Node;

  /**
   * the last axes in other sizes: the nearest element, or between neighbours along each axis (linear: any number of
   *     axes); align_corners: the first and last elements stay where they are
   * @param size size or list of sizes
   * @param [options.mode="nearest"] "nearest", "nearest-exact", "linear", "bilinear" or "trilinear"
   * @param [options.align_corners=false] true or false
   * @returns a tensor of floats
   */
  interpolate(size: Size | readonly Size[], options?: {mode?: "nearest" | "nearest-exact" | "linear" | "bilinear" | "trilinear" | null; align_corners?: boolean | null} & NameOption): Node;

  /**
   * torch.linalg.qr, reduced: Q with orthogonal columns and R upper triangular, x = Q R; a diagonal element of R may
   *     have another sign than LAPACK's
   * @returns a list of a tensor of floats, a tensor of floats
   */
  qr(options?: NamesOption): Node[];

  /**
   * L lower triangular with x = L L^T, of which the lower triangle is read; NaN where x is not positive definite
   * @returns a tensor of floats
   */
  cholesky(options?: NameOption): Node;

  /**
   * x of a x = b, where only the lower (upper) triangle of a is read; b [..., n, k] or [n]
   * @param b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @param [options.upper=false] true or false
   * @returns a tensor of floats
   */
  triangularSolve(b: Operand, options?: {upper?: boolean | null} & NameOption): Node;

  /**
   * x of a x = b, b [..., n, k] or [n]
   * @param b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @returns a tensor of floats
   */
  solve(b: Operand, options?: NameOption): Node;

  /**
   * the inverse; infinite or NaN where there is none
   * @returns a tensor of floats
   */
  inverse(options?: NameOption): Node;

  /**
   * the determinant
   * @returns a tensor of floats
   */
  det(options?: NameOption): Node;

  /**
   * torch.linalg.svd: U, the singular values from the largest, and V^T, x = U S V^T, with all columns of U and rows
   *     of V^T or as many as there are values; the gradient is that of distinct values over 0
   * @param [options.full_matrices=true] true or false
   * @returns a list of a tensor of floats, a tensor of floats, a tensor of floats
   */
  svd(options?: {full_matrices?: boolean | null} & NamesOption): Node[];

  /**
   * discrete Fourier transform along the axis
   * @param [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  fft(options?: {im?: Operand | null; axis?: Integer | null} & NamesOption): Node[];

  /**
   * its inverse
   * @param [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  ifft(options?: {im?: Operand | null; axis?: Integer | null} & NamesOption): Node[];

  /**
   * the first n / 2 + 1 parts of the transform of real numbers; the others are their conjugates
   * @param [options.axis=-1] whole number
   * @returns a list of a tensor of floats, a tensor of floats
   */
  rfft(options?: {axis?: Integer | null} & NamesOption): Node[];

  /**
   * the real numbers of which rfft gives that; n is even unless given
   * @param im tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param [options.axis=-1] whole number
   * @param [options.n] whole number
   * @returns a tensor of floats
   */
  irfft(im: Operand, options?: {axis?: Integer | null; n?: Integer | null} & NameOption): Node;

  /**
   * the hash of the bytes along the last axis: so many bytes of the sponge of this rate, after the domain's suffix;
   *     SHA3-256 unless given
   * @param [options.rate=136] whole number
   * @param [options.suffix=6] whole number
   * @param [options.size=32] whole number
   * @returns a tensor
   */
  keccak(options?: {rate?: Integer | null; suffix?: Integer | null; size?: Integer | null} & NameOption): Node;

  /**
   * SHA3-224 of the bytes along the last axis
   * @returns a tensor
   */
  sha3224(options?: NameOption): Node;

  /**
   * SHA3-256 of the bytes along the last axis
   * @returns a tensor
   */
  sha3256(options?: NameOption): Node;

  /**
   * so many bytes of SHAKE128 of the bytes along the last axis
   * @param [options.size=16] whole number
   * @returns a tensor
   */
  shake128(options?: {size?: Integer | null} & NameOption): Node;

  /**
   * 16 bytes that tell a tensor from others: SHAKE128 of those of blocks of 4 KiB of each MiB of its bytes, the last
   *     one filled up with zeros, again until one is left
   * @returns a tensor
   */
  hash(options?: NameOption): Node;

  /**
   * torch.gather: along the axis, index in the shape of the result; a negative index counts from the end; an index
   *     out of range reads 0, or is an error with check_indices
   * @param index tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  gather(index: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x[index] along the axis, index of any shape; a negative index counts from the end; an index out of range reads 0,
   *     or is an error with check_indices
   * @param index tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  take(index: Operand, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * rows of a block-quantised matrix [rows, columns], given as the planes of its format (see [quantised
   *     weights](quantised.md)), as float32; rows: the rows of the matrix, if the last group of 16 is filled up
   * @param planes list, each a tensor of any dtype
   * @param format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"
   *     or "mxfp4"
   * @param [options.rows] whole number
   * @returns a tensor of floats
   */
  blockTake(planes: readonly Operand[], format: "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" | "iq4_xs" | "mxfp4", options?: {rows?: Integer | null} & NameOption): Node;

  /**
   * x[i, j, ...] by index tensors for neighbouring axes, broadcast together; an index out of range reads 0, or is an
   *     error with check_indices
   * @param indices list, each a tensor of integers
   * @param [options.axis=0] whole number
   * @returns a tensor
   */
  index(indices: readonly Operand[], options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * x with x[i, j, ...] = value, or += value; of several writes to one place the last stays; an index out of range
   *     writes nothing, or is an error with check_indices
   * @param value tensor of any dtype, brought to one dtype with x
   * @param indices list, each a tensor of integers
   * @param [options.axis=0] whole number
   * @param [options.accumulate=false] true or false
   * @returns a tensor
   */
  indexPut(value: Operand, indices: readonly Operand[], options?: {axis?: Integer | null; accumulate?: boolean | null} & NameOption): Node;

  /**
   * torch.scatter: x with src written where index says along the axis; of several writes to one place the last stays;
   *     an index out of range writes nothing, or is an error with check_indices
   * @param index tensor of integers
   * @param src tensor of any dtype, brought to one dtype with x
   * @param [options.axis=0] whole number
   * @param [options.reduce="none"] "none", "add" or "multiply"
   * @returns a tensor
   */
  scatter(index: Operand, src: Operand, options?: {axis?: Integer | null; reduce?: "none" | "add" | "multiply" | null} & NameOption): Node;

  /**
   * torch.scatter_reduce: what is sent to one place folded, with x itself unless include_self is false
   * @param index tensor of integers
   * @param src tensor of any dtype, brought to one dtype with x
   * @param reduce "sum", "prod", "mean", "amax" or "amin"
   * @param [options.axis=0] whole number
   * @param [options.include_self=true] true or false
   * @returns a tensor
   */
  scatterReduce(index: Operand, src: Operand, reduce: "sum" | "prod" | "mean" | "amax" | "amin", options?: {axis?: Integer | null; include_self?: boolean | null} & NameOption): Node;

  /**
   * the first size elements where the mask holds, in order, then fill; and how many there are in all
   * @param mask tensor of bool (numbers become "not zero")
   * @param size size
   * @param [options.fill=0] number
   * @returns a list of a tensor, a tensor of int64
   */
  maskedSelect(mask: Operand, size: Size, options?: {fill?: number | bigint | null} & NamesOption): Node[];

  /**
   * [size, ndim]: where the first size elements that are not zero are, then fill; and how many there are in all
   * @param size size
   * @param [options.fill=0] whole number
   * @returns a list of a tensor of int64, a tensor of int64
   */
  nonzero(size: Size, options?: {fill?: Integer | null} & NamesOption): Node[];

  /**
   * 1 where the class is x, else 0, along a new last axis; a class out of range is an error with check_indices
   * @param numClasses size
   * @param [options.dtype="int64"] dtype
   * @returns a tensor
   */
  oneHot(numClasses: Size, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * zero above the diagonal
   * @param [options.diagonal=0] whole number
   * @returns a tensor
   */
  tril(options?: {diagonal?: Integer | null} & NameOption): Node;

  /**
   * zero below the diagonal
   * @param [options.diagonal=0] whole number
   * @returns a tensor
   */
  triu(options?: {diagonal?: Integer | null} & NameOption): Node;

  /**
   * the same elements in another shape; one size may be -1
   * @param shape size or list of sizes
   * @returns a tensor
   */
  reshape(shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * axis i of the result is axis axes[i] of x
   * @param axes whole number or list of them
   * @returns a tensor
   */
  permute(axes: number | readonly number[], options?: NameOption): Node;

  /**
   * two axes exchanged
   * @param [options.axis0=-2] whole number
   * @param [options.axis1=-1] whole number
   * @returns a tensor
   */
  transpose(options?: {axis0?: Integer | null; axis1?: Integer | null} & NameOption): Node;

  /**
   * axes of size 1 repeated, new ones in front; -1 keeps a size
   * @param shape size or list of sizes
   * @returns a tensor
   */
  expand(shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * [before, after] for each axis from the first, also as a flat list; negative ones crop; modes: the value, x
   *     mirrored at its ends (which are not repeated), its ends, or x from its other end
   * @param padding list of pairs
   * @param [options.value=0] number
   * @param [options.mode="constant"] "constant", "reflect", "replicate" or "circular"
   * @returns a tensor
   */
  pad(padding: readonly (readonly [Size, Size])[], options?: {value?: number | bigint | null; mode?: "constant" | "reflect" | "replicate" | "circular" | null} & NameOption): Node;

  /**
   * [start, stop] for each axis from the first
   * @param ranges list of pairs
   * @returns a tensor
   */
  shrink(ranges: readonly (readonly [Size, Size])[], options?: NameOption): Node;

  /**
   * x[start:stop:step] on the axes (the first ones, unless given); a negative step goes backwards, to the first
   *     element where stop is left out or below -size
   * @param [options.start] size or list of sizes
   * @param [options.stop] size or list of sizes
   * @param [options.step] whole number or list of them
   * @param [options.axis] whole number or list of them
   * @returns a tensor
   */
  slice(options?: {start?: Size | readonly Size[] | null; stop?: Size | readonly Size[] | null; step?: number | readonly number[] | null; axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * the order along the axes reversed
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  flip(options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * each axis moved on by its shift, what leaves at the end comes in at the start; without axis as if flat
   * @param shift whole number or list of them
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  roll(shift: number | readonly number[], options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * torch.Tensor.repeat: each axis as a whole so many times; further numbers make new axes in front
   * @param repeats size or list of sizes
   * @returns a tensor
   */
  repeat(repeats: Size | readonly Size[], options?: NameOption): Node;

  /**
   * each element of the axis so many times; without axis flat
   * @param repeats size
   * @param [options.axis] whole number
   * @returns a tensor
   */
  repeatInterleave(repeats: Size, options?: {axis?: Integer | null} & NameOption): Node;

  /**
   * torch.Tensor.unfold: windows of the axis, every step elements one, along a new last axis
   * @param axis whole number
   * @param size whole number
   * @param step whole number
   * @returns a tensor
   */
  unfold(axis: Integer, size: Integer, step: Integer, options?: NameOption): Node;

  /**
   * the diagonal of two axes, along a new last axis; offset: so many above it
   * @param [options.offset=0] whole number
   * @param [options.axis0=0] whole number
   * @param [options.axis1=1] whole number
   * @returns a tensor
   */
  diagonal(options?: {offset?: Integer | null; axis0?: Integer | null; axis1?: Integer | null} & NameOption): Node;

  /**
   * the diagonal of a matrix, or the matrix of a diagonal, with zeros elsewhere
   * @param [options.offset=0] whole number
   * @returns a tensor
   */
  diag(options?: {offset?: Integer | null} & NameOption): Node;

  /**
   * without the axes of size 1 (among those given)
   * @param [options.axis] whole number or list of them; null for all
   * @returns a tensor
   */
  squeeze(options?: {axis?: number | readonly number[] | null} & NameOption): Node;

  /**
   * a new axis of size 1
   * @param axis whole number
   * @returns a tensor
   */
  unsqueeze(axis: Integer, options?: NameOption): Node;

  /**
   * the axes from start to end made one
   * @param [options.start_axis=0] whole number
   * @param [options.end_axis=-1] whole number
   * @returns a tensor
   */
  flatten(options?: {start_axis?: Integer | null; end_axis?: Integer | null} & NameOption): Node;

  /**
   * one axis split into several; one size may be -1
   * @param axis whole number
   * @param sizes size or list of sizes
   * @returns a tensor
   */
  unflatten(axis: Integer, sizes: Size | readonly Size[], options?: NameOption): Node;

  /**
   * axes named as in einops: 'b (h w) c -> b c h w'; a name in parentheses is a part of an axis, and all parts of one
   *     but one need a size: '(h=3 w)'; 1 is an axis of size 1, ... stands for all others
   * @param formula string
   * @returns a tensor
   */
  rearrange(formula: string, options?: NameOption): Node;

  /**
   * parts of the axis of these sizes, or as many of one size as there are, of which the last may be shorter
   * @param sizes whole number or list of them
   * @param [options.axis=0] whole number
   * @param options.results how many there are, which the server checks
   * @returns a list, each a tensor
   */
  split(sizes: number | readonly number[], options: {axis?: Integer | null; results: number} & NamesOption): Node[];

  /**
   * the axis in so many parts of one size, of which the last may be shorter, or in fewer where that takes it all
   * @param chunks whole number
   * @param [options.axis=0] whole number
   * @param options.results how many there are, which the server checks
   * @returns a list, each a tensor
   */
  chunk(chunks: Integer, options: {axis?: Integer | null; results: number} & NamesOption): Node[];

  /**
   * the value after the ends of the axes, up to this shape; -1 keeps a size
   * @param shape size or list of sizes
   * @param [options.value=0] number
   * @returns a tensor
   */
  padTo(shape: Size | readonly Size[], options?: {value?: number | bigint | null} & NameOption): Node;

  /**
   * the first elements of each axis, down to this shape; -1 keeps a size
   * @param shape size or list of sizes
   * @returns a tensor
   */
  shrinkTo(shape: Size | readonly Size[], options?: NameOption): Node;

  /**
   * zeros in the shape of x
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  zerosLike(options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * ones in the shape of x
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  onesLike(options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * every element the value, in the shape of x
   * @param value number
   * @param [options.dtype] dtype
   * @returns a tensor
   */
  fullLike(value: number | bigint, options?: {dtype?: DType | null} & NameOption): Node;

  /**
   * uniform between 0 and 1 in the shape of x
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  randLike(options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * normal distribution in the shape of x
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.dtype] dtype
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  randnLike(options?: {key?: Operand | null; dtype?: DType | null; seed?: Integer | null} & NameOption): Node;

  /**
   * 1 with probability p, else 0
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of floats
   */
  bernoulli(options?: {key?: Operand | null; seed?: Integer | null} & NameOption): Node;

  /**
   * [..., num_samples]: indices drawn by weight along the last axis; without replacement each at most once
   * @param [options.key] integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @param [options.num_samples=1] size
   * @param [options.replacement=false] true or false
   * @param [options.seed] whole number; by default the seed of the run
   * @returns a tensor of int64
   */
  multinomial(options?: {key?: Operand | null; num_samples?: Size | null; replacement?: boolean | null; seed?: Integer | null} & NameOption): Node;

  /**
   * Threefry-2x32 of uint64: the low half is the first word
   * @param key integer scalar that fixes what this place of the graph draws; by default every step draws anew
   * @returns a tensor
   */
  threefry(key: Operand, options?: NameOption): Node;

  /**
   * torch.optim.SGD: the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param lr number, or float32 scalar tensor
   * @param [options.momentum=0] number
   * @param [options.dampening=0] number
   * @param [options.weight_decay=0] number
   * @param [options.nesterov=false] true or false
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  sgd(params: readonly Node[], lr: number | Node, options?: {momentum?: number | null; dampening?: number | null; weight_decay?: number | null; nesterov?: boolean | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.Adam: the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.betas=[0.9, 0.999]] list of numbers
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adam(params: readonly Node[], options?: {lr?: number | Node | null; betas?: readonly number[] | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.AdamW: the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.betas=[0.9, 0.999]] list of numbers
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0.01] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adamw(params: readonly Node[], options?: {lr?: number | Node | null; betas?: readonly number[] | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.Adagrad: the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.01] number, or float32 scalar tensor
   * @param [options.lr_decay=0] number
   * @param [options.weight_decay=0] number
   * @param [options.eps=1e-10] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  adagrad(params: readonly Node[], options?: {lr?: number | Node | null; lr_decay?: number | null; weight_decay?: number | null; eps?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * torch.optim.RMSprop: the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.01] number, or float32 scalar tensor
   * @param [options.alpha=0.99] number
   * @param [options.eps=1e-08] number
   * @param [options.weight_decay=0] number
   * @param [options.momentum=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  rmsprop(params: readonly Node[], options?: {lr?: number | Node | null; alpha?: number | null; eps?: number | null; weight_decay?: number | null; momentum?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * LAMB (You et al., arXiv:1904.00962): the new parameters
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.b1=0.9] number
   * @param [options.b2=0.999] number
   * @param [options.eps=1e-06] number
   * @param [options.weight_decay=0] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  lamb(params: readonly Node[], options?: {lr?: number | Node | null; b1?: number | null; b2?: number | null; eps?: number | null; weight_decay?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * LARS (You et al., arXiv:1708.03888): the new parameters; classic: the rate goes into the momentum
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.001] number, or float32 scalar tensor
   * @param [options.momentum=0.9] number
   * @param [options.weight_decay=0.0001] number
   * @param [options.nesterov=false] true or false
   * @param [options.classic=true] true or false
   * @param [options.tcoef=0.001] number
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  lars(params: readonly Node[], options?: {lr?: number | Node | null; momentum?: number | null; weight_decay?: number | null; nesterov?: boolean | null; classic?: boolean | null; tcoef?: number | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * Muon (Jordan et al., 2024): momentum made orthogonal by Newton-Schulz steps, for parameters [n, ...] seen as
   *     matrices
   * @param params list, each an input, state or other tensor of floats
   * @param [options.lr=0.02] number, or float32 scalar tensor
   * @param [options.momentum=0.95] number
   * @param [options.weight_decay=0.1] number
   * @param [options.steps=5] whole number
   * @param [options.nesterov=true] true or false
   * @param [options.clip_norm] number
   * @param [options.clip_value] number
   * @returns a list, each a tensor
   */
  muon(params: readonly Node[], options?: {lr?: number | Node | null; momentum?: number | null; weight_decay?: number | null; steps?: Integer | null; nesterov?: boolean | null; clip_norm?: number | null; clip_value?: number | null} & NamesOption): Node[];

  /**
   * the nearest orthogonal matrix, roughly: x = a x + b (x x^T) x + c (x x^T)^2 x so many times, from x of norm 1
   * @param [options.steps=5] whole number
   * @param [options.params=[3.4445, -4.775, 2.0315]] list of numbers
   * @param [options.eps=1e-07] number
   * @returns a tensor of floats
   */
  newtonSchulz(options?: {steps?: Integer | null; params?: readonly number[] | null; eps?: number | null} & NameOption): Node;

  /**
   * lr times gamma every step_size steps
   * @param lr number
   * @param stepSize whole number
   * @param [options.gamma=0.1] number
   * @returns a tensor of floats
   */
  stepLr(lr: number, stepSize: Integer, options?: {gamma?: number | null} & NameOption): Node;

  /**
   * from lr to end in total steps
   * @param lr number
   * @param total whole number
   * @param [options.power=1] number
   * @param [options.end=0] number
   * @returns a tensor of floats
   */
  polynomialLr(lr: number, total: Integer, options?: {power?: number | null; end?: number | null} & NameOption): Node;

  /**
   * from lr to end in total steps, along half a cosine
   * @param lr number
   * @param total whole number
   * @param [options.end=0] number
   * @returns a tensor of floats
   */
  cosineLr(lr: number, total: Integer, options?: {end?: number | null} & NameOption): Node;

  /**
   * up to lr in warmup steps
   * @param lr number
   * @param warmup whole number
   * @returns a tensor of floats
   */
  warmupLr(lr: number, warmup: Integer, options?: NameOption): Node;

  /**
   * torch's OneCycleLR: from lr / div up to lr in pct_start of the steps, then down to lr / div / final_div
   * @param lr number
   * @param total whole number
   * @param [options.pct_start=0.3] number
   * @param [options.div=25] number
   * @param [options.final_div=10000] number
   * @returns a tensor of floats
   */
  oneCycleLr(lr: number, total: Integer, options?: {pct_start?: number | null; div?: number | null; final_div?: number | null} & NameOption): Node;
}
