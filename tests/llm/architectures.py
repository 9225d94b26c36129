# SPDX-License-Identifier: MIT
"""Make tiny random models of every architecture with transformers, as Hugging Face folders and as GGUF files, with expected
logits.

    PYTHON architectures.py FOLDER [LLAMA_CPP]    PYTHON has transformers; LLAMA_CPP: the source of llama.cpp, with which PYTHON
                                                  also has llama_cpp

FOLDER/hub/NAME is a Hugging Face folder with expected.npy from transformers; FOLDER/gguf/NAME has model.gguf with expected.npy
from llama.cpp: the logits after each of TOKENS.  FOLDER/encoders/hub and FOLDER/encoders/gguf have embedding models:
expected.npy has a vector for each of LENGTHS first tokens.  FOLDER/foreign/hub has folders of architectures that transformers
lacks; their expected results are llama.cpp's for the same models in FOLDER/foreign/gguf.
"""
import json
import logging
import pathlib
import shutil
import sys

import gguf_files

VOCABULARY = 320
TOKENS = [1, 20, 37, 5, 199, 64, 300, 8, 77, 100, 111, 45, 230, 12, 9, 88, 270, 13, 14, 15]
LENGTHS = (1, 7, len(TOKENS))
USUAL = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
OLD = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "bos_token_id": 1, "eos_token_id": 2}
FALCON = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "bos_token_id": 1, "eos_token_id": 2, "alibi": False}
EXPERTS = {"num_experts_per_tok": 2, "norm_topk_prob": True}
GRANITE = {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.22, "logits_scaling": 8.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}


HUB_ALONE = {"exaone4_windows"}  # llama.cpp uses windows in exaone4 only with 64 blocks


def usual(without="", **more):
    return {name: value for name, value in USUAL.items() if name not in without.split()} | more


ALL_HEADS = "num_key_value_heads"
# name: (model_type, members of the configuration)
MODELS = {
    "llama": ("llama", usual()), "llama_factors": ("llama", usual(rope_parameters=LLAMA3)),
    "llama_linear": ("llama", usual(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})),
    "llama_yarn": ("llama", usual(rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32})),
    "llama_biases": ("llama", usual(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "mistral": ("mistral", usual(sliding_window=None)), "mistral3": ("ministral3", usual(head_dim=16)),
    "qwen2": ("qwen2", usual()), "qwen3": ("qwen3", usual(head_dim=32)), "gemma": ("gemma", usual(head_dim=32)),
    "gemma2": ("gemma2", usual(head_dim=32, query_pre_attn_scalar=32, sliding_window=8)),
    "gemma3": ("gemma3_text", usual(head_dim=32, query_pre_attn_scalar=32, sliding_window=8, num_hidden_layers=7)),
    "phi2": ("phi", usual(ALL_HEADS, partial_rotary_factor=0.5)), "phi3": ("phi3", usual(sliding_window=8)), "gpt2": ("gpt2", OLD),
    "gptneox": ("gpt_neox", usual(ALL_HEADS, rotary_pct=0.25)), "gptneox_row": ("gpt_neox", usual(ALL_HEADS, rotary_pct=0.5, use_parallel_residual=False)),
    "gptj": ("gptj", OLD | {"rotary_dim": 8}), "falcon": ("falcon", FALCON), "falcon_groups": ("falcon", FALCON | {"num_kv_heads": 2, "new_decoder_architecture": True}),
    "stablelm": ("stablelm", usual()), "stablelm_norms": ("stablelm", usual(use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True)),
    "starcoder2": ("starcoder2", usual(sliding_window=None)), "olmo": ("olmo", usual()), "olmo2": ("olmo2", usual()), "granite": ("granite", usual(**GRANITE)),
    "smollm3": ("smollm3", usual(num_hidden_layers=4)), "command_r": ("cohere", usual()), "cohere2": ("cohere2", usual(sliding_window=8, num_hidden_layers=4)),
    "exaone4": ("exaone4", usual(sliding_window=None, layer_types=["full_attention"] * 2)), "exaone4_windows": ("exaone4", usual(sliding_window=8, num_hidden_layers=4)), "nemotron": ("nemotron", usual()), "glm4": ("glm4", usual(head_dim=16)),
    "ernie4_5": ("ernie4_5", usual(head_dim=16)), "hunyuan_dense": ("hunyuan_v1_dense", usual(head_dim=16)), "seed_oss": ("seed_oss", usual(head_dim=16)),
    "arcee": ("arcee", usual()), "mixtral": ("mixtral", usual(num_local_experts=4, sliding_window=None, num_experts_per_tok=2)),
    "qwen2moe": ("qwen2_moe", usual(num_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=48, num_experts_per_tok=2)),
    "qwen3moe": ("qwen3_moe", usual(num_experts=4, moe_intermediate_size=32, head_dim=16, **EXPERTS)),
    "olmoe": ("olmoe", usual(num_experts=4, num_experts_per_tok=2)), "granitemoe": ("granitemoe", usual(num_local_experts=4, num_experts_per_tok=2, **GRANITE)),
    "gpt_oss": ("gpt_oss", usual(num_local_experts=4, num_experts_per_tok=2, head_dim=16, sliding_window=8)),
}

NO_GROUPS = "num_key_value_heads bos_token_id eos_token_id"
# name: (model_type, members of the configuration, pooling in sentence-transformers' terms)
ENCODERS = {
    "bert_mean": ("bert", usual(NO_GROUPS, hidden_act="gelu"), "mean"), "bert_cls": ("bert", usual(NO_GROUPS, hidden_act="gelu", type_vocab_size=1), "cls"),
    "nomic_bert": ("nomic_bert", usual(NO_GROUPS), "mean"),
    "roberta": ("roberta", usual(NO_GROUPS, hidden_act="gelu", max_position_embeddings=129), "cls"),
    "xlm_roberta": ("xlm-roberta", usual(NO_GROUPS, hidden_act="gelu"), "mean"),
    "qwen3_last": ("qwen3", usual(head_dim=32), "lasttoken"), "llama_mean": ("llama", usual(), "mean"),
}
NOMIC = {"n_positions": 8192, "activation_function": "swiglu", "causal": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
         "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_emb_base": 1000.0, "layer_norm_epsilon": 1e-12}


OWN = usual("pad_token_id", rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False)
# name: (class, members of the configuration, prefixes of the tensors of a block)
FOREIGN = {
    "internlm2": ("InternLM2ForCausalLM", OWN | {"model_type": "internlm2", "bias": False}, gguf_files.INTERNLM2_NAMES, "model.layers."),
    "minicpm": ("MiniCPMForCausalLM", OWN | {"model_type": "minicpm", "scale_emb": 12, "dim_model_base": 16, "scale_depth": 1.4}, gguf_files.HUB_NAMES, "model.layers."),
    "exaone": ("ExaoneForCausalLM", {name: value for name, value in OWN.items() if name not in ("num_hidden_layers", "rms_norm_eps", "hidden_act")} | {
        "model_type": "exaone", "num_layers": 2, "layer_norm_epsilon": 1e-5, "activation_function": "silu", "embed_dropout": 0.0}, gguf_files.EXAONE_NAMES, "transformer.h."),
}


def write_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    twice = letters[:VOCABULARY - 3 - len(letters)]
    words = ["<unk>", "<s>", "</s>", *letters, *(letter * 2 for letter in twice)]
    merges = [(letter, letter) for letter in twice]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges, unk_token="<unk>"))
    tokenizer.add_special_tokens(words[:3])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))


def make_model(auto, kind, members):
    import torch
    import transformers
    torch.manual_seed(0)
    model = getattr(transformers, auto).from_config(transformers.AutoConfig.for_model(kind, **members), attn_implementation="eager").float().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter + noise * 0.1 if parameter.ndim == 1 else noise / parameter.shape[-1] ** 0.5)
    return model


def write_folder(folder, kind, members):
    import numpy
    import torch
    model = make_model("AutoModelForCausalLM", kind, members)
    with torch.no_grad():
        model.save_pretrained(folder)
        numpy.save(folder / "expected.npy", model(torch.tensor([TOKENS])).logits[0].numpy())
    write_tokenizer(folder)


def write_encoder(folder, kind, members, pooling):
    import numpy
    import torch
    model = make_model("AutoModel", kind, members)
    with torch.no_grad():
        model.save_pretrained(folder)
        states = [model(torch.tensor([TOKENS[:n]])).last_hidden_state[0].numpy() for n in LENGTHS]
    vectors = numpy.array([{"mean": x.mean(0), "cls": x[0], "lasttoken": x[-1]}[pooling] for x in states])
    numpy.save(folder / "expected.npy", vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True))
    write_tokenizer(folder)
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"} for i, (path, name) in
               enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    chosen = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "lasttoken": "pooling_mode_lasttoken"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64} | {name: key == pooling for key, name in chosen.items()}))


def write_foreign(folder, name, members, names, block):
    import numpy
    rng = numpy.random.default_rng(3)
    tensors = gguf_files.llama_tensors() | {f"{part}.weight": (rng.standard_normal((VOCABULARY, 64)) / 8).astype(numpy.float32) for part in ("token_embd", "output")}
    hub = gguf_files.hub_tensors(gguf_files.joined(tensors) if members["model_type"] == "internlm2" else tensors, names, block)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(members | {"architectures": [name]}))
    (folder / "model.safetensors").write_bytes(gguf_files.safetensors(hub))
    write_tokenizer(folder)


def usual_members(members):
    """Adds members that converters for older versions of transformers need."""
    rope = members.get("rope_parameters") or {}
    members.setdefault("rotary_pct", rope.get("partial_rotary_factor", 1.0))
    if members["model_type"] == "exaone":
        members |= {"num_hidden_layers": 2, "activation_function": "silu", "layer_norm_epsilon": 1e-5}
    if members["model_type"] == "gpt2":
        members["n_ctx"] = members["n_positions"]
    if members["model_type"] == "falcon" and not members.get("new_decoder_architecture"):
        members["num_kv_heads"] = members["n_head_kv"] = 1
    if members["model_type"] == "nomic_bert":
        members |= NOMIC
    return members


def set_vocab(writer):
    writer._set_vocab_gpt2()  # no other tokenizer fits the vocabulary
    if "type_vocab_size" in writer.hparams:
        writer.gguf_writer.add_token_type_count(writer.hparams["type_vocab_size"])


def convert(source, folder, out):
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    import gguf
    from conversion import ModelType, base, get_model_architecture, get_model_class
    if not hasattr(base.ModelBase, "usual_load"):
        base.ModelBase.usual_load = base.ModelBase.load_hparams
        base.ModelBase.load_hparams = staticmethod(lambda *args, **words: usual_members(base.ModelBase.usual_load(*args, **words)))
        base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    kind = get_model_class(get_model_architecture(base.ModelBase.load_hparams(folder, False), ModelType.TEXT))
    kind.set_vocab = set_vocab
    kind._is_tokenizer_xlmroberta = lambda self: False
    kind(folder, gguf.LlamaFileType.ALL_F32, out).write()


def llama_logits(path):
    from llama_cpp import Llama
    llama = Llama(path, n_ctx=128, logits_all=True, verbose=False, type_k=0, type_v=0, n_threads=1, flash_attn=False)
    llama.eval(TOKENS)
    return llama.scores[:len(TOKENS)]


def llama_vectors(path, pooling):
    from llama_cpp import Llama
    llama = Llama(path, n_ctx=128, embedding=True, pooling_type=pooling, verbose=False, type_k=0, type_v=0, n_threads=1, flash_attn=False)
    llama.tokenize = lambda text, *_, **__: TOKENS[:int(text)]
    return [llama.embed(str(n), normalize=True) for n in LENGTHS]


def write_gguf(source, folder, out, expect):
    import numpy
    out.mkdir(parents=True)
    try:
        convert(source, folder, out / "model.gguf")
        expected = expect(str(out / "model.gguf"))
    except Exception as error:  # llama.cpp cannot convert or run the architecture or this form
        (out / "model.gguf").unlink(missing_ok=True)
        (out / "refused.txt").write_text(f"{type(error).__name__}: {error}")
        return
    numpy.save(out / "expected.npy", numpy.array(expected))


def write_encoder_gguf(source, folder, name):
    kind, _, pooling = ENCODERS[name]
    write_gguf(source, folder / "hub" / name, folder / "gguf" / name, lambda path: llama_vectors(path, {"mean": 1, "cls": 2, "lasttoken": 3}[pooling]))
    if kind == "llama":  # the converter of llama omits the pooling
        (folder / "gguf" / name / "config.json").write_text(json.dumps({"parameters": {"pooling": {"string_value": pooling}}}))


def write_foreign_gguf(source, folder, name):
    write_gguf(source, folder / "hub" / name, folder / "gguf" / name, llama_logits)
    if (folder / "gguf" / name / "expected.npy").exists():
        shutil.copy(folder / "gguf" / name / "expected.npy", folder / "hub" / name)


def main():
    logging.disable(logging.WARNING)
    folder = pathlib.Path(sys.argv[1])
    for name, (kind, members) in MODELS.items():
        write_folder(folder / "hub" / name, kind, members)
        if len(sys.argv) > 2 and name not in HUB_ALONE:
            write_gguf(pathlib.Path(sys.argv[2]), folder / "hub" / name, folder / "gguf" / name, llama_logits)
    for name, row in FOREIGN.items():
        if len(sys.argv) > 2:
            write_foreign(folder / "foreign" / "hub" / name, *row)
            write_foreign_gguf(pathlib.Path(sys.argv[2]), folder / "foreign", name)
    for name, row in ENCODERS.items():
        write_encoder(folder / "encoders" / "hub" / name, *row)
        if len(sys.argv) > 2:
            write_encoder_gguf(pathlib.Path(sys.argv[2]), folder / "encoders", name)


if __name__ == "__main__":
    main()
