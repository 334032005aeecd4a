"""What one tensor of a forward pass is to :mod:`variorum.spec.shapes`: its name, its axes, what it costs to make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from variorum.spec.norms import Norm


class Axis(NamedTuple):
    """One axis: the letters that stand for it, and how long it is."""

    letters: str
    size: int


class Named(NamedTuple):
    """One tensor.

    ``flops`` is what making it costs, two a multiply-add, and ``formula`` the same per token in letters (per pass where
    no axis is a token). ``module`` says whether a module of this name puts it out; ``written`` whether it is new memory
    rather than another row's under a second name (attention maps, which fused kernels never write, are not).
    """

    name: str
    axes: tuple[Axis, ...]
    flops: int = 0
    formula: str = ""
    module: bool = True
    written: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def letters(self) -> str:
        """The axes in letters, as in ``B T H·d``."""
        return " ".join(axis.letters for axis in self.axes)

    @property
    def per(self) -> str:
        """What it is made once for: a ``token``, a ``sequence``, or the whole ``pass``."""
        letters = {axis.letters for axis in self.axes}
        if letters & TOKENS:
            return "token"
        return "sequence" if "B" in letters else "pass"


TOKENS = {"T", "S", "M+T", "B·T", "B·S", "B·T·k", "B·S·k"}
ONE = Axis("1", 1)
Rows = Iterator[Named]


class Scene(NamedTuple):
    """What a stack runs on: its batch, tokens and keys, the width, and an encoder's tokens where it crosses over.

    ``read`` are the tokens whose keys and values are made, where remembered ones are among them.
    """

    batch: Axis
    tokens: Axis
    keys: Axis
    width: Axis
    source: Axis | None = None
    read: Axis | None = None

    @property
    def lead(self) -> tuple[Axis, Axis]:
        """The two axes of a token stream."""
        return self.batch, self.tokens


def keys_seen(window: int | None, causal: bool, context: int) -> int:
    """How many of ``context`` keys one query sees: W under a causal window, W/2 to each side and itself otherwise."""
    if not window:
        return context
    return min(context, window if causal else 2 * (window // 2) + 1)


def linear(name: str, lead: tuple[Axis, ...], fan_in: Axis, out: Axis, *, module: bool = True) -> Named:
    """A product with a matrix of ``fan_in`` × ``out``, for every place of ``lead``."""
    flops = 2 * math.prod(axis.size for axis in lead) * fan_in.size * out.size
    return Named(name, (*lead, out), flops, f"2·{fan_in.letters}·{out.letters}", module)


def norm_rows(name: str, norm: Norm | None, axes: tuple[Axis, ...]) -> Rows:
    """A norm, where there is one."""
    if norm is not None:
        yield Named(name, axes)
