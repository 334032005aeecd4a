"""Every model of the family with its kinds kept and its sizes made small, so that it builds and runs at once."""

from __future__ import annotations

from variorum.family import models
from variorum.spec.model import Model

WIDTH, VOCAB, ROWS = 32, 50, 64


def shrunk(model: Model, depth: int = 6) -> Model:
    """``model`` at a width of 32, six layers (a whole period of every pattern) and 50 words."""
    architecture = model.architecture
    values: dict[str, object] = {"architecture.width": WIDTH}
    for name, stack in architecture.stacks.items():
        root = f"architecture.{name}"
        values |= {f"{root}.depth": depth, f"{root}.input.vocab": VOCAB}
        if stack.input.pad_id is not None:
            values[f"{root}.input.pad_id"] = min(stack.input.pad_id, 5)
        if stack.input.rank:
            values |= {f"{root}.input.rank": 16, "architecture.heads.masked_lm.transform.width": 16}
        if getattr(stack.input.positions, "rows", 0):
            values[f"{root}.input.positions.rows"] = ROWS
        values |= {f"{root}.block.{path}": value for path, value in _block(model, name).items()}
    return model.set(values)


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
            grouped = 2 if part.kv_heads < part.heads else 4
            values |= {f"{kind}.heads": 4, f"{kind}.kv_heads": grouped, f"{kind}.head_dim": 8}
    return values


ALL = {name: shrunk(model) for name, model in models().items()}
