#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure a beamline server beside the fastest peer on the same CPU.

    bench/run.py [--url URL] [--device opencl:0] [--seconds 0.3] [--rounds 9] [--quick] [--only mlp,matmul] [--out bench/out]
                 [--torch PYTHON] [--no-compile] [--tinygrad PYTHON] [--update] [--docs]

The results are a table, JSON, pictures and the tables of docs/performance.md.  Without --url the script starts build/beamline.
In each round, each side runs for one time slice while the other sides are stopped.  Peers are PyTorch 2.9 or newer (eager and
through torch.compile, each with OMP_WAIT_POLICY=passive and with active, and attention by scaled_dot_product_attention; the
fastest process counts), OpenBLAS for matrix products, and memory bandwidth for elementwise work; bench/works.py names the peer
of each row.  A form that torch.compile cannot compile, as without a C++ compiler, is left out with a message.  A slice gives the median of its repetitions.  A figure is the
median over the slices, and a ratio is the median of the ratios within a round.  All sides use all cores and the same sizes.
Kernel rows count the device times of all kernels, including the packing of panels; the other rows count the time through HTTP.

The losses of the first steps of a network of bench/training_networks.py are compared with PyTorch's from the same weights; the
exit status is 1 if they differ.  The script needs PyTorch, libopenblas0, cc and wrk; without PyTorch its rows have our side
only.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "clients" / "python"))
import beamline  # noqa: E402
import peers  # noqa: E402
import report as report_text  # noqa: E402
import training_networks  # noqa: E402
from beamline import Device  # noqa: E402
from works import WORKS, cnn_program  # noqa: E402

THREADS = os.cpu_count() or 1
PEERS = {"torch": "PyTorch", "openblas": "OpenBLAS", "stream": "memory"}


def figures(work, walls, computes, theirs):
    """The rates of a row, by its clock, and the ratio to the fastest peer."""
    return {**peers.rates(work.amount, computes if work.by == "kernels" else walls, theirs), "beamline_device": work.amount / statistics.median(computes),
            "beamline_wall": work.amount / statistics.median(walls)}


def compare(name, work, client, others, options):
    """Measures one row of the table."""
    lease = client.lease(3600)
    shared = work.by == "kernels"
    workers = others.keep(work.peer) if shared else others.start(work.peer)
    try:
        ours, extra = work.prepare(lease, options.device)
        peers.settle(client, ours, options.seconds / 4, slices=1)
        ready, facts, left_out = peers.prepare(workers, name=name, seconds=options.seconds / 4, **extra.pop("order", {}))
        found = figures(work, *peers.take_turns(ours, ready, options))
    finally:
        lease.end()
        for worker in [] if shared else workers:
            worker.close()
    row = {"name": name, "group": work.group, "title": work.title, "unit": work.unit, "goal": work.goal, "by": work.by, "date": peers.now(),
           "peer": PEERS[work.peer], **extra, **found, **({"left_out": left_out} if left_out else {})}
    if "losses" in row:
        row["peer_losses"] = {worker.label: fact["losses"] for worker, fact in zip(ready, facts)}
        row["wrong"] = not all(training_networks.is_same(row["losses"], losses) for losses in row["peer_losses"].values())
    if facts:
        row["peer_version"] = facts[0]["version"]
        if "rss_growth" in facts[0]:
            row["torch_rss_growth"] = min(fact["rss_growth"] for fact in facts)
    return row


def beside_tinygrad(row, work, python):
    """Adds one slice of tinygrad on each of its devices to |row|; more slices would add no information, since tinygrad is far
    slower."""
    row["tinygrad"] = {}
    for worker in peers.start_tinygrad(python):
        facts = worker.ask(do="prepare", name=row["name"], seconds=0)
        if "error" not in facts:
            times = worker.ask(do="slice", seconds=0.5)["times"]
            row["tinygrad"][worker.label] = work.amount / statistics.median(times)
            row["tinygrad_version"] = facts["version"]
        else:
            print(f"{worker.label}: {facts['error']}", file=sys.stderr)
        worker.close()


# ---- latency of a small graph

SMALL = {"inputs": {"x": [[1, 2, 3], [4, 5, 6]]},
         "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}, {"id": "s", "op": "sum", "in": ["y"], "attrs": {"axis": 1}}], "outputs": ["s"]}


def wrk(url, clients, document):
    """Returns (requests/s, median latency in microseconds) of |clients| kept connections."""
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
    """Like wrk with one client of our own, for a machine without wrk."""
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
    """Returns the server's times of compiling the CNN's training step.  A unique constant in each program avoids hits in the
    plan cache."""
    figures = []
    for i in range(5):
        program = cnn_program()
        g = program.entries["main"]
        g.output(new=g.full([1], time.time() % 1e6 + i))
        remote = client.put_program("bench", program, device=device)
        figures.append(remote.info["entries"]["main"])
        remote.delete()
    return {key: statistics.median(figure[key] for figure in figures) for key in ("compile_ms", "engine_ms")}


# ---- the complete run

class Server:
    """A server process of |program| (default build/beamline) on |port| (0: any free port) with further |words|, or the running
    server at |url|."""

    def __init__(self, url, port, program=ROOT / "build" / "beamline", words=()):
        self.process, self.url = None, url
        if url is None:
            self.process = subprocess.Popen([program, "serve", "--tune=off", "--state", "none", "--port", str(port), "--log-level", "warn", *words], stdout=subprocess.PIPE,
                                            text=True)
            self.url = "http://127.0.0.1:" + re.search(r"listening on \S+:(\d+)", self.process.stdout.readline()).group(1)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def print_memory(row):
    """Prints the memory of a training step besides its batch: our scratch memory and two copies of the state, and the growth of
    PyTorch's process."""
    ours = row["scratch_bytes"] + 2 * row["state_bytes"]
    theirs = f", PyTorch's process grew by {row['torch_rss_growth'] / 1e6:.1f} MB" if "torch_rss_growth" in row else ""
    print(f"memory of {row['title']}: {ours / 1e6:.1f} MB{theirs}")


def measure(report, client, server, options):
    only = options.only.split(",")
    report_text.print_heads(report)
    done = {row["name"]: row for row in report["rows"]}
    rows, others = [], peers.Workers(options.torch, options.compile)
    for name in report_text.chosen(WORKS, options):
        row = compare(name, WORKS[name], client, others, options)
        if options.tinygrad:
            beside_tinygrad(row, WORKS[name], options.tinygrad)
        else:
            row.update({key: value for key, value in done.get(name, {}).items() if key.startswith("tinygrad")})
        report_text.print_row(row)
        report_text.put(report, WORKS, row)
        rows.append(row)
    others.close()
    report_text.print_mean(rows)
    print()
    for row in (row for row in rows if row.get("state_bytes")):
        print_memory(row)
    if "latency" in only:
        report["latency"] = latency(client, server.url, options.device)
        print("a graph of two nodes, from the plan cache: " + ", ".join(f"{key} {value:.1f}" for key, value in report["latency"].items()))
    if "compile" in only:
        report["compile"] = compile_time(client, options.device)
        print("compiling the CNN's training step: " + ", ".join(f"{key} {value:.1f}" for key, value in report["compile"].items()))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", help="of a server that runs; by default build/beamline is started")
    parser.add_argument("--port", type=int, default=0, help="of the server that is started; 0: any")
    report_text.add_options(parser, [*WORKS, "latency", "compile"], 0.3, 9)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch 2.9 or newer")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile too (default: yes)")
    parser.add_argument("--tinygrad", metavar="PYTHON", help="a Python that has tinygrad: its figures too, minutes more")
    options = report_text.parse(parser)
    peers.find_torch(parser, options)
    return options


def main():
    options = parse()
    server = Server(options.url, options.port)
    client = beamline.Client(server.url)
    Device.connect(server.url)
    Device.DEFAULT = options.device
    report = report_text.begin("bench.json", options)
    try:
        client.wait_ready()
        measure(report, client, server, options)
    finally:
        server.stop()
    return report_text.finish(report, "bench.json", options)


if __name__ == "__main__":
    sys.exit(main())
