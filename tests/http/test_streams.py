# SPDX-License-Identifier: MIT
"""An event stream ends when its client loses access, by a change of the key, its secret, its scopes, or the share."""

import http.client
import json
import time
import unittest

from fixture import SLOW_STEPS, Server, counter
from test_keys import Keys
from training_jobs import J


class Ends(unittest.TestCase):
    def setUp(self):
        self.folder = Keys()
        self.addCleanup(self.folder.folder.cleanup)
        self.keys = {name: self.folder.make(name, scopes) for name, scopes in (("root", "admin"), ("ann", "run,train"), ("bob", "run,train"))}
        self.server = Server("--backends", "interp", "--state", self.folder.folder.name, "--tune=off")
        self.addCleanup(self.server.stop)
        self.call("ann", "PUT", "/api/v1/programs/c", counter(), 201)
        self.job = self.call("ann", "POST", J, {"program": "c", "inputs": {}, "steps": SLOW_STEPS, "collect": {"every": 1000, "outputs": ["m"]}}, 202)["job"]
        self.share()

    def call(self, who, method, path, body=None, status=200):
        answer = self.server.call(method, path, body, {"x-api-key": self.keys[who]})
        self.assertEqual(status, answer.status, (who, method, path, answer.body))
        return answer.json if answer.body else None

    def share(self):
        self.call("ann", "POST", "/api/v1/shares", {"job": self.job, "to": "bob"}, 201)

    def listen(self, who, job):
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        self.addCleanup(link.close)
        link.request("GET", f"{J}/{job}/events", headers={"x-api-key": self.keys[who]})
        reply = link.getresponse()
        self.assertEqual(200, reply.status)
        for _ in range(50):
            self.assertNotEqual(b"", reply.readline())
        return reply

    def ends(self, reply, status, words):
        """Checks that the stream ends soon with complete events, whether or not the job reports; the last event gives the
        reason."""
        begin = time.monotonic()
        *events, last, rest = reply.read().split(b"\n\n")
        self.assertLess(time.monotonic() - begin, 3)
        self.assertEqual(b"", rest)
        name, data = last.split(b"\n")
        self.assertEqual(b"event: error", name)
        problem = json.loads(data.removeprefix(b"data: "))
        self.assertEqual(status, problem["status"])
        self.assertIn(words, problem["detail"])
        for event in events[1:]:
            json.loads(event[event.index(b"data: ") + 6:])

    def test_t12_a_stream_ends_with_its_share_secret_or_key(self):
        def rotate():
            self.keys["bob"] = self.call("root", "POST", "/api/v1/keys/bob/rotate")["key"]
        for take, status, words, again in (
                (lambda: self.call("ann", "DELETE", f"/api/v1/shares?job={self.job}&to=bob", status=204), 403, "no longer shared", self.share),
                (rotate, 401, "another secret", lambda: None),
                (lambda: self.call("root", "PUT", "/api/v1/keys/bob", {"scopes": ["infer"]}), 403, "no longer has the scope",
                 lambda: self.call("root", "PUT", "/api/v1/keys/bob", {"scopes": ["run", "train"]})),
                (lambda: self.call("root", "PUT", "/api/v1/keys/bob", {"ttl": 1}), 401, "expired", lambda: self.call("root", "PUT", "/api/v1/keys/bob", {"ttl": None})),
                (lambda: self.call("root", "DELETE", "/api/v1/keys/bob", status=204), 401, "revoked", rotate)):
            with self.subTest(words=words):
                other, own = self.listen("bob", f"ann:{self.job}"), self.listen("ann", self.job)
                take()
                self.ends(other, status, words)
                for _ in range(50):
                    self.assertNotIn(b"error", own.readline())
                again()

    def test_t12_one_that_has_nothing_to_tell(self):
        """The stream of a queued job without reports ends too."""
        self.call("ann", "PUT", "/api/v1/programs/d", counter(), 201)
        waits = self.call("ann", "POST", J, {"program": "d", "inputs": {}, "steps": 4}, 202)["job"]
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        self.addCleanup(link.close)
        link.request("GET", f"{J}/{waits}/events", headers={"x-api-key": self.keys["ann"]})
        reply = link.getresponse()
        time.sleep(0.5)
        self.call("root", "DELETE", "/api/v1/keys/ann", status=204)
        self.ends(reply, 401, "revoked")


if __name__ == "__main__":
    unittest.main()
