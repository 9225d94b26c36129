# SPDX-License-Identifier: MIT
"""Experts of block-quantised types: tiny models against the same files with F32 experts; gpt-oss folders with MXFP4."""
import json
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
    """Returns all tensors except the experts."""
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
    """Returns gate, up and down: uint8 [EXPERTS, rows, bytes of a row]."""
    out = {}
    for seed, name in enumerate(("gate", "up", "down"), 3):
        raw = blocks(form, EXPERTS * FEED, WIDTH, seed, lambda seed, count: np.random.default_rng(seed).integers(0, 256, count, np.uint8))
        if form == "mxfp4":  # powers of two of the size of network weights
            scales = raw.reshape(-1, TYPES[form][1])
            scales[:, 0] = 118 + scales[:, 0] % 6
        out[f"blk.0.ffn_{name}_exps.weight"] = raw.reshape(EXPERTS, FEED, -1)
    return out


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
HUB = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
       "attn_output": "self_attn.o_proj", "attn_sinks": "self_attn.sinks", "ffn_gate_inp": "mlp.router"}
OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
HUB_CONFIG = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": WIDTH, "intermediate_size": FEED, "num_hidden_layers": 1, "num_attention_heads": HEADS,
              "num_key_value_heads": GROUPS, "head_dim": SIZE, "max_position_embeddings": CONTEXT, "num_local_experts": EXPERTS, "num_experts_per_tok": USED, "experts_per_token": USED,
              "initial_context_length": CONTEXT, "sliding_window": 4, "layer_types": ["sliding_attention"], "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "swiglu_limit": 7.0, "attention_bias": True, "tie_word_embeddings": True, "vocab_size": len(gguf_files.PIECES)}
MXFP4 = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}}


def hub_tensors():
    """Returns gpt-oss without its experts, and these: codes uint8 [EXPERTS, rows, blocks, 16], scales uint8 [EXPERTS, rows,
    blocks]."""
    out, rng = {}, np.random.default_rng(11)
    for name, array in tensors("gpt-oss").items():
        words = name.split(".")
        if "_exps" not in name:
            out[OUTER.get(name) or f"model.layers.0.{HUB[words[2]]}" + ("" if "sinks" in name else "." + words[-1])] = array
    for name, rows in (("gate_up_proj", 2 * FEED), ("down_proj", WIDTH)):
        out[f"model.layers.0.mlp.experts.{name}_bias"] = (rng.standard_normal((EXPERTS, rows)) / 10).astype(np.float32)
    packed = {name: (rng.integers(0, 256, (EXPERTS, rows, columns // 32, 16), np.uint8), rng.integers(118, 124, (EXPERTS, rows, columns // 32), np.uint8))
              for name, rows, columns in (("gate_up_proj", 2 * FEED, WIDTH), ("down_proj", WIDTH, FEED))}
    return out, packed


def unpacked(codes, scales):
    """Returns [EXPERTS, columns, rows], as in folders without quantisation."""
    values = np.stack([FP4[codes & 15], FP4[codes >> 4]], -1).reshape(*codes.shape[:3], 32) * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return np.ascontiguousarray(values.reshape(*codes.shape[:2], -1).swapaxes(1, 2))


def folder(name, config, arrays):
    half = len(arrays) // 2
    files = {"config.json": json.dumps(config).encode(), "tokenizer.json": json.dumps(gguf_files.hub_tokenizer()).encode()}
    files |= {f"model-0000{i + 1}-of-00002.safetensors": gguf_files.safetensors(dict(part)) for i, part in enumerate((list(arrays.items())[:half], list(arrays.items())[half:]))}
    index = {key: f"model-0000{1 + (i >= half)}-of-00002.safetensors" for i, key in enumerate(arrays)}
    return {f"{name}/{file}": data for file, data in (files | {"model.safetensors.index.json": json.dumps({"weight_map": index}).encode()}).items()}


FLOATS = json.dumps({"parameters": {"activations": {"string_value": "float32"}}}).encode()
ROUNDED = 1e-4  # with activations in int8


class Experts(ServedCase):
    def values(self, form, raw):
        """Returns float32 [EXPERTS, FEED, WIDTH]."""
        planes = test_quant.planes_of(form, EXPERTS * FEED, WIDTH, raw.reshape(EXPERTS * FEED, -1))
        graph = Graph()
        nodes, inputs = test_quant.Quantised.inputs(self, graph, planes)
        graph.output(rows=graph.arange(stop=EXPERTS * FEED, dtype="int32").block_take(nodes, form))
        return self.client.run(graph, inputs)["rows"].reshape(EXPERTS, FEED, WIDTH)

    def serve(self, files):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        for name, data in files.items():
            path = pathlib.Path(own.name) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        server = Server("--models", own.name)
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            pass
        return server

    def compare(self, server, name, exact, most=MOST):
        for n in (1, len(TOKENS)):
            got, want = (asking.logits(server.url, model, TOKENS[:n], len(gguf_files.PIECES)) for model in (name, exact))
            both = ~np.isnan(got) & ~np.isnan(want)
            self.assertGreater(both.sum(), 97)
            self.assertLess(((got - want)[both] ** 2).sum() / (want[both] ** 2).sum(), most)

    def test_types(self):
        files = {}
        raw = {form: expert_blocks(form) for form in TYPES}
        exact = {form: {name: self.values(form, array) for name, array in raw[form].items()} for form in TYPES}
        for name, (arch, form) in CASES.items():
            rest, said = tensors(arch), keys(arch, **MORE.get(arch, {}))
            packed = {key: gguf_files.Blocks(form, (EXPERTS, FEED, WIDTH), array) for key, array in raw[form].items()}
            files |= {f"{name}/model.gguf": gguf_files.gguf(said, rest | packed), f"{name}_exact.gguf": gguf_files.gguf(said, rest | exact[form])}
            files |= {f"{name}/config.json": FLOATS, f"{name}_rounded.gguf": files[f"{name}/model.gguf"]}
        server = self.serve(files)
        for name in CASES:
            with self.subTest(name):
                self.compare(server, name, f"{name}_exact")
                self.compare(server, f"{name}_rounded", f"{name}_exact", ROUNDED)

    def test_folders(self):
        """Codes and scales in different files, compared with the values; and mismatches."""
        rest, packed = hub_tensors()
        front = "model.layers.0.mlp.experts."
        codes, scales = ({f"{front}{name}_{end}": pair[i] for name, pair in packed.items()} for i, end in enumerate(("blocks", "scales")))
        exact = {f"{front}{name}": unpacked(*pair) for name, pair in packed.items()}
        short = {f"{front}down_proj_scales": scales[f"{front}down_proj_scales"][:, :-1]}
        server = self.serve(folder("packed", HUB_CONFIG | MXFP4, codes | rest | scales) | folder("exact", HUB_CONFIG, rest | exact)
                            | folder("short", HUB_CONFIG | MXFP4, codes | rest | scales | short)
                            | folder("lost", HUB_CONFIG | MXFP4, rest | {f"{front}gate_up_proj_scales": scales[f"{front}gate_up_proj_scales"]} | codes)
                            | folder("other", HUB_CONFIG | {"quantization_config": {"quant_method": "awq"}}, rest | exact))
        self.compare(server, "packed", "exact")
        rows = {row["name"]: row for row in asking.call(f"{server.url}/v2/repository/index", {})}
        for name, word in (("short", "down_proj_scales"), ("lost", 'scales of "blk.0.ffn_down_exps.weight"'), ("other", "quantization_config")):
            self.assertIn(word, rows[name]["reason"])
        self.assertEqual("MXFP4", asking.call(f"{server.url}/v1/models/packed")["meta"]["quantisation"])


if __name__ == "__main__":
    unittest.main()
