# SPDX-License-Identifier: MIT
"""Damaged, truncated and foreign entries in the caches of compiled and searched kernels are ignored and replaced."""

import os
import pathlib
import tempfile
import threading
import unittest

from fixture import Server


def asked(i):
    """Returns a unique kernel and its result."""
    nodes = [{"id": "y", "op": "mul", "in": ["x", i + 2]}, {"id": "s", "op": "sum", "in": ["y"]}]
    return {"inputs": {"x": [1, 2, 3]}, "nodes": nodes, "outputs": ["y", "s"]}, {"y": [(i + 2) * x for x in (1, 2, 3)], "s": [6 * (i + 2)]}


def flip(data):
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]


DAMAGES = {"empty": lambda data: b"", "cut in the head": lambda data: data[:20], "cut": lambda data: data[:-1], "longer": lambda data: data + b"x",
           "one bit": flip, "the last byte": lambda data: data[:-1] + bytes([data[-1] ^ 0x80]), "another version": lambda data: bytes([data[0] ^ 1]) + data[1:],
           "zeros": lambda data: bytes(len(data)), "lengths": lambda data: data[:8] + b"\xff" * 16 + data[24:], "noise": lambda data: os.urandom(len(data))}


class Compiled:
    """For one back end: entries that one server wrote, read by a second server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self):
        server = Server("--backends", self.BACKEND, "--kernel-db", "none", "--tune=off", "--interpret-first=off", env={"BEAMLINE_CACHE": str(self.folder)})
        self.addCleanup(server.stop)
        if not server.call("GET", "/api/v1/devices").json["devices"][0]["id"].startswith(self.BACKEND):
            self.skipTest(f"no device of {self.BACKEND}")
        return server

    def ask(self, server, count=3):
        for i in range(count):
            body, wanted = asked(i)
            answer = server.call("POST", "/api/v1/run", body)
            self.assertEqual(200, answer.status, answer.body[:500])
            self.assertEqual(wanted, {name: value["data"] for name, value in answer.json["outputs"].items()})

    def files(self):
        return sorted(path for path in (self.folder / self.BACKEND).iterdir() if path.is_file() and path.stat().st_size > 0)

    def test_t30_damaged_entries(self):
        server = self.start()
        self.ask(server)
        self.assertEqual(0, server.stop())
        good = {path: path.read_bytes() for path in self.files()}
        self.assertGreater(len(good), 0)
        for what, damage in DAMAGES.items():
            with self.subTest(what):
                for path, data in good.items():
                    path.write_bytes(damage(data))
                server = self.start()
                self.ask(server)
                self.assertEqual(0, server.stop(), server.last[-2000:])

    def test_t30_entries_of_another_kernel(self):
        """Simulates two keys with one hash: the file has the whole key, which is compared."""
        server = self.start()
        self.ask(server)
        self.assertEqual(0, server.stop())
        paths = self.files()
        texts = [path.read_bytes() for path in paths]
        for path, text in zip(paths, texts[1:] + texts[:1]):
            path.write_bytes(text)
        server = self.start()
        self.ask(server)
        self.assertEqual(0, server.stop())

    def test_t30_two_at_once(self):
        servers = [self.start(), self.start()]
        threads = [threading.Thread(target=self.ask, args=(server, 6)) for server in servers]
        failed, hook = [], threading.excepthook
        threading.excepthook = failed.append
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            threading.excepthook = hook
        self.assertEqual([], failed)
        self.assertEqual([0, 0], [server.stop() for server in servers])


class OpenCL(Compiled, unittest.TestCase):
    BACKEND = "opencl"


class Vulkan(Compiled, unittest.TestCase):
    BACKEND = "vulkan"


if __name__ == "__main__":
    unittest.main()
