"""Replaced token detection: what counts as replaced, who learns from what, and how embeddings are shared."""

from __future__ import annotations

import pytest
import torch

from tests.objectives.corpus import SYMBOLS, batch
from tests.objectives.test_every_pair import asked
from tests.tiny_specs import shaken
from variorum.builder import build
from variorum.family import find
from variorum.objectives import objective_for
from variorum.objectives.replaced import GENERATOR, TABLE, ReplacedToken, generator_spec, judged, sampled
from variorum.spec.recipe import Generator
from variorum.training.evaluate import held_out
from variorum.training.whole import Whole


def made(embeddings: str, name: str = "electra") -> tuple[ReplacedToken, torch.nn.Module, torch.nn.Module]:
    spec = asked(name, "replaced_token").set({"objective.generator": Generator(embeddings=embeddings)})
    objective = objective_for(spec, SYMBOLS)
    assert isinstance(objective, ReplacedToken)
    model = shaken(build(spec, head=objective.requires))
    return objective, model, objective.networks(model)[GENERATOR].double()


def example_of(objective: ReplacedToken):
    return objective.corrupt(batch("replaced_token"), torch.Generator().manual_seed(0))


@pytest.mark.case("V046")
@pytest.mark.mechanism("O7")
def test_a_proposal_that_is_the_original_is_original() -> None:
    chosen = torch.tensor([[False, True, True, False]])
    read, labels = judged(torch.tensor([[5, 6, 7, 8]]), chosen, torch.tensor([6, 9]))
    assert read.tolist() == [[5, 6, 9, 8]]
    assert labels.tolist() == [[0, 0, 1, 0]]


@pytest.mark.case("V046")
def test_proposals_are_drawn_by_their_probability_not_the_likeliest() -> None:
    draws = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    even = sampled(torch.zeros(20_000, 2), draws)
    assert float(even.double().mean()) == pytest.approx(0.5, abs=0.015)
    odd = sampled(torch.tensor([0.1, 0.2, 0.7]).log().expand(20_000, -1), draws)
    assert (torch.bincount(odd) / 20_000).tolist() == pytest.approx([0.1, 0.2, 0.7], abs=0.015)
    assert sampled(torch.tensor([[0.0, -torch.inf]]), torch.tensor([0.9999999])).item() == 0


@pytest.mark.mechanism("O7")
@pytest.mark.mechanism("C24")
def test_the_loss_is_the_generators_plus_fifty_times_the_judgements_of_every_real_token() -> None:
    objective, model, generator = made("separate")
    example = example_of(objective)
    mask, chosen = example.inputs["attention_mask"], example.targets >= 0
    scores = generator(**example.inputs).logits[chosen]
    mean = torch.nn.functional.cross_entropy(scores, example.targets[chosen])
    read, labels = judged(example.beside["original"], chosen, sampled(scores.detach(), example.beside["draws"][chosen]))
    verdicts = model(read, attention_mask=mask).logits
    own = torch.nn.functional.binary_cross_entropy_with_logits(verdicts, labels.double(), reduction="none")
    right = mean + 50 * (own * mask).sum() / mask.sum()
    loss = objective.loss(model, example)
    assert (loss.total / loss.count).item() == pytest.approx(right.item(), rel=1e-10)
    assert int(mask.sum()) > 4 * loss.count


def test_a_held_out_score_tells_the_terms_apart_and_how_many_tokens_were_replaced() -> None:
    objective, model, _ = made("separate")
    loss = Whole(objective, model, dict(objective.networks(model)))
    score = held_out(loss, objective, [batch("replaced_token")], seed=1)
    words, judged, replaced = (score.parts[name][0] for name in ("words", "judged", "replaced"))
    assert score.loss == pytest.approx(words + 50 * judged, rel=1e-9)
    assert 0 < replaced < 0.3
    assert {"held_out", "words", "judged_low", "replaced_high"} < score.row().keys()


@pytest.mark.mechanism("E5")
def test_shared_embeddings_are_one_table_that_both_losses_move() -> None:
    objective, model, generator = made("shared")
    assert generator.get_parameter(f"{TABLE}.weight") is model.get_parameter(f"{TABLE}.weight")
    assert generator.encoder.input.positions.weight is model.encoder.input.positions.weight
    assert generator.heads["masked_lm"].project.weight is model.get_parameter(f"{TABLE}.weight")
    objective.loss(model, example_of(objective)).total.backward()
    assert model.get_parameter(f"{TABLE}.weight").grad.abs().sum() > 0


@pytest.mark.mechanism("E5")
def test_separate_embeddings_have_nothing_in_common() -> None:
    _, model, generator = made("separate")
    own = {id(p) for p in model.parameters()}
    assert not any(id(p) in own for p in generator.parameters())


@pytest.mark.mechanism("E5")
@pytest.mark.mechanism("O7")
def test_disentangled_embeddings_keep_the_judgement_from_moving_the_generators_table() -> None:
    objective, model, generator = made("disentangled", "deberta-v3")
    example = example_of(objective)
    table, difference = generator.get_parameter(f"{TABLE}.weight"), generator.get_parameter("difference")

    def of_table(weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        objective.settings = Generator(embeddings="disentangled", weight=weight)
        for parameter in (table, difference):
            parameter.grad = None
        objective.loss(model, example).total.backward()
        return table.grad.clone(), difference.grad.clone()

    (one, first), (two, second) = of_table(50.0), of_table(100.0)
    assert torch.equal(one, two), "the judgement's loss reached the generator's table"
    torch.testing.assert_close(2 * first, second)
    assert first.abs().sum() > 0
    with torch.no_grad():
        difference += 1
    objective.settle(model)
    assert torch.equal(model.get_parameter(f"{TABLE}.weight"), table + difference)
    before = objective.loss(model, example).total
    with torch.no_grad():
        model.get_parameter(f"{TABLE}.weight").zero_()
    assert torch.equal(objective.loss(model, example).total, before)


@pytest.mark.mechanism("O7")
def test_generators_have_the_published_sizes() -> None:
    base = find("electra").sized("electra-base-discriminator")
    made = generator_spec(base, base.objective.generator)
    published = find("electra").sized("electra-base-generator").architecture
    assert made.architecture.encoder.block == published.encoder.block
    assert (made.architecture.width, made.architecture.encoder.input.rank) == (published.width, 768)
    v3 = find("deberta-v3")
    assert generator_spec(v3, v3.objective.generator).architecture.encoder.depth == v3.architecture.encoder.depth // 2
