"""``python -m tests.faults.study``: a study whose whole process group is killed at random moments, as a table.

Each ends, after as many restarts as it takes, in what the uninterrupted study left: the same files, and byte for byte
the same report, result and pins. Times and heights of memory, which no two runs share, are set to one value in all
cells before the reports are drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.resume import ended, forked
from tests.study import fakes
from variorum.cli import main as variorum

WORDS = ("study", "run", "--arms", "gpt2", "llama", "--data", "texts", "--budget", "20steps", "--seeds", "3", "--vocab",
         "300", "--batch", "2", "--length", "16", "--out", "study")  # fmt: skip
PAGES = ("report.html", "result.json", "manifest.json")
CLOCKED = ("seconds", "train_seconds", "rest_seconds", "peak_bytes")


def started(place: Path) -> int:
    """The study of ``place`` in a process group of its own; its process id."""

    def work() -> None:
        os.setsid()
        os.chdir(place)
        sys.argv = ["variorum", *WORDS]
        if variorum(WORDS):
            raise SystemExit(1)

    return forked(work)


def killed(place: Path, after: float) -> bool:
    """Start the study and kill it, workers and all; whether it was still alive."""
    child = started(place)
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # it had no group of its own yet
        os.kill(child, signal.SIGKILL)
    return ended(child) == -signal.SIGKILL


def finished(place: Path) -> None:
    """Carry the study to its end."""
    code = ended(started(place))
    if code:
        raise RuntimeError(f"the study ended with {code} in {place}")


def left(place: Path) -> dict[str, str]:
    """What a finished study left: every file, and the content of those that are read, without clocks."""
    for path in (place / "study" / "cells").iterdir():
        record = json.loads(path.read_bytes())
        facts = record["result"]["facts"]
        facts |= dict.fromkeys(CLOCKED, 1) | {"step_seconds": [1] * len(facts["step_seconds"])}
        record["sha256"] = hashlib.sha256(json.dumps(record["result"], sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps(record), "utf-8")
    finished(place)  # nothing is left to compute: it draws the report
    names = {str(path.relative_to(place)): "" for path in sorted(place.rglob("*")) if path.is_file()}
    return names | {name: (place / "study" / name).read_text("utf-8") for name in PAGES}


def prepared(place: Path) -> Path:
    """A folder in which the study can begin."""
    place.mkdir(parents=True)
    fakes.texts(place / "texts")
    return place


class Whole:
    """The uninterrupted study: what it left, and the seconds that it took."""

    def __init__(self, place: Path) -> None:
        prepared(place)
        begun = time.monotonic()
        finished(place)
        self.seconds = time.monotonic() - begun
        self.left = left(place)


def killed_and_finished(place: Path, kills: int, longest: float, draw: random.Random) -> tuple[int, dict[str, str]]:
    """Kill a fresh study so often within ``longest`` seconds of each start, then let it end; how many kills hit."""
    prepared(place)
    hits = sum(killed(place, draw.uniform(0, longest)) for _ in range(kills))
    finished(place)
    return hits, left(place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="that hit a study at work, one to three a study")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    asked = parser.parse_args()
    draw, hits, same, studies, begun = random.Random(asked.seed), 0, 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        whole = Whole(Path(name) / "whole")
        print(f"uninterrupted: {whole.seconds:.0f} s", flush=True)
        while hits < asked.kills:
            studies += 1
            found = killed_and_finished(Path(name) / str(studies), draw.randint(1, 3), whole.seconds, draw)
            hits, same = hits + found[0], same + (found[1] == whole.left)
            seconds = time.monotonic() - begun
            print(f"{hits:3} kills  {same:3} of {studies:3} studies the same  {seconds:5.0f} s", flush=True)
    return 0 if same == studies else 1


if __name__ == "__main__":
    sys.exit(main())
