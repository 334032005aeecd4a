"""How much of a model learns: what is said to stay stays to the bit, and what learns does so at its own rate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tiny_specs import shaken, tiny
from variorum.checkpoint.adapters import save_adapter, whole
from variorum.errors import NotFound, UsageError
from variorum.face import Model, build, load
from variorum.inference.prepared import prepare
from variorum.objectives.labels import Labels
from variorum.tasks.adapt import Adapt, Freeze, Full, HeadOnly, LayerDecay, Lora, depth, read, rungs
from variorum.training.loop import Trainer
from variorum.training.optimiser import Optimisation, adamw, optimisers, set_rate

pytestmark = pytest.mark.mechanism("H6")
HEAD = "sequence_classification"


def classifier(name: str = "bert") -> Model:
    return build(tiny(name), head=HEAD)


def pieces(step: int) -> list[dict[str, torch.Tensor]]:
    drawn = torch.Generator().manual_seed(step)
    return [{
        "input_ids": torch.randint(5, 50, (4, 7), generator=drawn), "labels": torch.randint(0, 2, (4,), generator=drawn)
    }]  # fmt: skip


def trained(model: Model, how: Adapt, steps: int = 3) -> Trainer:
    how.prepare(model)
    factors = {f"model/{name}": factor for name, factor in how.groups(model).items()}
    settings = Optimisation(steps=steps, rate=1e-2, warmup=0, factors=factors)
    trainer = Trainer(model, Labels(HEAD), pieces, settings, seed=0)
    for _ in range(steps):
        trainer.advance()
    return trainer


def moved(before: dict[str, torch.Tensor], model: Model) -> set[str]:
    return {name for name, tensor in model.named_tensors() if not torch.equal(before[name], tensor)}


@pytest.mark.parametrize(
    ("how", "stays"),
    [
        (Full(), lambda name: False),
        (HeadOnly(), lambda name: not name.startswith("heads.")),
        (
            Freeze(layers=4),
            lambda name: name.startswith(("encoder.input.", *(f"encoder.layers.{i}." for i in range(4)))),
        ),
        (Freeze(layers=2, embeddings=False), lambda name: name.startswith(("encoder.layers.0.", "encoder.layers.1."))),
        (Lora(rank=2), lambda name: not name.startswith("heads.")),
    ],
)
def test_what_is_frozen_stays_to_the_bit_and_has_no_state_in_the_optimiser(how: Adapt, stays) -> None:
    model = classifier()
    before = {name: tensor.detach().clone() for name, tensor in model.named_tensors()}
    trainer = trained(model, how)
    assert {name for name in before if stays(name)} == before.keys() - moved(before, model)
    held = {id(p) for optimiser in trainer.optimisers for p in optimiser.state}
    assert held == {id(p) for p in model.parameters() if p.requires_grad}


def test_layers_learn_the_slower_the_lower_they_are_and_the_head_at_the_full_rate() -> None:
    model = classifier()
    factors, top = LayerDecay(0.5).groups(model), depth(model)
    assert factors["encoder.input.table.weight"] == 0.5 ** (top + 1)
    assert factors["encoder.layers.0.attention.query.weight"] == 0.5**top
    assert factors[f"encoder.layers.{top - 1}.feedforward.down.bias"] == 0.5
    assert factors["heads.sequence_classification.project.weight"] == factors["pooler.dense.weight"] == 1


def test_weights_that_layers_share_learn_as_the_highest_of_them_and_are_not_frozen_in_part() -> None:
    model = classifier("albert")
    assert rungs(model)["encoder.layers.0.attention.query.weight"] == depth(model)
    with pytest.raises(UsageError, match="share their weights with later ones"):
        Freeze(layers=2).prepare(model)
    Freeze(layers=depth(model)).prepare(model)
    learning = [name for name, p in model.named_parameters() if p.requires_grad]
    assert learning and all(name.startswith(("heads.", "pooler.")) for name in learning)


def test_a_table_that_a_head_shares_stands_with_the_inputs_and_decoders_stand_on_their_encoder() -> None:
    model = build(tiny("t5"), head="seq2seq_lm")
    places, encoder = rungs(model), model.spec.architecture.encoder.depth
    assert places["encoder.input.table.weight"] == 0
    assert places["encoder.final_norm.weight"] == encoder
    assert places["decoder.layers.0.cross.query.weight"] == encoder + 1
    assert places["decoder.final_norm.weight"] == depth(model)


def test_a_first_step_is_as_long_as_its_factor() -> None:
    model = classifier()
    before = {name: tensor.detach().clone() for name, tensor in model.named_tensors()}
    trained(model, LayerDecay(0.5), steps=1)
    lengths = {name: float((t.detach() - before[name]).abs().max()) for name, t in model.named_tensors()}
    head, layer = (
        lengths["heads.sequence_classification.project.weight"],
        lengths["encoder.layers.0.attention.out.bias"],
    )
    assert layer == pytest.approx(head * 0.5 ** depth(model), rel=1e-2)


def test_factors_of_one_change_not_a_bit() -> None:
    plain, factored = classifier(), classifier()
    for model, factors in (
        (plain, {}),
        (factored, dict.fromkeys((f"model/{n}" for n, _ in plain.named_tensors()), 1.0)),
    ):
        settings = Optimisation(steps=3, rate=1e-2, warmup=1, factors=factors)
        trainer = Trainer(model, Labels(HEAD), pieces, settings, seed=0)
        for _ in range(3):
            trainer.advance()
    assert all(map(torch.equal, plain.parameters(), factored.parameters()))


@pytest.mark.parametrize("kind", ["adamw", "adafactor", "muon"])
def test_every_optimiser_has_a_group_for_each_factor(kind: str) -> None:
    named = {"model/a.layers.0.w": torch.nn.Parameter(torch.ones(3, 3)), "model/b": torch.nn.Parameter(torch.ones(3))}
    named |= {"model/a.layers.1.w": torch.nn.Parameter(torch.ones(3, 3))}
    settings = Optimisation(steps=2, rate=1.0, warmup=0, kind=kind, factors={"model/a.layers.0.w": 0.25})
    rates = {}
    for optimiser in optimisers(named, settings):
        set_rate(optimiser, 2.0)
        rates |= {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    assert [rates[id(p)] for p in named.values()] == [0.5, 2.0, 2.0]


def test_layers_below_all_that_learns_keep_no_activations() -> None:
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.nbytes)
        return tensor

    sums = []
    for how in (Full(), Freeze(layers=5), HeadOnly()):
        model = classifier().train()
        how.prepare(model)
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(torch.full((8, 12), 7))
        sums.append(sum(kept))
    assert sums[1] < sums[0] / 3 and sums[2] < sums[0] / 20


def test_an_optimiser_of_a_model_alone_has_its_trainable_parameters() -> None:
    model = classifier()
    HeadOnly().prepare(model)
    groups = adamw(model, Optimisation(steps=1, rate=1.0, warmup=0)).param_groups
    assert sum(len(group["params"]) for group in groups) == 2


def test_what_the_checkpoint_did_not_hold_learns_with_the_head() -> None:
    model = classifier()
    model.origin = type("Origin", (), {"fresh": ("pooler.dense.weight", "pooler.dense.bias")})()
    assert {name for name in HeadOnly().groups(model) if name.startswith("pooler.")}
    Lora(rank=2).prepare(model)
    assert {name for name in Lora(rank=2).groups(model) if name.startswith("pooler.")}


def test_a_router_s_correction_is_left_to_its_own_rule() -> None:
    model = build(tiny("deepseek-v3"), head="causal_lm")
    Full().prepare(model)
    assert not any(p.requires_grad for name, p in model.named_parameters() if name.endswith(".correction"))


def test_lora_learns_and_merges_into_a_model_that_answers_the_same() -> None:
    model, how = classifier(), Lora(rank=2, targets=("all",), dropout=0.1)
    trainer = trained(shaken(model).float(), how)
    ids = torch.full((2, 5), 9)
    said = trainer.model.eval()(ids).logits
    how.finish(model)
    torch.testing.assert_close(model(ids).logits, said, atol=1e-4, rtol=1e-4)
    how.prepare(model)  # and it learns on from there
    torch.testing.assert_close(model.eval()(ids).logits, said, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("how", [Lora(), Full(), HeadOnly()])
def test_nothing_learns_beside_weights_held_as_int8(how: Adapt) -> None:
    model = prepare(classifier().float(), weights="int8")
    before = [(name, id(module)) for name, module in model.named_modules()]
    with pytest.raises(UsageError, match=r"holds its weights as int8.*load it without weights='int8'"):
        how.prepare(model)
    assert before == [(name, id(module)) for name, module in model.named_modules()]


def test_adapters_learn_beside_what_int8_files_stand_for_and_come_back_to_it(tmp_path: Path) -> None:
    first = shaken(classifier()).float()
    first.save(tmp_path / "int8", weights="int8")
    assert json.loads((tmp_path / "int8" / "config.json").read_text())["quantization_config"]
    model, how, ids = load(tmp_path / "int8", tokenizer=False), Lora(rank=2, targets=("all",)), torch.full((2, 5), 9)
    before = {name: tensor.detach().clone() for name, tensor in model.named_tensors()}
    trained(model, how)
    assert {name for name in moved(before, model) if ".lora." not in name} == set(whole(model))
    save_adapter(model, tmp_path / "adapter")
    said = model.eval()(ids).logits
    assert (said - load(tmp_path / "int8", tokenizer=False)(ids).logits).abs().max() > 1e-3
    # Merged they are floats, which a directory holds as such: the codes of the base have no place for what was learned.
    merged = load(tmp_path / "int8", adapter=tmp_path / "adapter", tokenizer=False)
    torch.testing.assert_close(merged(ids).logits, said, atol=1e-5, rtol=1e-5)
    merged.save(tmp_path / "merged")
    assert "quantization_config" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    assert torch.equal(load(tmp_path / "merged", tokenizer=False)(ids).logits, merged(ids).logits)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("full", Full()), ("head", HeadOnly()), ("freeze:6", Freeze(6)), ("decay:0.8", LayerDecay(0.8)),
        ("freeze:layers=2,embeddings=false", Freeze(2, embeddings=False)), ("lora", Lora()),
        ("lora:16,alpha=32,targets=query+cross.value", Lora(16, 32.0, ("query", "cross.value"))),
    ],
)  # fmt: skip
def test_every_way_has_a_word(text: str, way: Adapt) -> None:
    assert read(text) == way


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("lore", NotFound, "no way to adapt"), ("lora:rnak=3", NotFound, "no setting 'rnak'"),
        ("freeze", UsageError, "leaves out layers"), ("lora:x", UsageError, "'x' is no int"),
        ("full:3", NotFound, "no setting"), ("decay:0", UsageError, "layer decay"),
        ("lora:0", UsageError, "no adapter"),
    ],
)  # fmt: skip
def test_a_word_that_says_nothing_is_told(text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        read(text)


def test_more_layers_than_there_are_cannot_be_frozen_nor_all_of_a_model() -> None:
    with pytest.raises(UsageError, match="of 6 layers"):
        Freeze(layers=7).prepare(classifier())
    with pytest.raises(UsageError, match="nothing of"):
        HeadOnly().prepare(build(tiny("bert")))
