"""Every way to compute attention gives what the definition gives, also where nothing may be seen."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.attention.given import Given
from tests.tiny_specs import gap
from variorum.attention.backends import BACKENDS, Scores, choose
from variorum.attention.masks import Mask
from variorum.errors import UsageError
from variorum.parts.where import Where, order_from_mask


def where(length: int, mask: list[list[int]] | None = None) -> Where:
    order = order_from_mask(None if mask is None else torch.tensor(mask), length, torch.device("cpu"))
    return Where(order, order, order, order, padded=mask is not None)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.requires_grad_()


def attend(backend: str, qkv: tuple[Tensor, ...], scores: Scores, mask: Mask, at: Where) -> tuple[Tensor, list[Tensor]]:
    """The output and the gradient of its squares for q, k and v."""
    out, _ = BACKENDS[backend](*qkv, scores, mask, at)
    return out, list(torch.autograd.grad(out.square().sum(), qkv))


@pytest.mark.mechanism("A1")
@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_is_a_softmax_of_scaled_products(backend):
    q, k, v = (drawn(2, 3, 7, 4, seed=s) for s in range(3))
    out, _ = attend(backend, (q, k, v), Scores(scale=0.5), Mask(causal=False), where(7))
    assert gap(out, (q @ k.transpose(-1, -2) * 4**-0.5).softmax(-1) @ v) < 1e-14


@pytest.mark.mechanism("A7", "A8")
@pytest.mark.case("V016")
@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbouring_query_heads_read_the_same_key_value_head(backend):
    q, k = drawn(1, 4, 3, 2), drawn(1, 2, 3, 2, seed=1)
    v = torch.stack([torch.zeros(3, 1), torch.ones(3, 1)])[None].double()
    out, _ = BACKENDS[backend](q, k, v, Scores(scale=1.0), Mask(causal=False), where(3))
    assert out[0, :, 0, 0].tolist() == pytest.approx([0, 0, 1, 1], abs=1e-15)


@pytest.mark.mechanism("A7", "A8")
@pytest.mark.case("V016")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_sharing_equals_as_many_heads_with_the_shared_ones_written_out(backend, kv_heads):
    q, k, v = drawn(2, 4, 7, 3), drawn(2, kv_heads, 7, 3, seed=1), drawn(2, kv_heads, 7, 3, seed=2)
    scores, mask = Scores(scale=0.7), Mask(causal=True)
    shared, _ = BACKENDS[backend](q, k, v, scores, mask, where(7))
    written = (q, *(x.repeat_interleave(4 // kv_heads, 1) for x in (k, v)))
    assert gap(shared, BACKENDS[backend](*written, scores, mask, where(7))[0]) < 1e-14


@pytest.mark.mechanism("A6")
@pytest.mark.case("V004")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masks", [[[1] * 4, [0] * 4], [[0, 0, 1, 1], [1, 1, 1, 1]]], ids=["empty row", "left"])
def test_a_query_that_sees_nothing_yields_zero_and_passes_no_gradient(backend, causal, masks):
    qkv = tuple(drawn(2, 2, 4, 3, seed=s) for s in range(3))
    out, grads = attend(backend, qkv, Scores(scale=1.0), Mask(causal=causal), where(4, masks))
    hidden = torch.tensor(masks) == 0
    for what in (out, *grads):
        assert what.isfinite().all()
        assert (what.transpose(1, 2)[hidden] == 0).all()
    whole = masks.index([1] * 4)
    alone, _ = attend(backend, tuple(x[whole, None] for x in qkv), Scores(scale=1.0), Mask(causal=causal), where(4))
    assert gap(out[whole], alone[0]) < 1e-14


@pytest.mark.mechanism("A1", "A6", "A9")
@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("extra", ["nothing", "bias", "added", "both"])
@pytest.mark.parametrize("mask", [Mask(causal=c, window=w) for c in (False, True) for w in (None, 4)], ids=str)
@pytest.mark.parametrize("masks", [None, [[1] * 9, [0] * 4 + [1] * 5], [[1] * 9, [1] * 2 + [0] * 7]])
def test_all_backends_agree_in_value_and_gradient(kv_heads, extra, mask, masks):
    qkv = drawn(2, 4, 9, 3), drawn(2, kv_heads, 9, 3, seed=1), drawn(2, kv_heads, 9, 3, seed=2)
    before = drawn(2, 4, 9, 9, seed=3).detach() if extra in ("added", "both") else None
    after = drawn(1, 4, 9, 9, seed=4).detach() if extra in ("bias", "both") else None
    scores = Scores(scale=0.6, positions=Given(before, after))
    right, right_grads = attend("eager", qkv, scores, mask, where(9, masks))
    for backend in BACKENDS:
        ours, grads = attend(backend, qkv, scores, mask, where(9, masks))
        assert gap(ours, right) < 1e-13
        assert max(gap(a, b) for a, b in zip(grads, right_grads, strict=True)) < 1e-12


@pytest.mark.mechanism("A9")
@pytest.mark.case("V012")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 7])
def test_a_window_cuts_a_text_of_any_length_the_same_in_every_backend(causal, window):
    """A two-sided window of W is no window only up to W/2 + 1 tokens; a fused kernel must not skip it before."""
    for length in range(1, 10):
        qkv = tuple(drawn(1, 2, length, 3, seed=s).detach() for s in range(3))
        mask, scores = Mask(causal=causal, window=window), Scores(scale=1.0)
        right, maps = BACKENDS["eager"](*qkv, scores, mask, where(length))
        reach = window - 1 if causal else window // 2
        distance = (torch.arange(length)[:, None] - torch.arange(length)[None]).abs()
        assert (maps[..., distance > reach] == 0).all()
        for backend in BACKENDS:
            assert gap(BACKENDS[backend](*qkv, scores, mask, where(length))[0], right) < 1e-13


@pytest.mark.mechanism("A14")
def test_a_softcap_bends_scores_below_its_bound():
    q, k, v = (9 * drawn(1, 2, 5, 3, seed=s) for s in range(3))
    out, maps = BACKENDS["eager"](q, k, v, Scores(scale=1.0, softcap=2.0), Mask(causal=False), where(5))
    capped = 2 * (q @ k.transpose(-1, -2) / 2).tanh()
    assert gap(maps, capped.softmax(-1)) < 1e-14
    assert float(maps.detach().min()) > torch.exp(torch.tensor(-4.0)) / 5  # no score beyond ±2 hides a key
    assert gap(out, capped.softmax(-1) @ v) < 1e-13


@pytest.mark.mechanism("A14")
def test_what_a_backend_cannot_do_it_refuses_and_auto_goes_around():
    capped = Scores(scale=1.0, softcap=50.0)
    q = drawn(1, 1, 2, 2)
    with pytest.raises(UsageError, match="no softcap; use backend='tiled' or 'eager'"):
        BACKENDS["sdpa"](q, q, q, capped, Mask(causal=False), where(2))
    for fused in ("sdpa", "tiled"):
        with pytest.raises(UsageError, match="keeps no attention maps"):
            choose(fused, Scores(scale=1.0), maps=True)
    with pytest.raises(UsageError, match="one of auto, eager, sdpa, tiled"):
        choose("flash9", Scores(scale=1.0), maps=False)
    assert choose("auto", capped, maps=False) is choose("auto", Scores(scale=1.0), maps=True) is BACKENDS["eager"]
    assert choose("auto", Scores(scale=1.0), maps=False) is BACKENDS["sdpa"]


@pytest.mark.mechanism("A1")
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_is_within_its_rounding_of_the_definition(backend):
    qkv = tuple(drawn(2, 2, 9, 8, seed=s).detach() for s in range(3))
    right, _ = BACKENDS["eager"](*qkv, Scores(scale=8**-0.5), Mask(causal=True), where(9))
    for dtype, limit in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float32, 1e-6)):
        ours, _ = BACKENDS[backend](*(x.to(dtype) for x in qkv), Scores(scale=8**-0.5), Mask(causal=True), where(9))
        assert ours.dtype == dtype
        assert gap(ours.double(), right) < limit
