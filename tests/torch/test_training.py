# SPDX-License-Identifier: MIT
"""Training against torch: steps of the optimisers, and the loss curves of small networks from the same weights."""

import unittest

import torch
import torch.nn.functional as F

from service import DeviceTest, on_each_device

STEPS = 5
CURVE = 20



class Formula(torch.optim.Optimizer):
    """An optimiser that torch lacks, by its step: (parameter, gradient, number of the step, state dict) -> new value."""

    def __init__(self, params, rule):
        super().__init__(params, {})
        self.rule, self.count, self.kept = rule, 0, {}

    @torch.no_grad()
    def step(self):
        self.count += 1
        for p in self.param_groups[0]["params"]:
            p.copy_(self.rule(p.clone(), p.grad, self.count, self.kept.setdefault(p, {})))


class Clipped:
    """An optimiser after torch's gradient clipping."""

    def __init__(self, params, clip, optimiser):
        self.params, self.clip, self.inner = params, clip, optimiser(params)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.clip(self.params)
        self.inner.step()


def lamb(x, g, step, kept, rate=0.01, b1=0.9, b2=0.999, eps=1e-6, decay=0.1):
    """You et al., arXiv:1904.00962, as in tinygrad."""
    m = kept["m"] = b1 * kept.get("m", 0) + (1 - b1) * g
    v = kept["v"] = b2 * kept.get("v", 0) + (1 - b2) * g * g
    u = m / (1 - b1 ** step) / (torch.sqrt(v / (1 - b2 ** step)) + eps) + decay * x
    return x - rate * (x.norm() / u.norm()) * u


def lars(x, g, step, kept, rate=0.1, momentum=0.9, decay=0.01, trust=0.1, classic=True, nesterov=False):
    """You et al., arXiv:1708.03888, as in tinygrad."""
    scale = rate * trust * x.norm() / (g.norm() + decay * x.norm())
    g = g + decay * x
    g = g * scale if classic else g
    b = kept["b"] = momentum * kept.get("b", 0) + g
    g = g + momentum * b if nesterov else b
    return x - (g if classic else g * scale)


def muon(x, g, step, kept, rate=0.02, momentum=0.95, decay=0.1):
    """Jordan et al., 2024, as in tinygrad; the momentum of a vector is used unchanged."""
    b = kept["b"] = momentum * kept.get("b", 0) + g
    g = g + momentum * b
    if x.dim() > 1:
        y = g / (g.norm() + 1e-7)
        tall = y.shape[0] > y.shape[1]
        y = y.T if tall else y
        for _ in range(5):
            s = y @ y.T
            y = 3.4445 * y + (-4.775 * s + 2.0315 * s @ s) @ y
        g = y.T if tall else y
    return x * (1 - decay * rate) - rate * g


# label -> (op, attributes, torch's optimiser)
OPTIMISERS = {
    "sgd": ("sgd", {"lr": 0.1}, lambda p: torch.optim.SGD(p, 0.1)),
    "sgd with weight decay": ("sgd", {"lr": 0.1, "weight_decay": 0.1}, lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    "sgd with momentum": ("sgd", {"lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "sgd with dampening": ("sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}, lambda p: torch.optim.SGD(p, 0.1, 0.9, 0.3)),
    "sgd with everything": ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
                            lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01)),
    "sgd with decay, momentum, dampening": ("sgd", {"lr": 0.05, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.2},
                                            lambda p: torch.optim.SGD(p, 0.05, 0.8, 0.5, 0.2)),
    "adam": ("adam", {}, torch.optim.Adam),
    "adam with everything": ("adam", {"lr": 0.05, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1},
                             lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.9), 1e-3, 0.1)),
    "adamw": ("adamw", {}, torch.optim.AdamW),
    "adamw with everything": ("adamw", {"lr": 0.05, "betas": [0.5, 0.99], "eps": 1e-4, "weight_decay": 0.2},
                              lambda p: torch.optim.AdamW(p, 0.05, (0.5, 0.99), 1e-4, 0.2)),
    "adagrad": ("adagrad", {}, torch.optim.Adagrad),
    "adagrad with everything": ("adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-3},
                                lambda p: torch.optim.Adagrad(p, 0.1, 0.1, 0.1, eps=1e-3)),
    "rmsprop": ("rmsprop", {}, torch.optim.RMSprop),
    "rmsprop with everything": ("rmsprop", {"lr": 0.02, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.5},
                                lambda p: torch.optim.RMSprop(p, 0.02, 0.8, 1e-3, 0.1, 0.5)),
    "lamb": ("lamb", {"lr": 0.01, "weight_decay": 0.1}, lambda p: Formula(p, lamb)),
    "lars": ("lars", {"lr": 0.1, "weight_decay": 0.01, "tcoef": 0.1}, lambda p: Formula(p, lars)),
    "lars, not classic": ("lars", {"lr": 0.1, "weight_decay": 0.01, "tcoef": 0.1, "classic": False, "nesterov": True},
                          lambda p: Formula(p, lambda *a: lars(*a, classic=False, nesterov=True))),
    "muon": ("muon", {}, lambda p: Formula(p, muon)),
    "sgd clipped by norm": ("sgd", {"lr": 0.1, "clip_norm": 0.5},
                            lambda p: Clipped(p, lambda q: torch.nn.utils.clip_grad_norm_(q, 0.5), lambda q: torch.optim.SGD(q, 0.1))),
    "adam clipped by value": ("adam", {"lr": 0.1, "clip_value": 0.01},
                              lambda p: Clipped(p, lambda q: torch.nn.utils.clip_grad_value_(q, 0.01), lambda q: torch.optim.Adam(q, 0.1))),
}

# op -> (attributes, torch's scheduler of an SGD with rate 0.1)
SCHEDULES = {
    "step_lr": ({"lr": 0.1, "step_size": 3, "gamma": 0.5}, lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5)),
    "polynomial_lr": ({"lr": 0.1, "total": 8, "power": 2}, lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 8, 2)),
    "cosine_lr": ({"lr": 0.1, "total": 12, "end": 0.01}, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 12, 0.01)),
    "warmup_lr": ({"lr": 0.1, "warmup": 5}, lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.2, 1, 4)),
    "one_cycle_lr": ({"lr": 0.1, "total": 12}, lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 12)),
}


def draw(generator, *shape):
    return torch.randn(shape, generator=generator)


def declared(tensor):
    return {"dtype": str(tensor.dtype).replace("torch.", ""), "shape": list(tensor.shape)}


def uniform(generator, shape, fan_in):
    return (torch.rand(shape, generator=generator) * 2 - 1) / fan_in ** 0.5


@on_each_device
class Optimisers(DeviceTest):
    def compare(self, label, rate=None):
        op, attrs, make = OPTIMISERS[label]
        g = torch.Generator().manual_seed(5)
        state = {"w": draw(g, 3, 4), "b": draw(g, 3)}
        batches = [{"x": draw(g, 8, 4), "t": draw(g, 8, 3)} for _ in range(STEPS)]
        inputs = {name: declared(value) for name, value in batches[0].items()}
        if rate is not None:
            attrs, inputs = {**attrs, "lr": "rate"}, {**inputs, "rate": {"dtype": "float32", "shape": []}}
        self.service.put_program("net", {
            "device": self.device, "inputs": inputs,
            "nodes": [{"id": "p", "op": "linear", "in": ["x", "w", "b"]}, {"id": "loss", "op": "mse_loss", "in": ["p", "t"]},
                      {"id": ["w1", "b1"], "op": op, "in": ["loss", "w", "b"], "attrs": attrs}],
            "updates": {"w": "w1", "b": "b1"}, "outputs": ["loss"]}, state)
        mine = {name: value.clone().requires_grad_() for name, value in state.items()}
        optimiser = make(list(mine.values()))
        for step, batch in enumerate(batches):
            if rate is not None:
                optimiser.param_groups[0]["lr"] = rate(step)
                batch = {**batch, "rate": torch.tensor(rate(step))}
            got = self.service.step("net", batch)["loss"]
            optimiser.zero_grad()
            loss = F.mse_loss(F.linear(batch["x"], mine["w"], mine["b"]), batch["t"])
            loss.backward()
            optimiser.step()
            held = self.service.state("net")
            self.close(f"{label}, loss of step {step}", got, loss)
            for name, value in mine.items():
                self.close(f"{label}, {name} after step {step}", held[name], value, 1e-5, 2e-6)

    def test_optimisers(self):
        for label in OPTIMISERS:
            with self.subTest(optimiser=label):
                self.compare(label)

    def test_rate_as_an_input(self):
        for label in ("sgd with everything", "adam with everything", "adamw"):
            with self.subTest(optimiser=label):
                self.compare(label, lambda step: 0.1 / (1 + step))

    def test_schedules(self):
        for op, (attrs, make) in SCHEDULES.items():
            optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
            schedule, wanted = make(optimiser), []
            for _ in range(12):
                wanted.append(optimiser.param_groups[0]["lr"])
                optimiser.step()
                schedule.step()
            nodes = [{"id": "y", "op": op, "in": ["s"], "attrs": attrs}]
            got = self.run_graph(nodes, ["y"], {"s": torch.arange(12)})["y"]
            self.close(op, got, torch.tensor(wanted), 1e-5, 1e-7)

    def test_a_schedule_as_the_rate(self):
        self.service.put_program("rated", {
            "device": self.device, "inputs": {},
            "nodes": [{"id": "rate", "op": "step_lr", "in": ["n"], "attrs": {"lr": 0.5, "step_size": 1, "gamma": 0.5}},
                      {"id": "loss", "op": "sum", "in": ["w"]}, {"id": "n1", "op": "add", "in": ["n", 1]},
                      {"id": ["w1"], "op": "sgd", "in": ["loss", "w"], "attrs": {"lr": "rate"}}],
            "updates": {"w": "w1", "n": "n1"}, "outputs": ["loss"]}, {"w": torch.tensor([4.0]), "n": torch.tensor(0.0)})
        self.service.step("rated", {}, steps=3)
        self.close("w", self.service.state("rated")["w"], torch.tensor([4 - 0.5 - 0.25 - 0.125]))

    def test_a_step_has_a_gradient(self):
        """The gradient of the sum of a first step's new values against their differences, which need float64."""
        x, h = torch.tensor([0.4, -0.7, 1.1], dtype=torch.float64), 1e-5
        kinds = {"sgd": {"lr": 0.3, "weight_decay": 0.1}, "adam": {"lr": 0.3, "eps": 0.1}, "adamw": {"lr": 0.3, "eps": 0.1}, "adagrad": {"lr": 0.3, "eps": 0.1},
                 "rmsprop": {"lr": 0.3, "eps": 0.1}, "lamb": {"lr": 0.3}, "lars": {"lr": 0.3, "tcoef": 0.1}, "muon": {"lr": 0.3}}
        for op, attrs in kinds.items():
            nodes = [{"id": "e", "op": "exp", "in": ["x"]}, {"id": "loss", "op": "sum", "in": ["e"]},
                     {"id": "new", "op": op, "in": ["loss", "x"], "attrs": attrs}, {"id": "square", "op": "mul", "in": ["new", "new"]},
                     {"id": "total", "op": "sum", "in": ["square"]}, {"id": "g", "op": "grad", "in": ["total", "x"]}]
            entry = {"inputs": {"x": {"dtype": "float64", "shape": [3]}}, "nodes": nodes, "outputs": ["total", "g"]}

            def first_step(values):
                self.service.put_program("meta", {"entries": {"main": entry}, "device": self.device}, {})
                return self.service.step("meta", {"x": values}, entry="main")
            moves = [torch.eye(3, dtype=torch.float64)[i] * h for i in range(3)]
            differences = torch.stack([first_step(x + move)["total"] - first_step(x - move)["total"] for move in moves]) / (2 * h)
            with self.subTest(op=op):
                self.close(op, first_step(x)["g"], differences, 1e-5, 1e-6)

    def test_clip_grad_norm(self):
        g = torch.Generator().manual_seed(9)
        a, b = draw(g, 3, 4), draw(g, 5)
        for limit in (0.5, 100.0):
            nodes = [{"id": ["c", "d"], "op": "clip_grad_norm", "in": ["a", "b"], "attrs": {"max_norm": limit}}]
            got = self.run_graph(nodes, ["c", "d"], {"a": a, "b": b})
            scale = min(1.0, limit / (torch.sqrt((a * a).sum() + (b * b).sum()).item() + 1e-6))
            self.close("c", got["c"], a * scale)
            self.close("d", got["d"], b * scale)

    def test_many_steps_of_one_request(self):
        g = torch.Generator().manual_seed(6)
        state, batch = {"w": draw(g, 3, 4)}, {"x": draw(g, 8, 4), "t": draw(g, 8, 3)}
        self.service.put_program("many", {
            "device": self.device, "inputs": {name: declared(value) for name, value in batch.items()},
            "nodes": [{"id": "p", "op": "linear", "in": ["x", "w"]}, {"id": "loss", "op": "mse_loss", "in": ["p", "t"]},
                      {"id": ["w1"], "op": "adam", "in": ["loss", "w"], "attrs": {"lr": 0.05}}],
            "updates": {"w": "w1"}, "outputs": ["loss"]}, state)
        w = state["w"].clone().requires_grad_()
        optimiser = torch.optim.Adam([w], 0.05)
        for _ in range(50):
            optimiser.zero_grad()
            loss = F.mse_loss(F.linear(batch["x"], w), batch["t"])
            loss.backward()
            optimiser.step()
        self.close("loss", self.service.step("many", batch, steps=50)["loss"], loss, 1e-4)
        self.close("w", self.service.state("many")["w"], w, 1e-4, 1e-5)


def chain(first, *ops):
    """Chains nodes; an op is (name, further inputs, attributes)."""
    nodes, last = [], first
    for i, (op, more, attrs) in enumerate(ops):
        nodes.append({"id": f"n{i}", "op": op, "in": [last, *more], "attrs": attrs})
        last = f"n{i}"
    return nodes, last


@on_each_device
class Curves(DeviceTest):
    """Equal weights and equal batches give equal losses."""

    def compare(self, name, weights, nodes, logits, forward, op, attrs, make, x_shape, classes):
        g = torch.Generator().manual_seed(8)
        inputs = {"x": {"dtype": "float32", "shape": list(x_shape)}, "t": {"dtype": "int64", "shape": [x_shape[0]]}}
        new = [f"new_{key}" for key in weights]
        self.service.put_program(name, {
            "device": self.device, "inputs": inputs,
            "nodes": [*nodes, {"id": "loss", "op": "cross_entropy", "in": [logits, "t"]},
                      {"id": new, "op": op, "in": ["loss", *weights], "attrs": attrs}],
            "updates": dict(zip(weights, new)), "outputs": ["loss"]}, weights)
        mine = {key: value.clone().requires_grad_() for key, value in weights.items()}
        optimiser = make(list(mine.values()))
        first, xs = None, [draw(g, *x_shape) for _ in range(2)]
        for step in range(CURVE):
            x = xs[step % 2]
            t = (x.flatten(1)[:, :classes]).argmax(1)  # a target that can be learnt
            optimiser.zero_grad()
            loss = F.cross_entropy(forward(x, mine), t)
            loss.backward()
            optimiser.step()
            self.close(f"loss of step {step}", self.service.step(name, {"x": x, "t": t})["loss"], loss, 1e-3, 0)
            first = loss.item() if first is None else first
        self.assertLess(loss.item(), first)

    def test_mlp(self):
        g = torch.Generator().manual_seed(3)
        weights = {"w1": uniform(g, (33, 20), 20), "b1": uniform(g, (33,), 20), "w2": uniform(g, (5, 33), 33), "b2": uniform(g, (5,), 33)}
        nodes, logits = chain("x", ("linear", ["w1", "b1"], {}), ("gelu", [], {}), ("linear", ["w2", "b2"], {}))
        self.compare("mlp", weights, nodes, logits, lambda x, w: F.linear(F.gelu(F.linear(x, w["w1"], w["b1"])), w["w2"], w["b2"]),
                     "sgd", {"lr": 0.2, "momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.2, 0.9), (17, 20), 5)

    def test_cnn(self):
        g = torch.Generator().manual_seed(4)
        weights = {"k1": uniform(g, (6, 1, 3, 3), 9), "c1": uniform(g, (6,), 9), "k2": uniform(g, (8, 6, 3, 3), 54),
                   "c2": uniform(g, (8,), 54), "w": uniform(g, (4, 32), 32), "b": uniform(g, (4,), 32)}
        nodes, logits = chain("x", ("conv2d", ["k1", "c1"], {"padding": 1}), ("relu", [], {}), ("max_pool2d", [], {"kernel_size": 2}),
                              ("conv2d", ["k2", "c2"], {}), ("relu", [], {}), ("max_pool2d", [], {"kernel_size": 2}),
                              ("flatten", [], {"start_axis": 1}), ("linear", ["w", "b"], {}))

        def forward(x, w):
            y = F.max_pool2d(F.relu(F.conv2d(x, w["k1"], w["c1"], padding=1)), 2)
            y = F.max_pool2d(F.relu(F.conv2d(y, w["k2"], w["c2"])), 2)
            return F.linear(y.flatten(1), w["w"], w["b"])

        self.compare("cnn", weights, nodes, logits, forward, "adam", {"lr": 0.01}, lambda p: torch.optim.Adam(p, 0.01), (9, 1, 12, 12), 4)


if __name__ == "__main__":
    unittest.main()
