# SPDX-License-Identifier: MIT
"""What all comparisons of bench/ share: processes of peers, turns, and ratios.

A peer that is a worker script reads a JSON line {"do": "prepare" | "slice", "name", "seconds"} and answers with a JSON line:
facts, {"times": seconds of each repetition}, or {"error"}.  torch_worker.py has further members for shapes and networks.
"""
import contextlib
import datetime
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
THREADS = str(os.cpu_count() or 1)
OLDEST_TORCH = (2, 9)


# ---- turns and ratios

def take_turns(ours, workers, options):
    """Returns the median of each slice: our wall times, the device times, and the times of each peer.

    ours(seconds) returns the wall times and the device times of its repetitions; a worker has |label| and slice(seconds), which
    returns the times of its repetitions.  |options| has the rounds, and the seconds of a slice.
    """
    walls, computes, theirs = [], [], {worker.label: [] for worker in workers}
    for _ in range(options.rounds):
        wall, compute = ours(options.seconds)
        walls.append(statistics.median(wall))
        computes.append(statistics.median(compute))
        for worker in workers:
            theirs[worker.label].append(statistics.median(worker.slice(options.seconds)))
    return walls, computes, theirs


def settle(client, measure, seconds=1, slices=2, most=180):
    """Warms up: repeats |measure| until the server of |client| has run nothing on the interpreter and compiled nothing in |slices|
    slices of |seconds|, at most |most| seconds.  A server compiles new graphs, and plans for frequent sizes, in the background."""
    start, quiet, before = time.monotonic(), 0, None
    while quiet < slices and time.monotonic() - start < most:
        measure(seconds)
        metrics = client.metrics()
        interpreted = metrics["beamline_runs_interpreted_total"]
        quiet = quiet + 1 if interpreted == before and metrics['beamline_queue_length{device="compiler"}'] == 0 else 0
        before = interpreted
    if quiet < slices:
        print(f"after {most} s the server still compiles: the next figures may be too low", file=sys.stderr)


def rates(amount, ours, theirs):
    """The rates of a row and, if it has a peer, the ratio to the fastest peer, from the medians of the slices."""
    found = {"beamline": amount / statistics.median(ours)}
    if theirs:
        peers = {label: amount / statistics.median(times) for label, times in theirs.items()}
        best = max(peers, key=peers.get)
        ratios = sorted(their / our for our, their in zip(ours, theirs[best]))
        found.update(peer_rate=peers[best], peer_best=best, peer_all=peers, ratio=statistics.median(ratios), ratio_low=ratios[len(ratios) // 4],
                     ratio_high=ratios[-1 - len(ratios) // 4])
    return found


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def machine():
    name = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"cpu": name, "threads": int(THREADS), "date": now()}


# ---- processes

class Stopped:
    """A process that is stopped (SIGSTOP) except in awake(), since threads that spin while they wait would slow the other
    processes."""

    def __init__(self, label, command, **popen):
        self.label = label
        self.process = subprocess.Popen(command, **popen)
        self.process.send_signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def awake(self):
        self.process.send_signal(signal.SIGCONT)
        yield
        self.process.send_signal(signal.SIGSTOP)

    def has_ended(self):
        return self.process.poll() is not None


class Peer(Stopped):
    """A worker script.  A training row has its own processes, so that the growth of their memory belongs to that row."""

    def __init__(self, label, python, script, compiled=False, **env):
        super().__init__(label, [python, HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "OMP_NUM_THREADS": THREADS, "OPENBLAS_NUM_THREADS": THREADS, **env})
        self.compiled = compiled

    def ask(self, **order):
        with self.awake():
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise RuntimeError(f"the process of {self.label} ended")
        return json.loads(answer)

    def slice(self, seconds):
        return self.ask(do="slice", seconds=seconds)["times"]

    def close(self):
        if self.has_ended():
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def start(kind, torch, compiled=False):
    """Starts the peers of a row.  PyTorch runs in two processes, with passive and with active waiting, since either can be
    faster; with |compiled| in two further processes through torch.compile.  Returns [] if |torch|, the Python with PyTorch, is
    None."""
    if kind != "torch":
        return [Peer(kind, sys.executable, "native_worker.py", OMP_PROC_BIND="true")]
    return [Peer(f"{'compile ' if compiles else ''}{policy}", torch, "torch_worker.py", compiles, OMP_WAIT_POLICY=policy)
            for compiles in ((False, True) if compiled else (False,)) for policy in ("passive", "active") if torch]


def start_tinygrad(python):
    """Starts tinygrad's two CPU back ends: C through clang, and OpenCL on the same driver as beamline."""
    return [Peer(f"tinygrad {device}", python, "tinygrad_worker.py", DEV=device, CPU_COUNT=THREADS) for device in ("CPU", "CL")]


class Workers:
    """The worker processes of many rows: kinds as of start()."""

    def __init__(self, torch, compiled):
        self.torch, self.compiled, self.kept = torch, compiled, {}

    def start(self, kind):
        """Starts processes for one row."""
        return start(kind, self.torch, self.compiled)

    def keep(self, kind):
        """The processes of |kind| that rows share; all are started again if one has ended."""
        if any(worker.has_ended() for worker in self.kept.get(kind, [])):
            self.close()
        if kind not in self.kept:
            self.kept[kind] = self.start(kind)
        return self.kept[kind]

    def close(self):
        for worker in (worker for workers in self.kept.values() for worker in workers):
            worker.close()
        self.kept = {}


class Refused(Exception):
    """A work that a peer could not run."""


def prepare(workers, **order):
    """Prepares a work in all |workers|.  Returns (those that can run it, their facts, {label of another: why not}).  A work that
    torch.compile cannot compile runs eagerly only; Refused if it does not run eagerly."""
    ready, facts, left_out = [], [], {}
    for worker in workers:
        answer = worker.ask(do="prepare", compile=worker.compiled, **order)
        if "error" not in answer:
            ready.append(worker)
            facts.append(answer)
        elif worker.compiled:
            left_out[worker.label] = answer["error"]
        else:
            raise Refused(f"{worker.label}: {answer['error']}")
    return ready, facts, left_out


# ---- where PyTorch is

def torch_python():
    """The Python with PyTorch: this one, or Debian's, which is not always the first in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def module_version(python, module):
    """The version of |module| in |python| as text, or None."""
    done = subprocess.run([python, "-c", f"import {module}; print({module}.__version__)"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def is_new(version):
    return tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_TORCH


def find_torch(parser, options):
    """Sets options.torch and options.version; both are None if there is no PyTorch that is new enough."""
    asked = options.torch
    options.torch = asked or torch_python()
    options.version = module_version(options.torch, "torch") if options.torch else None
    if options.version and is_new(options.version):
        return
    wanted = ".".join(map(str, OLDEST_TORCH))
    if asked:
        parser.error(f"--torch {asked}: PyTorch is {options.version or 'not there'}; it must be {wanted} or newer")
    print(f"PyTorch {wanted} or newer is not installed (--torch PYTHON): the rows have our side only")
    options.torch = options.version = None
