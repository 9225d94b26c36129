# SPDX-License-Identifier: MIT
"""HTTP threads poll for the next request before they sleep, as --spin says, and release the connections of clients that
disconnect.

The number of sleeps is measured.
"""
import contextlib
import http.client
import os
import pathlib
import random
import socket
import struct
import threading
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
        """Returns the number of sleeps of the HTTP threads so far."""
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        answer = [task for task in tasks.iterdir() if (task / "comm").read_text() == "http\n"]
        self.assertGreaterEqual(len(answer), 2)
        return sum(int(line.split()[1]) for task in answer for line in (task / "status").read_text().splitlines() if line.startswith("voluntary"))

    def asked_one_after_the_other(self):
        """Returns the number of sleeps during consecutive requests."""
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
        # On a busy machine the client may be slow for a while, during which the threads rarely poll.
        self.assertLess(min(self.asked_one_after_the_other() for _ in range(5)), REQUESTS / 4)

    def test_they_sleep_between_requests_when_told_to(self):
        self.start("--spin", "0")
        self.assertGreater(self.asked_one_after_the_other(), REQUESTS / 4)  # not each: on a busy machine the next request may already be there

    def test_they_sleep_when_nobody_asks(self):
        self.start("--spin", "10000")
        self.asked_one_after_the_other()
        before = self.spent()
        time.sleep(1)
        self.assertLess(self.spent() - before, 0.5)

    def spent(self):
        """Returns the processor seconds of the server."""
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Churn(unittest.TestCase):
    """Clients that connect by the hundred and disconnect at once, some after a byte, beside clients that stay for several
    answers."""

    SECONDS, AT_ONCE = 6, 250
    LIVE = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"

    def test_t27_hole10_no_connection_of_theirs_stays(self):
        server = Server("--backends", "interp", "--threads", "1", "--connections", "16", "--idle-timeout", "600")
        self.addCleanup(server.stop)
        end = time.monotonic() + self.SECONDS
        threads = [threading.Thread(target=act, args=(server.port, end)) for act in (self.come_and_go, self.stay) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(200, server.call("GET", "/v2/health/live", timeout=30).status)
        self.assertEqual(1, server.settled("connections", 1, 30))

    def leave(self, one):
        if random.random() < 0.5:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()

    def come_and_go(self, port, end):
        while time.monotonic() < end:
            sockets = []
            for _ in range(self.AT_ONCE):
                sockets.append(socket.socket())
                sockets[-1].setblocking(False)
                sockets[-1].connect_ex(("127.0.0.1", port))
                with contextlib.suppress(OSError):
                    sockets[-1].send(random.choice((self.LIVE, self.LIVE, b"GET", b"", b"")))
                if random.random() < 0.3:
                    self.leave(sockets.pop(random.randrange(len(sockets))))
            random.shuffle(sockets)
            for one in sockets:
                self.leave(one)

    def stay(self, port, end):
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=self.SECONDS) as one:
                for _ in range(random.randint(1, 5)):
                    one.sendall(self.LIVE)
                    one.recv(4096)


if __name__ == "__main__":
    unittest.main()
