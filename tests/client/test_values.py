# SPDX-License-Identifier: MIT
"""Arrays and safetensors of the Python client, without a server."""
import json
import math
import struct
import unittest

from beamline import values
from beamline.values import Array, array, exact, numpy, read_safetensors, restore, write_safetensors

# dtype -> numbers that the dtype represents exactly
NUMBERS = {
    "bool": [True, False],
    "int8": [-128, 127],
    "int16": [-32768, 32767],
    "int32": [-2**31, 2**31 - 1],
    "int64": [-2**63, 2**63 - 1],
    "uint8": [0, 255],
    "uint16": [0, 65535],
    "uint32": [0, 2**32 - 1],
    "uint64": [0, 2**64 - 1],
    "float16": [1.5, -65504.0, 2.0**-24, math.inf],
    "float8_e4m3": [1.5, -448.0, 2.0**-9],
    "float8_e5m2": [1.5, -57344.0, 2.0**-16, math.inf],
    "bfloat16": [1.5, -2.0**100, math.inf],
    "float32": [1.5, 2.0**-149, -math.inf],
    "float64": [0.1, 5e-324, math.inf],
}


class ArrayTest(unittest.TestCase):
    def test_every_dtype_keeps_its_numbers(self):
        self.assertEqual(set(NUMBERS), set(values.DTYPES))
        for dtype, numbers in NUMBERS.items():
            with self.subTest(dtype):
                made = array(numbers, dtype)
                self.assertEqual(made.tolist(), numbers)
                self.assertEqual(made.shape, (len(numbers),))
                self.assertEqual(len(made.data), len(numbers) * values.DTYPES[dtype][0])

    def test_shapes(self):
        for nested, shape in ((5, ()), ([], (0,)), ([[], []], (2, 0)), ([[1, 2, 3]], (1, 3)), ([[[1], [2]]], (1, 2, 1))):
            with self.subTest(nested):
                made = array(nested, "int32")
                self.assertEqual((made.shape, made.tolist()), (shape, nested))
        for shape, nested in (((2, 3, 0), [[[]] * 3] * 2), ((2, 0, 3), [[], []]), ((0, 2), []), ((1, 1, 0, 2), [[[]]])):
            with self.subTest(shape):
                made = Array("int32", shape, b"").tolist()
                self.assertEqual(made, nested)
        made = Array("int32", (2, 0), b"").tolist()
        made[0].append(1)
        self.assertEqual(made, [[1], []])

    def test_what_does_not_fit_is_refused(self):
        for numbers, dtype, error in (([256], "uint8", OverflowError), ([2**63], "int64", OverflowError), ([1.5], "int32", TypeError),
                                      ([[1], [1, 2]], "int32", ValueError), ([1], "int31", ValueError)):
            with self.subTest(dtype=dtype, numbers=numbers):
                self.assertRaises(error, array, numbers, dtype)
        self.assertRaises(ValueError, Array, "int32", [2], b"1234")
        self.assertRaises(ValueError, array([1, 2]).item)

    def test_bfloat16_rounds_to_nearest_even(self):
        for word, rounded in ((0x3f808000, 0x3f80), (0x3f818000, 0x3f82), (0x3f808001, 0x3f81), (0x7f7fffff, 0x7f80)):
            number = struct.unpack("<f", struct.pack("<I", word))[0]
            self.assertEqual(array([number], "bfloat16").data, struct.pack("<H", rounded))
        self.assertTrue(math.isnan(array([math.nan], "bfloat16").item()))

    def test_float8_rounds_to_nearest_even(self):
        for dtype, number, code in (("float8_e4m3", 463.9, 0x7e), ("float8_e4m3", 464, 0x7e), ("float8_e4m3", -1.0625, 0xb8),
                                    ("float8_e4m3", 1.1875, 0x3a), ("float8_e5m2", 61439, 0x7b), ("float8_e5m2", -0.0, 0x80)):
            self.assertEqual(array([number], dtype).data, bytes([code]), (dtype, number))
        for dtype, number in (("float8_e4m3", 464.1), ("float8_e5m2", 61440)):
            self.assertRaises(OverflowError, array, [number], dtype)
        self.assertTrue(math.isnan(array([math.nan], "float8_e4m3").item()))

    def test_exact_and_restore(self):
        numbers = [1, 2.5, [math.inf, -math.inf], 2**63]
        self.assertEqual(json.loads(json.dumps(exact(numbers), allow_nan=False)), [1, 2.5, ["Infinity", "-Infinity"], 2**63])
        self.assertEqual(restore(exact(numbers)), numbers)
        self.assertTrue(math.isnan(restore(exact(math.nan))))


class SafetensorsTest(unittest.TestCase):
    def test_there_and_back(self):
        for use_numpy in [False] + [True] * (numpy is not None):
            tensors = {dtype: array([numbers, numbers], dtype) for dtype, numbers in NUMBERS.items()}
            tensors.update(scalar=array(7, "int64"), nothing=array([[], []], "float32"))
            back, metadata = read_safetensors(write_safetensors(tensors, {"request": "{}"}), use_numpy)
            self.assertEqual(metadata, {"request": "{}"})
            self.assertEqual(set(back), set(tensors))
            for name, value in back.items():
                with self.subTest(name, use_numpy=use_numpy):
                    self.assertEqual((value.tolist(), tuple(value.shape)), (tensors[name].tolist(), tensors[name].shape))

    def test_every_tensor_is_aligned(self):
        data = write_safetensors({"a": array([True], "bool"), "b": array([1.0], "float64"), "c": array([1], "int16")})
        size = struct.unpack("<Q", data[:8])[0]
        self.assertEqual(size % 8, 0)
        for name, entry in json.loads(data[8:8 + size]).items():
            self.assertEqual(entry["data_offsets"][0] % values.DTYPES[{v[1]: k for k, v in values.DTYPES.items()}[entry["dtype"]]][0], 0, name)

    def test_t17_damaged_files_are_refused(self):
        whole = write_safetensors({"x": array([1, 2], "int32")})
        size = struct.unpack("<Q", whole[:8])[0]

        def with_header(header):
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + whole[8 + size:]
        for data in (b"", b"1234567", struct.pack("<Q", 1 << 60) + b"{}", whole[:-1], with_header({"x": {
                "dtype": "I32", "shape": [3], "data_offsets": [0, 8]}}), with_header({"x": {
                    "dtype": "I32", "shape": [2], "data_offsets": [8, 0]}}), with_header({"x": {
                        "dtype": "I31", "shape": [2], "data_offsets": [0, 8]}})):
            with self.subTest(data[:40]):
                self.assertRaises(ValueError, read_safetensors, data)

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy_goes_in(self):
        given = numpy.arange(12, dtype=">i4").reshape(3, 4).T  # neither contiguous nor little-endian
        back, _ = read_safetensors(write_safetensors({"x": given}), True)
        self.assertEqual(back["x"].tolist(), given.tolist())
        self.assertEqual(back["x"].dtype, numpy.dtype("<i4"))


if __name__ == "__main__":
    unittest.main()
