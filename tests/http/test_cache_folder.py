# SPDX-License-Identifier: MIT
"""The cache folder stays within --cache-size, and servers that share the folder tolerate files that disappear."""

import os
import tempfile
import threading
import time
import unittest

from fixture import Server

KERNEL = 4096  # least size of a compiled kernel with its key
LOOK = 10  # seconds between two checks of the folder


def graph(i):
    """Returns a graph with a unique kernel."""
    return {"inputs": {"x": [1, 2, 3]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", i + 2]}, {"id": "z", "op": "exp", "in": ["y"]}],
            "outputs": ["y", "z"]}


class CacheFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, size):
        server = Server("--backends", "opencl", "--cache-size", size, "--compile-processes", "1", "--interpret-first=off", env={"BEAMLINE_CACHE": self.folder})
        self.addCleanup(server.stop)
        if not server.call("GET", "/api/v1/devices").json["devices"][0]["id"].startswith("opencl"):
            self.skipTest("no device of OpenCL")
        return server

    def run_it(self, server, i):
        answer = server.call("POST", "/api/v1/run", graph(i))
        self.assertEqual(200, answer.status, answer.body[:500])
        self.assertEqual([(i + 2) * x for x in (1, 2, 3)], answer.json["outputs"]["y"]["data"])

    def files(self):
        folder = os.path.join(self.folder, "opencl")
        found = {}
        for name in os.listdir(folder):
            try:
                if name.endswith(".clbin"):
                    found[name] = os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                pass  # trimmed meanwhile
        return found

    def size(self):
        return sum(max(info.st_size, 512) for info in self.files().values())

    def wait_until(self, holds):
        end = time.monotonic() + 3 * LOOK
        while not holds() and time.monotonic() < end:
            time.sleep(0.2)
        self.assertTrue(holds())

    def test_bounded_and_the_least_recently_used_goes(self):
        server = self.start("1G")
        self.run_it(server, 0)
        old = set(self.files())
        for name in old:
            os.utime(os.path.join(self.folder, "opencl", name), (1, 1))
        for i in range(1, 6):
            self.run_it(server, i)
        self.assertEqual(0, server.stop())
        bound = self.size()
        again = self.start("1G")
        self.run_it(again, 0)  # used again, so no longer the oldest
        used = {name for name, info in self.files().items() if name in old and info.st_mtime > 1}  # the other entries measured the device
        self.assertTrue(used)
        self.assertEqual(bound, self.size(), "it was compiled again")
        self.assertEqual(0, again.stop())
        for name in set(self.files()) - used:
            os.utime(os.path.join(self.folder, "opencl", name), (2, 2))
        small = self.start(str(bound - KERNEL))
        self.wait_until(lambda: self.size() <= bound * 3 // 4)
        self.assertLessEqual(used, set(self.files()))
        self.wait_until(lambda: small.metric("cache_bytes") == self.size())
        written = {}
        for i in range(20):  # while the server trims; some files may be removed before the last is written
            self.run_it(small, 100 + i)
            written.update({name: info.st_size for name, info in self.files().items()})
        self.assertGreater(sum(written.values()), bound)
        self.wait_until(lambda: self.size() <= bound)

    def test_t30_two_servers_and_a_folder_that_is_emptied(self):
        servers = [self.start("1G"), self.start("64k")]  # the second server trims files of the first
        stop = threading.Event()

        def empty():
            while not stop.wait(0.003):
                for name in list(self.files()):
                    try:
                        os.unlink(os.path.join(self.folder, "opencl", name))
                    except OSError:
                        pass

        for server in servers:
            self.run_it(server, 0)
        thread = threading.Thread(target=empty)
        thread.start()
        try:
            for i in range(1, 12):
                for server in servers:
                    self.run_it(server, i)
        finally:
            stop.set()
            thread.join()


if __name__ == "__main__":
    unittest.main()
