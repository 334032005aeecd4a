"""How GPT-2 is published: matrices stored [in, out], query, key and value in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.gpt import GPT2, TABLE
from variorum.family.names.common import head_width
from variorum.spec.dialect import ACTIVATION, Dialect, Drop, Key, fused, same, tied_to, transposed
from variorum.spec.model import Model

D = "architecture.decoder"
L = "decoder.layers.{i}"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    return {
        f"{D}.block.attention.head_dim": head_width(width, decoder.block.attention.heads),
        f"{D}.block.feedforward.width": config.get("n_inner") or 4 * width,
    }


GPT2_NAMES = Dialect(
    model_type="gpt2",
    base=GPT2,
    prefix="transformer.",
    keys=(
        Key("n_embd", ("architecture.width",)),
        Key("n_layer", (f"{D}.depth",)),
        Key("n_head", (f"{D}.block.attention.heads", f"{D}.block.attention.kv_heads")),
        Key("n_positions", (f"{D}.input.positions.rows",)),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("activation_function", (f"{D}.block.feedforward.activation",), ACTIVATION),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
        Key("resid_pdrop", (f"{D}.block.dropout",)),
        Key("embd_pdrop", (f"{D}.input.dropout",)),
        Key("attn_pdrop", (f"{D}.block.attention.dropout",)),
        Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("wte", "decoder.input.table"),
        same("wpe", "decoder.input.positions"),
        same("h.{i}.ln_1", f"{L}.attention_norms.before"),
        fused("h.{i}.attn.c_attn", f"{L}.attention.query", f"{L}.attention.key", f"{L}.attention.value",
              transposed=True),
        transposed("h.{i}.attn.c_proj", f"{L}.attention.out"),
        same("h.{i}.ln_2", f"{L}.feedforward_norms.before"),
        transposed("h.{i}.mlp.c_fc", f"{L}.feedforward.up"),
        transposed("h.{i}.mlp.c_proj", f"{L}.feedforward.down"),
        same("ln_f", "decoder.final_norm"),
    ),
    heads=(
        same("lm_head", "heads.causal_lm.project"),
        same("score", "heads.sequence_classification.project"),
        same("classifier", "heads.token_classification.project"),
        same("qa_outputs", "heads.question_answering.project"),
    ),
    classes={
        "GPT2Model": (),
        "GPT2LMHeadModel": ("causal_lm",),
        "GPT2ForSequenceClassification": ("sequence_classification",),
        "GPT2ForTokenClassification": ("token_classification",),
        "GPT2ForQuestionAnswering": ("question_answering",),
    },
    required={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    read=_read,
    write=lambda model: {"n_inner": model.architecture.decoder.block.feedforward.width},  # type: ignore[union-attr]
    drops=(Drop(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias", "a constant causal mask"),),
    duplicates={"lm_head.weight": "decoder.input.table.weight"},
)  # fmt: skip
DIALECTS = (GPT2_NAMES,)
