# SPDX-License-Identifier: MIT
"""Tensors from blobs and from files below --data-folder."""
import gzip
import hashlib
import io
import os
import pathlib
import struct
import tempfile
import time
import unittest
import zlib

import numpy as np

from fixture import Server, ServerTest

DATA = os.environ.get("BEAMLINE_DATA", "")
IDX = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
def png(pixels):
    """Encodes [height, width, 3] bytes as a PNG file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


PENGUINS = """species,island,mass,year
Adelie,Torgersen,3750,2007
"Gentoo","Bis, coe",NA,2008
Adelie,Dream,3250.5,2009
"""


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, IDX[array.dtype.str[1:]], array.ndim, *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


def photos(height, width):
    """Returns the photos, scaled by pillow."""
    from PIL import Image
    names = sorted(name for name in os.listdir(os.path.join(DATA, "photos")) if name.endswith((".png", ".jpg")))
    return np.stack([np.asarray(Image.open(os.path.join(DATA, "photos", name)).convert("RGB").resize((width, height), Image.BILINEAR)) for name in names])


class Data(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name, "data")
        cls.root.mkdir()
        cls.server = Server("--backends", "interp", "--data-folder", str(cls.root), "--max-tensor", "4M")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def write(self, name, data):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def make(self, **source):
        return self.server.call("PUT", "/api/v1/tensors/t", source)

    def check(self, expected, **source):
        answer = self.make(**source)
        self.assertEqual(201, answer.status, answer.body)
        self.assertEqual((list(expected.shape), str(expected.dtype)), (answer.json["shape"], answer.json["dtype"]))
        raw = self.server.call("GET", "/api/v1/tensors/t", headers={"accept": "application/octet-stream"}).body
        np.testing.assert_array_equal(expected, np.frombuffer(raw, expected.dtype).reshape(expected.shape))

    def refused(self, status, words, **source):
        answer = self.make(**source)
        self.assertEqual((status, True), (answer.status, words in answer.json["detail"]), answer.body)

    def test_npy(self):
        base = np.arange(24).reshape(2, 3, 4) - 7
        for kind in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split():
            array = base.astype(kind)
            for data in (npy(array), npy(array.astype(">" + kind)), npy(np.asfortranarray(array)), npy(np.asfortranarray(array.astype(">" + kind))),
                         npy(array, (2, 0)), gzip.compress(npy(array))):
                self.write("a.npy", data)
                self.check(array, file="a.npy")
        for array in (np.array([True, False]), np.float32(2.5).reshape(()), np.zeros((0, 3), "f4")):
            self.write("deep/er/b.npy", npy(array))
            self.check(array, file="deep/er/b.npy")

    def test_idx(self):
        for kind in IDX:
            array = (np.arange(30).reshape(2, 5, 3) - 3).astype(kind)
            self.write("images-ubyte.gz", gzip.compress(idx(array)))
            self.check(array, file="images-ubyte.gz")

    def test_raw(self):
        array = np.arange(12, dtype="f4")
        self.write("x.bin", b"1234" + array.tobytes() + b"rest")
        self.check(array.reshape(3, 4), file="x.bin", dtype="float32", shape=[3, 4], offset=4)
        self.check(np.frombuffer(b"1234" + array.tobytes() + b"rest", "u1"), file="x.bin", dtype="uint8")
        self.refused(422, "take 80 bytes, but the data has 56", file="x.bin", dtype="float64", shape=[10])
        self.refused(422, "beyond the end", file="x.bin", dtype="uint8", offset=57)
        self.refused(400, '"dtype"', file="x.bin")

    def test_csv(self):
        self.write("p.csv", PENGUINS.encode())
        self.check(np.array([[3750, 2007], [np.nan, 2008], [3250.5, 2009]], "f4"), file="p.csv", columns=["mass", "year"])
        self.check(np.array([[2007, 0], [2008, 1], [2009, 0]], "i8"), file="p.csv", columns=[3, "species"], categories=["species"], dtype="int64")
        self.check(np.array([[0, 2], [1, 0], [0, 1]], "f4"), file="p.csv", columns=["species", "island"], categories=["species", "island"])
        self.write("crlf.csv", b"\xef\xbb\xbf1,-2\r\n3e2,4\r\n")
        self.check(np.array([[1, -2], [300, 4]], "i2"), file="crlf.csv", header=False, dtype="int16")
        self.check(np.array([[300, 4]], "f8"), file="crlf.csv", dtype="float64")
        self.refused(422, 'line 3, column 2: "NA" is not a number', file="p.csv", columns=["mass"], dtype="int32")
        self.refused(422, 'line 2, column 0: "Adelie" is not a number', file="p.csv")
        self.refused(422, 'is named "weight"', file="p.csv", columns=["weight"])
        self.refused(422, "does not fit int8", file="crlf.csv", header=False, dtype="int8")
        self.write("ragged.csv", b"a,b\n1,2\n3\n")
        self.refused(422, "line 3 has 1 fields, but the first line has 2", file="ragged.csv")

    def test_images(self):
        rng = np.random.default_rng(1)
        pictures = rng.integers(0, 256, (3, 4, 6, 3), "u1")
        for path, picture in zip(("pets/cat/b.png", "pets/cat/a.PNG", "pets/dog/x.png"), pictures):
            self.write(path, png(picture))
        self.write("pets/dog/notes.txt", b"no picture")
        self.check(pictures[[1, 0, 2]], file="pets", format="images")
        self.check(np.array([0, 0, 1], "i8"), file="pets", format="images", part="labels")
        self.check(pictures[2:], file="pets/dog", format="images")
        answer = self.make(file="pets", format="images", size=[8, 12])
        self.assertEqual((201, [3, 8, 12, 3]), (answer.status, answer.json["shape"]))
        flat = np.full((1, 50, 40, 3), 137, "u1")
        self.write("flat/x.png", png(flat[0]))
        self.check(np.full((1, 7, 9, 3), 137, "u1"), file="flat", format="images", size=[7, 9])
        self.write("mixed/a.png", png(pictures[0]))
        self.write("mixed/b.png", png(flat[0]))
        self.assertEqual([2, 4, 6, 3], self.make(file="mixed", format="images").json["shape"])
        self.write("mixed/c.jpg", b"\xff\xd8\xff no picture")
        self.refused(422, "c.jpg", file="mixed", format="images")
        self.write("broken/c.png", png(pictures[0])[:-30])
        self.refused(422, "c.png", file="broken", format="images")
        (self.root / "empty").mkdir()
        self.refused(422, "no .jpg", file="empty", format="images")
        self.refused(404, "not a folder", file="flat/x.png/y", format="images")
        self.refused(422, "a folder", blob="sha256:" + "0" * 64, format="images")

    def test_blob(self):
        array = np.arange(6, dtype="f4").reshape(2, 3)
        data = npy(array)
        name = "sha256:" + hashlib.sha256(data).hexdigest()
        self.refused(404, "there is no blob", blob=name, format="npy")
        self.server.call("PUT", "/api/v1/blobs/" + name, data, {"content-type": "application/octet-stream"})
        self.check(array, blob=name, format="npy")
        self.refused(422, 'the member "format"', blob=name)
        packed = struct.pack("<Q", 60) + b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'.ljust(60) + array.tobytes()
        name = "sha256:" + hashlib.sha256(packed).hexdigest()
        self.server.call("PUT", "/api/v1/blobs/" + name, packed, {"content-type": "application/octet-stream"})
        self.check(array, blob=name, format="safetensors", name="w")
        self.refused(404, 'no tensor "v"', blob=name, format="safetensors", name="v")

    def test_t16_below_the_folder_alone(self):
        secret = self.root.parent / "secret.npy"
        secret.write_bytes(npy(np.zeros(3)))
        (self.root / "link.npy").symlink_to(secret)
        (self.root / "out").symlink_to(self.root.parent)
        os.mkfifo(self.root / "pipe.npy")
        (self.root / "folder.npy").mkdir()
        for path, status in (("../secret.npy", 422), (str(secret), 422), ("a/../../secret.npy", 404), ("out/secret.npy", 404), ("link.npy", 404), ("./link.npy", 422),
                             ("pipe.npy", 422), ("folder.npy", 422), ("none.npy", 404), ("", 422), ("x" * 300 + ".npy", 422), ("a\0b.npy", 400)):
            with self.subTest(path=path):
                answer = self.make(file=path, format="npy")
                self.assertEqual(status, answer.status, answer.body)
                self.assertNotIn(str(self.root.parent), answer.body.decode())

    def test_t17_damaged(self):
        good = npy(np.arange(8, dtype="f4"))
        zeros = gzip.compress(npy(np.zeros(1 << 22)))
        for name, data, words in (("cut.npy", good[:-1], "the data has 31"), ("head.npy", good[:40], "header"), ("no.npy", b"not such a file", "does not begin"),
                                  ("object.npy", good.replace(b"<f4", b"|O8"), "are not supported"), ("shape.npy", good.replace(b"(8,)", b"(-8)"), "shape"),
                                  ("huge.npy", good.replace(b"(8,), }   ", b"(9000000000000000000, 9), }"[:10]), ""),
                                  ("bomb.npy.gz", zeros, "--max-tensor"), ("half.npy.gz", gzip.compress(os.urandom(5000))[:2000], "gzip"),
                                  ("x-ubyte", b"\0\0\x0a\1\0\0\0\1x", "does not begin"), ("y-ubyte", b"\0\0\x08\2\xff\xff\xff\xff\xff\xff\xff\xff", "63 bits")):
            with self.subTest(name=name):
                self.write(name, data)
                self.refused(422, words, file=name)

    def test_what_may_stand_there(self):
        for source, status, words in (({"file": "a.npy", "blob": "b"}, 400, 'one of "blob" and "file"'), ({"file": "a.npy", "dtype": "int8"}, 400, "dtype"),
                                      ({"file": "a.xyz"}, 422, 'the member "format" is missing'), ({"file": "a.npy", "format": "pickle"}, 422, "pickle"), ({"file": 3}, 400, "string")):
            with self.subTest(source=source):
                self.refused(status, words, **source)

    @unittest.skipUnless(DATA, "BEAMLINE_DATA names no folder with data sets")
    def test_real_files(self):
        server = Server("--backends", "interp", "--data-folder", DATA)
        try:
            answer = server.call("PUT", "/api/v1/tensors/x", {"file": "mnist/t10k-images-idx3-ubyte.gz"})
            self.assertEqual((201, [10000, 28, 28], "uint8"), (answer.status, answer.json["shape"], answer.json["dtype"]))
            answer = server.call("PUT", "/api/v1/tensors/h", {"file": "tabular/california_housing.csv", "categories": ["ocean_proximity"]})
            self.assertEqual((201, [20640, 10]), (answer.status, answer.json["shape"]))
            raw = server.call("GET", "/api/v1/tensors/h", headers={"accept": "application/octet-stream"}).body
            expected = np.genfromtxt(os.path.join(DATA, "tabular/california_housing.csv"), delimiter=",", skip_header=1, dtype="f4")
            self.assertEqual(201, server.call("PUT", "/api/v1/tensors/p", {"file": "photos", "format": "images", "size": [64, 96]}).status)
            raw_photos = server.call("GET", "/api/v1/tensors/p", headers={"accept": "application/octet-stream"}).body
            np.testing.assert_allclose(np.frombuffer(raw_photos, "u1").reshape(-1, 64, 96, 3), photos(64, 96), atol=2)
            np.testing.assert_array_equal(expected[:, :9], np.frombuffer(raw, "f4").reshape(-1, 10)[:, :9])
        finally:
            server.stop()


class Durable(unittest.TestCase):
    def start(self, *args):
        server = Server("--backends", "interp", "--state", self.folder, *args)
        self.addCleanup(server.stop)
        return server

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    @staticmethod
    def put(server, name, array, query="&durable=true"):
        shape = ",".join(map(str, array.shape))
        return server.call("PUT", f"/api/v1/tensors/{name}?dtype={array.dtype}&shape={shape}{query}", array.tobytes(), {"content-type": "application/octet-stream"})

    @staticmethod
    def held(server):
        names = [t["name"] for t in server.call("GET", "/api/v1/tensors").json["tensors"]]
        return {name: server.call("GET", f"/api/v1/tensors/{name}", headers={"accept": "application/octet-stream"}).body for name in names}

    def files(self):
        return os.listdir(os.path.join(self.folder, "tensors"))

    def test_what_is_refused_is_not_kept(self):
        server = self.start("--max-held", "10000")
        small, large = np.arange(1000, dtype="f4"), np.arange(2000, dtype="f4")
        self.assertEqual(201, self.put(server, "a", small).status)
        for _ in range(3):
            self.assertEqual(507, self.put(server, "a", large).status)
        self.assertEqual(1, len(self.files()))
        server.process.kill()
        server.process.wait()
        self.assertEqual({"a": small.tobytes()}, self.held(self.start()))

    def test_from_one_start_to_the_next(self):
        arrays = {name: np.arange(1000, dtype=kind) for name, kind in (("a", "f4"), ("b", "i8"), ("c", "u1"))}
        server = self.start()
        for name, array in arrays.items():
            answer = self.put(server, name, array)
            self.assertEqual((201, True), (answer.status, answer.json["durable"]), answer.body)
        self.assertEqual(201, self.put(server, "gone", arrays["a"]).status)
        self.assertEqual(204, server.call("DELETE", "/api/v1/tensors/gone").status)
        self.assertEqual(201, self.put(server, "c", arrays["b"]).status)
        self.assertEqual(201, self.put(server, "b", arrays["a"], "").status)  # no longer durable
        self.assertEqual(201, self.put(server, "passing", arrays["a"], "").status)
        self.assertEqual(201, server.call("PUT", "/api/v1/tensors/j?durable=true", [1, 2.5]).status)
        server.process.kill()
        server.process.wait()
        open(os.path.join(self.folder, "tensors", "stray.new"), "w", encoding="ascii").close()
        expected = {"a": arrays["a"].tobytes(), "c": arrays["b"].tobytes(), "j": np.array([1, 2.5], "f4").tobytes()}
        server = self.start()
        self.assertEqual(expected, self.held(server))
        self.assertEqual(3, len(self.files()))
        answer = server.call("POST", "/api/v1/run", {"inputs": {"x": {"tensor": "a"}}, "nodes": [{"id": "y", "op": "add", "in": ["x", 1]}], "outputs": [], "keep": {"a": "y"}})
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual(2, len(self.files()))
        self.assertEqual(0, server.stop())
        self.assertEqual({"c", "j"}, set(self.held(self.start())))

    def test_t24_what_is_damaged_or_too_much_is_left_there(self):
        server = self.start()
        for name in "ab":
            self.put(server, name, np.zeros(1000, "f4"))
        self.assertEqual(0, server.stop())
        server = self.start("--max-held", "5000")
        self.assertEqual({"a"}, set(self.held(server)))
        self.assertIn("the durable tensor b cannot be restored", server.log_text())
        self.assertEqual(0, server.stop())
        for name in self.files():
            with open(os.path.join(self.folder, "tensors", name), "r+b") as file:
                file.truncate(100)
        server = self.start()
        self.assertEqual((set(), 2), (set(self.held(server)), len(self.files())))

    def test_what_is_refused(self):
        server = self.start()
        lease = server.call("POST", "/api/v1/leases", {"ttl": 60}).json["lease"]
        for query, status, words in ((f"&durable=true&lease={lease}", 422, "lease"), ("&durable=yes", 400, "true or false")):
            answer = self.put(server, "a", np.zeros(3, "f4"), query)
            self.assertEqual((status, True), (answer.status, words in answer.json["detail"]), answer.body)
        self.assertEqual({}, self.held(server))


class DurablePrograms(unittest.TestCase):
    P = "/api/v1/programs/"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *args):
        server = Server("--backends", "interp", "--state", self.folder, *args)
        self.addCleanup(server.stop)
        return server

    @staticmethod
    def line(**more):
        """Returns a line fitted by Adam with noise, so that its state includes the optimiser's state and the random counter."""
        return {"inputs": {"x": {"dtype": "float32", "shape": [4]}, "t": {"dtype": "float32", "shape": [4]}}, "state": {"w": [0], "b": [0]}, "seed": 3, "nodes": [
            {"id": "d", "op": "dropout", "in": ["x"], "attrs": {"p": 0.1}}, {"id": "wx", "op": "mul", "in": ["d", "w"]}, {"id": "p", "op": "add", "in": ["wx", "b"]},
            {"id": "loss", "op": "mse_loss", "in": ["p", "t"]}, {"id": ["w1", "b1"], "op": "adam", "in": ["loss", "w", "b"], "attrs": {"lr": 0.1}}],
            "updates": {"w": "w1", "b": "b1"}, "outputs": ["loss"], **more}

    def put(self, server, name, query="?durable=true", **more):
        answer = server.call("PUT", self.P + name + query, self.line(**more))
        self.assertIn(answer.status, (200, 201), answer.body)

    def run_steps(self, server, name, steps):
        answer = server.call("POST", self.P + name + "/run", {"inputs": {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}, "steps": steps})
        self.assertEqual(200, answer.status, answer.body)
        return answer.json["outputs"]["loss"]["data"]

    def state(self, server, name):
        return server.call("GET", self.P + name + "/state").json["state"]

    def names(self, server):
        return {program["name"] for program in server.call("GET", "/api/v1/programs").json["programs"]}

    def test_as_if_nothing_had_happened(self):
        server = self.start()
        for name, query in (("a", "?durable=true"), ("b", "?durable=true"), ("passing", ""), ("gone", "?durable=true"), ("dropped", "?durable=true")):
            self.put(server, name, query)
        self.run_steps(server, "a", 7)
        self.run_steps(server, "b", 12)
        self.assertEqual(204, server.call("DELETE", self.P + "gone").status)
        self.put(server, "dropped", "")
        state = self.state(server, "a")
        self.assertIn("w1.m.w", state)
        self.assertEqual(0, server.stop())
        server = self.start()
        self.assertEqual({"a", "b"}, self.names(server))
        self.assertEqual(state, self.state(server, "a"))
        shown = server.call("GET", self.P + "a").json
        self.assertEqual((7, True), (shown["steps"], shown["durable"]))
        self.assertEqual(2, len(os.listdir(os.path.join(self.folder, "programs"))))
        self.run_steps(server, "a", 5)
        self.assertEqual(self.state(server, "b"), self.state(server, "a"))  # 7 and 5 steps, or 12 steps in one run
        self.assertEqual(0, server.stop())
        server = self.start()
        self.assertEqual(self.state(server, "b"), self.state(server, "a"))

    def test_killed(self):
        server = self.start("--save-seconds", "1")
        self.put(server, "a")
        first = self.state(server, "a")
        self.run_steps(server, "a", 3)
        server.process.kill()
        server.process.wait()
        server = self.start("--save-seconds", "1")
        self.assertEqual(first, self.state(server, "a"))  # equal to the first reply
        self.assertEqual(204, server.call("PUT", self.P + "a/state", {"state": {**first, "w": {"dtype": "float32", "shape": [1], "data": [5]}}}).status)
        folder = os.path.join(self.folder, "programs")
        before, end = os.listdir(folder), time.monotonic() + 60
        while os.listdir(folder) == before or len(os.listdir(folder)) != 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        server.process.kill()
        server.process.wait()
        server = self.start()
        self.assertEqual([5], self.state(server, "a")["w"]["data"])

    def test_what_is_refused(self):
        server = self.start()
        lease = server.call("POST", "/api/v1/leases", {"ttl": 60}).json["lease"]
        for query, more, status, words in (("?durable=1", {}, 400, "true or false"), ("?durable=true", {"lease": lease}, 422, "lease")):
            answer = server.call("PUT", self.P + "a" + query, self.line(**more))
            self.assertEqual((status, True), (answer.status, words in answer.json["detail"]), answer.body)
        self.assertEqual(set(), self.names(server))

    def test_a_file_that_is_damaged_is_left_there(self):
        server = self.start()
        self.put(server, "a")
        self.assertEqual(0, server.stop())
        name, = os.listdir(os.path.join(self.folder, "programs"))
        with open(os.path.join(self.folder, "programs", name), "r+b") as file:
            file.truncate(200)
        server = self.start()
        self.assertEqual(set(), self.names(server))
        self.assertIn("the durable program a cannot be restored", server.log_text())
        self.assertEqual([name], os.listdir(os.path.join(self.folder, "programs")))


class Nothing(ServerTest):
    ARGS = ("--backends", "interp")

    def test_t22_without_a_folder(self):
        answer = self.server.call("PUT", "/api/v1/tensors/t", {"file": "a.npy"})
        self.assertEqual((404, True), (answer.status, "--data-folder" in answer.json["detail"]), answer.body)


if __name__ == "__main__":
    unittest.main()
