"""A writer is one state for all that write: what it scores is what reading everything again scores."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import DECODERS, SEQ2SEQ, gap, lm_head, made, words
from variorum.attention.cache import CachePlan
from variorum.errors import UsageError
from variorum.inference.writer import Writer, begin
from variorum.model import Model

WRITERS = (*DECODERS, *SEQ2SEQ)


def prompts(*lengths: int) -> list[list[int]]:
    return [words(1, length, seed=length)[0].tolist() for length in lengths]


def writer(model: Model, texts: list[list[int]], plan: CachePlan | None = None) -> Writer:
    source = None if model.spec.architecture.encoder is None else prompts(9, 5, 7)[: len(texts)]
    return Writer(model, texts, plan, source=source)


@pytest.mark.mechanism("K1", "G2")
@pytest.mark.parametrize("name", WRITERS)
def test_reading_selecting_and_forgetting_give_what_reading_everything_again_gives(name):
    model, texts = made(name, lm_head(name)), prompts(3, 11, 6)
    kept, fresh = writer(model, texts, CachePlan(chunk=4, undo=3)), writer(model, texts)
    assert gap(kept.logits, fresh.logits) < 1e-12
    for ids in (words(3, 1, seed=1), words(3, 4, seed=2)):
        assert gap(kept.step(ids), fresh.step(ids)) < 1e-12
    kept.drop([0, 3, 1]), fresh.drop([0, 3, 1])
    assert gap(kept.logits, fresh.logits) < 1e-12
    kept.select([2, 1, 2]), fresh.select([2, 1, 2])
    assert gap(kept.logits, fresh.logits) < 1e-12
    for ids in (words(3, 2, seed=3), words(3, 1, seed=4)):
        assert gap(kept.step(ids), fresh.step(ids)) < 1e-12


@pytest.mark.mechanism("G2", "G3")
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_prompt_is_continued_or_answered(name):
    model = made(name, lm_head(name))
    logits = begin(model, prompts(4, 7)).logits
    alone = [begin(model, [prompt]).logits for prompt in prompts(4, 7)]
    assert gap(logits, torch.cat(alone)) < 1e-12


def test_only_tokens_of_the_last_step_are_forgotten():
    kept = begin(made("gpt2", "causal_lm"), prompts(4, 7))
    kept.step(words(2, 2))
    kept.drop(1)
    with pytest.raises(UsageError, match="only tokens of the last step"):
        kept.drop([0, 2])
    with pytest.raises(UsageError, match="an empty prompt"):
        begin(made("gpt2", "causal_lm"), [[]])


@pytest.mark.mechanism("A13", "K1")
def test_as_many_queries_of_all_heads_as_there_are_keys_are_still_in_their_own_order():
    model, texts = made("deepseek-v3", "causal_lm"), prompts(6)
    heads = model.spec.architecture.main.block.attention.heads
    kept, fresh = writer(model, texts, CachePlan()), writer(model, texts)
    for count in (2, heads - 2, 3):  # with four heads: 8 queries of 8 keys, 8 of 10, 12 of 13
        assert gap(kept.step(words(1, count)), fresh.step(words(1, count))) < 1e-12
