# SPDX-License-Identifier: MIT
"""Training loops: data in batches, a model, an optimiser, and a bar that shows how far it is.

    loader = DataLoader(images, labels, batch_size=128, transform=lambda x, y: (x.float() / 255, y))
    learner = Learner(model, loader, metrics=["accuracy"])
    learner.fit(5)
"""
from __future__ import annotations

import itertools
import json
import random
import sys
import time
import weakref
from typing import Callable, Iterator, Sequence

from .base import ceildiv
from .connection import TensorLost
from .context import BEAM, Context
from .device import Device, Handle, options
from .dtype import dtypes
from .expr import Expr, Seeds, bind, check_lost, held, make_template, numel, realize, recovering
from .jit import TinyJit, capture
from .nn.optim import Adam, Optimizer
from .nn.state import get_parameters
from .tensor import Tensor

NUMBERS = itertools.count()
BAR = 24
CHUNK = 1000           # samples of an evaluation at a time
SECONDS_A_REQUEST = 0.25


class DataLoader:
    """Batches of samples.

    data: Tensors of as many samples each, which are then drawn on the server; or one sequence of samples (a tuple of numbers,
        lists or arrays each), which are put together here
    shuffle: another order in each epoch     drop_last: leave out a last batch that is smaller
    transform: a function of the Tensors of a batch that gives those to use, such as scaled ones
    """

    def __init__(self, *data, batch_size: int = 32, shuffle: bool = True, drop_last: bool = False,
                 transform: Callable | None = None):
        self.in_memory = all(isinstance(each, Tensor) for each in data)
        if not data or not self.in_memory and len(data) != 1:
            raise ValueError("data is Tensors, or one sequence of samples")
        sizes = {len(each) for each in data}
        if len(sizes) != 1:
            raise ValueError(f"the Tensors have {sorted(sizes)} samples")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}")
        self.data, self.count, self.batch_size = data, sizes.pop(), batch_size
        self.shuffle, self.drop_last, self.transform = shuffle, drop_last, transform

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return self.count // self.batch_size if self.drop_last else ceildiv(self.count, self.batch_size)

    def __iter__(self) -> Iterator[tuple]:
        """The batches of one epoch: tuples of Tensors."""
        return self.tensors() if self.in_memory else self.samples()

    def change(self, batch: tuple) -> tuple:
        """A batch after the transform."""
        changed = batch if self.transform is None else self.transform(*batch)
        return changed if isinstance(changed, (tuple, list)) else (changed,)

    def tensors(self) -> Iterator[tuple]:
        order = Tensor.randperm(self.count).realize() if self.shuffle else None
        for i in range(len(self)):
            part = slice(i * self.batch_size, min((i + 1) * self.batch_size, self.count))
            yield self.change(tuple(each[part] if order is None else each[order[part]] for each in self.data))

    def samples(self) -> Iterator[tuple]:
        order = list(range(self.count))
        if self.shuffle:
            random.shuffle(order)
        for i in range(len(self)):
            chosen = [self.data[0][j] for j in order[i * self.batch_size:(i + 1) * self.batch_size]]
            columns = zip(*(each if isinstance(each, (tuple, list)) else (each,) for each in chosen))
            yield self.change(tuple(Tensor([each.tolist() if hasattr(each, "tolist") else each for each in column])
                                    for column in columns))

    def draw(self, step: Tensor) -> tuple:
        """The batch of a step, an int64 Tensor of shape (), as expressions: for a program that draws by itself.

        Epochs follow each other without a gap, each in an order of its own in which every sample comes once.  A batch may lie
        across two of them; there is an order for even epochs and one for odd ones, each of which depends on its epoch's number.
        """
        count, size = self.count, self.batch_size
        if size > count:
            raise ValueError(f"a batch of {size} from {count} samples would lie across more than two epochs")
        place = step * size + Tensor.arange(size, dtype=dtypes.int64)
        turn, within = place // count, place % count
        if self.shuffle:
            first = step * size // count
            even, odd = (permutation(key, count)[within] for key in (first + first % 2, first + 1 - first % 2))
            within = (turn % 2 == 0).where(even, odd)
        within = within.contiguous()
        return self.change(tuple(each[within] for each in self.data))


def permutation(key: Tensor, count: int) -> Tensor:
    """An order of |count| things that depends on the key."""
    return Tensor._wrap(Expr("randperm", (key.expr,), (("n", count),), (count,), dtypes.int64))


class Steps:
    """A function without arguments as a program with state: many calls of it in one request.

    The Tensors that it assigns are the program's state; sync() brings their values back to them.
    check_indices: an index out of range raises an IndexError, and the state is that of the step before
    """

    def __init__(self, function: Callable[[], Tensor], check_indices: bool = False):
        self.session, self.lease = Device.session, Device.session.lease
        trace = capture(function, (), {}, [])
        self.assigned = {id(tensor): (tensor, expr) for tensor, expr in trace.assigned}
        leaves, self.inputs, self.states = trace.leaves, [], []
        template, ids = make_template(trace.order, [each for each, _ in leaves])
        place = {id(expr): name for expr, name in zip(trace.order, ids)}
        for i, (expr, leaf) in enumerate(leaves):
            if isinstance(leaf, Tensor) and id(leaf) in self.assigned:
                self.states.append((f"x{i}", leaf))
            else:
                self.inputs.append((f"x{i}", expr, leaf))
        known = {id(tensor) for _, tensor in self.states}
        if any(number not in known for number in self.assigned):
            raise ValueError("a Tensor is assigned that the step does not use")
        self.result = place[id(trace.outputs[0])]
        self.name = f"steps-{self.session.lease[:12]}-{next(NUMBERS)}"
        self.updates = {name: place[id(self.assigned[id(tensor)][1])] for name, tensor in self.states}
        kinds = {name: {"dtype": expr.dtype.name, "shape": list(expr.shape)} for name, expr, _ in self.inputs}
        realize([tensor.expr for _, tensor in self.states])
        check_lost(tensor.expr for _, tensor in self.states)
        entries = {"step": {"inputs": kinds, "nodes": None, "updates": self.updates, "outputs": [self.result]},
                   "read": {"nodes": [], "outputs": [name for name, _ in self.states]}}
        document = {"lease": self.session.lease, "seed": Seeds.next(), "entries": entries,
                    "state": {name: {"tensor": tensor.expr.handle.name} for name, tensor in self.states},
                    **({"beam": int(BEAM)} if BEAM.value else {}), **({"check_indices": True} if check_indices else {})}
        text = json.dumps(document).replace('"nodes": null', f'"nodes":{template.nodes}', 1)
        self.session.exchange("PUT", f"/api/v1/programs/{self.name}", text.encode())
        self.trace = trace
        weakref.finalize(self, self.session.programs.append, self.name)

    def check(self) -> None:
        """Raise TensorLost if the program ended with its lease."""
        if self.lease != Device.session.lease:
            raise TensorLost(404, f"the server at {self.session.client.connection.url} was restarted, or ended the lease of this process, and the steps since the "
                             "last epoch are lost: load a checkpoint, then continue", "Tensor lost")

    def run(self, steps: int) -> list:
        """Some steps; the number that each of them returned."""
        return recovering(lambda: self.run_now(steps))

    def run_now(self, steps: int) -> list:
        self.check()
        values = []
        for name, _, leaf in self.inputs:
            mine = leaf.expr if isinstance(leaf, Tensor) else leaf
            if mine.handle is None:
                realize([mine])
            check_lost([mine])
            values.append(bind(name, mine, {}))
        text = (f'{{"lease":"{self.session.lease}","entry":"step","steps":{steps},'
                f'"collect":{{"every":1,"outputs":["{self.result}"]}},'
                f'"inputs":{{{",".join(values)}}}{options()}}}')
        reply, _ = self.session.post(f"/api/v1/programs/{self.name}/run", text, None, False)
        self.session.count(reply["stats"], steps)
        return reply["collected"][self.result]["data"]

    def sync(self) -> None:
        """Give the Tensors the values that they have in the program."""
        recovering(self.sync_now)

    def sync_now(self) -> None:
        self.check()
        names = [self.session.fresh() for _ in self.states]
        keep = ",".join(f'"{name}":"{state}"' for name, (state, _) in zip(names, self.states))
        self.session.post(f"/api/v1/programs/{self.name}/run",
                          f'{{"lease":"{self.session.lease}","entry":"read","keep":{{{keep}}}}}', None, False)
        for name, (_, tensor) in zip(names, self.states):
            handle = Handle(self.session, name, numel(tensor.shape) * tensor.dtype.itemsize)
            tensor.expr = held(handle, tensor.shape, tensor.dtype, tensor.expr.device)
        self.values = [tensor.expr for _, tensor in self.states]

    @property
    def is_current(self) -> bool:
        """Whether no other code has assigned the Tensors since sync(), and the program is still on the server."""
        return self.lease == Device.session.lease and all(tensor.expr is value for (_, tensor), value in zip(self.states, self.values))


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The part of the rows whose largest output is at the target."""
    return (outputs.argmax(axis=-1) == targets).mean()


METRICS: dict = {"accuracy": accuracy}


class Progress:
    """A bar on a terminal; elsewhere a line when it is done."""

    def __init__(self, title: str, total: int, show: bool, stream=None):
        self.title, self.total, self.stream = title, total, stream or sys.stderr
        self.show, self.start, self.live = show, time.monotonic(), show and self.stream.isatty()

    def update(self, done: int, text: str, last: bool = False) -> None:
        """Show how far it is; |last|: that it is done."""
        if not self.show or not (self.live or last):
            return
        full = BAR * done // max(1, self.total)
        seconds = time.monotonic() - self.start
        bar = f"{self.title} [{'#' * full}{'.' * (BAR - full)}] {done}/{self.total}  {text}  {seconds:.1f} s"
        self.stream.write(("\r" if self.live else "") + bar + ("\x1b[K" if self.live else "") + ("\n" if last else ""))
        self.stream.flush()


class Learner:
    """A model, what it learns from, and how.

    model: a function of the first Tensors of a batch; its parameters are those that get_parameters() finds
    train, valid: DataLoaders whose last Tensor is the target
    loss: a function of outputs and targets, by default sparse_categorical_crossentropy
    optimizer: an Optimizer, or a function of the parameters that makes one
    metrics: names ("accuracy") or functions of outputs and targets that give a mean over the batch
    check_indices: an index or target out of range raises an IndexError in each step
    """

    def __init__(self, model: Callable, train: DataLoader, valid: DataLoader | None = None, loss: Callable | None = None,
                 optimizer: Optimizer | Callable = Adam, metrics: Sequence = (), check_indices: bool = False):
        self.model, self.train, self.valid = model, train, valid
        self.loss = loss or (lambda outputs, targets: outputs.sparse_categorical_crossentropy(targets))
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else optimizer(get_parameters(model))
        self.metrics = {each if isinstance(each, str) else each.__name__: METRICS[each] if isinstance(each, str) else each
                        for each in metrics}
        self.counter = Tensor([0], dtype=dtypes.int64, requires_grad=False)
        self.history: list = []
        self.done = 0          # steps
        self.steps: Steps | None = None
        self.pace = 1
        self.check_indices = check_indices
        self.step_batch = TinyJit(self.learn, check_indices=check_indices)
        self.test_batch = TinyJit(self.measure, check_indices=check_indices)

    def learn(self, *batch: Tensor) -> Tensor:
        """One step on a batch; its loss."""
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            loss = self.loss(self.model(*batch[:-1]), batch[-1])
            loss.backward()
            changed = self.optimizer.schedule_step()
            for each in self.optimizer.params:
                each.grad = None
            return loss.realize(*changed)

    def learn_next(self) -> Tensor:
        """One step on the batch that is next."""
        loss = self.learn(*self.train.draw(self.counter.reshape(())))
        self.counter.assign(self.counter + 1)
        return loss

    def measure(self, *batch: Tensor) -> tuple:
        """The loss of a batch, and its metrics."""
        with Context(TRAINING=0):
            outputs = self.model(*batch[:-1])
            return (self.loss(outputs, batch[-1]).float(), *(each(outputs, batch[-1]).float() for each in self.metrics.values()))

    def measure_rows(self, rows: Tensor) -> tuple:
        return self.measure(*self.valid.change(tuple(each[rows] for each in self.valid.data)))

    def fit(self, epochs: int, progress: bool = True) -> list:
        """Go through the training data some times.  Returns: a dict of loss, seconds and metrics for each epoch so far."""
        for number in range(epochs):
            start = time.monotonic()
            bar = Progress(f"epoch {number + 1}/{epochs}", self.steps_of_epoch(), progress)
            losses = self.epoch_on_server(bar) if self.train.in_memory else self.epoch_of_batches(bar)
            entry = {"loss": sum(losses) / max(1, len(losses)), "seconds": time.monotonic() - start}
            if self.valid is not None:
                entry.update(self.validate())
            self.history.append(entry)
            bar.update(bar.total, "  ".join(f"{key} {value:.4f}" for key, value in entry.items() if key != "seconds"), True)
        return self.history

    def steps_of_epoch(self) -> int:
        """How many steps bring every sample once more: batches lie across epochs where the server draws."""
        if not self.train.in_memory:
            return len(self.train)
        size, count = self.train.batch_size, self.train.count
        epoch = self.done * size // count
        return ceildiv((epoch + 1) * count, size) - self.done

    def epoch_on_server(self, bar: Progress) -> list:
        if self.steps is None or not self.steps.is_current:
            Tensor.realize(self.counter, *get_parameters(self.model), *get_parameters(self.optimizer.__dict__), *self.train.data)
            self.steps = Steps(self.learn_next, self.check_indices)
        losses: list = []
        while len(losses) < bar.total:
            start = time.monotonic()
            some = min(self.pace, bar.total - len(losses))
            losses += self.steps.run(some)
            took = max(time.monotonic() - start, 1e-6)
            self.pace = max(1, min(4 * some if some == self.pace else self.pace, int(some * SECONDS_A_REQUEST / took)))
            bar.update(len(losses), f"loss {losses[-1]:.4f}")
        self.done += len(losses)
        self.steps.sync()
        return losses

    def epoch_of_batches(self, bar: Progress) -> list:
        losses = []
        for i, batch in enumerate(self.train):
            whole = batch[-1].shape[0] == self.train.batch_size
            losses.append((self.step_batch if whole else self.learn)(*batch).item())
            bar.update(i + 1, f"loss {losses[-1]:.4f}")
        self.done += len(losses)
        return losses

    def validate(self, loader: DataLoader | None = None) -> dict:
        """Loss and metrics of the validation data, as valid_loss and so on."""
        self.valid = loader or self.valid
        totals, count = [0.0] * (1 + len(self.metrics)), 0
        for results, size in self.measured():
            totals = [total + size * value for total, value in zip(totals, results)]
            count += size
        names = ["valid_loss", *self.metrics]
        return {name: total / max(1, count) for name, total in zip(names, totals)}

    def measured(self) -> Iterator[tuple]:
        """(numbers, samples) of each part of the validation data."""
        if not self.valid.in_memory:
            for batch in self.valid:
                whole = batch[-1].shape[0] == self.valid.batch_size
                results = (self.test_batch if whole else self.measure)(*batch)
                yield [each.item() for each in results], batch[-1].shape[0]
            return
        if getattr(self, "tested", None) is not self.valid:
            self.tested, self.test_rows = self.valid, TinyJit(self.measure_rows, check_indices=self.check_indices)
            Tensor.realize(*self.valid.data)
        size = min(CHUNK, self.valid.count)
        for at in range(0, self.valid.count, size):
            end = min(at + size, self.valid.count)
            rows = Tensor(list(range(at, end)), dtype=dtypes.int32)
            results = (self.test_rows if end - at == size else self.measure_rows)(rows)
            yield [each.item() for each in results], end - at

    def predict(self, *inputs: Tensor) -> Tensor:
        """The outputs of the model, without training."""
        with Context(TRAINING=0):
            return self.model(*inputs)
