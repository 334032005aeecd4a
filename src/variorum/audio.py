"""Sound as a speech model reads it: a WAV file to samples, samples to a log-mel spectrogram.

The spectrogram is Whisper's (Radford et al. 2022, released code): 16 kHz, windows of 25 ms every 10 ms, bands on the
Slaney mel scale, logarithms clipped 8 below the loudest.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.errors import AccessError, DamagedFile, NotFound, UsageError

RATE = 16_000
WINDOW, HOP = 400, 160
SECONDS = 30
FRAMES = SECONDS * RATE // HOP
#: What a WAV file calls integers and floats, and the word for "see further on"; each with the bytes of a sample.
INTEGERS, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
READ = {(INTEGERS, 1), (INTEGERS, 2), (INTEGERS, 3), (INTEGERS, 4), (FLOAT, 4), (FLOAT, 8)}
SLOWEST, FASTEST = 1_000, 768_000
#: Lengths from here on mean "until the end".
PIPED = 0x7FFF_0000
#: A window is cut in its last ten seconds.
LOOK = 10.0
#: Seconds over which loudness is taken, and that of a sound that is none: 60 dB below the loudest there can be.
BRIEF, FAINT = 0.1, 1e-3
#: The mel scale is linear up to here, logarithmic beyond.
_BREAK, _BELOW, _ABOVE = 1000.0, 200.0 / 3, math.log(6.4) / 27


def read_wav(path: str | Path) -> Tensor:
    """A WAV file as mono samples at 16 kHz, float32 in [-1, 1], [S].

    Raises:
        NotFound: no such file. DamagedFile: not a whole WAV file of plain integers or floats. UsageError: it is empty.
    """
    where = str(path)
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound("no such file", where=where, remedy="check the path") from None
    except OSError as error:
        raise AccessError(f"cannot read ({error.strerror})", where=where) from None
    form, data = _chunks(raw, where)
    kind, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", form[:16])
    if kind == EXTENSIBLE and len(form) >= 26:
        (kind,) = struct.unpack("<H", form[24:26])
    width = frame // channels if channels else 0
    if (kind, width) not in READ or frame != width * channels or not bits:
        raise DamagedFile(
            f"samples of {bits} bits in format {kind}", where=where,
            remedy="8, 16, 24 and 32 bits are read, and floats of 32 and 64; convert it to one of these",
        )  # fmt: skip
    if not SLOWEST <= rate <= FASTEST:
        raise DamagedFile(f"{rate:,} samples a second", where=where, remedy=f"{SLOWEST:,} to {FASTEST:,} are read")
    if not data:
        raise UsageError("there is no sound in it", where=where, remedy="give a longer recording")
    if len(data) % frame:
        raise DamagedFile("the file ends within a sample", where=where)
    samples = _numbers(data, kind, width).unflatten(0, (-1, channels)).mean(-1)
    if not bool(samples.isfinite().all()):
        raise DamagedFile("holds samples that are not finite", where=where)
    return resampled(samples, rate)


def _chunks(raw: bytes, where: str) -> tuple[bytes, bytes]:
    """The format of a RIFF WAVE file, and its samples; what else it holds is passed over.

    A file that was written to a pipe does not know its length, and says more than any could have.
    """
    if raw[:4] != b"RIFF" or raw[8:12] != b"WAVE":
        raise DamagedFile("is no WAV file", where=where, remedy="convert it to one")
    at, form = 12, b""
    while at + 8 <= len(raw):
        name, size = struct.unpack("<4sI", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + size]
        if name == b"fmt ":
            form = body
        if name == b"data":
            if len(form) < 16:
                break
            if len(body) < size < PIPED:
                raise DamagedFile("the file ends before its samples do", where=where)
            return form, body
        at += 8 + size + size % 2
    raise DamagedFile("is no whole WAV file: it has no format or no samples", where=where)


def _numbers(data: bytes, kind: int, width: int) -> Tensor:
    """Little-endian samples as float32: integers of 1 byte (unsigned) to 4 as shares of the largest, or floats."""
    if kind == FLOAT:
        return torch.from_numpy(np.frombuffer(data, f"<f{width}").astype(np.float32))
    if width == 1:
        return torch.from_numpy(np.frombuffer(data, np.uint8).astype(np.float32)) / 128 - 1
    if width == 3:
        low, middle, high = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32).T
        numbers = ((high << 24) | (middle << 16) | (low << 8)) >> 8
    else:
        numbers = np.frombuffer(data, f"<i{width}")
    return torch.from_numpy(numbers.astype(np.float32)) / 2.0 ** (8 * width - 1)


def resampled(samples: Tensor, rate: int, to: int = RATE) -> Tensor:
    """Samples [S] at ``rate`` as samples at ``to`` Hz."""
    if rate == to:
        return samples
    from scipy.signal import resample_poly

    shared = math.gcd(rate, to)
    return torch.from_numpy(resample_poly(samples.double().numpy(), to // shared, rate // shared)).float()


def stretches(samples: Tensor) -> list[tuple[int, int]]:
    """Samples [S] at 16 kHz as stretches of at most 30 seconds, [begin, end) each, cut in the longest pause.

    So a word lies within one stretch, wherever speech pauses once in ten seconds.
    """
    longest, look = SECONDS * RATE, int(LOOK * RATE)
    found, begin = [], 0
    while len(samples) - begin > longest:
        end = begin + longest - look + _pause(samples[begin + longest - look : begin + longest])
        found.append((begin, end))
        begin = end
    return [*found, (begin, len(samples))]


def _pause(samples: Tensor) -> int:
    """The middle of the longest time without a sound, or of the quietest moment where there is none."""
    brief = int(BRIEF * RATE)
    step = brief // 4
    loudness = samples.square().unfold(0, brief, step).mean(-1)
    still = (loudness <= max(float(loudness.min()), FAINT**2)).tolist()
    runs = list(itertools.accumulate(still, lambda run, one: run + 1 if one else 0, initial=0))[1:]
    longest = max(runs)
    return (2 * runs.index(longest) - longest + 1) * step // 2 + brief // 2


def is_silent(samples: Tensor) -> bool:
    """Whether no tenth of a second of samples [S] is louder than :data:`FAINT`."""
    brief = int(BRIEF * RATE)
    padded = F.pad(samples, (0, -len(samples) % brief))
    return bool(padded.view(-1, brief).square().mean(-1).max() < FAINT**2)


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
