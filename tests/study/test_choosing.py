"""Which model for these rows: what rows ask for, which candidates are tried, and what is recommended under ceilings."""

from __future__ import annotations

import dataclasses

import pytest

from tests.study import fakes, written
from variorum.errors import NotFound, UsageError
from variorum.study import choosing, needs
from variorum.study.analysis import Outcome, analyse
from variorum.study.choosing import Ceilings, candidates, ceilings, recommend
from variorum.study.labelled import Asked, Rows, table

HINDI = "यह फिल्म बहुत अच्छी है"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return table(Asked(data=str(written.texts(tmp_path_factory.mktemp("rows") / "texts.csv"))))


def _asked(rows: Rows, text: str, share: float) -> set[str]:
    train = tuple(text if i < share * len(rows.train) else "a plain text in English" for i in range(len(rows.train)))
    return {one.constraint for one in needs.asks(dataclasses.replace(rows, train=train, test=train[-5:]))}


def test_rows_ask_by_their_languages_their_lengths_and_their_number(rows: Rows):
    assert _asked(rows, HINDI, 0.2) >= {"indian-languages"}
    assert "many-languages" in _asked(rows, "Der Film war wirklich sehr gut und ich mag ihn", 0.2)
    assert {"noisy-text", "indian-languages"} <= _asked(rows, f"this movie was really good {HINDI}", 0.2)
    assert "long-context" in _asked(rows, "one more word " * 200, 0.2)
    assert not _asked(rows, HINDI, 0.01) & {"indian-languages", "noisy-text", "many-languages"}
    many = dataclasses.replace(rows, train=rows.train * 10)
    few = dataclasses.replace(rows, train=rows.train[:60])
    assert "many-labels" in {one.constraint for one in needs.asks(many)}
    assert "few-labels" in {one.constraint for one in needs.asks(few)}
    assert needs.need_of("tag") == "understanding"


def test_rules_bring_models_in_and_each_that_is_not_at_hand_says_so(rows: Rows):
    mixed = dataclasses.replace(rows, train=tuple(f"this movie was really good {HINDI}" for _ in rows.train))
    found = candidates(mixed, Ceilings(latency=0.02))
    assert {rule.model for rule in found.rules} >= {"muril", "byt5", "distilbert"}
    assert found.models == ("nano",)
    assert {"muril", "xlm-roberta", "byt5"} <= {line.partition(":")[0] for line in found.left}
    named = candidates(mixed, Ceilings(), ("nano:roberta",))
    assert named.models == ("nano:roberta",) and not named.left


def test_ceilings_are_quantities():
    assert ceilings("20ms", "500MB") == Ceilings(latency=0.02, memory=5e8)
    assert ceilings("1.5 s", "1GiB") == Ceilings(latency=1.5, memory=2.0**30)
    assert ceilings("", "") == Ceilings()
    for latency, memory in (("20", ""), ("20MB", ""), ("", "5ms"), ("0ms", ""), ("fast", "")):
        with pytest.raises(UsageError):
            ceilings(latency, memory)


def _outcome(latencies: tuple[float, ...] = (0.001, 0.010, 0.050), apart: float = 0.5) -> Outcome:
    """Arms 0, 1, 2, each better than the one before by ``apart`` and slower; scores are losses, less is better."""
    made = fakes.study()
    made = dataclasses.replace(made, metric=dataclasses.replace(made.metric, lower_is_better=False, name="score"))
    results = {}
    for cell in fakes.cells(made):
        arm, seed = int(cell.arm[-1]), cell.seed
        costs = {"latency": latencies[arm] / 2, "latency_95": latencies[arm], "throughput": 10.0,
                 "memory": (arm + 1) * 10**8, "disk": 10**6, "flops": None}  # fmt: skip
        items = tuple(1.0 + apart * arm + 0.3 * ((7 * i + 3 * seed + arm * i) % 5) for i in range(12))
        plain = fakes.cell_work(report=lambda done: None, arm=arm, seed=seed, pause=0.0)
        facts = {**plain.facts, **({} if seed else {"costs": costs})}
        results[cell.arm, seed] = dataclasses.replace(plain, items=items, facts=facts)
    return analyse(made, results, None)


def test_the_best_arm_below_the_ceilings_is_taken_with_its_runner_up():
    free = recommend(_outcome(apart=3.0), Ceilings())
    assert (free.take, free.runner_up) == ("arm2", "arm1")
    assert "that it is worse is decided" in free.sentences[1] and len(free.sentences) == 2
    quick = recommend(_outcome(apart=3.0), Ceilings(latency=0.02))
    assert (quick.take, quick.runner_up) == ("arm1", "arm0")
    assert quick.sentences[0].startswith("Take + change 1: score 4.") and "below the ceilings" in quick.sentences[0]
    assert quick.sentences[-1] == "+ change 2 is left out: 50.0 ms a text where 20.0 are allowed."
    small = recommend(_outcome(apart=3.0), Ceilings(memory=1.5e8))
    assert (small.take, small.runner_up) == ("arm0", None)


def test_what_is_undecided_is_called_so_and_a_faster_arm_is_named():
    found = recommend(_outcome(apart=0.06), Ceilings())
    assert (found.take, found.runner_up) == ("arm2", "arm1")
    assert "which of the two is better is not decided at this budget" in found.sentences[1]
    assert found.sentences[2].startswith("+ change 1 answers 5.0 times as fast, and is not shown to be worse")


def test_where_nothing_fits_nothing_is_taken():
    found = recommend(_outcome(), Ceilings(latency=1e-4))
    assert found.take is None and found.sentences[0] == "Nothing keeps below the ceilings."
    assert sum("is left out" in line for line in found.sentences) == 3
    bare = _outcome()
    with pytest.raises(NotFound):
        recommend(dataclasses.replace(bare, figures=()), Ceilings())


def test_a_writer_is_asked_and_what_is_too_big_is_not_tried(rows: Rows, monkeypatch: pytest.MonkeyPatch):
    from variorum.family import find

    monkeypatch.setattr(choosing.ways, "spec_of", find)
    assert choosing._fitting("smollm2", rows, Ceilings()) == "prompt:smollm2"
    assert choosing._fitting("distilbert", rows, Ceilings(memory=5e8)) == "distilbert"
    with pytest.raises(UsageError, match="its weights alone"):
        choosing._fitting("distilbert", rows, Ceilings(memory=1e8))
    with pytest.raises(UsageError, match="it writes"):
        choosing._fitting("smollm2", dataclasses.replace(rows, kind="tag"), Ceilings())
