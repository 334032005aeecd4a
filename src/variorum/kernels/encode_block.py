"""A whole encoder block for a few rows in one call; the compiled form is in ``encode.c``.

Its products read weights of their own, in panels of as many columns as registers hold sums of. Above :data:`FEW` rows a
library's products are as quick, and nothing here is worth its memory.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from variorum.kernels.compiled import library
from variorum.kernels.encode import ACTIVATIONS, Heads, Norm, Placement, Texts, activate, attend, join, structure
from variorum.kernels.products import address

FEW = 128
PLACES = tuple(f"{part}_{place}" for part in ("attends", "feeds") for place in ("before", "after", "join"))
"""Where norms may stand: before what a sublayer reads, after what it gives, and on the sum."""

_Linear = structure("_Linear", pointers="panels bias", ints="inputs outputs")
_Norm = structure("_Norm", pointers="weight shift", ints="centred", floats="eps unit")
_Passage = structure("_Passage", pointers="x out room starts turn near", ints="texts pairs reach")


class _Block(ctypes.Structure):
    """``block`` of encode.c."""

    _fields_ = (
        *((name, _Linear) for name in ("project", "out", "gate", "up", "down")),
        *((place, _Norm) for place in PLACES),
        *((name, ctypes.c_int64) for name in ("width", "heads", "kv_heads", "size", "window", "kind", "keeps_normed")),
        ("scale", ctypes.c_float),
    )


class Product:
    """x [rows, in] · Wᵀ + bias of linears that read the same x, side by side."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        self.linears = tuple(linears)
        weights = [one.weight.detach() for one in linears]
        self.width = sum(map(len, weights))
        self.bias = torch.cat([w.new_zeros(len(w)) if one.bias is None else one.bias.detach()
                               for one, w in zip(linears, weights, strict=True)])  # fmt: skip
        loops = library("encode")
        self.panels = None if loops is None else _panels(torch.cat(weights), int(loops.panel()))

    @property
    def pointer(self) -> ctypes.Structure:
        assert self.panels is not None
        return _Linear(address(self.panels), address(self.bias), self.panels.shape[1], self.width)

    def plain(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, torch.cat([one.weight for one in self.linears]).t())


def _panels(weight: Tensor, wide: int) -> Tensor:
    """[out, in] -> [panels, in, wide]"""
    rows = -(-len(weight) // wide) * wide
    filled = torch.cat((weight, weight.new_zeros(rows - len(weight), weight.shape[1])))
    return filled.view(-1, wide, weight.shape[1]).transpose(1, 2).contiguous()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """The parts of a block and how they are put together.

    ``keeps_normed``: the residual stream is what a sublayer reads, not what came before its norm.
    """

    heads: Heads
    project: Product
    out: Product
    gate: Product | None
    up: Product
    down: Product
    activation: str
    norms: Mapping[str, Norm]
    keeps_normed: bool = False

    def __post_init__(self) -> None:
        if self.up.panels is None:
            return
        linears, heads = (self.project, self.out, self.gate, self.up, self.down), self.heads
        inner, norms = self.out.linears[0].in_features, [_norm(self.norms.get(place)) for place in PLACES]
        made = _Block(
            *(_Linear() if one is None else one.pointer for one in linears), *norms, self.out.width, heads.heads,
            heads.kv_heads, inner // heads.heads, -1 if heads.window is None else heads.window,
            ACTIVATIONS.index(self.activation), self.keeps_normed, heads.scale,
        )  # fmt: skip
        object.__setattr__(self, "pointer", ctypes.pointer(made))
        object.__setattr__(self, "room", self.project.width + inner + 3 * self.out.width + 2 * self.up.width)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    pointer: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    room: int = dataclasses.field(init=False, repr=False, compare=False, default=0)

    def run(self, x: Tensor, texts: Texts, placement: Placement) -> Tensor:
        """x [tokens, D] of texts end to end, after the block; contiguous float32."""
        loops = library("encode")
        if loops is None or self.pointer is None:
            return self.run_plain(x, texts, placement)
        turn, near = placement.turn, placement.near
        out, room = torch.empty_like(x), x.new_empty(len(x) * self.room)
        loops.read_block(self.pointer, ctypes.byref(_Passage(
            address(x), address(out), address(room), address(texts.starts), address(turn), address(near),
            len(texts.lengths), 0 if turn is None else turn.shape[-1], 0 if near is None else near.shape[-1] // 2,
        )))  # fmt: skip
        return out

    def run_plain(self, x: Tensor, texts: Texts, placement: Placement) -> Tensor:
        """The definition of :meth:`run`."""
        read = self._normed("attends_before", x)
        q, k, v = (one(read) for one in self.project.linears)
        mixed = attend((q, k, v), (None, None, None), self.heads, texts, placement)
        made = self._normed("attends_after", self.out.plain(mixed))
        x = self._normed("attends_join", (read if self.keeps_normed else x) + made)
        read = self._normed("feeds_before", x)
        up = self.up.plain(read)
        fed = activate(self.activation, *((up, None) if self.gate is None else (self.gate.plain(read), None, up)))
        made = self._normed("feeds_after", self.down.plain(fed))
        return self._normed("feeds_join", (read if self.keeps_normed else x) + made)

    def _normed(self, place: str, x: Tensor) -> Tensor:
        norm = self.norms.get(place)
        return x if norm is None else join(x, None, None, norm)


def _norm(norm: Norm | None) -> ctypes.Structure:
    if norm is None:
        return _Norm()
    return _Norm(address(norm.weight), address(norm.shift), norm.centred, norm.eps, norm.unit)
