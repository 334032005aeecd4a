"""The words that a mask could stand for."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from variorum.errors import UsageError
from variorum.inference.encode import SPARE, tensors, tokenizer_of
from variorum.model import Model


@dataclasses.dataclass(frozen=True)
class Guess:
    """One candidate for a mask: which mask (from 0), the token, its probability, and the text with it filled in."""

    mask: int
    token: str
    id: int
    probability: float
    text: str


@torch.no_grad()
def fill_mask(model: Model, text: str, *, top_k: int = 5) -> list[Guess]:
    """The ``top_k`` likeliest tokens for every mask in ``text``, best first.

    Raises:
        UsageError: the model has no masked-LM head, or the text no mask, or it is too long.
    """
    if "masked_lm" not in model.head_names:
        raise UsageError(
            f"{model.spec.name} has no masked-language-model head loaded", remedy="it needs a masked_lm checkpoint"
        )
    tokenizer = tokenizer_of(model)
    encoding = tokenizer.encode(text, allow_special_text=True)
    places = [i for i, token in enumerate(encoding.ids) if token == tokenizer.mask_id]
    if not places:
        raise UsageError(
            "the text has no mask", remedy=f"write {tokenizer.special.get('mask')} where a word is missing"
        )
    logits = model(**tensors(model, tokenizer.pad([encoding]))).logits
    guesses = []
    for number, place in enumerate(places):
        best = logits[0, place].float().softmax(-1).topk(min(top_k, logits.shape[-1]))
        for probability, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            name = tokenizer.id_to_token(token) if token < tokenizer.vocab_size else SPARE
            filled = _filled(text, encoding.offsets[place], _word(tokenizer, token))
            guesses.append(Guess(number, name, token, probability, filled))
    return guesses


def _word(tokenizer: Any, token: int) -> str:
    """A token as it stands in a text; nothing for a spare row of the table, which has no spelling."""
    if token >= tokenizer.vocab_size:
        return ""
    word = str(tokenizer.decode([token], skip_special=False)).strip()
    return word.removeprefix("##") if tokenizer.kind == "wordpiece" else word


def _filled(text: str, span: tuple[int, int], word: str) -> str:
    """``text`` with ``word`` where the mask was; a mask token may have taken the space before it along."""
    start, end = span
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return text[:start] + word + text[end:]
