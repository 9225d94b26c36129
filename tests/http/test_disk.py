# SPDX-License-Identifier: MIT
"""A full or broken disk, and jumps of the clock: the server reports data that it cannot store, and everything else
continues."""

import errno
import glob
import hashlib
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile
import time
import unittest

from fixture import OCTETS, SLOW_STEPS, Server, counter, graph, sanitizers
from test_keys import Keys
from test_promote import grows
from training_jobs import J, wait

HERE = pathlib.Path(__file__).resolve().parent
FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
MOST = 300  # limit of writing calls per request
LEFT, ALL, ERROR, FAILED = range(4)
REFUSED = (500, 503, 507)


def build(folder):
    """Builds the preloaded library."""
    library = os.path.join(folder, "failing.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HERE / "failing_disk.c"], check=True)
    return library


class Disk(unittest.TestCase):
    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.root = {"x-api-key": self.keys.make("root", "admin,run,train,infer,metrics")}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shared = os.path.join(folder.name, "shared")
        pathlib.Path(shared).write_bytes(bytes(32))
        with open(shared, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 32)
        self.addCleanup(self.shared.close)
        self.env = {"LD_PRELOAD": build(folder.name), "FAILING_DISK": shared}
        self.server, self.count, self.promoted = None, 0, None
        self.restart()
        self.addCleanup(lambda: self.server.stop())

    def restart(self):
        """Kills the server (SIGKILL) and starts it again on the same state."""
        if self.server is not None:
            self.server.process.kill()
            self.server.stop()
        self.server = Server("--backends", "interp", "--state", self.keys.folder.name, "--tune=off", env=self.env)

    def call(self, method, path, body=None, headers=None):
        return self.server.call(method, path, body, {**self.root, **(headers or {})})

    def arm(self, left, error=0, everything=False):
        """Arms the failure of a later call.  Returns the number of failed calls so far."""
        for at, value in ((LEFT, 0), (ALL, everything), (ERROR, error), (LEFT, left)):
            self.shared[8 * at:8 * at + 8] = struct.pack("<q", value)
        return struct.unpack_from("<q", self.shared, 8 * FAILED)[0]

    # ---- requests: each returns the status and records successful changes

    def blob(self):
        self.count += 1
        data = b"%d" % self.count * 50_000
        path = "/api/v1/blobs/sha256:" + hashlib.sha256(data).hexdigest()
        answer = self.call("PUT", path, data, OCTETS)
        if answer.status == 201:
            self.kept[path] = data
        else:
            self.assertEqual(404, self.call("HEAD", path).status)
        return answer

    def tensor(self):
        self.count += 1
        data, path = struct.pack("<2f", self.count, 2), "/api/v1/tensors/t"
        answer = self.call("PUT", f"{path}?dtype=float32&shape=2&durable=true", data, OCTETS)
        now = self.call("GET", path, None, {"accept": "application/octet-stream"})
        if answer.status == 201:
            self.kept[path] = data
        if path in self.kept:
            self.assertEqual(self.kept[path], now.body, "what was refused has changed something")
        return answer

    def program(self):
        """Replaces a program, and deletes another."""
        self.count += 1
        path = "/api/v1/programs/"
        state = self.call("GET", path + "d/state")
        answer = self.call("PUT", path + "d?durable=true", {**counter(), "state": {"n": [self.count]}})
        now = self.call("GET", path + "d/state")
        if answer.status >= 300:
            self.assertEqual((state.status, state.body), (now.status, now.body), "what was refused has changed something")
            return answer
        self.assertEqual([self.count], now.json["state"]["n"]["data"])
        gone = self.call("DELETE", path + "d")
        self.assertEqual(404 if gone.status == 204 else 200, self.call("GET", path + "d").status)
        return gone

    def key(self):
        self.count += 1
        answer = self.call("POST", "/api/v1/keys", {"name": f"k{self.count}", "scopes": ["run"]})
        if answer.status == 201:
            self.made[f"k{self.count}"] = answer.json["key"]
        return answer

    def job(self):
        """Runs a job with two checkpoints; a failed checkpoint does not end the job."""
        self.count += 1
        self.assertEqual(201, self.call("PUT", f"/api/v1/programs/p{self.count}", counter()).status)
        answer = self.call("POST", J, {"program": f"p{self.count}", "inputs": {}, "steps": 40, "checkpoint": {"every": 20, "keep": 2}})
        if answer.status == 202:
            ended = wait(self, answer.json["job"])
            self.assertTrue(ended["state"] == "done" or ended["reason"], ended)
            if ended["state"] == "done":
                self.assertEqual([40], self.call("GET", f"/api/v1/programs/p{self.count}/state").json["state"]["n"]["data"])
        return answer

    def share(self):
        """Creates a share, and deletes it."""
        def given():
            return self.call("GET", "/api/v1/shares").json["given"]
        before = given()
        answer = self.call("POST", "/api/v1/shares", {"tensor": "t", "to": "*"})
        if answer.status >= 300:
            self.assertEqual(before, given(), "what was refused has changed something")
            return answer
        self.assertEqual([{"tensor": "t", "to": "*"}], given())
        gone = self.call("DELETE", "/api/v1/shares?tensor=t&to=*")
        self.assertIn(gone.status, (202, 204))
        self.assertEqual([], given(), "whatever the disk says")
        return gone

    def infer(self):
        asked = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
        answer = self.call("POST", "/v2/models/m/versions/1/infer", asked)
        return answer.json["outputs"][0]["data"] if answer.status == 200 else None

    def version(self):
        """Replaces a version of a model."""
        self.assertEqual(200, self.call("POST", "/api/v1/programs/v/run", {"entry": "up"}).status)
        before = self.infer()
        answer = self.call("POST", "/api/v1/programs/v/promote", {"model": "m", "version": 1, "entry": "test"})
        if answer.status >= 300:
            self.assertEqual(before, self.infer(), "what was refused has changed something")
        else:
            self.promoted = self.infer()
            self.assertEqual(answer.json["steps"], self.promoted[0])
        return answer

    def check_kept(self):
        self.assertEqual(self.promoted, self.infer())
        for path, data in self.kept.items():
            self.assertEqual(data, self.call("GET", path, None, {"accept": "application/octet-stream"}).body, path)
        for name, key in self.made.items():
            self.assertEqual(200, self.server.call("GET", "/api/v1/tensors", None, {"x-api-key": key}).status, name)

    def check_problem(self, answer):
        self.assertIn(answer.status, REFUSED, answer.body)
        self.assertEqual("application/problem+json", answer.type)
        self.assertNotIn(self.keys.folder.name, answer.body.decode())

    def test_t26_every_write_may_fail_once(self):
        """ENOSPC and EIO at each call of each request that stores data: the request is refused or succeeds; a repetition
        succeeds."""
        self.kept, self.made = {}, {}
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/v", grows()).status)
        for error in (errno.ENOSPC, errno.EIO):
            for ask in (self.blob, self.tensor, self.program, self.key, self.job, self.share, self.version):
                refused = 0
                for nth in range(1, MOST):
                    with self.subTest(error=errno.errorcode[error], ask=ask.__name__, nth=nth):
                        before = self.arm(nth, error)
                        answer = ask()
                        struck = self.arm(0) > before
                        if answer.status >= 300:
                            self.check_problem(answer)
                            refused += 1
                        self.assertEqual(200, self.call("POST", "/api/v1/run", graph()).status)
                    if not struck:
                        break
                self.assertFalse(struck)
                if error == errno.EIO or ask not in (self.key, self.share):  # these fit into the reserve
                    self.assertGreater(refused, 0, ask.__name__)
                self.assertLess(ask().status, 300)
        self.check_kept()
        self.restart()
        self.check_kept()

    def test_t26_what_cannot_be_forgotten_is_still_there(self):
        path = "/api/v1/tensors/stays"
        self.assertEqual(201, self.call("PUT", path + "?durable=true", [1, 2]).status)
        self.arm(1, errno.ENOSPC, everything=True)
        self.assertIn(self.call("DELETE", path).status, REFUSED)
        self.arm(0)
        self.assertEqual([1, 2], self.call("GET", path).json["data"])
        self.restart()
        self.assertEqual([1, 2], self.call("GET", path).json["data"])
        self.assertEqual(204, self.call("DELETE", path).status)
        self.restart()
        self.assertEqual(404, self.call("GET", path).status)

    def test_t26_revoked_though_nothing_can_be_written(self):
        """A revocation takes effect at once, and the answer says that it is not stored; it is stored when the disk works
        again."""
        bob = {"x-api-key": self.call("POST", "/api/v1/keys", {"name": "bob", "scopes": ["run"]}).json["key"]}
        self.assertEqual(201, self.call("PUT", "/api/v1/tensors/t?durable=true", [1]).status)
        self.assertEqual(201, self.call("POST", "/api/v1/shares", {"tensor": "t", "to": "bob"}).status)
        self.assertEqual(200, self.server.call("GET", "/api/v1/tensors/root:t", None, bob).status)
        self.arm(1, errno.EIO, everything=True)
        unshared = self.call("DELETE", "/api/v1/shares?tensor=t&to=bob")
        self.assertEqual((202, False), (unshared.status, unshared.json["written"]), unshared.body)
        self.assertEqual(404, self.server.call("GET", "/api/v1/tensors/root:t", None, bob).status)
        revoked = self.call("DELETE", "/api/v1/keys/bob")
        self.assertEqual((202, False), (revoked.status, revoked.json["written"]), revoked.body)
        self.assertEqual(401, self.server.call("GET", "/api/v1/tensors", None, bob).status)
        self.assertIn("revoked", [key for key in self.call("GET", "/api/v1/keys").json["keys"] if key["name"] == "bob"][0])
        self.assertIn(self.call("POST", "/api/v1/keys/bob/rotate").status, (500, 507))
        self.assertEqual(404, self.call("DELETE", "/api/v1/keys/nobody").status)
        self.arm(0)
        time.sleep(2)  # the server stores it within about a second, without a request
        self.restart()
        self.assertEqual(401, self.server.call("GET", "/api/v1/tensors", None, bob).status)
        self.assertEqual([], self.call("GET", "/api/v1/shares").json["given"])
        bob = {"x-api-key": self.call("POST", "/api/v1/keys/bob/rotate").json["key"]}
        self.assertEqual(200, self.server.call("GET", "/api/v1/tensors", None, bob).status)

    def test_t26_a_disk_that_stays_full(self):
        """While the disk is full, requests without a write work; afterwards everything works."""
        self.kept, self.made = {}, {}
        for ask in (self.blob, self.tensor, self.key, self.job):
            self.assertLess(ask().status, 300)
        before = self.arm(1, errno.ENOSPC, True)
        for _ in range(3):
            for ask in (self.blob, self.tensor, self.key, self.job):
                self.check_problem(ask())
            self.assertEqual([2, 4], self.call("POST", "/api/v1/run", graph()).json["outputs"]["y"]["data"])
            self.assertEqual(201, self.call("PUT", "/api/v1/tensors/passing", [1, 2]).status)
        self.check_kept()
        self.assertGreater(self.arm(0) - before, 10)
        for ask in (self.blob, self.tensor, self.key, self.job):
            self.assertLess(ask().status, 300)
        self.restart()
        self.check_kept()

    def test_t26_short_writes(self):
        """The server continues after a write of half of the bytes."""
        self.kept, self.made = {}, {}
        before = self.arm(1, 0, True)
        for ask in (self.blob, self.tensor, self.key, self.job):
            self.assertLess(ask().status, 300, ask.__name__)
        self.assertGreater(self.arm(0) - before, 10)
        self.check_kept()
        self.restart()
        self.check_kept()


@unittest.skipUnless(FAKETIME, "faketime is not installed")
@unittest.skipIf(sanitizers(), "a sanitizer and faketime stand in for the same functions")
class Clock(unittest.TestCase):
    """The time of day jumps by years.  Keys expire by the time of day; leases, deadlines, rates and jobs use the monotonic
    clock."""

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.root = {"x-api-key": self.keys.make("root", "admin,run,train,infer,metrics")}
        self.brief = {"x-api-key": self.keys.make("brief", "run", "--ttl", "1h", "--rate", "1000")}
        self.now = os.path.join(self.keys.folder.name, "now")
        self.jump("+0")
        self.server = Server("--backends", "interp", "--state", self.keys.folder.name,
                             env={"LD_PRELOAD": FAKETIME[0], "FAKETIME_TIMESTAMP_FILE": self.now, "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                                  "DONT_FAKE_MONOTONIC": "1"})
        self.addCleanup(self.server.stop)

    def jump(self, by):
        pathlib.Path(self.now + ".new").write_text(by)
        os.rename(self.now + ".new", self.now)

    def call(self, method, path, body=None):
        return self.server.call(method, path, body, self.root)

    def until(self, status):
        """Waits until requests with the expiring key get the status."""
        end = time.monotonic() + 10
        while (answer := self.server.call("GET", "/api/v1/tensors", None, self.brief)).status != status:
            self.assertLess(time.monotonic(), end, answer.body)
            time.sleep(0.02)

    def test_t26_the_clock_jumps(self):
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/c", counter()).status)
        job = self.call("POST", J, {"program": "c", "inputs": {}, "steps": SLOW_STEPS, "collect": {"every": 1000, "outputs": ["m"]}}).json["job"]
        self.until(200)
        for by, status in (("+3650d", 401), ("-3650d", 200), ("+0", 200)):
            with self.subTest(by=by):
                lease = self.call("POST", "/api/v1/leases", {"ttl": 1.5}).json["lease"]
                self.jump(by)
                self.until(status)
                step = self.call("GET", f"{J}/{job}").json["step"]
                self.assertEqual([2, 4], self.call("POST", "/api/v1/run", graph(lease=lease, timeout_ms=5000)).json["outputs"]["y"]["data"])
                begin = time.monotonic()
                self.assertIn(self.call("PUT", "/api/v1/programs/late", counter()).status, (200, 201))
                self.assertEqual(504, self.call("POST", "/api/v1/programs/late/run", {"steps": SLOW_STEPS, "timeout_ms": 300}).status)
                self.assertTrue(0.25 < time.monotonic() - begin < 3)
                time.sleep(2)
                self.assertEqual(404, self.call("GET", f"/api/v1/tensors?lease={lease}").status)
                self.assertGreater(self.call("GET", f"{J}/{job}").json["step"], step)
        self.call("DELETE", f"{J}/{job}")
        self.assertEqual("cancelled", wait(self, job)["state"])
        self.assertEqual(0, self.server.stop())


if __name__ == "__main__":
    unittest.main()
