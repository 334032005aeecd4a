"""``experts`` counts what the routers choose: every real token, no padding, every expert, used or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import variorum
from tests.cli import models
from tests.cli.verbs import answered, refused, said
from variorum.inference.experts import expert_usage

Capture = pytest.CaptureFixture[str]
TEXTS = ["The Law", "its application should be just", "perfect"]


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.mixtral(tmp_path_factory.mktemp("experts") / "mixtral")


@pytest.mark.mechanism("F4")
@pytest.mark.case("V074")
def test_every_choice_of_every_token_is_counted_once_and_padding_never(mixtral: Path) -> None:
    model = variorum.load(mixtral)
    together = expert_usage(model, TEXTS)
    alone = [expert_usage(model, [text]) for text in TEXTS]
    tokens = sum(len(model.tokenizer.encode(text)) for text in TEXTS)
    assert [one.layer for one in together] == [0, 1, 2]
    for layer, one in enumerate(together):
        assert one.tokens == tokens and sum(one.chosen) == 2 * tokens
        assert one.chosen == tuple(map(sum, zip(*(each[layer].chosen for each in alone), strict=True)))
        assert sum(one.shares) == pytest.approx(1)
    assert together == expert_usage(model, TEXTS, batch_size=2)


@pytest.mark.mechanism("F4")
@pytest.mark.case("V074")
def test_an_expert_that_is_never_chosen_is_reported_at_nothing(mixtral: Path) -> None:
    model = variorum.load(mixtral)
    weight = model.decoder.layers[1].feedforward.router.weight
    hidden = model(torch.tensor([model.tokenizer.encode(TEXTS[0]).ids]), output_hidden_states=True)
    assert hidden.routing is None
    with torch.no_grad():  # scores of 0 lose against two that are sure to be above it
        weight.zero_()
        weight[0], weight[1] = 1.0, -1.0
        weight[2], weight[3] = 2.0, -2.0
    used = expert_usage(model, TEXTS)[1]
    assert used.chosen[4] == used.chosen[5] == 0
    assert used.imbalance >= 6 / 4


@pytest.mark.mechanism("F4")
def test_the_command_prints_a_share_an_expert(mixtral: Path, capsys: Capture) -> None:
    rows = answered(capsys, "experts", str(mixtral), "--text", *TEXTS)
    assert len(rows) == 3 * 6
    assert sum(row["share"] for row in rows if row["layer"] == 2) == pytest.approx(1)
    lines = said(capsys, "experts", str(mixtral), "--text", *TEXTS).splitlines()
    assert lines[0].split() == ["layer", "tokens", "unused", "imbalance", "0", "1", "2", "3", "4", "5"]
    assert len([line for line in lines[1:] if "%" in line]) == 3


def test_a_model_without_experts_is_refused_with_those_that_have_them(tmp_path: Path, capsys: Capture) -> None:
    code, error = refused(capsys, "experts", str(models.gpt2(tmp_path / "gpt2")), "--text", "Law")
    assert code == 2
    assert "no experts" in error and "mixtral" in error
