"""The other three quarters of a model: its tokenizer, its objective, its training recipe."""

from __future__ import annotations

from typing import Literal

from variorum.spec.part import Part, part, seen

_HISTORY = "what its authors did; a run here states its own budget"


@part
class Tokenizer(Part):
    """How text becomes ids. ``kind`` is the algorithm; ``cased`` keeps case and accents.

    ``query`` and ``passage`` are put before a question, and before a text that may answer it, when they are embedded.
    """

    kind: Literal["wordpiece", "byte-bpe", "bpe", "unigram", "bytes", "words", "patches"] = seen(by="tokenizer")
    cased: bool = seen(by="tokenizer", default=True)
    query: str = seen(by="tokenizer", default="")
    passage: str = seen(by="tokenizer", default="")


@part
class Masking(Part):
    """Which tokens a masked objective hides: ``rate`` of them, split ``mask``/``random``/kept.

    ``span`` is the mean length of a hidden run of tokens (``None``: each token is drawn alone). ``copies`` fixed masks
    per text are made beforehand (static); ``None`` draws afresh each time (dynamic).
    """

    rate: float = seen(by="loss", default=0.15)
    mask: float = seen(by="loss", default=0.8)
    random: float = seen(by="loss", default=0.1)
    span: float | None = seen(by="loss", default=None)
    copies: int | None = seen(by="none", default=None, because=_HISTORY)


@part
class Objective(Part):
    """What the model is trained to do; ``pair`` is the sentence-pair task beside it.

    ``label_smoothing`` of each target's probability is spread over the vocabulary in training.
    """

    kind: Literal[
        "masked_lm",
        "causal_lm",
        "permutation_lm",
        "span_corruption",
        "replaced_token",
        "distillation",
        "contrastive",
        "image_classification",
        "bidirectional_lm",
        "text_to_text",
        "infilling",
        "gap_sentences",
    ] = seen(by="loss")
    masking: Masking | None = seen(by="loss", default=None)
    pair: Literal["next_sentence", "sentence_order"] | None = seen(by="loss", default=None)
    label_smoothing: float = seen(by="loss", default=0.0)


@part
class Recipe(Part):
    """How it was trained: the published figures, as far as they are published."""

    batch: int | None = seen(by="none", default=None, because=_HISTORY)
    length: int | None = seen(by="none", default=None, because=f"{_HISTORY}; costs are told for it by default")
    steps: int | None = seen(by="none", default=None, because=_HISTORY)
    learning_rate: float | None = seen(by="none", default=None, because=_HISTORY)
    warmup: int | None = seen(by="none", default=None, because=_HISTORY)
    weight_decay: float | None = seen(by="none", default=None, because=_HISTORY)
    tokens: float | None = seen(by="none", default=None, because=_HISTORY)
    schedule: Literal["linear", "cosine", "inverse_sqrt", "trapezoid"] | None = seen(
        by="none", default=None, because=_HISTORY
    )
