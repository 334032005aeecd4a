"""Fair by construction: what two arms have in common begins alike, whatever else sets them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch

from variorum.builder import build
from variorum.spec.model import Model
from variorum.spec.small import worded
from variorum.study.asked import Asked, asked
from variorum.study.library import find

HARD = {
    "walk": {"walk": "gpt2..llama"},
    "back": {"walk": "llama..gpt2"},
    "sharing": find("z05").asked,
    "halves": {"arms": ["t5", "t5+encoder.depth=1", "t5+decoder.block.feedforward.activation=gelu"]},
    "matched": {"arms": ["gpt2", "gpt2+decoder.depth=2"], "match": "width"},
    "terms": find("z14").asked,
    "experts": find("z12").asked,
}


def _specs(name: str) -> Iterator[Model]:
    told = HARD[name]
    study = told if isinstance(told, Asked) else asked(told, where="here")
    assert isinstance(study, Asked)
    for arm in study.wanted().arms:
        assert arm.spec is not None
        yield worded(arm.spec, vocab=300, pad_id=0, length=64)


def _drawn(spec: Model, seed: int) -> dict[str, torch.Tensor]:
    made = build(spec, head=tuple(spec.architecture.heads), seed=seed)
    return {name: value.detach() for name, value in made.named_tensors()}


@pytest.mark.parametrize("name", HARD)
def test_what_arms_share_begins_with_the_same_draw(name: str):
    """The same numbers, but for the scale that an arm gives them."""
    seen = 0
    for before, after in itertools.pairwise(_drawn(spec, seed=3) for spec in _specs(name)):
        shared = [key for key in before if key in after and before[key].shape == after[key].shape]
        assert len(shared) > len(before) / 4
        for key in shared:
            one, other = before[key].double(), after[key].double()
            if float(one.abs().sum()) == 0 or float(other.abs().sum()) == 0:
                continue  # a norm that begins at zero, or a bias
            assert torch.allclose(one / one.norm(), other / other.norm(), rtol=1e-6, atol=1e-9), (name, key)
            seen += float(one.std()) > 0 if one.numel() > 1 else 0
    assert seen >= 10


def test_another_seed_draws_anew_and_an_arm_shifts_no_other_parameter():
    first = next(_specs("walk"))
    assert not torch.equal(*(_drawn(first, seed)["decoder.input.table.weight"] for seed in (0, 1)))
    deeper = first.set({"architecture.decoder.depth": first.architecture.main.depth + 1})
    one, other = _drawn(first, 0), _drawn(deeper, 0)
    alike = [key for key in one if not key.endswith(("out.weight", "down.weight"))]  # those shrink with the depth
    assert all(torch.equal(one[key], other[key]) for key in alike) and len(other) > len(one)
