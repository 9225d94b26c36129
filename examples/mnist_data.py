# SPDX-License-Identifier: MIT
"""Where the examples get handwritten digits from.

MNIST is looked for in $BEAMLINE_DATA and in the user's cache, and else downloaded from its public mirrors into that cache.  With none of these, the 1,797 digits that come with python3-sklearn do.
The four files are told by what they hold, not by how they were packed: the SHA-256 is that of the decompressed bytes.
"""
import gzip
import hashlib
import os
import pathlib
import sys
import urllib.request
import zlib

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
# file -> (bytes before the data, SHA-256 of the whole decompressed file)
FILES = {
    "train-images-idx3-ubyte": (16, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels-idx1-ubyte": (8, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "t10k-images-idx3-ubyte": (16, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte": (8, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
}
LARGEST_DOWNLOAD = 64 << 20
SIDE = 28


class Digits:
    """Images as bytes, 28 by 28 of 0 to 255, and their labels as bytes; ``source`` says where they are from."""

    def __init__(self, source, train_images, train_labels, test_images, test_labels):
        self.source = source
        self.train_images, self.train_labels = train_images, train_labels
        self.test_images, self.test_labels = test_images, test_labels
        self.train_count, self.test_count = len(train_labels), len(test_labels)


def cache_folder():
    """Where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "beamline" / "data" / "mnist"


def places():
    """The folders to look in, in order."""
    given = os.environ.get("BEAMLINE_DATA")
    roots = [pathlib.Path(given)] if given else []
    return [place for root in roots for place in (root / "mnist", root)] + [cache_folder()]


def unpack(data, name):
    """The contents of one of the files, packed or not; None if they are not what they should be."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
    return data if hashlib.sha256(data).hexdigest() == FILES[name][1] else None


def read(folder, name):
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            data = unpack(path.read_bytes(), name)
            if data is not None:
                return data
            print(f"{path} is damaged, or another file of that name: not used", file=sys.stderr)
    return None


def download(name, log):
    """One file from the first mirror that has it, kept in the cache; None if none does."""
    for mirror in MIRRORS:
        log(f"downloading {mirror}{name}.gz")
        try:
            with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=20) as reply:
                packed = reply.read(LARGEST_DOWNLOAD)
        except OSError as error:
            log(f"  failed: {error}")
            continue
        data = unpack(packed, name)
        if data is None:
            log("  failed: the SHA-256 is wrong")
            continue
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{name}.gz.{os.getpid()}"
        part.write_bytes(packed)
        part.replace(folder / f"{name}.gz")
        return data
    return None


def find_folder():
    """The folder that has all four files whole, or None."""
    return next((place for place in places() if all(read(place, name) is not None for name in FILES)), None)


def load_mnist(log):
    for place in places():
        found = [read(place, name) for name in FILES]
        if None not in found:
            return assemble(f"MNIST from {place}", found)
    found = []
    for name in FILES:
        data = download(name, log)
        if data is None:
            return None
        found.append(data)
    return assemble("MNIST, downloaded", found)


def assemble(source, files):
    return Digits(source, *(data[skip:] for data, (skip, _) in zip(files, FILES.values())))


def enlarge(image):
    """8 by 8 numbers of 0 to 16 as 28 by 28 of 0 to 255: each a block of 3 by 3, with a border of 2."""
    rows = []
    for row in image:
        wide = bytes(2) + b"".join(bytes([min(255, int(value) * 16)]) * 3 for value in row) + bytes(2)
        rows += [wide] * 3
    return bytes(2 * SIDE) + b"".join(rows) + bytes(2 * SIDE)


def load_small():
    """1,500 of scikit-learn's digits to train with and the other 297 to test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    bunch = load_digits()
    images = [enlarge(image) for image in bunch.images]
    labels = bytes(int(label) for label in bunch.target)
    return Digits("no MNIST here and none to download: the 1,797 digits of scikit-learn instead",
                  b"".join(images[:1500]), labels[:1500], b"".join(images[1500:]), labels[1500:])


def load(log=lambda text: print(text, file=sys.stderr)):
    """The Digits to train with.  SystemExit, saying what to do, where there are none."""
    digits = load_mnist(log) or load_small()
    if digits is None:
        sys.exit("no digits: MNIST was not found and could not be downloaded, and python3-sklearn is not installed.\n"
                 f"Put the four files of {MIRRORS[0]} into a folder and name it in BEAMLINE_DATA, or install python3-sklearn.")
    return digits


def main():
    """Say where MNIST is, and download it if need be; exit status 1 where it is nowhere."""
    folder = find_folder()
    if folder is None and load_mnist(lambda text: print(text, file=sys.stderr)) is not None:
        folder = cache_folder()
    if folder is not None:
        print(folder)
    return 0 if folder is not None else 1


if __name__ == "__main__":
    sys.exit(main())
