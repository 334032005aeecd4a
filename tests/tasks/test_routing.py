"""The least confidence that is answered: what it promises holds, however it is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from variorum.tasks.decisions import NEVER, least_for_budget, least_for_risk


@pytest.mark.mechanism("X")
@pytest.mark.parametrize("right", [0.9, 0.88, 0.8])
def test_a_risk_is_promised_in_vain_in_at_most_one_of_twenty_samples(right: float) -> None:
    """Confidence says nothing here and the true risk is at or above what is asked: any promise is a false one.

    Of 600 samples at most 5 %, and what chance adds to that in 99 of 100 cases.
    """
    chance, broken = np.random.default_rng(0), 0
    for _ in range(600):
        broken += least_for_risk(chance.random(400), chance.random(400) < right, 0.1 - 1e-9) < NEVER
    assert broken <= 600 * 0.05 + 2.33 * (600 * 0.05 * 0.95) ** 0.5


@pytest.mark.mechanism("X")
def test_a_promise_that_can_be_kept_is_given_and_answers_much() -> None:
    chance = np.random.default_rng(1)
    confidence = chance.beta(4, 1, 3000)
    right = chance.random(3000) < confidence
    least = least_for_risk(confidence, right, 0.1)
    new = chance.beta(4, 1, 100_000)
    answered = new >= least
    assert 1 - new[answered].mean() <= 0.1
    assert answered.mean() >= 0.4
    assert least_for_risk(confidence, right, 0.5) <= confidence.min()


def test_few_rows_promise_nothing_and_equal_confidences_stay_together() -> None:
    assert least_for_risk(np.ones(20), np.ones(20, dtype=bool), 0.1) == NEVER
    assert least_for_risk(np.ones(40), np.ones(40, dtype=bool), 0.1) == 1
    mixed = np.repeat([0.9, 0.5], 100)
    assert least_for_risk(mixed, mixed > 0.6, 0.1) == 0.9


@pytest.mark.mechanism("X")
def test_a_budget_is_what_somebody_can_look_at() -> None:
    confidence = np.random.default_rng(0).random(1000)
    assert (confidence < least_for_budget(confidence, 0.2)).sum() == 200
    assert least_for_budget(confidence, 0) == 0
