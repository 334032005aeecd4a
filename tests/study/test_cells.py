"""Cells: found by content, and verified when read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.study import fakes
from variorum.family import find
from variorum.study.cells import Cell, CellStore, code_digest, fingerprint


@pytest.fixture
def cell() -> Cell:
    return fakes.cells(fakes.study())[0]


def _result(arm: int = 0, seed: int = 0):
    return fakes.cell_work(report=lambda done: None, arm=arm, seed=seed, pause=0.0)


def test_a_stored_result_comes_back_bit_for_bit(tmp_path: Path, cell: Cell):
    store = CellStore(tmp_path)
    stored = dataclasses.replace(_result(), items=(0.1 + 0.2, 1e-300, -3.0000000000000004))
    store.put(cell, stored)
    got = CellStore(tmp_path).get(cell)
    assert got is not None
    assert got.items == stored.items
    assert (got.curve, got.losses) == (stored.curve, stored.losses)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"data": "1" * 64},
        {"threads": 2},
        {"call": "tests.study.fakes:other"},
        {"work": {"arm": 1, "seed": 0, "pause": 0.0, "fail": ""}},
    ],
)
def test_whatever_decides_a_result_is_in_its_key(cell: Cell, change: dict[str, object]):
    assert dataclasses.replace(cell, **change).key != cell.key


def test_the_name_of_an_arm_is_not_in_the_key(cell: Cell):
    assert dataclasses.replace(cell, arm="renamed").key == cell.key


def test_the_path_of_the_data_is_not_in_the_key_its_content_is(cell: Cell):
    here = dataclasses.replace(cell, work={**cell.work, "data": Path("/here/data")})
    there = dataclasses.replace(cell, work={**cell.work, "data": Path("/there/data")})
    assert here.key == there.key


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied", "swapped"])
def test_a_damaged_result_is_not_found(tmp_path: Path, cell: Cell, damage: str):
    store = CellStore(tmp_path)
    store.put(cell, _result())
    path = store.path(cell)
    text = path.read_text()
    record = json.loads(text)
    record["result"]["items"] = record["result"]["items"][::-1]
    path.write_text(
        {"truncated": text[:-40], "flipped": text.replace("3.", "4.", 1), "emptied": "", "swapped": json.dumps(record)}[
            damage
        ]
    )
    assert store.get(cell) is None


def test_a_spec_has_one_fingerprint_and_every_change_another():
    gpt2 = find("gpt2")
    assert fingerprint(gpt2) == fingerprint(find("gpt2"))
    wider = gpt2.set({"architecture.width": 769})
    assert fingerprint(wider) != fingerprint(gpt2)


def test_values_that_print_alike_but_differ_have_different_fingerprints():
    values = [1, 1.0, "1", True, (1,), {"a": 1}, [1, None], None]
    assert len({fingerprint(value) for value in values}) == len(values)


def test_an_object_without_a_value_cannot_be_fingerprinted():
    with pytest.raises(TypeError, match="cannot be part"):
        fingerprint({"model": object()})


def test_the_code_that_computes_cells_is_known():
    assert len(code_digest()) == 64
