# SPDX-License-Identifier: MIT
"""Dry runs: the estimated cost of a request."""

import time
import unittest

from fixture import counter
from test_keys import KeyedCase
from test_openapi import check


def product(**members):
    """Returns the product of a held square tensor with itself, and a softmax."""
    return {"inputs": {"a": {"tensor": "a"}}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "a"]}, {"id": "z", "op": "softmax", "in": ["y"], "attrs": {"axis": 1}}],
            "outputs": ["z"], **members}


class DryRun(KeyedCase):
    ARGS = ("--kernel-db", "none")  # no results of earlier searches
    KEYS = {"me": ("run",), "spent": ("run", "--device-seconds", "0"), "root": ("admin,run",)}

    def setUp(self):
        self.api = self.server.call("GET", "/openapi.json").json
        for who in ("me", "spent"):
            self.ok(self.call(who, "PUT", "/api/v1/tensors/a?dtype=float32&shape=64,64", bytes(4 * 64 * 64), {"content-type": "application/octet-stream"}), 201)

    def cost(self, who, path, body):
        answer = self.ok(self.call(who, "POST", path, body)).json
        self.assertEqual([], check(self.api["components"]["schemas"]["Cost"], answer, self.api))
        return answer

    def test_a_graph(self):
        before = self.call("me", "GET", "/api/v1/usage").json["usage"]
        cost = self.cost("me", "/api/v1/run", product(dry_run=True, keep={"k": "y"}))
        self.assertEqual("compiled", cost["plan"])
        self.assertGreaterEqual(cost["ops"], 2 * 64**3)
        self.assertLess(cost["ops"], 4 * 64**3)
        self.assertGreaterEqual(cost["bytes"], 3 * 4 * 64 * 64)
        self.assertEqual((4 * 64 * 64, 2 * 4 * 64 * 64), (cost["input_bytes"], cost["output_bytes"]))
        self.assertEqual(cost["memory_bytes"], cost["input_bytes"] + cost["output_bytes"] + cost["peak_bytes"] + cost["state_bytes"])
        self.assertEqual(cost["kernels"], sum(one["launches"] for one in cost["launched"] if not one["helper"]))
        self.assertEqual(cost["ops"], sum(one["launches"] * one["ops"] for one in cost["launched"]))
        self.assertIn(f"scheduled {cost['kernels']} kernels", cost["schedule"])
        self.assertGreater(cost["seconds"], 0)
        self.assertEqual("cached", self.cost("me", "/api/v1/run", product(dry_run=True, keep={"k": "y"}))["plan"])
        # a dry run executes nothing
        self.assertEqual(404, self.call("me", "GET", "/api/v1/tensors/k").status)
        after = self.call("me", "GET", "/api/v1/usage").json["usage"]
        self.assertEqual([row["device_seconds"] for row in before], [row["device_seconds"] for row in after])
        # the estimates equal the statistics of the run
        stats = self.ok(self.call("me", "POST", "/api/v1/run", product())).json["stats"]
        again = self.cost("me", "/api/v1/run", product(dry_run=True))
        self.assertEqual([stats[name] for name in ("ops", "bytes", "kernels", "peak_bytes")], [again[name] for name in ("ops", "bytes", "kernels", "peak_bytes")])

    def test_a_program(self):
        self.ok(self.call("me", "PUT", "/api/v1/programs/c", counter(state={"n": [0.0] * 256})), 201)
        cost = self.cost("me", "/api/v1/programs/c/run", {"steps": 1000, "dry_run": True})
        self.assertEqual((1000, 2 * 1024, 1024), (cost["steps"], cost["state_bytes"], cost["output_bytes"]))
        self.assertEqual([0.0] * 256, self.call("me", "GET", "/api/v1/programs/c/state").json["state"]["n"]["data"])

    def test_over_quota_one_may_still_ask(self):
        self.refused(429, self.call("spent", "POST", "/api/v1/run", product()))
        self.cost("spent", "/api/v1/run", product(dry_run=True))

    def test_errors_are_those_of_the_run(self):
        self.refused(422, self.call("me", "POST", "/api/v1/run", {"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "nothing", "in": ["x"]}], "outputs": ["y"], "dry_run": True}))
        self.refused(400, self.call("me", "POST", "/api/v1/run", product(dry_run=1)))

    def test_searches_and_reports_are_bounded_by_scope(self):
        for member, most in (("beam", 4), ("debug", 5)):
            self.ok(self.call("me", "POST", "/api/v1/run", product(dry_run=True, **{member: most})))
            self.refused(403, self.call("me", "POST", "/api/v1/run", product(dry_run=True, **{member: most + 1})), "admin")
        self.ok(self.call("me", "PUT", "/api/v1/programs/searched", counter()), 201)
        for method, path, document in (("PUT", "/api/v1/programs/put", counter()), ("POST", "/api/v1/programs/searched/run", {})):
            self.assertIn(self.call("me", method, path, {**document, "beam": 4}).status, (200, 201), path)
            self.refused(403, self.call("me", method, path, {**document, "beam": 5}), "admin")
        self.ok(self.call("root", "PUT", "/api/v1/tensors/a", [[1.0, 2.0], [3.0, 4.0]]), 201)
        self.ok(self.call("root", "POST", "/api/v1/run", product(dry_run=True, debug=7)))

    def spends(self, method, path, body, least=0):
        """Returns the device seconds charged to the key |spent| for a call; waits for the charge, at |least| this much, which
        follows the answer."""
        def used():
            rows = self.call("spent", "GET", "/api/v1/usage").json["usage"]
            return rows[0]["device_seconds"] if rows else 0
        self.call("root", "PUT", "/api/v1/keys/spent", {"quotas": {"device_seconds": 1000}})
        try:
            before, end = used(), time.monotonic() + 20
            self.assertIn(self.call("spent", method, path, body).status, (200, 201))
            seen = [used()]
            while (seen[-1] - before < least or len(seen) < 20 or seen[-1] != seen[-20]) and time.monotonic() < end:  # the charge may also arrive in parts
                time.sleep(0.02)
                seen.append(used())
            self.assertGreaterEqual(seen[-1] - before, least)
            return seen[-1] - before
        finally:
            self.call("root", "PUT", "/api/v1/keys/spent", {"quotas": {"device_seconds": 0}})

    def test_a_search_is_charged_to_who_asks(self):
        self.spends("POST", "/api/v1/run", product(beam=1, outputs=["y", "z"]), 0.2)  # candidates are compiled and timed

    def test_a_search_of_a_program_is_charged_to_who_asks(self):
        sides = [72, 68, 64]  # each size has a separate kernel, whose search takes about 0.2 s
        document = {"inputs": {}, "state": {f"a{n}": {"dtype": "float32", "shape": [n, n]} for n in sides},
                    "nodes": [{"id": f"y{n}", "op": "matmul", "in": [f"a{n}", f"a{n}"]} for n in sides], "outputs": [f"y{n}" for n in sides]}
        plain = self.spends("PUT", "/api/v1/programs/s", document)
        searched = self.spends("POST", "/api/v1/programs/s/run", {"beam": 1}, 0.2)
        self.assertLess(max(plain, self.spends("POST", "/api/v1/programs/s/run", {"beam": 1})), searched / 2)  # compiled, and the search result is reused

    def test_priority(self):
        for value, status in ((-100, 200), (100, 200), (101, 422), ("high", 400), (1.5, 400)):
            self.refused(status, self.call("me", "POST", "/api/v1/run", product(priority=value)))


if __name__ == "__main__":
    unittest.main()
