# SPDX-License-Identifier: MIT
"""The processes that bench/run.py compares with: PyTorch, OpenBLAS, the machine's memory, tinygrad.

Each takes a JSON line {"do": "prepare" | "slice", "name", "seconds"} and answers with one: facts, or {"times": seconds of each repetition}.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
THREADS = str(os.cpu_count() or 1)


def torch_python():
    """Debian's packages belong to Debian's Python, which is not always the first in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


class Peer:
    """One process, for one line of the table, so that the growth of its memory is that line's alone.

    It is stopped while it is not asked: waiting threads that spin would slow the others down.
    """

    def __init__(self, label, python, script, **env):
        self.label = label
        self.process = subprocess.Popen([python, HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": THREADS, "OPENBLAS_NUM_THREADS": THREADS, **env})
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **order):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.label} ended")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(answer)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def start(kind, torch):
    """The peers of a row: PyTorch waits passively in one process and actively in another, as either may be the better.  [] where |torch|,
    its Python, is None."""
    if kind == "torch":
        return [Peer(policy, torch, "torch_worker.py", OMP_WAIT_POLICY=policy) for policy in ("passive", "active")] if torch else []
    return [Peer(kind, sys.executable, "native_worker.py", OMP_PROC_BIND="true")]


def start_tinygrad(python):
    """tinygrad on its two ways to a CPU: C through clang, and OpenCL on the same driver as ours."""
    return [Peer(f"tinygrad {device}", python, "tinygrad_worker.py", DEV=device, CPU_COUNT=THREADS) for device in ("CPU", "CL")]
