# SPDX-License-Identifier: MIT
"""Data sets from local files."""
from __future__ import annotations

import gzip
import os
import pathlib

from ..tensor import Tensor

FILES = (("train-images-idx3-ubyte", 16), ("train-labels-idx1-ubyte", 8), ("t10k-images-idx3-ubyte", 16),
         ("t10k-labels-idx1-ubyte", 8))


def places(name: str) -> list:
    """The folders to look in: of $BEAMLINE_DATA, of shared/data beside the working copy with this file, of the user's cache."""
    root = pathlib.Path(__file__).resolve().parents[4].parent / "shared" / "data"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "beamline" / "data"
    roots = ([pathlib.Path(os.environ["BEAMLINE_DATA"])] if os.environ.get("BEAMLINE_DATA") else []) + [root, cache]
    return [folder for each in roots for folder in (each / name, each)]


def find(name: str) -> pathlib.Path:
    """The folder that has the four files of MNIST or its like; FileNotFoundError where none has."""
    for folder in places(name):
        if all((folder / file).is_file() or (folder / f"{file}.gz").is_file() for file, _ in FILES):
            return folder
    raise FileNotFoundError(f"{name} is not on this machine: put its four files ({FILES[0][0]}.gz and so on) into a folder "
                            f"{name!r} and name the folder above it in BEAMLINE_DATA")


def mnist(device=None, fashion: bool = False) -> tuple:
    """(train images (60000, 1, 28, 28), train labels (60000,), test images, test labels) of uint8."""
    folder = find("fashion-mnist" if fashion else "mnist")
    tensors = []
    for file, skip in FILES:
        packed = folder / f"{file}.gz"
        data = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / file).read_bytes()
        tensor = Tensor(data[skip:], device=device)
        tensors.append(tensor.reshape(-1, 1, 28, 28) if "images" in file else tensor)
    return tuple(tensors)
