#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure language models on a server beside llama.cpp, on the same GGUF files.

    bench/llm.py --model FILE.gguf --llama FOLDER [--gguf PYTHON] [--only q4_0,q8_0_decode] [--rounds 5] [--seconds 1] [--quick]
                 [--cache FOLDER] [--device opencl:0] [--out bench/out] [--update] [--docs]

FOLDER has llama-server, llama-bench and llama-quantize; llama-quantize makes the files of all types from FILE.gguf, once, in the
cache.  The rows of the type llama_1b need a Python with gguf and numpy, which writes a file of Llama 3.2 1B's sizes with random
Q4_K and Q6_K weights (bench/llama_file.py).  Without --llama, only our rates are measured, on FILE.gguf.

  decode        one text: the time from its first token to its last, after a prompt of 16 tokens
  prefill_N     a prompt of N tokens, to its first token, without a prefix cache
  clients_N     N clients, each of which sends a prompt of 32 tokens and waits for 48 tokens: generated tokens of all clients
  deep          decode after a prompt of 4,096 tokens

Both servers get the same requests through HTTP, with a thread for each core, and the sides take turns; llama-bench runs too where
it has the load (decode and prefill), and the faster of the two counts.  A ratio is the median of the ratios within a round.
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import report
from run import Server  # (and the path to the client)
import beamline  # noqa: E402
import peers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DECODED, SHORT, CLIENT_PROMPT, CLIENT_TOKENS, DEEP = 48, 16, 32, 48, 4096
READY_SECONDS = 300


# ---- requests

def send(url, prompt, count, **members):
    """Asks for |count| tokens after the tokens of |prompt|.  Returns the times of the events of the answer: one if it is not a
    stream."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=READY_SECONDS)
    body = json.dumps({"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True, **members})
    begin = time.perf_counter()
    connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{url}: {answer.status} {answer.read().decode()}")
    if members.get("stream"):
        times = [time.perf_counter() - begin for line in answer if line.startswith(b"data: ")]
    else:
        answer.read()
        times = [time.perf_counter() - begin]
    connection.close()
    return times


class Asker:
    """Draws prompts for the loads of a model.  Each load is a function of the address of a server that returns the seconds of a
    token."""

    def __init__(self, vocabulary):
        self.rng, self.vocabulary = random.Random(1), vocabulary
        self.deep = self.prompt(DEEP)

    def prompt(self, count):
        return [self.rng.randrange(self.vocabulary // 8, self.vocabulary) for _ in range(count)]  # the first tokens are marks and bytes

    def decode(self, url, prompt=None):
        first, *_, last = send(url, prompt or self.prompt(SHORT), DECODED, stream=True)
        return (last - first) / (DECODED - 1)

    def decode_deep(self, url):
        return self.decode(url, self.deep)  # after the first request the prefix cache has the keys and values of the prompt

    def prefill(self, url, count):
        return send(url, self.prompt(count), 1, cache_prompt=False)[0] / count

    def clients(self, url, count):
        prompts = [self.prompt(CLIENT_PROMPT) for _ in range(count)]
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda prompt: send(url, prompt, CLIENT_TOKENS), prompts))
        return (time.perf_counter() - begin) / (count * CLIENT_TOKENS)


class Load:
    """measure(asker, url) as of Asker; |slots| and |context| of llama-server; |bench|: llama-bench's words for this load"""

    def __init__(self, title, measure, slots=1, context=1024, bench=None):
        self.title, self.measure, self.slots, self.context, self.bench = title, measure, slots, context, bench


LOADS = {"decode": Load("decode", Asker.decode, bench=("-p", "0", "-n", str(DECODED))),
         **{f"prefill_{count}": Load(f"prefill {count}", lambda asker, url, count=count: asker.prefill(url, count), bench=("-p", str(count), "-n", "0"))
            for count in (128, 512)},
         **{f"clients_{count}": Load(f"{count} clients", lambda asker, url, count=count: asker.clients(url, count), count, 128 * count) for count in (8, 32)},
         "deep": Load("decode at 4,096", Asker.decode_deep, context=DEEP + 256)}
# type of weights: {load: wanted ratio}
GOALS = {"Q4_0": {"decode": 1.4, "prefill_128": 2.3, "prefill_512": 2.3, "clients_8": 1.8, "clients_32": 2, "deep": 1},
         "Q4_1": {"decode": 1.8, "prefill_128": 4, "prefill_512": 4, "deep": 1},
         "Q8_0": {"decode": 1.25, "prefill_128": 2.3, "prefill_512": 2.3, "clients_8": 1.8, "clients_32": 2, "deep": 1},
         "Q4_K_M": {"decode": 1.4, "prefill_128": 2.3, "prefill_512": 2.3, "deep": 1},
         "F16": {"decode": 1, "prefill_128": 1.3, "prefill_512": 1.3, "deep": 1},
         "Llama_1B": {"decode": 1.2, "prefill_128": 1.2}}
ROWS = {f"{kind.lower()}_{load}": (kind, load) for kind, goals in GOALS.items() for load in goals}  # name of a row: (type, load)


# ---- the sides

def repeat(measure, seconds):
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        times.append(measure())
    return times


class LlamaServer(peers.Stopped):
    def __init__(self, options, file, load, asker):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.load, self.asker = f"http://127.0.0.1:{port}", load, asker
        super().__init__("llama-server", [options.llama / "llama-server", "-m", file, "--port", str(port), "-t", peers.THREADS, "-np", str(load.slots), "-c", str(load.context)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with self.awake():
            self.wait()

    def wait(self):
        until = time.monotonic() + READY_SECONDS
        while not self.is_ready():
            if self.has_ended() or time.monotonic() > until:
                raise RuntimeError(f"llama-server did not become ready (status {self.process.poll()})")
            time.sleep(0.1)

    def is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", urllib.parse.urlsplit(self.url).port, timeout=10)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def slice(self, seconds):
        with self.awake():
            return repeat(lambda: self.load.measure(self.asker, self.url), seconds)

    def close(self):
        self.process.kill()
        self.process.wait()


class LlamaBench:
    """A run of llama-bench for each slice, which loads the file and warms up before it measures."""

    label = "llama-bench"

    def __init__(self, options, file, load):
        self.command = [options.llama / "llama-bench", "-m", file, "-t", peers.THREADS, "-r", "1", "-o", "json", *load.bench]

    def slice(self, _):
        done = subprocess.run(self.command, check=True, capture_output=True, text=True)
        return [1 / json.loads(done.stdout)[0]["avg_ts"]]

    def close(self):
        pass


def start_peers(options, file, load, asker):
    if options.llama is None:
        return []
    return [LlamaServer(options, file, load, asker), *([LlamaBench(options, file, load)] if load.bench else [])]


class Hosted:
    """Our server with the model of |file|."""

    def __init__(self, file, options):
        self.folder = tempfile.TemporaryDirectory()
        place = pathlib.Path(self.folder.name) / "model"
        place.mkdir()
        (place / "model.gguf").symlink_to(file.resolve())
        (place / "config.json").write_text(json.dumps({"parameters": {"context": {"string_value": str(DEEP + 256)}}}))
        self.server = Server(None, 0, words=("--models", self.folder.name, "--device", options.device))
        self.client = client = beamline.Client(self.server.url)
        client.wait_ready(READY_SECONDS)
        self.url = self.server.url
        self.vocabulary = client.call("GET", "/v1/models")["data"][0]["meta"]["n_vocab"]

    def stop(self):
        self.server.stop()
        self.folder.cleanup()


# ---- files

def make_file(kind, options):
    """The file of a type, made once; None if its program is not given."""
    if options.llama is None and kind != "Llama_1B":
        return options.model
    path = options.cache / f"{options.model.stem}.{kind}.gguf"
    if path.is_file() or kind == "Llama_1B" and options.gguf is None:
        return path if path.is_file() else None
    options.cache.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    source = options.model if kind in ("F16", "Llama_1B") else make_file("F16", options)
    command = ([options.gguf, HERE / "llama_file.py", source, part] if kind == "Llama_1B"
               else [options.llama / "llama-quantize", "--allow-requantize", source, part, kind])
    print(f"making {path.name}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]}: status {done.returncode}\n{done.stdout[-2000:]}")
    part.rename(path)
    return path


# ---- rows

def compare(name, file, hosted, asker, options):
    kind, load_name = ROWS[name]
    load = LOADS[load_name]

    def ours(seconds):
        times = repeat(lambda: load.measure(asker, hosted.url), seconds)
        return times, times
    workers = start_peers(options, file, load, asker)
    try:
        peers.settle(hosted.client, ours)
        for worker in workers:
            worker.slice(options.seconds)  # warm up
        walls, _, theirs = peers.take_turns(ours, workers, options)
    finally:
        for worker in workers:
            worker.close()
    return {"name": name, "group": "llm", "title": f"{kind}, {load.title}", "unit": "tokens/s", "goal": GOALS[kind][load_name], "by": "wall", "date": peers.now(),
            "peer": "llama.cpp", "peer_version": options.version, "bytes": file.stat().st_size, **peers.rates(1, walls, theirs)}


def llama_version(folder):
    """The version that llama-server tells, or None."""
    try:
        done = subprocess.run([folder / "llama-server", "--version"], capture_output=True, text=True)
    except OSError:
        return None
    line = next((line for line in (done.stdout + done.stderr).splitlines() if line.startswith("version:")), None)
    return line and "llama.cpp " + line.partition(":")[2].strip()


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, metavar="FILE", help="a GGUF file, such as SmolLM2-135M")
    parser.add_argument("--llama", type=pathlib.Path, metavar="FOLDER", help="of llama-server, llama-bench and llama-quantize")
    parser.add_argument("--gguf", metavar="PYTHON", help="a Python that has gguf and numpy")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "beamline" / "gguf", help="folder of the files that are made")
    report.add_options(parser, ROWS, 1.0, 5)
    options = report.parse_rows(parser, words, ROWS)
    if not options.model.is_file():
        parser.error(f"--model {options.model}: there is no such file")
    options.version = llama_version(options.llama) if options.llama else None
    if options.llama is None:
        print("llama.cpp is not given (--llama FOLDER): the rows have our side only, all with the weights of --model")
    elif options.version is None:
        parser.error(f"--llama {options.llama}: there is no llama-server")
    return options


def main(words):
    options = parse(words)
    found, rows = report.begin("llm.json", options), []
    report.print_heads(found)
    for kind in dict.fromkeys(ROWS[row][0] for row in options.rows):
        file = make_file(kind, options)
        if file is None:
            print(f"{kind}: --gguf PYTHON writes its file")
            continue
        hosted = Hosted(file, options)
        try:
            asker = Asker(hosted.vocabulary)
            for name in (row for row in options.rows if ROWS[row][0] == kind):
                rows.append(compare(name, file, hosted, asker, options))
                report.print_row(rows[-1])
                report.put(found, ROWS, rows[-1])
        finally:
            hosted.stop()
    report.print_mean(rows)
    return report.finish(found, "llm.json", options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
