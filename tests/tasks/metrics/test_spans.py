"""Span scores against seqeval and against conlleval's rules, on random tags; where they differ is stated exactly.

seqeval reads strictly by its classes of schemes and leniently by default. conlleval's rules are written here anew, from
what the script does: it knows when a chunk starts and ends, and counts in one pass without ever making a span.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from seqeval import scheme as theirs
from seqeval.metrics import sequence_labeling as default
from seqeval.metrics import v1

from variorum.errors import UsageError
from variorum.tasks.metrics.spans import count, f1, report
from variorum.tasks.schemes import BILOU, BIO, BIOES, IO, IOB1, SCHEMES, Mode, Scheme, Span

TYPES = ("LOC", "PER")
SEQUENCES = 2_000
STRICT = {"BIO": theirs.IOB2, "IOB1": theirs.IOB1, "BIOES": theirs.IOBES, "BILOU": theirs.BILOU}

Tagged = list[list[str]]


def random_tags(which: Scheme, seed: int) -> tuple[Tagged, Tagged]:
    """Right tags, half of them spelt from spans and half thrown, and a prediction with every third tag thrown anew."""
    rng = random.Random(seed)
    labels = which.labels(TYPES)
    truth, predicted = [], []
    for number in range(SEQUENCES):
        length = rng.randint(1, 9)
        tags = rng.choices(labels, k=length) if number % 2 else _spelt(which, length, rng)
        truth.append(tags)
        predicted.append([rng.choice(labels) if rng.random() < 1 / 3 else tag for tag in tags])
    return truth, predicted


def _spelt(which: Scheme, length: int, rng: random.Random) -> list[str]:
    spans, at = [], rng.randint(0, 2)
    while at < length:
        end = min(length, at + rng.randint(1, 3))
        spans.append(Span(at, end, rng.choice(TYPES)))
        at = end + rng.randint(0, 2)
    return which.tags(spans, length)


def assert_equal_to_seqeval(ours: object, theirs_of: object) -> None:
    """Per type, micro and macro: precision, recall, F1; and support."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # precision of a type that is never predicted
        precision, recall, f, support = theirs_of(None)
        for place, score in enumerate(ours.types.values()):
            assert score[:4] == pytest.approx((precision[place], recall[place], f[place], support[place]))
        for average in ("micro", "macro"):
            assert getattr(ours, average)[:3] == pytest.approx(theirs_of(average)[:3])


def is_misread_iob1(tags: list[str]) -> bool:
    """Whether there is a B without a span of its type right before: seqeval begins a span behind it, or loses the one
    that ends there."""
    return bool(IOB1.breaches(tags))


@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("which", [BIO, IOB1, BIOES, BILOU], ids=lambda one: one.name)
def test_strict_scores_equal_seqevals(which: Scheme):
    truth, predicted = random_tags(which, 0)
    if which is IOB1:
        kept = [i for i in range(SEQUENCES) if not (is_misread_iob1(truth[i]) or is_misread_iob1(predicted[i]))]
        truth, predicted = [truth[i] for i in kept], [predicted[i] for i in kept]
        assert len(kept) > 200

    def seqeval(average: str | None):
        return v1.precision_recall_fscore_support(truth, predicted, average=average, scheme=STRICT[which.name])

    assert_equal_to_seqeval(report(truth, predicted, which, "strict"), seqeval)


@pytest.mark.parametrize(
    ("tags", "strict", "seqeval"),
    [
        ("O B-PER I-PER", [], [(2, 3)]),
        ("I-PER B-PER B-LOC", [(0, 1), (1, 2)], [(0, 1)]),
    ],
)
def test_where_seqeval_is_not_followed_a_b_of_iob1_stands_alone(tags: str, strict: list, seqeval: list):
    """A B that may not begin a span gives none, in whole or in part; and a legal span before it stays one."""
    assert [span[:2] for span in IOB1.spans(tags.split(), "strict")] == strict
    found = theirs.Tokens(tags.split(), theirs.IOB1).entities
    assert [(one.start, one.end) for one in found] == seqeval


@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("which", [BIO, IOB1, BIOES, IO], ids=lambda one: one.name)
def test_lenient_scores_equal_seqevals_default(which: Scheme):
    truth, predicted = random_tags(which, 1)

    def seqeval(average: str | None):
        return default.precision_recall_fscore_support(truth, predicted, average=average)

    assert_equal_to_seqeval(report(truth, predicted, which, "lenient"), seqeval)


ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("O", "E"), ("E", "E"), ("E", "I")}


def conlleval(truth: Tagged, predicted: Tagged) -> tuple[int, int, int, float]:
    """Chunks found, guessed and there, and the share of right tags, as the script of CoNLL-2000 counts them."""
    found = guessed = there = right = words = 0
    for real, said in zip(truth, predicted, strict=True):
        inside = False
        before = ("O", ""), ("O", "")
        for pair in [*zip(real, said, strict=True), ("O", "O")]:
            now = tuple((tag[0], tag[2:]) for tag in pair)
            ends = [_changes(a, b, ENDS, a) for a, b in zip(before, now, strict=True)]
            starts = [_changes(a, b, STARTS, b) for a, b in zip(before, now, strict=True)]
            if inside and all(ends) and before[0][1] == before[1][1]:
                inside, found = False, found + 1
            elif inside and (ends[0] != ends[1] or now[0][1] != now[1][1]):
                inside = False
            inside = inside or (all(starts) and now[0][1] == now[1][1])
            there, guessed = there + starts[0], guessed + starts[1]
            before = now
        right += sum(a == b for a, b in zip(real, said, strict=True))
        words += len(real)
    return found, guessed, there, right / words


def _changes(before: tuple[str, str], now: tuple[str, str], pairs: set[tuple[str, str]], of: tuple[str, str]) -> bool:
    return (before[0], now[0]) in pairs or (of[0] != "O" and before[1] != now[1])


@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("which", [BIO, IOB1, IO], ids=lambda one: one.name)
def test_lenient_scores_equal_conllevals(which: Scheme):
    """Not BIOES: the script does not know S, nor that a B after an E begins a chunk."""
    truth, predicted = random_tags(which, 2)
    found, guessed, there, right = conlleval(truth, predicted)
    ours = report(truth, predicted, which, "lenient")
    assert (ours.micro.predicted, ours.micro.support) == (guessed, there)
    assert ours.micro[:3] == pytest.approx((found / guessed, found / there, 2 * found / (guessed + there)))
    assert ours.tags_right == pytest.approx(right)


@pytest.mark.parametrize("which", SCHEMES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_counts_of_sentences_add_up_to_the_report(which: Scheme, mode: Mode):
    truth, predicted = random_tags(which, 3)
    types, counts = count(truth, predicted, which, mode)
    whole = report(truth, predicted, which, mode)
    assert types == tuple(whole.types)
    assert f1(counts.sum(0)) == pytest.approx([score.f1 for score in whole.types.values()])
    assert f1(counts.sum((0, 1))) == pytest.approx(whole.micro.f1)
    assert counts.shape == (SEQUENCES, len(types), 3)
    assert np.all(counts[..., 0] <= counts[..., 1:].min(-1))


@pytest.mark.case("V059")
def test_the_report_names_scheme_and_mode_and_they_decide_the_score():
    truth, predicted = [["B-TEL", "I-TEL"]], [["I-TEL", "I-TEL"]]
    strict, lenient = report(truth, predicted, BIO, "strict"), report(truth, predicted, BIO, "lenient")
    assert (strict.scheme, strict.mode, lenient.mode) == ("BIO", "strict", "lenient")
    assert strict.micro[:3] == strict.macro[:3] == (0, 0, 0)
    assert lenient.micro[:3] == lenient.macro[:3] == (1, 1, 1)
    assert strict.tags_right == lenient.tags_right == 0.5


@pytest.mark.case("V059")
def test_untyped_tags_are_of_one_type():
    assert report([["B", "I", "O", "B"]], [["B", "I", "O", "O"]], BIO).types[""][:3] == (1, 0.5, 2 / 3)


def test_nothing_there_and_nothing_said_scores_zero():
    nothing = report([["O", "O"]], [["O", "O"]], BIO)
    assert nothing.types == {} and nothing.micro == (0, 0, 0, 0, 0) and nothing.tags_right == 1


def test_sentences_that_do_not_match_are_refused():
    with pytest.raises(UsageError, match="sentence 2: 2 words, and 1 tags"):
        report([["O"], ["O", "O"]], [["O"], ["O"]], BIO)
    with pytest.raises(UsageError, match="2 sentences, and tags of 1"):
        report([["O"], ["O"]], [["O"]], BIO)
