#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Write the C file with the files inside the executable: the description of the API as JSON, and the web page.

    embed.py OUT.c OUT.d openapi.yaml [FOLDER]      FOLDER: index.html, page.js, *.css, vendor/*.css, and all imports of page.js

The modules that page.js imports statically, directly or through other modules, are bundled into page.js.  One file compresses better than
many files, and a first visit then loads three files.  Dynamically imported modules, `import("./file.js")`, and workers keep their own names.
All CSS is bundled into page.css.  A module may export functions, classes and constants at the beginning of a line.  A module may re-export
with `export { a, b } from "./file.js"` or `export * from "./file.js"`.
"""
import gzip
import hashlib
import json
import pathlib
import re
import sys

import yaml

ENTRY = "page.js"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".json": "application/json"}
# Scripts that define a variable: each becomes a module that exports the variable.
SCRIPTS = {"uPlot.iife.min.js": "uPlot"}

IMPORT = re.compile(r'^import\s+(?:\{([^}]*)\}|\*\s+as\s+(\w+)|(\w+))\s+from\s+"(?:[\w.-]+/)+([\w.-]+)";\n', re.M)
REEXPORT = re.compile(r'^export\s+(?:\{([^}]*)\}|\*)\s+from\s+"(?:[\w.-]+/)+([\w.-]+)";\n', re.M)
LISTED = re.compile(r"^export\s+\{([^}]*)\};\n", re.M)
DECLARED = re.compile(r"^export\s+((?:async\s+)?function\s*\*?|class|const)\s+(\w+)", re.M)
ANY_PATH = re.compile(r'(\b(?:from|import|makeWorker)\s*\(?\s*")(\.(?:[\w.-]*/)+)([\w.-]+)(")')


def names_of(words):
    """Parse `a, b as c` to a list of (inside, outside) names."""
    return [tuple((word.split(" as ") * 2)[:2]) for word in (" ".join(each.split()) for each in words.split(",")) if word]


class Modules:
    """The modules of the page by file name."""

    def __init__(self, sources):
        self.sources = sources
        self.bundled = []  # bundled modules; an imported module precedes its importers
        self.pending = set()

    def visit(self, name):
        if name in self.bundled:
            return
        if name in self.pending:
            sys.exit(f"{name}: the modules of the bundle import each other in a circle")
        self.pending.add(name)
        for pattern, group in ((IMPORT, 4), (REEXPORT, 2)):
            for match in pattern.finditer(self.sources[name]):
                self.visit(match.group(group))
        self.bundled.append(name)

    def exports(self, name):
        text = self.sources[name]
        found = [outside for match in LISTED.finditer(text) for _, outside in names_of(match.group(1))]
        found += [match.group(2) for match in DECLARED.finditer(text)]
        for words, source in REEXPORT.findall(text):
            found += [outside for _, outside in names_of(words)] if words else self.exports(source)
        return found

    def wrap(self, name):
        """Rewrite a module as a constant: an object of its exports."""
        text, members = self.sources[name], []

        def bind(match):
            words, space, default, source = match.groups()
            if space or default:
                return f"const {space or default} = {variable(source)}{'.default' if default else ''};\n"
            pairs = ", ".join(inside if inside == outside else f"{inside}: {outside}" for inside, outside in names_of(words))
            return f"const {{ {pairs} }} = {variable(source)};\n"

        def pass_on(match):
            words, source = match.groups()
            pairs = names_of(words) if words else [(each, each) for each in self.exports(source)]
            members.extend(f"{outside}: {variable(source)}.{inside}" for inside, outside in pairs)
            return ""

        def keep(match):
            members.extend(outside if inside == outside else f"{outside}: {inside}" for inside, outside in names_of(match.group(1)))
            return ""
        text = LISTED.sub(keep, REEXPORT.sub(pass_on, IMPORT.sub(bind, text)))
        members += [match.group(2) for match in DECLARED.finditer(text)]
        text = DECLARED.sub(r"\1 \2", text)
        if re.search(r"^(import|export)\b", text, re.M):
            sys.exit(f"{name}: an import or export of a form that server/http/embed.py does not know")
        return f"const {variable(name)} = (() => {{\n{text}\nreturn {{ {', '.join(members)} }};\n}})();\n"

    def bundle(self):
        """Build one script from page.js and all its static imports."""
        self.visit(ENTRY)
        return ANY_PATH.sub(r"\1./\3\4", "".join(map(self.wrap, self.bundled)))

    def alone(self, name):
        """Return the text of a module outside the bundle."""
        shared = [source for _, _, source, _ in ANY_PATH.findall(self.sources[name]) if source in self.bundled]
        if shared:
            sys.exit(f"{name}: a module that is sent alone cannot import {shared[0]}, which is in {ENTRY}")
        return ANY_PATH.sub(r"\1./\3\4", self.sources[name])


def variable(name):
    return "module_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def smaller(text):
    """Strip comments and indentation from a script, an eighth of the bytes sent. A comment behind code is stripped only if it has no quotes."""
    text = re.sub(r"[ \t]+// [^\n\"'`]*$", "", text, flags=re.M)
    text = re.sub(r"^\s*/\*(?!!)[\s\S]*?\*/\s*\n", "", text, flags=re.M)
    return re.sub(r"^\s*(//[^\n]*)?\n|^[ \t]+", "", text, flags=re.M)


def read_scripts(folder):
    """Return {file name: path} of page.js and of every module that page.js imports, directly or indirectly."""
    found, open_paths = {}, [folder / ENTRY]
    while open_paths:
        path = open_paths.pop().resolve()
        if found.setdefault(path.name, path) != path:
            sys.exit(f"two modules of the page are called {path.name}")
        for _, place, name, _ in ANY_PATH.findall("" if path.parent.name == "vendor" else path.read_text(encoding="utf-8")):
            if found.get(name) != (path.parent / place / name).resolve():
                open_paths.append(path.parent / place / name)
    return found


def script(path):
    text = re.sub(r"^//# sourceMappingURL=.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    if path.parent.name != "vendor":
        return smaller(text)
    return text + (f"\nexport default {SCRIPTS[path.name]};\n" if path.name in SCRIPTS else "")


def style(path):
    text = re.sub(r"/\*(?!!).*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\s*([{};,])\s*", r"\1", text).replace(": ", ":").replace(";}", "}")


def page(folder):
    """Return [(name, text)] of the files of the page, and the paths of their sources."""
    paths = read_scripts(folder)
    styles = [*sorted(folder.glob("vendor/*.css")), *sorted(folder.glob("*.css"))]
    modules = Modules({name: script(path) for name, path in sorted(paths.items())})
    files = [(ENTRY, modules.bundle())]
    files += [(name, modules.alone(name)) for name in modules.sources if name not in modules.bundled]
    files.append(("page.css", "".join(map(style, styles))))
    files.append(("index.html", (folder / "index.html").read_text(encoding="utf-8")))
    return files, [*paths.values(), *styles, folder / "index.html"]


def c_bytes(data):
    return ",".join(str(byte) if at % 32 else f"\n    {byte}" for at, byte in enumerate(data))


def write_c(target, files):
    """Write a C file that contains the files [(name, text)]."""
    with open(target, "w", encoding="utf-8") as out:
        out.write('/* SPDX-License-Identifier: MIT */\n#include "server/http/embedded.h"\n\n')
        for at, (_, text) in enumerate(files):
            out.write(f"static const unsigned char file_{at}[] = {{{c_bytes(gzip.compress(text.encode(), 9, mtime=0))}}};\n")
        out.write("\nconst bl_embedded bl_embedded_files[] = {\n")
        for at, (name, text) in enumerate(files):
            data = text.encode()
            etag = hashlib.sha256(data).hexdigest()[:20]
            out.write(f'    {{"{name}", "{TYPES[pathlib.Path(name).suffix]}", "\\"{etag}\\"", file_{at}, sizeof file_{at}, {len(data)}}},\n')
        out.write("};\nconst size_t bl_embedded_count = sizeof bl_embedded_files / sizeof bl_embedded_files[0];\n")


def main():
    target, depfile, description, *folders = sys.argv[1:]
    files = [("openapi.json", json.dumps(yaml.safe_load(pathlib.Path(description).read_text(encoding="utf-8")), separators=(",", ":")))]
    sources = [description]
    for folder in folders:
        more, paths = page(pathlib.Path(folder))
        files, sources = files + more, sources + paths
    write_c(target, files)
    pathlib.Path(depfile).write_text(f"{target}: {' '.join(str(path) for path in sources)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
