# SPDX-License-Identifier: MIT
"""Nodes with random attributes and inputs, for operators with few or no cases in the onnx package.  Each function draws one
node."""
import dataclasses
import zlib

import numpy as np

MS = "com.microsoft"


@dataclasses.dataclass
class Drawn:
    """One node: its inputs (None: omitted), its used outputs, and the inputs that are initialisers."""
    inputs: list
    outputs: int | tuple = 1
    attributes: dict = dataclasses.field(default_factory=dict)
    known: tuple = ()
    opset: int = 20
    operator: str = ""
    domain: str = MS
    exact: bool = False  # compare results exactly, for indices
    tolerance: float = 1e-4


class Random:
    """The random generator of the functions."""

    def __init__(self, name, seed):
        self.rng = np.random.default_rng([zlib.crc32(name.encode()), seed])

    def size(self, low=1, high=6):
        return int(self.rng.integers(low, high + 1))

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def floats(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def uniform(self, low, high, *shape):
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def ints(self, low, high, *shape, dtype=np.int64):
        return self.rng.integers(low, high, shape).astype(dtype)

    def bytes(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def maybe(self, array):
        return array if self.chance() else None


DRAWS = {}


def draw(name, count=4, **options):
    """Registers a function under ``name``, "Operator" or "Operator, variant"; ``count`` nodes are compared."""
    def register(function):
        DRAWS[name] = (count, function, options)
        return function
    return register


def make(name, seed):
    """Makes node number ``seed`` of this name."""
    _, function, options = DRAWS[name]
    node = function(Random(name, seed))
    node.operator = name.split(",")[0]
    for key, value in options.items():
        setattr(node, key, value)
    return node


def weights(r, kind, *shape):
    """Quantised weights: signed weights have 7 bits, since onnxruntime's sums of two products saturate on some processors."""
    return r.ints(-64, 64, *shape, dtype=np.int8) if kind == np.int8 else r.bytes(kind, *shape)


# ---- attention

def heads_of(r):
    """Returns batch, heads, size of a head, length."""
    return r.size(1, 3), r.size(1, 4), 4 * r.size(1, 4), r.size(1, 7)


def present(use):
    return (True, True, True) if use else (True,)


@draw("MultiHeadAttention", count=8)
def multi_head_attention(r):
    batch, heads, size, rows = heads_of(r)
    keys, past = r.size(1, 6), r.size(1, 4)
    value_size = r.one(size, 2 * size)
    causal, packed = r.chance(0.3), r.one("", "", "", "cross")
    bias = past_k = past_v = key_mask = None
    keys = rows if causal else keys
    if packed == "cross":
        q, k, v = r.floats(batch, rows, heads * size), r.floats(batch, heads, keys, size), r.floats(batch, heads, keys, size)
    else:
        q, k, v = r.floats(batch, rows, heads * size), r.floats(batch, keys, heads * size), r.floats(batch, keys, heads * value_size)
        bias = r.maybe(r.floats(heads * (2 * size + value_size)))
    use_past = packed == "" and value_size == size and r.chance()
    if use_past:
        past_k, past_v = r.floats(batch, heads, past, size), r.floats(batch, heads, past, size)
    total = keys + (past if use_past else 0)
    if r.chance() and not causal:
        lengths = r.ints(1, total + 1, batch)
        key_mask = (np.arange(total) < lengths[:, None]).astype(np.int32)
        if r.chance(0.3) and not use_past:
            key_mask = lengths.astype(np.int32)
    more = r.maybe(r.floats(r.one(1, batch), r.one(1, heads), rows, total))
    attributes = {"num_heads": heads, "unidirectional": int(causal)}
    if r.chance(0.3):
        attributes["scale"] = 0.3
    return Drawn([q, k, v, bias, key_mask, more, past_k, past_v], present(use_past), attributes)


@draw("Attention", count=6)
def attention(r):
    batch, heads, size, rows = heads_of(r)
    width, past = r.size(3, 9), r.size(1, 4)
    use_past = r.chance()
    total = rows + (past if use_past else 0)
    sizes = [heads * size] * 3
    attributes = {"num_heads": heads, "unidirectional": int(r.chance(0.4))}
    if not use_past and r.chance(0.4):
        sizes[2] = 2 * heads * size
        attributes["qkv_hidden_sizes"] = sizes
    lengths = r.ints(1, total + 1, batch)
    mask = r.one(None, lengths.astype(np.int32), (np.arange(total) < lengths[:, None]).astype(np.int32),
                 np.concatenate([lengths, lengths - 1]).astype(np.int32), r.ints(0, 2, batch, rows, total, dtype=np.int32))
    if mask is not None and mask.ndim == 3:
        mask[:, :, 0] = 1
    return Drawn([r.floats(batch, rows, width), r.floats(width, sum(sizes), scale=0.5), r.floats(sum(sizes)), mask,
                  r.floats(2, batch, heads, past, size) if use_past else None, None if use_past else r.maybe(r.floats(r.one(1, batch), r.one(1, heads), rows, total))],
                 2 if use_past else 1, attributes)


@draw("QAttention", count=4)
def qattention(r):
    batch, heads, size, rows = heads_of(r)
    width, columns = r.size(3, 9), 3 * heads * size
    kind = r.one(np.uint8, np.int8)
    each = r.chance()
    scale = r.uniform(0.002, 0.01, columns) if each else np.float32(0.007)
    zero = r.ints(-3, 4, *([columns] if each else []), dtype=np.int8) if kind == np.int8 else r.ints(120, 130, *([columns] if each else []), dtype=np.uint8)
    lengths = r.ints(1, rows + 1, batch)
    mask = r.maybe((np.arange(rows) < lengths[:, None]).astype(np.int32))
    return Drawn([r.bytes(np.uint8, batch, rows, width), weights(r, kind, width, columns), r.floats(columns), np.float32(0.02), scale, mask,
                  np.uint8(r.size(100, 140)), zero], 1, {"num_heads": heads, "unidirectional": int(r.chance())}, known=(1, 4, 7))


@draw("GroupQueryAttention", count=10)
def group_query_attention(r):
    batch, own, size, rows = r.size(1, 3), r.size(1, 3), 16 * r.size(1, 2), r.size(1, 6)
    heads, past = own * r.size(1, 3), r.size(1, 6)
    attributes = {"num_heads": heads, "kv_num_heads": own}
    first = r.chance(0.4)
    use_past = not first or r.chance()
    rows = rows if first or batch == 1 else 1
    total = rows + (0 if first else past)
    if r.chance(0.3):
        parts = [r.floats(batch, rows, (heads + 2 * own) * size), None, None]
    else:
        parts = [r.floats(batch, rows, heads * size), r.floats(batch, rows, own * size), r.floats(batch, rows, own * size)]
    caches, cos, sin, at = [None, None], None, None, None
    if use_past:
        caches = [r.floats(batch, own, 0 if first else past, size) for _ in range(2)]
    lengths = np.full(batch, total - 1, np.int32)
    if r.chance(0.4):
        attributes.update(do_rotary=1, rotary_interleaved=int(r.chance()))
        angle = r.uniform(-3, 3, total + 4, size // 2)
        cos, sin = np.cos(angle), np.sin(angle)
    if r.chance(0.3):
        attributes["local_window_size"] = r.size(1, 4)
    if r.chance(0.3):
        attributes["softcap"] = 2.0
    sink = None
    if r.chance(0.3):
        attributes["smooth_softmax"] = 1
    elif r.chance(0.3):
        sink = r.floats(heads)
    more = r.floats(r.one(1, batch), r.one(1, heads), rows, total) if r.chance(0.3) else None
    return Drawn([*parts, *caches, lengths, np.array(total, np.int32), cos, sin, at, more, sink], 3, attributes)


@draw("RotaryEmbedding", count=4)
def rotary_embedding(r):
    batch, heads, size, rows = heads_of(r)
    angle = r.uniform(-3, 3, 12, size // 2)
    at = r.one(np.array([r.size(0, 4)]), r.ints(0, 12, batch, rows))
    x = r.one(r.floats(batch, rows, heads * size), r.floats(batch, heads, rows, size))
    return Drawn([x, at, np.cos(angle), np.sin(angle)], 1, {"interleaved": int(r.chance()), "scale": 1.0})


# ---- quantised operators

def quantised(r, *shape, kind=None):
    """Returns elements, their scale and their zero point."""
    kind = kind or r.one(np.uint8, np.int8)
    return [r.bytes(kind, *shape), np.float32(r.rng.uniform(0.005, 0.1)), r.bytes(kind)]


def result_of(r, kind, scale=0.1):
    return [np.float32(r.rng.uniform(0.5, 1) * scale), r.bytes(kind)]


def shape_of(r, rank):
    return [r.size(1, 6) for _ in range(rank)]


def broadcast_pair(r, kind):
    shape = shape_of(r, r.size(1, 4))
    other = [r.one(1, n) for n in shape][r.one(0, 0, len(shape) - 1):]
    return Drawn([*quantised(r, *shape, kind=kind), *quantised(r, *other, kind=kind), *result_of(r, kind)])


draw("QLinearAdd")(lambda r: broadcast_pair(r, r.one(np.uint8, np.int8)))
draw("QLinearMul")(lambda r: broadcast_pair(r, r.one(np.uint8, np.int8)))


@draw("QLinearSigmoid")
def qlinear_sigmoid(r):
    x = quantised(r, *shape_of(r, r.size(1, 4)))
    return Drawn([*x, np.float32(1 / 256), x[2].dtype.type(3)], known=(1, 2, 3, 4))


@draw("QLinearLeakyRelu")
def qlinear_leaky_relu(r):
    x = quantised(r, *shape_of(r, r.size(1, 4)))
    return Drawn([*x, *result_of(r, x[2].dtype.type)], 1, {"alpha": float(r.rng.uniform(0.01, 0.5))}, known=(1, 2, 3, 4))


@draw("QLinearSoftmax")
def qlinear_softmax(r):
    rank, opset = r.size(1, 4), r.one(11, 13)
    x = quantised(r, *shape_of(r, rank))
    return Drawn([*x, np.float32(1 / 256), x[2].dtype.type(0)], 1, {"axis": r.size(-rank, rank - 1), "opset": opset}, known=(1, 2, 3, 4))


@draw("QLinearConcat")
def qlinear_concat(r):
    kind, shape = r.one(np.uint8, np.int8), shape_of(r, r.size(1, 4))
    axis, parts = r.size(0, len(shape) - 1), []
    for _ in range(r.size(1, 3)):
        shape[axis] = r.size(1, 5)
        parts += quantised(r, *shape, kind=kind)
    return Drawn([*result_of(r, kind), *parts], 1, {"axis": axis})


@draw("QLinearWhere")
def qlinear_where(r):
    kind, shape = r.one(np.uint8, np.int8), shape_of(r, r.size(1, 4))
    other = [r.one(1, n) for n in shape]
    return Drawn([r.rng.random(shape) < 0.5, *quantised(r, *shape, kind=kind), *quantised(r, *other, kind=kind), *result_of(r, kind)])


@draw("QLinearAveragePool", count=6)
def qlinear_average_pool(r):
    dims, last = r.size(1, 3), r.chance()
    kernel = [r.size(1, 3) for _ in range(dims)]
    space = [r.size(3, 8) for _ in range(dims)]
    x = quantised(r, r.size(1, 2), *(space + [r.size(1, 4)] if last else [r.size(1, 4)] + space))
    pads = [r.size(0, kernel[i % dims] // 2) for i in range(2 * dims)]
    return Drawn([*x, *result_of(r, x[2].dtype.type)], 1, {"kernel_shape": kernel, "strides": [r.size(1, 2) for _ in range(dims)], "pads": pads,
                                                           "count_include_pad": int(r.chance()), "channels_last": int(last)}, known=(1, 2, 3, 4))


@draw("QLinearGlobalAveragePool")
def qlinear_global_average_pool(r):
    x = quantised(r, r.size(1, 2), *shape_of(r, r.size(2, 3)))
    return Drawn([*x, *result_of(r, x[2].dtype.type)], 1, {"channels_last": int(r.chance())})


@draw("QLinearConv", count=6)
def qlinear_conv(r):
    groups, each, out, signed = r.size(1, 2), r.size(1, 3), r.size(1, 3), r.chance()
    kernel, space, last = [r.size(1, 3), r.size(1, 3)], [r.size(3, 7), r.size(3, 7)], r.chance()
    x = quantised(r, r.size(1, 2), *(space + [groups * each] if last else [groups * each] + space), kind=np.uint8)
    channels = groups * out
    w = weights(r, np.int8 if signed else np.uint8, channels, each, *kernel)
    per = r.chance()
    scale = r.uniform(0.005, 0.02, channels) if per else np.float32(0.01)
    zero = (np.zeros(channels, w.dtype) if per else r.ints(-5, 5, dtype=np.int8) if signed else r.bytes(np.uint8))
    bias = r.maybe(r.ints(-500, 500, channels, dtype=np.int32))
    return Drawn([*x, w, scale, zero, *result_of(r, np.uint8, 0.2), bias], 1, {"group": groups, "channels_last": int(last), "pads": [0, 1, 1, 0],
                                                                                "strides": [r.size(1, 2), 1]}, known=(1, 2, 3, 4, 5, 6, 7, 8))


@draw("QGemm")
def qgemm(r):
    m, k, n, signed, per = r.size(1, 6), r.size(1, 9), r.size(1, 6), r.chance(), r.chance()
    a_turned, b_turned = int(r.chance()), int(r.chance())
    kind = np.int8 if signed else np.uint8
    zero = (lambda *s: r.ints(-3, 4, *s, dtype=np.int8)) if signed else (lambda *s: r.bytes(np.uint8, *s))
    end = result_of(r, np.uint8, 0.3) if r.chance() else [None, None]
    return Drawn([r.bytes(np.uint8, *((k, m) if a_turned else (m, k))), np.float32(0.02), r.bytes(np.uint8),
                  weights(r, kind, *((n, k) if b_turned else (k, n))), r.uniform(0.005, 0.02, n) if per else np.float32(0.01),
                  zero(n) if per else zero(), r.one(None, r.ints(-300, 300, n, dtype=np.int32), r.ints(-300, 300, m, n, dtype=np.int32)), *end],
                 1, {"transA": a_turned, "transB": b_turned, "alpha": r.one(1.0, 0.7)}, known=(1, 2, 3, 4, 5, 7, 8))


def batched(r, k):
    return [r.size(1, 4) for _ in range(r.size(0, 2))] + [r.size(1, 5), k]


@draw("MatMulIntegerToFloat")
def matmul_integer_to_float(r):
    k, n, signed, per = r.size(1, 9), r.size(1, 6), r.chance(), r.chance()
    zero = (lambda *s: r.ints(-3, 4, *s, dtype=np.int8)) if signed else (lambda *s: r.bytes(np.uint8, *s))
    return Drawn([r.bytes(np.uint8, *batched(r, k)), weights(r, np.int8 if signed else np.uint8, k, n), np.float32(0.02),
                  r.uniform(0.005, 0.02, n) if per else np.float32(0.01), r.maybe(r.bytes(np.uint8)), r.maybe(zero(n) if per else zero()),
                  r.maybe(r.floats(n))], known=(1, 3, 5))


@draw("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(r):
    k, n, signed, per = r.size(1, 9), r.size(1, 6), r.chance(), r.chance()
    zero = (lambda *s: r.ints(-3, 4, *s, dtype=np.int8)) if signed else (lambda *s: r.bytes(np.uint8, *s))
    return Drawn([r.floats(*batched(r, k)), weights(r, np.int8 if signed else np.uint8, k, n), r.uniform(0.005, 0.02, n) if per else np.float32(0.01),
                  r.maybe(zero(n) if per else zero()), r.maybe(r.floats(n))], known=(1, 2, 3))


@draw("MatMulNBits", count=6)
def matmul_nbits(r):
    bits, block, n, k = r.one(4, 4, 8, 2), r.one(16, 32), r.size(1, 6), r.size(1, 70)
    blocks = -(-k // block)
    packed = r.bytes(np.uint8, n, -(-blocks * bits // 8))
    zero = r.one(None, packed, packed if bits == 8 else r.uniform(0, 2**bits - 1, n, blocks))
    return Drawn([r.floats(*batched(r, k)), r.bytes(np.uint8, n, blocks, block * bits // 8), r.uniform(0.01, 0.1, n, blocks), zero, None,
                  r.maybe(r.floats(n))], 1, {"K": k, "N": n, "bits": bits, "block_size": block}, known=(1, 2, 3, 5))


@draw("MatMulBnb4")
def matmul_bnb4(r):
    n, k, block = r.size(1, 6), 16 * r.size(1, 4), r.one(16, 32)
    return Drawn([r.floats(*batched(r, k)), r.bytes(np.uint8, (n * k + 1) // 2), r.uniform(0.1, 1, -(-n * k // block))], 1,
                 {"K": k, "N": n, "block_size": block, "quant_type": r.one(0, 1)}, known=(1, 2))


@draw("QEmbedLayerNormalization")
def qembed_layer_normalization(r):
    batch, rows, width, segments = r.size(1, 3), r.size(1, 6), r.size(2, 9), r.chance()
    mask = np.ones((batch, rows), np.int32)
    tables = [(9, width), (rows + 3, width), (2, width) if segments else None, (width,), (width,)]
    return Drawn([r.ints(0, 9, batch, rows, dtype=np.int32), r.ints(0, 2, batch, rows, dtype=np.int32) if segments else None,
                  *[None if shape is None else r.bytes(np.uint8, *shape) for shape in tables], mask,
                  *[None if shape is None else np.float32(r.rng.uniform(0.01, 0.05)) for shape in tables],
                  *[None if shape is None else r.bytes(np.uint8) for shape in tables]], 2, {"epsilon": 1e-5}, known=(8, 9, 10, 11, 12, 13, 14, 15, 16, 17))


@draw("GatherBlockQuantized")
def gather_block_quantized(r):
    bits, block, rows, width = r.one(4, 8, 2), r.one(16, 32), r.size(3, 9), 8 * r.size(1, 9)
    blocks = -(-width // block)
    index = r.ints(0, rows, *shape_of(r, r.size(0, 2)), dtype=r.one(np.int32, np.int64))
    return Drawn([r.bytes(np.uint8, rows, width * bits // 8), index, r.uniform(0.01, 0.1, rows, blocks),
                  r.maybe(r.bytes(np.uint8, rows, -(-blocks * bits // 8)))],
                 1, {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, known=(0, 2, 3))


@draw("QuantizeLinear")
def quantize_linear(r):
    kind, shape = r.one(np.uint8, np.int8, np.uint16, np.int16), shape_of(r, 3)
    return Drawn([r.floats(*shape), np.float32(0.03), r.ints(0, 9, dtype=kind)])


@draw("DequantizeLinear")
def dequantize_linear(r):
    kind, shape, each = r.one(np.uint8, np.int8, np.uint16, np.int16), shape_of(r, 3), r.chance()
    size = [shape[1]] if each else []
    return Drawn([r.bytes(kind, *shape), r.uniform(0.01, 0.1, *size), r.bytes(kind, *size)], 1, {"axis": 1} if each else {})


@draw("NhwcMaxPool")
def nhwc_max_pool(r):
    return Drawn([r.bytes(r.one(np.uint8, np.int8), r.size(1, 2), r.size(3, 7), r.size(3, 7), r.size(1, 4))], 1,
                 {"kernel_shape": [2, 3], "strides": [r.size(1, 2), 1], "pads": [1, 0, 0, 1]})


# ---- fused operators

@draw("FusedMatMul", count=8)
def fused_matmul(r):
    m, k, n, batch = r.size(1, 5), r.size(1, 6), r.size(1, 5), [r.size(1, 4) for _ in range(r.size(0, 2))]
    names, shapes = {"alpha": r.one(1.0, 0.3)}, []
    for letter, matrix in (("A", [m, k]), ("B", [k, n])):
        turned, moved = r.chance(), len(batch) > 0 and r.chance()
        shape = batch + (matrix[::-1] if turned else matrix)
        shapes.append([shape[-2], *shape[:-2], shape[-1]] if moved else shape)
        names.update({f"trans{letter}": int(turned), f"transBatch{letter}": int(moved)})
    return Drawn([r.floats(*shapes[0]), r.floats(*shapes[1])], 1, names)


@draw("FusedGemm")
def fused_gemm(r):
    m, k, n = r.size(1, 5), r.size(1, 6), r.size(1, 5)
    activation = r.one({"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.2}, {"activation": "Tanh"}, {"activation": "Sigmoid"})
    return Drawn([r.floats(m, k), r.floats(n, k), r.maybe(r.floats(n))], 1, {"transB": 1, "alpha": 0.5, "beta": 2.0, **activation})


@draw("FusedConv", count=6)
def fused_conv(r):
    groups, each, out = r.size(1, 2), r.size(1, 3), r.size(1, 3)
    x, w = r.floats(r.size(1, 2), groups * each, r.size(3, 7), r.size(3, 7)), r.floats(groups * out, each, 3, 1)
    activation = r.one({"activation": "Relu"}, {"activation": "LeakyRelu", "activation_params": [0.2]}, {"activation": "Clip", "activation_params": [-0.5, 1.0]},
                       {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}, {"activation": "Tanh"}, {"activation": "Sigmoid"})
    added = r.maybe(r.floats(x.shape[0], groups * out, x.shape[2], x.shape[3]))
    return Drawn([x, w, r.floats(groups * out) if added is not None else r.maybe(r.floats(groups * out)), added], 1,
                 {"group": groups, "pads": [1, 0, 1, 0], **activation})


@draw("SkipLayerNormalization")
def skip_layer_normalization(r):
    batch, rows, width = r.size(1, 3), r.size(1, 5), r.size(2, 9)
    x, skip = r.floats(batch, rows, width), r.one(r.floats(batch, rows, width), r.floats(1, rows, width), r.floats(rows, width))
    return Drawn([x, skip, r.floats(width), r.maybe(r.floats(width)), r.maybe(r.floats(width))], (True, False, False, True), {"epsilon": 1e-5})


@draw("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(r):
    batch, rows, width = r.size(1, 3), r.size(1, 5), r.size(2, 9)
    return Drawn([r.floats(batch, rows, width), r.floats(batch, rows, width), r.floats(width), r.maybe(r.floats(width))], (True, False, False, True),
                 {"epsilon": 1e-5})


@draw("SimplifiedLayerNormalization", domain="")
def simplified_layer_normalization(r):
    x = r.floats(*shape_of(r, 3), r.size(2, 9))
    return Drawn([x, r.floats(x.shape[-1])], r.one(1, 2), {"axis": -1, "epsilon": 1e-5})


@draw("EmbedLayerNormalization")
def embed_layer_normalization(r):
    batch, rows, width = r.size(1, 3), r.size(1, 6), r.size(2, 9)
    segments, mask = r.chance(), r.maybe(np.ones((batch, rows), np.int32))
    return Drawn([r.ints(0, 9, batch, rows, dtype=np.int32), r.ints(0, 2, batch, rows, dtype=np.int32) if segments else None, r.floats(9, width),
                  r.floats(rows + 3, width), r.floats(2, width) if segments else None, r.floats(width), r.floats(width), mask,
                  r.maybe(r.ints(0, rows + 3, r.one(1, batch), rows, dtype=np.int32))], (True, mask is not None), {"epsilon": 1e-5})


draw("BiasGelu")(lambda r: Drawn([r.floats(2, 3, 5), r.floats(5)]))
draw("FastGelu")(lambda r: Drawn([r.floats(2, 3, 5), r.maybe(r.floats(5))]))
draw("QuickGelu")(lambda r: Drawn([r.floats(2, 3, 5)], 1, {"alpha": r.one(1.0, 1.702)}))
draw("Gelu")(lambda r: Drawn([r.floats(2, 3, 5)]))
draw("CDist")(lambda r: Drawn([r.floats(r.size(), 4), r.floats(r.size(), 4)], 1, {"metric": r.one("euclidean", "sqeuclidean")}))
draw("ExpandDims")(lambda r: Drawn([r.floats(2, 3), np.array(r.size(-3, 2), np.int32)], known=(1,)))
draw("Inverse")(lambda r: Drawn([r.floats(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)]))
draw("Trilu")(lambda r: Drawn([r.floats(2, 4, 5), np.array(r.size(-2, 2))], 1, {"upper": int(r.chance())}, known=(1,)))


@draw("DynamicQuantizeLSTM", count=6)
def dynamic_quantize_lstm(r):
    rows, batch, width, size, kind, per = r.size(1, 5), r.size(1, 3), r.size(1, 5), r.size(1, 4), r.one(np.uint8, np.int8), r.chance()
    direction = r.one("forward", "reverse", "bidirectional")
    n = 2 if direction == "bidirectional" else 1
    shape = [n, 4 * size] if per else [n]
    zero = np.full(shape, 0 if per else 3 if kind == np.int8 else 128, kind)  # all elements equal
    lengths = r.maybe(np.full(batch, rows, np.int32))
    return Drawn([r.floats(rows, batch, width), weights(r, kind, n, width, 4 * size), weights(r, kind, n, size, 4 * size), r.maybe(r.floats(n, 8 * size)),
                  lengths, r.maybe(r.floats(n, batch, size)), r.maybe(r.floats(n, batch, size)), r.maybe(r.floats(n, 3 * size)),
                  r.uniform(0.005, 0.02, *shape), zero, r.uniform(0.005, 0.02, *shape), zero], 3, {"direction": direction, "hidden_size": size},
                 known=(1, 2, 8, 9, 10, 11))


# ---- sampling

@draw("GridSample", count=10, domain="", opset=22)
def grid_sample(r):
    dims = r.one(2, 2, 3)
    x = r.floats(r.size(1, 2), r.size(1, 3), *[r.size(1, 6) for _ in range(dims)])
    out = [r.size(1, 4) for _ in range(dims)]
    mode = r.one("linear", "nearest") if dims == 3 else r.one("linear", "nearest", "cubic")
    return Drawn([x, r.uniform(-1.7, 1.7, x.shape[0], *out, dims)], 1, {"mode": mode, "padding_mode": r.one("zeros", "border", "reflection"),
                                                                        "align_corners": int(r.chance())})


@draw("RoiAlign", count=8, domain="", opset=16)
def roi_align(r):
    x, n = r.floats(r.size(1, 3), r.size(1, 3), r.size(4, 9), r.size(4, 9)), r.size(1, 4)
    corner = r.uniform(-2, 8, n, 2)
    rois = np.concatenate([corner, corner + r.uniform(0.2, 9, n, 2)], axis=1)
    ratio = r.one(0, 1, 2)
    if ratio == 0:  # boxes within the picture
        rois = np.clip(rois, 0, [*x.shape[:1:-1]] * 2).astype(np.float32)
    return Drawn([x, rois, r.ints(0, x.shape[0], n)], 1, {"output_height": r.size(1, 3), "output_width": r.size(1, 3), "sampling_ratio": ratio,
                                                          "spatial_scale": r.one(1.0, 0.7), "mode": r.one("avg", "avg", "max"),
                                                          "coordinate_transformation_mode": r.one("half_pixel", "output_half_pixel")})


@draw("DeformConv", count=6, domain="", opset=19)
def deform_conv(r):
    groups, parts, each, out = r.size(1, 2), r.size(1, 2), 2 * r.size(1, 2), r.size(1, 3)
    kernel, space, strides = [r.size(1, 3), r.size(1, 3)], [r.size(4, 7), r.size(4, 7)], [r.size(1, 2), r.size(1, 2)]
    end = [(n + 2 - k) // s + 1 for n, k, s in zip(space, kernel, strides, strict=True)]
    n, cells = r.size(1, 2), kernel[0] * kernel[1]
    return Drawn([r.floats(n, groups * each, *space), r.floats(groups * out, each, *kernel), r.floats(n, parts * cells * 2, *end), r.maybe(r.floats(groups * out)),
                  r.maybe(r.uniform(0, 1, n, parts * cells, *end))], 1, {"group": groups, "offset_group": parts, "pads": [1, 1, 1, 1], "strides": strides})


@draw("Col2Im", domain="", opset=18)
def col2im(r):
    block, strides, pads, image = [r.size(1, 3), r.size(1, 3)], [r.size(1, 2), r.size(1, 2)], [r.size(0, 1) for _ in range(4)], [r.size(4, 7), r.size(4, 7)]
    steps = [(image[i] + pads[i] + pads[2 + i] - block[i]) // strides[i] + 1 for i in range(2)]
    return Drawn([r.floats(r.size(1, 2), r.size(1, 3) * block[0] * block[1], steps[0] * steps[1]), np.array(image), np.array(block)], 1,
                 {"strides": strides, "pads": pads}, known=(1, 2))


# ---- signals

@draw("DFT", count=8, domain="", opset=20)
def dft(r):
    rank, parts = r.size(1, 3), r.one(1, 2)
    shape = [r.size(1, 12) for _ in range(rank)]
    inverse = r.chance(0.4)
    axis, onesided = r.size(0, rank - 1), int(not inverse and parts == 1 and r.chance())
    length = r.one(None, np.array(r.size(1, 14)))
    return Drawn([r.floats(*shape, parts), length, np.array(axis)], 1, {"inverse": int(inverse), "onesided": onesided}, known=(1, 2) if length is not None else (2,))


@draw("STFT", domain="", opset=17)
def stft(r):
    frame = r.size(4, 20)
    window = r.maybe(r.floats(frame))
    return Drawn([r.floats(r.size(1, 2), r.size(20, 60), 1), np.array(r.size(1, 9)), window, np.array(frame) if window is None else r.maybe(np.array(frame))],
                 1, {"onesided": int(r.chance())}, known=(1, 3))


@draw("MelWeightMatrix", domain="", opset=17)
def mel_weight_matrix(r):
    return Drawn([np.array(r.size(4, 20)), np.array(2**r.size(6, 9)), np.array(r.one(8000, 16000, 22050)), np.float32(r.one(0, 20, 125)),
                  np.float32(r.one(3800, 4000))], known=(0, 1, 2, 3, 4))


# ---- operators with state

@draw("CausalConvWithState")
def causal_conv(r):
    batch, channels, rows, k = r.size(1, 2), r.size(1, 4), r.size(1, 8), r.size(2, 4)
    return Drawn([r.floats(batch, channels, rows), r.floats(channels, 1, k), r.maybe(r.floats(channels)), r.maybe(r.floats(batch, channels, k - 1))], 2,
                 {"activation": r.one("none", "silu")})


@draw("LinearAttention", count=6)
def linear_attention(r):
    batch, own, size, values, rows, rule = r.size(1, 2), r.size(1, 3), 4 * r.size(1, 2), 4 * r.size(1, 2), r.size(1, 6), r.one("linear", "gated", "delta", "gated_delta")
    heads = own * r.size(1, 2)
    decay = -r.uniform(0, 1, batch, rows, own * r.one(1, size)) if "gated" in rule else None
    beta = r.uniform(0, 1, batch, rows, own) if "delta" in rule else None
    return Drawn([r.floats(batch, rows, heads * size), r.floats(batch, rows, own * size, scale=0.3), r.floats(batch, rows, own * values),
                  r.maybe(r.floats(batch, own, size, values)), decay, beta], 2, {"q_num_heads": heads, "kv_num_heads": own, "update_rule": rule})


# ---- operators with a data-dependent number of rows

@draw("NonZero", domain="", opset=13, exact=True)
def non_zero(r):
    return Drawn([r.floats(*shape_of(r, r.size(1, 4))) * (r.rng.random() < 0.9)])


@draw("Compress", domain="", opset=11, exact=True)
def compress(r):
    x, axis = r.floats(*shape_of(r, r.size(1, 3))), r.chance()
    at = r.size(0, x.ndim - 1)
    return Drawn([x, r.rng.random(r.size(1, x.shape[at] if axis else x.size)) < 0.5], 1, {"axis": at} if axis else {})


@draw("Unique", count=8, domain="", opset=11, exact=True)
def unique(r):
    x = r.ints(0, 3, *shape_of(r, r.size(1, 3))) if r.chance() else r.ints(0, 3, *shape_of(r, r.size(1, 3))).astype(np.float32)
    return Drawn([x], 4, {"sorted": int(r.chance()), **({"axis": r.size(-x.ndim, x.ndim - 1)} if r.chance() else {})})


@draw("NonMaxSuppression", count=8, domain="", opset=11, exact=True)
def non_max_suppression(r):
    batch, classes, boxes = r.size(1, 2), r.size(1, 3), r.size(1, 12)
    corner, size = r.uniform(0, 3, batch, boxes, 2), r.uniform(-1, 2, batch, boxes, 2)
    centers = r.chance()
    most = np.array([r.size(1, 6)])
    return Drawn([np.concatenate([corner, np.abs(size) if centers else corner + size], axis=-1), r.uniform(0, 1, batch, classes, boxes), most,
                  np.array([r.rng.uniform(0, 1)], np.float32), r.maybe(np.array([0.4], np.float32))], 1, {"center_point_box": int(centers)},
                 known=r.one((), (2,)))


# ---- n-grams

@draw("TfIdfVectorizer", count=6, domain="", opset=9)
def tf_idf_vectorizer(r):
    grams = [sorted({tuple(r.ints(0, 4, n).tolist()) for _ in range(r.size(1, 4))}) for n in (1, 2, 3)]
    pool, starts = [], []
    for group in grams:
        starts.append(len(pool))
        pool += [number for gram in group for number in gram]
    count = sum(map(len, grams))
    least = r.size(1, 3)
    attributes = {"mode": r.one("TF", "IDF", "TFIDF"), "min_gram_length": least, "max_gram_length": r.size(least, 3), "max_skip_count": r.size(0, 3), "pool_int64s": pool,
                  "ngram_counts": starts, "ngram_indexes": r.rng.permutation(count).tolist(), "weights": r.uniform(0.1, 2, count).tolist()}
    return Drawn([r.ints(0, 4, *([r.size(1, 3)] if r.chance() else []), r.size(1, 9), dtype=r.one(np.int32, np.int64))], 1, attributes)
