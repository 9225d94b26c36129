#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Soak test of text generation: texts start, end and share prefixes; each must be correct, and memory must not grow.

    tests/soak_texts.py [--minutes 1] [--clients 32] [--backends opencl]

The model has a paged KV cache (docs/models.md) with fewer pages than all concurrent texts need, so that pages are continuously
evicted to the host and texts wait.  A third of the clients disconnect before the end of their text.  The test fails if a text
differs from its tokens, if resident memory grows by more than 8 MiB + 5% after the first third, and if pages or charges remain.
"""

import argparse
import http.client
import json
import math
import pathlib
import random
import struct
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "models"), str(ROOT / "tests" / "http"), str(ROOT / "clients" / "python"), str(ROOT / "examples")]

import test_text_pages as pages  # noqa: E402
from fixture import Server  # noqa: E402
from test_text import TOKENIZER  # noqa: E402

PLACES, CONTEXT, BEGINS = 40, 320, 6


def fill(folder):
    version = pathlib.Path(folder) / "chain" / "1"
    version.mkdir(parents=True)
    (version / "model.json").write_text(json.dumps(pages.chain(chunk=64, rows=16, pages=PLACES, context=CONTEXT)))
    (version / "model.safetensors").write_bytes(pages.safetensors({"seen": ("F32", [PLACES, 32], struct.pack("<f", math.nan) * PLACES * 32)}))
    (version / "tokenizer.json").write_text(json.dumps(TOKENIZER))


class Client(threading.Thread):
    """Generates one text after the other until |end|."""

    def __init__(self, port, number, end):
        super().__init__()
        self.port, self.end, self.random, self.texts, self.left, self.wrong = port, end, random.Random(number), 0, 0, None

    def run(self):
        try:
            while time.monotonic() < self.end and self.wrong is None:
                self.one()
        except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
            self.wrong = f"{type(error).__name__}: {error}"

    def one(self):
        begin = pages.prompt(self.random.randrange(BEGINS), 130)[:self.random.choice((1, 40, 64, 130))]
        text = begin + pages.prompt(self.random.randrange(10 ** 6), self.random.randrange(60))
        count = self.random.randrange(1, CONTEXT - len(text))
        leaves = self.random.randrange(1, count + 1) if self.random.random() < 1 / 3 else None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v2/models/chain/generate_stream", json.dumps({"text_input": text, "max_tokens": count, "ignore_eos": True}))
        answer, found = connection.getresponse(), ""
        if answer.status != 200:
            self.wrong = f"status {answer.status}: {answer.read()}"
            return
        for line in answer:
            if line.startswith(b"data: "):
                found += json.loads(line[6:])["text_output"]
            if leaves is not None and len(found) >= leaves:
                break
        connection.close()
        want = pages.tell(text, len(found) if leaves is not None else count)
        self.left, self.texts = self.left + (leaves is not None), self.texts + 1
        if found != want:
            self.wrong = f"behind {text!r} it wrote {found!r}, and not {want!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--backends", default="opencl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        server = Server("--backends", options.backends, "--models", folder, "--log-level", "error")
        while server.call("GET", "/v2/health/ready").status != 200:
            time.sleep(0.05)
        held, begin = server.metric("held_bytes"), time.monotonic()
        clients = [Client(server.port, number, begin + 60 * options.minutes) for number in range(options.clients)]
        for client in clients:
            client.start()
        time.sleep(20 * options.minutes)
        early = server.rss()
        for client in clients:
            client.join()
        late, wrong = server.rss(), [client.wrong for client in clients if client.wrong]
        for name, value in (("text_pages_used", 0), ("held_bytes", held)):
            found = server.settled(name, value)
            if found != value:
                wrong.append(f"{name} is {found}, and was to be {value}")
        places = server.metric("text_pages_free") + server.metric("text_pages_kept")
        if places != PLACES:
            wrong.append(f"{places} pages are free or kept, of {PLACES}")
        if late > early * 1.05 + (8 << 20):
            wrong.append(f"resident memory went from {early >> 20} to {late >> 20} MiB")
        moved, known = server.metric("text_pages_moved_out_total"), server.metric("prefix_tokens_total")
        print(f"{sum(client.texts for client in clients)} texts, {sum(client.left for client in clients)} of them left early; {moved:.0f} pages moved out, "
              f"{known:.0f} tokens were known; {early >> 20} and {late >> 20} MiB")
        if server.stop() != 0:
            wrong.append("the server ended badly:\n" + server.log_text()[-3000:])
    if wrong:
        sys.exit("\n".join(wrong[:5]))


if __name__ == "__main__":
    main()
