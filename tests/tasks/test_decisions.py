"""What turns scores into answers, on scores whose right decisions can be worked out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from variorum.errors import UsageError
from variorum.tasks.decisions import (
    NEVER,
    Decision,
    borders,
    check_shares,
    least_for_budget,
    least_for_risk,
    one_hot,
    shares,
)
from variorum.tasks.metrics.classes import calibration_error
from variorum.tasks.targets import AnyOf, OneOf

RNG = np.random.default_rng(0)
ABC = OneOf(np.array(["a", "b", "c"]))


def test_the_temperature_that_scores_were_multiplied_by_is_found() -> None:
    right = RNG.normal(size=(4000, 3))
    truth = (right + RNG.gumbel(size=right.shape)).argmax(-1)  # so that softmax(right) is the truth's distribution
    found = ABC.temperature(3.0 * right, one_hot(np.eye(3)[truth]))
    assert found == pytest.approx(3.0, rel=0.1)


def test_perfect_scores_do_not_become_infinitely_sure() -> None:
    truth = np.eye(3, dtype=bool)[RNG.integers(0, 3, 50)]
    logits = np.where(truth, 4.0, 0.0)
    temperature = ABC.temperature(logits, truth)
    assert 0.5 < temperature < 2
    assert ABC.probabilities(logits, temperature).max() < 0.995


def test_several_labels_have_a_temperature_too() -> None:
    right = RNG.normal(size=(4000, 2))
    truth = RNG.random(right.shape) < 1 / (1 + np.exp(-right))
    assert AnyOf(np.array(["x", "y"]), "|").temperature(right / 2, truth) == pytest.approx(0.5, rel=0.1)


def test_thresholds_help_a_rare_class() -> None:
    """A class of 5 % whose scores are shifted down is found again by its threshold, on other rows too."""
    truth = (RNG.random(2000) < 0.05).astype(int)
    probability = 1 / (1 + np.exp(-(3 * (2 * truth - 1) + RNG.normal(size=2000) * 2 - 4)))
    both, told = np.stack([1 - probability, probability], 1), np.eye(2, dtype=bool)[truth]
    found = Decision(thresholds=shares(both[:1000], told[:1000]))
    targets = OneOf(np.array([0, 1]))
    before, after = (
        f1_score(truth[1000:], targets.labels(targets.chosen(both[1000:], how)), average="macro")
        for how in (Decision(), found)
    )
    assert after > before + 0.02


def test_the_border_of_a_label_is_where_its_f1_is_best() -> None:
    probabilities = np.array([[0.9], [0.8], [0.3], [0.3], [0.1]])
    truth = np.array([[1], [1], [1], [0], [0]], dtype=bool)
    assert borders(probabilities, truth) == (pytest.approx(0.2),)
    assert borders(probabilities, np.zeros((5, 1), dtype=bool)) == (0.5,)


def test_a_risk_is_kept_on_further_rows() -> None:
    """In 200 draws the share of wrong answers is above the risk in 5 % at most, as it was promised."""
    broken = 0
    for _ in range(200):
        confidence = RNG.random(600)
        right = RNG.random(600) < confidence
        least = least_for_risk(confidence, right, 0.2)
        broken += (1 - (1 + least) / 2) > 0.2 if least <= 1 else 0  # answers from least on are right by (1 + least)/2
    assert broken <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5


def test_what_cannot_be_promised_is_not_answered() -> None:
    assert least_for_risk(np.array([0.9, 0.8]), np.array([True, True]), 0.01) == NEVER
    with pytest.raises(UsageError, match="a risk of 2"):
        check_shares(risk=2, budget=0.1)


def test_a_budget_is_not_overspent() -> None:
    confidence = np.array([0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 1.0])
    for budget in (0.05, 0.1, 0.2, 0.35, 0.9):
        assert (confidence < least_for_budget(confidence, budget)).mean() <= budget
    assert least_for_budget(confidence, 0.3) == 0.6
    with pytest.raises(UsageError, match="a budget of 1"):
        check_shares(budget=1)


def test_calibration_error_by_hand() -> None:
    assert calibration_error([0.9, 0.9, 0.9, 0.9], [1, 1, 1, 0]) == pytest.approx(0.15)
    assert calibration_error([1.0, 0.05], [1, 0], bins=10) == pytest.approx(0.025)
    assert calibration_error([0.75] * 4, [1, 1, 1, 0]) == 0
