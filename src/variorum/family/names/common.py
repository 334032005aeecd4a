"""What several dialects compute alike: head widths, layer patterns, rotary parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import DamagedFile
from variorum.spec.positions import LinearScaling, Llama3Scaling, RopeScaling, Rotary, YarnScaling


def head_width(width: int, heads: int) -> int:
    """Channels per head.

    Raises:
        DamagedFile: the heads do not divide the width.
    """
    if heads < 1 or width % heads:
        raise DamagedFile(f"{heads} heads do not divide a width of {width}", remedy="one of the two values is wrong")
    return width // heads


def layers_of(kinds: Sequence[str], wanted: str) -> str:
    """The layers of one kind as a slice when they are regular, else as a list."""
    found = [i for i, kind in enumerate(kinds) if kind == wanted]
    for step in range(1, len(kinds) + 1):
        if found and found == list(range(found[0], len(kinds), step)):
            start = "" if found[0] == 0 else str(found[0])
            return f"{start}::{step}" if step > 1 else f"{start}:"
    return ",".join(map(str, found))


def rope_parameters(config: Mapping[str, Any], theta: float) -> dict[str, Any]:
    """One dictionary from either spelling: ``rope_parameters``, or ``rope_theta`` beside ``rope_scaling``."""
    found = dict(config.get("rope_parameters") or {"rope_theta": config.get("rope_theta", theta)})
    scaling = config.get("rope_scaling")
    if isinstance(scaling, Mapping):
        found |= scaling
    found.setdefault("rope_type", found.pop("type", "default"))
    return found


def scaling_of(parameters: Mapping[str, Any], length: int | None = None) -> RopeScaling | None:
    """The scaling spec that rotary parameters describe.

    Raises:
        DamagedFile: a kind that is not implemented.
    """
    kind = parameters.get("rope_type", "default")
    original = parameters.get("original_max_position_embeddings") or length or 8192
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(factor=float(parameters["factor"]))
    if kind == "llama3":
        return Llama3Scaling(
            factor=float(parameters["factor"]), low_freq_factor=float(parameters["low_freq_factor"]),
            high_freq_factor=float(parameters["high_freq_factor"]), original_length=original,
        )  # fmt: skip
    if kind == "yarn":
        return YarnScaling(
            factor=float(parameters["factor"]), original_length=original,
            beta_fast=float(parameters.get("beta_fast") or 32), beta_slow=float(parameters.get("beta_slow") or 1),
            attention_factor=parameters.get("attention_factor"), truncate=parameters.get("truncate", True),
        )  # fmt: skip
    raise DamagedFile(f"rotary scaling {kind!r} is not implemented", remedy="default, linear, llama3 and yarn are")


def write_rope(rotary: Rotary) -> dict[str, Any]:
    """Rotary parameters in the current spelling."""
    s = rotary.scaling
    found: dict[str, Any] = {"rope_theta": rotary.theta, "rope_type": "default"}
    if isinstance(s, LinearScaling):
        found |= {"rope_type": "linear", "factor": s.factor}
    elif isinstance(s, Llama3Scaling):
        found |= {
            "rope_type": "llama3", "factor": s.factor, "low_freq_factor": s.low_freq_factor,
            "high_freq_factor": s.high_freq_factor, "original_max_position_embeddings": s.original_length,
        }  # fmt: skip
    elif isinstance(s, YarnScaling):
        found |= {
            "rope_type": "yarn", "factor": s.factor, "original_max_position_embeddings": s.original_length,
            "beta_fast": s.beta_fast, "beta_slow": s.beta_slow, "attention_factor": s.attention_factor,
        }  # fmt: skip
    return found
