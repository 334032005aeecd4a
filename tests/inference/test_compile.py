"""Compiling is not offered: a model says so, and writes the same at every length without a single compilation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import variorum
from tests.tiny_specs import tiny

PROMPTS, STEPS, MOST = ([7, 8, 9, 10, 11], [12] * 9), 32, 3


@pytest.mark.case("V069")
def test_a_compiled_model_writes_what_the_plain_one_does_and_compiles_nothing_for_a_new_length() -> None:
    compiled: list[Any] = []

    def count(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    model = variorum.build(tiny("llama-3"), head="causal_lm")
    right = [model.generate([prompt], max_new_tokens=STEPS) for prompt in PROMPTS]
    assert all(len(rows[0]) == STEPS for rows in right)
    with pytest.warns(UserWarning, match="not compiled; this one runs as it is"):
        model.compile(backend=count)
    assert [model.generate([prompt], max_new_tokens=STEPS) for prompt in PROMPTS] == right
    assert len(compiled) == 0

    around: Any = torch.compile(model, backend=count)
    assert [around.generate([prompt], max_new_tokens=STEPS) for prompt in PROMPTS] == right
    assert len(compiled) <= MOST
