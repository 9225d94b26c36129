# SPDX-License-Identifier: MIT
"""Models with token inputs and text requests: a small BERT-like classifier, compared with the same program with token
requests."""

import concurrent.futures
import json
import struct
import unittest

from repository import V2, AllocationsFail, ModelsTest, document, envelope, floats, numbers, safetensors, split


WIDTH, CLASSES = 4, 3
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "very", "##ly", "not", "film", "\u6f22", "!", "caf", "##e"]
MARKS = [{"id": number, "content": WORDS[number], "special": True} for number in range(4)]
TOKENIZER = {
    "added_tokens": MARKS, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                       "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [3]}}},
    "decoder": {"type": "WordPiece"}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {word: number for number, word in enumerate(WORDS)}}}
TEXTS = {"very good film!": [2, 6, 4, 9, 11, 3], "Not good": [2, 8, 4, 3], "badly caf\u00e9 \u6f22xyz": [2, 5, 7, 12, 13, 10, 1, 3], "": [2, 3], "film " * 4: [2, 9, 9, 9, 9, 3]}


def node(name, op, *operands, **attrs):
    return {"id": name, "op": op, "in": list(operands), **({"attrs": attrs} if attrs else {})}


def classifier(shape=("batch", "n"), dtype="int32", mask="int32", types=False, ranges=None):
    """Returns one layer of attention over the present tokens, their mean, and a score per class."""
    kind = {"dtype": dtype, "shape": list(shape)}
    inputs = {"input_ids": kind, "attention_mask": {**kind, "dtype": mask}, **({"token_type_ids": kind} if types else {})}
    nodes = [node("embedded", "take", "embedding", "input_ids", axis=0)]
    if types:  # all types are 0
        nodes += [node("kinds", "cast", "token_type_ids", dtype="float32"), node("bias", "unsqueeze", "kinds", axis=-1), node("x", "add", "embedded", "bias")]
    else:
        nodes += [node("x", "mul", "embedded", 1.0)]
    nodes += [node("there", "cast", "attention_mask", dtype="float32"), node("row", "unsqueeze", "there", axis=-2), node("less", "sub", "row", 1.0), node("far", "mul", "less", 1e9),
              node("q", "matmul", "x", "wq"), node("k", "transpose", "x"), node("scores", "matmul", "q", "k"), node("masked", "add", "scores", "far"),
              node("p", "softmax", "masked", axis=-1), node("mixed", "matmul", "p", "x"), node("column", "unsqueeze", "there", axis=-1), node("kept", "mul", "mixed", "column"),
              node("sum", "sum", "kept", axis=1), node("many", "sum", "column", axis=1), node("mean", "div", "sum", "many"), node("logits", "matmul", "mean", "wc")]
    return {"inputs": inputs, "dims": ranges or {"batch": [1, 8], "n": [1, 12]},
            "nodes": nodes, "outputs": ["logits"]}


def counter(shape, dims):
    """Returns the tokens unchanged, to show the rows."""
    kind = {"dtype": "int32", "shape": list(shape)}
    return {"inputs": {"input_ids": kind, "attention_mask": kind}, **({"dims": dims} if dims else {}),
            "nodes": [node("ids", "mul", "input_ids", 1), node("mask", "mul", "attention_mask", 1)], "outputs": ["ids", "mask"]}


def weights():
    def some(name, *shape):
        count = 1
        for size in shape:
            count *= size
        return {name: ("F32", list(shape), floats(*(((i * 7 + len(name) * 3) % 11 - 5) / 3 for i in range(count))))}
    return safetensors({**some("embedding", len(WORDS), WIDTH), **some("wq", WIDTH, WIDTH), **some("wc", WIDTH, CLASSES)})


def parameters(**values):
    return {"parameters": {name: {"string_value": value} for name, value in values.items()}}


def texts(*items, name="text", shape=None):
    return numbers(name, shape or [len(items), 1], list(items), "BYTES")


class TextInputTest(ModelsTest):
    @classmethod
    def put(cls, repository, name, program, tokenizer=None, tensors=None, **config):
        repository.put(name, 1, program, tensors, **config)
        (repository.path / name / "1" / "tokenizer.json").write_text(json.dumps({**TOKENIZER, **(tokenizer or {})}))


class TextInput(TextInputTest):
    @classmethod
    def fill(cls, repository):
        text = parameters(text="text")
        for device in ("opencl:0", "interp:0"):
            cls.put(repository, f"mood.{device[:6]}", classifier(), None, weights(), instance_group=[{"device": device}], **text)
        repository.put("plain", 1, classifier(), weights())
        labels = [{"name": "logits", "data_type": "TYPE_FP32", "dims": [CLASSES], "label_filename": "moods"}]
        cls.put(repository, "labels", classifier(), None, weights(), output=labels, input=[{"name": "text", "data_type": "TYPE_STRING", "dims": [1]}],
                response_cache={"enable": True}, **text)
        (repository.path / "labels" / "moods").write_text("good\nbad\nnone\n")
        cls.put(repository, "wide", classifier(dtype="int64", mask="float32", types=True), None, weights(), **text)
        batch, both = {"batch": [1, 8]}, {"batch": [1, 8], "n": [2, 12]}
        cls.put(repository, "fixed", counter(("batch", 6), batch), {"truncation": {"max_length": 512, "direction": "Right"}}, **text)
        cls.put(repository, "strict", counter(("batch", 6), batch), **text)
        cls.put(repository, "eights", counter(("batch", "n"), both), {"padding": {"strategy": "BatchLongest", "pad_id": 0, "pad_to_multiple_of": 8, "direction": "Left"}},
                dynamic_batching={"max_queue_delay_microseconds": 60000000, "preferred_batch_size": [3]}, **text)
        cls.put(repository, "fours", counter(("batch", "n"), both), dims={"n": [1, 12, 4]}, **text)
        cls.put(repository, "single", counter(("n",), {"n": [1, 9]}), **parameters(text="sentence", tokens="input_ids", mask="attention_mask"))

    def rows(self, model, *items, **members):
        """Returns the outputs as lists."""
        answer = self.ok(self.infer(model, document(texts(*items, **members)))).json
        return {output["name"]: output["data"] for output in answer["outputs"]}

    def padded(self, ids, length):
        return ids + [0] * (length - len(ids)), [1] * len(ids) + [0] * (length - len(ids))

    def plain(self, *items):
        """Returns the program's own results for the tokens."""
        length = max(len(TEXTS[item]) for item in items)
        rows = [self.padded(TEXTS[item], length) for item in items]
        ids, mask = (numbers(name, [len(items), length], [value for row in rows for value in row[i]], "INT32") for i, name in enumerate(("input_ids", "attention_mask")))
        return self.ok(self.infer("plain", document(ids, mask))).json["outputs"][0]["data"]

    def assertClose(self, want, got):
        self.assertEqual(len(want), len(got))
        for one, two in zip(want, got):
            self.assertAlmostEqual(one, two, delta=1e-4)

    def test_a_classifier(self):
        for device in ("opencl", "interp"):
            for text in TEXTS:
                got = self.rows(f"mood.{device}", text)["logits"]
                self.assertClose(self.plain(text), got)
                self.assertGreater(max(got) - min(got), 0.01)
            self.assertClose(self.plain(*TEXTS), self.rows(f"mood.{device}", *TEXTS)["logits"])
            # in a batch with a longer text, a text has the same result as alone
            self.assertClose(self.plain("Not good"), self.rows(f"mood.{device}", "badly caf\u00e9 \u6f22xyz", "Not good")["logits"][CLASSES:])
        self.assertClose(self.plain("Not good", ""), self.rows("wide", "Not good", "")["logits"])

    def test_as_bytes(self):
        items = [text.encode() for text in ("Not good", "very good film!")]
        tail = b"".join(struct.pack("<I", len(item)) + item for item in items)
        asked = {"name": "text", "shape": [2, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(tail)}}
        answer = self.ok(self.infer("mood.opencl", *envelope(document(asked, parameters={"binary_data_output": True}), tail)))
        self.assertClose(self.plain("Not good", "very good film!"), struct.unpack("<6f", split(answer)[1]["logits"]))
        answer = self.ok(self.call("POST", V2 + "mood.opencl/infer", b"Not good", {"inference-header-content-length": "0", "content-type": "application/octet-stream"}))
        self.assertClose(self.plain("Not good"), struct.unpack("<3f", split(answer)[1]["logits"]) if split(answer)[1] else answer.json["outputs"][0]["data"])

    def test_generate_takes_it_too(self):
        answer = self.ok(self.call("POST", V2 + "mood.opencl/generate", {"text_input": "Not good"})).json
        self.assertClose(self.plain("Not good"), answer["logits"])
        self.assertEqual([2, 9, 3], self.ok(self.call("POST", V2 + "single/generate", {"text_input": "film"})).json["ids"])

    def test_classes_by_name(self):
        want = self.plain("very good film!")
        best = max(range(CLASSES), key=lambda i: want[i])
        asked = document(texts("very good film!"), outputs=[{"name": "logits", "parameters": {"classification": 1}}])
        for _ in range(2):
            item = self.ok(self.infer("labels", asked)).json["outputs"][0]["data"][0].split(":")
            self.assertEqual([str(best), ("good", "bad", "none")[best]], item[1:])
        # a repeated request is answered from the response cache
        self.assertEqual(1, self.ok(self.call("GET", V2 + "labels/stats")).json["model_stats"][0]["inference_stats"]["cache_hit"]["count"])

    def test_how_long_a_row_is(self):
        self.assertEqual({"ids": [2, 8, 4, 3], "mask": [1, 1, 1, 1]}, self.rows("single", "Not good", name="sentence", shape=[1]))
        self.assertEqual({"ids": [2, 8, 4, 3, 0, 0], "mask": [1, 1, 1, 1, 0, 0]}, self.rows("fixed", "Not good"))
        self.assertEqual([2, 5, 7, 12, 13, 3], self.rows("fixed", "badly caf\u00e9 \u6f22xyz")["ids"])  # truncated as the file says
        self.refused(400, self.infer("strict", document(texts("good", "badly caf\u00e9 \u6f22xyz"))), 'input "text", text 1: the text has over 6 tokens')
        self.assertEqual([2, 9, 9, 9, 9, 3], self.rows("strict", "film " * 4)["ids"])
        self.assertEqual([2, 9, 9, 9, 9, 3, 0, 0], self.rows("fours", "film " * 4)["ids"])  # padded in steps as the configuration says
        self.assertEqual({"ids": [2, 8, 4, 3], "mask": [1, 1, 1, 1]}, self.rows("fours", "Not good"))
        self.assertEqual({"batch": [1, 8], "n": [4, 12, 4]}, self.ok(self.call("GET", V2 + "fours/config")).json["dims"])

    def test_batches(self):
        """Texts of different lengths share a run if the file pads them to a multiple, here on the left."""
        asked = ("good", "not good", "very good film")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            got = list(pool.map(lambda text: self.rows("eights", text), asked))
        for row, ids in zip(got, ([2, 4, 3], [2, 8, 4, 3], [2, 6, 4, 9, 3])):
            self.assertEqual({"ids": [0] * (8 - len(ids)) + ids, "mask": [0] * (8 - len(ids)) + [1] * len(ids)}, row)
        stats = self.ok(self.call("GET", V2 + "eights/stats")).json["model_stats"][0]
        self.assertEqual((3, 1), (stats["inference_count"], stats["execution_count"]))

    def test_what_clients_are_shown(self):
        shown = self.ok(self.call("GET", V2 + "mood.opencl")).json
        self.assertEqual([{"name": "text", "datatype": "BYTES", "shape": [-1, 1]}], shown["inputs"])
        config = self.ok(self.call("GET", V2 + "wide/config")).json
        self.assertEqual([("text", "TYPE_STRING", [1])], [(row["name"], row["data_type"], row["dims"]) for row in config["input"]])
        self.assertEqual({"text": {"string_value": "text"}}, config["parameters"])
        self.assertEqual([{"name": "sentence", "datatype": "BYTES", "shape": [1]}], self.ok(self.call("GET", V2 + "single")).json["inputs"])

    def test_what_is_refused(self):
        def ids(name):
            return numbers(name, [1, 3], [2, 4, 3], "INT32")
        for asked, word in ((document(ids("input_ids")), 'computes its input "input_ids" from "text"'), (document(texts("a"), ids("attention_mask")), 'computes its input "attention_mask"'),
                            (document(), 'input "text" of model "mood.opencl" is missing'), (document(texts("a"), texts("b")), "twice"),
                            (document(numbers("text", [1, 1], [5], "INT32")), "has the datatype BYTES"), (document(texts("a", "b", shape=[1, 2])), "[N] or [N, 1]"),
                            (document(texts(*"abcdefghi")), "has 9 texts"), (document(texts("good " * 11)), "over 12 tokens"),
                            (document(texts("a"), numbers("more", [1], [1], "INT32")), 'no input "more"')):
            with self.subTest(word):
                self.refused(400, self.infer("mood.opencl", asked), word)
        self.refused(400, self.infer("single", document(texts("a", "b", name="sentence"))), "takes 1 to 1")

    def test_reasons(self):
        flat = classifier(shape=("batch", "n", 1))
        typed = {"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 1}}], "special_tokens": {}}}
        for status, program, tokenizer, config, word in (
                (400, classifier(), {}, parameters(text="text", tokens="ids"), 'name the input "ids"'), (400, classifier(), {}, parameters(mask="attention_mask"), "parameters.text"),
                (400, classifier(), {}, parameters(text="input_ids"), "is also an input"), (400, flat, {}, parameters(text="text"), "[tokens] or [texts, tokens]"),
                (400, classifier(mask="float16"), {}, parameters(text="text"), '"attention_mask" must have the shape of "input_ids"'),
                (501, classifier(types=True), typed, parameters(text="text"), "token types other than 0"),
                (501, classifier(), {"normalizer": {"type": "Nmt"}}, parameters(text="text"), 'tokenizer.json: normalizer: the type "Nmt"'),
                (400, classifier(), {}, {**parameters(text="text"), "input": [{"name": "text", "data_type": "TYPE_INT32", "dims": [1]}]}, "TYPE_STRING"),
                (400, classifier(), {}, {**parameters(text="text"), "input": [{"name": "input_ids", "data_type": "TYPE_INT32", "dims": [-1]}]}, 'names input "input_ids"')):
            with self.subTest(word):
                if program is flat:
                    program = {**counter(("batch", "n", 1), {"batch": [1, 8], "n": [1, 12]})}
                self.put(self.repository, "bad", program, tokenizer, weights() if "logits" in program["outputs"] else None, **config)
                self.refused(status, self.load("bad"), word)
        self.repository.put("none", 1, classifier(), weights(), **parameters(text="text"))
        self.refused(400, self.load("none"), "tokenizer.json is missing")


class EveryAllocation(AllocationsFail, TextInputTest):
    """Each allocation of a text request fails once: the request gets an error, and the next request is correct."""

    @classmethod
    def fill(cls, repository):
        cls.put(repository, "fixed", counter(("batch", 6), {"batch": [1, 8]}), {"truncation": {"max_length": 6}}, **parameters(text="text"))

    def test_t26_each_of_texts(self):
        asked, struck = document(texts("Not good", "badly caf\u00e9 \u6f22xyz", "film")), 0
        want = self.ok(self.infer("fixed", asked)).json["outputs"]
        self.assertEqual([2, 8, 4, 3, 0, 0, 2, 5, 7, 12, 13, 3, 2, 9, 3, 0, 0, 0], want[0]["data"])
        for nth in range(1, 2000):
            before = self.arm(nth)
            answer = self.server.call("POST", V2 + "fixed/infer", asked)
            if self.arm(0) == before:
                break
            struck += 1
            self.assertIn(answer.status, (200, 503), answer.body)
            if answer.status == 200:
                self.assertEqual(want, answer.json["outputs"])
        self.assertEqual(200, answer.status)
        self.assertGreater(struck, 30)


if __name__ == "__main__":
    unittest.main()
