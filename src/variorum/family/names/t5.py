"""How T5 and its descendants are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.names.common import END
from variorum.family.t5 import BYT5, MT5, T5, T5_V1_1
from variorum.family.transformer import ATTENTIONS, TABLE, both
from variorum.spec.architecture import Architecture
from variorum.spec.dialect import Dialect, Drop, Key, Rule, same
from variorum.spec.feedforward import MLP, GatedMLP
from variorum.spec.heads import VocabularyHead
from variorum.spec.model import Model

A = "architecture"
BYTES = "ByT5Tokenizer"


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
    values: dict[str, object] = dict.fromkeys(both("block.feedforward"), feedforward)
    values[f"{A}.heads.seq2seq_lm"] = head
    values[f"{A}.decoder.depth"] = config.get("num_decoder_layers") or config.get("num_layers", 6)
    values[f"{A}.heads.sequence_classification.dropout"] = config.get("classifier_dropout", 0.0)
    if str((config.get("architectures") or [None])[0]).endswith(("T5EncoderModel", "T5ForTokenClassification")):
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
    if arch.decoder is None:
        config["architectures"] = ["T5EncoderModel"]
    if model.tokenizer.kind == "bytes":
        config["tokenizer_class"] = BYTES
    return config


def _read_mt5(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    # Its own class never scales.
    return _read({**config, "scale_decoder_outputs": False}, model)


def _write_mt5(model: Model) -> dict[str, object]:
    config = {key: value for key, value in _write(model).items() if key != "scale_decoder_outputs"}
    return {**config, **({"architectures": ["MT5EncoderModel"]} if "architectures" in config else {})}


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


def _classes(name: str) -> dict[str, tuple[str, ...]]:
    return {
        f"{name}Model": (),
        f"{name}EncoderModel": (),
        f"{name}ForConditionalGeneration": ("seq2seq_lm",),
        f"{name}ForSequenceClassification": ("sequence_classification",),
        f"{name}ForTokenClassification": ("token_classification",),
        f"{name}ForQuestionAnswering": ("question_answering",),
    }


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
        Key("vocab_size", both("input.vocab")),
        Key("relative_attention_num_buckets", both("positions.buckets")),
        Key("relative_attention_max_distance", both("positions.max_distance")),
        Key("layer_norm_epsilon", (*both("block.layout.norm.eps"), *both("final_norm.eps"))),
        Key("dropout_rate", (*both("block.dropout"), *both("input.dropout"), *both("dropout"),
                             *(f"{path}.dropout" for path in ATTENTIONS))),
        Key("pad_token_id", both("input.pad_id"), none="none"),
        Key("decoder_start_token_id", ("architecture.decoder.input.start_id",)),
        Key("eos_token_id", ("architecture.heads.sequence_classification.end_id",), END),
    ),
    rules=_rules(gated=False),
    heads=(
        same("lm_head", "heads.seq2seq_lm.project"),
        same("classification_head.dense", "heads.sequence_classification.transform.dense"),
        same("classification_head.out_proj", "heads.sequence_classification.project"),
        same("classifier", "heads.token_classification.project"),
        same("qa_outputs", "heads.question_answering.project"),
    ),
    classes=_classes("T5"),
    read=_read,
    write=_write,
    duplicates={
        "lm_head.weight": _SHARED, "encoder.embed_tokens.weight": _SHARED, "decoder.embed_tokens.weight": _SHARED,
    },
    drops=(Drop(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
                "the first release stored a table that cross-attention never reads"),),
    choose=lambda config: _of(config),
    publishes=("byt5",),
)  # fmt: skip
MT5_NAMES = T5_NAMES.but(
    model_type="mt5",
    base=MT5,
    classes=_classes("MT5"),
    read=_read_mt5,
    write=_write_mt5,
    choose=lambda config: _of_mt5(config),
    publishes=(),
)


def _gated(config: Mapping[str, Any], default: str) -> bool:
    return str(config.get("feed_forward_proj", default)).startswith("gated-")


def _of(config: Mapping[str, Any]) -> Dialect:
    """The feed-forward's up-projection has another name in the gated releases; ByT5 says so by its tokenizer."""
    base = BYT5 if config.get("tokenizer_class") == BYTES else T5_V1_1
    return T5_NAMES.but(base=base, rules=_rules(gated=True)) if _gated(config, "relu") else T5_NAMES


def _of_mt5(config: Mapping[str, Any]) -> Dialect:
    return MT5_NAMES.but(rules=_rules(gated=True)) if _gated(config, "gated-gelu") else MT5_NAMES


DIALECTS = (T5_NAMES, MT5_NAMES)
