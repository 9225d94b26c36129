# SPDX-License-Identifier: MIT
"""The table of ops for the generators of the clients."""
from __future__ import annotations

import dataclasses
import json
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "proto" / "ops.json"

# Descriptions of the types of engine/front/sig.h; each language has its own words for the names in braces.
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
    "bool": "{true} or {false}",
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
    "graph": "{object} of a body: inputs (names), nodes, outputs (names)",
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
SHARED = ("T", "Float", "Int", "Bits")  # types whose inputs are promoted to one dtype
BY_HAND = ("grad", "scan", "cond")      # the clients' graph classes have these by hand (bodies, lists)


@dataclasses.dataclass(frozen=True)
class Param:
    """An input, an attribute, or the number of results if the caller gives the number (type "count").  is_optional: the
    parameter has a default; the default may be None."""

    name: str
    type: str
    is_optional: bool = False
    default: object = None
    many: bool = False
    choices: tuple = ()


@dataclasses.dataclass(frozen=True)
class Op:
    """A row of the table."""

    name: str
    doc: str
    inputs: tuple[Param, ...]
    attrs: tuple[Param, ...]
    results: tuple[str, ...]
    many_results: bool

    @property
    def many(self) -> str | None:
        """The name of the variadic input; an op has at most one."""
        return next((param.name for param in self.inputs if param.many), None)

    @property
    def is_listed(self) -> bool:
        """Whether the method returns a list of results, even for a single result."""
        return self.many_results or len(self.results) > 1

    @property
    def count(self) -> Param | None:
        """The parameter with the number of results, if no input determines the number."""
        return Param("results", "count") if self.many_results and self.many is None else None

    @property
    def begins_with_tensor(self) -> bool:
        """Whether the op is also a method of its first input."""
        return bool(self.inputs) and not self.inputs[0].is_optional and not self.inputs[0].many

    @property
    def defaults(self) -> dict:
        """The server's defaults of omitted attributes."""
        return {param.name: param.default for param in self.attrs if param.default is not None}


def read_param(row) -> Param:
    return Param(row["name"], row["type"], "default" in row, row.get("default"), row.get("many", False), tuple(row.get("choices", ())))


def read_ops() -> list[Op]:
    """Reads the rows of proto/ops.json."""
    return [Op(row["name"], row["doc"], tuple(map(read_param, row["inputs"])), tuple(map(read_param, row["attrs"])), tuple(row["results"]),
               row["many_results"]) for row in json.loads(SOURCE.read_text())["ops"]]


def describe(param, op, words) -> str:
    """Describes a parameter for the documentation.  words: the language's "true", "false", "none" and "object"."""
    if param.choices:
        quoted = [f'"{word}"' for word in param.choices]
        return " or ".join([", ".join(quoted[:-1]), quoted[-1]])
    text = TYPES[param.type].format(**words)
    if param.many:
        return f"list, each a {text}" if text[0] not in "aeiou" else f"list, each an {text}"
    peers = [other.name for other in op.inputs if other.type == param.type and other is not param]
    if param.type in SHARED and peers:
        text += f", brought to one dtype with {', '.join(peers)}"
    if param.name == "key":
        text = "integer scalar that fixes what this place of the graph draws; by default every step draws anew"
    if param.name == "seed":
        text = "whole number; by default the seed of the run"
    if (param.name, param.type) == ("axis", "ints") and param.is_optional and param.default is None and "unless given" not in op.doc:
        text += f"; {words['none']} for all"
    return text


def describe_results(op) -> str:
    """Describes the results of an op for the documentation."""
    results = [f"a {RESULTS[result]}" for result in op.results]
    if op.many_results:
        return f"a list, each {results[0]}"
    return results[0] if len(results) == 1 else "a list of " + ", ".join(results)
