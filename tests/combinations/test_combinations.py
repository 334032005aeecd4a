"""Whatever the rules let anyone combine builds, counts, learns, decodes and pads right; the rest is refused, and why.

200 specs of either sort, each from its seed. Weights are shaken, so that nothing is at rest, and float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import variorum
from tests.combinations.draw import BANDS, END, IMAGE, illegal, legal
from tests.mutation.run import kinds_of_part
from tests.tiny_specs import gap, shaken
from variorum.attention.cache import Cache
from variorum.builder import build, empty
from variorum.errors import UsageError
from variorum.family import find
from variorum.model import Model, Output
from variorum.parts.norms import LayerNorm, RMSNorm
from variorum.spec import rules
from variorum.spec.inputs import MelInput, PatchInput, TokenInput
from variorum.spec.part import Part
from variorum.spec.size import size

COUNT, LENGTH = 200, 9
SEEDS = range(COUNT)


def made(seed: int, *, headed: bool = True) -> Model:
    """The model of a seed, with one of its heads or with none, in evaluation mode."""
    spec = legal(seed)
    heads = list(spec.architecture.heads)
    return shaken(build(spec, head=heads[seed % len(heads)] if headed else None, seed=seed), seed)


def words(batch: int, length: int, seed: int = 0) -> Tensor:
    """Ids that are no special token's, with two separators and an end token in every row."""
    ids = torch.randint(4, END, (batch, length), generator=torch.Generator().manual_seed(seed))
    ids[:, 2:4], ids[:, -1] = 2, END
    return ids


def read(model: Model, seed: int) -> dict[str, Any]:
    """What one forward is given: ids, an image or a sound, as the first stack reads, and ids to write."""
    arch, numbers = model.spec.architecture, torch.Generator().manual_seed(seed)
    source = arch.source
    if isinstance(source, PatchInput):
        shape: tuple[int, ...] = (2, source.channels, IMAGE, IMAGE)
        given = {"pixel_values": torch.randn(shape, generator=numbers, dtype=torch.float64)}
    elif isinstance(source, MelInput):
        given = {"input_features": torch.randn((2, BANDS, 2 * LENGTH), generator=numbers, dtype=torch.float64)}
    else:
        given = {"input_ids": words(2, LENGTH, seed)}
    if arch.encoder is not None and arch.decoder is not None:
        given["decoder_input_ids"] = words(2, LENGTH, seed + 1)
    if "multiple_choice" in model.head_names:
        given["input_ids"] = given["input_ids"][None]
    return given


def answer(out: Output) -> Tensor:
    """Everything that a forward says, as one number that every parameter in use moves."""
    found = [out.last_hidden_state, *out.logits_by_head.values(), *([] if out.pooled is None else [out.pooled])]
    return torch.stack([one.square().mean() for one in found]).sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_it_builds_counts_and_learns(seed: int) -> None:
    model = made(seed)
    parameters = {id(parameter): parameter for parameter in model.parameters()}
    assert size(model.spec, head=model.head_names, context=1).parameters == sum(p.numel() for p in parameters.values())
    every = tuple(model.spec.architecture.heads)
    whole = {id(p): p.numel() for p in empty(model.spec, every).parameters()}
    assert size(model.spec, head=every, context=1).parameters == sum(whole.values())
    found = model(**read(model, seed))
    assert torch.isfinite(found.last_hidden_state).all()
    assert all(torch.isfinite(logits).all() for logits in found.logits_by_head.values())
    answer(found).backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in parameters.values())
    assert sum(p.grad is not None and bool(p.grad.any()) for p in parameters.values()) > len(parameters) / 3
    model.train()
    assert torch.isfinite(answer(model(**read(model, seed))))


@torch.no_grad()
@pytest.mark.parametrize("seed", SEEDS)
def test_every_fresh_norm_only_norms(seed: int) -> None:
    spec = legal(seed)
    fresh = build(spec, head=tuple(spec.architecture.heads))
    for module in fresh.modules():
        if isinstance(module, LayerNorm | RMSNorm):
            x = torch.randn(3, len(module.weight), dtype=module.weight.dtype)
            centred = x - x.mean(-1, keepdim=True) if isinstance(module, LayerNorm) else x
            assert gap(module(x), centred / centred.square().mean(-1, keepdim=True).sqrt()) < 1e-2


DECODE = [seed for seed in SEEDS if legal(seed).architecture.decoder is not None]
ENCODE = [seed for seed in SEEDS if legal(seed).architecture.decoder is None]


@torch.no_grad()
@pytest.mark.parametrize("seed", DECODE)
def test_decoding_from_a_cache_is_recomputing(seed: int) -> None:
    model = made(seed, headed=False)
    stack = model.spec.architecture.main
    given = read(model, seed)
    ids = given.pop("decoder_input_ids", None)
    name = "input_ids" if ids is None else "decoder_input_ids"
    ids = given.pop("input_ids") if ids is None else ids
    right = model(**given, **{name: ids}).last_hidden_state
    if stack.memory:
        memory, pieces = None, []
        for piece in ids.split(1, 1):  # a memory longer than the text: it must hold what a cache would
            out = model(piece, memory=memory)
            memory = out.memory
            pieces.append(out.last_hidden_state)
        assert torch.isfinite(torch.cat(pieces, 1)).all()
        return
    cuts = [4, 1, 1, LENGTH - 6]
    if stack.settled is not None:  # beyond, rotation follows the length, and `generate` starts the cache over
        ids, cuts = ids[:, : stack.settled], [4, 1, stack.settled - 5]
        right = model(**given, **{name: ids}).last_hidden_state
    cache, pieces = Cache(), []
    for piece in ids.split(cuts, 1):
        pieces.append(model(**given, **{name: piece}, cache=cache).last_hidden_state)
    assert gap(torch.cat(pieces, 1), right) < 1e-10 * max(1.0, float(right.abs().max()))


@torch.no_grad()
@pytest.mark.parametrize("seed", ENCODE)
def test_encoding_among_padding_is_encoding_alone(seed: int) -> None:
    model = made(seed, headed=False)
    if not isinstance(model.spec.architecture.source, TokenInput):
        given = read(model, seed)
        both = model(**given).last_hidden_state
        for row in range(2):
            alone = model(**{name: value[row : row + 1] for name, value in given.items()}).last_hidden_state
            assert gap(alone[0], both[row]) < 1e-10 * max(1.0, float(both.abs().max()))
        return
    short, long = words(1, 6, seed)[0], words(1, LENGTH, seed)[0]
    for left in (False, True):
        pad = torch.zeros(LENGTH - 6, dtype=torch.long)
        row, real = (torch.cat((pad, one) if left else (one, pad)) for one in (short, torch.ones_like(short)))
        ids, mask = torch.stack((row, long)), torch.stack((real, torch.ones_like(long)))
        both, alone = model(ids, attention_mask=mask).last_hidden_state, model(short[None]).last_hidden_state
        assert gap(both[0][real.bool()], alone[0]) < 1e-10 * max(1.0, float(alone.abs().max()))


PACKED = [seed for seed in ENCODE if isinstance(legal(seed).architecture.source, TokenInput)]


@torch.no_grad()
@pytest.mark.parametrize("seed", PACKED)
def test_encoding_end_to_end_is_encoding_apart(seed: int) -> None:
    model, lengths = made(seed, headed=False), [6, 1, LENGTH]
    texts = [words(1, length, seed + length) for length in lengths]
    ids, arch = torch.cat(texts, 1), model.spec.architecture
    if arch.encoder is None or arch.encoder.memory or arch.encoder.settled is not None:
        with pytest.raises(UsageError, match="padded"):  # what one text is depends on its length, or on the text before
            model(ids, lengths=lengths)
        return
    packed = model(ids, lengths=lengths).last_hidden_state
    for text, states in zip(texts, packed[0].split(lengths), strict=True):
        alone = model(text).last_hidden_state[0]
        assert gap(states, alone) < 1e-10 * max(1.0, float(alone.abs().max()))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_may_not_be_built_is_refused_with_a_reason(seed: int) -> None:
    spec = illegal(seed)
    for problem in rules.problems(spec, rules.BUILD):
        assert problem.where.startswith("architecture") and problem.what
        assert len(problem.reason) > 20 and len(problem.remedy) > 5
    with pytest.raises(UsageError) as refused:
        variorum.build(spec)
    assert str(refused.value).count("\n") == 0


def parts(value: object) -> Iterator[type[Part]]:
    """The kind of every part below a value."""
    if isinstance(value, Part):
        yield type(value)
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from parts(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from parts(one)


def test_the_legal_ones_hold_every_part_that_a_spec_can_name_and_no_two_are_alike() -> None:
    specs = [legal(seed) for seed in SEEDS]
    assert len({spec.architecture.brief() for spec in specs}) == COUNT
    drawn = {kind for spec in specs for kind in parts(spec.architecture)}
    elsewhere = {"Model", "Masking", "Objective", "Generator", "Teacher", "Contrast", "Recipe", "Tokenizer"}
    missing = {kind.__name__ for kind in kinds_of_part()} - {kind.__name__ for kind in drawn} - elsewhere
    assert missing == set()


def test_illegal_ones_break_every_rule_of_building() -> None:
    specs = [illegal(seed) for seed in range(3 * COUNT)]
    # What is drawn is architectures; objectives are few enough to break by hand.
    specs.append(find("bert").set({"objective.masking.rate": 1.5}))
    specs.append(find("distilbert").set({"objective.teacher.temperature": 0.0}))
    broken = {problem.rule for spec in specs for problem in rules.problems(spec, rules.BUILD)}
    assert {rule.id for rule in rules.RULES if rules.BUILD in rule.uses} - broken == set()
