# SPDX-License-Identifier: MIT
"""The shapes of bench/sweep.py: drawn at random from the layers of published networks.

A shape is a dict that JSON can hold: {"family", "source", "params", "name"}.  bench/shape_sides.py has its graph on the server
and its function in PyTorch.  The lists below name the source of each layer.  Three of ten convolutions and products combine
channels, windows, maps and strides of different sources, or have random extents.
"""
import collections
import math
import random

MOST_GFLOP = 6.0      # work of a shape: about 40 ms at 150 GFLOP/s, so that 600 shapes take less than two hours on two cores
MOST_BYTES = 96 << 20  # inputs and result of a shape; each of the processes holds them
MOST_EXTENT = 112     # side of a map of results
FEWEST_OF_VARIANCE = 16
TRIES = 1000          # draws of a shape before the draw fails
FREE = 0.3            # share of shapes that combine parts of different sources

BATCHES = (1, 1, 1, 2, 4, 8, 8, 16, 32, 64)
RESOLUTIONS = (1, 1, 1, 1, 96 / 224, 128 / 224, 160 / 224, 192 / 224, 256 / 224, 288 / 224, 320 / 224, 2)  # of pictures, relative to 224
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 17, 20, 24, 26, 28, 32, 35, 40, 48, 56, 64, 80, 96, 112)
WINDOWS = ((1, 1), (1, 1), (2, 2), (3, 3), (3, 3), (3, 3), (4, 4), (5, 5), (5, 5), (6, 6), (7, 7), (1, 3), (3, 1), (1, 5), (1, 7), (7, 1))

Layer = collections.namedtuple("Layer", "source ins outs k stride extent groups dilation", defaults=(1, 1))

# Rows (expansion, window, stride, channels) of the blocks of MobileNetV2 (Sandler et al. 2018, table 2) and of EfficientNet-B0
# (Tan and Le 2019, table 1), on maps of 112 after the first layer.
INVERTED = {"MobileNetV2": [(1, 3, 1, 16), (6, 3, 2, 24), (6, 3, 2, 32), (6, 3, 2, 64), (6, 3, 1, 96), (6, 3, 2, 160), (6, 3, 1, 320)],
            "EfficientNet-B0": [(1, 3, 1, 16), (6, 3, 2, 24), (6, 5, 2, 40), (6, 3, 2, 80), (6, 5, 1, 112), (6, 5, 2, 192), (6, 3, 1, 320)]}


def residual_layers():
    """ResNet (He et al. 2015, table 1), ResNeXt-50 32x4d (Xie et al. 2016), RegNetY-400MF (Radosavovic et al. 2020)."""
    yield Layer("ResNet", 3, 64, 7, 2, 224)
    for stage, width in enumerate((64, 128, 256, 512)):
        extent, wide = 56 >> stage, 4 * width
        yield Layer("ResNet-18", width, width, 3, 1, extent)
        yield Layer("ResNet-50", wide, width, 1, 1, extent)
        yield Layer("ResNet-50", width, wide, 1, 1, extent)
        yield Layer("ResNeXt-50", 2 * width, 2 * width, 3, 1, extent, 32)
        if stage > 0:
            yield Layer("ResNet-18", width // 2, width, 3, 2, 2 * extent)
            yield Layer("ResNet-18", width // 2, width, 1, 2, 2 * extent)
            yield Layer("ResNet-50", width, width, 3, 2, 2 * extent)
            yield Layer("ResNet-50", wide // 2, wide, 1, 2, 2 * extent)
            yield Layer("ResNeXt-50", 2 * width, 2 * width, 3, 2, 2 * extent, 32)
    for stage, width in enumerate((48, 104, 208, 440)):
        yield Layer("RegNetY-400MF", width, width, 1, 1, 56 >> stage)
        yield Layer("RegNetY-400MF", width, width, 3, 2, 112 >> stage, width // 8)
        yield Layer("RegNetY-400MF", width, width, 3, 1, 56 >> stage, width // 8)


def inverted_layers():
    """MobileNetV2 and EfficientNet-B0; the layers of squeeze and excitation have maps of 1 x 1."""
    for source, rows in INVERTED.items():
        yield Layer(source, 3, 32, 3, 2, 224)
        ins, extent = 32, 112
        for expansion, k, stride, outs in rows:
            wide = expansion * ins
            if expansion > 1:
                yield Layer(source, ins, wide, 1, 1, extent)
            yield Layer(source, wide, wide, k, stride, extent, wide)
            extent //= stride
            yield Layer(source, wide, outs, 1, 1, extent)
            yield Layer(source, 6 * outs, 6 * outs, k, 1, extent, 6 * outs)
            if source == "EfficientNet-B0":
                yield Layer(source, wide, ins // 4, 1, 1, 1)
                yield Layer(source, ins // 4, wide, 1, 1, 1)
            ins = outs
        yield Layer(source, 320, 1280, 1, 1, 7)


def other_layers():
    """ConvNeXt-T (Liu et al. 2022), U-Net (Ronneberger et al. 2015), VGG-16, DenseNet-121, Inception-v3, SqueezeNet, ShuffleNet,
    DeepLabV3 (dilations of Chen et al. 2017) and small networks for 28 x 28 and 32 x 32 pictures."""
    yield Layer("ConvNeXt-T", 3, 96, 4, 4, 224)
    for stage, width in enumerate((96, 192, 384, 768)):
        yield Layer("ConvNeXt-T", width, width, 7, 1, 56 >> stage, width)
        if stage > 0:
            yield Layer("ConvNeXt-T", width // 2, width, 2, 2, 112 >> stage)
    for level, width in enumerate((64, 128, 256, 512, 1024)):
        yield Layer("U-Net", width, width, 3, 1, 112 >> level)
        yield Layer("U-Net", width // 2 if level else 3, width, 3, 1, 112 >> level)
        yield Layer("U-Net", 2 * width, width, 3, 1, 112 >> level)
    yield Layer("U-Net", 64, 2, 1, 1, 112)
    for ins, outs, extent in ((64, 128, 112), (128, 256, 56), (256, 512, 28), (512, 512, 14)):
        yield Layer("VGG-16", ins, outs, 3, 1, extent)
    for ins, extent in ((64, 56), (160, 56), (128, 28), (480, 28), (256, 14), (992, 14), (512, 7), (992, 7)):
        yield Layer("DenseNet-121", ins, 128, 1, 1, extent)
        yield Layer("DenseNet-121", 128, 32, 3, 1, extent)
    for ins, outs, k, stride, extent in ((48, 64, 5, 1, 35), (64, 96, 3, 1, 35), (288, 384, 3, 2, 35), (768, 192, 1, 1, 17), (160, 160, (1, 7), 1, 17),
                                         (192, 192, (7, 1), 1, 17), (2048, 320, 1, 1, 8), (384, 384, (1, 3), 1, 8)):
        yield Layer("Inception-v3", ins, outs, k, stride, extent)
    for ins, outs, k, extent in ((96, 16, 1, 55), (16, 64, 3, 55), (256, 32, 1, 27), (32, 128, 3, 27), (512, 64, 1, 13), (64, 256, 3, 13)):
        yield Layer("SqueezeNet", ins, outs, k, 1, extent)
    for ins, outs, extent in ((240, 60, 28), (480, 120, 14), (960, 240, 7)):
        yield Layer("ShuffleNet", ins, outs, 1, 1, extent, 3)
    for dilation in (6, 12, 18):
        yield Layer("DeepLabV3", 2048, 256, 3, 1, 28, 1, dilation)
    for width, dilation in ((256, 2), (512, 2), (512, 4)):
        yield Layer("DeepLabV3", width, width, 3, 1, 28, 1, dilation)
    for ins, outs, k, extent in ((1, 6, 5, 28), (1, 32, 3, 28), (32, 64, 3, 26), (32, 32, 5, 24), (3, 32, 3, 32), (3, 64, 3, 32), (64, 128, 3, 16)):
        yield Layer("small", ins, outs, k, 1, extent)


LAYERS = [*residual_layers(), *inverted_layers(), *other_layers()]
CHANNELS = sorted({count for layer in LAYERS for count in (layer.ins, layer.outs) if count >= 3})

# Widths of transformers, from their papers or config.json: width, heads, heads of keys and values, width of the MLP, vocabulary.
Model = collections.namedtuple("Model", "source width heads kv_heads mlp vocabulary")
MODELS = [Model(*row) for row in (
    ("ViT-Ti", 192, 3, 3, 768, 1000), ("ViT-S", 384, 6, 6, 1536, 1000), ("ViT-B", 768, 12, 12, 3072, 1000), ("ViT-L", 1024, 16, 16, 4096, 1000),
    ("MiniLM-L6", 384, 12, 12, 1536, 30522), ("BERT-base", 768, 12, 12, 3072, 30522), ("BERT-large", 1024, 16, 16, 4096, 30522),
    ("GPT-2", 768, 12, 12, 3072, 50257), ("T5-small", 512, 8, 8, 2048, 32128), ("Whisper-base", 512, 8, 8, 2048, 51865),
    ("SmolLM2-135M", 576, 9, 3, 1536, 49152), ("Qwen2.5-0.5B", 896, 14, 2, 4864, 151936), ("Llama-3.2-1B", 2048, 32, 8, 8192, 128256),
    ("TinyLlama-1.1B", 2048, 32, 4, 5632, 32000), ("Llama-2-7B", 4096, 32, 32, 11008, 32000), ("Mistral-7B", 4096, 32, 8, 14336, 32000))]
LENGTHS = (1, 7, 16, 32, 50, 64, 100, 128, 197, 256, 384, 512, 577, 1024, 2048)  # 50, 197, 577: ViT with patches of 32 and 16, 224 and 384


# ---- parameters of each family

def log_uniform(rng, low, high):
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def pair(k):
    return list(k) if isinstance(k, tuple) else [k, k]


def any_layer(rng, kind):
    """A layer that combines parts of different sources."""
    k, stride, dilation = rng.choice(WINDOWS), rng.choice((1, 1, 1, 2, 2, 3)), rng.choice((1, 1, 1, 1, 2, 4))
    ins, outs, groups = rng.choice(CHANNELS), rng.choice(CHANNELS), 1
    if kind == "depthwise":
        k = rng.choice([window for window in WINDOWS if window != (1, 1)])
        outs = groups = ins
    elif kind == "grouped":
        groups, each = rng.choice((2, 3, 4, 8, 16, 32)), rng.choice((4, 8, 16, 24, 32, 64))
        ins, outs = groups * each, groups * rng.choice((each, each, 2 * each))
    return Layer("mixed", ins, outs, k, stride, rng.choice(EXTENTS), groups, dilation if max(k) > 1 else 1)


def is_kind(layer, kind):
    return {"conv": layer.groups == 1, "depthwise": 1 < layer.groups == layer.ins, "grouped": 1 < layer.groups < layer.ins}[kind]


def draw_conv(kind):
    known = [layer for layer in LAYERS if is_kind(layer, kind)]

    def draw(rng):
        layer = any_layer(rng, kind) if rng.random() < FREE else rng.choice(known)
        k, extent = pair(layer.k), layer.extent
        if layer.source != "mixed" and extent > 1:
            extent = max(2, round(extent * rng.choice(RESOLUTIONS)))
        padding = [0, 0] if k[0] == layer.stride or rng.random() < 0.1 else [layer.dilation * (size - 1) // 2 for size in k]
        out = [(extent + 2 * pad - layer.dilation * (size - 1) - 1) // layer.stride + 1 for size, pad in zip(k, padding)]
        if min(out) < 1 or max(out) > MOST_EXTENT:
            return None
        return layer.source, {"batch": rng.choice(BATCHES), "ins": layer.ins, "outs": layer.outs, "extent": extent, "out": out, "k": k,
                              "stride": layer.stride, "padding": padding, "dilation": layer.dilation, "groups": layer.groups}
    return draw


def draw_grouped(rng):
    drawn = draw_conv("grouped")(rng)
    return drawn and (drawn[0], {"of": rng.choice(("y", "y", "x", "w")), **drawn[1]})


def draw_matmul(rng):
    """A linear layer of a transformer, its gradients, or a product of random extents; "form" is n (as stored) or t (transposed) for
    each operand."""
    if rng.random() < FREE:
        return "mixed", {"m": log_uniform(rng, 2, 4096), "n": log_uniform(rng, 2, 4096), "k": log_uniform(rng, 2, 8192),
                         "form": rng.choice(("nn", "nt", "tn")), "then": "none"}
    if rng.random() < 0.15:
        source, k, n = rng.choice((("MLP", 784, 128), ("MLP", 128, 10), ("ResNet-18", 512, 1000), ("ResNet-50", 2048, 1000), ("VGG-16", 4096, 4096),
                                   ("EfficientNet-B0", 1280, 1000), ("LSTM", 256, 1024)))
        m = rng.choice((8, 16, 32, 64, 128, 256))
    else:
        model = rng.choice(MODELS)
        source, width, size = model.source, model.width, model.width // model.heads
        k, n = rng.choice(((width, width), (width, width + 2 * model.kv_heads * size), (width, model.kv_heads * size), (width, model.mlp), (model.mlp, width)))
        m = rng.choice(BATCHES) * rng.choice(LENGTHS[1:])
    form = rng.choice(("nt", "nt", "nt", "nn", "tn"))
    if form == "tn":  # the gradient to the weight sums over the rows
        m, k = k, m
    return source, {"m": m, "n": n, "k": k, "form": form, "then": rng.choice(("none", "bias", "bias relu", "bias gelu")) if form == "nt" else "none"}


def draw_bmm(rng):
    """Scores and values of attention as products, experts, and random batches."""
    if rng.random() < FREE:
        return "mixed", {"batch": log_uniform(rng, 2, 256), "m": log_uniform(rng, 1, 512), "n": log_uniform(rng, 1, 512), "k": log_uniform(rng, 1, 512),
                         "form": rng.choice(("nn", "nt", "tn"))}
    model, length = rng.choice(MODELS), rng.choice(LENGTHS)
    batch, size, form = rng.choice(BATCHES) * model.heads, model.width // model.heads, rng.choice(("nt", "nn", "tn"))
    m, n, k = {"nt": (length, length, size), "nn": (length, size, length), "tn": (length, size, length)}[form]
    return model.source, {"batch": batch, "m": m, "n": n, "k": k, "form": form}


def draw_matvec(rng):
    """A linear layer for a few tokens of decoding; one of ten is a head over the vocabulary."""
    model = rng.choice(MODELS)
    size = model.width // model.heads
    k, n = rng.choice(((model.width, model.width), (model.width, model.kv_heads * size), (model.width, model.mlp), (model.mlp, model.width)))
    if rng.random() < 0.1:
        k, n = model.width, model.vocabulary
    if rng.random() < FREE:
        k, n = log_uniform(rng, 16, 8192), log_uniform(rng, 16, 8192)
    return model.source, {"m": rng.choice((1, 1, 1, 1, 2, 4, 8)), "n": n, "k": k, "form": rng.choice(("nt", "nt", "nn"))}


def draw_attention(rng):
    model, length = rng.choice(MODELS), rng.choice(LENGTHS[1:])
    text = not model.source.startswith(("ViT", "BERT", "MiniLM"))
    causal = text and rng.random() < 0.7
    return model.source, {"batch": rng.choice(BATCHES), "heads": model.heads, "kv_heads": model.kv_heads, "queries": length, "keys": length,
                          "size": model.width // model.heads, "causal": causal}


def draw_decode(rng):
    """Attention of one new token over a cache, or of queries over the tokens of an encoder."""
    source, params = draw_attention(rng)
    return source, {**params, "queries": rng.choice((1, 1, 1, 4, 16)), "keys": rng.choice(LENGTHS[4:]), "causal": False}


def any_attention(rng):
    return draw_decode(rng) if rng.random() < 0.25 else draw_attention(rng)


def draw_attention_grad(rng):
    source, params = draw_attention(rng)
    return source, {**params, "kv_heads": params["heads"]}


def activation(rng):
    """Source and shape of the values between layers: (batch, channels, extent, extent) of a picture network."""
    layer = rng.choice(LAYERS)
    extent = max(1, round(min(layer.extent, MOST_EXTENT) * rng.choice((1, 1, 1, 0.5, 160 / 224))))
    return layer.source, [rng.choice(BATCHES), layer.outs, extent, extent]


def tokens(rng):
    """Source and shape of the values between layers of a transformer: (batch, tokens, width)."""
    model = rng.choice(MODELS)
    return model.source, [rng.choice(BATCHES), rng.choice(LENGTHS), model.width]


def draw_norm(rng, kinds=("layer", "layer", "rms", "rms", "group", "batch", "batch", "inference")):
    kind = rng.choice(kinds)
    source, shape = tokens(rng) if kind in ("layer", "rms") else activation(rng)
    groups = next(count for count in (32, 16, 8, 4, 2, 1) if shape[1] % count == 0)
    return source, {"kind": kind, "shape": shape, **({"groups": groups} if kind == "group" else {})}


def draw_softmax(rng):
    kind = rng.choice(("scores", "scores", "classes", "channels"))
    model, length = rng.choice(MODELS), rng.choice(LENGTHS[1:])
    if kind == "scores":
        return model.source, {"shape": [rng.choice(BATCHES), model.heads, length, length], "axis": 3, "log": False}
    if kind == "classes":
        return model.source, {"shape": [rng.choice((1, 8, 32, 128, 512)), rng.choice((10, 100, 1000, model.vocabulary))], "axis": 1, "log": rng.random() < 0.5}
    return "U-Net", {"shape": [rng.choice(BATCHES), rng.choice((2, 19, 21, 150)), 112, 112], "axis": 1, "log": False}


def draw_reduce(rng):
    """Poolings over maps, gradients of biases, norms of rows, sums of all elements."""
    source, shape = activation(rng) if rng.random() < 0.5 else tokens(rng)
    if len(shape) == 4:
        axes = rng.choice(([2, 3], [2, 3], [0, 2, 3], [1], [0]))
    else:
        axes = rng.choice(([2], [1], [0, 1], [0], [0, 1, 2]))
    if rng.random() < FREE:
        shape, axes, source = [log_uniform(rng, 1, 8192), log_uniform(rng, 1, 8192)], [rng.randrange(2)], "mixed"
    kind = rng.choice(("sum", "sum", "mean", "max", "squares", "var"))
    return source, {"kind": kind, "shape": shape, "axes": axes}


def draw_gather(rng):
    """Embeddings and their gradients, rows by index, and the logit of each label."""
    model, kind = rng.choice(MODELS), rng.choice(("embedding", "embedding", "rows", "labels", "embedding_grad"))
    batch, length = rng.choice(BATCHES), rng.choice(LENGTHS)
    if kind == "labels":
        return model.source, {"kind": kind, "width": rng.choice((10, 1000, model.vocabulary)), "count": [batch * min(length, 128)]}
    rows = model.vocabulary if kind != "rows" else rng.choice((128, 512, 1024, 4096))
    if kind == "embedding_grad":
        rows = rng.choice((256, 1000, rows))
    return model.source, {"kind": kind, "rows": rows, "width": model.width, "count": [batch, length]}


def draw_transpose(rng):
    """Heads apart and together, pictures between NCHW and NHWC, matrices, windows of Swin, shuffled pixels."""
    kind = rng.choice(("heads", "heads", "nhwc", "nchw", "matrix", "windows", "pixels"))
    model, (source, shape) = rng.choice(MODELS), activation(rng)
    if kind == "heads":
        split = [rng.choice(BATCHES), rng.choice(LENGTHS), model.heads, model.width // model.heads]
        axes = rng.choice(([0, 2, 1, 3], [0, 2, 3, 1]))
        return model.source, {"shape": split, "axes": axes}
    if kind == "matrix":
        return "mixed", {"shape": [log_uniform(rng, 4, 8192), log_uniform(rng, 4, 8192)], "axes": [1, 0]}
    if kind == "windows":
        width, extent = rng.choice(((96, 8), (192, 4), (384, 2), (768, 1)))
        return "Swin-T", {"shape": [rng.choice(BATCHES), extent, 7, extent, 7, width], "axes": [0, 1, 3, 2, 4, 5]}
    if kind == "pixels":
        return "ESPCN", {"shape": [rng.choice(BATCHES), 3, 2, 2, rng.choice((28, 56)), rng.choice((28, 56))], "axes": [0, 1, 4, 2, 5, 3]}
    batch, channels, extent, _ = shape
    return source, {"shape": shape, "axes": [0, 2, 3, 1]} if kind == "nhwc" else {"shape": [batch, extent, extent, channels], "axes": [0, 3, 1, 2]}


def draw_pool(rng):
    source, shape = activation(rng)
    kind, k, stride, padding = rng.choice((("max", 3, 2, 1), ("max", 2, 2, 0), ("max", 3, 1, 1), ("max", 5, 1, 2), ("avg", 2, 2, 0), ("avg", 3, 1, 1),
                                           ("avg", 3, 2, 1), ("avg", 7, 7, 0), ("max_grad", 3, 2, 1), ("max_grad", 2, 2, 0), ("avg_grad", 2, 2, 0)))
    out = (shape[2] + 2 * padding - k) // stride + 1
    return (source, {"kind": kind, "shape": shape, "k": k, "stride": stride, "padding": padding, "out": out}) if out >= 1 else None


CHAINS = {"bias_relu": "map", "residual_relu": "map", "excite": "map", "hardswish": "map", "affine_silu": "map", "layer_scale": "tokens", "bias_gelu": "tokens",
          "swiglu": "tokens", "rope": "heads", "add_mask": "scores", "adam": "flat", "outer_sum": "outer"}


def draw_chain(rng):
    kind = rng.choice(list(CHAINS))
    model = rng.choice(MODELS)
    if CHAINS[kind] == "map":
        source, shape = activation(rng)
    elif CHAINS[kind] == "tokens":
        source, shape = tokens(rng)
    elif CHAINS[kind] == "heads":
        source, shape = model.source, [rng.choice(BATCHES), model.heads, rng.choice(LENGTHS), model.width // model.heads]
    elif CHAINS[kind] == "scores":
        length = rng.choice(LENGTHS)
        source, shape = model.source, [rng.choice(BATCHES), model.heads, length, length]
    elif CHAINS[kind] == "flat":
        layer = rng.choice(LAYERS)
        source, shape = layer.source, [layer.ins * layer.outs // layer.groups * math.prod(pair(layer.k))]
    else:
        source, shape = "mixed", [log_uniform(rng, 4, 4096), log_uniform(rng, 4, 4096)]
    return source, {"kind": kind, "shape": shape}


# ---- sizes of each family

Input = collections.namedtuple("Input", "shape low below", defaults=(-1, None))  # floats from low to 1, or integers from 0 below |below|


def conv_inputs(p):
    k, out = p["k"], p["out"]
    return {"x": Input([p["batch"], p["ins"], p["extent"], p["extent"]]), "w": Input([p["outs"], p["ins"] // p["groups"], *k]),
            "cotangent": Input([p["batch"], p["outs"], *out])}


def conv_forward_inputs(p):
    return {name: given for name, given in conv_inputs(p).items() if name != "cotangent"}


def conv_gflop(p):
    return 2e-9 * p["batch"] * p["outs"] * math.prod(p["out"]) * (p["ins"] // p["groups"]) * math.prod(p["k"])


def conv_result(of):
    return lambda p: {"y": [p["batch"], p["outs"], *p["out"]], **{name: given.shape for name, given in conv_inputs(p).items()}}[of]


def matmul_inputs(p):
    batch, (m, n, k) = [p["batch"]] if "batch" in p else [], (p["m"], p["n"], p["k"])
    inputs = {"a": Input(batch + ([k, m] if p["form"][0] == "t" else [m, k])), "b": Input(batch + ([n, k] if p["form"][1] == "t" else [k, n]))}
    return {**inputs, "bias": Input([n])} if p.get("then", "none") != "none" else inputs


def matmul_result(p):
    return ([p["batch"]] if "batch" in p else []) + [p["m"], p["n"]]


def matmul_gflop(p):
    return 2e-9 * math.prod(matmul_result(p)) * p["k"]


def attention_inputs(p, grad=False):
    q, kv = [p["batch"], p["heads"], p["queries"], p["size"]], [p["batch"], p["kv_heads"], p["keys"], p["size"]]
    inputs = {"q": Input(q), "k": Input(kv), "v": Input(kv)}
    return {**inputs, "cotangent": Input(q)} if grad else inputs


def attention_gflop(p):
    """The two products; a causal mask leaves half of each."""
    return 4e-9 * p["batch"] * p["heads"] * p["queries"] * p["keys"] * p["size"] * (0.5 if p["causal"] else 1)


def norm_inputs(p, grad=False):
    shape, width = p["shape"], p["shape"][-1 if p["kind"] in ("layer", "rms") else 1]
    inputs = {"x": Input(shape), "w": Input([width]), **({} if p["kind"] == "rms" else {"b": Input([width])})}
    if p["kind"] == "inference":
        inputs.update(mean=Input([width]), var=Input([width], 0.5))
    return {**inputs, "cotangent": Input(shape)} if grad else inputs


def gather_inputs(p):
    if p["kind"] == "labels":
        return {"table": Input([*p["count"], p["width"]]), "index": Input([*p["count"], 1], 0, p["width"])}
    table, index = Input([p["rows"], p["width"]]), Input(p["count"], 0, p["rows"])
    return {"table": table, "index": index, **({"cotangent": Input([*p["count"], p["width"]])} if p["kind"] == "embedding_grad" else {})}


def gather_result(p):
    if p["kind"] == "labels":
        return [*p["count"], 1]
    return [p["rows"], p["width"]] if p["kind"] == "embedding_grad" else [*p["count"], p["width"]]


def gather_bytes(p):
    """An embedding reads the rows that it takes, not the table."""
    return 4 * (math.prod(p["count"]) + 2 * math.prod(gather_result(p)))


def pool_result(p):
    return p["shape"] if p["kind"].endswith("grad") else [*p["shape"][:2], p["out"], p["out"]]


def pool_inputs(p):
    inputs = {"x": Input(p["shape"])}
    return {**inputs, "cotangent": Input([*p["shape"][:2], p["out"], p["out"]])} if p["kind"].endswith("grad") else inputs


def chain_inputs(p):
    shape, kind = p["shape"], p["kind"]
    x, channel = Input(shape), Input([shape[1], 1, 1]) if CHAINS[kind] == "map" else Input(shape[-1:])
    return {"bias_relu": {"x": x, "b": channel}, "residual_relu": {"x": x, "y": x}, "hardswish": {"x": x},
            "excite": {"x": x, "s": Input([*shape[:2], 1, 1])}, "affine_silu": {"x": x, "w": channel, "b": channel},
            "layer_scale": {"x": x, "y": x, "w": channel}, "bias_gelu": {"x": x, "b": channel}, "swiglu": {"x": x, "y": x},
            "rope": {"x": x, "cos": Input(shape[-2:]), "sin": Input(shape[-2:])}, "add_mask": {"x": x, "m": Input(shape[-2:])},
            "adam": {"p": x, "g": x, "m": x, "v": Input(shape, 0)},
            "outer_sum": {"x": Input([*shape[:1], 1]), "y": Input([1, *shape[1:]]), "z": x}}[kind]


def reduce_result(p):
    return [size for axis, size in enumerate(p["shape"]) if axis not in p["axes"]]


class Family:
    """weight: the share of the shapes, relative to the other families
    draw(random) -> (source, parameters), or None for parameters that do not fit together
    inputs(parameters) -> {name: Input}     result(parameters) -> shape of the result
    gflop(parameters): the work; None: the work is the bytes of inputs and result, or bytes(parameters)
    apart: the share of the result's elements that may differ"""

    def __init__(self, weight, draw, inputs, result, gflop=None, bytes=None, apart=0.0):
        self.weight, self.draw, self.inputs, self.result, self.gflop, self.bytes, self.apart = weight, draw, inputs, result, gflop, bytes, apart

    def held(self, p):
        """Bytes of the inputs and of the result."""
        return sum(math.prod(given.shape) * (8 if given.below else 4) for given in self.inputs(p).values()) + 4 * math.prod(self.result(p))

    def amount(self, p):
        """(amount, unit): the rate is the amount divided by seconds."""
        if self.gflop:
            return self.gflop(p), "GFLOP/s"
        return 1e-9 * (self.bytes or self.held)(p), "GB/s"


def shape_of(p):
    return p["shape"]


FAMILIES = {
    "conv": Family(13, draw_conv("conv"), conv_forward_inputs, conv_result("y"), conv_gflop),
    "conv_x": Family(8, draw_conv("conv"), conv_inputs, conv_result("x"), conv_gflop),
    "conv_w": Family(8, draw_conv("conv"), conv_inputs, conv_result("w"), conv_gflop),
    "grouped": Family(5, draw_grouped, conv_inputs, lambda p: conv_result(p["of"])(p), conv_gflop),
    "depthwise": Family(5, draw_conv("depthwise"), conv_forward_inputs, conv_result("y"), conv_gflop),
    "depthwise_x": Family(3, draw_conv("depthwise"), conv_inputs, conv_result("x"), conv_gflop),
    "depthwise_w": Family(3, draw_conv("depthwise"), conv_inputs, conv_result("w"), conv_gflop),
    "matmul": Family(12, draw_matmul, matmul_inputs, matmul_result, matmul_gflop),
    "bmm": Family(5, draw_bmm, matmul_inputs, matmul_result, matmul_gflop),
    "matvec": Family(5, draw_matvec, matmul_inputs, matmul_result, matmul_gflop),
    "attention": Family(6, any_attention, attention_inputs, lambda p: attention_inputs(p)["q"].shape, attention_gflop),
    "attention_grad": Family(4, draw_attention_grad, lambda p: attention_inputs(p, True), lambda p: attention_inputs(p)["q"].shape,
                             lambda p: 3 * attention_gflop(p)),
    "norm": Family(5, draw_norm, norm_inputs, shape_of),
    "norm_grad": Family(3, lambda rng: draw_norm(rng, ("layer", "rms", "group", "batch")), lambda p: norm_inputs(p, True), shape_of),
    "softmax": Family(3, draw_softmax, lambda p: {"x": Input(p["shape"])}, shape_of),
    "reduce": Family(4, draw_reduce, lambda p: {"x": Input(p["shape"], 0)}, reduce_result),  # a sum of mixed signs could cancel
    "gather": Family(4, draw_gather, gather_inputs, gather_result, bytes=gather_bytes),
    "transpose": Family(3, draw_transpose, lambda p: {"x": Input(p["shape"])}, lambda p: [p["shape"][axis] for axis in p["axes"]]),
    # The gradient of a maximum goes to one of equal elements in PyTorch, and to all of them in equal parts on the server.
    "pool": Family(4, draw_pool, pool_inputs, pool_result, apart=1e-4),
    "chain": Family(4, draw_chain, chain_inputs, lambda p: p["shape"]),
}


# ---- a sweep

def fits(family, p):
    amount, unit = family.amount(p)
    return family.held(p) <= MOST_BYTES and (unit == "GB/s" or amount <= MOST_GFLOP)


def is_sound(p):
    """False if a variance has so few elements that rounding changes the result or its gradients, or if a transpose moves no
    element, because PyTorch then copies nothing."""
    kind, shape = p.get("kind"), p.get("shape")
    if "axes" in p and kind is None:
        moved = [axis for axis in p["axes"] if shape[axis] > 1]
        return moved != sorted(moved)
    if kind == "batch":
        return shape[0] * shape[2] * shape[3] >= FEWEST_OF_VARIANCE
    if kind == "group":
        return math.prod(shape[1:]) // p["groups"] >= FEWEST_OF_VARIANCE
    return kind != "var" or math.prod(shape[axis] for axis in p["axes"]) >= FEWEST_OF_VARIANCE


def with_batch(p, batch):
    """|p| with another batch: "batch", or the first axis of "shape" or "count"."""
    if "batch" in p:
        return {**p, "batch": batch}
    name = "shape" if "shape" in p else "count" if "count" in p else None
    return {**p, name: [batch, *p[name][1:]]} if name else {**p, "m": batch} if p["form"] != "tn" else {**p, "k": batch}


def batch_of(p):
    return p["batch"] if "batch" in p else p["shape"][0] if "shape" in p else p["count"][0] if "count" in p else p["k" if p["form"] == "tn" else "m"]


def shape_name(family, p):
    """The parameters in one line: lists with x between their elements, and no parameter with its usual value."""
    usual = {"stride": 1, "dilation": 1, "groups": 1, "padding": [0, 0], "causal": False, "log": False, "then": "none"}

    def text(value):
        return "x".join(map(str, value)) if isinstance(value, list) else str(value)
    said = {key: value for key, value in p.items() if usual.get(key) != value and not (key == "out" and family != "pool")}
    return f"{family} " + " ".join(f"{key}={text(value)}" if value is not True else key for key, value in said.items())


def draw_shape(family, rng):
    """A shape of |family| within the limits.  Halves the batch until the shape fits, so that large layers of networks stay."""
    for _ in range(TRIES):
        drawn = FAMILIES[family].draw(rng)
        if drawn is None:
            continue
        source, p = drawn
        while not fits(FAMILIES[family], p) and batch_of(p) > 1:
            p = with_batch(p, batch_of(p) // 2)
        if fits(FAMILIES[family], p) and is_sound(p):
            return {"family": family, "source": source, "params": p, "name": shape_name(family, p)}
    raise ValueError(f"no shape of {family} is within the limits after {TRIES} draws")


def apportion(count, names):
    """The number of shapes of each family: by weight, the largest remainders rounded up, and at least one if |count| allows it."""
    total = sum(FAMILIES[name].weight for name in names)
    exact = {name: count * FAMILIES[name].weight / total for name in names}
    found = {name: max(int(share), 1 if count >= len(names) else 0) for name, share in exact.items()}
    for name in sorted(names, key=lambda name: found[name] - exact[name]):
        found[name] += 1 if sum(found.values()) < count else 0
    while sum(found.values()) > count:
        found[max(found, key=found.get)] -= 1
    return found


def draw(seed, count, names=None):
    """The |count| shapes of a sweep.  Equal arguments give equal shapes; no shape is there twice while its family has others."""
    rng = random.Random(seed)
    deck = [name for name, times in apportion(count, list(names or FAMILIES)).items() for _ in range(times)]
    rng.shuffle(deck)
    found = {}
    for family in deck:
        shape = draw_shape(family, rng)
        for _ in range(20):
            if shape["name"] not in found:
                break
            shape = draw_shape(family, rng)
        found.setdefault(shape["name"], shape)
    return list(found.values())
