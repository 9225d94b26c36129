# SPDX-License-Identifier: MIT
"""Paged KV cache: each text is the same as alone, beside other texts, after a cached prefix, and after eviction of its
pages."""

import concurrent.futures
import math
import os
import pathlib
import struct
import sys
import time
import unittest

from repository import Repository, Server, V2, document, numbers, safetensors
from test_text import LETTERS, TOKENIZER, TextTest, logits, node, parameters

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from test_keys import KeyedCase  # noqa: E402

PAGE, PAGES, CONTEXT = 32, 12, 320


def chain(chunk=48, rows=8, pages=PAGES, context=CONTEXT):
    """The next letter is that of the sum of all tokens times their positions, read from the pages alone."""
    small = {"dtype": "int32", "shape": ["rows"]}
    return {"inputs": {"tokens": {"dtype": "int32", "shape": ["rows", "n"]}, "position": small, "slots": {"dtype": "int32", "shape": ["rows", "n"]},
                       "table": {"dtype": "int32", "shape": ["rows", "pages"]}},
            "dims": {"rows": [1, rows], "n": [1, chunk], "pages": [1, context // PAGE]},
            "nodes": [node("flat", "reshape", "seen", shape=[pages * PAGE]), node("new", "cast", "tokens", dtype="float32"), node("put", "index_put", "flat", "new", "slots"),
                      node("kept", "reshape", "put", shape=[pages, PAGE]), node("mine", "take", "kept", "table"),
                      node("line", "reshape", "mine", shape=["rows", "pages * 32"]), node("places", "arange", stop="pages * 32", dtype="int32"),
                      node("each", "arange", stop="n", dtype="int32"), node("column", "reshape", "position", shape=["rows", 1]), node("at", "add", "each", "column"),
                      node("last", "max", "at", axis=1, keepdim=True), node("there", "less_equal", "places", "last"), node("value", "where", "there", "line", 0),
                      node("weights", "add", "places", 1), node("factors", "mod", "weights", 26), node("parts", "mul", "value", "factors"), node("sum", "sum", "parts", axis=1),
                      node("odd", "mul", "sum", 15), node("whole", "cast", "odd", dtype="int32"), node("letter", "mod", "whole", 26), *logits("letter")],
            "outputs": ["logits"], "updates": {"seen": "kept"}}


def tell(prompt, count):
    """Returns the expected continuation."""
    tokens = [LETTERS.index(letter) for letter in prompt]
    while len(tokens) < len(prompt) + count:
        tokens.append(15 * sum((place + 1) % 26 * token for place, token in enumerate(tokens)) % 26)
    return "".join(LETTERS[token] for token in tokens[len(prompt):])


def nothing(pages=PAGES):
    """Returns a state that must not be read before it is written."""
    return safetensors({"seen": ("F32", [pages, PAGE], struct.pack("<f", math.nan) * (pages * PAGE))})


def prompt(seed, length):
    return "".join(LETTERS[(seed * 7 + i * i * (seed + 3) + i // 5) % 26] for i in range(length))


class PagesTest(TextTest):
    @classmethod
    def put_chain(cls, repository, name, tensors=None, document=None, tokenizer=TOKENIZER, **config):
        cls.put(repository, name, document or chain(), tokenizer, **config)
        (repository.path / name / "1" / "model.safetensors").write_bytes(tensors or nothing())

    def at_once(self, calls):
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            return [each.result() for each in [pool.submit(call) for call in calls]]

    def write(self, model, text, count):
        self.assertEqual(tell(text, count), self.written(model, text, max_tokens=count, ignore_eos=True))

    def wait_for(self, name, value):
        for _ in range(200):
            if self.server.metric(name) == value:
                return
            time.sleep(0.05)
        self.assertEqual(value, self.server.metric(name), name)


class Pages(PagesTest):
    """Each freed page is filled with NaN."""

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), *cls.OPTIONS, env={"BEAMLINE_FAULT": "page:1+1"})

    @classmethod
    def fill(cls, repository):
        for device in ("opencl:0", "interp:0"):
            cls.put_chain(repository, f"chain.{device[:6]}", instance_group=[{"device": device}])
        cls.put_chain(repository, "short", document=chain(chunk=5))
        cls.put_chain(repository, "alone", max_batch_size=1)
        cls.put_chain(repository, "waits")
        cls.put_chain(repository, "large", document=chain(pages=64), tensors=nothing(64))
        cls.put_chain(repository, "long", document=chain(chunk=256, pages=160, context=2048), tensors=nothing(160))
        unmasked = chain()
        unmasked["nodes"] = [node("value", "add", "line", 0) if each["id"] == "value" else each for each in unmasked["nodes"]]
        cls.put_chain(repository, "unmasked", document=unmasked, tensors=safetensors({"seen": ("F32", [PAGES, PAGE], bytes(4 * PAGES * PAGE))}))

    def test_alone(self):
        for model in ("chain.opencl", "chain.interp", "short", "alone"):
            for length in (1, 31, 32, 33, 64, 150):
                self.write(model, prompt(length, length), 40)

    def test_beside_others(self):
        before = self.server.metric("text_runs_total"), self.server.metric("generated_tokens_total")
        self.at_once([lambda i=i: self.write("large", prompt(100 + i, 10 + 7 * i), 90) for i in range(8)])
        runs, tokens = self.server.metric("text_runs_total") - before[0], self.server.metric("generated_tokens_total") - before[1]
        self.assertEqual(720, tokens)
        self.assertLess(runs, tokens)

    def reused(self, model, text, count):
        """Returns the number of prompt tokens from the prefix cache."""
        before = self.server.metric("prefix_tokens_total")
        self.write(model, text, count)
        return self.server.metric("prefix_tokens_total") - before

    def test_known_prefix(self):
        """Only new tokens run: for texts that continue a cached text, diverge within a page, repeat it, or continue generated
        text."""
        begin = prompt(5, 200)
        ran = []
        for text in (begin, begin, begin + "abc", begin + tell(begin, 5)[:4] + "z" * 40, begin + tell(begin, 5)[:3], begin[:100] + "zz", "b" + begin[1:], begin[:32], begin[:33], begin[:1],
                     begin + tell(begin, 30), begin[:31] + "q" * 40, begin[:31] + "q" * 20 + "r"):
            known = max((len(os.path.commonprefix([text[:-1], other])) for other in ran), default=0)
            self.assertEqual(known, self.reused("large", text, 30), text)
            ran.append((text + tell(text, 30))[:-1])  # the last generated token did not run

    def test_cache_prompt(self):
        """A request can disable the prefix cache for its prompt."""
        begin = prompt(77, 90)
        self.write("large", begin, 3)
        for cached, known in ((True, 89), (False, 0), (None, 89)):
            answer = self.server.call("POST", "/completion", {"model": "large", "prompt": begin, "n_predict": 3, "temperature": 0, "cache_prompt": cached}).json
            self.assertEqual((tell(begin, 3), known, 90 - known), (answer["content"], answer["timings"]["cache_n"], answer["timings"]["prompt_n"]))

    def test_prefix_beyond_others(self):
        """Of a prompt of 2,000 tokens with a cached prefix, only the new tokens run, also after 20 other conversations."""
        begin = prompt(41, 2000)
        self.write("long", begin, 3)
        for i in range(20):
            self.write("long", prompt(300 + i, 60), 3)
        self.assertEqual(2002, self.reused("long", begin + tell(begin, 3) + "xyz", 3))

    def test_copies_need_places(self):
        """A text that diverges within a page of another text gets a copy of the page, also if the copy evicts the other page,
        or if that page is on the host."""
        begin = prompt(63, 60)
        self.write("chain.opencl", begin, 2)
        self.at_once([lambda i=i: self.write("chain.opencl", begin + prompt(400 + i, 200), 50) for i in range(6)])
        self.wait_for("text_pages_used", 0)
        self.assertGreaterEqual(self.reused("chain.opencl", begin + "zzz", 3), 60)

    def test_t13_freed_pages_are_never_read(self):
        """Freed pages are NaN (BEAMLINE_FAULT): a program without the masks that pages.h requires would generate another
        text."""
        text = prompt(8, 40)
        self.write("large", text, 40)
        self.assertNotEqual(tell(text, 40), self.written("unmasked", text, max_tokens=40, ignore_eos=True))

    def test_same_prompt_at_once(self):
        text = prompt(77, 130)
        self.at_once([lambda: self.write("large", text, 60)] * 6)

    def test_others_need_the_places(self):
        """Eight texts of ten pages each with twelve pages: younger texts are evicted to the host, and cached pages are evicted
        first."""
        moved = self.server.metric("text_pages_moved_out_total"), self.server.metric("text_pages_moved_in_total")
        self.at_once([lambda i=i: self.write("chain.opencl", prompt(200 + i, 150 + i), 150) for i in range(8)])
        self.assertGreater(self.server.metric("text_pages_moved_out_total"), moved[0])
        self.assertGreater(self.server.metric("text_pages_moved_in_total"), moved[1])
        self.wait_for("text_pages_used", 0)
        before = self.server.metric("prefix_tokens_total")
        for i in (6, 7):  # from the host
            self.write("chain.opencl", prompt(200 + i, 150 + i), 20)
        self.assertGreater(self.server.metric("prefix_tokens_total"), before)

    def turns(self, model):
        """Returns the number of device submissions for texts of the model in the last minute."""
        events = self.ok(self.call("GET", "/api/v1/trace?seconds=60")).json["traceEvents"]
        return sum(event["ph"] == "X" and event["tid"] < 10000 and model in event["name"] for event in events)

    def test_waiting_costs_no_turns(self):
        """Texts without room for their pages run again when another text frees pages, and do not submit work in between."""
        before = self.server.metric("text_runs_total")
        self.at_once([lambda i=i: self.write("waits", prompt(500 + i, 200), 60) for i in range(4)])
        runs = self.server.metric("text_runs_total") - before
        self.assertGreater(runs, 120)  # no two texts fit at the same time
        self.assertLess(self.turns("waits") - runs, 30)

    def test_t27_a_client_that_leaves_frees_its_pages(self):
        connection, reader = self.open("long", prompt(9, 100), max_tokens=1900, ignore_eos=True)
        self.read(reader, 3)
        self.assertGreater(self.server.metric("text_pages_used"), 0)
        before = self.server.metric("generated_tokens_total")
        connection.close()
        self.wait_for("text_pages_used", 0)
        self.assertLess(self.server.metric("generated_tokens_total"), before + 1000)  # generation was not complete
        self.write("long", prompt(9, 100), 40)

    def test_pages_count_once(self):
        """Pages are charged with the program's state, of which the texts have parts."""
        held = self.server.metric("held_bytes")
        connection, reader = self.open("long", prompt(3, 100), max_tokens=1900, ignore_eos=True)
        self.read(reader, 3)
        self.assertGreater(self.server.metric("text_pages_used"), 0)
        self.assertEqual(held, self.server.metric("held_bytes"))
        connection.close()
        self.wait_for("text_pages_used", 0)
        self.assertEqual(held, self.server.metric("held_bytes"))
        self.assertGreater(self.server.metric("text_pages_kept"), 0)

    def test_whole_context(self):
        text = prompt(11, CONTEXT - 3)
        answer = self.ok(self.generate("large", text, max_tokens=50, ignore_eos=True, exclude_input_in_output=True)).json
        self.assertEqual((tell(text, 3), "length"), (answer["text_output"], answer["finish_reason"]))

    def test_no_inference(self):
        body = document(numbers("tokens", [1, 1], [0], "INT32"), numbers("position", [1], [0], "INT32"), numbers("slots", [1, 1], [0], "INT32"), numbers("table", [1, 1], [0], "INT32"))
        self.refused(400, self.infer("large", body), "generate")


class Others(PagesTest):
    """Programs without the form of a paged cache, and a program that reads pages of no text."""

    @classmethod
    def fill(cls, repository):
        program = chain()  # reads the whole state: a client's program has all of its pages
        program["state"] = {"seen": {"dtype": "float32", "shape": [4096, PAGE]}}
        program["nodes"] = [node("flat", "reshape", "seen", shape=[4096 * PAGE]), node("most", "max", "flat"), node("none", "mul", "most", 0),
                            *(each | {"attrs": {"shape": [4096, PAGE]}} if each["id"] == "kept" else each for each in program["nodes"][1:]),
                            node("told", "add", "logits", "none")]
        cls.put(repository, "reads_all", program | {"outputs": ["told"]}, **parameters(logits="told"))

    def test_reads_all(self):
        self.write("reads_all", prompt(3, 70), 70)

    def test_refused(self):
        two = chain()
        two["state"] = {"more": {"dtype": "float32", "shape": [3, PAGE]}}
        two["nodes"].append(node("most", "add", "more", 1))
        two["updates"]["more"] = "most"
        fixed = chain()
        fixed["inputs"]["table"]["shape"] = ["rows", 4]
        fixed["dims"].pop("pages")
        fixed["nodes"] = [{**each, "attrs": {key: [128 if size == "pages * 32" else size for size in value] if isinstance(value, list) else 128 if value == "pages * 32" else value
                                             for key, value in each.get("attrs", {}).items()}} for each in fixed["nodes"]]
        wide = chain()
        wide["inputs"]["slots"]["dtype"] = "int64"
        for name, program, word, config in (("two", two, "first axis", {}), ("fixed", fixed, "table", {}), ("wide", wide, "slots", {}), ("far", chain(), "context", parameters(context=321)),
                                            ("share", chain(), "share_prefix", parameters(share_prefix="some"))):
            self.put_chain(self.repository, name, document=program, **config)
            answer = self.load(name)
            self.assertIn(answer.status, (400, 422), (name, answer.body))
            self.assertIn(word, answer.json["error"], name)


class Keys(KeyedCase):
    """Cached prefixes of a key are invisible to other keys, unless the model shares them."""

    KEYS = {"one": ("infer",), "two": ("infer",), "root": ("admin,metrics",)}

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        for name, config in (("own", {}), ("all", parameters(share_prefix="all"))):
            PagesTest.put_chain(cls.repository, name, **config)
        cls.ARGS = ("--backends", "interp", "--models", str(cls.repository.path), "--log-level", "error")
        super().setUpClass()
        for _ in range(600):
            if cls.server.call("GET", "/v2/health/ready").status == 200:
                return
            time.sleep(0.05)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.repository.remove()

    def known(self, key, model, text):
        """Returns the number of cached tokens."""
        read = lambda: float(next(line for line in self.call("root", "GET", "/metrics").body.decode().splitlines() if line.startswith("beamline_prefix_tokens_total")).split()[1])
        before = read()
        answer = self.ok(self.call(key, "POST", f"{V2}{model}/generate", {"text_input": text, "max_tokens": 9, "ignore_eos": True, "exclude_input_in_output": True})).json
        self.assertEqual(tell(text, 9), answer["text_output"])
        return read() - before

    def test_t12_anothers_prefix_is_not_there(self):
        text = prompt(1, 100)
        self.assertEqual([0, 99, 0, 99, 99], [self.known(key, "own", text) for key in ("one", "one", "two", "two", "one")])

    def test_all(self):
        text = prompt(1, 100)
        self.assertEqual([0, 99, 99], [self.known(key, "all", text) for key in ("one", "two", "one")])


if __name__ == "__main__":
    unittest.main()
