"""Drafts: several tokens guessed, then read by the model in one step and kept as far as it would have written them.

A guess is kept with probability min(1, p/q), where p is its probability for the model and q for the one who guessed;
the token after the last kept guess is drawn from max(0, p - q), or from p where all were kept. What is written has then
exactly the model's distribution (Leviathan et al. 2023), and is the model's likeliest text where nothing is drawn.
Both p and q are taken after the rules of the strategy.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from variorum.errors import UsageError
from variorum.inference.encode import longest_input
from variorum.inference.lines import Guesses, Line, log_probability, wide
from variorum.inference.sampling import drawn
from variorum.inference.writer import Writer, begin
from variorum.model import Model


class Guess(NamedTuple):
    """A token, and how likely each one was to be guessed, float64 [V]; ``None``: this one was certain."""

    token: int
    shares: Tensor | None


class Guesser(Protocol):
    """Where guesses come from."""

    def guess(self, line: Line, count: int) -> list[Guess]:
        """At most ``count`` tokens that may follow."""


class Lookup:
    """Guesses what followed where the last tokens stood before: the longest run first, its first place first.

    Args:
        before: what stands before the line: an encoder's source.
        longest: at most so many last tokens are looked for.
    """

    def __init__(self, before: Sequence[int], longest: int) -> None:
        self.before, self.longest = list(before), longest

    def guess(self, line: Line, count: int) -> list[Guess]:
        """See :class:`Guesser`."""
        text = [*self.before, *line.prompt, *line.ids]
        for size in range(min(self.longest, len(text) - 1), 0, -1):
            last = text[-size:]
            at = next((i + size for i in range(len(text) - size) if text[i : i + size] == last), None)
            if at is not None:
                return [Guess(token, None) for token in text[at : at + count]]
        return []


class Assistant:
    """Guesses what a smaller model would write, by the same rules and draws.

    Its own state goes on with what was written only; guesses are read by a copy of it.
    """

    def __init__(self, model: Model, prompt: Sequence[int], line: Line, vocab: int, chance: random.Random) -> None:
        self.vocab, self.chance, self.model = vocab, chance, model
        self.room = longest_input(model) if model.spec.architecture.encoder is None else None
        self.read = 0
        self.shared = {id(part): part for part in model.modules()}  # which a copy of the state does not copy
        fits = self.room is None or len(prompt) <= self.room
        self.trunk = begin(model, [prompt], start=line.strategy.fixed.start) if fits else None

    def guess(self, line: Line, count: int) -> list[Guess]:
        """See :class:`Guesser`. Beyond its own longest input it guesses nothing."""
        if self.room is not None:
            count = min(count, self.room - len(line.prompt) - len(line.ids) + 1)
        if self.trunk is None or count < 1:
            return []
        if self.read < len(line.ids):
            self._step(self.trunk, line.ids[self.read :])
            self.read = len(line.ids)
        writer, found = self.trunk, list[Guess]()
        while True:
            shares = _shares(line, self._scores(writer), [one.token for one in found])
            found.append(Guess(drawn(shares, self.chance), shares))
            if len(found) == count or found[-1].token in line.strategy.end_ids:
                return found
            writer = copy.deepcopy(writer, dict(self.shared)) if writer is self.trunk else writer
            self._step(writer, [found[-1].token])

    def _scores(self, writer: Writer) -> Tensor:
        """Its scores over the vocabulary of the model that it helps; the tables may have more or fewer spare rows."""
        scores = wide(writer.logits[0])[: self.vocab]
        return torch.cat((scores, scores.new_full((self.vocab - len(scores),), -torch.inf)))

    def _step(self, writer: Writer, ids: Sequence[int]) -> None:
        writer.step(torch.tensor([list(ids)], device=next(self.model.parameters()).device))


def require_kin(model: Model, assistant: Model) -> None:
    """Refuse a guesser that speaks another language.

    Raises:
        UsageError: another tokenizer, or another kind of model.
    """
    ours, theirs = model.spec.architecture, assistant.spec.architecture
    if (ours.encoder is None) != (theirs.encoder is None) or theirs.decoder is None:
        raise UsageError(
            f"{assistant.spec.name} cannot guess for {model.spec.name}: only one of them continues texts",
            remedy="take a smaller model of the same kind",
        )
    if model.tokenizer is None or assistant.tokenizer is None:
        same = ours.main.tokens.vocab == theirs.main.tokens.vocab
    else:
        same = list(model.tokenizer.engine.names) == list(assistant.tokenizer.engine.names)
    if not same:
        raise UsageError(
            f"{assistant.spec.name} has another tokenizer than {model.spec.name}",
            remedy="take a smaller model that was trained with the same one",
        )


def guesser(model: Model, prompt: Sequence[int], line: Line, chance: random.Random) -> Guesser:
    """Who guesses for a line after ``prompt`` (an encoder-decoder's source), as its strategy says.

    Raises:
        UsageError: see :func:`require_kin`.
    """
    drafts = line.strategy.drafts
    assert drafts is not None
    if drafts.assistant_model is None:
        before = prompt if model.spec.architecture.encoder is not None else ()
        return Lookup(before, drafts.max_matching_ngram_size)
    require_kin(model, drafts.assistant_model)
    vocab = model.spec.architecture.main.tokens.vocab
    return Assistant(drafts.assistant_model, prompt, line, vocab, chance)


@torch.no_grad()
def speculate(writer: Writer, line: Line, chance: random.Random, helper: Guesser) -> Iterator[None]:
    """Write ``line`` with what ``helper`` guesses; yields whenever tokens were added.

    Args:
        writer: one row, its prompt read.
        line: the same row; its strategy says how much is guessed at a time.
        chance: what tokens are drawn with, and guesses kept.
        helper: who guesses.
    """
    drafts = line.strategy.drafts
    assert drafts is not None
    _write(line, wide(writer.logits[0]), chance)
    guessed = accepted = steps = 0
    while line.left:
        yield
        guesses = helper.guess(line, min(drafts.most, line.left - 1)) if line.left > 1 else []
        ids = [line.ids[-1], *(guess.token for guess in guesses)]
        scores = wide(writer.step(torch.tensor([ids], device=writer.logits.device))[0])
        kept = 0
        while kept < len(guesses) and line.left and _write(line, scores[kept], chance, guesses[kept]):
            kept += 1
        if kept == len(guesses) and line.left:
            _write(line, scores[kept], chance)
        writer.drop(len(guesses) - kept)
        guessed, accepted, steps = guessed + len(guesses), accepted + kept, steps + 1
        line.guesses = Guesses(guessed, accepted, steps)
    yield


def _write(line: Line, scores: Tensor, chance: random.Random, guess: Guess | None = None) -> bool:
    """Write the next token, given the model's scores [V] of it; whether it is the guess, kept."""
    shares = _shares(line, scores)
    kept = False
    if guess is None:
        token = drawn(shares, chance)
    else:
        likely = 1.0 if guess.shares is None else float(guess.shares[guess.token])
        kept = chance.random() * likely < float(shares[guess.token])
        token = guess.token if kept else drawn(_rest(shares, guess), chance)
    line.add(token, log_probability(scores, token))
    return kept


def _rest(shares: Tensor, guess: Guess) -> Tensor:
    """What is drawn from where a guess was not kept."""
    rest = shares.clone()
    if guess.shares is None:
        rest[guess.token] = 0.0
    else:
        rest = (rest - guess.shares).clamp(min=0.0)
    return rest if bool(rest.any()) else shares  # equal but for rounding


def _shares(line: Line, scores: Tensor, guessed: Sequence[int] = ()) -> Tensor:
    """What the token after ``guessed`` is drawn from, float64 [V], given a model's scores [V]."""
    return line.strategy.sampling.distribution(line.scores(scores, guessed)[None])[0]
