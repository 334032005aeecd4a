"""Probes: the inputs on which two implementations of a model are compared, with the rows that count.

A probe is one or more batches of ids. Each batch says which output rows are real; padded rows and rows that may
attend to nothing are left out, everything else is compared. The same sequences appear alone, padded right and
padded left, so the flattened real rows of all three are the same numbers in the same order.

Nothing here knows a model: lengths, vocabulary and special ids come from the entry in `tiny.py`.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

#: Real tokens per sequence: longer than every window, bucket limit and clip distance of the tiny models.
LENGTHS = (29, 18, 7)
TARGET_LENGTHS = (11, 4, 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """One call of a model.

    input_ids [B, T], or pixel_values [B, C, side, side], or input_features [B, mels, frames];
    attention_mask [B, T] (1 real; None: all real); token_type_ids, position_ids [B, T];
    decoder_input_ids, decoder_attention_mask [B, S]; perm_mask [B, T, T] (1: may not see);
    target_mapping [B, P, T]; global_attention_mask [B, T] (1: sees all and is seen by all); rows [B, T or S
    or P], true where the output row is compared;
    pooled: the output is [B, …], one row per sequence. choices: the rows are one question's, [1, B, T].
    """

    input_ids: Tensor | None
    rows: Tensor
    attention_mask: Tensor | None = None
    token_type_ids: Tensor | None = None
    position_ids: Tensor | None = None
    decoder_input_ids: Tensor | None = None
    decoder_attention_mask: Tensor | None = None
    perm_mask: Tensor | None = None
    target_mapping: Tensor | None = None
    global_attention_mask: Tensor | None = None
    pixel_values: Tensor | None = None
    input_features: Tensor | None = None
    pooled: bool = False
    choices: bool = False

    def inputs(self) -> dict[str, Tensor]:
        """What our forward is given: everything but the positions, which it must derive."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        skipped = ("rows", "pooled", "choices", "position_ids")
        given = {name: value for name, value in fields.items() if value is not None and name not in skipped}
        return {name: value[None] for name, value in given.items()} if self.choices else given

    def oracle(self) -> dict[str, Tensor]:
        """What the oracle is given: positions too, since it counts columns where a row is padded on the left.

        It multiplies by what is not an id, so that comes in the precision of the run.
        """
        given = self.inputs() | ({} if self.position_ids is None else {"position_ids": self.position_ids})
        real = torch.get_default_dtype()
        multiplied = ("perm_mask", "target_mapping", "pixel_values", "input_features")
        return {k: v.to(real) if k in multiplied else v for k, v in given.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """Batches that belong together. `carry`: later batches continue the first by its cache or memory.

    `whole` is, for a continued probe, the same rows in one call.
    """

    kind: str
    batches: tuple[Batch, ...]
    carry: str | None = None
    whole: tuple[Batch, ...] = ()

    @property
    def compared(self) -> int:
        """Rows that count."""
        return sum(int(batch.rows.sum()) for batch in self.batches)

    @property
    def present(self) -> int:
        """All rows, padding included."""
        return sum(batch.rows.numel() for batch in self.batches)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Material:
    """What a probe is drawn from: the vocabulary and shape of a tiny model.

    segments: how many segment ids the model reads (0: none). eos: an id that ends every sequence but for its last trail
    tokens, and occurs nowhere else. start: the decoder's first id, when there is a decoder ("last": the last that it
    writes); echo: the decoder re-reads the source. pooled: one output row per sequence. choices: the sequences answer
    one question. pixels, mels: the shape of an image or spectrogram that is read instead of ids, and how many vectors
    each becomes. given_positions: the oracle must be told positions on left-padded rows. separator: an id that stands
    twice after a fourth of each sequence, and at its end, and nowhere else. everywhere: every so many tokens one is
    global.
    """

    vocab: int
    pad: int
    segments: int = 0
    eos: int | None = None
    trail: int = 0
    start: int | Literal["last"] | None = None
    echo: bool = False
    pooled: bool = False
    choices: bool = False
    pixels: tuple[int, ...] = ()
    mels: tuple[int, ...] = ()
    vectors: int = 0
    given_positions: bool = True
    separator: int | None = None
    everywhere: int = 0
    seed: int = 0

    def sequences(self, lengths: tuple[int, ...], what: str = "ids") -> list[Tensor]:
        """Random ids without padding or end ids; the last one is the end id where the model reads it."""
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.seed}:{what}".encode()))
        special = (self.pad, self.eos, self.start, self.separator)
        legal = torch.tensor([i for i in range(self.vocab) if i not in special])
        drawn = [legal[torch.randint(len(legal), (n,), generator=generator)] for n in lengths]
        if self.eos is not None:
            end = torch.tensor([self.eos])
            drawn = [torch.cat([ids[: -1 - self.trail], end, ids[len(ids) - self.trail :]]) for ids in drawn]
        if self.separator is not None:
            for ids in drawn:
                ids[[len(ids) // 4, len(ids) // 4 + 1, -1]] = self.separator
        return drawn


def _padded(rows: list[Tensor], value: int, *, left: bool) -> Tensor:
    longest = max(len(row) for row in rows)
    fill = [torch.full((longest - len(row),), value, dtype=row.dtype) for row in rows]
    return torch.stack([torch.cat((f, r) if left else (r, f)) for f, r in zip(fill, rows, strict=True)])


def _segments(ids: Tensor, kinds: int) -> Tensor:
    """A first and a second segment (and so on), of unequal lengths."""
    return (torch.arange(len(ids)) * kinds * 2 // (3 * len(ids))).clamp(max=kinds - 1)


def _batch(material: Material, sources: list[Tensor], targets: list[Tensor], *, left: bool = False) -> Batch:
    """Sequences side by side; a mask appears only when something is padded."""
    input_ids = _padded(sources, material.pad, left=left)
    mask = _padded([torch.ones_like(row) for row in sources], 0, left=left)
    ragged = not bool(mask.all())
    segments = None
    if material.segments > 0:
        segments = _padded([_segments(row, material.segments) for row in sources], 0, left=left)
    batch = Batch(
        input_ids=input_ids,
        rows=mask.bool(),
        attention_mask=mask if ragged else None,
        token_type_ids=segments,
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0) if left and ragged and material.given_positions else None,
    )
    if material.everywhere:
        marks = [(torch.arange(len(row)) % material.everywhere == 0).long() for row in sources]
        batch = dataclasses.replace(batch, global_attention_mask=_padded(marks, 0, left=left))
    if material.pixels or material.mels:
        batch = sensed(material, sources)
    if targets:
        decoder_mask = _padded([torch.ones_like(row) for row in targets], 0, left=left)
        batch = dataclasses.replace(
            batch,
            decoder_input_ids=_padded(targets, material.pad, left=left),
            decoder_attention_mask=decoder_mask if not bool(decoder_mask.all()) else None,
            rows=decoder_mask.bool(),
        )
    if material.pooled:
        whole = torch.ones(len(sources), dtype=torch.bool)
        batch = dataclasses.replace(batch, rows=whole, pooled=True, choices=material.choices)
    return batch


def sensed(material: Material, sources: list[Tensor]) -> Batch:
    """An image or a spectrogram for each sequence, drawn from its ids so that equal rows stay equal."""
    name, shape = ("pixel_values", material.pixels) if material.pixels else ("input_features", material.mels)
    drawn = [torch.randn(shape, generator=torch.Generator().manual_seed(int(ids.sum()))) for ids in sources]
    rows = torch.ones(len(sources), material.vectors, dtype=torch.bool)
    return Batch(input_ids=None, rows=rows, **{name: torch.stack(drawn)})


def _targets(material: Material, sources: list[Tensor], lengths: tuple[int, ...]) -> list[Tensor]:
    """Decoder inputs: the shifted source where the decoder re-reads it, else sequences of their own."""
    if material.start is None:
        return []
    rows = sources if material.echo else material.sequences(lengths, "targets")
    if material.start == "last":
        return [row.roll(1) for row in rows]
    return [torch.cat([torch.tensor([material.start]), row[:-1]]) for row in rows]


def full(material: Material) -> Probe:
    """Two sequences of one length (five where they are choices, so that scores have a spread): nothing is padded."""
    lengths = (LENGTHS[0],) * (5 if material.choices else 2)
    sources = material.sequences(lengths, "full")
    return Probe(kind="full", batches=(_batch(material, sources, _targets(material, sources, (9, 9))),))


def _ragged(material: Material, kind: str, *, left: bool = False) -> Probe:
    sources = material.sequences(LENGTHS)
    return Probe(
        kind=kind, batches=(_batch(material, sources, _targets(material, sources, TARGET_LENGTHS), left=left),)
    )


def right(material: Material) -> Probe:
    """Three sequences of different lengths, padded at the end."""
    return _ragged(material, "right")


def left(material: Material) -> Probe:
    """The same three, padded at the front."""
    return _ragged(material, "left", left=True)


def alone(material: Material) -> Probe:
    """The same three, each in a call of its own, without padding."""
    sources = material.sequences(LENGTHS)
    targets = _targets(material, sources, TARGET_LENGTHS) or [None] * len(sources)
    pairs = zip(sources, targets, strict=True)
    return Probe(kind="alone", batches=tuple(_batch(material, [s], [t] if t is not None else []) for s, t in pairs))


def unsegmented(material: Material) -> Probe:
    """No segment ids given: the model must take the documented default."""
    plain = dataclasses.replace(material, segments=0)
    return dataclasses.replace(full(plain), kind="unsegmented")


#: Where a continued probe is cut: a prompt longer than the tiny windows, one token, a chunk, one token.
CUTS = (13, 14, 19, 20)


def cached(material: Material) -> Probe:
    """Two unpadded sequences fed in pieces over a cache; `whole` is the same in one call."""
    length = CUTS[-1]
    if material.start is None:
        sources = material.sequences((length, length), "cached")
        whole = _batch(material, sources, [])
        return _continued(whole, "cache", ("input_ids", "attention_mask", "token_type_ids"))
    sources = material.sequences((LENGTHS[0], LENGTHS[1]), "cached")
    whole = _batch(material, sources, _targets(material, sources, (length, length)))
    return _continued(whole, "cache", ("decoder_input_ids", "decoder_attention_mask"))


def cached_padded(material: Material) -> Probe:
    """Two sequences padded at the front, fed in pieces over a cache, with the mask of all columns so far."""
    sources = material.sequences((CUTS[-1], CUTS[-1] - 5), "cached_padded")
    whole = _batch(material, sources, [], left=True)
    return dataclasses.replace(
        _continued(whole, "cache", ("input_ids", "token_type_ids", "position_ids")), kind="cached_padded"
    )


def memory(material: Material) -> Probe:
    """Two sequences in pieces; each piece sees the hidden states of those before (Transformer-XL memory).

    A bidirectional piece cannot see what comes later, so there is no equal call in one go.
    """
    sources = material.sequences((CUTS[-1], CUTS[-1]), "memory")
    pieces = _continued(_batch(material, sources, []), "memory", ("input_ids", "token_type_ids"))
    return dataclasses.replace(pieces, whole=())


def _continued(whole: Batch, carry: str, cut: tuple[str, ...]) -> Probe:
    """`whole` in pieces along time. The attention mask of a piece covers the columns so far."""
    pieces = []
    for begin, end in zip((0, *CUTS), CUTS, strict=False):
        changed: dict[str, Any] = {"rows": whole.rows[:, begin:end]}
        for name in cut:
            value = getattr(whole, name)
            changed[name] = None if value is None else value[:, begin:end]
        if whole.attention_mask is not None and "attention_mask" not in cut and "input_ids" in cut:
            changed["attention_mask"] = whole.attention_mask[:, :end]
        pieces.append(dataclasses.replace(whole, **changed))
    kind = "cached" if carry == "cache" else carry
    return Probe(kind=kind, batches=tuple(pieces), carry=carry, whole=(whole,))


def two_stream(material: Material) -> Probe:
    """A random factorisation order per row; only its last third is predicted, as in pretraining.

    The first-ranked token would see nothing in the query stream, so it is never among the predicted ones.
    """
    sources = material.sequences((23, 23), "two_stream")
    batch = _batch(material, sources, [])
    generator = torch.Generator().manual_seed(material.seed + 5)
    perm_mask, mapping = [], []
    for row in sources:
        order = torch.randperm(len(row), generator=generator)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(row))
        perm_mask.append((rank[:, None] <= rank[None, :]).long())
        predicted = order[-(len(row) // 3) :].sort().values
        mapping.append(torch.nn.functional.one_hot(predicted, len(row)))
    target_mapping = torch.stack(mapping)
    return Probe(
        kind="two_stream",
        batches=(
            dataclasses.replace(
                batch,
                perm_mask=torch.stack(perm_mask),
                target_mapping=target_mapping,
                rows=torch.ones(target_mapping.shape[:2], dtype=torch.bool),
            ),
        ),
    )


KINDS: dict[str, Callable[[Material], Probe]] = {
    "full": full,
    "right": right,
    "left": left,
    "alone": alone,
    "unsegmented": unsegmented,
    "cached": cached,
    "cached_padded": cached_padded,
    "memory": memory,
    "two_stream": two_stream,
}

PADDED = ("full", "right", "left", "alone")
