"""The teaching text computes what torch computes, to 1e-12 in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference.attention import Weights, attend, join, multi_head_attention, softmax, split, visible
from torch.nn.functional import scaled_dot_product_attention

EXACT = 1e-12
B, Q, T, H, d = 2, 7, 9, 6, 5


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def torch_attends(q, k, v, **options) -> np.ndarray:
    options = {n: torch.from_numpy(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    return scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **options).numpy()


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max())


@pytest.mark.mechanism("A1")
@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
def test_plain_attention_is_scaled_dot_products_through_a_softmax(scale):
    q, k, v = drawn(B, H, Q, d, seed=1), drawn(B, H, T, d, seed=2), drawn(B, H, T, d + 2, seed=3)
    ours, weights = attend(q, k, v, scale=scale)
    assert gap(ours, torch_attends(q, k, v, scale=scale)) < EXACT
    assert gap(weights.sum(-1), np.ones((B, H, Q))) < EXACT


@pytest.mark.mechanism("A8", "A7")
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_query_heads_share_neighbouring_key_value_heads(kv_heads):
    q, k, v = drawn(B, H, Q, d, seed=1), drawn(B, kv_heads, T, d, seed=2), drawn(B, kv_heads, T, d, seed=3)
    assert gap(attend(q, k, v)[0], torch_attends(q, k, v, enable_gqa=True)) < EXACT


@pytest.mark.case("V016")
def test_four_query_heads_over_two_read_0_0_1_1():
    q, k = drawn(1, 4, 1, d), drawn(1, 2, 3, d)
    v = np.stack([np.zeros((3, 1)), np.ones((3, 1))])[None]
    assert attend(q, k, v)[0].ravel() == pytest.approx([0, 0, 1, 1], abs=EXACT)


@pytest.mark.mechanism("A4")
def test_causal_attention_equals_torch():
    q, k, v = (drawn(B, H, T, d, seed=s) for s in range(3))
    ours, weights = attend(q, k, v, see=visible(T, T, causal=True))
    assert gap(ours, torch_attends(q, k, v, is_causal=True)) < EXACT
    assert not weights[..., np.triu_indices(T, 1)[0], np.triu_indices(T, 1)[1]].any()


@pytest.mark.case("V014")
def test_queries_are_the_last_positions_when_keys_come_from_a_cache():
    assert visible(2, 5, causal=True)[0, 0].astype(int).tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


@pytest.mark.mechanism("A9")
@pytest.mark.case("V012")
def test_a_causal_window_of_four_shows_four_keys_self_included():
    see = visible(6, 6, causal=True, window=4)[0, 0]
    assert see.sum(-1).tolist() == [1, 2, 3, 4, 4, 4]
    assert np.flatnonzero(see[5]).tolist() == [2, 3, 4, 5]
    assert (visible(6, 6, causal=True, window=6) == visible(6, 6, causal=True)).all()


@pytest.mark.mechanism("A9")
def test_an_encoder_window_reaches_equally_far_to_both_sides():
    assert np.flatnonzero(visible(9, 9, window=2)[0, 0, 4]).tolist() == [2, 3, 4, 5, 6]


@pytest.mark.mechanism("A6")
@pytest.mark.parametrize("causal", [False, True])
def test_padding_and_bias_equal_torchs_additive_mask(causal):
    q, k, v = (drawn(B, H, T, d, seed=s) for s in range(3))
    bias = drawn(1, H, T, T, seed=4)
    padding = np.ones((B, T), dtype=bool)
    padding[1, 6:] = False
    see = visible(T, T, causal=causal, padding=padding)
    added = np.where(see, bias, -np.inf)
    assert gap(attend(q, k, v, see=see, bias=bias)[0], torch_attends(q, k, v, attn_mask=added)) < EXACT


@pytest.mark.case("V004")
def test_a_query_that_sees_nothing_yields_zero_not_nan():
    q, k, v = (drawn(2, H, 4, d, seed=s) for s in range(3))
    padding = np.array([[True] * 4, [False] * 4])
    ours, weights = attend(q, k, v, see=visible(4, 4, padding=padding))
    assert not ours[1].any()
    assert not weights[1].any()
    assert gap(ours[0], attend(q[:1], k[:1], v[:1])[0][0]) < EXACT


def test_scores_of_a_thousand_do_not_overflow():
    scores = np.array([[1000.0, 999.0, -1000.0]])
    see = np.ones_like(scores, dtype=bool)
    assert gap(softmax(scores, see), torch.softmax(torch.from_numpy(scores), -1).numpy()) < EXACT


@pytest.mark.mechanism("A14")
def test_a_softcap_bounds_the_scores():
    q, k, v = 30 * drawn(B, H, Q, d, seed=1), drawn(B, H, T, d, seed=2), drawn(B, H, T, d, seed=3)
    capped = 5 * torch.tanh(torch.from_numpy(q @ k.swapaxes(-1, -2)) * d**-0.5 / 5)
    right = (capped.softmax(-1) @ torch.from_numpy(v)).numpy()
    assert gap(attend(q, k, v, softcap=5.0)[0], right) < EXACT


@pytest.mark.mechanism("A2")
@pytest.mark.parametrize("cross", [False, True])
def test_the_layer_equals_torchs_multi_head_attention(cross):
    layer = torch.nn.MultiheadAttention(H * d, H, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(layer.in_proj_bias)
    torch.nn.init.normal_(layer.out_proj.bias)
    matrices = [m.detach().numpy() for m in layer.in_proj_weight.chunk(3)]
    biases = [b.detach().numpy() for b in layer.in_proj_bias.chunk(3)]
    weights = Weights(*matrices, layer.out_proj.weight.detach().numpy(), *biases, layer.out_proj.bias.detach().numpy())
    x, memory = drawn(B, Q, H * d, seed=5), drawn(B, T, H * d, seed=6) if cross else None
    answering = torch.from_numpy(x if memory is None else memory)
    padding = np.ones((B, answering.shape[1]), dtype=bool)
    padding[0, 4:] = False
    right, right_map = layer(
        torch.from_numpy(x), answering, answering, key_padding_mask=torch.from_numpy(~padding),
        average_attn_weights=False,
    )  # fmt: skip
    ours, ours_map = multi_head_attention(x, weights, heads=H, memory=memory, padding=padding)
    assert gap(ours, right.detach().numpy()) < EXACT
    assert gap(ours_map, right_map.detach().numpy()) < EXACT


def test_joining_heads_undoes_splitting_them():
    x = drawn(B, T, H * d)
    assert (join(split(x, H)) == x).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attend(drawn(1, 4, 3, 5), drawn(1, 3, 3, 5), drawn(1, 3, 3, 5)), "4 query heads cannot share 3"),
        (lambda: attend(drawn(1, 4, 3, 5), drawn(1, 4, 3, 6), drawn(1, 4, 3, 5)), r"k should have shape .*5\]"),
        (lambda: attend(drawn(1, 4, 3, 5), drawn(1, 4, 3, 5), drawn(1, 4, 2, 5)), r"v should have .* \[1, 4, 2, 5\]"),
        (lambda: split(drawn(1, 3, 10), 3), "3 heads do not divide a width of 10"),
        (lambda: visible(2, 3, padding=np.ones((1, 4), dtype=bool)), "padding should have shape"),
        (lambda: visible(4, 3, causal=True), "4 queries cannot be the last of 3"),
        (lambda: attend(*[drawn(1, 4, 3, 5)] * 3, bias=drawn(1, 2, 3, 3)), "bias should have shape"),
    ],
)
def test_a_shape_that_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
