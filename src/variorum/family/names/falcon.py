"""How Falcon is published: one model type for three designs, told apart by their norms' names.

The new releases (40B, 180B) may have one norm or two; the first (7B) shares one; those without a parallel block (RW)
have two under other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.falcon import FALCON, FALCON_GROUPED, FALCON_RW
from variorum.family.gpt import NORM, TABLE
from variorum.family.names.common import head_width, rope_parameters, scaling_of, stated_length, write_rope
from variorum.family.names.neox import HEADS, D, L
from variorum.spec.architecture import parallel, pre
from variorum.spec.attention import ALL_PROJECTIONS, Attention
from variorum.spec.dialect import ACTIVATION, Dialect, Drop, Key, Rule, fused, same, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Alibi, Rotary

_BIAS = (f"{D}.block.attention.bias", f"{D}.block.feedforward.bias")


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Layout, key heads, biases and positions, each from a flag or two."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    heads, new = decoder.block.attention.heads, bool(config.get("new_decoder_architecture"))
    one = not new and config.get("multi_query", True)
    biased = bool(config.get("bias"))
    norm = {f"{D}.block.layout.norm.eps": decoder.block.layout.norm.eps}
    return {
        f"{D}.block.layout": _layout(config, new),
        **norm,
        f"{D}.block.attention.kv_heads": 1 if one else (config.get("num_kv_heads") if new else None) or heads,
        f"{D}.block.attention.head_dim": head_width(width, heads),
        f"{D}.block.feedforward.width": config.get("ffn_hidden_size") or 4 * width,
        f"{D}.positions": Alibi(scaled=True) if config.get("alibi") else _rotary(config),
        **dict(zip(_BIAS, (ALL_PROJECTIONS if biased else (), biased), strict=True)),
    }


def _layout(config: Mapping[str, Any], new: bool) -> object:
    beside, norms = config.get("parallel_attn", True), config.get("num_ln_in_parallel_attn")
    if new and not beside:
        raise DamagedFile("new_decoder_architecture without parallel_attn is no model", remedy="set parallel_attn")
    if not new and norms == 2:
        raise DamagedFile("num_ln_in_parallel_attn is 2 for a block that has one norm", remedy="set it to 1 or null")
    if not beside:
        return pre(NORM)
    return parallel(NORM, shared=not new or norms == 1)


def _rotary(config: Mapping[str, Any]) -> Rotary:
    rope = rope_parameters(config, 10_000.0)
    return Rotary(theta=float(rope["rope_theta"]), scaling=scaling_of(rope, config.get("max_position_embeddings")))


def _write(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.block.attention, Attention)
    layout, attention, positions = decoder.block.layout, decoder.block.attention, decoder.positions
    grouped = 1 < attention.kv_heads < attention.heads
    beside, shared = layout.order == "parallel", "shared" in layout.feedforward
    new = beside and (grouped or not shared)
    found: dict[str, object] = {
        "new_decoder_architecture": new,
        "parallel_attn": beside,
        "num_ln_in_parallel_attn": (1 if shared else 2) if new else None,
        "multi_query": not new and attention.kv_heads == 1,
        "num_kv_heads": attention.kv_heads if new else attention.heads,
        "ffn_hidden_size": getattr(decoder.block.feedforward, "width", None),
        "bias": bool(attention.bias),
        "alibi": isinstance(positions, Alibi),
    }
    if isinstance(positions, Rotary):
        found |= {"rope_parameters": write_rope(positions, attention.head_dim), **stated_length(positions)}
    return found


def _rules(attention: str, feedforward: str) -> tuple[Rule, ...]:
    """Backbone names where the two norms are called so; what a model has only one of is found under the first."""
    return (
        same("word_embeddings", "decoder.input.table"),
        same(f"h.{{i}}.{attention}", f"{L}.attention_norms.before"),
        fused("h.{i}.self_attention.query_key_value", f"{L}.attention.query", f"{L}.attention.key",
              f"{L}.attention.value", layout="g (r+2) d"),
        same("h.{i}.self_attention.dense", f"{L}.attention.out"),
        same(f"h.{{i}}.{feedforward}", f"{L}.feedforward_norms.before"),
        same("h.{i}.mlp.dense_h_to_4h", f"{L}.feedforward.up"),
        same("h.{i}.mlp.dense_4h_to_h", f"{L}.feedforward.down"),
        same("ln_f", "decoder.final_norm"),
    )  # fmt: skip


FALCON_NAMES = Dialect(
    model_type="falcon",
    base=FALCON,
    prefix="transformer.",
    keys=(
        Key("hidden_size", ("architecture.width",)),
        Key("num_hidden_layers", (f"{D}.depth",)),
        Key("num_attention_heads", (f"{D}.block.attention.heads",)),
        Key("activation", (f"{D}.block.feedforward.activation",), ACTIVATION),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
        Key("hidden_dropout", (f"{D}.block.dropout", "architecture.heads.token_classification.dropout")),
        Key("attention_dropout", (f"{D}.block.attention.dropout",)),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=_rules("input_layernorm", "post_attention_layernorm"),
    heads=(same("lm_head", "heads.causal_lm.project"), *HEADS),
    classes={
        "FalconModel": (),
        "FalconForCausalLM": ("causal_lm",),
        "FalconForSequenceClassification": ("sequence_classification",),
        "FalconForTokenClassification": ("token_classification",),
        "FalconForQuestionAnswering": ("question_answering",),
    },
    required={"apply_residual_connection_post_layernorm": False},
    read=_read,
    write=_write,
    drops=(Drop(r".*rotary_emb\.inv_freq", "recomputed from theta"),),
    duplicates={"lm_head.weight": "decoder.input.table.weight"},
    choose=lambda config: _of(config),
)
_RW_NAMES = FALCON_NAMES.but(base=FALCON_RW)
_GROUPED_NAMES = FALCON_NAMES.but(base=FALCON_GROUPED)
_TWO_NORM_NAMES = _GROUPED_NAMES.but(rules=_rules("ln_attn", "ln_mlp"))


def _of(config: Mapping[str, Any]) -> Dialect:
    if not config.get("new_decoder_architecture"):
        return FALCON_NAMES if config.get("parallel_attn", True) else _RW_NAMES
    return _GROUPED_NAMES if config.get("num_ln_in_parallel_attn") == 1 else _TWO_NORM_NAMES


DIALECTS = (FALCON_NAMES,)
