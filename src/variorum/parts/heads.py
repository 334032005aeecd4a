"""Heads: hidden states to scores."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.errors import UsageError
from variorum.parts.clusters import AdaptiveSoftmax
from variorum.parts.cross_entropy import Judging, linear_cross_entropy
from variorum.parts.dropout import dropout
from variorum.parts.embeddings import learned_rows
from variorum.parts.feedforward import ACTIVATIONS
from variorum.parts.norms import build_norm
from variorum.parts.spans import SpanHead
from variorum.spec import architecture as spec_architecture
from variorum.spec import heads as spec
from variorum.spec.inputs import TokenInput


class Transform(nn.Module):
    """norm(activation(dense(x))), [..., D] -> [..., width]."""

    def __init__(self, transform: spec.Transform, width: int) -> None:
        super().__init__()
        out = transform.width or width
        self.activation = ACTIVATIONS[transform.activation]
        self.dense = nn.Linear(width, out, bias=transform.bias)
        self.norm = build_norm(transform.norm, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(x)))


def _transform(transform: spec.Transform | None, width: int) -> tuple[nn.Module, int]:
    if transform is None:
        return nn.Identity(), width
    return Transform(transform, width), transform.width or width


def first_real(x: Tensor, order: Tensor) -> Tensor:
    """The state of each row's first real token, [B, T, D] -> [B, D]; order [B or 1, T] is -1 at padding."""
    first = (order >= 0).long().argmax(-1).expand(len(x))
    return x[torch.arange(len(x), device=x.device), first]


def global_tokens(which: spec.GlobalTokens, ids: Tensor | None, order: Tensor) -> Tensor:
    """The tokens that a head wants global: ids [B, T], their order [B or 1, T] -> bool [B or 1, T].

    Raises:
        UsageError: separators are to be found, and there are no ids, or none in some text.
    """
    if isinstance(which, spec.FirstToken):
        return order == 0
    remedy = "give global_attention_mask, 1 at the tokens that see all"
    if ids is None:
        raise UsageError("separators cannot be found without input_ids", remedy=remedy)
    separators = ids == which.separator
    if not bool(separators.any(-1).all()):
        raise UsageError(f"a text has no separator, {which.separator}", remedy=remedy)
    first = separators.long().argmax(-1, keepdim=True)
    places = torch.arange(ids.shape[-1], device=ids.device)
    chosen = places < first if which.side == "before" else places > first + 1
    return chosen & (order >= 0)


def taken(x: Tensor, order: Tensor, take: spec.Take) -> Tensor:
    """One vector for each row, [B, T, D] -> [B, D]; order [B or 1, T] is -1 at padding."""
    real = (order >= 0).expand(len(x), -1)
    if take == "first":
        return first_real(x, order)
    if take == "mean":
        return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
    if take == "max":
        return x.masked_fill(~real[..., None], -torch.inf).amax(1)
    return x[torch.arange(len(x), device=x.device), order.expand(len(x), -1).argmax(-1)]


class Pooler(nn.Module):
    """activation(dense(first real token)), [B, D] -> [B, D]."""

    def __init__(self, pooler: spec_architecture.Pooler, width: int) -> None:
        super().__init__()
        self.activation, self.dense = ACTIVATIONS[pooler.activation], nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.dense(x))


class VocabularyHead(nn.Module):
    """[..., D] -> [..., V]. A tied head holds no matrix; the model lends it the table's."""

    def __init__(self, head: spec.VocabularyHead, width: int, vocab: int) -> None:
        super().__init__()
        self.spec = head
        self.transform, inner = _transform(head.transform, width)
        self.project = nn.Linear(inner, vocab, bias=head.bias)
        if head.offset:
            self.register_buffer("offset", torch.zeros(vocab))

    def forward(self, x: Tensor) -> Tensor:
        logits = self.project(self._ready(x))
        if self.spec.offset:
            logits = logits + self.offset
        cap = self.spec.softcap
        return logits if cap is None else cap * (logits / cap).tanh()

    def summed_loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """The summed cross-entropy of states [N, D] and targets [N], in nats; scores are never all there at once."""
        weight, bias = self.project.weight, cast("Tensor | None", self.project.bias)
        if self.spec.offset:
            added = self.get_buffer("offset")
            bias = added if bias is None else bias + added
        judging = Judging(softcap=self.spec.softcap, smoothing=smoothing)
        return linear_cross_entropy(self._ready(x), weight, bias, targets, judging)

    def _ready(self, x: Tensor) -> Tensor:
        """What the projection reads."""
        x = self.transform(x)
        return x if self.spec.scale is None else x * self.spec.scale


class EnhancedMaskDecoder(VocabularyHead):
    """A vocabulary head that first has the last layer run again, [B, T, D] -> [B, T, V]."""

    def __init__(self, head: spec.EnhancedMaskDecoder, width: int, vocab: int) -> None:
        super().__init__(head, width, vocab)
        self.steps = head.steps
        self.positions = nn.Embedding(head.rows, width)

    def asked(self, below: Tensor, positions: Tensor) -> Tensor:
        """The first queries: states below the last layer [B, T, D], told their positions [B or 1, T].

        Raises:
            UsageError: more positions than there are rows.
        """
        rows = learned_rows(positions, 0, self.positions.num_embeddings)
        return below + self.positions(rows)


def at_ends(ids: Tensor | None, end_id: int, order: Tensor) -> Tensor:
    """``order`` [B or 1, T] where the text that is read, [B, T], holds its end token; -1 everywhere else.

    A row without an end token keeps its order, and so does every row where the states are not of a text that was read.
    """
    if ids is None or ids.shape[-1] != order.shape[-1]:
        return order
    found = torch.where(ids == end_id, order, -1)
    return torch.where(found.amax(-1, keepdim=True) < 0, order, found)


class SequenceHead(nn.Module):
    """Hidden states [B, T, D], their order [B or 1, T] and the pooled vector [B, D] -> [B, labels].

    A head that reads the end takes an order that :func:`at_ends` has narrowed.
    """

    def __init__(self, head: spec.SequenceHead, width: int) -> None:
        super().__init__()
        self.spec = head
        self.transform, inner = _transform(head.transform, width)
        self.project = nn.Linear(inner, head.labels, bias=head.bias)

    def forward(self, x: Tensor, order: Tensor, pooled: Tensor | None) -> Tensor:
        if self.spec.take == "pooler":
            assert pooled is not None
            vector = pooled
        else:
            vector = taken(x, order, "last" if self.spec.take == "end" else self.spec.take)
        vector = self.transform(dropout(vector, self.spec.transform_dropout, self.training))
        return self.project(dropout(vector, self.spec.dropout, self.training))


class EmbeddingHead(nn.Module):
    """Hidden states [B, T, D] and their order [B or 1, T] -> [B, D]."""

    def __init__(self, head: spec.EmbeddingHead) -> None:
        super().__init__()
        self.spec = head

    def forward(self, x: Tensor, order: Tensor) -> Tensor:
        vectors = taken(x, order, self.spec.take)
        return F.normalize(vectors, dim=-1) if self.spec.normalise else vectors


class TokenHead(nn.Module):
    """[B, T, D] and their order [B or 1, T] -> [B, T, labels]."""

    def __init__(self, head: spec.TokenHead, width: int) -> None:
        super().__init__()
        self.spec = head
        self.transform, inner = _transform(head.transform, width)
        self.project = nn.Linear(inner, head.labels, bias=head.bias)

        if head.context is not None:
            self.context = build_norm(head.context, width)

    def forward(self, x: Tensor, order: Tensor) -> Tensor:
        if self.spec.context is not None:
            x = self.context(x + first_real(x, order)[:, None])
        return self.project(dropout(self.transform(x), self.spec.dropout, self.training))


def _like(logits: Tensor, labels: Tensor, problem: str) -> Tensor:
    """``labels`` in the shape and type of ``logits`` [B, labels]; one number per text may come as [B]."""
    given = labels[:, None] if labels.dim() == 1 and logits.shape[-1] == 1 else labels
    if given.shape != logits.shape:
        raise UsageError(
            f"labels measure {list(labels.shape)}, {problem} takes {list(logits.shape)}",
            remedy="give one number for each output of the head",
        )
    return given.to(logits.dtype)


class TwoWayHead(nn.Module):
    """Both halves [B, T, D] -> [B, T, 2, V]: scores of the next word, and of the one before."""

    def __init__(self, head: spec.TwoWayHead, width: int, vocab: int) -> None:
        super().__init__()
        self.project = nn.Linear(width // 2, vocab, bias=head.bias)

    def forward(self, top: Tensor) -> Tensor:
        return self.project(top.unflatten(-1, (2, -1)))


def _both_ways(logits: Tensor, labels: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores [B, T, 2, V] and their targets [B, T], one way after the other: a state of padding predicts nothing."""
    padded = torch.zeros_like(labels, dtype=torch.bool) if real is None else ~real
    following = labels[:, 1:].masked_fill(padded[:, :-1], -100)
    before = labels[:, :-1].masked_fill(padded[:, 1:], -100)
    return torch.cat((logits[:, :-1, 0], logits[:, 1:, 1]), 1), torch.cat((following, before), 1)


def kept(x: Tensor, which: int | Tensor) -> Tensor:
    """The last ``which`` positions of [B, T, …], all for 0; or those marked in bool [B, T], as [N, …]."""
    return x[which] if isinstance(which, Tensor) else x[:, -which:]


def build_head(head: spec.Head, width: int, vocab: int, words: TokenInput | None = None) -> nn.Module:
    """The module for a head spec; ``words`` is the input whose clusters an adaptive softmax shares."""
    if isinstance(head, spec.AdaptiveSoftmax):
        assert words is not None
        return AdaptiveSoftmax(head, words, width)
    if isinstance(head, spec.EmbeddingHead):
        return EmbeddingHead(head)
    if isinstance(head, spec.SpanHead):
        return SpanHead(head, width)
    if isinstance(head, spec.TwoWayHead):
        return TwoWayHead(head, width, vocab)
    if isinstance(head, spec.EnhancedMaskDecoder):
        return EnhancedMaskDecoder(head, width, vocab)
    if isinstance(head, spec.VocabularyHead):
        return VocabularyHead(head, width, vocab)
    return SequenceHead(head, width) if isinstance(head, spec.SequenceHead) else TokenHead(head, width)


def head_loss(
    name: str, logits: Tensor, labels: Tensor, real: Tensor | None = None, *, problem: spec.Problem = "single_label",
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """The usual loss of a head, averaged over its targets; -100 is no target. Without any target it is 0.

    causal_lm compares position t with label t+1, bidirectional_lm also with t-1; replaced_token is binary over real
    tokens. Sequence labels follow ``problem``: [B] classes; [B, labels] of 0 and 1, each judged alone; [B] or
    [B, labels] numbers (squared error). Labels of a floating type are numbers where there is one output. ``smoothing``
    of each class's probability is spread over all classes.

    Raises:
        UsageError: labels of another shape or type than the problem takes, or a head without a loss.
    """
    if name == "embedding":
        raise UsageError("one vector has no loss: vectors are compared with others", remedy="leave the labels out")
    if name == "replaced_token":
        chosen = labels >= 0 if real is None else real & (labels >= 0)
        losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return (losses * chosen).sum() / chosen.sum().clamp(min=1)
    if problem == "multi_label":
        return F.binary_cross_entropy_with_logits(logits, _like(logits, labels, problem))
    if problem == "regression" or (labels.is_floating_point() and logits.shape[-1] == 1):
        return F.mse_loss(logits, _like(logits, labels, "regression"))
    if labels.is_floating_point():
        raise UsageError(
            f"labels are {labels.dtype}, and {name} chooses one of {logits.shape[-1]} classes by its number",
            remedy="give int64 labels, or set the head's problem to multi_label or regression",
        )
    if name == "question_answering":
        return torch.stack([head_loss("span", logits[..., end], labels[:, end]) for end in (0, 1)]).mean()
    if name == "causal_lm":
        logits, labels = logits[:, :-1], labels[:, 1:]
    if name == "bidirectional_lm":
        logits, labels = _both_ways(logits, labels, real)
    flat = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=-100, reduction="sum", label_smoothing=smoothing
    )
    return flat / (labels != -100).sum().clamp(min=1)
