"""Translation language modelling: a text and its translation side by side, words hidden in both (Conneau and Lample
2019). What is hidden in one language can be found in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.masked import MaskedLM
from variorum.objectives.pairs import assembled, texts_of

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch, Corrupted
    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking


class TranslationLM(MaskedLM):
    """Batches of pairs (:mod:`variorum.objectives.pairs`) of which ``second`` says the same as ``first``.

    Positions start again at the second text, and each language has its segment, where the model tells segments apart
    (released code).
    """

    name = "translation_lm"

    def __init__(self, masking: Masking, symbols: Symbols, segments: int = 2) -> None:
        super().__init__(masking, symbols)
        self.segments = segments

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Lay the pairs side by side, and hide words of both."""
        kinds = assembled(texts_of(batch), self.symbols, 2)
        rows = {name: value for name, value in kinds.items() if name != "token_type_ids" or self.segments > 1}
        rows["position_ids"] = restarted(kinds["token_type_ids"], kinds["attention_mask"])
        return self._hide(rows, rng)


def restarted(segments: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Positions [B, T] that count from 0 in each segment."""
    import torch

    second = segments == 1
    count = (mask * second).cumsum(-1) - 1
    return torch.where(second, count.clamp(min=0), torch.arange(mask.shape[1])[None].expand_as(mask))
