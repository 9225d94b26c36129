# SPDX-License-Identifier: MIT
"""Runs a program in a pseudo-terminal of a given size and renders its screen."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(r"\x1b\[(\d*)A|\x1b\[(J|K|H\x1b\[2J|2m|0m)")


class Screen:
    """``lines`` is the current screen, ``written`` the complete output."""

    def __init__(self, *words, rows=24, columns=80, **env):
        self.rows, self.columns, self.written = rows, columns, b""
        self.controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([str(word) for word in words], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env}, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(terminal)

    def read(self, seconds=0.1):
        """Reads output.  False: the program has ended."""
        ready, _, _ = select.select([self.controller], [], [], seconds)
        if not ready:
            return True
        try:
            piece = os.read(self.controller, 65536)
        except OSError:
            return False
        self.written += piece
        return bool(piece)

    def until(self, condition, seconds=30):
        """Reads until condition(self) is true."""
        end = time.monotonic() + seconds
        while not condition(self):
            if time.monotonic() > end or not self.read():
                if condition(self):
                    return
                raise AssertionError("\n".join(self.lines()) + f"\n{self.written[-2000:]}")

    def type(self, text):
        os.write(self.controller, text)

    def end(self, seconds=30):
        """Returns the exit status."""
        end = time.monotonic() + seconds
        while self.read() and time.monotonic() < end:
            pass
        try:
            return self.process.wait(max(0.1, end - time.monotonic()))
        finally:
            self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.controller is not None:
            os.close(self.controller)
            self.controller = None

    def lines(self):
        """The rows of the screen from the top; an unknown escape sequence stays in the text."""
        cells, x, y, text = [[]], 0, 0, self.written.decode(errors="replace")
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            at = found.end() if found else at + 1
            if found and found[1] is not None:
                y = max(0, y - int(found[1] or 1))
            elif found and found[2] in ("J", "K"):
                del cells[y][x:]
                if found[2] == "J":
                    del cells[y + 1:]
            elif found and found[2].startswith("H"):
                cells, x, y = [[]], 0, 0
            elif found:
                pass
            elif text[at - 1] == "\n":
                y += 1
                if y == self.rows:  # scrolls
                    del cells[0]
                    y -= 1
                while len(cells) <= y:
                    cells.append([])
            elif text[at - 1] == "\r":
                x = 0
            else:
                cells[y].extend(" " * (x - len(cells[y])))
                cells[y][x:x + 1] = text[at - 1]
                x += 1
        return ["".join(row) for row in cells]
