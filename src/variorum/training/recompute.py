"""Gradient checkpointing: each layer keeps its input only, and computes the rest once more in the backward pass.

The values are the same to the last bit, dropout included. The first layer of a stack keeps everything: tables that all
layers share (T5's buckets, DeBERTa's) are looked up there, and a second look-up would be another computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def recompute_layers(networks: Iterable[torch.nn.Module]) -> None:
    """Make the layers of every stack in ``networks`` forget what they can compute again."""
    from variorum.attention.stack import Stack

    for network in networks:
        for module in network.modules():
            if isinstance(module, Stack):
                for layer in list(module.layers)[1:]:
                    layer.forward = partial(_forgetful, layer, layer.forward)


def _forgetful(layer: torch.nn.Module, forward: Callable[..., Any], *given: Any, **more: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    if not layer.training:
        return forward(*given, **more)
    return checkpoint(forward, *given, use_reentrant=False, **more)
