"""Small models learn to answer, and what they look at meanwhile is compared with looking everywhere alike."""

from __future__ import annotations

import numpy as np
import pytest

from variorum.errors import UsageError
from variorum.tasks.answer import Answerer
from variorum.tasks.gazes import compare, questions, watch
from variorum.tasks.text_to_text import TextAnswerer

X, Y = questions(24, 3)
QUICK = {"epochs": 1, "validation": 0.0, "max_length": 64}


@pytest.fixture(scope="module")
def both() -> list[Answerer | TextAnswerer]:
    made = [Answerer("nano", **QUICK), TextAnswerer("nano:t5", **QUICK)]
    return [task.fit(X, Y) for task in made]


@pytest.mark.mechanism("H8")
@pytest.mark.parametrize("which", [0, 1], ids=["reader", "writer"])
def test_what_is_looked_for_is_the_answer_and_who_asks_is_the_question(both, which: int) -> None:
    task = both[which]
    tokenizer = task.model_.tokenizer
    for one, (question, _), answer in zip(task.looked(X, Y), X, Y, strict=True):
        said = [tokenizer.decode(list(one.ids[begin:end])).strip().lower() for begin, end in (one.asking, one.span)]
        assert [text.replace(" ", "") for text in said] == [question.replace(" ", "").lower(), answer.lower()]
        if which:
            assert one.answer[0] == task.model_.spec.architecture.main.tokens.start_id
            assert answer.startswith(tokenizer.decode(list(one.answer[1:])).strip())


@pytest.mark.mechanism("H8")
def test_answers_that_are_not_in_the_context_are_not_watched(both) -> None:
    task = both[0]
    with pytest.warns(UserWarning, match="stand"):
        assert len(task.looked(X[:3], ["nowhere at all", *Y[1:3]])) == 2
    assert both[1].looked(X[:2], ["nowhere at all", Y[1]]) == both[1].looked(X[1:2], Y[1:2])
    with pytest.raises(UsageError, match="no question"):
        watch(both[1], X[:1], ["nowhere at all"])


@pytest.mark.nightly
@pytest.mark.mechanism("H8")
def test_a_writer_looks_at_the_answer_across_and_a_reader_s_question_does_not() -> None:
    """Both answer. The reader's answer looks at the question instead: where a span begins is said at its own token."""
    found = compare()
    for one in found.values():
        share, entropy = np.array(one["share"]), np.array(one["entropy"])
        assert one["exact"] >= 0.95
        assert share.shape == entropy.shape == (4, 4)
        assert one["best_share"] == share.max() == share[one["best"]]
        assert (entropy <= one["uniform_entropy"] + 0.2).all()
    assert found["t5"]["best_share"] > 5 * found["t5"]["uniform_share"]
    assert found["bert"]["best_share"] < 2 * found["bert"]["uniform_share"]
