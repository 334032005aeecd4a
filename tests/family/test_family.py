"""The family is found by name, whatever the case, and each member says why it differs."""

from __future__ import annotations

import pytest

from variorum.errors import NotFound
from variorum.family import children, find, models, sizes


def test_names_are_found_in_any_case() -> None:
    assert find("BERT") is find("bert")
    assert find("all-minilm-l6-v2").name == "all-MiniLM-L6-v2"
    assert find("MODERNBERT-BASE").repo == "answerdotai/ModernBERT-base"


def test_no_two_things_have_one_name() -> None:
    published = [size.lower() for model in models().values() for size in model.sizes]
    assert len(published) == len(set(published)) == len(sizes())
    assert not set(published) & set(models())


@pytest.mark.parametrize(("name", "nearest"), [("modernbret", "modernbert"), ("llama-3-8", "llama-3-8b")])
def test_an_unknown_name_brings_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(NotFound, match=nearest):
        find(name)


@pytest.mark.parametrize("name", ["gpt-4", "GPT-4o", "claude-3"])
def test_closed_models_are_said_to_be_closed(name: str) -> None:
    with pytest.raises(NotFound, match="not disclosed"):
        find(name)


@pytest.mark.parametrize("name", models())
def test_every_change_has_a_short_reason_and_every_size_a_repository(name: str) -> None:
    model = find(name)
    assert model.cite
    for change in model.changes:
        assert 0 < len(change.why) <= 120
        assert not change.why.endswith(".")
    for size in model.sizes:
        assert find(size).repo or model.sizes[size].note, "who cannot be downloaded says why"


def test_ancestors_come_first_and_know_their_children() -> None:
    seen: list[str] = []
    for name, model in models().items():
        if model.ancestor is not None:
            assert model.ancestor.name in seen
            assert name in [child.name for child in children(model.ancestor.name)]
        seen.append(name)
