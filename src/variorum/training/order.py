"""In which order rows are read: a fresh shuffle for each epoch, every row once, any place of it found at once.

A shuffle is computed, not stored: a keyed permutation of the numbers below a power of four (a Feistel network of four
rounds), walked until it lands among the rows (Black and Rogaway 2002, section 3). Nothing is drawn for the places
before, so a run that stands at step one million starts there in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from variorum.errors import UsageError
from variorum.training.streams import DATA_ORDER, stream_seed

ROUNDS = 4
Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """The order of ``rows`` rows in run ``seed``, epoch after epoch."""

    rows: int
    seed: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise UsageError("there is not one row of text", where="data order", remedy="use more text or shorter rows")

    def __call__(self, first: int, count: int) -> Rows:
        """The row numbers at places ``first`` to ``first + count``, counted through all epochs, int64 [count]."""
        places = np.arange(first, first + count, dtype=np.int64)
        epochs = places // self.rows
        found = np.empty(count, np.int64)
        for epoch in np.unique(epochs):
            mine = epochs == epoch
            found[mine] = self._permuted(places[mine] % self.rows, int(epoch))
        return found

    def _permuted(self, numbers: Rows, epoch: int) -> Rows:
        half = max(1, (max(1, self.rows - 1).bit_length() + 1) // 2)
        keys = [np.uint64(stream_seed(self.seed, f"{DATA_ORDER}/{epoch}/{i}")) for i in range(ROUNDS)]
        found = _feistel(numbers, half, keys)
        while (outside := found >= self.rows).any():
            found[outside] = _feistel(found[outside], half, keys)
        return found


def _feistel(numbers: Rows, half: int, keys: list[np.uint64]) -> Rows:
    """A permutation of the numbers below 4 ** half."""
    mask = np.uint64((1 << half) - 1)
    left, right = numbers.astype(np.uint64) >> np.uint64(half), numbers.astype(np.uint64) & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ key) & mask)
    return ((left << np.uint64(half)) | right).astype(np.int64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return found
