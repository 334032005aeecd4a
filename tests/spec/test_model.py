"""A model is data: changes apply by path, parts are replaced whole, and a diff says what, where and why."""

from __future__ import annotations

import dataclasses

import pytest

from variorum.errors import NotFound
from variorum.family import find, models
from variorum.spec.architecture import At, Sharing
from variorum.spec.feedforward import MLP, GatedMLP
from variorum.spec.model import AXES, MECHANISM, Change, Model
from variorum.spec.norms import RMSNorm

FEEDFORWARD = "architecture.encoder.block.feedforward"


def variant(*changes: Change, of: str = "bert") -> Model:
    return find(of).variant("child", cite="none", changes=changes)


def test_a_change_sets_its_path_and_the_places_where_it_shows_again() -> None:
    child = variant(
        Change("architecture.encoder.depth", 3, axis=MECHANISM, why="short", also={"recipe.steps": 10}),
    )
    assert child.architecture.encoder is not None
    assert (child.architecture.encoder.depth, child.recipe.steps) == (3, 10)
    assert find("bert").architecture.encoder.depth == 12  # type: ignore[union-attr]


def test_setting_a_part_replaces_it_whole() -> None:
    child = variant(Change(FEEDFORWARD, GatedMLP(width=64, activation="silu"), axis=MECHANISM, why="gates"))
    assert child.architecture.main.block.feedforward == GatedMLP(width=64, activation="silu")
    assert child.architecture.main.block.feedforward.bias is False


def test_an_unknown_path_names_the_nearest() -> None:
    with pytest.raises(NotFound, match="did you mean feedforward"):
        variant(Change("architecture.encoder.block.feedforwad.width", 1, axis=MECHANISM, why="typo"))


def test_a_size_is_found_with_and_without_its_models_name() -> None:
    assert find("llama").sized("7b") == find("llama").sized("llama-7b")
    with pytest.raises(NotFound, match="has no size"):
        find("bert").sized("huge")


def test_specs_are_frozen_and_equal_by_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        find("bert").architecture.width = 5  # type: ignore[misc]
    assert MLP(width=4, activation="relu") == MLP(width=4, activation="relu") != MLP(width=5, activation="relu")


def test_patterns_reach_the_layers_they_name() -> None:
    assert [i for i in range(6) if At(layers="::3", set={}).covers(i, 6)] == [0, 3]
    assert [i for i in range(6) if At(layers="1,4", set={}).covers(i, 6)] == [1, 4]
    assert [i for i in range(6) if At(layers=":2", set={}).covers(i, 6)] == [0, 1]
    gemma = find("gemma-3-1b").architecture.main
    assert [i for i in range(gemma.depth) if gemma.layer(i).attention.window is None] == [5, 11, 17, 23]


@pytest.mark.mechanism("E4")
def test_groups_of_layers_share_with_their_first() -> None:
    assert [Sharing().owner(i, 6) for i in range(6)] == [0] * 6
    assert [Sharing(groups=2).owner(i, 6) for i in range(6)] == [0, 0, 0, 3, 3, 3]
    assert [Sharing(inner=2).owner(i, 6) for i in range(6)] == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("name", [name for name, model in models().items() if model.ancestor is not None])
def test_a_diff_from_the_ancestor_is_its_changes_and_nothing_else(name: str) -> None:
    model = find(name)
    assert model.ancestor is not None
    rows = model.ancestor.diff(model)
    said = {change.path for change in model.changes}
    assert rows
    assert {row.change for row in rows} <= said
    assert all(row.by == name and row.why and not row.undone for row in rows)


@pytest.mark.parametrize("name", models())
def test_every_change_shows_in_the_diff(name: str) -> None:
    model = find(name)
    shown = {row.change for row in model.ancestor.diff(model)} if model.ancestor else set()
    assert {change.path for change in model.changes} == shown


def test_rows_stand_by_axis_and_those_of_one_change_together() -> None:
    rows = find("bert").diff(find("modernbert"))
    axes = [AXES.index(row.axis) for row in rows]
    assert axes == sorted(axes)
    changes = [row.change for row in rows]
    assert len(set(changes)) == sum(a != b for a, b in zip(changes, [None, *changes], strict=False))


def test_parts_of_another_kind_are_one_row() -> None:
    rows = {row.path: row for row in find("bert").diff(find("modernbert"))}
    assert isinstance(rows[FEEDFORWARD].before, MLP)
    assert isinstance(rows[FEEDFORWARD].after, GatedMLP)
    assert not any(path.startswith(f"{FEEDFORWARD}.") for path in rows)


def test_a_diff_read_backwards_has_the_same_places() -> None:
    there, back = find("gpt2").diff(find("llama-3")), find("llama-3").diff(find("gpt2"))
    assert {(row.path, row.axis) for row in there} == {(row.path, row.axis) for row in back}
    assert all(row.undone for row in back)


def test_siblings_are_explained_from_both_sides() -> None:
    rows = {row.path: row for row in find("roberta").diff(find("distilbert"))}
    assert (rows["architecture.encoder.depth"].by, rows["architecture.encoder.depth"].undone) == ("distilbert", False)
    assert (rows["tokenizer.kind"].by, rows["tokenizer.kind"].undone) == ("roberta", True)


def test_brief_forms_leave_out_what_is_at_its_default() -> None:
    assert MLP(width=4, activation="relu").brief() == "MLP(width=4, activation=relu)"
    assert RMSNorm(eps=1e-6, unit_offset=True).brief() == "RMSNorm(eps=1e-06, unit_offset=True)"
