# SPDX-License-Identifier: MIT
"""Faults during generation with a paged KV cache: a lost device, a device without memory, and a killed server."""

import concurrent.futures
import json
import pathlib
import re
import sys
import tempfile
import time
import unittest

from repository import Repository  # imported first, since it adds the folder of the next module to the path
from fixture import Server
from test_restarts import coded
from test_text import TOKENIZER
from test_text_pages import chain, nothing, prompt, tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "llm"))
import gguf_files  # noqa: E402

CONTEXT, FIRST = 2048, 8  # tokens, in 64 pages; initial pages of the program
TEXTS = [(letter * 3, 30 + 10 * i) for i, letter in enumerate("abcd")]  # prompts and numbers of generated tokens


class Case(unittest.TestCase):
    def setUp(self):
        self.repository = Repository()
        self.addCleanup(self.repository.remove)
        keys = gguf_files.llama_keys() | {"llama.context_length": ("u32", CONTEXT)}
        (self.repository.path / "tiny.gguf").write_bytes(gguf_files.gguf(keys, gguf_files.llama_tensors()))

    def start(self, *args, **env):
        self.server = Server("--models", str(self.repository.path), "--tune=off", "--log-level", "warn", *args, env=env)
        self.addCleanup(self.server.stop)
        for _ in range(600):
            if self.server.call("GET", "/v2/health/ready").status == 200:
                return
            time.sleep(0.05)
        self.fail("the models were not loaded in half a minute: " + self.server.log_text()[-2000:])

    def end(self):
        self.assertEqual(0, self.server.stop(), self.server.last[-3000:])

    def write(self, begin, count, model="tiny"):
        """Returns (status, text or error) of one answer."""
        answer = self.server.call("POST", f"/v2/models/{model}/generate",
                                  {"text_input": begin, "max_tokens": count, "ignore_eos": True, "temperature": 0, "exclude_input_in_output": True})
        return answer.status, answer.json["text_output"] if answer.status == 200 else answer.json["error"]

    def stream(self, begin, count):
        """Returns the same from events: the texts before an error, and the error."""
        answer = self.server.call("POST", "/v2/models/tiny/generate_stream",
                                  {"text_input": begin, "max_tokens": count, "ignore_eos": True, "temperature": 0, "exclude_input_in_output": True})
        if answer.status != 200:
            return answer.status, answer.json["error"], ""
        events = [json.loads(event[6:]) for event in answer.body.decode().split("\n\n") if event.startswith("data: ")]
        text = "".join(event.get("text_output", "") for event in events)
        return (500, events[-1]["error"], text) if "error" in events[-1] else (200, "", text)

    def texts(self):
        return [self.write(*text) for text in TEXTS]

    def until(self, holds, what):
        end = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), end, what + self.server.log_text()[-3000:])
            time.sleep(0.05)


class Lost(Case):
    """Every text on a lost device is correct or reports the failure; the model returns, and generates the same texts."""

    def pages(self):
        """Returns the number of pages on the device, which grows on demand."""
        return max(FIRST, sum(self.server.metric("text_pages_" + kind) for kind in ("used", "kept", "free")))

    def page_bytes(self):
        """Returns the bytes of held_bytes per page."""
        held, pages = self.server.metric("held_bytes"), self.pages()
        self.write("abc", 300)
        self.assertGreater(self.pages(), pages)
        return (self.server.metric("held_bytes") - held) / (self.pages() - pages)

    def lose(self, backend, fault, right, page):
        self.start("--backends", backend, "--max-held", "64M", BEAMLINE_FAULT=fault)
        held = self.server.metric("held_bytes") - page * self.pages()
        with concurrent.futures.ThreadPoolExecutor(2 * len(TEXTS)) as pool:
            streams = [pool.submit(self.stream, *text) for text in TEXTS]
            wholes = [pool.submit(self.write, *text) for text in TEXTS]
            for (status, text), known in zip((each.result() for each in wholes), right):
                self.check(status, text, text if status == 200 else "", known)
            for (status, why, text), known in zip((each.result() for each in streams), right):
                self.check(status, why, text, known)
        lost = self.server.metric("device_lost_total")
        self.until(lambda: self.texts() == [(200, text) for text in right], "the model did not come back: ")
        self.assertEqual(0, self.server.settled("text_pages_used", 0))
        self.assertEqual(0, self.server.settled("streams", 0))
        held += page * self.pages()
        self.assertEqual(held, self.server.settled("held_bytes", held))
        self.end()
        return lost

    def check(self, status, why, text, known):
        if status == 200:
            self.assertEqual(known, text)
        else:
            self.assertIn(status, (500, 503), why)
            self.assertRegex(why, "device|failed|reopened|lost|interp|opencl")
            self.assertTrue(known.startswith(text), (known, text))

    def losses(self, backend, faults):
        self.start("--backends", backend)
        right = [text for _, text in self.texts()]
        page = self.page_bytes()
        self.end()
        lost = 0
        for fault in faults:
            with self.subTest(backend=backend, fault=fault):
                lost += self.lose(backend, fault, right, page)
        return lost

    def test_t14_a_device_in_the_midst_of_texts(self):
        self.assertGreater(self.losses("interp", ["device:662"]), 0)
        self.assertGreater(self.losses("opencl", [f"device:{nth}" for nth in (300, 433, 662, 1003)]), 0)

    def test_t14_launches_without_memory(self):
        self.assertEqual(0, self.losses("interp", ["launch:150"]))
        self.assertEqual(0, self.losses("opencl", [f"launch:{nth}" for nth in (12, 150, 800)]))


class NoMemory(Case):
    """A device without memory for more pages: texts wait for pages of other texts, and a text that would wait forever is
    refused."""

    MEMORY, LEFT = 20 << 20, 150 << 10

    def test_t14_no_memory_for_more_pages(self):
        self.start("--backends", "opencl", "--device-memory", str(self.MEMORY), "--pool", "0")
        right, long = self.texts(), self.write("abc", 560)
        self.assertEqual({200}, {status for status, _ in [*right, long]})
        self.end()
        self.start("--backends", "opencl", "--device-memory", str(self.MEMORY), "--pool", "0")
        self.assertEqual(self.write("abc", 350), self.write("abc", 350))  # both are in the prefix cache: 16 pages
        used = float(re.search(r'^beamline_device_bytes\{device="opencl:0"\} (\S+)$', self.server.call("GET", "/metrics").body.decode(), re.M)[1])
        size = self.MEMORY - int(used) - self.LEFT
        answer = self.server.call("PUT", f"/api/v1/tensors/most?dtype=uint8&shape={size}", bytes(size), {"content-type": "application/octet-stream"})
        self.assertEqual(201, answer.status, answer.body)
        status, why = self.write("abc", 560)
        self.assertEqual(503, status, why)
        self.assertIn("a text has 16 pages of 32 tokens already, and there is no memory for more: device opencl:0 cannot allocate", why)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # 12 pages each, of 16 pages
            self.assertEqual([(200, long[1])] * 4, [(status, long[1] if long[1].startswith(text) else text) for status, text in pool.map(lambda _: self.write("abc", 350), range(4))])
            self.assertEqual(right, list(pool.map(lambda text: self.write(*text), TEXTS)))
        self.assertEqual(204, self.server.call("DELETE", "/api/v1/tensors/most").status)
        self.assertEqual(long, self.write("abc", 560))
        self.assertEqual(0, self.server.settled("text_pages_used", 0))
        self.end()


class Killed(Case):
    """A kill during generation: after a restart the models, from the folder and from a request, generate the same texts."""

    def test_t24_killed_while_texts_are_written(self):
        state = self.enterContext(tempfile.TemporaryDirectory())
        options = ("--backends", "opencl", "--state", state)
        self.start(*options)
        files = {"config": json.dumps({"parameters": {"context": {"string_value": "320"}}}), "file:1/model.json": coded(chain()),
                 "file:1/model.safetensors": coded(nothing()), "file:1/tokenizer.json": coded(TOKENIZER)}
        self.assertEqual(200, self.server.call("POST", "/v2/repository/models/sent/load", {"parameters": files}).status)
        right, wrong = self.texts(), []

        def write_on(i):
            while True:
                try:
                    if i % 2 == 0 and (got := self.write(*TEXTS[i])) != right[i]:
                        wrong.append(got)
                    if i % 2 == 1 and (got := self.write(prompt(i, 40), 60, "sent")) != (200, tell(prompt(i, 40), 60)):
                        wrong.append(got)
                except (OSError, ValueError):  # the server is dead
                    return
        for delay in (0.05, 0.4, 1.3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                writers = [pool.submit(write_on, i) for i in range(4)]
                time.sleep(delay)
                self.server.process.kill()
                for writer in writers:
                    writer.result()
            self.assertEqual([], wrong)
            self.start(*options)
            self.assertEqual({"READY"}, {row["state"] for row in self.server.call("POST", "/v2/repository/index", {}).json})
            self.assertEqual(right, self.texts())
            self.assertEqual((200, tell("abc", 50)), self.write("abc", 50, "sent"))
            self.assertEqual(1, len(list(pathlib.Path(state, "models").iterdir())))
        self.end()


if __name__ == "__main__":
    unittest.main()
