"""How the next token is chosen: the likeliest, or drawn from what is left of the distribution.

The steps follow the order in which the fields stand: what was written is penalised, some tokens are ruled out, scores
are divided by the temperature, then the tail is cut, by rank, by mass, by ratio to the best, or by surprise.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from variorum.errors import UsageError

#: Below this the likeliest token has all the probability that float64 can tell.
COLD = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """Rules of choice. The default takes the likeliest token, the lowest id on ties.

    Args:
        repetition_penalty: scores of tokens that stand in the text so far, prompt included, are divided by this if
            positive and multiplied if negative, once a token (Keskar et al. 2019).
        presence_penalty, frequency_penalty: taken from the score of each token written so far, once, and once for each
            time that it was written.
        no_repeat_ngram: no run of so many tokens comes twice, prompt included; 0 is no such rule.
        suppressed: ids that are never written.
        min_new_tokens: no row ends before it has so many.
        temperature: scores are divided by this; 0 takes the likeliest.
        top_k: only so many of the likeliest stay.
        top_p: the fewest of the likeliest that together reach this probability stay (Holtzman et al. 2019).
        min_p: those with at least this share of the best one's probability stay.
        typical_p: those whose surprise is nearest to the expected one stay, up to this mass (Meister et al. 2022).
        seed: of the draws; row i of a batch draws from (seed, i), whatever stands beside it.

    Raises:
        UsageError: a value that makes no choice.
    """

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    suppressed: tuple[int, ...] = ()
    min_new_tokens: int = 0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        positive = {"repetition_penalty": self.repetition_penalty, "top_k": self.top_k}
        shares = {"top_p": self.top_p, "min_p": self.min_p, "typical_p": self.typical_p}
        counts = {"temperature": self.temperature, "no_repeat_ngram": self.no_repeat_ngram,
                  "min_new_tokens": self.min_new_tokens}  # fmt: skip
        for names, fits, remedy in (
            (positive, lambda x: x > 0, "give a number above 0"),
            (shares, lambda x: 0 < x <= 1, "give a number above 0, at most 1"),
            (counts, lambda x: x >= 0, "give 0 or more"),
        ):
            for name, value in names.items():
                if value is not None and not fits(value):
                    raise UsageError(f"{name} is {value}", remedy=remedy)

    @property
    def draws(self) -> bool:
        """Whether chance has a say."""
        return self.temperature > COLD

    def generators(self, rows: int) -> list[torch.Generator]:
        """A generator for each row of a batch."""
        digests = (hashlib.sha256(f"{self.seed}|{row}".encode()).digest() for row in range(rows))
        return [torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1) for digest in digests]

    def penalised(self, scores: Tensor, prompt: Sequence[int], written: Sequence[int], ends: Sequence[int]) -> Tensor:
        """Scores [V] of one row after everything that depends on its text; float32 or better."""
        scores = scores.clone()
        if self.repetition_penalty != 1.0:
            seen = torch.tensor(sorted({*prompt, *written}), dtype=torch.long, device=scores.device)
            old = scores[seen]
            scores[seen] = torch.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        if written and (self.presence_penalty or self.frequency_penalty):
            ids, counts = torch.tensor(written, device=scores.device).unique(return_counts=True)
            scores[ids] -= self.presence_penalty + self.frequency_penalty * counts
        banned = [*self.suppressed, *self._repeating([*prompt, *written])]
        if len(written) < self.min_new_tokens:
            banned += ends
        if banned:
            scores[torch.tensor(banned, device=scores.device)] = -torch.inf
        return scores

    def _repeating(self, text: Sequence[int]) -> list[int]:
        """Tokens that would end a run that ``text`` has already."""
        n = self.no_repeat_ngram
        if not n or len(text) < n:
            return []
        last = list(text[len(text) - n + 1 :])
        return [text[i + n - 1] for i in range(len(text) - n + 1) if list(text[i : i + n - 1]) == last]

    def probabilities(self, scores: Tensor) -> Tensor:
        """Scores [B, V] -> what is drawn from, float64 [B, V]; a row of sum 1."""
        scores = scores.double() / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            least = scores.topk(self.top_k, -1).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        if self.top_p is not None:
            scores = _nucleus(scores, -scores.softmax(-1), self.top_p)
        if self.min_p is not None:
            shares = scores.softmax(-1)
            scores = scores.masked_fill(shares < self.min_p * shares.amax(-1, keepdim=True), -torch.inf)
        if self.typical_p is not None:
            logs = scores.log_softmax(-1)
            expected = -(logs.exp() * logs).nansum(-1, keepdim=True)
            scores = _nucleus(scores, (-logs - expected).abs(), self.typical_p)
        return scores.softmax(-1)

    def choose(self, scores: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """A token for each row of scores [B, V], [B]."""
        if not self.draws:
            return scores.argmax(-1)
        shares = self.probabilities(scores).cpu()
        picked = [torch.multinomial(row, 1, generator=own) for row, own in zip(shares, generators, strict=True)]
        return torch.cat(picked).to(scores.device)


def _nucleus(scores: Tensor, order: Tensor, mass: float) -> Tensor:
    """``scores`` with all ruled out but the first by ``order``, as many as are needed to reach ``mass``."""
    ranked = order.argsort(dim=-1, stable=True)
    shares = scores.softmax(-1).gather(-1, ranked)
    before = shares.cumsum(-1) - shares
    # Rounding must not let a token in that the mass before it has just reached.
    out = before >= mass - 1e-12
    return scores.masked_fill(torch.zeros_like(out).scatter(-1, ranked, out), -torch.inf)


GREEDY = Sampling()
