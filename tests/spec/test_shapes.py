"""The tensors of a forward pass, read off the spec, are those that hooks on the built model see, in the same order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tests.spec.shrunk import ALL, reading
from variorum.builder import build
from variorum.model import Model
from variorum.spec.shapes import Named, forward, keys_seen

BATCH, LENGTH, TARGET = 2, 10, 5
CASES = [(name, head) for name, model in ALL.items() for head in (None, *model.architecture.heads)]


@functools.cache
def observed(name: str, head: str | None) -> tuple[list[tuple[str, tuple[int, ...]]], int]:
    """What hooks see of one forward of the built model, and the FLOPs that torch counts."""
    model = build(ALL[name], head=head)
    model.backend = "eager"
    with FlopCounterMode(display=False) as counter:
        return run(model), counter.get_total_flops()


def told(name: str, head: str | None) -> list[Named]:
    """The same forward from the spec."""
    heads = () if head is None else (head,)
    return forward(ALL[name].architecture, heads=heads, batch=BATCH, length=LENGTH, target=TARGET)


def run(model: Model) -> list[tuple[str, tuple[int, ...]]]:
    """What every module of ``model`` puts out in one forward, in the order in which they finish."""
    seen: list[tuple[str, tuple[int, ...]]] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, given: Any, out: Any) -> None:
            while isinstance(out, tuple):
                out = out[0]
            if isinstance(out, Tensor) and not isinstance(module, nn.Identity):
                seen.append((name, tuple(out.shape)))

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(watch(name))
    given = reading(model.spec, BATCH, LENGTH, TARGET)
    choices = "multiple_choice" in model.head_names  # the texts are those of one question
    model(**{key: value[None] for key, value in given.items()} if choices else given)
    return seen


@pytest.mark.parametrize(("name", "head"), CASES)
def test_rows_are_what_hooks_see(name: str, head: str | None) -> None:
    assert observed(name, head)[0] == [(row.name, row.shape) for row in told(name, head) if row.module]


@pytest.mark.mechanism("C2")
@pytest.mark.parametrize(("name", "head"), CASES)
def test_flops_are_what_a_counter_counts(name: str, head: str | None) -> None:
    assert observed(name, head)[1] == sum(row.flops for row in told(name, head))


@pytest.mark.parametrize("name", ALL)
def test_attention_maps_have_the_shapes_that_the_model_returns(name: str) -> None:
    model = build(ALL[name])
    out = model(**reading(model.spec, BATCH, LENGTH, TARGET), output_attentions=True)
    rows = forward(ALL[name].architecture, batch=BATCH, length=LENGTH, target=TARGET)
    main = "decoder" if model.is_decoder else "encoder"
    maps = [row.shape for row in rows if row.name.startswith(main) and row.name.endswith("attention.maps")]
    assert maps == [tuple(one.shape) for one in out.attentions]


def test_a_window_is_counted_as_the_keys_that_it_shows() -> None:
    assert [keys_seen(4, True, context) for context in (1, 4, 5, 100)] == [1, 4, 4, 4]
    assert [keys_seen(128, False, context) for context in (100, 129, 4096)] == [100, 129, 129]
    assert keys_seen(None, True, 100) == keys_seen(0, True, 100) == 100
