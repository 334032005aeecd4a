"""The ready studies: their arms differ in what each one asks about, and in nothing else."""

from __future__ import annotations

import pytest

from variorum.spec.size import size
from variorum.study.library import find

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
