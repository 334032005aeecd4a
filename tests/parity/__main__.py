"""`make parity`: ours against the oracle, the worst figure per model.

python -m tests.parity                 # every tiny model
python -m tests.parity bert t5         # those whose name begins so
python -m tests.parity --cases bert    # one line per head instead of per model
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from tests import gates
from tests.parity import oracle
from tests.parity.case import Case
from tests.parity.compare import Bench, Finding, changed, differing, stored
from tests.parity.tiny import CASES

HEAD = (
    f"{'model':40} {'rows':>11} {'float64':>8} {'gradient':>8} {'float32':>8} {'oracle’s':>8} {'of limit':>8} "
    f"{'plain':>8}  round trip"
)

GATES = (
    f"Gates: float64 {gates.SCORES:.0e} of the spread, gradients {gates.GRADIENTS:.0e} of the largest, float32 "
    f"{gates.NARROW_FACTOR:g} × the oracle's + {gates.NARROW_FLOOR:.0e} of the spread. Rows left out are padding. "
    "Plain: the oracle without exact float64, not judged."
)


class Tally:
    """The worst of several findings, as one line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.findings: list[Finding] = []
        self.plain: list[float] = []
        self.problems: list[str] = []

    def add(self, case: Case) -> None:
        """Compares one case; whatever goes wrong is a problem of its line, not the end of the table."""
        with tempfile.TemporaryDirectory() as scratch:
            try:
                bench = Bench(case, Path(scratch))
                for finding in bench.findings():
                    self.findings.append(finding)
                    self.problems += [f"{case.name} {failure}" for failure in finding.failures]
                plain = bench.plain_error()
                self.plain += [] if plain is None else [plain]
                self.problems += [f"{case.name} round trip: {fault}" for fault in round_trip(bench, Path(scratch))]
            except Exception as error:  # one model must not hide the others
                place = traceback.extract_tb(error.__traceback__)[-1]
                said = str(error).splitlines()[0] if str(error) else type(error).__name__
                self.problems.append(f"{case.name}: {said} ({Path(place.filename).name}:{place.lineno})")

    def __str__(self) -> str:
        found = self.findings
        share = sum(f.compared for f in found), sum(f.present for f in found)
        worst = [
            worst_of(f.scores for f in found),
            worst_of(f.gradients for f in found),
            worst_of(f.narrow for f in found),
            worst_of(f.oracle_narrow for f in found),
        ]
        used = worst_of(f.narrow / gates.narrow_limit(f.oracle_narrow) for f in found)
        figures = " ".join(("–" if w is None else f"{w:.1e}").rjust(8) for w in worst)
        plain = f"{oracle.worst(self.plain):.1e}" if self.plain else "–"
        returned = "differs" if any("round trip" in p for p in self.problems) else "bitwise" if found else "–"
        state = "" if not self.problems else "  FAILS"
        part = "–" if used is None else f"{used:.0%}"
        return f"{self.name:40} {share[0]:>5}/{share[1]:<5} {figures} {part:>8} {plain:>8}  {returned}{state}"


def worst_of(figures: Iterable[float | None]) -> float | None:
    """The largest of those that there are; NaN if any is."""
    there = [figure for figure in figures if figure is not None]
    return oracle.worst(there) if there else None


def round_trip(bench: Bench, scratch: Path) -> list[str]:
    """What is not the same after load and save."""
    from tests.parity import ours

    saved = scratch / "saved"
    ours.load(bench.published, bench.case.head, dtype="float32").save(saved)
    faults = [f"tensor {name}" for name in differing(stored(saved), stored(bench.published))]
    return faults + [f"config {key}" for key in changed(saved, bench.published)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="names, or how they begin (all)")
    parser.add_argument("--cases", action="store_true", help="one line per head")
    options = parser.parse_args()
    chosen = [c for c in CASES if not options.models or any(c.name.startswith(m) for m in options.models)]
    if not chosen:
        parser.error(f"no tiny model is called {' or '.join(options.models)}")

    began, problems = time.monotonic(), []
    print(HEAD)
    names = dict.fromkeys(case.name if options.cases else case.tiny.name for case in chosen)
    for name in names:
        tally = Tally(name)
        for case in chosen:
            if name in (case.name, case.tiny.name):
                tally.add(case)
        print(tally, flush=True)
        problems += tally.problems
    for problem in problems:
        print(problem, file=sys.stderr)
    passed = len(chosen) - len({problem.split()[0].rstrip(":") for problem in problems})
    print(f"{passed} of {len(chosen)} cases pass, {time.monotonic() - began:.0f} s. {GATES}")
    return min(len(problems), 1)


if __name__ == "__main__":
    raise SystemExit(main())
