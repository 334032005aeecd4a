"""Which script and language a text is in, and whether it changes language within: enough to slice a report by.

Scripts come from Unicode's names of letters. Languages in Latin letters are told by their frequent words
(:mod:`variorum.tasks.lexicons`), and where a text has none of them, by how words are spelled. Hindi in Latin letters is
``hi-Latn``. Changes of language are looked for between scripts and, within Latin letters, between English and another.
It is no identification of any language on earth: a language that is not known here comes out as its nearest.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from variorum.tasks.lexicons import lexicons

READ = 20_000
"""Characters of a text that are looked at."""
FEWEST, SHARE, LARGE_SHARE = 2, 0.15, 0.25
"""A text is mixed if this share of its words is of the lesser language, and so many words or the larger share are."""
ENGLISH, NONE = "en", "none"
SPELLED = {ENGLISH, "hi-Latn"}
"""The languages of which enough words are known to tell a further one by its spelling."""
PRIOR = 0.75
"""In favour of English, per triple of letters, where a text has no frequent word of any language."""

# No pattern repeats without a bound before something else: the time must not grow faster than the text.
_NOISE = re.compile(
    r"https?://\S+|www\.\S+|\S{1,64}@\S+|[@#]\w+|<[^<>]{1,200}>|&\w{1,10};|[A-Za-z]{0,30}\d+[A-Za-z]{0,30}"
)
# Marks stand inside words: without them every vowel sign of an Indian script would end one.
_MARKS = r"\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e30-\u0ebc\u102b-\u103e"
_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_MARKS}]|['’](?=\w))*")

BY_SCRIPT = {
    "DEVANAGARI": "hi", "CYRILLIC": "ru", "ARABIC": "ar", "HEBREW": "he", "GREEK": "el", "ARMENIAN": "hy",
    "GEORGIAN": "ka", "BENGALI": "bn", "GURMUKHI": "pa", "GUJARATI": "gu", "ORIYA": "or", "TAMIL": "ta",
    "TELUGU": "te", "KANNADA": "kn", "MALAYALAM": "ml", "SINHALA": "si", "THAI": "th", "LAO": "lo", "MYANMAR": "my",
    "KHMER": "km", "TIBETAN": "bo", "ETHIOPIC": "am", "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh",
}  # fmt: skip
"""The language most written in a script, by the word that Unicode's names of its letters begin with."""

MARKS: Mapping[str, Sequence[tuple[str, str]]] = {
    "DEVANAGARI": (
        ("mr", r"ळ|(?<!\S)(आहे|आहेत|नाही|आणि|मी|तुम्ही|होते|होता|माझ\w*|खूप)(?!\S)"),
        ("ne", r"(?<!\S)(छ|छन्|हुन्छ|गर्न|पनि|मलाई|तपाईं|धेरै|भएको|गरेको)(?!\S)"),
    ),
    "CYRILLIC": (
        ("uk", "[іїєґІЇЄҐ]"),
        ("be", "[ўЎ]"),
        ("sr", "[ђћџљњј]"),
        ("bg", r"(?<!\w)(е|са|съм|няма|това|тази|много|който|във|със)(?!\w)"),
    ),
    "ARABIC": (("ur", "[ٹڈڑںےہ]"), ("fa", "[پچژگی]")),
    "BENGALI": (("as", "[ৰৱ]"),),
    "CJK": (("ja", "[\u3040-\u30ff]"),),
}
"""What tells other languages of a script: the first whose pattern is found."""


@dataclass(frozen=True)
class Language:
    """What a text is written in.

    Attributes:
        languages: by their names in BCP 47, the one of most words first; none for a text without words.
        scripts: as Unicode names them, the one of most words first.
    """

    languages: tuple[str, ...]
    scripts: tuple[str, ...]

    @property
    def mixed(self) -> bool:
        """Whether the text changes language within."""
        return len(self.languages) > 1

    @property
    def name(self) -> str:
        """The languages in one word, in an order that does not depend on the text: ``en+hi-Latn``."""
        return "+".join(sorted(self.languages)) or NONE


def slices(texts: Iterable[str]) -> list[str]:
    """The name of each text's languages: what reports group rows by."""
    return [identify(text).name for text in texts]


def identify(text: str) -> Language:
    """Script and language of a text."""
    words = _WORD.findall(_NOISE.sub(" ", text[:READ]))
    by_script: dict[str, list[str]] = {}
    for word in words:
        by_script.setdefault(_script(word[0]), []).append(word)
    if "HIRAGANA" in by_script or "KATAKANA" in by_script:  # Japanese is written in three scripts at once
        kana = [by_script.pop(name, []) for name in ("HIRAGANA", "KATAKANA", "CJK")]
        by_script["HIRAGANA"] = [word for found in kana for word in found]
    counts: Counter[str] = Counter()
    for script, found in by_script.items():
        counts.update(_latin(found) if script == "LATIN" else {_by_marks(script, found): len(found)})
    scripts = sorted(by_script, key=lambda name: -len(by_script[name]))
    return Language(tuple(_substantial(counts)), tuple(name.capitalize() for name in scripts))


def _substantial(counts: Counter[str]) -> list[str]:
    total = counts.total()
    ranked = [name for name, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    return [
        name
        for place, name in enumerate(ranked)
        if place == 0 or (counts[name] >= SHARE * total and _enough(counts[name], total))
    ]


def _enough(words: int, of: int) -> bool:
    """Whether so many words are more than a name or a borrowed word."""
    return words >= FEWEST or words >= LARGE_SHARE * of


@cache
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "UNKNOWN").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    return name.partition(" ")[0]


def _by_marks(script: str, words: Sequence[str]) -> str:
    whole = " ".join(words)
    marked = (name for name, pattern in MARKS.get(script, ()) if re.search(pattern, whole))
    return next(marked, BY_SCRIPT.get(script, f"und-{script.capitalize()}"))


def _latin(words: Sequence[str]) -> dict[str, int]:
    """Words by language, of words in Latin letters."""
    lowered = [word.lower().replace("’", "'") for word in words]
    evidence = Counter[str]()
    for word in lowered:
        evidence.update(_weights(word))
    if not evidence:
        return {_spelled("".join(f" {word} " for word in lowered), tuple(lexicons())): len(words)}
    first = max(evidence, key=lambda name: (evidence[name], name == ENGLISH, name))
    others = [name for name in evidence if name != first and ENGLISH in (name, first)]
    second = max(others, key=lambda name: (_own(lowered, name, first), name), default=first)
    if first == second or not _enough(_own(lowered, second, first), len(words)):
        return {first: len(words)}
    return Counter(_either(word, first, second) for word in lowered)


@lru_cache(maxsize=1 << 16)
def _weights(word: str) -> dict[str, float]:
    """What a word says for each language: the more of them have it, the less."""
    having = [name for name, known in lexicons().items() if word in known]
    return {name: 1 / len(having) for name in having}


def _own(words: Sequence[str], language: str, other: str) -> int:
    """How many different words are of the one language and not of the other."""
    return len(set(words) & (lexicons()[language] - lexicons()[other]))


@lru_cache(maxsize=1 << 16)
def _either(word: str, first: str, second: str) -> str:
    """The one of two languages that a word is of; what both have, and in doubt any, goes with that of most words."""
    in_first, in_second = (word in lexicons()[name] for name in (first, second))
    if in_first or in_second or {first, second} != SPELLED:
        return first if in_first or not in_second else second
    return _spelled(f" {word} ", (first, second))


def _spelled(text: str, among: tuple[str, ...]) -> str:
    """The language whose words are spelled most like these, by their triples of letters."""
    triples = [text[i : i + 3] for i in range(len(text) - 2)]

    def likely(name: str) -> float:
        each = _likely(name)
        prior = PRIOR * len(triples) if name == ENGLISH and len(among) > 2 else 0.0
        return prior + sum(each.get(triple, _rare(name)) for triple in triples)

    return max(among, key=likely)


@cache
def _likely(language: str) -> dict[str, float]:
    """Log-probabilities of triples of letters in the words of a language, half a count added."""
    counts = Counter(f" {word} "[i : i + 3] for word in lexicons()[language] for i in range(len(word)))
    total = math.log(counts.total() + 0.5 * _TRIPLES)
    return {triple: math.log(count + 0.5) - total for triple, count in counts.items()}


@cache
def _rare(language: str) -> float:
    return min(_likely(language).values()) - math.log(3)


_TRIPLES = 2000  # of letters, that words of a language are made of
