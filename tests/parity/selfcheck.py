"""Does the oracle agree with itself? Real rows padded right, padded left and alone must be the same numbers.

Where the published code is right about padding it agrees to rounding in float64. Where it is known to be wrong
(`Case.misread`), the disagreement must show, so that an exception never outlives its cause. Nothing here touches
our own code.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.parity import oracle
from tests.parity.case import Case, materialise
from tests.parity.probes import Probe
from tests.parity.tiny import CASES
from torch import nn

AGREES = 1e-10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the table: a case and a probe; worst gap in spreads, or why the oracle is not asked."""

    case: str
    kind: str
    compared: int
    present: int
    spread: float
    gap: float | None
    gradient_gap: float | None
    note: str = ""

    @property
    def passed(self) -> bool:
        worst = max(self.gap or 0.0, self.gradient_gap or 0.0)
        return worst > 1e-4 if self.note else worst <= AGREES

    def __str__(self) -> str:
        figures = [" ".join(("–" if f is None else f"{f:.1e}").rjust(8) for f in (self.gap, self.gradient_gap))]
        verdict = "" if self.passed else "  DISAGREES"
        rows = f"{self.compared}/{self.present}"
        return f"{self.case:40} {self.kind:14} {rows:>8} {self.spread:8.2f} {figures[0]}  {self.note}{verdict}"


HEAD = f"{'case':40} {'probe':14} {'rows':>8} {'spread':>8} {'scores':>8} {'gradient':>8}  against itself"


def expected(model: nn.Module, case: Case, probes: list[Probe]) -> dict[str, oracle.Outputs]:
    """The right answer per probe kind: the oracle's, or, where it misreads padding, its answer row by row."""
    with oracle.exact():
        answers = {probe.kind: oracle.run(model, probe) for probe in probes}
    return {kind: answers["alone"] if case.misread(kind) else answer for kind, answer in answers.items()}


def check(case: Case, directory: Path) -> Iterator[Line]:
    """Every probe of a case: padded against alone, continued against whole."""
    model = oracle.load64(materialise(case, directory), case.oracle)
    with oracle.exact():
        answers = {probe.kind: oracle.run(model, probe) for probe in case.probes()}
        for probe in case.probes():
            answer = answers[probe.kind]
            for name, gradient in answer.gradients.items():
                assert bool(gradient.isfinite().all()), f"{case.name} {probe.kind}: gradient of {name} is not finite"
            assert bool(answer.logits.isfinite().all()), f"{case.name} {probe.kind}: scores are not finite"
            other = None
            if probe.kind in ("right", "left"):
                other = answers["alone"]
            elif probe.whole:
                whole = Probe(kind="whole", batches=probe.whole)
                other = oracle.run(model, whole, gradients=False)
            both = other is not None and bool(other.gradients)
            yield Line(
                case=case.name,
                kind=probe.kind,
                compared=probe.compared,
                present=probe.present,
                spread=oracle.spread(answer.logits),
                gap=oracle.gap(answer, other) if other else None,
                gradient_gap=oracle.gradient_gap(answer.gradients, other.gradients) if other and both else None,
                note=(case.misread(probe.kind) or "") if other else "",
            )


def table() -> int:
    """Prints the whole table; returns the number of rows where the oracle does not agree with itself."""
    print(HEAD)
    began, wrong = time.monotonic(), 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            for line in check(case, Path(directory)):
                print(line, flush=True)
                wrong += not line.passed
    print(f"{len(CASES)} cases, {wrong} disagreements, {time.monotonic() - began:.0f} s")
    return wrong
