# SPDX-License-Identifier: MIT
"""PyTorch's side of bench/run.py and bench/sweep.py: reads a JSON line {"do": "prepare" | "slice", "name", "seconds"} and answers
with a JSON line.

With "compile" in "prepare", torch.compile compiles the work.  A work that PyTorch refuses is answered with {"error"}.  For a
network of training_networks.py, "prepare" has "folder", which has the weights and the batch of the server's side, and the answer
has the losses of the first steps.  For a shape of bench/shapes.py, "prepare" has "shape" and "folder", the folder of the inputs
and of the server's results; {"do": "check"} then compares the server's results with PyTorch's.

The parent process sets OMP_WAIT_POLICY and OMP_NUM_THREADS, and stops this process (SIGSTOP) while other sides are measured.
"""
import gzip
import json
import math
import pathlib
import resource
import sys

import shape_sides
import shapes
import sizes
import torch
import training_networks
from repetitions import measure

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients" / "python"))
from beamline.nn import datasets  # noqa: E402


def read(path, dtype):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=dtype)


def compile_step(step):
    torch.compiler.reset()
    return torch.compile(step, dynamic=False)


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


def attention(family, params):
    """A family of bench/shapes.py, by scaled_dot_product_attention."""
    inputs = [torch.rand(given.shape) for given in shapes.FAMILIES[family].inputs(params).values()]
    run = shape_sides.THEIRS[family](torch, params)
    return lambda: run(*inputs)


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
        **{name + end: lambda family=family, params=params: attention(family, params) for name, params in sizes.ATTENTIONS.items()
           for family, end in [("attention", ""), ("attention_grad", "_grad")]},
        **{name + end: lambda name=name, which=which: depthwise(name, which) for name in sizes.DEPTHWISE
           for end, which in [("", None), ("_x", [True, False]), ("_w", [False, True])]},
        **{name: lambda name=name: conv(name) for name in sizes.CONVS},
        **{name + "_grad": lambda name=name: conv_gradients(name) for name in sizes.CONVS}}
TRAINS = ("mlp", "mlp_adam", "cnn", "mnist_64", "mnist_512", "gpt", "learner", "learner_sgd", *training_networks.ROWS)


# ---- networks of training_networks.py

class TheirSide(training_networks.Side):
    nn = torch.nn

    @staticmethod
    def relu6(x):
        return torch.nn.functional.relu6(x)

    @staticmethod
    def gelu(x, approximate):
        return torch.nn.functional.gelu(x, approximate=approximate)

    @staticmethod
    def cross_entropy(x, y):
        return torch.nn.functional.cross_entropy(x, y)

    @staticmethod
    def max_pool2d(x, k, stride, padding):
        return torch.nn.functional.max_pool2d(x, k, stride, padding)

    @staticmethod
    def cat(parts, axis):
        return torch.cat(parts, axis)

    @staticmethod
    def attention(q, k, v, causal):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def norm(self, width, scale):
        return self.layer("BatchNorm2d", width)  # the scale comes with the weights

    def parameter(self, *shape):
        self.layers.append(torch.nn.Parameter(torch.randn(shape) * 0.02))
        return self.layers[-1]

    def lstm(self, width, layers):
        cells = self.layer("LSTM", width, width, layers, batch_first=True)
        return lambda x: cells(x)[0]


def weights_of(side):
    return [weight for layer in side.layers for weight in ([layer] if isinstance(layer, torch.Tensor) else layer.parameters())]


class NetworkStep:
    """A training step of a network with the weights and the batch in |folder|.  With |compiled|, torch.compile has the whole step."""

    def __init__(self, name, folder, compiled):
        (kind, batch), folder = training_networks.ROWS[name], pathlib.Path(folder)
        network, side = training_networks.NETWORKS[kind], TheirSide()
        loss, weights = network.make(side), weights_of(side)
        with torch.no_grad():
            for i, weight in enumerate(weights):
                weight.copy_(read(folder / f"{i}.bin", torch.float32).reshape(weight.shape))
        x = read(folder / "x.bin", torch.int32).long() if network.vocabulary else read(folder / "x.bin", torch.float32)
        x, y = x.reshape(batch, *network.x), read(folder / "y.bin", torch.int32).long().reshape(batch, *network.y)
        optimizer = getattr(torch.optim, network.optimizer)(weights, lr=training_networks.RATES[network.optimizer])

        def step():
            optimizer.zero_grad(set_to_none=True)
            value = loss(x, y)
            value.backward()
            optimizer.step()
            return value.detach()
        self.step = compile_step(step) if compiled else step
        self.losses = [float(self.step()) for _ in range(training_networks.FIRST_STEPS)]

    def __call__(self):
        self.step()


# ---- shapes

BOUND = 1e-3  # of an error, relative to the element and to the root mean square of the result: transforms of convolutions lose a digit or two


class ShapeStep:
    """The function of a shape on the inputs in |folder|."""

    def __init__(self, shape, folder, compiled):
        self.folder, params = pathlib.Path(folder), shape["params"]
        self.run = shape_sides.THEIRS[shape["family"]](torch, params)
        if compiled:
            self.run = compile_step(self.run)
        inputs = shapes.FAMILIES[shape["family"]].inputs(params)
        self.inputs = [read(self.folder / f"{name}.bin", torch.int64 if given.below else torch.float32).reshape(given.shape) for name, given in inputs.items()]

    def __call__(self):
        return self.run(*self.inputs)

    def check(self):
        """Returns for each result the share of elements that differ, and the largest error relative to the bound."""
        with torch.no_grad():
            wanted = self()
        return [difference(read(self.folder / f"result{i}.bin", torch.float32), value) for i, value in enumerate(wanted if isinstance(wanted, tuple) else (wanted,))]


def difference(found, wanted):
    wanted = wanted.reshape(-1)
    if found.numel() != wanted.numel():
        return {"apart": 1.0, "worst": None, "why": f"{found.numel()} elements; PyTorch has {wanted.numel()}"}
    scale = wanted.abs() + math.sqrt(float((wanted * wanted).mean()))
    error = (found - wanted).abs() / (BOUND * scale + 1e-30)
    right = int((error <= 1).sum())  # NaN is not <= 1
    return {"apart": 1 - right / error.numel(), "worst": float(error.max())}


def measure_step(step, name, seconds):
    with torch.set_grad_enabled(name in TRAINS):
        return measure(step, seconds)


def make_step(order):
    name, compiled = order["name"], order["compile"]
    if "shape" in order:
        return ShapeStep(order["shape"], order["folder"], compiled)
    if name in training_networks.ROWS:
        return NetworkStep(name, order["folder"], compiled)
    return compile_step(WORK[name]()) if compiled else WORK[name]()


def main():
    torch.manual_seed(0)
    step = name = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            step, name = None, order["name"]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                step = make_step(order)
                measure_step(step, name, order["seconds"])  # warm up
            except (RuntimeError, TypeError, AttributeError) as error:
                print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
                continue
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answer = {"version": torch.__version__, "threads": torch.get_num_threads(), "rss_growth": 1024 * (peak - before),
                      **({"losses": step.losses} if hasattr(step, "losses") else {})}
        elif order["do"] == "check":
            answer = {"results": step.check()}
        else:
            answer = {"times": measure_step(step, name, order["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
