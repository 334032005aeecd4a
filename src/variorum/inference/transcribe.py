"""Speech to text: windows of half a minute, each written by the decoder, the likeliest token each time.

Times are not asked for: a window is read whole, so a word that a window's edge cuts may be lost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from variorum import audio
from variorum.errors import UsageError, nearest
from variorum.inference.encode import tokenizer_of
from variorum.inference.generate import follow
from variorum.inference.habits import end_ids, said
from variorum.inference.lines import Line
from variorum.inference.strategy import Strategy
from variorum.inference.writer import Writer
from variorum.model import Model
from variorum.spec.inputs import MelInput

START, PLAIN = "<|startoftranscript|>", "<|notimestamps|>"


@dataclasses.dataclass(frozen=True)
class Window:
    """What was heard in one window: ``start`` and ``end`` in seconds, the text, the ids behind it, the language."""

    start: float
    end: float
    text: str
    ids: list[int]
    language: str


def transcribe(
    model: Model, samples: Tensor, *, language: str | None = None, task: str = "transcribe"
) -> list[Window]:  # fmt: skip
    """The words in a recording.

    Args:
        model: one that reads sound and writes text (Whisper).
        samples: mono at 16 kHz, [S]; see :func:`variorum.audio.read_wav`.
        language: its code, such as "en"; heard from the first window if absent.
        task: "transcribe", or "translate" (into English).

    Raises:
        UsageError: a model that does not read sound, no samples, or a language or task that it does not know.
    """
    encoder = model.spec.architecture.encoder
    if encoder is None or not isinstance(encoder.input, MelInput) or "seq2seq_lm" not in model.head_names:
        raise UsageError(f"{model.spec.name} does not write down what it hears", remedy="take a model such as whisper")
    if not len(samples):
        raise UsageError("there is no sound to transcribe", remedy="give a longer recording")
    tokenizer, length = tokenizer_of(model), audio.SECONDS * audio.RATE
    pieces = list(samples.split(length))
    features = torch.stack([audio.log_mel(piece, encoder.input.mels) for piece in pieces])
    features = features.to(next(model.parameters()))
    language = language or _heard(model, tokenizer, features[:1])
    prefix = [_special(tokenizer, name) for name in (START, f"<|{language}|>", f"<|{task}|>", PLAIN)]
    rows = _written(model, features, prefix)
    return [
        Window(
            number * audio.SECONDS, number * audio.SECONDS + len(piece) / audio.RATE, tokenizer.decode(ids).strip(),
            ids, language,
        )
        for number, (piece, ids) in enumerate(zip(pieces, rows, strict=True))
    ]  # fmt: skip


def _written(model: Model, features: Tensor, prefix: Sequence[int]) -> list[list[int]]:
    """The ids that follow ``prefix`` for each of the spectrograms [N, mels, frames], end ids left out."""
    room = getattr(model.spec.architecture.main.input.positions, "usable", audio.FRAMES) - len(prefix)
    suppressed = {
        name: said(model)[name] for name in ("suppress_tokens", "begin_suppress_tokens") if name in said(model)
    }
    ends = end_ids(model)
    strategy = Strategy.of(max_new_tokens=room, end_ids=ends, **suppressed)
    lines = [Line(prefix, strategy) for _ in features]
    writer = Writer(model, [prefix] * len(lines), source=features)
    for _ in follow(writer, lines, strategy.sampling.chances(len(lines))):
        pass
    return [[token for token in line.ids if token not in ends] for line in lines]


@torch.no_grad()
def _heard(model: Model, tokenizer: Any, features: Tensor) -> str:
    """The likeliest language of a spectrogram [1, mels, frames]."""
    codes = _languages(tokenizer)
    start = torch.tensor([[_special(tokenizer, START)]], device=features.device)
    out = model(input_features=features, decoder_input_ids=start)
    assert out.logits is not None
    scores = out.logits[0, -1]
    return max(codes, key=lambda name: float(scores[codes[name]]))


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
