# SPDX-License-Identifier: MIT
"""Numbers as text, in the form that PyTorch prints: https://pytorch.org/docs/stable/generated/torch.set_printoptions.html."""
from __future__ import annotations

import math
from typing import Any, Callable

from .values import flatten

DIGITS = 4         # after the decimal point
WHOLE = 1000       # elements; a larger tensor shows only the ends of its long axes
EDGE = 3           # elements at each end of such an axis
LINE = 80          # characters
LARGE, SMALL, RATIO = 1e8, 1e-4, 1000  # numbers beyond these limits, or with a larger ratio, get an exponent


def is_summarised(shape: tuple) -> bool:
    """Whether the text has only the ends of the axes."""
    return math.prod(shape) > WHOLE


def float_format(numbers: list) -> Callable[[float], str]:
    """The format of the floats of one tensor."""
    sizes = [abs(each) for each in numbers if math.isfinite(each) and each]
    whole = all(each == math.floor(each) for each in sizes)
    if sizes and (max(sizes) / min(sizes) > RATIO or max(sizes) > LARGE or not whole and min(sizes) < SMALL):
        return f"{{:.{DIGITS}e}}".format
    if whole:
        return lambda x: f"{x:.0f}." if math.isfinite(x) else f"{x}"
    return f"{{:.{DIGITS}f}}".format


class Formatter:
    """The format of the numbers of one tensor.  All have the width of the widest number that is neither zero, infinite nor NaN."""

    def __init__(self, numbers: list, is_float: bool):
        self.format = float_format(numbers) if is_float else str
        self.width = max((len(self.format(each)) for each in numbers if not is_float or math.isfinite(each) and each), default=1)

    def __call__(self, number) -> str:
        return self.format(number).rjust(self.width)


def rows(value, shape: tuple, show: Formatter, indent: int, short: bool) -> str:
    """Nested lists as text.  |short|: |value| has only the ends of an axis that is longer than both ends."""
    if not shape:
        return show(value)
    cut = short and shape[0] > 2 * EDGE
    if len(shape) > 1:
        parts = [rows(each, shape[1:], show, indent + 1, short) for each in value]
        parts[EDGE:EDGE] = ["..."] * cut
        return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"
    parts = [show(each) for each in value]
    size = max(1, (LINE - indent) // (show.width + 2))
    parts[EDGE:EDGE] = [" ..."] * cut
    lines = [", ".join(parts[i:i + size]) for i in range(0, len(parts), size)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def tensor_text(name: str, value, shape: tuple, is_float: bool, notes: list) -> str:
    """The text of a tensor with |notes|, in lines of bounded length.

    value: nested lists, for a large tensor with only the ends of its axes; or a text in place of the numbers
    """
    start = name + "("
    if isinstance(value, str):
        text = value
    elif 0 in shape:
        text = "[]"
    else:
        text = rows(value, shape, Formatter(flatten(value, []), is_float), len(start), is_summarised(shape))
    text = start + text
    length = len(text) - (text.rfind("\n") + 1)
    for note in notes:
        if length + len(note) + 2 > LINE:
            text, length = f"{text},\n{' ' * len(start)}{note}", len(start) + len(note)
        else:
            text, length = f"{text}, {note}", length + len(note) + 2
    return text + ")"
