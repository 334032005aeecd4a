"""How Gemma is published: three text models, and the text half of Gemma 3's models of text and images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.gemma import GEMMA, GEMMA2, GEMMA3
from variorum.family.gpt import shape
from variorum.family.names.common import layers_of, rope_parameters, rotary_of, stated_length, write_rope
from variorum.family.names.llama import (
    ATTENTION,
    BIASES,
    HEADS,
    INPUT,
    KEYS,
    KEYS_WITH_QK_NORM,
    LLAMA_NAMES,
    MLP,
    QK_NORMS,
    D,
    L,
    classes,
)
from variorum.spec.architecture import At
from variorum.spec.dialect import ACTIVATION, WINDOW, Codec, Drop, Key, same
from variorum.spec.model import Model
from variorum.spec.positions import Rotary

#: The first release says "gelu" and means its tanh form.
GEGLU = Codec(
    lambda name: "gelu_tanh" if name == "gelu" else ACTIVATION.read(name),
    lambda name: {"gelu_tanh": "gelu_pytorch_tanh"}.get(name, name),
)
FULL, LOCAL = "full_attention", "sliding_attention"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head width, rotary positions, and the factor on the embeddings that no config states."""
    return {
        f"{D}.block.attention.head_dim": config.get("head_dim", 256),
        f"{D}.positions": rotary_of(rope_parameters(config, 10_000.0), config.get("max_position_embeddings")),
        f"{D}.input.scale": model.architecture.width**0.5,
    }


def _far(config: Mapping[str, Any], model: Model, every: int, **more: object) -> dict[str, object]:
    """The layers that see everything, and what ``more`` holds there; every so many-th if the config does not say.

    Scores are scaled by a number of their own, which is the head width in most sizes.
    """
    decoder = model.architecture.decoder
    assert decoder is not None
    regular = [LOCAL if (i + 1) % every else FULL for i in range(decoder.depth)]
    full = layers_of(config.get("layer_types") or regular, FULL)
    scalar = config.get("query_pre_attn_scalar", 256)
    return {
        f"{D}.pattern": (At(layers=full, set={"attention.window": None, **more}),) if full else (),
        f"{D}.block.attention.scale": None if scalar == config.get("head_dim", 256) else float(scalar) ** -0.5,
    }


def _read2(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    return _read(config, model) | _far(config, model, 2)


def _read3(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    nested = config.get("rope_parameters") or {}
    if FULL in nested:
        far, near = nested[FULL], nested[LOCAL]
    else:
        far, near = rope_parameters(config, 1e6), {"rope_theta": config.get("rope_local_base_freq", 10_000.0)}
    every = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    positions = rotary_of(far, config.get("max_position_embeddings"))
    local = _read({**config, "rope_parameters": near, "rope_scaling": None}, model)
    return local | _far(config, model, every, positions=positions)


def _written(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    attention = decoder.block.attention
    return {
        "head_dim": attention.head_dim,
        "rope_parameters": write_rope(decoder.positions, attention.head_dim),
        **stated_length(decoder.positions),
    }


def _own(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None
    windows = [decoder.layer(i).attention.window for i in range(decoder.depth)]
    scalar = decoder.block.attention.score_scale**-2
    return {
        "layer_types": [FULL if window is None else LOCAL for window in windows],
        "query_pre_attn_scalar": round(scalar) if abs(scalar - round(scalar)) < 1e-6 else scalar,
    }


def _write3(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    layers = [decoder.layer(i) for i in range(decoder.depth)]
    far = next((layer.positions for layer in layers if layer.attention.window is None), decoder.positions)
    assert isinstance(far, Rotary)
    width = decoder.block.attention.head_dim
    both = {FULL: write_rope(far, width), LOCAL: write_rope(decoder.positions, width)}
    return _written(model) | _own(model) | {"rope_parameters": both}


_KEYS = (
    *(key for key in KEYS if key.config != "hidden_act"),
    BIASES,
    Key("num_key_value_heads", (f"{D}.block.attention.kv_heads",)),
)
_ACTIVATION = (f"{D}.block.feedforward.activation",)
GEMMA_NAMES = LLAMA_NAMES.but(
    model_type="gemma",
    base=GEMMA,
    prefixes={},
    keys=(*_KEYS, Key("hidden_act", _ACTIVATION, GEGLU)),
    classes=classes("Gemma"),
    required={"use_bidirectional_attention": None},
    read=_read,
    write=_written,
)

_SANDWICH = (
    same("layers.{i}.input_layernorm", f"{L}.attention_norms.before"),
    same("layers.{i}.post_attention_layernorm", f"{L}.attention_norms.after"),
    same("layers.{i}.pre_feedforward_layernorm", f"{L}.feedforward_norms.before"),
    same("layers.{i}.post_feedforward_layernorm", f"{L}.feedforward_norms.after"),
)
GEMMA2_NAMES = GEMMA_NAMES.but(
    model_type="gemma2",
    base=GEMMA2,
    keys=(
        *_KEYS,
        Key("hidden_activation", _ACTIVATION, GEGLU),
        Key("sliding_window", (f"{D}.block.attention.window",), WINDOW),
        Key("attn_logit_softcapping", (f"{D}.block.attention.softcap",), none="none"),
        Key("final_logit_softcapping", ("architecture.heads.causal_lm.softcap",), none="none"),
    ),
    rules=(*INPUT, *ATTENTION, *MLP, *_SANDWICH),
    classes=classes("Gemma2"),
    read=_read2,
    write=lambda model: _written(model) | _own(model),
)  # fmt: skip

_QK_EPS = next(key for key in KEYS_WITH_QK_NORM if key.config == "rms_norm_eps")
GEMMA3_NAMES = GEMMA2_NAMES.but(
    model_type="gemma3_text",
    base=GEMMA3,
    keys=tuple(_QK_EPS if key.config == "rms_norm_eps" else key for key in GEMMA2_NAMES.keys),
    rules=(*GEMMA2_NAMES.rules, *QK_NORMS),
    classes={"Gemma3ForCausalLM": ("causal_lm",), **classes("Gemma3Text")},
    read=_read3,
    write=_write3,
)  # fmt: skip

#: A nested config leaves out what equals the published class's defaults, which are not those of any one model.
_DEFAULTS = shape(2304, 26, 8, 9216, vocab=262_208, kv_heads=4, head_dim=256, block__attention__window=4096)
GEMMA3_IMAGES = GEMMA3_NAMES.but(
    model_type="gemma3",
    base=GEMMA3.set(_DEFAULTS),
    part="text_config",
    read_only="images are not read, so what is saved is the text model",
    prefix="language_model.model.",
    prefixes={"": "model.language_model."},
    heads=(same("language_model.lm_head", "heads.causal_lm.project"), *HEADS),
    classes={
        "Gemma3ForConditionalGeneration": ("causal_lm",),
        "Gemma3ForSequenceClassification": ("sequence_classification",),
        "Gemma3Model": (),
    },
    drops=(*GEMMA3_NAMES.drops, Drop(r"(model\.)?(vision_tower|multi_modal_projector)\..*", "images are not read")),
    duplicates={**GEMMA3_NAMES.duplicates, "language_model.lm_head.weight": "decoder.input.table.weight"},
)
DIALECTS = (GEMMA_NAMES, GEMMA2_NAMES, GEMMA3_NAMES, GEMMA3_IMAGES)
