# SPDX-License-Identifier: MIT
"""Parameters by name, and files of them: safetensors, PyTorch's, GGUF."""
from __future__ import annotations

import collections
import enum
import io
import json
import math
import mmap
import pathlib
import pickle
import struct
import sys
import tarfile
import types
import zipfile

from .. import values
from ..dtype import BY_NAME, DType, dtypes
from ..names import nearest
from ..tensor import Tensor, leaf
from ..values import Array
from .gguf import gguf_load  # noqa: F401  # as part of this module

__all__ = ["StateDictError", "TensorIO", "get_parameters", "get_state_dict", "gguf_load", "load_state_dict", "safe_load", "safe_load_metadata",
           "safe_save", "tar_extract", "torch_load", "zip_extract"]


def get_state_dict(obj, prefix: str = "", tensor_type=Tensor) -> dict:
    """The Tensors of an object, its attributes, lists and dicts, by names such as "layers.0.weight"."""
    found: dict = {}
    add_tensors(obj, prefix, tensor_type, found, [])
    return found


def parts_of(obj) -> list:
    """(name, value) of each part of a model: the items of a container, the attributes of an object.  Classes, modules, functions and enums have no parts."""
    if hasattr(obj, "_asdict"):
        return list(obj._asdict().items())
    if isinstance(obj, dict):
        return [(str(key), each) for key, each in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(i), each) for i, each in enumerate(obj)]
    if isinstance(obj, (type, enum.Enum, types.ModuleType, types.FunctionType)) or not hasattr(obj, "__dict__"):
        return []
    return list(obj.__dict__.items())


def add_tensors(obj, prefix: str, tensor_type, found: dict, above: list) -> None:
    """Add the Tensors of |obj| to |found|.  |above|: the objects around |obj|; an object within itself is left out."""
    if isinstance(obj, tensor_type):
        found[prefix.strip(".")] = obj
        return
    if any(each is obj for each in above):
        return
    for key, each in parts_of(obj):
        add_tensors(each, f"{prefix}{key}.", tensor_type, found, [*above, obj])


def get_parameters(obj) -> list:
    """The Tensors of an object."""
    return list(get_state_dict(obj).values())


class StateDictError(KeyError, ValueError, RuntimeError):
    """A state_dict that does not fit a model.  The text lists missing names, unexpected names and different shapes."""

    def __str__(self) -> str:
        return self.args[0]


def check_state(model, mine: dict, state_dict: dict, strict: bool) -> None:
    """Raise StateDictError, whose text lists all mismatches, if a state_dict does not fit."""
    lacking = [key for key in mine if key not in state_dict] if strict else []
    odd = [key for key in mine if key in state_dict and mine[key].shape != state_dict[key].shape
           and {mine[key].shape, state_dict[key].shape} != {(), (1,)}]
    if not lacking and not odd:
        return
    unused, lines = [key for key in state_dict if key not in mine], []
    for what, keys in (("missing in state_dict", lacking), ("unexpected in state_dict", unused)):
        if keys:
            lines.append(f"  {len(keys)} {what}: {', '.join(keys)}")
    lines += [f"  Shape mismatch in {key}: {mine[key].shape} in the model, {state_dict[key].shape} in state_dict" for key in odd]
    near = [(key, nearest(key, unused)) for key in lacking[:10]]
    lines += [f"  is {other} meant to be {key}?" for key, other in near if other]
    raise StateDictError(f"state_dict does not fit {type(model).__name__}, and nothing of it was loaded:\n" + "\n".join(lines))


def load_state_dict(model, state_dict: dict, strict=True, verbose=True, consume=False, realize=True) -> list:
    """Give the Tensors of a model the values of the same names in a state_dict.  If shapes differ, raise StateDictError and change nothing.

    strict: raise StateDictError for a missing name too     consume: remove used values from state_dict     Returns: the changed Tensors
    """
    mine, changed = get_state_dict(model), []
    check_state(model, mine, state_dict, strict)
    unused = [key for key in state_dict if key not in mine]
    if verbose and unused:
        print("WARNING: unused weights in state_dict", sorted(unused), file=sys.stderr)
    for key, tensor in mine.items():
        if key not in state_dict:
            if verbose:
                print(f"WARNING: not loading {key}", file=sys.stderr)
            continue
        given = state_dict[key].reshape(tensor.shape).to(tensor.expr.device)
        if given.dtype is tensor.dtype:
            tensor.assign(given)
        else:
            tensor.replace(given)
        changed.append(tensor)
        if consume:
            del state_dict[key]
    if realize and changed:
        Tensor.realize(*changed)
    return changed


# ---- safetensors


def read_bytes(source) -> memoryview:
    """The bytes of a file by its path, or of a Tensor of uint8."""
    if isinstance(source, Tensor):
        return source.data().cast("B")
    with open(pathlib.Path(source), "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def safe_load_metadata(fn) -> tuple:
    """(the bytes, where the numbers begin, the header) of a safetensors file."""
    data = read_bytes(fn)
    size = struct.unpack("<Q", data[:8])[0]
    return data, 8 + size, json.loads(bytes(data[8:8 + size]))


def safe_load(fn) -> dict:
    """The Tensors of a safetensors file, by name.  A file is mapped, and read where a Tensor is used."""
    arrays, _ = values.read_safetensors(read_bytes(fn), False)
    return {name: Tensor._wrap(leaf(array, None, None)) for name, array in arrays.items()}


def safe_save(tensors: dict, fn, metadata: dict | None = None) -> None:
    """Write Tensors into a safetensors file."""
    Tensor.realize(*tensors.values()) if tensors else None
    pathlib.Path(fn).write_bytes(values.write_safetensors({name: each._array() for name, each in tensors.items()}, metadata))


# ---- files of files


class TensorIO(io.RawIOBase):
    """A Tensor of bytes, (n,) of uint8, as a binary file for reading."""

    def __init__(self, t: Tensor):
        if t.ndim != 1 or t.dtype is not dtypes.uint8:
            raise ValueError(f"a file is a Tensor of bytes, (n,) of uint8, not {t.shape} {t.dtype}")
        self.bytes, self.at = read_bytes(t), 0

    def readable(self) -> bool:
        """Always True."""
        return True

    def seekable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer) -> int:
        """Read into a buffer from the current position.  Returns: the number of bytes read."""
        part = self.bytes[self.at:self.at + len(buffer)]
        buffer[:len(part)] = part
        self.at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, from the start (0), the current position (1) or the end (2).  Returns: the new position."""
        self.at = min(len(self.bytes), max(0, (0, self.at, len(self.bytes))[whence] + offset))
        return self.at

    def tell(self) -> int:
        """The current position."""
        return self.at


def packed_files(fn):
    """A Tensor of bytes, or a path, as a binary file."""
    return io.BufferedReader(TensorIO(fn)) if isinstance(fn, Tensor) else open(pathlib.Path(fn), "rb")


def tar_extract(fn) -> dict:
    """The files of a tar file, which may be compressed, as Tensors of bytes by name; fn: its path, or a Tensor of its bytes."""
    with packed_files(fn) as data, tarfile.open(fileobj=data, mode="r:*") as file:
        return {member.name: Tensor(file.extractfile(member).read()) for member in file if member.isfile()}


def zip_extract(fn) -> dict:
    """The files of a zip file as Tensors of bytes by name; fn: its path, or a Tensor of its bytes."""
    with packed_files(fn) as data, zipfile.ZipFile(data) as file:
        return {name: Tensor(file.read(name)) for name in file.namelist() if not name.endswith("/")}


# ---- PyTorch


class Stub:
    """Stands for everything in a pickle that is neither a container nor a Tensor: nothing of it is run."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    def __call__(self, *args, **kwargs):
        return Stub(*args, **kwargs)

    def __setstate__(self, state):
        self.state = state

    def __setitem__(self, key, value):
        pass

    def append(self, value):
        """Take no notice."""

    def extend(self, values_):
        """Take no notice."""


class Pending:
    """A Tensor of a storage that was not read yet."""

    def __init__(self, storage, offset, size, stride, *_):
        self.storage, self.offset, self.size, self.stride = storage, offset, tuple(size), tuple(stride)

    def __setstate__(self, state):
        pass


STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
            "IntStorage": "int32", "LongStorage": "int64", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
            "BoolStorage": "bool"}
# The only names that a pickle gets anything for: containers, and functions of ours.
SAFE = {("collections", "OrderedDict"): collections.OrderedDict, ("torch._utils", "_rebuild_tensor_v2"): Pending,
        ("torch._utils", "_rebuild_tensor"): Pending, ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
        ("torch", "Size"): tuple, ("builtins", "set"): set, ("__builtin__", "set"): set}


class Unpickler(pickle.Unpickler):
    """Pickles as data."""

    def find_class(self, module, name):
        """What a name in the pickle stands for."""
        if name in STORAGES and module in ("torch", "torch.cuda"):
            return STORAGES[name]
        return SAFE.get((module, name), Stub)

    def persistent_load(self, pid):
        """("storage", dtype, key, place, count, ...)"""
        return pid[1] if isinstance(pid[1], str) else "uint8", str(pid[2]), pid


def torch_load(fn) -> dict:
    """What torch.save wrote, Tensors as Tensors.  No code of the file is run: objects other than containers come as stubs."""
    data = read_bytes(fn)
    if bytes(data[:4]) == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            main = next(name for name in file.namelist() if name.endswith("/data.pkl") or name == "data.pkl")
            base = main[:-len("data.pkl")]
            found = Unpickler(io.BytesIO(file.read(main))).load()
            return settle(found, lambda dtype, key: file.read(f"{base}data/{key}"), {})
    stream = io.BytesIO(data)
    if Unpickler(stream).load() != 0x1950a86a20f9469cfc6c:
        raise ValueError("no file of torch.save")
    Unpickler(stream).load(), Unpickler(stream).load()  # protocol, machine
    found, keys, storages = Unpickler(stream).load(), Unpickler(stream).load(), {}
    sizes = storage_types(found, {})
    for key in keys:
        count = struct.unpack("<q", stream.read(8))[0]
        storages[str(key)] = stream.read(count * sizes.get(str(key), dtypes.uint8).itemsize)
    return settle(found, lambda dtype, key: storages[key], {})


def storage_types(value, found: dict) -> dict:
    """The dtype of each storage that Tensors of a structure use."""
    if isinstance(value, Pending):
        found[value.storage[1]] = BY_NAME[value.storage[0]]
    elif isinstance(value, (list, tuple)):
        for each in value:
            storage_types(each, found)
    elif isinstance(value, dict):
        for each in value.values():
            storage_types(each, found)
    return found


def settle(value, read, known: dict):
    """A structure with Tensors in the place of what is pending."""
    if isinstance(value, Pending):
        dtype = BY_NAME[value.storage[0]]
        if value.storage[1] not in known:
            known[value.storage[1]] = memoryview(read(*value.storage[:2]))
        return strided(known[value.storage[1]], dtype, value)
    if isinstance(value, dict):
        return type(value)((key, settle(each, read, known)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(settle(each, read, known) for each in value)
    return value


def strided(data: memoryview, dtype: DType, view: Pending) -> Tensor:
    order = sorted(range(len(view.size)), key=lambda i: (-view.stride[i], i))
    step = 1
    for i in reversed(order):
        if view.size[i] != 1 and view.stride[i] != step:
            raise NotImplementedError(f"a tensor of strides {view.stride} and shape {view.size}")
        step *= view.size[i]
    count, size = math.prod(view.size), dtype.itemsize
    part = bytes(data[view.offset * size:(view.offset + count) * size])
    x = Tensor._wrap(leaf(Array(dtype.name, tuple(view.size[i] for i in order), part), None, None))
    return x.permute([order.index(i) for i in range(len(order))])
