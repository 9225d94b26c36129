#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the generated files: proto/ops.json, docs/ops.md, tables in docs/onnx.md and docs/llm.md, the op methods of the
clients.

    tools/generate.py BUILD           write the files; BUILD is a build folder with the target "ops" made
    tools/generate.py BUILD --check   name the files that are not current (exit status 1), and the vendored files that
                                      differ from server/page/vendor/vendored.txt

tools/clients generates the op methods of the clients.
"""
import hashlib
import pathlib
import re
import subprocess
import sys

import clients

ROOT = pathlib.Path(__file__).resolve().parent.parent


def put(target, text, check):
    """Writes |text| to |target| if the file differs; with |check| only reports the difference.  Returns whether the file is
    current now."""
    if target.exists() and target.read_text() == text:
        return True
    if not check:
        target.write_text(text)
        return True
    print(f"{target.relative_to(ROOT)} is not current: run tools/generate.py")
    return False


def architectures():
    """Returns the rows of a table: the names of an architecture in GGUF files and in config.json."""
    rows = re.findall(r'^BL_LLM\("(.*?)", "(.*?)"', (ROOT / "proto" / "llm" / "archs.def").read_text(), re.MULTILINE)
    return "| `general.architecture` of a GGUF file | `model_type` of config.json |\n| --- | --- |\n" + "".join(
        f"| `{name}` | {' '.join(f'`{each}`' for each in types.split())} |\n" for name, types in rows)


def vendored_are_whole():
    """Whether the vendored files are those of vendored.txt."""
    folder, whole = ROOT / "server" / "page" / "vendor", True
    rows = [line.split() for line in (folder / "vendored.txt").read_text().splitlines() if not line.startswith("#")]
    wanted = {name: digest for digest, name, *_ in rows}
    for name in sorted(wanted.keys() | {path.name for path in folder.iterdir()} - {"vendored.txt"}):
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest() if (folder / name).exists() else "missing"
        if found != wanted.get(name):
            print(f"server/page/vendor/{name}: SHA-256 is {found}, vendored.txt has {wanted.get(name)}")
            whole = False
    return whole


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
    page = ROOT / "docs" / "llm.md"
    words, mark, rest = page.read_text().partition("<!-- Made from proto/llm/archs.def by tools/generate.py -->\n")
    rest = rest.partition("<!-- end -->")
    current.append(put(page, f"{words}{mark}{architectures()}{rest[1]}{rest[2]}", check))
    current += [put(ROOT / path, text, check) for path, text in clients.files().items()]
    current.append(vendored_are_whole())
    return 0 if all(current) else 1


if __name__ == "__main__":
    sys.exit(main())
