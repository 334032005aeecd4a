"""Labels of whole texts: what is lost, whatever is padded, packed, weighed or cut into pieces."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from tests.objectives.test_accumulation import gradients
from tests.tiny_specs import made, tiny
from variorum.builder import build
from variorum.objectives.labels import Labels, losses
from variorum.spec.heads import Problem

HEAD = "sequence_classification"
NAMES = ("bert", "gpt2", "deberta-v3", "modernbert", "t5", "xlnet")


def batch(labels: torch.Tensor, weight: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Six texts of one to seven tokens."""
    lengths = torch.tensor([3, 1, 7, 2, 5, 7])
    ids = torch.randint(6, 50, (6, 7), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(7) < lengths[:, None]).long()
    found = {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}
    return found if weight is None else {**found, "weight": weight}


def targets(problem: Problem) -> torch.Tensor:
    one = torch.Generator().manual_seed(1)
    if problem == "regression":
        return torch.randn(6, generator=one, dtype=torch.float64)
    if problem == "multi_label":
        return torch.randint(0, 2, (6, 3), generator=one).double()
    return torch.tensor([0, 2, 1, -100, 2, 0])


@pytest.mark.case("V048")
@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_a_step_are_the_step(name: str, problem: Problem) -> None:
    """Also where rows weigh differently: ragged pieces, whole-step mean, float64 gradients to 1e-10."""
    labels = 1 if problem == "regression" else 3
    at = f"architecture.heads.{HEAD}"
    model = made(tiny(name, {f"{at}.labels": labels, f"{at}.problem": problem}), HEAD)
    objective = Labels(focus=1.5)
    weight = torch.tensor([1.0, 0.5, 2.0, 1.0, 0.1, 3.0], dtype=torch.float64)
    whole = batch(targets(problem), weight)
    rows = (slice(0, 1), slice(1, 4), slice(4, 6))
    pieces = [{key: value[one] for key, value in whole.items()} for one in rows]
    unused = torch.Generator()
    loss, right = gradients(objective, model, [objective.corrupt(whole, unused)])
    cut, mine = gradients(objective, model, [objective.corrupt(one, unused) for one in pieces])
    assert cut == pytest.approx(loss, rel=1e-12)
    largest = max(float(one.abs().max()) for one in right)
    assert max(float((a - b).abs().max()) for a, b in zip(mine, right, strict=True)) <= 1e-10 * largest


@pytest.mark.mechanism("H1")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_without_padding_is_what_padded_rows_give(name: str) -> None:
    model = made(tiny(name, {f"architecture.heads.{HEAD}.labels": 3}), HEAD)
    given, labels = batch(targets("single_label")), targets("single_label")
    right = F.cross_entropy(
        model(given["input_ids"], attention_mask=given["attention_mask"]).logits, labels, reduction="sum"
    )
    objective = Labels()
    found = objective.loss(model, objective.corrupt(given, torch.Generator()))
    assert float(found.total) == pytest.approx(float(right), rel=1e-11)
    assert found.count == 5  # one row asks for nothing


@pytest.mark.mechanism("H7")
def test_choices_are_scored_together() -> None:
    model = made("bert", "multiple_choice")
    ids = torch.randint(6, 50, (2, 3, 5), generator=torch.Generator().manual_seed(0))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([2, 0])}
    objective = Labels("multiple_choice")
    found = objective.loss(model, objective.corrupt(given, torch.Generator()))
    assert float(found.total) == pytest.approx(float(2 * model(ids, labels=given["labels"]).loss), rel=1e-12)


def test_focal_loss_by_hand() -> None:
    """Of a right answer with probability 0.8: 0.2² · −log 0.8; without focus the plain loss."""
    logits = torch.tensor([[math.log(0.8), math.log(0.2)]], dtype=torch.float64)
    plain, focal = (float(losses(logits, torch.tensor([0]), "single_label", focus)) for focus in (0.0, 2.0))
    assert plain == pytest.approx(-math.log(0.8))
    assert focal == pytest.approx(0.04 * -math.log(0.8))
    both = losses(torch.tensor([[math.log(4.0), 0.0]], dtype=torch.float64), torch.tensor([[1, 0]]), "multi_label", 2.0)
    assert both.tolist()[0] == pytest.approx([0.04 * -math.log(0.8), 0.25 * math.log(2)])


def test_a_fresh_model_of_many_classes_knows_nothing() -> None:
    model = build(tiny("bert", {f"architecture.heads.{HEAD}.labels": 5}), head=HEAD)
    objective = Labels()
    given = batch(torch.tensor([0, 1, 2, 3, 4, 0]))
    assert float(objective.loss(model, objective.corrupt(given, torch.Generator())).total) / 6 == pytest.approx(
        math.log(5), rel=0.1
    )
