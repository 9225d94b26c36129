#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure the latency of small operations of the Python client, as medians of one run.

    bench/latency.py [--url URL] [--device opencl:0] [--rounds 7] [--times 300] [--learning 64 256 32]

Without --url the script starts build/beamline.  The operations alternate in each round, so that other load on the machine
affects all of them equally.  A figure is the median over the rounds of the median of a round.
"""
import argparse
import contextlib
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "clients" / "python"))
from beamline import Device, Tensor, TinyJit, Variable, nn  # noqa: E402


@contextlib.contextmanager
def server(url):
    """Gives the address |url|, or the address of a new server if |url| is None."""
    if url:
        yield url
        return
    process = subprocess.Popen([ROOT / "build" / "beamline", "serve", "--port", "0", "--state", "none", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    try:
        yield "http://" + re.search(r"listening on (\S+)", process.stdout.readline()).group(1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def learning(device, tokens, classes, width, check_indices):
    """Returns a function that does one training step of an Embedding, a Linear layer and a cross-entropy."""
    table, layer = nn.Embedding(classes, width), nn.Linear(width, classes)
    for each in (table.weight, layer.weight, layer.bias):
        each.assign(each.to(device).realize())
    optimizer = nn.optim.Adam([table.weight, layer.weight, layer.bias])
    x, y = (Tensor.randint(tokens, high=classes, device=device).realize() for _ in range(2))

    @Tensor.train()
    def step(x, y):
        optimizer.zero_grad()
        loss = layer(table(x)).sparse_categorical_crossentropy(y)
        loss.backward()
        optimizer.step()
        return loss
    step = TinyJit(step, check_indices=check_indices)
    return lambda: step(x, y)


def works(device, sizes):
    """Returns [(title, limit in milliseconds or None, function of one repetition)]."""
    a, b = (Tensor.rand(16, 16, device=device).realize() for _ in range(2))
    c, d = (Tensor([1.0, 2], device=device).realize() for _ in range(2))
    add, power = TinyJit(lambda x, y: x + y), TinyJit(lambda x, n: x[:n].sum())
    i = [0]

    def sized():
        i[0] = i[0] % 16 + 1
        return power(a, Variable("n", 1, 16).bind(i[0]))
    return [("an exchange that does nothing", None, lambda: Device.session.call("GET", "/v2/health/live")),
            ("(a + b).realize(), 16 x 16", 0.5, lambda: (a + b).realize()), ("(c + d).realize(), 2", 0.5, lambda: (c + d).realize()),
            ("TinyJit of a + b", 0.25, lambda: add(a, b)), ("TinyJit of a[:n].sum(), another n each time", None, sized),
            ("(a + b).tolist()", None, lambda: (a + b).tolist()),
            ("Embedding and cross-entropy, a step", None, learning(device, *sizes, False)),
            ("the same with its indices checked", None, learning(device, *sizes, True))]


def measure(work, times):
    """The median of |times| repetitions in milliseconds."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url")
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--learning", type=int, nargs=3, default=[64, 256, 32], metavar=("TOKENS", "CLASSES", "WIDTH"))
    args = parser.parse_args()
    with server(args.url) as url:
        Device.connect(url)
        lines = works(args.device, args.learning)
        for _, _, work in lines:  # warm-up: compiles, captures and allocates
            measure(work, 40)
        rounds = [[measure(work, args.times) for _, _, work in lines] for _ in range(args.rounds)]
        for (title, most, _), taken in zip(lines, zip(*rounds)):
            aim = "" if most is None else f"   (to be under {most})"
            print(f"{title:45} {statistics.median(taken):7.3f} ms   {min(taken):7.3f} to {max(taken):7.3f}{aim}")
        Device.connect(url)  # ends the lease


if __name__ == "__main__":
    main()
