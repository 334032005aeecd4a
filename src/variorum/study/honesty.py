"""Are verdicts honest? Thousands of simulated studies in which no arm is better than another.

Every arm is drawn from one distribution: an effect of its seed, one of each item, and one of both together. A verdict
in such a study is false. Studies are drawn until their last look, and every claim is judged at every look by the very
functions that judge a real study.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from variorum.study.statistics import FAMILY_ALPHA, corrected_alpha, decide
from variorum.tasks.metrics.classes import macro_f1
from variorum.tasks.metrics.paired import Components, crossed, jackknifed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Source = Literal["seed", "item", "residual"]
Items = Literal["normal", "heavy-tailed", "right or wrong", "macro-F1"]

ITEMS, GROUPS, CLASSES = 200, 20, 3
"""Items of a study; the groups that the jackknife leaves out, of 10 each; classes of which macro-F1 is the mean."""
SHARES = (0.5, 0.3, 0.2)
"""How many items are of each class."""
MINOR = 0.3
"""Standard deviation of the two smaller effects, where the dominant one has 1."""
DIFFICULTY = 1.0
"""How much items differ in difficulty, where an item is right or wrong; arms differ as much in skill between seeds,
where that dominates, so that scores swing from bound to bound."""
TAIL = 3
"""Degrees of freedom of heavy-tailed effects: of Student's t with a variance, the wildest."""
LOOKS = {3: (3, 5, 8), 5: (5, 8, 12)}
"""Seed counts at which a study that begins with so many is read, where it is read three times."""
COVERED = {"macro-F1": 0.90}
"""Share of intervals that must hold the truth, where that is not 1 - 0.05."""
SLACK = 0.99
"""A share is honest up to this quantile of what chance makes of it in so many studies."""


class Setting(NamedTuple):
    """One kind of study: first look, the effect that dominates, the kind of items, claims and looks."""

    seeds: int
    dominant: Source
    items: Items
    claims: int
    looks: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Seed counts at which it is read."""
        return LOOKS[self.seeds][: self.looks]


class Honesty(NamedTuple):
    """What happened in ``studies`` studies of one setting.

    Attributes:
        false: share of studies with any verdict, of any claim at any look. most: the largest share that is honest.
        covered: share of intervals that hold the truth. least: the smallest share that is honest.
    """

    setting: Setting
    studies: int
    false: float
    most: float
    covered: float
    least: float

    @property
    def honest(self) -> bool:
        """Whether both promises hold."""
        return self.false <= self.most and self.covered >= self.least


def settings() -> Iterator[Setting]:
    """Every setting that is simulated."""
    for each in itertools.product(LOOKS, get_args(Source), get_args(Items), (1, 4), (1, 3)):
        yield Setting(*each)


def simulate(setting: Setting, *, studies: int = 2000, seed: int = 0) -> Honesty:
    """Run ``studies`` studies of ``setting`` in which nothing is to be found.

    Args:
        seed: of the simulation; each setting draws from a stream of its own.
    """
    import numpy as np

    rng = np.random.default_rng([seed, *"/".join(map(str, setting)).encode()])
    alpha = corrected_alpha(claims=setting.claims, looks=setting.looks)
    draw = _draw_f1 if setting.items == "macro-F1" else _draw_items
    false = held = 0
    for _ in range(studies):
        parts = draw(setting, rng)
        judged = [
            decide(parts(claim, seeds), alpha=alpha, looks=setting.counts)
            for claim in range(setting.claims)
            for seeds in setting.counts
        ]
        false += any(verdict in ("supported", "refuted") for _, _, verdict in judged)
        held += sum(low <= 0.0 <= high for low, high, _ in judged)
    intervals = studies * setting.claims * setting.looks
    share = COVERED.get(setting.items, 1 - FAMILY_ALPHA)
    return Honesty(
        setting, studies, false / studies, _by_chance(FAMILY_ALPHA, studies), held / intervals,
        1 - _by_chance(1 - share, studies),
    )  # fmt: skip


def _by_chance(share: float, studies: int) -> float:
    """The largest share of ``studies`` that is not yet surprising where the true one is ``share``."""
    from scipy.stats import binom

    return float(binom.ppf(SLACK, studies, share)) / studies


Parts = Callable[[int, int], Components]
"""(claim, seeds so far) to components of the difference between the claimed arm and the one that all are held to."""


def _latent(setting: Setting, rng: np.random.Generator) -> Array:
    """How good each arm is with each seed on each item, [arms, seeds, items]; arms differ by chance alone."""
    arms, seeds = setting.claims + 1, setting.counts[-1]
    shapes = {"seed": (arms, seeds, 1), "item": (arms, 1, ITEMS), "residual": (arms, seeds, ITEMS)}

    def effect(source: str) -> Array:
        if setting.items == "heavy-tailed":
            drawn = rng.standard_t(TAIL, shapes[source]) / math.sqrt(TAIL / (TAIL - 2))
        else:
            drawn = rng.standard_normal(shapes[source])
        return drawn * (1.0 if source == setting.dominant else MINOR)

    return effect("seed") + effect("item") + effect("residual")


def _right(scores: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether a skill is enough for each item."""
    return scores + DIFFICULTY * rng.standard_normal(ITEMS) > 0


def _draw_items(setting: Setting, rng: np.random.Generator) -> Parts:
    """A study whose score is a mean over items."""
    scores = _latent(setting, rng)
    if setting.items == "right or wrong":
        scores = _right(scores, rng).astype(float)
    gains = scores[1:] - scores[0]
    return lambda claim, seeds: crossed(gains[claim, :seeds])


def _draw_f1(setting: Setting, rng: np.random.Generator) -> Parts:
    """A study whose score is macro-F1."""
    import numpy as np

    scores = _latent(setting, rng)
    truth = rng.choice(CLASSES, ITEMS, p=SHARES)
    right = _right(scores, rng)
    guess = (truth + rng.integers(1, CLASSES, ITEMS)) % CLASSES  # what is mistaken for what is the item's doing
    predicted = np.where(right, truth, guess)
    each = np.eye(CLASSES * CLASSES, dtype=np.int64)[truth * CLASSES + predicted]
    by_group = each.reshape(*scores.shape[:2], GROUPS, ITEMS // GROUPS, CLASSES, CLASSES).sum(3)
    whole = by_group.sum(2)
    left = macro_f1(whole[:, :, None] - by_group)
    gains, left_gains = (of[1:] - of[0] for of in (macro_f1(whole), left))
    return lambda claim, seeds: jackknifed(gains[claim, :seeds], left_gains[claim, :seeds].mean(0))
