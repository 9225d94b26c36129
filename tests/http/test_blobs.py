# SPDX-License-Identifier: MIT
"""Blobs: upload, resumption and storage; incomplete blobs are never visible."""
import contextlib
import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from fixture import Server, ServerTest, head

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import kills  # noqa: E402

OCTETS = {"content-type": "application/octet-stream"}


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def path(data):
    return "/api/v1/blobs/" + digest(data)


def content_range(first, last, total):
    return {**OCTETS, "content-range": f"bytes {first}-{last}/{total}"}


class Blobs(ServerTest):
    ARGS = ("--backends", "interp", "--max-blobs", "4M")

    def put(self, data, body=None, headers=None):
        return self.server.call("PUT", path(data), data if body is None else body, headers or OCTETS)

    def test_sent_once(self):
        data = os.urandom(700_001)
        self.assertEqual(404, self.server.call("HEAD", path(data)).status)
        answer = self.put(data)
        self.assertEqual((201, {"digest": digest(data), "received": len(data), "bytes": len(data)}), (answer.status, answer.json))
        head = self.server.call("HEAD", path(data))
        self.assertEqual((200, str(len(data))), (head.status, head.headers["content-length"]))
        self.assertEqual(data, self.server.call("GET", path(data)).body)
        self.assertIn(digest(data), [b["digest"] for b in self.server.call("GET", "/api/v1/blobs").json["blobs"]])
        self.assertEqual(201, self.put(data).status)
        self.assertEqual(204, self.server.call("DELETE", path(data)).status)
        self.assertEqual([404] * 3, [self.server.call(m, path(data)).status for m in ("HEAD", "GET", "DELETE")])

    def test_empty(self):
        answer = self.put(b"")
        self.assertEqual((201, {"digest": digest(b""), "received": 0, "bytes": 0}), (answer.status, answer.json))
        self.assertEqual(b"", self.server.call("GET", path(b"")).body)
        self.server.call("DELETE", path(b""))

    def test_in_pieces(self):
        data, asks = os.urandom(600_000), {"content-range": "bytes */600000"}
        for first, last in ((0, 99), (100, 299_999)):
            answer = self.put(data, data[first:last + 1], content_range(first, last, 600_000))
            self.assertEqual((202, last + 1), (answer.status, answer.json["received"]))
            self.assertEqual((202, last + 1), ((answer := self.put(data, b"", asks)).status, answer.json["received"]))
        for first, last in ((0, 99), (300_001, 599_999)):
            answer = self.put(data, data[first:last + 1], content_range(first, last, 600_000))
            self.assertEqual(409, answer.status)
            self.assertIn("continue with \"bytes 300000-", answer.json["detail"])
        self.assertEqual(404, self.server.call("HEAD", path(data)).status)
        self.assertEqual(201, self.put(data, data[300_000:], content_range(300_000, 599_999, 600_000)).status)
        self.assertEqual(data, self.server.call("GET", path(data)).body)
        self.server.call("DELETE", path(data))

    def test_asked_when_it_is_whole(self):
        """A client that missed the last reply learns that the blob is complete, and the query creates nothing."""
        data, asks = os.urandom(1000), {"content-range": "bytes */1000"}
        self.put(data)
        answer = self.put(data, b"", asks)
        self.assertEqual((201, {"digest": digest(data), "received": 1000, "bytes": 1000}), (answer.status, answer.json))
        self.server.call("DELETE", path(data))
        answer = self.put(data, b"", asks)
        self.assertEqual((202, 0), (answer.status, answer.json["received"]))
        self.assertEqual(404, self.server.call("DELETE", path(data)).status)

    def test_what_is_whole_stays_so(self):
        """Repeated pieces of a complete blob are dropped, pieces of other contents are refused, and neither takes space."""
        data = os.urandom(3000)
        whole = (201, {"digest": digest(data), "received": 3000, "bytes": 3000})
        self.put(data)
        for first, last, total in ((0, 9, 3000), (0, 9, "*"), (2000, 2999, 3000), (0, 2999, 3000)):
            answer = self.put(data, data[first:last + 1], content_range(first, last, total))
            self.assertEqual(whole, (answer.status, answer.json), (first, last, total))
        for first, last, total in ((0, 9, 4000), (0, 9, 2000), (2990, 3000, "*")):
            answer = self.put(data, bytes(last + 1 - first), content_range(first, last, total))
            self.assertEqual(409, answer.status, (first, last, total))
            self.assertIn("with 3000 bytes, not ", answer.json["detail"])
        self.assertEqual(409, self.put(data, b"", {"content-range": "bytes */4000"}).status)
        answer = self.put(data, b"", {"content-range": "bytes */3000"})
        self.assertEqual(whole, (answer.status, answer.json))
        self.assertEqual(data, self.server.call("GET", path(data)).body)
        self.assertEqual(204, self.server.call("DELETE", path(data)).status)
        answer = self.put(data, b"", {"content-range": "bytes */3000"})
        self.assertEqual((202, 0), (answer.status, answer.json["received"]))

    def test_a_connection_that_breaks(self):
        data = os.urandom(1_000_000)
        with socket.create_connection((self.server.host, self.server.port)) as s:
            s.sendall(f"PUT {path(data)} HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/octet-stream\r\n"
                      f"content-length: {len(data)}\r\n\r\n".encode() + data[:500_000])
            s.settimeout(0.3)
            with self.assertRaises(TimeoutError):
                s.recv(1)
        received = 0
        for _ in range(200):  # until the server has detected the closed connection
            answer = self.put(data, b"", {"content-range": "bytes */1000000"})
            if answer.status == 202 and (received := answer.json["received"]) > 0:
                break
        self.assertGreater(received, 0)
        answer = self.put(data, data[received:], content_range(received, 999_999, 1_000_000))
        self.assertEqual((201, 1_000_000), (answer.status, answer.json["received"]))
        self.server.call("DELETE", path(data))

    def test_t24_other_bytes_are_not_kept(self):
        answer = self.put(b"these", b"those")
        self.assertEqual(422, answer.status)
        self.assertIn(digest(b"those"), answer.json["detail"])
        self.assertEqual(404, self.server.call("HEAD", path(b"these")).status)

    def test_what_is_wrong(self):
        data = b"0123456789"
        cases = (("/api/v1/blobs/md5:00", OCTETS, data, 400, "sha256:"), ("/api/v1/blobs/" + digest(data).upper(), OCTETS, data, 400, "lower case"),
                 (path(data), {**OCTETS, "content-range": "bytes 5-4/10"}, data, 400, "not a valid range"),
                 (path(data), {**OCTETS, "content-range": "bytes 0-10/10"}, data + b"x", 400, "not a valid range"),
                 (path(data), {**OCTETS, "content-range": "bytes -1-3/10"}, data, 400, "Content-Range"),
                 (path(data), {**OCTETS, "content-range": "lines 0-9/10"}, data, 400, "Content-Range"),
                 (path(data), content_range(0, 8, 10), data, 400, "Content-Length"),
                 (path(data), {"content-type": "application/json"}, b"{}", 415, "octet-stream"))
        for where, headers, body, status, words in cases:
            with self.subTest(where=where, headers=headers):
                answer = self.server.call("PUT", where, body, headers)
                self.assertEqual(status, answer.status, answer.body)
                self.assertIn(words, answer.json["detail"])
        self.assertEqual([], self.server.call("GET", "/api/v1/blobs").json["blobs"])

    def test_limit(self):
        data = os.urandom(5 << 20)
        answer = self.put(data)
        self.assertEqual(507, answer.status)
        self.assertIn("--max-blobs", answer.json["detail"])
        self.assertEqual(204, self.server.call("DELETE", path(data)).status)  # deletes the partial upload
        half = os.urandom(3 << 19)
        for _ in range(6):  # deleted blobs and repeated uploads release their space
            self.assertEqual([201, 201], [self.put(half).status for _ in range(2)])
            self.assertEqual(204, self.server.call("DELETE", path(half)).status)


    def test_limit_of_several_at_once(self):
        """Each of three blobs would fit alone."""
        parts, codes = [os.urandom(2 << 20) for _ in range(3)], []
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = Server("--backends", "interp", "--max-blobs", "4M", "--state", folder)
            stack.callback(server.stop)
            sockets = [stack.enter_context(socket.create_connection((server.host, server.port))) for _ in parts]
            for s, data in zip(sockets, parts):
                s.sendall(head("PUT", path(data), "content-type: application/octet-stream", f"content-length: {len(data)}"))
            for at in range(0, 2 << 20, 1 << 18):
                for s, data in zip(sockets, parts):
                    with contextlib.suppress(OSError):  # the upload was refused
                        s.sendall(data[at:at + (1 << 18)])
            for s in sockets:
                s.settimeout(30)
                codes.append(s.recv(12)[-3:])
            self.assertIn(b"507", codes)
            self.assertLessEqual(sum(file.stat().st_size for file in (pathlib.Path(folder) / "blobs").iterdir()), 4 << 20)


class Locks(unittest.TestCase):
    """A machine on which time passes between opening a file and locking it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        library = self.folder.name + "/slow_lock.so"
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library,
                        pathlib.Path(__file__).parent / "slow_lock.c"], check=True)
        self.server = Server("--backends", "interp", env={"LD_PRELOAD": library})

    def tearDown(self):
        self.assertEqual(0, self.server.stop())

    def all_at_once(self, *works):
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_many_send_the_same(self):
        """Concurrent uploads of one blob: one client must wait, and no upload writes into a file that another upload completed
        between open and lock."""
        data, wrong = b"x" * 2000, []

        def send():
            for _ in range(60):
                answer = self.server.call("PUT", path(data), data, OCTETS)
                if answer.status not in (201, 409) or answer.status == 201 and self.server.call("GET", path(data)).body != data:
                    wrong.append(answer.body)

        self.all_at_once(*[send] * 6)
        self.assertEqual([], wrong)

    def test_who_asks_is_not_in_the_way(self):
        """Concurrent size queries do not interfere with the pieces of an upload."""
        pieces, asking, wrong = 60, threading.Event(), []
        data = os.urandom(10 * pieces)

        def send():
            for i in range(pieces):
                answer = self.server.call("PUT", path(data), data[10 * i:10 * i + 10], content_range(10 * i, 10 * i + 9, len(data)))
                if (answer.status, answer.json.get("received")) != (202 if i + 1 < pieces else 201, 10 * i + 10):
                    wrong.append(answer.body)
            asking.set()

        def ask():
            while not asking.is_set():
                answer = self.server.call("PUT", path(data), b"", {"content-range": f"bytes */{len(data)}"})
                if answer.status not in (201, 202, 409):
                    wrong.append(answer.body)

        self.all_at_once(send, ask, ask)
        self.assertEqual([], wrong)


class Kept(unittest.TestCase):
    def test_t24_from_one_start_to_the_next(self):
        whole, half = os.urandom(300_000), os.urandom(300_000)
        with tempfile.TemporaryDirectory() as folder:
            server = Server("--backends", "interp", "--state", folder)
            try:
                self.assertEqual(201, server.call("PUT", path(whole), whole, OCTETS).status)
                self.assertEqual(202, server.call("PUT", path(half), half[:200_000], content_range(0, 199_999, 300_000)).status)
            finally:
                server.process.kill()
                server.stop()
            stray = os.path.join(folder, "blobs", "0" * 64)
            with open(stray, "w", encoding="ascii"):
                pass
            server = Server("--backends", "interp", "--state", folder)
            try:
                self.assertFalse(os.path.exists(stray))
                self.assertEqual(whole, server.call("GET", path(whole)).body)
                self.assertEqual(201, server.call("PUT", path(half), half[200_000:], content_range(200_000, 299_999, 300_000)).status)
                self.assertEqual(half, server.call("GET", path(half)).body)
            finally:
                server.stop()

    def test_t24_killed_at_random(self):
        """A sample of tests/kills.py."""
        killed, blobs, _ = kills.run_uploads(8, 11, tell=lambda *_, **__: None)
        self.assertEqual(8, killed)
        self.assertGreater(blobs, 1)

    def test_nothing_is_left_of_what_is_not_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server("--backends", "interp", env={"TMPDIR": folder})
            try:
                self.assertEqual(201, server.call("PUT", path(b"x"), b"x", OCTETS).status)
                self.assertEqual(1, len(os.listdir(folder)))
            finally:
                server.stop()
            self.assertEqual([], os.listdir(folder))


if __name__ == "__main__":
    unittest.main()
