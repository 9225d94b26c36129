# SPDX-License-Identifier: MIT
"""Operators without cases in the onnx package: com.microsoft's and some others, against NumPy."""
import math
import unittest

import hosting
import numpy as np
from onnx import helper
from test_import import constant, model, node, numbers, tensor

import served

MS = "com.microsoft"
erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, gamma, beta, eps=1e-12):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * gamma + beta


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(x, w, b, heads, mask=None, causal=False, past=None):
    """Returns (result, present) by the definition of com.microsoft's operator."""
    q, k, v = (split(part, heads) for part in np.split(x @ w + b, 3, axis=-1))
    if past is not None:
        k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + np.where(mask, 0, -10000.0)[:, None, None, :]
    if causal:
        length, keys = scores.shape[-2:]
        scores = np.where(np.arange(keys) <= np.arange(length)[:, None] + keys - length, scores, -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape), np.stack([k, v])


def rotate(x, cos, sin, at):
    """Rotates x [batch, length, heads * size] by halves."""
    heads = x.shape[-1] // (2 * cos.shape[-1])
    y = x.reshape(*x.shape[:2], heads, -1)
    a, b = np.split(y, 2, axis=-1)
    c, s = cos[at][:, :, None, :], sin[at][:, :, None, :]
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)


def quantized(x, scale, zero, dtype=np.uint8):
    return np.clip(np.rint(x / scale) + zero, *(np.iinfo(dtype).min, np.iinfo(dtype).max)).astype(dtype)


X, W, B = numbers(2, 5, 8), numbers(8, 24) / 4, numbers(24) / 3
GAMMA, BETA = numbers(8) + 3, numbers(8)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
PAST = numbers(2, 2, 2, 3, 4) / 2
COS, SIN = np.cos(numbers(16, 2)), np.sin(numbers(16, 2))
AT = np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]])
A8, B8 = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10, (np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 7 + 3)
QA, QB = [np.float32(0.05), np.uint8(100)], [np.float32(0.1), np.uint8(60)]
REAL_A, REAL_B = (A8.astype(np.float32) - 100) * np.float32(0.05), (B8.astype(np.float32) - 60) * np.float32(0.1)
IDS, SEGMENTS = np.array([[1, 3, 0], [2, 2, 1]], np.int32), np.array([[0, 0, 1], [1, 0, 0]], np.int32)
WORDS, PLACES, KINDS = numbers(4, 8), numbers(5, 8) / 2, numbers(2, 8) / 3
EMBEDDED = WORDS[IDS] + PLACES[:3] + KINDS[SEGMENTS]

Q, K, V = numbers(2, 5, 8), np.cos(numbers(2, 5, 8)), np.sin(numbers(2, 5, 8))
PICTURE, ADDED = np.sin(7 * numbers(2, 3, 4, 8)), np.cos(5 * numbers(2, 3, 4, 8))
WEIGHT = np.sin(3 * numbers(8, 8))


def heads_attention(q, k, v, heads=2):
    """Attention of queries, keys and values [batch, length, heads * size]."""
    a, b, c = (split(part, heads) for part in (q, k, v))
    return (softmax(a @ b.transpose(0, 1, 3, 2) / math.sqrt(a.shape[-1])) @ c).transpose(0, 2, 1, 3).reshape(q.shape)


def packed(*parts, heads=2):
    """Returns [batch, length, heads, parts, size]."""
    return np.stack([part.reshape(*part.shape[:2], heads, -1) for part in parts], axis=3)


def group_norm(x, groups, gamma, beta, eps=1e-5):
    """Group normalisation of x [N, H, W, C]."""
    n, h, w, c = x.shape
    y = x.reshape(n, h * w, groups, c // groups)
    mean, var = y.mean((1, 3), keepdims=True), y.var((1, 3), keepdims=True)
    return ((y - mean) / np.sqrt(var + eps)).reshape(x.shape) * gamma + beta


def silu(x):
    return x / (1 + np.exp(-x))


# name -> (operator, domain, inputs, attributes, expected outputs)
CASES = {
    "BiasGelu": ("BiasGelu", MS, [X, GAMMA], {}, [gelu(X + GAMMA)]),
    "Gelu": ("Gelu", MS, [X], {}, [gelu(X)]),
    "FastGelu": ("FastGelu", MS, [X], {}, [tanh_gelu(X)]),
    "FastGelu with a bias": ("FastGelu", MS, [X, BETA], {}, [tanh_gelu(X + BETA)]),
    "QuickGelu": ("QuickGelu", MS, [X], {"alpha": 1.5}, [X / (1 + np.exp(-1.5 * X))]),
    "SkipLayerNormalization": ("SkipLayerNormalization", MS, [X, X[::-1].copy(), GAMMA, BETA, BETA], {},
                               [layer_norm(X + X[::-1] + BETA, GAMMA, BETA), None, None, X + X[::-1] + BETA]),
    "EmbedLayerNormalization": ("EmbedLayerNormalization", MS, [IDS, SEGMENTS, WORDS, PLACES, KINDS, GAMMA, BETA, MASK[:, :3]], {},
                                [layer_norm(EMBEDDED, GAMMA, BETA), MASK[:, :3].sum(1).astype(np.int32), EMBEDDED]),
    "Attention": ("Attention", MS, [X, W, B], {"num_heads": 2}, [attention(X, W, B, 2)[0]]),
    "Attention with a mask": ("Attention", MS, [X, W, B, MASK], {"num_heads": 2}, [attention(X, W, B, 2, MASK > 0)[0]]),
    "Attention with lengths": ("Attention", MS, [X, W, B, np.array([3, 5], np.int32)], {"num_heads": 2}, [attention(X, W, B, 2, MASK > 0)[0]]),
    "Attention with a past": ("Attention", MS, [X, W, B, None, PAST], {"num_heads": 2, "unidirectional": 1},
                              list(attention(X, W, B, 2, causal=True, past=PAST))),
    "MultiHeadAttention, all packed": ("MultiHeadAttention", MS, [packed(Q, K, V)], {"num_heads": 2}, [heads_attention(Q, K, V)]),
    "MultiHeadAttention, keys and values packed": ("MultiHeadAttention", MS, [Q, packed(K, V)], {"num_heads": 2}, [heads_attention(Q, K, V)]),
    "BiasAdd": ("BiasAdd", MS, [X, GAMMA, X], {}, [X + GAMMA + X]),
    "BiasDropout": ("BiasDropout", MS, [X, GAMMA, X], {}, [X + GAMMA + X, np.ones(X.shape, bool)]),
    "BiasSoftmax": ("BiasSoftmax", MS, [X, numbers(2, 1, 8)], {"axis": 2, "is_inner_broadcast": 0}, [softmax(X + numbers(2, 1, 8))]),
    "BiasSplitGelu": ("BiasSplitGelu", MS, [X, GAMMA], {}, [(X + GAMMA)[..., :4] * gelu((X + GAMMA)[..., 4:])]),
    "GemmFastGelu": ("GemmFastGelu", MS, [X, WEIGHT, GAMMA], {}, [tanh_gelu(X @ WEIGHT + GAMMA)]),
    "TransposeMatMul": ("TransposeMatMul", MS, [X, WEIGHT], {"transB": 1, "alpha": 0.5}, [X @ WEIGHT.T / 2]),
    "GroupNorm": ("GroupNorm", MS, [PICTURE, GAMMA, BETA], {"groups": 4, "activation": 0}, [group_norm(PICTURE, 4, GAMMA, BETA)]),
    "GroupNorm, silu": ("GroupNorm", MS, [PICTURE, GAMMA, BETA], {"groups": 2, "activation": 1}, [silu(group_norm(PICTURE, 2, GAMMA, BETA))]),
    "GroupNorm, channels first": ("GroupNorm", MS, [PICTURE.transpose(0, 3, 1, 2).copy(), GAMMA, BETA], {"groups": 4, "activation": 0, "channels_last": 0},
                                  [group_norm(PICTURE, 4, GAMMA, BETA).transpose(0, 3, 1, 2)]),
    "SkipGroupNorm": ("SkipGroupNorm", MS, [PICTURE, GAMMA, BETA, ADDED, BETA], {"groups": 4, "activation": 0},
                      [group_norm(PICTURE + ADDED + BETA, 4, GAMMA, BETA), PICTURE + ADDED + BETA]),
    "SkipGroupNorm of rows": ("SkipGroupNorm", MS, [PICTURE, GAMMA, BETA, ADDED[:, 0, 0]], {"groups": 4, "activation": 1},
                              [silu(group_norm(PICTURE + ADDED[:, :1, :1], 4, GAMMA, BETA))]),
    "NhwcFusedConv": ("NhwcFusedConv", MS, [PICTURE, WEIGHT.reshape(8, 8, 1, 1), BETA, ADDED], {"activation": "Relu"},
                      [np.maximum(PICTURE @ WEIGHT.T + BETA + ADDED, 0)]),
    "RotaryEmbedding": ("RotaryEmbedding", MS, [X, AT, COS, SIN], {}, [rotate(X, COS, SIN, AT)]),
    "RotaryEmbedding from a place": ("RotaryEmbedding", MS, [X, np.array([3]), COS, SIN], {}, [rotate(X, COS, SIN, AT[[0, 0]])]),
    "QLinearAdd": ("QLinearAdd", MS, [A8, *QA, B8, *QB, np.float32(0.2), np.uint8(90)], {}, [quantized(REAL_A + REAL_B, np.float32(0.2), 90)]),
    "QLinearMul": ("QLinearMul", MS, [A8, *QA, B8, *QB, np.float32(0.4), np.uint8(90)], {}, [quantized(REAL_A * REAL_B, np.float32(0.4), 90)]),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", MS, [A8, *QA, np.float32(0.07), np.uint8(80)], {},
                                 [quantized(REAL_A.mean(2, keepdims=True), np.float32(0.07), 80)]),
    "QLinearGlobalAveragePool, channels last": ("QLinearGlobalAveragePool", MS, [A8, *QA, np.float32(0.07), np.uint8(80)], {"channels_last": 1},
                                                [quantized(REAL_A.mean(1, keepdims=True), np.float32(0.07), 80)]),
    "GlobalLpPool": ("GlobalLpPool", "", [X], {"p": 3}, [(np.abs(X)**3).sum(2, keepdims=True)**(1 / 3)]),
    "Upsample, linear": ("Upsample", "", [np.arange(4, dtype=np.float32).reshape(1, 1, 4), np.array([1, 1, 2], np.float32)], {"mode": "linear"},
                         [np.array([[[0, 0.5, 1, 1.5, 2, 2.5, 3, 3]]], np.float32)]),
}
OPSET = {"Upsample, linear": 9}
EXACT = {"Upsample, linear": (1,)}  # inputs that must be known at import


def build(operator, domain, inputs, attributes, outputs, opset, known):
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(inputs)]
    values = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if name}
    kept = [name for place, name in enumerate(names) if name and place not in known]
    results = [f"o{place}" if array is not None else "" for place, array in enumerate(outputs)]
    made = node(operator, names, results, domain=domain, **attributes)
    return model([made], [tensor(name, values[name].shape, helper.np_dtype_to_tensor_dtype(values[name].dtype)) for name in kept],
                 [tensor(name, None) for name in results if name], [constant(names[place], inputs[place], inputs[place].dtype) for place in known],
                 opset, domains=[MS]), [values[name] for name in kept]


class Others(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def test_like_numpy(self):
        for name, (operator, domain, inputs, attributes, outputs) in CASES.items():
            with self.subTest(name):
                built, arrays = build(operator, domain, inputs, attributes, outputs, OPSET.get(name, 18), EXACT.get(name, ()))
                got = self.host.run(self.host.put(built), arrays)
                for one, wanted in zip(got, (each for each in outputs if each is not None), strict=True):
                    self.assertEqual(wanted.shape, one.shape)
                    if one.dtype.kind in "iub":
                        np.testing.assert_array_equal(one, wanted)
                    else:
                        np.testing.assert_allclose(one, wanted, rtol=2e-5, atol=2e-5)

    def test_gradient(self):
        """The gradients of sum(x * x * w) to x and w at the inputs."""
        training = "ai.onnx.preview.training"
        nodes = [node("Mul", ["x", "x"], ["xx"]), node("Mul", ["xx", "w"], ["m"]), node("ReduceSum", ["m"], ["y"], keepdims=0),
                 node("Gradient", ["x", "w"], ["dx", "dw"], domain=training, xs=["x", "w"], y="y")]
        built = model(nodes, [tensor("x", [3]), tensor("w", [3])], [tensor("dx", [3]), tensor("dw", [3])], domains=[training])
        x, w = numbers(3), numbers(3) + 1
        dx, dw = self.host.run(self.host.put(built), [x, w])
        np.testing.assert_allclose(dx, 2 * x * w, rtol=1e-6)
        np.testing.assert_allclose(dw, x * x, rtol=1e-6)

    def test_old_broadcasting(self):
        """Opset 6: the axes of the second operand start at an axis of the first."""
        built = model([node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)], [tensor("x", [2, 3, 4])], [tensor("y", [2, 3, 4])],
                      [constant("b", [1, 2, 3])], opset=6)
        got, = self.host.run(self.host.put(built), [numbers(2, 3, 4)])
        np.testing.assert_array_equal(got, numbers(2, 3, 4) + np.array([1, 2, 3], np.float32)[:, None])

    def test_random_numbers(self):
        """The numbers are in range with the right mean, and differ in the next step."""
        built = model([node("RandomUniform", [], ["u"], shape=[4000], low=2.0, high=4.0), node("RandomNormal", [], ["n"], shape=[4000], mean=1.0, scale=3.0)],
                      [], [tensor("u", [4000]), tensor("n", [4000])])
        program = self.host.put(built)
        u, n = self.host.run(program, [])
        self.assertTrue(u.min() >= 2 and u.max() < 4 and abs(u.mean() - 3) < 0.1, (u.min(), u.max(), u.mean()))
        self.assertTrue(abs(n.mean() - 1) < 0.3 and abs(n.std() - 3) < 0.3, (n.mean(), n.std()))
        self.assertFalse(np.array_equal(u, self.host.run(program, [])[0]))


if __name__ == "__main__":
    unittest.main()
