"""``variorum pretrain``: a model of the family trained from nothing on texts."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from variorum.cli.output import emit, say
from variorum.cli.reading import Option

if TYPE_CHECKING:
    from variorum.training.pretrain import Forecast
    from variorum.training.run import Result
    from variorum.training.rundir import Asked


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts:
    """What is read.

    Args:
        by: What a document is in a text file.
        column: Where the text is, in files of rows.
        validation: Share of the documents that is held out; 0 for none.
        tokenizer: A directory or a model's name; one is learned from the texts if absent.
        vocab: Ids of a vocabulary that is learned.
        workers: Processes that tokenise.
    """

    by: Literal["paragraph", "line", "file"] = "paragraph"
    column: str = "text"
    validation: float = 0.05
    tokenizer: str = ""
    vocab: int = 8000
    workers: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What departs from the recipe.

    Args:
        batch: Rows of a step.
        micro_batch: Rows that are in memory at a time; all of a step's if absent.
        length: Tokens of a row.
        rate: The peak learning rate.
        warmup: Share of the steps over which it rises.
        schedule: Its shape afterwards.
        optimiser: AdamW, Adafactor, or Muon for the matrices inside layers.
        weight_decay: Decay of matrices.
        clip: The largest gradient norm; 0 for any.
        sequence_format: How rows are cut from documents.
        precision: Of the products; weights stay in float32.
        recompute: Keep only each layer's input, and compute the rest again on the way back.
        seed: Of first weights, data order, masks and dropout.
        threads: Threads of the training; other numbers give other bits.
    """

    batch: int | None = None
    micro_batch: int | None = None
    length: int | None = None
    rate: float | None = None
    warmup: float | None = None
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt", "trapezoid"] | None = None
    optimiser: Literal["adamw", "adafactor", "muon"] | None = None
    weight_decay: float | None = None
    clip: float | None = None
    sequence_format: Literal["stream", "full_sentences", "doc_sentences", "segment_pair", "sentence_pair"] | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    recompute: bool = False
    seed: int = 0
    threads: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keeping:
    """What is kept.

    Args:
        keep: Snapshots that stay; two at least.
        save_every: Steps between two snapshots; a twentieth of the run if absent.
        eval_every: Steps between two evaluations; a twentieth of the run if absent.
        patience: End after so many evaluations without a better score.
        on_disk_full: End the run, or wait until there is room.
        track: A viewer that is fed too, beside metrics.jsonl.
    """

    keep: int = 2
    save_every: int | None = None
    eval_every: int | None = None
    patience: int = 0
    on_disk_full: Literal["stop", "pause"] = "stop"
    track: Literal["tensorboard", "trackio"] | None = None


TEXTS, BY_RECIPE, KEEPING = Texts(), Training(), Keeping()


def command(
    spec: str, data: str, *more: str, out: Path, budget: str, scale: Literal["nano", "small"] | None = None,
    set: Annotated[tuple[str, ...], Option(many=True)] = (), time_limit: float | None = None, dry_run: bool = False,
    texts: Texts = TEXTS, training: Training = BY_RECIPE, keeping: Keeping = KEEPING,
) -> int:  # fmt: skip
    """Train a model from nothing; the plan comes first, and the same command again goes on where it was stopped.

    Args:
        spec: A model, a published size, or a spec file; its objective and its recipe are taken with it.
        data: A file (.txt, .jsonl, .parquet), a folder of them, austen (the shipped novels), or hf:org/name.
        more: Further ones.
        out: The folder of the run.
        budget: 2000steps, 5Mtokens, 90s, 10m or 2h.
        scale: Make the spec this small; its kinds stay.
        set: Changes to the spec, each path=value.
        time_limit: Refuse a plan that may take more than so many minutes.
        dry_run: Prepare, measure, print the plan, and stop.
    """
    from variorum.training import pretrain as job
    from variorum.training.prepare import cores
    from variorum.training.run import Keeping as Kept

    wishes = {name: value for name, value in vars(training).items() if name != "threads"}
    how = job.How(
        every=keeping.eval_every, saves=keeping.save_every, patience=keeping.patience, workers=texts.workers,
        threads=training.threads or cores(), time_limit=None if time_limit is None else 60 * time_limit,
    )  # fmt: skip
    kept = Kept(keep=keeping.keep, on_disk_full=keeping.on_disk_full, track=keeping.track)
    asked = _asked(spec, (data, *more), budget, scale, set, texts, wishes)
    with resumable(out):
        return shown(job.pretrain(asked, out, how=how, keeping=kept, dry_run=dry_run, say=say))


def _asked(
    spec: str, data: tuple[str, ...], budget: str, scale: str | None, set: tuple[str, ...], texts: Texts,
    wishes: dict[str, object],
) -> Asked:  # fmt: skip
    from variorum.text.stream import Source
    from variorum.training.recipes import Wishes
    from variorum.training.rundir import Asked

    return Asked(
        model=spec, set=set, scale=scale or "", budget=budget, wishes=Wishes(**wishes),  # type: ignore[arg-type]
        sources=tuple(Source(place=place, by=texts.by, column=texts.column) for place in data),
        validation=texts.validation, tokenizer=texts.tokenizer, vocab=texts.vocab,
    )  # fmt: skip


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Whatever interrupts the run in ``folder``, the line that goes on with it is the last one said."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (folder / "run.json").exists():
            say(f"stopped; to go on: {shlex.join(['variorum', 'resume', str(folder)])}")
        raise


def shown(found: Result | Forecast) -> int:
    """Say how a run ended, or what its plan foresees."""
    row = dataclasses.asdict(found)
    if "folder" in row:
        row["folder"] = str(row["folder"])
    score = row.pop("score", None)
    row |= {} if score is None else {"held_out": score["loss"], "low": score["low"], "high": score["high"]}
    emit(row)
    return 0
