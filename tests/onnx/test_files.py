# SPDX-License-Identifier: MIT
"""Published models against onnxruntime: speech and pictures, with recurrent networks over named lengths and input-dependent
branches."""
import pathlib
import unittest

import packages

packages.install(packages.RUNTIME)

import files  # noqa: E402
import hosting  # noqa: E402

import served  # noqa: E402

# package, file of its wheel -> sizes of named dimensions, values of inputs
MODELS = {
    ("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx"): ({"seq_len": [1, 40, 7]}, {}),
    ("livekit-plugins-silero==1.8.9", "livekit/plugins/silero/resources/silero_vad.onnx"): (
        {"input.0": [1, 2, 3], "input.1": [576, 576, 512], "state.1": [1, 2, 3]}, {"sr": 16000}),
    ("captcha-whisperer==0.1.0", "captcha_whisperer/models/captcha_crnn.onnx"): ({}, {}),
    ("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/whisper80_conv.onnx"): ({"batch_size": [1, 2, 3], "N": [1600, 3000, 4801]}, {"waveforms_lens": 1600}),
}


class Files(served.ServedCase):
    options = ("--log-level", "error")

    def test_like_onnxruntime(self):
        for (package, member), (sizes, values) in MODELS.items():
            with self.subTest(package, file=pathlib.PurePosixPath(member).name):
                host = hosting.Host(self.server.port)
                self.addCleanup(host.close)
                worst, _ = files.compare(host, packages.model_file(package, member), sizes, values)
                self.assertLess(worst, 1e-4)


if __name__ == "__main__":
    unittest.main()
