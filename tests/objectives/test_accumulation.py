"""A step cut into pieces gives the gradients of the step in one piece, for every objective: rows are ragged, and so are
the counts of their targets."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from tests.objectives.corpus import SYMBOLS, batch, rows_of
from tests.objectives.test_every_pair import asked, own_words
from tests.spec.shrunk import ALL, IMAGE
from tests.tiny_specs import shaken
from tests.training.processes import still
from variorum.builder import build
from variorum.objectives import Objective, objective_for, together
from variorum.objectives.base import IGNORED
from variorum.objectives.labels import Labels
from variorum.objectives.mixture import TASK, Mixture
from variorum.objectives.rewriting import Rewriting
from variorum.training.loop import Compute, Trainer
from variorum.training.optimiser import Optimisation

#: An architecture for each objective. Two kinds of pairs, and both ways of a prefix, are different losses.
LEARNS = (
    ("bert", "masked_lm"), ("deberta", "masked_lm"), ("bert", "next_sentence"), ("albert", "sentence_order"),
    ("gpt2", "causal_lm"), ("transformer-xl", "causal_lm"), ("llama", "prefix_lm"), ("t5", "prefix_lm"),
    ("xlnet", "permutation_lm"), ("muril", "translation_lm"), ("t5", "span_corruption"), ("bart", "infilling"),
    ("pegasus", "gap_sentences"), ("transformer", "text_to_text"), ("electra", "replaced_token"),
    ("deberta-v3", "replaced_token"), ("distilbert", "distillation"), ("llama", "distillation"),
    ("e5", "contrastive"), ("gpt2", "contrastive"),
)  # fmt: skip
PIECES = (slice(0, 1), slice(1, 4), slice(4, 6))
BFLOAT = Compute(precision="bfloat16")


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
    alike(objective, model, [whole], pieces)


def alike(objective: Objective, model: torch.nn.Module, one: list, other: list) -> None:
    """Two ways of cutting a step give one loss and one gradient."""
    loss, right = gradients(objective, model, one)
    cut, mine = gradients(objective, model, other)
    largest = max(float(gradient.abs().max()) for gradient in right)
    assert cut == pytest.approx(loss, rel=1e-12)
    assert max(float((a - b).abs().max()) for a, b in zip(mine, right, strict=True)) <= 1e-10 * largest


@pytest.mark.case("V048")
def test_pieces_read_in_both_directions_are_the_step() -> None:
    objective = objective_for(ALL["bilm"], SYMBOLS)
    model, draw = shaken(build(ALL["bilm"], head=objective.requires)), torch.Generator()
    whole = objective.corrupt(batch("bidirectional_lm", rows=6), draw)
    alike(objective, model, [whole], [rows_of(whole, one) for one in PIECES])


@pytest.mark.case("V048")
def test_images_are_labelled_alike_in_pieces_and_in_one() -> None:
    spec = ALL["vit"]
    model, draw = shaken(build(spec, head="image_classification")), torch.Generator().manual_seed(0)
    pixels = torch.randn(6, spec.architecture.source.channels, IMAGE, IMAGE, generator=draw, dtype=torch.float64)
    labels = torch.tensor([0, 1, IGNORED, 1, 0, 0])
    objective = Labels("image_classification")
    whole = objective.corrupt({"pixel_values": pixels, "labels": labels}, draw)
    alike(objective, model, [whole], [rows_of(whole, one) for one in PIECES])


@pytest.mark.case("V048")
def test_every_target_of_a_step_of_several_tasks_counts_alike() -> None:
    """A mixture's step is the sum of its tasks' losses over all their targets, each task whole or in pieces."""
    spans = objective_for(asked("t5", "span_corruption"), SYMBOLS)
    mixture = Mixture({"text": Rewriting(), "spans": spans}, {"text": 1.0, "spans": 1.0})
    model = shaken(build(asked("t5", "text_to_text"), head="seq2seq_lm"))
    tasks = []
    for number, kind in enumerate(("text_to_text", "span_corruption")):
        made = {**batch(kind, rows=6), TASK: torch.tensor(number)}
        tasks.append(mixture.corrupt(made, torch.Generator().manual_seed(number)))
    pieces = [
        dataclasses.replace(rows_of(dataclasses.replace(task, beside={}), one), beside=task.beside)
        for one in PIECES for task in tasks
    ]  # fmt: skip
    assert tasks[0].count != tasks[1].count
    alike(mixture, model, tasks, pieces)


@pytest.mark.parametrize("name", ["e5", "electra"])
def test_pieces_are_told_of_each_other_in_the_precision_of_the_step(name: str) -> None:
    """In bfloat16 a step in pieces is the step in one as near as bfloat16 goes, whatever the pieces need to know."""
    kind = {"e5": "contrastive", "electra": "replaced_token"}[name]
    norms = {}
    for cut in ((6,), (1, 3, 2)):
        spec = still(asked(name, kind))
        objective = objective_for(spec, SYMBOLS)
        model = shaken(build(spec, head=objective.requires)).float()
        whole = batch(kind, rows=6)
        begins = [sum(cut[:i]) for i in range(len(cut))]
        pieces = [
            {key: value[at : at + size] for key, value in whole.items()} for at, size in zip(begins, cut, strict=True)
        ]
        settings = Optimisation(steps=2, rate=1e-3, warmup=0)
        step = Trainer(model, objective, lambda _, p=pieces: p, settings, seed=0, compute=BFLOAT).advance()
        norms[cut] = (step.loss, step.norm)
    one, many = norms.values()
    if kind == "contrastive":  # nothing is drawn, so that both ask the same
        assert many == pytest.approx(one, rel=0.02)
    assert all(math.isfinite(value) for value in many)


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
