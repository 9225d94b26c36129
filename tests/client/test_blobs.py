# SPDX-License-Identifier: MIT
"""Blobs of the Python client: uploads, and uploads that resume after a broken connection."""
import hashlib
import io
import pathlib
import random
import tempfile
import unittest

import beamline
from beamline import blobs
from cutting import Cutter
from served import Server, ServedCase
from test_server import INTERPRETER


class BlobTest(ServedCase):
    options = INTERPRETER

    def some(self, size, seed=0):
        return random.Random(seed).randbytes(size)

    def cut(self, *plan):
        wire = Cutter(self.server.port, *plan)
        self.addCleanup(wire.close)
        client = beamline.Client(wire.url)
        self.addCleanup(client.close)
        return wire, client

    def test_sent_once(self):
        data, seen = self.some(300_000), []
        blob = self.client.upload(data, lambda done, total: seen.append((done, total)))
        self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), blob.digest)
        self.assertEqual([(0, 300_000), (300_000, 300_000)], seen)
        self.assertEqual(data, blob.get())
        again = self.client.upload(data, lambda done, total: seen.append("again"))
        self.assertEqual((blob.digest, 2), (again.digest, len(seen)))
        self.assertIn((blob.digest, 300_000), [(each["digest"], each["bytes"]) for each in self.client.blobs()])
        blob.delete()
        self.assertFalse(self.client.blob(blob.digest).exists())
        self.assertRaises(beamline.NotFound, blob.get)
        self.assertRaises(beamline.NotFound, blob.delete)

    def test_where_bytes_come_from(self):
        data = self.some(1000, 1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "data")
            path.write_bytes(data)
            file = io.BytesIO(b"head" + data)
            file.seek(4)
            self.assertEqual({blobs.digest_of(io.BytesIO(data))[0]}, {self.client.upload(each).digest for each in (path, str(path), data, bytearray(data), file)})
        empty = self.client.upload(b"")
        self.assertEqual((True, b""), (empty.exists(), empty.get()))

    def test_goes_on_where_it_broke_off(self):
        data = self.some(3 * blobs.PIECE + 5, 2)
        # the connections: the query of the blob's state with a piece and a half; then a lost reply; then the rest
        wire, client = self.cut((blobs.PIECE * 3 // 2, None), (None, 0), (None, None))
        seen = []
        blob = client.upload(data, lambda done, total: seen.append(done))
        self.assertEqual(3 * blobs.PIECE + 5, seen[-1])
        self.assertGreater(wire.opened, 2)
        self.assertTrue(any(blobs.PIECE < done < 2 * blobs.PIECE for done in seen), f"nothing of the half piece stayed: {seen}")
        self.assertEqual(hashlib.sha256(data).digest(), hashlib.sha256(blob.get()).digest())

    def test_what_another_began(self):
        data, place = self.some(2000, 3), "bytes 0-999/2000"
        blob = self.client.blob(blobs.digest_of(io.BytesIO(data))[0])
        self.assertEqual(1000, blob.send(data[:1000], place)["received"])
        self.assertFalse(blob.exists())
        seen = []
        self.client.upload(data, lambda done, total: seen.append(done))
        self.assertEqual(([1000, 2000], data), (seen, blob.get()))

    def test_a_wire_that_always_breaks(self):
        _, client = self.cut(*[(None, 0)] * 50)
        client.retries = 2
        self.assertRaises((OSError, beamline.client.http.client.HTTPException), client.upload, b"never")
        self.assertRaises(beamline.InvalidGraph, self.client.blob("sha256:" + "0" * 64).send, b"other bytes")

    def test_tensors_of_blobs(self):
        data = beamline.write_safetensors({"w": beamline.array([1.5, 2], "float32"), "n": beamline.array([[7]], "int64")}, {"made": "here"})
        blob = self.client.upload(data)
        held = self.client.put_from("w", blob, format="safetensors", name="w")
        self.assertEqual(([1.5, 2], "interp:0"), (held.get().tolist(), self.client.tensors()[-1]["device"]))
        raw = self.client.put_from("raw", self.client.upload(b"\1\0\2\0"), format="raw", dtype="int16", device="interp:0")
        self.assertEqual([1, 2], raw.get().tolist())
        self.assertRaises(beamline.InvalidGraph, self.client.put_from, "x", blob, format="npy")
        self.assertRaises(beamline.NotFound, self.client.put_from, "x", self.client.blob("sha256:" + "0" * 64), format="raw", dtype="int8")
        self.client.delete("w", "raw")


class FileTest(unittest.TestCase):
    def test_tensors_of_files(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "t.csv").write_text("a,b\n1,2\n3,4\n")
            server = Server(*INTERPRETER, "--data-folder", folder)
            with beamline.Client(server.url) as client:
                self.assertEqual([[1, 2], [3, 4]], client.put_from("t", "t.csv").get().tolist())
                self.assertEqual([[4], [2]][::-1], client.put_from("b", pathlib.Path("t.csv"), columns=["b"], dtype="int32").get().tolist())
                self.assertRaises(beamline.NotFound, client.put_from, "x", "none.csv")
            self.assertEqual(0, server.stop())


if __name__ == "__main__":
    unittest.main()
