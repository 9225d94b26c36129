# SPDX-License-Identifier: MIT
"""The networks of the training rows of bench/run.py, written once for both sides.

A side makes layers by the names that torch.nn and beamline.nn share, in the order of their creation, and has the few functions
that differ between the two: works.OurSide and torch_worker.TheirSide.  A network is a function of a side: it makes the layers
and returns the function of the loss of a batch.
"""
import math
from typing import Callable, NamedTuple


class Side:
    """layer(kind, ...) makes a layer; norm(width, scale) a batch norm whose scale starts at |scale|; parameter(...) a weight of
    normal numbers with a deviation of 0.02; lstm(width, layers) a function of (batch, length, width).  The functions are those
    of torch.nn.functional: attention is scaled_dot_product_attention, cat joins along an axis, and gelu is exact unless
    |approximate| is "tanh"."""

    def __init__(self):
        self.layers = []

    def layer(self, kind, *args, **kwargs):
        self.layers.append(getattr(self.nn, kind)(*args, **kwargs))
        return self.layers[-1]


RESIDUAL = 0.1  # the first scale of the last norm of a residual block: from 1 on, errors of rounding change the losses of ResNet-50 by a tenth


def conv_norm(s, ins, outs, k, stride=1, groups=1, scale=1):
    conv = s.layer("Conv2d", ins, outs, k, stride, k // 2, groups=groups, bias=False)
    norm = s.norm(outs, scale)
    return lambda x: norm(conv(x))


def classifier(s, features, width, classes):
    head = s.layer("Linear", width, classes)
    return lambda x, y: s.cross_entropy(head(features(x).mean((2, 3))), y)


def resnet(s, counts, bottleneck, classes):
    stem, blocks, width = conv_norm(s, 3, 64, 7, 2), [], 64
    for stage, count in enumerate(counts):
        inner = 64 << stage
        outs = 4 * inner if bottleneck else inner
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            sizes = [(width, inner, 1, 1), (inner, inner, 3, stride), (inner, outs, 1, 1)] if bottleneck else [(width, inner, 3, stride), (inner, outs, 3, 1)]
            *body, last = [conv_norm(s, *size, scale=RESIDUAL if size is sizes[-1] else 1) for size in sizes]
            blocks.append((body, last, None if stride == 1 and width == outs else conv_norm(s, width, outs, 1, stride)))
            width = outs

    def features(x):
        x = s.max_pool2d(stem(x).relu(), 3, 2, 1)
        for body, last, short in blocks:
            y = x
            for part in body:
                y = part(y).relu()
            x = (last(y) + (short(x) if short else x)).relu()
        return x
    return classifier(s, features, width, classes)


def mobilenet(s, classes):
    """MobileNetV2; blocks: (expansion, channels, count, stride)"""
    first, blocks, width = conv_norm(s, 3, 32, 3, 2), [], 32
    for expansion, outs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            inner, step = width * expansion, stride if i == 0 else 1
            body = [conv_norm(s, width, inner, 1)] if expansion > 1 else []
            body.append(conv_norm(s, inner, inner, 3, step, groups=inner))
            residual = step == 1 and width == outs
            blocks.append((body, conv_norm(s, inner, outs, 1, scale=RESIDUAL if residual else 1), residual))
            width = outs
    last = conv_norm(s, width, 1280, 1)

    def features(x):
        x = s.relu6(first(x))
        for body, project, residual in blocks:
            y = x
            for part in body:
                y = s.relu6(part(y))
            x = x + project(y) if residual else project(y)
        return s.relu6(last(x))
    return classifier(s, features, 1280, classes)


def unet(s, widths, classes):
    """Two convolutions at each resolution, pooling down, transposed convolutions up, a class for each pixel."""
    def double(ins, outs):
        first, second = conv_norm(s, ins, outs, 3), conv_norm(s, outs, outs, 3)
        return lambda x: second(first(x).relu()).relu()
    down = [double(ins, outs) for ins, outs in zip([3, *widths], widths)]
    up = [(s.layer("ConvTranspose2d", 2 * outs, outs, 2, 2), double(2 * outs, outs)) for outs in widths[-2::-1]]
    head = s.layer("Conv2d", widths[0], classes, 1)

    def loss(x, y):
        kept = []
        for part in down[:-1]:
            x = part(x)
            kept.append(x)
            x = s.max_pool2d(x, 2, 2, 0)
        x = down[-1](x)
        for rise, part in up:
            x = part(s.cat([kept.pop(), rise(x)], 1))
        return s.cross_entropy(head(x), y)
    return loss


def self_attention(s, width, heads, causal=False):
    qkv, out = s.layer("Linear", width, 3 * width), s.layer("Linear", width, width)

    def run(x):
        batch, length, _ = x.shape
        parts = qkv(x).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        return out(s.attention(parts[0], parts[1], parts[2], causal).permute(0, 2, 1, 3).reshape(batch, length, width))
    return run


def mlp(s, width, approximate="none"):
    up, down = s.layer("Linear", width, 4 * width), s.layer("Linear", 4 * width, width)
    return lambda x: down(s.gelu(up(x), approximate))


def transformer(s, layers, width, heads, causal=False, approximate="none"):
    """Blocks that normalise the input of each part, and a last norm."""
    blocks = [(s.layer("LayerNorm", width), self_attention(s, width, heads, causal), s.layer("LayerNorm", width), mlp(s, width, approximate)) for _ in range(layers)]
    last = s.layer("LayerNorm", width)

    def run(x):
        for norm, attend, second, feed in blocks:
            x = x + attend(norm(x))
            x = x + feed(second(x))
        return last(x)
    return run


def vit(s, extent, patch, layers, width, heads, classes):
    embed, first, places = s.layer("Conv2d", 3, width, patch, patch), s.parameter(1, 1, width), s.parameter(1, (extent // patch) ** 2 + 1, width)
    blocks, head = transformer(s, layers, width, heads), s.layer("Linear", width, classes)

    def loss(x, y):
        x = embed(x).flatten(2).permute(0, 2, 1)
        x = s.cat([first.expand(x.shape[0], 1, width), x], 1) + places
        return s.cross_entropy(head(blocks(x)[:, 0]), y)
    return loss


def gpt(s, vocabulary, length, layers, width, heads):
    tokens, places = s.layer("Embedding", vocabulary, width), s.parameter(length, width)
    blocks, head = transformer(s, layers, width, heads, causal=True, approximate="tanh"), s.layer("Linear", width, vocabulary, bias=False)
    return lambda x, y: s.cross_entropy(head(blocks(tokens(x) + places)).reshape(-1, vocabulary), y.reshape(-1))


def bert(s, vocabulary, length, layers, width, heads, classes):
    """BERT for classes of texts: blocks that normalise the sum after each part, and a pooler."""
    tokens, places, norm = s.layer("Embedding", vocabulary, width), s.parameter(length, width), s.layer("LayerNorm", width)
    blocks = [(self_attention(s, width, heads), s.layer("LayerNorm", width), mlp(s, width), s.layer("LayerNorm", width)) for _ in range(layers)]
    pooler, head = s.layer("Linear", width, width), s.layer("Linear", width, classes)

    def loss(x, y):
        x = norm(tokens(x) + places)
        for attend, first, feed, second in blocks:
            x = first(x + attend(x))
            x = second(x + feed(x))
        return s.cross_entropy(head(pooler(x[:, 0]).tanh()), y)
    return loss


def lstm(s, vocabulary, width, layers):
    tokens, cells, head = s.layer("Embedding", vocabulary, width), s.lstm(width, layers), s.layer("Linear", width, vocabulary)
    return lambda x, y: s.cross_entropy(head(cells(tokens(x))).reshape(-1, vocabulary), y.reshape(-1))


class Network(NamedTuple):
    """x, y: the shapes of one sample; y are classes below |classes|.  x are numbers from 0 to 1, or with |vocabulary| tokens.
    optimizer: "SGD" (rate 0.001) or "AdamW" (rate 0.0001)"""
    title: str
    make: Callable
    x: list
    y: list
    classes: int
    optimizer: str
    vocabulary: int | None = None


def picture(extent):
    return [3, extent, extent]


NETWORKS = {
    **{f"resnet18_{extent}": Network(f"ResNet-18, {extent}²", lambda s: resnet(s, (2, 2, 2, 2), False, 1000), picture(extent), [], 1000, "SGD") for extent in (32, 64)},
    "resnet50": Network("ResNet-50, 64²", lambda s: resnet(s, (3, 4, 6, 3), True, 1000), picture(64), [], 1000, "SGD"),
    "mobilenet": Network("MobileNetV2, 64²", lambda s: mobilenet(s, 1000), picture(64), [], 1000, "SGD"),
    "unet": Network("UNet of 32 to 256 channels, 64²", lambda s: unet(s, [32, 64, 128, 256], 2), picture(64), [64, 64], 2, "AdamW"),
    "vit": Network("ViT-Ti/8, 64²", lambda s: vit(s, 64, 8, 12, 192, 3, 1000), picture(64), [], 1000, "AdamW"),
    "gpt6": Network("GPT, 6 layers, d 384, T 128", lambda s: gpt(s, 256, 128, 6, 384, 6), [128], [128], 256, "AdamW", 256),
    "bert": Network("BERT-small, T 128", lambda s: bert(s, 30522, 128, 4, 512, 8, 2), [128], [], 2, "AdamW", 30522),
    "lstm": Network("LSTM, 2 layers, d 256, T 32", lambda s: lstm(s, 256, 256, 2), [32], [32], 256, "AdamW", 256),
}
RATES = {"SGD": 0.001, "AdamW": 0.0001}
# name of a row: (network, batch)
ROWS = {"resnet18_8_32": ("resnet18_32", 8), "resnet18_16_64": ("resnet18_64", 16), "resnet18_8_64": ("resnet18_64", 8), "resnet18_32_64": ("resnet18_64", 32),
        **{f"{name}_{batch}": (name, batch) for name in NETWORKS if not name.startswith("resnet18") for batch in (8, 32)}}
FIRST_STEPS = 3  # the losses of these steps are compared


def is_same(ours, theirs):
    """Whether the losses of the first steps are those of one network: the first loss to four digits, and a later loss also to 0.01
    of the change since then."""
    return all(math.isfinite(a) and abs(a - b) <= 1e-4 * abs(theirs[0]) + 0.01 * abs(b - theirs[0]) for a, b in zip(ours, theirs, strict=True))
