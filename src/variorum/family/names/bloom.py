"""How BLOOM and MPT are published: fused query, key and value, by head in BLOOM, one after another in MPT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.bloom import BLOOM, MPT
from variorum.family.gpt import TABLE
from variorum.family.names.common import head_width
from variorum.family.names.neox import HEADS, D, L
from variorum.spec.attention import Attention
from variorum.spec.dialect import Codec, Dialect, Key, fused, same, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Alibi

_QKV = tuple(f"{L}.attention.{name}" for name in ("query", "key", "value"))


def _read_bloom(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    return {
        f"{D}.block.attention.head_dim": head_width(width, decoder.block.attention.heads),
        f"{D}.block.feedforward.width": 4 * width,
    }


BLOOM_NAMES = Dialect(
    model_type="bloom",
    base=BLOOM,
    prefix="transformer.",
    keys=(
        Key("hidden_size", ("architecture.width",)),
        Key("n_layer", (f"{D}.depth",)),
        Key("n_head", (f"{D}.block.attention.heads", f"{D}.block.attention.kv_heads")),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps", f"{D}.input.norm.eps")),
        Key("apply_residual_connection_post_layernorm", (f"{D}.block.layout.residual",),
            Codec(lambda on: "normed" if on else "input", lambda residual: residual == "normed")),
        Key("hidden_dropout", (f"{D}.block.dropout", "architecture.heads.token_classification.dropout")),
        Key("attention_dropout", (f"{D}.block.attention.dropout",)),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("word_embeddings", "decoder.input.table"),
        same("word_embeddings_layernorm", "decoder.input.norm"),
        same("h.{i}.input_layernorm", f"{L}.attention_norms.before"),
        fused("h.{i}.self_attention.query_key_value", *_QKV, layout="g (r+2) d"),
        same("h.{i}.self_attention.dense", f"{L}.attention.out"),
        same("h.{i}.post_attention_layernorm", f"{L}.feedforward_norms.before"),
        same("h.{i}.mlp.dense_h_to_4h", f"{L}.feedforward.up"),
        same("h.{i}.mlp.dense_4h_to_h", f"{L}.feedforward.down"),
        same("ln_f", "decoder.final_norm"),
    ),
    heads=(same("lm_head", "heads.causal_lm.project"), *HEADS),
    classes={
        "BloomModel": (),
        "BloomForCausalLM": ("causal_lm",),
        "BloomForSequenceClassification": ("sequence_classification",),
        "BloomForTokenClassification": ("token_classification",),
        "BloomForQuestionAnswering": ("question_answering",),
    },
    read=_read_bloom,
    duplicates={"lm_head.weight": "decoder.input.table.weight"},
)  # fmt: skip

#: What the released code ignores or does not have; other values would mean another model.
_PLAIN = {
    "attn_type": "multihead_attention", "prefix_lm": False, "qk_ln": False, "attn_uses_sequence_id": False,
    "alibi": True,
}  # fmt: skip


def _read_mpt(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """The part of the configuration that is nested, and the widths that follow from others."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    nested = {**_PLAIN, **(config.get("attn_config") or {})}
    for name, must in _PLAIN.items():
        if nested[name] != must:
            raise DamagedFile(f"attn_config.{name} is {nested[name]!r}, only {must!r} is implemented")
    dropout = float(nested.get("attn_pdrop", 0))
    return {
        f"{D}.block.attention.head_dim": head_width(width, decoder.block.attention.heads),
        f"{D}.block.attention.clip": nested.get("clip_qkv") or None,
        f"{D}.block.attention.scale": nested.get("softmax_scale"),
        f"{D}.positions": Alibi(max_bias=float(nested.get("alibi_bias_max", 8))),
        f"{D}.block.feedforward.width": 4 * width,
        f"{D}.block.attention.dropout": dropout,
        f"{D}.block.dropout": dropout,
    }


def _write_mpt(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None
    attention, positions = decoder.block.attention, decoder.positions
    assert isinstance(attention, Attention) and isinstance(positions, Alibi)
    nested = {
        **_PLAIN, "attn_pdrop": _whole(attention.dropout), "attn_impl": "torch", "clip_qkv": attention.clip,
        "softmax_scale": attention.scale, "alibi_bias_max": _whole(positions.max_bias),
    }  # fmt: skip
    return {"attn_config": nested}


def _whole(value: float) -> float:
    """A whole number without its point, as the published files have it."""
    return int(value) if value == int(value) else value


MPT_NAMES = Dialect(
    model_type="mpt",
    base=MPT,
    prefix="transformer.",
    keys=(
        Key("d_model", ("architecture.width",)),
        Key("n_layers", (f"{D}.depth",)),
        Key("n_heads", (f"{D}.block.attention.heads", f"{D}.block.attention.kv_heads")),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("wte", "decoder.input.table"),
        same("blocks.{i}.norm_1", f"{L}.attention_norms.before"),
        fused("blocks.{i}.attn.Wqkv", *_QKV),
        same("blocks.{i}.attn.out_proj", f"{L}.attention.out"),
        same("blocks.{i}.norm_2", f"{L}.feedforward_norms.before"),
        same("blocks.{i}.ffn.up_proj", f"{L}.feedforward.up"),
        same("blocks.{i}.ffn.down_proj", f"{L}.feedforward.down"),
        same("norm_f", "decoder.final_norm"),
    ),
    heads=(same("lm_head", "heads.causal_lm.project"), *HEADS),
    classes={
        "MptModel": (),
        "MptForCausalLM": ("causal_lm",),
        "MptForSequenceClassification": ("sequence_classification",),
        "MptForTokenClassification": ("token_classification",),
        "MptForQuestionAnswering": ("question_answering",),
    },
    required={"no_bias": True, "expansion_ratio": 4, "logit_scale": None},
    read=_read_mpt,
    write=_write_mpt,
    duplicates={"lm_head.weight": "decoder.input.table.weight"},
)
DIALECTS = (BLOOM_NAMES, MPT_NAMES)
