"""Sound as a speech model reads it: a WAV file to samples, samples to a log-mel spectrogram.

The spectrogram is Whisper's (Radford et al. 2022, released code): 16 kHz, windows of 25 ms every 10 ms, bands on the
Slaney mel scale, logarithms clipped 8 below the loudest.
"""

from __future__ import annotations

import functools
import math
import sys
import wave
from array import array
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.errors import DamagedFile, NotFound, UsageError

RATE = 16_000
WINDOW, HOP = 400, 160
SECONDS = 30
FRAMES = SECONDS * RATE // HOP
#: The mel scale is linear up to here, logarithmic beyond.
_BREAK, _BELOW, _ABOVE = 1000.0, 200.0 / 3, math.log(6.4) / 27


def read_wav(path: str | Path) -> Tensor:
    """A WAV file as mono samples at 16 kHz, float32 in [-1, 1], [S].

    Raises:
        NotFound: no such file. DamagedFile: not a whole WAV file of integers. UsageError: there is nothing in it.
    """
    try:
        with wave.open(str(path), "rb") as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            wanted, data = file.getnframes(), file.readframes(file.getnframes())
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path), remedy="check the path") from None
    except (wave.Error, EOFError) as error:
        raise DamagedFile(f"no WAV file of integer samples ({error})", where=str(path)) from error
    if len(data) != wanted * channels * width or not rate:
        raise DamagedFile("the file ends before its samples do", where=str(path))
    if not wanted:
        raise UsageError("there is no sound in it", where=str(path), remedy="give a longer recording")
    samples = _integers(data, width, str(path)).unflatten(0, (wanted, channels)).mean(-1)
    return resampled(samples, rate)


def _integers(data: bytes, width: int, where: str) -> Tensor:
    """Little-endian samples of 8 (unsigned), 16, 24 or 32 bits as float32 in [-1, 1]."""
    if width == 1:
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).float() / 128 - 1
    if width == 3:
        low, middle, high = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 3).int().unbind(-1)
        return (((high << 24) | (middle << 16) | (low << 8)) >> 8).float() / 2**23
    if width not in (2, 4):
        raise DamagedFile(f"samples of {8 * width} bits", where=where, remedy="8, 16, 24 and 32 are read")
    numbers = array("h" if width == 2 else "i", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return torch.tensor(numbers).float() / 2.0 ** (8 * width - 1)


def resampled(samples: Tensor, rate: int, to: int = RATE) -> Tensor:
    """Samples [S] at ``rate`` as samples at ``to`` Hz."""
    if rate == to:
        return samples
    from scipy.signal import resample_poly

    shared = math.gcd(rate, to)
    return torch.from_numpy(resample_poly(samples.double().numpy(), to // shared, rate // shared)).float()


def log_mel(samples: Tensor, mels: int = 80, frames: int = FRAMES) -> Tensor:
    """Samples [S] at 16 kHz -> log-mel frames [mels, frames], silence added or the rest cut to fill them."""
    wanted = frames * HOP
    padded = F.pad(samples[:wanted].float(), (0, max(0, wanted - len(samples))))
    spectrum = torch.stft(padded, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True)
    power = spectrum[:, :-1].abs().square()
    loudness = (filters(mels) @ power).clamp(min=1e-10).log10()
    return (loudness.clamp(min=float(loudness.max()) - 8.0) + 4.0) / 4.0


@functools.cache
def filters(mels: int) -> Tensor:
    """Triangles of equal area that overlap by half on the Slaney mel scale, from 0 to 8 kHz, [mels, 201]."""
    edges = _hertz(torch.linspace(0.0, _mel(RATE / 2), mels + 2, dtype=torch.float64))
    bins = torch.linspace(0.0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    widths = edges.diff()
    rising = (bins - edges[:-2, None]) / widths[:-1, None]
    falling = (edges[2:, None] - bins) / widths[1:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (torch.minimum(rising, falling).clamp(min=0.0) * area[:, None]).float()


def _mel(hertz: float) -> float:
    return hertz / _BELOW if hertz < _BREAK else _BREAK / _BELOW + math.log(hertz / _BREAK) / _ABOVE


def _hertz(mel: Tensor) -> Tensor:
    knee = _BREAK / _BELOW
    return torch.where(mel < knee, mel * _BELOW, _BREAK * ((mel - knee) * _ABOVE).exp())
