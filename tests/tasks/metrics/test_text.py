"""Written texts are scored row by row, whichever way references come, and small cases are right by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from variorum.errors import UsageError
from variorum.tasks.metrics.text import (
    Errors,
    bleu,
    by_row,
    character_errors,
    chrf,
    chrf_of,
    edits,
    rouge_l,
    ter,
    word_errors,
    words,
)

ROWS = ["the cat sat on the mat today", "he read the book because he was bored", "a third line of words here"]
OTHERS = ["a cat sat upon the mat", "he had read the book", "another third line"]


@pytest.mark.case("V091")
@pytest.mark.parametrize("score", [bleu, chrf, ter, rouge_l])
def test_every_row_is_scored_whatever_its_place(score):
    perfect = 0.0 if score is ter else 100.0
    assert score(ROWS, ROWS) == pytest.approx(perfect)
    assert score(ROWS, [[one] for one in ROWS]) == pytest.approx(perfect)
    worse = [*ROWS[:2], "nothing of it"]
    assert abs(score(worse, ROWS) - perfect) > 5
    order = [2, 0, 1]
    moved = score([worse[i] for i in order], [ROWS[i] for i in order])
    assert moved == pytest.approx(score(worse, ROWS))


@pytest.mark.case("V091")
@pytest.mark.parametrize("score", [bleu, chrf, ter, rouge_l])
def test_lists_the_wrong_way_round_are_refused(score):
    for wrong in ([ROWS], [ROWS, OTHERS], ROWS[:2], [*ROWS, "one more"], []):
        with pytest.raises(UsageError, match="references for 3 texts"):
            score(ROWS, wrong)
    with pytest.raises(UsageError, match="row 2: has no reference"):
        score(ROWS, [["a"], [], ["b"]])
    with pytest.raises(UsageError, match="nothing to score"):
        score([], [])
    square = by_row(ROWS, [[a, b, b] for a, b in zip(ROWS, OTHERS, strict=True)])
    assert [row[0] for row in square] == ROWS, "as many references as rows are still a list for each row"


@pytest.mark.case("V091")
def test_an_empty_text_lowers_a_score_and_only_empty_texts_have_none():
    for score in (bleu, chrf, rouge_l):
        assert score(["", *ROWS[1:]], ROWS) < score(ROWS, ROWS) - 1
        assert score(["", "", ""], ROWS) == 0
    assert ter(["", "", ""], ROWS) == pytest.approx(100)


def test_a_row_may_have_more_references_than_another_and_the_best_counts():
    uneven = [[ROWS[0], OTHERS[0]], [OTHERS[1], ROWS[1]], [ROWS[2]]]
    assert bleu(ROWS, uneven) == pytest.approx(100)
    assert rouge_l(ROWS, uneven) == pytest.approx(100)


def test_scores_are_sacrebleus():
    import sacrebleu

    written = [*ROWS[:2], "a third line of other words"]
    assert bleu(written, ROWS) == sacrebleu.corpus_bleu(written, [ROWS]).score
    assert chrf(written, ROWS) == sacrebleu.corpus_chrf(written, [ROWS]).score
    assert ter(written, ROWS) == sacrebleu.corpus_ter(written, [ROWS]).score


def test_a_resampled_chrf_is_that_of_the_rows_drawn():
    figure = chrf_of(OTHERS, ROWS)
    drawn = figure(np.array([[1, 1, 1], [2, 0, 1], [0, 3, 0]]))
    for value, rows in zip(drawn, ([0, 1, 2], [0, 0, 2], [1, 1, 1]), strict=True):
        assert value == pytest.approx(chrf([OTHERS[i] for i in rows], [ROWS[i] for i in rows]))


def test_rouge_l_by_hand():
    # Lin 2004, section 3: common are "police the gunman", then "the gunman" or "police killed".
    assert rouge_l(["police ended the gunman"], ["police killed the gunman"]) == pytest.approx(100 * 3 / 4)
    assert rouge_l(["the gunman police killed"], ["police killed the gunman"]) == pytest.approx(100 * 2 / 4)
    # Two words of a text of two and a reference of six: recall 1/3, precision 1, F1 1/2.
    assert rouge_l(["on mat"], ["the cat sat on the mat"]) == pytest.approx(50)
    assert rouge_l([""], [""]) == 100


def test_word_errors_by_hand():
    # sat is heard as sit, the second the as mat.
    found = word_errors("The cat sit on mat, mat", "the cat sat on the mat")
    assert found == Errors(substituted=2, deleted=0, inserted=0, length=6)
    assert found.rate == pytest.approx(2 / 6)
    assert word_errors("cat sat on the mat", "the cat sat on the mat") == Errors(deleted=1, length=6)
    assert word_errors("the the cat", "the cat") == Errors(inserted=1, length=2)
    assert word_errors("Don’t stop.", "don't stop").rate == 0
    assert (word_errors("two words", "") + word_errors("", "two words")).rate == pytest.approx(2)
    assert word_errors("a", "").rate == float("inf")
    assert character_errors("kitten", "sitting") == Errors(substituted=2, deleted=1, length=7)
    assert words("It's 5 o'clock — Ångström_x") == ["it's", "5", "o'clock", "ångström", "x"]


def test_edits_are_as_few_as_the_plain_recursion_finds():
    def fewest(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(fewest(a[1:], b[1:]) + (a[0] != b[0]), fewest(a[1:], b) + 1, fewest(a, b[1:]) + 1)

    draw = random.Random(0)
    for _ in range(60):
        a, b = ("".join(draw.choices("ab c", k=draw.randrange(6))) for _ in range(2))
        found = edits(a, b)
        assert found.substituted + found.deleted + found.inserted == fewest(a, b)
        assert len(a) - found.inserted == len(b) - found.deleted
