"""Classification: label order, macro-F1 worked by hand, padding that does not show, a baseline that learns."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from variorum.errors import NotFound, UsageError
from variorum.tasks.baselines.linear import fit_and_predict
from variorum.tasks.labels import LabelSet
from variorum.tasks.metrics.classes import (
    accuracy,
    balance,
    confusion,
    confusion_by_group,
    leave_one_group_out,
    macro_f1,
    per_class_f1,
)
from variorum.tasks.rows import by_length, collate, predict, wrap


@pytest.mark.case("V055")
def test_labels_have_one_order_whatever_the_rows_order():
    names = ["zebra", "Apple", "mango", "10", "9"]
    for seed in range(5):
        shuffled = random.Random(seed).sample(names * 3, 15)
        assert LabelSet.of(shuffled).names == ("10", "9", "Apple", "mango", "zebra")


@pytest.mark.case("V055")
@pytest.mark.parametrize("hash_seed", ["0", "1", "77"])
def test_the_label_order_does_not_depend_on_hashing(hash_seed: str):
    code = "from variorum.tasks.labels import LabelSet; print(LabelSet.of({'zebra','Apple','mango','10','9'}).names)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "('10', '9', 'Apple', 'mango', 'zebra')"


def test_the_order_is_scikit_learns_so_that_columns_of_scores_mean_the_same():
    assert LabelSet.of(["10", "9", "2"]).names == ("10", "2", "9") == tuple(np.unique(["10", "9", "2"]))


def test_an_unknown_label_names_its_nearest():
    with pytest.raises(NotFound, match="did you mean tweet"):
        LabelSet(("movie", "tweet")).ids(["movie", "twet"])
    with pytest.raises(UsageError):
        LabelSet(("movie", "movie"))


def test_macro_f1_worked_by_hand():
    counts = confusion([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 0], 3)
    assert counts.tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert per_class_f1(counts).tolist() == pytest.approx([4 / 6, 4 / 5, 0.0])
    assert macro_f1(counts) == pytest.approx((4 / 6 + 4 / 5) / 3)
    assert accuracy(counts) == pytest.approx(4 / 6)


def test_a_class_that_neither_occurs_nor_is_predicted_is_left_out():
    assert macro_f1(confusion([0, 1], [0, 1], 3)) == 1.0


def test_macro_f1_and_its_jackknife_equal_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted, groups = rng.integers(0, 4, 300), rng.integers(0, 4, 300), rng.integers(0, 12, 300)
    by_group = confusion_by_group(truth, predicted, groups, 4)
    assert macro_f1(by_group.sum(0)) == pytest.approx(f1_score(truth, predicted, average="macro"))
    for group, left in enumerate(leave_one_group_out(by_group)):
        keep = groups != group
        assert left == pytest.approx(f1_score(truth[keep], predicted[keep], average="macro"))


def test_rows_are_wrapped_and_cuts_are_counted():
    encoded = wrap([[5, 6], [5, 6, 7, 8]], [0, 1], first=1, last=2, longest=5)
    assert encoded.rows == ((1, 5, 6, 2), (1, 5, 6, 7, 2))
    assert encoded.cut == 1


@pytest.mark.case("V036")
def test_an_empty_text_is_its_wrapper():
    encoded = wrap([[]], [0], first=1, last=2, longest=5)
    assert collate(encoded.rows, encoded.labels, pad=0)["input_ids"].tolist() == [[1, 2]]


def test_padding_is_masked():
    batch = collate([[1, 2, 3], [4]], [0, 1], pad=9)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [0, 1]


def test_batches_hold_similar_lengths_within_the_token_budget_and_every_row_once():
    rows = [[0] * length for length in (3, 9, 1, 4, 4, 8, 2)]
    batches = by_length(rows, tokens=12)
    assert sorted(i for batch in batches for i in batch) == list(range(7))
    assert all(len(batch) * max(len(rows[i]) for i in batch) <= 12 for batch in batches)


class LengthAsClass(torch.nn.Module):
    """Votes for the class whose number is the count of real tokens minus one."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor):
        class Output:
            logits = torch.nn.functional.one_hot(attention_mask.sum(1) - 1, 4).float()

        return Output


def test_predictions_return_in_the_order_of_the_rows():
    rows = [[7] * length for length in (3, 1, 4, 2, 1, 4)]
    predicted, scores = predict(LengthAsClass(), rows, pad=0, tokens=6)
    assert predicted.tolist() == [2, 0, 3, 1, 0, 3]
    assert scores.exp().sum(1).tolist() == pytest.approx([1.0] * 6)
    with pytest.raises(UsageError):
        predict(LengthAsClass(), [], pad=0)


@pytest.mark.mechanism("Z20")
def test_the_baseline_learns_a_separable_task_and_is_deterministic():
    texts = [f"{word} number {i}" for i in range(40) for word in ("cat purrs", "dog barks")]
    labels = [i % 2 for i in range(80)]
    first, weights = fit_and_predict(texts[:60], labels[:60], texts[60:])
    assert first == labels[60:]
    assert weights > 10
    assert fit_and_predict(texts[:60], labels[:60], texts[60:])[0] == first


def test_balance_counts_labels_most_frequent_first():
    assert list(balance(["b", "a", "b", "c"]).items()) == [("b", 2), ("a", 1), ("c", 1)]
