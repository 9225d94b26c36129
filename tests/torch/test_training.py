# SPDX-License-Identifier: MIT
"""Training against torch: the optimisers over some steps, and the loss curves of small networks from the same weights."""

import unittest

import torch
import torch.nn.functional as F

from service import DeviceTest, on_each_device

STEPS = 5
CURVE = 20

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
    """Nodes that follow one another; an op is (name, further inputs, attributes)."""
    nodes, last = [], first
    for i, (op, more, attrs) in enumerate(ops):
        nodes.append({"id": f"n{i}", "op": op, "in": [last, *more], "attrs": attrs})
        last = f"n{i}"
    return nodes, last


@on_each_device
class Curves(DeviceTest):
    """The same weights, the same batches: the same losses."""

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
            t = (x.flatten(1)[:, :classes]).argmax(1)  # something that can be learnt
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
