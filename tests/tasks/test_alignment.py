"""Words and tokens: on any text and every kind of tokenizer, a word's tokens are its own, and characters are exact."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

import pytest

from tests.text.conftest import MAKERS
from tests.text.strings import varied_strings
from variorum.objectives.base import IGNORED
from variorum.tasks.alignment import Sentence, align, targets
from variorum.tasks.schemes import BIO, Span
from variorum.tasks.windows import Viewing, views
from variorum.text import Tokenizer

Get = Callable[[str], Tokenizer]
HARD = (
    "e\u0301tude|\u0301a|👩‍👩‍👧‍👦|🇩🇪|👍🏽|1️⃣|שָׁלוֹם|مرحبا\u200fبالعالم|नमस्ते|ภาษาไทย|日本語|ﬁne|İstanbul|\x00|\u200b|\u2028|\ufeff|"
    f"``tex''|a\u00a0b|New York|{'x' * 120}|▁|##a|[MASK]"
).split("|")


def sentences(count: int) -> list[Sentence]:
    rng = random.Random(3)
    texts = varied_strings(count, seed=5)
    listed = [Sentence.of([word for word in text.split(" ") if word]) for text in texts[: count // 2]]
    mixed = [Sentence.of(rng.sample(HARD, rng.randint(1, 8))) for _ in range(60)]
    return [*listed, *mixed, *map(Sentence.split, texts[count // 2 :]), Sentence.of([]), Sentence.of(["", "a", ""])]


@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("family", MAKERS)
def test_a_words_tokens_are_its_own_and_stand_in_it(tokenizers: Get, family: str):
    many = sentences(400)
    for sentence, aligned in zip(many, align(tokenizers(family), many), strict=True):
        offsets, at = aligned.pieces[1], 0
        assert len(aligned.words) == len(sentence.words)
        for (start, end), tokens in zip(sentence.words, aligned.words, strict=True):
            touching = [i for i, (a, b) in enumerate(offsets) if a < b and a < end and b > start]
            if tokens is None:  # nothing is made of it, or what there is belongs to words before
                assert all(i < at for i in touching)
                continue
            assert at <= tokens[0] < tokens[1] <= len(offsets)
            assert touching[-1] < tokens[1] and touching[0] >= min(tokens[0], at - 1)
            assert offsets[tokens[0]][0] < end and offsets[tokens[0]][1] > start
            at = tokens[1]


@pytest.mark.parametrize("family", MAKERS)
def test_plain_words_always_have_tokens_that_spell_them(tokenizers: Get, family: str):
    words = ["it", "was", "a", "truth", "universally", "acknowledged", ",", "that", "don't", "cost", "3.14", "."]
    (aligned,) = align(tokenizers(family), [sentence := Sentence.of(words)])
    for word, tokens in zip(words, aligned.words, strict=True):
        assert tokens is not None
        spans = [aligned.pieces[1][token] for token in range(*tokens)]
        covered = sentence.text[spans[0][0] : spans[-1][1]]
        assert covered.strip() == word


def test_words_keep_their_characters():
    for sentence in sentences(600):
        at = 0
        for start, end in sentence.words:
            assert at <= start <= end
            at = end
    assert Sentence.of(["a", "b c"]).strings() == ["a", "b c"]
    assert Sentence.of(HARD).strings() == HARD
    assert Sentence.of(HARD).characters(1, 3) == (7, 7 + len("\u0301a 👩‍👩‍👧‍👦"))


def test_cutting_a_text_loses_only_spaces_and_cuts_nothing_that_is_seen_as_one():
    for text in varied_strings(3000, seed=9):
        sentence = Sentence.split(text)
        inside = set().union(*(range(*word) for word in sentence.words))
        assert all(char.isspace() for at, char in enumerate(text) if at not in inside)
        begins = {start for start, _ in sentence.words}
        for at in begins - {0}:
            if not text[at - 1].isspace():
                assert unicodedata.category(text[at])[0] != "M" and text[at] != "\u200d"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nadim Ladki lives in Tokyo, Japan.", ["Nadim", "Ladki", "lives", "in", "Tokyo", ",", "Japan", "."]),
        ("don't pay 3.14 in the U.S.!", ["don't", "pay", "3.14", "in", "the", "U.S", ".", "!"]),
        ("👩‍👩‍👧‍👦 and 👍🏽👍", ["👩‍👩‍👧‍👦", "and", "👍🏽", "👍"]),
        ("नमस्ते, दुनिया", ["नमस्ते", ",", "दुनिया"]),
        ("e\u0301tude–2", ["e\u0301tude", "–", "2"]),
        (" \n ", []),
    ],
)
def test_a_text_that_nobody_has_cut(text: str, words: list[str]):
    assert Sentence.split(text).strings() == words


@pytest.mark.case("V057")
@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("further", [False, True])
def test_a_word_of_several_tokens_is_one_entity(tokenizers: Get, further: bool):
    tokenizer, names = tokenizers("uncased"), BIO.labels(["LOC"])
    sentence = Sentence.of(["Zanzibarville", "is", "far"])
    tags = ["B-LOC", "O", "O"]
    (aligned,) = align(tokenizer, [sentence])
    pieces = [word[1] - word[0] for word in aligned.words if word is not None]
    assert len(pieces) == 3 and pieces[0] >= 3
    shown = views(tokenizer, aligned.pieces, Viewing(max_length=64))
    inside = {"O": "O", "B-LOC": "I-LOC", "I-LOC": "I-LOC"}
    (taught,) = targets(
        aligned, shown, [names.index(tag) for tag in tags],
        [names.index(inside[name]) for name in names] if further else None,
    )  # fmt: skip
    spelt = [names[label] if label != IGNORED else IGNORED for label in taught]
    words = [[tag] + [inside[tag] if further else IGNORED] * (n - 1) for tag, n in zip(tags, pieces, strict=True)]
    assert spelt == [IGNORED, *words[0], *words[1], *words[2], IGNORED]
    read = [names[taught[shown[0].place(word[0])]] for word in aligned.words if word is not None]
    assert BIO.spans(read) == [Span(0, 1, "LOC")]
    assert sentence.characters(0, 1) == (0, len("Zanzibarville"))


@pytest.mark.case("V057")
def test_two_entities_side_by_side_stay_two(tokenizers: Get):
    tokenizer, names = tokenizers("uncased"), BIO.labels(["LOC"])
    (aligned,) = align(tokenizer, [Sentence.of(["Zanzibarville", "Rio"])])
    (taught,) = targets(aligned, views(tokenizer, aligned.pieces, Viewing(max_length=64)), [1, 1], [0, 2, 2])
    assert [names[label] for label in taught if label != IGNORED].count("B-LOC") == 2


def test_every_word_is_taught_in_one_window_only(tokenizers: Get):
    tokenizer = tokenizers("uncased")
    words = [str(number) for number in range(100, 180)]
    (aligned,) = align(tokenizer, [Sentence.of(words)])
    shown = views(tokenizer, aligned.pieces, Viewing(max_length=24, stride=8))
    taught = targets(aligned, shown, list(range(80)))
    assert len(shown) > 5
    assert sorted(label for row in taught for label in row if label != IGNORED) == list(range(80))
