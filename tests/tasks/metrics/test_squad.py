"""Scores of answers against the official scripts' published rules, written here anew, on a thousand random cases."""

from __future__ import annotations

import collections
import random
import re
import string

import pytest

from variorum.errors import UsageError
from variorum.tasks.metrics.squad import best_threshold, exact, f1, normalise, report, scores

WORDS = [
    "the", "The", "a", "an", "theatre", "Denver", "denver", "Broncos", "broncos.", "24–10", "(24-10)", "Santa Clara,",
    "U.S.", "“Gold”", "", " ", "an.", "...", "naïve", "東京", "3,000", "A-1", "x_y", "a-the", "\u00a0gold", "AN", "é",
]  # fmt: skip
CASES = 1_000


def words_of(text: str) -> list[str]:
    """What the scripts compare: lower case; every ASCII punctuation mark gone; then articles between word borders."""
    bare = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return re.sub(r"\b(?:a|an|the)\b", " ", bare).split()


def official(answers: list[str], right: list[list[str]], version: str) -> tuple[list[float], list[float]]:
    """Both scripts: the maximum over right answers of equality and of the F1 of bags of words."""
    matches, overlaps = [], []
    for answer, known in zip(answers, right, strict=True):
        if version == "2.0":
            known = [one for one in known if words_of(one)] or [""]
        pairs = [(words_of(answer), words_of(one)) for one in known]
        matches.append(max(int(said == real) for said, real in pairs))
        overlaps.append(max(_overlap(said, real, version) for said, real in pairs))
    return matches, overlaps


def _overlap(said: list[str], real: list[str], version: str) -> float:
    if version == "2.0" and (len(said) == 0 or len(real) == 0):
        return int(said == real)
    same = sum((collections.Counter(said) & collections.Counter(real)).values())
    if same == 0:
        return 0
    precision, recall = same / len(said), same / len(real)
    return 2 * precision * recall / (precision + recall)


def random_cases(seed: int, *, answerable: bool) -> tuple[list[str], list[list[str]]]:
    rng = random.Random(seed)

    def phrase() -> str:
        return rng.choice(["", " "]) + " ".join(rng.choices(WORDS, k=rng.randint(0, 4)))

    answers, right = [], []
    for _ in range(CASES):
        known = [phrase() for _ in range(rng.randint(1 if answerable else 0, 3))]
        answers.append(rng.choice([phrase(), *known, *[one.upper() + "!" for one in known]]))
        right.append(known)
    return answers, right


@pytest.mark.mechanism("H3")
@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_equal_to_the_official_script(version: str):
    answers, right = random_cases(0, answerable=version == "1.1")
    matches, overlaps = official(answers, right, version)
    ours = scores(answers, right, version)
    assert ours[0] == matches
    assert ours[1] == pytest.approx(overlaps)
    assert all(0.2 < sum(one) / CASES < 0.95 for one in (matches, overlaps))
    whole = report(answers, right, version)
    assert whole.all == pytest.approx((sum(matches) / CASES, sum(overlaps) / CASES, CASES))
    has = [i for i in range(CASES) if right[i]]
    assert whole.answerable == pytest.approx(
        (sum(matches[i] for i in has) / len(has), sum(overlaps[i] for i in has) / len(has), len(has))
    )
    assert whole.answerable.questions + whole.unanswerable.questions == CASES


@pytest.mark.parametrize(
    ("text", "bare"),
    [("The  Answer!", "answer"), ("a-the", "athe"), ("U.S.", "us"), ("theatre an", "theatre"), ("\tA\n", "")],
)
def test_normalising_worked_by_hand(text: str, bare: str):
    assert normalise(text) == bare


def test_the_best_of_several_right_answers_counts():
    assert scores(["the Broncos"], [["Denver Broncos", "Broncos"]]) == ([1.0], [1.0])
    assert scores(["Denver team"], [["Denver Broncos", "Broncos"]]) == ([0.0], [0.5])


def test_the_versions_differ_on_answers_without_a_word():
    assert exact("the", "a") == 1
    assert (f1("the", "a", "1.1"), f1("the", "a", "2.0")) == (0, 1)


def test_a_question_without_an_answer_is_right_only_with_none():
    assert scores(["", "Denver"], [[], []]) == ([1.0, 0.0], [1.0, 0.0])
    whole = report(["", "Denver"], [[], []])
    assert whole.unanswerable == (0.5, 0.5, 2) and whole.answerable == (0, 0, 0)
    with pytest.raises(UsageError, match=r"question 2: no right answer"):
        scores(["x", ""], [["x"], []], "1.1")
    with pytest.raises(UsageError, match="1 answers to 2 questions"):
        scores(["x"], [["x"], []])


def best_by_trying(none: list[float], quality: list[float], answerable: list[bool], silent: list[bool]) -> float:
    """The best mean over all thresholds: above it, and only then, a question gets no answer."""

    def mean(threshold: float) -> float:
        answered = [score <= threshold for score in none]
        right = [
            quality[i] if answerable[i] and answered[i] else float(not answerable[i] and (not answered[i] or silent[i]))
            for i in range(len(none))
        ]
        return sum(right) / len(right)

    return max(map(mean, [-1.0, *none]))


@pytest.mark.mechanism("H3")
def test_the_threshold_found_is_the_best_there_is():
    for seed in range(50):
        rng = random.Random(seed)
        n = rng.randint(1, 40)
        answerable = [rng.random() < 0.6 for _ in range(n)]
        none = [0.6 * rng.random() + (0.0 if there else 0.4 * rng.random()) for there in answerable]
        quality = [rng.choice([0.0, 0.5, 1.0]) if there else 0.0 for there in answerable]
        silent = [not there and rng.random() < 0.1 for there in answerable]
        best, threshold = best_threshold(none, quality, answerable, silent)
        assert best == pytest.approx(best_by_trying(none, quality, answerable, silent))
        assert threshold == 0 or threshold in none


def test_the_search_worked_by_hand():
    """None right at first: 1 of 3. Answering the surest gives 2, the next loses 1, the third has no worth."""
    assert best_threshold([0.1, 0.4, 0.9], [1.0, 0.0, 0.0], [True, False, True], [False] * 3) == (2 / 3, 0.1)
    assert best_threshold([0.1], [0.0], [False], [False]) == (1.0, 0.0)
    assert best_threshold([], [], [], []) == (0.0, 0.0)
