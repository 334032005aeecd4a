"""Verdicts are false no more often than they say, and intervals hold the truth as often."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from variorum.study import honesty
from variorum.study.honesty import Setting, settings, simulate
from variorum.tasks.metrics import paired


def test_every_kind_of_study_is_simulated():
    kinds = list(settings())
    assert len(kinds) == len(set(kinds)) == 2 * 3 * 4 * 2 * 2
    assert Setting(5, "seed", "macro-F1", 4, 3).counts == (5, 8, 12)


@pytest.mark.parametrize("items", ["normal", "heavy-tailed", "right or wrong", "macro-F1"])
@pytest.mark.parametrize("dominant", ["seed", "item", "residual"])
def test_verdicts_of_studies_with_nothing_to_find_are_rare(dominant, items):
    found = simulate(Setting(3, dominant, items, 4, 3), studies=400)
    assert found.honest, found


def test_a_level_that_is_not_shared_out_is_found_dishonest(monkeypatch):
    monkeypatch.setattr(honesty, "corrected_alpha", lambda **_: 0.05)
    assert not simulate(Setting(5, "seed", "normal", 4, 3), studies=400).honest


def test_a_normal_quantile_for_three_seeds_is_found_dishonest(monkeypatch):
    monkeypatch.setattr(paired, "quantile_t", lambda df, alpha: NormalDist().inv_cdf(1 - alpha / 2))
    found = simulate(Setting(3, "seed", "normal", 1, 1), studies=400)
    assert found.covered < found.least and found.false > found.most


def test_a_simulation_repeats_itself():
    setting = Setting(3, "residual", "normal", 1, 1)
    assert simulate(setting, studies=50) == simulate(setting, studies=50)
    assert simulate(setting, studies=50, seed=1) != simulate(setting, studies=50)


@pytest.mark.nightly
@pytest.mark.parametrize("setting", list(settings()), ids=lambda one: "/".join(map(str, one)))
def test_verdicts_are_honest_in_two_thousand_studies_of_every_kind(setting):
    found = simulate(setting)
    assert found.honest, found
