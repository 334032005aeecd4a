"""``variorum summarize``: texts in short, by an encoder-decoder."""

from __future__ import annotations

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.writing import PLAINLY, Rewriting, rewrite


def command(model: str, *text: str, rewriting: Rewriting = PLAINLY, loading: Loading = PLAIN) -> None:
    """Say texts in short, one a line in and one a line out.

    Args:
        model: A directory, a spec's name, or org/name in the cache; an encoder-decoder, or one trained here.
        text: A text; several are several summaries.
    """
    from variorum.inference.purposes import summarize

    rewrite(model, text, rewriting, loading, summarize)
