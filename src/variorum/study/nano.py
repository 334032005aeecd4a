"""The arms of the quickstart: published models at a size that two cores train in seconds.

The walk takes its changes, with their reasons, from the family's own lineage; only widths are made small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import NotFound
from variorum.family import find
from variorum.spec.feedforward import GatedMLP
from variorum.spec.model import Change, Model
from variorum.study.design import Arm, readings

WIDTH, DEPTH, HEADS = 128, 2, 4
HEAD_DIM = WIDTH // HEADS
MLP_WIDTH = 4 * WIDTH
GATED_WIDTH = 344
"""Two thirds of the plain width, rounded up to a multiple of 8: three matrices with the parameters of two."""
KV_HEADS = 2

_DECODER, _ENCODER = "architecture.decoder", "architecture.encoder"
_GATED = {"value": GatedMLP(width=GATED_WIDTH, activation="silu")}
_WALK: tuple[tuple[str, str, str, str, Mapping[str, Any]], ...] = (
    ("rope", "+ RoPE", "llama", f"{_DECODER}.positions", {}),
    ("rmsnorm", "+ RMSNorm", "llama", f"{_DECODER}.block.layout.norm", {}),
    ("swiglu", "+ SwiGLU", "llama", f"{_DECODER}.block.feedforward", _GATED),
    ("gqa", "+ GQA", "llama-3", f"{_DECODER}.block.attention.kv_heads", {"value": KV_HEADS}),
)
"""Arm, title, the model whose change it is, the path changed, and what this size changes in it."""
INITIAL_VALUES = (
    "initial values: GPT-2's published scale up to RMSNorm; from SwiGLU on 1/√fan-in, less by depth for what feeds the "
    "residual stream, as LLaMA's laboratory has it in later training code (lingua), its paper being silent"
)
NOT_WALKED = "no biases, an untied output table, the tokenizer and the recipe are LLaMA's too, and are left as GPT-2's"


def walk_arms(*, vocab: int, length: int) -> tuple[Arm, ...]:
    """GPT-2 and its four successors, each one change away from the arm before it.

    Args:
        vocab: rows of the token table. length: tokens of a training window, and rows of the position table.
    """
    spec = _silent(
        find("gpt2").set(_shape(_DECODER, DEPTH, vocab, MLP_WIDTH) | {f"{_DECODER}.input.positions.rows": length})
    )
    spec = dataclasses.replace(spec, name="nano GPT-2")
    arms = [Arm(name="gpt2", title="GPT-2", spec=spec, note=f"{spec.cite}; {DEPTH} layers × {WIDTH}")]
    for name, title, owner, path, small in _WALK:
        source = find(owner)
        change = dataclasses.replace(published_change(source, path), **small)
        after = spec.variant(f"nano {title}", cite=source.cite, changes=[change])
        note = f"{source.cite}: {change.why}"
        arms.append(Arm(name=name, title=title, spec=after, apparatus=readings(spec.diff(after)), note=note))
        spec = after
    return tuple(arms)


def encoder_arms(*, vocab: int, length: int, labels: int, pad: int) -> tuple[Arm, ...]:
    """Nano BERT and nano ModernBERT with a classification head for ``labels`` classes."""
    common = {
        f"{_ENCODER}.input.pad_id": pad,
        "architecture.heads.sequence_classification.labels": labels,
        "architecture.heads.sequence_classification.dropout": 0.0,
    }
    bert = find("bert").set(
        _shape(_ENCODER, DEPTH, vocab, MLP_WIDTH) | common | {f"{_ENCODER}.input.positions.rows": length}
    )
    modern = find("modernbert").set(_shape(_ENCODER, DEPTH, vocab, GATED_WIDTH) | common)
    bert, modern = _silent(bert), _silent(modern)
    size = f"{DEPTH} layers × {WIDTH}"
    return (
        Arm(name="bert", title="nano BERT", spec=bert, note=f"{bert.cite}; {size}"),
        Arm(
            name="modernbert",
            title="nano ModernBERT",
            spec=modern,
            apparatus=readings([row for row in bert.diff(modern) if _reached(row.path)]),
            note=f"{modern.cite}; {size}",
        ),
    )


def published_change(model: Model, path: str) -> Change:
    """The change at ``path`` that made ``model`` from its ancestor."""
    for change in model.changes:
        if change.path == path:
            return change
    raise NotFound(f"{model.name} has no change of its own there", where=path)


def _shape(stack: str, depth: int, vocab: int, feedforward: int) -> dict[str, object]:
    return {
        "architecture.width": WIDTH,
        f"{stack}.depth": depth,
        f"{stack}.input.vocab": vocab,
        f"{stack}.block.attention.heads": HEADS,
        f"{stack}.block.attention.kv_heads": HEADS,
        f"{stack}.block.attention.head_dim": HEAD_DIM,
        f"{stack}.block.feedforward.width": feedforward,
    }


def _silent(spec: Model) -> Model:
    """Without dropout: the runs are too short to over-fit, and it would blur every difference."""
    stack = _DECODER if spec.architecture.decoder else _ENCODER
    return spec.set(
        {f"{stack}.input.dropout": 0.0, f"{stack}.block.dropout": 0.0, f"{stack}.block.attention.dropout": 0.0}
    )


def _reached(path: str) -> bool:
    """Whether a classifier trained on labels can feel the difference: pretraining and its heads, it cannot."""
    unfelt: Sequence[str] = ("objective", "recipe", "tokenizer", "architecture.heads.masked_lm")
    others = ("token_classification", "question_answering", "next_sentence")
    nowhere = path.endswith("layout.cross")  # an encoder has no cross-attention
    return not nowhere and not path.startswith((*unfelt, *(f"architecture.heads.{name}" for name in others)))
