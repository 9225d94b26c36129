# SPDX-License-Identifier: MIT
"""Text models: a tokenizer with a program that takes tokens; generation as one answer and as events."""

import base64
import concurrent.futures
import http.client
import itertools
import json
import os
import pathlib
import re
import socket
import sys
import threading
import time
import unittest

from repository import V2, AllocationsFail, ModelsTest, Repository, Server
from test_keys import Keys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data"))
sys.path.insert(0, str(ROOT / "examples"))
import host_story  # noqa: E402

LETTERS = "abcdefghijklmnopqrstuvwxyz"
END = "<|endoftext|>"
# Bytes in GPT-2's notation: the last two before the end token are those of "é".
VOCABULARY = [*LETTERS, "\u00c3", "\u00a9", "\u0120", END]
SIZE = len(VOCABULARY)
TOKENIZER = {"added_tokens": [{"id": SIZE - 1, "content": END, "special": True}],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}, "decoder": {"type": "ByteLevel"},
             "model": {"type": "BPE", "vocab": {text: number for number, text in enumerate(VOCABULARY)}, "merges": []}}
N_TOKENS = {"dtype": "int32", "shape": ["n"]}
ONE = {"dtype": "int32", "shape": [1]}


def node(name, op, *operands, **attrs):
    return {"id": name, "op": op, "in": list(operands), **({"attrs": attrs} if attrs else {})}


def logits(source, output="logits"):
    """Returns logits with a one at each integer of |source|."""
    return [node("wrapped", "mod", source, SIZE), node("hot", "one_hot", "wrapped", num_classes=SIZE), node(output, "cast", "hot", dtype="float32")]


def alphabet():
    """Without state: the next token is the next letter of the alphabet, up to the end."""
    return {"inputs": {"tokens": N_TOKENS}, "dims": {"n": [1, 64]}, "nodes": [node("next", "add", "tokens", 1), *logits("next")], "outputs": ["logits"]}


def counter(chunk=3):
    """After k tokens the k-th letter follows: the earlier tokens are only in the state."""
    return {"inputs": {"tokens": N_TOKENS}, "dims": {"n": [1, chunk]}, "state": {"count": ONE},
            "nodes": [node("many", "full", shape=[1], value="n", dtype="int32"), node("seen", "add", "count", "many"), node("letter", "mod", "seen", 26),
                      *logits("letter")],
            "outputs": ["logits"], "updates": {"count": "seen"}}


def counters(chunk=3):
    """The same for each row, with a state per row."""
    return {"inputs": {"tokens": {"dtype": "int32", "shape": ["rows", "n"]}, "past.count": {"dtype": "int32", "shape": ["rows"]}}, "dims": {"rows": [1, 4], "n": [1, chunk]},
            "nodes": [node("many", "full", shape=[1], value="n", dtype="int32"), node("present.count", "add", "past.count", "many"),
                      node("letter", "mod", "present.count", 26), *logits("letter")],
            "outputs": ["logits", "present.count"]}


def place():
    """Returns the letter of a token's position; the program takes one token at a time and chooses the next token itself."""
    return {"inputs": {"ids": {"dtype": "int64", "shape": [1, 1]}, "at": {"dtype": "int64", "shape": []}}, "state": {"sum": {"dtype": "int64", "shape": [1, 1]}},
            "nodes": [node("more", "add", "sum", "ids"), node("next", "mod", "at", 26)], "outputs": ["next"], "updates": {"sum": "more"}}


def dice():
    """Equal logits for every input token: the later in the vocabulary, the likelier."""
    return {"inputs": {"tokens": N_TOKENS}, "dims": {"n": [1, 64]},
            "nodes": [node("ramp", "arange", stop=SIZE, dtype="float32"), node("logits", "mul", "ramp", 0.25)], "outputs": ["logits"]}


def nowhere():
    """Logits that are NaN."""
    return {"inputs": {"tokens": N_TOKENS}, "dims": {"n": [1, 64]}, "nodes": [node("logits", "full", shape=[SIZE], value="NaN")], "outputs": ["logits"]}


def parameters(**values):
    return {"parameters": {name: {"string_value": str(value)} for name, value in values.items()}}


class TextTest(ModelsTest):
    @classmethod
    def put(cls, repository, name, document, tokenizer=TOKENIZER, **config):
        repository.put(name, 1, document, **config)
        text = tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer)
        (repository.path / name / "1" / "tokenizer.json").write_text(text)

    def generate(self, model, text, **members):
        return self.call("POST", f"{V2}{model}/generate", {"text_input": text, **members})

    def written(self, model, text, **members):
        """Returns the generated text."""
        return self.ok(self.generate(model, text, exclude_input_in_output=True, **members)).json["text_output"]

    def events(self, model, text, **members):
        answer = self.ok(self.call("POST", f"{V2}{model}/generate_stream", {"text_input": text, **members}))
        self.assertEqual("text/event-stream; charset=utf-8", answer.type)
        found = answer.body.split(b"\n\n")
        self.assertEqual(b"", found.pop())
        return [json.loads(event.removeprefix(b"data: ")) for event in found]

    def open(self, model, text, **members):
        """Opens a stream that the test reads incrementally."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", f"{V2}{model}/generate_stream", json.dumps({"text_input": text, **members}), {"content-type": "application/json"})
        return connection, connection.getresponse()

    def read(self, reader, count):
        """Returns the texts of the next events."""
        found = []
        while len(found) < count:
            line = reader.readline()
            self.assertNotEqual(b"", line, "the stream ended")
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:])["text_output"])
        return found


class Revoked(unittest.TestCase):
    """Generation ends when the key of the request is revoked."""

    def test_t12_a_text_ends_with_its_key(self):
        repository, keys = Repository(), Keys()
        self.addCleanup(repository.remove)
        self.addCleanup(keys.folder.cleanup)
        TextTest.put(repository, "endless", counter(), **parameters(context=10000000))
        root, bob = ({"x-api-key": keys.make(name, scopes)} for name, scopes in (("root", "admin,metrics"), ("bob", "infer")))
        server = Server("--models", str(repository.path), "--backends", "interp", "--state", keys.folder.name)
        self.addCleanup(server.stop)
        ModelsTest.wait_ready(server)
        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.addCleanup(link.close)
        link.request("POST", f"{V2}endless/generate_stream", json.dumps({"text_input": "a", "max_tokens": 1000000}), {"content-type": "application/json", **bob})
        reply = link.getresponse()
        for _ in range(20):
            self.assertNotEqual(b"", reply.readline())
        self.assertEqual(204, server.call("DELETE", "/api/v1/keys/bob", None, root).status)
        *_, last, rest = reply.read().split(b"\n\n")
        self.assertEqual((b'event: error\ndata: {"error":"the key was revoked"}', b""), (last, rest))
        end = time.monotonic() + 10
        while b"beamline_requests_active 1\n" not in server.call("GET", "/metrics", None, root).body:  # only this query: the text is no longer generated
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


class Text(TextTest):
    @classmethod
    def fill(cls, repository):
        for device in ("opencl:0", "interp:0"):
            cls.put(repository, f"alphabet.{device[:6]}", alphabet(), instance_group=[{"device": device}])
            cls.put(repository, f"counter.{device[:6]}", counter(), instance_group=[{"device": device}], **parameters(context=1000))
        cls.put(repository, "place", place(), **parameters(tokens="ids", position="at", logits="next", context=100))
        cls.put(repository, "endless", counter(), **parameters(context=10000000))
        cls.put(repository, "dice", dice(), **parameters(end="z"))
        cls.put(repository, "nowhere", nowhere())
        warmup = {"name": "whole", "batch_size": 0, "inputs": {"tokens": {"data_type": "TYPE_INT32", "dims": [64], "zero_data": True}}}
        cls.put(repository, "warmed", alphabet(), model_warmup=[warmup])
        repository.put("plain", 1, alphabet())

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.held = cls.server.metric("held_bytes")  # before any text, since a state is released after its answer

    def test_one_answer(self):
        for device in ("opencl", "interp"):
            alphabet, counter = f"alphabet.{device}", f"counter.{device}"
            answer = self.ok(self.generate(alphabet, "ab", max_tokens=3, id="mine"))
            self.assertEqual({"id": "mine", "model_name": alphabet, "model_version": "1", "text_output": "abcde", "finish_reason": "length",
                              "num_input_tokens": 2, "num_output_tokens": 3}, answer.json)
            self.assertEqual("bcdefghijklmnopq", self.written(alphabet, "a"))  # vLLM's default number of tokens
            # seven prompt tokens run in chunks of three; then single tokens follow
            self.assertEqual("hijk", self.written(counter, "zzzzzzz", max_tokens=4))
            self.assertEqual("bcd", self.written(counter, "z", max_tokens=3))
        self.assertEqual("cdef", self.written("place", "xyz", max_tokens=4))
        self.assertEqual("def", self.call("POST", f"{V2}alphabet.opencl/versions/1/generate", {"text_input": "c", "parameters": {
            "max_tokens": 3, "exclude_input_in_output": True, "temperature": 0.0, "stream": False}}).json["text_output"])

    def test_no_plan_for_one_length(self):
        """Tokens are rows of a dynamic dimension, so no plan is made for a single length."""
        self.assertNotIn("model warmed has a plan", self.server.log_text())
        self.assertEqual("cdef", self.written("warmed", "ab", max_tokens=4))

    def test_the_end(self):
        answer = self.ok(self.generate("alphabet.opencl", "y", max_tokens=50)).json
        self.assertEqual(("yz\u00e9 ", "stop", 5), (answer["text_output"], answer["finish_reason"], answer["num_output_tokens"]))
        # with ignore_eos the end token has no text, and the alphabet starts again
        self.assertEqual("z\u00e9 abc", self.written("alphabet.opencl", "y", max_tokens=8, ignore_eos=True))
        # an incomplete character is sent only at the end, as the replacement character
        self.assertEqual("z\ufffd", self.written("alphabet.opencl", "y", max_tokens=2))
        self.assertEqual(63, self.ok(self.generate("alphabet.opencl", "a", max_tokens=1000, ignore_eos=True)).json["num_output_tokens"])  # the rest of the context

    def test_stops(self):
        for stop, want in (("ef", "bcd"), (["x", "gh", "hi"], "bcdef"), ("b", ""), ("qz", "bcdefghijklmnopq"), ("\u00e9", "bcdefghijklmnopqrstuvwxyz")):
            with self.subTest(stop):
                tokens = 16 if stop == "qz" else 40
                self.assertEqual(want, self.written("alphabet.opencl", "a", stop=stop, max_tokens=tokens))
                events = self.events("alphabet.opencl", "a", stop=stop, max_tokens=tokens)
                self.assertEqual(want, "".join(event["text_output"] for event in events))
                self.assertEqual("length" if stop == "qz" else "stop", events[-1]["finish_reason"])

    def test_events(self):
        for device in ("opencl", "interp"):
            events = self.events(f"alphabet.{device}", "x", max_tokens=50, id="mine", parameters={"stream": True})
            # the bytes of one character are two tokens and one event; the end token is sent with the last event
            self.assertEqual(["y", "z", "\u00e9", " ", ""], [event["text_output"] for event in events])
            self.assertEqual({"id": "mine", "model_name": f"alphabet.{device}", "model_version": "1", "text_output": "y"}, events[0])
            self.assertEqual(("stop", 1, 6), tuple(events[-1][name] for name in ("finish_reason", "num_input_tokens", "num_output_tokens")))
            self.assertEqual(list("hijk"), [event["text_output"] for event in self.events(f"counter.{device}", "zzzzzzz", max_tokens=4)])

    def test_as_they_are_made_and_side_by_side(self):
        (one, first), (two, second) = (self.open("endless", text, max_tokens=9000000, ignore_eos=True) for text in ("z", "zz"))
        # both texts run concurrently, each with its own state
        for _ in range(20):
            self.assertEqual(list("bcdefghijklmnopqrstuvwxyza"[:5]), self.read(first, 26)[:5])
            self.assertEqual(list("cdefghijklmnopqrstuvwxyzab"[:5]), self.read(second, 26)[:5])
        self.assertEqual("bcd", self.written("counter.opencl", "z", max_tokens=3))  # later texts are not affected
        self.assertEqual(2, self.server.metric("streams"))
        self.assertEqual(self.held + 8, self.server.settled("held_bytes", self.held + 8))  # an int32 each
        for sock, reader in ((one, first), (two, second)):
            reader.close()
            sock.close()
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))

    def test_t27_a_client_that_leaves_in_the_midst_of_a_text(self):
        for _ in range(10):
            sock, reader = self.open("endless", "z", max_tokens=9000000, ignore_eos=True)
            self.read(reader, 1)
            reader.close()
            sock.close()
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))
        body = json.dumps({"text_input": "z", "max_tokens": 9000000, "ignore_eos": True}).encode()
        gone = self.server.metric("cancelled_total")
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:  # a client that waits for its single answer
            sock.sendall(f"POST {V2}endless/generate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            tokens = self.server.metric("generated_tokens_total")
            while self.server.metric("generated_tokens_total") < tokens + 10:
                time.sleep(0.02)
        self.assertEqual(gone + 1, self.server.settled("cancelled_total", gone + 1))
        self.assertEqual(self.held, self.server.settled("held_bytes", self.held))

    def test_t27_a_client_that_does_not_read(self):
        """Unread events wait, and then generation waits; it continues where it stopped."""
        def written():
            before, now = -1, self.server.metric("generated_tokens_total")
            while now != before:  # until nothing new was generated for a while
                time.sleep(0.5)
                before, now = now, self.server.metric("generated_tokens_total")
            return now
        begun = self.server.metric("generated_tokens_total")
        sock, reader = self.open("endless", "z", max_tokens=9000000, ignore_eos=True)
        rounds = int(written() - begun) // 26 + 10  # buffered text, here and in the sockets, plus more
        for _ in range(rounds):
            self.assertEqual(list(LETTERS[1:] + "a"), self.read(reader, 26))
        reader.close()
        sock.close()
        self.assertEqual(0, self.server.settled("streams", 0))

    def test_timeouts(self):
        endless = {"max_tokens": 9000000, "ignore_eos": True, "timeout": 300000}
        answer = self.generate("endless", "z", **endless)
        self.refused(503, answer)
        events = self.events("endless", "z", **endless)
        self.assertGreater(len(events), 1)
        for error in (answer.json["error"], events[-1]["error"]):
            self.assertRegex(error, "timeout|time limit")  # in the queue or in a run

    def test_sampling(self):
        draws = {"max_tokens": 60, "ignore_eos": True, "temperature": 1.0}
        one = self.written("dice", "a", seed=1, **draws)
        self.assertEqual(one, self.written("dice", "a", seed=1, **draws))
        self.assertNotEqual(one, self.written("dice", "a", seed=2, **draws))
        self.assertNotEqual(self.written("dice", "a", **draws), self.written("dice", "a", **draws))
        self.assertGreater(len(set(one)), 4)
        self.assertEqual("", self.written("dice", "a", **{**draws, "temperature": 0}))  # the likeliest token is a special token without text
        for few in ({"top_k": 1}, {"top_p": 0.05}, {"top_p": 0}, {"temperature": 0.001}):
            self.assertEqual("", self.written("dice", "a", seed=5, **{**draws, **few}))
        self.assertEqual({" ", "\ufffd"}, set(self.written("dice", "a", seed=3, top_k=3, **draws)))
        self.assertLess({" ", "\ufffd"}, set(self.written("dice", "a", seed=3, top_k=-1, top_p=1, **draws)))
        stops = {self.ok(self.generate("dice", "a", seed=seed, **{**draws, "ignore_eos": False, "max_tokens": 63})).json["finish_reason"] for seed in range(5)}
        self.assertIn("stop", stops)  # at a "z", which the configuration defines as the end

    def test_what_is_refused(self):
        for members, word in (({}, "text_input"), ({"text_input": 5}, "string"), ({"text_input": "a", "tokens": [1]}, 'unknown parameter "tokens"'),
                              ({"text_input": "a", "max_tokens": 0}, "max_tokens"), ({"text_input": "a", "max_tokens": 1.5}, "max_tokens"),
                              ({"text_input": "a", "temperature": -1}, "temperature"), ({"text_input": "a", "temperature": "NaN"}, "temperature"),
                              ({"text_input": "a", "top_p": 1.5}, "top_p"), ({"text_input": "a", "top_k": -2}, "top_k"), ({"text_input": "a", "seed": -1}, "seed"),
                              ({"text_input": "a", "stop": ""}, "stop"), ({"text_input": "a", "stop": ["x"] * 17}, "stop"), ({"text_input": "a", "stop": 5}, "stop"),
                              ({"text_input": "a", "stop": "x" * 257}, "stop"), ({"text_input": "a", "stream": True}, "generate_stream"),
                              ({"text_input": "a", "seed": 1, "parameters": {"seed": 2}}, "twice"), ({"text_input": ""}, "at least one token"),
                              ({"text_input": "a" * 64}, "over 63 tokens"), ({"text_input": "a" * 100000}, "63 tokens"), ({"text_input": "\u4e2d"}, "one token")):
            with self.subTest(str(members)[:80]):
                self.refused(400, self.call("POST", f"{V2}alphabet.opencl/generate", members), word)
        self.refused(400, self.call("POST", f"{V2}alphabet.opencl/generate_stream", {"text_input": "a", "stream": False}), "generate_stream")
        self.refused(400, self.generate("nowhere", "a"), "are NaN")
        self.assertIn("are NaN", self.events("nowhere", "a")[-1]["error"])
        self.refused(400, self.generate("plain", "a"), 'no input "text_input"')

    def test_what_it_is_besides(self):
        """infer, metadata and configuration work as for any model, and the configuration can be sent back unchanged."""
        answer = self.ok(self.infer("alphabet.opencl", {"inputs": [{"name": "tokens", "shape": [1], "datatype": "INT32", "data": [3]}]}))
        self.assertEqual(1, answer.json["outputs"][0]["data"][4])
        config = self.ok(self.call("GET", f"{V2}place/config")).json
        self.assertEqual(parameters(tokens="ids", position="at", logits="next", context=100)["parameters"], config["parameters"])
        self.ok(self.load("place", config=json.dumps(config)))
        self.assertEqual("bcd", self.written("place", "xy", max_tokens=3))
        before = self.ok(self.call("GET", f"{V2}counter.opencl/stats")).json["model_stats"][0]["inference_stats"]
        self.written("counter.opencl", "a")
        self.events("counter.opencl", "a")
        after = self.ok(self.call("GET", f"{V2}counter.opencl/stats")).json["model_stats"][0]["inference_stats"]
        self.assertEqual([2, 2, 2, 2], [after[name]["count"] - before[name]["count"] for name in ("success", "queue", "compute_input", "compute_infer")])
        self.assertGreater(after["queue"]["ns"], before["queue"]["ns"])
        self.assertEqual(0, after["fail"]["count"])

    def test_with_a_request(self):
        files = {"model.json": alphabet(), "tokenizer.json": TOKENIZER}
        self.ok(self.load("mine", config="{}", **{f"file:1/{name}": base64.b64encode(json.dumps(text).encode()).decode() for name, text in files.items()}))
        self.assertEqual("bc", self.written("mine", "a", max_tokens=2))


class Loading(TextTest):
    """A load of an invalid text model fails; the error names the file and the rule."""

    def test_reasons(self):
        broken = {**TOKENIZER, "model": {**TOKENIZER["model"], "merges": ["a nothing"]}}
        two = {**alphabet(), "inputs": {"tokens": N_TOKENS, "mask": N_TOKENS}}
        two["nodes"] = [node("hidden", "add", "tokens", "mask"), node("next", "add", "hidden", 1), *logits("next")]
        whole = {**alphabet(), "nodes": [node("logits", "mul", "tokens", 2)]}
        for document, tokenizer, config, word in (
                (alphabet(), "{", {}, "tokenizer.json: JSON, line 1"), (alphabet(), broken, {}, 'tokenizer.json: model.merges[0]: "nothing" is not in the vocabulary'),
                (alphabet(), TOKENIZER, parameters(tokens="ids"), 'the input "ids" for the tokens of a text model is missing (parameters.tokens)'),
                (alphabet(), TOKENIZER, parameters(logits="x"), "parameters.logits"), (alphabet(), TOKENIZER, parameters(position="x"), "parameters.position"),
                (alphabet(), TOKENIZER, parameters(end="<stop>"), 'no token "<stop>"'), (counter(), TOKENIZER, {}, "parameters.context"),
                (counter(), TOKENIZER, parameters(context="many"), "must be a number of tokens"), (two, TOKENIZER, {}, 'the input "mask"'),
                ({**alphabet(), "dims": {"n": [2, 64]}}, TOKENIZER, {}, "a named dimension that starts at 1")):
            with self.subTest(word):
                self.put(self.repository, "bad", document, tokenizer, **(config or parameters()))
                self.refused(400, self.load("bad"), word)
        self.put(self.repository, "bad", alphabet(), {"model": {"type": "WordLevel"}})
        self.refused(501, self.load("bad"), 'tokenizer.json: model: the type "WordLevel" is not supported')
        self.put(self.repository, "bad", whole, TOKENIZER, **parameters())  # integer outputs: the next token
        self.ok(self.load("bad"))
        self.assertEqual("cei", self.written("bad", "b", max_tokens=3))

    def test_a_tokenizer_that_changes(self):
        self.put(self.repository, "changes", alphabet())
        self.ok(self.load("changes"))
        self.assertEqual("b", self.written("changes", "a", max_tokens=1))
        other = {**TOKENIZER, "model": {**TOKENIZER["model"], "vocab": {text: (number + 1) % 26 if number < 26 else number for number, text in enumerate(VOCABULARY)}}}
        self.put(self.repository, "changes", alphabet(), other)
        self.ok(self.load("changes"))
        self.assertEqual("a", self.written("changes", "z", max_tokens=1))


class EveryAllocation(AllocationsFail, TextTest):
    """Each allocation of a text fails once: the request gets an error, and no stream and no state remain."""

    @classmethod
    def fill(cls, repository):
        cls.put(repository, "counter", counter(), **parameters(context=100))
        cls.put(repository, "counters", counters(), **parameters(context=100))

    ASKED = {"text_input": "zzzz", "max_tokens": 5, "temperature": 1, "top_k": 1, "stop": "xyz", "id": "mine"}

    def check(self, route, answer):
        if answer.status != 200:
            self.assertEqual(503, answer.status, answer.body)
        elif route == "generate_stream":
            last = json.loads(answer.body.rstrip().rpartition(b"data: ")[2])
            self.assertTrue("error" in last or last["finish_reason"] == "length", last)
        else:
            self.assertEqual("zzzzefghi", answer.json["text_output"])

    def test_t26_each_of_a_text(self):
        held = self.server.metric("held_bytes")  # before any text, since a state is released after its answer
        for model, route in itertools.product(("counter", "counters"), ("generate", "generate_stream")):
            self.check(route, self.ok(self.call("POST", f"{V2}{model}/{route}", self.ASKED)))
            struck = 0
            for nth in range(1, 2000):
                before = self.arm(nth)
                answer = self.server.call("POST", f"{V2}{model}/{route}", self.ASKED)
                if self.arm(0) == before:
                    break
                struck += 1
                self.check(route, answer)
            self.assertEqual(200, answer.status)
            self.assertGreater(struck, 30)
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(held, self.server.settled("held_bytes", held))

    def test_t26_of_texts_that_share_runs(self):
        """A failed text gets an error; a text in the same run is correct or failed itself."""
        held, stop, struck = self.server.metric("held_bytes"), threading.Event(), 0

        def write_on(route):
            while not stop.is_set():
                self.check(route, self.server.call("POST", f"{V2}counters/{route}", self.ASKED))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            writers = [pool.submit(write_on, route) for route in ("generate", "generate_stream", "generate")]
            try:
                for nth in range(1, 250):
                    before = self.arm(nth)
                    self.check("generate", self.server.call("POST", f"{V2}counters/generate", self.ASKED))
                    struck += self.arm(0) != before
            finally:
                stop.set()
            for writer in writers:
                writer.result()
        self.assertGreater(struck, 100)
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(held, self.server.settled("held_bytes", held))


@unittest.skipUnless((DATA / "stories260K").is_dir(), f"there is no stories260K in {DATA}")
class Stories(TextTest):
    """A real llama on each device, with its known output."""

    DEVICES = ("opencl:0", "interp:0")

    @classmethod
    def fill(cls, repository):
        for device in cls.DEVICES:
            host_story.write(repository.path, DATA / "stories260K")
            name = device.partition(":")[0]
            (repository.path / "story").rename(repository.path / name)
            config = json.loads((repository.path / name / "config.json").read_text())
            (repository.path / name / "config.json").write_text(json.dumps({**config, "instance_group": [{"device": device}]}))

    def test_greedy(self):
        case = json.loads((DATA / "stories260K" / "expected_greedy.json").read_text())["cases"][0]
        most = len(case["tokens"]) - 1
        answer = self.ok(self.generate("opencl", "", max_tokens=most)).json
        self.assertEqual((case["text"], 1, most), (answer["text_output"], answer["num_input_tokens"], answer["num_output_tokens"]))
        begun = self.written("interp", "", max_tokens=20)
        self.assertEqual((case["text"][:len(begun)], True), (begun, len(begun) > 40))
        told = "".join(event["text_output"] for event in self.events("opencl", "", max_tokens=most))
        self.assertEqual(case["text"], told)
        # several concurrent texts at different positions
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            for prompt, found in pool.map(lambda words: (words, self.written("opencl", words, max_tokens=150)),
                                          [case["text"][:case["text"].index(" ", 30 * i)] for i in range(1, 6)]):
                self.assertEqual(case["text"][len(prompt):][:100], found[:100])
        # a prompt in chunks of 64 tokens gives the same result as single tokens
        begin = re.match(r"(.{300}\S*)(.*)", case["text"], re.DOTALL)
        rest = self.written("opencl", begin[1], max_tokens=most)
        self.assertEqual(begin[2][:100], rest[:100])


if __name__ == "__main__":
    unittest.main()
