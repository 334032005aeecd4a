"""One line of progress on stderr: steps, loss, speed, time left; redrawn on a terminal, sparse elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET, REDRAW = 10.0, 0.2
"""Seconds between two lines where the stream is no terminal, and where it is one."""


def clock(seconds: float) -> str:
    """``2:05`` or ``1:02:05``."""
    minutes, secs = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


class Progress:
    """Follows ``total`` units of work, of which ``done`` were done before."""

    def __init__(self, what: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.what, self.total, self.first = what, total, done
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.begun = time.monotonic()
        self.shown = 0.0 if self.terminal else self.begun

    def at(self, done: int, note: str = "") -> None:
        """So much is done; drawn if it is time to."""
        now = time.monotonic()
        if now - self.shown < (REDRAW if self.terminal else QUIET):
            return
        self.shown = now
        pace = (now - self.begun) / max(1, done - self.first)
        left = clock(pace * (self.total - done))
        text = f"{self.what} {done:,} of {self.total:,}  {note}  {left} left".replace("    ", "  ")
        self.stream.write(f"\r\x1b[2K{text}" if self.terminal else f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the terminal's line clean."""
        if self.terminal:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()
