"""Progress: honest shares, an estimate of the time left, and quiet where nobody watches a terminal."""

from __future__ import annotations

import io

import pytest

from variorum.study import progress
from variorum.study.progress import Progress, bar, clock


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_work_is_weighed_by_its_expected_seconds(time: Clock):
    shown = Progress({"long": 30.0, "short": 10.0}, workers=2, stream=io.StringIO())
    shown.advance("long", 0.5)
    assert shown.fraction == pytest.approx(15 / 40)


def test_the_plan_estimates_first_and_the_pace_seen_later(time: Clock):
    shown = Progress({"a": 100.0, "b": 100.0}, workers=2, stream=io.StringIO())
    assert shown.left() == pytest.approx(100.0)
    time.now += 50
    shown.advance("a", 0.5)  # a quarter of all the work took 50 s: three times as much is left
    assert shown.left() == pytest.approx(150.0)


def test_off_a_terminal_lines_are_rare_and_whole(time: Clock):
    stream = io.StringIO()
    shown = Progress({"a": 10.0, "b": 10.0}, workers=1, stream=stream)
    for _ in range(100):
        time.now += 0.25
        shown.tick()
    shown.settle("a", "a: done")
    shown.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3  # two in 25 seconds, one for the cell
    assert lines[-1].startswith("a: done  (1 of 2 cells")
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_one_line_is_redrawn_and_left_clean(time: Clock):
    stream = Terminal()
    shown = Progress({"a": 10.0}, workers=1, stream=stream)
    shown.advance("a", 0.5)
    time.now += 1
    shown.tick()
    shown.close()
    assert " 50%" in stream.getvalue()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_times_and_bars_are_readable():
    assert [clock(s) for s in (0, 59.6, 125, 3725)] == ["0:00", "1:00", "2:05", "1:02:05"]
    assert bar(0.0, 4) == "    "
    assert bar(1.0, 4) == "████"
    assert bar(0.5, 3) == "█▌ "
