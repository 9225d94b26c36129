# SPDX-License-Identifier: MIT
"""What the examples share: `import beamline` finds the client beside them where none is installed, and their common options."""
import argparse
import importlib.util
import os
import pathlib
import sys

if importlib.util.find_spec("beamline") is None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients" / "python"))


def options(doc, *more):
    """The options of the command line: --help, which prints |doc|; --url, which is set in the environment for the client; and |more|, each a
    name and the keywords of argparse's add_argument."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="address of the server (default: $BEAMLINE_URL, else http://127.0.0.1:8470)")
    for name, keywords in more:
        parser.add_argument(name, **keywords)
    found = parser.parse_args()
    if found.url:
        os.environ["BEAMLINE_URL"] = found.url
    return found


def url():
    """The address of the server."""
    return os.environ.get("BEAMLINE_URL") or "http://127.0.0.1:8470"
