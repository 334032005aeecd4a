"""Ours against the oracle, on every probe of a case: float64 forward and backward, float32, and back to disk."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from tests import gates
from tests.parity import oracle, ours
from tests.parity.case import Case, materialise
from tests.parity.probes import Probe


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One probe of one case. Errors are in spreads, gradients in the largest gradient of the model.

    narrow, oracle_narrow: our float32 error, and the oracle's own at its worst probe of the case: where a probe
    compares three scores, its error there alone is chance. layer: the first hidden state that differs, when something
    does.
    """

    kind: str
    compared: int
    present: int
    scores: float
    gradients: float | None
    narrow: float
    oracle_narrow: float
    layer: int | None

    @property
    def failures(self) -> list[str]:
        """What is over its gate."""
        limit = gates.narrow_limit(self.oracle_narrow)
        where = "" if self.layer is None else f", first in hidden state {self.layer}"
        said = []
        if not self.scores <= gates.SCORES:
            said.append(f"{self.kind}: float64 {self.scores:.1e} > {gates.SCORES:.0e}{where}")
        if self.gradients is not None and not self.gradients <= gates.GRADIENTS:
            said.append(f"{self.kind}: gradient {self.gradients:.1e} > {gates.GRADIENTS:.0e}")
        if not self.narrow <= limit:
            said.append(f"{self.kind}: float32 {self.narrow:.1e} > {limit:.1e}")
        return said


class Bench:
    """One case on disk, with both sides loaded once, and the right answers computed once."""

    def __init__(self, case: Case, directory: Path) -> None:
        self.case, self.directory = case, directory
        self.published = materialise(case, directory / "published")
        self.probes = case.probes()

    @functools.cached_property
    def theirs(self) -> nn.Module:
        return oracle.load64(self.published, self.case.oracle, self.case.tiny.backend)

    @functools.cached_property
    def model(self) -> Any:
        return ours.load(self.published, self.case.head)

    @functools.cached_property
    def answers(self) -> dict[str, oracle.Outputs]:
        """Per probe the oracle's exact answer, wrong where it misreads padding."""
        return oracle.answers(self.theirs, self.probes)

    @functools.cached_property
    def right(self) -> dict[str, oracle.Outputs]:
        """Per probe the oracle's exact answer; its answer row by row where it misreads padding."""
        return self._instead(self.answers)

    @functools.cached_property
    def right_gradients(self) -> dict[str, dict[str, Tensor]]:
        """The oracle's gradients under our names."""
        answers: dict[str, dict[str, Tensor]] = {}
        for kind, answer in self.right.items():
            if answer.gradients:
                scratch = self.directory / f"gradients-{kind}"
                answers[kind] = ours.renamed(self.theirs, answer.gradients, self.case.head, scratch)
                shutil.rmtree(scratch)
        return answers

    def _instead(self, answers: dict[str, oracle.Outputs]) -> dict[str, oracle.Outputs]:
        return {kind: answers["alone"] if self.case.misread(kind) else answer for kind, answer in answers.items()}

    def findings(self) -> Iterator[Finding]:
        """Every probe, judged."""
        narrow = ours.load(self.published, self.case.head, dtype="float32")
        plain = oracle.load32(self.published, self.case.oracle, self.case.tiny.backend)
        plain_answers = self._instead({p.kind: oracle.run(plain, p, gradients=False) for p in self.probes})
        oracle_narrow = max(oracle.gap(answer, self.right[kind]) for kind, answer in plain_answers.items())
        for probe in self.probes:
            right, answer = self.right[probe.kind], ours.run(self.model, probe)
            scores = oracle.gap(answer, right)
            yield Finding(
                kind=probe.kind,
                compared=probe.compared,
                present=probe.present,
                scores=scores,
                gradients=self._gradient_gap(probe, answer),
                narrow=oracle.gap(ours.run(narrow, probe, gradients=False), right),
                oracle_narrow=oracle_narrow,
                layer=first_apart(answer, right) if not scores <= gates.SCORES else None,
            )

    def _gradient_gap(self, probe: Probe, answer: oracle.Outputs) -> float | None:
        if not answer.gradients:
            return None
        return oracle.gradient_gap(answer.gradients, self.right_gradients[probe.kind])

    def plain_error(self) -> float | None:
        """Our distance to the oracle as its users run it in float64: printed, never judged. None where it raises."""
        model = oracle.load_plain64(self.published, self.case.oracle, self.case.tiny.backend)
        probe = next((p for p in self.probes if p.kind == "right"), self.probes[0])
        with contextlib.suppress(RuntimeError):
            answer = oracle.run(model, probe, gradients=False)
            return oracle.gap(answer, self.right[probe.kind]) if not self.case.misread(probe.kind) else None
        return None


def first_apart(answer: oracle.Outputs, right: oracle.Outputs) -> int | None:
    """The first hidden state that differs from the oracle's, where both record the same ones."""
    for index, (left, other) in enumerate(zip(answer.hidden_states, right.hidden_states, strict=False)):
        if left.shape != other.shape or not float((left - other).abs().max()) <= 1e-9 * oracle.spread(other):
            return index
    return None


def stored(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a published directory, by its name on disk."""
    found: dict[str, Tensor] = {}
    for file in sorted(directory.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a mapping)
    return found


def meaning(directory: Path) -> dict[str, Any]:
    """What the published library understands by the configuration: every key with its default, sorted out."""
    import transformers

    said = transformers.AutoConfig.from_pretrained(directory).to_dict()
    bookkeeping = ("transformers_version", "_name_or_path", "dtype", "torch_dtype")
    return {key: value for key, value in json.loads(json.dumps(said)).items() if key not in bookkeeping}


def changed(saved: Path, published: Path) -> list[str]:
    """Configuration keys that no longer mean the same, with both values."""
    before, after = meaning(published), meaning(saved)
    absent = "(absent)"
    pairs = {key: (before.get(key, absent), after.get(key, absent)) for key in before.keys() | after.keys()}
    return [f"{key}: {was} -> {now}" for key, (was, now) in sorted(pairs.items()) if was != now]


def differing(saved: Mapping[str, Tensor], published: Mapping[str, Tensor]) -> list[str]:
    """Names whose tensors are missing, extra or not bitwise equal."""
    both = saved.keys() & published.keys()
    return sorted([*(n for n in both if not _same_bits(saved[n], published[n])), *(saved.keys() ^ published.keys())])


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Stricter than equality, which takes 0.0 for -0.0."""
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
