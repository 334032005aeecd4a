"""A student of a task imitates its teacher: by hand, however the batch is cut, and only the student changes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from tests.tiny_specs import shaken, tiny
from variorum.builder import build
from variorum.errors import UsageError
from variorum.model import Model
from variorum.objectives.base import together
from variorum.objectives.contrastive import SIDES, Contrastive
from variorum.objectives.imitation import Imitating, Imitation, imitation, relation
from variorum.objectives.labels import Labels
from variorum.objectives.similarity import Similarity
from variorum.spec.heads import EmbeddingHead
from variorum.spec.recipe import Contrast

HEAD = "sequence_classification"
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]])


def model(seed: int, values: dict[str, object] | None = None, name: str = "bert") -> Model:
    made = shaken(build(tiny(name, values), head=HEAD), seed)
    made.label_names = ("a", "b")
    return made


def batch(labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 50, (3, 6), generator=torch.Generator().manual_seed(0)) * MASK
    labels = torch.tensor([0, 1, 1]) if labels is None else labels
    return {"input_ids": ids, "attention_mask": MASK, "labels": labels}


def loss(student: Model, teacher: Model, told: Imitating, given: dict[str, torch.Tensor]) -> float:
    objective = Imitation(Labels(HEAD), teacher, told)
    found = objective.loss(student.eval(), objective.corrupt(given, torch.Generator()))
    return float(found.total.detach()) / found.count


@pytest.mark.mechanism("D1")
@pytest.mark.case("V084")
def test_the_loss_is_that_of_the_formula_and_only_the_student_learns() -> None:
    student, teacher = model(1), model(2)
    given, told = batch(), Imitating(temperature=3, soft=0.7, hard=0.2, hidden=0.4)
    mine, his = (one(given["input_ids"], attention_mask=MASK) for one in (student, teacher))
    soft = 9 * F.kl_div((mine.logits / 3).log_softmax(-1), (his.logits / 3).softmax(-1), reduction="batchmean")
    real = MASK.bool()
    alike = F.cosine_similarity(mine.last_hidden_state[real], his.last_hidden_state[real], dim=-1).mean()
    right = 0.7 * soft + 0.2 * F.cross_entropy(mine.logits, given["labels"]) + 0.4 * (1 - alike)
    assert loss(student, teacher, told, given) == pytest.approx(float(right), rel=1e-10)
    before = [p.clone() for p in teacher.parameters()]
    objective = Imitation(Labels(HEAD), teacher, told)
    objective.loss(student.train(), objective.corrupt(given, torch.Generator())).total.backward()
    assert not teacher.training and all(p.grad is None for p in teacher.parameters())
    assert all(map(torch.equal, before, teacher.parameters()))
    assert any(p.grad is not None for p in student.parameters())


@pytest.mark.mechanism("D1")
def test_a_step_has_one_loss_however_it_is_cut() -> None:
    student, teacher = model(1), model(2)
    told, given = Imitating(hidden=1, relations=1, heads=2), batch()
    objective = Imitation(Labels(HEAD), teacher, told)
    pieces = [{name: value[rows] for name, value in given.items()} for rows in (slice(0, 1), slice(1, 3))]
    examples = together(objective, student, [objective.corrupt(piece, torch.Generator()) for piece in pieces])
    cut = sum(float(objective.loss(student.eval(), example).total) for example in examples) / 3
    assert cut == pytest.approx(loss(student, teacher, told, given), rel=1e-10)


@pytest.mark.mechanism("D1")
def test_relations_are_those_of_each_text_alone_at_any_width() -> None:
    teacher = model(2)
    narrow = {"architecture.width": 24, "architecture.encoder.block.attention.head_dim": 6}
    narrow |= {"architecture.encoder.block.attention.heads": 4, "architecture.encoder.block.attention.kv_heads": 4}
    student, told = model(1, narrow), Imitating(soft=0, hard=0, relations=1, heads=2)
    given = batch()
    by_text = [
        loss(student, teacher, told, {
            "input_ids": given["input_ids"][i : i + 1, : int(MASK[i].sum())], "labels": given["labels"][i : i + 1]
        })
        for i in range(3)
    ]  # fmt: skip
    assert loss(student, teacher, told, given) == pytest.approx(sum(by_text) / 3, rel=1e-8)
    assert loss(teacher, teacher, told, given) == pytest.approx(0, abs=1e-12)


@pytest.mark.mechanism("D1")
def test_a_relation_by_hand() -> None:
    one = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]])
    found = relation(one, one, torch.tensor([[True, True, False]]), heads=2)
    right = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).softmax(-1)
    torch.testing.assert_close(found[0, 0, :2, :2], right)
    assert found[0, :, :, 2].abs().max() == 0 and found[0, :, 2].abs().max() == 0
    with pytest.raises(UsageError, match="have no relation in 3 heads"):
        relation(one, one, torch.ones(1, 3, dtype=torch.bool), heads=3)


@pytest.mark.mechanism("D1")
@pytest.mark.parametrize("problem", ["multi_label", "regression"])
def test_numbers_and_labels_that_stand_together_are_imitated_too(problem: str) -> None:
    values: dict[str, object] = {f"architecture.heads.{HEAD}.problem": problem}
    student, teacher = model(1, values), model(2, values)
    given = batch(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    mine, his = (one(given["input_ids"], attention_mask=MASK).logits for one in (student, teacher))
    if problem == "regression":
        right = (mine - his).square().sum() / 3
    else:
        p, q = his.sigmoid(), mine.sigmoid()
        right = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum() / 3
    assert loss(student, teacher, Imitating(temperature=1, hard=0), given) == pytest.approx(float(right), rel=1e-8)


@pytest.mark.mechanism("D1")
def test_who_cannot_be_imitated_is_refused_with_the_reason() -> None:
    teacher = model(2)
    other = model(1)
    other.label_names = ("b", "a")
    objective = Imitation(Labels(HEAD), teacher, Imitating())
    with pytest.raises(UsageError, match="other labels"):
        objective.networks(other)
    with pytest.raises(UsageError, match="masked_lm is not imitated"):
        Imitation(Labels("masked_lm"), teacher, Imitating())
    with pytest.raises(UsageError, match="teaches nothing"):
        Imitating(soft=0, hard=0)
    wide = Imitation(Labels(HEAD), teacher, dataclasses.replace(Imitating(), hidden=1.0))
    narrow = model(1, {"architecture.width": 24})
    with pytest.raises(UsageError, match="width 24 and 32"):
        wide.networks(narrow)
    assert wide.networks(model(3)) == {}


def reader(seed: int) -> Model:
    made = build(tiny("bert", {"architecture.heads.embedding": EmbeddingHead(take="mean")}), head="embedding")
    return shaken(made, seed)


@pytest.mark.mechanism("D1")
@pytest.mark.parametrize("scored", [False, True])
def test_texts_find_each_other_as_they_do_for_the_teacher(scored: bool) -> None:
    student, teacher, told = reader(1), reader(2), Imitating(temperature=3, soft=0.7, hard=0.2, hidden=0.4)
    given = {"first": batch()["input_ids"], "first_mask": MASK, "second": batch()["input_ids"].flip(0),
             "second_mask": MASK.flip(0), "labels": torch.tensor([0.1, 0.9, 0.5])}  # fmt: skip
    hard = Similarity() if scored else Contrastive(Contrast(temperature=0.1))
    objective = imitation(hard, teacher, told)
    found = objective.loss(student.eval(), objective.corrupt(given, torch.Generator()))
    (a, b), (c, d) = (
        [F.normalize(one(given[side], attention_mask=given[f"{side}_mask"]).logits, dim=-1) for side in SIDES]
        for one in (student, teacher)
    )
    if scored:
        mine, his = (a * b).sum(-1), (c * d).sum(-1)
        soft, own = (mine - his).square().mean(), (mine - given["labels"].to(mine)).square().mean()
    else:
        mine, his = a @ b.T / 0.1, c @ d.T / 0.1
        soft = 9 * F.kl_div((mine / 3).log_softmax(-1), (his / 3).softmax(-1), reduction="batchmean")
        own = F.cross_entropy(mine, torch.arange(3))
    hidden = 1 - torch.cat(((a * c).sum(-1), (b * d).sum(-1))).mean()
    assert float(found.total.detach()) / 3 == pytest.approx(float(0.7 * soft + 0.2 * own + 0.4 * hidden), rel=1e-10)
    found.total.backward()
    assert all(p.grad is None for p in teacher.parameters())
    with pytest.raises(UsageError, match="set relations to 0"):
        imitation(hard, teacher, Imitating(relations=1))
