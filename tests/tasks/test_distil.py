"""A student of a classifier: started from its teacher, taught in one call, a third of the size and nearly as right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from variorum import tasks
from variorum.errors import UsageError
from variorum.objectives.imitation import Imitating
from variorum.tasks.classify import Classifier
from variorum.tasks.distil import Distilling, distil, kept, measure, student_of
from variorum.tasks.metrics.intervals import Interval, mean_of
from variorum.tasks.registry import task
from variorum.text.corpora import sentiment


@pytest.fixture(scope="module")
def rows() -> tuple[list[str], list[str]]:
    movies, tweets = ([one for one in sentiment() if one.domain == name][:350] for name in ("movie", "tweet"))
    chosen = [one for pair in zip(movies, tweets, strict=True) for one in pair]
    return [one.text for one in chosen], [one.domain for one in chosen]


@pytest.fixture(scope="module")
def teacher(rows: tuple[list[str], list[str]]) -> Classifier:
    texts, labels = rows
    return Classifier("nano", epochs=3, learning_rate=1e-3, max_length=24, validation=0).fit(texts[:500], labels[:500])


@pytest.mark.mechanism("D2")
def test_a_student_starts_as_every_other_layer_of_its_teacher(teacher: Classifier) -> None:
    deep = teacher.model_.spec.architecture.main.depth
    student = student_of(teacher.model_, str(deep // 2))
    assert student.spec.architecture.main.depth == deep // 2
    mine, his = dict(student.named_tensors()), dict(teacher.model_.named_tensors())
    last = "encoder.layers.{}.attention.query.weight"
    assert torch.equal(mine[last.format(deep // 2 - 1)], his[last.format(deep - 1 if deep > 2 else 0)])
    assert torch.equal(mine["encoder.input.table.weight"], his["encoder.input.table.weight"])
    assert student.label_names == teacher.model_.label_names
    with pytest.raises(UsageError, match="layers"):
        student_of(teacher.model_, str(deep))


@pytest.mark.mechanism("Z11", "D1")
def test_a_student_is_an_estimator_that_saves_loads_and_is_measured_beside_its_teacher(
    teacher: Classifier, rows: tuple[list[str], list[str]], tmp_path
) -> None:
    texts, labels = rows
    before = [p.clone() for p in teacher.model_.parameters()]
    lesson = Imitating(soft=1, hard=0.5, hidden=0.5, relations=0.1)
    how = Distilling(student="1", lesson=lesson, parameters={"epochs": 2})
    student = distil(teacher, texts[:500], labels[:500], how)
    assert type(student) is Classifier and student.epochs == 2
    assert all(map(torch.equal, before, teacher.model_.parameters()))
    student.save(tmp_path / "student")
    again = tasks.load(tmp_path / "student")
    assert np.array_equal(again.predict_proba(texts[500:]), student.predict_proba(texts[500:]))
    one, other = measure({"teacher": teacher, "student": student}, texts[500:], labels[500:])
    assert one.kept["accuracy"] == Interval(1, 1, 1) and other.parameters < one.parameters and other.bytes < one.bytes
    assert other.kept["accuracy"].low <= other.kept["accuracy"].value <= other.kept["accuracy"].high
    assert other.kept["accuracy"].value > 0.85 and other.figures["accuracy"] > 0.7


def test_what_is_kept_is_a_ratio_with_an_interval_over_items() -> None:
    teacher = np.array([True] * 90 + [False] * 10)
    student = teacher.copy()
    student[:9] = False
    found = kept(mean_of(student), mean_of(teacher), 100)
    assert found.value == pytest.approx(0.9) and 0.8 < found.low < 0.9 < found.high < 0.97
    assert np.isnan(kept(mean_of(student), mean_of(np.zeros(100)), 100).value)


SENTENCES = [
    f"{name} flew to {place}".split() for name in ("Bob", "Cy", "Ada") for place in ("Rio", "Paris", "Oslo", "Ulm")
]
PAIRS = [(word, other) for word in ("one", "two", "three") for other in ("uno", "dos", "tres", "cuatro")]


@pytest.mark.mechanism("D1")
@pytest.mark.parametrize(
    ("kind", "X", "y", "first"),
    [
        ("pairs", PAIRS, ["yes" if b in ("uno", "dos") else "no" for _, b in PAIRS], "macro_f1"),
        ("number", [f"{a} {b}" for a, b in PAIRS], [500.0 + len(b) for _, b in PAIRS], "spearman"),
        ("tag", SENTENCES, [["B-PER", "O", "O", "B-LOC"]] * len(SENTENCES), "f1"),
        ("answer", [("where to ?", " ".join(one)) for one in SENTENCES], [one[-1] for one in SENTENCES], "f1"),
        ("classify", [f"{a} {b}" for a, b in PAIRS], [f"{a};{b}" for a, b in PAIRS], "macro_f1"),
        ("embed", [("one two", "uno dos"), ("two three", "dos tres"), ("three", "tres")] * 2, None, "recall_at_1"),
        ("embed-score", PAIRS, [float(len(b)) for _, b in PAIRS], "spearman"),
    ],
)
def test_a_student_of_any_kind_says_what_its_teacher_says(kind: str, X: list, y: list | None, first: str) -> None:
    """Taught by the teacher alone, on answers that nobody would learn to agree with."""
    # Of several labels each is said or not: a teacher who read little is as good as undecided about all of them.
    own, readings = ({"separator": ";"}, 40) if kind == "classify" else ({}, 10)
    quick = {"learning_rate": 3e-3, "batch_size": 12, "max_length": 24, "validation": 0}
    teacher = task(kind)("nano", epochs=readings, **quick, **own).fit(X, y)
    wrong = {"pairs": ["yes"] * len(X), "answer": ["flew"] * len(X)}.get(kind, y and y[::-1])
    how = Distilling(student="1", lesson=Imitating(hard=0), parameters={"epochs": 3 * readings})
    student = distil(teacher, X, wrong, how)
    assert student.model_.spec.architecture.main.depth == 1
    assert student.learned() == teacher.learned()
    alike = student.figures(student.replies(X), teacher.replies(X))
    assert next(iter(alike)) == first
    assert alike[first](np.ones((1, len(X)), dtype=int))[0] > 0.9


def test_a_label_that_the_teacher_does_not_know_is_refused(teacher: Classifier) -> None:
    with pytest.raises(UsageError, match="the label 'book' is not known; known: movie, tweet"):
        distil(teacher, ["a", "b"], ["movie", "book"], Distilling(student="1"))


def test_there_must_be_something_to_measure_on(teacher: Classifier) -> None:
    with pytest.raises(UsageError, match="nothing to measure on"):
        measure({"teacher": teacher}, [], [])
