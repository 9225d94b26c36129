# SPDX-License-Identifier: MIT
"""Settings of the environment, and counters."""
from __future__ import annotations

import contextlib
import os

from .names import suggest


def getenv(key: str, default=0):
    """A variable of the environment as the type of |default|."""
    return type(default)(os.environ.get(key, default))


class ContextVar:
    """A setting with a first value from the environment: DEBUG, TRAINING, SEED and so on.  Compares and counts as its value."""

    known: dict = {}

    def __init__(self, key: str, default):
        self.key, self.value = key, getenv(key, default)
        ContextVar.known[key] = self

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other) -> bool:
        return self.value == other

    def __ge__(self, other) -> bool:
        return self.value >= other

    def __gt__(self, other) -> bool:
        return self.value > other

    def __lt__(self, other) -> bool:
        return self.value < other

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"ContextVar({self.key}={self.value!r})"


class Context(contextlib.ContextDecorator):
    """``with Context(TRAINING=1, DEBUG=2):`` sets these for the block; as a decorator, for the calls of a function."""

    def __init__(self, **values) -> None:
        unknown = [key for key in values if key not in ContextVar.known]
        if unknown:
            raise KeyError(f"no such setting: {', '.join(unknown)}; there are {', '.join(sorted(ContextVar.known))}{suggest(unknown[0], ContextVar.known)}")
        self.values, self.before = values, []

    def __enter__(self) -> Context:
        self.before.append({key: ContextVar.known[key].value for key in self.values})
        for key, value in self.values.items():
            ContextVar.known[key].value = value
        return self

    def __exit__(self, *_) -> None:
        for key, value in self.before.pop().items():
            ContextVar.known[key].value = value


DEBUG = ContextVar("DEBUG", 0)
TRAINING = ContextVar("TRAINING", 0)
BEAM = ContextVar("BEAM", 0)
JIT = ContextVar("JIT", 1)
NOOPT = ContextVar("NOOPT", 0)
WINO = ContextVar("WINO", 0)
FUSE_OPTIM = ContextVar("FUSE_OPTIM", 0)
IMAGE = ContextVar("IMAGE", 0)
DEFAULT_FLOAT = ContextVar("DEFAULT_FLOAT", "float32")
DEFAULT_INT = ContextVar("DEFAULT_INT", "int32")
CHECK_INDICES = ContextVar("CHECK_INDICES", 1)  # 1: an index out of range raises an IndexError; 0: such an index reads 0 and writes nothing


class GlobalCounters:
    """What the server did for this process: kernels launched, operations and bytes of memory traffic as counted in the kernels,
    seconds of computing, requests; and bytes that it holds for it now."""

    global_ops: int = 0
    global_mem: int = 0
    time_sum_s: float = 0.0
    kernel_count: int = 0
    requests: int = 0
    mem_used: int = 0

    @staticmethod
    def reset() -> None:
        """All but mem_used back to zero."""
        GlobalCounters.global_ops = GlobalCounters.global_mem = GlobalCounters.kernel_count = GlobalCounters.requests = 0
        GlobalCounters.time_sum_s = 0.0
