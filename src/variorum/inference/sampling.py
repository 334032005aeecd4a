"""How the next token is chosen: the likeliest, or drawn from what is left of the distribution.

Rules act in the order of the released code (``transformers``), in which the fields stand: what was written is
penalised, runs and tokens are ruled out, scores are divided by the temperature, then the tail is cut by rank, by mass,
by ratio to the best and by surprise. Presence and frequency, which that code lacks, follow the repetition penalty, as
in vLLM.
What ends a text, or is forced, is no matter of choice; see :mod:`variorum.inference.strategy`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from variorum.errors import UsageError

#: Below this the likeliest token has all the probability that float64 can tell.
COLD = 1e-6
#: So many ids nearly always hold a nucleus, and are sorted sooner than a vocabulary.
FEW = 1024
#: The rules that cut the tail of a distribution, in their order.
CUTS = ("top_k", "top_p", "min_p", "typical_p")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """Rules of choice, named as in ``generation_config.json``. The default takes the likeliest, the lowest id on ties.

    Args:
        repetition_penalty: scores of tokens that stand in the text so far, prompt included, are divided by this if
            positive and multiplied if negative, once a token (Keskar et al. 2019).
        presence_penalty, frequency_penalty: taken from the score of each token written so far, once, and once for each
            time that it was written.
        no_repeat_ngram_size: no run of so many tokens comes twice, prompt included; 0 is no such rule.
        bad_words_ids: runs that are never completed.
        suppress_tokens: ids that are never written. begin_suppress_tokens: ids that are not written first.
        temperature: scores are divided by this; 0 takes the likeliest.
        top_k: only so many of the likeliest stay, and what is as likely as the last of them.
        top_p: the fewest of the likeliest that together reach this probability stay (Holtzman et al. 2019).
        min_p: those with at least this share of the best one's probability stay.
        typical_p: those whose surprise is nearest to the expected one stay, up to this mass (Meister et al. 2022).
        seed: of the draws. With one number, row i of a batch draws from (seed, i), whatever stands beside it; with one
            for each row, every row draws as it would alone with its own.

    Raises:
        UsageError: a value that makes no choice, or a cut of a distribution that nothing is drawn from.
    """

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        for names, fits, remedy in (
            (("repetition_penalty", "top_k"), lambda x: x > 0, "give a number above 0"),
            (("top_p", "min_p", "typical_p"), lambda x: 0 < x <= 1, "give a number above 0, at most 1"),
            (("temperature", "no_repeat_ngram_size"), lambda x: x >= 0, "give 0 or more"),
        ):
            for name in names:
                value = getattr(self, name)
                if value is not None and not fits(value):
                    raise UsageError(f"{name} is {value}", remedy=remedy)
        if self.cuts and not self.draws:
            name = next(iter(self.cuts))
            raise UsageError(f"{name} has no say where the likeliest token is taken", remedy="give a temperature")

    @property
    def draws(self) -> bool:
        """Whether chance has a say."""
        return self.temperature > COLD

    @property
    def cuts(self) -> dict[str, float]:
        """The rules that cut the tail, by name."""
        named = {name: getattr(self, name) for name in CUTS}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def penalises(self) -> bool:
        """Whether what was written, or an id, is held against a token."""
        drawn_from = {"temperature", "seed", *CUTS}
        names = [field.name for field in dataclasses.fields(self) if field.name not in drawn_from]
        return any(getattr(self, name) != getattr(GREEDY, name) for name in names)

    def chances(self, rows: int) -> list[random.Random]:
        """Where each row of a batch draws from.

        Raises:
            UsageError: more or fewer seeds than rows.
        """
        if isinstance(self.seed, int):
            names = [f"{self.seed}|{row}" for row in range(rows)]
        elif len(self.seed) == rows:
            names = [f"{seed}|0" for seed in self.seed]
        else:
            raise UsageError(f"{len(self.seed)} seeds for {rows} texts", remedy="give one, or one for each")
        return [random.Random(hashlib.sha256(name.encode()).digest()) for name in names]

    def penalised(self, scores: Tensor, prompt: Sequence[int], written: Sequence[int]) -> Tensor:
        """Scores [V] of one row after everything that depends on its text; ``scores`` stay as they are."""
        scores = scores.clone()
        if self.repetition_penalty != 1.0:
            seen = torch.tensor(sorted({*prompt, *written}), dtype=torch.long, device=scores.device)
            old = scores[seen]
            scores[seen] = torch.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        if written and (self.presence_penalty or self.frequency_penalty):
            ids, counts = torch.tensor(written, device=scores.device).unique(return_counts=True)
            scores[ids] -= self.presence_penalty + self.frequency_penalty * counts
        banned = [*self._completing(prompt, written), *self.suppress_tokens]
        if not written:
            banned += self.begin_suppress_tokens
        if banned:
            scores[torch.tensor(banned, device=scores.device)] = -torch.inf
        return scores

    def _completing(self, prompt: Sequence[int], written: Sequence[int]) -> list[int]:
        """Tokens that would complete a bad word, or a run that the text has already."""
        n = self.no_repeat_ngram_size
        if not n and not self.bad_words_ids:
            return []
        text = [*prompt, *written]
        found = [word[-1] for word in self.bad_words_ids if text[len(text) - len(word) + 1 :] == [*word[:-1]]]
        if 0 < n <= len(text):
            last = text[len(text) - n + 1 :]
            found += [text[i + n - 1] for i in range(len(text) - n + 1) if text[i : i + n - 1] == last]
        return found

    def distribution(self, scores: Tensor) -> Tensor:
        """Scores [B, V] -> what is drawn from, float64 [B, V], each row of sum 1; one token has all where none is."""
        if not self.draws:
            return torch.zeros(scores.shape, dtype=torch.float64, device=scores.device).scatter_(
                -1, scores.argmax(-1, keepdim=True), 1.0
            )
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

    def choose(self, scores: Tensor, chances: Sequence[random.Random]) -> list[int]:
        """A token for each row of scores [B, V]."""
        if not self.draws:
            return scores.argmax(-1).tolist()
        return [drawn(row, chance) for row, chance in zip(self.distribution(scores), chances, strict=True)]


def drawn(shares: Tensor, chance: random.Random) -> int:
    """An id by its share, from shares [V] of any sum; never one that has none."""
    mass = shares.cumsum(-1)
    at = torch.searchsorted(mass, mass[-1:] * chance.random(), right=True)
    return int(torch.minimum(at, torch.searchsorted(mass, mass[-1:])))


def _nucleus(scores: Tensor, order: Tensor, mass: float) -> Tensor:
    """``scores`` with all ruled out but the first by ``order``, as many as are needed to reach ``mass``."""
    shares = scores.softmax(-1)
    ranked = _first(shares, order, mass)
    held = shares.gather(-1, ranked)
    # Rounding must not let a token in that the mass before it has just reached.
    inside = held.cumsum(-1) - held < mass - 1e-12
    return scores.masked_fill(~torch.zeros_like(shares, dtype=torch.bool).scatter(-1, ranked, inside), -torch.inf)


def _first(shares: Tensor, order: Tensor, mass: float) -> Tensor:
    """Ids by ``order``, the lowest first on ties: all of them, or fewer that reach ``mass`` for certain."""
    near = order.topk(min(FEW, order.shape[-1]), largest=False).indices.sort(-1).values
    ranks = order.gather(-1, near)
    certain = shares.gather(-1, near).masked_fill(ranks == ranks.amax(-1, keepdim=True), 0.0)
    if bool((certain.sum(-1) < mass).any()):  # or the last of them may be as good as one beyond
        return order.argsort(dim=-1, stable=True)
    return near.gather(-1, ranks.argsort(dim=-1, stable=True))


GREEDY = Sampling()
