# SPDX-License-Identifier: MIT
"""Temporary refusals of the server, and a server that restarts during a job."""
import json
import time
import unittest

from served import Server
from test_pages import Scene, training_jobs


class Refused(Scene):
    @classmethod
    def fill(cls):
        cls.slow = cls.call("POST", "/api/v1/keys", {"name": "slow", "scopes": ["infer"], "quotas": {"rate": 0.5}}, cls.admin)["key"]

    def test_429(self):
        """The rate limit of a key, until it is raised."""
        page = self.open(self.server.url, key=self.slow, expect=["status of 429"])
        page.wait_for_selector(".notice:has-text('The server takes no more from this key now')", timeout=30000)
        self.assertRegex(page.locator(".notice").text_content(), r"0.5 requests a second; send the request again later. It takes more in \d+ s\.")
        self.call("PUT", "/api/v1/keys/slow", {"quotas": {"rate": 1000}}, self.admin)
        page.wait_for_selector(".notice", state="detached", timeout=30000)
        page.wait_for_selector("text=interp:0 is free.")

    def test_503(self):
        """The page waits as long as the server says and continues by itself."""
        busy = {"type": "urn:beamline:error:ebusy", "title": "busy", "status": 503, "detail": "the queue of interp:0 is full"}
        page, refused = self.show("data", expect=["status of 503"]), []

        def refuse(route):
            refused.append(time.monotonic())
            route.fulfill(status=503, body=json.dumps(busy), headers={"content-type": "application/problem+json", "retry-after": "1"})
        page.route("**/api/v1/tensors*", refuse)
        page.wait_for_selector(".notice:has-text('The server is busy: the queue of interp:0 is full. It takes more in 1 s.')", timeout=30000)
        gaps = [later - earlier for earlier, later in zip(refused, refused[1:])]
        self.assertTrue(gaps and min(gaps) > 0.9, gaps)
        page.unroute("**/api/v1/tensors*")
        page.wait_for_selector(".notice", state="detached", timeout=30000)

    def test_503_of_an_action(self):
        """A refused user action is retried, and then reported."""
        page = self.show("models/double", expect=["status of 503"])
        page.route("**/infer*", lambda route: route.fulfill(status=503, body=json.dumps({"error": "the model is loading"}), headers={"content-type": "application/json", "retry-after": "1"}))
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector(".notice:has-text('The server is busy: the model is loading. It takes more in 1 s.')")
        page.unroute("**/infer*")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("text=Answered in")


class Restarted(Scene):
    @classmethod
    def fill(cls):
        cls.call("PUT", "/api/v1/programs/noisy", training_jobs.noisy())

    def test_a_job_goes_on(self):
        """The page of a job follows the job across a restart of the server."""
        job = self.submit("noisy", steps=10000000, every=200)
        page = self.show(f"jobs/{job}", expect=["Failed to load resource", "ERR_"])
        port, options = self.server.port, self.server.process.args[4:]
        while not self.call("GET", f"/api/v1/jobs/{job}")["step"]:
            time.sleep(0.1)
        self.server.stop()
        page.wait_for_selector("text=The server does not answer", timeout=30000)
        type(self).server = Server(*options, "--port", str(port))
        self.addClassCleanup(self.server.stop)
        page.wait_for_selector("text=The server does not answer", state="detached", timeout=60000)
        step = self.call("GET", f"/api/v1/jobs/{job}")["step"]
        page.wait_for_function("step => Number(document.querySelector('dd').textContent.split(' of ')[0].replaceAll(',', '')) > step", arg=step, timeout=30000)
        self.assertEqual("running", self.call("GET", f"/api/v1/jobs/{job}")["state"])
        self.call("DELETE", f"/api/v1/jobs/{job}")
        page.wait_for_selector(".chip.cancelled", timeout=30000)


if __name__ == "__main__":
    unittest.main()
