# SPDX-License-Identifier: MIT
"""Generates clients/python/beamline/ops.py."""
import json
import textwrap

from .table import BY_HAND, describe, describe_results

HEAD = '''# SPDX-License-Identifier: MIT
# Made by tools/clients/python.py from proto/ops.json; change those.
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
WORDS = {"true": "True", "false": "False", "none": "None", "object": "dict"}


def literal(value):
    """The Python source of a value, with double quotes and without mutable values."""
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(literal(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def parameters(op):
    """Returns the parameters of an op: (positional, keyword-only).

    If an optional parameter precedes a required one, all optional parameters are keyword-only.  The key of a random op is
    always keyword-only.
    """
    params = [*op.inputs, *op.attrs]
    required = [param for param in params if not param.is_optional]
    optional = [param for param in params if param.is_optional]
    mixed = params != required + optional
    hidden = [param for param in optional if mixed or param.name == "key"]
    return required + [param for param in optional if param not in hidden], hidden + ([op.count] if op.count else [])


def declare(param):
    return f"{param.name}={literal(param.default)}" if param.is_optional else param.name


def docstring(op, params, indent):
    lines = [op.doc, ""]
    lines += [f"{param.name}: {describe(param, op, WORDS)}" for param in params]
    lines.append("Returns: " + describe_results(op))
    wrapped = []
    for line in lines:
        wrapped += textwrap.wrap(line, 110, subsequent_indent="    ", break_on_hyphens=False) or [""]
    escaped = "\n".join(wrapped).replace("\\", "\\\\")
    return textwrap.indent(f'"""{escaped}\n"""', indent, lambda line: line.strip() != "")


def signature(positional, hidden):
    parts = ["self"] + [declare(param) for param in positional] + ["*"] + [declare(param) for param in hidden] + ["name=None"]
    return ", ".join(parts)


def result(op):
    return "list[Node]" if op.is_listed else "Node"


def count(op):
    """The argument with the number of results."""
    if op.many_results:
        return f", results={'results' if op.count else f'len({op.many})'}"
    return f", results={len(op.results)}" if op.is_listed else ""


def graph_method(op):
    positional, hidden = parameters(op)
    inputs = ", ".join(("*" if param.many else "") + param.name for param in op.inputs)
    attrs = ", ".join(f'"{param.name}": {param.name}' for param in op.attrs)
    call = textwrap.wrap(f'return self.op("{op.name}", [{inputs}], {{{attrs}}}, name{count(op)})', 118, break_on_hyphens=False)
    return "\n".join([
        f"    def {op.name}({signature(positional, hidden)}) -> {result(op)}:",
        docstring(op, positional + hidden, "        "),
        *("        " + ("    " if i > 0 else "") + line for i, line in enumerate(call)),
    ])


def tensor_method(op):
    positional, hidden = parameters(op)
    rest = positional[1:]
    values = ["self"] + [param.name for param in rest] + [f"{param.name}={param.name}" for param in hidden] + ["name=name"]
    return "\n".join([
        f"    def {op.name}({signature(rest, hidden)}) -> {result(op)}:",
        docstring(op, rest + hidden, "        "),
        f"        return self.graph.{op.name}({', '.join(values)})",
    ])


def defaults(ops):
    rows = [f'    "{op.name}": {literal(op.defaults)},' for op in ops if op.defaults]
    return "# What the server takes where an attribute is left out: these are not sent.\nDEFAULTS = {\n" + "\n".join(rows) + "\n}\n"


def listed(ops):
    names = textwrap.fill(literal([op.name for op in ops if op.is_listed]), 118, initial_indent="LISTED = ", subsequent_indent="          ")
    return f"# Ops whose results are a list, even of one.\n{names}\n"


def files(ops):
    """Returns {path: text}."""
    generated = [op for op in ops if op.name not in BY_HAND]
    graph = "\n\n".join(map(graph_method, generated))
    tensor = "\n\n".join(tensor_method(op) for op in generated if op.begins_with_tensor)
    return {"clients/python/beamline/ops.py": HEAD + defaults(ops) + listed(ops) + '\n\nclass GraphOps:\n    """Ops as methods of a graph."""\n\n' + graph +
            '\n\n\nclass NodeOps:\n    """Ops as methods of their first operand."""\n\n' + tensor + "\n"}
