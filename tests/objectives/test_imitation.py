"""Distillation, contrastive training, mixtures and prefixes, on numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tests.objectives.corpus import SYMBOLS, batch
from tests.objectives.test_every_pair import asked
from tests.tiny_specs import made, shaken, tiny, words
from variorum.builder import build
from variorum.errors import UsageError
from variorum.family import find
from variorum.objectives import objective_for
from variorum.objectives.base import IGNORED
from variorum.objectives.causal import Causal, Prefix
from variorum.objectives.contrastive import Contrastive
from variorum.objectives.distillation import Distillation, softened, start_from, teacher_layers
from variorum.objectives.masked import MaskedLM
from variorum.objectives.mixture import Mixture, mixing_rates
from variorum.objectives.rewriting import Rewriting
from variorum.spec.recipe import Contrast, Masking, Teacher


@pytest.mark.case("V084")
@pytest.mark.mechanism("D1")
@pytest.mark.mechanism("O10")
@pytest.mark.parametrize(("temperature", "loss"), [(1, 0.327813), (2, 0.443776), (4, 0.484798)])
def test_soft_targets_weigh_the_square_of_their_temperature(temperature: float, loss: float) -> None:
    student, teacher = torch.zeros(1, 2, requires_grad=True), torch.tensor([[2.0, 0.0]])
    made = softened(student, teacher, temperature)
    assert made.item() == pytest.approx(loss, abs=1e-6)
    made.backward()
    share = 1 / (1 + math.exp(-2 / temperature))
    assert student.grad[0, 0].item() == pytest.approx(temperature * (0.5 - share), rel=1e-5)


def distilled(settings: Teacher = Teacher()):  # noqa: B008
    spec = asked("distilbert", "distillation").set({"objective.teacher": settings})
    teacher = shaken(build(spec, head="masked_lm"), 5)
    objective = objective_for(spec, SYMBOLS, teacher=teacher)
    return objective, shaken(build(spec, head="masked_lm")), teacher


@pytest.mark.case("V084")
@pytest.mark.mechanism("D1")
def test_the_loss_is_five_parts_soft_two_hard_and_one_of_states_and_the_teacher_stays() -> None:
    objective, student, teacher = distilled()
    example = objective.corrupt(batch("masked_lm"), torch.Generator().manual_seed(0))
    real, chosen = example.inputs["attention_mask"].bool(), example.targets >= 0
    told, mine = teacher(**example.inputs), student(**example.inputs)
    functions = torch.nn.functional
    soft = 4 * functions.kl_div(
        (mine.logits[real] / 2).log_softmax(-1), (told.logits[real] / 2).softmax(-1), reduction="batchmean"
    )
    hard = functions.cross_entropy(mine.logits[chosen], example.targets[chosen])
    states = functions.cosine_embedding_loss(
        mine.last_hidden_state[real], told.last_hidden_state[real], torch.ones(int(real.sum()))
    )
    before = [p.clone() for p in teacher.parameters()]
    student.train()
    teacher.train()
    for module in student.modules():
        module.training = False
    loss = objective.loss(student, example)
    assert (loss.total / loss.count).item() == pytest.approx((5 * soft + 2 * hard + states).item(), rel=1e-10)
    loss.total.backward()
    assert not teacher.training
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.parameters(), strict=True))


@pytest.mark.mechanism("D2")
def test_a_student_starts_from_the_published_layers_of_its_teacher() -> None:
    assert teacher_layers(12, 6) == [0, 2, 4, 7, 9, 11]
    assert teacher_layers(24, 12)[-1] == 23
    assert teacher_layers(5, 1) == [0]
    teacher, student = (
        made("bert", "masked_lm"),
        made(tiny("distilbert", {"architecture.encoder.depth": 3}), "masked_lm", 3),
    )
    own = start_from(student, teacher)
    assert own == []
    for mine, theirs in zip(range(3), teacher_layers(6, 3), strict=True):
        for a, b in zip(
            student.encoder.layers[mine].parameters(), teacher.encoder.layers[theirs].parameters(), strict=True
        ):
            assert torch.equal(a, b)


def test_a_teacher_that_cannot_be_imitated_is_refused() -> None:
    with pytest.raises(UsageError, match="has to have a teacher"):
        objective_for(asked("distilbert", "distillation"), SYMBOLS)
    objective, student, _ = distilled()
    other = made(tiny("bert", {"architecture.encoder.input.vocab": 60}), "masked_lm")
    with pytest.raises(UsageError, match="50 words and a teacher of 60"):
        Distillation(objective.hard, other, Teacher()).networks(student)
    wide = made(tiny("bert", {"architecture.width": 48}), "masked_lm")
    with pytest.raises(UsageError, match="states that cannot be compared"):
        Distillation(objective.hard, wide, Teacher()).networks(student)
    assert Distillation(objective.hard, wide, Teacher(hidden=0.0)).networks(student)


class Given(torch.nn.Module):
    """A model that gives each text the vector that its first id names."""

    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=torch.float64)

    def forward(self, input_ids: torch.Tensor, **given: object):
        self.logits = self.vectors[input_ids[:, 0]]
        return self


@pytest.mark.mechanism("O12")
@pytest.mark.mechanism("H5")
def test_contrast_by_hand() -> None:
    batch = {"first": torch.tensor([[0], [1]]), "second": torch.tensor([[2], [1]])}
    one = Contrastive(Contrast(temperature=0.5))
    loss = one.loss(Given(), one.corrupt(batch, torch.Generator()))
    # cosines 0.6 and 0 of the first text, 0.8 and 1 of the second, over 0.5
    rows = math.log(1 + math.exp(-1.2)) + math.log(1 + math.exp(-0.4))
    assert loss.count == 2
    assert loss.total.item() == pytest.approx(rows)
    both = Contrastive(Contrast(temperature=0.5, ways="both"))
    back = math.log(1 + math.exp(0.4)) + math.log(1 + math.exp(-2.0))
    total = both.loss(Given(), both.corrupt(batch, torch.Generator())).total
    assert total.item() == pytest.approx((rows + back) / 2)
    more = {**batch, "second": torch.tensor([[2], [1], [0], [0]])}
    harder = one.loss(Given(), one.corrupt(more, torch.Generator())).total
    assert harder.item() > loss.total.item()


@pytest.mark.mechanism("O11")
def test_tasks_are_drawn_by_their_capped_sizes_and_answered_through_one_head() -> None:
    assert mixing_rates({"a": 100, "b": 300}) == pytest.approx({"a": 0.25, "b": 0.75})
    assert mixing_rates({"a": 100, "b": 10_000}, limit=300) == pytest.approx({"a": 0.25, "b": 0.75})
    assert mixing_rates({"a": 1, "b": 16}, temperature=4) == pytest.approx({"a": 1 / 3, "b": 2 / 3})
    spans = objective_for(asked("t5", "span_corruption"), SYMBOLS)
    mixture = Mixture({"text": Rewriting(), "spans": spans}, {"text": 0.25, "spans": 0.75})
    generator = torch.Generator().manual_seed(0)
    drawn = [mixture.draw(generator) for _ in range(4000)]
    assert drawn.count("spans") / 4000 == pytest.approx(0.75, abs=0.02)
    model = made("t5", "seq2seq_lm")
    for number, kind in enumerate(("text_to_text", "span_corruption")):
        rows = batch(kind)
        example = mixture.corrupt({**rows, "task": torch.tensor(number)}, torch.Generator().manual_seed(1))
        alone = mixture.tasks[number]
        right = alone.loss(model, alone.corrupt(rows, torch.Generator().manual_seed(1)))
        assert torch.equal(mixture.loss(model, example).total, right.total)
    with pytest.raises(UsageError, match="answer through one head"):
        Mixture({"a": Rewriting(), "b": Causal()}, {"a": 1, "b": 1})
    with pytest.raises(UsageError, match="a rate for each"):
        Mixture({"a": Rewriting()}, {"b": 1})


@pytest.mark.mechanism("O1")
def test_a_prefix_is_read_from_both_sides_and_only_what_follows_is_asked() -> None:
    ids = words(1, 9)
    example = Prefix(two_stacks=False).corrupt({"input_ids": ids}, torch.Generator().manual_seed(1))
    cut = int(example.inputs["prefix_lengths"])
    assert 1 < cut < 8
    assert example.targets.tolist() == [[IGNORED] * (cut - 1) + ids[0, cut:].tolist()]
    model = made("llama", "causal_lm")
    vectors = model.decoder.input.table(ids[:, :-1]).detach().requires_grad_()
    states = model(inputs_embeds=vectors, prefix_lengths=torch.tensor([cut])).last_hidden_state
    for place in range(8):
        (grad,) = torch.autograd.grad(states[0, place].square().sum(), vectors, retain_graph=True)
        seen = (grad[0].abs().sum(-1) > 0).tolist()
        assert seen == [other < max(cut, place + 1) for other in range(8)]


def test_two_stacks_read_the_prefix_and_write_the_rest() -> None:
    ids = torch.tensor([[10, 11, 12, 13], [14, 15, 0, 0]])
    example = Prefix(two_stacks=True).corrupt(
        {"input_ids": ids, "attention_mask": (ids > 0).long()}, torch.Generator().manual_seed(0)
    )
    for row, real, read, kept, written in zip(
        ids, ids > 0, example.inputs["input_ids"], example.inputs["attention_mask"].bool(), example.targets, strict=True
    ):
        assert [*read[kept].tolist(), *written[written >= 0].tolist()] == row[real].tolist()
        assert kept.any()
        assert (written >= 0).any()


@pytest.mark.mechanism("C20")
def test_the_objective_of_every_published_model_can_be_made() -> None:
    for name in ("bert", "roberta", "gpt2", "t5", "bart", "electra", "e5", "muril", "vit", "bilm", "whisper"):
        assert objective_for(find(name), SYMBOLS).requires[0] in find(name).architecture.heads
    with pytest.raises(UsageError, match="has to know the ids"):
        objective_for(find("bert"))
    with pytest.raises(UsageError, match="bert is an encoder"):
        objective_for(find("bert").set({"objective.kind": "causal_lm"}), SYMBOLS)


def test_padding_is_left_out_and_the_loss_stays() -> None:
    """Packed or padded, hidden words cost the same."""
    spec = asked("bert", "next_sentence")
    objective = objective_for(spec, SYMBOLS)
    model = shaken(build(spec, head=objective.requires))
    example = objective.corrupt(batch("next_sentence"), torch.Generator().manual_seed(0))
    packed = objective.loss(model, example)
    assert isinstance(objective, MaskedLM)
    type(model).packs, kept = False, type(model).packs
    try:
        padded = objective.loss(model, example)
    finally:
        type(model).packs = kept
    assert packed.total.item() == pytest.approx(padded.total.item(), rel=1e-12)
    assert Masking().rate == 0.15
