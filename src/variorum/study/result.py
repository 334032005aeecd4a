"""A finding as JSON: the declared design, figures, judgements with their sentences, every cell's curve and losses."""

from __future__ import annotations

import dataclasses
from importlib import metadata
from typing import Any

from variorum import __version__
from variorum.study import words
from variorum.study.analysis import Outcome
from variorum.study.cells import code_digest
from variorum.study.costs import AXES
from variorum.study.design import Study
from variorum.study.mistakes import overlap
from variorum.study.session import Finding
from variorum.study.statistics import Judgement


def as_json(finding: Finding, command: str) -> dict[str, Any]:
    """The finding for programs: declared design, figures, judgements, cells."""
    return {
        "budget_note": words.AT_BUDGET,
        "opening": words.opening(finding.outcomes),
        "command": command,
        "versions": {"variorum": __version__, "torch": metadata.version("torch"), "code": code_digest()},
        "studies": [_study_json(outcome) for outcome in finding.outcomes],
        "failures": [{"cell": name, "cause": cause} for name, cause in finding.failures],
        "plan": _plan_json(finding),
    }


def _plan_json(finding: Finding) -> dict[str, Any] | None:
    """What the plan foretold beside what was taken; ``None`` where nothing had to be computed."""
    plan = finding.plan
    return None if not plan.measured else {
        "cells": len((*plan.untried, *plan.pending)),
        "workers": plan.workers,
        "planned_seconds": plan.band,
        "seconds": finding.seconds,
        "planned_memory": plan.memory,
        "memory": finding.memory,
    }  # fmt: skip


def _study_json(outcome: Outcome) -> dict[str, Any]:
    study = outcome.study
    return {
        "name": study.name,
        "title": study.title,
        "question": study.question,
        "budget": study.budget,
        "items": study.items,
        "metric": {
            "name": study.metric.name,
            "unit": study.metric.unit,
            "lower_is_better": study.metric.lower_is_better,
        },
        "seeds": study.seeds,
        "looks": study.looks,
        "alpha": study.alpha,
        "equal": study.equal,
        "unequal": study.unequal,
        "arms": [
            {
                "name": figure.arm,
                "title": study.arm(figure.arm).title,
                "mean": figure.mean,
                "by_seed": {str(seed): value for seed, value in figure.by_seed.items()},
                "by_class": figure.by_class,
                "costs": None if figure.costs is None else vars(figure.costs),
                "front": [axis.word for axis in AXES if figure.arm in outcome.front(axis)],
                "apparatus": [vars(reading) for reading in study.arm(figure.arm).apparatus],
            }
            for figure in outcome.figures
        ],
        "claims": [_claim_json(study, judgement) for judgement in outcome.judgements],
        "errors": None if (shared := overlap(outcome)) is None else dataclasses.asdict(shared),
        "not_judged": [claim.name for claim in outcome.unjudged],
        "missing": outcome.missing,
        "cells": [
            {"arm": arm, "seed": seed, "curve": r.curve, "losses": r.losses, "facts": r.facts}
            for (arm, seed), r in sorted(outcome.results.items())
        ],
    }


def _claim_json(study: Study, judgement: Judgement) -> dict[str, Any]:
    return {
        "claim": judgement.claim.name,
        "better": judgement.claim.better,
        "worse": judgement.claim.worse,
        "margin": judgement.claim.margin,
        "verdict": judgement.verdict,
        "sentence": words.line(study, judgement).sentence,
        "gain": judgement.gain,
        "low": judgement.low,
        "high": judgement.high,
        "alpha": judgement.alpha,
        "seeds": judgement.seeds,
        "items": judgement.items,
        "detectable": judgement.detectable,
        "seeds_to_decide": judgement.seeds_to_decide,
        "gain_by_seed": judgement.by_seed,
    }
