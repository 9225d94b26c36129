# SPDX-License-Identifier: MIT
"""The official cases of each operator from the onnx package, on the server: all on the interpreter, some on the default
device."""
import collections
import concurrent.futures
import os
import re
import threading
import unittest
import warnings

import hosting
import numpy as np
from skips import REASONS

import served

warnings.filterwarnings("ignore")
SAMPLE = 40  # number of cases for each driver
ALL = os.environ.get("BEAMLINE_TEST_ALL", "") not in ("", "0")  # runs all cases on the drivers


def collect():
    from onnx.backend.test.case.node import collect_testcases
    return {case.name: case for case in collect_testcases(None)}


def why_skipped(name):
    return next((reason for pattern, reason in REASONS if re.fullmatch(pattern, name)), None)


def tolerance(case, array):
    """The case's own tolerance; for 16 bits and less, a bound of the rounding errors."""
    return max(case.rtol, {"float16": 2e-3, "bfloat16": 2.0**-6}.get(array.dtype.name, 0.0))


def differs(case, got, wanted):
    """Returns the error of an output, or None."""
    wanted = hosting.to_numpy(wanted)
    wanted = wanted.astype(hosting.WIDER.get(wanted.dtype.name, wanted.dtype))
    if wanted.dtype.kind in "OUS":
        return None if (got.shape, got.tolist()) == (wanted.shape, wanted.tolist()) else f"{got.tolist()}, not {wanted.tolist()}"
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if got.dtype.kind in "iub":
        return None if np.array_equal(got, wanted) else f"{got.ravel()[:8]}, not {wanted.ravel()[:8]}"
    close = np.allclose(got.astype(float), wanted.astype(float), rtol=tolerance(case, got), atol=case.atol, equal_nan=True)
    return None if close else f"{got.ravel()[:8]}, not {wanted.ravel()[:8]}"


def run_case(host, case):
    """Returns the error of a case, or None."""
    for inputs, outputs in case.data_sets:
        try:
            got = hosting.put_and_run(host, case.model, inputs)
        except hosting.Refused as refused:
            return f"refused: {refused}"
        except (ValueError, TypeError) as problem:  # inputs that are no arrays
            return f"not to be sent: {problem}"
        wrong = [differs(case, *pair) for pair in zip(got, outputs, strict=True)]
        if any(wrong):
            return next(filter(None, wrong))
    return None


class Nodes(served.ServedCase):
    device = "interp:0"

    @classmethod
    def setUpClass(cls):
        cls.options = ("--device", cls.device, "--log-level", "error")
        super().setUpClass()
        cls.cases = collect()

    def check(self, cases):
        """Returns {name: error} of the failed cases."""
        here = threading.local()

        def one(case):
            if not hasattr(here, "host"):
                here.host = hosting.Host(self.server.port, f"m{threading.get_ident()}")
            wrong = run_case(here.host, case)
            if wrong and wrong.startswith("not to be sent"):
                here.host.close()
            return wrong

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = dict(zip((case.name for case in cases), pool.map(one, cases), strict=True))
        return {name: wrong for name, wrong in found.items() if wrong}

    def test_every_case_passes_or_has_a_reason(self):
        run = [case for name, case in self.cases.items() if why_skipped(name) is None]
        wrong = self.check(run)
        print(f"onnx: {len(run) - len(wrong)} of {len(self.cases)} official cases pass, {len(self.cases) - len(run)} are skipped", flush=True)
        self.assertEqual({}, wrong)

    def test_what_is_skipped_would_fail(self):
        skipped = [case for name, case in self.cases.items() if why_skipped(name)]
        wrong = self.check(skipped)
        for reason in dict.fromkeys(reason for _, reason in REASONS):
            names = [case.name for case in skipped if why_skipped(case.name) == reason]
            print(f"onnx: skipped, {reason}: {' '.join(names)}", flush=True)
        random = {case.name for case in skipped if why_skipped(case.name) == "other random numbers"}
        self.assertEqual(set(), {case.name for case in skipped} - set(wrong) - random)

    def test_the_page_counts_them(self):
        page = (served.ROOT / "docs" / "onnx.md").read_text()
        why = collections.Counter(why_skipped(name) for name in self.cases)
        self.assertIn(f"all of them unchanged; {why.pop(None):,} pass", page)
        self.assertEqual([], [reason for reason, count in why.items() if f"| {reason} | {count} |" not in page])

    def test_every_pattern_names_a_case(self):
        self.assertEqual([], [pattern for pattern, _ in REASONS if not any(re.fullmatch(pattern, name) for name in self.cases)])


class OnOpencl(Nodes):
    device = "opencl:0"

    def test_every_case_passes_or_has_a_reason(self):
        run = [case for name, case in self.cases.items() if why_skipped(name) is None and (ALL or not name.endswith("_expanded"))]
        self.assertEqual({}, self.check(run if ALL else run[::len(run) // SAMPLE]))

    test_what_is_skipped_would_fail = test_every_pattern_names_a_case = test_the_page_counts_them = None


class OnVulkan(OnOpencl):
    device = "vulkan:0"


if __name__ == "__main__":
    unittest.main()
