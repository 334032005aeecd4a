"""Bugs that published software has had, put into the code: the comparison in float64 notices every one of them.

In bfloat16 the small ones drown in rounding; hence the gates of `tests/gates.py` are judged in float64 and float32.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from tests import gates
from tests.mutation.run import subject
from tests.parity import oracle, ours
from tests.parity.tiny import TINY
from variorum.attention import attention, backends, cache, masks
from variorum.parts import norms, positions, rotary

#: What bug, in which models, on which probe, and what it is.
BUGS = {}


def bug(*models: str, probe: str):
    """Register a function that puts one bug in place."""

    def register(put):
        for model in models:
            BUGS[f"{put.__name__} in {model}"] = (model, probe, put)
        return put

    return register


@bug("bert", "xlnet", "deberta-v3", "llama", "t5", probe="left")
def leaked_padding(monkeypatch):
    """Padded keys are seen."""
    seen = masks.Mask._visible

    def leaking(self, where):
        return seen(self, dataclasses.replace(where, k_order=where.k_order.clamp(min=0), memo={}))

    monkeypatch.setattr(masks.Mask, "_visible", leaking)


@bug("mistral", "gemma3", "modernbert", probe="full")
def window_off_by_one(monkeypatch):
    """A window shows one key more (to each side, where there are two)."""
    seen = masks.Mask._visible

    def wider(self, where):
        step = 1 if self.causal else 2
        return seen(dataclasses.replace(self, window=self.window + step if self.window else None), where)

    monkeypatch.setattr(masks.Mask, "_visible", wider)


@bug("llama", "llama-3.1", "gemma3", "modernbert", "deepseek-v3-yarn", probe="full")
def frequencies_off_by_a_ten_thousandth(monkeypatch):
    """Every rotary frequency times 1.0001."""
    right = rotary.inverse_frequencies

    def faster(spec, dims):
        inverse, factor = right(spec, dims)
        return inverse * 1.0001, factor

    monkeypatch.setattr(rotary, "inverse_frequencies", faster)


@bug("llama", "t5", "gemma3", "deepseek-v3", probe="full")
def epsilon_times_ten(monkeypatch):
    """Every RMSNorm adds ten times its epsilon."""
    right = norms.RMSNorm.__init__

    def looser(self, norm, width):
        right(self, dataclasses.replace(norm, eps=norm.eps * 10), width)

    monkeypatch.setattr(norms.RMSNorm, "__init__", looser)


@bug("t5", probe="full")
def buckets_off_by_one(monkeypatch):
    """The first distance of a logarithmic bucket is counted to the one before."""
    right = positions.relative_buckets

    def nearer(distance, *args, **options):
        return right(distance - distance.sign(), *args, **options)

    monkeypatch.setattr(positions, "relative_buckets", nearer)


@bug("llama", "mistral", "mixtral", probe="full")
def interleaved_key_heads(monkeypatch):
    """Query head h reads key head h modulo their number, instead of its group's."""
    right = backends.eager

    def modulo(q, k, v, scores, mask, where):
        repeats = q.shape[1] // k.shape[1]
        return right(q, k.repeat(1, repeats, 1, 1), v.repeat(1, repeats, 1, 1), scores, mask, where)

    monkeypatch.setitem(backends.BACKENDS, "eager", modulo)


@bug("gpt2", "llama", "deepseek-v3", probe="cached")
def cache_counts_from_zero(monkeypatch):
    """The next token's position starts again at 0 after the prompt."""
    monkeypatch.setattr(cache.Cache, "next_order", property(lambda self: 0))


@bug("gemma3", probe="full")
def offset_forgotten(monkeypatch):
    """Gemma's norm weights are taken as they are stored, without the 1."""
    right = norms.RMSNorm.__init__
    monkeypatch.setattr(
        norms.RMSNorm,
        "__init__",
        lambda self, norm, width: right(self, dataclasses.replace(norm, unit_offset=False), width),
    )


@bug("bert", "gpt2", "deberta", "xlnet", probe="full")
def unscaled_scores(monkeypatch):
    """Scores are divided by the square root of the width of all heads."""
    right = attention.Scores

    def smaller(scale, **rest):
        return right(scale=scale / math.sqrt(4), **rest)

    monkeypatch.setattr(attention, "Scores", smaller)


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            case = next(tiny.cases()[0] for tiny in TINY if tiny.name == name)
            made[name] = subject(case, tmp_path_factory.mktemp("seeded"))
        return made[name]

    return get


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_seen(name, subjects, monkeypatch):
    model, kind, put = BUGS[name]
    one = subjects(model)
    probe = next(probe for probe in one.probes if probe.kind == kind)
    with torch.no_grad():
        right = ours.run(one.model, probe, gradients=False)
        put(monkeypatch)
        wrong = ours.run(one.built(one.spec), probe, gradients=False)
    assert oracle.gap(wrong, right) >= gates.MUTATION_FACTOR * gates.SCORES
    monkeypatch.undo()
    assert oracle.gap(ours.run(one.built(one.spec), probe, gradients=False), right) == 0
