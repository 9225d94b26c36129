# SPDX-License-Identifier: MIT
"""Generates the op methods of the clients from proto/ops.json.

table.py reads the table; each other module generates the methods for one language.  A language module has files(ops), which
returns {path in the project: text}.
"""
import importlib
import pathlib

from . import table


def files():
    """Returns the files of all languages: {path in the project: text}."""
    ops = table.read_ops()
    names = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("[a-z]*.py"))
    dialects = [importlib.import_module(f"{__name__}.{name}") for name in names if name != "table"]
    return {path: text for dialect in dialects for path, text in dialect.files(ops).items()}
