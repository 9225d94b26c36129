# SPDX-License-Identifier: MIT
"""Layers, optimisers and files of parameters, beside PyTorch."""
import pathlib
import pickle
import tempfile
import unittest

from beamline import Tensor, dtypes, nn
from beamline.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save, torch_load
from tensors import TensorCase

try:
    import numpy
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None


def some(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).normal(size=shape).astype("float32")


class LayerTest(TensorCase):
    def beside(self, mine, other, *inputs, names=None, tolerance=2e-5):
        """The same parameters in both; the results and the gradients of the first input and of the parameters are compared."""
        names = names or {name: name for name in get_state_dict(mine)}
        state = other.state_dict()
        load_state_dict(mine, {name: Tensor(state[names[name]].numpy()) for name in get_state_dict(mine) if names.get(name)},
                        strict=False,
                        verbose=False)
        xs = [Tensor(each, requires_grad=each.dtype == numpy.float32) for each in inputs]
        ts = [torch.tensor(each, requires_grad=each.dtype == numpy.float32) for each in inputs]
        y, expected = mine(*xs), other(*ts)
        self.need(y)
        (y * y).sum().backward()
        (expected * expected).sum().backward()
        numpy.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
        if ts[0].grad is not None:
            numpy.testing.assert_allclose(xs[0].grad.numpy(), ts[0].grad.numpy(), rtol=1e-3, atol=1e-4)

    def test_layers(self):
        cases = {
            "Linear": (nn.Linear(4, 3), torch.nn.Linear(4, 3), some(2, 4)),
            "Conv1d": (nn.Conv1d(3, 4, 3, padding=1), torch.nn.Conv1d(3, 4, 3, padding=1), some(2, 3, 8)),
            "Conv2d": (nn.Conv2d(4, 6, (3, 2), 2, 1, groups=2), torch.nn.Conv2d(4, 6, (3, 2), 2, 1, groups=2), some(2, 4, 6, 6)),
            "Conv2d same": (nn.Conv2d(2, 3, (4, 3), padding="same"), torch.nn.Conv2d(2, 3, (4, 3), padding="same"),
                            some(1, 2, 6, 6)),
            "ConvTranspose1d": (nn.ConvTranspose1d(3, 4, 3, 2), torch.nn.ConvTranspose1d(3, 4, 3, 2), some(2, 3, 5)),
            "ConvTranspose2d": (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), torch.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1),
                                some(1, 3, 4, 4)),
            "LayerNorm": (nn.LayerNorm((3, 4)), torch.nn.LayerNorm((3, 4)), some(2, 3, 4)),
            "GroupNorm": (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4), some(2, 4, 3, 3)),
            "InstanceNorm": (nn.InstanceNorm(3), torch.nn.InstanceNorm2d(3, affine=True), some(2, 3, 4, 4)),
            "Embedding": (nn.Embedding(10, 4), torch.nn.Embedding(10, 4), numpy.array([[1, 9], [0, 1]], "int32")),
        }
        for name, (mine, other, x) in cases.items():
            with self.subTest(name):
                self.beside(mine, other, x)

    def test_batch_norm(self):
        mine, other = nn.BatchNorm(3), torch.nn.BatchNorm2d(3)
        x = some(4, 3, 5, 5)
        with Tensor.train():
            self.beside(mine, other, x)
            self.beside(mine, other, 2 * x + 1)
        numpy.testing.assert_allclose(mine.running_mean.numpy(), other.running_mean.numpy(), rtol=1e-4, atol=1e-6)
        numpy.testing.assert_allclose(mine.running_var.numpy(), other.running_var.numpy(), rtol=1e-4)
        self.assertEqual(mine.num_batches_tracked.item(), 2)
        other.eval()
        self.beside(mine, other, x)

    def test_other_norms(self):
        x = some(2, 3, 4, 5)
        y = nn.LayerNorm2d(3)(Tensor(x)).numpy()
        numpy.testing.assert_allclose(y, torch.nn.functional.layer_norm(torch.tensor(x).permute(0, 2, 3, 1),
                                                                        (3,)).permute(0, 3, 1, 2), atol=2e-5)
        y = nn.RMSNorm(5)(Tensor(x)).numpy()
        numpy.testing.assert_allclose(y, x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), rtol=1e-5)

    def test_lstm_cell(self):
        mine, other = nn.LSTMCell(4, 3), torch.nn.LSTMCell(4, 3)
        load_state_dict(mine, {name: Tensor(value.numpy()) for name, value in other.state_dict().items()})
        x, h, c = some(2, 4), some(2, 3), some(2, 3, seed=1)
        for state in (None, (h, c)):
            got = mine(Tensor(x), state and (Tensor(h), Tensor(c)))
            expected = other(torch.tensor(x), state and (torch.tensor(h), torch.tensor(c)))
            for a, b in zip(got, expected):
                numpy.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


class OptimiserTest(TensorCase):
    def steps(self, mine, other, count=4):
        """Some steps of both on one function of one weight."""
        start, x = some(3, 4), some(5, 3)
        w, t = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
        ours, theirs = mine([w]), other([t])
        with Tensor.train():
            for _ in range(count):
                ours.zero_grad(), theirs.zero_grad()
                ((Tensor(x) @ w) ** 2).sum().backward()
                ((torch.tensor(x) @ t) ** 2).sum().backward()
                ours.step(), theirs.step()
        numpy.testing.assert_allclose(w.numpy(), t.detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_beside_torch(self):
        for name, mine, other in (
                ("sgd", lambda p: nn.optim.SGD(p, lr=0.01), lambda p: torch.optim.SGD(p, lr=0.01)),
                ("momentum", lambda p: nn.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1),
                 lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1)),
                ("nesterov", lambda p: nn.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
                 lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True)),
                ("adam", lambda p: nn.optim.Adam(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.1)),
                ("adamw", lambda p: nn.optim.AdamW(p, lr=0.1, weight_decay=0.3),
                 lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.3))):
            with self.subTest(name):
                self.steps(mine, other)

    def test_others_make_it_smaller(self):
        for make in (nn.optim.LARS, nn.optim.LAMB, nn.optim.Muon):
            w = Tensor(some(4, 4), requires_grad=True)
            group = nn.optim.OptimizerGroup(make([w], lr=0.05))
            first = (w * w).sum().item()
            with Tensor.train():
                for _ in range(10):
                    group.zero_grad()
                    (w * w).sum().backward()
                    group.step()
            self.assertLess((w * w).sum().item(), first)

    def test_needs_training(self):
        opt = nn.optim.SGD([Tensor([1.0])])
        self.assertRaises(RuntimeError, opt.step)


class Net:
    def __init__(self):
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 2)]
        self.norm = nn.BatchNorm(2)
        self.sizes = (1, 2)


class StateTest(TensorCase):
    def test_names(self):
        self.assertEqual(sorted(get_state_dict(Net())), ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight",
                                                         "norm.bias",
                                                         "norm.num_batches_tracked", "norm.running_mean", "norm.running_var",
                                                         "norm.weight"])
        self.assertEqual(len(get_parameters(Net())), 9)

    def test_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "net.safetensors")
            one, two = Net(), Net()
            safe_save(get_state_dict(one), path, {"from": "a test"})
            loaded = safe_load(path)
            self.assertEqual(loaded["norm.num_batches_tracked"].dtype, dtypes.int64)
            load_state_dict(two, loaded)
            self.assertEqual(one.layers[0].weight.tolist(), two.layers[0].weight.tolist())
            self.assertEqual(set(safe_load(Tensor(path))), set(loaded))
        del loaded["norm.bias"]
        self.assertRaises(KeyError, load_state_dict, two, loaded)
        self.assertRaises(ValueError, load_state_dict, two, {"norm.bias": Tensor([1.0])}, False, False)

    def test_torch_files(self):
        value = {"w": torch.tensor(some(2, 3)), "t": torch.tensor(some(2, 3)).T, "part": torch.arange(10)[3:7],
                 "h": torch.tensor([1.5]).half(),
                 "b": torch.tensor([1.5]).bfloat16(), "nested": [torch.nn.Parameter(torch.tensor([[True]]).float()), "text", 3]}
        with tempfile.TemporaryDirectory() as folder:
            for legacy in (False, True):
                path = pathlib.Path(folder, "net.pt")
                torch.save(value, path, _use_new_zipfile_serialization=not legacy)
                found = torch_load(path)
                for name in ("w", "t", "part", "h", "b"):
                    self.assertEqual(found[name].tolist(), value[name].tolist(), name)
                self.assertEqual((found["nested"][0].tolist(), found["nested"][1:]), ([[1]], ["text", 3]))

    def test_t18_a_pickle_runs_nothing(self):
        class Evil:
            def __reduce__(self):
                return (open, (str(mark), "w"))
        with tempfile.TemporaryDirectory() as folder:
            mark, path = pathlib.Path(folder, "mark"), pathlib.Path(folder, "evil.pt")
            torch.save({"x": Evil(), "w": torch.ones(2)}, path)
            self.assertEqual(torch_load(path)["w"].tolist(), [1, 1])
            self.assertFalse(mark.exists())
            self.assertIsNotNone(pickle.dumps(1))


if __name__ == "__main__":
    unittest.main()
