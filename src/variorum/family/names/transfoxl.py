"""How Transformer-XL is published: one table, projection and bias for each cluster of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile, UsageError
from variorum.family.transfoxl import TABLE, TRANSFORMER_XL, D, H
from variorum.spec.dialect import CLAMP, Dialect, Drop, Key, Rule, fused, same, tied_to
from variorum.spec.heads import AdaptiveSoftmax
from variorum.spec.inputs import Clusters
from variorum.spec.model import Model

L = "decoder.layers.{i}"
_A, _F, _LM = "layers.{i}.dec_attn", "layers.{i}.pos_ff", "heads.causal_lm"


MAX_MEMORY = 2**20  # six hundred times the longest published; the first segment starts with as many zeros


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    cutoffs, memory = tuple(config.get("cutoffs", (20_000, 40_000, 200_000))), model.architecture.main.memory
    tied = config.get("tie_projs")
    if tied is None:
        tied = [False] + [config.get("proj_share_all_but_first", True)] * len(cutoffs)
    if memory > MAX_MEMORY or not isinstance(config.get("same_length", True), bool):
        raise DamagedFile(f"mem_len {memory} with same_length {config.get('same_length')!r} is no usable memory")
    borrows = config.get("tie_word_embeddings", True)
    return {
        f"{D}.input.clusters": Clusters(cutoffs=cutoffs, divide=config.get("div_val", 4)),
        f"{D}.input.scale": model.architecture.width**0.5,
        f"{D}.first_memory": "zeros" if memory else "nothing",
        f"{D}.block.attention.window": memory or None if config.get("same_length", True) else None,
        f"{H}.causal_lm.tied_projections": tuple(i for i, one in enumerate(tied) if one and borrows),
    }


def _write(model: Model) -> dict[str, object]:
    """Its window is the memory or nothing, and its first memory zeros: the published layout has no other.

    Raises:
        UsageError: another one.
    """
    stack, head = model.architecture.main, model.architecture.heads["causal_lm"]
    window, cut = stack.block.attention.window, stack.tokens.clusters
    assert cut is not None and isinstance(head, AdaptiveSoftmax)
    if window not in (None, stack.memory):
        raise UsageError(
            f"a window of {window} with a memory of {stack.memory} has no published layout", remedy="make them equal"
        )
    if stack.memory and stack.first_memory != "zeros":
        raise UsageError("a first memory of nothing has no published layout", remedy="set first_memory to zeros")
    return {
        "cutoffs": list(cut.cutoffs),
        "div_val": cut.divide,
        "same_length": window is not None,
        "tie_projs": [index in head.tied_projections for index in range(len(cut.cutoffs) + 1)],
    }


TRANSFO_XL_NAMES = Dialect(
    model_type="transfo-xl",
    base=TRANSFORMER_XL,
    prefix="transformer.",
    keys=(
        Key("d_model", ("architecture.width",)),
        Key("d_embed", (f"{D}.input.rank",)),
        Key("n_layer", (f"{D}.depth",)),
        Key("n_head", (f"{D}.block.attention.heads", f"{D}.block.attention.kv_heads")),
        Key("d_head", (f"{D}.block.attention.head_dim",)),
        Key("d_inner", (f"{D}.block.feedforward.width",)),
        Key("vocab_size", (f"{D}.input.vocab",)),
        Key("mem_len", (f"{D}.memory",)),
        Key("clamp_len", (f"{D}.positions.clamp",), CLAMP),
        Key("dropout", (f"{D}.block.dropout", f"{D}.input.dropout", f"{D}.dropout", f"{D}.block.feedforward.dropout")),
        Key("dropatt", (f"{D}.block.attention.dropout",)),
        Key("layer_norm_epsilon", (f"{D}.block.layout.norm.eps",)),
        Key("init_std", ("architecture.init.std",)),
        Key("tie_word_embeddings", (f"{H}.causal_lm.tie",), tied_to(TABLE)),
    ),
    rules=(
        same("word_emb.emb_layers.{i}", f"{TABLE}.tables.{{i}}"),
        Rule("word_emb.emb_projs.{i}", (f"{TABLE}.projects.{{i}}.weight",)),
        fused(f"{_A}.qkv_net", f"{L}.attention.query", f"{L}.attention.key", f"{L}.attention.value"),
        same(f"{_A}.o_net", f"{L}.attention.out"),
        same(f"{_A}.r_net", f"{L}.attention.positions.relative"),
        same(f"{_A}.r_w_bias", f"{L}.attention.positions.content_bias"),
        same(f"{_A}.r_r_bias", f"{L}.attention.positions.position_bias"),
        same(f"{_A}.layer_norm", f"{L}.attention_norms.join"),
        same(f"{_F}.CoreNet.0", f"{L}.feedforward.up"),
        same(f"{_F}.CoreNet.3", f"{L}.feedforward.down"),
        same(f"{_F}.layer_norm", f"{L}.feedforward_norms.join"),
    ),
    heads=(
        same("crit.cluster_weight", f"{_LM}.clusters.weight"),
        same("crit.cluster_bias", f"{_LM}.clusters.bias"),
        same("crit.out_layers.{i}", f"{_LM}.tables.{{i}}"),
        Rule("crit.out_projs.{i}", (f"{_LM}.projects.{{i}}.weight",)),
        same("score", "heads.sequence_classification.project"),
    ),
    classes={
        "TransfoXLModel": (),
        "TransfoXLLMHeadModel": ("causal_lm",),
        "TransfoXLForSequenceClassification": ("sequence_classification",),
    },
    required={"attn_type": 0, "adaptive": True, "pre_lnorm": False, "untie_r": True, "sample_softmax": -1},
    read=_read,
    write=_write,
    drops=(Drop(r"(.*\.)?pos_emb\.inv_freq", "a constant buffer"),),
    duplicates={
        f"crit.out_{ours}.{i}{leaf}": f"{TABLE}.{theirs}.{i}.weight"
        for ours, leaf, theirs in (("layers", ".weight", "tables"), ("projs", "", "projects"))
        for i in range(9)  # clusters that anyone ever used
    },
)  # fmt: skip
DIALECTS = (TRANSFO_XL_NAMES,)
