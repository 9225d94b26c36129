# SPDX-License-Identifier: MIT
"""Graphs for tests of kernel texts: sizes used in GPU benchmarks, and some odd sizes, as entries of one program document."""


def typed(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape)}


def node(op, *sources, name="y", **attrs):
    return {"id": name, "op": op, "in": list(sources), **({"attrs": attrs} if attrs else {})}


def entry(inputs, *nodes, outputs=None):
    return {"inputs": inputs, "nodes": list(nodes), "outputs": outputs or [nodes[-1]["id"]]}


def product(dtype, m, n, k):
    return entry({"x": typed(dtype, m, k), "w": typed(dtype, k, n)}, node("matmul", "x", "w"))


def linear(dtype, m, n, k):
    return entry({"x": typed(dtype, m, k), "w": typed(dtype, n, k)}, node("linear", "x", "w"))


def whole_product(m, n, k):
    """int8 with int32 accumulation."""
    wide = [node("cast", at, name="wide_" + at, dtype="int32") for at in "xw"]
    return entry({"x": typed("int8", m, k), "w": typed("int8", k, n)}, *wide, node("matmul", "wide_x", "wide_w"))


def windows(batch, channels, size, features, kernel):
    """A convolution, and each of its gradients."""
    out = size - kernel + 1
    inputs = {"x": typed("float32", batch, channels, size, size), "w": typed("float32", features, channels, kernel, kernel)}
    given = {**inputs, "g": typed("float32", batch, features, out, out)}
    conv = node("conv2d", "x", "w")
    return {"": entry(inputs, conv),
            "_dx": entry(given, conv, node("grad", "y", "x", "g", name="d", cotangent=True), outputs=["d"]),
            "_dw": entry(given, conv, node("grad", "y", "w", "g", name="d", cotangent=True), outputs=["d"])}


def attention(dtype, batch, heads, length, width):
    """Attention forward, and all three gradients."""
    shape = typed(dtype, batch, heads, length, width)
    inputs = {"q": shape, "k": shape, "v": shape}
    forward = node("attention", "q", "k", "v")
    grads = [node("grad", "y", at, "g", name="d" + at, cotangent=True) for at in "qkv"]
    return {"": entry(inputs, forward),
            "_grad": entry({**inputs, "g": shape}, forward, *grads, outputs=["dq", "dk", "dv"])}


def plain():
    """Single operations, most of them memory-bound."""
    long = typed("float32", 1 << 26)
    rows = typed("float32", 65536, 1024)
    return {
        "muladd": entry({"a": long, "b": long, "c": long}, node("mul", "a", "b", name="m"), node("add", "m", "c")),
        "exp_odd": entry({"x": typed("float32", 1000003)}, node("exp", "x")),
        "relu_half": entry({"x": typed("float16", 1 << 26)}, node("relu", "x")),
        "gelu_bf16": entry({"x": typed("bfloat16", 1 << 26)}, node("gelu", "x")),
        "less_bool": entry({"x": long, "z": long}, node("less", "x", "z")),
        "sin": entry({"x": long}, node("sin", "x")),
        "add_int64": entry({"x": typed("int64", 1 << 24), "z": typed("int64", 1 << 24)}, node("add", "x", "z")),
        "add_int8": entry({"x": typed("int8", 1 << 24), "z": typed("int8", 1 << 24)}, node("add", "x", "z")),
        "div_float64": entry({"x": typed("float64", 1 << 20), "z": typed("float64", 1 << 20)}, node("div", "x", "z")),
        "transpose": entry({"x": typed("float32", 4096, 4096)}, node("transpose", "x")),
        "bias_rows": entry({"x": rows, "b": typed("float32", 1024)}, node("add", "x", "b")),
        "sum_all": entry({"x": long}, node("sum", "x")),
        "sum_rows": entry({"x": rows}, node("sum", "x", axis=1)),
        "sum_columns": entry({"x": rows}, node("sum", "x", axis=0)),
        "max_rows_half": entry({"x": typed("float16", 65536, 1024)}, node("max", "x", axis=1)),
        "argmax_rows": entry({"x": rows}, node("argmax", "x", axis=1)),
        "softmax": entry({"x": rows}, node("softmax", "x", axis=1)),
        "softmax_bf16": entry({"x": typed("bfloat16", 65536, 1024)}, node("softmax", "x", axis=1)),
        "softmax_long": entry({"x": typed("float32", 64, 50257)}, node("softmax", "x", axis=1)),
        "layer_norm": entry({"x": rows, "w": typed("float32", 1024), "b": typed("float32", 1024)},
                            node("layer_norm", "x", "w", "b")),
        "max_pool": entry({"x": typed("float32", 64, 32, 20, 20)}, node("max_pool2d", "x", kernel_size=2)),
        "cumsum": entry({"x": typed("float32", 1024, 1024)}, node("cumsum", "x", axis=1)),
        "take_rows": entry({"x": typed("float32", 50257, 768), "i": typed("int64", 4096)}, node("take", "x", "i", axis=0)),
        "scatter_add": entry({"x": typed("float32", 100000), "i": typed("int32", 10000), "s": typed("float32", 10000)},
                             node("scatter", "x", "i", "s", reduce="add")),
        "embedding_grad": entry({"x": typed("float32", 10000, 128), "i": typed("int64", 512), "g": typed("float32", 512, 128)},
                                node("take", "x", "i", axis=0), node("grad", "y", "x", "g", name="d", cotangent=True), outputs=["d"]),
        "sort_rows": entry({"x": typed("float32", 64, 4096)}, {**node("sort", "x", axis=1), "id": ["y", "at"]}, outputs=["y", "at"]),
        "topk_rows": entry({"x": typed("float32", 64, 4096)}, {**node("topk", "x", k=8), "id": ["y", "at"]}, outputs=["y", "at"]),
        "dropout": entry({"x": rows, "k": typed("int64")}, node("dropout", "x", p=0.1, seed=1)),
    }


def all_graphs():
    graphs = {f"f32_{n}": product("float32", n, n, n) for n in (512, 1024, 2048, 4096)}
    graphs |= {f"f32_odd_{m}_{n}_{k}": product("float32", m, n, k) for m, n, k in ((1000, 1000, 1000), (127, 129, 131), (512, 10, 576), (4097, 4099, 4101))}
    graphs |= {"f32_linear_1024": linear("float32", 1024, 1024, 1024), "f32_mlp_128_512_784": linear("float32", 128, 512, 784),
               "f32_row": linear("float32", 1, 4096, 4096), "f32_deep": product("float32", 128, 128, 8192), "f64_1024": product("float64", 1024, 1024, 1024)}
    for dtype, name in (("bfloat16", "bf16"), ("float16", "f16")):
        graphs |= {f"{name}_{n}": product(dtype, n, n, n) for n in (1024, 4096, 8192)}
        graphs |= {f"{name}_linear_4096": linear(dtype, 4096, 4096, 4096), f"{name}_odd": product(dtype, 1000, 1000, 1000),
                   f"{name}_row": linear(dtype, 1, 4096, 4096)}
    graphs |= {"i8_1024": whole_product(1024, 1024, 1024), "i8_4096": whole_product(4096, 4096, 4096)}
    for batch, channels, size, features, kernel in ((64, 32, 24, 32, 5), (64, 32, 10, 64, 3), (64, 64, 8, 64, 3)):
        graphs |= {f"conv_{channels}_{features}_{size}_k{kernel}{what}": graph
                   for what, graph in windows(batch, channels, size, features, kernel).items()}
    for length, batch, heads in ((256, 4, 8), (4096, 1, 8)):
        graphs |= {f"attention_{length}{what}": graph for what, graph in attention("float32", batch, heads, length, 64).items()}
    graphs |= {f"attention_half_1024{what}": graph for what, graph in attention("float16", 4, 8, 1024, 64).items()}
    return graphs | plain()
