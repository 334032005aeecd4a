"""What a model looks at when it answers: the share of its attention that falls on the words that hold the answer.

An encoder-decoder looks from each token of the answer that it writes, through its cross-attention; an encoder from the
tokens of the question, through its self-attention. Both are compared with a gaze that is the same everywhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from variorum.errors import UsageError
from variorum.model import Model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its answer, as ids.

    Attributes:
        ids: what the encoder reads, question and context in one.
        asking: the places [begin, end) of the question's own tokens.
        span: the places [begin, end) of the answer's tokens.
        answer: the ids that a decoder is given, its start token first; empty where there is no decoder.
        segments: of each of ``ids``, where the model tells segments apart.
    """

    ids: Sequence[int]
    asking: tuple[int, int]
    span: tuple[int, int]
    answer: Sequence[int] = ()
    segments: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Gaze:
    """Means over questions.

    Attributes:
        share: of the attention that falls on the answer, [layers, heads].
        entropy: of the attention, in nats, [layers, heads].
        uniform_share, uniform_entropy: of attention that is the same everywhere.
    """

    share: Tensor
    entropy: Tensor
    uniform_share: float
    uniform_entropy: float

    @property
    def best(self) -> tuple[int, int]:
        """The layer and the head that look at the answer most."""
        return divmod(int(self.share.argmax()), self.share.shape[1])

    @classmethod
    def mean(cls, gazes: Sequence[Self]) -> Self:
        """Of several, each counting alike."""
        count = len(gazes)
        return cls(
            torch.stack([one.share for one in gazes]).mean(0), torch.stack([one.entropy for one in gazes]).mean(0),
            sum(one.uniform_share for one in gazes) / count, sum(one.uniform_entropy for one in gazes) / count,
        )  # fmt: skip


@torch.no_grad()
def gaze(model: Model, questions: Sequence[Question]) -> Gaze:
    """Where ``model`` looks for its answers.

    Raises:
        UsageError: a decoder without an encoder, no questions, or a span outside of what is read.
    """
    if model.spec.architecture.encoder is None:
        raise UsageError(f"{model.spec.name} reads no context apart from what it writes", remedy="give another model")
    if not questions:
        raise UsageError("there is no question to look at", remedy="give one")
    return Gaze.mean([_gaze(model, one) for one in questions])


def _gaze(model: Model, question: Question) -> Gaze:
    begin, end = question.span
    if not 0 <= begin < end <= len(question.ids):
        raise UsageError(f"no answer of {end - begin} tokens stands at {begin} of {len(question.ids)}")
    device = next(model.parameters()).device
    given = {"input_ids": torch.tensor([list(question.ids)], device=device)}
    if question.segments:
        given["token_type_ids"] = torch.tensor([list(question.segments)], device=device)
    if model.is_decoder:
        given["decoder_input_ids"] = torch.tensor([list(question.answer)], device=device)
    out = model(**given, output_attentions=True)
    maps = torch.stack([one[0] for one in (out.cross_attentions if model.is_decoder else out.attentions)]).double()
    if not model.is_decoder:
        maps = maps[:, :, slice(*question.asking)]
    count = len(question.ids)
    # maps: [layers, heads, looking, T]
    return Gaze(
        maps[..., begin:end].sum(-1).mean(-1).cpu(), torch.special.entr(maps).sum(-1).mean(-1).cpu(),
        (end - begin) / count, math.log(count),
    )  # fmt: skip
