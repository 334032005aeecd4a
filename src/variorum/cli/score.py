"""``variorum score``: how likely texts are to a model, as perplexity and as bits per byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit
from variorum.cli.reading import Option
from variorum.cli.texts import texts_of

if TYPE_CHECKING:
    from variorum.inference.likelihood import Score


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windowing:
    """How long texts are read.

    Args:
        window: Tokens read at once; what the model's table of positions allows if absent, 2,048 where nothing does.
        stride: Tokens that each further window scores, the rest of it being context; half a window if absent.
        start: A token to read before each text, as the tokenizer spells it, in place of what the tokenizer puts there.
    """

    window: int | None = None
    stride: int | None = None
    start: str | None = None


USUAL = Windowing()


def command(
    file: Path | None = None,
    *,
    model: str,
    text: Annotated[tuple[str, ...], Option(many=True)] = (),
    column: str = "text",
    by: Literal["file", "line"] = "file",
    source: Path | None = None,
    each: bool = False,
    windowing: Windowing = USUAL,
    loading: Loading = PLAIN,
) -> None:
    """How likely texts are to a model: perplexity and bits per byte, every token scored once, averaged over tokens.

    A decoder is asked for each token after those before it, an encoder-decoder for each of a text beside its --source,
    a masked language model for each token among all others (pseudo-perplexity). Texts come from FILE, from --text, or
    one a line from stdin. What the tokenizer puts before a text is read, not scored; where it puts nothing there, the
    first token is not scored.

    Args:
        file: A .txt, or a .csv, .tsv or .jsonl with a column of texts, each scored on its own.
        model: A directory, a spec's name, or org/name in the cache.
        text: One text, or several.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        by: Whether a .txt is one text, or one a line.
        source: What an encoder-decoder reads beside each text: a file in the same form.
        each: A row for each text in place of the figures of all.
    """
    texts = _texts(text, file, column, by)
    sources = None if source is None else _texts((), source, column, by)
    from variorum.cli.loading import load
    from variorum.inference.likelihood import Score, Windows, score

    loaded, windows = load(model, loading), Windows(**dataclasses.asdict(windowing))
    scores = score(loaded, texts, sources=sources, windows=windows)
    if each:
        emit([{"text": one, **_figures(own)} for one, own in zip(texts, scores, strict=True)])
        return
    window, stride = windows.settled(loaded)
    emit({"texts": len(texts), **_figures(sum(scores, Score())), "window": window, "stride": stride})


def _texts(given: tuple[str, ...], file: Path | None, column: str, by: str) -> list[str]:
    if given or file is None or by == "line" or ".txt" not in file.suffixes:
        return texts_of(given, file, column)
    from variorum.text.readers import read_text

    return [read_text(file)]


def _figures(score: Score) -> dict[str, float]:
    return {**dataclasses.asdict(score), "perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte}
