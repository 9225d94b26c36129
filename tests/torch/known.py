# SPDX-License-Identifier: MIT
"""Cases that fail today, each with the reason.  The list may only shrink: a case that passes while it stands here fails the tests.

A row is (name of the case, device or "*", dtype or "*", "forward" or "gradient", why)."""

import re

KNOWN = [
    ("log denormal", "vulkan:0", "float32", "forward", "lavapipe takes what is denormal for zero, as Vulkan allows"),
]


def reason(case, device, dtype, part):
    """Why that may fail, or None."""
    for name, on, kind, what, why in KNOWN:
        if name == case and on in ("*", device) and kind in ("*", dtype) and what == part:
            return why
    return None


# (device, dtype) -> the words with which a device that lacks a function in that dtype refuses it: Vulkan's GLSL has no exp, log,
# sin and the like of float64.  A case that is refused so is counted as neither passed nor failed.
LACKING = {("vulkan:0", "float64"): r"vulkan:0 has no (exp|exp2|log|log2|sin|cos) of float64"}


def lacking(device, dtype, text):
    words = LACKING.get((device, dtype))
    return words is not None and re.search(words, text) is not None
