# SPDX-License-Identifier: MIT
"""TinyJit: what a function does to Tensors as a program on the server, run by one request a call."""
from __future__ import annotations

import functools
import itertools
import json
import weakref
from typing import Any, Callable

from . import device as devices
from .base import LIVE
from .context import BEAM, JIT
from .device import Device, Handle
from .expr import (RANDOM, Expr, Seeds, between, bind, bindings_of, check_lost, choose_device, held, is_input, is_plain, linearize,
                   make_template, numel, order_of, realize, recovering)
from .symbolic import Bindings, Pins, Symbolic, Variable, as_text, now, rebound  # noqa: F401  # Variable as part of this module
from .tensor import Capture, JitError, Tensor

NUMBERS = itertools.count()
MOST_PROGRAMS = 64  # of one function, for the values of its arguments


def flatten(value: Any, name: str, tensors: dict, rest: list, bindings: Bindings) -> None:
    """Tensors within lists, tuples and dicts by a name each, and all else in order; what Variables are bound to in |bindings|."""
    if isinstance(value, Tensor):
        tensors[name] = value
    elif isinstance(value, Symbolic):
        value.now()
        bindings.add(value)
        rest.append((name, Symbolic, value.key))
    elif isinstance(value, (list, tuple)):
        rest.append((name, type(value).__name__, len(value)))
        for i, each in enumerate(value):
            flatten(each, f"{name}.{i}", tensors, rest, bindings)
    elif isinstance(value, dict):
        rest.append((name, tuple(map(str, value))))
        for key, each in value.items():
            flatten(each, f"{name}.{key}", tensors, rest, bindings)
    else:
        try:
            hash(value)
            rest.append((name, type(value), value))
        except TypeError:
            rest.append((name, type(value), id(value)))


def rebuild(value: Any, replace: Callable[[Tensor], Tensor]) -> Any:
    """The same structure of other Tensors."""
    if isinstance(value, Tensor):
        return replace(value)
    if isinstance(value, (list, tuple)):
        parts = [rebuild(each, replace) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: rebuild(each, replace) for key, each in value.items()}
    return value


class Trace:
    """What a function did to Tensors.

    returned: what it returned     outputs: the Exprs of that     assigned: (Tensor or place among the arguments, its new Expr)
    leaves: (Expr, what gives its value: a place among the arguments, a Tensor whose value is taken at each call, or an Expr)
    order, inner: as of order_of()
    kept: id() of Tensors in |returned| that were there before, and are returned themselves
    pinned: the names of Variables whose values it depends on
    """

    def __init__(self, returned: Any, outputs: list, assigned: list, leaves: list, order: list, inner: frozenset, kept: frozenset,
                 pinned: frozenset):
        self.returned, self.outputs, self.assigned, self.pinned = returned, outputs, assigned, pinned
        self.leaves, self.order, self.inner, self.kept = leaves, order, inner, kept


class Program:
    """A captured function as a program on the server."""

    def __init__(self, kinds: list, trace: Trace):
        self.kinds, self.returned, self.assigned, self.leaves = kinds, trace.returned, trace.assigned, trace.leaves
        self.kept, self.session, self.lease = trace.kept, Device.session, Device.session.lease
        self.name = f"jit-{self.session.lease[:12]}-{next(NUMBERS)}"
        results = trace.outputs + [expr for _, expr in trace.assigned]
        order = trace.order
        self.inputs = [each for each, _ in trace.leaves]
        template, ids = make_template(order, self.inputs)
        place = {id(expr): name for expr, name in zip(order, ids)}
        sources = {id(expr): leaf for expr, leaf in trace.leaves}
        self.outputs, self.passed, names = {}, {}, {}
        for expr in results:
            if id(expr) in sources:
                self.passed[id(expr)] = sources[id(expr)]
            else:
                names[place[id(expr)]] = (tuple(expr.shape), expr.dtype, expr.device)
                self.outputs[id(expr)] = place[id(expr)]
        self.names = list(names.items())
        self.keep_alive = results
        self.device = choose_device(order)
        self.bindings = bindings_of(order, self.inputs, template)
        document = {"lease": self.session.lease, "inputs": {f"x{i}": {"dtype": each.dtype.name, "shape": as_text(each.shape)}
                                                            for i, each in enumerate(self.inputs)},
                    "nodes": None, "outputs": list(names), **({"dims": self.bindings.dims()} if template.formulas else {})}
        document.update({"seed": Seeds.next()} if any(each.op in RANDOM for each in order) else {},
                        **({"device": self.device} if self.device else {}), **({"beam": int(BEAM)} if BEAM.value else {}))
        text = json.dumps(document).replace('"nodes": null', f'"nodes":{template.nodes}', 1)
        self.session.exchange("PUT", f"/api/v1/programs/{self.name}", text.encode())
        self.path = f"/api/v1/programs/{self.name}/run"
        weakref.finalize(self, self.session.programs.append, self.name)

    def bind(self, inputs: list, bindings: Bindings) -> tuple:
        """(the values of the program's inputs, files of those that are numbers of this process)"""
        exprs = []
        for i, (_, leaf) in enumerate(self.leaves):
            expr = inputs[leaf].expr if leaf.__class__ is int else leaf.expr if isinstance(leaf, Tensor) else leaf
            if expr.shape != self.inputs[i].shape or expr.dtype is not self.inputs[i].dtype:
                raise JitError(f"a tensor that the captured function uses was {self.inputs[i].shape} {self.inputs[i].dtype} "
                               f"and is now {expr.shape} {expr.dtype}")
            if self.bindings.ranges:
                bindings.add(expr.shape)
            exprs.append(expr)
        lazy = [expr for expr in exprs if expr.handle is None and expr.data is None]
        if lazy:
            realize(lazy)
            for _, leaf in self.leaves:
                if isinstance(leaf, Tensor):
                    leaf.expr = leaf.expr.settled()
        check_lost(exprs)
        files: dict = {}
        parts = []
        for i, expr in enumerate(exprs):
            if expr.data is not None and self.leaves[i][1].__class__ is not int:
                realize([expr])  # sent once
            parts.append(bind(f"x{i}", expr, files))
        return ",".join(filter(None, parts)), files

    def __call__(self, inputs: list, bindings: Bindings) -> Any:
        session = self.session
        values, files = self.bind(inputs, bindings)
        sizes = f',"sizes":{json.dumps(self.bindings.sizes(bindings.values))}' if self.bindings.ranges else ""
        session.sweep()
        names = [session.fresh() for _ in self.names]
        keep = ",".join([f'"{name}":"{node}"' for name, (node, _) in zip(names, self.names)])
        text = f'{{"lease":"{session.lease}","inputs":{{{values}}},"keep":{{{keep}}}{sizes}{devices.options()}}}'
        try:
            reply, _ = session.post(self.path, text, files, False)
        except BaseException:
            session.freed.extend((name, 0) for name in names)
            raise
        session.count(reply["stats"])
        shapes = [rebound(shape, bindings.values) if sizes else shape for _, (shape, _, _) in self.names]
        made = {node: held(Handle(session, name, numel(now(shape)) * dtype.itemsize), shape, dtype, device)
                for name, shape, (node, (_, dtype, device)) in zip(names, shapes, self.names)}
        before = {id(expr): self.current(leaf, inputs) for expr, leaf in self.leaves} if self.passed else {}

        def value(expr: Expr) -> Expr:
            return before[id(expr)] if id(expr) in self.passed else made[self.outputs[id(expr)]]
        for tensor, expr in self.assigned:
            (inputs[tensor] if tensor.__class__ is int else tensor).expr = value(expr)
        return rebuild(self.returned, lambda tensor: tensor if id(tensor) in self.kept else Tensor._wrap(value(tensor.expr)))

    @staticmethod
    def current(leaf, inputs: list) -> Expr:
        return inputs[leaf].expr if leaf.__class__ is int else leaf.expr if isinstance(leaf, Tensor) else leaf


class TinyJit:
    """A function of Tensors that becomes a program on the server: the first call runs it, the second captures it, later ones are
    one request each.

    What is captured is what it returns and what it assigns.  Tensors that it uses besides its arguments are taken with the value
    that they have at each call.  Other arguments than Tensors choose among programs, one for each of their values; but a Variable
    may have any value of its range, as long as the function takes no plain number of it.
    """

    def __init__(self, fxn: Callable, captured=None, prune=False, optimize=False):
        self.fxn, self.prune, self.optimize = fxn, prune, optimize
        self.reset()
        if fxn is not None:
            functools.update_wrapper(self, fxn, updated=())

    def reset(self) -> None:
        """Forget what was captured."""
        self.cnt, self.captures, self.pinned = 0, {}, {}

    @property
    def captured(self) -> Any:
        """What was captured last, or None."""
        return next(reversed(self.captures.values()), None)

    def __get__(self, instance, owner) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __call__(self, *args, **kwargs) -> Any:
        if Capture.current is not None or not JIT:
            return self.fxn(*args, **kwargs)
        tensors: dict = {}
        rest: list = []
        bindings = Bindings()
        for i, value in enumerate(args):
            flatten(value, str(i), tensors, rest, bindings)
        for key in sorted(kwargs):
            flatten(kwargs[key], key, tensors, rest, bindings)
        inputs = list(tensors.values())
        if self.cnt == 0:
            result = self.first(args, kwargs)
        else:
            for each in inputs:
                if not is_plain(each.shape):
                    each.realize()
                bindings.add(each.shape)
            result = recovering(lambda: self.program(args, kwargs, tensors, tuple(rest), bindings)(inputs, bindings))
        self.cnt += 1
        return result

    def program(self, args: tuple, kwargs: dict, tensors: dict, others: tuple, bindings: Bindings) -> Program:
        """What was captured for such arguments, captured now if it was not yet, or if its program ended with a lease."""
        key = self.key(others, bindings)
        program = self.captures.get(key)
        kinds = [(name, each.shape, each.dtype, each.expr.device) for name, each in tensors.items()]
        if program is not None and program.lease == Device.session.lease:
            if program.kinds != kinds:
                raise JitError(f"args mismatch in JIT: expected {program.kinds}, got {kinds}")
            return program
        inputs = list(tensors.values())
        if len({id(each) for each in inputs}) != len(inputs):
            raise JitError("duplicate inputs to JIT")
        self.check_kinds(kinds)
        if len(self.captures) >= MOST_PROGRAMS:
            del self.captures[next(iter(self.captures))]
        trace = capture(self.fxn, args, kwargs, inputs)
        self.pinned[others] = self.pinned.get(others, frozenset()) | trace.pinned
        program = self.captures[self.key(others, bindings)] = Program(kinds, trace)
        return program

    def key(self, others: tuple, bindings: Bindings) -> tuple:
        """Which program is for these arguments: by all that are no Tensors, and the values of Variables that it was made for."""
        return others, tuple((name, bindings.values.get(name)) for name in sorted(self.pinned.get(others, ())))

    def check_kinds(self, kinds: list) -> None:
        """Another value of an argument that is no Tensor is another program; another shape or dtype is an error."""
        for program in self.captures.values():
            if [each[0] for each in program.kinds] == [each[0] for each in kinds] and program.kinds != kinds:
                raise JitError(f"args mismatch in JIT: expected {program.kinds}, got {kinds}")

    def first(self, args: tuple, kwargs: dict) -> Any:
        """Run it as it is, and compute what it returns and assigns."""
        Capture.current = recorded = Capture(tracing=False)
        try:
            result = self.fxn(*args, **kwargs)
        finally:
            Capture.current = None
        returned: dict = {}
        flatten(result, "", returned, [], Bindings())
        wanted = list({id(each): each for each in (*returned.values(), *recorded.assigned.values())}.values())
        if wanted:
            wanted[0].realize(*wanted[1:])
        return result


def capture(fxn: Callable, args: tuple, kwargs: dict, inputs: list) -> Trace:
    """Run a function on inputs without values, and tell what it returned and assigned.  The Tensors keep the values they had."""
    starts: dict = {}
    for reference in list(LIVE.values()):
        tensor = reference()
        if tensor is not None:
            mine = tensor.expr
            if mine.handle is not None:  # a leaf of its own, which tells it from others of the same value
                tensor.expr = mine = held(mine.handle, mine.shape, mine.dtype, mine.device)
            starts.setdefault(id(mine), (mine, tensor))
    alive = {id(tensor) for _, tensor in starts.values()}
    before = [each.expr for each in inputs]
    fresh = [Expr("input", (), (("index", i),), each.shape, each.dtype, each.expr.device) for i, each in enumerate(inputs)]
    for each, leaf in zip(inputs, fresh):
        each.expr = leaf
    Capture.current = recorded = Capture(tracing=True)
    Pins.names = set()
    finished = False
    try:
        returned = fxn(*args, **kwargs)
        finished = True
    finally:
        Capture.current, pinned, Pins.names = None, frozenset(Pins.names), None
        changed = {i: each.expr for i, each in enumerate(inputs) if each.expr is not fresh[i]}
        for each, leaf in zip(inputs, before):
            each.expr = leaf
        if not finished:
            for first, tensor in starts.values():
                if id(tensor) in recorded.assigned and not any(tensor is each for each in inputs):
                    tensor.expr = first
    own = {id(each) for each in inputs}
    assigned: list = [(i, expr) for i, expr in changed.items()]
    assigned += [(each, each.expr) for each in recorded.assigned.values() if id(each) not in own and id(each) in alive]
    for tensor, _ in assigned:
        if tensor.__class__ is not int:
            tensor.expr = next(first for first, each in starts.values() if each is tensor)

    def as_returned(tensor: Tensor) -> Tensor:
        """An argument that is returned stands for its value at the end; what was there before for itself."""
        place = next((i for i, each in enumerate(inputs) if each is tensor), None)
        if place is None:
            return tensor if id(tensor) in alive else Tensor._wrap(tensor.expr)
        return Tensor._wrap(changed.get(place, fresh[place]))
    returned = rebuild(returned, as_returned)
    kept = frozenset(id(each) for each in tensors_of(returned) if id(each) in alive)
    outputs = [each.expr for each in tensors_of(returned) if id(each) not in kept]
    if not outputs and not assigned and not kept:
        raise JitError("didn't JIT anything!")
    wanted = list({id(each): each for each in outputs + [expr for _, expr in assigned]}.values())
    # What was there before is a leaf, but where a gradient leads through it.
    paths = [between(each) for each in linearize(wanted) if each.op == "grad" and each.handle is None]
    starts = {key: pair for key, pair in starts.items() if not any(key in path for path in paths)}
    order, inner = order_of(wanted, frozenset(starts))
    leaves: list = []
    for each in order:
        if each.op == "input":
            leaves.append((each, each.attrs[0][1]))
        elif id(each) in starts:
            leaves.append((each, starts[id(each)][1]))
        elif is_input(each, inner):
            realize([each])
            leaves.append((each, each))
        elif each.op == "to":
            raise JitError("a captured function is on one device")
    return Trace(returned, outputs, assigned, leaves, order, inner, kept, pinned)


def tensors_of(value: Any) -> list:
    found: dict = {}
    flatten(value, "", found, [], Bindings())
    return list(found.values())
