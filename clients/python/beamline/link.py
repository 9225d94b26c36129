# SPDX-License-Identifier: MIT
"""HTTP with as little as it takes: one connection kept open, requests written and replies read by hand.  For http://
addresses."""
from __future__ import annotations

import socket
from typing import Callable

from .connection import Connection, add_address

LIMIT = 1 << 16     # bytes of a reply's head
LONG_SECONDS = 1.0  # a wait that a person notices


class Link:
    """A connection to the server of a Connection.  It opens at the first request, and again after the server has closed it.  One thread at a
    time."""

    def __init__(self, server: Connection):
        self.address, self.prefix, self.timeout, self.url = (server.host, server.port), server.prefix, server.timeout, server.url
        host = f"{server.host}:{server.port}" if ":" not in server.host else f"[{server.host}]:{server.port}"
        self.head = f"Host: {host}\r\n" + (f"Authorization: Bearer {server.key}\r\n" if server.key else "")
        self.socket: socket.socket | None = None
        self.waits: Callable[[], None] | None = None  # called if a reply has not begun after LONG_SECONDS

    def open(self) -> socket.socket:
        link = socket.create_connection(self.address, self.timeout)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = link
        return link

    def close(self) -> None:
        """Close the connection."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def exchange(self, method: str, path: str, body: bytes = b"", content: str = "application/json",
                 accept: str = "application/json") -> tuple[int, dict, memoryview]:
        """(status, headers with lower-case names, body) of one exchange.  OSError where the server cannot be reached."""
        head = (f"{method} {self.prefix}{path} HTTP/1.1\r\n{self.head}Content-Type: {content}\r\nAccept: {accept}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        fresh = self.socket is None
        try:
            try:
                return self.talk(self.socket or self.open(), head, body)
            except ConnectionError:
                if fresh:
                    raise
                self.close()
                return self.talk(self.open(), head, body)  # the server had closed a connection that was silent for long
        except OSError as error:
            connected = self.socket is not None
            self.close()
            raise add_address(error, self.url, connected)
        except BaseException:
            self.close()
            raise

    def talk(self, link: socket.socket, head: bytes, body: bytes) -> tuple[int, dict, memoryview]:
        if len(body) < LIMIT:
            link.sendall(head + body)
        else:
            link.sendall(head)
            link.sendall(body)
        data = self.begin(link)
        while b"\r\n\r\n" not in data:
            more = link.recv(LIMIT)
            if not more:
                raise ConnectionResetError("the server closed the connection")
            data += more
            if len(data) > 2 * LIMIT:
                raise OSError("the head of the reply is too long")
        top, _, rest = data.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ", 2)[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        content = memoryview(rest) if len(rest) == length else self.receive(link, rest, length)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, headers, content

    def begin(self, link: socket.socket) -> bytes:
        """The first bytes of a reply."""
        if self.waits is None:
            return link.recv(LIMIT)
        link.settimeout(LONG_SECONDS)
        try:
            return link.recv(LIMIT)
        except socket.timeout:
            pass
        finally:
            link.settimeout(self.timeout)
        self.waits()
        return link.recv(LIMIT)

    @staticmethod
    def receive(link: socket.socket, start: bytes, length: int) -> memoryview:
        """The rest of a body of which |start| came with the head."""
        buffer = memoryview(bytearray(length))
        buffer[:len(start)] = start
        at = len(start)
        while at < length:
            got = link.recv_into(buffer[at:])
            if got == 0:
                raise OSError("the server closed the connection in the middle of a reply")
            at += got
        return buffer
