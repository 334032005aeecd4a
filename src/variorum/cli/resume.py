"""``variorum resume``: a run that was stopped, killed or full of disk, taken up again."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.output import say
from variorum.cli.pretrain import carried_out, shown
from variorum.training.wishes import HERE, USUAL, Keeping, Running


def command(
    run: Path, *, checkpoint: str | None = None, keeping: Keeping = USUAL, running: Running = HERE
) -> int:  # fmt: skip
    """Go on with a run of pretrain from its newest whole checkpoint; it ends in the bits of one that never stopped.

    Args:
        run: The folder of the run.
        checkpoint: Another checkpoint to go on from, by its name, such as step-00000100.
    """
    with carried_out(run, running) as world:
        from variorum.training import pretrain as job

        return shown(job.resume(run, checkpoint=checkpoint, keeping=keeping, say=say, world=world))
