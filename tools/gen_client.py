#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write clients/python/beamline/ops.py, a method for every op, from proto/ops.json.

    tools/gen_client.py           write it
    tools/gen_client.py --check   say whether the committed file is current (exit status 1 where it is not)
"""
import json
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "proto/ops.json"
TARGET = ROOT / "clients/python/beamline/ops.py"

HEAD = '''# SPDX-License-Identifier: MIT
# Made by tools/gen_client.py from proto/ops.json; change those.
"""A method for every op of the wire: of a graph, and, where the op begins with a tensor, of a tensor too.

Where a tensor is wanted, a number will do; a whole one takes the dtype of the other operand.  Sizes are whole numbers or
names of dimensions, or formulas of them such as "2 * n + 1".  ``name`` is the id of the node, or the list of its ids where
the op has several results; by default one is made up.  Shapes and dtypes are checked by the server: what cannot be is InvalidGraph, which says why and names the node.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .graph import Node

'''

# What a reader should know of a type; see engine/front/sig.h.
TYPES = {
    "T": "tensor of any dtype",
    "Float": "tensor of floats (integers and bool become float32)",
    "Int": "tensor of integers",
    "Bits": "tensor of integers or bool",
    "Bool": "tensor of bool (numbers become \"not zero\")",
    "Any": "tensor of any dtype",
    "Wrt": "input, state or other tensor of floats",
    "int": "whole number",
    "float": "number",
    "bool": "True or False",
    "ints": "whole number or list of them",
    "floats": "list of numbers",
    "number": "number",
    "size": "size",
    "sizes": "size or list of sizes",
    "bound": "number or size",
    "pairs": "list of pairs",
    "dtype": "dtype",
    "rate": "number, or float32 scalar tensor",
    "text": "string",
    "graph": "dict of a body: inputs (names), nodes, outputs (names)",
    "count": "how many there are, which the server checks",
}
RESULTS = {
    "T": "tensor",
    "Float": "tensor of floats",
    "Int": "tensor of integers",
    "Bits": "tensor of integers or bool",
    "Bool": "tensor of bool",
    "Int64": "tensor of int64",
}
SHARED = ("T", "Float", "Int", "Bits")
BY_HAND = ("grad", "scan", "cond")  # in graph.py: what they take there are not operands and attributes one by one


def literal(value):
    """As Python source, with double quotes and nothing mutable."""
    if isinstance(value, list):
        return "(" + ", ".join(literal(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def parameters(op):
    """Inputs and attributes as Python takes them: (positional, keyword only).

    Where an optional one stands before a required one, all optional ones are keyword only; and so is a random op's key.
    """
    params = op["inputs"] + op["attrs"]
    required = [param for param in params if "default" not in param]
    optional = [param for param in params if "default" in param]
    mixed = params != required + optional
    hidden = [param for param in optional if mixed or param["name"] == "key"]
    if op["many_results"] and not any(param.get("many") for param in op["inputs"]):
        hidden.append({"name": "results", "type": "count"})
    return required + [param for param in optional if param not in hidden], hidden


def declare(param):
    return f"{param['name']}={literal(param['default'])}" if "default" in param else param["name"]


def describe(param, op):
    kind = param["type"]
    if "choices" in param:
        words = [f'"{word}"' for word in param["choices"]]
        return " or ".join([", ".join(words[:-1]), words[-1]])
    text = TYPES[kind]
    if param.get("many"):
        return f"list, each a {text}" if text[0] not in "aeiou" else f"list, each an {text}"
    peers = [other["name"] for other in op["inputs"] if other["type"] == kind and other is not param]
    if kind in SHARED and peers:
        text += f", brought to one dtype with {', '.join(peers)}"
    if param["name"] == "key":
        text = "integer scalar that fixes what this place of the graph draws; by default every step draws anew"
    if param["name"] == "seed":
        text = "whole number; by default the seed of the run"
    if (param["name"], kind) == ("axis", "ints") and param.get("default", 0) is None and "unless given" not in op["doc"]:
        text += "; None for all"
    return text


def docstring(op, params, indent):
    lines = [op["doc"], ""]
    for param in params:
        lines.append(f"{param['name']}: {describe(param, op)}")
    results = [f"a {RESULTS[result]}" for result in op["results"]]
    lines.append("Returns: " + (f"a list, each {results[0]}" if op["many_results"] else
                                results[0] if len(results) == 1 else "a list of " + ", ".join(results)))
    wrapped = []
    for line in lines:
        wrapped += textwrap.wrap(line, 110, subsequent_indent="    ", break_on_hyphens=False) or [""]
    escaped = "\n".join(wrapped).replace("\\", "\\\\")
    return textwrap.indent(f'"""{escaped}\n"""', indent, lambda line: line.strip() != "")


def signature(positional, hidden):
    parts = ["self"] + [declare(param) for param in positional] + ["*"] + [declare(param) for param in hidden] + ["name=None"]
    return ", ".join(parts)


def result(op):
    return "list[Node]" if is_listed(op) else "Node"


def graph_method(op):
    positional, hidden = parameters(op)
    inputs = ", ".join(("*" if param.get("many") else "") + param["name"] for param in op["inputs"])
    attrs = ", ".join(f'"{param["name"]}": {param["name"]}' for param in op["attrs"])
    many = [param["name"] for param in op["inputs"] if param.get("many")]
    count = f", results={f'len({many[0]})' if many else 'results'}" if op["many_results"] else \
        f", results={len(op['results'])}" if is_listed(op) else ""
    call = textwrap.wrap(f'return self.op("{op["name"]}", [{inputs}], {{{attrs}}}, name{count})', 118, break_on_hyphens=False)
    return "\n".join([
        f"    def {op['name']}({signature(positional, hidden)}) -> {result(op)}:",
        docstring(op, positional + hidden, "        "),
        *("        " + ("    " if i > 0 else "") + line for i, line in enumerate(call)),
    ])


def tensor_method(op):
    positional, hidden = parameters(op)
    rest = positional[1:]
    values = ["self"] + [param["name"] for param in rest] + [f"{param['name']}={param['name']}" for param in hidden] + ["name=name"]
    return "\n".join([
        f"    def {op['name']}({signature(rest, hidden)}) -> {result(op)}:",
        docstring(op, rest + hidden, "        "),
        f"        return self.graph.{op['name']}({', '.join(values)})",
    ])


def is_listed(op):
    return op["many_results"] or len(op["results"]) > 1


def begins_with_tensor(op):
    first = op["inputs"][0] if op["inputs"] else None
    return first is not None and "default" not in first and not first.get("many")


def defaults(ops):
    rows = []
    for op in ops:
        known = {param["name"]: param["default"] for param in op["attrs"] if param.get("default") is not None}
        if known:
            rows.append(f'    "{op["name"]}": {literal(known)},')
    return "# What the server takes where an attribute is left out: these are not sent.\nDEFAULTS = {\n" + "\n".join(rows) + "\n}\n"


def listed(ops):
    names = textwrap.fill(literal([op["name"] for op in ops if is_listed(op)]), 118, initial_indent="LISTED = ", subsequent_indent="          ")
    return f"# Ops whose results are a list, even of one.\n{names}\n"


def render():
    every = json.loads(SOURCE.read_text())["ops"]
    ops = [op for op in every if op["name"] not in BY_HAND]
    graph = "\n\n".join(graph_method(op) for op in ops)
    tensor = "\n\n".join(tensor_method(op) for op in ops if begins_with_tensor(op))
    return (HEAD + defaults(every) + listed(every) + '\n\nclass GraphOps:\n    """Ops as methods of a graph."""\n\n' + graph +
            '\n\n\nclass NodeOps:\n    """Ops as methods of their first operand."""\n\n' + tensor + "\n")


def main():
    text = render()
    if "--check" in sys.argv[1:]:
        current = TARGET.exists() and TARGET.read_text() == text
        if not current:
            print(f"{TARGET.relative_to(ROOT)} is not current: run tools/gen_client.py")
        return 0 if current else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
