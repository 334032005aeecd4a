"""``variorum transcribe``: what is said in a recording."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, chosen, emit, say


def command(
    model: str, sound: Path, *, language: str | None = None, task: str = "transcribe", timestamps: bool = False,
    reference: Path | None = None, loading: Loading = PLAIN,
) -> None:  # fmt: skip
    """Write down what is said in a WAV file of any length; silence gives nothing.

    Args:
        model: A directory, a spec's name, or org/name in the cache; one that reads sound, such as whisper-base.
        sound: A WAV file of integer or float samples, any rate, any number of channels.
        language: Its code, such as en or de; heard from the beginning if absent.
        task: transcribe, or translate into English.
        timestamps: Say when each phrase is spoken, in seconds.
        reference: A file with what is really said; the word error rate is printed.
    """
    from variorum.audio import read_wav
    from variorum.text.readers import read_text

    samples, right = read_wav(sound), None if reference is None else read_text(reference)
    from variorum.cli.loading import load
    from variorum.inference.transcribe import transcribe

    passages = transcribe(load(model, loading), samples, language=language, task=task, timestamps=timestamps)
    text = " ".join(one.text for one in passages)
    if not passages:
        say("nobody is heard to speak")
    if right is not None:
        from variorum.tasks.metrics.text import word_errors

        errors = word_errors(text, right)
        emit({"text": text, "words": errors.length, "substituted": errors.substituted, "deleted": errors.deleted,
              "inserted": errors.inserted, "word_error_rate": errors.rate, "passages": passages},
             columns=["text", "words", "substituted", "deleted", "inserted", "word_error_rate"])  # fmt: skip
    elif timestamps:
        emit(passages, columns=[Column("start"), Column("end"), Column("text")])
    elif passages or chosen() != "human":
        emit(passages, human=text)
