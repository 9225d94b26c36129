# SPDX-License-Identifier: MIT
"""Block-quantised weights on every device: values against gguf-py 0.19's ``dequantize``, products against float64."""
import pathlib
import subprocess
import sys
import unittest
import zlib

import numpy as np

import beamline
from blocks import TYPES, blocks
from beamline.graph import Graph
from served import SERVER, ServedCase

PLANES = SERVER.parent / "planes"
ROWS, SEED = 7, 1
# format: CRC-32 of gguf-py's float32 values of blocks(format, ROWS, columns_of(format))
CRCS = {
    "q8_0": 0x97dcef0f, "q4_0": 0xe6f66464, "q4_1": 0xb718839e, "q5_0": 0xba42bb4a, "q5_1": 0x659d3fb7, "q2_k": 0xae5a6ef0, "q3_k": 0xee2a18da,
    "q4_k": 0x9b72b727, "q5_k": 0xae014bf8, "q6_k": 0x29ba5ffd, "iq4_nl": 0x7e4be301, "iq4_xs": 0x65439d27, "mxfp4": 0x15a56aad,
}
MOST_ERROR = 1e-10  # of a float32 product: mean square error relative to the result


def columns_of(form):
    return 768 if TYPES[form][0] == 256 else 288


def planes_of(form, rows, columns, data):
    """Returns the planes of bl_quant_fill as (dtype, array)."""
    done = subprocess.run([PLANES, form, str(rows), str(columns)], input=data.tobytes(), capture_output=True, check=True)
    planes, at = [], 0
    for line in done.stderr.decode().splitlines():
        dtype, *shape = line.split()
        kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
        shape = [int(extent) for extent in shape]
        count = int(np.prod(shape))
        array = np.frombuffer(done.stdout, kind, count, at).reshape(shape)
        at += count * kind.itemsize
        if dtype == "bfloat16":  # numpy has no bfloat16
            array = (array.astype(np.uint32) << 16).view(np.float32)
        planes.append((dtype, array))
    assert at == len(done.stdout)
    return planes


class Quantised(ServedCase):
    def inputs(self, graph, planes):
        nodes = [graph.input(f"plane{i}", list(array.shape), str(array.dtype)) for i, (_, array) in enumerate(planes)]
        nodes = [node if dtype != "bfloat16" else node.cast(dtype) for node, (dtype, _) in zip(nodes, planes)]
        return nodes, {f"plane{i}": array for i, (_, array) in enumerate(planes)}

    def devices(self):
        return [device["id"] for device in self.client.devices()]

    def values(self, form, device, index):
        planes = planes_of(form, ROWS, columns_of(form), blocks(form, ROWS, columns_of(form), SEED))
        graph = Graph()
        nodes, inputs = self.inputs(graph, planes)
        graph.output(rows=graph.input("index", list(np.shape(index)), "int32").block_take(nodes, form, rows=ROWS))
        return planes, self.client.run(graph, {"index": np.array(index, np.int32), **inputs}, **({"device": device} if device else {}))["rows"]

    def test_values(self):
        for form in TYPES:
            for device in self.devices():
                with self.subTest(form=form, device=device):
                    _, rows = self.values(form, device, list(range(ROWS)))
                    self.assertEqual((ROWS, columns_of(form)), rows.shape)
                    self.assertEqual(f"{CRCS[form]:08x}", f"{zlib.crc32(np.ascontiguousarray(rows).tobytes()):08x}")

    def test_products(self):
        draw = np.random.default_rng(5)
        for form in TYPES:
            for device in self.devices():
                planes, rows = self.values(form, device, list(range(ROWS)))
                for shape in ((1,), (3,), (2, 17)):
                    with self.subTest(form=form, device=device, shape=shape):
                        x = draw.normal(size=(*shape, columns_of(form))).astype(np.float32)
                        graph = Graph()
                        nodes, inputs = self.inputs(graph, planes)
                        graph.output(y=graph.input("x", list(x.shape)).block_linear(nodes, form, rows=ROWS))
                        y = self.client.run(graph, {"x": x, **inputs}, device=device)["y"]
                        exact = x.astype(np.float64) @ rows.astype(np.float64).T
                        self.assertEqual(exact.shape, y.shape)
                        self.assertLess(((y - exact) ** 2).sum() / (exact ** 2).sum(), MOST_ERROR)

    def test_odd_numbers_of_rows_and_one_block(self):
        for form in ("q4_0", "q5_1", "q6_k", "q8_0"):
            block = TYPES[form][0]
            for rows in (1, 2, 33):
                planes = planes_of(form, rows, block, blocks(form, rows, block, 9))
                graph = Graph()
                nodes, inputs = self.inputs(graph, planes)
                graph.output(y=graph.input("x", [3, block]).block_linear(nodes, form, rows=rows),
                             w=graph.arange(stop=rows, dtype="int32").block_take(nodes, form, rows=rows))
                x = np.random.default_rng(rows).normal(size=(3, block)).astype(np.float32)
                got = self.client.run(graph, {"x": x, **inputs})
                exact = x.astype(np.float64) @ got["w"].astype(np.float64).T
                self.assertLess(((got["y"] - exact) ** 2).sum() / (exact ** 2).sum(), MOST_ERROR)

    def test_named_sizes_and_indices(self):
        planes, rows = self.values("q4_1", None, list(range(ROWS)))
        graph = Graph()
        nodes, inputs = self.inputs(graph, planes)
        graph.dim("n", 1, 40)
        graph.output(y=graph.input("x", ["n", columns_of("q4_1")]).block_linear(nodes, "q4_1", rows=ROWS),
                     w=graph.input("index", ["n"], "int32").block_take(nodes, "q4_1", rows=ROWS))
        for n in (1, 5, 40):
            x = np.random.default_rng(n).normal(size=(n, columns_of("q4_1"))).astype(np.float32)
            index = np.arange(n, dtype=np.int32) % (2 * ROWS) - ROWS  # negative indices count from the end
            got = self.client.run(graph, {"x": x, "index": index, **inputs})
            np.testing.assert_array_equal(rows[index], got["w"])
            exact = x.astype(np.float64) @ rows.astype(np.float64).T
            self.assertLess(((got["y"] - exact) ** 2).sum() / (exact ** 2).sum(), MOST_ERROR)

    def test_leading_dimensions(self):
        """Matrices selected by ``take`` from each plane, like experts."""
        experts, rows, chosen = 3, 32, np.array([2, 0, 2, 1, 1], np.int32)
        form, columns = "q4_k", 256
        planes = planes_of(form, experts * rows, columns, blocks(form, experts * rows, columns, 3))
        graph = Graph()
        nodes, inputs = self.inputs(graph, planes)
        which = graph.input("which", [5], "int32")
        shaped = [node.reshape([experts, rows // 16, *array.shape[1:]]).take(which) for node, (_, array) in zip(nodes, planes)]
        x = np.random.default_rng(0).normal(size=(5, 2, columns)).astype(np.float32)
        graph.output(y=graph.input("x", list(x.shape)).block_linear(shaped, form, rows=27),
                     w=graph.arange(stop=experts * rows, dtype="int32").block_take(nodes, form))
        got = self.client.run(graph, {"x": x, "which": chosen, **inputs})
        w = got["w"].astype(np.float64).reshape(experts, rows, columns)[chosen]
        exact = np.einsum("enk,erk->enr", x.astype(np.float64), w)[:, :, :27]
        self.assertEqual(exact.shape, got["y"].shape)
        self.assertLess(((got["y"] - exact) ** 2).sum() / (exact ** 2).sum(), MOST_ERROR)

    def test_rounded_activations(self):
        """Products of int8 and codes are exact: the result differs from the rounded x times the weights by float32's rounding alone."""
        draw = np.random.default_rng(8)
        for form in TYPES:
            for device in self.devices():
                planes, rows = self.values(form, device, list(range(ROWS)))
                for shape in ((1,), (2, 17)) if device != "vulkan:0" else ((1,),):  # lavapipe compiles a tile of rows for seconds
                    with self.subTest(form=form, device=device, shape=shape):
                        x = draw.normal(size=(*shape, columns_of(form))).astype(np.float32)
                        x[..., 32:64] = 0  # a chunk of zeros
                        graph = Graph()
                        nodes, inputs = self.inputs(graph, planes)
                        graph.output(y=graph.input("x", list(x.shape)).block_linear(nodes, form, rows=ROWS, activations="int8"))
                        y = self.client.run(graph, {"x": x, **inputs}, device=device)["y"]
                        if form in ("iq4_nl", "iq4_xs", "mxfp4"):  # their values are no multiples of a scale
                            self.assertLess(((y - x @ rows.T) ** 2).sum() / ((x @ rows.T) ** 2).sum(), MOST_ERROR)
                            continue
                        chunks = x.reshape(*shape, -1, 32)
                        largest = np.abs(chunks).max(axis=-1, keepdims=True)
                        per = np.where(largest > 0, np.float32(127) / np.maximum(largest, np.float32(1e-30)), np.float32(0))
                        steps = np.rint(chunks * per).astype(np.float64)  # of products in float32
                        exact = (steps * largest / 127).reshape(x.shape) @ rows.astype(np.float64).T
                        # GLSL's division is inexact, so some elements of x are rounded to the next step
                        self.assertLess(((y - exact) ** 2).sum() / (exact ** 2).sum(), 1e-6 if device.startswith("vulkan") else 1e-9)

    def test_gradients(self):
        for form in ("q4_1", "q3_k", "q5_0", "q8_0"):
            planes, rows = self.values(form, None, list(range(ROWS)))
            graph = Graph()
            nodes, inputs = self.inputs(graph, planes)
            x = graph.input("x", [4, columns_of(form)])
            y = x.block_linear(nodes, form, rows=ROWS)
            scale = np.arange(4 * ROWS, dtype=np.float32).reshape(4, ROWS)
            loss = (y * graph.input("scale", [4, ROWS])).sum()
            graph.output(g=graph.grad(loss, [x])[0])
            zeros = np.zeros((4, columns_of(form)), np.float32)
            got = self.client.run(graph, {"x": zeros, "scale": scale, **inputs})["g"]
            np.testing.assert_allclose(scale @ rows, got, rtol=1e-5, atol=1e-5)
            graph.output(wrong=graph.grad(loss, [nodes[0]])[0])
            with self.assertRaisesRegex(beamline.BeamlineError, "must be floats, not int32"):
                self.client.run(graph, {"x": zeros, "scale": scale, **inputs})

    def test_gradients_of_scales(self):
        """Gradients of the scales, and their gradients to x: a product is linear in each."""
        (_, codes), (_, scale) = planes_of("q8_0", ROWS, 96, blocks("q8_0", ROWS, 96))
        draw = np.random.default_rng(2)
        given = {"x": draw.normal(size=(4, 96)), "ct": draw.normal(size=(4, ROWS)), "v": draw.normal(size=scale.shape), "scale": scale}
        given = {name: value.astype(np.float32) for name, value in given.items()}
        graph = Graph()
        x, ct, v, s = [graph.input(name, list(value.shape)) for name, value in given.items()]
        planes = [graph.input("codes", list(codes.shape), "int32"), s.cast("float16")]
        first = graph.grad((x.block_linear(planes, "q8_0", rows=ROWS) * ct).sum(), [s])[0]
        rows = graph.arange(stop=ROWS, dtype="int32").block_take(planes, "q8_0", rows=ROWS)
        graph.output(first=first, second=graph.grad((first * v).sum(), [x])[0], rows=graph.grad(rows.sum(), [s])[0])
        got = self.client.run(graph, {**given, "codes": codes})
        values = codes.view(np.uint8).reshape(1, 3, 8, 16, 4).astype(np.float64) - 128  # group, chunk, word, row, byte
        values = values.transpose(0, 3, 1, 2, 4).reshape(16, 96)[:ROWS]
        by_scale = lambda x: np.pad(x.reshape(ROWS, 3, 32).sum(-1), ((0, 9), (0, 0))).T[None]
        for name, wanted in (("first", by_scale(values * (given["ct"].T @ given["x"]))),
                             ("second", given["ct"] @ (values * np.repeat(given["v"][0].T[:ROWS], 32, axis=1))), ("rows", by_scale(values))):
            np.testing.assert_allclose(got[name], wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max(), err_msg=name)

    def test_refusals(self):
        planes = planes_of("q4_1", ROWS, 64, blocks("q4_1", ROWS, 64))
        cases = [("q4_1", [0, 1], 64, "format q4_1 has 3 planes, got 2"), ("q4_0", [0, 1, 2], 64, "format q4_0 has 2 planes, got 3"),
                 ("q4_1", [1, 0, 2], 64, r"codes must have shape \[.., rows / 16, columns / 32, 4, 16\]"), ("q5_1", [0, 1, 2, 2], 64, "plane high of format q5_1 must be int32"),
                 ("q4_1", [0, 1, 2], 32, r"x must have shape \[.., 64\]"), ("q4_k", [0, 1, 1, 1, 1], 64, "2 chunks of 32 codes are not a whole number of blocks of 256"),
                 ("q9", [0, 1, 2], 64, "format")]
        for form, which, width, message in cases:
            graph = Graph()
            nodes, inputs = self.inputs(graph, planes)
            graph.output(y=graph.input("x", [2, width]).block_linear([nodes[i] for i in which], form))
            with self.assertRaisesRegex(beamline.BeamlineError, message):
                self.client.run(graph, {"x": np.zeros((2, width), np.float32), **inputs})


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
    unittest.main()
