"""A vector a text, in order, wherever the texts come from and wherever the vectors go."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import variorum
from tests.cli import models
from tests.tools.command import here as run
from tests.tools.command import refused

TEXTS = ["The Law", "its application should be just", "", "perfect"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.bert(tmp_path_factory.mktemp("embed") / "bert")


@pytest.fixture(scope="module")
def right(bert: Path) -> np.ndarray:
    """Each text on its own, so that nothing can leak between them."""
    model = variorum.load(bert)
    return np.concatenate([model.embed([text]).numpy() for text in TEXTS])


def close(vectors: object, right: np.ndarray) -> bool:
    return bool(np.abs(np.array(vectors) - right).max() < 1e-6)


def test_texts_on_the_command_line(bert: Path, right: np.ndarray) -> None:
    done = run("embed", str(bert), "--text", *TEXTS, "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert close([row["vector"] for row in rows], right)


def test_a_text_a_line_on_stdin(bert: Path, right: np.ndarray, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npy"
    words = [sys.executable, "-m", "variorum", "embed", str(bert), "--out", str(out), "--batch-size", "2"]
    subprocess.run(words, input="\r\n".join(TEXTS).encode(), check=True, capture_output=True)
    assert close(np.load(out), right)


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
def test_a_file_of_texts(bert: Path, right: np.ndarray, tmp_path: Path, kind: str) -> None:
    source, out = tmp_path / f"texts.{kind}", tmp_path / "vectors.jsonl"
    texts = [text for text in TEXTS if text or kind == "txt"]
    right = right if kind == "txt" else right[[0, 1, 3]]
    content = {
        "txt": "\n".join(texts) + "\n",
        "csv": "id,note\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)),
        "jsonl": "".join(json.dumps({"note": text}) + "\n" for text in texts),
    }
    source.write_text(content[kind])
    done = run("embed", str(bert), "--file", str(source), "--column", "note", "--out", str(out))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == texts
    assert close([row["vector"] for row in rows], right)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_cut_is_said(bert: Path) -> None:
    done = run("embed", str(bert), "--text", "law " * 300, "the law", "--format", "json")
    assert done.returncode == 0
    assert "1 of 2 texts are longer than the model takes" in done.stderr


def test_a_decoder_and_an_encoder_decoder_embed_too(tmp_path: Path) -> None:
    for name in (models.llama, models.t5):
        directory = name(tmp_path / name.__name__)
        model = variorum.load(directory)
        both = model.embed(["The Law", "its application should be just"])
        one = model.embed(["The Law"])
        assert np.abs((both[:1] - one).numpy()).max() < 1e-5, "a longer neighbour changes nothing"
        assert both.norm(dim=-1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_what_makes_no_sense_is_refused(bert: Path, tmp_path: Path, refuse: Callable[..., str]) -> None:
    source = tmp_path / "a.csv"
    source.write_text("note\nfine\n\n")
    assert "there is no text" in refused("embed", str(bert), code=2)
    assert "neither .npy nor .jsonl" in refuse("embed", str(bert), "--text", "a", "--out", "a.pt", code=2)
    assert "both --text and --file" in refuse("embed", str(bert), "--text", "a", "--file", str(source), code=2)
    assert "column" in refuse("embed", str(bert), "--file", str(source), code=3)
    assert "no such file" in refuse("embed", str(bert), "--file", str(tmp_path / "none.txt"), code=3)
    source.write_text("text,more\nfine,1\nbroken\n")
    assert "line 3" in refuse("embed", str(bert), "--file", str(source), code=7)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfea")
    assert "b.txt" in refuse("embed", str(bert), "--file", str(tmp_path / "b.txt"), code=7)
