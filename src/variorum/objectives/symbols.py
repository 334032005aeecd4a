"""What an objective has to know of a vocabulary: which ids mean what, and where words and sentences begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.text.text_to_text import sentinel

if TYPE_CHECKING:
    import torch

    from variorum.text.tokenizer import Tokenizer

Place = tuple[int | None, int]
"""A place in a pair: a special id or ``None`` for the next text, and its segment."""
STOPS = (".", "!", "?")
_SPACES = {"byte_level_bpe": tuple("ĠĊĉčÂ"), "bytes": (" ", "\n", "\t", "\r")}


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The ids of a vocabulary of ``vocab`` words.

    Attributes:
        special: ids that no text holds; never hidden, never put in another's place.
        mask, pad, end: what hides a token, fills a row up, ends a text.
        sentinels: what stands for the hidden spans, the first span's first.
        pair: the special ids around two texts, and their segments.
        begins, ends: bool [V], ids that begin a word, or end one; ``None``: every id is a word.
        stops: ids that end a sentence.
    """

    vocab: int
    special: frozenset[int] = frozenset()
    mask: int | None = None
    pad: int | None = None
    end: int | None = None
    sentinels: tuple[int, ...] = ()
    pair: tuple[Place, ...] = ((None, 0), (None, 1))
    begins: torch.Tensor | None = field(default=None, repr=False, compare=False)
    ends: torch.Tensor | None = field(default=None, repr=False, compare=False)
    stops: frozenset[int] = frozenset()

    @classmethod
    def of(cls, tokenizer: Tokenizer, vocab: int | None = None) -> Symbols:
        """What a tokenizer says; ``vocab`` is the model's, where its table has rows to spare."""
        names = tokenizer.engine.names
        sentinels: list[int] = []
        while (found := tokenizer.token_to_id(sentinel(len(sentinels)))) is not None:
            sentinels.append(found)
        begins, ends = _edges(tokenizer.kind, names)
        end = tokenizer.eos_id if tokenizer.eos_id is not None else tokenizer.sep_id
        stops = {id for id, name in enumerate(names) if name.strip("Ġ▁").removesuffix("</w>") in STOPS}
        return cls(
            vocab=vocab or len(names), special=tokenizer.special_ids | frozenset(sentinels), mask=tokenizer.mask_id,
            pad=tokenizer.pad_id, end=end, sentinels=tuple(sentinels),
            pair=tuple((slot.id, slot.type_id) for slot in tokenizer.wrapper.pair if slot.id is not None
                       or slot.sequence is not None),
            begins=begins, ends=ends, stops=frozenset(stops),
        )  # fmt: skip

    def required(self, role: str) -> int:
        """The id that plays a role.

        Raises:
            UsageError: none does.
        """
        found: int | None = getattr(self, role)
        if found is None:
            raise UsageError(
                f"the vocabulary has no {role} token", remedy="train one with it, or take another objective"
            )
        return found

    @cached_property
    def _special(self) -> torch.Tensor:
        import torch

        marked = torch.zeros(self.vocab, dtype=torch.bool)
        marked[[id for id in self.special if id < self.vocab]] = True
        return marked

    @cached_property
    def ordinary(self) -> torch.Tensor:
        """The ids of words, in rising order, int64 [n]."""
        return (~self._special).nonzero().squeeze(-1)

    def eligible(self, ids: torch.Tensor, mask: torch.Tensor | None, special: torch.Tensor | None) -> torch.Tensor:
        """Which tokens may be hidden, bool [B, T]: no padding, nothing special, by id or by ``special`` (1 if so)."""
        may = ~self._special[ids]
        may = may if mask is None else may & mask.bool()
        return may if special is None else may & (special == 0)

    def words(self, ids: torch.Tensor, eligible: torch.Tensor) -> torch.Tensor:
        """The number of each token's word in its row, int64 [B, T]; -1 where a token is not eligible."""
        import torch

        first = torch.ones_like(eligible)
        if self.begins is not None:
            before = torch.zeros_like(eligible)
            before[:, 1:] = eligible[:, :-1]
            if self.ends is not None:
                before[:, 1:] &= ~self.ends[ids[:, :-1]]
            first = self.begins[ids] | ~before
        return torch.where(eligible, (first & eligible).cumsum(-1) - 1, -1)


def _edges(kind: str, names: Sequence[str]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Which ids begin a word, and which end one, by how the algorithm spells them."""
    import torch

    if kind == "word_level":
        return None, None
    if kind == "wordpiece":
        return torch.tensor([not name.startswith("##") for name in names]), None
    if kind == "bpe" and any(name.endswith("</w>") for name in names):
        return torch.zeros(len(names), dtype=torch.bool), torch.tensor([name.endswith("</w>") for name in names])
    if kind in ("bpe", "unigram") and any(name.startswith("▁") for name in names):
        return torch.tensor([name.startswith("▁") for name in names]), None
    spaces = _SPACES.get(kind, _SPACES["byte_level_bpe"])
    return torch.tensor([name.startswith(spaces) for name in names]), None
