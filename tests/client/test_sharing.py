# SPDX-License-Identifier: MIT
"""API keys with the Python client: creation, change, revocation, sharing and usage."""
import io
import subprocess
import tempfile
import time
import unittest

import beamline
from served import SERVER, Server
from test_hosting import scaled
from test_server import INTERPRETER, POINTS, double, line


class SharingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = subprocess.run([SERVER, "keys", "create", "root", "--scopes", "admin,metrics", "--state", folder.name], capture_output=True, text=True, check=True)
        self.server = Server(*INTERPRETER, "--state", folder.name)
        self.addCleanup(lambda: self.assertEqual(0, self.server.stop()))
        self.root = self.client(made.stdout.strip())

    def client(self, key):
        client = beamline.Client(self.server.url, key=key)
        self.addCleanup(client.close)
        return client

    def person(self, name, *scopes, **options):
        return self.client(self.root.create_key(name, scopes or ("run", "train", "infer"), **options))

    def test_keys(self):
        secret = self.root.create_key("alice", "run", ttl=3600, rate=100, memory=1 << 20)
        alice = self.client(secret)
        self.assertEqual([], alice.tensors())
        self.assertRaises(beamline.Conflict, self.root.create_key, "alice", ["run"])
        for refused in (alice.keys, alice.jobs, alice.kernels):
            self.assertRaises(beamline.Forbidden, refused)
        shown = {key["name"]: key for key in self.root.keys()}
        self.assertEqual((["alice", "root"], {"memory": 1 << 20, "rate": 100}), (sorted(shown), shown["alice"]["quotas"]))
        self.assertIn("expires", shown["alice"])
        changed = self.root.change_key("alice", ["run", "train"], ttl=None, rate=None)
        self.assertEqual((["run", "train"], {"memory": 1 << 20}, False), (changed["scopes"], changed["quotas"], "expires" in changed))
        self.assertEqual(changed["scopes"], self.root.change_key("alice", queue=9)["scopes"])
        self.assertEqual([], alice.jobs())
        alice.put("w", [1])
        fresh = self.client(self.root.rotate_key("alice"))
        self.assertRaises(beamline.Forbidden, alice.tensors)
        self.assertEqual(["w"], [each["name"] for each in fresh.tensors()])
        self.root.revoke_key("alice")
        self.assertRaises(beamline.Forbidden, fresh.tensors)
        self.root.revoke_key("alice", purge=True)
        self.assertEqual([], self.client(self.root.rotate_key("alice")).tensors())
        self.assertRaises(beamline.NotFound, self.root.revoke_key, "nobody")

    def test_what_is_shared(self):
        alice, bob, carol = (self.person(name) for name in ("alice", "bob", "carol"))
        held, program = alice.put("w", [1, 2]), alice.put_program("line", line())
        model = alice.put_program("scaled", scaled()).promote("scaled", 1)
        job = program.train(POINTS, steps=3, collect=["loss"])
        job.wait(60)
        for kind, handle, name in (("tensor", held, "w"), ("program", program, "line"), ("model", model, "scaled"), ("job", job, job.id)):
            alice.share("bob", **{kind: handle})
            self.assertIn({kind: f"alice:{name}"}, bob.shares()["taken"])
        alice.share("*", tensor="w")
        self.assertEqual(5, len(alice.shares()["given"]))
        self.assertEqual([1, 2], bob.get("alice:w").tolist())
        self.assertEqual([2, 4], bob.run(double(), {"x": bob.tensor("alice:w")})["y"].tolist())
        self.assertEqual(["loss"], bob.program("alice:line").info["entries"]["main"]["outputs"])
        self.assertEqual(program.state()["w"].tolist(), bob.program("alice:line").state()["w"].tolist())
        self.assertEqual([[2, 4]], bob.model("alice:scaled").infer({"x": [[1, 2]]})["y"].tolist())
        self.assertEqual([1, 2, 3], [report["step"] for report in bob.job("alice:" + job.id).events()])
        self.assertEqual("done", bob.job("alice:" + job.id).info()["state"])
        self.assertRaises(beamline.NotFound, carol.program, "alice:line")
        alice.unshare("bob", program="line")
        self.assertRaises(beamline.NotFound, bob.program, "alice:line")
        self.assertRaises(beamline.NotFound, alice.unshare, "bob", program="line")
        alice.share("nobody", tensor="w")  # the same result as for an existing key
        self.assertIn({"tensor": "w", "to": "nobody"}, alice.shares()["given"])
        self.assertRaises(beamline.NotFound, alice.share, "bob", tensor="v")
        self.assertRaises(ValueError, alice.share, "bob")
        self.assertRaises(ValueError, alice.share, "bob", tensor="w", job=job)

    def test_what_was_used(self):
        alice = self.person("alice")
        alice.run(double(), {"x": [1, 2]})
        self.assertEqual({"interp:0"}, {each["id"] for each in self.root.now()["devices"]})
        self.assertEqual(["history", "kernels", "service"], sorted(self.root.kernels()))
        until = time.monotonic() + 60
        while not any(each["requests"] for each in alice.usage(1)):  # the server updates the usage once per second
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.assertEqual({"alice"}, {each["key"] for each in alice.usage()})
        self.assertLessEqual({"alice"}, {each["key"] for each in self.root.usage(1)})

    def test_a_file_is_sent_again_from_its_start(self):
        """A quota answer says when to retry; the client then sends the file again from its start."""
        alice, seen = self.person("alice", rate=4), []
        exchange = alice.connection.exchange
        alice.connection.exchange = lambda *words: seen.append((answer := exchange(*words))[0]) or answer
        for number in range(10):
            data = bytes([number]) * 100_000
            file = io.BytesIO(b"head" + data)
            file.seek(4)
            alice.put("x", file, "uint8", [100_000])
            self.assertEqual([number], sorted(set(alice.get("x").tolist())))
        self.assertIn(429, seen)
        self.assertEqual(10, seen.count(201))

    def test_leases_look_in_their_names(self):
        """Inputs of jobs and values of states may be tensors of the client's own lease."""
        alice = self.person("alice")
        program = alice.put_program("line", line())
        with alice.lease(60) as mine:
            inputs = {name: mine.put(name, POINTS[name]) for name in "xt"}
            beamline.RemoteProgram(mine, "line", program.info).train(inputs, steps=2).wait(60)
            state = {**program.state(), "w": mine.put("w", [7])}
            beamline.RemoteProgram(mine, "line", program.info).set_state(state)
        self.assertEqual([7], program.state()["w"].tolist())


if __name__ == "__main__":
    unittest.main()
