"""``variorum resume``: a run that was stopped, killed or full of disk, taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from variorum.cli.output import say
from variorum.cli.pretrain import resumable, shown


def command(
    run: Path, *, checkpoint: str | None = None, keep: int = 2, on_disk_full: Literal["stop", "pause"] = "stop",
    track: Literal["tensorboard", "trackio"] | None = None,
) -> int:  # fmt: skip
    """Go on with a run of pretrain from its newest whole checkpoint; it ends in the bits of one that never stopped.

    Args:
        run: The folder of the run.
        checkpoint: Another checkpoint to go on from, by its name, such as step-00000100.
        keep: Snapshots that stay; two at least.
        on_disk_full: End the run, or wait until there is room.
        track: A viewer that is fed too, beside metrics.jsonl.
    """
    from variorum.training import pretrain as job
    from variorum.training.run import Keeping

    with resumable(run):
        return shown(job.resume(run, checkpoint=checkpoint, say=say,
                                keeping=Keeping(keep=keep, on_disk_full=on_disk_full, track=track)))  # fmt: skip
