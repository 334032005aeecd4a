"""Speech to text: stretches of at most half a minute, cut where it is quiet, each written by the decoder.

The likeliest token is taken each time. A stretch without sound is not read at all, and one in which the model hears no
speech gives no text, by the released code's rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from variorum import audio
from variorum.errors import UsageError, nearest
from variorum.inference.encode import tokenizer_of
from variorum.inference.generate import follow
from variorum.inference.habits import end_ids, said
from variorum.inference.lines import Line, wide
from variorum.inference.strategy import Strategy
from variorum.inference.timestamps import StampedLine, Stamps
from variorum.inference.writer import Writer
from variorum.model import Model
from variorum.spec.inputs import MelInput

START, PLAIN = "<|startoftranscript|>", "<|notimestamps|>"
#: What older and newer tokenizers call the token whose chance says that nobody speaks.
NOBODY = ("<|nospeech|>", "<|nocaptions|>")
#: Nobody speaks where that chance is above, and the mean log-probability of what was written below (released code).
SILENT, UNSURE = 0.6, -1.0
#: Stretches that are read together.
TOGETHER = 8


@dataclasses.dataclass(frozen=True)
class Passage:
    """What was heard from ``start`` to ``end``, in seconds: the text, the ids behind it, the language."""

    start: float
    end: float
    text: str
    ids: list[int]
    language: str


def transcribe(
    model: Model, samples: Tensor, *, language: str | None = None, task: str = "transcribe", timestamps: bool = False
) -> list[Passage]:
    """The words in a recording, in order; nothing for what is silent.

    Args:
        model: one that reads sound and writes text (Whisper).
        samples: mono at 16 kHz, [S]; see :func:`variorum.audio.read_wav`.
        language: its code, such as "en"; heard from the first minutes if absent.
        task: "transcribe", or "translate" (into English).
        timestamps: have the model say when what is spoken; a passage is a phrase then, or else a stretch.

    Raises:
        UsageError: a model that does not read sound, no samples, or a language or task that it does not know.
    """
    encoder = model.spec.architecture.encoder
    if encoder is None or not isinstance(encoder.input, MelInput) or "seq2seq_lm" not in model.head_names:
        raise UsageError(f"{model.spec.name} does not write down what it hears", remedy="take a model such as whisper")
    if not len(samples):
        raise UsageError("there is no sound to transcribe", remedy="give a longer recording")
    tokenizer = tokenizer_of(model)
    if timestamps and _stamps(model).first >= model.spec.architecture.vocab:
        raise UsageError(f"{model.spec.name} has no time stamps", remedy="leave timestamps out")
    for name in (f"<|{task}|>", *([] if language is None else [f"<|{language}|>"])):
        _special(tokenizer, name)
    heard = [(begin, end) for begin, end in audio.stretches(samples) if not audio.is_silent(samples[begin:end])]
    found: list[Passage] = []
    for at in range(0, len(heard), TOGETHER):
        group = heard[at : at + TOGETHER]
        features = torch.stack([audio.log_mel(samples[begin:end], encoder.input.mels) for begin, end in group])
        writer = Writer(model, [[_special(tokenizer, START)]] * len(group), source=features.to(_like(model)))
        language = language or _heard(tokenizer, writer.logits)
        prompt = [START, f"<|{language}|>", f"<|{task}|>", *([] if timestamps else [PLAIN])]
        lines = _written(model, writer, [_special(tokenizer, name) for name in prompt], timestamps=timestamps)
        for (begin, end), ids in zip(group, lines, strict=True):
            found += _passages(model, ids, (begin / audio.RATE, end / audio.RATE), language)
    return found


def _written(model: Model, writer: Writer, prompt: Sequence[int], *, timestamps: bool) -> list[list[int]]:
    """The ids that follow ``prompt``, of which the writer has read the first, in each row: none where nobody speaks."""
    nobody = _nobody(tokenizer_of(model), writer.logits)
    writer.step(torch.tensor([prompt[1:]] * len(nobody), device=writer.logits.device))
    room = getattr(model.spec.architecture.main.input.positions, "usable", audio.FRAMES) - len(prompt)
    ruled = {name: said(model)[name] for name in ("suppress_tokens", "begin_suppress_tokens") if name in said(model)}
    ends = end_ids(model)
    strategy = Strategy.of(max_new_tokens=room, end_ids=ends, **ruled)
    lines = [Line(prompt, strategy) for _ in nobody]
    if timestamps:
        stamps = _stamps(model)
        lines = [StampedLine(prompt, strategy, stamps) for _ in nobody]
    for _ in follow(writer, lines, strategy.sampling.chances(len(lines))):
        pass
    unsure = [sum(line.log_probabilities) / len(line.ids) < UNSURE for line in lines]
    quiet = [chance > SILENT and doubt for chance, doubt in zip(nobody, unsure, strict=True)]
    return [
        [] if nothing else [token for token in line.ids if token not in ends]
        for line, nothing in zip(lines, quiet, strict=True)
    ]


def _passages(model: Model, ids: list[int], span: tuple[float, float], language: str) -> Iterator[Passage]:
    """What was written of a stretch, in phrases where there are time stamps."""
    tokenizer, (begin, end) = tokenizer_of(model), span
    for first, last, words in _stamps(model).segments(ids, end - begin):
        text = tokenizer.decode(words).strip()
        if text:
            yield Passage(begin + first, begin + last, text, words, language)


def _stamps(model: Model) -> Stamps:
    """The time stamps: as the tokenizer spells them, or what the model knows beyond what it spells."""
    tokenizer = tokenizer_of(model)
    first = min(tokenizer.marks, default=tokenizer.vocab_size)
    return Stamps(first, min(end_ids(model), default=first))


def _nobody(tokenizer: Any, scores: Tensor) -> list[float]:
    """How sure the model is, from its scores [N, V] after the start token, that nobody speaks in each row."""
    ids = [found for name in NOBODY if (found := tokenizer.token_to_id(name)) is not None]
    return wide(scores).softmax(-1)[:, ids].sum(-1).tolist()


def _heard(tokenizer: Any, scores: Tensor) -> str:
    """The likeliest language of all rows together, by the scores [N, V] after the start token."""
    codes = _languages(tokenizer)
    chances = wide(scores).log_softmax(-1).sum(0)
    return max(codes, key=lambda name: float(chances[codes[name]]))


def _like(model: Model) -> Tensor:
    return next(model.parameters())


def _languages(tokenizer: Any) -> dict[str, int]:
    """Code -> id of every language token: they stand between the start token and the tasks."""
    first, last = _special(tokenizer, START) + 1, _special(tokenizer, "<|translate|>")
    return {tokenizer.id_to_token(one)[2:-2]: one for one in range(first, last)}


def _special(tokenizer: Any, name: str) -> int:
    found = tokenizer.token_to_id(name)
    if found is None:
        known = [*_languages(tokenizer), "transcribe", "translate"] if name != START else []
        raise UsageError(
            f"the tokenizer has no {name}", remedy=nearest(name[2:-2], known) or "use the model's own tokenizer"
        )
    return int(found)
