# SPDX-License-Identifier: MIT
"""Expressions that were not computed yet, and how they become one request.

An Expr never changes, but for one thing: once it was computed it points to its tensor on the server, and is a leaf of the
graphs that it stands in.  What it was made of is kept for gradients that lead through it; a Tensor that was realized points to
a new leaf, so that nothing else keeps the past.  The text of a graph is kept for each structure: a graph of a known one costs
its leaves only.
"""
from __future__ import annotations

import base64
import json
import os
import weakref
from typing import Any, Callable, Iterable

from . import device as devices
from .connection import NotFound, TensorLost
from .context import CHECK_INDICES
from .device import Device, Handle
from .dtype import DType
from .symbolic import Bindings, Symbolic, as_text, find, now
from .values import Array, exact

LIVE: dict = {}          # id -> weak reference, of every Tensor there is
INLINE_BYTES = 1024      # numbers of up to this size stand in the document
KNOWN_STRUCTURES = 2048
RANDOM = frozenset(("uniform", "normal", "randint", "randperm", "rand_like", "dropout", "bernoulli", "multinomial",
                    "random_bits"))


class Expr:
    """A tensor to be: an op of the wire over others and numbers, or a leaf.

    op: the wire's name; "data" (numbers here), "held" (on the server), "input" (of a program), "item" (one result of several)
    src: Exprs and numbers        attrs: ((name, value), ...)
    shape, dtype: None for an op of several results, which "item" takes apart
    leaf: of a shape that no input of a graph can have, its value, which has numbers for formulas; it is computed again
    """

    __slots__ = ("op", "src", "attrs", "shape", "dtype", "device", "handle", "data", "origin", "leaf", "__weakref__")

    def __init__(self, op: str, src: tuple, attrs: tuple, shape: tuple | None, dtype: DType | None, device: str | None = None):
        self.op, self.src, self.attrs, self.shape, self.dtype, self.device = op, src, attrs, shape, dtype, device
        self.handle: Handle | None = None
        self.data: Array | None = None
        self.origin = None  # of a leaf: a weak reference to the Expr that it is the value of
        self.leaf: Expr | None = None

    def __repr__(self) -> str:
        return f"<Expr {self.op} {self.shape} {self.dtype}>"

    @property
    def is_leaf(self) -> bool:
        """Whether there is nothing to compute."""
        return self.handle is not None or self.data is not None

    def hold(self, handle: Handle) -> None:
        """It was computed, and is there."""
        if not is_plain(self.shape):
            self.leaf = held(handle, self.shape, self.dtype, self.device)
            self.leaf.origin = weakref.ref(self)
            return
        self.handle, self.data = handle, None
        if self.op == "data" or self.op in RANDOM and not self.src:
            self.attrs, self.op = (), "held"

    def settled(self) -> Expr:
        """A leaf of its value, without what it was made of."""
        if self.leaf is not None:
            return self.leaf
        if self.handle is None or not self.src:
            return self
        leaf = held(self.handle, self.shape, self.dtype, self.device)
        leaf.origin = weakref.ref(self)
        return leaf


def from_array(value: Array, dtype: DType, device: str | None) -> Expr:
    """A leaf of numbers in this process."""
    expr = Expr("data", (), (), tuple(value.shape), dtype, device)
    expr.data = value
    return expr


def is_plain(shape: tuple) -> bool:
    """Whether an input of a graph can have this shape: of numbers and Variables, and no formula of them."""
    return not any(isinstance(size, Symbolic) and not size.is_plain for size in shape)


def held(handle: Handle, shape: tuple, dtype: DType, device: str | None) -> Expr:
    """A leaf on the server.  A formula in its shape becomes the number that it is."""
    if not is_plain(shape):
        shape = tuple(size.now() if isinstance(size, Symbolic) and not size.is_plain else size for size in shape)
    expr = Expr("held", (), (), shape, dtype, device)
    expr.handle = handle
    return expr


def numel(shape: tuple) -> int:
    """How many elements a shape has."""
    total = 1
    for size in shape:
        total *= size
    return total


def linearize(wanted: Iterable[Expr], inner: frozenset = frozenset(), cut: frozenset = frozenset()) -> list[Expr]:
    """All that these are made of, operands first.

    inner: id() of what is no leaf although it was computed before     cut: id() of what is to be a leaf
    """
    order: list[Expr] = []
    seen: set[int] = set()
    stack = [(expr, False) for expr in reversed(list(wanted))]
    while stack:
        expr, ready = stack.pop()
        if ready:
            order.append(expr)
        elif id(expr) not in seen:
            seen.add(id(expr))
            if not expr.src or expr.data is not None or expr.handle is not None and id(expr) not in inner or id(expr) in cut:
                order.append(expr)
                continue
            stack.append((expr, True))
            for each in reversed(expr.src):
                if each.__class__ is Expr and id(each) not in seen:
                    stack.append((each, False))
    return order


def between(grad: Expr) -> dict:
    """What lies between the result that is differentiated and what it is differentiated by: id() to Expr."""
    on_path, found = {id(each) for each in targets_of(grad)}, {}
    everything, seen, stack = [], set(), [(grad.src[0], False)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            everything.append(expr)
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            if expr.op != "to":  # a move between devices ends the graph
                stack.extend((each, False) for each in expr.src if each.__class__ is Expr)
    for expr in everything:  # operands first
        if expr.op != "to" and any(id(each) in on_path for each in expr.src if each.__class__ is Expr):
            on_path.add(id(expr))
            found[id(expr)] = expr
    return found


def order_of(wanted: list[Expr], cut: frozenset = frozenset()) -> tuple[list[Expr], frozenset]:
    """(operands first, id() of those that are computed again because a gradient leads through them)"""
    order, inner = linearize(wanted, cut=cut), frozenset()
    while True:
        paths = [between(each) for each in order if each.op == "grad" and each.handle is None]
        more = {key for path in paths for key, expr in path.items() if expr.handle is not None}
        if more <= inner:
            return order, inner
        inner = inner | more
        order = linearize(wanted, inner, cut)


def is_input(expr: Expr, inner: frozenset = frozenset()) -> bool:
    """Whether it is a leaf."""
    return (expr.handle is not None and id(expr) not in inner) or expr.data is not None or expr.op == "input"


class Template:
    """The nodes of a graph of one structure, as JSON.

    formulas: places in the graph's order of what has formulas in its shape or attributes; they say what Variables are bound to
    ranges: the members "dims" and "shapes" of a run, or ""
    """

    __slots__ = ("nodes", "ids", "formulas", "ranges")

    def __init__(self, order: list[Expr], inputs: list[Expr]):
        place = {id(expr): f"x{i}" for i, expr in enumerate(inputs)}
        self.formulas = [i for i, expr in enumerate(order) if any(True for _ in find((expr.shape or (), expr.attrs)))]
        self.ranges = ""
        if self.formulas:
            shapes = {place[id(expr)]: as_text(expr.shape) for expr in inputs if any(True for _ in find(expr.shape))}
            self.ranges = f',"dims":{json.dumps(bindings_of(order, inputs, self).dims())},"shapes":{json.dumps(shapes)}'
        used: dict[int, list[int]] = {}
        for expr in order:
            if expr.op == "item" and id(expr) not in place:
                used.setdefault(id(expr.src[0]), []).append(expr.attrs[0][1])
        nodes, number = [], 0
        items: dict[tuple, str] = {}
        for expr in order:
            if id(expr) in place:
                continue
            if expr.op == "item":
                place[id(expr)] = items[id(expr.src[0]), expr.attrs[0][1]]
                continue
            sources, name = expr.src, f"n{number}"
            number += 1
            place[id(expr)] = name
            names: object = name
            if expr.shape is None:
                taken = sorted(set(used[id(expr)]))
                if expr.op == "grad":  # only what is asked for
                    rest = sources[1 + len(targets_of(expr)):]
                    sources = (sources[0], *(sources[1 + i] for i in taken), *rest)
                    names = [f"{name}.{i}" for i in taken]
                else:
                    names = [f"{name}.{i}" for i in range(dict(RESULTS)[expr.op])]
                items.update({(id(expr), i): f"{name}.{i}" for i in taken})
            node = {"id": names, "op": expr.op, "in": [place[id(each)] if each.__class__ is Expr else exact(each)
                                                       for each in sources]}
            if expr.attrs:
                node["attrs"] = {key: exact(as_text(value) if self.formulas else value) for key, value in expr.attrs}
            nodes.append(node)
        self.nodes = json.dumps(nodes, separators=(",", ":"))
        self.ids = place


# How many results an op has that has several; a gradient has as many as it is asked for.
RESULTS = {"sort": 2, "topk": 2, "cummax": 2, "cummin": 2, "qr": 2, "svd": 3, "max_pool_indices": 2, "masked_select": 2,
           "nonzero": 2,
           "lstm_cell": 2}


def targets_of(grad: Expr) -> tuple:
    """What a gradient is taken to."""
    return grad.src[1:-1] if grad.attrs else grad.src[1:]


def bindings_of(order: list[Expr], inputs: list[Expr], template: Template) -> Bindings:
    """The Variables that the nodes and inputs of a graph name."""
    bindings, given = Bindings(), {id(each) for each in inputs}
    for i in template.formulas:
        if id(order[i]) in given:
            bindings.add(order[i].shape)
        else:
            bindings.add(order[i].attrs)
    return bindings


TEMPLATES: dict = {}


def apart(value) -> Any:
    """A number as part of a key, which tells -0.0 from 0.0: Python compares the two as equal."""
    return value if value or value.__class__ is not float else str(value)


def make_template(order: list[Expr], inputs: list[Expr]) -> tuple[Template, list]:
    """The Template of a graph, and the id of each of its Exprs."""
    place: dict[int, int] = {}
    leaves = {id(each) for each in inputs}
    key = []
    for number, expr in enumerate(order):
        place[id(expr)] = number
        if id(expr) in leaves:
            key.append((expr.shape, expr.dtype))
        else:
            key.append((expr.op, tuple([(name, apart(value)) for name, value in expr.attrs]),
                        tuple([place[id(each)] if each.__class__ is Expr else (apart(each),) for each in expr.src])))
    structure = tuple(key)
    found = TEMPLATES.get(structure)
    if found is None:
        if len(TEMPLATES) >= KNOWN_STRUCTURES:
            TEMPLATES.clear()
        template = Template(order, inputs)
        found = TEMPLATES[structure] = (template, [template.ids.pop(id(expr), None) for expr in order])
    return found


# ---- requests

def bind(name: str, expr: Expr, files: dict) -> str:
    """A leaf as a member of "inputs"."""
    if expr.handle is not None:
        return f'"{name}":{{"tensor":"{expr.handle.name}"}}'
    value = expr.data
    if value.nbytes <= INLINE_BYTES:
        text = base64.b64encode(bytes(value.data)).decode()
        return f'"{name}":{{"dtype":"{value.dtype}","shape":{json.dumps(list(value.shape))},"base64":"{text}"}}'
    files[name] = value
    return ""


def prepare(expr: Expr, device: str | None, uploads: bool) -> None:
    """Numbers that are large, and used again and again, are sent once."""
    if uploads and expr.data is not None and expr.data.nbytes > INLINE_BYTES:
        expr.hold(Device.session.upload(expr.data, device))


def choose_device(order: list[Expr]) -> str | None:
    return next((each.device for each in order if each.device is not None), None) or Device.default


def cross_devices(order: list[Expr]) -> bool:
    """Compute what is to come from another device; it is a leaf then.  False where there is nothing of the kind."""
    moves = [each for each in order if each.op == "to" and not is_input(each)]
    for each in moves:
        source = each.src[0]
        realize([source])
        each.hold(source.handle)
    return bool(moves)


def first_seed() -> int:
    """$BEAMLINE_SEED, or a random number of the system."""
    text = os.environ.get("BEAMLINE_SEED")
    try:
        return int(text) if text else int.from_bytes(os.urandom(8), "little")
    except ValueError:
        raise ValueError(f"BEAMLINE_SEED is {text!r}; it must be a whole number") from None


class Seeds:
    """The random numbers of this process: each request that draws has the next seed.  The first seed is $BEAMLINE_SEED, or a random number of the system."""

    seed = first_seed()
    count = 0

    @classmethod
    def next(cls) -> int:
        """The seed of the next request: 32 bits of both (splitmix64)."""
        cls.count += 1
        z = (cls.seed * 0x9e3779b97f4a7c15 + cls.count * 0xbf58476d1ce4e5b9) & 0xffffffffffffffff
        z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & 0xffffffffffffffff
        z = ((z ^ z >> 27) * 0x94d049bb133111eb) & 0xffffffffffffffff
        return (z ^ z >> 31) & 0xffffffff


def forget_lost() -> None:
    """After tensors on a server were lost: mark the values that this process can compute or send again."""
    seen: set = set()
    live = [tensor for tensor in (reference() for reference in list(LIVE.values())) if tensor is not None]
    stack = [tensor.expr for tensor in live] + [tensor._view.storage.value for tensor in live if tensor._view is not None]
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        stack.extend(each for each in expr.src if each.__class__ is Expr)
        if expr.leaf is not None and expr.leaf.handle.is_lost:
            expr.leaf = None
        if expr.handle is None or not expr.handle.is_lost:
            continue
        if expr.handle.data is not None:
            expr.handle, expr.data = None, expr.handle.data
        elif expr.op != "held" and expr.op not in RANDOM:
            expr.handle = None


Device.when_lost.append(forget_lost)


def check_lost(exprs: Iterable[Expr]) -> None:
    """Raise TensorLost if the server no longer has the numbers of some of |exprs|."""
    lost = [each for each in exprs if each.handle is not None and each.handle.lease != each.handle.session.lease]
    if lost:
        names = ", ".join(f"Tensor {each.shape} {each.dtype}" for each in lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise TensorLost(404, f"{names}: the server at {lost[0].handle.session.client.connection.url} had the numbers, and was restarted, ended the lease of this "
                         "process, or is no longer in use: make the Tensor again, or load it", "Tensor lost")


def recovering(work: Callable[[], Any]) -> Any:
    """The result of |work|.  If |work| fails because the lease has ended, call |work| again under a new lease."""
    session, lease = Device.session, Device.session.lease
    try:
        return work()
    except TensorLost:
        raise
    except NotFound:
        if not session.recover(lease):
            raise
    return work()


def realize(wanted: Iterable[Expr], fetch: Expr | None = None) -> Array | None:
    """Compute these in one request and leave the results on the server; give the numbers of |fetch|, which is one of them.

    Numbers of this process among them are sent.  What is drawn on the way is kept too: it is to be the same wherever it is used.
    """
    wanted = list(wanted)
    return recovering(lambda: realize_now(wanted, fetch))


def realize_now(wanted: list[Expr], fetch: Expr | None) -> Array | None:
    todo, seen = [], set()
    for expr in wanted:
        if expr.handle is None:
            if expr.data is not None:
                if expr is not fetch:
                    expr.hold(Device.session.upload(expr.data, expr.device))
            elif id(expr) not in seen:
                seen.add(id(expr))
                todo.append(expr)
    if not todo:
        return None if fetch is None else numbers_of(fetch)
    order, inner = order_of(todo)
    if any(each.op == "input" for each in order):
        raise RuntimeError("a Tensor that was made while a TinyJit captured its function has no numbers: return the Tensor from the function, or realize it in the function")
    if cross_devices(order):
        return realize(wanted, fetch)
    array = run(todo, order, inner, fetch if fetch is not None and fetch.handle is None and fetch.data is None else None)
    return array if fetch is None or array is not None else numbers_of(fetch)


def numbers_of(expr: Expr) -> Array:
    """The numbers of a leaf."""
    if expr.handle is None:
        return expr.data
    check_lost([expr])
    return Device.session.download(expr.handle) if expr.handle.data is None else expr.handle.data


def run(todo: list[Expr], order: list[Expr], inner: frozenset, fetch: Expr | None) -> Array | None:
    session = Device.session
    device = choose_device(order)
    inputs = [each for each in order if is_input(each, inner)]
    check_lost(inputs)
    kept = {id(each) for each in todo}
    drawn = [each for each in order if each.op in RANDOM and each.handle is None]
    todo.extend(each for each in drawn if id(each) not in kept)
    session.sweep()
    template, ids = make_template(order, inputs)
    sizes = template.ranges and f'{template.ranges},"sizes":{json.dumps(bindings_of(order, inputs, template).sizes())}'
    place = {id(expr): name for expr, name in zip(order, ids)}
    files: dict = {}
    given = []
    for i, each in enumerate(inputs):
        prepare(each, device, each.attrs == ("sent",))
        given.append(bind(f"x{i}", each, files))
        if each.data is not None:
            each.attrs = ("sent",)
    names = [session.fresh() for _ in todo]
    keep = ",".join([f'"{name}":"{place[id(expr)]}"' for name, expr in zip(names, todo)])
    text = (f'{{"lease":"{session.lease}","inputs":{{{",".join(filter(None, given))}}},"keep":{{{keep}}},"nodes":{template.nodes}'
            + (f',"outputs":["{place[id(fetch)]}"]' if fetch is not None else "") + (f',"device":"{device}"' if device else "") + sizes
            + (f',"seed":{Seeds.next()}' if drawn else "") + (',"check_indices":true' if CHECK_INDICES else "")
            + devices.options() + "}")
    try:
        reply, arrays = session.post("/api/v1/run", text, files, fetch is not None)
    except BaseException:
        session.freed.extend((name, 0) for name in names)
        raise
    for name, expr in zip(names, todo):
        expr.hold(Handle(session, name, numel(now(expr.shape)) * expr.dtype.itemsize))
    session.count(reply["stats"])
    return arrays[place[id(fetch)]] if fetch is not None else None
