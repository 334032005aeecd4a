"""The family counts right: every published model that it knows has exactly the parameters of the released one.

``params.tsv`` holds counts taken from the reference implementation's own classes: heads carried, the part left out
where its class leaves one out, the parameters, and the numbers that this package holds as tensors and the class as
buffers, or not at all (the positions of the enhanced mask decoder). What no class makes, papers describe: the counts of
``CLOSED`` are worked out from their tables.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from variorum.builder import empty
from variorum.family import find, models
from variorum.spec.model import Model
from variorum.spec.size import size

ROWS = list(csv.DictReader(Path(__file__).with_name("params.tsv").open(), delimiter="\t"))


def vanilla(width: int, depth: int, inner: int, vocab: int = 37_000) -> int:
    """Vaswani et al. 2017: attention without biases, feed-forward with, one table for three."""
    attention, forward, norm = 4 * width**2, 2 * width * inner + inner + width, 2 * width
    return vocab * width + depth * (attention + forward + 2 * norm) + depth * (2 * attention + forward + 3 * norm)


def gpt3(width: int, depth: int, inner: int | None = None) -> int:
    """Brown et al. 2020: GPT-2 with 2,048 positions; ``inner`` is what all heads span, where that is not the width."""
    inner = inner or width
    attention = 3 * (width + 1) * inner + (inner + 1) * width
    layer = attention + 8 * width**2 + 5 * width + 4 * width
    return (50_257 + 2048) * width + depth * layer + 2 * width


def palm(width: int, depth: int, heads: int) -> int:
    """Chowdhery et al. 2022: one norm a layer, one key and value head of 256, three matrices of 4 times the width."""
    attention = 2 * width * heads * 256 + 2 * width * 256
    return 256_000 * width + depth * (attention + 3 * 4 * width**2 + width) + width


CLOSED = {
    "transformer-base": vanilla(512, 6, 2048), "transformer-big": vanilla(1024, 6, 4096),
    "gpt3-small": gpt3(768, 12), "gpt3-medium": gpt3(1024, 24), "gpt3-large": gpt3(1536, 24),
    "gpt3-xl": gpt3(2048, 24), "gpt3-2.7b": gpt3(2560, 32), "gpt3-6.7b": gpt3(4096, 32),
    "gpt3-13b": gpt3(5140, 40, 40 * 128), "gpt3-175b": gpt3(12_288, 96),
    "palm-8b": palm(4096, 32, 16), "palm-62b": palm(8192, 64, 32), "palm-540b": palm(18_432, 118, 48),
}  # fmt: skip


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


@pytest.mark.mechanism("C1")
@pytest.mark.parametrize("name", CLOSED)
def test_what_only_papers_describe_has_the_count_of_their_tables(name: str) -> None:
    model = find(name)
    heads = tuple(head for head in ("causal_lm", "seq2seq_lm") if head in model.architecture.heads)
    counted = size(model, head=heads, context=1).parameters
    assert counted == CLOSED[name] == sum(parameter.numel() for parameter in empty(model, heads).parameters())


def test_every_published_size_has_a_count_and_every_model_a_size() -> None:
    held = {row["name"].lower() for row in ROWS} | set(CLOSED)
    sizes = {size.lower() for model in models().values() for size in model.sizes}
    assert sizes - held == set()
    assert {name for name, model in models().items() if not model.sizes and name not in held} == {"bilm"}  # a contrast


def test_every_family_has_a_published_count() -> None:
    counted = {model.name for row in ROWS for model in find(row["name"]).lineage}
    assert counted >= {"bert", "transformer", "t5", "gpt-1", "gpt2", "llama", "gemma", "qwen2"}
    assert len(ROWS) > 140
