"""Tagging: a small model learns names, every word is tagged whatever its place, and what is saved is read elsewhere."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from tests.tasks.published import published
from variorum import tasks
from variorum.errors import UsageError
from variorum.tasks.job import Asked, predict, train
from variorum.tasks.metrics.intervals import over_items
from variorum.tasks.tag import Tagger
from variorum.tasks.token_scores import token_scores
from variorum.text import Tokenizer

PLACES, PEOPLE = ["Paris", "Rio", "New York", "Den Haag"], ["Ada Lovelace", "Bob", "Cy"]
TINY = {"epochs": 14, "learning_rate": 2e-3, "batch_size": 8, "max_length": 24, "validation": 0.2}


def rows(count: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences as "Bob flew from Rio to Den Haag ." and their tags."""
    rng = random.Random(seed)
    X, y = [], []
    for _ in range(count):
        words, tags = [], []
        for part in (rng.choice(PEOPLE), "flew", "from", rng.choice(PLACES), "to", rng.choice(PLACES), "."):
            kind = "LOC" if part in PLACES else "PER" if part in PEOPLE else ""
            for at, word in enumerate(part.split()):
                words.append(word)
                tags.append(f"{'I' if at else 'B'}-{kind}" if kind else "O")
        X.append(words)
        y.append(tags)
    return X, y


@pytest.fixture(scope="module")
def learned() -> Tagger:
    return Tagger("nano", **TINY).fit(*rows(80))


@pytest.mark.mechanism("H2")
def test_it_learns_names_and_says_how_tags_were_read(learned: Tagger):
    X, y = rows(30, seed=1)
    figures = learned.evaluate(X, y)
    assert figures["f1"] > 0.95
    assert (figures["scheme"], figures["mode"], figures["words"]) == ("BIO", "strict", sum(map(len, y)))
    assert list(figures["types"]) == ["LOC", "PER"]
    assert learned.score(X, y) == figures["f1"]
    assert over_items(learned.figures(learned.predict(X), y)["f1"], len(X)).value == pytest.approx(figures["f1"])
    assert learned.classes_.tolist() == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


@pytest.mark.case("V057")
def test_spans_are_told_with_the_characters_of_the_text(learned: Tagger):
    text = "  Bob flew from  Den Haag to Rio."
    raw = copy.copy(learned).set_params(split="signs")
    (answer,) = raw.answers([text])
    assert answer["words"] == ["Bob", "flew", "from", "Den", "Haag", "to", "Rio", "."]
    found = [(one["type"], one["text"]) for one in answer["spans"]]
    assert found == [("PER", "Bob"), ("LOC", "Den Haag"), ("LOC", "Rio")]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in answer["spans"])
    assert all(0.3 < one["confidence"] <= 1 for one in answer["spans"])


def test_words_beyond_the_limit_are_read_in_windows_and_counted(learned: Tagger):
    X, y = rows(12, seed=2)
    long, tags = [word for row in X for word in row], [tag for row in y for tag in row]
    assert len(long) > 3 * 24
    (predicted,) = learned.predict([long])
    assert len(predicted) == len(long)
    assert learned.evaluate([long], [tags])["words"] == len(long)
    assert learned.evaluate([long], [tags])["f1"] > 0.8


def test_words_without_a_token_are_outside_and_sentences_may_be_empty(learned: Tagger):
    words = ["Bob", "\x00", "flew", "\u200b"]
    assert [row[1::2] for row in learned.predict([words])] == [["O", "O"]]
    assert learned.predict([[], ["Bob"], ""])[::2] == [[], []]


@pytest.mark.mechanism("H2")
def test_what_is_saved_answers_the_same(learned: Tagger, tmp_path: Path):
    X, _ = rows(10, seed=3)
    learned.save(tmp_path / "model")
    again = tasks.load(tmp_path / "model")
    assert isinstance(again, Tagger)
    assert again.predict(X) == learned.predict(X)
    assert again.scheme_ == learned.scheme_


@pytest.mark.mechanism("H2")
def test_transformers_gives_the_same_scores(tmp_path: Path, tokenizers: Callable[[str], Tokenizer]):
    X, y = rows(12, seed=3)
    published(tmp_path / "start", tokenizers("uncased"))
    learned = Tagger(str(tmp_path / "start"), epochs=1, learning_rate=1e-3).fit(X, y)
    learned.save(tmp_path / "model")
    other = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "model").eval()
    assert list(other.config.id2label.values()) == learned.classes_.tolist()
    encoding = learned.model_.tokenizer.encode(" ".join(X[0]))
    with torch.no_grad():
        logits = other(torch.tensor([encoding.ids])).logits[0]
    assert (token_scores(learned.model_, [encoding])[0] - logits).abs().max() < 1e-5


def test_a_legal_path_breaks_no_rule_whatever_the_model_says():
    X, y = rows(24)
    model = Tagger("nano", **{**TINY, "epochs": 1}, path="legal", scheme="BIO").fit(X, y)
    assert all(not model.scheme_.breaches(tags) for tags in model.predict(X))


@pytest.mark.parametrize("pieces", ["first", "all"])
def test_runs_with_one_seed_are_one(pieces: str):
    X, y = rows(16)
    one, other = (Tagger("nano", **{**TINY, "epochs": 1}, pieces=pieces).fit(X, y) for _ in range(2))
    assert all((a == b).all() for a, b in zip(one.predict_proba(X), other.predict_proba(X), strict=True))


def test_classes_of_words_that_spell_no_spans_are_judged_by_accuracy():
    X, _ = rows(24)
    y = [["NN" if word[0].isupper() else "IN" for word in row] for row in X]
    model = Tagger("nano", **{**TINY, "epochs": 6}).fit(X, y)
    assert model.scheme_ is None
    figures = model.evaluate(X, y)
    assert next(iter(figures)) == "accuracy" and figures["accuracy"] > 0.9
    assert "spans" not in model.answers(X[:1])[0]


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (["a b c"], ["O O"], "row 1: 3 words and 2 tags; give one tag for each word"),
        ([["a"], ["b"]], [["O"], ["B-X", "O"]], "row 2: 1 words and 2 tags"),
        (["a b"], ["O O"], "every word has the tag 'O'"),
        ([3], ["O"], "row 1: expected words or a text, got int"),
        ([["a", 3]], [["O", "O"]], "row 1: expected words, got int"),
    ],
)
def test_what_cannot_be_learned_from_is_told(X: list, y: list, said: str):
    with pytest.raises(UsageError, match=said):
        Tagger("nano").fit(X, y)
    with pytest.raises(UsageError, match="'S-X' is no tag of BIO"):
        Tagger("nano", scheme="BIO").fit(["a b"], ["O S-X"])


def test_a_conll_file_is_learned_from_and_every_sentence_answered(tmp_path: Path):
    X, y = rows(30)
    lines = [f"{w}\tNN\t{t}" for row in zip(X, y, strict=True) for w, t in [*zip(*row, strict=True), ("", "")]]
    text = "\n".join([*lines, ""]).replace("\tNN\t\n", "\n").replace("flew\tNN\tO\n", "flew\tO\n", 1)
    path, told = tmp_path / "data.conll", []
    path.write_text(text)
    asked = Asked(kind="tag", data=path, parameters={**TINY, "epochs": 2})
    found = train(asked, tmp_path / "model", say=told.append)
    assert [row["model"] for row in found] == ["nano", "linear tagger", "most frequent tag of the word"]
    assert any("2 columns where the first word has 3" in line for line in told)
    answers = predict(tmp_path / "model", path, {}, device="cpu", say=told.append)
    assert len(answers) == 30
    assert sum("error" in row for row in answers) == 1
