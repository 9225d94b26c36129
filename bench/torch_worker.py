# SPDX-License-Identifier: MIT
"""PyTorch's side of bench/run.py: takes a JSON line {"do": "prepare" | "slice", "name", "seconds"}, answers with one.

The process is started with OMP_WAIT_POLICY and OMP_NUM_THREADS set, and stopped (SIGSTOP) while others are measured.
"""
import gzip
import json
import pathlib
import resource
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients" / "python"))
from beamline.nn import datasets  # noqa: E402


def train(model, optimiser, x, y):
    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
    return step


def mlp():
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return train(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.rand(128, 784), torch.randint(0, 10, (128,)))


def cnn():
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Dropout(0.5), nn.Linear(1600, 10))
    return train(model, torch.optim.Adam(model.parameters(), lr=0.001), torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,)))


def pictures():
    """Fashion-MNIST's 60,000 and their labels; where it is not here, noise of that size."""
    try:
        folder = datasets.find("fashion-mnist")
    except FileNotFoundError:
        return torch.randint(0, 256, (60000, 28, 28), dtype=torch.uint8), torch.randint(0, 10, (60000,))
    found = []
    for file, skip in datasets.FILES[:2]:
        packed = folder / f"{file}.gz"
        data = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / file).read_bytes()
        found.append(torch.frombuffer(bytearray(data[skip:]), dtype=torch.uint8))
    return found[0].reshape(-1, 28, 28), found[1].long()


def learner(optimiser):
    """An epoch of a DataLoader over pictures in memory."""
    nn = torch.nn
    images, labels = pictures()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=128, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = optimiser(model.parameters())

    def epoch():
        for x, y in loader:
            train(model, optimiser, x.float() / 255, y)()
    return epoch


def matmul():
    a, b, c = torch.rand(1024, 1024), torch.rand(1024, 1024), torch.empty(1024, 1024)
    return lambda: torch.mm(a, b, out=c)


def softmax():
    x = torch.rand(65536, 1024)
    return lambda: torch.softmax(x, -1)


def chain():
    a, b = torch.rand(64 << 20), torch.rand(64 << 20)
    return lambda: (((a * b + 1.5).relu() * a - b).abs() + 0.5).sqrt()


WORK = {"mlp": mlp, "cnn": cnn, "learner": lambda: learner(lambda some: torch.optim.Adam(some, lr=0.001)),
        "learner_sgd": lambda: learner(lambda some: torch.optim.SGD(some, lr=0.01)), "matmul": matmul, "softmax": softmax, "chain": chain}
TRAINS = ("mlp", "cnn", "learner", "learner_sgd")


def measure(step, name, seconds):
    """Seconds of each repetition, as many as fit into the time; at least two."""
    times, start = [], time.perf_counter()
    with torch.set_grad_enabled(name in TRAINS):
        while len(times) < 2 or time.perf_counter() - start < seconds:
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
    return times


def main():
    torch.manual_seed(0)
    step = name = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            step, name = None, order["name"]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            step = WORK[name]()
            measure(step, name, order["seconds"])  # warm up
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answer = {"version": torch.__version__, "threads": torch.get_num_threads(), "rss_growth": 1024 * (peak - before)}
        else:
            answer = {"times": measure(step, name, order["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
