// SPDX-License-Identifier: MIT
// Made by tools/clients/javascript.py from proto/ops.json; change those.
//
// A method for each op of the wire: of a graph, and of a Node if the first operand of the op is a tensor. A number can stand for a tensor; a whole
// number gets the dtype of the other operand. A size is a whole number, the name of a dimension, or a formula of names such as "2 * n + 1". `name` is
// the id of the node, or the list of the ids of an op with several results. The server checks shapes and dtypes; the BeamlineError of a graph that
// cannot be has status 422, a reason, and the id of the node.

// The defaults of the server. An attribute that equals its default is not sent.
export const DEFAULTS = {
  hardtanh: {min: -1, max: 1},
  hardsigmoid: {alpha: 0.16666666666666666, beta: 0.5},
  leaky_relu: {negative_slope: 0.01},
  elu: {alpha: 1},
  celu: {alpha: 1},
  selu: {alpha: 1.6732632423543772, gamma: 1.0507009873554805},
  gelu: {approximate: "none"},
  softplus: {beta: 1, threshold: 20},
  isinf: {detect_positive: true, detect_negative: true},
  isclose: {rtol: 1e-05, atol: 1e-08, equal_nan: false},
  allclose: {rtol: 1e-05, atol: 1e-08, equal_nan: false},
  sum: {keepdim: false},
  prod: {keepdim: false},
  mean: {keepdim: false},
  max: {keepdim: false},
  min: {keepdim: false},
  argmax: {keepdim: false},
  argmin: {keepdim: false},
  all: {keepdim: false},
  any: {keepdim: false},
  count_nonzero: {keepdim: false},
  var: {correction: 1, keepdim: false},
  std: {correction: 1, keepdim: false},
  var_mean: {correction: 1, keepdim: false},
  std_mean: {correction: 1, keepdim: false},
  softmax: {axis: -1},
  log_softmax: {axis: -1},
  softmin: {axis: -1},
  normalize: {p: 2, axis: 1, eps: 1e-12},
  logsumexp: {keepdim: false},
  cumsum: {axis: 0},
  cumprod: {axis: 0},
  logcumsumexp: {axis: 0},
  cummax: {axis: 0},
  cummin: {axis: 0},
  sort: {axis: -1, descending: false},
  argsort: {axis: -1, descending: false},
  topk: {axis: -1, largest: true},
  cross_entropy: {reduction: "mean", label_smoothing: 0},
  nll_loss: {reduction: "mean"},
  sparse_categorical_crossentropy: {reduction: "mean", ignore_index: -1, label_smoothing: 0},
  mse_loss: {reduction: "mean"},
  l1_loss: {reduction: "mean"},
  smooth_l1_loss: {beta: 1, reduction: "mean"},
  huber_loss: {delta: 1, reduction: "mean"},
  binary_cross_entropy: {reduction: "mean"},
  binary_cross_entropy_with_logits: {reduction: "mean"},
  kl_div: {reduction: "mean", log_target: false},
  layer_norm: {axis: -1, eps: 1e-05},
  rms_norm: {axis: -1, eps: 1e-06},
  batch_norm: {axis: 1, eps: 1e-05},
  group_norm: {eps: 1e-05},
  instance_norm: {eps: 1e-05},
  dropout: {p: 0.5},
  block_linear: {activations: "float32"},
  attention: {causal: false, grouped: false},
  conv: {stride: 1, padding: 0, dilation: 1, groups: 1, form: "auto"},
  conv2d: {stride: 1, padding: 0, dilation: 1, groups: 1, form: "auto"},
  conv_transpose: {stride: 1, padding: 0, output_padding: 0, dilation: 1, groups: 1},
  max_pool: {padding: 0, dilation: 1, ceil_mode: false, dims: 2},
  avg_pool: {padding: 0, ceil_mode: false, count_include_pad: true, dims: 2},
  max_pool2d: {padding: 0, dilation: 1, ceil_mode: false},
  avg_pool2d: {padding: 0, count_include_pad: true, ceil_mode: false},
  max_pool_indices: {padding: 0, dilation: 1, ceil_mode: false, dims: 2},
  max_unpool: {padding: 0, dims: 2},
  interpolate: {mode: "nearest", align_corners: false},
  triangular_solve: {upper: false},
  svd: {full_matrices: true},
  fft: {axis: -1},
  ifft: {axis: -1},
  rfft: {axis: -1},
  irfft: {axis: -1},
  keccak: {rate: 136, suffix: 6, size: 32},
  shake_128: {size: 16},
  gather: {axis: 0},
  take: {axis: 0},
  index: {axis: 0},
  index_put: {axis: 0, accumulate: false},
  scatter: {axis: 0, reduce: "none"},
  scatter_reduce: {axis: 0, include_self: true},
  masked_select: {fill: 0},
  nonzero: {fill: 0},
  one_hot: {dtype: "int64"},
  tril: {diagonal: 0},
  triu: {diagonal: 0},
  transpose: {axis0: -2, axis1: -1},
  pad: {value: 0, mode: "constant"},
  diagonal: {offset: 0, axis0: 0, axis1: 1},
  diag: {offset: 0},
  flatten: {start_axis: 0, end_axis: -1},
  cat: {axis: 0},
  stack: {axis: 0},
  split: {axis: 0},
  chunk: {axis: 0},
  meshgrid: {indexing: "ij"},
  pad_to: {value: 0},
  arange: {start: 0, step: 1},
  linspace: {dtype: "float32"},
  full: {dtype: "float32"},
  zeros: {dtype: "float32"},
  ones: {dtype: "float32"},
  eye: {dtype: "float32"},
  uniform: {low: 0, high: 1, dtype: "float32"},
  normal: {mean: 0, std: 1, dtype: "float32"},
  randint: {low: 0, dtype: "int64"},
  randperm: {dtype: "int64"},
  step: {dtype: "int64"},
  batch_index: {shuffle: true},
  kaiming_uniform: {a: 0, mode: "fan_in", dtype: "float32"},
  kaiming_normal: {a: 0, mode: "fan_in", dtype: "float32"},
  glorot_uniform: {dtype: "float32"},
  scaled_uniform: {dtype: "float32"},
  multinomial: {num_samples: 1, replacement: false},
  scan: {carries: 1, sequences: 0, reverse: false},
  grad: {cotangent: false},
  sgd: {momentum: 0, dampening: 0, weight_decay: 0, nesterov: false},
  adam: {lr: 0.001, betas: [0.9, 0.999], eps: 1e-08, weight_decay: 0},
  adamw: {lr: 0.001, betas: [0.9, 0.999], eps: 1e-08, weight_decay: 0.01},
  adagrad: {lr: 0.01, lr_decay: 0, weight_decay: 0, eps: 1e-10},
  rmsprop: {lr: 0.01, alpha: 0.99, eps: 1e-08, weight_decay: 0, momentum: 0},
  lamb: {lr: 0.001, b1: 0.9, b2: 0.999, eps: 1e-06, weight_decay: 0},
  lars: {lr: 0.001, momentum: 0.9, weight_decay: 0.0001, nesterov: false, classic: true, tcoef: 0.001},
  muon: {lr: 0.02, momentum: 0.95, weight_decay: 0.1, steps: 5, nesterov: true},
  newton_schulz: {steps: 5, params: [3.4445, -4.775, 2.0315], eps: 1e-07},
  step_lr: {gamma: 0.1},
  polynomial_lr: {power: 1, end: 0},
  cosine_lr: {end: 0},
  one_cycle_lr: {pct_start: 0.3, div: 25, final_div: 10000},
};

// Ops that return a list of results.
export const LISTED = new Set([
  "var_mean", "std_mean", "cummax", "cummin", "sort", "topk", "lstm_cell", "max_pool_indices", "qr", "svd", "fft",
  "ifft", "rfft", "masked_select", "nonzero", "split", "chunk", "meshgrid", "scan", "cond", "grad", "sgd", "adam",
  "adamw", "adagrad", "rmsprop", "lamb", "lars", "muon", "clip_grad_norm",
]);

/** Ops as methods of a graph. */
export class GraphOps {
  /**
   * x + y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  add(x, y, options) {
    return this.call("add", [x, y], {}, options);
  }

  /**
   * x - y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  sub(x, y, options) {
    return this.call("sub", [x, y], {}, options);
  }

  /**
   * x * y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  mul(x, y, options) {
    return this.call("mul", [x, y], {}, options);
  }

  /**
   * x / y; integers give float32
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns {Node} a tensor of floats
   */
  div(x, y, options) {
    return this.call("div", [x, y], {}, options);
  }

  /**
   * floor of x / y; an integer by zero gives 0
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  floorDiv(x, y, options) {
    return this.call("floor_div", [x, y], {}, options);
  }

  /**
   * x / y towards zero; an integer by zero gives 0
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  truncDiv(x, y, options) {
    return this.call("trunc_div", [x, y], {}, options);
  }

  /**
   * x - y * floor(x / y), with the sign of y; an integer by zero gives 0
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  mod(x, y, options) {
    return this.call("mod", [x, y], {}, options);
  }

  /**
   * x - y * trunc(x / y), with the sign of x; an integer by zero gives x
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  fmod(x, y, options) {
    return this.call("fmod", [x, y], {}, options);
  }

  /**
   * -x
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  neg(x, options) {
    return this.call("neg", [x], {}, options);
  }

  /**
   * |x|
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  abs(x, options) {
    return this.call("abs", [x], {}, options);
  }

  /**
   * -1, 0 or 1
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  sign(x, options) {
    return this.call("sign", [x], {}, options);
  }

  /**
   * x * x
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  square(x, options) {
    return this.call("square", [x], {}, options);
  }

  /**
   * square root
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  sqrt(x, options) {
    return this.call("sqrt", [x], {}, options);
  }

  /**
   * 1 / square root
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  rsqrt(x, options) {
    return this.call("rsqrt", [x], {}, options);
  }

  /**
   * 1 / x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  reciprocal(x, options) {
    return this.call("reciprocal", [x], {}, options);
  }

  /**
   * e to the x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  exp(x, options) {
    return this.call("exp", [x], {}, options);
  }

  /**
   * 2 to the x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  exp2(x, options) {
    return this.call("exp2", [x], {}, options);
  }

  /**
   * exp(x) - 1, also where that is small
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  expm1(x, options) {
    return this.call("expm1", [x], {}, options);
  }

  /**
   * natural logarithm
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  log(x, options) {
    return this.call("log", [x], {}, options);
  }

  /**
   * logarithm to base 2
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  log2(x, options) {
    return this.call("log2", [x], {}, options);
  }

  /**
   * logarithm to base 10
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  log10(x, options) {
    return this.call("log10", [x], {}, options);
  }

  /**
   * log(1 + x), also where x is small
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  log1p(x, options) {
    return this.call("log1p", [x], {}, options);
  }

  /**
   * sine of radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  sin(x, options) {
    return this.call("sin", [x], {}, options);
  }

  /**
   * cosine of radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  cos(x, options) {
    return this.call("cos", [x], {}, options);
  }

  /**
   * tangent of radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  tan(x, options) {
    return this.call("tan", [x], {}, options);
  }

  /**
   * inverse sine, in radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  asin(x, options) {
    return this.call("asin", [x], {}, options);
  }

  /**
   * inverse cosine, in radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  acos(x, options) {
    return this.call("acos", [x], {}, options);
  }

  /**
   * inverse tangent, in radians
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  atan(x, options) {
    return this.call("atan", [x], {}, options);
  }

  /**
   * the angle of the point (x, y), in radians
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @returns {Node} a tensor of floats
   */
  atan2(y, x, options) {
    return this.call("atan2", [y, x], {}, options);
  }

  /**
   * hyperbolic sine
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  sinh(x, options) {
    return this.call("sinh", [x], {}, options);
  }

  /**
   * hyperbolic cosine
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  cosh(x, options) {
    return this.call("cosh", [x], {}, options);
  }

  /**
   * inverse hyperbolic sine
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  asinh(x, options) {
    return this.call("asinh", [x], {}, options);
  }

  /**
   * inverse hyperbolic cosine
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  acosh(x, options) {
    return this.call("acosh", [x], {}, options);
  }

  /**
   * inverse hyperbolic tangent
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  atanh(x, options) {
    return this.call("atanh", [x], {}, options);
  }

  /**
   * the next whole number below
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  floor(x, options) {
    return this.call("floor", [x], {}, options);
  }

  /**
   * the next whole number above
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  ceil(x, options) {
    return this.call("ceil", [x], {}, options);
  }

  /**
   * towards zero
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  trunc(x, options) {
    return this.call("trunc", [x], {}, options);
  }

  /**
   * the nearest whole number; a half goes to the even one
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  round(x, options) {
    return this.call("round", [x], {}, options);
  }

  /**
   * the larger; NaN if either is
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  maximum(x, y, options) {
    return this.call("maximum", [x, y], {}, options);
  }

  /**
   * the smaller; NaN if either is
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  minimum(x, y, options) {
    return this.call("minimum", [x, y], {}, options);
  }

  /**
   * x to the y; an integer to a negative power gives 0, but 1 and -1 stay
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  pow(x, y, options) {
    return this.call("pow", [x, y], {}, options);
  }

  /**
   * |x| with the sign of y, also where that is a zero or NaN
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns {Node} a tensor of floats
   */
  copysign(x, y, options) {
    return this.call("copysign", [x, y], {}, options);
  }

  /**
   * log(exp(x) + exp(y))
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @returns {Node} a tensor of floats
   */
  logaddexp(x, y, options) {
    return this.call("logaddexp", [x, y], {}, options);
  }

  /**
   * x + (y - x) * weight
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y, weight
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x, weight
   * @param {Operand} weight tensor of floats (integers and bool become float32), brought to one dtype with x, y
   * @returns {Node} a tensor of floats
   */
  lerp(x, y, weight, options) {
    return this.call("lerp", [x, y, weight], {}, options);
  }

  /**
   * x, but not below min nor above max
   * @param {Operand} x tensor of any dtype
   * @param {number | bigint} [options.min] number
   * @param {number | bigint} [options.max] number
   * @returns {Node} a tensor
   */
  clamp(x, options) {
    return this.call("clamp", [x], {}, options);
  }

  /**
   * max(x, 0)
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  relu(x, options) {
    return this.call("relu", [x], {}, options);
  }

  /**
   * x held between 0 and 6
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  relu6(x, options) {
    return this.call("relu6", [x], {}, options);
  }

  /**
   * x held between min and max; no gradient there
   * @param {Operand} x tensor of any dtype
   * @param {number | bigint} [options.min=-1] number
   * @param {number | bigint} [options.max=1] number
   * @returns {Node} a tensor
   */
  hardtanh(x, options) {
    return this.call("hardtanh", [x], {}, options);
  }

  /**
   * alpha * x + beta held between 0 and 1
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.alpha=0.16666666666666666] number
   * @param {number} [options.beta=0.5] number
   * @returns {Node} a tensor of floats
   */
  hardsigmoid(x, options) {
    return this.call("hardsigmoid", [x], {}, options);
  }

  /**
   * x * hardsigmoid(x)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  hardswish(x, options) {
    return this.call("hardswish", [x], {}, options);
  }

  /**
   * x where positive, else negative_slope * x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.negative_slope=0.01] number
   * @returns {Node} a tensor of floats
   */
  leakyRelu(x, options) {
    return this.call("leaky_relu", [x], {}, options);
  }

  /**
   * x where positive, else alpha * (exp(x) - 1)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.alpha=1] number
   * @returns {Node} a tensor of floats
   */
  elu(x, options) {
    return this.call("elu", [x], {}, options);
  }

  /**
   * x where positive, else alpha * (exp(x / alpha) - 1)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.alpha=1] number
   * @returns {Node} a tensor of floats
   */
  celu(x, options) {
    return this.call("celu", [x], {}, options);
  }

  /**
   * gamma * elu(x), which keeps mean and variance
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.alpha=1.6732632423543772] number
   * @param {number} [options.gamma=1.0507009873554805] number
   * @returns {Node} a tensor of floats
   */
  selu(x, options) {
    return this.call("selu", [x], {}, options);
  }

  /**
   * 1 / (1 + exp(-x))
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  sigmoid(x, options) {
    return this.call("sigmoid", [x], {}, options);
  }

  /**
   * hyperbolic tangent
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  tanh(x, options) {
    return this.call("tanh", [x], {}, options);
  }

  /**
   * error function
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  erf(x, options) {
    return this.call("erf", [x], {}, options);
  }

  /**
   * x times the normal distribution function of x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {"none" | "tanh"} [options.approximate="none"] "none" or "tanh"
   * @returns {Node} a tensor of floats
   */
  gelu(x, options) {
    return this.call("gelu", [x], {}, options);
  }

  /**
   * x * sigmoid(1.702 * x)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  quickGelu(x, options) {
    return this.call("quick_gelu", [x], {}, options);
  }

  /**
   * x * sigmoid(x)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  silu(x, options) {
    return this.call("silu", [x], {}, options);
  }

  /**
   * x * tanh(softplus(x))
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  mish(x, options) {
    return this.call("mish", [x], {}, options);
  }

  /**
   * x / (1 + |x|)
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  softsign(x, options) {
    return this.call("softsign", [x], {}, options);
  }

  /**
   * log(sigmoid(x)), also where that is far below 0
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  logsigmoid(x, options) {
    return this.call("logsigmoid", [x], {}, options);
  }

  /**
   * log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.beta=1] number
   * @param {number} [options.threshold=20] number
   * @returns {Node} a tensor of floats
   */
  softplus(x, options) {
    return this.call("softplus", [x], {}, options);
  }

  /**
   * x == y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  equal(x, y, options) {
    return this.call("equal", [x, y], {}, options);
  }

  /**
   * x != y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  notEqual(x, y, options) {
    return this.call("not_equal", [x, y], {}, options);
  }

  /**
   * x < y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  less(x, y, options) {
    return this.call("less", [x, y], {}, options);
  }

  /**
   * x <= y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  lessEqual(x, y, options) {
    return this.call("less_equal", [x, y], {}, options);
  }

  /**
   * x > y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  greater(x, y, options) {
    return this.call("greater", [x, y], {}, options);
  }

  /**
   * x >= y
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor of bool
   */
  greaterEqual(x, y, options) {
    return this.call("greater_equal", [x, y], {}, options);
  }

  /**
   * is it NaN
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor of bool
   */
  isnan(x, options) {
    return this.call("isnan", [x], {}, options);
  }

  /**
   * is it neither NaN nor infinite
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor of bool
   */
  isfinite(x, options) {
    return this.call("isfinite", [x], {}, options);
  }

  /**
   * is it infinite
   * @param {Operand} x tensor of any dtype
   * @param {boolean} [options.detect_positive=true] true or false
   * @param {boolean} [options.detect_negative=true] true or false
   * @returns {Node} a tensor of bool
   */
  isinf(x, options) {
    return this.call("isinf", [x], {}, options);
  }

  /**
   * |x - y| <= atol + rtol * |y|
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {number} [options.rtol=1e-05] number
   * @param {number} [options.atol=1e-08] number
   * @param {boolean} [options.equal_nan=false] true or false
   * @returns {Node} a tensor of bool
   */
  isclose(x, y, options) {
    return this.call("isclose", [x, y], {}, options);
  }

  /**
   * are all |x - y| <= atol + rtol * |y|
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with y
   * @param {Operand} y tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {number} [options.rtol=1e-05] number
   * @param {number} [options.atol=1e-08] number
   * @param {boolean} [options.equal_nan=false] true or false
   * @returns {Node} a tensor of bool
   */
  allclose(x, y, options) {
    return this.call("allclose", [x, y], {}, options);
  }

  /**
   * both are not zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {Operand} y tensor of bool (numbers become "not zero")
   * @returns {Node} a tensor of bool
   */
  logicalAnd(x, y, options) {
    return this.call("logical_and", [x, y], {}, options);
  }

  /**
   * one or both are not zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {Operand} y tensor of bool (numbers become "not zero")
   * @returns {Node} a tensor of bool
   */
  logicalOr(x, y, options) {
    return this.call("logical_or", [x, y], {}, options);
  }

  /**
   * one of them is not zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {Operand} y tensor of bool (numbers become "not zero")
   * @returns {Node} a tensor of bool
   */
  logicalXor(x, y, options) {
    return this.call("logical_xor", [x, y], {}, options);
  }

  /**
   * is it zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @returns {Node} a tensor of bool
   */
  logicalNot(x, options) {
    return this.call("logical_not", [x], {}, options);
  }

  /**
   * bits that both have
   * @param {Operand} x tensor of integers or bool, brought to one dtype with y
   * @param {Operand} y tensor of integers or bool, brought to one dtype with x
   * @returns {Node} a tensor of integers or bool
   */
  bitwiseAnd(x, y, options) {
    return this.call("bitwise_and", [x, y], {}, options);
  }

  /**
   * bits that one or both have
   * @param {Operand} x tensor of integers or bool, brought to one dtype with y
   * @param {Operand} y tensor of integers or bool, brought to one dtype with x
   * @returns {Node} a tensor of integers or bool
   */
  bitwiseOr(x, y, options) {
    return this.call("bitwise_or", [x, y], {}, options);
  }

  /**
   * bits that one of them has
   * @param {Operand} x tensor of integers or bool, brought to one dtype with y
   * @param {Operand} y tensor of integers or bool, brought to one dtype with x
   * @returns {Node} a tensor of integers or bool
   */
  bitwiseXor(x, y, options) {
    return this.call("bitwise_xor", [x, y], {}, options);
  }

  /**
   * every bit turned
   * @param {Operand} x tensor of integers or bool
   * @returns {Node} a tensor of integers or bool
   */
  bitwiseNot(x, options) {
    return this.call("bitwise_not", [x], {}, options);
  }

  /**
   * x * 2^y modulo the width; 0 from the width on
   * @param {Operand} x tensor of integers, brought to one dtype with y
   * @param {Operand} y tensor of integers, brought to one dtype with x
   * @returns {Node} a tensor of integers
   */
  leftShift(x, y, options) {
    return this.call("left_shift", [x, y], {}, options);
  }

  /**
   * floor of x / 2^y
   * @param {Operand} x tensor of integers, brought to one dtype with y
   * @param {Operand} y tensor of integers, brought to one dtype with x
   * @returns {Node} a tensor of integers
   */
  rightShift(x, y, options) {
    return this.call("right_shift", [x, y], {}, options);
  }

  /**
   * x where the condition holds, else y
   * @param {Operand} condition tensor of bool (numbers become "not zero")
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  where(condition, x, y, options) {
    return this.call("where", [condition, x, y], {}, options);
  }

  /**
   * the value where the mask holds, else x
   * @param {Operand} x tensor of any dtype, brought to one dtype with value
   * @param {Operand} mask tensor of bool (numbers become "not zero")
   * @param {Operand} value tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  maskedFill(x, mask, value, options) {
    return this.call("masked_fill", [x, mask, value], {}, options);
  }

  /**
   * conversion by value; float to integer truncates and saturates
   * @param {Operand} x tensor of any dtype
   * @param {DType} dtype dtype
   * @returns {Node} a tensor
   */
  cast(x, dtype, options) {
    return this.call("cast", [x], {dtype}, options);
  }

  /**
   * the same bits as another dtype; one of another size makes the last axis longer or shorter, the lowest bits first
   * @param {Operand} x tensor of any dtype
   * @param {DType} dtype dtype
   * @returns {Node} a tensor
   */
  bitcast(x, dtype, options) {
    return this.call("bitcast", [x], {dtype}, options);
  }

  /**
   * x, through which no gradient flows
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  detach(x, options) {
    return this.call("detach", [x], {}, options);
  }

  /**
   * x, written to a buffer of its own
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  contiguous(x, options) {
    return this.call("contiguous", [x], {}, options);
  }

  /**
   * x, whose gradient is written to a buffer of its own
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  contiguousBackward(x, options) {
    return this.call("contiguous_backward", [x], {}, options);
  }

  /**
   * sum, in the dtype; without, bool and integers give 64 bits
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  sum(x, options) {
    return this.call("sum", [x], {}, options);
  }

  /**
   * product, in the dtype; without, bool and integers give 64 bits
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  prod(x, options) {
    return this.call("prod", [x], {}, options);
  }

  /**
   * arithmetic mean
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of floats
   */
  mean(x, options) {
    return this.call("mean", [x], {}, options);
  }

  /**
   * the largest; its gradient is shared between equals
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor
   */
  max(x, options) {
    return this.call("max", [x], {}, options);
  }

  /**
   * the smallest; its gradient is shared between equals
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor
   */
  min(x, options) {
    return this.call("min", [x], {}, options);
  }

  /**
   * where the largest is, the first of equals; without axis in the flattened tensor
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of int64
   */
  argmax(x, options) {
    return this.call("argmax", [x], {}, options);
  }

  /**
   * where the smallest is, the first of equals; without axis in the flattened tensor
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of int64
   */
  argmin(x, options) {
    return this.call("argmin", [x], {}, options);
  }

  /**
   * none is zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of bool
   */
  all(x, options) {
    return this.call("all", [x], {}, options);
  }

  /**
   * some is not zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of bool
   */
  any(x, options) {
    return this.call("any", [x], {}, options);
  }

  /**
   * how many are not zero
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of int64
   */
  countNonzero(x, options) {
    return this.call("count_nonzero", [x], {}, options);
  }

  /**
   * variance, divided by the count less the correction
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {Integer} [options.correction=1] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of floats
   */
  var(x, options) {
    return this.call("var", [x], {}, options);
  }

  /**
   * square root of var; the gradient is 0 where var is 0
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {Integer} [options.correction=1] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of floats
   */
  std(x, options) {
    return this.call("std", [x], {}, options);
  }

  /**
   * var and mean
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {Integer} [options.correction=1] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  varMean(x, options) {
    return this.call("var_mean", [x], {}, options, {results: 2});
  }

  /**
   * std and mean
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {Integer} [options.correction=1] whole number
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  stdMean(x, options) {
    return this.call("std_mean", [x], {}, options, {results: 2});
  }

  /**
   * exp(x) divided by its sum
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node} a tensor of floats
   */
  softmax(x, options) {
    return this.call("softmax", [x], {}, options);
  }

  /**
   * logarithm of softmax
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node} a tensor of floats
   */
  logSoftmax(x, options) {
    return this.call("log_softmax", [x], {}, options);
  }

  /**
   * softmax of -x
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node} a tensor of floats
   */
  softmin(x, options) {
    return this.call("softmin", [x], {}, options);
  }

  /**
   * x divided by its p-norm over the axes, which counts as eps at least
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number} [options.p=2] number
   * @param {number | readonly number[]} [options.axis=1] whole number or list of them
   * @param {number} [options.eps=1e-12] number
   * @returns {Node} a tensor of floats
   */
  normalize(x, options) {
    return this.call("normalize", [x], {}, options);
  }

  /**
   * log(sum(exp(x)))
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @param {boolean} [options.keepdim=false] true or false
   * @returns {Node} a tensor of floats
   */
  logsumexp(x, options) {
    return this.call("logsumexp", [x], {}, options);
  }

  /**
   * the sum of each element and all before it; bool and integers give 64 bits
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  cumsum(x, options) {
    return this.call("cumsum", [x], {}, options);
  }

  /**
   * the product of each element and all before it; bool and integers give 64 bits
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  cumprod(x, options) {
    return this.call("cumprod", [x], {}, options);
  }

  /**
   * log(cumsum(exp(x)))
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor of floats
   */
  logcumsumexp(x, options) {
    return this.call("logcumsumexp", [x], {}, options);
  }

  /**
   * the largest of each element and all before it, and where the latest such one is
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  cummax(x, options) {
    return this.call("cummax", [x], {}, options, {results: 2});
  }

  /**
   * the smallest of each element and all before it, and where the latest such one is
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  cummin(x, options) {
    return this.call("cummin", [x], {}, options, {results: 2});
  }

  /**
   * in order along the axis, and where each element was; equals keep their order, NaN is the largest
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=-1] whole number
   * @param {boolean} [options.descending=false] true or false
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  sort(x, options) {
    return this.call("sort", [x], {}, options, {results: 2});
  }

  /**
   * where the elements of the sorted axis are
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis=-1] whole number
   * @param {boolean} [options.descending=false] true or false
   * @returns {Node} a tensor of int64
   */
  argsort(x, options) {
    return this.call("argsort", [x], {}, options);
  }

  /**
   * the k largest (or smallest) along the axis, in order, and where they are
   * @param {Operand} x tensor of any dtype
   * @param {Size} k size
   * @param {Integer} [options.axis=-1] whole number
   * @param {boolean} [options.largest=true] true or false
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  topk(x, k, options) {
    return this.call("topk", [x], {k}, options, {results: 2});
  }

  /**
   * of logits [N, C, ...] (or [C]) and class indices [N, ...], or probabilities in the shape of x; weight [C] weighs
   *     the classes; an index that is no class counts as 0, or, unless it is ignore_index, is an error with
   *     check_indices
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param {Operand} target tensor of any dtype
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @param {Integer} [options.ignore_index] whole number
   * @param {number} [options.label_smoothing=0] number
   * @returns {Node} a tensor of floats
   */
  crossEntropy(x, target, options) {
    return this.call("cross_entropy", [x, target], {}, options, {optional: ["weight"]});
  }

  /**
   * of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]; weight [C] weighs the classes
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param {Operand} target tensor of integers
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @param {Integer} [options.ignore_index] whole number
   * @returns {Node} a tensor of floats
   */
  nllLoss(x, target, options) {
    return this.call("nll_loss", [x, target], {}, options, {optional: ["weight"]});
  }

  /**
   * cross_entropy of logits [..., C] and class indices [...]
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Operand} target tensor of integers
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @param {Integer} [options.ignore_index=-1] whole number
   * @param {number} [options.label_smoothing=0] number
   * @returns {Node} a tensor of floats
   */
  sparseCategoricalCrossentropy(x, target, options) {
    return this.call("sparse_categorical_crossentropy", [x, target], {}, options);
  }

  /**
   * squared difference
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  mseLoss(x, target, options) {
    return this.call("mse_loss", [x, target], {}, options);
  }

  /**
   * |x - target|
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  l1Loss(x, target, options) {
    return this.call("l1_loss", [x, target], {}, options);
  }

  /**
   * squared difference / (2 * beta) below beta, |difference| - beta / 2 above
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {number} [options.beta=1] number
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  smoothL1Loss(x, target, options) {
    return this.call("smooth_l1_loss", [x, target], {}, options);
  }

  /**
   * squared difference / 2 below delta, a straight line above
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {number} [options.delta=1] number
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  huberLoss(x, target, options) {
    return this.call("huber_loss", [x, target], {}, options);
  }

  /**
   * of probabilities; a logarithm counts as -100 at least
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  binaryCrossEntropy(x, target, options) {
    return this.call("binary_cross_entropy", [x, target], {}, options);
  }

  /**
   * of logits; pos_weight weighs the positive class
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target,
   *     pos_weight
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     pos_weight
   * @param {Operand} [options.pos_weight] tensor of floats (integers and bool become float32), brought to one dtype
   *     with x, target
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @returns {Node} a tensor of floats
   */
  binaryCrossEntropyWithLogits(x, target, options) {
    return this.call("binary_cross_entropy_with_logits", [x, target], {}, options, {optional: ["pos_weight"]});
  }

  /**
   * of log-probabilities x and probabilities (or their logarithms) target
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with target
   * @param {Operand} target tensor of floats (integers and bool become float32), brought to one dtype with x
   * @param {"mean" | "sum" | "none"} [options.reduction="mean"] "mean", "sum" or "none"
   * @param {boolean} [options.log_target=false] true or false
   * @returns {Node} a tensor of floats
   */
  klDiv(x, target, options) {
    return this.call("kl_div", [x, target], {}, options);
  }

  /**
   * (x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number | readonly number[]} [options.axis=-1] whole number or list of them
   * @param {number} [options.eps=1e-05] number
   * @returns {Node} a tensor of floats
   */
  layerNorm(x, options) {
    return this.call("layer_norm", [x], {}, options, {optional: ["weight", "bias"]});
  }

  /**
   * x / sqrt(mean(x^2) + eps) over the axes, times weight
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x
   * @param {number | readonly number[]} [options.axis=-1] whole number or list of them
   * @param {number} [options.eps=1e-06] number
   * @returns {Node} a tensor of floats
   */
  rmsNorm(x, options) {
    return this.call("rms_norm", [x], {}, options, {optional: ["weight"]});
  }

  /**
   * (x - mean) / sqrt(var + eps) * weight + bias, with statistics and weights along one axis
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with mean, var,
   *     weight, bias
   * @param {Operand} mean tensor of floats (integers and bool become float32), brought to one dtype with x, var,
   *     weight, bias
   * @param {Operand} var_ tensor of floats (integers and bool become float32), brought to one dtype with x, mean,
   *     weight, bias
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x, mean, var, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     mean, var, weight
   * @param {Integer} [options.axis=1] whole number
   * @param {number} [options.eps=1e-05] number
   * @returns {Node} a tensor of floats
   */
  batchNorm(x, mean, var_, options) {
    return this.call("batch_norm", [x, mean, var_], {}, options, {optional: ["weight", "bias"]});
  }

  /**
   * normalised over each group of channels of [N, C, ...], times weight [C], plus bias [C]
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Integer} groups whole number
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number} [options.eps=1e-05] number
   * @returns {Node} a tensor of floats
   */
  groupNorm(x, groups, options) {
    return this.call("group_norm", [x], {groups}, options, {optional: ["weight", "bias"]});
  }

  /**
   * normalised over each channel of [N, C, ...], times weight [C], plus bias [C]
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} [options.weight] tensor of floats (integers and bool become float32), brought to one dtype with
   *     x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number} [options.eps=1e-05] number
   * @returns {Node} a tensor of floats
   */
  instanceNorm(x, options) {
    return this.call("instance_norm", [x], {}, options, {optional: ["weight", "bias"]});
  }

  /**
   * 0 with probability p, else x / (1 - p); drops always
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {number} [options.p=0.5] number
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  dropout(x, options) {
    return this.call("dropout", [x], {}, options, {optional: ["key"]});
  }

  /**
   * matrix product over the last two axes, the others broadcast; vectors as in PyTorch
   * @param {Operand} x tensor of any dtype, brought to one dtype with y
   * @param {Operand} y tensor of any dtype, brought to one dtype with x
   * @returns {Node} a tensor
   */
  matmul(x, y, options) {
    return this.call("matmul", [x, y], {}, options);
  }

  /**
   * sums of products by the letters of their axes, as in "bij,bjk->bik", with "..." for axes that broadcast
   * @param {readonly Operand[]} xs list, each a tensor of any dtype
   * @param {string} equation string
   * @returns {Node} a tensor
   */
  einsum(xs, equation, options) {
    return this.call("einsum", [...xs], {equation}, options);
  }

  /**
   * x @ weight^T + bias, weight [out, in]
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @returns {Node} a tensor of floats
   */
  linear(x, weight, options) {
    return this.call("linear", [x, weight], {}, options, {optional: ["bias"]});
  }

  /**
   * x @ weight^T with a block-quantised weight [.., out, in], given as the planes of its format: see [quantised
   *     weights](quantised.md); rows: the rows of the matrix, if the last group of 16 is filled up; activations: int8
   *     rounds x to integers times a scale, in chunks of 32 columns
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {readonly Operand[]} planes list, each a tensor of any dtype
   * @param {"q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" |
   *     "iq4_xs" | "mxfp4"} format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
   *     "iq4_nl", "iq4_xs" or "mxfp4"
   * @param {Integer} [options.rows] whole number
   * @param {"float32" | "int8"} [options.activations="float32"] "float32" or "int8"
   * @returns {Node} a tensor of floats
   */
  blockLinear(x, planes, format, options) {
    return this.call("block_linear", [x, ...planes], {format}, options);
  }

  /**
   * softmax(q @ k^T * scale + mask) @ v over [..., length, size]; scale is 1 / sqrt(size) unless given; a bool mask
   *     says where to look; causal: not ahead; grouped: k and v have fewer heads (axis -3)
   * @param {Operand} q tensor of floats (integers and bool become float32), brought to one dtype with k, v
   * @param {Operand} k tensor of floats (integers and bool become float32), brought to one dtype with q, v
   * @param {Operand} v tensor of floats (integers and bool become float32), brought to one dtype with q, k
   * @param {Operand} [options.mask] tensor of any dtype
   * @param {boolean} [options.causal=false] true or false
   * @param {number} [options.scale] number
   * @param {boolean} [options.grouped=false] true or false
   * @returns {Node} a tensor of floats
   */
  attention(q, k, v, options) {
    return this.call("attention", [q, k, v], {}, options, {optional: ["mask"]});
  }

  /**
   * torch.nn.LSTMCell: the new h and c; weights [4 * n, ...] for input, forget, cell and output gates
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with h, c, w_ih,
   *     w_hh, b_ih, b_hh
   * @param {Operand} h tensor of floats (integers and bool become float32), brought to one dtype with x, c, w_ih,
   *     w_hh, b_ih, b_hh
   * @param {Operand} c tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     w_hh, b_ih, b_hh
   * @param {Operand} wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_hh, b_ih, b_hh
   * @param {Operand} wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, c,
   *     w_ih, b_ih, b_hh
   * @param {Operand} [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     h, c, w_ih, w_hh, b_hh
   * @param {Operand} [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     h, c, w_ih, w_hh, b_ih
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  lstmCell(x, h, c, wIh, wHh, options) {
    return this.call("lstm_cell", [x, h, c, wIh, wHh], {}, options, {optional: ["b_ih", "b_hh"], results: 2});
  }

  /**
   * torch.nn.GRUCell: the new h; weights [3 * n, ...] for reset, update and new gates
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with h, w_ih, w_hh,
   *     b_ih, b_hh
   * @param {Operand} h tensor of floats (integers and bool become float32), brought to one dtype with x, w_ih, w_hh,
   *     b_ih, b_hh
   * @param {Operand} wIh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_hh,
   *     b_ih, b_hh
   * @param {Operand} wHh tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih,
   *     b_ih, b_hh
   * @param {Operand} [options.b_ih] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     h, w_ih, w_hh, b_hh
   * @param {Operand} [options.b_hh] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     h, w_ih, w_hh, b_ih
   * @returns {Node} a tensor of floats
   */
  gruCell(x, h, wIh, wHh, options) {
    return this.call("gru_cell", [x, h, wIh, wHh], {}, options, {optional: ["b_ih", "b_hh"]});
  }

  /**
   * x [N, C, ...], weight [O, C / groups, ...], bias [O]; padding is one number, one for each axis, or [before,
   *     after] for each, flat; form: see conv2d
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number | readonly number[]} [options.stride=1] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {Integer} [options.groups=1] whole number
   * @param {"auto" | "direct" | "winograd"} [options.form="auto"] "auto", "direct" or "winograd"
   * @returns {Node} a tensor of floats
   */
  conv(x, weight, options) {
    return this.call("conv", [x, weight], {}, options, {optional: ["bias"]});
  }

  /**
   * x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]; form: how float32 by 3 x 3 at stride 1 is computed, as
   *     a sum of products or by Winograd's transforms, which round otherwise; auto takes what should be the faster
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number | readonly number[]} [options.stride=1] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {Integer} [options.groups=1] whole number
   * @param {"auto" | "direct" | "winograd"} [options.form="auto"] "auto", "direct" or "winograd"
   * @returns {Node} a tensor of floats
   */
  conv2d(x, weight, options) {
    return this.call("conv2d", [x, weight], {}, options, {optional: ["bias"]});
  }

  /**
   * x [N, C, ...], weight [C, O / groups, ...], bias [O]: what conv's gradient does to x; padding as of conv
   * @param {Operand} x tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
   * @param {Operand} weight tensor of floats (integers and bool become float32), brought to one dtype with x, bias
   * @param {Operand} [options.bias] tensor of floats (integers and bool become float32), brought to one dtype with x,
   *     weight
   * @param {number | readonly number[]} [options.stride=1] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.output_padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {Integer} [options.groups=1] whole number
   * @returns {Node} a tensor of floats
   */
  convTranspose(x, weight, options) {
    return this.call("conv_transpose", [x, weight], {}, options, {optional: ["bias"]});
  }

  /**
   * largest of each window of the last axes: as many as kernel_size lists, dims where it is one number; stride is
   *     kernel_size unless given; ceil_mode: a window may hang over the end; the gradient is shared between equals
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {boolean} [options.ceil_mode=false] true or false
   * @param {Integer} [options.dims=2] whole number
   * @returns {Node} a tensor
   */
  maxPool(x, kernelSize, options) {
    return this.call("max_pool", [x], {kernel_size: kernelSize}, options);
  }

  /**
   * mean of each window of the last axes, see max_pool
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {boolean} [options.ceil_mode=false] true or false
   * @param {boolean} [options.count_include_pad=true] true or false
   * @param {Integer} [options.dims=2] whole number
   * @returns {Node} a tensor of floats
   */
  avgPool(x, kernelSize, options) {
    return this.call("avg_pool", [x], {kernel_size: kernelSize}, options);
  }

  /**
   * largest of each window of [..., H, W]; stride is kernel_size unless given
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {boolean} [options.ceil_mode=false] true or false
   * @returns {Node} a tensor
   */
  maxPool2d(x, kernelSize, options) {
    return this.call("max_pool2d", [x], {kernel_size: kernelSize}, options);
  }

  /**
   * mean of each window of [..., H, W]; stride is kernel_size unless given
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {boolean} [options.count_include_pad=true] true or false
   * @param {boolean} [options.ceil_mode=false] true or false
   * @returns {Node} a tensor of floats
   */
  avgPool2d(x, kernelSize, options) {
    return this.call("avg_pool2d", [x], {kernel_size: kernelSize}, options);
  }

  /**
   * max_pool, and where each largest is in its plane, flat; the first of equals
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {number | readonly number[]} [options.dilation=1] whole number or list of them
   * @param {boolean} [options.ceil_mode=false] true or false
   * @param {Integer} [options.dims=2] whole number
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  maxPoolIndices(x, kernelSize, options) {
    return this.call("max_pool_indices", [x], {kernel_size: kernelSize}, options, {results: 2});
  }

  /**
   * zeros, but x where the indices of max_pool_indices say; the last of several that say the same, nothing for one
   *     out of range; output_size: of the plane
   * @param {Operand} x tensor of any dtype
   * @param {Operand} indices tensor of integers
   * @param {number | readonly number[]} kernelSize whole number or list of them
   * @param {number | readonly number[]} [options.stride] whole number or list of them
   * @param {number | readonly number[]} [options.padding=0] whole number or list of them
   * @param {Size | readonly Size[]} [options.output_size] size or list of sizes
   * @param {Integer} [options.dims=2] whole number
   * @returns {Node} a tensor
   */
  maxUnpool(x, indices, kernelSize, options) {
    return this.call("max_unpool", [x, indices], {kernel_size: kernelSize}, options);
  }

  /**
   * the last axes in other sizes: the nearest element, or between neighbours along each axis (linear: any number of
   *     axes); align_corners: the first and last elements stay where they are
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Size | readonly Size[]} size size or list of sizes
   * @param {"nearest" | "nearest-exact" | "linear" | "bilinear" | "trilinear"} [options.mode="nearest"] "nearest",
   *     "nearest-exact", "linear", "bilinear" or "trilinear"
   * @param {boolean} [options.align_corners=false] true or false
   * @returns {Node} a tensor of floats
   */
  interpolate(x, size, options) {
    return this.call("interpolate", [x], {size}, options);
  }

  /**
   * torch.linalg.qr, reduced: Q with orthogonal columns and R upper triangular, x = Q R; a diagonal element of R may
   *     have another sign than LAPACK's
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  qr(x, options) {
    return this.call("qr", [x], {}, options, {results: 2});
  }

  /**
   * L lower triangular with x = L L^T, of which the lower triangle is read; NaN where x is not positive definite
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  cholesky(x, options) {
    return this.call("cholesky", [x], {}, options);
  }

  /**
   * x of a x = b, where only the lower (upper) triangle of a is read; b [..., n, k] or [n]
   * @param {Operand} a tensor of floats (integers and bool become float32), brought to one dtype with b
   * @param {Operand} b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @param {boolean} [options.upper=false] true or false
   * @returns {Node} a tensor of floats
   */
  triangularSolve(a, b, options) {
    return this.call("triangular_solve", [a, b], {}, options);
  }

  /**
   * x of a x = b, b [..., n, k] or [n]
   * @param {Operand} a tensor of floats (integers and bool become float32), brought to one dtype with b
   * @param {Operand} b tensor of floats (integers and bool become float32), brought to one dtype with a
   * @returns {Node} a tensor of floats
   */
  solve(a, b, options) {
    return this.call("solve", [a, b], {}, options);
  }

  /**
   * the inverse; infinite or NaN where there is none
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  inverse(x, options) {
    return this.call("inverse", [x], {}, options);
  }

  /**
   * the determinant
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @returns {Node} a tensor of floats
   */
  det(x, options) {
    return this.call("det", [x], {}, options);
  }

  /**
   * torch.linalg.svd: U, the singular values from the largest, and V^T, x = U S V^T, with all columns of U and rows
   *     of V^T or as many as there are values; the gradient is that of distinct values over 0
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {boolean} [options.full_matrices=true] true or false
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats, a tensor of floats
   */
  svd(x, options) {
    return this.call("svd", [x], {}, options, {results: 3});
  }

  /**
   * discrete Fourier transform along the axis
   * @param {Operand} re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param {Operand} [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  fft(re, options) {
    return this.call("fft", [re], {}, options, {optional: ["im"], results: 2});
  }

  /**
   * its inverse
   * @param {Operand} re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param {Operand} [options.im] tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  ifft(re, options) {
    return this.call("ifft", [re], {}, options, {optional: ["im"], results: 2});
  }

  /**
   * the first n / 2 + 1 parts of the transform of real numbers; the others are their conjugates
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.axis=-1] whole number
   * @returns {Node[]} a list of a tensor of floats, a tensor of floats
   */
  rfft(x, options) {
    return this.call("rfft", [x], {}, options, {results: 2});
  }

  /**
   * the real numbers of which rfft gives that; n is even unless given
   * @param {Operand} re tensor of floats (integers and bool become float32), brought to one dtype with im
   * @param {Operand} im tensor of floats (integers and bool become float32), brought to one dtype with re
   * @param {Integer} [options.axis=-1] whole number
   * @param {Integer} [options.n] whole number
   * @returns {Node} a tensor of floats
   */
  irfft(re, im, options) {
    return this.call("irfft", [re, im], {}, options);
  }

  /**
   * the hash of the bytes along the last axis: so many bytes of the sponge of this rate, after the domain's suffix;
   *     SHA3-256 unless given
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.rate=136] whole number
   * @param {Integer} [options.suffix=6] whole number
   * @param {Integer} [options.size=32] whole number
   * @returns {Node} a tensor
   */
  keccak(x, options) {
    return this.call("keccak", [x], {}, options);
  }

  /**
   * SHA3-224 of the bytes along the last axis
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  sha3224(x, options) {
    return this.call("sha3_224", [x], {}, options);
  }

  /**
   * SHA3-256 of the bytes along the last axis
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  sha3256(x, options) {
    return this.call("sha3_256", [x], {}, options);
  }

  /**
   * so many bytes of SHAKE128 of the bytes along the last axis
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.size=16] whole number
   * @returns {Node} a tensor
   */
  shake128(x, options) {
    return this.call("shake_128", [x], {}, options);
  }

  /**
   * 16 bytes that tell a tensor from others: SHAKE128 of those of blocks of 4 KiB of each MiB of its bytes, the last
   *     one filled up with zeros, again until one is left
   * @param {Operand} x tensor of any dtype
   * @returns {Node} a tensor
   */
  hash(x, options) {
    return this.call("hash", [x], {}, options);
  }

  /**
   * torch.gather: along the axis, index in the shape of the result; a negative index counts from the end; an index
   *     out of range reads 0, or is an error with check_indices
   * @param {Operand} x tensor of any dtype
   * @param {Operand} index tensor of integers
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor
   */
  gather(x, index, options) {
    return this.call("gather", [x, index], {}, options);
  }

  /**
   * x[index] along the axis, index of any shape; a negative index counts from the end; an index out of range reads 0,
   *     or is an error with check_indices
   * @param {Operand} x tensor of any dtype
   * @param {Operand} index tensor of integers
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor
   */
  take(x, index, options) {
    return this.call("take", [x, index], {}, options);
  }

  /**
   * rows of a block-quantised matrix [rows, columns], given as the planes of its format (see [quantised
   *     weights](quantised.md)), as float32; rows: the rows of the matrix, if the last group of 16 is filled up
   * @param {Operand} index tensor of integers
   * @param {readonly Operand[]} planes list, each a tensor of any dtype
   * @param {"q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q2_k" | "q3_k" | "q4_k" | "q5_k" | "q6_k" | "iq4_nl" |
   *     "iq4_xs" | "mxfp4"} format "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
   *     "iq4_nl", "iq4_xs" or "mxfp4"
   * @param {Integer} [options.rows] whole number
   * @returns {Node} a tensor of floats
   */
  blockTake(index, planes, format, options) {
    return this.call("block_take", [index, ...planes], {format}, options);
  }

  /**
   * x[i, j, ...] by index tensors for neighbouring axes, broadcast together; an index out of range reads 0, or is an
   *     error with check_indices
   * @param {Operand} x tensor of any dtype
   * @param {readonly Operand[]} indices list, each a tensor of integers
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor
   */
  index(x, indices, options) {
    return this.call("index", [x, ...indices], {}, options);
  }

  /**
   * x with x[i, j, ...] = value, or += value; of several writes to one place the last stays; an index out of range
   *     writes nothing, or is an error with check_indices
   * @param {Operand} x tensor of any dtype, brought to one dtype with value
   * @param {Operand} value tensor of any dtype, brought to one dtype with x
   * @param {readonly Operand[]} indices list, each a tensor of integers
   * @param {Integer} [options.axis=0] whole number
   * @param {boolean} [options.accumulate=false] true or false
   * @returns {Node} a tensor
   */
  indexPut(x, value, indices, options) {
    return this.call("index_put", [x, value, ...indices], {}, options);
  }

  /**
   * torch.scatter: x with src written where index says along the axis; of several writes to one place the last stays;
   *     an index out of range writes nothing, or is an error with check_indices
   * @param {Operand} x tensor of any dtype, brought to one dtype with src
   * @param {Operand} index tensor of integers
   * @param {Operand} src tensor of any dtype, brought to one dtype with x
   * @param {Integer} [options.axis=0] whole number
   * @param {"none" | "add" | "multiply"} [options.reduce="none"] "none", "add" or "multiply"
   * @returns {Node} a tensor
   */
  scatter(x, index, src, options) {
    return this.call("scatter", [x, index, src], {}, options);
  }

  /**
   * torch.scatter_reduce: what is sent to one place folded, with x itself unless include_self is false
   * @param {Operand} x tensor of any dtype, brought to one dtype with src
   * @param {Operand} index tensor of integers
   * @param {Operand} src tensor of any dtype, brought to one dtype with x
   * @param {"sum" | "prod" | "mean" | "amax" | "amin"} reduce "sum", "prod", "mean", "amax" or "amin"
   * @param {Integer} [options.axis=0] whole number
   * @param {boolean} [options.include_self=true] true or false
   * @returns {Node} a tensor
   */
  scatterReduce(x, index, src, reduce, options) {
    return this.call("scatter_reduce", [x, index, src], {reduce}, options);
  }

  /**
   * the first size elements where the mask holds, in order, then fill; and how many there are in all
   * @param {Operand} x tensor of any dtype
   * @param {Operand} mask tensor of bool (numbers become "not zero")
   * @param {Size} size size
   * @param {number | bigint} [options.fill=0] number
   * @returns {Node[]} a list of a tensor, a tensor of int64
   */
  maskedSelect(x, mask, size, options) {
    return this.call("masked_select", [x, mask], {size}, options, {results: 2});
  }

  /**
   * [size, ndim]: where the first size elements that are not zero are, then fill; and how many there are in all
   * @param {Operand} x tensor of bool (numbers become "not zero")
   * @param {Size} size size
   * @param {Integer} [options.fill=0] whole number
   * @returns {Node[]} a list of a tensor of int64, a tensor of int64
   */
  nonzero(x, size, options) {
    return this.call("nonzero", [x], {size}, options, {results: 2});
  }

  /**
   * 1 where the class is x, else 0, along a new last axis; a class out of range is an error with check_indices
   * @param {Operand} x tensor of integers
   * @param {Size} numClasses size
   * @param {DType} [options.dtype="int64"] dtype
   * @returns {Node} a tensor
   */
  oneHot(x, numClasses, options) {
    return this.call("one_hot", [x], {num_classes: numClasses}, options);
  }

  /**
   * zero above the diagonal
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.diagonal=0] whole number
   * @returns {Node} a tensor
   */
  tril(x, options) {
    return this.call("tril", [x], {}, options);
  }

  /**
   * zero below the diagonal
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.diagonal=0] whole number
   * @returns {Node} a tensor
   */
  triu(x, options) {
    return this.call("triu", [x], {}, options);
  }

  /**
   * the same elements in another shape; one size may be -1
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @returns {Node} a tensor
   */
  reshape(x, shape, options) {
    return this.call("reshape", [x], {shape}, options);
  }

  /**
   * axis i of the result is axis axes[i] of x
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} axes whole number or list of them
   * @returns {Node} a tensor
   */
  permute(x, axes, options) {
    return this.call("permute", [x], {axes}, options);
  }

  /**
   * two axes exchanged
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.axis0=-2] whole number
   * @param {Integer} [options.axis1=-1] whole number
   * @returns {Node} a tensor
   */
  transpose(x, options) {
    return this.call("transpose", [x], {}, options);
  }

  /**
   * axes of size 1 repeated, new ones in front; -1 keeps a size
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @returns {Node} a tensor
   */
  expand(x, shape, options) {
    return this.call("expand", [x], {shape}, options);
  }

  /**
   * [before, after] for each axis from the first, also as a flat list; negative ones crop; modes: the value, x
   *     mirrored at its ends (which are not repeated), its ends, or x from its other end
   * @param {Operand} x tensor of any dtype
   * @param {readonly (readonly [Size, Size])[]} padding list of pairs
   * @param {number | bigint} [options.value=0] number
   * @param {"constant" | "reflect" | "replicate" | "circular"} [options.mode="constant"] "constant", "reflect",
   *     "replicate" or "circular"
   * @returns {Node} a tensor
   */
  pad(x, padding, options) {
    return this.call("pad", [x], {padding}, options);
  }

  /**
   * [start, stop] for each axis from the first
   * @param {Operand} x tensor of any dtype
   * @param {readonly (readonly [Size, Size])[]} ranges list of pairs
   * @returns {Node} a tensor
   */
  shrink(x, ranges, options) {
    return this.call("shrink", [x], {ranges}, options);
  }

  /**
   * x[start:stop:step] on the axes (the first ones, unless given); a negative step goes backwards, to the first
   *     element where stop is left out or below -size
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} [options.start] size or list of sizes
   * @param {Size | readonly Size[]} [options.stop] size or list of sizes
   * @param {number | readonly number[]} [options.step] whole number or list of them
   * @param {number | readonly number[]} [options.axis] whole number or list of them
   * @returns {Node} a tensor
   */
  slice(x, options) {
    return this.call("slice", [x], {}, options);
  }

  /**
   * the order along the axes reversed
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @returns {Node} a tensor
   */
  flip(x, options) {
    return this.call("flip", [x], {}, options);
  }

  /**
   * each axis moved on by its shift, what leaves at the end comes in at the start; without axis as if flat
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} shift whole number or list of them
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @returns {Node} a tensor
   */
  roll(x, shift, options) {
    return this.call("roll", [x], {shift}, options);
  }

  /**
   * torch.Tensor.repeat: each axis as a whole so many times; further numbers make new axes in front
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} repeats size or list of sizes
   * @returns {Node} a tensor
   */
  repeat(x, repeats, options) {
    return this.call("repeat", [x], {repeats}, options);
  }

  /**
   * each element of the axis so many times; without axis flat
   * @param {Operand} x tensor of any dtype
   * @param {Size} repeats size
   * @param {Integer} [options.axis] whole number
   * @returns {Node} a tensor
   */
  repeatInterleave(x, repeats, options) {
    return this.call("repeat_interleave", [x], {repeats}, options);
  }

  /**
   * torch.Tensor.unfold: windows of the axis, every step elements one, along a new last axis
   * @param {Operand} x tensor of any dtype
   * @param {Integer} axis whole number
   * @param {Integer} size whole number
   * @param {Integer} step whole number
   * @returns {Node} a tensor
   */
  unfold(x, axis, size, step, options) {
    return this.call("unfold", [x], {axis, size, step}, options);
  }

  /**
   * the diagonal of two axes, along a new last axis; offset: so many above it
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.offset=0] whole number
   * @param {Integer} [options.axis0=0] whole number
   * @param {Integer} [options.axis1=1] whole number
   * @returns {Node} a tensor
   */
  diagonal(x, options) {
    return this.call("diagonal", [x], {}, options);
  }

  /**
   * the diagonal of a matrix, or the matrix of a diagonal, with zeros elsewhere
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.offset=0] whole number
   * @returns {Node} a tensor
   */
  diag(x, options) {
    return this.call("diag", [x], {}, options);
  }

  /**
   * without the axes of size 1 (among those given)
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} [options.axis] whole number or list of them; null for all
   * @returns {Node} a tensor
   */
  squeeze(x, options) {
    return this.call("squeeze", [x], {}, options);
  }

  /**
   * a new axis of size 1
   * @param {Operand} x tensor of any dtype
   * @param {Integer} axis whole number
   * @returns {Node} a tensor
   */
  unsqueeze(x, axis, options) {
    return this.call("unsqueeze", [x], {axis}, options);
  }

  /**
   * the axes from start to end made one
   * @param {Operand} x tensor of any dtype
   * @param {Integer} [options.start_axis=0] whole number
   * @param {Integer} [options.end_axis=-1] whole number
   * @returns {Node} a tensor
   */
  flatten(x, options) {
    return this.call("flatten", [x], {}, options);
  }

  /**
   * one axis split into several; one size may be -1
   * @param {Operand} x tensor of any dtype
   * @param {Integer} axis whole number
   * @param {Size | readonly Size[]} sizes size or list of sizes
   * @returns {Node} a tensor
   */
  unflatten(x, axis, sizes, options) {
    return this.call("unflatten", [x], {axis, sizes}, options);
  }

  /**
   * axes named as in einops: 'b (h w) c -> b c h w'; a name in parentheses is a part of an axis, and all parts of one
   *     but one need a size: '(h=3 w)'; 1 is an axis of size 1, ... stands for all others
   * @param {Operand} x tensor of any dtype
   * @param {string} formula string
   * @returns {Node} a tensor
   */
  rearrange(x, formula, options) {
    return this.call("rearrange", [x], {formula}, options);
  }

  /**
   * one after the other along the axis
   * @param {readonly Operand[]} xs list, each a tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor
   */
  cat(xs, options) {
    return this.call("cat", [...xs], {}, options);
  }

  /**
   * side by side along a new axis
   * @param {readonly Operand[]} xs list, each a tensor of any dtype
   * @param {Integer} [options.axis=0] whole number
   * @returns {Node} a tensor
   */
  stack(xs, options) {
    return this.call("stack", [...xs], {}, options);
  }

  /**
   * parts of the axis of these sizes, or as many of one size as there are, of which the last may be shorter
   * @param {Operand} x tensor of any dtype
   * @param {number | readonly number[]} sizes whole number or list of them
   * @param {Integer} [options.axis=0] whole number
   * @param {number} options.results how many there are, which the server checks
   * @returns {Node[]} a list, each a tensor
   */
  split(x, sizes, options) {
    return this.call("split", [x], {sizes}, options);
  }

  /**
   * the axis in so many parts of one size, of which the last may be shorter, or in fewer where that takes it all
   * @param {Operand} x tensor of any dtype
   * @param {Integer} chunks whole number
   * @param {Integer} [options.axis=0] whole number
   * @param {number} options.results how many there are, which the server checks
   * @returns {Node[]} a list, each a tensor
   */
  chunk(x, chunks, options) {
    return this.call("chunk", [x], {chunks}, options);
  }

  /**
   * each vector along an axis of its own, in the shape of all; xy: the first two axes exchanged
   * @param {readonly Operand[]} xs list, each a tensor of any dtype
   * @param {"ij" | "xy"} [options.indexing="ij"] "ij" or "xy"
   * @returns {Node[]} a list, each a tensor
   */
  meshgrid(xs, options) {
    return this.call("meshgrid", [...xs], {}, options, {results: xs.length});
  }

  /**
   * the value after the ends of the axes, up to this shape; -1 keeps a size
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {number | bigint} [options.value=0] number
   * @returns {Node} a tensor
   */
  padTo(x, shape, options) {
    return this.call("pad_to", [x], {shape}, options);
  }

  /**
   * the first elements of each axis, down to this shape; -1 keeps a size
   * @param {Operand} x tensor of any dtype
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @returns {Node} a tensor
   */
  shrinkTo(x, shape, options) {
    return this.call("shrink_to", [x], {shape}, options);
  }

  /**
   * start, start + step, ... below stop; int64, or float32 if one of them has a fraction
   * @param {Size} stop number or size
   * @param {Size} [options.start=0] number or size
   * @param {number | bigint} [options.step=1] number
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  arange(stop, options) {
    return this.call("arange", [], {stop}, options);
  }

  /**
   * steps numbers from start to stop, evenly apart
   * @param {number} start number
   * @param {number} stop number
   * @param {Size} steps size
   * @param {DType} [options.dtype="float32"] dtype
   * @returns {Node} a tensor of floats
   */
  linspace(start, stop, steps, options) {
    return this.call("linspace", [], {start, stop, steps}, options);
  }

  /**
   * every element the value
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Size} value number or size
   * @param {DType} [options.dtype="float32"] dtype
   * @returns {Node} a tensor
   */
  full(shape, value, options) {
    return this.call("full", [], {shape, value}, options);
  }

  /**
   * zeros
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {DType} [options.dtype="float32"] dtype
   * @returns {Node} a tensor
   */
  zeros(shape, options) {
    return this.call("zeros", [], {shape}, options);
  }

  /**
   * ones
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {DType} [options.dtype="float32"] dtype
   * @returns {Node} a tensor
   */
  ones(shape, options) {
    return this.call("ones", [], {shape}, options);
  }

  /**
   * zeros in the shape of x
   * @param {Operand} x tensor of any dtype
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  zerosLike(x, options) {
    return this.call("zeros_like", [x], {}, options);
  }

  /**
   * ones in the shape of x
   * @param {Operand} x tensor of any dtype
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  onesLike(x, options) {
    return this.call("ones_like", [x], {}, options);
  }

  /**
   * every element the value, in the shape of x
   * @param {Operand} x tensor of any dtype
   * @param {number | bigint} value number
   * @param {DType} [options.dtype] dtype
   * @returns {Node} a tensor
   */
  fullLike(x, value, options) {
    return this.call("full_like", [x], {value}, options);
  }

  /**
   * the n by m matrix with ones on the diagonal; m is n unless given
   * @param {Size} n size
   * @param {Size} [options.m] size
   * @param {DType} [options.dtype="float32"] dtype
   * @returns {Node} a tensor
   */
  eye(n, options) {
    return this.call("eye", [], {n}, options);
  }

  /**
   * uniform between low and high
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {number} [options.low=0] number
   * @param {number} [options.high=1] number
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  uniform(shape, options) {
    return this.call("uniform", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * normal distribution
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {number} [options.mean=0] number
   * @param {number} [options.std=1] number
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  normal(shape, options) {
    return this.call("normal", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * whole numbers from low to high - 1
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Size} high number or size
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {Integer} [options.low=0] whole number
   * @param {DType} [options.dtype="int64"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of integers
   */
  randint(shape, high, options) {
    return this.call("randint", [], {shape, high}, options, {optional: ["key"]});
  }

  /**
   * the numbers from 0 to n - 1 in random order
   * @param {Size} n size
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {DType} [options.dtype="int64"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of integers
   */
  randperm(n, options) {
    return this.call("randperm", [], {n}, options, {optional: ["key"]});
  }

  /**
   * how many steps of the program came before this one, since its rng says 0; in a run 0
   * @param {DType} [options.dtype="int64"] dtype
   * @returns {Node} a tensor of integers
   */
  step(options) {
    return this.call("step", [], {}, options);
  }

  /**
   * [batch]: which of n samples this step of the program takes (with take along axis 0): each at most once in an
   *     epoch of n / batch steps, in an order that is drawn anew for each; a rest of fewer than batch is left out
   * @param {Integer} n whole number
   * @param {Integer} batch whole number
   * @param {boolean} [options.shuffle=true] true or false
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of int64
   */
  batchIndex(n, batch, options) {
    return this.call("batch_index", [], {n, batch}, options);
  }

  /**
   * uniform between 0 and 1 in the shape of x
   * @param {Operand} x tensor of any dtype
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {DType} [options.dtype] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  randLike(x, options) {
    return this.call("rand_like", [x], {}, options, {optional: ["key"]});
  }

  /**
   * normal distribution in the shape of x
   * @param {Operand} x tensor of any dtype
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {DType} [options.dtype] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  randnLike(x, options) {
    return this.call("randn_like", [x], {}, options, {optional: ["key"]});
  }

  /**
   * uniform within sqrt(6 / ((1 + a^2) * fan))
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {number} [options.a=0] number
   * @param {"fan_in" | "fan_out"} [options.mode="fan_in"] "fan_in" or "fan_out"
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  kaimingUniform(shape, options) {
    return this.call("kaiming_uniform", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * normal with deviation sqrt(2 / ((1 + a^2) * fan))
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {number} [options.a=0] number
   * @param {"fan_in" | "fan_out"} [options.mode="fan_in"] "fan_in" or "fan_out"
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  kaimingNormal(shape, options) {
    return this.call("kaiming_normal", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * uniform within sqrt(6 / (fan_in + fan_out))
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  glorotUniform(shape, options) {
    return this.call("glorot_uniform", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * uniform within 1 / sqrt(fan_in): how PyTorch starts Linear and Conv2d (a bias: give fan_in)
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {Integer} [options.fan_in] whole number
   * @param {DType} [options.dtype="float32"] dtype
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  scaledUniform(shape, options) {
    return this.call("scaled_uniform", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * 1 with probability p, else 0
   * @param {Operand} p tensor of floats (integers and bool become float32)
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of floats
   */
  bernoulli(p, options) {
    return this.call("bernoulli", [p], {}, options, {optional: ["key"]});
  }

  /**
   * [..., num_samples]: indices drawn by weight along the last axis; without replacement each at most once
   * @param {Operand} weights tensor of floats (integers and bool become float32)
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {Size} [options.num_samples=1] size
   * @param {boolean} [options.replacement=false] true or false
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor of int64
   */
  multinomial(weights, options) {
    return this.call("multinomial", [weights], {}, options, {optional: ["key"]});
  }

  /**
   * random uint32
   * @param {Size | readonly Size[]} shape size or list of sizes
   * @param {Operand} [options.key] integer scalar that fixes what this place of the graph draws; by default every
   *     step draws anew
   * @param {Integer} [options.seed] whole number; by default the seed of the run
   * @returns {Node} a tensor
   */
  randomBits(shape, options) {
    return this.call("random_bits", [], {shape}, options, {optional: ["key"]});
  }

  /**
   * Threefry-2x32 of uint64: the low half is the first word
   * @param {Operand} x tensor of integers or bool, brought to one dtype with key
   * @param {Operand} key integer scalar that fixes what this place of the graph draws; by default every step draws
   *     anew
   * @returns {Node} a tensor
   */
  threefry(x, key, options) {
    return this.call("threefry", [x, key], {}, options);
  }

  /**
   * torch.optim.SGD: the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} lr number, or float32 scalar tensor
   * @param {number} [options.momentum=0] number
   * @param {number} [options.dampening=0] number
   * @param {number} [options.weight_decay=0] number
   * @param {boolean} [options.nesterov=false] true or false
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  sgd(loss, params, lr, options) {
    return this.call("sgd", [loss, ...params], {lr}, options, {results: params.length});
  }

  /**
   * torch.optim.Adam: the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.001] number, or float32 scalar tensor
   * @param {readonly number[]} [options.betas=[0.9, 0.999]] list of numbers
   * @param {number} [options.eps=1e-08] number
   * @param {number} [options.weight_decay=0] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  adam(loss, params, options) {
    return this.call("adam", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * torch.optim.AdamW: the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.001] number, or float32 scalar tensor
   * @param {readonly number[]} [options.betas=[0.9, 0.999]] list of numbers
   * @param {number} [options.eps=1e-08] number
   * @param {number} [options.weight_decay=0.01] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  adamw(loss, params, options) {
    return this.call("adamw", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * torch.optim.Adagrad: the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.01] number, or float32 scalar tensor
   * @param {number} [options.lr_decay=0] number
   * @param {number} [options.weight_decay=0] number
   * @param {number} [options.eps=1e-10] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  adagrad(loss, params, options) {
    return this.call("adagrad", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * torch.optim.RMSprop: the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.01] number, or float32 scalar tensor
   * @param {number} [options.alpha=0.99] number
   * @param {number} [options.eps=1e-08] number
   * @param {number} [options.weight_decay=0] number
   * @param {number} [options.momentum=0] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  rmsprop(loss, params, options) {
    return this.call("rmsprop", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * LAMB (You et al., arXiv:1904.00962): the new parameters
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.001] number, or float32 scalar tensor
   * @param {number} [options.b1=0.9] number
   * @param {number} [options.b2=0.999] number
   * @param {number} [options.eps=1e-06] number
   * @param {number} [options.weight_decay=0] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  lamb(loss, params, options) {
    return this.call("lamb", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * LARS (You et al., arXiv:1708.03888): the new parameters; classic: the rate goes into the momentum
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.001] number, or float32 scalar tensor
   * @param {number} [options.momentum=0.9] number
   * @param {number} [options.weight_decay=0.0001] number
   * @param {boolean} [options.nesterov=false] true or false
   * @param {boolean} [options.classic=true] true or false
   * @param {number} [options.tcoef=0.001] number
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  lars(loss, params, options) {
    return this.call("lars", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * Muon (Jordan et al., 2024): momentum made orthogonal by Newton-Schulz steps, for parameters [n, ...] seen as
   *     matrices
   * @param {Operand} loss tensor of any dtype
   * @param {readonly Node[]} params list, each an input, state or other tensor of floats
   * @param {number | Node} [options.lr=0.02] number, or float32 scalar tensor
   * @param {number} [options.momentum=0.95] number
   * @param {number} [options.weight_decay=0.1] number
   * @param {Integer} [options.steps=5] whole number
   * @param {boolean} [options.nesterov=true] true or false
   * @param {number} [options.clip_norm] number
   * @param {number} [options.clip_value] number
   * @returns {Node[]} a list, each a tensor
   */
  muon(loss, params, options) {
    return this.call("muon", [loss, ...params], {}, options, {results: params.length});
  }

  /**
   * the nearest orthogonal matrix, roughly: x = a x + b (x x^T) x + c (x x^T)^2 x so many times, from x of norm 1
   * @param {Operand} x tensor of floats (integers and bool become float32)
   * @param {Integer} [options.steps=5] whole number
   * @param {readonly number[]} [options.params=[3.4445, -4.775, 2.0315]] list of numbers
   * @param {number} [options.eps=1e-07] number
   * @returns {Node} a tensor of floats
   */
  newtonSchulz(x, options) {
    return this.call("newton_schulz", [x], {}, options);
  }

  /**
   * torch.nn.utils.clip_grad_norm_: all scaled so that their joint norm is at most max_norm
   * @param {readonly Operand[]} grads list, each a tensor of floats (integers and bool become float32)
   * @param {number} maxNorm number
   * @returns {Node[]} a list, each a tensor
   */
  clipGradNorm(grads, maxNorm, options) {
    return this.call("clip_grad_norm", [...grads], {max_norm: maxNorm}, options, {results: grads.length});
  }

  /**
   * lr times gamma every step_size steps
   * @param {Operand} step tensor of floats (integers and bool become float32)
   * @param {number} lr number
   * @param {Integer} stepSize whole number
   * @param {number} [options.gamma=0.1] number
   * @returns {Node} a tensor of floats
   */
  stepLr(step, lr, stepSize, options) {
    return this.call("step_lr", [step], {lr, step_size: stepSize}, options);
  }

  /**
   * from lr to end in total steps
   * @param {Operand} step tensor of floats (integers and bool become float32)
   * @param {number} lr number
   * @param {Integer} total whole number
   * @param {number} [options.power=1] number
   * @param {number} [options.end=0] number
   * @returns {Node} a tensor of floats
   */
  polynomialLr(step, lr, total, options) {
    return this.call("polynomial_lr", [step], {lr, total}, options);
  }

  /**
   * from lr to end in total steps, along half a cosine
   * @param {Operand} step tensor of floats (integers and bool become float32)
   * @param {number} lr number
   * @param {Integer} total whole number
   * @param {number} [options.end=0] number
   * @returns {Node} a tensor of floats
   */
  cosineLr(step, lr, total, options) {
    return this.call("cosine_lr", [step], {lr, total}, options);
  }

  /**
   * up to lr in warmup steps
   * @param {Operand} step tensor of floats (integers and bool become float32)
   * @param {number} lr number
   * @param {Integer} warmup whole number
   * @returns {Node} a tensor of floats
   */
  warmupLr(step, lr, warmup, options) {
    return this.call("warmup_lr", [step], {lr, warmup}, options);
  }

  /**
   * torch's OneCycleLR: from lr / div up to lr in pct_start of the steps, then down to lr / div / final_div
   * @param {Operand} step tensor of floats (integers and bool become float32)
   * @param {number} lr number
   * @param {Integer} total whole number
   * @param {number} [options.pct_start=0.3] number
   * @param {number} [options.div=25] number
   * @param {number} [options.final_div=10000] number
   * @returns {Node} a tensor of floats
   */
  oneCycleLr(step, lr, total, options) {
    return this.call("one_cycle_lr", [step], {lr, total}, options);
  }
}

/** Ops as methods of their first operand: each is the method of GraphOps of that name. */
export class NodeOps {
  add(y, options) {
    return this.graph.add(this, y, options);
  }

  sub(y, options) {
    return this.graph.sub(this, y, options);
  }

  mul(y, options) {
    return this.graph.mul(this, y, options);
  }

  div(y, options) {
    return this.graph.div(this, y, options);
  }

  floorDiv(y, options) {
    return this.graph.floorDiv(this, y, options);
  }

  truncDiv(y, options) {
    return this.graph.truncDiv(this, y, options);
  }

  mod(y, options) {
    return this.graph.mod(this, y, options);
  }

  fmod(y, options) {
    return this.graph.fmod(this, y, options);
  }

  neg(options) {
    return this.graph.neg(this, options);
  }

  abs(options) {
    return this.graph.abs(this, options);
  }

  sign(options) {
    return this.graph.sign(this, options);
  }

  square(options) {
    return this.graph.square(this, options);
  }

  sqrt(options) {
    return this.graph.sqrt(this, options);
  }

  rsqrt(options) {
    return this.graph.rsqrt(this, options);
  }

  reciprocal(options) {
    return this.graph.reciprocal(this, options);
  }

  exp(options) {
    return this.graph.exp(this, options);
  }

  exp2(options) {
    return this.graph.exp2(this, options);
  }

  expm1(options) {
    return this.graph.expm1(this, options);
  }

  log(options) {
    return this.graph.log(this, options);
  }

  log2(options) {
    return this.graph.log2(this, options);
  }

  log10(options) {
    return this.graph.log10(this, options);
  }

  log1p(options) {
    return this.graph.log1p(this, options);
  }

  sin(options) {
    return this.graph.sin(this, options);
  }

  cos(options) {
    return this.graph.cos(this, options);
  }

  tan(options) {
    return this.graph.tan(this, options);
  }

  asin(options) {
    return this.graph.asin(this, options);
  }

  acos(options) {
    return this.graph.acos(this, options);
  }

  atan(options) {
    return this.graph.atan(this, options);
  }

  atan2(x, options) {
    return this.graph.atan2(this, x, options);
  }

  sinh(options) {
    return this.graph.sinh(this, options);
  }

  cosh(options) {
    return this.graph.cosh(this, options);
  }

  asinh(options) {
    return this.graph.asinh(this, options);
  }

  acosh(options) {
    return this.graph.acosh(this, options);
  }

  atanh(options) {
    return this.graph.atanh(this, options);
  }

  floor(options) {
    return this.graph.floor(this, options);
  }

  ceil(options) {
    return this.graph.ceil(this, options);
  }

  trunc(options) {
    return this.graph.trunc(this, options);
  }

  round(options) {
    return this.graph.round(this, options);
  }

  maximum(y, options) {
    return this.graph.maximum(this, y, options);
  }

  minimum(y, options) {
    return this.graph.minimum(this, y, options);
  }

  pow(y, options) {
    return this.graph.pow(this, y, options);
  }

  copysign(y, options) {
    return this.graph.copysign(this, y, options);
  }

  logaddexp(y, options) {
    return this.graph.logaddexp(this, y, options);
  }

  lerp(y, weight, options) {
    return this.graph.lerp(this, y, weight, options);
  }

  clamp(options) {
    return this.graph.clamp(this, options);
  }

  relu(options) {
    return this.graph.relu(this, options);
  }

  relu6(options) {
    return this.graph.relu6(this, options);
  }

  hardtanh(options) {
    return this.graph.hardtanh(this, options);
  }

  hardsigmoid(options) {
    return this.graph.hardsigmoid(this, options);
  }

  hardswish(options) {
    return this.graph.hardswish(this, options);
  }

  leakyRelu(options) {
    return this.graph.leakyRelu(this, options);
  }

  elu(options) {
    return this.graph.elu(this, options);
  }

  celu(options) {
    return this.graph.celu(this, options);
  }

  selu(options) {
    return this.graph.selu(this, options);
  }

  sigmoid(options) {
    return this.graph.sigmoid(this, options);
  }

  tanh(options) {
    return this.graph.tanh(this, options);
  }

  erf(options) {
    return this.graph.erf(this, options);
  }

  gelu(options) {
    return this.graph.gelu(this, options);
  }

  quickGelu(options) {
    return this.graph.quickGelu(this, options);
  }

  silu(options) {
    return this.graph.silu(this, options);
  }

  mish(options) {
    return this.graph.mish(this, options);
  }

  softsign(options) {
    return this.graph.softsign(this, options);
  }

  logsigmoid(options) {
    return this.graph.logsigmoid(this, options);
  }

  softplus(options) {
    return this.graph.softplus(this, options);
  }

  equal(y, options) {
    return this.graph.equal(this, y, options);
  }

  notEqual(y, options) {
    return this.graph.notEqual(this, y, options);
  }

  less(y, options) {
    return this.graph.less(this, y, options);
  }

  lessEqual(y, options) {
    return this.graph.lessEqual(this, y, options);
  }

  greater(y, options) {
    return this.graph.greater(this, y, options);
  }

  greaterEqual(y, options) {
    return this.graph.greaterEqual(this, y, options);
  }

  isnan(options) {
    return this.graph.isnan(this, options);
  }

  isfinite(options) {
    return this.graph.isfinite(this, options);
  }

  isinf(options) {
    return this.graph.isinf(this, options);
  }

  isclose(y, options) {
    return this.graph.isclose(this, y, options);
  }

  allclose(y, options) {
    return this.graph.allclose(this, y, options);
  }

  logicalAnd(y, options) {
    return this.graph.logicalAnd(this, y, options);
  }

  logicalOr(y, options) {
    return this.graph.logicalOr(this, y, options);
  }

  logicalXor(y, options) {
    return this.graph.logicalXor(this, y, options);
  }

  logicalNot(options) {
    return this.graph.logicalNot(this, options);
  }

  bitwiseAnd(y, options) {
    return this.graph.bitwiseAnd(this, y, options);
  }

  bitwiseOr(y, options) {
    return this.graph.bitwiseOr(this, y, options);
  }

  bitwiseXor(y, options) {
    return this.graph.bitwiseXor(this, y, options);
  }

  bitwiseNot(options) {
    return this.graph.bitwiseNot(this, options);
  }

  leftShift(y, options) {
    return this.graph.leftShift(this, y, options);
  }

  rightShift(y, options) {
    return this.graph.rightShift(this, y, options);
  }

  where(x, y, options) {
    return this.graph.where(this, x, y, options);
  }

  maskedFill(mask, value, options) {
    return this.graph.maskedFill(this, mask, value, options);
  }

  cast(dtype, options) {
    return this.graph.cast(this, dtype, options);
  }

  bitcast(dtype, options) {
    return this.graph.bitcast(this, dtype, options);
  }

  detach(options) {
    return this.graph.detach(this, options);
  }

  contiguous(options) {
    return this.graph.contiguous(this, options);
  }

  contiguousBackward(options) {
    return this.graph.contiguousBackward(this, options);
  }

  sum(options) {
    return this.graph.sum(this, options);
  }

  prod(options) {
    return this.graph.prod(this, options);
  }

  mean(options) {
    return this.graph.mean(this, options);
  }

  max(options) {
    return this.graph.max(this, options);
  }

  min(options) {
    return this.graph.min(this, options);
  }

  argmax(options) {
    return this.graph.argmax(this, options);
  }

  argmin(options) {
    return this.graph.argmin(this, options);
  }

  all(options) {
    return this.graph.all(this, options);
  }

  any(options) {
    return this.graph.any(this, options);
  }

  countNonzero(options) {
    return this.graph.countNonzero(this, options);
  }

  var(options) {
    return this.graph.var(this, options);
  }

  std(options) {
    return this.graph.std(this, options);
  }

  varMean(options) {
    return this.graph.varMean(this, options);
  }

  stdMean(options) {
    return this.graph.stdMean(this, options);
  }

  softmax(options) {
    return this.graph.softmax(this, options);
  }

  logSoftmax(options) {
    return this.graph.logSoftmax(this, options);
  }

  softmin(options) {
    return this.graph.softmin(this, options);
  }

  normalize(options) {
    return this.graph.normalize(this, options);
  }

  logsumexp(options) {
    return this.graph.logsumexp(this, options);
  }

  cumsum(options) {
    return this.graph.cumsum(this, options);
  }

  cumprod(options) {
    return this.graph.cumprod(this, options);
  }

  logcumsumexp(options) {
    return this.graph.logcumsumexp(this, options);
  }

  cummax(options) {
    return this.graph.cummax(this, options);
  }

  cummin(options) {
    return this.graph.cummin(this, options);
  }

  sort(options) {
    return this.graph.sort(this, options);
  }

  argsort(options) {
    return this.graph.argsort(this, options);
  }

  topk(k, options) {
    return this.graph.topk(this, k, options);
  }

  crossEntropy(target, options) {
    return this.graph.crossEntropy(this, target, options);
  }

  nllLoss(target, options) {
    return this.graph.nllLoss(this, target, options);
  }

  sparseCategoricalCrossentropy(target, options) {
    return this.graph.sparseCategoricalCrossentropy(this, target, options);
  }

  mseLoss(target, options) {
    return this.graph.mseLoss(this, target, options);
  }

  l1Loss(target, options) {
    return this.graph.l1Loss(this, target, options);
  }

  smoothL1Loss(target, options) {
    return this.graph.smoothL1Loss(this, target, options);
  }

  huberLoss(target, options) {
    return this.graph.huberLoss(this, target, options);
  }

  binaryCrossEntropy(target, options) {
    return this.graph.binaryCrossEntropy(this, target, options);
  }

  binaryCrossEntropyWithLogits(target, options) {
    return this.graph.binaryCrossEntropyWithLogits(this, target, options);
  }

  klDiv(target, options) {
    return this.graph.klDiv(this, target, options);
  }

  layerNorm(options) {
    return this.graph.layerNorm(this, options);
  }

  rmsNorm(options) {
    return this.graph.rmsNorm(this, options);
  }

  batchNorm(mean, var_, options) {
    return this.graph.batchNorm(this, mean, var_, options);
  }

  groupNorm(groups, options) {
    return this.graph.groupNorm(this, groups, options);
  }

  instanceNorm(options) {
    return this.graph.instanceNorm(this, options);
  }

  dropout(options) {
    return this.graph.dropout(this, options);
  }

  matmul(y, options) {
    return this.graph.matmul(this, y, options);
  }

  linear(weight, options) {
    return this.graph.linear(this, weight, options);
  }

  blockLinear(planes, format, options) {
    return this.graph.blockLinear(this, planes, format, options);
  }

  attention(k, v, options) {
    return this.graph.attention(this, k, v, options);
  }

  lstmCell(h, c, wIh, wHh, options) {
    return this.graph.lstmCell(this, h, c, wIh, wHh, options);
  }

  gruCell(h, wIh, wHh, options) {
    return this.graph.gruCell(this, h, wIh, wHh, options);
  }

  conv(weight, options) {
    return this.graph.conv(this, weight, options);
  }

  conv2d(weight, options) {
    return this.graph.conv2d(this, weight, options);
  }

  convTranspose(weight, options) {
    return this.graph.convTranspose(this, weight, options);
  }

  maxPool(kernelSize, options) {
    return this.graph.maxPool(this, kernelSize, options);
  }

  avgPool(kernelSize, options) {
    return this.graph.avgPool(this, kernelSize, options);
  }

  maxPool2d(kernelSize, options) {
    return this.graph.maxPool2d(this, kernelSize, options);
  }

  avgPool2d(kernelSize, options) {
    return this.graph.avgPool2d(this, kernelSize, options);
  }

  maxPoolIndices(kernelSize, options) {
    return this.graph.maxPoolIndices(this, kernelSize, options);
  }

  maxUnpool(indices, kernelSize, options) {
    return this.graph.maxUnpool(this, indices, kernelSize, options);
  }

  interpolate(size, options) {
    return this.graph.interpolate(this, size, options);
  }

  qr(options) {
    return this.graph.qr(this, options);
  }

  cholesky(options) {
    return this.graph.cholesky(this, options);
  }

  triangularSolve(b, options) {
    return this.graph.triangularSolve(this, b, options);
  }

  solve(b, options) {
    return this.graph.solve(this, b, options);
  }

  inverse(options) {
    return this.graph.inverse(this, options);
  }

  det(options) {
    return this.graph.det(this, options);
  }

  svd(options) {
    return this.graph.svd(this, options);
  }

  fft(options) {
    return this.graph.fft(this, options);
  }

  ifft(options) {
    return this.graph.ifft(this, options);
  }

  rfft(options) {
    return this.graph.rfft(this, options);
  }

  irfft(im, options) {
    return this.graph.irfft(this, im, options);
  }

  keccak(options) {
    return this.graph.keccak(this, options);
  }

  sha3224(options) {
    return this.graph.sha3224(this, options);
  }

  sha3256(options) {
    return this.graph.sha3256(this, options);
  }

  shake128(options) {
    return this.graph.shake128(this, options);
  }

  hash(options) {
    return this.graph.hash(this, options);
  }

  gather(index, options) {
    return this.graph.gather(this, index, options);
  }

  take(index, options) {
    return this.graph.take(this, index, options);
  }

  blockTake(planes, format, options) {
    return this.graph.blockTake(this, planes, format, options);
  }

  index(indices, options) {
    return this.graph.index(this, indices, options);
  }

  indexPut(value, indices, options) {
    return this.graph.indexPut(this, value, indices, options);
  }

  scatter(index, src, options) {
    return this.graph.scatter(this, index, src, options);
  }

  scatterReduce(index, src, reduce, options) {
    return this.graph.scatterReduce(this, index, src, reduce, options);
  }

  maskedSelect(mask, size, options) {
    return this.graph.maskedSelect(this, mask, size, options);
  }

  nonzero(size, options) {
    return this.graph.nonzero(this, size, options);
  }

  oneHot(numClasses, options) {
    return this.graph.oneHot(this, numClasses, options);
  }

  tril(options) {
    return this.graph.tril(this, options);
  }

  triu(options) {
    return this.graph.triu(this, options);
  }

  reshape(shape, options) {
    return this.graph.reshape(this, shape, options);
  }

  permute(axes, options) {
    return this.graph.permute(this, axes, options);
  }

  transpose(options) {
    return this.graph.transpose(this, options);
  }

  expand(shape, options) {
    return this.graph.expand(this, shape, options);
  }

  pad(padding, options) {
    return this.graph.pad(this, padding, options);
  }

  shrink(ranges, options) {
    return this.graph.shrink(this, ranges, options);
  }

  slice(options) {
    return this.graph.slice(this, options);
  }

  flip(options) {
    return this.graph.flip(this, options);
  }

  roll(shift, options) {
    return this.graph.roll(this, shift, options);
  }

  repeat(repeats, options) {
    return this.graph.repeat(this, repeats, options);
  }

  repeatInterleave(repeats, options) {
    return this.graph.repeatInterleave(this, repeats, options);
  }

  unfold(axis, size, step, options) {
    return this.graph.unfold(this, axis, size, step, options);
  }

  diagonal(options) {
    return this.graph.diagonal(this, options);
  }

  diag(options) {
    return this.graph.diag(this, options);
  }

  squeeze(options) {
    return this.graph.squeeze(this, options);
  }

  unsqueeze(axis, options) {
    return this.graph.unsqueeze(this, axis, options);
  }

  flatten(options) {
    return this.graph.flatten(this, options);
  }

  unflatten(axis, sizes, options) {
    return this.graph.unflatten(this, axis, sizes, options);
  }

  rearrange(formula, options) {
    return this.graph.rearrange(this, formula, options);
  }

  split(sizes, options) {
    return this.graph.split(this, sizes, options);
  }

  chunk(chunks, options) {
    return this.graph.chunk(this, chunks, options);
  }

  padTo(shape, options) {
    return this.graph.padTo(this, shape, options);
  }

  shrinkTo(shape, options) {
    return this.graph.shrinkTo(this, shape, options);
  }

  zerosLike(options) {
    return this.graph.zerosLike(this, options);
  }

  onesLike(options) {
    return this.graph.onesLike(this, options);
  }

  fullLike(value, options) {
    return this.graph.fullLike(this, value, options);
  }

  randLike(options) {
    return this.graph.randLike(this, options);
  }

  randnLike(options) {
    return this.graph.randnLike(this, options);
  }

  bernoulli(options) {
    return this.graph.bernoulli(this, options);
  }

  multinomial(options) {
    return this.graph.multinomial(this, options);
  }

  threefry(key, options) {
    return this.graph.threefry(this, key, options);
  }

  sgd(params, lr, options) {
    return this.graph.sgd(this, params, lr, options);
  }

  adam(params, options) {
    return this.graph.adam(this, params, options);
  }

  adamw(params, options) {
    return this.graph.adamw(this, params, options);
  }

  adagrad(params, options) {
    return this.graph.adagrad(this, params, options);
  }

  rmsprop(params, options) {
    return this.graph.rmsprop(this, params, options);
  }

  lamb(params, options) {
    return this.graph.lamb(this, params, options);
  }

  lars(params, options) {
    return this.graph.lars(this, params, options);
  }

  muon(params, options) {
    return this.graph.muon(this, params, options);
  }

  newtonSchulz(options) {
    return this.graph.newtonSchulz(this, options);
  }

  stepLr(lr, stepSize, options) {
    return this.graph.stepLr(this, lr, stepSize, options);
  }

  polynomialLr(lr, total, options) {
    return this.graph.polynomialLr(this, lr, total, options);
  }

  cosineLr(lr, total, options) {
    return this.graph.cosineLr(this, lr, total, options);
  }

  warmupLr(lr, warmup, options) {
    return this.graph.warmupLr(this, lr, warmup, options);
  }

  oneCycleLr(lr, total, options) {
    return this.graph.oneCycleLr(this, lr, total, options);
  }
}
