"""Tiny runs of pretraining, prepared once and copied for each fault, and what of a finished one has to be the same."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from variorum.spec.small import SCALES, Scale
from variorum.text.stream import Source
from variorum.training.prepare import prepare
from variorum.training.pretrain import resume
from variorum.training.run import Keeping
from variorum.training.rundir import CHECKPOINTS, DATA, MODEL, Asked, write_run
from variorum.training.wishes import Wishes

STEPS, SAVES = 9, 3
WORDS = ("the", "a", "of", "ship", "sea", "man", "whale", "old", "white", "captain", "saw", "said", "day", "night")


@dataclasses.dataclass(frozen=True)
class Case:
    """A kind of run. ``documents`` of the corpus are few where an epoch is to end in the middle."""

    name: str
    model: str
    wishes: Wishes
    documents: int = 60


def _wishes(**more: object) -> Wishes:
    return Wishes(batch=4, length=32, rate=1e-3, **more)  # type: ignore[arg-type]


CASES = (
    Case("dropout", "roberta", _wishes()),
    Case("accumulation", "bert", _wishes(micro_batch=2)),
    Case("mid-epoch", "gpt2", _wishes(), documents=9),
    Case("packed", "modernbert", _wishes(sequence_format="doc_sentences", optimiser="muon")),
    Case("replaced tokens", "electra", _wishes()),
)


def text(documents: int) -> str:
    """Sentences of few words, the same each time, in so many paragraphs."""
    draw = torch.Generator().manual_seed(3)
    paragraphs = []
    for _ in range(documents):
        sentences = []
        for length in torch.randint(4, 12, (5,), generator=draw).tolist():
            picked = torch.randint(len(WORDS), (length,), generator=draw).tolist()
            sentences.append(" ".join(WORDS[i] for i in picked).capitalize() + ".")
        paragraphs.append(" ".join(sentences))
    return "\n\n".join(paragraphs)


def prepared(case: Case, place: Path) -> Path:
    """A run that is about to take its first step."""
    SCALES["tiny"] = Scale(16, 2, 2)
    torch.set_num_threads(1)
    place.mkdir(parents=True)
    source = place.parent / f"{place.name}.txt"
    source.write_text(text(case.documents))
    asked = Asked(
        model=case.model, set=(), scale="tiny", sources=(Source(place=str(source)),), validation=0.1, tokenizer="",
        vocab=320, budget=f"{STEPS}steps", wishes=case.wishes,
    )  # fmt: skip
    plan, _ = prepare(asked, place, workers=1, threads=1, say=lambda line: None)
    write_run(place, asked, dataclasses.replace(plan, every=SAVES, saves=SAVES))
    del SCALES["tiny"]
    return place


def copied(run: Path, to: Path) -> Path:
    """A copy of a run; the corpus, which nothing writes to, is linked."""
    shutil.copytree(run, to, copy_function=os.link)
    (to / "run.json").unlink()
    shutil.copy(run / "run.json", to / "run.json")
    return to


def finish(run: Path, keeping: Keeping | None = None, say: Callable[[str], None] = lambda line: None) -> None:
    """Go on to the end."""
    resume(run, keeping=keeping or Keeping(), say=say)


def digest(run: Path) -> dict[str, str]:
    """SHA-256 of what a finished run leaves: snapshots (weights, optimiser, random streams, cursor), log, model."""
    kept = [*(run / CHECKPOINTS).rglob("*"), *run.glob(f"{MODEL}/*"), *run.glob("generator/*"), run / "metrics.jsonl"]
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept if path.is_file()
    }


def differing(found: dict[str, str], right: dict[str, str]) -> list[str]:
    """Names of files that are missing, too many or not the same."""
    return sorted(name for name in found.keys() | right.keys() if found.get(name) != right.get(name))


def left_over(run: Path) -> list[str]:
    """Names that no finished run has."""
    return [str(p.relative_to(run)) for p in run.rglob(".*") if p.name != ".lock" and DATA not in p.parts]
