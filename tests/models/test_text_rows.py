# SPDX-License-Identifier: MIT
"""Continuous batching: texts as rows of one run; each is the same as alone, starts and ends between runs, and pays its
share."""

import concurrent.futures
import pathlib
import re
import sys
import threading
import time
import unittest

from repository import Repository, V2, document, numbers
from test_text import LETTERS, TextTest, logits, node, parameters

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from test_keys import KeyedCase  # noqa: E402

ROWS, CHUNK, PLACES, ENDLESS = 8, 3, 2000, 9000000


def walker(rows=ROWS, chunk=CHUNK):
    """The next letter is that of the sum of all tokens, whose state has the earlier tokens, and of the position of the run's
    first token."""
    return {"inputs": {"tokens": {"dtype": "int32", "shape": ["rows", "n"]}, "position": {"dtype": "int32", "shape": ["rows"]}, "past.sum": {"dtype": "int32", "shape": ["rows"]}},
            "dims": {"rows": [1, rows], "n": [1, chunk]},
            "nodes": [node("new", "sum", "tokens", axis=1), node("many", "cast", "new", dtype="int32"), node("all", "add", "past.sum", "many"),
                      node("present.sum", "mod", "all", 100003), node("seen", "add", "present.sum", "position"), node("letter", "mod", "seen", 26), *logits("letter")],
            "outputs": ["present.sum", "logits"]}


def walk(prompt, count, chunk=CHUNK):
    """Returns the expected continuation of |walker|."""
    tokens, total, fed = [LETTERS.index(letter) for letter in prompt], 0, 0
    while len(tokens) < len(prompt) + count:
        piece = tokens[fed:fed + chunk]
        total, place, fed = (total + sum(piece)) % 100003, fed, fed + len(piece)
        if fed == len(tokens):
            tokens.append((total + place) % 26)
    return "".join(LETTERS[token] for token in tokens[len(prompt):])


def stepper():
    """Takes one token per row, [rows], and returns the next token: its position plus the sum in the state."""
    one = {"dtype": "int64", "shape": ["rows"]}
    return {"inputs": {"tokens": one, "position": one, "past_key_values.0.sum": {"dtype": "int64", "shape": ["rows", 2]}}, "dims": {"rows": [1, ROWS]},
            "nodes": [node("column", "reshape", "tokens", shape=["rows", 1]), node("present.0.sum", "add", "past_key_values.0.sum", "column"),
                      node("first", "slice", "present.0.sum", start=[0], stop=[1], axis=[1]), node("flat", "reshape", "first", shape=["rows"]),
                      node("far", "add", "flat", "position"), node("next", "mod", "far", 26)],
            "outputs": ["next", "present.0.sum"]}


def fragile():
    """Like |walker|, but all logits are NaN if the sum of a text's tokens is 7."""
    walk = walker()
    walk["nodes"] += [node("bad", "equal", "present.sum", 7), node("nothing", "full", shape=[1], value="NaN"), node("factor", "where", "bad", "nothing", 1),
                      node("column", "reshape", "factor", shape=["rows", 1]), node("hurt", "mul", "logits", "column")]
    return {**walk, "outputs": ["present.sum", "hurt"]}


def recaller(mixed=False):
    """The next letter is that of the sum of all tokens times their positions: the state has each token at its position six
    times, and zeros elsewhere."""
    shape, small = ["rows", 2, PLACES, 3], {"dtype": "int32", "shape": ["rows"]}
    inputs = {"tokens": {"dtype": "int32", "shape": ["rows", "n"]}, "position": small, "past.seen": {"dtype": "int32", "shape": shape}}
    nodes = [node("tall", "reshape", "tokens", shape=["rows", 1, "n", 1]), node("six", "arange", stop=6, dtype="int32"), node("sixes", "reshape", "six", shape=[2, 1, 3]),
             node("present.seen", "mul", "tall", "sixes"),
             node("places", "arange", start=1, stop=PLACES + 1, dtype="int32"), node("weights", "reshape", "places", shape=[PLACES, 1]),
             node("old", "mul", "past.seen", "weights"), node("before", "sum", "old", axis=[1, 2, 3]),
             node("each", "arange", start=0, stop="n", dtype="int32"), node("next", "add", "each", 1), node("column", "reshape", "next", shape=["n", 1]),
             node("first", "reshape", "position", shape=["rows", 1, 1, 1]), node("here", "add", "column", "first"),
             node("new", "mul", "present.seen", "here"), node("now", "sum", "new", axis=[1, 2, 3]), node("all", "add", "before", "now")]
    if not mixed:
        return {"inputs": inputs, "dims": {"rows": [1, ROWS], "n": [1, CHUNK]}, "nodes": [*nodes, node("letter", "mod", "all", 26), *logits("letter")],
                "outputs": ["logits", "present.seen"]}
    nodes += [node("sum", "sum", "tokens", axis=1), node("added", "cast", "sum", dtype="int32"), node("present.sum", "add", "past.sum", "added"),
              node("both", "add", "all", "present.sum"), node("letter", "mod", "both", 26), *logits("letter")]
    return {"inputs": {**inputs, "past.sum": small}, "dims": {"rows": [1, ROWS], "n": [1, CHUNK]}, "nodes": nodes, "outputs": ["logits", "present.sum", "present.seen"]}


def recall(prompt, count, mixed=False):
    """Returns the expected continuation of |recaller|."""
    tokens = [LETTERS.index(letter) for letter in prompt]
    total, plain = sum((place + 1) * token for place, token in enumerate(tokens)), sum(tokens)
    while len(tokens) < len(prompt) + count:
        tokens.append((15 * total + mixed * plain) % 26)
        total, plain = total + len(tokens) * tokens[-1], plain + tokens[-1]
    return "".join(LETTERS[token] for token in tokens[len(prompt):])


def roomy():
    """Like |walker|, with a MiB of positions per text."""
    walk = walker(rows=16)
    walk["inputs"]["past.much"] = {"dtype": "int32", "shape": ["rows", 1 << 18]}
    del walk["inputs"]["past.sum"]
    walk["nodes"][:5] = [node("present.much", "contiguous", "tokens"), node("new", "sum", "tokens", axis=1), node("old", "sum", "past.much", axis=1), node("all", "add", "old", "new"),
                         node("seen", "add", "all", "position")]
    return {**walk, "outputs": ["logits", "present.much"]}


def heavy():
    """Like |walker|, with an additional MiB per text."""
    walk = walker(rows=16)
    walk["inputs"]["past.much"] = {"dtype": "float32", "shape": ["rows", 1 << 18]}
    walk["nodes"].append(node("present.much", "add", "past.much", 1))
    return {**walk, "outputs": [*walk["outputs"], "present.much"]}


def whole():
    """Takes all tokens in each run: the sum of a row, which must not include other texts of the same length."""
    return {"inputs": {"tokens": {"dtype": "int32", "shape": ["rows", "n"]}}, "dims": {"rows": [1, ROWS], "n": [1, 64]},
            "nodes": [node("sum", "sum", "tokens", axis=1), node("letter", "mod", "sum", 26), *logits("letter")], "outputs": ["logits"]}


class Rows(TextTest):
    @classmethod
    def fill(cls, repository):
        for device in ("opencl:0", "interp:0"):
            cls.put(repository, f"walker.{device[:6]}", walker(), instance_group=[{"device": device}], **parameters(context=100000))
        cls.put(repository, "alone", walker(), max_batch_size=1, **parameters(context=100000))
        cls.put(repository, "pairs", walker(), dynamic_batching={"preferred_batch_size": [2]}, **parameters(context=100000))
        cls.put(repository, "endless", walker(), **parameters(context=10000000))
        cls.put(repository, "recaller", recaller())
        cls.put(repository, "mixed", recaller(True), **parameters(context=1000))
        cls.put(repository, "stepper", stepper(), **parameters(context=1000, logits="next"))
        cls.put(repository, "fragile", fragile(), **parameters(context=1000, logits="hurt"))
        cls.put(repository, "whole", whole())

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.held = cls.server.metric("held_bytes")

    def told(self, model, text, stream, **members):
        """Returns (text, reason, tokens) of one answer, or of its events."""
        if stream:
            events = self.events(model, text, **members)
            return "".join(event["text_output"] for event in events), events[-1]["finish_reason"], events[-1]["num_output_tokens"]
        answer = self.ok(self.generate(model, text, exclude_input_in_output=True, **members)).json
        return answer["text_output"], answer["finish_reason"], answer["num_output_tokens"]

    def runs(self):
        """Returns the numbers of tokens and runs so far."""
        return self.server.metric("generated_tokens_total"), self.server.metric("text_runs_total")

    def at_once(self, calls):
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            return [each.result() for each in [pool.submit(call) for call in calls]]

    def test_alone_as_the_model_says(self):
        for model in ("walker.opencl", "walker.interp", "alone", "pairs"):
            for prompt in ("b", "bcd", "bcde", "bxyzabcdefg"):
                self.assertEqual(walk(prompt, 20), self.written(model, prompt, max_tokens=20, ignore_eos=True))
        config = self.ok(self.call("GET", f"{V2}walker.opencl/config")).json
        self.assertEqual(ROWS, config["max_batch_size"])

    def test_the_same_together(self):
        """Texts of different lengths with different ends, greedy and sampled, as one answer and as events."""
        wishes = []
        for i in range(2 * ROWS + 3):
            members = {"max_tokens": 3 + 17 * (i % 5), "ignore_eos": True}
            if i % 3 == 1:
                members.update(temperature=2.0, seed=i, top_k=5 if i % 2 else -1)
            if i % 4 == 2:
                members.update(stop=[LETTERS[i % 26], LETTERS[(i + 3) % 26] + LETTERS[(i + 4) % 26]])
            wishes.append((LETTERS[i % 25 + 1] * (1 + i % 7), i % 2 == 0, members))
        for model, expected in (("walker.opencl", walk), ("walker.interp", walk), ("pairs", walk), ("recaller", recall),
                                ("mixed", lambda prompt, count: recall(prompt, count, True))):
            alone = [self.told(model, prompt, stream, **members) for prompt, stream, members in wishes]
            for prompt, found in zip(wishes, alone):
                if set(prompt[2]) == {"max_tokens", "ignore_eos"}:
                    self.assertEqual((expected(prompt[0], prompt[2]["max_tokens"]), "length", prompt[2]["max_tokens"]), found)
            for _ in range(4):
                together = self.at_once([lambda wish=wish: self.told(model, wish[0], wish[1], **wish[2]) for wish in wishes])
                self.assertEqual(alone, together)
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))

    def test_they_share_runs(self):
        for model, shares in (("walker.opencl", True), ("alone", False)):
            self.written(model, "b", max_tokens=100, ignore_eos=True)
            tokens, runs = self.runs()
            found = self.at_once([lambda i=i: self.written(model, LETTERS[i], max_tokens=8000, ignore_eos=True) for i in range(ROWS)])
            self.assertEqual([walk(LETTERS[i], 8000) for i in range(ROWS)], found)
            tokens, runs = (now - before for now, before in zip(self.runs(), (tokens, runs)))
            self.assertEqual(8000 * ROWS, tokens)
            self.assertEqual(tokens, runs) if not shares else self.assertLess(runs, tokens / 2)
        stats = self.ok(self.call("GET", f"{V2}walker.opencl/stats")).json["model_stats"][0]["instance_stats"][0]
        self.assertLess(stats["execution_count"], stats["inference_count"])

    def test_places(self):
        """By default a text has as many tokens as positions; texts start and end while others continue."""
        answer = self.ok(self.generate("recaller", "bcd", max_tokens=10 * PLACES, ignore_eos=True, exclude_input_in_output=True)).json
        self.assertEqual((recall("bcd", PLACES - 3), PLACES - 3), (answer["text_output"], answer["num_output_tokens"]))
        for model, mixed in (("recaller", False), ("mixed", True)):
            calls = [(LETTERS[i % 26] * (1 + i % 9), 1 + 97 * i % 400) for i in range(60)]
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                found = pool.map(lambda call, model=model: self.written(model, call[0], max_tokens=call[1], ignore_eos=True), calls)
                self.assertEqual([recall(prompt, count, mixed) for prompt, count in calls], list(found))
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))

    def test_one_token_of_each(self):
        """[rows]: each row has one token, and the model chooses the next token itself."""
        def expected(prompt, count):
            tokens, total = [LETTERS.index(letter) for letter in prompt], 0
            for place in range(len(prompt) + count - 1):
                total += tokens[place]
                if place + 1 == len(tokens):
                    tokens.append((total + place) % 26)
            return "".join(LETTERS[token] for token in tokens[len(prompt):])
        found = self.at_once([lambda i=i: self.written("stepper", LETTERS[i] * (i + 1), max_tokens=100, ignore_eos=True) for i in range(6)])
        self.assertEqual([expected(LETTERS[i] * (i + 1), 100) for i in range(6)], found)

    def test_without_memory(self):
        """Without state: texts of equal length share runs, other texts do not, and no text affects another."""
        def expected(prompt, count):
            tokens = [LETTERS.index(letter) for letter in prompt]
            for _ in range(count):
                tokens.append(sum(tokens) % 26)
            return "".join(LETTERS[token] for token in tokens[len(prompt):])
        prompts = [LETTERS[i] * (1 + i % 2) for i in range(12)]
        for _ in range(3):
            found = self.at_once([lambda prompt=prompt: self.written("whole", prompt, max_tokens=40, ignore_eos=True) for prompt in prompts])
            self.assertEqual([expected(prompt, 40) for prompt in prompts], found)

    def test_a_failure_is_one_texts_own(self):
        """A failed text, or a text that is refused before it runs, does not affect the texts in the same run."""
        def other(prompt):
            return self.written("fragile", prompt, max_tokens=300, ignore_eos=True)
        expected = {}
        for prompt in ("b", "cc", "kkkk"):
            answer = self.generate("fragile", prompt, max_tokens=300, ignore_eos=True, exclude_input_in_output=True)
            expected[prompt] = answer.json["text_output"] if answer.status == 200 else None
        self.assertTrue(any(expected.values()))
        for _ in range(3):
            calls = [lambda: self.generate("fragile", "h", max_tokens=5), lambda: self.generate("fragile", "dbd", max_tokens=5),
                     lambda: self.generate("fragile", "b", temperature=-1), lambda: self.generate("fragile", "b", max_tokens=300, ignore_eos=True, timeout=1)]
            calls += [lambda prompt=prompt: other(prompt) for prompt, text in expected.items() if text is not None]
            found = self.at_once(calls)
            for answer, word in zip(found[:2], ("are NaN", "are NaN")):
                self.refused(400, answer, word)
            self.refused(400, found[2], "temperature")
            self.assertIn(found[3].status, (200, 503))
            self.assertEqual([text for text in expected.values() if text is not None], found[4:])

    def test_t27_who_leaves_frees_its_row(self):
        streams = [self.open("endless", LETTERS[i + 1], max_tokens=ENDLESS, ignore_eos=True) for i in range(5)]
        texts = [walk(LETTERS[i + 1], 2000) for i in range(5)]
        for (_, reader), text in zip(streams, texts):
            self.assertEqual(list(text[:50]), self.read(reader, 50))
        self.assertEqual(5, self.server.metric("streams"))
        self.assertEqual(self.held + 20, self.server.settled("held_bytes", self.held + 20))  # an int32 each
        for gone in (2, 0):
            sock, reader = streams.pop(gone)
            texts.pop(gone)
            reader.close()
            sock.close()
            left = self.held + 4 * len(streams)
            self.assertEqual(left, self.server.settled("held_bytes", left))
            for (_, reader), text in zip(streams, texts):
                seen = 50 if gone == 2 else 250
                self.assertEqual(list(text[seen:seen + 200]), self.read(reader, 200))
        for sock, reader in streams:
            reader.close()
            sock.close()
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))

    def test_t27_who_does_not_read_holds_up_nobody(self):
        """Unread events wait, and then the text waits; other texts continue, and later the text continues where it stopped."""
        begun = self.server.metric("generated_tokens_total")
        sock, reader = self.open("endless", "c", max_tokens=ENDLESS, ignore_eos=True)
        before, now = -1, begun
        while now != before:  # until nothing new was generated for a while
            others = self.at_once([lambda i=i: self.written("endless", LETTERS[i], max_tokens=1500, ignore_eos=True) for i in range(3)])
            self.assertEqual([walk(LETTERS[i], 1500) for i in range(3)], others)
            begun += 4500
            time.sleep(0.5)
            before, now = now, self.server.metric("generated_tokens_total") - begun
        count = int(now - now % 1000) + 5000  # buffered text, here and in the sockets, plus more
        expected = walk("c", count)
        for at in range(0, count, 1000):
            self.assertEqual(list(expected[at:at + 1000]), self.read(reader, 1000))
        reader.close()
        sock.close()
        self.assertEqual(0, self.server.settled("streams", 0))

    def test_what_is_remembered_is_checked(self):
        other = walker()
        other["nodes"][3:5] = [node("kept", "mod", "all", 100003), node("present.sum", "cast", "kept", dtype="float32"), node("seen", "add", "kept", "position")]
        unknown = walker()
        unknown["inputs"]["passed.sum"] = unknown["inputs"].pop("past.sum")
        unknown["nodes"][2] = node("all", "add", "passed.sum", "many")
        for model, config, word in ((other, parameters(context=10), "present.sum"), (unknown, parameters(context=10), 'the input "passed.sum"'),
                                    (walker(), {}, "parameters.context"), (recaller(), parameters(context=PLACES + 1), f'at most {PLACES}, the places of "past.seen"'),
                                    ({**recaller(), "dims": {"rows": [1, 8], "n": [2, 8]}}, {}, "starts at 1")):
            with self.subTest(word):
                self.put(self.repository, "bad", model, **(config or {"max_batch_size": 2}))
                self.refused(400, self.load("bad"), word)

    def test_requests_for_inferences_have_rows_too(self):
        """infer requests to a text model: requests are rows, but the tokens of a text are not."""
        inputs = [numbers("tokens", [1, 2], [1, 2], "INT32"), numbers("position", [1], [5], "INT32"), numbers("past.sum", [1], [10], "INT32")]
        answer = self.ok(self.infer("walker.opencl", document(*inputs)))
        outputs = {output["name"]: output["data"] for output in answer.json["outputs"]}
        self.assertEqual([13], outputs["present.sum"])
        self.assertEqual(1, outputs["logits"][18])
        self.put(self.repository, "tokens", {"inputs": {"tokens": {"dtype": "int32", "shape": ["n"]}}, "dims": {"n": [1, 8]},
                                             "nodes": [node("next", "cumsum", "tokens"), node("same", "cast", "next", dtype="int32"), *logits("same")], "outputs": ["logits"]})
        self.ok(self.load("tokens"))
        self.assertEqual(0, self.ok(self.call("GET", f"{V2}tokens/config")).json["max_batch_size"])


class Short(TextTest):
    """A device without memory for all rows: fewer rows run at a time, and no text fails."""

    OPTIONS = ("--backends", "interp", "--device-memory", str(44 << 20), "--log-level", "warn")

    @classmethod
    def fill(cls, repository):
        cls.put(repository, "heavy", heavy(), **parameters(context=1000))
        cls.put(repository, "roomy", roomy(), **parameters(context=1000))

    def test_t14_fewer_rows(self):
        for model in ("heavy", "roomy", "heavy"):
            with concurrent.futures.ThreadPoolExecutor(14) as pool:
                found = pool.map(lambda i, model=model: self.written(model, LETTERS[i], max_tokens=12, ignore_eos=True), range(14))
                self.assertEqual([walk(LETTERS[i], 12) for i in range(14)], list(found))
        self.assertEqual(0, self.server.settled("held_bytes", 0))


class Shared(KeyedCase):
    """Keys whose texts share runs pay for their rows."""

    KEYS = {"one": ("infer",), "five": ("infer",), "root": ("admin,metrics",)}

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        TextTest.put(cls.repository, "walker", walker(), **parameters(context=10000000))
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

    def seconds(self):
        return {row["key"]: row["device_seconds"] for row in self.call("root", "GET", "/api/v1/usage").json["usage"]}

    def metric(self, name):
        text = self.call("root", "GET", "/metrics").body.decode()
        return float(re.search(rf"^beamline_{name} (\S+)$", text, re.M)[1])

    def work(self):
        """Returns the purpose of each key's requests, as an administrator sees it."""
        keys = self.ok(self.call("root", "GET", "/api/v1/now")).json["devices"][0]["keys"]
        return {key["name"]: key["what"] for key in keys if key["what"]}

    def test_top_shows_the_texts_of_each(self):
        """The current rows of one run are listed under their keys."""
        stop, want, seen, end = threading.Event(), {"one": ["model walker"], "five": ["model walker (5)"]}, {}, time.monotonic() + 60
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            writers = [pool.submit(self.write, "one", "b", stop, 400)] + [pool.submit(self.write, "five", letter, stop, 400) for letter in "cdefg"]
            try:
                while seen != want and time.monotonic() < end:
                    seen = self.work()
            finally:
                stop.set()
            for writer in writers:
                writer.result()
        self.assertEqual(want, seen)

    def write(self, name, prompt, stop, tokens):
        while not stop.is_set():
            wish = {"text_input": prompt, "max_tokens": tokens, "ignore_eos": True, "exclude_input_in_output": True}
            answer = self.ok(self.call(name, "POST", f"{V2}walker/generate", wish))
            self.assertEqual(walk(prompt, tokens), answer.json["text_output"])

    def test_t23_each_key_pays_for_its_rows(self):
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            writers = [pool.submit(self.write, "one", "b", stop, 400)] + [pool.submit(self.write, "five", letter, stop, 400) for letter in "cdefg"]
            time.sleep(0.5)
            begin, before = time.monotonic(), self.seconds()
            tokens, runs = self.metric("generated_tokens_total"), self.metric("text_runs_total")
            while self.metric("generated_tokens_total") < tokens + 100000 or time.monotonic() < begin + 4:
                time.sleep(0.1)
            after, took = self.seconds(), time.monotonic() - begin
            tokens, runs = self.metric("generated_tokens_total") - tokens, self.metric("text_runs_total") - runs
            stop.set()
            for writer in writers:
                writer.result()
        self.assertLess(runs, tokens / 2)
        used = {name: after[name] - before.get(name, 0) for name in ("one", "five")}
        print(f"device seconds {used} of {took:.2f}, {tokens / runs:.2f} rows a run", end=" ")
        self.assertLess(sum(used.values()), took * 1.02)  # each device second is charged once
        self.assertGreater(used["five"], 1.2 * used["one"])  # and to the key that used it


if __name__ == "__main__":
    unittest.main()
