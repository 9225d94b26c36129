# SPDX-License-Identifier: MIT
"""Cases that fail today, each with the reason.  The list may only shrink: a case that passes while it stands here fails the tests.

A row is (name of the case, device or "*", dtype or "*", "forward" or "gradient", why)."""

KNOWN = [
    ("log denormal", "vulkan:0", "float32", "forward", "lavapipe takes what is denormal for zero, as Vulkan allows"),
]


def reason(case, device, dtype, part):
    """Why that may fail, or None."""
    for name, on, kind, what, why in KNOWN:
        if name == case and on in ("*", device) and kind in ("*", dtype) and what == part:
            return why
    return None
