"""The one block of the family: sublayers around a residual stream, norms where the layout says."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from variorum.attention.attention import Attention
from variorum.attention.cache import Once, Slots
from variorum.attention.global_local import GlobalLocalAttention
from variorum.attention.latent import LatentAttention
from variorum.attention.masks import Mask
from variorum.parts.dropout import dropout
from variorum.parts.feedforward import build_feedforward, kept_finite
from variorum.parts.norms import build_norm
from variorum.parts.positions import LayerPositions, build_positions
from variorum.parts.trace import Trace
from variorum.parts.where import Where
from variorum.spec import architecture as spec
from variorum.spec import attention as attention_spec

Sublayer = Callable[[Tensor], Tensor]
Places = tuple[spec.Place, ...]


class Block(nn.Module):
    """One resolved layer, [B, T, D] -> [B, T, D]."""

    def __init__(self, layer: spec.Layer, width: int, shared: nn.Module | None, *, causal: bool) -> None:
        super().__init__()
        self.dropout, self.layout = layer.dropout, layer.layout
        self.mask = Mask(causal=causal, window=layer.attention.window)
        positions = build_positions(layer.positions, layer.attention, width, shared)
        self.attention = _build(layer.attention, width, positions)
        self.attention_norms = _norms(layer.layout, layer.layout.attention, width)
        self.cross: Attention | None = None
        if layer.cross is not None:
            self.cross = Attention(layer.cross, width, LayerPositions())
            self.cross_norms = _norms(layer.layout, layer.layout.cross, width)
        self.feedforward = build_feedforward(layer.feedforward, width)
        self.feedforward_norms = _norms(layer.layout, layer.layout.feedforward, width)

    def forward(
        self, x: Tensor, new: Where, where: Where, trace: Trace, *, kv_input: Tensor | None = None,
        slots: Slots | None = None, encoded: Tensor | None = None, cross_where: Where | None = None,
        cross_slots: Once | None = None, backend: str = "auto",
    ) -> Tensor:  # fmt: skip
        """``kv_input`` (before the norm) replaces x as the source of keys: memory, or XLNet's content stream."""
        norms = self.attention_norms

        def attend(h: Tensor) -> Tensor:
            source = h if kv_input is None else _norm(norms, "before", kv_input)
            out, maps = self.attention(
                h, source, new, where, self.mask, slots=slots, backend=backend, maps=trace.attentions is not None
            )
            if trace.attentions is not None:
                trace.attentions.append(maps)
            return out

        sublayers: list[tuple[Sublayer, nn.ModuleDict, Places]] = [(attend, norms, self.layout.attention)]
        if self.cross is not None and encoded is not None and cross_where is not None:
            crossing = self._crossing(encoded, cross_where, cross_slots, backend, trace)
            sublayers.append((crossing, self.cross_norms, self.layout.cross))
        sublayers.append((lambda h: self.feedforward(h, trace), self.feedforward_norms, self.layout.feedforward))
        if self.layout.order == "parallel":
            return self._beside(x, sublayers)
        for sublayer, around, _ in sublayers:
            x = self._around(x, sublayer, around)
        return x

    def _crossing(self, encoded: Tensor, where: Where, slots: Once | None, backend: str, trace: Trace) -> Sublayer:
        def attend(h: Tensor) -> Tensor:
            assert self.cross is not None
            wanted = trace.cross_attentions is not None
            out, maps = self.cross.cross(h, encoded, where, slots=slots, backend=backend, maps=wanted)
            if trace.cross_attentions is not None and maps is not None:
                trace.cross_attentions.append(maps)
            return out

        return attend

    def _around(self, x: Tensor, sublayer: Sublayer, norms: nn.ModuleDict) -> Tensor:
        read = _norm(norms, "before", x)
        kept = read if self.layout.residual == "normed" else x
        return _norm(norms, "join", kept_finite(self._joined(kept, self._branch(read, sublayer, norms))))

    def _beside(self, x: Tensor, sublayers: list[tuple[Sublayer, nn.ModuleDict, Places]]) -> Tensor:
        """x and what every sublayer makes of it; a shared norm is computed once."""
        read = total = x
        for sublayer, norms, places in sublayers:
            if "shared" not in places:
                read = _norm(norms, "before", x)
            total = self._joined(total, self._branch(read, sublayer, norms))
        return kept_finite(total)

    def _joined(self, x: Tensor, branch: Tensor) -> Tensor:
        return dropout(branch, self.dropout, self.training, rest=x)

    def _branch(self, read: Tensor, sublayer: Sublayer, norms: nn.ModuleDict) -> Tensor:
        return _norm(norms, "after", sublayer(read))


def _build(attention: attention_spec.AnyAttention, width: int, positions: LayerPositions) -> nn.Module:
    if isinstance(attention, attention_spec.LatentAttention):
        return LatentAttention(attention, width, positions)
    if isinstance(attention, attention_spec.GlobalLocalAttention):
        return GlobalLocalAttention(attention, width, positions)
    return Attention(attention, width, positions)


def _norms(layout: spec.Layout, places: Places, width: int) -> nn.ModuleDict:
    return nn.ModuleDict({place: build_norm(layout.norm, width) for place in places if place != "shared"})


def _norm(norms: nn.ModuleDict, place: str, x: Tensor) -> Tensor:
    return norms[place](x) if place in norms else x
