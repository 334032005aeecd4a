"""Cells computed elsewhere: on a Ray cluster of two nodes, and as batch jobs; the numbers are the local pool's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.study.fakes import HERE
from variorum.errors import NotFound
from variorum.study import remote
from variorum.study.asked import asked
from variorum.study.cells import CellStore
from variorum.study.executor import Executor, Failed, Finished, Job
from variorum.study.executors import executor
from variorum.study.on_slurm import Submitted
from variorum.study.pretraining import declare
from variorum.study.run import by_arm, cached
from variorum.study.session import Limits, run

ROOT = Path(__file__).parents[2]
TINY = {"arms": ["gpt2", "llama"], "budget": "6steps", "seeds": 2, "vocab": 300, "training": {"batch": 2, "length": 16}}


def _jobs() -> list[Job]:
    return [Job(name=f"{value}", call=f"{HERE}:doubled", arguments={"value": value}) for value in range(3)] + [
        Job(name=name, call=f"{HERE}:{name}", arguments={}) for name in ("refused", "threads")
    ]


@pytest.fixture
def found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes import the tests, and this state of the code."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "src"))))


@pytest.fixture
def two_nodes(found_here: None) -> Iterator[None]:
    """A Ray cluster of two nodes with two CPUs each, to which this process is connected."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'variorum[ray]'")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()
    cluster.shutdown()


def _check_events(made: Executor) -> None:
    with made as crew:
        events = list(crew.run(_jobs()))
    results = {event.job.name: event.result for event in events if isinstance(event, Finished)}
    assert results == {"0": 0, "1": 2, "2": 4, "threads": (1, "1")}
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert failed.cause == "step 7: the loss is not finite" and "RunFailed" in failed.detail


@pytest.mark.nightly
def test_two_ray_nodes_give_the_numbers_of_the_local_pool(two_nodes: None, tmp_path: Path):
    _check_events(executor("ray", workers=None, threads=1, folder=tmp_path))

    def numbers(name: str) -> dict[tuple[str, int], object]:
        limits = Limits(workers=None if name == "ray" else 2, executor=name)  # type: ignore[arg-type]
        declared = declare(asked(TINY, where="").wanted(), tmp_path / name, limits=limits, say=lambda line: None)
        finding = run(declared)
        assert not finding.failures and finding.plan.workers == (4 if name == "ray" else 2)
        results = cached(declared.cells, CellStore(tmp_path / name / "cells"))
        return {
            key: (one.items, one.curve, one.losses)
            for key, one in by_arm(declared.studies[0], declared.cells, results).items()
        }

    assert numbers("ray") == numbers("local")


@pytest.mark.nightly
def test_a_ray_task_that_is_killed_costs_its_cell(two_nodes: None, tmp_path: Path):
    jobs = [Job(name="killed", call=f"{HERE}:killed", arguments={}), *_jobs()[:1]]
    with executor("ray", workers=2, threads=1, folder=tmp_path) as crew:
        ends = [event for event in crew.run(jobs) if isinstance(event, Finished | Failed)]
    causes = {event.job.name: event.cause for event in ends if isinstance(event, Failed)}
    assert list(causes) == ["killed"] and causes["killed"].startswith("its worker was lost")


@pytest.mark.nightly
def test_batch_jobs_answer_like_workers(found_here: None, tmp_path: Path):
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'variorum[slurm]'")
    _check_events(Submitted(tmp_path, workers=2, threads=1, system="local"))


def test_a_machine_with_other_code_fails_the_cell_and_says_why():
    torch, processor, _ = remote.home()
    job = Job(name="one", call=f"{HERE}:doubled", arguments={"value": 1})
    _, answer = remote.carried(job, 1, (torch, processor, "0" * 64), lambda done: None)
    assert answer[0] == "failed" and answer[1][0].endswith("has another code")
    _, answer = remote.carried(job, 1, remote.home(), lambda done: None)
    assert answer == ("finished", 2)


@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_what_is_not_installed_is_told_with_how_to_get_it(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(NotFound, match=rf"pip install 'variorum\[{name}\]'"):
        executor(name, workers=1, threads=1, folder=tmp_path).__enter__()
