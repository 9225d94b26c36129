# SPDX-License-Identifier: MIT
"""Errors for unknown names, with the nearest known name as a suggestion."""
from __future__ import annotations

from typing import Any, Callable, Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to |name|, without regard to case; None if no known name is near."""
    import difflib  # pylint: disable=import-outside-toplevel  # only errors need it
    found = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), found, 1, 0.66)
    return found[near[0]] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: "; did you mean 'softmax'?", or "" if no known name is near."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def missing(what: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for an unknown attribute.  Names that begin with an underscore get no suggestion, because protocols of Python ask for them."""
    return AttributeError(f"{what} has no attribute {name!r}" + ("" if name.startswith("_") else suggest(name, (each for each in known if each[0] != "_"))))


def module_attributes(module: str, names: dict) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with these names."""
    def get(name: str) -> Any:
        raise missing(f"module {module!r}", name, names)
    return get
