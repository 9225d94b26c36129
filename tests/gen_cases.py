#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write tests/cases/*.json: program documents whose entries are the graphs of the conformance suite.

Run the script after a change here and commit its output.  A file is one document; the name of an entry says what it tests.
"""
import json
import os

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
WHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


class Graph:
    """One entry: g("op", operands..., attribute=value) adds a node and returns its id; g.x(shape) adds an input."""

    def __init__(self):
        self.inputs, self.nodes, self.outputs, self.updates = {}, [], [], {}

    def x(self, shape, dtype="float32"):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = {"dtype": dtype, "shape": list(shape)}
        return name

    def __call__(self, op, *operands, ids=1, **attrs):
        name = f"n{len(self.nodes)}"
        result = name if ids == 1 else [f"{name}_{i}" for i in range(ids)]
        node = {"id": result, "op": op, "in": list(operands)}
        if attrs:
            node["attrs"] = attrs
        self.nodes.append(node)
        return result

    def out(self, *names):
        for name in names:
            self.outputs += name if isinstance(name, list) else [name]
        return self

    def entry(self):
        entry = {"inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}
        if self.updates:
            entry["updates"] = self.updates
        return entry


class Cases:
    def __init__(self, file, state=None, dims=None):
        self.file, self.entries = file, {}
        self.head = {}
        if state:
            self.head["state"] = {k: {"dtype": "float32", "shape": v} for k, v in state.items()}
        if dims:
            self.head["dims"] = dims

    def add(self, name, build):
        g = Graph()
        made = build(g)
        if made is not None:
            g.out(*(made if isinstance(made, (list, tuple)) else [made]))
        assert name not in self.entries, name
        self.entries[name] = g.entry()

    def write(self):
        lines = ["{"]
        for key, value in self.head.items():
            lines.append(f" {json.dumps(key)}: {json.dumps(value)},")
        lines.append(' "entries": {')
        rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in self.entries.items()]
        lines.append(",\n".join(rows) + "}}")
        with open(os.path.join(WHERE, self.file + ".json"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")


def signed(g, shape, dtype):
    """Small numbers of both signs; for unsigned dtypes small numbers."""
    x = g.x(shape, dtype)
    return g("sub", x, 4) if dtype.startswith("int") else x


def elementwise():
    c = Cases("elementwise")
    c.add("arithmetic", lambda g: (lambda x, y: [g(op, x, y) for op in ("add", "sub", "mul", "div", "floor_div", "mod")])(g.x([17, 33]), g.x([33])))
    c.add("unary", lambda g: (lambda x: [g(op, x) for op in ("neg", "abs", "sign", "square", "sin", "cos", "floor", "ceil", "trunc", "exp", "reciprocal")])(g.x([257])))
    c.add("roots", lambda g: (lambda x: [g(op, x) for op in ("sqrt", "rsqrt", "log")])(g("add", g("abs", g.x([3, 1, 7])), 0.25)))
    c.add("extremes", lambda g: (lambda x, y: [g("maximum", x, y), g("minimum", x, y), g("clamp", x, min=-0.5, max=0.75), g("clamp", x, min=0)])(g.x([5, 13]), g.x([5, 1])))
    c.add("activations", lambda g: (lambda x: [g("relu", x), g("leaky_relu", x, negative_slope=0.1), g("sigmoid", x), g("tanh", x), g("silu", x), g("softplus", x, beta=2.0, threshold=1.0)])(g.x([129])))
    c.add("gelu", lambda g: (lambda x: [g("erf", x), g("gelu", x), g("gelu", x, approximate="tanh")])(g.x([67])))
    c.add("compare", lambda g: (lambda x, y: [g(op, x, y) for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")] + [g("isnan", x)])(g("floor", g.x([31, 3])), g("floor", g.x([31, 3]))))
    c.add("logic", lambda g: (lambda x, y: [g(op, x, y) for op in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "less")] + [g("logical_not", x), g("where", x, y, 1), g("bitwise_not", y)])(g.x([37], "bool"), g.x([37], "bool")))
    c.add("bits", lambda g: (lambda x, y: [g(op, x, y) for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")] + [g("bitwise_not", x)])(signed(g, [41], "int32"), g("mul", g.x([41], "int32"), 5)))
    c.add("where", lambda g: (lambda x, y: [g("where", g("less", x, y), x, y), g("where", g("greater", x, 0), x, 7)])(g.x([4, 9]), g.x([9])))
    c.add("scalar", lambda g: (lambda x: [g("add", g("mul", x, 3), 1), g("where", g("less", x, 0.5), x, 2)])(g.x([])))
    c.add("chain", lambda g: (lambda x: g("add", g("mul", g("tanh", g("sub", g("mul", x, 1.5), 0.25)), 0.5), x))(g.x([1000])))
    c.add("literals", lambda g: (lambda x: [g("mul", x, "NaN"), g("minimum", x, "Infinity"), g("maximum", x, "-Infinity"), g("add", x, -0.0)])(g.x([3])))
    c.add("counted_in_int64", lambda g: (lambda i: [g("less", 2, i), g("less", i, 2), g("greater", g("sub", i, 7), 0), g("equal", i, 3)])(g("arange", stop=20)))
    c.add("large_angles", lambda g: (lambda x: [g(op, g("mul", x, far)) for op in ("sin", "cos") for far in (1e4, 1e6, 1e9, 1e20, 1e37)])(g.x([257])))
    c.add("nothing", lambda g: (lambda x: [x, g("add", x, 0), g("mul", x, 1), g("detach", x), g("contiguous", x)])(g.x([5])))
    return c


def dtypes():
    c = Cases("dtypes")
    for d in INTS:
        c.add(f"arithmetic_{d}", lambda g: (lambda x, y: [g(op, x, y) for op in ("add", "sub", "mul", "floor_div", "mod", "maximum", "minimum", "less", "equal")] + [g("neg", x), g("abs", x), g("sign", x), g("where", g("less", x, y), x, y), g("div", x, y), g("square", x)])(signed(g, [19], d), signed(g, [19], d)))
        c.add(f"bits_{d}", lambda g: (lambda x, y: [g(op, x, y) for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")] + [g("bitwise_not", x)])(signed(g, [35], d), g("mul", g.x([35], d), 3)))
        c.add(f"reduce_{d}", lambda g: (lambda x: [g(op, x, axis=1) for op in ("sum", "prod", "max", "min", "argmax", "argmin", "all", "any", "mean")])(signed(g, [7, 33], d)))
    for d in FLOATS:
        c.add(f"arithmetic_{d}", lambda g: (lambda x, y: [g(op, x, y) for op in ("add", "sub", "mul", "div", "maximum", "minimum", "less", "equal", "floor_div", "mod")] + [g("neg", x), g("abs", x), g("sign", x), g("square", x), g("trunc", x), g("where", g("less", x, y), x, y)])(g.x([47], d), g.x([47], d)))
        c.add(f"roots_{d}", lambda g: (lambda x: [g("sqrt", x), g("reciprocal", g("add", x, 1))])(g("abs", g.x([23], d))))
        c.add(f"functions_{d}", lambda g: (lambda x: [g("exp", x), g("sin", x), g("tanh", x), g("sigmoid", x), g("log", g("add", g("abs", x), 1)), g("gelu", x)])(g.x([34], d)))
        c.add(f"reduce_{d}", lambda g: (lambda x: [g(op, x, axis=1) for op in ("sum", "mean", "max", "min", "argmax")])(g.x([9, 35], d)))
        c.add(f"matmul_{d}", lambda g: g("matmul", g.x([5, 19], d), g.x([19, 17], d)))
        c.add(f"softmax_{d}", lambda g: g("softmax", g.x([6, 21], d)))
    c.add("arithmetic_bool", lambda g: (lambda x, y: [g(op, x, y) for op in ("add", "mul", "maximum", "minimum", "less", "equal")])(g.x([21], "bool"), g.x([21], "bool")))
    c.add("reduce_bool", lambda g: (lambda x: [g(op, x, axis=0) for op in ("sum", "prod", "max", "min", "all", "any", "argmax", "mean")])(g.x([11, 18], "bool")))
    for d in ["bool"] + INTS:
        c.add(f"cast_{d}", lambda g: (lambda x: [g("cast", x, dtype=to) for to in ["bool"] + INTS + FLOATS if to != d])(signed(g, [18], d)))
    for d in FLOATS:
        c.add(f"cast_{d}", lambda g: (lambda x: [g("cast", x, dtype=to) for to in ["bool"] + INTS + FLOATS if to != d])(g("mul", g.x([18], d), 100)))
    for size in (("int8", "uint8"), ("int16", "uint16", "float16", "bfloat16"), ("int32", "uint32", "float32"), ("int64", "uint64", "float64")):
        for d in size:
            c.add(f"bitcast_{d}", lambda g: (lambda x: [g("bitcast", x, dtype=to) for to in size if to != d])(g.x([13], d)))
    c.add("promotion", lambda g: [g("add", g.x([5], "int8"), g.x([5], "uint8")), g("add", g.x([5], "int32"), g.x([5], "float16")), g("mul", g.x([5], "bool"), g.x([5], "int64")), g("add", g.x([5], "float16"), g.x([5], "bfloat16")), g("add", g.x([5], "uint64"), g.x([5], "int8"))])
    return c


def movement():
    c = Cases("movement")
    c.add("reshape", lambda g: [g("reshape", g("add", g.x([6, 35]), 1), shape=[7, -1, 5]), g("flatten", g.x([2, 3, 5]), start_axis=1)])
    c.add("reshape_permute", lambda g: g("reshape", g("permute", g.x([5, 7, 3]), axes=[2, 0, 1]), shape=[21, 5]))
    c.add("permute", lambda g: [g("permute", g.x([3, 17, 5]), axes=[2, 0, 1]), g("transpose", g.x([33, 31])), g("transpose", g.x([2, 3, 4]), axis0=0, axis1=2)])
    c.add("turned", lambda g: [g("transpose", g.x([37, 50])), g("permute", g.x([2, 24, 40], "float16"), axes=[0, 2, 1]), g("transpose", g.x([19, 64], "int8")), g("transpose", g.x([33, 34], "bool")), g("transpose", g.x([17, 18], "int64"))])
    c.add("turned_stores", lambda g: (lambda y: [y, g("transpose", y)])(g("exp", g.x([21, 48]))))
    c.add("expand", lambda g: [g("expand", g.x([17, 1]), shape=[3, -1, 5]), g("add", g("unsqueeze", g.x([4]), axis=0), g("unsqueeze", g.x([3]), axis=-1)), g("squeeze", g.x([1, 5, 1]))])
    c.add("pad", lambda g: [g("pad", g.x([5, 7]), padding=[[1, 2], [0, 3]], value=9.5), g("pad", g.x([3], "int16"), padding=[2, 0]), g("pad", g.x([4]), padding=[0, 1], value="-Infinity")])
    c.add("shrink", lambda g: [g("shrink", g.x([9, 11]), ranges=[[2, 7], [1, 11]]), g("slice", g.x([29]), start=3, stop=-2, step=4), g("slice", g.x([5, 13]), start=[1], step=[3], axis=[1])])
    c.add("flip", lambda g: [g("flip", g.x([7, 5]), axis=1), g("flip", g.x([33])), g("flip", g("shrink", g.x([10, 3]), ranges=[[2, 9], [0, 3]]), axis=[0, 1])])
    c.add("pad_shrink_flip", lambda g: g("shrink", g("flip", g("pad", g.x([6, 6]), padding=[[2, 1], [1, 2]]), axis=0), ranges=[[1, 8], [2, 9]]))
    c.add("negative_slices", lambda g: g("flip", g("slice", g("pad", g("flip", g.x([41])), padding=[3, 5]), start=1, step=3)))
    c.add("cat", lambda g: [g("cat", g.x([2, 5]), g.x([3, 5]), g.x([1, 5])), g("cat", g.x([4, 1]), g.x([4, 6]), axis=1)])
    c.add("cat_of_work", lambda g: (lambda x, y: g("cat", g("exp", x), g("mul", y, 2), g("sum", x, axis=0, keepdim=True)))(g.x([3, 17]), g.x([2, 17])))
    c.add("stack", lambda g: (lambda x, y: [g("stack", x, y, axis=1), g("stack", x, y, x, axis=-1)])(g.x([3, 5]), g.x([3, 5])))
    c.add("stack_dtypes", lambda g: (lambda x: g("stack", x, g("flip", x), g("add", x, 1)))(g.x([19], "uint8")))
    c.add("triangles", lambda g: (lambda x: [g("tril", x), g("triu", x, diagonal=1), g("tril", x, diagonal=-2), g("triu", x, diagonal=-1)])(g.x([2, 7, 5])))
    c.add("gather", lambda g: [g("gather", g.x([5, 9]), g.x([5, 4], "int64"), axis=1), g("gather", g.x([12, 3], "int16"), g("sub", g.x([4, 3], "int32"), 3), axis=0)])
    c.add("gather_outside", lambda g: g("gather", g.x([4, 6]), g("sub", g.x([4, 6], "int64"), 6), axis=1))
    c.add("take", lambda g: [g("take", g.x([11, 7]), g.x([3, 5], "int32")), g("take", g.x([5, 13]), g("sub", g.x([9], "int8"), 5), axis=1), g("take", g.x([7], "bool"), g.x([4], "uint8"))])
    c.add("take_embedding", lambda g: g("add", g("take", g.x([50, 33]), g.x([4, 6], "int64")), g.x([33])))
    c.add("take_transposed", lambda g: g("take", g("transpose", g("exp", g.x([5, 10]))), g.x([3], "int64")))
    c.add("one_hot", lambda g: [g("one_hot", g.x([5], "int64"), num_classes=7), g("one_hot", g.x([2, 3], "uint8"), num_classes=5, dtype="float32")])
    c.add("creation", lambda g: [g("arange", stop=7), g("arange", start=2, stop=-9, step=-3, dtype="int8"), g("arange", stop=1, step=0.125), g("full", shape=[3, 5], value=2.5), g("full", shape=[2], value=9007199254740993, dtype="int64"), g("zeros", shape=[17]), g("ones", shape=[3, 1], dtype="bool"), g("eye", n=5, m=3), g("zeros_like", g.x([2, 2]), dtype="uint8"), g("ones_like", g.x([3], "float16"))])
    c.add("empty", lambda g: [g("add", g.x([0, 3]), 1), g("sum", g.x([0, 3]), axis=0), g("sum", g.x([4, 0]), axis=0), g("max", g.x([3, 4]), axis=1), g("cat", g.x([0, 2]), g.x([3, 2]))])
    c.add("empty_matmul", lambda g: [g("matmul", g.x([3, 0]), g.x([0, 5])), g("matmul", g.x([0, 3]), g.x([3, 5]))])
    c.add("empty_outputs", lambda g: [g("mul", g.x([3, 0, 2]), 2), g("softmax", g.x([0, 5])), g("transpose", g.x([0, 4]))])
    c.add("one_element", lambda g: (lambda x: [g("sum", x), g("softmax", x), g("flip", x), g("reshape", x, shape=[]), g("expand", x, shape=[2, 3, 1])])(g.x([1, 1])))
    c.add("many_axes", lambda g: g("sum", g("permute", g.x([2, 3, 2, 5, 2, 3]), axes=[5, 3, 1, 0, 2, 4]), axis=[1, 4]))
    c.add("same_output_twice", lambda g: (lambda x: [g("mul", x, 2), g("mul", x, 2), g("reshape", g("mul", x, 2), shape=[6])])(g.x([2, 3])))
    c.add("inputs_as_outputs", lambda g: (lambda x: [x, g("transpose", x), g("add", x, 1), g("detach", x)])(g.x([3, 5])))
    c.add("int64_values", lambda g: (lambda x: [g("mul", g("add", x, 4611686018427387904), 3), g("right_shift", g("mul", x, 1152921504606846976), 7)])(g.x([9], "int64")))
    return c


def reductions():
    c = Cases("reductions")
    for axes in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        name = "".join(str(a) for a in axes)
        c.add(f"sum_{name}", lambda g: (lambda x: [g("sum", x, axis=axes), g("max", x, axis=axes, keepdim=True)])(g.x([3, 17, 5])))
        c.add(f"moments_{name}", lambda g: (lambda x: [g("mean", x, axis=axes), g("var", x, axis=axes), g("std", x, axis=axes, correction=0)])(g.x([3, 5, 33])))
    for shape in ([1], [3], [16], [17], [33], [127], [1, 64], [64, 1], [65, 3], [3, 65], [31, 37]):
        name = "_".join(str(n) for n in shape)
        c.add(f"all_{name}", lambda g: (lambda x: [g("sum", x), g("min", x), g("argmin", x), g("prod", g("sign", x))])(g.x(shape)))
        c.add(f"rows_{name}", lambda g: (lambda x: [g("softmax", x), g("argmax", x, axis=-1), g("sum", x, axis=-1)])(g.x(shape)))
    c.add("softmax_axes", lambda g: (lambda x: [g("softmax", x, axis=0), g("log_softmax", x, axis=1)])(g.x([5, 7, 3])))
    c.add("log_softmax", lambda g: g("log_softmax", g.x([13, 10])))
    c.add("logsumexp", lambda g: (lambda x: [g("logsumexp", x, axis=1), g("logsumexp", x)])(g.x([4, 19])))
    c.add("layer_norm", lambda g: (lambda x: [g("layer_norm", x, g.x([33]), g.x([33])), g("layer_norm", g.x([5, 4, 6]), axis=[1, 2])])(g.x([7, 33])))
    c.add("cross_entropy", lambda g: (lambda x, t: [g("cross_entropy", x, t), g("cross_entropy", x, t, reduction="sum", ignore_index=3), g("nll_loss", g("log_softmax", x), t, reduction="none"), g("cross_entropy", x, t, reduction="none")])(g.x([13, 10]), g.x([13], "int64")))
    c.add("cross_entropy_images", lambda g: g("cross_entropy", g.x([2, 5, 3, 4]), g.x([2, 3, 4], "int32")))
    c.add("mse", lambda g: (lambda x, y: [g("mse_loss", x, y), g("mse_loss", x, y, reduction="none")])(g.x([6, 5]), g.x([6, 5])))
    c.add("all_any", lambda g: (lambda x: [g("all", x, axis=0), g("any", x, axis=1), g("all", x), g("any", x)])(g("greater", g.x([5, 9]), -1.5)))
    c.add("reduce_of_reduce", lambda g: (lambda x: g("sum", g("square", g("sub", x, g("max", x, axis=1, keepdim=True))), axis=0))(g.x([17, 19])))
    c.add("two_reductions", lambda g: (lambda x: [g("sum", x, axis=0), g("sum", x, axis=1)])(g.x([21, 35])))
    c.add("normalised_twice", lambda g: (lambda x: g("softmax", g("softmax", x)))(g.x([5, 18])))
    c.add("cumulative", lambda g: g("matmul", g("tril", g("ones", shape=[17, 17])), g.x([17])))
    c.add("large_sum", lambda g: g("sum", g.x([100003])))
    c.add("large_mean_var", lambda g: (lambda x: [g("mean", x), g("var", x)])(g.x([257, 389])))
    c.add("large_rows", lambda g: g("sum", g.x([3, 40000]), axis=1))
    c.add("large_columns", lambda g: g("max", g.x([20000, 5]), axis=0))
    c.add("large_argmax", lambda g: g("argmax", g.x([70001])))
    c.add("long_rows", lambda g: g("sum", g.x([3, 70001]), axis=1))
    c.add("long_softmax", lambda g: g("softmax", g.x([2, 40009])))
    c.add("large_loss", lambda g: g("mean", g("square", g("sub", g.x([64, 784]), g.x([64, 784])))))
    return c


def attention(g, n, d, causal):
    q, k, v = g.x([2, n, d]), g.x([2, n, d]), g.x([2, n, d])
    scores = g("mul", g("matmul", q, g("transpose", k)), d ** -0.5)
    if causal:
        scores = g("where", g("cast", g("tril", g("ones", shape=[n, n])), dtype="bool"), scores, "-Infinity")
    return g("matmul", g("softmax", scores), v)


def products():
    c = Cases("products")
    for m, k, n in ((1, 1, 1), (1, 17, 1), (3, 5, 7), (16, 16, 16), (17, 33, 31), (64, 48, 80), (1, 64, 65), (65, 64, 1), (6, 100, 2), (37, 3, 130)):
        c.add(f"matmul_{m}_{k}_{n}", lambda g: g("matmul", g.x([m, k]), g.x([k, n])))
        c.add(f"matmul_t_{m}_{k}_{n}", lambda g: g("relu", g("add", g("matmul", g("transpose", g.x([k, m])), g("transpose", g.x([n, k]))), g.x([n]))))
    c.add("matmul_vectors", lambda g: [g("matmul", g.x([33]), g.x([33])), g("matmul", g.x([5, 7]), g.x([7])), g("matmul", g.x([7]), g.x([7, 5]))])
    c.add("matmul_batched", lambda g: g("matmul", g.x([3, 5, 17]), g.x([3, 17, 18])))
    c.add("matmul_broadcast", lambda g: g("matmul", g.x([2, 1, 5, 9]), g.x([3, 9, 16])))
    c.add("matmul_shared", lambda g: g("matmul", g.x([4, 7, 19]), g.x([19, 6])))
    c.add("matmul_of_work", lambda g: g("matmul", g("exp", g.x([18, 20])), g("softmax", g.x([20, 34]))))
    c.add("matmul_squared", lambda g: (lambda x: g("matmul", x, x))(g.x([33, 33])))
    c.add("matmul_chain", lambda g: g("matmul", g("matmul", g.x([9, 17]), g.x([17, 33])), g.x([33, 5])))
    c.add("matmul_int32", lambda g: g("matmul", g.x([7, 19], "int32"), g.x([19, 17], "int32")))
    c.add("matmul_int8", lambda g: g("matmul", g.x([7, 19], "int8"), g.x([19, 17], "int8")))
    c.add("linear", lambda g: [g("linear", g.x([13, 19]), g.x([33, 19]), g.x([33])), g("linear", g.x([2, 3, 5]), g.x([4, 5]))])
    c.add("attention", lambda g: attention(g, 18, 16, False))
    c.add("attention_causal", lambda g: attention(g, 9, 5, True))
    convolutions = {
        "plain": ([2, 3, 9, 11], [4, 3, 3, 3], {}),
        "one_by_one": ([2, 5, 6, 7], [7, 5, 1, 1], {}),
        "stride": ([1, 2, 11, 10], [5, 2, 3, 3], {"stride": 2}),
        "padding": ([2, 2, 7, 8], [3, 2, 3, 3], {"padding": 1}),
        "dilation": ([1, 3, 12, 13], [2, 3, 3, 3], {"dilation": 2}),
        "groups": ([2, 4, 8, 8], [6, 2, 3, 3], {"groups": 2}),
        "wide_groups": ([2, 6, 7, 7], [32, 3, 3, 3], {"groups": 2, "padding": 1}),
        "depthwise": ([1, 5, 9, 9], [5, 1, 3, 3], {"groups": 5, "padding": 1}),
        "depthwise_apart": ([2, 16, 14, 12], [16, 1, 5, 5], {"groups": 16, "padding": 2, "stride": 2}),
        "depthwise_wide": ([2, 32, 7, 9], [32, 1, 3, 3], {"groups": 32, "padding": 1}),
        "everything": ([2, 4, 13, 11], [6, 2, 3, 2], {"groups": 2, "padding": [2, 1], "stride": [2, 3], "dilation": [1, 2]}),
        "image": ([4, 1, 28, 28], [8, 1, 3, 3], {}),
        "wide": ([2, 8, 13, 13], [16, 8, 3, 3], {}),
    }
    for name, (xs, ws, attrs) in convolutions.items():
        c.add(f"conv_{name}", lambda g: g("relu", g("conv2d", g.x(xs), g.x(ws), g.x([ws[0]]), **attrs)))
        if name not in ("image", "wide"):
            def gradient(g):
                x, w, b = g.x(xs), g.x(ws), g.x([ws[0]])
                return g("grad", g("sum", g("square", g("conv2d", x, w, b, **attrs))), x, w, b, ids=3)
            c.add(f"conv_grad_{name}", gradient)
    pools = {"two": {"kernel_size": 2}, "overlap": {"kernel_size": 3, "stride": 2}, "padding": {"kernel_size": 3, "stride": 2, "padding": 1}, "tall": {"kernel_size": [3, 1], "stride": [1, 2]}}
    for name, attrs in pools.items():
        c.add(f"max_pool_{name}", lambda g: (lambda x: [g("max_pool2d", x, **attrs), g("avg_pool2d", x, **attrs)])(g.x([2, 3, 9, 10])))
        for kind in ("max", "avg"):
            c.add(f"{kind}_pool_grad_{name}", lambda g: (lambda x: g("grad", g("sum", g("square", g(f"{kind}_pool2d", x, **attrs))), x))(g.x([1, 2, 7, 8])))
    c.add("max_pool_dilation", lambda g: g("max_pool2d", g.x([1, 2, 9, 9], "int32"), kernel_size=2, dilation=3))
    c.add("avg_pool_count", lambda g: g("avg_pool2d", g.x([2, 5, 5]), kernel_size=2, padding=1, count_include_pad=False))
    c.add("conv_pool", lambda g: g("max_pool2d", g("relu", g("conv2d", g.x([2, 1, 12, 12]), g.x([4, 1, 3, 3]), g.x([4]))), kernel_size=2))
    return c


def attentions():
    """Scores large enough for flash attention on devices that use it."""
    c = Cases("attention")

    def both(name, q, kv=None, mask=None, dtype="float32", drop=0, **attrs):
        def alone(g):
            operands = [g.x(q, dtype), *(g.x(kv or q, dtype) for _ in range(2))]
            if drop:
                p = g("softmax", g("mul", g("matmul", operands[0], g("transpose", operands[1])), 0.25))
                return g("matmul", g("dropout", p, p=drop, seed=3), operands[2])
            return g("attention", *operands, *([g.x(q[-2:-1] + (kv or q)[-2:-1], mask)] if mask else []), **attrs)

        def gradient(g):
            y = alone(g)
            return [y, *g("grad", y, "x0", "x1", "x2", g.x(q, dtype), ids=3, cotangent=True)]

        c.add(name, alone)
        c.add(f"{name}_gradient", gradient)

    both("plain", [2, 64, 16])
    both("odd", [2, 97, 5])
    both("single", [130, 24])
    both("causal", [2, 2, 71, 9], causal=True)
    both("across", [2, 40, 16], [2, 130, 16])
    both("grouped", [1, 6, 64, 8], [1, 2, 64, 8], grouped=True)
    both("added_mask", [2, 64, 16], mask="float32")
    both("bool_mask", [2, 64, 16], mask="bool")
    both("dropout", [2, 64, 16], drop=0.25)
    both("float16", [2, 64, 16], dtype="float16")
    both("wide", [1, 160, 132])
    return c


def matrix_units():
    """Products for matrix units, with enough reuse per element; on devices without units they are ordinary products."""
    c = Cases("matrix_units")
    for dtype in ("float16", "bfloat16"):
        c.add(f"product_{dtype}", lambda g: g("matmul", g.x([64, 64], dtype), g.x([64, 64], dtype)))
        c.add(f"epilogue_{dtype}", lambda g: g("relu", g("add", g("matmul", g.x([77, 96], dtype), g.x([96, 40], dtype)), g.x([40], dtype))))
        c.add(f"linear_{dtype}", lambda g: g("gelu", g("linear", g.x([32, 128], dtype), g.x([64, 128], dtype), g.x([64], dtype))))
        c.add(f"transposed_{dtype}", lambda g: g("matmul", g("transpose", g.x([64, 48], dtype)), g("transpose", g.x([33, 64], dtype))))
        c.add(f"batched_{dtype}", lambda g: g("matmul", g.x([3, 32, 64], dtype), g.x([3, 64, 48], dtype)))
        c.add(f"sum_kept_{dtype}", lambda g: g("matmul", g("cast", g.x([48, 64], dtype), dtype="float32"), g("cast", g.x([64, 32], dtype), dtype="float32")))
        c.add(f"conv_{dtype}", lambda g: g("relu", g("conv2d", g.x([2, 16, 10, 10], dtype), g.x([32, 16, 3, 3], dtype), g.x([32], dtype), padding=1)))
        c.add(f"two_outputs_{dtype}", lambda g: (lambda y: [y, g("tanh", y)])(g("matmul", g.x([48, 32], dtype), g.x([32, 80], dtype))))
    for dtype in ("int8", "uint8"):
        c.add(f"product_{dtype}", lambda g: g("matmul", g("cast", g.x([64, 128], dtype), dtype="int32"), g("cast", g.x([128, 48], dtype), dtype="int32")))
    return c


def windows():
    """Windowed ops and their gradients."""
    c = Cases("windows")

    def both(name, op, shapes, **attrs):
        c.add(name, lambda g: g(op, *[g.x(shape) for shape in shapes], **attrs))

        def gradient(g):
            xs = [g.x(shape) for shape in shapes]
            return g("grad", g("sum", g("square", g(op, *xs, **attrs))), *xs, ids=len(xs))
        c.add(f"{name}_grad", gradient)

    both("conv_row", "conv", ([2, 4, 17], [6, 2, 3], [6]), groups=2, stride=2, padding=[2, 1])
    both("conv_space", "conv", ([1, 2, 5, 6, 7], [3, 2, 2, 3, 3]), padding=1)
    both("conv_apart", "conv", ([2, 3, 12, 13], [5, 3, 3, 4]), stride=[2, 3], padding=[1, 2])
    both("conv_apart_dilated", "conv", ([2, 3, 24], [4, 3, 3]), stride=3, padding=2, dilation=2)
    both("conv_gaps", "conv", ([2, 16, 13, 13], [8, 16, 3, 3]), stride=2, padding=3, dilation=4)
    both("conv_gaps_and_phases", "conv", ([8, 16, 45], [32, 16, 3]), stride=4, dilation=6)
    both("conv_columns_apart", "conv", ([2, 12, 9, 10], [20, 12, 3, 1]), stride=2, padding=[1, 0])
    both("conv_of_one_window", "conv", ([2, 8, 7, 6], [16, 8, 1, 6]), stride=3)
    both("conv_phases", "conv", ([8, 16, 47], [32, 16, 3]), stride=2, padding=1)
    both("conv_patches", "conv", ([2, 3, 8, 12], [5, 3, 4, 4]), stride=4)
    both("conv_of_many_apart", "conv2d", ([4, 8, 16, 16], [16, 8, 3, 3]), stride=2, padding=1)
    both("transposed_apart", "conv_transpose", ([2, 4, 6, 5], [4, 5, 4, 4]), stride=2, padding=1)
    both("transposed", "conv_transpose", ([2, 4, 5, 6], [4, 3, 3, 2], [6]), groups=2, stride=[2, 3], padding=1, output_padding=[1, 2])
    both("transposed_row", "conv_transpose", ([3, 5, 11], [5, 4, 4]), dilation=2, padding=3)
    both("max_pool_over", "max_pool", ([2, 3, 9, 10],), kernel_size=3, stride=2, padding=1, ceil_mode=True)
    both("avg_pool_over", "avg_pool", ([2, 3, 9, 10],), kernel_size=[3, 2], stride=2, padding=1, ceil_mode=True)
    both("pool_space", "avg_pool", ([2, 4, 6, 5],), kernel_size=2, dims=3, count_include_pad=False)
    c.add("pool_indices", lambda g: g("max_pool_indices", g.x([3, 9, 8]), kernel_size=3, stride=2, padding=1, ids=2))
    c.add("unpool", lambda g: g("max_unpool", *g("max_pool_indices", g.x([3, 8, 6]), kernel_size=2, ids=2), kernel_size=2))
    for mode in ("nearest", "nearest-exact", "bilinear"):
        both(f"up_{mode}", "interpolate", ([2, 3, 5, 6],), size=[10, 9], mode=mode)
    both("corners", "interpolate", ([3, 7],), size=12, mode="linear", align_corners=True)
    for mode in ("reflect", "replicate", "circular"):
        both(f"pad_{mode}", "pad", ([2, 5, 6],), padding=[0, 0, 2, 1, -1, 3], mode=mode)
    both("roll", "roll", ([5, 7],), shift=[2, -3], axis=[0, 1])
    both("unfold", "unfold", ([3, 17],), axis=1, size=5, step=2)
    both("diagonal", "diagonal", ([4, 7, 5],), offset=-1, axis0=1, axis1=2)
    both("diag", "diag", ([9],), offset=2)
    both("rearrange", "rearrange", ([2, 6, 8],), formula="b (h p=2) (w q=4) -> b (h w) (p q)")
    both("backwards", "slice", ([9, 8],), step=[-2, -1])
    c.add("pool_apart", lambda g: [g("max_pool2d", g.x([2, 3, 37, 41]), kernel_size=3, stride=2), g("avg_pool2d", g.x([2, 3, 50, 50]), kernel_size=3, stride=3)])

    def fire(g):
        """Concatenations whose parts are stored directly at their positions."""
        x, cat = g.x([2, 6, 9, 11]), lambda *parts: g("cat", *parts, axis=1)
        narrow, wide = g("relu", g("conv2d", x, g.x([5, 6, 1, 1]))), g("relu", g("conv2d", x, g.x([7, 6, 3, 3]), padding=1))
        joined = cat(narrow, wide, g("sum", g("mul", g.x([2, 4, 9, 11, 3]), g.x([4, 1, 1, 3])), axis=4))
        pooled = g("max_pool2d", joined, kernel_size=3, stride=2)
        return [g("conv2d", joined, g.x([4, 16, 1, 1])), g("sum", pooled, axis=[2, 3]), cat(pooled, g("exp", pooled))]
    c.add("fire", fire)
    c.add("repeated", lambda g: (lambda x: [g("repeat", x, repeats=[2, 1, 3]), g("repeat_interleave", x, repeats=3, axis=0)])(g.x([5, 4])))
    return c


def winograd():
    """Convolutions for Winograd transforms, and their gradients: the suite uses the transforms and compares with the direct
    form."""
    c = Cases("winograd")

    def both(name, shapes, after=lambda g, y: y, **attrs):
        c.add(name, lambda g: after(g, g("conv2d", *[g.x(shape) for shape in shapes], **attrs)))

        def gradient(g):
            xs = [g.x(shape) for shape in shapes]
            return g("grad", g("sum", g("square", after(g, g("conv2d", *xs, **attrs)))), *xs, ids=len(xs))
        c.add(f"{name}_grad", gradient)

    both("one_window", ([1, 1, 3, 3], [1, 1, 3, 3]))
    both("whole_tiles", ([1, 3, 6, 6], [5, 3, 3, 3]))
    both("odd", ([3, 4, 7, 9], [6, 4, 3, 3]))
    both("padded", ([2, 5, 5, 5], [7, 5, 3, 3], [7]), padding=1)
    both("unequal_padding", ([1, 17, 9, 6], [33, 17, 3, 3]), padding=[0, 1, 2, 1])
    both("channels", ([3, 32, 10, 10], [16, 32, 3, 3], [16]), lambda g, y: g("relu", y), padding=1)

    def two(g):
        x, w, v = g.x([2, 8, 8, 8]), g.x([8, 8, 3, 3]), g.x([4, 8, 3, 3])
        y = g("max_pool2d", g("conv2d", g("relu", g("conv2d", x, w, padding=1)), v, padding=1), kernel_size=2)
        return [y, *g("grad", g("sum", g("square", y)), x, w, v, ids=3)]
    c.add("two", two)

    def twice(g):
        x, w = g.x([1, 3, 6, 5]), g.x([2, 3, 3, 3])
        (gx, gw) = g("grad", g("sum", g("square", g("conv2d", x, w))), x, w, ids=2)
        return g("grad", g("add", g("sum", g("square", gx)), g("sum", g("square", gw))), x, w, ids=2)
    c.add("second_gradient", twice)
    return c


def gradients():
    c = Cases("gradients")

    def of(g, op, shape, positive=False, **attrs):
        x = g.x(shape)
        y = g(op, g("add", g("abs", x), 0.5) if positive else x, **attrs)
        return g("grad", g("sum", g("mul", y, 1.5)), x)

    for op in ("neg", "abs", "square", "exp", "sin", "cos", "relu", "leaky_relu", "sigmoid", "tanh", "erf", "gelu", "silu", "softplus", "reciprocal"):
        c.add(op, lambda g: of(g, op, [19]))
    for op in ("sqrt", "rsqrt", "log"):
        c.add(op, lambda g: of(g, op, [19], True))
    c.add("gelu_tanh", lambda g: of(g, "gelu", [19], approximate="tanh"))
    c.add("prod", lambda g: (lambda x: g("grad", g("sum", g("prod", x, axis=1)), x))(g.x([3, 5])))
    for op in ("add", "sub", "mul", "div", "maximum", "minimum"):
        c.add(op, lambda g: (lambda x, y: g("grad", g("sum", g("square", g(op, x, y))), x, y, ids=2))(g.x([5, 7]), g.x([7])))
    for op, attrs in (("sum", {"axis": 1}), ("mean", {"axis": 0}), ("max", {"axis": 1}), ("min", {"axis": 0}), ("var", {"axis": 1}), ("std", {"axis": 1}), ("logsumexp", {"axis": 1})):
        c.add(op, lambda g: (lambda x: g("grad", g("sum", g("square", g(op, x, **attrs))), x))(g.x([6, 9])))
    c.add("softmax", lambda g: (lambda x: g("grad", g("softmax", x), x, g.x([7, 18]), cotangent=True))(g.x([7, 18])))
    c.add("log_softmax", lambda g: (lambda x: g("grad", g("log_softmax", x), x, g.x([7, 18]), cotangent=True))(g.x([7, 18])))
    c.add("cross_entropy", lambda g: (lambda x: g("grad", g("cross_entropy", x, g.x([13], "int64")), x))(g.x([13, 10])))
    c.add("layer_norm", lambda g: (lambda x, w, b: g("grad", g("layer_norm", x, w, b), x, w, b, g.x([9, 17]), cotangent=True, ids=3))(g.x([9, 17]), g.x([17]), g.x([17])))
    c.add("matmul", lambda g: (lambda x, y: g("grad", g("sum", g("square", g("matmul", x, y))), x, y, ids=2))(g.x([7, 18]), g.x([18, 17])))
    c.add("matmul_broadcast", lambda g: (lambda x, y: g("grad", g("sum", g("square", g("matmul", x, y))), x, y, ids=2))(g.x([3, 4, 5]), g.x([5, 6])))
    c.add("linear", lambda g: (lambda x, w, b: g("grad", g("mean", g("relu", g("linear", x, w, b))), x, w, b, ids=3))(g.x([9, 17]), g.x([5, 17]), g.x([5])))
    c.add("take", lambda g: (lambda x: g("grad", g("sum", g("square", g("take", x, g.x([6], "int64")))), x))(g.x([11, 5])))
    c.add("gather", lambda g: (lambda x: g("grad", g("sum", g("square", g("gather", x, g.x([4, 3], "int32"), axis=1))), x))(g.x([4, 10])))
    c.add("movement", lambda g: (lambda x: g("grad", g("sum", g("square", g("pad", g("flip", g("permute", g("slice", x, start=1, step=2), axes=[1, 0]), axis=0), padding=[[1, 0], [0, 2]], value=3))), x))(g.x([9, 5])))
    c.add("cat_stack", lambda g: (lambda x, y: g("grad", g("sum", g("square", g("stack", g("cat", x, y), g("cat", y, x)))), x, y, ids=2))(g.x([3, 4]), g.x([2, 4])))
    c.add("where", lambda g: (lambda x, y: g("grad", g("sum", g("where", g("less", x, y), g("square", x), g("exp", y))), x, y, ids=2))(g.x([17]), g.x([17])))
    c.add("detach", lambda g: (lambda x: g("grad", g("sum", g("mul", x, g("detach", x))), x))(g.x([5])))
    c.add("unused", lambda g: (lambda x, y: g("grad", g("sum", x), x, y, ids=2))(g.x([5]), g.x([3])))
    c.add("cast", lambda g: (lambda x: g("grad", g("sum", g("square", g("cast", x, dtype="float32"))), x))(g.x([9], "float16")))
    c.add("float64", lambda g: (lambda x: g("grad", g("sum", g("div", x, g("add", g("square", x), 1))), x))(g.x([9], "float64")))
    c.add("attention", lambda g: (lambda q, k, v: g("grad", g("sum", g("square", g("matmul", g("softmax", g("matmul", q, g("transpose", k))), v))), q, k, v, ids=3))(g.x([5, 4]), g.x([6, 4]), g.x([6, 3])))

    def second(g, f):
        x = g.x([11])
        dx = g("grad", g("sum", f(x)), x)
        return [dx, g("grad", g("sum", g("square", dx)), x)]

    c.add("second_tanh", lambda g: second(g, lambda x: g("tanh", x)))
    c.add("second_softmax", lambda g: second(g, lambda x: g("square", g("softmax", x))))
    c.add("second_cube", lambda g: second(g, lambda x: g("mul", x, g("square", x))))

    def third(g):
        x = g.x([7])
        y = g("sin", x)
        for _ in range(3):
            y = g("grad", g("sum", y), x)
        return y

    c.add("third_sin", third)

    def second_matmul(g):
        x, w = g.x([5, 6]), g.x([6, 4])
        dw = g("grad", g("sum", g("square", g("tanh", g("matmul", x, w)))), w)
        return g("grad", g("sum", g("square", dw)), x, w, ids=2)

    c.add("second_matmul", second_matmul)
    return c


def training():
    c = Cases("training", state={"w": [9, 5], "b": [5], "v": [33]})

    def step(g, op, **attrs):
        x, t = g.x([6, 9]), g.x([6, 5])
        loss = g("mse_loss", g("add", g("matmul", x, "w"), "b"), t)
        new = g(op, loss, "w", "b", ids=2, **attrs)
        g.updates = {"w": new[0], "b": new[1]}
        return loss

    for name, op, attrs in (("sgd", "sgd", {"lr": 0.1}), ("momentum", "sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}),
                            ("nesterov", "sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
                            ("adam", "adam", {"lr": 0.01}), ("adam_decay", "adam", {"weight_decay": 0.1, "betas": [0.8, 0.99], "eps": 1e-6}), ("adamw", "adamw", {"lr": 0.01})):
        c.add(name, lambda g: step(g, op, **attrs))

    def scheduled(g):
        rate = g.x([])
        new = g("adam", g("sum", g("square", "v")), "v", ids=1, lr=g("mul", rate, 0.01))
        g.updates = {"v": new}
        return rate

    c.add("rate", scheduled)

    def cache(g):
        y = g("cat", g("slice", "v", start=0, stop=8), g.x([1]), g("slice", "v", start=9))
        g.updates = {"v": y}
        return g("sum", "v")

    c.add("slice_of_state", cache)

    def exchange(g):
        g.updates = {"b": g("slice", "v", start=0, stop=5), "v": g("cat", "b", g("slice", "v", start=5))}
        return g("add", "b", 0)

    c.add("exchange", exchange)

    def mlp(g):
        x, t = g.x([7, 9]), g.x([7], "int64")
        h = g("relu", g("linear", x, g("transpose", "w"), "b"))
        loss = g("cross_entropy", g("dropout", h, p=0.25), g("mod", t, 5))
        new = g("sgd", loss, "w", "b", ids=2, lr=0.1, momentum=0.5)
        g.updates = {"w": new[0], "b": new[1]}
        return [loss, h]

    c.add("mlp_dropout", mlp)
    return c


def randomness():
    c = Cases("randomness")
    c.add("uniform", lambda g: [g("uniform", shape=[17, 5]), g("uniform", shape=[33], low=-2, high=3, seed=5), g("rand_like", g.x([3, 5]))])
    c.add("normal", lambda g: [g("normal", shape=[65], mean=1, std=2), g("normal", shape=[3, 3], seed=1)])
    c.add("whole", lambda g: [g("randint", shape=[19], low=-5, high=17), g("randint", shape=[8], high=256, dtype="uint8")])
    c.add("randperm", lambda g: [g("randperm", n=17), g("randperm", n=1), g("randperm", n=64, seed=3, dtype="int32")])
    c.add("initialisers", lambda g: [g("kaiming_uniform", shape=[7, 5], seed=1), g("kaiming_normal", shape=[7, 5, 3, 3], mode="fan_out", a=0.1), g("glorot_uniform", shape=[5, 9]), g("scaled_uniform", shape=[11], fan_in=5)])
    c.add("float16", lambda g: [g("uniform", shape=[9], dtype="float16"), g("normal", shape=[9], dtype="bfloat16")])
    c.add("float64", lambda g: g("uniform", shape=[9], dtype="float64"))
    c.add("key", lambda g: (lambda k: [g("uniform", k, shape=[9]), g("dropout", g.x([21]), k, p=0.3)])(g.x([], "uint32")))
    c.add("dropout", lambda g: [g("dropout", g.x([129]), p=0.5), g("dropout", g.x([5, 5]), p=0.1, seed=2)])
    c.add("batch", lambda g: g("take", g.x([40, 12]), g("slice", g("randperm", n=40), stop=9)))
    return c


def named():
    c = Cases("named", dims={"n": [1, 37], "m": [0, 20]})
    c.add("chain", lambda g: (lambda x: g("add", g("mul", x, 2), g.x([5])))(g.x(["n", 5])))
    c.add("inner", lambda g: (lambda x: g("exp", g("sub", x, 1)))(g.x([3, "n"])))
    c.add("softmax", lambda g: g("softmax", g.x([7, "n"])))
    c.add("rows", lambda g: g("log_softmax", g.x(["n", 10])))
    c.add("sum", lambda g: (lambda x: [g("sum", x, axis=0), g("mean", x, axis=1), g("sum", x)])(g.x(["n", 6])))
    c.add("both", lambda g: (lambda x: [g("sum", x, axis=0), g("mul", x, 3), g("transpose", x)])(g.x(["n", "m"])))
    c.add("matmul_rows", lambda g: g("relu", g("add", g("matmul", g.x(["n", 19]), g.x([19, 17])), g.x([17]))))
    c.add("matmul_inner", lambda g: g("matmul", g.x([5, "n"]), g.x(["n", 7])))
    c.add("reshape", lambda g: g("reshape", g.x(["n", 4, 3]), shape=["n", 12]))
    c.add("pad_cat", lambda g: (lambda x: [g("pad", x, padding=[1, 2]), g("cat", x, g.x([3])), g("flip", x)])(g.x(["n"])))
    c.add("mlp", lambda g: g("cross_entropy", g("linear", g("relu", g("linear", g.x(["n", 9]), g.x([17, 9]), g.x([17]))), g.x([10, 17]), g.x([10])), g.x(["n"], "int64")))
    c.add("gradient", lambda g: (lambda w: g("grad", g("mean", g("square", g("matmul", g.x(["n", 9]), w))), w))(g.x([9, 4])))
    c.add("conv", lambda g: g("max_pool2d", g("relu", g("conv2d", g.x(["n", 1, 10, 10]), g.x([3, 1, 3, 3]))), kernel_size=2))
    c.add("attention", lambda g: (lambda q, k, v: g("matmul", g("softmax", g("matmul", q, g("transpose", k))), v))(g.x(["n", 8]), g.x(["n", 8]), g.x(["n", 8])))
    c.add("take", lambda g: g("take", g.x([11, 5]), g.x(["n"], "int64")))
    c.add("transposed", lambda g: g("conv_transpose", g.x([2, 3, "n"]), g.x([3, 4, 3]), stride=2, padding=1, output_padding=1))
    c.add("pool_over", lambda g: (lambda x: [g("max_pool", x, kernel_size=[3], stride=2, padding=1, ceil_mode=True), g("avg_pool", x, kernel_size=[2], ceil_mode=True)])(g.x([3, "n"])))
    c.add("resized", lambda g: (lambda x: [g("interpolate", x, size=7, mode="linear"), g("interpolate", x, size=9), g("slice", x, axis=[1], step=[-2])])(g.x([3, "n"])))
    c.add("diagonals", lambda g: (lambda x: [g("diagonal", x), g("diag", g("diagonal", x)), g("roll", x, shift=1, axis=0)])(g.x(["n", "n"])))
    c.add("arange", lambda g: g("add", g("arange", stop="n"), g.x(["n"], "int64")))
    c.add("of_no_number", lambda g: (lambda x: (lambda d: g("floor_div", d, d))(g("sub", g("softmax", x), g("var", g("bitwise_xor", x, x), axis=1, keepdim=True))))(g.x(["n", 1], "int64")))
    c.add("vector", lambda g: (lambda x: [g("tanh", g("mul", x, 2)), g("sum", g("exp", x)), g("max", x), g("cumsum", x)])(g.x(["n"])))
    c.add("products", lambda g: g("matmul", g.x(["n", 2, 5]), g.x(["n", 5, 24])))
    c.add("matmul_both", lambda g: g("matmul", g.x(["n", 12]), g.x([12, "m"])))
    c.add("wide", lambda g: g("gelu", g("linear", g.x(["n", 33]), g.x([64, 33]), g.x([64]))))
    c.add("twice_as_many", lambda g: (lambda y: [g("sum", y, axis=0), g("sub", y, 1)])(g("cat", g.x(["n", 3]), g.x(["n", 3]))))
    return c


def twice(g, x):
    """Upsamples both sides of [n, 2, h / 4, w / 4] by two, by copies of each element."""
    wide = g("expand", g("reshape", x, shape=["n", 2, "h // 4", 1, "w // 4", 1]), shape=["n", 2, "h // 4", 2, "w // 4", 2])
    return g("reshape", wide, shape=["n", 2, "h // 2", "w // 2"])


def stepped():
    """Sides that are multiples: a feature pyramid whose levels have equal sizes where they are added, and patches."""
    c = Cases("stepped", dims={"h": [16, 64, 16], "w": [8, 40, 8], "n": [1, 3]})
    c.add("pyramid", lambda g: (lambda x: (lambda d: g("add", g("max_pool", x, kernel_size=[2, 2]), twice(g, g("max_pool", d, kernel_size=[2, 2]))))(
        g("max_pool", x, kernel_size=[2, 2])))(g.x(["n", 2, "h", "w"])))
    c.add("patches", lambda g: g("sum", g("reshape", g.x(["n", "h", "w"]), shape=["n", "h // 16", 16, "w // 8", 8]), axis=[2, 4]))
    c.add("parts", lambda g: (lambda x: [g("reshape", x, shape=["h // 4", 4]), g("slice", x, stop="h // 2"), g("add", g("arange", stop="h"), 1)])(g.x(["h"])))
    return c


def regions():
    """Steps that update a part of a state in place, and steps that only look similar."""
    c = Cases("regions", state={"s": [12, 6], "t": [12, 6], "v": [17], "w": [3, 12, 6], "keys": [3, 2, 4, 5], "values": [3, 2, 5, 4]}, dims={"n": [1, 12]})

    def place(g, dtype="int32"):
        return g.x([1], dtype)

    def at(g, place, axis=0, dtype="int32"):
        mask = g("equal", g("arange", stop=[12, 6][axis], dtype=dtype), place)
        return g("reshape", mask, shape=[12, 1]) if axis == 0 else mask

    def put(g, place, new, old, **attrs):
        return g("where", at(g, place, **attrs), new, old)

    def add(name, build):
        def entry(g):
            g.updates, outputs = build(g)
            return outputs
        c.add(name, entry)

    add("row", lambda g: (lambda new: ({"s": new}, [g("sum", new, axis=1)]))(put(g, place(g), g.x([1, 6]), "s")))
    add("column", lambda g: ({"s": put(g, place(g), g.x([12, 1]), "s", axis=1)}, []))
    add("element", lambda g: ({"s": g("where", g("logical_and", at(g, place(g)), at(g, place(g), axis=1)), g.x([1]), "s")}, []))
    add("before_and_after", lambda g: (lambda new: ({"s": new}, [g("sum", "s", axis=1), g("sum", new, axis=0), g("mul", "s", 2)]))(put(g, place(g), g.x([1, 6]), "s")))
    add("of_what_is_read_first", lambda g: ({"s": put(g, place(g), g("reshape", g("sum", "s", axis=0), shape=[1, 6]), "s")}, []))
    add("of_the_row_itself", lambda g: ({"s": put(g, place(g), g("add", "s", g.x([1, 6])), "s")}, []))
    add("of_the_row_before", lambda g: ({"s": put(g, place(g), g("roll", "s", shift=1, axis=0), "s")}, []))
    add("before_the_first", lambda g: ({"s": put(g, g("sub", place(g), 6), g.x([1, 6]), "s")}, []))
    add("behind_the_last", lambda g: ({"s": put(g, g("add", place(g), 9), g.x([1, 6]), "s")}, []))
    add("far_away", lambda g: ({"s": put(g, g("mul", place(g, "int64"), 4294967296), g("take", g.x([12, 6]), place(g)), "s", dtype="int64")}, []))
    add("small_number", lambda g: ({"s": put(g, g("sub", place(g, "int8"), 4), g.x([1, 6]), "s", dtype="int8")}, []))
    add("unsigned", lambda g: ({"s": put(g, g("sub", place(g, "uint32"), 4), g.x([1, 6]), "s", dtype="uint32")}, []))
    add("keys_and_values", lambda g: (lambda p, q: (lambda k, v: ({"s": k, "t": v}, [g("matmul", g("softmax", g("matmul", q, g("transpose", k))), v)]))(
        put(g, p, g.x([1, 6]), "s"), put(g, p, g.x([1, 6]), "t")))(place(g), g.x([2, 6])))
    add("from_each_other", lambda g: (lambda p: ({"s": put(g, p, "t", "s"), "t": put(g, p, "s", "t")}, []))(place(g)))
    add("from_each_other_elsewhere", lambda g: ({"s": put(g, place(g), "t", "s"), "t": put(g, place(g), "s", "t", axis=1)}, []))
    add("from_the_other_as_it_was", lambda g: ({"s": put(g, place(g), g.x([1, 6]), "s"), "t": put(g, place(g), g("exp", "s"), "t", axis=1)}, []))
    add("from_the_other_as_it_is", lambda g: (lambda new: ({"s": new, "t": put(g, place(g), g("sum", new, axis=1, keepdim=True), "t", axis=1)}, []))(put(g, place(g), g.x([1, 6]), "s")))
    def numbers(g, count, step=3):
        """Indices of positions, with duplicates and with indices out of range."""
        return g("sub", g("mul", g.x([count], "int32"), step), 9)

    def in_pages(g, state, order, new, places):
        """Writes |new| at |places| of [pages, 2, 4, 5] or [pages, 2, 5, 4]; the positions are the axis of 5."""
        moved = g("reshape", g("permute", state, axes=order), shape=[15, 2, 4])
        put = g("reshape", g("index_put", moved, new, places), shape=[3, 5, 2, 4])
        return g("permute", put, axes=[order.index(axis) for axis in range(4)])

    def attend(g, places, count, product=False):
        """Writes new keys and values at their positions, then attends over the pages of a table with |places| as the mask."""
        new = lambda: g("reshape", g("matmul", g.x([count, 3]), g.x([3, 8])), shape=[count, 2, 4]) if product else g.x([count, 2, 4])
        keys, values = in_pages(g, "keys", [0, 3, 1, 2], new(), places), in_pages(g, "values", [0, 2, 1, 3], new(), places)
        table = g("mod", g.x([2], "int32"), 3)
        seen = lambda shape: g("reshape", g("less", g("arange", stop=10, dtype="int32"), 7), shape=shape)
        k = g("where", seen([2, 1, 1, 5]), g("take", keys, table), 0)
        v = g("where", seen([2, 1, 5, 1]), g("take", values, table), 0)
        scores = g("sum", g("mul", g("reshape", g.x([2, 4]), shape=[1, 2, 4, 1]), k), axis=2)
        weights = g("exp", g("sub", g("where", seen([2, 1, 5]), scores, -1e30), g("max", scores, axis=[0, 2], keepdim=True)))
        return {"keys": keys, "values": values}, [g("sum", g("mul", g("reshape", weights, shape=[2, 2, 5, 1]), v), axis=[0, 2])]

    add("at_places", lambda g: ({"s": g("index_put", "s", g.x([7, 6]), numbers(g, 7))}, []))
    add("at_one_place", lambda g: ({"s": g("index_put", "s", g.x([1, 6]), numbers(g, 1))}, []))
    add("at_named_places", lambda g: ({"s": g("index_put", "s", g.x(["n", 6]), numbers(g, "n"))}, []))
    add("at_places_far_away", lambda g: ({"s": g("index_put", "s", g.x([7, 6]), g("mul", g.x([7], "int64"), 1431655766))}, []))
    add("at_many_places", lambda g: (lambda at: ({"s": g("index_put", "s", g.x([50, 6]), at), "t": g("index_put", "t", g.x([50, 6]), at)}, []))(numbers(g, 50)))
    add("rows_of_one_and_columns_of_another", lambda g: ({"s": g("index_put", "s", g.x([1, 6]), numbers(g, 1)), "t": g("index_put", "t", g.x([12, 1]), numbers(g, 1, 2), axis=1)}, []))
    add("at_pairs_of_places", lambda g: ({"w": g("index_put", "w", g.x([7, 6]), numbers(g, 7, 2), numbers(g, 7))}, []))
    add("at_places_of_columns", lambda g: ({"s": g("index_put", "s", g.x([12, 4]), numbers(g, 4, 2), axis=1)}, [g("sum", "s")]))
    add("at_places_and_as_it_was", lambda g: ({"s": g("index_put", "s", g("mul", g("take", "s", g.x([7], "int32")), 2), numbers(g, 7))}, []))
    add("added_at_places", lambda g: ({"s": g("index_put", "s", g.x([7, 6]), numbers(g, 7), accumulate=True)}, []))
    add("scattered", lambda g: ({"s": g("scatter", "s", g("mod", g.x([5, 6], "int32"), 12), g.x([5, 6]))}, []))
    add("pages", lambda g: attend(g, numbers(g, 6), 6))
    add("pages_of_one", lambda g: attend(g, numbers(g, 1), 1))
    add("pages_of_named", lambda g: attend(g, numbers(g, "n"), "n"))
    add("pages_of_products", lambda g: attend(g, numbers(g, 6), 6, product=True))
    add("slice", lambda g: ({"s": g("cat", g("slice", "s", stop=[3]), g.x([4, 6]), g("slice", "s", start=[7]))}, []))
    add("slice_of_a_product", lambda g: ({"s": g("cat", g("slice", "s", stop=[3]), g("matmul", g.x([4, 5]), g.x([5, 6])), g("slice", "s", start=[7]))}, [g("sum", "s", axis=0)]))
    add("part_of_a_join", lambda g: (lambda p, x, y: ({"s": g("cat", g("where", g("reshape", g("equal", g("arange", stop=6, dtype="int32"), p), shape=[6, 1]), x, g("slice", "s", stop=[6])),
                                                               g("matmul", y, g("slice", "s", start=[6])))}, [g("sum", g("matmul", "s", g("transpose", "s")), axis=1)]))(place(g), g.x([1, 6]), g.x([6, 6])))
    add("first", lambda g: ({"s": g("cat", g.x([4, 6]), g("slice", "s", start=[4]))}, [g("sum", "s")]))
    add("last", lambda g: ({"v": g("cat", g("slice", "v", stop=[16]), g.x([1]))}, [g("sum", "v")]))
    add("overlapping", lambda g: (lambda one: ({"s": g("cat", g("slice", one, stop=[5]), g.x([4, 6]), g("slice", one, start=[9]))}, [g("sum", one)]))(
        g("cat", g("slice", "s", stop=[3]), g.x([4, 6]), g("slice", "s", start=[7]))))
    add("shifted", lambda g: ({"s": g("cat", g("slice", "s", start=[1]), g.x([1, 6]))}, []))
    add("to_itself", lambda g: ({"s": g("cat", g("slice", "s", stop=[2]), g("slice", "s", start=[4], stop=[6]), g("slice", "s", start=[4]))}, []))
    add("twice", lambda g: (lambda new: ({"s": new, "t": new}, [new]))(put(g, place(g), g.x([1, 6]), "s")))
    add("other_shape", lambda g: ({"w": g("where", at(g, place(g)), g.x([3, 1, 6]), "w")}, [g("sum", "w", axis=[1, 2])]))
    add("of_what_nobody_reads", lambda g: ({"t": put(g, place(g), g.x([1, 6]), g("reshape", g("contiguous", g("add", g("reshape", "s", shape=[72]), 1)), shape=[12, 6]))}, []))
    add("some_of_a_row", lambda g: ({"s": g("where", g("logical_and", at(g, place(g)), g.x([6], "bool")), g.x([1, 6]), "s")}, []))
    add("odd_places_of_the_last", lambda g: ({"v": g("where", g("logical_and", g("cast", g("mod", g("arange", stop=17), 2), dtype="bool"), g("less", 3, g("arange", stop=17))), g.x([17]), "v")}, []))
    add("named_place", lambda g: ({"s": put(g, g("sub", g("full", shape=[1], value="n", dtype="int32"), 1), g("slice", g.x(["n", 6]), start=[0], stop=[1]), "s")}, []))
    add("named_start", lambda g: (lambda inside: ({"w": g("where", g("pad", inside, padding=[[0, 0], ["n - 1", "12 - n"], [0, 0]]),
                                                          g("pad", g("slice", g.x([3, "n", 6]), start=[0, 0, 0], stop=[3, 1, 6]), padding=[[0, 0], ["n - 1", "12 - n"], [0, 0]]), "w")},
                                                  [g("sum", "w", axis=[0, 2])]))(g("full", shape=[3, 1, 6], value=True, dtype="bool")))
    add("named_end", lambda g: ({"s": g("where", g("pad", g("full", shape=["n", 6], value=True, dtype="bool"), padding=[[0, "12 - n"], [0, 0]]),
                                        g("pad", g.x(["n", 6]), padding=[[0, "12 - n"], [0, 0]]), "s")}, []))
    return c


def scatter():
    """Sums of scattered values, with more positions than are searched through (engine/opt/scatter_invert.c)."""
    c = Cases("scatter", dims={"p": [1, 150], "k": [1, 260]})

    def keys(g, shape, places, dtype="int32"):
        """Keys with duplicates, missing positions, and keys out of range."""
        first = g("mul", g("arange", stop=shape[0], dtype=dtype), 37)
        return g("mod", g("add", g("reshape", first, shape=[shape[0]] + [1] * (len(shape) - 1)), g.x(shape, dtype)), places + 3)

    def gradient(g, op, x, index, weight, **attrs):
        return g("grad", g("sum", g("mul", g(op, x, index, **attrs), weight)), x)

    c.add("add", lambda g: g("scatter", g.x([83]), keys(g, [300], 83, "int64"), g.x([300]), reduce="add"))
    c.add("assign", lambda g: g("scatter", g.x([96]), keys(g, [257], 96), g.x([257])))
    c.add("multiply_rows", lambda g: g("scatter", g.x([70, 18]), keys(g, [240, 18], 70), g.x([240, 18]), reduce="multiply"))
    c.add("mean_of_columns", lambda g: g("scatter_reduce", g.x([6, 130]), g("transpose", keys(g, [200, 6], 130)), g.x([6, 200]), axis=1, reduce="mean"))
    c.add("largest_without_itself", lambda g: g("scatter_reduce", g.x([90, 4], "int32"), keys(g, [192, 4], 90, "int64"), g.x([192, 4], "int32"), reduce="amax", include_self=False))
    c.add("smallest", lambda g: g("scatter_reduce", g.x([90, 4]), keys(g, [192, 4], 90), g.x([192, 4]), reduce="amin"))
    c.add("put_rows", lambda g: g("index_put", g.x([100, 20]), g.x([170, 20]), keys(g, [170], 100)))
    c.add("add_rows", lambda g: g("index_put", g.x([100, 20]), g.x([170, 20]), keys(g, [170], 100, "int64"), accumulate=True))
    c.add("add_halves", lambda g: g("index_put", g.x([80, 8], "float16"), g.x([210, 8], "float16"), keys(g, [210], 80), accumulate=True))
    c.add("add_bfloat16", lambda g: g("index_put", g.x([80, 16], "bfloat16"), g.x([210, 16], "bfloat16"), keys(g, [210], 80), accumulate=True))
    c.add("small_keys", lambda g: g("scatter", g.x([120, 3], "int64"), keys(g, [150, 3], 110, "int8"), g.x([150, 3], "int64"), reduce="add"))
    c.add("gradient_of_rows", lambda g: gradient(g, "take", g.x([120, 33]), g("reshape", keys(g, [144], 120), shape=[9, 16]), g.x([9, 16, 33])))
    c.add("gradient_of_gather", lambda g: gradient(g, "gather", g.x([80, 9]), keys(g, [210, 9], 80), g.x([210, 9]), axis=0))
    c.add("counts", lambda g: g("sum", g("cast", g("equal", g("arange", stop=256, dtype="int32"), g("reshape", keys(g, [700], 256), shape=[700, 1])), dtype="int32"), axis=0))
    c.add("square_of_counts", lambda g: g("square", g("sum", g("where", g("equal", g("reshape", g("arange", stop=100, dtype="int32"), shape=[100, 1]), keys(g, [300], 100)), g.x([300]), 0), axis=1)))
    c.add("named", lambda g: g("index_put", g.x(["p", 7]), g.x(["k", 7]), g("mod", g("mul", g("arange", stop="k", dtype="int32"), 7), 120), accumulate=True))
    return c


if __name__ == "__main__":
    for cases in (elementwise(), dtypes(), movement(), reductions(), products(), attentions(), matrix_units(), windows(), winograd(), gradients(), training(), randomness(), named(), stepped(), regions(), scatter()):
        cases.write()
        print(cases.file, len(cases.entries))
