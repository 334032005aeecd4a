"""The position schemes a spec can name. No positions at all (NoPE) is ``None``.

``Learned`` and ``Sinusoidal`` are added to the input; all others act inside attention.
"""

from __future__ import annotations

from typing import Literal

from variorum.spec.norms import Norm
from variorum.spec.part import Part, part, seen


@part
class Learned(Part):
    """A table of ``rows`` vectors added to the input.

    ``offset`` rows come before position 0 (RoBERTa, BART: 2). ``count`` says what a position counts: real
    tokens by the attention mask, or ids that are not the padding id (RoBERTa). Usable length: rows - offset.
    """

    rows: int = seen(by="load")
    offset: int = seen(by="forward", default=0)
    count: Literal["mask", "ids"] = seen(by="forward", default="mask")

    @property
    def usable(self) -> int:
        """Positions that it has rows for."""
        return self.rows - self.offset


@part
class Sinusoidal(Part):
    """PE[p, 2i] = sin(p / base^(2i/D)), PE[p, 2i+1] = cos(the same) (Vaswani et al. 2017).

    ``layout`` "halves" puts all sines first (Pegasus, XLNet).
    """

    base: float = seen(by="forward", default=10_000.0)
    layout: Literal["interleaved", "halves"] = seen(by="forward", default="interleaved")


@part
class LinearScaling(Part):
    """Position interpolation: every frequency divided by ``factor`` (Chen et al. 2023)."""

    factor: float = seen(by="forward")


@part
class NtkScaling(Part):
    """NTK-aware scaling: the base becomes theta·factor^(d/(d-2)) over d rotated channels (bloc97 2023).

    The slowest pair turns ``factor`` times more slowly, as in interpolation, the fastest as before. Published files
    have no name for it: they state the larger base.
    """

    factor: float = seen(by="forward")

    def base(self, theta: float, dims: int) -> float:
        """The base that ``dims`` rotated channels turn by."""
        return float(theta * self.factor ** (dims / (dims - 2)))


@part
class DynamicNtkScaling(Part):
    """NTK scaling by the text's own length n: theta·(factor·n/original - (factor - 1))^(d/(d-2)) (emozilla 2023).

    Up to ``original_length`` tokens nothing changes. Beyond it each further token turns all earlier ones anew, in
    every layer, so a cache starts over at every step.
    """

    factor: float = seen(by="forward")
    original_length: int = seen(by="forward")


@part
class Llama3Scaling(Part):
    """Low frequencies divided by ``factor``, high ones kept, a ramp between (Llama 3.1 release)."""

    factor: float = seen(by="forward")
    low_freq_factor: float = seen(by="forward", default=1.0)
    high_freq_factor: float = seen(by="forward", default=4.0)
    original_length: int = seen(by="forward", default=8192)


@part
class YarnScaling(Part):
    """By-parts interpolation with a ramp from ``beta_fast`` to ``beta_slow`` rotations (Peng et al. 2023).

    cos and sin are multiplied by ``attention_factor``; ``None`` computes 0.1·ln(factor) + 1. DeepSeek instead
    sets it to mscale(factor)/mscale_all(factor) and folds mscale_all² into the attention scale.
    """

    factor: float = seen(by="forward")
    original_length: int = seen(by="forward")
    beta_fast: float = seen(by="forward", default=32.0)
    beta_slow: float = seen(by="forward", default=1.0)
    attention_factor: float | None = seen(by="forward", default=None)
    truncate: bool = seen(by="forward", default=True)


RopeScaling = LinearScaling | NtkScaling | DynamicNtkScaling | Llama3Scaling | YarnScaling


@part
class Rotary(Part):
    """Pairs of query and key channels rotated by p·theta^(-2i/d) (Su et al. 2021).

    ``fraction`` of each head is rotated (GPT-NeoX: 0.25). ``interleaved`` pairs (0,1), (2,3) …; otherwise the
    first half pairs with the second, as published files store it.
    """

    theta: float = seen(by="forward", default=10_000.0)
    fraction: float = seen(by="forward", default=1.0)
    interleaved: bool = seen(by="forward", default=False)
    scaling: RopeScaling | None = seen(by="forward", default=None)


@part
class RelativeBuckets(Part):
    """A learned scalar per (bucket, head) added to the scores, one table per stack (T5, Raffel et al. 2020).

    Half the buckets are exact, half logarithmic up to ``max_distance``; a bidirectional stack splits them by sign.
    """

    buckets: int = seen(by="load", default=32)
    max_distance: int = seen(by="forward", default=128)


@part
class Disentangled(Part):
    """DeBERTa's content-to-position and position-to-content terms (He et al. 2020).

    A table of 2·``span`` relative vectors is shared by the stack (through ``norm`` if given). Distances are
    clipped to the span, after logarithmic bucketing when ``buckets`` is set (``max_distance`` is its far end).
    ``projections`` "own" gives each layer its own position projections (v1); "shared" reuses the layer's content
    query and key (v2, v3). ``key_bias`` is about an own key projection. The released code indexes both terms by
    distance(i, j), and so does this.
    """

    span: int = seen(by="load")
    buckets: int | None = seen(by="forward", default=None)
    max_distance: int | None = seen(by="forward", default=None)
    terms: tuple[Literal["c2p", "p2c"], ...] = seen(by="forward", default=("c2p", "p2c"))
    projections: Literal["own", "shared"] = seen(by="load", default="own")
    key_bias: bool = seen(by="load", default=False)
    norm: Norm | None = seen(by="forward", default=None)


@part
class RecurrentRelative(Part):
    """Transformer-XL's relative terms: (q + u)·k + (q + v)·W_r R(i-j) (Dai et al. 2019).

    ``segments`` adds XLNet's relative segment term (q + s)·e(same or different). Distances beyond ``clamp`` count as
    ``clamp``.
    """

    base: float = seen(by="forward", default=10_000.0)
    clamp: int | None = seen(by="forward", default=None)
    segments: bool = seen(by="load", default=False)


@part
class Alibi(Part):
    """-m·|i-j| added to the scores, one fixed slope m a head and nothing learned (Press et al. 2021).

    Head h of H = 2^n has m = 2^(-``max_bias``·h/H). Other H take the slopes of the power of two below, then every
    second one of the power above. ``scaled`` adds it before the attention scale, which then shrinks it too (Falcon).
    Positions are those of real tokens, so padding moves nothing.
    """

    max_bias: float = seen(by="forward", default=8.0)
    scaled: bool = seen(by="forward", default=False)


AttentionPositions = Rotary | RelativeBuckets | Alibi | Disentangled | RecurrentRelative
