"""Sound is read as the published feature extractor reads it."""

from __future__ import annotations

import math
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from variorum import audio
from variorum.errors import DamagedFile, NotFound, UsageError


def written(path: Path, samples: list[float], *, rate: int = 16_000, width: int = 2, channels: int = 1) -> Path:
    """A WAV file of integer samples; frames hold every channel."""
    scale = 2.0 ** (8 * width - 1) - 1
    numbers = [round(value * scale) for value in samples]
    raw = b"".join(struct.pack("<i", number)[:width] for number in numbers)
    if width == 1:
        raw = bytes(number + 128 for number in numbers)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw)
    return path


def tone(count: int, hertz: float = 440.0, rate: int = 16_000) -> list[float]:
    return [0.5 * math.sin(2 * math.pi * hertz * i / rate) for i in range(count)]


@pytest.mark.mechanism("I4")
@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.3, 7.0, 31.0])
def test_spectrograms_are_those_of_the_published_extractor(mels: int, seconds: float) -> None:
    samples = 0.3 * torch.randn(int(seconds * audio.RATE), generator=torch.Generator().manual_seed(mels))
    extractor = transformers.WhisperFeatureExtractor(feature_size=mels)
    right = extractor(samples.numpy(), sampling_rate=audio.RATE, return_tensors="pt").input_features[0]
    found = audio.log_mel(samples, mels)
    assert found.shape == right.shape == (mels, 3000)
    assert float((found - right).abs().max()) <= 1e-5
    assert np.abs(extractor.mel_filters.T - audio.filters(mels).numpy()).max() <= 1e-8


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_every_width_are_the_same_sound(tmp_path: Path, width: int) -> None:
    found = audio.read_wav(written(tmp_path / "a.wav", tone(800), width=width))
    assert found.dtype == torch.float32
    assert float((found - torch.tensor(tone(800))).abs().max()) <= 2.0 ** (2 - 8 * width) + 1e-7


def test_channels_are_averaged_and_rates_brought_to_16_khz(tmp_path: Path) -> None:
    both = [value for pair in zip(tone(4800, rate=48_000), [0.0] * 4800, strict=True) for value in pair]
    found = audio.read_wav(written(tmp_path / "a.wav", both, rate=48_000, channels=2))
    assert found.shape == (1600,)
    middle = slice(200, -200)  # the filter of the resampler rings at both ends
    assert float((found[middle] - 0.5 * torch.tensor(tone(1600))[middle]).abs().max()) < 2e-3


def test_what_is_no_whole_wav_file_is_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "a.wav", tone(800)).read_bytes()
    for name, data in (("cut.wav", good[:-100]), ("text.wav", b"RIFF but no more"), ("none.wav", b"")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DamagedFile):
            audio.read_wav(tmp_path / name)
    with pytest.raises(UsageError, match="no sound"):
        audio.read_wav(written(tmp_path / "silent.wav", []))
    with pytest.raises(NotFound):
        audio.read_wav(tmp_path / "absent.wav")
