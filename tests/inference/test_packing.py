"""Streams hold every text once, full but not too full, and nothing but its tokens."""

from __future__ import annotations

import types

from hypothesis import given
from hypothesis import strategies as st

from variorum.inference.packing import groups, streams

LENGTHS = st.lists(st.integers(0, 60), max_size=40)


@given(lengths=LENGTHS, tokens=st.integers(1, 100), texts=st.none() | st.integers(1, 9))
def test_every_text_with_tokens_is_in_one_group_that_holds_what_it_may(
    lengths: list[int], tokens: int, texts: int | None
) -> None:
    made = list(groups(lengths, tokens, texts))
    assert sorted(i for group in made for i in group) == [i for i, length in enumerate(lengths) if length]
    for group in made:
        assert len(group) == 1 or sum(lengths[i] for i in group) <= tokens
        assert texts is None or len(group) <= texts
    flat = [lengths[i] for group in made for i in group]
    assert flat == sorted(flat, reverse=True)


def test_groups_are_about_equally_full() -> None:
    assert [len(group) for group in groups([10] * 11, 100)] == [6, 5]


def test_a_stream_is_its_texts_end_to_end() -> None:
    rows = [
        types.SimpleNamespace(ids=ids, type_ids=[number] * len(ids)) for number, ids in enumerate(([7], [], [5, 6]))
    ]
    [stream] = streams(rows)
    assert stream.input_ids.tolist() == [[5, 6, 7]] and stream.token_type_ids.tolist() == [[2, 2, 0]]
    assert stream.lengths == (2, 1) and stream.texts == (2, 0)
