# SPDX-License-Identifier: MIT
"""Screenshots of each page for docs/page.md:  BEAMLINE_TEST_SHOTS=docs/page tests/run.py page"""
import os
import pathlib
import unittest

from served import ROOT
from test_pages import STORY, Scene, training_jobs

FOLDER = os.environ.get("BEAMLINE_TEST_SHOTS")
COLOURS = 200
MOST_HEIGHT = 1000


@unittest.skipUnless(FOLDER, "$BEAMLINE_TEST_SHOTS names no folder for screenshots")
class Shots(Scene):
    def shoot(self, page, name):
        from PIL import Image
        path = pathlib.Path(ROOT, FOLDER, f"{name}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path, full_page=True)
        image = Image.open(path).convert("RGB")
        image.crop((0, 0, image.width, min(image.height, MOST_HEIGHT * image.width // 1280 if image.width > 400 else MOST_HEIGHT))).quantize(COLOURS, method=2).save(path, optimize=True)

    def test_all(self):
        self.call("PUT", "/api/v1/programs/noisy", training_jobs.noisy(), self.admin)
        busy = [self.call("POST", "/api/v1/jobs", {"program": "noisy", "entry": "train", "inputs": training_jobs.noisy_inputs(), "steps": 80000, "collect": {"every": 20, "outputs": ["loss"]},
                                                   "evaluate": {"entry": "test", "inputs": training_jobs.noisy_inputs(), "every": 400, "outputs": ["loss"]}}, key)["job"] for key in (self.user, self.admin)]
        page = self.show("now")
        page.wait_for_timeout(6000)
        self.shoot(page, "now")
        dark = self.show("now", scheme="dark", viewport={"width": 320, "height": 700})
        dark.wait_for_timeout(1500)
        self.shoot(dark, "now-narrow")
        self.shoot(self.show("jobs"), "jobs")
        page = self.show(f"jobs/{busy[0]}")
        page.get_by_text("Compare").click()
        page.wait_for_timeout(500)
        page.get_by_text("Compare").click()
        page.wait_for_timeout(1000)
        self.shoot(page, "job")
        page = self.show("programs/noisy/train", scheme="dark")
        page.wait_for_selector("g.node")
        page.wait_for_timeout(500)
        self.shoot(page, "programs")
        page = self.show("timeline")
        page.locator(".canvas").focus()
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "+", "+", "+"):
            page.keyboard.press(key)
        page.locator(".canvas").blur()
        page.wait_for_timeout(500)
        self.shoot(page, "timeline")
        for key, job in zip((self.user, self.admin), busy):
            self.call("DELETE", f"/api/v1/jobs/{job}", key=key)
        page = self.show("models/double")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=Answered in")
        self.shoot(page, "models")
        if STORY.exists():
            page = self.show("models/story")
            page.get_by_text("Options").click()
            page.get_by_label("Write").select_option("text")
            page.get_by_label("Tokens at most").fill("60")
            page.get_by_label("Message").fill("Once upon a time")
            page.keyboard.press("Enter")
            page.wait_for_function("() => document.querySelector('.chat').textContent.length > 120", timeout=60000)
            page.wait_for_timeout(1500)
            self.shoot(page, "chat")
        page = self.show("data")
        page.get_by_role("button", name="Histogram of weights").click()
        page.wait_for_selector("svg.histogram")
        self.shoot(page, "data")
        self.shoot(self.show("usage", self.admin), "usage")
        self.shoot(self.show("api"), "api")


if __name__ == "__main__":
    unittest.main()
