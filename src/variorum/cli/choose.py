"""``variorum choose``: where to begin, from the rules of the field."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from variorum.cli.output import emit
from variorum.cli.reading import Option
from variorum.family.choice import Constraint, Need, choose


def command(*, need: Need, constraint: Annotated[tuple[Constraint, ...], Option(many=True)] = ()) -> None:
    """Which model for which need: what the rules of the field say, why, at what price, and until where.

    Args:
        need: What has to be done.
        constraint: What is scarce, or what is wrong with the usual answer; the first weighs most.
    """
    found = choose(need, constraint)
    first = found[0]
    human = [f"{first.model}: {first.because}", f"  price      {first.price}",
             f"  until      {first.until}", f"  runner-up  {first.instead}"]  # fmt: skip
    human += [f"also {rule.model} ({rule.constraint or rule.id}): {rule.because}" for rule in found[1:]]
    emit([dataclasses.asdict(rule) for rule in found], human="\n".join(human))
