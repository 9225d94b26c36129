# SPDX-License-Identifier: MIT
"""Data sets from local files."""
from __future__ import annotations

import gzip
import os
import pathlib

from ..tensor import Tensor
from .state import tar_extract

FILES = (("train-images-idx3-ubyte", 16), ("train-labels-idx1-ubyte", 8), ("t10k-images-idx3-ubyte", 16),
         ("t10k-labels-idx1-ubyte", 8))


# The files of CIFAR-10 in its binary form: records of a label and 3 x 32 x 32 bytes.
CIFAR = (tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",))
SOURCES = {"cifar-10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
           "fashion-mnist": "https://github.com/zalandoresearch/fashion-mnist/tree/master/data/fashion"}


def cache() -> pathlib.Path:
    """Of the user."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "beamline" / "data"


def roots() -> list:
    """The folders to look below: $BEAMLINE_DATA and the user's cache."""
    return ([pathlib.Path(os.environ["BEAMLINE_DATA"])] if os.environ.get("BEAMLINE_DATA") else []) + [cache()]


def places(name: str) -> list:
    """Where the files of a data set may be, in order."""
    return [folder for each in roots() for folder in (each / name, each)]


def find_file(name: str, source: str) -> pathlib.Path:
    """A file, such as text/names.txt; FileNotFoundError, which says where it can be had, where it is not here."""
    for each in roots():
        for path in (each / name, each / pathlib.Path(name).name):
            if path.is_file():
                return path
    raise FileNotFoundError(f"{name} is neither in $BEAMLINE_DATA nor in {cache()}: get it from {source}")


def find(name: str) -> pathlib.Path:
    """The folder that has the four files of MNIST or its like; FileNotFoundError where none has."""
    for folder in places(name):
        if all((folder / file).is_file() or (folder / f"{file}.gz").is_file() for file, _ in FILES):
            return folder
    raise FileNotFoundError(f"{name} is neither in $BEAMLINE_DATA nor in {cache()}: put its four files ({FILES[0][0]}.gz and so on) "
                            f"into a folder {name!r} there, from {SOURCES[name]}")


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


def cifar_files() -> dict:
    """The bytes of each file of CIFAR-10; FileNotFoundError if neither the files nor their archive is found."""
    for folder in places("cifar-10"):
        if all((folder / file).is_file() for part in CIFAR for file in part):
            return {file: (folder / file).read_bytes() for part in CIFAR for file in part}
        archive = folder / "cifar-10-binary.tar.gz"
        if archive.is_file():
            return {pathlib.PurePath(name).name: bytes(each.data()) for name, each in tar_extract(archive).items()}
    raise FileNotFoundError(f"cifar-10 is neither in $BEAMLINE_DATA nor in {cache()}: put cifar-10-binary.tar.gz into a folder 'cifar-10' there, from "
                            f"{SOURCES['cifar-10']}")


def cifar(device=None) -> tuple:
    """CIFAR-10: (train images (50000, 3, 32, 32), train labels (50000,), test images, test labels) of uint8."""
    files, tensors = cifar_files(), []
    for part in CIFAR:
        data = Tensor(b"".join(files[file] for file in part), device=device).reshape(-1, 1 + 3 * 32 * 32)
        tensors += [data[:, 1:].reshape(-1, 3, 32, 32), data[:, 0]]
    return tuple(tensors)
