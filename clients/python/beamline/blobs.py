# SPDX-License-Identifier: MIT
"""Bytes on a server, under their own SHA-256: sent once, and from where a broken connection left off."""
from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from typing import Any, BinaryIO, Callable, Iterator

from .connection import Conflict, NotFound

PIECE = 16 << 20  # bytes of a request: what is sent again where a connection breaks without a word is no more


class Blob:
    """Bytes on the server by their digest, "sha256:" and 64 hexadecimal digits: Client.upload sends them, Client.blob names some."""

    def __init__(self, client, digest) -> None:
        self.client, self.digest = client, digest

    def __repr__(self) -> str:
        return f"Blob({self.digest!r})"

    def path(self) -> str:
        return self.client.path("blobs", self.digest)

    def exists(self) -> bool:
        """Whether the server has them from this key; what others put, it does not tell."""
        try:
            self.client.request("HEAD", self.path(), repeat=True)
            return True
        except NotFound:
            return False

    def get(self) -> bytes:
        """The bytes.  NotFound where this key did not put them."""
        return self.client.request("GET", self.path(), repeat=True)[1]

    def received(self, total) -> int:
        """How many of |total| bytes are there: what an upload goes on behind."""
        return self.send(b"", f"bytes */{total}")["received"]

    def send(self, data, place=None) -> dict:
        """Send bytes, of which |place| is the Content-Range; None: they are all.  {"digest", "received", "bytes"}."""
        headers = {"Content-Type": "application/octet-stream", **({"Content-Range": place} if place else {})}
        return self.client.answer("PUT", self.path(), data, headers)

    def delete(self) -> None:
        """Remove it, or what was sent of it.  NotFound where there is neither."""
        self.client.request("DELETE", self.path())


def digest_of(file) -> tuple[str, int]:
    """(digest, bytes) of what a file has from where it stands."""
    hashed, size = hashlib.sha256(), 0
    while data := file.read(1 << 20):
        hashed.update(data)
        size += len(data)
    return "sha256:" + hashed.hexdigest(), size


@contextlib.contextmanager
def opened(data) -> Iterator[BinaryIO]:
    """Bytes, the name of a file or a binary file that can seek, as the last."""
    if isinstance(data, (str, os.PathLike)):
        with open(data, "rb") as file:
            yield file
    elif hasattr(data, "read"):
        yield data
    else:
        yield io.BytesIO(data)


def upload(client, data, progress: Callable[[int, int], Any] | None) -> Blob:
    """What Client.upload does."""
    with opened(data) as file:
        start = file.tell()
        digest, size = digest_of(file)
        blob = Blob(client, digest)
        if not blob.exists():
            send_all(blob, file, start, size, progress or (lambda done, total: None))
    return blob


def send_all(blob, file, start, size, progress) -> None:
    if size == 0:
        blob.send(b"")
        return
    failures, done = 0, None
    while done is None or done < size:
        try:
            if done is None:
                done = blob.received(size)
            else:
                file.seek(start + done)
                piece = file.read(min(PIECE, size - done))
                done = blob.send(piece, f"bytes {done}-{done + len(piece) - 1}/{size}")["received"]
            progress(done, size)
            failures = 0
        except (*blob.client.BROKEN, Conflict):  # the server may not have seen yet that a connection has ended
            failures += 1
            if failures > blob.client.retries:
                raise
            time.sleep(blob.client.pause(failures))
            done = None
