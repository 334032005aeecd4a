"""In which numbers entries are kept: as the model computes them, or as int8 with a scale for each token and head."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from variorum.spec.cache import Numbers

Entries = tuple[Tensor, ...]


class Form(Protocol):
    """Entries are tensors [B, heads, T, channels]; what is held of them may be more tensors of the first three axes."""

    def encode(self, entries: Entries) -> Entries:
        """What is held."""

    def decode(self, held: Entries, dtype: torch.dtype) -> Entries:
        """What attention reads."""


class Plain:
    """As they are."""

    def encode(self, entries: Entries) -> Entries:
        return entries

    def decode(self, held: Entries, dtype: torch.dtype) -> Entries:
        return held


class Int8:
    """Each token of each head as whole numbers from -127 to 127 and one float32 scale: off by half a step at most.

    New entries are read back as they are held, so that it does not matter in which pieces a text comes.
    """

    def encode(self, entries: Entries) -> Entries:
        """Every tensor [..., channels] as int8 of that shape, then its scales [..., 1]."""
        held: list[Tensor] = []
        for entry in entries:
            scale = (entry.detach().abs().amax(-1, keepdim=True) / 127).float().clamp(min=torch.finfo(torch.float).tiny)
            held += [(entry.detach() / scale).round().clamp(-127, 127).to(torch.int8), scale]
        return tuple(held)

    def decode(self, held: Entries, dtype: torch.dtype) -> Entries:
        return tuple(whole.to(dtype) * scale.to(dtype) for whole, scale in zip(held[::2], held[1::2], strict=True))


PLAIN = Plain()
FORMS: dict[Numbers, Form] = {"model": PLAIN, "int8": Int8()}
