# SPDX-License-Identifier: MIT
"""Tensor compared with PyTorch: values and gradients."""
import unittest

from beamline import Tensor
from tensors import TensorCase

try:
    import numpy
    import torch
    import torch.nn.functional as F
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None


def some(*shape, low=-2.0, high=2.0, seed=0):
    """Distinct numbers away from discontinuities of the functions."""
    return numpy.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype("float32")


A, B, POSITIVE, UNIT = some(3, 4), some(3, 4, seed=1), some(3, 4, low=0.2, high=3), some(3, 4, low=-0.9, high=0.9)
ROW, CUBE, MATRIX, IMAGE = some(4), some(2, 3, 4), some(4, 5), some(2, 3, 7, 6)
ABOVE = some(3, 4, low=1.1, high=3)
CLASSES = numpy.array([1, 0, 3], "int32")

def tanh_gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


# name -> (inputs, Tensor's function, torch's function); gradients of float inputs are compared too
CASES = {
    "add": ([A, ROW], lambda x, y: x + y), "sub": ([A, B], lambda x, y: x - y), "rsub": ([A], lambda x: 1 - x),
    "mul": ([A, B], lambda x, y: x * y), "div": ([A, POSITIVE], lambda x, y: x / y), "rdiv": ([POSITIVE], lambda x: 2 / x),
    "floor_div": ([A, POSITIVE], lambda x, y: x // y, lambda x, y: torch.div(x, y, rounding_mode="floor")),
    "trunc_div": ([A, POSITIVE], lambda x, y: x.div(y, rounding_mode="trunc"), lambda x,
                  y: torch.div(x, y, rounding_mode="trunc")),
    "mod": ([A, POSITIVE], lambda x, y: (x % y).detach() + x * 0, lambda x, y: (x % y).detach() + x * 0),
    "fmod": ([A, POSITIVE], lambda x, y: x.fmod(y).detach() + x * 0, lambda x, y: torch.fmod(x, y).detach() + x * 0),
    "pow2": ([A], lambda x: x ** 2), "pow3": ([A], lambda x: x ** 3), "pow_half": ([POSITIVE], lambda x: x ** 0.5),
    "pow_0": ([A], lambda x: x ** 0), "pow_fraction": ([POSITIVE], lambda x: x ** 1.7),
    "pow_tensor": ([POSITIVE, A], lambda x, y: x ** y),
    "rpow": ([A], lambda x: 2 ** x), "neg": ([A], lambda x: -x), "abs": ([A], abs),
    "maximum": ([A, B], lambda x, y: x.maximum(y)),
    "minimum": ([A, B], lambda x, y: x.minimum(y)), "clamp": ([A], lambda x: x.clamp(-1, 0.5)),
    "clip_low": ([A], lambda x: x.clip(-1)),
    "where": ([A, B], lambda x, y: (x > 0).where(x, y), lambda x, y: torch.where(x > 0, x, y)),
    "masked_fill": ([A], lambda x: x.masked_fill(x > 1, 3.0)), "copysign": ([A, B], lambda x, y: x.copysign(y)),
    "logaddexp": ([A, B], lambda x, y: x.logaddexp(y)), "lerp": ([A, B], lambda x, y: x.lerp(y, 0.3)),
    "exp": ([A], lambda x: x.exp()), "exp2": ([A], lambda x: x.exp2()), "log": ([POSITIVE], lambda x: x.log()),
    "log2": ([POSITIVE], lambda x: x.log2()), "log10": ([POSITIVE], lambda x: x.log10()),
    "sqrt": ([POSITIVE], lambda x: x.sqrt()),
    "rsqrt": ([POSITIVE], lambda x: x.rsqrt()), "reciprocal": ([POSITIVE], lambda x: x.reciprocal()),
    "square": ([A], lambda x: x.square()),
    "sin": ([A], lambda x: x.sin()), "cos": ([A], lambda x: x.cos()), "tan": ([UNIT], lambda x: x.tan()),
    "asin": ([UNIT], lambda x: x.asin()),
    "acos": ([UNIT], lambda x: x.acos()), "atan": ([A], lambda x: x.atan()), "sinh": ([A], lambda x: x.sinh()),
    "cosh": ([A], lambda x: x.cosh()),
    "tanh": ([A], lambda x: x.tanh()), "asinh": ([A], lambda x: x.asinh()), "acosh": ([ABOVE], lambda x: x.acosh()),
    "atanh": ([UNIT], lambda x: x.atanh()), "erf": ([A], lambda x: x.erf()), "sigmoid": ([A], lambda x: x.sigmoid()),
    "sign": ([A], lambda x: x.sign() + x * 0), "floor": ([A], lambda x: x.floor() + x), "ceil": ([A], lambda x: x.ceil() + x),
    "trunc": ([A], lambda x: x.trunc() + x), "round": ([A], lambda x: x.round() + x), "relu": ([A], lambda x: x.relu()),
    "relu6": ([A], lambda x: (x * 5).relu6(), lambda x: F.relu6(x * 5)), "silu": ([A], lambda x: x.silu(), F.silu),
    "swish": ([A], lambda x: x.swish(), F.silu),
    "hardsigmoid": ([A], lambda x: (x * 3).hardsigmoid(), lambda x: F.hardsigmoid(x * 3)),
    "hardswish": ([A], lambda x: (x * 3).hardswish(), lambda x: F.hardswish(x * 3)),
    "hardtanh": ([A], lambda x: x.hardtanh(), F.hardtanh),
    "leaky_relu": ([A], lambda x: x.leaky_relu(), F.leaky_relu), "elu": ([A], lambda x: x.elu(), F.elu),
    "celu": ([A], lambda x: x.celu(1.5), lambda x: F.celu(x, 1.5)),
    "selu": ([A], lambda x: x.selu(), F.selu), "gelu": ([A], lambda x: x.gelu(),
                                                        tanh_gelu),
    "gelu_none": ([A], lambda x: x.gelu("none"), F.gelu), "quick_gelu": ([A], lambda x: x.quick_gelu(),
                                                                         lambda x: x * torch.sigmoid(1.702 * x)),
    "mish": ([A], lambda x: x.mish(), F.mish), "softplus": ([A], lambda x: x.softplus(2.0), lambda x: F.softplus(x, 2.0)),
    "softsign": ([A], lambda x: x.softsign(), F.softsign), "logsigmoid": ([A], lambda x: x.logsigmoid(), F.logsigmoid),
    "sum": ([CUBE], lambda x: x.sum(1)), "sum_axes": ([CUBE], lambda x: x.sum((0, 2), keepdim=True)),
    "prod": ([A], lambda x: x.prod(1)),
    "mean": ([CUBE], lambda x: x.mean((0, 1))), "max": ([A], lambda x: x.max(1), lambda x: x.amax(1)),
    "min": ([A], lambda x: x.min(0), lambda x: x.amin(0)),
    "var": ([CUBE], lambda x: x.var(1), lambda x: x.var(1)), "var_0": ([A], lambda x: x.var(1, correction=0),
                                                                       lambda x: x.var(1, unbiased=False)),
    "std": ([CUBE], lambda x: x.std(-1), lambda x: x.std(-1)), "logsumexp": ([A], lambda x: x.logsumexp(1)),
    "softmax": ([CUBE], lambda x: x.softmax(1)),
    "log_softmax": ([A], lambda x: x.log_softmax(), lambda x: x.log_softmax(-1)),
    "softmin": ([A], lambda x: x.softmin(), lambda x: F.softmin(x, -1)),
    "normalize": ([A], lambda x: x.normalize(), F.normalize), "normalize_1": ([A], lambda x: x.normalize(1, 0),
                                                                              lambda x: F.normalize(x, 1, 0)),
    "cumsum": ([A], lambda x: x.cumsum(1)), "cumprod": ([POSITIVE], lambda x: x.cumprod(1)),
    "logcumsumexp": ([A], lambda x: x.logcumsumexp(1)),
    "cummax": ([A], lambda x: x.cummax(1)[0]), "cummin": ([A], lambda x: x.cummin(0)[0]), "sort": ([A], lambda x: x.sort(1)[0]),
    "topk": ([A], lambda x: x.topk(2)[0]), "reshape": ([A], lambda x: x.reshape(2, -1)),
    "permute": ([CUBE], lambda x: x.permute(2, 0, 1)),
    "expand": ([ROW], lambda x: x.expand(3, 4)), "flip": ([CUBE], lambda x: x.flip((0, 2))),
    "transpose": ([CUBE], lambda x: x.transpose(0, 2)),
    "pad": ([A], lambda x: x.pad((1, 2, 0, 3), value=5.0), lambda x: F.pad(x, (1, 2, 0, 3), value=5.0)),
    "pad_crop": ([A], lambda x: x.pad((-1, 2)), lambda x: F.pad(x, (-1, 2))),
    "pad_reflect": ([IMAGE], lambda x: x.pad((2, 1, 1, 2), mode="reflect"), lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect")),
    "pad_replicate": ([IMAGE], lambda x: x.pad((2, 1, 1, 2), mode="replicate"),
                      lambda x: F.pad(x, (2, 1, 1, 2), mode="replicate")),
    "pad_circular": ([IMAGE], lambda x: x.pad((2, 1, 1, 2), mode="circular"), lambda x: F.pad(x, (2, 1, 1, 2), mode="circular")),
    "repeat": ([A], lambda x: x.repeat(2, 1, 3)), "repeat_interleave": ([A], lambda x: x.repeat_interleave(2, 1)),
    "roll": ([A], lambda x: x.roll(1, 1)),
    "roll_flat": ([A], lambda x: x.roll(3)), "diag": ([ROW], lambda x: x.diag()),
    "diagonal": ([CUBE], lambda x: x.diagonal(1, 1, 2)),
    "diagonal_low": ([MATRIX], lambda x: x.diagonal(-2)), "unfold": ([MATRIX], lambda x: x.unfold(1, 3, 2)),
    "tril": ([MATRIX], lambda x: x.tril(-1)),
    "triu": ([MATRIX], lambda x: x.triu(1)), "flatten": ([CUBE], lambda x: x.flatten(1)),
    "unflatten": ([MATRIX], lambda x: x.unflatten(0, (2, 2))),
    "squeeze": ([CUBE], lambda x: x.unsqueeze(1).squeeze(1)), "cat": ([A, B], lambda x, y: x.cat(y, dim=1), lambda x,
                                                                      y: torch.cat([x, y], 1)),
    "stack": ([A, B], lambda x, y: x.stack(y, dim=-1), lambda x, y: torch.stack([x, y], -1)),
    "split": ([MATRIX], lambda x: x.split([1, 3], 0)[1]),
    "index": ([MATRIX], lambda x: x[1:, ::2]), "index_number": ([CUBE], lambda x: x[1, :, -1]),
    "index_list": ([MATRIX], lambda x: x[[2, 0, 2]]),
    "index_lists": ([CUBE], lambda x: x[[1, 0, 1], :, [2, 3, -1]]), "index_near": ([CUBE], lambda x: x[:, [2, 0], [3, 1]]),
    "index_none": ([A], lambda x: x[:, None, 1:]),
    "gather": ([A], lambda x: x.gather(1, Tensor([[0, 3], [1, 1], [2, 0]])),
               lambda x: x.gather(1, torch.tensor([[0, 3], [1, 1], [2, 0]]))),
    "scatter": ([A, some(2, 2)], lambda x, y: x.scatter(1, Tensor([[0, 3], [1, 2]]), y), lambda x,
                y: x.scatter(1, torch.tensor([[0, 3], [1, 2]]), y)),
    "scatter_sum": ([A, some(2, 2)], lambda x, y: x.scatter_reduce(1, Tensor([[0, 0], [1, 2]]), y, "sum"),
                    lambda x, y: x.scatter_reduce(1, torch.tensor([[0, 0], [1, 2]]), y, "sum")),
    "matmul": ([A, MATRIX], lambda x, y: x @ y), "matmul_batch": ([CUBE, MATRIX], lambda x, y: x @ y),
    "matvec": ([A, ROW], lambda x, y: x @ y),
    "vecmat": ([ROW, MATRIX], lambda x, y: x @ y), "linear": ([A, MATRIX, some(5)], lambda x, w, b: x.linear(w, b), lambda x, w,
                                                              b: x @ w + b),
    "einsum": ([CUBE, MATRIX], lambda x, y: Tensor.einsum("bij,jk->bki", x, y), lambda x, y: torch.einsum("bij,jk->bki", x, y)),
    "einsum_dots": ([CUBE, CUBE], lambda x, y: Tensor.einsum("...ij,...ij->...", x, y), lambda x,
                    y: torch.einsum("...ij,...ij->...", x, y)),
    "attention": ([some(2, 2, 3, 4), some(2, 2, 5, 4), some(2, 2, 5, 4, seed=3)], lambda q, k,
                  v: q.scaled_dot_product_attention(k, v),
                  lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 2, -1) @ v),
    "conv2d": ([IMAGE, some(4, 3, 3, 2), some(4)], lambda x, w, b: x.conv2d(w, b, stride=(2, 1), padding=(1, 0)),
               lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0))),
    "conv2d_groups": ([some(1, 4, 6, 6), some(4, 2, 2, 2)], lambda x, w: x.conv2d(w, groups=2, dilation=2), lambda x,
                      w: F.conv2d(x, w, groups=2, dilation=2)),
    "conv2d_uneven": ([IMAGE, some(4, 3, 2, 2)], lambda x, w: x.conv2d(w, padding=(1, 0, 2, 1)), lambda x,
                      w: F.conv2d(F.pad(x, (1, 0, 2, 1)), w)),
    "conv1d": ([some(2, 3, 9), some(4, 3, 3)], lambda x, w: x.conv2d(w, stride=2, padding=1), lambda x,
               w: F.conv1d(x, w, stride=2, padding=1)),
    "conv3d": ([some(1, 2, 4, 4, 4), some(3, 2, 2, 2, 2)], lambda x, w: x.conv2d(w), F.conv3d),
    "conv_transpose2d": ([some(2, 4, 3, 3), some(4, 2, 3, 2), some(4)], lambda x, w,
                         b: x.conv_transpose2d(w, b, groups=2, stride=2, padding=1, output_padding=1),
                         lambda x, w, b: F.conv_transpose2d(x, w, b, groups=2, stride=2, padding=1, output_padding=1)),
    "conv_transpose1d": ([some(2, 3, 5), some(3, 4, 3)], lambda x, w: x.conv_transpose2d(w, stride=2), lambda x,
                         w: F.conv_transpose1d(x, w, stride=2)),
    "avg_pool2d": ([IMAGE], lambda x: x.avg_pool2d(), lambda x: F.avg_pool2d(x, 2)),
    "avg_pool2d_pad": ([IMAGE], lambda x: x.avg_pool2d((3, 2), stride=2, padding=1, count_include_pad=False),
                       lambda x: F.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False)),
    "avg_pool2d_ceil": ([IMAGE], lambda x: x.avg_pool2d((3, 2), stride=2, padding=1, ceil_mode=True),
                        lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True)),
    "avg_pool1d": ([some(2, 3, 9)], lambda x: x.avg_pool2d((2,)), lambda x: F.avg_pool1d(x, 2)),
    "max_pool2d": ([IMAGE], lambda x: x.max_pool2d(), lambda x: F.max_pool2d(x, 2)),
    "max_pool2d_ceil": ([IMAGE], lambda x: x.max_pool2d((3, 3), stride=2, ceil_mode=True),
                        lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "max_pool2d_dilated": ([IMAGE], lambda x: x.max_pool2d((2, 2), stride=1, dilation=2, padding=1),
                           lambda x: F.max_pool2d(x, 2, 1, 1, 2)),
    "max_pool3d": ([some(1, 2, 4, 4, 4)], lambda x: x.max_pool2d((2, 2, 2)), lambda x: F.max_pool3d(x, 2)),
    "layernorm": ([CUBE], lambda x: x.layernorm(), lambda x: F.layer_norm(x, (4,))),
    "layernorm_axes": ([CUBE], lambda x: x.layernorm((1, 2)), lambda x: F.layer_norm(x, (3, 4))),
    "layernorm_first": ([A], lambda x: x.layernorm(0), lambda x: F.layer_norm(x.T, (3,)).T),
    "batchnorm": ([IMAGE, some(3), some(3, seed=2)], lambda x, w, b: x.batchnorm(w, b, Tensor([0.1, 0.2, 0.3]),
                                                                                 Tensor([1.0, 2, 4]).rsqrt()),
                  lambda x, w, b: F.batch_norm(x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2, 4]), w, b, eps=0.0)),
    "interpolate": ([IMAGE], lambda x: x.interpolate((9, 4)), lambda x: F.interpolate(x, (9, 4), mode="bilinear")),
    "interpolate_corners": ([IMAGE], lambda x: x.interpolate((9, 4), align_corners=True),
                            lambda x: F.interpolate(x, (9, 4), mode="bilinear", align_corners=True)),
    "interpolate_nearest": ([IMAGE], lambda x: x.interpolate((9, 4), mode="nearest"),
                            lambda x: F.interpolate(x, (9, 4), mode="nearest")),
    "interpolate_exact": ([IMAGE], lambda x: x.interpolate((9, 4), mode="nearest-exact"),
                          lambda x: F.interpolate(x, (9, 4), mode="nearest-exact")),
    "binary_crossentropy": ([some(3, 4, low=0.1, high=0.9)], lambda x: x.binary_crossentropy(Tensor(POSITIVE / 3)),
                            lambda x: F.binary_cross_entropy(x, torch.tensor(POSITIVE / 3))),
    "binary_crossentropy_logits": ([A], lambda x: x.binary_crossentropy_logits(Tensor(POSITIVE / 3),
                                                                               pos_weight=Tensor([1.0, 2, 3, 4])),
                                   lambda x: F.binary_cross_entropy_with_logits(x, torch.tensor(POSITIVE / 3),
                                                                                pos_weight=torch.tensor([1.0, 2, 3, 4]))),
    "cross_entropy": ([A], lambda x: x.cross_entropy(Tensor(CLASSES)),
                      lambda x: F.cross_entropy(x, torch.tensor(CLASSES).long())),
    "cross_entropy_smooth": ([A], lambda x: x.cross_entropy(Tensor(CLASSES), "sum", 0.1),
                             lambda x: F.cross_entropy(x, torch.tensor(CLASSES).long(), reduction="sum", label_smoothing=0.1)),
    "cross_entropy_probabilities": ([A], lambda x: x.cross_entropy(Tensor(POSITIVE)),
                                    lambda x: F.cross_entropy(x, torch.tensor(POSITIVE))),
    "sparse_categorical_crossentropy": ([A], lambda x: x.sparse_categorical_crossentropy(Tensor(CLASSES)),
                                        lambda x: F.cross_entropy(x, torch.tensor(CLASSES).long())),
    "sparse_smooth": ([A], lambda x: x.sparse_categorical_crossentropy(Tensor(CLASSES), ignore_index=0, label_smoothing=0.2),
                      lambda x: F.cross_entropy(x[[0, 2]], torch.tensor(CLASSES[[0, 2]]).long(), label_smoothing=0.2)),
    "nll_loss": ([A], lambda x: x.nll_loss(Tensor(CLASSES), Tensor([1.0, 2, 3, 4]), ignore_index=0),
                 lambda x: F.nll_loss(x, torch.tensor(CLASSES).long(), torch.tensor([1.0, 2, 3, 4]), ignore_index=0)),
}


class BesideTorch(TensorCase):
    def check(self, name):
        inputs, ours, theirs = (*CASES[name], CASES[name][1])[:3]
        mine = [Tensor(each, requires_grad=True) for each in inputs]
        other = [torch.tensor(each, requires_grad=True) for each in inputs]
        result, expected = ours(*mine), theirs(*other)
        self.need(result)
        self.assertEqual(result.shape, tuple(expected.shape))
        weight = some(*result.shape, seed=9) if result.shape else numpy.float32(0.7)
        grads = (result * Tensor(weight)).sum().gradient(*mine, materialize_grads=True)
        (expected * torch.tensor(weight)).sum().backward()
        Tensor.realize(result, *grads)
        numpy.testing.assert_allclose(result.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)
        for grad, each in zip(grads, other):
            numpy.testing.assert_allclose(grad.numpy(), numpy.zeros(grad.shape) if each.grad is None else each.grad.numpy(),
                                          rtol=2e-4, atol=5e-5)


def add_case(name):
    setattr(BesideTorch, f"test_{name}", lambda self: self.check(name))


for _name in CASES:
    add_case(_name)


if __name__ == "__main__":
    unittest.main()
