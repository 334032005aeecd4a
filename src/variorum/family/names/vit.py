"""How ViT is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.names.bert import E, head_dim, layer_rules
from variorum.family.vit import VIT
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.dialect import ACTIVATION, Dialect, Key, leading, same
from variorum.spec.inputs import PatchInput
from variorum.spec.model import Model

LAYER = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.out": "attention.output.dense",
    "attention_norms.before": "layernorm_before",
    "feedforward_norms.before": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head width, the position table's length, and which projections carry a bias."""
    for key in ("image_size", "patch_size"):
        if not isinstance(config.get(key, 1), int):
            raise DamagedFile(f"{key} is {config[key]}", remedy="only square images and patches are implemented")
    assert model.architecture.encoder is not None
    source = model.architecture.encoder.input
    assert isinstance(source, PatchInput)
    biased = ALL_PROJECTIONS if config.get("qkv_bias", True) else ("out",)
    return head_dim(config, model) | {
        f"{E}.input.positions.rows": source.length, f"{E}.block.attention.bias": biased,
    }  # fmt: skip


def _write(model: Model) -> dict[str, object]:
    assert model.architecture.encoder is not None
    attention = model.architecture.encoder.block.attention
    return {"qkv_bias": "query" in getattr(attention, "bias", ()), "pooler_output_size": model.architecture.width}


VIT_NAMES = Dialect(
    model_type="vit",
    base=VIT,
    prefix="vit.",
    keys=(
        Key("hidden_size", ("architecture.width",)),
        Key("num_hidden_layers", (f"{E}.depth",)),
        Key("num_attention_heads", (f"{E}.block.attention.heads", f"{E}.block.attention.kv_heads")),
        Key("intermediate_size", (f"{E}.block.feedforward.width",)),
        Key("hidden_act", (f"{E}.block.feedforward.activation",), ACTIVATION),
        Key("hidden_dropout_prob", (f"{E}.block.dropout", f"{E}.input.dropout")),
        Key("attention_probs_dropout_prob", (f"{E}.block.attention.dropout",)),
        Key("layer_norm_eps", (f"{E}.block.layout.norm.eps", f"{E}.final_norm.eps")),
        Key("image_size", (f"{E}.input.image",)),
        Key("patch_size", (f"{E}.input.patch",)),
        Key("num_channels", (f"{E}.input.channels",)),
        Key("pooler_act", ("architecture.pooler.activation",), ACTIVATION),
        Key("initializer_range", ("architecture.init.std",)),
    ),
    rules=(
        leading("embeddings.cls_token", "encoder.input.first", 2),
        leading("embeddings.position_embeddings", "encoder.input.positions.weight", 1),
        same("embeddings.patch_embeddings.projection", "encoder.input.patches"),
        *layer_rules("encoder.layer.{i}", LAYER),
        same("layernorm", "encoder.final_norm"),
        same("pooler.dense", "pooler.dense"),
    ),
    heads=(same("classifier", "heads.image_classification.project"),),
    classes={"ViTModel": (), "ViTForImageClassification": ("image_classification",)},
    read=_read,
    write=_write,
)
DIALECTS = (VIT_NAMES,)
