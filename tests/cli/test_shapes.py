"""``shapes`` lists every tensor of a forward pass; agreement with the built model is tested with the spec."""

from __future__ import annotations

import pytest

from tests.cli.verbs import answered, listed, refused, said

Capture = pytest.CaptureFixture[str]


def test_layers_that_agree_share_a_line(capsys: Capture) -> None:
    text = said(capsys, "shapes", "bert", "--batch", "2", "--length", "128")
    line = next(line for line in text.splitlines() if line.startswith("encoder.layers.0–11.attention.query"))
    assert line.split()[1:8] == ["B", "T", "H·d", "2", "×", "128", "×"]
    assert "(encoder.layers.0–11.attention.maps)" in text


def test_data_have_every_layer_of_its_own(capsys: Capture) -> None:
    rows = {row["name"]: row for row in answered(capsys, "shapes", "bert", "--batch", "2", "--length", "128")}
    query = rows["encoder.layers.11.attention.query"]
    assert (query["axes"], query["shape"]) == (["B", "T", "H·d"], [2, 128, 768])
    assert query["flops"] == 2 * 2 * 128 * 768 * 768
    assert rows["pooler"]["shape"] == [2, 768]
    assert rows == {row["name"]: row for row in listed(capsys, "shapes", "bert", "--batch", "2", "--length", "128")}


def test_kinds_of_layers_stand_apart_in_order(capsys: Capture) -> None:
    lines = said(capsys, "shapes", "deepseek-v3", "--length", "8").splitlines()
    starts = [line.split(".attention")[0] for line in lines if ".attention.query_down " in line]
    assert starts == ["decoder.layers.0–2", "decoder.layers.3–60"]


def test_source_and_target_have_lengths_of_their_own(capsys: Capture) -> None:
    rows = {row["name"]: row for row in answered(capsys, "shapes", "t5-small", "--length", "7", "--target", "3")}
    assert rows["decoder.layers.0.cross.maps"]["shape"] == [1, 8, 3, 7]
    assert rows["decoder.layers.0.cross.maps"]["axes"] == ["B", "H", "T", "S"]
    assert rows["heads.seq2seq_lm"]["shape"] == [1, 3, 32_128]


def test_heads_are_chosen(capsys: Capture) -> None:
    names = {row["name"] for row in answered(capsys, "shapes", "bert", "--head", "masked_lm", "--length", "4")}
    assert "heads.masked_lm.transform.dense" in names
    assert "pooler" not in names
    assert "heads.causal_lm" not in {row["name"] for row in answered(capsys, "shapes", "gpt2", "--head", "none")}


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["shapes", "bert", "--length", "513"], 2, "513 tokens are more than the 512"),
        (["shapes", "bert", "--batch", "0"], 2, "at least one"),
        (["shapes", "brt"], 3, "did you mean bert"),
    ],
)
def test_what_cannot_be_is_one_line(capsys: Capture, words: list[str], code: int, part: str) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line
