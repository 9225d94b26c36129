# SPDX-License-Identifier: MIT
"""Short runs that are submitted to a device while earlier runs are in flight: each has its own answer."""

import http.client
import json
import threading
import time
import unittest

from fixture import JSON, Server, ServerTest, counter, graph

P = "/api/v1/programs"
NOT_BRIEF = {"interp": 1000, "opencl": 100000}  # number of elements: 0.1 ms to 0.3 ms


def scaled(k, n):
    return graph(inputs={"x": [n, n + 1]}, nodes=[{"id": "y", "op": "mul", "in": ["x", k]}, {"id": "s", "op": "sum", "in": ["y"]}], outputs=["y", "s"])


def lengthy(k, n, device):
    """Returns the graph with additional work, so that a device that runs brief kernels on any thread does not take it for
    brief."""
    document = scaled(k, n)
    document["nodes"] += [{"id": "r", "op": "arange", "attrs": {"stop": NOT_BRIEF.get(device.split(":")[0], 2)}}, {"id": "f", "op": "cast", "in": ["r"], "attrs": {"dtype": "float32"}},
                          {"id": "p", "op": "mul", "in": ["f", "s"]}, {"id": "q", "op": "sin", "in": ["p"]}, {"id": "z", "op": "max", "in": ["q"]}]
    document["outputs"].append("z")
    return {**document, "device": device}


def runs_anywhere(device):
    return device["id"].startswith("interp") or "Portable Computing Language 3." in device["driver"]


class Together(ServerTest):
    ARGS = ("--backends", "opencl,vulkan,interp", "--tune=off")

    def crowd(self, clients, ask, rounds):
        """Each client sends |rounds| requests over one connection; all start at once."""
        wrong, gate = [], threading.Barrier(clients)

        def client(number):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            gate.wait()
            for i in range(rounds):
                method, path, body, check = ask(number, i)
                connection.request(method, path, json.dumps(body), JSON)
                reply = connection.getresponse()
                data = reply.read()
                if not check(reply.status, data):
                    wrong.append((number, i, reply.status, data[:200]))
            connection.close()

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong[:3])

    def devices(self):
        return [device["id"] for device in self.call("GET", "/api/v1/devices").json["devices"]]

    def checks(self, k, n):
        def check(status, data):
            outputs = json.loads(data)["outputs"] if status == 200 else {}
            return status == 200 and outputs["y"]["data"] == [k * n, k * (n + 1)] and outputs["s"]["data"] == [k * (2 * n + 1)]
        return check

    def warm_up(self, document):
        """Compiles, runs and times the graphs once."""
        for _ in range(3):
            self.ok(self.call("POST", "/api/v1/run", document))

    def test_each_its_own(self):
        for device in self.devices():
            for k in (2, 3):
                self.warm_up(lengthy(k, 1, device))
            before = self.server.metric("runs_together_total")

            def ask(number, i, device=device):
                k, n = 2 + i % 2, 100 * number + i
                return "POST", "/api/v1/run", lengthy(k, n, device), self.checks(k, n)
            for _ in range(8):  # a step is timed once per second, and on a busy machine a step may look long
                self.crowd(12, ask, 40)
                if self.server.metric("runs_together_total") > before:
                    break
                time.sleep(0.5)
            self.assertGreater(self.server.metric("runs_together_total"), before, device)

    def test_brief_ones_run_at_once(self):
        """Brief runs execute on the HTTP thread if the device supports any thread and is idle."""
        for device in self.call("GET", "/api/v1/devices").json["devices"]:
            name, brief = device["id"], runs_anywhere(device)
            for document in ({**scaled(2, 1), "device": name}, lengthy(2, 1, name)):
                self.warm_up(document)
            before = self.server.metric("runs_at_once_total")
            for i in range(20):
                document = lengthy(2, i, name)
                self.assertTrue(self.checks(2, i)(200, self.ok(self.call("POST", "/api/v1/run", document)).body))
            self.assertEqual(before, self.server.metric("runs_at_once_total"), name)

            def ask(number, i, device=name):
                return "POST", "/api/v1/run", {**scaled(2, 100 * number + i), "device": device}, self.checks(2, 100 * number + i)
            for clients in (1, 8):
                for _ in range(8):  # on a busy machine a timed step may look long
                    self.crowd(clients, ask, 40)
                    if self.server.metric("runs_at_once_total") > before or not brief:
                        break
                    time.sleep(0.5)
            self.assertEqual(brief, self.server.metric("runs_at_once_total") > before, name)

    def test_among_programs_failures_and_kept_tensors(self):
        self.ok(self.call("PUT", P + "/c", counter()), 201)
        self.warm_up(scaled(2, 1))
        seen = []

        def ask(number, i):
            if number == 0:  # its steps run in order
                return "POST", P + "/c/run", {"steps": 1}, lambda status, data: status == 200 and (seen.append(json.loads(data)["outputs"]["m"]["data"][0]) or True)
            if number == 1:  # past its deadline, before or during its time on the device
                return "POST", "/api/v1/run", {**scaled(2, 5), "timeout_ms": 1}, lambda status, data: status in (200, 504)
            if number == 2:
                return "POST", "/api/v1/run", {**scaled(2, i), "keep": {f"k{i}": "y"}}, lambda status, data: status == 200
            if number == 3 and i > 0:  # uses a result that another run kept, as soon as it exists
                body = graph(inputs={"x": {"tensor": f"k{i - 1}"}})
                return "POST", "/api/v1/run", body, lambda status, data: status == 404 or json.loads(data)["outputs"]["y"]["data"] == [4 * (i - 1), 4 * i]
            return "POST", "/api/v1/run", scaled(2, 7), lambda status, data: status == 200 and json.loads(data)["outputs"]["y"]["data"] == [14, 16]
        self.crowd(10, ask, 60)
        self.assertEqual([float(i) for i in range(1, 61)], [float(x) for x in seen])

    def test_alone_nothing_waits(self):
        self.warm_up(scaled(2, 1))
        before = self.server.metric("runs_together_total")
        for i in range(20):
            self.ok(self.call("POST", "/api/v1/run", scaled(2, i)))
        self.assertEqual(before, self.server.metric("runs_together_total"))

    def test_the_end_waits_for_them(self):
        server = Server("--backends", "interp")
        answers, stop = [], threading.Event()
        for _ in range(3):
            server.call("POST", "/api/v1/run", scaled(2, 1))

        def client():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            while not stop.is_set():
                connection.request("POST", "/api/v1/run", json.dumps(scaled(2, 3)), JSON)
                reply = connection.getresponse()
                answers.append(reply.status)
                reply.read()
                if reply.getheader("connection", "").lower() == "close":
                    return

        threads = [threading.Thread(target=client) for _ in range(12)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        self.assertEqual(0, server.stop())
        stop.set()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(answers), {200, 503})


if __name__ == "__main__":
    unittest.main()
