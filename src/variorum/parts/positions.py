"""Position schemes as modules. Each has a shared half (one per stack) and a layer half with four hooks.

Hooks are pure functions of :class:`~variorum.parts.where.Where`: ``rotate`` changes queries and keys, ``scores`` adds
to query·key before the scale, ``bias`` after it, ``tables`` is what these two read besides. What is added to the input
lives in ``embeddings``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.parts.constants import copied
from variorum.parts.norms import build_norm
from variorum.parts.rotary import rotate, tables_of
from variorum.parts.where import Where
from variorum.spec import positions as spec
from variorum.spec.attention import AnyAttention


class LayerPositions(nn.Module):
    """The layer half: no positions at all unless a hook is overridden. Queries and keys are [B, H or KV, T, d].

    ``weighs`` says whether ``scores`` or ``bias`` may add something.
    """

    weighs = False

    def rotate(self, q: Tensor, k: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        """Queries and keys as the dot product should see them."""
        return q, k

    def scores(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        """Added to q·k before the scale, [B, H, Q, K]; gets unrotated queries."""
        return None

    def bias(self, where: Where, dtype: torch.dtype) -> Tensor | None:
        """Added after the scale, [B or 1, H, Q, K]; ``dtype`` is that of the queries."""
        return None

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        """All tensors that ``scores`` and ``bias`` read, learned ones too, and that every tile of a call reads alike.

        Whoever cuts a call into tiles makes them once, hands them over in ``where.tables``, and owes them a gradient.
        """
        return ()

    def _tables(self, where: Where) -> tuple[Tensor, ...]:
        return self.tables(where) if where.tables is None else where.tables


class Rotary(LayerPositions):
    """RoPE on the first ``fraction`` of each head's channels."""

    def __init__(self, positions: spec.Rotary, head_dim: int) -> None:
        super().__init__()
        self.spec, self.dims = positions, int(head_dim * positions.fraction)

    def rotate(self, q: Tensor, k: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        q_table, k_table = tables_of(self.spec, self.dims, where, q.dtype)
        return rotate(q, *q_table, self.spec.interleaved), rotate(k, *k_table, self.spec.interleaved)


def relative_buckets(distance: Tensor, buckets: int, max_distance: int, *, bidirectional: bool) -> Tensor:
    """T5's bucket of key position minus query position, same shape (Raffel et al. 2020, released code)."""
    offset = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        offset = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    ratio = (distance.clamp(min=1).double() / exact).log() / math.log(max_distance / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return offset + torch.where(distance < exact, distance, far)


class BucketTable(nn.Module):
    """T5's shared half: one scalar per (bucket, head)."""

    def __init__(self, positions: spec.RelativeBuckets, heads: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.spec, self.bidirectional = positions, bidirectional
        self.table = nn.Embedding(positions.buckets, heads)

    def forward(self, where: Where, table: Tensor) -> Tensor:
        """The rows of ``table`` [buckets, H], its own or a copy of it, [B or 1, H, Q, K]"""
        buckets = relative_buckets(
            where.distance, self.spec.buckets, self.spec.max_distance, bidirectional=self.bidirectional
        )
        return F.embedding(buckets, table).permute(0, 3, 1, 2)


class RelativeBuckets(LayerPositions):
    """T5's layer half: reads the stack's table, computed once per forward."""

    weighs = True

    def __init__(self, shared: BucketTable) -> None:
        super().__init__()
        self._shared = (shared,)  # a tuple: the stack owns the module

    def bias(self, where: Where, dtype: torch.dtype) -> Tensor:
        return where.remember("buckets", lambda: self._shared[0](where, *self._tables(where)))

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        return (self._shared[0].table.weight,)


def alibi_slopes(heads: int, max_bias: float = 8.0) -> Tensor:
    """The slope of each head, [H] float64, steepest first within a power of two (Press et al. 2021)."""
    power = 2 ** math.ceil(math.log2(heads))
    slopes = 2.0 ** (-max_bias * torch.arange(1, power + 1, dtype=torch.float64, device="cpu") / power)
    return slopes if power == heads else torch.cat((slopes[1::2], slopes[::2]))[:heads]


class Alibi(LayerPositions):
    """Linear biases: nothing is learned, and one tensor serves all layers of a forward."""

    weighs = True

    def __init__(self, positions: spec.Alibi, heads: int) -> None:
        super().__init__()
        self.spec, self.heads = positions, heads

    def scores(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        return self._lines(where, q.dtype) if self.spec.scaled else None

    def bias(self, where: Where, dtype: torch.dtype) -> Tensor | None:
        return None if self.spec.scaled else self._lines(where, dtype)

    def _lines(self, where: Where, dtype: torch.dtype) -> Tensor:
        return where.remember(("alibi", self.spec, self.heads, dtype), lambda: self._made(where, dtype))

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        heads, steepest, device = self.heads, self.spec.max_bias, where.q_positions.device
        if device.type == "cpu":
            return (alibi_slopes(heads, steepest),)
        return (copied(alibi_slopes, heads, steepest, device=device, dtype=torch.float64),)

    def _made(self, where: Where, dtype: torch.dtype) -> Tensor:
        wide = torch.promote_types(dtype, torch.float32)  # half precision cannot count to 2,049
        slopes = self._tables(where)[0].to(wide)
        return (where.distance.abs()[:, None].to(wide) * -slopes[:, None, None]).to(dtype)


def log_buckets(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """DeBERTa-v2's signed logarithmic buckets (He et al. 2021, released code): exact up to ``buckets``/2."""
    middle = buckets // 2
    magnitude = torch.where(distance.abs() < middle, middle - 1, distance.abs()).double()
    scaled = (magnitude / middle).log() / math.log((max_distance - 1) / middle) * (middle - 1)
    far = (scaled.ceil() + middle) * distance.sign()
    return torch.where(distance.abs() <= middle, distance, far.long())


class RelativeTable(nn.Module):
    """DeBERTa's shared half: 2·span relative vectors, normed in v2 and v3."""

    def __init__(self, positions: spec.Disentangled, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(2 * positions.span, width)
        self.norm = build_norm(positions.norm, width)

    def forward(self) -> Tensor:
        """[2·span, D]"""
        return self.norm(self.table.weight)


class Disentangled(LayerPositions):
    """DeBERTa's layer half: content-to-position and position-to-content scores.

    With shared projections the stack's table goes through the content projections of this layer, which the attention
    lends by setting ``content``.
    """

    weighs = True

    def __init__(
        self, positions: spec.Disentangled, attention: AnyAttention, width: int, shared: RelativeTable
    ) -> None:
        super().__init__()
        self.spec, self.heads, self._shared = positions, attention.heads, (shared,)
        inner = attention.heads * attention.head_dim
        own = positions.projections == "own"
        self.key = nn.Linear(width, inner, bias=positions.key_bias) if own and "c2p" in positions.terms else None
        self.query = nn.Linear(width, inner, bias=True) if own and "p2c" in positions.terms else None
        self.content: tuple[nn.Linear, nn.Linear] | None = None

    def _index(self, where: Where) -> Tensor:
        """Row of the table for every pair, [B or 1, 1, Q, K]."""
        distance = -where.distance
        if self.spec.buckets is not None:
            distance = log_buckets(distance, self.spec.buckets, self.spec.max_distance or self.spec.span)
        return (distance + self.spec.span).clamp(0, 2 * self.spec.span - 1)[:, None]

    def _heads(self, linear: nn.Linear, table: Tensor) -> Tensor:
        return linear(table).unflatten(-1, (self.heads, -1)).transpose(0, 1)

    def scores(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        return sum(self.terms(q, k, where).values())  # type: ignore[return-value]

    def terms(self, q: Tensor, k: Tensor, where: Where) -> dict[str, Tensor]:
        """Each score term apart, before the scale: "c2p" and "p2c", [B, H, Q, K]."""
        index = where.remember("disentangled", lambda: self._index(where))
        tables = dict(zip(self.spec.terms, self._tables(where), strict=True))
        shape = (q.shape[0], self.heads, q.shape[2], k.shape[2])
        found = {}
        if "c2p" in tables:
            c2p = q @ tables["c2p"].transpose(-1, -2)
            found["c2p"] = c2p.gather(-1, index.expand(shape))
        if "p2c" in tables:
            p2c = k @ tables["p2c"].transpose(-1, -2)
            found["p2c"] = p2c.gather(-1, index.expand(shape).transpose(-1, -2)).transpose(-1, -2)
        return found

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        """The relative vectors as keys ("c2p") and as queries ("p2c"), in the order of the terms, [H, 2·span, d]"""
        table = where.remember("relative_table", lambda: self._shared[0]())
        content_query, content_key = self.content or (None, None)
        through = {"c2p": self.key or content_key, "p2c": self.query or content_query}
        return tuple(self._heads(through[term], table) for term in self.spec.terms)  # type: ignore[arg-type]


def sinusoids(positions: Tensor, width: int, base: float, *, halves: bool, dtype: torch.dtype) -> Tensor:
    """sin and cos of position · base^(-2i/width), [...] -> [..., width]; ``halves`` puts all sines first."""
    inverse = base ** (-torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width)
    angles = positions[..., None].double() * inverse
    pair = (angles.sin(), angles.cos())
    return (torch.cat(pair, -1) if halves else torch.stack(pair, -1).flatten(-2)).to(dtype)


class RecurrentRelative(LayerPositions):
    """Transformer-XL's and XLNet's layer half: learned biases on content, position and segment."""

    weighs = True

    def __init__(self, positions: spec.RecurrentRelative, attention: AnyAttention, width: int) -> None:
        super().__init__()
        self.spec, self.width = positions, width
        per_head = (attention.heads, attention.head_dim)
        self.relative = nn.Linear(width, attention.heads * attention.head_dim, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(per_head))
        self.position_bias = nn.Parameter(torch.zeros(per_head))
        self.segment_bias = nn.Parameter(torch.zeros(per_head)) if positions.segments else None
        self.segments = nn.Parameter(torch.empty(2, *per_head)) if positions.segments else None

    def rotate(self, q: Tensor, k: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        return q + self.content_bias[:, None], k

    def scores(self, q: Tensor, k: Tensor, where: Where) -> Tensor:
        relative, nearest, position_bias, *by_segment = self._tables(where)
        index, occurring = where.remember(("recurrent", self.spec), lambda: self._rows(where, nearest))
        by_distance = (q + position_bias[:, None]) @ relative[:, occurring].transpose(-1, -2)
        shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        total = by_distance.gather(-1, index.expand(shape))
        if where.q_segments is None or where.k_segments is None or not by_segment:
            return total
        segment_bias, segments = by_segment
        same_or_not = torch.einsum("bhqd,shd->bhqs", q + segment_bias[:, None], segments)
        differs = (where.q_segments[:, :, None] != where.k_segments[:, None, :]).long()[:, None]
        return total + same_or_not.gather(-1, differs.expand(shape))

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        """The projected sinusoids of every distance that may occur [H, n, d], the least of these, and learned biases"""
        dtype = self.relative.weight.dtype
        steps, sines = where.remember(("sines", self.spec, self.width, dtype), lambda: self._sines(where, dtype))
        relative = self.relative(sines).unflatten(-1, self.content_bias.shape).transpose(0, 1)
        if self.segment_bias is None or self.segments is None or where.q_segments is None:
            return relative, steps[0], self.position_bias
        return relative, steps[0], self.position_bias, self.segment_bias, self.segments

    def _sines(self, where: Where, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Query position minus key position from the least to the greatest, [n], and their sinusoids [n, D]."""
        ends = [where.q_positions.min() - where.k_positions.max(), where.q_positions.max() - where.k_positions.min()]
        low, high = (int(self._clamped(end)) for end in ends)
        steps = torch.arange(low, high + 1, device=where.q_positions.device)
        return steps, sinusoids(steps, self.width, self.spec.base, halves=True, dtype=dtype)

    def _rows(self, where: Where, nearest: Tensor) -> tuple[Tensor, slice]:
        """Which rows of the table occur, and among them that of each pair, [B or 1, 1, Q, K]."""
        index = self._clamped(-where.distance) - nearest
        first, last = int(index.min()), int(index.max())
        return (index - first)[:, None], slice(first, last + 1)

    def _clamped(self, distance: Tensor) -> Tensor:
        return distance if self.spec.clamp is None else distance.clamp(-self.spec.clamp, self.spec.clamp)


def build_shared(
    positions: spec.AttentionPositions | None, attention: AnyAttention, width: int, *, bidirectional: bool
) -> nn.Module | None:
    """The shared half of a stack's scheme, or ``None`` where it owns no tensors."""
    if isinstance(positions, spec.RelativeBuckets):
        return BucketTable(positions, attention.heads, bidirectional=bidirectional)
    if isinstance(positions, spec.Disentangled):
        return RelativeTable(positions, width)
    return None


def build_positions(
    positions: spec.AttentionPositions | None, attention: AnyAttention, width: int, shared: nn.Module | None
) -> LayerPositions:
    """The layer half of a scheme; the plain :class:`LayerPositions` where there is none."""
    if isinstance(positions, spec.Rotary):
        return Rotary(positions, getattr(attention, "rope_dim", attention.head_dim))
    if isinstance(positions, spec.RelativeBuckets):
        assert isinstance(shared, BucketTable)
        return RelativeBuckets(shared)
    if isinstance(positions, spec.Alibi):
        return Alibi(positions, attention.heads)
    if isinstance(positions, spec.Disentangled):
        assert isinstance(shared, RelativeTable)
        return Disentangled(positions, attention, width, shared)
    if isinstance(positions, spec.RecurrentRelative):
        return RecurrentRelative(positions, attention, width)
    return LayerPositions()
