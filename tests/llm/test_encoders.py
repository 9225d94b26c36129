# SPDX-License-Identifier: MIT
"""Encoders and pooled decoders: embeddings by /v1/embeddings against float64 arithmetic, and refusals."""
import base64
import json
import math
import pathlib
import struct
import tempfile
import threading
import unittest

import numpy as np

import asking
import gguf_files
from served import Server

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", *("##" + letter for letter in "abcdefghij"), "good", "bad", "film", "##s", "!"]
WIDTH, FEED, HEADS, LAYERS, CONTEXT, EPS = 32, 48, 4, 2, 40, 1e-6
SIZE = WIDTH // HEADS
TEXTS = ["good film", "a", "bad films!", "abcdefghij abcdefghij good bad", "bad good bad good bad good film"]
MOST = 1e-10  # mean square of the difference relative to the vectors


def vocabulary():
    pieces = [word if word[0] == "[" else word[2:] if word[:2] == "##" else "\u2581" + word for word in WORDS]
    return {"tokenizer.ggml.model": ("text", "bert"), "tokenizer.ggml.tokens": ("text", pieces), "tokenizer.ggml.token_type": ("i32", [3, 3, 3, 3] + [1] * (len(WORDS) - 4)),
            "tokenizer.ggml.token_type_count": ("u32", 2), "tokenizer.ggml.unknown_token_id": ("u32", 1), "tokenizer.ggml.cls_token_id": ("u32", 2),
            "tokenizer.ggml.seperator_token_id": ("u32", 3), "tokenizer.ggml.padding_token_id": ("u32", 0)}


def keys(arch, **more):
    usual = {"context_length": ("u32", CONTEXT), "embedding_length": ("u32", WIDTH), "block_count": ("u32", LAYERS), "feed_forward_length": ("u32", FEED),
             "attention.head_count": ("u32", HEADS), "attention.layer_norm_epsilon": ("f32", EPS), "attention.causal": ("bool", False)} | more
    return {"general.architecture": ("text", arch), **{f"{arch}.{name}": value for name, value in usual.items() if value is not None}, **vocabulary()}


def tensors(arch, seed=3):
    """Returns a tiny random encoder with GGUF's names: bert, or nomic-bert, which has fused q, k and v, a gate, and no
    biases."""
    rng = np.random.default_rng(seed)
    out = {}

    def matrix(name, rows, columns, bias=arch == "bert"):
        out[f"{name}.weight"] = (rng.standard_normal((rows, columns)) * 1.5 / np.sqrt(columns)).astype(np.float32)
        if bias:
            out[f"{name}.bias"] = (rng.standard_normal(rows) / 5).astype(np.float32)

    def norm(name):
        out[f"{name}.weight"] = (1 + rng.standard_normal(WIDTH) / 5).astype(np.float32)
        out[f"{name}.bias"] = (rng.standard_normal(WIDTH) / 5).astype(np.float32)

    for name, rows in (("token_embd", len(WORDS)), ("token_types", 2), *((("position_embd", CONTEXT),) if arch == "bert" else ())):
        matrix(name, rows, WIDTH, bias=False)
    norm("token_embd_norm")
    for i in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v") if arch == "bert" else ():
            matrix(f"blk.{i}.{name}", WIDTH, WIDTH)
        if arch != "bert":
            matrix(f"blk.{i}.attn_qkv", 3 * WIDTH, WIDTH)
            matrix(f"blk.{i}.ffn_gate", FEED, WIDTH)
        matrix(f"blk.{i}.attn_output", WIDTH, WIDTH)
        matrix(f"blk.{i}.ffn_up", FEED, WIDTH)
        matrix(f"blk.{i}.ffn_down", WIDTH, FEED)
        norm(f"blk.{i}.attn_output_norm")
        norm(f"blk.{i}.layer_output_norm")
    return out


def turned(x):
    """Rotates [tokens, heads, SIZE] by halves, by position."""
    angle = np.arange(len(x))[:, None, None] * 1000.0 ** (-np.arange(SIZE // 2) * 2 / SIZE)
    a, b = x[..., :SIZE // 2], x[..., SIZE // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def states(arch, weights, tokens):
    """Returns the last hidden state of each token in float64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    n = len(tokens)

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["token_embd.weight"][tokens] + w["token_types.weight"][0]
    if arch == "bert":
        x = x + w["position_embd.weight"][:n]
    x = norm(x, "token_embd_norm")
    for i in range(LAYERS):
        if arch == "bert":
            q, k, v = (linear(x, f"blk.{i}.attn_{part}") for part in "qkv")
        else:
            q, k, v = np.split(linear(x, f"blk.{i}.attn_qkv"), 3, -1)
        q, k, v = (part.reshape(n, HEADS, SIZE) for part in (q, k, v))
        if arch != "bert":
            q, k = turned(q), turned(k)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(SIZE)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hij,jhd->ihd", scores / scores.sum(-1, keepdims=True), v).reshape(n, WIDTH)
        x = norm(x + linear(y, f"blk.{i}.attn_output"), f"blk.{i}.attn_output_norm")
        up = linear(x, f"blk.{i}.ffn_up")
        if arch == "bert":
            up = up * (1 + np.vectorize(math.erf)(up / math.sqrt(2))) / 2
        else:
            gate = linear(x, f"blk.{i}.ffn_gate")
            up = gate / (1 + np.exp(-gate)) * up
        x = norm(x + linear(up, f"blk.{i}.ffn_down"), f"blk.{i}.layer_output_norm")
    return x


def pooled(x, how):
    vector = {"mean": x.mean(0), "cls": x[0], "last": x[-1]}[how]
    return vector / np.linalg.norm(vector)


def tokens_of(text):
    """Tokenises with a reference WordPiece."""
    out = [2]
    for word in text.replace("!", " !").split():
        at, front = 0, ""
        while at < len(word):
            end = next(end for end in range(len(word), at, -1) if front + word[at:end] in WORDS)
            out.append(WORDS.index(front + word[at:end]))
            at, front = end, "##"
    return [*out, 3]


def wanted(arch, weights, texts, how):
    return np.array([pooled(states(arch, weights, tokens_of(text) if isinstance(text, str) else text), how) for text in texts])


def error(got, want):
    return ((got - want) ** 2).sum() / (want ** 2).sum()


HUB = {"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings", "position_embd": "embeddings.position_embeddings",
       "token_embd_norm": "embeddings.LayerNorm", "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
       "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
       "layer_output_norm": "output.LayerNorm"}
NOMIC = HUB | {"token_embd_norm": "emb_ln", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "attn_output_norm": "norm1", "ffn_up": "mlp.fc11", "ffn_gate": "mlp.fc12",
               "ffn_down": "mlp.fc2", "layer_output_norm": "norm2"}
BERT_CONFIG = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": WIDTH, "intermediate_size": FEED, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "max_position_embeddings": CONTEXT, "type_vocab_size": 2, "layer_norm_eps": EPS, "hidden_act": "gelu", "position_embedding_type": "absolute", "vocab_size": len(WORDS),
               "pad_token_id": 0, "use_cache": True, "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "initializer_range": 0.02}
NOMIC_CONFIG = {"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": WIDTH, "n_inner": FEED, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 8192,
                "max_trained_positions": CONTEXT, "layer_norm_epsilon": EPS, "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
                "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "prenorm": False, "causal": False, "use_rms_norm": False, "parallel_block": False,
                "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "type_vocab_size": 2, "vocab_size": len(WORDS)}
TOKENIZER = {"version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
             "padding": {"strategy": {"Fixed": 4}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
             "added_tokens": [{"id": i, "content": WORDS[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(4)],
             "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
             "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
             "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
             "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                       "vocab": {word: i for i, word in enumerate(WORDS)}}}


def hub_tensors(weights, names, block):
    out = {}
    for name, array in weights.items():
        words = name.split(".")
        out[(block + words[1] + "." if words[0] == "blk" else "") + names[words[-2]] + "." + words[-1]] = array
    return out


def folder(name, config, arrays, modules=("Transformer", "Pooling", "Normalize"), pooling=None):
    """Returns the files of a sentence-transformers folder."""
    listed = [{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(modules)]
    files = {"config.json": config, "tokenizer.json": TOKENIZER, "modules.json": listed}
    if pooling is not None:
        files["1_Pooling/config.json"] = {"word_embedding_dimension": WIDTH, **pooling}
    return {f"{name}/{file}": json.dumps(document).encode() for file, document in files.items()} | {f"{name}/model.safetensors": gguf_files.safetensors(arrays)}


def parameters(**texts):
    return json.dumps({"parameters": {name: {"string_value": text} for name, text in texts.items()}}).encode()


class Encoders(unittest.TestCase):
    @classmethod
    def serve(cls, files):
        own = tempfile.TemporaryDirectory()
        cls.addClassCleanup(own.cleanup)
        for name, data in files.items():
            path = pathlib.Path(own.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        server = Server("--models", own.name)
        cls.addClassCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            pass
        return server

    @classmethod
    def setUpClass(cls):
        cls.bert, cls.nomic, cls.llama = tensors("bert"), tensors("nomic-bert"), gguf_files.llama_tensors()
        mean, cls_keys, last = (keys("bert", pooling_type=("u32", number)) for number in (1, 2, 3))
        whole = gguf_files.gguf(mean, cls.bert)
        cls.cases = {"mean": ("bert", cls.bert, "mean"), "cls": ("bert", cls.bert, "cls"), "last": ("bert", cls.bert, "last"), "usual": ("bert", cls.bert, "mean"),
                     "said": ("bert", cls.bert, "cls"), "nomic": ("nomic-bert", cls.nomic, "mean"), "folder": ("bert", cls.bert, "cls"), "plain": ("bert", cls.bert, "mean"),
                     "nomic_folder": ("nomic-bert", cls.nomic, "mean"), "roberta": ("bert", cls.bert, "mean")}
        nomic_keys = keys("nomic-bert", pooling_type=("u32", 1), **{"rope.freq_base": ("f32", 1000.0)})
        head = {"pooler.dense.weight": np.ones((WIDTH, WIDTH), np.float32), "pooler.dense.bias": np.ones(WIDTH, np.float32)}
        arrays = hub_tensors(cls.bert, HUB, "encoder.layer.")
        padded = arrays | {"embeddings.position_embeddings.weight": np.concatenate([np.full((2, WIDTH), 9, np.float32), arrays["embeddings.position_embeddings.weight"]]),
                           "lm_head.dense.weight": np.ones((WIDTH, WIDTH), np.float32), "lm_head.bias": np.ones(WIDTH, np.float32)}
        plain = folder("plain", BERT_CONFIG, {f"bert.{name}": array for name, array in (arrays | head).items()})
        del plain["plain/modules.json"]
        cls.server = cls.serve(
            {"mean.gguf": whole, "cls.gguf": gguf_files.gguf(cls_keys, cls.bert), "last.gguf": gguf_files.gguf(last, cls.bert), "usual.gguf": gguf_files.gguf(keys("bert"), cls.bert),
             "none.gguf": gguf_files.gguf(keys("bert", pooling_type=("u32", 0)), cls.bert), "rank.gguf": gguf_files.gguf(keys("bert", pooling_type=("u32", 4)), cls.bert),
             "said/any.gguf": whole, "said/config.json": parameters(pooling="cls", aliases="text-embedding-3-small"),
             "nomic.gguf": gguf_files.gguf(nomic_keys, cls.nomic), "story.gguf": gguf_files.gguf(gguf_files.llama_keys(), cls.llama),
             "decoder/any.gguf": gguf_files.gguf(gguf_files.llama_keys(), cls.llama), "decoder/config.json": parameters(pooling="last"),
             "small.gguf": gguf_files.gguf(keys("bert", context_length=("u32", 2 * CONTEXT)), cls.bert), "wrong/any.gguf": whole, "wrong/config.json": parameters(pooling="max"),
             "alibi.gguf": gguf_files.gguf(keys("bert", **{"attention.max_alibi_bias": ("f32", 8.0)}), cls.bert)}
            | folder("folder", BERT_CONFIG, arrays | head, pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
            | folder("nomic_folder", NOMIC_CONFIG, hub_tensors(cls.nomic, NOMIC, "encoder.layers."), pooling={"pooling_mode": "mean"}) | plain
            | folder("dense", BERT_CONFIG, arrays, modules=("Transformer", "Pooling", "Dense"), pooling={"pooling_mode_mean_tokens": True})
            | folder("roberta", BERT_CONFIG | {"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": CONTEXT + 2},
                     {f"roberta.{name}": array for name, array in padded.items()}, pooling={"pooling_mode": "mean"})
            | folder("padless", BERT_CONFIG | {"model_type": "roberta", "pad_token_id": CONTEXT}, arrays, pooling={"pooling_mode": "mean"})
            | folder("most", BERT_CONFIG, arrays, pooling={"pooling_mode_max_tokens": True}) | folder("lost", BERT_CONFIG, arrays)
            | folder("relative", BERT_CONFIG | {"position_embedding_type": "relative_key"}, arrays, pooling={"pooling_mode": "mean"})
            | folder("writer", BERT_CONFIG | {"is_decoder": True}, arrays, pooling={"pooling_mode": "mean"}))
        cls.url = cls.server.url

    def refusal(self, path, document):
        answer = asking.call(f"{self.url}{path}", document)
        self.assertIn("error", answer)
        return json.loads(answer["error"])["error"]

    def test_vectors(self):
        for name, (arch, weights, how) in self.cases.items():
            want = wanted(arch, weights, TEXTS, how)
            with self.subTest(name):
                self.assertLess(error(asking.vectors(self.url, name, TEXTS), want), MOST)
                for text, row in zip(TEXTS, want):
                    self.assertLess(error(asking.vectors(self.url, name, text), row), MOST)

    def test_tokens(self):
        lists = [tokens_of(text) for text in TEXTS]
        for asked in (lists, lists[0], [lists[2]], [TEXTS[0], lists[1]]):
            got = asking.vectors(self.url, "mean", asked)
            want = wanted("bert", self.bert, [asked] if isinstance(asked[0], int) else asked, "mean")
            self.assertLess(error(got, want), MOST)

    def test_many(self):
        """More texts than a run has rows, of all lengths: equal to the texts alone, up to the order of sums."""
        rng = np.random.default_rng(7)
        lists = [[int(token) for token in rng.integers(1, len(WORDS), rng.integers(1, CONTEXT + 1))] for _ in range(150)]
        self.assertLess(error(asking.vectors(self.url, "cls", lists), wanted("bert", self.bert, lists, "cls")), MOST)
        answer = asking.call(f"{self.url}/v1/embeddings", {"model": "cls", "input": lists})
        self.assertEqual([*range(150)], [row["index"] for row in answer["data"]])
        self.assertEqual(sum(map(len, lists)), answer["usage"]["prompt_tokens"])

    def test_others_are_not_blocked(self):
        """Another client's text is answered during a request of 2,048 texts."""
        rng = np.random.default_rng(8)
        lists = [[int(token) for token in rng.integers(1, len(WORDS), CONTEXT)] for _ in range(2048)]
        asking.vectors(self.url, "mean", "a")
        over = []
        threads = [threading.Thread(target=lambda: (asking.vectors(self.url, "mean", lists), over.append("many"))),
                   threading.Thread(target=lambda: (asking.vectors(self.url, "mean", "a"), over.append("one")))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(["one", "many"], over)

    def test_forms(self):
        want = wanted("bert", self.bert, TEXTS[:1], "mean")[0]
        coded = asking.call(f"{self.url}/v1/embeddings", {"model": "mean", "input": TEXTS[:1], "encoding_format": "base64"})
        self.assertLess(error(np.array(struct.unpack(f"<{WIDTH}f", base64.b64decode(coded["data"][0]["embedding"]))), want), MOST)
        self.assertEqual((len(tokens_of(TEXTS[0])),) * 2, (coded["usage"]["prompt_tokens"], coded["usage"]["total_tokens"]))
        short = asking.vectors(self.url, "mean", TEXTS[0], dimensions=5)[0]
        self.assertLess(error(short, want[:5] / np.linalg.norm(want[:5])), MOST)
        self.assertLess(error(asking.vectors(self.url, "text-embedding-3-small", TEXTS[0])[0], wanted("bert", self.bert, TEXTS[:1], "cls")[0]), MOST)
        rows = asking.call(f"{self.url}/v2/models/mean/infer", {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": TEXTS[:2]}]})["outputs"][0]
        self.assertLess(error(np.array(rows["data"]).reshape(rows["shape"]), wanted("bert", self.bert, TEXTS[:2], "mean")), MOST)

    def test_none(self):
        rows = asking.call(f"{self.url}/v2/models/none/infer", {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": TEXTS[:1]}]})["outputs"][0]
        want = states("bert", self.bert, tokens_of(TEXTS[0]))
        self.assertEqual([1, *want.shape], rows["shape"])
        self.assertLess(error(np.array(rows["data"]).reshape(want.shape), want), MOST)
        self.assertIn("pooling none", self.refusal("/v1/embeddings", {"model": "none", "input": "a"})["message"])

    def test_decoder(self):
        """The hidden state of the last token, before the language-model head."""
        tokens = [1, 260, 261, 286, 287, 270]
        got = asking.vectors(self.url, "decoder", [tokens, tokens[:3], tokens[:1]])
        for n, vector in zip((6, 3, 1), got):
            logits = gguf_files.llama_logits(self.llama, tokens[:n])[-1]
            direction = self.llama["token_embd.weight"].astype(np.float64) @ vector
            self.assertLess(error(direction / np.linalg.norm(direction), logits / np.linalg.norm(logits)), MOST)

    def test_models(self):
        one = asking.call(f"{self.url}/v1/models/mean")
        self.assertEqual((["embedding"], len(WORDS), CONTEXT, WIDTH, "bert"),
                         (one["capabilities"], one["meta"]["n_vocab"], one["meta"]["n_ctx"], one["meta"]["n_embd"], one["meta"]["architecture"]))
        for name in ("nomic_folder", "roberta", "small"):
            self.assertEqual(CONTEXT, asking.call(f"{self.url}/v1/models/{name}")["meta"]["n_ctx"])
        self.assertEqual(tokens_of(TEXTS[2]), asking.call(f"{self.url}/tokenize", {"model": "mean", "content": TEXTS[2], "add_special": True})["tokens"])

    def test_refused(self):
        rows = {row["name"]: row for row in asking.call(f"{self.url}/v2/repository/index", {})}
        for name, word in (("rank", "rank"), ("alibi", "bert.attention.max_alibi_bias"), ("dense", "sentence_transformers.models.Dense"), ("most", "pooling_mode_max_tokens"),
                           ("lost", "1_Pooling/config.json"), ("relative", "position_embedding_type"), ("writer", "is_decoder"), ("wrong", "pooling"), ("padless", "pad_token_id")):
            with self.subTest(name):
                self.assertEqual("UNAVAILABLE", rows[name]["state"])
                self.assertIn(word, rows[name]["reason"])
        for path, document in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}), ("/v1/completions", {"prompt": "a"})):
            self.assertIn("/v1/embeddings", self.refusal(path, {"model": "mean", **document})["message"])
        for document, word in (({"model": "mean", "input": "a" * 100}, str(CONTEXT)), ({"model": "mean", "input": [[5] * (CONTEXT + 1)]}, str(CONTEXT)),
                               ({"model": "mean", "input": [99]}, "is not a token"), ({"model": "mean", "input": []}, "list of texts is empty"), ({"model": "mean", "input": [[]]}, "has no tokens"),
                               ({"model": "mean", "input": [{}]}, "input"), ({"model": "mean"}, "input"), ({"model": "mean", "input": "a", "dimensions": WIDTH + 1}, "dimensions"),
                               ({"model": "mean", "input": "a", "encoding_format": "int8"}, "float"), ({"model": "story", "input": "a"}, "pooling")):
            with self.subTest(str(document)[:60]):
                problem = self.refusal("/v1/embeddings", document)
                self.assertEqual("invalid_request_error", problem["type"])
                self.assertIn(word, problem["message"])


if __name__ == "__main__":
    unittest.main()
