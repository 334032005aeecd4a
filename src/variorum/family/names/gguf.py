"""How GGUF files spell the family: one dialect per ``general.architecture``, read and never written.

The weights in such a file are rounded, so nothing is saved in it. What llama.cpp's converter does to the published
tensors is undone by the rules: LLaMA's rotated channels are stored as pairs, Gemma's norms as 1 + w. A config is the
file's metadata below its architecture's name, with what is known from its tensors (see :func:`config_of`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.bert import BERT
from variorum.family.gemma import GEMMA, GEMMA2, GEMMA3
from variorum.family.gpt import LLAMA, MISTRAL, MIXTRAL, TABLE
from variorum.family.names.bert import EPS, E, encoder_keys, head_dim
from variorum.family.names.common import head_width, layers_of, scaling_of
from variorum.family.names.llama import D, L
from variorum.family.qwen import QWEN2, QWEN3
from variorum.spec.architecture import At
from variorum.spec.dialect import WINDOW, Dialect, Drop, Key, Rule, paired, same, shifted, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Llama3Scaling, RopeScaling, Rotary

PREFIX = "gguf:"  # before an architecture's name, where published directories have a model_type
WHY_READ_ONLY = "GGUF stores rounded weights; it is read here and never written"
FACTORS = "rope_freqs.weight"
LLAMA3_LENGTH, LLAMA3_TURNS = 8192, (1.0, 4.0)  # of every Llama 3.x release; a file holds only what they give
GEMMA_27B = {"gemma2": 46, "gemma3": 62}  # layers of the size whose queries are scaled by width / heads


def config_of(
    metadata: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: tuple[float, ...] | None
) -> dict[str, Any]:
    """What a dialect reads: the metadata below the architecture's name, and what the tensors say.

    Args:
        metadata: every key of the file.
        shapes: of its tensors, by name.
        factors: the values of ``rope_freqs.weight``, where the file has it.

    Raises:
        DamagedFile: no architecture is named.
    """
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise DamagedFile("names no architecture (general.architecture)")
    own = {key.removeprefix(f"{name}."): value for key, value in metadata.items() if key.startswith(f"{name}.")}
    config = {key: _decimal(value) for key, value in own.items()}
    roles = {"pad": "padding_token_id", "bos": "bos_token_id", "eos": "eos_token_id"}
    ids = {f"{role}_token_id": metadata.get(f"tokenizer.ggml.{theirs}") for role, theirs in roles.items()}
    table = shapes.get("token_embd.weight", ())
    heads = "classifier" if "cls.output.weight" in shapes else "writer" if "attention.causal" not in own else "reader"
    return {
        **config, **ids,
        "model_type": PREFIX + name,
        "architectures": [heads],
        "vocab_size": table[0] if len(table) == 2 else metadata.get(f"{name}.vocab_size"),
        "tie_word_embeddings": "output.weight" not in shapes,
        "segments": shapes.get("token_types.weight", (0,))[0],
        "pooler": "cls.weight" in shapes,
        "factors": factors,
    }  # fmt: skip


def _decimal(value: Any) -> Any:
    """A float32 as the decimal that was meant: 1e-5, where the file can only hold 9.99999974e-06."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    near = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((one for one in near if struct.pack("<f", one) == struct.pack("<f", value)), value)


def _rope(config: Mapping[str, Any], base: float) -> Rotary:
    theta = float(config.get("rope.freq_base", base))
    width = config.get("rope.dimension_count") or config.get("attention.key_length")
    return Rotary(theta=theta, scaling=_scaling(config, theta, width))


def _scaling(config: Mapping[str, Any], theta: float, width: int | None) -> RopeScaling | None:
    if config.get("factors"):
        return _llama3(config["factors"], theta)
    kind = config.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    return scaling_of({
        "rope_type": kind, "factor": config.get("rope.scaling.factor", 1.0),
        "original_max_position_embeddings": config.get("rope.scaling.original_context_length"),
        "attention_factor": config.get("rope.scaling.attn_factor"),
    }, config.get("context_length"))  # fmt: skip


def _llama3(factors: tuple[float, ...], theta: float) -> Llama3Scaling:
    """The scaling that gives these divisors of the frequencies; a file holds the divisors alone.

    Raises:
        DamagedFile: Llama 3's rule does not give them.
    """
    low, high = LLAMA3_TURNS
    most, pairs = max(factors), len(factors)
    for i, found in enumerate(factors):
        turns = LLAMA3_LENGTH * theta ** (-i / pairs) / (2 * math.pi)
        part = min(1.0, max(0.0, (turns - low) / (high - low)))
        if abs(1 / (part + (1 - part) / most) - found) > 1e-3 * most:
            raise DamagedFile(f"{FACTORS} holds {found:.6g} for channel {i}, which no known scaling gives")
    return Llama3Scaling(factor=float(f"{most:.6g}"), low_freq_factor=low, high_freq_factor=high,
                         original_length=LLAMA3_LENGTH)  # fmt: skip


def _llama(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Head width, key/value heads and rotary parameters."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    heads = decoder.block.attention.heads
    head = config.get("attention.key_length") or head_width(width, heads)
    rotated = config.get("rope.dimension_count", head)
    if rotated != head or config.get("attention.value_length", head) != head:
        raise DamagedFile(f"heads of {head} channels of which {rotated} are rotated: not implemented")
    return {
        f"{D}.block.attention.head_dim": head,
        f"{D}.block.attention.kv_heads": config.get("attention.head_count_kv") or heads,
        f"{D}.positions": _rope(config, 10_000.0),
    }


def _gemma(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    return _llama(config, model) | {f"{D}.input.scale": model.architecture.width**0.5}


def _gemma2(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """The largest size scales its queries by width / heads, all others by their width; files do not say so."""
    decoder, width = model.architecture.decoder, model.architecture.width
    assert decoder is not None
    own = decoder.depth == GEMMA_27B[config["model_type"].removeprefix(PREFIX)]
    scale = (width / decoder.block.attention.heads) ** -0.5 if own else None
    return _gemma(config, model) | {f"{D}.block.attention.scale": scale}


def _gemma3(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """Five local layers for one global; local ones turn at 10,000 and unscaled (llama.cpp, llama-model.cpp)."""
    decoder = model.architecture.decoder
    assert decoder is not None
    every = config.get("attention.sliding_window_pattern", 6)
    local = every if isinstance(every, list) else [(i + 1) % every != 0 for i in range(decoder.depth)]
    kinds = ["sliding_attention" if one else "full_attention" for one in local]
    full = layers_of(kinds, "full_attention")
    far = At(layers=full, set={"attention.window": None, "positions": _rope(config, 1e6)})
    return _gemma2(config, model) | {
        f"{D}.positions": Rotary(theta=float(config.get("rope.freq_base_swa", 10_000.0))),
        f"{D}.pattern": (far,) if full else (),
    }


def _bert(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    pooler = {} if config["pooler"] else {"architecture.pooler": None}
    return head_dim(config, model) | pooler


def _like_llama(config: Mapping[str, Any]) -> Dialect:
    """Which of three families a file that calls itself llama is of."""
    if config.get("expert_count"):
        return MIXTRAL_GGUF
    return MISTRAL_GGUF if config.get("attention.sliding_window") else PLAIN_GGUF


KEYS = (
    Key("embedding_length", ("architecture.width",)),
    Key("block_count", (f"{D}.depth",)),
    Key("attention.head_count", (f"{D}.block.attention.heads",)),
    Key("feed_forward_length", (f"{D}.block.feedforward.width",)),
    Key("attention.layer_norm_rms_epsilon", (f"{D}.block.layout.norm.eps", f"{D}.final_norm.eps")),
    Key("vocab_size", (f"{D}.input.vocab",)),
    Key("pad_token_id", (f"{D}.input.pad_id",), none="none"),
    Key("tie_word_embeddings", ("architecture.heads.causal_lm.tie",), tied_to(TABLE)),
)
INPUT = (same("token_embd", "decoder.input.table"), same("output_norm", "decoder.final_norm"))
ATTENTION = (
    paired("blk.{i}.attn_q", f"{L}.attention.query"),
    paired("blk.{i}.attn_k", f"{L}.attention.key"),
    same("blk.{i}.attn_v", f"{L}.attention.value"),
    same("blk.{i}.attn_output", f"{L}.attention.out"),
)
NORMS = (
    same("blk.{i}.attn_norm", f"{L}.attention_norms.before"),
    same("blk.{i}.ffn_norm", f"{L}.feedforward_norms.before"),
)
MLP = tuple(same(f"blk.{{i}}.ffn_{name}", f"{L}.feedforward.{name}") for name in ("gate", "up", "down"))
LLAMA_GGUF = Dialect(
    model_type=f"{PREFIX}llama",
    base=LLAMA,
    prefix="",
    keys=KEYS,
    rules=(*INPUT, *ATTENTION, *MLP, *NORMS),
    heads=(same("output", "heads.causal_lm.project"),),
    classes={"writer": ("causal_lm",)},
    read=_llama,
    drops=(Drop(FACTORS, "recomputed from the scaling"), Drop(r"blk\.\d+\.attn_rot_embd", "recomputed from theta")),
    read_only=WHY_READ_ONLY,
    choose=_like_llama,
)
PLAIN_GGUF = LLAMA_GGUF.but(choose=None)
MISTRAL_GGUF = LLAMA_GGUF.but(
    base=MISTRAL,
    keys=(*KEYS, Key("attention.sliding_window", (f"{D}.block.attention.window",), WINDOW, none="none")),
    choose=None,
)
_EXPERT = f"{L}.feedforward.experts"
MIXTRAL_GGUF = LLAMA_GGUF.but(
    base=MIXTRAL,
    keys=(
        *KEYS,
        Key("expert_count", (f"{D}.block.feedforward.count",)),
        Key("expert_used_count", (f"{D}.block.feedforward.active",)),
    ),
    rules=(
        *INPUT, *ATTENTION, *NORMS, same("blk.{i}.ffn_gate_inp", f"{L}.feedforward.router"),
        *(Rule(f"blk.{{i}}.ffn_{name}_exps.weight", (f"{_EXPERT}.{name}",)) for name in ("gate", "up", "down")),
    ),
    choose=None,
)  # fmt: skip


AS_PUBLISHED = tuple(same(rule.disk, rule.ours[0]) for rule in (*ATTENTION, *MLP))
QK = (("attn_q_norm", "attention.query_norm"), ("attn_k_norm", "attention.key_norm"))
QK_KEYS = tuple(
    Key(key.config, (*key.paths, f"{D}.block.attention.qk_norm.eps")) if "rms" in key.config else key for key in KEYS
)
QWEN2_GGUF = PLAIN_GGUF.but(
    model_type=f"{PREFIX}qwen2", base=QWEN2, rules=(*INPUT, *AS_PUBLISHED, *NORMS), drops=()
)  # fmt: skip
QWEN3_GGUF = QWEN2_GGUF.but(
    model_type=f"{PREFIX}qwen3",
    base=QWEN3,
    keys=QK_KEYS,
    rules=(*QWEN2_GGUF.rules, *(same(f"blk.{{i}}.{theirs}", f"{L}.{ours}") for theirs, ours in QK)),
)


def _gemma_rules(*norms: tuple[str, str]) -> tuple[Rule, ...]:
    """Names of a Gemma: channels as published, every norm as 1 + w."""
    moved = tuple(shifted(f"blk.{{i}}.{theirs}", f"{L}.{ours}", 1.0) for theirs, ours in norms)
    return (INPUT[0], shifted("output_norm", "decoder.final_norm", 1.0), *AS_PUBLISHED, *moved)


_TWO = (("attn_norm", "attention_norms.before"), ("ffn_norm", "feedforward_norms.before"))
_FOUR = (*_TWO, ("post_attention_norm", "attention_norms.after"), ("post_ffw_norm", "feedforward_norms.after"))
_SIX = (*_FOUR, *QK)
GEMMA_GGUF = LLAMA_GGUF.but(
    model_type=f"{PREFIX}gemma", base=GEMMA, read=_gemma, drops=(), choose=None, rules=_gemma_rules(*_TWO)
)
_LOCAL = Key("attention.sliding_window", (f"{D}.block.attention.window",))
GEMMA2_GGUF = GEMMA_GGUF.but(
    model_type=f"{PREFIX}gemma2",
    base=GEMMA2,
    read=_gemma2,
    rules=_gemma_rules(*_FOUR),
    keys=(
        *KEYS,
        _LOCAL,
        Key("attn_logit_softcapping", (f"{D}.block.attention.softcap",)),
        Key("final_logit_softcapping", ("architecture.heads.causal_lm.softcap",)),
    ),
)
GEMMA3_GGUF = GEMMA2_GGUF.but(
    model_type=f"{PREFIX}gemma3", base=GEMMA3, read=_gemma3, rules=_gemma_rules(*_SIX), keys=(*QK_KEYS, _LOCAL)
)

_S = "encoder.layers.{i}"
_BERT_KEYS = encoder_keys(
    width="embedding_length", depth="block_count", heads="attention.head_count", ff="feed_forward_length"
)
BERT_GGUF = Dialect(
    model_type=f"{PREFIX}bert",
    base=BERT,
    prefix="",
    keys=(
        *(key for key in _BERT_KEYS if key.config not in ("max_position_embeddings", "tie_word_embeddings")),
        Key("context_length", (f"{E}.input.positions.rows",)),
        Key("attention.layer_norm_epsilon", EPS.paths),
        Key("segments", (f"{E}.input.segments",)),
    ),
    rules=(
        same("token_embd", "encoder.input.table"),
        same("position_embd", "encoder.input.positions"),
        same("token_types", "encoder.input.segments"),
        same("token_embd_norm", "encoder.input.norm"),
        same("blk.{i}.attn_q", f"{_S}.attention.query"),
        same("blk.{i}.attn_k", f"{_S}.attention.key"),
        same("blk.{i}.attn_v", f"{_S}.attention.value"),
        same("blk.{i}.attn_output", f"{_S}.attention.out"),
        same("blk.{i}.attn_output_norm", f"{_S}.attention_norms.join"),
        same("blk.{i}.ffn_up", f"{_S}.feedforward.up"),
        same("blk.{i}.ffn_down", f"{_S}.feedforward.down"),
        same("blk.{i}.layer_output_norm", f"{_S}.feedforward_norms.join"),
        same("cls", "pooler.dense"),
    ),
    heads=(same("cls.output", "heads.sequence_classification.project"),),
    classes={"reader": (), "classifier": ("sequence_classification",)},
    required={"attention.causal": False},
    read=_bert,
    read_only=WHY_READ_ONLY,
)
_ALL = (LLAMA_GGUF, QWEN2_GGUF, QWEN3_GGUF, GEMMA_GGUF, GEMMA2_GGUF, GEMMA3_GGUF, BERT_GGUF)
GGUF = {dialect.model_type: dialect for dialect in _ALL}
