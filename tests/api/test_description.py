# SPDX-License-Identifier: MIT
"""Check the API description with schemathesis: valid and invalid requests, generated from /openapi.json.

The description omits the answers that libmicrohttpd gives by itself (docs/http.md, "Known holes"): 400, 413, 414, 431 and 505
in HTML for input that is no HTTP request, for an address or a head over 128 KiB, and for an HTTP version other than 1.0 and
1.1.  schemathesis sends only well-formed requests of moderate size, so none of its checks had to be removed.  hooks.py replaces
one check and omits one kind of request, with the reasons.

Each kind and operation has BEAMLINE_TEST_EXAMPLES requests (25), drawn from BEAMLINE_TEST_SEED (1).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import PROGRAM, ROOT, Server

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(ROOT, "build", "schemathesis")
SECONDS = 600
CONFIG = f"""hooks = "{HERE}/hooks.py"
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "413", "415", "422"]
[phases.stateful]
enabled = false
"""


def install():
    """Installs schemathesis once in its own virtual environment.  Returns its path; None if the packages are not available."""
    program, done, wanted = FOLDER / "bin" / "schemathesis", FOLDER / "installed", (HERE / "requirements.txt").read_text()
    if not done.exists() or done.read_text() != wanted:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], capture_output=True, check=False)
        if made.returncode != 0:
            return None
        got = subprocess.run([FOLDER / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "-r", HERE / "requirements.txt"],
                             capture_output=True, text=True, check=False)
        if got.returncode != 0:
            print(got.stderr[-1000:])
            return None
        done.write_text(wanted)
    return program


class Description(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = install()
        if cls.program is None:
            raise unittest.SkipTest("schemathesis is not here, and pip cannot get it")
        # Small limits, so that generated graphs that are valid are small.
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        # Requests have an administrator's key, since the first key that a generated request makes closes the server to clients
        # without a key.
        made = subprocess.run([PROGRAM, "keys", "create", "tester", "--scopes", "infer,run,train,admin,metrics", "--state", folder.name],
                              capture_output=True, text=True, check=True)
        cls.key = {"authorization": "Bearer " + re.search(r"bl_\S+", made.stdout)[0]}
        cls.server = Server("--state", folder.name, "--backends", "interp", "--max-seconds", "0.2", "--max-tensor", "1M", "--max-steps", "1000", "--log-level", "warn")
        cls.addClassCleanup(cls.server.stop)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    def run_it(self, description, *args):
        """Returns (exit status, output)."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "schemathesis.toml").write_text(CONFIG)
            done = subprocess.run([self.program, "--config-file", folder + "/schemathesis.toml", "run", description, "--url", self.url, "--continue-on-failure",
                                   "--seed", os.environ.get("BEAMLINE_TEST_SEED", "1"), "--generation-database", "none", "-H", "authorization: " + self.key["authorization"], *args],
                                  cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_nothing_is_found(self):
        status, output = self.run_it(self.url + "/openapi.json", "--max-examples", os.environ.get("BEAMLINE_TEST_EXAMPLES", "25"))
        found = re.search("=+ FAILURES =+\n(.*?)\n=+ (?:WARNINGS|SUMMARY) =+", output, re.S)
        self.assertEqual(0, status, found[1] if found else output[-6000:])
        counts = re.search(r"(\d+) generated, (\d+) passed", output)
        self.assertGreater(int(counts[1]), 1000)
        self.assertEqual(counts[1], counts[2])
        self.assertNotRegex(self.server.log_text(), "bug")
        self.assertEqual(200, self.server.call("GET", "/v2/health/live").status)

    def meta_schema(self, api):
        """Checks a description against the meta-schema of OpenAPI 3.1 and its further rules.  Returns (exit status, output)."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(api, file)
            file.flush()
            done = subprocess.run([FOLDER / "bin" / "python", "-m", "openapi_spec_validator", "--schema", "3.1", file.name], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_meta_schema(self):
        api = self.server.call("GET", "/openapi.json", headers=self.key).json
        status, output = self.meta_schema(api)
        self.assertEqual(0, status, output[-3000:])
        del api["paths"]["/api/v1/run"]["post"]["responses"]
        api["paths"]["/api/v1/run"]["post"]["responses"] = {"200": {"description": "it ran", "and it is not a member": None}}
        self.assertEqual(1, self.meta_schema(api)[0])

    def test_what_it_found(self):
        """Errors of earlier descriptions: method, address, body, status, and a part of the answer."""
        lease, other = (self.server.call("POST", "/api/v1/leases", body, self.key).json["lease"] for body in (None, {}))
        for method, path, body, status, told in (
                ("GET", "/api/v1/tensors/delete", None, 405, "allows only POST"),
                ("POST", "/api/v1/leases", {}, 201, '"ttl":60'),
                ("PUT", "/api/v1/leases/" + lease, {}, 200, '"ttl":60'),
                ("POST", "/api/v1/tensors/delete?lease=" + lease, {"names": [], "lease": other}, 422, "in the address and in the body"),
                ("POST", "/api/v1/tensors/delete", {"names": ["a", "b c"]}, 422, "is not a valid name"),
                ("PUT", "/api/v1/tensors/t?dtype=float32&shape=1", [1], 422, "leave them out of the address"),
                ("PUT", "/api/v1/programs/p?dims=a:1-2", {"nodes": [], "outputs": []}, 422, "must be a member of the JSON document")):
            with self.subTest(path=path, body=body):
                answer = self.server.call(method, path, body, self.key)
                self.assertEqual(status, answer.status, answer.body)
                self.assertIn(told, answer.body.decode().replace("\\", ""))

    def test_what_is_untrue_is_found(self):
        """Three false statements, each in its own description, are detected."""
        truth = self.server.call("GET", "/openapi.json", headers=self.key).json

        def answer_of_lease(api):
            api["components"]["schemas"]["Lease"]["properties"]["ttl"] = {"type": "string"}

        def no_errors_of_tensors(api):
            del api["paths"]["/api/v1/tensors/{name}"]["get"]["responses"]["default"]

        def ttl_may_be_a_word(api):
            api["components"]["schemas"]["LeaseRequest"]["properties"]["ttl"] = {"type": "string"}

        for lie, path in ((answer_of_lease, "/api/v1/leases"), (no_errors_of_tensors, "/api/v1/tensors/{name}"), (ttl_may_be_a_word, "/api/v1/leases")):
            with self.subTest(lie.__name__), tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                api = json.loads(json.dumps(truth))
                lie(api)
                json.dump(api, file)
                file.flush()
                status, output = self.run_it(file.name, "--include-path", path, "--max-examples", "10")
                self.assertEqual(1, status, output[-3000:])


if __name__ == "__main__":
    unittest.main()
