# SPDX-License-Identifier: MIT
"""Layers, optimisers and parameter files, compared with PyTorch."""
import enum
import io
import math
import os
import pathlib
import pickle
import tarfile
import tempfile
import unittest
import zipfile
from unittest import mock

from beamline import Tensor, dtypes, nn
from beamline.nn.state import (StateDictError, TensorIO, get_parameters, get_state_dict, load_state_dict, safe_load, safe_save, tar_extract,
                               torch_load, zip_extract)
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
        """Compares a layer with PyTorch's for the same parameters: the results, and the gradients of the first input and of the
        parameters."""
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

    def test_lstm_gradients(self):
        """Gradients through six steps; a small product must not be recomputed inside another product."""
        mine, other = nn.LSTMCell(5, 6), torch.nn.LSTMCell(5, 6)
        load_state_dict(mine, {name: Tensor(value.numpy()) for name, value in other.state_dict().items()})
        weights = get_parameters(mine)
        for weight in weights:
            weight.requires_grad = True
        state, theirs = None, None
        for step in range(6):
            x = some(3, 5, seed=step)
            state, theirs = mine(Tensor(x), state), other(torch.tensor(x), theirs)
        (state[0] ** 2).sum().backward()
        (theirs[0] ** 2).sum().backward()
        Tensor.realize(*[weight.grad for weight in weights])
        for name, weight in get_state_dict(mine).items():
            numpy.testing.assert_allclose(weight.grad.numpy(), getattr(other, name).grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


class OptimiserTest(TensorCase):
    def test_buffers_of_integers(self):
        """The parameters of a BatchNorm include the number of batches, and optimisers do not change it."""
        net = nn.BatchNorm(3)
        opt = nn.optim.SGD(nn.state.get_parameters(net), lr=0.5)
        with Tensor.train():
            net(Tensor.arange(12).float().reshape(4, 3)).square().sum().backward()
            opt.step()
        self.assertEqual((net.num_batches_tracked.item(), len(opt.params), len(opt.buffers)), (1, 2, 3))
        self.assertRaises(ValueError, nn.optim.SGD, [Tensor([1, 2])])

    def steps(self, mine, other, count=4):
        """Runs several steps of both optimisers on a function of one weight."""
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

    def test_a_rate_that_is_scheduled(self):
        """The learning rate has shape (1,), and schedulers of tinygrad can read and assign it."""
        w, epoch = Tensor([[1.0, 2]], requires_grad=True), Tensor([0.0])
        for make in (nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW, nn.optim.LAMB, nn.optim.LARS, nn.optim.Muon):
            opt = make([w, Tensor(2.0, requires_grad=True)], lr=0.1)
            self.assertEqual((opt.lr.shape, round(opt.lr.numpy()[0].item(), 6)), ((1,), 0.1))
            opt.lr.assign(0.05 * (1 + ((epoch + 1) / 4 * math.pi).cos()))
            self.assertAlmostEqual(opt.lr.tolist()[0], 0.05 * (1 + math.cos(math.pi / 4)), 6)
        with Tensor.train():
            for shape in ((), (1,)):
                p = Tensor(4.0).reshape(shape).realize()
                opt = nn.optim.Adam([p], lr=0.5)
                (p * p).sum().backward()
                opt.step()
                self.assertEqual((p.shape, round(p.item(), 4)), (shape, 3.5))

    def test_arguments_are_checked(self):
        w = Tensor([1.0])
        for make, error in ((lambda: nn.optim.SGD([w], lr=-1), "learning rate: -1"), (lambda: nn.optim.SGD([], lr=1), "at least one param"),
                            (lambda: nn.optim.Adam([w], b1=1.0), "b1.*: 1.0"), (lambda: nn.optim.AdamW([w], b2=-0.1), "b2.*: -0.1"),
                            (lambda: nn.optim.Adam([w], eps=-1e-8), "epsilon"), (lambda: nn.optim.AdamW([w], weight_decay=-1), "weight_decay"),
                            (lambda: nn.optim.SGD([w], momentum=-0.5), "momentum"), (lambda: nn.optim.SGD([w], nesterov=True), "Nesterov"),
                            (lambda: nn.optim.SGD([w], lr=float("nan")), "learning rate: nan"), (lambda: nn.optim.SGD([Tensor([1])]), "of floats")):
            self.assertRaisesRegex(ValueError, error, make)
        self.assertRaisesRegex(TypeError, "a list of Tensors, but got Tensor", nn.optim.SGD, w)
        self.assertRaisesRegex(TypeError, "one of the params is list", nn.optim.SGD, [[w]])
        self.assertEqual(len(nn.optim.SGD((each for each in (w, w, Tensor([2.0])))).params), 2)
        self.assertAlmostEqual(nn.optim.Muon([w]).lr.item(), 0.001)

    def test_needs_training(self):
        opt = nn.optim.SGD([Tensor([1.0])])
        self.assertRaises(RuntimeError, opt.step)


FILES = {"one.txt": b"first", "b/two": bytes(range(256)), "empty": b""}


class Kind(enum.Enum):
    WIDE = 1


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

    def test_everything_that_does_not_fit_is_said_at_once(self):
        one, two = Net(), Net()
        state = get_state_dict(one)
        before = two.layers[1].weight.tolist()
        state["norm.biass"] = state.pop("norm.bias")
        del state["layers.0.weight"]
        state["layers.0.bias"], state["extra"] = Tensor.ones(7), Tensor.ones(1)
        with self.assertRaises(StateDictError) as caught:
            load_state_dict(two, state)
        self.assertEqual(str(caught.exception), """state_dict does not fit Net, and nothing of it was loaded:
  2 missing in state_dict: layers.0.weight, norm.bias
  2 unexpected in state_dict: norm.biass, extra
  Shape mismatch in layers.0.bias: (3,) in the model, (7,) in state_dict
  is norm.biass meant to be norm.bias?""")
        for kind in (KeyError, ValueError, RuntimeError):
            self.assertRaises(kind, load_state_dict, two, state)
        self.assertRaises(ValueError, load_state_dict, two, state, False)
        self.assertEqual(two.layers[1].weight.tolist(), before)
        state["layers.0.bias"] = one.layers[0].bias
        self.assertEqual(len(load_state_dict(two, state, strict=False, verbose=False)), 7)
        self.assertEqual(two.layers[1].weight.tolist(), one.layers[1].weight.tolist())

    def test_what_models_have_besides(self):
        model = Net()
        model.kind, model.itself, model.pair = Kind.WIDE, model, {"again": [model]}
        model.function, model.type, model.module = some, Net, unittest
        self.assertEqual(list(get_state_dict(model)), list(get_state_dict(Net())))

    def test_archives(self):
        with tempfile.TemporaryDirectory() as folder:
            tar, packed, archive = (pathlib.Path(folder, name) for name in ("a.tar", "a.tar.gz", "a.zip"))
            for path, mode in ((tar, "w"), (packed, "w:gz")):
                with tarfile.open(path, mode) as file:
                    for name, data in FILES.items():
                        entry = tarfile.TarInfo(name)
                        entry.size = len(data)
                        file.addfile(entry, io.BytesIO(data))
            with zipfile.ZipFile(archive, "w") as file:
                for name, data in FILES.items():
                    file.writestr(name, data)
            for extract, path in ((tar_extract, tar), (tar_extract, packed), (zip_extract, archive)):
                for source in (path, Tensor(path)):
                    found = extract(source)
                    self.assertEqual({name: bytes(each.data()) for name, each in found.items()}, FILES)
                    self.assertEqual(found["b/two"].dtype, dtypes.uint8)
        with TensorIO(Tensor(b"0123456789")) as file:
            self.assertEqual((file.read(3), file.tell(), file.seek(-2, 2), file.read(), file.seek(1), file.seek(1, 1), file.read(1)),
                             (b"012", 3, 8, b"89", 1, 2, b"2"))
        self.assertRaises(ValueError, TensorIO, Tensor([1.0]))

    def test_cifar(self):
        with tempfile.TemporaryDirectory() as folder:
            environ = {"BEAMLINE_DATA": folder, "XDG_CACHE_HOME": folder}
            with mock.patch.dict(os.environ, environ):
                self.assertRaisesRegex(FileNotFoundError, "cifar-10-binary.tar.gz into a folder", nn.datasets.cifar)
                record = 1 + 3 * 32 * 32
                files = {f"cifar-10-batches-bin/{file}": bytes([number]) + bytes(range(256)) * 12
                         for number, file in enumerate([f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"])}
                pathlib.Path(folder, "cifar-10").mkdir()
                with tarfile.open(pathlib.Path(folder, "cifar-10", "cifar-10-binary.tar.gz"), "w:gz") as file:
                    for name, data in files.items():
                        self.assertEqual(len(data), record)
                        entry = tarfile.TarInfo(name)
                        entry.size = len(data)
                        file.addfile(entry, io.BytesIO(data))
                x, y, x_test, y_test = nn.datasets.cifar()
        self.assertEqual((x.shape, y.tolist(), x_test.shape, y_test.tolist()), ((5, 3, 32, 32), [0, 1, 2, 3, 4], (1, 3, 32, 32), [5]))
        self.assertEqual(x[2, 0, 1].tolist(), list(range(32, 64)))

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
