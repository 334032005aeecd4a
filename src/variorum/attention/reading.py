"""What a stack is given to read, and where its tokens stand: order, positions, segments, texts."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from variorum.attention.cache import Cache
from variorum.attention.packed import stream_order
from variorum.errors import UsageError
from variorum.parts.heads import global_tokens
from variorum.parts.where import Where, order_from_mask
from variorum.spec import architecture as spec
from variorum.spec.heads import Head
from variorum.spec.inputs import TokenInput


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """One call's input to one stack.

    Args:
        data: ids [B, T], pixels or spectrograms; or ``vectors`` [B, T, rank] in their place.
        mask: 1 at real tokens [B, T]; [B, M + T] also says which of M remembered ones are real.
        positions, segments: [B, T], where they are given.
        everywhere: 1 at global tokens [B, T], where they are given.
        lengths: of the texts in a stream, where B is 1 and it is one.
        prefix: [B], how many of a row's first tokens see one another from both sides in a causal stack.
    """

    data: Tensor | None = None
    vectors: Tensor | None = None
    mask: Tensor | None = None
    positions: Tensor | None = None
    segments: Tensor | None = None
    everywhere: Tensor | None = None
    lengths: tuple[int, ...] | None = None
    prefix: Tensor | None = None

    def where(self, stack: spec.Stack, vectors: Tensor, cache: Cache | None = None, head: Head | None = None) -> Where:
        """Where the tokens behind ``vectors`` [B, T, rank] stand; ``head`` may want some of them global."""
        length, device = vectors.shape[1], vectors.device
        if self.lengths is None:
            order = order_from_mask(None if self.mask is None else self.mask[:, -length:], length, device)
        else:
            order = stream_order(self.lengths, device)
        if cache is not None and cache.length:
            order = torch.where(order >= 0, order + cache.next_order, order)
        positions = order if self.positions is None else self.positions
        if self.positions is None and getattr(stack.input.positions, "count", "mask") == "ids":
            positions = self._counted(stack, order, cache)
        return Where(
            positions, positions, self._seeing(order), order, q_segments=self.segments, k_segments=self.segments,
            everywhere=self._everywhere(stack, head, order), padded=self.mask is not None or self.prefix is not None,
            lengths=self.lengths,
        )  # fmt: skip

    def _seeing(self, order: Tensor) -> Tensor:
        """The order up to which each query sees: its own, or the prefix's last where it belongs to the prefix."""
        if self.prefix is None:
            return order
        return torch.where(order < 0, order, torch.maximum(order, self.prefix[:, None] - 1))

    def _counted(self, stack: spec.Stack, order: Tensor, cache: Cache | None) -> Tensor:
        """Positions that count ids which are not the padding id."""
        if self.data is None:
            return order
        real = self.data.ne(stack.tokens.pad_id or 0)
        texts = [real] if self.lengths is None else real.split(list(self.lengths), 1)
        positions = torch.cat([order_from_mask(text, text.shape[1], text.device) for text in texts], 1)
        if cache is not None and cache.length:
            positions = torch.where(positions >= 0, positions + cache.next_position, positions)
        return positions

    def _everywhere(self, stack: spec.Stack, head: Head | None, order: Tensor) -> Tensor | None:
        """Which tokens see all and are seen by all, bool [B or 1, T]: the given ones, or those that the head wants."""
        if not stack.has_globals:
            return None
        if self.everywhere is not None:
            return self.everywhere.bool() & (order >= 0)
        wanted = getattr(head, "global_tokens", None)
        if wanted is None:
            return None
        if self.lengths is None or self.data is None:
            return global_tokens(wanted, self.data, order)
        texts = zip(self.data.split(list(self.lengths), 1), order.split(list(self.lengths), 1), strict=True)
        return torch.cat([global_tokens(wanted, ids, places) for ids, places in texts], 1)

    @property
    def remembered(self) -> Tensor | None:
        """The order of the remembered tokens that the mask speaks of, or ``None`` where it does not."""
        read = self.data if self.vectors is None else self.vectors
        if self.mask is None or read is None or self.mask.shape[1] <= read.shape[1]:
            return None
        ahead = self.mask[:, : -read.shape[1]]
        return order_from_mask(ahead, ahead.shape[1], ahead.device)


def shifted(inputs: TokenInput, labels: Tensor | None, mask: Tensor | None) -> Tensor:
    """Decoder inputs [B, T]: the start token, then the labels without their last; -100 becomes padding.

    A row that ``mask`` [B, T] says is padded on the left starts where its tokens do.

    Raises:
        UsageError: there are no labels, or nothing to start with.
    """
    if labels is None or inputs.start_id is None:
        raise UsageError("an encoder-decoder needs decoder_input_ids or labels", remedy="give one of them")
    held = labels.masked_fill(labels == -100, inputs.pad_id or 0)
    real = held.ne(inputs.pad_id or 0) if mask is None else mask.bool()
    start = torch.full_like(held[:, :1], 0 if inputs.start_id == "last" else inputs.start_id)
    if inputs.start_id == "last":
        places = torch.arange(held.shape[1], device=held.device)
        start = held.gather(1, (real * places).amax(1, keepdim=True))
    begun = torch.cat((start, held[:, :-1]), 1)
    return begun if mask is None else begun.scatter(1, real.long().argmax(1, keepdim=True), start)
