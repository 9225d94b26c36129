# SPDX-License-Identifier: MIT
"""Values and gradients at special points against torch: zeros of both signs, one, infinities, NaN, tiny and huge numbers.

The tests cover every elementwise op with a gradient in all combinations of its operands, and vectors of such numbers for
reductions. A value passes if it equals torch's result in float32, or torch's float64 result rounded: torch squares 1e30 in
float32, which overflows.
"""

import itertools
import json
import sys
import unittest

import numpy as np
import torch

from cases import CASES, Case, given
from service import DeviceTest, as_array, on_each_device
from test_ops import OPS, Batch, Expected

INF, NAN = float("inf"), float("nan")
POINTS = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, -1e-30, 1e30, -1e30, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 1e-5)
FEW = POINTS[:7] + (2.0, 0.5)  # points for ops with three operands
RELATIVE, ABSOLUTE = 1e-4, 1e-37
CANCELLED = 1e-7  # absolute bound for vectors, whose gradients have cancelling terms
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
VECTORS = ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, -3.0, 0.0], [0.0, 0.0, 5.0], [INF, 1.0, 2.0], [-INF, 1.0, 2.0], [INF, -INF, 1.0], [INF, INF, 1.0],
           [-INF, -INF, -INF], [NAN, 1.0, 2.0], [1.0, NAN, INF], [3.0, 2.0, 2.0], [1e30, 1.0, -1.0], [1e-30, 0.0, -1e-30], [-0.0, 0.0, -0.0])


def is_far(*operands):
    return any(abs(operand) == INF for operand in operands)


def remainder_is_lost(x, y, *_):
    """x - y * n has the rounding error of the product, and a quotient over 1e38 is infinite."""
    return abs(x) > 1000 * abs(y) > 0 or abs(x) == INF


# (op, part or None for all) -> (condition on the operands, reason why the results differ from torch's)
DIFFERENT = {
    ("copysign", "g0"): (lambda x, y: x != x or abs(x) == INF, "the limit; torch divides infinity by infinity"),
    ("mish", "g0"): (is_far, "the limit; torch multiplies infinity by 0"),
    ("binary_cross_entropy_with_logits", None): (lambda x, t: is_far(x, t) or abs(t) > 1 or abs(x) > 1e20, "targets are probabilities, and an infinite logit has its limit"),
    ("kl_div", None): (lambda x, t: t in (0, INF), "the limit; torch divides 0 by 0"),
    ("mod", None): (remainder_is_lost, "x - y * floor(x / y) is rounded"),
    ("fmod", None): (remainder_is_lost, "x - y * trunc(x / y) is rounded"),
    ("lerp", "y"): (lambda x, y, w: not NEWER and (w < -0.5 or x != x or is_far(x, y, w)), "older versions of torch extrapolate from x"),
    ("hardswish", "g0"): (lambda x: not NEWER and x == -3, "older versions of torch have the slope of the inside"),
    **{(op, "y"): (lambda x: not NEWER and -1e-20 < x < 0, "older versions of torch compute exp(x) - 1") for op in ("elu", "celu", "selu")},
}
# The same for vectors: (condition on the list of operands, reason).
DIFFERENT_VECTORS = {
    ("prod", "g0"): (lambda v: any(abs(x) == INF or x != x for x in v), "the product is divided by the element, which is infinite"),
    ("max", "g0"): (lambda v: any(x != x for x in v), "no element equals NaN"),
    ("min", "g0"): (lambda v: any(x != x for x in v), "no element equals NaN"),
    ("var", "g0"): (lambda v: any(abs(x) == INF for x in v), "an infinite deviation is multiplied by 0"),
    ("logcumsumexp", "g0"): (lambda v: -INF in v or 1e20 < max(v) < INF, "the limit; torch subtracts infinities, and loses terms that are equal"),
    **{(op, None): (lambda v: any(0 < abs(x) < 1e-20 or 1e20 < abs(x) < INF for x in v), "the squares leave the range of float32") for op in ("std", "layer_norm")},
}
# Ops that are not functions of a single element, or that are undefined outside a range.
SKIPPED = {"one_cycle_lr": "it is a schedule of steps from 0", "binary_cross_entropy": "torch refuses what is no probability: test_probabilities",
           "batch_norm": "it needs a second axis", "split": "it has several results", "cummax": "it has several results", "cummin": "it has several results"}


def is_elementwise(one, low, high):
    """Whether element i of the result depends only on element i of the operands, tested on numbers between the bounds."""
    places = len(one.draws)
    generator = torch.Generator().manual_seed(1)
    operands = [torch.rand(7, generator=generator) * (high - low) + low for _ in range(places)]
    changed = [operand.clone() for operand in operands]
    for operand in changed:
        operand[3] = low + (operand[3] - low) / 2
    try:
        y, z = one.torch_op(*operands), one.torch_op(*changed)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    if not torch.is_tensor(y) or y.shape != (7,) or one.pick[1] != 1 or not y.is_floating_point() or not y.isfinite().all():
        return False
    return bool((y != z).nonzero().flatten().eq(3).all())


def elementwise_cases():
    """Makes one case per op and attributes, with all combinations of the points as operands."""
    found = {}
    for one in CASES:
        values = one.values("float32") if "float32" in one.dtypes else []
        floats = [value for value in values if torch.is_tensor(value) and value.dtype is torch.float32]
        key = one.op, json.dumps(one.attrs, sort_keys=True)
        if key in found or not OPS[one.op]["gradient"] or one.op in SKIPPED or not 0 < len(floats) == len(values) <= 3:
            continue
        if is_elementwise(one, 0.1, 0.9) or is_elementwise(one, 1.1, 1.9):
            found[key] = grid_case(one, len(floats))
    return list(found.values())


def grid_case(one, places, extra=()):
    columns = zip(*itertools.product(POINTS if places < 3 else FEW, repeat=places))
    return Case(one.op, [given(list(column)) for column in columns] + list(extra), one.torch_op, one.attrs, ("float32",), True, 1, f"{one.op} {one.attrs}", (0, 1))


class Point:
    """A case with cotangent 1 everywhere, in float32 and in float64."""

    def __init__(self, one):
        self.case = one
        self.expected = Expected(one, "float32")
        self.expected.cotangent = torch.ones_like(self.expected.y)
        self.want, self.exact = self.of_torch(torch.float32), self.of_torch(torch.float64)
        self.expected.grads = {int(part[1:]): value for part, value in self.want.items() if part != "y"}

    def of_torch(self, kind):
        """Returns {part: value}: y, and the gradients g0, g1, ... to the operands."""
        values = self.expected.values
        ready = [value.to(kind).requires_grad_() if torch.is_tensor(value) else value for value in values]
        y = self.case.torch_op(*ready)
        parts = {"y": y.detach().float()}
        wanted = {place: value for place, value in enumerate(ready) if torch.is_tensor(value)}
        found = torch.autograd.grad(y, list(wanted.values()), torch.ones_like(y), allow_unused=True) if y.requires_grad else [None] * len(wanted)
        for (place, value), gradient in zip(wanted.items(), found):
            parts[f"g{place}"] = (torch.zeros_like(value) if gradient is None else gradient).detach().float()
        return parts

    def problems(self, got):
        """Returns the differences, one per line."""
        values = [value for value in self.expected.values if torch.is_tensor(value)]
        table = DIFFERENT if values[0].ndim == 1 else DIFFERENT_VECTORS
        for part, want in self.want.items():
            mine = as_array(got[f"c0.{part}"])
            absolute = ABSOLUTE if table is DIFFERENT else CANCELLED
            good = is_near(mine, as_array(want), absolute) | is_near(mine, as_array(self.exact[part]), absolute)
            for at in np.argwhere(~good):
                at = tuple(int(i) for i in at)
                operands = [value[at[0]].tolist() for value in values]
                which, _ = table.get((self.case.op, part)) or table.get((self.case.op, None)) or (lambda *_: False, "")
                if not which(*operands):
                    yield f"{self.case.name} {part} of {operands}: {mine[at]} at {list(at)}, torch has {want[at].item()}"


def is_near(mine, want, absolute):
    with np.errstate(invalid="ignore", over="ignore"):
        return (np.abs(mine - want) <= absolute + RELATIVE * np.abs(want)) | (mine == want) | (np.isnan(mine) & np.isnan(want))


def power_cases():
    """Powers whose exponent or base is a literal: computed by products and roots instead of a logarithm."""
    exponents = [Case("pow", [given(POINTS), number], lambda a, b: a ** b, {}, ("float32",), True, 1, f"pow to {number}", (0, 1))
                 for number in (0, 1, 2, 3, 8, -1, -2, -3, 0.5, -0.5, 2.5, -1.5, 0.25, 1e-3)]
    bases = [Case("pow", [number, given(POINTS)], lambda a, b: a ** b, {}, ("float32",), True, 1, f"pow of {number}", (0, 1))
             for number in (0, 1, 2, 3, -2, 0.5)]
    return exponents + bases


def probability_cases():
    """Probabilities and targets at the ends of their ranges."""
    columns = zip(*itertools.product((0.0, 1.0, 0.5, 1e-5, 0.999), (0.0, 1.0, 0.5)))
    loss = lambda p, t: torch.nn.functional.binary_cross_entropy(p, t, reduction="none")  # noqa: E731
    return [Case("binary_cross_entropy", [given(list(column)) for column in columns], loss, {"reduction": "none"}, ("float32",), True, 1, "probabilities", (0, 1))]


def vector_cases():
    table = [("sum", lambda a: a.sum(1), {"axis": 1}), ("mean", lambda a: a.mean(1), {"axis": 1}), ("prod", lambda a: a.prod(1), {"axis": 1}),
             ("max", lambda a: a.amax(1), {"axis": 1}), ("min", lambda a: a.amin(1), {"axis": 1}),
             ("var", lambda a: a.var(1), {"axis": 1}), ("std", lambda a: a.std(1), {"axis": 1}),
             ("softmax", lambda a: a.softmax(1), {"axis": 1}), ("log_softmax", lambda a: a.log_softmax(1), {"axis": 1}),
             ("logsumexp", lambda a: a.logsumexp(1), {"axis": 1}), ("cumsum", lambda a: a.cumsum(1), {"axis": 1}),
             ("cumprod", lambda a: a.cumprod(1), {"axis": 1}), ("logcumsumexp", lambda a: a.logcumsumexp(1), {"axis": 1}),
             ("normalize", lambda a: torch.nn.functional.normalize(a), {}),
             ("normalize", lambda a: torch.nn.functional.normalize(a, p=1), {"p": 1}),
             ("layer_norm", lambda a: torch.nn.functional.layer_norm(a, (3,)), {})]
    return [Case(op, [given([list(v) for v in VECTORS])], fn, attrs, ("float32",), True, 1, f"{op} {attrs} of vectors", (0, 1)) for op, fn, attrs in table]


@on_each_device
class Special(DeviceTest):
    def check(self, cases):
        lines, points = [], [Point(one) for one in cases]
        for point in points:
            lines += point.problems(self.run_graph(*Batch([point.expected]).graph()))
        self.assertFalse(lines, "\n".join([f"{len(lines)} differ:", *lines[:40]]))

    def test_elementwise(self):
        cases = elementwise_cases()
        self.assertGreater(len({one.op for one in cases}), 60)
        self.check(cases if self.device == "interp:0" else cases[::3])

    def test_powers_of_literals(self):
        self.check(power_cases())

    def test_probabilities(self):
        self.check(probability_cases())

    def test_vectors(self):
        self.check(vector_cases())


if __name__ == "__main__":
    sys.exit(unittest.main())
