# SPDX-License-Identifier: MIT
"""Tensors on a beamline server, from plain Python.

    from beamline import Tensor

    a, b = Tensor([1.0, 2, 3], requires_grad=True), Tensor([4.0, 5, 6])
    c = (a * b).sum()
    c.backward()
    print(c.item(), a.grad.tolist())     # 32.0 [4.0, 5.0, 6.0]

Beneath it is the wire itself: Graph, Program and Client.
"""
from typing import TYPE_CHECKING

from . import nn, train
from .base import ShapeError
from .blobs import Blob
from .client import Client, Held, Lease, RemoteProgram, Result
from .connection import (BeamlineError, Busy, Conflict, Forbidden, IndexOutOfRange, InvalidGraph, Malformed, NotFound, OutOfMemory,
                         TensorLost, TimedOut, TooLarge)
from .context import Context, ContextVar, GlobalCounters, getenv
from .device import Device
from .dtype import dtypes
from .graph import Graph, Init, Node, Program
from .helpers import fetch, function
from .jit import TinyJit
from .jobs import Job, JobFailed
from .models import Model
from .names import module_attributes
from .symbolic import Variable, VariableError
from .tensor import JitError, Tensor
from .values import Array, array, read_safetensors, write_safetensors

__version__ = "0.1.0"
__all__ = ["Array", "BeamlineError", "Blob", "Busy", "Client", "Conflict", "Context", "ContextVar", "Device", "Forbidden",
           "GlobalCounters", "Graph", "Held", "IndexOutOfRange", "Init", "InvalidGraph", "JitError", "Job", "JobFailed", "Lease", "Malformed", "Model", "Node", "NotFound",
           "OutOfMemory", "Program", "RemoteProgram", "Result", "ShapeError", "Tensor", "TensorLost", "TimedOut", "TinyJit", "TooLarge", "Variable", "VariableError",
           "array", "dtypes", "fetch", "function", "getenv", "nn", "read_safetensors", "train", "write_safetensors"]

if not TYPE_CHECKING:
    __getattr__ = module_attributes(__name__, globals())
