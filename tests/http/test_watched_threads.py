# SPDX-License-Identifier: MIT
"""Tests of the test framework: a test fails if one of its threads raises."""

import contextlib
import io
import threading
import unittest

import fixture  # noqa: F401 - which finds it
import watched_threads


def in_a_thread(work):
    """Returns a test that does |work| in a thread and asserts nothing."""
    class Case(unittest.TestCase):
        def test(self):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    result = unittest.TestResult()
    with contextlib.redirect_stderr(io.StringIO()):  # Python also reports the thread on stderr
        Case("test").run(result)
    return result


class Watched(unittest.TestCase):
    def test_a_test_fails_with_its_thread(self):
        def lost():
            raise ConnectionResetError("the client died")
        result = in_a_thread(lost)
        self.assertEqual(1, len(result.failures))
        self.assertRegex(result.failures[0][1], r"(?s)1 threads raised.*in lost.*ConnectionResetError: the client died")
        self.assertEqual([], watched_threads.raised)

    def test_others_do_not(self):
        def caught():
            try:
                raise ConnectionResetError
            except ConnectionResetError:
                pass
        self.assertTrue(in_a_thread(caught).wasSuccessful())
        self.assertTrue(in_a_thread(lambda: (_ for _ in ()).throw(SystemExit)).wasSuccessful())


if __name__ == "__main__":
    unittest.main()
