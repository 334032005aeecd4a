"""Windows cover a text without a gap, end, and know which of them sees most around a word."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variorum.errors import UsageError
from variorum.tasks.contexts import contexts
from variorum.tasks.windows import Viewing, knows_best, views, windows
from variorum.text import Tokenizer

LENGTHS, ROOMS, STRIDES = st.integers(0, 200), st.integers(1, 40), st.none() | st.integers(1, 60)


@given(LENGTHS, ROOMS, STRIDES)
def test_windows_lie_in_order_without_a_gap_and_none_is_too_many(length: int, room: int, stride: int | None):
    held = windows(length, room, stride)
    assert held[0][0] == 0 and held[-1][1] == length
    assert all(end - start <= room for start, end in held)
    for before, after in itertools.pairwise(held):
        assert before[0] < after[0] <= before[1] < after[1]
        assert after[0] - before[0] == min(room, stride or max(1, room // 2))


def test_a_text_that_fits_is_one_window_and_an_empty_one_too():
    assert windows(10, 10) == [(0, 10)]
    assert windows(0, 10) == [(0, 0)]
    assert windows(11, 10, 4) == [(0, 10), (4, 11)]


@given(st.integers(1, 120), ROOMS, STRIDES, st.data())
def test_a_word_is_read_where_most_stands_around_it(length: int, room: int, stride: int | None, data: st.DataObject):
    held = windows(length, room, stride)
    first = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(first + 1, length))
    start, stop = held[knows_best(held, first, end)]
    assert start <= first < stop
    around = [min(first - a, b - end) for a, b in held if a <= first < b]
    assert min(first - start, stop - end) == max(around)


@pytest.mark.case("V061")
@pytest.mark.parametrize("stride", [0, -1])
def test_windows_that_would_never_end_are_refused(stride: int):
    with pytest.raises(UsageError, match="never end; use 1 or more"):
        windows(400, 100, stride)


@pytest.mark.case("V061")
def test_a_stride_beyond_the_room_leaves_nothing_unread():
    assert windows(25, 10, 10) == windows(25, 10, 384) == [(0, 10), (10, 20), (20, 25)]


@pytest.mark.case("V061")
@pytest.mark.parametrize("longer", [0, 1, 40])
def test_a_question_that_fills_the_window_is_refused_at_once(tokenizers: Callable[[str], Tokenizer], longer: int):
    tokenizer = tokenizers("uncased")
    question = " ".join(["the"] * (61 + longer))
    begun = time.perf_counter()
    with pytest.raises(UsageError, match=r"row 2: no room .* raise max_length, or shorten"):
        contexts(tokenizer, [("the", "a man"), (question, "a man " * 50)], Viewing(max_length=64))
    assert time.perf_counter() - begun < 1


@pytest.mark.case("V061")
def test_a_question_that_leaves_room_for_one_token_ends(tokenizers: Callable[[str], Tokenizer]):
    question, text = " ".join(["the"] * 60), " ".join(["man"] * 40)
    (only,) = contexts(tokenizers("uncased"), [(question, text)], Viewing(max_length=64))
    assert [view.tokens for view in only.shown] == [(i, i + 1) for i in range(40)]
    assert all(len(view.encoding) == 64 for view in only.shown)


@pytest.mark.case("V061")
def test_an_empty_context_is_one_window_that_shows_nothing_of_it(tokenizers: Callable[[str], Tokenizer]):
    (only,) = contexts(tokenizers("uncased"), [("the man", "")], Viewing(max_length=64))
    assert [view.tokens for view in only.shown] == [(0, 0)]


@pytest.mark.parametrize("family", ["uncased", "roberta", "albert", "xlnet", "t5", "llama", "gpt2"])
@pytest.mark.parametrize("first", [True, False])
def test_a_window_shows_its_tokens_where_it_says_beside_the_whole_other_text(
    tokenizers: Callable[[str], Tokenizer], family: str, first: bool
):
    tokenizer = tokenizers(family)
    long, beside = (
        tokenizer.encode(text, specials=False) for text in ("the man in want of a wife " * 9, "of the wife")
    )
    shown = views(
        tokenizer, (long.ids, long.offsets), Viewing(max_length=32, stride=7), beside=(beside.ids, beside.offsets),
        first=first,
    )  # fmt: skip
    assert len(shown) > 2
    for view in shown:
        start, end = view.tokens
        assert [view.encoding.ids[view.place(token)] for token in range(start, end)] == long.ids[start:end]
        other = [
            id
            for id, which in zip(view.encoding.ids, view.encoding.sequence_ids, strict=True)
            if which == int(not first)
        ]
        assert other == beside.ids
        assert len(view.encoding) <= 32
