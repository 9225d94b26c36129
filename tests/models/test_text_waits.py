# SPDX-License-Identifier: MIT
"""States of texts are evicted to the host if the device is short of memory: each text is the same as alone."""

import concurrent.futures
import unittest

from repository import Server
from test_devices import VULKAN, has_vulkan
from test_text import LETTERS, TextTest, logits, node, parameters
from test_text_rows import roomy, walk, walker

N = 5 << 18  # elements of a text's state, 5 MiB; two copies exist during a run
TOKENS = 12


def bulky():
    """The next letter is that of a weighted sum of the whole state, all of which changes in each step."""
    return {"inputs": {"tokens": {"dtype": "int32", "shape": [1, "n"]}, "past.much": {"dtype": "int32", "shape": [1, N]}}, "dims": {"n": [1, 3]},
            "nodes": [node("ramp", "arange", stop=N, dtype="int32"), node("new", "sum", "tokens", dtype="int32"), node("more", "mul", "past.much", 3),
                      node("each", "add", "more", "ramp"), node("present.much", "add", "each", "new"), node("weighed", "mul", "present.much", "ramp"),
                      node("sum", "sum", "weighed", axis=1, dtype="int32"), node("letter", "mod", "sum", 26), *logits("letter")],
            "outputs": ["present.much", "logits"]}


def few(model):
    model["dims"]["rows"] = [1, 4]
    return model


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Waits(TextTest):
    @classmethod
    def fill(cls, repository):
        cls.put(repository, "bulky", bulky(), **parameters(context=100000))
        cls.put(repository, "walker", walker(), **parameters(context=1000))
        cls.put(repository, "roomy", few(roomy()), **parameters(context=1000))

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off", env=VULKAN)

    def moved(self):
        return self.server.metric("texts_moved_out_total"), self.server.metric("texts_moved_in_total")

    def write(self, model, prompt):
        return self.written(model, prompt, max_tokens=TOKENS, ignore_eos=True)

    def write_all(self, wishes):
        with concurrent.futures.ThreadPoolExecutor(len(wishes)) as pool:
            return list(pool.map(lambda wish: self.write(*wish), wishes))

    def ended(self):
        self.assertEqual(0, self.server.settled("held_bytes", 0))
        moved = [device["memory_moved"] for device in self.ok(self.call("GET", "/api/v1/devices")).json["devices"] if device["id"] == "vulkan:0"]
        self.assertEqual([0], moved)

    def test_texts_take_turns(self):
        """Two texts do not fit at the same time while one runs."""
        wishes = [("bulky", letter) for letter in LETTERS[1:6]]
        before = self.moved()
        alone = [self.write(*wish) for wish in wishes]
        self.assertEqual(before, self.moved())
        self.assertEqual(len(wishes), len(set(alone)))
        self.assertEqual(alone, self.write_all(wishes))
        out, back = self.moved()
        self.assertGreater(out, before[0])
        self.assertGreater(back, before[1])
        self.ended()

    def test_rows_take_turns(self):
        """Eviction of states that several texts share, while some of their rows are needed."""
        before = self.moved()
        bulk = [("bulky", letter) for letter in LETTERS[1:4]]
        alone = [self.write(*wish) for wish in bulk]
        rows = [(model, letter) for letter in LETTERS[:5] for model in ("walker", "roomy")]
        self.assertEqual(alone + [walk(letter, TOKENS) for _, letter in rows], self.write_all(bulk + rows))
        self.assertGreater(self.moved()[1], before[1])
        self.ended()

    def test_who_leaves_meanwhile(self):
        before = self.moved()
        alone = self.write("bulky", "b")
        streams = [self.open("bulky", letter, max_tokens=90000, ignore_eos=True) for letter in LETTERS[2:6]]
        for connection, reader in streams:
            self.read(reader, 2)
            self.assertEqual(alone, self.write("bulky", "b"))
            reader.close()
            connection.close()
        self.assertEqual(alone, self.write("bulky", "b"))
        self.assertGreater(self.moved()[0], before[0])
        self.ended()


if __name__ == "__main__":
    unittest.main()
