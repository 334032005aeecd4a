"""``translate`` and ``summarize`` put before a text what the checkpoint says, and write as it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import variorum
from tests.cli import models
from tests.cli.verbs import answered, refused, said
from variorum.inference.purposes import Purpose, purposes

JOBS = {
    "summarization": {"prefix": "summarize: ", "max_length": 9, "num_beams": 2, "early_stopping": True},
    "translation_en_to_de": {"prefix": "translate English to German: ", "max_length": 7},
    "translation_en_to_fr": {"prefix": "translate English to French: "},
}
TEXTS = ["The Law", "its application"]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny T5 whose config names its jobs."""
    place = models.t5(tmp_path_factory.mktemp("rewriting") / "t5")
    config = json.loads((place / "config.json").read_text("utf-8"))
    (place / "config.json").write_text(json.dumps(config | {"task_specific_params": JOBS}), "utf-8")
    (place / "variorum-manifest.json").unlink()
    return place


@pytest.mark.mechanism("I2")
def test_a_text_is_put_and_written_as_the_config_says(t5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = variorum.load(t5)
    assert purposes(model)["summarization"] == Purpose(
        "summarize: ", {"num_beams": 2, "early_stopping": True, "max_new_tokens": 8}
    )
    short = model.generate([f"summarize: {one}" for one in TEXTS], num_beams=2, early_stopping=True, max_new_tokens=8)
    found = answered(capsys, "summarize", str(t5), *TEXTS)
    assert found == [{"text": text, "written": one.strip()} for text, one in zip(TEXTS, short, strict=True)]
    german = model.generate(f"translate English to German: {TEXTS[0]}", max_new_tokens=6).strip()
    for pair in (("en", "de"), ("English", "German")):
        (row,) = answered(capsys, "translate", str(t5), TEXTS[0], "--source", pair[0], "--target", pair[1])
        assert row["written"] == german
    longer = answered(
        capsys, "translate", str(t5), TEXTS[0], "--source", "en", "--target", "fr", "--max-new-tokens", "3"
    )
    french = model.generate(f"translate English to French: {TEXTS[0]}", max_new_tokens=3).strip()
    assert longer[0]["written"] == french


def test_a_line_in_gives_a_line_out(t5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    shown = said(capsys, "summarize", str(t5), "--file", str(tmp_path / "a.txt"), "--max-new-tokens", "2")
    assert shown.count("\n") == 2


def test_what_was_trained_here_writes_as_it_learned(
    t5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from variorum.tasks.seq2seq import Seq2Seq

    task = Seq2Seq(model=str(t5), prefix="say: ", epochs=1, validation=0.0, max_target_length=5)
    task.fit(TEXTS * 4, TEXTS * 4).save(tmp_path / "trained")
    found = answered(capsys, "translate", str(tmp_path / "trained"), *TEXTS)
    assert [row["written"] for row in found] == list(task.predict(TEXTS))
    task.set_params(max_target_length=2, num_beams=2)
    words = ("--max-new-tokens", "2", "--num-beams", "2")
    found = answered(capsys, "summarize", str(tmp_path / "trained"), *TEXTS, *words)
    assert [row["written"] for row in found] == list(task.predict(TEXTS))


def test_what_cannot_be_written_is_refused(t5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpt2 = models.gpt2(tmp_path / "gpt2")
    for words, code, says in (
        (("translate", str(t5), "a", "--source", "en", "--target", "xx"), 3, "en to de, en to fr"),
        (("translate", str(t5), "a"), 3, "en to de"),
        (("summarize", str(gpt2), "a"), 2, "continues texts"),
    ):
        found, line = refused(capsys, *words)
        assert found == code
        assert says in line
