"""Arms from names, walks, ablations and grids: every one legal, each set apart from the one before."""

from __future__ import annotations

import pytest

from variorum.errors import NotFound, UsageError
from variorum.family import models
from variorum.family.reference import architecture
from variorum.spec import rules
from variorum.spec.size import size
from variorum.spec.small import SCALES
from variorum.study.arms import ablate, fitting, grid, named, walk
from variorum.study.asked import LANGUAGE
from variorum.study.budgets import budget_of, matched

FIT = fitting(SCALES["nano"], LANGUAGE)


def test_a_walk_makes_one_change_after_the_other_and_ends_at_its_end():
    walked = walk("gpt2", "llama", FIT)
    assert [arm.name for arm in walked.arms] == ["gpt2", "positions", "norm", "feedforward", "bias", "tie", "dropout"]
    assert [arm.title for arm in walked.arms[1:4]] == ["+ Rotary", "+ RMSNorm", "+ GatedMLP"]
    last, end = walked.arms[-1].spec, FIT(architecture("llama"))
    assert last is not None
    left = [row.path for row in last.diff(end) if row.path.startswith("architecture.")]
    assert left == ["architecture.decoder.input.vocab"]  # the tokenizer's
    assert any(line.startswith("tokenizer") for line in walked.left)  # and says what it leaves out


@pytest.mark.parametrize(("start", "end"), [("bert", "modernbert"), ("modernbert", "bert"), ("llama", "mixtral")])
def test_a_walk_goes_up_and_down_the_tree(start: str, end: str):
    walked = walk(start, end, FIT)
    for arm in walked.arms:
        assert arm.spec is not None and not rules.check(arm.spec)
    assert all(arm.apparatus for arm in walked.arms[1:])
    assert len({arm.name for arm in walked.arms}) == len(walked.arms)
    last = walked.arms[-1].spec
    assert last is not None
    left = [row.path for row in last.diff(FIT(architecture(end))) if row.path.startswith("architecture.")]
    others = ("vocab", "pad_id", "next_sentence", "pooler")  # the tokenizer's and the objective's, which were left out
    assert not [path for path in left if path.rpartition(".")[2] not in others]


def test_every_model_can_be_walked_to_from_its_ancestor():
    walked = 0
    for model in models().values():
        if model.ancestor is None or not set(model.architecture.heads) & set(LANGUAGE):
            continue
        try:
            arms = walk(model.ancestor.name, model.name, FIT).arms
        except UsageError:  # sizes, tokenizers and recipes alone
            continue
        walked += 1
        assert all(arm.spec is not None and not rules.check(arm.spec) for arm in arms[1:]), model.name
    assert walked > 20


def test_a_row_is_ablated_alone_and_a_wrong_one_is_named():
    without, whole = ablate("gpt2", "llama", "architecture.decoder.block.layout.norm", FIT)
    assert {reading.after for reading in whole.apparatus} >= {"RMSNorm(eps 1e-06)"}
    assert without.name == "without" and whole.name == "with"
    with pytest.raises(NotFound, match="do not differ at"):
        ablate("gpt2", "llama", "architecture.decoder.depths", FIT)


def test_a_grid_has_every_combination():
    path = "architecture.encoder.block.feedforward.activation"
    arms = grid("bert", {path: ("relu", "gelu"), "architecture.encoder.depth": ("2", "3")}, FIT)
    assert [arm.name for arm in arms] == ["relu-2", "relu-3", "gelu-2", "gelu-3"]
    with pytest.raises(UsageError, match="path=value"):
        grid("bert", {}, FIT)


def test_names_carry_changes_of_their_own():
    plain, shallow = named(("bert", "half: bert+architecture.encoder.depth=2"), FIT)
    assert (plain.name, shallow.name, shallow.title) == ("bert", "half", "half")
    assert plain.spec is not None and shallow.spec is not None
    assert (plain.spec.architecture.stacks["encoder"].depth, shallow.spec.architecture.stacks["encoder"].depth) == (
        4,
        2,
    )
    with pytest.raises(NotFound):
        named(("brt",), FIT)


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [("300steps", 300, "steps"), ("5Mtokens", 5e6, "tokens"), ("1.5 Tflops", 1.5e12, "flops")],
)
def test_a_budget_in_words(text: str, amount: float, unit: str):
    found = budget_of(text)
    assert (found.amount, found.unit) == (amount, unit)
    assert budget_of("1Mtokens").steps(tokens=1000, flops=9.0) == 1000
    assert budget_of("9kflops").steps(tokens=1000, flops=9.0) == 1000


@pytest.mark.parametrize("text", ["", "300", "0steps", "5 apples", "0flops", "-1s"])
def test_no_budget(text: str):
    with pytest.raises(UsageError, match="no budget; write 300steps, 5Mtokens, 2Tflops or 90s"):
        budget_of(text)


@pytest.mark.parametrize("dial", ["width", "depth"])
def test_parameters_are_matched(dial: str):
    bert, albert, gpt2, llama = (FIT(architecture(name)) for name in ("bert", "albert", "gpt2", "llama"))

    def parameters(spec):
        return size(spec, head=tuple(spec.architecture.heads)).parameters

    assert parameters(albert) < 0.7 * parameters(bert)
    if dial == "width":
        made = matched(albert, bert, "width")
        assert abs(parameters(made) / parameters(bert) - 1) < 0.02
    else:
        made, depth = matched(gpt2, llama, "depth"), "architecture.decoder.depth"
        layer = parameters(gpt2.set({depth: 2})) - parameters(gpt2.set({depth: 1}))
        assert parameters(gpt2) < parameters(llama) - layer
        assert abs(parameters(made) - parameters(llama)) <= layer / 2
