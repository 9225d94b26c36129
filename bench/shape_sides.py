# SPDX-License-Identifier: MIT
"""Both sides of a shape of bench/sweep.py: its graph on the server and its function in PyTorch.

OURS[family](graph, params, *inputs) returns the list of results.  THEIRS[family](torch, params) returns a function of the same
inputs, which returns the result or a tuple of the results.  The inputs are in the order of shapes.FAMILIES[family].inputs.
"""
from shapes import FAMILIES


# ---- our side

def conv_ours(of):
    def build(g, p, x, w, cotangent=None):
        y = x.conv2d(w, **{key: p[key] for key in ("stride", "padding", "dilation", "groups")})
        return [y] if (of or p["of"]) == "y" else g.grad(y, [{"x": x, "w": w}[of or p["of"]]], cotangent)
    return build


def product_ours(g, p, a, b, bias=None):
    if p["form"] == "nt" and "batch" not in p:
        y = a.linear(b, bias)
        return [{"bias relu": y.relu, "bias gelu": y.gelu}[p["then"]]()] if p.get("then", "none") not in ("none", "bias") else [y]
    return [(a.transpose() if p["form"][0] == "t" else a) @ (b.transpose() if p["form"][1] == "t" else b)]


def attention_ours(g, p, q, k, v, cotangent=None):
    y = q.attention(k, v, causal=p["causal"], grouped=p["heads"] != p["kv_heads"])
    return [y] if cotangent is None else [y, *g.grad(y, [q, k, v], cotangent)]


def norm_ours(g, p, x, w, *rest):
    kind, rest = p["kind"], list(rest)
    b = None if kind == "rms" else rest.pop(0)
    if kind == "layer":
        y = x.layer_norm(w, b)
    elif kind == "rms":
        y = x.rms_norm(w, eps=1e-6)
    elif kind == "group":
        y = x.group_norm(p["groups"], weight=w, bias=b)
    elif kind == "batch":
        y = x.batch_norm(x.mean([0, 2, 3]), x.var([0, 2, 3], correction=0), w, b)
    else:
        y = x.batch_norm(rest.pop(0), rest.pop(0), w, b)
    return [y, *g.grad(y, [x, w] + ([] if b is None else [b]), rest[0])] if rest else [y]


def reduce_ours(g, p, x):
    axes = p["axes"]
    return [{"sum": lambda: x.sum(axes), "mean": lambda: x.mean(axes), "max": lambda: x.max(axes), "squares": lambda: (x * x).sum(axes).sqrt(),
             "var": lambda: x.var(axes)}[p["kind"]]()]


def gather_ours(g, p, *inputs):
    table, index, *cotangent = inputs
    if p["kind"] == "embedding_grad":
        return g.grad(table.take(index), [table], *cotangent)
    return [table.gather(index, 1) if p["kind"] == "labels" else table.take(index)]


def pool_ours(g, p, x, cotangent=None):
    how = {"stride": p["stride"], "padding": p["padding"]}
    y = x.max_pool2d(p["k"], **how) if p["kind"].startswith("max") else x.avg_pool2d(p["k"], **how)
    return [y] if cotangent is None else g.grad(y, [x], cotangent)


def halves_turned(p, x, cat):
    """(-second half, first half) of the last axis, as in the rotary embedding of Llama."""
    half = p["shape"][-1] // 2
    return cat([-x[..., half:], x[..., :half]])


def adam_values(p, g, m, v):
    """A step of Adam with fixed corrections; the operators are those of both sides."""
    m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
    return [p - m * 0.01 / (v.sqrt() * 1.5 + 1e-4), m, v]


CHAINS_OURS = {
    "bias_relu": lambda g, p, x, b: [(x + b).relu()],
    "residual_relu": lambda g, p, x, y: [(x + y).relu()],
    "excite": lambda g, p, x, s: [x * s.sigmoid()],
    "hardswish": lambda g, p, x: [x.hardswish()],
    "affine_silu": lambda g, p, x, w, b: [(x * w + b).silu()],
    "layer_scale": lambda g, p, x, y, w: [x + y * w],
    "bias_gelu": lambda g, p, x, b: [(x + b).gelu()],
    "swiglu": lambda g, p, x, y: [x.silu() * y],
    "rope": lambda g, p, x, cos, sin: [x * cos + halves_turned(p, x, lambda parts: g.cat(parts, axis=-1)) * sin],
    "add_mask": lambda g, p, x, m: [x * 0.125 + m],
    "adam": lambda g, p, *values: adam_values(*values),
    "outer_sum": lambda g, p, x, y, z: [(x + y) * z],
}

OURS = {
    **{kind + end: conv_ours(of) for kind in ("conv", "depthwise") for end, of in (("", "y"), ("_x", "x"), ("_w", "w"))},
    "grouped": conv_ours(None),
    "matmul": product_ours, "bmm": product_ours, "matvec": product_ours,
    "attention": attention_ours, "attention_grad": attention_ours,
    "norm": norm_ours, "norm_grad": norm_ours,
    "softmax": lambda g, p, x: [x.log_softmax(p["axis"]) if p["log"] else x.softmax(p["axis"])],
    "reduce": reduce_ours, "gather": gather_ours,
    "transpose": lambda g, p, x: [x.permute(p["axes"])],
    "pool": pool_ours,
    "chain": lambda g, p, *inputs: CHAINS_OURS[p["kind"]](g, p, *inputs),
}


# ---- PyTorch's side

def conv_theirs(of):
    def make(torch, p):
        which, steps = of or p["of"], [p["stride"]] * 2
        if which == "y":
            return lambda x, w, *_: torch.nn.functional.conv2d(x, w, None, steps, p["padding"], p["dilation"], p["groups"])
        wanted = [which == "x", which == "w", False]
        return lambda x, w, y: torch.ops.aten.convolution_backward(y, x, w, None, steps, p["padding"], [p["dilation"]] * 2, False, [0, 0], p["groups"],
                                                                   wanted)[wanted.index(True)]
    return make


def product_theirs(torch, p):
    then = {"bias relu": torch.nn.functional.relu, "bias gelu": torch.nn.functional.gelu}.get(p.get("then"), lambda y: y)
    if p["form"] == "nt" and "batch" not in p:
        return lambda a, b, bias=None: then(torch.nn.functional.linear(a, b, bias))
    turned = [form == "t" for form in p["form"]]
    return lambda a, b: (a.transpose(-1, -2) if turned[0] else a) @ (b.transpose(-1, -2) if turned[1] else b)


def with_gradients(torch, forward):
    """The function of the result and its gradients to all inputs but the last, which is the cotangent."""
    def run(*inputs):
        *wanted, cotangent = inputs
        with torch.enable_grad():
            wanted = [x.detach().requires_grad_() for x in wanted]
            y = forward(*wanted)
            return (y.detach(), *torch.autograd.grad(y, wanted, cotangent))
    return run


def attention_theirs(torch, p):
    grouped = {"enable_gqa": True} if p["heads"] != p["kv_heads"] else {}
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=p["causal"], **grouped)


def norm_theirs(torch, p):
    f, shape = torch.nn.functional, p["shape"][-1:]
    return {"layer": lambda x, w, b: f.layer_norm(x, shape, w, b), "rms": lambda x, w: f.rms_norm(x, shape, w, 1e-6),
            "group": lambda x, w, b: f.group_norm(x, p["groups"], w, b),
            "batch": lambda x, w, b: f.batch_norm(x, None, None, w, b, True),
            "inference": lambda x, w, b, mean, var: f.batch_norm(x, mean, var, w, b)}[p["kind"]]


def reduce_theirs(torch, p):
    axes = p["axes"]
    return {"sum": lambda x: x.sum(axes), "mean": lambda x: x.mean(axes), "max": lambda x: x.amax(axes), "squares": lambda x: torch.linalg.vector_norm(x, 2, axes),
            "var": lambda x: x.var(axes)}[p["kind"]]


def gather_theirs(torch, p):
    return {"embedding": lambda table, index: torch.nn.functional.embedding(index, table), "rows": lambda table, index: table[index],
            "labels": lambda table, index: torch.gather(table, 1, index),
            "embedding_grad": lambda table, index, cotangent: torch.ops.aten.embedding_dense_backward(cotangent, index, p["rows"], -1, False)}[p["kind"]]


def pool_theirs(torch, p):
    f, how = torch.nn.functional, (p["k"], p["stride"], p["padding"])
    pool = f.max_pool2d if p["kind"].startswith("max") else f.avg_pool2d
    if not p["kind"].endswith("grad"):
        return lambda x: pool(x, *how)
    step = with_gradients(torch, lambda x: pool(x, *how))
    return lambda x, cotangent: step(x, cotangent)[1]


def chain_theirs(torch, p):
    f = torch.nn.functional
    return {"bias_relu": lambda x, b: f.relu(x + b), "residual_relu": lambda x, y: f.relu(x + y), "excite": lambda x, s: x * s.sigmoid(),
            "hardswish": f.hardswish, "affine_silu": lambda x, w, b: f.silu(x * w + b), "layer_scale": lambda x, y, w: x + y * w,
            "bias_gelu": lambda x, b: f.gelu(x + b), "swiglu": lambda x, y: f.silu(x) * y,
            "rope": lambda x, cos, sin: x * cos + halves_turned(p, x, lambda parts: torch.cat(parts, -1)) * sin,
            "add_mask": lambda x, m: x * 0.125 + m, "adam": lambda *values: tuple(adam_values(*values)),
            "outer_sum": lambda x, y, z: (x + y) * z}[p["kind"]]


def softmax_theirs(torch, p):
    return lambda x: (torch.log_softmax if p["log"] else torch.softmax)(x, p["axis"])


THEIRS = {
    **{kind + end: conv_theirs(of) for kind in ("conv", "depthwise") for end, of in (("", "y"), ("_x", "x"), ("_w", "w"))},
    "grouped": conv_theirs(None),
    "matmul": product_theirs, "bmm": product_theirs, "matvec": product_theirs,
    "attention": attention_theirs, "attention_grad": lambda torch, p: with_gradients(torch, attention_theirs(torch, p)),
    "norm": norm_theirs, "norm_grad": lambda torch, p: with_gradients(torch, norm_theirs(torch, p)),
    "softmax": softmax_theirs, "reduce": reduce_theirs, "gather": gather_theirs,
    "transpose": lambda torch, p: lambda x: x.permute(p["axes"]).contiguous(),
    "pool": pool_theirs, "chain": chain_theirs,
}
assert set(OURS) == set(THEIRS) == set(FAMILIES)
