#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check a machine's GPU for correctness, then measure rates beside PyTorch on the same GPU.

    bench/gpu.py OUT [PART...]      parts: check kernels training text (default: all)

The archive of tools/bundle --gpu contains this script; gpu.sh runs the script.  It needs no network.

Each part ends within 8 minutes and writes OUT/PART.json, a list of rows.  If the driver refuses a row's work, the row has an
"error", and the part continues with the next row.  Without PyTorch the rows have only the rates of beamline.  If PyTorch has no
CUDA, the rows have PyTorch's rates on the CPU; "peer" names the device.
"""
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "clients" / "python"))
import beamline  # noqa: E402

PART_SECONDS = 480
ROW_SECONDS = 60      # limit of one program run
REPEATS = 7           # repetitions per rate; the median counts
SLICE = 0.05          # approximate seconds of device time per repetition
MOVES = 60            # number of kernels with random moves on each device


class Out:
    """The rows of a part.  Each new row is written at once, so that a killed process loses no row."""

    def __init__(self, folder, part):
        self.path, self.rows, self.end = pathlib.Path(folder) / f"{part}.json", [], time.monotonic() + PART_SECONDS

    def add(self, name, **row):
        self.rows.append({"name": name, **row})
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")
        print(name, " ".join(f"{key}={value}" for key, value in row.items() if key not in ("output",)), flush=True)

    def late(self, name):
        if time.monotonic() < self.end:
            return False
        self.add(name, error="left out: the part's time is over")
        return True


def program(name):
    """The path of a program in the bundle or in the build folder."""
    for folder in (ROOT / "bin", ROOT / "build"):
        if (folder / name).exists():
            return str(folder / name)
    raise SystemExit(f"{name} is neither in {ROOT / 'bin'} nor in {ROOT / 'build'}")


def attempt(*words, seconds=ROW_SECONDS):
    """Runs a command.  Returns (seconds, error or None, the end of the output)."""
    start = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, text=True, errors="replace", cwd=ROOT)
        error = None if done.returncode == 0 else f"status {done.returncode}"
        text = done.stdout
    except subprocess.TimeoutExpired as late:
        error, text = f"took over {seconds} s", (late.stdout or b"").decode(errors="replace")
    return round(time.monotonic() - start, 2), error, text[-2000:]


def devices():
    listed = subprocess.run([program("beamline"), "devices"], capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if re.match(r"(opencl|vulkan):\d", line)]


# ---- check: devices, kernels of documents against the interpreter, kernels with random moves

def check(out):
    seconds, error, text = attempt(program("beamline"), "devices")
    out.add("devices", seconds=seconds, error=error, output=text)
    for device in devices():
        for case in sorted((ROOT / "tests" / "cases").glob("*.json")):
            if out.late(f"{device} {case.stem}"):
                return
            seconds, error, text = attempt(program("try"), device, case, 1)
            out.add(f"{device} {case.stem}", seconds=seconds, error=error, output=text if error else "")
        if not out.late(f"{device} random moves"):
            seconds, error, text = attempt(program("check_moves"), device.split(":")[0], MOVES, 0, seconds=2 * ROW_SECONDS)
            out.add(f"{device} random moves", seconds=seconds, error=error, output=text if error else "")


# ---- rates: the same work on our server and in PyTorch

class Server:
    def __init__(self):
        self.process = subprocess.Popen([program("beamline"), "serve", "--port", "0", "--state", "none", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
        address = self.process.stdout.readline().split()[-1]
        self.client = beamline.Client(f"http://{address}")
        self.device = next(each["id"] for each in self.client.devices() if each["default"])

    def close(self):
        self.process.terminate()
        self.process.wait()


def time_ours(server, p, inputs):
    """Returns the median device seconds of one step of a program whose states are its operands, and the wall time to the first
    answer.  The server keeps the output y, if any."""
    start = time.monotonic()
    held = server.client.put_program("gpu", p)
    keep = {"keep": {"gpu.y": "y"}} if not inputs else {}

    def step(count):
        return held.run(inputs, steps=count, **keep).stats["compute_ms"] / 1e3 / count
    step(1)
    first = time.monotonic() - start
    once = max(step(1), 1e-7)
    count = max(1, min(10000, int(SLICE / once)))
    found = statistics.median(step(count) for _ in range(REPEATS))
    held.delete()
    return found, first


class Peer:
    """PyTorch, on CUDA if available."""

    def __init__(self):
        try:
            import torch
        except ImportError:
            self.torch, self.name = None, "none"
            return
        self.torch, self.device = torch, "cuda" if torch.cuda.is_available() else "cpu"
        self.name = f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if self.device == 'cuda' else 'the CPU'}"

    def rand(self, *shape, dtype="float32"):
        return self.torch.rand(*shape, device=self.device).to(getattr(self.torch, dtype))

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def time(self, work):
        def run(count):
            self.wait()
            start = time.monotonic()
            for _ in range(count):
                work()
            self.wait()
            return (time.monotonic() - start) / count
        run(2)
        count = max(1, min(1000, int(SLICE / max(run(1), 1e-7))))
        return statistics.median(run(count) for _ in range(REPEATS))


def operand(p, entry, name, shape, dtype="float32"):
    """A state with random numbers."""
    p.state(name, beamline.Init("uniform", shape=list(shape), seed=1, dtype=dtype))
    return entry.state(name)


def one_op(shapes, compute, dtype="float32"):
    """Returns a program that computes one result from random operands, and its inputs, which are empty."""
    p = beamline.Program()
    entry = p.entry()
    entry.output(y=compute(*[operand(p, entry, f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]))
    return p, {}


def kernel_rows(peer):
    """Yields (name, unit, amount, our program, PyTorch's function)."""
    torch = peer.torch
    functional = torch.nn.functional if torch else None
    n = 1 << 24

    def product(size, dtype):
        def theirs():
            x, y = peer.rand(size, size, dtype=dtype), peer.rand(size, size, dtype=dtype)
            return lambda: x @ y
        return (f"matmul {size} {dtype}", "GFLOP/s", 2e-9 * size ** 3, lambda: one_op([(size, size)] * 2, lambda x, y: x @ y, dtype), theirs)

    def convolution(batch, channels, out, side, kernel):
        def theirs():
            x, w = peer.rand(batch, channels, side, side), peer.rand(out, channels, kernel, kernel)
            return lambda: functional.conv2d(x, w, padding=kernel // 2)
        return (f"conv2d {batch}x{channels}x{side}x{side} to {out}, {kernel}x{kernel}", "GFLOP/s", 2e-9 * batch * channels * out * side ** 2 * kernel ** 2,
                lambda: one_op([(batch, channels, side, side), (out, channels, kernel, kernel)], lambda x, w: x.conv2d(w, padding=kernel // 2)), theirs)

    def attention(heads, length, size, dtype):
        def theirs():
            q, k, v = (peer.rand(1, heads, length, size, dtype=dtype) for _ in range(3))
            return lambda: functional.scaled_dot_product_attention(q, k, v)
        return (f"attention {heads}x{length}x{size} {dtype}", "GFLOP/s", 4e-9 * heads * length ** 2 * size,
                lambda: one_op([(1, heads, length, size)] * 3, lambda q, k, v: q.attention(k, v), dtype), theirs)

    def simple(name, shapes, ours, theirs, moved):
        def prepared():
            values = [peer.rand(*shape) for shape in shapes]
            return lambda: theirs(*values)
        return (name, "GB/s", moved * 1e-9, lambda: one_op(shapes, ours), prepared)

    yield simple("x * 2 of 16 Mi", [(n,)], lambda x: x * 2, lambda x: x * 2, 8 * n)
    yield simple("x * y + 1 of 16 Mi", [(n,), (n,)], lambda x, y: x * y + 1, lambda x, y: x * y + 1, 12 * n)
    yield simple("sum of 16 Mi", [(n,)], lambda x: x.sum(), lambda x: x.sum(), 4 * n)
    yield simple("sum of columns 4096 x 4096", [(4096, 4096)], lambda x: x.sum(axis=0), lambda x: x.sum(0), 4 * 4096 ** 2)
    yield simple("softmax 16384 x 1024", [(16384, 1024)], lambda x: x.softmax(axis=1), lambda x: x.softmax(1), 8 * n)
    yield simple("layer norm 16384 x 1024", [(16384, 1024)], lambda x: x.layer_norm(), lambda x: functional.layer_norm(x, (1024,)), 8 * n)
    for size in (1024, 2048, 4096):
        yield product(size, "float32")
        yield product(size, "bfloat16")
    yield convolution(32, 64, 64, 56, 3)
    yield convolution(32, 256, 256, 14, 3)
    yield convolution(32, 256, 1024, 14, 1)
    yield attention(16, 2048, 64, "float32")
    yield attention(16, 2048, 64, "bfloat16")


def rates(out, rows, peer):
    server = Server()
    try:
        for name, unit, amount, ours, theirs in rows:
            if out.late(name):
                continue
            row = {"unit": unit, "device": server.device, "peer": peer.name, "error": None}
            try:
                seconds, first = time_ours(server, *ours())
                row.update(ours=round(amount / seconds, 1), first_answer_seconds=round(first, 2))
            except (beamline.BeamlineError, OSError, ValueError) as error:
                row["error"] = str(error)[:500]
            if peer.torch is not None:
                try:
                    row["theirs"] = round(amount / peer.time(theirs()), 1)
                    row["ratio"] = round(row["ours"] / row["theirs"], 3) if "ours" in row else None
                except (AttributeError, RuntimeError, TypeError) as error:  # older versions of PyTorch lack some functions
                    row["peer_error"] = str(error)[:500]
            out.add(name, **row)
    finally:
        server.close()


# ---- training steps

def mlp(width, batch):
    p = beamline.Program()
    entry = p.entry()
    x, t = operand(p, entry, "x", (batch, 784)), entry.input("t", [batch], "int64")
    w = [operand(p, entry, f"w{i}", shape) for i, shape in enumerate([(784, width), (width, width), (width, 10)])]
    loss = (((x @ w[0]).relu() @ w[1]).relu() @ w[2]).cross_entropy(t)
    new = loss.adam(w, lr=0.001, name="adam")
    entry.update({f"w{i}": each for i, each in enumerate(new)}).output(loss=loss)
    return p, {"t": [0] * batch}


def training_rows(peer):
    torch = peer.torch

    def theirs(width, batch):
        nn = torch.nn
        model = nn.Sequential(nn.Linear(784, width, bias=False), nn.ReLU(), nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 10, bias=False)).to(peer.device)
        optimiser, x, t = torch.optim.Adam(model.parameters(), lr=0.001), peer.rand(batch, 784), torch.zeros(batch, dtype=torch.int64, device=peer.device)

        def step():
            optimiser.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), t).backward()
            optimiser.step()
        return step
    for width, batch in ((128, 128), (1024, 512), (4096, 2048)):
        yield f"three layers of {width}, batch {batch}, Adam", "steps/s", 1, lambda width=width, batch=batch: mlp(width, batch), \
            lambda width=width, batch=batch: theirs(width, batch)


# ---- decoding: one token through a transformer with full caches

TEXT = {"layers": 12, "width": 768, "heads": 12, "length": 512}


def decoder(dtype):
    p, size = beamline.Program(), TEXT
    width, heads, length = size["width"], size["heads"], size["length"]
    entry = p.entry()

    def state(name, *shape):
        return operand(p, entry, name, shape, dtype)
    x = state("x", 1, width)
    for i in range(size["layers"]):
        q = (x.rms_norm() @ state(f"q{i}", width, width)).reshape([heads, 1, width // heads])
        seen = q.attention(state(f"k{i}", heads, length, width // heads), state(f"v{i}", heads, length, width // heads))
        x = x + seen.reshape([1, width]) @ state(f"o{i}", width, width)
        h = (x.rms_norm() @ state(f"u{i}", width, 4 * width)).silu()
        x = x + h @ state(f"d{i}", 4 * width, width)
    entry.output(y=x.rms_norm())
    return p, {}


def text_rows(peer):
    torch, size = peer.torch, TEXT
    width, heads, length = size["width"], size["heads"], size["length"]

    def theirs(dtype):
        functional = torch.nn.functional
        weights = [[peer.rand(*shape, dtype=dtype) for shape in ((width, width), (heads, length, width // heads), (heads, length, width // heads), (width, width),
                                                                (width, 4 * width), (4 * width, width))] for _ in range(size["layers"])]
        first = peer.rand(1, width, dtype=dtype)

        def norm(x):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

        def step():
            x = first
            for q, k, v, o, up, down in weights:
                seen = functional.scaled_dot_product_attention((norm(x) @ q).view(heads, 1, width // heads), k, v)
                x = x + seen.reshape(1, width) @ o
                x = x + functional.silu(norm(x) @ up) @ down
            return norm(x)
        return step
    for dtype in ("float32", "bfloat16"):
        yield f"a token through {size['layers']} layers of {width}, {length} cached, {dtype}", "tokens/s", 1, lambda dtype=dtype: decoder(dtype), lambda dtype=dtype: theirs(dtype)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    folder, parts = pathlib.Path(sys.argv[1]), sys.argv[2:] or ["check", "kernels", "training", "text"]
    unknown = set(parts) - {"check", "kernels", "training", "text"}
    if unknown:
        sys.exit(f"unknown part {', '.join(sorted(unknown))}: the parts are check, kernels, training and text")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("BEAMLINE_KERNEL_DB", "none")
    for part in parts:
        out = Out(folder, part)
        if part == "check":
            check(out)
        else:
            peer = Peer()
            rates(out, {"kernels": kernel_rows, "training": training_rows, "text": text_rows}[part](peer), peer)


if __name__ == "__main__":
    main()
