"""Numbers that follow from a spec alone, on the device where a step reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

import torch
from torch import Tensor


def copied(make: Callable[..., Tensor], *of: Hashable, device: torch.device, dtype: torch.dtype) -> Tensor:
    """``make(*of)``, whatever its shape, as it lies on ``device``, which gets it once.

    Every copy makes a device wait for the host, and a recorded step may not wait.
    """
    return _copied(make, of, device, dtype)


@functools.lru_cache(maxsize=256)
def _copied(make: Callable[..., Tensor], of: tuple[Hashable, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # what is kept may be read in training later
        return make(*of).to(device, dtype)
