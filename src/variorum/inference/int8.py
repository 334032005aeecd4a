"""Linears whose weights are int8 with one scale for each output channel; linears that shared weights still do."""

from __future__ import annotations

from torch import Tensor, nn

from variorum.kernels.dense8 import Codes
from variorum.kernels.int8 import quantised
from variorum.kernels.products import Projection, Weights


class Int8Linear(nn.Module):
    """A decoder's: ``weight`` [rows, columns] in int8 and ``weight_scale`` [rows] multiply its input as it is.

    Few rows are read against all weights, whose bytes are what takes time.
    """

    def __init__(self, plain: nn.Linear, seen: dict[int, Weights]) -> None:
        super().__init__()
        held = seen.setdefault(id(plain.weight), quantised(plain.weight.detach()))
        self.register_buffer("weight", held.weight)
        self.register_buffer("weight_scale", held.scale)
        self.bias = plain.bias
        self.ready()

    def ready(self) -> None:
        self.product = Projection([weights_of(self)])

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x)


class CodedLinear(Int8Linear):
    """An encoder's: each row of its input becomes int8 too, with a scale of its own, and bytes are multiplied."""

    def ready(self) -> None:
        self.codes = Codes(weights_of(self))

    def forward(self, x: Tensor) -> Tensor:
        made = self.times(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
        return made if self.bias is None else made + self.bias

    def times(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """x [rows, columns] · Wᵀ without the bias, written to ``out`` where that is given."""
        return self.codes.product(x, out)


def weights_of(linear: nn.Module) -> Weights:
    """What a linear, plain or int8, multiplies by."""
    bias = linear.bias
    assert isinstance(linear.weight, Tensor) and (bias is None or isinstance(bias, Tensor))
    scale = getattr(linear, "weight_scale", None)
    return Weights(linear.weight.detach(), None if bias is None else bias.detach(), scale)
