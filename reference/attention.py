"""Multi-head attention, written to be read.

This is the whole mechanism in NumPy and float64, one idea per function, in the order of the data. It is not fast
and nothing in the product imports it: the parts in `src/variorum/attention/` are held equal to it to 1e-12.
Sources: Vaswani et al. 2017 (arXiv:1706.03762) section 3.2; grouped key/value heads from Ainslie et al. 2023
(arXiv:2305.13245); the sliding window as in Mistral's released code.

Letters used in every shape:

    B  batch                 D  width of the model
    Q  query tokens          H  query heads
    T  key tokens            K  key/value heads (K = H: multi-head, 1 < K < H: grouped, K = 1: multi-query)
    d  width of one head     G  = H / K, the query heads that share one key/value head

Read from the bottom: `multi_head_attention` calls the rest from top to bottom.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Table = TypeVar("Table", Array, Mask)


def check(name: str, array: NDArray[np.generic], *shape: int | None) -> None:
    """Raises ValueError unless `array` has this shape; None stands for any length."""
    fits = array.ndim == len(shape) and all(w is None or w == s for w, s in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} should have shape [{wanted}] but has {list(array.shape)}")


# ---------------------------------------------------------------------------------------------------------------
# 1. Who may look at whom
# ---------------------------------------------------------------------------------------------------------------


def visible(
    queries: int, keys: int, *, causal: bool = False, window: int | None = None, padding: Mask | None = None
) -> Mask:
    """The mask: entry [b, 0, i, j] is true where query i may look at key j. Shape [B or 1, 1, Q, T].

    Queries are the *last* Q of the T positions: with five keys of which three come from a cache, the first of two
    queries sits at position 3 and sees four keys, not one.

    causal: a query sees no later key.
    window: W keys, the query's own included, when causal (positions i-W+1 … i); otherwise W keys to either side
        and itself (|i - j| <= W).
    padding: [B, T], true for real tokens. Padded keys are seen by nobody.
    """
    if queries > keys and causal:
        raise ValueError(f"{queries} queries cannot be the last of {keys} positions")
    # Position of every query and key, as a column and a row, so that comparing them yields a [Q, T] table.
    i = np.arange(keys - queries, keys)[:, None] if causal else np.arange(queries)[:, None]
    j = np.arange(keys)[None, :]
    see = np.ones((queries, keys), dtype=np.bool_)
    if causal:
        see &= j <= i
    if window is not None:
        see &= (j > i - window) if causal else (abs(i - j) <= window)
    see = see[None, None]
    if padding is not None:
        check("padding", padding, None, keys)
        see = see & padding[:, None, None, :].astype(np.bool_)
    return see


# ---------------------------------------------------------------------------------------------------------------
# 2. From scores to weights
# ---------------------------------------------------------------------------------------------------------------


def softmax(scores: Array, see: Mask) -> Array:
    """Weights over the visible keys: positive, summing to 1 along the last axis; invisible keys get exactly 0.

    Subtracting the largest visible score changes nothing (it cancels in the fraction) but keeps exp from
    overflowing. A query that sees nothing has no distribution; 0/0 would be NaN and spread to every later layer,
    so its weights are defined as 0.
    """
    see = np.broadcast_to(see, scores.shape)
    largest = np.max(np.where(see, scores, -np.inf), axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    exponentials = np.where(see, np.exp(np.where(see, scores - largest, 0.0)), 0.0)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total > 0, total, 1.0)


# ---------------------------------------------------------------------------------------------------------------
# 3. Attention for heads that are already apart
# ---------------------------------------------------------------------------------------------------------------


def attend(
    q: Array,
    k: Array,
    v: Array,
    *,
    see: Mask | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[Array, Array]:
    """softmax(scale · q kᵀ + bias) v, per head.

    q [B, H, Q, d]; k [B, K, T, d]; v [B, K, T, dv] with K dividing H.
    see: [B or 1, H or 1, Q, T], true where visible (None: everything).
    bias: [B or 1, H or 1, Q, T], added to the scaled scores: T5's buckets and ALiBi's slopes live here.
    scale: 1/√d unless given. The dot product of two random vectors of width d has variance d; without the scale
        wide heads would start saturated. T5 gives 1: it folds the scale into its initial weights.
    softcap: c · tanh(score / c) keeps scores inside ±c (Gemma 2).

    Returns the output [B, H, Q, dv] and the weights [B, H, Q, T].
    """
    batch, heads, _, width = q.shape
    check("k", k, batch, None, None, width)
    _, kv_heads, keys, _ = k.shape
    check("v", v, batch, kv_heads, keys, None)
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key/value heads evenly")

    # Neighbouring query heads share a key/value head: heads 0 … G-1 read head 0, the next G read head 1. `repeat`
    # does that; `tile` would deal the heads out like cards and pair them with the wrong keys.
    group = heads // kv_heads
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)

    scores = np.einsum("bhqd,bhtd->bhqt", q, k) * (width**-0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + _fits("bias", bias, scores)
    everything = np.ones((1, 1, 1, 1), dtype=np.bool_)
    weights = softmax(scores, everything if see is None else _fits("see", see, scores))
    return np.einsum("bhqt,bhtd->bhqd", weights, v), weights


def _fits(name: str, table: Table, scores: Array) -> Table:
    """`table`, if it may be stretched along batch and heads (only) to the shape of the scores."""
    batch, heads, queries, keys = scores.shape
    b, h = (table.shape[0], table.shape[1]) if table.ndim == 4 else (batch, heads)
    check(name, table, b if b == 1 else batch, h if h == 1 else heads, queries, keys)
    return table


# ---------------------------------------------------------------------------------------------------------------
# 4. The layer: project, split into heads, attend, join, project back
# ---------------------------------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """One attention layer. Matrices are [out, in], as torch's Linear stores them; biases may be left out.

    q [H·d, D]; k [K·d, D]; v [K·d, D]; o [D, H·d].
    """

    q: Array
    k: Array
    v: Array
    o: Array
    q_bias: Array | None = None
    k_bias: Array | None = None
    v_bias: Array | None = None
    o_bias: Array | None = None


def project(x: Array, matrix: Array, bias: Array | None) -> Array:
    """x [B, T, in] through a matrix [out, in] and an optional bias [out] -> [B, T, out]."""
    check("x", x, None, None, matrix.shape[1])
    product = x @ matrix.T
    if bias is not None:
        check("bias", bias, matrix.shape[0])
        product = product + bias
    return product


def split(x: Array, heads: int) -> Array:
    """[B, T, heads·d] -> [B, heads, T, d]: the first d columns are head 0, the next d head 1."""
    batch, tokens, width = x.shape
    if width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width}")
    return x.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)


def join(x: Array) -> Array:
    """[B, H, T, d] -> [B, T, H·d], the inverse of `split`."""
    batch, heads, tokens, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * width)


def multi_head_attention(
    x: Array,
    weights: Weights,
    *,
    heads: int,
    kv_heads: int | None = None,
    memory: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    padding: Mask | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[Array, Array]:
    """A whole attention layer.

    x: hidden states [B, Q, D] that ask. memory: [B, T, D] that answer: the encoder's states in cross-attention;
    None for self-attention, where a text answers itself. padding: [B, T] of the side that answers.
    The other arguments are those of `visible` and `attend`.

    Returns hidden states [B, Q, D] and the attention map [B, H, Q, T].

    Raises:
        ValueError: shapes that do not fit, naming the array, the shape wanted and the shape found.
    """
    answering = x if memory is None else memory
    kv_heads = heads if kv_heads is None else kv_heads
    q = split(project(x, weights.q, weights.q_bias), heads)
    k = split(project(answering, weights.k, weights.k_bias), kv_heads)
    v = split(project(answering, weights.v, weights.v_bias), kv_heads)
    see = visible(q.shape[2], k.shape[2], causal=causal, window=window, padding=padding)
    mixed, maps = attend(q, k, v, see=see, bias=bias, scale=scale, softcap=softcap)
    return project(join(mixed), weights.o, weights.o_bias), maps
