# SPDX-License-Identifier: MIT
"""The peer processes of bench/run.py and bench/sweep.py: PyTorch, OpenBLAS, memory bandwidth, tinygrad.

A peer reads a JSON line {"do": "prepare" | "slice", "name", "seconds"} and answers with a JSON line: facts, or {"times":
seconds of each repetition}.  torch_worker.py has further members for shapes.
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
    """The Python with PyTorch: Debian's packages belong to Debian's Python, which is not always the first in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


class Peer:
    """A peer process for one row of the table, so that the growth of its memory belongs to that row.

    The process is stopped (SIGSTOP) between orders, since threads that spin while they wait would slow the other processes.
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
    """Starts the peers of a row.  PyTorch runs in two processes, with passive and with active waiting, since either can be
    faster.  Returns [] if |torch|, the Python with PyTorch, is None."""
    if kind == "torch":
        return [Peer(policy, torch, "torch_worker.py", OMP_WAIT_POLICY=policy) for policy in ("passive", "active")] if torch else []
    return [Peer(kind, sys.executable, "native_worker.py", OMP_PROC_BIND="true")]


def start_tinygrad(python):
    """Starts tinygrad's two CPU back ends: C through clang, and OpenCL on the same driver as beamline."""
    return [Peer(f"tinygrad {device}", python, "tinygrad_worker.py", DEV=device, CPU_COUNT=THREADS) for device in ("CPU", "CL")]
