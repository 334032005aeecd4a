"""How DeepSeek-V3 is published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from variorum.family.deepseek import DEEPSEEK_V3
from variorum.family.names.common import dense_of, mscale, rope_parameters, scaling_of, stated_length, write_rope
from variorum.family.names.llama import HEADS, INPUT, KEYS, LLAMA_NAMES, MLP, NORMS, D, L, classes, sparse
from variorum.spec.architecture import At
from variorum.spec.attention import LatentAttention
from variorum.spec.dialect import Drop, Key, same
from variorum.spec.feedforward import Experts, GatedMLP
from variorum.spec.model import Model
from variorum.spec.positions import Rotary, YarnScaling

FF, A = f"{D}.block.feedforward", f"{D}.block.attention"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.block.attention, LatentAttention)
    rope = rope_parameters(config, 10_000.0)
    scale = decoder.block.attention.head_dim**-0.5
    if rope["rope_type"] != "default" and rope.get("mscale_all_dim"):
        scale *= mscale(rope["factor"], rope["mscale_all_dim"]) ** 2
    dense = GatedMLP(width=config["intermediate_size"], activation=decoder.block.feedforward.activation)
    first = config.get("first_k_dense_replace", 3)
    return {
        f"{A}.scale": scale,
        f"{A}.norm.eps": decoder.block.layout.norm.eps,
        f"{D}.positions.theta": float(rope["rope_theta"]),
        f"{D}.positions.scaling": scaling_of(rope, config.get("max_position_embeddings")),
        f"{FF}.shared_width": config["moe_intermediate_size"] * (config.get("n_shared_experts") or 0),
        f"{D}.pattern": (At(layers=f":{first}", set={"feedforward": dense}),) if first else (),
    }


def _write(model: Model) -> dict[str, object]:
    decoder = model.architecture.decoder
    assert decoder is not None and isinstance(decoder.positions, Rotary)
    routed = decoder.block.feedforward
    assert isinstance(routed, Experts) and isinstance(decoder.block.attention, LatentAttention)
    plain = dense_of(decoder)
    return {
        "num_key_value_heads": decoder.block.attention.heads,
        "intermediate_size": next(iter(plain.values()), routed.width),
        "first_k_dense_replace": len(plain),
        "n_shared_experts": routed.shared_width // routed.width,
        "qk_head_dim": decoder.block.attention.head_dim,
        "head_dim": decoder.block.attention.rope_dim,
        "rope_parameters": write_rope(decoder.positions, decoder.block.attention.rope_dim)
        | _written_mscale(decoder.block.attention, decoder.positions),
        **stated_length(decoder.positions),
    }


def _written_mscale(attention: LatentAttention, positions: Rotary) -> dict[str, object]:
    """The two mscales that reproduce the attention scale and the factor on cos and sin."""
    scaling = positions.scaling
    if not isinstance(scaling, YarnScaling) or attention.scale is None:
        return {}
    ratio = math.sqrt(attention.scale * math.sqrt(attention.head_dim))
    if math.isclose(ratio, 1.0):
        return {}
    per_unit = 0.1 * math.log(scaling.factor)
    factor = mscale(scaling.factor, 1.0) if scaling.attention_factor is None else scaling.attention_factor
    whole, every = (ratio - 1) / per_unit, (factor * ratio - 1) / per_unit
    return {"mscale": every, "mscale_all_dim": whole, "attention_factor": None}


DEEPSEEK_NAMES = sparse(LLAMA_NAMES.but(
    model_type="deepseek_v3",
    base=DEEPSEEK_V3,
    prefixes={},
    keys=(
        *(key for key in KEYS if key.config != "intermediate_size"),
        Key("moe_intermediate_size", (f"{FF}.width",)),
        Key("n_routed_experts", (f"{FF}.count",)),
        Key("num_experts_per_tok", (f"{FF}.active",)),
        Key("n_group", (f"{FF}.router.groups",)),
        Key("topk_group", (f"{FF}.router.active_groups",)),
        Key("norm_topk_prob", (f"{FF}.router.normalise",)),
        Key("routed_scaling_factor", (f"{FF}.router.scale",)),
        Key("q_lora_rank", (f"{A}.query_rank",), none="none"),
        Key("kv_lora_rank", (f"{A}.kv_rank",)),
        Key("qk_nope_head_dim", (f"{A}.nope_dim",)),
        Key("qk_rope_head_dim", (f"{A}.rope_dim",)),
        Key("v_head_dim", (f"{A}.value_dim",)),
        Key("attention_bias", (f"{A}.bias",)),
        Key("rope_interleave", (f"{D}.positions.interleaved",)),
    ),
    rules=(
        *INPUT, *MLP, *NORMS,
        same("layers.{i}.self_attn.q_proj", f"{L}.attention.query"),
        same("layers.{i}.self_attn.q_a_proj", f"{L}.attention.query_down"),
        same("layers.{i}.self_attn.q_a_layernorm", f"{L}.attention.query_norm"),
        same("layers.{i}.self_attn.q_b_proj", f"{L}.attention.query_up"),
        same("layers.{i}.self_attn.kv_a_proj_with_mqa", f"{L}.attention.latent_down"),
        same("layers.{i}.self_attn.kv_a_layernorm", f"{L}.attention.latent_norm"),
        same("layers.{i}.self_attn.kv_b_proj", f"{L}.attention.latent_up"),
        same("layers.{i}.self_attn.o_proj", f"{L}.attention.out"),
        same("layers.{i}.mlp.gate.e_score_correction_bias", f"{L}.feedforward.router.correction"),
        *(same(f"layers.{{i}}.mlp.shared_experts.{name}_proj", f"{L}.feedforward.shared.{name}")
          for name in ("gate", "up", "down")),
    ),
    heads=HEADS,
    classes=classes("DeepseekV3"),
    read=_read,
    write=_write,
    drops=(Drop(r"model\.layers\.61\..*", "the extra layer that predicts two tokens ahead"),),
))  # fmt: skip
DIALECTS = (DEEPSEEK_NAMES,)
