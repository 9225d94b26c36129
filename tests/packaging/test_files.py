# SPDX-License-Identifier: MIT
"""Checks of the systemd unit and of the packaging files that need no build; `packaging/deb --check` builds and inspects the
package."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import PROGRAM, ROOT, Server

PACKAGING = pathlib.Path(ROOT, "packaging")
MOST_EXPOSED = 30  # tenths of the score of systemd-analyze, whose maximum is 100


def listed(kind):
    """Returns the packages of a kind in tools/packages."""
    rows = [line.split() for line in pathlib.Path(ROOT, "tools/packages").read_text().splitlines() if not line.startswith("#")]
    return {row[1] for row in rows if row[0] == kind}


def directives(text):
    found = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


class Unit(unittest.TestCase):
    def setUp(self):
        self.text = (PACKAGING / "beamline.service").read_text()
        self.found = directives(self.text)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_it_is_hardened(self):
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", PACKAGING / "beamline.service"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout[-3000:] + done.stderr)
        self.assertLess(float(re.search(r"exposure level for beamline.service: ([\d.]+)", done.stdout)[1]), MOST_EXPOSED / 10)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder, "beamline.service")
            unit.write_text(self.text.replace("/usr/bin/beamline", PROGRAM).replace("Documentation=man:beamline(1)\n", ""))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))

    def test_it_fits_the_server(self):
        self.assertEqual(["notify"], self.found["Type"])
        self.assertEqual(["/bin/kill -HUP $MAINPID"], self.found["ExecReload"])
        self.assertEqual(["/usr/bin/beamline serve --config /etc/beamline.conf"], self.found["ExecStart"])
        self.assertIn("BEAMLINE_CACHE=/var/cache/beamline", self.found["Environment"])
        user = (PACKAGING / "beamline.sysusers").read_text().split()[1]
        self.assertEqual([[user], [user]], [self.found["User"], self.found["Group"]])

    def test_the_server_starts_under_it_as_far_as_one_can_have_it_here(self):
        """Starts the server with the unit's configuration and environment, with all settings in effect."""
        text = re.sub(r"(?m)^#(?=[a-z-]+ = )", "", (PACKAGING / "beamline.conf").read_text())
        self.assertGreaterEqual(text.count(" = "), 7)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "beamline.conf")
            path.write_text(text)
            environment = dict(item.split("=", 1) for item in self.found["Environment"])
            environment = {name: value.replace("/var/cache/beamline", folder + "/cache") for name, value in environment.items()}
            server = Server("--config", str(path), "--backends", "interp", env={**environment, "STATE_DIRECTORY": folder + "/state"})
            self.assertEqual(200, server.call("GET", "/v2/health/ready").status)
            self.assertEqual(0, server.stop())


class Package(unittest.TestCase):
    def test_what_it_installs_is_there(self):
        for line in (PACKAGING / "debian/beamline.install").read_text().splitlines() + (PACKAGING / "debian/beamline.docs").read_text().splitlines():
            self.assertTrue(pathlib.Path(ROOT, line.split()[0]).exists(), line)
        self.assertIn("install_man('docs/beamline.1')", pathlib.Path(ROOT, "meson.build").read_text())

    def test_versions_agree(self):
        version = re.search(r"version: '([\d.]+)'", pathlib.Path(ROOT, "meson.build").read_text())[1]
        self.assertEqual(version, subprocess.run([PROGRAM, "version"], capture_output=True, text=True, check=True).stdout.split()[1])
        self.assertEqual(version, re.match(r"beamline \(([\d.]+)\)", (PACKAGING / "debian/changelog").read_text())[1])

    def test_the_licence_is_the_trees(self):
        words = pathlib.Path(ROOT, "LICENSE").read_text().split("\n\n", 2)[2].split()
        copied = [word for word in (PACKAGING / "debian/copyright").read_text().split("License: MIT", 1)[1].split() if word != "."]
        self.assertEqual(words, copied)

    def test_the_script_is_a_script(self):
        for name in ("deb", "test", "debian/rules"):
            self.assertTrue((PACKAGING / name).stat().st_mode & 0o111, name)
        for name in ("deb", "test"):
            subprocess.run(["bash", "-n", PACKAGING / name], check=True)


class Container(unittest.TestCase):
    def setUp(self):
        self.text = (PACKAGING / "Containerfile").read_text()
        self.stages = re.split(r"(?m)^FROM ", self.text)[1:]

    def installed(self, stage):
        return set(re.search(r"--no-install-recommends \\\n(.*?)\n\s+&&", stage, re.S)[1].replace("\\", "").split())

    def test_it_builds_with_what_the_build_needs(self):
        self.assertEqual(listed("build"), self.installed(self.stages[0]))

    def test_it_runs_with_what_the_program_needs(self):
        libraries = re.findall(r"NEEDED.*\[(.*?)\]", subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout)
        self.assertGreater(len(libraries), 4)
        base = {"libc6", "libgcc-s1", "libstdc++6"}  # libraries of debian:12-slim, or needed by any driver
        have = self.installed(self.stages[1]) | base
        for library in libraries:
            owners = subprocess.run(["dpkg", "-S", library], capture_output=True, text=True, check=False).stdout
            self.assertTrue(have & set(re.findall(r"^([^\s:]+)[:\w]*: ", owners, re.M)), f"{library} of\n{owners}")

    def test_its_commands_are_known(self):
        """Checks the directives, since Debian has no linter for these files."""
        body = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", self.text))
        for line in body.splitlines():
            if line.strip():
                self.assertRegex(line, r"^(FROM|RUN|WORKDIR|COPY|USER|ENV|VOLUME|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD) \S")
            if line.startswith("RUN apt-get"):
                self.assertIn("rm -rf /var/lib/apt/lists/*", line)
            if line.startswith("RUN"):
                done = subprocess.run(["sh", "-n", "-c", line[4:]], capture_output=True, text=True, check=False)
                self.assertEqual("", done.stderr, line)
        self.assertNotIn(":latest", self.text)
        self.assertLess(self.stages[1].index("USER beamline"), self.stages[1].index("ENTRYPOINT"))
        for source in re.findall(r"(?m)^FROM (\S+)", self.text):
            self.assertRegex(source, r"^docker\.io/library/debian:12")

    def test_its_environment_is_settings(self):
        flags = set(re.findall(r'BL_SETTING\(\w+, "([\w-]+)"', pathlib.Path(ROOT, "server/ops/settings.def").read_text()))
        for name in re.findall(r"\bBEAMLINE_([A-Z_]+)=", self.stages[1]):
            self.assertIn(name.lower().replace("_", "-"), flags | {"cache"})


if __name__ == "__main__":
    unittest.main()
