# SPDX-License-Identifier: MIT
"""Tensor: an expression that is computed when its numbers are wanted."""
from __future__ import annotations

import contextlib
import copy
import math
import mmap
import pathlib
import struct
import weakref
from typing import TYPE_CHECKING, Any

from . import expr as exprs
from . import values
from .base import LIVE, Base, wrap_number
from .connection import BeamlineError
from .context import TRAINING
from .creation import CreationMixin
from .device import Device
from .dtype import DType, dtypes, to_dtype
from .elementwise import ElementwiseMixin
from .expr import Expr
from .indexing import IndexingMixin
from .linalg import LinalgMixin
from .movement import MovementMixin
from .names import missing
from .reduce import ReduceMixin
from .show import EDGE, is_summarised, tensor_text
from .symbolic import Symbolic, now
from .values import Array, as_array, is_numpy
from .views import STALE, Storage, View

READ_WHOLE = 1 << 16  # bytes of a Tensor up to which print() fetches the whole Tensor; of a larger Tensor it fetches the ends
LEAVES = (list, tuple, bytes, bytearray, memoryview, pathlib.Path, Array)
SPONGES = {"sha3_224": (144, 6, 28), "sha3_256": (136, 6, 32), "shake_128": (168, 31, 16)}  # rate, suffix, bytes of the digest


class JitError(Exception):
    """What a TinyJit cannot do, or a call that does not fit what it captured."""


class Capture:
    """What happens to Tensors while a function runs for a TinyJit.  |current| is the one that is under way."""

    current: Capture | None = None

    def __init__(self, tracing: bool):
        self.tracing = tracing   # nothing is computed meanwhile
        self.assigned: dict = {}
        self.realized: dict = {}


def pack(numbers: list, dtype: DType) -> bytes:
    """Python numbers as little-endian bytes; whole ones wrap."""
    if dtype is dtypes.bool:
        return bytes([bool(number) for number in numbers])
    if dtypes.is_int(dtype):
        numbers = [wrap_number(int(number), dtype) for number in numbers]
    if dtype is dtypes.bfloat16:
        return values.array(numbers, "bfloat16").data
    if dtype in dtypes.fp8s:
        return bytes(code_of(number, dtype) for number in numbers)
    if dtype is dtypes.float16:
        numbers = [number if abs(number) < 65520 or number != number else math.copysign(math.inf, number) for number in numbers]
    return struct.pack(f"<{len(numbers)}{dtype.fmt}", *numbers)


def code_of(number: float, dtype: DType) -> int:
    """A number as an 8-bit float; past the largest it is infinity, or NaN where there is none, as a cast makes it."""
    try:
        return values.round_float8(dtype.name, number)
    except OverflowError:
        return values.round_float8(dtype.name, math.copysign(math.inf, number))


def leaf(data, dtype: DType | None, device: str | None) -> Expr:
    """The leaf that holds |data|."""
    if isinstance(data, (list, tuple)):
        data = [each.tolist() if isinstance(each, Tensor) or is_numpy(each) else each for each in data]
        shape, flat = values.shape_of(data), values.flatten(data, [])
        dtype = dtype or (dtypes.from_py(flat) if flat else dtypes.default_float)
        return exprs.from_array(Array(dtype.name, shape, pack(flat, dtype)), dtype, device)
    if isinstance(data, pathlib.Path):
        with open(data, "rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if data.stat().st_size else b""
        data = whole
    if isinstance(data, (bytes, bytearray, memoryview, mmap.mmap)):
        kind = dtype or dtypes.uint8
        view = memoryview(data).cast("B")
        content = view if isinstance(data, mmap.mmap) else bytes(view)
        return exprs.from_array(Array(kind.name, (len(view) // kind.itemsize,), content), kind, device)
    if not isinstance(data, Array):
        data = as_array(data if data.dtype.name in values.DTYPES else data.astype("float32"))
        data = Array(data.dtype, data.shape, bytes(data.data))  # a copy: the array may change
    return exprs.from_array(data, to_dtype(data.dtype), device)


def unpickled(dtype: str, shape: tuple, data: bytes, device: str | None, requires_grad: bool | None, grad) -> Tensor:
    """The Tensor that was pickled."""
    tensor = Tensor._wrap(exprs.from_array(Array(dtype, shape, data), to_dtype(dtype), device))
    tensor.requires_grad, tensor.grad = requires_grad, grad
    return tensor


def ends(value, shape: tuple) -> Any:
    """Nested lists; for a large Tensor without the middle of long axes."""
    if not shape or not is_summarised(shape):
        return value

    def part(value, depth):
        if depth == len(shape):
            return value
        if shape[depth] > 2 * EDGE:
            value = value[:EDGE] + value[-EDGE:]
        return [part(each, depth + 1) for each in value]
    return part(value, 0)


def unpickled_view(owner: Tensor, links: tuple, requires_grad: bool | None, grad) -> Tensor:
    """The view that was pickled, as a view of |owner|."""
    tensor = Tensor._wrap(owner.expr)
    tensor._join(View(owner._share().storage, links))
    tensor._view.version = STALE
    tensor.requires_grad, tensor.grad = requires_grad, grad
    return tensor


class TensorType(type):
    """``Tensor.training`` as an attribute of the class, which can be set."""

    @property
    def training(cls) -> bool:
        """Whether dropout drops and batch norms learn their statistics."""
        return bool(TRAINING.value)

    if not TYPE_CHECKING:
        def __getattr__(cls, name):
            raise missing("Tensor", name, dir(cls))

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.value = int(value)


class Tensor(ElementwiseMixin, MovementMixin, IndexingMixin, CreationMixin, ReduceMixin, LinalgMixin, metaclass=TensorType):
    """An array of one dtype, on a device of the server, computed when its numbers are wanted.

    data: a number, nested lists, a NumPy array, an Array, bytes, a path of a file of bytes, or None for none at all
    requires_grad: True: backward() fills ``grad``; False: it does not; None: it does where no Tensor in its graph says True
    """

    __slots__ = ()

    def __init__(self, data, device=None, dtype=None, requires_grad: bool | None = None):
        self._view = None
        dtype = to_dtype(dtype) if dtype is not None else None
        device = Device.canonicalize(device[0] if isinstance(device, (tuple, list)) and len(device) == 1 else device)
        if isinstance(data, Base):
            made = data.cast(dtype or data.dtype).to(device).expr
        elif data is None:
            made = type(self).full((0,), 0.0, dtype=dtype or dtypes.default_float, device=device).expr
        elif isinstance(data, LEAVES) or is_numpy(data) and data.shape != ():
            made = leaf(data, dtype, device)
        elif hasattr(data, "__array__") and not is_numpy(data):
            made = leaf(values.numpy.asarray(data), dtype, device)
        else:
            kind = dtype or (to_dtype(data.dtype.name) if is_numpy(data) else None)
            try:
                made = type(self).full((), data, dtype=kind, device=device).expr
            except TypeError:
                raise RuntimeError(f"can't create Tensor from {data!r} with type {type(data)}") from None
        if dtype is not None and made.dtype is not dtype:
            made = self._wrap(made).cast(dtype).expr
        self.expr, self.grad, self.requires_grad = made, None, requires_grad
        LIVE[id(self)] = weakref.ref(self)

    def requires_grad_(self, requires_grad=True) -> Tensor:
        """Set requires_grad."""
        self.requires_grad = requires_grad
        return self

    class train(contextlib.ContextDecorator):
        """``with Tensor.train():`` sets Tensor.training for the block."""

        def __init__(self, mode: bool = True):
            self.mode, self.before = mode, []

        def __enter__(self) -> None:
            self.before.append(TRAINING.value)
            TRAINING.value = int(self.mode)

        def __exit__(self, *_) -> None:
            TRAINING.value = self.before.pop()

    class test(train):
        """``with Tensor.test():`` ends training for the block."""

        def __init__(self, mode: bool = True):
            super().__init__(not mode)

    @property
    def training(self) -> bool:
        """Whether Tensor.training is set."""
        return bool(TRAINING.value)

    def __repr__(self) -> str:
        mine, value = self.expr, self._shown()
        device = mine.device or (Device.DEFAULT if Device.opened is not None and not isinstance(value, str) else Device.default)
        notes = [f"shape={mine.shape}", f"dtype={mine.dtype}"] + [f"device={device!r}"] * (device is not None)
        return tensor_text("Tensor", value, mine.shape if isinstance(value, str) else now(mine.shape), dtypes.is_float(mine.dtype), notes + ["requires_grad=True"] * bool(self.requires_grad))

    def _shown(self) -> Any:
        """The numbers to print, for a large Tensor only the ends of its axes; or a text why there are none.  Computes self, and keeps its expression for backward()."""
        if Capture.current is not None and Capture.current.tracing:
            return "<captured>"
        mine = self.expr
        try:
            shape = now(mine.shape)
            if 0 in shape:
                return []
            if mine.data is not None and mine.handle is None:
                return ends(mine.data.tolist(), shape)
            if not is_summarised(shape) or math.prod(shape) * mine.dtype.itemsize <= READ_WHOLE:
                return ends(exprs.realize([mine], mine).tolist(), shape)
            exprs.realize([mine])
            x = self._wrap(mine)
            for axis, size in enumerate(shape):
                if size > 2 * EDGE:
                    x = x.split([EDGE, size - 2 * EDGE, EDGE], axis)
                    x = x[0].cat(x[2], dim=axis)
            return x.tolist()
        except (OSError, BeamlineError, AssertionError, RuntimeError) as error:
            return f"<{error}>"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("__bool__ on Tensor is not defined")

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    # ---- numbers

    @property
    def device(self) -> str:
        """The id of the device it is on."""
        return self.expr.device or Device.DEFAULT

    def realize(self, *lst: Tensor) -> Tensor:
        """Compute this and others, in one request, and leave the results on the server."""
        wanted = [each for each in (self, *lst) if each is not None]
        capture = Capture.current
        if capture is not None:  # computed at the end of the call, in one request
            capture.realized.update((id(each), each) for each in wanted)
            return self
        compute(wanted)
        return self

    def _array(self) -> Array:
        """Its numbers, computed if they were not yet."""
        if Capture.current is not None and Capture.current.tracing:
            raise JitError("the numbers of a Tensor do not exist while a function is captured: a branch on them would be the same "
                           "in every later call")
        mine = self.expr
        if mine.data is not None and mine.handle is None:
            return mine.data
        return compute([self], mine)

    def data(self) -> memoryview:
        """Its numbers as a memoryview of its shape and dtype."""
        array, fmt = self._array(), self.dtype.fmt
        if fmt is None:
            raise RuntimeError(f"no fmt dtype for {self.dtype}")
        view = memoryview(array.data).cast("B")
        return view.cast(fmt, array.shape) if array.nbytes else memoryview(bytes(self.dtype.itemsize)).cast(fmt)[:0]

    def item(self) -> Any:
        """The number of a Tensor with one element."""
        if now(self.numel()) != 1:
            raise RuntimeError(f"must have one element for item, not {self.shape}")
        return self._array().item()

    def tolist(self) -> Any:
        """Its numbers as nested lists; of shape () the number."""
        return self._array().tolist()

    def numpy(self) -> Any:
        """Its numbers as a NumPy array of its own; bfloat16 and 8-bit floats, which NumPy lacks, as float32."""
        if values.numpy is None:
            raise ImportError("Tensor.numpy() needs NumPy; tolist() and data() do not")
        return values.numpy.array(self._array().__array__())

    def __reduce__(self) -> tuple:
        if self._view is not None and self._view.links and len(self._view.storage.tensors) > 1:
            return unpickled_view, (self._owner(), self._view.links, self.requires_grad, self.grad)
        array = self._array()
        return unpickled, (array.dtype, array.shape, bytes(array.data), self.expr.device, self.requires_grad, self.grad)

    def __copy__(self) -> Tensor:
        twin = self._copy()
        twin.requires_grad, twin.grad = self.requires_grad, self.grad
        return twin

    def __deepcopy__(self, memo: dict) -> Tensor:
        memo[id(self)] = twin = self._wrap(self.expr)
        if self._view is not None:  # copies share elements in the way of the originals
            storage = memo.setdefault(id(self._view.storage), Storage(self._view.storage.value))
            twin._join(View(storage, self._view.links))
        twin.requires_grad, twin.grad = self.requires_grad, copy.deepcopy(self.grad, memo)
        return twin

    def __array__(self, dtype=None, copy=None) -> Any:  # pylint: disable=redefined-outer-name
        """For numpy.asarray() and functions that take arrays."""
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    # ---- another value

    def replace(self, x: Tensor) -> Tensor:
        """Take the value, dtype and device of x.  Tensors that shared elements with self keep their values."""
        if self.shape != x.shape:
            raise RuntimeError(f"replace shape mismatch {self.shape} != {x.shape}")
        return self._become(x.expr)

    def _become(self, expr: Expr) -> Tensor:
        self._leave()
        return self._write(expr)

    def _write(self, expr: Expr) -> Tensor:
        self.expr = expr
        if Capture.current is not None:
            owner = self._owner()
            Capture.current.assigned[id(owner)] = owner
        return self

    def assign(self, x) -> Tensor:
        """Write the value of x to self.  The write also changes the Tensor that self is a view of, and all its views.  Expressions that
        were made before the write keep the old value.
        """
        if not isinstance(x, Base):
            x = Tensor(x, device=self.expr.device, dtype=self.dtype)
        if self.expr is x.expr:
            return self
        if x.shape != self.shape:
            try:
                x = x._broadcast_to(self.shape)
            except ValueError:
                raise RuntimeError(f"assign shape mismatch {self.shape} != {x.shape}") from None
        if x.dtype is not self.dtype:
            raise RuntimeError(f"assign dtype mismatch {self.dtype} != {x.dtype}")
        if 0 in self.shape:
            return self
        return self._write(x.expr if x.expr.device == self.expr.device or self.expr.device is None
                           else x.to(self.expr.device).expr)

    def clone(self, device=None) -> Tensor:
        """A copy, on |device| if one is given."""
        return self.to(device)._op("contiguous") if device is not None else self._op("contiguous")

    @property
    def is_param(self) -> bool | None:
        """Whether optimisers change self: another name of requires_grad."""
        return self.requires_grad

    def is_param_(self, is_param=True) -> Tensor:
        """Make self a parameter, or, with False, a buffer, which optimisers do not change."""
        return self.requires_grad_(is_param)

    # ---- places

    def to(self, device) -> Tensor:
        """The same on another device; None is the default one."""
        if isinstance(device, (tuple, list)):
            return self.shard(tuple(device))
        device = Device.canonicalize(device)
        if device is None or device == self.expr.device or self.expr.device is None and device == Device.DEFAULT:
            return self
        mine = self.expr
        moved = Expr("to", (mine,), (), mine.shape, mine.dtype, device)
        if mine.handle is None:
            moved.data = mine.data
        result = self._wrap(moved)
        result.requires_grad = self.requires_grad
        return result

    def to_(self, device) -> Tensor:
        """Move to another device."""
        self._become(self.to(device).expr)
        return self

    def shard(self, devices: tuple, axis: int | None = None) -> Tensor:
        """Spread over devices, of which there may be one for now."""
        if not isinstance(devices, (tuple, list)):
            raise TypeError(f"expected a tuple of devices, got {devices!r}")
        if axis is not None:
            self._resolve_dim(axis)
        if len(set(devices)) != 1:
            raise NotImplementedError("a Tensor is on one device for now")
        return self.to(devices[0])

    def shard_(self, devices: tuple, axis: int | None = None) -> Tensor:
        """Spread over devices, of which there may be one for now."""
        self._become(self.shard(devices, axis).expr)
        return self

    def shard_like(self, y: Tensor) -> Tensor:
        """Spread as y is."""
        return self.to(y.expr.device)

    # ---- gradients

    def gradient(self, *targets: Tensor, gradient: Tensor | None = None, materialize_grads: bool = False) -> list:
        """dself / dtarget for each target; |gradient|: dL/dself, where self is not one number.

        materialize_grads: zeros for a target that self does not depend on, instead of RuntimeError
        """
        self._check_gradient(gradient)
        if not all(each.is_floating_point() for each in targets):
            raise RuntimeError("only float Tensors have gradient")
        found = reachable(self.expr)
        nodes = [node_of(each, found) for each in targets]
        for each, node in zip(targets, nodes):
            if node is None and not materialize_grads:
                raise RuntimeError(f"a target, {each.shape} {each.dtype}, is not in the graph of self, or only behind detach()")
        return gradients(self, [node or each.expr for node, each in zip(nodes, targets)], gradient)

    def _check_gradient(self, gradient: Tensor | None) -> None:
        if not self.is_floating_point():
            raise RuntimeError("only float Tensors have gradient")
        if gradient is None and self.shape != ():
            raise RuntimeError("when no gradient is provided, backward must be called on a scalar tensor")
        if gradient is not None and gradient.shape != self.shape:
            raise RuntimeError(f"gradient shape {gradient.shape} is not {self.shape}")

    def backward(self, gradient: Tensor | None = None) -> Tensor:
        """Add dself / dt to ``grad`` of every Tensor t of its graph that has requires_grad=True.

        Where none has, of every one of floats that is there, but for those with requires_grad=False.
        """
        self._check_gradient(gradient)
        found = reachable(self.expr)
        live = []
        for reference in list(LIVE.values()):
            tensor = reference()
            if tensor is not None and tensor.requires_grad is not False and tensor.is_floating_point():
                node = node_of(tensor, found)
                if node is not None:
                    live.append((tensor, node))
        wanted = [pair for pair in live if pair[0].requires_grad] or live
        if not self.expr.src and all(node is self.expr for _, node in wanted) and not self.requires_grad:
            raise RuntimeError("backward() of a tensor without a graph: it was realized, or depends on nothing")
        unique = {id(node): node for _, node in wanted}
        results = dict(zip(unique, gradients(self, list(unique.values()), gradient)))
        for tensor, node in wanted:
            if tensor.grad is None:
                tensor.grad = Tensor._wrap(results[id(node)].expr)  # a Tensor of its own, because two Tensors may have one node
            else:
                tensor.grad.assign(tensor.grad + results[id(node)])
        return self

    # ---- hashes

    def keccak(self, cfg="sha3_256") -> Tensor:
        """The hash of each row of bytes: (..., n) to (..., digest).

        cfg: "sha3_224", "sha3_256", "shake_128", or (rate, suffix byte)
        """
        if self.dtype is not dtypes.uint8:
            raise RuntimeError(f"keccak takes bytes of uint8, not {self.dtype}")
        if isinstance(cfg, str) and cfg not in SPONGES:
            raise ValueError(f"{cfg!r} is none of {', '.join(SPONGES)}")
        rate, suffix, size = SPONGES[cfg] if isinstance(cfg, str) else (*cfg, (200 - cfg[0]) // 2)
        return self._op("keccak", shape=(*self.shape[:-1], size), rate=rate, suffix=suffix, size=size)

    def hash(self) -> Tensor:
        """16 bytes that tell this Tensor from others: a tree of SHAKE-128 over its bytes."""
        return self._op("hash", shape=(16,), dtype=dtypes.uint8)


def compute(tensors: list, fetch: Expr | None = None) -> Array | None:
    """Compute Tensors, and the pending writes to their storages.  Returns: the numbers of |fetch|, the expression of one of them."""
    wanted = [each for each in tensors if each.expr.handle is None]
    views = [each._view for each in wanted if each._view is not None and each._view.storage.pending]
    array = exprs.realize([each.expr for each in wanted] + [view.storage.value for view in views], fetch)
    for view in views:
        view.storage.value, view.storage.pending = view.storage.value.settled(), False
    for each in tensors:
        each._settle()
    return array


def reachable(root: Expr, cross: bool = True) -> dict:
    """{id(): Expr} of all nodes that a gradient of |root| reaches, operands first: through floats, and not through detach.

    cross: also through moves between devices
    """
    order: dict = {}
    seen, stack = set(), [(root, False)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            order[id(expr)] = expr
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            if expr.op != "detach" and (cross or expr.op != "to"):
                stack.extend((each, False) for each in expr.src if each.__class__ is Expr
                             and (each.dtype is None or dtypes.is_float(each.dtype)))
    return order


def node_of(tensor: Tensor, found: dict) -> Expr | None:
    """The Expr that stands for a Tensor in a graph: its own, or the one that it is the value of; None where there is none."""
    mine = tensor.expr
    if id(mine) in found:
        return mine
    origin = mine.origin() if mine.origin is not None else None
    return origin if origin is not None and id(origin) in found else None


def gradients(y: Tensor, targets: list, gradient: Tensor | None) -> list:
    """Tensors of dy / dtarget, each on the device of its target.

    A graph is on one device, so a move between two devices is the end of one graph and an input of another.  The gradient of the
    result of a move is moved back, and becomes the cotangent of the operand of the move.
    """
    if not targets:
        return []
    first = None if gradient is None else gradient.cast(y.dtype).expr
    moves = moves_between(y.expr, targets)
    if not moves:
        return [Tensor._wrap(each) for each in derivatives(y.expr, targets, first)]
    total: dict = {}
    for move in (None, *moves):
        root, cotangent = (y.expr, first) if move is None else (move.src[0], moved_back(move, total[id(move)].expr))
        near = reachable(root, cross=False)
        wanted = [each for each in {id(each): each for each in (*targets, *moves)}.values() if id(each) in near]
        if root.op == "to":
            shares = [cotangent or Tensor.full(root.shape, 1, dtype=root.dtype, device=root.device).expr]
        else:
            shares = derivatives(root, wanted, cotangent)
        for each, share in zip(wanted, shares):
            part = Tensor._wrap(share)
            total[id(each)] = total[id(each)] + part if id(each) in total else part
    return [total[id(each)] if id(each) in total else Tensor._wrap(each).zeros_like() for each in targets]


def derivatives(y: Expr, targets: list, cotangent: Expr | None) -> list:
    """dy / dtarget within one graph, all as items of one node; unused items are not computed."""
    last = () if cotangent is None else (cotangent,)
    whole = Expr("grad", (y, *targets, *last), (("cotangent", True),) if last else (), None, None, y.device)
    return [Expr("item", (whole,), (("index", i),), each.shape, each.dtype, y.device) for i, each in enumerate(targets)]


def moves_between(y: Expr, targets: list) -> list:
    """The moves to another device between targets and |y|; each move comes before the moves that it depends on."""
    found = reachable(y)
    if all(each.op != "to" for each in found.values()):
        return []
    paths = {id(each) for each in targets}
    for key, expr in found.items():
        if expr.op != "detach" and any(id(each) in paths for each in expr.src):
            paths.add(key)
    return [each for key, each in reversed(found.items()) if each.op == "to" and key in paths]


def moved_back(move: Expr, gradient: Expr) -> Expr:
    """The gradient of the operand of a move, from the gradient of its result."""
    device = move.src[0].device or Device.DEFAULT
    return Expr("to", (gradient,), (), gradient.shape, gradient.dtype, device)
