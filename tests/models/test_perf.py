# SPDX-License-Identifier: MIT
"""perf_analyzer, Triton's load generator: reads metadata, configuration and statistics, and sends requests at full speed."""

import ctypes.util
import os
import re
import subprocess
import unittest

from environment import environment
from repository import ModelsTest, elementwise


class Perf(ModelsTest):
    @classmethod
    def fill(cls, repository):
        repository.put("double", 1, elementwise("mul", 2))

    def test_it_measures(self):
        folder = environment("requirements-perf.txt")
        if folder is None:
            self.skipTest("pip cannot get perf_analyzer")
        if ctypes.util.find_library("b64") is None and not os.path.exists("/usr/lib/x86_64-linux-gnu/libb64.so.0d"):
            self.skipTest("libb64 is not installed")
        program, cuda = folder / "bin" / "perf_analyzer", next(folder.rglob("libcudart.so.12")).parent
        done = subprocess.run([program, "-m", "double", "-u", f"127.0.0.1:{self.server.port}", "-i", "http", "--concurrency-range", "4", "--measurement-mode",
                               "count_windows", "--measurement-request-count", "200", "--stability-percentage", "99", "--max-trials", "3"],
                              capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "LD_LIBRARY_PATH": str(cuda)})
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for line in (r"Throughput: [1-9][0-9.]* infer/sec", r"Successful request count: [1-9]", r"Avg request latency: [1-9]\d* usec \(overhead"):
            self.assertRegex(done.stdout, line)
        row = self.ok(self.call("GET", "/v2/models/double/stats")).json["model_stats"][0]
        self.assertGreaterEqual(row["inference_count"], int(re.search(r"Inference count: (\d+)", done.stdout)[1]))
        self.assertEqual(0, row["inference_stats"]["fail"]["count"])


if __name__ == "__main__":
    unittest.main()
