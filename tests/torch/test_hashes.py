# SPDX-License-Identifier: MIT
"""Keccak against hashlib: lengths around a block, several rows, outputs of more than a block, and the tree of the op hash."""

import hashlib
import sys
import unittest

import torch

from service import DeviceTest, Refused, on_each_device

KINDS = {"sha3_224": (hashlib.sha3_224, 144), "sha3_256": (hashlib.sha3_256, 136), "shake_128": (hashlib.shake_128, 168)}


def digest(kind, data, size=16):
    made = KINDS[kind][0](data)
    return made.digest(size) if kind.startswith("shake") else made.digest()


def tree(data):
    """The definition of the op hash for up to a MiB."""
    data = data + bytes(-len(data) % (1 << 20) if data else 1 << 20)
    return digest("shake_128", b"".join(digest("shake_128", data[at:at + 4096]) for at in range(0, len(data), 4096)))


def draw(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


@on_each_device
class Hashes(DeviceTest):
    def apply(self, op, x, **attrs):
        return self.run_graph([{"id": "y", "op": op, "in": ["x"], "attrs": attrs}], ["y"], {"x": x})["y"]

    def check(self, kind, x, **attrs):
        y = self.apply(kind, x, **attrs)
        rows = [bytes(row.tolist()) for row in x.reshape(-1, x.shape[-1])] if x.numel() else [b""] * x.shape[:-1].numel()
        self.assertEqual([digest(kind, row, *attrs.values()) for row in rows], [bytes(row.tolist()) for row in y.reshape(len(rows), -1)])
        self.assertEqual(x.shape[:-1], y.shape[:-1])

    def test_lengths(self):
        torch.manual_seed(0)
        for kind, (_, rate) in KINDS.items():
            for length in (0, 1, 7, 8, rate - 1, rate, rate + 1, 2 * rate + 5):
                with self.subTest(kind=kind, length=length):
                    self.check(kind, draw(length))

    def test_rows(self):
        torch.manual_seed(1)
        self.check("sha3_256", draw(2, 3, 20))
        self.check("sha3_256", draw(5, 0))

    def test_long_outputs(self):
        torch.manual_seed(2)
        for size in (1, 168, 169, 400):
            with self.subTest(size=size):
                self.check("shake_128", draw(3, 9), size=size)

    def test_other_sponges(self):
        x = draw(2, 100)
        y = self.apply("keccak", x, rate=72, suffix=6, size=64)
        self.assertEqual(hashlib.sha3_512(bytes(x[1].tolist())).digest(), bytes(y[1].tolist()))
        y = self.apply("keccak", x, rate=136, suffix=31, size=40)
        self.assertEqual(hashlib.shake_256(bytes(x[0].tolist())).digest(40), bytes(y[0].tolist()))

    def test_what_is_no_hash(self):
        bad = ((torch.zeros(3), {}, "takes bytes of uint8"), (draw(3)[0], {}, "along the last axis"), (draw(3), {"rate": 0}, "rate must be"),
               (draw(3), {"rate": 200}, "rate must be"), (draw(3), {"rate": 12}, "rate must be"), (draw(3), {"suffix": 128}, "suffix must be"),
               (draw(3), {"size": 0}, "size must be"), (draw(3), {"size": 2**40}, "size must be"))
        for x, attrs, words in bad:
            with self.subTest(attrs=attrs), self.assertRaisesRegex(Refused, f"422: keccak: .*{words}"):
                self.apply("keccak", x, **attrs)

    def test_tree(self):
        if self.device.startswith("interp"):
            self.skipTest("a MiB of bytes, on the drivers only: one launch of the interpreter after the other")
        torch.manual_seed(3)
        for x in (torch.randn(5, 7), draw(0)):
            self.assertEqual(tree(x.numpy().tobytes()), bytes(self.apply("hash", x).tolist()))


if __name__ == "__main__":
    sys.exit(unittest.main())
