"""A step cut into pieces gives the gradients of the step in one piece, for every objective: rows are ragged, and so are
the counts of their targets."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from tests.objectives.corpus import SYMBOLS, batch, rows_of
from tests.objectives.test_every_pair import asked, own_words
from tests.tiny_specs import shaken
from variorum.builder import build
from variorum.objectives import Objective, objective_for, together

#: An architecture for each objective. Two kinds of pairs, and both ways of a prefix, are different losses.
LEARNS = (
    ("bert", "masked_lm"), ("deberta", "masked_lm"), ("bert", "next_sentence"), ("albert", "sentence_order"),
    ("gpt2", "causal_lm"), ("transformer-xl", "causal_lm"), ("llama", "prefix_lm"), ("t5", "prefix_lm"),
    ("xlnet", "permutation_lm"), ("muril", "translation_lm"), ("t5", "span_corruption"), ("bart", "infilling"),
    ("pegasus", "gap_sentences"), ("transformer", "text_to_text"), ("electra", "replaced_token"),
    ("deberta-v3", "replaced_token"), ("distilbert", "distillation"), ("llama", "distillation"),
    ("e5", "contrastive"), ("gpt2", "contrastive"),
)  # fmt: skip
WHOLE, PIECES = slice(None), (slice(0, 1), slice(1, 4), slice(4, 6))


def gradients(objective: Objective, model: torch.nn.Module, examples: list) -> tuple[float, list[Tensor]]:
    """The loss of a step, and what every network learns from it."""
    networks = [model, *objective.networks(model).values()]
    learned = [p for network in networks for p in network.parameters() if p.requires_grad]
    for parameter in learned:
        parameter.grad = None
    targets, total = sum(example.count for example in examples), 0.0
    for example in together(objective, model, examples):
        part = objective.loss(model, example)
        (part.total / targets).backward()
        total += part.total.item()
    return total / targets, [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in learned]


@pytest.mark.case("V048")
@pytest.mark.parametrize(("name", "kind"), LEARNS)
def test_pieces_of_a_step_are_the_step(name: str, kind: str) -> None:
    spec = asked(name, kind)
    pad = getattr(spec.architecture.source, "pad_id", 0) or 0
    symbols = dataclasses.replace(SYMBOLS, pad=pad, special=SYMBOLS.special | {pad})
    teacher = shaken(build(spec, head=own_words(spec)), 5) if kind == "distillation" else None
    objective = objective_for(spec, symbols, teacher=teacher)
    model = shaken(build(spec, head=objective.requires))
    for network in objective.networks(model).values():
        network.double()
    shape = "causal_lm" if objective.requires == ("causal_lm",) and kind == "distillation" else kind
    whole = objective.corrupt(batch(shape, rows=6, pad=pad), torch.Generator().manual_seed(0))
    if kind == "contrastive":
        pieces = [objective.corrupt({k: v[one] for k, v in batch(shape, rows=6, pad=pad).items()}, torch.Generator())
                  for one in PIECES]  # fmt: skip
    else:
        pieces = [rows_of(whole, one) for one in PIECES]
    assert len({piece.count for piece in pieces}) > 1
    loss, right = gradients(objective, model, [whole])
    cut, mine = gradients(objective, model, pieces)
    largest = max(float(one.abs().max()) for one in right)
    assert cut == pytest.approx(loss, rel=1e-12)
    assert max(float((a - b).abs().max()) for a, b in zip(mine, right, strict=True)) <= 1e-10 * largest


@pytest.mark.case("V048")
def test_the_published_example_is_two_point_six() -> None:
    """Two targets with a loss of 1 each and eight with a loss of 3: 26 / 10, not the mean of the means."""
    from variorum.objectives.base import Corrupted
    from variorum.objectives.causal import Causal

    class Told(torch.nn.Module):
        def forward(self, targets: Tensor, each: Tensor):
            self.loss = each * (targets >= 0).sum()
            return self

    pieces = [
        Corrupted(inputs={"each": torch.tensor(each)}, targets=torch.zeros(1, count, dtype=torch.long))
        for each, count in ((1.0, 2), (3.0, 8))
    ]
    parts = [Causal().loss(Told(), piece) for piece in together(Causal(), Told(), pieces)]
    assert sum(float(part.total) for part in parts) / sum(part.count for part in parts) == pytest.approx(2.6)
