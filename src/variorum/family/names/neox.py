"""How GPT-NeoX and Pythia are published: query, key and value in one matrix, head by head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.gpt import TABLE
from variorum.family.names.common import head_width, rope_parameters, scaling_of, stated_length, write_rope
from variorum.family.neox import NEOX
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.dialect import ACTIVATION, Codec, Dialect, Drop, Key, fused, same, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Rotary

D = "architecture.decoder"
L = "decoder.layers.{i}"
#: A flag that puts a bias on every projection.
BIASES = Codec(lambda on: ALL_PROJECTIONS if on else (), bool)
PARALLEL = Codec(lambda on: "parallel" if on else "serial", lambda order: order == "parallel")
HEADS = (
    same("score", "heads.sequence_classification.project"),
    same("classifier", "heads.token_classification.project"),
    same("qa_outputs", "heads.question_answering.project"),
)


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head width and rotary parameters, in the current spelling or that of the releases."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    dims, length = head_width(width, decoder.block.attention.heads), config.get("max_position_embeddings")
    rope = rope_parameters(config, config.get("rotary_emb_base", decoder.positions.theta))
    fraction = float(rope.get("partial_rotary_factor", config.get("rotary_pct", 0.25)))
    rotary = Rotary(theta=float(rope["rope_theta"]), fraction=fraction, scaling=scaling_of(rope, length))
    return {f"{D}.block.attention.head_dim": dims, f"{D}.positions": rotary}


def _write(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    rotary, attention = decoder.positions, decoder.block.attention
    rope = {**write_rope(rotary, attention.head_dim), "partial_rotary_factor": rotary.fraction}
    return {"rope_parameters": rope, **stated_length(rotary)}


NEOX_NAMES = Dialect(
    model_type="gpt_neox",
    base=NEOX,
    prefix="gpt_neox.",
    keys=(
        Key("hidden_size", ("architecture.width",)),
        Key("num_hidden_layers", (f"{D}.depth",)),
        Key("num_attention_heads", (f"{D}.block.attention.heads", f"{D}.block.attention.kv_heads")),
        Key("intermediate_size", (f"{D}.block.feedforward.width",)),
        Key("hidden_act", (f"{D}.block.feedforward.activation",), ACTIVATION),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("layer_norm_eps", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
        Key("use_parallel_residual", (f"{D}.block.layout.order",), PARALLEL),
        Key("attention_bias", (f"{D}.block.attention.bias",), BIASES),
        Key("hidden_dropout", (f"{D}.block.dropout", f"{D}.input.dropout")),
        Key("attention_dropout", (f"{D}.block.attention.dropout",)),
        Key("classifier_dropout", ("architecture.heads.token_classification.dropout",)),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("embed_in", "decoder.input.table"),
        same("layers.{i}.input_layernorm", f"{L}.attention_norms.before"),
        fused("layers.{i}.attention.query_key_value", f"{L}.attention.query", f"{L}.attention.key",
              f"{L}.attention.value", layout="g (r+2) d"),
        same("layers.{i}.attention.dense", f"{L}.attention.out"),
        same("layers.{i}.post_attention_layernorm", f"{L}.feedforward_norms.before"),
        same("layers.{i}.mlp.dense_h_to_4h", f"{L}.feedforward.up"),
        same("layers.{i}.mlp.dense_4h_to_h", f"{L}.feedforward.down"),
        same("final_layer_norm", "decoder.final_norm"),
    ),
    heads=(same("embed_out", "heads.causal_lm.project"), *HEADS),
    classes={
        "GPTNeoXModel": (),
        "GPTNeoXForCausalLM": ("causal_lm",),
        "GPTNeoXForSequenceClassification": ("sequence_classification",),
        "GPTNeoXForTokenClassification": ("token_classification",),
        "GPTNeoXForQuestionAnswering": ("question_answering",),
    },
    read=_read,
    write=_write,
    drops=(Drop(r"(gpt_neox\.)?layers\.\d+\.attention\.(masked_)?bias", "a constant causal mask"),
           Drop(r".*rotary_emb\.inv_freq", "recomputed from theta")),
    duplicates={"embed_out.weight": "decoder.input.table.weight"},
)  # fmt: skip
DIALECTS = (NEOX_NAMES,)
