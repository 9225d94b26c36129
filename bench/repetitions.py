# SPDX-License-Identifier: MIT
"""The repetitions of a slice, as all peers of a bench measure them.  Needs no package: the peers have Pythons of their own."""
import time


def measure(step, seconds):
    """Returns the seconds of each repetition: as many as fit into |seconds|, at least two."""
    times, start = [], time.perf_counter()
    while len(times) < 2 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times
