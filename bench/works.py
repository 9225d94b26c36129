# SPDX-License-Identifier: MIT
"""Our side of bench/run.py and bench/sweep.py: the work of each row on the server, and its peer."""
import math
import pathlib
import re
import statistics
import tempfile
import time

import beamline
import sizes
import training_networks
from beamline import Tensor, TinyJit, dtypes, nn
from beamline.helpers import GlobalCounters
from beamline.train import DataLoader, Learner
from shape_sides import OURS
from shapes import FAMILIES

REQUEST_SECONDS = 0.03  # approximate time of a kernel's repetitions in one request: enough for a stable figure
MOST_STEPS = 100        # of a training program in one request


class Work:
    """One row of the table.

        unit, amount: the rate is amount / seconds
        goal: the wanted ratio to the peer
        peer: "torch", "openblas", "stream" (memory bandwidth)
        by: "wall", time through HTTP, or "kernels", device times of the kernels, for launches too short for wall times
        prepare(client, device): uploads the operands and returns (slice, facts of the row); slice(seconds) returns the wall times
            and the device times of its repetitions.  facts["order"] are further members of the order to the peers, and
            facts["losses"] the losses of the first training steps, which the peers must have too
    """

    def __init__(self, group, title, unit, amount, goal, prepare, peer="torch", by="wall"):
        self.group, self.title, self.unit, self.amount, self.goal = group, title, unit, amount, goal
        self.prepare, self.peer, self.by = prepare, peer, by


def fill(client, device, shapes, below=None, low=None):
    """Makes random tensors on the server: uniform between 0, or low[name], and 1; for a name in |below| integers below that
    number."""
    g, below, low = beamline.Graph(), below or {}, low or {}
    keep = {name: g.randint(shape, below[name]) if name in below else g.uniform(shape, low=low.get(name, 0)) for name, shape in shapes.items()}
    client.run(g, keep=keep, device=device)
    return {name: client.tensor(name) for name in shapes}


# ---- training steps

class Model:
    """A program under construction, with the parameters of PyTorch's layers of the same shapes."""

    def __init__(self):
        self.program = beamline.Program()
        self.parameters, self.others = [], {}  # names; new values of states that no optimiser updates

    def declare(self, name, shape, fan_in):
        self.program.state(name, beamline.Init("scaled_uniform", shape=shape, fan_in=fan_in, seed=len(self.parameters) + 1))
        self.parameters.append(name)
        return name

    def layer(self, name, shape):
        """Declares weight and bias of a linear or convolutional layer."""
        fan_in = math.prod(shape[1:])
        return self.declare(f"{name}_w", shape, fan_in), self.declare(f"{name}_b", [shape[0]], fan_in)

    def norm(self, name, width, running=False):
        """Declares scale and shift and, with |running|, the running statistics of a batch norm."""
        for part, value in [("scale", 1), ("shift", 0)]:
            self.program.state(f"{name}_{part}", beamline.Init("full", shape=[width], value=value))
            self.parameters.append(f"{name}_{part}")
        for part, value in [("mean", 0), ("var", 1)] if running else []:
            self.program.state(f"{name}_{part}", beamline.Init("full", shape=[width], value=value))
        return [f"{name}_{part}" for part in ("scale", "shift")]

    def begin(self, **inputs):
        self.graph = self.program.entry()
        handles = [self.graph.input(name, shape, dtype) for name, (shape, dtype) in inputs.items()]
        return handles

    def __getitem__(self, name):
        return self.graph.state(name)

    def batch_norm(self, x, name):
        """Normalises with the batch statistics over all axes but the second; updates the running statistics, as in PyTorch."""
        mean, var = x.mean([0, 2, 3]), x.var([0, 2, 3], correction=0)
        for part, value in [("mean", mean), ("var", x.var([0, 2, 3]))]:
            self.others[f"{name}_{part}"] = self[f"{name}_{part}"] * 0.9 + value * 0.1
        return x.batch_norm(mean, var, self[f"{name}_scale"], self[f"{name}_shift"])

    def finish(self, loss, optimizer, **settings):
        weights = [self[name] for name in self.parameters]
        new = loss.sgd(weights, **settings) if optimizer == "sgd" else loss.adam(weights, name="adam", **settings)
        self.graph.update({**dict(zip(self.parameters, new)), **self.others}).output(loss=loss)
        return self.program


def mlp_program(optimizer="sgd"):
    m = Model()
    layers = m.layer("first", [128, 784]), m.layer("second", [10, 128])
    x, y = m.begin(x=([128, 784], "float32"), y=([128], "int64"))
    (w1, b1), (w2, b2) = [(m[w], m[b]) for w, b in layers]
    return m.finish(x.linear(w1, b1).relu().linear(w2, b2).cross_entropy(y), optimizer, lr=0.01 if optimizer == "sgd" else 0.001)


def cnn_program():
    m = Model()
    layers = m.layer("c1", [32, 1, 3, 3]), m.layer("c2", [64, 32, 3, 3]), m.layer("out", [10, 1600])
    x, y = m.begin(x=([64, 1, 28, 28], "float32"), y=([64], "int64"))
    w = [m[name] for layer in layers for name in layer]
    x = x.conv2d(w[0], w[1]).relu().max_pool2d(2).conv2d(w[2], w[3]).relu().max_pool2d(2).flatten(1).dropout(0.5)
    return m.finish(x.linear(w[4], w[5]).cross_entropy(y), "adam", lr=0.001)


def mnist_program(batch):
    """The network of tinygrad's examples/beautiful_mnist.py."""
    m = Model()
    shapes = {"c1": [32, 1, 5, 5], "c2": [32, 32, 5, 5], "c3": [64, 32, 3, 3], "c4": [64, 64, 3, 3], "out": [10, 576]}
    for name, shape in shapes.items():
        m.layer(name, shape)
    m.norm("n1", 32, running=True)
    m.norm("n2", 64, running=True)
    x, y = m.begin(x=([batch, 1, 28, 28], "float32"), y=([batch], "int64"))
    for pair, norm in [(("c1", "c2"), "n1"), (("c3", "c4"), "n2")]:
        for name in pair:
            x = x.conv2d(m[f"{name}_w"], m[f"{name}_b"]).relu()
        x = m.batch_norm(x, norm).max_pool2d(2)
    return m.finish(x.flatten(1).linear(m["out_w"], m["out_b"]).cross_entropy(y), "adam", lr=0.001)


def gpt_program():
    size = sizes.GPT
    batch, length, width, heads = (size[name] for name in ("batch", "length", "width", "heads"))
    m = Model()
    m.declare("tokens", [size["vocabulary"], width], 1)
    m.declare("places", [length, width], width)
    for i in range(size["layers"]):
        m.norm(f"l1_{i}", width)
        m.norm(f"l2_{i}", width)
        for name, shape in [("qkv", [3 * width, width]), ("o", [width, width]), ("up", [4 * width, width]), ("down", [width, 4 * width])]:
            m.layer(f"{name}_{i}", shape)
    m.norm("last", width)
    m.layer("head", [size["vocabulary"], width])
    x, y = m.begin(x=([batch, length], "int64"), y=([batch * length], "int64"))

    def linear(x, name):
        return x.linear(m[f"{name}_w"], m[f"{name}_b"])

    def norm(x, name):
        return x.layer_norm(m[f"{name}_scale"], m[f"{name}_shift"])
    x = m["tokens"].take(x) + m["places"]
    for i in range(size["layers"]):
        parts = linear(norm(x, f"l1_{i}"), f"qkv_{i}").reshape([batch, length, 3, heads, width // heads]).permute([2, 0, 3, 1, 4])
        seen = parts[0].attention(parts[1], parts[2], causal=True).permute([0, 2, 1, 3]).reshape([batch, length, width])
        x = x + linear(seen, f"o_{i}")
        x = x + linear(linear(norm(x, f"l2_{i}"), f"up_{i}").gelu(), f"down_{i}")
    logits = linear(norm(x, "last"), "head").reshape([batch * length, size["vocabulary"]])
    return m.finish(logits.cross_entropy(y), "adam", lr=0.001)


def training(program, shapes, below):
    """Measures many steps per request on one batch, like PyTorch's side.  |below|: limits of integer inputs."""
    def prepare(client, device):
        inputs = fill(client, device, shapes, below)
        remote = client.put_program("bench", program(), device=device)
        begin = time.perf_counter()
        remote.run(inputs, steps=5)
        each = (time.perf_counter() - begin) / 5

        def measure(seconds):
            steps = min(max(2, int(seconds / each)), MOST_STEPS)
            walls, computes, start = [], [], time.perf_counter()
            while not walls or time.perf_counter() - start < seconds:
                begin = time.perf_counter()
                result = remote.run(inputs, steps=steps)
                walls.append((time.perf_counter() - begin) / steps)
                computes.append(result.stats["compute_ms"] / 1e3 / steps)
            return walls, computes
        entry = remote.info["entries"]["main"]
        held = sum(value.nbytes for value in remote.state().values())
        return measure, {"kernels": entry["kernels"], "scratch_bytes": entry["peak_bytes"], "state_bytes": held}
    return prepare


def on_pictures(program, shape):
    return training(program, {"x": shape, "y": shape[:1]}, {"y": 10})


# ---- kernels

def kernel_seconds(text):
    """The sum of a request's kernel times, from the lines of |debug| level 2.  The lines are rounded to 0.1 us, so a sum of 0 counts
    as 0.05 us."""
    return max(0.05, sum(float(us) for us in re.findall(r"^\S+ +\d+ [h ] \S+ +([\d.]+) us", text, re.MULTILINE))) / 1e6


def kernel_moves(text):
    """Returns {kernel: its moves} from |debug| level 3."""
    return dict(re.findall(r"^kernel (\S+): (.*)$", text, re.MULTILINE))


def kernel(build, below=None, low=None, **shapes):
    """Runs a graph as a program without state, so that a request repeats its kernels; the server keeps the results under
    result0, result1 and so on.

    build(graph, *inputs) returns the outputs.  |below|, |low|: as for fill
    """
    def prepare(client, device):
        inputs = fill(client, device, shapes, below, low)
        program = beamline.Program()
        g = program.entry()
        made = build(g, *(g.input(name, shape, "int64" if name in (below or {}) else "float32") for name, shape in shapes.items()))
        keep = {f"result{i}": f"out{i}" for i in range(len(made))}
        g.output(**{name: value for name, value in zip(keep.values(), made)})
        remote = client.put_program("bench", program, device=device)
        begin = time.perf_counter()
        stats = remote.run(inputs, steps=3, keep=keep, debug=3).stats
        each = (time.perf_counter() - begin) / 3
        packs = any(name.startswith("pack_") for name in kernel_moves(stats["debug"]))

        def measure(seconds):
            nonlocal each, inputs
            walls, computes, start = [], [], time.perf_counter()
            while len(walls) < 2 or time.perf_counter() - start < seconds:
                steps = max(1, int(min(REQUEST_SECONDS, seconds / 2) / each))
                if packs:  # panels of unchanged operands are kept from step 3 on; a peer packs each time
                    inputs, steps = fill(client, device, shapes, below, low), 2
                begin = time.perf_counter()
                result = remote.run(inputs, steps=steps, keep=keep, debug=2)
                walls.append((time.perf_counter() - begin) / steps)
                computes.append(kernel_seconds(result.stats["debug"]))
                each = statistics.median(computes)
            return walls, computes
        entry = remote.info["entries"]["main"]
        return measure, {"kernels": entry["kernels"], "moves": kernel_moves(stats["debug"])}
    return prepare


def chain(a, b):
    return (((a * b + 1.5).relu() * a - b).abs() + 0.5).sqrt()


def conv_gradients(g, x, w, cotangent):
    return g.grad(x.conv2d(w), [x, w], cotangent)


def tiny(client, device):
    """150 operations in a chain: repeatedly a product, a full reduction, a sum."""
    inputs = fill(client, device, {"a": [sizes.TINY], "b": [sizes.TINY]})
    program = beamline.Program()
    g = program.entry()
    a, b = g.input("a", [sizes.TINY]), g.input("b", [sizes.TINY])
    x = a
    for _ in range(sizes.TINY_ROUNDS):
        x = (x * b).sum() + a
    g.output(out=x)
    remote = client.put_program("bench", program, device=device)

    def measure(seconds):
        walls, computes, start = [], [], time.perf_counter()
        while len(walls) < 2 or time.perf_counter() - start < seconds:
            begin = time.perf_counter()
            result = remote.run(inputs, steps=MOST_STEPS, keep={"result": "out"})
            walls.append((time.perf_counter() - begin) / MOST_STEPS)
            computes.append(result.stats["compute_ms"] / 1e3 / MOST_STEPS)
        return walls, computes
    measure(0)
    return measure, {"kernels": remote.info["entries"]["main"]["kernels"]}


# ---- networks of clients/python's nn

class OurSide(training_networks.Side):
    nn = nn
    relu6, gelu, cross_entropy = staticmethod(Tensor.relu6), staticmethod(Tensor.gelu), staticmethod(Tensor.cross_entropy)

    @staticmethod
    def max_pool2d(x, k, stride, padding):
        return x.max_pool2d(k, stride, padding=padding)

    @staticmethod
    def attention(q, k, v, causal):
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    @staticmethod
    def cat(parts, axis):
        return Tensor.cat(*parts, dim=axis)

    def norm(self, width, scale):
        layer = self.layer("BatchNorm2d", width)
        layer.weight = Tensor.full((width,), float(scale))
        return layer

    def parameter(self, *shape):
        self.layers.append(Tensor.randn(*shape) * 0.02)
        return self.layers[-1]

    def lstm(self, width, layers):
        cells = [self.layer("LSTMCell", width, width) for _ in range(layers)]

        def run(x):
            steps = [x[:, i] for i in range(x.shape[1])]
            for cell in cells:
                state, seen = None, []
                for step in steps:
                    state = cell(step, state)
                    seen.append(state[0])
                steps = seen
            return Tensor.stack(*steps, dim=1)
        return run


def network_step(network, batch, folder):
    """Makes a network of training_networks.py and a batch, and writes both into |folder| for the other side: the weights as 0.bin,
    1.bin and so on.  Returns the TinyJit of a training step, which returns the loss."""
    Tensor.manual_seed(1)
    side = OurSide()
    loss = network.make(side)
    x, y = ([batch, *shape] for shape in (network.x, network.y))
    x = Tensor.randint(*x, high=network.vocabulary) if network.vocabulary else Tensor.rand(*x)
    y = Tensor.randint(*y, high=network.classes)
    weights = nn.state.get_parameters(side.layers)
    weights = [weight for weight in weights if weight.requires_grad is not False]
    Tensor.realize(x, y, *nn.state.get_parameters(side.layers))
    for name, value in [("x", x), ("y", y), *enumerate(weights)]:
        (folder / f"{name}.bin").write_bytes(value.data())
    optimizer = {"SGD": nn.optim.SGD, "AdamW": nn.optim.AdamW}[network.optimizer](weights, lr=training_networks.RATES[network.optimizer])

    @TinyJit
    @Tensor.train()
    def step():
        optimizer.zero_grad()
        value = loss(x, y).backward()
        return value.realize(*optimizer.schedule_step())
    return step


def network_work(name, batch):
    """Training steps of a network of training_networks.py, a request each."""
    network = training_networks.NETWORKS[name]

    def prepare(*_):
        folder = tempfile.TemporaryDirectory(prefix="beamline-network-")
        step = network_step(network, batch, pathlib.Path(folder.name))
        losses = [step().item() for _ in range(training_networks.FIRST_STEPS)]

        def measure(seconds):
            walls, computes, start = [], [], time.perf_counter()
            while len(walls) < 2 or time.perf_counter() - start < seconds:
                GlobalCounters.reset()
                begin = time.perf_counter()
                step()
                walls.append(time.perf_counter() - begin)
                computes.append(GlobalCounters.time_sum_s)
            return walls, computes
        measure.folder = folder  # which is removed with the work
        return measure, {"losses": losses, "order": {"folder": folder.name}}
    return Work("training", f"{network.title}, b {batch}, {network.optimizer}", "steps/s", 1, 1.3, prepare)


# ---- epochs

def learning(optimizer):
    """Epochs of a Learner over 60,000 pictures on the server: Fashion-MNIST, or random pictures if the data set is missing."""
    def prepare(*_):
        try:
            images, labels = nn.datasets.mnist(fashion=True)[:2]
        except FileNotFoundError:
            images = (Tensor.rand(sizes.PICTURES, 28, 28) * 256).cast(dtypes.uint8)
            labels = Tensor.randint(sizes.PICTURES, low=0, high=10).cast(dtypes.uint8)
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


def matmul_work(name):
    m, n, k = sizes.MATMULS[name]
    square = m == n == k
    return Work("matmul", f"{m}³" if square else f"{m}×{n}×{k}", "GFLOP/s", 2e-9 * m * n * k, 1.0 if square else 0.9,
                kernel(lambda _, a, b: [a @ b], a=[m, k], b=[k, n]), peer="openblas", by="kernels")


def conv_works(name):
    x, w, y = sizes.conv_shapes(name)
    title = f"{w[1]}→{w[0]} {x[2]}² k{w[2]}" + (f" b{x[0]}" if x[0] != 64 else "")
    return {name: Work("convolution", title, "GFLOP/s", sizes.conv_gflop(name), 1.1, kernel(lambda _, x, w: [x.conv2d(w)], x=x, w=w), by="kernels"),
            name + "_grad": Work("convolution", title + ", gradients", "GFLOP/s", 2 * sizes.conv_gflop(name), 1.0,
                                 kernel(conv_gradients, x=x, w=w, cotangent=y), by="kernels")}


def attention_works(name):
    p = sizes.ATTENTIONS[name]
    heads = p["heads"] if p["heads"] == p["kv_heads"] else f"{p['heads']}:{p['kv_heads']}"
    title = f"{p['batch']}×{heads}×{p['queries']}×{p['size']}" + (", causal" if p["causal"] else "")
    # With gradients: four products besides the two, for a library that keeps the scores.
    return {name + end: Work("attention", title + more, "GFLOP/s", FAMILIES[family].amount(p)[0], goal, shape_kernel(family, p), by="kernels")
            for family, end, more, goal in [("attention", "", "", 1.1), ("attention_grad", "_grad", ", with gradients", 1.0)]}


def depthwise_works(name):
    x, w, y = sizes.depthwise_shapes(name)
    batch, channels, extent, k, stride = sizes.DEPTHWISE[name]
    title, how = f"{batch}×{channels} {extent}² k{k} s{stride}", {"stride": stride, "padding": k // 2, "groups": channels}

    def gradient(which):
        return kernel(lambda g, x, w, cotangent: g.grad(x.conv2d(w, **how), [(x, w)[which]], cotangent), x=x, w=w, cotangent=y)
    forms = {"": ("", kernel(lambda _, x, w: [x.conv2d(w, **how)], x=x, w=w)), "_x": (", to pictures", gradient(0)), "_w": (", to weight", gradient(1))}
    return {name + end: Work("depthwise", title + more, "GFLOP/s", sizes.depthwise_gflop(name), 1.0, prepare, by="kernels")
            for end, (more, prepare) in forms.items()}


def shape_kernel(family, params):
    """The kernels of a family of bench/shapes.py."""
    inputs = FAMILIES[family].inputs(params)
    return kernel(lambda g, *given: OURS[family](g, params, *given), below={name: given.below for name, given in inputs.items() if given.below},
                  low={name: given.low for name, given in inputs.items()}, **{name: given.shape for name, given in inputs.items()})


def shape_work(shape):
    """The work of a shape that bench/shapes.py drew."""
    amount, unit = FAMILIES[shape["family"]].amount(shape["params"])
    return Work(shape["family"], shape["name"], unit, amount, 1.0, shape_kernel(shape["family"], shape["params"]), by="kernels")


MANY, ROWS, GPT = sizes.MANY, list(sizes.ROWS), sizes.GPT
WORKS = {
    **{name: matmul_work(name) for name in sizes.MATMULS},
    **{key: work for name in sizes.CONVS for key, work in conv_works(name).items()},
    **{key: work for name in sizes.DEPTHWISE for key, work in depthwise_works(name).items()},
    **{key: work for name in sizes.ATTENTIONS for key, work in attention_works(name).items()},
    "fma": Work("memory", "a * b + c, 64M floats", "GB/s", 16e-9 * MANY, 0.9, kernel(lambda _, a, b, c: [a * b + c], a=[MANY], b=[MANY], c=[MANY]),
                peer="stream", by="kernels"),
    "chain": Work("memory", "8 operations, 64M floats", "GB/s", 12e-9 * MANY, 0.9, kernel(lambda _, a, b: [chain(a, b)], a=[MANY], b=[MANY]),
                  peer="stream", by="kernels"),
    "softmax": Work("memory", "softmax 65536×1024", "GB/s", 8e-9 * math.prod(ROWS), 3.0, kernel(lambda _, x: [x.softmax()], x=ROWS), by="kernels"),
    "layernorm": Work("memory", "layernorm 65536×1024", "GB/s", 8e-9 * math.prod(ROWS), 3.0,
                      kernel(lambda _, x, w, b: [x.layer_norm(w, b)], x=ROWS, w=[ROWS[1]], b=[ROWS[1]]), by="kernels"),
    "mlp": Work("training", "MLP 784-128-10, b 128, SGD", "steps/s", 1, 1.6, on_pictures(mlp_program, [128, 784])),
    "mlp_adam": Work("training", "the same, Adam", "steps/s", 1, 1.4, on_pictures(lambda: mlp_program("adam"), [128, 784])),
    "cnn": Work("training", "CNN of two conv3, b 64, Adam", "steps/s", 1, 1.3, on_pictures(cnn_program, [64, 1, 28, 28])),
    "mnist_64": Work("training", "beautiful_mnist, b 64, Adam", "steps/s", 1, 1.3, on_pictures(lambda: mnist_program(64), [64, 1, 28, 28])),
    "mnist_512": Work("training", "beautiful_mnist, b 512, Adam", "steps/s", 1, 1.3, on_pictures(lambda: mnist_program(512), [512, 1, 28, 28])),
    **{row: network_work(*which) for row, which in training_networks.ROWS.items()},
    "gpt": Work("training", "GPT, 2 layers, d 128, T 128, b 8", "steps/s", 1, 1.3,
                training(gpt_program, {"x": [GPT["batch"], GPT["length"]], "y": [GPT["batch"] * GPT["length"]]},
                         {"x": GPT["vocabulary"], "y": GPT["vocabulary"]})),
    "tiny": Work("training", "150 dependent tiny operations", "chains/s", 1, 2.0, tiny),
    "learner": Work("training", "Learner, MLP, Adam, from memory", "img/s", sizes.PICTURES, 5.0, learning(lambda some: nn.optim.Adam(some, lr=0.001))),
    "learner_sgd": Work("training", "Learner, MLP, SGD, from memory", "img/s", sizes.PICTURES, 5.0, learning(lambda some: nn.optim.SGD(some, lr=0.01))),
}
