"""Attention in tiles with an online softmax: the definition's values and gradients, and never all scores at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tests import gates
from tests.attention.given import Given
from tests.tiny_specs import gap, made, run, tiny, words
from variorum.attention import tiled as module
from variorum.attention.backends import BACKENDS, BIASED, CAPPED, choose
from variorum.attention.masks import Mask
from variorum.attention.scores import Scores
from variorum.checks.counting import largest
from variorum.parts.where import Where, order_from_mask
from variorum.spec.positions import Alibi

LENGTH = 23  # neither the rows nor the columns of a tile divide it

MASKS = {
    "whole": None,
    "right": [[1] * LENGTH, [1] * 9 + [0] * 14],
    "left": [[1] * LENGTH, [0] * 14 + [1] * 9],
    "holes": [[1, 0, 1, 1] * 5 + [1] * 3, [0] * 5 + [1, 1, 0] * 6],
    "empty row": [[1] * LENGTH, [0] * LENGTH],
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 4 queries by 5 keys, so that a short text has many."""
    monkeypatch.setattr(module, "ROWS", 4)
    monkeypatch.setattr(module, "COLUMNS", 5)


def where(length: int, mask: list[list[int]] | None = None) -> Where:
    order = order_from_mask(None if mask is None else torch.tensor(mask), length, torch.device("cpu"))
    return Where(order, order, order, order, padded=mask is not None)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.requires_grad_()


def attend(backend: str, qkv: tuple[Tensor, ...], scores: Scores, mask: Mask, at: Where) -> list[Tensor]:
    """The output, and the gradient of its squares for q, k, v and what the positions learned."""
    out, _ = BACKENDS[backend](*qkv, scores, mask, at)
    learned = [x for x in scores.positions.tables(at) if x.requires_grad]
    return [out, *torch.autograd.grad(out.square().sum(), [*qkv, *learned])]


def agree(qkv: tuple[Tensor, ...], scores: Scores, mask: Mask, at: Where) -> None:
    right, ours = (attend(backend, qkv, scores, mask, at) for backend in ("eager", "tiled"))
    assert max(gap(a, b) for a, b in zip(ours, right, strict=True)) <= 1e-12


@pytest.mark.mechanism("A11", "C6", "A4", "A6", "A9")
@pytest.mark.parametrize("window", [None, 1, 4, 7, 30])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padding", MASKS)
def test_tiles_give_the_definitions_values_and_gradients_under_every_mask(causal, window, padding):
    qkv = drawn(2, 4, LENGTH, 3), drawn(2, 2, LENGTH, 3, seed=1), drawn(2, 2, LENGTH, 5, seed=2)
    agree(qkv, Scores(scale=0.6), Mask(causal=causal, window=window), where(LENGTH, MASKS[padding]))


@pytest.mark.mechanism("A11", "A14", "A8")
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("extra", ["nothing", "before", "after", "both"])
def test_shared_heads_biases_and_a_softcap_work_tile_by_tile_and_biases_learn(kv_heads, softcap, extra):
    qkv = drawn(2, 4, LENGTH, 3), drawn(2, kv_heads, LENGTH, 3, seed=1), drawn(2, kv_heads, LENGTH, 3, seed=2)
    before = drawn(2, 4, LENGTH, LENGTH, seed=3) if extra in ("before", "both") else None
    after = drawn(1, 4, LENGTH, LENGTH, seed=4) if extra in ("after", "both") else None
    scores = Scores(scale=0.6, positions=Given(before, after), softcap=softcap)
    agree(qkv, scores, Mask(causal=True), where(LENGTH, MASKS["holes"]))


@pytest.mark.mechanism("A11", "A5")
def test_few_queries_may_see_many_keys_of_their_own_choice():
    qkv, at = (drawn(2, 4, 6, 3), drawn(2, 4, LENGTH, 3, seed=1), drawn(2, 4, LENGTH, 3, seed=2)), where(LENGTH)
    allowed = torch.rand(2, 6, LENGTH, generator=torch.Generator().manual_seed(5)) < 0.3
    allowed[0, 2] = False
    some = Where(at.q_order[:, -6:], at.k_order, at.q_order[:, -6:], at.k_order, allowed=allowed)
    agree(qkv, Scores(scale=0.6), Mask(causal=True), some)


@pytest.mark.mechanism("A11", "A4")
def test_texts_packed_in_one_row_do_not_see_each_other():
    qkv, at = tuple(drawn(1, 2, LENGTH, 3, seed=s) for s in range(3)), where(LENGTH)
    texts = torch.tensor([[0] * 6 + [1] * 11 + [2] * 6])
    packed = Where(at.q_positions, at.k_positions, at.q_order, at.k_order, q_documents=texts, k_documents=texts)
    agree(qkv, Scores(scale=0.6), Mask(causal=False), packed)
    some, every = Mask(causal=False).blocks(packed, 4, 5)
    assert not some[0, 2:].any() and not every.any()


@pytest.mark.mechanism("A11", "A6")
def test_a_query_that_sees_nothing_yields_exactly_zero_and_passes_no_gradient():
    qkv = tuple(drawn(2, 2, LENGTH, 3, seed=s) for s in range(3))
    found = attend("tiled", qkv, Scores(scale=1.0), Mask(causal=True), where(LENGTH, MASKS["empty row"]))
    assert all(bool((x[1] == 0).all()) and bool(x.isfinite().all()) for x in found)


@pytest.mark.mechanism("A11", "A9")
@pytest.mark.case("V012")
def test_tiles_in_which_nothing_may_be_seen_are_never_computed(monkeypatch):
    """Beside the diagonal of a causal text, and outside a window."""
    done: list[tuple[int, int]] = []
    whole = module._Tiling.logits

    def watched(self, tile, cut):
        done.append((tile.rows.start // 4, tile.columns.start // 5))
        return whole(self, tile, cut)

    monkeypatch.setattr(module._Tiling, "logits", watched)
    qkv = tuple(drawn(1, 2, 40, 3, seed=s).detach() for s in range(3))
    for mask, right in (
        (Mask(causal=True), {(r, c) for r in range(10) for c in range(8) if 5 * c <= 4 * r + 3}),
        (Mask(causal=True, window=6), {(r, c) for r in range(10) for c in range(8) if 5 * c <= 4 * r + 3 < 5 * c + 13}),
        (Mask(causal=False, window=4), {(r, c) for r in range(10) for c in range(8) if -7 < 5 * c - 4 * r < 6}),
    ):
        done.clear()
        BACKENDS["tiled"](*qkv, Scores(scale=1.0), mask, where(40))
        seen = mask.visible(where(40))[0, 0].view(10, 4, 8, 5).transpose(1, 2)
        assert set(done) == {(r, c) for r in range(10) for c in range(8) if bool(seen[r, c].any())}
        assert len(done) == len(set(done)) and set(done) <= right


@pytest.mark.mechanism("A11")
@pytest.mark.parametrize("mask", [Mask(causal=c, window=w) for c in (False, True) for w in (None, 3, 8)], ids=str)
@pytest.mark.parametrize("padding", MASKS)
def test_what_a_mask_says_of_a_block_is_true_of_every_pair_in_it(mask, padding):
    at = where(LENGTH, MASKS[padding])
    some, every = mask.blocks(at, 4, 5)
    seen = mask.visible(at)[:, 0]
    for r in range(6):
        for c in range(5):
            block = seen[:, 4 * r : 4 * r + 4, 5 * c : 5 * c + 5]
            assert bool(some[r, c]) or not bool(block.any())
            assert not bool(every[r, c]) or bool(block.all())
    assert padding != "whole" or bool(every[0, 0]) == (not mask.causal and mask.window in (None, 8))


@pytest.mark.mechanism("A11")
def test_dropout_hides_the_same_weights_backward_as_forward():
    q, k, v = (drawn(1, 2, 9, 3, seed=s) for s in range(3))
    scores = Scores(scale=1.0, dropout=0.4)

    def out(*qkv: Tensor) -> Tensor:
        torch.manual_seed(3)
        return BACKENDS["tiled"](*qkv, scores, Mask(causal=True), where(9))[0]

    assert torch.autograd.gradcheck(out, (q, k, v))
    assert torch.equal(out(q, k, v), out(q, k, v))


@pytest.mark.mechanism("A11")
def test_dropout_keeps_each_weight_as_often_as_asked_and_the_mean_where_it_was():
    ones, eye = torch.zeros(1, 50, 40, 2), torch.eye(40).expand(1, 50, 40, 40)
    torch.manual_seed(0)
    out, _ = BACKENDS["tiled"](ones, ones, eye, Scores(scale=1.0, dropout=0.25), Mask(causal=False), where(40))
    kept = (out > 0).double()
    assert float(kept.mean()) == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / kept.numel()))
    assert torch.allclose(out[out > 0], torch.tensor(1 / 40 / 0.75))
    assert len({tuple(row.flatten().tolist()) for row in kept.flatten(0, 2).split(1)}) > 1900  # tiles draw anew


@pytest.mark.mechanism("A11", "A6")
@pytest.mark.parametrize("padding", ["whole", "left", "holes"])
@pytest.mark.parametrize(
    "name", ["bert", "t5", "deberta", "deberta-v3", "xlnet", "transformer-xl", "bloom", "gemma-2", "gemma-3", "mistral"]
)
def test_whole_models_learn_the_same_in_tiles(name, padding):
    """T5's buckets, DeBERTa's tables, Transformer-XL's sinusoids and biases, slopes, windows, softcaps."""
    model, ids = made(name), words(2, LENGTH)
    mask = None if MASKS[padding] is None else torch.tensor(MASKS[padding])

    def found(backend: str) -> tuple[Tensor, dict[str, Tensor]]:
        model.backend = backend
        model.zero_grad(set_to_none=True)
        out = run(model, ids, mask).last_hidden_state
        real = torch.ones(out.shape[:2]) if mask is None or out.shape[1] != LENGTH else mask
        out = out * real[..., None]
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
        return out, {key: p.grad for key, p in model.named_parameters() if p.grad is not None}

    (right, right_grads), (ours, grads) = found("eager"), found("tiled")
    assert gap(ours, right) <= gates.BACKENDS * float(right.detach().std())
    assert grads.keys() == right_grads.keys()
    largest = max(float(g.abs().max()) for g in right_grads.values())
    assert max(gap(grads[key], right_grads[key]) for key in grads) <= gates.BACKENDS * largest


@pytest.mark.mechanism("A11")
def test_auto_takes_tiles_where_all_scores_at_once_would_be_many():
    capped, sloped = Scores(scale=1.0, softcap=9.0), Scores(scale=1.0, positions=Given(drawn(1, 1, 1, 1)))
    for scores, before, many in ((capped, "eager", CAPPED), (sloped, "sdpa", BIASED)):
        assert choose("auto", scores, maps=False, pairs=many - 1) is BACKENDS[before]
        assert choose("auto", scores, maps=False, pairs=many) is BACKENDS["tiled"]
    assert choose("auto", capped, maps=True, pairs=BIASED) is BACKENDS["eager"]
    assert choose("auto", Scores(scale=1.0), maps=False, pairs=BIASED) is BACKENDS["sdpa"]


def per_doubling(measure: Callable[[int], int], lengths: tuple[int, ...]) -> list[float]:
    sizes = [measure(length) for length in lengths]
    return [later / earlier for earlier, later in pairwise(sizes)]


@pytest.mark.mechanism("A11", "C6")
@pytest.mark.parametrize("train", [False, True])
def test_no_tensor_of_a_model_with_slopes_grows_faster_than_its_text(monkeypatch, train):
    monkeypatch.setattr(module, "ROWS", 64)
    monkeypatch.setattr(module, "COLUMNS", 64)
    model = made(tiny("bert", {"architecture.encoder.positions": Alibi(), "architecture.encoder.depth": 1,
                               "architecture.encoder.input.positions": None}))  # fmt: skip
    model.backend = "tiled"

    def work(length: int) -> None:
        states = model(words(1, length)).last_hidden_state
        if train:
            states.sum().backward()

    grown = per_doubling(lambda length: largest(lambda: work(length)), (512, 1024, 2048))
    assert max(grown) <= 2
