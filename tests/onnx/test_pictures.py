# SPDX-License-Identifier: MIT
"""ImageDecoder: hosted models with encoded pictures as inputs.

Decoded pixels are compared with pillow's, resized pictures with the onnx package's.
"""
import base64
import io
import json
import struct
import unittest
import zlib

import hosting
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from test_nodes import collect

import served

try:
    from PIL import Image
except ImportError:
    Image = None

rng = np.random.default_rng(5)
PICTURE = rng.integers(0, 256, (6, 9, 3), "u1")


def encoded(array, kind="PNG", **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, kind, **options)
    return out.getvalue()


def png_head(width, height):
    """Returns a PNG with this size in its header and almost no pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\0"))


def model(*nodes, inputs=("data",), outputs=("y",), initialisers=()):
    graph = helper.make_graph(list(nodes), "pictures", [helper.make_tensor_value_info(name, TensorProto.UINT8, [None]) for name in inputs],
                              [helper.make_empty_tensor_value_info(name) for name in outputs], list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def decoder(pixel_format=None, source="data", to="y", **more):
    return helper.make_node("ImageDecoder", [source], [to], **({"pixel_format": pixel_format} if pixel_format else {}), **more)


def resize(sizes, **attributes):
    """Returns (nodes, initialisers) that resize the rows and columns of p as floats."""
    return ([helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT), helper.make_node("Resize", ["f", "", "", "sizes"], ["y"], axes=[0, 1], **attributes)],
            [numpy_helper.from_array(np.array(sizes, "i8"), "sizes")])


def resized(sizes, **attributes):
    nodes, initialisers = resize(sizes, **attributes)
    return model(decoder(to="p"), *nodes, initialisers=initialisers)


def reference(sizes, **attributes):
    """Returns the onnx package's result for the pixels."""
    nodes, initialisers = resize(sizes, **attributes)
    graph = helper.make_graph(nodes, "resize", [helper.make_tensor_value_info("p", TensorProto.UINT8, [None, None, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initialisers)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


@unittest.skipUnless(Image, "there is no pillow")
class Pictures(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port)
        self.addCleanup(self.host.close)

    def load(self, data, **config):
        parameters = {"config": json.dumps(config), "file:1/model.onnx": base64.b64encode(data).decode()}
        self.host.connection.request("POST", "/v2/repository/models/m/load", json.dumps({"parameters": parameters}), {})
        reply = self.host.connection.getresponse()
        text = reply.read().decode()
        return "" if reply.status == 200 else text

    def ask(self, path, body, **headers):
        self.host.connection.request("POST", "/v2/models/m" + path, body, headers)
        reply = self.host.connection.getresponse()
        return reply.status, json.loads(reply.read())

    def infer(self, *files, names=("data",), **members):
        """Sends each file as BYTES after the envelope.  Returns (status, document)."""
        parts = [struct.pack("<I", len(file)) + file for file in files]
        inputs = [{"name": name, "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(part)}} for name, part in zip(names, parts)]
        text = json.dumps({"inputs": inputs, **members}).encode()
        return self.ask("/infer", text + b"".join(parts), **{"inference-header-content-length": str(len(text))})

    def pixels(self, answer):
        status, document = answer
        self.assertEqual(200, status, document)
        out, = document["outputs"]
        return np.array(out["data"], {"UINT8": "u1", "FP32": "f4"}[out["datatype"]]).reshape(out["shape"])

    def check(self, want, file):
        np.testing.assert_array_equal(np.asarray(want), self.pixels(self.infer(file)))

    def refused(self, answer, *words):
        status, document = answer
        self.assertEqual(400, status, document)
        for word in words:
            self.assertIn(word, document["error"])

    def get(self, path):
        self.host.connection.request("GET", "/v2/models/m" + path)
        return json.loads(self.host.connection.getresponse().read())

    def test_official_cases(self):
        known = 0
        for name, case in collect().items():
            if not name.startswith("test_image_decoder"):
                continue
            with self.subTest(name):
                (file,), (want,) = case.data_sets[0]
                file = np.asarray(file).tobytes()
                self.assertEqual("", self.load(case.model.SerializeToString()))
                source = case.model.graph.input[0].name
                if "_jpeg_" in name or "_png_" in name:
                    known += 1
                    got = self.pixels(self.infer(file, names=[source]))
                    np.testing.assert_allclose(got.astype(int), np.asarray(want).astype(int), atol=0 if "_png_" in name else 1)
                else:
                    self.refused(self.infer(file, names=[source]), "neither a JPEG nor a PNG")
        self.assertGreaterEqual(known, 4)

    def test_formats(self):
        files = {"plain": encoded(PICTURE), "grey": encoded(PICTURE[..., 0]), "jpeg": encoded(PICTURE, "JPEG", quality=90),
                 "one grey": encoded(PICTURE[..., 1], "JPEG"), "progressive": encoded(PICTURE, "JPEG", progressive=True, subsampling=2)}
        for pixel_format in (None, "RGB", "BGR", "Grayscale"):
            self.assertEqual("", self.load(model(decoder(pixel_format))))
            for name, file in files.items():
                with self.subTest(name, pixel_format=pixel_format):
                    read = Image.open(io.BytesIO(file)).convert("RGB")
                    want = np.asarray(read.convert("L"))[..., None] if pixel_format == "Grayscale" else np.asarray(read)
                    self.check(want[..., ::-1] if pixel_format == "BGR" else want, file)

    def test_what_is_transparent_is_on_white(self):
        self.assertEqual("", self.load(model(decoder())))
        clear = np.dstack([PICTURE, np.where(np.arange(9) < 4, 0, 255).astype("u1")[None].repeat(6, 0)])
        want = PICTURE.copy()
        want[:, :4] = 255
        self.check(want, encoded(clear))
        palette = io.BytesIO()
        Image.fromarray(PICTURE).convert("P").save(palette, "PNG")
        self.check(Image.open(palette).convert("RGB"), palette.getvalue())

    def test_how_it_is_asked(self):
        file = encoded(PICTURE)
        self.assertEqual("", self.load(model(decoder())))
        self.assertEqual([{"name": "data", "datatype": "BYTES", "shape": [1]}], self.get("")["inputs"])
        config = self.get("/config")
        self.assertEqual((0, "TYPE_STRING", ["1"]), (config["max_batch_size"], config["input"][0]["data_type"], [str(d) for d in config["input"][0]["dims"]]))
        self.assertEqual([-1, -1, 3], self.get("")["outputs"][0]["shape"])
        whole = {"name": "data", "shape": [len(file)], "datatype": "UINT8"}
        text = json.dumps({"inputs": [{**whole, "parameters": {"binary_data_size": len(file)}}]}).encode()
        for answer in (self.ask("/infer", text + file, **{"inference-header-content-length": str(len(text))}),
                       self.ask("/infer", json.dumps({"inputs": [{**whole, "data": list(file)}]}))):
            np.testing.assert_array_equal(PICTURE, self.pixels(answer))
        self.host.connection.request("POST", "/v2/models/m/infer", file, {"inference-header-content-length": "0"})  # the body is the picture
        reply = self.host.connection.getresponse()
        body = reply.read()
        self.assertEqual(PICTURE.tobytes(), body[int(reply.headers["inference-header-content-length"]):])

    def test_what_is_no_picture(self):
        self.assertEqual("", self.load(model(decoder())))
        file = encoded(PICTURE)
        for bad, word in ((b"", "0 bytes that are neither"), (b"no picture at all", "17 bytes that are neither"), (b"\xff\xd8\xff no picture", "data"),
                          (file[:-20], "data"), (file[:12], "data"), (b"\x89PNG\r\n\x1a\n", "data"), (png_head(20000, 20000), "limit of each is 16384"),
                          (png_head(9000, 2), "data.width is 9000"), (png_head(2, 9000), "data.height is 9000"), (png_head(8192, 8192), "data"),
                          (file.replace(b"IDAT", b"IDAX"), "data")):
            with self.subTest(bad[:20]):
                self.refused(self.infer(bad), 'input "data" of model "m"' if "neither" in word else "data", word)
        two = {"name": "data", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}
        self.refused(self.ask("/infer", json.dumps({"inputs": [two]})), "one encoded picture")
        self.refused(self.ask("/infer", json.dumps({"inputs": [{"name": "data", "shape": [1], "datatype": "FP32", "data": [1]}]})), "one encoded picture")
        self.refused(self.ask("/infer", json.dumps({"inputs": [{"name": "data", "shape": [1, 1], "datatype": "UINT8", "data": [1]}]})), "one encoded picture")
        self.refused(self.ask("/generate", json.dumps({"text_input": "a cat"})), "neither a JPEG nor a PNG")
        self.check(PICTURE, file)

    def test_constants_are_decoded_when_it_is_loaded(self):
        file = np.frombuffer(encoded(PICTURE), "u1")
        nodes = decoder("BGR", "fixed", "q"), helper.make_node("ReduceMax", ["x"], ["p"], keepdims=0), helper.make_node("Sub", ["q", "p"], ["y"])
        constant = helper.make_node("Constant", [], ["fixed"], value=numpy_helper.from_array(file))
        for data in (model(*nodes, inputs=["x"], initialisers=[numpy_helper.from_array(file, "fixed")]),
                     model(constant, *nodes, inputs=["x"])):
            self.assertEqual("", self.load(data))
            answer = self.ask("/infer", json.dumps({"inputs": [{"name": "x", "shape": [6], "datatype": "UINT8", "data": [1, 2, 3, 3, 0, 0]}]}))
            np.testing.assert_array_equal(PICTURE[..., ::-1] - np.uint8(3), self.pixels(answer))
        for bad, word in ((file[:-20], "is not a picture"), (file[:5], "neither a JPEG nor a PNG"), (file.astype("i4"), "uint8 [n]"), (file[None], "uint8 [n]")):
            why = self.load(model(decoder(source="fixed", name="opens"), inputs=[], initialisers=[numpy_helper.from_array(bad, "fixed")]))
            self.assertIn("ImageDecoder", why)
            self.assertIn(word, why)

    def test_several(self):
        """One input may be decoded twice, and a model may have two inputs of different sizes."""
        self.assertEqual("", self.load(model(decoder(to="a"), decoder("BGR", to="b"), helper.make_node("Sub", ["a", "b"], ["y"]))))
        self.check(PICTURE - PICTURE[..., ::-1], encoded(PICTURE))
        other = rng.integers(0, 256, (4, 3, 3), "u1")
        means = [helper.make_node("ReduceMax", [name], ["m" + name], keepdims=0) for name in ("a", "b")]
        self.assertEqual("", self.load(model(decoder(source="x", to="a"), decoder(source="z", to="b"), *means, helper.make_node("Min", ["ma", "mb"], ["y"]),
                                             inputs=("x", "z"))))
        got = self.pixels(self.infer(encoded(PICTURE), encoded(other), names=("x", "z")))
        self.assertEqual(min(PICTURE.max(), other.max()), got)

    def test_what_cannot_be(self):
        for data, *words in ((model(helper.make_node("Add", ["data", "data"], ["p"]), decoder(source="p", name="opens")),
                              "opens", "must be an input of the model or a constant"),
                             (model(decoder(), helper.make_node("Shape", ["data"], ["n"], name="asks"), outputs=("y", "n")), "asks", "encoded picture"),
                             (model(decoder(), outputs=("y", "data")), '"data"', "not a tensor"),
                             (model(decoder("YUV", name="opens")), "opens", "pixel_format"),
                             (resized([4, 5], mode="linear", antialias=1), "no fixed size"),
                             (resized([4, 5], keep_aspect_ratio_policy="not_larger"), "no fixed size")):
            with self.subTest(words[0]):
                why = self.load(data)
                for word in words:
                    self.assertIn(word, json.loads(why)["error"])
        self.assertIn("max_batch_size", self.load(model(decoder()), max_batch_size=4))
        self.assertIn("TYPE_STRING", self.load(model(decoder()), input=[{"name": "data", "data_type": "TYPE_UINT8", "dims": [-1]}]))

    def test_config_and_warm_up(self):
        warmup = {"name": "w", "batch_size": 1, "inputs": {"data": {"data_type": "TYPE_UINT8", "dims": [5, 7, 3], "zero_data": True}}}
        said = [{"name": "data", "data_type": "TYPE_STRING", "dims": [1]}]
        self.assertEqual("", self.load(model(decoder()), input=said, model_warmup=[warmup]))
        self.check(PICTURE, encoded(PICTURE))
        warmup["inputs"]["data"]["dims"] = [5, 7, 4]
        self.assertIn("the size 4 is outside the range", self.load(model(decoder()), model_warmup=[warmup]))

    def test_resized(self):
        """Pictures of all sizes are resized to one size; each is compared with the reference."""
        ways = [("nearest", place, nearest) for place in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
                for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
        ways += [("linear", place, "") for place in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")]
        pictures = [rng.integers(0, 256, (*shape, 3), "u1") for shape in ((6, 9), (5, 5), (1, 13), (20, 3))]
        for mode, place, nearest in ways:
            attributes = {"mode": mode, "coordinate_transformation_mode": place, **({"nearest_mode": nearest} if nearest else {})}
            for sizes in ((5, 8), (1, 17)):
                self.assertEqual("", self.load(resized(sizes, **attributes)))
                wanted = reference(sizes, **attributes)
                for picture in pictures:
                    with self.subTest(mode=mode, place=place, nearest=nearest, sizes=sizes, of=picture.shape):
                        want, = wanted.run(None, {"p": picture})
                        np.testing.assert_allclose(self.pixels(self.infer(encoded(picture))), want, atol=2e-3)

    def test_program(self):
        """As a program, the model takes pixels."""
        program = self.host.put(model(decoder("BGR")))
        self.assertEqual({"dtype": "uint8", "shape": ["data.height", "data.width", 3]}, {key: program["entries"]["main"]["inputs"]["data"][key] for key in ("dtype", "shape")})
        got, = self.host.run(program, [PICTURE])
        np.testing.assert_array_equal(PICTURE[..., ::-1], got)


class OnTheDefaultDevice(Pictures):
    options = ("--log-level", "error")

    test_official_cases = test_what_is_no_picture = test_what_cannot_be = None


if __name__ == "__main__":
    unittest.main()
