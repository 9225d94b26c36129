# SPDX-License-Identifier: MIT
"""Hot reload of models, and warm-up requests."""

import re
import shutil
import signal
import time
import unittest

from repository import ModelsTest, Repository, Server, document, elementwise, numbers
from test_sizes import slow

ROW = document(numbers("x", [1, 4], [1, 2, 3, 4]))
WARM = [{"name": "first", "batch_size": 2, "count": 3, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "random_data": True}}}]


class Changes(ModelsTest):
    ARGS = ("--model-poll", "0.1")

    @classmethod
    def fill(cls, repository):
        repository.put("times", 1, elementwise("mul", 2))
        repository.put("warm", 1, elementwise("mul", 2), model_warmup=WARM)

    def answer(self, model):
        answer = self.infer(model, ROW)
        return answer.json["outputs"][0]["data"][0] if answer.status == 200 else answer.status

    def comes(self, model, want, seconds=15):
        end = time.monotonic() + seconds
        while (got := self.answer(model)) != want:
            self.assertLess(time.monotonic(), end, f"{model} gives {got}, and not {want}")
            time.sleep(0.02)

    def test_files_that_change(self):
        self.comes("times", 2)
        self.repository.put("times", 1, elementwise("mul", 3))
        self.comes("times", 3)
        self.repository.put("times", 2, elementwise("mul", 4))
        self.comes("times", 4)
        self.repository.put("times", 2, elementwise("no_such_op", 4))
        end = time.monotonic() + 15
        while "no_such_op" not in self.index()["times", "2"][1]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual(4, self.answer("times"))
        shutil.rmtree(self.repository.path / "times" / "2")
        self.comes("times", 3)

    def test_models_that_come_and_go(self):
        self.repository.put("new", 1, elementwise("mul", 7))
        self.comes("new", 7)
        shutil.rmtree(self.repository.path / "new")
        self.comes("new", 404)
        self.assertEqual("UNAVAILABLE", self.index()["new", "1"][0])

    def test_unloaded_stays_unloaded(self):
        self.repository.put("rest", 1, elementwise("mul", 7))
        self.comes("rest", 7)
        self.ok(self.unload("rest"))
        self.repository.put("rest", 1, elementwise("mul", 8))
        time.sleep(0.6)
        self.assertEqual(404, self.answer("rest"))
        self.ok(self.load("rest"))
        self.assertEqual(8, self.answer("rest"))

    def test_sighup_looks_at_once(self):
        repository = Repository()
        self.addCleanup(repository.remove)
        repository.put("times", 1, elementwise("mul", 2))
        server = Server("--backends", "interp", "--models", str(repository.path), "--model-poll", "0")
        self.addCleanup(server.stop)

        def comes(want):
            end = time.monotonic() + 15
            while True:
                answer = server.call("POST", "/v2/models/times/infer", ROW)
                if answer.status == 200 and answer.json["outputs"][0]["data"][0] == want:
                    return
                self.assertLess(time.monotonic(), end, answer.body)
                time.sleep(0.02)

        comes(2)
        repository.put("times", 1, elementwise("mul", 3))
        time.sleep(0.3)
        comes(2)  # polling is off
        server.process.send_signal(signal.SIGHUP)
        comes(3)

    def test_warm_up(self):
        """Warm-up runs do not count as requests of clients; an invalid warm-up request fails the load."""
        stats = self.ok(self.call("GET", "/v2/models/warm/stats")).json["model_stats"][0]
        self.assertEqual(0, stats["execution_count"])
        self.assertEqual(2, self.answer("warm"))
        for change, word in (({"batch_size": 100}, "size 100"), ({"inputs": {}}, 'no input "x"'),
                             ({"inputs": {"x": {"data_type": "TYPE_FP32", "dims": [5], "zero_data": True}}}, "size 5"),
                             ({"inputs": {"x": {"data_type": "TYPE_INT8", "dims": [4], "zero_data": True}}}, "another data type"),
                             ({"inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4]}}}, "zero_data")):
            self.repository.put("cold", 1, elementwise("mul", 2), model_warmup=[{**WARM[0], **change}])
            self.refused(400, self.load("cold"), word)
            self.assertEqual(404, self.answer("cold"))


class Broken(ModelsTest):
    """A version that cannot be loaded is tried once per change of its files, and the index has the reason."""

    ARGS = ("--model-poll", "0.05")
    BAD = "expected an integer"

    @classmethod
    def fill(cls, repository):
        repository.put("bad", 1, elementwise("mul", 2), max_batch_size="x")
        repository.put("fine", 1, elementwise("mul", 2))
        repository.put("large", 1, elementwise("mul", 2))
        (repository.path / "large" / "config.json").write_text(" " * (5 << 20))
        (repository.path / "empty" / "latest").mkdir(parents=True)

    def reason(self, model, version, word):
        """Returns the row of the model once the reason contains |word|."""
        end = time.monotonic() + 30
        while word not in (row := self.index().get((model, version), ("", "")))[1]:
            self.assertLess(time.monotonic(), end, f"{model} {version}: {row}")
            time.sleep(0.02)
        return row

    def polls(self, marker):
        """Waits for several polls of the folder: adds models one after the other, and waits until each is served."""
        for number in range(3):
            self.repository.put(f"{marker}-{number}", 1, elementwise("mul", 2))
            self.server.wait_log(lambda lines: any(f"model {marker}-{number}, version 1 is ready" in line for line in lines), 30)
            self.assertEqual("READY", self.index()[f"{marker}-{number}", "1"][0])
            said = [line for line in self.server.log_text().splitlines() if f"model {marker}-{number}: " in line]
            self.assertEqual(1, len(said), said)
            self.assertIn("found in the folder of models", said[0])

    def test_at_the_start(self):
        self.assertEqual("UNAVAILABLE", self.reason("bad", None, self.BAD)[0])
        self.assertEqual("UNAVAILABLE", self.reason("large", None, "the limit is")[0])
        self.reason("empty", None, "version")
        self.refused(404, self.infer("bad", ROW), "no version that is ready")
        self.assertEqual(1, sum("model bad: " in line for line in self.server.log_text().splitlines()))
        self.assertRegex(self.server.log_text(), r"model fine, version 1 is ready, loaded in [0-9.]+ s \([1-9] of [1-9] models\)")
        self.polls("start")
        lines = self.server.log_text().splitlines()
        for model in "bad", "large", "empty":
            told = [line for line in lines if f"model {model}: " in line]
            self.assertEqual(1, len(told), told)
        for model in "bad", "large":
            self.repository.put(model, 1, elementwise("mul", 2), max_batch_size=4)
            self.assertEqual("READY", self.reason_gone(model, "1"))
            self.ok(self.infer(model, ROW))
            self.assertNotIn((model, None), self.index())

    def reason_gone(self, model, version):
        end = time.monotonic() + 30
        while (row := self.index().get((model, version), ("", "none")))[1] != "" or row[0] == "LOADING":
            self.assertLess(time.monotonic(), end, f"{model} {version}: {row}")
            time.sleep(0.02)
        return row[0]

    def test_of_a_model_that_serves(self):
        config = self.repository.path / "fine" / "config.json"
        config.with_suffix(".new").write_text('{"max_batch_size": "x"}')
        config.with_suffix(".new").rename(config)
        self.assertEqual("READY", self.reason("fine", "1", self.BAD)[0])
        self.ok(self.infer("fine", ROW))
        self.polls("serves")
        self.assertEqual(1, sum("model fine: its files changed" in line for line in self.server.log_text().splitlines()))
        config.unlink()
        self.assertEqual("READY", self.reason_gone("fine", "1"))
        self.refused(400, self.load("fine", config='{"max_batch_size": "y"}'), self.BAD)
        self.assertIn(self.BAD, self.index()["fine", "1"][1])
        self.ok(self.load("fine"))
        self.assertEqual(("READY", ""), self.index()["fine", "1"])

    def test_that_goes(self):
        self.repository.put("gone", 1, elementwise("mul", 2), max_batch_size="x")
        self.reason("gone", None, self.BAD)
        shutil.rmtree(self.repository.path / "gone")
        self.server.wait_log(lambda lines: any("model gone: its folder was removed" in line for line in lines), 30)
        self.refused(404, self.infer("gone", ROW), "there is no model")
        self.assertNotIn(("gone", None), self.index())


class WhileItIsLoaded(ModelsTest):
    """Requests during the load, at the start and later: 503 with Retry-After, so that `curl --retry` succeeds."""

    ARGS = ("--model-poll", "0.1")
    LONG = [{"name": "long", "batch_size": 1, "count": 300, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "random_data": True}}}]

    @classmethod
    def fill(cls, repository):
        repository.put("heavy", 1, slow(), model_warmup=cls.LONG)

    @classmethod
    def wait_ready(cls, server=None):
        pass

    def statuses(self, model):
        """Returns the statuses of consecutive requests until one succeeds."""
        found, end = [], time.monotonic() + 120
        while 200 not in found and time.monotonic() < end:
            answer = self.infer(model, ROW)
            if answer.status == 503:
                self.assertEqual("1", answer.headers["retry-after"])
                self.assertIn("being loaded", answer.json["error"])
            found.append(answer.status)
        return found

    def test_at_the_start_and_later(self):
        self.assertEqual({503, 200}, set(self.statuses("heavy")))
        self.repository.put("late", 1, slow(), model_warmup=self.LONG)
        found = self.statuses("late")
        self.assertEqual({404, 503, 200}, set(found))
        self.assertNotIn(404, found[found.index(503):])

    def test_ready_is_what_the_metric_says(self):
        server, seen, end = self.start(), [], time.monotonic() + 120
        self.addCleanup(server.stop)
        while seen.count(200) < 1 and time.monotonic() < end:
            before = server.call("GET", "/v2/health/ready").status
            told = re.search(rb"^beamline_ready (\d)$", server.call("GET", "/metrics").body, re.M)[1]
            if server.call("GET", "/v2/health/ready").status == before:
                self.assertEqual({200: b"1", 503: b"0"}[before], told)
                seen.append(before)
        self.assertEqual({503, 200}, set(seen))


if __name__ == "__main__":
    unittest.main()
