# SPDX-License-Identifier: MIT
"""Threads that answer look for the next request before they sleep, as --spin says: told by how often they slept."""
import http.client
import os
import pathlib
import time
import unittest

from fixture import Server

REQUESTS = 300


class Looking(unittest.TestCase):
    def start(self, *args):
        self.server = Server("--backends", "interp", *args)
        self.addCleanup(self.server.stop)
        return self.server

    def sleeps(self):
        """Of the threads that answer, so far."""
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        answer = [task for task in tasks.iterdir() if (task / "comm").read_text() == "http\n"]
        self.assertGreaterEqual(len(answer), 2)
        return sum(int(line.split()[1]) for task in answer for line in (task / "status").read_text().splitlines() if line.startswith("voluntary"))

    def asked_one_after_the_other(self):
        """How often they slept meanwhile."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        self.addCleanup(connection.close)
        before = self.sleeps()
        for _ in range(REQUESTS):
            connection.request("GET", "/v2/health/live")
            self.assertTrue(connection.getresponse().read())
        return self.sleeps() - before

    @unittest.skipIf(os.cpu_count() < 2, "nobody looks on the only core")
    def test_they_look_while_requests_follow_one_another(self):
        self.start("--spin", "10000")
        self.assertLess(self.asked_one_after_the_other(), REQUESTS / 4)

    def test_they_sleep_between_requests_when_told_to(self):
        self.start("--spin", "0")
        self.assertGreater(self.asked_one_after_the_other(), REQUESTS / 4)  # not each: on a busy machine the next one may be there already

    def test_they_sleep_when_nobody_asks(self):
        self.start("--spin", "10000")
        self.asked_one_after_the_other()
        before = self.spent()
        time.sleep(1)
        self.assertLess(self.spent() - before, 0.5)

    def spent(self):
        """Seconds of the processors that the server has had."""
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    unittest.main()
