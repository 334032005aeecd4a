"""How likely texts are to a model: perplexity and bits per byte, every token scored exactly once.

A decoder is asked for each token after those before it, an encoder-decoder for a text given its source, and a masked
language model for each token among all others, hidden one at a time (pseudo-log-likelihood; Salazar et al. 2020). What
is longer than a window is read in windows that overlap, and only what no earlier window scored is scored.

What stands before the text, where the tokenizer puts something there, is read and not scored. Where nothing stands
there, a decoder cannot be asked for the first token: it is not scored, nor are its bytes counted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.inference.habits import forced
from variorum.inference.lines import wide
from variorum.model import Model

#: A window where the model has no table of positions that limits it.
USUAL = 2048
#: Tokens that are read together, and states that are scored together: a vocabulary is wide.
TOKENS, STATES = 2048, 256
HEADS = ("causal_lm", "seq2seq_lm", "masked_lm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """How likely texts are: the sum of -log p over so many ``tokens``, and the ``bytes`` of text behind these.

    Scores add up, so that a mean is always over tokens and never over texts or windows.
    """

    nats: float = 0.0
    tokens: int = 0
    bytes: int = 0

    def __add__(self, other: Self) -> Self:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return type(self)(**dict(zip(("nats", "tokens", "bytes"), (a + b for a, b in pairs), strict=True)))

    @property
    def perplexity(self) -> float:
        """exp of the mean over tokens; NaN where no token was scored."""
        return math.exp(self.nats / self.tokens) if self.tokens else math.nan

    @property
    def bits_per_byte(self) -> float:
        """The same in a unit that models of different tokenizers share."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """How a text is read.

    Args:
        window: tokens read at once, special ones included; by default what the model's table of positions allows, or
            :data:`USUAL` where nothing limits it.
        stride: how many tokens each further window scores; half a window by default. The rest of it is context.
        start: a token to read before the text, in the place of those that the tokenizer puts there.

    Raises:
        UsageError: a window or stride that holds nothing, or a stride that leaves tokens out.
    """

    window: int | None = None
    stride: int | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        for name in ("window", "stride"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"a {name} of {value} tokens reads nothing", remedy="give 1 or more")
        if self.window is not None and self.stride is not None and self.stride > self.window:
            raise UsageError(
                f"a stride of {self.stride} tokens leaves some out of windows of {self.window}",
                remedy="give at most as many as the window",
            )

    def settled(self, model: Model) -> tuple[int, int]:
        """Window and stride for this model.

        Raises:
            UsageError: a window beyond the model's longest input.
        """
        limit = longest_input(model)
        window = self.window or limit or USUAL
        if limit is not None and window > limit:
            raise UsageError(
                f"a window of {window:,} tokens is longer than the {limit:,} that {model.spec.name} takes",
                remedy="give a shorter one",
            )
        return window, min(self.stride or max(1, window // 2), window)


class Question(NamedTuple):
    """What is read to score some tokens of a text.

    Attributes:
        text: the number of the text.
        ids: what the stack with the head reads.
        places: the states of it that are asked, and ``targets`` for which token each.
        source: what an encoder reads beside it.
    """

    text: int
    ids: Sequence[int]
    places: Sequence[int]
    targets: Sequence[int]
    source: Sequence[int] = ()


WHOLE = Windows()


@torch.no_grad()
def score(
    model: Model, texts: Sequence[str], *, sources: Sequence[str] | None = None, windows: Windows = WHOLE
) -> list[Score]:
    """How likely each text is to ``model``.

    Args:
        model: one with a causal, sequence-to-sequence or masked language-model head.
        texts: scored each on its own.
        sources: what each is written in answer to, for an encoder-decoder; its end token is scored as well.
        windows: how long texts are read.

    Raises:
        UsageError: a model without such a head; sources where none belong, or not one for each text.
    """
    main = next((name for name in HEADS if name in model.head_names), None)
    if main is None:
        raise UsageError(
            f"{model.spec.name} scores no words here", remedy=f"load a checkpoint with one of {', '.join(HEADS)}"
        )
    if (main == "seq2seq_lm") != (sources is not None) or (sources is not None and len(sources) != len(texts)):
        wants = "a source for each text" if main == "seq2seq_lm" else "no source beside a text"
        raise UsageError(f"{model.spec.name} takes {wants}", remedy="give one for each, to an encoder-decoder alone")
    asker = Asker(model, windows, main)
    nats, counts = [0.0] * len(texts), [0] * len(texts)
    for group in _groups(asker.questions(texts, sources), TOKENS if model.packs or sources else 1):
        for question, own in zip(group, _nats(model, main, group), strict=True):
            nats[question.text] += float(own.double().sum())
            counts[question.text] += len(question.targets)
    return [
        Score(nats=one, tokens=count, bytes=size)
        for one, count, size in zip(nats, counts, asker.sizes, strict=True)
    ]  # fmt: skip


class Asker:
    """The questions that score texts under a model whose head is ``main``; ``sizes`` are the bytes that they cover."""

    def __init__(self, model: Model, windows: Windows, main: str) -> None:
        self.model, self.main, self.tokenizer = model, main, tokenizer_of(model)
        self.window, self.stride = windows.settled(model)
        self.before, self.after = self.tokenizer.wrapper.around
        if windows.start is not None:
            first = self.tokenizer.token_to_id(windows.start)
            if first is None:
                raise UsageError(f"the tokenizer has no token {windows.start!r}", remedy="name one as it spells it")
            self.before = [first]
        self.sizes: list[int] = []

    def questions(self, texts: Sequence[str], sources: Sequence[str] | None) -> Iterator[Question]:
        """Those of every text, in order; each target is in exactly one of them."""
        if sources is not None:
            yield from self._given(texts, sources)
            return
        for number, text in enumerate(texts):
            encoding = self.tokenizer.encode(text, specials=False)
            hides = self.main == "masked_lm"
            unasked = 0 if hides or self.before else encoding.offsets[0][1] if encoding.ids else 0
            self.sizes.append(len(text[unasked:].encode()))
            yield from (self._hidden if hides else self._next)(number, encoding.ids)

    def _next(self, number: int, ids: list[int]) -> Iterator[Question]:
        """Each token after those before it."""
        whole = [*self.before, *ids]
        read, targets, known = whole[:-1], whole[1:], max(0, len(self.before) - 1)
        for begin, done, end in spans(len(read), self.window, self.stride):
            asked = range(max(done, known), end)
            yield Question(number, read[begin:end], [at - begin for at in asked], [targets[at] for at in asked])

    def _hidden(self, number: int, ids: list[int]) -> Iterator[Question]:
        """Each token among all others of its window."""
        mask, before = self.tokenizer.mask_id, len(self.before)
        room = self.window - before - len(self.after)
        if mask is None or room < 1:
            raise UsageError("a token cannot be hidden here", remedy="give a tokenizer with a mask, or a wider window")
        for begin, done, end in spans(len(ids), room, min(self.stride, room)):
            whole = [*self.before, *ids[begin:end], *self.after]
            for at in range(done - begin + before, end - begin + before):
                yield Question(number, [*whole[:at], mask, *whole[at + 1 :]], [at], [whole[at]])

    def _given(self, texts: Sequence[str], sources: Sequence[str]) -> Iterator[Question]:
        """Each token after those before it, beside the source; the wrapper's end is one of them."""
        own = forced(self.model).start if self.model.origin else None
        start = self.model.spec.architecture.main.tokens.start_id if own is None else own
        self.sizes += [len(text.encode()) for text in texts]
        for number, (text, source) in enumerate(zip(texts, sources, strict=True)):
            labels = self.tokenizer.encode(text).ids
            read = [start if isinstance(start, int) else labels[-1], *labels[:-1]]
            places = range(len(self.before), len(labels))
            yield Question(number, read, places, labels[len(self.before) :], self.tokenizer.encode(source).ids)


def spans(count: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Windows over ``count`` tokens: of those read from begin to end, the ones from ``done`` on are new."""
    begin = done = 0
    while done < count:
        end = min(count, begin + window if done == 0 else done + stride)
        begin = max(0, end - window)
        yield begin, done, end
        done = end


def _groups(questions: Iterable[Question], tokens: int) -> Iterator[list[Question]]:
    """Questions in order, as many together as hold ``tokens`` tokens, or one; those that ask nothing in none."""
    group: list[Question] = []
    held = 0
    for question in questions:
        if not question.targets:
            continue
        size = len(question.ids) + len(question.source)
        if group and held + size > tokens:
            yield group
            group, held = [], 0
        group.append(question)
        held += size
    if group:
        yield group


def _nats(model: Model, main: str, group: Sequence[Question]) -> tuple[Tensor, ...]:
    """-log p of the targets of each question."""
    device = next(model.parameters()).device
    rows = [torch.tensor(one.ids, device=device) for one in group]
    if group[0].source:
        ids = pad_sequence(rows, batch_first=True)
        starts = [row * ids.shape[1] for row in range(len(rows))]
        given = {"decoder_input_ids": ids, **_source(model, group, device)}
    else:
        starts = torch.tensor([0, *map(len, rows)]).cumsum(0)[:-1].tolist()
        given = {"input_ids": torch.cat(rows)[None]} | ({"lengths": list(map(len, rows))} if model.packs else {})
    asked = [start + at for start, one in zip(starts, group, strict=True) for at in one.places]
    targets = torch.tensor([target for one in group for target in one.targets], device=device)
    marks = torch.zeros(ids.shape if group[0].source else given["input_ids"].shape, dtype=torch.bool, device=device)
    marks.view(-1)[asked] = True
    if main == "masked_lm":  # some run their last layer again for the head
        logits = model(**given, logits_to_keep=marks).logits_by_head[main]
        losses = F.cross_entropy(wide(logits), targets, reduction="none")
    else:
        head, states = model.heads[main], model(**given, logits_to_keep=1).last_hidden_state[marks]
        parts = zip(states.split(STATES), targets.split(STATES), strict=True)
        losses = torch.cat([F.cross_entropy(wide(head(x)), y, reduction="none") for x, y in parts])
    return losses.split([len(one.targets) for one in group])


def _source(model: Model, group: Sequence[Question], device: torch.device) -> dict[str, Any]:
    """The sources as an encoder's inputs."""
    rows = [torch.tensor(one.source, device=device) for one in group]
    if model.packs:
        return {"input_ids": torch.cat(rows)[None], "lengths": list(map(len, rows))}
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return {"input_ids": pad_sequence(rows, batch_first=True), "attention_mask": mask}
