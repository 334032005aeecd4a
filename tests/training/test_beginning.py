"""Pretraining that goes on from weights: it begins with just those, needs them no more afterwards, and learns."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch

import variorum
from tests.faults import runs
from tests.faults.resume import ended, forked
from tests.tools.command import refused
from tests.tools.command import variorum as command
from variorum.errors import UsageError
from variorum.spec.small import SCALES, Scale
from variorum.text.stream import Source
from variorum.training.prepare import prepare
from variorum.training.pretrain import pretrain
from variorum.training.run import go_on
from variorum.training.rundir import START, Asked, write_run
from variorum.training.session import assemble
from variorum.training.wishes import How, Wishes


def quiet(text: str) -> None:
    del text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and a LLaMA that was trained on it in rows of 16 tokens."""
    place = tmp_path_factory.mktemp("beginning")
    (place / "text.txt").write_text(runs.text(60))
    SCALES["tiny"] = Scale(32, 2, 2)
    try:
        pretrain(asked("llama", place, "60steps", scale="tiny"), place / "first", how=How(threads=1), say=quiet)
    finally:
        del SCALES["tiny"]
    return place


def asked(model: str, place: Path, budget: str, *, length: int = 16, scale: str = "", **more: object) -> Asked:
    told = {"set": (), "tokenizer": "", "vocab": 320, **more}
    return Asked(
        model=model, scale=scale, sources=(Source(place=str(place / "text.txt")),), validation=0.2, budget=budget,
        wishes=Wishes(batch=8, length=length, rate=3e-3), **told,
    )  # fmt: skip


def test_a_run_begins_with_the_weights_that_were_named_and_with_their_tokenizer(place: Path, tmp_path: Path):
    wanted = asked(f"{place / 'first' / 'model'}", place, "2steps")
    plan, _ = prepare(wanted, tmp_path, workers=1, threads=1, say=quiet)
    model, first = assemble(plan, tmp_path).model, variorum.load(place / "first/model")
    ours, theirs = dict(model.named_parameters()), dict(first.named_parameters())
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (
        model.tokenizer.encode("The old man and the sea.").ids == first.tokenizer.encode("The old man and the sea.").ids
    )
    last = json.loads((place / "first/metrics.jsonl").read_text().splitlines()[-1])
    assert assemble(plan, tmp_path).score().loss == pytest.approx(last["held_out"], rel=1e-5)


def test_killed_and_gone_on_with_it_ends_in_the_same_bits_without_what_it_began_with(place: Path, tmp_path: Path):
    shutil.copytree(place / "first/model", tmp_path / "there")
    wanted = asked(str(tmp_path / "there"), place, "4steps")
    (tmp_path / "run").mkdir()
    plan, _ = prepare(wanted, tmp_path / "run", workers=1, threads=1, say=quiet)
    plan = dataclasses.replace(plan, every=2, saves=2)
    write_run(tmp_path / "run", wanted, plan)
    shutil.rmtree(tmp_path / "there")
    whole, broken = tmp_path / "run", runs.copied(tmp_path / "run", tmp_path / "broken")
    go_on(whole, plan, say=quiet)

    def killed() -> None:
        from variorum.training import snapshots

        snapshots.Snapshots.save = lambda *_: __import__("os")._exit(9)
        go_on(broken, plan, say=quiet)

    assert ended(forked(killed)) == 9
    go_on(broken, plan, say=quiet)
    assert runs.digest(whole) == runs.digest(broken)


@pytest.mark.mechanism("R9")
def test_a_model_learns_to_read_longer_texts_than_it_was_trained_on(place: Path, tmp_path: Path):
    """Its frequencies are divided by four, as for position interpolation, and a few steps make up for that."""
    far = ("architecture.decoder.positions.scaling=LinearScaling(factor=4.0)",)
    wanted = asked(f"{place / 'first'}", place, "30steps", length=64, set=far)
    plan, _ = prepare(wanted, tmp_path, workers=1, threads=1, say=quiet)
    write_run(tmp_path, wanted, plan)
    before = assemble(plan, tmp_path).score().loss
    after = go_on(tmp_path, plan, say=quiet).score.loss
    assert after < before - 0.1
    assert variorum.load(tmp_path / "model").spec.architecture.decoder.positions.scaling.factor == 4


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"scale": "nano"}, "weights have a size of their own"),
        ({"tokenizer": "byt5"}, "weights have a vocabulary of their own"),
        ({"set": ("decoder.depth=1",)}, None),
        ({"set": ("decoder.depth=3",)}, "not there"),
        ({"set": ("objective.kind=masked_lm",)}, "decoder"),
    ],
)
def test_what_the_weights_cannot_be_is_refused(place: Path, tmp_path: Path, told: dict[str, object], said: str | None):
    wanted = asked(f"{place / 'first'}", place, "2steps", **told)
    if said is None:  # fewer layers are a beginning too
        assert prepare(wanted, tmp_path, workers=1, threads=1, say=quiet)[0].spec.architecture.decoder.depth == 1
        return
    with pytest.raises(UsageError, match=said):
        prepare(wanted, tmp_path, workers=1, threads=1, say=quiet)


def test_the_command_goes_on_from_a_directory(place: Path, tmp_path: Path):
    words = ("pretrain", str(place / "first"), str(place / "text.txt"), "--budget", "2steps", "--batch", "4",
             "--length", "16", "--out", str(tmp_path / "out"))  # fmt: skip
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / START).is_dir() and (tmp_path / "out/model/model.safetensors").exists()
    assert f"began with the weights of `{place / 'first'}`" in (tmp_path / "out/README.md").read_text()
    assert "--scale" in refused(*words[:-1], str(tmp_path / "other"), "--scale", "nano", code=2)
    assert "no such" in refused("pretrain", "./none", *words[2:-1], str(tmp_path / "third"), code=3)
