"""A model's form for inference on a CPU: the same interface, outputs and names, with quicker parts.

A prepared part is a subclass of the plain one that takes over its state and does some of its work in compiled loops; a
call that those do not serve (another type, gradients, maps, many rows) runs the plain method. So every model of the
family profits where its parts are known here, and none is known by name. With ``weights="int8"`` every linear also
holds its weights as int8 (:mod:`.int8`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from variorum.attention.attention import Attention
from variorum.attention.block import Block
from variorum.attention.cache import Once, Slots
from variorum.attention.latent import LatentAttention
from variorum.attention.masks import Mask
from variorum.errors import UsageError, nearest
from variorum.inference.fused import fused
from variorum.inference.int8 import CodedLinear, Int8Linear, weights_of
from variorum.kernels.block import Around
from variorum.kernels.block import Block as Loops
from variorum.kernels.heads import WIDEST, Heads, Norm, Places, Turns
from variorum.kernels.products import MOST, Gated, Projection, Weights, decode, fits
from variorum.model import Model
from variorum.parts.clusters import AdaptiveSoftmax, ClusteredTable
from variorum.parts.feedforward import ACTIVATIONS, MLP, GatedMLP
from variorum.parts.lora import adapters
from variorum.parts.norms import LayerNorm, RMSNorm
from variorum.parts.positions import Alibi, LayerPositions, RecurrentRelative, RelativeBuckets, Rotary
from variorum.parts.rotary import tables_of
from variorum.parts.trace import Trace
from variorum.parts.where import Where

Form = Literal["float32", "int8"]
FORMS: tuple[Form, ...] = ("float32", "int8")
M = TypeVar("M", bound=nn.Module)
Parts = dict[type[nn.Module], Callable[[Any], nn.Module]]


def prepare(model: Model, weights: Form = "float32") -> Model:
    """The inference form of ``model``, which stays as it is; tensors that are not replaced are shared with it.

    Args:
        weights: "int8" holds every linear's weights as int8 with a scale for each output channel.

    Raises:
        UsageError: no such form, adapters that are not merged, or int8 of a model that is not float32 on a CPU.
    """
    if model.holds_codes or any(type(part) in PREPARED_KINDS for part in model.modules()):
        raise UsageError(f"{model.spec.name} is prepared already", remedy="prepare the model that it was made of")
    if adapters(model, merged=False):
        raise UsageError(f"{model.spec.name} has adapters beside its weights", remedy="merge them first")
    if weights not in FORMS:
        raise UsageError(f"no form of the weights is called {weights!r}", remedy=nearest(weights, FORMS))
    first = next(model.parameters())
    if weights == "int8" and (first.dtype, first.device.type) != (torch.float32, "cpu"):
        raise UsageError("int8 weights are made of float32 weights on a CPU", remedy="load with dtype='float32'")
    shared: list[Any] = [*model.parameters(), *model.buffers(), model.spec, model.tokenizer, model.origin]
    shared += ACTIVATIONS.values()
    made = copy.deepcopy(model, {id(one): one for one in shared})
    encoder = others = PREPARED
    if weights == "int8":
        seen: dict[int, Weights] = {}
        # An encoder's products read many rows: they take the time, and what stands around them is left as it is.
        encoder = NORMS | {nn.Linear: partial(CodedLinear, seen=seen)}
        others = PREPARED | {nn.Linear: partial(Int8Linear, seen=seen)}
    for name, child in made.named_children():
        _replace(child, encoder if name == "encoder" else others)
    made.holds_codes = weights == "int8"
    return fused(made.eval(), frozen=True)


def _replace(module: nn.Module, parts: Parts) -> None:
    """Put the prepared form of every part under ``module`` in its place, innermost first."""
    for name, child in module.named_children():
        if name in READ.get(type(module), ()):
            continue
        _replace(child, parts)
        if type(child) in parts:
            setattr(module, name, parts[type(child)](child))


def _taking(kind: type[M]) -> Callable[[nn.Module], M]:
    """Makes a ``kind`` of a plain part, by taking over its state."""

    def made(plain: nn.Module) -> M:
        part = kind.__new__(kind)
        part.__dict__ = plain.__dict__
        part.ready()  # type: ignore[operator]
        return part

    return made


class PreparedLinear(nn.Linear):
    """float32, for few rows."""

    def ready(self) -> None:
        if not self.weight.is_contiguous():  # stored input by output
            self.weight = nn.Parameter(self.weight.detach().contiguous(), self.weight.requires_grad)
        self.product = Projection([weights_of(self)])

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x) if fits(x) else super().forward(x)


class PreparedRMSNorm(RMSNorm):
    """In one pass over the rows."""

    def ready(self) -> None:
        self.norm = Norm(self.weight.detach(), None, self.eps, centred=False, offset=float(self.unit_offset))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm.run(x) if _quick(x) and x.is_contiguous() else super().forward(x)


class PreparedLayerNorm(LayerNorm):
    """In two passes over each row, which is then still near."""

    def ready(self) -> None:
        bias = None if self.bias is None else self.bias.detach()
        self.norm = Norm(self.weight.detach(), bias, self.eps, centred=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm.run(x) if _quick(x) and x.is_contiguous() else super().forward(x)


def _quick(x: Tensor) -> bool:
    return fits(x) and decode() is not None


def _few(x: Tensor) -> bool:
    """Whether x [B, T, D] is a matter for compiled loops over few rows."""
    return x.shape[0] * x.shape[1] <= MOST and _quick(x)


def _is_plain(where: Where) -> bool:
    """Whether order alone says what is seen."""
    return where.lengths is None and where.allowed is None and where.q_documents is None


class PreparedMLP(MLP):
    """The activation as the sums leave the registers."""

    def ready(self) -> None:
        self.inner = Projection([weights_of(self.up)], _named(self.activation))

    def forward(self, x: Tensor, trace: Trace) -> Tensor:
        return self.down(self.inner(x)) if fits(x) else super().forward(x, trace)


class PreparedGatedMLP(GatedMLP):
    """Gate and up as one product."""

    def ready(self) -> None:
        self.inner = Gated(weights_of(self.gate), weights_of(self.up), _named(self.activation))

    def forward(self, x: Tensor, trace: Trace) -> Tensor:
        return self.down(self.inner(x)) if fits(x) else super().forward(x, trace)


def _named(activation: Callable[[Tensor], Tensor]) -> str:
    """The kernels' name of an activation; in float32 Megatron's GELU is the tanh one."""
    name = next(name for name, function in ACTIVATIONS.items() if function is activation)
    return "gelu_tanh" if name == "gelu_megatron" else name


class PreparedAttention(Attention):
    """Query, key and value as one product that leaves them clipped, normed and turned; few queries over many keys."""

    def ready(self) -> None:
        self.projected = Projection([weights_of(one) for one in (self.query, self.key, self.value)])
        self.fuses = type(self.positions) in POSITIONS
        self._heads_under: dict[Mask, Heads] = {}

    def forward(
        self, q_input: Tensor, kv_input: Tensor, new: Where, where: Where, mask: Mask, *,
        slots: Slots | None = None, backend: str = "auto", maps: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Shapes as in :class:`~variorum.attention.attention.Attention`."""
        if not (self.fuses and q_input is kv_input and _few(q_input)):
            return super().forward(q_input, kv_input, new, where, mask, slots=slots, backend=backend, maps=maps)
        heads, turns = self.settings(mask), self.turns(new, q_input.dtype)
        every = self.projected(q_input)
        if turns.tables is not None or heads.changes:
            heads.turn(every, turns)
        q, k, v = heads.split(every)
        if slots is not None:
            k, v = slots.append(k, v)
        return self._weigh(q, q, k, v, where, mask, backend, maps)

    def _near(self, where: Where, mask: Mask, backend: str, q: Tensor, turned: Tensor, k: Tensor, v: Tensor) -> Tensor:
        few = turned.shape[2] <= MOST and turned.shape[3] == v.shape[3] <= WIDEST and _quick(turned)
        if not (few and backend == "auto" and _is_plain(where) and (mask.causal or not mask.window)):
            return super()._near(where, mask, backend, q, turned, k, v)
        return self.settings(mask).attend(turned, k, v, self.places(where, q, k))

    def turns(self, new: Where, dtype: torch.dtype) -> Turns:
        """How the new tokens turn."""
        turning = self.positions
        if not isinstance(turning, Rotary):
            return STILL
        return new.remember(
            ("turns", turning.spec, turning.dims), lambda: Turns(tables_of(turning.spec, turning.dims, new, dtype)[0])
        )

    def places(self, where: Where, q: Tensor, k: Tensor, slots: Tensor | None = None) -> Places:
        """Where q and k [B, heads, T, d] stand, with what their positions add to the scores.

        ``slots`` are the places of the queries' own keys, where those are still to be written.
        """
        added, bias = self.positions.scores(q, k, where), self.positions.bias(where, q.dtype)
        if added is not None:
            bias = added * self.spec.score_scale + (0 if bias is None else bias)
        key = ("places", id(bias), slots is None)
        return where.remember(key, lambda: Places(len(q), where.q_order, where.k_order, bias, slots))

    def settings(self, mask: Mask) -> Heads:
        """What the compiled loops have to know."""
        if mask not in self._heads_under:
            rotary, spec = self.positions if isinstance(self.positions, Rotary) else None, self.spec
            self._heads_under[mask] = Heads(
                heads=spec.heads, kv_heads=spec.kv_heads, channels=spec.head_dim,
                rotated=rotary.dims if rotary else 0, interleaved=rotary is not None and rotary.spec.interleaved,
                causal=mask.causal, window=mask.window or 0, scale=spec.score_scale, softcap=spec.softcap or 0.0,
                clip=math.inf if spec.clip is None else spec.clip,
                query_norm=getattr(self.query_norm, "norm", None), key_norm=getattr(self.key_norm, "norm", None),
            )  # fmt: skip
        return self._heads_under[mask]


class PreparedBlock(Block):
    """A decoder's block in one call, where all its parts are prepared and it reads nothing beside its own stack."""

    def ready(self) -> None:
        self._loops_under: dict[Mask, Loops | None] = {}

    def forward(
        self, x: Tensor, new: Where, where: Where, trace: Trace, *, kv_input: Tensor | None = None,
        slots: Slots | None = None, encoded: Tensor | None = None, cross_where: Where | None = None,
        cross_slots: Once | None = None, backend: str = "auto",
    ) -> Tensor:  # fmt: skip
        """As the plain block."""
        alone = kv_input is None and encoded is None and trace.attentions is None and backend == "auto"
        loops = self._loops() if alone and slots is not None and _few(x) and _is_plain(where) else None
        opened = None if loops is None or slots is None or new.lengths is not None else slots.opened()
        if loops is None or opened is None:
            return super().forward(
                x, new, where, trace, kv_input=kv_input, slots=slots, encoded=encoded, cross_where=cross_where,
                cross_slots=cross_slots, backend=backend,
            )  # fmt: skip
        attention, (k, v), at = self.attention, *opened
        assert isinstance(attention, PreparedAttention)
        return loops.run(x.contiguous(), attention.turns(new, x.dtype), attention.places(where, x, k, at), k, v)

    def _loops(self) -> Loops | None:
        """The compiled block; ``None`` where one of its parts has no compiled form."""
        if self.mask not in self._loops_under:
            self._loops_under[self.mask] = self._made()
        return self._loops_under[self.mask]

    def _made(self) -> Loops | None:
        attention, feeds = self.attention, self.feedforward
        if not isinstance(attention, PreparedAttention) or not isinstance(feeds, PreparedMLP | PreparedGatedMLP):
            return None
        if self.cross is not None or not attention.fuses or (self.mask.window and not self.mask.causal):
            return None
        around = [_around(norms) for norms in (self.attention_norms, self.feedforward_norms)]
        parallel = self.layout.order == "parallel"
        loops = Loops(
            width=weights_of(attention.out).weight.shape[0], heads=attention.settings(self.mask),
            projected=attention.projected, out=Projection([weights_of(attention.out)]), inner=feeds.inner,
            down=Projection([weights_of(feeds.down)]), attends=around[0], feeds=around[1], parallel=parallel,
            shared="shared" in self.layout.feedforward, keeps_normed=self.layout.residual == "normed" and not parallel,
        )  # fmt: skip
        return loops if loops.compiled else None


def _around(norms: nn.ModuleDict) -> Around:
    found = {place: getattr(norm, "norm", None) for place, norm in norms.items()}
    return Around(found.get("before"), found.get("after"), found.get("join"))


#: Linears whose matrix is read for more than a product with it; they stay as they are.
READ: dict[type[nn.Module], tuple[str, ...]] = {
    LatentAttention: ("latent_up",),
    RecurrentRelative: ("relative",),
    ClusteredTable: ("projects",),
    AdaptiveSoftmax: ("projects",),
}
STILL = Turns()
#: Position parts that rotate as the compiled loops do, or not at all.
POSITIONS = (LayerPositions, Rotary, RelativeBuckets, Alibi)
NORMS: Parts = {RMSNorm: _taking(PreparedRMSNorm), LayerNorm: _taking(PreparedLayerNorm)}
PREPARED: Parts = NORMS | {
    nn.Linear: _taking(PreparedLinear),
    MLP: _taking(PreparedMLP),
    GatedMLP: _taking(PreparedGatedMLP),
    Attention: _taking(PreparedAttention),
    Block: _taking(PreparedBlock),
}
PREPARED_KINDS = (PreparedLinear, PreparedRMSNorm, PreparedLayerNorm, PreparedAttention, PreparedBlock)
