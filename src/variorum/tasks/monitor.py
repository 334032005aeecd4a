"""Whether what a model meets now is still what it met when it was judged, signal by signal.

Each signal gets two figures. The population-stability index says how large a change is, whatever the number of items.
A two-sample test says whether chance explains it: chi-squared for kinds (the classes given, languages), Kolmogorov and
Smirnov's for numbers (confidence, length), Hotelling's T² for the mean of vectors. Holm's correction over the signals
of one comparison keeps the chance of any false alarm below ``alpha``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.tasks.profile import FEWEST, Profile, Signals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

#: Chance of any false alarm in one comparison. One in a hundred: a monitor that runs daily is heard three times a year.
ALPHA = 0.01
VECTORS = "vectors"
BINS = 10
#: A kind has to be expected so often for the chi-squared distribution to hold; rarer ones are taken together.
EXPECTED = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One signal, then and now.

    Attributes:
        signal: its name. change: what changed most, in words.
        psi: population-stability index, 0 for equal shares; above 0.1 is commonly held to be some change, above 0.25
            a large one.
        test: which; p: its p-value after Holm's correction. drifted: whether that is at most alpha.
    """

    signal: str
    change: str
    psi: float
    test: str
    p: float
    drifted: bool = False


def compare(then: Signals, now: Signals, *, alpha: float = ALPHA) -> list[Finding]:
    """What changed, one finding for each signal that both have.

    Args:
        then: the reference. now: a window of later items, its vectors along the same directions.
        alpha: chance of any false alarm.

    Raises:
        UsageError: no items, or no signal in common.
    """
    if not len(now) or not len(then):
        raise UsageError("there is nothing to compare", remedy="give some items")
    found = [_kinds(name, then.kinds[name], now.kinds[name]) for name in then.kinds if name in now.kinds]
    found += [_numbers(name, then.numbers[name], now.numbers[name]) for name in then.numbers if name in now.numbers]
    if then.vectors is not None and now.vectors is not None:
        found.append(_means(then.vectors, now.vectors))
    if not found:
        raise UsageError("the reference and the items have no signal in common")
    corrected = holm([one.p for one in found])
    return [replace(one, p=p, drifted=p <= alpha) for one, p in zip(found, corrected, strict=True)]


def holm(p: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979), in the same order."""
    order = sorted(range(len(p)), key=p.__getitem__)
    corrected, worst = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = worst
    return corrected


def stability(then: Floats, now: Floats) -> float:
    """The population-stability index of two sets of counts [bins], half an item added to each so that none is empty."""
    import numpy as np

    was, is_ = ((counts + 0.5) / (counts + 0.5).sum() for counts in (then, now))
    return float(((is_ - was) * np.log(is_ / was)).sum())


def _kinds(name: str, then: Sequence[str], now: Sequence[str]) -> Finding:
    import numpy as np
    from scipy.stats import chi2_contingency

    kinds = sorted({*then, *now})
    place = {kind: i for i, kind in enumerate(kinds)}
    counts = np.array([np.bincount([place[one] for one in seen], minlength=len(kinds)) for seen in (then, now)], float)
    expected = counts.sum(0) * min(len(then), len(now)) / counts.sum()
    common = counts[:, expected >= EXPECTED]
    rest = counts.sum(1, keepdims=True) - common.sum(1, keepdims=True)
    table = np.hstack([common, rest])[:, np.append(common.sum(0), rest.sum()) > 0]
    p = float(chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0
    shares = counts / counts.sum(1, keepdims=True)
    most = int(np.abs(shares[1] - shares[0]).argmax())
    change = f"{kinds[most]} {shares[0, most]:.1%} → {shares[1, most]:.1%}"
    return Finding(signal=name, change=change, psi=stability(*counts), test="chi-squared", p=p)


def _numbers(name: str, then: Floats, now: Floats) -> Finding:
    import numpy as np
    from scipy.stats import ks_2samp

    middle = [float(np.median(values)) for values in (then, now)]
    change = f"median {middle[0]:.4g} → {middle[1]:.4g}"
    return Finding(
        signal=name, change=change, psi=_binned(then, now), test="Kolmogorov–Smirnov",
        p=float(ks_2samp(then, now, method="asymp").pvalue),
    )  # fmt: skip


def _means(then: Floats, now: Floats) -> Finding:
    """Hotelling's two-sample test of the mean vector; the index is that of the distances from the reference's mean."""
    import numpy as np
    from scipy.stats import f

    spread = then.std(0)
    kept = spread > 1e-9 * max(float(spread.max()), 1e-300)
    then, now = (values[:, kept] / spread[kept] for values in (then, now))
    n, m, k = len(then), len(now), int(kept.sum())
    gap = now.mean(0) - then.mean(0)
    # Rounded, so that equal texts stay equal: a vector is float32.
    distances = [np.sqrt(((values - then.mean(0)) ** 2).sum(1)).round(5) for values in (then, now)]
    finding = Finding(
        signal=VECTORS, change=f"mean moved by {np.sqrt((gap**2).sum()):.2g} spreads", psi=_binned(*distances),
        test="Hotelling", p=1.0,
    )  # fmt: skip
    freedom = n + m - k - 1
    if not k or freedom < 1 or m < 2:
        return finding
    pooled = ((n - 1) * np.cov(then.T) + (m - 1) * np.cov(now.T)).reshape(k, k) / (n + m - 2)
    squared = n * m / (n + m) * float(gap @ np.linalg.pinv(pooled) @ gap)
    return replace(finding, p=float(f.sf(squared * freedom / (k * (n + m - 2)), k, freedom)))


def _binned(then: Floats, now: Floats) -> float:
    """The index of two samples, over tenths of the first; fewer where many of its values are equal."""
    import numpy as np

    edges = np.unique(np.quantile(then, np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(edges, values, "left"), minlength=len(edges) + 1) for values in (then, now)]
    return stability(*(one.astype(float) for one in counts))


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """How the monitor does on items whose truth is known.

    Attributes:
        items: they were drawn from. size: items of a window. windows: of each sort.
        false_alarms: share of windows without any change that raised an alarm.
        shift: by which the share of one class was moved, found: share of such windows that raised one.
    """

    items: int
    size: int
    windows: int
    false_alarms: float
    shift: float
    found: float


def rehearse(
    signals: Signals, groups: Sequence[str], *, size: int = 500, windows: int = 200, shift: float = 0.2,
    alpha: float = ALPHA, seed: int = 0,
) -> Rehearsal:  # fmt: skip
    """Count false alarms, and class shifts found, over many windows drawn from items that are alike.

    For a false alarm the items are split by chance into a window and a reference. For a shift, a window is drawn from
    one half of them so that one class's share differs by ``shift``, each class in turn, and compared with the other.

    Args:
        signals: of N held-out items. groups: the class of each, true where it is known.

    Raises:
        UsageError: fewer items than two windows, or one class only.
    """
    import numpy as np

    if len(signals) < max(2 * size, FEWEST):
        raise UsageError(f"{len(signals)} items do not give windows of {size}", remedy=f"give {2 * size:,} or more")
    names = sorted(set(groups))
    if len(names) < 2:
        raise UsageError("a shift needs two classes", remedy="give labelled items of several")
    chance, classes = np.random.default_rng(seed), np.array([names.index(group) for group in groups])
    profile = Profile.of(signals)
    signals = profile.seen(signals)

    def alarms(window: Rows, reference: Rows) -> bool:
        return any(one.drifted for one in compare(signals.at(reference), signals.at(window), alpha=alpha))

    false = found = 0
    for number in range(windows):
        order = chance.permutation(len(signals))
        false += alarms(order[:size], order[size:])
        pool, reference = np.array_split(order, 2)
        weights = _shifted(classes[pool], number % len(names), shift)
        found += alarms(chance.choice(pool, size, p=weights), reference)
    return Rehearsal(
        items=len(signals), size=size, windows=windows, false_alarms=false / windows, shift=shift, found=found / windows
    )


def _shifted(classes: NDArray[np.int64], which: int, shift: float) -> Floats:
    """Chances of items [n] with which one class is drawn that much more often, or less where there is no room."""
    import numpy as np

    is_it = classes == which
    share = float(is_it.mean())
    wanted = share + shift if share + shift <= 1 else share - shift
    weights = np.where(is_it, wanted / max(1, is_it.sum()), (1 - wanted) / max(1, (~is_it).sum()))
    return np.asarray(weights / weights.sum())
