# SPDX-License-Identifier: MIT
"""Speculative decoding: the texts are those without a draft, in fewer runs."""

import json
import unittest

from repository import V2, AllocationsFail, Server
from test_text import DATA, LETTERS, TOKENIZER, counters, node, logits, parameters
from test_text_pages import PagesTest, chain, nothing, prompt

PERIOD, BEAT = 8, 13


def song(beat=BEAT, **sizes):
    """The next letter is the letter PERIOD tokens before, read from the pages, or the letter behind it after each |beat| tokens."""
    program = chain(**sizes)
    kept = [each for each in program["nodes"] if each["id"] in ("flat", "new", "put", "kept", "mine", "line", "places", "each", "column", "at", "last", "there", "value")]
    return program | {"nodes": [*kept, node("from", "sub", "last", PERIOD), node("hit", "equal", "places", "from"), node("parts", "where", "hit", "value", 0), node("sum", "sum", "parts", axis=1),
                                node("beat", "mod", "last", beat), node("struck", "equal", "beat", 0), node("one", "cast", "struck", dtype="float32"),
                                node("more", "reshape", "one", shape=["rows"]), node("total", "add", "sum", "more"), node("whole", "cast", "total", dtype="int32"),
                                node("letter", "mod", "whole", 26), *logits("letter")]}


def sing(prompt, count):
    """Returns the expected continuation."""
    tokens = [LETTERS.index(letter) for letter in prompt]
    while len(tokens) < len(prompt) + count:
        last = len(tokens) - 1
        tokens.append(((tokens[last - PERIOD] if last >= PERIOD else 0) + (last % BEAT == 0)) % 26)
    return "".join(LETTERS[token] for token in tokens[len(prompt):])


class Drafts(PagesTest):
    """Each freed page is filled with NaN."""

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), *cls.OPTIONS, env={"BEAMLINE_FAULT": "page:1+1"})

    @classmethod
    def fill(cls, repository):
        cls.put_chain(repository, "plain", document=song(pages=64), tensors=nothing(64))
        for device in ("opencl:0", "interp:0"):
            cls.put_chain(repository, f"gram.{device[:6]}", document=song(pages=64), tensors=nothing(64), instance_group=[{"device": device}], **parameters(draft="ngram"))
        cls.put_chain(repository, "other", document=song(beat=7, pages=64), tensors=nothing(64))
        cls.put_chain(repository, "brief", document=song(chunk=5, context=64))
        for name in ("plain", "other", "brief"):
            cls.put_chain(repository, f"by.{name}", document=song(pages=64), tensors=nothing(64), **parameters(draft=name))
        for name in ("perfect", "likely"):  # of one test: the first runs measure all sizes
            cls.put_chain(repository, name, document=song(pages=64), tensors=nothing(64), **parameters(draft="plain"))
        cls.put_chain(repository, "by.itself", document=song(pages=64), tensors=nothing(64), instance_group=[{"device": "interp:0"}], **parameters(draft="by.itself", draft_max=4, draft_p_min=0.01))
        cls.put_chain(repository, "tight.brief", document=song(), **parameters(draft="brief"))
        cls.put_chain(repository, "tight", document=song(), **parameters(draft="ngram"))
        cls.put_chain(repository, "short", document=song(pages=64), tensors=nothing(64), **parameters(draft="ngram", draft_max=3, draft_min=2))

    DRAFTED = ("gram.opencl", "gram.interp", "short", "by.plain", "by.other", "by.brief", "by.itself")

    def sing(self, model, text, count):
        self.assertEqual(sing(text, count), self.written(model, text, max_tokens=count, ignore_eos=True))

    def complete(self, model, text, **members):
        return self.ok(self.call("POST", "/completion", {"model": model, "prompt": text, "ignore_eos": True, "temperature": 0, **members})).json

    def test_same_text(self):
        for model in self.DRAFTED:
            for length in (1, 9, 31, 32, 33, 64, 150):
                for count in (1, 2, 3, 100):
                    self.sing(model, prompt(length, length), count)

    def test_fewer_runs(self):
        names = ("text_runs_total", "generated_tokens_total", "draft_tokens_total", "draft_tokens_accepted_total")
        self.complete("gram.opencl", prompt(3, 40), n_predict=200)  # measures the sizes of runs
        before = [self.server.metric(name) for name in names]
        answer = self.complete("gram.opencl", prompt(3, 41), n_predict=200)
        runs, tokens, proposed, accepted = (self.server.metric(name) - was for name, was in zip(names, before))
        self.assertEqual((200, proposed, accepted), (tokens, answer["timings"]["draft_n"], answer["timings"]["draft_n_accepted"]))
        self.assertEqual(200 - accepted, runs)  # each run has one token that was not proposed
        self.assertGreater(accepted, 0)
        self.assertGreaterEqual(proposed, accepted)

    def test_limits_of_a_request(self):
        """A proposal of 0 tokens is none."""
        timings = self.complete("gram.opencl", prompt(5, 60), n_predict=100, **{"speculative.n_max": 0})["timings"]
        self.assertNotIn("draft_n", timings)
        for lo, hi in ((0, 1), (1, 2), (1, 4), (4, 8), (4, 12), (8, 16)):
            answer = self.complete("gram.opencl", prompt(5, 60), n_predict=100, **{"speculative.n_min": lo, "speculative.n_max": hi, "speculative.p_min": 0.5})
            self.assertEqual(sing(prompt(5, 60), 100), answer["content"])
        self.assertNotIn("draft_n", self.complete("short", prompt(5, 60), n_predict=100, **{"speculative.n_min": 4})["timings"])
        for wrong in ({"speculative.n_max": -1}, {"speculative.n_maxx": 1}):
            answer = self.call("POST", "/completion", {"model": "short", "prompt": "a", **wrong})
            self.assertEqual(400, answer.status)
            self.assertIn("speculative.n_max", answer.json["error"]["message"])

    def test_sampled(self):
        """The sampler draws one random number for each token, whether the token was proposed or not."""
        for seed in range(8):
            for more in ({"temperature": 0.2}, {"temperature": 0.3, "top_k": 4, "repeat_penalty": 1.2}, {"temperature": 0.5, "mirostat": 2}, {"temperature": 0.2, "dry_multiplier": 0.1}):
                texts = [self.complete(model, prompt(seed, 50), n_predict=120, seed=seed, **more)["content"] for model in ("plain", *self.DRAFTED)]
                self.assertEqual([texts[0]] * len(texts), texts, (seed, more))

    def test_probabilities(self):
        asked = {"prompt": prompt(7, 40), "max_tokens": 60, "logprobs": 3, "n": 3, "seed": 5, "temperature": 0.2, "echo": True}
        answers = [self.ok(self.call("POST", "/v1/completions", {"model": model, **asked})).json["choices"] for model in ("plain", "gram.opencl", "by.other")]
        self.assertEqual(answers[:1] * 2, answers[1:])

    def test_stop_within_a_proposal(self):
        text = prompt(9, 50)
        for length in range(1, 20):
            stop = sing(text, 60)[40 - length:40]
            expected = sing(text, 60)[:sing(text, 60).index(stop)]
            self.assertEqual(expected, self.written("gram.opencl", text, max_tokens=60, stop=[stop]))
            self.assertEqual(expected, "".join(event["text_output"] for event in self.events("gram.opencl", text, max_tokens=60, stop=[stop])))

    def test_beside_others(self):
        self.at_once([lambda i=i: self.sing("gram.opencl", prompt(100 + i, 10 + 7 * i), 120) for i in range(8)])
        self.at_once([lambda i=i: self.sing("by.other", prompt(100 + i, 10 + 7 * i), 120) for i in range(8)])
        self.at_once([lambda i=i: self.sing(("by.plain", "plain", *self.DRAFTED)[i], prompt(120 + i, 10 + 7 * i), 120) for i in range(8)])

    def test_known_prefix(self):
        """The prefix cache has no tokens that were proposed and not accepted."""
        for model in ("gram.opencl", "by.other"):
            text = prompt(21, 70)
            self.sing(model, text, 90)
            for count in range(20, 90, 7):
                self.sing(model, text + sing(text, count), 40)
                self.sing(model, text + sing(text, count) + "qxz", 40)

    def test_whole_context(self):
        text = prompt(11, 300)
        for model in self.DRAFTED:
            answer = self.ok(self.generate(model, text, max_tokens=50, ignore_eos=True, exclude_input_in_output=True)).json
            self.assertEqual((sing(text, 20), "length"), (answer["text_output"], answer["finish_reason"]))

    def test_others_need_the_places(self):
        """A proposal needs a page that older texts have."""
        for model in ("tight", "tight.brief"):
            self.at_once([lambda i=i: self.sing(model, prompt(200 + i, 150 + i), 150) for i in range(8)])
            self.wait_for("text_pages_used", 0)

    def test_a_client_that_leaves(self):
        for model in ("gram.opencl", "by.plain"):
            connection, reader = self.open(model, prompt(9, 100), max_tokens=200, ignore_eos=True)
            self.read(reader, 3)
            connection.close()
            self.wait_for("text_pages_used", 0)
            self.sing(model, prompt(9, 100), 40)

    def test_likely_tokens_alone(self):
        """A draft model proposes no token with less than the probability p_min: the likeliest letter has 9% here."""
        asked = {"n_predict": 60, "speculative.n_max": 4}
        timings = [self.complete("likely", prompt(i, 33), **asked, **{"speculative.p_min": p_min})["timings"] for i in range(3) for p_min in (0.02, 0.2)]
        self.assertTrue(any("draft_n" in each for each in timings[::2]), timings)
        self.assertFalse(any("draft_n" in each for each in timings[1::2]), timings)

    def test_a_perfect_draft(self):
        """Greedy: the model accepts what a model with the same program proposes."""
        timings = [self.complete("perfect", prompt(i, 34), n_predict=100)["timings"] for i in range(5)]
        self.assertGreater(sum(each.get("draft_n", 0) for each in timings), 0)
        for each in timings:
            self.assertEqual(each.get("draft_n"), each.get("draft_n_accepted"))

    def test_slots(self):
        for model, drafts in (("plain", False), ("by.plain", True)):
            self.assertEqual({drafts}, {slot["speculative"] for slot in self.ok(self.call("GET", f"/slots?model={model}")).json})

    def test_unloading_the_draft(self):
        """A draft model belongs to its model, whether or not the folder's model is loaded."""
        self.ok(self.call("POST", "/v2/repository/models/other/unload"))
        self.sing("by.other", prompt(15, 60), 60)
        self.ok(self.load("other"))

    def test_refused(self):
        """Each error names the parameter, and other models serve."""
        swapped = TOKENIZER["model"]["vocab"] | {"a": 1, "b": 0}
        self.put_chain(self.repository, "swapped", document=song(), tokenizer=TOKENIZER | {"model": TOKENIZER["model"] | {"vocab": swapped}})
        self.repository.put("numbers", 1, counters())
        self.put(self.repository, "unpaged", counters(), **parameters(draft="ngram", context=64))
        for name, word, config in (("one", "draft", {"max_batch_size": 1, **parameters(draft="ngram")}), ("none", "draft_max", parameters(draft="ngram", draft_max=0)),
                                   ("many", "draft_max", parameters(draft="ngram", draft_max=256)), ("less", "draft_min", parameters(draft="ngram", draft_min=-1)),
                                   ("word", "draft_max", parameters(draft="ngram", draft_max="many")), ("unpaged", "draft", None),
                                   ("missing", "there is no model \"nobody\"", parameters(draft="nobody")), ("path", "../plain", parameters(draft="../plain")),
                                   ("words", "token 0 of \"swapped\" is \"b\"; it must be \"a\"", parameters(draft="swapped")), ("sums", "not a text model", parameters(draft="numbers")),
                                   ("weak", "draft_p_min", parameters(draft="plain", draft_p_min=2)), ("broken", "model \"unpaged\"", parameters(draft="unpaged"))):
            if config is not None:
                self.put_chain(self.repository, name, document=song(), **config)
            answer = self.load(name)
            self.assertIn(answer.status, (400, 422), (name, answer.body))
            self.assertIn(word, answer.json["error"], name)
        self.sing("plain", prompt(1, 40), 3)


class EveryAllocation(AllocationsFail, PagesTest):
    """Each allocation of a text with a draft fails once: the text is correct, since it can do without its draft, or it failed; and no
    state remains."""

    @classmethod
    def fill(cls, repository):
        cls.put_chain(repository, "other", document=song(beat=7))
        for name, draft in (("gram", "ngram"), ("by.other", "other")):
            cls.put_chain(repository, name, document=song(), **parameters(draft=draft))

    def test_t26_each_of_a_text(self):
        text = prompt(3, 40)
        asked = {"text_input": text, "max_tokens": 30, "ignore_eos": True, "exclude_input_in_output": True}
        for model in ("gram", "by.other"):
            self.assertEqual(sing(text, 30), self.written(model, text, max_tokens=30, ignore_eos=True))
            struck = 0
            for nth in range(1, 4000):
                before = self.arm(nth)
                answer = self.server.call("POST", f"{V2}{model}/generate", asked)
                if self.arm(0) == before:
                    break
                struck += 1
                if answer.status == 200:
                    self.assertEqual(sing(text, 30), answer.json["text_output"], nth)
                else:
                    self.assertEqual(503, answer.status, answer.body)
            self.assertGreater(struck, 30)
            self.assertEqual(0, self.server.settled("text_pages_used", 0))


@unittest.skipUnless((DATA / "stories260K").is_dir(), f"there is no stories260K in {DATA}")
class Stories(PagesTest):
    """The cases of llama.cpp's test_speculative.py, with stories260K as its own draft: a language model from its files."""

    BEGIN = "I believe the meaning of life is"

    @classmethod
    def fill(cls, repository):
        for name, values in (("plain", {}), ("grams", {"draft": "ngram"}), ("drafted", {"draft": "plain", "draft_min": 1, "draft_max": 8, "context": 256})):
            folder = repository.path / name
            folder.mkdir()
            (folder / "stories.gguf").symlink_to(DATA / "stories260K" / "stories260K-f32.gguf")
            (folder / "config.json").write_text(json.dumps(parameters(**values)))

    def complete(self, model, text=BEGIN, **members):
        return self.ok(self.call("POST", "/completion", {"model": model, "prompt": text, "return_tokens": True, "ignore_eos": True, **members})).json

    def test_with_and_without_draft(self):
        asked = {"temperature": 0.2, "top_k": 5, "seed": 4242, "n_predict": 64}
        plain = self.complete("plain", **asked)["tokens"]
        for model in ("grams", "drafted"):
            for _ in range(3):
                self.assertEqual(plain, self.complete(model, **asked)["tokens"], model)
        self.assertGreater(self.server.metric("draft_tokens_total"), 0)
        self.assertGreater(self.server.metric("draft_tokens_accepted_total"), 0)

    def test_different_draft_min_draft_max(self):
        plain = self.complete("plain", temperature=0, n_predict=64)["content"]
        for lo, hi in ((1, 2), (1, 4), (4, 8), (4, 12), (8, 16)):
            for model in ("grams", "drafted"):
                answer = self.complete(model, temperature=0, n_predict=64, **{"speculative.n_min": lo, "speculative.n_max": hi})
                self.assertEqual(plain, answer["content"], (model, lo, hi))

    def test_slot_ctx_not_exceeded(self):
        text = "Hello " * 60
        plain = self.complete("plain", text, temperature=0, top_k=1)["tokens"]
        answer = self.complete("drafted", text, temperature=0, top_k=1, **{"speculative.p_min": 0})
        self.assertEqual(256, answer["tokens_evaluated"] + answer["tokens_predicted"])
        self.assertEqual(plain[:len(answer["tokens"])], answer["tokens"])
        self.assertTrue(answer["truncated"] or answer["stop_type"] == "limit", answer)

    def test_multi_requests_parallel(self):
        plain = self.complete("plain", temperature=0, n_predict=64)["content"]
        answers = self.at_once([lambda model=model: self.complete(model, temperature=0, n_predict=64)["content"] for model in ("grams", "drafted") * 4])
        self.assertEqual([plain] * 8, answers)


if __name__ == "__main__":
    unittest.main()
