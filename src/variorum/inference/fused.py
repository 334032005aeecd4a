"""An encoder's blocks for reading on a CPU: the same modules, run over a stream of texts with few passes of memory.

Between two matrix products stands one loop: bias and activation, or residual, bias and norm, or the attention within
every text. Nothing is copied: a fused model reads the very parameters of the model it was made of, whatever becomes of
them. A part without a faster form runs as it is, and a call that is not plain reading runs the plain block.
"""

from __future__ import annotations

import copy
import threading
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from variorum.attention.attention import Attention
from variorum.attention.block import Block
from variorum.attention.global_local import GlobalLocalAttention
from variorum.attention.stack import Stack
from variorum.inference.int8 import CodedLinear
from variorum.kernels import encode as kernels
from variorum.kernels import encode_block
from variorum.model import Model
from variorum.parts import norms
from variorum.parts.feedforward import ACTIVATIONS, MLP, GatedMLP
from variorum.parts.positions import Alibi, LayerPositions, RelativeBuckets, Rotary
from variorum.parts.rotary import tables_of
from variorum.parts.trace import Trace
from variorum.parts.where import Where

M = TypeVar("M", bound=nn.Module)
KINDS = {function: name for name, function in ACTIVATIONS.items() if name in kernels.ACTIVATIONS}
DTYPES = (torch.float32, torch.float64)
LEAST, MOST = 128, 8192  # rows of results that are kept in a room
Pending = tuple[Tensor, Tensor | None]  # a sublayer's output [tokens, D], and the bias that is still to be added


def fused(model: Model, *, frozen: bool = False) -> Model:
    """``model`` with an encoder that reads fast; itself where it has none, or has one already.

    Parameters and all other modules are shared. ``frozen`` weights never change again, so that they may also be held as
    a block in one call wants them, which is soonest for a few rows.
    """
    if not isinstance(getattr(model, "encoder", None), Stack) or isinstance(model.encoder.layers[0], FusedBlock):
        return model
    made, room = _shallow(model), Room()
    made.encoder = _shallow(model.encoder)
    made.encoder.layers = nn.ModuleList(FusedBlock.of(block, room, frozen=frozen) for block in model.encoder.layers)
    return made


def is_current(made: Model, model: Model) -> bool:
    """Whether ``made``, once fused from ``model``, still runs all of its blocks."""
    if made is model or not isinstance(getattr(model, "encoder", None), Stack):
        return made is model
    blocks = zip(made.encoder.layers, model.encoder.layers, strict=False)
    return len(made.encoder.layers) == len(model.encoder.layers) and all(one.plain is block for one, block in blocks)


def _shallow(module: M) -> M:
    made = copy.copy(module)
    for kind in ("_modules", "_parameters", "_buffers"):
        made.__dict__[kind] = dict(module.__dict__[kind])
    return made


class Room(threading.local):
    """Memory for what lives within one block, used again by every block of every call of a thread.

    What is given back to the system after each product has to be cleared by it again before the next.
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __reduce__(self) -> tuple[type[Room], tuple[()]]:
        return Room, ()

    def take(self, name: str, rows: int, width: int, dtype: torch.dtype) -> Tensor | None:
        """[rows, width] of unknown numbers; ``None`` for so few or so many rows that a fresh tensor does as well."""
        if not LEAST <= rows <= MOST:
            return None
        held = self._held.get(name)
        if held is None or held.numel() < rows * width or held.dtype != dtype:
            # An inference tensor could not be written outside of inference mode.
            with torch.inference_mode(False):
                held = self._held[name] = torch.empty(rows * width, dtype=dtype)
        return held[: rows * width].view(rows, width)


class FusedBlock(Block):
    """A block [1, total, D] -> [1, total, D] over texts laid end to end, with the modules of the ``plain`` one."""

    plain: Block
    room: Room
    whole: encode_block.Block | None

    @classmethod
    def of(cls, block: nn.Module, room: Room, *, frozen: bool) -> FusedBlock:
        """The fused form of ``block``, whose passing results live in ``room``."""
        made = _shallow(block)
        made.__class__ = cls
        assert isinstance(made, FusedBlock)
        made.__dict__ |= {"plain": block, "room": room, "whole": _whole(made) if frozen else None}
        return made

    def forward(self, x: Tensor, new: Where, where: Where, trace: Trace, **given: Any) -> Tensor:
        if not self._reads(x, where, trace, given):
            return self.plain(x, new, where, trace, **given)
        stream = x[0]
        if self.whole is not None and len(stream) <= encode_block.FEW:
            attention: Any = self.attention
            found = _placement(attention, where)
            if found is not None:
                return self.whole.run(stream.contiguous(), _texts(stream, where), found)[None]
        for sublayer, around, last in (
            (self._attended, self.attention_norms, False), (self._fed, self.feedforward_norms, True)
        ):  # fmt: skip
            read = stream
            if "before" in around:
                read = kernels.join(stream, None, None, _norm(around["before"]), self._room(where, "read", stream))
            made, bias = sublayer(read, where, trace)
            if "after" in around:
                made, bias = kernels.join(made, None, bias, _norm(around["after"])), None
            kept = read if self.layout.residual == "normed" else stream
            norm = _norm(around["join"]) if "join" in around else None
            # What a block gives may be kept by the caller.
            stream = kernels.join(kept, made, bias, norm, None if last else self._room(where, "stream", stream))
        return stream[None]

    def _reads(self, x: Tensor, where: Where, trace: Trace, given: dict[str, Any]) -> bool:
        """Whether this is a stream, read without gradients, and nothing is asked for beside the states."""
        return (
            (where.lengths is not None or (len(x) == 1 and not where.padded))
            and x.dtype in DTYPES
            and x.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not self.training
            and trace.attentions is None
            and self.layout.order == "serial"
            and where.allowed is None
            and given.get("backend", "auto") == "auto"
            and all(value is None for name, value in given.items() if name != "backend")
        )

    def _room(self, where: Where, name: str, like: Tensor) -> Tensor | None:
        rows, width = like.shape
        return where.remember(("room", name, width), lambda: self.room.take(name, rows, width, like.dtype))

    def _attended(self, read: Tensor, where: Where, trace: Trace) -> Pending:
        attention: Any = self.attention
        found = _placement(attention, where) if _is_plain(self) else None
        if found is None:
            return attention(read[None], read[None], where, where, self.mask)[0][0], None
        heads, texts = _heads(self), _texts(read, where)
        projected = [self._product(attention, name, read, where) for name in ("query", "key", "value")]
        (q, k, v), biases = zip(*projected, strict=True)
        mixed = kernels.attend((q, k, v), biases, heads, texts, found, self._room(where, "mixed", q))
        return self._product(attention, "out", mixed, where)

    def _fed(self, read: Tensor, where: Where, trace: Trace) -> Pending:
        part = self.feedforward
        kind = KINDS.get(part.activation) if isinstance(part, MLP | GatedMLP) else None
        if kind is None or not isinstance(part, MLP | GatedMLP):
            return part(read[None], trace)[0], None
        inner = self._product(part, "up", read, where)
        if isinstance(part, GatedMLP):
            gate = self._product(part, "gate", read, where)
            activated = kernels.activate(kind, *gate, *inner)
        else:
            activated = kernels.activate(kind, *inner)
        return self._product(part, "down", activated, where)

    def _product(self, part: nn.Module, name: str, x: Tensor, where: Where) -> Pending:
        """x · Wᵀ by a linear of ``part``, and the bias that is still to be added; what is no plain linear adds it."""
        linear = part.get_submodule(name)
        if not isinstance(linear, nn.Linear | CodedLinear) or linear._forward_hooks or linear._forward_pre_hooks:
            return linear(x), None
        rows, width = len(x), len(linear.codes.scale) if isinstance(linear, CodedLinear) else linear.out_features
        out = where.remember(("room", name, width), lambda: self.room.take(name, rows, width, x.dtype))
        if isinstance(linear, CodedLinear):
            return linear.times(x, out), linear.bias
        if out is None:
            return torch.mm(x, linear.weight.t()), linear.bias
        return torch.mm(x, linear.weight.t(), out=out), linear.bias


def _norm(module: nn.Module) -> kernels.Norm | None:
    if isinstance(module, norms.LayerNorm):
        return kernels.Norm(module.weight, module.bias, module.eps, centred=True)
    if isinstance(module, norms.RMSNorm):
        return kernels.Norm(module.weight, None, module.eps, centred=False, unit=float(module.unit_offset))
    return None


def _texts(stream: Tensor, where: Where) -> kernels.Texts:
    return where.remember("texts", lambda: kernels.Texts(where.lengths or (len(stream),)))


def _heads(block: Block) -> kernels.Heads:
    attention: Any = block.attention
    spec, window = attention.spec, block.mask.window
    # A bidirectional window shows as many keys on either side.
    return kernels.Heads(spec.heads, spec.kv_heads, spec.score_scale, window // 2 if window else None)


def _whole(block: Block) -> encode_block.Block | None:
    """``block`` in one call; ``None`` where one of its parts has no such form."""
    attention: Any = block.attention
    feeds = block.feedforward
    if not _is_plain(block) or not isinstance(feeds, MLP | GatedMLP) or feeds.activation not in KINDS:
        return None
    sides = (("attends", block.attention_norms), ("feeds", block.feedforward_norms))
    norms = {f"{side}_{place}": _norm(norm) for side, around in sides for place, norm in around.items()}
    inner = (feeds.gate, feeds.up) if isinstance(feeds, GatedMLP) else (None, feeds.up)
    linears = (attention.query, attention.key, attention.value, attention.out, *inner, feeds.down)
    if not all(one is None or _is_linear(one) for one in linears) or None in norms.values():
        return None
    gate, up, down = (None if one is None else encode_block.Product([one]) for one in (*inner, feeds.down))
    assert up is not None and down is not None
    return encode_block.Block(
        heads=_heads(block), project=encode_block.Product([attention.query, attention.key, attention.value]),
        out=encode_block.Product([attention.out]), gate=gate, up=up, down=down, activation=KINDS[feeds.activation],
        norms={place: norm for place, norm in norms.items() if norm is not None},
        keeps_normed=block.layout.residual == "normed",
    )  # fmt: skip


def _is_linear(linear: nn.Module) -> bool:
    if not isinstance(linear, nn.Linear) or linear._forward_hooks or linear._forward_pre_hooks:
        return False
    return linear.weight.dtype == torch.float32 and linear.weight.device.type == "cpu"


def _is_plain(block: Block) -> bool:
    """Whether the loop computes all that this block's attention does."""
    attention: Any = block.attention
    return (
        isinstance(attention, Attention)
        and not block.mask.causal
        and not isinstance(attention, GlobalLocalAttention)
        and isinstance(attention.query_norm, nn.Identity)
        and isinstance(attention.key_norm, nn.Identity)
        and attention.spec.softcap is None
        and attention.spec.clip is None
    )


def _placement(attention: Attention, where: Where) -> kernels.Placement | None:
    """What its positions add; ``None`` where the loop knows no such scheme."""
    positions = attention.positions
    if type(positions) is LayerPositions:
        return kernels.Placement()
    dtype = attention.query.weight.dtype
    if isinstance(positions, Rotary):
        if positions.spec.interleaved or (where.lengths is None and where.q_positions.shape[0] != 1):
            return None
        (cosine, sine), _ = tables_of(positions.spec, positions.dims, where, dtype)
        key = ("turn", positions.spec, positions.dims)
        return kernels.Placement(turn=where.remember(key, lambda: torch.stack((cosine[0, 0], sine[0, 0]), 1)))
    by_distance = isinstance(positions, RelativeBuckets) or (isinstance(positions, Alibi) and not positions.spec.scaled)
    if not by_distance or where.q_positions is not where.q_order:
        return None
    near = positions.bias(where.remember("distances", lambda: _distances(where)), dtype)
    return None if near is None else kernels.Placement(near=near[0, :, 0].contiguous())


def _distances(where: Where) -> Where:
    """One query, and keys at every distance that a text of the stream may hold."""
    reach = max(where.lengths or (where.q_order.shape[1],)) - 1
    keys = torch.arange(-reach, reach + 1)[None]
    query = torch.zeros(1, 1, dtype=torch.long)
    return Where(query, keys, query, keys, padded=False)
