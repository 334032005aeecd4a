"""The attention parts a spec can name."""

from __future__ import annotations

from typing import Literal

from variorum.spec.norms import Norm
from variorum.spec.part import Part, part, seen

Projection = Literal["query", "key", "value", "out"]
ALL_PROJECTIONS: tuple[Projection, ...] = ("query", "key", "value", "out")


@part
class Attention(Part):
    """Scaled dot-product attention with ``heads`` query heads on ``kv_heads`` key/value heads.

    kv_heads = heads is multi-head, 1 is multi-query, between is grouped-query: query heads h·(heads/kv_heads) …
    share key head h. ``bias`` lists the projections that carry one. ``scale`` multiplies the scores (``None``:
    1/sqrt(head_dim)). ``window`` W shows the last W keys, self included, under a causal mask, and keys at distance
    <= W/2 under a bidirectional one. ``qk_norm`` normalises each query and key head before rotation. ``softcap`` c
    bends scores to c·tanh(s/c). ``clip`` c holds every projected query, key and value within [-c, c] (MPT).
    """

    heads: int = seen(by="load")
    kv_heads: int = seen(by="load")
    head_dim: int = seen(by="load")
    bias: tuple[Projection, ...] = seen(by="load", default=())
    scale: float | None = seen(by="forward", default=None)
    window: int | None = seen(by="forward", default=None)
    qk_norm: Norm | None = seen(by="forward", default=None)
    softcap: float | None = seen(by="forward", default=None)
    clip: float | None = seen(by="forward", default=None)
    dropout: float = seen(by="training", default=0.0)

    @property
    def score_scale(self) -> float:
        """What query·key is multiplied by."""
        return self.head_dim**-0.5 if self.scale is None else self.scale


@part
class GlobalLocalAttention(Attention):
    """Longformer's attention: a window for most tokens, everything for some (Beltagy et al. 2020).

    A global token attends to all, through query, key and value projections of its own, and all attend to it, through
    their usual ones. Which tokens are global is said with each text; a head may have a default.
    """


@part
class LatentAttention(Part):
    """Multi-head latent attention (DeepSeek-V2/V3): keys and values are projected up from one latent per token.

    Only the normed latent (``kv_rank``) and one rotated key (``rope_dim``) need caching. Queries pass through a
    latent of ``query_rank`` when it is given. Each head has ``nope_dim`` unrotated and ``rope_dim`` rotated
    channels, and ``value_dim`` value channels.
    """

    heads: int = seen(by="load")
    query_rank: int | None = seen(by="load")
    kv_rank: int = seen(by="load")
    nope_dim: int = seen(by="load")
    rope_dim: int = seen(by="load")
    value_dim: int = seen(by="load")
    norm: Norm = seen(by="forward")
    scale: float | None = seen(by="forward", default=None)
    bias: bool = seen(by="load", default=False)
    dropout: float = seen(by="training", default=0.0)
    window: int | None = seen(by="forward", default=None)

    @property
    def head_dim(self) -> int:
        """Channels of one query or key head."""
        return self.nope_dim + self.rope_dim

    @property
    def score_scale(self) -> float:
        """What query·key is multiplied by."""
        return self.head_dim**-0.5 if self.scale is None else self.scale


AnyAttention = Attention | LatentAttention | GlobalLocalAttention
