"""Clustered words: narrow vectors for rare ones, and a softmax that chooses a cluster before a word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tiny_specs import gap, made, tiny, words
from variorum.model import Model
from variorum.parts.clusters import AdaptiveSoftmax, ClusteredTable
from variorum.spec.heads import AdaptiveSoftmax as Head
from variorum.spec.inputs import Clusters, TokenInput

CLUSTERS = Clusters(cutoffs=(4, 9), divide=2)
VOCAB, RANK, WIDTH = 20, 8, 6
RUNS = ((0, 4, 8), (4, 9, 4), (9, 20, 2))


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(module: torch.nn.Module) -> Any:
    module = module.double()
    for number, parameter in enumerate(module.parameters()):
        parameter.data = noise(*parameter.shape, seed=number)
    return module


def softmax() -> AdaptiveSoftmax:
    return filled(AdaptiveSoftmax(Head(), TokenInput(vocab=VOCAB, rank=RANK, clusters=CLUSTERS), WIDTH))


def test_runs_of_ids_have_tables_of_falling_rank() -> None:
    assert CLUSTERS.tables(VOCAB, RANK) == [(end - begin, rank) for begin, end, rank in RUNS]
    wt103 = Clusters(cutoffs=(20_000, 40_000, 200_000)).tables(267_735, 1024)
    assert wt103 == [(20_000, 1024), (20_000, 256), (160_000, 64), (67_735, 16)]


def test_every_id_is_looked_up_in_its_own_cluster() -> None:
    table = filled(ClusteredTable(CLUSTERS, VOCAB, RANK, WIDTH))
    right = torch.cat([rows.weight @ up.weight.T for rows, up in zip(table.tables, table.projects, strict=True)])
    ids = torch.arange(VOCAB).view(2, 10)
    assert gap(table(ids), right[ids]) < 1e-12
    (grad,) = torch.autograd.grad(table(torch.tensor([[5, 5, 0]])).sum(), table.tables[1].weight)
    assert (grad.abs().sum(-1) > 0).tolist() == [False, True, False, False, False]


@pytest.mark.mechanism("C17")
def test_a_words_probability_is_its_clusters_times_its_own_within_it() -> None:
    head, x = softmax(), noise(3, 5, WIDTH, seed=9)
    scores = head(x)
    assert scores.shape == (3, 5, VOCAB)
    assert gap(scores.exp().sum(-1), torch.ones(3, 5, dtype=torch.float64)) < 1e-12
    inner = x @ head.projects[0].weight
    first = torch.cat((inner @ head.tables[0].weight.T + head.tables[0].bias, head.clusters(inner)), -1).softmax(-1)
    assert gap(scores[..., :4].exp(), first[..., :4]) < 1e-12
    for number, (begin, end, _) in enumerate(RUNS[1:], 1):
        table = head.tables[number]
        within = (x @ head.projects[number].weight @ table.weight.T + table.bias).softmax(-1)
        assert gap(scores[..., begin:end].exp(), first[..., 3 + number, None] * within) < 1e-12


class Operations(TorchDispatchMode):
    """Counts the numbers that matrix products make."""

    made = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.made += result.numel() if "mm" in func.__name__ else 0
        return result


@pytest.mark.mechanism("C24")
@pytest.mark.parametrize("labels", [(0, 3, 1), (5, 8, 4), (19, 9, 2), (-100, 19, -100), (-100, -100, -100)])
def test_the_loss_is_minus_the_mean_log_probability_and_so_is_its_gradient(labels: tuple[int, ...]) -> None:
    head, x, targets = softmax(), noise(3, WIDTH, seed=9).requires_grad_(), torch.tensor(labels)
    real = targets >= 0
    loss = head.loss(x, targets)
    right = -head(x)[real].gather(-1, targets[real][:, None]).sum() / max(int(real.sum()), 1)
    assert gap(loss, right) < 1e-12
    inputs = (x, *head.parameters())
    ours, theirs = (torch.autograd.grad(one, inputs, allow_unused=True) for one in (loss, right))
    for left, other in zip(ours, theirs, strict=True):
        blank = torch.zeros(1, dtype=torch.float64)
        assert float(((blank if left is None else left) - (blank if other is None else other)).abs().max()) < 1e-12


def test_a_loss_scores_no_cluster_that_it_does_not_need() -> None:
    head, x = softmax(), noise(50, WIDTH, seed=9)
    counted = {}
    for name, label in (("frequent", 1), ("rare", 19)):
        with Operations() as watch:
            head.loss(x, torch.full((50,), label))
        counted[name] = watch.made
    assert counted["frequent"] == 50 * (RANK + 4 + 2)
    assert counted["rare"] == counted["frequent"] + 50 * (2 + 11)
    with Operations() as watch:
        head.loss(x, torch.tensor([-100] * 49 + [1]))
    assert watch.made == RANK + 4 + 2


def lm(seed: int = 0) -> Model:
    return made(tiny("transformer-xl"), "causal_lm", seed)


@pytest.mark.mechanism("E2")
def test_tables_and_all_projections_but_the_first_are_the_inputs() -> None:
    model = lm()
    head, table = model.heads["causal_lm"], model.decoder.input.table
    shared = [own.weight is other.weight for own, other in zip(head.tables, table.tables, strict=True)]
    lent = [own.weight is other.weight for own, other in zip(head.projects, table.projects, strict=True)]
    assert shared == [True] * 4 and lent == [False, True, True, True]


def test_a_model_gives_the_loss_of_next_words_and_then_no_scores() -> None:
    model, ids = lm(), words(2, 9)
    labels = ids.clone()
    labels[0, 4] = -100
    out, scores = model(ids, labels=labels), model(ids).logits
    assert out.logits is None and scores.shape == (2, 9, 50)
    right = torch.nn.functional.nll_loss(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    assert gap(out.loss, right) < 1e-12
