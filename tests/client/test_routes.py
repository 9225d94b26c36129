# SPDX-License-Identifier: MIT
"""The client covers every route of the server."""
import contextlib
import re
import tempfile
import unittest

import beamline
from served import ROOT, Server
from test_hosting import TEXTS, SHOUT, scaled
from test_server import INTERPRETER, POINTS, double, line

# A page for people; alternative spellings of covered addresses.
LEFT_OUT = {("GET", "/"), ("GET", "/ui/{name}"), ("GET", "/v2/"), *(("POST", "/v2/repository/{repository}/" + rest) for rest in ("index", "models/{name}/load", "models/{name}/unload"))}


def suppressed(call, *arguments):
    with contextlib.suppress(beamline.NotFound):
        call(*arguments)


def every_call(client):
    """Calls each method of the client once."""
    client.description(), client.server(), client.live(), client.ready(), client.metrics(), client.devices(), client.me(), client.now(), client.now_history(), client.timeline(), client.usage(), client.kernels(), suppressed(client.kernel, "0" * 16)
    client.trace(), client.trace(trace_rate=1), client.logging(), client.logging(log_info=False), client.statistics(), client.models()
    with contextlib.suppress(beamline.Conflict):  # the last device cannot be removed
        client.drain(client.devices()[0]["id"])
    client.resume(client.devices()[0]["id"])
    client.run(double(), {"x": [1]})
    held = client.put("x", [1])
    held.get(), client.tensors(), client.delete("x", "y"), client.put("x", [1]).delete()
    blob = client.upload(b"12")
    blob.get(), client.blobs(), blob.delete()
    with client.lease() as mine:
        mine.renew()
    program = client.put_program("line", line())
    client.program("line"), client.programs(), program.run(POINTS), program.plan(), program.set_state(program.state())
    job = program.train(POINTS, steps=2, collect=["loss"])
    client.jobs(), list(job.events()), job.wait(60), job.checkpoint(), job.document(), job.history(), job.history(points=3), job.remove()
    program.delete()
    for model in (client.put_program("scaled", scaled()).promote("scaled", 1), client.model("scaled")):
        model.metadata(), model.config(), model.ready(), model.statistics(), model.infer({"x": [[1, 2]]}), model.trace(), model.trace(trace_rate=1)
    for model in (client.model("shout"), client.model("shout", 1)):
        model.load(TEXTS, {"1/model.json": SHOUT})
        model.generate("a"), list(model.stream("a"))
    model.unload()
    secret = client.create_key("me", ["admin", "run"])  # from now on the server accepts only this key
    client.connection.key = secret
    client.put("w", [1]), client.create_key("you", "run"), client.share("you", tensor="w"), client.shares(), client.unshare("you", tensor="w")
    client.keys(), client.change_key("you", "train"), client.rotate_key("you"), client.revoke_key("you")


class RouteTest(unittest.TestCase):
    def test_every_address(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(*INTERPRETER, "--state", folder)
            called = set()
            with beamline.Client(server.url) as client:
                for name in ("exchange", "stream"):
                    self.record(client.connection, name, called)
                every_call(client)
            self.assertEqual(0, server.stop())
        for method, pattern, rest in re.findall(r'^BL_ROUTE\("(\w+)", "([^"]*)"(.*)', (ROOT / "server" / "http" / "routes.def").read_text(), re.M):
            if (method, pattern) not in LEFT_OUT and "BL_ROUTE_ERROROPENAI" not in rest:  # routes for clients of OpenAI's API
                with self.subTest(route=f"{method} {pattern}"):
                    whole = re.compile(re.sub(r"\{\w+\}", "[^/]+", pattern))
                    self.assertTrue(any(verb == method and whole.fullmatch(path) for verb, path in called))

    @staticmethod
    def record(connection, name, called):
        function = getattr(connection, name)

        def recorded(method, path, *rest):
            called.add((method, path.partition("?")[0]))
            return function(method, path, *rest)
        setattr(connection, name, recorded)


if __name__ == "__main__":
    unittest.main()
