"""``python -m tests.tools.labelled``: how far SmolLM2-135M agrees with people on good and bad snippets.

A hundred clearly rated snippets of the package, as many good as bad; with no example and with eight, as the model says
and with its leaning taken out in both ways.
"""

from __future__ import annotations

import random

import variorum
from tests.tools.weights import path
from variorum.cli.output import emit
from variorum.face import Model
from variorum.tasks.labelling.agreement import Agreement, agreement
from variorum.tasks.labelling.correction import Correction, corrected
from variorum.tasks.labelling.examples import few
from variorum.tasks.trials import Rows
from variorum.tasks.zero_shot import Candidate, Template, scorer
from variorum.text.corpora import sentiment

CANDIDATES = [Candidate("good", "positive"), Candidate("bad", "negative")]
TEMPLATE = Template(
    instruction="Is the review positive or negative?", question="Review: {text}", answer="Sentiment:", chat=False
)
PRIORS = ("none", "content-free", "texts")


def snippets(count: int) -> Rows:
    """Clearly rated snippets, as many good as bad, and no longer than a few lines."""
    rated = [one for one in sentiment() if abs(one.rating) > 2 and len(one.text) < 200]
    random.Random(0).shuffle(rated)
    halves = [[one for one in rated if (one.rating > 0) is good][: count // 2] for good in (True, False)]
    chosen = [one for pair in zip(*halves, strict=True) for one in pair]
    return Rows([one.text for one in chosen], ["good" if one.rating > 0 else "bad" for one in chosen])


def smollm() -> Model | None:
    """SmolLM2-135M-Instruct; ``None`` where it was not fetched."""
    folder = path("smollm2")
    return None if folder is None else variorum.load(folder / "SmolLM2-135M-Instruct.Q4_1.gguf", weights="float32")


def agreements(model: Model, rows: Rows, few_shot: int) -> dict[str, Agreement]:
    """Agreement with people on the rows that are not shown, by the prior that is divided out."""
    shown, left = few(rows, few_shot)
    judge = scorer(model, CANDIDATES, template=TEMPLATE, examples=shown)
    scores = judge.scores(left.texts)
    found = {}
    for by in PRIORS:
        how = Correction(by=by)
        found[by] = agreement(left.labels, corrected(judge.labels, scores, how.prior(judge), how).labels)
    return found


def main() -> None:
    model = smollm()
    if model is None:
        raise SystemExit("SmolLM2 was not fetched; make fetch brings it")
    rows = [
        {"examples": shown, "prior": by, "rows": one.items, "accuracy": one.accuracy.said(), "kappa": one.kappa.said()}
        for shown in (0, 8)
        for by, one in agreements(model, snippets(100 + shown), shown).items()
    ]
    emit(rows)


if __name__ == "__main__":
    main()
