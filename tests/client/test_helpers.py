# SPDX-License-Identifier: MIT
"""Helpers of tinygrad scripts besides Tensor's methods: default dtypes, fetch, function, device names."""
import gzip
import http.server
import math
import os
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

import beamline
from beamline import Device, Tensor, dtypes, expr
from tensors import TensorCase


class HelperTest(TensorCase):
    def test_edges_of_ranges(self):
        self.assertEqual((Tensor.arange(128, dtype=dtypes.int8)[-1].item(), Tensor.arange(0, -129, -1, dtype="int8")[-1].item()), (127, -128))
        self.assertEqual((Tensor.arange(0, 256, 85, dtype=dtypes.uint8).tolist(), Tensor.arange(5, 3).tolist()), ([0, 85, 170, 255], []))

    def test_the_seed_of_the_environment(self):
        with mock.patch.dict(os.environ, BEAMLINE_SEED="7"):
            self.assertEqual(7, expr.first_seed())
        with mock.patch.dict(os.environ, BEAMLINE_SEED="x"), self.assertRaisesRegex(ValueError, "BEAMLINE_SEED is 'x'; it must be a whole number"):
            expr.first_seed()
        with mock.patch.dict(os.environ, BEAMLINE_SEED=""):
            self.assertNotEqual(expr.first_seed(), expr.first_seed())

    def test_extremes_of_nothing(self):
        """Without elements, max gives the least number of the dtype and min the greatest, as in tinygrad."""
        for result, expected in ((Tensor([]).max(), -math.inf), (Tensor([]).min(), math.inf), (Tensor.ones(2, 0, 3).max(1), [[-math.inf] * 3] * 2),
                                 (Tensor.ones(0, 2, dtype=dtypes.int8).min(0, keepdim=True), [[127, 127]]), (Tensor.ones(0, 2).max(1), []),
                                 (Tensor([]).sum(), 0), (Tensor([]).prod(), 1)):
            self.assertEqual(result.tolist(), expected)
        self.assertTrue(math.isnan(Tensor([]).mean().item()))

    def test_dtypes(self):
        self.assertEqual([(each.min, each.max) for each in (dtypes.int8, dtypes.uint16, dtypes.half, dtypes.bool)],
                         [(-128, 127), (0, 65535), (-math.inf, math.inf), (False, True)])
        x, w, b = (Tensor.ones(*shape) for shape in ((1, 2, 3, 3), (4, 2, 2, 2), (4,)))
        wide = dtypes.float64
        for made in (x.conv2d(w, b, dtype=wide), x.conv2d(w, dtype=wide), b.dot(b, dtype=wide), x.matmul(x, dtype=wide), x.sum(dtype=wide),
                     x.prod(dtype=wide), x.softmax(dtype=wide), x.log_softmax(dtype=wide), x.softmin(dtype=wide), b.linear(Tensor.eye(4), b, dtype=wide),
                     Tensor.einsum("i,i->", b, b, dtype=wide), x.full_like(2, dtype=wide), x.rand_like(dtype=wide)):
            self.assertEqual((made.dtype, made.numpy().dtype.name), (wide, "float64"))

    def test_default_dtypes(self):
        before = dtypes.default_float
        with beamline.Context(DEFAULT_FLOAT="HALF", DEFAULT_INT="int64"):
            self.assertEqual([each.dtype for each in (Tensor.ones(2), Tensor([1.5]), Tensor.rand(2), Tensor([1]) / 2, Tensor(3), Tensor.arange(3))],
                             [dtypes.half] * 4 + [dtypes.int64] * 2)
            self.assertEqual((Tensor.ones(2) + 1.5).tolist(), [2.5, 2.5])
        self.assertIs(dtypes.default_float, before)
        dtypes.default_float = dtypes.float64
        try:
            self.assertEqual(Tensor([1.5]).dtype, dtypes.float64)
        finally:
            dtypes.default_float = before
        with beamline.Context(DEFAULT_FLOAT="flaot"):
            self.assertRaisesRegex(ValueError, "did you mean 'float'", Tensor.ones, 2)

    def test_other_names(self):
        x = Tensor([1.0, 2])
        self.assertEqual((x.clone(Device.DEFAULT).tolist(), x.clone(device=Device.DEFAULT).device), ([1, 2], Device.DEFAULT))
        for double in (beamline.function(lambda a, b=1: a * 2 + b), beamline.function(precompile=True)(lambda a, b=1: a * 2 + b)):
            self.assertEqual((double(x).tolist(), double(x, b=x).tolist()), ([3, 5], [3, 6]))
            self.assertEqual(double(x).sum().gradient(x)[0].tolist(), [2, 2])

    def test_devices_that_there_are_not(self):
        for name in ("opencl:0:1", "GPU:x", "", "interp:7:7", "CPU:-1"):
            self.assertRaisesRegex(ValueError, f"no device '{name}'; there are interp:0: name one of them", Tensor, [1.0], device=name)


class Files(http.server.BaseHTTPRequestHandler):
    """Serves complete and truncated files, and records the requests."""

    asked = []

    def do_GET(self):  # pylint: disable=invalid-name
        self.asked.append((self.path, self.headers.get("X-Who")))
        data = {"/plain": b"content", "/packed": gzip.compress(b"unpacked"), "/cut": b"cut", "/torn": gzip.compress(b"unpacked")[:-9]}.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"") + 5 * (self.path == "/cut")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *_):
        pass


class FetchTest(unittest.TestCase):
    def test_fetch(self):
        fetch = beamline.fetch
        server = http.server.HTTPServer(("127.0.0.1", 0), Files)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder}):
                first = fetch(url + "/plain")
                self.assertEqual((first.read_bytes(), fetch(url + "/plain"), Files.asked), (b"content", first, [("/plain", None)]))
                self.assertTrue(str(first).startswith(folder))
                named = fetch(url + "/packed", "some.txt", subdir="set", gunzip=True, headers={"X-Who": "me"})
                self.assertEqual((named.read_bytes(), named.parts[-2:], Files.asked[1]), (b"unpacked", ("set", "some.txt"), ("/packed", "me")))
                fetch(url + "/plain", allow_caching=False)
                self.assertEqual(len(Files.asked), 3)
                self.assertEqual(fetch("./here"), pathlib.Path("./here"))
                for bad in ("/none", "/cut"):
                    self.assertRaisesRegex(OSError, f"{url}{bad}", fetch, url + bad)
                self.assertRaisesRegex(OSError, f"{url}/torn cannot be fetched: Compressed file ended", fetch, url + "/torn", gunzip=True)
                self.assertEqual(sorted(each.name for each in pathlib.Path(folder).rglob("*") if each.is_file()), sorted([first.name, "some.txt"]))
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


if __name__ == "__main__":
    unittest.main()
