"""Tags and spans: what each scheme spells, allows and cannot say, and what reading strictly or leniently finds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variorum.errors import UsageError
from variorum.tasks.schemes import BILOU, BIO, BIOES, IO, IOB1, SCHEMES, Scheme, Span, convert, scheme, scheme_of

FIVE = [Span(0, 1, "PER"), Span(1, 3, "PER"), Span(4, 7, "LOC"), Span(7, 8, "ORG")]
SPELT = {
    "BIO": "B-PER B-PER I-PER O B-LOC I-LOC I-LOC B-ORG",
    "IOB1": "I-PER B-PER I-PER O I-LOC I-LOC I-LOC I-ORG",
    "BIOES": "S-PER B-PER E-PER O B-LOC I-LOC E-LOC S-ORG",
    "BILOU": "U-PER B-PER L-PER O B-LOC I-LOC L-LOC U-ORG",
    "IO": "I-PER I-PER I-PER O I-LOC I-LOC I-LOC I-ORG",
}

EVERY = pytest.mark.parametrize("which", SCHEMES.values(), ids=lambda one: one.name)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans apart from one another, and how many words there are."""
    at, spans = 0, []
    for _ in range(draw(st.integers(0, 6))):
        start = at + draw(st.integers(0, 2))
        at = start + draw(st.integers(1, 4))
        spans.append(Span(start, at, draw(st.sampled_from(["PER", "LOC", ""]))))
    return spans, at + draw(st.integers(0, 2))


@EVERY
def test_each_scheme_spells_five_spans_as_published(which: Scheme):
    assert which.tags(FIVE, 8) == SPELT[which.name].split()


def test_io_cannot_tell_neighbours_of_one_type_apart():
    assert IO.spans(IO.tags(FIVE, 8)) == [Span(0, 3, "PER"), *FIVE[2:]]


@given(sentences())
def test_what_is_spelt_is_legal_and_read_back_either_way(sentence: tuple[list[Span], int]):
    spans, length = sentence
    for which in (BIO, IOB1, BIOES, BILOU):
        tags = which.tags(spans, length)
        assert which.breaches(tags) == []
        assert which.spans(tags, "strict") == which.spans(tags, "lenient") == spans


@given(sentences())
def test_converting_keeps_the_spans(sentence: tuple[list[Span], int]):
    spans, length = sentence
    for source, target in itertools.permutations((BIO, IOB1, BIOES, BILOU), 2):
        assert target.spans(convert(source.tags(spans, length), source, target)) == spans


@EVERY
@given(st.data())
def test_tags_are_legal_exactly_if_spelling_their_spans_gives_them_again(which: Scheme, data: st.DataObject):
    tags = data.draw(st.lists(st.sampled_from(which.labels(["X", "Y"])), max_size=6))
    assert (which.breaches(tags) == []) == (which.tags(which.spans(tags, "lenient"), len(tags)) == tags)


@pytest.mark.case("V059")
@pytest.mark.parametrize("kind", ["-TEL", ""])
def test_an_inside_tag_begins_a_span_only_for_lenient_readers(kind: str):
    tags = [f"I{kind}", f"I{kind}"]
    assert BIO.spans(tags, "strict") == []
    assert BIO.spans(tags, "lenient") == [Span(0, 2, kind.removeprefix("-"))]
    assert BIO.breaches(tags) == [0]


@pytest.mark.parametrize(
    ("which", "tags", "at"),
    [
        (BIO, "B-X I-Y", [1]),
        (IOB1, "O B-X", [1]),
        (IOB1, "I-X B-Y", [1]),
        (BIOES, "B-X O", [1]),
        (BIOES, "B-X I-X", [2]),
        (BIOES, "S-X E-X", [1]),
        (BIOES, "B-X E-X I-X E-X", [2]),
        (IO, "I-X I-X O I-Y", []),
    ],
)
def test_where_a_scheme_is_broken(which: Scheme, tags: str, at: list[int]):
    assert which.breaches(tags.split()) == at


def test_a_span_that_is_never_closed_counts_only_for_lenient_readers():
    assert BIOES.spans(["B-X", "I-X", "O"], "strict") == []
    assert BIOES.spans(["B-X", "I-X", "O"], "lenient") == [Span(0, 2, "X")]


@pytest.mark.parametrize("tag", ["S-PER", "PER", "B_PER", "B-", "", "b-PER"])
def test_a_tag_of_another_scheme_is_named(tag: str):
    with pytest.raises(UsageError, match=r"is no tag of BIO; it has O and B-TYPE, I-TYPE"):
        BIO.spans(["O", tag])


def test_types_may_hold_hyphens():
    assert BIO.spans(["B-geo-loc", "I-geo-loc"]) == [Span(0, 2, "geo-loc")]


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["B-X I-X O B-X", "O"], "BIO"),
        (["I-X B-X", "O I-Y"], "IOB1"),
        (["I-X O I-Y I-X"], "IO"),
        (["S-X B-Y I-Y E-Y"], "BIOES"),
        (["U-X B-Y L-Y"], "BILOU"),
        (["B-X I-X I-X", "O I-X", "O B-X", "B-Y O"], "BIO"),
    ],
)
def test_the_scheme_is_found_from_the_tags(tags: list[str], name: str):
    found = scheme_of([one.split() for one in tags])
    assert found is not None and found.name == name


def test_parts_of_speech_spell_no_spans():
    assert scheme_of([["DT", "NN", "IN", "O"]]) is None


def test_schemes_go_by_their_other_names():
    assert scheme("iob2") is BIO
    assert scheme("IOBES") is BIOES
    with pytest.raises(UsageError, match="did you mean BIOES"):
        scheme("BIOE")


@pytest.mark.parametrize("spans", [[Span(0, 3, "X")], [Span(1, 1, "X")], [Span(0, 2, "X"), Span(1, 2, "Y")]])
def test_spans_that_no_tags_can_spell_are_refused(spans: list[Span]):
    with pytest.raises(UsageError):
        BIO.tags(spans, 2)
