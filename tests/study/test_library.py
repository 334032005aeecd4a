"""The ready studies: their arms differ in what each one asks about, and in nothing else."""

from __future__ import annotations

import pytest

from tests.tools.command import refused, variorum
from variorum.checks.registry import chosen
from variorum.errors import UsageError
from variorum.spec.size import size
from variorum.study import ways
from variorum.study.asked import BakeOff
from variorum.study.library import checks, find, named, ready

LAYOUT = {f"decoder.block.layout.{sublayer}" for sublayer in ("attention", "cross", "feedforward")}
ONE_CHANGE = {
    "z01": {"objective.pair", "recipe.format"},
    "z02": {"objective.masking.copies"},
    "z03": {"recipe.batch"},
    "z05": {"encoder.sharing"},
    "z06": LAYOUT | {"decoder.final_norm"},
    "z07": {"decoder.block.layout.norm", "decoder.final_norm"},
    "z08": {"decoder.block.feedforward", "decoder.block.feedforward.activation"},
    "z09": {"decoder.block.attention.kv_heads"},
    "z10": {"decoder.input.positions", "decoder.positions"},
    "z12": {"decoder.block.feedforward"},
    "z13": {"decoder.block.attention.window"},
    "z14": {"encoder.positions.terms", "encoder.block.attention.scale"},
    "z15": {"objective.masking.mask", "objective.masking.random"},
}
OBJECTIVES = {
    "z04": ["masked_lm", "replaced_token"],
    "z16": ["masked_lm", "causal_lm"],
    "z21": ["masked_lm", "permutation_lm"],
    "z23": ["masked_lm", "replaced_token"],
}


def claim(study: str) -> str:
    """The id of the claim that a study tries."""
    return f"Z{int(study[1:])}"


def marked(studies: object) -> list[object]:
    return [pytest.param(study, marks=pytest.mark.mechanism(claim(study))) for study in studies]  # type: ignore[attr-defined]


@pytest.mark.parametrize("study", marked(ONE_CHANGE))
def test_arms_differ_in_what_is_asked_about_alone(study: str) -> None:
    first, *others = find(study).asked.wanted().arms
    changed = {row.path.removeprefix("architecture.") for arm in others for row in first.spec.diff(arm.spec)}
    assert changed == ONE_CHANGE[study]


@pytest.mark.parametrize("study", marked(OBJECTIVES))
def test_arms_of_two_objectives_are_of_one_size(study: str) -> None:
    specs = [arm.spec for arm in find(study).asked.wanted().arms]
    assert [spec.objective.kind for spec in specs] == OBJECTIVES[study]
    stacks = [spec.architecture.main for spec in specs]
    assert len({(spec.architecture.width, stack.depth) for spec, stack in zip(specs, stacks, strict=True)}) == 1
    layers = [sum(layer.parameters for layer in size(spec, head=None, context=64).layers) for spec in specs]
    assert max(layers) < 1.15 * min(layers), layers


def test_every_claim_is_a_ready_study_and_small():
    assert [claim(one.name[:3]) for one in ready()] == [f"Z{number}" for number in range(1, 24)]
    for one in ready():
        assert one.title and one.published and one.changed
        assert one.asked is None or one.asked.seeds >= 3


@pytest.mark.parametrize("study", marked(["z11", "z18", "z19", "z20", "z22"]))
def test_arms_of_a_bake_off_can_do_its_task(study: str):
    told = find(study).asked
    assert isinstance(told, BakeOff)
    for arm in told.models:
        word, model = ways.read(arm.rpartition(": ")[2])
        ways.WAYS[word].check(told.task)
        assert ways.spec_of(model).architecture.width == 128


@pytest.mark.mechanism("Z19")
def test_casing_is_all_that_sets_its_arms_apart():
    cased, uncased = (ways.spec_of(f"nano:bert-base-{word}") for word in ("cased", "uncased"))
    paths = {row.path for row in cased.diff(uncased)}
    assert "tokenizer.cased" in paths and all(path.endswith((".cased", ".vocab")) for path in paths)


@pytest.mark.mechanism("Z22")
def test_one_reads_bytes_and_the_other_pieces():
    pieces, other = (ways.spec_of(f"nano:{name}") for name in ("mt5", "byt5"))
    assert pieces.tokenizer.kind == "unigram" and other.tokenizer.kind == "bytes"


@pytest.mark.mechanism("Z17")
def test_what_needs_no_training_is_a_list_of_checks():
    assert [check.name for check in chosen(checks("z17"))] == ["cache-time", "tiled-attention"]
    with pytest.raises(UsageError, match="tried at once"):
        named("z17-cache")


@pytest.mark.nightly
def test_what_needs_no_training_is_tried_at_once():
    assert "without: work grows as n to the" in variorum("study", "run", "z17").stdout


def test_flags_that_a_study_cannot_heed_are_refused():
    assert "tried at once" in refused("study", "run", "z17", "--seeds", "5", code=2)
    assert "no 'batch'" in refused("study", "run", "z20", "--batch", "5", code=2)
    assert "needs a table of your own" in refused("study", "run", "z19", code=2)
