# SPDX-License-Identifier: MIT
"""Device memory of a loaded model, after a prompt, after a text and after eight texts, for each weight type."""
import json
import re
import unittest
import urllib.request

import numpy as np

import asking
import blocks
import gguf_files
import test_import

MOST = 1.1  # largest multiple of the bytes of the file and of the KV cache in use
WIDTH, FEED, HEADS, GROUPS, LAYERS, PAGE = 1536, 3072, 24, 1, 3, 32
SIZE = WIDTH // HEADS
KEPT = 2 * LAYERS * GROUPS * SIZE  # elements of the KV cache per token
TYPES = {"f32": 4, "f16": 2, **{form: 2 for form in blocks.TYPES}}  # bytes of an element of the KV cache
SHAPES = {"attn_q": (WIDTH, WIDTH), "attn_k": (GROUPS * SIZE, WIDTH), "attn_v": (GROUPS * SIZE, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH),
          "ffn_down": (WIDTH, FEED)}


def keys():
    members = {"context_length": 2048, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": FEED, "attention.head_count": HEADS, "attention.head_count_kv": GROUPS}
    return gguf_files.llama_keys() | {f"llama.{name}": ("u32", value) for name, value in members.items()}


def weight(form, rows, columns):
    """Returns zeros, since memory does not depend on values."""
    if form in ("f32", "f16"):
        return np.zeros((rows, columns), np.float32 if form == "f32" else np.float16)
    elements, size, _ = blocks.TYPES[form]
    return gguf_files.Blocks(form, (rows, columns), np.zeros((rows, columns // elements * size), np.uint8))


def model(form):
    shapes = {"token_embd": (len(gguf_files.PIECES), WIDTH), **{f"blk.{i}.{name}": shape for i in range(LAYERS) for name, shape in SHAPES.items()}}
    norms = ("output_norm", *(f"blk.{i}.{part}" for i in range(LAYERS) for part in ("attn_norm", "ffn_norm")))
    return gguf_files.gguf(keys(), {f"{name}.weight": weight(form, *shape) for name, shape in shapes.items()} | {f"{name}.weight": np.ones(WIDTH, np.float32) for name in norms})


class DeviceMemory(unittest.TestCase):
    serve = test_import.Files.serve

    def metrics(self, server):
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            text = answer.read().decode()
        return lambda name: sum(float(value) for value in re.findall(rf"^beamline_{name}(?:{{.*}})? (\S+)$", text, re.M))

    def check(self, server, form, file, when):
        read = self.metrics(server)
        spare = read("device_spare_bytes")
        used = read("device_bytes") - read("device_pool_bytes") - spare  # without the buffer pool, and without packed weights, which are evicted on demand
        kept = (read("text_pages_used") + read("text_pages_kept")) * PAGE * KEPT * TYPES[form]
        with self.subTest(form, when=when):
            self.assertGreater(used, file)
            if form in blocks.TYPES:
                self.assertEqual(0, spare)
            self.assertLessEqual(used, MOST * (file + kept), f"{used / (file + kept):.3f}")

    def write(self, server, prompts, tokens):
        answer = asking.call(f"{server.url}/v1/completions", {"model": "m", "prompt": prompts, "max_tokens": tokens, "ignore_eos": True, "temperature": 1, "top_k": 0, "seed": 1})
        self.assertNotIn("error", answer)

    def test_each_type(self):
        prompts = [[1, *(3 + (i * 37 + k * k) % 250 for k in range(40))] for i in range(8)]
        for form in TYPES:
            data = model(form)
            server = self.serve({"m/model.gguf": data, "m/config.json": json.dumps({"parameters": {"chunk": {"string_value": "2"}}}).encode()})
            self.check(server, form, len(data), "loaded")
            self.write(server, prompts[0], 1)
            self.check(server, form, len(data), "prompt")
            self.write(server, prompts[0], 8)
            self.check(server, form, len(data), "text")
            self.write(server, prompts, 8)
            self.check(server, form, len(data), "eight texts")
            server.stop()


if __name__ == "__main__":
    unittest.main()
