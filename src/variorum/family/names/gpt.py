"""How GPT-1 and GPT-2 are published: matrices stored [in, out], query, key and value in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.gpt import GPT1, GPT2, HEADS, TABLE
from variorum.family.names.common import head_width
from variorum.spec.dialect import ACTIVATION, Codec, Dialect, Drop, Key, fused, same, tied_to, transposed
from variorum.spec.model import Model

D = "architecture.decoder"
L = "decoder.layers.{i}"
CHOICE = f"{HEADS}.multiple_choice"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    if "DoubleHeads" in str(config.get("architectures")) and config.get("summary_activation"):
        raise DamagedFile(f"summary_activation is {config['summary_activation']!r}, only none is implemented")
    return {
        f"{D}.block.attention.head_dim": head_width(width, decoder.block.attention.heads),
        f"{D}.block.feedforward.width": config.get("n_inner") or 4 * width,
    }


MATRICES = (
    fused("h.{i}.attn.c_attn", f"{L}.attention.query", f"{L}.attention.key", f"{L}.attention.value", transposed=True),
    transposed("h.{i}.attn.c_proj", f"{L}.attention.out"),
    transposed("h.{i}.mlp.c_fc", f"{L}.feedforward.up"),
    transposed("h.{i}.mlp.c_proj", f"{L}.feedforward.down"),
)
OTHER_HEADS = (
    same("multiple_choice_head.summary", "heads.multiple_choice.project"),
    same("score", "heads.sequence_classification.project"),
    same("classifier", "heads.token_classification.project"),
    same("qa_outputs", "heads.question_answering.project"),
)
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
        Key("summary_first_dropout", (f"{CHOICE}.dropout",)),
        Key("tie_word_embeddings", (f"{HEADS}.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("wte", "decoder.input.table"),
        same("wpe", "decoder.input.positions"),
        same("h.{i}.ln_1", f"{L}.attention_norms.before"),
        same("h.{i}.ln_2", f"{L}.feedforward_norms.before"),
        same("ln_f", "decoder.final_norm"),
        *MATRICES,
    ),
    heads=(same("lm_head", "heads.causal_lm.project"), *OTHER_HEADS),
    classes={
        "GPT2Model": (),
        "GPT2LMHeadModel": ("causal_lm",),
        "GPT2DoubleHeadsModel": ("causal_lm", "multiple_choice"),
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

#: Its "gelu" is the tanh form.
_FORMS = {"gelu": "gelu_tanh", "swish": "silu"}
_ACTIVATION = Codec(lambda name: _FORMS.get(name, name), lambda name: {"gelu_tanh": "gelu"}.get(name, name))
_TABLE = same("tokens_embed", "decoder.input.table")
_REST = (
    same("positions_embed", "decoder.input.positions"),
    same("h.{i}.ln_1", f"{L}.attention_norms.join"),
    same("h.{i}.ln_2", f"{L}.feedforward_norms.join"),
    *MATRICES,
)
_CHANGED = ("activation_function", "layer_norm_epsilon", "tie_word_embeddings")
GPT1_NAMES = GPT2_NAMES.but(
    model_type="openai-gpt",
    base=GPT1,
    keys=(
        *(key for key in GPT2_NAMES.keys if key.config not in _CHANGED),
        Key("afn", (f"{D}.block.feedforward.activation",), _ACTIVATION),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps",)),
    ),
    rules=(_TABLE, *_REST),
    classes={
        "OpenAIGPTModel": (),
        "OpenAIGPTLMHeadModel": ("causal_lm",),
        "OpenAIGPTDoubleHeadsModel": ("causal_lm", "multiple_choice"),
        "OpenAIGPTForSequenceClassification": ("sequence_classification",),
    },
    required={"tie_word_embeddings": True},
    write=lambda model: {},
)
#: Newer files of the double-headed class hold the one table under the head's name.
GPT1_NAMES = GPT1_NAMES.but(
    by_name={
        r"^lm_head\.weight$": GPT1_NAMES.but(
            rules=_REST,
            heads=(same("lm_head", "decoder.input.table"), *OTHER_HEADS),
            duplicates={"tokens_embed.weight": "decoder.input.table.weight"},
        )
    }
)
DIALECTS = (GPT1_NAMES, GPT2_NAMES)
