"""Pairs of texts, to classes and to numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.cli import models
from variorum import tasks
from variorum.errors import UsageError
from variorum.tasks.pairs import PairClassifier, PairRegressor, Regressor

WORDS = ("law", "just", "perfect", "never")


def same_word(count: int, seed: int = 0) -> tuple[list[tuple[str, str]], list[str]]:
    """Whether the second text is one word or another: only the pair's second half tells."""
    draw = random.Random(seed)
    pairs = [(draw.choice(WORDS), draw.choice(WORDS[:2])) for _ in range(count)]
    return pairs, ["yes" if second == "law" else "no" for _, second in pairs]


@pytest.mark.mechanism("H7")
def test_both_texts_are_read_and_transformers_agrees(tmp_path: Path) -> None:
    pairs, labels = same_word(120)
    start = str(models.bert(tmp_path / "start"))
    model = PairClassifier(start, epochs=8, batch_size=8, learning_rate=3e-3).fit(pairs, labels)
    assert model.score(*same_word(40, 1)) >= 0.95
    model.save(tmp_path / "tuned")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    encoding = model.model_.tokenizer.encode(*pairs[0])
    assert set(encoding.type_ids) == {0, 1}
    with torch.no_grad():
        right = theirs(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids])).logits
    assert np.abs(model.predict_proba(pairs[:1]) - right.double().softmax(-1).numpy()).max() <= 1e-6
    assert (tasks.load(tmp_path / "tuned").predict(pairs) == model.predict(pairs)).all()


@pytest.mark.mechanism("H4")
def test_numbers_are_learned_in_their_own_scale(tmp_path: Path) -> None:
    draw = random.Random(0)
    counts = [draw.randrange(6) for _ in range(200)]
    texts = [("good", "good " * count + "bad " * (5 - count)) for count in counts]
    ratings = [100.0 + 10 * count for count in counts]
    model = PairRegressor("nano", epochs=8, batch_size=8, learning_rate=1e-3, max_length=24).fit(texts, ratings)
    figures = model.evaluate(texts, ratings)
    assert figures["spearman"] >= 0.9
    assert figures["mean_absolute"] <= 6
    assert 90 <= model.predict(texts).mean() <= 160
    model.save(tmp_path / "tuned")
    assert (tasks.load(tmp_path / "tuned").predict(texts[:5]) == model.predict(texts[:5])).all()


def test_what_is_no_pair_and_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="expected two texts, got 3 in row 1"):
        PairClassifier("nano").fit([("a", "b", "c")], ["x"])
    with pytest.raises(UsageError, match="row 2: expected text"):
        PairClassifier("nano").fit([("a", "b"), ("a", None)], ["x", "y"])
    with pytest.raises(ValueError, match="'seven' is no number"):
        Regressor.target("seven")
    with pytest.raises(ValueError, match="no number"):
        Regressor.target("nan")
