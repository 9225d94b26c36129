# SPDX-License-Identifier: MIT
"""Whole models with recorded outputs (BEAMLINE_DATA), on the default device."""
import os
import pathlib
import unittest

import hosting
import numpy as np
import onnx

import served

DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", ""))
# file -> (opset, named dimensions, largest difference to the recorded outputs, relative to the largest output)
MODELS = {
    "onnx/mnist-cntk/model.onnx": ("", 1e-5),
    "onnx/mnist-burn/mnist.onnx": ("", 1e-5),
    "squeezenet/squeezenet_v1.0.onnx": ("?dims=n:1-2", 1e-5),
}


def read_tensor(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(tensor)


@unittest.skipUnless(os.environ.get("BEAMLINE_DATA") and (DATA / "onnx").is_dir(), "BEAMLINE_DATA does not name a folder with onnx")
class Models(served.ServedCase):
    options = ("--log-level", "error")

    def test_recorded_outputs(self):
        for file, (query, bound) in MODELS.items():
            host = hosting.Host(self.server.port)
            program = host.put((DATA / file).read_bytes(), query)
            sets = sorted((DATA / file).parent.glob("test_data_set_*"))
            self.assertTrue(sets)
            for each in sets:
                with self.subTest(file, set=each.name):
                    wanted = read_tensor(each / "output_0.pb")
                    got, = host.run(program, [read_tensor(each / "input_0.pb")])
                    self.assertEqual(wanted.size, got.size)
                    worst = np.abs(got.ravel() - wanted.ravel()).max() / np.abs(wanted).max()
                    self.assertLess(worst, bound)
            host.close()


if __name__ == "__main__":
    unittest.main()
