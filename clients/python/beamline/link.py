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


class Headers(dict):
    """The headers of a reply by name, in small letters or not; the keys are in small letters."""

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
        self.replies: Any = None  # the socket as a file
        self.poll: Any = None

    def open(self) -> socket.socket:
        link = socket.create_connection(self.address, self.timeout)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = link if self.tls is None else self.tls.wrap_socket(link, server_hostname=self.address[0])
        self.replies = self.sock.makefile("rb", LIMIT)
        if hasattr(select, "poll"):
            self.poll = select.poll()
            self.poll.register(self.sock, select.POLLIN)
        return self.sock

    def close(self) -> None:
        """Close the connection."""
        if self.sock is not None:
            self.replies.close()
            self.sock.close()
            self.sock = None

    def has_data(self, seconds: float) -> bool:
        """Is there something to read, or the end of the connection, within so many seconds?"""
        if self.poll is None:  # Windows, where select() takes a socket of any number
            return bool(select.select([self.sock], [], [], seconds)[0])
        return bool(self.poll.poll(1000 * seconds))

    def exchange(self, method: str, path: str, body: bytes | bytearray | memoryview | None, headers: dict,
                 waits: Callable[[], None] | None = None) -> tuple[int, Headers, bytes]:
        """(status, headers, body) of one exchange.  OSError where the server cannot be reached, or where its answer breaks off; then the connection
        is closed.  |waits| is called where a reply has not begun after LONG_SECONDS."""
        size = None if body is None else memoryview(body).nbytes
        head = self.head(method, path, size, headers)
        # The server has closed a connection on which it sends something before a request.
        if self.sock is not None and self.has_data(0):
            self.close()
        link = self.sock or self.open()
        if not size or body is None:
            link.sendall(head)
        elif size < LIMIT:
            link.sendall(head + bytes(body))
        else:
            link.sendall(head)
            link.sendall(body)
        if waits is not None and not self.has_data(LONG_SECONDS):
            waits()
        status, got = self.begin()
        try:
            data = b"" if method == "HEAD" or status in (204, 304) else self.receive(got)
        except ValueError as error:  # a length that is no number
            raise ConnectionResetError("the answer is not that of an HTTP server") from error
        if got.get("connection", "").lower() == "close":
            self.close()
        return status, got, data

    def head(self, method: str, path: str, size: int | None, headers: dict) -> bytes:
        """The head of a request with a body of |size| bytes.  ValueError for an address or a header that would begin another request."""
        text = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n"
        for name, value in headers.items():
            if "\n" in value or "\r" in value or UNSAFE.search(name):
                raise ValueError(f"the header {name!r} has more than one line, or a space in its name")
            text += f"{name}: {value}\r\n"
        if UNSAFE.search(path):
            raise ValueError(f"the address {path!r} has a space or a line break: quote it (urllib.parse.quote)")
        if "Content-Length" not in headers and (size is not None or method not in ("GET", "HEAD", "DELETE")):
            text += f"Content-Length: {size or 0}\r\n"
        return (text + "\r\n").encode("latin-1")

    def line(self) -> bytes:
        """The next line of a reply."""
        line = self.replies.readline(LIMIT)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the server's answer broke off" if len(line) < LIMIT else "the head of the server's answer is too long")
        return line.strip()

    def begin(self) -> tuple[int, Headers]:
        """The status and the headers of a reply, after those that say that it goes on."""
        status, headers = 100, Headers()
        while 100 <= status < 200:
            words = self.line().split(None, 2)
            if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
                raise ConnectionResetError("the answer is not that of an HTTP server")
            status, headers = int(words[1]), Headers()
            for _ in range(HEADERS):
                line = self.line()
                if not line:
                    break
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            else:
                raise ConnectionResetError(f"the server's answer has {HEADERS} headers or more")
        return status, headers

    def receive(self, headers: Headers) -> bytes:
        """The body of a reply."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.line().split(b";")[0], 16):
                parts.append(self.read(size))
                self.line()
            while self.line():
                continue
            return b"".join(parts)
        if "content-length" not in headers:  # a head that broke off
            raise ConnectionResetError("the server's answer broke off")
        return self.read(int(headers["content-length"]))

    def read(self, size: int) -> bytes:
        if size < 0:
            raise ValueError(size)
        data = self.replies.read(size)
        if len(data) < size:
            raise ConnectionResetError(f"the server's answer broke off after {len(data)} of {size} bytes")
        return data
