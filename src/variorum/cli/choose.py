"""``variorum choose``: where to begin, from the rules of the field; and on rows of one's own, which model to take."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from variorum.cli.bakeoff import USUAL, Contest, asked
from variorum.cli.means import MEANS, Means
from variorum.cli.output import chosen, emit, say
from variorum.cli.reading import Option
from variorum.errors import OverBudget, UsageError
from variorum.family.choice import Constraint, Need, choose

if TYPE_CHECKING:
    from variorum.study.asked import BakeOff
    from variorum.study.choosing import Candidates, Choice
    from variorum.study.session import Finding


def command(
    data: str = "", *, need: Need | None = None, constraint: Annotated[tuple[Constraint, ...], Option(many=True)] = (),
    models: Annotated[tuple[str, ...], Option(many=True)] = (), latency: str = "", memory: str = "",
    contest: Contest = USUAL, means: Means = MEANS,
) -> None:  # fmt: skip
    """Which model for which need, by the rules of the field; or for a table, by a bake-off under ceilings.

    With a table the rules say which models its rows ask for, those at hand are tried beside a simple baseline, and the
    best one below the ceilings is recommended. Exit 5 if there is none.

    Args:
        data: A table (.csv, .tsv, .jsonl, .parquet), or snippets: the shipped ones, by domain.
        need: What has to be done, where there is no table yet.
        constraint: What is scarce, or what is wrong with the usual answer; the first weighs most.
        models: What to try, each [TITLE: ][WAY:]MODEL; those that the rules name and that are at hand if absent.
        latency: The most that a single text may take, in 95 cases of 100: 20ms.
        memory: The most that a process which answers may take: 500MB.
    """
    if bool(data) == (need is not None):
        raise UsageError("a table or a need is asked for", where="choose", remedy="give DATA, or --need")
    if need is None:
        told = dataclasses.replace(asked(data, models, contest), latency=latency, memory=memory)
        _tried(told, contest.out, means)
        return
    found = choose(need, constraint)
    first = found[0]
    human = [f"{first.model}: {first.because}", f"  price      {first.price}",
             f"  until      {first.until}", f"  runner-up  {first.instead}"]  # fmt: skip
    human += [f"also {rule.model} ({rule.constraint or rule.id}): {rule.because}" for rule in found[1:]]
    emit([dataclasses.asdict(rule) for rule in found], human="\n".join(human))


def _tried(told: BakeOff, out: Path, means: Means) -> None:
    from variorum.study import choosing, session
    from variorum.study.asked import keep

    limits = told.ceilings  # refused before a row is read
    tried = choosing.candidates(told.rows(say), limits, told.models)
    for line in tried.told():
        say(line)
    told = dataclasses.replace(told, models=tried.models)
    declared = told.declare(out, limits=means.limits, say=say)
    keep(told, out)
    finding = session.run(declared)
    choice = choosing.recommend(finding.outcomes[0], limits)
    _shown(finding, tried, choice, out)
    if choice.take is None:
        raise OverBudget(" ".join(choice.sentences), where="choose", remedy="raise a ceiling, or name other --models")


def _shown(finding: Finding, tried: Candidates, choice: Choice, out: Path) -> None:
    """Print and write what was found, the recommendation first on the page and last on the terminal."""
    from variorum.study import choosing, report, words
    from variorum.study.result import as_json

    again = shlex.join(["variorum", *sys.argv[1:]])
    finding = choosing.advised(finding, choice)
    written, _ = report.write(finding, out, again)
    if chosen() == "human":
        lines = [*words.table(finding.outcomes[0]), "", *choice.sentences, "", f"report  {written}"]
        emit({}, human="\n".join(lines))
        return
    rules = [dataclasses.asdict(rule) for rule in tried.rules]
    asks = [one._asdict() for one in tried.asks]
    emit(as_json(finding, again) | {"choice": choice.as_json(), "asks": asks, "rules": rules, "left": tried.left})
