"""Objectives: what is read, what is asked, and what is never asked."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from variorum.objectives.base import IGNORED
from variorum.objectives.causal import Causal, next_token_losses
from variorum.objectives.labels import Labels

RNG = torch.Generator()


class Told(torch.nn.Module):
    """A model whose logits are given; of a loss it gives the sum."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits
        self.spec = SimpleNamespace(architecture=SimpleNamespace(heads={"sequence_classification": None}))

    def forward(self, targets: torch.Tensor | None = None, **inputs: torch.Tensor):
        if targets is not None:
            asked = targets != IGNORED
            self.loss = torch.nn.functional.cross_entropy(self.logits[asked], targets[asked], reduction="sum")
        return self


@pytest.mark.mechanism("O1")
def test_a_window_of_five_tokens_asks_for_four():
    example = Causal().corrupt({"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}, RNG)
    assert example.inputs["input_ids"].tolist() == [[5, 6, 7, 8]]
    assert example.targets.tolist() == [[6, 7, 8, 9]]


@pytest.mark.case("V051")
def test_the_end_token_is_learned_even_where_it_is_also_the_padding():
    ids = torch.tensor([[5, 6, 2, 2, 2]])
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    example = Causal().corrupt({"input_ids": ids, "attention_mask": mask}, RNG)
    assert example.targets.tolist() == [[6, 2, IGNORED, IGNORED]]


def test_a_loss_is_a_sum_over_real_targets_with_their_count():
    example = Causal().corrupt(
        {"input_ids": torch.tensor([[0, 1, 2]]), "attention_mask": torch.tensor([[1, 1, 0]])}, RNG
    )
    loss = Causal().loss(Told(torch.zeros((1, 2, 8))), example)
    assert loss.count == 1
    assert loss.total.item() == pytest.approx(math.log(8))


def test_losses_per_token_are_zero_where_nothing_is_asked():
    example = Causal().corrupt(
        {"input_ids": torch.tensor([[0, 1, 2]]), "attention_mask": torch.tensor([[1, 1, 0]])}, RNG
    )
    got = next_token_losses(Told(torch.zeros((1, 2, 8))), example)
    assert got.tolist() == [[pytest.approx(math.log(8)), 0.0]]


def test_labels_are_kept_from_the_model():
    batch = {"input_ids": torch.tensor([[1, 2], [3, 4]]), "labels": torch.tensor([1, 0])}
    example = Labels().corrupt(batch, RNG)
    assert set(example.inputs) == {"input_ids"}
    loss = Labels().loss(Told(torch.tensor([[0.0, 0.0], [math.log(3), 0.0]])), example)
    assert loss.count == 2
    assert loss.total.item() == pytest.approx(math.log(2) + math.log(4 / 3))
