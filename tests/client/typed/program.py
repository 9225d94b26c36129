# SPDX-License-Identifier: MIT
"""A typed program as a user writes it; mypy --strict finds no error."""
from beamline import (BeamlineError, Client, Context, Device, GlobalCounters, Graph, Init, Program, Tensor, TinyJit, Variable,
                      VariableError, array, dtypes, nn)
from beamline import Model as ServedModel
from beamline.helpers import getenv, trange
from beamline.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save


class Model:
    def __init__(self) -> None:
        self.l1, self.l2 = nn.Linear(784, 128), nn.Linear(128, 10)
        self.norm = nn.LayerNorm(128)

    def __call__(self, x: Tensor) -> Tensor:
        return self.l2(self.norm(self.l1(x.flatten(1)).relu()).dropout(0.5))


def arithmetic(a: Tensor, b: Tensor) -> Tensor:
    c: Tensor = (a + b * 2 - 1) / (b ** 2 + 1)
    d: Tensor = -c.exp().log().sqrt().abs() @ a.T
    e: Tensor = (d > 0).where(d, 1 - d)
    c += 1
    return e.sum(axis=1, keepdim=True).softmax().cast(dtypes.half).float()[0, None, ..., ::2]


def train(model: Model, steps: int) -> float:
    opt = nn.optim.Adam(get_parameters(model), lr=1e-3)
    x, y = Tensor.rand(32, 28, 28), Tensor.randint(32, high=10)

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        opt.zero_grad()
        loss: Tensor = model(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*opt.schedule_step())

    loss = 0.0
    for _ in trange(steps):
        loss = step().item()
    return loss


def rest(x: Tensor, path: str) -> None:
    n = Variable("n", 1, 10).bind(3)
    part: Tensor = x[:n].reshape(n, -1) + n
    values, places = part.sort(descending=True)
    values.realize(places)
    q, r = x.qr()
    safe_save(get_state_dict(Model()), path)
    load_state_dict(Model(), safe_load(path))
    GlobalCounters.reset()
    with Context(DEBUG=2), Tensor.train():
        print(x.shape, x.dtype, x.numpy(), x.tolist(), q.numel(), r.device, getenv("STEPS", 3), Device.DEFAULT, GlobalCounters.kernel_count)


def wire(url: str) -> list[float]:
    g = Graph()
    x = g.input("x", [2, 3])
    y = (x * 2 + 1).sum(axis=1)
    dx, = g.grad(y.sum(), [x])
    g.output(y=y, dx=dx, below=x < 3)
    p = Program(w=[0.0], b=Init("zeros", shape=[1]))
    entry = p.entry()
    w, b = ((entry.state("w") - 1) ** 2).mean().sgd([entry.state("w"), entry.state("b")], lr=0.1)
    entry.update({"w": w, "b": b}).output(w)
    with Client(url) as client, client.lease(60) as mine:
        held = mine.put("x", array([[1, 2, 3], [4, 5, 6]]))
        try:
            result = mine.run(g, {"x": held}, sizes={})
        except BeamlineError as error:
            raise VariableError(error.detail) from error
        program = mine.put_program("p", p, seed=1)
        program.run(steps=3, collect=["w"], seq=1)
        print(program.cost()["kernels"], client.cost(g, {"x": held.get()})["ops"], client.shares()["given"])
        model: ServedModel = program.promote("p", 1)
        print(model.ready(), client.upload(b"bytes").exists())
        model.unload()
        program.delete()
        return [float(each) for each in result["y"].tolist()]


if __name__ == "__main__":
    print(arithmetic(Tensor([[1.0, 2]]), Tensor.ones(1, 2)).tolist(), train(Model(), 3))
