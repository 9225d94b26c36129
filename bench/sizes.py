# SPDX-License-Identifier: MIT
"""The sizes of all measured works, shared by all sides: bench/works.py and the *_worker.py files."""
import math

MATMULS = {f"matmul_{m}x{n}x{k}": (m, n, k)  # name: the product of [m, k] and [k, n]
           for m, n, k in [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (128, 512, 784), (128, 128, 784), (784, 128, 128),
                           (64, 576, 4608), (512, 10, 576)]}
CONVS = {f"conv_{ins}_{outs}_{extent}_{k}": (batch, ins, extent, outs, k)  # batch, channels in, extent, channels out, kernel
         for batch, ins, outs, extent, k in [(64, 32, 32, 24, 5), (64, 32, 64, 10, 3), (64, 64, 64, 8, 3), (8, 64, 64, 58, 3), (8, 128, 128, 30, 3),
                                             (16, 256, 256, 16, 3)]}
DEPTHWISE = {f"depthwise_{batch}_{channels}_{extent}_{k}_{stride}": (batch, channels, extent, k, stride)  # padding is k // 2
             for batch, channels, extent in [(1, 32, 112), (8, 32, 56), (1, 480, 28), (8, 240, 14), (8, 96, 7), (1, 960, 7)]
             for k in (3, 5, 7) for stride in (1, 2)}
ATTENTIONS = {name: {"batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": length, "keys": length, "size": 64, "causal": causal}
              for name, batch, heads, kv_heads, length, causal in [
                  ("attention_256", 4, 8, 8, 256, False), ("attention_4096", 1, 8, 8, 4096, False), ("attention_causal", 8, 12, 12, 1024, True),
                  ("attention_grouped", 1, 32, 8, 1024, True)]}
ROWS = (65536, 1024)  # of softmax and layernorm
MANY = 64 << 20       # elements of the elementwise rows
PICTURES = 60000      # number of pictures in Fashion-MNIST
TINY_ROUNDS = 50      # rounds of three operations on TINY numbers
TINY = 1024
GPT = {"batch": 8, "length": 128, "width": 128, "heads": 4, "layers": 2, "vocabulary": 256}


def of_pictures(extent=224):
    return {"x": (["batch", 3, extent, extent], None)}


def of_bert():
    return {name: (["batch", "length"], below) for name, below in [("input_ids", 30522), ("attention_mask", 2), ("token_type_ids", 2)]}


ONNX_LENGTH = 64  # of the texts of lstm_tagger and bert_mini
# Networks of bench/networks.py: {input: (shape, what its integers are below, or None for numbers from 0 to 1)}
PICTURE_NETWORKS = ("convnext_tiny", "densenet121", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3_small", "resnet18", "resnet50", "regnet_y_400mf", "vit_b_16",
                    "vgg16", "squeezenet1_1", "shufflenet_v2_x1_0", "googlenet", "mnasnet1_0", "lraspp_mobilenet_v3_large")
ONNX = {**{name: of_pictures() for name in PICTURE_NETWORKS}, "unet": of_pictures(128), "super_resolution": of_pictures(128),
        "lstm_tagger": {"x": (["batch", ONNX_LENGTH], 30522)}, "bert_mini": of_bert(), "minilm": of_bert()}
MINILM = [(1, 16), (1, 64), (1, 256), (8, 64), (32, 32), (32, 128)]  # texts, tokens


def conv_shapes(name):
    """Shapes of the input, the weight and the output."""
    batch, ins, extent, outs, k = CONVS[name]
    return [batch, ins, extent, extent], [outs, ins, k, k], [batch, outs, extent - k + 1, extent - k + 1]


def depthwise_shapes(name):
    """Shapes of the input, the weight and the output."""
    batch, channels, extent, k, stride = DEPTHWISE[name]
    out = (extent + 2 * (k // 2) - k) // stride + 1
    return [batch, channels, extent, extent], [channels, 1, k, k], [batch, channels, out, out]


def depthwise_gflop(name):
    _, weight, out = depthwise_shapes(name)
    return 2e-9 * math.prod(out) * weight[2] * weight[3]


def conv_gflop(name):
    (batch, outs, rows, columns), (_, ins, k, _) = conv_shapes(name)[2], conv_shapes(name)[1]
    return 2e-9 * batch * outs * rows * columns * ins * k * k
