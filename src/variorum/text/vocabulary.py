"""Whether a tokenizer and an embedding table belong together. Knows neither weights nor files."""

from __future__ import annotations

from ..errors import DamagedFile
from .tokenizer import Tokenizer


def check_vocabulary(tokenizer: Tokenizer, rows: int) -> str | None:
    """Compare the ids a tokenizer can give with the rows of an embedding.

    Args:
        tokenizer: the tokenizer.
        rows: rows of the token embedding.

    Returns:
        A note when the embedding has rows to spare (many checkpoints pad to a round number), else None.

    Raises:
        DamagedFile: the tokenizer has ids without a row.
    """
    size = tokenizer.vocab_size
    if size > rows:
        raise DamagedFile(
            f"the tokenizer has {size} ids but the embedding has {rows} rows",
            where=f"{size - rows} ids from {rows} on have no row",
            remedy="use the tokenizer of this checkpoint, or resize the embedding",
        )
    return f"the embedding has {rows - size} spare rows beyond the {size} ids" if rows > size else None
