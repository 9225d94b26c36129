#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a recurrent network on the server: a GRU reads marked numbers and has to tell the sum of the two that were marked.

    examples/remember.py [--length 30] [--steps 3000] [--url URL]

The whole training is one program.  Its loop over time is `scan`: the cell is compiled once whatever the length, and the gradient is a scan
that goes back.  The data is drawn on the server as well, so a request says no more than how many steps.  A network that
remembers nothing is off by 1/6 (the variance of the sum of two numbers between 0 and 1).  After Hochreiter and Schmidhuber, "Long
short-term memory", 1997, the adding problem.
"""

import local  # before beamline: it finds the client
import beamline

WIDTH, BATCH, A_REQUEST = 32, 64, 100


def draw(g, length):
    """Numbers and marks, [length, batch, 2], of which two are marked, one in each half; and their sum."""
    numbers = g.uniform(shape=[length, BATCH])
    place = g.arange(length).unsqueeze(1)
    half = length // 2
    marks = (place == g.randint(shape=[BATCH], low=0, high=half)) | (place == g.randint(shape=[BATCH], low=half, high=length))
    marks = marks.cast("float32")
    return g.stack([numbers, marks], axis=2).contiguous(), (numbers * marks).sum(axis=0).contiguous()


def make_program(length):
    start = {"wx": [3 * WIDTH, 2], "wh": [3 * WIDTH, WIDTH], "bx": [3 * WIDTH], "bh": [3 * WIDTH], "w": [1, WIDTH], "b": [1]}
    program = beamline.Program(**{name: beamline.Init("scaled_uniform", shape=shape, fan_in=WIDTH) for name, shape in start.items()})
    g = program.entry("train")
    state = {name: g.state(name) for name in start}
    xs, want = draw(g, length)

    def step(h, x, *weights):
        return [x.gru_cell(h, *weights)], []

    (h,), _ = g.scan(step, [g.zeros(shape=[BATCH, WIDTH])], [xs], [state[name] for name in ("wx", "wh", "bx", "bh")])
    loss = h.linear(state["w"], state["b"]).squeeze(1).mse_loss(want)
    g.output(loss=loss)
    g.update(dict(zip(start, loss.adam(list(state.values()), lr=0.003, clip_norm=1.0, name="adam"))))
    return program


def main():
    options = local.options(__doc__, ("--length", {"type": int, "default": 30, "help": "numbers in a sequence (default: 30)"}),
                            ("--steps", {"type": int, "default": 3000, "help": "(default: 3000)"}))
    with beamline.Client(local.url()) as client:
        net = client.put_program("remember", make_program(options.length), seed=1)
        for done in range(0, options.steps, A_REQUEST):
            steps = min(A_REQUEST, options.steps - done)
            losses = net.run({}, entry="train", steps=steps, collect=["loss"], every=1).collected["loss"].tolist()
            mean = sum(losses) / steps
            print(f"step {done + steps:5d}  squared error {mean:.5f}", flush=True)
        net.delete()


if __name__ == "__main__":
    main()
