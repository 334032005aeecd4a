"""Every objective on every architecture: one training step where the rules allow it, their reason where they do not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.objectives.corpus import SYMBOLS, batch
from tests.tiny_specs import NAMES, tiny
from variorum.builder import build
from variorum.errors import UsageError
from variorum.objectives import objective_for
from variorum.spec import rules
from variorum.spec.heads import EmbeddingHead, SequenceHead, TokenHead, TwoWayHead, VocabularyHead
from variorum.spec.model import Model

PAIRS = ("next_sentence", "sentence_order")
KINDS = rules.OBJECTIVES
#: The heads that an objective needs beside what a published model has.
HEADS = {
    "masked_lm": VocabularyHead(), "translation_lm": VocabularyHead(), "causal_lm": VocabularyHead(),
    "permutation_lm": VocabularyHead(), "bidirectional_lm": TwoWayHead(), "seq2seq_lm": VocabularyHead(),
    "replaced_token": TokenHead(labels=1), "next_sentence": SequenceHead(take="mean"),
    "embedding": EmbeddingHead(take="mean"),
}  # fmt: skip
TWO_LAYERS = 2


def asked(name: str, kind: str) -> Model:
    """A tiny model that is to learn so, with the heads for it."""
    spec = tiny(name)
    for stack in spec.architecture.stacks:
        spec = spec.set({f"architecture.{stack}.depth": 6 if spec.architecture.stacks[stack].pattern else TWO_LAYERS})
    objective = spec.objective
    if kind not in PAIRS:
        objective = dataclasses.replace(objective, kind=kind, pair=None)
    else:
        objective = dataclasses.replace(objective, kind="masked_lm", pair=kind)
    heads = dict(spec.architecture.heads)
    for needed in needs(spec, kind):
        heads.setdefault(needed, HEADS[needed])
    return spec.set({"objective": objective, "architecture.heads": heads})


def needs(spec: Model, kind: str) -> tuple[str, ...]:
    arch = spec.architecture
    if kind in PAIRS:
        return "masked_lm", "next_sentence"
    if kind in ("prefix_lm", "distillation"):
        return (own_words(spec),)
    if kind == "contrastive":
        return ("embedding",) if len(arch.stacks) == 1 else ()
    named = {"translation_lm": "masked_lm", **dict.fromkeys(rules.REWRITES, "seq2seq_lm")}
    return (named.get(kind, kind),)


def own_words(spec: Model) -> str:
    arch = spec.architecture
    if arch.decoder is None:
        return "masked_lm"
    return "causal_lm" if arch.encoder is None else "seq2seq_lm"


def allowed(spec: Model, kind: str) -> bool:
    uses = ("masked_lm", kind) if kind in PAIRS else (kind,)
    return not any(rules.problems(spec, use) for use in ("build", *uses))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_where_the_rules_allow_it_and_they_say_why_where_not(name: str, kind: str) -> None:
    spec = asked(name, kind)
    if not allowed(spec, kind):
        with pytest.raises(UsageError) as refused:
            objective_for(spec, SYMBOLS, teacher=None)
        assert refused.value.remedy
        return
    pad = getattr(spec.architecture.source, "pad_id", 0) or 0
    teacher = build(spec, head=own_words(spec), seed=5) if kind == "distillation" else None
    symbols = dataclasses.replace(SYMBOLS, pad=pad, special=SYMBOLS.special | {pad})
    objective = objective_for(spec, symbols, teacher=teacher)
    model = build(spec, head=objective.requires).train()
    learners = [model, *objective.networks(model).values()]
    shape = "text_to_text" if kind == "distillation" and objective.requires == ("seq2seq_lm",) else kind
    if kind == "distillation" and objective.requires == ("causal_lm",):
        shape = "causal_lm"
    example = objective.corrupt(batch(shape, pad=pad), torch.Generator().manual_seed(0))
    assert example.count > 0
    loss = objective.loss(model, example)
    assert loss.count == example.count
    (loss.total / loss.count).backward()
    grads = [p.grad for network in learners for p in network.parameters() if p.requires_grad and p.grad is not None]
    assert all(grad.isfinite().all() for grad in grads)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trained = {p: None for network in learners for p in network.parameters() if p.requires_grad}
    torch.optim.SGD(trained, lr=0.1).step()
    objective.settle(model)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
