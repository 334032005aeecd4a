"""The Transformer of 2017: the ancestor. One stack reads, another writes, and attention is all that moves information.

Its own release fused its weights in a format of its own, and computed its sinusoids in halves; what is here is what the
paper prints. Every other lineage changes one thing of this after another.
"""

from __future__ import annotations

from typing import Any

from variorum.spec.architecture import Architecture, Block, Init, Stack, post
from variorum.spec.attention import Attention
from variorum.spec.feedforward import MLP
from variorum.spec.heads import VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import Model, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Sinusoidal
from variorum.spec.recipe import Objective, Recipe, Tokenizer

NORM = LayerNorm(eps=1e-6)
TABLE = "encoder.input.table"
STACKS = ("encoder", "decoder")
#: Every attention of an encoder-decoder.
ATTENTIONS = tuple(
    f"architecture.{stack}.block.{kind}"
    for stack, kind in (("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross"))
)
_ATTENTION = Attention(heads=8, kv_heads=8, head_dim=64)
_FEEDFORWARD = MLP(width=2048, activation="relu")
_UNPUBLISHED = "released as a graph of tensor2tensor, for which no reader is left"


def both(path: str) -> tuple[str, ...]:
    """``path`` below the encoder and below the decoder."""
    return tuple(f"architecture.{stack}.{path}" for stack in STACKS)


def also(paths: tuple[str, ...], value: object) -> dict[str, object]:
    """The same value at every path but the first, which the change itself names."""
    return dict.fromkeys(paths[1:], value)


def shape(
    width: int, depth: int, heads: int, ff: int, *, head_dim: int | None = None, vocab: int | None = None,
    decoder_depth: int | None = None, scaled: bool = False, dropout: float | None = None,
) -> dict[str, object]:  # fmt: skip
    """The paths that a published encoder-decoder sets; ``scaled`` multiplies embeddings by the root of the width."""
    values: dict[str, object] = {"architecture.width": width}
    for stack, layers in (("encoder", depth), ("decoder", decoder_depth or depth)):
        values |= {f"architecture.{stack}.depth": layers, f"architecture.{stack}.block.feedforward.width": ff}
    for path in ATTENTIONS:
        values |= {f"{path}.heads": heads, f"{path}.kv_heads": heads, f"{path}.head_dim": head_dim or width // heads}
    if vocab:
        values |= dict.fromkeys(both("input.vocab"), vocab)
    if scaled:
        values |= dict.fromkeys(both("input.scale"), width**0.5)
    if dropout is not None:
        values |= dict.fromkeys((*both("block.dropout"), *both("input.dropout")), dropout)
    return values


def alone(
    stack: str, width: int, depth: int, heads: int, ff: int | None = None, *, vocab: int, kv_heads: int | None = None,
    head_dim: int | None = None, **more: Any,
) -> dict[str, object]:  # fmt: skip
    """The paths that a published size of a model of one ``stack`` sets; ``ff`` is 4·width if absent.

    Further paths below the stack come as keywords, with ``__`` for the dots.
    """
    at = f"architecture.{stack}"
    return {
        "architecture.width": width,
        f"{at}.depth": depth,
        f"{at}.input.vocab": vocab,
        f"{at}.block.attention.heads": heads,
        f"{at}.block.attention.kv_heads": kv_heads or heads,
        f"{at}.block.attention.head_dim": head_dim or width // heads,
        f"{at}.block.feedforward.width": ff or 4 * width,
        **{f"{at}.{path.replace('__', '.')}": value for path, value in more.items()},
    }


TRANSFORMER = Model(
    name="transformer",
    cite="Vaswani et al. 2017, arXiv:1706.03762",
    architecture=Architecture(
        width=512,
        encoder=Stack(
            input=TokenInput(vocab=37_000, positions=Sinusoidal(), scale=512**0.5, dropout=0.1),
            depth=6,
            block=Block(attention=_ATTENTION, feedforward=_FEEDFORWARD, layout=post(NORM), dropout=0.1),
            mask="bidirectional",
        ),
        decoder=Stack(
            input=TokenInput(vocab=37_000, tie=TABLE, positions=Sinusoidal(), scale=512**0.5, start_id=0, dropout=0.1),
            depth=6,
            block=Block(
                attention=_ATTENTION, cross=_ATTENTION, feedforward=_FEEDFORWARD, layout=post(NORM), dropout=0.1
            ),
            mask="causal",
        ),
        heads={"seq2seq_lm": VocabularyHead(tie=TABLE)},
        init=Init(std=None),
    ),
    tokenizer=Tokenizer(kind="bpe"),
    objective=Objective(kind="text_to_text", label_smoothing=0.1),
    recipe=Recipe(steps=100_000, warmup=4000, schedule="inverse_sqrt"),
    published=65e6,
    weaknesses=("training-stability", "length-extrapolation", "quadratic-attention", "kv-memory"),
    sizes={
        "transformer-base": Size(shape(512, 6, 8, 2048, vocab=37_000, scaled=True), published=65e6, note=_UNPUBLISHED),
        "transformer-big": Size(
            shape(1024, 6, 16, 4096, vocab=37_000, scaled=True, dropout=0.3), published=213e6, note=_UNPUBLISHED
        ),
    },
)
MODELS = (TRANSFORMER,)
