# SPDX-License-Identifier: MIT
"""A server behind a wire that breaks."""
import socket
import threading


class Cutter:
    """A port of its own that passes on to a server's.  ``plan``: of each next connection how many bytes (to the server, from it) pass before it
    breaks; None is any number.  Behind the plan nothing breaks.  ``opened``: how many connections there were."""

    def __init__(self, port, *plan):
        self.port, self.plan, self.opened = port, list(plan), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            limits = self.plan.pop(0) if self.plan else (None, None)
            self.opened += 1
            threading.Thread(target=self.serve, args=(near, *limits), daemon=True).start()

    def serve(self, near, there, back):
        with near, socket.create_connection(("127.0.0.1", self.port)) as far:
            other = threading.Thread(target=self.pass_on, args=(far, near, back), daemon=True)
            other.start()
            self.pass_on(near, far, there)
            other.join()

    @staticmethod
    def pass_on(source, sink, limit):
        """Bytes from one socket to the other, until one ends or the limit is there; then both end."""
        try:
            while limit is None or limit > 0:
                data = source.recv(1 << 16 if limit is None else min(limit, 1 << 16))
                if not data:
                    break
                sink.sendall(data)
                limit = None if limit is None else limit - len(data)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
