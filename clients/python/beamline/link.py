# SPDX-License-Identifier: MIT
"""An HTTP connection to a server, kept open; requests are written and replies read by hand.  For bodies in memory:
http.client needs 0.1 ms of Python for each exchange, more than the server needs for a small graph."""
from __future__ import annotations

import re
import select
import socket
import ssl
from typing import Any, Callable

LIMIT = 1 << 16     # bytes of a line of a reply's head; bytes of a body that is sent with the head
HEADERS = 200       # most headers of a reply
LONG_SECONDS = 1.0  # a wait that a person notices
UNSAFE = re.compile(r"[\x00-\x20\x7f]")  # what a request line cannot have in its address


def has_data(link: socket.socket, seconds: float) -> bool:
    """Is there something to read, or the end of the connection, within so many seconds?"""
    if not hasattr(select, "poll"):  # Windows, where select() takes any number of a socket
        return bool(select.select([link], [], [], seconds)[0])
    poll = select.poll()
    poll.register(link, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


class Headers(dict):
    """The headers of a reply by name, in small letters or not."""

    def __init__(self, pairs) -> None:
        super().__init__((name.lower(), value) for name, value in pairs)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name) -> bool:
        return super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


class Link:
    """A connection to the server at (host, port).  It opens at the first request, and again after the server has closed it.  One thread at a
    time."""

    def __init__(self, host: str, port: int, timeout: float | None, secure: bool) -> None:
        self.address, self.timeout = (host, port), timeout
        self.tls = ssl.create_default_context() if secure else None
        self.host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.sock: socket.socket | None = None
        self.replies: Any = None

    def open(self) -> socket.socket:
        link = socket.create_connection(self.address, self.timeout)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = link if self.tls is None else self.tls.wrap_socket(link, server_hostname=self.address[0])
        self.replies = self.sock.makefile("rb", LIMIT)
        return self.sock

    def close(self) -> None:
        """Close the connection."""
        if self.sock is not None:
            self.replies.close()
            self.sock.close()
            self.sock = None

    def exchange(self, method: str, path: str, body: bytes | bytearray | None, headers: dict,
                 waits: Callable[[], None] | None = None) -> tuple[int, Headers, bytes]:
        """(status, headers, body) of one exchange.  OSError where the server cannot be reached, or where its answer breaks off; then the connection
        is closed.  |waits| is called where a reply has not begun after LONG_SECONDS."""
        head = self.head(method, path, body, headers)
        # A connection that has something to say before it was asked is one that the server has closed.
        if self.sock is not None and has_data(self.sock, 0):
            self.close()
        link = self.sock or self.open()
        if body is None or len(body) < LIMIT:
            link.sendall(head + (body or b""))
        else:
            link.sendall(head)
            link.sendall(body)
        if waits is not None and not has_data(link, LONG_SECONDS):
            waits()
        status, got = self.begin()
        try:
            data = b"" if method == "HEAD" or status in (204, 304) else self.receive(got)
        except ValueError as error:  # a length that is no number
            raise ConnectionResetError("the answer is not that of an HTTP server") from error
        if got.get("Connection", "").lower() == "close":
            self.close()
        return status, got, data

    def head(self, method: str, path: str, body: bytes | bytearray | None, headers: dict) -> bytes:
        """The head of a request.  ValueError for an address or a header that would be another one on the wire."""
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if UNSAFE.search(path) or any("\r" in line or "\n" in line for line in lines):
            raise ValueError(f"an address without spaces and headers of one line are needed, not {path!r} and {headers!r}")
        if "Content-Length" not in headers and (body is not None or method not in ("GET", "HEAD", "DELETE")):
            lines.append(f"Content-Length: {len(body or b'')}")
        return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {self.host}", *lines, "", ""]).encode("latin-1")

    def line(self) -> bytes:
        """The next line of a reply."""
        line = self.replies.readline(LIMIT)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the server's answer broke off" if len(line) < LIMIT else "the head of the server's answer is too long")
        return line.strip()

    def begin(self) -> tuple[int, Headers]:
        """The status and the headers of a reply, after those that say that it goes on."""
        status = 100
        while 100 <= status < 200:
            words, pairs = self.line().split(None, 2), []
            if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
                raise ConnectionResetError("the answer is not that of an HTTP server")
            status = int(words[1])
            while line := self.line():
                name, _, value = line.decode("latin-1").partition(":")
                pairs.append((name, value.strip()))
                if len(pairs) > HEADERS:
                    raise ConnectionResetError(f"the server's answer has more than {HEADERS} headers")
        return status, Headers(pairs)

    def receive(self, headers: Headers) -> bytes:
        """The body of a reply."""
        if headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.line().split(b";")[0], 16):
                parts.append(self.read(size))
                self.line()
            while self.line():
                continue
            return b"".join(parts)
        if "Content-Length" not in headers:  # a head that broke off
            raise ConnectionResetError("the server's answer broke off")
        return self.read(int(headers["Content-Length"]))

    def read(self, size: int) -> bytes:
        data = self.replies.read(size)
        if len(data) < size:
            raise ConnectionResetError(f"the server's answer broke off after {len(data)} of {size} bytes")
        return data
