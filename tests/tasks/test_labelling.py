"""Labels from scores: a leaning is taken out, unsure ones are withheld, agreement has an interval that covers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from variorum.errors import UsageError
from variorum.tasks.labelling.agreement import agreement, kappa
from variorum.tasks.labelling.correction import Correction, Labelled, corrected
from variorum.tasks.labelling.examples import few, shortened
from variorum.tasks.trials import Rows
from variorum.text import train_wordpiece_by_frequency

NAMES = ("no", "yes")


class Leaning:
    """Knows the right label a little, and likes "yes" whatever the text."""

    labels = NAMES

    def __init__(self, leaning: float = 3.0) -> None:
        self.leaning = leaning

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        evidence = np.array([[0.0, {"good": 1.0, "bad": -1.0}.get(text.split()[0], 0.0)] for text in texts])
        return evidence + np.array([0.0, self.leaning]) - 7.0


def label(scorer: Leaning, texts: Sequence[str], how: Correction | None = None) -> Labelled:
    how = how or Correction()
    return corrected(scorer.labels, scorer.scores(texts), how.prior(scorer), how)


TEXTS = ["good one", "bad one", "good two", "bad two"]
RIGHT = ("yes", "no", "yes", "no")


@pytest.mark.mechanism("G5")
@pytest.mark.parametrize("by", ["content-free", "texts"])
def test_a_leaning_is_taken_out(by: str) -> None:
    assert label(Leaning(), TEXTS, Correction(by="none")).labels == ("yes",) * 4  # type: ignore[arg-type]
    found = label(Leaning(), TEXTS, Correction(by=by))  # type: ignore[arg-type]
    assert found.labels == RIGHT
    assert found.prior[1] > 0.9
    np.testing.assert_allclose(found.probabilities.sum(1), 1)


def test_content_free_correction_leaves_what_the_text_says() -> None:
    found = label(Leaning(), TEXTS)
    assert found.probabilities[0, 1] == pytest.approx(np.e / (1 + np.e), abs=1e-9)
    assert found.confidence == pytest.approx(found.probabilities.max(1))


def test_a_label_is_withheld_where_the_next_is_near() -> None:
    sure, unsure = (label(Leaning(), ["good", "neither"], Correction(margin=margin)) for margin in (0.0, 0.1))
    assert sure.labels[0] == unsure.labels[0] == "yes"
    assert unsure.labels[1] is None
    assert (sure.withheld, unsure.withheld) == (0, 1)


def test_kappa_is_that_of_the_reference() -> None:
    chance = random.Random(0)
    gold = [chance.choice("abc") for _ in range(300)]
    given = [one if chance.random() < 0.6 else chance.choice("abc") for one in gold]
    found = agreement(gold, given)
    assert found.kappa.value == pytest.approx(cohen_kappa_score(gold, given), abs=1e-12)
    assert found.accuracy.value == pytest.approx(np.mean([a == b for a, b in zip(gold, given, strict=True)]))
    assert found.kappa.low < found.kappa.value < found.kappa.high
    assert kappa(np.array([[5.0]])) == 0


def test_the_interval_of_kappa_holds_the_truth_as_often_as_it_says() -> None:
    """Of 200 samples of 80 items, at least 90 % hold the kappa that they were drawn with."""
    joint = np.array([[0.35, 0.1, 0.02], [0.05, 0.25, 0.05], [0.01, 0.02, 0.15]])
    truth, chance, held = float(kappa(joint)), np.random.default_rng(1), 0
    for seed in range(200):
        cells = chance.choice(9, size=80, p=joint.ravel())
        found = agreement([str(c // 3) for c in cells], [str(c % 3) for c in cells], resamples=400, seed=seed)
        held += found.kappa.low <= truth <= found.kappa.high
    assert held >= 180


def test_withheld_items_are_counted_and_not_judged() -> None:
    found = agreement(["a", "b", "a"], ["a", None, "b"])
    assert (found.items, found.answered, found.accuracy.value) == (3, 2, 0.5)
    with pytest.raises(UsageError, match="gold"):
        agreement(["a"], [None])


def test_few_examples_are_of_each_label_in_turn_and_leave_the_rest_to_judge_by() -> None:
    gold = Rows([f"text {i}" for i in range(50)], ["ab"[i % 5 == 0] for i in range(50)])
    shown, left = few(gold, 6, seed=3)
    assert Counter(label for _, label in shown) == {"a": 3, "b": 3}
    assert sorted([*shown, *zip(left.texts, left.labels, strict=True)]) == sorted(
        zip(gold.texts, gold.labels, strict=True)
    )
    assert few(gold, 6, seed=3) == (shown, left) != few(gold, 6, seed=4)
    assert few(gold, 0) == ([], gold)


def test_a_long_text_loses_its_end_and_is_counted() -> None:
    tokenizer = train_wordpiece_by_frequency(["one two three four"] * 3, 60)
    texts, cut = shortened(tokenizer, ["One two, three", "four"], 3)
    assert (texts, cut) == (["One two,", "four"], 1)
