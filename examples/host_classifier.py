#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Put SqueezeNet into a folder of models, so that a picture can be sent to it by curl.

    build/beamline serve --models models &
    examples/host_classifier.py models         # the server is at $BEAMLINE_URL, or on this machine's port 8470
    curl -s localhost:8470/v2/models/pictures/infer -H 'content-type: image/png' --data-binary @cat.png

The program takes the pixels of a picture, as uint8; config.json says so, and names the file with the names of the classes.  The
server decodes each picture and scales it to the size that the program takes.

Weights, class names and a picture are looked for in the folders squeezenet and photos of $BEAMLINE_DATA and of the user's cache,
~/.cache/beamline/data.
"""
import json
import pathlib
import shutil
import sys
import urllib.request

import local
from beamline.graph import Graph, Node
from beamline.nn.datasets import find_file

SIDE = 227                       # of the pictures that SqueezeNet was trained with
MEAN = [104.0, 117.0, 123.0]     # of blue, green and red in these pictures
POOLED = (4, 8)                  # after these, and the first convolution, there is a pooling


def find(name, source) -> pathlib.Path:
    """The file; ends the program where there is none."""
    try:
        return pathlib.Path(find_file(name, source))
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")


def squeezenet() -> dict:
    """The program: uint8 pixels [batch, SIDE, SIDE, 3] to the probabilities of 1,000 classes.  The weights are a file beside it."""
    g = Graph()
    pixels = g.input("picture", [g.dim("batch", 1, 16), SIDE, SIDE, 3], "uint8")

    def convolve(x, name, **attrs):
        weight, bias = (Node(g, f"{name}.{part}").cast("float32") for part in ("weight", "bias"))
        return g.conv2d(x, weight, bias, **attrs).relu()

    def fire(x, name):
        x = convolve(x, f"{name}/conv1x1_1")
        return g.cat([convolve(x, f"{name}/conv1x1_2"), convolve(x, f"{name}/conv3x3_2", padding=1)], axis=1)

    x = (pixels.cast("float32").flip(axis=3) - Node(g, "colour_mean")).permute([0, 3, 1, 2])
    x = convolve(x, "conv1", stride=2).max_pool2d(kernel_size=3, stride=2)
    for i in range(2, 10):
        x = fire(x, f"fire{i}")
        if i in POOLED:
            x = x.max_pool2d(kernel_size=3, stride=2)
    g.output(probability=convolve(x, "conv_final").mean(axis=[2, 3]).softmax(axis=1))
    return {"state": {"colour_mean": MEAN}, "dims": g.dims, **g.entry()}


def write(models: pathlib.Path, weights: pathlib.Path, classes: pathlib.Path):
    """The model as it is hosted: the program, its weights, the names of the classes, and which input is a picture."""
    folder = models / "pictures"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.json").write_text(json.dumps(squeezenet()))
    shutil.copyfile(weights, folder / "1" / "model.safetensors")
    (folder / "classes.txt").write_text("".join(line.partition(" ")[2] for line in classes.open()))
    (folder / "config.json").write_text(json.dumps({
        "parameters": {"picture": {"string_value": "picture"}},
        "output": [{"name": "probability", "data_type": "TYPE_FP32", "label_filename": "classes.txt"}]}))


def call(path, body, media):
    with urllib.request.urlopen(urllib.request.Request(local.url() + path, body, {"content-type": media}, method="POST")) as answer:
        return answer.read()


def main():
    options = local.options(__doc__, ("folder", {"nargs": "?", "default": "models", "help": "of models (default: models)"}))
    weights = find("squeezenet/squeezenet_v1.0_f16.safetensors", "https://github.com/songhan/SqueezeNet-Deep-Compression, decoded")
    classes = find("photos/imagenet_synset.txt", "https://github.com/onnx/models, synset.txt")
    write(pathlib.Path(options.folder), weights, classes)
    call("/v2/repository/models/pictures/load", b"{}", "application/json")
    picture = find("photos/chelsea.png", "https://github.com/scikit-image/scikit-image, skimage/data")
    answer = json.loads(call("/v2/models/pictures/infer", picture.read_bytes(), "image/png"))
    for row in answer["outputs"][0]["classes"]:
        print(f"{row['score']:.3f}  {row['label']}")


if __name__ == "__main__":
    main()
