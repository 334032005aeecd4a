"""The product's attention equals the teaching text to 1e-12, in every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference.attention import Weights, attend, multi_head_attention, visible

from tests.attention.given import Given
from variorum.attention.attention import Attention
from variorum.attention.backends import BACKENDS, Scores
from variorum.attention.masks import Mask
from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where, order_from_mask
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.attention import Attention as Spec

EXACT = 1e-12
B, T, H, d = 3, 11, 6, 5
PADDING = np.arange(T)[None, :] < np.array([T, 7, 1])[:, None]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def where(padding: np.ndarray | None) -> Where:
    mask = None if padding is None else torch.from_numpy(padding)
    order = order_from_mask(mask, T, torch.device("cpu"))
    return Where(order, order, order, order, padded=mask is not None)


def gap_on_real_rows(ours: torch.Tensor, reference: np.ndarray, padding: np.ndarray | None) -> float:
    """Largest difference; rows of padding are undefined. Arrays are [B, …, T, channels]."""
    difference = np.abs(ours.detach().numpy() - reference).max(axis=-1)
    if padding is not None:
        difference = np.where(padding.reshape(B, *[1] * (difference.ndim - 2), T), difference, 0.0)
    return float(difference.max())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
@pytest.mark.parametrize(("causal", "window"), [(False, None), (False, 3), (True, None), (True, 4)])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_every_backend_is_the_reference(backend, padding, causal, window, kv_heads):
    q, k, v = drawn(B, H, T, d, seed=1), drawn(B, kv_heads, T, d, seed=2), drawn(B, kv_heads, T, d + 1, seed=3)
    bias = drawn(1, H, T, T, seed=4)
    see = visible(T, T, causal=causal, window=window, padding=padding)
    # The product counts a two-sided window by its whole width, as ModernBERT's configuration does.
    mask = Mask(causal=causal, window=window if causal or window is None else 2 * window)
    for added in (None, bias):
        right, _ = attend(q, k, v, see=see, bias=added, scale=0.4)
        scores = Scores(scale=0.4, positions=Given(after=None if added is None else torch.from_numpy(added)))
        ours, _ = BACKENDS[backend](*map(torch.from_numpy, (q, k, v)), scores, mask, where(padding))
        assert gap_on_real_rows(ours, right, padding) < EXACT


@pytest.mark.mechanism("A1", "A2", "A8")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kv_heads", [2, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_the_layer_is_the_reference(backend, kv_heads, causal):
    spec = Spec(heads=H, kv_heads=kv_heads, head_dim=d, bias=ALL_PROJECTIONS)
    layer = Attention(spec, width=16, positions=LayerPositions()).double()
    for index, parameter in enumerate(layer.parameters()):
        parameter.data = torch.from_numpy(drawn(*parameter.shape, seed=index) / 4)
    parts = (layer.query, layer.key, layer.value, layer.out)
    weights = Weights(*[p.weight.detach().numpy() for p in parts], *[p.bias.detach().numpy() for p in parts])
    x = drawn(B, T, 16)
    right, right_maps = multi_head_attention(x, weights, heads=H, kv_heads=kv_heads, causal=causal, padding=PADDING)
    place, mask, given = where(PADDING), Mask(causal=causal), torch.from_numpy(x)
    ours, maps = layer(given, given, place, place, mask, backend=backend, maps=backend == "eager")
    assert gap_on_real_rows(ours, right, PADDING) < EXACT
    if maps is not None:
        assert gap_on_real_rows(maps, right_maps, PADDING) < EXACT


@pytest.mark.mechanism("A14")
def test_eager_softcaps_as_the_reference_does():
    q, k, v = (9 * drawn(B, H, T, d, seed=s) for s in range(3))
    right, _ = attend(q, k, v, softcap=3.0)
    ours, _ = BACKENDS["eager"](
        *map(torch.from_numpy, (q, k, v)), Scores(scale=d**-0.5, softcap=3.0), Mask(causal=False), where(None)
    )
    assert gap_on_real_rows(ours, right, None) < EXACT
