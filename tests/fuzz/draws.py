# SPDX-License-Identifier: MIT
"""The ops of random graphs: each function adds an op with its operands to a drawing, or raises Impossible."""
import math

from documents import FLOATS, ORDER, Named, count, wire
from drawing import (ALONG, BITS, BOOLEAN, BOUNDED, ELEMENTWISE, GROWING, INTS, JUMPS, KEEP_EXACT, MOST_DIMS, POSITIVE, REDUCTIONS, SIZES, TAME, UNIT,
                     UNSIGNED, Drawing, Impossible, Value, as_float, broadcast, promote)


def elementwise(d):
    op = d.random.choice(ELEMENTWISE)
    name, kinds = op["name"], [i["type"] for i in op["inputs"]]
    operands = []
    accept = {"T": lambda v: True, "Float": lambda v: v.floating or v.size <= 64, "Bool": lambda v: v.dtype == "bool" or d.chance(0.1),
              "Bits": lambda v: not v.floating and not any(x.floating for x in operands),
              "Int": lambda v: v.dtype in INTS and not any(x.floating for x in operands)}
    first = {"Bool": "bool", "Int": "int32", "Bits": "int32"}.get(kinds[0])
    x = d.pick(lambda v: accept[kinds[0]](v) and (v.floating or kinds[0] != "T" or d.chance(0.6)), dtype=first or d.dtype())
    jumps = name in JUMPS or op["results"][0] == "Bool"
    x = d.steady(x) if jumps else x
    operands, loud = [x], GROWING | POSITIVE | UNIT
    for kind in kinds[1:]:
        other = d.mate(operands[0], lambda v: accept[kind](v) and (v.dtype == operands[0].dtype or d.chance(0.1)))
        if jumps and not (other.exact or not other.floating or d.chance(0.06)):
            other = next((v for v in d.values if v.exact and v.floating and v.shape == other.shape), operands[0])
        operands.append(other)
    if name in loud or op["results"][0] == "Float" and name not in ("tanh", "sigmoid", "sin", "cos", "erf"):
        operands = [d.tame(v, 3.0 if name in GROWING else TAME) for v in operands]
    operands = [d.tame(v, 64.0) for v in operands] if any(v.floating for v in operands) else operands
    # Out of its domain a function gives only NaN; occasionally that is wanted.
    if not d.chance(0.06):
        if name in POSITIVE or name == "pow":
            operands[0] = d.positive(operands[0])
        if name in UNIT:
            operands[0] = d.unit(operands[0])
        if name == "acosh":
            y = d.positive(operands[0])
            operands[0] = d.add("add", [y, 1.0], [(y.shape, y.dtype, y.exact, y.size + 1)])
        if name in ("div", "floor_div", "trunc_div", "mod", "fmod") and operands[1].floating:
            operands[1] = d.positive(operands[1])
    if op["inputs"][0]["type"] == "T" and all(v.dtype == "bool" for v in operands) and name not in BOOLEAN:
        raise Impossible
    shape, dtype = operands[0].shape, operands[0].dtype
    for v in operands[1:]:
        shape = broadcast(shape, v.shape)
        if shape is None:
            raise Impossible
        dtype = promote(dtype, v.dtype)
    sizes = [v.size for v in operands]
    size = BOUNDED.get(name, {"add": sum(sizes), "sub": sum(sizes), "mul": math.prod(sizes), "square": sizes[0] ** 2, "exp": 21, "exp2": 9, "expm1": 21,
                              "sinh": 11, "cosh": 11, "tan": 30, "pow": 50, "div": 2 * sizes[0]}.get(name, max(sizes) + 1))
    result = op["results"][0]
    dtype = "bool" if result == "Bool" else (dtype if dtype in FLOATS else "float32") if result == "Float" else dtype
    exact = all(v.exact for v in operands) and (name in KEEP_EXACT or result in ("Bool", "Bits", "Int") or dtype in INTS)
    exact = exact and (dtype not in FLOATS or size * (256 if name in ("mul", "square") else 16) <= 2 ** ORDER[dtype])
    if dtype == "bool":
        size = 1.0
    if dtype in INTS and (name == "left_shift" or dtype in UNSIGNED and name in ("sub", "neg", "bitwise_not")):
        size = 2.0 ** BITS[dtype]
    attrs = {}
    for attr in op["attrs"]:
        if attr["type"] == "string" and d.chance(0.5):
            attrs[attr["name"]] = d.random.choice(attr["choices"])
        elif attr["type"] == "bool" and d.chance(0.3):
            attrs[attr["name"]] = d.chance(0.5)
        elif attr["type"] == "float" and d.chance(0.3):
            attrs[attr["name"]] = d.random.choice((0.25, 0.5, 1, 2))
    if name in ("clamp", "hardtanh"):
        low = 0 if dtype in UNSIGNED + ("bool",) else -d.random.choice((0, 1, 2))
        attrs = {"min": low, "max": 1 if dtype == "bool" else d.random.choice((1, 2, 3))}
        size = 3.0
    if len(operands) == 2 and d.chance(0.1) and kinds[1] == "T" and dtype != "bool" and name not in ("floor_div", "trunc_div", "mod", "fmod"):
        operands[1], shape = d.random.choice((0, 1, 2, 3)), operands[0].shape
        dtype = "bool" if result == "Bool" else operands[0].dtype
        if operands[0].dtype == "bool":
            raise Impossible
        size = size + 3 * max(sizes)
    d.add(name, operands, [(shape, dtype, exact, size)], **attrs)


def where(d):
    x = d.pick()
    y = d.mate(x, lambda v: v.dtype == x.dtype)
    shape = broadcast(x.shape, y.shape)
    c = d.mate(Value("", shape, "bool", True, 1), lambda v: v.dtype == "bool")
    shape = broadcast(shape, c.shape)
    if not c.name or shape is None:
        raise Impossible
    d.add("where", [c, x, y], [(shape, x.dtype, x.exact and y.exact and c.exact, max(x.size, y.size))])


def cast(d):
    x = d.pick()
    d.cast(x, d.random.choice(FLOATS + ("float32",) + INTS[:4] + ("bool",)) if not d.pure else d.random.choice(FLOATS))


def bitcast(d):
    x = d.pick(lambda v: v.dtype in INTS + ("float32",) and v.exact)
    same_width = {"float32": ("int32", "uint32"), **{f"int{n}": (f"uint{n}",) for n in (8, 16, 32, 64)}, **{f"uint{n}": (f"int{n}",) for n in (8, 16, 32, 64)}}
    dtype = d.random.choice(same_width[x.dtype])
    d.same("bitcast", x, 2.0 ** BITS.get(dtype, 30), dtype, dtype=dtype)


def plain(d):
    d.same(d.random.choice(("contiguous", "detach", "contiguous")), d.pick())


def reduce(d):
    op = d.random.choice(REDUCTIONS)
    name, kind = op["name"], op["inputs"][0]["type"]
    x = d.pick(lambda v: kind == "T" or (v.dtype == "bool") == (kind == "Bool") or kind == "Float" and v.floating)
    if name in ("argmax", "argmin", "all", "any", "count_nonzero"):
        x = d.steady(x)
    if x.floating:
        x = d.tame(x, 1.5 if name == "prod" else 32.0)
    attrs, axes = {}, list(range(x.ndim))
    single = next(a for a in op["attrs"] if a["name"] == "axis")["type"] == "int"
    if x.ndim and not d.chance(0.2):
        axes = sorted(d.random.sample(axes, 1 if single else d.random.randint(1, x.ndim)))
        attrs["axis"] = d.sign(axes[0], x.ndim) if len(axes) == 1 and (single or d.chance(0.5)) else [d.sign(i, x.ndim) for i in axes]
    keep = d.chance(0.35)
    if keep:
        attrs["keepdim"] = True
    over = count(x.shape[i] for i in axes)
    if over == 0 and name in ("max", "min", "argmax", "argmin", "logsumexp"):
        raise Impossible
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
    result = op["results"][0]
    dtype = {"Bool": "bool", "Int64": "int64", "Float": as_float(x)}.get(result, x.dtype)
    if name in ("sum", "prod") and dtype not in FLOATS:
        dtype = "int64" if x.dtype not in UNSIGNED else None
        if dtype is None:
            raise Impossible
    if name in ("var", "std") and over < 2:
        attrs["correction"] = 0
    size = {"sum": x.size * max(over, 1), "prod": 1.5 ** min(over, 40), "logsumexp": x.size + 8, "var": x.size ** 2}.get(name, x.size)
    exact = x.exact and name in KEEP_EXACT | {"prod"} and (dtype not in FLOATS or name != "prod" and size * 64 <= 2 ** ORDER[dtype])
    if name == "argmax" or name == "argmin":
        size = max(over, 1)
    d.add(name, [x], [(shape, dtype, exact, size)], **attrs)


def along(d):
    op = d.random.choice(ALONG)
    name = op["name"]
    x = d.pick(lambda v: v.ndim >= 1 and (op["inputs"][0]["type"] == "T" and v.dtype != "bool" or v.floating), ndim=2)
    if len(op["results"]) == 2 or name == "argsort":
        x = d.steady(x)
    x = d.tame(x, 1.2 if name == "cumprod" else TAME) if x.floating else x
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n <= 33 if "sort" in name or "cum" in name or "fft" in name else True)
    attrs = {} if axis == x.ndim - 1 and d.chance(0.2) and next(a for a in op["attrs"] if a["name"] == "axis")["default"] == -1 else {
        "axis": d.sign(axis, x.ndim)}
    if any(a["name"] == "descending" for a in op["attrs"]) and d.chance(0.5):
        attrs["descending"] = True
    n = max(int(x.shape[axis]), 1)
    dtype = "int64" if name == "argsort" else x.dtype
    if name in ("cumsum", "cumprod") and not x.floating:
        dtype = "int64"
        if x.dtype in UNSIGNED:
            raise Impossible
    size = BOUNDED.get(name, {"cumsum": x.size * n, "cumprod": 1.2 ** n, "logcumsumexp": x.size + 5, "log_softmax": 2 * x.size + 5, "argsort": n}.get(name, x.size))
    exact = x.exact and (name in KEEP_EXACT or not x.floating) and (dtype not in FLOATS or size * 16 <= 2 ** ORDER[dtype])
    results = [(x.shape, dtype, exact, size)]
    if len(op["results"]) == 2:
        results.append((x.shape, "int64", x.exact, n) if op["results"][1] == "Int64" else (x.shape, dtype, False, x.size * n))
        if op["results"][1] != "Int64":  # a Fourier transform
            results[0] = results[1]
    d.add(name, [x], results, **attrs)


def topk(d):
    x = d.steady(d.pick(lambda v: v.ndim >= 1 and v.dtype != "bool", ndim=2))
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n <= 33)
    k = d.random.randint(0 if d.chance(0.05) else min(1, x.shape[axis]), x.shape[axis])
    shape = [k if i == axis else n for i, n in enumerate(x.shape)]
    d.add("topk", [x], [(shape, x.dtype, x.exact, x.size), (shape, "int64", x.exact, 33)], k=k, axis=d.sign(axis, x.ndim), largest=d.chance(0.5))


def narrow(d):
    """Casts to 8 bits and back."""
    x = d.tame(d.steady(d.pick_float()))
    dtype = d.random.choice(("float8_e4m3", "float8_e5m2"))
    y = d.same("cast", x, kind=dtype, dtype=dtype)
    d.values.remove(y)
    d.same("cast", y, kind=x.dtype, dtype=x.dtype)


def fourier(d):
    x = d.tame(d.pick_float(lambda v: v.ndim >= 1, ndim=2))
    axis = d.axis(x, lambda n: not isinstance(n, Named) and 1 <= n <= 33)
    result = (x.shape, x.dtype, False, x.size * x.shape[axis])
    d.add(d.random.choice(("fft", "ifft")), [x, x] if d.chance(0.3) else [x], [result, result], axis=d.sign(axis, x.ndim))


def rfft(d):
    x = d.tame(d.pick_float(lambda v: v.ndim >= 1, ndim=2))
    axis = d.axis(x, lambda n: not isinstance(n, Named) and 1 <= n <= 33)
    shape = [n // 2 + 1 if i == axis else n for i, n in enumerate(x.shape)]
    result = (shape, x.dtype, False, x.size * x.shape[axis])
    re, im = d.add("rfft", [x], [result, result], axis=axis)
    if d.chance(0.5):
        n = x.shape[axis]
        d.add("irfft", [re, im], [(x.shape, x.dtype, False, x.size)], axis=axis, n=int(n))


def normalise(d):
    name = d.random.choice(("layer_norm", "rms_norm", "layer_norm", "batch_norm", "group_norm", "instance_norm", "normalize"))
    x = d.tame(d.pick_float(lambda v: v.ndim >= (2 if name != "layer_norm" and name != "rms_norm" else 1), ndim=3))
    channels = [x.shape[1]] if x.ndim > 1 else []
    weight = lambda shape: d.input(shape, x.dtype)  # noqa: E731
    result = [(x.shape, x.dtype, False, 6.0 + 4 * math.sqrt(max(count(x.shape), 1)) / 8)]
    if name == "normalize":
        d.add(name, [x], result, axis=d.axis(x), **({"p": d.random.choice((1, 2, 3))} if d.chance(0.3) else {}))
    elif name in ("layer_norm", "rms_norm"):
        k = d.random.choice((1, 1, 2))
        axes = [-1] if k == 1 or x.ndim < 2 else [-2, -1]
        shape = x.shape[-len(axes):]
        more = [weight(shape) for _ in range(d.random.randint(0, 2 if name == "layer_norm" else 1))] if count(shape) <= 200 else []
        d.add(name, [x, *more], result, axis=axes if len(axes) > 1 or d.chance(0.5) else -1)
    elif name == "batch_norm":
        mean, var = weight(channels), d.positive(weight(channels))
        more = [weight(channels) for _ in range(d.random.choice((0, 2)))]
        d.add(name, [x, mean, var, *more], result)
    else:
        if isinstance(x.shape[1], Named) or x.ndim < 3 or count(x.shape) == 0:
            raise Impossible
        groups = {"groups": d.random.choice([g for g in (1, 2, 3, 4, 5, 7, 8) if x.shape[1] % g == 0])} if name == "group_norm" else {}
        d.add(name, [x, *[weight(channels) for _ in range(d.random.choice((0, 2)))]], result, **groups)


def loss(d):
    name = d.random.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss", "kl_div"))
    x = d.tame(d.pick_float(lambda v: v.ndim >= 1, ndim=2))
    reduction = d.random.choice(("mean", "sum", "none"))
    if name in ("cross_entropy", "nll_loss"):
        if x.ndim < 2 or isinstance(x.shape[1], Named) or x.shape[1] == 0:
            raise Impossible
        shape = (x.shape[0],) + x.shape[2:]
        target = whole_numbers(d, shape, 0, x.shape[1])
    else:
        shape = x.shape
        target = d.input(shape, x.dtype) if len(d.inputs) < 8 else d.pick_float(lambda v: v.shape == x.shape and v.dtype == x.dtype, shape=shape, dtype=x.dtype)
        if name != "mse_loss" and name != "l1_loss":
            target = d.unit(d.positive(target))
    if reduction == "mean" and count(shape) == 0:
        raise Impossible
    d.add(name, [x, target], [(shape if reduction == "none" else (), x.dtype, False, 100.0)], reduction=reduction)


def whole_numbers(d, shape, low, high, dtype=None):
    """Adds an input of integers from low to high - 1."""
    dtype = dtype or d.random.choice(("int64", "int32", "int64", "int16"))
    return d.input(shape, dtype, array=d.numbers.integers(low, max(high, low + 1), [int(n) for n in shape]))


def matmul(d):
    x = d.tame(d.pick(lambda v: v.ndim >= 1 and (v.floating or v.dtype in ("int32", "int64")), ndim=2, dtype=d.float))
    k, n = x.shape[-1], d.size()
    kind = d.random.random()
    if kind < 0.5 or x.ndim == 1:
        found = [v for v in d.values if v.dtype == x.dtype and v.ndim >= 2 and wire(v.shape[-2]) == wire(k) and v.size <= 64]
        if not found and isinstance(k, Named) and x.ndim < 2:
            raise Impossible
        y = d.random.choice(found) if found and d.chance(0.6) else d.input([k] if d.chance(0.1) else [k, n], x.dtype)
        if y.ndim == 1:
            shape = x.shape[:-1]
        elif x.ndim == 1:
            shape = y.shape[:-2] + y.shape[-1:]
        else:
            batch = broadcast(x.shape[:-2], y.shape[:-2])
            if batch is None:
                raise Impossible
            shape = batch + (x.shape[-2], y.shape[-1])
        exact = x.exact and y.exact and (x.size * y.size * max(k, 1) * 256 <= 2 ** ORDER.get(x.dtype, 60))
        d.add("matmul", [x, y], [(shape, x.dtype, exact, x.size * y.size * max(k, 1))])
    elif not x.floating:
        raise Impossible
    elif kind < 0.8:
        w = d.input([n, k], x.dtype)
        more = [d.input([n], x.dtype)] if d.chance(0.6) else []
        d.add("linear", [x, w, *more], [(x.shape[:-1] + (n,), x.dtype, False, x.size * 4 * max(k, 1) + 4)])
    elif x.ndim == 2:
        y = d.input([k, n], x.dtype)
        equation, shape = d.random.choice((("ij,jk->ik", (x.shape[0], n)), ("ij,jk->ki", (n, x.shape[0])), ("ij,jk->k", (n,)), ("ij,jk->", ())))
        d.add("einsum", [x, y], [(shape, x.dtype, False, x.size * 4 * max(k, 1) * (x.shape[0] + n))], equation=equation)
    elif x.ndim == 3 and count(x.shape) > 0 and d.chance(0.3):
        k2 = d.input(x.shape, x.dtype) if d.chance(0.5) else x
        d.add("attention", [x, k2, x], [(x.shape, x.dtype, False, x.size)], **({"causal": True} if d.chance(0.5) else {}))
    elif x.ndim == 3 and count(x.shape) > 0:  # longer than wide, so that attention is computed in stages
        long, wide = d.random.choice((17, 32, 40)), d.random.choice((3, 8, 16))
        q, k2 = d.input([x.shape[0], long, wide], x.dtype), d.input([x.shape[0], long, wide], x.dtype)
        v = d.input([x.shape[0], long, n], x.dtype)
        d.add("attention", [q, k2, v], [((x.shape[0], long, n), x.dtype, False, v.size)], **({"causal": True} if d.chance(0.5) else {}))
    else:
        raise Impossible


def cell(d):
    x = d.tame(d.pick_float(lambda v: v.ndim == 2 and v.shape[1] <= 33, ndim=2), 4.0)
    n, many, dtype = d.random.choice((1, 3, 5, 8)), d.chance(0.5), x.dtype
    parts = 4 if many else 3
    h = d.input([x.shape[0], n], dtype)
    more = [d.input([x.shape[0], n], dtype)] if many else []
    more += [d.input([parts * n, x.shape[1]], dtype), d.input([parts * n, n], dtype)]
    more += [d.input([parts * n], dtype) for _ in range(2)] if d.chance(0.5) else []
    d.add("lstm_cell" if many else "gru_cell", [x, h, *more], [((x.shape[0], n), dtype, False, 5.0)] * (2 if many else 1))


def window(d):
    name = d.random.choice(("conv2d", "conv2d", "max_pool2d", "avg_pool2d"))
    x = d.tame(d.pick_float(lambda v: v.ndim == 4 and not v.named and min(v.shape) > 0 and count(v.shape) <= 1500,
                            shape=(d.random.choice((1, 2)), d.random.choice((1, 2, 3, 4, 6)), d.random.choice((4, 5, 7, 8)), d.random.choice((3, 5, 8)))))
    if x.ndim != 4:
        raise Impossible
    kernel = [d.random.choice((1, 2, 3)), d.random.choice((1, 2, 3))]
    stride, dilation = [d.random.choice((1, 1, 2)) for _ in kernel], [1 if name == "avg_pool2d" else d.random.choice((1, 1, 2)) for _ in kernel]
    padding = [d.random.choice((0, 0, 1)) if name == "conv2d" else d.random.randint(0, k // 2) for k in kernel]
    rest = [(n + 2 * p - l * (k - 1) - 1) // s + 1 for n, p, l, k, s in zip(x.shape[2:], padding, dilation, kernel, stride)]
    if min(rest) < 1:
        raise Impossible
    attrs = {"stride": stride, "padding": padding}
    if name != "avg_pool2d":
        attrs["dilation"] = dilation
    if name != "conv2d":
        if name == "avg_pool2d" and d.chance(0.3):
            attrs["count_include_pad"] = False
        d.add(name, [x], [((*x.shape[:2], *rest), x.dtype, x.exact and name == "max_pool2d", x.size)], kernel_size=kernel, **attrs)
        return
    groups = d.random.choice([g for g in (1, 1, 2, 3) if x.shape[1] % g == 0])
    out = groups * d.random.choice((1, 2, 3))
    w = d.input([out, x.shape[1] // groups, *kernel], x.dtype)
    bias = [d.input([out], x.dtype)] if d.chance(0.5) else []
    d.add(name, [x, w, *bias], [((x.shape[0], out, *rest), x.dtype, False, x.size * 4 * count(w.shape[1:]) + 4)], groups=groups, **attrs)


# ---- movement

def reshape(d):
    x = d.pick(lambda v: v.ndim <= 4)
    shape = list(x.shape)
    for _ in range(d.random.randint(1, 3)):
        i = d.random.randrange(len(shape)) if shape else 0
        if shape and i + 1 < len(shape) and d.chance(0.5) and not any(isinstance(n, Named) for n in shape[i:i + 2]):
            shape[i:i + 2] = [shape[i] * shape[i + 1]]
        elif len(shape) < MOST_DIMS and (not shape or d.chance(0.3)):
            shape.insert(i, 1)
        elif shape and shape[i] > 1 and not isinstance(shape[i], Named) and len(shape) < MOST_DIMS:
            divisor = d.random.choice([k for k in range(1, shape[i] + 1) if shape[i] % k == 0])
            shape[i:i + 1] = [divisor, shape[i] // divisor]
    given = [wire(n) for n in shape]
    if given and count(x.shape) and d.chance(0.2):
        given[d.random.randrange(len(given))] = -1
    d.add("reshape", [x], [(shape, x.dtype, x.exact, x.size)], shape=given)


def permute(d):
    x = d.pick(lambda v: v.ndim >= 2, ndim=3)
    if d.chance(0.4):
        i, j = d.random.sample(range(x.ndim), 2)
        axes = list(range(x.ndim))
        axes[i], axes[j] = j, i
        op, attrs = "transpose", {"axis0": d.sign(i, x.ndim), "axis1": d.sign(j, x.ndim)}
    else:
        axes = d.random.sample(range(x.ndim), x.ndim)
        op, attrs = "permute", {"axes": axes}
    d.add(op, [x], [([x.shape[i] for i in axes], x.dtype, x.exact, x.size)], **attrs)


def expand(d):
    x = d.pick(lambda v: v.ndim <= 3 and count(v.shape) <= 300)
    shape = [d.random.choice((2, 3, 5, 8)) if n == 1 and not isinstance(n, Named) else n for n in x.shape]
    if d.chance(0.4):
        shape.insert(0, d.random.choice((1, 2, 3, d.name if d.named else 4)))
    d.add("expand", [x], [(shape, x.dtype, x.exact, x.size)], shape=[wire(n) for n in shape])


def pad(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    padding = [[0, 0] if d.chance(0.4) else [d.random.choice((0, 0, 1, 2, 3)), d.random.choice((0, 0, 1, 2))] for _ in x.shape]
    mode = d.random.choice(("reflect", "replicate"))
    if d.chance(0.12) and min(x.shape) > 3:
        attrs = {"mode": mode}
    else:
        attrs = {} if d.chance(0.5) else {"value": 1 if x.dtype == "bool" else d.random.choice((0, 1, 2, 3))}
    d.add("pad", [x], [([n + a + b for n, (a, b) in zip(x.shape, padding)], x.dtype, x.exact, max(x.size, 3.0))], padding=padding, **attrs)


def shrink(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    ranges = []
    for n in x.shape:
        a = d.random.randint(0, n // 2)
        ranges.append([a, d.random.randint(a if d.chance(0.03) else min(a + 1, n), n)])
    d.add("shrink", [x], [([b - a for a, b in ranges], x.dtype, x.exact, x.size)], ranges=ranges)


def slice_(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n > 0)
    n = x.shape[axis]
    if d.chance(0.1):
        d.same("slice", x, start=[n - 1], step=[-1], axis=[axis])
        return
    start, stop, step = d.random.randint(-n, n - 1), d.random.randint(-n, n + 1), d.random.choice((1, 1, 2, 3))
    if d.chance(0.9):
        start, stop = d.random.randint(0, (n - 1) // 2), d.random.randint(n // 2 + 1, n)
    size = len(range(*slice(start, stop, step).indices(n)))
    shape = [size if i == axis else m for i, m in enumerate(x.shape)]
    d.add("slice", [x], [(shape, x.dtype, x.exact, x.size)], start=[start], stop=[stop], step=[step], axis=[d.sign(axis, x.ndim)])


def flip(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axes = d.random.sample(range(x.ndim), d.random.randint(1, x.ndim))
    d.same("flip", x, **({"axis": axes} if d.chance(0.8) else {}))


def squeeze(d):
    if d.chance(0.5):
        x = d.pick(lambda v: v.ndim < MOST_DIMS)
        axis = d.random.randint(0, x.ndim)
        d.add("unsqueeze", [x], [(x.shape[:axis] + (1,) + x.shape[axis:], x.dtype, x.exact, x.size)], axis=axis - x.ndim - 1 if d.chance(0.3) else axis)
        return
    x = d.pick(lambda v: any(n == 1 and not isinstance(n, Named) for n in v.shape), fresh=0)
    axis = d.axis(x, lambda n: n == 1 and not isinstance(n, Named))
    d.add("squeeze", [x], [(x.shape[:axis] + x.shape[axis + 1:], x.dtype, x.exact, x.size)], axis=axis)


def flatten(d):
    x = d.pick(lambda v: v.ndim >= 2 and not v.named, ndim=3)
    a = d.random.randrange(x.ndim - 1)
    b = d.random.randrange(a + 1, x.ndim)
    d.add("flatten", [x], [(x.shape[:a] + (count(x.shape[a:b + 1]),) + x.shape[b + 1:], x.dtype, x.exact, x.size)], start_axis=a, end_axis=b)


def join(d):
    x = d.pick(lambda v: v.ndim < MOST_DIMS)
    stack = d.chance(0.4) or x.ndim == 0
    axis = d.random.randint(0, x.ndim) if stack else d.axis(x, lambda n: not isinstance(n, Named))
    rest = lambda v: v.shape if stack else v.shape[:axis] + v.shape[axis + 1:]  # noqa: E731
    like = [v for v in d.values if v.ndim == x.ndim and rest(v) == rest(x) and v.dtype == x.dtype and [wire(n) for n in rest(v)] == [wire(n) for n in rest(x)]
            and (stack or not isinstance(v.shape[axis], Named))]
    parts = [x] + [d.random.choice(like) for _ in range(d.random.randint(1, 3))]
    if stack:
        shape = x.shape[:axis] + (len(parts),) + x.shape[axis:]
    else:
        shape = x.shape[:axis] + (sum(v.shape[axis] for v in parts),) + x.shape[axis + 1:]
    d.add("stack" if stack else "cat", parts, [(shape, x.dtype, all(v.exact for v in parts), max(v.size for v in parts))], axis=axis)


def repeat(d):
    """Ops that repeat or move elements."""
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    axis, kind, n = d.axis(x), d.random.random(), d.random.choice((1, 2, 3))
    shape = list(x.shape)
    if kind < 0.35:
        d.same("roll", x, shift=[d.random.randint(-3, 5)], axis=[d.sign(axis, x.ndim)])
    elif kind < 0.55:
        shape[axis] *= n
        d.add("repeat", [x], [(shape, x.dtype, x.exact, x.size)], repeats=[n if i == axis else 1 for i in range(x.ndim)])
    elif kind < 0.75:
        shape[axis] *= n
        d.add("repeat_interleave", [x], [(shape, x.dtype, x.exact, x.size)], repeats=n, axis=d.sign(axis, x.ndim))
    elif shape[axis] >= n:
        step = d.random.choice((1, 2, 3))
        shape[axis] = (shape[axis] - n) // step + 1
        d.add("unfold", [x], [((*shape, n), x.dtype, x.exact, x.size)], axis=axis, size=n, step=step)


def diagonal(d):
    x = d.pick(lambda v: v.ndim == 2 and not v.named and 0 < min(v.shape), ndim=2)
    d.add("diagonal", [x], [((min(x.shape),), x.dtype, x.exact, x.size)])


def triangle(d):
    x = d.pick(lambda v: v.ndim >= 2, ndim=2)
    d.same(d.random.choice(("tril", "triu")), x, **({"diagonal": d.random.choice((-2, -1, 0, 1))} if d.chance(0.6) else {}))


# ---- indexing

def take(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n > 0)
    n = x.shape[axis]
    low, high = (-n - 2, n + 2) if d.chance(0.4) else (0, n)
    kind = d.random.random()
    if kind < 0.4:
        shape = [max(1, int(m) - d.random.randint(0, 1)) if i != axis and not isinstance(m, Named) and m > 0 else m for i, m in enumerate(x.shape)]
        shape[axis] = d.random.choice((1, 2, 5, 8))
        i = whole_numbers(d, shape, low, high)
        d.add("gather", [x, i], [(shape, x.dtype, x.exact, x.size)], axis=d.sign(axis, x.ndim))
    elif kind < 0.7:
        found = [v for v in d.values if v.dtype in ("int32", "int64") and v.ndim <= 2 and count(v.shape) <= 40 and v.exact]
        i = d.random.choice(found) if found and d.chance(0.5) else whole_numbers(d, d.random.choice(((), (3,), (2, 5), (7,))), low, high)
        d.add("take", [x, i], [(x.shape[:axis] + i.shape + x.shape[axis + 1:], x.dtype, x.exact, x.size)], axis=d.sign(axis, x.ndim))
    elif axis + 1 < x.ndim and not isinstance(x.shape[axis + 1], Named):
        i = whole_numbers(d, (d.random.choice((1, 3, 7)),), low, high)
        j = whole_numbers(d, (1,) if d.chance(0.3) else i.shape, 0, x.shape[axis + 1] + 1)
        d.add("index", [x, i, j], [(x.shape[:axis] + i.shape + x.shape[axis + 2:], x.dtype, x.exact, x.size)], axis=axis)
    else:
        raise Impossible


def scatter(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named and count(v.shape) <= 600 and v.dtype != "bool", ndim=2)
    axis = d.axis(x)
    n = x.shape[axis]
    low, high = (-n - 1, n + 2) if d.chance(0.3) else (0, n)
    shape = list(x.shape)
    shape[axis] = d.random.choice((1, 2, 5))
    if count(shape) == 0:
        raise Impossible
    kind = d.random.random()
    if kind < 0.35:
        source, i = d.input(shape, x.dtype, x.exact), whole_numbers(d, shape, low, high)
        how = d.random.choice(("none", "none", "add", "multiply"))
        d.add("scatter", [x, i, source], [(x.shape, x.dtype, x.exact and (how == "none" or not x.floating), x.size * 4 ** 5 if how == "multiply" else x.size + 20)],
              axis=axis, reduce=how)
    elif kind < 0.7:
        source, i = d.input(shape, x.dtype, x.exact), whole_numbers(d, shape, low, high)
        how = d.random.choice(("sum", "prod", "mean", "amax", "amin") if x.floating else ("sum", "amax", "amin"))
        d.add("scatter_reduce", [x, i, source], [(x.shape, x.dtype, x.exact and how[0] == "a", x.size * (4 ** 5 if how == "prod" else 1) + 20)],
              axis=axis, reduce=how, include_self=d.chance(0.7))
    else:
        i = whole_numbers(d, (d.random.choice((1, 3, 6)),), low, high)
        value = d.input(x.shape[:axis] + i.shape + x.shape[axis + 1:], x.dtype, x.exact)
        more = d.chance(0.5)
        d.add("index_put", [x, value, i], [(x.shape, x.dtype, x.exact and not more, x.size + 24)], axis=axis, accumulate=more)


def choose(d):
    if d.chance(0.4):
        i = d.pick(lambda v: v.dtype in INTS and v.ndim <= 3 and count(v.shape) <= 200 and v.exact, shape=(5,), dtype="int64")
        n = d.random.choice((1, 3, 8))
        dtype = d.random.choice(("int64", d.float, "bool"))
        d.add("one_hot", [i], [(i.shape + (n,), dtype, True, 1.0)], num_classes=n, dtype=dtype)
        return
    mask = d.pick(lambda v: v.dtype == "bool" and 1 <= v.ndim <= 3 and not v.named and 0 < count(v.shape) <= 200, shape=(d.random.choice((5, 17)),), dtype="bool")
    size = d.random.choice((1, 3, 8, 16))
    if d.chance(0.5):
        d.add("nonzero", [mask], [((size, mask.ndim), "int64", mask.exact, 64.0), ((), "int64", mask.exact, 200.0)], size=size)
    else:
        x = d.pick(lambda v: v.shape == mask.shape and not v.named, shape=mask.shape)
        d.add("masked_select", [x, mask], [((size,), x.dtype, x.exact and mask.exact, x.size), ((), "int64", mask.exact, 200.0)], size=size)


# ---- creation

def create(d):
    dtype, kind = d.random.choice((d.float, "int32", "int64")), d.random.random()
    if kind < 0.3:
        n = d.random.choice(SIZES)
        step = d.random.choice((1, 2, -1, 0.5)) if dtype in FLOATS else d.random.choice((1, 2, -1))
        start = d.random.choice((0, 1, -3))
        d.add("arange", [], [((n,), dtype, True, 130.0)], start=start, stop=start + step * n, step=step, dtype=dtype)
    elif kind < 0.5:
        shape = d.shape()
        d.add("full", [], [(shape, dtype, True, 3.0)], shape=[wire(n) for n in shape], value=d.random.choice((0, 1, 2, 3)), dtype=dtype)
    elif kind < 0.7:
        n, m = d.random.choice(SIZES), d.random.choice(SIZES)
        d.add("eye", [], [((n, m), dtype, True, 1.0)], n=n, m=m, dtype=dtype)
    else:
        d.same(d.random.choice(("zeros_like", "ones_like")), d.pick(), 1.0, exact=True)


def chance_(d):
    """Random numbers with a given key."""
    key = d.input((), "int64", array=d.random.randrange(1000))
    shape, seed, kind = d.shape(), {"seed": d.random.randrange(100)}, d.random.random()
    sizes = [wire(n) for n in shape]
    if kind < 0.35:
        d.add("uniform", [key], [(shape, d.float, False, 1.0)], shape=sizes, dtype=d.float, **seed)
    elif kind < 0.5:
        d.add("normal", [key], [(shape, d.float, False, 5.0)], shape=sizes, dtype=d.float, **seed)
    elif kind < 0.75:
        d.add("randint", [key], [(shape, "int64", True, 10.0)], shape=sizes, low=d.random.choice((0, -5)), high=d.random.choice((1, 6, 10)), **seed)
    elif kind < 0.85:
        n = d.random.choice(SIZES)
        d.add("randperm", [key], [((n,), "int64", True, 64.0)], n=n, **seed)
    else:
        x = d.pick_float()
        d.add("dropout", [x, key], [(x.shape, x.dtype, False, 2 * x.size)], p=0.5, **seed)


def parts(d):
    """Splits an axis into several tensors, or changes its length."""
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    axis, kind = d.axis(x, lambda n: n >= 2), d.random.random()
    n = x.shape[axis]

    def with_size(size):
        return tuple(size if i == axis else m for i, m in enumerate(x.shape))
    if kind < 0.3:
        at = d.random.randint(1, n - 1)
        d.add("split", [x], [(with_size(size), x.dtype, x.exact, x.size) for size in (at, n - at)], sizes=[at, n - at], axis=d.sign(axis, x.ndim))
    elif kind < 0.5:
        most = -(-n // 2)
        d.add("chunk", [x], [(with_size(size), x.dtype, x.exact, x.size) for size in (most, n - most)], chunks=2, axis=d.sign(axis, x.ndim))
    else:
        more = d.random.randint(0, 5)
        to = [n + more if i == axis else -1 for i in range(x.ndim)] if kind < 0.75 else [d.random.randint(1, n) if i == axis else -1 for i in range(x.ndim)]
        d.add("pad_to" if kind < 0.75 else "shrink_to", [x], [(with_size(to[axis]), x.dtype, x.exact, x.size)], shape=to)


def matrices(d):
    """Linear algebra of a well-conditioned positive definite matrix."""
    dtype = d.float if d.float in ("float32", "float64") else "float32"
    n = d.random.choice((1, 2, 3, 5, 8))
    x = d.input([n, n], dtype, False)
    t = d.add("transpose", [x], [((n, n), dtype, False, x.size)])
    p = d.add("matmul", [x, t], [((n, n), dtype, False, 100.0)])
    e = d.add("eye", [], [((n, n), dtype, True, 1.0)], n=n, dtype=dtype)
    a = d.add("add", [p, d.add("mul", [e, float(n)], [((n, n), dtype, True, 8.0)])], [((n, n), dtype, False, 100.0)])
    op = d.random.choice(("cholesky", "inverse", "det", "solve", "triangular_solve"))
    if op.endswith("solve"):
        b = d.input([n, d.random.choice((1, 3))], dtype, False)
        d.add(op, [a, b], [(b.shape, dtype, False, 20.0)])
    elif op == "det":
        d.add("log", [d.add(op, [a], [((), dtype, False, 1e9)])], [((), dtype, False, 30.0)])
    else:
        d.add(op, [a], [((n, n), dtype, False, 20.0)])


# ---- bodies

def small(v):
    return not v.named and 0 < count(v.shape) <= 200


def body(d, given):
    """Draws a body: some ops on parameters like the values |given|; further operands become additional parameters."""
    inner = Drawing(f"body {d.random.getrandbits(60)}", named=False)
    inner.float, inner.pure = d.float, d.pure
    for i, (shape, dtype, size) in enumerate(given):
        inner.values.append(Value(f"p{i}", shape, dtype, False, size, True))
    wanted, tries = inner.random.choice((1, 2, 3, 5, 8)), 0
    while len(inner.nodes) < wanted and tries < 8 * wanted:
        tries += 1
        try:  # results that depend on loop unrolling: random numbers depend on their place, and gradients are rounded to 8 bits before the sum
            never = (chance_, narrow, loop, branch) if d.depth else (chance_, narrow)
            inner.random.choices(list(DRAWS), [0 if draw in never else weight for draw, weight in DRAWS.items()])[0](inner)
        except Impossible:
            pass
    inner.values = [v for v in inner.values if not v.named]
    return inner


def hand_in(d, inner):
    """Turns the inputs that a body drew into inputs of the enclosing graph."""
    return [d.input(t.shape, t.dtype, array=t.array) for t in inner.inputs.values()]


def as_body(inner, given, results):
    names = [f"p{i}" for i in range(given)] + list(inner.inputs)
    return {"inputs": names, "nodes": inner.nodes, "outputs": [v.name for v in results]}


def loop(d):
    h = d.tame(d.pick_float(small))
    steps, shape = d.random.choice((1, 2, 3, 6)), d.shape(most=60)
    if any(isinstance(n, Named) for n in shape):
        raise Impossible
    xs, more = d.input((steps, *shape), d.dtype()), d.pick(small)
    inner = body(d, [(h.shape, h.dtype, TAME), (shape, xs.dtype, xs.size), (more.shape, more.dtype, more.size)])
    carry = inner.values[0]
    v = inner.tame(inner.pick_float(lambda v: count(v.shape) > 0, fresh=0))
    v = inner.cast(inner.add("mean", [v], [((), v.dtype, False, v.size)]), h.dtype)
    v = inner.add("add", [inner.add("mul", [carry, 0.5], [(h.shape, h.dtype, False, TAME)]), v], [(h.shape, h.dtype, False, 2 * TAME)])
    y, carry = inner.random.choice(inner.values), inner.same("tanh", v, 1.0, exact=False)
    results = [(h.shape, h.dtype, False, 1.0), ((steps, *y.shape), y.dtype, False, y.size)]
    d.add("scan", [h, xs, more, *hand_in(d, inner)], results, sequences=1, reverse=d.chance(0.3), body=as_body(inner, 3, [carry, y]))


def branch(d):
    x, more = d.pick(small), d.pick(small)
    given = [(v.shape, v.dtype, v.size) for v in (x, more)]
    sides = [body(d, given), body(d, given)]
    ends = []
    for inner in sides:
        v = inner.tame(inner.pick_float(lambda v: count(v.shape) > 0, fresh=0))
        ends.append(inner.cast(inner.add("mean", [v], [((), v.dtype, False, v.size)]), d.float))
    if sides[0].inputs or sides[1].inputs:
        raise Impossible
    p = d.pick(lambda v: v.dtype == "bool" and v.shape == () and v.exact, shape=(), dtype="bool", exact=True)
    d.add("cond", [p, x, more], [((), d.float, False, TAME)], then=as_body(sides[0], 2, ends[:1]), otherwise=as_body(sides[1], 2, ends[1:]))


DRAWS = {elementwise: 34, where: 4, cast: 5, narrow: 1, bitcast: 1, plain: 1, reduce: 9, along: 6, topk: 1.5, rfft: 0.5, fourier: 0.7, normalise: 4,
         loss: 2.5, matmul: 7, cell: 0.7, window: 4, reshape: 5, permute: 4, expand: 2.5, pad: 3, shrink: 3, slice_: 3, flip: 2, squeeze: 2,
         flatten: 1, join: 4, repeat: 3, diagonal: 0.7, triangle: 1.5, take: 3.5, scatter: 2, choose: 1.5, create: 2, chance_: 2,
         loop: 1.5, branch: 0.7, parts: 1.5, matrices: 0.7}
