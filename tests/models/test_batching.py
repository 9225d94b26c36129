# SPDX-License-Identifier: MIT
"""Dynamic batching: concurrent requests become one run in order, and each gets its own rows."""

import concurrent.futures
import http.client
import json
import socket
import statistics
import struct
import threading
import time
import unittest

from repository import ModelsTest, document, elementwise, envelope, floats, numbers, split

WIDTH = 512


def slow():
    """Returns a model whose run takes about ten milliseconds for any batch; the work depends on x, since work on weights alone
    would be computed once."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "state": {"w": {"op": "normal", "attrs": {"shape": [WIDTH, WIDTH], "seed": 1}}},
            "dims": {"batch": [1, 8]},
            "nodes": [{"id": "sx", "op": "sum", "in": ["x"]}, {"id": "zx", "op": "mul", "in": ["sx", 0]}, {"id": "wx", "op": "add", "in": ["w", "zx"]},
                      {"id": "w2", "op": "matmul", "in": ["wx", "w"]}, {"id": "w3", "op": "matmul", "in": ["w2", "w"]},
                      {"id": "w4", "op": "matmul", "in": ["w3", "w2"]}, {"id": "s", "op": "sum", "in": ["w4"]},
                      {"id": "z", "op": "mul", "in": ["s", 0]}, {"id": "xz", "op": "mul", "in": ["x", 2]}, {"id": "y", "op": "add", "in": ["xz", "z"]}],
            "outputs": ["y"]}


def lookup(**members):
    """Returns a model that looks up rows x of a small table."""
    return {"inputs": {"x": {"dtype": "int32", "shape": ["batch", 1]}}, "dims": {"batch": [1, 8]}, "state": {"w": [10, 20, 30]},
            "nodes": [{"id": "y", "op": "take", "in": ["w", "x"]}], "outputs": ["y"], **members}


class Batching(ModelsTest):
    @classmethod
    def fill(cls, repository):
        repository.put("slow", 1, slow())
        repository.put("single", 1, slow(), max_batch_size=0)
        repository.put("checked", 1, lookup(check_indices=True))

        repository.put("waits", 1, elementwise("mul", 2, most=8), dynamic_batching={"max_queue_delay_microseconds": 2000000})
        repository.put("four", 1, elementwise("mul", 2, most=8), dynamic_batching={"max_queue_delay_microseconds": 60000000, "preferred_batch_size": [4]})
        repository.put("short", 1, slow(), dynamic_batching={"default_queue_policy": {"max_queue_size": 2}})
        repository.put("ranks", 1, slow(), max_batch_size=1, dynamic_batching={"priority_levels": 3, "default_priority_level": 2})
        repository.put("late", 1, slow(), max_batch_size=1, dynamic_batching={"default_queue_policy": {"default_timeout_microseconds": 40000}})

    def statistics(self, model):
        return self.ok(self.call("GET", f"/v2/models/{model}/stats")).json["model_stats"][0]

    def many(self, model, count, rows=1, **parameters):
        """Sends the requests of |count| clients at once; each client checks its own rows.  Returns the answers."""
        def one(i):
            values = [float(4 * rows * i + k) for k in range(4 * rows)]
            x = {"name": "x", "shape": [rows, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16 * rows}}
            asked = document(x, parameters={"binary_data_output": True, **parameters})
            answer = self.infer(model, *envelope(asked, floats(*values)))
            if answer.status == 200:
                self.assertEqual(tuple(2 * value for value in values), struct.unpack(f"<{4 * rows}f", split(answer)[1]["y"]))
            return answer
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def occupying(self):
        """Returns a thread whose run occupies the device for about 100 ms; its kernels are already compiled."""
        graph = {"inputs": {}, "nodes": [{"id": "r", "op": "uniform", "attrs": {"shape": [1200, 1200]}}] + [
            {"id": f"m{i}", "op": "matmul", "in": ["r" if i == 0 else f"m{i - 1}", "r"]} for i in range(6)], "outputs": ["m5"]}
        accept = {"accept": "application/x-safetensors"}
        self.ok(self.call("POST", "/api/v1/run", graph, accept))
        return threading.Thread(target=self.call, args=("POST", "/api/v1/run", graph, accept))

    def test_what_waits_runs_together(self):
        self.many("slow", 1)
        before = self.statistics("slow")
        for answer in self.many("slow", 24) + self.many("slow", 12, rows=3):
            self.ok(answer)
        after = self.statistics("slow")
        self.assertEqual(60, after["inference_count"] - before["inference_count"])
        runs = after["execution_count"] - before["execution_count"]
        self.assertLess(runs, 36)  # fewer runs than requests, although other sizes are tried
        self.assertGreater(runs, 7)  # a batch has at most 8 rows
        self.assertLessEqual(max(row["batch_size"] for row in after["batch_stats"]), 8)
        self.assertGreater(max(row["batch_size"] for row in after["batch_stats"]), 1)
        self.assertEqual(36, after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"])

    def test_not_where_there_are_no_batches(self):
        before = self.statistics("single")
        self.many("single", 6)
        after = self.statistics("single")
        self.assertEqual(6, after["execution_count"] - before["execution_count"])

    def test_an_index_out_of_range_is_of_one_request(self):
        """A model that checks its indices runs each request alone, so that a failing request fails no other request."""
        def one(i):
            return self.infer("checked", document(numbers("x", [1, 1], [i % 4], "INT32")))
        before = self.statistics("checked")["execution_count"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(one, range(24)))
        for i, answer in enumerate(answers):
            if i % 4 < 3:
                self.assertEqual([10 * (i % 4) + 10], self.ok(answer).json["outputs"][0]["data"])
            else:
                self.refused(400, answer, "take: index 3 at [0, 0] is out of range: axis 0 of x has size 3; it must be from -3 to 2")
        self.assertEqual(18, self.statistics("checked")["execution_count"] - before)
        self.repository.put("crowd", 1, lookup(check_indices=True), max_batch_size=4)
        self.refused(400, self.load("crowd"), "max_batch_size is 4, but check_indices runs each request alone; leave one of the two out")

    def test_delay(self):
        """A single request waits for others for the maximum delay; a full batch starts at once."""
        begin = time.monotonic()
        self.ok(self.many("waits", 1)[0])
        alone = time.monotonic() - begin
        self.assertGreater(alone, 1.9)
        self.assertLess(alone, 30)
        begin, before = time.monotonic(), self.statistics("waits")
        for answer in self.many("waits", 8):
            self.ok(answer)
        self.assertLess(time.monotonic() - begin, 1.9)
        self.assertEqual(1, self.statistics("waits")["execution_count"] - before["execution_count"])

    def test_preferred_size(self):
        before = self.statistics("four")
        for answer in self.many("four", 4):
            self.ok(answer)
        self.assertEqual(1, self.statistics("four")["execution_count"] - before["execution_count"])

    def test_of_other_sizes(self):
        """Requests that differ in another dimension are not batched together."""
        self.repository.put("lengths", 1, {"inputs": {"x": {"dtype": "float32", "shape": ["batch", "n"]}}, "dims": {"batch": [1, 8], "n": [1, 100]},
                                           "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]},
                            dynamic_batching={"max_queue_delay_microseconds": 20000})
        self.ok(self.load("lengths"))

        def one(n):
            return self.ok(self.infer("lengths", document(numbers("x", [1, n], list(range(n)))))).json["outputs"][0]["data"]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for n, data in zip([1, 2, 3] * 8, pool.map(one, [1, 2, 3] * 8)):
                self.assertEqual([2 * k for k in range(n)], data)

    def test_t23_full(self):
        answers = self.many("short", 12)
        refused = [answer for answer in answers if answer.status != 200]
        self.assertTrue(refused)
        for answer in refused:
            self.refused(503, answer, "queue of model \"short\" is full")
        self.assertGreaterEqual(12 - len(refused), 3)

    def order_of_levels(self):
        """Returns the order in which requests of different priorities are answered."""
        order, lock = [], threading.Lock()

        def one(level):
            self.ok(self.infer("ranks", document(numbers("x", [1, 4], [1, 2, 3, 4]), parameters={"priority": level} if level else {})))
            with lock:
                order.append(level or 2)
        threads = [self.occupying()]
        threads += [threading.Thread(target=one, args=(level,)) for level in [3] * 8 + [1] * 4 + [0] * 4]
        for thread in threads:
            thread.start()
            time.sleep(0.005)
        for thread in threads:
            thread.join()
        return order

    def test_priority(self):
        for _ in range(5):  # on a busy machine the first requests may be answered before the last arrive
            order = self.order_of_levels()
            first, last = (statistics.mean(i for i, level in enumerate(order) if level == wanted) for wanted in (1, 3))
            if first < last:
                break
        self.assertLess(first, last, order)
        self.refused(400, self.infer("ranks", document(numbers("x", [1, 4], [1, 2, 3, 4]), parameters={"priority": 4})), "levels 1 to 3")

    def test_timeout(self):
        occupied = self.occupying()
        occupied.start()
        time.sleep(0.01)
        answers = self.many("late", 16)
        occupied.join()
        late = [answer for answer in answers if answer.status != 200]
        self.assertTrue(late)
        for answer in late:
            self.assertEqual(503, answer.status)
            self.assertRegex(answer.json["error"], "timeout|time limit")
        self.assertTrue(all(answer.status != 200 for answer in self.many("waits", 1, timeout=20000)))

    def test_t27_a_client_that_leaves(self):
        """The request of a disconnected client is dropped, and the others are answered."""
        before = self.statistics("four")
        body = json.dumps(document(numbers("x", [1, 4], [1, 2, 3, 4]))).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock:
            sock.sendall(b"POST /v2/models/four/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.2)
        end, fails = time.monotonic() + 60, 0
        while fails == 0 and time.monotonic() < end:
            fails = self.statistics("four")["inference_stats"]["fail"]["count"] - before["inference_stats"]["fail"]["count"]
        self.assertEqual(1, fails)
        for answer in self.many("four", 4):
            self.ok(answer)
        self.assertEqual(1, self.statistics("four")["execution_count"] - before["execution_count"])

    def test_t28_unload_under_load(self):
        """Every accepted request is answered completely."""
        statuses, stop = [], threading.Event()

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            while not stop.is_set():
                connection.request("POST", "/v2/models/slow/infer", json.dumps(document(numbers("x", [1, 4], [1, 2, 3, 4]))))
                reply = connection.getresponse()
                body = json.loads(reply.read())
                statuses.append(reply.status)
                if reply.status == 200 and body["outputs"][0]["data"] != [2, 4, 6, 8]:
                    statuses.append(str(body))
            connection.close()
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(5):
                end = time.monotonic() + 60
                while statuses.count(200) < (turn + 1) * len(threads) and time.monotonic() < end:
                    time.sleep(0.01)
                self.ok(self.unload("slow"))
                self.ok(self.load("slow"))
                (self.repository.path / "slow" / "1" / "model.json").touch()
                self.ok(self.load("slow"))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertLessEqual(set(statuses), {200, 404, 503})  # 503: while the model is being loaded
        self.assertGreaterEqual(statuses.count(200), 5 * len(threads))


if __name__ == "__main__":
    unittest.main()
