"""A bake-off: rows held out by document, arms beside the baseline, and a report of what they are worth and cost."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study import written
from tests.tools.command import refused, variorum
from variorum.errors import NotFound, UsageError
from variorum.study import jobs
from variorum.study.analysis import analyse
from variorum.study.cells import CellResult
from variorum.study.labelled import Asked, Wanted, declare, shipped, table
from variorum.study.run import by_arm

SMALL = ("--seeds", "2", "--epochs", "1", "--max-length", "16")


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, path = shipped(train=700, test=200), tmp_path_factory.mktemp("rows") / "snippets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "document"))
        labels = (*rows.train_labels, *rows.test_labels)
        for i, (text, label) in enumerate(zip((*rows.train, *rows.test), labels, strict=True)):
            writer.writerow((text, rows.classes[label], f"d{i // 2}"))
    return path


def test_documents_and_texts_fall_on_one_side(snippets: Path):
    asked = Asked(data=str(snippets), document="document")
    rows = table(asked)
    assert not set(rows.train) & set(rows.test)
    assert len(rows.train) + len(rows.test) + rows.dropped == 900
    assert 0.1 < len(rows.test) / 900 < 0.3
    assert sorted(set(rows.groups)) == list(range(max(rows.groups) + 1))
    assert rows == table(asked)


def test_every_two_arms_meet_and_only_the_first_seed_is_costed(snippets: Path, tmp_path: Path):
    rows = table(Asked(data=str(snippets)))
    wanted = Wanted(models=("nano", "frozen: head:nano:roberta"), seeds=3)
    declared = declare(wanted, rows, tmp_path, keep=False)
    [study] = declared.studies
    assert [arm.title for arm in study.arms] == ["TF-IDF", "nano", "frozen"]
    assert [(c.better, c.worse) for c in study.claims] == [
        ("model1", "model2"), ("model1", "baseline"), ("model2", "baseline"),
    ]  # fmt: skip
    assert "frozen" in study.arms[2].note and any("positions" in one.place for one in study.arms[2].apparatus)
    assert len(declared.cells) == 1 + 2 * 3 and len({cell.data for cell in declared.cells}) == 1
    assert {(cell.seed, cell.work["priced"]) for cell in declared.cells} == {(0, 40), (1, 0), (2, 0)}
    assert study.looks == (3,) and declare(Wanted(models=("nano",)), rows, tmp_path).studies[0].looks == (5, 8, 12)


def test_rows_of_other_tasks_are_judged_by_their_own_figures(tmp_path: Path):
    pairs = table(Asked(data=str(written.pairs(tmp_path / "pairs.csv")), kind="pairs"))
    assert pairs.classes == ("other", "same") and len(pairs.train[0]) == 2
    tags = table(Asked(data=str(written.tags(tmp_path / "tags.csv")), kind="tag"))
    assert tags.judge.metric.name == "F1 of spans" and tags.classes == ()
    numbers = table(Asked(data=str(written.numbers(tmp_path / "numbers.csv")), kind="number", names={"score": "many"}))
    assert numbers.judge.metric.name == "rank correlation" and 0 <= min(numbers.train_labels) < 5


@pytest.mark.parametrize(
    ("kind", "write", "models", "name"),
    [
        ("answer", written.questions, ("nano", "head:nano"), "F1 of words"),
        ("seq2seq", written.rewritten, ("nano:t5",), "chrF"),
        ("embed", written.partners, ("nano",), "recall at 1"),
        ("embed-score", written.alike, ("nano",), "rank correlation"),
    ],
)
def test_answers_texts_and_likeness_are_judged_too(
    kind: str, write: Callable[[Path], Path], models: tuple[str, ...], name: str, tmp_path: Path
):
    rows = table(Asked(data=str(write(tmp_path / "rows.csv")), kind=kind))
    if kind in ("answer", "embed"):
        assert not {row[1] for row in rows.train} & {row[1] for row in rows.test}
    how = Wanted(models=models, seeds=2, epochs=1, learning_rate=1e-3, max_length=32)
    declared = declare(how, rows, tmp_path / "study")
    [study] = declared.studies
    assert study.metric.name == name
    results = {}
    for cell in declared.cells:
        found = jobs.arm_cell(report=lambda done: None, **{**cell.work, "priced": 3 if cell.arm == "model1" else 0})
        assert len(found.items) == len(rows.test) == len(json.loads(json.dumps(found.items)))
        results[cell.key] = found
    outcome = analyse(study, by_arm(study, declared.cells, results), rows.truth)
    assert len(outcome.judgements) == len(study.claims) and outcome.figures[0].mean > 0.2
    assert results[declared.cells[1].key].facts["costs"]["flops"] > 10**5


def test_what_makes_no_bake_off_is_refused(snippets: Path, tmp_path: Path):
    rows = table(Asked(data=str(snippets)))
    for wanted in (Wanted(models=()), Wanted(models=("nano", "nano")), Wanted(models=("nano",), seeds=1)):
        with pytest.raises(UsageError):
            declare(wanted, rows, tmp_path)
    with pytest.raises(NotFound):
        declare(Wanted(models=(str(tmp_path / "nothing"),)), rows, tmp_path)
    tags = table(Asked(data=str(written.tags(tmp_path / "tags.csv")), kind="tag"))
    with pytest.raises(UsageError, match="names labels"):
        declare(Wanted(models=("prompt:nano:gpt2",)), tags, tmp_path)
    few = tmp_path / "few.csv"
    few.write_text("text,label\n" + "".join(f"a{i},{i % 2}\n" for i in range(50)), "utf-8")
    with pytest.raises(UsageError, match="some 100 rows"):
        table(Asked(data=str(few)))


def test_the_command_reports_scores_and_costs(tmp_path: Path):
    data = written.tags(tmp_path / "tags.csv")
    words = ("study", "bakeoff", str(data), "--task", "tag", "--models", "nano", *SMALL, "--workers", "1")
    variorum(*words, "--out", str(tmp_path), timeout=600)
    found = json.loads((tmp_path / "result.json").read_text("utf-8"))
    [study] = found["studies"]
    assert [arm["name"] for arm in study["arms"]] == ["baseline", "model1"]
    assert study["claims"][0]["verdict"] == "exploratory"
    baseline, model = study["arms"]
    assert baseline["mean"] > 0.9 and "PER" in baseline["by_class"]
    for costs in (baseline["costs"], model["costs"]):
        assert 0 < costs["latency"] <= costs["latency_95"] < 10
        assert costs["throughput"] > 1 and costs["memory"] > 10**7 and costs["disk"] > 100
    assert model["costs"]["flops"] > 10**6 and model["costs"]["disk"] > 4 * 800_000
    assert baseline["front"] == ["latency", "memory"]
    assert study["errors"]["missed"]["model1"] > 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "linear tagger" in page and "Learning curves" not in page and page.count('class="ring') >= 2


def test_mistakes_are_one_line(tmp_path: Path):
    out = ("--out", str(tmp_path))
    assert "no such file" in refused("study", "bakeoff", "none.csv", "--models", "nano", *out, code=3).lower()


def test_each_arm_keeps_the_rate_that_suits_it(tmp_path: Path):
    rows = table(Asked(data=str(written.texts(tmp_path / "texts.csv"))))
    wanted = Wanted(models=("nano", "other: nano:roberta"), seeds=3, rates=(1e-3, 1e-5))
    declared = declare(wanted, rows, tmp_path, keep=False)
    assert declared.trials is not None
    trials = declared.trials.cells
    assert [(cell.arm, cell.work["lesson"].how["learning_rate"]) for cell in trials] == [
        ("model1", 1e-3), ("model1", 1e-5), ("model2", 1e-3), ("model2", 1e-5),
    ]  # fmt: skip
    for cell in trials:  # on training rows alone
        lesson, test = cell.work["lesson"], cell.work["test"]
        assert {*lesson.X} | {*test} == {*rows.train} and not {*lesson.X} & {*test} and cell.seed > 10**6
    plain = CellResult(items=(), curve=(), losses=(), facts={})
    scores = dict(zip((cell.key for cell in trials), (0.4, 0.9, 0.8, 0.3), strict=True))
    found = declared.trials.decide({key: replace(plain, items=(score,)) for key, score in scores.items()})
    rates = {(cell.arm, cell.work["lesson"].how["learning_rate"]) for cell in found.cells if cell.arm != "baseline"}
    assert rates == {("model1", 1e-5), ("model2", 1e-3)}
    assert "nano 1e-05; other 0.001" in found.studies[0].unequal[-1]
    with pytest.raises(UsageError, match="rates are several"):
        Wanted(models=("nano",), rates=(1e-3,))


def test_a_trial_has_the_figure_of_its_rows(tmp_path: Path):
    rows = table(Asked(data=str(written.texts(tmp_path / "texts.csv"))))
    wanted = Wanted(models=("nano",), seeds=3, rates=(2e-3, 1e-6), epochs=2, max_length=16)
    trials = declare(wanted, rows, tmp_path, keep=False).trials
    assert trials is not None
    good, idle = (jobs.rated_cell(report=lambda done: None, **cell.work).items for cell in trials.cells)
    assert len(good) == 1 and good[0] > 0.9 > idle[0]
