"""How Whisper is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from variorum.family.names.common import head_width
from variorum.family.transformer import ATTENTIONS, both
from variorum.family.whisper import TABLE, WHISPER, steps
from variorum.spec.dialect import ACTIVATION, Dialect, Key, Rule, same
from variorum.spec.model import Model

E, D = "architecture.encoder", "architecture.decoder"
ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
LAYER = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "attention_norms.before": "self_attn_layer_norm",
    "cross_norms.before": "encoder_attn_layer_norm",
    "feedforward.up": "fc1",
    "feedforward.down": "fc2",
    "feedforward_norms.before": "final_layer_norm",
}


def _rules() -> Iterator[Rule]:
    for name in ("conv1", "conv2"):
        yield same(f"encoder.{name}", f"encoder.input.{name}")
    yield same("decoder.embed_tokens", TABLE)
    yield same("decoder.embed_positions", "decoder.input.positions")
    for stack in ("encoder", "decoder"):
        for ours, theirs in LAYER.items():
            yield same(f"{stack}.layers.{{i}}.{theirs}", f"{stack}.layers.{{i}}.{ours}")
        yield same(f"{stack}.layer_norm", f"{stack}.final_norm")


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head widths and the encoder's waves."""
    arch = model.architecture
    assert arch.encoder is not None and arch.decoder is not None
    width = arch.width
    heads = {path: head_width(width, stack.block.attention.heads) for path, stack in
             zip(ATTENTIONS, (arch.encoder, arch.decoder, arch.decoder), strict=True)}  # fmt: skip
    return {f"{path}.head_dim": value for path, value in heads.items()} | {f"{E}.input.positions": steps(width)}


WHISPER_NAMES = Dialect(
    model_type="whisper",
    base=WHISPER,
    prefix="model.",
    keys=(
        Key("d_model", ("architecture.width",)),
        Key("encoder_layers", (f"{E}.depth",)),
        Key("decoder_layers", (f"{D}.depth",)),
        Key("encoder_attention_heads", (f"{ATTENTIONS[0]}.heads", f"{ATTENTIONS[0]}.kv_heads")),
        Key("decoder_attention_heads", tuple(f"{path}.{n}" for path in ATTENTIONS[1:] for n in ("heads", "kv_heads"))),
        Key("encoder_ffn_dim", (f"{E}.block.feedforward.width",)),
        Key("decoder_ffn_dim", (f"{D}.block.feedforward.width",)),
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
    rules=tuple(_rules()),
    heads=(),
    classes={"WhisperModel": (), "WhisperForConditionalGeneration": ("seq2seq_lm",)},
    required={"tie_word_embeddings": True, "scale_embedding": False},
    read=_read,
    tables={"encoder.embed_positions.weight": "encoder.input.positions"},
    duplicates={"proj_out.weight": f"{TABLE}.weight"},
)
DIALECTS = (WHISPER_NAMES,)
