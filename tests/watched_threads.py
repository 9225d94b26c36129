# SPDX-License-Identifier: MIT
"""Makes a test fail if one of its threads raises an exception.

unittest sees only exceptions of the thread that runs the test, and a client thread that died asserts nothing.  An import of
this module suffices; tests/run.py and the fixtures import it.  A thread that is meant to lose its connection must catch the
exception.
"""

import threading
import traceback
import unittest

raised = []  # the traceback of each thread that raised and was not yet reported by a test


def _remember(args):
    threading.__excepthook__(args)  # outside of tests, in tools that use the fixture, print it as usual
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread else "a thread"
        raised.append(f"{name}:\n" + "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)))


def tell():
    """Fails with the exceptions of threads since the last call."""
    told = raised[:]
    del raised[:len(told)]
    if told:
        raise AssertionError(f"{len(told)} threads raised; " + "\n".join(told[:3]))


_run = unittest.TestCase.run


def _watched(self, result=None):
    self.addCleanup(tell)  # the first added clean-up runs last
    return _run(self, result)


threading.excepthook = _remember
unittest.TestCase.run = _watched
