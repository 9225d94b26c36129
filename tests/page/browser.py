# SPDX-License-Identifier: MIT
"""A browser for tests of the page: Debian's Chromium, driven by Playwright from a separate virtual environment."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from served import ROOT, SERVER, Server

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = ROOT / "build" / "playwright"
CHROMIUM = pathlib.Path("/usr/bin/chromium")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 320, "height": 700}
# Policy violations that the browser itself reports.
WATCH = """
window.reports = [];
addEventListener("securitypolicyviolation", (event) => window.reports.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
window.longTasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.longTasks.push(entry.duration))).observe({entryTypes: ["longtask"]});
"""


def install():
    """Makes Playwright importable; the environment is made once.  Returns whether it is available."""
    done, wanted = FOLDER / "installed", (HERE / "requirements.txt").read_text() + sys.version
    if not done.exists() or done.read_text() != wanted:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], capture_output=True, check=False)
        if made.returncode != 0:
            return False
        got = subprocess.run([FOLDER / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "-r", HERE / "requirements.txt"],
                             capture_output=True, text=True, check=False)
        if got.returncode != 0:
            print(got.stderr[-1000:])
            return False
        done.write_text(wanted)
    sys.path.append(str(next((FOLDER / "lib").glob("python*/site-packages"))))
    return True


class BrowserCase(unittest.TestCase):
    """Tests with a browser. Errors, policy reports and requests to other hosts on any page fail the test."""

    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        if not CHROMIUM.exists():
            raise unittest.SkipTest("chromium is not installed")
        if not install():
            raise unittest.SkipTest("playwright is not here, and pip cannot get it")
        from playwright.sync_api import sync_playwright
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        cls.browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"])
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def serve(cls, *options):
        server = Server("--backends", "interp", *options)
        cls.addClassCleanup(server.stop)
        return server

    def open(self, url, key=None, viewport=None, scheme="light", expect=(), **options):
        """Opens a page.  `expect`: patterns of expected console messages."""
        context = self.browser.new_context(viewport=viewport or WIDE, color_scheme=scheme, reduced_motion="reduce", **options)
        self.addCleanup(context.close)
        context.add_init_script(WATCH)
        if key is not None:
            context.add_init_script(f"if (!sessionStorage.getItem('tested')) {{ sessionStorage.setItem('tested', 1); sessionStorage.setItem('beamline key', '{key}'); }}")
        page = context.new_page()
        page.set_default_timeout(10000)
        page.troubles, page.requests, page.expect = [], [], list(expect)
        origin = re.match(r"\w+://[^/]+", url)[0]
        page.on("console", lambda message: message.type == "error" and page.troubles.append(message.text))
        page.on("pageerror", lambda error: page.troubles.append(f"uncaught {error}"))

        def note(request):
            page.requests.append(request.url)
            if not request.url.startswith((origin, "data:", "blob:")):
                page.troubles.append(f"request to {request.url}")
        page.on("request", note)
        page.goto(url)
        self.addCleanup(self.check, page)
        return page

    def check(self, page):
        """Checks that no page had an error so far."""
        if page.is_closed():
            return
        reports = page.evaluate("window.reports")
        troubles = [each for each in page.troubles if not any(re.search(pattern, each) for pattern in page.expect)]
        self.assertEqual([], reports + troubles)

    def check_axe(self, page, name):
        """Checks the accessibility rules."""
        from axe_playwright_python.sync_playwright import Axe
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
        told = [f"{rule['id']}: {[node['target'] for node in rule['nodes']][:4]} {rule['nodes'][0].get('failureSummary', '')[:200]}" for rule in found.response["violations"]]
        self.assertEqual([], told, name)


class Keys:
    """A state folder with keys."""

    def __init__(self, case):
        self.folder = tempfile.TemporaryDirectory()
        case.addClassCleanup(self.folder.cleanup)

    def make(self, name, scopes, *options):
        done = subprocess.run([SERVER, "keys", "create", name, "--scopes", scopes, "--state", self.folder.name, *options], capture_output=True, text=True, check=True)
        return re.search(r"bl_\S+", done.stdout)[0]
