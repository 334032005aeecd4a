"""What work makes room for, counted from the operations themselves and not from the machine that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def largest(work: Callable[[], object]) -> int:
    """Bytes of the largest tensor that any operation of ``work`` makes."""
    with _Largest() as watch:
        work()
    return watch.bytes


class _Largest(TorchDispatchMode):
    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.bytes = max([self.bytes, *made])
        return result


def kept(work: Callable[[], Tensor]) -> int:
    """Bytes that ``work`` keeps for its gradient, each tensor once."""
    storages: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with saved_tensors_hooks(keep, lambda x: x):
        held = work()
    assert held.grad_fn is not None
    return sum(storages.values())
