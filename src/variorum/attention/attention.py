"""The one attention of the family: queries from one input, keys and values from another."""

from __future__ import annotations

from torch import Tensor, nn

from variorum.attention.backends import choose
from variorum.attention.bands import cut, pays
from variorum.attention.cache import Once, Slots, as_one_row, in_rows
from variorum.attention.dropped import Dropping, attend_texts
from variorum.attention.masks import Mask
from variorum.attention.packed import each
from variorum.attention.scores import Scores
from variorum.parts.dropout import loops_pay
from variorum.parts.norms import build_norm
from variorum.parts.positions import Disentangled, LayerPositions
from variorum.parts.where import Where
from variorum.spec import attention as spec


class Attention(nn.Module):
    """Multi-head, grouped-query and multi-query attention, self or cross."""

    def __init__(self, attention: spec.Attention, width: int, positions: LayerPositions) -> None:
        super().__init__()
        self.spec, self.positions = attention, positions
        inner, shared = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        self.query = nn.Linear(width, inner, bias="query" in attention.bias)
        self.key = nn.Linear(width, shared, bias="key" in attention.bias)
        self.value = nn.Linear(width, shared, bias="value" in attention.bias)
        self.out = nn.Linear(inner, width, bias="out" in attention.bias)
        self.query_norm = build_norm(attention.qk_norm, attention.head_dim)
        self.key_norm = build_norm(attention.qk_norm, attention.head_dim)
        if isinstance(positions, Disentangled) and positions.spec.projections == "shared":
            positions.content = (self.query, self.key)

    def forward(
        self, q_input: Tensor, kv_input: Tensor, new: Where, where: Where, mask: Mask, *,
        slots: Slots | None = None, backend: str = "auto", maps: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """q_input [B, Q, D], kv_input [B, N, D] -> output [B, Q, D], maps [B, H, Q, K] or ``None``.

        ``new`` places the N new keys, ``where`` all K keys including those in ``slots``.
        """
        q = self.query_norm(self._heads(self.query, q_input, self.spec.heads))
        k = self.key_norm(self._heads(self.key, kv_input, self.spec.kv_heads))
        v = self._heads(self.value, kv_input, self.spec.kv_heads)
        turned, k = self.positions.rotate(q, k, new)
        if slots is not None:
            k, v = slots.append(k, v)
        return self._weigh(q, turned, k, v, where, mask, backend, maps)

    def cross(
        self, q_input: Tensor, encoded: Tensor, where: Where, *, slots: Once | None, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attention to an encoder's output; with ``slots``, keys and values are projected once."""
        held = None if slots is None else slots.held
        if held is None:
            k = self.key_norm(self._heads(self.key, encoded, self.spec.kv_heads))
            held = k, self._heads(self.value, encoded, self.spec.kv_heads)
            if slots is not None:
                held = slots.append(*held)
        k, v = held
        q = self.query_norm(self._heads(self.query, q_input, self.spec.heads))
        return self._weigh(q, q, k, v, where, Mask(causal=False), backend, maps)

    def _heads(self, linear: nn.Linear, x: Tensor, heads: int) -> Tensor:
        """x projected, clipped where the spec says so, and split."""
        projected, limit = linear(x), self.spec.clip
        return split_heads(projected if limit is None else projected.clamp(-limit, limit), heads)

    def _weigh(
        self, q: Tensor, turned: Tensor, k: Tensor, v: Tensor, where: Where, mask: Mask, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        if where.lengths is not None:
            if self._drops_plainly(q, where, mask, backend):
                how = Dropping(scale=self.spec.score_scale, rate=self.spec.dropout, causal=mask.causal)
                return self._out(attend_texts(turned, k, v, where.lengths, how)), None
            mixed = each(where, lambda near, *text: self._near(near, mask, backend, *text), q, turned, k, v)
            return self._out(mixed), None
        rows, asked = len(q), as_one_row(q, k)
        turned = asked if turned is q else as_one_row(turned, k)
        if maps:
            mixed, weights = self._mixed(asked, turned, k, v, where, mask, backend, maps)
            return self._out(in_rows(mixed, rows)), None if weights is None else in_rows(weights, rows)
        return self._out(in_rows(self._near(where, mask, backend, asked, turned, k, v), rows)), None

    def _drops_plainly(self, q: Tensor, where: Where, mask: Mask, backend: str) -> bool:
        """Whether weights are to be dropped, and scores are nothing but products of queries and keys seen or not."""
        lengths = where.lengths or ()
        narrow = mask.window and max(lengths, default=0) > (mask.window if mask.causal else mask.window // 2 + 1)
        plain = not (narrow or self.spec.softcap or self.positions.weighs) and backend in ("auto", "sdpa")
        return plain and self.training and self.spec.dropout > 0 and loops_pay(q)

    def _near(self, where: Where, mask: Mask, backend: str, q: Tensor, turned: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As :meth:`_mixed` without maps: in bands where a window makes that quicker and the backend makes none."""
        if backend in ("eager", "tiled") or not pays(mask, where):
            return self._mixed(q, turned, k, v, where, mask, backend, False)[0]
        tiles, near = cut(where, mask, len(q))
        queries = tiles.queries(q), tiles.queries(turned)
        return tiles.joined(self._mixed(*queries, tiles.keys(k), tiles.keys(v), near, mask, backend, False)[0])

    def _mixed(
        self, q: Tensor, turned: Tensor, k: Tensor, v: Tensor, where: Where, mask: Mask, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Values mixed by softmax(scores), [B, H, Q, d], and maps; ``turned`` are the queries as q·k sees them."""
        scores = Scores(
            scale=self.spec.score_scale,
            positions=self.positions,
            asked=q if self.positions.weighs and turned is not q else None,
            softcap=self.spec.softcap,
            dropout=self.spec.dropout if self.training else 0.0,
        )
        weigh = choose(backend, scores, maps=maps, pairs=q.shape[2] * k.shape[2])
        return weigh(turned, k, v, scores, mask, where)

    def _out(self, mixed: Tensor) -> Tensor:
        return self.out(mixed.transpose(1, 2).flatten(-2))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, H·d] -> [B, H, T, d]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)
