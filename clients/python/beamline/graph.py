# SPDX-License-Identifier: MIT
"""Graphs and programs as one builds them: nothing here speaks to a server."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .names import missing
from .ops import DEFAULTS, LISTED, GraphOps, NodeOps
from .values import dtype_name, exact, is_numpy

END = 1 << 40  # past the end of every axis; the server clips a stop


def operator(op: str) -> tuple[Callable[[Any, Any], Node], Callable[[Any, Any], Node]]:
    """x + y and y + x of an op."""
    return lambda self, other: getattr(self.graph, op)(self, other), lambda self, other: getattr(self.graph, op)(other, self)


def comparison(op: str) -> Callable[[Any, Any], Any]:
    """A comparison; of what has any type, since object's is of bool."""
    return lambda self, other: getattr(self.graph, op)(self, other)


class Node(NodeOps):
    """A handle of an input, a state or a result in a Graph.  It holds no numbers: run the graph to get them.

    Operators build nodes: ``x * 2 + y``, ``x @ w``, ``-x``, ``x < 0``, ``x[0, 1:3]``, ``x ** 2`` (2, 0.5, -0.5 and -1).
    """

    __slots__ = ("graph", "id")
    __hash__ = object.__hash__
    __add__, __radd__ = operator("add")
    __sub__, __rsub__ = operator("sub")
    __mul__, __rmul__ = operator("mul")
    __truediv__, __rtruediv__ = operator("div")
    __floordiv__, __rfloordiv__ = operator("floor_div")
    __mod__, __rmod__ = operator("mod")
    __matmul__, __rmatmul__ = operator("matmul")
    __and__, __rand__ = operator("bitwise_and")
    __or__, __ror__ = operator("bitwise_or")
    __xor__, __rxor__ = operator("bitwise_xor")
    __lshift__, __rlshift__ = operator("left_shift")
    __rshift__, __rrshift__ = operator("right_shift")
    __eq__, __ne__ = comparison("equal"), comparison("not_equal")
    __lt__, __le__ = comparison("less"), comparison("less_equal")
    __gt__, __ge__ = comparison("greater"), comparison("greater_equal")
    __neg__, __abs__, __invert__ = NodeOps.neg, NodeOps.abs, NodeOps.bitwise_not

    def __init__(self, graph, name) -> None:
        self.graph = graph
        self.id = name

    def __repr__(self) -> str:
        return f"Node({self.id!r})"

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            raise missing("Node", name, dir(type(self)))

    def __bool__(self) -> bool:
        raise TypeError("a tensor of a graph has no value yet: run the graph")

    def __pow__(self, power) -> Node:
        known = {2: self.square, 0.5: self.sqrt, -0.5: self.rsqrt, -1: self.reciprocal}
        if power not in known:
            raise TypeError("a power may be 2, 0.5, -0.5 or -1; for others write (x.log() * p).exp()")
        return known[power]()

    def __iter__(self) -> Any:
        raise TypeError("a node is one tensor and no list: give [node] where a list is asked for, and take parts as node[0]")

    def __getitem__(self, key) -> Node:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) == 1 and isinstance(keys[0], Node):
            return self.take(keys[0])
        starts, stops, steps, axes, gone = [], [], [], [], []
        behind = None
        for place, item in enumerate(keys):
            if item is Ellipsis:
                behind = place
                continue
            axis = place if behind is None else place - len(keys)
            if isinstance(item, slice):
                if item == slice(None):
                    continue
                start, stop, step = item.start or 0, END if item.stop is None else item.stop, item.step or 1
            elif isinstance(item, int):
                start, stop, step = item, END if item == -1 else item + 1, 1
                gone.append(axis)
            else:
                raise TypeError("an index may be made of whole numbers, slices and ..., or be one tensor of integers")
            starts.append(start), stops.append(stop), steps.append(step), axes.append(axis)
        part = self.slice(starts, stops, None if set(steps) <= {1} else steps, axes) if axes else self
        return part.squeeze(gone) if gone else part


class Graph(GraphOps):
    """A graph under construction, to run once or as an entry of a Program.

        g = Graph()
        x = g.input("x", [2, 3])
        g.output(total=(x * 2).sum(axis=1))
    """

    def __init__(self, program=None) -> None:
        self.program = program
        self.inputs = {}  # name -> {"dtype", "shape"}; shape is None where the values give it
        self.dims = {}
        self.names = set()
        self.steps = []    # nodes: (results, op, operands, attributes), tensors as handles
        self.outputs = []  # handles
        self.updates = {}  # name of the state -> handle

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            raise missing("Graph", name, dir(type(self)))

    def is_taken(self, name) -> bool:
        """Inputs, states and ids share one namespace."""
        return name in self.names or self.program is not None and name in self.program.states

    def take_name(self, name) -> str:
        if self.is_taken(name):
            raise ValueError(f"{name!r} is there twice")
        self.names.add(name)
        return name

    def fresh_name(self, op) -> str:
        number, name = 1, op
        while self.is_taken(name):
            number += 1
            name = f"{op}{number}"
        return name

    def dim(self, name, least, most, step=1) -> str:
        """Give the range of a named dimension, of whose multiples of |step| it has the sizes; sizes may then say the name."""
        self.dims[name] = [least, most] if step == 1 else [least, most, step]
        return name

    def input(self, name, shape=None, dtype="float32") -> Node:
        """An input.  A program needs its shape; in a run the values have one, and numbers and lists get the dtype.

        shape: sizes, some of which may be names of dimensions
        """
        self.inputs[self.take_name(name)] = {"dtype": dtype_name(dtype), "shape": None if shape is None else list(shape)}
        return Node(self, name)

    def state(self, name) -> Node:
        """A state of the program that this graph is an entry of."""
        if self.program is None or name not in self.program.states:
            raise ValueError(f"the program has no state {name!r}")
        return Node(self, name)

    def output(self, *tensors, **named) -> Graph:
        """Results to send back: under their ids, or, by keyword, under a name that the node gets."""
        self.outputs += tensors
        for name, tensor in named.items():
            self.outputs.append(self.rename(tensor, name))
        return self

    def update(self, new) -> Graph:
        """The new values, by name of the state: what the states become after a step."""
        self.updates.update(new)
        return self

    def rename(self, tensor, name) -> Node:
        """The tensor under another id, or, where its id is taken (an input, a state, an output), a copy of it."""
        made_here = any(tensor is result for results, *_ in self.steps for result in results)
        if tensor.id == name:
            return tensor
        if not made_here or any(tensor is output for output in self.outputs):
            return self.op("contiguous", [tensor], {}, name)
        self.take_name(name)
        self.names.discard(tensor.id)
        tensor.id = name
        return tensor

    def op(self, op, operands, attrs=None, name=None, results=None) -> Any:
        """Add a node by the name of its op; every other method comes to this.

        operands: tensors and numbers; None leaves an optional one out, which only the last may be
        results: how many tensors an op with several results gives; then a list comes back, else one tensor
        """
        operands = list(operands)
        while operands and operands[-1] is None:
            operands.pop()
        for value in operands:
            check_operand(self, op, value)
        presets = DEFAULTS.get(op, {})
        given = {key: value for key, value in (attrs or {}).items() if value is not None and not is_preset(value, presets.get(key))}
        base = name if name is not None else self.fresh_name(op)
        ids = list(base) if isinstance(base, (list, tuple)) else [base] + [f"{base}.{i}" for i in range(1, results or 1)]
        if len(ids) != (results or 1):
            raise ValueError(f"{op} has {results or 1} results, but {len(ids)} names were given")
        made = [Node(self, self.take_name(each)) for each in ids]
        self.steps.append((made, op, operands, given))
        return made[0] if results is None else made

    def grad(self, y, xs, cotangent=None, *, name=None) -> list:
        """The gradient of y with respect to each of xs, as a list.

        y: tensor of floats with one element; of any shape if cotangent, dL/dy in the shape of y, is given
        xs: list of inputs, states or other tensors of floats; zeros come for one that y does not depend on
        """
        last = [] if cotangent is None else [cotangent]
        return self.op("grad", [y, *xs, *last], {"cotangent": True if last else None}, name, results=len(xs))

    def scan(self, step, init, xs=(), args=(), length=None, reverse=False, *, name=None) -> tuple:
        """A loop on the server, as jax.lax.scan: step(*carries, *slices, *args) gives (next carries, outputs), two lists.

            (total,), (sums,) = g.scan(lambda h, x: ([h + x], [h + x]), [0.0], [xs])

        step: builds the body from tensors of the body, once; it sees these alone: what else it needs goes through args
        init: list, what each carry starts as; the next carry has its dtype and shape
        xs: list of tensors [length, ...] that are gone through by their first axis
        args: list of tensors that are the same in each step
        length: number of steps, where there are no xs: a whole number, or a size such as "n - 1"
        reverse: from the last slice to the first
        Returns: (list of the last carries, list of the outputs stacked to [length, ...])
        """
        init, xs, args = list(init), list(xs), list(args)
        body, (carries, outputs) = self.body(step, len(init) + len(xs) + len(args), 2)
        if len(carries) != len(init):
            raise ValueError(f"the body of scan makes {len(carries)} carries of {len(init)}")
        attrs = {"body": body, "carries": len(init), "sequences": len(xs), "length": length, "reverse": reverse}
        made = self.op("scan", [*init, *xs, *args], attrs, name, results=len(carries) + len(outputs))
        return made[:len(carries)], made[len(carries):]

    def cond(self, p, then, otherwise, xs=(), *, name=None) -> list:
        """then(*xs) where p, of one element, holds, else otherwise(*xs), as jax.lax.cond: each builds a body and gives a list.

        Both are computed and one is taken; gradients flow through that one.
        Returns: a list of tensors
        """
        xs = list(xs)
        yes, (first,) = self.body(then, len(xs), 1)
        no, (second,) = self.body(otherwise, len(xs), 1)
        if len(first) != len(second):
            raise ValueError(f"the bodies of cond give {len(first)} and {len(second)} results")
        return self.op("cond", [p, *xs], {"then": yes, "otherwise": no}, name, results=len(first))

    def body(self, function, count, parts) -> tuple:
        """The graph that function makes of count tensors, as an attribute, and the lists of results that it gave."""
        inner = Graph()
        params = [Node(inner, inner.take_name(inner.fresh_name("x"))) for _ in range(count)]
        made = function(*params)
        lists = [list(part) for part in (made if parts > 1 else [made])]
        results = [value for part in lists for value in part]
        if len(lists) != parts or not all(isinstance(value, Node) and value.graph is inner for value in results):
            raise ValueError("a body gives lists of tensors that it made of what it was handed")
        inner.outputs = results
        return {"inputs": [param.id for param in params], **inner.document()}, lists

    def document(self) -> dict:
        """What the graph is on the wire: nodes, outputs and updates."""
        nodes = []
        for results, op, operands, attrs in self.steps:
            ids = [result.id for result in results]
            node = {"id": ids if op in LISTED else ids[0], "op": op, "in": [plain(int(value) if isinstance(value, bool) else value) for value in operands]}
            nodes.append({**node, "attrs": {key: plain(value) for key, value in attrs.items()}} if attrs else node)
        document = {"nodes": nodes, "outputs": [output.id for output in self.outputs]}
        if self.updates:
            document["updates"] = {name: tensor.id for name, tensor in self.updates.items()}
        return document

    def entry(self) -> dict:
        """The document of this graph as an entry of a program."""
        for name, kind in self.inputs.items():
            if kind["shape"] is None:
                raise ValueError(f"the input {name!r} of a program needs a shape")
        return {"inputs": self.inputs, **self.document()}


def check_operand(graph, op, value) -> None:
    if isinstance(value, Node):
        if value.graph is not graph:
            raise ValueError(f"{op}: {value.id!r} belongs to another graph")
    elif not isinstance(value, (int, float)) and not (is_numpy(value) and value.ndim == 0):
        raise TypeError(f"{op}: an operand is a tensor of the graph or a number, not {type(value).__name__}; an optional one can only "
                        "be left out together with all after it, and other values go in as inputs")


def plain(value) -> Any:
    """An operand or attribute as JSON has it."""
    if isinstance(value, Node):
        return value.id
    if is_numpy(value):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):  # a body, which Graph.body made plain
        return value
    if value is None or isinstance(value, (bool, str, int, float)):
        return exact(value)
    return dtype_name(value)


def is_preset(value, preset) -> bool:
    """Whether an attribute is what the server takes anyway."""
    if preset is None or isinstance(value, Node):
        return False
    return value == preset or isinstance(preset, tuple) and list(value) == list(preset)


class Init:
    """How a state starts: any creation or random op, as in ``Init("kaiming_uniform", shape=[128, 784], seed=1)``."""

    def __init__(self, op, **attrs) -> None:
        self.document = {"op": op, "attrs": {key: list(value) if isinstance(value, tuple) else value for key, value in attrs.items()}}


class Program:
    """State, and the graphs that work on it: what ``Client.put_program`` sends.

        p = Program(w=[0.0], b=Init("zeros", shape=[1]))
        g = p.entry("main")
        w, b = g.state("w"), g.state("b")

    ``batching`` says how runs that several clients ask for at once are joined, where an entry's rows are independent:
    ``{"max_rows": 64, "delay_us": 500, "preferred_rows": [8], "max_waiting": 100}``, any of them left out, or False for not at all.
    """

    def __init__(self, **states) -> None:
        self.states = dict(states)
        self.entries = {}
        self.batching = None

    def state(self, name, value) -> Program:
        """Declare a state by its first value: numbers, an Array, a NumPy array, an Init or a Held tensor."""
        self.states[name] = value
        return self

    def entry(self, name="main") -> Graph:
        """A new graph over the states, which runs and jobs call by this name."""
        if name in self.entries:
            raise ValueError(f"the entry {name!r} is there twice")
        self.entries[name] = Graph(self)
        return self.entries[name]

    def document(self) -> dict:
        """The document of the program without its state."""
        dims = {key: value for graph in self.entries.values() for key, value in graph.dims.items()}
        document = {"dims": dims} if dims else {}
        if self.batching is not None:
            document["batching"] = self.batching
        if list(self.entries) == ["main"]:
            return {**document, **self.entries["main"].entry()}
        return {**document, "entries": {name: graph.entry() for name, graph in self.entries.items()}}
