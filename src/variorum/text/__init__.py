"""Text in, ids out, and back: published tokenizers, trained ones, readers and the shipped corpora.

Nothing here imports torch. The stable face is what this file exports; see :class:`Tokenizer` for what one can do.
"""

from __future__ import annotations

from .directory import byte_tokenizer, load_tokenizer
from .encoding import Batch, Encoding
from .tokenizer import Tokenizer
from .train import train_byte_level_bpe, train_wordpiece_by_frequency
from .vocabulary import check_vocabulary

__all__ = [
    "Batch",
    "Encoding",
    "Tokenizer",
    "byte_tokenizer",
    "check_vocabulary",
    "load_tokenizer",
    "train_byte_level_bpe",
    "train_wordpiece_by_frequency",
]
