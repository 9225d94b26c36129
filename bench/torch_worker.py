# SPDX-License-Identifier: MIT
"""PyTorch's side of bench/run.py and bench/sweep.py: reads a JSON line {"do": "prepare" | "slice", "name", "seconds"} and answers
with a JSON line.

For a shape of bench/shapes.py, "prepare" has "shape" and "folder", the folder of the inputs and of the server's results, and
with "compile" the function is compiled by torch.compile.  {"do": "check"} then compares the server's results with PyTorch's.

The parent process sets OMP_WAIT_POLICY and OMP_NUM_THREADS, and stops this process (SIGSTOP) while other sides are measured.
"""
import gzip
import json
import math
import pathlib
import resource
import sys
import time

import shape_sides
import shapes
import sizes
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


def mlp(optimiser=lambda some: torch.optim.SGD(some, lr=0.01)):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return train(model, optimiser(model.parameters()), torch.rand(128, 784), torch.randint(0, 10, (128,)))


def cnn():
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Dropout(0.5), nn.Linear(1600, 10))
    return train(model, torch.optim.Adam(model.parameters(), lr=0.001), torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,)))


def mnist(batch):
    """The network of tinygrad's examples/beautiful_mnist.py."""
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(576, 10))
    return train(model, torch.optim.Adam(model.parameters(), lr=0.001), torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,)))


class Block(torch.nn.Module):
    """A GPT block: causal attention, then two linear layers, each on normalised input with a residual connection."""

    def __init__(self, width, heads):
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.l1, self.l2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(self.l1(x)).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        mask = torch.full((length, length), float("-inf")).triu(1)
        seen = torch.softmax(q @ k.transpose(-1, -2) * size**-0.5 + mask, -1) @ v
        x = x + self.o(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.l2(x))))


class Gpt(torch.nn.Module):
    def __init__(self, length, width, heads, layers, vocabulary):
        super().__init__()
        nn = torch.nn
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.last(self.blocks(self.tokens(x) + self.places))).flatten(0, 1)


def gpt(batch, length, vocabulary, **size):
    model = Gpt(length=length, vocabulary=vocabulary, **size)
    return train(model, torch.optim.Adam(model.parameters(), lr=0.001), torch.randint(0, vocabulary, (batch, length)),
                 torch.randint(0, vocabulary, (batch * length,)))


def pictures():
    """The 60,000 pictures of Fashion-MNIST with labels; random pictures of the same size if the data set is missing."""
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
    """Returns the function of one epoch of a DataLoader over pictures in memory."""
    nn = torch.nn
    images, labels = pictures()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=128, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = optimiser(model.parameters())

    def epoch():
        for x, y in loader:
            train(model, optimiser, x.float() / 255, y)()
    return epoch


def conv(name):
    x, w, _ = (torch.rand(shape) for shape in sizes.conv_shapes(name))
    return lambda: torch.nn.functional.conv2d(x, w)


def conv_gradients(name):
    """Returns the function of both gradients, computed by the library function of autograd, without the forward pass."""
    x, w, y = (torch.rand(shape) for shape in sizes.conv_shapes(name))
    one = [1, 1]
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, one, [0, 0], one, False, [0, 0], 1, [True, True, False])


def depthwise(name, gradients):
    """Returns the function of the convolution or, with |gradients|, of the gradients to the pictures and to the weight."""
    (x, w, y), (_, channels, _, k, stride) = [torch.rand(shape) for shape in sizes.depthwise_shapes(name)], sizes.DEPTHWISE[name]
    steps, pads = [stride, stride], [k // 2, k // 2]
    if not gradients:
        return lambda: torch.nn.functional.conv2d(x, w, None, steps, pads, 1, channels)
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, steps, pads, [1, 1], False, [0, 0], channels, [*gradients, False])


class Residual(torch.nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        nn = torch.nn
        self.first = nn.Sequential(nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm2d(outs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs))
        same = stride == 1 and ins == outs
        self.short = nn.Identity() if same else nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.short(x))


def resnet18(batch, extent):
    nn, widths = torch.nn, (64, 64, 128, 256, 512)
    blocks = [Residual(widths[i] if first else widths[i + 1], widths[i + 1], 2 if first and i > 0 else 1) for i in range(4) for first in (True, False)]
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return train(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.rand(batch, 3, extent, extent), torch.randint(0, 1000, (batch,)))


def attention(name):
    q, k, v = (torch.rand(sizes.ATTENTIONS[name]) for _ in range(3))
    return lambda: torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def attention_gradients(name):
    q, k, v = (torch.rand(sizes.ATTENTIONS[name]).requires_grad_() for _ in range(3))
    y = torch.rand(sizes.ATTENTIONS[name])

    def run():
        with torch.enable_grad():
            return torch.autograd.grad(torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v, [q, k, v], y)
    return run


def softmax():
    x = torch.rand(sizes.ROWS)
    return lambda: torch.softmax(x, -1)


def layernorm():
    x, w, b = torch.rand(sizes.ROWS), torch.rand(sizes.ROWS[1]), torch.rand(sizes.ROWS[1])
    return lambda: torch.nn.functional.layer_norm(x, (sizes.ROWS[1],), w, b)


def tiny():
    a, b = torch.rand(sizes.TINY), torch.rand(sizes.TINY)

    def run():
        x = a
        for _ in range(sizes.TINY_ROUNDS):
            x = (x * b).sum() + a
        return x
    return run


def adam(some):
    return torch.optim.Adam(some, lr=0.001)


WORK = {"mlp": mlp, "mlp_adam": lambda: mlp(adam), "cnn": cnn, "mnist_64": lambda: mnist(64), "mnist_512": lambda: mnist(512),
        "gpt": lambda: gpt(**sizes.GPT), "learner": lambda: learner(adam),
        "learner_sgd": lambda: learner(lambda some: torch.optim.SGD(some, lr=0.01)), "tiny": tiny, "softmax": softmax, "layernorm": layernorm,
        **{name: lambda name=name: attention(name) for name in sizes.ATTENTIONS},
        **{name + "_grad": lambda name=name: attention_gradients(name) for name in sizes.ATTENTIONS},
        **{name: lambda size=size: resnet18(*size) for name, size in sizes.RESNETS.items()},
        **{name + end: lambda name=name, which=which: depthwise(name, which) for name in sizes.DEPTHWISE
           for end, which in [("", None), ("_x", [True, False]), ("_w", [False, True])]},
        **{name: lambda name=name: conv(name) for name in sizes.CONVS},
        **{name + "_grad": lambda name=name: conv_gradients(name) for name in sizes.CONVS}}
TRAINS = ("mlp", "mlp_adam", "cnn", "mnist_64", "mnist_512", "gpt", "learner", "learner_sgd", *sizes.RESNETS)


# ---- shapes

BOUND = 1e-3  # of an error, relative to the element and to the root mean square of the result: transforms of convolutions lose a digit or two


class ShapeStep:
    """The function of a shape on the inputs in |folder|."""

    def __init__(self, shape, folder, compiled):
        self.folder, params = pathlib.Path(folder), shape["params"]
        self.run = shape_sides.THEIRS[shape["family"]](torch, params)
        if compiled:
            torch.compiler.reset()
            self.run = torch.compile(self.run, dynamic=False)
        inputs = shapes.FAMILIES[shape["family"]].inputs(params)
        self.inputs = [self.read(name, torch.int64 if given.below else torch.float32).reshape(given.shape) for name, given in inputs.items()]

    def read(self, name, dtype):
        return torch.frombuffer(bytearray((self.folder / f"{name}.bin").read_bytes()), dtype=dtype)

    def __call__(self):
        return self.run(*self.inputs)

    def check(self):
        """Returns for each result the share of elements that differ, and the largest error relative to the bound."""
        with torch.no_grad():
            wanted = self()
        return [difference(self.read(f"result{i}", torch.float32), value) for i, value in enumerate(wanted if isinstance(wanted, tuple) else (wanted,))]


def difference(found, wanted):
    wanted = wanted.reshape(-1)
    if found.numel() != wanted.numel():
        return {"apart": 1.0, "worst": None, "why": f"{found.numel()} elements; PyTorch has {wanted.numel()}"}
    scale = wanted.abs() + math.sqrt(float((wanted * wanted).mean()))
    error = (found - wanted).abs() / (BOUND * scale + 1e-30)
    right = int((error <= 1).sum())  # NaN is not <= 1
    return {"apart": 1 - right / error.numel(), "worst": float(error.max())}


def measure(step, name, seconds):
    """Returns the seconds of each repetition: as many as fit into |seconds|, at least two."""
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
            try:
                step = ShapeStep(order["shape"], order["folder"], order["compile"]) if "shape" in order else WORK[name]()
                measure(step, name, order["seconds"])  # warm up
            except (RuntimeError, TypeError, AttributeError) as error:
                if "shape" not in order:
                    raise
                print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
                continue
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answer = {"version": torch.__version__, "threads": torch.get_num_threads(), "rss_growth": 1024 * (peak - before)}
        elif order["do"] == "check":
            answer = {"results": step.check()}
        elif order["do"] == "version":
            answer = {"version": torch.__version__}
        else:
            answer = {"times": measure(step, name, order["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
