# SPDX-License-Identifier: MIT
"""What the MNIST examples share: the data set on the server, batches drawn in the graph, the loop, and its progress bar.

A model is a function (graph, images, training) -> logits, where images is a float tensor [n, 1, 28, 28] of 0 to 1, and a dict
of how its parameters start.
"""
import pathlib
import sys
import time

import local  # before beamline: it finds the client
import beamline
import curve
import mnist_data

STEPS_A_REQUEST = 50
COLLECT_EVERY = 5


def draw_batch(g, step, count, size):
    """Which samples the batch of this step is made of: whole numbers below |count|, [size].

    Epochs follow each other without a gap, each a permutation of all samples, so that none is missed and none comes twice.
    A batch may lie across two epochs; therefore there are two permutations, one for even and one for odd epochs, each of
    which depends on the number of its epoch and nothing else.
    """
    if size > count:
        raise ValueError(f"a batch of {size} from {count} samples would lie across more than two epochs")
    first = step * size // count                          # the epoch that the batch begins in
    place = step * size + g.arange(size)                  # how many samples came before, for each of the batch
    even = g.randperm(count, key=first + first % 2)
    odd = g.randperm(count, key=first + 1 - first % 2)
    turn, within = place // count, place % count
    return g.where(turn % 2 == 0, even.take(within), odd.take(within)).contiguous(name="batch")


def look(images, index):
    """The images of these samples as [n, 1, 28, 28] of 0 to 1."""
    return images.take(index).cast("float32").unsqueeze(1) / 255


def count_correct(logits, labels):
    return (logits.argmax(axis=1) == labels).sum()


def largest_divisor(number, most):
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)


def make_program(model, parameters, digits, batch, optimise):
    """The program: an entry that trains, one that tests some of the test images, and one that reads a single digit.

    optimise: a function (graph, loss, parameters) -> new parameters
    """
    program = beamline.Program(step=beamline.array(0, "int64"), **parameters)

    def data(g, count):
        return (g.input("images", [count, mnist_data.SIDE, mnist_data.SIDE], "uint8"), g.input("labels", [count], "uint8"))

    g = program.entry("train")
    step = g.state("step")
    images, labels = data(g, digits.train_count)
    index = draw_batch(g, step, digits.train_count, batch)
    y = labels.take(index)
    logits = model(g, look(images, index), True)
    loss = logits.cross_entropy(y)
    g.update(dict(zip(parameters, optimise(g, loss, [g.state(name) for name in parameters]))))
    g.update({"step": step + 1}).output(loss=loss, correct=count_correct(logits, y))

    g = program.entry("test")
    images, labels = data(g, digits.test_count)
    index = g.input("offset", [], "int64") + g.arange(largest_divisor(digits.test_count, 1000))
    g.output(correct=count_correct(model(g, look(images, index), False), labels.take(index)))

    g = program.entry("guess")
    x = look(g.input("images", [digits.test_count, mnist_data.SIDE, mnist_data.SIDE], "uint8"), g.input("index", [1], "int64"))
    chances = model(g, x, False).softmax()
    g.output(digit=chances.argmax(), confidence=chances.max())
    return program


def upload(client, digits, device):
    """Put the data set on the server; give the inputs of the entries that train and test."""
    def put(part, images, labels):
        shape = [len(labels), mnist_data.SIDE, mnist_data.SIDE]
        return {"images": client.put(f"mnist.{part}.images", images, "uint8", shape, device),
                "labels": client.put(f"mnist.{part}.labels", labels, "uint8", [len(labels)], device)}
    return put("train", digits.train_images, digits.train_labels), put("test", digits.test_images, digits.test_labels)


class Progress:
    """A bar that is drawn over itself in a terminal, and a line now and then elsewhere."""

    WIDTH = 24

    def __init__(self, total, out=sys.stdout):
        self.total, self.out, self.start, self.shown = total, out, time.monotonic(), 0
        self.live = out.isatty()

    def show(self, done, loss, accuracy):
        seconds = max(time.monotonic() - self.start, 1e-9)
        rate = done / seconds
        filled = self.WIDTH * done // self.total
        line = (f"[{'#' * filled}{'.' * (self.WIDTH - filled)}] {done}/{self.total}  loss {loss:.4f}  accuracy {100 * accuracy:5.2f}%  "
                f"{rate:.1f} steps/s  {(self.total - done) / rate:.0f} s left")
        if self.live:
            print("\r" + line + "\x1b[K", end="\n" if done == self.total else "", file=self.out, flush=True)
        elif done == self.total or 10 * done // self.total > self.shown:
            self.shown = 10 * done // self.total
            print(line, file=self.out, flush=True)


def train(program, inputs, steps, batch):
    """Run the steps; give (steps, losses, accuracies) as they were collected, and the seconds that it took."""
    seen, losses, accuracies = [], [], []
    progress = Progress(steps)
    start = time.monotonic()
    for done in range(0, steps, STEPS_A_REQUEST):
        many = min(STEPS_A_REQUEST, steps - done)
        every = min(COLLECT_EVERY, many)
        result = program.run(inputs, entry="train", steps=many, collect=["loss", "correct"], every=every)
        losses += result.collected["loss"].tolist()
        accuracies += [correct / batch for correct in result.collected["correct"].tolist()]
        seen += range(done + every, done + many + 1, every)
        progress.show(done + many, curve.smooth(losses)[-1], curve.smooth(accuracies)[-1])
    return (seen, losses, accuracies), time.monotonic() - start


def test(program, inputs, digits):
    """The part of the test images that the program gets right."""
    some = largest_divisor(digits.test_count, 1000)
    right = sum(int(program.run({**inputs, "offset": offset}, entry="test")["correct"].item())
                for offset in range(0, digits.test_count, some))
    return right / digits.test_count


def main(name, model, parameters, optimise, steps, batch):
    """Train and test a model with the options of the command line."""
    options = local.options(f"Train {name} on handwritten digits, on a beamline server.",
                            ("--device", {"help": "to train on, as in opencl:0 (default: the server's first)"}),
                            ("--steps", {"type": int, "default": steps, "help": "(default: %(default)s)"}),
                            ("--seed", {"type": int, "default": 0, "help": "of the batches and of dropout (default: %(default)s)"}),
                            ("--program", {"default": "mnist", "help": "its name on the server (default: %(default)s)"}),
                            ("--curve", {"metavar": "FILE", "help": "write a picture of the training, as SVG"}))
    try:
        run(name, model, parameters, optimise, batch, options)
    except KeyboardInterrupt:
        sys.exit("\nstopped")
    except (beamline.BeamlineError, OSError) as error:
        sys.exit(f"{local.url()}: {error}")


def run(name, model, parameters, optimise, batch, options):
    digits = mnist_data.load()
    print(f"{digits.source}: {digits.train_count:,} to train with, {digits.test_count:,} to test", flush=True)
    client = beamline.Client(local.url())
    training_data, test_data = upload(client, digits, options.device)
    place = {"device": options.device} if options.device else {}
    start = time.monotonic()
    program = client.put_program(options.program, make_program(model, parameters, digits, batch, optimise), seed=options.seed, **place)
    device = client.program(options.program).info["device"]
    print(f"{name} compiled for {device} in {time.monotonic() - start:.1f} s", flush=True)
    series, seconds = train(program, training_data, options.steps, batch)
    tested = test(program, test_data, digits)
    if options.curve:
        title = f"{name} on {device}: {options.steps:,} steps of {batch} in {seconds:.1f} s"
        pathlib.Path(options.curve).write_text(curve.draw(title, *series, tested))
    print(f"test accuracy {100 * tested:.2f}%")
