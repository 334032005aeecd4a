"""What is found out before a study is fixed: steps of a time, kept for good; the rate that suits each arm."""

from __future__ import annotations

import dataclasses
import io
import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.study import fakes
from variorum.errors import RunFailed, UsageError
from variorum.study.asked import asked
from variorum.study.budgets import budget_of
from variorum.study.cells import CellResult
from variorum.study.pretraining import Wanted, declare
from variorum.study.session import Declared, Limits, run
from variorum.study.settling import OWN_SEED, PACES
from variorum.training.session import both, within_training
from variorum.training.shards import Corpus

ONE = Limits(workers=1)
TINY = {"arms": ["gpt2", "llama"], "seeds": 2, "vocab": 300, "training": {"batch": 2, "length": 16}}


def _wanted(folder: Path, **more: object) -> Wanted:
    data = fakes.texts(folder / "texts") if not (folder / "texts").exists() else folder / "texts"
    return asked({**TINY, "data": [str(data)], **more}, where="here").wanted()


def quiet(text: str) -> None:
    del text


def _result(score: float) -> CellResult:
    return CellResult(items=(score,), curve=(), losses=(), facts={})


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Declared:
    folder = tmp_path_factory.mktemp("tried")
    wanted = _wanted(folder, budget="40steps", rates=[3e-4, 1e-3, 3e-3])
    return declare(wanted, folder, limits=ONE, say=quiet)


def test_a_time_becomes_steps_once(tmp_path: Path):
    wanted = _wanted(tmp_path, budget="0.3s")
    first = declare(wanted, tmp_path, limits=ONE, say=quiet)
    [study] = first.studies
    steps = {cell.arm: cell.steps for cell in first.cells}
    assert all(6 <= count < 500 for count in steps.values()) and set(first.measured) == {
        ("pretraining", arm) for arm in steps
    }
    assert study.budget.startswith("0.3s: ")
    noted = dict.fromkeys(json.loads((tmp_path / PACES).read_text()), 0.01)
    (tmp_path / PACES).write_text(json.dumps(noted))
    again = declare(dataclasses.replace(wanted, seeds=3), tmp_path, limits=ONE, say=quiet)  # extended, say
    assert {cell.steps for cell in again.cells} == {30} and not again.measured
    assert len(again.cells) == 6 and again.studies[0].looks == study.looks
    with pytest.raises(UsageError, match="the budget is 3 steps"):
        declare(_wanted(tmp_path, budget="0.03s"), tmp_path, limits=ONE, say=quiet)


def test_an_arm_that_cannot_be_timed_ends_the_study_with_its_cause(tmp_path: Path):
    wanted = _wanted(tmp_path, budget="1s", training={"batch": 2, "length": 16, "rate": 1e30})
    with pytest.raises(RunFailed, match="first steps failed"):
        declare(wanted, tmp_path, limits=ONE, say=quiet)


@pytest.mark.parametrize(
    ("told", "unit", "amount"), [("90s", "seconds", 90), ("2min", "seconds", 120), ("1.5Gflops", "flops", 1.5e9)]
)
def test_budgets_are_times_and_operations_too(told: str, unit: str, amount: float):
    found = budget_of(told)
    assert (found.unit, found.amount, str(found)) == (unit, amount, told)


def test_every_arm_tries_every_rate_on_training_texts_with_a_seed_of_its_own(tried: Declared):
    assert tried.trials is not None
    cells = tried.trials.cells
    assert {(cell.arm, cell.work["plan"].settled.rate) for cell in cells} == {
        (arm, rate) for arm in ("gpt2", "llama") for rate in (3e-4, 1e-3, 3e-3)
    }
    assert {cell.steps for cell in cells} == {8} and {cell.work["plan"].seed for cell in cells} == {OWN_SEED}
    assert OWN_SEED not in tried.studies[0].seeds
    folder = cells[0].work["folder"]
    (train, held), (texts, apart) = within_training(folder), both(folder)
    assert train.documents + held.documents == texts.documents and train.tokens + held.tokens == texts.tokens
    assert held.documents == round(texts.documents / 10)

    assert _documents(train) | _documents(held) == _documents(texts)
    assert not _documents(train) & _documents(held) and not _documents(texts) & _documents(apart)


def _documents(corpus: Corpus) -> set[tuple[int, ...]]:
    return {tuple(corpus.ids(start, end).tolist()) for start, end in pairwise(corpus.document_tokens.tolist())}


def test_each_arm_is_trained_at_the_rate_of_its_best_trial(tried: Declared):
    assert tried.trials is not None
    best = {"gpt2": 1e-3, "llama": 3e-3}
    results = {
        cell.key: _result(2.0 if cell.work["plan"].settled.rate == best[cell.arm] else 3.0)
        for cell in tried.trials.cells
    }
    del results[next(cell.key for cell in tried.trials.cells if cell.apart == "at rate 0.0003")]  # it diverged
    decided = tried.trials.decide(results)
    assert decided.trials is None
    assert {(cell.arm, cell.work["plan"].settled.rate) for cell in decided.cells} == set(best.items())
    [line] = [line for line in decided.studies[0].unequal if line.startswith("the learning rate")]
    assert "gpt2 0.001 (0.0003: failed, 0.001: 2.000, 0.003: 3.000)" in line
    assert "llama 0.003 (0.0003: 3.000, 0.001: 3.000, 0.003: 2.000, at the end of the grid)" in line
    with pytest.raises(RunFailed, match="every trial"):
        tried.trials.decide({})


def test_trials_are_in_the_plan_and_computed_once(tmp_path: Path):
    wanted = _wanted(tmp_path, budget="6steps", rates=[1e-4, 1e-3, 1e30])
    notes = io.StringIO()
    found = run(declare(wanted, tmp_path, limits=ONE, say=quiet), stream=notes)
    assert "6 trials and 4 cells to compute" in notes.getvalue() and len(found.plan.untried) == 6
    assert notes.getvalue().count("at rate 1e+30: diverged") == 2 and not found.failures
    picks = {cell.work["plan"].settled.rate for cell in found.declared.cells}
    assert picks == {1e-3}  # in six steps the larger one goes further
    pinned = json.loads((tmp_path / "manifest.json").read_text())["studies"][0]
    assert [arm["work"]["plan"]["settled"]["rate"] for arm in pinned["arms"]] == [1e-3, 1e-3]
    assert any("0.0001: " in line and "1e+30: failed" in line for line in pinned["unequal"])
    again = run(declare(wanted, tmp_path, limits=ONE, say=quiet), stream=io.StringIO())
    assert not again.plan.pending and not again.plan.trials
    assert again.outcomes[0].figures == found.outcomes[0].figures


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"rates": [1e-3, 3e-3], "training": {"rate": 1e-3}}, "one rate is given"),
        ({"rates": [1e-3]}, "rates are several"),
        ({"rates": [1e-3, 1e-3]}, "rates are several"),
        ({"rates": [1e-3, -1.0]}, "rates are several"),
    ],
)
def test_rates_that_make_no_grid_are_refused(told: dict[str, object], said: str, tmp_path: Path):
    with pytest.raises(UsageError, match=said):
        _wanted(tmp_path, **told)
