"""A decoder with fewer heads of keys: what is kept, what the cache saves, and what training on gives back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from tests.cli import models
from tests.cli.verbs import answered, refused
from tests.tiny_specs import gap, made, tiny, words
from variorum.attention.cache import Cache
from variorum.builder import build
from variorum.checkpoint import load
from variorum.errors import UsageError
from variorum.model import Model
from variorum.objectives.causal import Causal
from variorum.surgery.grouping import grouped
from variorum.training.loop import Trainer
from variorum.training.optimiser import Optimisation

SETTINGS = Optimisation(steps=80, rate=5e-3, warmup=2)


def rows(step: int) -> list[dict[str, torch.Tensor]]:
    return [{"input_ids": words(8, 17, seed=step % 2)}]


def trained(model: Model, steps: int) -> float:
    """The loss after so many steps on two batches."""
    trainer = Trainer(model, Causal(), rows, dataclasses.replace(SETTINGS, steps=steps), seed=0)
    for _ in range(steps):
        trainer.advance()
    return loss(model)


@torch.no_grad()
def loss(model: Model) -> float:
    ids = torch.cat([rows(step)[0]["input_ids"] for step in range(2)])
    return float(model.eval()(ids, labels=ids).loss)


@pytest.mark.mechanism("A8")
@pytest.mark.parametrize("name", ["gpt2", "llama", "bart"])
def test_heads_that_were_alike_are_grouped_without_loss(name: str) -> None:
    model = made(name, "seq2seq_lm" if name == "bart" else "causal_lm")
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.startswith("decoder.") and key.split(".")[-2] in ("key", "value"):
                heads = parameter.view(2, 2, 8, *parameter.shape[1:])
                heads.copy_(heads.mean(1, keepdim=True).expand_as(heads))
    fewer, ids = grouped(model, 2), words(2, 9)
    given = {"decoder_input_ids": ids} if name == "bart" else {}
    assert gap(fewer(ids, **given).logits, model(ids, **given).logits) < 1e-12
    assert fewer.spec.architecture.decoder.block.attention.kv_heads == 2  # type: ignore[union-attr]
    assert fewer.get_parameter("decoder.layers.0.attention.out.weight").data_ptr() == (
        model.get_parameter("decoder.layers.0.attention.out.weight").data_ptr()
    )


@pytest.mark.mechanism("A8", "K3")
def test_each_head_is_the_mean_of_its_group_and_the_cache_shrinks_by_as_much() -> None:
    model = made("gpt2", "causal_lm")
    fewer, own = grouped(model, 1), model.get_parameter("decoder.layers.2.attention.key.weight")
    assert torch.equal(fewer.get_parameter("decoder.layers.2.attention.key.weight"), own.view(4, 8, -1).mean(0))
    caches = Cache(), Cache()
    with torch.no_grad():
        for one, cache in zip((model, fewer), caches, strict=True):
            one(words(1, 9), cache=cache)
    assert caches[0].bytes == 4 * caches[1].bytes


@pytest.mark.mechanism("R8")
def test_training_on_gives_back_most_of_what_grouping_took() -> None:
    model = build(tiny("gpt2"), head="causal_lm")
    before = trained(model, 80)
    fewer = grouped(model, 1)
    taken = loss(fewer)
    after = trained(fewer, 20)
    assert taken > before + 0.05
    assert taken - after > 0.5 * (taken - before), (before, taken, after)


def test_what_cannot_be_grouped_is_refused() -> None:
    with pytest.raises(UsageError, match="4 heads of keys do not fall into 3 groups"):
        grouped(made("gpt2"), 3)
    for name in ("bert", "deepseek-v3"):
        with pytest.raises(UsageError, match="has no decoder with heads of keys"):
            grouped(made(name), 1)


@pytest.mark.mechanism("A8", "R8")
def test_the_command_writes_a_directory_that_can_be_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = models.llama(tmp_path / "llama")
    told = answered(capsys, "convert", str(source), str(tmp_path / "one"), "--kv-heads", "1")
    assert told["tensors"] > 0
    assert json.loads((tmp_path / "one" / "config.json").read_text())["num_key_value_heads"] == 1
    whole, one = load(source), load(tmp_path / "one")
    assert gap(one(words(1, 5)).logits, grouped(whole, 1)(words(1, 5)).logits) < 1e-6
    code, line = refused(capsys, "convert", str(source), str(tmp_path / "no"), "--kv-heads", "3")
    assert code == 2 and "do not fall into 3 groups" in line
