"""A SentencePiece model as a ``tokenizer.json``, for readers that have only the ``tokenizers`` library.

The same pieces with the same ids, scores or merges, and the model's own normalisation table; what a family does to a
text before its model becomes steps of the normaliser. On plain text both give the same ids; the library's offsets count
the space put before a text as its first character.
"""

from __future__ import annotations

from collections.abc import Mapping

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from .aligned import CleanUp
from .encoding import Wrapper
from .pieces import PieceEngine, PieceModel
from .specials import Declared

SPACE = "▁"


def backend_of(model: PieceModel, engine: PieceEngine, declared: Declared) -> tokenizers.Tokenizer:
    """The library's object for a model and the family around it.

    Args:
        model: the model as trained, with its dummy prefix as the family wants it.
        engine: the engine that reads it: published ids and spellings, clean-up.
        declared: roles and added tokens.
    """
    scores = {id: model.processor.GetScore(piece) for piece, id in enumerate(engine.ids)}
    used = range(max(engine.ids) + 1)
    if model.algorithm == "unigram":
        pieces = [(engine.names[id], scores.get(id, 0.0)) for id in used]
        unk = engine.lookup[declared.roles["unk"]]
        backend = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=unk, byte_fallback=model.has_bytes))
    else:
        vocab = {engine.names[id]: id for id in used}
        rank = {engine.names[id]: -score for id, score in scores.items() if id not in engine.special_ids}
        backend = tokenizers.Tokenizer(
            models.BPE(
                vocab, merges(rank), unk_token=declared.roles["unk"], fuse_unk=True, byte_fallback=model.has_bytes
            )
        )
    steps = _normalising(model, engine.clean)
    if model.algorithm == "unigram":
        backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always" if model.dummy_prefix else "never")
    else:  # a space put before a text that begins with one makes two
        steps += [*([normalizers.Prepend(SPACE)] if model.dummy_prefix else []), normalizers.Replace(" ", SPACE)]
    backend.normalizer = normalizers.Sequence(steps)
    undone = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*undone, decoders.Strip(" ", 1, 0)] if model.dummy_prefix else undone)
    return backend


def merges(rank: Mapping[str, float]) -> list[tuple[str, str]]:
    """Every split of a piece into two pieces: by the piece's rank, then by those of its parts."""
    out: list[tuple[float, float, float, str, str]] = []
    for piece, place in rank.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in rank and right in rank:
                out.append((place, rank[left], rank[right], left, right))
    return [(left, right) for *_, left, right in sorted(out)]


def _normalising(model: PieceModel, clean: CleanUp | None) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = []
    if clean is not None:
        steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        if not clean.keep_accents:
            steps += [normalizers.NFKD(), normalizers.StripAccents()]
        if clean.lower:
            steps.append(normalizers.Lowercase())
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.squeezes:
        for pattern, by in ((r"\A +| +\z", ""), (r" {2,}", " ")):
            steps.append(normalizers.Replace(tokenizers.Regex(pattern), by))
    return steps


def template(wrapper: Wrapper, names: Mapping[int, str]) -> processors.TemplateProcessing | None:
    """The post-processor that puts a wrapper's tokens around texts, or None for a bare wrapper."""
    slots = [*wrapper.single, *wrapper.pair]
    if all(slot.id is None for slot in slots):
        return None

    def spelled(texts: int) -> list[str]:
        return [
            f"{names[slot.id] if slot.id is not None else ('$A', '$B')[slot.sequence or 0]}:{slot.type_id}"
            for slot in wrapper.slots(texts)
        ]

    used = sorted({slot.id for slot in slots if slot.id is not None})
    return processors.TemplateProcessing(
        single=spelled(1), pair=spelled(2), special_tokens=[(names[id], id) for id in used]
    )
