"""The objective that a spec names, made ready: the one place that knows all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.objectives.base import Objective
from variorum.spec import recipe, rules

if TYPE_CHECKING:
    from variorum.model import Model
    from variorum.objectives.symbols import Symbols
    from variorum.spec.model import Model as Spec

RUNS = recipe.Masking(mask=1.0, random=0.0, span=3.0)


def objective_for(
    spec: Spec, symbols: Symbols | None = None, *, teacher: Model | None = None, seed: int = 0
) -> Objective:
    """The objective of ``spec``.

    Args:
        symbols: what the vocabulary's ids mean; see :meth:`Symbols.of`. Only a causal model needs none.
        teacher: whom a distilled student imitates.
        seed: of a further network's first weights.

    Raises:
        UsageError: the architecture does not allow it, for the reason that the rules give; or something it needs is
            missing.
    """
    kind, pair = spec.objective.kind, spec.objective.pair
    if kind != "image_classification":
        rules.require(spec, kind)
    if pair is not None:
        rules.require(spec, pair)
    return _made(spec, kind, symbols, teacher, seed)


def _made(spec: Spec, kind: str, symbols: Symbols | None, teacher: Model | None, seed: int) -> Objective:
    from variorum.objectives.causal import BothDirections, Causal, Prefix
    from variorum.objectives.labels import Labels
    from variorum.objectives.rewriting import Rewriting

    told, arch = spec.objective, spec.architecture
    if kind == "causal_lm":
        return Causal()
    if kind == "bidirectional_lm":
        return BothDirections()
    if kind == "text_to_text":
        return Rewriting()
    if kind == "image_classification":
        return Labels("image_classification")
    if kind == "contrastive":
        from variorum.objectives.contrastive import Contrastive

        return Contrastive(told.contrast or recipe.Contrast(), head="embedding" in arch.heads)
    if kind == "prefix_lm":
        return Prefix(two_stacks=arch.encoder is not None, pad=getattr(arch.source, "pad_id", None) or 0)
    if kind == "distillation":
        return _distillation(spec, symbols, teacher, seed)
    if symbols is None:
        raise UsageError(f"{kind} has to know the ids of the vocabulary", remedy="give Symbols.of(tokenizer)")
    if kind == "replaced_token":
        from variorum.objectives.replaced import ReplacedToken

        return ReplacedToken(spec, told.masking or recipe.Masking(mask=1.0, random=0.0), symbols, seed=seed)
    return _hiding(spec, kind, symbols)


def _hiding(spec: Spec, kind: str, symbols: Symbols) -> Objective:
    """Objectives that hide tokens of a text, and ask for them."""
    from variorum.objectives.infilling import GapSentences, Infilling
    from variorum.objectives.masked import MaskedLM
    from variorum.objectives.pairs import NextSentence, SentenceOrder
    from variorum.objectives.permutation import Permutation
    from variorum.objectives.spans import SpanCorruption
    from variorum.objectives.translation import TranslationLM

    told, segments = spec.objective, segments_of(spec)
    masking = told.masking or (recipe.Masking() if kind.endswith(("masked_lm", "translation_lm")) else RUNS)
    pairs = {"next_sentence": NextSentence, "sentence_order": SentenceOrder}
    pair = None if told.pair is None else pairs[told.pair](symbols, segments)
    if kind == "span_corruption":
        return SpanCorruption(masking, symbols)
    if kind == "infilling":
        return Infilling(masking, symbols, told.permuted)
    if kind == "gap_sentences":
        return GapSentences(masking, symbols)
    if kind == "permutation_lm":
        return Permutation(told.masking or recipe.Masking(rate=1 / 6, span=3.0), symbols)
    if kind == "translation_lm":
        return TranslationLM(masking, symbols, segments)
    return MaskedLM(masking, symbols, pair)


def _distillation(spec: Spec, symbols: Symbols | None, teacher: Model | None, seed: int) -> Objective:
    from variorum.objectives.distillation import Distillation

    if teacher is None:
        raise UsageError("a student has to have a teacher", remedy="name one")
    hard = next(
        kind for head, kind in (("masked_lm", "masked_lm"), ("causal_lm", "causal_lm"), ("seq2seq_lm", "text_to_text"))
        if head in spec.architecture.heads
    )  # fmt: skip
    return Distillation(_made(spec, hard, symbols, None, seed), teacher, spec.objective.teacher or recipe.Teacher())


def segments_of(spec: Spec) -> int:
    """How many segments a model tells apart: by vectors of its input, or by relation (2)."""
    stack = spec.architecture.encoder
    if stack is None:
        return 0
    related = bool(getattr(stack.positions, "segments", False))
    return max(getattr(stack.input, "segments", 0), 2 if related else 0)
