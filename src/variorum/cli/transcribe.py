"""``variorum transcribe``: what is said in a recording."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit


def command(
    model: str, sound: Path, *, language: str | None = None, task: str = "transcribe", loading: Loading = PLAIN
) -> None:
    """Write down what is said in a WAV file.

    Args:
        model: A directory, a spec's name, or org/name in the cache; one that reads sound, such as whisper-base.
        sound: A WAV file of integer samples, any rate, any number of channels.
        language: Its code, such as en or de; heard from the first half minute if absent.
        task: transcribe, or translate into English.
    """
    from variorum.audio import read_wav
    from variorum.cli.loading import load
    from variorum.inference.transcribe import transcribe

    samples = read_wav(sound)
    windows = transcribe(load(model, loading), samples, language=language, task=task)
    emit(windows, human="\n".join(window.text for window in windows))
