# SPDX-License-Identifier: MIT
"""Writes GGUF files from numpy arrays, and computes the logits of a tiny llama."""
import json
import struct

import numpy as np

F32, F16 = 0, 1
# ggml's numbers of the types
TYPES = {"f32": F32, "f16": F16, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14, "iq4_nl": 20, "iq4_xs": 23,
         "mxfp4": 39}
KINDS = {"u16": (2, "<H"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def packed(kind, value):
    return text(value) if kind == "text" else struct.pack(KINDS[kind][1], value)


def number_of(kind):
    return 8 if kind == "text" else KINDS[kind][0]


def key(name, kind, value):
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ", 9, number_of(kind), len(value)) + b"".join(packed(kind, item) for item in value)
    return text(name) + struct.pack("<I", number_of(kind)) + packed(kind, value)


class Blocks:
    """A tensor of a block-quantised type: uint8 [.., bytes of a row]."""

    def __init__(self, form, shape, data):
        self.form, self.shape, self.data, self.nbytes = form, shape, data, data.nbytes

    def tobytes(self):
        return self.data.tobytes()


def type_of(array):
    return TYPES[array.form] if isinstance(array, Blocks) else F16 if array.dtype == np.float16 else F32


def gguf(keys, tensors):
    """Returns the bytes of a file.  |keys|: name -> (kind, value); |tensors|: name -> Blocks, or an array of float32 or
    float16."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), b""
    head += b"".join(key(name, *value) for name, value in keys.items())
    for name, array in tensors.items():
        shape = array.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, type_of(array), len(data))
        data += array.tobytes() + bytes(-array.nbytes % 32)
    return head + bytes(-len(head) % 32) + data


def split(name, keys, tensors, count):
    """Returns the files of a model in parts, with the layout of llama-gguf-split."""
    names, parts = list(tensors), {}
    for i in range(count):
        own = {key: tensors[key] for key in names[i * len(names) // count:(i + 1) * len(names) // count]}
        said = {"split.no": ("u16", i), "split.count": ("u16", count), "split.tensors.count": ("i32", len(names))}
        parts[f"{name}-{i + 1:05}-of-{count:05}.gguf"] = gguf((keys if i == 0 else {}) | said, own)
    return parts


WIDTH, FEED, HEADS, GROUPS, LAYERS, CONTEXT, EPS, BASE = 64, 96, 4, 2, 2, 64, 1e-5, 10000.0
SIZE = WIDTH // HEADS
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *"abcdefghijklmnopqrstuvwxyz", "\u2581a", "he", "\u2581the"]


def vocabulary():
    kinds = [2, 3, 3, *([6] * 256), *([1] * (len(PIECES) - 259))]
    return {"tokenizer.ggml.model": ("text", "llama"), "tokenizer.ggml.tokens": ("text", PIECES),
            "tokenizer.ggml.scores": ("f32", [0.0] * 259 + [-float(i) for i in range(len(PIECES) - 259)]),
            "tokenizer.ggml.token_type": ("i32", kinds), "tokenizer.ggml.bos_token_id": ("u32", 1), "tokenizer.ggml.eos_token_id": ("u32", 2)}


def llama_keys():
    return {"general.architecture": ("text", "llama"), "llama.context_length": ("u32", CONTEXT), "llama.embedding_length": ("u32", WIDTH),
            "llama.block_count": ("u32", LAYERS), "llama.feed_forward_length": ("u32", FEED), "llama.attention.head_count": ("u32", HEADS),
            "llama.attention.head_count_kv": ("u32", GROUPS), "llama.attention.layer_norm_rms_epsilon": ("f32", EPS),
            "llama.rope.freq_base": ("f32", BASE), **vocabulary()}


def llama_tensors(seed=1, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = {"token_embd": (len(PIECES), WIDTH)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.attn_q": (WIDTH, WIDTH), f"blk.{i}.attn_k": (GROUPS * SIZE, WIDTH), f"blk.{i}.attn_v": (GROUPS * SIZE, WIDTH),
                   f"blk.{i}.attn_output": (WIDTH, WIDTH), f"blk.{i}.ffn_gate": (FEED, WIDTH), f"blk.{i}.ffn_up": (FEED, WIDTH),
                   f"blk.{i}.ffn_down": (WIDTH, FEED)}
    tensors = {f"{name}.weight": (rng.standard_normal(shape) / np.sqrt(shape[1])).astype(dtype) for name, shape in shapes.items()}
    for name in ("output_norm", *(f"blk.{i}.{part}" for i in range(LAYERS) for part in ("attn_norm", "ffn_norm"))):
        tensors[f"{name}.weight"] = (1 + rng.standard_normal(WIDTH) / 10).astype(np.float32)
    return tensors


HUB_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def hub_config():
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "intermediate_size": FEED, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "max_position_embeddings": CONTEXT, "rms_norm_eps": EPS, "rope_theta": BASE,
            "hidden_act": "silu", "tie_word_embeddings": True, "vocab_size": len(PIECES), "torch_dtype": "float32"}


def hub_tokenizer():
    """Returns a BPE tokenizer without merges."""
    return {"version": "1.0", "added_tokens": [{"id": i, "content": PIECES[i], "special": True, "normalized": False} for i in range(3)],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {piece: i for i, piece in enumerate(PIECES)}, "merges": []}}


INTERNLM2_NAMES = {"token_embd": "model.tok_embeddings", "output_norm": "model.norm", "output": "output", "attn_norm": "attention_norm", "ffn_norm": "ffn_norm",
                   "attn_qkv": "attention.wqkv", "attn_output": "attention.wo", "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2"}
EXAONE_NAMES = {"token_embd": "transformer.wte", "output_norm": "transformer.ln_f", "output": "lm_head", "attn_norm": "ln_1", "ffn_norm": "ln_2",
                "attn_q": "attn.attention.q_proj", "attn_k": "attn.attention.k_proj", "attn_v": "attn.attention.v_proj", "attn_output": "attn.attention.out_proj",
                "ffn_gate": "mlp.c_fc_0", "ffn_up": "mlp.c_fc_1", "ffn_down": "mlp.c_proj"}


def joined(tensors):
    """Joins q, k and v to one matrix, interleaved by groups."""
    out = {name: array for name, array in tensors.items() if name.split(".")[-2] not in ("attn_q", "attn_k", "attn_v")}
    for i in range(LAYERS):
        parts = [tensors[f"blk.{i}.attn_{part}.weight"].reshape(GROUPS, -1, SIZE, WIDTH) for part in "qkv"]
        out[f"blk.{i}.attn_qkv.weight"] = np.concatenate(parts, 1).reshape(-1, WIDTH)
    return out


def halves(tensors):
    """Permutes the rows of a head for rotation by halves, as in folders, instead of by pairs."""
    return {name: array.reshape(-1, SIZE // 2, 2, WIDTH).swapaxes(1, 2).reshape(array.shape) if name.split(".")[-2] in ("attn_q", "attn_k") else array
            for name, array in tensors.items()}


def hub_tensors(tensors, names=None, block="model.layers."):
    """The same model with Hugging Face's names."""
    out = {}
    for name, array in tensors.items():
        words = name.split(".")
        out[(f"{block}{words[1]}." if words[0] == "blk" else "") + (names or HUB_NAMES)[words[-2]] + ".weight"] = array
    return out


def safetensors(tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": {"float16": "F16", "uint8": "U8"}.get(str(array.dtype), "F32"), "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def turned(x):
    """Rotates [tokens, heads, SIZE] by pairs, by position."""
    angle = np.arange(len(x))[:, None, None] * BASE ** (-np.arange(SIZE // 2) * 2 / SIZE)
    pairs = x.reshape(*x.shape[:2], SIZE // 2, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return np.stack([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1).reshape(x.shape)


def llama_logits(tensors, tokens, embed=1, residual=1, logits=1):
    """Returns the logits after each token in float64; the factors scale the embeddings, the output of each part, and the
    logits."""
    w = {name.removesuffix(".weight"): array.astype(np.float64) for name, array in tensors.items()}
    x, n = w["token_embd"][tokens] * embed, len(tokens)
    for i in range(LAYERS):
        h = norm(x, w[f"blk.{i}.attn_norm"])
        q = turned((h @ w[f"blk.{i}.attn_q"].T).reshape(n, HEADS, SIZE))
        k = turned((h @ w[f"blk.{i}.attn_k"].T).reshape(n, GROUPS, SIZE)).repeat(HEADS // GROUPS, 1)
        v = (h @ w[f"blk.{i}.attn_v"].T).reshape(n, GROUPS, SIZE).repeat(HEADS // GROUPS, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(SIZE)
        scores = np.exp(np.where(np.tri(n, dtype=bool), scores, -np.inf))
        y = np.einsum("hij,jhd->ihd", scores / scores.sum(-1, keepdims=True), v).reshape(n, WIDTH)
        x = x + y @ w[f"blk.{i}.attn_output"].T * residual
        h = norm(x, w[f"blk.{i}.ffn_norm"])
        gate = h @ w[f"blk.{i}.ffn_gate"].T
        x = x + gate / (1 + np.exp(-gate)) * (h @ w[f"blk.{i}.ffn_up"].T) @ w[f"blk.{i}.ffn_down"].T * residual
    return norm(x, w["output_norm"]) @ w.get("output", w["token_embd"]).T * logits
