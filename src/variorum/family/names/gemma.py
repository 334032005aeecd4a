"""How Gemma 3's text models are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.gemma import GEMMA3
from variorum.family.names.common import layers_of, rope_parameters, scaling_of, write_rope
from variorum.family.names.llama import ATTENTION, HEADS, INPUT, KEYS, LLAMA_NAMES, MLP, D, L, classes
from variorum.spec.architecture import At
from variorum.spec.dialect import ACTIVATION, WINDOW, Codec, Key, same
from variorum.spec.model import Model
from variorum.spec.positions import Rotary

SQUARED = Codec(lambda scalar: float(scalar) ** -0.5, lambda scale: scale**-2)


def _kinds(config: Mapping[str, Any], depth: int) -> list[str]:
    every = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    regular = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(depth)]
    return list(config.get("layer_types") or regular)


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None
    nested = config.get("rope_parameters") or {}
    if "full_attention" in nested:
        far, near = nested["full_attention"], nested["sliding_attention"]
    else:
        far = rope_parameters(config, 1e6)
        near = {"rope_theta": config.get("rope_local_base_freq", 10_000.0)}
    full = layers_of(_kinds(config, decoder.depth), "full_attention")
    rule = At(layers=full, set={"attention.window": None, "positions": _rotary(far)})
    return {
        f"{D}.block.attention.head_dim": config.get("head_dim", 256),
        f"{D}.block.attention.kv_heads": config.get("num_key_value_heads") or decoder.block.attention.heads,
        f"{D}.positions": _rotary(near),
        f"{D}.pattern": (rule,) if full else (),
        f"{D}.input.scale": model.architecture.width**0.5,
    }


def _rotary(parameters: Mapping[str, Any]) -> Rotary:
    return Rotary(theta=float(parameters["rope_theta"]), scaling=scaling_of(parameters))


def _write(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    layers = [decoder.layer(i) for i in range(decoder.depth)]
    kinds = ["full_attention" if layer.attention.window is None else "sliding_attention" for layer in layers]
    far = next((layer.positions for layer in layers if layer.attention.window is None), decoder.positions)
    assert isinstance(far, Rotary)
    return {
        "layer_types": kinds,
        "head_dim": decoder.block.attention.head_dim,
        "num_key_value_heads": getattr(decoder.block.attention, "kv_heads", decoder.block.attention.heads),
        "rope_parameters": {"full_attention": write_rope(far), "sliding_attention": write_rope(decoder.positions)},
    }


GEMMA3_NAMES = LLAMA_NAMES.but(
    model_type="gemma3_text",
    base=GEMMA3,
    prefixes={},
    keys=(
        *(key for key in KEYS if key.config != "hidden_act"),
        Key("hidden_activation", (f"{D}.block.feedforward.activation",),
            Codec(ACTIVATION.read, lambda name: {"gelu_tanh": "gelu_pytorch_tanh"}.get(name, name))),
        Key("sliding_window", (f"{D}.block.attention.window",), WINDOW),
        Key("query_pre_attn_scalar", (f"{D}.block.attention.scale",), SQUARED),
    ),
    rules=(
        *INPUT, *ATTENTION, *MLP,
        same("layers.{i}.self_attn.q_norm", f"{L}.attention.query_norm"),
        same("layers.{i}.self_attn.k_norm", f"{L}.attention.key_norm"),
        same("layers.{i}.input_layernorm", f"{L}.attention_norms.before"),
        same("layers.{i}.post_attention_layernorm", f"{L}.attention_norms.after"),
        same("layers.{i}.pre_feedforward_layernorm", f"{L}.feedforward_norms.before"),
        same("layers.{i}.post_feedforward_layernorm", f"{L}.feedforward_norms.after"),
    ),
    heads=HEADS,
    classes=classes("Gemma3") | {"Gemma3TextModel": (),
                                 "Gemma3TextForSequenceClassification": ("sequence_classification",)},
    required={"attention_bias": False, "attn_logit_softcapping": None, "final_logit_softcapping": None,
              "use_bidirectional_attention": False},
    read=_read,
    write=_write,
)  # fmt: skip
DIALECTS = (GEMMA3_NAMES,)
