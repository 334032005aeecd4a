"""How DeBERTa v1, v2 and v3 are published. v1 fuses query, key and value; two masked-LM heads exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from variorum.family.deberta import DEBERTA, DEBERTA_V2, DEBERTA_V3
from variorum.family.names.bert import (
    CLASSIFIERS,
    EMBEDDINGS,
    EPS,
    LAYER,
    MLM,
    POSITION_IDS,
    SEGMENTS,
    E,
    L,
    classes,
    encoder_keys,
    layer_rules,
)
from variorum.family.names.common import head_width
from variorum.spec.architecture import Convolution
from variorum.spec.dialect import ACTIVATION, Dialect, Drop, Key, fused, same
from variorum.spec.heads import EnhancedMaskDecoder, VocabularyHead
from variorum.spec.model import Model
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Disentangled, Learned

Read = Callable[[Mapping[str, Any], Model], Mapping[str, object]]
_KEYS = tuple(key for key in encoder_keys() if key.config != "max_position_embeddings")
_POOLED = ("architecture.heads.sequence_classification", "architecture.heads.multiple_choice")
_KEYS += (
    EPS,
    SEGMENTS,
    Key("pooler_hidden_act", tuple(f"{head}.transform.activation" for head in _POOLED), ACTIVATION),
    Key("pooler_dropout", tuple(f"{head}.transform_dropout" for head in _POOLED)),
)


def _terms(config: Mapping[str, Any]) -> tuple[str, ...]:
    found = config.get("pos_att_type") or ()
    return tuple(found.split("|") if isinstance(found, str) else found)


def _common(config: Mapping[str, Any], model: Model, positions: Disentangled) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    width = head_width(model.architecture.width, encoder.block.attention.heads)
    relative = bool(config.get("relative_attention"))
    learned = Learned(rows=config.get("max_position_embeddings", 512))
    rate = config.get("cls_dropout")
    return {
        f"{E}.positions": positions if relative else None,
        f"{E}.block.attention.head_dim": width,
        f"{E}.block.attention.scale": (width * (1 + len(positions.terms) * relative)) ** -0.5,
        f"{E}.input.positions": learned if config.get("position_biased_input", True) else None,
        **{f"{head}.dropout": encoder.block.dropout if rate is None else rate for head in _POOLED},
        "architecture.heads.token_classification.dropout": encoder.block.dropout,
    }


def _longest(config: Mapping[str, Any]) -> int:
    given = config.get("max_relative_positions", -1)
    return int(given if given >= 1 else config.get("max_position_embeddings", 512))


def _read_v1(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    return _common(config, model, Disentangled(span=_longest(config), terms=_terms(config)))  # type: ignore[arg-type]


def _read_v2(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    buckets = config.get("position_buckets", -1)
    normed = "layer_norm" in (config.get("norm_rel_ebd") or "none")
    shared = bool(config.get("share_att_key"))
    positions = Disentangled(
        span=buckets if buckets > 0 else _longest(config),
        buckets=buckets if buckets > 0 else None,
        max_distance=_longest(config) if buckets > 0 else None,
        terms=_terms(config),  # type: ignore[arg-type]
        projections="shared" if shared else "own",
        key_bias=not shared,
        norm=LayerNorm(eps=encoder.block.layout.norm.eps) if normed else None,
    )
    kernel = config.get("conv_kernel_size") or 0
    conv = Convolution(
        kernel=kernel, activation=ACTIVATION.read(config.get("conv_act", "tanh")), groups=config.get("conv_groups", 1),
        norm=LayerNorm(eps=encoder.block.layout.norm.eps), dropout=encoder.block.dropout,
    )  # fmt: skip
    return _common(config, model, positions) | {f"{E}.inserts": {0: conv} if kernel > 0 else {}}


def _write(model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    learned, positions = encoder.input.positions, encoder.positions
    config: dict[str, object] = {
        "relative_attention": positions is not None,
        "position_biased_input": learned is not None,
        "pooler_hidden_size": model.architecture.width,
        "cls_dropout": getattr(model.architecture.heads.get("sequence_classification"), "dropout", None),
    }
    head = model.architecture.heads.get("masked_lm")
    if isinstance(head, EnhancedMaskDecoder):
        config["max_position_embeddings"] = head.rows
    else:
        config["legacy"] = True
    if isinstance(learned, Learned):
        config["max_position_embeddings"] = learned.rows
    if isinstance(positions, Disentangled):
        config["pos_att_type"] = list(positions.terms)
        config["max_relative_positions"] = positions.max_distance or positions.span
    return config


def _write_v2(model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    config, positions = _write(model), encoder.positions
    if isinstance(positions, Disentangled):
        config |= {
            "position_buckets": positions.buckets or -1,
            "share_att_key": positions.projections == "shared",
            "norm_rel_ebd": "layer_norm" if positions.norm else "none",
        }
    conv = encoder.inserts.get(0)
    if conv is not None:
        config |= {"conv_kernel_size": conv.kernel, "conv_act": conv.activation, "conv_groups": conv.groups}
    return config


def _plain(read: Read) -> Read:
    """What a class of the published library computes, which leaves the enhanced mask decoder out."""

    def values(config: Mapping[str, Any], model: Model) -> dict[str, object]:
        head = model.architecture.heads["masked_lm"]
        kept = {field.name: getattr(head, field.name) for field in dataclasses.fields(VocabularyHead)}
        return {**read(config, model), MLM: VocabularyHead(**kept)}

    return values


def _enhanced(read: Read) -> Read:
    """What the authors' own code computes: positions in the input, or in an enhanced mask decoder."""

    def values(config: Mapping[str, Any], model: Model) -> Mapping[str, object]:
        if config.get("position_biased_input", True):
            return _plain(read)(config, model)
        return {**read(config, model), f"{MLM}.rows": config.get("max_position_embeddings", 512)}

    return values


_HEADS = (
    same("pooler.dense", "heads.sequence_classification.transform.dense"),
    same("pooler.dense", "heads.multiple_choice.transform.dense"),
    *CLASSIFIERS,
    same("mask_predictions.LayerNorm", "heads.replaced_token.context"),
    same("mask_predictions.dense", "heads.replaced_token.transform.dense"),
    same("mask_predictions.classifier", "heads.replaced_token.project"),
)
_LEGACY = (
    same("cls.predictions.transform.dense", "heads.masked_lm.transform.dense"),
    same("cls.predictions.transform.LayerNorm", "heads.masked_lm.transform.norm"),
    same("cls.predictions.bias", "heads.masked_lm.project.bias"),
    *_HEADS,
)
_CURRENT = (
    same("lm_predictions.lm_head.dense", "heads.masked_lm.transform.dense"),
    same("lm_predictions.lm_head.LayerNorm", "heads.masked_lm.transform.norm"),
    same("lm_predictions.lm_head.bias", "heads.masked_lm.project.bias"),
    same("deberta.embeddings.position_embeddings", "heads.masked_lm.positions"),
    *_HEADS,
)
_SELF = f"{L}.attention"
_AROUND = {ours: theirs for ours, theirs in LAYER.items() if ".self." not in theirs}
_RELATIVE = same("encoder.rel_embeddings", "encoder.positions.table")
#: Classes of the authors' code (github.com/microsoft/DeBERTa).
_THEIRS = {"MaskedLanguageModel": ("masked_lm",), "ReplacedTokenDetectionModel": ("replaced_token",)}
_DECODER = Drop(r"deberta\.embeddings\.position_embeddings\..+|(lm|mask)_predictions\..+",
                "belongs to the authors' pretraining heads")  # fmt: skip
_DUPLICATES = {
    "cls.predictions.decoder.weight": "encoder.input.table.weight",
    "cls.predictions.decoder.bias": "heads.masked_lm.project.bias",
}

DEBERTA_NAMES = Dialect(
    model_type="deberta",
    base=DEBERTA,
    prefix="deberta.",
    keys=_KEYS,
    rules=(
        *EMBEDDINGS,
        *layer_rules("encoder.layer.{i}", _AROUND),
        fused("encoder.layer.{i}.attention.self.in_proj", f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value",
              layout="g (r+2) d"),
        same("encoder.layer.{i}.attention.self.q_bias", f"{_SELF}.query.bias"),
        same("encoder.layer.{i}.attention.self.v_bias", f"{_SELF}.value.bias"),
        same("encoder.layer.{i}.attention.self.pos_proj", f"{_SELF}.positions.key"),
        same("encoder.layer.{i}.attention.self.pos_q_proj", f"{_SELF}.positions.query"),
        _RELATIVE,
    ),
    heads=_LEGACY,
    classes=classes("Deberta"),
    required={"talking_head": False},
    read=_plain(_read_v1),
    write=_write,
    drops=(POSITION_IDS, _DECODER),
    duplicates=_DUPLICATES,
    choose=lambda config: _of(config, "deberta"),
)  # fmt: skip

DEBERTA_V2_NAMES = DEBERTA_NAMES.but(
    model_type="deberta-v2",
    base=DEBERTA_V2,
    rules=(
        *EMBEDDINGS,
        *layer_rules("encoder.layer.{i}", _AROUND),
        same("encoder.layer.{i}.attention.self.query_proj", f"{_SELF}.query"),
        same("encoder.layer.{i}.attention.self.key_proj", f"{_SELF}.key"),
        same("encoder.layer.{i}.attention.self.value_proj", f"{_SELF}.value"),
        same("encoder.layer.{i}.attention.self.pos_key_proj", f"{_SELF}.positions.key"),
        same("encoder.layer.{i}.attention.self.pos_query_proj", f"{_SELF}.positions.query"),
        _RELATIVE,
        same("encoder.LayerNorm", "encoder.positions.norm"),
        same("encoder.conv.conv", "encoder.inserts.0.conv"),
        same("encoder.conv.LayerNorm", "encoder.inserts.0.norm"),
    ),
    classes=classes("DebertaV2"),
    read=_plain(_read_v2),
    write=_write_v2,
    choose=lambda config: _of(config, "deberta-v2"),
)


def _of(config: Mapping[str, Any], kind: str) -> Dialect:
    """The authors' files name no class of the library, or one of theirs; the library's own say which head is meant."""
    dialect, read = (DEBERTA_NAMES, _read_v1) if kind == "deberta" else (DEBERTA_V2_NAMES, _read_v2)
    if kind == "deberta-v2" and not config.get("conv_kernel_size"):
        dialect = dialect.but(base=DEBERTA_V3)
    named = config.get("architectures") or list(_THEIRS)
    if "legacy" not in config and named[0] in _THEIRS:
        ours = {name: heads for name, heads in dialect.classes.items() if heads not in _THEIRS.values()}
        return dialect.but(heads=_CURRENT, read=_enhanced(read), classes=ours | _THEIRS)
    if config.get("legacy", True):
        return dialect
    return dialect.but(heads=_CURRENT, required={**dialect.required, "legacy": False}, write=_without_legacy(dialect))


def _without_legacy(dialect: Dialect) -> Callable[[Model], Mapping[str, object]]:
    return lambda model: {key: value for key, value in dialect.write(model).items() if key != "legacy"}


DIALECTS = (DEBERTA_NAMES, DEBERTA_V2_NAMES)
