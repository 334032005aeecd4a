"""Our models on the probes: the same rows, losses and names as `oracle.py` yields for the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import variorum
from tests.parity import oracle
from tests.parity.probes import Batch, Probe
from variorum.attention.cache import Cache
from variorum.model import Model, Output


def load(directory: Path, head: str | None, dtype: str = "float64") -> Model:
    """A saved oracle through our loader; `a+b` asks for two heads."""
    model = variorum.load(directory, head=tuple(head.split("+")) if head and "+" in head else head, dtype=dtype)
    model.backend = "eager"
    return model


def run(model: Model, probe: Probe, *, gradients: bool = True) -> oracle.Outputs:
    """As `oracle.run`. Positions are never given: padding must not need them."""
    gradients = gradients and probe.carry is None
    real = next(model.parameters()).dtype
    results: list[Mapping[str, Tensor]] = []
    carried: dict[str, Any] = {}
    if probe.carry == "cache":
        carried = {"cache": Cache()}
    with torch.set_grad_enabled(gradients):
        for batch in probe.batches:
            out = model(**cast(model, _inputs(batch, probe)), **carried, output_hidden_states=probe.carry is None)
            if probe.carry == "memory":
                carried = {"memory": out.memory}
            scores = _scores(model, out)
            results.append({**scores, **_states(scores, out)})
        rows = oracle.real_rows(results, probe)
        scores = {name: value for name, value in rows.items() if name in oracle.SCORES}
        grads = _gradients(model, scores) if gradients else {}
    assert all(value.dtype == real for value in scores.values())
    states = tuple(value.detach() for name, value in rows.items() if name not in oracle.SCORES)
    return oracle.Outputs(scores={k: v.detach() for k, v in scores.items()}, hidden_states=states, gradients=grads)


def _inputs(batch: Batch, probe: Probe) -> dict[str, Tensor]:
    """Over a cache our mask covers the new tokens only: the cache knows the earlier ones."""
    given = batch.inputs()
    if probe.carry == "cache" and "decoder_input_ids" not in given and "attention_mask" in given:
        given["attention_mask"] = given["attention_mask"][:, -given["input_ids"].shape[1] :]
    return given


def cast(model: Model, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Images and sounds in the precision of the run; ids as they are."""
    real = next(model.parameters()).dtype
    return {name: value.to(real) if value.is_floating_point() else value for name, value in given.items()}


def _scores(model: Model, out: Output) -> dict[str, Tensor]:
    if not model.head_names:
        return {"last_hidden_state": out.last_hidden_state}
    if out.answers is not None:
        ends = out.answers.end_scores.transpose(1, 2).flatten(1)
        starts, none = out.answers.start_scores, out.answers.no_answer
        return {"start_top_log_probs": starts, "end_top_log_probs": ends, "cls_logits": none}
    if out.start_logits is not None and out.end_logits is not None:
        return {"start_logits": out.start_logits, "end_logits": out.end_logits}
    if len(model.head_names) > 1:
        return {"logits": out.logits_by_head["masked_lm"], "pair_logits": out.logits_by_head["next_sentence"]}
    assert out.logits is not None
    return {"logits": out.logits}


def _states(scores: Mapping[str, Tensor], out: Output) -> dict[str, Tensor]:
    """Hidden states, where they stand for the same rows as the scores."""
    rows = next(iter(scores.values())).shape[:2]
    states = out.hidden_states or []
    return {f"hidden_states.{i}": state for i, state in enumerate(states) if state.shape[:2] == rows}


def _gradients(model: Model, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    oracle.loss(scores).backward()
    return {
        name: torch.zeros_like(value) if value.grad is None else value.grad.clone()
        for name, value in model.named_tensors()
    }


def renamed(theirs: nn.Module, gradients: Mapping[str, Tensor], head: str | None, directory: Path) -> dict[str, Tensor]:
    """The oracle's gradients under our names: written as a checkpoint and read back through our weight map."""
    oracle.save_gradients(theirs, gradients, directory)
    return {name: value.detach() for name, value in load(directory, head).named_tensors()}
