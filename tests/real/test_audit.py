"""Labels of real mails that were made wrong are doubted, and few others, whether a class is rare or not."""

from __future__ import annotations

import pytest

from tests.tools.doubted import audit_of, domains, mails, minilm
from tests.tools.weights import need

pytestmark = pytest.mark.real_weights


@pytest.mark.mechanism("X")
@pytest.mark.parametrize(("one_in", "precision", "recall"), [(1, 0.93, 0.9), (20, 0.85, 0.85)])
def test_most_mails_with_a_wrong_label_are_doubted_and_few_others(one_in: int, precision: float, recall: float) -> None:
    need("spam")
    found = audit_of(mails(one_in), seed=0)
    assert found[0] >= precision and found[1] >= recall, found


@pytest.mark.nightly
@pytest.mark.mechanism("X")
def test_vectors_of_a_small_encoder_show_more_of_them() -> None:
    need("minilm")
    labelled = domains("product", "tweet", rows=1500)
    alone, found = audit_of(labelled, seed=0), audit_of(labelled, 0, minilm())
    assert found[0] >= alone[0] and found[1] >= alone[1] + 0.05, (alone, found)
