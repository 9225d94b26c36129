# SPDX-License-Identifier: MIT
"""/v1 for OpenAI's clients, and llama.cpp's addresses: chat, completions, embeddings, models, and refusals."""

import base64
import http.client
import json
import math
import os
import struct
import subprocess
import unittest

import test_text_input
from environment import HERE, environment
from repository import HTTP, AllocationsFail, Repository, Server, sanitizers
from test_keys import Keys
from test_openapi import check
from test_text import DATA, SIZE, TextTest, alphabet, counter, counters, node, parameters

CHAT = [{"role": "user", "content": "hello"}]  # with ChatML the prompt ends with "assistant", and u follows t
GREEDY = {"temperature": 0}
LIKELY = 1 - math.log(math.e + SIZE - 1)  # log probability of the next letter: its logit is 1, all others are 0


class OpenAITest(TextTest):
    @classmethod
    def fill(cls, repository):
        cls.put(repository, "alphabet", alphabet(), **parameters(aliases="letters, abc", tags="small"))
        cls.put(repository, "counters", counters(), max_batch_size=4, **parameters(context=300, defaults=json.dumps({"temperature": 0, "max_tokens": 5, "seed": 7})))
        cls.put(repository, "counter", counter(), **parameters(context=1000))
        template = "{% for m in messages %}[{{ m.role }}{{ mark }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"
        cls.put(repository, "thinker", alphabet(), **parameters(chat_template=template, reasoning="off"))
        cls.put(repository, "dated", alphabet(), **parameters(chat_template="{{ date_string }} {{ datetime }} {{ functions }}"))
        cls.put(repository, "broken", alphabet(), **parameters(chat_template="{{ bos_token"))
        test_text_input.TextInputTest.put(repository, "mood", test_text_input.classifier(), None, test_text_input.weights(), **parameters(text="text"))
        repository.put("plain", 1, alphabet())

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = cls.server.call("GET", "/openapi.json").json

    def post(self, path, status=200, **members):
        """Returns the answer, and checks it against the API description."""
        answer = self.call("POST", path, members)
        self.assertEqual(status, answer.status, answer.body)
        described = self.api["paths"][path]["post"]["responses"]
        content = described["200"]["content"] if status == 200 else self.api["components"]["responses"]["OpenAIError"]["content"]
        if answer.type == "application/json":
            self.assertEqual([], check(content["application/json"]["schema"], answer.json, self.api))
        return answer.json if answer.type == "application/json" else answer

    def events(self, path, **members):
        answer = self.post(path, stream=True, **members)
        self.assertEqual("text/event-stream; charset=utf-8", answer.type)
        found = answer.body.split(b"\n\n")
        self.assertEqual(b"", found.pop())
        return [event.removeprefix(b"data: ") if event == b"data: [DONE]" else json.loads(event.removeprefix(b"data: ")) for event in found]

    def refusal(self, path, status, word, **members):
        problem = self.post(path, status, **members)["error"]
        self.assertIn(word, problem["message"])
        return problem


class OpenAI(OpenAITest):
    def test_chat(self):
        answer = self.post("/v1/chat/completions", model="alphabet", messages=CHAT, max_tokens=3, **GREEDY)
        self.assertEqual([{"index": 0, "message": {"role": "assistant", "content": "uvw"}, "finish_reason": "length"}], answer["choices"])
        usage = answer["usage"]
        self.assertEqual((3, usage["prompt_tokens"] + 3), (usage["completion_tokens"], usage["total_tokens"]))
        self.assertRegex(answer["id"], "^chatcmpl-[0-9a-f]{24}$")
        whole = self.post("/chat/completions", model="alphabet", messages=CHAT, **GREEDY)["choices"][0]
        self.assertEqual(("uvwxyz\u00e9 ", "stop"), (whole["message"]["content"], whole["finish_reason"]))
        self.assertEqual(usage["prompt_tokens"], self.post("/v1/chat/completions/input_tokens", model="alphabet", messages=CHAT)["input_tokens"])

    def test_streamed(self):
        first, *pieces, last, usage, done = self.events("/v1/chat/completions", model="alphabet", messages=CHAT, max_tokens=3, stream_options={"include_usage": True}, **GREEDY)
        self.assertEqual({"role": "assistant", "content": None}, first["choices"][0]["delta"])
        self.assertEqual(["u", "v", "w"], [piece["choices"][0]["delta"]["content"] for piece in pieces])
        self.assertEqual([{"index": 0, "delta": {}, "finish_reason": "length"}], last["choices"])
        self.assertEqual(([], 3), (usage["choices"], usage["usage"]["completion_tokens"]))
        self.assertEqual(b"[DONE]", done)
        self.assertEqual(1, len({event["id"] for event in (first, *pieces, last, usage)}))
        *pieces, last, done = self.events("/v1/completions", model="alphabet", prompt="a", max_tokens=2, **GREEDY)
        self.assertEqual(["b", "c", ""], [piece["choices"][0]["text"] for piece in (*pieces, last)])
        *pieces, last = self.events("/completion", model="alphabet", prompt="a", n_predict=2, **GREEDY)
        self.assertEqual([("b", [1]), ("c", [2])], [(piece["content"], piece["tokens"]) for piece in pieces])
        self.assertEqual((True, "limit", ""), (last["stop"], last["stop_type"], last["content"]))

    def test_completions(self):
        def texts(**members):
            return [choice["text"] for choice in self.post("/v1/completions", model="alphabet", **{"max_tokens": 2, **GREEDY, **members})["choices"]]
        self.assertEqual(["bc"], texts(prompt="a"))
        self.assertEqual(["bc", "yz"], texts(prompt=["a", "x"]))
        self.assertEqual(["bc"], texts(prompt=[3, 0]))
        self.assertEqual(["bc", "de"], texts(prompt=[[0], [2]]))
        self.assertEqual(["fg"], texts(prompt=[0, "de"]))
        self.assertEqual(["bc", "bc", "yz", "yz"], texts(prompt=["a", "x"], n=2))
        self.assertEqual(["abc"], texts(prompt="a", echo=True))
        self.assertEqual(["a"], texts(prompt="a", echo=True, max_tokens=0))
        self.assertEqual(["bcd"], texts(prompt="a", stop=["ef", "g"], max_tokens=20))
        self.assertEqual(["abcd"], texts(prompt="a", stop=["a", "e"], max_tokens=20, echo=True))  # stop texts do not apply to the prompt
        self.assertEqual(["bcd"], texts(prompt="a", max_tokens=3, user="me", some_member_of_somebody=1))
        self.assertEqual(["bbb"], texts(prompt="a", max_tokens=3, logit_bias={"1": 100}))
        self.assertEqual(["ccc"], texts(prompt="a", max_tokens=3, logit_bias=[["c", 100]]))
        self.assertEqual(5, self.post("/v1/completions", model="counters", prompt="a")["usage"]["completion_tokens"])  # the limit of its configuration

    def test_seeds(self):
        def text(**members):
            return [choice["text"] for choice in self.post("/v1/completions", model="alphabet", prompt="a", max_tokens=20, temperature=2, ignore_eos=True, **members)["choices"]]
        self.assertEqual(text(seed=1), text(seed=1))
        self.assertNotEqual(text(seed=1), text(seed=2))
        self.assertNotEqual(text(), text())
        self.assertEqual([*text(seed=5), *text(seed=6)], text(seed=5, n=2))  # consecutive seeds, as in llama.cpp

    def test_the_end(self):
        """ignore_eos bans end tokens, and min_tokens bans them for a while."""
        self.assertEqual("stop", self.post("/v1/completions", model="alphabet", prompt="y", **GREEDY)["choices"][0]["finish_reason"])
        settings = self.post("/completion", model="alphabet", prompt="y", ignore_eos=True, n_predict=8, **GREEDY)
        self.assertEqual([{"bias": None, "token": SIZE - 1}], settings["generation_settings"]["logit_bias"])
        self.assertEqual(8, settings["tokens_predicted"])
        self.assertEqual(12, self.post("/completion", model="alphabet", prompt="y", min_tokens=12, max_tokens=12, **GREEDY)["tokens_predicted"])

    def test_chances(self):
        content = self.post("/v1/chat/completions", model="alphabet", messages=CHAT, max_tokens=2, logprobs=True, top_logprobs=3, **GREEDY)["choices"][0]["logprobs"]["content"]
        self.assertEqual(["u", "v"], [token["token"] for token in content])
        self.assertEqual([[117], [118]], [token["bytes"] for token in content])
        for token in content:
            self.assertAlmostEqual(LIKELY, token["logprob"], places=5)
            self.assertEqual(token["logprob"], token["top_logprobs"][0]["logprob"])
            self.assertAlmostEqual(LIKELY - 1, token["top_logprobs"][1]["logprob"], places=5)
            self.assertEqual(3, len(token["top_logprobs"]))
        for model in ("alphabet", "counter"):  # one model gives the logits of all tokens, the other only of the last token
            lists = self.post("/v1/completions", model=model, prompt="abd", max_tokens=1, logprobs=1, echo=True, **GREEDY)["choices"][0]["logprobs"]
            self.assertEqual((["a", "b", "d"], [0, 1, 2, 3], None), (lists["tokens"][:3], lists["text_offset"], lists["token_logprobs"][0]))
            self.assertAlmostEqual(LIKELY, lists["token_logprobs"][1], places=5)
            self.assertAlmostEqual(LIKELY - 1, lists["token_logprobs"][2], places=5)
        answer = self.post("/completion", model="alphabet", prompt="a", n_predict=1, n_probs=2, post_sampling_probs=True, temperature=1, top_k=1)
        self.assertEqual([(1, 1)], [(token["id"], token["prob"]) for token in answer["completion_probabilities"]])

    def test_models(self):
        answer = self.ok(self.call("GET", "/v1/models")).json
        self.assertEqual(["alphabet", "broken", "counter", "counters", "dated", "mood", "thinker"], sorted(model["id"] for model in answer["data"]))
        one = self.ok(self.call("GET", "/v1/models/alphabet")).json
        self.assertEqual((["alphabet", "letters", "abc"], ["small"], 64, SIZE), (one["aliases"], one["tags"], one["meta"]["n_ctx"], one["meta"]["n_vocab"]))
        for document, schema in ((answer, "TextModels"), (one, "TextModel")):
            self.assertEqual([], check({"$ref": "#/components/schemas/" + schema}, document, self.api))
        self.assertEqual("alphabet", self.post("/v1/completions", model="letters", prompt="a", max_tokens=1)["model"])
        self.assertEqual("model_not_found", self.refusal("/v1/completions", 404, "nothing", model="nothing", prompt="a")["code"])
        self.assertEqual(404, self.call("GET", "/v1/models/plain").status)

    def test_embeddings(self):
        texts = list(test_text_input.TEXTS)[:2]
        answer = self.post("/v1/embeddings", model="mood", input=texts)
        self.assertEqual([0, 1], [row["index"] for row in answer["data"]])
        rows = self.infer("mood", {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": texts}]}).json["outputs"][0]["data"]
        for have, want in zip([number for row in answer["data"] for number in row["embedding"]], rows):
            self.assertAlmostEqual(want, have, places=5)
        coded = self.post("/v1/embeddings", model="mood", input=texts[0], encoding_format="base64")["data"][0]["embedding"]
        for have, want in zip(struct.unpack("<3f", base64.b64decode(coded)), rows):
            self.assertAlmostEqual(want, have, places=5)
        short = self.post("/v1/embeddings", model="mood", input=texts[0], dimensions=2)["data"][0]["embedding"]
        self.assertAlmostEqual(1, math.hypot(*short), places=5)
        self.refusal("/v1/embeddings", 400, "no vectors", model="alphabet", input="a")
        self.refusal("/v1/embeddings", 400, "dimensions", model="mood", input="a", dimensions=100)

    def test_what_is_refused(self):
        for members, word in (({"tools": [{"type": "function"}]}, "tools"), ({"response_format": {"type": "json_object"}}, "response_format"), ({"grammar": "x"}, "grammar"),
                              ({"json_schema": {}}, "json_schema"), ({"temprature": 1}, 'did you mean "temperature"'), ({"max_tokens": "x"}, "max_tokens"), ({"n": 0}, "n:"),
                              ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": [{}]}, "role"), ({"messages": [{"role": 1}]}, "role"),
                              ({"messages": [{"role": "user", "content": 5}]}, "content"), ({"messages": [*CHAT, {"role": "user", "content": [{"type": "image_url"}]}]}, "takes only texts"),
                              ({"messages": [*CHAT, *[{"role": "assistant", "content": "x"}] * 2]}, "assistant"), ({"samplers": ["nothing"]}, "sampler")):
            with self.subTest(str(members)[:60]):
                self.assertEqual("invalid_request_error", self.refusal("/v1/chat/completions", 400, word, **{"model": "alphabet", "messages": CHAT, **members})["type"])
        problem = self.refusal("/v1/completions", 400, "exceeds the available context size", model="alphabet", prompt="a" * 64)
        self.assertEqual(("exceed_context_size_error", 64, 64), (problem["type"], problem["n_prompt_tokens"], problem["n_ctx"]))
        self.assertEqual("exceed_context_size_error", self.refusal("/v1/completions", 400, "exceeds", model="alphabet", prompt="a" * 64, stream=True)["type"])
        self.refusal("/v1/completions", 400, "has no tokens", model="alphabet", prompt="")
        self.refusal("/v1/completions", 400, "is not a token", model="alphabet", prompt=[99])
        self.refusal("/v1/completions", 400, "writes no texts", model="plain", prompt="a")
        self.refusal("/v1/completions", 400, '"model" is missing', prompt="a")
        self.refusal("/v1/completions", 400, "at most 128", model="alphabet", prompt=["a"] * 65, n=2)
        for neutral in ({"tools": []}, {"tools": None}, {"response_format": {"type": "text"}}, {"tool_choice": "none"}, {"grammar": ""}, {"seed": None}, {"logit_bias": None}):
            self.post("/v1/chat/completions", model="alphabet", messages=CHAT, max_tokens=1, **neutral)

    def test_messages(self):
        def prompt(*messages, **members):
            return self.post("/apply-template", model="alphabet", messages=[{"role": role, "content": content} for role, content in messages], **members)["prompt"]
        self.assertEqual("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", prompt(("user", "hi")))
        self.assertEqual("<|im_start|>user\nhi<|im_end|>\n", prompt(("user", "hi"), add_generation_prompt=False))
        self.assertEqual("<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n", prompt(("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])))
        self.assertEqual("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nSo", prompt(("user", "hi"), ("assistant", "So")))  # the model continues the partial answer

    def test_templates(self):
        def prompt(**members):
            return self.post("/apply-template", model="thinker", messages=[{"role": "user", "content": "hi"}], **members)["prompt"]
        self.assertEqual("[user]hi<think>\n</think>", prompt())
        self.assertEqual("[user!]hi<think>\n", prompt(chat_template_kwargs={"enable_thinking": True, "mark": "!"}))
        self.assertEqual("[user]hi", prompt(add_generation_prompt=False))
        today = self.post("/apply-template", model="dated", messages=CHAT, tools=[{"type": "function", "function": {"name": "f"}}])["prompt"]
        self.assertRegex(today, r"^\d\d \w{3} \d{4} \w{3} \d\d \d{4} [\d:]{8} \[[^\0]*\"name\":\s*\"f\"[^\0]*\]$")
        self.assertRegex(self.post("/apply-template", model="dated", messages=CHAT, chat_template_kwargs={"date_string": "never"})["prompt"], "^never ")
        self.refusal("/apply-template", 400, "line 1", model="broken", messages=CHAT)
        self.refusal("/v1/chat/completions", 400, "line 1", model="broken", messages=CHAT)

    def test_tokens(self):
        self.assertEqual([7, 8], self.post("/tokenize", model="alphabet", content="hi")["tokens"])
        self.assertEqual([{"id": 7, "piece": "h"}, {"id": 26, "piece": [195]}, {"id": 27, "piece": [169]}], self.post("/tokenize", model="alphabet", content="h\u00e9", with_pieces=True)["tokens"])
        self.assertEqual([SIZE - 1], self.post("/tokenize", model="alphabet", content="<|endoftext|>")["tokens"])
        self.assertNotIn(SIZE - 1, self.post("/tokenize", model="alphabet", content="<|endoftext|>", parse_special=False)["tokens"])
        self.assertEqual("hi<|endoftext|>", self.post("/detokenize", model="alphabet", tokens=[7, 8, SIZE - 1])["content"])

    def test_what_llama_cpp_tells(self):
        answer = self.post("/completion", model="alphabet", prompt="a", n_predict=3, return_tokens=True, **GREEDY)
        self.assertEqual(("bcd", [1, 2, 3], "a", False, 3, 1), tuple(answer[name] for name in ("content", "tokens", "prompt", "truncated", "tokens_predicted", "tokens_evaluated")))
        self.assertEqual((1, 3), (answer["timings"]["prompt_n"] + answer["timings"]["cache_n"], answer["timings"]["predicted_n"]))
        full = self.post("/completion", model="alphabet", prompt="a", ignore_eos=True, **GREEDY)
        self.assertEqual((63, True, "limit"), (full["tokens_predicted"], full["truncated"], full["stop_type"]))
        few = self.post("/completion", model="alphabet", prompt="a", n_predict=3, response_fields=["content", "generation_settings/n_predict"], **GREEDY)
        self.assertEqual({"content": "bcd", "generation_settings/n_predict": 3}, few)
        self.assertEqual(("word", "d"), tuple(self.post("/completion", model="alphabet", prompt="a", stop="d", **GREEDY)[name] for name in ("stop_type", "stopping_word")))
        self.assertEqual(2, len(self.post("/completion", model="alphabet", prompt=["a", "b"], n_predict=1)))
        props = self.ok(self.call("GET", "/props?model=counters")).json
        self.assertEqual((300, 7, 4), (props["default_generation_settings"]["n_ctx"], props["default_generation_settings"]["params"]["seed"], props["total_slots"]))
        slots = self.ok(self.call("GET", "/slots?model=counters")).json
        self.assertEqual([False] * 4, [slot["is_processing"] for slot in slots])
        self.assertEqual({"status": "ok"}, self.ok(self.call("GET", "/health")).json)
        *pieces, last, _ = self.events("/v1/completions", model="counter", prompt="a" * 7, max_tokens=1, return_progress=True, **GREEDY)
        self.assertEqual([0, 3, 6, 7], [piece["prompt_progress"]["processed"] for piece in pieces if "prompt_progress" in piece])

    def test_t27_a_client_that_leaves(self):
        """After a disconnect all texts of the request stop, and their states are released."""
        held = self.server.metric("held_bytes")
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        link.request("POST", "/v1/completions", json.dumps({"model": "counter", "prompt": ["a", "b"], "n": 2, "ignore_eos": True, "stream": True, "max_tokens": -1}), {"content-type": "application/json"})
        reader = link.getresponse()
        reader.readline()
        reader.close()
        link.close()
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(held, self.server.settled("held_bytes", held))

    def test_its_client(self):
        folder = environment("requirements-openai.txt")
        if folder is None:
            self.skipTest("pip cannot get openai")
        done = subprocess.run([folder / "bin" / "python", HERE / "openai_calls.py", f"http://127.0.0.1:{self.server.port}/v1"], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((0, "done"), (done.returncode, "".join(done.stdout.splitlines()[-1:])), done.stdout + done.stderr)


GGUF = DATA / "stories260K" / "stories260K-f32.gguf"


@unittest.skipUnless(GGUF.exists(), f"there is no {GGUF}")
class AsLlamaCpp(OpenAITest):
    """Equal seeds give the texts of llama-server (0c1e570, with a float32 cache) for stories260K with every sampler."""

    @classmethod
    def fill(cls, repository):
        folder = repository.path / "story"
        folder.mkdir()
        (folder / GGUF.name).symlink_to(GGUF)
        (folder / "config.json").write_text(json.dumps(parameters(context=512)))

    def test_where_it_is_from(self):
        self.assertEqual("story/" + GGUF.name, self.ok(self.call("GET", "/props")).json["model_path"].removeprefix(str(self.repository.path) + "/"))

    def test_texts(self):
        for case in json.loads((HERE / "llama_texts.json").read_text()):
            with self.subTest(case["members"]):
                answer = self.post("/completion", **{"seed": 42, "prompt": case["prompt"], "n_predict": 60, "return_tokens": True, **case["members"]})
                self.assertEqual((case["text"], case["tokens"]), (answer["content"], answer["tokens"]))


class EveryAllocation(AllocationsFail, OpenAITest):
    """Each allocation of a request fails once: the request gets an error, and no stream and no state remain."""

    @classmethod
    def fill(cls, repository):
        cls.put(repository, "counter", counter(), **parameters(context=300))

    ASKED = (("/v1/completions", {"prompt": ["zz", [1, 2]], "n": 2, "max_tokens": 3, "logprobs": 2, "echo": True, "seed": 1, "logit_bias": {"1": -1}}),
             ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 2, "stream": True, "logprobs": True, "dry_multiplier": 1, "stop": ["xyz"]}),
             ("/completion", {"prompt": "z", "n_predict": 2, "response_fields": ["content", "generation_settings/seed"]}),
             ("/apply-template", {"messages": [*CHAT, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}], "chat_template_kwargs": {"a": [1]}}),
             ("/tokenize", {"content": "abc", "with_pieces": True}), ("/detokenize", {"tokens": [1, 2]}))

    def test_t26_each_of_a_request(self):
        held = self.server.metric("held_bytes")
        for path, members in self.ASKED:
            with self.subTest(path):
                self.check(self.server.call("POST", path, {"model": "counter", **members}))
                struck = 0
                for nth in range(1, 3000):
                    before = self.arm(nth)
                    answer = self.server.call("POST", path, {"model": "counter", **members})
                    if self.arm(0) == before:
                        break
                    struck += 1
                    self.check(answer)
                self.assertEqual(200, answer.status)
                self.assertGreater(struck, 3)
        self.assertEqual(0, self.server.settled("streams", 0))
        self.assertEqual(held, self.server.settled("held_bytes", held))

    def check(self, answer):
        if answer.status != 200:
            self.assertEqual(503, answer.status, answer.body)
        elif answer.type.startswith("text/event-stream"):
            last = answer.body.rstrip().rpartition(b"data: ")[2]
            self.assertTrue(last == b"[DONE]" or "error" in json.loads(last), answer.body)


class Silence(OpenAITest):
    """A stream without events for a quarter of a minute sends comments, so that no proxy closes it.  The server's clock runs
    four times as fast."""

    @classmethod
    def fill(cls, repository):
        size = 1100  # the interpreter needs seconds for a product of this size
        slow = [node("row", "arange", stop=size, dtype="float32"), node("column", "unsqueeze", "row", axis=1), node("grid", "add", "row", "column"), node("x", "mul", "grid", "first"), node("product", "matmul", "x", "x"), node("most", "max", "product"),
                node("none", "mul", "most", 0.0), node("logits", "add", "fast", "none")]
        program = alphabet()
        program["nodes"] = [*program["nodes"][:-1], {**program["nodes"][-1], "id": "fast"}, node("number", "cast", "tokens", dtype="float32"), node("first", "mean", "number"), *slow]
        cls.put(repository, "slow", program)

    @classmethod
    def start(cls):
        library = cls.repository.path.parent / (cls.repository.path.name + ".so")
        cls.trigger = library.with_suffix(".clock")
        cls.addClassCleanup(lambda: [path.unlink(missing_ok=True) for path in (library, cls.trigger)])
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HTTP / "slow_clock.c"], check=True)
        return Server("--models", str(cls.repository.path), "--backends", "interp", env={"LD_PRELOAD": " ".join([*sanitizers(), str(library)]), "SLOW_CLOCK": str(cls.trigger)})

    def test_comments(self):
        self.trigger.touch()
        answer = self.call("POST", "/v1/completions", {"model": "slow", "prompt": "a", "max_tokens": 1, "temperature": 0, "stream": True})
        self.assertIn(b"\n:\n\n", b"\n" + answer.body)
        self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"), answer.body)


class WithKeys(unittest.TestCase):
    """API keys as bearer tokens, as OpenAI's clients send them."""

    def test_t12_keys(self):
        repository, keys = Repository(), Keys()
        self.addCleanup(repository.remove)
        self.addCleanup(keys.folder.cleanup)
        TextTest.put(repository, "alphabet", alphabet())
        good, other = keys.make("good", "infer"), keys.make("other", "run")
        server = Server("--models", str(repository.path), "--backends", "interp", "--state", keys.folder.name)
        self.addCleanup(server.stop)
        OpenAITest.wait_ready(server)
        asked = {"model": "alphabet", "prompt": "a", "max_tokens": 1, "temperature": 0}
        for secret, status, kind in ((good, 200, None), (None, 401, "authentication_error"), ("wrong", 401, "authentication_error"), (other, 403, "permission_error")):
            answer = server.call("POST", "/v1/completions", asked, {"authorization": f"Bearer {secret}"} if secret else {})
            self.assertEqual(status, answer.status, answer.body)
            if kind is not None:
                self.assertEqual(kind, answer.json["error"]["type"])


if __name__ == "__main__":
    unittest.main()
