# SPDX-License-Identifier: MIT
"""/metrics, and the dashboard and alerts based on it."""

import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import JSON, ROOT, Server, ServerTest, counter, graph

PROMTOOL = shutil.which("promtool", path=f"{ROOT}/build/unpacked/prometheus/usr/bin") or shutil.which("promtool")
PHASES = ("request", "receive", "handle", "decode", "queue", "compile", "compute", "copy", "encode", "send")
SAMPLE = re.compile(r'^(?P<name>[a-z_]+)(\{(?P<labels>.*)\})? (?P<value>\S+)$')
RUN = (("method", "POST"), ("route", "/api/v1/run"))


def parse(text):
    """Returns {(name, labels): value}, and checks that each sample follows its HELP and TYPE."""
    samples, family = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family, line
        else:
            found = SAMPLE.match(line)
            assert found, line
            assert found["name"] in (family, family + "_bucket", family + "_sum", family + "_count"), line
            key = found["name"], tuple(re.findall(r'(\w+)="([^"]*)"', found["labels"] or ""))
            assert key not in samples, line
            samples[key] = float(found["value"])
    return samples


class Metrics(ServerTest):
    ARGS = ("--backends", "interp")

    def text(self):
        """Returns the metrics after all earlier requests are counted, which happens shortly after their answers."""
        self.assertEqual(1, self.server.settled("requests_active", 1))
        answer = self.ok(self.call("GET", "/metrics"))
        self.assertEqual("text/plain; version=0.0.4; charset=utf-8", answer.type)
        return answer.body.decode()

    def use_all(self):
        """Uses every feature once, so that each metric family has samples."""
        self.ok(self.call("POST", "/api/v1/run", graph(nodes=[{"id": "y", "op": "mul", "in": ["x", time.monotonic()]}])))
        self.assertIn(self.call("PUT", "/api/v1/programs/c", counter()).status, (200, 201))
        self.ok(self.call("POST", "/api/v1/programs/c/run", {"steps": 3}))
        self.assertEqual(404, self.call("GET", "/nothing").status)

    @unittest.skipUnless(PROMTOOL, "promtool is not here: ./check unpacks it where there is a network")
    def test_promtool_finds_nothing(self):
        self.use_all()
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text().encode(), capture_output=True, check=False)
        self.assertEqual((0, ""), (done.returncode, (done.stdout + done.stderr).decode()))

    def test_every_phase_of_a_run_is_counted_once(self):
        self.ok(self.call("POST", "/api/v1/run", graph()))
        before = parse(self.text())
        for _ in range(5):
            stats = self.ok(self.call("POST", "/api/v1/run", graph())).json["stats"]
        self.assertEqual("cached", stats["plan"])
        after = parse(self.text())
        for phase in PHASES:
            name = f"beamline_{phase}_seconds"
            more = after.get((name + "_count", RUN), 0) - before.get((name + "_count", RUN), 0)
            self.assertEqual(0 if phase in ("handle", "compile") else 5, more, phase)
            if more:
                bounds = [(dict(key[1])["le"], value) for key, value in after.items() if key[0] == name + "_bucket" and key[1][:2] == RUN]
                self.assertEqual(25, len(bounds))
                values = [value for _, value in bounds]
                self.assertEqual(sorted(values), values)
                self.assertEqual(("+Inf", after[name + "_count", RUN]), bounds[-1])
                self.assertGreater(after[name + "_sum", RUN], before[name + "_sum", RUN])
        self.assertGreaterEqual(after["beamline_request_seconds_sum", RUN], after["beamline_compute_seconds_sum", RUN])
        answers = ("beamline_requests_total", RUN + (("code", "200"),))
        self.assertEqual(5, after[answers] - before[answers])

    def test_a_compiled_run_is_in_the_histogram_of_compiling(self):
        key = ("beamline_compile_seconds_count", RUN)
        before = parse(self.text()).get(key, 0)
        stats = self.ok(self.call("POST", "/api/v1/run", graph(nodes=[{"id": "y", "op": "mul", "in": ["x", time.monotonic()]}]))).json["stats"]
        self.assertEqual(("compiled", before + 1), (stats["plan"], parse(self.text())[key]))

    def test_no_request_makes_a_series_of_its_own(self):
        def series():
            return {key for key in parse(self.text()) if dict(key[1]).get("route") not in (None, "/metrics", "none")}

        self.use_all()
        self.call("GET", "/api/v1/programs/x")
        before = series()
        for i in range(20):
            self.call("GET", f"/api/v1/programs/name{i}")
            self.call("GET", f"/nothing/{i}")
            self.call("POST", f"/api/v1/programs/name{i}/run", {"steps": 1})
        new = {dict(key[1])["route"] for key in series() - before}
        self.assertLessEqual(new, {"/api/v1/programs/{name}/run"})
        self.assertLess(len(self.text()), 1 << 20)

    def test_the_process(self):
        pid = self.server.process.pid
        found = parse(self.text())
        self.assertAlmostEqual(self.server.rss(), found["process_resident_memory_bytes", ()], delta=16 << 20)
        self.assertEqual(len(list(pathlib.Path(f"/proc/{pid}/task").iterdir())), found["process_threads", ()])
        self.assertAlmostEqual(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())), found["process_open_fds", ()], delta=2)
        self.assertAlmostEqual(time.time(), found["process_start_time_seconds", ()], delta=300)
        self.assertLess(found["process_start_time_seconds", ()], time.time() + 1)
        self.assertGreater(found["process_cpu_seconds_total", ()], 0)
        self.assertEqual(1, found["beamline_ready", ()])
        version = self.call("GET", "/v2").json["version"]
        self.assertEqual(1, found["beamline_build_info", (("version", version),)])
        device = (("device", "interp:0"),)
        self.assertLessEqual(found["beamline_device_pool_bytes", device], found["beamline_device_bytes", device])
        self.assertLessEqual(found["beamline_device_bytes", device], found["beamline_device_limit_bytes", device])


def expressions(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", re.fullmatch(r"label_values\((.*), \w+\)", variable["query"])[1]


class Drawn(ServerTest):
    """packaging/grafana-dashboard.json and packaging/prometheus-alerts.yml."""

    ARGS = ("--backends", "interp")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.server.call("GET", "/metrics").body.decode()
        cls.families = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.M))
        cls.dashboard = json.loads(pathlib.Path(ROOT, "packaging/grafana-dashboard.json").read_text())
        cls.alerts = pathlib.Path(ROOT, "packaging/prometheus-alerts.yml").read_text()

    def exported(self):
        names = set()
        for name, kind in self.families.items():
            names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
        return names

    def test_names_are_exported(self):
        asked = list(expressions(self.dashboard)) + [("alerts", self.alerts)]
        self.assertGreater(len(asked), 12)
        for where, text in asked:
            names = set(re.findall(r"\b(?:beamline|process)_[a-z_]+\b", text))
            self.assertTrue(names, where)
            self.assertLessEqual(names, self.exported(), where)

    def test_labels_and_functions_fit(self):
        for where, text in list(expressions(self.dashboard)):
            for name in re.findall(r"rate\((\w+)", text):
                self.assertNotEqual("gauge", self.families.get(name), where)
            for labels in re.findall(r"by \(([^)]*)\)", text):
                self.assertLessEqual(set(labels.split(", ")), {"le", "route", "method", "code", "device", "model", "version", "owner"}, where)

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    @unittest.skipUnless(PROMTOOL, "promtool is not here: ./check unpacks it where there is a network")
    def test_prometheus_parses_them(self):
        rules = [{"record": f"drawn:{i}", "expr": re.sub(r"\$__rate_interval", "5m", re.sub(r"\$\{?route\}?", ".*", text))}
                 for i, (_, text) in enumerate(expressions(self.dashboard))]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "drawn", "rules": rules}]}, file)  # JSON is YAML
            file.flush()
            for name, count in ((file.name, len(rules)), (ROOT + "/packaging/prometheus-alerts.yml", self.alerts.count("- alert:"))):
                done = subprocess.run([PROMTOOL, "check", "rules", name], capture_output=True, text=True, check=False)
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                self.assertIn(f"{count} rules found", done.stdout)


if __name__ == "__main__":
    unittest.main()
