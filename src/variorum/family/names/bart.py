"""How BART, mBART and PEGASUS are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.bart import BART, MBART, PEGASUS
from variorum.family.names.common import END, head_width
from variorum.family.transformer import ATTENTIONS, STACKS, TABLE, both
from variorum.spec.architecture import Architecture
from variorum.spec.dialect import ACTIVATION, Codec, Dialect, Drop, Key, Rule, leading, same, tied_to
from variorum.spec.model import Model

H = "architecture.heads"
#: The table has two rows before position 0.
ROWS = Codec(lambda length: length + 2, lambda rows: rows - 2)
START = Codec(lambda start: "last" if start is None else start, lambda start: None if start == "last" else start)


def head_widths(arch: Architecture) -> dict[str, object]:
    """Heads of every attention: the config names those of each stack, and cross-attention has the decoder's."""
    values: dict[str, object] = {}
    for path, stack in zip(ATTENTIONS, ("encoder", "decoder", "decoder"), strict=True):
        heads = arch.stacks[stack].block.attention.heads
        values |= {f"{path}.heads": heads, f"{path}.kv_heads": heads, f"{path}.head_dim": head_width(arch.width, heads)}
    return values


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    arch, scaled = model.architecture, config.get("scale_embedding", False)
    return head_widths(arch) | dict.fromkeys(both("input.scale"), arch.width**0.5 if scaled else None)


def _write(model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    return {"scale_embedding": encoder.tokens.scale is not None, "is_encoder_decoder": True}


def stack_rules(stack: str) -> tuple[Rule, ...]:
    """The names of one stack below its input's table."""
    ours, disk = f"{stack}.layers.{{i}}", f"{stack}.layers.{{i}}"
    rules = []
    for part, theirs in (("attention", "self_attn"), ("cross", "encoder_attn"))[: 1 if stack == "encoder" else 2]:
        projections = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "out_proj"))
        rules += [same(f"{disk}.{theirs}.{name}", f"{ours}.{part}.{projection}") for projection, name in projections]
        rules += [same(f"{disk}.{theirs}_layer_norm", f"{ours}.{part}_norms.{place}") for place in ("join", "before")]
    return (
        *rules,
        same(f"{disk}.fc1", f"{ours}.feedforward.up"),
        same(f"{disk}.fc2", f"{ours}.feedforward.down"),
        *(same(f"{disk}.final_layer_norm", f"{ours}.feedforward_norms.{place}") for place in ("join", "before")),
        same(f"{stack}.embed_positions", f"{stack}.input.positions"),
        same(f"{stack}.layernorm_embedding", f"{stack}.input.norm"),
        same(f"{stack}.layer_norm", f"{stack}.final_norm"),
    )


def stack_keys(config: str, path: str) -> tuple[Key, ...]:
    """A key per stack, with the stack's name in it."""
    return tuple(Key(f"{stack}_{config}", (f"architecture.{stack}.{path}",)) for stack in STACKS)


_SHARED = "encoder.input.table.weight"
_KEYS = (
    Key("d_model", ("architecture.width",)),
    *stack_keys("layers", "depth"),
    *stack_keys("attention_heads", "block.attention.heads"),
    *stack_keys("ffn_dim", "block.feedforward.width"),
    Key("vocab_size", both("input.vocab")),
    Key("activation_function", both("block.feedforward.activation"), ACTIVATION),
    Key("dropout", (*both("block.dropout"), *both("input.dropout"))),
    Key("attention_dropout", tuple(f"{path}.dropout" for path in ATTENTIONS)),
    Key("activation_dropout", both("block.feedforward.dropout")),
    Key("init_std", ("architecture.init.std",)),
    Key("pad_token_id", both("input.pad_id")),
    Key("tie_word_embeddings", (f"{H}.seq2seq_lm.tie",), tied_to(TABLE)),
)
_JUDGE = f"{H}.sequence_classification"
_LEARNED = Key("max_position_embeddings", both("input.positions.rows"), ROWS)
_CLASSIFIERS = (
    Key("classifier_dropout", (f"{_JUDGE}.transform_dropout", f"{_JUDGE}.dropout")),
    Key("eos_token_id", (f"{_JUDGE}.end_id",), END),
)


def _classes(name: str) -> dict[str, tuple[str, ...]]:
    return {
        f"{name}Model": (),
        f"{name}ForConditionalGeneration": ("seq2seq_lm",),
        f"{name}ForSequenceClassification": ("sequence_classification",),
        f"{name}ForQuestionAnswering": ("question_answering",),
    }


BART_NAMES = Dialect(
    model_type="bart",
    base=BART,
    prefix="model.",
    keys=(*_KEYS, _LEARNED, *_CLASSIFIERS, Key("decoder_start_token_id", ("architecture.decoder.input.start_id",))),
    rules=(same("shared", TABLE), *stack_rules("encoder"), *stack_rules("decoder")),
    heads=(
        leading("final_logits_bias", "heads.seq2seq_lm.offset", 1),
        same("lm_head", "heads.seq2seq_lm.project"),
        same("classification_head.dense", "heads.sequence_classification.transform.dense"),
        same("classification_head.out_proj", "heads.sequence_classification.project"),
        same("qa_outputs", "heads.question_answering.project"),
    ),
    classes=_classes("Bart"),
    read=_read,
    write=_write,
    drops=(Drop(r"(model\.)?(encoder|decoder)\.version", "an old release numbered its layout"),),
    duplicates={
        "lm_head.weight": _SHARED, "encoder.embed_tokens.weight": _SHARED, "decoder.embed_tokens.weight": _SHARED,
    },
)  # fmt: skip

MBART_NAMES = BART_NAMES.but(
    model_type="mbart",
    base=MBART,
    keys=(
        *_KEYS, _LEARNED, *_CLASSIFIERS,
        Key("decoder_start_token_id", ("architecture.decoder.input.start_id",), START, none="none"),
    ),
    classes=_classes("MBart"),
)  # fmt: skip

PEGASUS_NAMES = BART_NAMES.but(
    model_type="pegasus",
    base=PEGASUS,
    keys=(
        *_KEYS,
        Key("max_position_embeddings", ("recipe.length",)),
        Key("decoder_start_token_id", ("architecture.decoder.input.start_id",)),
    ),
    classes={"PegasusModel": (), "PegasusForConditionalGeneration": ("seq2seq_lm",)},
    tables={f"{stack}.embed_positions.weight": f"{stack}.input.positions" for stack in STACKS},
)
DIALECTS = (BART_NAMES, MBART_NAMES, PEGASUS_NAMES)
