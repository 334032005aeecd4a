"""Every model of the family with its kinds kept and its sizes made small, so that it builds and runs at once."""

from __future__ import annotations

from typing import Any

import torch

from variorum.family import models
from variorum.spec.inputs import Clusters, MelInput, PatchInput, TokenInput
from variorum.spec.model import Model

WIDTH, VOCAB, ROWS = 32, 50, 64
#: An image of 15 × 15 pixels in patches of 5 makes ten vectors.
IMAGE, PATCH, BANDS = 15, 5, 6


def shrunk(model: Model, depth: int = 6) -> Model:
    """``model`` at a width of 32, six layers (a whole period of every pattern) and 50 words."""
    architecture = model.architecture
    values: dict[str, object] = {"architecture.width": WIDTH}
    for name, stack in architecture.stacks.items():
        root = f"architecture.{name}"
        values |= {f"{root}.depth": depth} | ({f"{root}.memory": 7} if stack.memory else {})
        values |= {f"{root}.input.{path}": value for path, value in _input(stack.input).items()}
        if getattr(stack.input, "rank", None) and "masked_lm" in architecture.heads:
            values["architecture.heads.masked_lm.transform.width"] = 16
        values |= {f"{root}.block.{path}": value for path, value in _block(model, name).items()}
    if architecture.recurrent is not None:
        values |= {"architecture.recurrent.cells": 20, "architecture.recurrent.input.vocab": VOCAB}
    if getattr(architecture.heads.get("seq2seq_lm"), "scale", None):
        values["architecture.heads.seq2seq_lm.scale"] = WIDTH**-0.5
    return model.set(values)


def _input(source: TokenInput | PatchInput | MelInput) -> dict[str, object]:
    if isinstance(source, PatchInput):
        return {"image": IMAGE, "patch": PATCH, "positions.rows": 10}
    values: dict[str, object] = {"positions.rows": ROWS} if getattr(source.positions, "rows", 0) else {}
    if isinstance(source, MelInput):
        return values | {"mels": BANDS}
    if source.pad_id is not None:
        values["pad_id"] = min(source.pad_id, 5)
    if isinstance(source.start_id, int):
        values["start_id"] = min(source.start_id, 5)
    if source.rank:
        values["rank"] = 16
    if source.scale:
        values["scale"] = WIDTH**0.5
    if source.clusters:
        values["clusters"] = Clusters(cutoffs=(12, 25, 40), divide=2)
    return values | {"vocab": VOCAB}


def reading(model: Model, batch: int, length: int, target: int) -> dict[str, Any]:
    """What one forward of a model made small is given: ids, an image of ten vectors, or sounds, as it reads."""
    arch = model.architecture
    source = arch.source
    ids = torch.randint(6, VOCAB, (batch, max(length, target)))
    given = {"input_ids": ids[:, :length]}
    if isinstance(source, PatchInput):
        given = {"pixel_values": torch.randn(batch, source.channels, IMAGE, IMAGE)}
    if isinstance(source, MelInput):
        given = {"input_features": torch.randn(batch, BANDS, 2 * length)}
    if arch.encoder is not None and arch.encoder.has_globals:
        given["global_attention_mask"] = torch.zeros_like(given["input_ids"])
    return given | ({"decoder_input_ids": ids[:, :target]} if arch.encoder and arch.decoder else {})


def _block(model: Model, stack: str) -> dict[str, object]:
    block = model.architecture.stacks[stack].block
    if not hasattr(block.attention, "kv_heads"):
        attention = {"heads": 4, "query_rank": 16, "kv_rank": 12, "nope_dim": 8, "rope_dim": 4, "value_dim": 8}
        experts = {"count": 8, "active": 2, "width": 16, "shared_width": 16}
        return {
            **{f"attention.{key}": value for key, value in attention.items()},
            **{f"feedforward.{key}": value for key, value in experts.items()},
            "feedforward.router.groups": 4,
            "feedforward.router.active_groups": 2,
        }
    values: dict[str, object] = {"feedforward.width": 24}
    for kind in ("attention", "cross"):
        part = getattr(block, kind)
        if part is not None:
            grouped = 1 if part.kv_heads == 1 else 2 if part.kv_heads < part.heads else 4
            values |= {f"{kind}.heads": 4, f"{kind}.kv_heads": grouped, f"{kind}.head_dim": 8}
    return values


ALL = {name: shrunk(model) for name, model in models().items()}
#: Those that attend to text.
TEXT = {
    name: spec
    for name, spec in ALL.items()
    if spec.architecture.stacks and spec.architecture.source.reads == "input_ids"
}
