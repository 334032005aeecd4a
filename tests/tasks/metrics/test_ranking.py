"""Rankings are judged as by hand, and as scikit-learn does where it has the measure."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from variorum.errors import UsageError
from variorum.tasks.metrics.ranking import ranking


def test_by_hand():
    found = ranking([[4, 1, 2], [9, 8, 7], [3]], [{1}, {1, 2}, {3, 5}], k=3)
    assert found.queries == 3
    assert found.recall == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert found.reciprocal_rank == pytest.approx((1 / 2 + 0 + 1) / 3)
    two = 1 + 1 / math.log2(3)
    assert found.gain == pytest.approx((1 / math.log2(3) + 0 + 1 / two) / 3)
    assert ranking([[4, 1, 2]], [{1}], k=1).recall == 0


@pytest.mark.parametrize("seed", range(5))
def test_gain_is_scikit_learns(seed: int):
    draw = random.Random(seed)
    rows = list(range(20))
    right = set(draw.sample(rows, draw.randrange(1, 8)))
    draw.shuffle(rows)
    truth, scores = np.zeros((1, 20)), np.zeros((1, 20))
    truth[0, list(right)] = 1
    scores[0, rows] = np.arange(20, 0, -1)
    assert ranking([rows], [right], k=10).gain == pytest.approx(ndcg_score(truth, scores, k=10))


@pytest.mark.parametrize(
    ("ranked", "answers", "k"), [([], [], 1), ([[1]], [], 1), ([[1]], [{1}], 0), ([[1]], [set()], 1)]
)
def test_what_cannot_be_judged_is_refused(ranked, answers, k):
    with pytest.raises(UsageError):
        ranking(ranked, answers, k)
