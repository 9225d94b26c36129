# SPDX-License-Identifier: MIT
"""Runs the code blocks of a page as a reader would paste them, beside a server.

The blocks run in order in one shell or one interpreter.  The whole-line comments below a command are its expected output; `...`
matches any text, and blanks are ignored.  A command without such a comment must only succeed.  `opencl:0` in an answer stands
for the default device.  The ports 8470 to 8479 are replaced by free ports, the first of them by the server's port;
`build/beamline` is the server under test.
"""
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

SECONDS = 600  # limit for one page, on a busy machine
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PROBLEM = re.compile(r'\{"(type":"urn:beamline:error|error":)')


def blocks(page, language, without=()):
    """Returns [(line, text)] of the page's blocks in a language, without the blocks that begin with a text of |without|; each
    of these texts must occur."""
    text = (ROOT / page).read_text()
    found = [(text.count("\n", 0, block.start()) + 2, block[2]) for block in BLOCK.finditer(text) if block[1] == language]
    left = [each for each in without if not any(block.startswith(each) for _, block in found)]
    if left:
        raise AssertionError(f"{page}: no block begins with {left}")
    return [(line, block) for line, block in found if not block.startswith(tuple(without))]


def commands(line, block):
    """Returns [(line, text, expected output or None)]: a command extends up to the comments below it."""
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
    """Whether the output is the expected output."""
    want, got = ("".join(text.split()) for text in (told, printed))
    return re.fullmatch(".*".join(re.escape(part) for part in want.split("...")), got, re.S) is not None


def parts(block):
    """Returns the lines of a block without remarks after ;, in groups of contiguous lines: "..." separates the groups."""
    lines = [re.sub(r"\s+; .*", "", line).rstrip() for line in block.splitlines()]
    return [group.strip("\n") for group in re.split(r"^\.\.\.$", "\n".join(lines), flags=re.M)]


def missing(block, text):
    """Returns the first line of the block that the text lacks, in the order of the block; None if the text has all lines."""
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
    """A folder with build/beamline and examples/, and a server with its state in the folder."""

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
        """Replaces the ports of the page by the actual ports."""
        return re.sub(r"\b847(\d)\b", lambda port: str(self.ports[int(port[1])]), text)

    def run(self, words, text):
        """Runs |words| with the text as standard input and returns the output; also ends the processes that the script started."""
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
        """Runs the page's shell blocks after the blocks of the page that it builds on.  Returns a list of errors."""
        steps = [step for line, block in [*before, *blocks(page, "sh", without)] for step in commands(line, block)]
        script = []
        for i, (_, text, told) in enumerate(steps):
            # output goes to files, since a server in the background would keep a pipe open
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
        """Runs the page's Python blocks in one interpreter.  Returns a list of errors."""
        return self.paste(page, blocks(page, "python", without), [sys.executable, "-"], "print({!r}, flush=True)", "#")

    def javascript(self, page):
        """Runs the page's JavaScript blocks as one module.  Returns a list of errors."""
        (self.path / "node_modules").mkdir()
        (self.path / "node_modules" / "beamline-client").symlink_to(ROOT / "clients" / "js")
        return self.paste(page, blocks(page, "js"), ["node", "--input-type=module", "-"], "console.log({!r});", "//")

    def paste(self, page, found, words, say, comment):
        """Joins blocks to one script; |say| returns a statement of the language that prints a text."""
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
    """Tests of a page with a shared Desk."""

    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        cls.desk = Desk()
        cls.addClassCleanup(cls.desk.close)
