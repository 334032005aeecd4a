"""How T5 and its descendants are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.t5 import T5, TABLE
from variorum.spec.architecture import Architecture
from variorum.spec.dialect import Dialect, Drop, Key, Rule, same
from variorum.spec.feedforward import MLP, GatedMLP
from variorum.spec.heads import VocabularyHead
from variorum.spec.model import Model

A = "architecture"
STACKS = ("encoder", "decoder")
ATTENTIONS = tuple(
    f"{A}.{s}.block.{a}" for s, a in (("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross"))
)


def _both(path: str) -> tuple[str, ...]:
    return tuple(f"{A}.{stack}.{path}" for stack in STACKS)


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    kind = config.get("feed_forward_proj", "relu")
    gated, activation = kind.startswith("gated-"), kind.removeprefix("gated-")
    # "gated-gelu" has always meant the tanh form.
    activation = "gelu_tanh" if gated and activation == "gelu" else activation
    dropout, width = config.get("dropout_rate", 0.1), model.architecture.width
    make: Any = GatedMLP if gated else MLP
    feedforward = make(width=config.get("d_ff", 2048), activation=activation, bias=False, dropout=dropout)
    tied = config.get("tie_word_embeddings", True)
    scaled = config.get("scale_decoder_outputs", tied)
    head = VocabularyHead(tie=TABLE if tied else None, scale=width**-0.5 if scaled else None)
    values: dict[str, object] = dict.fromkeys(_both("block.feedforward"), feedforward)
    values[f"{A}.heads.seq2seq_lm"] = head
    values[f"{A}.decoder.depth"] = config.get("num_decoder_layers") or config.get("num_layers", 6)
    values[f"{A}.heads.sequence_classification.dropout"] = config.get("classifier_dropout", 0.0)
    if (config.get("architectures") or [None])[0] in ("T5EncoderModel", "T5ForTokenClassification"):
        values |= {f"{A}.decoder": None, f"{A}.heads.seq2seq_lm": None, f"{A}.heads.sequence_classification": None,
                   f"{A}.heads.question_answering": None}  # fmt: skip
    return values


def _write(model: Model) -> dict[str, object]:
    arch: Architecture = model.architecture
    encoder = arch.encoder
    assert encoder is not None
    ff = encoder.block.feedforward
    activation = "gelu" if ff.activation == "gelu_tanh" else ff.activation
    head = arch.heads.get("seq2seq_lm")
    config: dict[str, object] = {
        "d_ff": ff.width,
        "feed_forward_proj": f"gated-{activation}" if isinstance(ff, GatedMLP) else activation,
        "num_decoder_layers": arch.decoder.depth if arch.decoder else encoder.depth,
        "is_encoder_decoder": arch.decoder is not None,
    }
    if isinstance(head, VocabularyHead):
        config |= {"tie_word_embeddings": head.tie is not None, "scale_decoder_outputs": head.scale is not None}
    return config


def _stack(stack: str, *, gated: bool) -> tuple[Rule, ...]:
    layer, disk = f"{stack}.layers.{{i}}", f"{stack}.block.{{i}}.layer"
    last = 2 if stack == "decoder" else 1
    rules = [same(f"{disk}.0.layer_norm", f"{layer}.attention_norms.before")]
    places = [(0, "SelfAttention", "attention")]
    if stack == "decoder":
        places.append((1, "EncDecAttention", "cross"))
        rules.append(same(f"{disk}.1.layer_norm", f"{layer}.cross_norms.before"))
    for place, theirs, ours in places:
        rules += [
            same(f"{disk}.{place}.{theirs}.{short}", f"{layer}.{ours}.{name}")
            for short, name in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out"))
        ]
    ff = f"{disk}.{last}.DenseReluDense"
    return (
        *rules,
        same(f"{disk}.{last}.layer_norm", f"{layer}.feedforward_norms.before"),
        same(f"{ff}.wi_0", f"{layer}.feedforward.gate"),
        same(f"{ff}.wi_1" if gated else f"{ff}.wi", f"{layer}.feedforward.up"),
        same(f"{ff}.wo", f"{layer}.feedforward.down"),
        same(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias", f"{stack}.positions.table"),
        same(f"{stack}.final_layer_norm", f"{stack}.final_norm"),
    )


def _rules(*, gated: bool) -> tuple[Rule, ...]:
    return (same("shared", TABLE), *_stack("encoder", gated=gated), *_stack("decoder", gated=gated))


_SHARED = "encoder.input.table.weight"
T5_NAMES = Dialect(
    model_type="t5",
    base=T5,
    prefix="",
    prefixes={"token_classification": "transformer.", "sequence_classification": "transformer."},
    keys=(
        Key("d_model", ("architecture.width",)),
        Key("d_kv", tuple(f"{path}.head_dim" for path in ATTENTIONS)),
        Key("num_layers", ("architecture.encoder.depth",)),
        Key("num_heads", tuple(f"{path}.{count}" for path in ATTENTIONS for count in ("heads", "kv_heads"))),
        Key("vocab_size", _both("input.vocab")),
        Key("relative_attention_num_buckets", _both("positions.buckets")),
        Key("relative_attention_max_distance", _both("positions.max_distance")),
        Key("layer_norm_epsilon", (*_both("block.layout.norm.eps"), *_both("final_norm.eps"))),
        Key("dropout_rate", (*_both("block.dropout"), *_both("input.dropout"), *_both("dropout"),
                             *(f"{path}.dropout" for path in ATTENTIONS))),
        Key("pad_token_id", _both("input.pad_id"), none="none"),
        Key("decoder_start_token_id", ("architecture.decoder.input.start_id",)),
    ),
    rules=_rules(gated=False),
    heads=(
        same("lm_head", "heads.seq2seq_lm.project"),
        same("classification_head.dense", "heads.sequence_classification.transform.dense"),
        same("classification_head.out_proj", "heads.sequence_classification.project"),
        same("classifier", "heads.token_classification.project"),
        same("qa_outputs", "heads.question_answering.project"),
    ),
    classes={
        "T5Model": (),
        "T5EncoderModel": (),
        "T5ForConditionalGeneration": ("seq2seq_lm",),
        "T5ForSequenceClassification": ("sequence_classification",),
        "T5ForTokenClassification": ("token_classification",),
        "T5ForQuestionAnswering": ("question_answering",),
    },
    read=_read,
    write=_write,
    duplicates={
        "lm_head.weight": _SHARED, "encoder.embed_tokens.weight": _SHARED, "decoder.embed_tokens.weight": _SHARED,
    },
    drops=(Drop(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
                "the first release stored a table that cross-attention never reads"),),
    choose=lambda config: _of(config),
)  # fmt: skip


def _of(config: Mapping[str, Any]) -> Dialect:
    """The feed-forward's up-projection has another name in the gated releases."""
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated-")
    return T5_NAMES.but(rules=_rules(gated=True)) if gated else T5_NAMES


DIALECTS = (T5_NAMES,)
