"""What a model's probabilities add up to, and what it keeps to write the next word."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from variorum.attention.cache import Cache
from variorum.checks.finding import Finding, NotApplicable, below, equal, near
from variorum.checks.subjects import SAME, fresh, gap, is_seq2seq, nano, word_head, words
from variorum.model import Model
from variorum.parts.heads import head_loss
from variorum.spec.size import size

TOKENS, ROWS = 9, 2


@torch.no_grad()
def chain_rule(model: Model) -> Iterator[Finding]:
    """C17: the probabilities of all words sum to one, and a text's is the product of its words'."""
    head, ids = _writing_head(model), words(1, TOKENS)
    whole = _scores(model, head, ids)
    how = f"{TOKENS} positions, {whole.shape[-1]:,} words"
    yield below("probabilities sum to one", float((whole.exp().sum(-1) - 1).abs().max()), SAME, how)
    together = float(whole[0, :-1].gather(1, ids[0, 1:, None]).sum())
    alone = sum(float(_scores(model, head, ids[:, :at])[0, -1, ids[0, at]]) for at in range(1, TOKENS))
    how = f"log P of {TOKENS - 1} words after the first: one pass over all, and one pass for each"
    yield near("log probabilities add up", together, alone, how, within=1e-10 * abs(alone))
    loss = float(head_loss("causal_lm", whole, ids))
    yield near("the loss is their mean, negated", loss, -alone / (TOKENS - 1), how, within=1e-11 * abs(alone))


@torch.no_grad()
def kv_cache(model: Model) -> Iterator[Finding]:
    """C5: the cache takes the bytes that are told, grouping divides them, and reading from it changes nothing."""
    head = _writing_head(model)
    if model.spec.architecture.main.memory:
        raise NotApplicable(f"{model.spec.name} remembers states, not keys", remedy="name gpt2 or llama")
    held = _held(model)
    told = size(model.spec, context=TOKENS, batch=ROWS, dtype="float64").cache
    how = f"tensors kept after {ROWS} texts of {TOKENS} tokens in float64, against 2 · L · K · d · 8 bytes a token"
    yield equal("bytes of keys and values", held, told, how)
    attention = model.spec.architecture.main.block.attention
    kv_heads = getattr(attention, "kv_heads", attention.heads)
    if kv_heads < attention.heads and not is_seq2seq(model):
        path = "architecture.decoder.block.attention.kv_heads"
        each, shared = (_held(fresh(nano(model.spec).set({path: heads}))) for heads in (4, 1))
        how = "bytes kept by a nano model with 4 heads of keys for 4 of queries, over the same with one"
        yield equal("grouping divides the cache by H / K", each / shared, 4.0, how)
    ids, cache = words(1, TOKENS), Cache()
    steps = torch.cat([_scores(model, head, ids[:, at : at + 1], cache) for at in range(TOKENS)], 1)
    how = f"scores of {TOKENS} tokens written one by one from the cache, against one pass over all"
    yield below("a step from the cache is the whole pass", gap(steps, _scores(model, head, ids)), SAME, how)


def _scores(model: Model, head: str, written: Tensor, cache: Cache | None = None) -> Tensor:
    """Log-probabilities of every word after each of ``written`` [1, T]; an encoder-decoder reads one source always."""
    source = words(1, TOKENS, seed=2)
    given = {"input_ids": source, "decoder_input_ids": written} if is_seq2seq(model) else {"input_ids": written}
    scores: Tensor = model(**given, cache=cache).logits_by_head[head]
    return scores.log_softmax(-1)


def _held(model: Model) -> int:
    """Bytes that a cache holds after ``ROWS`` texts of ``TOKENS`` tokens."""
    cache, ids = Cache(), words(ROWS, TOKENS)
    model(ids, cache=cache, **({"decoder_input_ids": ids} if is_seq2seq(model) else {}))
    return cache.bytes


def _writing_head(model: Model) -> str:
    """The head of a decoder that scores words."""
    head = word_head(model.spec)
    if not model.is_decoder or head is None or head not in model.head_names:
        raise NotApplicable(f"{model.spec.name} does not write", remedy="name a decoder, as gpt2 or t5")
    return head
