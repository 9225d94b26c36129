# SPDX-License-Identifier: MIT
"""Hosted models with a data-dependent number of result rows."""
import base64
import json
import unittest

import hosting
import numpy as np
from test_import import BOXES, detected, kept_boxes

import served


class Counted(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def ask(self, path, document):
        self.host.connection.request("POST" if document is not None else "GET", f"/v2/{path}", json.dumps(document) if document is not None else None)
        reply = self.host.connection.getresponse()
        text = reply.read().decode()
        self.assertEqual(200, reply.status, text)
        return json.loads(text or "{}")

    def test_a_detector(self):
        model = base64.b64encode(kept_boxes().SerializeToString()).decode()
        self.ask("repository/models/detector/load", {"parameters": {"config": "{}", "file:1/model.onnx": model}})
        about = self.ask("models/detector", None)
        self.assertEqual({"s": [-1, 3], "kept": [-1, 4], "twice": [-1, 8], "side": [-1]}, {each["name"]: each["shape"] for each in about["outputs"]})
        for scores in (np.float32([[[0.9, 0.8, 0.7, 0.05, 0.6, 0.5], [0.2, 0.3, 0.01, 0.02, 0.6, 0.4]]]), np.zeros((1, 2, 6), np.float32)):
            inputs = [{"name": name, "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()} for name, array in (("boxes", BOXES), ("scores", scores))]
            answer = self.ask("models/detector/infer", {"inputs": inputs})
            for got, wanted in zip(answer["outputs"], detected(BOXES, scores), strict=True):
                self.assertEqual(list(wanted.shape), got["shape"])
                np.testing.assert_allclose(np.array(got["data"], wanted.dtype).reshape(got["shape"]), wanted)


if __name__ == "__main__":
    unittest.main()
