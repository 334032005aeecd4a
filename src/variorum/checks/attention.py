"""Who hears whom: checks on what states depend on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from variorum.checks.finding import Finding, NotApplicable, above, below, equal
from variorum.checks.subjects import (
    MOVED,
    SAME,
    another,
    embedded,
    fresh,
    gap,
    is_seq2seq,
    moves,
    nano,
    read,
    sides,
    words,
)
from variorum.model import Model
from variorum.spec.model import Model as Spec

TOKENS, CHANGED = 10, 5
WINDOW, DEPTH = 8, 6


def receptive_field(model: Model) -> Iterator[Finding]:
    """C4: a causal window of W sees l(W - 1) + 1 tokens after l layers, itself among them."""
    (name, stack), *others = model.spec.architecture.stacks.items()
    if others or not getattr(stack.block.attention, "window", None):
        raise NotApplicable(f"{model.spec.name} has no window", remedy="name mistral or modernbert")
    root = f"architecture.{name}"
    windowed = {f"{root}.block.attention.window": WINDOW, f"{root}.pattern": ()}
    spec = nano(model.spec.set(windowed)).set({f"{root}.depth": DEPTH})
    causal = stack.mask == "causal"
    step = WINDOW - 1 if causal else 2 * (WINDOW // 2)
    how = f"input tokens with a gradient on one state, layer by layer, {'causal' if causal else 'seen from both sides'}"
    if causal:
        how += f"; often told as layers × window, so Mistral's 32 of 4,096 reach {32 * 4095 + 1:,}, and not 131,072"
    claim = f"each layer of window {WINDOW} reaches {step} tokens further"
    yield equal(claim, _reaches(fresh(spec), causal), [layer * step + 1 for layer in range(1, DEPTH + 1)], how)


def _reaches(model: Model, causal: bool) -> list[int]:
    """How many tokens each layer's state hears: of the last token, or of the middle one."""
    length = DEPTH * WINDOW + 2
    vectors = embedded(model, words(1, length))
    layers = model(inputs_embeds=vectors, output_hidden_states=True).hidden_states
    reach = []
    for states in layers[1:]:
        state = states[0, -1 if causal else length // 2]
        # Not the plain sum, which a layer norm holds constant.
        (grad,) = torch.autograd.grad((state * torch.arange(len(state))).sum(), vectors, retain_graph=True)
        heard = (grad[0].abs().sum(-1) > 0).nonzero().flatten()
        assert int(heard[-1] - heard[0]) + 1 == len(heard), "a window has no holes"
        reach.append(len(heard))
    return reach


def causal_leakage(model: Model) -> Iterator[Finding]:
    """C16: no later token changes a causal state; every token changes every state that looks both ways."""
    ids = words(1, TOKENS)
    for side in sides(model, TOKENS):
        place = CHANGED if side.causal else TOKENS - 1
        moved = moves(side.states(another(ids, place)), side.states(ids))
        how = f"token {place + 1} of {TOKENS} is another word; moves are shares of the largest value ({side.name})"
        if side.causal:
            yield below("no state before a changed token moves", float(moved[:place].max()), SAME, how)
            yield above("its own and every later state moves", float(moved[place:].min()), MOVED, how)
        else:
            yield above("a changed token moves every state", float(moved.min()), MOVED, how)


def appended_token(model: Model) -> Iterator[Finding]:
    """C23: one more token changes every earlier state of an encoder, and none of a causal decoder."""
    ids = words(1, TOKENS)
    for side in sides(model, TOKENS):
        how = f"{TOKENS} tokens against the first {TOKENS - 1} of them ({side.name})"
        longer, shorter = side.states(ids), side.states(ids[:, :-1])
        moved = moves(longer[:, : shorter.shape[1]], shorter)
        if side.causal:
            yield below("one more token moves no earlier state", float(moved.max()), SAME, how)
        else:
            yield above("one more token moves every state", float(moved.min()), MOVED, how)


def permutation_equivariance(model: Model) -> Iterator[Finding]:
    """C8: without positions an unmasked stack commutes with any permutation; a causal one does from no second layer."""
    if is_seq2seq(model) or model.spec.architecture.main.inserts:
        raise NotApplicable(f"{model.spec.name} is not one stack of attention", remedy="name an encoder or a decoder")
    generator = torch.Generator().manual_seed(4)
    if model.is_decoder:
        order = torch.cat((torch.randperm(TOKENS - 1, generator=generator), torch.tensor([TOKENS - 1])))
        one, two = (_placeless(model.spec, depth) for depth in (1, 2))
        how = "the last state, with the tokens before it in another order and no positions; {} of depth"
        yield below("one causal layer cannot tell orders apart", _last_moves(one, order), SAME, how.format("1 layer"))
        yield above("two causal layers can", _last_moves(two, order), 1e-3, how.format("2 layers"))
        return
    order = torch.randperm(TOKENS, generator=generator)
    bare, ids = _placeless(model.spec), words(2, TOKENS)
    straight, moved = read(bare, ids).last_hidden_state, read(bare, ids[:, order]).last_hidden_state
    how = "no positions: f(xP) against f(x)P for a permutation P, which is often told as f(xP) = f(x)"
    yield below("states move with their tokens", gap(moved, straight[:, order]), SAME, how)
    how = "the mean over tokens of f(xP) against that of f(x): what is pooled does forget the order"
    yield below("the mean of all states does not move", gap(moved.mean(1), straight.mean(1)), SAME, how)
    own = read(model, ids[:, order]).last_hidden_state, read(model, ids).last_hidden_state[:, order]
    yield above("with its own positions they do more than move", gap(*own), 1e-3, "the same, positions as published")


def _placeless(spec: Spec, depth: int | None = None) -> Model:
    """A nano model whose only sense of order is its mask."""
    (name,) = spec.architecture.stacks
    root = f"architecture.{name}"
    bare = nano(spec.set({f"{root}.positions": None, f"{root}.input.positions": None, f"{root}.pattern": ()}))
    return fresh(bare if depth is None else bare.set({f"{root}.depth": depth}))


def _last_moves(model: Model, order: torch.Tensor) -> float:
    ids = words(1, len(order))
    return gap(read(model, ids[:, order]).last_hidden_state[:, -1], read(model, ids).last_hidden_state[:, -1])


def cls_token(model: Model) -> Iterator[Finding]:
    """C19: the first token is the same for every text below the first layer, and hears every token above the last."""
    if model.is_decoder:
        raise NotApplicable(f"{model.spec.name} is no encoder", remedy="name an encoder")
    texts = torch.cat((torch.full((4, 1), words(1, 1).item()), words(4, TOKENS)), 1)
    first, *_, last = (states[:, 0] for states in model(texts, output_hidden_states=True).hidden_states)
    how = "four texts behind one first token: its state, before any layer and after all"
    yield below("below the first layer it says nothing of the text", gap(first, first[:1].expand(4, -1)), SAME, how)
    yield above("above the last it tells texts apart", min(gap(a, b) for a, b in pairwise(last)), 1e-3, how)
    vectors = embedded(model, texts[:1])
    (grad,) = torch.autograd.grad(model(inputs_embeds=vectors).last_hidden_state[0, 0].square().sum(), vectors)
    reached = int((grad[0].abs().sum(-1) > MOVED).sum())
    yield equal("it hears every token", reached, TOKENS + 1, "tokens with a gradient on its last state")
