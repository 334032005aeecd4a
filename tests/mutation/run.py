"""Every tiny model's spec mutated and judged: what is tried, what noticed, what nobody did."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.mutation import dormant
from tests.mutation.neighbours import Mutant, declared, mutants
from tests.mutation.observers import ORDER, Subject, Trial, looks
from tests.mutation.unpublished import beside
from tests.parity.case import Case, Tiny, materialise
from variorum.checkpoint import files
from variorum.checkpoint.config import read_config
from variorum.spec.part import Part


@dataclasses.dataclass
class Tally:
    """What came of the mutants of one model.

    seen: observer -> caught. asleep: reason -> dormant, as declared. survivors: said in words. fields: declared field
    -> its mutants that were caught.
    """

    name: str
    seen: Counter[str] = dataclasses.field(default_factory=Counter)
    asleep: Counter[str] = dataclasses.field(default_factory=Counter)
    survivors: list[str] = dataclasses.field(default_factory=list)
    fields: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """Mutants that somebody should have seen."""
        return self.seen.total() + len(self.survivors)

    def add(self, subject: Subject, mutant: Mutant) -> None:
        """Judge one mutant."""
        asleep = dormant.reason(subject.spec, subject.heads, mutant.owner, mutant.field, mutant.path)
        observer = Trial(subject, mutant).seen_by()
        # A directory that is refused for more than it holds is refused rightly.
        if observer is not None and (asleep is None or observer == "load"):
            self.seen[observer] += 1
            self.fields[f"{mutant.owner.__name__}.{mutant.field}"] += 1
        elif observer is None and asleep is not None:
            self.asleep[asleep] += 1
        else:
            seen = f"is seen by {observer}, though {asleep}" if asleep else f"is not seen by {mutant.declared}"
            self.survivors.append(f"{subject.name}: {mutant} {seen}")

    def merge(self, other: Tally) -> None:
        """Add the figures of another model."""
        self.seen += other.seen
        self.asleep += other.asleep
        self.survivors += other.survivors
        self.fields += other.fields


def subject(case: Case, directory: Path) -> Subject:
    """The tiny model of a case, made and saved, with its spec read back from its own configuration."""
    published = materialise(case, directory / case.name.replace("/", "-"))
    spec, dialect = read_config(files.read_json(published / "config.json"))
    return Subject(
        name=case.name,
        directory=published,
        spec=spec,
        dialect=dialect,
        heads=tuple(case.head.split("+")) if case.head else (),
        material=case.material,
        probes=tuple(looks(case.material, case.probes())),
    )


def judge(tiny: Tiny, directory: Path, share: int = 1) -> Tally:
    """All mutants of one tiny model, or every ``share``-th: the whole spec under its first head, then other heads."""
    tally = Tally(tiny.name)
    for index, case in enumerate(tiny.cases()):
        one = subject(case, directory)
        for number, mutant in enumerate(chosen(one, whole=index == 0)):
            if number % share == 0:
                tally.add(one, mutant)
        for other, paths in beside(case, one, directory):
            for mutant in mutants(other.spec, other.heads, paths):
                tally.add(other, mutant)
    return tally


def chosen(one: Subject, *, whole: bool) -> Iterator[Mutant]:
    """Every mutant, or those of the heads in use and of what only they read."""
    parts = tuple(f"architecture.heads.{name}" for name in one.heads)
    return mutants(one.spec, one.heads, ("",) if whole else (*parts, "architecture.pooler"))


def kinds_of_part() -> list[type[Part]]:
    """Every kind of part that a spec can hold. A resolved layer repeats the fields of its block."""
    found: list[type[Part]] = []

    def below(kind: type[Part]) -> None:
        for one in kind.__subclasses__():
            if one not in found:
                found.append(one)
                below(one)

    below(Part)
    return [kind for kind in found if kind.__module__.startswith("variorum.spec.") and kind.__name__ != "Layer"]


def fields() -> dict[str, tuple[str, str]]:
    """``Part.field`` -> its declared observer, and why there is none."""
    import variorum.spec.model  # noqa: F401 (the parts that exist are those that it imports)

    return {
        f"{kind.__name__}.{field.name}": (declared(kind, field.name), field.metadata["because"])
        for kind in kinds_of_part()
        for field in dataclasses.fields(kind)
    }


#: Fields that always hold a part without a rival: to flip them is to flip what is in them.
CONTAINERS = {
    "Architecture.encoder", "Architecture.init", "Architecture.recurrent", "Block.cross", "Block.layout",
    "Model.architecture", "Model.objective", "Model.recipe", "Model.tokenizer", "Recurrent.input", "Stack.block",
    "Stack.input",
}  # fmt: skip


def unwatched(caught: Counter[str]) -> list[str]:
    """Fields with an observer that has caught nothing, in any model."""
    named = {name for name, (observer, _) in fields().items() if observer != "none"}
    return sorted(named - CONTAINERS - caught.keys())


__all__ = ["CONTAINERS", "ORDER", "Tally", "fields", "judge", "subject", "unwatched"]
