# SPDX-License-Identifier: MIT
"""Random ops: their distributions, and identical bits for a seed on every device and at any time.

The seeds are fixed, so the results are deterministic; each bound is about five standard errors.
"""

import itertools
import math
import unittest

import numpy as np
import torch

from service import DEVICES, FLOATS, DeviceTest, ServiceTest, encode, on_each_device

COUNT = 50000
ERRORS = 5.0  # allowed standard errors of a moment
EXACT_OPS = {  # integers, or multiples of integers: identical bits on every device
    "uniform": {"shape": [1000]}, "randint": {"shape": [1000], "low": -7, "high": 12345678901}, "randperm": {"n": 1000},
    "kaiming_uniform": {"shape": [30, 33]}, "glorot_uniform": {"shape": [30, 33]}, "scaled_uniform": {"shape": [30, 33]},
}


def normal_cdf(x):
    return torch.special.ndtr(torch.as_tensor(x)).numpy()


def kolmogorov(values, cdf):
    """The largest distance between the sample's and the true distribution function, in units of 1 / sqrt(n)."""
    x = np.sort(np.asarray(values, np.float64))
    n = len(x)
    p = cdf(x)
    return max((np.arange(1, n + 1) / n - p).max(), (p - np.arange(n) / n).max()) * math.sqrt(n)


def numbers(tensor):
    return tensor.double().numpy().ravel()


@on_each_device
class Distributions(DeviceTest):
    def draw(self, op, attrs, seed=0, tensors=None):
        node = {"id": "y", "op": op, "in": list(tensors or {}), "attrs": attrs}
        return self.run_graph([node], ["y"], tensors, seed=seed)["y"]

    def moments(self, values, mean, variance, fourth):
        """Checks mean and variance; |fourth| is the fourth central moment."""
        n = len(values)
        self.assertLess(abs(values.mean() - mean), ERRORS * math.sqrt(variance / n))
        self.assertLess(abs(values.var() - variance), ERRORS * math.sqrt((fourth - variance ** 2) / n))
        correlation = np.corrcoef(values[:-1], values[1:])[0, 1]
        self.assertLess(abs(correlation), ERRORS / math.sqrt(n))

    def within(self, values, low, high):
        width = high - low
        self.assertGreaterEqual(values.min(), low)
        self.assertLessEqual(values.max(), high)
        self.moments(values, (low + high) / 2, width ** 2 / 12, width ** 4 / 80)
        self.assertLess(kolmogorov(values, lambda x: (x - low) / width), 2.0)  # of 2,000 samples one exceeds 1.95

    def test_uniform(self):
        for attrs, low, high in (({}, 0, 1), ({"low": -3, "high": 5}, -3, 5)):
            values = self.draw("uniform", {"shape": [COUNT], **attrs})
            self.assertEqual(torch.float32, values.dtype)
            self.within(numbers(values), low, high)
            self.assertLess(values.max().item(), high)

    def test_uniform_in_other_dtypes(self):
        for dtype in FLOATS:
            values = self.draw("uniform", {"shape": [COUNT], "dtype": dtype})
            self.assertEqual(f"torch.{dtype}", str(values.dtype))
            values = numbers(values)
            self.assertTrue((values >= 0).all() and (values < 1).all(), dtype)
            self.assertLess(abs(values.mean() - 0.5), ERRORS * math.sqrt(1 / 12 / COUNT) + 0.002, dtype)

    def test_normal(self):
        values = numbers(self.draw("normal", {"shape": [COUNT]}))
        self.moments(values, 0, 1, 3)
        self.assertLess(abs((values ** 4).mean() - 3), ERRORS * math.sqrt(96 / COUNT))
        self.assertLess(kolmogorov(values, normal_cdf), 2.0)
        values = numbers(self.draw("normal", {"shape": [COUNT], "mean": 5, "std": 2}))
        self.moments(values, 5, 4, 48)

    def test_randint(self):
        values = self.draw("randint", {"shape": [COUNT], "low": -3, "high": 7})
        self.assertEqual(torch.int64, values.dtype)
        counts = torch.bincount(values + 3, minlength=10).double()
        self.assertEqual(10, len(counts))
        self.assertLess((((counts - COUNT / 10) ** 2) / (COUNT / 10)).sum().item(), 33.7)  # of 10,000 samples one exceeds this
        wide = self.draw("randint", {"shape": [1000], "low": -(2**63), "high": 2**63 - 1})
        self.assertLess(abs((wide > 0).double().mean().item() - 0.5), ERRORS * 0.5 / math.sqrt(1000))
        self.assertEqual(torch.uint8, self.draw("randint", {"shape": [10], "high": 256, "dtype": "uint8"}).dtype)

    def test_randperm(self):
        for n in (0, 1, 2, 3, 17, 1000, 20000):
            values = self.draw("randperm", {"n": n})
            self.assertEqual(list(range(n)), sorted(values.tolist()), n)
        order = numbers(values)
        self.assertLess(abs(np.corrcoef(order[:-1], order[1:])[0, 1]), ERRORS / math.sqrt(len(order)))
        self.assertLess((order == np.arange(len(order))).sum(), 10)  # on average one element keeps its place

    def test_every_order_of_randperm_comes_as_often(self):
        tries = 2400
        document = {"device": self.device, "inputs": {}, "nodes": [
            {"id": "p", "op": "randperm", "attrs": {"n": 4}}, {"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["p"]}
        self.service.put_program("orders", document, {"n": torch.tensor(0.0)})
        orders = self.service.step("orders", {}, steps=tries, collect={"every": 1, "outputs": ["p"]})["collected[p]"]
        seen = {}
        for order in map(tuple, orders.tolist()):
            seen[order] = seen.get(order, 0) + 1
        self.assertEqual(set(itertools.permutations(range(4))), set(seen))
        expected = tries / 24
        self.assertLess(sum((n - expected) ** 2 / expected for n in seen.values()), 58.6)  # 23 degrees of freedom; one in 17,000 exceeds this

    def test_batches(self):
        n, batch, epochs = 1000, 64, 4
        steps = n // batch
        for shuffle in (True, False):
            document = {"device": self.device, "inputs": {"x": {"dtype": "float32", "shape": [n, 3]}}, "seed": 5, "nodes": [
                {"id": "i", "op": "batch_index", "attrs": {"n": n, "batch": batch, "shuffle": shuffle}}, {"id": "b", "op": "take", "in": ["x", "i"]},
                {"id": "t", "op": "step", "attrs": {"dtype": "int32"}}, {"id": "m", "op": "add", "in": ["k", 1]}], "updates": {"k": "m"}, "outputs": ["i", "b", "t"]}
            x = torch.arange(3 * n).reshape(n, 3).float()
            self.service.put_program("batches", document, {"k": torch.tensor(0.0)})
            got = self.service.step("batches", {"x": x}, steps=epochs * steps, collect={"every": 1, "outputs": ["i", "b", "t"]})
            index = got["collected[i]"]
            self.assertEqual(list(range(epochs * steps)), got["collected[t]"].tolist())
            self.assertTrue(torch.equal(x[index], got["collected[b]"]))
            whole = index.reshape(epochs, steps * batch)
            for epoch in whole:
                self.assertEqual(steps * batch, len(set(epoch.tolist())))
                self.assertTrue(0 <= epoch.min() and epoch.max() < n)
            if not shuffle:
                self.assertTrue(torch.equal(whole, torch.arange(steps * batch).expand(epochs, -1)))
                continue
            self.assertTrue(all((whole[a] == whole[b]).sum() < 12 for a in range(epochs) for b in range(a)))  # on average one element is equal
            left = [set(range(n)) - set(epoch.tolist()) for epoch in whole]
            self.assertEqual(epochs, len({frozenset(rest) for rest in left}))  # each epoch omits other elements
            order = numbers(whole[0])
            self.assertLess(abs(np.corrcoef(order[:-1], order[1:])[0, 1]), ERRORS / math.sqrt(len(order)))

    def test_rand_like_and_dropout(self):
        x = torch.ones(COUNT)
        self.within(numbers(self.draw("rand_like", {}, tensors={"x": x})), 0, 1)
        normal = numbers(self.draw("randn_like", {}, tensors={"x": x}))
        self.assertLess(abs(normal.mean()), ERRORS / math.sqrt(COUNT))
        self.assertLess(abs(normal.var() - 1), ERRORS * math.sqrt(2 / COUNT))
        for p in (0.3, 0.0, 1.0):
            nodes = [{"id": "y", "op": "dropout", "in": ["x"], "attrs": {"p": p}}, {"id": ["g"], "op": "grad", "in": ["y", "x", "x"], "attrs": {"cotangent": True}}]
            got = self.run_graph(nodes, ["y", "g"], {"x": x})
            dropped = (got["y"] == 0).double().mean().item()
            self.assertLess(abs(dropped - p), ERRORS * math.sqrt(p * (1 - p) / COUNT) + 1e-9)
            self.assertEqual(encode(got["y"]), encode(got["g"]))  # linear, on the same mask
            if p < 1:
                self.close("kept", got["y"].max(), torch.tensor(1 / (1 - p)))

    def test_bernoulli(self):
        p = torch.tensor([0.0, 0.1, 0.5, 1.0]).repeat(COUNT // 4, 1)
        values = self.draw("bernoulli", {}, tensors={"p": p})
        self.assertEqual({0.0, 1.0}, set(values.unique().tolist()))
        for mean, wanted in zip(values.double().mean(0).tolist(), p[0].tolist()):
            self.assertLessEqual(abs(mean - wanted), ERRORS * math.sqrt(wanted * (1 - wanted) / (COUNT // 4)))

    def test_multinomial(self):
        weights = torch.tensor([[1.0, 0, 3, 6], [5, 5, 0, 0]])
        values = self.draw("multinomial", {"num_samples": COUNT, "replacement": True}, tensors={"w": weights})
        self.assertEqual(([2, COUNT], torch.int64), (list(values.shape), values.dtype))
        for row, weight in zip(values, (weights / weights.sum(1, keepdim=True)).double()):
            share = torch.bincount(row, minlength=4).double() / COUNT
            for got, wanted in zip(share.tolist(), weight.tolist()):
                self.assertLessEqual(abs(got - wanted), ERRORS * math.sqrt(wanted * (1 - wanted) / COUNT))
        # Without replacement each index occurs once; the first is drawn by weight, the second by weight among the rest.
        rows = torch.tensor([1.0, 2, 3, 4]).repeat(COUNT // 4, 1)
        values = self.draw("multinomial", {"num_samples": 2}, tensors={"w": rows})
        self.assertFalse((values[:, 0] == values[:, 1]).any())
        wanted = [sum(w / 10 * v / (10 - w) for w in (1, 2, 3, 4) if w != v) for v in (1, 2, 3, 4)]
        for column, shares in ((0, (0.1, 0.2, 0.3, 0.4)), (1, wanted)):
            share = (torch.bincount(values[:, column], minlength=4).double() / len(values)).tolist()
            for got, true in zip(share, shares):
                self.assertLessEqual(abs(got - true), ERRORS * math.sqrt(true * (1 - true) / len(values)))

    def test_bits(self):
        words = self.draw("random_bits", {"shape": [COUNT]})
        self.assertEqual("uint32", str(words.dtype))
        for bit in range(32):
            self.assertLess(abs((words >> np.uint32(bit) & np.uint32(1)).mean() - 0.5), ERRORS * 0.5 / math.sqrt(COUNT), bit)
        # Random123's known answers for threefry2x32 with 20 rounds: zeros, and all bits set
        ends = np.array([0, 2**64 - 1], "uint64")
        self.assertEqual([0x99ba4efe6b200159, 0xbb002be71cb996fc], self.draw("threefry", {}, tensors={"x": ends, "key": ends}).tolist())

    def test_initialisers(self):
        shape, fan_in, fan_out = [64, 32, 3, 3], 32 * 9, 64 * 9
        for op, attrs, bound in (("kaiming_uniform", {}, math.sqrt(6 / fan_in)), ("kaiming_uniform", {"mode": "fan_out", "a": 2}, math.sqrt(6 / 5 / fan_out)),
                                 ("glorot_uniform", {}, math.sqrt(6 / (fan_in + fan_out))), ("scaled_uniform", {}, 1 / math.sqrt(fan_in)),
                                 ("scaled_uniform", {"fan_in": 9}, 1 / 3)):
            with self.subTest(op=op, attrs=attrs):
                values = numbers(self.draw(op, {"shape": shape, **attrs}))
                self.within(values, -bound * 1.0001, bound * 1.0001)
        deviation = math.sqrt(2 / fan_in)
        values = numbers(self.draw("kaiming_normal", {"shape": shape}))
        self.moments(values, 0, deviation ** 2, 3 * deviation ** 4)
        self.assertLess(kolmogorov(values / deviation, normal_cdf), 2.0)

    def test_seeds(self):
        draw = lambda attrs, seed: self.draw("uniform", {"shape": [33], **attrs}, seed).tolist()  # noqa: E731
        self.assertEqual(draw({}, 1), draw({}, 1))
        self.assertNotEqual(draw({}, 1), draw({}, 2))
        self.assertNotEqual(draw({"seed": 1}, 1), draw({"seed": 2}, 1))
        nodes = [{"id": name, "op": "uniform", "attrs": {"shape": [33]}} for name in "ab"]
        got = self.run_graph(nodes, ["a", "b"])
        self.assertNotEqual(got["a"].tolist(), got["b"].tolist())  # each node of the graph draws its own numbers

    def test_a_key_fixes_the_draw(self):
        nodes = [{"id": "y", "op": "uniform", "in": ["k"], "attrs": {"shape": [33]}}]
        one, again, other = (self.run_graph(nodes, ["y"], {"k": torch.tensor(key)})["y"].tolist() for key in (7, 7, 8))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_a_program_draws_anew_each_step_and_goes_on_from_its_state(self):
        document = {"device": self.device, "inputs": {},
                    "nodes": [{"id": "y", "op": "uniform", "attrs": {"shape": [8]}}, {"id": "m", "op": "add", "in": ["n", 1]}],
                    "updates": {"n": "m"}, "outputs": ["y"]}
        self.service.put_program("dice", document, {"n": torch.tensor(0.0)})
        held = self.service.state("dice")
        first = [self.service.step("dice", {})["y"].tolist() for _ in range(3)]
        self.assertEqual(3, len({str(values) for values in first}))
        self.service.put_program("dice", document, {"n": torch.tensor(0.0)})
        self.assertEqual(sorted(held), sorted(self.service.state("dice")))
        self.assertEqual(first, [self.service.step("dice", {})["y"].tolist() for _ in range(3)])


class Devices(ServiceTest):
    def test_the_same_bits_on_every_device(self):
        nodes = [{"id": f"{op}.{seed}", "op": op, "attrs": {**attrs, "seed": seed}} for op, attrs in EXACT_OPS.items() for seed in (0, 1, 77)]
        nodes += [{"id": f"{op}.run", "op": op, "attrs": attrs} for op, attrs in EXACT_OPS.items()]
        present = [device for device in DEVICES if device in self.service.devices]
        if len(present) < 2:
            self.skipTest("this machine has one device only: nothing to compare")
        reference = self.service.run(nodes, [node["id"] for node in nodes], device=present[0], seed=123)
        for device in present[1:]:
            got = self.service.run(nodes, [node["id"] for node in nodes], device=device, seed=123)
            for name, want in reference.items():
                with self.subTest(device=device, op=name):
                    self.assertEqual(encode(want), encode(got[name]))

    def test_normal_is_near_on_every_device(self):
        nodes = [{"id": "y", "op": "normal", "attrs": {"shape": [1000], "seed": 4}}]
        got = {device: self.service.run(nodes, ["y"], device=device)["y"] for device in DEVICES if device in self.service.devices}
        for device, values in got.items():
            with self.subTest(device=device):
                self.close(device, values, got["interp:0"], 1e-4, 1e-5)


if __name__ == "__main__":
    unittest.main()
