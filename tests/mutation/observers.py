"""Who notices that a spec is wrong: the observers that fields declare, each as a question about one mutant.

They are asked in a fixed order, and a mutant is caught by the declared observer *or any before it*: a directory that
no longer loads shows more than scores that differ. What an observer compares is the model with the spec as published
against the same weights under the mutated one, in float64, by at least ten times the gate of `tests/gates.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from tests import gates
from tests.mutation.neighbours import Mutant
from tests.parity import oracle, ours
from tests.parity.probes import KINDS, Batch, Material, Probe, sensed
from variorum.builder import assign, build, empty
from variorum.checkpoint.load import Origin, read_weights
from variorum.errors import UsageError, VariorumError
from variorum.face import Model
from variorum.spec import rules
from variorum.spec.dialect import Dialect
from variorum.spec.model import Model as Spec
from variorum.training.recipes import settle

#: From the strongest to the weakest. A field is caught by the observer that it declares or by one before it.
ORDER = ("load", "forward", "gradient", "cache", "loss", "tokenizer", "training")
SEEN = gates.MUTATION_FACTOR * gates.SCORES
#: How far the quiet weights are turned down: sums of squares come near the smallest epsilon of any norm (1e-12).
QUIET = 1e-4
TABLES = ("table.weight", "input.positions.weight", "input.segments.weight")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A published directory with the spec that it means, and the texts on which a mutant is looked at."""

    name: str
    directory: Path
    spec: Spec
    dialect: Dialect
    heads: tuple[str, ...]
    material: Material
    probes: tuple[Probe, ...]

    def built(self, spec: Spec) -> Model:
        """The directory's weights under ``spec``, in float64.

        Raises:
            VariorumError: they do not fit.
        """
        model = empty(spec, self.heads, kind=Model)
        origin = Origin(self.directory, self.dialect, {}, "", False)
        values = read_weights(spec, self.heads, origin)
        assign(model, {name: value.double() for name, value in values.items()})
        model.backend = "eager"
        return model.eval()

    @functools.cached_property
    def model(self) -> Model:
        """The model as published."""
        return self.built(self.spec)

    def once(self, what: str, make: Callable[[Model], Tensor]) -> Tensor:
        """What the model as published gives; computed when it is first asked for."""
        if what not in self._answers:
            self._answers[what] = make(self.model)
        return self._answers[what]

    @functools.cached_property
    def _answers(self) -> dict[str, Tensor]:
        return {}


class Trial:
    """One mutant of one subject before its observers."""

    def __init__(self, subject: Subject, mutant: Mutant) -> None:
        self.subject, self.mutant = subject, mutant
        self.same_architecture = mutant.spec.architecture == subject.spec.architecture
        self._model: Model | None = None

    def seen_by(self) -> str | None:
        """The first observer that notices, of the declared one and those before it."""
        for observer in ORDER[: ORDER.index(self.mutant.declared) + 1]:
            if getattr(self, observer)():
                return observer
        return None

    @property
    def model(self) -> Model:
        """The same weights under the mutated spec."""
        if self._model is None:
            self._model = self.subject.built(self.mutant.spec)
        return self._model

    def load(self) -> bool:
        """The directory does not load under the mutated spec."""
        try:
            return not self.same_architecture and self.model is None
        except VariorumError:
            return True

    def forward(self) -> bool:
        """Scores differ: on texts longer than windows and buckets, padded, or with weights so quiet that eps shows."""
        if self.same_architecture:
            return False
        single = [probe for probe in self.subject.probes if probe.carry is None]
        return any(self._differs(probe.kind, _scores(probe)) for probe in single) or self._quietly(single[0])

    def _quietly(self, probe: Probe) -> bool:
        return self._differs("quiet", lambda model: _whispered(model, _scores(probe)))

    def gradient(self) -> bool:
        """Gradients differ, or belong to other parameters."""
        if self.same_architecture:
            return False
        probe = self.subject.probes[0]
        mine, right = (ours.run(one, probe).gradients for one in (self.model, self.subject.model))
        return mine.keys() != right.keys() or oracle.gradient_gap(mine, right) >= (
            gates.MUTATION_FACTOR * gates.GRADIENTS
        )

    def cache(self) -> bool:
        """A text in pieces, over a cache or a memory, is scored otherwise."""
        carried = [probe for probe in self.subject.probes if probe.carry is not None]
        return not self.same_architecture and any(self._differs(probe.kind, _scores(probe)) for probe in carried)

    def loss(self) -> bool:
        """The loss differs, or is no longer the same question, so that `rules.comparable` refuses to compare it."""
        if self.same_architecture:
            return self.mutant.spec.objective != self.subject.spec.objective and self._refused()
        return self._differs("loss", functools.partial(_loss, self.subject.material))

    def tokenizer(self) -> bool:
        """Losses are per other tokens, so that `rules.comparable` refuses to compare them."""
        return self.mutant.spec.tokenizer != self.subject.spec.tokenizer and self._refused()

    def _refused(self) -> bool:
        try:
            rules.comparable(self.subject.spec, self.mutant.spec, "loss")
        except UsageError:
            return True
        return False

    def training(self) -> bool:
        """Dropout acts otherwise under one seed, fresh weights are drawn otherwise, or a run is told otherwise."""
        if self.same_architecture:
            mine, right = (settle(spec) for spec in (self.mutant.spec, self.subject.spec))
            return (mine, mine.why) != (right, right.why)
        probe = self.subject.probes[0]
        return self._differs("training", lambda model: _noisy(model, _scores(probe))) or self._drawn_otherwise()

    def _drawn_otherwise(self) -> bool:
        specs = self.mutant.spec, self.subject.spec
        mine, right = (dict(build(one, head=self.subject.heads).named_tensors()) for one in specs)
        return any(not torch.equal(mine[name], value) for name, value in right.items())

    def _differs(self, what: str, answer: Callable[[Model], Tensor]) -> bool:
        right = self.subject.once(what, answer)
        try:
            mine = answer(self.model)
        except UsageError:  # a text that the published model reads is refused
            return True
        if mine.shape != right.shape:
            return True
        # Unlike a score, a single number has no spread: its size is the unit.
        unit = oracle.spread(right) if right.numel() > 1 else float(right.abs())
        return not float((mine - right).abs().max()) <= SEEN * unit


def _scores(probe: Probe) -> Callable[[Model], Tensor]:
    return lambda model: ours.run(model, probe, gradients=False).logits


def _whispered(model: Model, answer: Callable[[Model], Tensor]) -> Tensor:
    """The answer with tables, norm weights and biases turned down, so that every norm gets little."""
    quiet = [p for name, p in model.named_tensors() if p.dim() == 1 or name.endswith(TABLES)]
    loud = [parameter.detach().clone() for parameter in quiet]
    with torch.no_grad():
        try:
            for parameter in quiet:
                parameter.mul_(QUIET)
            return answer(model)
        finally:
            for parameter, value in zip(quiet, loud, strict=True):
                parameter.copy_(value)


def _noisy(model: Model, answer: Callable[[Model], Tensor]) -> Tensor:
    """The answer in training mode under one seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model.train()
        try:
            return answer(model)
        finally:
            model.eval()


@torch.no_grad()
def _loss(material: Material, model: Model) -> Tensor:
    """The loss on a text with a gap in its labels; a decoder makes its own inputs from them."""
    if model.head_names[:1] in (("sequence_classification",), ("image_classification",)):
        return _judged(material, model)
    if model.head_names[:1] not in (("causal_lm",), ("seq2seq_lm",)):
        return torch.zeros(1, dtype=torch.float64)
    ids = torch.stack(material.sequences((19, 19), "loss"))
    labels = ids.clone()
    labels[:, 5:8] = -100
    read = sensed(material, list(ids)).inputs() if material.pixels or material.mels else {"input_ids": ids}
    loss = model(**ours.cast(model, read), labels=labels).loss
    assert loss is not None
    return loss[None]


def _judged(material: Material, model: Model) -> Tensor:
    """The losses of labels that are classes, and of labels that are numbers; -1 where they are refused."""
    batch = KINDS["full"](material).batches[0]
    given = {name: value.double() if value.is_floating_point() else value for name, value in batch.inputs().items()}
    count = model.spec.architecture.heads[model.head_names[0]].labels  # type: ignore[union-attr]
    classes, numbers = torch.zeros(2, dtype=torch.long), torch.full((2, count), 0.3, dtype=torch.float64)
    losses = []
    for labels in (classes, numbers):
        try:
            loss = model(**given, labels=labels).loss
            assert loss is not None
            losses.append(loss)
        except UsageError:
            losses.append(torch.tensor(-1.0, dtype=torch.float64))
    return torch.stack(losses)


def holed(material: Material) -> Probe:
    """A text in which the padding id stands between words, and no mask: its positions depend on what is counted."""
    ids = torch.stack(material.sequences((23, 23), "holed"))
    ids[:, 4] = material.pad
    real = torch.ones_like(ids, dtype=torch.bool)
    batch = Batch(input_ids=ids, rows=real, pooled=material.pooled, choices=material.choices)
    if material.mels:
        batch = sensed(material, list(ids))
    if material.start is not None:
        written = ids.roll(1, 1)[:, : ids.shape[1] if material.echo else 11]
        batch = dataclasses.replace(batch, decoder_input_ids=written, rows=real[:, : written.shape[1]])
    return Probe(kind="holed", batches=(batch,))


def looks(material: Material, probes: list[Probe]) -> Iterator[Probe]:
    """The probes in the order in which they show most: padded, whole, special, in pieces."""
    kinds = ("right", "full", "left", "unsegmented", "two_stream", "cached", "cached_padded", "memory")
    by_kind = {probe.kind: probe for probe in probes}
    yield from (by_kind[kind] for kind in kinds if kind in by_kind)
    if not material.pixels:
        yield holed(material)


__all__ = ["ORDER", "Subject", "Trial", "looks"]
