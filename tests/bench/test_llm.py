# SPDX-License-Identifier: MIT
"""bench/llm.py: requests, loads, files and rows with a stand-in for llama.cpp and, where it is, beside llama.cpp."""
import contextlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import llm

DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data"))


class Answer(http.server.BaseHTTPRequestHandler):
    """Sends an event for each token, 0.01 s apart, or one answer at once."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.send_response(200 if request["n_predict"] else 400)
        self.end_headers()
        for _ in range(request["n_predict"] + 1 if request.get("stream") else 1):
            self.wfile.write(b'data: {"content":"a"}\n\n')
            time.sleep(0.01)

    def log_message(self, *_):
        pass


class Loads(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.server.requests = []
        threading.Thread(target=self.server.serve_forever).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url, self.asker = f"http://127.0.0.1:{self.server.server_port}", llm.Asker(1000)

    def test_decode_counts_from_the_first_token(self):
        took = llm.LOADS["decode"].measure(self.asker, self.url)
        self.assertTrue(0.01 <= took < 0.1, took)
        request, = self.server.requests
        self.assertEqual((len(request["prompt"]), request["n_predict"], request["ignore_eos"], request["temperature"]), (llm.SHORT, llm.DECODED, True, 0))

    def test_deep_decode_repeats_its_prompt(self):
        for _ in range(2):
            llm.LOADS["deep"].measure(self.asker, self.url)
        first, second = self.server.requests
        self.assertEqual((first["prompt"], len(first["prompt"])), (second["prompt"], llm.DEEP))

    def test_prefill(self):
        took = llm.LOADS["prefill_128"].measure(self.asker, self.url)
        self.assertTrue(0 < took < 0.1)
        llm.LOADS["prefill_128"].measure(self.asker, self.url)
        first, second = self.server.requests
        self.assertEqual((len(first["prompt"]), first["n_predict"], first["cache_prompt"]), (128, 1, False))
        self.assertNotEqual(first["prompt"], second["prompt"])
        self.assertTrue(all(125 <= token < 1000 for token in first["prompt"]))

    def test_clients(self):
        took = llm.LOADS["clients_8"].measure(self.asker, self.url)
        self.assertEqual(len(self.server.requests), 8)
        self.assertTrue(0.01 / (8 * llm.CLIENT_TOKENS) <= took < 1)

    def test_a_refused_request(self):
        with self.assertRaisesRegex(RuntimeError, f"^{self.url}: 400 "):
            llm.send(self.url, [1], 0)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "small.gguf").write_bytes(b"GGUF")
        for name, text in (("llama-server", "echo version: 7 >&2"), ("llama-quantize", 'echo "$4 of $(cat "$2")" > "$3"')):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)

    def parse(self, *words):
        with contextlib.redirect_stdout(io.StringIO()):
            return llm.parse(["--model", str(self.folder / "small.gguf"), "--cache", str(self.folder / "cache"), *words])

    def test_types_are_made_once_from_float16(self):
        options = self.parse("--llama", str(self.folder))
        self.assertEqual(options.version, "llama.cpp 7")
        with contextlib.redirect_stderr(io.StringIO()) as told:
            paths = [llm.make_file("Q4_0", options) for _ in range(2)]
        self.assertEqual((paths[0], paths[0].read_text()), (paths[1], "Q4_0 of F16 of GGUF\n"))
        self.assertEqual(told.getvalue(), "making small.F16.gguf\nmaking small.Q4_0.gguf\n")
        self.assertIsNone(llm.make_file("Llama_1B", options))
        self.assertEqual(llm.make_file("Q4_0", self.parse()), options.model)

    def test_words(self):
        self.assertEqual(self.parse("--only", "q8_0,f16_decode").rows, [name for name in llm.ROWS if name.startswith(("q8_0_", "f16_decode"))])
        for words, said in ((["--only", "q3"], "--only q3: there is no such row; there are q4_0_decode, "), (["--llama", "/nowhere"], "--llama /nowhere: there is no llama-server"),
                            (["--model", "/nowhere.gguf"], "--model /nowhere.gguf: there is no such file")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as out:
                self.assertRaises(SystemExit, self.parse, *words)
                self.assertIn(said, out.getvalue())


class Measured(unittest.TestCase):
    def call(self, model, *words):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, ROOT / "bench" / "llm.py", "--model", model, "--quick", "--out", out, "--cache", out, *words],
                                  capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout, json.loads((pathlib.Path(out) / "llm.json").read_text())["rows"]

    def test_without_llama(self):
        model = DATA / "stories260K" / "stories260K-f32.gguf"
        if not model.is_file():
            self.skipTest(f"{model} is missing: BEAMLINE_DATA names its folder")
        out, rows = self.call(model, "--only", "q4_0_decode,q4_0_prefill_128,q4_0_clients_8")
        self.assertIn("llama.cpp is not given (--llama FOLDER): the rows have our side only, all with the weights of --model\n", out)
        self.assertEqual([row["title"] for row in rows], ["Q4_0, decode", "Q4_0, prefill 128", "Q4_0, 8 clients"])
        self.assertTrue(all(row["beamline"] > 0 and "ratio" not in row for row in rows))

    def test_beside_llama(self):
        folder, model = os.environ.get("LLAMA_BIN"), os.environ.get("BEAMLINE_GGUF")
        if folder is None or model is None:
            self.skipTest("LLAMA_BIN does not name a folder of llama.cpp's programs, or BEAMLINE_GGUF a GGUF file")
        _, rows = self.call(model, "--llama", folder, "--only", "q4_0_decode,q4_0_clients_8")
        self.assertEqual([set(row["peer_all"]) for row in rows], [{"llama-server", "llama-bench"}, {"llama-server"}])
        self.assertTrue(all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows))


if __name__ == "__main__":
    unittest.main()
