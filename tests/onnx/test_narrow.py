# SPDX-License-Identifier: MIT
"""Element types that are stored in wider dtypes: each code in a file, and casts of many floats, against ml_dtypes."""
import unittest

import hosting
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

import served

FLOATS = {TensorProto.FLOAT4E2M1: (ml_dtypes.float4_e2m1fn, 4), TensorProto.FLOAT8E4M3FNUZ: (ml_dtypes.float8_e4m3fnuz, 8),
          TensorProto.FLOAT8E5M2FNUZ: (ml_dtypes.float8_e5m2fnuz, 8), TensorProto.FLOAT8E8M0: (ml_dtypes.float8_e8m0fnu, 8)}
INTEGERS = {TensorProto.INT2: (2, -2), TensorProto.UINT2: (2, 0), TensorProto.INT4: (4, -8), TensorProto.UINT4: (4, 0)}


def model(nodes, inputs, outputs, initialisers=()):
    return helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs, list(initialisers)), ir_version=13, opset_imports=[helper.make_opsetid("", 25)])


def cast(to, shape, back=True, **attributes):
    """Casts float -> the type -> float; the wire has the values."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=to, **attributes), helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)]
    return model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)])


def samples(dtype, bits):
    """Values of the type, midpoints between neighbours, and numbers slightly beside them; and random numbers of all
    magnitudes."""
    of = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float32)
    of = np.unique(of[np.isfinite(of)])
    middle = ((of[1:].astype(np.float64) + of[:-1]) / 2).astype(np.float32)
    around = np.concatenate([of, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])
    rng = np.random.default_rng(3)
    wide = rng.standard_normal(500).astype(np.float32) * np.exp2(rng.integers(-24, 20, 500)).astype(np.float32)
    return np.concatenate([around, wide, np.array([0, -0.0, 1e-30, 1e30, -1e30], np.float32)])


class Narrow(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def run_model(self, built, *arrays):
        return self.host.run(self.host.put(built), arrays)[0]

    def test_casts_of_floats(self):
        for kind, (dtype, bits) in FLOATS.items():
            if kind == TensorProto.FLOAT8E8M0:
                continue
            x = samples(dtype, bits)
            most = float(ml_dtypes.finfo(dtype).max)
            fits = x[np.abs(x) <= most]
            got = self.run_model(cast(kind, [len(fits)]), fits)
            np.testing.assert_array_equal(got, fits.astype(dtype).astype(np.float32), TensorProto.DataType.Name(kind))
            large = np.array([most * 1.01, -most * 4, np.inf, -np.inf, np.nan], np.float32)
            got = self.run_model(cast(kind, [5]), large)
            np.testing.assert_array_equal(got, [most, -most, most, -most, 0 if bits == 4 else np.nan], TensorProto.DataType.Name(kind))
            if bits == 8:
                got = self.run_model(cast(kind, [len(x)], saturate=0), x)
                np.testing.assert_array_equal(got, x.astype(dtype).astype(np.float32), TensorProto.DataType.Name(kind))

    def test_casts_to_powers(self):
        x = np.array([1, 1.1, 1.5, 1.6, 3, 4, 0.3, 2.0**-100, 3e38, np.nan, np.inf], np.float32)
        wanted = {"up": [1, 2, 2, 2, 4, 4, 0.5, 2.0**-100, 2.0**127, np.nan, np.nan], "down": [1, 1, 1, 1, 2, 4, 0.25, 2.0**-100, 2.0**127, np.nan, np.nan],
                  "nearest": [1, 1, 2, 2, 4, 4, 0.25, 2.0**-100, 2.0**127, np.nan, np.nan]}
        for mode, values in wanted.items():
            got = self.run_model(cast(TensorProto.FLOAT8E8M0, [len(x)], round_mode=mode), x)
            np.testing.assert_array_equal(got, np.array(values, np.float32), mode)
        with self.assertRaisesRegex(hosting.Refused, 'round_mode is "sideways"; it must be up, down or nearest'):
            self.host.put(cast(TensorProto.FLOAT8E8M0, [1], round_mode="sideways"))

    def test_each_code_of_a_file(self):
        def read(kind, bits, count):
            packed = np.zeros(count * bits // 8, np.uint8)
            for i in range(count):
                packed[i * bits // 8] |= i % 2**bits << (i * bits % 8)
            tensor = TensorProto(name="w", data_type=kind, dims=[count], raw_data=packed.tobytes())
            nodes = [helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["f", "x"], ["y"])]
            built = model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [count])], [tensor])
            return self.run_model(built, np.zeros(1, np.float32))

        for kind, (dtype, bits) in FLOATS.items():
            codes = np.arange(2**bits, dtype=np.uint8)
            got = read(kind, bits, 2**bits)
            np.testing.assert_array_equal(got, codes.view(dtype).astype(np.float32) + 0, TensorProto.DataType.Name(kind))
        for kind, (bits, least) in INTEGERS.items():
            got = read(kind, bits, 16)
            wanted = [(code - least) % 2**bits + least for code in range(16)]
            np.testing.assert_array_equal(got, wanted, TensorProto.DataType.Name(kind))

    def test_bits_are_not_to_be_had(self):
        nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT2), helper.make_node("BitCast", ["y"], ["z"], to=TensorProto.INT8)]
        built = model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])], [helper.make_tensor_value_info("z", TensorProto.INT8, [4])])
        built.opset_import[0].version = 26
        with self.assertRaisesRegex(hosting.Refused, "BitCast.*is stored in a wider type"):
            self.host.put(built)


class OnTheDefaultDevice(Narrow):
    options = ("--log-level", "error")


if __name__ == "__main__":
    unittest.main()
