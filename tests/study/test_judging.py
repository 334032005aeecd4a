"""Judges of each kind of task give the figures of their definitions, and the jackknife leaves whole groups out."""

from __future__ import annotations

from typing import get_args, get_type_hints

import numpy as np
import pytest

from variorum.cli.bakeoff import Contest
from variorum.errors import UsageError
from variorum.study.analysis import Truth
from variorum.study.judging import JUDGES, Classes, Found, Numbers, Tags, Texts, judged
from variorum.tasks.metrics.text import chrf


def test_classes_have_the_macro_f1_and_each_class_its_own():
    judge, right = judged("classify", ["x"] * 5, ["ham", "spam", "ham", "ham", "spam"])
    assert isinstance(judge, Classes) and judge.names == ("ham", "spam") and right == [0, 1, 0, 0, 1]
    answers = [0, 1, 0, 1, 0]
    assert judge.parts(answers, right) == pytest.approx({"ham": 2 / 3, "spam": 1 / 2})
    truth = Truth(labels=right, groups=[0, 0, 1, 1, 2], judge=judge)
    assert truth.whole(answers) == pytest.approx(7 / 12)
    assert judge.missed(answers, right).tolist() == [False, False, False, True, True]
    # Without the last group: ham 2 of 2 and 3, spam 1 of 2 and 1.
    assert truth.without_each(answers)[2] == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_numbers_have_their_rank_correlation_and_one_answer_to_everything_has_none():
    judge, right = judged("number", ["x"] * 4, [1.0, 2.0, 3.0, 4.0])
    assert isinstance(judge, Numbers)
    truth = Truth(labels=right, groups=[0, 1, 2, 3], judge=judge)
    assert truth.whole([10, 20, 40, 30]) == pytest.approx(0.8)
    assert truth.whole([5, 5, 5, 5]) == 0
    assert truth.without_each([10, 20, 40, 30]) == pytest.approx([0.5, 0.5, 1, 1])
    assert judge.missed([1.0, 2.0, 3.0, 9.0], right).tolist() == [False, False, False, True]


def test_tags_have_the_f1_of_their_spans_or_the_share_of_right_ones():
    sentences = ["Anna met Ben", "rain fell"]
    judge, right = judged("tag", sentences, ["B-PER O B-PER", "O O"])
    assert isinstance(judge, Tags) and judge.metric.name == "F1 of spans"
    answers = [["B-PER", "O", "O"], ["O", "O"]]
    assert Truth(labels=right, groups=[0, 1], judge=judge).whole(answers) == pytest.approx(2 / 3)
    assert judge.parts(answers, right) == pytest.approx({"PER": 2 / 3})
    assert judge.missed(answers, right).tolist() == [True, False]
    words, right = judged("tag", sentences, ["NOUN VERB NOUN", "NOUN VERB"])
    assert words.metric.name == "share of right tags"
    figure = words.figure([["NOUN", "NOUN", "NOUN"], ["NOUN", "VERB"]], right)
    assert figure(np.array([[1, 1], [1, 0], [0, 1]])) == pytest.approx([4 / 5, 2 / 3, 1])


def test_answers_have_the_mean_f1_of_their_words_and_none_is_an_answer_too():
    judge, right = judged("answer", [("who?", "Anna met Ben")] * 3, ["Anna", '["Ben Hur", "Ben"]', ""])
    assert isinstance(judge, Found)
    truth = Truth(labels=right, groups=[0, 1, 2], judge=judge)
    assert truth.whole(["the Anna", "Ben", ""]) == 1
    assert truth.whole(["Anna met", "Hur", "rain"]) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert judge.missed(["Anna met", "Ben", "rain"], right).tolist() == [True, False, True]
    assert judge.said("") == "no answer"


def test_texts_have_the_chrf_of_all_of_them():
    judge, right = judged("seq2seq", ["x"] * 2, ["a small house", "rain"])
    assert isinstance(judge, Texts)
    truth = Truth(labels=right, groups=[0, 1], judge=judge)
    assert truth.whole(right) == pytest.approx(100) and truth.whole(["a small mouse", ""]) == pytest.approx(
        chrf(["a small mouse", ""], right)
    )
    assert judge.missed(["a small house", "Rain"], right).tolist() == [False, True]


def test_a_text_has_to_find_its_own():
    judge, right = judged("embed", [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")], [None] * 4)
    assert right == ["A", "B", "C", "D"]
    assert judge.figure(["A", "B", "B", "A"], right)(np.array([1, 1, 1, 1])) == pytest.approx(0.5)
    assert judge.missed(["A", "B", "B", "A"], right).tolist() == [False, False, True, True]


def test_the_command_offers_every_kind_that_is_judged():
    assert {*get_args(get_type_hints(Contest, include_extras=True)["task"])} == {*JUDGES}


def test_what_nothing_judges_is_refused():
    with pytest.raises(UsageError, match="cannot be judged"):
        judged("search", [], [])
    with pytest.raises(UsageError, match="every row has the label"):
        judged("classify", ["a", "b"], ["x", "x"])
