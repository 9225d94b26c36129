# SPDX-License-Identifier: MIT
# Made by tools/gen_client.py from proto/ops.json; change those.
"""A method for every op of the wire: of a graph, and, where the op begins with a tensor, of a tensor too.

Where a tensor is wanted, a number will do; a whole one takes the dtype of the other operand.  Sizes are whole numbers or
names of dimensions.  ``name`` is the id of the node, or the list of its ids where the op has several results; by default one
is made up.  Shapes and dtypes are checked by the server: what cannot be is InvalidGraph, which says why and names the node.
"""

# What the server takes where an attribute is left out: these are not sent.
DEFAULTS = {
    "leaky_relu": {"negative_slope": 0.01},
    "gelu": {"approximate": "none"},
    "softplus": {"beta": 1, "threshold": 20},
    "sum": {"keepdim": False},
    "prod": {"keepdim": False},
    "mean": {"keepdim": False},
    "max": {"keepdim": False},
    "min": {"keepdim": False},
    "argmax": {"keepdim": False},
    "argmin": {"keepdim": False},
    "all": {"keepdim": False},
    "any": {"keepdim": False},
    "var": {"correction": 1, "keepdim": False},
    "std": {"correction": 1, "keepdim": False},
    "softmax": {"axis": -1},
    "log_softmax": {"axis": -1},
    "logsumexp": {"keepdim": False},
    "cross_entropy": {"reduction": "mean"},
    "nll_loss": {"reduction": "mean"},
    "mse_loss": {"reduction": "mean"},
    "layer_norm": {"axis": -1, "eps": 1e-05},
    "dropout": {"p": 0.5},
    "conv2d": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1},
    "max_pool2d": {"padding": 0, "dilation": 1},
    "avg_pool2d": {"padding": 0, "count_include_pad": True},
    "gather": {"axis": 0},
    "take": {"axis": 0},
    "one_hot": {"dtype": "int64"},
    "tril": {"diagonal": 0},
    "triu": {"diagonal": 0},
    "transpose": {"axis0": -2, "axis1": -1},
    "pad": {"value": 0},
    "flatten": {"start_axis": 0, "end_axis": -1},
    "cat": {"axis": 0},
    "stack": {"axis": 0},
    "arange": {"start": 0, "step": 1},
    "full": {"dtype": "float32"},
    "zeros": {"dtype": "float32"},
    "ones": {"dtype": "float32"},
    "eye": {"dtype": "float32"},
    "uniform": {"low": 0, "high": 1, "dtype": "float32"},
    "normal": {"mean": 0, "std": 1, "dtype": "float32"},
    "randint": {"low": 0, "dtype": "int64"},
    "randperm": {"dtype": "int64"},
    "kaiming_uniform": {"a": 0, "mode": "fan_in", "dtype": "float32"},
    "kaiming_normal": {"a": 0, "mode": "fan_in", "dtype": "float32"},
    "glorot_uniform": {"dtype": "float32"},
    "scaled_uniform": {"dtype": "float32"},
    "sgd": {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
    "adam": {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0},
    "adamw": {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0.01},
}
# Ops whose results are a list, even of one.
LISTED = ("grad", "sgd", "adam", "adamw")


class GraphOps:
    """Ops as methods of a graph."""

    def add(self, x, y, *, name=None):
        """x + y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("add", [x, y], {}, name)

    def sub(self, x, y, *, name=None):
        """x - y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("sub", [x, y], {}, name)

    def mul(self, x, y, *, name=None):
        """x * y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("mul", [x, y], {}, name)

    def div(self, x, y, *, name=None):
        """x / y; integers give float32

        x: tensor of floats (integers and bool become float32), brought to one dtype with y
        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.op("div", [x, y], {}, name)

    def floor_div(self, x, y, *, name=None):
        """floor of x / y; an integer by zero gives 0

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("floor_div", [x, y], {}, name)

    def mod(self, x, y, *, name=None):
        """x - y * floor(x / y), with the sign of y; an integer by zero gives 0

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("mod", [x, y], {}, name)

    def neg(self, x, *, name=None):
        """-x

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("neg", [x], {}, name)

    def abs(self, x, *, name=None):
        """|x|

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("abs", [x], {}, name)

    def sign(self, x, *, name=None):
        """-1, 0 or 1

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("sign", [x], {}, name)

    def square(self, x, *, name=None):
        """x * x

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("square", [x], {}, name)

    def sqrt(self, x, *, name=None):
        """square root

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sqrt", [x], {}, name)

    def rsqrt(self, x, *, name=None):
        """1 / square root

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("rsqrt", [x], {}, name)

    def reciprocal(self, x, *, name=None):
        """1 / x

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("reciprocal", [x], {}, name)

    def exp(self, x, *, name=None):
        """e to the x

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("exp", [x], {}, name)

    def log(self, x, *, name=None):
        """natural logarithm

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("log", [x], {}, name)

    def sin(self, x, *, name=None):
        """sine of radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sin", [x], {}, name)

    def cos(self, x, *, name=None):
        """cosine of radians

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("cos", [x], {}, name)

    def floor(self, x, *, name=None):
        """the next whole number below

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("floor", [x], {}, name)

    def ceil(self, x, *, name=None):
        """the next whole number above

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("ceil", [x], {}, name)

    def trunc(self, x, *, name=None):
        """towards zero

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("trunc", [x], {}, name)

    def maximum(self, x, y, *, name=None):
        """the larger; NaN if either is

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("maximum", [x, y], {}, name)

    def minimum(self, x, y, *, name=None):
        """the smaller; NaN if either is

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("minimum", [x, y], {}, name)

    def clamp(self, x, min=None, max=None, *, name=None):
        """x, but not below min nor above max

        x: tensor of any dtype
        min: number
        max: number
        Returns: a tensor
        """
        return self.op("clamp", [x], {"min": min, "max": max}, name)

    def relu(self, x, *, name=None):
        """max(x, 0)

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("relu", [x], {}, name)

    def leaky_relu(self, x, negative_slope=0.01, *, name=None):
        """x where positive, else negative_slope * x

        x: tensor of floats (integers and bool become float32)
        negative_slope: number
        Returns: a tensor of floats
        """
        return self.op("leaky_relu", [x], {"negative_slope": negative_slope}, name)

    def sigmoid(self, x, *, name=None):
        """1 / (1 + exp(-x))

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("sigmoid", [x], {}, name)

    def tanh(self, x, *, name=None):
        """hyperbolic tangent

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("tanh", [x], {}, name)

    def erf(self, x, *, name=None):
        """error function

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("erf", [x], {}, name)

    def gelu(self, x, approximate="none", *, name=None):
        """x times the normal distribution function of x

        x: tensor of floats (integers and bool become float32)
        approximate: "none" or "tanh"
        Returns: a tensor of floats
        """
        return self.op("gelu", [x], {"approximate": approximate}, name)

    def silu(self, x, *, name=None):
        """x * sigmoid(x)

        x: tensor of floats (integers and bool become float32)
        Returns: a tensor of floats
        """
        return self.op("silu", [x], {}, name)

    def softplus(self, x, beta=1, threshold=20, *, name=None):
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold

        x: tensor of floats (integers and bool become float32)
        beta: number
        threshold: number
        Returns: a tensor of floats
        """
        return self.op("softplus", [x], {"beta": beta, "threshold": threshold}, name)

    def equal(self, x, y, *, name=None):
        """x == y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("equal", [x, y], {}, name)

    def not_equal(self, x, y, *, name=None):
        """x != y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("not_equal", [x, y], {}, name)

    def less(self, x, y, *, name=None):
        """x < y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("less", [x, y], {}, name)

    def less_equal(self, x, y, *, name=None):
        """x <= y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("less_equal", [x, y], {}, name)

    def greater(self, x, y, *, name=None):
        """x > y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("greater", [x, y], {}, name)

    def greater_equal(self, x, y, *, name=None):
        """x >= y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.op("greater_equal", [x, y], {}, name)

    def isnan(self, x, *, name=None):
        """is it NaN

        x: tensor of any dtype
        Returns: a tensor of bool
        """
        return self.op("isnan", [x], {}, name)

    def logical_and(self, x, y, *, name=None):
        """both are not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_and", [x, y], {}, name)

    def logical_or(self, x, y, *, name=None):
        """one or both are not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_or", [x, y], {}, name)

    def logical_xor(self, x, y, *, name=None):
        """one of them is not zero

        x: tensor of bool (numbers become "not zero")
        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_xor", [x, y], {}, name)

    def logical_not(self, x, *, name=None):
        """is it zero

        x: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.op("logical_not", [x], {}, name)

    def bitwise_and(self, x, y, *, name=None):
        """bits that both have

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_and", [x, y], {}, name)

    def bitwise_or(self, x, y, *, name=None):
        """bits that one or both have

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_or", [x, y], {}, name)

    def bitwise_xor(self, x, y, *, name=None):
        """bits that one of them has

        x: tensor of integers or bool, brought to one dtype with y
        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_xor", [x, y], {}, name)

    def bitwise_not(self, x, *, name=None):
        """every bit turned

        x: tensor of integers or bool
        Returns: a tensor of integers or bool
        """
        return self.op("bitwise_not", [x], {}, name)

    def left_shift(self, x, y, *, name=None):
        """x * 2^y modulo the width; 0 from the width on

        x: tensor of integers, brought to one dtype with y
        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.op("left_shift", [x, y], {}, name)

    def right_shift(self, x, y, *, name=None):
        """floor of x / 2^y

        x: tensor of integers, brought to one dtype with y
        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.op("right_shift", [x, y], {}, name)

    def where(self, condition, x, y, *, name=None):
        """x where the condition holds, else y

        condition: tensor of bool (numbers become "not zero")
        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("where", [condition, x, y], {}, name)

    def cast(self, x, dtype, *, name=None):
        """conversion by value; float to integer truncates and saturates

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("cast", [x], {"dtype": dtype}, name)

    def bitcast(self, x, dtype, *, name=None):
        """the same bits as another dtype of the same size

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("bitcast", [x], {"dtype": dtype}, name)

    def detach(self, x, *, name=None):
        """x, through which no gradient flows

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("detach", [x], {}, name)

    def contiguous(self, x, *, name=None):
        """x, written to a buffer of its own

        x: tensor of any dtype
        Returns: a tensor
        """
        return self.op("contiguous", [x], {}, name)

    def sum(self, x, axis=None, keepdim=False, *, name=None):
        """sum; bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("sum", [x], {"axis": axis, "keepdim": keepdim}, name)

    def prod(self, x, axis=None, keepdim=False, *, name=None):
        """product; bool and integers give 64 bits

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("prod", [x], {"axis": axis, "keepdim": keepdim}, name)

    def mean(self, x, axis=None, keepdim=False, *, name=None):
        """arithmetic mean

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("mean", [x], {"axis": axis, "keepdim": keepdim}, name)

    def max(self, x, axis=None, keepdim=False, *, name=None):
        """the largest; its gradient is shared between equals

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("max", [x], {"axis": axis, "keepdim": keepdim}, name)

    def min(self, x, axis=None, keepdim=False, *, name=None):
        """the smallest; its gradient is shared between equals

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.op("min", [x], {"axis": axis, "keepdim": keepdim}, name)

    def argmax(self, x, axis=None, keepdim=False, *, name=None):
        """where the largest is, the first of equals; without axis in the flattened tensor

        x: tensor of any dtype
        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.op("argmax", [x], {"axis": axis, "keepdim": keepdim}, name)

    def argmin(self, x, axis=None, keepdim=False, *, name=None):
        """where the smallest is, the first of equals; without axis in the flattened tensor

        x: tensor of any dtype
        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.op("argmin", [x], {"axis": axis, "keepdim": keepdim}, name)

    def all(self, x, axis=None, keepdim=False, *, name=None):
        """none is zero

        x: tensor of bool (numbers become "not zero")
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.op("all", [x], {"axis": axis, "keepdim": keepdim}, name)

    def any(self, x, axis=None, keepdim=False, *, name=None):
        """some is not zero

        x: tensor of bool (numbers become "not zero")
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.op("any", [x], {"axis": axis, "keepdim": keepdim}, name)

    def var(self, x, axis=None, correction=1, keepdim=False, *, name=None):
        """variance, divided by the count less the correction

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("var", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name)

    def std(self, x, axis=None, correction=1, keepdim=False, *, name=None):
        """square root of var

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("std", [x], {"axis": axis, "correction": correction, "keepdim": keepdim}, name)

    def softmax(self, x, axis=-1, *, name=None):
        """exp(x) divided by its sum

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("softmax", [x], {"axis": axis}, name)

    def log_softmax(self, x, axis=-1, *, name=None):
        """logarithm of softmax

        x: tensor of floats (integers and bool become float32)
        axis: whole number
        Returns: a tensor of floats
        """
        return self.op("log_softmax", [x], {"axis": axis}, name)

    def logsumexp(self, x, axis=None, keepdim=False, *, name=None):
        """log(sum(exp(x)))

        x: tensor of floats (integers and bool become float32)
        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.op("logsumexp", [x], {"axis": axis, "keepdim": keepdim}, name)

    def cross_entropy(self, x, target, reduction="mean", ignore_index=None, *, name=None):
        """of logits [N, C, ...] (or [C]) and class indices [N, ...]; a target that is no class counts as 0

        x: tensor of floats (integers and bool become float32)
        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.op("cross_entropy", [x, target], {"reduction": reduction, "ignore_index": ignore_index}, name)

    def nll_loss(self, x, target, reduction="mean", ignore_index=None, *, name=None):
        """of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]

        x: tensor of floats (integers and bool become float32)
        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.op("nll_loss", [x, target], {"reduction": reduction, "ignore_index": ignore_index}, name)

    def mse_loss(self, x, target, reduction="mean", *, name=None):
        """squared difference

        x: tensor of floats (integers and bool become float32), brought to one dtype with target
        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.op("mse_loss", [x, target], {"reduction": reduction}, name)

    def layer_norm(self, x, weight=None, bias=None, axis=-1, eps=1e-05, *, name=None):
        """(x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.op("layer_norm", [x, weight, bias], {"axis": axis, "eps": eps}, name)

    def dropout(self, x, p=0.5, seed=None, *, key=None, name=None):
        """0 with probability p, else x / (1 - p); drops always

        x: tensor of floats (integers and bool become float32)
        p: number
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes the draw; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("dropout", [x, key], {"p": p, "seed": seed}, name)

    def matmul(self, x, y, *, name=None):
        """matrix product over the last two axes, the others broadcast; vectors as in PyTorch

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.op("matmul", [x, y], {}, name)

    def linear(self, x, weight, bias=None, *, name=None):
        """x @ weight^T + bias, weight [out, in]

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        Returns: a tensor of floats
        """
        return self.op("linear", [x, weight, bias], {}, name)

    def conv2d(self, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, name=None):
        """x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]

        x: tensor of floats (integers and bool become float32), brought to one dtype with weight, bias
        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        Returns: a tensor of floats
        """
        return self.op("conv2d", [x, weight, bias], {"stride": stride, "padding": padding, "dilation": dilation, "groups":
            groups}, name)

    def max_pool2d(self, x, kernel_size, stride=None, padding=0, dilation=1, *, name=None):
        """largest of each window of [..., H, W]; stride is kernel_size unless given

        x: tensor of any dtype
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        Returns: a tensor
        """
        return self.op("max_pool2d", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation":
            dilation}, name)

    def avg_pool2d(self, x, kernel_size, stride=None, padding=0, count_include_pad=True, *, name=None):
        """mean of each window of [..., H, W]; stride is kernel_size unless given

        x: tensor of floats (integers and bool become float32)
        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        count_include_pad: True or False
        Returns: a tensor of floats
        """
        return self.op("avg_pool2d", [x], {"kernel_size": kernel_size, "stride": stride, "padding": padding,
            "count_include_pad": count_include_pad}, name)

    def gather(self, x, index, axis=0, *, name=None):
        """torch.gather: along the axis, index in the shape of the result; negative counts from the end, out of range
            reads 0

        x: tensor of any dtype
        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.op("gather", [x, index], {"axis": axis}, name)

    def take(self, x, index, axis=0, *, name=None):
        """x[index] along the axis, index of any shape; negative counts from the end, out of range reads 0

        x: tensor of any dtype
        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.op("take", [x, index], {"axis": axis}, name)

    def one_hot(self, x, num_classes, dtype="int64", *, name=None):
        """1 where the class is x, else 0, along a new last axis

        x: tensor of integers
        num_classes: size
        dtype: dtype
        Returns: a tensor
        """
        return self.op("one_hot", [x], {"num_classes": num_classes, "dtype": dtype}, name)

    def tril(self, x, diagonal=0, *, name=None):
        """zero above the diagonal

        x: tensor of any dtype
        diagonal: whole number
        Returns: a tensor
        """
        return self.op("tril", [x], {"diagonal": diagonal}, name)

    def triu(self, x, diagonal=0, *, name=None):
        """zero below the diagonal

        x: tensor of any dtype
        diagonal: whole number
        Returns: a tensor
        """
        return self.op("triu", [x], {"diagonal": diagonal}, name)

    def reshape(self, x, shape, *, name=None):
        """the same elements in another shape; one size may be -1

        x: tensor of any dtype
        shape: size or list of sizes
        Returns: a tensor
        """
        return self.op("reshape", [x], {"shape": shape}, name)

    def permute(self, x, axes, *, name=None):
        """axis i of the result is axis axes[i] of x

        x: tensor of any dtype
        axes: whole number or list of them
        Returns: a tensor
        """
        return self.op("permute", [x], {"axes": axes}, name)

    def transpose(self, x, axis0=-2, axis1=-1, *, name=None):
        """two axes exchanged

        x: tensor of any dtype
        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.op("transpose", [x], {"axis0": axis0, "axis1": axis1}, name)

    def expand(self, x, shape, *, name=None):
        """axes of size 1 repeated, new ones in front; -1 keeps a size

        x: tensor of any dtype
        shape: size or list of sizes
        Returns: a tensor
        """
        return self.op("expand", [x], {"shape": shape}, name)

    def pad(self, x, padding, value=0, *, name=None):
        """[before, after] for each axis from the first, also as a flat list

        x: tensor of any dtype
        padding: list of pairs
        value: number
        Returns: a tensor
        """
        return self.op("pad", [x], {"padding": padding, "value": value}, name)

    def shrink(self, x, ranges, *, name=None):
        """[start, stop] for each axis from the first

        x: tensor of any dtype
        ranges: list of pairs
        Returns: a tensor
        """
        return self.op("shrink", [x], {"ranges": ranges}, name)

    def slice(self, x, start=None, stop=None, step=None, axis=None, *, name=None):
        """x[start:stop:step] on the axes (the first ones, unless given); step is positive

        x: tensor of any dtype
        start: size or list of sizes
        stop: size or list of sizes
        step: whole number or list of them
        axis: whole number or list of them
        Returns: a tensor
        """
        return self.op("slice", [x], {"start": start, "stop": stop, "step": step, "axis": axis}, name)

    def flip(self, x, axis=None, *, name=None):
        """the order along the axes reversed

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.op("flip", [x], {"axis": axis}, name)

    def squeeze(self, x, axis=None, *, name=None):
        """without the axes of size 1 (among those given)

        x: tensor of any dtype
        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.op("squeeze", [x], {"axis": axis}, name)

    def unsqueeze(self, x, axis, *, name=None):
        """a new axis of size 1

        x: tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("unsqueeze", [x], {"axis": axis}, name)

    def flatten(self, x, start_axis=0, end_axis=-1, *, name=None):
        """the axes from start to end made one

        x: tensor of any dtype
        start_axis: whole number
        end_axis: whole number
        Returns: a tensor
        """
        return self.op("flatten", [x], {"start_axis": start_axis, "end_axis": end_axis}, name)

    def cat(self, xs, axis=0, *, name=None):
        """one after the other along the axis

        xs: list, each a tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("cat", [*xs], {"axis": axis}, name)

    def stack(self, xs, axis=0, *, name=None):
        """side by side along a new axis

        xs: list, each a tensor of any dtype
        axis: whole number
        Returns: a tensor
        """
        return self.op("stack", [*xs], {"axis": axis}, name)

    def arange(self, stop, *, start=0, step=1, dtype=None, name=None):
        """start, start + step, ... below stop; int64, or float32 if one of them has a fraction

        stop: number or name of a dimension
        start: number or name of a dimension
        step: number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("arange", [], {"start": start, "stop": stop, "step": step, "dtype": dtype}, name)

    def full(self, shape, value, dtype="float32", *, name=None):
        """every element the value

        shape: size or list of sizes
        value: number
        dtype: dtype
        Returns: a tensor
        """
        return self.op("full", [], {"shape": shape, "value": value, "dtype": dtype}, name)

    def zeros(self, shape, dtype="float32", *, name=None):
        """zeros

        shape: size or list of sizes
        dtype: dtype
        Returns: a tensor
        """
        return self.op("zeros", [], {"shape": shape, "dtype": dtype}, name)

    def ones(self, shape, dtype="float32", *, name=None):
        """ones

        shape: size or list of sizes
        dtype: dtype
        Returns: a tensor
        """
        return self.op("ones", [], {"shape": shape, "dtype": dtype}, name)

    def zeros_like(self, x, dtype=None, *, name=None):
        """zeros in the shape of x

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("zeros_like", [x], {"dtype": dtype}, name)

    def ones_like(self, x, dtype=None, *, name=None):
        """ones in the shape of x

        x: tensor of any dtype
        dtype: dtype
        Returns: a tensor
        """
        return self.op("ones_like", [x], {"dtype": dtype}, name)

    def eye(self, n, m=None, dtype="float32", *, name=None):
        """the n by m matrix with ones on the diagonal; m is n unless given

        n: size
        m: size
        dtype: dtype
        Returns: a tensor
        """
        return self.op("eye", [], {"n": n, "m": m, "dtype": dtype}, name)

    def uniform(self, shape, *, key=None, low=0, high=1, dtype="float32", seed=None, name=None):
        """uniform between low and high

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        low: number
        high: number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("uniform", [key], {"shape": shape, "low": low, "high": high, "dtype": dtype, "seed": seed}, name)

    def normal(self, shape, *, key=None, mean=0, std=1, dtype="float32", seed=None, name=None):
        """normal distribution

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        mean: number
        std: number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("normal", [key], {"shape": shape, "mean": mean, "std": std, "dtype": dtype, "seed": seed}, name)

    def randint(self, shape, high, *, key=None, low=0, dtype="int64", seed=None, name=None):
        """whole numbers from low to high - 1

        shape: size or list of sizes
        high: number or name of a dimension
        key: integer scalar that fixes the draw; by default every step draws anew
        low: whole number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of integers
        """
        return self.op("randint", [key], {"shape": shape, "low": low, "high": high, "dtype": dtype, "seed": seed}, name)

    def randperm(self, n, *, key=None, dtype="int64", seed=None, name=None):
        """the numbers from 0 to n - 1 in random order

        n: size
        key: integer scalar that fixes the draw; by default every step draws anew
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of integers
        """
        return self.op("randperm", [key], {"n": n, "dtype": dtype, "seed": seed}, name)

    def rand_like(self, x, dtype=None, seed=None, *, key=None, name=None):
        """uniform between 0 and 1 in the shape of x

        x: tensor of any dtype
        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes the draw; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.op("rand_like", [x, key], {"dtype": dtype, "seed": seed}, name)

    def kaiming_uniform(self, shape, *, key=None, a=0, mode="fan_in", dtype="float32", seed=None, name=None):
        """uniform within sqrt(6 / ((1 + a^2) * fan))

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        a: number
        mode: "fan_in" or "fan_out"
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("kaiming_uniform", [key], {"shape": shape, "a": a, "mode": mode, "dtype": dtype, "seed": seed}, name)

    def kaiming_normal(self, shape, *, key=None, a=0, mode="fan_in", dtype="float32", seed=None, name=None):
        """normal with deviation sqrt(2 / ((1 + a^2) * fan))

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        a: number
        mode: "fan_in" or "fan_out"
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("kaiming_normal", [key], {"shape": shape, "a": a, "mode": mode, "dtype": dtype, "seed": seed}, name)

    def glorot_uniform(self, shape, *, key=None, dtype="float32", seed=None, name=None):
        """uniform within sqrt(6 / (fan_in + fan_out))

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("glorot_uniform", [key], {"shape": shape, "dtype": dtype, "seed": seed}, name)

    def scaled_uniform(self, shape, *, key=None, fan_in=None, dtype="float32", seed=None, name=None):
        """uniform within 1 / sqrt(fan_in): how PyTorch starts Linear and Conv2d (a bias: give fan_in)

        shape: size or list of sizes
        key: integer scalar that fixes the draw; by default every step draws anew
        fan_in: whole number
        dtype: dtype
        seed: whole number; by default the seed of the run
        Returns: a tensor of floats
        """
        return self.op("scaled_uniform", [key], {"shape": shape, "fan_in": fan_in, "dtype": dtype, "seed": seed}, name)

    def sgd(self, loss, params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, name=None):
        """torch.optim.SGD: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        dampening: number
        weight_decay: number
        nesterov: True or False
        Returns: a list, each a tensor
        """
        return self.op("sgd", [loss, *params], {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay":
            weight_decay, "nesterov": nesterov}, name, results=len(params))

    def adam(self, loss, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, *, name=None):
        """torch.optim.Adam: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        Returns: a list, each a tensor
        """
        return self.op("adam", [loss, *params], {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}, name,
            results=len(params))

    def adamw(self, loss, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, *, name=None):
        """torch.optim.AdamW: the new parameters

        loss: tensor of any dtype
        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        Returns: a list, each a tensor
        """
        return self.op("adamw", [loss, *params], {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}, name,
            results=len(params))


class NodeOps:
    """Ops as methods of their first operand."""

    def add(self, y, *, name=None):
        """x + y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.add(self, y, name=name)

    def sub(self, y, *, name=None):
        """x - y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.sub(self, y, name=name)

    def mul(self, y, *, name=None):
        """x * y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.mul(self, y, name=name)

    def div(self, y, *, name=None):
        """x / y; integers give float32

        y: tensor of floats (integers and bool become float32), brought to one dtype with x
        Returns: a tensor of floats
        """
        return self.graph.div(self, y, name=name)

    def floor_div(self, y, *, name=None):
        """floor of x / y; an integer by zero gives 0

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.floor_div(self, y, name=name)

    def mod(self, y, *, name=None):
        """x - y * floor(x / y), with the sign of y; an integer by zero gives 0

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.mod(self, y, name=name)

    def neg(self, *, name=None):
        """-x

        Returns: a tensor
        """
        return self.graph.neg(self, name=name)

    def abs(self, *, name=None):
        """|x|

        Returns: a tensor
        """
        return self.graph.abs(self, name=name)

    def sign(self, *, name=None):
        """-1, 0 or 1

        Returns: a tensor
        """
        return self.graph.sign(self, name=name)

    def square(self, *, name=None):
        """x * x

        Returns: a tensor
        """
        return self.graph.square(self, name=name)

    def sqrt(self, *, name=None):
        """square root

        Returns: a tensor of floats
        """
        return self.graph.sqrt(self, name=name)

    def rsqrt(self, *, name=None):
        """1 / square root

        Returns: a tensor of floats
        """
        return self.graph.rsqrt(self, name=name)

    def reciprocal(self, *, name=None):
        """1 / x

        Returns: a tensor of floats
        """
        return self.graph.reciprocal(self, name=name)

    def exp(self, *, name=None):
        """e to the x

        Returns: a tensor of floats
        """
        return self.graph.exp(self, name=name)

    def log(self, *, name=None):
        """natural logarithm

        Returns: a tensor of floats
        """
        return self.graph.log(self, name=name)

    def sin(self, *, name=None):
        """sine of radians

        Returns: a tensor of floats
        """
        return self.graph.sin(self, name=name)

    def cos(self, *, name=None):
        """cosine of radians

        Returns: a tensor of floats
        """
        return self.graph.cos(self, name=name)

    def floor(self, *, name=None):
        """the next whole number below

        Returns: a tensor
        """
        return self.graph.floor(self, name=name)

    def ceil(self, *, name=None):
        """the next whole number above

        Returns: a tensor
        """
        return self.graph.ceil(self, name=name)

    def trunc(self, *, name=None):
        """towards zero

        Returns: a tensor
        """
        return self.graph.trunc(self, name=name)

    def maximum(self, y, *, name=None):
        """the larger; NaN if either is

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.maximum(self, y, name=name)

    def minimum(self, y, *, name=None):
        """the smaller; NaN if either is

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.minimum(self, y, name=name)

    def clamp(self, min=None, max=None, *, name=None):
        """x, but not below min nor above max

        min: number
        max: number
        Returns: a tensor
        """
        return self.graph.clamp(self, min, max, name=name)

    def relu(self, *, name=None):
        """max(x, 0)

        Returns: a tensor
        """
        return self.graph.relu(self, name=name)

    def leaky_relu(self, negative_slope=0.01, *, name=None):
        """x where positive, else negative_slope * x

        negative_slope: number
        Returns: a tensor of floats
        """
        return self.graph.leaky_relu(self, negative_slope, name=name)

    def sigmoid(self, *, name=None):
        """1 / (1 + exp(-x))

        Returns: a tensor of floats
        """
        return self.graph.sigmoid(self, name=name)

    def tanh(self, *, name=None):
        """hyperbolic tangent

        Returns: a tensor of floats
        """
        return self.graph.tanh(self, name=name)

    def erf(self, *, name=None):
        """error function

        Returns: a tensor of floats
        """
        return self.graph.erf(self, name=name)

    def gelu(self, approximate="none", *, name=None):
        """x times the normal distribution function of x

        approximate: "none" or "tanh"
        Returns: a tensor of floats
        """
        return self.graph.gelu(self, approximate, name=name)

    def silu(self, *, name=None):
        """x * sigmoid(x)

        Returns: a tensor of floats
        """
        return self.graph.silu(self, name=name)

    def softplus(self, beta=1, threshold=20, *, name=None):
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is over the threshold

        beta: number
        threshold: number
        Returns: a tensor of floats
        """
        return self.graph.softplus(self, beta, threshold, name=name)

    def equal(self, y, *, name=None):
        """x == y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.equal(self, y, name=name)

    def not_equal(self, y, *, name=None):
        """x != y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.not_equal(self, y, name=name)

    def less(self, y, *, name=None):
        """x < y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.less(self, y, name=name)

    def less_equal(self, y, *, name=None):
        """x <= y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.less_equal(self, y, name=name)

    def greater(self, y, *, name=None):
        """x > y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.greater(self, y, name=name)

    def greater_equal(self, y, *, name=None):
        """x >= y

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor of bool
        """
        return self.graph.greater_equal(self, y, name=name)

    def isnan(self, *, name=None):
        """is it NaN

        Returns: a tensor of bool
        """
        return self.graph.isnan(self, name=name)

    def logical_and(self, y, *, name=None):
        """both are not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_and(self, y, name=name)

    def logical_or(self, y, *, name=None):
        """one or both are not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_or(self, y, name=name)

    def logical_xor(self, y, *, name=None):
        """one of them is not zero

        y: tensor of bool (numbers become "not zero")
        Returns: a tensor of bool
        """
        return self.graph.logical_xor(self, y, name=name)

    def logical_not(self, *, name=None):
        """is it zero

        Returns: a tensor of bool
        """
        return self.graph.logical_not(self, name=name)

    def bitwise_and(self, y, *, name=None):
        """bits that both have

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_and(self, y, name=name)

    def bitwise_or(self, y, *, name=None):
        """bits that one or both have

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_or(self, y, name=name)

    def bitwise_xor(self, y, *, name=None):
        """bits that one of them has

        y: tensor of integers or bool, brought to one dtype with x
        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_xor(self, y, name=name)

    def bitwise_not(self, *, name=None):
        """every bit turned

        Returns: a tensor of integers or bool
        """
        return self.graph.bitwise_not(self, name=name)

    def left_shift(self, y, *, name=None):
        """x * 2^y modulo the width; 0 from the width on

        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.graph.left_shift(self, y, name=name)

    def right_shift(self, y, *, name=None):
        """floor of x / 2^y

        y: tensor of integers, brought to one dtype with x
        Returns: a tensor of integers
        """
        return self.graph.right_shift(self, y, name=name)

    def where(self, x, y, *, name=None):
        """x where the condition holds, else y

        x: tensor of any dtype, brought to one dtype with y
        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.where(self, x, y, name=name)

    def cast(self, dtype, *, name=None):
        """conversion by value; float to integer truncates and saturates

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.cast(self, dtype, name=name)

    def bitcast(self, dtype, *, name=None):
        """the same bits as another dtype of the same size

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.bitcast(self, dtype, name=name)

    def detach(self, *, name=None):
        """x, through which no gradient flows

        Returns: a tensor
        """
        return self.graph.detach(self, name=name)

    def contiguous(self, *, name=None):
        """x, written to a buffer of its own

        Returns: a tensor
        """
        return self.graph.contiguous(self, name=name)

    def sum(self, axis=None, keepdim=False, *, name=None):
        """sum; bool and integers give 64 bits

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.sum(self, axis, keepdim, name=name)

    def prod(self, axis=None, keepdim=False, *, name=None):
        """product; bool and integers give 64 bits

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.prod(self, axis, keepdim, name=name)

    def mean(self, axis=None, keepdim=False, *, name=None):
        """arithmetic mean

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.mean(self, axis, keepdim, name=name)

    def max(self, axis=None, keepdim=False, *, name=None):
        """the largest; its gradient is shared between equals

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.max(self, axis, keepdim, name=name)

    def min(self, axis=None, keepdim=False, *, name=None):
        """the smallest; its gradient is shared between equals

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor
        """
        return self.graph.min(self, axis, keepdim, name=name)

    def argmax(self, axis=None, keepdim=False, *, name=None):
        """where the largest is, the first of equals; without axis in the flattened tensor

        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.graph.argmax(self, axis, keepdim, name=name)

    def argmin(self, axis=None, keepdim=False, *, name=None):
        """where the smallest is, the first of equals; without axis in the flattened tensor

        axis: whole number
        keepdim: True or False
        Returns: a tensor of int64
        """
        return self.graph.argmin(self, axis, keepdim, name=name)

    def all(self, axis=None, keepdim=False, *, name=None):
        """none is zero

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.graph.all(self, axis, keepdim, name=name)

    def any(self, axis=None, keepdim=False, *, name=None):
        """some is not zero

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of bool
        """
        return self.graph.any(self, axis, keepdim, name=name)

    def var(self, axis=None, correction=1, keepdim=False, *, name=None):
        """variance, divided by the count less the correction

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.var(self, axis, correction, keepdim, name=name)

    def std(self, axis=None, correction=1, keepdim=False, *, name=None):
        """square root of var

        axis: whole number or list of them; None for all
        correction: whole number
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.std(self, axis, correction, keepdim, name=name)

    def softmax(self, axis=-1, *, name=None):
        """exp(x) divided by its sum

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.softmax(self, axis, name=name)

    def log_softmax(self, axis=-1, *, name=None):
        """logarithm of softmax

        axis: whole number
        Returns: a tensor of floats
        """
        return self.graph.log_softmax(self, axis, name=name)

    def logsumexp(self, axis=None, keepdim=False, *, name=None):
        """log(sum(exp(x)))

        axis: whole number or list of them; None for all
        keepdim: True or False
        Returns: a tensor of floats
        """
        return self.graph.logsumexp(self, axis, keepdim, name=name)

    def cross_entropy(self, target, reduction="mean", ignore_index=None, *, name=None):
        """of logits [N, C, ...] (or [C]) and class indices [N, ...]; a target that is no class counts as 0

        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.graph.cross_entropy(self, target, reduction, ignore_index, name=name)

    def nll_loss(self, target, reduction="mean", ignore_index=None, *, name=None):
        """of log-probabilities [N, C, ...] (or [C]) and class indices [N, ...]

        target: tensor of integers
        reduction: "mean", "sum" or "none"
        ignore_index: whole number
        Returns: a tensor of floats
        """
        return self.graph.nll_loss(self, target, reduction, ignore_index, name=name)

    def mse_loss(self, target, reduction="mean", *, name=None):
        """squared difference

        target: tensor of floats (integers and bool become float32), brought to one dtype with x
        reduction: "mean", "sum" or "none"
        Returns: a tensor of floats
        """
        return self.graph.mse_loss(self, target, reduction, name=name)

    def layer_norm(self, weight=None, bias=None, axis=-1, eps=1e-05, *, name=None):
        """(x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        axis: whole number or list of them
        eps: number
        Returns: a tensor of floats
        """
        return self.graph.layer_norm(self, weight, bias, axis, eps, name=name)

    def dropout(self, p=0.5, seed=None, *, key=None, name=None):
        """0 with probability p, else x / (1 - p); drops always

        p: number
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes the draw; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.dropout(self, p, seed, key=key, name=name)

    def matmul(self, y, *, name=None):
        """matrix product over the last two axes, the others broadcast; vectors as in PyTorch

        y: tensor of any dtype, brought to one dtype with x
        Returns: a tensor
        """
        return self.graph.matmul(self, y, name=name)

    def linear(self, weight, bias=None, *, name=None):
        """x @ weight^T + bias, weight [out, in]

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        Returns: a tensor of floats
        """
        return self.graph.linear(self, weight, bias, name=name)

    def conv2d(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, name=None):
        """x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O]

        weight: tensor of floats (integers and bool become float32), brought to one dtype with x, bias
        bias: tensor of floats (integers and bool become float32), brought to one dtype with x, weight
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        groups: whole number
        Returns: a tensor of floats
        """
        return self.graph.conv2d(self, weight, bias, stride, padding, dilation, groups, name=name)

    def max_pool2d(self, kernel_size, stride=None, padding=0, dilation=1, *, name=None):
        """largest of each window of [..., H, W]; stride is kernel_size unless given

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        dilation: whole number or list of them
        Returns: a tensor
        """
        return self.graph.max_pool2d(self, kernel_size, stride, padding, dilation, name=name)

    def avg_pool2d(self, kernel_size, stride=None, padding=0, count_include_pad=True, *, name=None):
        """mean of each window of [..., H, W]; stride is kernel_size unless given

        kernel_size: whole number or list of them
        stride: whole number or list of them
        padding: whole number or list of them
        count_include_pad: True or False
        Returns: a tensor of floats
        """
        return self.graph.avg_pool2d(self, kernel_size, stride, padding, count_include_pad, name=name)

    def gather(self, index, axis=0, *, name=None):
        """torch.gather: along the axis, index in the shape of the result; negative counts from the end, out of range
            reads 0

        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.graph.gather(self, index, axis, name=name)

    def take(self, index, axis=0, *, name=None):
        """x[index] along the axis, index of any shape; negative counts from the end, out of range reads 0

        index: tensor of integers
        axis: whole number
        Returns: a tensor
        """
        return self.graph.take(self, index, axis, name=name)

    def one_hot(self, num_classes, dtype="int64", *, name=None):
        """1 where the class is x, else 0, along a new last axis

        num_classes: size
        dtype: dtype
        Returns: a tensor
        """
        return self.graph.one_hot(self, num_classes, dtype, name=name)

    def tril(self, diagonal=0, *, name=None):
        """zero above the diagonal

        diagonal: whole number
        Returns: a tensor
        """
        return self.graph.tril(self, diagonal, name=name)

    def triu(self, diagonal=0, *, name=None):
        """zero below the diagonal

        diagonal: whole number
        Returns: a tensor
        """
        return self.graph.triu(self, diagonal, name=name)

    def reshape(self, shape, *, name=None):
        """the same elements in another shape; one size may be -1

        shape: size or list of sizes
        Returns: a tensor
        """
        return self.graph.reshape(self, shape, name=name)

    def permute(self, axes, *, name=None):
        """axis i of the result is axis axes[i] of x

        axes: whole number or list of them
        Returns: a tensor
        """
        return self.graph.permute(self, axes, name=name)

    def transpose(self, axis0=-2, axis1=-1, *, name=None):
        """two axes exchanged

        axis0: whole number
        axis1: whole number
        Returns: a tensor
        """
        return self.graph.transpose(self, axis0, axis1, name=name)

    def expand(self, shape, *, name=None):
        """axes of size 1 repeated, new ones in front; -1 keeps a size

        shape: size or list of sizes
        Returns: a tensor
        """
        return self.graph.expand(self, shape, name=name)

    def pad(self, padding, value=0, *, name=None):
        """[before, after] for each axis from the first, also as a flat list

        padding: list of pairs
        value: number
        Returns: a tensor
        """
        return self.graph.pad(self, padding, value, name=name)

    def shrink(self, ranges, *, name=None):
        """[start, stop] for each axis from the first

        ranges: list of pairs
        Returns: a tensor
        """
        return self.graph.shrink(self, ranges, name=name)

    def slice(self, start=None, stop=None, step=None, axis=None, *, name=None):
        """x[start:stop:step] on the axes (the first ones, unless given); step is positive

        start: size or list of sizes
        stop: size or list of sizes
        step: whole number or list of them
        axis: whole number or list of them
        Returns: a tensor
        """
        return self.graph.slice(self, start, stop, step, axis, name=name)

    def flip(self, axis=None, *, name=None):
        """the order along the axes reversed

        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.graph.flip(self, axis, name=name)

    def squeeze(self, axis=None, *, name=None):
        """without the axes of size 1 (among those given)

        axis: whole number or list of them; None for all
        Returns: a tensor
        """
        return self.graph.squeeze(self, axis, name=name)

    def unsqueeze(self, axis, *, name=None):
        """a new axis of size 1

        axis: whole number
        Returns: a tensor
        """
        return self.graph.unsqueeze(self, axis, name=name)

    def flatten(self, start_axis=0, end_axis=-1, *, name=None):
        """the axes from start to end made one

        start_axis: whole number
        end_axis: whole number
        Returns: a tensor
        """
        return self.graph.flatten(self, start_axis, end_axis, name=name)

    def zeros_like(self, dtype=None, *, name=None):
        """zeros in the shape of x

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.zeros_like(self, dtype, name=name)

    def ones_like(self, dtype=None, *, name=None):
        """ones in the shape of x

        dtype: dtype
        Returns: a tensor
        """
        return self.graph.ones_like(self, dtype, name=name)

    def rand_like(self, dtype=None, seed=None, *, key=None, name=None):
        """uniform between 0 and 1 in the shape of x

        dtype: dtype
        seed: whole number; by default the seed of the run
        key: integer scalar that fixes the draw; by default every step draws anew
        Returns: a tensor of floats
        """
        return self.graph.rand_like(self, dtype, seed, key=key, name=name)

    def sgd(self, params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, name=None):
        """torch.optim.SGD: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        momentum: number
        dampening: number
        weight_decay: number
        nesterov: True or False
        Returns: a list, each a tensor
        """
        return self.graph.sgd(self, params, lr, momentum, dampening, weight_decay, nesterov, name=name)

    def adam(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, *, name=None):
        """torch.optim.Adam: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        Returns: a list, each a tensor
        """
        return self.graph.adam(self, params, lr, betas, eps, weight_decay, name=name)

    def adamw(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, *, name=None):
        """torch.optim.AdamW: the new parameters

        params: list, each an input, state or other tensor of floats
        lr: number, or float32 scalar tensor
        betas: list of numbers
        eps: number
        weight_decay: number
        Returns: a list, each a tensor
        """
        return self.graph.adamw(self, params, lr, betas, eps, weight_decay, name=name)
