"""A study of pretraining: declared from flags or a file, fair, refused where its arms cannot be compared, judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.study import fakes
from tests.tools.command import refused, variorum
from variorum.errors import UsageError
from variorum.study.asked import Asked, asked, read
from variorum.study.jobs import pretrain_cell
from variorum.study.library import find, ready
from variorum.study.pretraining import declare
from variorum.training.session import assemble

SMALL = {"budget": "8steps", "seeds": 2, "vocab": 300, "training": {"batch": 4, "length": 32}}
FLAGS = ("--budget", "8steps", "--seeds", "3", "--vocab", "300", "--batch", "4", "--length", "32")


def quiet(text: str) -> None:
    del text


def test_arms_share_texts_order_vocabulary_and_steps(tmp_path: Path):
    wanted = asked({"walk": "gpt2..llama", **SMALL}, where="here").wanted()
    declared = declare(wanted, tmp_path, keep=False, say=quiet)
    [study], cells = declared.studies, declared.cells
    plans = [cell.work["plan"] for cell in cells]
    assert len(cells) == 2 * len(study.arms) and {cell.steps for cell in cells} == {8}
    assert len({cell.data for cell in cells}) == 1 and len({plan.settled.rate for plan in plans}) == 1
    assert study.metric.unit == "bits per byte" and len(study.claims) == len(study.arms) - 1
    assert any("left out of the walk" in line for line in study.unequal)
    assert len({cell.key for cell in cells}) == len(cells)


def test_arms_of_other_tokenizers_share_the_first_ones_vocabulary(tmp_path: Path):
    declared = declare(
        asked({"arms": ["bert+objective.pair=none", "roberta"], **SMALL}, where="here").wanted(), tmp_path, say=quiet
    )
    assert declared.studies[0].metric.unit == "nats per target"
    assert len({cell.work["plan"].spec.tokenizer for cell in declared.cells}) == 1


def test_equal_operations_give_unequal_steps_and_the_plan_says_so(tmp_path: Path):
    arms = ["gpt2", "gpt2+architecture.decoder.depth=1"]
    wanted = asked({"arms": arms, **SMALL, "budget": "40Gflops"}, where="here").wanted()
    declared = declare(wanted, tmp_path, keep=False, say=quiet)
    deep, shallow = (next(cell.steps for cell in declared.cells if cell.arm == arm.name) for arm in wanted.arms)
    assert shallow > 1.5 * deep
    assert any(line.startswith("steps: ") for line in declared.studies[0].unequal)


@pytest.mark.mechanism("Z10")
def test_arms_can_be_judged_on_longer_rows_than_they_were_trained_on(tmp_path: Path):
    alibi = "gpt2+decoder.input.positions=none+decoder.positions=Alibi()"
    words = {"arms": ["gpt2", alibi], **SMALL}
    short, long = (
        declare(asked({**words, **more}, where="here").wanted(), tmp_path, keep=False, say=quiet)
        for more in ({}, {"judged_length": 128})
    )
    assert "rows of 128 tokens" in long.studies[0].items
    lengths = {}
    for name, declared in (("short", short), ("long", long)):
        cell = declared.cells[0]
        asks = cell.work.get("judged_length", 0)
        session = assemble(cell.work["plan"], cell.work["folder"], judged_length=asks)
        lengths[name] = {batch["input_ids"].shape[1] for batch in session.held}
        assert session.feed(0)[0]["input_ids"].shape[1] == 32 + 1
        result = pretrain_cell(report=lambda step: None, **{**cell.work, "looks": ()}, steps=1)
        assert len(result.items) == len(session.held) >= 8
    assert lengths == {"short": {33}, "long": {129}}
    with pytest.raises(UsageError, match="as long as they are"):
        asked({**words, "judged_length": 128, "probe": "snippets"}, where="here").wanted()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"arms": ["bert", "gpt2"], **SMALL}, "cannot be compared by loss"),
        ({"arms": ["bert"], **SMALL}, "two arms at least"),
        ({"arms": ["bert", "roberta"], "walk": "bert..roberta"}, "named in one way"),
        ({"arms": ["gpt2", "llama"], "claims": ["llama betters gpt2"], **SMALL}, "claims nothing"),
        ({"arms": ["gpt2", "llama"], "claims": ["lama beats gpt2"], **SMALL}, "names no arm"),
        ({"arms": ["gpt2", "llama"], **SMALL, "seeds": 1}, "at least 2 seeds"),
        ({"arms": ["gpt2", "llama"], **SMALL, "budget": "2steps"}, "the budget is 2 steps"),
        ({"armz": ["gpt2"]}, "has no 'armz'"),
        ({"seeds": "five"}, "seeds is a str"),
        ({"arms": ["gpt2", "llama"], "training": {"rat": 1.0}}, "training has no 'rat'"),
    ],
)
def test_what_makes_no_study_is_refused(told: dict[str, object], said: str, tmp_path: Path):
    with pytest.raises(UsageError, match=said):
        declare(asked(told, where="here").wanted(), tmp_path, say=quiet)


def test_a_file_says_what_flags_say(tmp_path: Path):
    path = tmp_path / "rope.toml"
    path.write_text('title = "RoPE"\narms = ["gpt2", "llama"]\nseeds = 4\n[training]\nbatch = 8\n', "utf-8")
    assert read(path) == Asked(title="RoPE", arms=("gpt2", "llama"), seeds=4, training={"batch": 8})


@pytest.mark.parametrize("one", [one for one in ready() if isinstance(one.asked, Asked)], ids=lambda one: one.name)
def test_every_ready_study_of_pretraining_can_be_declared(one):
    assert find(one.name.partition("-")[0]) == one
    wanted = one.asked.wanted()
    assert len(wanted.arms) > 1 and wanted.seeds >= 3


def test_the_command_trains_judges_and_repeats_itself(tmp_path: Path):
    """With one worker and with two, in two folders: the same bits, and the same pins."""
    texts = fakes.texts(tmp_path / "texts")
    words = ("study", "run", "--arms", "gpt2", "llama", *FLAGS, "--claim", "llama beats gpt2", "--data", str(texts))
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    done = variorum(*words, "--latency", "10s", "--memory", "1MB", "--workers", "1", "--out", str(alone), timeout=600)
    assert "Nothing keeps below the ceilings.\ngpt2 is left out: " in done.stdout, done.stderr
    variorum(*words, "--latency", "10s", "--workers", "2", "--out", str(beside), timeout=600)
    first, again = _result(alone), _result(beside)
    assert _numbers(first) == _numbers(again)
    assert (alone / "manifest.json").read_bytes() == (beside / "manifest.json").read_bytes()
    [claim] = first["claims"]
    assert claim["verdict"] in ("supported", "refuted", "undecided") and claim["seeds"] == 3
    page = (beside / "report.html").read_text("utf-8")
    assert page.count("at this budget") > 0 and "below the ceilings" in page
    done = variorum("study", "extend", str(beside), "--seeds", "4", timeout=600)
    assert "2 cells to compute (6 ready)" in done.stderr
    later = _result(beside)
    assert later["claims"][0]["seeds"] == 4 and later["claims"][0]["verdict"] == "exploratory"  # 3 were declared


def _result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))["studies"][0]
    return found


def _numbers(study: dict[str, Any]) -> object:
    """All of a study that no clock decides."""
    arms = [(arm["mean"], arm["by_seed"]) for arm in study["arms"]]
    cells = [(cell["arm"], cell["seed"], cell["curve"], cell["losses"]) for cell in study["cells"]]
    return study["claims"], arms, cells


@pytest.mark.mechanism("Z1")
def test_arms_of_other_objectives_are_compared_by_what_they_learn_afterwards(tmp_path: Path):
    table = tmp_path / "rows.csv"
    table.write_text(
        "text,label\n" + "".join(f"it is {'good' if i % 2 else 'bad'} {i},{i % 2}\n" for i in range(400)), "utf-8"
    )
    words = ("study", "run", "--arms", "pairs: bert", "single: bert+objective.pair=none", "--probe", str(table), *FLAGS)
    variorum(*words, "--out", str(tmp_path / "out"), timeout=600)
    [study] = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))["studies"]
    assert study["metric"]["name"] == "macro-F1" and not study["missing"]
    assert all(arm["mean"] > 0.9 for arm in study["arms"])


def test_mistakes_are_one_line(tmp_path: Path):
    assert "no ready study" in refused("study", "run", "z99", code=3)
    assert "no such study file" in refused("study", "run", str(tmp_path / "none.toml"), code=3)
    assert "no study was run here" in refused("study", "extend", str(tmp_path), "--seeds", "4", code=3)
    assert "named in one way" in refused("study", "run", "--out", str(tmp_path), code=2)
