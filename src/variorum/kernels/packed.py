"""Weights in the order in which a processor multiplies a few rows soonest; above :data:`FEW` rows it is no quicker.

oneDNN makes that order. torch has its operators for its own compiler only, so they may be missing: then nothing works
here, and callers multiply as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

FEW = 96


class Packed:
    """Linears that read one input, as one product with weights of its own: x [rows, columns] -> [rows, width] of each.

    ``works`` says whether this processor and these linears allow it.
    """

    def __init__(self, linears: Sequence[nn.Module]) -> None:
        self.works = torch.backends.mkldnn.is_available() and all(map(_is_plain, linears))
        if not self.works:
            return
        plain = [linear for linear in linears if isinstance(linear, nn.Linear)]
        self._widths = [linear.out_features for linear in plain]
        biases = [
            linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias for linear in plain
        ]
        # A packed tensor of inference mode could not be read outside of it.
        with torch.inference_mode(False), torch.no_grad():
            self._bias = torch.cat([bias.detach() for bias in biases])
            try:
                self._weight = torch.ops.mkldnn._reorder_linear_weight(
                    torch.cat([one.weight.detach() for one in plain]), FEW
                )
            except (AttributeError, RuntimeError):  # another build of torch, or another signature
                self.works = False

    def __call__(self, x: Tensor) -> Sequence[Tensor]:
        made = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return made.split(self._widths, 1)


def _is_plain(linear: nn.Module) -> bool:
    if not isinstance(linear, nn.Linear) or linear._forward_hooks or linear._forward_pre_hooks:
        return False
    return linear.weight.dtype == torch.float32 and linear.weight.device.type == "cpu"
