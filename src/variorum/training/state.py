"""The whole state of a run as named tensors and plain facts: what is saved, and how it is put back.

Tensors are keyed ``network/parameter``, ``optimiser/parameter/moment`` and ``random/device``; a parameter that several
places share appears once. Nothing is pickled. Where it is kept is :mod:`variorum.training.snapshots`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from variorum.errors import DamagedFile

if TYPE_CHECKING:
    import torch

OPTIMISER, RANDOM = "optimiser", "random"


@dataclass(frozen=True, kw_only=True)
class State:
    """``step`` optimiser steps are done; ``numbers`` are what an optimiser keeps that is no tensor."""

    step: int
    tensors: Mapping[str, torch.Tensor]
    numbers: Mapping[str, Any] = field(default_factory=dict)


def write_state(
    networks: Mapping[str, torch.nn.Module],
    named: Mapping[str, torch.nn.Parameter],
    optimisers: Sequence[torch.optim.Optimizer],
    random: Mapping[str, torch.Tensor],
    step: int,
) -> State:
    """Everything by name."""
    import torch

    tensors = {name: tensor.detach() for name, tensor in _weights(networks)}
    numbers: dict[str, Any] = {}
    names = {id(parameter): name for name, parameter in named.items()}
    for optimiser in optimisers:
        for parameter, kept in optimiser.state.items():
            for key, value in kept.items():
                place = f"{OPTIMISER}/{names[id(parameter)]}/{key}"
                (tensors if isinstance(value, torch.Tensor) else numbers)[place] = value
    tensors |= {f"{RANDOM}/{device}": value for device, value in random.items()}
    return State(step=step, tensors=tensors, numbers=numbers)


def read_state(
    state: State,
    networks: Mapping[str, torch.nn.Module],
    named: Mapping[str, torch.nn.Parameter],
    optimisers: Sequence[torch.optim.Optimizer],
    random: dict[str, torch.Tensor],
) -> int:
    """Put everything back in place; returns the step.

    Raises:
        DamagedFile: a weight is missing or misshapen, or something is left over.
    """
    import torch

    left = {**state.tensors, **state.numbers}
    with torch.no_grad():
        for name, tensor in _weights(networks):
            found = left.pop(name, None)
            if found is None or found.shape != tensor.shape:
                got = "is missing" if found is None else f"has shape {list(found.shape)}, not {list(tensor.shape)}"
                raise DamagedFile(f"{got} in the checkpoint", where=name, remedy="it belongs to another model")
            tensor.copy_(found)
    for optimiser in optimisers:
        _read_optimiser(optimiser, named, left)
    for device in random:
        if f"{RANDOM}/{device}" in left:
            random[device] = _own(left.pop(f"{RANDOM}/{device}"))
    extra = [name for name in left if not name.startswith(f"{RANDOM}/cuda")]
    if extra:
        raise DamagedFile(f"holds {extra[0]!r}, which this run has no place for", where="checkpoint")
    return state.step


def _read_optimiser(
    optimiser: torch.optim.Optimizer, named: Mapping[str, torch.nn.Parameter], left: dict[str, Any]
) -> None:
    """Take the moments of the optimiser's parameters out of ``left``."""
    names = {id(parameter): name for name, parameter in named.items()}
    document = optimiser.state_dict()
    moments: dict[int, dict[str, Any]] = {}
    places = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(places):
        prefix = f"{OPTIMISER}/{names[id(parameter)]}/"
        mine = [name for name in left if name.startswith(prefix)]
        if mine:
            moments[number] = {name.removeprefix(prefix): _own(left.pop(name)) for name in mine}
    optimiser.load_state_dict({**document, "state": moments})


def _own(value: Any) -> Any:
    """A copy in memory of its own: what is mapped from a file is not aligned, and not to be written to."""
    return value.clone() if hasattr(value, "clone") else value


def _weights(networks: Mapping[str, torch.nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter and kept buffer once, as ``network/name``."""
    seen: set[int] = set()
    for key, network in networks.items():
        kept = network.state_dict(keep_vars=True)
        parameters = dict(network.named_parameters())
        buffers = {name: value for name, value in network.named_buffers() if name in kept}
        for name, tensor in {**parameters, **buffers}.items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{key}/{name}", tensor
