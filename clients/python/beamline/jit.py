# SPDX-License-Identifier: MIT
"""TinyJit: what a function does to Tensors as a program on the server, run by one request a call."""
from __future__ import annotations

import functools
import itertools
import json
import pickle
import weakref
from typing import Any, Callable

from . import device as devices
from .base import LIVE
from .context import BEAM, JIT
from .device import Device, Handle
from .expr import (RANDOM, Expr, Seeds, apart, between, bind, bindings_of, check_lost, choose_device, held, is_input, is_plain, linearize,
                   make_template, numel, order_of, realize, recovering)
from .symbolic import Bindings, Pins, Symbolic, Variable, as_text, now, rebound  # noqa: F401  # Variable as part of this module
from .tensor import Capture, JitError, Tensor, compute
from .views import STALE, Snapshot

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
            rest.append((name, type(value), apart(value)))
        except TypeError:
            rest.append((name, type(value), id(value)))


class Slot:
    """The place of a Tensor among the results of a Program."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number


def rebuild(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same structure, with the result of |replace| in the place of each Tensor and Slot."""
    if isinstance(value, (Tensor, Slot)):
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
    grads: (weak reference to a Tensor, its new grad), for each Tensor whose grad the function has set
    """

    def __init__(self, returned: Any, outputs: list, assigned: list, leaves: list, order: list, inner: frozenset, kept: frozenset,
                 pinned: frozenset, grads: list):
        self.returned, self.outputs, self.assigned, self.pinned, self.grads = returned, outputs, assigned, pinned, grads
        self.leaves, self.order, self.inner, self.kept = leaves, order, inner, kept


class Program:
    """A captured function as a program on the server.  The first call puts the program there; a call after the end of its lease puts it there again.

    leaves: the source of each input: a place among the arguments, or a Tensor     results: for each result the id of its node, or the number
    of a leaf     returned: the value that the function returns, with Slots     assigned: (Tensor or place among the arguments, number of a result)
    grads: (weak reference to a Tensor, its grad after the call)
    """

    def __init__(self, kinds: list, trace: Trace, check_indices: bool):
        self.kinds, self.lease = kinds, None
        inputs = [each for each, _ in trace.leaves]
        self.inputs = [(each.shape, each.dtype) for each in inputs]
        self.leaves = [Tensor._wrap(leaf) if isinstance(leaf, Expr) else leaf for _, leaf in trace.leaves]
        self.constants = frozenset(i for i, (_, leaf) in enumerate(trace.leaves) if isinstance(leaf, Expr))
        template, ids = make_template(trace.order, inputs)
        place = {id(expr): name for expr, name in zip(trace.order, ids)}
        sources = {id(expr): i for i, expr in enumerate(inputs)}
        self.results: list = []
        names: dict = {}
        for expr in [*trace.outputs, *(expr for _, expr in trace.assigned)]:
            if id(expr) not in sources:
                names[place[id(expr)]] = (tuple(expr.shape), expr.dtype, expr.device)
            self.results.append(sources[id(expr)] if id(expr) in sources else place[id(expr)])
        self.names = list(names.items())
        number = {id(expr): i for i, expr in enumerate(trace.outputs)}
        self.returned = rebuild(trace.returned, lambda tensor: tensor if id(tensor) in trace.kept else Slot(number[id(tensor.expr)]))
        self.assigned = [(tensor, len(trace.outputs) + i) for i, (tensor, _) in enumerate(trace.assigned)]
        self.grads = trace.grads
        self.bindings = bindings_of(trace.order, inputs, template)
        device = choose_device(trace.order)
        document = {"inputs": {f"x{i}": {"dtype": each.dtype.name, "shape": as_text(each.shape)} for i, each in enumerate(inputs)},
                    "nodes": None, "outputs": list(names), **({"dims": self.bindings.dims()} if template.formulas else {})}
        document.update({"seed": Seeds.next()} if any(each.op in RANDOM for each in trace.order) else {},
                        **({"device": device} if device else {}), **({"beam": int(BEAM)} if BEAM.value else {}),
                        **({"check_indices": True} if check_indices else {}))
        self.text = json.dumps(document).replace('"nodes": null', f'"nodes":{template.nodes}', 1)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "lease": None, "grads": []}

    def put(self) -> None:
        """Put the program on the server, under the lease of the session."""
        session = Device.session
        self.name = f"jit-{session.lease[:12]}-{next(NUMBERS)}"
        session.exchange("PUT", f"/api/v1/programs/{self.name}", f'{{"lease":"{session.lease}",{self.text[1:]}'.encode())
        self.path, self.lease = f"/api/v1/programs/{self.name}/run", session.lease
        weakref.finalize(self, session.programs.append, self.name)

    def bind(self, values: list, bindings: Bindings) -> tuple:
        """(the values of the program's inputs, files of those that are numbers of this process)"""
        for leaf, expr, (shape, dtype) in zip(self.leaves, values, self.inputs):
            if expr.shape != shape or expr.dtype is not dtype:
                raise JitError(f"a tensor that the captured function uses was {shape} {dtype} and is now {expr.shape} {expr.dtype}")
            if self.bindings.ranges:
                bindings.add(expr.shape)
        check_lost(values)
        files: dict = {}
        parts = []
        for i, (leaf, expr) in enumerate(zip(self.leaves, values)):
            if expr.data is not None and leaf.__class__ is not int:
                value = expr.data
                realize([expr])  # sent once
                if i in self.constants:
                    expr.handle.data = value  # so that a restarted server can get it again
            parts.append(bind(f"x{i}", expr, files))
        return ",".join(filter(None, parts)), files

    def __call__(self, inputs: list, bindings: Bindings) -> Any:
        self.check_apart(inputs)
        given = [inputs[leaf] if leaf.__class__ is int else leaf for leaf in self.leaves]
        if self.names:
            compute([each for each in given if not each.expr.is_leaf])
        values = [each.expr for each in given]
        made = self.run(values, bindings) if self.names else {}
        results = [values[each] if each.__class__ is int else made[each] for each in self.results]
        for tensor, number in self.assigned:
            (inputs[tensor] if tensor.__class__ is int else tensor).expr = results[number]
        for reference, grad in self.grads:
            owner = reference()
            if owner is not None:
                owner.grad = grad
        return rebuild(self.returned, lambda each: Tensor._wrap(results[each.number]) if each.__class__ is Slot else each)

    def run(self, values: list, bindings: Bindings) -> dict:
        """Run the program.  Returns: the leaf of each computed result, by the id of its node."""
        session = Device.session
        if self.lease != session.lease:
            self.put()
        given, files = self.bind(values, bindings)
        sizes = f',"sizes":{json.dumps(self.bindings.sizes(bindings.values))}' if self.bindings.ranges else ""
        session.sweep()
        names = [session.fresh() for _ in self.names]
        keep = ",".join([f'"{name}":"{node}"' for name, (node, _) in zip(names, self.names)])
        text = f'{{"lease":"{session.lease}","inputs":{{{given}}},"keep":{{{keep}}}{sizes}{devices.options()}}}'
        try:
            reply, _ = session.post(self.path, text, files, False)
        except BaseException:
            session.freed.extend((name, 0) for name in names)
            raise
        session.count(reply["stats"])
        shapes = [rebound(shape, bindings.values) if sizes else shape for _, (shape, _, _) in self.names]
        return {node: held(Handle(session, name, numel(now(shape)) * dtype.itemsize), shape, dtype, device)
                for name, shape, (node, (_, dtype, device)) in zip(names, shapes, self.names)}

    def check_apart(self, inputs: list) -> None:
        """Raise JitError if an argument shares elements with another Tensor of the call, and the call writes to one of the two.  The
        program has a separate value for each Tensor, so a write to the one would not change the other.
        """
        given = [each._view.storage if each._view else None for each in inputs]
        others = [leaf._view.storage for leaf in self.leaves if isinstance(leaf, Tensor) and leaf._view]
        for tensor, _ in self.assigned:
            if tensor.__class__ is int:
                storage = given[tensor]
                shared = given.count(storage) > 1 or storage in others
            else:
                storage = tensor._view.storage if tensor._view else None
                shared = storage in given
            if storage is not None and shared:
                raise JitError("a captured function writes to a Tensor that shares elements with one of its arguments: pass a clone() "
                               "of the argument")


class TinyJit:
    """A function of Tensors that becomes a program on the server: the first call runs it, the second captures it, later ones are
    one request each.

    A capture has the Tensors that the function returns, the Tensors that it assigns, and the Tensors that it realizes and stores outside of
    the function, such as a grad.  A Tensor that the function uses and that is not an argument has its current value at each call.  Other arguments than Tensors choose among programs, one for each of their values; but a Variable
    may have any value of its range, as long as the function takes no plain number of it.

    The first call checks indices, as any request does.  Later calls check indices only with check_indices=True, because a captured
    function runs many times, and a check costs a reduction for each tensor of indices and a wait for each call.
    """

    def __init__(self, fxn: Callable, captured=None, prune=False, optimize=False, check_indices=False):
        self.fxn, self.prune, self.optimize, self.check_indices = fxn, prune, optimize, check_indices
        self.reset()
        if fxn is not None:
            functools.update_wrapper(self, fxn, updated=())

    def reset(self) -> None:
        """Forget what was captured."""
        self.cnt, self.captures, self.pinned = 0, {}, {}

    def __getstate__(self) -> dict:
        """The captured programs with the Tensors that they use, and the function if pickle finds it by name."""
        try:
            pickle.dumps(self.fxn)
            fxn = self.fxn
        except (pickle.PicklingError, AttributeError, TypeError):
            if not self.captures:
                raise JitError("a TinyJit that has captured nothing can be pickled only if pickle finds its function by name: define the function in a module, or call the TinyJit twice first") from None
            fxn = None
        return {"fxn": fxn, "prune": self.prune, "optimize": self.optimize, "check_indices": self.check_indices, "cnt": self.cnt,
                "captures": self.captures, "pinned": self.pinned}

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
        """The program for these arguments, captured now if there is none."""
        key = self.key(others, bindings)
        program = self.captures.get(key)
        kinds = [(name, each.shape, each.dtype, each.expr.device) for name, each in tensors.items()]
        if program is not None:
            if program.kinds != kinds:
                raise JitError(f"args mismatch in JIT: expected {program.kinds}, got {kinds}")
            return program
        if self.fxn is None:
            raise JitError("this TinyJit was pickled without its function, and accepts only arguments like those of its captured programs")
        inputs = list(tensors.values())
        if len({id(each) for each in inputs}) != len(inputs):
            raise JitError("duplicate inputs to JIT")
        self.check_kinds(kinds)
        if len(self.captures) >= MOST_PROGRAMS:
            del self.captures[next(iter(self.captures))]
        trace = capture(self.fxn, args, kwargs, inputs)
        self.pinned[others] = self.pinned.get(others, frozenset()) | trace.pinned
        program = self.captures[self.key(others, bindings)] = Program(kinds, trace, self.check_indices)
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
        """Run the function, and compute the Tensors that it returns, assigns and realizes in one request, with the kernels of the captured
        function.  Tensors from before the call are computed first, as in a capture."""
        lazy = {id(tensor.expr): tensor.expr for reference in list(LIVE.values())
                if (tensor := reference()) is not None and tensor.expr.handle is None and tensor.expr.data is None}
        Capture.current = recorded = Capture(tracing=False)
        try:
            result = self.fxn(*args, **kwargs)
        finally:
            Capture.current = None
        returned: dict = {}
        flatten(result, "", returned, [], Bindings())
        wanted = list({id(each): each for each in (*returned.values(), *recorded.assigned.values(), *recorded.realized.values())}.values())
        if wanted:
            order, _ = order_of([each.expr for each in wanted])
            paths = [between(each) for each in order if each.op == "grad" and each.handle is None]
            realize([each for each in order if id(each) in lazy and not any(id(each) in path for path in paths)])
            wanted[0].realize(*wanted[1:])
        return result


class Scene:
    """The Tensors of this process while a function is captured.  Each Tensor with a value becomes a separate leaf, so that Tensors of the
    same value stay distinct; leave() restores all Tensors.

    owners: a Tensor for each storage of views, which keeps the storage alive      starts: id() of a leaf to (the leaf, its Tensor)
    alive: id() of the Tensors that were made before the capture, without the arguments      grads: (Tensor, its grad before)
    """

    def __init__(self, inputs: list):
        self.inputs = Snapshot(inputs)
        self.fresh = [Expr("input", (), (("index", i),), each.shape, each.dtype, each.expr.device) for i, each in enumerate(inputs)]
        for each, leaf in zip(inputs, self.fresh):  # an argument shares elements with no Tensor: check_apart()
            each._leave()
            each._expr = leaf
        live = [tensor for reference in list(LIVE.values()) if (tensor := reference()) is not None]
        own = {id(each) for each in inputs}
        self.owners = {id(owner): owner for owner in (each._owner() for each in live)}
        everyone = {id(each): each for each in (*live, *self.owners.values()) if id(each) not in own}
        self.before = Snapshot(everyone.values())
        self.grads = [(each, each.grad) for each in (*everyone.values(), *inputs)]
        self.alive, self.starts = set(everyone), {}
        for each in everyone.values():
            self.begin(each)

    def begin(self, tensor: Tensor) -> None:
        """Make the value of a Tensor a leaf.  A view that was not computed derives from the leaf of its storage."""
        view = tensor._view
        if view is not None and view.links and (tensor._expr.handle is None or view.version != view.storage.version):
            view.version = STALE
            return
        mine = tensor.expr
        if mine.handle is not None:
            mine = held(mine.handle, mine.shape, mine.dtype, mine.device)
            tensor._expr = mine
            if view is not None and not view.links:
                view.storage.value = mine
        self.starts.setdefault(id(mine), (mine, tensor))

    def as_returned(self, tensor: Tensor) -> Tensor:
        """The Tensor to return: a Tensor from before the capture itself; for any other one, also an argument, its value at the end."""
        return tensor if id(tensor) in self.alive else Tensor._wrap(tensor.expr)

    def leave(self, finished: bool) -> None:
        """Restore all Tensors, and their grads if the function failed."""
        self.before.restore()
        self.inputs.restore()
        if not finished:
            for tensor, grad in self.grads:
                tensor.grad = grad


def capture(fxn: Callable, args: tuple, kwargs: dict, inputs: list) -> Trace:
    """Run a function on inputs without values, and tell what it returned and assigned.  The Tensors keep the values they had."""
    scene = Scene(inputs)
    Capture.current = recorded = Capture(tracing=True)
    Pins.names = set()
    finished = False
    try:
        returned = rebuild(fxn(*args, **kwargs), scene.as_returned)
        Capture.current, pinned, Pins.names = None, frozenset(Pins.names), None
        trace = trace_of(scene, recorded, returned, inputs, pinned)
        finished = True
        return trace
    finally:
        Capture.current = Pins.names = None
        scene.leave(finished)


def trace_of(scene: Scene, recorded: Capture, returned: Any, inputs: list, pinned: frozenset) -> Trace:
    """The Trace of a function that has run."""
    alive = scene.alive
    assigned: list = [(i, each.expr) for i, each in enumerate(inputs) if each.expr is not scene.fresh[i]]
    assigned += [(each, each.expr) for each in recorded.assigned.values() if id(each) in alive]
    kept = frozenset(id(each) for each in tensors_of(returned) if id(each) in alive)
    outputs = [each.expr for each in tensors_of(returned) if id(each) not in kept]
    assigned += survivors(recorded, alive.union(map(id, inputs)))
    if not outputs and not assigned and not kept:
        raise JitError("didn't JIT anything!")
    wanted = list({id(each): each for each in outputs + [expr for _, expr in assigned]}.values())
    # What was there before is a leaf, but where a gradient leads through it.
    paths = [between(each) for each in linearize(wanted) if each.op == "grad" and each.handle is None]
    starts = {key: pair for key, pair in scene.starts.items() if not any(key in path for path in paths)}
    order, inner = order_of(wanted, frozenset(starts))
    leaves: list = []
    for each in order:
        if each.op == "input":
            leaves.append((each, each.attrs[0][1]))
        elif id(each) in starts:
            leaves.append((each, starts[id(each)][1]))
        elif is_input(each, inner):
            leaves.append((each, each))
        elif each.op == "to":
            raise JitError("a captured function is on one device")
    return Trace(returned, outputs, assigned, leaves, order, inner, kept, pinned,
                 [(weakref.ref(tensor), tensor.grad) for tensor, grad in scene.grads if tensor.grad is not grad])


def survivors(recorded: Capture, alive: set) -> list:
    """(Tensor, its Expr) of each Tensor that a function made and realized, and that is still referenced outside of it: a grad, an attribute."""
    made = [weakref.ref(each) for each in recorded.realized.values() if id(each) not in alive]
    recorded.realized.clear()
    return [(each, each.expr) for each in (reference() for reference in made) if each is not None and each.expr.handle is None]


def tensors_of(value: Any) -> list:
    found: dict = {}
    flatten(value, "", found, [], Bindings())
    return list(found.values())
