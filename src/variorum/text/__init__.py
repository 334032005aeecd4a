"""Text in, ids out, and back: published tokenizers, trained ones, readers and the shipped corpora.

Nothing here imports torch, and a name is loaded when it is first used. The stable face is what this file exports; see
:class:`Tokenizer` for what one can do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .directory import byte_tokenizer, load_tokenizer
    from .encoding import Batch, Encoding
    from .tokenizer import Tokenizer
    from .train import train_byte_level_bpe, train_wordpiece, train_wordpiece_by_frequency
    from .vocabulary import check_vocabulary

_HOMES = {
    "Batch": "encoding",
    "Encoding": "encoding",
    "Tokenizer": "tokenizer",
    "byte_tokenizer": "directory",
    "check_vocabulary": "vocabulary",
    "load_tokenizer": "directory",
    "train_byte_level_bpe": "train",
    "train_wordpiece": "train",
    "train_wordpiece_by_frequency": "train",
}

__all__ = [
    "Batch",
    "Encoding",
    "Tokenizer",
    "byte_tokenizer",
    "check_vocabulary",
    "load_tokenizer",
    "train_byte_level_bpe",
    "train_wordpiece",
    "train_wordpiece_by_frequency",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
