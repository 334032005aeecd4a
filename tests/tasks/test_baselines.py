"""Every kind of task has something simple beside it, which learns what is simple and answers every row in order."""

from __future__ import annotations

import time

import numpy as np
import pytest

from variorum.errors import NotFound
from variorum.tasks.baselines import BASELINES, baseline, baselines
from variorum.tasks.baselines.bm25 import Bm25
from variorum.tasks.baselines.cleaning import STEPS, clean
from variorum.tasks.baselines.linear import Logistic, Machine, Ridge, fit_and_predict
from variorum.tasks.baselines.overlap import Overlap
from variorum.tasks.baselines.paired import Cosine, Nearest
from variorum.tasks.baselines.tagging import FrequentTags, LinearTags
from variorum.tasks.baselines.writing import Copy, Lead
from variorum.tasks.registry import KINDS

ANIMALS = [f"{word} number {i}" for i in range(60) for word in ("the cat purrs", "a dog barks", "one horse neighs")]
NAMES = ["cat", "dog", "horse"] * 60

SENTENCES = [f"{who} went to {where} on {day} ." for who in ("Anna", "Bert", "Carla", "Dora")
             for where in ("Rome", "Oslo", "Lima") for day in ("Monday", "Friday")]  # fmt: skip
TAGS = ["PER O O LOC O O O"] * len(SENTENCES)

QUESTIONS = [
    (
        "Who wrote the ballad of the lighthouse?",
        "The town is old. Agnes Moor wrote the ballad of the lighthouse. It rains in June.",
    ),
    ("Where was the ferry built?", "The ferry was built in Gdansk. Its captain is tall. Nobody swims."),
    ("Who painted the ceiling?", "Bread is baked in the dawn. The market closes early."),
] * 5
ANSWERS = ["Agnes Moor", "Gdansk", ""] * 5

ROWS = {
    "classify": (ANIMALS, NAMES),
    "pairs": ([(a, a if i % 2 else "nothing of it") for i, a in enumerate(ANIMALS)], ["same", "other"] * 90),
    "number": (ANIMALS, [float(len(one)) for one in NAMES]),
    "pairs-number": ([(a, a[: i % 14]) for i, a in enumerate(ANIMALS)], [float(i % 14) for i in range(180)]),
    "embed": ([(a, a[::-1]) for a in ANIMALS], [1.0] * 180),
    "embed-score": ([(a, a[::-1]) for a in ANIMALS], [1.0] * 180),
    "tag": (SENTENCES, TAGS),
    "answer": (QUESTIONS, ANSWERS),
    "seq2seq": (ANIMALS, ANIMALS),
    "search": (ANIMALS, None),
}
ROWS |= {f"{kind}-text": ROWS[kind] for kind in ("classify", "pairs", "pairs-number", "answer")}


@pytest.mark.parametrize("kind", BASELINES)
def test_every_kind_has_baselines_that_answer_every_row_and_always_the_same(kind: str) -> None:
    X, y = ROWS[kind]
    for number, one in enumerate(baselines(kind)):
        given = one.fit(X, y).predict(X)
        assert len(given) == len(X)
        assert baselines(kind)[number].fit(X, y).predict(X) == given, one.name
        assert one.predict([]) == []


def test_no_kind_of_task_is_without_one() -> None:
    assert set(KINDS) <= set(BASELINES)
    with pytest.raises(NotFound, match="did you mean classify"):
        baseline("clasify")


@pytest.mark.mechanism("Z20")
@pytest.mark.parametrize("kind", [Logistic, Machine])
def test_words_tell_classes_and_say_which_of_them_do(kind: type[Logistic] | type[Machine]) -> None:
    one = kind().fit(ANIMALS[:90], NAMES[:90])
    assert one.predict(ANIMALS[90:]) == NAMES[90:]
    assert {name for name, _ in one.top(6)["cat"]} >= {"cat", "purrs", "cat purrs"}
    two = kind().fit(["good film", "bad film"] * 5, [1, 0] * 5)
    assert two.top(1)[1][0][0] == "good" or two.top(1)[1][0][0] == "good film"
    assert two.top(1)[0][0][1] > 0


@pytest.mark.parametrize("one", [Logistic(), Machine(), Ridge()])
def test_nothing_to_learn_from_gives_the_commonest_answer(one: Logistic | Machine | Ridge) -> None:
    assert one.fit(["a", "b", "c"], [2.0, 2.0, 2.0]).predict(["z", ""]) == [2.0, 2.0]
    assert one.fit(["", " ", "\t"], [3.0, 3.0, 3.0]).predict(["anything"]) == [3.0]
    assert len(one.fit([f"only{i}" for i in range(200)], [float(i % 2) for i in range(200)]).predict(["only1"])) == 1


def test_cleaning_is_steps_that_can_each_be_left_out() -> None:
    text = "<b>SOOOOOO ﬁne</b>&amp;  see http://a.example/b or mail me@b.example"
    assert clean(text) == "sooo fine & see webaddress or mail mailaddress"
    assert clean(text, []) == text
    for name in STEPS:
        assert clean(text, [one for one in STEPS if one != name]) != clean(text), name
    assert clean(clean(text)) == clean(text)


def test_cleaning_takes_no_longer_than_the_text() -> None:
    begun = time.perf_counter()
    for text in ("<" * 2**20, "a@" * 2**19, "http://" * 2**17, "x" * 2**20, "<script " * 2**17, "a." * 2**19):
        clean(text)
    assert time.perf_counter() - begun < 10


def test_tags_come_from_words_and_the_linear_tagger_also_from_what_is_beside_them() -> None:
    frequent, linear = FrequentTags().fit(SENTENCES, TAGS), LinearTags().fit(SENTENCES, TAGS)
    assert frequent.predict(["Anna went to Oslo on Monday ."]) == [TAGS[0].split()]
    unseen = ["Zora went to Kyiv on Sunday ."]
    assert frequent.predict(unseen)[0][3] == "O"
    assert linear.predict(unseen) == [TAGS[0].split()]
    assert [len(tags) for tags in linear.predict([[], ["Anna"]])] == [0, 1]


def test_an_answer_stands_beside_the_words_of_its_question_or_is_not_there() -> None:
    one = Overlap().fit(QUESTIONS, ANSWERS)
    assert one.predict(QUESTIONS[:3]) == ANSWERS[:3]
    always = Overlap().fit(QUESTIONS[:2], ANSWERS[:2])
    assert always.predict(QUESTIONS[2:3]) != [""]
    assert always.predict([("?", ""), ("", "One word.")]) == ["", "One word"]


def test_a_source_is_its_own_target_or_its_first_sentence_is() -> None:
    sources = ["Dr. Who left. Nobody cared.", "No end", ""]
    assert Copy().fit(sources).predict(sources) == sources
    assert Lead().predict(sources) == ["Dr. Who left.", "No end", ""]


def test_pairs_with_more_words_in_common_are_more_alike() -> None:
    one = Cosine().fit([("a red house", "a blue house"), ("some cat", "a dog")])
    same, near, far = one.predict([("a red house", "a red house"), ("a red house", "a red car"), ("cat", "house")])
    assert same == pytest.approx(1) and same > near > far == 0


def test_the_nearest_text_shares_the_rarest_words() -> None:
    pairs = [("a red house", "a house, red"), ("some cat", "a cat"), ("blue", "a house with a cat")]
    one = Nearest().fit(pairs)
    assert one.predict(pairs)[:2] == ["a house, red", "a cat"] and one.predict([]) == []


def test_bm25_is_the_formula() -> None:
    texts = ["red red house", "blue house by the sea", "sea"]
    one = Bm25().fit(texts)

    def score(held: int, tf: int, length: int) -> float:
        rare = np.log1p((3 - held + 0.5) / (held + 0.5))
        return rare * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / 3))

    assert one.scores(["red sea"])[0] == pytest.approx([score(1, 2, 3), score(2, 1, 5), score(2, 1, 1)])
    assert one.predict(["the sea", "nothing known"], count=2) == [[1, 2], [0, 1]]


def test_the_study_s_baseline_is_what_it_was() -> None:
    first, weights = fit_and_predict(ANIMALS[:90], [0, 1, 2] * 30, ANIMALS[90:])
    assert first == [0, 1, 2] * 30
    assert weights > 10
