# SPDX-License-Identifier: MIT
"""A model as text: a line for each layer, indented as in PyTorch."""
from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .state import parts_of

STEP = "  "


class Layer:
    """An object that prints as its class and settings, with a line for each layer in it.  The layers of nn derive from Layer; a model may too."""

    def about(self) -> str:
        """The settings as text, for between the parentheses."""
        return ""

    def __repr__(self) -> str:
        return describe(self)


def describe(model: Any) -> str:
    """A model as text: its class, and its parts by name: layers with their settings, Tensors with shape and dtype, functions by name.

    Parts are attributes and the items of lists, tuples and dicts.  A part without Tensors and functions is left out.
    """
    return text_of(model, [])


def text_of(value: Any, above: list) -> str:
    if isinstance(value, Tensor):
        return f"Tensor{value.shape} {value.dtype}"
    if is_function(value):
        return getattr(value, "__qualname__", None) or type(value).__name__
    name, about = type(value).__name__, value.about() if isinstance(value, Layer) else ""
    parts = [] if about else shown_parts(value, above)
    if not parts:
        return f"{name}({about})"
    lines = [f"({key}): " + text_of(each, [*above, value]).replace("\n", "\n" + STEP) for key, each in parts]
    return f"{name}(\n{STEP}" + f"\n{STEP}".join(lines) + "\n)"


def shown_parts(value: Any, above: list) -> list:
    """(name, part) of each part of an object that is shown."""
    return [(key, each) for key, each in parts_of(value) if is_shown(each, [*above, value])]


def is_shown(value: Any, above: list) -> bool:
    if isinstance(value, (Tensor, Layer)) or is_function(value):
        return not any(value is each for each in above)
    return not any(value is each for each in above) and bool(shown_parts(value, above))


def is_function(value: Any) -> bool:
    """Whether |value| is callable and has no parts."""
    return callable(value) and not isinstance(value, (type, Layer, Tensor)) and not parts_of(value)
