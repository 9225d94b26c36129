# SPDX-License-Identifier: MIT
"""Models that are loaded and unloaded during requests from several clients, and a thousand failed loads."""

import base64
import json
import random
import threading
import time
import unittest

from repository import ModelsTest, document, elementwise, numbers, safetensors

ROW = document(numbers("x", [1, 4], [1, 2, 3, 4]))
SECONDS = 6
FACTORS = (2, 3, 5)
WIDE = 256  # side of a square weight


def sent(factor):
    """Returns the parameters of a load: a model that multiplies."""
    return {"config": "{}", "file:1/model.json": base64.b64encode(json.dumps(elementwise("mul", factor)).encode()).decode()}


class Churn(ModelsTest):
    OPTIONS = ("--backends", "interp", "--log-level", "error")

    @classmethod
    def fill(cls, repository):
        for name in ("a", "b"):
            repository.put(name, 1, elementwise("mul", 2))

    def test_t28_load_unload_and_infer_at_once(self):
        """Each answer is correct or 404; afterwards no resource remains."""
        self.ok(self.load("a"))
        before, stop, wrong, seen = self.server.metric("held_bytes"), threading.Event(), [], set()

        def client(seed, act):
            draw = random.Random(seed)
            while not stop.is_set():
                try:
                    act(draw)
                except Exception as failure:  # an exception of this thread, which the test reports
                    wrong.append(repr(failure))
                    return

        def ask(draw):
            answer = self.infer(draw.choice("ab"), ROW)
            seen.add(answer.status)
            if answer.status == 200 and answer.json["outputs"][0]["data"] not in [[f * x for x in (1, 2, 3, 4)] for f in FACTORS]:
                wrong.append(answer.body)
            if answer.status not in (200, 404, 503):  # 503: the first version is being loaded
                wrong.append((answer.status, answer.body))

        def change(draw):
            name = draw.choice("ab")
            kind = draw.randrange(4)
            answer = (self.unload(name) if kind == 0 else self.load(name) if kind == 1 else self.load(name, **sent(draw.choice(FACTORS))) if kind == 2
                      else self.load(name, config="{"))
            late = kind in (1, 2) and answer.status == 400 and answer.json["error"].endswith("the model was unloaded while it was being loaded")
            if not late and answer.status != (400 if kind == 3 else 200):
                wrong.append((kind, answer.status, answer.body))

        def look(draw):
            for answer in (self.call("POST", "/v2/repository/index", {}), self.call("GET", "/v2/models/stats"), self.call("GET", "/v2/models/a/config")):
                if answer.status not in (200, 404, 503):  # 503: the first version is being loaded
                    wrong.append((answer.status, answer.body))

        threads = [threading.Thread(target=client, args=(i, act)) for i, act in enumerate((ask, ask, ask, change, change, look))]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong[:3])
        self.assertIn(200, seen)
        for name in "ab":
            self.ok(self.load(name))
            self.assertEqual([2, 4, 6, 8], self.ok(self.infer(name, ROW)).json["outputs"][0]["data"])
        self.assertEqual(before, self.server.settled("held_bytes", before))

    def test_t14_a_thousand_failed_loads(self):
        """Loads of an invalid graph, which fail in the decoder."""
        bad = sent(2)
        bad["file:1/model.json"] = base64.b64encode(json.dumps(elementwise("no_such_op", 2)).encode()).decode()
        held, resident = None, None
        for i in range(1000):
            self.refused(400, self.load("bad", **bad), "no_such_op")
            if i == 200:
                held, resident = self.server.metric("held_bytes"), self.server.rss()
        self.assertEqual(held, self.server.settled("held_bytes", held))
        self.assertLess(self.server.rss() - resident, 4 << 20)

    def test_t14_loads_that_fail_with_their_weights_there(self):
        """The second warm-up request is invalid: the load fails after the weights are on the device and a run has used them."""
        def warm(name, size):
            return {"name": name, "batch_size": 1, "count": 1, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [size], "random_data": True}}}
        graph = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", WIDE]}}, "dims": {"batch": [1, 4]}, "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}],
                 "outputs": ["y"]}
        files = {"file:1/model.json": json.dumps(graph).encode(), "file:1/model.safetensors": safetensors({"w": ("F32", [WIDE, WIDE], bytes(4 * WIDE * WIDE))})}
        parameters = {name: base64.b64encode(file).decode() for name, file in files.items()}

        def used():
            return self.call("GET", "/api/v1/devices").json["devices"][0]["memory_used"]
        for i in range(220):
            self.refused(400, self.load("heavy", config=json.dumps({"model_warmup": [warm("good", WIDE), warm("bad", WIDE + 1)]}), **parameters), f"size {WIDE + 1}")
            if i == 20:
                device, held, resident = used(), self.server.metric("held_bytes"), self.server.rss()
        self.assertEqual(held, self.server.settled("held_bytes", held))
        end = time.monotonic() + 10
        while used() > device and time.monotonic() < end:
            time.sleep(0.02)
        self.assertLessEqual(used(), device)
        self.assertLess(self.server.rss() - resident, 16 << 20)  # 200 loads of the weights would be 50 MiB
        before = held
        self.ok(self.load("heavy", config=json.dumps({"model_warmup": [warm("good", WIDE)]}), **parameters))
        self.assertGreaterEqual(self.server.metric("held_bytes"), before + 4 * WIDE * WIDE, "what failed had as much there")
        self.ok(self.unload("heavy"))
        self.assertEqual(before, self.server.settled("held_bytes", before))


if __name__ == "__main__":
    unittest.main()
