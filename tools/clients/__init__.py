# SPDX-License-Identifier: MIT
"""The ops of proto/ops.json as methods of clients: table.py reads the table, and each other module is the dialect of a language.

A dialect has files(ops), which gives the text of each file that it makes, by its path in the project.
"""
import importlib
import pathlib

from . import table


def files():
    """The files of all dialects: {path in the project: text}."""
    ops = table.read_ops()
    names = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("[a-z]*.py"))
    dialects = [importlib.import_module(f"{__name__}.{name}") for name in names if name != "table"]
    return {path: text for dialect in dialects for path, text in dialect.files(ops).items()}
