# SPDX-License-Identifier: MIT
"""Cases of ops that are formulas of other ops: activations, functions, losses, norms, cells."""

import torch
import torch.nn.functional as F

from cases import EXACT, F32, FAR, FLOATS, INF, INTS, NAN, NUMBERS, ODD, SPECIAL, case, distinct, fixed, given, positive, whole, x


HALVES = ("float16", "bfloat16", "float32")


def inside(*shape):
    """Numbers strictly between -1 and 1."""
    return lambda rng, dtype: torch.from_numpy(rng.uniform(-0.95, 0.95, shape)).to(getattr(torch, dtype))


def add_functions():
    table = {"exp2": torch.exp2, "expm1": torch.expm1, "tan": torch.tan, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
             "asinh": torch.asinh}
    bounded = {"asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh, "log1p": torch.log1p}
    above = {"log2": torch.log2, "log10": torch.log10, "acosh": lambda a: torch.acosh(a)}
    for op, fn in table.items():
        for shape in ODD:
            case(op, [x(*shape)], fn, loose=8)
    for op, fn in bounded.items():
        for shape in ODD:
            case(op, [inside(*shape)], fn, loose=8)
    for op, fn in above.items():
        case(op, [positive(17, 33, least=1.05 if op == "acosh" else 0.05)], fn, loose=8)
    for op, fn in {**table, **bounded, **above}.items():
        case(op, [fixed(range(1, 5), "int32")], lambda a, fn=fn: fn(a.float()), dtypes=F32, loose=8, grad=False, note="int32 makes float32")
    case("tan", [given(FAR)], torch.tan, dtypes=EXACT, loose=8, note="larger angles")
    for op in ("exp2", "expm1", "log1p", "log2", "log10", "atan", "asinh"):
        case(op, [given([0.0, NAN, INF, 1.0, 0.5, 20.0, 90.0, 1e-5, 0.3, 3.0])], {**table, **bounded, **above}[op], grad=False, loose=8,
             note="special")
    case("expm1", [given([-1e-6, 1e-6, -0.49, 0.51, -30, -0.5])], torch.expm1, dtypes=EXACT, loose=4, note="small")
    case("log1p", [given([-1e-6, 1e-6, -0.49, 0.51, 1e6, -0.5])], torch.log1p, dtypes=EXACT, loose=4, note="small")
    case("exp2", [given([-126, -130, -149, 127, 128, 0.999])], torch.exp2, dtypes=F32, grad=False, note="edges")
    quadrants = ([1.0, 1, -1, -1, 0.0, 0.0, -0.0, 1, -1, 2, 3], [1.0, -1, 1, -1, 1, -1, -1, 0.0, 0.0, 5, 0.5])
    case("atan2", [given(quadrants[0]), given(quadrants[1])], torch.atan2, grad=False, loose=4, note="quadrants")
    case("atan2", [x(17, 33), x(33)], torch.atan2, loose=8)
    case("atan2", [given([INF, INF, -INF, 1.0, NAN]), given([INF, -INF, 2, -INF, 1])], torch.atan2, grad=False, loose=4, note="special")
    case("round", [x(17, 33, scale=4)], torch.round, loose=1)
    case("round", [given([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4999])], torch.round, note="halves", dtypes=EXACT)
    case("round", [x(5)], lambda a: a, dtypes=INTS)


def add_binary():
    case("trunc_div", [given([-7, 7, -8, 8, 3]), given([2, -2, 3, 3, 4])], lambda a, b: torch.div(a, b, rounding_mode="trunc"),
         dtypes=("float32", "float64", "int8", "int16", "int32", "int64"))
    case("fmod", [given([-7, 7, -8, 8, 3]), given([2, -2, 3, 3, 4])], torch.fmod, dtypes=("float32", "float64", "int8", "int32", "int64"))
    case("fmod", [given([1.0, -1, INF, 1]), given([INF, -INF, 2, 0.0])], torch.fmod, dtypes=EXACT, grad=False, note="special")
    case("pow", [positive(17, 33), x(33)], torch.pow, loose=20)
    case("pow", [x(17, 33), 3], lambda a, b: a ** b, loose=6)
    case("pow", [positive(17, 33), 0.5], lambda a, b: a ** b, loose=6)
    case("pow", [positive(17, 33), -1.5], lambda a, b: a ** b, loose=20)
    case("pow", [positive(33), -2], lambda a, b: a ** b, loose=8)
    case("pow", [2, x(33)], lambda a, b: a ** b, loose=8)
    special = ([2.0, -2, 0.0, 0.0, -8, 1, -1, INF, -INF, 4, 0.5], [3.0, 3, 2, -1, 1.5, NAN, INF, -1, 3, 0.0, INF])
    case("pow", [given(special[0]), given(special[1])], torch.pow, grad=False, loose=8, note="special")
    case("pow", [given([1, 2, 3, 5, 2, 0]), given([3, 6, 4, 0, 1, 2])], torch.pow, dtypes=INTS, note="whole")
    case("pow", [x(4, 5), 2], lambda a, b: a ** b, dtypes=INTS, note="squares")
    case("copysign", [x(17, 33), x(33)], torch.copysign)
    case("copysign", [given([1.0, -1, 2, -2, 0.0, NAN]), given([-0.0, 0.0, -3, 3, -1, 1])], torch.copysign, grad=False, note="special")
    case("logaddexp", [x(17, 33, scale=9), x(33)], torch.logaddexp, loose=6)
    case("logaddexp", [given([1000.0, -1000, INF, -INF, -INF]), given([1001.0, -1000, 1, 1, -INF])], torch.logaddexp, grad=False,
         dtypes=EXACT, loose=6, note="special")
    case("lerp", [x(17, 33), x(17, 33), x(17, 33)], torch.lerp, loose=4)
    for op, fn in {"isfinite": torch.isfinite, "isinf": torch.isinf}.items():
        case(op, [given(SPECIAL)], fn, grad=False)
        case(op, [x(5)], fn, dtypes=INTS)
    case("isinf", [given([INF, -INF, NAN, 1])], lambda a: a == INF, {"detect_negative": False}, grad=False)
    case("isclose", [given([1, 1, INF, NAN, 0]), given([1.0000001, 1.1, INF, NAN, 1e-9])], torch.isclose, dtypes=EXACT, grad=False)
    case("isclose", [given([1, NAN]), given([1.05, NAN])], lambda a, b: torch.isclose(a, b, rtol=0.1, atol=0, equal_nan=True),
         {"rtol": 0.1, "atol": 0, "equal_nan": True}, dtypes=EXACT, grad=False)


def add_activations():
    table = {"relu6": F.relu6, "hardtanh": F.hardtanh, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "elu": F.elu, "celu": F.celu,
             "selu": F.selu, "mish": F.mish, "softsign": F.softsign, "logsigmoid": F.logsigmoid,
             "quick_gelu": lambda a: a * torch.sigmoid(1.702 * a)}
    for op, fn in table.items():
        for shape in ODD:
            case(op, [x(*shape, scale=4)], fn, dtypes=FLOATS if op != "hardsigmoid" else HALVES, loose=8)
    case("hardsigmoid", [x(33, scale=4)], F.hardsigmoid, dtypes=("float64",), grad=False, note="float64: torch's slope is float32's sixth")
    case("relu6", [given([-1, 0, 3, 6, 9, NAN])], F.relu6, grad=False, note="edges")
    case("hardtanh", [x(33, scale=3)], lambda a: F.hardtanh(a, -2.5, 0.5), {"min": -2.5, "max": 0.5})
    case("elu", [x(33, scale=3)], lambda a: F.elu(a, 0.3), {"alpha": 0.3}, loose=4)
    case("celu", [x(33, scale=3)], lambda a: F.celu(a, 0.25), {"alpha": 0.25}, loose=8)
    case("logsigmoid", [given([-1000, -50, 0, 50, 1000])], F.logsigmoid, loose=4, note="far")
    case("softmin", [x(4, 7, scale=5)], lambda a: F.softmin(a, 1), {"axis": 1}, loose=8)
    case("normalize", [x(4, 7)], F.normalize, loose=12)
    case("normalize", [x(4, 3, 7)], lambda a: F.normalize(a, dim=-1), {"axis": -1}, loose=12)
    case("normalize", [x(4, 7)], lambda a: F.normalize(a, p=1), {"p": 1}, loose=12)
    case("normalize", [positive(4, 7)], lambda a: F.normalize(a, p=3), {"p": 3}, loose=40)
    case("count_nonzero", [whole((3, 5), 0, 3)], lambda a: torch.count_nonzero(a, 1), {"axis": 1}, dtypes=F32)
    case("count_nonzero", [given([0.0, -0.0, NAN, 1])], torch.count_nonzero)


def add_rates():
    def cosine(step, lr, total, end):
        return end + (lr - end) * 0.5 * (1 + torch.cos(torch.pi * torch.clamp(step / total, max=1)))

    steps = given([0.0, 1, 2.5, 7, 9])
    case("polynomial_lr", [steps], lambda t: 0.1 + 0.9 * (1 - torch.clamp(t / 8, max=1)) ** 2, {"lr": 1, "total": 8, "power": 2, "end": 0.1},
         dtypes=EXACT, loose=8)
    case("cosine_lr", [steps], lambda t: cosine(t, 1, 8, 0.1), {"lr": 1, "total": 8, "end": 0.1}, dtypes=EXACT, loose=20)
    case("warmup_lr", [steps], lambda t: 2 * torch.clamp((t + 1) / 8, max=1), {"lr": 2, "warmup": 8}, dtypes=EXACT, loose=4, grad=True)
    case("step_lr", [given([0.5, 1, 2.5, 7, 9])], lambda t: 0.5 ** torch.floor(t / 2), {"lr": 1, "step_size": 2, "gamma": 0.5}, dtypes=EXACT,
         loose=8)
    case("one_cycle_lr", [given([1.0, 2.5, 5, 8])], lambda t: torch.where(t <= 2, cosine(t / 2, 0.04, 1, 1), cosine((t - 2) / 7, 1, 1, 4e-6)),
         {"lr": 1, "total": 10}, dtypes=EXACT, loose=60)
    case("clip_grad_norm", [x(4, 3)], lambda g: g * torch.clamp(0.5 / (g.norm() + 1e-6), max=1), {"max_norm": 0.5}, dtypes=EXACT, loose=20)
    case("clip_grad_norm", [x(4, 3)], lambda g: g * torch.clamp(50 / (g.norm() + 1e-6), max=1), {"max_norm": 50}, dtypes=EXACT, loose=20)


def reduced(loss, word):
    return loss if word == "none" else loss.sum() if word == "sum" else loss.mean()


def likelihood(logs, target, weight, word, ignore, smoothing):
    """The negative log likelihood weighted by class: torch.nn.functional.nll_loss in other ops."""
    own = weight[target] * (target != ignore if ignore is not None else 1)
    kept = (target != ignore).to(logs.dtype) if ignore is not None else 1
    chosen = -torch.gather(logs, 1, target.unsqueeze(1)).squeeze(1) * own
    shape = [1, -1] + [1] * (logs.dim() - 2)
    spread = -(logs * weight.reshape(shape)).sum(1) * kept / logs.shape[1]
    loss = (1 - smoothing) * chosen + smoothing * spread
    return loss.sum() / own.sum() if word == "mean" else reduced(loss, word)


def add_losses():
    for word in ("mean", "sum", "none"):
        attrs = {"reduction": word}
        for op, fn in {"l1_loss": F.l1_loss, "smooth_l1_loss": F.smooth_l1_loss, "huber_loss": F.huber_loss}.items():
            case(op, [x(17, 33, scale=2), x(17, 33)], lambda a, b, fn=fn, word=word: fn(a, b, reduction=word), attrs, loose=20)
        case("binary_cross_entropy_with_logits", [x(17, 5, scale=4), inside(17, 5)],
             lambda a, b, word=word: F.binary_cross_entropy_with_logits(a, b, reduction=word), attrs, loose=30)
        case("binary_cross_entropy", [lambda rng, dtype: torch.from_numpy(rng.uniform(0.02, 0.98, (17, 5))).to(getattr(torch, dtype)),
                                      fixed([[i % 2 == 0] * 5 for i in range(17)], "float32")],
             lambda a, b, word=word: F.binary_cross_entropy(a, b.to(a.dtype), reduction=word), attrs, dtypes=EXACT, loose=40)
        case("kl_div", [x(6, 5), positive(6, 5)], lambda a, b, word=word: F.kl_div(a, b, reduction=word), attrs, loose=30)
    case("kl_div", [x(6, 5), x(6, 5)], lambda a, b: F.kl_div(a, b, reduction="sum", log_target=True), {"reduction": "sum", "log_target": True},
         loose=30)
    case("binary_cross_entropy_with_logits", [x(17, 5, scale=4), inside(17, 5), positive(5)],
         lambda a, b, w: -(w * b * F.logsigmoid(a) + (1 - b) * F.logsigmoid(-a)).mean(), loose=30)
    case("smooth_l1_loss", [x(33), x(33)], lambda a, b: F.smooth_l1_loss(a, b, beta=0.3), {"beta": 0.3}, loose=20)
    case("smooth_l1_loss", [x(33), x(33)], lambda a, b: F.smooth_l1_loss(a, b, beta=0), {"beta": 0}, loose=20)
    case("huber_loss", [x(33), x(33)], lambda a, b: F.huber_loss(a, b, delta=0.3), {"delta": 0.3}, loose=20)


def add_weighed():
    classes = whole((6,), 0, 5)
    for word in ("mean", "sum", "none"):
        attrs = {"reduction": word}
        for op, fn in {"cross_entropy": F.cross_entropy, "nll_loss": F.nll_loss}.items():
            case(op, [x(6, 5), classes, positive(5)], lambda a, t, w, fn=fn, word=word: fn(a, t, w, reduction=word), attrs, dtypes=EXACT,
                 grad=False, loose=20)
        case("cross_entropy", [x(6, 5), classes], lambda a, t, word=word: F.cross_entropy(a, t, reduction=word, label_smoothing=0.1),
             {**attrs, "label_smoothing": 0.1}, loose=20)
        case("cross_entropy", [x(2, 5, 3), positive(2, 5, 3)], lambda a, t, word=word: F.cross_entropy(a, t, reduction=word), attrs, loose=20)
        case("cross_entropy", [x(6, 5), positive(6, 5)], lambda a, t, word=word: F.cross_entropy(a, t, reduction=word, label_smoothing=0.2),
             {**attrs, "label_smoothing": 0.2}, dtypes=EXACT, loose=20)
    case("cross_entropy", [x(6, 5), fixed([2, 0, 4, 2, 1, 3], "int64"), fixed([1, 2, 0.5, 3, 1], "float32")],
         lambda a, t, w: F.cross_entropy(a, t, w, ignore_index=2, label_smoothing=0.1), {"ignore_index": 2, "label_smoothing": 0.1}, dtypes=F32,
         grad=False, loose=20)
    case("cross_entropy", [x(5), positive(5)], F.cross_entropy, dtypes=EXACT, loose=20)
    for word in ("mean", "sum", "none"):  # written in other ops, since torch's own has no gradient to the weights
        for shape, ignore, smooth in (((6, 5), None, 0), ((2, 5, 3), None, 0), ((6, 5), 2, 0), ((6, 5), 2, 0.2)):
            attrs = {"reduction": word, **({} if ignore is None else {"ignore_index": ignore})}
            draws = [x(*shape), fixed([2, 0, 4, 2, 1, 3] if len(shape) == 2 else [[2, 0, 4], [2, 1, 3]], "int64"), positive(5)]
            if smooth == 0:
                case("nll_loss", draws, lambda a, t, w, word=word, i=ignore: likelihood(a, t, w, word, i, 0), attrs, dtypes=EXACT, loose=20)
            case("cross_entropy", draws, lambda a, t, w, word=word, i=ignore, s=smooth: likelihood(a.log_softmax(1), t, w, word, i, s),
                 {**attrs, "label_smoothing": smooth}, dtypes=EXACT, loose=20)
        case("cross_entropy", [x(6, 5), positive(6, 5), positive(5)], lambda a, t, w, word=word: reduced(-(t * w * a.log_softmax(1)).sum(1), word),
             {"reduction": word}, dtypes=EXACT, loose=20)


def rms(a, w, axes, eps=1e-6):
    return a / torch.sqrt((a * a).mean(axes, keepdim=True) + eps) * w


def batch_norm(a, m, v, w, b):
    """Batch norm in other ops, since torch's own has no gradients of the statistics."""
    shape = (1, -1) + (1,) * (a.dim() - 2)
    return (a - m.view(shape)) / torch.sqrt(v.view(shape) + 1e-5) * w.view(shape) + b.view(shape)


def attend(q, k, v, mask=None, causal=False):
    s = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(~mask, -INF) if mask.dtype is torch.bool else s + mask
    if causal:
        s = s.masked_fill(torch.triu(torch.ones(s.shape[-2:]), 1).bool(), -INF)
    return torch.softmax(s, -1) @ v


def add_networks():
    case("rms_norm", [x(4, 7), x(7)], lambda a, w: rms(a, w, (-1,)), loose=12)
    case("rms_norm", [x(4, 3, 7), x(3, 7)], lambda a, w: rms(a, w, (1, 2)), {"axis": [1, 2]}, loose=12)
    for shape in ((4, 3), (4, 3, 5), (2, 3, 5, 4)):
        c = shape[1]
        case("batch_norm", [x(*shape), x(c), positive(c, least=0.3), x(c), x(c)],
             batch_norm, loose=30)
    case("batch_norm", [x(4, 3), x(3), positive(3, least=0.3)], lambda a, m, v: (a - m) / torch.sqrt(v + 1e-5), loose=30)
    case("group_norm", [x(2, 6, 5), x(6), x(6)], lambda a, w, b: F.group_norm(a, 3, w, b), {"groups": 3}, loose=30)
    case("group_norm", [x(2, 4, 3, 3)], lambda a: F.group_norm(a, 2), {"groups": 2}, loose=30)
    case("instance_norm", [x(2, 3, 5, 4), x(3), x(3)], lambda a, w, b: F.instance_norm(a, weight=w, bias=b), loose=30)
    case("attention", [x(2, 5, 4), x(2, 7, 4), x(2, 7, 3)], attend, loose=20)
    case("attention", [x(2, 5, 4), x(2, 5, 4), x(2, 5, 4)], lambda q, k, v: attend(q, k, v, causal=True), {"causal": True}, loose=20)
    case("attention", [x(2, 3, 4), x(2, 3, 4), x(2, 3, 4), fixed([[1, 0, 1], [1, 1, 0], [0, 0, 1]], "bool")], attend, loose=20, note="bool mask")
    case("attention", [x(2, 3, 4), x(2, 3, 4), x(2, 3, 4), x(3, 3)], attend, loose=20, note="added mask")
    case("attention", [x(2, 6, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4)],
         lambda q, k, v: attend(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)), {"grouped": True}, loose=20, note="grouped")
    cell = [x(3, 4), x(3, 5), x(3, 5), x(20, 4), x(20, 5), x(20), x(20)]
    for which in range(2):
        case("lstm_cell", cell, lambda a, h, c, *w, which=which: torch.lstm_cell(a, (h, c), *w)[which], dtypes=EXACT, loose=30, pick=(which, 2))
    case("gru_cell", [x(3, 4), x(3, 5), x(15, 4), x(15, 5), x(15), x(15)], torch.gru_cell, dtypes=EXACT, loose=30)
    case("unflatten", [x(4, 6)], lambda a: a.unflatten(1, (2, 3)), {"axis": 1, "sizes": [2, -1]}, dtypes=NUMBERS)
    case("unflatten", [x(4, 6, 2)], lambda a: a.unflatten(-2, (3, 2)), {"axis": -2, "sizes": [3, 2]})
    case("sum", [distinct(4, 5)], lambda a: a.sum(1, dtype=torch.float64), {"axis": 1, "dtype": "float64"}, dtypes=("float32",), note="dtype")


for add in (add_functions, add_binary, add_activations, add_losses, add_weighed, add_networks, add_rates):
    add()
