# SPDX-License-Identifier: MIT
"""Experts of block-quantised types: a tiny model of each architecture beside the same file with the experts' values as F32."""
import pathlib
import tempfile
import unittest

import numpy as np

import asking
import gguf_files
import test_quant
from beamline.graph import Graph
from blocks import TYPES, blocks
from served import Server, ServedCase

WIDTH = FEED = 256
EXPERTS, USED, HEADS, GROUPS, SIZE, CONTEXT = 4, 2, 4, 2, 32, 64
TOKENS = [1, 260, 261, 286, 287, 270, 265]
MOST = 1e-9


def keys(arch, **more):
    usual = {"context_length": ("u32", CONTEXT), "embedding_length": ("u32", WIDTH), "block_count": ("u32", 1), "feed_forward_length": ("u32", FEED),
             "attention.head_count": ("u32", HEADS), "attention.head_count_kv": ("u32", GROUPS), "attention.key_length": ("u32", SIZE), "attention.value_length": ("u32", SIZE),
             "attention.layer_norm_rms_epsilon": ("f32", 1e-5), "rope.dimension_count": ("u32", SIZE), "expert_count": ("u32", EXPERTS), "expert_used_count": ("u32", USED)} | more
    return {"general.architecture": ("text", arch), **{f"{arch}.{name}": value for name, value in usual.items()}, **gguf_files.vocabulary()}


def random_tensors(shapes):
    rng = np.random.default_rng(5)
    return {name if "." in name.removeprefix("blk.0.") else f"{name}.weight":
            (rng.standard_normal(shape) / (10 if len(shape) == 1 else np.sqrt(shape[-1])) + (1 if "norm" in name else 0)).astype(np.float32) for name, shape in shapes.items()}


def tensors(arch):
    """All but the experts."""
    block = {"attn_norm": (WIDTH,), "attn_q": (HEADS * SIZE, WIDTH), "attn_k": (GROUPS * SIZE, WIDTH), "attn_v": (GROUPS * SIZE, WIDTH), "attn_output": (WIDTH, HEADS * SIZE),
             "ffn_norm": (WIDTH,), "ffn_gate_inp": (EXPERTS, WIDTH)}
    if arch == "qwen3moe":
        block |= {"attn_q_norm": (SIZE,), "attn_k_norm": (SIZE,)}
    if arch == "olmoe":
        block |= {"attn_q_norm": (HEADS * SIZE,), "attn_k_norm": (GROUPS * SIZE,)}
    if arch == "qwen2moe":
        block |= {"ffn_gate_shexp": (64, WIDTH), "ffn_up_shexp": (64, WIDTH), "ffn_down_shexp": (WIDTH, 64), "ffn_gate_inp_shexp": (WIDTH,)}
        block |= {f"{name}.bias": (block[name][0],) for name in ("attn_q", "attn_k", "attn_v")}
    if arch == "gpt-oss":
        block["post_attention_norm"] = block.pop("ffn_norm")
        block |= {"attn_sinks": (HEADS,)} | {f"{name}.bias": (block[name][0],) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp")}
        block |= {f"ffn_{name}_exps.bias": (EXPERTS, FEED) for name in ("gate", "up", "down")}
    return random_tensors({"token_embd": (len(gguf_files.PIECES), WIDTH), "output_norm": (WIDTH,)} | {f"blk.0.{name}": shape for name, shape in block.items()})


MORE = {"gpt-oss": {"attention.sliding_window": ("u32", 4)}}
CASES = {f"llama_{form}": ("llama", form) for form in TYPES} | {
    "qwen2moe_q4_k": ("qwen2moe", "q4_k"), "qwen3moe_q8_0": ("qwen3moe", "q8_0"), "qwen3moe_q6_k": ("qwen3moe", "q6_k"), "olmoe_q4_0": ("olmoe", "q4_0"),
    "gpt_oss_mxfp4": ("gpt-oss", "mxfp4")}


def expert_blocks(form):
    """gate, up and down: uint8 [EXPERTS, rows, bytes of a row]."""
    out = {}
    for seed, name in enumerate(("gate", "up", "down"), 3):
        raw = blocks(form, EXPERTS * FEED, WIDTH, seed, lambda seed, count: np.random.default_rng(seed).integers(0, 256, count, np.uint8))
        if form == "mxfp4":  # powers of two that values of a network have
            scales = raw.reshape(-1, TYPES[form][1])
            scales[:, 0] = 118 + scales[:, 0] % 6
        out[f"blk.0.ffn_{name}_exps.weight"] = raw.reshape(EXPERTS, FEED, -1)
    return out


class Experts(ServedCase):
    def values(self, form, raw):
        """float32 [EXPERTS, FEED, WIDTH]."""
        planes = test_quant.planes_of(form, EXPERTS * FEED, WIDTH, raw.reshape(EXPERTS * FEED, -1))
        graph = Graph()
        nodes, inputs = test_quant.Quantised.inputs(self, graph, planes)
        graph.output(rows=graph.arange(stop=EXPERTS * FEED, dtype="int32").block_take(nodes, form))
        return self.client.run(graph, inputs)["rows"].reshape(EXPERTS, FEED, WIDTH)

    def test_types(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        raw = {form: expert_blocks(form) for form in TYPES}
        exact = {form: {name: self.values(form, array) for name, array in raw[form].items()} for form in TYPES}
        for name, (arch, form) in CASES.items():
            rest, said = tensors(arch), keys(arch, **MORE.get(arch, {}))
            packed = {key: gguf_files.Blocks(form, (EXPERTS, FEED, WIDTH), array) for key, array in raw[form].items()}
            (pathlib.Path(own.name) / f"{name}.gguf").write_bytes(gguf_files.gguf(said, rest | packed))
            (pathlib.Path(own.name) / f"{name}_exact.gguf").write_bytes(gguf_files.gguf(said, rest | exact[form]))
        server = Server("--models", own.name)
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            pass
        for name in CASES:
            with self.subTest(name):
                for n in (1, len(TOKENS)):
                    got, want = (asking.logits(server.url, model, TOKENS[:n], len(gguf_files.PIECES)) for model in (name, f"{name}_exact"))
                    self.assertEqual(100, (~np.isnan(got)).sum())
                    both = ~np.isnan(got) & ~np.isnan(want)
                    self.assertGreater(both.sum(), 97)
                    self.assertLess(((got - want)[both] ** 2).sum() / (want[both] ** 2).sum(), MOST)


if __name__ == "__main__":
    unittest.main()
