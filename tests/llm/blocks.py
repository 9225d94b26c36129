# SPDX-License-Identifier: MIT
"""Random blocks of ggml's types with finite numbers only."""
import numpy as np

# format: elements and bytes of a block, offsets of its 16-bit floats
TYPES = {
    "q8_0": (32, 34, [0]), "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
    "q2_k": (256, 84, [80, 82]), "q3_k": (256, 110, [108]), "q4_k": (256, 144, [0, 2]), "q5_k": (256, 176, [0, 2]), "q6_k": (256, 210, [208]),
    "iq4_nl": (32, 18, [0]), "iq4_xs": (256, 136, [0]), "mxfp4": (32, 17, []),
}


def random_bytes(seed, count):
    """Returns bytes that are equal on all machines: the high bits of a linear congruential generator."""
    words = np.empty(count, np.uint32)
    state = seed
    for i in range(count):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        words[i] = state
    return (words >> 24).astype(np.uint8)


def blocks(form, rows, columns, seed=1, draw=random_bytes):
    """Returns uint8 [rows, bytes of a row]; scales of either sign between 2^-14 and 2^-2; for mxfp4, powers of two from 2^-37
    to 2^26."""
    elements, size, halves = TYPES[form]
    count = rows * (columns // elements)
    raw = draw(seed, count * size).reshape(count, size)
    for at in halves:
        raw[:, at + 1] = raw[:, at + 1] % 48 + 4 | raw[:, at + 1] & 0x80
    if form == "mxfp4":
        raw[:, 0] = raw[:, 0] % 64 + 90
    return raw.reshape(rows, -1)
