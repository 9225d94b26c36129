# SPDX-License-Identifier: MIT
"""Export the networks of bench/networks.py with PyTorch: PYTHON bench/onnx_networks.py FOLDER NAME...

The weights are those of the initialisation of a fixed seed, and the running statistics of batch norms are those of one random
batch.  The batch, and the length of a text, are named dimensions.  Networks of torchvision have its names.
"""
import logging
import math
import pathlib
import sys
import warnings

import sizes
import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self, widths, classes):
        super().__init__()
        self.down = nn.ModuleList([self.double(ins, outs) for ins, outs in zip([3, *widths], widths)])
        self.rise = nn.ModuleList([nn.ConvTranspose2d(2 * outs, outs, 2, 2) for outs in widths[-2::-1]])
        self.up = nn.ModuleList([self.double(2 * outs, outs) for outs in widths[-2::-1]])
        self.head = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def double(ins, outs):
        return nn.Sequential(*[layer for first in (ins, outs) for layer in (nn.Conv2d(first, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs), nn.ReLU())])

    def forward(self, x):
        kept = []
        for part in self.down[:-1]:
            kept.append(part(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for rise, part in zip(self.rise, self.up):
            x = part(torch.cat([kept.pop(), rise(x)], 1))
        return self.head(x)


class SuperResolution(nn.Module):
    """ESPCN: three times as many pixels in each direction."""

    def __init__(self, times=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 64, 5, 1, 2), nn.Tanh(), nn.Conv2d(64, 32, 3, 1, 1), nn.Tanh(), nn.Conv2d(32, 3 * times**2, 3, 1, 1),
                                    nn.PixelShuffle(times))

    def forward(self, x):
        return self.layers(x)


class Tagger(nn.Module):
    """A bidirectional LSTM with a tag for each token."""

    def __init__(self, vocabulary, width, layers, tags):
        super().__init__()
        self.tokens, self.cells = nn.Embedding(vocabulary, width), nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, x):
        return self.head(self.cells(self.tokens(x))[0])


class BertBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (layer(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + mask
        x = self.first(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT's encoder, with its inputs; MiniLM-L6 has 6 layers of 384 with 12 heads."""

    def __init__(self, layers, width, heads, vocabulary=30522, places=512):
        super().__init__()
        self.words, self.places, self.types = nn.Embedding(vocabulary, width), nn.Embedding(places, width), nn.Embedding(2, width)
        self.norm, self.blocks = nn.LayerNorm(width, 1e-12), nn.ModuleList([BertBlock(width, heads) for _ in range(layers)])

    def forward(self, input_ids, attention_mask, token_type_ids):
        places = self.places(torch.arange(input_ids.shape[1]))
        x = self.norm(self.words(input_ids) + places + self.types(token_type_ids))
        mask = (1 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for block in self.blocks:
            x = block(x, mask)
        return x


class Member(nn.Module):
    """The one output "out" of a network of torchvision that has a dict of outputs."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)["out"]


OWN = {"unet": lambda: Unet([32, 64, 128, 256], 2), "super_resolution": SuperResolution, "lstm_tagger": lambda: Tagger(30522, 256, 2, 32),
       "bert_mini": lambda: Bert(4, 256, 4), "minilm": lambda: Bert(6, 384, 12)}


def make(name):
    if name in OWN:
        return OWN[name]()
    import torchvision  # pylint: disable=import-outside-toplevel  # only its networks need it
    if name.startswith("lraspp"):
        return Member(torchvision.models.get_model(name, weights=None, weights_backbone=None))
    return torchvision.models.get_model(name, weights=None, **({"aux_logits": False, "init_weights": False} if name == "googlenet" else {}))


def example(shape, below, batch, length):
    shape = [{"batch": batch, "length": length}.get(size, size) for size in shape]
    return torch.randint(0, below, shape) if below else torch.rand(shape)


def set_statistics(model, inputs):
    """Sets the running statistics of all batch norms to those of a batch."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        model.train()(*inputs)


def export(name, folder):
    torch.manual_seed(1)
    model, given = make(name), sizes.ONNX[name]
    inputs = tuple(example(*each, 4, 24) for each in given.values())
    set_statistics(model, inputs)
    dims = {"batch": torch.export.Dim("batch", min=2, max=64), "length": torch.export.Dim("length", min=2, max=512)}
    shapes = tuple({axis: dims[size] for axis, size in enumerate(shape) if size in dims} for shape, _ in given.values())
    part = folder / f"{name}.part.onnx"
    torch.onnx.export(model.eval(), inputs, part, input_names=list(given), output_names=["y"], dynamic_shapes=shapes, external_data=False, dynamo=True, verbose=False)
    part.rename(folder / f"{name}.onnx")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for each_name in sys.argv[2:]:
        export(each_name, pathlib.Path(sys.argv[1]))
