"""The figures of ``score`` are those of a reading by hand, pooled over tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import variorum
from tests.cli import models
from tests.cli.verbs import answered, listed, refused

LINES = ["The Law will never be perfect, but", "its application", "should be just."]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.gpt2(tmp_path_factory.mktemp("score") / "gpt2")


def by_hand(directory: Path, text: str) -> tuple[float, int, int]:
    """Nats, tokens and bytes of a text that nothing stands before."""
    model = variorum.load(directory)
    encoding = model.tokenizer.encode(text)
    ids = torch.tensor([encoding.ids])
    with torch.no_grad():
        losses = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum")
    return float(losses), ids.shape[1] - 1, len(text[encoding.offsets[0][1] :].encode())


@pytest.mark.case("V088")
def test_lines_are_pooled_over_their_tokens(gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    words = ("score", str(tmp_path / "a.txt"), "--model", str(gpt2), "--by", "line")
    found = answered(capsys, *words)
    nats, tokens, size = map(sum, zip(*(by_hand(gpt2, line) for line in LINES), strict=True))
    assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / size, rel=1e-4)
    assert (found["texts"], found["tokens"], found["bytes"]) == (3, tokens, size)
    rows = listed(capsys, *words, "--each")
    assert [row["text"] for row in rows] == LINES
    assert sum(row["nats"] for row in rows) == pytest.approx(found["nats"])


def test_a_file_is_one_text_and_windows_are_said(
    gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(LINES)
    (tmp_path / "a.txt").write_text(text, "utf-8")
    whole = answered(capsys, "score", str(tmp_path / "a.txt"), "--model", str(gpt2))
    assert (whole["texts"], whole["tokens"]) == (1, by_hand(gpt2, text)[1])
    assert (whole["window"], whole["stride"]) == (48, 24)
    cut = answered(
        capsys,
        "score",
        "--text",
        text,
        "--model",
        str(gpt2),
        "--window",
        "7",
        "--stride",
        "3",
        "--start",
        "<|endoftext|>",
    )
    assert (cut["tokens"], cut["window"], cut["stride"]) == (whole["tokens"] + 1, 7, 3)


def test_an_encoder_decoder_reads_a_source_beside_each_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    t5 = models.t5(tmp_path / "t5")
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("\n".join(LINES), "utf-8")
    words = ("score", str(tmp_path / "a.txt"), "--model", str(t5), "--by", "line")
    found = answered(capsys, *words, "--source", str(tmp_path / "b.txt"))
    model = variorum.load(t5)
    right = 0.0
    for line in LINES:
        ids = torch.tensor([model.tokenizer.encode(line).ids])
        with torch.no_grad():
            right += float(model(ids, labels=ids).loss) * ids.shape[1]
    assert found["nats"] == pytest.approx(right, rel=1e-4)
    code, line = refused(capsys, *words)
    assert (code, "a source for each text" in line) == (2, True)


def test_what_cannot_be_scored_is_refused(gpt2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, says in (
        (("--window", "4000"), 2, "longer than the 48"),
        (("--window", "4", "--stride", "5"), 2, "leaves some out"),
        (("--start", "<none>"), 2, "<none>"),
    ):
        found, line = refused(capsys, "score", "--text", "a text", "--model", str(gpt2), *words)
        assert found == code
        assert says in line
