# SPDX-License-Identifier: MIT
"""The native peers of bench/run.py: OpenBLAS's sgemm, and the memory bandwidth of the machine (stream.c).

The orders and answers have the format of torch_worker.py.  Both libraries are called through ctypes and use all threads.
"""
import array
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import sizes
from repetitions import measure

HERE = pathlib.Path(__file__).resolve().parent
THREADS = os.cpu_count() or 1


def floats(count):
    """A ctypes array of |count| floats between 0 and 1."""
    values = array.array("f", (((i * 2654435761) & 0xffff) / 65536 for i in range(min(count, 65536))))
    whole = array.array("f", bytes(4 * count))
    for start in range(0, count, len(values)):
        end = min(start + len(values), count)
        whole[start:end] = values[:end - start]
    return (ctypes.c_float * count).from_buffer(whole)


def matmul(name):
    blas = ctypes.CDLL("libopenblas.so.0")
    blas.openblas_set_num_threads(THREADS)
    blas.openblas_get_config.restype = ctypes.c_char_p
    m, n, k = sizes.MATMULS[name]
    a, b, c = floats(m * k), floats(k * n), floats(m * n)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    rows, plain = 101, 111  # CblasRowMajor, CblasNoTrans

    def run():
        blas.cblas_sgemm(rows, plain, plain, m, n, k, one, a, k, b, n, zero, c, n)
    return run, blas.openblas_get_config().decode()


def stream(reads):
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "stream.so"
        subprocess.run(["cc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", library, HERE / "stream.c"], check=True)
        stream = ctypes.CDLL(str(library))
    if stream.stream_init(ctypes.c_int64(sizes.MANY)) != 0:
        raise MemoryError
    return lambda: stream.stream_run(ctypes.c_int64(sizes.MANY), reads), "stream.c"


def prepare(name):
    """Returns (function to repeat, version)."""
    return stream({"fma": 3, "chain": 2}[name]) if name in ("fma", "chain") else matmul(name)


def main():
    step = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            step, version = prepare(order["name"])
            measure(step, order["seconds"])  # warm up
            answer = {"version": version}
        else:
            answer = {"times": measure(step, order["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
