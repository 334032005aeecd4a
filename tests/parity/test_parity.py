"""Every published model that the oracle runs gives the same numbers here: scores, gradients, and files."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests import gates
from tests.parity import oracle, ours
from tests.parity.compare import Bench, changed, differing, stored
from tests.parity.selfcheck import AGREES, check
from tests.parity.tiny import CASES

#: Other weights and other texts, in the long suite.
MORE = [
    pytest.param(dataclasses.replace(case, seed=seed), marks=pytest.mark.nightly, id=f"{case.name}-seed{seed}")
    for seed in (1, 2)
    for case in CASES
]


@pytest.fixture(scope="module", params=[*(pytest.param(case, id=case.name) for case in CASES), *MORE])
def bench(request, tmp_path_factory) -> Bench:
    return Bench(request.param, tmp_path_factory.mktemp("case"))


def test_the_oracle_gives_one_answer_however_a_sequence_is_padded_and_shows_every_parameter(bench: Bench):
    for line in check(bench.case, bench.theirs, bench.probes, bench.answers):
        assert line.passed, f"more than {AGREES} apart, or right where it is said to be wrong:\n{line}"


def test_scores_and_gradients_equal_the_oracles_on_every_real_row(bench: Bench):
    failures = [failure for finding in bench.findings() for failure in finding.failures]
    assert not failures, "\n".join(failures)


def test_loading_and_saving_returns_the_same_file(bench: Bench, tmp_path):
    ours.load(bench.published, bench.case.head, dtype="float32").save(tmp_path)
    assert differing(stored(tmp_path), stored(bench.published)) == []
    assert changed(tmp_path, bench.published) == []
    with oracle.exact():
        probe = bench.probes[0]
        model = oracle.load64(tmp_path, bench.case.oracle, bench.case.tiny.backend)
        again = oracle.run(model, probe, gradients=False)
    assert torch.equal(again.logits, bench.right[probe.kind].logits)


def test_every_backend_computes_what_eager_does(bench: Bench):
    probe = next((p for p in bench.probes if p.kind == "left"), bench.probes[0])
    eager = ours.run(bench.model, probe, gradients=False)
    bench.model.backend = "auto"
    try:
        fused = ours.run(bench.model, probe, gradients=False)
    finally:
        bench.model.backend = "eager"
    assert oracle.gap(fused, eager) <= gates.BACKENDS
