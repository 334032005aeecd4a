"""Writing left to right over a cache, one text or many of different lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from variorum.attention.cache import PLAN
from variorum.errors import UsageError
from variorum.inference.encode import SPARE, longest_input, tokenizer_of
from variorum.inference.sampling import GREEDY, Sampling
from variorum.inference.writer import begin
from variorum.model import Model
from variorum.spec.model import Model as Spec


@dataclasses.dataclass(frozen=True)
class Written:
    """One row of new tokens. ``log_probabilities`` has one entry per token, the end token included."""

    ids: list[int]
    log_probabilities: list[float]
    stopped: bool


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
    if max_new_tokens < 1:
        raise UsageError(f"{max_new_tokens} new tokens are none", remedy="ask for at least one")
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
class Text:
    """A prompt and what was written after it, with the tokens behind it (see :class:`Written`)."""

    prompt: str
    text: str
    ids: list[int]
    tokens: list[str]
    log_probabilities: list[float]
    stopped: bool


def end_ids(model: Model) -> list[int]:
    """Ids that end a text: the generation config's, else the config's, else the tokenizer's."""
    said = (model.origin.generation, model.origin.config) if model.origin else ()
    named = next((found for one in said if (found := one.get("eos_token_id")) is not None), None)
    if named is None and model.tokenizer is not None:
        named = model.tokenizer.eos_id
    return [] if named is None else [named] if isinstance(named, int) else list(named)


@dataclasses.dataclass(frozen=True)
class Forced:
    """Ids that a checkpoint fixes rather than chooses.

    ``start`` is what a decoder beside an encoder reads before anything is written (``None``: the spec's). ``first`` is
    written first; ``last`` is written where a row may write no more.
    """

    start: int | None = None
    first: int | None = None
    last: int | None = None


CHOSEN = Forced()


def forced(model: Model, language: str | None = None) -> Forced:
    """What the generation config fixes, or the config where there is none; ``language`` is the token of the language.

    Where the labels' own last token starts the decoder (mBART), that is the language; elsewhere (mBART-50) it is
    written first.

    Raises:
        UsageError: no encoder-decoder, a language that the tokenizer has no token for, or none where one is needed.
    """
    said = (model.origin.generation, model.origin.config) if model.origin else ({}, {})
    start = said[0].get("decoder_start_token_id", said[1].get("decoder_start_token_id"))
    first, last = ((said[0] or said[1]).get(f"forced_{end}_token_id") for end in ("bos", "eos"))
    last = last[0] if isinstance(last, list) else last
    if model.spec.architecture.encoder is None:
        if language is not None:
            raise UsageError(f"{model.spec.name} continues a text in its own language", remedy="leave language out")
        return Forced(None, first, last)
    named = model.spec.architecture.main.tokens.start_id == "last"
    if language is not None:
        code = tokenizer_of(model).token_to_id(language)
        if code is None:
            raise UsageError(f"the tokenizer has no token {language!r}", remedy="name a language as it does: de_DE")
        start, first = (code, first) if named else (start, code)
    if named and start is None:
        raise UsageError(f"{model.spec.name} has to be told the language to write in", remedy="give one, as in de_DE")
    return Forced(start, first, last)


def write(
    model: Model, texts: Sequence[str], *, max_new_tokens: int = 20, language: str | None = None,
    sampling: Sampling = GREEDY, stop: Sequence[str] = (),
) -> list[Text]:  # fmt: skip
    """What the model writes after each text (an encoder-decoder: in answer to it).

    Args:
        model: a writer with its tokenizer.
        texts: what to continue, or to answer.
        max_new_tokens: at most so many.
        language: the token of the language to write in, such as "de_DE"; see :func:`forced`.
        sampling: how each token is chosen.
        stop: a row ends before the first of these that it writes.

    Raises:
        UsageError: see :func:`generate` and :func:`forced`; or a model without a tokenizer.
    """
    require_decoder(model)
    tokenizer = tokenizer_of(model)
    prompts = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    fixed = forced(model, language)
    begun = prompts if model.spec.architecture.encoder is None else [[] for _ in prompts]

    def ended(row: int, ids: Sequence[int]) -> bool:
        return bool(stop) and stopped(continuation(tokenizer, begun[row], ids), stop) is not None

    found = generate(
        model, prompts, max_new_tokens=max_new_tokens, end_ids=end_ids(model), fixed=fixed, sampling=sampling,
        ended=ended,
    )  # fmt: skip
    rows = []
    for text, before, one in zip(texts, begun, found, strict=True):
        names = [tokenizer.id_to_token(i) if i < tokenizer.vocab_size else SPARE for i in one.ids]
        added = continuation(tokenizer, before, one.ids)
        added = added[: stopped(added, stop)]
        rows.append(Text(text, added, one.ids, names, one.log_probabilities, one.stopped))
    return rows


def continuation(tokenizer: Any, prompt: Sequence[int], new: Sequence[int]) -> str:
    """The text that ``new`` ids add to ``prompt``, the space between them included.

    Many tokenizers drop a leading space when ids are decoded alone, so both are decoded together. Ids of spare rows,
    which stand for no token, add nothing.
    """
    known = [one for one in new if one < tokenizer.vocab_size]
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *known])
    return str(whole[len(before) :] if whole.startswith(before) else tokenizer.decode(known))


def stopped(text: str, stop: Sequence[str]) -> int | None:
    """Where the first of ``stop`` begins in ``text``."""
    return min((at for one in stop if one and (at := text.find(one)) >= 0), default=None)


@torch.no_grad()
def generate(
    model: Model, prompts: Sequence[Sequence[int]], *, max_new_tokens: int = 20, end_ids: Sequence[int] = (),
    use_cache: bool = True, fixed: Forced = CHOSEN, sampling: Sampling = GREEDY,
    ended: Callable[[int, Sequence[int]], bool] | None = None,
) -> list[Written]:  # fmt: skip
    """The continuation of each prompt, token by token; each row as if it were alone.

    Args:
        prompts: B lists of ids (an encoder-decoder's source texts).
        max_new_tokens: at most so many, the end token included.
        end_ids: any of these ends its row; the others go on.
        use_cache: False recomputes everything each step, with the same result (a model with a memory and no window
            then sees also what is older than its memory).
        fixed: ids that are not chosen.
        sampling: how each token is chosen; by default the likeliest, the lowest id on ties.
        ended: asked with the number of a row and what it has written, and ends it where true.

    Raises:
        UsageError: see :func:`require_decoder`; a prompt without tokens; or more tokens than the model takes.
    """
    require_decoder(model)
    if not prompts:
        return []
    _require_room(model, prompts, max_new_tokens)
    ends = frozenset(end_ids)
    rows: list[list[tuple[int, float]]] = [[] for _ in prompts]
    done = [False] * len(prompts)
    generators, plain = sampling.generators(len(prompts)), sampling == GREEDY
    before = prompts if model.spec.architecture.encoder is None else [[] for _ in prompts]
    writer = begin(model, prompts, PLAN if use_cache else None, start=fixed.start)
    for step in range(max_new_tokens):
        logits = writer.logits.float()
        scores = logits.log_softmax(-1)
        if not plain:
            written = [[token for token, _ in row] for row in rows]
            logits = torch.stack([
                sampling.penalised(row, old, new, sorted(ends))
                for row, old, new in zip(logits, before, written, strict=True)
            ])  # fmt: skip
        chosen = sampling.choose(logits, generators)
        if step == 0 and fixed.first is not None:
            chosen = torch.full_like(chosen, fixed.first)
        elif step == max_new_tokens - 1 and fixed.last is not None:
            chosen = torch.full_like(chosen, fixed.last)
        for row, token in enumerate(chosen.tolist()):
            if not done[row]:
                rows[row].append((token, float(scores[row, token])))
                done[row] = token in ends or (ended is not None and ended(row, [t for t, _ in rows[row]]))
        if all(done) or step == max_new_tokens - 1:
            break
        writer.step(chosen[:, None])
    return [Written([t for t, _ in row], [p for _, p in row], end) for row, end in zip(rows, done, strict=True)]
