"""LSTMs over a text from each end, and the learned mix of what their layers say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.parts.embeddings import TokenInput
from variorum.parts.lora import whole_weight
from variorum.parts.trace import Trace
from variorum.parts.where import Where
from variorum.spec import recurrent as spec


class LSTM(nn.Module):
    """One LSTM from one end, [B, T, half] -> [B, T, half] (Hochreiter & Schmidhuber 1997; gates i, f, g, o)."""

    def __init__(self, half: int, cells: int | None, *, backwards: bool) -> None:
        super().__init__()
        self.backwards, self.cells = backwards, cells or half
        self.gates = nn.Linear(half, 4 * self.cells)
        self.state = nn.Linear(half, 4 * self.cells, bias=False)
        self.out = nn.Linear(self.cells, half, bias=False) if cells is not None else None

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """``real`` (bool) [B, T]: a padded slot leaves the state as it was."""
        told, state = self.gates(x), whole_weight(self.state)
        out = None if self.out is None else whole_weight(self.out)
        h, c = x.new_zeros(len(x), x.shape[2]), x.new_zeros(len(x), self.cells)
        said: list[Tensor] = []
        steps = range(x.shape[1])
        for t in reversed(steps) if self.backwards else steps:
            i, f, g, o = (told[:, t] + F.linear(h, state)).chunk(4, -1)
            new = f.sigmoid() * c + i.sigmoid() * g.tanh()
            put = o.sigmoid() * new.tanh()
            put = put if out is None else F.linear(put, out)
            here = real[:, t, None]
            h, c = torch.where(here, put, h), torch.where(here, new, c)
            said.append(h)
        return torch.stack(said[::-1] if self.backwards else said, 1)


class Layer(nn.Module):
    """One LSTM from each end, each over its own half of the states, [B, T, D] -> [B, T, D]."""

    def __init__(self, half: int, cells: int | None, *, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.from_left = LSTM(half, cells, backwards=False)
        self.from_right = LSTM(half, cells, backwards=True)

    def forward(self, x: Tensor, real: Tensor, dropout: float) -> Tensor:
        left, right = F.dropout(x, dropout, self.training).chunk(2, -1)
        new = torch.cat((self.from_left(left, real), self.from_right(right, real)), -1)
        return x + new if self.residual else new


class Mix(nn.Module):
    """scale · Σ softmax(weights)_j · state_j over all layers, each [B, T, D] (Peters et al. 2018, equation 1)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        shares = self.weights.softmax(0)
        return self.scale * torch.stack([share * state for share, state in zip(shares, states, strict=True)]).sum(0)


class Recurrent(nn.Module):
    """Both stacks over one input: looked-up vectors [B, T, D/2] -> mixed states [B, T, D]."""

    def __init__(self, recurrent: spec.Recurrent, width: int) -> None:
        super().__init__()
        self.spec = recurrent
        self.input = TokenInput(recurrent.input, width // 2)
        self.layers = nn.ModuleList(
            Layer(width // 2, recurrent.cells, residual=index > 0) for index in range(recurrent.depth)
        )
        self.mix = Mix(recurrent.depth + 1)
        self.packs = False  # each text is a row of its own, whose steps run together

    def forward(self, vectors: Tensor, where: Where, trace: Trace) -> Tensor:
        real = (where.q_order >= 0).expand(len(vectors), -1)
        x = self.input(vectors, where.q_positions)
        states = [torch.cat((x, x), -1)]
        for layer in self.layers:
            states.append(layer(states[-1], real, self.spec.dropout))
        if trace.hidden_states is not None:
            trace.hidden_states += states
        trace.top = states[-1]
        mixed: Tensor = self.mix(states)
        return mixed
