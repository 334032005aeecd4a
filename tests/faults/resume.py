"""``python -m tests.faults.resume``: runs killed at random moments and at every moment of a save, as a table.

Each ends, after as many restarts as it takes, in what the uninterrupted run left, to the last bit, or is counted lost.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults import runs
from tests.faults.test_kill import KILLED, Killer
from variorum.training import card, snapshots

SHARES = (0.0, 0.2, 0.5, 0.8, 0.99)
SECOND = 2 * runs.SAVES


@dataclasses.dataclass
class Row:
    """What became of one case under one kind of kill."""

    case: str
    kind: str
    kills: int = 0
    same: int = 0
    runs: int = 0
    seconds: float = 0.0
    lost: list[str] = dataclasses.field(default_factory=list)


def forked(work: Callable[[], object]) -> int:
    """Start ``work`` in a child; its process id."""
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def ended(child: int) -> int:
    """How a child ended: its exit code, or minus its signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def at_second_save(before: Callable[[], None], after: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Do something around the write of the second snapshot."""
    real = snapshots.Snapshots.save

    def save(self, state, facts):
        if state.step != SECOND:
            return real(self, state, facts)
        before()
        try:
            return real(self, state, facts)
        finally:
            after()

    snapshots.Snapshots.save = save
    try:
        yield
    finally:
        snapshots.Snapshots.save = real


@contextmanager
def at_card(before: Callable[[], None], after: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Do something around the write of the model card, with which a run ends."""
    real = card.write_card

    def write(*arguments):
        before()
        try:
            return real(*arguments)
        finally:
            after()

    card.write_card = write
    try:
        yield
    finally:
        card.write_card = real


def killed_in(run: Path, moment: int, around=at_second_save) -> int:
    """Run until the given moment of the second save, or of the card."""

    killer, verify = Killer(moment), snapshots.manifest.verify

    def only_read(path: Path) -> bool:
        before = sys.getprofile()
        sys.setprofile(None)
        try:
            return verify(path)
        finally:
            sys.setprofile(before)

    def work() -> None:
        snapshots.manifest.verify = only_read
        with around(lambda: sys.setprofile(killer), lambda: sys.setprofile(None)):
            runs.finish(run)

    return ended(forked(work))


def killed_in_write(run: Path, share: float, size: int) -> int:
    """Run until a share of the second snapshot's tensors is written; the system ends the process in that write."""

    def work() -> None:
        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * size), int(share * size)))

        with at_second_save(limit):
            runs.finish(run)

    return ended(forked(work))


def killed_at_random(run: Path, longest: float, draw: random.Random) -> int:
    """Run, and kill one to three times at random moments; how many kills hit a living process."""
    hits = 0
    for _ in range(draw.randint(1, 3)):
        child = forked(lambda: runs.finish(run))
        time.sleep(draw.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        hits += ended(child) == -signal.SIGKILL
    return hits


class Trial:
    """One case: its prepared run, and what the uninterrupted one left and took."""

    def __init__(self, case: runs.Case, place: Path) -> None:
        self.case, self.place = case, place
        self.start = runs.prepared(case, place / "start")
        begun = time.monotonic()
        self.whole = self._copy("whole")
        assert ended(forked(lambda: runs.finish(self.whole))) == 0
        self.seconds = time.monotonic() - begun
        self.right = runs.digest(self.whole)
        self.count = 0

    def _copy(self, name: str) -> Path:
        return runs.copied(self.start, self.place / name)

    def _fresh(self) -> Path:
        self.count += 1
        return self._copy(f"run-{self.count}")

    def _judged(self, run: Path, row: Row) -> None:
        code = ended(forked(lambda: runs.finish(run)))
        wrong = [f"exit code {code}"] if code else runs.differing(runs.digest(run), self.right) + runs.left_over(run)
        row.runs += 1
        row.same += not wrong
        row.lost += [f"{run}: {', '.join(wrong)}"] if wrong else []

    def moments(self, step: int = 1, *, around=at_second_save, of: str = "a save") -> Row:
        """Killed before and after every call of a save that changes the disk (each ``step``-th of them)."""
        row, begun, moment = Row(self.case.name, f"every moment of {of}"), time.monotonic(), 0
        while True:
            run = self._fresh()
            code = killed_in(run, moment, around)
            if code == 0:
                break
            assert code == KILLED, code
            row.kills += 1
            self._judged(run, row)
            moment += step
        row.seconds = time.monotonic() - begun
        return row

    def card(self, step: int = 1) -> Row:
        """Killed so while the card is written, at the very end."""
        return self.moments(step, around=at_card, of="the card")

    def writes(self) -> Row:
        """Killed in the middle of writing the tensors."""
        row, begun = Row(self.case.name, "in a write"), time.monotonic()
        size = max(p.stat().st_size for p in self.whole.rglob("checkpoints/*/model.safetensors"))
        for share in SHARES:
            run = self._fresh()
            assert killed_in_write(run, share, size) == -signal.SIGXFSZ
            row.kills += 1
            self._judged(run, row)
        row.seconds = time.monotonic() - begun
        return row

    def at_random(self, count: int, seed: int = 0) -> Row:
        """``count`` runs, each killed one to three times."""
        row, begun, draw = Row(self.case.name, "at random"), time.monotonic(), random.Random(f"{seed}/{self.case.name}")
        for _ in range(count):
            run = self._fresh()
            row.kills += killed_at_random(run, self.seconds, draw)
            self._judged(run, row)
        row.seconds = time.monotonic() - begun
        return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=10, help="runs of each case that are killed at random")
    parser.add_argument("--every", type=int, default=1, help="of the moments of a save, each so many-th; 1 for all")
    parser.add_argument("--case", nargs="*", default=[case.name for case in runs.CASES])
    asked = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for case in runs.CASES:
            if case.name in asked.case:
                trial = Trial(case, Path(place) / case.name.replace(" ", "-"))
                for row in (trial.at_random(asked.random), trial.writes(), trial.moments(asked.every), trial.card()):
                    rows.append(row)
                    print(f"{row.case:16} {row.kind:24} {row.kills:4} kills  {row.same:4} of {row.runs:4} runs the same"
                          f"  {row.seconds:6.0f} s", *row.lost, sep="\n  ", flush=True)  # fmt: skip
    same, whole = sum(row.same for row in rows), sum(row.runs for row in rows)
    print(f"{'all':16} {'':24} {sum(row.kills for row in rows):4} kills  {same:4} of {whole:4} runs the same")
    return 0 if same == whole else 1


if __name__ == "__main__":
    sys.exit(main())
