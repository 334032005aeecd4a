"""A text's vector from its tokens' states, for engines that give arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def tokenizer(model: str, longest: int | None = None) -> Any:
    """The directory's fast tokenizer without padding; texts are cut to ``longest`` tokens."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(f"{model}/tokenizer.json")
    found.no_padding()
    if longest is None:
        found.no_truncation()
    else:
        found.enable_truncation(longest)
    return found


def mean(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean of real tokens at length 1: states [B, T, D] and mask [B, T] to [B, D]."""
    summed = np.einsum("btd,bt->bd", states, mask.astype(states.dtype))
    found: np.ndarray = summed / np.linalg.norm(summed, axis=1, keepdims=True)
    return found


def padded(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ids [B, T] and their mask, int64."""
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros((len(rows), longest), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask
