"""Verdicts on trained models: an arm and its namesake, and arms that learn from spoilt data."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from variorum.study import planted, prepare
from variorum.study.session import Limits
from variorum.study.statistics import Claim, Judgement

FOUR = {"supported": 4.0, "refuted": -4.0, "undecided": 0.1}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> tuple[planted.Task, planted.Task]:
    folder = tmp_path_factory.mktemp("data")
    return planted._snippets(folder), planted._novels(folder)


def test_namesakes_share_no_draw_and_spoilt_arms_share_them_all(tasks):
    trials = list(planted._trials(tasks, 8))
    draws = {"whole": [], "other": []}
    for trial in trials[:8]:
        for cell in trial.cells:
            draws[cell.arm].append((trial.task.name, cell.work["seed"]))
    assert len({*draws["whole"], *draws["other"]}) == 2 * 8 * planted.SAME
    for trial in trials[8:]:
        whole, other = ([cell for cell in trial.cells if cell.arm == arm] for arm in ("whole", "other"))
        assert [cell.work["seed"] for cell in whole] == [cell.work["seed"] for cell in other]
        assert {cell.data for cell in whole}.isdisjoint(cell.data for cell in other)
    assert [trial.kind for trial in trials[8:]] == [
        "labels shuffled", "a quarter of the rows", "positions shuffled", "labels shuffled",
    ]  # fmt: skip


def test_spoilt_data_hold_the_rows_that_they_say(tasks):
    snippets, novels = tasks
    whole, shuffled, quarter = (prepare.read(data) for data, _ in snippets.data.values())
    assert sorted(whole["train_labels"]) == sorted(shuffled["train_labels"])
    assert (whole["train_labels"] != shuffled["train_labels"]).mean() > 0.5
    assert len(quarter["train_labels"]) == planted.SNIPPETS / 4
    assert (quarter["train_ids"][: quarter["train_ends"][0]] == whole["train_ids"][: whole["train_ends"][0]]).all()
    assert quarter["train_ends"][-1] == len(quarter["train_ids"])
    text, mixed = (prepare.read(data)["train"] for data, _ in novels.data.values())
    assert (np.sort(text, 1) == np.sort(mixed, 1)).all() and (text != mixed).mean() > 0.9


def _judgement(verdict: str) -> Judgement:
    claim = Claim(name="whole beats other", better="whole", worse="other", metric="loss")
    gain = FOUR[verdict]
    return Judgement(
        claim=claim, verdict=verdict, gain=gain, low=gain - 1, high=gain + 1, alpha=0.05, seeds=5, items=9,
        detectable=1.0, seeds_to_decide=None, by_seed=(gain,) * 5,
    )  # fmt: skip


@pytest.mark.parametrize(("false", "missed", "honest"), [(5, 2, True), (6, 2, False), (5, 3, False)])
def test_five_of_forty_may_be_false_and_two_of_twenty_missed(false: int, missed: int, honest: bool):
    same = [(planted.AA, _judgement("refuted" if i < false else "undecided")) for i in range(40)]
    small = dataclasses.replace(_judgement("undecided"), gain=3.0)
    worse = [("labels shuffled", small if i < missed else _judgement("supported")) for i in range(20)]
    found = {one.kind: one for one in planted._counted(same + worse)}
    assert found[planted.AA].verdicts == false and found["all planted effects"].verdicts == 20 - missed
    assert (found[planted.AA].honest and found["all planted effects"].honest) is honest


def test_a_planted_effect_must_be_thrice_what_the_study_detects():
    tiny = dataclasses.replace(_judgement("supported"), gain=2.9)
    assert not planted._planted("labels shuffled", [_judgement("supported"), tiny], 1.0).honest


@pytest.mark.nightly
def test_trained_models_get_honest_verdicts(tmp_path: Path):
    found = planted.run(tmp_path, studies=4, limits=Limits(), notes=io.StringIO())
    assert [one.kind for one in found][-1] == planted.AGAIN and found[-1].honest
    assert {one.kind: one.verdicts for one in found}["all planted effects"] == 2
