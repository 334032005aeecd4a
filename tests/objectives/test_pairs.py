"""Pairs of texts: true ones, false ones, swapped ones, translations."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from tests.objectives.corpus import END, FIRST, SYMBOLS
from variorum.errors import UsageError
from variorum.objectives.base import IGNORED, together
from variorum.objectives.masked import MaskedLM
from variorum.objectives.pairs import FALSE, TRUE, NextSentence, SentenceOrder
from variorum.objectives.translation import TranslationLM
from variorum.spec.recipe import Masking


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(first: list[list[int]], second: list[list[int]], document: list[int]) -> dict[str, torch.Tensor]:
    made = {"document": torch.tensor(document)}
    for name, rows in (("first", first), ("second", second)):
        width = max(1, *map(len, rows))
        made[name] = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        made[f"{name}_mask"] = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return made


@pytest.mark.case("V042")
def test_a_single_document_has_no_false_pairs_and_says_so() -> None:
    one = batch([[10], [11]], [[11], [12]], [0, 0])
    with pytest.warns(UserWarning, match="one document has no false pairs"):
        labels = [NextSentence(SYMBOLS).join(one, rng(seed))[1].tolist() for seed in range(5)]
    assert labels == [[TRUE, TRUE]] * 5


@pytest.mark.case("V042")
def test_an_empty_text_is_not_asked_about() -> None:
    two = batch([[10], []], [[11], []], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(20):
            assert NextSentence(SYMBOLS).join(two, rng(seed))[1].tolist() == [TRUE, IGNORED]


@pytest.mark.case("V042")
@pytest.mark.mechanism("O3")
def test_half_of_the_pairs_are_false_and_all_of_those_from_another_document() -> None:
    documents = [[6 + d % 40, 6 + d // 40] for d in range(50)]
    first, second = [[*d, 7] for d in documents for _ in range(2)], [[*d, 8] for d in documents for _ in range(2)]
    rows, false = batch(first, second, [d for d in range(50) for _ in range(2)]), 0
    for seed in range(40):
        inputs, labels = NextSentence(SYMBOLS).join(rows, rng(seed))
        false += int((labels == FALSE).sum())
        for row, label, own in zip(inputs["input_ids"].tolist(), labels.tolist(), first, strict=True):
            assert (row[1:3] == row[5:7]) == (label == TRUE)
            assert row[1:4] == own
    assert false / 4000 == pytest.approx(0.5, abs=0.02)


def test_a_false_text_is_never_the_true_one_in_another_document() -> None:
    same = batch([[10], [20]], [[11], [11]], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(NextSentence(SYMBOLS).join(same, rng(seed))[1].tolist() == [TRUE, TRUE] for seed in range(20))


@pytest.mark.mechanism("O4")
def test_half_of_the_pairs_are_swapped() -> None:
    rows = batch([[10, 11]] * 1000, [[20]] * 1000, list(range(1000)))
    inputs, labels = SentenceOrder(SYMBOLS).join(rows, rng())
    assert float(labels.double().mean()) == pytest.approx(0.5, abs=0.05)
    right, swapped = [FIRST, 10, 11, END, 20, END], [FIRST, 20, END, 10, 11, END]
    for row, label in zip(inputs["input_ids"].tolist(), labels.tolist(), strict=True):
        assert row == (swapped if label == FALSE else right)
    assert inputs["token_type_ids"][labels == FALSE][0].tolist() == [0, 0, 0, 1, 1, 1]


def test_the_loss_is_the_mean_over_hidden_words_plus_the_mean_over_pairs() -> None:
    class Told(torch.nn.Module):
        def forward(self, targets: torch.Tensor, **inputs: torch.Tensor):
            self.loss = 2.0 * (targets != IGNORED).sum()
            self.logits_by_head = {"next_sentence": torch.zeros(len(targets), 2)}
            return self

    objective = MaskedLM(Masking(), SYMBOLS, SentenceOrder(SYMBOLS))
    rows = batch([[10, 11]] * 3, [[20, 21, 22]] * 3, [0, 1, 2])
    examples = [objective.corrupt(rows, rng(seed)) for seed in range(2)]
    parts = [objective.loss(Told(), one) for one in together(objective, Told(), examples)]
    loss = sum(float(part.total) for part in parts) / sum(part.count for part in parts)
    assert loss == pytest.approx(2.0 + math.log(2))


@pytest.mark.mechanism("O14")
def test_translations_lie_side_by_side_with_positions_of_their_own() -> None:
    rows = batch([[10, 11], [10]], [[20, 21, 22], [23]], [0, 1])
    example = TranslationLM(Masking(rate=1.0, mask=0.0, random=0.0), SYMBOLS).corrupt(rows, rng())
    assert example.inputs["input_ids"][0].tolist() == [FIRST, 10, 11, END, 20, 21, 22, END]
    assert example.inputs["position_ids"][0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert example.inputs["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert example.count == 5 + 2
    assert "token_type_ids" not in TranslationLM(Masking(), SYMBOLS, segments=1).corrupt(rows, rng()).inputs


def test_single_texts_are_no_pairs() -> None:
    with pytest.raises(UsageError, match="pairs of texts are asked for"):
        MaskedLM(Masking(), SYMBOLS, NextSentence(SYMBOLS)).corrupt({"input_ids": torch.tensor([[6]])}, rng())
