"""Tasks are put as text by templates, learned as text, and answered by one of the labels or freely."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from tests.tasks import writers
from variorum import tasks
from variorum.errors import UsageError
from variorum.tasks.text_to_text import (
    OFF_LABEL,
    TextAnswerer,
    TextClassifier,
    TextPairClassifier,
    TextPairRegressor,
    TextToText,
    pattern,
    train_together,
)

GOOD, BAD = (
    ["a fine day", "good and kind", "a kind word", "fine and good"],
    ["a poor day", "bad and cold", "a cold word"],
)
X, Y = (GOOD + BAD) * 5, (["yes"] * 4 + ["no"] * 3) * 5
PAIRS = [("a day", "a day"), ("cold", "cold"), ("so", "so"), ("a day", "good"), ("word", "bad"), ("so", "kind")] * 5
SCORES = [5.0, 4.9, 5.0, 1.0, 1.2, 1.1] * 5
ANSWERS = [("what day?", "it was a cold day"), ("what word?", "it was a kind word")] * 8
WORDS = [*X, *Y, *(text for pair in PAIRS + ANSWERS for text in pair), "0123456789.", "equal different"]
HOW = {**writers.HOW, "validation": 0.0}


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = [*WORDS, "sst2 sentence: mrpc sentence1: sentence2: stsb", "question: context: text1: text2:"]
    return writers.t5(tmp_path_factory.mktemp("text") / "t5", words)


@pytest.fixture(scope="module")
def classifier(t5: str) -> TextClassifier:
    return TextClassifier(model=t5, template="sst2", **HOW).fit(X, Y)


def falls(task: TextToText) -> bool:
    """Whether it learned most of what there was to learn."""
    losses = [epoch.loss for epoch in task.history_.epochs]
    return losses[-1] < 0.5 * losses[0]


@pytest.mark.mechanism("H4", "I2")
def test_templates_are_those_of_t5_or_a_sentence() -> None:
    assert pattern("mnli", ("text1", "text2")) == "mnli hypothesis: {text1} premise: {text2}"
    assert pattern("cola", ("text",)) == "cola sentence: {text}"
    assert pattern("is {text} spam?", ("text",)) == "is {text} spam?"
    task = TextPairClassifier(template="stsb")
    assert task.asked([("a {b}", "c\\1")]) == ["stsb sentence1: a {b} sentence2: c\\1"]
    assert TextPairClassifier().asked([("a", "b")]) == ["text1: a text2: b"]
    assert TextAnswerer().asked([("who?", "she did")]) == ["question: who? context: she did"]
    for wrong in ("no column", "{text} and {more}", "mnli"):
        with pytest.raises(UsageError, match="names"):
            pattern(wrong, ("text",))


@pytest.mark.mechanism("H4")
def test_labels_are_scored_token_by_token_and_the_likeliest_is_taken(classifier: TextClassifier) -> None:
    assert falls(classifier)
    shares = classifier.predict_proba(X[:7])
    assert shares.sum(1) == pytest.approx(np.ones(7))
    model, tokenizer = classifier.model_, classifier.model_.tokenizer
    for row, text in enumerate(X[:7]):
        ids = torch.tensor([tokenizer.encode(f"sst2 sentence: {text}").ids])
        likely = []
        for label in ("no", "yes"):
            labels = torch.tensor([tokenizer.encode(label).ids])
            with torch.no_grad():
                likely.append(-float(model(ids, labels=labels).loss) * labels.shape[1])
        right = np.exp(likely) / np.exp(likely).sum()
        assert shares[row] == pytest.approx(right, abs=1e-4)
    assert list(classifier.predict(X[:7])) == [("no", "yes")[share] for share in shares.argmax(1)]
    answers = classifier.answers(X[:7])
    assert [one["confidence"] for one in answers] == pytest.approx(list(shares.max(1)))
    assert classifier.evaluate(X, classifier.predict(X))["accuracy"] == 1


@pytest.mark.mechanism("H4")
def test_a_small_one_made_from_nothing_tells_praise_from_blame(tmp_path: Path) -> None:
    """In sentences that it never saw; with values too small to start from it gives one label for all."""
    said = {
        "praise": "fine good kind warm bright happy sweet calm",
        "blame": "poor bad cruel cold dark sad bitter wild",
    }
    of = ["it was a {} {}", "she had a {} {} then", "what a {} {}, he said", "the {} {} of the evening"]
    things = ["day", "word", "man", "house", "letter", "walk", "dinner", "dance", "voice", "garden"]
    rows = [(form.format(word, thing), label) for label, words in said.items() for word in words.split()
            for thing in things for form in of]  # fmt: skip
    random.Random(0).shuffle(rows)
    (seen, labels), (unseen, right) = (tuple(zip(*part, strict=True)) for part in (rows[:320], rows[320:400]))
    how = {"epochs": 5, "batch_size": 16, "learning_rate": 0.003, "validation": 0.0, "template": "{text}"}
    task = TextClassifier(model=writers.t5(tmp_path / "t5", [*seen, *said]), **how).fit(seen, labels)
    assert task.evaluate(unseen, right)["accuracy"] > 0.9
    task.decoding = "free"
    found = task.evaluate(unseen, right)
    assert found["accuracy"] > 0.9 and found["off_label"] < 4


def test_what_is_written_freely_and_is_no_label_is_counted(
    classifier: TextClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = TextClassifier(**{**classifier.get_params(), "decoding": "free"})
    free.model_, free.classes_ = classifier.model_, classifier.classes_
    monkeypatch.setattr(free, "write", lambda asked: [" Yes", "NO", "perhaps", ""][: len(asked)])
    assert list(free.predict(X[:4])) == ["yes", "no", OFF_LABEL, OFF_LABEL]
    assert free.answers(X[:1]) == [{"label": "yes"}]
    found = free.evaluate(X[:4], ["yes", "no", "no", "yes"])
    assert (found["off_label"], found["accuracy"]) == (2, 0.5)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)


@pytest.mark.mechanism("H4")
def test_numbers_are_written_in_steps(t5: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TextPairRegressor(model=t5, template="stsb", **HOW).fit(PAIRS, SCORES)
    assert falls(task)
    assert task.told([2.57, 5.0, 1.29]) == ["2.6", "5.0", "1.2"]
    assert task.limits_ == (1.0, 5.0)
    assert task._names == [f"{1 + step / 5:.1f}" for step in range(21)]
    scores = task.scores(PAIRS[:6], task._names)
    assert list(task.predict(PAIRS[:6])) == [float(task._names[at]) for at in scores.argmax(1)]
    right = np.mean((task.predict(PAIRS) - SCORES) ** 2)
    assert task.evaluate(PAIRS, SCORES)["mean_square"] == pytest.approx(right)
    free = TextPairRegressor(**{**task.get_params(), "decoding": "free"})
    free.model_, free.limits_ = task.model_, task.limits_
    monkeypatch.setattr(free, "write", lambda asked: ["2.6", "none", "9.0", "-1"][: len(asked)])
    assert list(free.predict(PAIRS[:4])) == [2.6, 3.0, 5.0, 1.0]
    assert free.evaluate(PAIRS[:4], SCORES[:4])["off_label"] == 1


def test_what_is_saved_answers_the_same_here_and_in_transformers(classifier: TextClassifier, tmp_path: Path) -> None:
    classifier.save(tmp_path / "model")
    other = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "model").eval()
    tokenizer, scores = classifier.model_.tokenizer, np.zeros((7, 2))
    for row, text in enumerate(X[:7]):
        for column, label in enumerate(("no", "yes")):
            ids, labels = (torch.tensor([tokenizer.encode(one).ids]) for one in (f"sst2 sentence: {text}", label))
            with torch.no_grad():
                scores[row, column] = -float(other(ids, labels=labels).loss.double()) * labels.shape[1]
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert classifier.predict_proba(X[:7]) == pytest.approx(shares, abs=1e-6)
    again = tasks.load(tmp_path / "model")
    assert isinstance(again, TextClassifier)
    assert again.predict_proba(X) == pytest.approx(classifier.predict_proba(X), abs=1e-6)
    assert list(again.classes_) == ["no", "yes"]


def test_an_answer_is_written_and_judged_as_squads_are(t5: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TextAnswerer(model=t5, **HOW).fit(ANSWERS, ["cold", "kind"] * 8)
    assert falls(task)
    monkeypatch.setattr(task, "write", lambda asked: ["the cold!", "very kind"])
    found = task.evaluate(ANSWERS[:2], ["Cold", "kind"])
    assert (found["exact"], found["f1"]) == (0.5, pytest.approx((1 + 2 / 3) / 2))
    counts = np.array([[2, 0], [0, 2], [1, 1]])
    assert task.figures(task.predict(ANSWERS[:2]), ["Cold", "kind"])["f1"](counts) == pytest.approx([1, 2 / 3, 5 / 6])


@pytest.mark.mechanism("O11")
def test_several_tasks_train_one_model_together(t5: str) -> None:
    first = TextClassifier(model=t5, template="sst2", **HOW)
    second = TextPairClassifier(template="mrpc")
    same = ["equal" if a == b else "different" for a, b in PAIRS]
    train_together({"mood": first, "same": second}, {"mood": (X, Y), "same": (PAIRS, same)})
    assert first.model_ is second.model_
    assert falls(first)
    assert set(first.predict(X)) <= {"yes", "no"}
    assert set(second.predict(PAIRS)) <= {"equal", "different"}
    assert first.history_.examples == pytest.approx(len(X) + len(PAIRS), abs=2)
    with pytest.raises(UsageError, match="rows for each"):
        train_together({"mood": first}, {"same": (PAIRS, same)})
