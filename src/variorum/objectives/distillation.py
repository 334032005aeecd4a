"""Distillation: a student imitates a teacher's words and states while it learns the true words (Sanh et al. 2019)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError
from variorum.objectives.base import Corrupted, LossSum, Objective, Term, core, joined
from variorum.objectives.streams import unpadded

if TYPE_CHECKING:
    import torch

    from variorum.model import Model
    from variorum.objectives.base import Batch
    from variorum.spec import recipe

SOFT, HIDDEN = "soft", "hidden"


class Distillation(Objective):
    """``hard``, the objective of the true words, beside a teacher who reads the same.

    Raises:
        UsageError: a teacher of another vocabulary, or another width where states are compared.
    """

    name = "distillation"
    terms = (SOFT, HIDDEN)

    def __init__(self, hard: Objective, teacher: Model, settings: recipe.Teacher) -> None:
        self.hard, self.settings, self.requires = hard, settings, hard.requires
        self.teacher = teacher.requires_grad_(False).eval()

    def networks(self, model: torch.nn.Module) -> Mapping[str, torch.nn.Module]:
        """The teacher, which learns nothing."""
        student, teacher = core(model).spec.architecture, self.teacher.spec.architecture
        if student.vocab != teacher.vocab:
            raise UsageError(
                f"a student of {student.vocab:,} words and a teacher of {teacher.vocab:,}",
                remedy="give both one tokenizer",
            )
        if self.settings.hidden and student.width != teacher.width:
            raise UsageError(
                f"a student of width {student.width} and a teacher of width {teacher.width} have states that cannot be"
                " compared", remedy="set objective.teacher.hidden to 0",
            )  # fmt: skip
        return {"teacher": self.teacher}

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """As the hard objective does; student and teacher are compared at every real token of what is written."""
        import torch

        made = self.hard.corrupt(batch, rng)
        writes = self.requires[0] == "seq2seq_lm"
        read = made.inputs.get("input_ids", made.targets)
        real = made.inputs.get("attention_mask", torch.ones_like(read))
        real = (made.targets >= 0).long() if writes else real
        count = int(real.sum())
        return dataclasses.replace(made, beside={"real": real}, counts={SOFT: count, HIDDEN: count})

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """hard · cross-entropy + soft · T²·KL(teacher ‖ student) + hidden · (1 - cosine of the last states)."""
        import torch
        import torch.nn.functional as F

        self.networks(model)
        self.teacher.eval()
        inputs, targets, real = self._inputs(model, example)
        with torch.no_grad():
            told = self.teacher(**inputs, logits_to_keep=real)
        made = model(**inputs, logits_to_keep=real)
        terms = [Term(SOFT, softened(made.logits, told.logits, self.settings.temperature), self.settings.soft)]
        if self.settings.hidden:
            alike = F.cosine_similarity(made.last_hidden_state[real], told.last_hidden_state[real], dim=-1)
            terms.append(Term(HIDDEN, (1 - alike).sum(), self.settings.hidden))
        wanted = targets[real]
        hard = F.cross_entropy(made.logits[wanted >= 0], wanted[wanted >= 0], reduction="sum")
        return joined(example, self.settings.hard * hard, *terms)

    def _inputs(self, model: torch.nn.Module, example: Corrupted) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
        """What both read, the true words, and where the two are compared (bool)."""
        targets, real = example.targets, example.beside["real"]
        if self.requires[0] == "seq2seq_lm":
            from variorum.attention.reading import shifted

            written = shifted(core(model).spec.architecture.main.tokens, targets, None)
            return {**example.inputs, "decoder_input_ids": written}, targets, real.bool()
        together = getattr(core(model), "packs", False) and self.teacher.packs
        if together:
            inputs, (targets, real) = unpadded(model, example.inputs, targets, real)
            return inputs, targets, real.bool()
        return dict(example.inputs), targets, real.bool()


def softened(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """T²·KL(teacher ‖ student) of scores [N, V] at temperature T, summed over N rows (Hinton et al. 2015)."""
    import torch.nn.functional as F

    mine, told = ((scores / temperature).log_softmax(-1) for scores in (student, teacher))
    return temperature**2 * F.kl_div(mine, told, reduction="sum", log_target=True)


def teacher_layers(teacher: int, student: int) -> list[int]:
    """Which of the teacher's layers a student starts from: spread evenly, the first and the last among them.

    12 for 6 are 0, 2, 4, 7, 9, 11, as in DistilBERT's released code.
    """
    if student == 1:
        return [0]
    return [round(layer * (teacher - 1) / (student - 1)) for layer in range(student)]


def start_from(student: Model, teacher: Model) -> list[str]:
    """Copy into a student what it has of its teacher: every tensor of the same name and shape, some of the layers.

    Returns:
        the student's tensors that keep their own values.
    """
    import torch

    depths = [model.spec.architecture.main.depth for model in (teacher, student)]
    layers, own = teacher_layers(*depths), []
    known = dict(teacher.named_tensors())
    with torch.no_grad():
        for name, parameter in student.named_tensors():
            words = name.split(".")
            if "layers" in words:
                at = words.index("layers") + 1
                words[at] = str(layers[int(words[at])])
            source = known.get(".".join(words))
            if source is not None and source.shape == parameter.shape:
                parameter.copy_(source)
            else:
                own.append(name)
    return own
