"""The norms a spec can name. No norm at all is ``None``."""

from __future__ import annotations

from variorum.spec.part import Part, part, seen


@part
class LayerNorm(Part):
    """(x - mean) / sqrt(var + eps) * weight + bias (Ba et al. 2016)."""

    eps: float = seen(by="forward")
    bias: bool = seen(by="load", default=True)


@part
class RMSNorm(Part):
    """x / sqrt(mean(x²) + eps) * weight, in float32 or better (Zhang & Sennrich 2019).

    ``unit_offset`` stores weight - 1, as Gemma does.
    """

    eps: float = seen(by="forward")
    unit_offset: bool = seen(by="forward", default=False)


Norm = LayerNorm | RMSNorm
