"""WordPiece by likelihood: what its paper says, recounted from nothing for every merge, is what is learned."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from variorum.text import train_wordpiece, train_wordpiece_by_frequency
from variorum.text.corpora import austen
from variorum.text.likelihood import alphabet, learn, symbols_of
from variorum.text.readers import paragraphs

# The worked example of Hugging Face's course on tokenizers, chapter 6, which uses the same score.
COURSE = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def recounted(words: dict[str, int], size: int, min_count: int = 1) -> list[str]:
    """The rule as it is written down: split, count, take the best, join, and start over."""
    tokens = alphabet(words)
    split = {word: symbols_of(word) for word in words}
    while len(tokens) < size:
        symbols: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for symbol in split[word]:
                symbols[symbol] += times
            for pair in zip(split[word], split[word][1:], strict=False):
                pairs[pair] += times
        able = [pair for pair, count in pairs.items() if count >= min_count]
        if not able:
            break

        def worth(pair: tuple[str, str]) -> tuple[float, int, int, int]:
            score = pairs[pair] / (symbols[pair[0]] * symbols[pair[1]])  # noqa: B023 (called at once)
            return score, pairs[pair], -tokens.index(pair[0]), -tokens.index(pair[1])  # noqa: B023

        left, right = max(able, key=worth)
        joined = left + right.removeprefix("##")
        for word, parts in split.items():
            place, made = 0, []
            while place < len(parts):
                together = parts[place : place + 2] == [left, right]
                made.append(joined if together else parts[place])
                place += 2 if together else 1
            split[word] = made
        if joined not in tokens:
            tokens.append(joined)
    return tokens


def emma(count: int) -> dict[str, int]:
    words = Counter(word for text in paragraphs(austen()["Emma"])[:count] for word in text.lower().split())
    return dict(sorted(words.items()))


@pytest.mark.mechanism("T1")
def test_the_pair_that_stands_together_more_than_by_chance_is_merged_first() -> None:
    tokens = learn(COURSE, 100, alphabet(COURSE), min_count=1)
    assert tokens[:7] == ["b", "h", "p", "##g", "##n", "##s", "##u"]
    # count(##g ##s) = 5 of 20 · 5, the best of all at 1/20; the most frequent pair is (p, ##u), and by frequency first.
    assert tokens[7] == "##gs"
    assert set(COURSE) <= set(tokens)
    assert learn({"ab": 100, "ac": 100, "xy": 2}, 6, alphabet({"ab", "ac", "xy"}))[-1] == "xy"


@pytest.mark.mechanism("T1")
@pytest.mark.parametrize("min_count", [1, 3])
def test_counting_only_what_changed_is_counting_everything_again(min_count: int) -> None:
    words = emma(6)
    for corpus in (COURSE, words, {"aaaa": 3, "aaa": 2, "aaaaa": 1, "baaab": 4}):
        size = len(alphabet(corpus)) + 150
        assert learn(corpus, size, alphabet(corpus), min_count=min_count) == recounted(corpus, size, min_count)


@pytest.mark.mechanism("T1")
def test_pairs_rarer_than_asked_stay_apart() -> None:
    words = emma(40)
    start = alphabet(words)
    for min_count in (2, 10):
        for token in learn(words, 500, start, min_count=min_count)[len(start) :]:
            letters = token.removeprefix("##")
            assert sum(times for word, times in words.items() if letters in word) >= min_count


@pytest.mark.mechanism("T1", "T6")
def test_six_novels_and_four_thousand_pieces_take_seconds() -> None:
    texts = [text for novel in austen().values() for text in paragraphs(novel)]
    begin = time.process_time()
    rare, common = train_wordpiece(texts, 4000), train_wordpiece(texts, 4000, min_count=75)
    assert time.process_time() - begin < 60, "two vocabularies of 4 MB"
    by_frequency = train_wordpiece_by_frequency(texts, 4000)
    for tokenizer in (rare, common, by_frequency):
        assert tokenizer.vocab_size == 4000
        assert tokenizer.encode("universally").tokens[0] == "[CLS]"
    sample = texts[:300]

    def length(tokenizer: object) -> int:
        return sum(len(made) for made in tokenizer.encode_batch(sample))  # type: ignore[attr-defined]

    # Rare pairs first is what the rule says and what it costs; frequency, or a floor under it, reads prose in fewer.
    assert length(by_frequency) < length(common) < length(rare)
