"""XLNet's two streams: what each may see, by the example of the notes and by gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, made, words
from variorum.attention.two_stream import permutation_mask, streams
from variorum.parts.where import Where

#: torch.randperm(6) under seed 7: which position comes first, second …, and each position's rank.
ORDER = [3, 0, 1, 5, 2, 4]
RANKS = torch.tensor([[1, 2, 4, 0, 5, 3]])


def views(ranks: Tensor) -> tuple[Tensor, Tensor]:
    """What the content and the query stream may see, bool [T, T] each."""
    length = ranks.shape[1]
    order = torch.arange(length)[None]
    where = Where(order, order, order, order)
    content, query = streams(where, permutation_mask(ranks), torch.eye(length)[None], torch.zeros(4), 1)
    return content.allowed[0], query[1].allowed[0]


def reach(output: Tensor, vectors: Tensor) -> Tensor:
    """True where an output row depends on an input row, [rows, T]."""
    rows = []
    for row in output[0]:
        (grad,) = torch.autograd.grad(row.sum(), vectors, retain_graph=True)
        rows.append(grad[0].abs().sum(-1) > 0)
    return torch.stack(rows)


@pytest.mark.mechanism("A12")
def test_the_example_order_is_the_one_that_its_seed_gives():
    assert torch.randperm(6, generator=torch.Generator().manual_seed(7)).tolist() == ORDER
    assert torch.tensor(ORDER).argsort().tolist() == RANKS[0].tolist()


@pytest.mark.mechanism("A12", "C11")
def test_content_sees_itself_and_what_came_before_and_a_query_only_what_came_before():
    content, query = views(RANKS)
    ranks = RANKS[0]
    assert torch.equal(content, ranks[None, :] <= ranks[:, None])
    assert torch.equal(query, ranks[None, :] < ranks[:, None])
    assert content[3].int().tolist() == [0, 0, 0, 1, 0, 0]
    assert content.sum(-1).tolist() == [2, 3, 5, 1, 6, 4]
    assert query.sum(-1).tolist() == [1, 2, 4, 0, 5, 3]


@pytest.mark.mechanism("C11", "A12")
def test_the_diagonal_is_open_to_content_and_closed_to_queries_on_every_row():
    """A mask that closes the target's own cell alone is right on one row of six."""
    content, query = views(RANKS)
    one_cell = content.clone()
    one_cell[3, 3] = False
    assert content.diagonal().all()
    assert not query.diagonal().any()
    assert one_cell.diagonal().int().tolist() == [1, 1, 1, 0, 1, 1]
    assert (one_cell == query).all(-1).tolist() == [False, False, False, True, False, False]


@pytest.mark.mechanism("A12", "O5")
def test_the_first_token_of_the_order_sees_nothing_and_still_gets_a_finite_prediction():
    model = made("xlnet", "permutation_lm")
    first = torch.zeros(2, 1, 6, dtype=torch.float64)
    first[:, 0, 3] = 1
    ids = words(2, 6)
    out = model(ids, perm_mask=permutation_mask(RANKS).expand(2, -1, -1), target_mapping=first)
    assert out.logits.isfinite().all()
    # It rests on no text at all: both rows say the same.
    assert gap(out.logits[0], out.logits[1]) < 1e-12


@pytest.mark.mechanism("A12", "O5")
def test_a_query_depends_on_earlier_tokens_alone_and_never_on_its_own():
    model = made("xlnet")
    vectors = model.encoder.input.table(words(1, 6)).detach().requires_grad_()
    given = {"inputs_embeds": vectors, "perm_mask": permutation_mask(RANKS)}
    everything = torch.eye(6, dtype=torch.float64)[None]
    content, query = views(RANKS)
    assert torch.equal(reach(model(**given).last_hidden_state, vectors), content)
    assert torch.equal(reach(model(**given, target_mapping=everything).last_hidden_state, vectors), query)


@pytest.mark.mechanism("O5")
def test_a_mask_for_all_pairs_and_a_row_for_each_target():
    model = made("xlnet", "permutation_lm")
    ranks = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(s)) for s in range(2)])
    mask = permutation_mask(ranks)
    assert mask.shape == (2, 9, 9)
    assert mask.sum((1, 2)).tolist() == [45, 45]  # T(T + 1)/2 pairs closed, self among them
    last = ranks.argsort(-1)[:, -3:]  # predict the last third of the order
    targets = torch.nn.functional.one_hot(last, 9).double()
    out = model(words(2, 9), perm_mask=mask, target_mapping=targets)
    assert out.logits.shape == (2, 3, 50)
    every = model(words(2, 9), perm_mask=mask, target_mapping=torch.eye(9).double().expand(2, -1, -1)).logits
    assert gap(out.logits, torch.stack([every[b, last[b]] for b in range(2)])) < 1e-12


@pytest.mark.mechanism("C22")
def test_another_factorisation_moves_no_position_but_another_text_order_does():
    model = made("xlnet")
    seen: list[Tensor] = []
    attention = model.encoder.layers[0].attention
    attention.register_forward_hook(lambda module, args, out: seen.append(args[3].k_positions))
    vectors = model.encoder.input.table(words(1, 6))
    other = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    mask, mask_of_other = permutation_mask(RANKS), permutation_mask(RANKS[:, other])
    model(inputs_embeds=vectors, perm_mask=mask)
    model(inputs_embeds=vectors, perm_mask=mask_of_other)
    assert seen[0].tolist() == seen[1].tolist() == [[0, 1, 2, 3, 4, 5]]
    plain, moved = (model(inputs_embeds=v).last_hidden_state for v in (vectors, vectors[:, other]))
    assert gap(moved, plain[:, other]) > 1e-3


@pytest.mark.mechanism("C22")
def test_order_positions_are_those_of_the_text_even_when_it_is_listed_in_another_order():
    model = made("xlnet")
    other = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    ids = words(1, 6)
    listed = model(ids[:, other], position_ids=other[None])
    assert gap(listed.last_hidden_state, model(ids).last_hidden_state[:, other]) < 1e-12
