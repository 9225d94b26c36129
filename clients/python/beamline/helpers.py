# SPDX-License-Identifier: MIT
"""Small things that scripts import from here."""
from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import Any, Iterable

from .base import argfix, ceildiv, make_tuple
from .context import BEAM, DEBUG, JIT, TRAINING, Context, ContextVar, GlobalCounters, getenv

__all__ = ["BEAM", "DEBUG", "JIT", "TRAINING", "Context", "ContextVar", "GlobalCounters", "Timing", "argfix", "ceildiv", "colored",
           "dedup", "flatten", "getenv", "make_tuple", "prod", "tqdm", "trange"]
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
WIDTH = 20


def colored(text: str, color: str | None, background: bool = False) -> str:
    """Text in a colour of the terminal; bright where the name is in capitals."""
    if color is None:
        return text
    number = 10 * background + 60 * (color.upper() == color) + 30 + COLOURS.index(color.lower())
    return f"\x1b[{number}m{text}\x1b[0m"


def prod(numbers: Iterable):
    """The product."""
    return math.prod(numbers)


def flatten(lists: Iterable) -> list:
    """One list of the items of several."""
    return [item for each in lists for item in each]


def dedup(items: Iterable) -> list:
    """Each once, in order."""
    return list(dict.fromkeys(items))


class Timing(contextlib.ContextDecorator):
    """``with Timing("it took "):`` prints how long the block took."""

    def __init__(self, prefix: str = "", on_exit=None, enabled: bool = True):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self) -> Timing:
        self.start = time.perf_counter_ns()
        return self

    def __exit__(self, *_) -> None:
        self.et = time.perf_counter_ns() - self.start
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms" + (self.on_exit(self.et) if self.on_exit else ""))


class tqdm:
    """A bar on stderr around what is iterated."""

    def __init__(self, iterable: Iterable, desc: str = "", disable: bool = False, total: int | None = None):
        self.iterable, self.text, self.disable = iterable, desc, disable
        self.total = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else None
        self.count, self.start = 0, time.monotonic()

    def __iter__(self) -> Any:
        for item in self.iterable:
            yield item
            self.count += 1
            self.show()
        if not self.disable:
            sys.stderr.write("\n")

    def set_description(self, desc: str) -> None:
        """The text before the bar."""
        self.text = desc

    def show(self) -> None:
        """Draw it."""
        if self.disable:
            return
        full = WIDTH * self.count // self.total if self.total else 0
        rate = self.count / max(time.monotonic() - self.start, 1e-9)
        bar = f"[{'#' * full}{'.' * (WIDTH - full)}] {self.count}/{self.total}" if self.total else str(self.count)
        sys.stderr.write(f"\r{self.text} {bar} {rate:.2f} it/s\x1b[K")
        sys.stderr.flush()


class trange(tqdm):
    """tqdm around range(n)."""

    def __init__(self, n: int, **kwargs):
        super().__init__(range(n), **kwargs)
