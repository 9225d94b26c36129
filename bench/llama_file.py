# SPDX-License-Identifier: MIT
"""Write a GGUF file of Llama 3.2 1B's sizes with random weights: PYTHON bench/llama_file.py VOCABULARY.gguf OUT.gguf

The types are those of a Q4_K_M file: Q4_K, and Q6_K for the embedding, which is also the head, and for half of the values and
of the products down.  The tokenizer is that of VOCABULARY.gguf, with unused tokens up to the number of Llama's.
"""
import sys

import gguf
import numpy as np

LAYERS, WIDTH, MLP, HEADS, KV_HEADS, VOCABULARY, CONTEXT = 16, 2048, 8192, 32, 8, 128256, 8192
BLOCK = 256        # weights of a block
SPREAD = 0.02      # approximate standard deviation of a weight
TOKENIZER = ("model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id", "add_bos_token", "add_space_prefix")


def halves(count, value):
    return np.full((count, 1), value, np.float16).view(np.uint8)


def q4_k(rng, count):
    """|count| blocks: scale, scale of the minima, 12 bytes of scales and minima of 6 bits, 128 bytes of codes of 4 bits.  A weight is
    d * scale * code - 7.5 d * minimum, so the mean is near 0."""
    d = SPREAD / (32 * 4.6 * 2)
    return np.concatenate([halves(count, d), halves(count, 7.5 * d), rng.integers(0, 256, (count, 140), np.uint8)], 1)


def q6_k(rng, count):
    """|count| blocks: 192 bytes of codes of 6 bits, 16 scales, a scale.  A weight is d * scale * (code - 32)."""
    scales = rng.integers(-32, 32, (count, 16), np.int8).view(np.uint8)
    return np.concatenate([rng.integers(0, 256, (count, 192), np.uint8), scales, halves(count, SPREAD / (18.5 * 18.5))], 1)


def add_weights(writer, rng, name, rows, columns, more_bits):
    data = (q6_k if more_bits else q4_k)(rng, rows * columns // BLOCK)
    writer.add_tensor(name, data.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q6_K if more_bits else gguf.GGMLQuantizationType.Q4_K)


def add_tokenizer(writer, path):
    fields = gguf.GGUFReader(path).fields
    for key in TOKENIZER:
        field = fields.get(f"tokenizer.ggml.{key}")
        if field is None:
            continue
        value = field.contents()
        missing = VOCABULARY - len(value) if key in ("tokens", "token_type") else 0
        value = value + ([f"<|unused_{i}|>" for i in range(missing)] if key == "tokens" else [int(gguf.TokenType.UNUSED)] * missing) if missing else value
        writer.add_key_value(field.name, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)


def main(vocabulary, out):
    writer, rng = gguf.GGUFWriter(out, "llama"), np.random.default_rng(1)
    writer.add_name("random weights of Llama 3.2 1B's sizes")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(2)
    add_tokenizer(writer, vocabulary)
    add_weights(writer, rng, "token_embd.weight", VOCABULARY, WIDTH, True)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{norm}.weight", np.ones(WIDTH, np.float32))
        for name, rows, columns in [("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH * KV_HEADS // HEADS, WIDTH), ("attn_v", WIDTH * KV_HEADS // HEADS, WIDTH),
                                    ("attn_output", WIDTH, WIDTH), ("ffn_gate", MLP, WIDTH), ("ffn_up", MLP, WIDTH), ("ffn_down", WIDTH, MLP)]:
            add_weights(writer, rng, f"blk.{i}.{name}.weight", rows, columns, name in ("attn_v", "ffn_down") and i % 2 == 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
