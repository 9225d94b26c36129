# SPDX-License-Identifier: MIT
"""8-bit floats in Tensors, compared with their definitions (Micikevicius et al., arXiv:2209.05433)."""
import math
import pathlib
import struct
import tempfile

from beamline import Tensor, dtypes
from beamline.nn.state import safe_load, safe_save
from beamline.values import numpy
from tensors import TensorCase, unittest


def e5m2(code):
    """Decodes e5m2, the upper half of a float16."""
    return struct.unpack("<e", bytes([0, code]))[0]


def e4m3(code):
    """Decodes e4m3: no infinities, one NaN of each sign, bias 7."""
    sign, exponent, fraction = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    return sign * (fraction / 8 * 2.0 ** -6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


KINDS = ((dtypes.fp8e4m3, e4m3, 448.0, math.nan), (dtypes.fp8e5m2, e5m2, 57344.0, math.inf))


def same(xs, ys):
    """Whether the arrays are equal; NaN equals NaN, and zeros must have the same sign."""
    return len(xs) == len(ys) and all(struct.pack("<d", x) == struct.pack("<d", y) or x != x and y != y for x, y in zip(xs, ys))


def nearest(number, decode):
    """The nearest value of a number in range; ties go to the even code."""
    size = abs(number)
    codes = [code for code in range(128) if math.isfinite(decode(code))]
    best = min(codes, key=lambda code: (abs(decode(code) - size), code % 2))
    return math.copysign(decode(best), number)


class Float8Test(TensorCase):
    def test_every_code(self):
        for dtype, decode, _, _ in KINDS:
            codes = Tensor(list(range(256)), dtype=dtypes.uint8)
            x, expected = codes.bitcast(dtype), [decode(code) for code in range(256)]
            self.assertTrue(same(x.tolist(), expected), dtype)
            self.assertTrue(same(x.cast(dtypes.float32).tolist(), expected), dtype)
            finite = [code for code in range(256) if expected[code] == expected[code]]
            self.assertEqual([x.bitcast(dtypes.uint8).tolist()[code] for code in finite], finite)
            if numpy is not None:
                self.assertEqual(x.numpy().dtype, numpy.float32)
                self.assertTrue(same(x.reshape(16, 16).numpy().ravel().tolist(), expected))

    def test_numbers_become_the_nearest(self):
        for dtype, decode, largest, beyond in KINDS:
            numbers = [0.0, -0.0, 1.0, -1.5, 0.1, 3.14159, 17.0, 19.0, 1e-9, -1e-9, largest, -largest]
            numbers += [(decode(code) + decode(code + 1)) / 2 for code in range(0, 0x77, 5)]
            expected = [nearest(number, decode) for number in numbers] + [beyond, -beyond, beyond, math.nan]
            numbers += [4 * largest, -4 * largest, math.inf, math.nan]
            for x in (Tensor(numbers, dtype=dtype), Tensor(numbers).cast(dtype), Tensor(numbers, dtype=dtypes.float64).cast(dtype)):
                self.assertEqual((x.dtype, x.element_size()), (dtype, 1))
                self.assertTrue(same(x.tolist(), expected), (dtype, list(zip(numbers, x.tolist(), expected))))

    def test_arithmetic(self):
        for dtype, decode, _, _ in KINDS:
            a, b = [1.5, -2.0, 0.25, 8.0], [2.0, 3.0, -0.5, 0.0]
            x, y = Tensor(a, dtype=dtype), Tensor(b, dtype=dtype)
            self.assertEqual((x + y).dtype, dtype)
            self.assertEqual((x + y).tolist(), [nearest(i + k, decode) for i, k in zip(a, b)])
            self.assertEqual((x * 3).tolist(), [nearest(i * 3, decode) for i in a])
            self.assertEqual(((x < y).tolist(), x.max().item()), ([True, True, False, False], 8))
            self.assertEqual((x.half().dtype, (x + Tensor([1.0])).dtype, (x + Tensor([1])).dtype), (dtypes.half, dtypes.float, dtype))
            self.assertEqual((x.reshape(1, 4) @ y.reshape(4, 1)).tolist(), [[nearest(-3.125, decode)]])
            self.assertEqual(x.bitcast(dtypes.uint16).bitcast(dtype).tolist(), a)
            w = Tensor(a, dtype=dtype, requires_grad=True)
            (w * w).float().sum().backward()
            self.assertEqual((w.grad.dtype, w.grad.tolist()), (dtype, [2 * i for i in a]))

    def test_made_and_kept(self):
        for dtype, decode, _, _ in KINDS:
            self.assertEqual(Tensor.full((2,), 1.1, dtype=dtype).tolist(), [nearest(1.1, decode)] * 2)
            self.assertEqual((Tensor(3.5, dtype=dtype).item(), Tensor([[1, 2]], dtype=dtype).tolist()), (3.5, [[1, 2]]))
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "x.safetensors")
                safe_save({"x": Tensor([0.5, -3.0], dtype=dtype)}, path)
                back = safe_load(path)["x"]
            self.assertEqual((back.dtype, back.tolist()), (dtype, [0.5, -3]))


if __name__ == "__main__":
    unittest.main()
