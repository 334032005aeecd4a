"""How the tags of single words spell spans: BIO, IOB1, BIOES, BILOU and IO, each as four letters.

A tag is ``O`` or a letter with a type behind a hyphen (``B-PER``); a bare letter is of the one type without a name. One
rule serves all schemes. A tag continues the span before it if it is an inside or a last letter and the tag before it is
a first or an inside one of the same type; any other tag that is not ``O`` opens a span. *Lenient* reading takes every
span so found, as conlleval does; *strict* reading only those that the scheme allows to open and to close as they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from variorum.errors import UsageError, nearest

OUTSIDE = "O"
INSIDE = "I"
Mode = Literal["strict", "lenient"]


class Span(NamedTuple):
    """Places ``start`` to ``end``, the end not included, are of one ``type``."""

    start: int
    end: int
    type: str


class Tag(NamedTuple):
    """A tag read: its letter, ``O`` for outside, and its type."""

    letter: str
    type: str

    def __str__(self) -> str:
        return f"{self.letter}-{self.type}" if self.type else self.letter


NOTHING = Tag(OUTSIDE, "")


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Which letter stands where in a span; the words between the first and the last are ``I`` in all schemes.

    Attributes:
        name: as reports say it.
        first, last: of a span of several words. single: of a span of one.
        between: the first, and only then, where a span of the same type ends right before; empty for schemes whose
            ``first`` says so everywhere.
    """

    name: str
    first: str
    last: str
    single: str
    between: str = ""

    @property
    def letters(self) -> str:
        """All letters, in a fixed order, without ``O``."""
        return "".join(dict.fromkeys((*self.between, self.first, INSIDE, self.last, self.single)))

    def read(self, tag: str) -> Tag:
        """The tag that ``tag`` spells.

        Raises:
            UsageError: it is none of this scheme.
        """
        letter, hyphen, type_ = tag[:1], tag[1:2], tag[2:]
        if tag == OUTSIDE:
            return NOTHING
        if not letter or letter not in self.letters or hyphen not in ("", "-") or (hyphen and not type_):
            raise UsageError(
                f"{tag!r} is no tag of {self.name}",
                remedy=f"it has O and {', '.join(f'{one}-TYPE' for one in self.letters)}",
            )
        return Tag(letter, type_)

    def continues(self, before: Tag, tag: Tag) -> bool:
        """Whether ``tag`` belongs to the span of the tag before it."""
        goes_on = tag.letter in (INSIDE, self.last) and before.letter in (self.first, INSIDE, self.between)
        return goes_on and before.type == tag.type

    def opens(self, before: Tag, tag: Tag) -> bool:
        """Whether a span may begin with ``tag``."""
        if tag.letter == self.between:
            return before != NOTHING and before.type == tag.type
        return tag.letter in (self.first, self.single)

    def closes(self, tag: Tag) -> bool:
        """Whether a span may end with ``tag``."""
        return tag.letter in (self.last, self.single, self.between)

    def allows(self, before: Tag, tag: Tag) -> bool:
        """Whether ``tag`` may follow ``before``; a sequence begins and ends as if :data:`NOTHING` stood around it."""
        if self.continues(before, tag):
            return True
        return (before == NOTHING or self.closes(before)) and (tag == NOTHING or self.opens(before, tag))

    def breaches(self, tags: Sequence[str]) -> list[int]:
        """Places where a tag may not follow the one before; ``len(tags)`` where the last may not be the last."""
        read = [NOTHING, *map(self.read, tags), NOTHING]
        return [at for at in range(len(tags) + 1) if not self.allows(read[at], read[at + 1])]

    def spans(self, tags: Sequence[str], mode: Mode = "strict") -> list[Span]:
        """The spans that ``tags`` spell, in order.

        Raises:
            UsageError: a tag of another scheme.
        """
        read = list(map(self.read, tags))
        return [
            Span(start, end, read[start].type)
            for start, end in self._stretches(read)
            if mode == "lenient"
            or (self.opens(read[start - 1] if start else NOTHING, read[start]) and self.closes(read[end - 1]))
        ]

    def _stretches(self, tags: Sequence[Tag]) -> Iterator[tuple[int, int]]:
        start = 0
        for at in range(1, len(tags) + 1):
            if at == len(tags) or not self.continues(tags[at - 1], tags[at]):
                if tags[start] != NOTHING:
                    yield start, at
                start = at

    def tags(self, spans: Iterable[Span], length: int) -> list[str]:
        """The tags of ``length`` words that spell ``spans``; IO cannot but join neighbours of one type.

        Raises:
            UsageError: a span beyond the words, empty, or over another one.
        """
        read = [NOTHING] * length
        for start, end, type_ in sorted(spans):
            if not 0 <= start < end <= length or read[start] != NOTHING:
                raise UsageError(
                    f"span {start}–{end} of {length} words", remedy="spans lie within the words and apart from others"
                )
            before = read[start - 1] if start else NOTHING
            inner = [INSIDE] * (end - start - 2)
            letters = [self.single] if end - start == 1 else [self.first, *inner, self.last]
            if self.between and before != NOTHING and before.type == type_:
                letters[0] = self.between
            read[start:end] = [Tag(letter, type_) for letter in letters]
        return list(map(str, read))

    def labels(self, types: Iterable[str]) -> tuple[str, ...]:
        """All tags over ``types``: ``O``, then type by type; whatever the model says, the scheme can spell it."""
        return (OUTSIDE, *(str(Tag(letter, one)) for one in sorted(set(types)) for letter in self.letters))


BIO = Scheme(name="BIO", first="B", last="I", single="B")
IOB1 = Scheme(name="IOB1", first="I", last="I", single="I", between="B")
BIOES = Scheme(name="BIOES", first="B", last="E", single="S")
BILOU = Scheme(name="BILOU", first="B", last="L", single="U")
IO = Scheme(name="IO", first="I", last="I", single="I")

SCHEMES = {scheme.name: scheme for scheme in (IO, BIO, IOB1, BIOES, BILOU)}
"""The plainest first."""
ALIASES = {"IOB2": "BIO", "IOB": "IOB1", "IOBES": "BIOES"}


def scheme(name: str) -> Scheme:
    """The scheme of that name, in any case.

    Raises:
        UsageError: none is called so.
    """
    upper = name.upper()
    found = SCHEMES.get(ALIASES.get(upper, upper))
    if found is None:
        known = (*SCHEMES, *ALIASES)
        raise UsageError(
            f"no scheme is called {name!r}", remedy=nearest(upper, known) or f"there are {', '.join(known)}"
        )
    return found


def scheme_of(sequences: Iterable[Sequence[str]]) -> Scheme | None:
    """The plainest scheme that allows all ``sequences``, else the one that they break least often.

    ``None`` if some tag is of no scheme: then tags are classes of words, as parts of speech are, and spell no spans.
    """
    whole = list(sequences)
    found: list[tuple[int, Scheme]] = []
    for one in SCHEMES.values():
        try:
            found.append((sum(len(one.breaches(tags)) for tags in whole), one))
        except UsageError:
            continue
    return min(found, key=lambda pair: pair[0])[1] if found else None


def convert(tags: Sequence[str], source: Scheme, target: Scheme, mode: Mode = "strict") -> list[str]:
    """The tags of ``target`` for the spans that ``tags`` spell in ``source``."""
    return target.tags(source.spans(tags, mode), len(tags))
