"""Variants keep what they should keep, go to rare classes alone, and never near to the rows that judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

import variorum
from tests.cli import models
from variorum.errors import UsageError
from variorum.face import Model
from variorum.tasks.augment import Wanted, augmented, gain
from variorum.tasks.augment.near import Near
from variorum.tasks.augment.replacing import Replacing
from variorum.tasks.augment.rewriting import Rephrasing, ThereAndBack, Translator
from variorum.tasks.trials import Rows, learner
from variorum.text import train_wordpiece_by_frequency

TEXT = "The Law, will never be perfect; but it should be just!"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A masked language model that knows whole words."""
    words = "the law will never be perfect but it should be just good bad fair right wrong always often"
    tokenizer = train_wordpiece_by_frequency([words] * 50, 200)
    return variorum.load(models.made(tmp_path_factory.mktemp("bert"), "bert", models.BERT, "masked_lm", tokenizer))


def test_words_are_replaced_and_all_else_stays(bert: Model) -> None:
    augmenter = Replacing(bert, share=0.3)
    variants = augmenter(TEXT, 5)
    assert variants == augmenter(TEXT, 5) == dataclasses.replace(augmenter)(TEXT, 5)
    assert variants != dataclasses.replace(augmenter, seed=1)(TEXT, 5)
    old = TEXT.split()
    for one in variants:
        new = one.split()
        assert len(new) == len(old)
        assert 1 <= sum(a != b for a, b in zip(old, new, strict=True)) <= 4  # 0.3 of 11 words, rounded
        for before, after in zip(old, new, strict=True):
            assert before[-1].isalpha() == after[-1].isalpha()
            assert before[0].isupper() == after[0].isupper()


def test_a_text_without_words_has_no_variants(bert: Model) -> None:
    assert Replacing(bert)("123 … !!", 3) == []
    assert Replacing(bert)("", 3) == []


def test_replacing_needs_a_head_for_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="masked"):
        Replacing(variorum.load(models.gpt2(tmp_path)))


def test_a_text_is_translated_there_and_back(tmp_path: Path) -> None:
    t5 = variorum.load(models.t5(tmp_path))
    there = Translator(t5, before="translate English to German: ")
    augmenter = ThereAndBack(there, Translator(t5, before="translate German to English: "))
    variants = augmenter("its Law", 2)
    abroad = there(["its Law"], 2, 0)
    assert len(abroad) == 2
    assert variants == augmenter.back([one for one in abroad if one], 1, 0)
    assert augmenter(" ", 2) == []


def test_a_decoder_says_a_text_in_other_words(tmp_path: Path) -> None:
    llama = variorum.load(models.llama(tmp_path))
    augmenter = Rephrasing(llama)
    variants = augmenter("its Law", 2)
    assert len(variants) == 2 and variants == augmenter("its Law", 2)
    assert all("\n" not in one for one in variants)


class Numbered:
    """Variants with a number at the end."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def __call__(self, text: str, count: int) -> Sequence[str]:
        self.asked.append((text, count))
        return [f"{text} {number}" for number in range(count)]


def test_rare_classes_grow_to_their_share_and_others_stay() -> None:
    rows = Rows(
        [f"text number {i} of many" for i in range(20)] + [f"a rare one: {i * i}" for i in range(3)],
        ["often"] * 20 + ["rare"] * 3,
    )
    augmenter = Numbered()
    made = augmented(rows, augmenter, [], Wanted(share=0.5))
    assert (made.before, made.after) == ({"often": 20, "rare": 3}, {"often": 20, "rare": 10})
    assert list(made.rows.texts[:23]) == rows.texts
    assert [made.rows.labels[place] for place in made.sources] == ["rare"] * 7
    assert sorted(count for _, count in augmenter.asked) == [2, 2, 3]
    assert len(set(made.rows.texts)) == 30
    assert all(made.rows.texts[23 + i][:-2] == rows.texts[source] for i, source in enumerate(made.sources))
    few = augmented(rows, Numbered(), [], Wanted(share=1.0, most=2, weight=0.5))
    assert few.after["rare"] == 3 + 3 * 2
    assert few.rows.weights == [1.0] * 23 + [0.5] * 6


@pytest.mark.mechanism("X")
def test_what_is_near_to_evaluation_rows_or_there_already_is_dropped_and_counted() -> None:
    rows = Rows(
        [*(f"often {i}" for i in range(12)), "free money for everybody", "win a prize", "we judge by this very row"],
        ["a"] * 12 + ["b"] * 3,
    )

    def same(text: str, count: int) -> Sequence[str]:
        return [text.upper(), "", f"{text} today and tomorrow and ever after"][:count]

    judged = ["Free  money for everybody today and tomorrow and ever", "We judge by this  very row"]
    made = augmented(rows, same, judged, Wanted(share=1.0, most=3))
    assert (made.repeated, made.leaked, made.after["b"]) == (4, 1 + 3, 4)
    assert made.rows.texts[-1] == "win a prize today and tomorrow and ever after"


def test_near_is_a_share_of_what_two_texts_hold() -> None:
    near = Near(["The quick brown fox jumps over the lazy dog", "two words"])
    assert near.has("the quick  BROWN fox jumps over the lazy dog now")  # 8 of 9 pairs of words
    assert near.has("Two words")
    assert not near.has("The quick brown fox sleeps beside the lazy cat")
    assert not near.has("two words more")  # too short to be nearly anything
    assert not near.has("")


def test_a_gain_is_a_paired_difference() -> None:
    rows = Rows(["good film"] * 9 + ["bad film"] * 9 + ["odd thing"], ["p"] * 9 + ["n"] * 9 + ["o"])
    test = Rows(["good film", "bad film", "odd thing 0 again"] * 10, ["p", "n", "o"] * 10)
    made = augmented(rows, Numbered(), [], Wanted(share=0.5))
    without, with_ = gain(learner(), rows, made, test)
    assert made.after["o"] == 4
    assert (without.rows, with_.rows) == (19, 22)
    assert set(with_.gain) == {"macro", "n", "o", "p"}
    assert with_.gain["o"].low <= with_.gain["o"].value <= with_.gain["o"].high


def test_a_wish_that_makes_no_sense_is_refused() -> None:
    for wrong in ({"share": 0.0}, {"share": 1.5}, {"most": 0}):
        with pytest.raises(UsageError, match="share"):
            Wanted(**wrong)  # type: ignore[arg-type]
