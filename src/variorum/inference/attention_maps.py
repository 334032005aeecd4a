"""Who attends to whom: the attention maps of one text, by layer and head, with the words they stand for.

Maps come from the model's own forward (eager, so that they exist). DeBERTa's score terms are kept apart beside them.
Drawing them is :mod:`variorum.inference.pictures`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from variorum.attention.attention import Attention, split_heads
from variorum.errors import UsageError, nearest
from variorum.inference.encode import tensors, tokenizer_of
from variorum.inference.texts import write
from variorum.model import Model
from variorum.parts.positions import Disentangled

Kind = Literal["encoder", "decoder", "cross"]


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """The tokens on one side of a map, and where each stands in its text (wrappers have the empty span)."""

    text: str
    tokens: list[str]
    spans: list[tuple[int, int]]

    @property
    def labels(self) -> list[str]:
        """What stands in the text at each token; a wrapper's own name."""
        return [self.text[a:b].strip() or t for t, (a, b) in zip(self.tokens, self.spans, strict=True)]

    def find(self, word: str) -> list[int]:
        """The tokens of the first occurrence of ``word``: a whole word if there is one, else any run of characters.

        Raises:
            UsageError: it does not occur.
        """
        if word in self.tokens and word not in self.text:
            return [self.tokens.index(word)]
        found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.text) or re.search(re.escape(word), self.text)
        places = []
        if found and word.strip():
            places = [i for i, (a, b) in enumerate(self.spans) if a < found.end() and b > found.start()]
        if not places:
            near = nearest(word, re.findall(r"\w+", self.text))
            raise UsageError(f"{word!r} does not occur in {self.text[:60]!r}", remedy=near or "give a word of the text")
        return places


@dataclasses.dataclass(frozen=True, eq=False)
class Maps:
    """The maps of one stack.

    Attributes:
        kind: self-attention of the encoder or decoder, or a decoder's cross-attention.
        queries, keys: Q and K tokens.
        layers, heads: which ones these are, counted from 0.
        weights: [L, H, Q, K]; a row sums to 1.
        terms: DeBERTa's scores apart, scaled, each [L, H, Q, K]: "c2c", "c2p", "p2c"; their sum is what is softmaxed.
    """

    kind: Kind
    queries: Side
    keys: Side
    layers: list[int]
    heads: list[int]
    weights: Tensor
    terms: dict[str, Tensor]

    def only(self, layer: int | None, head: int | None) -> Maps:
        """These maps with one layer, one head, or both.

        Raises:
            UsageError: there is no such layer or head.
        """
        layers, heads = _one(layer, self.layers, "layer"), _one(head, self.heads, "head")

        def pick(values: Tensor) -> Tensor:
            return values[[self.layers.index(i) for i in layers]][:, [self.heads.index(i) for i in heads]]

        terms = {name: pick(values) for name, values in self.terms.items()}
        return dataclasses.replace(self, layers=layers, heads=heads, weights=pick(self.weights), terms=terms)


def _one(wanted: int | None, known: list[int], what: str) -> list[int]:
    if wanted is None:
        return known
    if wanted not in known:
        raise UsageError(f"there is no {what} {wanted}", remedy=f"they run from {known[0]} to {known[-1]}")
    return [wanted]


@dataclasses.dataclass(frozen=True)
class Ranked:
    """How much of one head's attention goes from one word to another: the mean over the first word's tokens."""

    kind: Kind
    layer: int
    head: int
    weight: float


@dataclasses.dataclass(frozen=True)
class Habit:
    """What one head does on average over its queries: entropy in bits, and the weight on itself, the token before, the
    first token. ``None`` where queries and keys are different texts."""

    kind: Kind
    layer: int
    head: int
    entropy: float
    itself: float | None
    before: float | None
    first: float


@torch.no_grad()
def attention_maps(model: Model, text: str, *, pair: str | None = None, target: str | None = None) -> list[Maps]:
    """All maps of one text: of an encoder, of a decoder, or of both and the cross-attention between them.

    Args:
        pair: a second text, for encoders that read pairs.
        target: what an encoder-decoder has written; what it would write, if absent.

    Raises:
        UsageError: no tokenizer, a text longer than the model takes, or an input that it does not take.
    """
    if not model.spec.architecture.stacks:
        raise UsageError(f"nothing attends in {model.spec.name}", remedy="take a model with attention, such as bert")
    tokenizer = tokenizer_of(model)
    both = model.is_decoder and model.spec.architecture.encoder is not None
    if target is not None and not both:
        raise UsageError(f"{model.spec.name} reads one text, and writes none of its own", remedy="leave out the target")
    encoding = tokenizer.encode(text, pair)
    read = _side(encoding, text, pair)
    given = tensors(model, tokenizer.pad([encoding]))
    written = read
    if both:
        written, given["decoder_input_ids"] = _written(model, text, target)
    with _watched(model) as seen:
        out = model(**given, output_attentions=True, logits_to_keep=1)
    sides: dict[str, Side] = {"encoder": read, "decoder": written}
    found = [_maps(kind, sides[kind], sides[kind], layers) for kind, layers in seen.items()]  # type: ignore[arg-type]
    if out.cross_attentions:
        layers = [{"weights": one} for one in out.cross_attentions]
        found.append(_maps("cross", written, read, layers))
    return found


def _side(encoding: Any, text: str, pair: str | None) -> Side:
    """Spans of the second text are counted on from the end of the first, and a line end between them."""
    shift = [len(text) + 1 if sequence == 1 else 0 for sequence in encoding.sequence_ids]
    spans = [(a + by, b + by) for (a, b), by in zip(encoding.offsets, shift, strict=True)]
    return Side(text if pair is None else f"{text}\n{pair}", list(encoding.tokens), spans)


def _written(model: Model, text: str, target: str | None) -> tuple[Side, Tensor]:
    """The decoder's side and its ids [1, T]: the start token, then the target."""
    tokenizer = tokenizer_of(model)
    if target is None:
        target = write(model, [text])[0].text
    encoding = tokenizer.encode(target, specials=False)
    start = model.spec.architecture.main.tokens.start_id or 0
    ids = torch.tensor([[start, *encoding.ids]], device=next(model.parameters()).device)
    return Side(target, [tokenizer.id_to_token(start), *encoding.tokens], [(0, 0), *encoding.offsets]), ids


def _maps(kind: Kind, queries: Side, keys: Side, layers: Sequence[dict[str, Tensor]]) -> Maps:
    stacked = {name: torch.cat([layer[name] for layer in layers]).float().cpu() for name in layers[0]}
    weights = stacked.pop("weights")
    depth, heads = weights.shape[:2]
    return Maps(kind, queries, keys, list(range(depth)), list(range(heads)), weights, stacked)


@contextmanager
def _watched(model: Model) -> Iterator[dict[str, list[dict[str, Tensor]]]]:
    """Inside, what every self-attention weighs is kept, [1, H, Q, K] each, by stack and in the order of the layers."""
    seen: dict[str, list[dict[str, Tensor]]] = defaultdict(list)

    def keep(stack: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> None:
            if output[1] is not None:  # a head that runs the last layer again asks for no maps
                seen[stack].append({"weights": output[1], **_terms(module, args)})

        return hook

    handles = [
        layer.attention.register_forward_hook(keep(name))
        for name in model.spec.architecture.stacks
        for layer in getattr(model, name).layers
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _terms(module: Any, args: tuple[Any, ...]) -> dict[str, Tensor]:
    """DeBERTa's score terms, computed as the module does; nothing for other schemes."""
    if not isinstance(module, Attention) or not isinstance(module.positions, Disentangled):
        return {}
    q_input, kv_input, _, where = args[:4]
    q = split_heads(module.query(q_input), module.spec.heads)
    k = split_heads(module.key(kv_input), module.spec.kv_heads)
    found = {"c2c": q @ k.transpose(-1, -2), **module.positions.terms(q, k, where)}
    return {name: value * module.spec.score_scale for name, value in found.items()}


def ranked(maps: Sequence[Maps], source: str, target: str) -> list[Ranked]:
    """Every head by the weight that goes from the word ``source`` to the word ``target``, the largest first.

    Raises:
        UsageError: no map has the one among its queries and the other among its keys.
    """
    rows, problem = [], None
    for one in maps:
        try:
            queries, keys = one.queries.find(source), one.keys.find(target)
        except UsageError as error:
            problem = error
            continue
        weights = one.weights[:, :, queries][..., keys].sum(-1).mean(-1)
        rows += [
            Ranked(one.kind, layer, head, float(weights[i, j]))
            for i, layer in enumerate(one.layers)
            for j, head in enumerate(one.heads)
        ]
    if not rows and problem is not None:
        raise problem
    return sorted(rows, key=lambda row: -row.weight)


def habits(maps: Maps) -> list[Habit]:
    """What each head does on average."""
    w = maps.weights
    entropy = -(w.clamp(min=1e-30).log2() * w).sum(-1).mean(-1)
    square = maps.kind != "cross"
    itself = w.diagonal(dim1=-2, dim2=-1).mean(-1)
    before = w.diagonal(offset=-1, dim1=-2, dim2=-1)
    return [
        Habit(
            maps.kind, layer, head, float(entropy[i, j]),
            float(itself[i, j]) if square else None,
            float(before[i, j].mean()) if square and before.shape[-1] else None,
            float(w[i, j, :, 0].mean()),
        )
        for i, layer in enumerate(maps.layers)
        for j, head in enumerate(maps.heads)
    ]  # fmt: skip
