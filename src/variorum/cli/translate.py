"""``variorum translate``: texts in another language, by an encoder-decoder."""

from __future__ import annotations

import functools

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.writing import PLAINLY, Rewriting, rewrite


def command(
    model: str,
    *text: str,
    source: str | None = None,
    target: str | None = None,
    rewriting: Rewriting = PLAINLY,
    loading: Loading = PLAIN,
) -> None:
    """Put texts into another language, one a line in and one a line out.

    Args:
        model: A directory, a spec's name, or org/name in the cache; an encoder-decoder, or one trained here.
        text: A text; several are several translations.
        source: The language of the texts, as the checkpoint names it: en or English (T5), en_XX (mBART).
        target: The language to write in, named likewise.
    """
    from variorum.inference.purposes import translate

    rewrite(model, text, rewriting, loading, functools.partial(translate, source=source, target=target))
