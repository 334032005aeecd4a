"""What was asked is kept in a study's folder, whatever kind of study it is, and goes on from there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.study import fakes
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.study.asked import KEPT, Asked, BakeOff, asked, changed, keep, kept, read
from variorum.study.choosing import Ceilings


def quiet(text: str) -> None:
    del text


@pytest.mark.parametrize(
    "told",
    [
        Asked(arms=("gpt2", "llama"), rates=(1e-3, 3e-3), budget="90s", training={"batch": 4}),
        Asked(arms=("gpt2",), grid={"decoder.depth": ("1", "2")}, looks=(3, 5), latency="20ms"),
        BakeOff(models=("nano", "head:nano"), data="mails.csv", columns={"text": "body"}, seeds=3),
    ],
    ids=lambda told: type(told).__name__,
)
def test_what_was_asked_comes_back(told: Asked | BakeOff, tmp_path: Path):
    keep(told, tmp_path)
    back = kept(tmp_path)
    assert type(back) is type(told)
    assert json.dumps(dataclasses.asdict(back)) == json.dumps(dataclasses.asdict(told))


def test_a_bake_off_goes_on_with_more_seeds_and_keeps_its_cells(tmp_path: Path):
    table = tmp_path / "rows.csv"
    table.write_text("text,label\n" + "".join(f"it is {i % 2} and {i},{i % 2}\n" for i in range(600)), "utf-8")
    keep(BakeOff(models=("nano",), data=str(table), seeds=2), tmp_path)
    told = kept(tmp_path)
    before = told.declare(tmp_path, say=quiet)
    after = dataclasses.replace(told, seeds=4).declare(tmp_path, say=quiet)
    old, new = ({cell.key for cell in made.cells} for made in (before, after))
    assert len(old) == 1 + 2 and len(new) == 1 + 4 and old < new
    assert after.studies[0].looks == before.studies[0].looks == (3,)


def test_a_file_that_names_models_is_a_bake_off(tmp_path: Path):
    path = tmp_path / "bakeoff.toml"
    path.write_text('models = ["nano"]\ndata = "snippets"\nlatency = "20ms"\nmemory = "500MB"\n', "utf-8")
    told = read(path)
    assert told == BakeOff(models=("nano",), latency="20ms", memory="500MB")
    assert told.ceilings == Ceilings(latency=0.02, memory=5e8)


def test_a_bake_off_takes_a_sample_mistypes_what_is_held_out_and_claims_by_titles(tmp_path: Path):
    words = {"models": ["one: nano", "two: head:nano"], "sample": 400, "seeds": 3, "claims": ["two beats one by 0.1"]}
    clean, noise = asked(words, where="here"), asked({**words, "noise": 0.1}, where="here")
    rows, mistyped = clean.rows(quiet), noise.rows(quiet)
    assert len(rows.train) + len(rows.test) == 400 and set(rows.test_labels) == {0, 1, 2, 3}
    assert sorted(set(rows.groups)) == list(range(max(rows.groups) + 1))
    assert mistyped.train == rows.train and mistyped.test_labels == rows.test_labels
    assert sum(a != b for a, b in zip(rows.test, mistyped.test, strict=True)) > 0.9 * len(rows.test)
    [study] = clean.declare(tmp_path, keep=False, say=quiet).studies
    assert [(one.better, one.worse, one.margin) for one in study.claims] == [("model2", "model1", 0.1)]
    with pytest.raises(UsageError, match="needs a table"):
        BakeOff(models=("nano",), data="").rows(quiet)


def test_flags_depart_from_what_was_asked():
    told = changed(Asked(arms=("gpt2", "llama")), {"seeds": 3, "validation": 1}, where="here")
    assert told == Asked(arms=("gpt2", "llama"), seeds=3, validation=1.0)
    for mistake in ({"seed": 3}, {"seeds": "3"}, {"seeds": True}):
        with pytest.raises(UsageError, match="here: "):
            changed(told, mistake, where="here")
    with pytest.raises(UsageError, match="has no 'walk'"):
        asked({"models": ["nano"], "walk": "gpt2..llama"}, where="here")
    with pytest.raises(UsageError, match="write 20ms"):
        _ = asked({"arms": ["gpt2", "llama"], "latency": "fast"}, where="here").ceilings


def test_a_note_that_is_no_note_is_refused(tmp_path: Path):
    with pytest.raises(NotFound, match="no study was run here"):
        kept(tmp_path)
    for damage in ("{", "[]", '{"kind": "other"}', '{"kind": "bake-off", "walk": "a..b"}'):
        (tmp_path / KEPT).write_text(damage)
        with pytest.raises(DamagedFile):
            kept(tmp_path)


@pytest.mark.nightly
def test_a_study_is_called_from_python(tmp_path: Path):
    import variorum as vr

    words = {"arms": ["gpt2", "llama"], "data": [str(fakes.texts(tmp_path / "texts"))], "budget": "6steps", "seeds": 3}
    small = {"vocab": 300, "training": {"batch": 2, "length": 16}}
    found = vr.study(**words, **small, out=tmp_path / "out", workers=1)
    [judgement] = found.outcomes[0].judgements
    assert judgement.seeds == 3 and (tmp_path / "out" / "report.html").exists()
    assert kept(tmp_path / "out") == asked({**words, **small}, where="here")
    with pytest.raises(UsageError, match="has no 'armz'"):
        vr.study(armz=["gpt2"])
