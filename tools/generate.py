#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the files that are made from tables: proto/ops.json, docs/ops.md, the table in docs/onnx.md and clients/python/beamline/ops.py.

    tools/generate.py BUILD           write them; BUILD is a build folder with its target "ops" made
    tools/generate.py BUILD --check   say which are not current (exit status 1 if any)
"""
import pathlib
import subprocess
import sys

import gen_client

ROOT = pathlib.Path(__file__).resolve().parent.parent


def put(target, text, check):
    """Whether the file is as it should be, now."""
    if target.exists() and target.read_text() == text:
        return True
    if not check:
        target.write_text(text)
        return True
    print(f"{target.relative_to(ROOT)} is not current: run tools/generate.py")
    return False


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    check = "--check" in sys.argv[2:]
    tool = pathlib.Path(sys.argv[1]).resolve() / "ops"
    current = []
    for form, target in (("json", "proto/ops.json"), ("markdown", "docs/ops.md")):
        text = subprocess.run([tool, form], check=True, capture_output=True, text=True).stdout
        current.append(put(ROOT / target, text, check))
    table = subprocess.run([tool, "onnx"], check=True, capture_output=True, text=True).stdout
    page = ROOT / "docs" / "onnx.md"
    words, mark, _ = page.read_text().partition("do not edit below -->\n")
    current.append(put(page, f"{words}{mark}\n{table}", check))
    current.append(put(gen_client.TARGET, gen_client.render(), check))
    return 0 if all(current) else 1


if __name__ == "__main__":
    sys.exit(main())
