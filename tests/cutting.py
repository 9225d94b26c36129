# SPDX-License-Identifier: MIT
"""A proxy to a server that breaks connections."""
import socket
import threading


class Cutter:
    """Listens on its own port and forwards to a server.  ``plan`` has for each of the next connections the number of bytes (to
    the server, from it) before the break; None: no limit.  Connections after the plan do not break.  ``opened`` is the number
    of connections."""

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
        """Forwards bytes between sockets until one closes or the limit is reached; then closes both."""
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
