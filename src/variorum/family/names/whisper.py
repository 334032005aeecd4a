"""How Whisper is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.names.bart import head_widths, stack_keys, stack_rules
from variorum.family.transformer import ATTENTIONS, both
from variorum.family.whisper import TABLE, WHISPER, steps
from variorum.spec.dialect import ACTIVATION, Dialect, Key, same
from variorum.spec.model import Model

E, D = "architecture.encoder", "architecture.decoder"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head widths and the encoder's waves."""
    return head_widths(model.architecture) | {f"{E}.input.positions": steps(model.architecture.width)}


WHISPER_NAMES = Dialect(
    model_type="whisper",
    base=WHISPER,
    prefix="model.",
    keys=(
        Key("d_model", ("architecture.width",)),
        *stack_keys("layers", "depth"),
        *stack_keys("attention_heads", "block.attention.heads"),
        *stack_keys("ffn_dim", "block.feedforward.width"),
        Key("activation_function", both("block.feedforward.activation"), ACTIVATION),
        Key("dropout", (*both("block.dropout"), *both("input.dropout"))),
        Key("attention_dropout", tuple(f"{path}.dropout" for path in ATTENTIONS)),
        Key("activation_dropout", both("block.feedforward.dropout")),
        Key("num_mel_bins", (f"{E}.input.mels",)),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("max_source_positions", ("recipe.length",)),
        Key("max_target_positions", (f"{D}.input.positions.rows",)),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("decoder_start_token_id", (f"{D}.input.start_id",)),
        Key("init_std", ("architecture.init.std",)),
    ),
    rules=(
        same("encoder.conv1", "encoder.input.conv1"),
        same("encoder.conv2", "encoder.input.conv2"),
        same("decoder.embed_tokens", TABLE),
        *stack_rules("encoder"),
        *stack_rules("decoder"),
    ),
    heads=(),
    classes={"WhisperModel": (), "WhisperForConditionalGeneration": ("seq2seq_lm",)},
    required={"tie_word_embeddings": True, "scale_embedding": False},
    read=_read,
    tables={"encoder.embed_positions.weight": "encoder.input.positions"},
    duplicates={"proj_out.weight": f"{TABLE}.weight"},
)
DIALECTS = (WHISPER_NAMES,)
