"""The local pool: side by side, pinned, and no job's fault is another's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.study.fakes import HERE
from variorum.study.executor import Advanced, Failed, Finished, Job, LocalPool, Started, Tick


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalPool]:
    with LocalPool(workers=2, threads=1) as made:
        yield made


def _job(function: str, **arguments: object) -> Job:
    return Job(name=f"{function}{arguments}", call=f"{HERE}:{function}", arguments=arguments)


def test_every_job_starts_advances_and_finishes_with_its_own_result(pool: LocalPool):
    jobs = [_job("doubled", value=value) for value in range(5)]
    events = [event for event in pool.run(jobs) if not isinstance(event, Tick)]
    results = {event.job.name: event.result for event in events if isinstance(event, Finished)}
    assert results == {job.name: 2 * job.arguments["value"] for job in jobs}
    for job in jobs:
        mine = [event for event in events if event.job is job]
        assert isinstance(mine[0], Started)
        assert [event.done for event in mine if isinstance(event, Advanced)] == [1, 2]


def test_threads_are_pinned_before_torch_is_loaded(pool: LocalPool):
    (result,) = [event.result for event in pool.run([_job("threads")]) if isinstance(event, Finished)]
    assert result == (1, "1")


def test_a_failing_job_is_reported_and_the_others_finish(pool: LocalPool):
    jobs = [_job("refused"), _job("broken"), _job("doubled", value=4)]
    events = list(pool.run(jobs))
    failed = {event.job.call.partition(":")[2]: event for event in events if isinstance(event, Failed)}
    assert failed["refused"].cause == "step 7: the loss is not finite"
    assert failed["broken"].cause == "ZeroDivisionError: a bug"
    assert "Traceback" in failed["broken"].detail
    assert [event.result for event in events if isinstance(event, Finished)] == [8]


def test_a_worker_that_is_killed_costs_its_job_and_is_replaced(pool: LocalPool):
    jobs = [_job("killed"), *(_job("doubled", value=value) for value in range(3))]
    events = list(pool.run(jobs))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert "SIGKILL" in failed.cause
    assert sorted(event.result for event in events if isinstance(event, Finished)) == [0, 2, 4]
    (again,) = [event.result for event in pool.run([_job("doubled", value=9)]) if isinstance(event, Finished)]
    assert again == 18


def test_leaving_the_pool_ends_its_processes():
    with LocalPool(workers=1, threads=1) as made:
        (worker,) = made._pool
        assert worker.alive
    assert not worker.alive
