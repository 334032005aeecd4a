"""``diff`` prints each change once, under its axis, with its reason and what it costs."""

from __future__ import annotations

import pytest

from tests.cli.verbs import answered, listed, refused, said

Capture = pytest.CaptureFixture[str]


def test_bert_to_modernbert_reads_as_an_apparatus(capsys: Capture) -> None:
    text = said(capsys, "diff", "bert", "modernbert")
    assert text.startswith("bert → modernbert: 12 changes in ")
    headings = [line for line in text.splitlines() if line.isupper() and " " not in line]
    assert headings == ["OBJECTIVE", "TOKENIZER", "POSITIONS", "MECHANISM", "TRAINING"]
    assert "GeGLU learns more per parameter (relieves data-efficiency)" in text
    assert "MLP(width=3,072, activation=gelu) → GatedMLP(width=1,152, activation=gelu)" in text
    assert "109,482,240  149,014,272" in text


def test_the_reason_of_a_change_stands_once(capsys: Capture) -> None:
    text = said(capsys, "diff", "bert", "modernbert")
    assert text.count("pre-norm trains deep stacks stably") == 1
    assert text.count("more targets per text") == 1


def test_every_row_has_an_axis_and_where_the_lineage_has_one_a_reason(capsys: Capture) -> None:
    changes = answered(capsys, "diff", "bert", "modernbert")["changes"]
    assert all(change["axis"] and change["why"] and change["by"] == "modernbert" for change in changes)
    by_path = {change["path"]: change for change in changes}
    feedforward = by_path["architecture.encoder.block.feedforward"]
    assert (feedforward["before"]["kind"], feedforward["after"]["kind"]) == ("MLP", "GatedMLP")
    assert feedforward["relieves"] == "data-efficiency"


def test_costs_stand_beside_each_other(capsys: Capture) -> None:
    effects = {row["figure"]: row for row in answered(capsys, "diff", "Llama-2-7B", "Llama-3-8B")["consequences"]}
    assert (effects["parameters"]["before"], effects["parameters"]["after"]) == (6_738_415_616, 8_030_261_248)
    assert effects["cache bytes per token"]["ratio"] == 0.25
    assert effects["FLOPs per token"]["context"] == 4096


@pytest.mark.mechanism("C20")
def test_the_share_of_tokens_that_teach_is_a_row(capsys: Capture) -> None:
    def share(a: str, b: str) -> tuple[float, float]:
        rows = {row["figure"]: row for row in answered(capsys, "diff", a, b)["consequences"]}
        return rows["supervised share of tokens"]["before"], rows["supervised share of tokens"]["after"]

    assert share("bert", "modernbert") == (0.15, 0.3)
    assert share("bert", "electra") == (0.15, 1.0)
    assert share("t5", "gpt2") == (0.15, 1.0)


def test_experts_show_what_a_token_uses(capsys: Capture) -> None:
    rows = {row["figure"]: row for row in answered(capsys, "diff", "llama-2-13b", "mixtral-8x7b")["consequences"]}
    assert rows["active parameters"]["after"] == 12_879_925_248
    assert "active parameters" not in said(capsys, "diff", "bert", "roberta")


def test_going_back_says_what_the_descendant_gave_as_its_reason(capsys: Capture) -> None:
    changes = answered(capsys, "diff", "roberta", "bert")["changes"]
    assert all(change["undone"] and change["by"] == "roberta" for change in changes)
    assert "back behind roberta, which said: no pairs to tell apart" in said(capsys, "diff", "roberta", "bert")


def test_what_both_inherit_gives_no_reason(capsys: Capture) -> None:
    changes = {row["path"]: row for row in answered(capsys, "diff", "llama-2-7b", "mistral-7b-v0.1")["changes"]}
    assert set(changes) == {
        "architecture.decoder.block.attention.kv_heads",
        "architecture.decoder.block.attention.window",
        "architecture.decoder.block.feedforward.width",
    }
    assert changes["architecture.decoder.block.feedforward.width"]["axis"] == "budget"


def test_models_that_are_not_related_can_be_compared(capsys: Capture) -> None:
    changes = answered(capsys, "diff", "gpt2", "t5")["changes"]
    assert {change["axis"] for change in changes} >= {"objective", "tokenizer", "positions", "mechanism", "training"}


def test_a_model_does_not_differ_from_itself(capsys: Capture) -> None:
    assert answered(capsys, "diff", "bert", "BERT")["changes"] == []
    assert "the same in every place" in said(capsys, "diff", "bert", "bert")


def test_lines_are_changes_and_then_costs(capsys: Capture) -> None:
    rows = listed(capsys, "diff", "bert", "roberta")
    kinds = [row["row"] for row in rows]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"change", "cost"}


def test_an_unknown_model_names_the_nearest(capsys: Capture) -> None:
    code, line = refused(capsys, "diff", "bert", "modernbret")
    assert code == 3
    assert "did you mean modernbert" in line
