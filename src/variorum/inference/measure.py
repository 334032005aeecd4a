"""A model run once, to hold what its spec says it costs against what it does cost.

Its weights are fresh: what a pass takes does not depend on their values.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from variorum.attention.cache import Cache
from variorum.builder import build
from variorum.model import Model
from variorum.spec.inputs import MelInput, PatchInput
from variorum.spec.model import Model as Spec
from variorum.spec.size import size

Unit = Literal["count", "FLOP", "bytes", "seconds"]


@dataclasses.dataclass(frozen=True)
class Measured:
    """One figure as the spec tells it (``None``: it does not) and as it was seen."""

    figure: str
    unit: Unit
    predicted: float | None
    observed: float


class Written(TorchDispatchMode):
    """Counts the bytes of every tensor that is made, and how many are held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.held = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **kwargs or {})
        # What an operation was given and gives back, whole or in part, is not written anew.
        given = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        for one in tree_leaves(out):
            if isinstance(one, Tensor) and one.untyped_storage()._cdata not in given | self._known:
                self._count(one)
        return out

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, taken = storage._cdata, storage.nbytes()
        self._known.add(key)
        self.bytes += taken
        self.held += taken
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._free, key, taken)

    def _free(self, key: int, taken: int) -> None:
        self._known.discard(key)
        self.held -= taken


def measure(
    spec: Spec, *, heads: Sequence[str] = (), context: int, batch: int = 1, dtype: str = "float32", device: str = "cpu"
) -> list[Measured]:
    """Build ``spec``, run it on ``batch`` random inputs of ``context`` tokens, and count.

    FLOPs are what torch counts, matrix products alone. Activations are all tensors written in one pass, among them the
    intermediate ones that a spec does not name; attention maps are not, where a fused kernel keeps them to itself.

    Args:
        spec: the model.
        heads: those to score with.
        context: tokens of each sequence, and of the decoder's in an encoder-decoder.
        batch: sequences.
        dtype: of weights and activations.
        device: where it runs.
    """
    told = size(spec, head=heads, context=context, batch=batch, dtype=dtype)
    model = build(spec, head=heads).to(device=device, dtype=getattr(torch, dtype))
    given = inputs(spec, context, batch, dtype, device)
    with torch.no_grad():
        fused, model.backend = model.backend, "eager"  # torch does not count what a fused kernel does
        with FlopCounterMode(display=False) as flops:
            model(**given)
        model.backend = fused
        with Written() as written:
            out = model(**given)
        del out
        began = time.perf_counter()
        model(**given)
        took = time.perf_counter() - began
        kept = _kept(model, given)
    parameters = list(model.parameters())
    return [
        Measured("parameters", "count", told.parameters, sum(p.numel() for p in parameters)),
        Measured("weights", "bytes", told.weight_bytes, sum(p.numel() * p.element_size() for p in parameters)),
        Measured("FLOPs of one pass", "FLOP", told.forward_flops, flops.get_total_flops()),
        Measured("activations written in one pass", "bytes", told.activations, written.bytes),
        Measured("activations held at once", "bytes", None, written.peak),
        Measured("cache", "bytes", told.cache, kept),
        Measured("time of one pass", "seconds", None, took),
    ]


def inputs(spec: Spec, context: int, batch: int, dtype: str, device: str) -> dict[str, Tensor]:
    """Random inputs of the kind that ``spec`` reads, by the names under which it takes them."""
    drawn = torch.Generator().manual_seed(0)
    arch = spec.architecture
    found: dict[str, Tensor] = {}
    sources = {name: stack.input for name, stack in arch.stacks.items()} or {"recurrent": arch.source}
    for name, reads in sources.items():
        if isinstance(reads, PatchInput):
            shape = (batch, reads.channels, reads.image, reads.image)
            value = torch.randn(shape, generator=drawn).to(getattr(torch, dtype))
        elif isinstance(reads, MelInput):
            value = torch.randn((batch, reads.mels, 2 * context), generator=drawn).to(getattr(torch, dtype))
        else:
            value = torch.randint(reads.vocab, (batch, context), generator=drawn)
        second = name == "decoder" and arch.encoder is not None
        found["decoder_input_ids" if second else reads.reads] = value.to(device)
    return found


def _kept(model: Model, given: dict[str, Tensor]) -> int:
    """Bytes that stay after a text has been read, for the tokens that follow it."""
    if not model.spec.architecture.stacks:
        return 0
    if model.spec.architecture.main.memory:
        states = model(**given).memory or []
        return sum(state.numel() * state.element_size() for state in states)
    if not model.is_decoder:
        return 0
    cache = Cache()
    model(**given, cache=cache)
    return cache.bytes
