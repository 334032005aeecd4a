"""Sparse experts equal their dense definition; their balance is measured on real tokens only."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.tiny_specs import gap, made, tiny, words
from variorum.parts.experts import Experts, balance_loss, router_z_loss
from variorum.parts.trace import Trace
from variorum.spec import feedforward as spec

WIDTH = 6


def experts(count: int = 8, active: int = 2, seed: int = 0, **given: object) -> Experts:
    options = {"width": 5, "activation": "silu", "router": spec.SoftmaxRouter()} | given
    module = Experts(spec.Experts(count=count, active=active, **options), WIDTH).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return module


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def every_expert(module: Experts, x: Tensor) -> Tensor:
    """What each expert makes of each token, [N, E, D]."""
    bank = module.experts
    inner = F.silu(torch.einsum("nd,eid->nei", x, bank.gate)) * torch.einsum("nd,eid->nei", x, bank.up)
    return torch.einsum("nei,edi->ned", inner, bank.down)


def real(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows).bool().flatten()


@pytest.mark.mechanism("F3")
@pytest.mark.parametrize(("count", "active"), [(8, 1), (8, 2), (8, 8), (3, 2)])
def test_the_sparse_output_is_the_dense_sum_over_the_chosen(count, active):
    module, x = experts(count, active), drawn(23, WIDTH)
    logits = x @ module.router.weight.T
    top = logits.topk(active).indices
    weights = torch.zeros_like(logits).scatter(1, top, logits.gather(1, top).softmax(-1))
    assert gap(module(x, Trace()), (weights[..., None] * every_expert(module, x)).sum(1)) < 1e-12


@pytest.mark.mechanism("F3")
def test_a_softmax_over_the_chosen_is_the_renormalised_softmax_over_all():
    module, x = experts(), drawn(23, WIDTH)
    weights, chosen, probabilities = module.router(x)
    picked = (x @ module.router.weight.T).gather(1, chosen)
    assert gap(weights, picked.softmax(-1)) < 1e-14
    assert gap(weights, probabilities.gather(1, chosen) / probabilities.gather(1, chosen).sum(1, keepdim=True)) == 0


@pytest.mark.mechanism("F3")
def test_each_expert_runs_once_a_pass_however_many_tokens_chose_it():
    module = experts(8, 2)
    calls = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return F.silu(x)

    module.experts.activation = counted
    module(drawn(400, WIDTH), Trace())
    assert calls == 8
    calls = 0
    module(drawn(1, WIDTH), Trace())
    assert calls == 2


@pytest.mark.mechanism("F4")
@pytest.mark.parametrize("count", [4, 8])
def test_balance_costs_one_when_uniform_and_the_number_of_experts_when_collapsed(count):
    uniform = torch.full((count, count), 1 / count), torch.arange(count)[:, None]
    collapsed = F.one_hot(torch.zeros(count).long(), count).float(), torch.zeros(count, 1).long()
    assert float(balance_loss([uniform])) == pytest.approx(1.0)
    assert float(balance_loss([collapsed])) == pytest.approx(count)
    assert float(balance_loss([uniform, collapsed])) == pytest.approx((1 + count) / 2)


@pytest.mark.mechanism("F4")
def test_balance_by_hand():
    probabilities = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.3, 0.2]])
    chosen = torch.tensor([[0], [1], [0]])
    # 3 · (2/3 · 1.3/3 + 1/3 · 1.1/3)
    assert float(balance_loss([(probabilities, chosen)])) == pytest.approx(3 * (2 * 1.3 + 1.1) / 9)


@pytest.mark.mechanism("F4")
def test_a_mixtral_adds_its_balance_to_the_loss():
    path = "architecture.decoder.block.feedforward.router.balance"
    ids = words(2, 9)
    models = [made(tiny("mixtral", {path: weight}), "causal_lm") for weight in (0.0, 0.5)]
    without, with_it = (float(model(ids, labels=ids).loss.detach()) for model in models)
    assert 0.5 * 2 * 0.9 < with_it - without < 0.5 * 8


@pytest.mark.mechanism("F4")
@pytest.mark.case("V071")
def test_padding_counts_for_nothing_in_either_router_loss():
    module = experts(4, 2)
    row, pads = drawn(9, WIDTH), 50 * module.router.weight[:1].detach().expand(5, -1)  # expert 0's favourites
    both, mask = torch.cat((row, pads)), real([[1] * 9 + [0] * 5])

    def losses(x: Tensor, keep: Tensor | None) -> list[float]:
        _, chosen, probabilities = module.router(x)
        logits = F.linear(x, module.router.weight)
        both = balance_loss([(probabilities, chosen)], keep), router_z_loss(logits, keep)
        return [float(loss.detach()) for loss in both]

    assert losses(both, mask) == pytest.approx(losses(row, None), abs=1e-12)
    assert losses(both, None) != pytest.approx(losses(row, None), abs=0.1)
    assert losses(both, torch.zeros_like(mask)) == [0.0, 0.0]


@pytest.mark.mechanism("F4")
@pytest.mark.case("V071")
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_balance_of_a_padded_batch_is_that_of_its_rows(side):
    spec_of = tiny("mixtral", {"architecture.decoder.block.feedforward.router.balance": 1.0})
    model = made(spec_of, "causal_lm")
    row = words(1, 9)
    pads = torch.zeros(1, 5, dtype=torch.long)
    ids = torch.cat((pads, row) if side == "left" else (row, pads), 1)
    nothing = torch.full_like(pads, -100)
    labels = torch.cat((nothing, row) if side == "left" else (row, nothing), 1)
    padded = model(ids, attention_mask=(ids > 0).long(), labels=labels).loss
    alone = model(row, labels=row).loss
    # Left of the row, the last pad's state predicts the row's first word; its score is no part of the text alone.
    if side == "left":
        labels[:, 5] = -100
        padded = model(ids, attention_mask=(ids > 0).long(), labels=labels).loss
    assert float((padded - alone).detach()) == pytest.approx(0, abs=1e-12)


@pytest.mark.mechanism("F3", "F4")
@pytest.mark.case("V074")
def test_one_token_leaves_six_of_eight_experts_with_a_zero_gradient():
    module = experts(8, 2)
    trace = Trace(routing=[])
    out = module(drawn(1, 1, WIDTH), trace)
    out.square().sum().backward()
    chosen = trace.routing[0][1].flatten().tolist()
    for stacked in (module.experts.gate, module.experts.up, module.experts.down):
        used = stacked.grad.abs().sum((1, 2)) > 0
        assert stacked.grad.isfinite().all()
        assert used.nonzero().flatten().tolist() == sorted(chosen)


@pytest.mark.mechanism("F4")
@pytest.mark.case("V074")
def test_an_expert_that_the_router_shuns_for_20_steps_stays_at_no_use_and_finite():
    module = experts(8, 2)
    module.router.weight.data[7] = 0
    optimiser = torch.optim.SGD([*module.experts.parameters()], lr=1e-3)
    usage = torch.zeros(8)
    before = module.experts.gate[7].clone()
    for step in range(20):
        trace = Trace(routing=[])
        x = drawn(16, WIDTH, seed=step).abs() * module.router.weight[0].sign()  # expert 0 scores above 0
        module(x, trace).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        top = trace.routing[0][1]
        usage += F.one_hot(top[(top != 7).all(-1)], 8).sum((0, 1))
    assert usage[7] == 0
    assert all(p.isfinite().all() for p in module.parameters())
    assert gap(module.experts.gate[7], before) < 1.0


@pytest.mark.mechanism("F6")
def test_a_shared_expert_sees_every_token_beside_the_routed_ones():
    module, x = experts(shared_width=7), drawn(9, WIDTH)
    routed = module.experts(x, *module.router(x)[:2])
    common = module.shared
    right = (F.silu(x @ common.gate.weight.T) * (x @ common.up.weight.T)) @ common.down.weight.T
    assert gap(module(x, Trace()), routed + right) < 1e-12


@pytest.mark.mechanism("F6")
def test_a_gated_shared_expert_is_weighted_by_a_sigmoid():
    module, x = experts(shared_width=7, shared_gate=True), drawn(9, WIDTH)
    routed = module.experts(x, *module.router(x)[:2])
    weight = (x @ module.shared_gate.weight.T).sigmoid()
    assert gap(module(x, Trace()), routed + weight * module.shared(x, Trace())) < 1e-12


@pytest.mark.mechanism("F6")
def test_deepseeks_bias_picks_experts_but_does_not_weight_them():
    router = spec.SigmoidRouter(groups=1, active_groups=1, scale=2.5)
    module, x = experts(8, 2, router=router), drawn(9, WIDTH)
    module.router.correction.data.zero_()
    module.router.correction.data[3] = 10.0
    weights, chosen, _ = module.router(x)
    assert (chosen == 3).any(-1).all()
    affinity = (x @ module.router.weight.T).sigmoid().gather(1, chosen)
    assert gap(weights, 2.5 * affinity / affinity.sum(-1, keepdim=True)) < 1e-12
    assert not module.router.correction.requires_grad


@pytest.mark.mechanism("F6")
def test_deepseek_chooses_within_the_groups_whose_two_best_sum_highest():
    module = experts(8, 2, router=spec.SigmoidRouter(groups=4, active_groups=1))
    module.router.correction.data.zero_()
    # Group 0 holds the best single expert, group 2 the best pair.
    wanted = torch.tensor([3.0, -9.0, 0.0, 0.0, 2.0, 2.1, 0.0, 0.0], dtype=torch.float64)
    x = torch.ones(1, 1, dtype=torch.float64)
    module.router.weight = torch.nn.Parameter(wanted[:, None])
    _, chosen, _ = module.router(x)
    assert sorted(chosen[0].tolist()) == [4, 5]


@pytest.mark.mechanism("F3")
@pytest.mark.case("V074")
def test_two_processes_that_use_different_experts_neither_hang_nor_part(tmp_path):
    here = ["-m", "tests.parts.uneven", f"file://{tmp_path}/meet"]
    pair = [subprocess.Popen([sys.executable, *here, str(rank)], stdout=subprocess.PIPE) for rank in (0, 1)]
    try:
        sums = [json.loads(process.communicate(timeout=60)[0]) for process in pair]
    finally:
        for process in pair:
            process.kill()
    # The second process sends most experts nothing; both have learned the same, and it is finite.
    assert sums[0]["parameters"] == sums[1]["parameters"]
    assert math.isfinite(sums[0]["parameters"])
    assert len(sums[1]["used"]) < len(sums[0]["used"])
    assert max(sums[0]["seconds"], sums[1]["seconds"]) < 30
