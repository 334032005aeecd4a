"""Labels scored by a masked language model: the tokens of each label where a prompt has masks in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.tasks.zero_shot.template import Candidate, Template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.model import Model

ROWS = 32  # prompts at a time


class Masked:
    """A label of n tokens stands for n masks after the question (Schick & Schütze 2021, its tokens read at once).

    The instruction is left out. A text that is too long loses its end, never the masks.

    Raises:
        UsageError: the model has no masked-language-model head, or a label no tokens.
    """

    def __init__(self, model: Model, candidates: Sequence[Candidate], template: Template) -> None:
        if "masked_lm" not in model.head_names:
            raise UsageError(f"{model.spec.name} has no masked-language-model head loaded")
        self.labels = tuple(one.name for one in candidates)
        self._model, self._template = model, template
        self._tokenizer = tokenizer_of(model)
        # With the blank before it: to many vocabularies a word within a text is another token than one that begins it.
        self._words = [self._tokenizer.encode(f" {one.said}", specials=False).ids for one in candidates]
        empty = [one.name for one, ids in zip(candidates, self._words, strict=True) if not ids]
        if empty:
            raise UsageError(f"label {empty[0]!r} has no tokens", remedy="give it words")
        self._limit = min((n for n in (longest_input(model), self._tokenizer.model_max_length) if n), default=None)
        self._around = self._tokenizer.wrapper.around

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        import numpy as np

        found = np.empty((len(texts), len(self.labels)))
        for masks in sorted({len(ids) for ids in self._words}):
            which = [i for i, ids in enumerate(self._words) if len(ids) == masks]
            for start in range(0, len(texts), ROWS):
                found[start : start + ROWS, which] = self._scored(texts[start : start + ROWS], masks, which)
        return found

    def _scored(self, texts: Sequence[str], masks: int, which: Sequence[int]) -> NDArray[np.float64]:
        """Log-scores [n, labels] of the labels of as many tokens as there are masks."""
        import torch

        from variorum.tasks.examples import padded

        device = next(self._model.parameters()).device
        rows, places = zip(*(self._asked(text, masks) for text in texts), strict=True)
        ids = padded(rows, self._tokenizer.pad_id or 0).to(device)  # [n, T]
        at = torch.arange(ids.shape[1], device=device)
        real = at < torch.tensor([len(row) for row in rows], device=device)[:, None]
        first = torch.tensor(places, device=device)[:, None]
        with torch.no_grad():
            asked = (at >= first) & (at < first + masks)
            logits = self._model(ids, attention_mask=real.long(), logits_to_keep=asked).logits  # [n * masks, V]
            found = logits.double().log_softmax(-1).reshape(len(texts), masks, -1)
            words = torch.tensor([self._words[i] for i in which], device=device)  # [labels, masks]
            picked = found[:, torch.arange(masks, device=device), words]  # [n, labels, masks]
        combined = picked.sum(-1) if self._template.combine == "sum" else picked.mean(-1)
        return combined.cpu().numpy()

    def _asked(self, text: str, masks: int) -> tuple[list[int], int]:
        """Ids of the question with masks for its answer, and where the first mask stands."""
        tokenizer, template = self._tokenizer, self._template
        before, after = (tokenizer.encode(part, specials=False).ids for part in (f"\n{template.answer}", "."))
        first, last = self._around
        ending = [*before, *[tokenizer.mask_id] * masks, *after, *last]
        room = None if self._limit is None else max(0, self._limit - len(first) - len(ending))
        # A mask spelt out in the text is a word like any other.
        asked = tokenizer.encode(template.asked(text), specials=False).ids[:room]
        return [*first, *asked, *ending], len(first) + len(asked) + len(before)
