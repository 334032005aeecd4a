"""What ``translate`` and ``summarize`` share: texts in, what an encoder-decoder writes for each out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.loading import Loading
from variorum.cli.output import emit
from variorum.cli.texts import texts_of

if TYPE_CHECKING:
    from variorum.face import Model
    from variorum.inference.texts import Text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rewriting:
    """Which texts are rewritten, and how far.

    Args:
        file: A .txt with one text a line, or a .csv, .tsv or .jsonl with a column of texts; stdin if there is no text.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        max_new_tokens: Write at most so many; as the checkpoint says if absent.
        num_beams: Keep so many texts in sight; as the checkpoint says if absent.
    """

    file: Path | None = None
    column: str = "text"
    max_new_tokens: int | None = None
    num_beams: int | None = None


PLAINLY = Rewriting()


def rewrite(
    model: str, given: tuple[str, ...], how: Rewriting, loading: Loading,
    write: Callable[..., Sequence[Text]],
) -> None:  # fmt: skip
    """Print what ``write(model, texts, …)`` writes for each text; a model trained here writes as it learned to."""
    texts = texts_of(given, how.file, how.column)
    from variorum.tasks.registry import STATE

    if (Path(model) / STATE).is_file():
        written = _trained(model, texts, how, loading)
    else:
        from variorum.cli.loading import load

        loaded: Model = load(model, loading)
        choice = {"max_new_tokens": how.max_new_tokens, "num_beams": how.num_beams}
        written = [one.text.strip() for one in write(loaded, texts, **choice)]
    rows = [{"text": text, "written": one} for text, one in zip(texts, written, strict=True)]
    emit(rows, human="\n".join(written))


def _trained(model: str, texts: Sequence[str], how: Rewriting, loading: Loading) -> list[str]:
    """What a task of ``variorum train seq2seq`` writes."""
    from variorum.errors import UsageError
    from variorum.tasks.registry import load
    from variorum.tasks.seq2seq import Seq2Seq

    task = load(model, device=loading.device)
    if type(task) is not Seq2Seq:
        raise UsageError(f"was trained to {task.kind}", where=model, remedy="use variorum predict")
    wishes = {"max_target_length": how.max_new_tokens, "num_beams": how.num_beams}
    task.set_params(**{name: value for name, value in wishes.items() if value is not None})
    return list(task.predict(texts))
