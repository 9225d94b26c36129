#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure a beamline server, through HTTP, beside PyTorch on the same CPU: a table, JSON and a picture.

    bench/run.py [--url URL] [--device opencl:0] [--seconds 1] [--rounds 7] [--only mlp,matmul] [--out bench/out]

Without --url it starts build/beamline.  Every round measures each side for a slice of time, one after the other: ours,
PyTorch with OMP_WAIT_POLICY=passive, PyTorch with active; who is not being measured is stopped.  A figure is the median over all
slices of the median of a slice, and PyTorch's is the better of its two.  Both sides use all cores and the same sizes.
Needs python3-torch for PyTorch's side and wrk for the one with many clients; what is missing is left out, with a word.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "clients" / "python"))
import beamline  # noqa: E402
import picture  # noqa: E402
from beamline import Device, Tensor, dtypes, nn  # noqa: E402
from beamline.helpers import GlobalCounters  # noqa: E402
from beamline.train import DataLoader, Learner  # noqa: E402

THREADS = os.cpu_count() or 1
POLICIES = ("passive", "active")
# Debian's packages belong to Debian's Python, which is not always the first in PATH.
TORCH_PYTHON = next((python for python in (sys.executable, "/usr/bin/python3")
                     if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0), None)


class Work:
    """One line of the table.

    unit, amount: a rate is amount / seconds    goal: the ratio to PyTorch that we want
    prepare(client, device): puts what is needed on the server and gives slice(seconds) -> (wall times, device times) of one repetition each
    """

    def __init__(self, title, unit, amount, goal, prepare):
        self.title, self.unit, self.amount, self.goal, self.prepare = title, unit, amount, goal, prepare


def linear_start(shape, fan_in, seed):
    return beamline.Init("scaled_uniform", shape=shape, fan_in=fan_in, seed=seed)


def mlp_program():
    p = beamline.Program(w1=linear_start([128, 784], 784, 1), b1=linear_start([128], 784, 2), w2=linear_start([10, 128], 128, 3),
                         b2=linear_start([10], 128, 4))
    g = p.entry()
    x, y = g.input("x", [128, 784]), g.input("y", [128], "int64")
    w = [g.state(name) for name in p.states]
    loss = x.linear(w[0], w[1]).relu().linear(w[2], w[3]).cross_entropy(y)
    g.update(dict(zip(p.states, loss.sgd(w, lr=0.01)))).output(loss=loss)
    return p


def cnn_program():
    p = beamline.Program(w1=linear_start([32, 1, 3, 3], 9, 1), b1=linear_start([32], 9, 2), w2=linear_start([64, 32, 3, 3], 288, 3),
                         b2=linear_start([64], 288, 4), w3=linear_start([10, 1600], 1600, 5), b3=linear_start([10], 1600, 6))
    g = p.entry()
    x, y = g.input("x", [64, 1, 28, 28]), g.input("y", [64], "int64")
    w = [g.state(name) for name in p.states]
    x = x.conv2d(w[0], w[1]).relu().max_pool2d(2).conv2d(w[2], w[3]).relu().max_pool2d(2).flatten(1).dropout(0.5)
    loss = x.linear(w[4], w[5]).cross_entropy(y)
    g.update(dict(zip(p.states, loss.adam(w, lr=0.001, name="adam")))).output(loss=loss)
    return p


def fill(client, device, **shapes):
    """Random tensors on the server, uniform between 0 and 1, or integers below 10 where the shape is of labels."""
    g = beamline.Graph()
    keep = {name: g.randint(shape, 10) if name == "y" else g.uniform(shape) for name, shape in shapes.items()}
    client.run(g, keep=keep, device=device)
    return {name: client.tensor(name) for name in shapes}


def training(program, **shapes):
    """Many steps a request, on one batch, as PyTorch's side has it too."""
    def prepare(client, device):
        inputs = fill(client, device, **shapes)
        remote = client.put_program("bench", program(), device=device)
        begin = time.perf_counter()
        remote.run(inputs, steps=20)
        each = (time.perf_counter() - begin) / 20

        def measure(seconds):
            steps = max(2, int(seconds / each))
            begin = time.perf_counter()
            result = remote.run(inputs, steps=steps)
            return [(time.perf_counter() - begin) / steps], [result.stats["compute_ms"] / 1e3 / steps]
        entry = remote.info["entries"]["main"]
        held = sum(value.nbytes for value in remote.state().values())
        return measure, {"kernels": entry["kernels"], "scratch_bytes": entry["peak_bytes"], "state_bytes": held}
    return prepare


def graph(build, **shapes):
    """One request a repetition; the result stays on the server."""
    def prepare(client, device):
        inputs = fill(client, device, **shapes)
        g = beamline.Graph()
        result = build(*(g.input(name) for name in shapes))
        for _ in range(3):
            stats = client.run(g, inputs, keep={"result": result}, device=device).stats

        def measure(seconds):
            walls, computes, start = [], [], time.perf_counter()
            while len(walls) < 2 or time.perf_counter() - start < seconds:
                begin = time.perf_counter()
                stats = client.run(g, inputs, keep={"result": result}, device=device).stats
                walls.append(time.perf_counter() - begin)
                computes.append(stats["compute_ms"] / 1e3)
            return walls, computes
        return measure, {"kernels": stats["kernels"]}
    return prepare


def learning(optimizer):
    """Epochs of a Learner over 60,000 pictures that the server holds: Fashion-MNIST, or noise where that is not here."""
    def prepare(*_):
        try:
            images, labels = nn.datasets.mnist(fashion=True)[:2]
        except FileNotFoundError:
            images = (Tensor.rand(PICTURES, 28, 28) * 256).cast(dtypes.uint8)
            labels = Tensor.randint(PICTURES, low=0, high=10).cast(dtypes.uint8)
        first, second = nn.Linear(784, 128), nn.Linear(128, 10)
        model = lambda x: second(first(x.flatten(1)).relu())  # noqa: E731
        loader = DataLoader(images, labels, batch_size=128, transform=lambda x, y: (x.float() / 255, y))
        learner = Learner(model, loader, optimizer=optimizer([*nn.state.get_parameters(first), *nn.state.get_parameters(second)]))
        learner.fit(1, progress=False)

        def measure(seconds):
            walls, computes, start = [], [], time.perf_counter()
            while len(walls) < 2 or time.perf_counter() - start < seconds:
                GlobalCounters.reset()
                begin = time.perf_counter()
                learner.fit(1, progress=False)
                walls.append(time.perf_counter() - begin)
                computes.append(GlobalCounters.time_sum_s)
            return walls, computes
        return measure, {}
    return prepare


def chain(a, b):
    return (((a * b + 1.5).relu() * a - b).abs() + 0.5).sqrt()


MANY = 64 << 20
PICTURES = 60000  # as Fashion-MNIST has
WORKS = {
    "mlp": Work("MLP 784-128-10, batch 128, SGD", "steps/s", 1, 1.0, training(mlp_program, x=[128, 784], y=[128])),
    "cnn": Work("CNN, batch 64, Adam", "steps/s", 1, 0.7, training(cnn_program, x=[64, 1, 28, 28], y=[64])),
    "learner": Work("Learner, MLP, Adam, from memory", "img/s", PICTURES, 5.0, learning(lambda some: nn.optim.Adam(some, lr=0.001))),
    "learner_sgd": Work("Learner, MLP, SGD, from memory", "img/s", PICTURES, 5.0, learning(lambda some: nn.optim.SGD(some, lr=0.01))),
    "matmul": Work("matmul 1024³ float32", "GFLOP/s", 2e-9 * 1024**3, 0.6, graph(lambda a, b: a @ b, a=[1024, 1024], b=[1024, 1024])),
    "softmax": Work("row softmax 65536×1024", "GB/s", 8e-9 * 65536 * 1024, 2.0, graph(lambda x: x.softmax(), x=[65536, 1024])),
    "chain": Work("8 elementwise ops on 64M floats", "GB/s", 12e-9 * MANY, 2.0, graph(chain, a=[MANY], b=[MANY])),
}


class Torch:
    """One process of PyTorch, for one line of the table, so that the growth of its memory is that line's alone.

    It is stopped while it is not asked: waiting threads that spin would slow the others down.
    """

    def __init__(self, policy):
        self.policy = policy
        env = {**os.environ, "OMP_WAIT_POLICY": policy, "OMP_NUM_THREADS": str(THREADS)}
        self.process = subprocess.Popen([TORCH_PYTHON, HERE / "torch_worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **order):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("PyTorch's process ended")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(answer)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def compare(name, work, client, options):
    """One line: medians of both sides over rounds that take turns."""
    lease = client.lease(3600)
    workers = [Torch(policy) for policy in POLICIES] if TORCH_PYTHON else []
    try:
        ours, extra = work.prepare(lease, options.device)
        ours(options.seconds / 4)
        theirs = {worker.policy: [] for worker in workers}
        facts, growths = {}, []
        for worker in workers:
            facts = worker.ask(do="prepare", name=name, seconds=options.seconds / 4)
            growths.append(facts["rss_growth"])
        walls, computes = [], []
        for _ in range(options.rounds):
            wall, compute = ours(options.seconds)
            walls.append(statistics.median(wall))
            computes.append(statistics.median(compute))
            for worker in workers:
                theirs[worker.policy].append(statistics.median(worker.ask(do="slice", seconds=options.seconds)["times"]))
    finally:
        lease.end()
        for worker in workers:
            worker.close()
    row = {"name": name, "title": work.title, "unit": work.unit, "goal": work.goal, **extra,
           "beamline": work.amount / statistics.median(walls), "beamline_device": work.amount / statistics.median(computes),
           "beamline_best": work.amount / min(walls)}
    if workers:
        rates = {policy: work.amount / statistics.median(times) for policy, times in theirs.items()}
        best = max(rates, key=rates.get)
        row.update(torch=rates[best], torch_policy=best, torch_all=rates, torch_version=facts["version"],
                   torch_rss_growth=min(growths), ratio=row["beamline"] / rates[best])
    return row


# ---- latency of a small graph

SMALL = {"inputs": {"x": [[1, 2, 3], [4, 5, 6]]},
         "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}, {"id": "s", "op": "sum", "in": ["y"], "attrs": {"axis": 1}}], "outputs": ["s"]}


def wrk(url, clients, document):
    """(requests/s, microseconds at the middle) of so many clients on kept connections."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\nwrk.body = [==[{json.dumps(document)}]==]\n')
        script.flush()
        text = subprocess.run(["wrk", "-t1", f"-c{clients}", "-d3s", "--latency", "-s", script.name, url + "/api/v1/run"], check=True,
                              capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)
    middle, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", text).groups()
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), float(middle) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def by_hand(client, document):
    """The same with one client of our own, where wrk is missing."""
    times = []
    for _ in range(2000):
        begin = time.perf_counter()
        client.call("POST", "/api/v1/run", document)
        times.append(time.perf_counter() - begin)
    return len(times) / sum(times), 1e6 * statistics.median(times)


def latency(client, url, device):
    document = {**SMALL, "device": device}
    client.call("POST", "/api/v1/run", document)
    if shutil.which("wrk") is None:
        print("wrk is not installed: one client of our own stands in")
        rate, middle = by_hand(client, document)
        return {"one_client_us": middle, "one_client_rate": rate}
    alone = [wrk(url, 1, document) for _ in range(3)]
    crowd = [wrk(url, 32, document) for _ in range(3)]
    return {"one_client_us": statistics.median(middle for _, middle in alone), "clients_32_rate": statistics.median(rate for rate, _ in crowd),
            "clients_32_us": statistics.median(middle for _, middle in crowd)}


def compile_time(client, device):
    """What compiling the CNN's training step costs, told by the server; a constant of its own makes it new to the plan cache."""
    figures = []
    for i in range(5):
        program = cnn_program()
        g = program.entries["main"]
        g.output(new=g.full([1], time.time() % 1e6 + i))
        remote = client.put_program("bench", program, device=device)
        figures.append(remote.info["entries"]["main"])
        remote.delete()
    return {key: statistics.median(figure[key] for figure in figures) for key in ("compile_ms", "engine_ms")}


# ---- the whole

class Server:
    """build/beamline on a free port, or one that runs already."""

    def __init__(self, url):
        self.process, self.url = None, url
        if url is None:
            self.process = subprocess.Popen([ROOT / "build" / "beamline", "serve", "--port", "0", "--log-level", "warn"], stdout=subprocess.PIPE,
                                            text=True)
            self.url = "http://127.0.0.1:" + re.search(r"listening on \S+:(\d+)", self.process.stdout.readline()).group(1)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def machine():
    name = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"cpu": name, "threads": THREADS, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def print_row(row):
    line = f"{row['title']:<34} {row['beamline']:>9.1f} {row['beamline_device']:>9.1f}"
    if "torch" in row:
        line += f" {row['torch']:>9.1f} {row['torch_policy']:<8} {row['ratio']:>6.2f}x {row['goal']:>5.1f}x"
    print(line + f"  {row['unit']}", flush=True)


def print_memory(row):
    """What a training step needs beside its batch: our scratch and two copies of the state; how far PyTorch's process grew."""
    ours = row["scratch_bytes"] + 2 * row["state_bytes"]
    theirs = f", PyTorch's process grew by {row['torch_rss_growth'] / 1e6:.1f} MB" if "torch" in row else ""
    print(f"memory of {row['title']}: {ours / 1e6:.1f} MB{theirs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", help="of a server that runs; by default build/beamline is started")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a slice")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join([*WORKS, "latency", "compile"]), help="which, separated by commas (default %(default)s)")
    parser.add_argument("--out", default=str(HERE / "out"), help="folder for JSON and picture")
    options = parser.parse_args()
    only = options.only.split(",")
    server = Server(options.url)
    client = beamline.Client(server.url)
    Device.connect(server.url)
    Device.DEFAULT = options.device
    report = {"machine": machine(), "device": options.device, "rows": []}
    try:
        client.wait_ready()
        print(f"{report['machine']['cpu']}, {THREADS} threads, {options.device}\n")
        if TORCH_PYTHON is None:
            print("PyTorch is not installed (python3-torch): only our side is measured\n")
        print(f"{'':<34} {'beamline':>9} {'(device)':>9} {'PyTorch':>9} {'waiting':<8} {'ratio':>7} {'goal':>6}")
        for name in [name for name in WORKS if name in only]:
            report["rows"].append(compare(name, WORKS[name], client, options))
            print_row(report["rows"][-1])
        print()
        for row in report["rows"]:
            if row.get("state_bytes"):
                print_memory(row)
        if "latency" in only:
            report["latency"] = latency(client, server.url, options.device)
            print("a graph of two nodes, from the plan cache: " + ", ".join(f"{key} {value:.1f}" for key, value in report["latency"].items()))
        if "compile" in only:
            report["compile"] = compile_time(client, options.device)
            print("compiling the CNN's training step: " + ", ".join(f"{key} {value:.1f}" for key, value in report["compile"].items()))
    finally:
        server.stop()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    drawn = TORCH_PYTHON and report["rows"]
    if drawn:
        (out / "bench.svg").write_text(picture.draw(report))
    print(f"\n{out}/bench.json" + (f", {out}/bench.svg" if drawn else ""))


if __name__ == "__main__":
    main()
