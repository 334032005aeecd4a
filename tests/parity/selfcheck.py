"""Does the oracle agree with itself? Real rows padded right, padded left and alone must be the same numbers.

Where the published code is right about padding it agrees to rounding in float64. Where it is known to be wrong
(`Case.misread`), the disagreement must show, so that an exception never outlives its cause. Nothing here touches
our own code.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from torch import nn

from tests.parity import oracle
from tests.parity.case import Case, materialise
from tests.parity.probes import Probe
from tests.parity.tiny import CASES

AGREES = 1e-10

#: Parameters that no score can show, by the end of their names.
INVISIBLE = {
    "key.bias": "adds the same to all scores of a query, and softmax does not see that",
    "k_lin.bias": "a key bias",
    "pos_key_proj.bias": "a key bias of the relative table",
    "mask_emb": "starts the query stream, which only pretraining runs",
    "pooler.dense.weight": "not part of the hidden states",
    "pooler.dense.bias": "not part of the hidden states",
    "pooler.weight": "not part of the hidden states",
    "pooler.bias": "not part of the hidden states",
    "key_global.bias": "a key bias of the global tokens",
    "start_logits.dense.bias": "adds the same to all starts, and they are weighed by a softmax",
    "end_logits.LayerNorm.bias": "the same for all ends, through one more matrix",
    "end_logits.dense_1.bias": "adds the same to all ends",
}
#: Families whose key bias, under this name, is not rotated afterwards: rotation would make it visible.
PLAIN_KEYS = {"k_proj.bias": ("Bart", "MBart", "Pegasus", "ViT")}
#: A parameter shows when its gradient reaches this part of the largest one on some probe.
SHOWS = 1e-5


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
        worst = oracle.worst([self.gap or 0.0, self.gradient_gap or 0.0])
        return worst > 1e-4 if self.note else worst <= AGREES

    def __str__(self) -> str:
        figures = [" ".join(("–" if f is None else f"{f:.1e}").rjust(8) for f in (self.gap, self.gradient_gap))]
        verdict = "" if self.passed else "  DISAGREES"
        rows = f"{self.compared}/{self.present}"
        return f"{self.case:40} {self.kind:14} {rows:>8} {self.spread:8.2f} {figures[0]}  {self.note}{verdict}"


HEAD = f"{'case':40} {'probe':14} {'rows':>8} {'spread':>8} {'scores':>8} {'gradient':>8}  against itself"


def check(
    case: Case, model: nn.Module, probes: Sequence[Probe], answers: Mapping[str, oracle.Outputs]
) -> Iterator[Line]:
    """Every probe of a case: padded against alone, continued against whole; at the end, whether all parameters show.

    Args:
        model: the oracle in float64. answers: what it says to each probe, by kind.
    """
    with oracle.exact():
        for probe in probes:
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
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    plain = tuple(end for end, oracles in PLAIN_KEYS.items() if case.tiny.oracle in oracles)
    never = unread(case)
    hidden = [
        name
        for name in unseen(answers.values())
        if name in trained and not name.endswith(plain) and not any(part in name for part in never)
    ]
    assert not hidden, f"{case.name}: no probe shows {hidden[:4]}"


def unread(case: Case) -> tuple[str, ...]:
    """Projections of Longformer's last layer that make only states which no head reads.

    Its sequence head reads the first token, which is global; choices are judged by the first token, which is not.
    """
    kind = {"sequence_classification": "", "multiple_choice": "_global"}.get(case.head or "")
    if kind is None or case.tiny.oracle != "Longformer":
        return ()
    last = f"layer.{case.config['num_hidden_layers'] - 1}.attention.self"
    return tuple(f"{last}.{part}{kind}." for part in ("query", "key", "value"))


def unseen(answers: Iterable[oracle.Outputs]) -> list[str]:
    """Parameters whose value would not matter on any probe, beyond those that never can."""
    shares: dict[str, float] = {}
    for answer in answers:
        largest = max((float(g.abs().max()) for g in answer.gradients.values()), default=1.0)
        for name, gradient in answer.gradients.items():
            shares[name] = max(shares.get(name, 0.0), float(gradient.abs().max()) / largest)
    return [name for name, share in shares.items() if share < SHOWS and not name.endswith(tuple(INVISIBLE))]


def table() -> int:
    """Prints the whole table; returns the number of rows where the oracle does not agree with itself."""
    print(HEAD)
    began, wrong = time.monotonic(), 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            model = oracle.load64(materialise(case, Path(directory)), case.oracle, case.tiny.backend)
            probes = case.probes()
            for line in check(case, model, probes, oracle.answers(model, probes)):
                print(line, flush=True)
                wrong += not line.passed
    print(f"{len(CASES)} cases, {wrong} disagreements, {time.monotonic() - began:.0f} s")
    return wrong
