"""Texts labelled with a model from end to end: asked, corrected, and held against people's labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from variorum.tasks.labelling.agreement import Agreement, agreement
from variorum.tasks.labelling.correction import Correction, Labelled, corrected
from variorum.tasks.labelling.examples import few, shortened
from variorum.tasks.trials import Rows
from variorum.tasks.zero_shot import Candidate, Template, Way, scorer

if TYPE_CHECKING:
    from variorum.model import Model

MOST_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class Job:
    """How texts are labelled.

    Attributes:
        candidates: the labels.
        template, way: see :func:`variorum.tasks.zero_shot.scorer`.
        correction: how scores become labels.
        few_shot: examples that are shown, taken from the gold sample.
        max_length: tokens of a text that are read.
        seed: of the choice of examples.
    """

    candidates: Sequence[Candidate]
    template: Template = field(default_factory=Template)
    way: Way | None = None
    correction: Correction = field(default_factory=Correction)
    few_shot: int = 0
    max_length: int = MOST_TOKENS
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """The labels of the texts, how many texts were cut, and agreement with the gold rows that were not shown."""

    labelled: Labelled
    cut: int
    agreement: Agreement | None


def run(model: Model, texts: Sequence[str], job: Job, gold: Rows | None = None) -> Outcome:
    """Label ``texts``, and the gold rows that are not shown as examples.

    Raises:
        UsageError: what :func:`~variorum.tasks.zero_shot.scorer` refuses.
    """
    shown, left = ([], Rows([], [])) if gold is None else few(gold, job.few_shot, seed=job.seed)
    whole, cut = shortened(model.tokenizer, [*texts, *left.texts, *(text for text, _ in shown)], job.max_length)
    asked, examples = whole[: len(texts) + len(left.texts)], whole[len(texts) + len(left.texts) :]
    judge = scorer(
        model, job.candidates, template=job.template, way=job.way,
        examples=[(text, label) for text, (_, label) in zip(examples, shown, strict=True)],
    )  # fmt: skip
    found = corrected(judge.labels, judge.scores(asked), job.correction.prior(judge), job.correction)
    own, others = (
        replace(found, labels=found.labels[part], confidence=found.confidence[part],
                probabilities=found.probabilities[part])
        for part in (slice(len(texts)), slice(len(texts), None))
    )  # fmt: skip
    return Outcome(own, cut, agreement(left.labels, others.labels) if left.texts else None)
