"""``variorum monitor``: whether what a trained model meets now is still what it was judged on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from variorum.cli.output import Column, emit, say
from variorum.cli.rows import Columns, Data, Device, Trained
from variorum.errors import CheckFailed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rehearsing:
    """Instead of a comparison: how often windows of the data raise a false alarm, and how often a shift is found.

    Args:
        rehearse: Windows of each sort, drawn from the data; 0 compares.
        size: Rows of a window.
        shift: By which the share of one class is moved.
        label_column: The column with the true classes; the model's answers if absent.
    """

    rehearse: int = 0
    size: int = 500
    shift: float = 0.2
    label_column: str = ""


NO_REHEARSAL = Rehearsing()


def command(
    directory: Trained,
    data: Data,
    *,
    columns: Columns = (),
    reference: Path | None = None,
    keep: bool = False,
    alpha: float = 0.01,
    device: Device = "cpu",
    rehearsing: Rehearsing = NO_REHEARSAL,
) -> None:
    """Compare new rows with the profile that a model was saved with, a line for each signal; exit 6 on drift.

    Signals are the answers and their confidence, length, unknown tokens, languages, and the mean of the vectors.

    Args:
        reference: Compare with these rows, which the model did not learn from, in place of its profile.
        keep: Save what the rows of --reference look like as the model's profile.
        alpha: Chance of any false alarm in one comparison.
    """
    from variorum.cli.predict import roles
    from variorum.tasks import monitor, profile
    from variorum.tasks.job import read_inputs
    from variorum.tasks.registry import load
    from variorum.tasks.signals import signals

    estimator, names = load(directory, device=device), roles(columns)
    rows, given = read_inputs(estimator, data, names, say)
    now = signals(estimator, given)
    if rehearsing.rehearse:
        true = rows.column(rehearsing.label_column) if rehearsing.label_column else now.kinds["label"]
        emit(monitor.rehearse(now, true, size=rehearsing.size, windows=rehearsing.rehearse, shift=rehearsing.shift,
                              alpha=alpha))  # fmt: skip
        return
    if reference is None:
        then = profile.read(directory)
    else:
        then = profile.Profile.of(signals(estimator, read_inputs(estimator, str(reference), names, say)[1]))
        if keep:
            estimator.profile_ = then
            estimator.save(directory)
            say(f"{directory} keeps the profile of {len(then.signals):,} rows")
    found = monitor.compare(then.signals, then.seen(now), alpha=alpha)
    emit(found, columns=["signal", "change", Column("psi", "PSI"), "test", "p", "drifted"])
    drifted = [one.signal for one in found if one.drifted]
    if drifted:
        remedy = "label some of these rows, and learn from them"
        raise CheckFailed(f"{', '.join(drifted)} changed", where=data, remedy=remedy)
