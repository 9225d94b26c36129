# SPDX-License-Identifier: MIT
"""Random graphs: draw(seed) returns a Document, equal for the same seed and list of ops."""
from documents import Document, Named, concrete, count, ids_of
from draws import DRAWS
from drawing import Drawing, Impossible


def gradient(d):
    """Adds the gradient of a scalar made of some floats with respect to other values."""
    floats = [v for v in d.values if v.floating and not v.given]
    sources = [v for v in d.values if v.floating and v.given and v.name in d.used] or floats
    if not floats or not sources:
        return []
    def scalar(v):
        v = d.cast(v, d.float)
        return d.add("mean" if count(v.shape) else "sum", [v], [((), v.dtype, False, v.size)])
    total = None
    for v in d.random.sample(floats, min(len(floats), d.random.choice((1, 1, 2, 3)))):
        v = scalar(v)
        total = v if total is None else d.add("add", [total, v], [((), v.dtype, False, v.size)])
    wanted = d.random.sample(sources, min(len(sources), d.random.choice((1, 2, 3))))
    if d.chance(0.3):
        wanted.append(d.random.choice(floats))
    wanted = list({v.name: v for v in wanted}.values())
    results = [(v.shape, v.dtype, False, 10.0) for v in wanted]
    found = d.add("grad", [total, *wanted], results)
    found = found if isinstance(found, list) else [found]
    if d.chance(0.12):
        y = d.add("square", [found[0]], [(found[0].shape, found[0].dtype, False, 100.0)])
        y = d.add("sum", [y], [((), y.dtype, False, 100.0)])
        found.append(d.add("grad", [y, wanted[0]], [(wanted[0].shape, wanted[0].dtype, False, 10.0)]))
    return found


def draw(seed):
    d = Drawing(seed)
    wanted = d.random.choice((5, 6, 8, 8, 10, 12, 15, 20, 25, 30, 40))
    for _ in range(d.random.randint(1, 3)):
        d.input()
    tries = 0
    while len(d.nodes) < wanted and tries < 8 * wanted:
        tries += 1
        try:
            d.random.choices(list(DRAWS), list(DRAWS.values()))[0](d)
        except Impossible:
            pass
    found = []
    if d.wants_grad:
        try:
            found = gradient(d)
        except Impossible:
            pass
    made = [v for v in d.values if not v.given]
    ends = [v for v in made if v.name not in d.used]
    more = [v for v in made if v.name in d.used]
    outputs = ends + d.random.sample(more, min(len(more), d.random.choice((0, 0, 1, 2, 4))))
    outputs = list(dict.fromkeys(v.name for v in outputs + found))
    nodes, needed = [], set(outputs)
    for node in reversed(d.nodes):  # removes the nodes of abandoned ops
        if needed & set(ids_of(node)):
            nodes.insert(0, node)
            needed |= {x for x in node["in"] if isinstance(x, str)}
    inputs = {name: t for name, t in d.inputs.items() if name in needed}
    if not outputs:
        return draw(f"{seed}+")
    document = Document(inputs, nodes, outputs, d.dims)
    named = any(isinstance(n, Named) for t in inputs.values() for n in t.shape)
    document = document if named or not d.dims else concrete(document, {d.name.name: int(d.name)})
    document.expected = {v.name: (v.dtype, tuple(int(n) for n in v.shape)) for v in d.values if v.name in outputs}
    return document
