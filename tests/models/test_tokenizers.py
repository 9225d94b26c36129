# SPDX-License-Identifier: MIT
"""Tokenizers compared with Hugging Face's library from PyPI: equal ids and decoded texts for the same files."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from environment import HERE, environment
from repository import PROGRAM

TOKENIZE = pathlib.Path(PROGRAM).parent / "tokenize"
SEED, COUNT = 1, 400


def ask(file, lines):
    done = subprocess.run([TOKENIZE, file], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout.split("\n")[:-1], done.stdout + done.stderr


def says(text):
    """Decodes bytes in hexadecimal; bytes that are not UTF-8 become replacement characters."""
    return bytes.fromhex(text).decode(errors="replace")


class Tokenizers(unittest.TestCase):
    def compare(self, file, cases):
        lines = [f"encode {text.encode().hex()}" for text, _, _ in cases] + ["decode " + " ".join(map(str, ids or [])) for _, ids, _ in cases]
        status, answers, output = ask(file, lines)
        self.assertEqual((0, len(lines)), (status, len(answers)), output[-2000:])
        encoded, decoded = answers[:len(cases)], answers[len(cases):]
        wrong = []
        for (text, ids, again), got, back in zip(cases, encoded, decoded):
            want = "error" if ids is None else " ".join(map(str, ids))
            if got.partition(":")[0] != want:
                wrong.append(f"{text!r} is {got}, not {want}")
            elif ids is not None and says(back) != again:
                wrong.append(f"{ids} of {text!r} are {says(back)!r}, not {again!r}")
        self.assertEqual([], wrong[:5], f"{len(wrong)} of {len(cases)}")

    def test_the_librarys(self):
        folder = environment("requirements-tokenizers.txt")
        if folder is None:
            self.skipTest("pip cannot get tokenizers and sentencepiece")
        with tempfile.TemporaryDirectory() as made:
            done = subprocess.run([folder / "bin" / "python", HERE / "tokenizer_calls.py", made, str(SEED), str(COUNT)], capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            files = sorted(pathlib.Path(made).glob("*.json"))
            self.assertGreater(len(files), 30)
            for file in files:
                with self.subTest(file.stem):
                    self.compare(file, json.loads(file.with_suffix(".cases").read_text()))


if __name__ == "__main__":
    unittest.main()
