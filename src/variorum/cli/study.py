"""``variorum study``: run a study and say where its report is."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from variorum.cli.bakeoff import USUAL, Contest, asked
from variorum.cli.means import MEANS, Means
from variorum.cli.output import chosen, emit, say, table
from variorum.cli.reading import Option, Verbs
from variorum.errors import CheckFailed

if TYPE_CHECKING:
    from variorum.study.asked import Told
    from variorum.study.choosing import Ceilings
    from variorum.study.session import Declared, Finding


def quickstart(
    *, out: Path = Path("study-quickstart"), seeds: int = 3, steps: int = 60, dry_run: bool = False,
    means: Means = MEANS,
) -> int:  # fmt: skip
    """Two small studies in a few minutes: GPT-2 to LLaMA one change at a time, and encoders against TF-IDF.

    The plan, measured from a few real steps, is printed first. Finished cells are kept: the same command goes on
    where an earlier one was stopped.

    Args:
        out: folder for cells, result.json and report.html.
        seeds: seeds of every arm; a verdict needs 3.
        steps: optimiser steps of each language model; classifiers take a fixed multiple.
        dry_run: Measure and print the plan, compute nothing.
    """
    from variorum.study import quickstart as job

    settings = job.Settings(out=out, seeds=seeds, steps=steps, limits=means.limits)
    say("preparing the texts …")
    return _carried(job.declare(settings, keep=not dry_run), _again(settings.out, seeds, steps), dry_run)


def _foretold(declared: Declared) -> int:
    """Print the plan alone; what does not fit is refused then, and an arm that failed is no success."""
    from variorum.study import session
    from variorum.study.plan import as_json, render

    plan = session.plan_only(declared)
    emit(as_json(plan), human=render(plan))
    plan.check(time_limit=declared.limits.time)
    if plan.failed:
        say(f"variorum: {len(plan.failed)} arms fail in their first steps")
    return int(bool(plan.failed))


def _carried(declared: Declared, again: str, dry_run: bool, ceilings: Ceilings | None = None) -> int:
    """Plan or run what was declared; ``again`` is the command that goes on with it."""
    from variorum.study import session

    if dry_run:
        return _foretold(declared)
    try:
        finding = session.run(declared)
    except (KeyboardInterrupt, SystemExit):
        say(f"\nstopped; finished cells are kept. To go on: {again}")
        raise
    if ceilings is None or not ceilings.given:
        return _shown(finding, declared.out, again)
    from variorum.study.choosing import advised, recommend

    choice = recommend(finding.outcomes[0], ceilings)
    return _shown(advised(finding, choice), declared.out, again, choice.sentences)


def _shown(finding: Finding, out: Path, again: str, advice: tuple[str, ...] = ()) -> int:
    from variorum.study import report, words
    from variorum.study.result import as_json

    page, result = report.write(finding, out, again)
    if chosen() == "human":
        lines = [text for outcome in finding.outcomes for text in (*words.table(outcome), "")]
        lines += [words.opening(finding.outcomes), *advice, "", f"report  {page}", f"result  {result}"]
        emit({}, human="\n".join(lines))
    else:
        emit(as_json(finding, again) | ({"advice": advice} if advice else {}))
    if finding.failures:
        say(f"variorum: {len(finding.failures)} of {len(finding.plan.cells)} cells failed; to try them again: {again}")
        return 1
    return 0


def _again(out: Path, seeds: int, steps: int) -> str:
    """The command that goes on with this study, or repeats it."""
    words = ["variorum", "study", "quickstart", "--out", str(out), "--seeds", str(seeds), "--steps", str(steps)]
    return shlex.join(words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arms:
    """What is compared: named one by one, or made.

    Args:
        arms: Models or spec files, each with changes of its own behind plus signs: bert+PATH=VALUE.
        walk: A..B: from one model to another along the family tree, one change at a time.
        ablate: A..B:PATH: B with and without what changed at PATH since A.
        grid: PATH=VALUE,VALUE: every combination, over the one model of --arms.
        set: Changes of every arm, each path=value.
        scale: Sizes of every arm; none leaves them as published.
        match: Give every arm the parameters of the first, by its feed-forwards' width or its depth.
    """

    arms: Annotated[tuple[str, ...], Option(many=True)] = ()
    walk: str = ""
    ablate: str = ""
    grid: Annotated[tuple[str, ...], Option(many=True)] = ()
    set: Annotated[tuple[str, ...], Option(many=True)] = ()
    scale: Literal["nano", "small", "none"] | None = None
    match: Literal["width", "depth"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """What every arm is given, and how it is judged. What no flag says is as the study says, or usual.

    Args:
        data: Texts: files, folders, austen (the shipped novels) or one (austen/Emma), or hf:org/name.
        tokenizer: A directory or a model's name; one is learned from the texts if absent.
        vocab: Ids of a vocabulary that is learned.
        budget: Of each arm: 300steps, 5Mtokens, 2Tflops or 90s, which the plan turns into steps once.
        seeds: Of every arm; a verdict needs 3.
        looks: Numbers of seeds at which the study may be read; these alone give verdicts. 5, 8 and 12 for 5 seeds,
            else the seeds alone.
        claim: "A beats B", or "A beats B by 0.02", arms by their short names.
        recipes: The first arm's recipe for all, or each its own.
        probe: Judge by labelled rows that each arm learns after its pretraining: a table with the columns text and
            label, or snippets, the shipped ones. Arms of any objectives can be compared so.
        batch: Rows of a step.
        length: Tokens of a row.
        judged_length: Tokens of a held-out row, where that shall not be the length of the others.
        rate: The peak learning rate.
        rates: Peak learning rates that every arm tries on training texts, to keep the one that suits it.
        latency: The most that an arm which is recommended may take for one text, in 95 cases of 100: 20ms.
        memory: The most that a process which answers by it may take: 500MB.
    """

    data: Annotated[tuple[str, ...], Option(many=True)] = ()
    tokenizer: str | None = None
    vocab: int | None = None
    budget: str | None = None
    seeds: int | None = None
    looks: Annotated[tuple[int, ...], Option(many=True)] = ()
    claim: Annotated[tuple[str, ...], Option(many=True)] = ()
    recipes: Literal["shared", "own"] | None = None
    probe: str | None = None
    batch: int | None = None
    length: int | None = None
    judged_length: int | None = None
    rate: float | None = None
    rates: Annotated[tuple[float, ...], Option(many=True)] = ()
    latency: str | None = None
    memory: str | None = None


ARMS, GIVEN = Arms(), Given()


def run(
    study: str = "", *, out: Path | None = None, dry_run: bool = False, arms: Arms = ARMS, given: Given = GIVEN,
    means: Means = MEANS,
) -> int:  # fmt: skip
    """Train arms on the same texts and judge claims about them; the plan, measured from a few real steps, comes first.

    Finished cells are kept: the same command goes on where an earlier one was stopped, and tries again what failed.

    Args:
        study: A study file, or the name of a ready study (variorum study list); flags depart from it.
        out: Folder for cells, result.json and report.html; study-NAME if absent.
        dry_run: Measure and print the plan, compute nothing.
    """
    from variorum.study import library
    from variorum.study.asked import Asked, changed

    if (arms, given) == (ARMS, GIVEN) and (checks := library.checks(study)):
        from variorum.cli import check

        check.command(*checks)
        return 0
    told = library.named(study) if study else Asked()
    told = changed(told, _departures(told, arms, given), where="study run")
    return _begun(told, out or Path(f"study-{Path(study).stem or 'run'}"), means, dry_run)


def _begun(told: Told, out: Path, means: Means, dry_run: bool = False) -> int:
    """Run what was asked in a folder that remembers it."""
    from variorum.study.asked import keep

    declared = told.declare(out, limits=means.limits, keep=not dry_run, say=say)
    if not dry_run:
        keep(told, out)
    return _carried(declared, shlex.join(["variorum", *sys.argv[1:]]), dry_run, told.ceilings)


def extend(folder: Path, *, seeds: int, means: Means = MEANS) -> int:
    """Go on with a study: the same arms at more seeds, and its report anew; at a declared look there are verdicts.

    Args:
        folder: Of the study.
        seeds: So many in all.
    """
    from variorum.study.asked import kept

    return _begun(dataclasses.replace(kept(folder), seeds=seeds), folder, means)


_OF_BAKEOFF = {"arms": "models", "length": "max_length", "rate": "learning_rate"}
"""What a bake-off calls the flags of a study of pretraining; it knows no others of them."""


def _departures(told: Told, arms: Arms, given: Given) -> dict[str, Any]:
    """The fields of a study that flags speak of."""
    from variorum.study.asked import BakeOff

    every: dict[str, Any] = vars(arms) | vars(given)
    found = {name: value for name, value in every.items() if value not in (None, (), "")}
    if {"arms", "walk", "ablate"} & found.keys() and not isinstance(told, BakeOff):
        none: dict[str, Any] = {"arms": (), "walk": "", "ablate": "", "grid": {}}
        found = none | found
    if "grid" in found:
        pairs = [text.partition("=") for text in found["grid"]]
        found["grid"] = {path: tuple(values.split(",")) for path, _, values in pairs}
    if found.get("scale") == "none":
        found["scale"] = ""
    if "claim" in found:
        found["claims"] = found.pop("claim")
    if isinstance(told, BakeOff):
        found = {_OF_BAKEOFF.get(name, name): value for name, value in found.items()}
        return found | ({"data": found["data"][0]} if "data" in found else {})
    own = {name: found.pop(name) for name in ("batch", "length", "rate") if name in found}
    if own:
        found["training"] = {**getattr(told, "training", {}), **own}
    return found


def bakeoff(
    data: str = "snippets", *, models: Annotated[tuple[str, ...], Option(many=True)], dry_run: bool = False,
    contest: Contest = USUAL, means: Means = MEANS,
) -> int:  # fmt: skip
    """Arms that learn labelled rows, each in its way, beside a simple baseline: which is worth its price here?

    Args:
        data: A table (.csv, .tsv, .jsonl, .parquet), or snippets: the shipped ones, by domain.
        models: Directories, names in the cache, GGUF files, runs of pretrain; nano for a BERT made from nothing,
            nano:NAME for another. head:MODEL learns a head on a frozen body, lora:MODEL adapters, distil:MODEL teaches
            a student of half its layers, text:MODEL writes the label, prompt:MODEL is asked and learns nothing.
            "NAME: MODEL" names an arm.
        dry_run: Measure and print the plan, compute nothing.
    """
    return _begun(asked(data, models, contest), contest.out, means, dry_run)


def list_() -> None:
    """The ready studies: each a published claim at a size that a laptop trains, with the published figure."""
    from variorum.study.library import ready

    rows = [{"name": one.name, "claim": one.title, "published": one.published} for one in ready()]
    emit(rows, columns=["name", "claim", "published"])


EVERY = 16
"""Kinds of simulated study between two notes of progress."""


def honesty(
    *, studies: int = 2000, seed: int = 0, trained: int = 0, out: Path = Path("study-honesty"),
    workers: int | None = None,
) -> int:  # fmt: skip
    """Are verdicts honest? Simulate studies in which nothing is to be found, and count the verdicts.

    Seeds, items and what is left vary, each the most in turn; scores are normal, heavy-tailed, right or wrong, or
    macro-F1; there are one or four claims, and one or three looks. With --trained, models are trained too: A/A studies,
    whose two arms are the same, and half as many in which one arm learns from spoilt data. Exit 6 where more than 5 %
    of the studies of a kind give a verdict, or fewer than 95 % of their intervals hold the truth (macro-F1: 90 %),
    beyond chance; where more than 5 of 40 A/A studies give one, or fewer than 18 of 20 planted effects are found.

    Args:
        studies: of each simulated kind; 2,000 take a few minutes.
        seed: of the simulation.
        trained: A/A studies of trained models; 40 take most of an hour of one core.
        out: folder for what was trained; the same command goes on there.
        workers: cells side by side, one thread each; one per core unless given.
    """
    from variorum.study.session import Limits

    rows = _simulated(studies, seed)
    found = {"simulated": rows}
    if trained:
        from variorum.study import planted

        found["trained"] = [row._asdict() for row in planted.run(
            out, studies=trained, limits=Limits(workers=workers), notes=sys.stderr
        )]  # fmt: skip
    emit(found, human="\n\n".join("\n".join(table(kinds, list(kinds[0]))) for kinds in found.values()))
    if dishonest := sum(not row["honest"] for kinds in found.values() for row in kinds):
        raise CheckFailed(f"{dishonest} kinds of study", where="honesty", remedy="see the last column")
    return 0


def _simulated(studies: int, seed: int) -> list[dict[str, Any]]:
    from variorum.study.honesty import settings, simulate

    kinds, rows = list(settings()), []
    for number, setting in enumerate(kinds, 1):
        found = simulate(setting, studies=studies, seed=seed)
        figures = {name: round(getattr(found, name), 4) for name in ("false", "most", "covered", "least")}
        rows.append(setting._asdict() | figures | {"honest": found.honest})
        if number % EVERY == 0:
            say(f"{number} of {len(kinds)} kinds of study")
    return rows


VERBS: dict[str, Callable[..., object]] = {
    "run": run, "bakeoff": bakeoff, "extend": extend, "list": list_, "quickstart": quickstart, "honesty": honesty,
}  # fmt: skip
command = Verbs("Compare variants fairly, and report what each change buys.", VERBS)
