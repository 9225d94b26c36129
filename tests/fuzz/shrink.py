# SPDX-License-Identifier: MIT
"""Shrink a document while its results still differ.

The shrinker needs no knowledge of the ops: it discards a smaller document that the server refuses, or on which the levels
agree.
"""
import copy

import numpy as np

from documents import Document, Tensor, concrete, ids_of

TRIES = 600  # largest number of attempts


def without_dead(document):
    """Keeps only the nodes that an output needs, and their inputs."""
    nodes, needed = [], set(document.outputs)
    for node in reversed(document.nodes):
        if needed & set(ids_of(node)):
            nodes.insert(0, node)
            needed |= {x for x in node["in"] if isinstance(x, str)}
    sizes = {n.name for name, t in document.inputs.items() if name in needed for n in t.shape if hasattr(n, "name")}
    return Document({name: t for name, t in document.inputs.items() if name in needed}, nodes, document.outputs,
                    {name: limits for name, limits in document.dims.items() if name in sizes})


def renamed(document, old, new):
    """Replaces every use of the value |old| by |new|."""
    nodes = [{**node, "in": [new if x == old else x for x in node["in"]]} for node in document.nodes]
    outputs = list(dict.fromkeys(new if name == old else name for name in document.outputs))
    return Document(document.inputs, nodes, [name for name in outputs if name not in document.inputs], document.dims)


def fewer_outputs(document):
    for name in document.outputs:  # each output alone; then all outputs but one
        yield Document(document.inputs, document.nodes, [name], document.dims)
    for name in document.outputs:
        rest = [other for other in document.outputs if other != name]
        yield Document(document.inputs, document.nodes, rest, document.dims)


def earlier_outputs(document):
    """Replaces outputs by the operands of their nodes."""
    for node in reversed(document.nodes):
        if set(ids_of(node)) & set(document.outputs):
            made = [name for other in document.nodes for name in ids_of(other)]
            rest = [name for name in document.outputs if name not in ids_of(node)]
            more = [x for x in node["in"] if x in made and x not in rest]
            yield Document(document.inputs, document.nodes, list(dict.fromkeys(rest + more)), document.dims)


def fewer_nodes(document):
    """Replaces a use of a node by an operand of the node, or by an input."""
    for node in reversed(document.nodes):
        for name in ids_of(node):
            for other in [x for x in node["in"] if isinstance(x, str)] + list(document.inputs):
                yield renamed(document, name, other)


def values_as_inputs(values):
    """Replaces a node by an input with the node's value."""
    def candidates(document):
        known = values(document)
        for node in reversed(document.nodes):
            for name in ids_of(node):
                if name not in known or name in document.outputs:
                    continue
                dtype, array = known[name]
                if array.size > 4096 or dtype.startswith("float8"):
                    continue
                plain = concrete(document)
                nodes = [other for other in plain.nodes if other is not node and name not in ids_of(other)]
                if len(ids_of(node)) == 1:
                    yield Document({**plain.inputs, name: Tensor(dtype, array)}, nodes, document.outputs)
    return candidates


def fewer_operands(document):
    for place, node in enumerate(document.nodes):
        if len(node["in"]) > 1:
            for i in range(len(node["in"]) - 1, -1, -1):
                rest = node["in"][:i] + node["in"][i + 1:]
                ids = node["id"]
                if isinstance(ids, list) and node["op"] == "grad" and i > 0:
                    ids = ids[:i - 1] + ids[i:]
                    if node["id"][i - 1] in document.outputs:
                        continue
                yield with_node(document, place, {**node, "in": rest, "id": ids})


def fewer_attributes(document):
    for place, node in enumerate(document.nodes):
        for name in node.get("attrs", {}):
            attrs = {k: v for k, v in node["attrs"].items() if k != name}
            yield with_node(document, place, {**{k: v for k, v in node.items() if k != "attrs"}, **({"attrs": attrs} if attrs else {})})


def with_node(document, place, node):
    return Document(document.inputs, document.nodes[:place] + [node] + document.nodes[place + 1:], document.outputs, document.dims)


def no_names(document):
    if document.dims:
        yield concrete(document)


def smaller_sizes(document):
    """Reduces one size (halves it, or subtracts 1) in all inputs and attributes."""
    sizes = {int(n) for t in document.inputs.values() for n in t.array.shape if n > 1}
    if document.dims:
        return
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, size // 2, size - 1)):
            if new >= size:
                continue
            inputs = {}
            for name, t in document.inputs.items():
                cut = tuple(slice(0, new if n == size else n) for n in t.array.shape)
                inputs[name] = Tensor(t.dtype, t.array[cut])

            def replaced(x):
                if isinstance(x, list):
                    return [replaced(y) for y in x]
                return new if x == size and not isinstance(x, bool) else x
            nodes = [{**node, "attrs": {k: replaced(v) for k, v in node["attrs"].items()}} if "attrs" in node else node for node in document.nodes]
            yield Document(inputs, nodes, document.outputs)
            yield Document(inputs, document.nodes, document.outputs)


def one_axis_less(document):
    for name, t in document.inputs.items():
        if t.array.ndim and not document.dims:
            for i in range(t.array.ndim):
                if t.array.shape[i]:
                    yield Document({**document.inputs, name: Tensor(t.dtype, t.array.take(0, i))}, document.nodes, document.outputs)


def simpler_numbers(document):
    for name, t in document.inputs.items():
        if t.array.size == 0:
            continue
        steps = (np.arange(t.array.size) % 5).reshape(t.array.shape)
        for array in (np.zeros(t.array.shape), np.ones(t.array.shape), steps, np.round(t.array.astype(np.float64))):
            if not np.array_equal(array, t.array.astype(np.float64)) and np.isfinite(array).all():
                yield Document({**document.inputs, name: Tensor(t.dtype, array, t.shape)}, document.nodes, document.outputs, document.dims)


def size_of(document):
    """The measure to minimise: nodes, operands, outputs, names, elements, attributes, and numbers other than 0 and 1."""
    arrays = [t.array.astype(np.float64) for t in document.inputs.values()]
    return (len(document.nodes), sum(len(node["in"]) for node in document.nodes), len(document.outputs), len(document.dims),
            len(document.inputs), sum(a.size for a in arrays), sum(a.ndim for a in arrays), sum(len(node.get("attrs", {})) for node in document.nodes),
            sum(int((a != 0).sum() + (a != 1).sum() + (a != np.round(a)).sum()) for a in arrays))


def shrink(document, differs, values=lambda document: {}, progress=lambda text: None, tries=TRIES):
    """Returns the smallest document for which |differs| still returns a difference, and the difference.  |values| returns the
    values of all nodes."""
    found = differs(document)
    ways = (no_names, fewer_outputs, earlier_outputs, fewer_nodes, values_as_inputs(values), fewer_operands, smaller_sizes, one_axis_less,
            fewer_attributes, simpler_numbers)
    seen, again = set(), True
    while again and tries > 0:
        again = False
        for way in ways:
            tried_all = False
            while not tried_all and tries > 0:
                tried_all = True
                for candidate in way(document):
                    candidate = without_dead(candidate)
                    if not candidate.outputs or not candidate.nodes or size_of(candidate) >= size_of(document):
                        continue
                    text = candidate.text()
                    if text in seen:
                        continue
                    seen.add(text)
                    tries -= 1
                    problem = differs(candidate)
                    if problem is not None:
                        document, found, again, tried_all = copy.copy(candidate), problem, True, False
                        progress(f"{len(document.nodes)} nodes")
                        break
                    if tries <= 0:
                        break
    return document, found
