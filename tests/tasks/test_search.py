"""An index finds what plain arithmetic finds, keeps to its file, and reads only what is new."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import variorum
from tests.cli import models
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.tasks import search
from variorum.tasks.search import Index, passages, questions

TEXTS = [
    "The Law",
    "its application should be just",
    "perfect",
    "the Law will never be",
    "a line\u2028in two",
    "perfect",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> variorum.Model:
    return variorum.load(models.bert(tmp_path_factory.mktemp("search") / "bert"))


@pytest.fixture
def read(model: variorum.Model, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are embedded from here on."""
    found: list[str] = []
    plain = search._vectors

    def seen(model: variorum.Model, texts: Sequence[str], role: str) -> object:
        found.extend(text for text in texts if text != search.PROBE)
        return plain(model, texts, role)

    monkeypatch.setattr(search, "_vectors", seen)
    return found


@pytest.mark.parametrize("held_at_once", [2**22, 7])
def test_the_nearest_are_those_of_all_cosines(held_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCORES", held_at_once)
    vectors = torch.nn.functional.normalize(torch.randn(200, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    vectors[150] = vectors[20]
    texts = [str(row) for row in range(200)]
    index = Index(vectors=vectors, texts=texts, lines=range(1, 201), probe=vectors[:1])
    queries = torch.cat((vectors[20:21], torch.nn.functional.normalize(vectors[3:5] + 0.3, dim=-1)))
    found = index.search(queries, top_k=7)
    scores = queries.double() @ vectors.double().T
    for hits, row in zip(found, scores, strict=True):
        best = sorted(range(200), key=lambda at, row=row: (-round(float(row[at]), 6), at))[:7]
        assert [hit.row for hit in hits] == best
        assert [hit.score for hit in hits] == pytest.approx([float(row[at]) for at in best], abs=1e-6)
        assert [(hit.text, hit.line) for hit in hits] == [(str(at), at + 1) for at in best]
    assert [hit.row for hit in found[0][:2]] == [20, 150]
    assert len(index.search(queries, top_k=1000)[0]) == 200


@pytest.mark.mechanism("H5")
def test_a_text_finds_itself_and_a_saved_index_finds_the_same(model: variorum.Model, tmp_path: Path) -> None:
    index, cut = Index.of(model, TEXTS)
    assert cut == 0
    index.save(tmp_path / "index")
    again = Index.load(tmp_path / "index")
    assert (again.texts, again.lines) == (tuple(TEXTS), (1, 2, 3, 4, 5, 6))
    assert torch.equal(again.vectors, index.vectors)
    asked = questions(model, TEXTS)
    for text, hits, same in zip(TEXTS, index.search(asked, 2), again.search(asked, 2), strict=True):
        assert hits == same
        assert hits[0].text == text
        assert hits[0].score == pytest.approx(1, abs=1e-5)


def test_only_what_is_new_is_read(model: variorum.Model, read: list[str]) -> None:
    index, _ = Index.of(model, TEXTS)
    del read[:]
    grown = [*reversed(TEXTS), "something new", "its Law", "something new"]
    followed, count = index.followed(model, grown, lines=range(11, 20))
    assert read == ["something new", "its Law"]
    assert count == 2
    assert followed.texts == tuple(grown)
    assert followed.lines == tuple(range(11, 20))
    assert float((followed.vectors - passages(model, grown)[0]).abs().max()) < 1e-5
    shrunk, count = followed.followed(model, TEXTS[:2])
    assert (len(shrunk), count) == (2, 0)


def test_another_models_index_is_known_as_such(model: variorum.Model, tmp_path: Path) -> None:
    index, _ = Index.of(model, TEXTS)
    index.require(model)
    other = variorum.load(models.gpt2(tmp_path / "gpt2"))
    with pytest.raises(UsageError, match="another model"):
        index.require(other)
    with torch.no_grad():
        next(iter(other.parameters())).add_(1.0)
    with pytest.raises(UsageError, match="another model"):
        index.followed(other, TEXTS)


def test_a_damaged_index_is_refused(model: variorum.Model, tmp_path: Path) -> None:
    index, _ = Index.of(model, TEXTS)
    index.save(tmp_path / "index")
    weights = (tmp_path / "index" / "model.safetensors").read_bytes()
    for name, change in (
        ("model.safetensors", weights[:-1] + bytes([weights[-1] ^ 1])),
        ("rows.jsonl", b'{"line": 1, "text": "another"}\n'),
        ("index.json", b'{"kind": "something else"}'),
    ):
        shutil.copytree(tmp_path / "index", tmp_path / name)
        (tmp_path / name / name).write_bytes(change)
        with pytest.raises(DamagedFile):
            Index.load(tmp_path / name)
    with pytest.raises(NotFound):
        Index.load(tmp_path / "none")
    with pytest.raises(UsageError):
        index.search(questions(model, ["a"]), top_k=0)
    with pytest.raises(UsageError, match="for 6 texts"):
        Index(vectors=index.vectors[:2], texts=TEXTS, lines=range(6), probe=index.probe)
