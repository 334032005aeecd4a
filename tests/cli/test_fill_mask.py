"""Candidates for a mask are the model's own likeliest tokens, put where the mask was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import variorum
from tests.cli import models
from tests.tools.command import here as run
from variorum.inference.encode import tensors


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.bert(tmp_path_factory.mktemp("fill-mask") / "bert")


def rows(*words: str) -> list[dict[str, object]]:
    done = run("fill-mask", *words, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.mechanism("G4")
def test_candidates_are_the_likeliest_tokens_at_the_mask(bert: Path) -> None:
    found = rows(str(bert), "The [MASK] will be just", "--top-k", "4")
    model = variorum.load(bert)
    encoding = model.tokenizer.encode("The [MASK] will be just", allow_special_text=True)
    with torch.no_grad():
        logits = model(**tensors(model, model.tokenizer.pad([encoding]))).logits
    assert logits is not None
    best = logits[0, encoding.ids.index(model.tokenizer.mask_id)].softmax(-1).topk(4)
    assert [row["id"] for row in found] == best.indices.tolist()
    assert [row["probability"] for row in found] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_the_text_keeps_its_spelling_and_its_other_masks(bert: Path) -> None:
    found = rows(str(bert), "The [MASK] WILL be [MASK].", "--top-k", "1")
    assert [row["mask"] for row in found] == [0, 1]
    first, second = (str(row["token"]).removeprefix("##") for row in found)
    assert found[0]["text"] == f"The {first} WILL be [MASK]."
    assert found[1]["text"] == f"The [MASK] WILL be {second}."


def test_people_get_a_table(bert: Path) -> None:
    lines = run("fill-mask", str(bert), "a [MASK]", "--top-k", "2").stdout.splitlines()
    assert lines[0].split() == ["token", "probability", "text"]
    assert len(lines) == 3


def test_more_candidates_than_words_are_all_words(bert: Path) -> None:
    found = rows(str(bert), "[MASK]", "--top-k", "100000")
    assert len(found) == variorum.load(bert).spec.architecture.main.input.vocab
    assert sum(float(str(row["probability"])) for row in found) == pytest.approx(1, abs=1e-4)


def test_what_makes_no_sense_is_refused(bert: Path, refuse: Callable[..., str]) -> None:
    assert "write [MASK] where a word is missing" in refuse("fill-mask", str(bert), "no gap", code=2)
    assert "--top-k 0" in refuse("fill-mask", str(bert), "[MASK]", "--top-k", "0", code=2)
