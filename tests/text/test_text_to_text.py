"""What T5 reads and writes is what its paper shows, and reading it back loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from variorum.errors import UsageError
from variorum.text import text_to_text as t5

THANKS = "Thank you for inviting me to your party last week."


@pytest.mark.mechanism("I3")
def test_two_spans_of_the_papers_sentence_become_its_figure():
    """Raffel et al. 2019, figure 2."""
    read, written = t5.hidden_words(THANKS, [(2, 4), (7, 9)])
    assert read == "Thank you <extra_id_0> me to your <extra_id_1> week."
    assert written == "<extra_id_0> for inviting <extra_id_1> party last <extra_id_2>"
    assert t5.restored_words(read, written) == THANKS


@pytest.mark.mechanism("I3")
def test_spans_at_both_ends_and_none_at_all():
    assert t5.hidden_words("a b c", [(0, 1), (2, 3)]) == (
        "<extra_id_0> b <extra_id_1>", "<extra_id_0> a <extra_id_1> c <extra_id_2>",
    )  # fmt: skip
    assert t5.hidden_words("a b c", []) == ("a b c", "<extra_id_0>")


@pytest.mark.mechanism("I3")
def test_sentinels_of_ids_count_down_from_the_end_of_the_vocabulary():
    read, written = t5.hidden(list(range(10, 20)), [(2, 4), (7, 9)], lambda number: 32_099 - number)
    assert read == [10, 11, 32_099, 14, 15, 16, 32_098, 19]
    assert written == [32_099, 12, 13, 32_098, 17, 18, 32_097]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 9), max_size=30), st.data())
def test_whatever_was_hidden_comes_back(tokens, data):
    bounds = sorted(data.draw(st.sets(st.integers(0, len(tokens)), max_size=8)))
    spans = list(zip(bounds[::2], bounds[1::2], strict=False))
    read, written = t5.hidden(tokens, spans, lambda number: -1 - number)
    assert len(read) + len(written) == len(tokens) + 2 * len(spans) + 1
    assert t5.restored(read, written, lambda token: -1 - token if token < 0 else None) == tokens


@pytest.mark.mechanism("I3")
@pytest.mark.parametrize("spans", [[(1, 1)], [(3, 2)], [(0, 2), (2, 3)], [(2, 3), (0, 1)], [(8, 11)], [(-1, 2)]])
def test_spans_that_do_not_fit_are_refused(spans):
    with pytest.raises(UsageError, match=r"no span -?\d+:\d+ of 10 tokens fits"):
        t5.hidden_words(THANKS, spans)


@pytest.mark.mechanism("I3")
def test_a_span_that_was_not_written_is_missing():
    assert t5.restored_words("Thank you <extra_id_0> me <extra_id_1> .", "<extra_id_1> now") == "Thank you me now ."


@pytest.mark.mechanism("I2")
def test_a_task_is_its_name_and_its_fields():
    """Raffel et al. 2019, appendix D."""
    assert t5.asked("cola", sentence="John made Bill master of himself.") == (
        "cola sentence: John made Bill master of himself."
    )
    assert t5.asked("stsb", sentence2="b", sentence1="a") == "stsb sentence1: a sentence2: b"
    assert t5.asked("mnli", premise="p", hypothesis="h") == "mnli hypothesis: h premise: p"
    assert t5.translate("That is good.", "English", "German") == "translate English to German: That is good."
    assert t5.summarize("state authorities …") == "summarize: state authorities …"
    assert t5.answer("Who?", "Ada did.") == "question: Who? context: Ada did."


@pytest.mark.mechanism("I2")
def test_a_task_or_a_field_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="no task is called 'sst-2'; did you mean sst2"):
        t5.asked("sst-2", sentence="good")
    with pytest.raises(UsageError, match="stsb has sentence1 and sentence2, not sentence"):
        t5.asked("stsb", sentence="a")


@pytest.mark.mechanism("I2", "H4")
@pytest.mark.parametrize(
    ("score", "word"),
    [(3.8, "3.8"), (3.7499, "3.8"), (3.69, "3.6"), (2.5, "2.4"), (2.7, "2.8"), (0.0, "0.0"), (5, "5.0")],
)
def test_a_score_is_the_nearest_fifth_as_a_word(score, word):
    assert t5.number_text(score) == word
    assert t5.text_number(f" {word} ") == float(word)


@pytest.mark.mechanism("H4")
@pytest.mark.parametrize("word", ["", "four", "3.8.1", "about 3.8", "nan", "1e3"])
def test_what_is_no_number_is_a_wrong_answer(word):
    assert t5.text_number(word) is None
