"""The harness tells the truth: medians and ratios of the same run, wrong answers as faults, absent engines by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness import batches, check, report
from benchmarks.harness.job import GOALS, Found, Job, goals, judged
from benchmarks.harness.turns import OURS, Side, Timed, compared, failures, interleaved_cases, ratios
from benchmarks.harness.worker import Broken, Missing, Worker

HERE = "tests.benchmarks.test_harness"


def napping(seconds: float) -> Callable[..., Any]:
    """A job for a worker: sleeps, and answers what it is given."""

    def job(answer: int = 1) -> Any:
        time.sleep(seconds)
        return np.full((2, 3), answer, np.float32)

    return job


def absent() -> Any:
    """A job of an engine that is not installed."""
    import no_such_engine  # noqa: F401


def failing() -> Callable[[], Any]:
    """A job that fails when it is done."""

    def job(answer: int) -> Any:
        raise ValueError("two\nlines")

    return job


def hoarding(count: int) -> Callable[[], Any]:
    """A job that takes so many bytes and gives them back."""
    return lambda: len(np.ones(count, np.uint8))


def test_sides_take_turns_and_the_slower_one_is_told_by_how_much() -> None:
    sides = [
        Side("base", f"{HERE}:napping", {"seconds": 0.1}), Side(OURS, f"{HERE}:napping", {"seconds": 0.01}),
        Side("absent", f"{HERE}:absent"), Side("failing", f"{HERE}:failing"),
    ]  # fmt: skip
    one, two = interleaved_cases(sides, [{"answer": 1}, {"answer": 2}], rounds=2, calls=2)
    assert len(one[OURS].seconds) == len(two["base"].seconds) == 4
    assert 2 < ratios(one, "base")[OURS] < 11
    assert compared(two, OURS, "base", ["absent"]) == {"over transformers": ratios(two, "base")[OURS]}
    assert (one[OURS].answer == 1).all()
    assert (two[OURS].answer == 2).all()
    assert one["absent"].note == "not measured: no_such_engine is not installed"
    assert two["failing"].note == "failed: ValueError: two lines"
    assert one["failing"].median is None
    assert failures(one) == []


def test_ours_that_fails_is_a_fault_and_a_peer_that_fails_is_not() -> None:
    found = {OURS: Timed(note="failed: x"), f"{OURS}, int8": Timed([1.0]), "peer": Timed(note="failed: y")}
    assert failures(found) == [f"{OURS}: failed: x"]


def test_the_median_is_the_middle_one_and_the_fastest_peer_is_the_one_to_beat() -> None:
    found = {"base": Timed([9, 4, 5]), OURS: Timed([2, 1, 8]), "a": Timed([5, 5, 5]), "b": Timed([2.5, 2.5, 9])}
    assert found[OURS].median == 2
    assert found["base"].percentile(0.95) == 9
    assert compared(found, OURS, "base", ["a", "b"]) == {"over transformers": 2.5, "over the best peer": 1.25}


def test_a_worker_tells_the_peak_of_what_it_did_since_it_was_last_asked() -> None:
    worker = Worker()
    try:
        worker.make(f"{HERE}:hoarding", {"count": 200_000_000})
        before, _ = worker.memory()
        worker.run(1)
        after, peak = worker.memory()
        assert 190e6 < peak - before < 260e6
        assert after - before < 50e6
        assert worker.memory()[1] - before < 50e6
    finally:
        worker.close()


def test_a_worker_that_dies_is_told_and_does_not_hang() -> None:
    worker = Worker()
    with pytest.raises(Missing, match="no_such_engine"):
        worker.make(f"{HERE}:absent", {})
    worker.close()
    with pytest.raises(Broken):
        worker.run(1)


def test_a_wrong_vector_is_told_apart_from_rounding() -> None:
    right = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    assert check.apart(right + 1e-6, right) < check.ROUNDING
    one_off = right.copy()
    one_off[7, 3] += 0.01
    assert check.apart(one_off, right) > check.ROUNDING
    assert check.apart(right[::-1], right) > 1
    assert check.apart(right[:, :8], right) == float("inf")
    assert check.apart(np.where(right > 2, np.nan, right), right) == float("inf")
    assert check.apart_alone(right[0], right[1]) > check.ROUNDING


def test_vectors_in_a_wrong_order_or_of_another_text_do_not_pass_as_int8() -> None:
    right = np.random.default_rng(0).normal(size=(50, 16)) + 5.0  # a mean that all share would hide it
    assert check.cosine(right + 0.05 * np.random.default_rng(1).normal(size=right.shape), right) > check.LEAST_COSINE
    assert check.cosine(np.roll(right, 1, axis=0), right) < 0.5
    assert check.cosine(np.repeat(right.mean(0, keepdims=True), 50, 0), right) < 0.5


def test_tokens_agree_up_to_the_first_that_differs() -> None:
    assert check.agreeing([[1, 2, 3, 4], [5, 6]], [[1, 2, 3, 4], [5, 6]]) == 1
    assert check.agreeing([[1, 9, 3, 4], [5, 6]], [[1, 2, 3, 4], [5, 6]]) == 0.5
    assert check.agreeing([[1, 2]], [[1, 2, 3, 4]]) == 0.5, "what is not written does not agree"
    assert check.agreeing([], [[1]]) == 0


def test_the_padding_factor_counts_what_is_computed_over_what_is_real() -> None:
    lengths = [1, 3, 2, 2]
    assert batches.padding(lengths, batches.in_arrival_order(4, batch=2)) == (2 * 3 + 2 * 2) / 8
    budget = batches.by_budget(lengths, budget=4)
    assert budget == [[1], [2, 3], [0]]
    assert batches.padding(lengths, budget) == 1
    assert batches.by_budget([700, 2000, 300, 1])[0] == [1], "a text over the budget goes alone"


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    place = tmp_path / "goals.toml"
    place.write_text(
        "[one]\njob = 'one job'\nat_least = { speed = 2.0 }\nat_most = { memory = 1.1 }\nheld_back = 'the memory'\n"
    )
    return place


def test_a_goal_is_met_missed_or_not_measured_and_never_met_by_a_wrong_answer(wanted: Path) -> None:
    def said(**of_job: Any) -> list[object]:
        return [row["met"] for row in judged(Job(name="one", **of_job), wanted)]

    assert said(figures={"speed": 2.0, "memory": 1.1}) == ["yes", "yes"]
    assert said(figures={"speed": 1.9, "memory": 1.2}) == ["no", "no"]
    assert said(figures={"memory": 1.0}) == ["not measured", "yes"]
    assert said(figures={"speed": 9.0, "memory": 0.1}, faults=["differs"]) == ["fault", "fault"]
    rows = judged(Job(name="one", figures={"speed": 1.0, "memory": 1.0}), wanted)
    assert [row["held_back"] for row in rows] == ["the memory", ""]
    with pytest.raises(KeyError):
        goals("another", wanted)


def test_the_page_names_faults_absent_engines_and_what_holds_back(tmp_path: Path) -> None:
    sides = [{"engine": "peer", "seconds": None, "note": "not measured: peer is not installed"}]
    slow = Job(name="latency-16", figures={"over the best peer": 0.5}, sides=sides, facts={"tokens": 16})
    wrong = Job(name="load", figures={}, faults=["weights differ"])
    about = {"date": "today", "machine": "this"}
    Found(about, [slow]).keep(tmp_path / "results" / "latency.json")
    kept = Found.kept(tmp_path / "results" / "latency.json")
    page = report.page({"latency": kept, "load": Found(about, [wrong])})
    assert page.count("date today, machine this.") == 2
    assert "not measured: peer is not installed" in page
    assert "| one text of 16 tokens, MiniLM | over the best peer | 0.5 | ≥ 0.9 | no |" in page
    assert "FAULT: weights differ" in page
    assert page.count("| fault |") == 2
    assert "- **one text of 16 tokens, MiniLM**: " in page


def test_every_goal_is_read() -> None:
    import tomllib

    told = tomllib.loads(GOALS.read_text("utf-8"))
    for name, table in told.items():
        assert set(table) <= {"job", "at_least", "at_most", "held_back"}, name
        assert goals(name), name
