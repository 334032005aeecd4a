"""The shape of a model: inputs, stacks of blocks, heads. Data only; ``stack.layer(i)`` is what gets built."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from variorum.errors import UsageError
from variorum.spec.attention import AnyAttention, Attention, GlobalLocalAttention
from variorum.spec.feedforward import Activation, AnyFeedForward
from variorum.spec.heads import Head
from variorum.spec.inputs import AnyInput, TokenInput
from variorum.spec.norms import Norm
from variorum.spec.part import Part, part, seen, table
from variorum.spec.paths import replaced
from variorum.spec.positions import AttentionPositions, DynamicNtkScaling
from variorum.spec.recurrent import Recurrent

Place = Literal["before", "after", "join", "shared"]


@part
class Layout(Part):
    """Where the block's norm sits around each sublayer f: x -> join(x + after(f(before(x)))).

    In ``order`` "parallel" all sublayers read the block's input, and their outputs are added to it together; "shared"
    then reads what the sublayer before read, without a norm of its own. ``residual`` "normed" carries on before(x)
    in place of x (an option of BLOOM's).
    """

    norm: Norm = seen(by="forward")
    attention: tuple[Place, ...] = seen(by="forward")
    cross: tuple[Place, ...] = seen(by="forward")
    feedforward: tuple[Place, ...] = seen(by="forward")
    order: Literal["serial", "parallel"] = seen(by="forward", default="serial")
    residual: Literal["input", "normed"] = seen(by="forward", default="input")


def post(norm: Norm) -> Layout:
    """x -> norm(x + f(x)), the 2017 order."""
    return Layout(norm=norm, attention=("join",), cross=("join",), feedforward=("join",))


def pre(norm: Norm) -> Layout:
    """x -> x + f(norm(x)); the stack needs a final norm."""
    return Layout(norm=norm, attention=("before",), cross=("before",), feedforward=("before",))


def sandwich(norm: Norm) -> Layout:
    """x -> x + norm(f(norm(x))), as Gemma 2 and 3 do."""
    both: tuple[Place, ...] = ("before", "after")
    return Layout(norm=norm, attention=both, cross=both, feedforward=both)


def parallel(norm: Norm, *, shared: bool = False) -> Layout:
    """x -> x + f(norm(x)) + g(norm(x)): two norms as in GPT-NeoX, or one (GPT-J, PaLM, Falcon-7B)."""
    beside: tuple[Place, ...] = ("shared",) if shared else ("before",)
    return Layout(norm=norm, attention=("before",), cross=beside, feedforward=beside, order="parallel")


@part
class Block(Part):
    """Attention, optional cross-attention, feed-forward. ``dropout`` acts on each sublayer's output."""

    attention: AnyAttention = seen(by="load")
    cross: Attention | None = seen(by="load", default=None)
    feedforward: AnyFeedForward = seen(by="load")
    layout: Layout = seen(by="load")
    dropout: float = seen(by="training", default=0.0)


@part
class At(Part):
    """Layers that differ: a slice ("::3", "0:3") or list ("1,4") of layer numbers, and what is set there.

    Paths start at the layer: ``attention.window``, ``positions.theta``, ``feedforward`` …
    """

    layers: str = seen(by="forward")
    set: Mapping[str, object] = seen(by="forward")

    def covers(self, index: int, depth: int) -> bool:
        """Whether layer ``index`` of ``depth`` is among them."""
        if ":" not in self.layers:
            return index in {int(one) for one in self.layers.split(",")}
        bounds = [int(one) if one else None for one in self.layers.split(":")]
        return index in range(depth)[slice(*bounds)]


@part
class Layer(Block):
    """One layer, fully resolved: its block fields and its own view of the position scheme."""

    positions: AttentionPositions | None = seen(by="forward", default=None)


@part
class Sharing(Part):
    """Cross-layer sharing (ALBERT): ``groups`` parameter sets of ``inner`` layers; ``parts`` says what is shared."""

    groups: int = seen(by="load", default=1)
    inner: int = seen(by="load", default=1)
    parts: tuple[Literal["attention", "feedforward"], ...] = seen(by="load", default=("attention", "feedforward"))

    def owner(self, index: int, depth: int) -> int:
        """The first layer that holds the parameters of layer ``index``."""
        steps = depth // self.inner
        outer, inner = divmod(index, self.inner)
        group = int(outer / (steps / self.groups))
        first = next(i for i in range(steps) if int(i / (steps / self.groups)) == group)
        return first * self.inner + inner


@part
class Convolution(Part):
    """DeBERTa-v2's convolution over the input, added to the output of the layer it follows, then normed."""

    kernel: int = seen(by="load")
    activation: Activation = seen(by="forward")
    groups: int = seen(by="load", default=1)
    norm: Norm = seen(by="forward")
    dropout: float = seen(by="training", default=0.0)


@part
class Stack(Part):
    """``depth`` blocks on one input. ``pattern`` says which layers differ, ``inserts`` what follows a layer.

    ``memory`` is the number of past positions whose hidden states are kept (Transformer-XL, XLNet); the first segment
    of a text remembers nothing, or as many vectors of zeros, which take part in attention like any other.
    """

    input: AnyInput = seen(by="load")
    depth: int = seen(by="forward")
    block: Block = seen(by="load")
    pattern: tuple[At, ...] = seen(by="forward", default=())
    positions: AttentionPositions | None = seen(by="forward", default=None)
    sharing: Sharing | None = seen(by="load", default=None)
    inserts: Mapping[int, Convolution] = table(by="load", default_factory=dict)
    mask: Literal["bidirectional", "causal"] = seen(by="forward")
    final_norm: Norm | None = seen(by="forward", default=None)
    memory: int = seen(by="cache", default=0)
    first_memory: Literal["nothing", "zeros"] = seen(by="forward", default="nothing")
    dropout: float = seen(by="training", default=0.0)

    @property
    def tokens(self) -> TokenInput:
        """The input of a stack that reads token ids.

        Raises:
            UsageError: this one reads something else.
        """
        if isinstance(self.input, TokenInput):
            return self.input
        raise UsageError(f"this model reads {self.input.reads}, not token ids", remedy="take a model of text")

    def layer(self, index: int) -> Layer:
        """Layer ``index`` with every pattern rule applied, in order."""
        shallow = {f.name: getattr(self.block, f.name) for f in dataclasses.fields(self.block)}
        layer = Layer(**shallow, positions=self.positions)
        for rule in self.pattern:
            if rule.covers(index, self.depth):
                for path, value in rule.set.items():
                    layer = replaced(layer, path, value)
        return layer

    @property
    def has_globals(self) -> bool:
        """Whether some layer's attention is global at some tokens."""
        set_by_rules = (value for rule in self.pattern for value in rule.set.values())
        return any(isinstance(one, GlobalLocalAttention) for one in (self.block.attention, *set_by_rules))

    @property
    def settled(self) -> int | None:
        """Tokens up to which earlier states stay as they are when another comes; ``None`` where they always do.

        Beyond, a layer's rotation follows the text's length, and a cache starts over with every token.
        """
        scalings = (getattr(self.layer(index).positions, "scaling", None) for index in range(self.depth))
        return min((s.original_length for s in scalings if isinstance(s, DynamicNtkScaling)), default=None)

    def owner(self, index: int, what: Literal["attention", "feedforward"]) -> int:
        """The layer whose parameters layer ``index`` uses for its attention or feed-forward."""
        if self.sharing is None or what not in self.sharing.parts:
            return index
        return self.sharing.owner(index, self.depth)


@part
class Pooler(Part):
    """activation(dense(first token)), trained with the encoder (BERT, ALBERT)."""

    activation: Activation = seen(by="forward", default="tanh")


@part
class Init(Part):
    """How fresh weights are drawn: normal(0, ``std``), or 1/sqrt(fan-in) where ``std`` is ``None``.

    By fan-in, query projections are drawn so that scores have unit variance whatever they are multiplied by. ``table``
    is the spread of the table of words where that is another. ``residual`` "depth" divides the projections that feed
    the residual stream by sqrt(2·depth) (GPT-2).
    """

    std: float | None = seen(by="training", default=0.02)
    table: float | None = seen(by="training", default=None)
    residual: Literal["plain", "depth"] = seen(by="training", default="plain")


@part
class Architecture(Part):
    """Encoder, decoder or both at one ``width``, and the heads the family publishes.

    ``recurrent`` stands in the place of both where nothing attends.
    """

    width: int = seen(by="load")
    encoder: Stack | None = seen(by="load", default=None)
    decoder: Stack | None = seen(by="load", default=None)
    recurrent: Recurrent | None = seen(by="load", default=None)
    pooler: Pooler | None = seen(by="load", default=None)
    heads: Mapping[str, Head] = table(by="load", default_factory=dict)
    init: Init = seen(by="training", default=Init())

    @property
    def stacks(self) -> dict[str, Stack]:
        """The stacks that exist, by name, encoder first."""
        return {name: s for name, s in (("encoder", self.encoder), ("decoder", self.decoder)) if s is not None}

    @property
    def main(self) -> Stack:
        """The stack whose hidden states the heads read."""
        return self.decoder or self.encoder  # type: ignore[return-value]

    @property
    def vocab(self) -> int:
        """Tokens that the heads may score; 0 where the main stack reads none."""
        return self.recurrent.input.vocab if self.recurrent is not None else getattr(self.main.input, "vocab", 0)

    @property
    def source(self) -> AnyInput:
        """What is read first."""
        return self.recurrent.input if self.recurrent is not None else next(iter(self.stacks.values())).input
