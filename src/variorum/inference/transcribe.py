"""Speech to text: stretches of at most half a minute, cut where it is quiet, each written by the decoder.

The likeliest token is taken each time. A stretch without sound is not read at all, and one in which the model hears no
speech gives no text, by the released code's rule.
"""

from __future__ import annotations

import dataclasses
import zlib
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
#: A text that packs so well repeats itself, and was not heard either (released code).
REPEATING = 2.4
#: Tokens that nobody speaks in a second.
HASTE = 20
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
        most = HASTE * max(end - begin for begin, end in group) // audio.RATE + HASTE
        listener = Listener(model, features.to(next(model.parameters())), most, task)
        language = language or listener.language()
        lines = listener.written(language, timestamps=timestamps)
        for (begin, end), ids in zip(group, lines, strict=True):
            found += _passages(model, ids, (begin / audio.RATE, end / audio.RATE), language)
    return found


class Listener:
    """Stretches that are heard together.

    Args:
        features: their spectrograms [N, mels, frames].
        most: tokens that are written at most of each.
    """

    def __init__(self, model: Model, features: Tensor, most: int, task: str) -> None:
        self.model, self.features, self.most, self.task = model, features, most, task
        self.tokenizer, self.ends = tokenizer_of(model), end_ids(model)
        self.writer: Writer | None = None

    def language(self) -> str:
        """The likeliest language of all together."""
        codes = _languages(self.tokenizer)
        chances = wide(self._begun().logits).log_softmax(-1).sum(0)
        return max(codes, key=lambda name: float(chances[codes[name]]))

    def written(self, language: str, *, timestamps: bool) -> list[list[int]]:
        """The ids of each stretch; none where nobody speaks.

        With time stamps a model is likelier to say the same again and again: what does is written without them.
        """
        writer, self.writer = self._begun(), None
        names = [START, f"<|{language}|>", f"<|{self.task}|>", *([] if timestamps else [PLAIN])]
        prompt = [_special(self.tokenizer, name) for name in names]
        nobody = self._nobody(writer.logits)
        writer.step(torch.tensor([prompt[1:]] * len(nobody), device=writer.logits.device))
        lines = self._lines(prompt, len(nobody), timestamps=timestamps)
        for _ in follow(writer, lines, lines[0].strategy.sampling.chances(len(lines))):
            pass
        rows = [[token for token in line.ids if token not in self.ends] for line in lines]
        again = [row for row, ids in enumerate(rows) if timestamps and self._repetition(ids) > REPEATING]
        if again:
            plain = Listener(self.model, self.features[again], self.most, self.task)
            for row, ids in zip(again, plain.written(language, timestamps=False), strict=True):
                rows[row] = min(ids, rows[row], key=self._repetition)
        heard = zip(nobody, rows, lines, strict=True)
        unheard = [chance > SILENT and self._doubtful(ids, line) for chance, ids, line in heard]
        return [[] if nothing else ids for nothing, ids in zip(unheard, rows, strict=True)]

    def _begun(self) -> Writer:
        """All stretches read, and the start token."""
        if self.writer is None:
            start = _special(self.tokenizer, START)
            self.writer = Writer(self.model, [[start]] * len(self.features), source=self.features)
        return self.writer

    def _lines(self, prompt: Sequence[int], count: int, *, timestamps: bool) -> list[Line]:
        room = getattr(self.model.spec.architecture.main.input.positions, "usable", audio.FRAMES) - len(prompt)
        file = said(self.model)
        ruled = {name: file[name] for name in ("suppress_tokens", "begin_suppress_tokens") if name in file}
        strategy = Strategy.of(max_new_tokens=min(room, self.most), end_ids=self.ends, **ruled)
        if not timestamps:
            return [Line(prompt, strategy) for _ in range(count)]
        stamps = _stamps(self.model)
        return [StampedLine(prompt, strategy, stamps) for _ in range(count)]

    def _nobody(self, scores: Tensor) -> list[float]:
        """How sure the model is, from its scores [N, V] after the start token, that nobody speaks in each row."""
        ids = [found for name in NOBODY if (found := self.tokenizer.token_to_id(name)) is not None]
        return wide(scores).softmax(-1)[:, ids].sum(-1).tolist()

    def _doubtful(self, ids: Sequence[int], line: Line) -> bool:
        """Whether what was written is unsure, or says the same again and again."""
        mean = sum(line.log_probabilities) / len(line.log_probabilities)
        return mean < UNSURE or self._repetition(ids) > REPEATING

    def _repetition(self, ids: Sequence[int]) -> float:
        """How much smaller a text becomes when it is packed."""
        text = self.tokenizer.decode([token for token in ids if token < self.tokenizer.vocab_size]).encode()
        return len(text) / len(zlib.compress(text))


def _passages(model: Model, ids: list[int], span: tuple[float, float], language: str) -> Iterator[Passage]:
    """What was written of a stretch, in phrases where there are time stamps."""
    tokenizer, (begin, end) = tokenizer_of(model), span
    for first, last, words in _stamps(model).segments(ids, end - begin):
        text = tokenizer.decode(words).strip()
        if text:
            yield Passage(round(begin + first, 3), round(begin + last, 3), text, words, language)


def _stamps(model: Model) -> Stamps:
    """The time stamps: as the tokenizer spells them, or what the model knows beyond what it spells."""
    tokenizer = tokenizer_of(model)
    first = min(tokenizer.marks, default=tokenizer.vocab_size)
    return Stamps(first, min(end_ids(model), default=first))


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
