"""How Qwen 2, 2.5 and 3 and their sparse models are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from variorum.family.names.common import dense, dense_of, layers_of
from variorum.family.names.llama import (
    APART,
    ATTENTION,
    BIASES,
    INPUT,
    KEYS,
    KEYS_WITH_QK_NORM,
    LLAMA_NAMES,
    MLP,
    NORMS,
    QK_NORMS,
    D,
    L,
    biased,
    classes,
    read_llama,
    sparse,
    write_llama,
)
from variorum.family.qwen import QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE
from variorum.spec.architecture import At, Stack
from variorum.spec.dialect import Key, same
from variorum.spec.model import Model

FF = f"{D}.block.feedforward"
FULL, LOCAL = "full_attention", "sliding_attention"


def _decoder(model: Model) -> Stack:
    assert model.architecture.decoder is not None
    return model.architecture.decoder


def _window(config: Mapping[str, Any]) -> int | None:
    """The window that is in use: configs state one that is not."""
    return (config.get("sliding_window") or None) if config.get("use_sliding_window") else None


def _local(config: Mapping[str, Any], kinds: Sequence[str]) -> tuple[At, ...]:
    """The rule for windowed layers: those that the config lists, else ``kinds``."""
    window = _window(config)
    layers = layers_of(config.get("layer_types") or kinds, LOCAL)
    return (At(layers=layers, set={"attention.window": window}),) if window and layers else ()


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    first = config.get("max_window_layers", 28)
    kinds = [LOCAL if i >= first else FULL for i in range(_decoder(model).depth)]
    return read_llama(config, model) | {f"{D}.pattern": _local(config, kinds)}


def _write(model: Model) -> dict[str, object]:
    decoder = _decoder(model)
    windows = [decoder.layer(i).attention.window for i in range(decoder.depth)]
    window = next((one for one in windows if one), None)
    return write_llama(model) | {
        "layer_types": [LOCAL if one else FULL for one in windows],
        "sliding_window": window,
        "use_sliding_window": window is not None,
    }


def _dense(config: Mapping[str, Any], model: Model) -> tuple[At, ...]:
    """The rule for layers without experts: listed ones, and all but every so many-th."""
    step, listed = config.get("decoder_sparse_step", 1), config.get("mlp_only_layers") or ()
    numbers = [i for i in range(_decoder(model).depth) if i in listed or (i + 1) % step]
    return dense(numbers, _decoder(model), config.get("intermediate_size"))


def _written_experts(model: Model) -> dict[str, object]:
    found = dense_of(_decoder(model))
    widths = {"intermediate_size": next(iter(found.values()))} if found else {}
    return {"decoder_sparse_step": 1, "mlp_only_layers": list(found), **widths}


def _read2_moe(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    last = config.get("max_window_layers", 28)
    kinds = [LOCAL if i < last and i % 2 == 0 else FULL for i in range(_decoder(model).depth)]
    return read_llama(config, model) | {
        f"{D}.pattern": (*_local(config, kinds), *_dense(config, model)),
        f"{FF}.router.normalise": config.get("norm_topk_prob", False),
    }


def _read3_moe(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    return read_llama(config, model) | {
        f"{D}.block.attention.window": _window(config),
        f"{D}.pattern": _dense(config, model),
        f"{FF}.router.normalise": config.get("norm_topk_prob", False),
    }


def _write3_moe(model: Model) -> dict[str, object]:
    window = _decoder(model).block.attention.window
    windows = {"sliding_window": window, "use_sliding_window": window is not None}
    return write_llama(model) | windows | _written_experts(model)


QWEN2_NAMES = LLAMA_NAMES.but(
    model_type="qwen2", base=QWEN2, keys=KEYS, classes=classes("Qwen2"), read=_read, write=_write
)
_KEYS3 = (*KEYS_WITH_QK_NORM, BIASES)
QWEN3_NAMES = QWEN2_NAMES.but(
    model_type="qwen3", base=QWEN3, keys=_KEYS3, rules=(*LLAMA_NAMES.rules, *QK_NORMS), classes=classes("Qwen3")
)

_EXPERTS = (
    Key("moe_intermediate_size", (f"{FF}.width",)),
    Key("num_experts", (f"{FF}.count",)),
    Key("num_experts_per_tok", (f"{FF}.active",)),
    Key("norm_topk_prob", (f"{FF}.router.normalise",)),
    Key("router_aux_loss_coef", (f"{FF}.router.balance",)),
)
_DENSE_WIDTH = "intermediate_size"
QWEN2_MOE_NAMES = sparse(
    QWEN2_NAMES.but(
        model_type="qwen2_moe",
        base=QWEN2_MOE,
        prefixes={},
        keys=(
            *(key for key in KEYS if key.config != _DENSE_WIDTH),
            *_EXPERTS,
            Key("shared_expert_intermediate_size", (f"{FF}.shared_width",)),
            Key("qkv_bias", (f"{D}.block.attention.bias",), biased("query", "key", "value")),
        ),
        rules=(
            *INPUT,
            *ATTENTION,
            *MLP,
            *NORMS,
            *(
                same(f"layers.{{i}}.mlp.shared_expert.{name}_proj", f"{L}.feedforward.shared.{name}")
                for name in ("gate", "up", "down")
            ),
            same("layers.{i}.mlp.shared_expert_gate", f"{L}.feedforward.shared_gate"),
        ),
        classes=classes("Qwen2Moe"),
        read=_read2_moe,
        write=lambda model: _write(model) | _written_experts(model),
    ),
    APART,
)
QWEN3_MOE_NAMES = sparse(
    QWEN3_NAMES.but(
        model_type="qwen3_moe",
        base=QWEN3_MOE,
        # Published configs say num_experts, newer code writes num_local_experts.
        keys=(*(k for k in _KEYS3 if k.config != _DENSE_WIDTH), *_EXPERTS, Key("num_local_experts", (f"{FF}.count",))),
        classes=classes("Qwen3Moe"),
        read=_read3_moe,
        write=_write3_moe,
    ),
    APART,
)
DIALECTS = (QWEN2_NAMES, QWEN3_NAMES, QWEN2_MOE_NAMES, QWEN3_MOE_NAMES)
