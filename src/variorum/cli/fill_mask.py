"""``variorum fill-mask``: the likeliest words for each mask in a text."""

from __future__ import annotations

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, emit
from variorum.errors import UsageError


def command(model: str, text: str, *, top_k: int = 5, loading: Loading = PLAIN) -> None:
    """The likeliest words for each mask in a text.

    Args:
        model: A directory, a spec's name, or org/name in the cache; it needs a masked-language-model head.
        text: The text, with [MASK] (or this model's own mask token) where a word is missing.
        top_k: Candidates for each mask.
    """
    if top_k < 1:
        raise UsageError(f"--top-k {top_k} asks for no candidates", remedy="give 1 or more")
    from variorum.cli.loading import load

    guesses = load(model, loading).fill_mask(text, top_k=top_k)
    columns = [Column("token"), Column("probability"), Column("text")]
    several = len({guess.mask for guess in guesses}) > 1
    emit(guesses, columns=[Column("mask"), *columns] if several else columns)
