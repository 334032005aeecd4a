"""How LLaMA, Mistral and Mixtral are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.gpt import LLAMA, MISTRAL, MIXTRAL, TABLE
from variorum.family.names.common import head_width, rope_parameters, rotary_of, stated_length, write_rope
from variorum.spec.attention import ALL_PROJECTIONS, Projection
from variorum.spec.dialect import ACTIVATION, WINDOW, Codec, Dialect, Drop, Key, Rule, fused, same, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Rotary

D = "architecture.decoder"
L = "decoder.layers.{i}"


def read_llama(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head width, key/value heads and rotary parameters."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    heads = decoder.block.attention.heads
    rope = rope_parameters(config, decoder.positions.theta)
    return {
        f"{D}.block.attention.head_dim": config.get("head_dim") or head_width(width, heads),
        f"{D}.block.attention.kv_heads": config.get("num_key_value_heads") or heads,
        f"{D}.positions": rotary_of(rope, config.get("max_position_embeddings")),
    }


def write_llama(model: Model) -> dict[str, object]:
    """The inverse of :func:`read_llama`."""
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    attention = decoder.block.attention
    return {
        "head_dim": attention.head_dim,
        "num_key_value_heads": getattr(attention, "kv_heads", attention.heads),
        "rope_parameters": write_rope(decoder.positions, attention.head_dim),
        **stated_length(decoder.positions),
    }


def biased(*which: Projection) -> Codec:
    """A switch for biases on these projections."""
    return Codec(lambda on: which if on else (), bool)


KEYS = (
    Key("hidden_size", ("architecture.width",)),
    Key("num_hidden_layers", (f"{D}.depth",)),
    Key("num_attention_heads", (f"{D}.block.attention.heads",)),
    Key("intermediate_size", (f"{D}.block.feedforward.width",)),
    Key("hidden_act", (f"{D}.block.feedforward.activation",), ACTIVATION),
    Key("vocab_size", (f"{D}.input.vocab",)),
    Key("rms_norm_eps", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
    Key("attention_dropout", (f"{D}.block.attention.dropout",)),
    Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
    Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
)
#: The norms of queries and keys share the epsilon of all others.
_EPS = Key("rms_norm_eps", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps", f"{D}.block.attention.qk_norm.eps"))
KEYS_WITH_QK_NORM = (*(key for key in KEYS if key.config != "rms_norm_eps"), _EPS)
QK_NORMS = (
    same("layers.{i}.self_attn.q_norm", f"{L}.attention.query_norm"),
    same("layers.{i}.self_attn.k_norm", f"{L}.attention.key_norm"),
)
BIASES = Key("attention_bias", (f"{D}.block.attention.bias",), biased(*ALL_PROJECTIONS))
INPUT = (same("embed_tokens", "decoder.input.table"), same("norm", "decoder.final_norm"))
ATTENTION = (
    same("layers.{i}.self_attn.q_proj", f"{L}.attention.query"),
    same("layers.{i}.self_attn.k_proj", f"{L}.attention.key"),
    same("layers.{i}.self_attn.v_proj", f"{L}.attention.value"),
    same("layers.{i}.self_attn.o_proj", f"{L}.attention.out"),
)
MLP = tuple(same(f"layers.{{i}}.mlp.{name}_proj", f"{L}.feedforward.{name}") for name in ("gate", "up", "down"))
NORMS = (
    same("layers.{i}.input_layernorm", f"{L}.attention_norms.before"),
    same("layers.{i}.post_attention_layernorm", f"{L}.feedforward_norms.before"),
)
HEADS = (
    same("lm_head", "heads.causal_lm.project"),
    same("score", "heads.sequence_classification.project"),
    same("score", "heads.token_classification.project"),
    same("qa_outputs", "heads.question_answering.project"),
)


def classes(name: str) -> dict[str, tuple[str, ...]]:
    """Published class names of one family."""
    return {
        f"{name}Model": (),
        f"{name}ForCausalLM": ("causal_lm",),
        f"{name}ForSequenceClassification": ("sequence_classification",),
        f"{name}ForTokenClassification": ("token_classification",),
        f"{name}ForQuestionAnswering": ("question_answering",),
    }


LLAMA_NAMES = Dialect(
    model_type="llama",
    base=LLAMA,
    prefix="model.",
    prefixes={"question_answering": "transformer."},
    keys=(*KEYS, BIASES, Key("mlp_bias", (f"{D}.block.feedforward.bias",))),
    rules=(*INPUT, *ATTENTION, *MLP, *NORMS),
    heads=HEADS,
    classes=classes("Llama"),
    read=read_llama,
    write=write_llama,
    drops=(Drop(r".*rotary_emb\.inv_freq", "recomputed from theta"),),
    duplicates={"lm_head.weight": "decoder.input.table.weight"},
)

MISTRAL_NAMES = LLAMA_NAMES.but(
    model_type="mistral",
    base=MISTRAL,
    prefixes={},
    keys=(*KEYS, Key("sliding_window", (f"{D}.block.attention.window",), WINDOW, none="none")),
    classes=classes("Mistral"),
)


EXPERT = f"{L}.feedforward.experts"
#: The matrices of each expert apart, and all experts of a layer in one tensor.
APART = (
    same("layers.{i}.mlp.gate", f"{L}.feedforward.router"),
    *(Rule(f"layers.{{i}}.mlp.experts.{{j}}.{name}_proj.weight", (f"{EXPERT}.{name}",), "stacked")
      for name in ("gate", "up", "down")),
)  # fmt: skip
TOGETHER = (
    same("layers.{i}.mlp.gate", f"{L}.feedforward.router"),
    fused("layers.{i}.mlp.experts.gate_up_proj", f"{EXPERT}.gate", f"{EXPERT}.up", layout="e s i"),
    same("layers.{i}.mlp.experts.down_proj", f"{EXPERT}.down"),
)


def sparse(dialect: Dialect, apart: tuple[Rule, ...] = APART) -> Dialect:
    """A dialect with experts, whose names in a file show which of the two layouts it has."""
    together = dialect.but(rules=(*dialect.rules, *TOGETHER))
    return dialect.but(rules=(*dialect.rules, *apart), by_name={r"\.experts\.gate_up_proj$": together})


MIXTRAL_NAMES = sparse(
    MISTRAL_NAMES.but(
        model_type="mixtral",
        base=MIXTRAL,
        keys=(
            *MISTRAL_NAMES.keys,
            Key("num_local_experts", (f"{D}.block.feedforward.count",)),
            Key("num_experts_per_tok", (f"{D}.block.feedforward.active",)),
            Key("router_aux_loss_coef", (f"{D}.block.feedforward.router.balance",)),
        ),
        rules=(*INPUT, *ATTENTION, *NORMS),
        classes=classes("Mixtral"),
    ),
    apart=(
        same("layers.{i}.block_sparse_moe.gate", f"{L}.feedforward.router"),
        *(
            Rule(f"layers.{{i}}.block_sparse_moe.experts.{{j}}.{disk}.weight", (f"{EXPERT}.{ours}",), "stacked")
            for disk, ours in (("w1", "gate"), ("w3", "up"), ("w2", "down"))
        ),
    ),
)
DIALECTS = (LLAMA_NAMES, MISTRAL_NAMES, MIXTRAL_NAMES)
