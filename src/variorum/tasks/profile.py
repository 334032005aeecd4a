"""What a model's inputs and answers look like while all is well: the reference that later ones are compared with.

Of each item only figures are kept, never its text: the class it was given and how surely, its length, its share of
unknown tokens, its language, and where its vector lies along a few directions. A profile is one file in the model's
directory, of safetensors' format under another name: it holds no weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.errors import DamagedFile, NotFound, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FILE = "variorum.profile"
FORMAT = "2"
NUMBER, KIND = "number.", "kind."
#: Items that a profile keeps: beyond this many, the window that is compared decides how fine the comparison is.
MOST = 4000
#: Directions in which vectors are compared: those in which the reference varies most.
DIRECTIONS = 16
FEWEST = 50


def read(directory: Path) -> Profile:
    """The profile that a trained task was saved with.

    Raises:
        NotFound: it was saved without one. DamagedFile: it is damaged.
    """
    path = directory / FILE
    if not path.is_file():
        raise NotFound(f"holds no {FILE}, so nothing is known of better days", where=str(directory),
                       remedy="give --reference with rows that it did not learn from")  # fmt: skip
    return Profile.from_bytes(path.read_bytes(), str(path))


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What is known of N items.

    Attributes:
        kinds: by name, something of a few kinds for each item: the class it was given, its language.
        numbers: by name, a figure for each item [N]: confidence, length, share of unknown tokens.
        vectors: where each item lies [N, D or K]; ``None`` where there are no vectors.
    """

    kinds: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Floats]
    vectors: Floats | None = None

    def __post_init__(self) -> None:
        lengths = {len(values) for values in self._columns}
        lengths |= set() if self.vectors is None else {len(self.vectors)}
        if len(lengths) != 1:
            raise UsageError("signals of different numbers of items", where="profile")

    def __len__(self) -> int:
        return len(next(iter(self._columns)))

    @property
    def _columns(self) -> list[Sequence[Any] | Floats]:
        return [*self.kinds.values(), *self.numbers.values()]

    def at(self, rows: NDArray[np.int64]) -> Signals:
        """The items at these rows."""
        return Signals(
            kinds={name: [values[row] for row in rows] for name, values in self.kinds.items()},
            numbers={name: values[rows] for name, values in self.numbers.items()},
            vectors=None if self.vectors is None else self.vectors[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The reference: signals of held-out items, their vectors along ``directions`` [K, D] from ``centre`` [D]."""

    signals: Signals
    centre: Floats | None = None
    directions: Floats | None = None

    @classmethod
    def of(cls, signals: Signals, *, seed: int = 0) -> Profile:
        """The profile of items that the model did not learn from; a sample of :data:`MOST` where there are more.

        Raises:
            UsageError: fewer than :data:`FEWEST` items.
        """
        import numpy as np

        if len(signals) < FEWEST:
            raise UsageError(f"{len(signals)} items are too few for a reference", remedy=f"give {FEWEST} or more")
        if len(signals) > MOST:
            rows = np.random.default_rng(seed).choice(len(signals), MOST, replace=False)
            signals = signals.at(np.sort(rows))
        if signals.vectors is None:
            return cls(signals=signals)
        centre = signals.vectors.mean(0)
        _, _, directions = np.linalg.svd(signals.vectors - centre, full_matrices=False)
        made = cls(signals=signals, centre=centre, directions=directions[:DIRECTIONS])
        return cls(signals=made.seen(signals), centre=centre, directions=made.directions)

    def seen(self, signals: Signals) -> Signals:
        """Other items with their vectors along this profile's directions; without vectors where it has none."""
        if self.directions is None or self.centre is None or signals.vectors is None:
            return Signals(kinds=signals.kinds, numbers=signals.numbers)
        if signals.vectors.shape[1] != len(self.centre):
            raise UsageError(
                f"vectors of {signals.vectors.shape[1]} numbers, and the reference has {len(self.centre)}",
                remedy="make the profile with this model",
            )
        return Signals(
            kinds=signals.kinds,
            numbers=signals.numbers,
            vectors=(signals.vectors - self.centre) @ self.directions.T,
        )

    def to_bytes(self) -> bytes:
        """The profile as a file."""
        import numpy as np
        from safetensors.numpy import save

        kinds = {name: sorted(set(values)) for name, values in self.signals.kinds.items()}
        # Figures keep all their bits: equal ones have to stay equal to those of later items.
        arrays: dict[str, Any] = {f"{NUMBER}{name}": values for name, values in self.signals.numbers.items()}
        for name, values in self.signals.kinds.items():
            place = {kind: i for i, kind in enumerate(kinds[name])}
            arrays[f"{KIND}{name}"] = np.array([place[value] for value in values], dtype=np.int32)
        vectors = {"vectors": self.signals.vectors, "centre": self.centre, "directions": self.directions}
        arrays |= {name: value.astype(np.float32) for name, value in vectors.items() if value is not None}
        named = {"kinds": kinds, "numbers": list(self.signals.numbers)}
        return save(
            {name: np.ascontiguousarray(value) for name, value in arrays.items()},
            metadata={"format": FORMAT, "named": json.dumps(named)},
        )

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Profile:
        """The profile in a file.

        Raises:
            DamagedFile: it is no profile.
        """
        import numpy as np
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            length = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + length])["__metadata__"]
            if header["format"] != FORMAT:
                raise DamagedFile(
                    f"is a profile of format {header['format']!r:.20}, not {FORMAT!r}", where=where,
                    remedy="train the task again",
                )  # fmt: skip
            named, arrays = json.loads(header["named"]), load(content)
            numbers = {name: arrays[f"{NUMBER}{name}"].astype(np.float64) for name in named["numbers"]}
            given = {name: [kinds[i] for i in arrays[f"{KIND}{name}"]] for name, kinds in named["kinds"].items()}
            vectors, centre, directions = (
                arrays[name].astype(np.float64) if name in arrays else None
                for name in ("vectors", "centre", "directions")
            )
            signals = Signals(kinds=given, numbers=numbers, vectors=vectors)
        except (SafetensorError, ValueError, KeyError, IndexError, TypeError, AttributeError, UsageError) as error:
            raise DamagedFile(f"is no profile ({type(error).__name__})", where=where) from None
        return cls(signals=signals, centre=centre, directions=directions)

    def summary(self) -> dict[str, Any]:
        """What a person reads of it: shares of kinds, quantiles of numbers, and how many items there were."""
        import numpy as np

        def shares(values: Sequence[str]) -> dict[str, float]:
            names, counts = np.unique(np.asarray(values), return_counts=True)
            return {str(name): float(count) / len(values) for name, count in zip(names, counts, strict=True)}

        def quantiles(values: Floats) -> dict[str, float]:
            return {f"{q:.0%}": float(np.quantile(values, q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}

        kinds = {name: shares(values) for name, values in self.signals.kinds.items()}
        return {"items": len(self.signals), **kinds,
                **{name: quantiles(values) for name, values in self.signals.numbers.items()}}  # fmt: skip
