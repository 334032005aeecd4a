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

    ``span`` is the mean length of a hidden run of units (``None``: each is drawn alone); a ``unit`` is a token, or all
    tokens of a word. ``copies`` fixed masks per text are made beforehand (static); ``None`` draws afresh each time
    (dynamic).
    """

    rate: float = seen(by="loss", default=0.15)
    mask: float = seen(by="loss", default=0.8)
    random: float = seen(by="loss", default=0.1)
    span: float | None = seen(by="loss", default=None)
    unit: Literal["token", "word"] = seen(by="loss", default="token")
    copies: int | None = seen(by="none", default=None, because=_HISTORY)


@part
class Generator(Part):
    """The masked model that proposes replacements, as shares of the model's ``width`` and ``depth`` (ELECTRA).

    ``embeddings``: both read one table; each its own; or the model reads the generator's, which its own loss does not
    move, plus a difference that it learns (DeBERTa-v3). ``weight`` is that of the model's loss beside the generator's.
    """

    width: float = seen(by="loss", default=0.25)
    depth: float = seen(by="loss", default=1.0)
    embeddings: Literal["shared", "separate", "disentangled"] = seen(by="loss", default="shared")
    weight: float = seen(by="loss", default=50.0)


@part
class Teacher(Part):
    """How a student imitates a larger model: ``soft`` · T²·KL of their words at temperature T, ``hard`` · the loss of
    the true words, ``hidden`` · (1 - cosine) of their last states (DistilBERT)."""

    temperature: float = seen(by="loss", default=2.0)
    soft: float = seen(by="loss", default=5.0)
    hard: float = seen(by="loss", default=2.0)
    hidden: float = seen(by="loss", default=1.0)


@part
class Contrast(Part):
    """How vectors are told apart: cosines over ``temperature``; a first text finds its second, or ``both`` ways."""

    temperature: float = seen(by="loss", default=0.05)
    ways: Literal["one", "both"] = seen(by="loss", default="one")


@part
class Objective(Part):
    """What the model is trained to do; ``pair`` is the sentence-pair task beside it.

    ``label_smoothing`` of each target's probability is spread over the vocabulary in training. ``permuted`` is the
    share of texts whose sentences are put in another order. ``generator``, ``teacher`` and ``contrast`` belong to
    replaced tokens, distillation and contrastive training; where they are absent, these have their defaults.
    """

    kind: Literal[
        "masked_lm",
        "causal_lm",
        "prefix_lm",
        "permutation_lm",
        "translation_lm",
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
    permuted: float = seen(by="loss", default=0.0)
    generator: Generator | None = seen(by="loss", default=None)
    teacher: Teacher | None = seen(by="loss", default=None)
    contrast: Contrast | None = seen(by="loss", default=None)


@part
class Recipe(Part):
    """How it was trained: the published figures, as far as they are published; a run here scales them to its budget.

    The first ``early_share`` of the steps read rows of ``early_length`` tokens, the rest of ``length``. ``floor`` is
    the share of the peak at which the learning rate ends, ``clip`` the largest gradient norm (0: any), ``format`` how
    rows are cut from documents; see :mod:`variorum.training.formats`.
    """

    batch: int | None = seen(by="training", default=None)
    length: int | None = seen(by="training", default=None)
    steps: int | None = seen(by="training", default=None)
    learning_rate: float | None = seen(by="training", default=None)
    warmup: int | None = seen(by="training", default=None)
    weight_decay: float | None = seen(by="training", default=None)
    tokens: float | None = seen(by="none", default=None, because=_HISTORY)
    schedule: Literal["linear", "cosine", "inverse_sqrt", "trapezoid"] | None = seen(by="training", default=None)
    optimiser: Literal["adamw", "adafactor", "lamb", "muon"] | None = seen(by="training", default=None)
    betas: tuple[float, float] | None = seen(by="training", default=None)
    eps: float | None = seen(by="training", default=None)
    clip: float | None = seen(by="training", default=None)
    floor: float | None = seen(by="training", default=None)
    early_length: int | None = seen(by="training", default=None)
    early_share: float | None = seen(by="training", default=None)
    format: Literal["stream", "full_sentences", "doc_sentences", "segment_pair", "sentence_pair"] | None = seen(
        by="training", default=None
    )
