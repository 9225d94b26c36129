# SPDX-License-Identifier: MIT
"""Tensor graphs on a beamline server, from plain Python.

    import beamline

    g = beamline.Graph()
    x = g.input("x")
    g.output(s=(x * 2).sum(axis=1))
    print(beamline.Client().run(g, {"x": [[1, 2, 3], [4, 5, 6]]})["s"])     # [12. 30.]
"""
from .client import (BeamlineError, Busy, Client, Conflict, Forbidden, Held, InvalidGraph, Lease, Malformed, NotFound, OutOfMemory,
                     RemoteProgram, Result, TimedOut, TooLarge)
from .graph import Graph, Init, Program, Tensor
from .values import Array, array, read_safetensors, write_safetensors

__version__ = "0.1.0"
__all__ = ["Array", "BeamlineError", "Busy", "Client", "Conflict", "Forbidden", "Graph", "Held", "Init", "InvalidGraph", "Lease",
           "Malformed", "NotFound", "OutOfMemory", "Program", "RemoteProgram", "Result", "Tensor", "TimedOut", "TooLarge", "array",
           "read_safetensors", "write_safetensors"]
