"""What reads a model's hidden states: vocabulary, sequence and token heads. A head's name says its task."""

from __future__ import annotations

from typing import Literal

from variorum.spec.feedforward import Activation
from variorum.spec.norms import Norm
from variorum.spec.part import Part, part, seen

Problem = Literal["single_label", "multi_label", "regression"]
Take = Literal["first", "last", "mean", "max"]


@part
class Transform(Part):
    """norm(activation(dense(x))): what some heads do before their last projection.

    ``width`` is the output width (``None``: the model's width).
    """

    activation: Activation = seen(by="forward")
    width: int | None = seen(by="load", default=None)
    norm: Norm | None = seen(by="forward", default=None)
    bias: bool = seen(by="load", default=True)


@part
class VocabularyHead(Part):
    """Scores over the vocabulary: masked_lm, permutation_lm, causal_lm, seq2seq_lm.

    ``tie`` names the table whose rows are the output vectors (``None``: an own matrix). ``scale`` multiplies the
    hidden states first (T5: width^-0.5 when tied). ``softcap`` c bends the logits to c·tanh(x/c). ``offset`` adds a
    constant vector that is kept with the weights but never trained (BART: zeros).
    """

    tie: str | None = seen(by="load", default=None)
    bias: bool = seen(by="load", default=False)
    transform: Transform | None = seen(by="load", default=None)
    scale: float | None = seen(by="forward", default=None)
    softcap: float | None = seen(by="forward", default=None)
    offset: bool = seen(by="load", default=False)


@part
class EnhancedMaskDecoder(VocabularyHead):
    """A vocabulary head before which words learn where they stand (DeBERTa; He et al. 2020, section 3.2).

    The encoder's last layer runs ``steps`` more times over the states below it: those states are its keys and values,
    and with one of ``rows`` position vectors added its first queries; later ones are what came out (released code).
    """

    rows: int = seen(by="load")
    steps: int = seen(by="forward", default=2)


@part
class AdaptiveSoftmax(Part):
    """Log-probabilities of words that the input sorts into clusters: of a cluster, then of a word in it.

    ``tie`` names the clustered table whose rows are the output vectors too (``None``: own tables); of the projections,
    those of the clusters ``tied_projections`` are the input's. A loss is given without scores: it looks only at the
    clusters that it needs.
    """

    tie: str | None = seen(by="load", default=None)
    tied_projections: tuple[int, ...] = seen(by="load", default=())


@part
class FirstToken(Part):
    """The first real token of a text is global where nobody says otherwise."""


@part
class BesideSeparator(Part):
    """Of a pair with two separators between its texts, the tokens before the first, or after both, are global."""

    side: Literal["before", "after"] = seen(by="forward")
    separator: int = seen(by="forward", default=2)


GlobalTokens = FirstToken | BesideSeparator


@part
class TwoWayHead(Part):
    """Scores of the next word from the half that read from the left, of the one before from the other half (ELMo).

    Both halves are scored by one table: ``tie`` names it (``None``: an own matrix).
    """

    tie: str | None = seen(by="load", default=None)
    bias: bool = seen(by="load", default=False)


@part
class SequenceHead(Part):
    """One vector per sequence, then a linear layer: sequence_classification, image_classification, next_sentence.

    ``take`` says which vector: the model's pooler, the first token, the last real token, the mean of the real tokens,
    or "end": where the text that is read has its last ``end_id`` (T5, BART), its last token if there is none.
    ``transform`` comes between, with
    ``transform_dropout`` before it and ``dropout`` after it. ``problem`` is what its labels are: one of several, any of
    several, or numbers. With one label over [B, C, T] it is multiple_choice, which gives each choice a number.
    ``global_tokens`` see all and are seen by all in layers whose attention is global and local.
    """

    take: Literal["pooler", "first", "last", "mean", "end"] = seen(by="forward")
    end_id: int | None = seen(by="forward", default=None)
    labels: int = seen(by="load", default=2)
    bias: bool = seen(by="load", default=True)
    problem: Problem = seen(by="loss", default="single_label")
    transform: Transform | None = seen(by="load", default=None)
    transform_dropout: float = seen(by="training", default=0.0)
    global_tokens: GlobalTokens | None = seen(by="forward", default=None)
    dropout: float = seen(by="training", default=0.1)


@part
class TokenHead(Part):
    """One score vector per token: token_classification, question_answering (start, end), replaced_token (one).

    ``context`` joins each state with the first token's beforehand, as norm(state + first) (DeBERTa-v3).
    ``global_tokens`` see all and are seen by all in layers whose attention is global and local.
    """

    labels: int = seen(by="load", default=2)
    bias: bool = seen(by="load", default=True)
    context: Norm | None = seen(by="load", default=None)
    transform: Transform | None = seen(by="load", default=None)
    global_tokens: GlobalTokens | None = seen(by="forward", default=None)
    dropout: float = seen(by="training", default=0.1)


@part
class SpanHead(Part):
    """An answer whose end is chosen for its start, and whether there is one: answer_span (XLNet).

    The ``starts`` likeliest starts each get their ``ends`` likeliest ends. Ends are scored by state and start side by
    side, through a layer, tanh and ``norm``; whether there is no answer by the start and the last token.
    """

    norm: Norm = seen(by="forward")
    starts: int = seen(by="forward", default=5)
    ends: int = seen(by="forward", default=5)


@part
class EmbeddingHead(Part):
    """One vector for each text, to be compared with those of others: embedding. It has no weights of its own.

    ``take`` says which: the first token's, the last real one's, the mean or the largest of the real ones', channel by
    channel. With ``normalise`` its length is made 1, so that a dot product is a cosine.
    """

    take: Take = seen(by="forward")
    normalise: bool = seen(by="forward", default=True)


Head = VocabularyHead | AdaptiveSoftmax | TwoWayHead | SequenceHead | TokenHead | SpanHead | EmbeddingHead
HEAD_NAMES = (
    "masked_lm",
    "permutation_lm",
    "causal_lm",
    "seq2seq_lm",
    "bidirectional_lm",
    "replaced_token",
    "next_sentence",
    "sequence_classification",
    "multiple_choice",
    "image_classification",
    "token_classification",
    "question_answering",
    "answer_span",
    "embedding",
)
