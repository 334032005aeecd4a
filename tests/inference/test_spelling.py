"""A text told piece by piece is the text, never with half a character, nor with a part of what ends it."""

from __future__ import annotations

import dataclasses
import functools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.text.conftest import MAKERS
from tests.text.strings import varied_strings
from variorum.inference.spelling import BROKEN, Spelling, spelt
from variorum.text import load_tokenizer

#: Bytes in merges, bytes of characters that no piece holds, words with marks of continuation, spaces that belong to the
#: next word, spaces that are taken out again.
KINDS = ("gpt2", "whisper", "llama", "gemma", "t5", "uncased", "mbart", "gpt1")


@functools.cache
def tokenizer(kind: str) -> Any:
    with tempfile.TemporaryDirectory() as place:
        MAKERS[kind](Path(place))
        return load_tokenizer(Path(place))


def texts(count: int) -> list[str]:
    return [one for one in varied_strings(3 * count) if one.strip()][:count]


def told(spelling: Spelling, ids: Sequence[int]) -> list[str]:
    return [*(spelling.push(token) for token in ids), spelling.close()]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_whole_text_and_hold_no_broken_character(kind: str) -> None:
    own = tokenizer(kind)
    for text in texts(150):
        ids = own.encode(text, specials=False).ids
        for cut in (0, len(ids) // 3):
            before, whole = own.decode(ids[:cut]), own.decode(ids)
            pieces = told(Spelling(own, ids[:cut]), ids[cut:])
            if not before.endswith(BROKEN) and whole.startswith(before):
                assert "".join(pieces) == whole[len(before) :], (text, cut)
                broken = [piece for piece in pieces if BROKEN in piece]
                assert not broken or BROKEN in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_tidied_text_is_told_as_it_is_written(kind: str) -> None:
    own = dataclasses.replace(tokenizer(kind), tidy=True)
    for text in ("I do n't know , he 's here . They 've come ! ' a ' n 're ' m", "it 's n n't . . , we 're '"):
        ids = own.encode(text, specials=False).ids
        assert "".join(told(Spelling(own), ids)) == own.decode(ids)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_text_cut_within_a_character_ends_with_what_there_is_of_it(kind: str) -> None:
    own = tokenizer(kind)
    ids = own.encode("It is ☃", specials=False).ids
    assert len(own.encode("☃", specials=False).ids) > 2
    pieces = told(Spelling(own), ids[:-1])
    assert "".join(pieces[:-1]).strip() == "It is"
    assert set(pieces[-1].strip()) == {BROKEN}


@pytest.mark.case("V081")
@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_a_stop_string_is_ever_told(kind: str) -> None:
    """Stop strings of any length, wherever tokens begin: all is told before the first of them, to the character."""
    own, chance = tokenizer(kind), random.Random(1)
    for text in texts(120):
        ids = own.encode(text, specials=False).ids
        whole = spelt(own, [], ids)
        if len(whole) < 4 or BROKEN in whole:
            continue
        at = chance.randrange(1, len(whole) - 1)
        stops = [whole[at : at + chance.randrange(1, 6)], whole[-3:] + "no", "never there"]
        first = min(place for one in stops if (place := whole.find(one)) >= 0)
        spelling, seen = Spelling(own, (), stops), ""
        for token in ids:
            seen += spelling.push(token)
            assert whole[:first].startswith(seen)
            if spelling.stopped:
                break
        seen += spelling.close()
        assert spelling.stopped and seen == spelling.text == whole[:first]


def test_what_only_looked_like_a_stop_is_told_in_the_end() -> None:
    own = tokenizer("gpt2")
    ids = own.encode("one STO", specials=False).ids
    spelling = Spelling(own, (), ["STOP"])
    pieces = [spelling.push(token) for token in ids]
    assert "".join(pieces) == "one "
    assert spelling.close() == "STO" and not spelling.stopped
    held = Spelling(own, (), ["STOP"])
    assert "".join(held.push(token) for token in own.encode("one STORY", specials=False).ids) == "one STORY"


def test_a_stop_across_tokens_ends_with_the_token_that_completes_it() -> None:
    own = tokenizer("gpt2")
    ids = own.encode("a truth universally", specials=False).ids
    pieces = [own.decode([token]) for token in ids]
    stop = pieces[0][-1] + pieces[1][:2]
    spelling = Spelling(own, (), [stop])
    assert (spelling.push(ids[0]), spelling.stopped) == (pieces[0][:-1], False)
    assert (spelling.push(ids[1]), spelling.stopped) == ("", True)
    assert spelling.push(ids[2]) == spelling.close() == ""


def test_special_tokens_and_spare_rows_add_nothing() -> None:
    own = tokenizer("llama")
    ids = own.encode("the truth", specials=False).ids
    assert spelt(own, [], [ids[0], own.eos_id, own.vocab_size + 3, *ids[1:]]) == own.decode(
        [ids[0], own.eos_id, *ids[1:]]
    )


def test_a_copy_goes_its_own_way() -> None:
    own = tokenizer("gpt2")
    ids = own.encode("the truth and the law", specials=False).ids
    one = Spelling(own)
    for token in ids[:2]:
        one.push(token)
    other = one.fork()
    for token in ids[2:]:
        other.push(token)
    assert other.text == own.decode(ids) and one.text == own.decode(ids[:2])
