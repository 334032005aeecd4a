"""Vectors are learned from pairs, and sentence-transformers reads what is saved to the same vectors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import variorum
from tests.cli import models
from variorum import tasks
from variorum.errors import DamagedFile, UsageError
from variorum.objectives.similarity import Similarity
from variorum.tasks.embed import Embedder, Pairs, ScoredEmbedder

WORDS = ["law", "perfect", "just", "never", "will", "the", "be", "its", "but", "of", "to", "it", "was", "for"]
OTHERS = ("una", "dos", "tre", "cuat", "cinc", "seis", "siet", "och", "nuev", "diez", "onc", "doce", "trec", "cato")
SAID = dict(zip(WORDS, OTHERS, strict=True))
#: Each second text says the first in words of its own.
PAIRS = [(f"{a} {b}", f"{SAID[a]} {SAID[b]}") for a in WORDS[:8] for b in WORDS[8:14]]
SCORES = [4.0 * (a < b) + (len(a) > 4) for a, b in (pair[0].split() for pair in PAIRS)]
HOW = {"epochs": 30, "batch_size": 16, "learning_rate": 1e-3, "validation": 0.1}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(models.bert(tmp_path_factory.mktemp("embed") / "bert"))


@pytest.fixture(scope="module")
def learned() -> Embedder:
    return Embedder(**HOW).fit(PAIRS)


@pytest.mark.mechanism("H5", "O12")
def test_texts_that_belong_together_come_together(learned: Embedder) -> None:
    before = Embedder(**HOW | {"epochs": 1, "learning_rate": 1e-9}).fit(PAIRS)
    assert before.evaluate(PAIRS)["recall_at_1"] < 0.2
    assert learned.evaluate(PAIRS)["recall_at_1"] > 0.6
    found = [text == second for text, (_, second) in zip(learned.replies(PAIRS), PAIRS, strict=True)]
    assert np.mean(found) == pytest.approx(learned.evaluate(PAIRS)["recall_at_1"])
    assert learned.history_.epochs[-1].loss < learned.history_.epochs[0].loss
    assert learned.model_.head_names == ()


def test_what_finds_another_is_shown_with_the_place_of_its_own(learned: Embedder) -> None:
    odd = [*PAIRS[:20], ("never will", "nothing of the kind")]
    found, figures = learned.examined(odd, None), learned.evaluate(odd)
    once = np.ones(len(odd))
    assert {name: float(figure(once)) for name, figure in found.figures.items()} == pytest.approx(
        {name: figures[name] for name in ("recall_at_1", "recall_at_10", "reciprocal_rank")}
    )
    assert {one.row for one in found.mistakes} == set(np.flatnonzero(found.each == 0).tolist())
    assert found.mistakes[-1].truth == "nothing of the kind" and found.mistakes[-1].answer in {b for _, b in PAIRS}
    for one in found.mistakes:
        assert (one.note.startswith("its own is at place ") and 2 <= one.by <= 10) or one.note.endswith("the first ten")
    assert found.read.tokens == [4] * 20 + [6] and found.read.texts[0] == " ⁄ ".join(PAIRS[0])


@pytest.mark.mechanism("H5")
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", None])
def test_sentence_transformers_makes_the_same_vectors(
    bert: str, tmp_path: Path, pooling: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    task = Embedder(model=bert, pooling=pooling, epochs=1, validation=0.0).fit(PAIRS[:16])
    task.save(tmp_path / "model")
    texts = ["the law", "never just", "should it be perfect", ""]
    ours = task.transform(texts)
    other = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.abs(ours - other.encode(texts)).max() < 1e-5
    assert np.linalg.norm(ours, axis=1) == pytest.approx(np.ones(4))
    again = tasks.load(tmp_path / "model")
    assert np.abs(again.transform(texts) - ours).max() < 1e-6
    plain = variorum.load(tmp_path / "model").embed(texts)
    assert np.abs(plain.numpy() - ours).max() < 1e-5


def test_scores_are_learned_as_cosines() -> None:
    task = ScoredEmbedder(**HOW).fit(PAIRS, SCORES)
    assert task.evaluate(PAIRS, SCORES)["spearman"] > 0.6
    assert next(iter(task.evaluate(PAIRS, SCORES))) == "spearman"
    assert [row["score"] for row in task.answers(PAIRS[:3])] == pytest.approx(list(task.predict(PAIRS[:3])))
    with pytest.raises(UsageError, match="alike"):
        clone(task).fit(PAIRS, [1.0] * len(PAIRS))
    with pytest.raises(ValueError):
        clone(task).fit(PAIRS, SCORES[:-1])


def test_a_pair_is_judged_by_the_square_of_cosine_less_label(learned: Embedder) -> None:
    from variorum.parts.heads import EmbeddingHead
    from variorum.tasks.embed import pooled
    from variorum.tasks.examples import Example

    model = learned.model_
    ids = [[one.ids for one in learned.encode(model, [pair[side] for pair in PAIRS[:6]])] for side in (0, 1)]
    examples = [
        Example(inputs={"input_ids": a, "second": b}, target=0.1 * i) for i, (a, b) in enumerate(zip(*ids, strict=True))
    ]
    objective = Similarity()
    with pooled(model, learned.take_), torch.no_grad():
        assert isinstance(model.heads["embedding"], EmbeddingHead)
        part = objective.loss(model, objective.corrupt(Pairs(0)(examples), torch.Generator()))
    right = sum((cosine - 0.1 * i) ** 2 for i, cosine in enumerate(learned.predict(PAIRS[:6])))
    assert float(part.total) == pytest.approx(right, abs=1e-4)
    assert part.count == 6


def test_files_in_a_folder_are_kept_by_the_manifest(learned: Embedder, tmp_path: Path) -> None:
    place = tmp_path / "model"
    learned.save(place)
    learned.save(place)  # our own save may be replaced
    listed = json.loads((place / "variorum-manifest.json").read_text("utf-8"))["files"]
    assert "1_Pooling/config.json" in listed
    pooling = place / "1_Pooling" / "config.json"
    kept = pooling.read_bytes()
    pooling.write_bytes(kept.replace(b"true", b"null"))
    with pytest.raises(DamagedFile, match="1_Pooling"):
        variorum.load(place)
    pooling.write_bytes(kept)
    (place / "1_Pooling" / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(UsageError, match=r"1_Pooling/mine\.txt"):
        learned.save(place)
    (place / "1_Pooling" / "mine.txt").unlink()
    moved = tmp_path / "elsewhere"
    os.rename(place / "1_Pooling", moved)
    (place / "1_Pooling").symlink_to(moved)
    with pytest.raises(DamagedFile, match="no plain folder"):
        variorum.load(place)


def test_another_process_gets_the_same_embedder(learned: Embedder) -> None:
    import pickle

    again = pickle.loads(pickle.dumps(learned))
    assert np.abs(again.transform(["the law"]) - learned.transform(["the law"])).max() < 1e-6
