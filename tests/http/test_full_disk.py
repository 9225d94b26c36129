# SPDX-License-Identifier: MIT
"""A full small disk, a --state folder that is removed while the server runs, and the disk quota of a key."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from fixture import OCTETS, PROGRAM, Server, counter
from test_keys import Keys
from training_jobs import J, wait

MIB = 1 << 20
BLOBS = "/api/v1/blobs/sha256:"


def blob(data):
    return BLOBS + hashlib.sha256(data).hexdigest()


def adder(size):
    """A program whose state has |size| numbers."""
    return {"inputs": {}, "state": {"w": {"dtype": "float32", "shape": [size]}}, "nodes": [{"id": "m", "op": "add", "in": ["w", 1]}],
            "updates": {"w": "m"}, "outputs": []}


class Small(unittest.TestCase):
    """A disk of 24 MiB, mounted for the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, self.folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", self.folder], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("only root can mount a small disk: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", self.folder], check=True)
        self.state = os.path.join(self.folder, "state")
        self.root = {"x-api-key": self.command("create", "root", "--scopes", "admin,run,train").strip()}
        self.bob = {"x-api-key": self.command("create", "bob", "--scopes", "run").strip()}
        self.server = None
        self.addCleanup(lambda: self.server and self.server.stop())

    def command(self, *args):
        return subprocess.run([PROGRAM, "keys", *args, "--state", self.state], check=True, capture_output=True, text=True).stdout

    def serve(self, *args):
        if self.server is not None:
            self.server.process.kill()
            self.server.stop()
        self.server = Server("--backends", "interp", "--state", self.state, "--tune=off", *args)

    def call(self, method, path, body=None, headers=None):
        return self.server.call(method, path, body, {**self.root, **(headers or {})})

    def fill(self):
        """Fill the disk to the last byte, as another program would."""
        with open(os.path.join(self.folder, "fill"), "ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def test_t26_a_disk_that_another_filled(self):
        """Deletions, revocations and a restart work; additions are refused until there is space."""
        kept = [bytes([n]) * 500_000 for n in range(3)]
        self.serve("--min-free", "0")
        for data in kept:
            self.assertEqual(201, self.call("PUT", blob(data), data, OCTETS).status)
        for name in ("durable", "other"):
            self.assertEqual(201, self.call("PUT", f"/api/v1/tensors/{name}?durable=true", [1, 2]).status)
        self.fill()
        self.assertEqual(200, self.server.call("GET", "/api/v1/tensors", None, self.bob).status)
        self.assertEqual(204, self.call("DELETE", "/api/v1/keys/bob").status)
        self.assertEqual(401, self.server.call("GET", "/api/v1/tensors", None, self.bob).status)
        for path, body, headers in ((blob(b"new"), b"new", OCTETS), ("/api/v1/tensors/new?durable=true", [1], None),
                                    ("/api/v1/programs/new?durable=true", counter(), None)):
            refused = self.call("PUT", path, body, headers)
            self.assertEqual(507, refused.status, refused.body)
            self.assertIn("disk", refused.json["detail"])
        self.assertEqual(204, self.call("DELETE", "/api/v1/tensors/durable").status)
        self.fill()
        self.serve("--min-free", "0")
        self.assertEqual(401, self.server.call("GET", "/api/v1/tensors", None, self.bob).status)
        self.assertEqual(404, self.call("GET", "/api/v1/tensors/durable").status)
        self.assertEqual([1, 2], self.call("GET", "/api/v1/tensors/other").json["data"])
        self.fill()
        bob = self.call("POST", "/api/v1/keys/bob/rotate")
        self.assertEqual(200, bob.status, bob.body)
        self.assertIn("revoked", self.command("list") + self.command("revoke", "bob") + self.command("list"))
        for data in kept:
            self.assertEqual(204, self.call("DELETE", blob(data)).status)
        os.remove(os.path.join(self.folder, "fill"))
        self.assertEqual(201, self.call("PUT", blob(b"new"), b"new", OCTETS).status)
        self.assertEqual(8 * MIB, os.stat(os.path.join(self.state, "reserve")).st_blocks * 512)
        self.assertEqual(0, self.server.stop())

    def test_t26_a_disk_that_the_server_fills(self):
        """The server stops adding data before the disk is full: 6 MiB stay free."""
        self.serve("--min-free", "6M")
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", adder(300_000)).status)
        refused = []
        for n in range(40):
            data = bytes([n]) * MIB
            answer = self.call("PUT", blob(data), data, OCTETS)
            if answer.status != 201:
                refused.append(answer)
        self.assertGreater(len(refused), 25)
        self.assertEqual({507}, {answer.status for answer in refused})
        self.assertIn("--min-free", refused[0].json["detail"])
        left = os.statvfs(self.folder)
        self.assertGreater(left.f_bavail * left.f_frsize, 6 * MIB - 300_000)
        job = self.call("POST", J, {"program": "c", "inputs": {}, "steps": 40})
        self.assertEqual(507, job.status, job.body)

    def test_t26_a_job_on_a_disk_that_fills(self):
        """The steps of the job continue; a warning of the job has the failed write; checkpoints are written once there is
        space."""
        self.serve("--min-free", "1M")
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", counter()).status)
        job = self.call("POST", J, {"program": "c", "inputs": {}, "steps": 100_000_000, "collect": {"every": 1000, "outputs": ["m"]},
                                    "checkpoint": {"every": 50_000, "keep": 1}})
        self.assertEqual(202, job.status, job.body)
        path = f"{J}/{job.json['job']}"
        self.fill()
        self.until(lambda: "disk" in self.call("GET", path).json.get("warning", ""))
        step = self.call("GET", path).json["step"]
        self.until(lambda: self.call("GET", path).json["step"] > step)
        os.remove(os.path.join(self.folder, "fill"))
        self.until(lambda: "warning" not in self.call("GET", path).json)
        self.assertEqual(202, self.call("DELETE", path).status)
        self.assertEqual("cancelled", wait(self, job.json["job"])["state"])

    def until(self, holds, seconds=30):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


class Removed(unittest.TestCase):
    """The --state folder is removed while the server runs."""

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.root = {"x-api-key": self.keys.make("root", "admin,run,train")}
        self.server = self.serve()

    def serve(self):
        server = Server("--backends", "interp", "--state", self.keys.folder.name, "--tune=off")
        self.addCleanup(server.stop)
        return server

    def call(self, method, path, body=None, headers=None):
        return self.server.call(method, path, body, {**self.root, **(headers or {})})

    def refuses(self):
        """Requests that write to the folder are refused, other requests work, and /v2/health/ready gives 503."""
        for method, path, body, headers in (
                ("PUT", "/api/v1/tensors/new?durable=true", [1], None), ("PUT", "/api/v1/programs/new?durable=true", counter(), None),
                ("PUT", blob(b"new"), b"new", OCTETS), ("POST", "/api/v1/keys", {"name": "new", "scopes": ["run"]}, None),
                ("POST", J, {"program": "c", "inputs": {}, "steps": 4}, None)):
            answer = self.call(method, path, body, headers)
            self.assertEqual(507, answer.status, (path, answer.body))
            self.assertIn("--state", answer.json["detail"])
            self.assertNotIn(self.keys.folder.name, answer.body.decode())
        self.assertEqual(503, self.server.call("GET", "/v2/health/ready").status)
        self.assertEqual(200, self.server.call("GET", "/v2/health/live").status)
        self.assertEqual(201, self.call("PUT", "/api/v1/tensors/passing", [1]).status)
        self.assertEqual(401, self.server.call("GET", "/api/v1/tensors").status)

    def check(self, take_away, put_back):
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", counter()).status)
        self.assertEqual(201, self.call("PUT", "/api/v1/tensors/there?durable=true", [1]).status)
        self.assertEqual(200, self.server.call("GET", "/v2/health/ready").status)
        take_away()
        self.refuses()
        if put_back is not None:
            put_back()
            self.assertEqual(200, self.server.call("GET", "/v2/health/ready").status)
            self.assertEqual(201, self.call("PUT", "/api/v1/tensors/new?durable=true", [1]).status)

    def test_t26_a_state_that_is_moved_away_and_back(self):
        name = self.keys.folder.name
        self.check(lambda: os.rename(name, name + ".away"), lambda: os.rename(name + ".away", name))
        self.assertTrue(self.server.wait_log(lambda lines: any("is available again" in line for line in lines)))

    def test_t26_a_state_that_another_server_begins_anew(self):
        def replace():
            shutil.rmtree(self.keys.folder.name)
            other = self.serve()  # the keys were removed; on another port, with another folder
            self.assertEqual(201, other.call("PUT", "/api/v1/tensors/others?durable=true", [1]).status)
        self.check(replace, None)
        self.assertTrue(self.server.wait_log(lambda lines: any("was removed or replaced" in line for line in lines)))

    def test_t26_files_that_are_removed(self):
        for name in ("lock", "beamline.db"):
            with self.subTest(name=name):
                os.remove(os.path.join(self.keys.folder.name, name))
                self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", counter()).status)
                self.refuses()
                self.server.stop()
                self.root = {"x-api-key": self.keys.make("root" if name == "beamline.db" else "second", "admin,run,train")}
                self.server = self.serve()

    def test_t26_one_server_at_a_time(self):
        with self.assertRaisesRegex(RuntimeError, "another server uses the folder"):
            self.serve()
        self.assertEqual(200, self.server.call("GET", "/v2/health/ready").status)


class Quota(unittest.TestCase):
    """Blobs, durable tensors and programs, and jobs of a key together."""

    MOST = 3_000_000

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.root = {"x-api-key": self.keys.make("root", "admin,metrics")}
        self.ann = {"x-api-key": self.keys.make("ann", "run,train", "--disk", str(self.MOST))}
        self.bob = {"x-api-key": self.keys.make("bob", "run,train")}
        self.restart()
        self.addCleanup(lambda: self.server.stop())

    def restart(self):
        if getattr(self, "server", None) is not None:
            self.assertEqual(0, self.server.stop())
        self.server = Server("--backends", "interp", "--state", self.keys.folder.name, "--tune=off")

    def call(self, method, path, body=None, headers=None, key=None):
        return self.server.call(method, path, body, {**(key or self.ann), **(headers or {})})

    def room(self):
        """Returns the number of bytes that the key ann may still add, to 1000 bytes, by trying."""
        low, high = 0, self.MOST + 1000
        while high - low > 1000:
            middle = (low + high) // 2
            data = b"r" * middle
            if (answer := self.call("PUT", blob(data), data, OCTETS)).status == 201:
                self.assertEqual(204, self.call("DELETE", blob(data)).status)
                low = middle
            else:
                self.assertEqual(429, answer.status, answer.body)
                self.assertIn("on the disk", answer.json["detail"])
                self.call("DELETE", blob(data))
                high = middle
        return low

    def test_t23_disk(self):
        floats = [1.0] * 100_000
        doc = adder(100_000)
        first = b"f" * 400_000
        steps = (  # a stored object, and its approximate bytes
            (lambda: self.call("PUT", blob(first), first, OCTETS), 400_000),
            (lambda: self.call("PUT", blob(first), first, OCTETS), 0),
            (lambda: self.call("PUT", "/api/v1/tensors/t?durable=true", floats), 400_000),
            (lambda: self.call("PUT", "/api/v1/tensors/t?durable=true", floats), 0),
            (lambda: self.call("PUT", "/api/v1/programs/p?durable=true", doc), 400_000),
            (lambda: self.call("PUT", "/api/v1/programs/p?durable=true", doc), 0),
            (self.job, 800_000))  # its first and its last checkpoint
        self.assertGreater(self.room(), self.MOST - 2000)
        self.assertEqual(201, self.call("PUT", blob(first), first, OCTETS, self.bob).status)
        for kept, bytes_ in steps:
            before = self.room()
            self.assertIn(kept().status, (200, 201, 202))
            self.assertAlmostEqual(before - bytes_, self.room(), delta=10_000)
        before = self.room()
        self.restart()
        self.assertAlmostEqual(before, self.room(), delta=3000)
        big = b"b" * self.MOST
        self.assertEqual(201, self.call("PUT", blob(big), big, OCTETS, self.bob).status)
        for path, body in (("/api/v1/tensors/more?durable=true", [1.0] * 600_000), ("/api/v1/programs/more?durable=true", adder(600_000))):
            self.assertEqual(429, self.call("PUT", path, body).status)
        for path in (blob(first), "/api/v1/tensors/t", "/api/v1/programs/p", f"{J}/{self.made}?remove=true"):
            self.assertIn(self.call("DELETE", path).status, (200, 204), path)
        self.assertGreater(self.room(), self.MOST - 2000)

    def test_t23_reports_without_room(self):
        """The warning about omitted reports stays while later checkpoints replace older ones."""
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", counter()).status)
        job = self.call("POST", J, {"program": "c", "inputs": {}, "steps": 100_000_000, "collect": {"every": 1000, "outputs": ["m"]},
                                    "checkpoint": {"every": 20_000, "keep": 1}})
        self.assertEqual(202, job.status, job.body)
        path = f"{J}/{job.json['job']}"

        def until(test):
            end = time.monotonic() + 60
            while not test(shown := self.call("GET", path).json):
                self.assertLess(time.monotonic(), end, shown)
                time.sleep(0.05)
            return shown
        until(lambda shown: shown["checkpoints"])
        rest = b"r" * self.room()
        while self.call("PUT", blob(rest), rest, OCTETS).status != 201:  # new reports take space meanwhile
            self.call("DELETE", blob(rest))
            rest = rest[5000:]
        step = until(lambda shown: "reports from step" in shown.get("warning", ""))["checkpoints"][-1]["step"]
        later = until(lambda shown: shown["checkpoints"][-1]["step"] > step + 40_000)
        self.assertIn("reports from step", later.get("warning", ""))
        self.assertEqual(204, self.call("DELETE", blob(rest)).status)
        until(lambda shown: "warning" not in shown)
        self.assertEqual(202, self.call("DELETE", path).status)
        self.assertEqual("cancelled", wait(self, job.json["job"])["state"])

    def job(self):
        answer = self.call("POST", J, {"program": "p", "inputs": {}, "steps": 40, "checkpoint": {"keep": 2}})
        self.assertEqual(202, answer.status, answer.body)
        self.made = answer.json["job"]
        self.assertEqual("done", wait(self, self.made)["state"])
        return answer


if __name__ == "__main__":
    unittest.main()
