# SPDX-License-Identifier: MIT
"""Large bodies are parsed, and large answers printed, on offload threads: the single HTTP thread answers other clients
meanwhile.

The duration of the work is measured too: on the HTTP thread, the work would delay another client by about as long.
"""

import gzip
import http.client
import json
import threading
import time
import unittest

from fixture import JSON, Server, graph

NUMBERS = 20_000_000
NAMES = 400_000
ZIPPED = {**JSON, "content-encoding": "gzip"}


class Offload(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backends", "interp", "--threads", "1", "--spin", "0")
        body = b'{"dtype":"float32","shape":[%d],"data":[%s1]}' % (NUMBERS, b"0," * (NUMBERS - 1))
        cls.bomb = gzip.compress(body, 6)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def beside(self, ask):
        """Returns (result of |ask|, its seconds, the longest wait of another client meanwhile)."""
        waits, over = [], threading.Event()

        def others():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            while not over.is_set():
                begin = time.monotonic()
                connection.request("GET", "/v2/health/live")
                self.assertEqual(b'{"live":true}', connection.getresponse().read())
                waits.append(time.monotonic() - begin)
                time.sleep(0.002)
            connection.close()

        thread = threading.Thread(target=others)
        thread.start()
        begin = time.monotonic()
        try:
            answer = ask()
        finally:
            took = time.monotonic() - begin
            over.set()
            thread.join()
        self.assertGreater(len(waits), 20)
        return answer, took, max(waits)

    def holds_up_nobody(self, ask):
        for _ in range(3):  # other load may have disturbed the measurement
            answer, took, longest = self.beside(ask)
            if longest < took / 4:
                return answer
        self.fail(f"another client waited {longest * 1e3:.0f} ms of {took * 1e3:.0f} ms")

    def test_t6_a_body_of_many_numbers_holds_up_nobody(self):
        answer = self.holds_up_nobody(lambda: self.server.call("PUT", "/api/v1/tensors/bomb", self.bomb, ZIPPED))
        self.assertEqual(201, answer.status, answer.body[:300])
        self.assertEqual([NUMBERS], answer.json["shape"])
        tail = self.server.call("POST", "/api/v1/run", {"inputs": {"x": {"tensor": "bomb"}}, "outputs": ["y"],
                                                        "nodes": [{"id": "y", "op": "slice", "in": ["x"], "attrs": {"start": [NUMBERS - 2], "stop": [NUMBERS]}}]})
        self.assertEqual([0, 1], tail.json["outputs"]["y"]["data"], tail.body)

    def test_a_long_answer_holds_up_nobody(self):
        made = graph(inputs={}, keep={"y": "y"}, outputs=[],
                     nodes=[{"id": "y", "op": "full", "attrs": {"shape": [NUMBERS // 4], "value": 1.25}}])
        self.assertEqual(200, self.server.call("POST", "/api/v1/run", made).status)
        answer = self.holds_up_nobody(lambda: self.server.call("GET", "/api/v1/tensors/y"))
        self.assertEqual(200, answer.status)
        self.assertEqual(NUMBERS // 4, answer.body.count(b"1.25"))

    def test_t9_a_name_that_stands_twice_ends_the_reading(self):
        twice = b'{"inputs":{"a":[1],%s"a":[2]}}'
        short = gzip.compress(twice % b"")
        long = gzip.compress(b'{"inputs":{' + b",".join([b'"a":1'] * NAMES) + b'},"nodes":[],"outputs":[]}')
        for body in (short, long):
            answer = self.server.call("POST", "/api/v1/run", body, ZIPPED)
            self.assertEqual((400, 'inputs: the member "a" is given twice'), (answer.status, answer.json["detail"]))
        escaped = self.server.call("POST", "/api/v1/run", b'{"nodes":[1,{"\\u0061b":{"c":1,"d":2,"\\u0063":3}}]}', JSON)
        self.assertEqual('nodes[1].ab: the member "c" is given twice', escaped.json["detail"])

    def test_t6_a_coded_body_in_pieces(self):
        """An offload thread inflates a body as the HTTP thread would: into memory, and into a tensor."""
        numbers = list(range(300_000))
        body = gzip.compress(json.dumps({"dtype": "int32", "shape": [len(numbers)], "data": numbers}).encode(), 1)
        self.assertEqual(201, self.server.call("PUT", "/api/v1/tensors/pieces", body, ZIPPED).status)
        raw = b"".join(n.to_bytes(4, "little") for n in numbers)
        got = self.server.call("GET", "/api/v1/tensors/pieces", headers={"accept": "application/octet-stream"})
        self.assertEqual(raw, got.body)
        put = self.server.call("PUT", f"/api/v1/tensors/raw?dtype=int32&shape={len(numbers)}", gzip.compress(raw, 1),
                               {"content-type": "application/octet-stream", "content-encoding": "gzip"})
        self.assertEqual(201, put.status, put.body)
        self.assertEqual(raw, self.server.call("GET", "/api/v1/tensors/raw", headers={"accept": "application/octet-stream"}).body)
        for damaged in (body[:-5], body[:1000] + b"\0" * 1000 + body[2000:], body + b"more"):
            self.assertEqual(400, self.server.call("PUT", "/api/v1/tensors/pieces", damaged, ZIPPED).status)

    def test_several_clients_at_once(self):
        """More clients than offload threads, all with one owner."""
        answers = []
        body = json.dumps(graph(inputs={"x": [1.5] * 50_000}))
        threads = [threading.Thread(target=lambda: answers.append(self.server.call("POST", "/api/v1/run", body, JSON))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([200] * 12, [answer.status for answer in answers])
        self.assertTrue(all(answer.json["outputs"]["y"]["data"] == [3] * 50_000 for answer in answers))
        self.assertEqual(0, self.server.settled('queue_length{device="offload"}', 0))
