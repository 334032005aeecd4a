"""What models cost: parameters, operations and bytes that are told, against those of the built model."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.flop_counter import FlopCounterMode

from variorum.builder import build, empty
from variorum.checks.finding import Finding, equal
from variorum.checks.subjects import nano, read, words
from variorum.family import find, sizes
from variorum.model import Model
from variorum.spec.architecture import Sharing
from variorum.spec.model import Model as Spec
from variorum.spec.shapes import forward
from variorum.spec.size import chosen_heads, size

PUBLISHED = {
    "bert-base-uncased": 109_482_240, "bert-large-uncased": 335_141_888, "llama-3.1-405b": 405_853_388_800,
    "distilbert-base-uncased": 66_362_880, "albert-base-v2": 11_683_584,
}  # fmt: skip
"""Encoders without heads, from the released classes; 405B with the 8 key heads of its paper's table 3."""
COUNTED = ("bert", "llama", "t5", "mixtral", "xlnet", "deberta-v3")
BATCH, LENGTH = 2, 10
CACHED = {
    "llama-2-7b": 524_288, "llama-2-70b": 327_680, "llama-3-8b": 131_072, "mistral-7b-v0.1": 131_072,
    "llama-3.1-405b": 516_096, "gemma-2b": 18_432, "deepseek-v3": 70_272,
}  # fmt: skip
"""Bytes of keys and values for a token in two bytes a number."""
CROSSOVER = 25_705
GIB = 2**30


def parameter_count() -> Iterator[Finding]:
    """C1: the parameters that are counted from a spec are those of the model that is built from it."""
    differ = [name for name in sizes() if not _counts_right(find(name))]
    how = f"all {len(sizes())} published sizes, built without storage, against the count from the spec"
    yield equal("sizes whose count is not the built model's", differ, [], how)
    heads = {name: "causal_lm" if "causal_lm" in find(name).architecture.heads else None for name in PUBLISHED}
    found = [size(find(name), head=head, context=1).parameters for name, head in heads.items()]
    how = "BERT-large has 335 M with its pooler, often told as 340 M; 405B has 8 key heads: 16 would make 410.08 B"
    yield equal(", ".join(PUBLISHED), found, list(PUBLISHED.values()), how)


def _counts_right(model: Spec) -> bool:
    heads = chosen_heads(model)
    return size(model, head=heads, context=1).parameters == sum(p.numel() for p in empty(model, heads).parameters())


@torch.no_grad()
def token_flops() -> Iterator[Finding]:
    """C2: a token costs two operations a weight, and four a channel of every key that it sees."""
    told, counted = [], []
    for name in COUNTED:
        spec = nano(find(name))
        told.append(sum(row.flops for row in forward(spec.architecture, batch=BATCH, length=LENGTH)))
        counted.append(flops(build(spec)))
    how = f"torch's counter on {', '.join(COUNTED)} at nano size, {BATCH} texts of {LENGTH} tokens, against the spec"
    yield equal("operations of a forward pass", counted, told, how)
    llama, context = size(find("llama-2-7b"), context=3000), 3000
    weights = llama.parameters - llama.parts["token table"] - llama.parts["norms"]
    right = 2 * weights + 4 * context * 32 * 128 * 32
    how = "2 · weights + 4 · n · H · d · L; a causal text as a whole takes half of the second term"
    yield equal(f"Llama-2-7B, a token after {context:,}", llama.flops, right, how)


def flops(model: Model) -> int:
    """What torch counts in one forward pass of ``BATCH`` texts of ``LENGTH`` tokens, every score computed."""
    model.backend = "eager"
    with FlopCounterMode(display=False) as counter:
        read(model, words(BATCH, LENGTH))
    return counter.get_total_flops()


@torch.no_grad()
def shared_layers() -> Iterator[Finding]:
    """C3: layers that share parameters have a sixth of them, and do the same work."""
    path, block = "architecture.encoder", "architecture.encoder.block"
    six = {"architecture.width": 64, f"{path}.depth": 6, f"{block}.feedforward.width": 256}
    six |= {f"{block}.attention.{name}": value for name, value in (("heads", 4), ("kv_heads", 4), ("head_dim", 16))}
    bert = find("bert").set(six | {f"{path}.input.vocab": 64, "architecture.pooler": None})
    models = [build(bert), build(bert.set({f"{path}.sharing": Sharing()}))]
    how = "six layers of width 64, each with its own tensors, and all with one set"
    found = [sum(p.numel() for p in model.encoder.layers.parameters()) for model in models]
    yield equal("parameters of the layers", found, [299_904, 49_984], how)
    counted = [flops(model) for model in models]
    how = f"torch's counter, {BATCH} texts of {LENGTH} tokens: sharing saves memory, and makes no answer faster"
    yield equal("operations of a forward pass", counted, [12_103_680] * 2, how)


def cache_bytes() -> Iterator[Finding]:
    """C5: a token's keys and values take 2 · L · K · d numbers; the cache outgrows the weights."""
    found = [size(find(name)).cache_per_token for name in CACHED]
    how = "from the spec, in two bytes; 405B has 8 key heads, and with the 16 that are often told would take 1,032,192"
    yield equal(f"bytes a token: {', '.join(CACHED)}", found, list(CACHED.values()), how)
    llama = find("llama-2-7b")
    yield equal("Llama-2-7B at 4,096 tokens, GiB", size(llama, context=4096).cache / GIB, 2.0, "524,288 · 4,096 bytes")
    weights, last, first = size(llama).weight_bytes, *(size(llama, context=CROSSOVER + more).cache for more in (0, 1))
    how = f"{CROSSOVER:,} tokens take less than the weights, one more takes more; at 4,096 that is a batch of 7"
    yield equal("where Llama-2-7B's cache outgrows it", last < weights < first, True, how)


def active_parameters() -> Iterator[Finding]:
    """C12, F5: a mixture holds all of its experts, and a token uses few."""
    mixtral = size(find("mixtral-8x7b"))
    how = "experts are a part of each layer: not 8 × 7 = 56 B; and the 12.88 B that are told leave out the norms"
    used = mixtral.active - mixtral.parts["norms"]
    yield equal("Mixtral 8x7B: held, and used", [mixtral.parameters, used], [46_702_792_704, 12_879_659_008], how)
    model = build(nano(find("mixtral")))
    model(words(1, 1)).last_hidden_state.square().sum().backward()
    gate = model.get_parameter("decoder.layers.0.feedforward.experts.gate")
    assert gate.grad is not None
    taught = [int(gate.grad.any(-1).any(-1).sum()), len(gate)]
    how = "experts of a nano model's first layer with a gradient from one token, and all"
    yield equal("a token teaches two experts of eight", taught, [2, 8], how)
