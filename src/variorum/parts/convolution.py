"""DeBERTa-v2's convolution over the embedded text."""

from __future__ import annotations

from torch import Tensor, nn

from variorum.parts.dropout import dropout
from variorum.parts.feedforward import ACTIVATIONS
from variorum.parts.norms import build_norm
from variorum.spec import architecture as spec


class Convolution(nn.Module):
    """norm(x + activation(conv(embedded))), both [B, T, D]; padded positions give and get nothing."""

    def __init__(self, insert: spec.Convolution, width: int) -> None:
        super().__init__()
        self.dropout, self.activation = insert.dropout, ACTIVATIONS[insert.activation]
        self.conv = nn.Conv1d(width, width, insert.kernel, padding=(insert.kernel - 1) // 2, groups=insert.groups)
        self.norm = build_norm(insert.norm, width)

    def forward(self, x: Tensor, embedded: Tensor, real: Tensor | None) -> Tensor:
        """``real`` is bool [B, T], or ``None`` when nothing is padded."""
        if real is not None:
            embedded = embedded.masked_fill(~real[..., None], 0.0)
        mixed = self.conv(embedded.transpose(1, 2)).transpose(1, 2)
        if real is not None:
            mixed = mixed.masked_fill(~real[..., None], 0.0)
        out = self.norm(x + self.activation(dropout(mixed, self.dropout, self.training)))
        return out if real is None else out * real[..., None]
