# SPDX-License-Identifier: MIT
"""Every op of the wire, forward and gradient, against torch: on each device, in each dtype, with many cases per request."""

import concurrent.futures
import json
import pathlib
import re
import sys
import unittest
import zlib

import numpy as np
import torch

import algebra  # noqa: F401 (adds to CASES)
import composed  # noqa: F401
import indexed  # noqa: F401
import known
import shapes  # noqa: F401 (adds to CASES)
from cases import BOOL, CASES, ELSEWHERE, INTS
from service import ALL, BOUNDS, DTYPES, UNSIGNED, DeviceTest, Refused, as_array, difference, on_each_device

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 60  # cases per request
GRADIENT_LOOSE = 10
ONCE_WRONG = ("cos larger angles", "flatten 1", "gather 1", "logsumexp special", "pad 1", "pad 3", "reshape 2", "sin larger angles",
              "tan larger angles", "trunc 1")  # failed on some driver
WIDE = ("sum", "prod", "cumsum", "cumprod")  # integer operands give int64, uint64 operands give uint64


OPS = {op["name"]: op for op in json.loads((HERE.parent.parent / "proto" / "ops.json").read_text())["ops"]}


def input_name(op, place):
    """The input name of an operand by its index; the last input may be variadic."""
    inputs = OPS[op]["inputs"]
    return inputs[min(place, len(inputs) - 1)]["name"]


def gradients_of_torch():
    """Returns {(op, input)} with a torch gradient in some case, and {(op, input)} with a nonzero gradient."""
    compared, flowing = set(), set()
    for one in CASES:
        dtype = next((each for each in ("float32", "float64") if each in one.dtypes), None)
        for place, gradient in (Expected(one, dtype).grads if dtype and one.grad else {}).items():
            key = one.op, input_name(one.op, place)
            compared.add(key)
            if bool(gradient.ne(0).any()):
                flowing.add(key)
    return compared, flowing


class EveryOp(unittest.TestCase):
    def test_gradients_are_what_the_table_says(self):
        """For each gradient in ops.json a case compares torch's gradient; without a gradient in ops.json, torch's gradients are
        0."""
        compared, flowing = gradients_of_torch()
        claimed = {(name, each) for name, op in OPS.items() for each in op["gradient"]}
        self.assertEqual(set(), {key for key in claimed - compared if key[0] not in ELSEWHERE}, "gradients without a case")
        self.assertEqual(set(), {key for key in claimed & compared - flowing}, "gradients of which each case has zeros")
        self.assertEqual(set(), flowing - claimed, "gradients that the table does not have")
        for op in {op for op, _ in claimed} & set(ELSEWHERE):
            self.assertIn("grad", (HERE / ELSEWHERE[op]).read_text(), f"{ELSEWHERE[op]} has no gradient of {op}")

    def test_every_op_has_a_case(self):
        ops = set(OPS)
        cased = {one.op for one in CASES}
        self.assertEqual(set(), ops - cased - set(ELSEWHERE), "ops without a case")
        self.assertEqual(set(), (cased | set(ELSEWHERE)) - ops, "cases of ops that are no more")
        for op, file in ELSEWHERE.items():
            self.assertRegex((HERE / file).read_text(), rf'"{op}"|\.{op}\(', f"{file} has nothing of {op}")

    def test_every_op_of_floats_is_sampled_in_float32(self):
        self.assertEqual({one.op for one in CASES if "float32" in one.dtypes}, {one.op for one in sampled("float32")})

    def test_cases_have_names_of_their_own(self):
        self.assertEqual(len(CASES), len({one.name for one in CASES}))

    def test_known_cases_exist(self):
        self.assertEqual(set(), {row[0] for row in known.KNOWN} - {one.name for one in CASES})


# ---- expected results

class Expected:
    """A case in a dtype: its inputs, the cotangent, and torch's results."""

    def __init__(self, one, dtype):
        self.case, self.dtype, self.values = one, dtype, one.values(dtype)
        self.grads, self.cotangent = {}, None
        if dtype in UNSIGNED and DTYPES[dtype][2] is None:
            self.y, self.slack = self.unsigned(), 0
            return
        exact, own = self.reference(self.values), self.own_result()
        if own is not None and not own.is_floating_point():
            exact = own  # comparisons, indices, bits: no rounding
        rounds = self.half() is not None and exact.dtype is torch.float32
        self.y = exact.detach().to(own.dtype if own is not None else self.half() if rounds else exact.dtype)
        self.slack = self.own_error(own)

    def own_error(self, own):
        """Returns the error of torch's own computation in a half type, which is allowed here too."""
        if own is None or self.half() is None or not own.is_floating_point():
            return 0
        off = np.abs(as_array(own) - as_array(self.y))
        return float(off.max(initial=0)) if np.isfinite(off).all() else 0

    def half(self):
        return DTYPES[self.dtype][2] if self.dtype in ("float16", "bfloat16") else None

    def reference(self, values):
        """Returns torch's result; for half types computed in float32 on the same rounded values.  With gradients if the case
        has them."""
        half = self.half()
        ready = [v.float() if isinstance(v, torch.Tensor) and v.dtype is half else v for v in values]
        floats = [i for i, v in enumerate(ready) if isinstance(v, torch.Tensor) and v.is_floating_point()] if self.case.grad else []
        ready = [v.clone().requires_grad_() if i in floats else v for i, v in enumerate(ready)]
        y = self.case.torch_op(*ready)
        if floats and y.is_floating_point():
            rng = np.random.default_rng(zlib.crc32(self.case.name.encode()) + 1)
            self.cotangent = torch.from_numpy(np.asarray(rng.normal(size=tuple(y.shape)))).to(half or y.dtype)
            found = torch.autograd.grad(y, [ready[i] for i in floats], self.cotangent.to(y.dtype), allow_unused=True) \
                if y.requires_grad else [None] * len(floats)
            self.grads = {i: (torch.zeros_like(ready[i]) if g is None else g).to(values[i].dtype) for i, g in zip(floats, found)}
        return y

    def own_result(self):
        """Returns torch's result in the dtype itself, or None if its CPU kernels lack the dtype."""
        try:
            with torch.no_grad():
                return self.case.torch_op(*self.values)
        except RuntimeError:
            return None

    def unsigned(self):
        """For dtypes that torch lacks: its result in int64, wrapped."""
        def at(kind):
            return self.case.torch_op(*[torch.from_numpy(v.astype(kind)) if isinstance(v, np.ndarray) else v for v in self.values])
        y = at(np.int64)
        if y.dtype is not torch.int64:
            return y
        follows = at(np.int32).dtype is torch.int32  # the result has the dtype of the input and is no index
        return y.numpy().astype(self.dtype) if follows else y.numpy().astype("uint64") if self.case.op in WIDE and self.dtype == "uint64" else y


# ---- requests

class Batch:
    """Many cases as one graph."""

    def __init__(self, expected):
        self.expected = dict(enumerate(expected))

    def graph(self):
        nodes, outputs, tensors = [], [], {}
        for i, one in self.expected.items():
            place = f"c{i}."
            names = [value if isinstance(value, (int, float)) else f"{place}x{j}" for j, value in enumerate(one.values)]
            tensors.update({name: value for name, value in zip(names, one.values) if isinstance(name, str)})
            nodes.append({"id": one.case.ids(place), "op": one.case.op, "in": names, "attrs": one.case.attrs})
            outputs.append(place + "y")
            if one.grads:
                tensors[place + "ct"] = one.cotangent
                found = [f"{place}g{j}" for j in one.grads]
                nodes.append({"id": found, "op": "grad", "in": [place + "y", *[names[j] for j in one.grads], place + "ct"],
                              "attrs": {"cotangent": True}})
                outputs += found
        return nodes, outputs, tensors

    def run(self, test):
        """Returns {(expected, part): error}, with "" for no error.  A refused case is reported and omitted from the next
        attempt."""
        found = {}
        while self.expected:
            try:
                got = test.run_graph(*self.graph())
            except Refused as refused:
                self.leave_out(test, refused, found)
                continue
            for i, one in self.expected.items():
                found.update({(one, part): text for part, text in compare(one, f"c{i}.", got)})
            break
        return found

    def leave_out(self, test, refused, found):
        node = str(refused.problem.get("node", ""))
        named = re.match(r"c(\d+)\.", node)
        if named and int(named[1]) in self.expected:
            found[self.expected.pop(int(named[1])), "gradient" if ".g" in node else "forward"] = f"refused: {refused}"
        elif len(self.expected) == 1:
            one = self.expected.popitem()[1]
            found[one, "forward"] = f"refused: {refused}"
        else:  # one case of several: bisect
            all_of_them, self.expected = list(self.expected.values()), {}
            for half in (all_of_them[::2], all_of_them[1::2]):
                found.update(Batch(half).run(test))


def compare(one, place, got):
    relative, absolute = BOUNDS.get(one.dtype, BOUNDS["float32"])
    loose = one.case.loose
    yield "forward", difference(got[place + "y"], one.y, relative * loose, absolute * loose + 2 * one.slack)
    texts = [(j, difference(got[f"{place}g{j}"], want, relative * loose * GRADIENT_LOOSE, absolute * loose * GRADIENT_LOOSE))
             for j, want in one.grads.items()]
    if texts:
        yield "gradient", "; ".join(f"to input {j}: {text}" for j, text in texts if text)


def sampled(dtype):
    """Returns the sample for drivers: in float32 every op's first case and one in six of the others; in the other dtypes one
    case of every third op; and cases that once failed on a driver."""
    first, chosen = set(), []
    for one in CASES:
        if dtype not in one.dtypes:
            continue
        chance = zlib.crc32(f"{dtype} {one.name if dtype == 'float32' else one.op}".encode())
        if one.name in ONCE_WRONG or one.op not in first and (dtype == "float32" or chance % 3 == 0) or dtype == "float32" and chance % 6 == 0:
            chosen.append(one)
        first.add(one.op)
    return chosen


@on_each_device
class Ops(DeviceTest):
    def check(self, *dtypes):
        everything = ALL or self.device == "interp:0"
        expected = [Expected(one, dtype) for dtype in dtypes
                    for one in (CASES if everything else sampled(dtype)) if dtype in one.dtypes]
        batches = [Batch(expected[i:i + BATCH]) for i in range(0, len(expected), BATCH)]
        self.assertTrue(batches, "no cases")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for found in pool.map(lambda batch: batch.run(self), batches):
                for (one, part), text in found.items():
                    self.judge(one, part, text)

    def judge(self, one, part, text):
        why = known.reason(one.case.name, self.device, one.dtype, part)
        with self.subTest(case=one.case.name, dtype=one.dtype, part=part):
            if why is None:
                self.assertFalse(text, f"{one.case.op} {one.case.attrs}: {text}")
            else:
                self.assertTrue(text, f"passes now: take it out of known.py ({why})")

    def test_float32(self):
        self.check("float32")

    def test_float64(self):
        self.check("float64")

    def test_float16(self):
        self.check("float16")

    def test_bfloat16(self):
        self.check("bfloat16")

    def test_integers_and_bool(self):
        self.check(*INTS, *BOOL)


if __name__ == "__main__":
    sys.exit(unittest.main())
