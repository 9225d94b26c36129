# SPDX-License-Identifier: MIT
"""DataLoader and Learner."""
import io
import unittest

from beamline import GlobalCounters, Tensor, nn
from beamline.train import DataLoader, Learner, Progress, Steps
from tensors import TensorCase


class LoaderTest(TensorCase):
    def test_every_sample_once(self):
        x = Tensor.arange(10)
        for shuffle in (True, False):
            loader = DataLoader(x, x * 2, batch_size=4, shuffle=shuffle)
            batches = [(a.tolist(), b.tolist()) for a, b in loader]
            self.assertEqual([len(a) for a, _ in batches], [4, 4, 2])
            self.assertEqual(sorted(sum((a for a, _ in batches), [])), list(range(10)))
            self.assertTrue(all([2 * i for i in a] == b for a, b in batches))
        self.assertEqual((len(loader), len(DataLoader(x, batch_size=4, drop_last=True))), (3, 2))

    def test_samples_of_a_sequence(self):
        loader = DataLoader([([i, i + 1], i % 2) for i in range(5)], batch_size=2, transform=lambda x, y: (x.float(), y))
        batches = list(loader)
        self.assertEqual(sorted(row[0] for x, _ in batches for row in x.tolist()), [0, 1, 2, 3, 4])
        self.assertEqual(batches[0][0].dtype.name, "float32")

    def test_the_server_draws_every_sample_once_an_epoch(self):
        for count, size in ((10, 4), (12, 3), (7, 7)):
            loader = DataLoader(Tensor.arange(count), batch_size=size)
            step, drawn = Tensor([0]).long().realize(), Tensor.zeros(size).realize()

            def one():
                batch, = loader.draw(step.reshape(()))
                step.assign(step + 1)
                drawn.assign(batch.float() + drawn * 0)
                return batch[0]
            steps, seen = Steps(one), []
            for _ in range(3 * count):
                steps.run(1)
                steps.sync()
                seen += [int(each) for each in drawn.tolist()]
            epochs = [seen[i:i + count] for i in range(0, 3 * count * size, count)]
            self.assertTrue(all(sorted(each) == list(range(count)) for each in epochs), (count, size))
            self.assertGreater(len({tuple(each) for each in epochs}), len(epochs) // 2)

    def test_refusals(self):
        self.assertRaises(ValueError, DataLoader)
        self.assertRaises(ValueError, DataLoader, Tensor([1]), Tensor([1, 2]))
        self.assertRaises(ValueError, DataLoader, Tensor([1]), batch_size=0)


class LearnerTest(TensorCase):
    def data(self):
        x = Tensor.rand(64, 2).realize()
        return x, (x[:, 0] > x[:, 1]).int().realize()

    def test_on_the_server(self):
        x, y = self.data()
        net = nn.Linear(2, 2)
        start = net.weight.tolist()
        learner = Learner(net, DataLoader(x, y, batch_size=10), DataLoader(x, y, batch_size=10), metrics=["accuracy"],
                          optimizer=lambda parameters: nn.optim.Adam(parameters, lr=0.05))
        before = GlobalCounters.requests
        history = learner.fit(8, progress=False)
        self.assertLess(GlobalCounters.requests - before, 8 * 7 + 20)
        self.assertEqual(learner.done, -(-8 * 64 // 10))
        self.assertGreater(history[-1]["accuracy"], 0.85)
        self.assertLess(history[-1]["loss"], history[0]["loss"])
        self.assertNotEqual(net.weight.tolist(), start)
        self.assertEqual(learner.predict(x).shape, (64, 2))
        net.weight.assign(Tensor.zeros(2, 2))
        learner.optimizer.lr.assign(Tensor(0.0))
        learner.fit(1, progress=False)
        self.assertEqual(net.weight.tolist(), [[0, 0], [0, 0]])

    def test_constants_of_a_transform(self):
        x, y = self.data()
        loader = DataLoader(x, y, batch_size=16, transform=lambda x, y: ((x - Tensor([0.5, 0.5])) * Tensor([[2.0] * 2]), y))
        learner = Learner(nn.Linear(2, 2), loader)
        self.assertEqual(len(learner.fit(2, progress=False)), 2)

    def test_batches_of_this_process(self):
        x, y = self.data()
        samples = list(zip(x.tolist(), y.tolist()))
        learner = Learner(nn.Linear(2, 2), DataLoader(samples, batch_size=10), DataLoader(samples, batch_size=30),
                          metrics=["accuracy"],
                          optimizer=lambda parameters: nn.optim.Adam(parameters, lr=0.05))
        self.assertGreater(learner.fit(8, progress=False)[-1]["accuracy"], 0.8)

    def test_a_target_that_is_no_class(self):
        x, y = self.data()
        for asked in (False, True):
            net = nn.Linear(2, 2)
            start = net.weight.tolist()
            learner = Learner(net, DataLoader(x, y + 1, batch_size=64), check_indices=asked)
            if asked:
                with self.assertRaisesRegex(IndexError, "cross_entropy: target 2 at .* is out of range: x has 2 classes; it must be from 0 to 1, or ignore_index -1"):
                    learner.fit(1, progress=False)
            else:
                learner.fit(1, progress=False)
            self.assertEqual(net.weight.tolist() == start, asked)

    def test_the_bar(self):
        out = io.StringIO()
        bar = Progress("epoch 1/1", 4, True, out)
        bar.update(2, "loss 1")
        bar.update(4, "loss 0.5", True)
        self.assertRegex(out.getvalue(), r"^epoch 1/1 \[#{24}\] 4/4  loss 0.5  [\d.]+ s\n$")


if __name__ == "__main__":
    unittest.main()
