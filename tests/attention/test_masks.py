"""Who sees whom: one symbolic mask for causal, windowed, padded and packed text, and the patterns of whole models."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import WINDOW, made, run, tiny, words
from variorum.attention.backends import BACKENDS, Scores
from variorum.attention.masks import Mask
from variorum.family import find
from variorum.parts.where import Where, order_from_mask


def line(queries: int, keys: int | None = None, mask: list[list[int]] | None = None) -> Where:
    """The last ``queries`` of ``keys`` slots, by an attention mask where there is one."""
    given = None if mask is None else torch.tensor(mask)
    order = order_from_mask(given, keys or queries, torch.device("cpu"))
    last = order[:, -queries:]
    return Where(last, order, last, order, padded=mask is not None)


def seen(mask: Mask, where: Where) -> list[list[int]]:
    """Row by row, 1 where a query sees a key."""
    return mask.visible(where)[0, 0].int().tolist()


def counts(mask: Mask, where: Where) -> list[int]:
    return [sum(row) for row in seen(mask, where)]


@pytest.mark.mechanism("A3", "A4")
def test_an_encoder_sees_all_and_a_decoder_only_what_came_before():
    assert seen(Mask(causal=False), line(3)) == [[1, 1, 1]] * 3
    assert seen(Mask(causal=True), line(3)) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.mechanism("K1")
@pytest.mark.case("V014")
def test_two_queries_over_five_keys_are_the_last_two():
    assert seen(Mask(causal=True), line(2, 5)) == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


@pytest.mark.mechanism("A6")
@pytest.mark.parametrize("mask", [[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1]])
def test_padding_neither_sees_nor_is_seen_wherever_it_stands(mask):
    where = line(5, mask=[mask])
    assert seen(Mask(causal=False), where) == [mask if real else [0] * 5 for real in mask]
    assert counts(Mask(causal=True), where) == [sum(mask[: i + 1]) if real else 0 for i, real in enumerate(mask)]


@pytest.mark.mechanism("A9")
@pytest.mark.case("V012")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_causal_window_of_four_shows_four_keys_self_included(backend):
    windowed, where = Mask(causal=True, window=4), line(6)
    assert counts(windowed, where) == [1, 2, 3, 4, 4, 4]
    assert seen(windowed, where)[5] == [0, 0, 1, 1, 1, 1]
    # What a backend really sums: with equal scores each value has weight 1 / keys seen.
    q, v = torch.zeros(1, 1, 6, 2), torch.eye(6)[None, None]
    out, _ = BACKENDS[backend](q, q, v, Scores(scale=1.0), windowed, line(6))
    assert ((out[0, 0] > 0).sum(-1)).tolist() == [1, 2, 3, 4, 4, 4]
    for none in (0, None, 6, 99):
        assert counts(Mask(causal=True, window=none), where) == [1, 2, 3, 4, 5, 6]
        same, _ = BACKENDS[backend](q, q, v, Scores(scale=1.0), Mask(causal=True, window=none), line(6))
        full, _ = BACKENDS[backend](q, q, v, Scores(scale=1.0), Mask(causal=True), line(6))
        assert torch.allclose(same, full, atol=1e-6)


@pytest.mark.mechanism("A9")
@pytest.mark.case("V012")
def test_training_without_a_cache_sees_the_same_band():
    model = made(tiny("mistral", {"architecture.decoder.depth": 1, "architecture.decoder.block.attention.window": 4}))
    vectors = model.decoder.input.table(words(1, 6)).detach().requires_grad_()
    model.train()
    out = model(inputs_embeds=vectors).last_hidden_state
    reach = []
    for position in range(6):
        (grad,) = torch.autograd.grad(out[0, position].sum(), vectors, retain_graph=True)
        reach.append(int((grad[0].abs().sum(-1) > 0).sum()))
    assert reach == [1, 2, 3, 4, 4, 4]


@pytest.mark.mechanism("A9")
def test_an_encoders_window_reaches_half_its_width_to_either_side():
    assert seen(Mask(causal=False, window=4), line(7))[3] == [0, 1, 1, 1, 1, 1, 0]
    assert counts(Mask(causal=False, window=4), line(7)) == [3, 4, 5, 5, 5, 4, 3]


@pytest.mark.mechanism("A4", "A9")
def test_packed_texts_do_not_see_each_other():
    where = line(5)
    packed = Where(
        where.q_positions, where.k_positions, where.q_order, where.k_order, padded=False,
        q_documents=torch.tensor([[0, 0, 1, 1, 1]]), k_documents=torch.tensor([[0, 0, 1, 1, 1]]),
    )  # fmt: skip
    assert counts(Mask(causal=True), packed) == [1, 2, 1, 2, 3]
    assert counts(Mask(causal=False), packed) == [2, 2, 3, 3, 3]


@pytest.mark.mechanism("A10")
def test_modernbert_is_global_every_third_layer_and_gemma_3_every_sixth():
    modernbert, gemma = find("ModernBERT-base").architecture.encoder, find("gemma-3-1b").architecture.decoder
    for stack, window, whole in ((modernbert, 128, [0, 3, 6, 9, 12, 15, 18, 21]), (gemma, 512, [5, 11, 17, 23])):
        windows = [stack.layer(i).attention.window for i in range(stack.depth)]
        assert [i for i, width in enumerate(windows) if width is None] == whole
        assert set(windows) == {None, window}
    thetas = [[stack.layer(i).positions.theta for i in (4, 5, 6)] for stack in (modernbert, gemma)]
    assert thetas == [[1e4, 1e4, 1.6e5], [1e4, 1e6, 1e4]]


@pytest.mark.mechanism("A10", "A9")
@pytest.mark.parametrize(("name", "whole"), [("modernbert", {0, 3}), ("gemma-3", {5}), ("gemma-2", {1, 3, 5})])
def test_the_maps_of_local_layers_are_bands_and_those_of_global_layers_are_not(name, whole):
    maps = run(made(name), words(2, 12), output_attentions=True).attentions
    distance = (torch.arange(12)[:, None] - torch.arange(12)[None]).abs()
    far = distance > WINDOW // 2 if name == "modernbert" else distance >= WINDOW
    for index, weights in enumerate(maps):
        assert torch.allclose(weights.sum(-1), torch.ones((), dtype=torch.float64), atol=1e-12)
        outside: Tensor = weights[..., far]
        assert bool((outside > 0).any()) == (index in whole)


@pytest.mark.mechanism("A10", "P6")
@pytest.mark.parametrize(("name", "path"), [("modernbert", "encoder"), ("gemma-3", "decoder")])
def test_local_and_global_layers_turn_at_their_own_base(name, path):
    layers = getattr(made(name), path).layers
    assert [layer.attention.positions.spec.theta for layer in layers] == [
        tiny(name).architecture.main.layer(i).positions.theta for i in range(6)
    ]
    assert len({layer.attention.positions.spec.theta for layer in layers}) == 2
