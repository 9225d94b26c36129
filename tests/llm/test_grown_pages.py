# SPDX-License-Identifier: MIT
"""The KV cache of an imported model starts with few pages and grows on demand; texts are the same as alone."""
import concurrent.futures
import os
import re
import unittest
import urllib.request

import asking
import gguf_files
import test_import

LONG, PAGE, FIRST = 2048, 32, 8


class Grown(unittest.TestCase):
    serve = test_import.Files.serve

    def pages(self, server):
        """Returns the number of pages on the device."""
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            return sum(float(value) for value in re.findall(r"^beamline_text_pages_(?:used|kept|free) (\S+)$", answer.read().decode(), re.M))

    def test_memory_comes_with_use(self):
        keys = gguf_files.llama_keys() | {"llama.context_length": ("u32", LONG)}
        os.environ["BEAMLINE_FAULT"] = "page:1+1"  # fills freed pages with NaN
        self.addCleanup(os.environ.pop, "BEAMLINE_FAULT")
        server = self.serve({"tiny.gguf": gguf_files.gguf(keys, gguf_files.llama_tensors())})

        def write(begin, tokens):
            answer = asking.call(f"{server.url}/v2/models/tiny/generate", {"text_input": begin, "max_tokens": tokens, "ignore_eos": True})
            self.assertNotIn("error", answer)
            return answer["text_output"]

        alone = [write(letter, 200) for letter in "abcdef"]
        self.assertIn(self.pages(server), range(FIRST, 6 * 7 + FIRST + 1))
        few = self.pages(server)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            beside = list(pool.map(lambda letter: write(letter, 400), "abcdef"))
        self.assertEqual(alone, [text[:len(short)] for text, short in zip(beside, alone)])
        self.assertGreater(self.pages(server), few)
        self.assertLess(self.pages(server), 6 * (LONG // PAGE))


if __name__ == "__main__":
    unittest.main()
