"""``variorum trace``: the first module whose output differs from a recording, or from another checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.loading import DType, Loading, Place
from variorum.cli.output import chosen, emit
from variorum.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from variorum.face import Model
    from variorum.inference.recorded import Recording
    from variorum.inference.trace import Comparison

HERE = Place()


def command(
    model: str,
    *,
    against: Path,
    text: str | None = None,
    ids: str | None = None,
    tolerance: float | None = None,
    dtype: DType | None = None,
    place: Place = HERE,
) -> int:
    """The first module that differs from recorded activations, or from another checkpoint of the same architecture.

    Exit code 0 if all agree, 6 if something differs.

    Args:
        model: A directory, a spec's name, or org/name in the cache.
        against: A .safetensors file of activations under their published names, with the inputs as input.input_ids and
            so on; or another directory.
        text: What both read, where the other is a directory.
        ids: The same as token ids, separated by commas or spaces.
        tolerance: The largest difference allowed, in standard deviations of what is compared; by default what rounding
            may do.
        dtype: What weights are converted to; the recording's type, or float32, if absent.
    """
    from variorum.hub import locate

    locate(model, revision=place.revision, download=place.download)  # before anything is read
    if against.is_dir():
        comparison = _directories(model, against, text, ids, tolerance, _loading(place, dtype or "float32"))
    elif text is not None or ids is not None:
        raise UsageError("a recording brings its own inputs", where=str(against), remedy="leave out --text and --ids")
    else:
        from variorum.inference.recorded import read_recording

        recording = read_recording(against)
        comparison = _recording(model, recording, tolerance, _loading(place, dtype or recording.dtype))
    _show(comparison)
    return 6 if comparison.first else 0


def _loading(place: Place, dtype: DType) -> Loading:
    return Loading(**dataclasses.asdict(place), dtype=dtype)


def _recording(model: str, recording: Recording, tolerance: float | None, loading: Loading) -> Comparison:
    from variorum.cli.loading import load
    from variorum.hub import locate
    from variorum.inference.recorded import compare_with, recorded_heads

    heads = recorded_heads(locate(model, revision=loading.revision), recording)
    return compare_with(load(model, loading, head=heads), recording, tolerance=tolerance)


def _directories(
    model: str, other: Path, text: str | None, ids: str | None, tolerance: float | None, loading: Loading
) -> Comparison:  # fmt: skip
    from variorum.cli.loading import load
    from variorum.inference.recorded import compare_models

    ours = load(model, loading)
    inputs = _inputs(ours, text, ids)
    theirs = load(str(other.resolve()), dataclasses.replace(loading, revision=None))
    return compare_models(ours, theirs, inputs, tolerance=tolerance)


def _inputs(model: Model, text: str | None, ids: str | None) -> dict[str, Tensor]:
    import torch

    from variorum.inference.encode import tensors, tokenizer_of

    if (text is None) == (ids is None):
        raise UsageError("two directories need something to read", remedy="give --text or --ids")
    if text is not None:
        tokenizer = tokenizer_of(model)
        return tensors(model, tokenizer.pad([tokenizer.encode(text)]))
    try:
        row = [int(word) for word in str(ids).replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--ids {ids!r} are not numbers", remedy="write them as 5,6,7") from None
    vocab = model.spec.architecture.vocab
    if not row or not all(0 <= one < vocab for one in row):
        raise UsageError("--ids are none, or beyond the vocabulary", remedy=f"they run from 0 to {vocab - 1:,}")
    return {"input_ids": torch.tensor([row], device=next(model.parameters()).device)}


def _show(comparison: Comparison) -> None:
    first = comparison.first
    if chosen() == "jsonl":
        emit(comparison.compared)
        return
    emit(
        {
            "agree": first is None,
            "first": first,
            "compared": comparison.compared,
            "uncompared": comparison.uncompared,
            "tolerance": comparison.tolerance,
        },
        human="\n".join(_lines(comparison)),
    )


def _lines(comparison: Comparison) -> list[str]:
    rows, first = comparison.compared, comparison.first
    total = len(rows) + len(comparison.uncompared)
    head = f"{len(rows)} of {total} activations compared, up to {comparison.tolerance:g} of their spread"
    if first is None:
        worst = max(rows, key=lambda row: row.error)
        return [head, f"all agree; the largest difference is {worst.error:.2g} of the spread, at {worst.name}"]
    at = rows.index(first)
    after = sum(row.differs for row in rows[at:])
    before = f"before it {at} agree, the last of them {rows[at - 1].name}" if at else "nothing was compared before it"
    return [
        head,
        f"first difference: {first.name} (ours: {first.ours})",
        f"  largest |Δ| {first.largest:.3g}, {first.error:.3g} of its spread",
        f"  {before}",
        f"  from it on, {after} of {len(rows) - at} differ",
    ]
