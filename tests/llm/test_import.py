# SPDX-License-Identifier: MIT
"""GGUF files as models: a tiny llama against float64 arithmetic, the discovery of files, and refusals."""
import json
import os
import pathlib
import tempfile
import time
import unittest

import numpy as np

import asking
import gguf_files
from served import Server

TOKENS = [1, 260, 261, 286, 287, 270, 265, 288, 259, 280, 273, 262]


def changed(tensors, **more):
    """Returns the tensors with additions and replacements, and without those that are None; _ in a name stands for a dot."""
    tensors = dict(tensors)
    for name, array in more.items():
        tensors[name] = array
        if array is None:
            del tensors[name]
    return tensors


def folder(name, tensors, **more):
    """Returns a Hugging Face folder of a llama."""
    return folder_of(name, gguf_files.hub_tensors(gguf_files.halves(tensors)), gguf_files.hub_config() | more)


def folder_of(name, hub, config):
    """Returns the files of a Hugging Face folder, with the weights in two parts."""
    hub = list(hub.items())
    parts = {f"model-0000{i + 1}-of-00002.safetensors": dict(hub[i::2]) for i in range(2)}
    index = {"weight_map": {key: part for part, arrays in parts.items() for key in arrays}}
    texts = {"config.json": config, "tokenizer.json": gguf_files.hub_tokenizer(), "model.safetensors.index.json": index}
    return {f"{name}/{file}": json.dumps(document).encode() for file, document in texts.items()} | {
        f"{name}/{part}": gguf_files.safetensors(arrays) for part, arrays in parts.items()}


DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")) / "stories260K"


class Files(unittest.TestCase):
    def serve(self, files):
        """Returns a server with these files in its models folder: name -> bytes."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, data in files.items():
            path = pathlib.Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        server = Server("--models", folder.name)
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            pass
        return server

    def test_logits(self):
        tensors, halves = gguf_files.llama_tensors(), gguf_files.llama_tensors(dtype=np.float16)
        own = {"output.weight": np.float32(2) * tensors["token_embd.weight"][::-1]}
        keys = gguf_files.llama_keys()
        both = {name.replace("llama.", "exaone."): value for name, value in keys.items()} | {
            "general.architecture": ("text", "exaone"), "exaone.attention.layer_norm_epsilon": ("f32", gguf_files.EPS)}  # the keys of converters
        server = self.serve({"tiny.gguf": gguf_files.gguf(keys, tensors), "half/any.gguf": gguf_files.gguf(keys, halves),
                             "head/3/any.gguf": gguf_files.gguf(keys, tensors | own), "both.gguf": gguf_files.gguf(both, gguf_files.halves(tensors))})
        for model, arrays, most in (("tiny", tensors, 1e-10), ("half", halves, 1e-7), ("both", tensors, 1e-10)):
            wanted = gguf_files.llama_logits(arrays, TOKENS)
            for n in (1, 5, len(TOKENS)):
                with self.subTest(model, n=n):
                    self.assertLess(asking.error(asking.logits(server.url, model, TOKENS[:n], len(gguf_files.PIECES)), wanted[n - 1]), most)
        wanted = 2 * gguf_files.llama_logits(tensors, TOKENS)[-1][::-1]
        self.assertLess(asking.error(asking.logits(server.url, "head", TOKENS, len(gguf_files.PIECES)), wanted), 1e-10)

    def test_splits(self):
        """The parts of a split model are one model, in a folder of their own or beside other models; a part that arrives later
        completes it."""
        tensors, keys = gguf_files.llama_tensors(), gguf_files.llama_keys()
        late = gguf_files.split("late", keys, tensors, 3)
        files = gguf_files.split("flat", keys, tensors, 3) | {f"own/{name}": data for name, data in gguf_files.split("any", keys, tensors, 2).items()} | late
        files |= {f"lost/{name}": data for name, data in gguf_files.split("x", keys, tensors, 3).items()}
        for name in ("late-00002-of-00003.gguf", "lost/x-00001-of-00003.gguf"):
            del files[name]
        server = self.serve(files)
        rows = {row["name"]: row for row in asking.call(f"{server.url}/v2/repository/index", {})}
        self.assertEqual({"flat", "own", "late", "lost"}, {*rows})
        self.assertIn('"late-00002-of-00003.gguf" is missing', rows["late"]["reason"])
        self.assertIn('"x-00001-of-00003.gguf" is missing', rows["lost"]["reason"])
        wanted = gguf_files.llama_logits(tensors, TOKENS)[-1]
        for model in ("flat", "own"):
            self.assertLess(asking.error(asking.logits(server.url, model, TOKENS, len(gguf_files.PIECES)), wanted), 1e-10)
        (self.folder / "late-00002-of-00003.gguf").write_bytes(late["late-00002-of-00003.gguf"])
        end = time.monotonic() + 60
        while "error" in asking.call(f"{server.url}/v1/models/late") and time.monotonic() < end:
            time.sleep(0.1)
        self.assertLess(asking.error(asking.logits(server.url, "late", TOKENS, len(gguf_files.PIECES)), wanted), 1e-10)

    def test_folders(self):
        tensors = gguf_files.llama_tensors()
        tokens = json.dumps({"eos_token_id": [2, 7], "temperature": 0.5}).encode()
        server = self.serve(folder("plain", tensors) | {"plain/generation_config.json": tokens, "plain/consolidated.safetensors": b"not read"})
        wanted = gguf_files.llama_logits(tensors, TOKENS)
        for n in (1, 5, len(TOKENS)):
            self.assertLess(asking.error(asking.logits(server.url, "plain", TOKENS[:n], len(gguf_files.PIECES)), wanted[n - 1]), 1e-10)
        answer = asking.call(f"{server.url}/v2/models/plain/generate", {"text_input": "abc", "max_tokens": 4, "ignore_eos": True})
        self.assertEqual(answer["num_input_tokens"], 3)
        config = asking.call(f"{server.url}/v2/models/plain/config")
        self.assertEqual(config["platform"], "llm")
        again = {"parameters": {"config": json.dumps(config | {"parameters": {"chunk": {"string_value": "4"}}})}}
        self.assertNotIn("error", asking.call(f"{server.url}/v2/repository/models/plain/load", again))  # now in chunks of 4 tokens
        self.assertLess(asking.error(asking.logits(server.url, "plain", TOKENS, len(gguf_files.PIECES)), wanted[-1]), 1e-10)

    def test_forms_of_folders(self):
        """Relatives of llama whose folders have other names, fused q, k and v, or scales."""
        own = {"output.weight": np.float32(2) * gguf_files.llama_tensors(2)["token_embd.weight"]}
        tensors = gguf_files.llama_tensors() | own
        hub, config = gguf_files.halves(tensors), gguf_files.hub_config() | {"tie_word_embeddings": False}
        exaone = config | {"model_type": "exaone", "num_layers": gguf_files.LAYERS, "layer_norm_epsilon": gguf_files.EPS, "activation_function": "silu", "embed_dropout": 0.0}
        for name in ("num_hidden_layers", "rms_norm_eps", "hidden_act"):
            del exaone[name]
        scales = {"scale_emb": 12, "dim_model_base": 16, "scale_depth": 1.4}
        named = {"internlm2": (gguf_files.joined(hub), gguf_files.INTERNLM2_NAMES, "model.layers.",
                               config | {"model_type": "internlm2", "bias": False, "attn_implementation": "eager", "rope_scaling": {"type": "dynamic", "factor": 2.0}}),
                 "minicpm": (hub, gguf_files.HUB_NAMES, "model.layers.", config | {"model_type": "minicpm", **scales}),
                 "exaone": (hub, gguf_files.EXAONE_NAMES, "transformer.h.", exaone)}
        files = {}
        for name, (arrays, names, block, members) in named.items():
            files |= folder_of(name, gguf_files.hub_tensors(arrays, names, block), members)
        files |= folder_of("longer", gguf_files.hub_tensors(gguf_files.joined(hub), gguf_files.INTERNLM2_NAMES), named["internlm2"][3])
        files["longer/serving.json"] = json.dumps({"parameters": {"context": {"string_value": str(2 * gguf_files.CONTEXT)}}}).encode()
        files |= folder_of("scaleless", gguf_files.hub_tensors(hub), config | {"model_type": "minicpm"})
        server = self.serve(files)
        for name in named:
            words = {"embed": 12, "residual": 1.4 / gguf_files.LAYERS ** 0.5, "logits": 16 / gguf_files.WIDTH} if name == "minicpm" else {}
            wanted = gguf_files.llama_logits(tensors, TOKENS, **words)
            for n in (1, len(TOKENS)):
                with self.subTest(name, n=n):
                    self.assertLess(asking.error(asking.logits(server.url, name, TOKENS[:n], len(gguf_files.PIECES)), wanted[n - 1]), 1e-10)
        rows = {row["name"]: row for row in asking.call(f"{server.url}/v2/repository/index", {})}
        self.assertIn("dynamic", rows["longer"]["reason"])
        self.assertIn("scale", rows["scaleless"]["reason"])

    def test_refused_folders(self):
        tensors = gguf_files.llama_tensors()
        cases = {"type": ({"model_type": "strange"}, "strange"), "member": ({"attention_kind": "new"}, "attention_kind"), "act": ({"hidden_act": "softsign"}, "softsign"),
                 "quantised": ({"quantization_config": {"bits": 4}}, "quantization_config"), "rope": ({"rope_scaling": {"type": "strange"}}, "strange"),
                 "layers": ({"num_hidden_layers": 3}, "blk.2."), "windows": ({"layer_types": ["full_attention", "other"]}, "layer_types")}
        files = {}
        for name, (more, _) in cases.items():
            files |= folder(name, tensors, **more)
        files |= {path: data for path, data in folder("untold", tensors).items() if not path.endswith("tokenizer.json")}
        files |= {path: data for path, data in folder("part", tensors).items() if "00002-of" not in path}
        files |= {path: data if not path.endswith(".safetensors") else data[:900] for path, data in folder("short", tensors).items()}
        server = self.serve(files)
        rows = {row["name"]: row for row in asking.call(f"{server.url}/v2/repository/index", {})}
        for name, word in [(name, word) for name, (_, word) in cases.items()] + [("untold", "tokenizer.json"), ("part", "blk."), ("short", "safetensors")]:
            with self.subTest(name):
                self.assertEqual(rows[name]["state"], "UNAVAILABLE")
                self.assertIn(word, rows[name]["reason"])

    def test_text(self):
        tensors = gguf_files.llama_tensors()
        server = self.serve({"tiny.gguf": gguf_files.gguf(gguf_files.llama_keys(), tensors)})
        answer = asking.call(f"{server.url}/v2/models/tiny/generate", {"text_input": "abc", "max_tokens": 8, "ignore_eos": True, "exclude_input_in_output": True})
        tokens = [1, *(gguf_files.PIECES.index(piece) for piece in ("\u2581a", "b", "c"))]
        self.assertEqual(answer["num_input_tokens"], len(tokens))
        written = []
        for _ in range(8):
            written.append(int(gguf_files.llama_logits(tensors, tokens + written)[-1].argmax()))
        pieces = [gguf_files.PIECES[token] for token in written]
        data = b"".join(bytes([int(piece[3:5], 16)]) if piece.startswith("<0x") else piece.replace("\u2581", " ").encode() for piece in pieces)
        self.assertEqual(answer["text_output"], data.decode(errors="replace"))

    @unittest.skipUnless((DATA / "stories260K-f32.gguf").is_file(), "stories260K is not on this machine: $BEAMLINE_DATA says where")
    def test_story(self):
        """The likeliest tokens are those of llama2.c and llama.cpp."""
        wanted = json.loads((DATA / "expected_greedy.json").read_text())["cases"][0]["tokens"][:201]
        server = self.serve({"story.gguf": (DATA / "stories260K-f32.gguf").read_bytes()})
        answer = asking.call(f"{server.url}/completion", {"model": "story", "prompt": wanted[:1], "n_predict": 200, "temperature": 0, "return_tokens": True})
        self.assertEqual(answer["tokens"], wanted[1:])

    def test_refused(self):
        tensors, keys = gguf_files.llama_tensors(), gguf_files.llama_keys()
        cases = {
            "arch": (keys | {"general.architecture": ("text", "strange")}, tensors, "strange"),
            "missing": ({k: v for k, v in keys.items() if k != "llama.block_count"}, tensors, "llama.block_count"),
            "layers": (keys | {"llama.block_count": ("u32", 3)}, tensors, "blk.2.attn"),
            "fewer": (keys | {"llama.block_count": ("u32", 1)}, tensors, "blk.1."),
            "key": (keys | {"llama.attention.new_kind": ("u32", 1)}, tensors, "llama.attention.new_kind"),
            "tensor": (keys, changed(tensors, **{"blk.0.attn_gate.weight": tensors["output_norm.weight"]}), "blk.0.attn_gate.weight"),
            "gone": (keys, changed(tensors, **{"blk.1.ffn_up.weight": None}), "blk.1.ffn_up.weight"),
            "shape": (keys, changed(tensors, **{"blk.1.ffn_up.weight": tensors["blk.1.ffn_up.weight"][:, :32]}), "blk.1.ffn_up.weight"),
            "heads": (keys | {"llama.attention.head_count_kv": ("u32", 3)}, tensors, "head_count"),
            "none": (keys | {"llama.attention.head_count": ("u32", 0)}, tensors, "head_count"),
            "scaling": (keys | {"llama.rope.scaling.type": ("text", "su")}, tensors, "rope.scaling.type"),
            "odd": (keys | {"llama.rope.dimension_count": ("u32", 3)}, tensors, "rope.dimension_count"),
        }
        files = {f"{name}.gguf": gguf_files.gguf(k, t) for name, (k, t, _) in cases.items()}
        whole = gguf_files.gguf(keys, tensors)
        files |= {"short.gguf": whole[:len(whole) // 2], "empty.gguf": b"", "head.gguf": whole[:40]}
        server = self.serve(files)
        rows = {row["name"]: row for row in asking.call(f"{server.url}/v2/repository/index", {})}
        for name, (_, _, word) in cases.items():
            with self.subTest(name):
                self.assertEqual(rows[name]["state"], "UNAVAILABLE")
                self.assertIn(word, rows[name]["reason"])
        for name in ("short", "empty", "head"):
            self.assertEqual(rows[name]["state"], "UNAVAILABLE", name)


if __name__ == "__main__":
    unittest.main()
