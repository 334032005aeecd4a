"""``tree`` draws the lineage, tells how one model was made, and finds the changes that answer a pressure."""

from __future__ import annotations

import pytest

from tests.cli.verbs import answered, listed, refused, said
from variorum.family import models

Capture = pytest.CaptureFixture[str]


def test_every_model_hangs_below_its_ancestor(capsys: Capture) -> None:
    lines = said(capsys, "tree").splitlines()
    names = [line.lstrip("│├└─ ").split()[0] for line in lines]
    assert sorted(names) == sorted(models())
    depth = {name: line.index(name) // 3 for name, line in zip(names, lines, strict=True)}
    for name, model in models().items():
        assert depth[name] == len(model.lineage) - 1
        if model.ancestor is not None:
            above = [n for n in names[: names.index(name)] if depth[n] == depth[name] - 1]
            assert above[-1] == model.ancestor.name


def test_one_model_brings_its_kin_and_how_it_was_made(capsys: Capture) -> None:
    text = said(capsys, "tree", "mistral-7b-v0.1")
    kin = [row["name"] for row in answered(capsys, "tree", "mistral")]
    assert kin[-5:] == ["gpt2", "llama", "llama-2", "mistral", "mixtral"]
    assert set(kin[:-5]) == {ancestor.name for ancestor in models()["gpt2"].lineage[:-1]}
    assert "mistral is llama-2 with" in text
    assert "each layer looks back 4096 tokens (relieves quadratic-attention)" in text
    assert "published as  mistral-7b-v0.1" in text


def test_lines_carry_changes_with_reasons(capsys: Capture) -> None:
    rows = {row["name"]: row for row in listed(capsys, "tree")}
    assert [name for name, row in rows.items() if row["ancestor"] is None] == ["transformer", "bilm"]
    assert rows["bert"]["ancestor"] == "transformer"
    assert "useless-objective" in rows["bert"]["weaknesses"]
    change = next(c for c in rows["roberta"]["changes"] if c["path"] == "objective.pair")
    assert (change["value"], change["relieves"]) == (None, "useless-objective")


def test_what_relieves_a_pressure_is_found_with_its_reason(capsys: Capture) -> None:
    rows = {row["model"]: row for row in answered(capsys, "tree", "--relieves", "kv-memory")}
    assert {"llama-3", "mistral", "gemma-2", "gemma-3", "deepseek-v3"} <= set(rows)
    assert rows["gemma-3"]["why"] == "five local layers for one global"
    assert (rows["gemma-3"]["before"], rows["gemma-3"]["after"]) == ("4,096", "512")
    text = said(capsys, "tree", "--relieves", "kv-memory")
    assert text.startswith("kv-memory weighs on ")
    assert {"gpt2", "llama", "llama-2"} <= set(text.splitlines()[0].removeprefix("kv-memory weighs on ").split(", "))


def test_kin_and_pressure_together_narrow_the_answer(capsys: Capture) -> None:
    rows = answered(capsys, "tree", "gemma", "--relieves", "kv-memory")
    assert {row["model"] for row in rows} == {"gemma-2", "gemma-3"}


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["tree", "mistrla"], 3, "did you mean mistral"),
        (["tree", "--relieves", "kvmemory"], 2, "did you mean kv-memory"),
        (["tree", "roberta", "--relieves", "kv-memory"], 3, "no change among these models relieves kv-memory"),
    ],
)
def test_what_is_not_there_is_one_line(capsys: Capture, words: list[str], code: int, part: str) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line


@pytest.mark.mechanism("M")
def test_a_kind_has_a_table_of_what_each_member_changed_since_the_first(capsys: Capture) -> None:
    rows = answered(capsys, "tree", "--table", "encoders")
    assert rows[0] == {"model": "bert", "since": None, "payoff": "encoder trained by masked_lm"}
    told: dict[str, dict[str, dict[str, object]]] = {}
    for row in rows[1:]:
        assert row["payoff"]
        told.setdefault(row["model"], {})[row["path"].removeprefix("architecture.")] = row
    kind = {name for name, model in models().items() if [*model.architecture.stacks] == ["encoder"]}
    assert set(told) == kind - {"bert"}
    # What a field guide says of each in one line.
    guide: dict[str, dict[str, object]] = {
        "roberta": {"objective.pair": None, "objective.masking.copies": None, "recipe.batch": 8192},
        "albert": {"encoder.input.rank": 128, "objective.pair": "sentence_order"},
        "distilbert": {"encoder.depth": 6},
        "modernbert": {"objective.pair": None},
    }
    for name, changes in guide.items():
        assert {path: told[name][path]["after"] for path in changes} == changes
    kinds = {
        ("albert", "encoder.sharing"): "Sharing", ("deberta", "encoder.positions"): "Disentangled",
        ("modernbert", "encoder.positions"): "Rotary", ("modernbert", "encoder.block.feedforward"): "GatedMLP",
        ("deberta-v2", "encoder.positions"): "Disentangled",
    }  # fmt: skip
    for (name, path), part in kinds.items():
        assert told[name][path]["after"].get("kind") == part  # type: ignore[attr-defined]
    assert told["electra"]["objective"]["after"]["kind"] == "replaced_token"  # type: ignore[index]
    axes = {"roberta": "training", "albert": "compression", "distilbert": "compression", "electra": "objective",
            "deberta": "positions", "modernbert": "mechanism"}  # fmt: skip
    for name, axis in axes.items():
        assert axis in {row["axis"] for row in told[name].values()}


@pytest.mark.mechanism("M")
@pytest.mark.parametrize(
    ("pressure", "model"),
    [
        ("under-training", "roberta"),
        ("parameter-bloat", "albert"),
        ("latency", "distilbert"),
        ("signal-density", "electra"),
        ("length-extrapolation", "modernbert"),
        ("quadratic-attention", "longformer"),
        ("task-alignment", "xlnet"),
        ("kv-memory", "llama-3"),
    ],
)
def test_a_weakness_leads_to_the_model_that_answers_it(pressure: str, model: str, capsys: Capture) -> None:
    assert model in {row["model"] for row in answered(capsys, "tree", "--relieves", pressure)}


@pytest.mark.mechanism("M")
def test_the_table_tells_what_is_decided_when(capsys: Capture) -> None:
    decided = {
        (row["model"], row["path"].partition("architecture.")[2] or row["path"]): row["reaches"]
        for kind in ("encoders", "decoders", "seq2seq")
        for row in answered(capsys, "tree", "--table", kind)
        if row["since"]
    }
    assert decided["roberta", "objective.masking.copies"] == "config"
    assert decided["albert", "encoder.input.rank"] == "learned"
    assert decided["mistral", "decoder.block.attention.window"] == "state"
    assert decided["llama-3", "decoder.block.attention.kv_heads"] == "learned"
    assert decided["llama-3.1", "decoder.positions.scaling"] == "config"
    assert decided["t5", "encoder.positions"] == "learned"


def test_people_are_told_of_a_member_after_its_ancestor(capsys: Capture) -> None:
    lines = said(capsys, "tree", "--table", "encoders").splitlines()
    assert lines[0].split() == ["model", "changed", "since", "bert", "reaches", "axis", "payoff"]
    at = next(place for place, line in enumerate(lines) if line.startswith("deberta-v2"))
    assert "as deberta, and" in lines[at]
    assert "logarithmic buckets" in lines[at + 1]
    assert "layer 0" not in "".join(lines)
    some = said(capsys, "tree", "deberta-v3", "--table", "encoders")
    assert [line.split()[0] for line in some.splitlines() if not line.startswith(" ")] == [
        "model", "bert", "deberta", "deberta-v2", "deberta-v3",
    ]  # fmt: skip
    code, line = refused(capsys, "tree", "deberta", "--table", "decoders")
    assert (code, "none of these models is among the decoders" in line) == (3, True)
