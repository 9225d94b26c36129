#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the public names of Tensor with tinygrad's: names, parameters in order, and defaults.

    tests/client/surface.py           print the differences to surface.txt (exit status 1 if there are any)

A line of surface.txt is the name of a property, or a name with its parameters.  EXCLUDED has the names of tinygrad that Tensor
lacks on purpose, since they concern tinygrad's compiler, devices or files that a server does not have.
"""
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SURFACE = pathlib.Path(__file__).resolve().parent / "surface.txt"
EXCLUDED = ("uop", "callify", "schedule_linear", "linear_with_vars", "custom_kernel", "from_url", "decode_hevc_frame", "image_dot",
            "image_conv2d", "from_blob", "call", "as_param", "usum", "uprod", "ufix", "alu", "invalids")
OURS = ("requires_grad", "materialize_grads")  # additional parameters of Tensor


def describe(kind: type, name: str) -> str:
    """Describes a name of a class as a line of surface.txt."""
    static, value = inspect.getattr_static(kind, name), getattr(kind, name)
    if isinstance(static, property) or not callable(value):
        return name
    words = []
    for param in inspect.signature(value).parameters.values():
        if param.name in (*OURS, "self") and param.kind is not param.VAR_KEYWORD:
            continue
        mark = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        words.append(mark + param.name + ("" if param.default is param.empty else f"={param.default!r}"))
    return f"{name}({', '.join(words)})"


def wanted() -> list:
    """The lines of surface.txt."""
    return SURFACE.read_text().split("\n")[:-1]


def names() -> list:
    """The names of surface.txt."""
    return [line.partition("(")[0] for line in wanted()]


def differences(kind: type) -> list:
    """Returns the lines of surface.txt that a class lacks or has with other parameters."""
    found = []
    for line in wanted():
        name = line.partition("(")[0]
        has = describe(kind, name) if hasattr(kind, name) else "nothing"
        if has != line:
            found.append(f"{line}: there is {has}")
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "clients" / "python"))
    from beamline import Tensor
    problems = differences(Tensor)
    print("\n".join(problems) or f"{len(wanted())} names as they should be")
    sys.exit(bool(problems))
