# SPDX-License-Identifier: MIT
"""Base class of the tests of Tensor: a server with its interpreter device."""
import unittest

import beamline
from beamline import Device, expr
from beamline.ops import GraphOps
from served import ServedCase

INTERPRETER = ("--backends", "interp", "--log-level", "error")
OURS = ("data", "held", "input", "item", "to", "grad")


class TensorCase(ServedCase):
    """Tests whose Tensors are on a separate server."""

    options = INTERPRETER

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Device.connect(cls.server.url)

    @classmethod
    def tearDownClass(cls):
        Device.connect(cls.server.url)
        super().tearDownClass()

    def setUp(self):
        beamline.Tensor.manual_seed(1)
        beamline.Tensor.training = False

    def need(self, *tensors):
        """Skips the test if the server lacks one of the ops."""
        ops = {each.op for each in expr.linearize([tensor.expr for tensor in tensors])}
        lacking = sorted(op for op in ops if op not in OURS and not hasattr(GraphOps, op))
        if lacking:
            self.skipTest(f"the server has no {', '.join(lacking)}")
