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


def headed(kind: int, width: int, data: bytes, channels: int = 1, rate: int = 16_000, size: int | None = None) -> bytes:
    """A WAV file by hand, with a chunk of something else before the samples."""
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * width, channels * width, 8 * width)
    if kind == audio.EXTENSIBLE:
        form += struct.pack("<HHIH14s", 22, 8 * width, 0, audio.INTEGERS, b"\0" * 14)
    form = b"fmt " + struct.pack("<I", len(form)) + form
    other = b"LIST" + struct.pack("<I", 3) + b"odd\0"
    samples = b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", 4 + len(form + other + samples)) + b"WAVE" + form + other + samples


@pytest.mark.parametrize("width", [4, 8])
def test_floats_are_read(tmp_path: Path, width: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(headed(audio.FLOAT, width, np.array(tone(800), f"<f{width}").tobytes()))
    assert float((audio.read_wav(path) - torch.tensor(tone(800))).abs().max()) < 1e-7


def test_integers_that_are_declared_further_on_and_streams_of_unknown_length_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    numbers = (32767 * np.array(tone(800))).astype("<i2").tobytes()
    for raw in (headed(audio.EXTENSIBLE, 2, numbers), headed(audio.INTEGERS, 2, numbers, size=0xFFFF_FFFF)):
        path.write_bytes(raw)
        assert float((audio.read_wav(path) - torch.tensor(tone(800))).abs().max()) < 1e-4


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (headed(7, 1, b"\0" * 100), "format 7"),
        (headed(1, 5, b"\0" * 100), "40 bits"),
        (headed(1, 2, b"\0" * 100, channels=0), "16 bits"),
        (headed(1, 2, b"\0" * 100, rate=0), "0 samples a second"),
        (headed(1, 2, b"\0" * 100, rate=2_000_000_000), "2,000,000,000 samples a second"),
        (headed(3, 4, np.array([0.1, np.nan], "<f4").tobytes()), "not finite"),
        (headed(1, 2, b"\0" * 3), "within a sample"),
        (b"RIFF\0\0\0\0WAVE" + b"data" + struct.pack("<I", 2) + b"ab", "no format"),
        (b"RIFX" + b"\0" * 40, "no WAV file"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, raw: bytes, says: str) -> None:
    (tmp_path / "a.wav").write_bytes(raw)
    with pytest.raises(DamagedFile, match=says):
        audio.read_wav(tmp_path / "a.wav")


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
