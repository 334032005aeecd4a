"""``variorum pretrain``: a model of the family trained from nothing on texts."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from variorum.cli.output import emit, say
from variorum.cli.reading import Option
from variorum.training.wishes import HERE, NO_WISHES, PLAINLY, USUAL, How, Keeping, Running, Wishes

if TYPE_CHECKING:
    from variorum.training.pretrain import Forecast
    from variorum.training.run import Result
    from variorum.training.rundir import Asked
    from variorum.training.world import World


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts:
    """What is read.

    Args:
        by: What a document is in a text file.
        column: Where the text is, in files of rows.
        validation: Share of the documents that is held out; 0 for none.
        tokenizer: A directory or a model's name; one is learned from the texts if absent.
        vocab: Ids of a vocabulary that is learned.
    """

    by: Literal["paragraph", "line", "file"] = "paragraph"
    column: str = "text"
    validation: float = 0.05
    tokenizer: str = ""
    vocab: int = 8000


TEXTS = Texts()


def command(
    spec: str, data: str, *more: str, out: Path, budget: str, scale: Literal["nano", "small"] | None = None,
    set: Annotated[tuple[str, ...], Option(many=True)] = (), dry_run: bool = False, texts: Texts = TEXTS,
    wishes: Wishes = NO_WISHES, how: How = PLAINLY, keeping: Keeping = USUAL, running: Running = HERE,
) -> int:  # fmt: skip
    """Train a model, from nothing or from its weights; the plan comes first, and the same command again goes on where
    it was stopped.

    Started by torchrun, its processes train one model together.

    Args:
        spec: A model, a published size, or a spec file, trained from nothing; or weights to begin with: a directory
            (./bert), a GGUF file, org/name in the cache, a folder of pretrain. Objective and recipe are taken with it.
        data: A file (.txt, .jsonl, .parquet), a folder of them, austen (the shipped novels) or one (austen/Emma), or
            hf:org/name.
        more: Further ones.
        out: The folder of the run.
        budget: 2000steps, 5Mtokens, 90s, 10m or 2h.
        scale: Make the spec this small; its kinds stay.
        set: Changes to the spec, each path=value.
        dry_run: Prepare, measure, print the plan, and stop.
    """
    with carried_out(out, running) as world:
        from variorum.training import pretrain as job

        asked = _asked(spec, (data, *more), budget, scale, set, texts, wishes)
        return shown(job.pretrain(asked, out, how=how, keeping=keeping, dry_run=dry_run, say=say, world=world))


def _asked(
    spec: str, data: tuple[str, ...], budget: str, scale: str | None, set: tuple[str, ...], texts: Texts,
    wishes: Wishes,
) -> Asked:  # fmt: skip
    from variorum.text.stream import Source
    from variorum.training.rundir import Asked

    return Asked(
        model=spec, set=set, scale=scale or "", budget=budget, wishes=wishes,
        sources=tuple(Source(place=place, by=texts.by, column=texts.column) for place in data),
        validation=texts.validation, tokenizer=texts.tokenizer, vocab=texts.vocab,
    )  # fmt: skip


@contextlib.contextmanager
def carried_out(folder: Path, running: Running) -> Iterator[World]:
    """The processes that carry out the run in ``folder``; the first speaks for all.

    Whatever interrupts them, the line that goes on with the run is the last one said.
    """
    from variorum.cli.loading import check_device
    from variorum.training.distributed import joined

    # Torch reads this as it is imported. DDP warns of every model whose parameters all have a part in the loss.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    check_device(running.device)
    with joined(running) as world, _speaking(world.rank == 0):
        try:
            yield world
        except (KeyboardInterrupt, SystemExit):
            if (folder / "run.json").exists():
                say(f"stopped; to go on: {shlex.join(_to_go_on(folder, running, world.size))}")
            raise


def _to_go_on(folder: Path, running: Running, processes: int) -> list[str]:
    """The command line that goes on with a run as it is carried out now."""
    words = ["variorum", "resume", str(folder)]
    if processes > 1:
        words = ["torchrun", "--nproc-per-node", str(processes), "-m", *words, "--strategy", running.strategy]
    return words if running.device == "cpu" else [*words, "--device", running.device]


@contextlib.contextmanager
def _speaking(leads: bool) -> Iterator[None]:
    """Without a word on either stream, unless this is the process that ``leads``."""
    if leads:
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def shown(found: Result | Forecast) -> int:
    """Say how a run ended, or what its plan foresees."""
    row = dataclasses.asdict(found)
    if "folder" in row:
        row["folder"] = str(row["folder"])
    row.pop("score", None)
    row |= {} if (score := getattr(found, "score", None)) is None else score.row()
    emit(row)
    return 0
