# SPDX-License-Identifier: MIT
"""A test in which a thread raised fails: unittest sees only the thread that runs the test, and a client that died asserts nothing.

Importing this is enough; tests/run.py and the fixtures do.  A thread that is meant to lose its connection catches that and says so."""

import threading
import traceback
import unittest

raised = []  # of each thread that raised and was told of by no test yet, its traceback


def _remember(args):
    threading.__excepthook__(args)  # outside of tests, in tools that use the fixture, it is told as ever
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread else "a thread"
        raised.append(f"{name}:\n" + "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)))


def tell():
    """Fails with what threads raised since the last time."""
    told = raised[:]
    del raised[:len(told)]
    if told:
        raise AssertionError(f"{len(told)} threads raised; " + "\n".join(told[:3]))


_run = unittest.TestCase.run


def _watched(self, result=None):
    self.addCleanup(tell)  # the first that is added is the last that is done
    return _run(self, result)


threading.excepthook = _remember
unittest.TestCase.run = _watched
