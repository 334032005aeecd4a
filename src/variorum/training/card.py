"""The model card of a run: what was trained on what, how, and how well, in a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from variorum.files import write_whole
from variorum.training import shards
from variorum.training.rundir import CARD, DATA, MODEL, START, Plan, read_run

if TYPE_CHECKING:
    from variorum.training.evaluate import Score
    from variorum.training.session import Session


def write_card(folder: Path, session: Session, plan: Plan, score: Score | None) -> None:
    """Write ``README.md`` of a finished run."""
    write_whole(folder / CARD, _text(folder, session, plan, score).encode())


def _text(folder: Path, session: Session, plan: Plan, score: Score | None) -> str:
    asked, _ = read_run(folder)
    facts, settled, spec = shards.facts_of(folder / DATA), plan.settled, plan.spec
    parameters = sum(p.numel() for p in session.model.parameters())
    held = "nothing was held out"
    if score is not None:
        held = f"{score.loss:.4f} nats a target (95 % interval {score.low:.4f} to {score.high:.4f})"
        parts = score.parts.items()
        held += "".join(f"; {name} {mean:.4f} ({low:.4f} to {high:.4f})" for name, (mean, low, high) in parts)
        held += f". Who knows only how often words occur has {session.guessed():.4f} nats a word"
    sources = ", ".join(source["place"] for source in asked["sources"])
    why = "\n".join(f"| {name} | {getattr(settled, name)} | {reason} |" for name, reason in settled.why.items())
    networks = ", ".join(f"`{name}/`" for name in session.trainer.networks if name != "model")
    begun = f" It began with the weights of `{asked['model']}`." if (folder / START).is_dir() else ""
    beside = f" Beside it lie {networks}, which its objective trained too." if networks else ""
    return f"""# {spec.name}, trained here

{spec.cite}. {parameters:,} parameters, {spec.architecture.vocab:,} tokens in the vocabulary, objective
{spec.objective.kind}. The model is in `{MODEL}/`.{beside}{begun}

## Result

Step {session.trainer.step:,} of {plan.steps:,}. Held-out loss: {held}. Every step and evaluation is in `metrics.jsonl`.

## Data

{sources}: {facts["train"]["tokens"]:,} training tokens in {facts["train"]["documents"]:,} documents;
{facts["validation"]["documents"]:,} documents held out. The rows of each of its {len(session.feed.phases)} phases were
read {session.feed.epochs(session.trainer.step - 1):.2f} times by the end.

## Recipe

| what | value | why |
|---|---|---|
{why}

Seed {plan.seed}, {plan.machine["threads"]} threads, torch {plan.machine["torch"]}, {plan.machine["cpu"]}. The same
command with the same data on such a machine gives the same weights to the last bit.

## Use

Trained for study, on a small text, by a small budget: not for decisions about people, nor as a source of facts.
"""
