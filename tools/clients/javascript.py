# SPDX-License-Identifier: MIT
"""Generates clients/js/ops.js and clients/js/ops.d.ts.

Required inputs and attributes are parameters, in the order of the signature; optional ones are members of the last parameter.
Methods and parameters are in camelCase; members keep the names of the wire.
"""
import json
import re
import textwrap

from .table import BY_HAND, describe, describe_results

HEAD = """// SPDX-License-Identifier: MIT
// Made by tools/clients/javascript.py from proto/ops.json; change those.
"""
ABOUT = """//
// A method for each op of the wire: of a graph, and of a Node if the first operand of the op is a tensor. A number can stand for a tensor; a whole
// number gets the dtype of the other operand. A size is a whole number, the name of a dimension, or a formula of names such as "2 * n + 1". `name` is
// the id of the node, or the list of the ids of an op with several results. The server checks shapes and dtypes; the BeamlineError of a graph that
// cannot be has status 422, a reason, and the id of the node.
"""
TYPES_IMPORT = """import type {Body, DType, Integer, NameOption, NamesOption, Node, Operand, Size} from "./beamline.js";

"""
WORDS = {"true": "true", "false": "false", "none": "null", "object": "document"}
RESERVED = {"var", "function", "default", "in", "new", "with", "delete", "class", "this", "switch", "case"}
TYPES = {
    "Wrt": "Node",
    "int": "Integer",
    "float": "number",
    "bool": "boolean",
    "ints": "number | readonly number[]",
    "floats": "readonly number[]",
    "number": "number | bigint",
    "size": "Size",
    "sizes": "Size | readonly Size[]",
    "bound": "Size",
    "pairs": "readonly (readonly [Size, Size])[]",
    "dtype": "DType",
    "rate": "number | Node",
    "text": "string",
    "graph": "Body",
    "count": "number",
}
WIDTH = 118


def camel(name):
    """Converts a wire name to camelCase: negative_slope becomes negativeSlope."""
    return re.sub(r"_(\w)", lambda found: found.group(1).upper(), name)


def local(name):
    """The name of a parameter or variable."""
    return camel(name) + ("_" if name in RESERVED else "")


def literal(value):
    """The JavaScript source of a value."""
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def type_of(param):
    if param.choices:
        return " | ".join(f'"{word}"' for word in param.choices)
    kind = TYPES.get(param.type, "Operand")
    return f"readonly {kind}[]" if param.many else kind


def parameters(op):
    """Returns (required parameters, members of the last parameter)."""
    params = [*op.inputs, *op.attrs]
    return [param for param in params if not param.is_optional], [param for param in params if param.is_optional] + ([op.count] if op.count else [])


def comment(lines, indent):
    """A JSDoc comment; long lines are wrapped and indented."""
    wrapped = []
    for line in lines:
        wrapped += textwrap.wrap(line.replace("*/", "* /"), WIDTH - len(indent) - 3, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    if len(wrapped) == 1:
        return f"{indent}/** {wrapped[0]} */"
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}" for line in wrapped), f"{indent} */"])


def member_name(param):
    """The JSDoc name of a member of the options."""
    if not param.is_optional:
        return f"options.{param.name}"
    return f"[options.{param.name}" + (f"={literal(param.default)}]" if param.default is not None else "]")


def sentences(op, params, members, types):
    """The comment lines of a method; |types|: includes the types of the parameters."""
    typed = (lambda text: f"{{{text}}} ") if types else lambda text: ""
    result = "Node[]" if op.is_listed else "Node"
    return [op.doc,
            *(f"@param {typed(type_of(param))}{local(param.name)} {describe(param, op, WORDS)}" for param in params),
            *(f"@param {typed(type_of(param))}{member_name(param)} {describe(param, op, WORDS)}" for param in members),
            f"@returns {typed(result)}{describe_results(op)}"]


# ---- ops.js

def form(op):
    """The last argument of Graph.call: the optional inputs of an op, and the number of results if the op returns a list and has
    no parameter for the number."""
    optional = [literal(param.name) for param in op.inputs if param.is_optional]
    members = [f"optional: [{', '.join(optional)}]"] if optional else []
    if op.is_listed and not op.count:
        members.append(f"results: {f'{local(op.many)}.length' if op.many_results else len(op.results)}")
    return f", {{{', '.join(members)}}}" if members else ""


def graph_method(op):
    params, members = parameters(op)
    names = [local(param.name) for param in params]
    operands = ", ".join(("..." if param.many else "") + local(param.name) for param in op.inputs if not param.is_optional)
    attrs = ", ".join(param.name if param.name == local(param.name) else f"{param.name}: {local(param.name)}" for param in op.attrs if not param.is_optional)
    return "\n".join([
        comment(sentences(op, params, members, True), "  "),
        f"  {camel(op.name)}({', '.join([*names, 'options'])}) {{",
        f'    return this.call("{op.name}", [{operands}], {{{attrs}}}, options{form(op)});',
        "  }",
    ])


def node_method(op):
    names = [local(param.name) for param in parameters(op)[0][1:]]
    return (f"  {camel(op.name)}({', '.join([*names, 'options'])}) {{\n"
            f"    return this.graph.{camel(op.name)}({', '.join(['this', *names, 'options'])});\n  }}")


def defaults(ops):
    rows = [f"  {op.name}: {literal(op.defaults)}," for op in ops if op.defaults]
    return "// The defaults of the server. An attribute that equals its default is not sent.\nexport const DEFAULTS = {\n" + "\n".join(rows) + "\n};\n"


def listed(ops):
    names = textwrap.fill(", ".join(f'"{op.name}"' for op in ops if op.is_listed), WIDTH, initial_indent="  ", subsequent_indent="  ")
    return f"// Ops that return a list of results.\nexport const LISTED = new Set([\n{names},\n]);\n"


def class_text(name, doc, methods):
    return f"\n/** {doc} */\nexport class {name} {{\n" + "\n\n".join(methods) + "\n}\n"


def module(ops, generated):
    return (HEAD + ABOUT + "\n" + defaults(ops) + "\n" + listed(ops) + class_text("GraphOps", "Ops as methods of a graph.", map(graph_method, generated)) +
            class_text("NodeOps", "Ops as methods of their first operand: each is the method of GraphOps of that name.",
                       [node_method(op) for op in generated if op.begins_with_tensor]))


# ---- ops.d.ts

def options_type(op, members):
    """The declaration of the last parameter."""
    name = "NamesOption" if op.is_listed else "NameOption"
    if not members:
        return f"options?: {name}"
    declared = "; ".join(f"{param.name}{'?' if param.is_optional else ''}: {type_of(param)}{' | null' if param.is_optional else ''}" for param in members)
    return f"options{'' if op.count else '?'}: {{{declared}}} & {name}"


def declaration(op, params, members):
    parts = [f"{local(param.name)}: {type_of(param)}" for param in params] + [options_type(op, members)]
    head = f"  {camel(op.name)}({', '.join(parts)}): {'Node[]' if op.is_listed else 'Node'};"
    return comment(sentences(op, params, members, False), "  ") + "\n" + head


def graph_declaration(op):
    return declaration(op, *parameters(op))


def node_declaration(op):
    params, members = parameters(op)
    return declaration(op, params[1:], members)


def declarations(generated):
    return (HEAD + TYPES_IMPORT + "export const DEFAULTS: Readonly<Record<string, Readonly<Record<string, unknown>>>>;\n"
            "export const LISTED: ReadonlySet<string>;\n" + class_text("GraphOps", "Ops as methods of a graph.", map(graph_declaration, generated)) +
            class_text("NodeOps", "Ops as methods of their first operand.", [node_declaration(op) for op in generated if op.begins_with_tensor]))


def files(ops):
    """Returns {path: text}."""
    generated = [op for op in ops if op.name not in BY_HAND]
    return {"clients/js/ops.js": module(ops, generated), "clients/js/ops.d.ts": declarations(generated)}
