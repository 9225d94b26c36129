# SPDX-License-Identifier: MIT
"""HTTP to a server, and what it says when it refuses."""
from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import urllib.parse
from typing import Any, Callable, Iterator

from .link import Headers, Link


class BeamlineError(Exception):
    """What the server refused or failed at, as its problem document tells it.

    status: the HTTP status     title: what kind of failure     detail: what it was, as a person would say it
    node: the id of the graph's node at fault, or None          step: how many steps of a program were applied, or None
    """

    def __init__(self, status, detail, title=None, node=None, step=None, kind=None, retry_after=None) -> None:
        super().__init__(f"{status} {title}: {detail}" if title else f"{status}: {detail}")
        self.status, self.detail, self.title, self.node, self.step, self.type = status, detail, title, node, step, kind
        self.retry_after = retry_after


class Malformed(BeamlineError):
    """400: not the JSON, or not the members, that the address takes."""


class Forbidden(BeamlineError):
    """401, 403 and 421: no key, the wrong one, or a host name that the server does not go by."""


class NotFound(BeamlineError):
    """404: there is no such tensor, program, lease or address."""


class TensorLost(NotFound):
    """404: the server that had the numbers of a Tensor was restarted, or the lease of the numbers has ended."""


class Conflict(BeamlineError):
    """409 and 412: it is not in a state that allows this; it is there already."""


class TooLarge(BeamlineError):
    """413: the body is over the server's limit."""


class InvalidGraph(BeamlineError):
    """422: a graph, shape or value that cannot be, or that is over a limit."""


class IndexOutOfRange(InvalidGraph, IndexError):
    """422 of a run that checks indices: an index is out of range.  ``detail`` names the op, the index and the bound."""


class Busy(BeamlineError):
    """429 and 503: over quota, full or draining; ``retry_after`` is in seconds."""


class TimedOut(BeamlineError):
    """504: not done within timeout_ms; nothing was applied beyond ``step`` steps."""


class OutOfMemory(BeamlineError):
    """507: no room: in the device's memory, among what may be held, on the disk."""


ERRORS = {400: Malformed, 401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: TooLarge, 421: Forbidden,
          422: InvalidGraph, 429: Busy, 503: Busy, 504: TimedOut, 507: OutOfMemory}

# By the type of the problem document, for a status that several kinds of failure share.
TYPES = {"urn:beamline:error:eindex": IndexOutOfRange}


def make_error(status, headers, body) -> BeamlineError:
    """The exception that a reply with a failure stands for."""
    retry = headers.get("Retry-After", "")
    document = {}
    if "json" in headers.get("Content-Type", ""):
        try:
            document = json.loads(body)
        except ValueError:
            pass
    detail = document.get("detail") or document.get("error") or bytes(body[:200]).decode("utf-8", "replace")
    kind = TYPES.get(document.get("type")) or ERRORS.get(status, BeamlineError)
    return kind(status, detail, document.get("title"), document.get("node"), document.get("step"), document.get("type"),
                float(retry) if retry.isdigit() else None)


def add_address(error, url, connected) -> Exception:
    """The connection error to raise: |error| with the address of the server, and the remedy, in its text.  IncompleteRead has no text of its own: a
    ConnectionResetError takes its place, as for a head that broke off."""
    if isinstance(error, http.client.IncompleteRead):
        error = ConnectionResetError(f"the server's answer broke off: {error}")
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if connected:
        text = f"the connection to the server at {url} broke ({why}): check that the server runs, then try again"
    else:
        port = urllib.parse.urlsplit(url).port
        text = f"no server answers at {url} ({why}): start one (beamline serve --port {port}), or set BEAMLINE_URL to the address of one"
    if getattr(error, "strerror", None):
        error.strerror = text
    else:
        error.args = (text,)
    return error


class Connection:
    """HTTP with keep-alive: one connection for each thread that calls.  An exchange goes through a Link.  A body that is read from a file, and a
    reply that is read line by line, have a connection of their own and http.client."""

    waits: Callable[[], None] | None = None  # called where a reply has not begun after a second

    def __init__(self, url, timeout, key=None) -> None:
        parts = urllib.parse.urlsplit(url if "//" in url else "//" + url, "http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a server")
        self.kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.host, self.port, self.prefix = parts.hostname, parts.port or (443 if parts.scheme == "https" else 8470), parts.path.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{parts.scheme}://{host}:{self.port}{self.prefix}"
        self.timeout = timeout
        self.key = os.environ.get("BEAMLINE_KEY") if key is None else key
        self.local = threading.local()

    def signed(self, headers) -> dict:
        """Headers with the key, where there is one."""
        return {**headers, "Authorization": f"Bearer {self.key}"} if self.key else headers

    def ask(self, link, method, path, body, headers) -> http.client.HTTPResponse:
        """Send a request; the reply, of which the head is read.  link.reached tells whether there was a connection: http.client closes it on errors."""
        link.reached = False
        link.connect()
        link.reached = True
        link.request(method, self.prefix + path, body, self.signed(headers))
        reply = link.getresponse()
        if reply.length is None and not reply.chunked:  # http.client takes a head that broke off for a whole one
            reply.close()
            raise ConnectionResetError("the server's answer broke off")
        return reply

    def exchange(self, method, path, body, headers) -> tuple:
        """(status, headers, body) of one exchange."""
        if not isinstance(body, (bytes, bytearray, memoryview, type(None))):
            with self.begin(method, path, body, headers) as reply:
                return reply.status, Headers((name.lower(), value) for name, value in reply.headers.items()), reply.read()
        link = getattr(self.local, "link", None)
        if link is None:
            link = self.local.link = Link(self.host, self.port, self.timeout, self.kind is http.client.HTTPSConnection)
        try:
            return link.exchange(method, self.prefix + path, body, self.signed(headers), self.waits)
        except OSError as error:
            reached = link.sock is not None
            link.close()
            raise add_address(error, self.url, reached)
        except BaseException:
            link.close()
            raise

    def close(self) -> None:
        link = getattr(self.local, "link", None)
        if link is not None:
            link.close()

    @contextlib.contextmanager
    def begin(self, method, path, body, headers) -> Iterator[Any]:
        """The reply of one exchange on a connection of its own, of which the head is read."""
        link: Any = self.kind(self.host, self.port, timeout=self.timeout)
        try:
            with self.ask(link, method, path, body, headers) as reply:
                yield reply
        except (OSError, http.client.HTTPException) as error:
            raise add_address(error, self.url, link.reached)
        finally:
            link.close()

    @contextlib.contextmanager
    def stream(self, method, path, body=None, headers=None) -> Iterator[Any]:
        """The reply of one exchange, to be read line by line; BeamlineError where the server refuses."""
        with self.begin(method, path, body, headers or {}) as reply:
            if reply.status >= 400:
                raise make_error(reply.status, reply.headers, reply.read())
            yield reply


def read_events(lines) -> Iterator[tuple[str, Any]]:
    """(name, data) of each server-sent event; comments are skipped."""
    name, data = "", []
    for line in lines:
        line = line.decode().rstrip("\r\n")
        if not line:
            if data:
                yield name, json.loads("\n".join(data))
            name, data = "", []
        elif line.startswith("event:"):
            name = line[len("event:"):].strip()
        elif line.startswith("data:"):
            data.append(line[len("data:"):].strip())
