# SPDX-License-Identifier: MIT
"""Winograd convolutions: the setting, the attribute that overrides it, agreement of both forms, and reproducible bits."""

import unittest

from fixture import Server


def conv(form="auto", width=8, **members):
    """Returns the sum of squares of each channel, and the gradient of their sum to the weight."""
    attrs = {"form": form}
    nodes = [{"id": "x", "op": "normal", "attrs": {"shape": [4, width, 14, 14], "seed": 1}},
             {"id": "w", "op": "normal", "attrs": {"shape": [width, width, 3, 3], "seed": 2}},
             {"id": "y", "op": "conv2d", "in": ["x", "w"], "attrs": attrs}, {"id": "q", "op": "square", "in": ["y"]},
             {"id": "s", "op": "sum", "in": ["q"], "attrs": {"axis": [0, 2, 3]}}, {"id": "t", "op": "sum", "in": ["q"]},
             {"id": ["dw"], "op": "grad", "in": ["t", "w"]}, {"id": "d", "op": "sum", "in": ["dw"], "attrs": {"axis": [1, 2, 3]}}]
    return {"inputs": {}, "nodes": nodes, "outputs": ["s", "d"], "debug": 3, **members}


class Winograd(unittest.TestCase):
    def start(self, *args):
        server = Server("--backends", "interp,opencl", *args)
        self.addCleanup(server.stop)
        return server

    def run_conv(self, server, **members):
        answer = server.call("POST", "/api/v1/run", conv(**members), timeout=240)
        self.assertEqual(200, answer.status, answer.body[:500])
        return answer.json

    def by_transforms(self, answer):
        """A transform has 16 or 36 positions as its first axis."""
        return any(f"kernel e_{places}_" in answer["stats"]["debug"] for places in (16, 36))

    def assert_close(self, a, b):
        for name in ("s", "d"):
            largest = max(map(abs, a["outputs"][name]["data"]))
            for left, right in zip(a["outputs"][name]["data"], b["outputs"][name]["data"], strict=True):
                self.assertAlmostEqual(left, right, delta=1e-5 * largest)

    def test_setting_and_attribute(self):
        for level, expected in ((0, (False, False, True)), (2, (True, False, True))):
            with self.subTest(level=level):
                server = self.start("--winograd", str(level))
                answers = [self.run_conv(server, form=form) for form in ("auto", "direct", "winograd")]
                self.assertEqual(expected, tuple(map(self.by_transforms, answers)))
                for answer in answers[1:]:
                    self.assert_close(answers[0], answer)
                server.stop()

    def test_the_same_bits_each_time(self):
        server = self.start()
        first = self.run_conv(server, form="winograd")
        for _ in range(3):
            again = self.run_conv(server, form="winograd")
            self.assertEqual(("cached", first["outputs"]), (again["stats"]["plan"], again["outputs"]))

    def test_other_words(self):
        server = self.start()
        answer = server.call("POST", "/api/v1/run", conv(form="fast"))
        self.assertEqual(422, answer.status)
        self.assertIn("form", answer.json["detail"])


if __name__ == "__main__":
    unittest.main()
