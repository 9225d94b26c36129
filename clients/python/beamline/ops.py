# SPDX-License-Identifier: MIT
# Made by tools/clients/python.py from proto/ops.json; change those.
"""A method for every op of the wire: of a graph, and, where the op begins with a tensor, of a tensor too.

Where a tensor is wanted, a number will do; a whole one takes the dtype of the other operand.  Sizes are whole numbers or
names of dimensions, or formulas of them such as "2 * n + 1".  ``name`` is the id of the node, or the list of its ids where
the op has several results; by default one is made up.  Shapes and dtypes are checked by the server: what cannot be is InvalidGraph, which says why and names the node.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .graph import Node

# What the server takes where an attribute is left out: these are not sent.
DEFAULTS = {
    "hardtanh": {"min": -1, "max": 1},
    "hardsigmoid": {"alpha": 0.16666666666666666, "beta": 0.5},
    "leaky_relu": {"negative_slope": 0.01},
    "elu": {"alpha": 1},
    "celu": {"alpha": 1},
    "selu": {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    "gelu": {"approximate": "none"},
    "softplus": {"beta": 1, "threshold": 20},
    "isinf": {"detect_positive": True, "detect_negative": True},
    "isclose": {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False},
    "allclose": {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False},
    "sum": {"keepdim": False},
    "prod": {"keepdim": False},
    "mean": {"keepdim": False},
    "max": {"keepdim": False},
    "min": {"keepdim": False},
    "argmax": {"keepdim": False},
    "argmin": {"keepdim": False},
    "all": {"keepdim": False},
    "any": {"keepdim": False},
    "count_nonzero": {"keepdim": False},
    "var": {"correction": 1, "keepdim": False},
    "std": {"correction": 1, "keepdim": False},
    "var_mean": {"correction": 1, "keepdim": False},
    "std_mean": {"correction": 1, "keepdim": False},
    "softmax": {"axis": -1},
    "log_softmax": {"axis": -1},
    "softmin": {"axis": -1},
    "normalize": {"p": 2, "axis": 1, "eps": 1e-12},
    "logsumexp": {"keepdim": False},
    "cumsum": {"axis": 0},
    "cumprod": {"axis": 0},
    "logcumsumexp": {"axis": 0},
    "cummax": {"axis": 0},
    "cummin": {"axis": 0},
    "sort": {"axis": -1, "descending": False},
    "argsort": {"axis": -1, "descending": False},
    "topk": {"axis": -1, "largest": True},
    "cross_entropy": {"reduction": "mean", "label_smoothing": 0},
    "nll_loss": {"reduction": "mean"},
    "sparse_categorical_crossentropy": {"reduction": "mean", "ignore_index": -1, "label_smoothing": 0},
    "mse_loss": {"reduction": "mean"},
    "l1_loss": {"reduction": "mean"},
    "smooth_l1_loss": {"beta": 1, "reduction": "mean"},
    "huber_loss": {"delta": 1, "reduction": "mean"},
    "binary_cross_entropy": {"reduction": "mean"},
    "binary_cross_entropy_with_logits": {"reduction": "mean"},
    "kl_div": {"reduction": "mean", "log_target": False},
    "layer_norm": {"axis": -1, "eps": 1e-05},
    "rms_norm": {"axis": -1, "eps": 1e-06},
    "batch_norm": {"axis": 1, "eps": 1e-05},
    "group_norm": {"eps": 1e-05},
    "instance_norm": {"eps": 1e-05},
    "dropout": {"p": 0.5},
    "block_linear": {"activations": "float32"},
    "attention": {"causal": False, "grouped": False},
    "conv": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "form": "auto"},
    "conv2d": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "form": "auto"},
    "conv_transpose": {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1},
    "max_pool": {"padding": 0, "dilation": 1, "ceil_mode": False, "dims": 2},
    "avg_pool": {"padding": 0, "ceil_mode": False, "count_include_pad": True, "dims": 2},
    "max_pool2d": {"padding": 0, "dilation": 1, "ceil_mode": False},
    "avg_pool2d": {"padding": 0, "count_include_pad": True, "ceil_mode": False},
    "max_pool_indices": {"padding": 0, "dilation": 1, "ceil_mode": False, "dims": 2},
    "max_unpool": {"padding": 0, "dims": 2},
    "interpolate": {"mode": "nearest", "align_corners": False},
    "triangular_solve": {"upper": False},
    "svd": {"full_matrices": True},
    "fft": {"axis": -1},
    "ifft": {"axis": -1},
    "rfft": {"axis": -1},
    "irfft": {"axis": -1},
    "keccak": {"rate": 136, "suffix": 6, "size": 32},
    "shake_128": {"size": 16},
    "gather": {"axis": 0},
    "take": {"axis": 0},
    "index": {"axis": 0},
    "index_put": {"axis": 0, "accumulate": False},
    "scatter": {"axis": 0, "reduce": "none"},
    "scatter_reduce": {"axis": 0, "include_self": True},
    "masked_select": {"fill": 0},
    "nonzero": {"fill": 0},
    "one_hot": {"dtype": "int64"},
    "tril": {"diagonal": 0},
    "triu": {"diagonal": 0},
    "transpose": {"axis0": -2, "axis1": -1},
    "pad": {"value": 0, "mode": "constant"},
    "diagonal": {"offset": 0, "axis0": 0, "axis1": 1},
    "diag": {"offset": 0},
    "flatten": {"start_axis": 0, "end_axis": -1},
    "cat": {"axis": 0},
    "stack": {"axis": 0},
    "split": {"axis": 0},
    "chunk": {"axis": 0},
    "meshgrid": {"indexing": "ij"},
    "pad_to": {"value": 0},
    "arange": {"start": 0, "step": 1},
    "linspace": {"dtype": "float32"},
    "full": {"dtype": "float32"},
    "zeros": {"dtype": "float32"},
    "ones": {"dtype": "float32"},
    "eye": {"dtype": "float32"},
    "uniform": {"low": 0, "high": 1, "dtype": "float32"},
    "normal": {"mean": 0, "std": 1, "dtype": "float32"},
    "randint": {"low": 0, "dtype": "int64"},
    "randperm": {"dtype": "int64"},
    "step": {"dtype": "int64"},
    "batch_index": {"shuffle": True},
    "kaiming_uniform": {"a": 0, "mode": "fan_in", "dtype": "float32"},
    "kaiming_normal": {"a": 0, "mode": "fan_in", "dtype": "float32"},
    "glorot_uniform": {"dtype": "float32"},
    "scaled_uniform": {"dtype": "float32"},
    "multinomial": {"num_samples": 1, "replacement": False},
    "scan": {"carries": 1, "sequences": 0, "reverse": False},
    "grad": {"cotangent": False},
    "sgd": {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
    "adam": {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0},
    "adamw": {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0.01},
    "adagrad": {"lr": 0.01, "lr_decay": 0, "weight_decay": 0, "eps": 1e-10},
    "rmsprop": {"lr": 0.01, "alpha": 0.99, "eps": 1e-08, "weight_decay": 0, "momentum": 0},
    "lamb": {"lr": 0.001, "b1": 0.9, "b2": 0.999, "eps": 1e-06, "weight_decay": 0},
    "lars": {"lr": 0.001, "momentum": 0.9, "weight_decay": 0.0001, "nesterov": False, "classic": True, "tcoef": 0.001},
    "muon": {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1, "steps": 5, "nesterov": True},
    "newton_schulz": {"steps": 5, "params": (3.4445, -4.775, 2.0315), "eps": 1e-07},
    "step_lr": {"gamma": 0.1},
    "polynomial_lr": {"power": 1, "end": 0},
    "cosine_lr": {"end": 0},
    "one_cycle_lr": {"pct_start": 0.3, "div": 25, "final_div": 10000},
}
# Ops whose results are a list, even of one.
LISTED = ("var_mean", "std_mean", "cummax", "cummin", "sort", "topk", "lstm_cell", "max_pool_indices", "qr", "svd",
          "fft", "ifft", "rfft", "masked_select", "nonzero", "split", "chunk", "meshgrid", "scan", "cond", "grad",
          "sgd", "adam", "adamw", "adagrad", "rmsprop", "lamb", "lars", "muon", "clip_grad_norm")


class GraphOps:
    """Ops as methods of a graph."""

    def add(self, x, y, *, name=None) -> Node:
        """x + y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("add", [x, y], {}, name)

    def sub(self, x, y, *, name=None) -> Node:
        """x - y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("sub", [x, y], {}, name)

    def mul(self, x, y, *, name=None) -> Node:
        """x * y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("mul", [x, y], {}, name)

    def div(self, x, y, *, name=None) -> Node:
        """x / y; integers give float32

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.op("div", [x, y], {}, name)

    def floor_div(self, x, y, *, name=None) -> Node:
        """floor of x / y; an integer by zero gives 0

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("floor_div", [x, y], {}, name)

    def trunc_div(self, x, y, *, name=None) -> Node:
        """x / y towards zero; an integer by zero gives 0

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("trunc_div", [x, y], {}, name)

    def mod(self, x, y, *, name=None) -> Node:
        """x - y * floor(x / y), with the sign of y; an integer by zero gives 0

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("mod", [x, y], {}, name)

    def fmod(self, x, y, *, name=None) -> Node:
        """x - y * trunc(x / y), with the sign of x; an integer by zero gives x

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("fmod", [x, y], {}, name)

    def neg(self, x, *, name=None) -> Node:
        """-x

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("neg", [x], {}, name)

    def abs(self, x, *, name=None) -> Node:
        """|x|

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("abs", [x], {}, name)

    def sign(self, x, *, name=None) -> Node:
        """-1, 0 or 1

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("sign", [x], {}, name)

    def square(self, x, *, name=None) -> Node:
        """x * x

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("square", [x], {}, name)

    def sqrt(self, x, *, name=None) -> Node:
        """square root

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sqrt", [x], {}, name)

    def rsqrt(self, x, *, name=None) -> Node:
        """1 / square root

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("rsqrt", [x], {}, name)

    def reciprocal(self, x, *, name=None) -> Node:
        """1 / x

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("reciprocal", [x], {}, name)

    def exp(self, x, *, name=None) -> Node:
        """e to the x

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("exp", [x], {}, name)

    def exp2(self, x, *, name=None) -> Node:
        """2 to the x

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("exp2", [x], {}, name)

    def expm1(self, x, *, name=None) -> Node:
        """exp(x) - 1, also where that is small

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("expm1", [x], {}, name)

    def log(self, x, *, name=None) -> Node:
        """natural logarithm

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("log", [x], {}, name)

    def log2(self, x, *, name=None) -> Node:
        """logarithm to base 2

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("log2", [x], {}, name)

    def log10(self, x, *, name=None) -> Node:
        """logarithm to base 10

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("log10", [x], {}, name)

    def log1p(self, x, *, name=None) -> Node:
        """log(1 + x), also where x is small

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("log1p", [x], {}, name)

    def sin(self, x, *, name=None) -> Node:
        """sine of radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sin", [x], {}, name)

    def cos(self, x, *, name=None) -> Node:
        """cosine of radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("cos", [x], {}, name)

    def tan(self, x, *, name=None) -> Node:
        """tangent of radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("tan", [x], {}, name)

    def asin(self, x, *, name=None) -> Node:
        """inverse sine, in radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("asin", [x], {}, name)

    def acos(self, x, *, name=None) -> Node:
        """inverse cosine, in radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("acos", [x], {}, name)

    def atan(self, x, *, name=None) -> Node:
        """inverse tangent, in radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("atan", [x], {}, name)

    def atan2(self, y, x, *, name=None) -> Node:
        """the angle of the point (x, y), in radians

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        Returns: a tensor of floats
        """
        return self.op("atan2", [y, x], {}, name)

    def sinh(self, x, *, name=None) -> Node:
        """hyperbolic sine

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sinh", [x], {}, name)

    def cosh(self, x, *, name=None) -> Node:
        """hyperbolic cosine

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("cosh", [x], {}, name)

    def asinh(self, x, *, name=None) -> Node:
        """inverse hyperbolic sine

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("asinh", [x], {}, name)

    def acosh(self, x, *, name=None) -> Node:
        """inverse hyperbolic cosine

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("acosh", [x], {}, name)

    def atanh(self, x, *, name=None) -> Node:
        """inverse hyperbolic tangent

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("atanh", [x], {}, name)

    def floor(self, x, *, name=None) -> Node:
        """the next whole number below

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("floor", [x], {}, name)

    def ceil(self, x, *, name=None) -> Node:
        """the next whole number above

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("ceil", [x], {}, name)

    def trunc(self, x, *, name=None) -> Node:
        """towards zero

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("trunc", [x], {}, name)

    def round(self, x, *, name=None) -> Node:
        """the nearest whole number; a half goes to the even one

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("round", [x], {}, name)

    def maximum(self, x, y, *, name=None) -> Node:
        """the larger; NaN if either is

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("maximum", [x, y], {}, name)

    def minimum(self, x, y, *, name=None) -> Node:
        """the smaller; NaN if either is

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("minimum", [x, y], {}, name)

    def pow(self, x, y, *, name=None) -> Node:
        """x to the y; an integer to a negative power gives 0, but 1 and -1 stay

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("pow", [x, y], {}, name)

    def copysign(self, x, y, *, name=None) -> Node:
        """|x| with the sign of y, also where that is a zero or NaN

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.op("copysign", [x, y], {}, name)

    def logaddexp(self, x, y, *, name=None) -> Node:
        """log(exp(x) + exp(y))

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.op("logaddexp", [x, y], {}, name)

    def lerp(self, x, y, weight, *, name=None) -> Node:
        """x + (y - x) * weight

        x: tensor of floats (integers and bool become float32), brought to one dtype with y, weight
        y: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, y
        Returns: a tensor of floats
        """
        return self.op("lerp", [x, y, weight], {}, name)

    def clamp(self, x, min=None, max=None, *, name=None) -> Node:
        """x, but not below min nor above max

        x: tensor of any dtype
        min: number
        max: number
        Returns: a tensor
        """
        return self.op("clamp", [x], {"min": min, "max": max}, name)

    def relu(self, x, *, name=None) -> Node:
        """max(x, 0)

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("relu", [x], {}, name)

    def relu6(self, x, *, name=None) -> Node:
        """x held between 0 and 6

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("relu6", [x], {}, name)

    def hardtanh(self, x, min=-1, max=1, *, name=None) -> Node:
        """x held between min and max; no gradient there

        x: tensor of any dtype
        min: number
        max: number
        Returns: a tensor
        """
        return self.op("hardtanh", [x], {"min": min, "max": max}, name)

    def hardsigmoid(self, x, alpha=0.16666666666666666, beta=0.5, *, name=None) -> Node:
        """alpha * x + beta held between 0 and 1

        x: tensor of floats (integers and bool become float32)
        alpha: number
        beta: number
        Returns: a tensor of floats
        """
        return self.op("hardsigmoid", [x], {"alpha": alpha, "beta": beta}, name)

    def hardswish(self, x, *, name=None) -> Node:
        """x * hardsigmoid(x)

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("hardswish", [x], {}, name)

    def leaky_relu(self, x, negative_slope=0.01, *, name=None) -> Node:
        """x where positive, else negative_slope * x

        x: tensor of floats (integers and bool become float32)
        negative_slope: number
        Returns: a tensor of floats
        """
        return self.op("leaky_relu", [x], {"negative_slope": negative_slope}, name)

    def elu(self, x, alpha=1, *, name=None) -> Node:
        """x where positive, else alpha * (exp(x) - 1)

        x: tensor of floats (integers and bool become float32)
        alpha: number
        Returns: a tensor of floats
        """
        return self.op("elu", [x], {"alpha": alpha}, name)

    def celu(self, x, alpha=1, *, name=None) -> Node:
        """x where positive, else alpha * (exp(x / alpha) - 1)

        x: tensor of floats (integers and bool become float32)
        alpha: number
        Returns: a tensor of floats
        """
        return self.op("celu", [x], {"alpha": alpha}, name)

    def selu(self, x, alpha=1.6732632423543772, gamma=1.0507009873554805, *, name=None) -> Node:
        """gamma * elu(x), which keeps mean and variance

        x: tensor of floats (integers and bool become float32)
        alpha: number
        gamma: number
        Returns: a tensor of floats
        """
        return self.op("selu", [x], {"alpha": alpha, "gamma": gamma}, name)

    def sigmoid(self, x, *, name=None) -> Node:
        """1 / (1 + exp(-x))

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sigmoid", [x], {}, name)

    def tanh(self, x, *, name=None) -> Node:
        """hyperbolic tangent

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("tanh", [x], {}, name)

    def erf(self, x, *, name=None) -> Node:
        """error function

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("erf", [x], {}, name)

    def gelu(self, x, approximate="none", *, name=None) -> Node:
        """x times the normal distribution function of x

        x: tensor of floats (integers and bool become float32)
        approximate: "none" or "tanh"
        Returns: a tensor of floats
        """
        return self.op("gelu", [x], {"approximate": approximate}, name)

    def quick_gelu(self, x, *, name=None) -> Node:
        """x * sigmoid(1.702 * x)

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("quick_gelu", [x], {}, name)

    def silu(self, x, *, name=None) -> Node:
        """x * sigmoid(x)

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("silu", [x], {}, name)

    def mish(self, x, *, name=None) -> Node:
        """x * tanh(softplus(x))

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("mish", [x], {}, name)

    def softsign(self, x, *, name=None) -> Node:
        """x / (1 + |x|)

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("softsign", [x], {}, name)

    def logsigmoid(self, x, *, name=None) -> Node:
        """log(sigmoid(x)), also where that is far below 0

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("logsigmoid", [x], {}, name)

    def softplus(self, x, beta=1, threshold=20, *, name=None) -> Node:
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold

        x: tensor of floats (integers and bool become float32)
        beta: number
        threshold: number
        Returns: a tensor of floats
        """
        return self.op("softplus", [x], {"beta": beta, "threshold": threshold}, name)

    def equal(self, x, y, *, name=None) -> Node:
        """x == y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("equal", [x, y], {}, name)

    def not_equal(self, x, y, *, name=None) -> Node:
        """x != y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("not_equal", [x, y], {}, name)

    def less(self, x, y, *, name=None) -> Node:
        """x < y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("less", [x, y], {}, name)

    def less_equal(self, x, y, *, name=None) -> Node:
        """x <= y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("less_equal", [x, y], {}, name)

    def greater(self, x, y, *, name=None) -> Node:
        """x > y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("greater", [x, y], {}, name)

    def greater_equal(self, x, y, *, name=None) -> Node:
        """x >= y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("greater_equal", [x, y], {}, name)

    def isnan(self, x, *, name=None) -> Node:
        """is it NaN

        x: tensor of any dtype
        Returns: a tensor of bool
        """
        return self.op("isnan", [x], {}, name)

    def isfinite(self, x, *, name=None) -> Node:
        """is it neither NaN nor infinite

        x: tensor of any dtype
        Returns: a tensor of bool
        """
        return self.op("isfinite", [x], {}, name)

    def isinf(self, x, detect_positive=True, detect_negative=True, *, name=None) -> Node:
        """is it infinite

        x: tensor of any dtype
        detect_positive: True or False
        detect_negative: True or False
        Returns: a tensor of bool
        """
        return self.op("isinf", [x], {"detect_positive": detect_positive, "detect_negative": detect_negative}, name)

    def isclose(self, x, y, rtol=1e-05, atol=1e-08, equal_nan=False, *, name=None) -> Node:
        """|x - y| <= atol + rtol * |y|

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        rtol: number
        atol: number
        equal_nan: True or False
        Returns: a tensor of bool
        """
        return self.op("isclose", [x, y], {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}, name)

    def allclose(self, x, y, rtol=1e-05, atol=1e-08, equal_nan=False, *, name=None) -> Node:
        """are all |x - y| <= atol + rtol * |y|

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        rtol: number
        atol: number
        equal_nan: True or False
        Returns: a tensor of bool
        """
        return self.op("allclose", [x, y], {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}, name)

    def logical_and(self, x, y, *, name=None) -> Node:
        """both are not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_and", [x, y], {}, name)

    def logical_or(self, x, y, *, name=None) -> Node:
        """one or both are not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_or", [x, y], {}, name)

    def logical_xor(self, x, y, *, name=None) -> Node:
        """one of them is not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_xor", [x, y], {}, name)

    def logical_not(self, x, *, name=None) -> Node:
        """is it zero

        x: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_not", [x], {}, name)

    def bitwise_and(self, x, y, *, name=None) -> Node:
        """bits that both have

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_and", [x, y], {}, name)

    def bitwise_or(self, x, y, *, name=None) -> Node:
        """bits that one or both have

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_or", [x, y], {}, name)

    def bitwise_xor(self, x, y, *, name=None) -> Node:
        """bits that one of them has

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_xor", [x, y], {}, name)

    def bitwise_not(self, x, *, name=None) -> Node:
        """every bit turned

        x: tensor of integers or bool
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_not", [x], {}, name)

    def left_shift(self, x, y, *, name=None) -> Node:
        """x * 2^y modulo the width; 0 from the width on

        x: tensor of integers, brought to one dtype with y
        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.op("left_shift", [x, y], {}, name)

    def right_shift(self, x, y, *, name=None) -> Node:
        """floor of x / 2^y

        x: tensor of integers, brought to one dtype with y
        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.op("right_shift", [x, y], {}, name)

    def where(self, condition, x, y, *, name=None) -> Node:
        """x where the condition holds, else y

        condition: tensor of bool (numbers become "not zero")
        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("where", [condition, x, y], {}, name)

    def masked_fill(self, x, mask, value, *, name=None) -> Node:
        """the value where the mask holds, else x

        x: tensor of any dtype, brought to one dtype with value
        mask: tensor of bool (numbers become "not zero")
        value: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("masked_fill", [x, mask, value], {}, name)

    def cast(self, x, dtype, *, name=None) -> Node:
        """conversion by value; float to integer truncates and saturates

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("cast", [x], {"dtype": dtype}, name)

    def bitcast(self, x, dtype, *, name=None) -> Node:
        """the same bits as another dtype; one of another size makes the last axis longer or shorter, the lowest bits
            first

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("bitcast", [x], {"dtype": dtype}, name)

    def detach(self, x, *, name=None) -> Node:
        """x, through which no gradient flows

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("detach", [x], {}, name)

    def contiguous(self, x, *, name=None) -> Node:
        """x, written to a buffer of its own

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("contiguous", [x], {}, name)

    def contiguous_backward(self, x, *, name=None) -> Node:
        """x, whose gradient is written to a buffer of its own

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("contiguous_backward", [x], {}, name)

    def sum(self, x, axis=None, keepdim=False, dtype=None, *, name=None) -> Node:
        """sum, in the dtype; without, bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        dtype: dtype
        Returns: a tensor
        """
        return self.op("sum", [x], {"axis": axis, "keepdim": keepdim, "dtype": dtype}, name)

    def prod(self, x, axis=None, keepdim=False, dtype=None, *, name=None) -> Node:
        """product, in the dtype; without, bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        dtype: dtype
        Returns: a tensor
        """
        return self.op("prod", [x], {"axis": axis, "keepdim": keepdim, "dtype": dtype}, name)

    def mean(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """arithmetic mean

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("mean", [x], {"axis": axis, "keepdim": keepdim}, name)

    def max(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """the largest; its gradient is shared between equals

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("max", [x], {"axis": axis, "keepdim": keepdim}, name)

    def min(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """the smallest; its gradient is shared between equals

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("min", [x], {"axis": axis, "keepdim": keepdim}, name)

    def argmax(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """where the largest is, the first of equals; without axis in the flattened tensor

        x: tensor of any dtype
        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.op("argmax", [x], {"axis": axis, "keepdim": keepdim}, name)

    def argmin(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """where the smallest is, the first of equals; without axis in the flattened tensor

        x: tensor of any dtype
        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.op("argmin", [x], {"axis": axis, "keepdim": keepdim}, name)

    def all(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """none is zero

        x: tensor of bool (numbers become "not zero")
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.op("all", [x], {"axis": axis, "keepdim": keepdim}, name)

    def any(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """some is not zero

        x: tensor of bool (numbers become "not zero")
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.op("any", [x], {"axis": axis, "keepdim": keepdim}, name)

    def count_nonzero(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """how many are not zero

        x: tensor of bool (numbers become "not zero")
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.op("count_nonzero", [x], {"axis": axis, "keepdim": keepdim}, name)

    def var(self, x, axis=None, correction=1, keepdim=False, *, name=None) -> Node:
        """variance, divided by the count less the correction

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("var", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name)

    def std(self, x, axis=None, correction=1, keepdim=False, *, name=None) -> Node:
        """square root of var; the gradient is 0 where var is 0

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("std", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name)

    def var_mean(self, x, axis=None, correction=1, keepdim=False, *, name=None) -> list[Node]:
        """var and mean

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("var_mean", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name, results=2)

    def std_mean(self, x, axis=None, correction=1, keepdim=False, *, name=None) -> list[Node]:
        """std and mean

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("std_mean", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name, results=2)

    def softmax(self, x, axis=-1, *, name=None) -> Node:
        """exp(x) divided by its sum

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("softmax", [x], {"axis": axis}, name)

    def log_softmax(self, x, axis=-1, *, name=None) -> Node:
        """logarithm of softmax

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("log_softmax", [x], {"axis": axis}, name)

    def softmin(self, x, axis=-1, *, name=None) -> Node:
        """softmax of -x

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("softmin", [x], {"axis": axis}, name)

    def normalize(self, x, p=2, axis=1, eps=1e-12, *, name=None) -> Node:
        """x divided by its p-norm over the axes, which counts as eps at least

        x: tensor of floats (integers and bool become float32)
        p: number
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.op("normalize", [x], {"p": p, "axis": axis, "eps": eps}, name)

    def logsumexp(self, x, axis=None, keepdim=False, *, name=None) -> Node:
        """log(sum(exp(x)))

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("logsumexp", [x], {"axis": axis, "keepdim": keepdim}, name)

    def cumsum(self, x, axis=0, dtype=None, *, name=None) -> Node:
        """the sum of each element and all before it; bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("cumsum", [x], {"axis": axis, "dtype": dtype}, name)

    def cumprod(self, x, axis=0, dtype=None, *, name=None) -> Node:
        """the product of each element and all before it; bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("cumprod", [x], {"axis": axis, "dtype": dtype}, name)

    def logcumsumexp(self, x, axis=0, *, name=None) -> Node:
        """log(cumsum(exp(x)))

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("logcumsumexp", [x], {"axis": axis}, name)

    def cummax(self, x, axis=0, *, name=None) -> list[Node]:
        """the largest of each element and all before it, and where the latest such one is

        x: tensor of any dtype
        axis: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("cummax", [x], {"axis": axis}, name, results=2)

    def cummin(self, x, axis=0, *, name=None) -> list[Node]:
        """the smallest of each element and all before it, and where the latest such one is

        x: tensor of any dtype
        axis: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("cummin", [x], {"axis": axis}, name, results=2)

    def sort(self, x, axis=-1, descending=False, *, name=None) -> list[Node]:
        """in order along the axis, and where each element was; equals keep their order, NaN is the largest

        x: tensor of any dtype
        axis: whole number
        descending: True or False
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("sort", [x], {"axis": axis, "descending": descending}, name, results=2)

    def argsort(self, x, axis=-1, descending=False, *, name=None) -> Node:
        """where the elements of the sorted axis are

        x: tensor of any dtype
        axis: whole number
        descending: True or False
        Returns: a tensor of int64
        """
        return self.op("argsort", [x], {"axis": axis, "descending": descending}, name)

    def topk(self, x, k, axis=-1, largest=True, *, name=None) -> list[Node]:
        """the k largest (or smallest) along the axis, in order, and where they are

        x: tensor of any dtype
        k: size
        axis: whole number
        largest: True or False
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("topk", [x], {"k": k, "axis": axis, "largest": largest}, name, results=2)

    def cross_entropy(self, x, target, weight=None, reduction="mean", ignore_index=None, label_smoothing=0, *, name=None) -> Node:
        """of logits [N, C, ...] (or [C]) and class indices [N, ...], or probabilities in the shape of x; weight [C]
            weighs the classes; an index that is no class counts as 0, or, unless it is ignore_index, is an error with
            check_indices

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight
        target: tensor of any dtype
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        label_smoothing: number
        Returns: a tensor of floats
        """
        return self.op("cross_entropy", [x, target, weight], {"reduction": reduction, "ignore_index": ignore_index,
            "label_smoothing": label_smoothing}, name)

    def nll_loss(self, x, target, weight=None, reduction="mean", ignore_index=None, *, name=None) -> Node:
        """of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]; weight [C] weighs the classes

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight
        target: tensor of integers
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.op("nll_loss", [x, target, weight], {"reduction": reduction, "ignore_index": ignore_index}, name)

    def sparse_categorical_crossentropy(self, x, target, reduction="mean", ignore_index=-1, label_smoothing=0, *, name=None) -> Node:
        """cross_entropy of logits [..., C] and class indices [...]

        x: tensor of floats (integers and bool become float32)
        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        label_smoothing: number
        Returns: a tensor of floats
        """
        return self.op("sparse_categorical_crossentropy", [x, target], {"reduction": reduction, "ignore_index": ignore_index,
            "label_smoothing": label_smoothing}, name)

    def mse_loss(self, x, target, reduction="mean", *, name=None) -> Node:
        """squared difference

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("mse_loss", [x, target], {"reduction": reduction}, name)

    def l1_loss(self, x, target, reduction="mean", *, name=None) -> Node:
        """|x - target|

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("l1_loss", [x, target], {"reduction": reduction}, name)

    def smooth_l1_loss(self, x, target, beta=1, reduction="mean", *, name=None) -> Node:
        """squared difference / (2 * beta) below beta, |difference| - beta / 2 above

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        beta: number
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("smooth_l1_loss", [x, target], {"beta": beta, "reduction": reduction}, name)

    def huber_loss(self, x, target, delta=1, reduction="mean", *, name=None) -> Node:
        """squared difference / 2 below delta, a straight line above

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        delta: number
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("huber_loss", [x, target], {"delta": delta, "reduction": reduction}, name)

    def binary_cross_entropy(self, x, target, reduction="mean", *, name=None) -> Node:
        """of probabilities; a logarithm counts as -100 at least

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("binary_cross_entropy", [x, target], {"reduction": reduction}, name)

    def binary_cross_entropy_with_logits(self, x, target, pos_weight=None, reduction="mean", *, name=None) -> Node:
        """of logits; pos_weight weighs the positive class

        x: tensor of floats (integers and bool become float32), brought to one dtype with target, pos_weight
        target: tensor of floats (integers and bool become float32), brought to one dtype with x, pos_weight
        pos_weight: tensor of floats (integers and bool become float32), brought to one dtype with x, target
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("binary_cross_entropy_with_logits", [x, target, pos_weight], {"reduction": reduction}, name)

    def kl_div(self, x, target, reduction="mean", log_target=False, *, name=None) -> Node:
        """of log-probabilities x and probabilities (or their logarithms) target

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        log_target: True or False
        Returns: a tensor of floats
        """
        return self.op("kl_div", [x, target], {"reduction": reduction, "log_target": log_target}, name)

    def layer_norm(self, x, weight=None, bias=None, axis=-1, eps=1e-05, *, name=None) -> Node:
        """(x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.op("layer_norm", [x, weight, bias], {"axis": axis, "eps": eps}, name)

    def rms_norm(self, x, weight=None, axis=-1, eps=1e-06, *, name=None) -> Node:
        """x / sqrt(mean(x^2) + eps) over the axes, times weight

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.op("rms_norm", [x, weight], {"axis": axis, "eps": eps}, name)

    def batch_norm(self, x, mean, var, weight=None, bias=None, axis=1, eps=1e-05, *, name=None) -> Node:
        """(x - mean) / sqrt(var + eps) * weight + bias, with statistics and weights along one axis

        x: tensor of floats (integers and bool become float32), brought to one dtype with mean, var, weight, bias
        mean: tensor of floats (integers and bool become float32), brought to one dtype with x, var, weight, bias
        var: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, var, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, var, weight
        axis: whole number
        eps: number
        Returns: a tensor of floats
        """
        return self.op("batch_norm", [x, mean, var, weight, bias], {"axis": axis, "eps": eps}, name)

    def group_norm(self, x, groups, *, weight=None, bias=None, eps=1e-05, name=None) -> Node:
        """normalised over each group of channels of [N, C, ...], times weight [C], plus bias [C]

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        groups: whole number
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        eps: number
        Returns: a tensor of floats
        """
        return self.op("group_norm", [x, weight, bias], {"groups": groups, "eps": eps}, name)

    def instance_norm(self, x, weight=None, bias=None, eps=1e-05, *, name=None) -> Node:
        """normalised over each channel of [N, C, ...], times weight [C], plus bias [C]

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        eps: number
        Returns: a tensor of floats
        """
        return self.op("instance_norm", [x, weight, bias], {"eps": eps}, name)

    def dropout(self, x, p=0.5, seed=None, *, key=None, name=None) -> Node:
        """0 with probability p, else x / (1 - p); drops always

        x: tensor of floats (integers and bool become float32)
        p: number
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("dropout", [x, key], {"p": p, "seed": seed}, name)

    def matmul(self, x, y, *, name=None) -> Node:
        """matrix product over the last two axes, the others broadcast; vectors as in PyTorch

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("matmul", [x, y], {}, name)

    def einsum(self, xs, equation, *, name=None) -> Node:
        """sums of products by the letters of their axes, as in "bij,bjk->bik", with "..." for axes that broadcast

        xs: list, each a tensor of any dtype
        equation: string
        Returns: a tensor
        """
        return self.op("einsum", [*xs], {"equation": equation}, name)

    def linear(self, x, weight, bias=None, *, name=None) -> Node:
        """x @ weight^T + bias, weight [out, in]

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        Returns: a tensor of floats
        """
        return self.op("linear", [x, weight, bias], {}, name)

    def block_linear(self, x, planes, format, rows=None, activations="float32", *, name=None) -> Node:
        """x @ weight^T with a block-quantised weight [.., out, in], given as the planes of its format: see [quantised
            weights](quantised.md); rows: the rows of the matrix, if the last group of 16 is filled up; activations:
            int8 rounds x to integers times a scale, in chunks of 32 columns

        x: tensor of floats (integers and bool become float32)
        planes: list, each a tensor of any dtype
        format: "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs" or
            "mxfp4"
        rows: whole number
        activations: "float32" or "int8"
        Returns: a tensor of floats
        """
        return self.op("block_linear", [x, *planes], {"format": format, "rows": rows, "activations": activations}, name)

    def attention(self, q, k, v, mask=None, causal=False, scale=None, grouped=False, *, name=None) -> Node:
        """softmax(q @ k^T * scale + mask) @ v over [..., length, size]; scale is 1 / sqrt(size) unless given; a bool
            mask says where to look; causal: not ahead; grouped: k and v have fewer heads (axis -3)

        q: tensor of floats (integers and bool become float32), brought to one dtype with k, v
        k: tensor of floats (integers and bool become float32), brought to one dtype with q, v
        v: tensor of floats (integers and bool become float32), brought to one dtype with q, k
        mask: tensor of any dtype
        causal: True or False
        scale: number
        grouped: True or False
        Returns: a tensor of floats
        """
        return self.op("attention", [q, k, v, mask], {"causal": causal, "scale": scale, "grouped": grouped}, name)

    def lstm_cell(self, x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, *, name=None) -> list[Node]:
        """torch.nn.LSTMCell: the new h and c; weights [4 * n, ...] for input, forget, cell and output gates

        x: tensor of floats (integers and bool become float32), brought to one dtype with h, c, w_ih, w_hh, b_ih, b_hh
        h: tensor of floats (integers and bool become float32), brought to one dtype with x, c, w_ih, w_hh, b_ih, b_hh
        c: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih, b_hh
        w_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_hh, b_ih, b_hh
        w_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, b_ih, b_hh
        b_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, w_hh, b_hh
        b_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, w_hh, b_ih
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("lstm_cell", [x, h, c, w_ih, w_hh, b_ih, b_hh], {}, name, results=2)

    def gru_cell(self, x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, name=None) -> Node:
        """torch.nn.GRUCell: the new h; weights [3 * n, ...] for reset, update and new gates

        x: tensor of floats (integers and bool become float32), brought to one dtype with h, w_ih, w_hh, b_ih, b_hh
        h: tensor of floats (integers and bool become float32), brought to one dtype with x, w_ih, w_hh, b_ih, b_hh
        w_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_hh, b_ih, b_hh
        w_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, b_ih, b_hh
        b_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_hh
        b_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih
        Returns: a tensor of floats
        """
        return self.op("gru_cell", [x, h, w_ih, w_hh, b_ih, b_hh], {}, name)

    def conv(self, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, form="auto", *, name=None) -> Node:
        """x [N, C, ...], weight [O, C / groups, ...], bias [O]; padding is one number, one for each axis, or [before,
            after] for each, flat; form: see conv2d

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        form: "auto", "direct" or "winograd"
        Returns: a tensor of floats
        """
        return self.op("conv", [x, weight, bias], {"stride": stride, "padding": padding, "dilation": dilation, "groups":
            groups, "form": form}, name)

    def conv2d(self, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, form="auto", *, name=None) -> Node:
        """x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]; form: how float32 by 3 x 3 at stride 1 is computed,
            as a sum of products or by Winograd's transforms, which round otherwise; auto takes what should be the
            faster

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        form: "auto", "direct" or "winograd"
        Returns: a tensor of floats
        """
        return self.op("conv2d", [x, weight, bias], {"stride": stride, "padding": padding, "dilation": dilation, "groups":
            groups, "form": form}, name)

    def conv_transpose(self, x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1, *, name=None) -> Node:
        """x [N, C, ...], weight [C, O / groups, ...], bias [O]: what conv's gradient does to x; padding as of conv

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        output_padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        Returns: a tensor of floats
        """
        return self.op("conv_transpose", [x, weight, bias], {"stride": stride, "padding": padding, "output_padding":
            output_padding, "dilation": dilation, "groups": groups}, name)

    def max_pool(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, dims=2, *, name=None) -> Node:
        """largest of each window of the last axes: as many as kernel_size lists, dims where it is one number; stride is
            kernel_size unless given; ceil_mode: a window may hang over the end; the gradient is shared between equals

        x: tensor of any dtype
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        dims: whole number
        Returns: a tensor
        """
        return self.op("max_pool", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation":
            dilation, "ceil_mode": ceil_mode, "dims": dims}, name)

    def avg_pool(self, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, dims=2, *, name=None) -> Node:
        """mean of each window of the last axes, see max_pool

        x: tensor of floats (integers and bool become float32)
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        ceil_mode: True or False
        count_include_pad: True or False
        dims: whole number
        Returns: a tensor of floats
        """
        return self.op("avg_pool", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode":
            ceil_mode, "count_include_pad": count_include_pad, "dims": dims}, name)

    def max_pool2d(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, name=None) -> Node:
        """largest of each window of [..., H, W]; stride is kernel_size unless given

        x: tensor of any dtype
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        Returns: a tensor
        """
        return self.op("max_pool2d", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation":
            dilation, "ceil_mode": ceil_mode}, name)

    def avg_pool2d(self, x, kernel_size, stride=None, padding=0, count_include_pad=True, ceil_mode=False, *, name=None) -> Node:
        """mean of each window of [..., H, W]; stride is kernel_size unless given

        x: tensor of floats (integers and bool become float32)
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        count_include_pad: True or False
        ceil_mode: True or False
        Returns: a tensor of floats
        """
        return self.op("avg_pool2d", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding,
            "count_include_pad": count_include_pad, "ceil_mode": ceil_mode}, name)

    def max_pool_indices(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, dims=2, *, name=None) -> list[Node]:
        """max_pool, and where each largest is in its plane, flat; the first of equals

        x: tensor of any dtype
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        dims: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("max_pool_indices", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation":
            dilation, "ceil_mode": ceil_mode, "dims": dims}, name, results=2)

    def max_unpool(self, x, indices, kernel_size, stride=None, padding=0, output_size=None, dims=2, *, name=None) -> Node:
        """zeros, but x where the indices of max_pool_indices say; the last of several that say the same, nothing for one
            out of range; output_size: of the plane

        x: tensor of any dtype
        indices: tensor of integers
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        output_size: size or list of sizes
        dims: whole number
        Returns: a tensor
        """
        return self.op("max_unpool", [x, indices], {"kernel_size": kernel_size, "stride": stride, "padding": padding,
            "output_size": output_size, "dims": dims}, name)

    def interpolate(self, x, size, mode="nearest", align_corners=False, *, name=None) -> Node:
        """the last axes in other sizes: the nearest element, or between neighbours along each axis (linear: any number
            of axes); align_corners: the first and last elements stay where they are

        x: tensor of floats (integers and bool become float32)
        size: size or list of sizes
        mode: "nearest", "nearest-exact", "linear", "bilinear" or "trilinear"
        align_corners: True or False
        Returns: a tensor of floats
        """
        return self.op("interpolate", [x], {"size": size, "mode": mode, "align_corners": align_corners}, name)

    def qr(self, x, *, name=None) -> list[Node]:
        """torch.linalg.qr, reduced: Q with orthogonal columns and R upper triangular, x = Q R; a diagonal element of R
            may have another sign than LAPACK's

        x: tensor of floats (integers and bool become float32)
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("qr", [x], {}, name, results=2)

    def cholesky(self, x, *, name=None) -> Node:
        """L lower triangular with x = L L^T, of which the lower triangle is read; NaN where x is not positive definite

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("cholesky", [x], {}, name)

    def triangular_solve(self, a, b, upper=False, *, name=None) -> Node:
        """x of a x = b, where only the lower (upper) triangle of a is read; b [..., n, k] or [n]

        a: tensor of floats (integers and bool become float32), brought to one dtype with b
        b: tensor of floats (integers and bool become float32), brought to one dtype with a
        upper: True or False
        Returns: a tensor of floats
        """
        return self.op("triangular_solve", [a, b], {"upper": upper}, name)

    def solve(self, a, b, *, name=None) -> Node:
        """x of a x = b, b [..., n, k] or [n]

        a: tensor of floats (integers and bool become float32), brought to one dtype with b
        b: tensor of floats (integers and bool become float32), brought to one dtype with a
        Returns: a tensor of floats
        """
        return self.op("solve", [a, b], {}, name)

    def inverse(self, x, *, name=None) -> Node:
        """the inverse; infinite or NaN where there is none

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("inverse", [x], {}, name)

    def det(self, x, *, name=None) -> Node:
        """the determinant

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("det", [x], {}, name)

    def svd(self, x, full_matrices=True, *, name=None) -> list[Node]:
        """torch.linalg.svd: U, the singular values from the largest, and V^T, x = U S V^T, with all columns of U and
            rows of V^T or as many as there are values; the gradient is that of distinct values over 0

        x: tensor of floats (integers and bool become float32)
        full_matrices: True or False
        Returns: a list of a tensor of floats, a tensor of floats, a tensor of floats
        """
        return self.op("svd", [x], {"full_matrices": full_matrices}, name, results=3)

    def fft(self, re, im=None, axis=-1, *, name=None) -> list[Node]:
        """discrete Fourier transform along the axis

        re: tensor of floats (integers and bool become float32), brought to one dtype with im
        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("fft", [re, im], {"axis": axis}, name, results=2)

    def ifft(self, re, im=None, axis=-1, *, name=None) -> list[Node]:
        """its inverse

        re: tensor of floats (integers and bool become float32), brought to one dtype with im
        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("ifft", [re, im], {"axis": axis}, name, results=2)

    def rfft(self, x, axis=-1, *, name=None) -> list[Node]:
        """the first n / 2 + 1 parts of the transform of real numbers; the others are their conjugates

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.op("rfft", [x], {"axis": axis}, name, results=2)

    def irfft(self, re, im, axis=-1, n=None, *, name=None) -> Node:
        """the real numbers of which rfft gives that; n is even unless given

        re: tensor of floats (integers and bool become float32), brought to one dtype with im
        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        n: whole number
        Returns: a tensor of floats
        """
        return self.op("irfft", [re, im], {"axis": axis, "n": n}, name)

    def keccak(self, x, rate=136, suffix=6, size=32, *, name=None) -> Node:
        """the hash of the bytes along the last axis: so many bytes of the sponge of this rate, after the domain's
            suffix; SHA3-256 unless given

        x: tensor of any dtype
        rate: whole number
        suffix: whole number
        size: whole number
        Returns: a tensor
        """
        return self.op("keccak", [x], {"rate": rate, "suffix": suffix, "size": size}, name)

    def sha3_224(self, x, *, name=None) -> Node:
        """SHA3-224 of the bytes along the last axis

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("sha3_224", [x], {}, name)

    def sha3_256(self, x, *, name=None) -> Node:
        """SHA3-256 of the bytes along the last axis

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("sha3_256", [x], {}, name)

    def shake_128(self, x, size=16, *, name=None) -> Node:
        """so many bytes of SHAKE128 of the bytes along the last axis

        x: tensor of any dtype
        size: whole number
        Returns: a tensor
        """
        return self.op("shake_128", [x], {"size": size}, name)

    def hash(self, x, *, name=None) -> Node:
        """16 bytes that tell a tensor from others: SHAKE128 of those of blocks of 4 KiB of each MiB of its bytes, the
            last one filled up with zeros, again until one is left

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("hash", [x], {}, name)

    def gather(self, x, index, axis=0, *, name=None) -> Node:
        """torch.gather: along the axis, index in the shape of the result; a negative index counts from the end; an index
            out of range reads 0, or is an error with check_indices

        x: tensor of any dtype
        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.op("gather", [x, index], {"axis": axis}, name)

    def take(self, x, index, axis=0, *, name=None) -> Node:
        """x[index] along the axis, index of any shape; a negative index counts from the end; an index out of range reads
            0, or is an error with check_indices

        x: tensor of any dtype
        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.op("take", [x, index], {"axis": axis}, name)

    def block_take(self, index, planes, format, rows=None, *, name=None) -> Node:
        """rows of a block-quantised matrix [rows, columns], given as the planes of its format (see [quantised
            weights](quantised.md)), as float32; rows: the rows of the matrix, if the last group of 16 is filled up

        index: tensor of integers
        planes: list, each a tensor of any dtype
        format: "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs" or
            "mxfp4"
        rows: whole number
        Returns: a tensor of floats
        """
        return self.op("block_take", [index, *planes], {"format": format, "rows": rows}, name)

    def index(self, x, indices, axis=0, *, name=None) -> Node:
        """x[i, j, ...] by index tensors for neighbouring axes, broadcast together; an index out of range reads 0, or is
            an error with check_indices

        x: tensor of any dtype
        indices: list, each a tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.op("index", [x, *indices], {"axis": axis}, name)

    def index_put(self, x, value, indices, axis=0, accumulate=False, *, name=None) -> Node:
        """x with x[i, j, ...] = value, or += value; of several writes to one place the last stays; an index out of range
            writes nothing, or is an error with check_indices

        x: tensor of any dtype, brought to one dtype with value
        value: tensor of any dtype, brought to one dtype with x
        indices: list, each a tensor of integers
        axis: whole number
        accumulate: True or False
        Returns: a tensor
        """
        return self.op("index_put", [x, value, *indices], {"axis": axis, "accumulate": accumulate}, name)

    def scatter(self, x, index, src, axis=0, reduce="none", *, name=None) -> Node:
        """torch.scatter: x with src written where index says along the axis; of several writes to one place the last
            stays; an index out of range writes nothing, or is an error with check_indices

        x: tensor of any dtype, brought to one dtype with src
        index: tensor of integers
        src: tensor of any dtype, brought to one dtype with x
        axis: whole number
        reduce: "none", "add" or "multiply"
        Returns: a tensor
        """
        return self.op("scatter", [x, index, src], {"axis": axis, "reduce": reduce}, name)

    def scatter_reduce(self, x, index, src, reduce, *, axis=0, include_self=True, name=None) -> Node:
        """torch.scatter_reduce: what is sent to one place folded, with x itself unless include_self is false

        x: tensor of any dtype, brought to one dtype with src
        index: tensor of integers
        src: tensor of any dtype, brought to one dtype with x
        reduce: "sum", "prod", "mean", "amax" or "amin"
        axis: whole number
        include_self: True or False
        Returns: a tensor
        """
        return self.op("scatter_reduce", [x, index, src], {"axis": axis, "reduce": reduce, "include_self": include_self},
            name)

    def masked_select(self, x, mask, size, fill=0, *, name=None) -> list[Node]:
        """the first size elements where the mask holds, in order, then fill; and how many there are in all

        x: tensor of any dtype
        mask: tensor of bool (numbers become "not zero")
        size: size
        fill: number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.op("masked_select", [x, mask], {"size": size, "fill": fill}, name, results=2)

    def nonzero(self, x, size, fill=0, *, name=None) -> list[Node]:
        """[size, ndim]: where the first size elements that are not zero are, then fill; and how many there are in all

        x: tensor of bool (numbers become "not zero")
        size: size
        fill: whole number
        Returns: a list of a tensor of int64, a tensor of int64
        """
        return self.op("nonzero", [x], {"size": size, "fill": fill}, name, results=2)

    def one_hot(self, x, num_classes, dtype="int64", *, name=None) -> Node:
        """1 where the class is x, else 0, along a new last axis; a class out of range is an error with check_indices

        x: tensor of integers
        num_classes: size
        dtype: dtype
        Returns: a tensor
        """
        return self.op("one_hot", [x], {"num_classes": num_classes, "dtype": dtype}, name)

    def tril(self, x, diagonal=0, *, name=None) -> Node:
        """zero above the diagonal

        x: tensor of any dtype
        diagonal: whole number
        Returns: a tensor
        """
        return self.op("tril", [x], {"diagonal": diagonal}, name)

    def triu(self, x, diagonal=0, *, name=None) -> Node:
        """zero below the diagonal

        x: tensor of any dtype
        diagonal: whole number
        Returns: a tensor
        """
        return self.op("triu", [x], {"diagonal": diagonal}, name)

    def reshape(self, x, shape, *, name=None) -> Node:
        """the same elements in another shape; one size may be -1

        x: tensor of any dtype
        shape: size or list of sizes
        Returns: a tensor
        """
        return self.op("reshape", [x], {"shape": shape}, name)

    def permute(self, x, axes, *, name=None) -> Node:
        """axis i of the result is axis axes[i] of x

        x: tensor of any dtype
        axes: whole number or list of them
        Returns: a tensor
        """
        return self.op("permute", [x], {"axes": axes}, name)

    def transpose(self, x, axis0=-2, axis1=-1, *, name=None) -> Node:
        """two axes exchanged

        x: tensor of any dtype
        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.op("transpose", [x], {"axis0": axis0, "axis1": axis1}, name)

    def expand(self, x, shape, *, name=None) -> Node:
        """axes of size 1 repeated, new ones in front; -1 keeps a size

        x: tensor of any dtype
        shape: size or list of sizes
        Returns: a tensor
        """
        return self.op("expand", [x], {"shape": shape}, name)

    def pad(self, x, padding, value=0, mode="constant", *, name=None) -> Node:
        """[before, after] for each axis from the first, also as a flat list; negative ones crop; modes: the value, x
            mirrored at its ends (which are not repeated), its ends, or x from its other end

        x: tensor of any dtype
        padding: list of pairs
        value: number
        mode: "constant", "reflect", "replicate" or "circular"
        Returns: a tensor
        """
        return self.op("pad", [x], {"padding": padding, "value": value, "mode": mode}, name)

    def shrink(self, x, ranges, *, name=None) -> Node:
        """[start, stop] for each axis from the first

        x: tensor of any dtype
        ranges: list of pairs
        Returns: a tensor
        """
        return self.op("shrink", [x], {"ranges": ranges}, name)

    def slice(self, x, start=None, stop=None, step=None, axis=None, *, name=None) -> Node:
        """x[start:stop:step] on the axes (the first ones, unless given); a negative step goes backwards, to the first
            element where stop is left out or below -size

        x: tensor of any dtype
        start: size or list of sizes
        stop: size or list of sizes
        step: whole number or list of them
        axis: whole number or list of them
        Returns: a tensor
        """
        return self.op("slice", [x], {"start": start, "stop": stop, "step": step, "axis": axis}, name)

    def flip(self, x, axis=None, *, name=None) -> Node:
        """the order along the axes reversed

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.op("flip", [x], {"axis": axis}, name)

    def roll(self, x, shift, axis=None, *, name=None) -> Node:
        """each axis moved on by its shift, what leaves at the end comes in at the start; without axis as if flat

        x: tensor of any dtype
        shift: whole number or list of them
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.op("roll", [x], {"shift": shift, "axis": axis}, name)

    def repeat(self, x, repeats, *, name=None) -> Node:
        """torch.Tensor.repeat: each axis as a whole so many times; further numbers make new axes in front

        x: tensor of any dtype
        repeats: size or list of sizes
        Returns: a tensor
        """
        return self.op("repeat", [x], {"repeats": repeats}, name)

    def repeat_interleave(self, x, repeats, axis=None, *, name=None) -> Node:
        """each element of the axis so many times; without axis flat

        x: tensor of any dtype
        repeats: size
        axis: whole number
        Returns: a tensor
        """
        return self.op("repeat_interleave", [x], {"repeats": repeats, "axis": axis}, name)

    def unfold(self, x, axis, size, step, *, name=None) -> Node:
        """torch.Tensor.unfold: windows of the axis, every step elements one, along a new last axis

        x: tensor of any dtype
        axis: whole number
        size: whole number
        step: whole number
        Returns: a tensor
        """
        return self.op("unfold", [x], {"axis": axis, "size": size, "step": step}, name)

    def diagonal(self, x, offset=0, axis0=0, axis1=1, *, name=None) -> Node:
        """the diagonal of two axes, along a new last axis; offset: so many above it

        x: tensor of any dtype
        offset: whole number
        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.op("diagonal", [x], {"offset": offset, "axis0": axis0, "axis1": axis1}, name)

    def diag(self, x, offset=0, *, name=None) -> Node:
        """the diagonal of a matrix, or the matrix of a diagonal, with zeros elsewhere

        x: tensor of any dtype
        offset: whole number
        Returns: a tensor
        """
        return self.op("diag", [x], {"offset": offset}, name)

    def squeeze(self, x, axis=None, *, name=None) -> Node:
        """without the axes of size 1 (among those given)

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.op("squeeze", [x], {"axis": axis}, name)

    def unsqueeze(self, x, axis, *, name=None) -> Node:
        """a new axis of size 1

        x: tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("unsqueeze", [x], {"axis": axis}, name)

    def flatten(self, x, start_axis=0, end_axis=-1, *, name=None) -> Node:
        """the axes from start to end made one

        x: tensor of any dtype
        start_axis: whole number
        end_axis: whole number
        Returns: a tensor
        """
        return self.op("flatten", [x], {"start_axis": start_axis, "end_axis": end_axis}, name)

    def unflatten(self, x, axis, sizes, *, name=None) -> Node:
        """one axis split into several; one size may be -1

        x: tensor of any dtype
        axis: whole number
        sizes: size or list of sizes
        Returns: a tensor
        """
        return self.op("unflatten", [x], {"axis": axis, "sizes": sizes}, name)

    def rearrange(self, x, formula, *, name=None) -> Node:
        """axes named as in einops: 'b (h w) c -> b c h w'; a name in parentheses is a part of an axis, and all parts of
            one but one need a size: '(h=3 w)'; 1 is an axis of size 1, ... stands for all others

        x: tensor of any dtype
        formula: string
        Returns: a tensor
        """
        return self.op("rearrange", [x], {"formula": formula}, name)

    def cat(self, xs, axis=0, *, name=None) -> Node:
        """one after the other along the axis

        xs: list, each a tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("cat", [*xs], {"axis": axis}, name)

    def stack(self, xs, axis=0, *, name=None) -> Node:
        """side by side along a new axis

        xs: list, each a tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("stack", [*xs], {"axis": axis}, name)

    def split(self, x, sizes, axis=0, *, results, name=None) -> list[Node]:
        """parts of the axis of these sizes, or as many of one size as there are, of which the last may be shorter

        x: tensor of any dtype
        sizes: whole number or list of them
        axis: whole number
        results: how many there are, which the server checks
        Returns: a list, each a tensor
        """
        return self.op("split", [x], {"sizes": sizes, "axis": axis}, name, results=results)

    def chunk(self, x, chunks, axis=0, *, results, name=None) -> list[Node]:
        """the axis in so many parts of one size, of which the last may be shorter, or in fewer where that takes it all

        x: tensor of any dtype
        chunks: whole number
        axis: whole number
        results: how many there are, which the server checks
        Returns: a list, each a tensor
        """
        return self.op("chunk", [x], {"chunks": chunks, "axis": axis}, name, results=results)

    def meshgrid(self, xs, indexing="ij", *, name=None) -> list[Node]:
        """each vector along an axis of its own, in the shape of all; xy: the first two axes exchanged

        xs: list, each a tensor of any dtype
        indexing: "ij" or "xy"
        Returns: a list, each a tensor
        """
        return self.op("meshgrid", [*xs], {"indexing": indexing}, name, results=len(xs))

    def pad_to(self, x, shape, value=0, *, name=None) -> Node:
        """the value after the ends of the axes, up to this shape; -1 keeps a size

        x: tensor of any dtype
        shape: size or list of sizes
        value: number
        Returns: a tensor
        """
        return self.op("pad_to", [x], {"shape": shape, "value": value}, name)

    def shrink_to(self, x, shape, *, name=None) -> Node:
        """the first elements of each axis, down to this shape; -1 keeps a size

        x: tensor of any dtype
        shape: size or list of sizes
        Returns: a tensor
        """
        return self.op("shrink_to", [x], {"shape": shape}, name)

    def arange(self, stop, *, start=0, step=1, dtype=None, name=None) -> Node:
        """start, start + step, ... below stop; int64, or float32 if one of them has a fraction

        stop: number or size
        start: number or size
        step: number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("arange", [], {"start": start, "stop": stop, "step": step, "dtype": dtype}, name)

    def linspace(self, start, stop, steps, dtype="float32", *, name=None) -> Node:
        """steps numbers from start to stop, evenly apart

        start: number
        stop: number
        steps: size
        dtype: dtype
        Returns: a tensor of floats
        """
        return self.op("linspace", [], {"start": start, "stop": stop, "steps": steps, "dtype": dtype}, name)

    def full(self, shape, value, dtype="float32", *, name=None) -> Node:
        """every element the value

        shape: size or list of sizes
        value: number or size
        dtype: dtype
        Returns: a tensor
        """
        return self.op("full", [], {"shape": shape, "value": value, "dtype": dtype}, name)

    def zeros(self, shape, dtype="float32", *, name=None) -> Node:
        """zeros

        shape: size or list of sizes
        dtype: dtype
        Returns: a tensor
        """
        return self.op("zeros", [], {"shape": shape, "dtype": dtype}, name)

    def ones(self, shape, dtype="float32", *, name=None) -> Node:
        """ones

        shape: size or list of sizes
        dtype: dtype
        Returns: a tensor
        """
        return self.op("ones", [], {"shape": shape, "dtype": dtype}, name)

    def zeros_like(self, x, dtype=None, *, name=None) -> Node:
        """zeros in the shape of x

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("zeros_like", [x], {"dtype": dtype}, name)

    def ones_like(self, x, dtype=None, *, name=None) -> Node:
        """ones in the shape of x

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("ones_like", [x], {"dtype": dtype}, name)

    def full_like(self, x, value, dtype=None, *, name=None) -> Node:
        """every element the value, in the shape of x

        x: tensor of any dtype
        value: number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("full_like", [x], {"value": value, "dtype": dtype}, name)

    def eye(self, n, m=None, dtype="float32", *, name=None) -> Node:
        """the n by m matrix with ones on the diagonal; m is n unless given

        n: size
        m: size
        dtype: dtype
        Returns: a tensor
        """
        return self.op("eye", [], {"n": n, "m": m, "dtype": dtype}, name)

    def uniform(self, shape, *, key=None, low=0, high=1, dtype="float32", seed=None, name=None) -> Node:
        """uniform between low and high

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        low: number
        high: number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("uniform", [key], {"shape": shape, "low": low, "high": high, "dtype": dtype, "seed": seed}, name)

    def normal(self, shape, *, key=None, mean=0, std=1, dtype="float32", seed=None, name=None) -> Node:
        """normal distribution

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        mean: number
        std: number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("normal", [key], {"shape": shape, "mean": mean, "std": std, "dtype": dtype, "seed": seed}, name)

    def randint(self, shape, high, *, key=None, low=0, dtype="int64", seed=None, name=None) -> Node:
        """whole numbers from low to high - 1

        shape: size or list of sizes
        high: number or size
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        low: whole number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of integers
        """
        return self.op("randint", [key], {"shape": shape, "low": low, "high": high, "dtype": dtype, "seed": seed}, name)

    def randperm(self, n, *, key=None, dtype="int64", seed=None, name=None) -> Node:
        """the numbers from 0 to n - 1 in random order

        n: size
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of integers
        """
        return self.op("randperm", [key], {"n": n, "dtype": dtype, "seed": seed}, name)

    def step(self, dtype="int64", *, name=None) -> Node:
        """how many steps of the program came before this one, since its rng says 0; in a run 0

        dtype: dtype
        Returns: a tensor of integers
        """
        return self.op("step", [], {"dtype": dtype}, name)

    def batch_index(self, n, batch, shuffle=True, seed=None, *, name=None) -> Node:
        """[batch]: which of n samples this step of the program takes (with take along axis 0): each at most once in an
            epoch of n / batch steps, in an order that is drawn anew for each; a rest of fewer than batch is left out

        n: whole number
        batch: whole number
        shuffle: True or False
        seed: whole number; by default the seed of the run
        Returns: a tensor of int64
        """
        return self.op("batch_index", [], {"n": n, "batch": batch, "shuffle": shuffle, "seed": seed}, name)

    def rand_like(self, x, dtype=None, seed=None, *, key=None, name=None) -> Node:
        """uniform between 0 and 1 in the shape of x

        x: tensor of any dtype
        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("rand_like", [x, key], {"dtype": dtype, "seed": seed}, name)

    def randn_like(self, x, dtype=None, seed=None, *, key=None, name=None) -> Node:
        """normal distribution in the shape of x

        x: tensor of any dtype
        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("randn_like", [x, key], {"dtype": dtype, "seed": seed}, name)

    def kaiming_uniform(self, shape, *, key=None, a=0, mode="fan_in", dtype="float32", seed=None, name=None) -> Node:
        """uniform within sqrt(6 / ((1 + a^2) * fan))

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        a: number
        mode: "fan_in" or "fan_out"
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("kaiming_uniform", [key], {"shape": shape, "a": a, "mode": mode, "dtype": dtype, "seed": seed}, name)

    def kaiming_normal(self, shape, *, key=None, a=0, mode="fan_in", dtype="float32", seed=None, name=None) -> Node:
        """normal with deviation sqrt(2 / ((1 + a^2) * fan))

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        a: number
        mode: "fan_in" or "fan_out"
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("kaiming_normal", [key], {"shape": shape, "a": a, "mode": mode, "dtype": dtype, "seed": seed}, name)

    def glorot_uniform(self, shape, *, key=None, dtype="float32", seed=None, name=None) -> Node:
        """uniform within sqrt(6 / (fan_in + fan_out))

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("glorot_uniform", [key], {"shape": shape, "dtype": dtype, "seed": seed}, name)

    def scaled_uniform(self, shape, *, key=None, fan_in=None, dtype="float32", seed=None, name=None) -> Node:
        """uniform within 1 / sqrt(fan_in): how PyTorch starts Linear and Conv2d (a bias: give fan_in)

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        fan_in: whole number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("scaled_uniform", [key], {"shape": shape, "fan_in": fan_in, "dtype": dtype, "seed": seed}, name)

    def bernoulli(self, p, seed=None, *, key=None, name=None) -> Node:
        """1 with probability p, else 0

        p: tensor of floats (integers and bool become float32)
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("bernoulli", [p, key], {"seed": seed}, name)

    def multinomial(self, weights, num_samples=1, replacement=False, seed=None, *, key=None, name=None) -> Node:
        """[..., num_samples]: indices drawn by weight along the last axis; without replacement each at most once

        weights: tensor of floats (integers and bool become float32)
        num_samples: size
        replacement: True or False
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of int64
        """
        return self.op("multinomial", [weights, key], {"num_samples": num_samples, "replacement": replacement, "seed": seed},
            name)

    def random_bits(self, shape, *, key=None, seed=None, name=None) -> Node:
        """random uint32

        shape: size or list of sizes
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        seed: whole number; by default the seed of the run
        Returns: a tensor
        """
        return self.op("random_bits", [key], {"shape": shape, "seed": seed}, name)

    def threefry(self, x, key, *, name=None) -> Node:
        """Threefry-2x32 of uint64: the low half is the first word

        x: tensor of integers or bool, brought to one dtype with key
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor
        """
        return self.op("threefry", [x, key], {}, name)

    def sgd(self, loss, params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.SGD: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        dampening: number
        weight_decay: number
        nesterov: True or False
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("sgd", [loss, *params], {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay":
            weight_decay, "nesterov": nesterov, "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def adam(self, loss, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.Adam: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("adam", [loss, *params], {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def adamw(self, loss, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.AdamW: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("adamw", [loss, *params], {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def adagrad(self, loss, params, lr=0.01, lr_decay=0, weight_decay=0, eps=1e-10, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.Adagrad: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        lr_decay: number
        weight_decay: number
        eps: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("adagrad", [loss, *params], {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps,
            "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def rmsprop(self, loss, params, lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.RMSprop: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        alpha: number
        eps: number
        weight_decay: number
        momentum: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("rmsprop", [loss, *params], {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
            "momentum": momentum, "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def lamb(self, loss, params, lr=0.001, b1=0.9, b2=0.999, eps=1e-06, weight_decay=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """LAMB (You et al., arXiv:1904.00962): the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        b1: number
        b2: number
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("lamb", [loss, *params], {"lr": lr, "b1": b1, "b2": b2, "eps": eps, "weight_decay": weight_decay,
            "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def lars(self, loss, params, lr=0.001, momentum=0.9, weight_decay=0.0001, nesterov=False, classic=True, tcoef=0.001, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """LARS (You et al., arXiv:1708.03888): the new parameters; classic: the rate goes into the momentum

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        weight_decay: number
        nesterov: True or False
        classic: True or False
        tcoef: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("lars", [loss, *params], {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov":
            nesterov, "classic": classic, "tcoef": tcoef, "clip_norm": clip_norm, "clip_value": clip_value}, name,
            results=len(params))

    def muon(self, loss, params, lr=0.02, momentum=0.95, weight_decay=0.1, steps=5, nesterov=True, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """Muon (Jordan et al., 2024): momentum made orthogonal by Newton-Schulz steps, for parameters [n, ...] seen as
            matrices

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        weight_decay: number
        steps: whole number
        nesterov: True or False
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.op("muon", [loss, *params], {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "steps": steps,
            "nesterov": nesterov, "clip_norm": clip_norm, "clip_value": clip_value}, name, results=len(params))

    def newton_schulz(self, x, steps=5, params=(3.4445, -4.775, 2.0315), eps=1e-07, *, name=None) -> Node:
        """the nearest orthogonal matrix, roughly: x = a x + b (x x^T) x + c (x x^T)^2 x so many times, from x of norm 1

        x: tensor of floats (integers and bool become float32)
        steps: whole number
        params: list of numbers
        eps: number
        Returns: a tensor of floats
        """
        return self.op("newton_schulz", [x], {"steps": steps, "params": params, "eps": eps}, name)

    def clip_grad_norm(self, grads, max_norm, *, name=None) -> list[Node]:
        """torch.nn.utils.clip_grad_norm_: all scaled so that their joint norm is at most max_norm

        grads: list, each a tensor of floats (integers and bool become float32)
        max_norm: number
        Returns: a list, each a tensor
        """
        return self.op("clip_grad_norm", [*grads], {"max_norm": max_norm}, name, results=len(grads))

    def step_lr(self, step, lr, step_size, gamma=0.1, *, name=None) -> Node:
        """lr times gamma every step_size steps

        step: tensor of floats (integers and bool become float32)
        lr: number
        step_size: whole number
        gamma: number
        Returns: a tensor of floats
        """
        return self.op("step_lr", [step], {"lr": lr, "step_size": step_size, "gamma": gamma}, name)

    def polynomial_lr(self, step, lr, total, power=1, end=0, *, name=None) -> Node:
        """from lr to end in total steps

        step: tensor of floats (integers and bool become float32)
        lr: number
        total: whole number
        power: number
        end: number
        Returns: a tensor of floats
        """
        return self.op("polynomial_lr", [step], {"lr": lr, "total": total, "power": power, "end": end}, name)

    def cosine_lr(self, step, lr, total, end=0, *, name=None) -> Node:
        """from lr to end in total steps, along half a cosine

        step: tensor of floats (integers and bool become float32)
        lr: number
        total: whole number
        end: number
        Returns: a tensor of floats
        """
        return self.op("cosine_lr", [step], {"lr": lr, "total": total, "end": end}, name)

    def warmup_lr(self, step, lr, warmup, *, name=None) -> Node:
        """up to lr in warmup steps

        step: tensor of floats (integers and bool become float32)
        lr: number
        warmup: whole number
        Returns: a tensor of floats
        """
        return self.op("warmup_lr", [step], {"lr": lr, "warmup": warmup}, name)

    def one_cycle_lr(self, step, lr, total, pct_start=0.3, div=25, final_div=10000, *, name=None) -> Node:
        """torch's OneCycleLR: from lr / div up to lr in pct_start of the steps, then down to lr / div / final_div

        step: tensor of floats (integers and bool become float32)
        lr: number
        total: whole number
        pct_start: number
        div: number
        final_div: number
        Returns: a tensor of floats
        """
        return self.op("one_cycle_lr", [step], {"lr": lr, "total": total, "pct_start": pct_start, "div": div, "final_div":
            final_div}, name)


class NodeOps:
    """Ops as methods of their first operand."""

    def add(self, y, *, name=None) -> Node:
        """x + y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.add(self, y, name=name)

    def sub(self, y, *, name=None) -> Node:
        """x - y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.sub(self, y, name=name)

    def mul(self, y, *, name=None) -> Node:
        """x * y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.mul(self, y, name=name)

    def div(self, y, *, name=None) -> Node:
        """x / y; integers give float32

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.graph.div(self, y, name=name)

    def floor_div(self, y, *, name=None) -> Node:
        """floor of x / y; an integer by zero gives 0

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.floor_div(self, y, name=name)

    def trunc_div(self, y, *, name=None) -> Node:
        """x / y towards zero; an integer by zero gives 0

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.trunc_div(self, y, name=name)

    def mod(self, y, *, name=None) -> Node:
        """x - y * floor(x / y), with the sign of y; an integer by zero gives 0

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.mod(self, y, name=name)

    def fmod(self, y, *, name=None) -> Node:
        """x - y * trunc(x / y), with the sign of x; an integer by zero gives x

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.fmod(self, y, name=name)

    def neg(self, *, name=None) -> Node:
        """-x

        Returns: a tensor
        """
        return self.graph.neg(self, name=name)

    def abs(self, *, name=None) -> Node:
        """|x|

        Returns: a tensor
        """
        return self.graph.abs(self, name=name)

    def sign(self, *, name=None) -> Node:
        """-1, 0 or 1

        Returns: a tensor
        """
        return self.graph.sign(self, name=name)

    def square(self, *, name=None) -> Node:
        """x * x

        Returns: a tensor
        """
        return self.graph.square(self, name=name)

    def sqrt(self, *, name=None) -> Node:
        """square root

        Returns: a tensor of floats
        """
        return self.graph.sqrt(self, name=name)

    def rsqrt(self, *, name=None) -> Node:
        """1 / square root

        Returns: a tensor of floats
        """
        return self.graph.rsqrt(self, name=name)

    def reciprocal(self, *, name=None) -> Node:
        """1 / x

        Returns: a tensor of floats
        """
        return self.graph.reciprocal(self, name=name)

    def exp(self, *, name=None) -> Node:
        """e to the x

        Returns: a tensor of floats
        """
        return self.graph.exp(self, name=name)

    def exp2(self, *, name=None) -> Node:
        """2 to the x

        Returns: a tensor of floats
        """
        return self.graph.exp2(self, name=name)

    def expm1(self, *, name=None) -> Node:
        """exp(x) - 1, also where that is small

        Returns: a tensor of floats
        """
        return self.graph.expm1(self, name=name)

    def log(self, *, name=None) -> Node:
        """natural logarithm

        Returns: a tensor of floats
        """
        return self.graph.log(self, name=name)

    def log2(self, *, name=None) -> Node:
        """logarithm to base 2

        Returns: a tensor of floats
        """
        return self.graph.log2(self, name=name)

    def log10(self, *, name=None) -> Node:
        """logarithm to base 10

        Returns: a tensor of floats
        """
        return self.graph.log10(self, name=name)

    def log1p(self, *, name=None) -> Node:
        """log(1 + x), also where x is small

        Returns: a tensor of floats
        """
        return self.graph.log1p(self, name=name)

    def sin(self, *, name=None) -> Node:
        """sine of radians

        Returns: a tensor of floats
        """
        return self.graph.sin(self, name=name)

    def cos(self, *, name=None) -> Node:
        """cosine of radians

        Returns: a tensor of floats
        """
        return self.graph.cos(self, name=name)

    def tan(self, *, name=None) -> Node:
        """tangent of radians

        Returns: a tensor of floats
        """
        return self.graph.tan(self, name=name)

    def asin(self, *, name=None) -> Node:
        """inverse sine, in radians

        Returns: a tensor of floats
        """
        return self.graph.asin(self, name=name)

    def acos(self, *, name=None) -> Node:
        """inverse cosine, in radians

        Returns: a tensor of floats
        """
        return self.graph.acos(self, name=name)

    def atan(self, *, name=None) -> Node:
        """inverse tangent, in radians

        Returns: a tensor of floats
        """
        return self.graph.atan(self, name=name)

    def atan2(self, x, *, name=None) -> Node:
        """the angle of the point (x, y), in radians

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        Returns: a tensor of floats
        """
        return self.graph.atan2(self, x, name=name)

    def sinh(self, *, name=None) -> Node:
        """hyperbolic sine

        Returns: a tensor of floats
        """
        return self.graph.sinh(self, name=name)

    def cosh(self, *, name=None) -> Node:
        """hyperbolic cosine

        Returns: a tensor of floats
        """
        return self.graph.cosh(self, name=name)

    def asinh(self, *, name=None) -> Node:
        """inverse hyperbolic sine

        Returns: a tensor of floats
        """
        return self.graph.asinh(self, name=name)

    def acosh(self, *, name=None) -> Node:
        """inverse hyperbolic cosine

        Returns: a tensor of floats
        """
        return self.graph.acosh(self, name=name)

    def atanh(self, *, name=None) -> Node:
        """inverse hyperbolic tangent

        Returns: a tensor of floats
        """
        return self.graph.atanh(self, name=name)

    def floor(self, *, name=None) -> Node:
        """the next whole number below

        Returns: a tensor
        """
        return self.graph.floor(self, name=name)

    def ceil(self, *, name=None) -> Node:
        """the next whole number above

        Returns: a tensor
        """
        return self.graph.ceil(self, name=name)

    def trunc(self, *, name=None) -> Node:
        """towards zero

        Returns: a tensor
        """
        return self.graph.trunc(self, name=name)

    def round(self, *, name=None) -> Node:
        """the nearest whole number; a half goes to the even one

        Returns: a tensor
        """
        return self.graph.round(self, name=name)

    def maximum(self, y, *, name=None) -> Node:
        """the larger; NaN if either is

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.maximum(self, y, name=name)

    def minimum(self, y, *, name=None) -> Node:
        """the smaller; NaN if either is

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.minimum(self, y, name=name)

    def pow(self, y, *, name=None) -> Node:
        """x to the y; an integer to a negative power gives 0, but 1 and -1 stay

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.pow(self, y, name=name)

    def copysign(self, y, *, name=None) -> Node:
        """|x| with the sign of y, also where that is a zero or NaN

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.graph.copysign(self, y, name=name)

    def logaddexp(self, y, *, name=None) -> Node:
        """log(exp(x) + exp(y))

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.graph.logaddexp(self, y, name=name)

    def lerp(self, y, weight, *, name=None) -> Node:
        """x + (y - x) * weight

        y: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, y
        Returns: a tensor of floats
        """
        return self.graph.lerp(self, y, weight, name=name)

    def clamp(self, min=None, max=None, *, name=None) -> Node:
        """x, but not below min nor above max

        min: number
        max: number
        Returns: a tensor
        """
        return self.graph.clamp(self, min, max, name=name)

    def relu(self, *, name=None) -> Node:
        """max(x, 0)

        Returns: a tensor
        """
        return self.graph.relu(self, name=name)

    def relu6(self, *, name=None) -> Node:
        """x held between 0 and 6

        Returns: a tensor
        """
        return self.graph.relu6(self, name=name)

    def hardtanh(self, min=-1, max=1, *, name=None) -> Node:
        """x held between min and max; no gradient there

        min: number
        max: number
        Returns: a tensor
        """
        return self.graph.hardtanh(self, min, max, name=name)

    def hardsigmoid(self, alpha=0.16666666666666666, beta=0.5, *, name=None) -> Node:
        """alpha * x + beta held between 0 and 1

        alpha: number
        beta: number
        Returns: a tensor of floats
        """
        return self.graph.hardsigmoid(self, alpha, beta, name=name)

    def hardswish(self, *, name=None) -> Node:
        """x * hardsigmoid(x)

        Returns: a tensor of floats
        """
        return self.graph.hardswish(self, name=name)

    def leaky_relu(self, negative_slope=0.01, *, name=None) -> Node:
        """x where positive, else negative_slope * x

        negative_slope: number
        Returns: a tensor of floats
        """
        return self.graph.leaky_relu(self, negative_slope, name=name)

    def elu(self, alpha=1, *, name=None) -> Node:
        """x where positive, else alpha * (exp(x) - 1)

        alpha: number
        Returns: a tensor of floats
        """
        return self.graph.elu(self, alpha, name=name)

    def celu(self, alpha=1, *, name=None) -> Node:
        """x where positive, else alpha * (exp(x / alpha) - 1)

        alpha: number
        Returns: a tensor of floats
        """
        return self.graph.celu(self, alpha, name=name)

    def selu(self, alpha=1.6732632423543772, gamma=1.0507009873554805, *, name=None) -> Node:
        """gamma * elu(x), which keeps mean and variance

        alpha: number
        gamma: number
        Returns: a tensor of floats
        """
        return self.graph.selu(self, alpha, gamma, name=name)

    def sigmoid(self, *, name=None) -> Node:
        """1 / (1 + exp(-x))

        Returns: a tensor of floats
        """
        return self.graph.sigmoid(self, name=name)

    def tanh(self, *, name=None) -> Node:
        """hyperbolic tangent

        Returns: a tensor of floats
        """
        return self.graph.tanh(self, name=name)

    def erf(self, *, name=None) -> Node:
        """error function

        Returns: a tensor of floats
        """
        return self.graph.erf(self, name=name)

    def gelu(self, approximate="none", *, name=None) -> Node:
        """x times the normal distribution function of x

        approximate: "none" or "tanh"
        Returns: a tensor of floats
        """
        return self.graph.gelu(self, approximate, name=name)

    def quick_gelu(self, *, name=None) -> Node:
        """x * sigmoid(1.702 * x)

        Returns: a tensor of floats
        """
        return self.graph.quick_gelu(self, name=name)

    def silu(self, *, name=None) -> Node:
        """x * sigmoid(x)

        Returns: a tensor of floats
        """
        return self.graph.silu(self, name=name)

    def mish(self, *, name=None) -> Node:
        """x * tanh(softplus(x))

        Returns: a tensor of floats
        """
        return self.graph.mish(self, name=name)

    def softsign(self, *, name=None) -> Node:
        """x / (1 + |x|)

        Returns: a tensor of floats
        """
        return self.graph.softsign(self, name=name)

    def logsigmoid(self, *, name=None) -> Node:
        """log(sigmoid(x)), also where that is far below 0

        Returns: a tensor of floats
        """
        return self.graph.logsigmoid(self, name=name)

    def softplus(self, beta=1, threshold=20, *, name=None) -> Node:
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold

        beta: number
        threshold: number
        Returns: a tensor of floats
        """
        return self.graph.softplus(self, beta, threshold, name=name)

    def equal(self, y, *, name=None) -> Node:
        """x == y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.equal(self, y, name=name)

    def not_equal(self, y, *, name=None) -> Node:
        """x != y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.not_equal(self, y, name=name)

    def less(self, y, *, name=None) -> Node:
        """x < y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.less(self, y, name=name)

    def less_equal(self, y, *, name=None) -> Node:
        """x <= y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.less_equal(self, y, name=name)

    def greater(self, y, *, name=None) -> Node:
        """x > y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.greater(self, y, name=name)

    def greater_equal(self, y, *, name=None) -> Node:
        """x >= y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.greater_equal(self, y, name=name)

    def isnan(self, *, name=None) -> Node:
        """is it NaN

        Returns: a tensor of bool
        """
        return self.graph.isnan(self, name=name)

    def isfinite(self, *, name=None) -> Node:
        """is it neither NaN nor infinite

        Returns: a tensor of bool
        """
        return self.graph.isfinite(self, name=name)

    def isinf(self, detect_positive=True, detect_negative=True, *, name=None) -> Node:
        """is it infinite

        detect_positive: True or False
        detect_negative: True or False
        Returns: a tensor of bool
        """
        return self.graph.isinf(self, detect_positive, detect_negative, name=name)

    def isclose(self, y, rtol=1e-05, atol=1e-08, equal_nan=False, *, name=None) -> Node:
        """|x - y| <= atol + rtol * |y|

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        rtol: number
        atol: number
        equal_nan: True or False
        Returns: a tensor of bool
        """
        return self.graph.isclose(self, y, rtol, atol, equal_nan, name=name)

    def allclose(self, y, rtol=1e-05, atol=1e-08, equal_nan=False, *, name=None) -> Node:
        """are all |x - y| <= atol + rtol * |y|

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        rtol: number
        atol: number
        equal_nan: True or False
        Returns: a tensor of bool
        """
        return self.graph.allclose(self, y, rtol, atol, equal_nan, name=name)

    def logical_and(self, y, *, name=None) -> Node:
        """both are not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_and(self, y, name=name)

    def logical_or(self, y, *, name=None) -> Node:
        """one or both are not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_or(self, y, name=name)

    def logical_xor(self, y, *, name=None) -> Node:
        """one of them is not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_xor(self, y, name=name)

    def logical_not(self, *, name=None) -> Node:
        """is it zero

        Returns: a tensor of bool
        """
        return self.graph.logical_not(self, name=name)

    def bitwise_and(self, y, *, name=None) -> Node:
        """bits that both have

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_and(self, y, name=name)

    def bitwise_or(self, y, *, name=None) -> Node:
        """bits that one or both have

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_or(self, y, name=name)

    def bitwise_xor(self, y, *, name=None) -> Node:
        """bits that one of them has

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_xor(self, y, name=name)

    def bitwise_not(self, *, name=None) -> Node:
        """every bit turned

        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_not(self, name=name)

    def left_shift(self, y, *, name=None) -> Node:
        """x * 2^y modulo the width; 0 from the width on

        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.graph.left_shift(self, y, name=name)

    def right_shift(self, y, *, name=None) -> Node:
        """floor of x / 2^y

        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.graph.right_shift(self, y, name=name)

    def where(self, x, y, *, name=None) -> Node:
        """x where the condition holds, else y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.where(self, x, y, name=name)

    def masked_fill(self, mask, value, *, name=None) -> Node:
        """the value where the mask holds, else x

        mask: tensor of bool (numbers become "not zero")
        value: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.masked_fill(self, mask, value, name=name)

    def cast(self, dtype, *, name=None) -> Node:
        """conversion by value; float to integer truncates and saturates

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.cast(self, dtype, name=name)

    def bitcast(self, dtype, *, name=None) -> Node:
        """the same bits as another dtype; one of another size makes the last axis longer or shorter, the lowest bits
            first

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.bitcast(self, dtype, name=name)

    def detach(self, *, name=None) -> Node:
        """x, through which no gradient flows

        Returns: a tensor
        """
        return self.graph.detach(self, name=name)

    def contiguous(self, *, name=None) -> Node:
        """x, written to a buffer of its own

        Returns: a tensor
        """
        return self.graph.contiguous(self, name=name)

    def contiguous_backward(self, *, name=None) -> Node:
        """x, whose gradient is written to a buffer of its own

        Returns: a tensor of floats
        """
        return self.graph.contiguous_backward(self, name=name)

    def sum(self, axis=None, keepdim=False, dtype=None, *, name=None) -> Node:
        """sum, in the dtype; without, bool and integers give 64 bits

        axis: whole number or list of them; None for all
        keepdim: True or False
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.sum(self, axis, keepdim, dtype, name=name)

    def prod(self, axis=None, keepdim=False, dtype=None, *, name=None) -> Node:
        """product, in the dtype; without, bool and integers give 64 bits

        axis: whole number or list of them; None for all
        keepdim: True or False
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.prod(self, axis, keepdim, dtype, name=name)

    def mean(self, axis=None, keepdim=False, *, name=None) -> Node:
        """arithmetic mean

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.mean(self, axis, keepdim, name=name)

    def max(self, axis=None, keepdim=False, *, name=None) -> Node:
        """the largest; its gradient is shared between equals

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.max(self, axis, keepdim, name=name)

    def min(self, axis=None, keepdim=False, *, name=None) -> Node:
        """the smallest; its gradient is shared between equals

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.min(self, axis, keepdim, name=name)

    def argmax(self, axis=None, keepdim=False, *, name=None) -> Node:
        """where the largest is, the first of equals; without axis in the flattened tensor

        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.graph.argmax(self, axis, keepdim, name=name)

    def argmin(self, axis=None, keepdim=False, *, name=None) -> Node:
        """where the smallest is, the first of equals; without axis in the flattened tensor

        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.graph.argmin(self, axis, keepdim, name=name)

    def all(self, axis=None, keepdim=False, *, name=None) -> Node:
        """none is zero

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.graph.all(self, axis, keepdim, name=name)

    def any(self, axis=None, keepdim=False, *, name=None) -> Node:
        """some is not zero

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.graph.any(self, axis, keepdim, name=name)

    def count_nonzero(self, axis=None, keepdim=False, *, name=None) -> Node:
        """how many are not zero

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.graph.count_nonzero(self, axis, keepdim, name=name)

    def var(self, axis=None, correction=1, keepdim=False, *, name=None) -> Node:
        """variance, divided by the count less the correction

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.var(self, axis, correction, keepdim, name=name)

    def std(self, axis=None, correction=1, keepdim=False, *, name=None) -> Node:
        """square root of var; the gradient is 0 where var is 0

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.std(self, axis, correction, keepdim, name=name)

    def var_mean(self, axis=None, correction=1, keepdim=False, *, name=None) -> list[Node]:
        """var and mean

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.var_mean(self, axis, correction, keepdim, name=name)

    def std_mean(self, axis=None, correction=1, keepdim=False, *, name=None) -> list[Node]:
        """std and mean

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.std_mean(self, axis, correction, keepdim, name=name)

    def softmax(self, axis=-1, *, name=None) -> Node:
        """exp(x) divided by its sum

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.softmax(self, axis, name=name)

    def log_softmax(self, axis=-1, *, name=None) -> Node:
        """logarithm of softmax

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.log_softmax(self, axis, name=name)

    def softmin(self, axis=-1, *, name=None) -> Node:
        """softmax of -x

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.softmin(self, axis, name=name)

    def normalize(self, p=2, axis=1, eps=1e-12, *, name=None) -> Node:
        """x divided by its p-norm over the axes, which counts as eps at least

        p: number
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.normalize(self, p, axis, eps, name=name)

    def logsumexp(self, axis=None, keepdim=False, *, name=None) -> Node:
        """log(sum(exp(x)))

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.logsumexp(self, axis, keepdim, name=name)

    def cumsum(self, axis=0, dtype=None, *, name=None) -> Node:
        """the sum of each element and all before it; bool and integers give 64 bits

        axis: whole number
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.cumsum(self, axis, dtype, name=name)

    def cumprod(self, axis=0, dtype=None, *, name=None) -> Node:
        """the product of each element and all before it; bool and integers give 64 bits

        axis: whole number
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.cumprod(self, axis, dtype, name=name)

    def logcumsumexp(self, axis=0, *, name=None) -> Node:
        """log(cumsum(exp(x)))

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.logcumsumexp(self, axis, name=name)

    def cummax(self, axis=0, *, name=None) -> list[Node]:
        """the largest of each element and all before it, and where the latest such one is

        axis: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.cummax(self, axis, name=name)

    def cummin(self, axis=0, *, name=None) -> list[Node]:
        """the smallest of each element and all before it, and where the latest such one is

        axis: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.cummin(self, axis, name=name)

    def sort(self, axis=-1, descending=False, *, name=None) -> list[Node]:
        """in order along the axis, and where each element was; equals keep their order, NaN is the largest

        axis: whole number
        descending: True or False
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.sort(self, axis, descending, name=name)

    def argsort(self, axis=-1, descending=False, *, name=None) -> Node:
        """where the elements of the sorted axis are

        axis: whole number
        descending: True or False
        Returns: a tensor of int64
        """
        return self.graph.argsort(self, axis, descending, name=name)

    def topk(self, k, axis=-1, largest=True, *, name=None) -> list[Node]:
        """the k largest (or smallest) along the axis, in order, and where they are

        k: size
        axis: whole number
        largest: True or False
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.topk(self, k, axis, largest, name=name)

    def cross_entropy(self, target, weight=None, reduction="mean", ignore_index=None, label_smoothing=0, *, name=None) -> Node:
        """of logits [N, C, ...] (or [C]) and class indices [N, ...], or probabilities in the shape of x; weight [C]
            weighs the classes; an index that is no class counts as 0, or, unless it is ignore_index, is an error with
            check_indices

        target: tensor of any dtype
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        label_smoothing: number
        Returns: a tensor of floats
        """
        return self.graph.cross_entropy(self, target, weight, reduction, ignore_index, label_smoothing, name=name)

    def nll_loss(self, target, weight=None, reduction="mean", ignore_index=None, *, name=None) -> Node:
        """of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]; weight [C] weighs the classes

        target: tensor of integers
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.graph.nll_loss(self, target, weight, reduction, ignore_index, name=name)

    def sparse_categorical_crossentropy(self, target, reduction="mean", ignore_index=-1, label_smoothing=0, *, name=None) -> Node:
        """cross_entropy of logits [..., C] and class indices [...]

        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        label_smoothing: number
        Returns: a tensor of floats
        """
        return self.graph.sparse_categorical_crossentropy(self, target, reduction, ignore_index, label_smoothing, name=name)

    def mse_loss(self, target, reduction="mean", *, name=None) -> Node:
        """squared difference

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.mse_loss(self, target, reduction, name=name)

    def l1_loss(self, target, reduction="mean", *, name=None) -> Node:
        """|x - target|

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.l1_loss(self, target, reduction, name=name)

    def smooth_l1_loss(self, target, beta=1, reduction="mean", *, name=None) -> Node:
        """squared difference / (2 * beta) below beta, |difference| - beta / 2 above

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        beta: number
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.smooth_l1_loss(self, target, beta, reduction, name=name)

    def huber_loss(self, target, delta=1, reduction="mean", *, name=None) -> Node:
        """squared difference / 2 below delta, a straight line above

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        delta: number
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.huber_loss(self, target, delta, reduction, name=name)

    def binary_cross_entropy(self, target, reduction="mean", *, name=None) -> Node:
        """of probabilities; a logarithm counts as -100 at least

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.binary_cross_entropy(self, target, reduction, name=name)

    def binary_cross_entropy_with_logits(self, target, pos_weight=None, reduction="mean", *, name=None) -> Node:
        """of logits; pos_weight weighs the positive class

        target: tensor of floats (integers and bool become float32), brought to one dtype with x, pos_weight
        pos_weight: tensor of floats (integers and bool become float32), brought to one dtype with x, target
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.binary_cross_entropy_with_logits(self, target, pos_weight, reduction, name=name)

    def kl_div(self, target, reduction="mean", log_target=False, *, name=None) -> Node:
        """of log-probabilities x and probabilities (or their logarithms) target

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        log_target: True or False
        Returns: a tensor of floats
        """
        return self.graph.kl_div(self, target, reduction, log_target, name=name)

    def layer_norm(self, weight=None, bias=None, axis=-1, eps=1e-05, *, name=None) -> Node:
        """(x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.layer_norm(self, weight, bias, axis, eps, name=name)

    def rms_norm(self, weight=None, axis=-1, eps=1e-06, *, name=None) -> Node:
        """x / sqrt(mean(x^2) + eps) over the axes, times weight

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.rms_norm(self, weight, axis, eps, name=name)

    def batch_norm(self, mean, var, weight=None, bias=None, axis=1, eps=1e-05, *, name=None) -> Node:
        """(x - mean) / sqrt(var + eps) * weight + bias, with statistics and weights along one axis

        mean: tensor of floats (integers and bool become float32), brought to one dtype with x, var, weight, bias
        var: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, var, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, mean, var, weight
        axis: whole number
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.batch_norm(self, mean, var, weight, bias, axis, eps, name=name)

    def group_norm(self, groups, *, weight=None, bias=None, eps=1e-05, name=None) -> Node:
        """normalised over each group of channels of [N, C, ...], times weight [C], plus bias [C]

        groups: whole number
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.group_norm(self, groups, weight=weight, bias=bias, eps=eps, name=name)

    def instance_norm(self, weight=None, bias=None, eps=1e-05, *, name=None) -> Node:
        """normalised over each channel of [N, C, ...], times weight [C], plus bias [C]

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.instance_norm(self, weight, bias, eps, name=name)

    def dropout(self, p=0.5, seed=None, *, key=None, name=None) -> Node:
        """0 with probability p, else x / (1 - p); drops always

        p: number
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.dropout(self, p, seed, key=key, name=name)

    def matmul(self, y, *, name=None) -> Node:
        """matrix product over the last two axes, the others broadcast; vectors as in PyTorch

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.matmul(self, y, name=name)

    def linear(self, weight, bias=None, *, name=None) -> Node:
        """x @ weight^T + bias, weight [out, in]

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        Returns: a tensor of floats
        """
        return self.graph.linear(self, weight, bias, name=name)

    def block_linear(self, planes, format, rows=None, activations="float32", *, name=None) -> Node:
        """x @ weight^T with a block-quantised weight [.., out, in], given as the planes of its format: see [quantised
            weights](quantised.md); rows: the rows of the matrix, if the last group of 16 is filled up; activations:
            int8 rounds x to integers times a scale, in chunks of 32 columns

        planes: list, each a tensor of any dtype
        format: "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs" or
            "mxfp4"
        rows: whole number
        activations: "float32" or "int8"
        Returns: a tensor of floats
        """
        return self.graph.block_linear(self, planes, format, rows, activations, name=name)

    def attention(self, k, v, mask=None, causal=False, scale=None, grouped=False, *, name=None) -> Node:
        """softmax(q @ k^T * scale + mask) @ v over [..., length, size]; scale is 1 / sqrt(size) unless given; a bool
            mask says where to look; causal: not ahead; grouped: k and v have fewer heads (axis -3)

        k: tensor of floats (integers and bool become float32), brought to one dtype with q, v
        v: tensor of floats (integers and bool become float32), brought to one dtype with q, k
        mask: tensor of any dtype
        causal: True or False
        scale: number
        grouped: True or False
        Returns: a tensor of floats
        """
        return self.graph.attention(self, k, v, mask, causal, scale, grouped, name=name)

    def lstm_cell(self, h, c, w_ih, w_hh, b_ih=None, b_hh=None, *, name=None) -> list[Node]:
        """torch.nn.LSTMCell: the new h and c; weights [4 * n, ...] for input, forget, cell and output gates

        h: tensor of floats (integers and bool become float32), brought to one dtype with x, c, w_ih, w_hh, b_ih, b_hh
        c: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih, b_hh
        w_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_hh, b_ih, b_hh
        w_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, b_ih, b_hh
        b_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, w_hh, b_hh
        b_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, c, w_ih, w_hh, b_ih
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.lstm_cell(self, h, c, w_ih, w_hh, b_ih, b_hh, name=name)

    def gru_cell(self, h, w_ih, w_hh, b_ih=None, b_hh=None, *, name=None) -> Node:
        """torch.nn.GRUCell: the new h; weights [3 * n, ...] for reset, update and new gates

        h: tensor of floats (integers and bool become float32), brought to one dtype with x, w_ih, w_hh, b_ih, b_hh
        w_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_hh, b_ih, b_hh
        w_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, b_ih, b_hh
        b_ih: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_hh
        b_hh: tensor of floats (integers and bool become float32), brought to one dtype with x, h, w_ih, w_hh, b_ih
        Returns: a tensor of floats
        """
        return self.graph.gru_cell(self, h, w_ih, w_hh, b_ih, b_hh, name=name)

    def conv(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, form="auto", *, name=None) -> Node:
        """x [N, C, ...], weight [O, C / groups, ...], bias [O]; padding is one number, one for each axis, or [before,
            after] for each, flat; form: see conv2d

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        form: "auto", "direct" or "winograd"
        Returns: a tensor of floats
        """
        return self.graph.conv(self, weight, bias, stride, padding, dilation, groups, form, name=name)

    def conv2d(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, form="auto", *, name=None) -> Node:
        """x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]; form: how float32 by 3 x 3 at stride 1 is computed,
            as a sum of products or by Winograd's transforms, which round otherwise; auto takes what should be the
            faster

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        form: "auto", "direct" or "winograd"
        Returns: a tensor of floats
        """
        return self.graph.conv2d(self, weight, bias, stride, padding, dilation, groups, form, name=name)

    def conv_transpose(self, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1, *, name=None) -> Node:
        """x [N, C, ...], weight [C, O / groups, ...], bias [O]: what conv's gradient does to x; padding as of conv

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        output_padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        Returns: a tensor of floats
        """
        return self.graph.conv_transpose(self, weight, bias, stride, padding, output_padding, dilation, groups, name=name)

    def max_pool(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, dims=2, *, name=None) -> Node:
        """largest of each window of the last axes: as many as kernel_size lists, dims where it is one number; stride is
            kernel_size unless given; ceil_mode: a window may hang over the end; the gradient is shared between equals

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        dims: whole number
        Returns: a tensor
        """
        return self.graph.max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, dims, name=name)

    def avg_pool(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, dims=2, *, name=None) -> Node:
        """mean of each window of the last axes, see max_pool

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        ceil_mode: True or False
        count_include_pad: True or False
        dims: whole number
        Returns: a tensor of floats
        """
        return self.graph.avg_pool(self, kernel_size, stride, padding, ceil_mode, count_include_pad, dims, name=name)

    def max_pool2d(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, name=None) -> Node:
        """largest of each window of [..., H, W]; stride is kernel_size unless given

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        Returns: a tensor
        """
        return self.graph.max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode, name=name)

    def avg_pool2d(self, kernel_size, stride=None, padding=0, count_include_pad=True, ceil_mode=False, *, name=None) -> Node:
        """mean of each window of [..., H, W]; stride is kernel_size unless given

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        count_include_pad: True or False
        ceil_mode: True or False
        Returns: a tensor of floats
        """
        return self.graph.avg_pool2d(self, kernel_size, stride, padding, count_include_pad, ceil_mode, name=name)

    def max_pool_indices(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, dims=2, *, name=None) -> list[Node]:
        """max_pool, and where each largest is in its plane, flat; the first of equals

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        ceil_mode: True or False
        dims: whole number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.max_pool_indices(self, kernel_size, stride, padding, dilation, ceil_mode, dims, name=name)

    def max_unpool(self, indices, kernel_size, stride=None, padding=0, output_size=None, dims=2, *, name=None) -> Node:
        """zeros, but x where the indices of max_pool_indices say; the last of several that say the same, nothing for one
            out of range; output_size: of the plane

        indices: tensor of integers
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        output_size: size or list of sizes
        dims: whole number
        Returns: a tensor
        """
        return self.graph.max_unpool(self, indices, kernel_size, stride, padding, output_size, dims, name=name)

    def interpolate(self, size, mode="nearest", align_corners=False, *, name=None) -> Node:
        """the last axes in other sizes: the nearest element, or between neighbours along each axis (linear: any number
            of axes); align_corners: the first and last elements stay where they are

        size: size or list of sizes
        mode: "nearest", "nearest-exact", "linear", "bilinear" or "trilinear"
        align_corners: True or False
        Returns: a tensor of floats
        """
        return self.graph.interpolate(self, size, mode, align_corners, name=name)

    def qr(self, *, name=None) -> list[Node]:
        """torch.linalg.qr, reduced: Q with orthogonal columns and R upper triangular, x = Q R; a diagonal element of R
            may have another sign than LAPACK's

        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.qr(self, name=name)

    def cholesky(self, *, name=None) -> Node:
        """L lower triangular with x = L L^T, of which the lower triangle is read; NaN where x is not positive definite

        Returns: a tensor of floats
        """
        return self.graph.cholesky(self, name=name)

    def triangular_solve(self, b, upper=False, *, name=None) -> Node:
        """x of a x = b, where only the lower (upper) triangle of a is read; b [..., n, k] or [n]

        b: tensor of floats (integers and bool become float32), brought to one dtype with a
        upper: True or False
        Returns: a tensor of floats
        """
        return self.graph.triangular_solve(self, b, upper, name=name)

    def solve(self, b, *, name=None) -> Node:
        """x of a x = b, b [..., n, k] or [n]

        b: tensor of floats (integers and bool become float32), brought to one dtype with a
        Returns: a tensor of floats
        """
        return self.graph.solve(self, b, name=name)

    def inverse(self, *, name=None) -> Node:
        """the inverse; infinite or NaN where there is none

        Returns: a tensor of floats
        """
        return self.graph.inverse(self, name=name)

    def det(self, *, name=None) -> Node:
        """the determinant

        Returns: a tensor of floats
        """
        return self.graph.det(self, name=name)

    def svd(self, full_matrices=True, *, name=None) -> list[Node]:
        """torch.linalg.svd: U, the singular values from the largest, and V^T, x = U S V^T, with all columns of U and
            rows of V^T or as many as there are values; the gradient is that of distinct values over 0

        full_matrices: True or False
        Returns: a list of a tensor of floats, a tensor of floats, a tensor of floats
        """
        return self.graph.svd(self, full_matrices, name=name)

    def fft(self, im=None, axis=-1, *, name=None) -> list[Node]:
        """discrete Fourier transform along the axis

        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.fft(self, im, axis, name=name)

    def ifft(self, im=None, axis=-1, *, name=None) -> list[Node]:
        """its inverse

        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.ifft(self, im, axis, name=name)

    def rfft(self, axis=-1, *, name=None) -> list[Node]:
        """the first n / 2 + 1 parts of the transform of real numbers; the others are their conjugates

        axis: whole number
        Returns: a list of a tensor of floats, a tensor of floats
        """
        return self.graph.rfft(self, axis, name=name)

    def irfft(self, im, axis=-1, n=None, *, name=None) -> Node:
        """the real numbers of which rfft gives that; n is even unless given

        im: tensor of floats (integers and bool become float32), brought to one dtype with re
        axis: whole number
        n: whole number
        Returns: a tensor of floats
        """
        return self.graph.irfft(self, im, axis, n, name=name)

    def keccak(self, rate=136, suffix=6, size=32, *, name=None) -> Node:
        """the hash of the bytes along the last axis: so many bytes of the sponge of this rate, after the domain's
            suffix; SHA3-256 unless given

        rate: whole number
        suffix: whole number
        size: whole number
        Returns: a tensor
        """
        return self.graph.keccak(self, rate, suffix, size, name=name)

    def sha3_224(self, *, name=None) -> Node:
        """SHA3-224 of the bytes along the last axis

        Returns: a tensor
        """
        return self.graph.sha3_224(self, name=name)

    def sha3_256(self, *, name=None) -> Node:
        """SHA3-256 of the bytes along the last axis

        Returns: a tensor
        """
        return self.graph.sha3_256(self, name=name)

    def shake_128(self, size=16, *, name=None) -> Node:
        """so many bytes of SHAKE128 of the bytes along the last axis

        size: whole number
        Returns: a tensor
        """
        return self.graph.shake_128(self, size, name=name)

    def hash(self, *, name=None) -> Node:
        """16 bytes that tell a tensor from others: SHAKE128 of those of blocks of 4 KiB of each MiB of its bytes, the
            last one filled up with zeros, again until one is left

        Returns: a tensor
        """
        return self.graph.hash(self, name=name)

    def gather(self, index, axis=0, *, name=None) -> Node:
        """torch.gather: along the axis, index in the shape of the result; a negative index counts from the end; an index
            out of range reads 0, or is an error with check_indices

        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.graph.gather(self, index, axis, name=name)

    def take(self, index, axis=0, *, name=None) -> Node:
        """x[index] along the axis, index of any shape; a negative index counts from the end; an index out of range reads
            0, or is an error with check_indices

        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.graph.take(self, index, axis, name=name)

    def block_take(self, planes, format, rows=None, *, name=None) -> Node:
        """rows of a block-quantised matrix [rows, columns], given as the planes of its format (see [quantised
            weights](quantised.md)), as float32; rows: the rows of the matrix, if the last group of 16 is filled up

        planes: list, each a tensor of any dtype
        format: "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs" or
            "mxfp4"
        rows: whole number
        Returns: a tensor of floats
        """
        return self.graph.block_take(self, planes, format, rows, name=name)

    def index(self, indices, axis=0, *, name=None) -> Node:
        """x[i, j, ...] by index tensors for neighbouring axes, broadcast together; an index out of range reads 0, or is
            an error with check_indices

        indices: list, each a tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.graph.index(self, indices, axis, name=name)

    def index_put(self, value, indices, axis=0, accumulate=False, *, name=None) -> Node:
        """x with x[i, j, ...] = value, or += value; of several writes to one place the last stays; an index out of range
            writes nothing, or is an error with check_indices

        value: tensor of any dtype, brought to one dtype with x
        indices: list, each a tensor of integers
        axis: whole number
        accumulate: True or False
        Returns: a tensor
        """
        return self.graph.index_put(self, value, indices, axis, accumulate, name=name)

    def scatter(self, index, src, axis=0, reduce="none", *, name=None) -> Node:
        """torch.scatter: x with src written where index says along the axis; of several writes to one place the last
            stays; an index out of range writes nothing, or is an error with check_indices

        index: tensor of integers
        src: tensor of any dtype, brought to one dtype with x
        axis: whole number
        reduce: "none", "add" or "multiply"
        Returns: a tensor
        """
        return self.graph.scatter(self, index, src, axis, reduce, name=name)

    def scatter_reduce(self, index, src, reduce, *, axis=0, include_self=True, name=None) -> Node:
        """torch.scatter_reduce: what is sent to one place folded, with x itself unless include_self is false

        index: tensor of integers
        src: tensor of any dtype, brought to one dtype with x
        reduce: "sum", "prod", "mean", "amax" or "amin"
        axis: whole number
        include_self: True or False
        Returns: a tensor
        """
        return self.graph.scatter_reduce(self, index, src, reduce, axis=axis, include_self=include_self, name=name)

    def masked_select(self, mask, size, fill=0, *, name=None) -> list[Node]:
        """the first size elements where the mask holds, in order, then fill; and how many there are in all

        mask: tensor of bool (numbers become "not zero")
        size: size
        fill: number
        Returns: a list of a tensor, a tensor of int64
        """
        return self.graph.masked_select(self, mask, size, fill, name=name)

    def nonzero(self, size, fill=0, *, name=None) -> list[Node]:
        """[size, ndim]: where the first size elements that are not zero are, then fill; and how many there are in all

        size: size
        fill: whole number
        Returns: a list of a tensor of int64, a tensor of int64
        """
        return self.graph.nonzero(self, size, fill, name=name)

    def one_hot(self, num_classes, dtype="int64", *, name=None) -> Node:
        """1 where the class is x, else 0, along a new last axis; a class out of range is an error with check_indices

        num_classes: size
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.one_hot(self, num_classes, dtype, name=name)

    def tril(self, diagonal=0, *, name=None) -> Node:
        """zero above the diagonal

        diagonal: whole number
        Returns: a tensor
        """
        return self.graph.tril(self, diagonal, name=name)

    def triu(self, diagonal=0, *, name=None) -> Node:
        """zero below the diagonal

        diagonal: whole number
        Returns: a tensor
        """
        return self.graph.triu(self, diagonal, name=name)

    def reshape(self, shape, *, name=None) -> Node:
        """the same elements in another shape; one size may be -1

        shape: size or list of sizes
        Returns: a tensor
        """
        return self.graph.reshape(self, shape, name=name)

    def permute(self, axes, *, name=None) -> Node:
        """axis i of the result is axis axes[i] of x

        axes: whole number or list of them
        Returns: a tensor
        """
        return self.graph.permute(self, axes, name=name)

    def transpose(self, axis0=-2, axis1=-1, *, name=None) -> Node:
        """two axes exchanged

        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.graph.transpose(self, axis0, axis1, name=name)

    def expand(self, shape, *, name=None) -> Node:
        """axes of size 1 repeated, new ones in front; -1 keeps a size

        shape: size or list of sizes
        Returns: a tensor
        """
        return self.graph.expand(self, shape, name=name)

    def pad(self, padding, value=0, mode="constant", *, name=None) -> Node:
        """[before, after] for each axis from the first, also as a flat list; negative ones crop; modes: the value, x
            mirrored at its ends (which are not repeated), its ends, or x from its other end

        padding: list of pairs
        value: number
        mode: "constant", "reflect", "replicate" or "circular"
        Returns: a tensor
        """
        return self.graph.pad(self, padding, value, mode, name=name)

    def shrink(self, ranges, *, name=None) -> Node:
        """[start, stop] for each axis from the first

        ranges: list of pairs
        Returns: a tensor
        """
        return self.graph.shrink(self, ranges, name=name)

    def slice(self, start=None, stop=None, step=None, axis=None, *, name=None) -> Node:
        """x[start:stop:step] on the axes (the first ones, unless given); a negative step goes backwards, to the first
            element where stop is left out or below -size

        start: size or list of sizes
        stop: size or list of sizes
        step: whole number or list of them
        axis: whole number or list of them
        Returns: a tensor
        """
        return self.graph.slice(self, start, stop, step, axis, name=name)

    def flip(self, axis=None, *, name=None) -> Node:
        """the order along the axes reversed

        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.graph.flip(self, axis, name=name)

    def roll(self, shift, axis=None, *, name=None) -> Node:
        """each axis moved on by its shift, what leaves at the end comes in at the start; without axis as if flat

        shift: whole number or list of them
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.graph.roll(self, shift, axis, name=name)

    def repeat(self, repeats, *, name=None) -> Node:
        """torch.Tensor.repeat: each axis as a whole so many times; further numbers make new axes in front

        repeats: size or list of sizes
        Returns: a tensor
        """
        return self.graph.repeat(self, repeats, name=name)

    def repeat_interleave(self, repeats, axis=None, *, name=None) -> Node:
        """each element of the axis so many times; without axis flat

        repeats: size
        axis: whole number
        Returns: a tensor
        """
        return self.graph.repeat_interleave(self, repeats, axis, name=name)

    def unfold(self, axis, size, step, *, name=None) -> Node:
        """torch.Tensor.unfold: windows of the axis, every step elements one, along a new last axis

        axis: whole number
        size: whole number
        step: whole number
        Returns: a tensor
        """
        return self.graph.unfold(self, axis, size, step, name=name)

    def diagonal(self, offset=0, axis0=0, axis1=1, *, name=None) -> Node:
        """the diagonal of two axes, along a new last axis; offset: so many above it

        offset: whole number
        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.graph.diagonal(self, offset, axis0, axis1, name=name)

    def diag(self, offset=0, *, name=None) -> Node:
        """the diagonal of a matrix, or the matrix of a diagonal, with zeros elsewhere

        offset: whole number
        Returns: a tensor
        """
        return self.graph.diag(self, offset, name=name)

    def squeeze(self, axis=None, *, name=None) -> Node:
        """without the axes of size 1 (among those given)

        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.graph.squeeze(self, axis, name=name)

    def unsqueeze(self, axis, *, name=None) -> Node:
        """a new axis of size 1

        axis: whole number
        Returns: a tensor
        """
        return self.graph.unsqueeze(self, axis, name=name)

    def flatten(self, start_axis=0, end_axis=-1, *, name=None) -> Node:
        """the axes from start to end made one

        start_axis: whole number
        end_axis: whole number
        Returns: a tensor
        """
        return self.graph.flatten(self, start_axis, end_axis, name=name)

    def unflatten(self, axis, sizes, *, name=None) -> Node:
        """one axis split into several; one size may be -1

        axis: whole number
        sizes: size or list of sizes
        Returns: a tensor
        """
        return self.graph.unflatten(self, axis, sizes, name=name)

    def rearrange(self, formula, *, name=None) -> Node:
        """axes named as in einops: 'b (h w) c -> b c h w'; a name in parentheses is a part of an axis, and all parts of
            one but one need a size: '(h=3 w)'; 1 is an axis of size 1, ... stands for all others

        formula: string
        Returns: a tensor
        """
        return self.graph.rearrange(self, formula, name=name)

    def split(self, sizes, axis=0, *, results, name=None) -> list[Node]:
        """parts of the axis of these sizes, or as many of one size as there are, of which the last may be shorter

        sizes: whole number or list of them
        axis: whole number
        results: how many there are, which the server checks
        Returns: a list, each a tensor
        """
        return self.graph.split(self, sizes, axis, results=results, name=name)

    def chunk(self, chunks, axis=0, *, results, name=None) -> list[Node]:
        """the axis in so many parts of one size, of which the last may be shorter, or in fewer where that takes it all

        chunks: whole number
        axis: whole number
        results: how many there are, which the server checks
        Returns: a list, each a tensor
        """
        return self.graph.chunk(self, chunks, axis, results=results, name=name)

    def pad_to(self, shape, value=0, *, name=None) -> Node:
        """the value after the ends of the axes, up to this shape; -1 keeps a size

        shape: size or list of sizes
        value: number
        Returns: a tensor
        """
        return self.graph.pad_to(self, shape, value, name=name)

    def shrink_to(self, shape, *, name=None) -> Node:
        """the first elements of each axis, down to this shape; -1 keeps a size

        shape: size or list of sizes
        Returns: a tensor
        """
        return self.graph.shrink_to(self, shape, name=name)

    def zeros_like(self, dtype=None, *, name=None) -> Node:
        """zeros in the shape of x

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.zeros_like(self, dtype, name=name)

    def ones_like(self, dtype=None, *, name=None) -> Node:
        """ones in the shape of x

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.ones_like(self, dtype, name=name)

    def full_like(self, value, dtype=None, *, name=None) -> Node:
        """every element the value, in the shape of x

        value: number
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.full_like(self, value, dtype, name=name)

    def rand_like(self, dtype=None, seed=None, *, key=None, name=None) -> Node:
        """uniform between 0 and 1 in the shape of x

        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.rand_like(self, dtype, seed, key=key, name=name)

    def randn_like(self, dtype=None, seed=None, *, key=None, name=None) -> Node:
        """normal distribution in the shape of x

        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.randn_like(self, dtype, seed, key=key, name=name)

    def bernoulli(self, seed=None, *, key=None, name=None) -> Node:
        """1 with probability p, else 0

        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.bernoulli(self, seed, key=key, name=name)

    def multinomial(self, num_samples=1, replacement=False, seed=None, *, key=None, name=None) -> Node:
        """[..., num_samples]: indices drawn by weight along the last axis; without replacement each at most once

        num_samples: size
        replacement: True or False
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor of int64
        """
        return self.graph.multinomial(self, num_samples, replacement, seed, key=key, name=name)

    def threefry(self, key, *, name=None) -> Node:
        """Threefry-2x32 of uint64: the low half is the first word

        key: integer scalar that fixes what this place of the graph draws; by default every step draws anew
        Returns: a tensor
        """
        return self.graph.threefry(self, key, name=name)

    def sgd(self, params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.SGD: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        dampening: number
        weight_decay: number
        nesterov: True or False
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.sgd(self, params, lr, momentum, dampening, weight_decay, nesterov, clip_norm, clip_value, name=name)

    def adam(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.Adam: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.adam(self, params, lr, betas, eps, weight_decay, clip_norm, clip_value, name=name)

    def adamw(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.AdamW: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.adamw(self, params, lr, betas, eps, weight_decay, clip_norm, clip_value, name=name)

    def adagrad(self, params, lr=0.01, lr_decay=0, weight_decay=0, eps=1e-10, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.Adagrad: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        lr_decay: number
        weight_decay: number
        eps: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.adagrad(self, params, lr, lr_decay, weight_decay, eps, clip_norm, clip_value, name=name)

    def rmsprop(self, params, lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """torch.optim.RMSprop: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        alpha: number
        eps: number
        weight_decay: number
        momentum: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.rmsprop(self, params, lr, alpha, eps, weight_decay, momentum, clip_norm, clip_value, name=name)

    def lamb(self, params, lr=0.001, b1=0.9, b2=0.999, eps=1e-06, weight_decay=0, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """LAMB (You et al., arXiv:1904.00962): the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        b1: number
        b2: number
        eps: number
        weight_decay: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.lamb(self, params, lr, b1, b2, eps, weight_decay, clip_norm, clip_value, name=name)

    def lars(self, params, lr=0.001, momentum=0.9, weight_decay=0.0001, nesterov=False, classic=True, tcoef=0.001, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """LARS (You et al., arXiv:1708.03888): the new parameters; classic: the rate goes into the momentum

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        weight_decay: number
        nesterov: True or False
        classic: True or False
        tcoef: number
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.lars(self, params, lr, momentum, weight_decay, nesterov, classic, tcoef, clip_norm, clip_value, name=name)

    def muon(self, params, lr=0.02, momentum=0.95, weight_decay=0.1, steps=5, nesterov=True, clip_norm=None, clip_value=None, *, name=None) -> list[Node]:
        """Muon (Jordan et al., 2024): momentum made orthogonal by Newton-Schulz steps, for parameters [n, ...] seen as
            matrices

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        weight_decay: number
        steps: whole number
        nesterov: True or False
        clip_norm: number
        clip_value: number
        Returns: a list, each a tensor
        """
        return self.graph.muon(self, params, lr, momentum, weight_decay, steps, nesterov, clip_norm, clip_value, name=name)

    def newton_schulz(self, steps=5, params=(3.4445, -4.775, 2.0315), eps=1e-07, *, name=None) -> Node:
        """the nearest orthogonal matrix, roughly: x = a x + b (x x^T) x + c (x x^T)^2 x so many times, from x of norm 1

        steps: whole number
        params: list of numbers
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.newton_schulz(self, steps, params, eps, name=name)

    def step_lr(self, lr, step_size, gamma=0.1, *, name=None) -> Node:
        """lr times gamma every step_size steps

        lr: number
        step_size: whole number
        gamma: number
        Returns: a tensor of floats
        """
        return self.graph.step_lr(self, lr, step_size, gamma, name=name)

    def polynomial_lr(self, lr, total, power=1, end=0, *, name=None) -> Node:
        """from lr to end in total steps

        lr: number
        total: whole number
        power: number
        end: number
        Returns: a tensor of floats
        """
        return self.graph.polynomial_lr(self, lr, total, power, end, name=name)

    def cosine_lr(self, lr, total, end=0, *, name=None) -> Node:
        """from lr to end in total steps, along half a cosine

        lr: number
        total: whole number
        end: number
        Returns: a tensor of floats
        """
        return self.graph.cosine_lr(self, lr, total, end, name=name)

    def warmup_lr(self, lr, warmup, *, name=None) -> Node:
        """up to lr in warmup steps

        lr: number
        warmup: whole number
        Returns: a tensor of floats
        """
        return self.graph.warmup_lr(self, lr, warmup, name=name)

    def one_cycle_lr(self, lr, total, pct_start=0.3, div=25, final_div=10000, *, name=None) -> Node:
        """torch's OneCycleLR: from lr / div up to lr in pct_start of the steps, then down to lr / div / final_div

        lr: number
        total: whole number
        pct_start: number
        div: number
        final_div: number
        Returns: a tensor of floats
        """
        return self.graph.one_cycle_lr(self, lr, total, pct_start, div, final_div, name=name)
