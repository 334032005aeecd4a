"""How XLNet is published: attention matrices as [D, heads, head_dim]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.bert import TABLE
from variorum.family.names.bert import E, L
from variorum.family.names.common import head_width
from variorum.family.xlnet import XLNET
from variorum.spec.dialect import ACTIVATION, CLAMP, Codec, Dialect, Key, Rule, leading, same, tied_to
from variorum.spec.model import Model

_MEMORY = Codec(lambda length: length or 0, lambda length: length or None)
_A = "layer.{i}.rel_attn"
SPAN = "architecture.heads.answer_span"
SUMMARISED = ("sequence_classification", "multiple_choice")


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    return {f"{E}.block.attention.head_dim": head_width(model.architecture.width, encoder.block.attention.heads)}


XLNET_NAMES = Dialect(
    model_type="xlnet",
    base=XLNET,
    prefix="transformer.",
    keys=(
        Key("d_model", ("architecture.width",)),
        Key("n_layer", (f"{E}.depth",)),
        Key("n_head", (f"{E}.block.attention.heads", f"{E}.block.attention.kv_heads")),
        Key("d_inner", (f"{E}.block.feedforward.width",)),
        Key("ff_activation", (f"{E}.block.feedforward.activation",), ACTIVATION),
        Key("vocab_size", (f"{E}.input.vocab",)),
        Key("layer_norm_eps", (f"{E}.block.layout.norm.eps", f"{SPAN}.norm.eps")),
        Key("start_n_top", (f"{SPAN}.starts",)),
        Key("end_n_top", (f"{SPAN}.ends",)),
        Key("dropout", (f"{E}.block.dropout", f"{E}.input.dropout", f"{E}.dropout", f"{E}.block.attention.dropout",
                        f"{E}.block.feedforward.dropout")),
        Key("mem_len", (f"{E}.memory",), _MEMORY),
        Key("clamp_len", (f"{E}.positions.clamp",), CLAMP),
        Key("pad_token_id", (f"{E}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("summary_last_dropout", ("architecture.heads.sequence_classification.dropout",
                                     "architecture.heads.multiple_choice.dropout")),
        Key("tie_word_embeddings", ("architecture.heads.permutation_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("word_embedding", "encoder.input.table"),
        leading("mask_emb", "encoder.input.query_vector", 2),
        *(Rule(f"{_A}.{short}", (f"{L}.attention.{name}.weight",), "per_head")
          for short, name in (("q", "query"), ("k", "key"), ("v", "value"), ("r", "positions.relative"))),
        Rule(f"{_A}.o", (f"{L}.attention.out.weight",), "per_head_out"),
        same(f"{_A}.r_w_bias", f"{L}.attention.positions.content_bias"),
        same(f"{_A}.r_r_bias", f"{L}.attention.positions.position_bias"),
        same(f"{_A}.r_s_bias", f"{L}.attention.positions.segment_bias"),
        same(f"{_A}.seg_embed", f"{L}.attention.positions.segments"),
        same(f"{_A}.layer_norm", f"{L}.attention_norms.join"),
        same("layer.{i}.ff.layer_1", f"{L}.feedforward.up"),
        same("layer.{i}.ff.layer_2", f"{L}.feedforward.down"),
        same("layer.{i}.ff.layer_norm", f"{L}.feedforward_norms.join"),
    ),
    heads=(
        same("lm_loss", "heads.permutation_lm.project"),
        *(same("sequence_summary.summary", f"heads.{name}.transform.dense") for name in SUMMARISED),
        *(same("logits_proj", f"heads.{name}.project") for name in SUMMARISED),
        same("classifier", "heads.token_classification.project"),
        same("qa_outputs", "heads.question_answering.project"),
        same("start_logits.dense", "heads.answer_span.start"),
        same("end_logits.dense_0", "heads.answer_span.end.dense"),
        same("end_logits.LayerNorm", "heads.answer_span.end.norm"),
        same("end_logits.dense_1", "heads.answer_span.end.project"),
        same("answer_class.dense_0", "heads.answer_span.no_answer.dense"),
        same("answer_class.dense_1", "heads.answer_span.no_answer.project"),
    ),
    classes={
        "XLNetModel": (),
        "XLNetLMHeadModel": ("permutation_lm",),
        "XLNetForSequenceClassification": ("sequence_classification",),
        "XLNetForMultipleChoice": ("multiple_choice",),
        "XLNetForTokenClassification": ("token_classification",),
        "XLNetForQuestionAnsweringSimple": ("question_answering",),
        "XLNetForQuestionAnswering": ("answer_span",),
    },
    required={"attn_type": "bi", "bi_data": False, "same_length": False, "summary_type": "last",
              "summary_use_proj": True, "summary_activation": "tanh", "untie_r": True},
    read=_read,
    write=lambda model: {"d_head": model.architecture.encoder.block.attention.head_dim},  # type: ignore[union-attr]
    duplicates={"lm_loss.weight": "encoder.input.table.weight"},
)  # fmt: skip
DIALECTS = (XLNET_NAMES,)
