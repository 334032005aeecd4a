"""A model of the family made small enough to train here, and fitted to a vocabulary and a length.

Kinds stay as they are: what is post-norm stays post-norm, grouped heads stay grouped, a gated feed-forward keeps the
parameters of a plain one. Only sizes change.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from variorum.errors import NotFound, nearest
from variorum.spec.architecture import At, Stack
from variorum.spec.attention import LatentAttention
from variorum.spec.feedforward import MLP, AnyFeedForward, Experts, GatedMLP
from variorum.spec.inputs import TokenInput
from variorum.spec.model import Model

MULTIPLE = 8


@dataclasses.dataclass(frozen=True)
class Scale:
    """Sizes of a small model; a head's width is ``width / heads``."""

    width: int
    depth: int
    heads: int


SCALES = {"nano": Scale(128, 4, 4), "small": Scale(256, 6, 4)}


def scale_named(name: str) -> Scale:
    """One of ``SCALES``.

    Raises:
        NotFound: there is none of this name.
    """
    if name not in SCALES:
        raise NotFound(f"no scale is called {name!r}", remedy=nearest(name, SCALES) or f"one of {', '.join(SCALES)}")
    return SCALES[name]


def scaled(model: Model, scale: Scale) -> Model:
    """``model`` with the sizes of ``scale`` in every stack."""
    architecture, width = model.architecture, scale.width
    values: dict[str, object] = {"architecture.width": width}
    for name, stack in architecture.stacks.items():
        root = f"architecture.{name}"
        values[f"{root}.depth"] = scale.depth
        values |= {f"{root}.block.{path}": value for path, value in _block(stack, scale).items()}
        if stack.pattern:
            values[f"{root}.pattern"] = tuple(_rule(rule, scale) for rule in stack.pattern)
        if getattr(stack.input, "rank", None):
            values[f"{root}.input.rank"] = width // 2
            for head, held in architecture.heads.items():
                if getattr(getattr(held, "transform", None), "width", None):
                    values[f"architecture.heads.{head}.transform.width"] = width // 2
        if getattr(stack.input, "scale", None):
            values[f"{root}.input.scale"] = width**0.5
    if getattr(architecture.heads.get("seq2seq_lm"), "scale", None):
        values["architecture.heads.seq2seq_lm.scale"] = width**-0.5
    return model.set(values)


def _block(stack: Stack, scale: Scale) -> dict[str, object]:
    feedforward = stack.block.feedforward
    values: dict[str, object] = {"feedforward.width": _inner(feedforward, scale)}
    if isinstance(feedforward, Experts) and feedforward.shared_width:
        values["feedforward.shared_width"] = values["feedforward.width"]
    for kind in ("attention", "cross"):
        part: Any = getattr(stack.block, kind)
        if isinstance(part, LatentAttention):
            values |= {f"{kind}.{path}": value for path, value in _latent(part, scale).items()}
        elif part is not None:
            groups = max(1, scale.heads * part.kv_heads // part.heads)
            values |= {f"{kind}.heads": scale.heads, f"{kind}.kv_heads": groups}
            values[f"{kind}.head_dim"] = scale.width // scale.heads
            if part.scale not in (None, 1.0):  # 1 is left to initialisation, any other goes with the root of the width
                values[f"{kind}.scale"] = part.scale * (part.head_dim * scale.heads / scale.width) ** 0.5
    return values


def _inner(feedforward: AnyFeedForward, scale: Scale) -> int:
    """The width of a feed-forward; the experts that a token meets have that of one gated one together."""
    if isinstance(feedforward, MLP):
        return 4 * scale.width
    gated = _rounded(8 * scale.width / 3)
    return _rounded(gated / feedforward.active) if isinstance(feedforward, Experts) else gated


def _latent(attention: LatentAttention, scale: Scale) -> dict[str, object]:
    channels = scale.width // scale.heads
    values: dict[str, object] = {
        "heads": scale.heads, "nope_dim": channels, "rope_dim": channels // 2, "value_dim": channels,
        "kv_rank": scale.width // 2,
    }  # fmt: skip
    if attention.query_rank is not None:
        values["query_rank"] = scale.width
    if attention.scale is not None:
        values["scale"] = attention.scale * (attention.head_dim / (channels + channels // 2)) ** 0.5
    return values


def _rule(rule: At, scale: Scale) -> At:
    """The same layers, and what is set there made as small."""
    own = rule.set.get("feedforward")
    if not isinstance(own, MLP | GatedMLP):
        return rule
    small = dataclasses.replace(own, width=_inner(own, scale))
    return dataclasses.replace(rule, set={**rule.set, "feedforward": small})


def worded(model: Model, *, vocab: int, pad_id: int | None, length: int) -> Model:
    """``model`` with a vocabulary of its own, and position tables that reach ``length`` tokens.

    Args:
        vocab: ids that exist. pad_id: the padding among them, if there is one.
    """
    values: dict[str, object] = {}
    for name, stack in model.architecture.stacks.items():
        root, source = f"architecture.{name}.input", stack.input
        if not isinstance(source, TokenInput):
            continue
        values[f"{root}.vocab"] = vocab
        if source.clusters is not None:
            cutoffs = tuple(cutoff * vocab // source.vocab for cutoff in source.clusters.cutoffs)
            values[f"{root}.clusters.cutoffs"] = cutoffs
        if pad_id is not None:
            values[f"{root}.pad_id"] = pad_id
            if source.start_id == source.pad_id:
                values[f"{root}.start_id"] = pad_id
        rows = getattr(source.positions, "rows", None)
        if rows is not None:
            values[f"{root}.positions.rows"] = length + getattr(source.positions, "offset", 0)
    for head, held in model.architecture.heads.items():
        if hasattr(held, "rows") and hasattr(held, "steps"):
            values[f"architecture.heads.{head}.rows"] = length
    return model.set(values)


def _rounded(width: float) -> int:
    return max(MULTIPLE, MULTIPLE * round(width / MULTIPLE))
