"""Multi-head latent attention: all heads' keys and values are projected up from one small latent per token.

Over a cache, few queries are projected down to the latents instead, which is the same sum in another order.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from variorum.attention.backends import choose
from variorum.attention.cache import Slots, as_one_row, in_rows
from variorum.attention.masks import Mask
from variorum.attention.packed import each
from variorum.attention.scores import Scores
from variorum.parts.lora import whole_weight
from variorum.parts.norms import build_norm
from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where
from variorum.spec import attention as spec


class LatentAttention(nn.Module):
    """DeepSeek-V3's attention. Slots hold the normed latent and the rotated shared key: kv_rank + rope_dim a token."""

    def __init__(self, attention: spec.LatentAttention, width: int, positions: LayerPositions) -> None:
        super().__init__()
        self.spec, self.positions = attention, positions
        inner = attention.heads * attention.head_dim
        if attention.query_rank is None:
            self.query = nn.Linear(width, inner, bias=False)
        else:
            self.query_down = nn.Linear(width, attention.query_rank, bias=attention.bias)
            self.query_norm = build_norm(attention.norm, attention.query_rank)
            self.query_up = nn.Linear(attention.query_rank, inner, bias=False)
        self.latent_down = nn.Linear(width, attention.kv_rank + attention.rope_dim, bias=attention.bias)
        self.latent_norm = build_norm(attention.norm, attention.kv_rank)
        up = attention.heads * (attention.nope_dim + attention.value_dim)
        self.latent_up = nn.Linear(attention.kv_rank, up, bias=False)
        self.out = nn.Linear(attention.heads * attention.value_dim, width, bias=attention.bias)

    def forward(
        self, q_input: Tensor, kv_input: Tensor, new: Where, where: Where, mask: Mask, *,
        slots: Slots | None = None, backend: str = "auto", maps: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Shapes as in :class:`~variorum.attention.attention.Attention`."""
        a = self.spec
        q = self._queries(q_input).unflatten(-1, (a.heads, -1)).transpose(1, 2)
        q_plain, q_turn = q.split((a.nope_dim, a.rope_dim), -1)
        latent, k_turn = self.latent_down(kv_input).split((a.kv_rank, a.rope_dim), -1)
        k_turn = k_turn[:, None]
        q_turn, k_turn = self.positions.rotate(q_turn, k_turn, new)
        held = torch.cat((self.latent_norm(latent)[:, None], k_turn), -1)
        if slots is not None:
            (held,) = slots.append(held)
        rows, q_plain, q_turn = len(q), as_one_row(q_plain, held), as_one_row(q_turn, held)
        if slots is not None and where.lengths is None and self._few(q_plain.shape[2]):
            mixed, weights = self._down(q_plain, q_turn, held, where, mask, backend, maps)
        else:
            mixed, weights = self._up(q_plain, q_turn, held, where, mask, backend, maps)
        mixed, weights = in_rows(mixed, rows), None if weights is None else in_rows(weights, rows)
        return self.out(mixed.transpose(1, 2).flatten(-2)), weights

    def _up(
        self, q_plain: Tensor, q_turn: Tensor, held: Tensor, where: Where, mask: Mask, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Every latent projected up to the keys and values of all heads."""
        a = self.spec
        latent, k_turn = held.split((a.kv_rank, a.rope_dim), -1)
        up = self.latent_up(latent[:, 0]).unflatten(-1, (a.heads, -1)).transpose(1, 2)
        k_plain, v = up.split((a.nope_dim, a.value_dim), -1)
        k = torch.cat((k_plain, k_turn.expand(-1, a.heads, -1, -1)), -1)
        q = torch.cat((q_plain, q_turn), -1)
        scores = Scores(scale=a.score_scale, dropout=a.dropout if self.training else 0.0)
        weigh = choose(backend, scores, maps=maps)
        if where.lengths is None:
            return weigh(q, k, v, scores, mask, where)
        return each(where, lambda near, q, k, v: weigh(q, k, v, scores, mask, near)[0], q, k, v), None

    def _few(self, queries: int) -> bool:
        """Whether it takes fewer products to bring the queries down to the latents than the latents up to the heads."""
        a = self.spec
        return queries * (2 * a.kv_rank - a.nope_dim - a.value_dim) < a.kv_rank * (a.nope_dim + a.value_dim)

    def _down(
        self, q_plain: Tensor, q_turn: Tensor, held: Tensor, where: Where, mask: Mask, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Every query projected down: all heads' queries are those of one head whose keys and values are latents."""
        a = self.spec
        keys, values = whole_weight(self.latent_up).view(a.heads, -1, a.kv_rank).split((a.nope_dim, a.value_dim), 1)
        q = torch.cat((q_plain @ keys, q_turn), -1).flatten(1, 2)[:, None]
        if q_plain.shape[2] == 1 and mask.is_plain(where):
            mask = Mask(causal=False)  # the newest token sees all; its heads are no queries after one another
        near = where.remember(("heads", a.heads), lambda: _for_heads(where, a.heads))
        scores = Scores(scale=a.score_scale, dropout=a.dropout if self.training else 0.0)
        mixed, weights = choose(backend, scores, maps=maps)(q, held, held[..., : a.kv_rank], scores, mask, near)
        mixed = mixed[:, 0].unflatten(1, (a.heads, -1)) @ values.transpose(1, 2)
        return mixed, None if weights is None else weights[:, 0].unflatten(1, (a.heads, -1))

    def _queries(self, x: Tensor) -> Tensor:
        if self.spec.query_rank is None:
            return self.query(x)
        return self.query_up(self.query_norm(self.query_down(x)))


def _for_heads(where: Where, heads: int) -> Where:
    """Where the queries of all heads stand when they come one head after another."""
    repeated = {name: getattr(where, name).repeat(1, heads) for name in ("q_order", "q_positions")}
    allowed = None if where.allowed is None else where.allowed.repeat(1, heads, 1)
    # Several queries a head are not in one order, however many they are, so no kernel may take them to be.
    padded = where.padded or where.q_order.shape[-1] > 1
    return dataclasses.replace(where, **repeated, allowed=allowed, padded=padded, memo={})
