"""What other rows are worth: figures equal scikit-learn's, differences are paired, and a real gain is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from sklearn.metrics import f1_score

from variorum.errors import UsageError
from variorum.tasks.labelling.correction import Labelled
from variorum.tasks.labelling.worth import BOTH, GOLD, MODEL, weighted, worth
from variorum.tasks.trials import Rows, learner, trials
from variorum.text.corpora import sentiment


class Says:
    """Answers with the labels that it learnt from, over and over."""

    def __call__(self, rows: Rows, seed: int) -> Callable[[Sequence[str]], list[str]]:
        return lambda texts: [rows.labels[(i + seed) % len(rows.labels)] for i in range(len(texts))]


def test_figures_are_those_of_scikit_learn() -> None:
    truth = ["a", "b", "c"] * 20
    test = Rows(["x"] * 60, truth)
    one, other = Rows(["x"] * 4, ["a", "b", "b", "c"]), Rows(["x"] * 5, ["a", "b", "c", "a", "a"])
    found = trials(Says(), {"one": one, "other": lambda seed: other}, test, seeds=2)
    for trial, rows in zip(found, (one, other), strict=True):
        answers = [Says()(rows, seed)(test.texts) for seed in range(2)]
        macro = np.mean([f1_score(truth, given, average="macro") for given in answers])
        assert trial.f1["macro"].value == pytest.approx(macro)
        by_class = np.mean([f1_score(truth, given, average=None) for given in answers], 0)
        assert [trial.f1[name].value for name in "abc"] == pytest.approx(list(by_class))
    assert found[0].gain == {}
    assert found[1].gain["macro"].value == pytest.approx(found[1].f1["macro"].value - found[0].f1["macro"].value)
    assert [one.rows for one in found] == [4, 5]


def test_the_same_rows_gain_nothing_and_are_sure_of_it() -> None:
    rows = Rows(["good", "bad"] * 10, ["a", "b"] * 10)
    found = trials(learner(), {"one": rows, "other": rows}, rows)
    assert found[1].gain["macro"].value == found[1].gain["macro"].low == found[1].gain["macro"].high == 0


def test_rows_are_joined_with_their_weights() -> None:
    both = Rows(["a"], ["x"]).and_(Rows(["b"], ["y"], [0.5]))
    assert (both.texts, both.labels, both.weights) == (["a", "b"], ["x", "y"], [1.0, 0.5])
    assert both.at([1]).weights == [0.5]


def test_one_label_only_is_what_is_said_of_every_text() -> None:
    assert learner()(Rows(["x", "y"], ["a", "a"]), 0)(["z"] * 3) == ["a"] * 3
    with pytest.raises(UsageError, match="nothing"):
        learner()(Rows([], []), 0)


def test_one_seed_gives_no_difference() -> None:
    with pytest.raises(UsageError, match="two seeds"):
        trials(learner(), {}, Rows(["a"], ["a"]), seeds=1)


@pytest.mark.mechanism("D4")
def test_many_good_labels_of_a_model_beat_few_of_people_and_both_are_best() -> None:
    """200 snippets labelled by people; 2,000 by one who is right in 85 of 100 cases, and knows how sure it is."""
    snippets = [one for one in sentiment()[::6] if one.domain in ("movie", "tweet")]
    texts, labels = [one.text for one in snippets], [one.domain for one in snippets]
    order = np.random.default_rng(0).permutation(len(texts))
    gold, rest, test = (Rows(texts, labels).at(part) for part in (order[:100], order[100:1500], order[1500:]))
    chance = np.random.default_rng(1)
    right = chance.random(len(rest.texts)) < 0.85
    other = {"movie": "tweet", "tweet": "movie"}
    given = tuple(one if well else other[one] for one, well in zip(rest.labels, right, strict=True))
    sure = np.where(right, 0.9, 0.6)
    labelled = Labelled(("movie", "tweet"), (None, *given[1:]), sure, np.zeros((0, 2)), np.zeros(2))
    rows = weighted(rest.texts, labelled)
    assert len(rows.texts) == len(rest.texts) - 1  # what got no label teaches nothing
    found = {one.name: one for one in worth(learner(), gold, rows, test)}
    assert list(found) == [GOLD, MODEL, BOTH]
    assert found[BOTH].gain["macro"].low > 0
    assert found[BOTH].f1["macro"].value >= found[MODEL].f1["macro"].value - 0.01
