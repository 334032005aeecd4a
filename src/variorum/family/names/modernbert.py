"""How ModernBERT is published: query, key and value in one, gate and up in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.bert import TABLE
from variorum.family.modernbert import MODERNBERT
from variorum.family.names.bert import E, L, classes
from variorum.family.names.common import head_width, layers_of, rotary_of, write_rope
from variorum.spec.architecture import At
from variorum.spec.dialect import ACTIVATION, Dialect, Key, fused, same, tied_to
from variorum.spec.model import Model
from variorum.spec.positions import Rotary

H = "architecture.heads"
LABELLED = ("sequence_classification", "multiple_choice", "token_classification", "question_answering")
TRANSFORMS = tuple(f"{H}.{name}.transform" for name in ("masked_lm", *LABELLED))


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None
    every = config.get("global_attn_every_n_layers", 3)
    regular = ["sliding_attention" if i % every else "full_attention" for i in range(encoder.depth)]
    nested = config.get("rope_parameters") or {
        "full_attention": {"rope_theta": config.get("global_rope_theta", 160_000.0)},
        "sliding_attention": {"rope_theta": config.get("local_rope_theta") or config["global_rope_theta"]},
    }
    take = "mean" if config.get("classifier_pooling") == "mean" else "first"
    full = layers_of(config.get("layer_types") or regular, "full_attention")
    far = At(layers=full, set={"attention.window": None, "positions": rotary_of(nested["full_attention"])})
    return {
        f"{E}.block.attention.head_dim": head_width(model.architecture.width, encoder.block.attention.heads),
        f"{E}.positions": rotary_of(nested["sliding_attention"]),
        f"{E}.pattern": ((far,) if full else ()) + (At(layers="0", set={"layout.attention": ()}),),
        **dict.fromkeys((f"{H}.{name}.take" for name in LABELLED[:2]), take),
    }


def _write(model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None and isinstance(encoder.positions, Rotary)
    layers = [encoder.layer(i) for i in range(encoder.depth)]
    far = next((layer.positions for layer in layers if layer.attention.window is None), encoder.positions)
    assert isinstance(far, Rotary)
    take = getattr(model.architecture.heads["sequence_classification"], "take", "first")
    return {
        "layer_types": [
            "full_attention" if layer.attention.window is None else "sliding_attention" for layer in layers
        ],
        "rope_parameters": {
            "full_attention": write_rope(far, encoder.block.attention.head_dim),
            "sliding_attention": write_rope(encoder.positions, encoder.block.attention.head_dim),
        },
        "classifier_pooling": "mean" if take == "mean" else "cls",
    }


EPS = (f"{E}.block.layout.norm.eps", f"{E}.input.norm.eps", f"{E}.final_norm.eps")
MODERNBERT_NAMES = Dialect(
    model_type="modernbert",
    base=MODERNBERT,
    prefix="model.",
    keys=(
        Key("hidden_size", ("architecture.width",)),
        Key("num_hidden_layers", (f"{E}.depth",)),
        Key("num_attention_heads", (f"{E}.block.attention.heads", f"{E}.block.attention.kv_heads")),
        Key("intermediate_size", (f"{E}.block.feedforward.width",)),
        Key("hidden_activation", (f"{E}.block.feedforward.activation",), ACTIVATION),
        Key("vocab_size", (f"{E}.input.vocab",)),
        Key("norm_eps", (*EPS, *(f"{path}.norm.eps" for path in TRANSFORMS))),
        Key("local_attention", (f"{E}.block.attention.window",)),
        Key("embedding_dropout", (f"{E}.input.dropout",)),
        Key("mlp_dropout", (f"{E}.block.feedforward.dropout",)),
        Key("attention_dropout", (f"{E}.block.attention.dropout",)),
        Key("classifier_activation", tuple(f"{path}.activation" for path in TRANSFORMS), ACTIVATION),
        Key("classifier_bias", tuple(f"{path}.bias" for path in TRANSFORMS)),
        Key("classifier_dropout", tuple(f"{H}.{name}.dropout" for name in LABELLED)),
        Key("decoder_bias", (f"{H}.masked_lm.bias",)),
        Key("pad_token_id", (f"{E}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", (f"{H}.masked_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("embeddings.tok_embeddings", "encoder.input.table"),
        same("embeddings.norm", "encoder.input.norm"),
        same("layers.{i}.attn_norm", f"{L}.attention_norms.before"),
        fused("layers.{i}.attn.Wqkv", f"{L}.attention.query", f"{L}.attention.key", f"{L}.attention.value"),
        same("layers.{i}.attn.Wo", f"{L}.attention.out"),
        same("layers.{i}.mlp_norm", f"{L}.feedforward_norms.before"),
        fused("layers.{i}.mlp.Wi", f"{L}.feedforward.gate", f"{L}.feedforward.up"),
        same("layers.{i}.mlp.Wo", f"{L}.feedforward.down"),
        same("final_norm", "encoder.final_norm"),
    ),
    heads=(
        *(same(f"head.{part}", f"heads.{name}.transform.{part}")
          for name in ("masked_lm", *LABELLED) for part in ("dense", "norm")),
        same("decoder", "heads.masked_lm.project"),
        *(same("classifier", f"heads.{name}.project") for name in LABELLED),
    ),
    classes=classes("ModernBert"),
    required={"attention_bias": False, "mlp_bias": False, "norm_bias": False},
    read=_read,
    write=_write,
    duplicates={"decoder.weight": "encoder.input.table.weight"},
)  # fmt: skip
DIALECTS = (MODERNBERT_NAMES,)
