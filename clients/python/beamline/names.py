# SPDX-License-Identifier: MIT
"""What to say of a name that there is not."""
from __future__ import annotations

from typing import Any, Callable, Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever the case of its letters; None where none is near."""
    import difflib  # pylint: disable=import-outside-toplevel  # only errors need it
    found = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), found, 1, 0.66)
    return found[near[0]] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: "; did you mean 'softmax'?", or nothing where no known name is near."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def missing(what: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that there is not.  Names with underscores in front are asked for by protocols, and get no suggestion."""
    return AttributeError(f"{what} has no attribute {name!r}" + ("" if name.startswith("_") else suggest(name, (each for each in known if each[0] != "_"))))


def module_attributes(module: str, names: dict) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with these names."""
    def get(name: str) -> Any:
        raise missing(f"module {module!r}", name, names)
    return get
