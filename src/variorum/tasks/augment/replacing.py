"""Variants of a text by a masked language model: some words stand for others that fit in their places."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.model import Model

if TYPE_CHECKING:
    import torch

    from variorum.text.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class Replacing:
    """Words are drawn, masked together, and drawn again from what the model holds likely there (Wu et al. 2019).

    Everything else of the text stays as it was, letter by letter. Only whole words of letters are replaced, by others
    of such, and none by itself. A text gives the same variants whenever it is asked for.

    Attributes:
        model: with a masked-language-model head.
        share: of the words, that are replaced; at least one.
        top_k: a word is drawn among so many of the likeliest.
        seed: of the draws.
    """

    model: Model
    share: float = 0.15
    top_k: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if "masked_lm" not in self.model.head_names:
            raise UsageError(f"{self.model.spec.name} has no masked-language-model head loaded")

    def __call__(self, text: str, count: int) -> list[str]:
        tokenizer, chance = tokenizer_of(self.model), random.Random(f"{self.seed}/{text}")
        limit = min((n for n in (longest_input(self.model), tokenizer.model_max_length) if n), default=None)
        encoding = tokenizer.encode(text, max_length=limit)
        words = [place for place in range(len(encoding.ids)) if _is_word(encoding, place, text)]
        if not words:
            return []
        times = max(1, round(self.share * len(words)))
        chosen = [sorted(chance.sample(words, times)) for _ in range(count)]
        likely = self._likely(encoding.ids, chosen)  # [count, times, top_k] ids and their chances
        found = []
        for places, ids, weights in zip(chosen, *likely, strict=True):
            new = [
                self._drawn(tokenizer, text, encoding.offsets[place], near, by, chance)
                for place, near, by in zip(places, ids, weights, strict=True)
            ]
            found.append(_with(text, [encoding.offsets[place] for place in places], new))
        return found

    def _likely(
        self, ids: Sequence[int], chosen: Sequence[Sequence[int]]
    ) -> tuple[list[list[list[int]]], list[list[list[float]]]]:
        """The likeliest ids at each masked place, and their probabilities."""
        import torch

        mask = tokenizer_of(self.model).mask_id
        device = next(self.model.parameters()).device
        rows: torch.Tensor = torch.tensor([list(ids)] * len(chosen), device=device)
        asked = torch.zeros_like(rows, dtype=torch.bool)
        for row, places in enumerate(chosen):
            asked[row, list(places)] = True
        with torch.no_grad():
            logits = self.model(rows.masked_fill(asked, mask), logits_to_keep=asked).logits
        best = logits.float().softmax(-1).topk(min(self.top_k, logits.shape[-1]))
        shape = (len(chosen), -1, best.indices.shape[-1])
        return best.indices.reshape(shape).tolist(), best.values.reshape(shape).tolist()

    @staticmethod
    def _drawn(
        tokenizer: Any, text: str, span: tuple[int, int], ids: Sequence[int], weights: Sequence[float],
        chance: random.Random,
    ) -> str:  # fmt: skip
        """Another word for that at ``span``; the same where nothing else fits."""
        old = text[slice(*span)]
        spelt = zip((_spelt(tokenizer, id) for id in ids), weights, strict=True)
        fit = [(word, by) for word, by in spelt if word and word.lower() != old.strip().lower()]
        if not fit:
            return old
        [new] = chance.choices([word for word, _ in fit], [by for _, by in fit])
        blank = old[: len(old) - len(old.lstrip())]
        return blank + (new.capitalize() if old.strip()[:1].isupper() and new.islower() else new)


def _is_word(encoding: Encoding, place: int, text: str) -> bool:
    """Whether a token is a whole word of letters."""
    start, end = encoding.offsets[place]
    word = text[start:end]
    begins = start == 0 or word[:1].isspace() or not text[start - 1].isalnum()
    ends = not text[end : end + 1].isalnum()
    return not encoding.special_mask[place] and word.strip().isalpha() and begins and ends


def _spelt(tokenizer: Any, id: int) -> str:
    """The word that a token is alone; nothing for what goes on a word, for spare rows and for other signs."""
    if id >= tokenizer.vocab_size or id in tokenizer.special_ids or tokenizer.id_to_token(id).startswith("##"):
        return ""
    word = str(tokenizer.decode([id], skip_special=False)).strip()
    return word if word.isalpha() and len(word) > 1 else ""


def _with(text: str, spans: Sequence[tuple[int, int]], words: Sequence[str]) -> str:
    """``text`` with other words at some spans, which are in order."""
    parts, done = [], 0
    for (start, end), word in zip(spans, words, strict=True):
        parts += [text[done:start], word]
        done = end
    return "".join([*parts, text[done:]])
