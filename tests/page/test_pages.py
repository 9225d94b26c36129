# SPDX-License-Identifier: MIT
"""Each page with a populated server, with the keys of a reader, a user and an administrator."""
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
import urllib.request

from browser import NARROW, BrowserCase, Keys
from served import ROOT

sys.path[:0] = [str(ROOT / "tests" / "http"), str(ROOT / "tests" / "models")]
import test_pictures  # noqa: E402
import test_text  # noqa: E402
import training_jobs  # noqa: E402

PAGES = {"jobs": ["train"], "models": ["infer"], "programs": ["run", "train"], "timeline": [], "data": ["run", "train"], "usage": [], "api": []}
DOUBLE = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "dims": {"batch": [1, 64]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}
STORY = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data"), "stories260K", "stories260K-f32.gguf")


class Scene(BrowserCase):
    """A server with keys, models, programs, jobs and tensors."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = Keys(cls)
        cls.reader, cls.user, cls.admin = cls.keys.make("reader", "infer"), cls.keys.make("user", "run,train,infer"), cls.keys.make("admin", "admin,run,train,infer,metrics")
        models = tempfile.TemporaryDirectory()
        cls.addClassCleanup(models.cleanup)
        for name, document in (("double", DOUBLE), ("broken", {"inputs": {}}), ("colours", test_pictures.colours(8, 8, 3)), ("letters", test_text.counter(64))):
            place = pathlib.Path(models.name, name, "1")
            place.mkdir(parents=True)
            (place / "model.json").write_text(json.dumps(document))
        pathlib.Path(models.name, "letters", "config.json").write_text(json.dumps(test_text.parameters(context=1000000)))
        pathlib.Path(models.name, "letters", "1", "tokenizer.json").write_text(json.dumps(test_text.TOKENIZER))
        pathlib.Path(models.name, "colours", "config.json").write_text(json.dumps(test_pictures.config()))
        pathlib.Path(models.name, "colours", "names").write_text("red\ngreen\nblue\n")
        if STORY.exists():
            pathlib.Path(models.name, "story.gguf").write_bytes(STORY.read_bytes())
        cls.server = cls.serve("--state", cls.keys.folder.name, "--models", models.name, *cls.OPTIONS)
        cls.fill()

    @classmethod
    def fill(cls):
        cls.call("PUT", "/api/v1/programs/noisy", training_jobs.noisy())
        cls.call("PUT", "/api/v1/programs/line", training_jobs.line())
        cls.call("PUT", "/api/v1/tensors/weights", {"dtype": "float32", "shape": [4, 8], "data": [(i * 37 % 17) / 17 - 0.5 for i in range(32)]})
        cls.done, cls.trained = cls.submit("line", steps=2000, every=10), cls.submit("noisy", steps=100, every=10)
        end = time.monotonic() + 60
        while cls.call("GET", f"/api/v1/jobs/{cls.trained}")["state"] != "done" and time.monotonic() < end:
            time.sleep(0.1)

    @classmethod
    def submit(cls, program, steps, every):
        inputs = {"entry": "train", "inputs": training_jobs.noisy_inputs()} if program == "noisy" else {"inputs": training_jobs.POINTS}
        return cls.call("POST", "/api/v1/jobs", {"program": program, **inputs, "steps": steps, "collect": {"every": every, "outputs": ["loss"]}})["job"]

    @classmethod
    def call(cls, method, path, document=None, key=None):
        request = urllib.request.Request(cls.server.url + path, None if document is None else json.dumps(document).encode(), method=method,
                                         headers={"content-type": "application/json", "authorization": f"Bearer {key or cls.user}"})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def show(self, address, key=None, **options):
        page = self.open(f"{self.server.url}/#/{address}", key=key or self.user, **options)
        page.wait_for_selector("h1")
        page.wait_for_load_state("networkidle") if not address.startswith("jobs/") else page.wait_for_selector(".u-legend")
        return page


class Looks(Scene):
    def test_no_violation_on_any_page(self):
        """axe finds no violation in light and dark mode, and no page is wider than a narrow screen."""
        for address in [*PAGES, f"jobs/{self.done}", "models/double", "programs/noisy/train"]:
            for scheme, viewport in (("light", None), ("dark", NARROW)):
                with self.subTest(address=address, scheme=scheme):
                    page = self.show(address, self.admin if address in ("usage", "models") else None, scheme=scheme, viewport=viewport)
                    self.check_axe(page, address)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)
                    page.context.close()

    def test_scopes(self):
        for key, scopes in ((self.reader, {"infer"}), (self.user, {"run", "train", "infer"}), (self.admin, {"admin", "run", "train", "infer"})):
            page = self.show("api", key)
            found = [link.split("/")[-1] for link in page.eval_on_selector_all("nav a", "links => links.map((link) => link.getAttribute('href'))")]
            for name, needed in PAGES.items():
                self.assertEqual(not needed or bool(scopes & set(needed)), name in found, name)
            page.goto(f"{self.server.url}/#/usage")
            page.wait_for_selector("h1:has-text('sage')")
            made = page.get_by_text("New key…")
            made.wait_for() if "admin" in scopes else page.wait_for_timeout(500)
            self.assertEqual("admin" in scopes, made.count() > 0)


class Jobs(Scene):
    def test_curve_has_the_points_of_the_history(self):
        page = self.show(f"jobs/{self.done}")
        page.get_by_text("Numbers").first.click()
        rows = self.call("GET", f"/api/v1/jobs/{self.done}/history")["rows"]
        self.assertEqual(200, len(rows))
        self.assertEqual(f"{rows[-1][0]:,}", page.locator(".numbers tbody tr").first.locator("td").first.text_content())
        page.wait_for_selector("text=loss goes down")

    def test_trend_is_told_from_noise(self):
        page = self.open(self.server.url, key=self.user)
        for slope, word in ((0, "stays where it is"), (-0.001, "goes down"), (0.001, "goes up")):
            rows = [[step, 1.7e9 + step, 1 + slope * step + 0.3 * ((step * 7919) % 101 / 101 - 0.5)] for step in range(1, 501)]
            page.route("**/history*", lambda route, _, rows=rows: route.fulfill(json={"columns": ["step", "time", "loss"], "rows": rows}))
            page.evaluate("job => { location.hash = '#/now'; location.hash = `#/jobs/${job}`; }", self.done)
            page.wait_for_selector(f"text=loss {word}")
            page.unroute_all()

    def test_live_compare_and_cancel(self):
        job = self.submit("noisy", steps=1000000, every=500)
        page = self.show(f"jobs/{job}")
        first = page.locator("dd").first.text_content()
        page.wait_for_function("before => document.querySelector('dd').textContent !== before", arg=first)
        streams = [url for url in page.requests if url.endswith("/events")]
        self.assertEqual(1, len(streams))
        page.get_by_text("Compare").click()
        page.get_by_label(re.compile("^line")).first.check()
        page.wait_for_selector(".u-legend >> text=/line [0-9a-f]{4}/")
        page.get_by_label("Log scale").check()
        page.get_by_label("Over time").check()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel the job").click()
        page.wait_for_selector(".chip.cancelled")
        self.assertEqual("cancelled", self.call("GET", f"/api/v1/jobs/{job}")["state"])
        page.wait_for_selector("[aria-live] >> text=The job is cancelled", state="attached")

    def test_promote_and_ask(self):
        page = self.show(f"jobs/{self.trained}")
        page.get_by_role("button", name="Promote…").click()
        page.get_by_label(re.compile("^Entry")).select_option("test")
        page.get_by_label("Model", exact=True).fill("straight")
        page.get_by_role("button", name="Promote", exact=True).click()
        page.wait_for_selector("text=answers now")
        page.goto(f"{self.server.url}/#/models/straight")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=Answered in")


class Programs(Scene):
    def test_kernels_and_graph(self):
        """The page has the kernels of the plan, the slowest first, and each box has the colours of its kernels."""
        for _ in range(12):
            self.call("POST", "/api/v1/programs/noisy/run", {"entry": "train", "inputs": training_jobs.noisy_inputs(), "steps": 20})
        page = self.show("programs/noisy/train")
        page.wait_for_selector("g.node")
        plan = self.call("GET", "/api/v1/programs/noisy/plan?entry=train")
        shown = page.locator(".panel:has(h2:text-is('Kernels')) tbody tr")
        self.assertEqual(len(plan["kernels"]), shown.count())
        self.assertEqual(len(plan["nodes"]), page.locator("g.node").count())
        self.assertEqual(sum(len(node["kernels"]) for node in plan["nodes"]), page.locator("g.node .strip").count())
        slowest = page.locator(".lead strong").text_content()
        self.assertIn(slowest, shown.first.text_content())
        page.get_by_role("button", name=slowest).first.click()
        page.wait_for_selector("pre[aria-label=Nest]")
        kernel = next(each for each in plan["kernels"] if each["name"] == slowest)
        self.assertEqual(kernel["nest"].strip(), page.locator("pre[aria-label=Nest]").text_content().strip())
        self.assertGreater(page.locator("g.node.marked").count(), 0)
        page.get_by_role("link", name="test").click()
        page.wait_for_selector("h1:has-text('noisy')")


class Timeline(Scene):
    def show_trace(self, seconds="10"):
        """Returns a page with a complete trace, and the trace of the server."""
        page = self.show("timeline")
        with page.expect_response("**/api/v1/trace*") as answer:
            page.get_by_label("How far back").select_option(seconds)
        page.wait_for_selector(".timeline .turn")
        return page, answer.value.json()

    def point(self, page, event, start, end):
        """Moves the pointer to an event of the first lane of interp:0 with the whole timeline visible."""
        lane, drawing = page.locator(".timeline .lane").first.bounding_box(), page.locator(".timeline").bounding_box()
        page.mouse.move(drawing["x"] + (event["ts"] + event["dur"] / 2 - start) / (end - start) * drawing["width"], lane["y"] + lane["height"] / 2)

    def test_events_are_those_of_the_trace(self):
        page, trace = self.show_trace("600")
        start, end = trace["otherData"]["from_us"], trace["otherData"]["now_us"]
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["ts"] + event["dur"] > start]
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
        self.assertEqual(names, set(page.locator(".timeline text.second").all_text_contents()) & names)
        page.locator(".numbers summary").click()
        self.assertEqual(min(300, len(spans)), page.locator(".numbers tbody tr").count())
        longest = max((event for event in spans if event["cat"] == "interp:0"), key=lambda event: event["dur"])
        self.point(page, longest, start, end)
        page.wait_for_selector(f".readout:has-text('interp:0 · user · at {(longest['ts'] - start) / 1e6:.6f}')")
        page.wait_for_selector(".timeline .mark", state="attached")

    def test_keys_move_and_scale_it(self):
        page, _ = self.show_trace("600")
        ticks = lambda: page.locator(".timeline text.second:has-text(' s')").all_text_contents()
        page.locator(".canvas").focus()
        for keys in (["+"], ["ArrowRight"], ["-"], ["+", "+"]):
            before = ticks()
            for key in keys:
                page.keyboard.press(key)
            page.wait_for_function("before => [...document.querySelectorAll('.timeline text.second')].map((each) => each.textContent).filter((each) => each.endsWith(' s')).join() !== before", arg=",".join(before))
        told = set()
        for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown"):
            page.keyboard.press(key)
            page.wait_for_selector(".timeline .mark", state="attached")
            told.add(page.locator("[aria-live] >> text=/ · at .* · takes /").text_content())
        self.assertEqual(2, len(told))
        page.keyboard.press("0")
        page.wait_for_selector(".timeline text:text-matches('^0(\\.0+)? s$')")

    def test_download(self):
        page, trace = self.show_trace("3600")
        with page.expect_download() as got:
            page.get_by_role("button", name="Download").click()
        self.assertEqual("trace.json", got.value.suggested_filename)
        self.assertEqual(trace, json.loads(pathlib.Path(got.value.path()).read_text()))

    def test_nothing_ran(self):
        page = self.show("timeline")
        page.route("**/api/v1/trace*", lambda route: route.fulfill(json={"displayTimeUnit": "ms", "traceEvents": [], "otherData": {"from_us": 0, "now_us": 1e7}}))
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_selector("text=Nothing ran in the last 10 s")


class Others(Scene):
    def test_model_with_numbers(self):
        page = self.show("models/double")
        page.get_by_label(re.compile("^x,")).fill("[[1, 2, 3, 4.5]]")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=Answered in")
        self.assertEqual(["2", "4", "6", "9"], page.locator("table:has-text('Index') tbody tr td:nth-child(2)").all_text_contents())
        page.get_by_label(re.compile("^x,")).fill("[[1, 2")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=x: this is no JSON")

    def test_broken_model_says_why(self):
        page = self.show("models")
        page.wait_for_selector("text=\"nodes\" is missing")

    def test_picture(self):
        page = self.show("models/colours")
        page.get_by_label(re.compile("^Picture")).set_input_files({"name": "orange.png", "mimeType": "image/png", "buffer": test_pictures.png(5, 3, test_pictures.ORANGE)})
        page.wait_for_function("() => document.querySelector('.preview').naturalWidth === 5")
        with page.expect_request("**/infer*") as asked:
            page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=Answered in")
        self.assertEqual(("POST", "image/png"), (asked.value.method, asked.value.headers["content-type"]))
        rows = page.locator("table:has(caption:text-is('y')) tbody tr").all_text_contents()
        self.assertEqual(["red250", "green120", "blue30"], rows)
        self.check_axe(page, "a picture")

    def writing(self):
        return any(slot["is_processing"] for slot in self.call("GET", "/slots?model=letters"))

    def test_text_that_is_stopped(self):
        page = self.show("models/letters")
        page.get_by_text("Options").click()
        page.get_by_label("Write").select_option("text")
        page.get_by_label("Tokens at most").fill("100000")
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Message").fill("hello")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelectorAll('.said')[1]?.textContent.length > 20")
        self.assertTrue(self.writing())
        page.get_by_role("button", name="Stop").click()
        page.wait_for_selector("text=stopped")
        deadline = time.monotonic() + 10
        while self.writing() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertFalse(self.writing())
        said = page.locator(".said").nth(1).text_content()
        self.assertRegex(said[:80], "^[a-z]*fghijklmnopqrstuvwxyzabcdefg")
        self.assertLess(len(said), 100000)
        page.reload()
        page.wait_for_selector(".said")
        self.assertEqual(said, page.locator(".said").nth(1).text_content())

    def test_histogram(self):
        page = self.show("data")
        page.get_by_role("button", name="Histogram of weights").click()
        page.wait_for_selector("section[aria-label='Histogram of weights']")
        page.locator("section[aria-label='Histogram of weights'] summary").click()
        counts = page.locator("section[aria-label='Histogram of weights'] tbody td:nth-child(2)").all_text_contents()
        self.assertEqual(32, sum(map(int, counts)))

    def test_keys_are_made_rotated_and_revoked(self):
        page = self.show("usage", self.admin)
        page.get_by_role("button", name="New key…").click()
        page.get_by_label("Name", exact=True).fill("carol")
        page.get_by_role("button", name="Make").click()
        secret = page.get_by_label("Secret", exact=True).text_content()
        self.assertEqual("carol", self.call("GET", "/api/v1/me", key=secret)["name"])
        for action in ("Rotate", "Revoke"):
            page.get_by_role("button", name=f"{action} carol").click()
            page.locator("dialog input").fill("carol")
            page.get_by_role("button", name=action, exact=True).click()
            page.locator("dialog").wait_for(state="detached")
        page.wait_for_selector("tr:has-text('carol') >> text=revoked")

    def test_who_used_the_most(self):
        page = self.show("usage", self.admin)
        page.wait_for_selector("text=user used the most")


if __name__ == "__main__":
    unittest.main()
