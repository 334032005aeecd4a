"""A student imitates a teacher who does the same task: his scores, his last states, and how his tokens stand to each
other (Hinton et al. 2015; Sanh et al. 2019; Wang et al. 2020), beside the task's own loss.

Words are distilled by :mod:`.distillation`; here are heads over labels, of whole texts or of tokens, those that say
where a stretch begins and ends, and the vectors of texts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from variorum.errors import UsageError
from variorum.objectives.base import Corrupted, LossSum, Objective, Term, core, joined
from variorum.objectives.contrastive import SIDES, Contrastive
from variorum.objectives.distillation import softened

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from variorum.model import Model
    from variorum.objectives.base import Batch

SOFT, HIDDEN, RELATIONS = "soft", "hidden", "relations"
ASKED = (("query", "key"), ("value", "value"))
"""Which projections of the last layer are related: attention as MiniLM's first version has it, and values."""
COMPARED = ("sequence_classification", "token_classification", "question_answering")
"""Heads whose scores are compared: of each text, of each token, and over the tokens of each text."""
OUT = -1e4
"""The score of what is no token, of which nothing is left in any share."""
Linears = dict[str, "Tensor"]


@dataclass(frozen=True, kw_only=True)
class Imitating:
    """What a student takes from its teacher.

    Attributes:
        temperature: T, at which scores are compared.
        soft: weight of T²·KL(teacher ‖ student) of the scores; for numbers of their squared difference.
        hard: weight of the task's own loss.
        hidden: weight of 1 - cosine of the last states, a token each; both must have one width.
        relations: weight of KL between the last layers' relations of queries to keys and values to values; widths may
            differ.
        heads: among how many heads relations are split; the student's own if 0.
    """

    temperature: float = 2.0
    soft: float = 1.0
    hard: float = 1.0
    hidden: float = 0.0
    relations: float = 0.0
    heads: int = 0

    def __post_init__(self) -> None:
        weights = self.soft, self.hard, self.hidden, self.relations
        if self.temperature <= 0 or min(weights) < 0 or not any(weights):
            raise UsageError(f"{self} teaches nothing", remedy="a temperature and one weight above 0, none below")


class Imitation(Objective):
    """``hard``, the task's own objective, beside a teacher who reads the same batch.

    Raises:
        UsageError: student and teacher do not answer alike, or have states that cannot be compared.
    """

    name = "imitation"
    terms: tuple[str, ...] = (SOFT, HIDDEN, RELATIONS)
    compared: ClassVar[tuple[str, ...]] = COMPARED

    def __init__(self, hard: Objective, teacher: Model, settings: Imitating) -> None:
        if hard.requires[0] not in self.compared:
            raise UsageError(f"{hard.requires[0]} is not imitated", remedy=f"these heads are: {', '.join(COMPARED)}")
        self.hard, self.settings, self.requires = hard, settings, hard.requires
        self.teacher = teacher.requires_grad_(False).eval()

    def networks(self, model: torch.nn.Module) -> Mapping[str, torch.nn.Module]:
        """None but the student: the teacher changes in nothing, and lies where it was loaded from."""
        student, teacher = core(model), self.teacher
        if (
            student.label_names != teacher.label_names
            or student.spec.architecture.vocab != teacher.spec.architecture.vocab
        ):
            raise UsageError(
                "the student reads other ids or gives other labels than its teacher",
                remedy="let the teacher predict, and train the student on what it says",
            )
        widths = student.spec.architecture.width, teacher.spec.architecture.width
        if self.settings.hidden and widths[0] != widths[1]:
            raise UsageError(
                f"states of width {widths[0]} and {widths[1]} cannot be compared",
                remedy="take relations in their place",
            )
        return {}

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """As the task's own; every text and every real token is compared."""
        made = self.hard.corrupt(batch, rng)
        ids, mask = made.inputs["input_ids"], made.inputs.get("attention_mask")
        tokens = int(ids.numel() if mask is None else mask.sum())
        of_tokens = self.requires[0] == "token_classification"
        return dataclasses.replace(
            made, counts={SOFT: tokens if of_tokens else len(ids), HIDDEN: tokens, RELATIONS: len(ids)}
        )

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """hard · own loss + soft · T²·KL + hidden · (1 - cosine) + relations · KL, each a mean of what it compares."""
        import torch
        import torch.nn.functional as F

        told, related = self.settings, bool(self.settings.relations)
        heard = _Heard(model)
        with _projections(core(model), related) as mine, _projections(self.teacher, related) as his:
            own = self.hard.loss(cast("torch.nn.Module", heard), example)
            with torch.no_grad():
                taught = self.teacher(**heard.inputs)
        real = _real(heard.inputs)
        terms = []
        if told.soft:
            terms.append(Term(SOFT, self._soft(heard, taught.logits, real), told.soft))
        if told.hidden:
            alike = F.cosine_similarity(heard.out.last_hidden_state[real], taught.last_hidden_state[real], dim=-1)
            terms.append(Term(HIDDEN, (1 - alike).sum(), told.hidden))
        if related:
            heads = told.heads or core(model).spec.architecture.main.block.attention.heads
            terms.append(Term(RELATIONS, _relations(mine, his, heard.inputs, real, heads), told.relations))
        return joined(example, told.hard * own.total, *terms)

    def _soft(self, heard: _Heard, teacher: Tensor, real: Tensor) -> Tensor:
        import torch

        from variorum.objectives.positions import by_text

        student = heard.out.logits
        if self.requires[0] == "token_classification":
            student, teacher = student[real], teacher[real]
        if self.requires[0] == "question_answering":  # beginnings and ends are each chosen among a text's tokens
            student, teacher = (by_text(x, heard.inputs).mT.flatten(0, 1).clamp(min=OUT) for x in (student, teacher))
        problem = getattr(heard.module.spec.architecture.heads[self.requires[0]], "problem", "single_label")
        if problem == "regression":
            return (student - teacher).square().sum()
        if problem == "multi_label":  # each label is a choice between it and nothing
            student, teacher = (torch.stack((x, torch.zeros_like(x)), -1).flatten(0, 1) for x in (student, teacher))
        return softened(student, teacher, self.settings.temperature)


class VectorImitation(Imitation):
    """Texts find each other as they do for the teacher, and with ``hidden`` have its vectors.

    Raises:
        UsageError: as :class:`Imitation`, and where relations are asked for.
    """

    name = "vector_imitation"
    terms = (SOFT, HIDDEN)
    compared = ("embedding",)
    hard: Contrastive

    def __init__(self, hard: Contrastive, teacher: Model, settings: Imitating) -> None:
        super().__init__(hard, teacher, settings)
        if settings.relations:
            raise UsageError("relations are not imitated in vectors of texts", remedy="set relations to 0")

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """As the task's own; every text is compared."""
        made = self.hard.corrupt(batch, rng)
        first, second = (len(made.beside[side]) for side in SIDES)
        return dataclasses.replace(made, counts={SOFT: first, HIDDEN: first + second})

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """hard · own loss + soft · distance of what texts find + hidden · (1 - cosine), each a mean."""
        import torch
        import torch.nn.functional as F

        told, mine = self.settings, self.hard.vectors(model, example)
        with torch.no_grad():
            his = self.hard.vectors(self.teacher, example)
        terms = []
        if told.soft:
            terms.append(Term(SOFT, self.hard.apart(mine, his, told.temperature), told.soft))
        if told.hidden:
            alike = [F.cosine_similarity(*side, dim=-1) for side in zip(mine, his, strict=True)]
            terms.append(Term(HIDDEN, (1 - torch.cat(alike)).sum(), told.hidden))
        return joined(example, told.hard * self.hard.judged(mine, example), *terms)


def imitation(hard: Objective, teacher: Model, settings: Imitating) -> Imitation:
    """A task's own objective beside a teacher who does the same task.

    Raises:
        UsageError: nothing of this task is imitated.
    """
    return VectorImitation(hard, teacher, settings) if isinstance(hard, Contrastive) else Imitation(
        hard, teacher, settings
    )  # fmt: skip


class _Heard:
    """A model that remembers what it was last asked and what it said."""

    inputs: dict[str, Any]
    out: Any

    def __init__(self, model: torch.nn.Module) -> None:
        self.module, self.run = core(model), model

    def __call__(self, **inputs: Any) -> Any:
        self.inputs, self.out = inputs, self.run(**inputs)
        return self.out


def _real(inputs: Mapping[str, Any]) -> Tensor:
    """Which tokens are real, bool [B, T]."""
    import torch

    mask = None if inputs.get("lengths") is not None else inputs.get("attention_mask")
    return torch.ones_like(inputs["input_ids"], dtype=torch.bool) if mask is None else mask.bool()


@contextmanager
def _projections(model: Model, wanted: bool) -> Iterator[Linears]:
    """What query, key and value of the last layer make of the text, [B, T, heads · d], while the block lasts."""
    found: Linears = {}
    handles = []
    if wanted:
        stack = getattr(model, "encoder", None) or model.decoder
        attention = stack.layers[-1].attention
        for name in ("query", "key", "value"):
            if not hasattr(attention, name):
                raise UsageError(f"{model.spec.name} has no {name} of its own to relate", remedy="set relations to 0")

            def keep(module: Any, given: Any, out: Tensor, name: str = name) -> None:
                found[name] = out

            handles.append(getattr(attention, name).register_forward_hook(keep))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _relations(student: Linears, teacher: Linears, inputs: Mapping[str, Any], real: Tensor, heads: int) -> Tensor:
    """KL between the relations of both, the mean over heads and tokens of each text, summed over texts and pairs."""
    import torch

    lengths = inputs.get("lengths")
    sides = []
    for side in (student, teacher):
        rows, here = _by_text(side, lengths, real)
        sides.append([relation(rows[one], rows[other], here, heads) for one, other in ASKED])
    total = student["query"].new_zeros(())
    for mine, his in zip(*sides, strict=True):
        apart = torch.where(his > 0, his * (his.clamp(min=1e-30).log() - mine.clamp(min=1e-30).log()), 0.0)
        total = total + (apart.sum((1, 2, 3)) / (heads * here.sum(-1))).sum()
    return total


def _by_text(side: Linears, lengths: Any, real: Tensor) -> tuple[Linears, Tensor]:
    """Projections as padded rows [B, T, heads · d], and which of their tokens are real."""
    if lengths is None:
        return side, real
    from variorum.attention.packed import apart

    rows = {name: apart(x, lengths) for name, x in side.items()}
    return {name: x for name, (x, _) in rows.items()}, next(iter(rows.values()))[1] >= 0


def relation(one: Tensor, other: Tensor, real: Tensor, heads: int) -> Tensor:
    """softmax(one · otherᵀ / √d) of each head, [B, heads, T, T]; 0 at and from tokens that are not real.

    Args:
        one, other: [B, T, heads · d]. real: bool [B, T].

    Raises:
        UsageError: a width that ``heads`` do not divide, or two that differ.
    """
    if one.shape != other.shape or one.shape[-1] % heads:
        raise UsageError(
            f"projections {one.shape[-1]} and {other.shape[-1]} wide have no relation in {heads} heads",
            remedy="name a number of heads that divides both models' widths, or set relations to 0",
        )
    a, b = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (one, other))
    scores = a @ b.transpose(-1, -2) / math.sqrt(a.shape[-1])
    weights = scores.masked_fill(~real[:, None, None], -math.inf).softmax(-1)
    return weights * real[:, None, :, None]
