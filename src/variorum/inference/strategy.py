"""What a caller asks of generation, as one value: how tokens are chosen, what is fixed, and when a row ends.

Fields are named as in ``generation_config.json``. What a checkpoint's own file asks for is read in
:mod:`variorum.inference.habits`; nothing here knows a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from torch import Tensor, inf

from variorum.errors import UsageError, nearest
from variorum.inference.sampling import GREEDY, Sampling
from variorum.model import Model


@dataclasses.dataclass(frozen=True)
class Forced:
    """Ids that a checkpoint fixes rather than chooses.

    ``start`` is what a decoder beside an encoder reads before anything is written (``None``: the spec's). ``first`` is
    written after a start token that stands alone; ``last`` is written where a row may write no more. What is forced is
    written whatever else is asked for.
    """

    start: int | None = None
    first: int | None = None
    last: int | None = None


CHOSEN = Forced()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Beams:
    """How many texts are kept in sight, and how they are compared.

    Args:
        num_beams: texts kept in sight; 1 is no beam search.
        length_penalty: a finished text is worth its log-probability divided by (its length)^this, where length counts
            the new tokens, the end token among them, for every text. 0 compares sums; above it long texts gain.
        early_stopping: true ends once there are ``num_beams`` finished texts; false where the best unfinished one would
            not enter them if it ended here; "never" where it cannot enter them at any length it may reach.
        num_return_sequences: so many of the finished texts come back, the best first.

    Raises:
        UsageError: a value that makes no search.
    """

    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    num_return_sequences: int = 1

    def __post_init__(self) -> None:
        for name in ("num_beams", "num_return_sequences"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}", remedy="give 1 or more")
        if self.early_stopping not in (True, False, "never"):
            raise UsageError(f"early_stopping is {self.early_stopping!r}", remedy="give true, false or never")
        if self.num_return_sequences > self.num_beams:
            raise UsageError(
                f"{self.num_return_sequences} texts of {self.num_beams} beams cannot be returned",
                remedy=f"give num_beams={self.num_return_sequences}",
            )

    def worth(self, log_probability: float, length: int) -> float:
        """What a finished text of so many new tokens is worth."""
        return log_probability / float(length) ** self.length_penalty


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drafts:
    """What guesses ahead, so that the model reads several tokens in one step; what is written is as without.

    Args:
        assistant_model: a smaller model with the same tokenizer. num_assistant_tokens: it guesses so many at a time.
        prompt_lookup_num_tokens: without such a model, so many tokens are guessed from the text itself: those that
            followed where its last tokens stood before.
        max_matching_ngram_size: at most so many last tokens are looked up.

    Raises:
        UsageError: both or neither, or a number that guesses nothing.
    """

    assistant_model: Model | None = None
    num_assistant_tokens: int = 5
    prompt_lookup_num_tokens: int | None = None
    max_matching_ngram_size: int = 2

    def __post_init__(self) -> None:
        if (self.assistant_model is None) == (self.prompt_lookup_num_tokens is None):
            raise UsageError(
                "guesses come from a model or from the text", remedy="give assistant_model or prompt_lookup_num_tokens"
            )
        for name in ("num_assistant_tokens", "prompt_lookup_num_tokens", "max_matching_ngram_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", remedy="give 1 or more")

    @property
    def most(self) -> int:
        """How many tokens are guessed at a time."""
        return self.prompt_lookup_num_tokens or self.num_assistant_tokens


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strategy:
    """Everything a caller asks of generation.

    Args:
        max_new_tokens, min_new_tokens: a row has at most, and at least, so many, the end token included.
        end_ids: any of these ends its row.
        stop_strings: a row ends once its new text has one of these.
        fixed: ids that are not chosen.
        sampling, beams, drafts: how tokens are chosen. A search over beams takes no draws and no drafts.

    Raises:
        UsageError: wishes that exclude each other.
    """

    max_new_tokens: int = 20
    min_new_tokens: int = 0
    end_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    fixed: Forced = CHOSEN
    sampling: Sampling = GREEDY
    beams: Beams = Beams()
    drafts: Drafts | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise UsageError(f"{self.max_new_tokens} new tokens are none", remedy="ask for at least one")
        if self.min_new_tokens < 0:
            raise UsageError(f"min_new_tokens is {self.min_new_tokens}", remedy="give 0 or more")
        if "" in self.stop_strings:
            raise UsageError("an empty stop string stands everywhere", remedy="leave it out")
        if self.beams.num_beams > 1 and self.sampling.draws:
            raise UsageError("beams are searched, not drawn", remedy="give temperature 0, or num_beams 1")
        if self.beams.num_beams > 1 and self.drafts is not None:
            raise UsageError("beams take no drafts", remedy="leave the drafts out, or give num_beams 1")

    @classmethod
    def of(cls, **choice: Any) -> Self:
        """A strategy from field names of it and of its parts, side by side: ``of(max_new_tokens=5, top_k=9)``.

        Raises:
            UsageError: a name that nothing has, with the nearest one; or a value that makes no choice.
        """
        unknown = sorted(set(choice) - fields())
        if unknown:
            raise UsageError(f"generation has no {unknown[0]}", remedy=nearest(unknown[0], fields()))
        said = {name: _frozen(choice[name]) for name in _names(cls) & set(choice)}
        for part, kind in PARTS.items():
            given = {name: _frozen(choice[name]) for name in _names(kind) & set(choice)}
            if given:
                before = said.get(part)
                said[part] = kind(**given) if before is None else dataclasses.replace(before, **given)
        return cls(**said)

    @property
    def changes_scores(self) -> bool:
        """Whether :meth:`scores` differs from what it is given."""
        fixed = self.fixed.first is not None or self.fixed.last is not None
        return self.sampling.penalises or fixed or (self.min_new_tokens > 0 and bool(self.end_ids))

    def scores(self, scores: Tensor, prompt: Sequence[int], written: Sequence[int]) -> Tensor:
        """Scores [V] of the token after ``prompt`` and ``written``, from the model's own.

        What is chosen from comes first, in the order of :mod:`variorum.inference.sampling`; then no end before the
        least length; a forced token overrules all.
        """
        forced = self._forced(prompt, written)
        if forced is not None:
            alone = scores.new_full(scores.shape, -inf)
            alone[forced] = 0.0
            return alone
        scores = self.sampling.penalised(scores, prompt, written)
        if len(written) < self.min_new_tokens:
            scores[list(self.end_ids)] = -inf
        return scores

    def _forced(self, prompt: Sequence[int], written: Sequence[int]) -> int | None:
        if self.fixed.first is not None and len(prompt) == 1 and not written:
            return self.fixed.first
        return self.fixed.last if len(written) == self.max_new_tokens - 1 else None


PARTS: Mapping[str, Any] = {"sampling": Sampling, "beams": Beams, "drafts": Drafts}


def fields() -> set[str]:
    """Everything that may be asked for, by name."""
    return _names(Strategy).union(*map(_names, PARTS.values()))


def _names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that what is asked can be compared and kept."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list | tuple) else value
