"""Progress with an estimate of the time left, on stderr: one redrawn line on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

EVERY = 10.0
"""Seconds between two lines where the stream is not a terminal."""
REDRAW = 0.2
TRUST_AFTER = 0.05
"""Share of the work after which the pace seen replaces the plan's estimate."""


def clock(seconds: float) -> str:
    """``2:05`` or ``1:02:05``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


class Progress:
    """Follows weighted work: each job's weight is its expected seconds, each advance a share of it."""

    def __init__(self, weights: Mapping[str, float], *, workers: int, stream: TextIO | None = None) -> None:
        self.weights, self.workers = dict(weights), workers
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.share: dict[str, float] = dict.fromkeys(weights, 0.0)
        self.settled = 0
        self.begun = time.monotonic()
        self.shown = self.begun if not self.terminal else 0.0

    @property
    def fraction(self) -> float:
        total = sum(self.weights.values())
        return sum(self.weights[job] * share for job, share in self.share.items()) / total if total else 1.0

    def left(self) -> float:
        """Seconds left, from the pace so far or, at the very start, from the plan."""
        done, elapsed = self.fraction, time.monotonic() - self.begun
        planned = sum(self.weights.values()) / self.workers
        return elapsed / done * (1 - done) if done > TRUST_AFTER else max(0.0, planned * (1 - done))

    def advance(self, job: str, share: float) -> None:
        """``share`` of the job is done, in 0…1."""
        self.share[job] = min(share, 1.0)

    def settle(self, job: str, note: str) -> None:
        """The job is over; ``note`` is worth a line."""
        self.share[job] = 1.0
        self.settled += 1
        self._line(f"{note}  ({self.settled} of {len(self.weights)} cells, {clock(self.left())} left)")

    def tick(self) -> None:
        """Redraw, or say something if it has been quiet for long."""
        now = time.monotonic()
        if now - self.shown < (REDRAW if self.terminal else EVERY):
            return
        text = f"{self.fraction:4.0%}  {self.settled} of {len(self.weights)} cells  {clock(self.left())} left"
        if self.terminal:
            self.stream.write(f"\r\x1b[2K{bar(self.fraction)} {text}")
            self.stream.flush()
            self.shown = now
        else:
            self._line(text)

    def close(self) -> None:
        """Leave the terminal's line clean."""
        if self.terminal:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()

    def _line(self, text: str) -> None:
        self.stream.write(f"\r\x1b[2K{text}\n" if self.terminal else f"{text}\n")
        self.stream.flush()
        self.shown = time.monotonic() if not self.terminal else 0.0


def bar(fraction: float, width: int = 24) -> str:
    """A bar of eighths of a cell."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(width)
