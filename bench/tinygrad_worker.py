# SPDX-License-Identifier: MIT
"""tinygrad's side of bench/run.py, for a Python with tinygrad; the protocol is that of torch_worker.py.  DEV selects the
device."""
import json
import sys
import time

import sizes
import tinygrad
from tinygrad import Context, Device, Tensor, TinyJit, nn


def rand(*shape):
    return Tensor.rand(*shape).contiguous().realize()


def jitted(function, *inputs):
    step = TinyJit(lambda *some: Tensor.realize(*[result.contiguous() for result in function(*some)]))
    return lambda: step(*inputs)


def conv(name, gradients):
    x, w, y = (rand(*shape) for shape in sizes.conv_shapes(name))
    if not gradients:
        return jitted(lambda x, w: [x.conv2d(w)], x, w)
    return jitted(lambda x, w, y: (x.conv2d(w) * y).sum().gradient(x, w), x, w, y)


def chain(a, b):
    return [(((a * b + 1.5).relu() * a - b).abs() + 0.5).sqrt()]


def tiny(a, b):
    x = a
    for _ in range(sizes.TINY_ROUNDS):
        x = (x * b).sum() + a
    return [x]


def train(layers, optimiser, x, y):
    parameters = nn.state.get_parameters(layers)
    optimiser = nn.optim.SGD(parameters, lr=0.01) if optimiser == "sgd" else nn.optim.Adam(parameters, lr=0.001)

    @TinyJit
    @Context(TRAINING=1)
    def step():
        optimiser.zero_grad()
        loss = x.sequential(layers).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())
    return step


def labels(count, below=10):
    return Tensor.randint(count, high=below).realize()


def mlp(optimiser):
    return train([nn.Linear(784, 128), Tensor.relu, nn.Linear(128, 10)], optimiser, rand(128, 784), labels(128))


def mnist(batch):
    layers = [nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d, nn.Conv2d(32, 64, 3),
              Tensor.relu, nn.Conv2d(64, 64, 3), Tensor.relu, nn.BatchNorm(64), Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(576, 10)]
    return train(layers, "adam", rand(batch, 1, 28, 28), labels(batch))


def matmul(name):
    m, n, k = sizes.MATMULS[name]
    return jitted(lambda a, b: [a @ b], rand(m, k), rand(k, n))


def many(function, count):
    return jitted(function, *[rand(sizes.MANY) for _ in range(count)])


WORK = {"mlp": lambda: mlp("sgd"), "mlp_adam": lambda: mlp("adam"), "mnist_64": lambda: mnist(64), "mnist_512": lambda: mnist(512),
        "tiny": lambda: jitted(tiny, rand(sizes.TINY), rand(sizes.TINY)),
        "softmax": lambda: jitted(lambda x: [x.softmax()], rand(*sizes.ROWS)),
        "layernorm": lambda: jitted(lambda x, w, b: [x.layernorm() * w + b], rand(*sizes.ROWS), rand(sizes.ROWS[1]), rand(sizes.ROWS[1])),
        "fma": lambda: many(lambda a, b, c: [a * b + c], 3), "chain": lambda: many(chain, 2),
        **{name: lambda name=name: matmul(name) for name in sizes.MATMULS},
        **{name: lambda name=name: conv(name, False) for name in sizes.CONVS},
        **{name + "_grad": lambda name=name: conv(name, True) for name in sizes.CONVS}}


def measure(step, seconds):
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        Device[Device.DEFAULT].synchronize()
        times.append(time.perf_counter() - begin)
    return times


def prepare(name):
    """Returns the function to repeat, after the calls that capture its kernels."""
    step = WORK[name]()
    for _ in range(3):
        step()
    return step


def main():
    step = None
    for line in sys.stdin:
        order = json.loads(line)
        answer = {"version": getattr(tinygrad, "__version__", "?")}
        if order["do"] == "slice":
            answer = {"times": measure(step, order["seconds"])}
        elif order["name"] not in WORK:
            answer = {"error": "no such row"}
        else:
            try:
                step = prepare(order["name"])
            except Exception as error:  # any compiler error: the row is omitted
                answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
