"""Models as int8 from the command line: written with what it costs, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered, refused
from tests.cli.verbs import said as printed
from variorum.text.corpora import austen


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.llama(tmp_path_factory.mktemp("int8") / "llama")


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(austen()["Emma"][:3000])
    return str(tmp_path / "text.txt")


def test_convert_says_what_int8_costs_a_decoder(capsys, llama, text, tmp_path):
    found = answered(capsys, "convert", str(llama), str(tmp_path / "out"), "--weights", "int8", "--file", text)
    assert found["measure"] == "perplexity" and found["before"] > 1
    assert found["change"] == f"{found['after'] / found['before'] - 1:+.2%}"
    assert found["bytes"] < (llama / "model.safetensors").stat().st_size


def test_convert_says_what_int8_costs_an_encoder(capsys, text, tmp_path):
    bert = models.bert(tmp_path / "bert")
    found = answered(capsys, "convert", str(bert), str(tmp_path / "out"), "--weights", "int8", "--file", text)
    assert found["measure"] in ("masked-LM loss", "embedding cosine")
    assert abs(found["after"] / found["before"] - 1) < 0.05


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_a_model_writes_in_its_form_for_inference(capsys, llama, weights):
    words = ("generate", str(llama), "The Law will", "--max-new-tokens", "4")
    assert printed(capsys, *words, "--weights", weights).startswith("The Law will")


def test_int8_has_no_place_for_a_pickle_or_for_half_precision(capsys, llama, tmp_path):
    code, line = refused(capsys, "convert", str(llama), str(tmp_path / "out"), "--from-pickle", "--weights", "int8")
    assert code == 2 and "leave out --dtype, --weights" in line
    code, line = refused(capsys, "generate", str(llama), "x", "--weights", "int8", "--dtype", "bfloat16")
    assert code == 2 and "float32" in line
