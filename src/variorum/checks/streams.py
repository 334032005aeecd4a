"""XLNet's two streams: what each may see, what its random orders average to, and what they leave in place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from variorum.attention.two_stream import permutation_mask, streams
from variorum.checks.finding import Finding, NotApplicable, above, equal, near
from variorum.checks.subjects import gap, words
from variorum.model import Model
from variorum.parts.where import Where

SEED, EXAMPLE = 7, [3, 0, 1, 5, 2, 4]
"""The order of six positions that torch.randperm gives under the seed."""
TOKENS, DRAWS, REPEATS = 5, 60, 400
Z = 1.96


def two_stream_masks() -> Iterator[Finding]:
    """C11: content sees what came before it and itself; a query what came before it, and itself on no row."""
    order = torch.randperm(6, generator=torch.Generator().manual_seed(SEED))
    ranks = order.argsort()[None]
    content, query = views(ranks)
    yield equal("the example's order", order.tolist(), EXAMPLE, f"torch.randperm(6) under seed {SEED}")
    how = f"tokens seen by each of six positions in the order {EXAMPLE}"
    yield equal("content: rank_j ≤ rank_i", content.sum(-1).tolist(), (ranks[0] + 1).tolist(), how)
    yield equal("query: rank_j < rank_i", query.sum(-1).tolist(), ranks[0].tolist(), how)
    seen = [content.diagonal().int().tolist(), query.diagonal().int().tolist()]
    yield equal("the diagonals of both", seen, [[1] * 6, [0] * 6], "who sees itself")
    one_cell = content.clone()
    one_cell[EXAMPLE[0], EXAMPLE[0]] = False
    how = "rows on which the content mask without the target's own cell, as it is often drawn, is the query mask"
    yield equal("closing one cell is not enough", int((one_cell == query).all(-1).sum()), 1, how)


def views(ranks: Tensor) -> tuple[Tensor, Tensor]:
    """What the content and the query stream may see under ranks [1, T], bool [T, T] each."""
    length = ranks.shape[1]
    order = torch.arange(length)[None]
    where = Where(order, order, order, order)
    content, query = streams(where, permutation_mask(ranks), torch.eye(length)[None], torch.zeros(4), 1)
    assert content.allowed is not None and query is not None and query[1].allowed is not None
    return content.allowed[0], query[1].allowed[0]


@torch.no_grad()
def permutation_lm(model: Model) -> Iterator[Finding]:
    """C21: the mean over all T! orders is what a sample of orders estimates."""
    losses = _losses(model)
    exact = float(losses.mean())
    drawn = losses[torch.randint(len(losses), (REPEATS, DRAWS), generator=torch.Generator().manual_seed(0))]
    half = Z * drawn.std(-1) / math.sqrt(DRAWS)
    share = float(((drawn.mean(-1) - exact).abs() <= half).double().mean())
    how = f"a nano XLNet's loss under all {len(losses)} orders of {TOKENS} tokens; {REPEATS} samples of {DRAWS} orders"
    slack = 3 * math.sqrt(0.95 * 0.05 / REPEATS)
    yield near("95 % intervals of a sample hold the exact mean", share, 0.95, how, within=slack)
    spread = float(losses.std())
    how = f"all {len(losses)} orders, against all {REPEATS * DRAWS:,} draws; one order's spread is {spread:.3g}"
    within = 4 * spread / math.sqrt(REPEATS * DRAWS)
    yield near("the sample's mean, in nats a token", float(drawn.mean()), exact, how, within=within)


def _losses(model: Model) -> Tensor:
    """The loss of one text under every order of its tokens, nats a token, [T!]."""
    _permuted(model)
    orders = torch.tensor(list(itertools.permutations(range(TOKENS))))
    mask = permutation_mask(orders.argsort(-1))
    ids = words(1, TOKENS).expand(len(orders), -1)
    targets = torch.eye(TOKENS, dtype=torch.float64).expand(len(orders), -1, -1)
    scores = model(ids, perm_mask=mask, target_mapping=targets).logits_by_head["permutation_lm"].log_softmax(-1)
    return -scores.gather(-1, ids[..., None]).squeeze(-1).mean(-1)


@torch.no_grad()
def factorisation_order(model: Model) -> Iterator[Finding]:
    """C22: another order of prediction moves no position; another order of the text does."""
    _permuted(model)
    seen: list[Tensor] = []
    attention = model.get_submodule("encoder.layers.0.attention")
    watch = attention.register_forward_hook(lambda module, args, out: seen.append(args[3].k_positions))
    vectors = model.encoder.input.look(words(1, 6))
    ranks = torch.randperm(6, generator=torch.Generator().manual_seed(SEED)).argsort()[None]
    other = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    for one in (ranks, ranks[:, other]):
        model(inputs_embeds=vectors, perm_mask=permutation_mask(one))
    watch.remove()
    how = "positions of the keys in the first layer under two orders of prediction"
    yield equal("positions are those of the text", [one.tolist() for one in seen], [[list(range(6))]] * 2, how)
    plain, moved = (model(inputs_embeds=one).last_hidden_state for one in (vectors, vectors[:, other]))
    how = "states of the text in another order, put back, against its own"
    yield above("another order of the text is another text", gap(moved, plain[:, other]), 1e-3, how)


def _permuted(model: Model) -> None:
    if "permutation_lm" not in model.head_names:
        raise NotApplicable(f"{model.spec.name} predicts in no random order", remedy="name xlnet")
