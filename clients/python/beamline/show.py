# SPDX-License-Identifier: MIT
"""Numbers as text, in the form that PyTorch prints: https://pytorch.org/docs/stable/generated/torch.set_printoptions.html."""
from __future__ import annotations

import math
from typing import Any, Callable

DIGITS = 4         # behind the point
WHOLE = 1000       # elements; of more, the ends of long axes are shown
EDGE = 3           # elements at each end of such an axis
LINE = 80          # characters
LARGE, SMALL, RATIO = 1e8, 1e-4, 1000  # numbers beyond these, or further apart, are shown with an exponent


def is_summarised(shape: tuple) -> bool:
    """Whether only the ends of the axes are shown."""
    return math.prod(shape) > WHOLE


def float_format(numbers: list) -> Callable[[float], str]:
    """How floats that stand together are shown."""
    sizes = [abs(each) for each in numbers if math.isfinite(each) and each]
    whole = all(each == math.floor(each) for each in sizes)
    if sizes and (max(sizes) / min(sizes) > RATIO or max(sizes) > LARGE or not whole and min(sizes) < SMALL):
        return f"{{:.{DIGITS}e}}".format
    if whole:
        return lambda x: f"{x:.0f}." if math.isfinite(x) else f"{x}"
    return f"{{:.{DIGITS}f}}".format


class Formatter:
    """How the numbers of one tensor are shown, each as wide as the widest that is neither zero nor infinite."""

    def __init__(self, numbers: list, is_float: bool):
        self.format = float_format(numbers) if is_float else str
        self.width = max((len(self.format(each)) for each in numbers if not is_float or math.isfinite(each) and each), default=1)

    def __call__(self, number) -> str:
        return self.format(number).rjust(self.width)


def rows(value, shape: tuple, show: Formatter, indent: int, short: bool) -> str:
    """Nested lists as text; |short|: of an axis that is longer than its ends, |value| has the ends only."""
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


def flat(value) -> list:
    """The numbers of nested lists."""
    return [number for each in value for number in flat(each)] if isinstance(value, list) else [value]


def tensor_text(name: str, value, shape: tuple, is_float: bool, notes: list) -> str:
    """A tensor with what there is to be said of it, in lines of bounded length.

    value: nested lists, of a large tensor of the ends of its axes only; a text stands for numbers that there are not
    """
    start = name + "("
    if isinstance(value, str):
        text = value
    elif 0 in shape:
        text = "[]"
    else:
        text = rows(value, shape, Formatter(flat(value), is_float), len(start), is_summarised(shape))
    text = start + text
    length = len(text) - (text.rfind("\n") + 1)
    for note in notes:
        if length + len(note) + 2 > LINE:
            text, length = f"{text},\n{' ' * len(start)}{note}", len(start) + len(note)
        else:
            text, length = f"{text}, {note}", length + len(note) + 2
    return text + ")"
