# SPDX-License-Identifier: MIT
"""Known failures with reasons.  The list may only shrink: a listed case that passes fails the tests.

A row is (name of the case, device or "*", dtype or "*", "forward" or "gradient", reason).
"""

KNOWN = [
    ("log denormal", "vulkan:0", "float32", "forward", "lavapipe takes what is denormal for zero, as Vulkan allows"),
]


def reason(case, device, dtype, part):
    """Returns the reason of a known failure, or None."""
    for name, on, kind, what, why in KNOWN:
        if name == case and on in ("*", device) and kind in ("*", dtype) and what == part:
            return why
    return None
