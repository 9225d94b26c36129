# SPDX-License-Identifier: MIT
"""GGUF files with generated blocks, compared with loops over the elements; ggml-common.h has the layouts of the blocks."""
import math
import pathlib
import random
import struct
import tempfile

from beamline import Tensor, dtypes
from beamline.nn.state import gguf_load
from tensors import TensorCase, unittest


def half(data, at):
    """Decodes the float16 at a byte offset."""
    return struct.unpack_from("<e", data, at)[0]


def q4_0(b):
    return [half(b, 0) * ((b[2 + i % 16] >> 4 * (i // 16) & 15) - 8) for i in range(32)]


def q4_1(b):
    return [half(b, 0) * (b[4 + i % 16] >> 4 * (i // 16) & 15) + half(b, 2) for i in range(32)]


def fifth(b, at, i):
    return (struct.unpack_from("<I", b, at)[0] >> i & 1) << 4


def q5_0(b):
    return [half(b, 0) * ((b[6 + i % 16] >> 4 * (i // 16) & 15 | fifth(b, 2, i)) - 16) for i in range(32)]


def q5_1(b):
    return [half(b, 0) * (b[8 + i % 16] >> 4 * (i // 16) & 15 | fifth(b, 4, i)) + half(b, 2) for i in range(32)]


def q8_0(b):
    return [half(b, 0) * each for each in struct.unpack_from("<32b", b, 2)]


def scale_and_min(q, j):
    """Decodes scale and minimum of part j of a block: six bits each; for the last four parts the upper two bits are in the
    bytes of the first four parts."""
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return q[j + 4] & 15 | q[j - 4] >> 6 << 4, q[j + 4] >> 4 | q[j] >> 6 << 4


def q4_k(b):
    values = []
    for j in range(8):
        scale, least = scale_and_min(b[4:16], j)
        low = b[16 + 32 * (j // 2):48 + 32 * (j // 2)]
        values += [half(b, 0) * scale * (q >> 4 * (j % 2) & 15) - half(b, 2) * least for q in low]
    return values


def q5_k(b):
    values = []
    for j in range(8):
        scale, least = scale_and_min(b[4:16], j)
        low = b[48 + 32 * (j // 2):80 + 32 * (j // 2)]
        values += [half(b, 0) * scale * ((q >> 4 * (j % 2) & 15) + 16 * (b[16 + i] >> j & 1)) - half(b, 2) * least
                   for i, q in enumerate(low)]
    return values


def q6_k(b):
    values = [0.0] * 256
    for part in range(2):
        low, high, scales = b[64 * part:64 * part + 64], b[128 + 32 * part:160 + 32 * part], b[192 + 8 * part:200 + 8 * part]
        for i in range(32):
            fours = (low[i] & 15, low[i + 32] & 15, low[i] >> 4, low[i + 32] >> 4)
            for k in range(4):
                q = (fours[k] | (high[i] >> 2 * k & 3) << 4) - 32
                scale = struct.unpack("<b", scales[i // 16 + 2 * k:i // 16 + 2 * k + 1])[0]
                values[128 * part + 32 * k + i] = half(b, 208) * scale * q
    return values


def mxfp4(b):
    steps = [0, .5, 1, 1.5, 2, 3, 4, 6]
    codes = [b[1 + i % 16] >> 4 * (i // 16) & 15 for i in range(32)]
    return [math.copysign(steps[code & 7], -1 if code & 8 else 1) * 2.0 ** (b[0] - 127) for code in codes]


# kind: (its number, elements of a block, bytes of a block, offsets of its float16 fields, decoder of its elements)
KINDS = {"Q4_0": (2, 32, 18, (0,), q4_0), "Q4_1": (3, 32, 20, (0, 2), q4_1), "Q5_0": (6, 32, 22, (0,), q5_0),
         "Q5_1": (7, 32, 24, (0, 2), q5_1), "Q8_0": (8, 32, 34, (0,), q8_0), "Q4_K": (12, 256, 144, (0, 2), q4_k),
         "Q5_K": (13, 256, 176, (0, 2), q5_k), "Q6_K": (14, 256, 210, (208,), q6_k), "MXFP4": (39, 32, 17, (), mxfp4)}
PLAIN = {"F32": (0, "f"), "F16": (1, "e"), "I8": (24, "b"), "I16": (25, "h"), "I32": (26, "i"), "I64": (27, "q"), "F64": (28, "d")}


def text(word):
    return struct.pack("<Q", len(word)) + word.encode()


def make_file(tensors, metadata=b"", keys=0, version=3, alignment=32):
    """Makes a file.  tensors: {name: (shape, kind, bytes)}; metadata: encoded."""
    head, body = b"GGUF" + struct.pack("<IQQ", version, len(tensors), keys) + metadata, b""
    for name, (shape, kind, data) in tensors.items():
        sizes = b"".join(struct.pack("<Q", n) for n in shape[::-1])
        head += text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % alignment)
    return head + bytes(-len(head) % alignment) + body


class GgufTest(TensorCase):
    def load(self, data):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "made.gguf")
            path.write_bytes(data)
            metadata, found = gguf_load(path)
            Tensor.realize(*found.values()) if found else None  # before the file is deleted
        return metadata, found

    def test_blocks(self):
        chance, tensors, expected = random.Random(7), {}, {}
        for name, (number, per, size, halves, decode) in KINDS.items():
            blocks = []
            for _ in range(6):
                block = bytearray(chance.randbytes(size))
                for at in halves:
                    struct.pack_into("<e", block, at, chance.uniform(-2, 2))
                if name == "MXFP4":
                    block[0] = chance.randrange(100, 150)
                blocks.append(bytes(block))
            tensors[name] = ((3, 2 * per), number, b"".join(blocks))
            expected[name] = [value for block in blocks for value in decode(block)]
        metadata, found = self.load(make_file(tensors))
        self.assertEqual((metadata, list(found)), ({}, list(KINDS)))
        for name, tensor in found.items():
            self.assertEqual((tensor.shape, tensor.dtype), (tensors[name][0], dtypes.float32), name)
            for i, (value, wanted) in enumerate(zip(tensor.flatten().tolist(), expected[name])):
                self.assertLessEqual(abs(value - wanted), 1e-5 * max(1, abs(wanted)), (name, i))

    def test_plain_kinds(self):
        tensors = {name: ((2, 3), number, struct.pack(f"<6{letter}", *range(-2, 4))) for name, (number, letter) in PLAIN.items()}
        tensors["BF16"] = ((6,), 30, b"".join(struct.pack("<f", each)[2:] for each in (-2, -1, 0, 1, 2, 3)))
        _, found = self.load(make_file(tensors, alignment=32))
        for name, tensor in found.items():
            self.assertEqual((tensor.flatten().tolist(), tensor.shape), ([-2, -1, 0, 1, 2, 3], tensors[name][0]), name)
        self.assertEqual([found[name].dtype for name in ("F32", "F16", "I8", "I64", "F64", "BF16")],
                         [dtypes.float32, dtypes.float16, dtypes.int8, dtypes.int64, dtypes.float64, dtypes.bfloat16])

    def test_metadata(self):
        scalars = [(0, "B", 200), (1, "b", -5), (2, "H", 60000), (3, "h", -300), (4, "I", 4 * 10**9), (5, "i", -70000), (6, "f", 1.5),
                   (7, "?", True), (10, "Q", 2**63), (11, "q", -2**40), (12, "d", 0.1)]
        data = b"".join(text(f"k{kind}") + struct.pack("<I" + letter, kind, value) for kind, letter, value in scalars)
        data += text("word") + struct.pack("<I", 8) + text("tiny")
        data += text("list") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("")
        data += text("lists") + struct.pack("<IIQ", 9, 9, 2) + struct.pack("<IQ2i", 5, 2, 1, -1) + struct.pack("<IQ", 4, 0)
        data += text("general.alignment") + struct.pack("<II", 4, 64)
        for version in (2, 3):
            metadata, found = self.load(make_file({"a": ((1,), 24, b"\1"), "b": ((2,), 24, b"\2\3")}, data, len(scalars) + 4, version, 64))
            self.assertEqual({key: metadata[key] for key in ("word", "list", "lists", "general.alignment")},
                             {"word": "tiny", "list": ["a", ""], "lists": [[1, -1], []], "general.alignment": 64})
            self.assertEqual([metadata[f"k{kind}"] for kind, _, _ in scalars], [value for _, _, value in scalars])
            self.assertEqual((found["a"].tolist(), found["b"].tolist()), ([1], [2, 3]))

    def test_from_bytes(self):
        _, found = gguf_load(Tensor(make_file({"a": ((2,), 0, struct.pack("<2f", 1, 2))})))
        self.assertEqual(found["a"].tolist(), [1, 2])

    def test_t17_wrong_files(self):
        good = make_file({"a": ((2, 32), 8, bytes(68))}, text("k") + struct.pack("<I", 8) + text("value"), 1)
        for data in (b"GGUX" + good[4:], good[:4] + struct.pack("<I", 1) + good[8:], good[:30], good[:60], good[:-40],
                     make_file({"a": ((2, 16), 13, bytes(176))}), make_file({"a": ((32,), 16, bytes(32))}), make_file({"a": ((33,), 8, bytes(68))}),
                     make_file({}, text("k") + struct.pack("<I", 77), 1), make_file({}, struct.pack("<Q", 2**62), 1),
                     make_file({"a": ((2**40, 2**40), 0, b"")})):
            with self.subTest(data[:24]):
                self.assertRaisesRegex(ValueError, "GGUF", self.load, data)


if __name__ == "__main__":
    unittest.main()
