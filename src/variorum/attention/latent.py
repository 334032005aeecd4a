"""Multi-head latent attention: all heads' keys and values are projected up from one small latent per token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from variorum.attention.backends import choose
from variorum.attention.cache import Slots
from variorum.attention.masks import Mask
from variorum.attention.packed import each
from variorum.attention.scores import Scores
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
        latent, k_turn = self.latent_norm(latent)[:, None], k_turn[:, None]
        q_turn, k_turn = self.positions.rotate(q_turn, k_turn, new)
        if slots is not None:
            latent, k_turn = slots.append(latent, k_turn)
        up = self.latent_up(latent[:, 0]).unflatten(-1, (a.heads, -1)).transpose(1, 2)
        k_plain, v = up.split((a.nope_dim, a.value_dim), -1)
        k = torch.cat((k_plain, k_turn.expand(-1, a.heads, -1, -1)), -1)
        q = torch.cat((q_plain, q_turn), -1)
        scores = Scores(scale=a.score_scale, dropout=a.dropout if self.training else 0.0)
        weigh = choose(backend, scores, maps=maps)
        if where.lengths is None:
            mixed, weights = weigh(q, k, v, scores, mask, where)
        else:
            weights = None
            mixed = each(where, lambda near, q, k, v: weigh(q, k, v, scores, mask, near)[0], q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(-2)), weights

    def _queries(self, x: Tensor) -> Tensor:
        if self.spec.query_rank is None:
            return self.query(x)
        return self.query_up(self.query_norm(self.query_down(x)))
