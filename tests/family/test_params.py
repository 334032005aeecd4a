"""The family counts right: every published model that it knows has exactly the parameters of the released one.

``params.tsv`` holds counts taken from the reference implementation's own classes: heads carried, the part left out
where its class leaves one out, the parameters, and the numbers that this package holds as tensors and the class as
buffers, or not at all (the positions of the enhanced mask decoder).
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from variorum.builder import empty
from variorum.family import find
from variorum.spec.model import Model
from variorum.spec.size import size

ROWS = list(csv.DictReader(Path(__file__).with_name("params.tsv").open(), delimiter="\t"))


def named(row: dict[str, str]) -> str:
    return f"{row['name']}:{row['heads']}:{row['without']}"


def meant(row: dict[str, str]) -> tuple[Model, tuple[str, ...]]:
    model = find(row["name"])
    if row["without"] != "-":
        model = model.set({row["without"]: None})
    return model, () if row["heads"] == "-" else tuple(row["heads"].split(","))


@pytest.mark.mechanism("C1")
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_size_and_the_built_model_have_the_published_count(row: dict[str, str]) -> None:
    model, heads = meant(row)
    counted = size(model, head=heads, context=1).parameters
    assert counted == int(row["parameters"]) + int(row["buffers"])
    assert counted == sum(parameter.numel() for parameter in empty(model, heads).parameters())


def test_every_family_has_a_published_count() -> None:
    counted = {model.name for row in ROWS for model in find(row["name"]).lineage}
    assert counted >= {"bert", "transformer", "t5", "gpt-1", "gpt2", "llama", "gemma", "qwen2"}
    assert len(ROWS) > 140
