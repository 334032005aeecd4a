"""What a stack reads, and how it becomes vectors: token ids, the patches of an image, the frames of a sound."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

from variorum.spec.feedforward import Activation
from variorum.spec.norms import Norm
from variorum.spec.part import Part, part, seen
from variorum.spec.positions import Learned, Sinusoidal


@part
class Clusters(Part):
    """Words sorted by frequency and cut into clusters, each rarer one ``divide`` times narrower (Grave et al. 2017).

    Ids below the first of ``cutoffs`` have vectors of the full rank, and every cluster its own projection to the width.
    """

    cutoffs: tuple[int, ...] = seen(by="load")
    divide: int = seen(by="load", default=4)

    def tables(self, vocab: int, rank: int) -> list[tuple[int, int]]:
        """Rows and rank of each cluster's table."""
        ends = (0, *self.cutoffs, vocab)
        return [(end - begin, rank // self.divide**i) for i, (begin, end) in enumerate(pairwise(ends))]


@part
class TokenInput(Part):
    """Token ids to vectors: table, positions, segments, scale, norm, projection, in that order.

    ``rank`` factorises the table (ALBERT, ELECTRA): everything up to the norm has that width, then a projection.
    ``clusters`` cuts it into several, of which the first has that rank, and projects each to the model's width at once.
    ``tie`` names another stack's table. ``start_id`` begins every decoder input of an encoder-decoder; "last" is the
    last token of the labels themselves, which names mBART's language. ``query_vector`` is the learned start of XLNet's
    query stream, which must not see the token it predicts. Where ``pad_learns`` is off, looking up the padding token
    teaches its vector nothing (PEGASUS, whose decoder starts with it).
    """

    reads: ClassVar[str] = "input_ids"
    vocab: int = seen(by="load")
    rank: int | None = seen(by="load", default=None)
    clusters: Clusters | None = seen(by="load", default=None)
    segments: int = seen(by="load", default=0)
    positions: Learned | Sinusoidal | None = seen(by="forward", default=None)
    scale: float | None = seen(by="forward", default=None)
    norm: Norm | None = seen(by="forward", default=None)
    tie: str | None = seen(by="load", default=None)
    pad_id: int | None = seen(by="loss", default=0)
    pad_learns: bool = seen(by="gradient", default=True)
    start_id: int | Literal["last"] | None = seen(by="loss", default=None)
    query_vector: bool = seen(by="load", default=False)
    dropout: float = seen(by="training", default=0.0)


@part
class PatchInput(Part):
    """An image in square patches, each a vector, behind a learned [CLS] vector (Dosovitskiy et al. 2020, ViT).

    ``image`` and ``patch`` are sides in pixels; a position stands for [CLS] and for each patch, row by row.
    """

    reads: ClassVar[str] = "pixel_values"
    image: int = seen(by="load", default=224)
    patch: int = seen(by="load", default=16)
    channels: int = seen(by="load", default=3)
    positions: Learned | Sinusoidal | None = seen(by="forward")
    dropout: float = seen(by="training", default=0.0)

    @property
    def length(self) -> int:
        """Vectors that an image becomes."""
        return (self.image // self.patch) ** 2 + 1


@part
class MelInput(Part):
    """A log-mel spectrogram through two convolutions, the second of which takes every other frame (Whisper).

    ``mels`` bands; ``kernel`` frames wide, padded so that T frames become ceil(T/2) vectors.
    """

    reads: ClassVar[str] = "input_features"
    mels: int = seen(by="load", default=80)
    kernel: int = seen(by="load", default=3)
    activation: Activation = seen(by="forward", default="gelu")
    positions: Learned | Sinusoidal | None = seen(by="forward")
    dropout: float = seen(by="training", default=0.0)


AnyInput = TokenInput | PatchInput | MelInput
