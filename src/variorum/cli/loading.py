"""What the verbs that need weights share: the options of loading, and a model from a reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.face import Model

DType = Literal["float32", "float64", "bfloat16", "float16"]
Weights = Literal["float32", "int8"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a model is found and where it runs.

    Args:
        revision: A branch, tag or commit, where the model is a repository.
        download: Fetch what the cache lacks; without it nothing touches the network.
        device: Where the model runs: cpu, cuda or cuda:N.
    """

    revision: str | None = None
    download: bool = False
    device: str = "cpu"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loading(Place):
    """How a model is found and loaded.

    Args:
        dtype: What weights are converted to.
        weights: Run the model's form for inference on a CPU, its matrices held as float32 or as int8.
    """

    dtype: DType = "float32"
    weights: Weights | None = None


PLAIN = Loading()


def load(reference: str, loading: Loading, *, head: str | Sequence[str] | None = "auto") -> Model:
    """The model that ``reference`` means, ready to run.

    Raises:
        UsageError: a device that is not there. Further kinds as :func:`variorum.face.load`.
    """
    from variorum.hub import locate, spec_named

    place = locate(reference, revision=loading.revision, download=loading.download)  # before torch: it may not exist
    from variorum.face import load as load_model

    check_device(loading.device)
    model = load_model(place, head=head, dtype=loading.dtype, device=loading.device, weights=loading.weights)
    model.origin.asked = spec_named(reference.partition("@")[0])
    return model


def check_device(name: str) -> None:
    """See that a device can be used.

    Raises:
        UsageError: it cannot, or there is no such thing.
    """
    import torch

    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().splitlines()[0][:120]
        raise UsageError(f"cannot be used ({first})", where=f"device {name}", remedy="use --device cpu") from None
