# SPDX-License-Identifier: MIT
"""Programs with picture inputs, and bodies without an envelope."""

import json
import struct
import unittest
import zlib

from repository import ModelsTest, document, numbers, split

PNG, OCTETS, RAW = {"content-type": "image/png"}, "application/octet-stream", {"inference-header-content-length": "0"}
ORANGE = (250, 120, 30)


def png(width, height, *rows):
    """Encodes rows of (red, green, blue) with repeat counts; the last row repeats."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pixels = b"".join(b"\0" + bytes(rows[min(y, len(rows) - 1)]) * width for y in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def colours(*shape, dims=None, dtype="uint8"):
    axes = [len(shape) - 3, len(shape) - 2]
    return {"inputs": {"pixels": {"dtype": dtype, "shape": list(shape)}}, **({"dims": dims} if dims else {}),
            "nodes": [{"id": "f", "op": "cast", "in": ["pixels"], "attrs": {"dtype": "float32"}}, {"id": "y", "op": "mean", "in": ["f"], "attrs": {"axis": axes}}],
            "outputs": ["y"]}


def config(name="pixels", labels=True):
    output = [{"name": "y", "data_type": "TYPE_FP32", **({"label_filename": "names"} if labels else {})}]
    return {"parameters": {"picture": {"string_value": name}}, "output": output}


class Pictures(ModelsTest):
    @classmethod
    def fill(cls, repository):
        size = {"h": [1, 64], "w": [1, 64]}
        models = {"rows": (colours("batch", 8, 8, 3, dims={"batch": [1, 4]}), config()), "one": (colours(8, 8, 3), config()),
                  "own": (colours("h", "w", 3, dims=size), config()), "plain": (colours("batch", 8, 8, 3, dims={"batch": [1, 4]}), config(labels=False)),
                  "floats": (colours(8, 8, 3, dtype="float32"), config()), "absent": (colours(8, 8, 3), config("image")), "four": (colours(8, 8, 4), config()),
                  "half": (colours("h", 8, 3, dims={"h": [1, 64]}), config()), "vary": (colours("batch", "h", "w", 3, dims={**size, "batch": [1, 4]}), config())}
        for name, (program, said) in models.items():
            repository.put(name, 1, program, **said)
            (repository.path / name / "names").write_text('red\n"green"\nblue\n')

    def send(self, model, body, headers=None, query=""):
        return self.server.call("POST", f"/v2/models/{model}/infer{query}", body, headers or PNG)

    def classes(self, answer):
        self.assertEqual("application/json", self.ok(answer).headers["content-type"])
        return [(row.get("label"), row["index"], row["score"]) for row in answer.json["outputs"][0]["classes"]]

    def test_a_picture_is_answered_by_classes(self):
        picture, want = png(5, 3, ORANGE), [("red", 0, 250), ('"green"', 1, 120), ("blue", 2, 30)]
        for model in ("rows", "one", "own"):
            answer = self.send(model, picture)
            self.assertEqual(want, self.classes(answer), model)
            self.assertEqual((model, "1", "y"), (answer.json["model_name"], answer.json["model_version"], answer.json["outputs"][0]["name"]))
            self.assertEqual(want[:2], self.classes(self.send(model, picture, query="?classes=2")))
            self.assertEqual(want[:1], self.classes(self.send(model, picture, RAW, "?classes=1")))
            self.assertEqual(want, self.classes(self.send(model, picture, {**RAW, "accept": "application/json"})))
            self.assertEqual(want, self.classes(self.send(model, picture, query="?classes=99")))

    def test_configuration_names_the_picture(self):
        """The configuration names the picture input for clients, and can be sent back unchanged."""
        told = self.ok(self.call("GET", "/v2/models/rows/config")).json
        self.assertEqual(config()["parameters"], told["parameters"])
        self.ok(self.call("POST", "/v2/repository/models/rows/load", {"parameters": {"config": json.dumps(told)}}))
        self.assertEqual(("red", 0, 250), self.classes(self.send("rows", png(5, 3, ORANGE)))[0])

    def test_bytes_where_they_are_asked_for(self):
        picture, want = png(5, 3, ORANGE), struct.pack("<3f", *ORANGE)
        for headers in (RAW, {**PNG, "accept": OCTETS}, {**RAW, "accept": OCTETS + ", application/json"}):
            answer = self.ok(self.send("rows", picture, headers))
            self.assertEqual((OCTETS, want), (answer.headers["content-type"], split(answer)[1]["y"]))

    def test_without_labels(self):
        picture = png(2, 2, ORANGE)
        self.assertEqual({"name": "y", "datatype": "FP32", "shape": [1, 3], "data": list(ORANGE)}, self.ok(self.send("plain", picture)).json["outputs"][0])
        self.assertEqual([(None, 0, 250), (None, 1, 120)], self.classes(self.send("plain", picture, query="?classes=2")))

    def test_scaled_to_the_size_of_the_program(self):
        """Scaling a side by an integer keeps the mean, and keeps half of a picture."""
        for width, height in ((8, 8), (16, 24), (80, 8), (1, 1), (4, 4)):
            picture = png(width, height, *[(200, 0, 0)] * (height // 2), (0, 0, 100))
            share = height // 2 / height
            got = dict((index, score) for _, index, score in self.classes(self.send("one", picture)))
            self.assertAlmostEqual(200 * share, got[0], delta=2)
            self.assertAlmostEqual(100 * (1 - share), got[2], delta=2)

    def test_a_batch(self):
        pictures = [png(3, 3, ORANGE), png(9, 4, (1, 2, 3)), png(8, 8, (0, 0, 9))]
        body = document({"name": "pixels", "shape": [3], "datatype": "BYTES", "parameters": {"binary_data_size": sum(4 + len(each) for each in pictures)}})
        text = json.dumps(body).encode()
        tail = b"".join(len(each).to_bytes(4, "little") + each for each in pictures)
        headers = {"inference-header-content-length": str(len(text)), "content-type": OCTETS}
        answer = self.ok(self.server.call("POST", "/v2/models/rows/infer", text + tail, headers)).json["outputs"][0]
        self.assertEqual(([3, 3], [250, 120, 30, 1, 2, 3, 0, 0, 9]), (answer["shape"], answer["data"]))
        self.refused(400, self.server.call("POST", "/v2/models/one/infer", text + tail, headers), "one encoded picture")
        about = self.ok(self.call("GET", "/v2/models/rows")).json["inputs"]
        self.assertEqual([{"name": "pixels", "datatype": "BYTES", "shape": [-1, 1]}], about)

    def test_what_is_refused(self):
        picture = png(2, 2, ORANGE)
        for value in ("0", "-1", "%2B1", "x", "", "1e3", "99999999999999999999"):
            self.refused(400, self.send("rows", picture, query="?classes=" + value), "classes is")
        self.refused(400, self.call("POST", "/v2/models/rows/infer?classes=2", document(numbers("pixels", [1], [1], "UINT8"))), "JSON request")
        self.refused(400, self.send("rows", b"no picture"), "neither a JPEG nor a PNG")
        self.refused(400, self.send("rows", picture[:40]), 'input "pixels" of model "rows"')
        self.refused(400, self.send("own", png(65, 2, ORANGE)), "w is 65")
        reasons = {name: reason for (name, _), (state, reason, *_) in self.index().items() if state == "UNAVAILABLE"}
        self.assertEqual({"floats", "absent", "four", "half", "vary"}, set(reasons))
        self.assertIn('parameters.picture is "image"; the model has no such input', reasons.pop("absent"))
        for reason in reasons.values():
            self.assertIn('input "pixels" must be of uint8 and [height, width, 3]', reason)


if __name__ == "__main__":
    unittest.main()
