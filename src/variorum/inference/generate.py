"""Writing left to right: one loop for every decoder and encoder-decoder, one text or many of different lengths."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from variorum.attention.cache import PLAN, CachePlan
from variorum.errors import UsageError
from variorum.inference.beam import search
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.inference.lines import Line, Written, wide
from variorum.inference.prefix import PrefixCache
from variorum.inference.speculative import guesser, speculate
from variorum.inference.spelling import Spelling
from variorum.inference.strategy import Strategy
from variorum.inference.writer import Writer, begin
from variorum.model import Model
from variorum.spec.model import Model as Spec


def require_writer(spec: Spec) -> None:
    """Refuse, from the spec alone, what cannot write.

    Raises:
        UsageError: an encoder.
    """
    if spec.architecture.decoder is None:
        raise UsageError(
            f"{spec.name} is an encoder: its attention is bidirectional, so it cannot generate left to right",
            remedy="use fill-mask or embed, or a decoder such as gpt2 or llama",
        )


def require_decoder(model: Model) -> None:
    """Refuse what cannot write.

    Raises:
        UsageError: an encoder, or a model without a language-model head.
    """
    require_writer(model.spec)
    if not {"causal_lm", "seq2seq_lm"} & set(model.head_names):
        raise UsageError(
            f"{model.spec.name} was loaded without a language-model head",
            remedy="load a checkpoint that holds one, with head='causal_lm' or 'seq2seq_lm'",
        )


def _require_room(model: Model, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    """Refuse before the first step what would run out of positions at some later one."""
    longest, limit = max(map(len, prompts)), longest_input(model)
    if limit is None or model.spec.architecture.encoder is not None:
        return
    if longest > limit:
        raise UsageError(
            f"text of {longest:,} tokens is longer than the {limit:,} this model takes", remedy="shorten it"
        )
    room = limit - longest + 1  # the last token is never read
    if max_new_tokens > room:
        raise UsageError(
            f"{longest:,} tokens and {max_new_tokens:,} new ones are more than the {limit:,} this model takes",
            remedy=f"ask for at most {room:,} new tokens",
        )


@dataclasses.dataclass(frozen=True)
class Keeping:
    """What is kept between steps (``plan``; ``None``: nothing), and between calls (``prefixes``)."""

    plan: CachePlan | None = PLAN
    prefixes: PrefixCache | None = None

    def begin(self, model: Model, prompts: Sequence[Sequence[int]], strategy: Strategy) -> Writer:
        """A writer for prompts."""
        plan = self.plan
        if plan is not None and strategy.drafts is not None:
            plan = dataclasses.replace(plan, undo=max(plan.undo, strategy.drafts.most))
        return begin(model, prompts, plan, start=strategy.fixed.start, prefixes=self.prefixes)


KEPT = Keeping()


@torch.no_grad()
def generate(
    model: Model, prompts: Sequence[Sequence[int]], strategy: Strategy | None = None, *, use_cache: bool = True,
    keeping: Keeping = KEPT, **choice: Any,
) -> list[Written]:  # fmt: skip
    """The continuation of each prompt; each row as if it were alone.

    Args:
        model: a decoder, or an encoder-decoder, which answers the prompts.
        prompts: B lists of ids (an encoder-decoder's source texts).
        strategy: what is asked for; nothing is read from the checkpoint.
        use_cache: False recomputes everything each step, with the same result (a model with a memory and no window
            then sees also what is older than its memory).
        keeping: how the state is kept where it is, and beginnings of texts from earlier calls.
        choice: instead of a strategy, its fields: see :meth:`~variorum.inference.strategy.Strategy.of`.

    Returns:
        A row for each prompt; ``num_return_sequences`` rows for each, the best first, where beams are searched.

    Raises:
        UsageError: see :func:`require_decoder`; a prompt without tokens; or more tokens than the model takes.
    """
    strategy = strategy or Strategy.of(**choice)
    require_decoder(model)
    if not prompts:
        return []
    _require_room(model, prompts, strategy.max_new_tokens)
    lines, keeping = _lines(model, prompts, strategy), keeping if use_cache else Keeping(None)
    if strategy.beams.num_beams > 1:
        return search(keeping.begin(model, prompts, strategy), lines)
    for _ in _steps(model, prompts, lines, keeping):
        pass
    return [line.written() for line in lines]


def pieces(
    model: Model, prompt: Sequence[int], before: Sequence[int], strategy: Strategy, keeping: Keeping = KEPT
) -> Iterator[str]:
    """The text of one continuation, piece by piece as it becomes certain.

    Args:
        model, prompt, strategy, keeping: as in :func:`generate`.
        before: the new text is what these and the new ids give together beyond these alone.

    Raises:
        UsageError: as in :func:`generate`, at once; and for a search, which knows its text only at its end.
    """
    require_decoder(model)
    _require_room(model, [prompt], strategy.max_new_tokens)
    if strategy.beams.num_beams > 1:
        raise UsageError("a search over beams knows its text only at its end", remedy="give num_beams 1")
    spelling = Spelling(tokenizer_of(model), before, strategy.stop_strings)
    [line] = _lines(model, [prompt], strategy)
    line.spelling = spelling

    def told() -> Iterator[str]:
        for _ in _steps(model, [prompt], [line], keeping):
            yield line.take()
        yield spelling.close()

    return filter(None, told())


def _lines(model: Model, prompts: Sequence[Sequence[int]], strategy: Strategy) -> list[Line]:
    """A line for each prompt, spelt where its text may end it."""
    start, stop = strategy.fixed.start, strategy.stop_strings
    read = before = prompts
    if model.spec.architecture.encoder is not None:
        own = start if start is not None else model.spec.architecture.main.tokens.start_id
        read, before = [[own] if isinstance(own, int) else [] for _ in prompts], [[] for _ in prompts]
    return [
        Line(one, strategy, Spelling(tokenizer_of(model), old, stop) if stop else None)
        for one, old in zip(read, before, strict=True)
    ]


def _steps(model: Model, prompts: Sequence[Sequence[int]], lines: Sequence[Line], keeping: Keeping) -> Iterator[None]:
    """Write all lines to their ends; yields whenever tokens were added."""
    strategy = lines[0].strategy
    chances = strategy.sampling.chances(len(lines))
    if strategy.drafts is None:
        yield from follow(keeping.begin(model, prompts, strategy), lines, chances)
        return
    for prompt, line, chance in zip(prompts, lines, chances, strict=True):
        helper = guesser(model, prompt, line, chance)
        yield from speculate(keeping.begin(model, [prompt], strategy), line, chance, helper)


@torch.no_grad()
def follow(writer: Writer, lines: Sequence[Line], chances: Sequence[random.Random]) -> Iterator[None]:
    """Write every line to its end, a token at a time; those that ended leave the batch. Yields after each token.

    Args:
        writer: B rows, their prompts read.
        lines: the same rows.
        chances: what each row draws with.
    """
    strategy, rows = lines[0].strategy, list(range(len(lines)))
    while True:
        logits = wide(writer.logits)
        scores = logits
        if lines[0].changes_scores:
            scores = torch.stack([lines[row].scores(own) for row, own in zip(rows, logits, strict=True)])
        chosen = strategy.sampling.choose(scores, [chances[row] for row in rows])
        picked = logits.gather(-1, torch.tensor(chosen, device=logits.device)[:, None])[:, 0] - logits.logsumexp(-1)
        for row, token, log_probability in zip(rows, chosen, picked.tolist(), strict=True):
            lines[row].add(token, log_probability)
        yield
        staying = [place for place, row in enumerate(rows) if lines[row].left]
        if not staying:
            return
        if len(staying) < len(rows):
            writer.select(staying)
            rows = [rows[place] for place in staying]
        writer.step(torch.tensor([[chosen[place]] for place in staying], device=logits.device))
