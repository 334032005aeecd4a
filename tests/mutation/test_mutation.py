"""A spec with one wrong field cannot pass for the right one: its observer notices, whatever the field."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.mutation.neighbours import Mutant, declared
from tests.mutation.observers import ORDER, Trial
from tests.mutation.run import CONTAINERS, Tally, fields, judge, subject, unwatched
from tests.parity.tiny import TINY, named
from variorum.spec.part import Part, part, seen

#: Every so many-th mutant is tried in a short run.
SHARE = 3


@pytest.mark.parametrize("tiny", TINY, ids=lambda tiny: tiny.name)
def test_what_a_spec_says_shows_when_it_is_wrong(tiny, tmp_path):
    tally = judge(tiny, tmp_path, SHARE)
    assert tally.survivors == []
    assert tally.tried >= 80 // SHARE - 5


@pytest.mark.nightly
def test_every_field_of_every_model_is_flipped_and_every_flip_is_seen(tmp_path):
    total = Tally("all")
    for tiny in TINY:
        tally = judge(tiny, tmp_path / tiny.name)
        assert tally.tried >= 20, tiny.name
        total.merge(tally)
    assert total.survivors == []
    assert unwatched(total.fields) == []


def test_few_fields_have_no_observer_and_those_say_why():
    unseen = {name: why for name, (observer, why) in fields().items() if observer == "none"}
    assert all(unseen.values())
    assert len(unseen) <= 0.1 * len(fields())
    assert all(name in fields() and name not in unseen for name in CONTAINERS)


def test_every_observer_that_a_field_may_name_can_be_asked():
    assert {observer for observer, _ in fields().values()} <= {*ORDER, "none"}
    assert all(callable(getattr(Trial, observer)) for observer in ORDER)


def test_a_field_must_say_who_sees_it():
    @part
    class Careless(Part):
        size: int

    with pytest.raises(AssertionError, match=r"Careless\.size declares no observer"):
        declared(Careless, "size")
    with pytest.raises(TypeError, match="says why"):
        seen(by="none")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return subject(named("llama/causal_lm"), tmp_path_factory.mktemp("llama"))


def _trial(subject, path: str, before: object, after: object) -> Trial:
    mutant = Mutant(path=path, owner=Part, field="", before=before, after=after, spec=subject.spec.set({path: after}))
    trial = Trial(subject, mutant)
    trial.same_architecture = False  # ask even where nothing changed
    return trial


def test_no_observer_sees_a_change_that_is_none(llama):
    trial = _trial(llama, "architecture.decoder.positions.theta", 10_000.0, 10_000.0)
    assert [observer for observer in ORDER if getattr(trial, observer)()] == []


def test_an_observer_sees_ten_gates_and_not_a_rounding(llama):
    theta = llama.spec.architecture.decoder.positions.theta
    assert _trial(llama, "architecture.decoder.positions.theta", theta, theta * (1 + 1e-6)).forward()
    assert not _trial(llama, "architecture.decoder.positions.theta", theta, theta * (1 + 1e-15)).forward()


def test_gradients_and_cached_scores_show_a_wrong_angle_too(llama):
    trial = _trial(llama, "architecture.decoder.positions.theta", 1e4, 2e4)
    assert trial.gradient()
    assert trial.cache()
    assert trial.loss()


def test_a_spec_stays_as_it_was_under_observation(llama):
    before = {name: value.clone() for name, value in llama.model.named_tensors()}
    trial = _trial(llama, "architecture.decoder.final_norm.eps", 1e-6, 1e-5)
    assert trial.forward()
    assert not trial.load()
    assert all(torch.equal(before[name], value) for name, value in llama.model.named_tensors())
    assert dataclasses.replace(llama.spec) == llama.spec
