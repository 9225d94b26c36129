# SPDX-License-Identifier: MIT
"""Imported for what it does: `import beamline` finds the client beside us where none is installed."""
import importlib.util
import pathlib
import sys

if importlib.util.find_spec("beamline") is None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients" / "python"))
