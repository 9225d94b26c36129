# SPDX-License-Identifier: MIT
"""The examples that host a model."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from repository import ModelsTest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data"))


class Example(ModelsTest):
    def test_host_model(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "host_model.py", self.repository.path], capture_output=True, text=True, check=False,
                              env={**os.environ, "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"}, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        for line in done.stdout.splitlines()[-2:]:
            for value, want in zip(json.loads(line), [0, 1, 1, 0]):
                self.assertAlmostEqual(want, value, delta=0.1)

    def test_host_mood(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "host_mood.py", self.repository.path], capture_output=True, text=True, check=False,
                              env={**os.environ, "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"}, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["Wonderful actors!: good", "What a terrible, loud story: bad", "great: good"], done.stdout.splitlines()[-3:])

    def test_host_onnx(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "host_onnx.py"], capture_output=True, text=True, check=False,
                              env={**os.environ, "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"}, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual('sizes: {"n": [1, 64], "height": [2, 1280, 2], "width": [2, 1280, 2]}', lines[0])
        self.assertEqual("2 x 2: [0.375, 0.625, 0.875, 1.125]", lines[1])
        self.assertIn("height is 3; model \"halves\" takes 2 to 1280 in steps of 2", lines[3])
        self.assertEqual('sizes: {"n": [1, 1], "height": [2, 640, 2], "width": [2, 2]}', lines[4])

    @unittest.skipUnless((DATA / "squeezenet").is_dir() and (DATA / "photos").is_dir(), f"there is no squeezenet, or no photos, in {DATA}")
    def test_host_classifier(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "host_classifier.py", self.repository.path], capture_output=True, text=True, check=False,
                              env={**os.environ, "BEAMLINE_DATA": str(DATA), "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"}, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["Egyptian cat", "tiger cat", "tabby, tabby cat"], [line.partition("  ")[2] for line in done.stdout.splitlines()][:3])
        for name, media, want in (("coffee.png", "image/png", "espresso"), ("camera.png", "image/png", "tripod")):
            answer = self.ok(self.server.call("POST", "/v2/models/pictures/infer", (DATA / "photos" / name).read_bytes(), {"content-type": media}))
            self.assertEqual(want, answer.json["outputs"][0]["classes"][0]["label"])

    @unittest.skipUnless((DATA / "stories260K").is_dir(), f"there is no stories260K in {DATA}")
    def test_host_story(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "host_story.py", self.repository.path], capture_output=True, text=True, check=False,
                              env={**os.environ, "BEAMLINE_DATA": str(DATA), "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"}, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        story = json.loads((DATA / "stories260K" / "expected_greedy.json").read_text())["cases"][0]["text"]
        self.assertGreater(len(done.stdout), 400)
        self.assertEqual(story[:400], done.stdout[:400])


if __name__ == "__main__":
    unittest.main()
