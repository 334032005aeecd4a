"""XLNet's two streams: what each may see, by the example of the notes and by gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.checks.held import held
from tests.tiny_specs import gap, made, words
from variorum.attention.two_stream import permutation_mask
from variorum.checks.streams import factorisation_order, permutation_lm, two_stream_masks, views

#: Each position's place in the order 3, 0, 1, 5, 2, 4, which torch.randperm(6) gives under seed 7.
RANKS = torch.tensor([[1, 2, 4, 0, 5, 3]])


def reach(output: Tensor, vectors: Tensor) -> Tensor:
    """True where an output row depends on an input row, [rows, T]."""
    rows = []
    for row in output[0]:
        (grad,) = torch.autograd.grad(row.sum(), vectors, retain_graph=True)
        rows.append(grad[0].abs().sum(-1) > 0)
    return torch.stack(rows)


@pytest.mark.mechanism("A12", "C11")
def test_content_sees_itself_and_what_came_before_and_a_query_only_what_came_before():
    held(two_stream_masks())
    content, query = views(RANKS)
    assert torch.equal(content, RANKS[0][None, :] <= RANKS[0][:, None])
    assert torch.equal(query, RANKS[0][None, :] < RANKS[0][:, None])
    assert content[3].int().tolist() == [0, 0, 0, 1, 0, 0]


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


@pytest.mark.mechanism("C21", "C22")
def test_another_factorisation_moves_no_position_and_all_of_them_average_to_what_a_sample_estimates():
    model = made("xlnet", "permutation_lm")
    held(factorisation_order(model))
    held(permutation_lm(model))


@pytest.mark.mechanism("C22")
def test_order_positions_are_those_of_the_text_even_when_it_is_listed_in_another_order():
    model = made("xlnet")
    other = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    ids = words(1, 6)
    listed = model(ids[:, other], position_ids=other[None])
    assert gap(listed.last_hidden_state, model(ids).last_hidden_state[:, other]) < 1e-12
