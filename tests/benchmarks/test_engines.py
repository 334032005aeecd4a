"""Every engine of the benchmarks gives the same answer to the same job, so that what is compared is speed alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.engines import ctranslate, onnx, transformers, variorum
from benchmarks.harness import check, models, texts
from tests.cli import models as tiny

TEXTS = ["The Law will never be perfect,", "its Law", "but its application should be just. " * 2, "Emma"]
LONGEST = 48


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.bert(tmp_path_factory.mktemp("engines") / "bert"))


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> str:
    return texts.kept(TEXTS, tmp_path_factory.mktemp("texts") / "texts.json")


@pytest.fixture(scope="module")
def right(bert: str, read: str) -> np.ndarray:
    return transformers.encode(bert, read, "arrival", LONGEST)()


def test_the_order_and_the_padding_of_texts_change_nothing(bert: str, read: str, right: np.ndarray) -> None:
    assert check.apart(transformers.encode(bert, read, "budget", LONGEST)(), right) < check.ROUNDING
    alone = transformers.one_text(bert)
    assert check.apart(np.concatenate([alone(text) for text in TEXTS[:2]]), right[:2]) < check.ROUNDING


@pytest.mark.parametrize("weights", ["", "float32"])
def test_ours_reads_as_transformers_does(bert: str, read: str, right: np.ndarray, weights: str) -> None:
    assert check.apart(variorum.encode(bert, read, weights)(), right) < check.ROUNDING


def test_onnx_runtime_reads_as_transformers_does(bert: str, read: str, right: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    onnx.exported(bert, str(tmp_path))
    assert check.apart(onnx.encode(bert, str(tmp_path / "float32.onnx"), read, LONGEST)(), right) < check.ROUNDING
    assert check.cosine(onnx.encode(bert, str(tmp_path / "int8.onnx"), read, LONGEST)(), right) > check.LEAST_COSINE


def test_ctranslate2_reads_and_writes_as_transformers_does(
    bert: str, read: str, right: np.ndarray, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    ctranslate.converted(bert, str(tmp_path / "bert"))
    found = ctranslate.encode(bert, str(tmp_path / "bert"), read, LONGEST, "float32")()
    assert check.apart(found, right) < check.ROUNDING
    gpt2, prompts = tiny.gpt2(tmp_path / "gpt2"), [[5, 6, 7], [8, 9, 10, 11, 12]]
    vocab = tiny.pieces().vocab_size
    ctranslate.converted(str(models.with_words(gpt2, vocab, tmp_path / "words")), str(tmp_path / "converted"))
    words = [models.WORD.format(i) for i in range(vocab)]
    theirs = transformers.write(str(gpt2), prompts, 6)()
    assert ctranslate.write(str(tmp_path / "converted"), words, prompts, 6, "float32")() == theirs
    assert variorum.write(str(gpt2), prompts, 6)() == theirs
    assert variorum.write(str(gpt2), prompts, 6, "float32")() == theirs
