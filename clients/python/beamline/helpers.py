# SPDX-License-Identifier: MIT
"""Small things that scripts import from here."""
from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import math
import os
import pathlib
import shutil
import sys
import tempfile
import time
import urllib.request
import zlib
from typing import Any, Callable, Iterable

from .base import argfix, ceildiv, make_tuple
from .context import BEAM, DEBUG, JIT, TRAINING, Context, ContextVar, GlobalCounters, getenv

__all__ = ["BEAM", "DEBUG", "JIT", "TRAINING", "Context", "ContextVar", "GlobalCounters", "Timing", "argfix", "ceildiv", "colored",
           "dedup", "fetch", "flatten", "function", "getenv", "make_tuple", "prod", "tqdm", "trange"]
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


def fetch(url: str, name: str | pathlib.Path | None = None, subdir: str | None = None, gunzip: bool = False, allow_caching: bool | None = None,
          headers: dict | None = None) -> pathlib.Path:
    """Download a file once, into the user's cache.  Returns: the path of the file.

    url: the address, or the path of a local file, which begins with / or .
    name: the name of the file, by default a hash of the address; an absolute path is used unchanged     subdir: a folder below the cache
    gunzip: decompress the file     allow_caching: False downloads the file again, as $DISABLE_HTTP_CACHE does     headers: of the request
    """
    if url.startswith(("/", ".")):
        return pathlib.Path(url)
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "beamline" / "downloads" / (subdir or "")
    path = folder / (name or hashlib.md5(url.encode(), usedforsecurity=False).hexdigest() + (".gunzip" if gunzip else ""))
    cached = not getenv("DISABLE_HTTP_CACHE") if allow_caching is None else allow_caching
    if cached and path.is_file() and path.stat().st_size:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "beamline", **(headers or {})})
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                expected = reply.headers.get("Content-Length")
                shutil.copyfileobj(gzip.GzipFile(fileobj=reply) if gunzip else reply, file)
            if not gunzip and expected is not None and file.tell() != int(expected):
                raise OSError(f"{url}: {file.tell()} of {expected} bytes arrived: fetch the file again")
        except BaseException as error:
            os.unlink(file.name)
            if isinstance(error, (OSError, EOFError, zlib.error)) and url not in str(error):
                raise OSError(f"{url} cannot be fetched: {error}") from error
            raise
    os.replace(file.name, path)
    return path


def function(fxn: Callable | None = None, *, precompile: bool = False, precompile_backward: bool = False, allow_implicit: bool = True, grad_fxn=None) -> Any:
    """A decorator for a function of Tensors, with the arguments of tinygrad's.  It calls the function unchanged: the nodes of the result join the graph around them.

    precompile, precompile_backward, allow_implicit: accepted, without effect     grad_fxn: not supported, raises NotImplementedError
    """
    if grad_fxn is not None:
        raise NotImplementedError("function: grad_fxn is not supported; the gradient is derived from the operations of the function")
    if fxn is None:
        return functools.partial(function, precompile=precompile, precompile_backward=precompile_backward, allow_implicit=allow_implicit)
    return functools.wraps(fxn)(lambda *args, **kwargs: fxn(*args, **kwargs))


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
    """A progress bar on stderr for an iteration; one line at the end if stderr is not a terminal."""

    def __init__(self, iterable: Iterable, desc: str = "", disable: bool = False, total: int | None = None):
        self.iterable, self.text, self.disable = iterable, desc, disable
        self.total = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else None
        self.count, self.start = 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def __iter__(self) -> Any:
        for item in self.iterable:
            yield item
            self.count += 1
            if self.live:
                self.show()
        if not self.disable:
            self.show()
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
        line = f"{self.text} {bar} {rate:.2f} it/s"
        sys.stderr.write(f"\r{line}\x1b[K" if self.live else line)
        sys.stderr.flush()


class trange(tqdm):
    """tqdm around range(n)."""

    def __init__(self, n: int, **kwargs):
        super().__init__(range(n), **kwargs)
