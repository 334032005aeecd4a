"""Ways to come to an answer: each learns, answers, and answers alike in a process of its own, which is measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from variorum.errors import NotFound, RunFailed, UsageError
from variorum.study import answering, jobs, ways
from variorum.study.lesson import Lesson
from variorum.study.ways import WAYS
from variorum.tasks.start import Wanted, start

WORDS = {"sea": ["wave", "salt", "ship", "tide"], "sky": ["wing", "star", "cloud", "wind"]}
TEXTS = [f"{words[i % 4]} {words[(i + 1) % 4]} {words[(i + 2) % 4]}" for i in range(24) for words in WORDS.values()]
LESSON = Lesson(
    kind="classify", model="nano", X=TEXTS, y=[i % 2 for i in range(48)], classes=tuple(WORDS),
    how={"epochs": 4, "learning_rate": 2e-3, "max_length": 16},
)  # fmt: skip


def test_an_arm_is_said_as_a_way_and_a_model():
    assert ways.read("head:nano:roberta") == ("head", "nano:roberta")
    assert ways.read("prompt:smollm2.gguf") == ("prompt", "smollm2.gguf")
    assert ways.read("nano:roberta") == ("tune", "nano:roberta")
    assert ways.read("org/name") == ("tune", "org/name")


def test_each_way_learns_and_is_recalled_alike(tmp_path: Path):
    for word in ("baseline", "tune", "head"):
        learned = WAYS[word].learn(LESSON)
        assert learned.steps == WAYS[word].steps(48, LESSON.how) and learned.seconds > 0
        answers = learned.answer(TEXTS)
        assert json.loads(json.dumps(answers)) == answers
        (folder := tmp_path / word).mkdir()
        assert learned.keep(folder) > 0
        assert WAYS[word].recall(folder)(TEXTS[:6]) == answers[:6]
        if word != "head":
            assert answers == LESSON.y
        assert (learned.flops(TEXTS) is None) == (word == "baseline")


def test_a_frozen_body_stays_as_it_was():
    from variorum.study.ways import _Estimated

    learned = WAYS["head"].learn(LESSON)
    assert isinstance(learned, _Estimated) and learned.estimator.history_.learned < learned.parameters / 20


@pytest.mark.mechanism("Z11")
def test_a_student_has_half_the_layers_and_answers_for_itself(tmp_path: Path):
    teacher = WAYS["tune"].learn(LESSON)
    for word in ("distil", "distil-soft", "distil-hard"):
        steps: list[int] = []
        student = WAYS[word].learn(LESSON, jobs._Counted(steps.append))
        assert steps == list(range(1, student.steps + 1)), "one count for the teacher's steps and its own"
        assert student.steps == WAYS[word].steps(48, LESSON.how) == 2 * teacher.steps
        assert student.flops(TEXTS) < 0.6 * teacher.flops(TEXTS) and student.parameters < teacher.parameters
        answers = student.answer(TEXTS)
        assert sum(a == b for a, b in zip(answers, LESSON.y, strict=True)) > 40
        (folder := tmp_path / word).mkdir()
        student.keep(folder)
        assert WAYS[word].recall(folder)(TEXTS[:6]) == answers[:6]
    with pytest.raises(UsageError, match="no student is taught 'seq2seq'"):
        WAYS["distil"].check("seq2seq")


@pytest.mark.mechanism("Z18")
def test_an_encoder_decoder_writes_the_label(tmp_path: Path):
    how = {**LESSON.how, "epochs": 6, "learning_rate": 3e-3}
    written = WAYS["text"].learn(dataclasses.replace(LESSON, model="nano:t5", how=how))
    answers = written.answer(TEXTS)
    assert sum(a == b for a, b in zip(answers, LESSON.y, strict=True)) > 40
    written.keep(tmp_path)
    assert WAYS["text"].recall(tmp_path)(TEXTS[:6]) == answers[:6]
    with pytest.raises(UsageError, match="names labels"):
        WAYS["text"].check("number")


def test_a_model_made_by_pretrain_is_found_in_its_run(tmp_path: Path):
    (tmp_path / "run.json").write_text("{}")
    assert ways.place(str(tmp_path)) == str(tmp_path)
    (tmp_path / "model").mkdir()
    assert ways.place(str(tmp_path)) == tmp_path / "model"


def test_a_writer_is_asked_and_learns_nothing(tmp_path: Path):
    model = start("nano:gpt2", Wanted(head="causal_lm"), [*TEXTS, "Classify the text. Possible labels Label Text"])
    model.save(tmp_path / "writer")
    learned = WAYS["prompt"].learn(dataclasses.replace(LESSON, model=str(tmp_path / "writer")))
    answers = learned.answer(TEXTS[:5])
    assert set(answers) <= {0, 1} and learned.seconds == 0
    assert learned.answer([(TEXTS[0], TEXTS[1])]) == learned.answer([f"{TEXTS[0]}\n{TEXTS[1]}"])
    (kept := tmp_path / "kept").mkdir()
    assert learned.keep(kept) > 4 * learned.parameters
    assert WAYS["prompt"].recall(kept)(TEXTS[:5]) == answers
    with pytest.raises(UsageError, match="names labels"):
        WAYS["prompt"].check("number")


def test_what_an_answer_costs_is_measured_in_a_process_of_its_own():
    learned = WAYS["baseline"].learn(LESSON)
    found, height = answering.measure(learned, "baseline", TEXTS[:5], TEXTS)
    assert 0 < found["latency"] <= found["latency_95"] < 5 and found["throughput"] > 1
    assert 10**7 < found["memory"] <= height < 10**9 and found["disk"] > 8 * learned.parameters
    with pytest.raises(RunFailed, match="measuring its answers failed"):
        answering.measure(learned, "none", TEXTS[:1], TEXTS[:1])


def test_a_spec_is_known_before_its_weights_are_read(tmp_path: Path):
    assert ways.spec_of("nano:roberta").architecture.width == 128
    with pytest.raises(NotFound):
        ways.spec_of(str(tmp_path / "none"))
