# SPDX-License-Identifier: MIT
"""The blocks of a page that can be pasted, run as a reader would: from the first to the last, in one shell or one Python, beside a server.

A command's output is what the whole-line comments below it say; `...` there stands for anything, and blanks do not count.  A command without such a
comment must only succeed.  `opencl:0` in an answer is the default device, whichever that is.  The ports 8470 to 8479 become free ones, the first of them the server's; `build/beamline` is the server under test."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import beamline
from served import ROOT, SERVER, Server

SECONDS = 600  # of a page, on a busy machine
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PROBLEM = re.compile(r'\{"(type":"urn:beamline:error|error":)')


def blocks(page, language, without=()):
    """[(line, text)] of the page's blocks in that language, but for those that begin with a text of |without|, each of which must be there."""
    text = (ROOT / page).read_text()
    found = [(text.count("\n", 0, block.start()) + 2, block[2]) for block in BLOCK.finditer(text) if block[1] == language]
    left = [each for each in without if not any(block.startswith(each) for _, block in found)]
    if left:
        raise AssertionError(f"{page}: no block begins with {left}")
    return [(line, block) for line, block in found if not block.startswith(tuple(without))]


def commands(line, block):
    """[(line, text, what it should print or None)]: a command goes up to the comments below it."""
    found, text, told, start = [], [], [], line
    for at, each in enumerate(block.splitlines(), line):
        if each.startswith("#"):
            told.append(each[1:])
            continue
        if told:
            found.append((start, "\n".join(text), "\n".join(told) if text else None))
            text, told, start = [], [], at
        text.append(each)
    return [(at, text, told) for at, text, told in [*found, (start, "\n".join(text), "\n".join(told) or None)] if text.strip()]


def matches(told, printed):
    """Whether that is what was printed."""
    want, got = ("".join(text.split()) for text in (told, printed))
    return re.fullmatch(".*".join(re.escape(part) for part in want.split("...")), got, re.S) is not None


def parts(block):
    """The lines of a block, in groups that follow each other without a gap: a remark behind ; is none of it, nor are lines left out."""
    lines = [re.sub(r"\s+; .*", "", line).rstrip() for line in block.splitlines()]
    return [group.strip("\n") for group in re.split(r"^\.\.\.$", "\n".join(lines), flags=re.M)]


def missing(block, text):
    """The first line of the block that the text lacks, in the block's order; None where it has all."""
    given = [line.rstrip() for line in text.splitlines()]
    at = 0
    for line in "\n".join(parts(block)).splitlines():
        if line not in given[at:]:
            return line
        at += given[at:].index(line) + 1
    return None


def free_ports(count):
    socks = [socket.socket() for _ in range(count)]
    for sock in socks:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


class Desk:
    """A folder with build/beamline and examples/ in it, and a server that keeps its state there."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "build").mkdir()
        (self.path / "build" / "beamline").symlink_to(SERVER)
        for name in ("examples", "clients"):
            (self.path / name).symlink_to(ROOT / name)
        self.server = Server("--log-level", "error", "--kernel-db", "none", "--tune=off", "--state", self.path / "state", *options)
        self.client = beamline.Client(self.server.url)
        self.device = next(device["id"] for device in self.client.devices() if device["default"])
        self.ports = [self.server.port, *free_ports(9)]

    def close(self):
        self.client.close()
        status = self.server.stop()
        self.folder.cleanup()
        if status != 0:
            raise AssertionError(f"the server ended with status {status}")

    def here(self, text):
        """The text with the ports that are meant."""
        return re.sub(r"\b847(\d)\b", lambda port: str(self.ports[int(port[1])]), text)

    def run(self, words, text):
        """What |words| say to this text as a script; what it started goes with it."""
        env = {**os.environ, "HOME": str(self.path), "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "BEAMLINE_STATE": "none", "BEAMLINE_KERNEL_DB": str(self.path / "kernels.db"),
               "BEAMLINE_URL": self.server.url, "PYTHONPATH": str(ROOT / "clients" / "python")}
        process = subprocess.Popen(words, cwd=self.path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.communicate(text.encode(), SECONDS)[0].decode(errors="replace")
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def shell(self, page, without=(), before=()):
        """Paste the page's shell blocks, behind those of another that it builds on; a list of what went wrong."""
        steps = [step for line, block in [*before, *blocks(page, "sh", without)] for step in commands(line, block)]
        script = []
        for i, (_, text, told) in enumerate(steps):
            # into files, so that a server that it leaves behind does not hold the pipe
            script.append(f"{{ {self.here(text)}\n}} >{i}.out 2>{i}.err </dev/null\necho $? >{i}.status")
        printed = self.run(["bash"], "\n".join(script) + "\n")
        wrong = [printed] if printed.strip() else []
        for i, (line, text, told) in enumerate(steps):
            status, out, err = ((self.path / f"{i}.{kind}") for kind in ("status", "out", "err"))
            if not status.exists():
                return [*wrong, f"{page}:{line}: never came to its end:\n{text}"]
            out = out.read_text(errors="replace")
            told = told and self.here(told).replace("opencl:0", self.device)
            bad = status.read_text().strip() != "0" or (not matches(told, out) if told is not None else PROBLEM.search(out))
            if bad:
                wrong.append(f"{page}:{line}: {text}\nstatus {status.read_text().strip()}\nshould print: {told}\nprinted: {out}\n{err.read_text(errors='replace')}")
        return wrong

    def python(self, page, without=()):
        """Paste the page's Python blocks into one interpreter; a list of what went wrong."""
        return self.paste(page, blocks(page, "python", without), [sys.executable, "-"], "print({!r}, flush=True)", "#")

    def javascript(self, page):
        """Paste the page's JavaScript blocks into one module; a list of what went wrong."""
        (self.path / "node_modules").mkdir()
        (self.path / "node_modules" / "beamline-client").symlink_to(ROOT / "clients" / "js")
        return self.paste(page, blocks(page, "js"), ["node", "--input-type=module", "-"], "console.log({!r});", "//")

    def paste(self, page, found, words, say, comment):
        """Paste blocks into one script; |say| prints a text in its language."""
        mark = "-" * 20 + "{}"
        script = "\n".join(f"{self.here(text)}\n{say.format(mark.format(i))}\n" for i, (_, text) in enumerate(found))
        out, wrong = self.run(words, script), []
        for i, (line, text) in enumerate(found):
            printed, end, out = out.partition(mark.format(i) + "\n")
            if not end:
                return [*wrong, f"{page}:{line}: {text}\nended with:\n{printed}"]
            told = "\n".join(each[len(comment):] for each in text.splitlines() if each.startswith(comment))
            if told and not matches(told, printed):
                wrong.append(f"{page}:{line}: {text}\nprinted: {printed}")
        return wrong


class DeskTest(unittest.TestCase):
    """Tests of a page that share one desk."""

    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        cls.desk = Desk()
        cls.addClassCleanup(cls.desk.close)
