# SPDX-License-Identifier: MIT
"""Nodes with random attributes and inputs, for operators of which the onnx package has few cases or none.  Each function draws one node."""
import dataclasses
import zlib

import numpy as np

MS = "com.microsoft"


@dataclasses.dataclass
class Drawn:
    """One node: its inputs (None: left out), which outputs it has, and which inputs are initialisers."""
    inputs: list
    outputs: int | tuple = 1
    attributes: dict = dataclasses.field(default_factory=dict)
    known: tuple = ()
    opset: int = 20
    operator: str = ""
    domain: str = MS
    exact: bool = False  # results that are indices
    tolerance: float = 1e-4


class Random:
    """What the functions draw from."""

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
    """Register a function under ``name``, "Operator" or "Operator, of a kind"; ``count`` nodes of it are compared."""
    def register(function):
        DRAWS[name] = (count, function, options)
        return function
    return register


def make(name, seed):
    """Node number ``seed`` of this name."""
    _, function, options = DRAWS[name]
    node = function(Random(name, seed))
    node.operator = name.split(",")[0]
    for key, value in options.items():
        setattr(node, key, value)
    return node


def weights(r, kind, *shape):
    """Quantised: signed ones of 7 bits, because onnxruntime's sums of two products saturate on some processors."""
    return r.ints(-64, 64, *shape, dtype=np.int8) if kind == np.int8 else r.bytes(kind, *shape)


# ---- attention

def heads_of(r):
    """batch, heads, size of a head, length."""
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
