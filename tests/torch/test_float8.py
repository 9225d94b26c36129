# SPDX-License-Identifier: MIT
"""float8_e4m3 and float8_e5m2 against their definition (Micikevicius et al., arXiv:2209.05433), since torch 1.13 lacks them.

The tests cover every code, every rounding boundary, and arithmetic that rounds once, on each device.
"""

import base64
import json
import math
import unittest

import numpy as np

from service import DeviceTest, on_each_device

FORMATS = {"float8_e4m3": (3, 7), "float8_e5m2": (2, 15)}  # bits of the fraction, exponent bias
SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def table(name):
    """Returns the value of each code."""
    fraction, bias = FORMATS[name]
    values = []
    for code in range(256):
        exponent, rest = (code & 127) >> fraction, code & ((1 << fraction) - 1)
        value = rest * 2.0 ** (1 - bias - fraction) if exponent == 0 else (1 + rest / 2 ** fraction) * 2.0 ** (exponent - bias)
        if name == "float8_e4m3" and code & 127 == 127:
            value = math.nan
        if name == "float8_e5m2" and exponent == 31:
            value = math.nan if rest else math.inf
        values.append(-value if code & 128 else value)
    return np.array(values)


def nearest(name, numbers):
    """Rounds to the nearest value, ties to the even code; past the largest value to infinity, or to NaN if the format lacks
    infinities."""
    values = np.array([v for v in table(name)[:128] if math.isfinite(v)])
    values = np.append(values, 2 * values[-1] - values[-2])  # the virtual successor of the largest value
    rounded = []
    for number in numbers:
        size = abs(number)
        low = min(int(np.searchsorted(values, size, side="right")) - 1, len(values) - 1)
        high = min(low + 1, len(values) - 1)
        below, above = size - values[low], values[high] - size
        chosen = low if below < above or (below == above and low % 2 == 0) else high
        value = values[chosen] if chosen < len(values) - 1 else math.inf if name == "float8_e5m2" else math.nan
        rounded.append(math.copysign(value, number))
    return np.array(rounded)


@on_each_device
class Float8(DeviceTest):
    def run_json(self, inputs, nodes, outputs):
        document = {"device": self.device, "inputs": inputs, "nodes": nodes, "outputs": outputs}
        answer = json.loads(self.service.send("POST", "run", json.dumps(document).encode())[1])
        return {name: np.array([SPECIAL.get(v, v) for v in np.ravel(np.array(result["data"], dtype=object))], "float64")
                for name, result in answer["outputs"].items()}

    def same(self, got, want):
        np.testing.assert_array_equal(got.astype("float32"), np.asarray(want).astype("float32"))
        np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))

    def test_every_code(self):
        for name in FORMATS:
            codes = {"dtype": name, "shape": [256], "base64": base64.b64encode(bytes(range(256))).decode()}
            got = self.run_json({"x": codes}, [
                {"id": "wide", "op": "cast", "in": ["x"], "attrs": {"dtype": "float32"}}, {"id": "own", "op": "contiguous", "in": ["x"]},
                {"id": "bits", "op": "bitcast", "in": ["x"], "attrs": {"dtype": "uint8"}},
                {"id": "again", "op": "bitcast", "in": ["bits"], "attrs": {"dtype": name}}], ["wide", "own", "bits", "again"])
            for part in ("wide", "own", "again"):
                self.same(got[part], table(name))
            self.assertEqual(list(range(256)), got["bits"].astype(int).tolist())

    def test_rounding(self):
        rng = np.random.default_rng(0)
        for name in FORMATS:
            finite = table(name)[:124]
            x = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-6, 6, 300), finite, (finite[1:] + finite[:-1]) / 2,
                                [448, 463.9, 464, 464.1, 480, 57344, 61439, 61440, 61441, 1e30, 0, -0.0, 2**-10, 2**-17, 2**-18]])
            x = np.concatenate([x, -x]).astype("float32")
            got = self.run_json({"x": {"dtype": "float32", "shape": [len(x)], "data": [float(v) for v in x]}},
                                [{"id": "y", "op": "cast", "in": ["x"], "attrs": {"dtype": name}}], ["y"])
            self.same(got["y"], nearest(name, x.astype("float64")))

    def test_each_op_rounds_once(self):
        rng = np.random.default_rng(1)
        for name in FORMATS:
            a, b = (table(name)[rng.integers(0, 110, 50)] for _ in range(2))
            inputs = {key: {"dtype": name, "shape": [50], "data": list(value)} for key, value in (("a", a), ("b", b))}
            got = self.run_json(inputs, [
                {"id": "sum", "op": "add", "in": ["a", "b"]}, {"id": "product", "op": "mul", "in": ["a", "b"]},
                {"id": "total", "op": "sum", "in": ["a"]}, {"id": "most", "op": "max", "in": ["a"]},
                {"id": "product2", "op": "mul", "in": ["a", 2]}], ["sum", "product", "total", "most", "product2"])
            self.same(got["sum"], nearest(name, a + b))
            self.same(got["product"], nearest(name, a * b))
            self.same(got["product2"], nearest(name, a * 2))
            self.same(got["total"], nearest(name, [a.sum()]))
            self.assertEqual(a.max(), got["most"][0])

    def test_a_number_that_does_not_fit_is_refused(self):
        for name, value in (("float8_e4m3", 500), ("float8_e5m2", 70000)):
            with self.assertRaises(Exception) as caught:
                self.run_json({"x": {"dtype": name, "shape": [1], "data": [value]}}, [{"id": "y", "op": "neg", "in": ["x"]}], ["y"])
            self.assertIn("does not fit", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
