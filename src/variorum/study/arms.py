"""Arms from anything that names a model: specs one by one, the way from one to another, a row of a diff, a grid.

An arm is a spec with a short name and what sets it apart from the arm before it. Every spec passes through ``fit``,
which gives it the study's sizes and the heads that it trains: a change that is not felt there makes no arm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from variorum.errors import NotFound, UsageError, nearest
from variorum.family.reference import architecture, changed
from variorum.spec import rules
from variorum.spec.model import Change, Model
from variorum.spec.paths import lookup
from variorum.spec.small import Scale, scaled
from variorum.study.design import Arm, readings, said

Fit = Callable[[Model], Model]
FELT = ("architecture",)
"""What a walk changes by itself: tokenizer, objective and recipe are questions of their own."""


@dataclass(frozen=True)
class Walk:
    """Arms on the way from one model to another, and what was left out of it, each with its reason."""

    arms: tuple[Arm, ...]
    left: tuple[str, ...]


def fitting(scale: Scale | None, heads: Sequence[str]) -> Fit:
    """Gives a spec the sizes of ``scale``, where there is one, and of its heads only these."""

    def fit(spec: Model) -> Model:
        kept = {name: head for name, head in spec.architecture.heads.items() if name in heads}
        spec = spec.set({"architecture.heads": kept})
        return spec if scale is None else scaled(spec, scale)

    return fit


def named(references: Sequence[str], fit: Fit, *, set: Sequence[str] = ()) -> tuple[Arm, ...]:
    """One arm for each reference: a spec's name or a spec file, with ``+path=value`` behind it for changes of its own.

    ``relu: bert+encoder.block.feedforward.activation=relu`` is BERT with another activation, under a name of its own.

    Raises:
        NotFound: no such model. UsageError: a change that makes no sense.
    """
    found: list[Arm] = []
    for reference in references:
        called, colon, meant = reference.rpartition(": ")
        name, *own = meant.split("+")
        spec = architecture(name, set=set)
        title = called if colon else " + ".join((spec.name, *own))
        found.append(_arm(called or meant, title, changed(fit(spec), own), found, note=spec.cite))
    return tuple(found)


def walk(start: str, end: str, fit: Fit, *, felt: Sequence[str] = FELT) -> Walk:
    """From one model to another along the family tree, one change at a time: up to their common ancestor, then down.

    A change that is illegal without the next one is made together with it. Changes outside of ``felt`` are left out.

    Raises:
        UsageError: nothing that is felt sets the two apart.
    """
    first, last = architecture(start), architecture(end)
    spec, waiting, left = first, list[Change](), list[str]()
    arms = [_arm(first.name, first.name, fit(first), (), note=first.cite)]
    for change, owner in _way(first, last):
        if not change.path.startswith(tuple(felt)):
            left.append(f"{change.path} ({owner.name}): {change.why}")
            continue
        waiting.append(change)
        try:
            after = spec.set({path: value for one in waiting for path, value in one.items()})
            fitted = fit(after)
        except NotFound:
            continue  # a place that the next change makes
        if not rules.check(fitted):
            before = arms[-1].spec
            if before is not None and before.diff(fitted):
                arms.append(_step(fitted, waiting, owner, arms))
            spec, waiting = after, []
    left += [f"{one.path}: not legal where it would stand" for one in waiting]
    if len(arms) == 1:
        raise UsageError(
            f"no change of {' or '.join(felt)} that is felt leads from {start} to {end}", where="--walk",
            remedy=f"see variorum diff {start} {end}",
        )  # fmt: skip
    return Walk(tuple(arms), tuple(left))


def _step(spec: Model, changes: Sequence[Change], owner: Model, arms: Sequence[Arm]) -> Arm:
    why = "; ".join(change.why for change in changes)
    title = ", ".join(map(_titled, changes))
    return _arm(changes[0].path.rpartition(".")[2], title, spec, arms, note=f"{owner.cite}: {why}")


def _titled(change: Change) -> str:
    """A change in a few words; its sizes are in the apparatus."""
    what, value = change.path.rpartition(".")[2].replace("_", " "), change.value
    if value is None:
        return f"no {what}"
    kind = "" if isinstance(value, str | int | float) else type(value).__name__
    return f"+ {kind or f'{what} {said(value, change.path)}'}"


def _arm(name: str, title: str, spec: Model, before: Sequence[Arm], *, note: str) -> Arm:
    """An arm whose apparatus is read against the one before it."""
    taken, last = {arm.name for arm in before}, before[-1].spec if before else None
    name = "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())[:60]
    names = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    made = dataclasses.replace(spec, name=title)
    return Arm(name=next(one for one in names if one not in taken), title=title, spec=made, note=note,
               apparatus=readings(last.diff(made)) if last else ())  # fmt: skip


def _way(first: Model, last: Model) -> Iterator[tuple[Change, Model]]:
    """Every change between the two in its order, with the model it belongs to; on the way up, undone."""
    known = {id(model.changes) for model in last.lineage if model.changes}
    for model in reversed(first.lineage):
        if model.ancestor is None or id(model.changes) in known:
            break
        for change in reversed(model.changes):
            before = _before(model.ancestor, change)
            if change.path not in before:
                continue  # it named a place that the ancestor does not have
            also = {path: value for path, value in before.items() if path != change.path}
            why = f"without {model.name}'s: {change.why}"
            yield dataclasses.replace(change, value=before[change.path], also=also, why=why), model.ancestor
    known = {id(model.changes) for model in first.lineage if model.changes}
    for model in last.lineage:
        if id(model.changes) not in known:
            yield from ((change, model) for change in model.changes)


def _before(ancestor: Model, change: Change) -> dict[str, object]:
    found = {}
    for path, _ in change.items():
        with contextlib.suppress(NotFound):
            found[path] = lookup(ancestor, path)
    return found


def ablate(a: str, b: str, row: str, fit: Fit) -> tuple[Arm, ...]:
    """``b`` with the change at the path ``row`` put back to what it is in ``a``, and ``b``: what does it alone buy?

    Raises:
        NotFound: the two do not differ there. UsageError: the change cannot be undone alone.
    """
    first, last = architecture(a), architecture(b)
    rows = [one for one in first.diff(last) if row in (one.path, one.change) or one.path.startswith(f"{row}.")]
    if not rows:
        known = sorted({one.path for one in first.diff(last)})
        raise NotFound(f"{a} and {b} do not differ at {row!r}", where="--ablate", remedy=nearest(row, known))
    without = fit(last.set({one.path: one.before for one in rows}))
    for problem in rules.check(without):
        raise UsageError(f"{b} without {row}: {problem}", where="--ablate", remedy="ablate the change it needs as well")
    title = f"{last.name} without {row.rpartition('.')[2]}"
    undone = _arm("without", title, without, (), note=f"as in {first.name}")
    return undone, _arm("with", last.name, fit(last), (undone,), note=rows[0].why)


def grid(reference: str, choices: Mapping[str, Sequence[str]], fit: Fit, *, set: Sequence[str] = ()) -> tuple[Arm, ...]:
    """Every combination of ``choices``, path to values as ``--set`` writes them.

    Raises:
        UsageError: no choices, or a combination that the rules exclude.
    """
    if not choices or not all(choices.values()):
        raise UsageError("a grid needs a path with values", where="--grid", remedy="write path=value,value")
    base, found = fit(architecture(reference, set=set)), list[Arm]()
    for values in itertools.product(*choices.values()):
        pairs = list(zip(choices, values, strict=True))
        spec = changed(base, [f"{path}={value}" for path, value in pairs])
        title = ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in pairs)
        for problem in rules.check(spec):
            raise UsageError(f"{title}: {problem}", where="--grid")
        found.append(_arm("-".join(values), title, spec, found, note=base.name))
    return tuple(found)
