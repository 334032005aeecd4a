"""What several dialects compute alike: head widths, layer patterns, rotary parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import DamagedFile
from variorum.spec.architecture import At, Stack
from variorum.spec.dialect import Codec
from variorum.spec.feedforward import GatedMLP
from variorum.spec.positions import (
    DynamicNtkScaling,
    LinearScaling,
    Llama3Scaling,
    NtkScaling,
    RopeScaling,
    Rotary,
    YarnScaling,
)

#: Several end tokens may be named; a head that looks for one takes the first.
END = Codec(lambda ids: ids[0] if isinstance(ids, list) else ids, lambda end: end)


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


def dense(numbers: Sequence[int], decoder: Stack, width: int | None) -> tuple[At, ...]:
    """The rule for layers of one gated feed-forward of ``width`` among layers of experts.

    Raises:
        DamagedFile: there are such layers, and no width.
    """
    if not numbers:
        return ()
    if not width:
        raise DamagedFile("no width for layers without experts", remedy="state intermediate_size")
    kinds = ["dense" if i in numbers else "sparse" for i in range(decoder.depth)]
    feedforward = GatedMLP(width=width, activation=decoder.block.feedforward.activation)
    return (At(layers=layers_of(kinds, "dense"), set={"feedforward": feedforward}),)


def dense_of(decoder: Stack) -> dict[int, int]:
    """Layers without experts, and their width."""
    layers = {i: decoder.layer(i).feedforward for i in range(decoder.depth)}
    return {i: ff.width for i, ff in layers.items() if isinstance(ff, GatedMLP)}


def rope_parameters(config: Mapping[str, Any], theta: float) -> dict[str, Any]:
    """One dictionary from either spelling: ``rope_parameters``, or ``rope_theta`` beside ``rope_scaling``."""
    found = dict(config.get("rope_parameters") or {})
    scaling = config.get("rope_scaling")
    if isinstance(scaling, Mapping):
        found |= scaling
    found.setdefault("rope_theta", config.get("rope_theta", theta))
    found.setdefault("rope_type", found.pop("type", "default"))
    return found


def scaling_of(parameters: Mapping[str, Any], length: int | None = None) -> RopeScaling | None:
    """The scaling spec that rotary parameters describe; ``length`` is the config's ``max_position_embeddings``.

    Raises:
        DamagedFile: a kind that is not implemented.
    """
    kind = parameters.get("rope_type", "default")
    original = parameters.get("original_max_position_embeddings") or length or 8192
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(factor=float(parameters["factor"]))
    if kind == "dynamic":
        # Released code scales by the length that the config states, whatever original length stands beside it.
        return DynamicNtkScaling(factor=float(parameters["factor"]), original_length=length or original)
    if kind == "llama3":
        return Llama3Scaling(
            factor=float(parameters["factor"]), low_freq_factor=float(parameters["low_freq_factor"]),
            high_freq_factor=float(parameters["high_freq_factor"]), original_length=original,
        )  # fmt: skip
    if kind == "yarn":
        factor = float(parameters.get("factor") or (length or original) / original)
        return YarnScaling(
            factor=factor, original_length=original,
            beta_fast=float(parameters.get("beta_fast") or 32), beta_slow=float(parameters.get("beta_slow") or 1),
            attention_factor=_attention_factor(parameters, factor), truncate=parameters.get("truncate", True),
        )  # fmt: skip
    known = "default, linear, dynamic, llama3 and yarn are"
    raise DamagedFile(f"rotary scaling {kind!r} is not implemented", remedy=known)


def mscale(factor: float, weight: float) -> float:
    """YaRN's magnitude of a text ``factor`` times as long: 0.1·weight·ln(factor) + 1 (DeepSeek's released code)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _attention_factor(parameters: Mapping[str, Any], factor: float) -> float | None:
    """The factor on cos and sin, where the file states it or the two magnitudes that it is the ratio of."""
    given, over, under = (parameters.get(name) for name in ("attention_factor", "mscale", "mscale_all_dim"))
    if given is None and over and under:
        return mscale(factor, over) / mscale(factor, under)
    return None if given is None else float(given)


def rotary_of(parameters: Mapping[str, Any], length: int | None = None) -> Rotary:
    """The rotary positions that one set of parameters describes."""
    return Rotary(theta=float(parameters["rope_theta"]), scaling=scaling_of(parameters, length))


def write_rope(rotary: Rotary, head_dim: int) -> dict[str, Any]:
    """Rotary parameters in the current spelling. NTK scaling of heads of ``head_dim`` becomes the base it means.

    Dynamic scaling counts from the config's ``max_position_embeddings``; see :func:`stated_length`.
    """
    s = rotary.scaling
    found: dict[str, Any] = {"rope_theta": rotary.theta, "rope_type": "default"}
    if isinstance(s, NtkScaling):
        found["rope_theta"] = s.base(rotary.theta, int(head_dim * rotary.fraction))
    elif isinstance(s, LinearScaling):
        found |= {"rope_type": "linear", "factor": s.factor}
    elif isinstance(s, DynamicNtkScaling):
        found |= {"rope_type": "dynamic", "factor": s.factor}
    elif isinstance(s, Llama3Scaling):
        found |= {
            "rope_type": "llama3", "factor": s.factor, "low_freq_factor": s.low_freq_factor,
            "high_freq_factor": s.high_freq_factor, "original_max_position_embeddings": s.original_length,
        }  # fmt: skip
    elif isinstance(s, YarnScaling):
        found |= {
            "rope_type": "yarn", "factor": s.factor, "original_max_position_embeddings": s.original_length,
            "beta_fast": s.beta_fast, "beta_slow": s.beta_slow, "attention_factor": s.attention_factor,
            "truncate": s.truncate,
        }  # fmt: skip
    return found


def stated_length(rotary: Rotary) -> dict[str, int]:
    """The config key that dynamic scaling counts from."""
    scaling = rotary.scaling
    return {"max_position_embeddings": scaling.original_length} if isinstance(scaling, DynamicNtkScaling) else {}
